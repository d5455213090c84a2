"""``grade --all``: every exercise found in a folder, one table, one exit code, one JSON."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from grader import progress
from grader.cli import frame
from grader.cli.student import on_standard_output
from grader.errors import GraderFault, TensorgradeError, UsageError
from grader.model import Report
from grader.spec.library import Library


def grade_all(folder: Path, library: Library, verbose: bool, options: dict[str, Any]) -> int:
    """Grade what is there, in track order. A stub that was never touched is listed, and is no failure."""
    from grader.grade import Options, fresh_seed, not_graded
    from grader.session import Session
    from grader.spec import load
    from grader.submission import read_submission

    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder", "grade --all DIR")
    if options["case"] is not None or options["save_case"] is not None:
        raise UsageError("--case and --save-case are for one exercise", "grade EXERCISE --case TOKEN")
    found = find(folder, library)
    if not found:
        raise UsageError(
            f"{folder}: no file here is named after an exercise",
            "grade lists the exercises; grade NAME --start begins one",
        )
    quiet = bool(on_standard_output(options))
    console = frame.console()
    seed = fresh_seed() if options["seed"] is None else options["seed"]
    asked = Options(seed, options["cases"], None, options["time_limit"], options["memory_limit"])
    session = Session(options["runner"], options["isolation"])
    reports: list[Report] = []
    hints: list[str] = []
    untouched: list[str] = []
    try:
        for name, path in found.items():
            handed_in = read_submission(path)
            try:
                exercise = load.load(library, name)
                if exercise.stub.is_file() and handed_in.source == exercise.stub.read_bytes():
                    untouched.append(name)
                    continue
                # A kit has seeds of its own.
                if options["seed"] is None and exercise.solution is None:
                    asked = replace(asked, seed=fresh_seed(exercise))
                report = session.grade(exercise, handed_in, asked)
                hints += [name] if exercise.spec.hints else []
            except TensorgradeError as error:
                # One exercise whose files are wrong must not keep the others from being graded.
                report = not_graded(name, handed_in, seed, str(error))
            session.release(name)
            reports.append(report)
            if report.passed:
                progress.remember_pass(name)
            if not quiet:
                console.print(_line(report))
    finally:
        session.close()
    unwritten = write(reports, options, hints)
    if not quiet:
        _print_rest(console, reports, untouched, found, verbose)
    if unwritten is not None:
        raise unwritten
    if any(report.status != "graded" for report in reports):
        return 3
    return 0 if all(report.passed for report in reports) else 1


def find(folder: Path, library: Library) -> dict[str, Path]:
    """The submission of each exercise in ``folder``, in track order: EXERCISE.py, else EXERCISE.ipynb."""
    from grader.spec import load

    found = {}
    for name in load.folders(library):
        for suffix in (".py", ".ipynb"):
            path = folder / f"{name}{suffix}"
            if path.exists() or path.is_symlink():
                found[name] = path
                break
    return found


def write(reports: Sequence[Report], options: dict[str, Any], hints: Collection[str] = ()) -> GraderFault | None:
    """``--json``, ``--html`` and ``--format``; a file that cannot be written is told of after everything else was.

    ``hints`` names the exercises that have hints.
    """
    from grader.reports import formats, html_page, report_json

    def as_json() -> None:
        frame.write_text(options["json_path"], report_json.render_all(reports))

    def as_page() -> None:
        frame.write_text(options["html_path"], html_page.render(reports, hints))

    def as_format() -> None:
        from grader.cli.export import make_setting

        setting = make_setting("", None, None, "visible")
        text = formats.render(options["format_name"], entries(reports), setting)
        frame.write_text(str(options["output"] or "-"), text)

    unwritten = None
    for name, write_one in (("json_path", as_json), ("html_path", as_page), ("format_name", as_format)):
        if options[name] is not None:
            try:
                write_one()
            except GraderFault as fault:
                unwritten = unwritten or fault
    return unwritten


def entries(reports: Sequence[Report]) -> list[Any]:
    """One student's reports as what exports read."""
    from grader.batch.store import now
    from grader.reports.entry import Entry, Person

    person = Person("student")
    return [Entry(person, report, now()) for report in reports]


def _line(report: Report) -> Any:
    from rich.text import Text

    if report.status != "graded" or report.score is None:
        return Text.assemble(("! ", "magenta"), report.exercise, ("   not graded", "magenta"))
    mark, colour = ("✓", "green") if report.passed else ("✗", "red")
    points = f"{report.score:g} of {report.max_score:g} points"
    return Text.assemble((f"{mark} ", colour), report.exercise, (f"   {points}", "dim"))


def _print_rest(
    console: Any, reports: Sequence[Report], untouched: Sequence[str], found: dict[str, Path], verbose: bool
) -> None:
    """What is left to do, after the line of each exercise."""
    from rich.text import Text

    from grader.reports import terminal

    if untouched:
        console.print(Text(f"– not begun: {', '.join(untouched)}", style="dim"))
    failing = [report for report in reports if not report.passed]
    for report in failing if verbose else failing[:1]:
        console.print()
        terminal.render(report, console, verbose)
    console.print()
    console.print(f"{len(reports) - len(failing)} of {len(reports)} passed", style="bold")
    for report in failing[1:] if not verbose else ():
        console.print(f"more: grade {report.exercise} {found[report.exercise]}", style="dim", soft_wrap=True)


__all__ = ["entries", "find", "grade_all", "write"]
