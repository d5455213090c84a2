"""What the exports agree on: what counts, what failed, how much of a text fits, and the sum over several exercises."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from grader.errors import GraderFault
from grader.model import CheckResult, Report
from grader.reports.entry import Entry
from grader.submission import inert

# How a check stands: `blocked` was not run because of another failure, `neutral` could not be decided and is not held
# against anyone, `fault` is the grader's own.
STATES = ("passed", "failed", "blocked", "neutral", "fault")
MAX_NAME = 200
DIGITS = 6


@dataclass(frozen=True)
class Room:
    """How much may be written: characters per text, and tests in a list (None is all of them)."""

    text: int
    tests: int | None = None


# Tried in this order where a reader sets a limit on the whole file.
ROOMS = (Room(20_000), Room(4_000), Room(800), Room(160), Room(40), Room(40, 500), Room(40, 50))


@dataclass(frozen=True)
class Total:
    """Several exercises of one student together. ``score`` is None as soon as one of them could not be graded."""

    score: float | None
    max_score: float
    passed: bool
    ungraded: tuple[Report, ...]

    @property
    def share(self) -> float | None:
        """The score in 0..1; where there are no points to have, whether it passed."""
        if self.score is None:
            return None
        if self.max_score <= 0:
            return 1.0 if self.passed else 0.0
        return min(max(self.score / self.max_score, 0.0), 1.0)


def total(entries: Iterable[Entry]) -> Total:
    reports = [entry.report for entry in entries]
    ungraded = tuple(report for report in reports if report.score is None or report.status != "graded")
    score = None if ungraded else sum(report.score or 0.0 for report in reports)
    most = sum(report.max_score for report in reports)
    return Total(score, most, bool(reports) and all(report.passed for report in reports), ungraded)


def state(report: Report, check: CheckResult) -> str:
    """One of `STATES`."""
    if report.status != "graded" or check.verdict == "grader_error":
        return "fault"
    if check.verdict == "pass":
        return "passed"
    if check.verdict == "skipped":
        return "neutral" if check.neutral else "blocked"
    return "failed"


def withheld(report: Report, check: CheckResult) -> bool:
    """Whether a check that counts stands in the way of passing."""
    return not check.advisory and state(report, check) in ("failed", "blocked", "fault")


def loaded(report: Report) -> bool:
    """Whether there was anything to call: False where the file could not be loaded, so that no check ran."""
    return not any(check.cause == "blocked" for check in report.checks)


def feedback(check: CheckResult) -> str:
    """Everything a student reads of one check, as plain text; empty for a pass."""
    lines = [check.message] if check.message else []
    if check.hint and check.verdict not in ("pass", "skipped"):
        lines.append(f"help: {check.hint}")
    if check.explanation is not None and check.explanation.rerun and check.case is not None:
        lines.append(f"rerun: {check.explanation.rerun}")
    return inert("\n".join(lines))


def claim(check: CheckResult) -> str:
    """The first sentence of it."""
    text = check.explanation.claim if check.explanation is not None else check.message
    return inert(text).partition("\n")[0]


def reason(report: Report) -> str:
    """Why a submission was not graded."""
    return inert(report.reason or "the grader could not grade it")


def fault(ungraded: Sequence[Report]) -> str:
    """What a student is told of exercises that could not be graded."""
    lines = [f"{report.exercise} could not be graded: {reason(report)}" for report in ungraded]
    return "\n".join([*lines, "This is the grader's fault, not the submission's, and no zero: tell the course staff."])


def number(value: float) -> float | int:
    """Points as a reader expects them: 3 and not 3.0, 0.3 and not 0.30000000000000004."""
    rounded = round(float(value), DIGITS)
    return int(rounded) if rounded.is_integer() else rounded


def points(score: float, most: float) -> str:
    """``3/4 points``."""
    return f"{number(score)}/{number(most)} {'point' if most == 1 else 'points'}"


def cut(text: str, room: int) -> str:
    """``text`` in at most ``room`` characters; what is left out is said."""
    if len(text) <= room:
        return text
    note = f"\n… {len(text)} characters, cut here"
    if room < 2 * len(note):
        return text[: max(room - 1, 0)] + "…"[:room]
    return text[: room - len(note)] + note


def name(text: str) -> str:
    """A title on one line, in at most `MAX_NAME` characters."""
    line = " ".join(inert(text).split())
    return line if len(line) <= MAX_NAME else line[: MAX_NAME - 1] + "…"


def label(entries: Sequence[Entry], entry: Entry, check: CheckResult) -> str:
    """A check's name among all that are listed: with its exercise where there are several."""
    several = len({each.report.exercise for each in entries}) > 1
    title = check.title or check.id
    return name(f"{entry.report.exercise}: {title}" if several else title)


def by_person(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """The results of each student, by the key, in the order they come."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.person.key, []).append(entry)
    return found


def exercises(entries: Iterable[Entry]) -> dict[str, float]:
    """The exercises in the order they come, each with the points there are to have."""
    found: dict[str, float] = {}
    for entry in entries:
        report = entry.report
        found[report.exercise] = max(found.get(report.exercise, 0.0), report.max_score)
    return found


def fit(build: Callable[[Room], str], most: int) -> str:
    """What ``build`` makes in the largest of `ROOMS` whose UTF-8 keeps within ``most`` bytes; raises `GraderFault`."""
    for room in ROOMS:
        text = build(room)
        if len(text.encode("utf-8")) <= most:
            return text
    raise GraderFault(f"the result cannot be put into {most} bytes", "export fewer exercises at a time")


def listed(
    tests: list[dict[str, object]], room: Room, rest: Callable[[int], dict[str, object]]
) -> list[dict[str, object]]:
    """As many of ``tests`` as there is room for; ``rest`` makes the entry that says how many more there are."""
    if room.tests is None or len(tests) <= room.tests:
        return tests
    return [*tests[: room.tests], rest(len(tests) - room.tests)]
