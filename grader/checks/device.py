"""The `device` check: the computation and its result stay on the inputs' device, seen without an accelerator."""

from __future__ import annotations

from typing import Any

from grader.checks.values import size
from grader.model import Question, Ruling
from grader.submission import inert
from grader.trial import Trial

DTYPE = "float64"


def check(trial: Trial, question: Question) -> Ruling:
    """Run one call on tensors that claim another device; only a proven mix or a result elsewhere fails."""
    group: Any = question.cases or "random"
    plain = [case for case, dtype in trial.plan.select(group, [DTYPE]) if trial.outcome(case, dtype).returned]
    if not plain:
        return Ruling("skipped", "nothing_returned")
    case = min(plain, key=size)
    scalar = trial.exercise.spec.output.kind == "scalar"
    outcome = trial.outcome(case, DTYPE, "device", {"scalar": scalar})
    if outcome.status == "not_run":
        return Ruling("skipped", "stopped", outcome=outcome)
    found = outcome.extra.get("device")
    if not isinstance(found, dict):
        # The plain call worked, and the imitation is slower and less patient: whatever else went wrong is laid to it.
        return _undecided("this call cannot be imitated on another device")
    status = found.get("status")
    if status == "ok":
        return Ruling("pass", case=case)
    if status not in ("mix", "wrong_device"):
        operation = inert(str(found.get("operation") or "an operation"))[:100]
        return _undecided(f"{operation} cannot be imitated on another device")
    claim = (
        f"The result{inert(str(found.get('path', '')))[:60]} is not on the device of the inputs."
        if status == "wrong_device"
        else "Tensors on different devices meet in one operation."
    )
    blocks = []
    if found.get("detail"):
        blocks.append(("what", inert(str(found["detail"]))[:400]))
    if found.get("line"):
        text = inert(str(found.get("text", ""))).strip()[:200]
        blocks.append(
            ("where", f"{inert(str(found.get('file', '')))[:100]}:{found['line']}" + (f"    {text}" if text else ""))
        )
    return Ruling(
        "fail", "device", case, DTYPE, outcome,
        facts={
            "claim": claim,
            "blocks": blocks,
            "help": "make new tensors where the inputs are: device=x.device, x.new_zeros(...), torch.zeros_like(x).",
        },
    )  # fmt: skip


def _undecided(why: str) -> Ruling:
    return Ruling("skipped", "undecided", facts={"why": why}, neutral=True)
