"""What makes a result the same result: digests of an exercise's files and of the grader itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from grader import __version__
from grader.spec.exercise import Exercise

PACKAGE = Path(__file__).resolve().parent.parent


def exercise_digest(exercise: Exercise) -> str:
    """Of everything that a verdict depends on: exercise.yaml, the reference and its misconceptions."""
    files = [exercise.folder / "exercise.yaml", exercise.solution, exercise.misconceptions]
    return _digest((path.name, path.read_bytes()) for path in files if path is not None and path.is_file())


@cache
def grader_digest() -> str:
    """Of the grader's own code and version; the same wherever the same version is installed."""
    sources = sorted(path for path in PACKAGE.rglob("*.py") if "library" not in path.relative_to(PACKAGE).parts)
    found = _digest((path.relative_to(PACKAGE).as_posix(), path.read_bytes()) for path in sources)
    return f"{__version__}+{found[:12]}"


def _digest(parts: Iterable[tuple[str, bytes]]) -> str:
    total = hashlib.sha256()
    for name, content in parts:
        total.update(f"{name}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()
