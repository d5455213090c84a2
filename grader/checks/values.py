"""The `values` check: the result is the expected one, in structure, type, shape, dtype and value."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from grader import compare
from grader.cases import Case, arrays
from grader.checks import verdicts
from grader.model import Mismatch, Question, Ruling
from grader.sandbox.protocol import Value
from grader.trial import Trial

# A difference of fewer tolerances reads like rounding: where there are clearer ones, those are shown.
CLEAR = 1000.0


def check(trial: Trial, question: Question) -> Ruling:
    """Call the submission on every case of the question, and rule on the smallest case of the first kind of failure."""
    failures: list[Ruling] = []
    calls = trial.plan.select(question.cases, question.dtypes)
    if not calls:
        return verdicts.no_case()
    for case, dtype in calls:
        ruling = rule(trial, case, dtype)
        if ruling.verdict == "skipped":
            if not failures:
                return ruling
            break
        if ruling.verdict != "pass":
            failures.append(ruling)
    if not failures:
        return Ruling("pass")
    same = [ruling for ruling in failures if kind_of(ruling) == kind_of(failures[0])]
    clear = min(CLEAR, max(clearness(ruling) for ruling in same))
    shown = min((r for r in same if clearness(r) >= clear), key=lambda ruling: size(ruling.case))
    return replace(shown, failing=tuple((ruling.case, ruling.dtype) for ruling in failures))


def rule(trial: Trial, case: Case, dtype: str) -> Ruling:
    """The verdict on one call."""
    outcome = trial.outcome(case, dtype)
    if not outcome.returned:
        verdict, cause = verdicts.of_outcome(outcome)
        return Ruling(verdict, cause, case, dtype, outcome)
    mismatch = trial.judge(case, dtype)
    if mismatch is None:
        return Ruling("pass", None, case, dtype, outcome)
    verdict, cause = verdicts.of_mismatch(mismatch)
    return Ruling(verdict, cause, case, dtype, outcome, mismatch, facts=_parts(trial, case, dtype, mismatch))


def _parts(trial: Trial, case: Case, dtype: str, mismatch: Mismatch) -> dict[str, list[str]]:
    """Of a tuple of named results: which of the parts beside the one shown are right, and which differ too."""
    output = trial.exercise.spec.output
    named = list(output.items or ()) if output.kind == "tuple" else []
    if len(named) < 2 or mismatch.kind not in ("values", "nan", "inf"):
        return {}
    mine = {part.path: part.value for part in compare.parts(trial.outcome(case, dtype).value, output)}
    right: dict[str, bool] = {}
    for leaf in trial.expected(case, dtype).leaves:
        name = re.split(r"[.\[]", leaf.path)[0]
        good = leaf.path in mine and _same(mine[leaf.path], leaf.expected, leaf.allowed)
        right[name] = right.get(name, True) and good
    shown = re.split(r"[.\[]", mismatch.path)[0]
    return {
        "right_parts": [name for name in named if name != shown and right.get(name)],
        "wrong_parts": [name for name in named if name != shown and right.get(name) is False],
    }


def _same(first: Value, second: Value, allowed: float) -> bool:
    a, b = compare.numbers(first), compare.numbers(second)
    if a is None or b is None:
        return compare.equal_leaves(first, second, allowed)
    return a.shape == b.shape and not compare.wrong_elements(a, b, allowed).any()


def clearness(ruling: Ruling) -> float:
    """By how many tolerances a wrong result is off; one of another kind is as clear as can be."""
    mismatch = ruling.mismatch
    return mismatch.ratio if mismatch is not None and mismatch.kind == "values" and mismatch.ratio > 0 else math.inf


def kind_of(ruling: Ruling) -> tuple[str, str | None, str, str]:
    """What makes two failures the same: verdict, cause, kind of mismatch, and the type of an exception."""
    kind = ruling.mismatch.kind if ruling.mismatch is not None else ""
    error = ruling.outcome.error.type if ruling.outcome is not None and ruling.outcome.error is not None else ""
    return ruling.verdict, ruling.cause, kind, error


def size(case: Case) -> int:
    """How much a reader has to look at: the number of elements of all inputs."""
    return sum(math.prod(drawn.values.shape) for _, drawn in arrays(case))
