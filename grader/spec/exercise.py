"""One exercise as a value: its file, and where its other files lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from grader.spec.schema import ExerciseFile


@dataclass(frozen=True)
class Exercise:
    """One exercise as loaded: its file and where its other files lie. ``solution`` is None in a kit without references."""

    name: str
    track: str
    spec: ExerciseFile
    folder: Path
    solution: Path | None
    misconceptions: Path | None
    # For each edge case, the inputs after merging; None is a literal None argument.
    # What was recorded of the reference, in a kit that has none.
    recorded: Path | None = None
    edge_inputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Sizes already drawn, by case name, index and seed.
    drawn_dims: dict[tuple[str, int, int], dict[str, int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    # Cases made smaller, None where the sizes break a rule, by name, index, seed, grid and sizes.
    smaller_cases: dict[tuple[Any, ...], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def function(self) -> str:
        return self.spec.function or self.name

    @cached_property
    def keeps_secrets(self) -> bool:
        """Whether some check shows its verdict alone: the seed would give its cases away, and so would a token of any check."""
        return any((check.reveal or self.spec.reveal) == "verdict" for check in self.spec.checks)

    @property
    def statement(self) -> Path:
        return self.folder / "README.md"

    @property
    def stub(self) -> Path:
        return self.folder / f"{self.name}.py"

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self.spec.inputs)
