"""Who does the grading: threads of this process, or the workers of a Dask cluster; one interface, one way to grade.

An engine takes jobs and gives reports back in the order in which they are ready. It keeps nothing: what a worker that dies
had begun is graded again elsewhere, and only the caller writes results down.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from grader.batch.digest import exercise_digest, grader_digest
from grader.errors import AuthorError, GraderFault, TensorgradeError, UsageError, crash_file
from grader.grade import Options, not_graded
from grader.model import Report
from grader.reports import record
from grader.session import Session
from grader.spec import load
from grader.spec.exercise import Exercise
from grader.spec.library import Library
from grader.submission import Submission


@dataclass(frozen=True)
class Job:
    """One submission to grade. ``digest`` is that of the exercise, which a worker elsewhere holds its own files to."""

    number: int
    exercise: str
    digest: str
    submission: Submission
    options: Options


@dataclass(frozen=True)
class Settings:
    """What every job shares: where exercises are, and how workers are started and locked in."""

    library: Library
    way: str = "fork"
    isolation: str = "auto"


class Engine(Protocol):
    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Report]]:
        """A report for every job, each exactly once, in any order."""
        ...

    def close(self) -> None: ...


class Station:
    """What grades jobs in one process: a session, and the exercises it has read. Safe to use from several threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._session = Session(settings.way, settings.isolation)
        self._exercises: dict[str, Exercise] = {}
        self._lock = threading.Lock()

    def grade(self, job: Job) -> Report:
        """The report of one job; whatever goes wrong here is in it, as a fault of the grader or of the exercise."""
        exercise = None
        try:
            exercise = self._exercise(job)
            return self._session.grade(exercise, job.submission, job.options)
        except TensorgradeError as error:
            whose = "the exercise's own files are wrong: " if isinstance(error, AuthorError) else ""
            reason = whose + str(error)
        except Exception as error:
            reason = f"an error in the grader itself ({type(error).__name__}); send the maintainers {crash_file()}"
        return not_graded(exercise or job.exercise, job.submission, job.options.seed or 0, reason)

    def release(self, exercise: str) -> None:
        """Let go of what is kept for an exercise that no job follows for."""
        self._session.release(exercise)

    def close(self) -> None:
        self._session.close()

    def _exercise(self, job: Job) -> Exercise:
        with self._lock:
            if job.exercise not in self._exercises:
                exercise = load.load(self._settings.library, job.exercise)
                if exercise_digest(exercise) != job.digest:
                    raise GraderFault(
                        f"`{job.exercise}` is another version on this worker than where the batch was started",
                        "give every worker the same exercises and references",
                    )
                self._exercises[job.exercise] = exercise
            return self._exercises[job.exercise]


class LocalEngine:
    """Threads of this process: what takes time runs in worker processes of the submissions' own."""

    def __init__(self, settings: Settings, jobs: int) -> None:
        self._station = Station(settings)
        self._count = jobs

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Report]]:
        waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)
        ready: queue.SimpleQueue[tuple[Job, Report]] = queue.SimpleQueue()
        stopping = threading.Event()

        def work() -> None:
            while not stopping.is_set():
                try:
                    job = waiting.get_nowait()
                except queue.Empty:
                    return
                ready.put((job, self._station.grade(job)))

        left: dict[str, int] = {}
        for job in jobs:
            left[job.exercise] = left.get(job.exercise, 0) + 1
        threads = [threading.Thread(target=work, name=f"grade-{n}", daemon=True) for n in range(self._count)]
        for thread in threads:
            thread.start()
        try:
            for _ in jobs:
                job, report = ready.get()
                left[job.exercise] -= 1
                if not left[job.exercise]:
                    self._station.release(job.exercise)
                yield job, report
        finally:
            stopping.set()

    def close(self) -> None:
        self._station.close()


class DaskEngine:
    """The workers of a Dask cluster, each with a station of its own that stays warm.

    Submissions travel as bytes; exercises, references and tensorgrade must be the same on every worker, which is checked.
    """

    def __init__(self, settings: Settings, scheduler: str) -> None:
        """Raises `UsageError` when dask is not installed and `GraderFault` when no scheduler answers."""
        try:
            from distributed import Client
        except ImportError:
            raise UsageError("--engine dask needs dask", "pip install 'tensorgrade[dask]'") from None
        self._settings = settings
        # Held until their results are taken: a future that nobody holds is cancelled.
        self._futures: dict[str, Any] = {}
        try:
            self._client = Client(scheduler, timeout=10, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise GraderFault(
                f"no Dask scheduler answers at {scheduler}: {error}", "dask scheduler, then its address"
            ) from None

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Report]]:
        from distributed import as_completed

        wanted = {}
        for job in jobs:
            # Not pure: the same file may be graded again on purpose. Later ones wait, so that exercises stay together.
            future = self._client.submit(
                grade_remotely, job, self._settings, grader_digest(), pure=False, retries=2, priority=-job.number
            )
            wanted[future.key] = job
            self._futures[future.key] = future
        for future in as_completed(list(self._futures.values()), loop=self._client.loop):
            job = wanted[future.key]
            if future.status == "finished":
                try:
                    report = record.load(future.result())
                except TensorgradeError as error:
                    report = not_graded(job.exercise, job.submission, job.options.seed or 0, str(error))
            else:
                died = future.exception()
                reason = f"the cluster could not run it: {type(died).__name__}: {died}"
                report = not_graded(job.exercise, job.submission, job.options.seed or 0, reason)
            del self._futures[future.key]
            yield job, report

    def close(self) -> None:
        self._client.close()


def grade_remotely(job: Job, settings: Settings, grader: str) -> str:
    """Grade one job on a Dask worker, with the station that the worker keeps; returns the report as text."""
    from distributed import get_worker

    if grader != grader_digest():
        reason = "tensorgrade is another version on this worker than where the batch was started"
        return record.dump(not_graded(job.exercise, job.submission, job.options.seed or 0, reason))
    worker = get_worker()
    with _STATION_LOCK:
        station = getattr(worker, "tensorgrade_station", None)
        if station is None:
            station = worker.tensorgrade_station = Station(settings)
    return record.dump(station.grade(job))


_STATION_LOCK = threading.Lock()


def here(library: Library) -> Library:
    """``library`` with absolute paths, as another process needs them."""
    return replace(
        library,
        exercises=library.exercises.resolve(),
        reference=library.reference.resolve() if library.reference else None,
        fixtures=library.fixtures.resolve() if library.fixtures else None,
    )


def cores() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
