"""Random numbers that are the same bits on every machine.

Only the raw 64-bit output of NumPy's PCG64 is used, which NumPy keeps stable; its distributions may change between
versions, and their logarithms between C libraries. Uniforms are multiples of 2**-53; normals are sums of twelve
uniforms (Irwin-Hall: mean 0, variance 1, within ±6), formed in integers, so that no rounding can differ.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np


class Draws:
    """A stream of draws named by a seed and any number of labels; equal names give equal streams."""

    def __init__(self, seed: int, *labels: str | int) -> None:
        name = "\x1f".join([str(seed), *map(str, labels)])
        entropy = int.from_bytes(hashlib.sha256(name.encode()).digest(), "big")
        self._bits = np.random.PCG64(entropy)

    def raw(self, count: int) -> np.ndarray:
        """``count`` raw 64-bit integers, uint64."""
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64).reshape(count)

    def uniform(self, shape: tuple[int, ...] = ()) -> np.ndarray:
        """Float64 in [0, 1), multiples of 2**-53."""
        count = math.prod(shape)
        return np.asarray((self.raw(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(shape)

    def normal(self, shape: tuple[int, ...] = ()) -> np.ndarray:
        """Float64 with mean 0 and variance 1, from twelve 32-bit uniforms each."""
        count = math.prod(shape)
        raw = self.raw(count * 6).reshape(count, 6)
        halves = (raw >> np.uint64(32)).astype(np.int64) + (raw & np.uint64(0xFFFFFFFF)).astype(np.int64)
        # Sum of 12 uniforms on {0 … 2**32 - 1}, its mean taken off; doubled once so that the mean is an integer.
        doubled = 2 * halves.sum(axis=1) - 12 * ((1 << 32) - 1)
        values: np.ndarray = doubled.astype(np.float64) * 2.0**-33
        return values.reshape(shape)

    def integers(self, low: int, high: int, shape: tuple[int, ...] = ()) -> np.ndarray:
        """Int64 in [low, high), near enough uniform for ranges far below 2**53; raises ValueError when empty."""
        if high <= low:
            raise ValueError(f"no integer in [{low}, {high})")
        span = high - low
        return np.asarray(low + np.floor(self.uniform(shape) * span), dtype=np.int64)

    def integer(self, low: int, high: int) -> int:
        """One integer in [low, high], both ends included."""
        return int(self.integers(low, high + 1))

    def permutation(self, count: int) -> np.ndarray:
        """A permutation of 0 … count - 1, int64."""
        return np.argsort(self.raw(count), kind="stable").astype(np.int64)

    def sign(self, shape: tuple[int, ...] = ()) -> np.ndarray:
        """Float64, each -1 or 1."""
        return np.where(self.uniform(shape) < 0.5, -1.0, 1.0)
