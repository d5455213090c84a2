"""``submitty``: what a custom validator of Submitty prints: a share of the points, or that it could not grade."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from grader.reports import digest
from grader.reports.entry import Entry
from grader.reports.setting import Setting

MAX_MESSAGE = 4_000


def render(entries: Sequence[Entry], setting: Setting) -> str:
    total = digest.total(entries)
    body: dict[str, Any]
    if total.share is None:
        body = {"status": "failure", "message": digest.cut(digest.fault(total.ungraded), MAX_MESSAGE)}
    else:
        status = "success" if total.passed else "warning" if total.share > 0 else "failure"
        data = {
            "score": round(total.share, digest.DIGITS),
            "message": digest.cut(_message(entries, total), MAX_MESSAGE),
            "status": status,
        }
        body = {"status": "success", "data": data}
    return json.dumps(body, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _message(entries: Sequence[Entry], total: digest.Total) -> str:
    lines = [digest.points(total.score or 0.0, total.max_score)]
    for entry in entries:
        for check in entry.report.checks:
            if digest.withheld(entry.report, check) and digest.state(entry.report, check) != "blocked":
                lines.append(f"{digest.label(entries, entry, check)}: {digest.claim(check)}")
    return "\n".join(lines)
