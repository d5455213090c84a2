"""``html``: one page about a class, complete in itself: no script, no network, light or dark as the reader's system is.

An overview of students by exercises, what is hard in each exercise and which mistakes are common, and then each
student's results in full. The page is for staff unless the results were made fit for students before.
"""

from __future__ import annotations

import statistics
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from grader.explain import leading
from grader.model import CheckResult, Report
from grader.reports import digest, pages
from grader.reports.digest import Room
from grader.reports.entry import Entry
from grader.reports.setting import Setting
from grader.submission import inert

MAX_BYTES = 25_000_000
MAX_TEXT = 8_000
MAX_CLAIM = 500
# Shades of the overview: the share of the points, in fifths.
SHADES = 5


@dataclass(frozen=True)
class Cell:
    """One result in the overview. ``state``: passed, partial, ungraded or missing; ``shade`` 0 (nothing) to 5 (all)."""

    state: str
    score: str = ""
    most: str = ""
    shade: int = 0
    place: str = ""


@dataclass(frozen=True)
class Row:
    """One student in the overview."""

    name: str
    key: str
    place: str
    cells: tuple[Cell, ...]
    total: Cell


@dataclass(frozen=True)
class Tally:
    """How the class stands with one check. The three add up to ``of``; ``share`` is that of those who pass, in percent."""

    title: str
    advisory: bool
    passed: int
    failed: int
    blocked: int

    @property
    def of(self) -> int:
        return self.passed + self.failed + self.blocked

    def percent(self, count: int) -> float:
        return round(100 * count / self.of, 2) if self.of else 0.0


@dataclass(frozen=True)
class Who:
    """A link to one student's result."""

    name: str
    place: str


@dataclass(frozen=True)
class Mistake:
    """A misconception that was measured, and with whom."""

    name: str
    says: str
    who: tuple[Who, ...]


@dataclass(frozen=True)
class Course:
    """One exercise over the whole class."""

    name: str
    title: str
    place: str
    graded: int
    passed: int
    ungraded: int
    median: str
    most: str
    tallies: tuple[Tally, ...]
    mistakes: tuple[Mistake, ...]
    undiagnosed: int


@dataclass(frozen=True)
class Shown:
    """One check that did not pass, as its student reads it."""

    title: str
    state: str
    verdict: str
    worth: str
    claim: str
    body: str
    notes: tuple[tuple[str, str], ...]
    rerun: str
    opened: bool


@dataclass(frozen=True)
class Part:
    """One exercise of one student."""

    exercise: str
    title: str
    place: str
    cell: Cell
    reason: str
    facts: tuple[tuple[str, str], ...]
    failing: tuple[Shown, ...]
    blocked: tuple[str, ...]
    passed: tuple[str, ...]
    causes: tuple[str, ...]
    output: str


@dataclass(frozen=True)
class Student:
    """One student's section."""

    name: str
    key: str
    place: str
    total: Cell
    passed: int
    of: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Page:
    """All that the template prints."""

    title: str
    generated: str
    version: str
    exercises: tuple[Course, ...]
    rows: tuple[Row, ...]
    students: tuple[Student, ...]
    ungraded: int
    results: int


def render(entries: Sequence[Entry], setting: Setting) -> str:
    template = pages.environment().get_template("class.html")
    return digest.fit(lambda room: pages.clean(template.render(page=page(entries, setting, room)) + "\n"), MAX_BYTES)


def page(entries: Sequence[Entry], setting: Setting, room: Room) -> Page:
    """The page as plain values. Students are in the order of their names, exercises in the order they first come."""
    people = digest.by_person(entries)
    order = sorted(people, key=lambda key: (_alphabetic(shown_name(people[key][0])), key))
    worth = digest.exercises(entries)
    places = {key: f"student-{number}" for number, key in enumerate(order, start=1)}
    columns = {name: number for number, name in enumerate(worth, start=1)}

    def place(entry: Entry) -> str:
        return f"{places[entry.person.key]}-{columns[entry.report.exercise]}"

    rows, students = [], []
    for key in order:
        mine = people[key]
        by_name = {entry.report.exercise: entry for entry in mine}
        cells = tuple(
            cell(by_name[name].report, place(by_name[name])) if name in by_name else Cell("missing") for name in worth
        )
        total = _total(mine, sum(worth.values()))
        name = shown_name(mine[0])
        rows.append(Row(name, inert(key), places[key], cells, total))
        parts = tuple(_part(by_name[name], place(by_name[name]), room) for name in worth if name in by_name)
        passed = sum(entry.report.passed for entry in mine)
        students.append(Student(name, inert(key), places[key], total, passed, len(parts), parts))
    courses = tuple(
        _course(name, f"exercise-{number}", [entry for entry in entries if entry.report.exercise == name], place)
        for name, number in columns.items()
    )
    return Page(
        title=digest.name(setting.assignment) or "Class results",
        generated=setting.generated.replace("T", " ").replace("Z", " UTC"),
        version=setting.version,
        exercises=courses,
        rows=tuple(rows),
        students=tuple(students),
        ungraded=sum(entry.report.status != "graded" for entry in entries),
        results=len(entries),
    )


def shown_name(entry: Entry) -> str:
    return digest.name(entry.person.name or entry.person.key) or "(no name)"


def _alphabetic(name: str) -> str:
    """Letters with marks stand among those without, as in a class list."""
    apart = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in apart if not unicodedata.combining(letter))


def cell(report: Report, place: str) -> Cell:
    if report.score is None or report.status != "graded":
        return Cell("ungraded", place=place)
    return _scored(report.score, report.max_score, report.passed, place)


def _scored(score: float, most: float, passed: bool, place: str = "") -> Cell:
    share = score / most if most > 0 else float(passed)
    # The darkest shade and the lightest are kept for all and for nothing.
    shade = SHADES if share >= 1 else 0 if share <= 0 else 1 + int(share * (SHADES - 1))
    return Cell("passed" if passed else "partial", str(digest.number(score)), str(digest.number(most)), shade, place)


def _total(mine: Sequence[Entry], most: float) -> Cell:
    total = digest.total(mine)
    if total.score is None:
        return Cell("ungraded")
    return _scored(total.score, most, total.passed and total.max_score >= most)


def _course(name: str, place: str, entries: Sequence[Entry], where: Callable[[Entry], str]) -> Course:
    graded = [entry for entry in entries if entry.report.status == "graded" and entry.report.score is not None]
    scores = [entry.report.score or 0.0 for entry in graded]
    known = {diagnosis.misconception for entry in graded for diagnosis in entry.report.diagnoses}
    mistakes = []
    for misconception in known:
        found = [
            (entry, diagnosis)
            for entry in graded
            for diagnosis in entry.report.diagnoses
            if diagnosis.misconception == misconception
        ]
        people = {entry.person.key: Who(shown_name(entry), where(entry)) for entry, _ in found}
        mistakes.append(Mistake(misconception, inert(found[0][1].says), tuple(people.values())))
    mistakes.sort(key=lambda mistake: (-len(mistake.who), mistake.name))
    return Course(
        name=name,
        title=next((entry.report.title for entry in entries if entry.report.title), ""),
        place=place,
        graded=len(graded),
        passed=sum(entry.report.passed for entry in graded),
        ungraded=len(entries) - len(graded),
        median=str(digest.number(round(statistics.median(scores), 1))) if scores else "–",
        most=str(digest.number(max((entry.report.max_score for entry in entries), default=0.0))),
        tallies=tuple(_tallies([entry.report for entry in graded])),
        mistakes=tuple(mistakes),
        undiagnosed=sum(not entry.report.passed and not entry.report.diagnoses for entry in graded),
    )


def _tallies(reports: Sequence[Report]) -> Iterable[Tally]:
    """Every check that some report has, in the order they first come."""
    found: dict[str, list[tuple[str, CheckResult]]] = {}
    for report in reports:
        for check in report.checks:
            found.setdefault(check.id, []).append((digest.state(report, check), check))
    for checks in found.values():
        states = [state for state, _ in checks]
        first = checks[0][1]
        failed, blocked = states.count("failed") + states.count("fault"), states.count("blocked")
        yield Tally(
            digest.name(first.title or first.id), first.advisory, len(states) - failed - blocked, failed, blocked
        )


def _part(entry: Entry, place: str, room: Room) -> Part:
    report = entry.report
    graded = report.status == "graded"
    first = leading([check for check in report.checks if digest.withheld(report, check)]) if graded else None
    failing, blocked, passed = [], [], []
    for check in report.checks if graded else ():
        state = digest.state(report, check)
        title = digest.name(check.title or check.id)
        if state == "passed":
            passed.append(title)
        elif state in ("blocked", "neutral"):
            blocked.append(f"{title} (points given)" if state == "neutral" and not check.advisory else title)
        else:
            failing.append(_shown(check, state, title, check is first, room))
    facts = [("file", str(report.submission.get("path") or "")), ("finished", entry.finished)]
    if not report.secret:
        facts.append(("seed", str(report.seed)))
    if entry.attempts > 1:
        facts.append(("attempts", str(entry.attempts)))
    return Part(
        exercise=report.exercise,
        title=digest.name(report.title),
        place=place,
        cell=cell(report, place),
        reason="" if graded else digest.reason(report),
        facts=tuple((name, inert(value)) for name, value in facts if value),
        failing=tuple(failing),
        blocked=tuple(blocked),
        passed=tuple(passed),
        causes=tuple(inert(diagnosis.says) for diagnosis in report.diagnoses),
        output=inert(digest.cut(report.output, min(room.text, MAX_TEXT))),
    )


def _shown(check: CheckResult, state: str, title: str, opened: bool, room: Room) -> Shown:
    """The sentences apart from what must keep its columns: values, grids and calls."""
    explanation = check.explanation
    body, rerun = check.message, ""
    notes: list[tuple[str, str]] = []
    if explanation is not None:
        body = body.removeprefix(explanation.claim).removeprefix("\n")
        # From the end of the message forwards: the last sentence first.
        for name, text in (("note", explanation.note), ("likely cause", explanation.likely)):
            if text:
                body = body.removesuffix(f"{name}: {text}").removesuffix("\n")
                notes.insert(0, (name, text))
        rerun = explanation.rerun or ""
    else:
        body = body.partition("\n")[2]
    if check.hint:
        notes.append(("help", check.hint))
    most = min(room.text, MAX_TEXT)
    return Shown(
        title=title,
        state=state,
        verdict=check.verdict,
        worth="advisory" if check.advisory else digest.points(check.points, check.max_points),
        claim=digest.cut(digest.claim(check), min(room.text, MAX_CLAIM)),
        body=digest.cut(inert(body), most),
        notes=tuple((name, digest.cut(inert(text), most)) for name, text in notes),
        rerun=inert(rerun),
        opened=opened,
    )
