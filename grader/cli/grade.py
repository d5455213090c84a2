"""``grade``: the student's command."""

from __future__ import annotations

import sys
from pathlib import Path

from grader.errors import TensorgradeError
from grader.sandbox import launch
from grader.spec.library import find_library, peek_framework


def main() -> None:
    """Entry point. The framework's import is the longest wait, so it starts before this process imports anything slow."""
    launch.settle_in()
    zygote = _launch_early(sys.argv[1:])
    from grader.cli import frame
    from grader.cli.student import build

    try:
        frame.run(build(zygote), "grade")
    finally:
        if zygote is not None:
            zygote.control.close()


def _launch_early(arguments: list[str]) -> launch.Zygote | None:
    """Start the zygote when the command line plainly asks for a grading on Linux; None leaves the start to later."""
    if sys.platform != "linux" or not arguments or arguments[0].startswith("-"):
        return None
    quick = {"--start", "--show", "--hint", "--help", "--all"}
    if quick & set(arguments) or _option(arguments, "--runner") == "exec":
        return None
    exercises = _option(arguments, "--exercises")
    try:
        folder = find_library(Path(exercises) if exercises else None).find(arguments[0])
        framework = peek_framework(folder) if folder is not None else None
        return launch.launch(framework, isolate=_option(arguments, "--isolation") != "off") if framework else None
    except (TensorgradeError, OSError):
        # Whatever is wrong is said in full later, when the command line is read properly.
        return None


def _option(arguments: list[str], name: str) -> str | None:
    for index, word in enumerate(arguments):
        if word == name and index + 1 < len(arguments):
            return arguments[index + 1]
        if word.startswith(name + "="):
            return word.partition("=")[2]
    return None
