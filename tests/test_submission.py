"""Calls that are sent ahead come out as calls that are made one by one, whatever the submission does in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from toys import exercise, submission

from grader import cases
from grader.cases import Case
from grader.errors import GraderFault
from grader.sandbox.runner import Limits, Runner
from grader.spec.exercise import Exercise
from grader.submission import AHEAD, Student

Warm = Callable[[str], Runner]
COUNT = 3 * AHEAD

BODY = """
framework: numpy
dims: {N: 2..4}
inputs: {x: {shape: [N]}}
cases: {random: 4}
checks: [{kind: values, cases: random}]
"""
LARGE = BODY.replace("2..4", "200000..200001")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Exercise:
    return exercise(tmp_path_factory.mktemp("ahead"), BODY, "def toy(x):\n    return 2 * x\n")


def calls_of(toy: Exercise, count: int = COUNT) -> list[tuple[Case, str]]:
    return [(cases.draw(toy, "random", index, 1), "float64") for index in range(count)]


def student(toy: Exercise, source: str, runner: Runner) -> Student:
    return Student(runner, toy, submission(source), {"layers": "off"}, Limits.of(0.5))


def seen(outcomes: Iterator[Any] | list[Any]) -> list[Any]:
    return [
        (each.status, each.value.raw.tolist() if each.returned else each.error and each.error.type) for each in outcomes
    ]


@pytest.mark.parametrize(
    "body",
    [
        "return 2 * x",
        "raise ValueError(calls)",
        "assert calls % 3\n    return x * calls",
        "if calls == 5: os._exit(3)\n    return x * calls",
        "if calls % 2 == 0: os._exit(3)\n    return x * calls",
        "if calls == 3:\n        while True: pass\n    return x * calls",
        "if calls > 1:\n        while True: pass\n    return x",
        "if calls == 4: os.close(1)\n    print('x' * 100_000)\n    return x * calls",
        "if calls == 2: os.kill(os.getpid(), 11)\n    return x",
        "if calls == 6: raise SystemExit(0)\n    return x * calls",
    ],
    ids=[
        "right", "raises", "raises now and then", "exits once", "exits at every second", "loops once", "loops at every second",
        "prints", "crashes", "leaves politely",
    ],
)  # fmt: skip
def test_as_one_by_one(body: str, toy: Exercise, warm: Warm) -> None:
    source = f"import os\ncalls = 0\ndef toy(x):\n    global calls\n    calls += 1\n    {body}\n"
    calls = calls_of(toy)
    single, ahead = student(toy, source, warm("numpy")), student(toy, source, warm("numpy"))
    try:
        wanted = seen([single.call(case, dtype) for case, dtype in calls])
        assert seen(ahead.call_each(calls)) == wanted
        assert ahead.stopped == single.stopped
        assert ahead.output == single.output
    finally:
        single.close()
        ahead.close()


def test_requests_larger_than_the_pipe(tmp_path: Path, warm: Warm) -> None:
    large = exercise(tmp_path, LARGE, "def toy(x):\n    return 2 * x\n")
    calls = calls_of(large, 6)
    one = student(large, "def toy(x):\n    return 2 * x\n", warm("numpy"))
    try:
        for (case, _), outcome in zip(calls, one.call_each(calls), strict=True):
            assert outcome.value.raw.shape == case.arguments["x"].values.shape
    finally:
        one.close()


def test_results_that_are_too_many_end_the_row(toy: Exercise, warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grader.submission.MAX_KEPT", 20_000)
    source = "import numpy as np\ndef toy(x):\n    return np.zeros(1000)\n"
    single, ahead = student(toy, source, warm("numpy")), student(toy, source, warm("numpy"))
    calls = calls_of(toy)
    try:
        wanted = [single.call(case, dtype).status for case, dtype in calls]
        assert [outcome.status for outcome in ahead.call_each(calls)] == wanted
        assert set(wanted) == {"returned", "too_large", "not_run"}
    finally:
        single.close()
        ahead.close()


def test_nothing_is_asked_in_between(toy: Exercise, warm: Warm) -> None:
    one = student(toy, "def toy(x):\n    return x\n", warm("numpy"))
    calls = calls_of(toy)
    try:
        next(one.call_each(calls))
        with pytest.raises(GraderFault, match="answers to earlier calls"):
            one.call(*calls[-1])
        with pytest.raises(GraderFault, match="other answers to give"):
            one._worker.request({"op": "call", "id": 0, "mode": "plain"}, {"args": ()})  # type: ignore[union-attr]
    finally:
        one.close()
