"""Which mistake it is, by measurement: the reference with one small patch gives the submission's own results.

A misconception is named only if its patched reference reproduces everything the submission did on **every** call seen,
those that were right included, and differs from the truth on at least one. Pairs are tried when no single one fits.
Nothing fits: nothing is said. Nothing runs here while everything passes.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from grader import compare
from grader.cases import Case, on_grid
from grader.checks.values import size
from grader.errors import AuthorError, Finding
from grader.lockdown import reference_policy
from grader.model import Diagnosis, Expected, Outcome
from grader.oracle import HALVES, ROUNDING_FACTOR, IllConditioned, limits_for
from grader.sandbox.protocol import Array, Value
from grader.sandbox.runner import Runner
from grader.spec import schema
from grader.spec.exercise import Exercise
from grader.spec.load import read_misconceptions
from grader.submission import Student, Submission
from grader.trial import Trial

MAX_PAIRS = 800
# Mistakes, or pairs of them, asked in one request.
TOGETHER = 40
# Calls that came out right and are asked, before any pair is, which mistakes would have shown there.
SCREENS = 2
# From which call of the evidence to which a mistake that fits is asked in one go.
AT_ONCE = {1: 5, 5: 1000}
# Calls in narrow dtypes on which a mistake and the submission may be wrong in different ways.
MAX_UNDECIDED = 2


@dataclass(frozen=True)
class Misconception:
    """One mistake and what the reference looks like with it."""

    id: str
    says: str
    help: str | None
    equals: tuple[str, ...]
    patch: tuple[schema.PatchEntry, ...]


def read(exercise: Exercise) -> tuple[Misconception, ...]:
    """The misconceptions of an exercise, in the order of its file; raises `AuthorError`."""
    if exercise.misconceptions is None:
        return ()
    entries = read_misconceptions(exercise.misconceptions).misconceptions
    return tuple(Misconception(e.id, e.says.strip(), e.help, e.equals, e.patch) for e in entries)


def patched(source: str, misconceptions: Iterable[Misconception], path: Path | None = None) -> str:
    """``source`` with the patches applied in order.

    Raises:
        AuthorError: a patch's text is not found, or is found more than once without ``all: true``.
    """
    for entry in misconceptions:
        for patch in entry.patch:
            count = source.count(patch.find)
            if count == 0 or (count > 1 and not patch.all):
                line = patch.find.strip().splitlines()[0] if patch.find.strip() else patch.find
                found = "no longer matches" if count == 0 else f"matches {count} times"
                message = f"the patch of `{entry.id}` {found} in solution.py: `{line}`"
                where = str(path) if path is not None else "misconceptions.yaml"
                raise AuthorError([Finding(where, 0, 0, message, "a text that stands there exactly once")])
            source = source.replace(patch.find, patch.replace)
    return source


class Diagnostician:
    """Runs patched references in a worker of its own and remembers what they answered.

    A misconceptions file that is wrong, or a patch that does not fit, is the author's fault and found by `grader lint`. A
    submission is graded all the same: what cannot be used is left out.
    """

    def __init__(self, runner: Runner, exercise: Exercise) -> None:
        self._exercise = exercise
        self._runner = runner
        self._misconceptions: tuple[Misconception, ...] | None = None
        self._source = ""
        self._student: Student | None = None
        self._loaded: tuple[str, ...] | None = None
        self._answers: dict[tuple[tuple[str, ...], str, str], Outcome] = {}
        # Ids whose patch does not fit, or whose calls do not end: not tried again in pairs.
        self._useless: set[str] = set()
        # One worker answers for all the submissions that are under trial at once.
        self._lock = threading.Lock()
        self._reading = threading.Lock()

    @property
    def misconceptions(self) -> tuple[Misconception, ...]:
        with self._reading:
            if self._misconceptions is None:
                try:
                    found = read(self._exercise)
                    if self._exercise.solution is not None:
                        self._source = self._exercise.solution.read_text(encoding="utf-8")
                except (AuthorError, OSError, UnicodeDecodeError):
                    found = ()
                # Last: whoever sees it, in another thread, finds the source there too.
                self._misconceptions = found
            return self._misconceptions

    def close(self) -> None:
        if self._student is not None:
            self._student.close()

    def diagnose(self, trial: Trial, failing: Sequence[tuple[Case, str]], pairs: bool = True) -> tuple[Diagnosis, ...]:
        """The misconceptions that reproduce the submission; ``failing`` are its failing calls, in any order."""
        if not failing:
            return ()
        evidence = self._evidence(trial, failing)
        if not evidence or not self.misconceptions:
            return ()
        self._ask_each(*evidence[0])
        found = [entry for entry in self.misconceptions if self._fits(trial, (entry,), evidence)]
        if found:
            return tuple(_diagnosis((entry,), entry, len(failing)) for entry in found)
        if not pairs:
            return ()
        for some in _batches(self._likely_pairs(trial, *evidence[0])[:MAX_PAIRS]):
            self._ask_together(some, *evidence[0])
            for pair in some:
                if not self._fits(trial, pair, evidence):
                    continue
                certain = [entry for entry in pair if not self._exchangeable(trial, entry, pair, evidence)]
                others = pair if len(certain) == 2 else (*certain, ANOTHER)
                return tuple(_diagnosis(others, entry, len(failing)) for entry in certain)
        return ()

    def _exchangeable(
        self,
        trial: Trial,
        entry: Misconception,
        pair: tuple[Misconception, ...],
        evidence: list[tuple[Case, str]],
    ) -> bool:
        """Whether some other mistake in the place of ``entry`` fits as well: then nobody can say that it is this one."""
        (kept,) = (other for other in pair if other is not entry)
        for other in self.misconceptions:
            if other.id in (entry.id, kept.id, *self._useless) or other.id in entry.equals or entry.id in other.equals:
                continue
            # Patches go together in the order of the file.
            if self._fits(trial, tuple(sorted((other, kept), key=self.misconceptions.index)), evidence):
                return True
        return False

    def _likely_pairs(self, trial: Trial, case: Case, dtype: str) -> list[tuple[Misconception, Misconception]]:
        """Pairs worth a try, told by what each mistake does alone on the first case of the evidence.

        One that changes nothing there leaves the other as it is: so either both change the result, or one of them gives
        the submission's own. And what shows on a plain case that came out right is none of the submission's mistakes.
        """
        useful = self._unseen_where_right(trial)
        try:
            expected = trial.expected(case, dtype)
        except IllConditioned:
            return list(itertools.combinations(useful, 2))
        mine = trial.outcome(case, dtype)
        alone = [(entry, self.answer((entry,), case, dtype)) for entry in useful]
        known = [(entry, answer) for entry, answer in alone if answer is not None]
        output = self._exercise.spec.output
        if _form(mine, output) not in {_form(answer, output) for _, answer in known} | {_forms(expected.value, output)}:
            # A list, or float32 from float64: of such results two mistakes in the arithmetic make none.
            return []
        active = {entry.id for entry, answer in known if self._wrong(answer, expected)}
        alike = {entry.id for entry, answer in known if self._same(mine, answer, expected, (entry,), case, dtype)}
        both, one = [], []
        for first, second in itertools.combinations(useful, 2):
            if first.id in active and second.id in active:
                both.append((first, second))
            elif (first.id in alike and second.id not in active) or (second.id in alike and first.id not in active):
                one.append((first, second))
        return one + both

    def _unseen_where_right(self, trial: Trial) -> list[Misconception]:
        """The mistakes that change nothing on the first random cases which the submission answers rightly."""
        useful = [entry for entry in self.misconceptions if entry.id not in self._useless]
        try:
            passing = [call for call in trial.plan.select("random", ("float64",)) if trial.right(*call)][:SCREENS]
        except IllConditioned:
            return useful
        for case, dtype in passing:
            self._ask_each(case, dtype)
            expected = trial.expected(case, dtype)
            answers = [(entry, self.answer((entry,), case, dtype)) for entry in useful]
            useful = [entry for entry, told in answers if told is not None and not self._wrong(told, expected)]
        return useful

    def _ask_each(self, case: Case, dtype: str) -> None:
        """Learn what each mistake alone answers to one call."""
        for some in _batches([(entry,) for entry in self.misconceptions if entry.id not in self._useless]):
            self._ask_together(some, case, dtype)

    def _evidence(self, trial: Trial, failing: Sequence[tuple[Case, str]]) -> list[tuple[Case, str]]:
        """Every call seen: failing ones first, planned, float64 and small before others; empty where the run was cut short.

        Calls on a submission's own results are left out: there the reference may have no answer.
        """
        wrong = {(case.key, dtype) for case, dtype in failing}
        seen = [(case, dtype) for case, dtype in dict.fromkeys(trial.seen) if not case.fed]
        for case, dtype in seen:
            if trial.outcome(case, dtype).status not in ("returned", "raised"):
                return []
        known = {(case.key, dtype) for case, dtype in seen}
        seen += [(case, dtype) for case, dtype in failing if (case.key, dtype) not in known and not case.fed]
        # Cases of the plan come before smaller ones that were found for this submission alone: what a patched reference
        # answers on them is known from others of the class.
        planned = {case.key for case, _ in trial.plan.cases}

        def rank(call: tuple[Case, str]) -> tuple[bool, bool, bool, int]:
            case, dtype = call
            return (case.key, dtype) not in wrong, case.key not in planned, dtype != "float64", size(case)

        return sorted(seen, key=rank)

    def _fits(self, trial: Trial, entries: tuple[Misconception, ...], evidence: list[tuple[Case, str]]) -> bool:
        differs = told = False
        undecided: list[str] = []
        for number, (case, dtype) in enumerate(evidence):
            if number in AT_ONCE:
                # What fits so far will be asked for more: most of all is one right after the other.
                self._ask_on(entries, evidence[number : AT_ONCE[number]])
            answer = self.answer(entries, case, dtype)
            if answer is None:
                return False
            mine = trial.outcome(case, dtype)
            try:
                expected = trial.expected(case, dtype)
            except IllConditioned:
                continue
            if not self._same(mine, answer, expected, entries, case, dtype):
                # Where a mistake rounds or overflows, the last bit of a narrow dtype decides what comes out.
                chance = dtype != "float64" and self._wrong(answer, expected) and self._wrong(mine, expected)
                undecided.append(case.key)
                if not chance or len(undecided) > MAX_UNDECIDED:
                    return False
                continue
            differs = differs or self._wrong(answer, expected)
            told = told or (len(entries) > 1 and self._in_numbers(answer, expected))
        # The same call in float64 is where they agree to the last digit that counts.
        wide = {case.key for case, dtype in evidence if dtype == "float64"}
        # Where nothing but nan is left, any two of several mistakes fit.
        return differs and (told or len(entries) == 1) and wide.issuperset(undecided)

    def _in_numbers(self, answer: Outcome, expected: Expected) -> bool:
        """Whether the patched reference differs from the truth in finite values, and not only in what is nan."""
        if not answer.returned:
            return False
        leaves = {leaf.path: leaf for leaf in expected.leaves}
        for part in compare.parts(answer.value, self._exercise.spec.output):
            leaf = leaves.get(part.path)
            mine = compare.numbers(part.value)
            truth = compare.numbers(leaf.expected) if leaf is not None else None
            if leaf is None or mine is None or truth is None or mine.shape != truth.shape:
                return True
            finite = np.isfinite(mine) & np.isfinite(truth)
            if (np.abs(mine[finite] - truth[finite]) > leaf.allowed).any():
                return True
        return False

    def _wrong(self, answer: Outcome, expected: Expected) -> bool:
        """Whether the patched reference itself is wrong, or leaves its inputs changed, on this call."""
        if not answer.returned or answer.changes:
            return True
        spec = self._exercise.spec
        return compare.mismatch(answer.value, expected, spec.output, spec.framework) is not None

    def _same(
        self,
        mine: Outcome,
        answer: Outcome,
        expected: Expected,
        entries: tuple[Misconception, ...],
        case: Case,
        dtype: str,
    ) -> bool:
        if mine.status != answer.status:
            return False
        if mine.status == "raised":
            return mine.error is not None and answer.error is not None and mine.error.type == answer.error.type
        if not mine.returned or _effects(mine) != _effects(answer):
            return False
        allowed = {leaf.path: leaf.allowed for leaf in expected.leaves}
        # A mistake may answer on another scale than the reference, and rounds on its own.
        for part in compare.parts(answer.value, self._exercise.spec.output):
            allowed[part.path] = max(allowed.get(part.path, 0.0), compare.rounding(part.value, dtype))
        if compare.equal(mine.value, answer.value, allowed, self._exercise.spec.output):
            return True
        if dtype == "float64":
            return False
        # A mistake may round worse than the reference does: measure the patched reference's own rounding.
        wide = self.answer(entries, on_grid(case, dtype) if dtype in HALVES else case, "float64")
        if wide is None or not wide.returned:
            return False
        spans = _spans(answer.value, wide.value, self._exercise.spec.output)
        wider = {path: max(allowed.get(path, 0.0), ROUNDING_FACTOR * span) for path, span in spans.items()}
        return compare.equal(mine.value, answer.value, wider, self._exercise.spec.output)

    def _ask_together(self, several: Sequence[tuple[Misconception, ...]], case: Case, dtype: str) -> None:
        """Learn what each of several mistakes, or pairs, answers to one call, in one request: most are asked nothing more."""
        if case.functions:
            return
        with self._lock:
            sources: dict[tuple[str, ...], bytes] = {}
            for entries in several:
                ids = tuple(entry.id for entry in entries)
                if (ids, case.key, dtype) in self._answers:
                    continue
                try:
                    sources[ids] = patched(self._source, entries, self._exercise.misconceptions).encode()
                except AuthorError:
                    continue
            if not sources:
                return
            student = self._load((), ())
            found = student.try_each(list(sources.values()), case, dtype) if student is not None else None
            # After a failure each is asked by itself, and the one that fails is found.
            for ids, outcome in zip(sources, found or (), strict=False):
                if outcome is not None:
                    self._answers[ids, case.key, dtype] = outcome
            self._loaded = None

    def _ask_on(self, entries: tuple[Misconception, ...], calls: Sequence[tuple[Case, str]]) -> None:
        """Learn what one patched reference answers to several calls."""
        ids = tuple(entry.id for entry in entries)
        with self._lock:
            missing = [(case, dtype) for case, dtype in calls if (ids, case.key, dtype) not in self._answers]
            student = self._load(ids, entries) if len(missing) > 1 else None
            if student is None:
                return
            for (case, dtype), outcome in zip(missing, student.call_each(missing), strict=True):
                # Whatever else happened is found out, and judged, when it is asked for.
                if outcome.status in ("returned", "raised"):
                    self._answers[ids, case.key, dtype] = outcome

    def answer(self, entries: tuple[Misconception, ...], case: Case, dtype: str) -> Outcome | None:
        """What the patched reference does; None when the patches do not go together or it cannot be loaded."""
        ids = tuple(entry.id for entry in entries)
        key = (ids, case.key, dtype)
        with self._lock:
            if key not in self._answers:
                student = self._load(ids, entries)
                if student is None:
                    return None
                outcome = student.call(case, dtype)
                if len(ids) == 1 and outcome.status not in ("returned", "raised"):
                    self._useless.update(ids)
                self._answers[key] = outcome
            return self._answers[key]

    def _load(self, ids: tuple[str, ...], entries: tuple[Misconception, ...]) -> Student | None:
        if self._loaded == ids and self._student is not None and self._student.stopped is None:
            return self._student
        try:
            text = patched(self._source, entries, self._exercise.misconceptions)
        except AuthorError:
            if len(ids) == 1:
                self._useless.update(ids)
            return None
        submission = Submission("solution.py", text.encode(), None)
        if self._student is None or self._student.stopped is not None:
            if self._student is not None:
                self._student.close()
            limits = limits_for(self._exercise)
            lock = reference_policy(limits)
            self._student = Student(self._runner, self._exercise, submission, lock, limits, trusted=True)
        else:
            self._student.reload(submission)
        self._loaded = ids
        return None if self._student.load() is not None else self._student


def _batches(several: Sequence[tuple[Misconception, ...]]) -> Iterator[Sequence[tuple[Misconception, ...]]]:
    return (several[at : at + TOGETHER] for at in range(0, len(several), TOGETHER))


# Stands for a second mistake that cannot be told from others.
ANOTHER = Misconception("another", "", None, (), ())


def _diagnosis(entries: tuple[Misconception, ...], entry: Misconception, matched: int) -> Diagnosis:
    others = tuple(other.id for other in entries if other is not entry)
    return Diagnosis(entry.id, entry.says, matched, entry.help, others)


def _form(outcome: Outcome, output: schema.Output) -> Any:
    """What kind of thing came out: the type of what was raised, or the containers, dtypes and shapes of a result."""
    if outcome.status == "raised":
        return outcome.error.type if outcome.error is not None else ""
    return _forms(outcome.value, output)


def _forms(value: Value, output: schema.Output) -> tuple[Any, ...]:
    found = []
    for part in compare.parts(value, output):
        plain = part.value
        array = isinstance(plain, Array)
        found.append(
            (part.path, plain.family, plain.dtype, plain.shape) if array else (part.path, type(plain).__name__)
        )
    return tuple(found)


def _effects(outcome: Outcome) -> set[tuple[str, str, str]]:
    return {(change.parameter, change.path, change.what) for change in outcome.changes}


def _spans(narrow: Value, wide: Value, output: schema.Output) -> dict[str, float]:
    """Per leaf, how far the narrow result is from the wide one (0 where that cannot be said)."""
    spans: dict[str, float] = {}
    exact = {part.path: compare.numbers(part.value) for part in compare.parts(wide, output)}
    for part in compare.parts(narrow, output):
        a: Any = compare.numbers(part.value)
        b: Any = exact.get(part.path)
        if a is None or b is None or a.shape != b.shape or a.dtype.kind != "f":
            continue
        finite = np.isfinite(a) & np.isfinite(b)
        spans[part.path] = float(np.abs(a[finite] - b[finite]).max()) if finite.any() else 0.0
    return spans
