"""Where exercises and references lie. Standard library only: a command must know an exercise's framework before it
imports anything slow, so that the framework's own import can start first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from grader.errors import UsageError

PACKAGE = Path(__file__).resolve().parent.parent
# In a wheel the folders travel inside the package; in a checkout they stand beside it.
INSTALLED = (PACKAGE / "library", PACKAGE.parent)
_FRAMEWORK = re.compile(r"^framework:\s*(torch|numpy|python)\b", re.MULTILINE)


@dataclass(frozen=True)
class Library:
    """Folders of exercises, references and fixtures. ``reference`` is None in a student's kit."""

    exercises: Path
    reference: Path | None
    fixtures: Path | None = None

    def tracks(self) -> list[Path]:
        return sorted({path.parent.parent for path in self.exercises.glob("*/*/exercise.yaml")})

    def find(self, name: str) -> Path | None:
        """The folder of exercise ``name``, or None."""
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            return None
        return next((path.parent for path in sorted(self.exercises.glob(f"*/{name}/exercise.yaml"))), None)


def find_library(exercises: Path | None = None, reference: Path | None = None, start: Path | None = None) -> Library:
    """The folders given, else those found from ``start`` upwards, else the installed ones; raises `UsageError`."""
    if exercises is not None:
        if not exercises.is_dir():
            raise UsageError(
                f"--exercises {exercises}: there is no such folder", "give the folder that holds the tracks"
            )
        return _library(exercises, reference)
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if any((folder / "exercises").glob("*/*/exercise.yaml")):
            return _library(folder / "exercises", reference)
    for root in INSTALLED:
        if (root / "exercises").is_dir():
            return _library(root / "exercises", reference)
    raise UsageError("no exercises were found here, above, or in the installed package", "grade --exercises DIR")


def _library(exercises: Path, reference: Path | None) -> Library:
    if reference is not None and not reference.is_dir():
        raise UsageError(
            f"--reference {reference}: there is no such folder", "give the folder that holds the references"
        )
    beside, fixtures = exercises.parent / "reference", exercises.parent / "fixtures"
    return Library(
        exercises, reference or (beside if beside.is_dir() else None), fixtures if fixtures.is_dir() else None
    )


def peek_framework(folder: Path) -> str | None:
    """The framework an exercise file names, read without parsing it; None when it cannot be told."""
    try:
        match = _FRAMEWORK.search((folder / "exercise.yaml").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    return match[1] if match is not None else None
