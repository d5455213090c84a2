"""The one table from a check's kind to the function that carries it out."""

from __future__ import annotations

from collections.abc import Callable

from grader.checks import conditions, device, effects, gradients, relations, values
from grader.model import Question, Ruling
from grader.trial import Trial

Check = Callable[[Trial, Question], Ruling]

CHECKS: dict[str, Check] = {
    "values": values.check,
    "inputs_unchanged": effects.inputs_unchanged,
    "repeatable": effects.repeatable,
    "independent": relations.independent,
    "causal": relations.causal,
    "reads": relations.reads,
    "ignores": relations.ignores,
    "gradients": gradients.check,
    "device": device.check,
    "precision": conditions.precision,
    "strided": conditions.strided,
    "source": conditions.source,
    "calls": conditions.calls,
    "peak_memory": conditions.peak_memory,
    "falls": conditions.falls,
}
