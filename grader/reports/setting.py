"""What an export knows beside the results: given by whoever calls, so that a renderer reads no clock and no environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

VISIBILITIES = ("visible", "hidden", "after_due_date", "after_published")


@dataclass(frozen=True)
class Setting:
    """All parts are optional; a format that cannot do without one says so with a `UsageError`.

    ``assignment``: the assignment's name as the reading system has it; for Canvas with its number, "Homework 3 (4711)".
    ``generated``: when the export was asked for, UTC as ISO 8601 with a Z. ``version``: of tensorgrade.
    ``environment``: the variables of the process (Classroom 50 and GitHub name things in them).
    ``roster``: the text of a Canvas gradebook export or of a Moodle grading worksheet.
    ``points``: what all exercises together are worth there (Canvas and Moodle); None keeps the exercises' own points.
    ``visibility``: who sees the tests on Gradescope, one of `VISIBILITIES`.
    """

    assignment: str = ""
    generated: str = ""
    version: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    roster: str = ""
    points: float | None = None
    visibility: str = "visible"
