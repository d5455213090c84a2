"""Whose fault an error is: the caller's, the exercise author's, or the grader's own.

What goes wrong in a submission is no exception here: it is an `Outcome`, and ends in the report.
"""

from __future__ import annotations

import tempfile
import traceback
from dataclasses import dataclass


class TensorgradeError(Exception):
    """An error that a command prints as text, without a traceback, before it exits with ``exit_code``."""

    exit_code = 3


class UsageError(TensorgradeError):
    """The command was called in a way that cannot work; ``next_step`` says what to type instead."""

    exit_code = 2

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.next_step = next_step


@dataclass(frozen=True)
class Finding:
    """One thing wrong in an exercise's own files."""

    path: str
    line: int
    column: int
    message: str
    expected: str = ""

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}:{self.column}" if self.line else self.path
        return f"{place}: {self.message}" + (f"\n    expected: {self.expected}" if self.expected else "")


class AuthorError(TensorgradeError):
    """The exercise's own files are wrong: the author's fault, never the student's."""

    exit_code = 2

    def __init__(self, findings: list[Finding] | tuple[Finding, ...], next_step: str = "") -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = tuple(findings)
        self.next_step = next_step


class GraderFault(TensorgradeError):
    """The grader could not grade: never the student's fault, never a zero."""

    exit_code = 3

    def __init__(self, message: str, next_step: str = "grader doctor") -> None:
        super().__init__(message)
        self.next_step = next_step


def crash_file() -> str:
    """Write the current exception's traceback to a file for the maintainers and return its name; never raises."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="tensorgrade-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            traceback.print_exc(file=file)
        return file.name
    except OSError as error:
        return f"this message (no traceback could be kept: {error.strerror})"
