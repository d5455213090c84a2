"""What an input says: its names, and the rules of each kind."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from grader.spec import expressions, schema
from grader.spec.document import Path_, nearest
from grader.spec.expressions import ExpressionError
from grader.spec.facts import Facts, quoted

# Kinds that are arrays.
SHAPED = ("float", "ids", "integers", "booleans")
# Keys of each kind that must be whole numbers.
_WHOLE = {"ids": ("below",), "integers": ("low", "high"), "list": ("count",)}


def examine_input(
    facts: Facts, path: Path_, entry: Any, only: Iterable[str] | None = None, nested: bool = False
) -> None:
    """One input; ``only`` are the keys that an edge case gives, the others having been examined before."""
    given = set(entry.model_fields_set)
    looked = given if only is None else given & set(only)
    report = facts.report
    for key in ("below", "scale", "offset", "low", "high", "count"):
        if key in looked:
            facts.expression((*path, key), getattr(entry, key), facts.dims, "a dim")
    for key in _WHOLE.get(entry.kind, ()):
        value = getattr(entry, key)
        if key in looked and isinstance(value, float) and not value.is_integer():
            report((*path, key), f"`{key}` is the number {value}", "a whole number, or an expression such as 2 * d")
    if "shape" in looked:
        for index, size in enumerate(entry.shape):
            facts.expression((*path, "shape", index), size, facts.dims, "a dim")
            if not isinstance(size, str) and (size < 0 or size != size // 1):
                report((*path, "shape", index), f"an axis of size {size}", "a whole number, 0 or more")
    if entry.type is not None and "type" in looked and not _is_annotation(entry.type):
        report(
            (*path, "type"),
            f"`{entry.type}` is no type annotation",
            "Python such as `list[int]` or `torch.Tensor | None`",
        )
    match entry:
        case schema.FloatInput():
            useless = ("scale", "offset") if entry.distribution == "uniform" else ("low", "high")
            other = "normal" if entry.distribution == "uniform" else "uniform"
            for key in useless:
                if key in looked:
                    report(
                        (*path, key),
                        f"`{key}` has no effect on a {entry.distribution} input",
                        f"`distribution: {other}`",
                        key=True,
                    )
            _ordered(facts, path, entry, looked)
        case schema.IdsInput():
            if "ignored" in looked and entry.ignore is None:
                report((*path, "ignored"), "`ignored` has no effect without `ignore`", "`ignore: -100`", key=True)
            if isinstance(entry.below, int | float) and entry.below < 1:
                report((*path, "below"), f"there are no ids below {entry.below}", "1 or more")
        case schema.IntegersInput():
            _ordered(facts, path, entry, looked)
        case schema.ScalarInput():
            _scalar(facts, path, entry)
        case schema.ListInput():
            _list(facts, path, entry)
        case schema.DictInput():
            for key, item in entry.items.items():
                examine_input(facts, (*path, "items", key), item, nested=True)
        case schema.FunctionInput():
            _function(facts, path, entry, nested or path[0] == "aux")


def _ordered(facts: Facts, path: Path_, entry: Any, looked: set[str]) -> None:
    low, high = entry.low, entry.high
    if looked & {"low", "high"} and not isinstance(low, str) and not isinstance(high, str) and low > high:
        key = "high" if "high" in looked else "low"
        facts.report((*path, key), f"`low` is {low} and `high` is {high}", "the smaller number as `low`")


def _scalar(facts: Facts, path: Path_, entry: schema.ScalarInput) -> None:
    given = [key for key in ("value", "choices", "range") if key in entry.model_fields_set]
    if len(given) != 1:
        said = "has " + " and ".join(f"`{key}`" for key in given) if given else "has no value"
        facts.report(path, f"`{path[-1]}` {said}", "exactly one of value, choices and range", key=True)
        return
    if isinstance(entry.value, str) and facts.dims is not None:
        try:
            tree = expressions.parse(entry.value)
        except ExpressionError:
            return
        wanted = "a number, an expression of dims, or for a text `choices: [" + entry.value + "]`"
        for node in expressions.variables(tree):
            if node.id not in facts.dims:
                facts.report(
                    (*path, "value"),
                    f"{quoted(entry.value)}unknown name `{node.id}`{nearest(node.id, facts.dims)}",
                    wanted,
                    offset=expressions.offset_of(node, entry.value),
                )


def _list(facts: Facts, path: Path_, entry: schema.ListInput) -> None:
    given = [key for key in ("items", "count", "of") if getattr(entry, key) is not None]
    if given not in (["items"], ["count", "of"]):
        said = "has " + " and ".join(f"`{key}`" for key in given) if given else "has no entries"
        facts.report(path, f"the list `{path[-1]}` {said}", "either `items`, or `count` and `of`", key=True)
    for index, item in enumerate(entry.items or ()):
        if item is not None:
            examine_input(facts, (*path, "items", index), item, nested=True)
    if entry.of is not None:
        examine_input(facts, (*path, "of"), entry.of, nested=True)


def _function(facts: Facts, path: Path_, entry: schema.FunctionInput, misplaced: bool) -> None:
    if misplaced:
        facts.report(
            path, "a function can only be an input of its own", "`kind: function` directly below `inputs`", key=True
        )
    for index, name in enumerate(entry.parameters):
        facts.usable((*path, "parameters", index), name)
        if name in entry.parameters[:index]:
            facts.report((*path, "parameters", index), f"the parameter `{name}` occurs twice", "each name once")
    facts.expression(
        (*path, "returns"),
        entry.returns,
        facts.scope(*entry.parameters),
        "a parameter, a dim, an input or an aux array",
    )


def _is_annotation(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True


def leaves(path: Path_, entry: Any) -> Iterator[tuple[Path_, Any]]:
    """Every array of an input, with its path."""
    if isinstance(entry, schema.ListInput):
        for index, item in enumerate(entry.items or ()):
            if item is not None:
                yield from leaves((*path, "items", index), item)
        if entry.of is not None:
            yield from leaves((*path, "of"), entry.of)
    elif isinstance(entry, schema.DictInput):
        for key, item in entry.items.items():
            yield from leaves((*path, "items", key), item)
    elif hasattr(entry, "shape"):
        yield path, entry
