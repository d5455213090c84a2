"""``prairielearn``: ``results.json`` of an external grader.

What could not be graded is ``gradable: false``, which costs a student neither points nor an attempt.
Format: https://prairielearn.readthedocs.io/en/latest/externalGrading/
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from grader.reports import digest
from grader.reports.digest import Room
from grader.reports.entry import Entry
from grader.reports.setting import Setting
from grader.submission import inert

MAX_BYTES = 1_000_000


def render(entries: Sequence[Entry], setting: Setting) -> str:
    return digest.fit(lambda room: _text(entries, room), MAX_BYTES)


def _text(entries: Sequence[Entry], room: Room) -> str:
    total = digest.total(entries)
    body: dict[str, Any]
    if total.share is None:
        body = {
            "gradable": False,
            "format_errors": [digest.cut(digest.fault([report]), room.text) for report in total.ungraded],
            "message": "Not graded. This is the grader's fault, and counts as no attempt.",
        }
    else:
        word = "All checks passed." if total.passed else "Some checks did not pass."
        body = {
            "gradable": True,
            "score": round(total.share, digest.DIGITS),
            "message": f"{word} {digest.points(total.score or 0.0, total.max_score)}",
        }
    printed = [f"{entry.report.exercise} printed:\n{entry.report.output}" for entry in entries if entry.report.output]
    if printed:
        body["output"] = digest.cut(inert("\n\n".join(printed)), room.text)
    tests = [_test(entries, entry, number, room) for entry in entries for number in range(len(entry.report.checks))]
    if total.share is not None:
        body["tests"] = digest.listed(
            tests,
            room,
            lambda rest: {"name": f"{rest} more checks, not listed", "points": 0, "max_points": 0},
        )
    return json.dumps(body, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _test(entries: Sequence[Entry], entry: Entry, number: int, room: Room) -> dict[str, Any]:
    check = entry.report.checks[number]
    name = digest.label(entries, entry, check)
    state = digest.state(entry.report, check)
    words = {"passed": "Passed.", "blocked": "Not run.", "neutral": "Could not be decided; the points are given."}
    message = words.get(state, digest.claim(check))
    return {
        "name": f"{name} (advisory, does not count)" if check.advisory else name,
        "points": 0 if check.advisory else digest.number(check.points),
        "max_points": 0 if check.advisory else digest.number(check.max_points),
        "message": digest.cut(message, room.text),
        "output": digest.cut(digest.feedback(check), room.text),
    }
