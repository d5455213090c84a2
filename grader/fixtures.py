"""Fixtures: submissions whose verdict is known, each with a header that says what the grader must say of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from grader.model import Report

_LINE = re.compile(r"^#\s*(right|wrong|fails|cause|misconception|only)\s*:\s*(.*?)\s*$")


@dataclass(frozen=True)
class Fixture:
    """One submission of ``fixtures/EXERCISE/right`` or ``wrong`` and its header."""

    path: Path
    right: bool
    about: str
    fails: tuple[str, ...] = ()
    cause: str | None = None
    misconception: str | None = None


def read(path: Path) -> Fixture:
    """Read the header: the comment lines at the top of the file. Raises ValueError when it does not say what it is."""
    found: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        match = _LINE.match(line)
        if match is None:
            if not line.startswith("#"):
                break
            continue
        found[match[1]] = match[2]
    right = path.parent.name == "right"
    if ("right" if right else "wrong") not in found:
        raise ValueError(f"{path}: the first line must be `# {'right' if right else 'wrong'}: …`")
    fails = tuple(word.strip() for word in found.get("fails", "").split(",") if word.strip())
    if not right and not fails:
        raise ValueError(f"{path}: a `# fails: …` line must name the checks that must fail")
    return Fixture(
        path, right, found["right" if right else "wrong"], fails, found.get("cause"), found.get("misconception")
    )


def of(folder: Path) -> list[Fixture]:
    """Every fixture below ``folder`` (that of one exercise), right ones first; raises ValueError."""
    paths = [*sorted((folder / "right").glob("*.py")), *sorted((folder / "wrong").glob("*.py"))]
    return [read(path) for path in paths]


def complaint(fixture: Fixture, report: Report) -> str | None:
    """What is wrong with a report on a fixture, in one line; None when it is as the header says."""
    failed = {check.id: check for check in report.checks if check.verdict not in ("pass", "skipped")}
    if report.status != "graded":
        return f"not graded: {report.reason}"
    if fixture.right:
        if report.passed:
            return None
        return "a right answer fails " + ", ".join(
            f"{c.id} ({c.message.splitlines()[0]})" for c in failed.values() if not c.advisory
        )
    counted = [check for check in failed.values() if not check.advisory]
    named = [failed[name] for name in fixture.fails if name in failed]
    if not counted and not (named and all(check.advisory for check in named)):
        return "a wrong answer passes"
    missing = [name for name in fixture.fails if name not in failed]
    if missing:
        return f"does not fail {', '.join(missing)} (fails {', '.join(failed) or 'nothing'})"
    if fixture.cause is not None and not any(check.cause == fixture.cause for check in named):
        return f"cause {', '.join(str(check.cause) for check in named)} instead of {fixture.cause}"
    found = [diagnosis.misconception for diagnosis in report.diagnoses]
    if fixture.misconception is not None and fixture.misconception not in found:
        return f"diagnosed as {', '.join(found) or 'nothing'} instead of {fixture.misconception}"
    return None
