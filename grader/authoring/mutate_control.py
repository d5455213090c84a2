"""Families of mutants: slices, indices and bounds; statements, their order, and control."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping

from grader.authoring.building import Change, altered, change, near_pairs, number_literal, offset, swapped, with_item
from grader.authoring.mutate_calls import function_of
from grader.authoring.reading import (
    SIZE,
    TRANSPOSES,
    Binding,
    Reading,
    call_position,
    index_items,
    is_full_slice,
    is_literal,
    is_main_guard,
    is_new_axis,
    is_string_statement,
    names_used,
    signed_number,
    start,
)


def mutate_slice(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """Both ends of a slice off by one, of the other sign, or open; the slice shifted; its step lost."""
    if not isinstance(node, ast.Subscript):
        return
    parent = reading.parent(node)
    unpacked = isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Tuple | ast.List)
    for position, item in enumerate(index_items(node)):
        if not isinstance(item, ast.Slice) or is_full_slice(item):
            continue
        changes = [*shifted_slices(item, open_too=unpacked)]
        if not unpacked or isinstance(node.slice, ast.Tuple):
            changes += slice_variants(item)
        for variant, new in changes:
            yield change(variant, node, with_item(node, position, new), start(item))


def shifted_slices(item: ast.Slice, *, open_too: bool) -> Iterator[tuple[str, ast.Slice]]:
    """A slice of the same length one place on or back; `[:n]` becomes `[1:n + 1]` only with `open_too`."""
    if item.upper is None or item.step is not None or (item.lower is None and not open_too):
        return
    lower = item.lower or ast.Constant(0)
    for delta in (1, -1):
        bounds = [offset(lower, delta), offset(item.upper, delta)]
        crossed = [is_negative(old) != is_negative(new) for old, new in zip((lower, item.upper), bounds, strict=True)]
        if not any(crossed):
            yield f"shifted{delta:+d}", altered(item, lower=bounds[0], upper=bounds[1])


def is_negative(node: ast.expr) -> bool:
    value = signed_number(node)
    return value is not None and value < 0


def slice_variants(item: ast.Slice) -> Iterator[tuple[str, ast.Slice]]:
    step = signed_number(item.step)
    if item.step is not None and step != 1:
        yield "step-open", altered(item, step=None)
    if step is not None and step < 0:
        return
    for name, bound, closed in (("lower", item.lower, 1), ("upper", item.upper, -1)):
        if bound is None:
            yield f"{name}{closed:+d}", altered(item, **{name: number_literal(closed)})
            continue
        value = signed_number(bound)
        for delta in (1, -1):
            # An end that becomes 0 is an open end (or an empty slice); "open" below stands for it.
            if value is None or value + delta != 0:
                yield f"{name}{delta:+d}", altered(item, **{name: offset(bound, delta)})
        if isinstance(bound, ast.UnaryOp) and isinstance(bound.op, ast.USub):
            yield f"{name}-sign", altered(item, **{name: bound.operand})
        elif value:
            yield f"{name}-sign", altered(item, **{name: number_literal(-value)})
        if not (name == "lower" and value == 0):
            yield f"{name}-open", altered(item, **{name: None})


def mutate_index(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """An index off by one; a new axis before instead of after its neighbour."""
    if not isinstance(node, ast.Subscript):
        return
    items = index_items(node)
    for position, item in enumerate(items):
        if is_offset_index(item, reading):
            for delta in (1, -1):
                yield change(f"{delta:+d}", node, with_item(node, position, offset(item, delta)), start(item))
        if position + 1 < len(items) and isinstance(node.slice, ast.Tuple):
            pair = (item, items[position + 1])
            if any(map(is_new_axis, pair)) and any(map(is_full_slice, pair)):
                moved = altered(node.slice, elts=swapped(items, position, position + 1))
                yield change("axis-moved", node, altered(node, slice=moved), start(item))


def is_offset_index(item: ast.expr, reading: Reading) -> bool:
    if reading.role(item) == "axis" or is_new_axis(item):
        return False
    if isinstance(item, ast.Constant):
        return type(item.value) is int
    if isinstance(item, ast.UnaryOp) and not isinstance(item.op, ast.USub):
        return False
    return isinstance(item, ast.Name | ast.BinOp | ast.Call | ast.Attribute | ast.Subscript | ast.UnaryOp)


def mutate_range(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """The bounds of `range` off by one; `arange` that starts one later and keeps its length."""
    callee = reading.callee(node)
    if callee is None or not isinstance(node, ast.Call) or not node.args:
        return
    arguments = list(node.args)
    first, stop = (None, 0) if len(arguments) == 1 else (0, 1)

    def moved(steps: Mapping[int | None, int]) -> list[ast.expr]:
        return [offset(a, steps[i]) if i in steps else a for i, a in enumerate(arguments)]

    if callee.name == "arange" and callee.module is not None:
        new = [*([ast.Constant(1)] if first is None else []), *moved({first: 1, stop: 1})]
        yield change("shifted", node, altered(node, args=new), call_position(node))
    elif callee.name == "range" and callee.module is None and callee.receiver is None:
        yield change("stop+1", node, altered(node, args=moved({stop: 1})))
        yield change("stop-1", node, altered(node, args=moved({stop: -1})))
        if first is None:
            yield change("start+1", node, altered(node, args=[ast.Constant(1), *arguments]))
        else:
            yield change("start+1", node, altered(node, args=moved({first: 1})))
            yield change("start-1", node, altered(node, args=moved({first: -1})))


# --- the families: statements and control -------------------------------------------------------------


def mutate_loop(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """A loop without its last or its first turn, and in reverse."""
    if not isinstance(node, ast.For | ast.comprehension):
        return
    items = ast.Call(ast.Name("list", ast.Load()), [node.iter], [])
    minus = number_literal(-1)
    slices = {"without-last": ast.Slice(upper=minus), "without-first": ast.Slice(lower=ast.Constant(1))}
    callee = reading.callee(node.iter)
    if callee is not None and callee.name == "range":
        slices = {}  # its bounds have a family of their own
    if not (isinstance(node.target, ast.Name) and node.target.id == "_"):
        slices["reversed"] = ast.Slice(step=minus)
    for variant, part in slices.items():
        yield change(variant, node.iter, ast.Subscript(items, part, ast.Load()))


def mutate_conditional(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """A condition that always holds, never holds, or is turned round; one branch of a choice for both."""
    if isinstance(node, ast.If) and not isinstance(node.test, ast.Constant):
        yield change("always", node.test, ast.Constant(True))
        yield change("never", node.test, ast.Constant(False))
        if isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
            yield change("inverted", node.test, ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.While) and not isinstance(node.test, ast.Constant):
        yield change("never", node.test, ast.Constant(False))
    elif isinstance(node, ast.IfExp):
        yield change("always", node, node.body, start(node.test))
        yield change("never", node, node.orelse, start(node.test))
    elif isinstance(node, ast.comprehension):
        for test in node.ifs:
            yield change("always", test, ast.Constant(True))
    elif isinstance(node, ast.Call):
        callee = reading.callee(node)
        if callee and callee.name == "where" and callee.module and len(node.args) == 3:
            for variant, kept in (("always", node.args[1]), ("never", node.args[2])):
                if not is_literal(kept):
                    yield change(variant, node, kept)


def mutate_statement(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """A statement is lost, where its names exist without it."""
    if isinstance(node, ast.Assign):
        lost = all(
            isinstance(leaf, ast.Subscript | ast.Attribute)
            or (isinstance(leaf, ast.Name) and reading.exists(leaf.id, node))
            for target in node.targets
            for leaf in target_leaves(target)
        )
    elif isinstance(node, ast.AnnAssign):
        lost = isinstance(node.target, ast.Name) and reading.exists(node.target.id, node)
    else:
        lost = isinstance(node, ast.AugAssign | ast.Break | ast.Continue)
        lost = lost or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
    if lost:
        yield change("dropped", node, ast.Pass())


def target_leaves(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Tuple | ast.List):
        for element in node.elts:
            yield from target_leaves(element)
    else:
        yield node.value if isinstance(node, ast.Starred) else node


def mutate_order(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """Two neighbouring statements change places, where that matters and every name still exists."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if not isinstance(block, list):
            continue
        for first, second in itertools.pairwise(block):
            if is_movable(first) and is_movable(second) and is_order_visible(first, second, reading):
                yield Change("swapped", ((first, second), (second, first)), start(first))


def is_movable(node: ast.AST) -> bool:
    kinds = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.For, ast.If)
    leaves = (ast.Return, ast.Raise, ast.Break, ast.Continue)
    movable = isinstance(node, kinds) and not is_string_statement(node) and not is_main_guard(node)
    return movable and not any(isinstance(inner, leaves) for inner in ast.walk(node))


def is_order_visible(first: ast.stmt, second: ast.stmt, reading: Reading) -> bool:
    reads_first, writes_first = names_used(first)
    reads_second, writes_second = names_used(second)
    if not (writes_first & (reads_second | writes_second) or reads_first & writes_second):
        return False
    return all(reading.exists(name, first) for name in writes_first & reads_second)


def mutate_tuple(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """Two results, sizes, parts of a concatenation or unpacked names change places."""
    if isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load):
        parent = reading.parent(node)
        if isinstance(parent, ast.Subscript) or is_axis_set(node, reading):
            return
        for i, j in near_pairs(len(node.elts)):
            yield change(f"{i}-{j}", node, altered(node, elts=swapped(node.elts, i, j)))
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        # With a tuple on the right, swapping there is the same fault.
        if isinstance(target, ast.Tuple | ast.List) and not isinstance(node.value, ast.Tuple | ast.List):
            for i, j in itertools.pairwise(range(len(target.elts))):
                yield change(f"{i}-{j}", target, altered(target, elts=swapped(target.elts, i, j)))


def is_axis_set(node: ast.Tuple | ast.List, reading: Reading) -> bool:
    """Whether a tuple holds axes to reduce over, whose order is no matter."""
    if not node.elts or any(reading.role(element) != "axis" for element in node.elts):
        return False
    parent = reading.parent(node)
    call = reading.parent(parent) if isinstance(parent, ast.keyword) else parent
    called = reading.array_call(call) if call is not None else None
    return called is not None and called[0] not in TRANSPOSES


def mutate_inplace(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """`x = x + y` becomes `x += y` on a parameter, which changes the caller's array."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.BinOp) or len(node.targets) != 1:
        return
    target, left = node.targets[0], node.value.left
    if isinstance(target, ast.Name) and isinstance(left, ast.Name) and target.id == left.id:
        function = function_of(node, reading)
        if function is not None and target.id in {parameter.arg for parameter in function.args.args}:
            yield change("augmented", node, ast.AugAssign(target, node.value.op, node.value.right))


KIN_LIMIT = 2


def mutate_variable(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """One use of a name becomes a name of its kind: k for q, enc for dec, tgt_ids for src_ids.

    Each use gets the `KIN_LIMIT` nearest names of the nearest kind, and the nearest of kind 1 where there
    is one: `w_q_self` for `w_q_cross`, which has relatives enough among those it was unpacked with.
    """
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    parent = reading.parent(node)
    if isinstance(parent, ast.Call) and parent.func is node:
        return
    scope = reading.scope(node)
    own = scope.get(node.id)
    if own is None or not reading.exists(node.id, node):
        return
    ranked: dict[int, list[tuple[int, int, str]]] = {}
    for name, binding in scope.items():
        kind = kinship(node.id, own, name, binding)
        if kind is not None and reading.exists(name, node):
            ranked.setdefault(kind, []).append((abs(binding.order - own.order), binding.order, name))
    nearest = min(ranked, default=None)
    for kind, names in sorted(ranked.items()):
        limit = KIN_LIMIT if kind == nearest else 1 if kind == 1 else 0
        for _, _, name in sorted(names)[:limit]:
            yield change(name, node, ast.Name(name, ast.Load()))


def kinship(name: str, binding: Binding, other: str, other_binding: Binding) -> int | None:
    """Of what kind the likeness of two names is, 0 the nearest; None where there is none.

    0: unpacked together, or made by expressions of one form. 1: all words but one the same, the last among
    them or two of three. 2: the first of two words the same. 3: two single letters. A size (`n = x.shape[0]`)
    is like nothing but a size.
    """
    if other in {name, "_"} or (SIZE in binding.kin) != (SIZE in other_binding.kin):
        return None
    if binding.kin & other_binding.kin:
        return 0
    parts, other_parts = name.split("_"), other.split("_")
    same = [a == b for a, b in zip(parts, other_parts, strict=False)]
    if len(parts) == len(other_parts) > 1 and same.count(False) == 1:
        return 1 if same[-1] or len(same) > 2 else 2
    return 3 if len(name) == len(other) == 1 and name.islower() == other.islower() else None
