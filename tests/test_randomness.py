"""The draws that cases are made of: the same bits everywhere, of the promised distribution, independent of one another."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.randomness import Draws

NAMES = st.lists(st.one_of(st.text(max_size=8), st.integers(-5, 10**6)), max_size=4)


def test_the_same_bits_on_every_machine() -> None:
    """Written down once: another NumPy, C library or processor must give these too, or tokens stop replaying cases."""
    assert [int(v) for v in Draws(7, "softmax", "random", 0, "x").raw(3)] == [
        0x9AB9E43FE5C25354,
        0xBCF2233F74BE0F84,
        0x6E48B131662A496C,
    ]
    assert [v.hex() for v in Draws(7, "a").uniform((3,))] == [
        "0x1.77181b869a1f5p-1",
        "0x1.1ea525fe00c28p-2",
        "0x1.c7fb7d54ea66dp-1",
    ]
    assert [v.hex() for v in Draws(7, "a").normal((3,))] == [
        "0x1.068afc7400000p-2",
        "0x1.ca50a9e000000p-1",
        "-0x1.2e1958c000000p-3",
    ]
    assert Draws(7, "a").integers(-3, 40, (8,)).tolist() == [28, 9, 35, 1, 11, 24, 31, 36]
    assert Draws(7, "a").permutation(7).tolist() == [3, 1, 4, 5, 0, 6, 2]
    assert Draws(7, "a").sign((6,)).tolist() == [1.0, -1.0, 1.0, -1.0, -1.0, 1.0]
    assert Draws(7, "a").integer(2, 6) == 5


def test_many_bits_at_once() -> None:
    """One digest over every kind of draw, where a difference in the last bit of any would show."""
    draws = Draws(2026, "digest", 3)
    digest = hashlib.sha256()
    for _ in range(20):
        digest.update(draws.raw(50).astype("<u8").tobytes())
        digest.update(draws.normal((7, 3)).astype("<f8").tobytes())
        digest.update(draws.uniform((11,)).astype("<f8").tobytes())
        digest.update(draws.integers(0, 1000, (9,)).astype("<i8").tobytes())
        digest.update(draws.permutation(13).astype("<i8").tobytes())
    assert digest.hexdigest() == "75e43068f0505e9b811e112a6bded87abdf360670baa06a484b79f561df96602"


def test_uniforms_and_normals_are_what_they_say() -> None:
    draws = Draws(1, "moments")
    uniform, normal = draws.uniform((60_000,)), draws.normal((60_000,))
    assert uniform.min() >= 0 and uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.006 and abs(uniform.var() - 1 / 12) < 0.002
    assert np.array_equal(uniform * 2.0**53, np.round(uniform * 2.0**53))
    assert abs(normal.mean()) < 0.02 and abs(normal.var() - 1) < 0.03
    # Irwin-Hall of twelve: lighter tails than the normal, and never beyond 6.
    assert 3 < np.abs(normal).max() <= 6
    assert abs((np.abs(normal) < 1).mean() - 0.683) < 0.01
    assert abs((normal**4).mean() - 2.9) < 0.15


def test_integers_signs_and_permutations_are_even() -> None:
    draws = Draws(2, "counts")
    counts = np.bincount(draws.integers(0, 7, (21_000,)), minlength=7)
    assert counts.size == 7 and (np.abs(counts - 3000) < 5 * math.sqrt(3000)).all()
    signs = draws.sign((20_000,))
    assert set(signs.tolist()) == {-1.0, 1.0} and abs(signs.mean()) < 0.04
    firsts = np.bincount([int(draws.permutation(4)[0]) for _ in range(2000)], minlength=4)
    assert (np.abs(firsts - 500) < 5 * math.sqrt(500)).all()
    ends = {draws.integer(2, 6) for _ in range(300)}
    assert ends == {2, 3, 4, 5, 6}


@pytest.mark.parametrize(
    ("one", "other"),
    [((1, "x"), (2, "x")), ((1, "x"), (1, "y")), ((1, "x"), (1, "x", 0)), ((1, "x", 1), (1, "x", 11))],
)
def test_streams_do_not_go_together(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    first, second = Draws(*one).normal((4000,)), Draws(*other).normal((4000,))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.08
    assert not np.intersect1d(Draws(*one).raw(2000), Draws(*other).raw(2000)).size


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**12), labels=NAMES)
def test_equal_names_give_equal_streams(seed: int, labels: list[str | int]) -> None:
    assert np.array_equal(Draws(seed, *labels).raw(5), Draws(seed, *labels).raw(5))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), shape=st.lists(st.integers(0, 4), max_size=4).map(tuple))
def test_shapes_are_kept_and_fill_in_order(seed: int, shape: tuple[int, ...]) -> None:
    """An array is the same draws as a row of that many numbers: its shape decides nothing of its values."""
    count = math.prod(shape)
    for kind in ("uniform", "normal", "sign"):
        shaped = getattr(Draws(seed), kind)(shape)
        assert shaped.shape == shape and shaped.dtype == np.float64
        assert np.array_equal(shaped.reshape(-1), getattr(Draws(seed), kind)((count,)))
    whole = Draws(seed).integers(-2, 3, shape)
    assert whole.shape == shape and whole.dtype == np.int64
    assert sorted(Draws(seed).permutation(count).tolist()) == list(range(count))


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no integer in \[3, 3\)"):
        Draws(1).integers(3, 3)
    with pytest.raises(ValueError):
        Draws(1).integer(4, 3)
