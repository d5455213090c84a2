"""Checks of what a call leaves behind: its inputs unchanged, and the same answer when it is asked again."""

from __future__ import annotations

from grader import compare
from grader.checks import verdicts
from grader.checks.values import size
from grader.model import Question, Ruling
from grader.trial import Trial

# How many calls are repeated: the first call is where state that was kept shows, the last where it has grown.
REPEATED = 3


def inputs_unchanged(trial: Trial, question: Question) -> Ruling:
    """No call changed an argument, bit for bit; looks at every call that the other checks made."""
    touched = []
    selected = trial.plan.select(question.cases, question.dtypes)
    if not selected:
        return verdicts.no_case()
    for case, dtype in selected:
        outcome = trial.outcome(case, dtype)
        if outcome.status == "not_run":
            break
        if outcome.returned and outcome.changes:
            touched.append((case, dtype, outcome))
    if touched:
        case, dtype, outcome = min(touched, key=lambda entry: size(entry[0]))
        return Ruling(
            "fail", "inputs_changed", case, dtype, outcome,
            failing=tuple((c, d) for c, d, _ in touched),
            facts={"values_right": trial.right(case, dtype)},
        )  # fmt: skip
    if not any(trial.outcome(case, dtype).returned for case, dtype in selected):
        return Ruling("skipped", "nothing_returned")
    return Ruling("pass")


def repeatable(trial: Trial, question: Question) -> Ruling:
    """Asked again after all the other calls, the function answers as before."""
    selected = trial.plan.select(question.cases, question.dtypes)
    if not selected:
        return verdicts.no_case()
    returned = [(case, dtype) for case, dtype in selected if trial.outcome(case, dtype).returned]
    if not returned:
        return Ruling("skipped", "nothing_returned")
    chosen = list(dict.fromkeys([0, len(returned) // 2, len(returned) - 1]))[:REPEATED]
    output = trial.exercise.spec.output
    for index in chosen:
        case, dtype = returned[index]
        first = trial.outcome(case, dtype)
        again = trial.outcome(case, dtype, options={"again": 1})
        if again.status == "not_run":
            return Ruling("skipped", "stopped", outcome=again)
        if not again.returned:
            verdict, cause = verdicts.of_outcome(again)
            return Ruling(verdict, cause, case, dtype, again, facts={"again": True})
        # What is wrong with the first answer was judged by the values checks; here only change counts.
        mismatch = compare.changed(first.value, again.value, trial.expected(case, dtype), output)
        if mismatch is not None:
            return Ruling(
                "fail", "not_repeatable", case, dtype, again, mismatch, ((case, dtype),), facts={"first": first.value}
            )
    return Ruling("pass")
