"""Comparison: what a result is comes before what it holds, NaN is no number, and nothing is accepted by broadcasting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from grader import compare
from grader.compare import mismatch
from grader.model import Expected, Leaf, Mismatch
from grader.sandbox.protocol import Array, Function, Opaque, cast
from grader.spec.schema import Output

FINITE = st.floats(-1e6, 1e6, allow_nan=False, width=32)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
FILLED = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)
PLAIN = Output()


def array(values: Any, dtype: str = "float64", family: str = "ndarray") -> Array:
    return Array(
        family,
        dtype,
        cast(np.asarray(values, dtype=np.float64), dtype) if "float" in dtype else np.asarray(values, dtype),
    )


def tensor(values: Any, dtype: str = "float64") -> Array:
    return array(values, dtype, "tensor")


def expected(value: Any, output: Output = PLAIN, allowed: float = 1e-9, dtype: str = "float64") -> Expected:
    leaves = tuple(
        Leaf(part.path, part.value, allowed, tuple(part.output.axes or ())) for part in compare.parts(value, output)
    )
    return Expected(value, leaves, dtype)


def judged(
    actual: Any,
    wanted: Any,
    output: Output = PLAIN,
    allowed: float = 1e-9,
    framework: str = "numpy",
    dtype: str = "float64",
) -> Mismatch | None:
    return mismatch(actual, expected(wanted, output, allowed, dtype), output, framework)


def kind(*args: Any, **kwargs: Any) -> str | None:
    found = judged(*args, **kwargs)
    return None if found is None else found.kind


# --- what a result is comes first -------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(values=hnp.arrays(np.float64, SHAPES, elements=FINITE), framework=st.sampled_from(["numpy", "torch"]))
def test_a_result_equals_itself(values: np.ndarray, framework: str) -> None:
    one = array(values, family="tensor" if framework == "torch" else "ndarray")
    assert judged(one, one, framework=framework) is None
    assert compare.margin(one, expected(one), PLAIN) == 0


@settings(max_examples=200, deadline=None)
@given(shape=SHAPES, other=SHAPES, data=st.data())
def test_any_other_shape_is_refused_whatever_its_values(
    shape: tuple[int, ...], other: tuple[int, ...], data: st.DataObject
) -> None:
    assume(shape != other)
    value = data.draw(FINITE)
    found = judged(array(np.full(other, value)), array(np.full(shape, value)), allowed=math.inf)
    assert found is not None and found.kind == "shape"


@pytest.mark.parametrize(
    ("actual", "wanted"),
    [
        ((3, 1), (3,)),
        ((1, 3), (3,)),
        ((1,), ()),
        ((), (1,)),
        ((1, 1), (1,)),
        ((3,), (3, 1)),
        ((1,), (3,)),
        ((0,), (0, 2)),
        ((2, 0), (0, 2)),
    ],
)
def test_shapes_that_broadcast_or_hold_as_many_elements_are_refused(
    actual: tuple[int, ...], wanted: tuple[int, ...]
) -> None:
    for framework, family in (("numpy", "ndarray"), ("torch", "tensor")):
        assert (
            kind(array(np.zeros(actual), family=family), array(np.zeros(wanted), family=family), framework=framework)
            == "shape"
        )


def test_the_order_is_structure_type_shape_dtype_nan_values() -> None:
    pair = Output(kind="tuple", items={"a": Output(), "b": Output()})
    wanted = (tensor([1.0, 2.0]), tensor([1.0, 2.0]))
    wrong_value, wrong_nan = tensor([9.0, 2.0]), tensor([math.nan, 2.0])
    wrong_dtype, wrong_shape = tensor([9.0, 2.0], "float32"), tensor([9.0])

    def said(actual: Any) -> str | None:
        return kind(actual, wanted, pair, framework="torch")

    assert said([wrong_shape, wrong_dtype]) == "type"
    assert said((wrong_shape,)) == "structure"
    assert said((wrong_shape, 3.0)) == "type"
    assert said((wrong_dtype, wrong_shape)) == "shape"
    assert said((wrong_nan, wrong_dtype)) == "dtype"
    assert said((wrong_value, wrong_nan)) == "nan"
    assert said((wanted[0], wrong_value)) == "values"
    found = judged((wanted[0], wrong_value), wanted, pair, framework="torch")
    assert found is not None and found.path == "b"


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
def test_the_dtype_of_the_call_is_asked_for(dtype: str) -> None:
    found = judged(array([1, 0], dtype), array([1.0, 0.0]))
    assert found is not None and (found.kind, found.note) == ("dtype", "float64")


def test_dtypes_that_an_exercise_names() -> None:
    one = array([1, 2], "int64")
    assert judged(one, one, Output(dtype="int64")) is None
    assert judged(array([1, 2], "int32"), one, Output(dtype="signed_integer")) is None
    assert kind(array([1, 2], "uint8"), one, Output(dtype="signed_integer")) == "dtype"
    assert kind(array([1, 2], "int32"), one, Output(dtype="int64")) == "dtype"
    mask = array([True, False], "bool")
    assert judged(mask, mask, Output(dtype="bool")) is None and judged(mask, mask) is None
    assert kind(array([1, 0], "int64"), mask, Output(dtype="bool")) == "dtype"
    # In a float32 call the expected values are kept in float64, and the result must still be float32.
    assert judged(array([1.0], "float32"), array([1.0]), dtype="float32") is None
    assert kind(array([1.0]), array([1.0]), dtype="float32") == "dtype"


@pytest.mark.parametrize(
    "actual", [None, True, "text", [1.0, 2.0], (1.0, 2.0), {"a": 1.0}, 3, 2.5, Function("f"), tensor([1.0, 2.0]), array(1.0, family="scalar")]
)  # fmt: skip
def test_another_type_is_no_array(actual: Any) -> None:
    assert kind(actual, array([1.0, 2.0])) == "type"


def test_none_is_only_none() -> None:
    assert judged(None, None) is None
    assert kind(array([1.0]), None) == "type"
    assert kind(None, array([1.0])) == "type"


@pytest.mark.parametrize("place", ["top", "inside"])
def test_what_has_no_plain_form_is_said_to_be_unsupported(place: str) -> None:
    opaque = Opaque("scipy.sparse", "a sparse matrix")
    pair = Output(kind="tuple", items={"a": Output(), "b": Output()})
    one = array([1.0])
    found = judged(opaque, one) if place == "top" else judged((one, opaque), (one, one), pair)
    assert found is not None and (found.kind, found.note) == ("unsupported", "a sparse matrix")
    assert kind([opaque], [1], Output(kind="python")) == "unsupported"


# --- containers -------------------------------------------------------------------------------------------------------


def test_containers_are_what_they_are_called() -> None:
    one = array([1.0])
    for name, right, wrong in (
        ("tuple", (one, one), [one, one]),
        ("list", [one, one], (one, one)),
        ("dict", {"a": one}, [one]),
    ):
        output = Output(kind=name)
        assert judged(right, right, output) is None
        assert kind(wrong, right, output) == "type" and kind(one, right, output) == "type"
    listed = Output(kind="list")
    assert kind([one], [one, one], listed) == "structure" and kind([], [one], listed) == "structure"
    assert judged([], [], listed) is None


def test_missing_and_extra_keys_are_named() -> None:
    output = Output(kind="dict", items={"w": Output(), "b": Output()})
    wanted = {"w": array([1.0]), "b": array([2.0])}
    found = judged({"w": array([1.0]), "bias": array([2.0])}, wanted, output)
    assert found is not None and found.kind == "structure"
    assert found.note == "the key 'b' is missing; the key 'bias' is not asked for"
    wrong = judged({"b": array([9.0]), "w": array([1.0])}, wanted, output)
    assert wrong is not None and wrong.path == "['b']"


def test_nested_parts_have_paths() -> None:
    output = Output(kind="tuple", items={"params": Output(kind="dict"), "loss": Output(kind="scalar")})
    wanted = ({"w": tensor([1.0])}, 2.0)
    assert judged(({"w": tensor([1.0])}, tensor(2.0)), wanted, output, framework="torch") is None
    found = judged(({"w": tensor([3.0])}, 2.0), wanted, output, framework="torch")
    assert found is not None and found.path == "params['w']"


# --- numbers in all their forms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "actual",
    [
        2,
        2.0,
        array(2.0),
        array(2.0, "float32"),
        tensor(2.0),
        tensor(2, "int64"),
        array(2.0, family="scalar"),
        array(2, "int32", "scalar"),
    ],
)
@pytest.mark.parametrize("framework", ["numpy", "torch", "python"])
def test_a_number_may_come_in_any_form(actual: Any, framework: str) -> None:
    assert judged(actual, 2.0, Output(kind="scalar"), framework=framework) is None
    assert kind(actual, 3.0, Output(kind="scalar"), framework=framework) == "values"


@pytest.mark.parametrize("actual", [True, None, "2", [2.0], (2.0,), array(True, "bool"), Function("f")])
def test_what_is_no_number_is_none(actual: Any) -> None:
    assert kind(actual, 2.0, Output(kind="scalar")) == "type"


@pytest.mark.parametrize("shape", [(1,), (1, 1), (2,), (0,)])
def test_a_number_has_no_axes(shape: tuple[int, ...]) -> None:
    assert kind(array(np.full(shape, 2.0)), 2.0, Output(kind="scalar")) == "shape"


def test_an_array_without_axes_in_numpy_and_in_torch() -> None:
    for wanted in (array(2.0), array(2.0, family="scalar")):
        for actual in (array(2.0), array(2.0, family="scalar"), 2.0, 2):
            assert judged(actual, wanted) is None
        assert kind(True, wanted) == "type"
    assert judged(tensor(2.0), tensor(2.0), framework="torch") is None
    for actual in (2.0, array(2.0), array(2.0, family="scalar")):
        assert kind(actual, tensor(2.0), framework="torch") == "type"


@settings(max_examples=100, deadline=None)
@given(values=hnp.arrays(np.int64, FILLED, elements=st.integers(-(2**62), 2**62)), data=st.data())
def test_whole_numbers_are_compared_exactly(values: np.ndarray, data: st.DataObject) -> None:
    one = array(values, "int64")
    assert judged(one, one, allowed=math.inf) is None
    changed = values.copy().reshape(-1)
    changed[data.draw(st.integers(0, changed.size - 1))] += 1
    found = judged(array(changed.reshape(values.shape), "int64"), one, allowed=math.inf)
    assert found is not None and (found.kind, found.wrong, found.total) == ("values", 1, values.size)


# --- NaN and infinity -------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(
    values=hnp.arrays(np.float64, FILLED, elements=FINITE),
    data=st.data(),
    allowed=st.sampled_from([0.0, 1.0, math.inf]),
)
def test_nan_is_never_a_number(values: np.ndarray, data: st.DataObject, allowed: float) -> None:
    index = tuple(data.draw(st.integers(0, size - 1)) for size in values.shape)
    broken = values.copy()
    broken[index] = np.nan
    found = judged(array(broken), array(values), allowed=allowed)
    assert found is not None and (found.kind, found.worst, found.wrong, found.note) == ("nan", index, 1, "")
    missing = judged(array(values), array(broken), allowed=allowed)
    assert missing is not None and (missing.kind, missing.worst, missing.note) == ("nan", index, "missing")
    assert judged(array(broken), array(broken), allowed=0.0) is None
    assert math.isinf(compare.margin(array(broken), expected(array(values), allowed=allowed), PLAIN))


@pytest.mark.parametrize("output", [PLAIN, Output(kind="scalar"), Output(kind="python")])
def test_nan_as_a_python_number(output: Output) -> None:
    wanted = array(1.0) if output.kind == "array" else 1.0
    assert kind(math.nan, wanted, output, allowed=math.inf) == "nan"
    other = array(math.nan) if output.kind == "array" else math.nan
    assert kind(1.0, other, output, allowed=math.inf) == "nan"
    assert judged(math.nan, other, output) is None


@settings(max_examples=100, deadline=None)
@given(values=hnp.arrays(np.float64, FILLED, elements=FINITE), data=st.data(), sign=st.sampled_from([-1.0, 1.0]))
def test_infinities_have_a_place_and_a_sign(values: np.ndarray, data: st.DataObject, sign: float) -> None:
    index = tuple(data.draw(st.integers(0, size - 1)) for size in values.shape)
    infinite = values.copy()
    infinite[index] = sign * math.inf
    opposite = infinite.copy()
    opposite[index] = -sign * math.inf
    large = infinite.copy()
    large[index] = sign * 1.7e308
    for actual, wanted in ((infinite, values), (values, infinite), (opposite, infinite), (large, infinite)):
        found = judged(array(actual), array(wanted), allowed=1e308)
        assert found is not None and (found.kind, found.worst) == ("inf", index)
    assert judged(array(infinite), array(infinite)) is None


# --- tolerances -------------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(value=FINITE, allowed=st.floats(1e-12, 1e3), sign=st.sampled_from([-1.0, 1.0]))
def test_a_difference_of_exactly_what_is_allowed_passes(value: float, allowed: float, sign: float) -> None:
    at_the_edge = value + sign * allowed
    gap = abs(at_the_edge - value)
    assume(gap > 0)
    assert judged(array([at_the_edge]), array([value]), allowed=gap) is None
    found = judged(array([at_the_edge]), array([value]), allowed=math.nextafter(gap, 0))
    assert found is not None and found.kind == "values" and found.worst_difference == gap and found.ratio >= 1
    for output in (Output(kind="scalar"), Output(kind="python")):
        assert judged(at_the_edge, value, output, allowed=gap) is None
        assert kind(at_the_edge, value, output, allowed=math.nextafter(gap, 0)) == "values"


def test_zeros_are_equal_whatever_their_sign_and_nothing_else_is_without_a_tolerance() -> None:
    assert judged(array([-0.0, 0.0]), array([0.0, -0.0]), allowed=0.0) is None
    assert kind(array([5e-324]), array([0.0]), allowed=0.0) == "values"
    assert judged(array(np.zeros((0, 3))), array(np.zeros((0, 3))), allowed=0.0) is None


@settings(max_examples=200, deadline=None)
@given(data=st.data(), shape=FILLED, allowed=st.floats(1e-6, 10))
def test_the_evidence_is_what_a_plain_loop_finds(data: st.DataObject, shape: tuple[int, ...], allowed: float) -> None:
    mine, theirs = (data.draw(hnp.arrays(np.float64, shape, elements=st.floats(-20, 20))) for _ in range(2))
    found = judged(array(mine), array(theirs), allowed=allowed)
    differences = {index: abs(mine[index] - theirs[index]) for index in np.ndindex(shape)}
    wrong = {index: gap for index, gap in differences.items() if gap > allowed}
    margin = compare.margin(array(mine), expected(array(theirs), allowed=allowed), PLAIN)
    assert margin == max(differences.values()) / allowed
    if not wrong:
        assert found is None
        return
    assert found is not None
    assert (found.wrong, found.total, found.worst_difference) == (len(wrong), mine.size, max(wrong.values()))
    assert wrong[found.worst] == found.worst_difference and found.ratio == found.worst_difference / allowed


# --- Python results ---------------------------------------------------------------------------------------------------

PYTHON = Output(kind="python")


@pytest.mark.parametrize(
    ("actual", "wanted"),
    [
        ([1, 2], (1, 2)), ((1, (2,)), [1, [2]]), ([array(1, "int64", "scalar")], [1]), ([tensor(1, "int32")], [1]), (1, 1.0), (1.0, 1.0),
        (array(1.5), 1.5), ({"a": [1]}, {"a": (1,)}), (None, None), ("ab", "ab"), (True, True), (array(True, "bool", "scalar"), True), ([], ()),
        (10**200, 10**200), (10**299, 1e299),
    ],
)  # fmt: skip
def test_python_results_that_are_the_same(actual: Any, wanted: Any) -> None:
    assert judged(actual, wanted, PYTHON) is None


@pytest.mark.parametrize(
    ("actual", "wanted", "said"),
    [
        (1.0, 1, "type"), (True, 1, "type"), ("1", 1, "type"), (None, 1, "type"), ([1], 1, "type"), (1, [1], "type"), (2, 1, "values"),
        (1, True, "values"), (False, True, "values"), ("a", "b", "values"), (1, None, "values"), (None, "a", "values"), (True, 1.0, "type"),
        ("1.0", 1.0, "type"), ([1], [1, 2], "structure"), ({"a": 1}, {"b": 1}, "structure"), ([1], {"a": 1}, "type"),
        (array([1, 2], "int64"), [1, 2], "type"), (10**299, 1.0, "values"), ({"a": [1, 3]}, {"a": [1, 2]}, "values"), (math.inf, 1.0, "inf"),
        (1.0, math.inf, "inf"), (-math.inf, math.inf, "inf"), (math.nan, 1.0, "nan"), (1.0, math.nan, "nan"),
    ],
)  # fmt: skip
def test_python_results_that_are_not(actual: Any, wanted: Any, said: str) -> None:
    assert kind(actual, wanted, PYTHON) == said


def test_where_in_a_python_result() -> None:
    found = judged({"a": [1, (2, 4)]}, {"a": [1, (2, 3)]}, PYTHON)
    assert found is not None and (found.path, found.actual, found.expected) == ("['a'][1][1]", 4, 3)


# --- change between two results of one submission ----------------------------------------------------------------------

ANY = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.text(max_size=3), st.just(Opaque("thing", "no")),
        hnp.arrays(np.float64, SHAPES, elements=st.floats(width=32)).map(array),
        hnp.arrays(np.int64, SHAPES, elements=st.integers(-3, 3)).map(lambda values: array(values, "int64")),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple), st.dictionaries(st.text(max_size=2), inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip
OUTPUTS = st.sampled_from(
    [PLAIN, PYTHON, Output(kind="tuple"), Output(kind="list"), Output(kind="dict"), Output(kind="scalar")]
)


@settings(max_examples=300, deadline=None)
@given(value=ANY, output=OUTPUTS)
def test_a_result_of_any_form_has_not_changed_from_itself(value: Any, output: Output) -> None:
    """Right or wrong, NaN or not, even without a plain form: asked again and the same, it is the same."""
    assert compare.changed(value, value, expected(array([1.0])), output) is None


@settings(max_examples=300, deadline=None)
@given(first=ANY, second=ANY, output=OUTPUTS)
def test_change_is_seen_both_ways_and_never_raises(first: Any, second: Any, output: Output) -> None:
    there = compare.changed(first, second, expected(array([1.0])), output)
    back = compare.changed(second, first, expected(array([1.0])), output)
    assert (there is None) == (back is None)
    if there is not None:
        assert there.kind in ("structure", "values", "shape", "dtype")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (array([1.0]), array([1.1])), (array([1.0]), array([1.0], "float32")), (array([1.0]), array([[1.0]])), (array([1.0]), [1.0]),
        (array([1.0]), Opaque("thing", "no")), (Opaque("a", ""), Opaque("b", "")), (array([1.0]), None), (array([1.0]), array([math.nan])),
        ([1], [1, 2]), (1, 2), (1, True), ("a", "b"),
    ],
)  # fmt: skip
def test_every_kind_of_change_is_one(before: Any, after: Any) -> None:
    assert compare.changed(before, after, expected(array([1.0]), allowed=1e-9), PLAIN) is not None


def test_a_change_within_the_tolerance_is_none() -> None:
    one, close = array([1.0]), array([1.0 + 1e-10])
    assert compare.changed(one, close, expected(one, allowed=1e-9), PLAIN) is None
    found = compare.changed(one, close, expected(one, allowed=1e-11), PLAIN)
    assert found is not None and found.actual is close and found.expected is one and found.wrong == 1


# --- parts ------------------------------------------------------------------------------------------------------------


def test_parts_are_picked_by_index_and_by_name() -> None:
    pair = Output(kind="tuple", items={"out": Output(), "cache": Output()})
    assert [compare.pick((7, 8), part, pair) for part in (0, 1, -1, "0", "out", "cache", "1")] == [7, 8, 8, 7, 7, 8, 8]
    assert [compare.pick((7, 8), part, pair) for part in (2, -3, "no")] == [None] * 3
    named = Output(kind="dict", items={"w": Output(), "b": Output()})
    assert [compare.pick({"b": 1, "w": 2}, part, named) for part in ("w", 0, 1, "no", 9)] == [2, 2, 1, None, None]
    assert compare.pick(3, 0, PLAIN) is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "None"), (True, "the boolean True"), (3, "a Python int"), (2.0, "a Python float"), ("x", "a str"), ((1, 2), "a tuple of 2"),
        ([1], "a list of 1"), ({"a": 1}, "a dict with 1 keys"), (array([1.0]), "an array of shape (1,), float64"),
        (tensor([1.0], "float32"), "a tensor of shape (1,), float32"), (array(1.0, family="scalar"), "a NumPy float64"),
        (Opaque("thing", ""), "a thing"), (Function("f"), "a function"),
    ],
)  # fmt: skip
def test_values_in_words(value: Any, words: str) -> None:
    assert compare.describe(value) == words
