"""Checks of how a result comes about: in which precision, from which memory layout, with which calls, in how much memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from grader import compare
from grader.cases import Case, Drawn
from grader.checks import verdicts
from grader.checks.values import size
from grader.model import Question, Ruling
from grader.randomness import Draws
from grader.sandbox.protocol import Array, Value
from grader.spec import expressions
from grader.trial import Trial

PRECISION_STEP = 1e-8
PRECISION_LIMIT = 0.02
DTYPE = "float64"


def precision(trial: Trial, question: Question) -> Ruling:
    """The submission's response to a change of 1e-8 is the reference's own: arithmetic narrower than float64 loses it."""
    for case, dtype in _right_cases(trial, question)[:2]:
        moved = _step(case)
        mine = _response(trial.outcome(case, dtype).value, trial.outcome(moved, dtype), trial)
        theirs = _difference(trial.expected(case, dtype).value, trial.oracle.raw(moved, dtype).value, trial)
        if mine is None or theirs is None:
            continue
        scale = float(np.abs(theirs).max()) if theirs.size else 0.0
        # Below a few hundred roundings of the result itself the reference's own difference is noise.
        if scale <= 256 * 2.0**-53 * _scale(trial.expected(case, dtype).value):
            continue
        deviation = float(np.abs(mine - theirs).max()) / scale
        if not deviation <= PRECISION_LIMIT:
            return Ruling(
                "fail", "precision", case, dtype, trial.outcome(case, dtype), failing=((case, dtype),),
                facts={
                    "claim": "The arithmetic inside a float64 call is narrower than float64.",
                    "blocks": [("", f"A change of 1e-8 in the inputs moves your result by {deviation:.0%} more or less than it should.")],
                    "help": "keep the inputs' dtype throughout: look for .float(), float32 constants and tensors made without dtype=.",
                },
            )  # fmt: skip
        return Ruling("pass", case=case)
    return Ruling("skipped", "values", facts={"why": "it looks at results that are right, and there are none"})


def _right_cases(trial: Trial, question: Question) -> list[tuple[Case, str]]:
    group: Any = question.cases or "random"
    return [(case, dtype) for case, dtype in trial.plan.select(group, [DTYPE]) if trial.right(case, dtype)]


def _step(case: Case) -> Case:
    draws = Draws(case.seed, case.key, "precision")
    changed = {
        name: drawn.values * (1 + PRECISION_STEP * draws.sign(drawn.values.shape))
        for name, drawn in case.arguments.items()
        if isinstance(drawn, Drawn) and drawn.continuous and drawn.dtype == "floats"
    }
    # Beyond the bits of float32: an input rounded on the way in loses exactly this.
    return case.with_values(changed, "precision")


def _response(first: Value, outcome: Any, trial: Trial) -> np.ndarray | None:
    return _difference(first, outcome.value, trial) if outcome.returned else None


def _difference(first: Value, second: Value, trial: Trial) -> np.ndarray | None:
    output = trial.exercise.spec.output
    one, two = list(compare.parts(first, output)), list(compare.parts(second, output))
    if [part.path for part in one] != [part.path for part in two]:
        return None
    flat = []
    for a, b in zip(one, two, strict=True):
        x, y = compare.numbers(a.value), compare.numbers(b.value)
        if x is None or y is None or x.dtype.kind != "f" or x.shape != y.shape:
            continue
        with np.errstate(invalid="ignore"):
            flat.append(np.where(np.isfinite(x) & np.isfinite(y), y - x, 0.0).reshape(-1))
    return np.concatenate(flat) if flat else None


def _scale(value: Value) -> float:
    found = compare.numbers(value)
    if found is None or found.dtype.kind != "f":
        return 1.0
    finite = found[np.isfinite(found)]
    return float(np.abs(finite).max()) if finite.size else 1.0


def strided(trial: Trial, question: Question) -> Ruling:
    """Non-contiguous inputs give the same results as contiguous ones."""
    for case, dtype in _right_cases(trial, question)[:1]:
        for layout in ("transposed", "stepped"):
            outcome = trial.outcome(case, dtype, layout=layout)
            if outcome.status == "not_run":
                return Ruling("skipped", "stopped", outcome=outcome)
            if not outcome.returned:
                verdict, cause = verdicts.of_outcome(outcome)
                help = question.help or "view() needs contiguous memory; reshape() does not."
                return Ruling(verdict, cause, case, dtype, outcome, failing=((case, dtype),), facts={"help": help})
            spec = trial.exercise.spec
            mismatch = compare.mismatch(outcome.value, trial.expected(case, dtype), spec.output, spec.framework)
            if mismatch is not None:
                return Ruling(
                    "fail", "strided", case, dtype, outcome, mismatch, ((case, dtype),),
                    facts={"claim": "The result is wrong when the inputs are not contiguous in memory.", "help": "read inputs by index, never through their memory order."},
                )  # fmt: skip
        return Ruling("pass", case=case)
    return Ruling("skipped", "values", facts={"why": "it looks at results that are right, and there are none"})


ALIASES = {"np": "numpy", "F": "torch.nn.functional"}


def _full_name(name: str) -> str:
    head, _, rest = name.partition(".")
    return ALIASES.get(head, head) + ("." + rest if rest else "")


def source(trial: Trial, question: Question) -> Ruling:
    """Calls that the file must, or may not, contain; read from its syntax tree before it is run."""
    called = set(trial.student.called)
    forbidden = [name for name in question.check.forbid if _occurs(_full_name(name), called)]
    missing = [name for name in question.check.require if not _occurs(_full_name(name), called)]
    if forbidden:
        return Ruling(
            "fail",
            "forbidden_call",
            facts={"claim": f"The file calls {', '.join(forbidden)}, which this exercise asks you to write yourself."},
        )
    if missing:
        return Ruling("fail", "missing_call", facts={"claim": f"The file does not call {', '.join(missing)}."})
    return Ruling("pass")


def _occurs(wanted: str, called: set[str]) -> bool:
    """A bare name matches a call or method of that name; a dotted one the full name."""
    return any(name == wanted or ("." not in wanted and name.rpartition(".")[2] == wanted) for name in called)


def calls(trial: Trial, question: Question) -> Ruling:
    """A function handed in is called as often, and with the same arguments, as by the reference."""
    name = question.check.function
    found: list[tuple[Case, str, str]] = []
    seen = False
    for case, dtype in trial.plan.select(question.cases, question.dtypes):
        outcome = trial.outcome(case, dtype)
        if not outcome.returned:
            continue
        seen = True
        mine = [args for called, args in outcome.calls if called == name]
        theirs = [args for called, args in trial.expected(case, dtype).calls if called == name]
        said = _calls_differ(name, mine, theirs)
        if said is not None:
            found.append((case, dtype, said))
    if not seen:
        return Ruling("skipped", "nothing_returned")
    if not found:
        return Ruling("pass")
    case, dtype, said = min(found, key=lambda entry: size(entry[0]))
    return Ruling(
        "fail", "calls", case, dtype, trial.outcome(case, dtype), failing=tuple((c, d) for c, d, _ in found),
        facts={"claim": said},
    )  # fmt: skip


def _calls_differ(name: str, mine: list[Value], theirs: list[Value]) -> str | None:
    if len(mine) != len(theirs):
        times = "time" if len(mine) == 1 else "times"
        return f"`{name}` was called {len(mine)} {times}; expected {len(theirs)}."
    for at, (given, wanted) in enumerate(zip(mine, theirs, strict=True), start=1):
        if _plain(given) != _plain(wanted):
            return f"call {at} of `{name}` got {_brief(given)}; expected {_brief(wanted)}."
    return None


def _plain(value: Value) -> Any:
    if isinstance(value, Array):
        return value.numbers().tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _brief(value: Value) -> str:
    inner = value[0] if isinstance(value, list | tuple) and len(value) == 1 else value
    text = repr(_plain(inner))
    return text if len(text) <= 80 else text[:77] + "..."


def peak_memory(trial: Trial, question: Question) -> Ruling:
    """The arrays held at once, above the inputs, stay below a limit. Measured in the worker, by the framework's own allocations."""
    last = Ruling("skipped", "no_case", facts={"why": "no case was named"}, neutral=True)
    for case, dtype in trial.plan.select(question.cases, question.dtypes or (DTYPE,)):
        outcome = trial.outcome(case, dtype, mode="memory")
        if outcome.status == "not_run":
            return Ruling("skipped", "stopped", outcome=outcome)
        if not outcome.returned:
            verdict, cause = verdicts.of_outcome(outcome)
            return Ruling(verdict, cause, case, dtype, outcome)
        itemsize = {"float64": 8, "float32": 4}.get(dtype, 2)
        limit = float(expressions.evaluate(str(question.check.below), {**case.dims, "itemsize": itemsize}))
        peak = outcome.extra.get("peak")
        if not isinstance(peak, int | float):
            return Ruling("skipped", "garbled_reply", facts={"why": "its memory could not be measured"})
        if peak > limit:
            return Ruling(
                "fail", "peak_memory", case, dtype, outcome,
                facts={
                    "claim": "The call holds more memory at once than it may.",
                    "blocks": [("held at once", f"{peak / 2**20:.1f} MB"), ("allowed", f"{limit / 2**20:.1f} MB")],
                    "peak": peak,
                },
            )  # fmt: skip
        last = Ruling("pass", case=case)
    return last


def falls(trial: Trial, question: Question) -> Ruling:
    """A part of the result falls when parts of it are fed back as inputs for the next step."""
    check = question.check
    for case, dtype in trial.plan.select(question.cases or "random", [DTYPE])[:1]:
        current, previous = case, None
        for step in range(check.steps):
            outcome = trial.outcome(current, dtype)
            if outcome.status == "not_run":
                return Ruling("skipped", "stopped", outcome=outcome)
            if not outcome.returned:
                return Ruling("skipped", "values", facts={"why": "a step gave no result"})
            value = compare.numbers(compare.pick(outcome.value, check.output))
            if value is None or value.size != 1:
                return Ruling("skipped", "values", facts={"why": "the result has the wrong type or shape"})
            now = float(value.reshape(-1)[0])
            if previous is not None and not now < previous:
                return Ruling(
                    "fail", "does_not_fall", case, dtype, outcome,
                    facts={"claim": f"After step {step} the value is {now:.6g}, no lower than the {previous:.6g} before it."},
                )  # fmt: skip
            previous = now
            fed = _feed(current, outcome.value, check.feed, step)
            if fed is None:
                return Ruling("skipped", "values", facts={"why": "the result cannot be fed back"})
            current = fed
        return Ruling("pass", case=case)
    return Ruling("skipped", "no_case", facts={"why": "no case was named"}, neutral=True)


def _feed(case: Case, value: Value, feed: dict[str, str], step: int) -> Case | None:
    arguments = dict(case.arguments)
    for part, name in feed.items():
        given = compare.pick(value, int(part) if part.lstrip("-").isdigit() else part)
        replaced = _refill(arguments.get(name), given)
        if replaced is None:
            return None
        arguments[name] = replaced
    return replace(case, arguments=arguments, variation=f"{case.variation}+step{step}")


def _refill(old: Any, given: Value) -> Any:
    if isinstance(old, Drawn) and isinstance(given, Array) and given.shape == old.values.shape:
        return replace(old, values=given.numbers())
    if isinstance(old, dict) and isinstance(given, dict) and set(old) == set(given):
        filled = {key: _refill(old[key], given[key]) for key in old}
        return None if any(item is None for item in filled.values()) else filled
    return None
