"""What a lint found, as text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from grader import __version__
from grader.authoring.complaints import ADVICE, STRICT, Complaint
from grader.authoring.lint import Linted
from grader.authoring.mutation import CRASHED, EQUIVALENT, FATES, KILLED, SURVIVED, TOLERATED

SCHEMA_VERSION = 1


def lines(linted: Linted, strict: bool) -> Iterator[tuple[str, str]]:
    """(style, text) per line of what a terminal shows of one exercise; styles: title, bad, text, faint."""
    errors = linted.errors(strict)
    verdict = f"{len(errors)} finding{'' if len(errors) == 1 else 's'}" if errors else "sound"
    yield ("bad" if errors else "title"), f"{linted.exercise}: {verdict}   {_counts(linted)}"
    pasted: set[str] = set()
    for each in errors:
        yield from _complaint(each, each.paste in pasted)
        pasted.add(each.paste)
    if linted.margins is not None:
        yield "faint", f"  margins: {_margins(linted)}"
    equivalent = [fate.mutant for fate in linted.fates if fate.fate == EQUIVALENT]
    if equivalent:
        yield "faint", f"  mutants that no case tells apart: {len(equivalent)}"
        if strict:
            for mutant in equivalent:
                yield "faint", f"    {mutant.line}:{mutant.column}  {mutant.before}  ->  {mutant.after}"
    rest = [each for each in linted.complaints if each not in errors]
    advice = [each for each in rest if each.level == ADVICE]
    if strict and advice:
        yield "faint", "  advice:"
        for each in advice:
            yield "faint", f"    {each.finding.path}:{each.finding.line}:{each.finding.column}: {each.finding.message}"
    asked = [each for each in rest if each.level == STRICT]
    if asked:
        yield "faint", "  --strict would ask for more:"
        for each in asked:
            expected = f" ({each.finding.expected})" if each.finding.expected else ""
            yield "faint", f"    {each.finding.message}{expected}"


def _complaint(each: Complaint, again: bool) -> Iterator[tuple[str, str]]:
    for line in f"  {each.finding}".splitlines():
        yield "text", line
    if each.paste and again:
        yield "text", "    the same case as above"
    elif each.paste:
        yield "text", f"    {each.paste_into}"
        yield from (("text", f"    {line}") for line in each.paste.splitlines())
    if each.next_step:
        yield "text", f"    next: {each.next_step}"


def _counts(linted: Linted) -> str:
    parts = [f"{linted.checks} checks"]
    kinds = Counter(answer.kind for answer in linted.known)
    if kinds["right"] or kinds["wrong"]:
        parts.append(f"{kinds['right']} right and {kinds['wrong']} wrong fixtures")
    if kinds["misconception"]:
        parts.append(f"{kinds['misconception']} misconceptions")
    if linted.fates:
        fates = Counter(fate.fate for fate in linted.fates)
        words = [f"{fates[fate]} {fate}" for fate in FATES if fates[fate]]
        parts.append(f"{len(linted.fates)} mutants ({', '.join(words)})")
    if "total" in linted.seconds:
        parts.append(f"{linted.seconds['total']:.1f} s")
    return ", ".join(parts)


def _margins(linted: Linted) -> str:
    assert linted.margins is not None
    honest, wrong = linted.margins.honest, linted.margins.wrong
    best = (
        "no wrong answer is told by its values"
        if wrong is None
        else f"wrong answers from {_number(wrong.to_dict())} ({wrong.who})"
    )
    return f"honest answers up to {_number(honest.to_dict())} of what is allowed ({honest.who}); {best}"


def to_json(results: Sequence[Linted], strict: bool, quick: bool) -> str:
    """The whole run; wall times apart, the same for the same files."""
    body = {
        "schema_version": SCHEMA_VERSION,
        "grader": __version__,
        "strict": strict,
        "quick": quick,
        "passed": not any(linted.errors(strict) for linted in results),
        "exercises": [_exercise(linted, strict) for linted in results],
    }
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def _exercise(linted: Linted, strict: bool) -> dict[str, Any]:
    kinds = Counter(answer.kind for answer in linted.known)
    fates = Counter(fate.fate for fate in linted.fates)
    margins = linted.margins
    return {
        "exercise": linted.exercise,
        "passed": not linted.errors(strict),
        "findings": [each.to_dict() for each in linted.complaints],
        "checks": linted.checks,
        "fixtures": {"right": kinds["right"], "wrong": kinds["wrong"]},
        "misconceptions": kinds["misconception"],
        "mutants": {
            "total": len(linted.fates),
            **{fate: fates[fate] for fate in FATES},
            "living": [
                {"id": f.mutant.id, "fate": f.fate, "line": f.mutant.line, "column": f.mutant.column, "before": f.mutant.before,
                 "after": f.mutant.after}
                for f in linted.fates if f.fate in (EQUIVALENT, SURVIVED)
            ],
        },
        "margins": None if margins is None else {
            "honest": margins.honest.to_dict(), "wrong": None if margins.wrong is None else margins.wrong.to_dict(),
        },
        "reference_slowest_s": round(linted.slowest, 6),
        "seconds": {stage: round(spent, 3) for stage, spent in linted.seconds.items()},
    }  # fmt: skip


def table(report: dict[str, Any]) -> str:
    """The Markdown table of docs/fidelity.md, from the JSON of a lint."""
    head = "exercise | checks | right | wrong | misconceptions | mutants | killed | by crashing | tolerated | alike | honest, at most | wrong, at least"
    rows = [f"| {head} |", "|---" + "|---:" * head.count("|") + "|"]
    for each in report["exercises"]:
        mutants, margins = each["mutants"], each["margins"] or {"honest": None, "wrong": None}
        cells = [
            f"`{each['exercise']}`", each["checks"], each["fixtures"]["right"], each["fixtures"]["wrong"], each["misconceptions"],
            mutants["total"], *(mutants[fate] for fate in (KILLED, CRASHED, TOLERATED, EQUIVALENT)),
            _number(margins["honest"]), _number(margins["wrong"]),
        ]  # fmt: skip
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(rows) + "\n"


def _number(margin: dict[str, Any] | None) -> str:
    """A ratio to the tolerance in two digits; a dash where there is none."""
    if margin is None or margin["ratio"] is None:
        return "-"
    return "0" if margin["ratio"] == 0 else f"{margin['ratio']:.2g}"
