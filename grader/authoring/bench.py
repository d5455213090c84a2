"""One exercise on one seed, and how one source fares on it: the calls, the checks that fail, and by how much.

Expected values are computed once and shared by every source. A source that is plainly wrong is given up early; one that
is not meets every check that a student's file meets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from grader import compare
from grader.cases import Case
from grader.checks import registry
from grader.checks.values import size
from grader.errors import AuthorError
from grader.model import Diagnosis, Outcome, Question, Ruling
from grader.oracle import IllConditioned, ReferenceOracle
from grader.questions import questions
from grader.sandbox.runner import Runner
from grader.spec.exercise import Exercise
from grader.trial import Plan, Trial, make_plan, settle

# A verdict needs two failing checks (one alone may be the only one), and a ratio beyond doubt.
ENOUGH_CHECKS = 2
BEYOND_DOUBT = 1000.0
FAILED = ("fail", "error", "timeout", "memory", "crashed")

Call = tuple[Case, str]


@dataclass(frozen=True)
class Reach:
    """How far a result is from the expected one, as a multiple of what is allowed, and on which call."""

    ratio: float
    case: str = ""
    dtype: str = ""
    dims: tuple[tuple[str, int], ...] = ()
    token: str = ""

    @classmethod
    def of(cls, ratio: float, case: Case, dtype: str) -> Reach:
        return cls(ratio, case.name, dtype, tuple(case.dims.items()), case.token)

    @property
    def where(self) -> str:
        dims = ", ".join(f"{name}={size}" for name, size in self.dims)
        return f"case `{self.case}`" + (f" ({dims})" if dims else "") + f", {self.dtype}"


NOWHERE = Reach(0.0)


@dataclass(frozen=True, eq=False)
class Look:
    """How one source fared on one seed.

    ``failed`` are the counting checks that failed, with cause, in the order found; ``advisory`` the advisory ones.
    ``complete`` is False where it was given up early: then more checks would fail. ``returned_wrong``: at least once it
    returned something that is wrong, rather than nothing at all. ``closest`` is the largest ratio that is allowed,
    ``clearest`` the largest that is not.
    """

    failed: tuple[tuple[str, str | None], ...]
    advisory: tuple[tuple[str, str | None], ...] = ()
    skipped: tuple[tuple[str, str | None], ...] = ()
    complete: bool = True
    returned_wrong: bool = False
    closest: Reach = NOWHERE
    clearest: Reach | None = None
    first: Reach | None = None
    why: str = ""
    diagnoses: tuple[Diagnosis, ...] = ()

    @property
    def passed(self) -> bool:
        return self.complete and not self.failed

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(identity for identity, _ in self.failed)

    @property
    def only(self) -> str | None:
        """The one counting check that fails, where exactly one does."""
        return self.ids[0] if self.complete and len(self.failed) == 1 else None


class Bench:
    """The plan of one seed and what is expected on it. Safe to share between threads."""

    def __init__(self, exercise: Exercise, runner: Runner, seed: int) -> None:
        self.exercise = exercise
        self.seed = seed
        self.questions = questions(exercise)
        self.oracle = ReferenceOracle(runner, exercise)
        self._plan: Plan | None = None

    def close(self) -> None:
        self.oracle.close()

    def draw(self) -> Plan:
        """The plan as drawn, whatever is wrong with its cases; raises `AuthorError`."""
        return make_plan(self.exercise, self.oracle, self.seed)

    @property
    def plan(self) -> Plan:
        """The plan that a submission meets; raises `AuthorError` where a case is ill-conditioned however it is drawn."""
        if self._plan is None:
            drawn = self.draw()
            self.oracle.prefetch(drawn.select(None))
            self._plan = settle(self.exercise, self.oracle, drawn)
        return self._plan

    def judged(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """For each call (case key, dtype), the counting `values` checks that look at it."""
        found: dict[tuple[str, str], tuple[str, ...]] = {}
        for question in self.questions:
            if question.check.kind == "values" and not question.advisory:
                for case, dtype in self.plan.select(question.cases, question.dtypes):
                    key = (case.key, dtype)
                    found[key] = (*found.get(key, ()), question.id)
        return found

    def calls(self) -> list[Call]:
        """Every plain call, float64 and small ones first."""
        return sorted(self.plan.select(None), key=lambda call: (call[1] != "float64", size(call[0])))


def reach(trial: Trial, case: Case, dtype: str) -> float:
    """The error of a returned result as a multiple of what is allowed; inf for anything but finite values of the right shape."""
    wrong = trial.judge(case, dtype)
    if wrong is not None:
        return wrong.ratio if wrong.kind == "values" and wrong.ratio > 0 else float("inf")
    return compare.margin(trial.outcome(case, dtype).value, trial.expected(case, dtype), trial.exercise.spec.output)


def glance(trial: Trial, bench: Bench) -> Look:
    """Only the plain calls, until two counting checks fail and one result is wrong beyond doubt.

    A look that is not given up (``complete``) failed at most one check, and its other checks are still to be asked.
    """
    refused = trial.student.load()
    if refused is not None:
        return Look((("load", _cause(refused)),), complete=False, why=words(refused))
    unchanged = next((q for q in bench.questions if q.check.kind == "inputs_unchanged" and not q.advisory), None)
    judged = bench.judged()
    failed: dict[str, str | None] = {}
    tally = _Tally()
    for case, dtype in bench.calls():
        outcome = trial.outcome(case, dtype)
        asked = judged.get((case.key, dtype), ())
        if outcome.status == "not_run":
            return tally.look(failed, complete=False)
        cause = tally.add(trial, case, dtype, outcome, counts=bool(asked))
        if cause is not None:
            failed.update({name: cause for name in asked if name not in failed})
        if unchanged is not None and outcome.changes:
            failed.setdefault(unchanged.id, "inputs_changed")
        certain = tally.clearest is None or tally.clearest.ratio >= BEYOND_DOUBT
        if len(failed) >= ENOUGH_CHECKS and certain:
            return tally.look(failed, complete=False)
    return tally.look(failed, complete=len(failed) < ENOUGH_CHECKS)


def examine(
    trial: Trial, bench: Bench, asked: Iterable[str] | None = None, every_call: bool = True
) -> tuple[Look, list[tuple[Question, Ruling]]]:
    """Every check (or those named in ``asked``), as a student's file meets them: in the order of the plan and of the file.

    With ``every_call`` the plain calls come first, as in a grading; else only those that the checks need are made.
    """
    refused = trial.student.load()
    wanted = None if asked is None else set(asked)
    chosen = [question for question in bench.questions if wanted is None or question.id in wanted]
    if refused is not None:
        ruling = Ruling("error", _cause(refused), outcome=refused)
        blocked = Ruling("skipped", "blocked", facts={"why": "the file could not be loaded"})
        rulings = [(question, ruling if at == 0 else blocked) for at, question in enumerate(bench.questions)]
        look = Look(((bench.questions[0].id, _cause(refused)),), why=words(refused))
        return look, rulings
    if every_call:
        for case, dtype in bench.plan.select(None):
            trial.outcome(case, dtype)
    rulings = [(question, registry.CHECKS[question.check.kind](trial, question)) for question in chosen]
    tally = _Tally()
    judged = bench.judged()
    for case, dtype in trial.seen:
        if (case.key, dtype) in judged:
            tally.add(trial, case, dtype, trial.outcome(case, dtype), counts=True)
    failed = {q.id: r.cause for q, r in rulings if not q.advisory and not _fine(r)}
    advisory = {q.id: r.cause for q, r in rulings if q.advisory and r.verdict in FAILED}
    skipped = {q.id: r.cause for q, r in rulings if r.verdict == "skipped"}
    # A check that was skipped for want of right values, say, does not count as one that told something.
    told = {q.id: r.cause for q, r in rulings if q.id in failed and r.verdict != "skipped"}
    look = tally.look(told or failed, complete=True)
    return replace(look, advisory=tuple(advisory.items()), skipped=tuple(skipped.items())), rulings


def _fine(ruling: Ruling) -> bool:
    return ruling.verdict == "pass" or ruling.neutral


def failing_calls(rulings: Iterable[tuple[Question, Ruling]]) -> list[Call]:
    """Every call on which a check failed, once, as the diagnosis wants them."""
    found: dict[tuple[str, str], Call] = {}
    for _, ruling in rulings:
        if ruling.verdict in ("fail", "error"):
            shown = ((ruling.case, ruling.dtype),) if ruling.case is not None else ()
            for case, dtype in (*ruling.failing, *shown):
                found.setdefault((case.key, dtype), (case, dtype))
    return list(found.values())


class _Tally:
    """What the plain calls of one source add up to."""

    def __init__(self) -> None:
        self.returned_wrong = False
        self.closest = Reach(0.0)
        self.clearest: Reach | None = None
        self.first: Reach | None = None
        self.why = ""

    def add(self, trial: Trial, case: Case, dtype: str, outcome: Outcome, counts: bool) -> str | None:
        """Take one call in; what is wrong with it in a word, or None. Only a call that a counting check sees ``counts``."""
        if not outcome.returned:
            if counts and self.first is None:
                self.first, self.why = Reach.of(float("inf"), case, dtype), words(outcome)
            return _cause(outcome)
        try:
            ratio = reach(trial, case, dtype)
        except IllConditioned:
            return None
        wrong = trial.judge(case, dtype)
        if wrong is None:
            if ratio > self.closest.ratio:
                self.closest = Reach.of(ratio, case, dtype)
            return None
        if counts:
            self.returned_wrong = True
            if self.first is None:
                self.first, self.why = Reach.of(ratio, case, dtype), wrong.kind
            if self.clearest is None or ratio > self.clearest.ratio:
                self.clearest = Reach.of(ratio, case, dtype)
        return wrong.kind

    def look(self, failed: dict[str, str | None], complete: bool) -> Look:
        return Look(
            tuple(failed.items()),
            (),
            (),
            complete,
            self.returned_wrong,
            self.closest,
            self.clearest,
            self.first,
            self.why,
        )


def _cause(outcome: Outcome) -> str:
    if outcome.error is not None:
        return outcome.error.cause or "exception"
    return outcome.status


def words(outcome: Outcome) -> str:
    """What went wrong with a call that gave no result, in one line."""
    if outcome.error is not None:
        frame = outcome.error.frames[-1] if outcome.error.frames else None
        line = f" (line {frame['line']})" if frame is not None and frame.get("line") else ""
        first = outcome.error.message.splitlines()[0] if outcome.error.message else ""
        return f"{outcome.error.type}: {first}{line}"
    return f"{outcome.status} {outcome.detail}".strip()


__all__ = ["AuthorError", "Bench", "Call", "Look", "Reach", "examine", "failing_calls", "glance", "reach", "words"]
