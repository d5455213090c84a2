"""``check50``: the JSON of check50, which its renderers and submit.cs50.io read.

``passed`` is null for a check that was not run, could not be decided, does not count and failed, or could not be
graded; ``cause.rationale`` says which.
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

MAX_BYTES = 2_000_000
PASSED = {"passed": True, "failed": False}


def render(entries: Sequence[Entry], setting: Setting) -> str:
    """``slug`` is the assignment's name, else the exercise's; ``version`` is that of tensorgrade."""
    return digest.fit(lambda room: _text(entries, setting, room), MAX_BYTES)


def _text(entries: Sequence[Entry], setting: Setting, room: Room) -> str:
    slug = setting.assignment or "/".join(digest.exercises(entries))
    version = setting.version or next((entry.report.versions.get("grader", "") for entry in entries), "")
    results = [_result(entries, entry, check, room) for entry in entries for check in entry.report.checks]
    body = {
        "slug": digest.name(slug),
        "results": digest.listed(results, room, _rest),
        "version": version,
    }
    return json.dumps(body, indent=4, ensure_ascii=False, allow_nan=False) + "\n"


def _result(entries: Sequence[Entry], entry: Entry, check: CheckResult, room: Room) -> dict[str, Any]:
    report = entry.report
    several = len(entries) > 1
    state = digest.state(report, check)
    passed = PASSED.get(state)
    rationale: str | None = digest.claim(check)
    if state == "passed":
        rationale = None
    elif state == "fault":
        rationale = f"not graded: {digest.reason(report) if report.status != 'graded' else rationale}"
    elif state == "neutral":
        rationale = f"{rationale} It is not held against you."
    elif state == "failed" and check.advisory:
        passed, rationale = None, f"advisory, does not count: {rationale}"
    first = next((other for other in report.checks if digest.state(report, other) == "failed"), None)
    blocked_by = first if state == "blocked" and check.cause == "blocked" else None
    text = digest.cut(digest.feedback(check), room.text) if state == "failed" else ""
    cause = None if rationale is None else {"rationale": digest.cut(rationale, room.text), "help": _help(check, room)}
    return {
        "name": _name(entry, check, several),
        "description": digest.label(entries, entry, check),
        "passed": passed,
        "log": text.split("\n") if text else [],
        "cause": cause,
        "data": {
            "exercise": report.exercise,
            "points": None if state == "fault" or check.advisory else digest.number(check.points),
            "max_points": None if check.advisory else digest.number(check.max_points),
        },
        "dependency": None if blocked_by is None else _name(entry, blocked_by, several),
    }


def _name(entry: Entry, check: CheckResult, several: bool) -> str:
    return f"{entry.report.exercise}.{check.id}" if several else check.id


def _help(check: CheckResult, room: Room) -> str | None:
    return digest.cut(inert(check.hint), room.text) if check.hint else None


def _rest(rest: int) -> dict[str, Any]:
    return {
        "name": "not_listed",
        "description": f"{rest} more checks",
        "passed": None,
        "log": [],
        "cause": {"rationale": "not listed: there are too many", "help": None},
        "data": {},
        "dependency": None,
    }
