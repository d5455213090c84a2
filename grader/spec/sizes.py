"""Sizes of dims without drawing any: the ends of every range, what is computed from them, and whether a draw can exist."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grader.spec import expressions, schema
from grader.spec.expressions import ExpressionError

MAX_CORNERS = 24
MAX_ENUMERATED = 4096
SHOWN = 60
# A case is small enough to be looked at; this only keeps a slip from filling the memory.
MAX_ELEMENTS = 50_000_000


def all_names_known(dims: Mapping[str, schema.Dim]) -> bool:
    """Whether computed dims use nothing but dims."""
    return all(needs(dim) <= set(dims) for dim in dims.values())


def needs(dim: schema.Dim) -> set[str]:
    """The dims that a computed dim uses."""
    return set(expressions.names(expressions.parse(dim.value))) if isinstance(dim.value, str) else set()


def draws(dim: schema.Dim) -> bool:
    """Whether a computed dim calls a function that draws, which is reported elsewhere."""
    tree = expressions.parse(dim.value) if isinstance(dim.value, str) else None
    nodes = ast.walk(tree) if tree is not None else ()
    return any(isinstance(node, ast.Name) and node.id in expressions.DRAWING for node in nodes)


def order(dims: Mapping[str, schema.Dim]) -> list[str]:
    """The dims, each after those it uses; raises `ExpressionError` when some use each other in a circle."""
    done: list[str] = []
    waiting = list(dims)
    while waiting:
        ready = [name for name in waiting if needs(dims[name]) <= set(done)]
        if not ready:
            names = " and ".join(f"`{name}`" for name in waiting)
            each = "depend on each other" if len(waiting) > 1 else "depends on itself"
            raise ExpressionError(f"{names} {each}")
        done += ready
        waiting = [name for name in waiting if name not in ready]
    return done


def _ends(dim: schema.Dim) -> list[int]:
    """The smallest and the largest size of a dim that is drawn; nothing for a computed one."""
    if dim.range is not None:
        return list(dict.fromkeys(dim.bounds()))
    if dim.choices is not None:
        return list(dict.fromkeys((min(dim.choices), max(dim.choices))))
    return []


def corners(dims: Mapping[str, schema.Dim]) -> Iterator[dict[str, int]]:
    """Draws at the ends of what is drawn: all smallest, all largest, and mixtures, up to `MAX_CORNERS`."""
    ends = {name: _ends(dim) for name, dim in dims.items() if _ends(dim)}
    low = {name: values[0] for name, values in ends.items()}
    high = {name: values[-1] for name, values in ends.items()}
    found = [low, high, *({**low, name: high[name]} for name in ends), *({**high, name: low[name]} for name in ends)]
    for sizes in found[:MAX_CORNERS]:
        yield dict(sizes)


def compute(dims: Mapping[str, schema.Dim], sizes: dict[str, int]) -> tuple[str, str] | None:
    """Add the computed dims to ``sizes``; (dim, reason) when one cannot be computed."""
    for name, dim in dims.items():
        if dim.value is not None:
            try:
                sizes[name] = expressions.integer(dim.value, sizes)
            except ExpressionError as error:
                return name, f"`{name}`: {error}"
    return None


def holds(rules: Iterable[Any], sizes: Mapping[str, int]) -> bool:
    """Whether every constraint is true of ``sizes``; one that cannot be computed is not."""
    try:
        return all(expressions.evaluate(str(rule), sizes) for rule in rules)
    except ExpressionError:
        return False


def distinct(dims: Mapping[str, schema.Dim], sizes: Mapping[str, int]) -> bool:
    """Whether no two sizes are equal, free ones apart."""
    shaping = [size for name, size in sizes.items() if not dims[name].free]
    return len(set(shaping)) == len(shaping)


def some_draw_is_accepted(spec: schema.ExerciseFile) -> bool:
    """Whether some draw satisfies the constraints with all sizes different; True where there are too many to try."""
    options = []
    for name, dim in spec.dims.items():
        if dim.range is not None:
            low, high = dim.bounds()
            options.append([(name, size) for size in range(low, high + 1)])
        elif dim.choices is not None:
            options.append([(name, size) for size in dict.fromkeys(dim.choices)])
    total = 1
    for option in options:
        total *= len(option)
    if total > MAX_ENUMERATED:
        return True
    for drawn in itertools.product(*options):
        sizes = dict(drawn)
        if compute(spec.dims, sizes) is None and holds(spec.constraints, sizes) and distinct(spec.dims, sizes):
            return True
    return False


@dataclass(frozen=True)
class ArrayFault:
    """Why an array cannot be drawn: at which keys of its input, what is wrong, and what was expected."""

    where: tuple[str | int, ...]
    said: str
    wanted: str


def array_fault(entry: Any, drawn: Mapping[str, int]) -> ArrayFault | None:
    """Why an input with a shape cannot be drawn for these dims; None when it can.

    Literal sizes and unknown names are reported where they stand, whatever the dims are.
    """
    elements = 1
    for index, text in enumerate(entry.shape):
        if isinstance(text, str):
            try:
                value = expressions.integer(text, drawn)
            except ExpressionError as error:
                if "unknown name" in str(error):
                    return None
                return ArrayFault(("shape", index), str(error), "a whole number, 0 or more, whatever is drawn")
            if value < 0:
                return ArrayFault(("shape", index), f"`{text}` is {value}", "0 or more, whatever is drawn")
        elements *= size(text, drawn)
    if isinstance(entry, schema.IdsInput) and isinstance(entry.below, str) and size(entry.below, drawn) < 1:
        said = f"`{entry.below}` is {size(entry.below, drawn)}"
        return ArrayFault(("below",), said, "1 or more, whatever is drawn")
    if isinstance(entry, schema.IntegersInput) and size(entry.low, drawn) > size(entry.high, drawn):
        said = f"there is no whole number from `{entry.low}` to `{entry.high}`"
        return ArrayFault(("high",), said, "no less than `low`, whatever is drawn")
    if elements > MAX_ELEMENTS:
        return ArrayFault(("shape",), f"an array of {elements:.2g} elements", f"at most {MAX_ELEMENTS:,}")
    return None


def size(text: Any, drawn: Mapping[str, int]) -> int:
    """The size that ``text`` stands for; 1 where it cannot be told."""
    try:
        return expressions.integer(text, drawn)
    except ExpressionError:
        return 1


def in_words(drawn: Mapping[str, int], but: str = "") -> str:
    """For which draw, in a few words."""
    text = ", ".join(f"{name} = {size}" for name, size in drawn.items() if name != but)
    return f" when {text if len(text) <= SHOWN else text[: SHOWN - 1] + '…'}" if text else ""
