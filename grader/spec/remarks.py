"""What is allowed in an exercise file and yet seldom meant: for `grader lint`, never a reason not to grade."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel

from grader.errors import Finding
from grader.spec import document as documents
from grader.spec import expressions, grammar, schema
from grader.spec.document import Document
from grader.spec.exercise import Exercise
from grader.spec.expressions import ExpressionError
from grader.spec.load import in_order


def remarks(exercise: Exercise) -> list[Finding]:
    """Dims and aux arrays that nothing uses, cases that no check looks at, and the like, in the order of the file."""
    document = documents.read(exercise.folder / "exercise.yaml")
    _unused(exercise, document)
    _cases(exercise.spec, document)
    _checks(exercise.spec, document)
    if not exercise.spec.hints:
        document.report((), "there are no hints", "`hints:`, from where to look to the line that most people miss")
    return in_order(document)


def _unused(exercise: Exercise, document: Document) -> None:
    used = set(_names(exercise))
    for name in exercise.spec.dims:
        if name not in used:
            wanted = "a shape, an input or an expression that uses it"
            document.report(("dims", name), f"nothing uses the dim `{name}`", wanted, key=True)
    for name in exercise.spec.aux:
        if name not in used:
            wanted = "a line of `adjust`, or a function, that uses it"
            document.report(("aux", name), f"nothing uses the aux array `{name}`", wanted, key=True)


def _names(exercise: Exercise) -> Iterator[str]:
    """Every name that some expression of the exercise uses."""
    yield from _names_in(exercise.spec)
    for inputs in exercise.edge_inputs.values():
        for entry in inputs.values():
            if entry is not None:
                yield from _names_in(entry)


def _names_in(model: BaseModel) -> Iterator[str]:
    for key in grammar.keys(type(model)).values():
        value = getattr(model, _attribute(model, key.name))
        yield from _names_of(value, key.annotation)


def _attribute(model: BaseModel, name: str) -> str:
    return next((attribute for attribute, info in type(model).model_fields.items() if info.alias == name), name)


def _names_of(value: Any, annotation: Any) -> Iterator[str]:
    if isinstance(value, BaseModel):
        yield from _names_in(value)
        if isinstance(value, schema.ScalarInput) and isinstance(value.value, str):
            yield from _variables(value.value)
        if isinstance(value, schema.IgnoresCheck | schema.GradientsCheck):
            for text in value.what if isinstance(value, schema.IgnoresCheck) else value.zero:
                yield from _variables(text)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _names_of(item, _form_inside(annotation))
    elif isinstance(value, tuple):
        for item in value:
            yield from _names_of(item, _form_inside(annotation))
    elif isinstance(value, str):
        forms = [grammar.form_of(member) for member in [annotation, *grammar.alternatives(annotation)]]
        names = {form.name for form in forms if form is not None}
        if "expression" in names:
            yield from _variables(value)
        elif "assignment" in names:
            yield from _variables(value, assignment=True)


def _form_inside(annotation: Any) -> Any:
    for member in grammar.alternatives(annotation):
        arguments = getattr(grammar.bare(member), "__args__", ())
        if arguments:
            return arguments[-1] if arguments[-1] is not Ellipsis else arguments[0]
    return annotation


def _variables(text: str, assignment: bool = False) -> Iterable[str]:
    try:
        trees: tuple[ast.expr, ...] = expressions.parse_assignment(text) if assignment else (expressions.parse(text),)
    except ExpressionError:
        return ()
    return [name for tree in trees for name in expressions.names(tree)]


def _cases(spec: schema.ExerciseFile, document: Document) -> None:
    groups: tuple[tuple[str, dict[str, Any]], ...] = (("edge", spec.cases.edge), ("examples", spec.cases.examples))
    looked: set[str] = set()
    for check in spec.checks:
        if check.kind == "values":
            named = [check.cases] if isinstance(check.cases, str) else check.cases
            looked |= set(named or ("edge", "examples"))
    for group, entries in groups:
        for name in entries:
            if group not in looked and name not in looked:
                wanted = f"a check such as `{{kind: values, cases: {group}}}`"
                document.report(
                    ("cases", group, name), f"no `values` check looks at the case `{name}`", wanted, key=True
                )
    for name, edge in spec.cases.edge.items():
        if not (edge.dims or edge.inputs or edge.omit or edge.adjust):
            wanted = "`dims`, `inputs`, `omit` or `adjust` that make it special"
            document.report(("cases", "edge", name), f"the case `{name}` is like any random one", wanted, key=True)


def _checks(spec: schema.ExerciseFile, document: Document) -> None:
    if all(check.advisory or not check.points for check in spec.checks):
        document.report(("checks",), "no check counts", "a check with points that is not advisory", key=True)
    titles: dict[str, int] = {}
    for index, check in enumerate(spec.checks):
        if check.title is not None and check.title in titles:
            said = f"two checks have the title `{check.title}`"
            document.report(("checks", index, "title"), said, "titles that tell them apart")
        titles[check.title or ""] = index
