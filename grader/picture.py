"""Two results element by element, as data for a heat map: what fits the eye of it, and which elements are wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from grader.model import Explanation, Number, Panel, Picture

# What is shown of one result: rows and columns of a panel, panels, and elements in all of them together.
MAX_SIDE, MAX_PANELS, MAX_CELLS = 64, 8, 4096
# Panels without anything wrong are shown where all of them together are no more than these.
FEW_PANELS = 4
# And of a whole report, which is stored and sent: the picture of the check shown first is kept before all others.
MAX_REPORT_CELLS = 8192
DIGITS, DIGITS_OF_DIFFERENCE = 6, 3
# Of a result of more elements the words of a report hold one row only.
MAX_IN_WORDS = 24
# A map in characters: rows, columns, and panels.
TEXT_ROWS, TEXT_COLUMNS, TEXT_PANELS = 12, 24, 4
# Rows and columns from which on a pattern is one to see.
LEAST_PATTERN = 3
# Below it a number of few digits is finite after it was rounded.
NEAR_THE_END = 1e300
WRONG, RIGHT = "✗", "·"


def draw(
    mine: np.ndarray,
    theirs: np.ndarray,
    wrong: np.ndarray,
    labels: tuple[str, str],
    axes: Sequence[str] = (),
    worst: tuple[int, ...] = (),
    path: str = "",
    allowed: float = 0.0,
) -> Picture | None:
    """The picture of two results of one shape; None where there is nothing to see: a single number, or none at all.

    ``wrong`` is of the same shape. Where the whole is too large, the part around the element ``worst`` is taken, and of
    the leading axes first the places that hold something wrong.
    """
    if mine.ndim == 0 or mine.size < 2 or mine.shape != theirs.shape:
        return None
    shape = mine.shape
    names = tuple(axes) if len(axes) == mine.ndim else ()
    at = worst if len(worst) == mine.ndim else tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), shape))
    kind = "float" if theirs.dtype.kind == "f" or mine.dtype.kind == "f" else "integer"
    if theirs.dtype == bool and mine.dtype == bool:
        kind = "boolean"
    if mine.ndim == 1:
        mine, theirs, wrong = mine[None], theirs[None], wrong[None]
        at = (0, *at)
    rows = _window(mine.shape[-2], at[-2])
    columns = _window(mine.shape[-1], at[-1])
    area = (rows.stop - rows.start) * (columns.stop - columns.start)
    leading = mine.shape[:-2]
    count = math.prod(leading)
    most = min(MAX_PANELS, max(1, MAX_CELLS // area))
    bad = np.asarray(wrong.reshape(count, -1).any(axis=1))
    here = int(np.ravel_multi_index(at[:-2], leading)) if leading else 0
    chosen = [here, *(k for k in np.flatnonzero(bad).tolist() if k != here)][:most]
    if count <= FEW_PANELS:
        chosen += [k for k in np.flatnonzero(~bad).tolist() if k != here][: most - len(chosen)]
    flat = [values.reshape(count, *values.shape[-2:])[:, rows, columns] for values in (mine, theirs, wrong)]
    panels = []
    for k in sorted(chosen):
        got, expected = flat[0][k], flat[1][k]
        panels.append(
            Panel(
                tuple(int(i) for i in np.unravel_index(k, leading)) if leading else (),
                _numbers(got, DIGITS),
                _numbers(expected, DIGITS),
                _numbers(_difference(got, expected), DIGITS_OF_DIFFERENCE),
                tuple(tuple(bool(cell) for cell in row) for row in flat[2][k]),
            )
        )
    return Picture(
        labels, names, shape, kind, tuple(panels), int(wrong.sum()), wrong.size, (rows.start, columns.start),
        count - len(chosen), int(bad.sum()) - int(bad[chosen].sum()), path, allowed,
    )  # fmt: skip


def _window(size: int, at: int) -> slice:
    start = min(max(0, at - MAX_SIDE // 2), max(0, size - MAX_SIDE))
    return slice(start, min(size, start + MAX_SIDE))


def _difference(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    a, b = got.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        return np.where(same, 0.0, a - b)


def _numbers(values: np.ndarray, digits: int) -> tuple[tuple[Number, ...], ...]:
    if values.dtype.kind == "f" and bool((np.abs(wide := values.astype(np.float64)) < NEAR_THE_END).all()):
        form = f"%.{digits}g"
        return tuple(tuple(float(form % value) + 0.0 for value in row) for row in wide.tolist())
    return tuple(tuple(_number(float(value), digits) for value in row) for row in values)


def _number(value: float, digits: int) -> Number:
    if math.isfinite(value):
        # The very largest numbers have no neighbour of so few digits above them.
        rounded = float(f"{value:.{digits}g}") + 0.0
        return rounded if math.isfinite(rounded) else value
    return str(value)


def kept(explanations: Sequence[Explanation | None], first: Explanation | None) -> list[Explanation | None]:
    """The explanations of one report with as many of their pictures as a report may hold, that of ``first`` before all."""
    room = MAX_REPORT_CELLS
    if first is not None and first.picture is not None:
        room -= first.picture.cells
    found: list[Explanation | None] = []
    for each in explanations:
        if each is None or each.picture is None or each is first:
            found.append(each)
        elif each.picture.cells <= room:
            room -= each.picture.cells
            found.append(each)
        else:
            found.append(replace(each, picture=None))
    return found


# --- in characters ----------------------------------------------------------------------------------------------------


def tells_more(picture: Picture, patterned: bool) -> bool:
    """Whether a map of what is wrong says more than the numbers shown beside it.

    Not where those are all there are, nor where nothing that is drawn is right; ``patterned`` asks for a pattern that can be named too.
    """
    if picture.total <= MAX_IN_WORDS or all(all(map(all, panel.wrong)) for panel in picture.panels):
        return False
    return not patterned or _patterned(picture)


def _patterned(picture: Picture) -> bool:
    """Whole panels, rows or columns, or all on one side of a diagonal: the same in every panel that holds something wrong."""
    masks = [np.array(panel.wrong, dtype=bool) for panel in picture.panels]
    if picture.left_out_wrong or min(masks[0].shape) < LEAST_PATTERN:
        return False
    marked = [mask for mask in masks if mask.any()]
    if any((mask != marked[0]).any() for mask in marked):
        return False
    mask = marked[0]
    if mask.all():
        return len(marked) < len(masks)
    lines = bool((mask == mask[:1]).all() or (mask == mask[:, :1]).all())
    offset = np.arange(mask.shape[1])[None, :] - np.arange(mask.shape[0])[:, None]
    sides = [offset > k for k in range(-1, 2)] + [offset < k for k in range(2)]
    return lines or any(bool((mask == side).all()) for side in sides)


def text(picture: Picture, width: int = 76) -> str:
    """Which elements are wrong, as a map in characters: the last two axes down and across, panels beside each other."""
    row_name, column_name = row_and_column(picture)
    # Panels that look alike are one map.
    alike: dict[tuple[tuple[bool, ...], ...], list[Panel]] = {}
    for panel in sorted(picture.panels, key=lambda panel: not any(map(any, panel.wrong))):
        alike.setdefault(panel.wrong, []).append(panel)
    groups = sorted(list(alike.values())[:TEXT_PANELS], key=lambda group: group[0].at)
    panels = [group[0] for group in groups]
    named = [place(picture, group[0]) + (f" and {len(group) - 1} more" if len(group) > 1 else "") for group in groups]
    first_row, first_column = picture.first
    pad = max(len(f"{row_name} {first_row + len(panels[0].wrong)}"), len(column_name))
    columns = min(len(panels[0].wrong[0]), TEXT_COLUMNS, max(4, (width - pad - 1) // 2))
    rows = min(len(panels[0].wrong), TEXT_ROWS)
    # The window that holds the most of what is wrong starts at its first row and column.
    mask = np.asarray(np.array([panel.wrong for panel in panels], dtype=bool).any(axis=0))
    top, left = _start(mask, 0, rows), _start(mask, 1, columns)
    head = " ".join(str((first_column + column) % 10) for column in range(left, left + columns))
    gap = "     "
    block = min(max(len(head), *map(len, named)), width - pad - 1)
    across = max(1, (width - pad - 1 + len(gap)) // (block + len(gap)))
    lines = []
    for start in range(0, len(panels), across):
        beside = panels[start : start + across]
        titles = named[start : start + across]
        if any(titles):
            lines.append((" " * (pad + 1) + gap.join(title[:block].ljust(block) for title in titles)).rstrip())
        lines.append((f"{column_name:>{pad}} " + gap.join(head.ljust(block) for _ in beside)).rstrip())
        for row in range(top, top + rows):
            label = f"{row_name} {first_row + row}".strip()
            cells = (
                " ".join(WRONG if bad else RIGHT for bad in panel.wrong[row][left : left + columns]) for panel in beside
            )
            lines.append((f"{label:>{pad}} " + gap.join(cell.ljust(block) for cell in cells)).rstrip())
    key = f"{WRONG} differs   {RIGHT} agrees"
    shown = rows * columns * sum(map(len, groups))
    if shown < picture.total:
        cut = f"({shown} of {picture.total} elements)"
        key += f"   {cut}" if len(key) + len(cut) + 3 <= width else f"\n{cut}"
    return "\n".join([*lines, key])


def _start(mask: np.ndarray, axis: int, room: int) -> int:
    first = int(np.argwhere(mask)[:, axis].min()) if mask.any() else 0
    return max(0, min(first - 1, int(mask.shape[axis]) - room))


def place(picture: Picture, panel: Panel) -> str:
    """Where a panel is along the axes before the last two, such as ``example 0, head 2``; '' where there are none."""
    if not panel.at:
        return ""
    if not picture.axes:
        return f"[{', '.join(map(str, panel.at))}, :, :]"
    return ", ".join(f"{name} {at}" for name, at in zip(picture.axes, panel.at, strict=False))


def row_and_column(picture: Picture) -> tuple[str, str]:
    """What the last two axes are called; of an array with one axis the rows have no name."""
    if len(picture.shape) == 1:
        return "", picture.axes[-1] if picture.axes else "index"
    return (picture.axes[-2], picture.axes[-1]) if picture.axes else ("row", "column")
