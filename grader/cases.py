"""Cases: dims and inputs drawn from a seed, named edge cases, published examples; and how a case is varied.

Inputs are drawn in float64 with `grader.randomness`, rounded to float32 bits (or to the bits of a narrower dtype), and
kept as float64. One expected value so serves both float64 and float32, and every machine draws the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from grader.errors import AuthorError, Finding
from grader.model import CaseRef
from grader.randomness import Draws
from grader.sandbox.protocol import STORAGE, Array, Encoded, Function, Value, cast
from grader.spec import expressions, schema
from grader.spec.exercise import Exercise
from grader.spec.expressions import ExpressionError

TRIES = 2000
RELATIVE_STEP = 6e-8
# What is remembered of the calls of functions handed in: their number, and the numbers they were given in all.
# Bytes of one call that are kept as they are sent.
REMEMBERED = 1 << 20
MAX_CALLS = 10_000
MAX_RECORDED = 4_000_000
MAX_GIVEN = 120


@dataclass(frozen=True, eq=False)
class Drawn:
    """An array before conversion: its values, and what it becomes (``floats`` is the dtype of the case)."""

    values: np.ndarray
    dtype: str = "floats"
    continuous: bool = True
    layout: str = "contiguous"


@dataclass(frozen=True, eq=False)
class Case:
    """One call's worth of inputs. ``arguments`` are `Drawn`, Python scalars, functions, or containers of those, by name."""

    name: str
    index: int
    seed: int
    dims: dict[str, int]
    arguments: dict[str, Any]
    title: str = ""
    number: int = 0
    grid: str = "float32"
    golden: Any = None
    golden_tolerance: float = 0.0
    functions: dict[str, schema.FunctionInput] = field(default_factory=dict)
    scope: dict[str, Any] = field(default_factory=dict)
    shrunk: bool = False
    variation: str = ""
    # random, edge or examples
    group: str = "random"
    # Inputs that are never perturbed although they are Python floats.
    exact: frozenset[str] = frozenset()
    # Whether a submission's own results are among the inputs: the reference may then have no answer.
    fed: bool = False
    # Arguments already converted, by framework, dtype and layout: a class meets the same cases again and again.
    realised: dict[tuple[str, str, str | None], tuple[Value, ...]] = field(default_factory=dict, init=False, repr=False)
    encoded: dict[tuple[str, str, str | None], Encoded] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def label(self) -> str:
        """A name unique among the cases of one seed; draws of a case's own are made under it."""
        dims = ",".join(f"{name}={size}" for name, size in self.dims.items())
        return f"{self.name}-{self.index}:{self.grid}:{dims}:{self.variation}"

    @cached_property
    def key(self) -> str:
        """A name unique among the cases of one exercise: what is remembered of a case is remembered under it."""
        return f"{self.seed}/{self.label}"

    @property
    def token(self) -> str:
        """What ``--case`` takes to draw this very case again; dims are written only where they were chosen by shrinking."""
        name = self.name if self.index == 0 and self.name != "random" else f"{self.name}-{self.index}"
        dims = ",".join(f"{name}={size}" for name, size in self.dims.items()) if self.shrunk else ""
        return f"{self.seed}:{name}" + (f":{dims}" if dims else "")

    @property
    def ref(self) -> CaseRef:
        return CaseRef(self.name, self.number, dict(self.dims), self.token, self.group)

    def with_values(self, changed: Mapping[str, np.ndarray], variation: str) -> Case:
        """The same case with the values of some (top-level) arrays replaced."""
        arguments = dict(self.arguments)
        for name, values in changed.items():
            arguments[name] = replace(arguments[name], values=values)
        return replace(self, arguments=arguments, variation=variation)


def draw(exercise: Exercise, name: str, index: int, seed: int, dims: Mapping[str, int] | None = None) -> Case:
    """Draw random case or edge case ``name``; ``dims`` (a shrunk case's) replace the drawn ones.

    Raises:
        AuthorError: the file's dims cannot be drawn, or an expression fails.
    """
    spec = exercise.spec
    edge = spec.cases.edge.get(name)
    try:
        # Remembered: making a case smaller asks for its dims again and again, and draws that fit may be rare.
        key = (name, index, seed)
        if key not in exercise.drawn_dims:
            exercise.drawn_dims[key] = _draw_dims(spec, edge, Draws(seed, exercise.name, name, index, "dims"))
        sizes = dict(exercise.drawn_dims[key])
        if dims is not None:
            sizes = _recompute(spec, edge, {**sizes, **dims})
        return _draw_inputs(exercise, name, index, seed, sizes, edge, shrunk=dims is not None)
    except ValueError as error:
        raise _author_error(exercise, name, str(error)) from None


def _author_error(exercise: Exercise, name: str, message: str) -> AuthorError:
    path = str(exercise.folder / "exercise.yaml")
    return AuthorError([Finding(path, 0, 0, f"case `{name}`: {message}")], f"grader lint {exercise.name}")


def _dim_entries(spec: schema.ExerciseFile, edge: schema.EdgeCase | None) -> dict[str, schema.Dim]:
    entries = dict(spec.dims)
    if edge is not None:
        entries.update({name: entry.model_copy(update={"free": True}) for name, entry in edge.dims.items()})
    return entries


def _draw_dims(spec: schema.ExerciseFile, edge: schema.EdgeCase | None, draws: Draws) -> dict[str, int]:
    """Sizes with every constraint held and, apart from free ones and an edge case's own, no two equal."""
    entries = _dim_entries(spec, edge)
    own = set(edge.dims) if edge is not None else set()
    relaxed: dict[str, int] | None = None
    order = _order(entries)
    for _ in range(TRIES):
        sizes: dict[str, int] = {}
        for name in order:
            entry = entries[name]
            if entry.range is not None:
                sizes[name] = draws.integer(*entry.bounds())
            elif entry.choices is not None:
                sizes[name] = int(entry.choices[draws.integer(0, len(entry.choices) - 1)])
            else:
                assert entry.value is not None
                sizes[name] = expressions.integer(_whole(entry.value), sizes)
        if not all(expressions.evaluate(str(rule), sizes) for rule in spec.constraints):
            # An edge case may be exactly what a constraint keeps out of random cases.
            if edge is not None and own and relaxed is None:
                relaxed = sizes
            continue
        shaping = [size for name, size in sizes.items() if not entries[name].free]
        if len(set(shaping)) == len(shaping):
            return sizes
        if edge is not None:
            relaxed = sizes
    if relaxed is not None:
        return relaxed
    raise ExpressionError(f"no dims that satisfy the constraints and differ from each other in {TRIES} draws")


def _whole(value: int | float | str) -> int | str:
    return int(value) if isinstance(value, float) and value == int(value) else value  # type: ignore[return-value]


def _order(entries: Mapping[str, schema.Dim]) -> list[str]:
    """Names such that every expression comes after the dims it uses (an edge case may redefine one by another)."""
    done: list[str] = []
    waiting = list(entries)
    while waiting:
        ready = [name for name in waiting if _needs(entries[name], name) <= set(done)]
        if not ready:
            raise ExpressionError("the dims " + ", ".join(waiting) + " depend on each other")
        done.extend(ready)
        waiting = [name for name in waiting if name not in ready]
    return done


def _needs(entry: schema.Dim, name: str) -> frozenset[str]:
    return expressions.names(expressions.parse(entry.value)) if isinstance(entry.value, str) else frozenset()


def _recompute(spec: schema.ExerciseFile, edge: schema.EdgeCase | None, sizes: dict[str, int]) -> dict[str, int]:
    entries = _dim_entries(spec, edge)
    for name in _order(entries):
        value = entries[name].value
        if value is not None:
            sizes[name] = expressions.integer(_whole(value), sizes)
    return {name: sizes[name] for name in entries}


def chosen_dims(exercise: Exercise, name: str) -> list[tuple[str, int]]:
    """The dims that a case of this name draws freely, each with the smallest size it may take."""
    edge = exercise.spec.cases.edge.get(name)
    found = []
    for dim, entry in _dim_entries(exercise.spec, edge).items():
        if entry.range is not None:
            found.append(
                (dim, min(entry.bounds()[0], 1) if edge is None or dim not in edge.dims else entry.bounds()[0])
            )
        elif entry.choices is not None:
            found.append((dim, min(entry.choices)))
    return found


def smaller_sizes(exercise: Exercise, name: str, dim: str, current: int) -> list[int]:
    """Sizes below ``current`` to try, the boldest first: those that the file lists, or the least, halfway, one less."""
    edge = exercise.spec.cases.edge.get(name)
    choices = _dim_entries(exercise.spec, edge)[dim].choices
    if choices is not None:
        return sorted({size for size in choices if size < current})
    least = dict(chosen_dims(exercise, name))[dim]
    bold = [least, max(least, 1), max(least, 2), (least + current) // 2, current - 1]
    return [size for size in dict.fromkeys(bold) if least <= size < current]


def beyond(exercise: Exercise, name: str, dims: Mapping[str, int]) -> str | None:
    """The first of ``dims`` that is larger than a case of this name ever draws it; computed ones are not looked at."""
    edge = exercise.spec.cases.edge.get(name)
    for dim, entry in _dim_entries(exercise.spec, edge).items():
        largest = (
            max(entry.choices) if entry.choices is not None else entry.bounds()[1] if entry.range is not None else None
        )
        if dim in dims and largest is not None and dims[dim] > largest:
            return dim
    return None


def dims_allowed(exercise: Exercise, name: str, dims: Mapping[str, int]) -> bool:
    """Whether a shrunk case may have these dims: computed dims agree and every constraint holds."""
    edge = exercise.spec.cases.edge.get(name)
    try:
        again = _recompute(exercise.spec, edge, dict(dims))
        return again == dict(dims) and all(expressions.evaluate(str(rule), again) for rule in exercise.spec.constraints)
    except ExpressionError:
        return False


def ids_in_range(exercise: Exercise, case: Case) -> bool:
    """Whether every id of a drawn case lies below the bound that its input declares, and is no fraction.

    Lines that adjust a case may lead beyond it: on purpose, or in sizes that they were not written for.
    """
    merged = exercise.edge_inputs.get(case.name, {})
    for name, entry in exercise.spec.inputs.items():
        entry = merged.get(name, entry)
        if not isinstance(entry, schema.IdsInput) or name not in case.arguments:
            continue
        below = expressions.integer(_whole(entry.below), case.dims)
        for drawn in leaves(case.arguments[name]):
            values = drawn.values
            with np.errstate(invalid="ignore"):
                fine = (values >= 0) & (values < below) & (values == np.floor(values))
            if not (fine if entry.ignore is None else fine | (values == entry.ignore)).all():
                return False
    return True


def _draw_inputs(
    exercise: Exercise,
    name: str,
    index: int,
    seed: int,
    sizes: dict[str, int],
    edge: schema.EdgeCase | None,
    shrunk: bool,
) -> Case:
    spec = exercise.spec
    merged = exercise.edge_inputs.get(name, {})
    omitted = set(edge.omit) if edge is not None else set()
    arguments: dict[str, Any] = {}
    auxiliary: dict[str, Any] = {}
    functions: dict[str, schema.FunctionInput] = {}
    for section, target in ((spec.inputs, arguments), (spec.aux, auxiliary)):
        for key, entry in section.items():
            if key in omitted:
                continue
            actual = merged.get(key, entry) if key in merged else entry
            if isinstance(actual, schema.FunctionInput):
                functions[key] = actual
                target[key] = Function(key)
                continue
            target[key] = _draw_input(actual, sizes, Draws(seed, exercise.name, name, index, key))
    _adjust(exercise, name, index, seed, sizes, edge, arguments, auxiliary)
    grid = "float32"
    if edge is not None and edge.dtypes is not None and not {"float64", "float32"} & set(edge.dtypes):
        grid = edge.dtypes[0]
    case = Case(
        name=name,
        index=index,
        seed=seed,
        dims=sizes,
        arguments=rounded(arguments, grid),
        title=edge.title if edge is not None else "random shapes",
        grid=grid,
        functions=functions,
        shrunk=shrunk,
        group="edge" if edge is not None else "random",
        exact=_exact(spec),
    )
    return replace(case, scope=_function_scope(case, auxiliary) if functions else {})


def _function_scope(case: Case, auxiliary: Mapping[str, Any]) -> dict[str, Any]:
    scope: dict[str, Any] = dict(case.dims)
    for name, value in {**auxiliary, **case.arguments}.items():
        scope[name] = value.values if isinstance(value, Drawn) else value
    return scope


def _adjust(
    exercise: Exercise,
    name: str,
    index: int,
    seed: int,
    sizes: Mapping[str, int],
    edge: schema.EdgeCase | None,
    arguments: dict[str, Any],
    auxiliary: dict[str, Any],
) -> None:
    lines = [*exercise.spec.adjust, *(edge.adjust if edge is not None else ())]
    if not lines:
        return
    scope: dict[str, Any] = dict(sizes)
    for source in (auxiliary, arguments):
        for key, value in source.items():
            scope[key] = opened(value)
    draws = Draws(seed, exercise.name, name, index, "adjust")
    for line in lines:
        if not _applies(line, scope):
            # The line is about an input that this case leaves out.
            continue
        expressions.assign(line, scope, draws)
    for target in (auxiliary, arguments):
        for key in target:
            target[key] = closed(target[key], scope[key])


def _applies(line: str, scope: Mapping[str, Any]) -> bool:
    target, value = expressions.parse_assignment(line)
    wanted = expressions.names(target) | expressions.names(value)
    return all(name in scope and scope[name] is not None for name in wanted)


def opened(value: Any) -> Any:
    """The raw arrays of a value, for expressions: containers stay containers."""
    if isinstance(value, Drawn):
        return value.values.copy()
    if isinstance(value, list):
        return [opened(item) for item in value]
    if isinstance(value, dict):
        return {key: opened(item) for key, item in value.items()}
    return value


def closed(before: Any, after: Any) -> Any:
    """``after`` with the markings of ``before``; an adjusted array may have another shape, never another kind."""
    if isinstance(before, Drawn):
        values = np.asarray(after)
        if before.dtype == "bool":
            values = values.astype(bool)
        elif before.dtype != "floats" and not before.dtype.startswith("float"):
            values = values.astype(np.int64)
        else:
            values = values.astype(np.float64)
        return replace(before, values=values)
    if isinstance(before, list) and any(isinstance(item, Drawn | list | dict) for item in before):
        if not isinstance(after, list) or len(before) != len(after):
            raise ExpressionError(f"a list of {len(before)} arrays cannot become {_shown(after)}")
        return [closed(old, new) for old, new in zip(before, after, strict=True)]
    if isinstance(before, dict) and isinstance(after, dict):
        return {key: closed(before[key], after[key]) for key in before}
    if isinstance(after, np.generic | np.ndarray):
        # A plain number stays one, and a list of them a list, whatever an expression made of it.
        if isinstance(before, list) != (np.ndim(after) > 0):
            raise ExpressionError(f"{_shown(before)} cannot become {_shown(after)}")
        return after.tolist()
    if isinstance(after, list):
        return [item.item() if isinstance(item, np.generic) else item for item in after]
    return after


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return f"a list of {len(value)}" if isinstance(value, list) else f"`{value!r}`"


def _draw_input(entry: Any, sizes: Mapping[str, int], draws: Draws) -> Any:
    if entry is None:
        return None
    if isinstance(entry, schema.ScalarInput):
        return _draw_scalar(entry, sizes, draws)
    if isinstance(entry, schema.ListInput):
        items = entry.items
        if items is None:
            assert entry.count is not None
            items = (entry.of,) * expressions.integer(_whole(entry.count), sizes)
        return [_draw_input(item, sizes, draws) for item in items]
    if isinstance(entry, schema.DictInput):
        return {key: _draw_input(item, sizes, draws) for key, item in entry.items.items()}
    shape = tuple(expressions.integer(_whole(size), sizes) for size in entry.shape)
    layout = entry.layout
    if isinstance(entry, schema.FloatInput):
        if entry.distribution == "uniform":
            low, high = _number(entry.low, sizes), _number(entry.high, sizes)
            values = low + (high - low) * draws.uniform(shape)
        else:
            values = draws.normal(shape) * _number(entry.scale, sizes) + _number(entry.offset, sizes)
        return Drawn(values, entry.dtype or "floats", not entry.exact, layout)
    if isinstance(entry, schema.IdsInput):
        ids = draws.integers(0, expressions.integer(_whole(entry.below), sizes), shape)
        if entry.ignore is not None:
            ids = _ignore(ids, entry.ignore, entry.ignored, draws)
        floating = entry.dtype == "float"
        return Drawn(ids.astype(np.float64) if floating else ids, "floats" if floating else entry.dtype, False, layout)
    if isinstance(entry, schema.IntegersInput):
        low, high = (expressions.integer(_whole(end), sizes) for end in (entry.low, entry.high))
        integers = draws.integers(low, high + 1, shape)
        dtype = entry.dtype[draws.integer(0, len(entry.dtype) - 1)]
        floating = dtype == "float"
        return Drawn(
            integers.astype(np.float64) if floating else integers, "floats" if floating else dtype, False, layout
        )
    assert isinstance(entry, schema.BooleansInput)
    return Drawn(draws.uniform(shape) < entry.share, "bool", False, layout)


def _ignore(ids: np.ndarray, ignore: int, share: float, draws: Draws) -> np.ndarray:
    left_out = draws.uniform(ids.shape) < share
    if left_out.size and left_out.all():
        left_out.reshape(-1)[draws.integer(0, left_out.size - 1)] = False
    return np.where(left_out, ignore, ids)


def _number(value: Any, sizes: Mapping[str, int]) -> float:
    return float(expressions.evaluate(value, sizes)) if isinstance(value, str) else float(value)


def _draw_scalar(entry: schema.ScalarInput, sizes: Mapping[str, int], draws: Draws) -> Any:
    if entry.range is not None:
        ends = schema.parse_range(entry.range)
        assert ends is not None
        return float(ends[0] + (ends[1] - ends[0]) * float(draws.uniform()))
    if entry.choices is not None:
        return entry.choices[draws.integer(0, len(entry.choices) - 1)]
    if isinstance(entry.value, str):
        try:
            value = expressions.evaluate(entry.value, sizes)
        except ExpressionError:
            return entry.value
        return value.item() if isinstance(value, np.generic) else value
    return entry.value


def rounded(value: Any, grid: str) -> Any:
    """``value`` (a `Drawn`, or a container of them) with its floats rounded to the bits of ``grid``."""
    if isinstance(value, Drawn):
        if value.dtype != "floats" or grid == "float64":
            return value
        bits = cast(value.values, grid)
        return replace(value, values=Array("ndarray", grid, bits).numbers())
    if isinstance(value, dict):
        return {key: rounded(item, grid) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item, grid) for item in value]
    return value


def example(exercise: Exercise, name: str, seed: int, provided: Mapping[str, Value] | None = None) -> Case:
    """A published case; ``provided`` are the inputs that the reference's ``cases`` gave for it."""
    entry = exercise.spec.cases.examples[name]
    arguments: dict[str, Any] = {}
    given: Mapping[str, Any] = entry.inputs if provided is None else provided
    last = max((at for at, key in enumerate(exercise.spec.inputs) if key in given), default=-1)
    for at, (key, spec) in enumerate(exercise.spec.inputs.items()):
        if key not in given:
            if at > last:
                break
            # Arguments are passed by position, so that one before the last cannot be left out of the call.
            if not spec.optional:
                raise _author_error(exercise, name, f"input `{key}` is missing")
        try:
            if key in given and provided is not None:
                arguments[key] = _from_value(spec, given[key])
            else:
                arguments[key] = _from_literal(spec, given.get(key, spec.default))
        except (ValueError, TypeError, KeyError) as error:
            raise _author_error(exercise, name, f"input `{key}`: {error}") from None
    grid = "float64" if set(entry.dtypes or ("float64",)) == {"float64"} else "float32"
    return Case(
        name=name,
        index=0,
        seed=seed,
        dims={},
        arguments=rounded(arguments, grid),
        title=entry.title,
        grid=grid,
        golden=entry.expected,
        golden_tolerance=entry.tolerance,
        group="examples",
        exact=_exact(exercise.spec),
    )


def _exact(spec: schema.ExerciseFile) -> frozenset[str]:
    return frozenset(name for name, entry in spec.inputs.items() if entry.exact)


def _from_literal(entry: Any, literal: Any) -> Any:
    if entry is None or literal is None or isinstance(entry, schema.ScalarInput):
        return literal
    if isinstance(entry, schema.ListInput):
        return [_from_literal(item, part) for item, part in zip(_items(entry, len(literal)), literal, strict=True)]
    if isinstance(entry, schema.DictInput):
        return {key: _from_literal(entry.items[key], part) for key, part in literal.items()}
    if isinstance(entry, schema.FloatInput):
        return Drawn(np.array(literal, dtype=np.float64), entry.dtype or "floats", not entry.exact, entry.layout)
    if isinstance(entry, schema.BooleansInput):
        return Drawn(np.array(literal, dtype=bool), "bool", False, entry.layout)
    dtype = entry.dtype[0] if isinstance(entry.dtype, tuple) else entry.dtype
    values = np.array(literal, dtype=np.float64 if dtype == "float" else np.int64)
    return Drawn(values, "floats" if dtype == "float" else dtype, False, entry.layout)


def _items(entry: schema.ListInput, count: int) -> list[Any]:
    """What each place of a literal list is: as declared, and beyond that as the first array that is declared."""
    declared = list(entry.items or ())
    some = entry.of or next((item for item in declared if item is not None), None)
    return [declared[at] if at < len(declared) and declared[at] is not None else some for at in range(count)]


def _from_value(entry: Any, value: Value) -> Any:
    if isinstance(value, Array):
        drawn = _from_literal(entry, 0) if entry is not None and hasattr(entry, "shape") else Drawn(np.zeros(()))
        return replace(drawn, values=value.numbers())
    if isinstance(value, list) and isinstance(entry, schema.ListInput):
        return [_from_value(item, part) for item, part in zip(_items(entry, len(value)), value, strict=True)]
    if isinstance(value, dict) and isinstance(entry, schema.DictInput):
        return {key: _from_value(entry.items[key], part) for key, part in value.items()}
    return value


def arguments(case: Case, framework: str, dtype: str, layout: str | None = None) -> tuple[Value, ...]:
    """The positional arguments of ``case`` as plain values, floats in ``dtype``; ``layout`` overrides every array's."""
    key = (framework, dtype, layout)
    if key not in case.realised:
        family = "tensor" if framework == "torch" else "ndarray"
        case.realised[key] = tuple(_realise(value, family, dtype, layout) for value in case.arguments.values())
    return case.realised[key]


def encoded(case: Case, framework: str, dtype: str, layout: str | None = None) -> Value:
    """The arguments as they are sent, remembered while they are small: a class meets the same cases again and again."""
    key = (framework, dtype, layout)
    if key not in case.encoded:
        made = Encoded.of(arguments(case, framework, dtype, layout))
        if sum(map(len, made.buffers)) > REMEMBERED:
            return made
        case.encoded[key] = made
    return case.encoded[key]


def _realise(value: Any, family: str, dtype: str, layout: str | None) -> Value:
    if isinstance(value, Drawn):
        name = dtype if value.dtype == "floats" else value.dtype
        raw = cast(value.values, name) if name.startswith(("float", "bfloat")) else value.values.astype(STORAGE[name])
        return Array(family, name, raw, layout=layout or value.layout)
    if isinstance(value, dict):
        return {key: _realise(item, family, dtype, layout) for key, item in value.items()}
    if isinstance(value, list):
        return [_realise(item, family, dtype, layout) for item in value]
    return value


def on_grid(case: Case, grid: str) -> Case:
    """The case with its floats rounded to ``grid``, so that a narrower dtype sees the very bits the reference sees."""
    if grid == case.grid or (grid == "float64"):
        return case
    return replace(case, arguments=rounded(case.arguments, grid), grid=grid)


def perturb(case: Case, number: int) -> Case:
    """The case with every continuous input changed by 6e-8, relative, in a random direction per element.

    Where no array is continuous, Python floats are changed instead.
    """
    moved = shifted(case, RELATIVE_STEP, Draws(case.seed, case.label, "perturb", number))
    return replace(case, arguments=moved, variation=f"{case.variation}+perturbed{number}")


def shifted(case: Case, step: float, draws: Draws) -> dict[str, Any]:
    """The arguments with every continuous input multiplied by 1 + ``step`` or 1 - ``step``, per element.

    Where no array is continuous, Python floats are, those in lists and dicts too, unless their input is exact.
    """
    changed = [0]

    def shift(value: Any, plain: bool) -> Any:
        if isinstance(value, Drawn):
            if plain or not value.continuous or value.dtype not in ("floats", "float64", "float32"):
                return value
            changed[0] += value.values.size
            with np.errstate(invalid="ignore", over="ignore"):
                return replace(value, values=value.values * (1 + step * draws.sign(value.values.shape)))
        if isinstance(value, dict):
            return {key: shift(item, plain) for key, item in value.items()}
        if isinstance(value, list):
            return [shift(item, plain) for item in value]
        return value * (1 + step * float(draws.sign())) if plain and type(value) is float else value

    moved = {name: shift(value, False) for name, value in case.arguments.items()}
    if changed[0]:
        return moved
    return {name: value if name in case.exact else shift(value, True) for name, value in moved.items()}


def perturb_only(case: Case, path: str) -> Case:
    """The case with the one array at ``path`` (as `arrays` names it) changed by 6e-8, relative."""
    draws = Draws(case.seed, case.label, "perturb", path)

    def shift(at: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shift(f"{at}[{key!r}]", item) for key, item in value.items()}
        if isinstance(value, list):
            return [shift(f"{at}[{index}]", item) for index, item in enumerate(value)]
        if at != path:
            return value
        with np.errstate(invalid="ignore", over="ignore"):
            return replace(value, values=value.values * (1 + RELATIVE_STEP * draws.sign(value.values.shape)))

    moved = {name: shift(name, value) for name, value in case.arguments.items()}
    return replace(case, arguments=moved, variation=f"{case.variation}+perturbed {path}")


def arrays(case: Case) -> Iterator[tuple[str, Drawn]]:
    """Every array of the case with a path such as ``params['w_q']``."""
    for name, value in case.arguments.items():
        yield from _arrays(name, value)


def leaves(value: Any) -> list[Drawn]:
    """The arrays of one argument, in order."""
    return [drawn for _, drawn in _arrays("", value)]


def _arrays(path: str, value: Any) -> Iterator[tuple[str, Drawn]]:
    if isinstance(value, Drawn):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _arrays(f"{path}[{key!r}]", item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _arrays(f"{path}[{index}]", item)


def answerer(case: Case, framework: str, dtype: str, record: list[tuple[str, Value]]) -> Callable[[str, Value], Value]:
    """Answers the calls of functions handed in, and records each with its arguments.

    The answer is an ndarray (a list of Python floats for a `python` exercise, a tensor for a `torch` one).
    Raises ValueError, with words for the student, for a call that the function does not understand.
    """
    room = [MAX_RECORDED]

    def answer(name: str, args: Value) -> Value:
        entry = case.functions.get(name)
        if entry is None:
            raise ValueError(f"no function `{name}` was handed in")
        if len(record) >= MAX_CALLS:
            raise ValueError(f"{name} was called more than {MAX_CALLS:,} times")
        room[0] -= _weight(args)
        if room[0] < 0:
            raise ValueError(f"{name} was given more than {MAX_RECORDED:,} numbers in all")
        record.append((name, args))
        if not isinstance(args, list) or len(args) != len(entry.parameters):
            raise ValueError(f"{name} takes {len(entry.parameters)} argument(s): {', '.join(entry.parameters)}")
        scope = dict(case.scope)
        for parameter, given in zip(entry.parameters, args, strict=True):
            scope[parameter] = _plain_number(given)
        try:
            result = expressions.evaluate(str(entry.returns), scope)
        except ExpressionError:
            # In the student's terms: the expression that answers is none of theirs.
            raise ValueError(f"{name} got {_given(entry, args)}") from None
        try:
            values = np.asarray(result)
            if values.dtype.kind not in "fiub":
                raise ValueError("its answer is no number")
            if framework == "python":
                return values.tolist()
            if values.dtype.kind != "f":
                return Array("tensor" if framework == "torch" else "ndarray", "int64", values.astype(np.int64))
            return Array("tensor" if framework == "torch" else "ndarray", dtype, cast(values, dtype))
        except (ArithmeticError, TypeError, ValueError):
            raise ValueError(f"{name} got {_given(entry, args)}") from None

    return answer


def _given(entry: schema.FunctionInput, args: list[Value]) -> str:
    """The arguments of a call that has no answer, and what is wrong with them where their declared type says it."""
    words = []
    for parameter, given in zip(entry.parameters, args, strict=True):
        plain = _listed(given)
        text = repr(plain)
        words.append(f"{parameter} = {text if len(text) <= MAX_GIVEN else text[: MAX_GIVEN - 4] + ' ...'}")
        takes_ids = "list[int]" in (entry.type or "").partition("],")[0] + "]" and len(args) == 1
        if takes_ids and not isinstance(plain, list):
            return f"{words[0]}, which is no list"
        for at, item in enumerate(plain if takes_ids else ()):
            if not isinstance(item, int) or isinstance(item, bool):
                return f"{words[0]}: item {at} is not an integer"
    return ", ".join(words) + ", to which it has no answer"


def _listed(value: Value) -> Any:
    if isinstance(value, Array):
        return value.numbers().tolist()
    if isinstance(value, list | tuple):
        return [_listed(item) for item in value]
    return round(value, 6) if isinstance(value, float) else value


def _weight(value: Value) -> int:
    """How many numbers and characters a value holds, each part of a container counted too."""
    if isinstance(value, Array):
        return 1 + value.raw.size
    if isinstance(value, dict):
        return 1 + sum(_weight(key) + _weight(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return 1 + sum(map(_weight, value))
    return 1 + len(value) if isinstance(value, str) else 1


def _plain_number(value: Value) -> Any:
    if isinstance(value, Array):
        return value.numbers()
    if isinstance(value, list | tuple):
        return [_plain_number(item) for item in value]
    return value


def parse_token(token: str, seed: int | None) -> tuple[int, str, dict[str, int] | None]:
    """(seed, case name or number, dims) of a ``--case`` token; raises ValueError with words for the user."""
    parts = token.split(":")
    if len(parts) == 1 and seed is not None:
        return seed, parts[0], None
    if len(parts) not in (2, 3) or not parts[0].isdecimal():
        raise ValueError("a case is written SEED:NAME, or a number or name together with --seed")
    dims: dict[str, int] | None = None
    if len(parts) == 3 and parts[2]:
        dims = {}
        for pair in parts[2].split(","):
            name, _, size = pair.partition("=")
            if not size.isdecimal():
                raise ValueError(f"`{pair}` is no size such as S=3")
            dims[name] = int(size)
    return int(parts[0]), parts[1], dims
