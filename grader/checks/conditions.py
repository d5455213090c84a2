"""Checks of how a result comes about: in which precision, from which memory layout, with which calls, in how much memory."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np

from grader import cases, compare
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
# In roundings of the result: a movement below this is not looked at, since honest noise would be percents of it.
QUIET = 4096
DTYPE = "float64"
# How far an argument of a handed-in function may be from the reference's, for rounding on the way to it.
SAME_CALL = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-1, "bfloat16": 1e-1}


def precision(trial: Trial, question: Question) -> Ruling:
    """The submission's response to a change of 1e-8 is the reference's own: arithmetic narrower than float64 loses it."""
    drawn = _in_float64(trial, question)
    if not drawn:
        return verdicts.no_case()
    right = [case for case in drawn if trial.right(case, DTYPE)]
    if not right:
        return nothing_right(question)
    for case in right[:2]:
        moved = _step(case)
        theirs = _difference(trial.expected(case, DTYPE).value, trial.oracle.raw(moved, DTYPE).value, trial)
        scale = float(np.abs(theirs).max()) if theirs is not None and theirs.size else 0.0
        # Where the reference hardly moves, its own difference is the noise of rounding.
        if theirs is None or scale <= QUIET * 2.0**-53 * _scale(trial.expected(case, DTYPE).value, trial):
            continue
        outcome = trial.outcome(moved, DTYPE)
        if outcome.status == "not_run":
            return Ruling("skipped", "stopped", outcome=outcome)
        if not outcome.returned:
            verdict, cause = verdicts.of_outcome(outcome)
            return Ruling(verdict, cause, moved, DTYPE, outcome, failing=((case, DTYPE),))
        mine = _difference(trial.outcome(case, DTYPE).value, outcome.value, trial)
        if mine is None or mine.shape != theirs.shape:
            return Ruling("skipped", "values", facts={"why": "its results change shape with the values of the inputs"})
        deviation = float(np.abs(mine - theirs).max()) / scale
        if not deviation <= PRECISION_LIMIT:
            kept = _decimals(trial.outcome(case, DTYPE).value, outcome.value, trial)
            return Ruling(
                "fail", "precision", case, DTYPE, trial.outcome(case, DTYPE), failing=((case, DTYPE),),
                facts={
                    "claim": "The result does not follow a small change of float64 inputs as it should."
                    if kept is None
                    else f"The result is rounded to {kept} decimals.",
                    "blocks": [("", _response(mine, theirs, deviation))],
                    "help": "keep the inputs' dtype throughout: look for .float(), float32 constants and tensors made without dtype=."
                    if kept is None
                    else "return the result with all its digits; rounding is for printing.",
                },
            )  # fmt: skip
        return Ruling("pass", case=case)
    # Decided by the reference and the cases alone, never by the submission.
    return Ruling(
        "skipped", "no_case", facts={"why": "no case was drawn in which so small a change shows"}, neutral=True
    )


def _response(mine: np.ndarray, theirs: np.ndarray, deviation: float) -> str:
    """What a change of the inputs did to the result, beside what it should do."""
    change = "A change of 1e-8 in the inputs"
    if not mine.any():
        return f"{change} does not change your result; it changes the reference's by {float(np.abs(theirs).max()):.2g}."
    return f"{change} moves your result by {deviation:.0%} more or less than it should."


def _decimals(first: Value, second: Value, trial: Trial) -> int | None:
    """To how many decimals every float of two results is rounded, at most 8; None where they are not."""
    output = trial.exercise.spec.output
    found = [compare.numbers(part.value) for value in (first, second) for part in compare.parts(value, output)]
    floats = [values.reshape(-1) for values in found if values is not None and values.dtype.kind == "f"]
    flat = np.concatenate(floats) if floats else np.zeros(0)
    flat = flat[np.isfinite(flat)]
    for decimals in range(1, 9):
        grid = 10.0**-decimals
        # Where the digits of the values themselves are no finer, every value is on the grid.
        if not flat.size or float(np.abs(flat).max()) * 2.0**-52 > grid * 1e-4:
            return None
        if (np.abs(flat - np.round(flat, decimals)) <= 4 * 2.0**-52 * np.maximum(np.abs(flat), grid)).all():
            return decimals
    return None


def nothing_right(question: Question) -> Ruling:
    """A check that needs one right result to compare with, and has none among the cases that it looks at."""
    looked_at = question.cases or "random"
    where = {"random": "random shapes", "edge": "edge cases", "examples": "the examples"}.get(
        str(looked_at), "its cases"
    )
    return Ruling("skipped", "values", facts={"why": f"no float64 result on {where} is right yet"})


def _in_float64(trial: Trial, question: Question) -> list[Case]:
    group: Any = question.cases or "random"
    return [case for case, _ in trial.plan.select(group, [DTYPE])]


def _step(case: Case) -> Case:
    # Beyond the bits of float32: an input rounded on the way in loses exactly this.
    changed = cases.shifted(case, PRECISION_STEP, Draws(case.seed, case.label, "precision"))
    return replace(case, arguments=changed, variation="precision")


def _difference(first: Value, second: Value, trial: Trial) -> np.ndarray | None:
    """The second result less the first, its float parts in one row and 0 where one is not finite; None without such parts."""
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


def _scale(value: Value, trial: Trial) -> float:
    return max((compare.largest(part.value) for part in compare.parts(value, trial.exercise.spec.output)), default=0.0)


def strided(trial: Trial, question: Question) -> Ruling:
    """Non-contiguous inputs give the same results as contiguous ones."""
    drawn = _in_float64(trial, question)
    if not drawn:
        return verdicts.no_case()
    dtype = DTYPE
    for case in [case for case in drawn if trial.right(case, dtype)][:1]:
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
    return nothing_right(question)


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
    selected = trial.plan.select(question.cases, question.dtypes)
    if not selected:
        return verdicts.no_case()
    for case, dtype in selected:
        outcome = trial.outcome(case, dtype)
        if not outcome.returned:
            continue
        seen = True
        mine = [args for called, args in outcome.calls if called == name]
        theirs = [args for called, args in trial.expected(case, dtype).calls if called == name]
        said = _calls_differ(name, mine, theirs, SAME_CALL[dtype])
        if said is not None:
            found.append((case, dtype, said))
    if not seen:
        return Ruling("skipped", "nothing_returned")
    if not found:
        return Ruling("pass")
    case, dtype, said = min(found, key=lambda entry: size(entry[0]))
    return Ruling(
        "fail", "calls", case, dtype, trial.outcome(case, dtype), failing=tuple((c, d) for c, d, _ in found),
        facts={"claim": said, "blocks": _extra_calls(trial, name, case, dtype)},
    )  # fmt: skip


def _extra_calls(trial: Trial, name: str, case: Case, dtype: str) -> list[tuple[str, str]]:
    """Where only the number of calls differs: the first call that is one too many, or that is missing."""
    mine = [args for called, args in trial.outcome(case, dtype).calls if called == name]
    theirs = [args for called, args in trial.expected(case, dtype).calls if called == name]
    shorter = min(len(mine), len(theirs))
    pairs = zip(mine[:shorter], theirs[:shorter], strict=True)
    if len(mine) == len(theirs) or not all(_same_arguments(_plain(a), _plain(b), SAME_CALL[dtype]) for a, b in pairs):
        return []
    if len(mine) > len(theirs):
        return [("one too many", f"call {shorter + 1} of `{name}`, with {_brief(mine[shorter])}")]
    return [("missing", f"call {shorter + 1} of `{name}`, with {_brief(theirs[shorter])}")]


def _calls_differ(name: str, mine: list[Value], theirs: list[Value], relative: float) -> str | None:
    if len(mine) != len(theirs):
        times = "time" if len(mine) == 1 else "times"
        return f"`{name}` was called {len(mine)} {times}; expected {len(theirs)}."
    for at, (given, wanted) in enumerate(zip(mine, theirs, strict=True), start=1):
        if not _same_arguments(_plain(given), _plain(wanted), relative):
            return f"call {at} of `{name}` got {_brief(given)}; expected {_brief(wanted)}."
    return None


def _same_arguments(given: Any, wanted: Any, relative: float) -> bool:
    """Whether a call's arguments are the reference's: whole numbers exactly, floats but for rounding, tuples as lists."""
    if isinstance(given, list) and isinstance(wanted, list):
        pairs = zip(given, wanted, strict=False)
        return len(given) == len(wanted) and all(_same_arguments(a, b, relative) for a, b in pairs)
    if isinstance(given, dict) and isinstance(wanted, dict):
        return set(given) == set(wanted) and all(_same_arguments(given[key], wanted[key], relative) for key in wanted)
    if isinstance(wanted, float) and isinstance(given, int | float):
        both_nan = given != given and wanted != wanted
        return both_nan or given == wanted or abs(given - wanted) <= relative * max(1.0, abs(wanted))
    return bool(given == wanted)


def _plain(value: Value) -> Any:
    if isinstance(value, Array):
        return value.numbers().tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _brief(value: Value) -> str:
    inner = value[0] if isinstance(value, list | tuple) and len(value) == 1 else value
    text = repr(_plain(inner))
    return text if len(text) <= 80 else text[:77] + "..."


def peak_memory(trial: Trial, question: Question) -> Ruling:
    """The arrays held at once, above the inputs, stay below a limit. Measured in the worker, by the framework's own allocations."""
    last = verdicts.no_case()
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
                    "blocks": [("held at once", f"{peak / 1e6:.1f} MB"), ("allowed", f"{limit / 1e6:.1f} MB")],
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
            value = compare.numbers(compare.pick(outcome.value, check.output, trial.exercise.spec.output))
            if value is None or value.size != 1:
                return Ruling("skipped", "values", facts={"why": "the result has the wrong type or shape"})
            now = float(value.reshape(-1)[0])
            if previous is not None and not now < previous:
                return Ruling(
                    "fail", "does_not_fall", case, dtype, outcome,
                    facts={"claim": f"After step {step} the value is {now:.6g}, no lower than the {previous:.6g} before it."},
                )  # fmt: skip
            previous = now
            fed = _feed(trial, current, outcome.value, check.feed, step)
            if fed is None:
                return Ruling("skipped", "values", facts={"why": "the result cannot be fed back"})
            current = fed
        return Ruling("pass", case=case)
    return verdicts.no_case()


def _feed(trial: Trial, case: Case, value: Value, feed: dict[str, str], step: int) -> Case | None:
    arguments = dict(case.arguments)
    for part, name in feed.items():
        given = compare.pick(value, part, trial.exercise.spec.output)
        replaced = _refill(arguments.get(name), given)
        if replaced is None:
            return None
        arguments[name] = replaced
    # An oracle is shared by many submissions, and what each feeds back is its own: so is the name of the case.
    own = hashlib.sha256(repr(_bits([arguments[name] for name in feed.values()])).encode()).hexdigest()[:16]
    return replace(case, arguments=arguments, variation=f"{case.variation}+step{step} {own}", fed=True)


def _bits(item: Any) -> Any:
    """Arguments as something whose text is the same exactly where they are."""
    if isinstance(item, Drawn):
        return item.dtype, item.values.shape, item.values.tobytes()
    if isinstance(item, dict):
        return [(key, _bits(inner)) for key, inner in item.items()]
    if isinstance(item, list | tuple):
        return [_bits(inner) for inner in item]
    return item


def _refill(old: Any, given: Value) -> Any:
    if isinstance(old, Drawn) and isinstance(given, Array) and given.shape == old.values.shape:
        return replace(old, values=given.numbers())
    if isinstance(old, dict) and isinstance(given, dict) and set(old) == set(given):
        filled = {key: _refill(old[key], given[key]) for key in old}
        return None if any(item is None for item in filled.values()) else filled
    if isinstance(old, list) and isinstance(given, list | tuple) and len(old) == len(given):
        items = [_refill(before, after) for before, after in zip(old, given, strict=True)]
        return None if any(item is None for item in items) else items
    if isinstance(old, int | float) and not isinstance(old, bool):
        number = compare.numbers(given)
        if number is not None and number.shape == ():
            return type(old)(number[()])
    return None
