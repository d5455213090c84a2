"""One page for one student: each check with its evidence in pictures, complete in itself and readable without scripts.

The same body goes into a page of its own (`render`) and into a notebook (`fragment`). What is shown is what the report
holds: a report made fit for its reader before it comes here has no pictures, cases or seed to show.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from grader.explain import block_lines, leading
from grader.model import CheckResult, Explanation, Report
from grader.reports import digest, heat_map, pages, terminal
from grader.submission import inert

MAX_BYTES = 950_000
MAX_TEXT, MAX_CLAIM = 8_000, 500
# How much a page may hold, tried in this order: characters per text, pictures (None is all of them), and checks in full.
Room = tuple[int, int | None, int | None]
ROOMS: tuple[Room, ...] = (
    (MAX_TEXT, None, None), (2_000, 6, None), (2_000, 1, None), (500, 1, 40), (200, 0, 10), (100, 0, 0),
)  # fmt: skip
WORDS = {
    "passed": "passes",
    "failed": "fails",
    "blocked": "not run",
    "neutral": "not decided",
    "fault": "not graded",
}
MARKS = {"passed": "✓", "failed": "✗", "blocked": "–", "neutral": "–", "fault": "!"}


@dataclass(frozen=True)
class Detail:
    """What a page says of one check that did not pass, in the order of reading."""

    claim: str
    call: str
    values: str
    picture: heat_map.Shown | None
    grid: heat_map.Shown | None
    where: tuple[str, ...]
    likely: str
    evidence: str
    note: str
    help: str
    rerun: str
    cut: bool


@dataclass(frozen=True)
class Check:
    """One check. ``state`` is one of `digest.STATES`."""

    title: str
    state: str
    mark: str
    word: str
    worth: str
    advisory: bool
    detail: Detail | None
    place: str
    opened: bool


@dataclass(frozen=True)
class Part:
    """One submission."""

    exercise: str
    title: str
    place: str
    file: str
    state: str
    score: str
    most: str
    bar: tuple[float, float]
    tally: str
    reason: str
    first: Check | None
    checks: tuple[Check, ...]
    output: str
    left_out: tuple[str, ...]
    again: str
    hint: str
    seed: str
    versions: str


@dataclass(frozen=True)
class Page:
    """All that the template prints. ``frame`` is false for a fragment."""

    title: str
    parts: tuple[Part, ...]
    frame: bool
    light: Markup
    dark: Markup


def render(reports: Sequence[Report], hints: Collection[str] = ()) -> str:
    """The page of one submission, or of several with a list of them at its top.

    ``hints`` names the exercises that have hints. The page has fewer than a million bytes; where that takes fewer
    pictures or shorter texts, it says so.
    """
    title = reports[0].exercise if len(reports) == 1 else f"{len(reports)} exercises"
    template = pages.environment().get_template("page.html")

    def build(room: Room) -> str:
        parts = tuple(_part(report, f"e{at}", room, report.exercise in hints) for at, report in enumerate(reports, 1))
        return pages.clean(template.render(page=_page(title, parts, frame=True)) + "\n")

    return _fitting(build)


def fragment(report: Report) -> str:
    """The same for one submission as a part of another page, a notebook: no ids, and styles that reach nothing else."""
    template = pages.environment().get_template("page_fragment.html")

    def build(room: Room) -> str:
        part = _part(report, "", room, hints=False, magic=True)
        return pages.clean(template.render(page=_page(report.exercise, (part,), frame=False)))

    return _fitting(build)


def _fitting(build: Callable[[Room], str]) -> str:
    text = ""
    for room in ROOMS:
        text = build(room)
        if len(text.encode("utf-8")) <= MAX_BYTES:
            break
    return text


def _page(title: str, parts: tuple[Part, ...], frame: bool) -> Page:
    # Constants of ours, not escaped because they are style and no text.
    light, dark = (Markup(heat_map.variables(palette)) for palette in (heat_map.LIGHT, heat_map.DARK))
    return Page(title, parts, frame, light, dark)


def _part(report: Report, place: str, room: Room, hints: bool, magic: bool = False) -> Part:
    graded = report.status == "graded" and report.score is not None
    most_text, pictures, full = room
    text = report.output
    first = leading(report.checks) if graded else None
    detailed = [check for check in (first, *report.checks) if check is not None and _to_tell(report, check)]
    # By identity: reports of a class may hold equal checks.
    order = list(dict.fromkeys(map(id, detailed)))
    drawn = set(order if pictures is None else order[:pictures])
    told = set(order if full is None else order[: max(full, 1)])

    smallest = _smallest(report.checks, first) if graded else None

    def one(at: int, check: CheckResult) -> Check:
        state = digest.state(report, check)
        detail = None
        if id(check) in order:
            detail = _detail(report, check, most_text, id(check) in drawn, id(check) in told, magic)
        word = WORDS[state]
        if state == "failed" and check.verdict in terminal.WORDS:
            word = terminal.WORDS[check.verdict]
        return Check(
            title=digest.name(check.title or check.id),
            state=state,
            mark=MARKS[state],
            word=word,
            worth="advisory" if check.advisory else digest.points(check.points, check.max_points),
            advisory=check.advisory,
            detail=detail,
            place=f"{place}-{at}" if place else "",
            opened=check is smallest,
        )

    checks = tuple(one(at, check) for at, check in enumerate(report.checks if graded else (), 1))
    shown = next((each for each, check in zip(checks, report.checks, strict=False) if check is first), None)
    command = f"%grade {report.exercise}" if magic else terminal.command(report)
    states = [check.state for check in checks]
    return Part(
        exercise=report.exercise,
        title=digest.name(report.title),
        place=place,
        file=inert(str(report.submission.get("path") or "")),
        state="ungraded" if not graded else "passed" if report.passed else "failed",
        score=str(digest.number(report.score or 0.0)) if graded else "",
        most=str(digest.number(report.max_score)),
        bar=_bar(report) if graded else (0.0, 0.0),
        tally=_tally(states),
        reason=digest.reason(report) if not graded else "",
        first=shown,
        checks=checks,
        output=digest.cut(inert(text), most_text) if text.strip() else "",
        left_out=tuple(digest.cut(inert(line), most_text) for line in report.left_out[:50]),
        again=f"{command} --seed {report.seed}" if not report.secret else "",
        hint=f"grade {report.exercise} --hint" if hints and not report.passed else "",
        seed=str(report.seed) if not report.secret else "",
        versions=", ".join(f"{'tensorgrade' if name == 'grader' else name} {value}" for name, value in report.versions.items() if value),
    )  # fmt: skip


def _to_tell(report: Report, check: CheckResult) -> bool:
    return digest.state(report, check) != "passed" and (check.explanation is not None or bool(check.message))


def _smallest(checks: Sequence[CheckResult], first: CheckResult | None) -> CheckResult | None:
    """The check with the smallest picture of a result, to be open too; None where the one shown first has one."""
    if first is not None and first.explanation is not None and first.explanation.picture is not None:
        return None
    found = [(each.explanation.picture.total, at) for at, each in enumerate(checks)
             if each.explanation is not None and each.explanation.picture is not None]  # fmt: skip
    return checks[min(found)[1]] if found else None


def _bar(report: Report) -> tuple[float, float]:
    """Shares in percent, for a bar: the points had, and those together with the points that were not decided by a run."""
    if report.max_score <= 0:
        return (100.0, 100.0) if report.passed else (0.0, 0.0)
    had = 100 * (report.score or 0.0) / report.max_score
    blocked = sum(c.max_points - c.points for c in report.checks if c.verdict == "skipped" and not c.advisory)
    return round(had, 2), round(min(100.0, had + 100 * blocked / report.max_score), 2)


def _tally(states: Sequence[str]) -> str:
    said = []
    for state, word in (("passed", "pass"), ("failed", "fail"), ("blocked", "not run"), ("neutral", "not decided")):
        count = states.count(state)
        if count:
            said.append(f"{count} {word}")
    checks = "1 check" if len(states) == 1 else f"{len(states)} checks"
    return f"{checks}: {', '.join(said)}" if said else ""


def _detail(report: Report, check: CheckResult, most: int, pictured: bool, full: bool, magic: bool) -> Detail:
    found = check.explanation or Explanation(claim=digest.claim(check))

    def text(words: str | None, room: int = most) -> str:
        return digest.cut(inert(words or ""), room)

    claim = text(found.claim, min(most, MAX_CLAIM) if full else 100)
    if not full:
        return Detail(claim, "", "", None, None, (), "", "", "", "", "", True)
    values = "\n".join(block_lines(found.blocks))
    rerun = ""
    if found.rerun and check.case is not None and not magic:
        rerun = f"{terminal.command(report)} --case {check.case.token}"
    return Detail(
        claim=claim,
        call=text(found.call),
        values=text(values),
        picture=heat_map.picture(found.picture) if found.picture is not None and pictured else None,
        grid=heat_map.grid(found.grid) if found.grid is not None and found.grid.got and pictured else None,
        where=tuple(text(fact) for fact in found.where),
        likely=text(found.likely),
        evidence=text(found.evidence),
        note=text(found.note),
        help=text(found.help),
        rerun=inert(rerun),
        cut=(found.picture is not None or found.grid is not None) and not pictured,
    )
