"""One submission under trial: which cases it meets, and a memory of what it and the reference answered.

Checks ask a `Trial` for outcomes; each (case, dtype, mode) is run at most once, however many checks look at it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from grader import cases, compare
from grader.cases import Case
from grader.errors import AuthorError, Finding
from grader.model import Expected, Mismatch, Outcome
from grader.oracle import IllConditioned, Oracle
from grader.sandbox.protocol import Value
from grader.spec.exercise import Exercise
from grader.submission import Student

REDRAWS = 12
# No limit is narrower than this many times what the reference takes for the same call on this machine.
RELATIVE_LIMIT = 50.0


@dataclass(frozen=True, eq=False)
class Plan:
    """The cases of one run, in order, each with the dtypes it is called in."""

    seed: int
    cases: tuple[tuple[Case, tuple[str, ...]], ...]
    # Whether it holds the one case that a token names, and so nothing to compare that case with.
    replay: bool = False

    def select(self, group: str | Iterable[str] | None, dtypes: Iterable[str] | None = None) -> list[tuple[Case, str]]:
        """(case, dtype) pairs of a group (random, edge, examples), of named cases, or of all."""
        names = None if group is None else ({group} if isinstance(group, str) else set(group))
        wanted = None if dtypes is None else set(dtypes)
        found: list[tuple[Case, str]] = []
        for case, own in self.cases:
            if names is None or case.name in names or case.group in names:
                found.extend((case, dtype) for dtype in own if wanted is None or dtype in wanted)
        return found


def make_plan(exercise: Exercise, oracle: Oracle, seed: int, random_cases: int | None = None) -> Plan:
    """Draw every case of a run. Same exercise, same seed: same plan, on every machine."""
    spec = exercise.spec
    planned: list[tuple[Case, tuple[str, ...]]] = []
    wanted = [name for name, entry in spec.cases.examples.items() if entry.from_reference]
    provided = oracle.provided_cases(seed) if wanted else {}
    for name, entry in spec.cases.examples.items():
        if entry.from_reference and name not in provided:
            path = str(exercise.folder / "exercise.yaml")
            raise AuthorError([Finding(path, 0, 0, f"example `{name}`: cases() in solution.py does not return it")])
        case = cases.example(exercise, name, seed, provided.get(name))
        planned.append((case, tuple(entry.dtypes or ("float64",))))
    count = spec.cases.random if random_cases is None else random_cases
    for index in range(count):
        planned.append((cases.draw(exercise, "random", index, seed), spec.dtypes))
    for name, edge in spec.cases.edge.items():
        for index in range(edge.count):
            planned.append((cases.draw(exercise, name, index, seed), edge.dtypes or spec.dtypes))
    return Plan(seed, tuple((replace(case, number=at), dtypes) for at, (case, dtypes) in enumerate(planned, start=1)))


class Trial:
    """A plan, a student and an oracle, with everything already answered remembered."""

    def __init__(self, exercise: Exercise, plan: Plan, student: Student, oracle: Oracle) -> None:
        self.exercise = exercise
        self.plan = plan
        self.student = student
        self.oracle = oracle
        self._outcomes: dict[tuple[str, str, str, str], Outcome] = {}
        self._judged: dict[tuple[str, str], Mismatch | None] = {}
        self._order: list[tuple[Case, str]] = []

    def outcome(
        self,
        case: Case,
        dtype: str,
        mode: str = "plain",
        options: dict[str, Any] | None = None,
        layout: str | None = None,
        values: dict[str, Value] | None = None,
    ) -> Outcome:
        """What the submission did with this case."""
        key = (case.key, dtype, mode + repr(sorted((options or {}).items())), layout or "")
        if key not in self._outcomes:
            outcome = self.student.call(case, dtype, mode, options, layout, values)
            self._outcomes[key] = self._with_patience(outcome, case, dtype, mode, options, layout, values)
            if mode == "plain" and layout is None:
                self._order.append((case, dtype))
        return self._outcomes[key]

    def foresee(self, calls: Iterable[tuple[Case, str]]) -> None:
        """Make plain calls that will be asked for, those not made yet, one right after the other."""
        plain = "plain" + repr([])
        wanted = {(case.key, dtype, plain, ""): (case, dtype) for case, dtype in calls}
        missing = [(key, call) for key, call in wanted.items() if key not in self._outcomes]
        outcomes = self.student.call_each([call for _, call in missing])
        for (key, (case, dtype)), outcome in zip(missing, outcomes, strict=True):
            self._outcomes[key] = self._with_patience(outcome, case, dtype)
            self._order.append((case, dtype))

    def _with_patience(self, outcome: Outcome, case: Case, dtype: str, *how: Any) -> Outcome:
        """The outcome, of a longer try where the time ran out: what the reference itself takes long for is no loop."""
        if outcome.status != "timeout":
            return outcome
        wider = self.student.again_with(RELATIVE_LIMIT * self.oracle.raw(case, dtype).seconds)
        if wider is None:
            return outcome
        mode, options, layout, values = how or ("plain", None, None, None)
        return self.student.call(case, dtype, mode, options, layout, values, wider)

    def expected(self, case: Case, dtype: str) -> Expected:
        return self.oracle.expected(case, dtype)

    def judge(self, case: Case, dtype: str) -> Mismatch | None:
        """How the submission's result differs from the expected one; only for an outcome that returned."""
        key = (case.key, dtype)
        if key not in self._judged:
            outcome = self.outcome(case, dtype)
            assert outcome.returned
            spec = self.exercise.spec
            self._judged[key] = compare.mismatch(outcome.value, self.expected(case, dtype), spec.output, spec.framework)
        return self._judged[key]

    def right(self, case: Case, dtype: str) -> bool:
        return self.outcome(case, dtype).returned and self.judge(case, dtype) is None

    @property
    def seen(self) -> tuple[tuple[Case, str], ...]:
        """Every plain call so far, in the order in which it was made."""
        return tuple(self._order)


def settle(exercise: Exercise, oracle: Oracle, plan: Plan) -> Plan:
    """Replace random cases that turn out ill-conditioned by fresh draws; an ill-conditioned named case is the author's error."""
    settled = []
    for case, dtypes in plan.cases:
        settled.append((_well_conditioned(exercise, oracle, case, dtypes), dtypes))
    return replace(plan, cases=tuple(settled))


def _well_conditioned(exercise: Exercise, oracle: Oracle, case: Case, dtypes: Iterable[str]) -> Case:
    current = case
    for attempt in range(REDRAWS):
        try:
            for dtype in dtypes:
                oracle.expected(current, dtype)
            return current
        except IllConditioned as error:
            named = current.name in exercise.spec.cases.examples
            if named or attempt == REDRAWS - 1:
                path = str(exercise.folder / "exercise.yaml")
                message = f"ill-conditioned: {error}"
                advice = "a scale at which the reference's answer does not hinge on the last bits of its inputs"
                raise AuthorError([Finding(path, 0, 0, message, advice)], f"grader lint {exercise.name}") from None
            # Indices of redraws lie far above those of planned cases, so that no two cases share a stream.
            redrawn = cases.draw(exercise, case.name, case.index + 1000 * (attempt + 1), case.seed)
            current = replace(redrawn, number=case.number)
    raise AssertionError("unreachable")
