"""What `grader lint` says of an exercise: one frozen value per thing, with its place and the next command."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grader.errors import AuthorError, Finding
from grader.spec import document as documents
from grader.spec.exercise import Exercise

ERROR, STRICT, ADVICE = "error", "strict", "advice"
UNDER_EDGE = "paste under `cases: edge:` of exercise.yaml, and name it:"


@dataclass(frozen=True)
class Complaint:
    """One thing that is wrong (``error``), that our own catalogue asks for (``strict``), or worth a look (``advice``).

    ``rule`` is a stable name for other programs; ``paste`` is text to put, as it stands, where ``paste_into`` says.
    """

    rule: str
    finding: Finding
    level: str = ERROR
    next_step: str = ""
    paste: str = ""
    paste_into: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "level": self.level,
            "path": self.finding.path,
            "line": self.finding.line,
            "column": self.finding.column,
            "message": self.finding.message,
            "expected": self.finding.expected,
            "next": self.next_step,
            "paste": self.paste,
            "paste_into": self.paste_into,
        }


class Places:
    """Where things stand in the files of one exercise, read when somebody asks."""

    def __init__(self, exercise: Exercise) -> None:
        self._exercise = exercise
        self._documents: dict[Path, documents.Document] = {}

    @property
    def yaml(self) -> Path:
        return self._exercise.folder / "exercise.yaml"

    def at(self, *steps: str | int, key: bool = False, file: Path | None = None) -> tuple[str, int, int]:
        """(path, line, column) of a value (or of its key) in exercise.yaml, or in another YAML ``file``."""
        path = file or self.yaml
        if path not in self._documents:
            self._documents[path] = documents.read(path)
        return (str(path), *self._documents[path].place(steps, key))

    def case(self, name: str) -> tuple[str, int, int]:
        """Where a case is declared; random cases stand for themselves."""
        cases = self._exercise.spec.cases
        if name in cases.edge:
            return self.at("cases", "edge", name, key=True)
        if name in cases.examples:
            return self.at("cases", "examples", name, key=True)
        return self.at("cases", "random") if "random" in cases.model_fields_set else self.at("dims")

    def check(self, identity: str) -> tuple[str, int, int]:
        """Where the check behind one line of the report is declared."""
        for index, check in enumerate(self._exercise.spec.checks):
            if (check.id or check.kind) == identity:
                return self.at("checks", index)
        return self.case(identity)


def complaint(
    rule: str,
    place: tuple[str, int, int],
    message: str,
    expected: str = "",
    level: str = ERROR,
    next_step: str = "",
    paste: str = "",
    paste_into: str = UNDER_EDGE,
) -> Complaint:
    path, line, column = place
    return Complaint(
        rule, Finding(documents.shown(Path(path)), line, column, message, expected), level, next_step, paste
    )


def of_author_error(rule: str, error: AuthorError, place: tuple[str, int, int] | None = None) -> list[Complaint]:
    """An error of loading or drawing as complaints; ``place`` stands in where the error knows only the file."""
    found = []
    for finding in error.findings:
        if place is not None and not finding.line and Path(finding.path).name == Path(place[0]).name:
            finding = replace(finding, line=place[1], column=place[2])
        finding = replace(finding, path=documents.shown(Path(finding.path)))
        found.append(Complaint(rule, finding, next_step=error.next_step))
    return found
