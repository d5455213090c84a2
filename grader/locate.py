"""Where and how a result goes wrong, as facts read off the mismatch along the named axes of the output.

A fact is stated only where it holds for every element concerned, within the tolerance of the case, and where the numbers
could have contradicted it: a factor needs values that vary, an order needs rows that differ. Nothing is inferred from
what a submission looks like.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from grader import compare
from grader.model import Mismatch
from grader.sandbox.protocol import Array

MOST = 3
# How many numbers a statement about values rests on at least.
ENOUGH = 3
# Values count as different from each other, for a statement that rests on that, from so many tolerances on.
CLEAR = 100.0
# How far results of float32 arithmetic may be from the exact ones, in roundings of the largest.
SINGLE_ROUNDINGS = 8.0
# Beyond these sizes a pattern takes longer to find than a student wants to wait, and nobody reads it.
MAX_AXES = 5
MAX_ROWS = 48
MAX_ELEMENTS = 200_000
MAX_NAMED = 3
HEADS = ("heads", "num_heads", "n_heads", "H")
WIDTHS = ("width", "d_h", "d_head", "head_dim")


@dataclass(frozen=True)
class Fact:
    """One statement, its kind (a stable name), and the numbers it is about.

    ``tells_values`` says that whoever knows a wrong result could work out expected values from the sentence.
    """

    kind: str
    says: str
    data: Mapping[str, Any] = field(default_factory=dict)
    tells_values: bool = False


def places(mismatch: Mismatch, dims: Mapping[str, int] | None = None, values: bool = True) -> tuple[str, ...]:
    """At most three sentences on where and how a result goes wrong, the most telling first.

    ``dims`` are the sizes of the case (the number of heads shows blocks of features); with ``values=False`` sentences
    from which expected values could be worked out are left out.
    """
    found = facts(mismatch, dims)
    return tuple(fact.says for fact in found if values or not fact.tells_values)[:MOST]


def facts(mismatch: Mismatch, dims: Mapping[str, int] | None = None) -> tuple[Fact, ...]:
    """Every fact that holds, the most telling first; empty where nothing plain can be said."""
    mine, theirs = compare.numbers(mismatch.actual), compare.numbers(mismatch.expected)
    if mine is None or theirs is None or max(mine.size, theirs.size) > MAX_ELEMENTS:
        return ()
    if mismatch.kind == "shape":
        return tuple(_of_shape(mine, theirs, mismatch))
    if mine.shape != theirs.shape or mine.size == 0 or mismatch.kind not in ("values", "nan", "inf"):
        return ()
    if mine.size == 1:
        return tuple(_of_one_number(mine, theirs, mismatch))
    names = _names(mismatch.axes, mine.ndim)
    if mismatch.kind == "values":
        wrong = compare.wrong_elements(mine, theirs, mismatch.allowed)
        # The whole result explains more than a place in it.
        found = [*_of_all(mine, theirs, mismatch, names, dims or {}), *_of_places(wrong, names, dims or {}, "wrong")]
        return (*found, *_of_wrong_ones(mine, theirs, wrong, mismatch.allowed))
    test = np.isnan if mismatch.kind == "nan" else np.isinf
    odd = test(mine) != test(theirs)
    if mismatch.kind == "inf":
        with np.errstate(invalid="ignore"):
            odd |= np.isinf(mine) & np.isinf(theirs) & (mine != theirs)
    moved = _transposed(mine, theirs, mismatch.allowed, names)
    found = [*([moved] if moved else []), *_of_nonfinite(mine, theirs, odd, mismatch.kind)]
    # A finite number may be wrong as well, or stand for an infinite one, and "only" is said of everything that is wrong.
    wrong = odd | compare.wrong_elements(mine, theirs, mismatch.allowed)
    return (*found, *_of_places(wrong, names, dims or {}, "wrong"))


def _of_one_number(mine: np.ndarray, theirs: np.ndarray, mismatch: Mismatch) -> Iterator[Fact]:
    """What one number says of the expected one; nothing where it is but an item of a list, or where both are whole."""
    if mismatch.kind != "values" or mismatch.path.startswith("[") or _whole(mismatch):
        return
    yours = f"your `{mismatch.path}` is" if mismatch.path else "your result is"
    one = _relation_to(mine.reshape(1), theirs.reshape(1), mismatch.allowed, yours, "the expected one", "")
    if one is None:
        one = _rounded(mine.reshape(1), theirs.reshape(1), mismatch, yours, "the expected one")
    if one is not None:
        yield one


def _whole(mismatch: Mismatch) -> bool:
    """Whether the expected numbers are integers, as ids and counts are: a ratio of two of them says nothing."""
    expected = mismatch.expected
    if isinstance(expected, Array):
        return expected.raw.dtype.kind != "f" and expected.dtype != "bfloat16"
    return isinstance(expected, int)


def _names(axes: tuple[str, ...], ndim: int) -> list[str]:
    return list(axes) if len(axes) == ndim else [f"axis {axis}" for axis in range(ndim)]


def _every(name: str) -> str:
    return f"every place of {name}" if name.startswith("axis ") else f"every {name}"


def _near(first: np.ndarray, second: np.ndarray, allowed: float) -> bool:
    return first.shape == second.shape and not compare.wrong_elements(first, second, allowed).any()


def _varies(values: np.ndarray, allowed: float) -> bool:
    """Whether there are numbers enough, and different enough, for a statement about them to mean something."""
    if values.size < ENOUGH:
        return False
    if values.dtype.kind != "f":
        return bool((values != values.reshape(-1)[0]).any())
    return bool(np.isfinite(values).all()) and float(values.max() - values.min()) > CLEAR * allowed


# --- the whole result -------------------------------------------------------------------------------------------------


def _of_all(
    mine: np.ndarray, theirs: np.ndarray, mismatch: Mismatch, names: list[str], dims: Mapping[str, int]
) -> Iterator[Fact]:
    """Statements that cover every element; they need finite numbers."""
    allowed = mismatch.allowed
    if mine.dtype.kind == "b" and theirs.dtype.kind == "b":
        if (mine != theirs).all():
            yield Fact("inverted", "every value is the opposite of the expected one", tells_values=True)
        return
    if not (np.isfinite(mine).all() and np.isfinite(theirs).all()):
        return
    a, b = mine.astype(np.float64), theirs.astype(np.float64)
    if not _varies(b, allowed):
        return
    constant = _constant(a, allowed)
    if constant is not None:
        yield constant
        return
    plain = (None if _whole(mismatch) else _factor(a, b, allowed)) or _offset(a, b, allowed)
    if plain is not None:
        yield plain
        return
    rounded = _rounded(a, b, mismatch) if not _whole(mismatch) else None
    if rounded is not None:
        yield rounded
    yield from _in_other_places(a, b, allowed, names, dims)
    if not _whole(mismatch):
        yield from _per_row(a, b, allowed, names)
    yield from _unchanging(a, b, allowed, names)


def _constant(a: np.ndarray, allowed: float) -> Fact | None:
    # By their own size: numbers far below the tolerance may be as different as any.
    if float(a.max() - a.min()) > min(allowed, 1e-9 * float(np.abs(a).max())):
        return None
    value = float(a.reshape(-1)[0])
    return Fact("constant", f"all your values are the same, {value + 0.0:.6g}", {"value": value})


def _factor(a: np.ndarray, b: np.ndarray, allowed: float) -> Fact | None:
    square = float((b * b).sum())
    if not (np.isfinite(square) and square > 0) or int((np.abs(b) > CLEAR * allowed).sum()) < ENOUGH:
        return None
    factor = float((a * b).sum()) / square
    # Of values that vanish in the tolerance any small factor would hold.
    if not (np.isfinite(factor) and abs(factor) * float(np.abs(b).max()) > CLEAR * allowed):
        return None

    def holds(number: float) -> bool:
        return _near(a, number * b, allowed * max(1.0, abs(number)))

    plain = _relation_to(a, b, allowed, "your values are", "the expected ones", ", everywhere")
    if plain is not None:
        return plain
    if not holds(factor):
        return None
    digits = next((digits for digits in range(4, 13) if float(f"{factor:.{digits}g}") not in (1.0, -1.0)), 13)
    says = f"your values are the expected ones times a constant, about {factor:.{digits}g}"
    return Fact("factor", says, {"factor": factor}, True)


def _relation_to(a: np.ndarray, b: np.ndarray, allowed: float, yours: str, ones: str, end: str) -> Fact | None:
    """A plain factor or a well-known function that leads from the expected values to the given ones."""
    if a.dtype.kind != "f" or b.dtype.kind != "f" or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return None
    # Where the tolerance is wide, many a plain number would fit.
    if not float(np.abs(b).max()) > 0 or allowed > 1e-5 * float(np.abs(b).max()):
        return None
    if _near(a, -b, allowed):
        return Fact(
            "factor", f"{'every value has' if end else 'your result has'} the wrong sign", {"factor": -1.0}, True
        )
    most = int(np.abs(b).argmax())
    ratio = float(a.reshape(-1)[most] / b.reshape(-1)[most])
    for number, text in _plain_numbers():
        for sign, minus in ((1.0, ""), (-1.0, "-")):
            # One element rules out nearly every number before all are looked at.
            if abs(ratio - sign * number) <= 1e-4 * number and _near(a, sign * number * b, allowed * max(1.0, number)):
                says = f"{yours} {minus}{text} × {ones}{end}"
                return Fact("factor", says, {"factor": sign * number}, True)
    for name, function, slope in FUNCTIONS:
        with np.errstate(all="ignore"):
            values, steep = function(b), np.abs(slope(b))
            # An error in b grows by the slope.
            wide = allowed * np.maximum(1.0, steep)
        if not (np.isfinite(values).all() and np.isfinite(wide).all()) or (wide > 1e-5 * np.abs(values).max()).any():
            continue
        if (np.abs(a - values) <= wide).all():
            return Fact("function", f"{yours} {name} {ones}", {"name": name}, True)
    return None


Elementwise = Callable[[np.ndarray], np.ndarray]
FUNCTIONS: tuple[tuple[str, Elementwise, Elementwise], ...] = (
    ("the exponential of", np.exp, np.exp),
    ("the logarithm of", np.log, lambda b: 1 / b),
    ("the square of", np.square, lambda b: 2 * b),
    ("the square root of", np.sqrt, lambda b: 0.5 / np.sqrt(b)),
    ("1 divided by", lambda b: 1 / b, lambda b: 1 / np.square(b)),
)


def _plain_numbers() -> Iterator[tuple[float, str]]:
    for whole in range(2, 65):
        yield float(whole), str(whole)
        yield 1.0 / whole, f"1/{whole}"
    for whole in range(2, 65):
        if math.isqrt(whole) ** 2 != whole:
            yield math.sqrt(whole), f"√{whole}"
            yield 1.0 / math.sqrt(whole), f"1/√{whole}"
    yield 1.0 / math.log(2), "1/ln 2"
    yield math.log(2), "ln 2"


def _offset(a: np.ndarray, b: np.ndarray, allowed: float) -> Fact | None:
    gaps = a - b
    gap = float(gaps.mean())
    if abs(gap) <= 10 * allowed or bool((np.abs(gaps - gap) > allowed).any()):
        return None
    word = "higher" if gap > 0 else "lower"
    return Fact("offset", f"your values are the expected ones, all {abs(gap):.4g} {word}", {"offset": gap}, True)


def _rounded(
    a: np.ndarray, b: np.ndarray, mismatch: Mismatch, yours: str = "your values are", ones: str = "the expected ones"
) -> Fact | None:
    """The expected values kept to a few decimals, exactly; or kept to the bits of float32, somewhere on the way."""
    allowed = mismatch.allowed
    array = mismatch.array("actual")
    kept = {"float64": 2.0**-52, "float32": 2.0**-23}.get(array.dtype if array is not None else "float64")
    if kept is None:
        return None
    for decimals in range(9):
        half = 0.5 * 10.0**-decimals
        # A grid that the tolerance fills, or the values' own digits do, is met by any value.
        if half < 10 * allowed or half <= 16 * kept * float(np.abs(a).max()):
            break
        rounding = 4 * kept * np.maximum(np.abs(a), half)
        on_grid = np.abs(a - np.round(a, decimals)) <= rounding
        # Rounding the very expected number, but where it lies halfway to within its tolerance.
        nearest = (np.abs(a - np.round(b, decimals)) <= rounding) | (np.abs(np.abs(a - b) - half) <= allowed)
        if on_grid.all() and nearest.all() and np.unique(np.round(a, decimals)).size >= min(ENOUGH, a.size):
            # Of one number alone the decimals have to show: a 0 is no rounded 0.3.
            if a.size == 1 and (decimals < 2 or bool((np.abs(a - np.round(a, decimals - 1)) <= rounding).all())):
                continue
            word = "whole numbers" if decimals == 0 else f"{decimals} decimal{'' if decimals == 1 else 's'}"
            return Fact("rounded", f"{yours} {ones} rounded to {word}", {"decimals": decimals}, True)
    if array is not None and array.dtype == "float64" and a.size > 1:
        with np.errstate(over="ignore"):
            narrow = a.astype(np.float32).astype(np.float64)
            exact = b.astype(np.float32).astype(np.float64)
        near = np.abs(a - b) <= SINGLE_ROUNDINGS * 2.0**-24 * float(np.abs(b).max())
        varied = int((exact != b).sum()) >= ENOUGH and np.unique(a).size >= ENOUGH
        if (narrow == a).all() and near.all() and varied:
            return Fact("single", "your values are the expected ones to the precision of float32, and no finer", {})
    return None


def _in_other_places(
    a: np.ndarray, b: np.ndarray, allowed: float, names: list[str], dims: Mapping[str, int]
) -> Iterator[Fact]:
    """The expected values, but elsewhere: axes swapped, rows in another order, or numbers dealt out differently."""
    swapped = _transposed(a, b, allowed, names)
    if swapped is not None:
        yield swapped
        return
    found = [fact for axis in range(a.ndim) if (fact := _rows(a, b, axis, allowed, names[axis])) is not None]
    if found:
        yield found[0]
        return
    heads = _head_count(a.shape[-1], names, dims)
    if heads:
        split = (*a.shape[:-1], heads, a.shape[-1] // heads)
        theirs = b.reshape(split)
        dealt = a.reshape(*a.shape[:-1], split[-1], heads).swapaxes(-1, -2)
        if _near(dealt, theirs, allowed):
            says = "the heads are interleaved: the first feature of every head, then the second of every head"
            yield Fact("interleaved", says, {"heads": heads}, True)
            return
        fact = _rows(a.reshape(split), theirs, a.ndim - 1, allowed, "the heads")
        if fact is not None:
            yield Fact("heads", fact.says, {**fact.data, "heads": heads, "kind": fact.kind}, True)
            return
    depth = _same_numbers(a, b, allowed)
    if depth is not None:
        inside = " and ".join(names[:depth])
        says = "your values are the expected ones, but in other places"
        yield Fact("moved", f"{says}, each within its own {inside}" if depth else says, {"depth": depth}, True)


def _transposed(a: np.ndarray, b: np.ndarray, allowed: float, names: list[str]) -> Fact | None:
    if a.ndim <= MAX_AXES:
        for order in itertools.permutations(range(a.ndim)):
            if order != tuple(range(a.ndim)) and _near(a, b.transpose(order), allowed):
                return Fact("transposed", _reordered(order, names), {"order": order}, True)
    return None


def _reordered(order: tuple[int, ...], names: list[str]) -> str:
    swapped = [axis for axis, other in enumerate(order) if axis != other]
    if len(swapped) == 2:
        return f"your result is the expected one with the axes {names[swapped[0]]} and {names[swapped[1]]} swapped"
    return f"your result is the expected one with its axes in the order {', '.join(names[axis] for axis in order)}"


def _rows(a: np.ndarray, b: np.ndarray, axis: int, allowed: float, name: str) -> Fact | None:
    """The expected rows along one axis, each found at exactly one other place."""
    count = a.shape[axis]
    if not 2 <= count <= MAX_ROWS:
        return None
    mine = np.moveaxis(a, axis, 0).reshape(count, -1)
    theirs = np.moveaxis(b, axis, 0).reshape(count, -1)
    far = np.abs(mine[:, None] - theirs[None]).max(axis=2)
    apart = np.abs(theirs[:, None] - theirs[None]).max(axis=2) + np.diag(np.full(count, np.inf))
    if float(apart.min()) <= CLEAR * allowed:
        return None
    at = [int(row.argmin()) if float(row.min()) <= allowed else None for row in far]
    steps = np.arange(count)
    if None not in at and sorted(at) == list(range(count)):  # type: ignore[type-var]
        order = np.array(at)
        data = {"axis": axis, "order": at}
        if (order == steps[::-1]).all():
            return Fact("reversed", f"along {name} your values are the expected ones in reverse order", data, True)
        for shift in range(1, count):
            if (order == (steps + shift) % count).all():
                back = count - shift
                by = f"{shift} earlier" if shift <= back else f"{back} later"
                says = f"along {name} everything stands {by} than expected, wrapped around at the end"
                return Fact("rolled", says, {**data, "shift": shift}, True)
        if count <= 8:
            text = ", ".join(map(str, at))
            return Fact("reordered", f"along {name} the expected rows stand in another order: {text}", data, True)
        return None
    for shift, word in ((1, "earlier"), (-1, "later")):
        inside = [at[row] for row in range(count) if 0 <= row + shift < count]
        if count >= 3 and inside == [row + shift for row in range(count) if 0 <= row + shift < count]:
            says = f"along {name} everything stands one place {word} than expected"
            return Fact("shifted", says, {"axis": axis, "shift": shift}, True)
    return None


def _same_numbers(a: np.ndarray, b: np.ndarray, allowed: float) -> int | None:
    """How many leading axes keep their own numbers while the rest are dealt out differently; None when numbers differ."""
    deepest = None
    for depth in range(a.ndim):
        groups = math.prod(a.shape[:depth])
        size = a.size // groups
        if size < ENOUGH:
            break
        if not _near(
            np.sort(a.reshape(groups, size), axis=1), np.sort(b.reshape(groups, size), axis=1), allowed
        ) or not _varies(b, allowed):
            break
        deepest = depth
    return deepest


def _per_row(a: np.ndarray, b: np.ndarray, allowed: float, names: list[str]) -> Iterator[Fact]:
    """Right up to one number per row: a norm, a sum or a mean that was left out, or taken of something else."""
    for axis in reversed(range(a.ndim)):
        if a.shape[axis] < ENOUGH + 1 or a.size == a.shape[axis]:
            continue
        mine, theirs = np.moveaxis(a, axis, -1), np.moveaxis(b, axis, -1)
        clear = (np.abs(theirs) > CLEAR * allowed).sum(axis=-1) >= ENOUGH
        spread = theirs.max(axis=-1) - theirs.min(axis=-1) > CLEAR * allowed
        if not (clear.all() and spread.all()):
            continue
        factors = (mine * theirs).sum(axis=-1) / (theirs * theirs).sum(axis=-1)
        wide = allowed * np.maximum(1.0, np.abs(factors))[..., None]
        name = names[axis]
        data = {"axis": axis, "least": float(factors.min()), "most": float(factors.max())}
        large = np.abs(factors) * np.abs(theirs).max(axis=-1) > CLEAR * allowed
        if (np.abs(mine - factors[..., None] * theirs) <= wide).all() and large.all():
            says = f"along {name} every row is the expected one times a factor of its own ({_span(factors)})"
            yield Fact("row_factor", says, data, True)
            return
        gaps = (mine - theirs).mean(axis=-1)
        if (np.abs(mine - theirs - gaps[..., None]) <= allowed).all():
            says = f"along {name} every row is the expected one plus a number of its own ({_span(gaps)})"
            yield Fact("row_offset", says, {**data, "least": float(gaps.min()), "most": float(gaps.max())}, True)
            return


def _span(numbers: np.ndarray) -> str:
    """From the least to the most, where four digits tell them apart."""
    least, most = float(numbers.min()), float(numbers.max())
    ends = f"{least:.4g}", f"{most:.4g}"
    return " to ".join(ends) if ends[0] != ends[1] else f"about {ends[0]}"


def _unchanging(a: np.ndarray, b: np.ndarray, allowed: float, names: list[str]) -> Iterator[Fact]:
    for axis in range(a.ndim):
        if a.shape[axis] < 2:
            continue
        same = float((a.max(axis=axis) - a.min(axis=axis)).max()) <= min(allowed, 1e-6 * float(np.abs(a).max()))
        if same and float((b.max(axis=axis) - b.min(axis=axis)).max()) > CLEAR * allowed:
            yield Fact("unchanging", f"your values are the same at {_every(names[axis])}", {"axis": axis})


# --- the wrong elements -----------------------------------------------------------------------------------------------


def _of_places(wrong: np.ndarray, names: list[str], dims: Mapping[str, int], word: str) -> Iterator[Fact]:
    """Where the wrong elements lie; nothing when they lie everywhere, or when there is one alone."""
    if wrong.all() or int(wrong.sum()) < 2:
        return
    done: set[int] = set()
    for first, second in itertools.combinations(range(wrong.ndim), 2):
        relation = _relation(wrong, first, second)
        if relation is not None:
            condition = f"{names[second]} {relation} {names[first]}"
            done |= {first, second}
            yield Fact(
                "relation", f"{word} only where {condition}", {"axes": (first, second), "relation": relation}
            )  # fmt: skip
            break
    conditions: list[str] = []
    data: dict[int, tuple[int, ...]] = {}
    others: list[Fact] = []
    for axis in range(wrong.ndim):
        if axis in done:
            continue
        rows = np.asarray(wrong.any(axis=tuple(k for k in range(wrong.ndim) if k != axis)))
        if rows.all():
            continue
        bad = tuple(int(i) for i in np.flatnonzero(rows))
        block = _blocks(rows, names, dims, word) if axis == wrong.ndim - 1 else None
        if block is not None:
            others.append(Fact("block", block, {"axis": axis, "bad": bad}))
            continue
        good = np.flatnonzero(~rows)
        if good.size == 1 and rows.size >= 3:
            which = "the first" if good[0] == 0 else "the last" if good[0] == rows.size - 1 else str(good[0])
            others.append(Fact("place", f"{word} at {_every(names[axis])} but {which}", {"rows": {axis: bad}}))
            continue
        condition_ = _condition(rows, names[axis])
        if condition_ is not None:
            conditions.append(condition_)
            data[axis] = bad
    if conditions:
        yield Fact("place", f"{word} only where {' and '.join(conditions)}", {"rows": data})
    yield from others


RELATIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    ">": np.greater,
    "<": np.less,
    "=": np.equal,
    ">=": np.greater_equal,
    "<=": np.less_equal,
}


def _relation(wrong: np.ndarray, first: int, second: int) -> str | None:
    """How the places along two axes relate, where that alone says which of them are wrong: above a diagonal, on it …"""
    if min(wrong.shape[first], wrong.shape[second]) < 3:
        return None
    others = tuple(k for k in range(wrong.ndim) if k not in (first, second))
    plane = np.asarray(wrong.any(axis=others))
    rows, columns = (np.asarray(grid) for grid in np.indices(plane.shape))
    for text, compared in RELATIONS.items():
        if (plane == compared(columns, rows)).all():
            return text
    return None


def _blocks(rows: np.ndarray, names: list[str], dims: Mapping[str, int], word: str) -> str | None:
    """Whole heads right or wrong, where an axis of features is made of as many blocks as there are heads."""
    name, heads = names[-1], _head_count(rows.size, names, dims)
    if not heads:
        return None
    width = rows.size // heads
    per_head = rows.reshape(heads, width)
    bad = np.flatnonzero(per_head.any(axis=1))
    good = [head for head in range(heads) if head not in bad]
    if not good or not per_head[bad].all():
        return None

    def features(head: int) -> str:
        return f"head {head}, {head * width} <= {name} <= {(head + 1) * width - 1}"

    if len(bad) == 1:
        return f"{word} only in {features(int(bad[0]))}"
    if len(good) == 1:
        return f"right only in {features(good[0])}"
    return f"{word} only in the features of heads {', '.join(map(str, bad))}"


def _head_count(features: int, names: list[str], dims: Mapping[str, int]) -> int:
    """How many heads a last axis of so many features is made of; 0 where that is not known, or heads have an axis of their own."""
    if any("head" in name for name in names):
        return 0
    heads = next((dims[key] for key in HEADS if key in dims), 0)
    widths = [dims[key] for key in WIDTHS if key in dims]
    return heads if heads >= 2 and any(width >= 2 and heads * width == features for width in widths) else 0


def _condition(rows: np.ndarray, name: str) -> str | None:
    """The places along one axis where something is wrong, as a condition; None where they form no plain pattern."""
    count, bad = rows.size, np.flatnonzero(rows)
    if bad.size == 1:
        return f"{name} = {bad[0]}" + (" (the last)" if count > 2 and bad[0] == count - 1 else "")
    if (np.diff(bad) == 1).all():
        half = count >= 4 and 2 * bad.size == count
        if bad[-1] == count - 1:
            return f"{name} >= {bad[0]}" + (" (the last half)" if half else "")
        if bad[0] == 0:
            return f"{name} <= {bad[-1]}" + (" (the first half)" if half else "")
        return f"{bad[0]} <= {name} <= {bad[-1]}"
    if count >= 4 and np.array_equal(bad, np.arange(0, count, 2)):
        return f"{name} is even"
    if count >= 4 and np.array_equal(bad, np.arange(1, count, 2)):
        return f"{name} is odd"
    if bad.size <= MAX_NAMED and 2 * bad.size <= count:
        return f"{name} is one of {', '.join(map(str, bad))}"
    return None


def _of_wrong_ones(mine: np.ndarray, theirs: np.ndarray, wrong: np.ndarray, allowed: float) -> Iterator[Fact]:
    """What the wrong elements have in common, where they are some and not all."""
    count = int(wrong.sum())
    if wrong.all() or count < ENOUGH or mine.dtype.kind != "f" or theirs.dtype.kind != "f":
        return
    values, expected = mine[wrong], theirs[wrong]
    if (values == values[0]).all() and np.isfinite(values[0]):
        yield Fact("same_wrong", f"every wrong value is {values[0] + 0.0:.6g}", {"value": float(values[0])})
    right = theirs[~wrong]
    for text, test in (("below 0", np.less), ("above 0", np.greater), ("0", np.equal)):
        if (
            test(expected, 0).all()
            and right.size >= ENOUGH
            and not test(right, 0).any()
            and np.isfinite(expected).all()
        ):
            yield Fact("where_expected", f"wrong exactly where the expected value is {text}", {"test": text}, True)


def _of_nonfinite(mine: np.ndarray, theirs: np.ndarray, odd: np.ndarray, kind: str) -> Iterator[Fact]:
    test = np.isnan if kind == "nan" else np.isinf
    if mine.size >= 2 and test(mine).all():
        yield Fact(
            "all_nonfinite", f"every value you returned is {'nan' if kind == 'nan' else 'infinite'}", {"kind": kind}
        )
        return
    if kind != "inf" or int(odd.sum()) < 2:
        return
    values, expected = mine[odd], theirs[odd]
    if (values == -expected).all() and np.isinf(expected).all():
        yield Fact("opposite_infinity", "every wrong infinity has the wrong sign", {}, True)
    elif (
        np.isinf(expected).all()
        and (expected == expected[0]).all()
        and (values == values[0]).all()
        and np.isfinite(values[0])
    ):
        every = not ((theirs == expected[0]) & ~odd).any()
        where = f"wherever {expected[0]:g} is expected" if every else f"where {expected[0]:g} is missing"
        says = f"{where} you have {values[0] + 0.0:.6g}"
        yield Fact("finite_for_infinite", says, {"value": float(values[0]), "expected": float(expected[0])}, True)


# --- results of another shape -----------------------------------------------------------------------------------------


def _of_shape(mine: np.ndarray, theirs: np.ndarray, mismatch: Mismatch) -> Iterator[Fact]:
    """What a result of the wrong shape still has in common with the expected one."""
    names = _names(mismatch.axes, theirs.ndim)
    missing = _removed(theirs.shape, mine.shape)
    extra = _removed(mine.shape, theirs.shape)
    right = _close(mismatch, theirs)
    same = right(mine.reshape(theirs.shape), theirs) if mine.size == theirs.size else False
    if missing is not None:
        length = theirs.shape[missing]
        says = f"the axis {names[missing]}, of length {length}, is missing"
        yield Fact("axis_missing", says + ("; the values are right" if same else ""), {"axis": missing}, same)
    elif extra is not None:
        says = f"axis {extra} of your result, of length {mine.shape[extra]}, is one too many"
        yield Fact("axis_extra", says + ("; the values are right" if same else ""), {"axis": extra}, same)
    if not _varies(theirs if theirs.size >= mine.size else mine, 0.0):
        return
    if mine.ndim == theirs.ndim and 2 <= mine.ndim <= MAX_AXES and sorted(mine.shape) == sorted(theirs.shape):
        for order in itertools.permutations(range(mine.ndim)):
            if tuple(theirs.shape[axis] for axis in order) == mine.shape and right(mine, theirs.transpose(order)):
                yield Fact("transposed", _reordered(order, names), {"order": order}, True)
                return
    if same and missing is None and extra is None:
        yield Fact("reshaped", f"reshaped to {tuple(theirs.shape)} your values are the expected ones", {}, True)
        return
    yield from _of_parts(mine, theirs, names, missing, right)


def _of_parts(
    mine: np.ndarray, theirs: np.ndarray, names: list[str], missing: int | None, right: Callable[..., bool]
) -> Iterator[Fact]:
    if theirs.ndim == 0 and mine.size >= ENOUGH and mine.dtype.kind == "f":
        for word, reduced in (("mean", mine.mean()), ("sum", mine.sum())):
            if right(np.asarray(reduced), theirs):
                yield Fact("reduces", f"the {word} of your values is the expected number", {"how": word}, True)
                return
    for axis in range(theirs.ndim):
        rest = theirs.shape[:axis] + theirs.shape[axis + 1 :]
        if rest == mine.shape and theirs.shape[axis] >= 2 and mine.size >= ENOUGH:
            for text, index in (("first", 0), ("last", -1)):
                if right(mine, theirs.take(index, axis=axis)):
                    says = f"your result is the expected one at the {text} {names[axis]} alone"
                    yield Fact("one_row", says, {"axis": axis, "index": index}, True)
                    return
            for word, reduced in (("averaged", theirs.mean(axis=axis)), ("summed", theirs.sum(axis=axis))):
                if theirs.dtype.kind == "f" and right(mine, reduced):
                    says = f"your result is the expected one {word} over {names[axis]}"
                    yield Fact("reduced", says, {"axis": axis, "how": word}, True)
                    return
        if mine.ndim == theirs.ndim and mine.shape[:axis] + mine.shape[axis + 1 :] == rest and mine.size >= ENOUGH:
            count, wanted = mine.shape[axis], theirs.shape[axis]
            if 0 < count < wanted:
                for text, start in (("first", 0), ("last", wanted - count)):
                    if right(mine, theirs.take(range(start, start + count), axis=axis)):
                        says = f"along {names[axis]} you have {count} of {wanted}: the {text} {count} of the expected result"
                        yield Fact("part", says, {"axis": axis, "start": start}, True)
                        return
            elif count > wanted > 0:
                for text, start in (("first", 0), ("last", count - wanted)):
                    if right(mine.take(range(start, start + wanted), axis=axis), theirs):
                        says = (
                            f"along {names[axis]} you have {count} instead of {wanted}; the {text} {wanted} are right"
                        )
                        yield Fact("more", says, {"axis": axis, "start": start}, True)
                        return


def _removed(longer: tuple[int, ...], shorter: tuple[int, ...]) -> int | None:
    """The one axis whose removal makes ``longer`` ``shorter``; None when there is none, or more than one candidate."""
    if len(longer) != len(shorter) + 1:
        return None
    found = [axis for axis in range(len(longer)) if longer[:axis] + longer[axis + 1 :] == shorter]
    return found[0] if len(found) == 1 else None


def _close(mismatch: Mismatch, theirs: np.ndarray) -> Callable[[np.ndarray, np.ndarray], bool]:
    """Equality for results whose tolerance is not known, far stricter than any tolerance of their dtype."""
    actual = mismatch.actual
    dtype = actual.dtype if isinstance(actual, Array) else "float64"
    relative = {"float64": 1e-10, "float32": 1e-6}.get(dtype, 0.0)
    finite = np.abs(theirs[np.isfinite(theirs)]) if theirs.dtype.kind == "f" else np.zeros(0)
    allowed = relative * float(finite.max()) if finite.size else 0.0

    def right(first: np.ndarray, second: np.ndarray) -> bool:
        return _near(np.asarray(first), np.asarray(second), allowed)

    return right
