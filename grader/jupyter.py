"""``%grade`` and ``%%grade`` in Jupyter: the notebook's own definitions, graded where they are written.

Loaded with ``%load_ext grader``. What is graded are the cells that were run, in the order in which they were; the grading
itself happens in worker processes as everywhere else.
"""

from __future__ import annotations

import ast
import io
import shlex
from typing import Any

from IPython.core.error import UsageError as MagicError
from IPython.core.magic import Magics, line_cell_magic, magics_class

from grader import progress
from grader.errors import TensorgradeError
from grader.model import Report
from grader.session import Session

NAME = "notebook"
WIDTH = 96
HELP = "%grade EXERCISE [--seed N] [-v], or %%grade EXERCISE above the cell that defines it"


class Feedback:
    """A report as Jupyter shows it: HTML where that can be shown, text elsewhere."""

    def __init__(self, report: Report, verbose: bool) -> None:
        self.report = report
        self._verbose = verbose

    def _repr_html_(self) -> str:
        from grader.reports import html_page

        return html_page.fragment(self.report)

    def __repr__(self) -> str:
        console = _console()
        _render(self.report, console, self._verbose)
        return str(console.file.getvalue()).rstrip()


def _console() -> Any:
    from rich.console import Console

    return Console(
        file=io.StringIO(),
        width=WIDTH,
        force_terminal=False,
        # Or it would display every line by itself.
        force_jupyter=False,
        highlight=False,
        markup=False,
        emoji=False,
    )


def _render(report: Report, console: Any, verbose: bool) -> None:
    from grader.reports import terminal

    terminal.render(report, console, verbose)


@magics_class
class GradeMagics(Magics):  # type: ignore[misc]
    """The magics of one notebook, with what they keep warm."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._session: Session | None = None

    @line_cell_magic  # type: ignore[untyped-decorator]
    def grade(self, line: str, cell: str | None = None) -> Feedback | None:
        """Grade what the notebook has defined so far; above a cell, run the cell first and grade with it."""
        name, seed, verbose = _arguments(line)
        if cell is not None:
            ran = self.shell.run_cell(cell, store_history=False)
            if not ran.success:
                # The error stands above, as that of any cell.
                return None
        try:
            return Feedback(self._graded(name, seed, cell), verbose)
        except TensorgradeError as error:
            step = getattr(error, "next_step", "")
            raise MagicError(f"{error}" + (f"\nnext: {step}" if step else "")) from None

    def _graded(self, name: str, seed: int | None, cell: str | None) -> Report:
        from grader.grade import Options, fresh_seed
        from grader.spec import load
        from grader.spec.library import find_library
        from grader.submission import Submission

        exercise = load.load(find_library(), name)
        cells = self._history(cell)
        submission = Submission(NAME, "\n\n".join(cells).encode(), None, cells=cells)
        if self._session is None:
            self._session = Session()
        report = self._session.grade(exercise, submission, Options(fresh_seed(exercise) if seed is None else seed))
        if report.passed:
            progress.remember_pass(name)
        return report

    def _history(self, cell: str | None) -> tuple[str, ...]:
        """The cells run so far, so that a cell's number is the one in its brackets; what is no Python never ran."""
        cells = [text if _is_python(self.shell.transform_cell(text)) else "" for text in self.shell.user_ns["In"][1:]]
        if cell is not None and (not cells or cell.strip() not in cells[-1]):
            cells.append(cell)
        return tuple(cells)


def _arguments(line: str) -> tuple[str, int | None, bool]:
    """(exercise, seed, verbose); raises IPython's usage error."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise MagicError(f"{error}\nusage: {HELP}") from None
    verbose = "-v" in words
    words = [word for word in words if word != "-v"]
    seed = None
    if "--seed" in words:
        at = words.index("--seed")
        if at + 1 >= len(words) or not words[at + 1].isdecimal():
            raise MagicError(f"--seed needs a number\nusage: {HELP}")
        seed = int(words[at + 1])
        del words[at : at + 2]
    if len(words) != 1:
        raise MagicError(f"usage: {HELP}")
    return words[0], seed, verbose


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def register(shell: Any) -> None:
    """Give a shell its magics."""
    shell.register_magics(GradeMagics(shell))
