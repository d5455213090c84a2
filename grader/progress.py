"""What a student has passed and which hints they have seen: one small file in the user's state folder."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platformdirs import user_state_path

VERSION = 1


@dataclass(frozen=True)
class Progress:
    """Passed exercises, the best score of each exercise, and how many of its hints were shown."""

    passed: frozenset[str] = frozenset()
    hints: dict[str, int] = field(default_factory=dict)


def path() -> Path:
    """The file: ``TENSORGRADE_STATE`` where set, else in the platform's state folder."""
    override = os.environ.get("TENSORGRADE_STATE")
    return Path(override) if override else user_state_path("tensorgrade", appauthor=False) / "progress.json"


def read() -> Progress:
    """Progress so far; an unreadable or foreign file counts as none (it is a convenience, never a record)."""
    try:
        data = json.loads(path().read_text(encoding="utf-8"))
        if data.get("version") != VERSION:
            return Progress()
        hints = {str(k): int(v) for k, v in data.get("hints", {}).items()}
        return Progress(frozenset(map(str, data.get("passed", []))), hints)
    except (OSError, ValueError, AttributeError, TypeError):
        return Progress()


def remember_pass(exercise: str) -> None:
    now = read()
    if exercise not in now.passed:
        _write(Progress(now.passed | {exercise}, now.hints))


def next_hint(exercise: str, count: int) -> int:
    """The index of the hint to show now; each call goes one further and stays at the last."""
    now = read()
    index = min(now.hints.get(exercise, 0), count - 1)
    _write(Progress(now.passed, {**now.hints, exercise: min(index + 1, count)}))
    return index


def _write(progress: Progress) -> None:
    body: dict[str, Any] = {"version": VERSION, "passed": sorted(progress.passed), "hints": progress.hints}
    target = path()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and moved: two grades at once leave one whole file.
        with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False, encoding="utf-8") as file:
            json.dump(body, file, indent=1)
        os.replace(file.name, target)
    except OSError:
        # A read-only home is no reason to fail a grade.
        pass
