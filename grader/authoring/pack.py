"""Packing a kit for students: exercises, and what references and patched references answered, recorded once.

Everything that a grading may ask is found by grading: the reference itself as a submission, then each misconception.
What they make the oracle say is written down; sources are not.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader import __version__, compare, kit
from grader.cases import Case
from grader.checks import registry
from grader.diagnose import Diagnostician, Misconception, patched, read
from grader.errors import AuthorError, UsageError
from grader.grade import Options, grade
from grader.lockdown import Lockdown
from grader.model import Diagnosis, Expected, Outcome
from grader.oracle import Answer, IllConditioned, ReferenceOracle
from grader.questions import questions
from grader.sandbox.protocol import Value
from grader.sandbox.runner import Runner, make_runner
from grader.spec import load
from grader.spec.exercise import Exercise
from grader.spec.library import Library
from grader.submission import Submission
from grader.trial import Plan, Trial

# Kinds of checks that ask the reference for more than the planned calls.
ALONE = ("precision", "gradients", "strided", "independent", "causal", "reads", "ignores", "falls")
# Of an exercise's own folder, what a student sees anyway.
HANDED_OUT = ("exercise.yaml", "README.md")


@dataclass
class _Log:
    """What one exercise's record will hold."""

    expected: dict[tuple[Any, ...], Value] = field(default_factory=dict)
    raw: dict[tuple[Any, ...], Value] = field(default_factory=dict)
    provided: dict[tuple[Any, ...], Value] = field(default_factory=dict)
    patched: dict[tuple[Any, ...], Value] = field(default_factory=dict)
    alike: dict[tuple[Any, ...], Value] = field(default_factory=dict)


class _RecordingOracle(ReferenceOracle):
    """A reference whose every answer is written down."""

    def __init__(self, runner: Runner, exercise: Exercise, log: _Log) -> None:
        super().__init__(runner, exercise)
        self._log = log

    def expected(self, case: Case, dtype: str) -> Expected:
        found = super().expected(case, dtype)
        leaves = [(leaf.path, leaf.expected, leaf.allowed, list(leaf.axes)) for leaf in found.leaves]
        self._log.expected[case.key, dtype] = (
            found.value,
            leaves,
            found.seconds,
            [tuple(call) for call in found.calls],
        )
        return found

    def raw(
        self,
        case: Case,
        dtype: str,
        mode: str = "plain",
        options: dict[str, Any] | None = None,
        values: dict[str, Value] | None = None,
    ) -> Answer:
        found = super().raw(case, dtype, mode, options, values)
        key = kit.call_key(case, dtype, mode, options, values)
        self._log.raw[key] = (found.value, found.seconds, [tuple(call) for call in found.calls], found.extra)
        return found

    def provided_cases(self, entropy: int) -> dict[str, dict[str, Value]]:
        found = super().provided_cases(entropy)
        self._log.provided[entropy,] = found
        return found


class _Listener(Diagnostician):
    """In place of a diagnosis: writes down what the misconception that is graded did on every call of its trial."""

    def __init__(self, runner: Runner, exercise: Exercise, log: _Log) -> None:
        super().__init__(runner, exercise)
        self._log = log
        self.now: str | None = None

    def diagnose(self, trial: Trial, failing: Sequence[tuple[Case, str]], pairs: bool = True) -> tuple[Diagnosis, ...]:
        if self.now is None:
            _each_case_alone(trial)
            return ()
        for case, dtype in dict.fromkeys([*trial.seen, *failing]):
            if case.fed:
                continue
            outcome = trial.outcome(case, dtype)
            try:
                # A diagnosis compares on every call, those too that a check looks at without a tolerance.
                trial.expected(case, dtype)
            except IllConditioned:
                # As good as unknown to whoever asks, in a kit and elsewhere.
                pass
            key = (self.now, case.key, dtype)
            if self._alike(trial, case, dtype, outcome):
                self._log.alike[key] = None
            elif outcome.status in ("returned", "raised"):
                changes = [(change.parameter, change.path, change.what) for change in outcome.changes]
                told = outcome.error.type if outcome.error is not None else None
                self._log.patched[key] = (outcome.status, outcome.value, changes, told)
        return ()

    def _alike(self, trial: Trial, case: Case, dtype: str, outcome: Outcome) -> bool:
        """Whether the answer is the reference's own to the last bit, so that it need not be kept twice."""
        if dtype != "float64" or not outcome.returned or outcome.changes:
            return False
        expected = self._log.expected.get((case.key, dtype))
        if expected is None:
            return False
        exact = {part.path: 0.0 for part in compare.parts(expected[0], trial.exercise.spec.output)}
        return compare.equal(outcome.value, expected[0], exact, trial.exercise.spec.output)


def _each_case_alone(trial: Trial) -> None:
    """Run what looks at some cases only as if each were the first: which they are depends on what a submission gets right."""
    whole = trial.plan
    try:
        for case, dtypes in whole.cases:
            trial.plan = Plan(whole.seed, ((case, dtypes),))
            for question in questions(trial.exercise):
                if question.check.kind in ALONE:
                    try:
                        registry.CHECKS[question.check.kind](trial, question)
                    except (AuthorError, IllConditioned):
                        # Not asked for by a grading either: there such a case is never the first.
                        continue
    finally:
        trial.plan = whole


def record(exercise: Exercise, runner: Runner, seeds: Sequence[int]) -> dict[str, Any]:
    """Everything that gradings of ``exercise`` on these seeds may ask.

    Raises:
        AuthorError: a file of the exercise is wrong, or its reference does not pass its own checks.
    """
    assert exercise.solution is not None
    log = _Log()
    source = exercise.solution.read_text(encoding="utf-8")
    known = read(exercise)
    oracle = _RecordingOracle(runner, exercise, log)
    listener = _Listener(runner, exercise, log)
    lockdown = Lockdown("auto")
    try:
        for seed in seeds:
            mine = Submission("solution.py", source.encode(), None)
            report = grade(exercise, mine, runner, Options(seed=seed), oracle, listener, lockdown)
            if not report.passed:
                raise AuthorError([], f"grader lint {exercise.name}")
            for entry in known:
                listener.now = entry.id
                text = patched(source, (entry,), exercise.misconceptions)
                grade(
                    exercise,
                    Submission("solution.py", text.encode(), None),
                    runner,
                    Options(seed=seed),
                    oracle,
                    listener,
                    lockdown,
                )
            listener.now = None
    finally:
        listener.close()
        oracle.close()
    return {
        "version": kit.VERSION,
        "exercise": exercise.name,
        "seeds": list(seeds),
        "misconceptions": [_told(entry) for entry in known],
        "entries": {
            kind: {kit.text_of(key): value for key, value in entries.items()} for kind, entries in vars(log).items()
        },
    }


def _told(entry: Misconception) -> dict[str, Any]:
    """What a student may read of a misconception: never its patch."""
    return {"id": entry.id, "says": entry.says, "help": entry.help, "equals": list(entry.equals)}


def pack(
    library: Library, names: Iterable[str], out: Path, seeds: Sequence[int], heard: Callable[[str, int], None]
) -> kit.Manifest:
    """Write a kit into the empty folder ``out``; ``heard`` is told of each exercise and the bytes of its record.

    Raises:
        UsageError: ``out`` holds something, or a reference is missing.
        AuthorError: an exercise's files are wrong.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is not empty", "name a folder that does not exist yet")
    runners: dict[str, Runner] = {}
    try:
        for name in names:
            exercise = load.load(library, name)
            if exercise.solution is None:
                raise UsageError(f"`{name}` has no reference here", "grader pack --reference DIR")
            if exercise.spec.framework not in runners:
                runners[exercise.spec.framework] = make_runner("fork", exercise.spec.framework)
            found = record(exercise, runners[exercise.spec.framework], seeds)
            path = out / kit.RECORDED / exercise.track / f"{name}.bin"
            kit.write(path, found)
            _hand_out(exercise, out / "exercises" / exercise.track)
            heard(name, path.stat().st_size)
    finally:
        for runner in runners.values():
            runner.close()
    files = {path.relative_to(out).as_posix(): kit.digest(path) for path in sorted(out.rglob("*")) if path.is_file()}
    manifest = kit.Manifest(kit.VERSION, f"tensorgrade {__version__}", files)
    (out / kit.MANIFEST).write_text(json.dumps(vars(manifest), indent=1) + "\n", encoding="utf-8")
    return manifest


def _hand_out(exercise: Exercise, track: Path) -> None:
    folder = track / exercise.name
    folder.mkdir(parents=True)
    for path in (*(exercise.folder / name for name in HANDED_OUT), exercise.stub):
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    about = exercise.folder.parent / "track.yaml"
    if about.is_file():
        shutil.copyfile(about, track / "track.yaml")
