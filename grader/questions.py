"""From the declared checks of an exercise to the lines of its report."""

from __future__ import annotations

from typing import Any

from grader.model import Question
from grader.spec import schema
from grader.spec.exercise import Exercise

TITLES = {
    "values": "values",
    "inputs_unchanged": "inputs unchanged",
    "repeatable": "same inputs, same result",
    "independent": "one example does not reach another",
    "causal": "later positions do not reach earlier outputs",
    "reads": "every output reads what it should",
    "ignores": "what is unused is ignored",
    "gradients": "gradients",
    "device": "device",
    "precision": "arithmetic in the inputs' precision",
    "strided": "non-contiguous inputs",
    "source": "how it is written",
    "calls": "calls of the function handed in",
    "peak_memory": "peak memory",
    "falls": "the loss falls",
}


def questions(exercise: Exercise) -> tuple[Question, ...]:
    """Every line of the report, in the order of the file."""
    spec = exercise.spec
    found: list[Question] = []
    for check in spec.checks:
        if check.kind == "values" and check.id is None and check.cases in ("edge", "examples"):
            named: dict[str, Any] = dict(spec.cases.edge if check.cases == "edge" else spec.cases.examples)
            for name, entry in named.items():
                found.append(_question(spec, check, name, entry.title, name, entry.points, entry.help, entry.dtypes))
        else:
            title = check.title or _title(check)
            found.append(_question(spec, check, check.id or check.kind, title, check.cases, None, None))
    return tuple(found)


def _title(check: Any) -> str:
    title = TITLES[check.kind]
    return title + (", " + " and ".join(check.dtypes) if check.kind == "values" and check.dtypes else "")


def _question(
    spec: schema.ExerciseFile,
    check: Any,
    identity: str,
    title: str,
    cases: Any,
    points: float | None,
    help: str | None,
    own: tuple[str, ...] | None = None,
) -> Question:
    return Question(
        id=identity,
        title=title,
        check=check,
        points=float(check.points if points is None else points),
        advisory=check.advisory,
        reveal=check.reveal or spec.reveal,
        cases=cases,
        # A case that names its own dtypes is judged in those.
        dtypes=check.dtypes if own is None else None,
        help=help or check.help,
    )
