"""Legal things that students do, each in a right submission: under the lock they work unchanged, or are told why not."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import ordinary_user
import pytest
from conftest import ROOT

from grader.diagnose import Diagnostician
from grader.grade import Options, grade
from grader.lockdown import Lockdown
from grader.model import Report
from grader.oracle import ReferenceOracle
from grader.sandbox import isolation
from grader.sandbox.runner import Runner, make_runner
from grader.spec.exercise import Exercise
from grader.submission import read_submission

SEED = 5


@dataclass(frozen=True)
class Honest:
    """One file of ``fixtures/honest``. ``says`` and ``cause`` are given where it is refused, which must be said clearly."""

    path: Path
    exercise: str
    says: str | None
    cause: str | None
    needs: str | None


def read(path: Path) -> Honest:
    text = path.read_bytes().decode("utf-8-sig", "replace")
    found = dict(re.findall(r"^# (honest|exercise|says|cause|needs): (.*?)\r?$", text, re.MULTILINE))
    assert "honest" in found, f"{path}: the first line must be `# honest: …`"
    return Honest(path, found.get("exercise", "softmax"), found.get("says"), found.get("cause"), found.get("needs"))


HONEST = [read(path) for path in sorted((ROOT / "fixtures" / "honest").glob("*.py"))]
Graded = Callable[[Honest, str], Report]


@pytest.fixture(scope="module")
def graded(exercise_of: Callable[[str], Exercise], warm: Callable[[str], Runner]) -> Iterator[Graded]:
    """Grades a file with workers started in one way; what the reference answers is asked once."""
    oracles: dict[str, ReferenceOracle] = {}
    started: dict[tuple[str, str], Runner] = {}
    lockdown = Lockdown("auto")

    def run(honest: Honest, way: str) -> Report:
        exercise = exercise_of(honest.exercise)
        framework = exercise.spec.framework
        if honest.exercise not in oracles:
            oracles[honest.exercise] = ReferenceOracle(warm(framework), exercise)
        if way == "exec" and (framework, way) not in started:
            started[framework, way] = make_runner(way, framework)
        runner = started[framework, way] if way == "exec" else warm(framework)
        return grade(
            exercise, read_submission(honest.path), runner, Options(seed=SEED), oracles[honest.exercise],
            Diagnostician(runner, replace(exercise, misconceptions=None)), lockdown,
        )  # fmt: skip

    yield run
    for oracle in oracles.values():
        oracle.close()
    for runner in started.values():
        runner.close()


@pytest.fixture(scope="module")
def level() -> str:
    return isolation.probe().level


@pytest.mark.parametrize("way", ["fork", "exec"])
@pytest.mark.parametrize("honest", HONEST, ids=lambda honest: honest.path.stem)
def test_honest_code(honest: Honest, way: str, graded: Graded, level: str) -> None:
    if honest.needs is not None and importlib.util.find_spec(honest.needs) is None:
        pytest.skip(f"{honest.needs} is not installed")
    report = graded(honest, way)
    assert report.status == "graded", report.reason
    # A worker that was started by exec lives in the namespaces of the grader; all else holds both ways.
    assert report.isolation["level"] == ("no-namespaces" if way == "exec" and level == "full" else level)
    failed = {check.id: check.message for check in report.checks if check.verdict != "pass" and not check.neutral}
    if honest.says is None:
        assert report.passed and not failed
        return
    first = report.checks[0]
    assert not report.passed and first.verdict == "error"
    assert first.cause == honest.cause, first.message
    assert honest.says in first.message
    # What to do instead, or why it is so.
    assert first.hint or honest.cause == "exception"


def test_an_ordinary_user_grades_honest_code_too(tmp_path: Path) -> None:
    """The same files, graded by a user without any privilege (user namespaces where the system grants them)."""
    run = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "fork", __file__]
    try:
        command = ordinary_user.command(run, tmp_path)
    except LookupError as reason:
        pytest.skip(str(reason))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, stdin=subprocess.DEVNULL, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-4000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed[1]) >= len(HONEST) - 1
