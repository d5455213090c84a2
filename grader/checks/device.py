"""The `device` check: the computation and its result stay on the inputs' device, seen without an accelerator."""

from __future__ import annotations

from typing import Any

from grader import compare
from grader.cases import Case
from grader.checks import verdicts
from grader.checks.values import size
from grader.model import Outcome, Question, Ruling
from grader.submission import inert
from grader.trial import Trial

DTYPE = "float64"
# How many times slower than the plain call the imitation may honestly be.
PATIENCE = 100.0


def check(trial: Trial, question: Question) -> Ruling:
    """Run one call on tensors that claim another device; a proven mix, or a result elsewhere or of other values, fails.

    What the imitation cannot do is never held against a submission. What the submission does there of its own accord
    is: to raise an exception, to end the process or to answer otherwise would otherwise be a way around the check.
    """
    group: Any = question.cases or "random"
    drawn = [case for case, _ in trial.plan.select(group, [DTYPE])]
    if not drawn:
        return verdicts.no_case()
    plain = [case for case in drawn if trial.outcome(case, DTYPE).returned]
    if not plain:
        return Ruling("skipped", "nothing_returned")
    case = min(plain, key=size)
    scalar = trial.exercise.spec.output.kind == "scalar"
    outcome = trial.outcome(case, DTYPE, "device", {"scalar": scalar})
    if outcome.status == "not_run":
        return Ruling("skipped", "stopped", outcome=outcome)
    found = outcome.extra.get("device")
    if not outcome.returned or not isinstance(found, dict):
        return _no_result(trial, case, outcome)
    status = found.get("status")
    if status == "ok":
        return _values(trial, case, outcome)
    if status not in ("mix", "wrong_device"):
        operation = inert(str(found.get("operation") or "an operation"))[:100]
        if found.get("own") is True:
            claim = "On another device than the CPU the function goes wrong."
            return _failed(
                case, outcome, claim, found, "do not ask what kind of tensor it is, and catch no exceptions."
            )
        return _undecided(f"{operation} cannot be imitated on another device")
    claim = (
        f"The result{inert(str(found.get('path', '')))[:60]} is not on the device of the inputs."
        if status == "wrong_device"
        else "Tensors on different devices meet in one operation."
    )
    help = "make new tensors where the inputs are: device=x.device, x.new_zeros(...), torch.zeros_like(x)."
    return _failed(case, outcome, claim, found, help)


def _no_result(trial: Trial, case: Case, outcome: Outcome) -> Ruling:
    plain = trial.outcome(case, DTYPE)
    if outcome.status == "timeout" and PATIENCE * plain.seconds >= trial.exercise.spec.limits.time:
        return _undecided("this call takes too long to be imitated on another device")
    if outcome.returned:
        return Ruling("crashed", "garbled_reply", case, DTYPE, outcome)
    verdict, cause = verdicts.of_outcome(outcome)
    return Ruling(verdict, cause, case, DTYPE, outcome)


def _values(trial: Trial, case: Case, outcome: Outcome) -> Ruling:
    """There as here: the result is the one of the plain call."""
    expected, output = trial.expected(case, DTYPE), trial.exercise.spec.output
    mismatch = compare.changed(trial.outcome(case, DTYPE).value, outcome.value, expected, output)
    if mismatch is None:
        return Ruling("pass", case=case)
    return Ruling(
        "fail", "device", case, DTYPE, outcome, mismatch,
        facts={
            "claim": "On another device the result is another one.",
            "labels": ("there", "on the CPU"),
            "help": "compute the same way whatever device the inputs are on.",
        },
    )  # fmt: skip


def _failed(case: Case, outcome: Outcome, claim: str, found: dict[str, Any], help: str) -> Ruling:
    blocks = []
    if found.get("detail"):
        blocks.append(("what", inert(str(found["detail"]))[:400]))
    line = found.get("line")
    if type(line) is int and 0 < line < 10**7:
        text = inert(str(found.get("text", ""))).strip()[:200]
        blocks.append(("where", f"{inert(str(found.get('file', '')))[:100]}:{line}" + (f"    {text}" if text else "")))
    return Ruling("fail", "device", case, DTYPE, outcome, facts={"claim": claim, "blocks": blocks, "help": help})


def _undecided(why: str) -> Ruling:
    return Ruling("skipped", "undecided", facts={"why": why}, neutral=True)
