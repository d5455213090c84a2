"""A wider search: fresh cases at odd scales, to tell apart from the reference what grading lets pass.

Every random and edge case is drawn again from other seeds, with its normal inputs as they are and multiplied by each of
`SCALES`, all at once and one by one. A uniform input has a range that its author means, and is never scaled. What is
found is printed as an edge case to paste into exercise.yaml.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from grader import cases
from grader.authoring.bench import Reach, reach
from grader.cases import Case
from grader.checks.values import size
from grader.errors import AuthorError, GraderFault
from grader.oracle import IllConditioned, ReferenceOracle
from grader.sandbox.runner import Runner
from grader.spec import schema
from grader.spec.exercise import Exercise
from grader.trial import Trial

SCALES = (1e-3, 3e-2, 30.0, 1e3)
ALONE = (1e-3, 30.0)
# A result that is wrong by less than this is neither right nor wrong for sure, and no witness.
CERTAIN = 3.0
# Times the usual number of elements.
HEAVY = 20
CONFIRMATIONS = 5
WITNESSES = 5
SEED = 20_260_000


@dataclass(frozen=True)
class Recipe:
    """Which case is drawn, and which of its inputs are multiplied by what."""

    base: str
    factor: float = 1.0
    inputs: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return self.base if not self.inputs else f"{self.base}*{self.factor:g}*{'+'.join(self.inputs)}"


@dataclass(frozen=True, eq=False)
class Witness:
    """A case on which a source that grading lets pass is wrong."""

    recipe: Recipe
    reach: Reach
    what: str
    # On how many of `CONFIRMATIONS` further draws of the edge case as pasted it is wrong too.
    confirmed: int
    paste: str


class WideSearch:
    """The cases of the search, drawn when first needed and shared by every source. Safe to share between threads."""

    def __init__(self, exercise: Exercise, runner: Runner, count: int) -> None:
        self._exercise = exercise
        self._count = count
        self._oracle = ReferenceOracle(runner, exercise)
        self._recipes = tuple(recipes(exercise))
        self._cases: list[tuple[Recipe, Case, str]] | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        self._oracle.close()

    @property
    def oracle(self) -> ReferenceOracle:
        return self._oracle

    def prepare(self) -> int:
        """Draw everything and start on the expected values; returns the number of cases."""
        with self._lock:
            if self._cases is None:
                wide = sorted(self._draw(), key=lambda entry: entry[2] != "float64")
                self._oracle.prefetch((case, dtype) for _, case, dtype in wide)
                self._cases = wide
            return len({case.key for _, case, _ in self._cases})

    def _draw(self) -> Iterator[tuple[Recipe, Case, str]]:
        spec = self._exercise.spec
        heavy = heavy_bases(self._exercise)
        rounds = max(1, -(-self._count // max(1, len(self._recipes))))
        made = 0
        for index in range(rounds):
            for recipe in self._recipes:
                if made >= self._count:
                    return
                if recipe.base in heavy and (index or recipe.inputs):
                    continue
                case = draw(self._exercise, recipe, index)
                if case is None:
                    continue
                made += 1
                edge = spec.cases.edge.get(recipe.base)
                for dtype in (edge.dtypes if edge is not None else None) or spec.dtypes:
                    yield recipe, case, dtype

    def find(self, trial: Trial) -> Witness | None:
        """A case on which the trial's source is wrong for certain; of the first few, one that shows it most reliably.

        The trial must use this search's oracle.
        """
        self.prepare()
        assert self._cases is not None
        best: Witness | None = None
        found = 0
        for recipe, case, dtype in self._cases:
            wrong = _wrong(trial, case, dtype)
            if wrong is None:
                continue
            witness = self._witness(trial, recipe, case, dtype, wrong)
            if best is None or witness.confirmed > best.confirmed:
                best = witness
            found += 1
            if best.confirmed == CONFIRMATIONS or found == WITNESSES:
                break
        return best

    def _witness(self, trial: Trial, recipe: Recipe, case: Case, dtype: str, wrong: tuple[float, str]) -> Witness:
        dims = pinned(self._exercise, recipe.base, case)
        confirmed = 0
        for index in range(CONFIRMATIONS):
            again = draw(self._exercise, recipe, 100_000 + index, dims)
            confirmed += again is not None and _wrong(trial, again, dtype) is not None
        text = paste(self._exercise, recipe, dims, dtype)
        return Witness(recipe, Reach.of(wrong[0], case, dtype), wrong[1], confirmed, text)


def _wrong(trial: Trial, case: Case, dtype: str) -> tuple[float, str] | None:
    """(ratio, what) where the source is wrong beyond doubt on one call; None where it is right or nobody can tell."""
    try:
        trial.expected(case, dtype)
    except (IllConditioned, GraderFault, AuthorError):
        return None
    outcome = trial.outcome(case, dtype)
    if outcome.status == "not_run":
        return None
    if not outcome.returned:
        return float("inf"), outcome.error.type if outcome.error is not None else outcome.status
    ratio = reach(trial, case, dtype)
    if ratio < CERTAIN:
        return None
    mismatch = trial.judge(case, dtype)
    assert mismatch is not None
    return ratio, mismatch.kind


# --- recipes ----------------------------------------------------------------------------------------------------------


def recipes(exercise: Exercise) -> Iterator[Recipe]:
    """Every case as it is, then with all its normal inputs scaled, then random ones with a single input scaled."""
    bases = ["random", *exercise.spec.cases.edge] if exercise.spec.cases.random else [*exercise.spec.cases.edge]
    scalable = {base: _scalable(exercise, base) for base in bases}
    yield from (Recipe(base) for base in bases)
    for factor in SCALES:
        yield from (Recipe(base, factor, scalable[base]) for base in bases if scalable[base])
    for factor in ALONE:
        for base in bases[:1]:
            if len(scalable[base]) > 1:
                yield from (Recipe(base, factor, (name,)) for name in scalable[base])


def heavy_bases(exercise: Exercise) -> set[str]:
    """Cases much larger than the others, such as one of 2048 positions: a search over many of them would take for ever."""
    drawn = {base: draw(exercise, Recipe(base), 0) for base in ("random", *exercise.spec.cases.edge)}
    sizes = {base: size(case) for base, case in drawn.items() if case is not None}
    usual = sorted(sizes.values())[len(sizes) // 2] if sizes else 0
    return {base for base, elements in sizes.items() if elements > HEAVY * max(usual, 1)}


def _entries(exercise: Exercise, base: str) -> dict[str, Any]:
    return {**exercise.spec.inputs, **exercise.spec.aux, **exercise.edge_inputs.get(base, {})}


def _scalable(exercise: Exercise, base: str) -> tuple[str, ...]:
    return tuple(name for name, entry in _entries(exercise, base).items() if scaled(entry, 2.0) is not entry)


def scaled(entry: Any, factor: float) -> Any:
    """An input declared ``factor`` times as large; the very same object where it holds nothing that may be scaled."""
    if isinstance(entry, schema.FloatInput):
        if entry.exact or entry.distribution != "normal":
            return entry
        return entry.model_copy(update={"scale": _times(entry.scale, factor), "offset": _times(entry.offset, factor)})
    if isinstance(entry, schema.ListInput):
        if entry.of is not None:
            inner = scaled(entry.of, factor)
            return entry if inner is entry.of else entry.model_copy(update={"of": inner})
        items = tuple(scaled(item, factor) for item in entry.items or ())
        same = all(new is old for new, old in zip(items, entry.items or (), strict=True))
        return entry if same else entry.model_copy(update={"items": items})
    if isinstance(entry, schema.DictInput):
        named = {key: scaled(item, factor) for key, item in entry.items.items()}
        same = all(named[key] is entry.items[key] for key in named)
        return entry if same else entry.model_copy(update={"items": named})
    return entry


def _times(value: int | float | str, factor: float) -> float | str:
    return f"{factor!r} * ({value})" if isinstance(value, str) else float(f"{value * factor:.12g}")


# --- drawing and writing down -----------------------------------------------------------------------------------------


def draw(exercise: Exercise, recipe: Recipe, index: int, dims: Mapping[str, Any] | None = None) -> Case | None:
    """One case of a recipe, ``dims`` fixed where given (as in a pasted edge case); None when the file does not allow it."""
    spec = exercise.spec
    edge = spec.cases.edge.get(recipe.base) or schema.EdgeCase(title="random shapes")
    name = recipe.label + ("" if dims is None else "*pinned")
    if dims is not None:
        entries = {
            key: entry if isinstance(entry, schema.Dim) else schema.Dim(value=entry) for key, entry in dims.items()
        }
        edge = edge.model_copy(update={"dims": entries})
    merged = dict(exercise.edge_inputs.get(recipe.base, {}))
    for key in recipe.inputs:
        merged[key] = scaled(_entries(exercise, recipe.base)[key], recipe.factor)
    widened = replace(
        exercise,
        spec=spec.model_copy(update={"cases": spec.cases.model_copy(update={"edge": {name: edge}})}),
        edge_inputs={name: merged},
    )
    try:
        return cases.draw(widened, name, index, SEED)
    except (AuthorError, ValueError, OverflowError):
        return None


def pinned(exercise: Exercise, base: str, case: Case) -> dict[str, Any]:
    """The dims of an edge case that is always this size: what was chosen as numbers, an edge case's own expressions kept."""
    edge = exercise.spec.cases.edge.get(base)
    found: dict[str, Any] = {}
    if edge is not None:
        found = {name: entry.value for name, entry in edge.dims.items() if entry.value is not None}
    return found | {name: case.dims[name] for name, _ in cases.chosen_dims(exercise, base)}


def paste(exercise: Exercise, recipe: Recipe, dims: Mapping[str, Any], dtype: str) -> str:
    """The edge case as YAML, indented to stand under ``cases: edge:``."""
    spec = exercise.spec
    edge = spec.cases.edge.get(recipe.base)
    body: dict[str, Any] = {"title": "what this case is about"}
    if dims:
        body["dims"] = dict(dims)
    inputs: dict[str, Any] = (
        {name: dict(raw) if raw is not None else None for name, raw in edge.inputs.items()} if edge else {}
    )
    for name in recipe.inputs:
        inputs[name] = {**(inputs.get(name) or {}), **_written(_entries(exercise, recipe.base)[name], recipe.factor)}
    if inputs:
        body["inputs"] = inputs
    if edge is not None and edge.omit:
        body["omit"] = list(edge.omit)
    if edge is not None and edge.adjust:
        body["adjust"] = list(edge.adjust)
    if dtype not in spec.dtypes or (edge is not None and edge.dtypes is not None):
        body["dtypes"] = [dtype]
    name = f"{recipe.base}_found" if recipe.base != "random" else "found"
    text = yaml.safe_dump({name: body}, default_flow_style=None, sort_keys=False, width=110, allow_unicode=True)
    return "".join(f"    {line}\n" for line in text.splitlines())


def _written(entry: Any, factor: float) -> dict[str, Any]:
    """The keys of an input that scaling changes, as they stand in YAML."""
    new = scaled(entry, factor)
    if isinstance(new, schema.FloatInput):
        keys: dict[str, Any] = {"scale": new.scale}
        return {**keys, "offset": new.offset} if new.offset else keys
    if isinstance(new, schema.ListInput) and new.of is not None:
        return {"of": _plain(new.of)}
    if isinstance(new, schema.ListInput):
        return {"items": [_plain(item) for item in new.items or ()]}
    return {"items": {key: _plain(item) for key, item in new.items.items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, schema.Model):
        return _plain(value.model_dump(by_alias=True, exclude_unset=True))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
