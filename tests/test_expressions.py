"""The expression language: what it can say, what it refuses, and where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.randomness import Draws
from grader.spec import expressions
from grader.spec.expressions import ExpressionError

X = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 * N + 1", 7),
        ("N // 2", 1),
        ("N % 2", 1),
        ("2 ** N", 8),
        ("-N", -3),
        ("N if N > 2 else 0", 3),
        ("1 < N <= 3", True),
        ("1 < N < 3", False),
        ("N == 3 and not N == 4", True),
        ("N > 5 or N < 0", False),
        ("True", True),
        ("len(ids)", 4),
        ("ids[-1]", 9),
        ("sum(ids) % 7", 4),
        ("min(4, N)", 3),
        ("max(1, N, 2)", 3),
        ("floor(7 / 2)", 3.0),
        ("sqrt(16)", 4.0),
        ("abs(-2)", 2),
        ("round(2.6)", 3.0),
        ("text", "mean"),
        ("'sum'", "sum"),
        ("None", None),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert expressions.evaluate(text, {"N": 3, "ids": [1, 3, 5, 9], "text": "mean"}) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x[0]", X[0]),
        ("x[:, 1:]", X[:, 1:]),
        ("x[..., ::2]", X[..., ::2]),
        ("x[:, newaxis]", X[:, None]),
        ("where(x > 2, x, -inf)", np.where(X > 2, X, -np.inf)),
        ("(x > 1) & ~(x > 4) | (x == 5)", ((X > 1) & ~(X > 4)) | (X == 5)),
        ("1 < x < 4", (X > 1) & (X < 4)),
        ("sum(x)", X.sum()),
        ("sum(x, 1)", X.sum(1)),
        ("min(x)", X.min()),
        ("max(x, 2)", np.maximum(X, 2)),
        ("sort(-x)", np.sort(-X)),
        ("sort(-x, 0)", np.sort(-X, 0)),
        ("argsort(-x)", np.argsort(-X)),
        ("arange(3)", np.arange(3)),
        ("arange(1, 7, 2)", np.arange(1, 7, 2)),
        ("zeros(2, 3)", np.zeros((2, 3))),
        ("ones(2)", np.ones(2)),
        ("full(5, 2, 2)", np.full((2, 2), 5)),
        ("reshape(x, 3, 2)", X.reshape(3, 2)),
        ("transpose(x)", X.T),
        ("transpose(x, 1, 0)", X.T),
        ("swapaxes(x, 0, 1)", X.T),
        ("concatenate(x, x)", np.concatenate([X, X])),
        ("cumsum(x)", X.cumsum(-1)),
        ("repeat(x, 2)", np.repeat(X, 2, -1)),
        ("repeat(x, 2, 0)", np.repeat(X, 2, 0)),
        ("copy(x)", X),
        ("nan * x", np.full((2, 3), np.nan)),
    ],
)
def test_arrays(text: str, value: np.ndarray) -> None:
    np.testing.assert_array_equal(expressions.evaluate(text, {"x": X}), value)


def test_every_function_is_tried_above() -> None:
    tried = " ".join(mark.args[1][i][0] for test in (test_values, test_arrays) for mark in test.pytestmark for i in range(len(mark.args[1])))  # fmt: skip
    assert [name for name in expressions.FUNCTIONS if f"{name}(" not in tried] == []


def test_draws_come_from_the_cases_own_stream() -> None:
    for text, shape in (("normal(2, 3)", (2, 3)), ("uniform(4)", (4,)), ("integers(0, 5, 3)", (3,)), ("permutation(4)", (4,))):  # fmt: skip
        first, second = (expressions.evaluate(text, {}, Draws(7, "case")) for _ in range(2))
        np.testing.assert_array_equal(first, second)
        assert first.shape == shape
        with pytest.raises(ExpressionError, match="cannot draw here"):
            expressions.evaluate(text, {})
    assert set(expressions.DRAWING) == {"normal", "uniform", "integers", "permutation"}


@pytest.mark.parametrize(
    ("text", "offset", "says"),
    [
        ("2 *", 3, "ends too early"),
        ("a b", 2, "cannot be read from `b` on"),
        ("x.T", 1, "a dot is not part"),
        ("x.mean()", 1, "a method"),
        ("1 + maen(x)", 4, "maen() is not a function of the expression language"),
        ("maximum(x)", 0, "maximum() is not"),
        ("sum(x, axis=0)", 0, "by position only"),
        ("x[[0, 1]]", 2, "a list in brackets"),
        ("[i for i in x]", 0, "a comprehension"),
        ("lambda: 1", 0, "lambda"),
        ("1j", 0, "`1j`"),
        ("b'x'", 0, "`b'x'`"),
        ("f'{x}'", 0, "not part"),
        ("(y := 1)", None, "not part"),
        ("é + x.T", 5, "a dot"),
        ("  x.T", 3, "a dot"),
        ("__import__('os')", 0, "__import__() is not"),
        ("x is None", None, "is is not part"),
        ("x in y", None, "in is not part"),
        ("x" * 401, None, "more than 400 characters"),
        ("", None, "not an expression"),
        ("x = 1", None, "not an expression"),
        ("import os", None, "not an expression"),
    ],
)
def test_what_is_not_of_the_language_is_refused_where_it_stands(text: str, offset: int | None, says: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        expressions.parse(text)
    assert says in str(caught.value)
    if offset is not None:
        assert caught.value.offset == offset


def test_a_misspelt_function_names_the_nearest_and_all() -> None:
    with pytest.raises(ExpressionError) as caught:
        expressions.parse("argsrt(x)")
    assert "did you mean `argsort`?" in str(caught.value)
    assert "permutation" in caught.value.wanted


@pytest.mark.parametrize("name", ["__class__", "__builtins__", "open", "exec", "np", "print"])
def test_nothing_of_python_is_in_reach(name: str) -> None:
    with pytest.raises(ExpressionError, match="unknown name"):
        expressions.evaluate(name, {})


@pytest.mark.parametrize(
    "text",
    ["1 / 0", "x[9]", "x['a']", "x + y", "reshape(x, 4)", "2 ** 65", "1 % 0", "len(3)", "zeros(-1)", "sum()", "full()"],
)
def test_a_failing_expression_is_the_authors_error(text: str) -> None:
    with pytest.raises(ExpressionError):
        expressions.evaluate(text, {"x": X, "y": np.zeros((4, 5))})


def test_assignments() -> None:
    scope: dict[str, Any] = {"x": X.copy(), "params": {"w": np.zeros(3)}, "items": [np.zeros(2), np.ones(2)], "N": 2}
    assert expressions.assign("x[:, 0] = N", scope) == "x"
    assert scope["x"][:, 0].tolist() == [2, 2]
    assert expressions.assign("params['w'][1:] = 5", scope) == "params"
    assert scope["params"]["w"].tolist() == [0, 5, 5]
    assert expressions.assign("params['w'] = ones(2)", scope) == "params"
    assert scope["params"]["w"].tolist() == [1, 1]
    assert expressions.assign("items[-1] = 3 * items[1]", scope) == "items"
    assert scope["items"][1].tolist() == [3, 3]
    assert expressions.assign("x = transpose(x)", scope) == "x" and scope["x"].shape == (3, 2)


@pytest.mark.parametrize(
    "text",
    ["x", "x == 1", "x += 1", "x, y = 1, 2", "x = y = 1", "x = 1; y = 2", "f(x) = 1", "x.T = 1", "1 = x", "x =", ""],
)
def test_what_is_no_assignment(text: str) -> None:
    with pytest.raises(ExpressionError):
        expressions.parse_assignment(text)


@pytest.mark.parametrize("text", ["x[5] = 1", "x[0] = zeros(7)", "x['a'] = 1", "N[0] = 1", "x[:, 0] = 1 / 0"])
def test_a_failing_assignment_is_the_authors_error(text: str) -> None:
    with pytest.raises(ExpressionError):
        expressions.assign(text, {"x": X.copy(), "N": 2})


def test_an_assignment_does_not_reach_the_value_it_was_made_from() -> None:
    scope: dict[str, Any] = {"x": X.copy(), "y": X.copy()}
    expressions.assign("y = copy(x)", scope)
    expressions.assign("y[0] = 100", scope)
    np.testing.assert_array_equal(scope["x"], X)


@pytest.mark.parametrize("value", [2, 2.0, np.int64(2), np.float64(2)])
def test_whole_numbers(value: Any) -> None:
    assert expressions.integer("n", {"n": value}) == 2
    assert expressions.integer(2.0, {}) == 2


@pytest.mark.parametrize("value", [2.5, np.nan, np.inf, True, "2", None, np.arange(3), [2]])
def test_what_is_no_whole_number(value: Any) -> None:
    with pytest.raises(ExpressionError, match="not a whole number"):
        expressions.integer("n", {"n": value})


def test_names_are_what_must_be_known() -> None:
    assert expressions.names(expressions.parse("where(x > inf, d * len, nan)[:n, ...]")) == {"x", "d", "len", "n"}
    assert expressions.names(expressions.parse("max(1, newaxis)")) == set()


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="xN012+-*/%()[],:.= <>&|~'", max_size=24))
def test_any_text_is_evaluated_or_refused(text: str) -> None:
    """No text makes anything but an `ExpressionError`."""
    scope = {"x": X.copy(), "N": 2}
    for attempt in (expressions.evaluate, expressions.assign):
        try:
            attempt(text, scope)
        except ExpressionError as error:
            assert str(error)
            assert error.offset is None or 0 <= error.offset <= len(text)
