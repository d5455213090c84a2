"""Many gradings with warm parts: one zygote per framework, and one oracle and one diagnostician per exercise, shared.

What a class, a folder of exercises and an editor's saves have in common. Safe to use from several threads.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field

from grader import kit
from grader.diagnose import Diagnostician
from grader.errors import GraderFault
from grader.grade import Options, grade
from grader.lockdown import Lockdown
from grader.model import Report
from grader.oracle import Oracle
from grader.sandbox.launch import Zygote
from grader.sandbox.runner import ForkRunner, Runner, make_runner
from grader.spec.exercise import Exercise
from grader.submission import Submission
from grader.trial import Plan

IMPORTS_TORCH = re.compile(rb"^\s*(?:import|from)\s+torch\b", re.MULTILINE)


@dataclass
class _Warm:
    """What submissions of one exercise share while its runner lives."""

    runner: Runner
    oracle: Oracle | None
    diagnostician: Diagnostician
    plans: dict[tuple[int, int | None], Plan] = field(default_factory=dict)

    def close(self) -> None:
        self.diagnostician.close()
        if self.oracle is not None:
            self.oracle.close()


class Session:
    """Grades one submission after another. ``way`` is fork or exec, ``isolation`` auto, require or off."""

    def __init__(
        self, way: str = "fork", isolation: str = "auto", early: Zygote | None = None, framework: str = ""
    ) -> None:
        """``early`` is a zygote that was already started, for ``framework``."""
        self._way = way
        self._isolation = isolation
        self._lock = threading.RLock()
        self._runners: dict[str, Runner] = {framework: ForkRunner(early)} if early is not None else {}
        self._warm: dict[str, _Warm] = {}
        self.lockdown = Lockdown(isolation)

    def runner(self, framework: str) -> Runner:
        """The warm runner of a framework, started when first asked for."""
        with self._lock:
            if framework not in self._runners:
                self._runners[framework] = make_runner(self._way, framework, isolate=self._isolation != "off")
            return self._runners[framework]

    def grade(self, exercise: Exercise, submission: Submission, options: Options) -> Report:
        """As `grader.grade.grade`, with what is already warm; a zygote that died is replaced and asked once more."""
        for last in (False, True):
            warm = self._of(exercise)
            # A submission that imports torch for itself does not have to wait for that where torch is warm.
            imports = exercise.spec.framework != "torch" and IMPORTS_TORCH.search(submission.source) is not None
            runner = self.runner("torch") if imports else warm.runner
            report = grade(
                exercise,
                submission,
                runner,
                options,
                warm.oracle,
                warm.diagnostician,
                self.lockdown,
                warm.plans,
            )
            # The process that starts workers may be ended from outside; asking once more is honest, twice is not.
            if report.status == "graded" or last or not (warm.runner.died or runner.died):
                break
            for framework, each in ((exercise.spec.framework, warm.runner), ("torch", runner)):
                if each.died:
                    self._discard(framework, each)
        return report

    def release(self, exercise: str) -> None:
        """Let go of what one exercise keeps: its reference's worker and answers."""
        with self._lock:
            warm = self._warm.pop(exercise, None)
        if warm is not None:
            warm.close()

    def close(self) -> None:
        with self._lock:
            for name in list(self._warm):
                self.release(name)
            for runner in self._runners.values():
                runner.close()
            self._runners.clear()

    def _of(self, exercise: Exercise) -> _Warm:
        with self._lock:
            found = self._warm.get(exercise.name)
            if found is None:
                runner = self.runner(exercise.spec.framework)
                try:
                    oracle: Oracle | None = kit.oracle_for(runner, exercise)
                except GraderFault:
                    # Said in each report, as where nothing is shared.
                    oracle = None
                found = self._warm[exercise.name] = _Warm(runner, oracle, kit.diagnostician_for(runner, exercise))
            return found

    def _discard(self, framework: str, dead: Runner) -> None:
        """Drop a runner that died, with all that ran on it, unless another thread did so already."""
        with self._lock:
            if self._runners.get(framework) is not dead:
                return
            del self._runners[framework]
            stale = [name for name, warm in self._warm.items() if warm.runner is dead]
            gone = [self._warm.pop(name) for name in stale]
        for warm in gone:
            warm.close()
        dead.close()
