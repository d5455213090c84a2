"""Pictures and dependence maps as drawings: rectangles, marks and labels for a template to print as SVG.

Colour is never the only carrier: what is wrong has a mark of its own, numbers stand in the cells where they fit, and
each drawing says in words what it shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grader.model import Grid, Number, Panel, Picture
from grader.picture import place, row_and_column

# From the middle outwards. On every shade the ink of the page has a contrast of at least 4.5.
SHADES = 6
LIGHT = (
    "#f6f6f4",
    ("#d5e3ee", "#b8d3e9", "#9dc3e4", "#82b4df", "#68a5db", "#4f97d6"),
    ("#f3dfd0", "#f1ccb1", "#eeb993", "#eca876", "#ea965a", "#e8853f"),
)
DARK = (
    "#23282d",
    ("#223447", "#203f5d", "#1f4972", "#1e5286", "#1d5c9a", "#1c65ad"),
    ("#3c3027", "#523722", "#673d1d", "#7b4418", "#8f4a14", "#a2500f"),
)
# In pixels: a map is at most so wide, so that three stand beside each other on a wide screen.
MAX_WIDTH = 352
LETTER, PADDING = 6.6, 7
HEAD = 34
ROW_HEIGHT = 24
LEAST_CELL, LARGEST_CELL = 4, 24
# Room for a label of an axis, and the least distance from one to the next.
LABEL_GAP = 16
MAX_ROWS_OF_NUMBERS = 24
# From so many times what nine of ten numbers keep within, the largest do not set the scale.
OUTLYING = 8
# Places of the leading axes that are open to see; the others are one click away.
OPEN_ROWS = 3
# Elements in the table beside a picture, and positions of a dependence map.
MAX_LISTED = 120
MAX_POSITIONS = 48


@dataclass(frozen=True)
class Layer:
    """Cells of one shade as one path, in cells; ``name`` is the class, ``fill`` the colour where no style is read."""

    name: str
    fill: str
    path: str


@dataclass(frozen=True)
class Label:
    """A text at a place in pixels; ``anchor`` is start, middle or end."""

    x: float
    y: float
    text: str
    name: str = "label"
    anchor: str = "middle"


@dataclass(frozen=True)
class Drawing:
    """One map. ``left``, ``top``, ``cell_width`` and ``cell_height`` place the cells; paths of marks are in pixels."""

    title: str
    says: str
    width: float
    height: float
    left: float
    top: float
    cell_width: float
    cell_height: float
    layers: tuple[Layer, ...]
    lines: str
    outlines: str
    corners: str
    dots: str
    strokes: str
    labels: tuple[Label, ...]
    head: str = ""


@dataclass(frozen=True)
class Key:
    """What the colours mean: the shades from the lowest to the highest number, and which kinds of cells there are."""

    low: str
    high: str
    shades: tuple[tuple[str, str], ...]
    odd: bool
    framed: bool
    difference: str


@dataclass(frozen=True)
class Row:
    """The three maps of one place of the leading axes."""

    place: str
    maps: tuple[Drawing, ...]
    marked: bool


@dataclass(frozen=True)
class Table:
    """The same in words and numbers."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


@dataclass(frozen=True)
class Shown:
    """A picture or a dependence map as a page prints it."""

    caption: str
    rows: tuple[Row, ...]
    more: tuple[Row, ...]
    notes: tuple[str, ...]
    key: Key | None
    table: Table
    # Whether something of a dependence map was not decided.
    undecided: bool = False


@dataclass(frozen=True)
class Scale:
    """From numbers to shades: both sides of zero where there are numbers on both, else from the least to the largest."""

    low: float
    high: float
    # Whether some numbers lie beyond the ends.
    cut: bool = False

    @property
    def two_sided(self) -> bool:
        return self.low < 0 < self.high

    def shade(self, value: float) -> int:
        """-6 to 6; the ends hold all that lies beyond them too."""
        if self.two_sided:
            share, below = abs(value) / self.high, value < 0
        else:
            # In halves: the whole distance may be beyond the largest number.
            below, span = self.high <= 0, self.high / 2 - self.low / 2
            share = (self.high / 2 - value / 2 if below else value / 2 - self.low / 2) / span if span > 0 else 0.0
        step = math.ceil(min(max(share, 0.0), 1.0) * SHADES - 1e-9)
        return -step if below else step

    def shades(self) -> tuple[int, ...]:
        if self.two_sided:
            return tuple(range(-SHADES, SHADES + 1))
        return tuple(range(-SHADES, 1)) if self.high <= 0 else tuple(range(SHADES + 1))


def of_values(expected: Sequence[float], got: Sequence[float]) -> Scale:
    """The scale for two results: that of the expected one, so that wild numbers do not make all others look alike."""
    values = [value for value in expected if math.isfinite(value)] or [v for v in got if math.isfinite(v)] or [0.0]
    low, high = min(values), max(values)
    if low == high == 0:
        mine = [value for value in got if math.isfinite(value)] or [0.0]
        low, high = min(*mine, 0.0), max(*mine, 0.0)
    if low < 0 < high:
        most = max(-low, high)
        # A few numbers far beyond all others would leave these without a colour.
        usual = sorted(map(abs, values))[int(0.9 * (len(values) - 1))]
        cut = 0 < OUTLYING * usual < most
        return Scale(-usual, usual, True) if cut else Scale(-most, most)
    # From zero, unless all numbers are far from it and close to each other.
    if low >= 0:
        return Scale(0.0 if 2 * low < high or low == high else low, high)
    return Scale(low, 0.0 if 2 * high > low or low == high else high)


def picture(found: Picture) -> Shown:
    """A picture: per panel what was returned, what was expected, and the difference."""
    flat = {name: [float(v) for panel in found.panels for row in getattr(panel, name) for v in row]
            for name in ("got", "expected", "difference")}  # fmt: skip
    values = of_values(flat["expected"], flat["got"])
    gaps = [
        abs(gap) for gap, bad in zip(flat["difference"], _flat_marks(found), strict=True) if bad and math.isfinite(gap)
    ]
    most = max(gaps, default=0.0)
    rows = tuple(_row(found, panel, values, Scale(-most, most)) for panel in found.panels)
    odd = any(not math.isfinite(value) for numbers in flat.values() for value in numbers)
    ends = short(values.low, found.kind, 3), short(values.high, found.kind, 3)
    if values.cut:
        ends = f"≤ {ends[0]}", f"≥ {ends[1]}"
    shades = tuple((shade_class(shade), LIGHT_OF[shade]) for shade in values.shades())
    unlike = f"difference: {found.labels[0]} − {found.labels[1]}"
    if most:
        unlike += f", up to {short(most, 'float', 3)}"
    key = Key(*ends, shades, odd, any(map_.outlines for row in rows for map_ in row.maps), unlike)
    return Shown(_caption(found), rows[:OPEN_ROWS], rows[OPEN_ROWS:], tuple(_notes(found)), key, _table(found))


def _flat_marks(found: Picture) -> list[bool]:
    return [bad for panel in found.panels for row in panel.wrong for bad in row]


def _caption(found: Picture) -> str:
    shape = "×".join(map(str, found.shape))
    verb = "differs" if found.wrong == 1 else "differ"
    named = f", by {', '.join(found.axes)}" if found.axes else ""
    said = f"{shape} numbers{named}: {found.wrong} of {found.total} {verb}"
    if found.path:
        said = f"{found.path}, {said}" if not found.path.startswith("[") else f"result{found.path}, {said}"
    return said + (f" by more than the {found.allowed:.2g} allowed" if found.allowed else "")


def _notes(found: Picture) -> Iterator[str]:
    """What of the result the picture does not hold."""
    size = len(found.panels[0].got), len(found.panels[0].got[0])
    whole = (found.shape[-2] if len(found.shape) > 1 else 1, found.shape[-1])
    for name, start, shown, of in zip(row_and_column(found), found.first, size, whole, strict=True):
        if shown < of:
            yield f"Only {name} {start} to {start + shown - 1} of {of} is shown, around the largest difference."
    if found.left_out:
        along = f" along {', '.join(found.axes[:-2])}" if found.axes else " along the axes before the last two"
        if found.left_out == 1:
            wrong = "with differences" if found.left_out_wrong else "without a difference"
            yield f"1 more place{along} is not shown, {wrong}."
        else:
            wrong = (
                f"{found.left_out_wrong} of them with differences" if found.left_out_wrong else "none with a difference"
            )
            yield f"{found.left_out} more places{along} are not shown, {wrong}."


def _row(found: Picture, panel: Panel, values: Scale, gaps: Scale) -> Row:
    where = place(found, panel)
    count = sum(map(sum, panel.wrong))
    cells = len(panel.wrong) * len(panel.wrong[0])

    maps = []
    for name, title, scale, kind in (
        ("got", found.labels[0], values, found.kind),
        ("expected", found.labels[1], values, found.kind),
        ("difference", "difference", gaps, gap_kind(found)),
    ):
        numbers = getattr(panel, name)
        marks = panel.wrong if name != "expected" else ()
        finite = [float(value) for row in numbers for value in row if math.isfinite(float(value))]
        span = f", from {short(min(finite), kind)} to {short(max(finite), kind)}" if finite else ""
        odd = cells - len(finite)
        says = f"{len(numbers)} by {len(numbers[0])} cells{span}"
        if odd:
            says += f"; {odd} {'is' if odd == 1 else 'are'} nan or infinite"
        if name != "expected":
            says += f"; {count} of {cells} marked as different"
        maps.append(
            _draw(
                f"{title}, {where}" if where else title,
                says + ".",
                title,
                numbers,
                marks,
                scale,
                kind,
                row_and_column(found),
                found.first,
                name == "difference",
                _letters(found),
            )
        )
    if found.backwards:
        maps[:2] = maps[1::-1]
    return Row(where, tuple(maps), count > 0)


def _letters(found: Picture) -> tuple[int, int] | None:
    """(digits, letters) of the numbers in the cells of all maps; None where they do not fit."""
    rows, columns = len(found.panels[0].got), len(found.panels[0].got[0])
    room = MAX_WIDTH - _left(row_and_column(found)[0], found.first[0] + rows)
    if rows > MAX_ROWS_OF_NUMBERS or columns * LARGEST_CELL > room:
        return None
    for digits in (3, 2):
        widest = max(map(len, _in_cells(found, digits)))
        if columns * max(widest * LETTER + PADDING, LARGEST_CELL) <= room:
            return digits, widest
    return None


def _in_cells(found: Picture, digits: int) -> Iterator[str]:
    """Every number as it stands in a cell; of the difference only that of elements that differ."""
    for panel in found.panels:
        for name in ("got", "expected"):
            yield from (short(float(value), found.kind, digits) for row in getattr(panel, name) for value in row)
        for row, marks in zip(panel.difference, panel.wrong, strict=True):
            yield from (short(float(v), gap_kind(found), digits) for v, bad in zip(row, marks, strict=True) if bad)


def gap_kind(found: Picture) -> str:
    """How differences are written: those of booleans are no booleans."""
    return "float" if found.kind == "boolean" else found.kind


def _left(name: str, last: int) -> float:
    return 4 + (len(f"{name} {last}".strip()) if name else 0) * LETTER + (6 if name else 0)


def _draw(
    title: str,
    says: str,
    head: str,
    numbers: Sequence[Sequence[Number]],
    marks: Sequence[Sequence[bool]],
    scale: Scale,
    kind: str,
    axes: tuple[str, str],
    first: tuple[int, int],
    only_marked: bool,
    letters: tuple[int, int] | None,
) -> Drawing:
    rows, columns = len(numbers), len(numbers[0])
    left = _left(axes[0], first[0] + rows)
    if letters is not None:
        width: float = max(letters[1] * LETTER + PADDING, LARGEST_CELL)
        height: float = ROW_HEIGHT
    else:
        width = max(LEAST_CELL, min(LARGEST_CELL, math.floor((MAX_WIDTH - left) / columns)))
        height = max(width, 14) if rows <= 8 else width
    shades: dict[str, list[tuple[int, int, int]]] = {}
    for row, line in enumerate(numbers):
        names = []
        for column, value in enumerate(line):
            number = float(value)
            right = only_marked and not marks[row][column]
            names.append("z" if right else "odd" if not math.isfinite(number) else shade_class(scale.shade(number)))
        for start, length, name in _runs(names):
            shades.setdefault(name, []).append((row, start, length))
    layers = tuple(
        Layer(name, FILL[name], "".join(f"M{c} {r}h{n}v1h-{n}z" for r, c, n in runs))
        for name, runs in sorted(shades.items())
    )
    labels = list(_axis_labels(axes, first, rows, columns, left, width, height))
    outlines, corners, dots, strokes = [], [], [], []
    for row in range(rows):
        y = HEAD + row * height
        for start, length, bad in _runs(list(marks[row])) if marks else ():
            if not bad:
                continue
            if letters is None:
                dots.append(
                    f"M{_n(left + (start + 0.5) * width)} {_n(y + height / 2)}h{_n((length - 1) * width + 0.1)}"
                )
                continue
            for column in range(start, start + length):
                x = left + column * width
                outlines.append(f"M{_n(x + 1.5)} {_n(y + 1.5)}h{_n(width - 3)}v{_n(height - 3)}h-{_n(width - 3)}z")
                corners.append(f"M{_n(x + 1)} {_n(y + 1)}h6l-6 6z")
        for column, value in enumerate(numbers[row]):
            number = float(value)
            right = only_marked and not marks[row][column]
            x = left + column * width
            if letters is not None:
                text = "·" if right else short(number, kind, letters[0])
                labels.append(
                    Label(_n(x + width / 2), _n(y + height / 2 + 4), text, "soft number" if right else "number")
                )
            elif not math.isfinite(number) and not right:
                strokes.append(f"M{_n(x)} {_n(y + height)}l{_n(width)} -{_n(height)}")
    lines = "".join(f"M{c} 0v{rows}" for c in range(1, columns)) + "".join(f"M0 {r}h{columns}" for r in range(1, rows))
    return Drawing(
        title, says, _n(left + columns * width + 2), _n(HEAD + rows * height + 2), left, HEAD, width, height, layers,
        lines if width >= 9 else "", "".join(outlines), "".join(corners), "".join(dots), "".join(strokes),
        tuple(labels), head,
    )  # fmt: skip


def _axis_labels(
    axes: tuple[str, str], first: tuple[int, int], rows: int, columns: int, left: float, width: float, height: float
) -> Iterator[Label]:
    """The names of both axes, and as many of their positions as have room."""
    yield Label(_n(left), 12, f"{axes[1]} →", "axis", "start")
    wide = max(len(str(first[1] + columns)) * LETTER + 4, LABEL_GAP)
    for column in range(0, columns, _step(wide / width)):
        yield Label(_n(left + (column + 0.5) * width), HEAD - 6, str(first[1] + column))
    if not axes[0]:
        return
    for at, row in enumerate(range(0, rows, _step(LABEL_GAP / height))):
        text = f"{axes[0]} {first[0] + row}" if at == 0 else str(first[0] + row)
        yield Label(_n(left - 6), _n(HEAD + (row + 0.5) * height + 4), text, "label", "end")


def _step(least: float) -> int:
    return next((step for step in (1, 2, 5, 10, 20, 50) if step >= least), 100)


def _runs(values: Sequence[Any]) -> Iterator[tuple[int, int, Any]]:
    """(start, length, value) of each stretch of equal values."""
    start = 0
    for at in range(1, len(values) + 1):
        if at == len(values) or values[at] != values[start]:
            yield start, at - start, values[start]
            start = at


def _n(value: float) -> float | int:
    rounded = round(value, 1)
    return int(rounded) if rounded == int(rounded) else rounded


def shade_class(shade: int) -> str:
    return "z" if shade == 0 else f"{'n' if shade < 0 else 'p'}{abs(shade)}"


LIGHT_OF = {0: LIGHT[0], **{-i: LIGHT[1][i - 1] for i in range(1, SHADES + 1)}, **{i: LIGHT[2][i - 1] for i in range(1, SHADES + 1)}}  # fmt: skip
FILL = {**{shade_class(shade): colour for shade, colour in LIGHT_OF.items()}, "odd": "#e3cfe8"}


def variables(palette: tuple[str, tuple[str, ...], tuple[str, ...]]) -> str:
    """The shades as custom properties of a style sheet."""
    middle, below, above = palette
    pairs = [
        ("z", middle),
        *((f"n{i}", c) for i, c in enumerate(below, 1)),
        *((f"p{i}", c) for i, c in enumerate(above, 1)),
    ]
    return " ".join(f"--{name}: {colour};" for name, colour in pairs)


def short(value: float, kind: str, digits: int = 4) -> str:
    """A number in few characters; a minus sign instead of a hyphen."""
    if not math.isfinite(value):
        return "nan" if value != value else "−inf" if value < 0 else "inf"
    if kind == "boolean":
        return "True" if value else "False"
    if kind == "integer" and abs(value) < 1e9:
        return f"{value:.0f}".replace("-", "−")
    text = f"{value:.{digits}g}"
    if "e" in text:
        body, _, power = text.partition("e")
        text = f"{float(body):.{max(digits - 1, 1)}g}e{int(power)}"
    return text.replace("-", "−")


def _full(value: Number, kind: str) -> str:
    return short(float(value), kind, 6)


def _table(found: Picture) -> Table:
    """Every element that is shown, or the wrong ones where those are too many."""
    single = len(found.shape) == 1
    names = found.axes or tuple(f"axis {axis}" for axis in range(len(found.shape)))
    elements = [
        ((*panel.at, *(() if single else (found.first[0] + row,)), found.first[1] + column), panel, row, column)
        for panel in found.panels
        for row in range(len(panel.got))
        for column in range(len(panel.got[0]))
    ]
    caption = "Each element"
    if len(elements) > MAX_LISTED:
        elements = [each for each in elements if each[1].wrong[each[2]][each[3]]]
        caption = "The elements that differ"
        if len(elements) > MAX_LISTED:
            caption = f"The first {MAX_LISTED} of the {len(elements)} elements shown that differ"
    rows = []
    for index, panel, row, column in elements[:MAX_LISTED]:
        bad = panel.wrong[row][column]
        numbers = (_full(panel.got[row][column], found.kind), _full(panel.expected[row][column], found.kind))
        gap = short(float(panel.difference[row][column]), "float", 3)
        rows.append((tuple(map(str, index)), (*numbers, gap, "✗ differs" if bad else "agrees")))
    return Table(caption, (*names, *found.labels, "difference", "verdict"), tuple(rows))


# --- what depends on what ---------------------------------------------------------------------------------------------


def grid(found: Grid) -> Shown:
    """A dependence map beside the expected one."""
    got = [row[:MAX_POSITIONS] for row in found.got[:MAX_POSITIONS]]
    expected = [row[:MAX_POSITIONS] for row in found.expected[:MAX_POSITIONS]]
    wrong = [
        [a is not b and a is not None and b is not None for a, b in zip(mine, theirs, strict=True)]
        for mine, theirs in zip(got, expected, strict=True)
    ]
    count = sum(map(sum, wrong))
    size = len(got) * (len(got[0]) if got else 0)
    maps = (
        _dots(found, got, wrong, "yours", f"; {count} of {size} marked as different from the expected map"),
        _dots(found, expected, (), "expected", ""),
    )
    notes = []
    if len(found.got) > len(got) or (found.got and len(found.got[0]) > MAX_POSITIONS):
        notes.append(f"Only the first {MAX_POSITIONS} positions are shown.")
    caption = f"Rows: the output, by {found.rows}. Columns: the {found.changed} that was changed, one at a time."
    words = {True: "changes", False: "stays", None: "undecided"}
    rows = []
    for at, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
        cells = tuple(
            words[a] + (f" ✗ (expected: {words[b]})" if bad else "")
            for a, b, bad in zip(mine, theirs, wrong[at], strict=True)
        )
        rows.append(((f"{found.rows} {at}",), cells))
    head = ("output", *(f"{found.columns} {at}" for at in range(len(got[0]) if got else 0)))
    return Shown(
        caption,
        (Row("", maps, count > 0),),
        (),
        tuple(notes),
        None,
        Table("What each output does", head, tuple(rows)),
        undecided=any(cell is None for side in (got, expected) for row in side for cell in row),
    )


def _dots(
    found: Grid, cells: Sequence[Sequence[bool | None]], marks: Sequence[Sequence[bool]], head: str, more: str
) -> Drawing:
    rows, columns = len(cells), len(cells[0]) if cells else 0
    left = _left(found.rows, rows)
    side = max(LEAST_CELL + 3, min(LARGEST_CELL, math.floor((MAX_WIDTH - left) / max(columns, 1))))
    labels = list(_axis_labels((found.rows, found.columns), (0, 0), rows, columns, left, side, side))
    shades: dict[str, list[tuple[int, int, int]]] = {}
    outlines, circles = [], []
    for row, line in enumerate(cells):
        names = ["p3" if cell else "z" for cell in line]
        for start, length, name in _runs(names):
            shades.setdefault(name, []).append((row, start, length))
        for column, cell in enumerate(line):
            x, y = left + (column + 0.5) * side, HEAD + (row + 0.5) * side
            if cell:
                r = _n(side * 0.22)
                circles.append(f"M{_n(x - r)} {_n(y)}a{r} {r} 0 1 0 {_n(2 * r)} 0a{r} {r} 0 1 0 -{_n(2 * r)} 0z")
            else:
                labels.append(Label(_n(x), _n(y + 4), "?" if cell is None else "·", "soft number"))
            if marks and marks[row][column]:
                outlines.append(
                    f"M{_n(x - side / 2 + 1.5)} {_n(y - side / 2 + 1.5)}h{_n(side - 3)}v{_n(side - 3)}h-{_n(side - 3)}z"
                )
    layers = tuple(
        Layer(name, FILL[name], "".join(f"M{c} {r}h{n}v1h-{n}z" for r, c, n in runs))
        for name, runs in sorted(shades.items())
    )
    lines = "".join(f"M{c} 0v{rows}" for c in range(1, columns)) + "".join(f"M0 {r}h{columns}" for r in range(1, rows))
    moved = sum(cell is True for line in cells for cell in line)
    says = f"{rows} outputs by {columns} inputs; {moved} of {rows * columns} outputs change with an input{more}."
    return Drawing(
        f"What depends on what, {head}", says, _n(left + columns * side + 2), _n(HEAD + rows * side + 2), left, HEAD,
        side, side, layers, lines, "".join(outlines), "".join(circles), "", "", tuple(labels), head,
    )  # fmt: skip
