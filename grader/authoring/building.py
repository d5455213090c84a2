"""A proposed change to a file, and the small pieces of syntax that changes are made of."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.authoring.reading import Node, Number, Position, index_items, signed_number, start


@dataclass(frozen=True)
class Change:
    """What a family proposes: nodes of the original and what takes their place."""

    variant: str
    replaced: tuple[tuple[ast.AST, ast.AST], ...]
    at: Position


def altered(node: Node, **fields: object) -> Node:
    """A shallow copy of `node` with some fields changed."""
    new = copy.copy(node)
    for field, value in fields.items():
        setattr(new, field, value)
    return new


def change(variant: str, old: ast.AST, new: ast.AST, at: Position | None = None) -> Change:
    return Change(variant, ((old, new),), start(old) if at is None else at)


def number_literal(value: Number) -> ast.expr:
    # A negative Constant unparses without parentheses: `(-1) ** 2` would turn into `-1 ** 2`.
    if value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def offset(node: ast.expr, step: int) -> ast.expr:
    """`node + step`, simplified for numbers and for what has a number added already."""
    value = signed_number(node)
    if value is not None:
        return number_literal(value + step)
    base = node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        added = signed_number(node.right)
        if isinstance(added, int):
            base, step = node.left, step + (added if isinstance(node.op, ast.Add) else -added)
    if step == 0:
        return base
    return ast.BinOp(base, ast.Add() if step > 0 else ast.Sub(), ast.Constant(abs(step)))


def swapped(items: Sequence[ast.expr], i: int, j: int) -> list[ast.expr]:
    new = list(items)
    new[i], new[j] = new[j], new[i]
    return new


def near_pairs(count: int) -> Iterator[tuple[int, int]]:
    """All pairs of up to four things; of more, those at most two apart, which keeps long lists bounded."""
    for i, j in itertools.combinations(range(count), 2):
        if count <= 4 or j - i <= 2:
            yield i, j


def with_item(node: ast.Subscript, position: int, item: ast.expr) -> ast.Subscript:
    items = index_items(node)
    items[position] = item
    if isinstance(node.slice, ast.Tuple):
        return altered(node, slice=altered(node.slice, elts=items))
    return altered(node, slice=item)


def renamed_call(node: ast.Call, name: str) -> ast.Call:
    function = node.func
    if isinstance(function, ast.Attribute):
        return altered(node, func=altered(function, attr=name))
    return altered(node, func=ast.Name(name, ast.Load()))
