"""``csv``, ``canvas-csv`` and ``moodle-csv``: tables for spreadsheets and gradebooks.

No cell is a formula: one that a spreadsheet would read as such is led by an apostrophe. In the gradebooks' files a
student with an exercise that could not be graded, or with none handed in, has no line, because an empty cell there
would take the place of a grade.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from grader.errors import UsageError
from grader.reports import digest
from grader.reports.entry import Entry, Person
from grader.reports.setting import Setting
from grader.submission import inert

# Spreadsheets take the wide forms for the plain ones.
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]")
MAX_CELL = 2_000
COLUMNS = (
    "student", "name", "exercise", "status", "passed", "score", "max_score", "failing_checks", "misconceptions",
    "attempts", "finished", "sha256", "version",
)  # fmt: skip
CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
MOODLE = ("Identifier", "Full name", "Email address", "Grade")


@dataclass(frozen=True)
class Sheet:
    """A gradebook's own file: its columns and its lines, one dict per student."""

    columns: tuple[str, ...]
    lines: tuple[dict[str, str], ...]


@dataclass(frozen=True)
class Match:
    """Who of a class stands in a gradebook: each line with the student's results, and the keys of those without one."""

    lines: tuple[tuple[dict[str, str], list[Entry]], ...]
    missing: tuple[str, ...]


def render(entries: Sequence[Entry], setting: Setting) -> str:
    """One line per student and exercise; what was not graded is there too, with an empty score and its status."""
    rows = []
    for entry in entries:
        report = entry.report
        graded = report.status == "graded" and report.score is not None
        rows.append(
            (
                entry.person.key,
                entry.person.name,
                report.exercise,
                report.status,
                ("yes" if report.passed else "no") if graded else "",
                str(digest.number(report.score)) if report.score is not None and graded else "",
                str(digest.number(report.max_score)),
                " ".join(check.id for check in report.checks if graded and digest.withheld(report, check)),
                " ".join(diagnosis.misconception for diagnosis in report.diagnoses),
                str(entry.attempts),
                entry.finished,
                str(report.submission.get("sha256") or ""),
                report.versions.get("grader", ""),
            )
        )
    return table(COLUMNS, rows)


def render_canvas(entries: Sequence[Entry], setting: Setting) -> str:
    """For Canvas' gradebook import. With a roster (its export) the identities are taken from there, and only those."""
    assignment = setting.assignment or "tensorgrade"
    if setting.roster:
        sheet = read_sheet(setting.roster, "ID", "Canvas")
        column = next(
            (c for c in sheet.columns if c == assignment or re.fullmatch(rf"{re.escape(assignment)} \(\d+\)", c)),
            assignment,
        )
        found = match(entries, sheet, _is_in_canvas)
        identities: list[tuple[tuple[str, ...], list[Entry]]] = [
            (tuple(line.get(name, "") for name in CANVAS), mine) for line, mine in found.lines
        ]
    else:
        column = assignment
        identities = []
        for mine in digest.by_person(entries).values():
            person = mine[0].person
            ids = person.ids
            cells = (
                person.name or person.key,
                ids.get("canvas", ""),
                ids.get("sis", ""),
                ids.get("login", "") or person.key,
                ids.get("section", ""),
            )
            identities.append((cells, mine))
    rows = []
    for identity, mine in identities:
        grade = _grade(mine, entries, setting)
        if grade is not None:
            rows.append((*identity, grade))
    return table((*CANVAS, column), rows)


def render_moodle(entries: Sequence[Entry], setting: Setting) -> str:
    """For Moodle's grading worksheet; with a roster (the worksheet) all its columns come back, with the grades filled in.

    Raises `UsageError` where nobody's number in Moodle is known.
    """
    if setting.roster:
        sheet = read_sheet(setting.roster, "Identifier", "Moodle")
        columns = sheet.columns if "Grade" in sheet.columns else (*sheet.columns, "Grade")
        rows = []
        for line, mine in match(entries, sheet, _is_in_moodle).lines:
            grade = _grade(mine, entries, setting)
            if grade is not None:
                rows.append(tuple(grade if name == "Grade" else line.get(name, "") for name in columns))
        return table(columns, rows)
    known = [mine for mine in digest.by_person(entries).values() if mine[0].person.ids.get("moodle")]
    if entries and not known:
        raise UsageError(
            "moodle-csv: nobody's participant number is known", "give the grading worksheet, downloaded from Moodle"
        )
    rows = []
    for mine in known:
        person = mine[0].person
        grade = _grade(mine, entries, setting)
        if grade is not None:
            identifier = f"Participant {person.ids['moodle']}"
            rows.append((identifier, person.name or person.key, person.ids.get("email", ""), grade))
    return table(MOODLE, rows)


def unmatched(name: str, entries: Sequence[Entry], setting: Setting) -> tuple[str, ...]:
    """The students who get no line in ``canvas-csv`` or ``moodle-csv`` because the gradebook does not know them."""
    if name == "canvas-csv" and setting.roster:
        return match(entries, read_sheet(setting.roster, "ID", "Canvas"), _is_in_canvas).missing
    if name == "moodle-csv":
        if setting.roster:
            return match(entries, read_sheet(setting.roster, "Identifier", "Moodle"), _is_in_moodle).missing
        people = digest.by_person(entries).items()
        return tuple(key for key, mine in people if not mine[0].person.ids.get("moodle"))
    return ()


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The lines of a CSV file, every cell `neutral`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in ([*columns], *rows):
        writer.writerow([neutral(cell) for cell in row])
    return out.getvalue()


def neutral(cell: str) -> str:
    """``cell`` on one line, and no formula: with an apostrophe before what a spreadsheet would compute."""
    text = " ".join(digest.cut(inert(cell), MAX_CELL).split("\n")).replace("\t", " ")
    return f"'{text}" if _FORMULA.match(text) else text


def read_sheet(text: str, key: str, system: str) -> Sheet:
    """A gradebook's own CSV; raises `UsageError` where it is none. Lines without ``key`` (points possible) are left out."""
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""), restval="")
    columns = tuple(name.strip() for name in reader.fieldnames or ())
    if key not in columns:
        raise UsageError(f"the roster is no export of {system}: it has no column `{key}`", f"export it from {system}")
    reader.fieldnames = list(columns)
    lines = []
    for row in reader:
        cells = {name: str(row.get(name) or "").strip() for name in columns}
        if cells[key]:
            lines.append(cells)
    return Sheet(columns, tuple(lines))


def match(entries: Sequence[Entry], sheet: Sheet, is_in: Callable[[dict[str, str], Person], bool]) -> Match:
    """Each line of ``sheet`` with its student's results; raises `UsageError` where two students claim one line."""
    people = digest.by_person(entries)
    found: list[tuple[dict[str, str], list[Entry]]] = []
    seen: set[str] = set()
    for line in sheet.lines:
        keys = [key for key, mine in people.items() if is_in(line, mine[0].person)]
        if len(keys) > 1 or (keys and keys[0] in seen):
            who = " and ".join(sorted(keys)) if len(keys) > 1 else f"{keys[0]} twice"
            raise UsageError(f"the roster is not clear: {who} could be the line of {' '.join(line.values())[:80]}")
        if keys:
            seen.add(keys[0])
            found.append((line, people[keys[0]]))
    return Match(tuple(found), tuple(key for key in people if key not in seen))


def _is_in_canvas(line: dict[str, str], person: Person) -> bool:
    ids = person.ids
    if ids.get("canvas"):
        return line["ID"] == ids["canvas"]
    login, sis = line.get("SIS Login ID", ""), line.get("SIS User ID", "")
    logins = {_folded(value) for value in (ids.get("login", ""), ids.get("email", ""), person.key) if value}
    return (bool(login) and _folded(login) in logins) or (bool(sis) and sis in (ids.get("sis"), person.key))


def _is_in_moodle(line: dict[str, str], person: Person) -> bool:
    number = person.ids.get("moodle")
    if number:
        # The word before the number is in the language of the site.
        return re.findall(r"\d+", line["Identifier"])[-1:] == [number]
    email = line.get("Email address", "")
    return bool(email) and _folded(email) in {_folded(v) for v in (person.ids.get("email", ""), person.key) if v}


def _folded(text: str) -> str:
    return text.strip().casefold()


def _grade(mine: Sequence[Entry], entries: Sequence[Entry], setting: Setting) -> str | None:
    """The sum over one student's exercises, in the gradebook's points where those are given; None leaves the line out."""
    total = digest.total(mine)
    if total.score is None:
        return None
    if setting.points is None:
        return str(digest.number(total.score))
    most = sum(digest.exercises(entries).values())
    share = total.score / most if most > 0 else total.share or 0.0
    return str(digest.number(setting.points * share))
