"""One batch: what is due among the submissions, graded and kept one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grader.batch.collect import Handed
from grader.batch.digest import exercise_digest, grader_digest
from grader.batch.engines import Engine, Job
from grader.batch.store import Key, Store
from grader.grade import Options
from grader.model import Report
from grader.spec.exercise import Exercise
from grader.submission import read_submission


@dataclass(frozen=True)
class Due:
    """A submission that is to be graded now, and under which key and round it will be kept."""

    handed: Handed
    key: Key
    round: int
    job: Job


@dataclass(frozen=True)
class Plan:
    """What a batch has to do; ``done`` counts what the store already holds."""

    due: tuple[Due, ...]
    done: int
    seed: int


def plan(
    store: Store,
    handed: Sequence[Handed],
    exercises: Mapping[str, Exercise],
    options: Options,
    settings: Mapping[str, Any],
    regrade: bool = False,
    retry: bool = False,
) -> Plan:
    """Compare what was handed in with what the store holds. ``options.seed`` is the seed that the whole class meets."""
    assert options.seed is not None
    digests = {name: exercise_digest(exercise) for name, exercise in exercises.items()}
    asked = json.dumps({**vars(options), **settings}, sort_keys=True)
    due: list[Due] = []
    done = 0
    for each in handed:
        submission = replace(read_submission(each.path), path=each.shown)
        told = submission.sha256 or f"unreadable: {submission.problem}"
        key = Key(each.person.key, each.exercise, told, digests[each.exercise], grader_digest(), asked)
        round = store.round_of(key, regrade, retry)
        if round is None:
            done += 1
            continue
        due.append(Due(each, key, round, Job(len(due), each.exercise, key.exercise_digest, submission, options)))
    return Plan(tuple(due), done, options.seed)


def execute(store: Store, plan: Plan, engine: Engine, heard: Callable[[Due, Report], None]) -> dict[str, int]:
    """Grade what is due; every result is on disk before ``heard`` is told of it. Returns how many ended in which way."""
    store.remember([due.handed.person for due in plan.due])
    run = store.begin(plan.seed)
    counts = {"passed": 0, "failed": 0, "not graded": 0}
    by_number = {due.job.number: due for due in plan.due}
    for job, report in engine.run([due.job for due in plan.due]):
        due = by_number[job.number]
        store.add(due.key, run, due.round, due.handed.shown, report)
        counts[outcome_of(report)] += 1
        heard(due, report)
    store.end(run)
    return counts


def outcome_of(report: Report) -> str:
    if report.status != "graded":
        return "not graded"
    return "passed" if report.passed else "failed"
