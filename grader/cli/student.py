"""The ``grade`` command: parse, call, print, exit code."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click

from grader import progress
from grader.cli import frame
from grader.errors import AuthorError, GraderFault, TensorgradeError, UsageError
from grader.model import Report
from grader.sandbox.launch import Zygote
from grader.sandbox.runner import ForkRunner, Runner, make_runner
from grader.spec.exercise import Exercise
from grader.spec.library import Library

EPILOG = """
\b
Examples:
  grade                                   the exercises and what you passed
  grade softmax --start                   write ./softmax.py to begin with
  grade softmax                           grade ./softmax.py
  grade softmax mine.py --seed 7          the same cases as another run
  grade softmax --hint                    one hint, each time one more
  grade softmax --watch                   grade at every save
  grade softmax --html softmax.html       a page with pictures of what is wrong
  grade --all                             every exercise begun in this folder
"""


def exercise_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    """The exercises that begin with what is typed, with their titles, for a shell's completion."""
    from click.shell_completion import CompletionItem

    from grader.spec import load

    try:
        library = frame.open_library(context.params.get("exercises"), None)
        found = load.folders(library)
    except (TensorgradeError, OSError):
        return []
    return [
        CompletionItem(name, help=title_of(folder)) for name, folder in found.items() if name.startswith(incomplete)
    ]


def build(zygote: Zygote | None) -> click.Command:
    """The command; ``zygote`` is one that was started early for it."""

    @click.command("grade", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
    @click.argument("exercise", required=False, shell_complete=exercise_names)
    @click.argument("submission", required=False, type=click.Path(path_type=Path))
    @click.option("--start", is_flag=True, help="Write the stub as ./EXERCISE.py and say what to do next.")
    @click.option("--force", is_flag=True, help="With --start: overwrite the file.")
    @click.option("--show", is_flag=True, help="Print the statement.")
    @click.option("--hint", is_flag=True, help="Print the next hint.")
    @click.option("-v", "--verbose", is_flag=True, help="Every failing check in full.")
    @click.option("--watch", "watch_", is_flag=True, help="Grade again at every save, until q.")
    @click.option(
        "--all", "all_", is_flag=True, help="Grade every exercise found in a folder (here, or the one named)."
    )
    @click.option(
        "--format",
        "format_name",
        metavar="NAME",
        help="Write the result as junit, gradescope, github … instead (grader export lists them).",
    )
    @click.option(
        "--output",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Where --format goes (default: standard output, and then nothing else goes there).",
    )
    @click.option(
        "--html",
        "html_path",
        metavar="FILE",
        help="Write the result as a page with pictures; - is standard output, and then nothing else goes there.",
    )
    @click.option(
        "--save-case",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Write the inputs of the failing case shown (or of --case) and a script that calls your function on them.",
    )
    @frame.grading_options
    @frame.library_options
    @click.version_option(package_name="tensorgrade", prog_name="tensorgrade")
    def grade(
        exercise: str | None,
        submission: Path | None,
        start: bool,
        force: bool,
        show: bool,
        hint: bool,
        verbose: bool,
        watch_: bool,
        all_: bool,
        exercises: Path | None,
        reference: Path | None,
        **options: Any,
    ) -> int:
        """Grade your solution of EXERCISE (./EXERCISE.py unless you name a file); alone, list the exercises."""
        library = frame.open_library(exercises, reference)
        if options["format_name"] is not None:
            from grader.reports import formats

            formats.find(options["format_name"])
        elif options["output"] is not None:
            raise UsageError("--output says where --format goes", "--format NAME --output FILE")
        taken = on_standard_output(options)
        if len(taken) > 1:
            last = "--output FILE" if taken[-1] == "--format" else "--html FILE"
            raise UsageError(f"{' and '.join(taken)} cannot both go to standard output", last)
        if all_:
            from grader.cli.folder import grade_all

            if submission is not None:
                raise UsageError("--all takes one folder", "grade --all DIR")
            return grade_all(Path(exercise or "."), library, verbose, options)
        if exercise is None:
            return catalogue(library)
        from grader.spec import load

        if start:
            return write_stub(load.load(library, exercise), force)
        if show:
            return show_statement(load.load(library, exercise))
        if hint:
            return show_hint(load.load(library, exercise))
        if watch_:
            from grader.cli.watch import watch

            loaded = load.load(library, exercise)
            # A file that is yet to be written is waited for; nobody saves the stub in the library.
            path = submission or find_submission(loaded)
            return watch(
                loaded, path if path != loaded.stub else Path(f"{exercise}.py"), library, zygote, verbose, options
            )
        return grade_one(load.load(library, exercise), submission, verbose, zygote, library, options)

    return grade


def grade_one(
    exercise: Exercise,
    submission: Path | None,
    verbose: bool,
    zygote: Zygote | None,
    library: Library,
    options: dict[str, Any],
) -> int:
    """Grade one submission, print or write the report, and return the exit code."""
    from grader.grade import Options, fresh_seed, grade
    from grader.lockdown import Lockdown
    from grader.reports import report_json, terminal
    from grader.submission import read_submission

    path = submission or find_submission(exercise)
    if not path.exists() and not path.is_symlink():
        raise UsageError(f"there is no file {path}", f"grade {exercise.name} --start")
    if path.is_dir():
        raise UsageError(f"{path} is a folder", f"grade {exercise.name} FILE")
    lockdown = Lockdown(options["isolation"])
    handed_in = read_submission(path)
    asked = Options(
        seed=fresh_seed(exercise) if options["seed"] is None else options["seed"],
        cases=options["cases"],
        case=options["case"],
        time_limit=options["time_limit"],
        memory_limit=options["memory_limit"],
    )
    saved = None
    for last in (False, True):
        runner = start_runner(exercise, None if last else zygote, options)
        try:
            report = grade(exercise, handed_in, runner, asked, lockdown=lockdown)
            if report.status == "graded" and options["save_case"] is not None:
                from grader import savecase

                saved = savecase.save(exercise, handed_in, runner, asked, report, options["save_case"], lockdown)
            # The process that starts workers may be ended from outside; asking once more is honest, twice is not.
            if report.status == "graded" or last or not runner.died:
                break
        finally:
            runner.close()
    if report.passed and options["case"] is None:
        progress.remember_pass(exercise.name)
    unwritten = None
    if options["json_path"] is not None:
        try:
            frame.write_text(options["json_path"], report_json.render(report))
        except GraderFault as fault:
            # Said after the report, which the terminal shall have at least.
            unwritten = fault
    if options["html_path"] is not None or options["format_name"] is not None:
        from grader.cli.folder import write

        # Beside --json, which was written already.
        hints = [exercise.name] if exercise.spec.hints else []
        unwritten = write([report], {**options, "json_path": None}, hints) or unwritten
    if not on_standard_output(options):
        console = frame.console()
        if submission is None and path == exercise.stub:
            say_stub(exercise, console)
        terminal.render(report, console, verbose)
        if saved is not None:
            console.print(f"saved the case {saved.token}: python {saved.script}", soft_wrap=True)
        elif options["save_case"] is not None:
            console.print("no case was saved: nothing fails; name one with --case")
        after(report, exercise, library, console, begun=submission is not None or path != exercise.stub)
    if unwritten is not None:
        raise unwritten
    return exit_code(report)


def on_standard_output(options: dict[str, Any]) -> list[str]:
    """Which of the options send their result to standard output, where nothing else may go then."""
    found = [name for name, key in (("--json -", "json_path"), ("--html -", "html_path")) if options[key] == "-"]
    return [*found, *(["--format"] if options["format_name"] is not None and options["output"] is None else [])]


def start_runner(exercise: Exercise, zygote: Zygote | None, options: dict[str, Any]) -> Runner:
    if zygote is not None:
        return ForkRunner(zygote)
    return make_runner(options["runner"], exercise.spec.framework, isolate=options["isolation"] != "off")


def exit_code(report: Report) -> int:
    if report.status != "graded":
        return 3
    return 0 if report.passed else 1


def find_submission(exercise: Exercise) -> Path:
    """``./EXERCISE.py``, ``./EXERCISE.ipynb``, then the stub."""
    here = (Path(f"{exercise.name}{suffix}") for suffix in (".py", ".ipynb"))
    return next((path for path in here if path.exists()), exercise.stub)


def say_stub(exercise: Exercise, console: Any) -> None:
    """That no file of the student's was found: the page that follows is about the exercise's own stub."""
    from rich.text import Text

    said = f"There is no ./{exercise.name}.py here; this page is about the stub."
    console.print(Text(said, style="bold"))
    console.print(f"  to begin here:           grade {exercise.name} --start", soft_wrap=True)
    console.print(f"  your file is elsewhere:  grade {exercise.name} FILE", soft_wrap=True)
    console.print()


def after(report: Report, exercise: Exercise, library: Library, console: Any, begun: bool = True) -> None:
    """One line on what to do next; ``begun`` is false where only the stub was there to be graded."""
    from rich.text import Text

    if report.status != "graded":
        return
    if report.passed:
        opened = unlocked(library, exercise.name)
        if opened:
            console.print(Text(f"this unlocks: {', '.join(opened)}", style="dim"))
        following = next_exercise(library, exercise.name)
        if following is None:
            console.print(Text("every exercise passes: grade lists them", style="dim"))
        else:
            start = "" if Path(f"{following}.py").exists() else " --start"
            console.print(Text(f"next: grade {following}{start}", style="dim"))
    elif not begun:
        console.print(Text(f"to begin: grade {exercise.name} --start", style="dim"))
    elif exercise.spec.hints:
        console.print(Text(f"a hint: grade {exercise.name} --hint", style="dim"))


def next_exercise(library: Library, name: str | None = None) -> str | None:
    """What to do after ``name``: what it unlocks, in its own track before others; else the first that is open in track order.

    Open is what is not passed yet and whose prerequisites all are. Without ``name``, and where nothing was unlocked, this
    is the same for the catalogue and for a report.
    """
    from grader.spec.load import folders

    needed = prerequisites(library)
    passed = progress.read().passed | ({name} if name is not None else set())
    if name is not None:
        opened = unlocked(library, name)
        found = folders(library)
        inside = [other for other in opened if found[other].parent == found[name].parent]
        if opened:
            return (inside or opened)[0]
    left = [other for other in needed if other not in passed]
    return next((other for other in left if needed[other] <= passed), left[0] if left else None)


def unlocked(library: Library, name: str) -> list[str]:
    """Exercises that build on ``name``, are not passed yet, and whose other prerequisites are passed."""
    passed = progress.read().passed | {name}
    return [
        other
        for other, needed in prerequisites(library).items()
        if name in needed and needed <= passed and other not in passed
    ]


def prerequisites(library: Library) -> dict[str, frozenset[str]]:
    """What each exercise builds on, by name, in track order; names that do not exist here are left out."""
    from grader.spec import document
    from grader.spec.load import folders

    found = folders(library)
    needed = {}
    for name, folder in found.items():
        data = document.read(folder / "exercise.yaml").data
        wanted = data.get("builds_on") if isinstance(data, dict) else None
        needed[name] = frozenset(str(other) for other in wanted or () if other in found and other != name)
    return needed


def catalogue(library: Library) -> int:
    """The exercises by track, what passes so far, and what to try next."""
    from rich.table import Table
    from rich.text import Text

    from grader.spec import load

    console = frame.console()
    passed = progress.read().passed
    needed = prerequisites(library)
    order = list(needed)
    following = next_exercise(library)
    for folder in load.ordered_tracks(library):
        track = load.track_of(folder)
        inside = [name for name in order if (folder / name / "exercise.yaml").is_file()]
        done = sum(name in passed for name in inside)
        console.print(Text.assemble((track.title, "bold"), (f"   {done} of {len(inside)} passed", "dim")))
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(width=3)
        grid.add_column(no_wrap=True)
        grid.add_column()
        for name in inside:
            mark = (
                Text("  ✓", style="green")
                if name in passed
                else Text("  →" if name == following else "  ·", style="bold" if name == following else "dim")
            )
            waiting = sorted(needed[name] - passed) if name not in passed else []
            about = title_of(folder / name) + (f" (after {', '.join(waiting)})" if waiting else "")
            grid.add_row(mark, Text(name), Text(about, style="dim"))
        console.print(grid)
        console.print()
    if following is None:
        console.print("Everything passes.")
    else:
        console.print(Text.assemble("next: ", (f"grade {following} --start", "bold")))
        if not passed:
            console.print(
                f"That writes {following}.py here. Put your solution into it, then run: grade {following}",
                highlight=False,
            )
    return 0


def title_of(folder: Path) -> str:
    """The title line of an exercise, without judging the rest of its file."""
    from grader.spec import document

    data = document.read(folder / "exercise.yaml").data
    return str(data.get("title", "")) if isinstance(data, dict) else "(its exercise.yaml is no YAML mapping)"


def write_stub(exercise: Exercise, force: bool) -> int:
    """Copy the stub here; never over an existing file without ``force``."""
    target = Path(f"{exercise.name}.py")
    if target.exists() and not force:
        raise UsageError(f"{target} already exists", f"grade {exercise.name}, or --start --force to overwrite it")
    try:
        shutil.copyfile(exercise.stub, target)
    except FileNotFoundError:
        raise AuthorError([], f"grader lint {exercise.name}") from None
    except OSError as error:
        raise GraderFault(f"{target} cannot be written: {error.strerror}", "go to a folder of your own") from None
    console = frame.console()
    console.print(f"wrote {target}", style="bold")
    console.print()
    print_opening(exercise, console)
    console.print()
    console.print(f"read on:  grade {exercise.name} --show", highlight=False)
    console.print(f"then:     edit {target} and run  grade {exercise.name}", highlight=False)
    return 0


def print_opening(exercise: Exercise, console: Any) -> None:
    """The statement's title and what stands before its first section; the summary where that cannot be read."""
    from rich.markdown import Markdown

    try:
        opening = exercise.statement.read_text(encoding="utf-8").partition("\n## ")[0].strip()
    except (OSError, UnicodeDecodeError):
        opening = ""
    title, _, text = opening.partition("\n")
    console.print(title.lstrip("# ") or exercise.spec.title, style="bold", highlight=False)
    console.print(Markdown(text.strip() or exercise.spec.summary))


def show_statement(exercise: Exercise) -> int:
    from rich.markdown import Markdown

    frame.console().print(Markdown(exercise.statement.read_text(encoding="utf-8")))
    return 0


def show_hint(exercise: Exercise) -> int:
    hints = exercise.spec.hints
    if not hints:
        raise UsageError(f"`{exercise.name}` has no hints", f"grade {exercise.name} --show")
    index = progress.next_hint(exercise.name, len(hints))
    console = frame.console()
    console.print(f"hint {index + 1} of {len(hints)}", style="bold")
    console.print(hints[index].strip())
    if index + 1 < len(hints):
        console.print(f"one more: grade {exercise.name} --hint", style="dim")
    else:
        console.print("that is the last hint", style="dim")
    return 0
