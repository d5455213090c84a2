"""``grader batch``: grade a class into a store."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grader.cli import frame
from grader.errors import UsageError

if TYPE_CHECKING:
    from grader.batch.collect import Collection
    from grader.batch.engines import Engine
    from grader.batch.run import Due
    from grader.model import Report

DEFAULT_STORE = Path("grades.sqlite")
SHOWN_LEFT = 12
SHOWN_REASONS = 3
EPILOG = """
\b
Examples:
  grader batch handed-in                        one folder per student, files named by exercise
  grader batch canvas.zip --exercise softmax    what Canvas, Moodle or Gradescope hand out
  grader batch --manifest class.csv             student, exercise and path, one row each
  grader batch handed-in                        once more: goes on where it was stopped, grades what is new
  grader batch handed-in --retry grader_error   what the grader itself could not grade

Exit code 0: everything is graded, passed or not. 3: the grader could not grade some.
"""


def store_option(command: frame.F) -> frame.F:
    return click.option(
        "--store",
        type=click.Path(path_type=Path, dir_okay=False),
        default=DEFAULT_STORE,
        show_default=True,
        metavar="FILE",
        help="Where results are kept.",
    )(command)


@click.command("batch", short_help="Grade a class: every submission in a folder or an archive.", epilog=EPILOG)
@click.argument("source", required=False, type=click.Path(path_type=Path), metavar="[DIR]")
@click.option(
    "--manifest",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="CSV or YAML of student, exercise, path, in place of DIR.",
)
@click.option(
    "--layout",
    type=click.Choice(["auto", "students", "exercises", "canvas", "moodle", "gradescope"]),
    default="auto",
    show_default=True,
    help="How submissions are laid out.",
)
@click.option("--exercise", "wanted", multiple=True, metavar="NAME", help="Only this exercise (may be repeated).")
@click.option("--only", "students", multiple=True, metavar="STUDENT", help="Only this student (may be repeated).")
@click.option("--jobs", type=click.IntRange(1, 256), metavar="N", help="Submissions at a time (default: one per core).")
@click.option("--regrade", is_flag=True, help="Grade again what is already graded; earlier results are kept.")
@click.option(
    "--retry", type=click.Choice(["grader_error"]), help="Grade again what the grader itself could not grade."
)
@click.option(
    "--engine", type=click.Choice(["local", "dask"]), default="local", show_default=True, help="Where the work is done."
)
@click.option("--scheduler", metavar="ADDRESS", help="The Dask scheduler, as tcp://host:8786.")
@store_option
@frame.class_options
@frame.library_options
def batch(
    source: Path | None,
    manifest: Path | None,
    layout: str,
    wanted: tuple[str, ...],
    students: tuple[str, ...],
    jobs: int | None,
    regrade: bool,
    retry: str | None,
    engine: str,
    scheduler: str | None,
    store: Path,
    exercises: Path | None,
    reference: Path | None,
    seed: int | None,
    cases: int | None,
    isolation: str,
    runner: str,
    time_limit: float | None,
    memory_limit: float | None,
) -> int:
    """Grade every submission found in DIR (a folder or an archive), and keep each result the moment it exists.

    Everyone meets the same cases: one secret seed, kept in the store. Stopped at any point, the same command goes on.
    """
    from grader.batch import engines, run
    from grader.batch.collect import collect
    from grader.batch.store import Store
    from grader.grade import Options
    from grader.spec import load

    if (source is None) == (manifest is None):
        raise UsageError(
            "name a folder or archive of submissions, or a manifest", "grader batch DIR, or --manifest FILE"
        )
    if engine == "dask" and not scheduler:
        raise UsageError("--engine dask needs the address of a scheduler", "--scheduler tcp://host:8786")
    library = frame.open_library(exercises, reference)
    names = list(load.folders(library))
    for name in wanted:
        if name not in names:
            # Says which names are near.
            load.load(library, name)
    console = frame.console(stderr=False)
    with _scratch() as scratch:
        found = collect(source or Path(), names, wanted, scratch, layout, manifest)
        handed = [each for each in found.handed if not students or _is_one_of(each.person, students)]
        if students and not handed:
            known = ", ".join(sorted({each.person.key for each in found.handed})[:10])
            raise UsageError(f"no submission is by {', '.join(students)}", f"students here: {known}")
        known_exercises = {name: load.load(library, name) for name in dict.fromkeys(each.exercise for each in handed)}
        kept = Store(store, create=True)
        with kept.writing():
            options = Options(kept.seed(seed), cases, None, time_limit, memory_limit)
            settings = {"isolation": isolation}
            todo = run.plan(kept, handed, known_exercises, options, settings, regrade, retry is not None)
            _say_what(console, found, todo)
            if todo.due:
                shared = engines.Settings(engines.here(library), runner, isolation)
                worker: Engine
                if engine == "dask":
                    worker = engines.DaskEngine(shared, scheduler or "")
                else:
                    worker = engines.LocalEngine(shared, jobs or engines.cores())
                try:
                    counts = _with_progress(console, kept, todo, worker)
                finally:
                    worker.close()
                _say_counts(console, counts)
        failing = [row for row in kept.counting().values() if row.status != "graded"]
        reasons = Counter(str(kept.report(row).reason) for row in failing)
        kept.close()
    console.print(f"results: grader results{'' if store == DEFAULT_STORE else f' --store {store}'}", style="dim")
    if failing:
        console.print(f"{len(failing)} could not be graded: grader batch … --retry grader_error", style="magenta")
        for reason, count in reasons.most_common(SHOWN_REASONS):
            console.print(f"  {count} × {reason}", soft_wrap=True)
    return 3 if failing else 0


def _is_one_of(person: Any, students: tuple[str, ...]) -> bool:
    return bool({person.key, person.name, *person.ids.values()} & set(students))


@contextmanager
def _scratch() -> Iterator[Path]:
    """A private folder for unpacked archives."""
    folder = Path(tempfile.mkdtemp(prefix="tensorgrade-batch-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _say_what(console: Any, found: Collection, todo: Any) -> None:
    from rich.text import Text

    people = len({each.person.key for each in found.handed})
    exercises = len({each.exercise for each in found.handed})
    told = f"{len(found.handed)} submissions by {people} students to {exercises} exercises (layout: {found.layout})"
    console.print(Text(told))
    for one in found.left[:SHOWN_LEFT]:
        console.print(Text(f"  not taken: {one.name}: {one.why}", style="yellow"))
    if len(found.left) > SHOWN_LEFT:
        console.print(Text(f"  and {len(found.left) - SHOWN_LEFT} more not taken", style="yellow"))
    if todo.done:
        console.print(Text(f"{todo.done} already in the store, {len(todo.due)} to grade"))


def _with_progress(console: Any, store: Any, todo: Any, engine: Engine) -> dict[str, int]:
    """Grade with a bar on a terminal, and with a line every tenth of the way elsewhere."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from grader.batch import run

    total = len(todo.due)
    seen = {"passed": 0, "failed": 0, "not graded": 0}

    def live() -> str:
        return f"✓ {seen['passed']}  ✗ {seen['failed']}" + (f"  ! {seen['not graded']}" if seen["not graded"] else "")

    if not console.is_terminal:
        step = max(1, -(-total // 10))

        def heard(due: Due, report: Report) -> None:
            seen[run.outcome_of(report)] += 1
            done = sum(seen.values())
            if done % step == 0 or done == total:
                console.print(f"{done}/{total}  {live()}")

        return run.execute(store, todo, engine, heard)
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[live]}"),
        TimeElapsedColumn(),
        TextColumn("eta"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=False) as progress:
        task = progress.add_task("", total=total, live=live())

        def moved(due: Due, report: Report) -> None:
            seen[run.outcome_of(report)] += 1
            progress.update(task, advance=1, live=live())

        return run.execute(store, todo, engine, moved)


def _say_counts(console: Any, counts: dict[str, int]) -> None:
    console.print(f"graded: {counts['passed']} passed, {counts['failed']} failed, {counts['not graded']} not graded")
