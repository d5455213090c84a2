"""The models read as a grammar: which keys may stand where, and in words what each takes.

Error texts, the editor schema and the test of the manual all ask here, so that none of them can drift from the models.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from grader.spec import schema

LIMITS = ("ge", "gt", "le", "lt", "min_length", "pattern")


@dataclass(frozen=True)
class Key:
    """One key of a mapping: its name as written in YAML, what it takes, and what it is for."""

    name: str
    annotation: Any
    description: str
    required: bool
    default: Any = None
    limits: Mapping[str, Any] = field(default_factory=dict)


@cache
def keys(model: type[BaseModel]) -> dict[str, Key]:
    """The keys of a model, by the name they have in YAML: its own first, then those it shares with others."""
    hints = get_type_hints(model, vars(sys.modules[model.__module__]), include_extras=True)
    own_first = [name for part in model.__mro__ for name in vars(part).get("__annotations__", ())]
    found = {}
    for attribute in dict.fromkeys(own_first):
        if attribute not in model.model_fields:
            continue
        info = model.model_fields[attribute]
        name = info.alias or attribute
        limits = _limits(info.metadata)
        found[name] = Key(name, hints[attribute], info.description or "", info.is_required(), info.default, limits)
    return found


def form_of(annotation: Any) -> schema.Form | None:
    """The `Form` that marks an annotation, if one does."""
    for entry in getattr(annotation, "__metadata__", ()):
        if isinstance(entry, schema.Form):
            return entry
    return None


def bare(annotation: Any) -> Any:
    """An annotation without its metadata."""
    return annotation.__origin__ if hasattr(annotation, "__metadata__") else annotation


def alternatives(annotation: Any) -> list[Any]:
    """The members of a union, None left out; anything else is its own only member."""
    inner = bare(annotation)
    if get_origin(inner) not in (Union, types.UnionType):
        return [annotation]
    return [member for member in get_args(inner) if member is not type(None)]


def models(annotation: Any) -> list[type[BaseModel]]:
    """The models among the alternatives of an annotation (several for a union told apart by ``kind``)."""
    found: list[type[BaseModel]] = []
    for member in alternatives(annotation):
        inner = bare(member)
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found.append(inner)
        elif inner is not bare(annotation):
            found.extend(models(inner))
    return found


def kinds(annotation: Any) -> dict[str, type[BaseModel]]:
    """The models of a union by their ``kind``."""
    found = {}
    for model in models(annotation):
        kind = model.model_fields.get("kind")
        if kind is not None and get_origin(kind.annotation) is Literal:
            found.update({str(word): model for word in get_args(kind.annotation)})
    return found


def model_of(annotation: Any, value: Any) -> type[BaseModel] | None:
    """The model that a raw value is to be held to: the only one, or the one of its kind."""
    found = models(annotation)
    if len(found) <= 1:
        return found[0] if found else None
    form = form_of(annotation)
    kind = schema.kind_of(value) if form is not None and form.name == "input" else None
    if kind is None and isinstance(value, dict):
        kind = value.get("kind")
    return kinds(annotation).get(str(kind))


def locate(model: type[BaseModel], path: tuple[str | int, ...], data: Any) -> Key | None:
    """What stands at ``path`` of a file of ``model`` whose raw content is ``data``; None where the models end."""
    found: Key | None = Key("", model, "", True)
    for step in path:
        assert found is not None
        found = inside(found.annotation, step, data)
        if found is None:
            return None
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            data = None
    return found


def inside(annotation: Any, step: str | int, value: Any) -> Key | None:
    """What may stand at key or index ``step`` of a raw ``value`` that is held to ``annotation``."""
    inner_model = model_of(annotation, value)
    if inner_model is not None:
        return keys(inner_model).get(str(step))
    for member in alternatives(annotation):
        inner = bare(member)
        origin, arguments = get_origin(inner), get_args(inner)
        if origin is dict and isinstance(step, str):
            return Key(step, arguments[1], "", False)
        if origin in (tuple, list) and isinstance(step, int):
            return Key(str(step), arguments[0], "", False)
        if inner is not bare(annotation):
            found = inside(inner, step, value)
            if found is not None:
                return found
    return None


def says(annotation: Any, limits: Mapping[str, Any] | None = None) -> str:
    """In words, what a value of this annotation looks like in the file."""
    limits = limits or {}
    form = form_of(annotation)
    if form is not None:
        return form.says
    members = alternatives(annotation)
    if len(members) > 1 or members[0] is not annotation:
        return " or ".join(says(member, limits) for member in members)
    inner = bare(annotation)
    origin, arguments = get_origin(inner), get_args(inner)
    if origin is Literal:
        words = [str(word) for word in arguments]
        return words[0] if len(words) == 1 else "one of " + ", ".join(words)
    if origin in (tuple, list):
        most = says(arguments[0])
        return ("a list with at least one entry: " if limits.get("min_length") else "a list, each entry ") + most
    if origin is dict:
        return "a mapping of names, each to " + says(arguments[1])
    if inner is bool:
        return "true or false"
    if inner is int or inner is float:
        return ("a whole number" if inner is int else "a number") + _bounds({**limits, **limits_of(annotation)})
    if inner is str:
        if "pattern" in limits:
            return "a name of small letters, digits and underscores"
        return "a text that is not empty" if limits.get("min_length") else "a text"
    if isinstance(inner, type) and issubclass(inner, BaseModel):
        return "a mapping with the keys " + ", ".join(keys(inner))
    return "a value"


def limits_of(annotation: Any) -> dict[str, Any]:
    """The limits that an annotation carries itself, as ``Annotated[int, Field(ge=0)]`` does."""
    return _limits(part for entry in getattr(annotation, "__metadata__", ()) for part in getattr(entry, "metadata", ()))


def _limits(constraints: Iterable[Any]) -> dict[str, Any]:
    return {
        limit: getattr(constraint, limit)
        for constraint in constraints
        for limit in LIMITS
        if getattr(constraint, limit, None) is not None
    }


def _bounds(limits: Mapping[str, Any]) -> str:
    low, high = limits.get("ge"), limits.get("le")
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if "gt" in limits:
        return f" above {limits['gt']}" + (f", at most {high}" if high is not None else "")
    return f", {low} or more" if low is not None else f", at most {high}" if high is not None else ""
