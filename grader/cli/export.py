"""``grader export``: hand the results of a class on, in the format that the next system reads."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grader.cli import frame
from grader.cli.batch import DEFAULT_STORE, store_option
from grader.errors import GraderFault, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grader.reports.entry import Entry
    from grader.reports.formats import Format
    from grader.reports.setting import Setting

EPILOG = """
\b
Examples:
  grader export --format csv                                     the class as a table
  grader export --format html --output class.html --for staff    one page to read and to keep
  grader export --format gradescope --output out                 one results.json per student, in out/STUDENT/
  grader export --format canvas-csv --roster gradebook.csv --assignment "Homework 3 (4711)"
  grader export --format junit --student alice

Students share one seed, so what is made for them (--for student, the default) shows no case, value or seed.
"""


def setting_options(command: frame.F) -> frame.F:
    """What formats need beside the results."""
    for option in reversed(
        (
            click.option(
                "--assignment", default="", metavar="TITLE", help="The assignment's name in the system that reads it."
            ),
            click.option(
                "--roster",
                type=click.Path(path_type=Path, dir_okay=False),
                metavar="FILE",
                help="Canvas's gradebook export or Moodle's grading worksheet, to match students with.",
            ),
            click.option("--points", type=click.FloatRange(0), metavar="N", help="What the assignment is worth there."),
            click.option(
                "--visibility",
                type=click.Choice(["visible", "hidden", "after_due_date", "after_published"]),
                default="visible",
                show_default=True,
                help="Who sees the tests on Gradescope.",
            ),
        )
    ):
        command = option(command)
    return command


@click.command("export", short_help="Write results in another system's format.", epilog=EPILOG)
@click.option(
    "--format",
    "format_name",
    required=True,
    metavar="NAME",
    help="json, junit, gradescope, github, csv, html, canvas-csv, moodle-csv, prairielearn, exercism, classroom50, submitty, autolab or check50.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A file, or for formats of one student a folder (default: standard output).",
)
@click.option("--student", metavar="STUDENT", help="Only this student.")
@click.option("--exercise", metavar="NAME", help="Only this exercise.")
@click.option(
    "--for",
    "audience",
    type=click.Choice(["student", "staff"]),
    default="student",
    show_default=True,
    help="Whether cases and values may be shown.",
)
@setting_options
@store_option
def export(
    format_name: str,
    output: Path | None,
    student: str | None,
    exercise: str | None,
    audience: str,
    assignment: str,
    roster: Path | None,
    points: float | None,
    visibility: str,
    store: Path,
) -> int:
    """Write the results that count in another system's format."""
    from dataclasses import replace

    from grader.audience import for_student
    from grader.batch.store import Store
    from grader.cli.results import known_name
    from grader.reports import csv_table, formats

    wanted = formats.find(format_name)
    kept = Store(store)
    if student is not None:
        student = known_name(student, {key: [p.name, *p.ids.values()] for key, p in kept.people().items()}, "student")
    if exercise is not None:
        exercise = known_name(exercise, {row.exercise: [] for row in kept.attempts()}, "exercise")
    entries = kept.entries(student, exercise)
    if audience == "student":
        entries = [replace(entry, report=for_student(entry.report)) for entry in entries]
    setting = make_setting(assignment, roster, points, visibility)
    missing = csv_table.unmatched(format_name, entries, setting)
    if missing:
        # Left out of the table, so said here.
        frame.console(stderr=True).print(f"not in the gradebook: {', '.join(missing)}", style="yellow", soft_wrap=True)
    if wanted.per == "class" or output is None:
        text = formats.render(format_name, entries, setting)
        frame.write_text("-" if output is None else str(output), text)
        if output is not None:
            frame.console(stderr=True).print(f"wrote {output}: {len(entries)} results")
        return 0
    count = _one_file_each(wanted, entries, setting, output)
    frame.console(stderr=True).print(f"wrote {wanted.file} for {count} students below {output}")
    return 0


def make_setting(assignment: str, roster: Path | None, points: float | None, visibility: str) -> Setting:
    """What the options, the environment and the clock say; raises `UsageError` when the roster cannot be read."""
    from grader import __version__
    from grader.batch.store import now
    from grader.reports.setting import Setting

    text = ""
    if roster is not None:
        try:
            text = roster.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"--roster {roster}: it cannot be read ({error})", "export it again as CSV in UTF-8"
            ) from None
    return Setting(assignment, now(), __version__, dict(os.environ), text, points, visibility)


def _one_file_each(wanted: Format, entries: Sequence[Entry], setting: Setting, output: Path) -> int:
    """A folder per student below ``output``, named after them as far as a file system allows."""
    by_student: dict[str, list[Entry]] = {}
    for entry in entries:
        by_student.setdefault(entry.person.key, []).append(entry)
    taken: set[str] = set()
    for number, (key, own) in enumerate(by_student.items()):
        name = re.sub(r"[^\w.@+-]", "_", key)[:100].lstrip(".") or "student"
        if name.lower() in taken:
            name = f"{name}-{number}"
        taken.add(name.lower())
        folder = output / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GraderFault(f"{folder} cannot be made: {error.strerror}", "name a folder with room") from None
        frame.write_text(str(folder / wanted.file), wanted.render(own, setting))
    return len(by_student)


__all__ = ["DEFAULT_STORE", "export", "make_setting", "setting_options"]
