"""Every right fixture passes and every wrong one fails as its header says, through real workers (`grader lint` asks for more seeds)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT

from grader import fixtures
from grader.grade import Options, grade
from grader.sandbox.runner import Runner
from grader.session import Session
from grader.spec.exercise import Exercise
from grader.submission import read_submission

SEEDS = (2026,)
EXERCISES = sorted(path.parent.name for path in ROOT.glob("exercises/*/*/exercise.yaml"))


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """One for all, as a class has it: the reference answers each case once."""
    made = Session()
    yield made
    made.close()


@pytest.mark.parametrize("name", EXERCISES)
def test_fixtures_are_judged_as_their_headers_say(
    name: str, exercise_of: Callable[[str], Exercise], session: Session
) -> None:
    exercise = exercise_of(name)
    found = fixtures.of(ROOT / "fixtures" / name)
    assert sum(fixture.right for fixture in found) >= 3, "at least three styles of right answer"
    assert any(not fixture.right for fixture in found)
    complaints = []
    for fixture in found:
        for seed in SEEDS:
            report = session.grade(exercise, read_submission(fixture.path), Options(seed=seed))
            said = fixtures.complaint(fixture, report)
            if said is not None:
                complaints.append(f"{Path(fixture.path).name}, seed {seed}: {said}")
    session.release(name)
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("name", EXERCISES)
def test_the_stub_fails(name: str, exercise_of: Callable[[str], Exercise], warm: Callable[[str], Runner]) -> None:
    exercise = exercise_of(name)
    report = grade(exercise, read_submission(exercise.stub), warm(exercise.spec.framework), Options(seed=1))
    assert not report.passed and report.score == 0
    assert any("not written yet" in check.message for check in report.checks)
