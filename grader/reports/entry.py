"""A report with whose it is: what a class-wide export reads."""

from __future__ import annotations

from dataclasses import dataclass, field

from grader.model import Report


@dataclass(frozen=True)
class Person:
    """A student as the class knows them. ``key`` names them in the store; ``ids`` are a system's own numbers.

    ``ids`` may hold: canvas, sis, login, section (Canvas), moodle (the number of "Participant 123"), email, gradescope.
    """

    key: str
    name: str = ""
    ids: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One result that counts. ``finished`` is UTC as ISO 8601 with a Z; ``attempts`` counts all of the student's."""

    person: Person
    report: Report
    finished: str
    attempts: int = 1
