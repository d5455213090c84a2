"""``classroom50``: ``result.json`` of a Classroom 50 autograder.

Scores there are whole numbers, so points with fractions are counted in the largest unit that makes all of them whole.
What could not be graded is 0 of 0 with no tests, the format's own way to say that nothing was graded; the command's
exit code 3 tells the runner the same. Advisory checks are left out, since the format knows no test that does not count.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from grader.errors import UsageError
from grader.reports import digest
from grader.reports.digest import Room
from grader.reports.entry import Entry
from grader.reports.setting import Setting

SCHEMA = "classroom50/result/v1"
FIELDS = {
    "classroom": "CLASSROOM",
    "assignment": "ASSIGNMENT",
    "submission": "SUBMISSION_TAG",
    "commit": "COMMIT_URL",
    "release": "RELEASE_URL",
    "review": "REVIEW_URL",
}
# Stamped by the runner itself; written where it says them, for those who read the file before that.
STAMPED = {"assignment_type": "ASSIGNMENT_TYPE", "owner": "OWNER"}
MAX_BYTES = 8_000_000
MAX_DENOMINATOR = 1_000
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)")


def render(entries: Sequence[Entry], setting: Setting) -> str:
    """Raises `UsageError` where the runner's variables or the time are missing."""
    body = _identity(setting.environment)
    instant = _INSTANT.fullmatch(setting.generated)
    if instant is None:
        raise UsageError(f"classroom50 needs the time in UTC, as 2026-01-31T12:00:00Z, not {setting.generated!r}")
    body["datetime"] = f"{instant[1]}Z"
    return digest.fit(
        lambda room: json.dumps(body | _result(entries, room), indent=2, ensure_ascii=False) + "\n", MAX_BYTES
    )


def _identity(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"schema": SCHEMA}
    missing = []
    for key, variable in FIELDS.items():
        value = environment.get(variable) or (environment.get("COMMIT_URL") if key == "review" else None)
        if value:
            found[key] = value
        else:
            missing.append(variable)
    if missing:
        raise UsageError(
            f"classroom50 needs {', '.join(missing)} in the environment", "run it as the autograder of an assignment"
        )
    return found | {key: environment[name] for key, name in STAMPED.items() if environment.get(name)}


def _result(entries: Sequence[Entry], room: Room) -> dict[str, Any]:
    if digest.total(entries).ungraded:
        return {"score": 0, "max-score": 0, "tests": []}
    unit = _unit(entries)
    tests = []
    for entry in entries:
        for check in entry.report.checks:
            if check.advisory:
                continue
            most = round(check.max_points * unit)
            test: dict[str, Any] = {
                "test-name": digest.label(entries, entry, check),
                "passed": not digest.withheld(entry.report, check),
                "score": min(round(check.points * unit), most),
                "max-score": most,
            }
            text = digest.feedback(check)
            if text:
                test["message"] = digest.cut(text, room.text)
            tests.append(test)
    score, most = sum(test["score"] for test in tests), sum(test["max-score"] for test in tests)
    return {"score": score, "max-score": most, "tests": tests}


def _unit(entries: Sequence[Entry]) -> int:
    """How many of the whole units make one point."""
    points = [check.max_points for entry in entries for check in entry.report.checks if not check.advisory]
    points += [check.points for entry in entries for check in entry.report.checks if not check.advisory]
    return min(
        math.lcm(*(Fraction(value).limit_denominator(MAX_DENOMINATOR).denominator for value in points)), MAX_DENOMINATOR
    )
