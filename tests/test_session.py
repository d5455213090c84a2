"""Gradings that share what is warm give the reports that they give alone."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from grader.grade import Options, grade
from grader.lockdown import policy
from grader.model import Report
from grader.reports import record, report_json
from grader.sandbox.runner import ForkRunner, Limits, Runner
from grader.session import Session
from grader.spec.exercise import Exercise
from grader.submission import Student, Submission, read_submission

FIXTURES = ROOT / "fixtures"


@pytest.fixture
def session() -> Iterator[Session]:
    made = Session()
    yield made
    made.close()


def timeless(report: Report) -> dict[str, Any]:
    body = report_json.to_dict(report)
    del body["timings"]
    for check in body["checks"]:
        del check["seconds"]
    return body


def some(name: str, count: int) -> list[Submission]:
    right = sorted((FIXTURES / name / "right").glob("*.py"))[:2]
    return [read_submission(path) for path in right + sorted((FIXTURES / name / "wrong").glob("*.py"))[:count]]


@pytest.mark.parametrize("name", ["softmax", "sgd_train_step", "greedy_decode"])
def test_a_shared_report_is_the_one_given_alone(
    name: str, session: Session, exercise_of: Callable[[str], Exercise], warm: Callable[[str], Runner]
) -> None:
    exercise = exercise_of(name)
    options = Options(seed=3)
    submissions = some(name, 4)
    with ThreadPoolExecutor(3) as pool:
        # Twice, so that everything is known the second time.
        shared = list(pool.map(lambda one: session.grade(exercise, one, options), submissions * 2))
    for submission, first, second in zip(submissions, shared, shared[len(submissions) :], strict=False):
        alone = grade(exercise, submission, warm(exercise.spec.framework), options)
        assert timeless(first) == timeless(alone) == timeless(second), submission.path


def test_a_zygote_that_is_killed_is_replaced(session: Session, exercise_of: Callable[[str], Exercise]) -> None:
    exercise = exercise_of("softmax")
    submission = some("softmax", 0)[0]
    assert session.grade(exercise, submission, Options(seed=1)).passed
    runner = session.runner("numpy")
    assert isinstance(runner, ForkRunner)
    os.kill(runner._process.pid, signal.SIGKILL)
    runner._process.wait()
    assert session.grade(exercise, submission, Options(seed=1)).passed
    assert session.runner("numpy") is not runner


def test_a_report_comes_back_from_its_record(session: Session, exercise_of: Callable[[str], Exercise]) -> None:
    for submission in some("causal_attention", 6):
        report = session.grade(exercise_of("causal_attention"), submission, Options(seed=1))
        text = record.dump(report)
        assert json.loads(text)["exercise"] == "causal_attention"
        assert record.load(text) == report


WAITING = """
import time


def softmax(x, axis):
    time.sleep(0.3)
    return x
"""


def test_calls_that_each_wait_below_the_limit_do_not_wait_for_ever(
    exercise_of: Callable[[str], Exercise], warm: Callable[[str], Runner], tmp_path: Path
) -> None:
    from grader import cases

    exercise = exercise_of("softmax")
    submission = Submission("softmax.py", WAITING.encode(), None)
    limits = replace(Limits.of(1.0), wall_seconds=0.6)
    student = Student(warm("numpy"), exercise, submission, policy("auto", limits), limits)
    statuses = []
    for index in range(40):
        statuses.append(student.call(cases.draw(exercise, "random", index, 1), "float64").status)
        if statuses[-1] == "not_run":
            break
    student.close()
    # A fresh worker after each end; what was decided about the submission stays decided.
    assert statuses[-2:] == ["timeout", "not_run"]
    assert 6 < statuses.count("returned") < 20


def test_a_mistake_is_named_for_each_of_many_at_once(exercise_of: Callable[[str], Exercise]) -> None:
    """All of them are the first to ask for the misconceptions and their source."""
    exercise = exercise_of("softmax")
    wrong = next(
        path for path in sorted((FIXTURES / "softmax/wrong").glob("*.py")) if "# misconception:" in path.read_text()
    )
    submission = read_submission(wrong)
    for _ in range(4):
        session = Session()
        try:
            with ThreadPoolExecutor(6) as pool:
                waiting = [pool.submit(session.grade, exercise, submission, Options(seed=1)) for _ in range(6)]
                reports = [one.result() for one in waiting]
        finally:
            session.close()
        assert all(report.diagnoses for report in reports)
