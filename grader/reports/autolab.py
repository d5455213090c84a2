"""``autolab``: feedback as plain text, and as its last line the scores by problem, which is what Autolab reads.

A problem is an exercise. One that could not be graded has no entry, so that Autolab records nothing for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from grader.reports import digest
from grader.reports.entry import Entry
from grader.reports.setting import Setting
from grader.submission import inert

MAX_TEXT = 4_000
MAX_PRINTED = 2_000


def render(entries: Sequence[Entry], setting: Setting) -> str:
    scores = {
        entry.report.exercise: digest.number(entry.report.score)
        for entry in entries
        if entry.report.score is not None and entry.report.status == "graded"
    }
    last = json.dumps({"scores": scores}, ensure_ascii=True, allow_nan=False)
    return "\n".join([*(line for entry in entries for line in _page(entry)), last]) + "\n"


def _page(entry: Entry) -> Iterator[str]:
    report = entry.report
    if report.score is None or report.status != "graded":
        first, *rest = digest.fault([report]).split("\n")
        yield from (first, *(f"  {line}" for line in rest))
        yield ""
        return
    word = "passed" if report.passed else "not passed"
    yield f"{report.exercise}: {word}, {digest.points(report.score, report.max_score)}"
    for check in report.checks:
        state = digest.state(report, check)
        worth = "advisory" if check.advisory else digest.points(check.points, check.max_points)
        mark = {"passed": "ok", "neutral": "open", "blocked": "not run"}.get(state, "FAILS")
        yield f"  {mark}: {digest.name(check.title or check.id)} ({worth})"
        if state == "failed":
            yield from (f"      {line}" for line in digest.cut(digest.feedback(check), MAX_TEXT).split("\n"))
    if report.output:
        yield f"{report.exercise} printed:"
        # Indented, so that nothing printed can pass for a line of scores.
        yield from (f"  | {line}" for line in inert(digest.cut(report.output, MAX_PRINTED)).split("\n"))
    yield ""
