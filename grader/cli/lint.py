"""``grader lint``: parse, call, print, exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grader.cli import frame
from grader.errors import GraderFault

if TYPE_CHECKING:
    from grader.authoring.scope import Watch
    from grader.sandbox.runner import Runner

STYLES = {"title": "bold green", "bad": "bold red", "text": "", "faint": "dim"}
MAX_JOBS = 8
EPILOG = """
\b
Examples:
  grader lint                        every exercise
  grader lint softmax --strict       what our own catalogue is held to
  grader lint --quick --json -       a sample of mutants, for CI; the findings as data
"""


@click.command("lint", short_help="Prove that exercises accept right answers and reject wrong ones.", epilog=EPILOG)
@click.argument("names", nargs=-1, metavar="[EXERCISE]...")
@click.option("--quick", is_flag=True, help="A sample of the mutants and fewer seeds.")
@click.option("--strict", is_flag=True, help="Ask for fixtures, misconceptions, hints and a worked example too.")
@click.option("--json", "json_path", metavar="FILE", help="Write what was found as JSON; - is standard output, alone.")
@click.option(
    "--jobs", type=click.IntRange(1, 64), metavar="N", help="Workers at once (default: one per core, at most 8)."
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Seeds per fixture and misconception (default: 3, quick 2).",
)
@frame.library_options
def lint(
    names: tuple[str, ...],
    quick: bool,
    strict: bool,
    json_path: str | None,
    jobs: int | None,
    seeds: int | None,
    exercises: Path | None,
    reference: Path | None,
) -> int:
    """Prove that exercises accept right answers and reject wrong ones (all of them, unless you name some)."""
    from grader.authoring import summary
    from grader.authoring.complaints import complaint
    from grader.authoring.lint import Linted, Linter
    from grader.authoring.scope import Settings
    from grader.spec import load

    library = frame.open_library(exercises, reference)
    known = load.folders(library)
    for name in names:
        if name not in known:
            load.load(library, name)
    settings = Settings(quick, strict, jobs or usable_cores(), seeds)
    console = None if json_path == "-" else frame.console()
    results: list[Linted] = []
    faults = 0
    with runners() as runner_for:
        for name in dict.fromkeys(names or known):
            try:
                with progress(name) as watch:
                    linted = Linter(library, known, runner_for, settings, watch).lint(known[name])
            except GraderFault as fault:
                # One exercise that could not be looked at does not lose what is known of the others.
                place = (str(known[name] / "exercise.yaml"), 0, 0)
                said = f"the grader could not lint it: {fault}"
                linted = Linted(name, (complaint("grader_fault", place, said, next_step=fault.next_step),))
                faults += 1
            results.append(linted)
            if console is not None:
                for style, text in summary.lines(linted, strict):
                    console.print(text, style=STYLES[style], soft_wrap=True)
    if json_path is not None:
        frame.write_text(json_path, summary.to_json(results, strict, quick))
    wrong = [linted for linted in results if linted.errors(strict)]
    if console is not None and wrong:
        again = " ".join(linted.exercise for linted in wrong[:8])
        console.print(f"next: mend these, then  grader lint {again}{' --strict' if strict else ''}", soft_wrap=True)
    return 3 if faults else 2 if wrong else 0


def usable_cores() -> int:
    """The cores this process may use, at most `MAX_JOBS`."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MAX_JOBS, count)


@contextmanager
def runners() -> Iterator[Callable[[str], Runner]]:
    """One warm runner per framework, started when first asked for and closed together."""
    from grader.sandbox.runner import make_runner

    started: dict[str, Runner] = {}

    def runner_for(framework: str) -> Runner:
        if framework not in started:
            started[framework] = make_runner("fork", framework)
            started[framework].wait_ready()
        return started[framework]

    try:
        yield runner_for
    finally:
        for runner in started.values():
            runner.close()


@contextmanager
def progress(name: str) -> Iterator[Watch]:
    """One bar on standard error, started anew for each stage, where that is a terminal."""
    from grader.authoring.scope import unwatched

    if not sys.stderr.isatty():
        yield unwatched
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns: tuple[Any, ...] = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=frame.console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)

        def watch(stage: str, total: int) -> Callable[[], None]:
            if total:
                bar.reset(task, total=total, description=f"{name}: {stage}")
            return lambda: bar.advance(task)

        yield watch
