"""Relations: what the result may depend on, seen by changing inputs and watching outputs.

A whole position (a token row, an example) is replaced by fresh values, one at a time, and the movement of each output
position is measured in tolerances of the case. "Does not read" is said only where the reference moves by at least
`READS` tolerances and the submission by at most `STILL`; "leaks" only where the reference moves by at most `HELD` and the
submission by more than `LEAKS`. Anything between is undecided and never held against a submission.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import numpy as np

from grader import cases, compare
from grader.cases import Case, Drawn
from grader.checks import verdicts
from grader.checks.values import size
from grader.errors import AuthorError, Finding
from grader.model import Grid, Question, Ruling
from grader.randomness import Draws
from grader.sandbox.protocol import Value
from grader.spec import expressions
from grader.trial import Trial

READS, STILL = 10.0, 2.0
HELD, LEAKS = 1.0, 4.0
LARGE = 1000.0
# Apart from the calls that the check for repeatable results makes: those are to come after all others.
AGAIN = 2
DTYPE = "float64"
# Cases looked at before a relation is called held; more would only repeat what the values checks saw.
TRIED = 2


def independent(trial: Trial, question: Question) -> Ruling:
    """No example's outputs move when another example's inputs are replaced."""
    return _dependence(trial, question, lambda out, into: out != into, leaks=True)


def causal(trial: Trial, question: Question) -> Ruling:
    """No output moves when a later input position is replaced."""
    return _dependence(trial, question, lambda out, into: into > out, leaks=True)


def reads(trial: Trial, question: Question) -> Ruling:
    """Every output moves with every input position that moves the reference's."""
    return _dependence(trial, question, lambda out, into: True, leaks=False)


def _dependence(trial: Trial, question: Question, concerns: Any, leaks: bool) -> Ruling:
    drawn = _candidates(trial, question)
    if not drawn:
        return verdicts.no_case()
    candidates = [case for case in drawn if _positions(case, question.check.inputs) >= 2]
    last: Ruling | None = None
    for case in candidates[:TRIED]:
        ruling = _map(trial, question, case, concerns, leaks)
        if ruling.verdict not in ("pass", "skipped"):
            return ruling
        last = ruling if last is None or last.verdict == "skipped" else last
    # Which cases there are depends on the exercise and the seed alone, never on the submission.
    return last or Ruling("skipped", "no_case", facts={"why": "no case has two positions to compare"}, neutral=True)


def _candidates(trial: Trial, question: Question) -> list[Case]:
    group: Any = question.cases or "random"
    found = [case for case, dtype in trial.plan.select(group, [DTYPE])]
    return sorted(found, key=size)


def _positions(case: Case, inputs: dict[str, int]) -> int:
    counts = set()
    for name, axis in inputs.items():
        drawn = case.arguments.get(name)
        if not isinstance(drawn, Drawn) or not -drawn.values.ndim <= axis < drawn.values.ndim:
            return 0
        counts.add(drawn.values.shape[axis])
    return min(counts, default=0)


def _map(trial: Trial, question: Question, case: Case, concerns: Any, leaks: bool) -> Ruling:
    check = question.check
    base = _numbers(trial, question, case)
    if isinstance(base, Ruling):
        return base
    mine, theirs, allowed = base
    if not -theirs.ndim <= check.output < theirs.ndim:
        raise _author(trial, question, f"the result has no axis {check.output}")
    axis = check.output % theirs.ndim
    columns = _positions(case, check.inputs)
    rows = theirs.shape[axis]
    got = np.full((rows, columns), np.nan)
    wanted = np.full((rows, columns), np.nan)
    variants = [_replace_position(case, check.inputs, at) for at in range(columns)]
    trial.foresee((varied, DTYPE) for varied in variants)
    for at, varied in enumerate(variants):
        outcome = trial.outcome(varied, DTYPE)
        if not outcome.returned:
            if outcome.status == "not_run":
                return Ruling("skipped", "stopped", outcome=outcome)
            verdict, cause = verdicts.of_outcome(outcome)
            return Ruling(verdict, cause, varied, DTYPE, outcome)
        answer = _part(trial, trial.oracle.raw(varied, DTYPE).value, check.part)
        if answer is None or answer.shape != theirs.shape:
            raise _author(
                trial, question, f"the reference's result changes shape with the inputs in case `{case.name}`"
            )
        moved = _part(trial, outcome.value, check.part)
        if moved is None or moved.shape != mine.shape:
            if not leaks:
                # It moved, and yet nobody can say which positions did.
                return Ruling(
                    "skipped", "values", facts={"why": "its results change shape with the values of the inputs"}
                )
            # A result whose very shape depends on an input is moved by it everywhere.
            moved = np.full(mine.shape, np.nan)
        got[:, at] = _movement(mine, moved, axis) / allowed
        wanted[:, at] = _movement(theirs, answer, axis) / allowed
    grid = Grid(
        _axis_name(trial, question, axis),
        "example" if check.kind == "independent" else _input_name(check.inputs),
        _cells(got, LEAKS, STILL),
        _cells(wanted, READS, HELD),
    )
    bad = [
        (row, column)
        for row in range(rows)
        for column in range(columns)
        if concerns(row, column)
        and (
            (leaks and wanted[row, column] <= HELD and got[row, column] > LEAKS)
            or (not leaks and wanted[row, column] >= READS and got[row, column] <= STILL)
        )
    ]
    if leaks and not bad:
        return Ruling("pass", case=case)
    # What moved, or did not, is said of its inputs alone where the same inputs move nothing.
    unsteady = _unsteady(trial, case)
    if unsteady is not None:
        return unsteady
    if not bad:
        return Ruling("pass", case=case)
    return Ruling(
        "fail", "leak" if leaks else "not_read", case, DTYPE, trial.outcome(case, DTYPE), failing=((case, DTYPE),), grid=grid,
        facts={"bad": bad, "inputs": list(check.inputs), "claim": _claim(question, grid, bad, leaks)},
    )  # fmt: skip


def _unsteady(trial: Trial, case: Case) -> Ruling | None:
    """Why nothing can be said of what a result depends on: asked again with the same inputs, it is another one."""
    first, again = trial.outcome(case, DTYPE), trial.outcome(case, DTYPE, options={"again": AGAIN})
    if again.status == "not_run":
        return Ruling("skipped", "stopped", outcome=again)
    why = "the same inputs give different results, so that nothing can be said of what a result depends on"
    if not again.returned:
        return Ruling("skipped", "values", facts={"why": why})
    expected = trial.expected(case, DTYPE)
    wide = replace(expected, leaves=tuple(replace(leaf, allowed=STILL * leaf.allowed) for leaf in expected.leaves))
    if compare.changed(first.value, again.value, wide, trial.exercise.spec.output) is None:
        return None
    return Ruling("skipped", "values", facts={"why": why})


def _claim(question: Question, grid: Grid, bad: list[tuple[int, int]], leaks: bool) -> str:
    row, column = bad[0]
    names = " and ".join(f"`{name}`" for name in question.check.inputs)
    if question.check.kind == "independent":
        return f"Changing {names} of example {column} also changes the output of example {row}."
    if leaks:
        return f"Changing {names} at position {column} changes the output at position {row}, which comes before it."
    return f"Some outputs do not change when {names} change, where they should."


def _movement(first: np.ndarray, second: np.ndarray, axis: int) -> np.ndarray:
    """The largest change per position of ``axis``; a change to or from a non-finite value is infinite."""
    with np.errstate(invalid="ignore", over="ignore"):
        same = (first == second) | (np.isnan(first) & np.isnan(second))
        change = np.where(same, 0.0, np.abs(first - second))
    change = np.nan_to_num(change, nan=np.inf, posinf=np.inf)
    others = tuple(k for k in range(change.ndim) if k != axis)
    return np.asarray(change.max(axis=others, initial=0.0) if others else change)


def _cells(moved: np.ndarray, yes: float, no: float) -> tuple[tuple[bool | None, ...], ...]:
    return tuple(
        tuple(True if cell > yes or cell == np.inf else False if cell <= no else None for cell in row) for row in moved
    )


def _axis_name(trial: Trial, question: Question, axis: int) -> str:
    output = trial.exercise.spec.output
    if question.check.part is not None and output.items:
        keys = list(output.items)
        part = question.check.part
        output = output.items[keys[part] if isinstance(part, int) else part]
    axes = output.axes
    return axes[axis] if axes is not None and axis < len(axes) else "output"


def _input_name(inputs: dict[str, int]) -> str:
    first = next(iter(inputs))
    return {"src_ids": "source", "tgt_ids": "target"}.get(first, first)


def _replace_position(case: Case, inputs: dict[str, int], at: int) -> Case:
    """The case with position ``at`` of every named input replaced by other values of the same kind."""
    changed = {}
    for name, axis in inputs.items():
        drawn: Drawn = case.arguments[name]
        values = drawn.values.copy()
        index: list[Any] = [slice(None)] * values.ndim
        index[axis] = at
        draws = Draws(case.seed, case.label, "replace", name, at)
        values[tuple(index)] = _other(drawn, values[tuple(index)], draws)
        changed[name] = cases.rounded(replace(drawn, values=values), case.grid).values
    return case.with_values(changed, f"replaced {','.join(f'{name}/{axis}' for name, axis in inputs.items())} at {at}")


def _other(drawn: Drawn, old: np.ndarray, draws: Draws, scale: float | None = None) -> np.ndarray:
    """Fresh values that differ from ``old`` everywhere they can: floats of a sensible scale, other ids, flipped booleans."""
    if drawn.values.dtype == bool:
        return ~old
    if drawn.continuous:
        finite = drawn.values[np.isfinite(drawn.values)]
        spread = float(finite.std()) if finite.size else 1.0
        return draws.normal(old.shape) * (scale if scale is not None else (spread or 1.0))
    # Ids: another one of those in use, so that no table is left.
    pool = np.unique(drawn.values)
    if pool.size < 2:
        return old
    where = np.searchsorted(pool, old)
    step = draws.integers(1, pool.size, old.shape)
    return np.asarray(pool[(where + step) % pool.size])


def _part(trial: Trial, value: Value, part: str | int | None) -> np.ndarray | None:
    if part is not None:
        value = compare.pick(value, part, trial.exercise.spec.output)
    found = compare.numbers(value)
    return None if found is None else found.astype(np.float64)


def _numbers(trial: Trial, question: Question, case: Case) -> tuple[np.ndarray, np.ndarray, float] | Ruling:
    """(the submission's result, the reference's, what is allowed) of a case, or why there is none."""
    part = question.check.part
    outcome = trial.outcome(case, DTYPE)
    if outcome.status == "not_run":
        return Ruling("skipped", "stopped", outcome=outcome)
    if not outcome.returned:
        return Ruling("skipped", "values", facts={"why": "no call to compare with gave a result"})
    expected = trial.expected(case, DTYPE)
    mine, theirs = _part(trial, outcome.value, part), _part(trial, expected.value, part)
    if theirs is None:
        raise _author(trial, question, "what it looks at holds no numbers")
    if mine is None or mine.shape != theirs.shape:
        return Ruling("skipped", "values", facts={"why": "the result has the wrong type or shape"})
    looked_at = expected.value if part is None else compare.pick(expected.value, part, trial.exercise.spec.output)
    allowed = [leaf.allowed for leaf in expected.leaves if leaf.allowed > 0 and leaf.expected is looked_at]
    # Whole numbers have no tolerance: any movement is one.
    own = compare.FLOOR_ULPS * compare.EPS[DTYPE] * float(np.abs(mine[np.isfinite(mine)]).max(initial=0.0))
    return mine, theirs, max([*allowed, own] if allowed else [1e-12, own])


# --- ignores ----------------------------------------------------------------------------------------------------------


def ignores(trial: Trial, question: Question) -> Ruling:
    """Other large finite values where nothing should be read change nothing."""
    if not _candidates(trial, question):
        return verdicts.no_case()
    # Where there is nothing to fill depends on the exercise and the seed alone, never on the submission.
    last = Ruling("skipped", "no_case", facts={"why": "no case has what must be ignored"}, neutral=True)
    for what in question.check.what:
        for case, varied in _filled(trial, question, what):
            ruling = _ignored(trial, question, case, varied, what)
            if ruling.verdict not in ("pass", "skipped"):
                return ruling
            last = ruling if last.verdict != "pass" else last
    return last


def _filled(trial: Trial, question: Question, what: str) -> list[tuple[Case, Case]]:
    """The smallest cases in which there is something to fill, each as it is and with other values there."""
    found: list[tuple[Case, Case]] = []
    for case in _candidates(trial, question):
        try:
            varied = fill(case, what)
        except expressions.ExpressionError as error:
            raise _author(trial, question, f"`{what}`: {error}") from None
        if varied is not None:
            found.append((case, varied))
        if len(found) == TRIED:
            break
    return found


def _ignored(trial: Trial, question: Question, case: Case, varied: Case, what: str) -> Ruling:
    before = trial.outcome(case, DTYPE)
    if before.status == "not_run":
        return Ruling("skipped", "stopped", outcome=before)
    if not before.returned:
        return Ruling("skipped", "values", facts={"why": "no call to compare with gave a result"})
    expected = trial.expected(case, DTYPE)
    answer = trial.oracle.raw(varied, DTYPE).value
    output, framework = trial.exercise.spec.output, trial.exercise.spec.framework
    if compare.mismatch(answer, expected, output, framework) is not None:
        raise _author(trial, question, f"the reference itself changes with `{what}` in case `{case.name}`")
    after = trial.outcome(varied, DTYPE)
    if after.status == "not_run":
        return Ruling("skipped", "stopped", outcome=after)
    if not after.returned:
        verdict, cause = verdicts.of_outcome(after)
        return Ruling(verdict, cause, varied, DTYPE, after, failing=((case, DTYPE),))
    wide = replace(expected, leaves=tuple(replace(leaf, allowed=LEAKS * leaf.allowed) for leaf in expected.leaves))
    mismatch = compare.changed(before.value, after.value, wide, output)
    if mismatch is None:
        return Ruling("pass", case=case)
    unsteady = _unsteady(trial, case)
    if unsteady is not None:
        return unsteady
    return Ruling(
        "fail", "not_ignored", case, DTYPE, after, mismatch, ((case, DTYPE),),
        facts={"claim": f"The result changes when `{what}` is filled with other values.", "labels": ("with other values there", "before")},
    )  # fmt: skip


def fill(case: Case, what: str) -> Case | None:
    """The case with ``what`` (an input, or a part of one) filled with other values; None where there is nothing to fill.

    Raises:
        ExpressionError: ``what`` cannot be read in this case.
    """
    name = root_name(what)
    given = case.arguments.get(name)
    if given is None:
        return None
    scope: dict[str, Any] = {**case.dims, name: cases.opened(given)}
    part = expressions.evaluate(what, scope)
    if not isinstance(part, np.ndarray | np.generic):
        raise expressions.ExpressionError("no array, and only arrays can be filled")
    old = np.asarray(part)
    if old.size == 0:
        return None
    drawn = next(leaf for leaf in cases.leaves(given) if leaf.values.dtype == old.dtype)
    new = _other(drawn, old, Draws(case.seed, case.label, "fill", what), LARGE)
    if what.strip() == name:
        scope[name] = new
    else:
        scope["_new"] = new
        expressions.assign(f"{what} = _new", scope)
    filled = cases.rounded(cases.closed(given, scope[name]), case.grid)
    return replace(case, arguments={**case.arguments, name: filled}, variation=f"filled {what}")


def root_name(text: str) -> str:
    """The input that a slice such as ``blocks[:, 10:12]`` or ``params["w"][0]`` is a part of."""
    tree = expressions.parse(text)
    while isinstance(tree, ast.Subscript):
        tree = tree.value
    return tree.id if isinstance(tree, ast.Name) else text


def _author(trial: Trial, question: Question, message: str) -> AuthorError:
    path = str(trial.exercise.folder / "exercise.yaml")
    return AuthorError([Finding(path, 0, 0, f"check `{question.id}`: {message}")], f"grader lint {trial.exercise.name}")
