"""From files to `Exercise`: find the library, read one exercise, and say everything that is wrong with it at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from grader.errors import AuthorError, UsageError
from grader.spec import document as documents
from grader.spec import expressions, schema
from grader.spec.document import Document, nearest
from grader.spec.exercise import Exercise
from grader.spec.library import Library

M = TypeVar("M", bound=BaseModel)
_INPUT: TypeAdapter[Any] = TypeAdapter(schema.InputEntry)


def folders(library: Library) -> dict[str, Path]:
    """Every exercise folder by name, in track order where a track file gives one."""
    found: dict[str, Path] = {}
    for track in ordered_tracks(library):
        inside = {path.parent.name: path.parent for path in track.glob("*/exercise.yaml")}
        for name in [*(n for n in track_of(track).order if n in inside), *sorted(inside)]:
            found.setdefault(name, inside[name])
    return found


def ordered_tracks(library: Library) -> list[Path]:
    """The folders of the tracks, in the order that their files give."""
    return sorted(library.tracks(), key=lambda folder: (track_of(folder).position, folder.name))


def track_of(folder: Path) -> schema.TrackFile:
    """The track file of a folder; a folder without one is a track named after itself."""
    path = folder / "track.yaml"
    if not path.is_file():
        return schema.TrackFile(title=folder.name, order=())
    document = documents.read(path)
    track = _validate(schema.TrackFile, document)
    if document.findings or track is None:
        raise AuthorError(document.findings, f"mend {path.name} in {folder}")
    return track


def load(library: Library, name: str) -> Exercise:
    """Read one exercise.

    Raises:
        UsageError: there is no exercise of that name; names the nearest ones.
        AuthorError: its file is wrong; carries every finding.
    """
    folder = library.find(name)
    if folder is None:
        close = difflib.get_close_matches(name, folders(library), n=3, cutoff=0.4)
        did = " or ".join(f"`{word}`" for word in close)
        raise UsageError(
            f"there is no exercise `{name}`" + (f"; did you mean {did}?" if close else ""),
            f"grade {close[0]}" if close else "grade",
        )
    return read_exercise(folder, library.reference)


def read_exercise(folder: Path, reference: Path | None, known: Iterable[str] = ()) -> Exercise:
    """Read the exercise in ``folder``; raises `AuthorError` with every finding."""
    document = documents.read(folder / "exercise.yaml")
    parsed = _validate(schema.ExerciseFile, document)
    edge_inputs: dict[str, dict[str, Any]] = {}
    if parsed is not None:
        edge_inputs = _merge_edges(parsed, document)
        _check_names(parsed, document, set(known))
    if document.findings or parsed is None:
        raise AuthorError(sorted(document.findings, key=lambda f: (f.line, f.column)), f"grader lint {folder.name}")
    hidden = reference / folder.parent.name / folder.name if reference is not None else None
    solution = hidden / "solution.py" if hidden is not None else None
    patches = hidden / "misconceptions.yaml" if hidden is not None else None
    return Exercise(
        name=folder.name,
        track=folder.parent.name,
        spec=parsed,
        folder=folder,
        solution=solution if solution is not None and solution.is_file() else None,
        misconceptions=patches if patches is not None and patches.is_file() else None,
        edge_inputs=edge_inputs,
    )


def read_misconceptions(path: Path) -> schema.MisconceptionsFile:
    """Read a misconceptions file; raises `AuthorError` with every finding."""
    document = documents.read(path)
    parsed = _validate(schema.MisconceptionsFile, document)
    if parsed is not None:
        seen: set[str] = set()
        for index, entry in enumerate(parsed.misconceptions):
            if entry.id in seen:
                document.report(("misconceptions", index, "id"), f"the id `{entry.id}` occurs twice")
            seen.add(entry.id)
    if document.findings or parsed is None:
        raise AuthorError(document.findings, "mend the file")
    return parsed


def _validate(model: type[M], document: Document) -> M | None:
    if document.findings and document.data is None:
        return None
    if not isinstance(document.data, dict):
        document.report((), "the file must be a mapping of keys to values", "for example `title: …`")
        return None
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        for detail in error.errors():
            _report(model, document, detail)
        return None


def _report(model: type[BaseModel], document: Document, detail: Any) -> None:
    path = _yaml_path(detail["loc"], document.data)
    kind, value = detail["type"], detail.get("input")
    if kind == "extra_forbidden":
        allowed = _keys_at(model, detail["loc"][:-1])
        document.report(
            path,
            f"unknown key `{path[-1] if path else ''}`{nearest(str(path[-1]) if path else '', allowed)}",
            "one of " + ", ".join(sorted(allowed)) if allowed else "",
            key=True,
        )
    elif kind == "missing":
        document.report(
            path[:-1] if path[-1:] == detail["loc"][-1:] else path, f"the key `{detail['loc'][-1]}` is missing"
        )
    elif kind in ("union_tag_invalid", "union_tag_not_found"):
        tags = [tag.strip("' ") for tag in str(detail.get("ctx", {}).get("expected_tags", "")).split(",")]
        given = value.get("kind") if isinstance(value, dict) else value
        place = (*path, "kind")
        said = (
            f"unknown kind `{given}`{nearest(str(given), tags)}" if given is not None else "the key `kind` is missing"
        )
        document.report(place, said, "one of " + ", ".join(filter(None, tags)))
    else:
        shown = f"`{_short(value)}`: " if not isinstance(value, dict | list | tuple) else ""
        expected = ""
        ctx = detail.get("ctx", {})
        if kind == "literal_error":
            expected = "one of " + str(ctx.get("expected", "")).replace("'", "").replace(" or ", ", ")
            words = [word.strip() for word in str(ctx.get("expected", "")).replace(" or ", ",").split(",")]
            said = "not known" + nearest(str(value), [word.strip("' ") for word in words])
        else:
            said = detail["msg"][:1].lower() + detail["msg"][1:]
        document.report(path, f"{shown}{said}", expected)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _yaml_path(loc: tuple[Any, ...], data: Any) -> tuple[str | int, ...]:
    """The part of pydantic's location that exists in the file: tags of unions are not keys."""
    path: list[str | int] = []
    for index, step in enumerate(loc):
        if (isinstance(data, dict) and step in data) or (
            isinstance(data, list) and isinstance(step, int) and step < len(data)
        ):
            data = data[step]
            path.append(step)
        elif index == len(loc) - 1 and isinstance(step, str):
            path.append(step)
    return tuple(path)


def _keys_at(model: Any, loc: tuple[Any, ...]) -> set[str]:
    """The keys that a mapping at ``loc`` may have, found by walking the models."""
    candidates: list[Any] = [model]
    for step in loc:
        found: list[Any] = []
        for candidate in candidates:
            for part in _flatten(candidate):
                if isinstance(part, type) and issubclass(part, BaseModel):
                    for key, info in part.model_fields.items():
                        if step in (key, info.alias):
                            found.append(info.annotation)
                    kind = part.model_fields.get("kind")
                    if kind is not None and step in get_args(kind.annotation):
                        found.append(part)
                elif get_origin(part) is dict:
                    found.append(get_args(part)[1])
                elif get_origin(part) in (tuple, list) and isinstance(step, int):
                    found.append(get_args(part)[0])
        candidates = found
    return {
        info.alias or key
        for candidate in candidates
        for part in _flatten(candidate)
        if isinstance(part, type) and issubclass(part, BaseModel)
        for key, info in part.model_fields.items()
    }


def _flatten(annotation: Any) -> list[Any]:
    if hasattr(annotation, "__metadata__"):
        return _flatten(annotation.__origin__)
    origin = get_origin(annotation)
    if origin is not None and origin not in (dict, tuple, list):
        return [part for arg in get_args(annotation) for part in _flatten(arg)]
    return [annotation]


_ALTERNATIVES = ({"value", "choices", "range"},)


def _merge_edges(parsed: schema.ExerciseFile, document: Document) -> dict[str, dict[str, Any]]:
    merged: dict[str, dict[str, Any]] = {}
    for name, edge in parsed.cases.edge.items():
        merged[name] = {}
        for key, override in edge.inputs.items():
            where = ("cases", "edge", name, "inputs", key)
            raw = document.data["inputs"].get(key) or document.data.get("aux", {}).get(key)
            if raw is None:
                known = [*document.data["inputs"], *document.data.get("aux", {})]
                document.report(where, f"there is no input `{key}`{nearest(key, known)}", key=True)
                continue
            if override is None:
                merged[name][key] = None
                continue
            base = dict(raw)
            if "kind" in override and override["kind"] != base.get("kind", "float"):
                base = {}
            for alternatives in _ALTERNATIVES:
                if alternatives & override.keys():
                    base = {k: v for k, v in base.items() if k not in alternatives}
            try:
                merged[name][key] = _INPUT.validate_python({**base, **override})
            except ValidationError as error:
                for detail in error.errors():
                    shown = detail["msg"][:1].lower() + detail["msg"][1:]
                    document.report(where, f"`{key}`: {shown} ({'.'.join(map(str, detail['loc'][1:]))})")
    return merged


def _check_names(parsed: schema.ExerciseFile, document: Document, known: set[str]) -> None:
    """What needs two places of the file: every name in an expression, case or check must exist."""
    dims = set(parsed.dims)
    inputs = set(parsed.inputs)
    drawn = inputs | set(parsed.aux)
    seen: set[str] = set()
    for name, dim in parsed.dims.items():
        if dim.value is not None:
            _names(document, ("dims", name, "value"), ("dims", name), dim.value, seen, "an earlier dim")
        seen.add(name)
    for index, constraint in enumerate(parsed.constraints):
        _names(document, ("constraints", index), ("constraints", index), constraint, dims, "a dim")
    for section, entries in (("inputs", parsed.inputs), ("aux", parsed.aux)):
        for name, entry in entries.items():
            _check_input(document, (section, name), entry, dims, drawn)
    if dims & drawn:
        for name in sorted(dims & drawn):
            document.report(("dims", name), f"`{name}` is both a dim and an input", "two different names", key=True)
    for index, line in enumerate(parsed.adjust):
        _check_assignment(document, ("adjust", index), line, dims | drawn)
    edges, examples = parsed.cases.edge, parsed.cases.examples
    for name, edge in edges.items():
        at = ("cases", "edge", name)
        for key, dim in edge.dims.items():
            if key not in dims:
                document.report((*at, "dims", key), f"there is no dim `{key}`{nearest(key, dims)}", key=True)
            if dim.value is not None:
                _names(document, (*at, "dims", key), (*at, "dims", key), dim.value, dims, "a dim")
        for index, line in enumerate(edge.adjust):
            _check_assignment(document, (*at, "adjust", index), line, dims | drawn)
        for index, key in enumerate(edge.omit):
            if key not in inputs or not parsed.inputs[key].optional:
                document.report((*at, "omit", index), f"`{key}` is no optional input", "an input with a default")
        if name in ("random", "edge", "examples"):
            document.report(at, f"`{name}` cannot name a case: it stands for a group of cases", key=True)
    for name, example in examples.items():
        at = ("cases", "examples", name)
        for key in example.inputs:
            if key not in inputs:
                document.report((*at, "inputs", key), f"there is no input `{key}`{nearest(key, inputs)}", key=True)
        if not example.from_reference:
            for key in inputs - set(example.inputs):
                if not parsed.inputs[key].optional:
                    document.report(at, f"the example lacks the input `{key}`", "a literal for every input")
    _check_checks(parsed, document, dims, inputs)
    for index, name in enumerate(parsed.builds_on):
        if known and name not in known:
            document.report(("builds_on", index), f"there is no exercise `{name}`{nearest(name, known)}")


def _check_checks(parsed: schema.ExerciseFile, document: Document, dims: set[str], inputs: set[str]) -> None:
    groups = {"random", "edge", "examples", *parsed.cases.edge, *parsed.cases.examples}
    ids: dict[str, int] = {}
    for index, check in enumerate(parsed.checks):
        at = ("checks", index)
        for name in (check.cases,) if isinstance(check.cases, str) else check.cases or ():
            if name not in groups:
                document.report(
                    (*at, "cases"),
                    f"there is no case `{name}`{nearest(name, groups)}",
                    "random, edge, examples or a name",
                )
        named: set[str] = set()
        if isinstance(check, schema.IndependentCheck | schema.CausalCheck | schema.ReadsCheck):
            named = set(check.inputs)
        elif isinstance(check, schema.IgnoresCheck):
            named = {name for text in check.what for name in _roots(document, (*at, "what"), text)}
        elif isinstance(check, schema.GradientsCheck):
            named = {
                *(check.wrt or ()),
                *(name for text in check.zero for name in _roots(document, (*at, "zero"), text)),
            }
        elif isinstance(check, schema.CallsCheck):
            named = {check.function}
        elif isinstance(check, schema.FallsCheck):
            named = set(check.feed.values())
        for name in sorted(named):
            root = name.split("[")[0].split(".")[0]
            if root not in inputs:
                document.report(at, f"there is no input `{root}`{nearest(root, inputs)}", "an input of the exercise")
        for identity in expand_ids(parsed, check):
            if identity in ids:
                document.report(
                    at,
                    f"the check id `{identity}` occurs twice (also check {ids[identity] + 1})",
                    "an `id:` of its own",
                )
            ids[identity] = index


def expand_ids(parsed: schema.ExerciseFile, check: Any) -> list[str]:
    """The report ids of one check: a `values` check over a group of named cases is one check per case."""
    if check.kind == "values" and check.cases in ("edge", "examples") and check.id is None:
        return list(parsed.cases.edge if check.cases == "edge" else parsed.cases.examples)
    return [check.id or check.kind]


def _roots(document: Document, at: tuple[str | int, ...], text: str) -> set[str]:
    try:
        tree = expressions.parse(text)
    except expressions.ExpressionError as error:
        document.report(at, f"`{text}`: {error}", "an input, or a slice of one such as blocks[:, 10:12]")
        return set()
    base = tree
    while hasattr(base, "value") and not hasattr(base, "id"):
        base = base.value
    return {base.id} if hasattr(base, "id") else set()


def _check_input(document: Document, at: tuple[str | int, ...], entry: Any, dims: set[str], drawn: set[str]) -> None:
    for key in ("below", "scale", "offset", "low", "high", "count"):
        expression = getattr(entry, key, None)
        if expression is not None:
            _names(document, (*at, key), at, expression, dims, "a dim")
    for index, expression in enumerate(getattr(entry, "shape", ()) or ()):
        _names(document, (*at, "shape", index), at, expression, dims, "a dim")
    if entry.kind == "scalar":
        if isinstance(entry.value, str) and entry.choices is None and entry.range is None:
            try:
                unknown = expressions.names(expressions.parse(entry.value)) - dims
            except expressions.ExpressionError:
                unknown = set()
            for name in sorted(unknown):
                document.report(
                    (*at, "value"), f"unknown name `{name}`{nearest(name, dims)}", "a number or an expression of dims"
                )
        given = [key for key in ("value", "choices", "range") if key in entry.model_fields_set]
        if len(given) != 1:
            document.report(at, "a scalar has exactly one of value, choices and range")
    if entry.kind == "function":
        _names(
            document,
            (*at, "returns"),
            at,
            entry.returns,
            dims | drawn | set(entry.parameters),
            "a dim, an input or a parameter",
        )
    if entry.kind == "list":
        if (entry.items is None) == (entry.of is None) or (entry.of is None) != (entry.count is None):
            document.report(at, "a list has either `items`, or `count` and `of`")
        for index, item in enumerate(entry.items or ()):
            if item is not None:
                _check_input(document, (*at, "items", index), item, dims, drawn)
        if entry.of is not None:
            _check_input(document, (*at, "of"), entry.of, dims, drawn)
    if entry.kind == "dict":
        for key, item in entry.items.items():
            _check_input(document, (*at, "items", key), item, dims, drawn)


def _check_assignment(document: Document, at: tuple[str | int, ...], line: str, known: set[str]) -> None:
    target, value = expressions.parse_assignment(line)
    for name in sorted((expressions.names(target) | expressions.names(value)) - known):
        document.report(at, f"unknown name `{name}`{nearest(name, known)}", "a dim, an input or an aux array")


def _names(
    document: Document,
    at: tuple[str | int, ...],
    fallback: tuple[str | int, ...],
    text: Any,
    known: set[str],
    what: str,
) -> None:
    if not isinstance(text, str):
        return
    for name in sorted(expressions.names(expressions.parse(text)) - known):
        place = at if at in document.places else fallback
        document.report(place, f"unknown name `{name}`{nearest(name, known)}", what)
