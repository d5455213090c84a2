"""The `values` check: the result is the expected one, in structure, type, shape, dtype and value."""

from __future__ import annotations

import math

from grader.cases import Case, arrays
from grader.checks import verdicts
from grader.model import Question, Ruling
from grader.trial import Trial


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
    shown = min(same, key=lambda ruling: size(ruling.case))
    return Ruling(
        shown.verdict, shown.cause, shown.case, shown.dtype, shown.outcome, shown.mismatch,
        failing=tuple((ruling.case, ruling.dtype) for ruling in failures),
    )  # fmt: skip


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
    return Ruling(verdict, cause, case, dtype, outcome, mismatch)


def kind_of(ruling: Ruling) -> tuple[str, str | None, str, str]:
    """What makes two failures the same: verdict, cause, kind of mismatch, and the type of an exception."""
    kind = ruling.mismatch.kind if ruling.mismatch is not None else ""
    error = ruling.outcome.error.type if ruling.outcome is not None and ruling.outcome.error is not None else ""
    return ruling.verdict, ruling.cause, kind, error


def size(case: Case) -> int:
    """How much a reader has to look at: the number of elements of all inputs."""
    return sum(math.prod(drawn.values.shape) for _, drawn in arrays(case))
