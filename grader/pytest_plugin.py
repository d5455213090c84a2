"""A pytest plugin: one test per check of an exercise, for continuous integration that speaks pytest.

It does nothing unless asked to, by ``--tensorgrade EXERCISE=FILE`` or by the ini option ``tensorgrade``:

    pytest --tensorgrade softmax=student/softmax.py

A check that fails is a failure with the text that ``grade`` prints, an advisory one an expected failure, one that was
not run is skipped, and what the grader could not grade is an error. A submission is graded once, when its first test
runs. Nothing of the grader is imported before that is asked for, since pytest loads this module in every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from grader.model import CheckResult, Report
    from grader.session import Session
    from grader.spec.exercise import Exercise
    from grader.spec.library import Library

SEED = "tensorgrade_seed"


@dataclass
class Grading:
    """What the tests of one run share: a session that is started when the first test needs it."""

    library: Library
    seed: int
    isolation: str
    session: Session | None = None
    reports: dict[str, Report] = field(default_factory=dict)

    def report(self, exercise: Exercise, path: Path) -> Report:
        from grader.grade import Options
        from grader.session import Session
        from grader.submission import read_submission

        key = f"{exercise.name}={path}"
        if key not in self.reports:
            self.session = self.session or Session(isolation=self.isolation)
            self.reports[key] = self.session.grade(exercise, read_submission(path), Options(seed=self.seed))
        return self.reports[key]

    def close(self) -> None:
        if self.session is not None:
            self.session.close()


GRADING = pytest.StashKey[Grading]()


class CheckFailed(Exception):
    """A check that does not pass; its text is what a student reads."""


class NotGraded(Exception):
    """The grader could not grade: never the submission's fault."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tensorgrade", "exercises about attention and Transformers")
    group.addoption(
        "--tensorgrade",
        action="append",
        default=[],
        metavar="EXERCISE=FILE",
        help="grade FILE as a solution of EXERCISE, one test per check (may be given several times)",
    )
    group.addoption(
        "--tensorgrade-seed", type=int, metavar="N", help="draw the cases of this seed (default: a fresh one)"
    )
    group.addoption(
        "--tensorgrade-isolation",
        choices=("auto", "require", "off"),
        default="auto",
        help="how firmly FILE is locked in",
    )
    group.addoption("--tensorgrade-exercises", metavar="DIR", help="the folder of the exercises")
    group.addoption("--tensorgrade-reference", metavar="DIR", help="the folder of the references")
    parser.addini("tensorgrade", "as --tensorgrade, one EXERCISE=FILE a line, seen from the ini file", "linelist", [])


def pytest_configure(config: pytest.Config) -> None:
    if _asked(config) and config.getoption(SEED) is None:
        from grader.grade import fresh_seed

        setattr(config.option, SEED, getattr(config, "workerinput", {}).get(SEED, fresh_seed()))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Where pytest-xdist deals the tests out to several processes, all of them must meet the same cases."""
    seed = node.config.getoption(SEED)
    if seed is not None:
        node.workerinput[SEED] = seed


def pytest_report_header(config: pytest.Config) -> list[str]:
    asked = _asked(config)
    return [f"tensorgrade: {', '.join(f'{name}={path}' for name, path in asked)}"] if asked else []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the checks before others choose among the tests, so that ``-k`` and ``-m`` see them too."""
    asked = _asked(config)
    if not asked:
        return
    from grader.errors import TensorgradeError
    from grader.spec import load
    from grader.spec.library import find_library

    try:
        folders = [config.getoption(f"tensorgrade_{kind}") for kind in ("exercises", "reference")]
        exercises, reference = (Path(folder) if folder else None for folder in folders)
        library = find_library(exercises, reference, Path(config.rootpath))
        grading = Grading(library, config.getoption(SEED), config.getoption("tensorgrade_isolation"))
        config.stash[GRADING] = grading
        for name, path in asked:
            if not path.is_file():
                raise pytest.UsageError(f"--tensorgrade {name}={path}: there is no such file")
            exercise = load.load(library, name)
            collector = Submission.from_parent(session, name=name, path=path, exercise=exercise, grading=grading)
            items.extend(collector.collect())
    except TensorgradeError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_unconfigure(config: pytest.Config) -> None:
    grading = config.stash.get(GRADING, None)
    if grading is not None:
        grading.close()


def _asked(config: pytest.Config) -> list[tuple[str, Path]]:
    """What is to be graded: (exercise, file). Raises `pytest.UsageError` for anything else than EXERCISE=FILE."""
    here = config.inipath.parent if config.inipath is not None else config.rootpath
    given = [(text, config.invocation_params.dir) for text in config.getoption("tensorgrade")]
    given += [(text, here) for text in config.getini("tensorgrade")]
    found = []
    for text, folder in given:
        name, equals, path = text.partition("=")
        if not (name.strip() and equals and path.strip()):
            raise pytest.UsageError(f"--tensorgrade {text}: write it as EXERCISE=FILE")
        found.append((name.strip(), folder / path.strip()))
    return found


class Submission(pytest.Collector):
    """One submission to one exercise."""

    def __init__(self, *, exercise: Exercise, grading: Grading, **values: Any) -> None:
        super().__init__(**values)
        self.exercise = exercise
        self.grading = grading

    @classmethod
    def from_parent(cls, parent: pytest.Session, **values: Any) -> Submission:  # type: ignore[override]
        path = values["path"]
        top = parent.config.rootpath
        shown = path.relative_to(top).as_posix() if path.is_relative_to(top) else path.name
        made: Submission = super().from_parent(parent, nodeid=f"{shown}::{values['name']}", **values)
        return made

    def collect(self) -> Iterator[Check]:
        from grader.questions import questions

        for question in questions(self.exercise):
            yield Check.from_parent(self, name=question.id)

    def report(self) -> Report:
        return self.grading.report(self.exercise, self.path)


class Check(pytest.Item):
    """One check."""

    parent: Submission

    def _result(self) -> CheckResult:
        return next(check for check in self.parent.report().checks if check.id == self.name)

    def setup(self) -> None:
        # An exception here is an error, and one in runtest() a failure.
        report = self.parent.report()
        if report.status != "graded" or self._result().verdict == "grader_error":
            raise NotGraded(f"{report.exercise} could not be graded: {report.reason or self._result().message}")

    def runtest(self) -> None:
        from grader.reports import digest

        report, check = self.parent.report(), self._result()
        state = digest.state(report, check)
        if state in ("blocked", "neutral"):
            pytest.skip(digest.claim(check))
        if state == "failed" and check.advisory:
            pytest.xfail(f"advisory, does not count: {digest.claim(check)}")
        if state == "failed":
            worth = digest.points(check.points, check.max_points)
            raise CheckFailed(f"{check.title}   {worth}\n{digest.feedback(check)}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        # The text alone: a traceback of the grader's own tells a student nothing.
        if isinstance(excinfo.value, CheckFailed | NotGraded):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.parent.name}: {self.name}"
