"""The small language of an exercise file: arithmetic on dims and assignments to parts of arrays.

Expressions are parsed with `ast` and walked by hand: names, numbers, operators, slices and the functions listed here,
and nothing else. There are no attributes, no keyword arguments and no calls of anything that was not listed.
"""

from __future__ import annotations

import ast
import difflib
import operator
from collections.abc import Callable, Mapping, MutableMapping
from functools import lru_cache
from typing import Any

import numpy as np

from grader.randomness import Draws

MAX_LENGTH = 400

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
CONSTANTS: dict[str, Any] = {"inf": np.inf, "nan": np.nan, "newaxis": None}


def _shape(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(int(n) for n in sizes)


def _extreme(whole: Callable[[Any], Any], pairwise: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def apply(*args: Any) -> Any:
        result = whole(args[0]) if len(args) == 1 else args[0]
        for other in args[1:]:
            result = pairwise(result, other)
        return result

    return apply


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "where": np.where,
    "abs": np.abs,
    "min": _extreme(np.min, np.minimum),
    "max": _extreme(np.max, np.maximum),
    "sum": lambda x, axis=None: np.sum(x, axis=axis),
    "sort": lambda x, axis=-1: np.sort(x, axis=int(axis)),
    "argsort": lambda x, axis=-1: np.argsort(x, axis=int(axis), kind="stable"),
    "arange": lambda *n: np.arange(*_shape(n)),
    "zeros": lambda *n: np.zeros(_shape(n)),
    "ones": lambda *n: np.ones(_shape(n)),
    "full": lambda value, *n: np.full(_shape(n), value),
    "reshape": lambda x, *n: np.reshape(x, _shape(n)),
    "transpose": lambda x, *axes: np.transpose(x, _shape(axes) or None),
    "swapaxes": lambda x, a, b: np.swapaxes(x, int(a), int(b)),
    "concatenate": lambda *parts: np.concatenate(parts),
    "cumsum": lambda x, axis=-1: np.cumsum(x, axis=int(axis)),
    "sqrt": np.sqrt,
    "floor": np.floor,
    "round": np.round,
    "repeat": lambda x, count, axis=-1: np.repeat(x, int(count), axis=int(axis)),
    "copy": lambda x: np.array(x, copy=True),
    "len": len,
}
DRAWING = ("normal", "uniform", "integers", "permutation")


class ExpressionError(ValueError):
    """An expression that is not of the language, or whose evaluation failed.

    ``offset`` counts the characters of the text before the place of the fault; None where no place can be told.
    ``wanted`` says what was expected there, where that is more than an expression.
    """

    def __init__(self, message: str, offset: int | None = None, wanted: str = "") -> None:
        super().__init__(message)
        self.offset = offset
        self.wanted = wanted


@lru_cache(maxsize=4096)
def parse(text: str) -> ast.expr:
    """The tree of an expression; raises `ExpressionError` with a message for its author."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression of more than {MAX_LENGTH} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _unreadable("an expression", text, error) from None
    _check(tree, text)
    return tree


@lru_cache(maxsize=4096)
def parse_assignment(text: str) -> tuple[ast.expr, ast.expr]:
    """(target, value) of ``name = expression`` or ``name[slices] = expression``."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an assignment of more than {MAX_LENGTH} characters")
    try:
        statements = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _unreadable("an assignment", text, error) from None
    if len(statements) != 1 or not isinstance(statements[0], ast.Assign) or len(statements[0].targets) != 1:
        raise ExpressionError("not one assignment such as `x[:, 0] = 0`")
    target, value = statements[0].targets[0], statements[0].value
    inner = target.value if isinstance(target, ast.Subscript) else target
    if isinstance(inner, ast.Subscript):
        inner = inner.value
    if not isinstance(inner, ast.Name):
        raise ExpressionError("only a name, or a part of one, can be assigned to", offset_of(target, text))
    _check(target, text)
    _check(value, text)
    return target, value


def _unreadable(what: str, text: str, error: BaseException) -> ExpressionError:
    """An error for a text that is no Python, in words and with a place that do not depend on Python's version."""
    message = f"not {what}"
    offset = None
    if isinstance(error, SyntaxError) and error.offset is not None and error.lineno == 1:
        lead, length = len(text) - len(text.lstrip()), len(text.strip())
        # Where the text merely ends, Python counts from 0 or from beyond the end.
        offset = lead + (error.offset - 1 if 0 < error.offset <= length else length)
        rest = text[offset:].strip()
        message += f": it cannot be read from `{rest}` on" if rest else ": it ends too early"
    return ExpressionError(message, offset)


def offset_of(node: ast.expr, text: str) -> int | None:
    """How many characters of ``text`` stand before ``node``; None beyond the first line."""
    if node.lineno != 1:
        return None
    # The fault of `x.T` and of `x.mean()` is the dot.
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func
    column = node.value.end_col_offset or 0 if isinstance(node, ast.Attribute) else node.col_offset
    lead = len(text) - len(text.lstrip())
    return lead + len(text.strip().encode()[:column].decode("utf-8", "replace"))


def variables(tree: ast.expr) -> list[ast.Name]:
    """The nodes of an expression that name a variable: every name that is no function and no constant."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and id(node) not in called and node.id not in CONSTANTS
    ]


@lru_cache(maxsize=4096)
def names(tree: ast.expr) -> frozenset[str]:
    """The variables of an expression: every name that is no function and no constant."""
    return frozenset(node.id for node in variables(tree))


def evaluate(text: str, scope: Mapping[str, Any], draws: Draws | None = None) -> Any:
    """The value of an expression; raises `ExpressionError`."""
    return _guarded(parse(text), scope, draws, text)


def assign(text: str, scope: MutableMapping[str, Any], draws: Draws | None = None) -> str:
    """Carry out an assignment on ``scope`` and return the name that changed; raises `ExpressionError`."""
    target, value = parse_assignment(text)
    result = _guarded(value, scope, draws, text)
    if isinstance(target, ast.Name):
        scope[target.id] = result
        return target.id
    assert isinstance(target, ast.Subscript)
    base = _guarded(target.value, scope, draws, text)
    index = _guarded(target.slice, scope, draws, text)
    try:
        base[index] = result
    except (ValueError, IndexError, TypeError, KeyError) as error:
        raise ExpressionError(f"`{text}`: {error}") from None
    root = target.value
    while isinstance(root, ast.Subscript):
        root = root.value
    assert isinstance(root, ast.Name)
    return root.id


def integer(text: str | int | float, scope: Mapping[str, Any]) -> int:
    """The value of an expression that must be a whole number."""
    value = evaluate(text, scope) if isinstance(text, str) else text
    try:
        whole = int(value)
        fits = not isinstance(value, str | bool) and bool(value == whole)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise ExpressionError(f"`{text}` is {value}, not a whole number")
    return whole


def _guarded(tree: ast.expr, scope: Mapping[str, Any], draws: Draws | None, text: str) -> Any:
    try:
        with np.errstate(all="ignore"):
            return _evaluate(tree, scope, draws)
    except ExpressionError:
        raise
    except (ArithmeticError, ValueError, IndexError, TypeError, KeyError, MemoryError) as error:
        raise ExpressionError(f"`{text}`: {error}") from None


_ALLOWED = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Subscript, ast.Slice, ast.Tuple,
    ast.Call, ast.IfExp, ast.Load, ast.Store, ast.And, ast.Or,
    *_BINARY, *_UNARY, *_COMPARE,
)  # fmt: skip


def _check(tree: ast.expr, text: str) -> None:
    """Refuse, with its place, the first part of a tree that the language does not have."""
    for node in ast.walk(tree):
        complaint = _complaint(node)
        if complaint is not None:
            said, wanted = complaint
            raise ExpressionError(said, offset_of(node, text) if isinstance(node, ast.expr) else None, wanted)


def _complaint(node: ast.AST) -> tuple[str, str] | None:
    """(what is wrong, what was expected) of a node that the language does not have; None for any other."""
    parts = "names, numbers, operators, comparisons, slices, and functions of the language"
    if isinstance(node, ast.Constant) and not isinstance(node.value, int | float | str | None | type(...)):
        return f"`{node.value!r}` is not part of the expression language", "a number, True, False, None or a text"
    if isinstance(node, ast.Call):
        known = [*FUNCTIONS, *DRAWING]
        if not isinstance(node.func, ast.Name):
            return "a method is not part of the expression language", parts
        if node.func.id not in known:
            close = difflib.get_close_matches(node.func.id, known, n=1, cutoff=0.6)
            meant = f" (did you mean `{close[0]}`?)" if close else ""
            return f"{node.func.id}() is not a function of the expression language{meant}", "one of " + ", ".join(known)
        if node.keywords:
            return f"{node.func.id}() takes its arguments by position only", "arguments without their names"
    if not isinstance(node, _ALLOWED) and not isinstance(node, ast.keyword):
        words = {"Attribute": "a dot", "List": "a list in brackets", "ListComp": "a comprehension", "Lambda": "lambda"}
        kind = type(node).__name__
        return f"{words.get(kind, kind.lower())} is not part of the expression language", parts
    return None


def _evaluate(tree: ast.expr, scope: Mapping[str, Any], draws: Draws | None) -> Any:
    match tree:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            if name in scope:
                return scope[name]
            if name in CONSTANTS:
                return CONSTANTS[name]
            raise ExpressionError(f"unknown name `{name}`")
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _evaluate(left, scope, draws), _evaluate(right, scope, draws)
            if isinstance(op, ast.Pow) and isinstance(b, int) and abs(b) > 64:
                raise ExpressionError("an exponent beyond 64")
            return _BINARY[type(op)](a, b)
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](_evaluate(operand, scope, draws))
        case ast.BoolOp(op=op, values=parts):
            results = (_evaluate(part, scope, draws) for part in parts)
            return all(results) if isinstance(op, ast.And) else any(results)
        case ast.Compare(left=left, ops=ops, comparators=others):
            value = _evaluate(left, scope, draws)
            outcome: Any = True
            for comparison, other in zip(ops, others, strict=True):
                right_value = _evaluate(other, scope, draws)
                step = _COMPARE[type(comparison)](value, right_value)
                outcome = step if outcome is True else outcome & step
                value = right_value
            return outcome
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _evaluate(body if _evaluate(test, scope, draws) else orelse, scope, draws)
        case ast.Subscript(value=inner, slice=index):
            return _evaluate(inner, scope, draws)[_evaluate(index, scope, draws)]
        case ast.Slice(lower=lower, upper=upper, step=step):
            return slice(*(None if part is None else _evaluate(part, scope, draws) for part in (lower, upper, step)))
        case ast.Tuple(elts=parts):
            return tuple(_evaluate(part, scope, draws) for part in parts)
        case ast.Call(func=ast.Name(id=name), args=args):
            return _call(name, [_evaluate(arg, scope, draws) for arg in args], draws)
    raise ExpressionError(f"{type(tree).__name__} is not part of the expression language")


def _call(name: str, args: list[Any], draws: Draws | None) -> Any:
    if name in FUNCTIONS:
        return FUNCTIONS[name](*args)
    if draws is None:
        raise ExpressionError(f"{name}() cannot draw here")
    if name == "permutation":
        return draws.permutation(int(args[0]))
    if name == "integers":
        return draws.integers(int(args[0]), int(args[1]), _shape(tuple(args[2:])))
    shape = _shape(tuple(args))
    return draws.normal(shape) if name == "normal" else draws.uniform(shape)
