"""Many sources through a few warm workers at once.

A chain is one thread's worth: a worker that loads one trusted source after another, and a diagnostician. Threads suffice,
since they mostly wait for their workers' pipes. Results come back in the order of the sources, whoever was first.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from grader.authoring.bench import Bench
from grader.diagnose import Diagnostician
from grader.lockdown import policy
from grader.sandbox.runner import Limits, Runner
from grader.spec.exercise import Exercise
from grader.submission import Student, Submission
from grader.trial import Trial

T = TypeVar("T")
R = TypeVar("R")
# A student's results are capped in all, whatever it loads; well before that it is replaced by a new one.
SOURCES_PER_WORKER = 50
ISOLATION = "auto"


@dataclass(frozen=True)
class Source:
    """One text to be judged: a fixture, a patched reference, a mutant."""

    name: str
    text: bytes
    filename: str = "solution.py"

    @property
    def submission(self) -> Submission:
        return Submission(self.filename, self.text, None)


class Chain:
    """What one thread works with."""

    def __init__(self, runner: Runner, exercise: Exercise) -> None:
        self._runner = runner
        self._exercise = exercise
        self._warm: Student | None = None
        self._limits: Limits | None = None
        self._loaded = 0
        self._last: Trial | None = None
        self._diagnosticians: dict[int, Diagnostician] = {}

    def warm(self, bench: Bench, source: Source, limits: Limits) -> Trial:
        """A trial of a trusted source in this chain's one worker; valid until the next call."""
        student = self._usable(limits)
        if student is None:
            self._drop()
            student = self._warm = self._student(source, limits)
            self._limits, self._loaded = limits, 0
        else:
            student.reload(source.submission)
        self._loaded += 1
        self._last = Trial(self._exercise, bench.plan, student, bench.oracle)
        return self._last

    def fresh(self, bench: Bench, source: Source, limits: Limits) -> Trial:
        """A trial in a worker of its own, which the caller closes through `Trial.student`."""
        return Trial(self._exercise, bench.plan, self._student(source, limits), bench.oracle)

    def _student(self, source: Source, limits: Limits) -> Student:
        return Student(self._runner, self._exercise, source.submission, policy(ISOLATION, limits), limits)

    def diagnostician(self, bench: Bench) -> Diagnostician:
        """One per seed: it remembers answers by case, and two seeds have cases of the same name."""
        if bench.seed not in self._diagnosticians:
            self._diagnosticians[bench.seed] = Diagnostician(self._runner, self._exercise)
        return self._diagnosticians[bench.seed]

    def forget(self, bench: Bench) -> None:
        found = self._diagnosticians.pop(bench.seed, None)
        if found is not None:
            found.close()

    def close(self) -> None:
        self._drop()
        for diagnostician in self._diagnosticians.values():
            diagnostician.close()
        self._diagnosticians.clear()

    def _usable(self, limits: Limits) -> Student | None:
        """The warm student, unless its last source did anything but return or raise: it counts faults, and stops after some."""
        student, last = self._warm, self._last
        if student is None or last is None or self._limits != limits or student.stopped is not None:
            return None
        if self._loaded >= SOURCES_PER_WORKER:
            return None
        quiet = all(last.outcome(case, dtype).status in ("returned", "raised") for case, dtype in last.seen)
        return student if quiet else None

    def _drop(self) -> None:
        if self._warm is not None:
            self._warm.close()
        self._warm = self._last = None


class Crew:
    """A few chains for one exercise."""

    def __init__(self, runner: Runner, exercise: Exercise, jobs: int) -> None:
        self._chains = [Chain(runner, exercise) for _ in range(max(1, jobs))]

    def each(self, items: Sequence[T], work: Callable[[Chain, T], R], tick: Callable[[], None]) -> list[R]:
        """``work`` on every item, at most one per chain at a time; the first exception ends it."""
        idle: queue.SimpleQueue[Chain] = queue.SimpleQueue()
        for chain in self._chains:
            idle.put(chain)

        def run(item: T) -> R:
            chain = idle.get()
            try:
                return work(chain, item)
            finally:
                idle.put(chain)
                tick()

        with ThreadPoolExecutor(len(self._chains), thread_name_prefix="lint") as pool:
            futures = [pool.submit(run, item) for item in items]
            try:
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def forget(self, bench: Bench) -> None:
        """Drop what is remembered of one seed."""
        for chain in self._chains:
            chain.forget(bench)

    def close(self) -> None:
        for chain in self._chains:
            chain.close()
