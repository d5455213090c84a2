"""Numbers as text for a reader: aligned, and with just the digits that show a difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# An array of at most so many numbers, in rows of at most so many characters, is shown whole.
MAX_WHOLE = 24
MAX_ROW = 56
MAX_LINES = 9
LEAST_DECIMALS, MOST_DIGITS = 2, 17
USUAL_DIGITS = 5

Format = Callable[[Any], str]


def formatter(arrays: Sequence[np.ndarray], gap: float | None = None) -> Format:
    """One way of writing for all numbers of ``arrays``, fine enough that a difference of ``gap`` shows in two digits."""
    if all(values.dtype.kind != "f" for values in arrays):
        return lambda value: str(value.item() if isinstance(value, np.generic) else value)
    flat = np.concatenate([np.asarray(values, dtype=np.float64).reshape(-1) for values in arrays])
    finite = np.abs(flat[np.isfinite(flat)])
    scale = float(finite.max()) if finite.size else 0.0
    if gap is None or not (0 < gap < math.inf):
        gap = None
    if scale >= 1e6 or 0 < scale < 1e-3:
        digits = USUAL_DIGITS if gap is None else math.ceil(math.log10(scale / gap)) + 2
        short = {value: _short(float(value)) for value in flat}
        if all(text is not None for text in short.values()):
            return lambda value: str(_short(float(value)))
        least = float(finite[finite > 0].min())
        if scale >= 1e6 and least < 1e-3 * scale:
            # Numbers of every size: each in its own form.
            return lambda value: f"{float(value):.{min(max(digits, 6), MOST_DIGITS)}g}"
        return _stripped(lambda value: f"{value:.{min(max(digits, 3), MOST_DIGITS) - 1}e}", flat, exponent=True)
    before = math.floor(math.log10(scale)) + 1 if scale else 1
    decimals = USUAL_DIGITS if gap is None else math.ceil(-math.log10(gap)) + 1
    # One more than tell two floats of the largest size apart: smaller ones stand beside it.
    decimals = min(max(decimals, LEAST_DECIMALS), MOST_DIGITS + 1 - before)
    return _stripped(lambda value: f"{value:.{decimals}f}", flat)


def _short(value: float) -> str | None:
    """A number that is written in full with four digits at most, such as -1e+09."""
    text = f"{value:.4g}"
    if not math.isfinite(value) or float(text) != value:
        return None if math.isfinite(value) else str(value)
    return text if value else "0"


def _stripped(text: Format, values: np.ndarray, exponent: bool = False) -> Format:
    """``text`` without the zeros that every number ends in, and without the sign of a zero."""
    spare: int | None = None
    for value in values[np.isfinite(values)]:
        body = text(float(value)).partition("e")[0]
        _, _, decimals = body.partition(".")
        zeros = len(decimals) - len(decimals.rstrip("0"))
        spare = min(zeros, len(decimals) - 1) if spare is None else min(spare, zeros, len(decimals) - 1)
    drop = max(spare or 0, 0)

    def write(value: Any) -> str:
        number = float(value)
        if not math.isfinite(number):
            return str(number)
        body, mark, power = text(number).partition("e")
        body = body[: len(body) - drop] if drop else body
        if float(body) == 0:
            if exponent:
                return "0"
            body = body.lstrip("-")
        return body + (f"e{int(power):+d}" if mark else "")

    return write


def smallest_gap(mine: np.ndarray, theirs: np.ndarray, wrong: np.ndarray) -> float | None:
    """The difference that the digits should show: the smallest among the wrong ones, but no finer than a thousandth of the largest."""
    if not wrong.any() or mine.dtype.kind != "f" or theirs.dtype.kind != "f":
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.abs(mine[wrong] - theirs[wrong])
    gaps = gaps[np.isfinite(gaps) & (gaps > 0)]
    return max(float(gaps.min()), float(gaps.max()) / 1000) if gaps.size else None


def fits(values: np.ndarray, width: int) -> bool:
    """Whether an array of numbers ``width`` characters wide can be shown whole."""
    if values.ndim == 0:
        return True
    rows = values.size // values.shape[-1] if values.size else 1
    return values.size <= MAX_WHOLE and rows <= MAX_LINES and values.shape[-1] * (width + 2) + values.ndim <= MAX_ROW


def whole(values: np.ndarray, write: Format, width: int = 0, marked: np.ndarray | None = None) -> str:
    """An array in brackets, one line per row of its last axis; rows with something ``marked`` end in an arrow."""
    if values.ndim == 0:
        return write(values[()]).rjust(width)
    lines = _lines(values, write, width)
    if marked is not None and len(lines) > 1:
        rows = np.asarray(marked.reshape(len(lines), -1).any(axis=1))
        if not rows.all():
            longest = max(map(len, lines))
            lines = [line.ljust(longest) + "  ←" if row else line for line, row in zip(lines, rows, strict=True)]
    return "\n".join(lines)


def _lines(values: np.ndarray, write: Format, width: int) -> list[str]:
    if values.ndim == 1:
        return ["[" + ", ".join(write(value).rjust(width) for value in values) + "]"]
    if values.shape[0] == 0 or values.size == 0:
        return [f"[] of shape {values.shape}"]
    lines: list[str] = []
    for index, part in enumerate(values):
        inner = _lines(part, write, width)
        opening = "[" if index == 0 else " "
        inner = [opening + inner[0], *(" " + line for line in inner[1:])]
        inner[-1] += "]" if index == values.shape[0] - 1 else ","
        lines.extend(inner)
    return lines


def widest(arrays: Sequence[np.ndarray], write: Format) -> int:
    return max((len(write(value)) for values in arrays for value in values.reshape(-1)), default=0)


def window(row: np.ndarray, at: int, width: int) -> tuple[int, int]:
    """The part of a long row to show: as many numbers as fit a line, with place ``at`` among them."""
    room = max(2, (MAX_ROW - 12) // (width + 2))
    if row.size * (width + 2) <= MAX_ROW:
        return 0, row.size
    start = min(max(0, at - room // 2), row.size - room)
    return start, start + room


def part(row: np.ndarray, start: int, stop: int, write: Format, width: int) -> str:
    """``row[start:stop]`` in brackets, with dots where numbers were left out."""
    shown = [write(value).rjust(width) for value in row[start:stop]]
    return "[" + ", ".join((["..."] if start else []) + shown + (["..."] if stop < row.size else [])) + "]"


def carets(wrong: np.ndarray, start: int, stop: int, width: int, opening: int = 1) -> str:
    """A line of carets under the wrong numbers of a row as `part` writes it."""
    lead = " " * (opening + (5 if start else 0))
    return (lead + "  ".join(("^" if bad else " ") * width for bad in wrong[start:stop])).rstrip()


def exact(value: float) -> str | None:
    """A number in few digits when those are the whole of it; None when it needs more."""
    if not math.isfinite(value):
        return str(value)
    text = f"{value:.6g}"
    if float(text) != value:
        return None
    # A zero has no sign that a reader could use.
    return f"{value + 0.0:.1f}" if value == int(value) and abs(value) < 1e6 else text


def difference(gap: float) -> str:
    """The size of a difference, in three digits at most."""
    return f"{gap:.3g}"
