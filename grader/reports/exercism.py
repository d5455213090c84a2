"""``exercism``: ``results.json`` of an Exercism test runner, version 3.

``error`` stands only where nothing ran: a file that cannot be loaded, or a grader that could not grade. Advisory
checks are left out, since the format knows no test that does not count.
Format: https://exercism.org/docs/building/tooling/test-runners/interface
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from grader.model import CheckResult
from grader.reports import digest
from grader.reports.digest import Room
from grader.reports.entry import Entry
from grader.reports.setting import Setting
from grader.submission import inert

MAX_BYTES = 500_000
MAX_OUTPUT = 500
CUT = "\nOutput was truncated. Please limit to 500 chars"
STATUS = {"passed": "pass", "neutral": "pass", "failed": "fail", "blocked": "error", "fault": "error"}


def render(entries: Sequence[Entry], setting: Setting) -> str:
    return digest.fit(lambda room: _text(entries, room), MAX_BYTES)


def _text(entries: Sequence[Entry], room: Room) -> str:
    total = digest.total(entries)
    body: dict[str, Any] = {"version": 3}
    unloaded = [entry for entry in entries if not digest.loaded(entry.report)]
    if total.ungraded:
        body |= {"status": "error", "message": digest.cut(digest.fault(total.ungraded), room.text), "tests": []}
    elif unloaded and len(unloaded) == len(entries):
        first = [next(c for c in entry.report.checks if digest.withheld(entry.report, c)) for entry in unloaded]
        why = "\n\n".join(digest.feedback(check) for check in first)
        body |= {"status": "error", "message": digest.cut(why, room.text), "tests": _tests(entries, room)}
    else:
        body |= {"status": "pass" if total.passed else "fail", "message": None, "tests": _tests(entries, room)}
    return json.dumps(body, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _tests(entries: Sequence[Entry], room: Room) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for entry in entries:
        tests = [_test(entries, entry, check, room) for check in entry.report.checks if not check.advisory]
        shown = next((test for test in tests if test["status"] != "pass"), tests[0] if tests else None)
        if shown is not None and entry.report.output:
            shown["output"] = _printed(entry.report.output)
        found += tests
    return digest.listed(
        found, room, lambda rest: {"name": f"{rest} more checks, not listed", "test_code": "", "status": "pass"}
    )


def _test(entries: Sequence[Entry], entry: Entry, check: CheckResult, room: Room) -> dict[str, Any]:
    call = check.explanation.call if check.explanation is not None else ""
    status = STATUS[digest.state(entry.report, check)]
    test: dict[str, Any] = {
        "name": digest.label(entries, entry, check),
        "test_code": digest.cut(inert(call or f"grade {entry.report.exercise}"), room.text),
        "status": status,
    }
    if status != "pass":
        test["message"] = digest.cut(digest.feedback(check), room.text)
    return test


def _printed(text: str) -> str:
    text = inert(text)
    return text if len(text) <= MAX_OUTPUT else text[: MAX_OUTPUT - len(CUT)] + CUT
