"""The report as JSON: the contract's object, documented by ``report.schema.json``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from grader.model import CheckResult, Report

SCHEMA_VERSION = 1


def to_dict(report: Report) -> dict[str, Any]:
    """The contract's object. What a student may not see was left out when the checks were put into words."""
    body: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "exercise": report.exercise,
        "submission": dict(report.submission),
        "seed": None if report.secret else report.seed,
        "status": report.status,
        "passed": report.passed,
        "score": report.score,
        "max_score": report.max_score,
        "checks": [_check(check) for check in report.checks],
        "diagnoses": [
            {"misconception": d.misconception, "says": d.says, "cases_matched": d.cases_matched}
            for d in report.diagnoses
        ],
        "isolation": dict(report.isolation),
        "timings": dict(report.timings),
        "versions": dict(report.versions),
    }
    if report.status == "not_graded":
        body["reason"] = report.reason
    if report.output:
        body["output"] = report.output
    if report.note:
        body["note"] = report.note
    if report.left_out:
        body["left_out"] = list(report.left_out)
    return body


def _check(check: CheckResult) -> dict[str, Any]:
    case = None
    if check.case is not None:
        case = {
            "name": check.case.name,
            "number": check.case.number,
            "dims": check.case.dims,
            "token": check.case.token,
        }
    return {
        "id": check.id,
        "title": check.title,
        "verdict": check.verdict,
        "cause": check.cause,
        "advisory": check.advisory,
        "points": check.points,
        "max_points": check.max_points,
        "message": check.message,
        "hint": check.hint,
        "case": case,
        "seconds": round(check.seconds, 4),
    }


def render_all(reports: Sequence[Report]) -> str:
    """Several reports as one JSON document: ``passed`` is true only where every one is, ``score`` null where one is."""
    scores = [report.score for report in reports if report.score is not None]
    body = {
        "schema_version": SCHEMA_VERSION,
        "passed": bool(reports) and all(report.passed for report in reports),
        "score": sum(scores) if len(scores) == len(reports) else None,
        "max_score": sum(report.max_score for report in reports),
        "reports": [to_dict(report) for report in reports],
    }
    return json.dumps(body, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def render(report: Report) -> str:
    """The report as one JSON document, keys in the contract's order."""
    return json.dumps(to_dict(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
