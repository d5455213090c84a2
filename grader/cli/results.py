"""``grader results``: what the store holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grader.cli import frame
from grader.cli.batch import DEFAULT_STORE, store_option
from grader.errors import UsageError

if TYPE_CHECKING:
    from grader.batch.store import Row, Store

EPILOG = """
\b
Examples:
  grader results                       the class: students by exercises
  grader results --student alice       her attempts, and what the latest says
  grader results --exercise softmax    who passes, and which checks fail most
  grader results --changes             what the last run changed
  grader results --json -              the same for a program
"""


@click.command("results", short_help="Show who passes what, and what changed.", epilog=EPILOG)
@click.option("--student", metavar="STUDENT", help="One student: every attempt, and the reports that count.")
@click.option("--exercise", metavar="NAME", help="One exercise: who passes, and which checks fail most.")
@click.option("--changes", is_flag=True, help="What the last run changed.")
@click.option("-v", "--verbose", is_flag=True, help="With --student: every failing check in full.")
@click.option("--json", "json_path", metavar="FILE", help="Write rows as JSON; - is standard output.")
@store_option
def results(
    student: str | None, exercise: str | None, changes: bool, verbose: bool, json_path: str | None, store: Path
) -> int:
    """Show the results that count: of each student and exercise the latest submission's latest graded result."""
    from grader.batch.store import Store

    kept = Store(store)
    if student is not None:
        student = known_name(student, {key: [p.name, *p.ids.values()] for key, p in kept.people().items()}, "student")
    if exercise is not None:
        exercise = known_name(exercise, {row.exercise: [] for row in kept.attempts()}, "exercise")
    if json_path is not None:
        frame.write_text(
            json_path, json.dumps(_rows(kept, student, exercise, changes), indent=1, ensure_ascii=False) + "\n"
        )
        if json_path == "-":
            return 0
    console = frame.console()
    if changes:
        _changes(console, kept, student, exercise)
    elif student is not None:
        _one_student(console, kept, student, exercise, verbose)
    elif exercise is not None:
        _one_exercise(console, kept, exercise)
    else:
        _class(console, kept)
    return 0


def known_name(wanted: str, names: dict[str, list[str]], what: str) -> str:
    from grader.spec.document import closest

    for key, others in names.items():
        if wanted == key or wanted in others:
            return key
    near = closest(wanted, names)
    raise UsageError(
        f"the store holds no result of {what} `{wanted}`" + (f"; did you mean `{near}`?" if near else ""),
        "grader results",
    )


def _rows(kept: Store, student: str | None, exercise: str | None, changes: bool) -> list[dict[str, Any]]:
    def plain(row: Row | None) -> dict[str, Any] | None:
        return None if row is None else {key: value for key, value in vars(row).items() if key != "id"}

    def wanted(key: tuple[str, str]) -> bool:
        return (student is None or key[0] == student) and (exercise is None or key[1] == exercise)

    if changes:
        return [
            {"student": c.student, "exercise": c.exercise, "before": plain(c.before), "after": plain(c.after)}
            for c in kept.changes()
            if wanted((c.student, c.exercise))
        ]
    counting = sorted(kept.counting().items())
    return [found for key, row in counting if wanted(key) and (found := plain(row)) is not None]


def score_text(row: Row | None) -> str:
    """A result in a few characters; a dash where there is none."""
    if row is None:
        return "–"
    if row.status != "graded" or row.score is None:
        return "! not graded"
    return f"{'✓' if row.passed else '✗'} {row.score:g}/{row.max_score:g}"


def _coloured(row: Row | None) -> Any:
    from rich.text import Text

    style = "dim" if row is None else "magenta" if row.status != "graded" else "green" if row.passed else "red"
    return Text(score_text(row), style=style)


def _class(console: Any, kept: Store) -> None:
    from rich.table import Table
    from rich.text import Text

    counting = kept.counting()
    students = sorted({key[0] for key in counting})
    exercises = sorted({key[1] for key in counting})
    people = kept.people()
    # Wide classes are listed row by row, so that nothing is cut off.
    if sum(len(name) + 3 for name in exercises) + max((len(s) for s in students), default=0) <= console.width - 4:
        table = Table(box=None, pad_edge=False)
        table.add_column("student")
        for name in exercises:
            table.add_column(name, no_wrap=True)
        for who in students:
            table.add_row(Text(_shown(people[who])), *(_coloured(counting.get((who, name))) for name in exercises))
        console.print(table)
    else:
        for who in students:
            own = [(name, counting[who, name]) for name in exercises if (who, name) in counting]
            console.print(
                Text(f"{_shown(people[who])}   {sum(r.passed for _, r in own)} of {len(own)} passed", style="bold")
            )
            for name, row in own:
                console.print(Text.assemble("  ", (name.ljust(max(map(len, exercises)) + 2), ""), _coloured(row)))
    rows = counting.values()
    passed = sum(row.passed for row in rows)
    ungraded = sum(row.status != "graded" for row in rows)
    console.print()
    console.print(f"{passed} of {len(counting)} results passed" + (f", {ungraded} not graded" if ungraded else ""))


def _shown(person: Any) -> str:
    return f"{person.name} ({person.key})" if person.name and person.name not in person.key else str(person.key)


def _one_student(console: Any, kept: Store, student: str, exercise: str | None, verbose: bool) -> None:
    from rich.text import Text

    from grader.reports import terminal

    counting = kept.counting()
    attempts = kept.attempts(student, exercise)
    console.print(Text(_shown(kept.people()[student]), style="bold"))
    for row in attempts:
        counts = counting[row.student, row.exercise].id == row.id
        told = f"{row.finished}  {row.exercise}  {score_text(row)}  {row.submission[:12]}  {row.path}"
        console.print(Text(told + ("  ← counts" if counts else ""), style="" if counts else "dim"), soft_wrap=True)
    for key, row in sorted(counting.items()):
        if key[0] == student and (exercise is None or key[1] == exercise):
            console.print()
            terminal.render(kept.report(row), console, verbose)


def _one_exercise(console: Any, kept: Store, exercise: str) -> None:
    from rich.table import Table
    from rich.text import Text

    entries = kept.entries(exercise=exercise)
    people = kept.people()
    for (who, name), row in sorted(kept.counting().items()):
        if name == exercise:
            console.print(Text.assemble(_coloured(row), "  ", _shown(people[who])))
    reports = [entry.report for entry in entries if entry.report.status == "graded"]
    failing: dict[tuple[str, str], int] = {}
    mistakes: dict[str, int] = {}
    for report in reports:
        for check in report.checks:
            if check.verdict not in ("pass", "skipped") and not check.advisory:
                failing[check.id, check.title] = failing.get((check.id, check.title), 0) + 1
        for found in report.diagnoses:
            mistakes[found.says] = mistakes.get(found.says, 0) + 1
    console.print()
    console.print(f"{sum(r.passed for r in reports)} of {len(reports)} graded submissions pass")
    for heading, counted in (
        ("checks that fail most", {title: n for (_, title), n in failing.items()}),
        ("mistakes measured", mistakes),
    ):
        if counted:
            table = Table(box=None, pad_edge=False)
            table.add_column("", justify="right")
            table.add_column(heading)
            for title, count in sorted(counted.items(), key=lambda pair: -pair[1])[:12]:
                table.add_row(str(count), Text(title))
            console.print(table)


def _changes(console: Any, kept: Store, student: str | None, exercise: str | None) -> None:
    from rich.text import Text

    changed = [
        one
        for one in kept.changes()
        if (student is None or one.student == student) and (exercise is None or one.exercise == exercise)
    ]
    if not changed:
        console.print("the last run changed nothing")
    for one in changed:
        console.print(
            Text.assemble(f"{one.student}  {one.exercise}  ", _coloured(one.before), "  →  ", _coloured(one.after)),
            soft_wrap=True,
        )


__all__ = ["DEFAULT_STORE", "results", "score_text"]
