"""``json``: one result as the contract's object, several as one object with ``reports``; see ``entries.schema.json``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from grader.reports import digest, report_json
from grader.reports.entry import Entry
from grader.reports.setting import Setting
from grader.submission import inert


def render(entries: Sequence[Entry], setting: Setting) -> str:
    """A single result is what ``--json`` writes; each of several is that object with whose it is, when, and which try."""
    if len(entries) == 1:
        return report_json.render(entries[0].report)
    total = digest.total(entries)
    body: dict[str, Any] = {
        "schema_version": report_json.SCHEMA_VERSION,
        "passed": total.passed,
        "score": total.score,
        "max_score": total.max_score,
        "ungraded": len(total.ungraded),
        "generated": setting.generated or None,
        "reports": [_report(entry) for entry in entries],
    }
    return json.dumps(body, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _report(entry: Entry) -> dict[str, Any]:
    person = entry.person
    return {
        "student": {"key": inert(person.key), "name": inert(person.name), "ids": dict(person.ids)},
        "finished": entry.finished or None,
        "attempts": entry.attempts,
        **report_json.to_dict(entry.report),
    }
