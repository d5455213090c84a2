"""Where along the named axes a result goes wrong, as facts read off the mismatch."""

from __future__ import annotations

import numpy as np

from grader import compare
from grader.model import Mismatch


def places(mismatch: Mismatch) -> tuple[str, ...]:
    """One statement per axis along which the wrong elements form a plain pattern; empty when everything is wrong."""
    mine, theirs = compare.numbers(mismatch.actual), compare.numbers(mismatch.expected)
    if mine is None or theirs is None or mine.shape != theirs.shape or mine.ndim == 0:
        return ()
    wrong = compare.wrong_elements(mine, theirs, mismatch.allowed)
    if not wrong.any() or wrong.all():
        return ()
    facts = []
    for axis in range(wrong.ndim):
        name = mismatch.axes[axis] if len(mismatch.axes) == wrong.ndim else f"axis {axis}"
        rows = np.asarray(wrong.any(axis=tuple(k for k in range(wrong.ndim) if k != axis)))
        fact = _along(name, rows)
        if fact is not None:
            facts.append(fact)
    return tuple(facts)


def _along(name: str, rows: np.ndarray) -> str | None:
    count, bad = rows.size, np.flatnonzero(rows)
    if bad.size == count or count < 2:
        return None
    good = np.flatnonzero(~rows)
    if bad.size == 1:
        return f"only where {name} = {bad[0]}" if bad[0] != count - 1 else f"only at the last {name} ({bad[0]})"
    if good.size == 1:
        return f"at every {name} but {'the first' if good[0] == 0 else 'the last' if good[0] == count - 1 else good[0]}"
    if (np.diff(bad) == 1).all():
        if bad[-1] == count - 1:
            return f"only where {name} >= {bad[0]}"
        if bad[0] == 0:
            return f"only where {name} <= {bad[-1]}"
        return f"only where {bad[0]} <= {name} <= {bad[-1]}"
    return f"only where {name} is one of {', '.join(map(str, bad[:8]))}{' ...' if bad.size > 8 else ''}"
