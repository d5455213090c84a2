"""Many submissions in a row through one zygote, and what is held before and after: for a test, and for a longer run."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from grader import fixtures
from grader.diagnose import Diagnostician
from grader.grade import Options, grade
from grader.lockdown import Lockdown
from grader.oracle import ReferenceOracle
from grader.sandbox.runner import ForkRunner, make_runner
from grader.spec import load
from grader.spec.library import find_library
from grader.submission import read_submission

ROOT = Path(__file__).resolve().parent.parent
EXERCISES = ("softmax", "scaled_dot_product_attention")
# Quick ones of every kind: what ends or floods a worker, what a thread does later, what comes back broken.
HOSTILE = (
    "processes/exits_hard", "processes/segfault", "processes/kills_itself", "processes/closes_descriptors", "processes/fork_bomb",
    "processes/ends_between_calls", "processes/daemon_thread", "processes/exits_at_import", "forging/huge_lengths",
    "forging/hostile_json", "forging/writes_to_every_fd", "forging/answers_in_advance", "forging/shape_lies", "memory/grows",
    "memory/list_in_itself", "memory/zero_strides", "patching/owns_the_worker", "values/objects", "sources/parentheses",
    "time/endless_loop", "files/writes_temporary", "network/tcp",
)  # fmt: skip


@dataclass(frozen=True)
class Held:
    """Resident KB, descriptors and threads of the grader; KB, descriptors and children of the zygote."""

    grader_kb: int
    descriptors: int
    threads: int
    zygote_kb: int
    zygote_descriptors: int
    workers: int


def children(pid: int) -> list[int]:
    """Processes whose parent is ``pid``; one that has ended and was not waited for is among them."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(int(entry))
    return found


def zygote_of(runner: ForkRunner) -> int:
    """The process that forks: the launcher, or its only child where there are namespaces."""
    launcher = runner._process.pid
    return children(launcher)[0] if runner.entered else launcher


def resident(pid: int | str) -> int:
    """KB of this process alone: what it shares with those it was forked from, or that were forked from it, is not counted."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_", "Shared_Dirty")))


def measure(runner: ForkRunner) -> Held:
    zygote = zygote_of(runner)
    return Held(
        resident("self"), len(os.listdir("/proc/self/fd")), threading.active_count(), resident(zygote),
        len(os.listdir(f"/proc/{zygote}/fd")), len(children(zygote)),
    )  # fmt: skip


def mixed() -> Iterator[tuple[str, Path, bool]]:
    """(exercise, file, whether it is right) without end: of ten, five right, three wrong, two hostile."""
    right, wrong = [], []
    for name in EXERCISES:
        for one in fixtures.of(ROOT / "fixtures" / name):
            (right if one.right else wrong).append((name, one.path, one.right))
    hostile = [("softmax", ROOT / "fixtures" / "attacks" / f"{name}.py", False) for name in HOSTILE]
    turn = 0
    while True:
        for at in range(10):
            pool = hostile if at in (4, 9) else wrong if at in (1, 3, 7) else right
            yield pool[turn % len(pool)]
            turn += 1


def soak(count: int, warm_up: int, say: bool = False) -> tuple[Held, Held, Counter[str]]:
    """Grade ``warm_up`` files, then ``count`` more; what was held before and after these, and the verdicts.

    Raises AssertionError where a report is not as it must be.
    """
    library = find_library(start=ROOT)
    exercises = {name: load.load(library, name) for name in EXERCISES}
    runner, trusted = make_runner("fork", "torch"), make_runner("fork", "torch")
    assert isinstance(runner, ForkRunner)
    oracles = {name: ReferenceOracle(trusted, exercise) for name, exercise in exercises.items()}
    lockdown = Lockdown("auto")
    verdicts: Counter[str] = Counter()
    before = None
    try:
        for done, (name, path, right) in enumerate(mixed()):
            if done == warm_up:
                before = measure(runner)
            if done == warm_up + count:
                break
            exercise = exercises[name]
            mute = Diagnostician(runner, replace(exercise, misconceptions=None))
            options = Options(seed=done % 3, cases=2, time_limit=0.5, memory_limit=256)
            report = grade(exercise, read_submission(path), runner, options, oracles[name], mute, lockdown)
            assert report.status == "graded", f"{path}: {report.reason}"
            # Few cases: a wrong file may slip through, a right one may not fail.
            assert report.passed or not right, f"{path} does not pass"
            verdicts[next((c.verdict for c in report.checks if c.verdict not in ("pass", "skipped")), "pass")] += 1
            if say and done % 50 == 0:
                print(done, measure(runner), flush=True)
        assert before is not None
        return before, measure(runner), verdicts
    finally:
        for oracle in oracles.values():
            oracle.close()
        runner.close()
        trusted.close()
