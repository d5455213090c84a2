"""Small exercises written on the spot: a YAML text, a reference, and submissions as text."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from grader.grade import Options, grade
from grader.lockdown import Lockdown
from grader.model import CheckResult, Report
from grader.sandbox.runner import Runner
from grader.spec import load
from grader.spec.exercise import Exercise
from grader.submission import Submission

HEAD = "schema: 1\ntitle: A toy\nsummary: A toy.\n"


def text(source: str) -> str:
    return textwrap.dedent(source).lstrip("\n")


def exercise(folder: Path, body: str, solution: str = "", misconceptions: str = "", name: str = "toy") -> Exercise:
    """Write an exercise of track ``toys`` below ``folder`` and read it back as the grader would."""
    here, hidden = folder / "exercises" / "toys" / name, folder / "reference" / "toys" / name
    here.mkdir(parents=True, exist_ok=True)
    hidden.mkdir(parents=True, exist_ok=True)
    (here / "exercise.yaml").write_text(HEAD + text(body))
    if solution:
        (hidden / "solution.py").write_text(text(solution))
    if misconceptions:
        (hidden / "misconceptions.yaml").write_text(
            "schema: 1\nmisconceptions:\n" + textwrap.indent(text(misconceptions), "  ")
        )
    return load.read_exercise(here, folder / "reference")


def submission(source: str) -> Submission:
    return Submission("toy.py", text(source).encode(), "0" * 64)


def graded(toy: Exercise, source: str, runner: Runner, seed: int = 1, **options: Any) -> Report:
    """The report on ``source``, through a real worker."""
    return grade(toy, submission(source), runner, Options(seed=seed, **options), lockdown=Lockdown("off"))


def verdicts(report: Report) -> dict[str, str]:
    assert report.status == "graded", report.reason
    return {check.id: check.verdict for check in report.checks}


def check(report: Report, identity: str) -> CheckResult:
    return next(check for check in report.checks if check.id == identity)
