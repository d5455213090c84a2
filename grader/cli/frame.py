"""What every command shares: options, error texts, exit codes, and consoles."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from grader.errors import AuthorError, GraderFault, TensorgradeError, UsageError, crash_file
from grader.spec.library import Library, find_library

F = TypeVar("F", bound=Callable[..., Any])
MIN_WIDTH = 40


def library_options(command: F) -> F:
    """``--exercises`` and ``--reference``."""
    folder = click.Path(path_type=Path)
    for option in (
        click.option(
            "--reference", type=folder, metavar="DIR", help="Folder of the references (default: beside the exercises)."
        ),
        click.option(
            "--exercises",
            type=folder,
            metavar="DIR",
            help="Folder of the tracks (default: found from here upwards, then the installed ones).",
        ),
    ):
        command = option(command)
    return command


def _seed(command: F) -> F:
    return click.option(
        "--seed",
        type=click.IntRange(0),
        metavar="N",
        help="Draw the cases of this seed (default: a fresh one, printed afterwards).",
    )(command)


def _class_seed(command: F) -> F:
    return click.option(
        "--seed",
        type=click.IntRange(0),
        metavar="N",
        help="The seed that everyone meets (default: the store's own, drawn once and kept secret).",
    )(command)


def _run_options(command: F) -> F:
    """How a run is made, whether of one submission or of many."""
    for option in reversed(
        (
            click.option(
                "--cases",
                type=click.IntRange(0, 500),
                metavar="N",
                help="Random cases per exercise (default: the exercise's).",
            ),
            click.option(
                "--isolation",
                type=click.Choice(["auto", "require", "off"]),
                default="auto",
                show_default=True,
                help="How firmly a submission must be locked in.",
            ),
            click.option(
                "--runner",
                type=click.Choice(["fork", "exec"]),
                default="fork",
                hidden=True,
                help="How workers are started (exec is what platforms without fork use).",
            ),
            click.option(
                "--time-limit",
                type=click.FloatRange(0, min_open=True),
                metavar="SECONDS",
                help="Computing time per call (default: the exercise's).",
            ),
            click.option(
                "--memory-limit",
                type=click.FloatRange(0, min_open=True),
                metavar="MB",
                help="Memory above the start (default: the exercise's).",
            ),
        )
    ):
        command = option(command)
    return command


def class_options(command: F) -> F:
    """Options of a run over many submissions."""
    return _class_seed(_run_options(command))


def grading_options(command: F) -> F:
    """Options that every command has that grades one submission."""
    command = _run_options(command)
    for option in reversed(
        (
            click.option("--case", "case", metavar="TOKEN", help="Replay one case, as printed under `rerun`."),
            click.option(
                "--json",
                "json_path",
                metavar="FILE",
                help="Write the report as JSON; - is standard output, and then nothing else goes there.",
            ),
        )
    ):
        command = option(command)
    return _seed(command)


def open_library(exercises: Path | None, reference: Path | None) -> Library:
    return find_library(exercises, reference)


def console(stderr: bool = False) -> Any:
    """A rich console that keeps to plain text where the output is no terminal, at 80 columns unless COLUMNS says otherwise."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None
    if not stream.isatty():
        columns = os.environ.get("COLUMNS", "")
        width = max(MIN_WIDTH, int(columns)) if columns.isdigit() else 80
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False, soft_wrap=False)


def write_text(path: str, text: str) -> None:
    """Write a report to a file (or to standard output for ``-``); raises `GraderFault` when it cannot."""
    if path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    target = Path(path)
    beside = None
    try:
        if target.is_symlink() or (target.exists() and not target.is_file()):
            # A pipe, a terminal, /dev/null, a link to one: written to, never replaced by a file.
            with target.open("w", encoding="utf-8") as file:
                file.write(text)
            return
        # Beside it first, so that a full disk leaves no half a report under its name.
        with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False, encoding="utf-8") as file:
            beside = file.name
            file.write(text)
        os.chmod(beside, 0o644)
        os.replace(beside, target)
    except OSError as error:
        if beside is not None:
            Path(beside).unlink(missing_ok=True)
        raise GraderFault(
            f"{path} cannot be written: {error.strerror}", "name a file in a folder that exists and has room"
        ) from None


def run(command: click.Command, name: str) -> None:
    """Run a click command: known errors as text, unknown ones as a grader's fault with a file to send, never a traceback."""
    try:
        code = command.main(prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        code = _say("interrupted", "", 130)
    except click.ClickException as error:
        code = _say(error.format_message(), f"{name} --help", 2)
    except AuthorError as error:
        code = _say(
            f"the exercise's own files are wrong (not your submission):\n{error}", error.next_step, error.exit_code
        )
    except (UsageError, GraderFault) as error:
        prefix = "the grader could not do this: " if isinstance(error, GraderFault) else ""
        code = _say(prefix + str(error), error.next_step, error.exit_code)
    except TensorgradeError as error:
        code = _say(str(error), "", error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away, as `head` does: nobody has the whole report, so this is no 0 either.
        _discard_output()
        code = 3
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
            _discard_output()
            code = _say(f"the output cannot be written: {error.strerror}", "make room, or send it elsewhere", 3)
        else:
            code = _say(
                f"the grader failed: {type(error).__name__}: {error}", f"send the maintainers {crash_file()}", 3
            )
    sys.exit(code if isinstance(code, int) else 0)


def _discard_output() -> None:
    """Send the rest of standard output nowhere: Python would try to write it once more at its end, and fail again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _say(message: str, next_step: str, code: int) -> int:
    sys.stderr.write(f"{message}\n" + (f"next: {next_step}\n" if next_step else ""))
    return code
