"""The reference under its own exercise: it runs, it is well conditioned, it passes every check, and its limits fit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from grader import compare
from grader.authoring.bench import NOWHERE, Bench, Reach, reach, words
from grader.authoring.complaints import ADVICE, ERROR, STRICT, Complaint, complaint, of_author_error
from grader.authoring.scope import Scope
from grader.cases import Case
from grader.diagnose import Diagnostician
from grader.errors import AuthorError, GraderFault
from grader.grade import Options, grade
from grader.lockdown import reference_policy
from grader.model import Report
from grader.oracle import IllConditioned
from grader.sandbox.runner import Limits
from grader.spec import document as documents
from grader.spec import expressions, schema
from grader.submission import Student, read_submission
from grader.trial import Trial

LEAST_FACTOR = 20.0
# Nobody waits longer for a call, and nobody meant to: such limits are copied from elsewhere.
LONG_SECONDS, LONG_FACTOR = 60.0, 1000.0
# What the reference may take here, whatever the limits say, before it counts as one that loops.
PATIENCE, PATIENCE_FLOOR = 4.0, 10.0
MUCH_MEMORY = 16384.0
# Above this share of draws a case is ill-conditioned by design, not by bad luck.
UNLUCKY = 0.25
# In a narrower dtype an error allowed beyond this share of the output tells wrong from right no more.
BLUNT = {"float32": 1e-2, "float16": 0.5, "bfloat16": 0.5}


@dataclass(frozen=True)
class ReferenceSurvey:
    """What the reference showed. ``sound`` is False when nothing further can be measured against it."""

    complaints: tuple[Complaint, ...]
    sound: bool
    slowest: float = 0.0
    closest: Reach = NOWHERE


def survey(scope: Scope) -> ReferenceSurvey:
    """Run the reference on every seed; stops at the first seed on which it is not sound."""
    seeds = scope.settings.reference_seeds
    tick = scope.watch("reference", len(seeds))
    found: list[Complaint] = []
    closest, slowest = NOWHERE, 0.0
    conditioned = _Conditioning()
    undecided: Counter[str] = Counter()
    for seed in seeds:
        bench = Bench(scope.exercise, scope.runner, seed)
        try:
            run = _Run(scope, bench, conditioned, first=seed == seeds[0])
            wrong = run.complaints()
            if wrong:
                return ReferenceSurvey((*found, *wrong), False)
            found += run.notes
            undecided.update(run.undecided)
            closest = max(closest, run.closest, key=lambda r: r.ratio)
            slowest = run.slowest if seed == seeds[0] else slowest
        finally:
            bench.close()
        tick()
    found += conditioned.complaints(scope)
    for name, count in undecided.items():
        if count == len(seeds):
            said = f"check `{name}` could not decide anything, not even on the reference"
            found.append(complaint("check", scope.places.check(name), said, "cases on which it can", STRICT))
    return ReferenceSurvey(tuple(found), True, slowest, closest)


class _Conditioning:
    """How often each case was ill-conditioned or blunt, over all seeds."""

    def __init__(self) -> None:
        self._drawn: Counter[str] = Counter()
        self._ill: dict[str, list[tuple[Case, str]]] = {}
        self._blunt: dict[tuple[str, str], tuple[float, Case]] = {}

    def drawn(self, case: Case) -> None:
        self._drawn[case.name] += 1

    def ill(self, case: Case, why: str) -> None:
        self._ill.setdefault(case.name, []).append((case, why))

    def blunt(self, case: Case, dtype: str, share: float) -> None:
        known = self._blunt.get((case.name, dtype))
        if known is None or share > known[0]:
            self._blunt[case.name, dtype] = (share, case)

    def complaints(self, scope: Scope, hopeless: bool = False) -> list[Complaint]:
        """``hopeless``: some case is ill-conditioned however it is drawn, so that nothing can be graded."""
        found = []
        for name, draws in self._ill.items():
            case, why = draws[0]
            said = f"{why}; on {len(draws)} of {self._drawn[name]} draws (first: --case {case.token})"
            level = ERROR if hopeless or len(draws) > UNLUCKY * self._drawn[name] else ADVICE
            expected = "a scale at which the result does not hinge on the last bits of the inputs"
            found.append(complaint("ill_conditioned", scope.places.case(name), said, expected, level))
        for (name, dtype), (share, case) in self._blunt.items():
            said = f"case `{name}`: in {dtype} an error of {share:.0%} of the result is allowed (--case {case.token})"
            expected = "smaller sums or scores, or `dtypes:` without it"
            found.append(complaint("blunt", scope.places.case(name), said, expected, ADVICE))
        return found


class _Run:
    """The reference on one seed."""

    def __init__(self, scope: Scope, bench: Bench, conditioning: _Conditioning, first: bool) -> None:
        self._scope = scope
        self._first = first
        self._bench = bench
        self._conditioning = conditioning
        self._exercise = scope.exercise
        self.closest = NOWHERE
        self.slowest = 0.0
        self.slowest_at = ""
        self.undecided: tuple[str, ...] = ()
        self.notes: tuple[Complaint, ...] = ()

    def complaints(self) -> list[Complaint]:
        """What is wrong on this seed; empty when the reference is sound."""
        assert self._exercise.solution is not None
        submission = read_submission(self._exercise.solution)
        # Limits are looked at apart: a narrow one must be told as such, and not as a reference that fails.
        limits = Limits.of(
            max(PATIENCE * self._exercise.spec.limits.time, PATIENCE_FLOOR), self._exercise.spec.limits.memory
        )
        lock = reference_policy(limits)
        student = Student(self._scope.runner, self._exercise, submission, lock, limits, trusted=True)
        try:
            refused = student.load()
            if refused is not None:
                line = refused.extra.get("line", 1)
                place = (str(self._exercise.solution), int(line), int(refused.extra.get("column", 1)))
                return [complaint("reference", place, f"it cannot be loaded: {words(refused)}", "a file that runs")]
            return self._calls(student) or self._limits() or self._settled() or self._graded()
        except AuthorError as error:
            return of_author_error("cases", error, (str(self._scope.places.yaml), 1, 1))
        finally:
            student.close()

    def _calls(self, student: Student) -> list[Complaint]:
        """Every planned call: it returns, in the declared shape; its tolerance is sharp; published values hold."""
        try:
            plan = self._bench.draw()
        except GraderFault as fault:
            if "cases()" not in str(fault):
                raise
            return [complaint("reference", self._solution(), str(fault), "cases(rng) returning {name: {input: value}}")]
        trial = Trial(self._exercise, plan, student, self._bench.oracle)
        found: dict[str, Complaint] = {}
        for case, dtype in plan.select(None):
            outcome = trial.outcome(case, dtype)
            if not outcome.returned:
                said = f"the reference fails on case `{case.name}` in {dtype}: {words(outcome)}"
                wrong = complaint(
                    "reference", self._scope.places.case(case.name), said, "a result", next_step=self._rerun(case)
                )
                found.setdefault(case.name, wrong)
                continue
            if outcome.seconds > self.slowest:
                self.slowest, self.slowest_at = outcome.seconds, f"case `{case.name}`, {dtype}"
        if found:
            return list(found.values())
        self.slowest = min([self.slowest, *self._again(student, plan.select(None))])
        for case, dtype in plan.select(None):
            wrong_shape = self._shape(case, dtype, trial)
            if wrong_shape is not None:
                found.setdefault(case.name, wrong_shape)
            self._condition(case, dtype, trial, found)
        return list(found.values())

    def _again(self, student: Student, calls: list[tuple[Case, str]]) -> list[float]:
        """The slowest call three times more: the machine may have been busy."""
        slow = next((call for call in calls if f"case `{call[0].name}`, {call[1]}" == self.slowest_at), None)
        if slow is None:
            return []
        return [outcome.seconds for _ in range(3) if (outcome := student.call(*slow)).returned]

    def _condition(self, case: Case, dtype: str, trial: Trial, found: dict[str, Complaint]) -> None:
        self._conditioning.drawn(case)
        try:
            expected = self._bench.oracle.expected(case, dtype)
        except IllConditioned as error:
            self._conditioning.ill(case, str(error))
            return
        except AuthorError as error:
            place = self._scope.places.at("cases", "examples", case.name, "expected")
            found.setdefault(case.name, of_author_error("golden", error, place)[0])
            return
        ratio = reach(trial, case, dtype)
        if ratio > self.closest.ratio:
            self.closest = Reach.of(ratio, case, dtype)
        for leaf in expected.leaves:
            values = compare.numbers(leaf.expected)
            if dtype in BLUNT and values is not None and values.dtype.kind == "f" and values.size:
                scale = float(abs(values[abs(values) < float("inf")]).max(initial=0.0))
                # An exact zero (the loss of a vocabulary of one) is known to the floor, and has no share to speak of.
                if scale and leaf.allowed > BLUNT[dtype] * scale:
                    self._conditioning.blunt(case, dtype, leaf.allowed / scale)

    def _shape(self, case: Case, dtype: str, trial: Trial) -> Complaint | None:
        """The declared shape and axes against what the reference returned."""
        for part in compare.parts(trial.outcome(case, dtype).value, self._exercise.spec.output):
            values = compare.numbers(part.value)
            if values is None:
                continue
            name = f"`{part.path}`" if part.path else "the result"
            place = self._scope.places.at("output")
            if part.output.axes is not None and len(part.output.axes) != values.ndim:
                said = f"{name} has {values.ndim} axes in case `{case.name}`, and {len(part.output.axes)} are named"
                return complaint("output", place, said, "one name per axis, or no axes where their number varies")
            if part.output.shape is not None and case.dims:
                declared = tuple(expressions.integer(_whole(size), case.dims) for size in part.output.shape)
                if declared != values.shape:
                    said = f"{name} has the shape {values.shape} in case `{case.name}`, declared is {declared}"
                    return complaint("output", place, said, "the shape that the reference returns")
        return None

    def _limits(self) -> list[Complaint]:
        """A limit too narrow for the reference itself, which would fail for it; others are kept as notes."""
        found = _limits(self._scope, self.slowest, self.slowest_at) if self._first else []
        if self._exercise.spec.limits.time < LEAST_FACTOR * self.slowest:
            return found
        self.notes = tuple(found)
        return []

    def _settled(self) -> list[Complaint]:
        """Whether every case can be drawn such that a sharp tolerance exists."""
        try:
            assert self._bench.plan
        except AuthorError as error:
            return self._conditioning.complaints(self._scope, hopeless=True) or of_author_error("cases", error)
        return []

    def _graded(self) -> list[Complaint]:
        """The reference as a submission, through the whole pipeline."""
        assert self._exercise.solution is not None
        mute = Diagnostician(self._scope.runner, replace(self._exercise, misconceptions=None))
        submission = read_submission(self._exercise.solution)
        options = Options(seed=self._bench.seed)
        report = grade(self._exercise, submission, self._scope.runner, options, self._bench.oracle, mute)
        if report.status != "graded":
            if "the reference of" not in str(report.reason):
                raise GraderFault(str(report.reason))
            return [
                complaint("reference", self._solution(), str(report.reason), "a result for every case and relation")
            ]
        self.undecided = tuple(check.id for check in report.checks if check.neutral)
        return [
            complaint(
                "reference", self._scope.places.check(check.id),
                f"the reference itself does not pass `{check.id}` on seed {report.seed}: {_first(check.message)}",
                "a check that the reference passes on every seed", next_step=self._rerun_seed(report),
            )
            for check in report.checks if check.verdict != "pass" and not check.neutral
        ]  # fmt: skip

    def _solution(self) -> tuple[str, int, int]:
        return str(self._exercise.solution), 1, 1

    def _rerun(self, case: Case) -> str:
        assert self._exercise.solution is not None
        return f"grade {self._exercise.name} {documents.shown(self._exercise.solution)} --case {case.token}"

    def _rerun_seed(self, report: Report) -> str:
        assert self._exercise.solution is not None
        return f"grade {self._exercise.name} {documents.shown(self._exercise.solution)} --seed {report.seed}"


def _first(message: str) -> str:
    return message.splitlines()[0] if message else "no message"


def _whole(size: schema.Expression) -> int | str:
    return size if isinstance(size, str) else int(size)


def _limits(scope: Scope, slowest: float, where: str) -> list[Complaint]:
    """The limits next to what the reference needs."""
    limits = scope.exercise.spec.limits
    found = []
    if slowest > 0 and limits.time < LEAST_FACTOR * slowest:
        said = f"a limit of {limits.time:g} s is {limits.time / slowest:.1f} times the reference's slowest call ({slowest:.3g} s, {where})"
        expected = f"at least {LEAST_FACTOR:g} times: limits: {{time: {_round_up(LEAST_FACTOR * slowest):g}}}"
        found.append(complaint("limits", scope.places.at("limits", "time"), said, expected))
    if limits.time > max(LONG_SECONDS, LONG_FACTOR * slowest):
        said = f"a limit of {limits.time:g} s, where the reference's slowest call takes {slowest:.3g} s ({where})"
        expected = f"at most {max(LONG_SECONDS, LONG_FACTOR * slowest):.3g} s"
        found.append(complaint("limits", scope.places.at("limits", "time"), said, expected))
    if limits.memory > MUCH_MEMORY:
        said = f"a limit of {limits.memory:g} MB above the start"
        found.append(complaint("limits", scope.places.at("limits", "memory"), said, f"at most {MUCH_MEMORY:g} MB"))
    return found


def _round_up(seconds: float) -> float:
    return float(max(1.0, -(-seconds // 1)))
