"""Answers whose verdict is known: fixtures with their headers, and the reference with each misconception patched in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from grader import fixtures
from grader.authoring.bench import Bench, Look, examine, failing_calls
from grader.authoring.complaints import STRICT, Complaint, complaint
from grader.authoring.scope import Scope
from grader.authoring.survey import Chain, Source
from grader.authoring.witness import CONFIRMATIONS, WideSearch, Witness
from grader.diagnose import Misconception
from grader.errors import AuthorError
from grader.fixtures import Fixture
from grader.model import CheckResult, Diagnosis, Question, Report, Ruling
from grader.questions import questions
from grader.spec import document as documents
from grader.spec.load import read_misconceptions
from grader.trial import Trial

RIGHT_FIXTURES = 3


@dataclass(frozen=True, eq=False)
class Known:
    """One answer and how it fared on the first seed. ``kind``: right, wrong, misconception."""

    name: str
    kind: str
    look: Look


# --- fixtures ---------------------------------------------------------------------------------------------------------


def read_fixtures(scope: Scope) -> tuple[list[Fixture], list[Complaint]]:
    """The fixtures of the exercise, and what is wrong with their headers or their number."""
    folder = scope.fixtures
    found: list[Fixture] = []
    complaints: list[Complaint] = []
    paths = (
        [] if folder is None else [*sorted((folder / "right").glob("*.py")), *sorted((folder / "wrong").glob("*.py"))]
    )
    known = {question.id for question in questions(scope.exercise)}
    for path in paths:
        try:
            fixture = fixtures.read(path)
        except ValueError as error:
            said = str(error).removeprefix(f"{path}: ")
            expected = "`# right: the style`, or `# wrong: the mistake` and `# fails: CHECK, …`, at the top"
            complaints.append(complaint("fixture", (str(path), 1, 1), said, expected))
            continue
        missing = [name for name in fixture.fails if name not in known]
        if missing:
            said = f"there is no check `{missing[0]}`"
            complaints.append(complaint("fixture", (str(path), 2, 1), said, "one of " + ", ".join(sorted(known))))
            continue
        found.append(fixture)
    rights = sum(fixture.right for fixture in found)
    place = (str(folder or f"fixtures/{scope.exercise.name}"), 0, 0)
    if rights < RIGHT_FIXTURES:
        expected = f"at least {RIGHT_FIXTURES}, each in a style of its own, in right/"
        complaints.append(complaint("fixtures", place, f"{rights} right answers", expected, STRICT))
    if rights == len(found):
        expected = "in wrong/, with the check each must fail in its header"
        complaints.append(complaint("fixtures", place, "no wrong answers", expected, STRICT))
    return found, complaints


def judge_fixtures(
    scope: Scope, bench: Bench, chosen: Sequence[Fixture], thorough: bool, diagnosed: bool
) -> tuple[list[Complaint], list[Known]]:
    """Every fixture against its header on one seed.

    Unless ``thorough``, wrong ones are asked only what their header names, and unless ``diagnosed`` not for the mistake.
    """
    values = {question.id for question in bench.questions if question.check.kind == "values"}
    tick = scope.watch(f"fixtures, seed {bench.seed}", len(chosen))

    def judge(chain: Chain, fixture: Fixture) -> tuple[Complaint | None, Known]:
        trial = chain.fresh(
            bench, Source(fixture.path.name, fixture.path.read_bytes(), fixture.path.name), scope.limits
        )
        try:
            asked = None if thorough or fixture.right else fixture.fails
            named = diagnosed and fixture.misconception is not None
            # What a relation sees may hang on the calls before it.
            every_call = asked is None or named or not set(asked) <= values
            look, rulings = examine(trial, bench, asked, every_call)
            diagnoses: tuple[Diagnosis, ...] = ()
            if named:
                diagnoses = chain.diagnostician(bench).diagnose(trial, failing_calls(rulings))
        finally:
            trial.student.close()
        header = fixture if named else replace(fixture, misconception=None)
        said = fixtures.complaint(header, _report(scope, bench, rulings, diagnoses))
        known = Known(f"{fixture.path.parent.name}/{fixture.path.name}", fixture.path.parent.name, look)
        if said is None:
            return None, known
        rerun = f"grade {scope.exercise.name} {documents.shown(fixture.path)} --seed {bench.seed}"
        promised = "that it passes" if fixture.right else "that it fails " + ", ".join(fixture.fails)
        if named:
            promised += f", diagnosed as {fixture.misconception}"
        place = (str(fixture.path), 1, 1)
        return complaint(
            "fixture", place, f"{said} (seed {bench.seed})", f"as its header says: {promised}", next_step=rerun
        ), known

    judged = scope.crew.each(chosen, judge, tick)
    return [said for said, _ in judged if said is not None], [known for _, known in judged]


def _report(
    scope: Scope, bench: Bench, rulings: Iterable[tuple[Question, Ruling]], diagnoses: tuple[Diagnosis, ...]
) -> Report:
    """The rulings as the report that `fixtures.complaint` reads; the prose of a real one is left out."""
    checks = tuple(
        CheckResult(
            question.id, question.title, ruling.verdict, 0.0, question.points, question.advisory, ruling.cause,
            message=_message(ruling), neutral=ruling.neutral,
        )
        for question, ruling in rulings
    )  # fmt: skip
    passed = all(check.verdict == "pass" or check.neutral for check in checks if not check.advisory)
    return Report(scope.exercise.name, {}, bench.seed, "graded", passed, None, 0.0, checks, diagnoses, {}, {}, {})


def _message(ruling: Ruling) -> str:
    claim = ruling.facts.get("claim") or ruling.facts.get("why")
    if claim:
        return str(claim)
    where = f" on case `{ruling.case.name}`" if ruling.case is not None else ""
    worse = (
        f", {ruling.mismatch.ratio:.3g} times what is allowed"
        if ruling.mismatch is not None and ruling.mismatch.ratio
        else ""
    )
    return f"{ruling.cause or ruling.verdict}{where}{worse}"


# --- misconceptions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Patched:
    """A misconception whose patch fits, and the text it makes of the reference."""

    misconception: Misconception
    source: Source


def read_patches(scope: Scope) -> tuple[list[Patched], list[Complaint]]:
    """The misconceptions of the exercise, patched in, and which of them no longer match."""
    exercise = scope.exercise
    if exercise.misconceptions is None or exercise.solution is None:
        return [], []
    path = exercise.misconceptions
    try:
        entries = read_misconceptions(path).misconceptions
    except AuthorError as error:
        return [], [Complaint("misconception", finding) for finding in error.findings]
    text = exercise.solution.read_text(encoding="utf-8")
    found: list[Patched] = []
    complaints: list[Complaint] = []
    for index, entry in enumerate(entries):
        at = ("misconceptions", index)
        made = text
        for number, patch in enumerate(entry.patch):
            count = made.count(patch.find)
            if count == 0 or (count > 1 and not patch.all):
                where = scope.places.at(*at, "patch", number, "find", file=path)
                how = "no longer matches" if count == 0 else f"matches {count} times"
                line = patch.find.strip().splitlines()[0] if patch.find.strip() else patch.find
                said = f"the patch of `{entry.id}` {how}: `{line}`"
                complaints.append(complaint("misconception", where, said, "a text that stands once in solution.py"))
                break
            made = made.replace(patch.find, patch.replace)
        else:
            if made == text:
                where = scope.places.at(*at, file=path)
                complaints.append(complaint("misconception", where, f"the patch of `{entry.id}` changes nothing"))
                continue
            misconception = Misconception(entry.id, entry.says.strip(), entry.help, entry.equals, entry.patch)
            found.append(Patched(misconception, Source(entry.id, made.encode())))
    return found, complaints


def judge_misconceptions(
    scope: Scope, bench: Bench, chosen: Sequence[Patched], wide: WideSearch, first: bool
) -> tuple[list[Complaint], list[Known]]:
    """Each must be rejected, and diagnosed as itself or as a declared equal and nothing else. ``first`` searches a witness."""
    tick = scope.watch(f"misconceptions, seed {bench.seed}", len(chosen))
    equals = _equals(chosen)

    def judge(chain: Chain, patched: Patched) -> tuple[Complaint | None, Known]:
        trial = chain.warm(bench, patched.source, scope.limits)
        quick = [q.id for q in bench.questions if q.check.kind in ("values", "inputs_unchanged")]
        look, rulings = examine(trial, bench, quick)
        if len(look.failed) <= 1:
            look, rulings = examine(trial, bench)
        else:
            # More relations may fail, and nobody asked: enough is known of it.
            look = replace(look, complete=False)
        known = Known(patched.misconception.id, "misconception", look)
        if look.passed:
            witness = wide.find(Trial(scope.exercise, bench.plan, trial.student, wide.oracle)) if first else None
            return _unrejected(scope, patched, bench, look, witness), known
        diagnoses = chain.diagnostician(bench).diagnose(trial, failing_calls(rulings), pairs=False)
        names = [diagnosis.misconception for diagnosis in diagnoses]
        return _misnamed(scope, patched, bench, look, names, equals), known

    judged = scope.crew.each(chosen, judge, tick)
    return [said for said, _ in judged if said is not None], [known for _, known in judged]


def _place(scope: Scope, patched: Patched) -> tuple[str, int, int]:
    path = scope.exercise.misconceptions
    assert path is not None
    entries = read_misconceptions(path).misconceptions
    index = next(i for i, entry in enumerate(entries) if entry.id == patched.misconception.id)
    return scope.places.at("misconceptions", index, file=path)


def _unrejected(scope: Scope, patched: Patched, bench: Bench, look: Look, witness: Witness | None) -> Complaint:
    said = f"`{patched.misconception.id}` passes every check that counts (seed {bench.seed})"
    if look.advisory:
        said += ", and fails the advisory " + ", ".join(name for name, _ in look.advisory)
    if witness is None:
        return complaint("misconception", _place(scope, patched), said, "a case or a check that rejects it")
    return complaint("misconception", _place(scope, patched), said, expects(witness), paste=witness.paste)


def expects(witness: Witness) -> str:
    """What a witness asks for, in words; the case itself is printed apart."""
    how = (
        witness.what
        if witness.reach.ratio == float("inf")
        else f"wrong by {witness.reach.ratio:.3g} times what is allowed"
    )
    again = f"on {witness.confirmed} of {CONFIRMATIONS} further draws too"
    return f"an edge case such as the one below, in {witness.reach.dtype}: {how}, {again}"


def _misnamed(
    scope: Scope, patched: Patched, bench: Bench, look: Look, names: Sequence[str], equals: dict[str, set[str]]
) -> Complaint | None:
    mine = patched.misconception.id
    if mine not in names:
        said = f"`{mine}` is rejected by {', '.join(look.ids)}, and not diagnosed as itself (seed {bench.seed})"
        expected = "a patch that returns or raises on every call, so that it can be compared"
        return complaint("misconception", _place(scope, patched), said, expected)
    others = [name for name in names if name != mine and name not in equals[mine]]
    if not others:
        return None
    said = f"`{mine}` gives the same results as `{'`, `'.join(others)}` on every call (seed {bench.seed})"
    return complaint(
        "misconception", _place(scope, patched), said, f"a case that tells them apart, or `equals: [{others[0]}]`"
    )


def _equals(chosen: Sequence[Patched]) -> dict[str, set[str]]:
    """Declared equals, both ways."""
    found: dict[str, set[str]] = {patched.misconception.id: set() for patched in chosen}
    for patched in chosen:
        for other in patched.misconception.equals:
            found[patched.misconception.id].add(other)
            found.setdefault(other, set()).add(patched.misconception.id)
    return found
