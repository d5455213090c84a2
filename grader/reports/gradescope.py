"""``gradescope``: ``results/results.json`` of a Gradescope autograder, one test per check.

Where an exercise could not be graded there is no score at all, neither of the whole nor of a test: Gradescope then
reports a failed autograder, and no zero is recorded. Format: https://gradescope-autograders.readthedocs.io/en/latest/specs/
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from grader.errors import UsageError
from grader.model import CheckResult
from grader.reports import digest
from grader.reports.digest import Room
from grader.reports.entry import Entry
from grader.reports.setting import VISIBILITIES, Setting
from grader.submission import inert

MAX_BYTES = 1_000_000
MAX_PRINTED = 10_000


def render(entries: Sequence[Entry], setting: Setting) -> str:
    """One student's exercises; raises `UsageError` for a visibility that Gradescope does not know."""
    if setting.visibility not in VISIBILITIES:
        raise UsageError(f"visibility {setting.visibility}: Gradescope knows {', '.join(VISIBILITIES)}")
    return digest.fit(lambda room: _text(entries, setting, room), MAX_BYTES)


def _text(entries: Sequence[Entry], setting: Setting, room: Room) -> str:
    total = digest.total(entries)
    body: dict[str, Any] = {}
    if total.score is not None:
        body["score"] = digest.number(total.score)
    body["execution_time"] = round(sum(entry.report.timings.get("total_s", 0.0) for entry in entries), 3)
    body["output"] = _overview(entries, total, room)
    body["output_format"] = body["test_output_format"] = body["test_name_format"] = "text"
    body["visibility"] = setting.visibility
    # What the autograder's process prints is for staff; a student's own output stands in `output`.
    body["stdout_visibility"] = "hidden"
    body["extra_data"] = {
        entry.report.exercise: {
            "status": entry.report.status,
            "passed": entry.report.passed,
            "score": entry.report.score,
            "max_score": entry.report.max_score,
            "sha256": entry.report.submission.get("sha256"),
            "version": entry.report.versions.get("grader", ""),
        }
        for entry in entries
    }
    tests = [
        _test(entries, entry, check, f"{at}.{number}" if len(entries) > 1 else str(number), total, setting, room)
        for at, entry in enumerate(entries, start=1)
        for number, check in enumerate(entry.report.checks, start=1)
    ]
    body["tests"] = digest.listed(
        tests, room, lambda rest: {"name": f"{rest} more checks", "output": "Not listed: too many.", "status": "passed"}
    )
    return json.dumps(body, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _overview(entries: Sequence[Entry], total: digest.Total, room: Room) -> str:
    lines = []
    for entry in entries:
        report = entry.report
        if report.score is not None and report.status == "graded":
            word = "passed" if report.passed else "not passed"
            lines.append(f"{report.exercise}: {word}, {digest.points(report.score, report.max_score)}")
            if not report.secret:
                lines.append(f"  same cases again: grade {report.exercise} --seed {report.seed}")
    if total.ungraded:
        lines.append(digest.fault(total.ungraded))
        if len(entries) > len(total.ungraded):
            lines.append("There is no total as long as an exercise has no score.")
    for entry in entries:
        if entry.report.output:
            printed = digest.cut(entry.report.output, min(room.text, MAX_PRINTED))
            lines.append(f"\nWhat {entry.report.exercise} printed:\n{printed}")
    return inert("\n".join(lines))


def _test(
    entries: Sequence[Entry],
    entry: Entry,
    check: CheckResult,
    number: str,
    total: digest.Total,
    setting: Setting,
    room: Room,
) -> dict[str, Any]:
    report = entry.report
    state = digest.state(report, check)
    name = digest.label(entries, entry, check)
    text = digest.feedback(check)
    test: dict[str, Any] = {"name": name, "number": number, "tags": [report.exercise, check.id]}
    if state == "fault":
        text = f"Not graded: {digest.reason(report) if report.status != 'graded' else text}"
    elif check.advisory:
        test["name"] = f"{name} (advisory, does not count)"
    else:
        if total.score is None:
            text = f"{digest.points(check.points, check.max_points)}\n{text}".rstrip()
        else:
            test["score"] = digest.number(check.points)
            test["max_score"] = digest.number(check.max_points)
        # Said, because Gradescope would otherwise tell it from the points, and a check may be worth none.
        test["status"] = "failed" if digest.withheld(report, check) else "passed"
    if state == "neutral":
        text = f"{text}\nIt is not held against you.".lstrip()
    test["output"] = digest.cut(text, room.text)
    test["visibility"] = setting.visibility
    return test
