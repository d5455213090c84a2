"""The report as a page in a terminal: plain text first, colour only on top, and not a line more than a student reads.

What passed comes first and short, then what failed, the most telling failure last and in full, where a terminal leaves
the eye. No line ends in spaces, and commands to copy are never broken.
"""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from grader import picture
from grader.explain import WARNING, grid_text, leading, likeness
from grader.model import CheckResult, Explanation, Report

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
# Wider lines are hard to read, and points too far from their titles.
MAX_WIDTH = 100
# Checks that fail alike are folded always; those that pass keep their lines up to a page of this many. `-v` shows everything.
MAX_LINES = 60
# How many checks that say the same become one line.
FOLD_FROM = {"skipped": 2}
MAX_TITLE_LINES = 4
NOT_RUN = "Not run: "
MAX_OUTPUT_LINES = 8
DETAIL = 4
MAX_WARNINGS = 3
MAX_LEFT_OUT = 3

Line = Text
Group = list[CheckResult]


def render(report: Report, console: Console, verbose: bool = False) -> None:
    """Print a report. One failure is shown in full, the rest short; ``verbose`` shows every check, and all in full."""
    for line in page(report, console.width, verbose):
        # Lines are made to fit; what is longer is a command to copy, which the terminal itself may wrap.
        console.print(line, soft_wrap=True)


def page(report: Report, width: int, verbose: bool = False) -> list[Line]:
    """The lines of the page, each at most ``width`` wide but for commands and long words."""
    width = min(width, MAX_WIDTH)
    lines = [*_head(report, width), Text()]
    if report.status == "not_graded":
        return [*lines, *_summary(report, width)]
    if verbose:
        for check in report.checks:
            lines.extend(_check_line(check, width))
            if check.explanation is not None:
                lines.extend(_full(report, check, check.explanation, width, verbose))
                lines.append(Text())
        lines += _end(report, width, verbose)
        return _closed(lines)
    shown = leading(report.checks)
    if shown is not None and any(check.cause == "blocked" for check in report.checks):
        return _closed([*lines, *_not_loaded(report, shown, width), *_end(report, width, verbose)])
    rest = [check for check in report.checks if check is not shown]
    end: list[Line] = []
    if shown is not None and shown.explanation is not None:
        end = [Text(), *_check_line(shown, width), *_full(report, shown, shown.explanation, width)]
    end += _end(report, width, verbose)
    listed: list[Line] = []
    for fold_passed, title_lines in (
        (False, MAX_TITLE_LINES),
        (False, 2),
        (True, MAX_TITLE_LINES),
        (True, 2),
        (True, 1),
    ):
        listed = _listed(rest, width, fold_passed, title_lines)
        if len(lines) + len(listed) + len(end) <= MAX_LINES:
            break
    return _closed([*lines, *listed, *end])


def _not_loaded(report: Report, shown: CheckResult, width: int) -> Iterator[Line]:
    """A file that offers nothing to call: why, in place of a list of checks that all wait for it."""
    mark, colour = MARKS[shown.verdict]
    counted = [check for check in report.checks if not check.advisory]
    right = _points(sum(c.points for c in counted), sum(c.max_points for c in counted))
    yield from _titled(mark, colour, "the file could not be loaded", right, width, "bold", True)
    assert shown.explanation is not None
    yield from _full(report, shown, shown.explanation, width)
    yield Text()
    count = len(report.checks)
    waiting = "The check runs" if count == 1 else f"The {count} checks run"
    yield Text(f"{waiting} once the file can be loaded.", style="dim")


def _closed(lines: list[Line]) -> list[Line]:
    """No two empty lines in a row, and nothing invisible at the end of one."""
    kept: list[Line] = []
    for line in lines:
        line.rstrip()
        if line.plain or not kept or kept[-1].plain:
            kept.append(line)
    return kept


def _head(report: Report, width: int) -> list[Line]:
    path = str(report.submission["path"])
    room = width - len(report.exercise) - 3
    if len(path) > room:
        path = "…" + path[len(path) - max(room - 1, 12) :]
    return [Text.assemble((report.exercise, "bold"), "   ", (path, "dim"))]


# --- one line per check, or per several that are alike ----------------------------------------------------------------


def _listed(
    checks: Sequence[CheckResult], width: int, fold_passed: bool = False, title_lines: int = MAX_TITLE_LINES
) -> list[Line]:
    lines: list[Line] = []
    for group in _groups(checks, fold_passed):
        if len(group) == 1:
            lines += _short(group[0], width)
        else:
            lines += _folded(group, width, title_lines)
    return lines


def _groups(checks: Sequence[CheckResult], fold_passed: bool) -> list[Group]:
    """The checks in their order, those that say the same gathered at the place of the first."""
    by_key: dict[tuple[str, ...], Group] = {}
    for check in checks:
        by_key.setdefault(likeness(check), []).append(check)
    groups: list[Group] = []
    for check in checks:
        alike = by_key[likeness(check)]
        fold = len(alike) >= FOLD_FROM.get(check.verdict, 3) and (check.verdict != "pass" or fold_passed)
        if not fold:
            groups.append([check])
        elif alike[0] is check:
            groups.append(alike)
    return groups


def _short(check: CheckResult, width: int) -> list[Line]:
    lines = _check_line(check, width)
    if check.explanation is not None:
        lines += _wrapped(check.explanation.claim, width, DETAIL, "dim" if check.verdict == "skipped" else "")
    return lines


def _folded(group: Group, width: int, title_lines: int) -> list[Line]:
    first = group[0]
    mark, colour = MARKS[first.verdict]
    what = {"pass": "pass", "skipped": "were not run"}.get(first.verdict, "fail in the same way")
    counted = [check for check in group if not check.advisory]
    right = _points(sum(c.points for c in counted), sum(c.max_points for c in counted)) if counted else "advisory"
    failed = first.verdict not in ("pass", "skipped")
    lines = _titled(mark, colour, f"{len(group)} checks {what}", right, width, "bold" if failed else "", failed)
    claims = Counter(check.explanation.claim for check in group if check.explanation is not None)
    if first.verdict != "pass" and claims:
        claim = claims.most_common(1)[0][0]
        if claim.startswith(NOT_RUN):
            claim = "because " + claim.removeprefix(NOT_RUN)
        elif len(claims) > 1:
            claim = f"for example: {claim}"
        lines += _wrapped(claim, width, DETAIL, "" if failed else "dim")
    titles = [check.title + (" (advisory)" if check.advisory and counted else "") for check in group]
    return lines + [Text(line, style="dim") for line in _titles(titles, width, title_lines)]


def _titles(titles: Sequence[str], width: int, most: int) -> Iterator[str]:
    """Titles one after the other, broken between them; after a few lines only how many are left."""
    lines = [" " * DETAIL]
    for at, title in enumerate(titles):
        last = at == len(titles) - 1
        piece = title if last else f"{title} ·"
        joined = f"{lines[-1]}{'' if lines[-1].isspace() else ' '}{piece}"
        left = f" … {len(titles) - at} more (-v shows all)"
        full = len(lines) == most and at > 0
        if len(joined) + (0 if last or not full else len(left)) <= width or (lines[-1].isspace() and not full):
            lines[-1] = joined
        elif full or (len(lines) + 1 == most and not last and at > 0 and DETAIL + len(piece) + len(left) > width):
            lines = [*lines[:-1], lines[-1] + left] if full else [*lines, " " * DETAIL + left.strip()]
            break
        else:
            lines.append(" " * DETAIL + piece)
    yield from lines


def _check_line(check: CheckResult, width: int) -> list[Line]:
    mark, colour = MARKS[check.verdict]
    word = WORDS.get(check.verdict, "")
    right = "advisory" if check.advisory else _points(check.points, check.max_points)
    right = f"{word}  {right}" if word else right
    failed = check.verdict not in ("pass", "skipped")
    style = "bold" if failed and not check.advisory else "dim" if check.advisory and not failed else ""
    return _titled(mark, colour, check.title, right, width, style, failed)


def _titled(mark: str, colour: str, title: str, right: str, width: int, style: str, failed: bool) -> list[Line]:
    """A mark, a title and what stands at the right edge; a long title goes on below."""
    parts = textwrap.wrap(title, max(width - len(right) - 4, 16), break_long_words=False) or [""]
    gap = " " * max(2, width - 2 - len(parts[0]) - len(right))
    lines = [Text.assemble((mark, colour), " ", (parts[0], style), gap, (right, colour if failed else "dim"))]
    return lines + [Text.assemble("  ", (part, style)) for part in parts[1:]]


def _points(points: float, most: float) -> str:
    return f"{points:g}/{most:g} {'point' if most == 1 else 'points'}"


# --- a failing check in full ------------------------------------------------------------------------------------------


def _full(
    report: Report, check: CheckResult, explanation: Explanation, width: int, verbose: bool = False
) -> Iterator[Line]:
    yield from _wrapped(explanation.claim, width, 2)
    body: list[Line] = []
    if explanation.call:
        body += _wrapped(explanation.call, width, DETAIL, "cyan", hanging=4)
    body += _blocks(explanation.blocks, width)
    if explanation.grid is not None:
        if body:
            body.append(Text())
        body += [Text(" " * DETAIL + line) for line in grid_text(explanation.grid, width - DETAIL).splitlines()]
    for fact in explanation.where:
        body += _wrapped(fact, width, DETAIL, "", hanging=2)
    drawn = explanation.picture
    # Where it goes wrong follows from a measured cause.
    if drawn is not None and picture.tells_more(drawn, patterned=not verbose) and (verbose or not explanation.likely):
        body += [Text(), *(Text(" " * DETAIL + line) for line in picture.text(drawn, width - DETAIL).splitlines())]
    if body:
        yield Text()
        yield from body
        yield Text()
    for label, text, colour in (
        ("likely cause", explanation.likely, "yellow"),
        ("", explanation.evidence, "dim"),
        ("note", explanation.note, "green"),
        ("help", explanation.help, "blue"),
    ):
        if text:
            yield from _labelled(label, text, colour, width)
    if explanation.rerun and check.case is not None:
        line = f"{command(report)} --case {check.case.token}"
        yield Text.assemble("  ", ("rerun: ", "dim"), line)


def _labelled(label: str, text: str, colour: str, width: int) -> Iterator[Line]:
    if not label:
        yield from _wrapped(text, width, DETAIL, colour)
        return
    parts = textwrap.wrap(
        f"{label}: {text}", width, initial_indent="  ", subsequent_indent=" " * DETAIL,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    start = len(label) + 3
    yield Text.assemble((parts[0][:start], colour), parts[0][start:])
    yield from map(Text, parts[1:])


def _wrapped(text: str, width: int, indent: int, style: str = "", hanging: int = 0) -> list[Line]:
    """Paragraphs at an indent; what goes on below the first line hangs by ``hanging`` more."""
    lines: list[Line] = []
    for paragraph in text.splitlines() or [""]:
        inside = indent + len(paragraph) - len(paragraph.lstrip())
        parts = textwrap.wrap(
            paragraph.strip(), width, initial_indent=" " * inside, subsequent_indent=" " * (inside + hanging),
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        lines += [Text(part, style=style) for part in parts]
    return lines


def _blocks(blocks: Sequence[tuple[str, str]], width: int) -> list[Line]:
    """Labelled values below each other, the labels as wide as the widest; a value too wide for that goes below its label."""
    lines: list[Line] = []
    indent = DETAIL + 2
    column = max((len(label) for label, _ in blocks), default=0) + 2
    values = [line for label, text in blocks if label for line in text.split("\n") if line.lstrip().startswith("[")]
    wide = indent + column > width // 2 or any(indent + column + len(line) > width for line in values)
    for label, text in blocks:
        if not label:
            lines += _wrapped(text, width, indent, "dim")
        elif wide:
            if label.strip():
                lines.append(Text(" " * indent + label))
            lines += [line for part in text.split("\n") for line in _unbroken(part, width, indent + 2)]
        else:
            body = [line for part in text.split("\n") for line in _unbroken(part, width, indent + column)]
            for at, line in enumerate(body):
                lead = " " * indent + (label if at == 0 else "").ljust(column)
                lines.append(Text(lead + line.plain[len(lead) :]))
    return lines


def _unbroken(text: str, width: int, indent: int) -> list[Line]:
    """A line of values or code: broken only where it must be, between words, and never re-spaced where it fits."""
    if indent + len(text) <= width:
        return [Text(" " * indent + text)]
    return _wrapped(text, width, indent, hanging=2)


# --- the end of the page ----------------------------------------------------------------------------------------------


def _end(report: Report, width: int, verbose: bool) -> list[Line]:
    lines: list[Line] = []
    if report.left_out:
        lines += [Text(), *_left_out(report.left_out, width, verbose)]
    if report.output:
        lines += [Text(), *_output(report.output, width, verbose)]
    return [*lines, Text(), *_summary(report, width)]


def _left_out(left_out: Sequence[str], width: int, verbose: bool) -> Iterator[Line]:
    """What of a notebook is work on the way, and no part of the solution."""
    yield Text("of the notebook, imports, definitions and simple constants count; left out:", style="dim")
    kept = left_out if verbose or len(left_out) <= MAX_LEFT_OUT + 1 else left_out[:MAX_LEFT_OUT]
    for line in kept:
        yield from _wrapped(line, width, DETAIL, "dim", hanging=2)
    if len(left_out) > len(kept):
        yield Text(" " * DETAIL + f"… {len(left_out) - len(kept)} more (-v shows them)", style="dim")


def _output(output: str, width: int, verbose: bool) -> Iterator[Line]:
    """What the submission printed, and apart from it what the libraries warned of while it ran."""
    lines = output.expandtabs(4).rstrip("\n").split("\n")
    warned = [line for line in lines if WARNING.match(line)]
    lines = [line for line in lines if not WARNING.match(line)]
    if any(line.strip() for line in lines):
        kept = lines if verbose or len(lines) <= MAX_OUTPUT_LINES + 1 else lines[:MAX_OUTPUT_LINES]
        yield Text("your code printed:", style="dim")
        for line in kept:
            cut = line if verbose or len(line) <= width - 4 else line[: width - 5] + "…"
            yield Text(f"  │ {cut}", style="dim")
        if len(lines) > len(kept):
            yield Text(f"  │ … {len(lines) - len(kept)} more lines (-v shows them)", style="dim")
    if warned:
        told = list(dict.fromkeys(warned))
        kept = told if verbose else told[:MAX_WARNINGS]
        yield Text("Python warned while your code ran:", style="dim")
        for line in kept:
            yield from _wrapped(line, width, DETAIL, "dim", hanging=2)
        if len(told) > len(kept):
            yield Text(" " * DETAIL + f"… {len(told) - len(kept)} more (-v shows them)", style="dim")


def _summary(report: Report, width: int) -> Iterator[Line]:
    if report.status == "not_graded":
        yield from _labelled("not graded", report.reason or "", "bold magenta", width)
        yield Text("This is the grader's fault, not yours. Next: grader doctor")
        return
    word, colour = ("passed", "bold green") if report.passed else ("not passed", "bold red")
    assert report.score is not None
    yield Text.assemble((word, colour), f"   {report.score:g} of {report.max_score:g} points")
    if report.note:
        yield Text(report.note, style="dim")
    if not report.secret:
        yield Text(f"same cases again: {command(report)} --seed {report.seed}", style="dim")


def command(report: Report) -> str:
    """The command that grades this very file; the file is named where it is not the one that is found by itself."""
    path = str(report.submission["path"])
    if path in (f"{report.exercise}.py", f"{report.exercise}.ipynb", f"./{report.exercise}.py"):
        return f"grade {report.exercise}"
    return f"grade {report.exercise} {shlex.quote(path)}"
