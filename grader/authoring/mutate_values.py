"""Families of mutants: operators, constants, axes and keyword arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from grader.authoring.building import Change, altered, change, number_literal, offset
from grader.authoring.reading import (
    CORRECTIONS,
    DIAGONALS,
    REDUCTIONS,
    TRANSPOSED,
    TRANSPOSES,
    Number,
    Position,
    Reading,
    between,
    call_position,
    infinity_sign,
    is_bool,
    is_diagonal,
    is_literal,
    signed_number,
    start,
    words,
)

SYMBOLS: Mapping[type[ast.AST], str] = MappingProxyType(
    {
        ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
        ast.Pow: "**", ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
        ast.LShift: "<<", ast.RShift: ">>", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
        ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is", ast.IsNot: "is", ast.In: "in", ast.NotIn: "not",
        ast.And: "and", ast.Or: "or",
    }
)  # fmt: skip

ARITHMETIC: Mapping[type[ast.AST], tuple[type[ast.operator], ...]] = MappingProxyType(
    {
        ast.Add: (ast.Sub, ast.Mult), ast.Sub: (ast.Add,), ast.Mult: (ast.Div, ast.Add),
        ast.Div: (ast.Mult, ast.FloorDiv), ast.FloorDiv: (ast.Div, ast.Mod), ast.Mod: (ast.FloorDiv,),
        ast.Pow: (ast.Mult,), ast.MatMult: (ast.Mult,), ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,),
        ast.BitXor: (ast.BitAnd,), ast.LShift: (ast.RShift,), ast.RShift: (ast.LShift,),
    }
)  # fmt: skip
NON_COMMUTATIVE = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult, ast.LShift, ast.RShift)

COMPARISONS: Mapping[type[ast.AST], tuple[type[ast.cmpop], ...]] = MappingProxyType(
    {
        ast.Lt: (ast.LtE, ast.Gt, ast.GtE), ast.LtE: (ast.Lt, ast.GtE, ast.Gt),
        ast.Gt: (ast.GtE, ast.Lt, ast.LtE), ast.GtE: (ast.Gt, ast.LtE, ast.Lt),
        ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
        ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
    }
)  # fmt: skip


def is_text_operation(node: ast.BinOp | ast.AugAssign) -> bool:
    operands = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
    return any(
        isinstance(o, ast.JoinedStr | ast.List | ast.ListComp)
        or (isinstance(o, ast.Constant) and isinstance(o.value, str | bytes))
        for o in operands
    )


def operator_position(node: ast.BinOp | ast.AugAssign, reading: Reading) -> Position:
    left, right = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
    return between(left, right, SYMBOLS[type(node.op)], reading)


def mutate_arithmetic(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """Another operator: `a + b` becomes `a - b`; `x += y` becomes `x -= y`."""
    if isinstance(node, ast.BinOp | ast.AugAssign) and not is_text_operation(node):
        for operator in ARITHMETIC.get(type(node.op), ()):
            variant = operator.__name__.lower()
            yield change(variant, node, altered(node, op=operator()), operator_position(node, reading))


def mutate_operands(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """The operands of a non-commutative operation change places; `q @ k.T` also becomes `k @ q.T`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, NON_COMMUTATIVE) or is_text_operation(node):
        return
    at = operator_position(node, reading)
    yield change("swapped", node, altered(node, left=node.right, right=node.left), at)
    if isinstance(node.op, ast.MatMult):
        inner = transposed_array(node.right, reading)
        if inner is not None:
            right = with_transposed(node.right, node.left, reading)
            yield change("crossed", node, altered(node, left=inner, right=right), at)


def transposed_array(node: ast.expr, reading: Reading) -> ast.expr | None:
    """What `x.T`, `x.transpose(…)` or `swapaxes(x, …)` transposes."""
    if isinstance(node, ast.Attribute) and node.attr in TRANSPOSED and reading.module_of(node.value) is None:
        return node.value
    called = reading.array_call(node)
    return called[1] if called is not None and called[0] in TRANSPOSES else None


def with_transposed(node: ast.expr, array: ast.expr, reading: Reading) -> ast.expr:
    """The same transpose of another array."""
    if isinstance(node, ast.Attribute):
        return altered(node, value=array)
    assert isinstance(node, ast.Call)
    callee = reading.callee(node)
    if callee is not None and callee.receiver is not None:
        return altered(node, func=altered(node.func, value=array))
    return altered(node, args=[array, *node.args[1:]])


SUMS = (ast.Add, ast.Sub, ast.BitAnd, ast.BitOr)


def mutate_term(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """One side of a sum or of a mask is lost: a residual, a bias, the maximum before an exponential."""
    if not isinstance(node, ast.BinOp | ast.AugAssign) or not isinstance(node.op, SUMS):
        return
    if is_text_operation(node):
        return
    if isinstance(node, ast.BinOp):
        yield from keep_sides(node, ("left", "right"), reading)
    else:
        new = ast.Assign([node.target], node.value, lineno=node.lineno)
        yield change("overwrite", node, new, operator_position(node, reading))


def mutate_factor(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """A scale, a projection, a gate or a power is lost: `a / b`, `a @ w` and `a ** 2` become `a`."""
    if isinstance(node, ast.BinOp) and not is_text_operation(node):
        if isinstance(node.op, ast.Mult):
            yield from keep_sides(node, ("left", "right"), reading)
        elif isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod | ast.Pow | ast.MatMult):
            yield from keep_sides(node, ("left",), reading)


def keep_sides(node: ast.BinOp, sides: Iterable[str], reading: Reading) -> Iterator[Change]:
    for side in sides:
        kept = node.left if side == "left" else node.right
        # What is left of `i + 1` must not be a bare number: the constant family says that better.
        if not is_literal(kept):
            yield change(side, node, kept, operator_position(node, reading))


def mutate_negation(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """`-x`, `~mask` and `not flag` lose their sign."""
    if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd) and not is_literal(node):
        yield change("dropped", node, node.operand)


def mutate_comparison(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """The boundary moves, the sides change, or the answer is turned round."""
    if not isinstance(node, ast.Compare):
        return
    sides = [node.left, *node.comparators]
    for index, operator in enumerate(node.ops):
        at = between(sides[index], sides[index + 1], SYMBOLS[type(operator)], reading)
        for other in COMPARISONS[type(operator)]:
            ops = [*node.ops[:index], other(), *node.ops[index + 1 :]]
            yield change(other.__name__.lower(), node, altered(node, ops=ops), at)


def mutate_boolean(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """`and` for `or`, one condition lost, True for False, a mask turned inside out."""
    if isinstance(node, ast.BoolOp):
        at = between(node.values[0], node.values[1], SYMBOLS[type(node.op)], reading)
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield change(type(other).__name__.lower(), node, altered(node, op=other), at)
        for index in range(len(node.values)):
            values = [*node.values[:index], *node.values[index + 1 :]]
            new = altered(node, values=values) if values[1:] else values[0]
            yield change(f"without-{index}", node, new, at)
    elif is_bool(node) and isinstance(node, ast.Constant) and reading.role(node) != "keyword":
        yield change("flipped", node, ast.Constant(not node.value))
    elif isinstance(node, ast.Call):
        yield from mutate_mask(node, reading)


def mutate_mask(node: ast.Call, reading: Reading) -> Iterator[Change]:
    """The mask of a `masked_fill` inverted; one side of a `logical_and` or `logical_or` lost."""
    called = reading.array_call(node)
    if called is None or not called[2]:
        return
    name, array, (second, *_) = called
    at = call_position(node)
    if name in {"logical_and", "logical_or"}:
        yield change("without-0", node, second, at)
        yield change("without-1", node, array, at)
    elif name in {"masked_fill", "masked_fill_"} and not is_inverted(second):
        inverted = ast.UnaryOp(ast.Invert(), second)
        new = altered(node, args=[inverted if argument is second else argument for argument in node.args])
        yield change("inverted", node, new, at)


def is_inverted(node: ast.AST) -> bool:
    """Whether a mask is `~mask` already; it loses its sign in the family of negations."""
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert)


def mutate_constant(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """Numbers one off, ten times as large, zero, of the other sign, of another exponent, 1 % off, rounded."""
    value = signed_number(node)
    if value is None or reading.role(node) is not None:
        return
    for variant, new in number_variants(value):
        yield change(variant, node, number_literal(new))


def number_variants(value: Number) -> Iterator[tuple[str, Number]]:
    kind = type(value)
    if 0 < abs(value) < 1e-3:
        yield from (("exp-1", tidy(value / 10)), ("exp+1", tidy(value * 10)), ("exp-7", tidy(value / 1e7)))
    else:
        yield from (("+1", tidy(value + 1)), ("-1", tidy(value - 1)), ("x10", tidy(value * 10)))
    if value:
        yield from (("0", kind(0)), ("sign", -value))
    if isinstance(value, float) and value:
        yield from (("+1%", tidy(value * 1.01)), ("-1%", tidy(value * 0.99)))
        yield "rounded", float(f"{value:.3g}")


def tidy(value: Number) -> Number:
    """1e-5 / 10 is 1.0000000000000002e-06; what a reader should see is 1e-06."""
    return float(f"{value:.12g}") if isinstance(value, float) else value


def mutate_infinity(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """A finite penalty for an infinite one, none at all, or the wrong sign."""
    sign = infinity_sign(node)
    if sign is None or reading.role(node) != "infinity":
        return
    yield change("finite", node, number_literal(sign * 1e9))
    yield change("0", node, ast.Constant(0.0))
    if isinstance(node, ast.UnaryOp):
        yield change("sign", node, node.operand)
    elif isinstance(node, ast.Call):
        yield change("sign", node, altered(node, args=[ast.Constant("inf" if sign < 0 else "-inf")]))
    elif isinstance(node, ast.expr):
        yield change("sign", node, ast.UnaryOp(ast.USub(), node))


# --- the families: axes and keyword arguments ---------------------------------------------------------

AXES = (-1, -2, 0, 1)


def mutate_axis(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """Another axis: -1, -2, 0 and 1 for each other, also in `.shape[axis]`; one of them for `axis=axis`."""
    if isinstance(node, ast.keyword) and node.arg in {"axis", "dim"} and isinstance(node.value, ast.Name):
        for axis in (-1, 0):
            yield change(str(axis), node.value, number_literal(axis))
    value = signed_number(node)
    others = axis_partners(node, reading)
    if value is None or reading.role(node) != "axis" or len(others) > 1:
        return
    for axis in AXES:
        # transpose(1, 1) is the transpose removed, which has its own family.
        if axis != value and axis not in others:
            yield change(str(axis), node, number_literal(axis))


def axis_partners(node: ast.AST, reading: Reading) -> list[Number]:
    """The axes that stand beside `node` in a tuple or a transposing call."""
    parent = reading.parent(node)
    group: Sequence[ast.AST] = ()
    if isinstance(parent, ast.Tuple | ast.List):
        group = parent.elts
    elif isinstance(parent, ast.Call):
        called = reading.array_call(parent)
        if called and called[0] in TRANSPOSES:
            group = called[2]
    elif isinstance(parent, ast.keyword) and isinstance(call := reading.parent(parent), ast.Call):
        called = reading.array_call(call)
        if called and called[0] in TRANSPOSES:
            group = [keyword.value for keyword in call.keywords]
    values = [signed_number(other) for other in group if other is not node]
    return [other for other in values if other is not None]


WORDS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "approximate": {"tanh": ("none",), "none": ("tanh",)},
        "indexing": {"ij": ("xy",), "xy": ("ij",)},
        "reduction": {"mean": ("sum",), "sum": ("mean",), "none": ("mean",)},
        "side": {"left": ("right",), "right": ("left",)},
    }
)
SWITCHES = words("keepdim keepdims unbiased")
"""Keyword arguments with two values, one of them the default: to drop one is nothing, or is to flip it."""


def mutate_keyword(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """keepdim, unbiased, correction, diagonal, approximate and the like: changed, dropped, or added."""
    if not isinstance(node, ast.Call):
        return
    for index, keyword in enumerate(node.keywords):
        if keyword.arg is None:
            continue
        at = start(keyword)
        others = [*node.keywords[:index], *node.keywords[index + 1 :]]
        for variant, value in keyword_values(node, keyword, reading):
            keywords = [*node.keywords[:index], altered(keyword, value=value), *node.keywords[index + 1 :]]
            yield change(f"{keyword.arg}={variant}", node, altered(node, keywords=keywords), at)
        if keyword.arg in {"axis", "dim"}:
            others = keywords_of_whole(others, reading)
        if is_droppable(node, keyword, reading):
            yield change(f"without-{keyword.arg}", node, altered(node, keywords=others), at)
    yield from mutate_defaults(node, reading)


def keywords_of_whole(keywords: list[ast.keyword], reading: Reading) -> list[ast.keyword]:
    """What may stay when the axis of a reduction goes: torch refuses `keepdim` without `dim`."""
    return [k for k in keywords if k.arg != "keepdim" or reading.alias("torch") is None]


def keyword_values(node: ast.Call, keyword: ast.keyword, reading: Reading) -> Iterator[tuple[str, ast.expr]]:
    name, value = keyword.arg or "", keyword.value
    if isinstance(value, ast.Constant) and isinstance(value.value, bool):
        yield str(not value.value), ast.Constant(not value.value)
    elif is_diagonal(node, keyword, reading):
        yield "+1", offset(value, 1)
        yield "-1", offset(value, -1)
    elif name in CORRECTIONS:
        for correction in (0, 1):
            if signed_number(value) != correction:
                yield str(correction), ast.Constant(correction)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str) and name in WORDS:
        for word in WORDS[name].get(value.value, ()):
            yield word, ast.Constant(word)


def is_droppable(node: ast.Call, keyword: ast.keyword, reading: Reading) -> bool:
    if keyword.arg in SWITCHES and is_bool(keyword.value):
        return False
    if isinstance(node.func, ast.Name) and node.func.id in reading.functions:
        arguments = reading.functions[node.func.id].args
        positional = [a.arg for a in [*arguments.posonlyargs, *arguments.args]]
        required = positional[: len(positional) - len(arguments.defaults)]
        only = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return keyword.arg not in {*required, *(a.arg for a, default in only if default is None)}
    return True


def mutate_defaults(node: ast.Call, reading: Reading) -> Iterator[Change]:
    """What a call leaves at its default, given another value; an axis or a diagonal given by position."""
    called = reading.array_call(node)
    if called is None:
        return
    name, _, rest = called
    named = {keyword.arg for keyword in node.keywords}
    at = call_position(node)
    kept = node.args[: len(node.args) - len(rest)]
    if name in REDUCTIONS and rest and reading.role(rest[0]) == "axis":
        keywords = keywords_of_whole(node.keywords, reading)
        yield change("without-axis", node, altered(node, args=kept, keywords=keywords), at)
    if name in {"triu", "tril"} and not named & DIAGONALS:
        old: ast.expr = rest[0] if rest else ast.Constant(0)
        for variant, step in (("+1", 1), ("-1", -1)):
            yield change(f"diagonal={variant}", node, altered(node, args=[*kept, offset(old, step)]), at)
    elif name in {"var", "std", "var_mean", "std_mean"} and not named & {"unbiased", *CORRECTIONS}:
        if not any(is_bool(argument) for argument in rest):
            # The two libraries disagree: NumPy divides by n unless told otherwise, PyTorch by n - 1.
            torch = reading.alias("torch") is not None
            extra = ast.keyword("correction" if torch else "ddof", ast.Constant(0 if torch else 1))
            yield change(f"with-{extra.arg}", node, altered(node, keywords=[*node.keywords, extra]), at)
    elif name == "gelu" and "approximate" not in named:
        extra = ast.keyword("approximate", ast.Constant("tanh"))
        yield change("with-approximate", node, altered(node, keywords=[*node.keywords, extra]), at)
