"""The report in a terminal: as `design`ed for a student, plain text first and colour only on top."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.model import CheckResult, Explanation, Grid, Report

MARKS = {
    "pass": ("✓", "green"),
    "fail": ("✗", "red"),
    "error": ("✗", "red"),
    "timeout": ("✗", "red"),
    "memory": ("✗", "red"),
    "crashed": ("✗", "red"),
    "skipped": ("–", "yellow"),
    "grader_error": ("!", "magenta"),
}
WORDS = {
    "error": "error",
    "timeout": "time limit",
    "memory": "memory limit",
    "crashed": "crashed",
    "grader_error": "not graded",
}
MOVED, STILL, OPEN = "●", "·", "?"
MAX_OUTPUT_LINES = 12


def render(report: Report, console: Console, verbose: bool = False) -> None:
    """Print a report. The first failure is shown in full, the rest short; ``verbose`` shows all in full."""
    console.print(Text.assemble((report.exercise, "bold"), "  ", (str(report.submission["path"]), "dim")))
    console.print()
    full = True
    for check in report.checks:
        console.print(_line(check, console.width))
        if check.explanation is None:
            continue
        if verbose or (full and check.verdict not in ("skipped", "pass") and not check.advisory):
            console.print(Padding(_full(check.explanation), (0, 0, 1, 2)))
            full = full and check.verdict in ("skipped", "pass")
        elif check.verdict not in ("pass", "skipped"):
            console.print(Padding(Text(check.explanation.claim), (0, 0, 0, 4)))
    if report.output:
        console.print()
        console.print(_output(report.output, verbose))
    console.print()
    console.print(_summary(report))


def _line(check: CheckResult, width: int) -> RenderableType:
    mark, colour = MARKS[check.verdict]
    word = WORDS.get(check.verdict, "")
    if check.advisory:
        right = "advisory" + (f" ({word})" if word else "")
    else:
        unit = "point" if check.max_points == 1 else "points"
        right = f"{_number(check.points)}/{_number(check.max_points)} {unit}"
        right = f"{word}  {right}" if word else right
    grid = Table.grid(expand=True, padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    failed = check.verdict not in ("pass", "skipped")
    style = "dim" if check.advisory and not failed else ("bold" if failed else "")
    grid.add_row(
        Text(mark, style=colour), Text(check.title, style=style), Text(right, style="dim" if not failed else colour)
    )
    return grid


def _number(points: float) -> str:
    return f"{points:g}"


def _full(explanation: Explanation) -> RenderableType:
    parts: list[RenderableType] = [Text(explanation.claim)]
    body: list[RenderableType] = []
    if explanation.call:
        body.append(Text(explanation.call, style="cyan"))
    for label, text in explanation.blocks:
        body.append(_block(label, text))
    if explanation.grid is not None:
        body.append(Text(grid_text(explanation.grid)))
    body.extend(Text(f"wrong {fact}") for fact in explanation.where)
    if body:
        parts.append(Padding(Group(*body), (1, 0, 1, 2)))
    if explanation.likely:
        parts.append(_labelled("likely cause", explanation.likely, "yellow"))
        if explanation.evidence:
            parts.append(Padding(Text(explanation.evidence, style="dim"), (0, 0, 0, 2)))
    if explanation.note:
        parts.append(_labelled("note", explanation.note, "green"))
    if explanation.help:
        parts.append(_labelled("help", explanation.help, "blue"))
    if explanation.rerun:
        parts.append(_labelled("rerun", explanation.rerun, "dim"))
    return Group(*parts)


def _labelled(label: str, text: str, colour: str) -> RenderableType:
    return Text.assemble((f"{label}: ", colour), text)


def _block(label: str, text: str) -> RenderableType:
    if not label:
        return Text(text)
    if "\n" in text or len(label) + len(text) > 56:
        return Group(Text(label), Padding(Text(text), (0, 0, 0, 2)))
    return Text.assemble(f"{label}  ", text)


def grid_text(grid: Grid) -> str:
    """A dependence map and the expected one side by side (one above the other where they are wide)."""
    columns = len(grid.got[0]) if grid.got else 0
    head = " ".join(str(c % 10) for c in range(columns))
    labels = [f"{grid.rows} {r}" for r in range(len(grid.got))]
    pad = max([len(label) for label in labels] + [len(grid.columns)])
    if pad + 4 * columns + 16 <= 58:
        lines = [f"{grid.columns:>{pad}} {head}     expected {head}"]
        for label, got, expected in zip(labels, grid.got, grid.expected, strict=True):
            lines.append(f"{label:>{pad}} {_cells(got)}              {_cells(expected)}")
    else:
        lines = ["you", f"{grid.columns:>{pad}} {head}"]
        lines += [f"{label:>{pad}} {_cells(row)}" for label, row in zip(labels, grid.got, strict=True)]
        lines += ["expected", f"{grid.columns:>{pad}} {head}"]
        lines += [f"{label:>{pad}} {_cells(row)}" for label, row in zip(labels, grid.expected, strict=True)]
    lines.append(
        f"{MOVED} output changed   {STILL} output unchanged" + (f"   {OPEN} undecided" if _any_open(grid) else "")
    )
    return "\n".join(lines)


def _cells(row: tuple[bool | None, ...]) -> str:
    return " ".join(OPEN if cell is None else MOVED if cell else STILL for cell in row)


def _any_open(grid: Grid) -> bool:
    return any(cell is None for rows in (grid.got, grid.expected) for row in rows for cell in row)


def _output(output: str, verbose: bool) -> RenderableType:
    lines = output.rstrip("\n").split("\n")
    kept = lines if verbose else lines[:MAX_OUTPUT_LINES]
    parts: list[RenderableType] = [Text("your code printed:", style="dim")]
    parts.extend(Text(f"  │ {line}", style="dim") for line in kept)
    if len(lines) > len(kept):
        parts.append(Text(f"  │ ... {len(lines) - len(kept)} more lines (-v shows them)", style="dim"))
    return Group(*parts)


def _summary(report: Report) -> RenderableType:
    lines: list[RenderableType] = []
    if report.status == "not_graded":
        lines.append(Text.assemble(("not graded", "bold magenta"), ": ", report.reason or ""))
        lines.append(Text("This is the grader's fault, not yours. Next: grader doctor"))
        return Group(*lines)
    word, colour = ("passed", "bold green") if report.passed else ("not passed", "bold red")
    assert report.score is not None
    lines.append(Text.assemble((word, colour), f"   {_number(report.score)} of {_number(report.max_score)} points"))
    if not report.secret:
        lines.append(Text(f"same cases again: grade {report.exercise} --seed {report.seed}", style="dim"))
    return Group(*lines)
