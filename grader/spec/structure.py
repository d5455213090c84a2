"""Holding a document to a model: every structural fault in words, and what can still be read in spite of them.

A file with faults is mended in a copy (a misspelt key is taken for what it was meant to be, an entry that cannot be
read is left out), so that the rest can be examined in the same run and an author sees every error at once.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from grader.spec import grammar, schema
from grader.spec.document import Document, Path_, closest, nearest

M = TypeVar("M", bound=BaseModel)
# Each round mends every fault it finds; a fault inside a mended key shows in the next.
ROUNDS = 8
_NO_BOOLEANS = ("yes", "no", "on", "off", "y", "n")
SHOWN = 60


@dataclass
class View:
    """A mended copy of a document's data; `origin` leads from a path in the copy back to the file."""

    document: Document
    data: Any
    # All by their path in the file. Keys that were taken for another word: the new path, to the word that stands there.
    renamed: dict[Path_, str] = field(default_factory=dict)
    # For each list that lost entries: the positions that the remaining ones have in the file.
    kept: dict[Path_, list[int]] = field(default_factory=dict)
    # What was left out, or filled with something so that the rest can be read.
    lost: set[Path_] = field(default_factory=set)

    def origin(self, path: Path_) -> Path_:
        """Where a path in the mended copy stands in the file."""
        found: Path_ = ()
        for step in path:
            if isinstance(step, int):
                places = self.kept.get(found)
                found = (*found, places[step] if places is not None and step < len(places) else step)
            else:
                found = (*found, self.renamed.get((*found, step), step))
        return found

    def report(
        self, path: Path_, message: str, expected: str = "", key: bool = False, offset: int | None = None
    ) -> None:
        """A finding at a path of the copy."""
        self.document.report(self.origin(path), message, expected, key, offset)

    def at(self, path: Path_) -> Any:
        """The value at a path of the copy, or None."""
        value = self.data
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def names(self, *path: str) -> dict[str, Any] | None:
        """The mapping at ``path`` (empty where there is none); None where something else stands there."""
        value = self.at(path)
        if value is None:
            return {} if self.origin(path) not in self.lost else None
        return value if isinstance(value, dict) else None

    def rename(self, path: Path_, name: str) -> None:
        """Take the key at ``path`` for ``name``, in its place."""
        holder = self.at(path[:-1])
        entries = list(holder.items())
        holder.clear()
        holder.update({name if key == path[-1] else key: value for key, value in entries})
        self.renamed[(*self.origin(path[:-1]), name)] = str(path[-1])

    def drop(self, path: Path_) -> None:
        """Leave out what stands at ``path``."""
        holder = self.at(path[:-1])
        self.lost.add(self.origin(path))
        if isinstance(holder, list):
            index = int(path[-1])
            self.kept.setdefault(self.origin(path[:-1]), list(range(len(holder)))).pop(index)
            del holder[index]
        elif isinstance(holder, dict):
            holder.pop(path[-1], None)

    def fill(self, path: Path_, value: Any) -> None:
        """Put something where nothing stands, so that the rest can be read."""
        holder = self.at(path[:-1])
        if isinstance(holder, dict):
            holder[path[-1]] = value
            self.lost.add(self.origin(path))


@dataclass(frozen=True)
class Held(Generic[M]):
    """A document held to a model: what could be read of it (None: nothing), and the view that it was read from.

    ``declared`` are the names of each section as the file has them, entries that could not be read included; None stands
    for a section that is no mapping, so that its names are not known.
    """

    model: M | None
    view: View
    declared: dict[tuple[str, ...], dict[str, Any] | None] = field(default_factory=dict)


# Sections whose names other parts of an exercise file refer to.
SECTIONS = (("dims",), ("inputs",), ("aux",), ("cases", "edge"), ("cases", "examples"))
_FILLINGS: dict[type[BaseModel], dict[str, Any]] = {
    schema.ExerciseFile: {
        "schema": 1, "title": "", "summary": "", "framework": "torch", "inputs": {}, "checks": [{"kind": "values"}],
    },
    schema.EdgeCase: {"title": ""},
    schema.Example: {"title": ""},
    schema.TrackFile: {"title": "", "order": []},
    schema.MisconceptionsFile: {"schema": 1, "misconceptions": []},
}  # fmt: skip


def hold(model: type[M], document: Document) -> Held[M]:
    """Hold ``document`` to ``model``; every fault is reported to the document."""
    view = View(document, document.data)
    if document.data is None and document.findings:
        return Held(None, view)
    if not isinstance(document.data, dict):
        what = "is empty" if document.data is None else f"holds {what_is(document.data)}, not keys with values"
        document.add(1, 1, f"the file {what}", f"a mapping that begins with `{next(iter(grammar.keys(model)))}: …`")
        return Held(None, view)
    try:
        return Held(model.model_validate(document.data), view, _declared(view))
    except ValidationError:
        view.data = copy.deepcopy(document.data)
    faults = _faults(model, view)
    for _ in range(ROUNDS):
        if not [fault for fault in faults if _mend(model, view, fault)]:
            break
        faults = _faults(model, view)
    for fault in faults:
        _report(model, view, fault)
    declared = _declared(view)
    declared = {path: dict(names) if names is not None else None for path, names in declared.items()}
    for _ in range(ROUNDS):
        try:
            return Held(model.model_validate(view.data), view, declared)
        except ValidationError:
            # From the end, so that positions in lists stay true while entries are left out.
            for fault in sorted(_faults(model, view), key=lambda fault: _order(fault.path), reverse=True):
                _leave_out(model, view, fault)
    return Held(None, view, declared)


def _declared(view: View) -> dict[tuple[str, ...], dict[str, Any] | None]:
    return {path: view.names(*path) for path in SECTIONS}


def _order(path: Path_) -> tuple[tuple[int, int | str], ...]:
    return tuple((0, step) if isinstance(step, int) else (1, step) for step in path)


@dataclass(frozen=True)
class Fault:
    """One of pydantic's errors, at its path in the (mended) data."""

    path: Path_
    type: str
    value: Any
    context: dict[str, Any]


def _faults(model: type[BaseModel], view: View) -> list[Fault]:
    try:
        model.model_validate(view.data)
    except ValidationError as error:
        return faults_of(error, view.data)
    return []


def faults_of(error: ValidationError, data: Any) -> list[Fault]:
    """One fault per place: where the members of a union each complain, the complaint that is deepest in the file."""
    found: dict[Path_, Fault] = {}
    for detail in error.errors(include_url=False):
        path = _yaml_path(detail["loc"], data, detail["type"] == "missing")
        found.setdefault(path, Fault(path, detail["type"], detail.get("input"), dict(detail.get("ctx") or {})))
    parents = {path[:length] for path in found for length in range(len(path))}
    return [
        fault for path, fault in found.items() if path not in parents or fault.type in ("missing", "extra_forbidden")
    ]


def _yaml_path(location: tuple[str | int, ...], data: Any, missing: bool) -> Path_:
    """The part of pydantic's location that exists in the file: tags and members of unions are no keys."""
    path: list[str | int] = []
    for index, step in enumerate(location):
        inside = step in data if isinstance(data, dict) else isinstance(data, list) and step in range(len(data))
        if inside:
            data = data[step]
            path.append(step)
        elif missing and index == len(location) - 1:
            path.append(step)
    return tuple(path)


# --- mending ----------------------------------------------------------------------------------------------------------


def _mend(model: type[BaseModel], view: View, fault: Fault) -> bool:
    """Report a misspelt key or kind and take it for what it was probably meant to be; False for any other fault."""
    holder = view.at(fault.path[:-1])
    if fault.type == "extra_forbidden" and isinstance(holder, dict) and ":" not in str(fault.path[-1]):
        allowed = _allowed(model, view, fault.path[:-1])
        close = closest(fault.path[-1], [name for name in allowed if name not in holder])
        if close is None:
            return False
        _report(model, view, fault)
        view.rename(fault.path, close)
        return True
    if fault.type in ("union_tag_invalid", "union_tag_not_found") and isinstance(view.at(fault.path), dict):
        known = _kinds_at(model, view, fault.path)
        entry = view.at(fault.path)
        close = closest(entry["kind"], known) if isinstance(entry.get("kind"), str) else None
        if close is None:
            return False
        _report(model, view, fault)
        entry["kind"] = close
        return True
    return False


def _leave_out(model: type[BaseModel], view: View, fault: Fault) -> None:
    if fault.type != "missing":
        if fault.path:
            view.drop(fault.path)
        return
    holder = grammar.locate(model, fault.path[:-1], view.data)
    found = grammar.model_of(holder.annotation, view.at(fault.path[:-1])) if holder is not None else None
    filling = _FILLINGS.get(found, {}) if found is not None else {}
    if fault.path[-1] in filling:
        view.fill(fault.path, copy.deepcopy(filling[str(fault.path[-1])]))
    elif fault.path[:-1]:
        view.drop(fault.path[:-1])


# --- words ------------------------------------------------------------------------------------------------------------


def what_is(value: Any) -> str:
    """A raw value in words."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {short(value)}"
    if isinstance(value, str):
        return f"the text `{short(value)}`"
    return "a list" if isinstance(value, list | tuple) else "a mapping"


def short(value: Any) -> str:
    """The value on one line, cut where it is long."""
    text = " ".join(str(value).split())
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def name_of(path: Path_) -> str:
    """How to speak of the value at a path: its key, or its place in a list."""
    if not path:
        return "the file"
    if isinstance(path[-1], int):
        keys = [step for step in path if isinstance(step, str)]
        return f"entry {path[-1] + 1} of `{keys[-1]}`" if keys else f"entry {path[-1] + 1}"
    return f"`{path[-1]}`"


def _report(model: type[BaseModel], view: View, fault: Fault) -> None:
    path = fault.path
    if fault.type == "extra_forbidden":
        allowed = _allowed(model, view, path[:-1])
        holder = view.at(path[:-1])
        free = [name for name in allowed if name not in holder] if isinstance(holder, dict) else allowed
        close = nearest(path[-1], free)
        wanted = "one of " + ", ".join(allowed) if allowed else "nothing here"
        if ":" in str(path[-1]) and isinstance(holder, dict) and holder[path[-1]] is None:
            head, _, tail = str(path[-1]).partition(":")
            close, wanted = "", f"`{head}: {tail}`, with a space after the colon"
        view.report(path, f"unknown key `{short(path[-1])}`{_of(view, path[:-1])}{close}", wanted, key=True)
    elif fault.type == "missing":
        found = grammar.locate(model, path, view.data)
        wanted = f"`{path[-1]}: …`"
        if found is not None:
            wanted += f", {grammar.says(found.annotation, found.limits)}"
            wanted += f". {found.description}" if found.description else ""
        place = path[:-1]
        view.report(place, f"the key `{path[-1]}` is missing{_of(view, place)}", wanted, key=bool(place))
    elif fault.type in ("union_tag_invalid", "union_tag_not_found"):
        entry = view.at(path)
        known = _kinds_at(model, view, path)
        words = "one of " + ", ".join(known)
        if not isinstance(entry, dict):
            found = grammar.locate(model, path, view.data)
            form = grammar.form_of(found.annotation) if found is not None else None
            view.report(path, f"{name_of(path)} is {what_is(entry)}", form.says if form else "a mapping with a `kind`")
        elif "kind" not in entry:
            view.report(path, f"the key `kind` is missing{_of(view, path)}", words, key=True)
        else:
            view.report((*path, "kind"), f"unknown kind `{short(entry['kind'])}`{nearest(entry['kind'], known)}", words)
    else:
        said, wanted, offset = explain(fault, grammar.locate(model, path, view.data))
        view.report(path, said, wanted, offset=offset)


def explain(fault: Fault, key: grammar.Key | None) -> tuple[str, str, int | None]:
    """(message, expected, offset into the text) of a fault that concerns one value."""
    wanted = grammar.says(key.annotation, key.limits) if key is not None else ""
    offset = fault.context.get("offset")
    value = fault.value
    said = f"{name_of(fault.path)} is {what_is(value)}"
    if fault.type == "author":
        reason = str(fault.context.get("reason") or "")
        if reason:
            # A reason begins with what it is about, or says what the value has.
            joint = "" if reason.startswith("`") else " " if reason.startswith("has ") else ": "
            said = reason if not joint else name_of(fault.path) + joint + reason
        return said, str(fault.context.get("wanted") or "") or wanted, offset
    if fault.type == "literal_error" and isinstance(value, str) and wanted.startswith("one of "):
        said += nearest(value, wanted.removeprefix("one of ").split(", "))
    if fault.type in ("too_short", "string_too_short"):
        said = f"{name_of(fault.path)} is empty"
    if wanted == "true or false" and str(value).lower() in _NO_BOOLEANS:
        wanted += f" (`{value}` is a text in YAML 1.2)"
    elif wanted.startswith("a text") and isinstance(value, bool | int | float):
        wanted += ": put it in quotes"
    elif wanted.startswith("a text") and isinstance(value, dict):
        wanted += ": put it in quotes, for it contains `: `"
    elif wanted.startswith(("a whole number", "a number")) and isinstance(value, str) and _digits(value):
        wanted += ", without quotes"
    return said, wanted, offset


def _digits(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _of(view: View, path: Path_) -> str:
    """`` of `x` `` for an entry with a name; nothing at the top of the file."""
    if not path:
        return ""
    entry = view.at(path)
    if isinstance(path[-1], int) and isinstance(entry, dict) and isinstance(entry.get("kind"), str):
        return f" of this `{entry['kind']}` check" if path[0] == "checks" else f" of this `{entry['kind']}`"
    return f" in {name_of(view.origin(path))}"


def _allowed(model: type[BaseModel], view: View, path: Path_) -> list[str]:
    found = grammar.locate(model, path, view.data)
    inner = grammar.model_of(found.annotation, view.at(path)) if found is not None else None
    return list(grammar.keys(inner)) if inner is not None else []


def _kinds_at(model: type[BaseModel], view: View, path: Path_) -> list[str]:
    found = grammar.locate(model, path, view.data)
    return list(grammar.kinds(found.annotation)) if found is not None else []
