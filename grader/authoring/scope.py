"""What the stages of one lint share: the exercise, how thorough to be, and who watches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grader.authoring.complaints import Places
from grader.authoring.survey import Crew
from grader.sandbox.runner import Limits, Runner
from grader.spec.exercise import Exercise

Tick = Callable[[], None]
# Called with the name of a stage and how many steps it has; what it returns is called after each.
Watch = Callable[[str, int], Tick]


def unwatched(stage: str, total: int) -> Tick:
    return lambda: None


@dataclass(frozen=True)
class Settings:
    """How thorough a lint is."""

    quick: bool = False
    strict: bool = False
    jobs: int = 2
    seeds: int | None = None

    @property
    def seed_numbers(self) -> range:
        """Seeds on which fixtures and misconceptions are judged."""
        return range(1, 1 + (self.seeds or (2 if self.quick else 3)))

    @property
    def reference_seeds(self) -> range:
        """Seeds on which the reference is graded: it is one file, and must pass on all there are."""
        return range(1, 1 + max(len(self.seed_numbers), 3 if self.quick else 10))

    @property
    def mutants(self) -> int | None:
        """How many mutants are tried; None is all."""
        return 40 if self.quick else None

    @property
    def wide_cases(self) -> int:
        return 120 if self.quick else 400


@dataclass(frozen=True, eq=False)
class Scope:
    """One exercise being linted."""

    exercise: Exercise
    runner: Runner
    settings: Settings
    places: Places
    crew: Crew
    fixtures: Path | None
    watch: Watch

    @property
    def limits(self) -> Limits:
        """The exercise's own."""
        return Limits.of(self.exercise.spec.limits.time, self.exercise.spec.limits.memory)

    def short_limits(self, slowest: float) -> Limits:
        """For mutants: generous next to the reference, and over soon for one that loops."""
        return Limits.of(max(1.0, 40 * slowest), self.exercise.spec.limits.memory)
