"""Every fact about a wrong result holds, whatever the result; and each plain corruption is told for what it is."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from grader import compare, locate
from grader.locate import Fact
from grader.model import Expected, Leaf, Mismatch
from grader.sandbox.protocol import Array
from grader.spec.schema import Output

ALLOWED = 1e-9
DIMS = {"N": 2, "T": 5, "heads": 3, "width": 4, "d": 12}
AXES = ("example", "target", "feature")


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def differ(
    mine: np.ndarray, theirs: np.ndarray, axes: tuple[str, ...] = (), allowed: float = ALLOWED, dtype: str = "float64"
) -> Mismatch:
    """The mismatch that the comparison itself finds."""
    actual, expected = Array("ndarray", dtype, mine.astype(dtype)), Array("ndarray", theirs.dtype.name, theirs)
    output = Output.model_validate({"dtype": "floats" if theirs.dtype.kind == "f" else theirs.dtype.name})
    found = compare.mismatch(actual, Expected(expected, (Leaf("", expected, allowed, axes),), dtype), output, "numpy")
    assert found is not None, "the corruption changed nothing"
    return found


def said(mine: np.ndarray, theirs: np.ndarray, axes: tuple[str, ...] = AXES, **more: Any) -> tuple[str, ...]:
    return locate.places(differ(mine, theirs, axes, **more), DIMS)


# --- each corruption is recognised ------------------------------------------------------------------------------------


def changed(where: Any) -> np.ndarray:
    mine = values(2, 5, 12)
    mine[where] += np.linspace(1.0, 2.0, mine[where].size).reshape(mine[where].shape)
    return mine


@pytest.mark.parametrize(
    "where, expected",
    [
        (np.s_[:, 1:3], "wrong only where 1 <= target <= 2"),
        (np.s_[:, 2:], "wrong only where target >= 2"),
        (np.s_[:, :3], "wrong only where target <= 2"),
        (np.s_[:, 1:], "wrong at every target but the first"),
        (np.s_[:, :-1], "wrong at every target but the last"),
        (np.s_[:, [0, 1, 3, 4]], "wrong at every target but 2"),
        (np.s_[:, 4], "wrong only where target = 4 (the last)"),
        (np.s_[:, [0, 3]], "wrong only where target is one of 0, 3"),
        (np.s_[1], "wrong only where example = 1"),
        (np.s_[:, 1:, 0:3], "wrong only where feature <= 2"),
        (np.s_[1, 1:3], "wrong only where example = 1 and 1 <= target <= 2"),
        (np.s_[..., ::2], "wrong only where feature is even"),
        (np.s_[..., 1::2], "wrong only where feature is odd"),
        (np.s_[..., 4:8], "wrong only in head 1, 4 <= feature <= 7"),
        (np.s_[..., 4:], "right only in head 0, 0 <= feature <= 3"),
    ],
)
def test_places_along_the_axes(where: Any, expected: str) -> None:
    assert expected in said(changed(where), values(2, 5, 12))


def test_the_last_half_is_named() -> None:
    mine = values(3, 8)
    mine[:, 4:] += [[0.5, 1.5, 2.0, 1.0]]
    assert said(mine, values(3, 8), ("token", "feature")) == ("wrong only where feature >= 4 (the last half)",)


def test_above_a_diagonal() -> None:
    theirs = values(2, 6, 6)
    mine = theirs + np.triu(np.abs(values(6, 6, seed=1)) + 1, k=1)
    assert said(mine, theirs, ("head", "query", "key"))[0] == "wrong only where key > query"


def test_heads_are_blocks_only_where_the_features_are_made_of_them() -> None:
    """In (example, head, position, feature) the features are those of one head, however many heads there are."""
    theirs = values(3, 2, 5, 4)
    mine = theirs.copy()
    mine[..., 2:] += 1 + np.abs(values(3, 2, 5, 2, seed=1))
    dims = {"H": 2, "d_h": 4}
    named = locate.places(differ(mine, theirs, ("example", "head", "position", "feature")), dims)
    assert named == ("wrong only where feature >= 2 (the last half)",)
    flat = locate.places(differ(mine[:, 0], theirs[:, 0], ("example", "position", "feature")), dims)
    assert flat == named
    joined = locate.places(differ(mine[:, 0], theirs[:, 0], ("example", "position", "feature")), {"H": 2, "d_h": 2})
    assert joined == ("wrong only in head 1, 2 <= feature <= 3",)


def test_axes_without_names() -> None:
    mine = values(2, 5, 12)
    mine[:, 1:] += 1 + np.abs(values(2, 4, 12, seed=1))
    assert said(mine, values(2, 5, 12), ()) == ("wrong at every place of axis 1 but the first",)


def test_a_function_is_not_seen_where_its_slope_forgives_everything() -> None:
    theirs = np.full(6, 1e-3)
    assert not any("1 divided by" in fact for fact in said(theirs + 2e-3, theirs, ("a",), allowed=1e-9))
    assert locate.facts(differ(np.array([1e-5, 3e-5]), np.array([-1e-5, 4e-5]), ("a",), allowed=1e-12)) == ()


def test_one_wrong_element_is_left_to_the_evidence() -> None:
    theirs = values(2, 5, 12)
    mine = theirs.copy()
    mine[1, 2, 3] += 1
    assert said(mine, theirs) == ()


@pytest.mark.parametrize(
    "corrupt, expected",
    [
        (lambda b: -b, "every value has the wrong sign"),
        (lambda b: 2 * b, "your values are 2 × the expected ones, everywhere"),
        (lambda b: -b / 3, "your values are -1/3 × the expected ones, everywhere"),
        (lambda b: b * math.sqrt(5), "your values are √5 × the expected ones, everywhere"),
        (lambda b: b / math.log(2), "your values are 1/ln 2 × the expected ones, everywhere"),
        (lambda b: 1.2345 * b, "your values are the expected ones times a constant, about 1.234"),
        (lambda b: b + 0.25, "your values are the expected ones, all 0.25 higher"),
        (lambda b: b - 3, "your values are the expected ones, all 3 lower"),
        (lambda b: np.exp(b), "your values are the exponential of the expected ones"),
        (lambda b: b**2, "your values are the square of the expected ones"),
        (lambda b: np.round(b, 3), "your values are the expected ones rounded to 3 decimals"),
        (lambda b: np.full_like(b, 0.25), "all your values are the same, 0.25"),
        (lambda b: b[:, ::-1], "along target your values are the expected ones in reverse order"),
        (lambda b: np.roll(b, 1, axis=1), "along target everything stands 1 later than expected, wrapped around at the end"),
        (lambda b: np.roll(b, -2, axis=2), "along feature everything stands 2 earlier than expected, wrapped around at the end"),
        (lambda b: b[:, [1, 0, 2, 4, 3]], "along target the expected rows stand in another order: 1, 0, 2, 4, 3"),
        (lambda b: np.concatenate([b[:, 1:], b[:, :1] + 9], 1), "along target everything stands one place earlier than expected"),
        (lambda b: np.concatenate([b[:, :1] + 9, b[:, :-1]], 1), "along target everything stands one place later than expected"),
        (lambda b: np.broadcast_to(b[:, :1], b.shape) + 1, "your values are the same at every target"),
        (lambda b: b * values(2, 5, 1, seed=4), "along feature every row is the expected one times a factor of its own"),
        (lambda b: b + values(2, 5, 1, seed=4), "along feature every row is the expected one plus a number of its own"),
        (lambda b: b.reshape(2, 12, 5).swapaxes(1, 2), "your values are the expected ones, but in other places, each within its own example"),
        (lambda b: b.reshape(2, 5, 3, 4)[:, :, ::-1].reshape(b.shape), "along the heads your values are the expected ones in reverse order"),
        (lambda b: b.reshape(2, 5, 3, 4).swapaxes(2, 3).reshape(2, 5, 12), "the heads are interleaved"),
    ],
)  # fmt: skip
def test_the_whole_result(corrupt: Callable[[np.ndarray], np.ndarray], expected: str) -> None:
    theirs = values(2, 5, 12)
    found = said(np.array(corrupt(theirs)), theirs)
    assert any(fact.startswith(expected) for fact in found), found


def test_swapped_axes() -> None:
    theirs = values(2, 4, 4)
    expected = "your result is the expected one with the axes query and key swapped"
    assert said(theirs.swapaxes(1, 2), theirs, ("head", "query", "key"))[0] == expected
    assert said(values(3, 3, 3).transpose(1, 2, 0), values(3, 3, 3), ("a", "b", "c"))[0] == (
        "your result is the expected one with its axes in the order b, c, a"
    )


def test_single_precision_inside() -> None:
    theirs = values(2, 5, 12)
    mine = theirs.astype(np.float32).astype(np.float64)
    fact = "your values are the expected ones to the precision of float32, and no finer"
    assert fact in said(mine, theirs, allowed=1e-12)
    inside = (theirs.astype(np.float32) * np.float32(0.3) / np.float32(0.3)).astype(np.float64)
    assert fact in said(inside, theirs, allowed=1e-12)


def test_numbers_of_float32_that_are_no_rounded_results_are_not_called_so() -> None:
    """Inputs handed back as they came have few bits as well, and so have whole numbers."""
    theirs = values(2, 5, 12)
    for mine in (values(2, 5, 12, seed=3).astype(np.float32).astype(np.float64), np.arange(120.0).reshape(2, 5, 12)):
        assert not any("float32" in fact for fact in said(mine, theirs, allowed=1e-12))
    assert not any("float32" in fact for fact in said(theirs.astype(np.float32) * 1.001, theirs, allowed=1e-12))


def test_a_result_that_was_rounded_at_the_end() -> None:
    theirs = values(2, 5, 12)
    assert not any("rounded" in fact for fact in said(np.round(theirs, 3) + 1e-3, theirs))
    loss = np.array(1.323575)
    assert said(np.array(1.3236), loss, ()) == ("your result is the expected one rounded to 4 decimals",)
    assert said(np.array(1.3237), loss, ()) == () and said(np.array(1.0), np.array(1.2), ()) == ()


def test_no_ratio_is_made_of_ids() -> None:
    assert said(np.array(5), np.array(1), (), dtype="int64") == ()
    ids = np.array([1, 2, 3, 4, 6])
    assert not any("×" in fact for fact in said(ids * 2, ids, ("position",), dtype="int64"))
    item = Mismatch("values", "[3]", 5.0, 1.0, wrong=1, total=1, worst_difference=4.0, allowed=1e-9)
    assert locate.places(item) == ()
    assert locate.places(Mismatch("values", "[3]", 5, 1, wrong=1, total=1)) == ()


def test_a_number_among_several_results_is_named() -> None:
    found = Mismatch("values", "loss", 5.0, 1.25, wrong=1, total=1, worst_difference=3.75, allowed=1e-9)
    assert locate.places(found) == ("your `loss` is 4 × the expected one",)


def test_tiny_numbers_are_not_called_the_same() -> None:
    mine = np.array([[2.255e-16, 7.763e-16, 4.354e-16, 4.188e-16]])
    theirs = np.array([[0.31, -0.2, 0.11, 0.4]])
    assert said(mine, theirs, ("row", "feature")) == ()
    assert said(np.zeros((1, 4)), theirs, ("row", "feature")) == ("all your values are the same, 0",)
    assert said(-np.zeros((1, 4)), theirs, ("row", "feature")) == ("all your values are the same, 0",)


def test_where_infinities_are_missing_finite_numbers_may_be_wrong_too() -> None:
    theirs = np.array([[-np.inf, 3.0, 2.0, -np.inf]])
    mine = np.array([[0.0, 0.644, 0.237, 0.0]])
    assert said(mine, theirs, ("row", "id")) == ("wherever -inf is expected you have 0",)
    mine = np.array([[0.0, 3.0, 2.0, 0.0]])
    assert "wrong only where id is one of 0, 3" in said(mine, theirs, ("row", "id"))
    theirs = np.array([[-np.inf, -np.inf, 2.0, -np.inf]])
    assert said(np.array([[-np.inf, 0.0, 2.0, 0.0]]), theirs, ("row", "id"))[0] == "where -inf is missing you have 0"


def test_integers_and_booleans() -> None:
    labels = np.arange(12).reshape(3, 4) ** 2
    assert said(labels + 1, labels, ("example", "token"), dtype="int64") == (
        "your values are the expected ones, all 1 higher",
    )
    mask = np.tril(np.ones((4, 4), bool))
    assert said(~mask, mask, ("query", "key"), dtype="bool")[0] == "every value is the opposite of the expected one"


def test_what_the_wrong_ones_have_in_common() -> None:
    theirs = values(2, 5, 12)
    assert "every wrong value is 0" in said(np.maximum(theirs, 0), theirs)
    assert "wrong exactly where the expected value is below 0" in said(np.maximum(theirs, 0), theirs)


def test_nan_and_infinity() -> None:
    theirs = values(2, 5, 12)
    mine = theirs.copy()
    mine[:, 0] = np.nan
    assert said(mine, theirs) == ("wrong only where target = 0",)
    assert said(np.full_like(theirs, np.nan), theirs) == ("every value you returned is nan",)
    hidden = np.where(np.tril(np.ones((5, 5), bool)), 0.0, -np.inf)
    axes = ("query", "key")
    finite = np.where(np.isinf(hidden), -1e9, 0.0)
    expected = ("wherever -inf is expected you have -1e+09", "wrong only where key > query")
    assert said(finite, hidden, axes) == expected
    assert said(-hidden, hidden, axes)[0] == "every wrong infinity has the wrong sign"
    assert said(hidden.T, hidden, axes)[0] == "your result is the expected one with the axes query and key swapped"


@pytest.mark.parametrize(
    "corrupt, expected",
    [
        (lambda b: b.swapaxes(1, 2), "your result is the expected one with the axes target and feature swapped"),
        (lambda b: b[:, -1], "your result is the expected one at the last target alone"),
        (lambda b: b.mean(axis=0), "your result is the expected one averaged over example"),
        (lambda b: b.sum(axis=2), "your result is the expected one summed over feature"),
        (lambda b: b[:, 1:], "along target you have 4 of 5: the last 4 of the expected result"),
        (lambda b: np.concatenate([b, b[:, :1] + 1], 1), "along target you have 6 instead of 5; the first 5 are right"),
        (lambda b: b.reshape(2, 5, 3, 4), "reshaped to (2, 5, 12) your values are the expected ones"),
        (lambda b: b[..., None], "axis 3 of your result, of length 1, is one too many; the values are right"),
    ],
)
def test_another_shape(corrupt: Callable[[np.ndarray], np.ndarray], expected: str) -> None:
    theirs = values(2, 5, 12)
    assert expected in said(np.ascontiguousarray(corrupt(theirs)), theirs)


def test_a_missing_axis_of_length_one() -> None:
    theirs = values(2, 1, 12)
    expected = ("the axis target, of length 1, is missing; the values are right",)
    assert said(theirs[:, 0], theirs) == expected


def test_a_single_number() -> None:
    two = np.array(2.302585)
    assert said(-two, two, ()) == ("your result has the wrong sign",)
    assert said(4 * two, two, ()) == ("your result is 4 × the expected one",)
    assert said(np.exp(two), two, ()) == ("your result is the exponential of the expected one",)
    assert said(np.array(3.1), two, ()) == ()


def test_at_most_three_and_none_that_tells_values_where_they_are_hidden() -> None:
    theirs = np.abs(values(2, 5, 12)) + 0.1
    mine = np.where(np.arange(12) % 5 == 0, 0.0, theirs)
    mine[0] = theirs[0]
    mismatch = differ(mine, theirs, AXES)
    assert len(locate.places(mismatch, DIMS)) <= locate.MOST
    doubled = differ(2 * theirs, theirs, AXES)
    assert locate.places(doubled, DIMS) and not locate.places(doubled, DIMS, values=False)


def test_many_numbers_are_not_searched() -> None:
    theirs = values(locate.MAX_ELEMENTS + 1)
    assert locate.facts(differ(theirs + 1, theirs)) == ()


# --- no fact is ever false --------------------------------------------------------------------------------------------


def near(first: Any, second: Any, allowed: float) -> bool:
    first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if first.shape != second.shape:
        return False
    with np.errstate(invalid="ignore"):
        return bool(
            ((first == second) | (np.isnan(first) & np.isnan(second)) | (np.abs(first - second) <= allowed)).all()
        )


RELATIONS = {">": np.greater, "<": np.less, "=": np.equal, ">=": np.greater_equal, "<=": np.less_equal}
FUNCTIONS = {
    "the exponential of": np.exp,
    "the logarithm of": np.log,
    "the square of": np.square,
    "the square root of": np.sqrt,
    "1 divided by": lambda b: 1 / b,
}


def wrong_mask(mine: np.ndarray, theirs: np.ndarray, mismatch: Mismatch) -> np.ndarray:
    """Every element that is not the expected one, whichever kind of difference was found first."""
    with np.errstate(invalid="ignore"):
        return ~((mine == theirs) | (np.isnan(mine) & np.isnan(theirs)) | (np.abs(mine - theirs) <= mismatch.allowed))


def matching(condition: str, names: list[str], shape: tuple[int, ...]) -> np.ndarray:
    """The elements that a sentence's condition picks out, read from the sentence itself."""
    grids = dict(zip(names, np.indices(shape), strict=True))
    picked = np.ones(shape, bool)
    for part in condition.split(" and "):
        part = re.sub(r" \(the (last|first)( half)?\)$", "", part)
        if match := re.fullmatch(r"(\d+) <= (.+) <= (\d+)", part):
            picked &= (grids[match[2]] >= int(match[1])) & (grids[match[2]] <= int(match[3]))
        elif match := re.fullmatch(r"(.+) (>=|<=|=|>|<) (\d+)", part):
            picked &= RELATIONS[match[2]](grids[match[1]], int(match[3]))
        elif match := re.fullmatch(r"(.+) is (even|odd)", part):
            picked &= grids[match[1]] % 2 == (match[2] == "odd")
        elif match := re.fullmatch(r"(.+) is one of ([\d, ]+)", part):
            picked &= np.isin(grids[match[1]], [int(word) for word in match[2].split(", ")])
        elif match := re.fullmatch(r"(.+) (>=|<=|=|>|<) (.+)", part):
            picked &= RELATIONS[match[2]](grids[match[1]], grids[match[3]])
        else:
            raise AssertionError(f"a condition that cannot be read: {part!r}")
    return picked


def check_fact(fact: Fact, mismatch: Mismatch, dims: dict[str, int]) -> None:
    """Fail unless the fact holds for these numbers, by a way of its own."""
    a, b = compare.numbers(mismatch.actual), compare.numbers(mismatch.expected)
    assert a is not None and b is not None
    allowed = mismatch.allowed
    names = list(mismatch.axes) if len(mismatch.axes) == b.ndim else [f"axis {k}" for k in range(b.ndim)]
    says, data = fact.says, fact.data
    # A factor or a mean comes out a rounding apart when it is worked out in another way.
    wide = 1.0 + 1e-6
    finite = np.abs(b[np.isfinite(b)])
    rounding = 1e-13 * float(finite.max()) if finite.size else 0.0
    match fact.kind:
        case "factor":
            factor = data["factor"]
            assert near(a, factor * b, (wide * allowed + rounding) * max(1, abs(factor)))
        case "function":
            expected = FUNCTIONS[data["name"]](b)
            slack = np.abs(FUNCTIONS[data["name"]](b * (1 + 1e-9) + allowed) - expected) * 4 + allowed * 4
            assert (np.abs(a - expected) <= slack).all()
        case "offset":
            assert near(a - b, np.full(a.shape, data["offset"]), wide * allowed + rounding)
        case "constant":
            assert near(a, np.full(a.shape, data["value"]), 1e-8 * abs(data["value"]))
        case "inverted":
            assert (a != b).all()
        case "rounded":
            half = 0.5 * 10.0 ** -data["decimals"]
            assert near(a, np.round(a, data["decimals"]), 1e-6 * np.abs(a).max()) and near(a, b, half + wide * allowed)
            off = np.abs(a - np.round(b, data["decimals"])) > 1e-6 * np.abs(a).max()
            assert near(np.abs(a - b)[off], np.full(int(off.sum()), half), wide * allowed)
        case "single":
            assert (a == a.astype(np.float32)).all()
            assert (np.abs(a - b) <= 2.0**-20 * np.abs(b).max()).all()
        case "transposed":
            assert near(a, b.transpose(data["order"]), max(allowed, 1e-6 * np.abs(b).max()))
        case "reversed" | "rolled" | "reordered":
            assert near(a, b.take(data["order"], axis=data["axis"]), allowed)
        case "shifted":
            shift, count = data["shift"], a.shape[data["axis"]]
            to = np.arange(count - 1) if shift == 1 else np.arange(1, count)
            assert near(a.take(to, axis=data["axis"]), b.take(to + shift, axis=data["axis"]), allowed)
        case "heads" | "interleaved":
            heads = data["heads"]
            x, y = a.reshape(*a.shape[:-1], -1), b.reshape(*b.shape[:-1], heads, -1)
            if fact.kind == "interleaved":
                assert near(x.reshape(*a.shape[:-1], -1, heads).swapaxes(-1, -2), y, allowed)
            elif data["kind"] == "shifted":
                x = x.reshape(y.shape)
                to = np.arange(heads - 1) if data["shift"] == 1 else np.arange(1, heads)
                assert near(x.take(to, axis=-2), y.take(to + data["shift"], axis=-2), allowed)
            else:
                assert near(x.reshape(y.shape), y.take(data["order"], axis=-2), allowed)
        case "moved":
            groups = math.prod(a.shape[: data["depth"]])
            assert near(np.sort(a.reshape(groups, -1), 1), np.sort(b.reshape(groups, -1), 1), allowed)
            assert says.endswith("places") or " and ".join(names[: data["depth"]]) in says
        case "row_factor" | "row_offset":
            x, y = np.moveaxis(a, data["axis"], -1), np.moveaxis(b, data["axis"], -1)
            for row, other in zip(x.reshape(-1, x.shape[-1]), y.reshape(-1, x.shape[-1]), strict=True):
                if fact.kind == "row_offset":
                    assert np.ptp(row - other) <= 2 * (wide * allowed + rounding)
                else:
                    factor = (row @ other) / (other @ other)
                    assert near(row, factor * other, (wide * allowed + rounding) * max(1, abs(factor)))
        case "unchanging":
            assert np.ptp(a, axis=data["axis"]).max() <= allowed
            assert names[data["axis"]] in says
        case "relation" | "place":
            wrong = wrong_mask(a, b, mismatch)
            if match := re.fullmatch(r"wrong only where (.+)", says):
                picked = matching(match[1], names, a.shape)
                assert not wrong[~picked].any() and wrong[picked].any()
            else:
                match = re.fullmatch(r"wrong at every (?:place of )?(.+) but (the first|the last|\d+)", says)
                assert match is not None, says
                axis = names.index(match[1])
                rows = wrong.any(axis=tuple(k for k in range(a.ndim) if k != axis))
                spared = {"the first": 0, "the last": len(rows) - 1}.get(match[2])
                spared = int(match[2]) if spared is None else spared
                assert not rows[spared] and rows.sum() == len(rows) - 1
        case "block":
            wrong = wrong_mask(a, b, mismatch)
            heads = next(dims[key] for key in locate.HEADS if key in dims)
            per_head = wrong.reshape(-1, heads, a.shape[-1] // heads).any(axis=(0, 2))
            if match := re.match(r"(wrong|right) only in head (\d+), (\d+) <= .+ <= (\d+)$", says):
                width = a.shape[-1] // heads
                assert (int(match[3]), int(match[4])) == (int(match[2]) * width, (int(match[2]) + 1) * width - 1)
                assert list(np.flatnonzero(per_head == (match[1] == "wrong"))) == [int(match[2])]
            else:
                assert [int(word) for word in says.rpartition("heads ")[2].split(", ")] == list(
                    np.flatnonzero(per_head)
                )
        case "same_wrong":
            assert (a[wrong_mask(a, b, mismatch)] == data["value"]).all()
        case "where_expected":
            test = {"below 0": b < 0, "above 0": b > 0, "0": b == 0}[data["test"]]
            assert (test == wrong_mask(a, b, mismatch)).all()
        case "all_nonfinite":
            assert (np.isnan(a) if data["kind"] == "nan" else np.isinf(a)).all()
        case "opposite_infinity":
            wrong = (np.isinf(a) | np.isinf(b)) & (a != b)
            assert (a[wrong] == -b[wrong]).all() and np.isinf(a[wrong]).all()
        case "finite_for_infinite":
            wrong = (np.isinf(a) | np.isinf(b)) & (a != b)
            assert (a[wrong] == data["value"]).all() and (b[wrong] == data["expected"]).all()
            assert "wherever" not in says or wrong[b == data["expected"]].all()
        case "axis_missing":
            assert np.expand_dims(a, data["axis"]).ndim == b.ndim
            rest = b.shape[: data["axis"]] + b.shape[data["axis"] + 1 :]
            assert a.shape == rest
            assert "values are right" not in says or near(a.reshape(b.shape), b, 1e-6)
        case "axis_extra":
            assert b.shape == a.shape[: data["axis"]] + a.shape[data["axis"] + 1 :]
            assert "values are right" not in says or near(a.reshape(b.shape), b, 1e-6)
        case "reshaped":
            assert near(a.reshape(b.shape), b, 1e-6)
        case "reduces":
            assert near(a.mean() if data["how"] == "mean" else a.sum(), b, 1e-6)
        case "one_row":
            assert near(a, b.take(data["index"], axis=data["axis"]), 1e-6)
        case "reduced":
            reduce = np.mean if data["how"] == "averaged" else np.sum
            assert near(a, reduce(b, axis=data["axis"]), 1e-6)
        case "part":
            count = a.shape[data["axis"]]
            assert near(a, b.take(range(data["start"], data["start"] + count), axis=data["axis"]), 1e-6)
        case "more":
            count = b.shape[data["axis"]]
            assert near(a.take(range(data["start"], data["start"] + count), axis=data["axis"]), b, 1e-6)
        case _:
            raise AssertionError(f"no check for facts of kind {fact.kind}")


CORRUPTIONS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "scale": lambda b, r: b * r.choice([-1, 2, 0.5, math.sqrt(3), 1.0000001, -7.3]),
    "offset": lambda b, r: b + r.choice([1e-3, 0.5, -2]),
    "noise": lambda b, r: b + r.normal(size=b.shape) * r.choice([1e-10, 1e-6, 1.0]),
    "flip": lambda b, r: np.flip(b, axis=r.integers(b.ndim)),
    "roll": lambda b, r: np.roll(b, r.integers(1, 4), axis=r.integers(b.ndim)),
    "permute": lambda b, r: b.take(r.permutation(b.shape[axis := r.integers(b.ndim)]), axis=axis),
    "transpose": lambda b, r: b.transpose(r.permutation(b.ndim)),
    "view": lambda b, r: b.transpose(r.permutation(b.ndim)).reshape(b.shape),
    "round": lambda b, r: np.round(b, r.integers(0, 6)),
    "single": lambda b, r: b.astype(np.float32).astype(np.float64),
    "relu": lambda b, r: np.maximum(b, 0),
    "zero": lambda b, r: np.where(r.random(b.shape) < r.choice([0.1, 0.5]), 0.0, b),
    "rows": lambda b, r: np.where(np.expand_dims(r.random(b.shape[0]) < 0.5, tuple(range(1, b.ndim))), b + 1, b),
    "columns": lambda b, r: np.where(r.random(b.shape[-1]) < 0.5, b * 1.5, b),
    "row_scale": lambda b, r: b * r.normal(size=(*b.shape[:-1], 1)),
    "row_offset": lambda b, r: b + r.normal(size=(*b.shape[:-1], 1)),
    "first_row": lambda b, r: np.broadcast_to(b[:1], b.shape).copy(),
    "constant": lambda b, r: np.full_like(b, r.normal()),
    "exp": lambda b, r: np.exp(b),
    "nan": lambda b, r: np.where(r.random(b.shape) < r.choice([0.1, 1.0]), np.nan, b),
    "inf": lambda b, r: np.where(r.random(b.shape) < 0.3, r.choice([np.inf, -np.inf]), b),
    "squeeze": lambda b, r: b.squeeze() if b.ndim > 1 else b,
    "expand": lambda b, r: np.expand_dims(b, r.integers(b.ndim + 1)),
    "mean": lambda b, r: np.asarray(b.mean(axis=r.integers(b.ndim))),
    "last": lambda b, r: np.asarray(b.take(-1, axis=r.integers(b.ndim))),
    "cut": lambda b, r: b[1:],
}  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(
    shape=st.lists(st.sampled_from([1, 2, 3, 4, 6, 12]), min_size=1, max_size=4),
    seed=st.integers(0, 2**32 - 1),
    names=st.lists(st.sampled_from(sorted(CORRUPTIONS)), min_size=1, max_size=2),
    allowed=st.sampled_from([0.0, 1e-12, 1e-7, 1e-3]),
    kind=st.sampled_from(["normal", "few", "integers", "signed", "masked"]),
    heads=st.sampled_from([2, 3]),
)
@example(shape=[6], seed=0, names=["constant", "nan"], allowed=0.0, kind="masked", heads=2)
@example(shape=[3], seed=2, names=["constant", "nan"], allowed=0.0, kind="masked", heads=2)
def test_no_fact_is_ever_false(
    shape: list[int], seed: int, names: list[str], allowed: float, kind: str, heads: int
) -> None:
    assume(math.prod(shape) <= 600)
    draw = np.random.default_rng(seed)
    theirs = {
        "normal": lambda: draw.normal(size=shape),
        "few": lambda: draw.choice([0.0, 1.0, 2.0], size=shape),
        "integers": lambda: draw.integers(-5, 6, size=shape).astype(float),
        "signed": lambda: np.abs(draw.normal(size=shape)) * draw.choice([1.0, -1.0], size=shape),
        "masked": lambda: np.where(draw.random(size=shape) < 0.4, -np.inf, draw.normal(size=shape)),
    }[kind]()
    mine = theirs
    with np.errstate(all="ignore"):
        for name in names:
            mine = np.asarray(CORRUPTIONS[name](mine, draw), dtype=float) if mine.ndim and mine.size else mine
    expected = Array("ndarray", "float64", theirs)
    leaf = Leaf("", expected, allowed, tuple("abcd"[: theirs.ndim]))
    found = compare.mismatch(
        Array("ndarray", "float64", mine), Expected(expected, (leaf,), "float64"), Output(), "numpy"
    )
    assume(found is not None)
    assert found is not None
    dims = {"heads": heads, "width": theirs.shape[-1] // heads}
    with np.errstate(all="ignore"):
        for fact in locate.facts(found, dims):
            check_fact(fact, found, dims)
