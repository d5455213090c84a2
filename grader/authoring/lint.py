"""`grader lint`: proof that an exercise accepts right answers and rejects wrong ones, or what stands against it.

The stages, each only where the ones before it left something to measure: the files load; the texts are complete and give
nothing away; the reference runs, is well conditioned and passes on many seeds; the stub fails; fixtures and misconceptions
are judged as they must be; no mutant of the reference passes that a wider search tells apart; every check rejects
something; margins. See docs/fidelity.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from grader.authoring import answers, coverage, margins, mutation, reference, texts
from grader.authoring.answers import Known, Patched
from grader.authoring.bench import Bench
from grader.authoring.complaints import ERROR, STRICT, Complaint, Places, complaint, of_author_error
from grader.authoring.margins import Margins
from grader.authoring.mutation import Fate
from grader.authoring.reference import ReferenceSurvey
from grader.authoring.scope import Scope, Settings, Watch
from grader.authoring.survey import Crew
from grader.authoring.witness import WideSearch
from grader.errors import AuthorError
from grader.fixtures import Fixture
from grader.grade import Options, grade
from grader.questions import questions
from grader.sandbox.runner import Runner
from grader.spec import document as documents
from grader.spec.exercise import Exercise
from grader.spec.library import Library
from grader.spec.load import read_exercise
from grader.submission import read_submission


@dataclass(frozen=True, eq=False)
class Linted:
    """Everything that one lint found out about an exercise."""

    exercise: str
    complaints: tuple[Complaint, ...]
    checks: int = 0
    known: tuple[Known, ...] = ()
    fates: tuple[Fate, ...] = ()
    margins: Margins | None = None
    slowest: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    def errors(self, strict: bool) -> tuple[Complaint, ...]:
        """What makes the exercise wrong."""
        levels = (ERROR, STRICT) if strict else (ERROR,)
        return tuple(each for each in self.complaints if each.level in levels)


class Linter:
    """Lints exercises of one library, one after another, with one warm runner per framework."""

    def __init__(
        self,
        library: Library,
        known: Iterable[str],
        runner_for: Callable[[str], Runner],
        settings: Settings,
        watch: Watch,
    ) -> None:
        self._library = library
        self._known = tuple(known)
        self._runner_for = runner_for
        self._settings = settings
        self._watch = watch

    def lint(self, folder: Path) -> Linted:
        """Everything about the exercise in ``folder``. Raises `GraderFault` for what is not the exercise's fault."""
        started = time.monotonic()
        try:
            exercise = read_exercise(folder, self._library.reference, self._known)
        except AuthorError as error:
            found = of_author_error("exercise_file", error)
            return Linted(folder.name, tuple(found), seconds={"total": time.monotonic() - started})
        complaints = texts.read(exercise)
        if exercise.solution is None or any(each.rule == "reference" for each in complaints):
            return Linted(exercise.name, tuple(complaints), len(questions(exercise)))
        fixtures = self._library.fixtures / exercise.name if self._library.fixtures is not None else None
        runner = self._runner_for(_framework(exercise, fixtures))
        crew = Crew(runner, exercise, self._settings.jobs)
        try:
            scope = Scope(exercise, runner, self._settings, Places(exercise), crew, fixtures, self._watch)
            return _Course(scope, complaints, started).run()
        finally:
            crew.close()


def _framework(exercise: Exercise, fixtures: Path | None) -> str:
    """What workers import before they are forked: torch as well where a fixture does, since each would import it anew."""
    found = [] if fixtures is None else sorted(fixtures.glob("*/*.py"))
    uses_torch = any(b"import torch" in path.read_bytes() or b"from torch" in path.read_bytes() for path in found)
    return "torch" if uses_torch else exercise.spec.framework


class _Course:
    """The stages that run code, for one exercise."""

    def __init__(self, scope: Scope, complaints: list[Complaint], started: float) -> None:
        self._scope = scope
        self._exercise: Exercise = scope.exercise
        self._complaints = list(complaints)
        self._seconds: dict[str, float] = {}
        self._started = self._clock = started

    def run(self) -> Linted:
        checks = len(questions(self._exercise))
        self._lap("texts")
        shown = reference.survey(self._scope)
        self._complaints += shown.complaints
        self._lap("reference")
        if not shown.sound:
            return Linted(
                self._exercise.name, tuple(self._complaints), checks, slowest=shown.slowest, seconds=self._total()
            )
        known, fates = self._judge(shown)
        measured = margins.measure(shown.closest, known, fates)
        self._complaints += margins.complaints(self._scope, measured)
        return Linted(
            self._exercise.name,
            tuple(self._complaints),
            checks,
            tuple(known),
            tuple(fates),
            measured,
            shown.slowest,
            self._total(),
        )

    def _judge(self, shown: ReferenceSurvey) -> tuple[list[Known], list[Fate]]:
        scope = self._scope
        fixtures, headers = answers.read_fixtures(scope)
        patches, patching = answers.read_patches(scope)
        self._complaints += [*headers, *patching]
        first = scope.settings.seed_numbers[0]
        bench = Bench(self._exercise, scope.runner, first)
        wide = WideSearch(self._exercise, scope.runner, scope.settings.wide_cases)
        try:
            self._stub(bench)
            known = self._known(bench, fixtures, patches, wide)
            fates = mutation.try_mutants(scope, bench, wide, shown.slowest)
            self._complaints += mutation.complaints(scope, fates)
            self._lap("mutants")
            if not scope.settings.quick:
                self._complaints += coverage.unused_checks(scope, bench, known, patches)
                self._complaints += coverage.shared_gates(scope, bench, known, fates)
                self._lap("coverage")
        finally:
            wide.close()
            bench.close()
        for seed in scope.settings.seed_numbers[1:]:
            self._further(seed, fixtures, patches)
        return known, fates

    def _stub(self, bench: Bench) -> None:
        """The stub fails, and earns nothing."""
        stub = self._exercise.stub
        if not stub.is_file():
            return
        report = grade(
            self._exercise, read_submission(stub), self._scope.runner, Options(seed=bench.seed), bench.oracle
        )
        if report.passed or report.score:
            said = (
                "the stub passes"
                if report.passed
                else f"the stub earns {report.score:g} of {report.max_score:g} points"
            )
            expected = "raise NotImplementedError(…), and checks that nothing passes by doing nothing"
            next_step = f"grade {self._exercise.name} {documents.shown(stub)} --seed {bench.seed}"
            self._complaints.append(complaint("stub", (str(stub), 1, 1), said, expected, next_step=next_step))

    def _known(self, bench: Bench, fixtures: list[Fixture], patches: list[Patched], wide: WideSearch) -> list[Known]:
        """Fixtures and misconceptions on the first seed, where they are looked at most closely."""
        said, found = answers.judge_fixtures(
            self._scope, bench, fixtures, not self._scope.settings.quick, diagnosed=True
        )
        self._complaints += said
        self._lap("fixtures")
        said, patched = answers.judge_misconceptions(self._scope, bench, patches, wide, first=True)
        self._complaints += said
        self._lap("misconceptions")
        return [*found, *patched]

    def _further(self, seed: int, fixtures: list[Fixture], patches: list[Patched]) -> None:
        """The same on another seed; what was said of a file before is not said again."""
        said_of = {(each.rule, each.finding.path, each.finding.line) for each in self._complaints}
        bench = Bench(self._exercise, self._scope.runner, seed)
        unsearched = WideSearch(self._exercise, self._scope.runner, 0)
        try:
            said, _ = answers.judge_fixtures(self._scope, bench, fixtures, thorough=False, diagnosed=False)
            more, _ = answers.judge_misconceptions(self._scope, bench, patches, unsearched, first=False)
            for each in (*said, *more):
                if (each.rule, each.finding.path, each.finding.line) not in said_of:
                    self._complaints.append(each)
        finally:
            self._scope.crew.forget(bench)
            unsearched.close()
            bench.close()
        self._lap(f"seed {seed}")

    def _lap(self, stage: str) -> None:
        now = time.monotonic()
        self._seconds[stage] = now - self._clock
        self._clock = now

    def _total(self) -> dict[str, float]:
        return {**self._seconds, "total": time.monotonic() - self._started}
