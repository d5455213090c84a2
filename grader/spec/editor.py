"""The exercise file as a JSON Schema, for editors: completion, descriptions on hover, and faults while typing.

``python -m grader.spec.editor`` writes it anew; ``python -m grader.spec.editor --where`` prints where it lies.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from grader.spec import grammar, schema

PATH = Path(__file__).resolve().with_name("exercise.schema.json")
TITLE = "An exercise of tensorgrade (exercise.yaml)"
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
# What the short forms look like; the long ones follow from the models.
_FORMS: dict[str, dict[str, Any]] = {
    "expression": {"type": ["number", "string"]},
    "assignment": {"type": "string", "pattern": "[^=<>!]=[^=]"},
    "cases": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]},
    "part": {"type": ["string", "integer"]},
}


def build() -> dict[str, Any]:
    """The schema: draft 7, which is what the language servers of editors read."""
    definitions: dict[str, Any] = {}
    body = _model(schema.ExerciseFile, definitions)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": TITLE,
        **body,
        "definitions": dict(sorted(definitions.items())),
    }


def _model(model: type[BaseModel], definitions: dict[str, Any]) -> dict[str, Any]:
    properties = {}
    required = []
    for key in grammar.keys(model).values():
        described = {"description": key.description, **_type(key.annotation, key.limits, definitions)}
        if not key.required and isinstance(key.default, str | int | float):
            described["default"] = key.default
        properties[key.name] = described
        if key.required:
            required.append(key.name)
    found: dict[str, Any] = {"type": "object"}
    if model.__doc__:
        found["description"] = " ".join(model.__doc__.split()).replace("``", "`")
    found.update({"additionalProperties": False, "properties": properties})
    if required:
        found["required"] = required
    if model is schema.ScalarInput:
        found["oneOf"] = [{"required": [key]} for key in ("value", "choices", "range")]
    if model is schema.Dim:
        found["oneOf"] = [{"required": [key]} for key in schema.DIM_FORMS]
    return found


def _type(annotation: Any, limits: Mapping[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    form = grammar.form_of(annotation)
    if form is not None:
        return _form(form.name, annotation, definitions)
    members = grammar.alternatives(annotation)
    if len(members) > 1 or members[0] is not annotation:
        # null says the same as a key that is left out, and is offered by no editor.
        found = [_type(member, limits, definitions) for member in members]
        return found[0] if len(found) == 1 else {"anyOf": found}
    return _plain(annotation, {**limits, **grammar.limits_of(annotation)}, definitions)


def _plain(annotation: Any, limits: Mapping[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    inner = grammar.bare(annotation)
    origin, arguments = get_origin(inner), get_args(inner)
    if origin is Literal:
        return {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
    if origin in (tuple, list):
        found: dict[str, Any] = {"type": "array", "items": _entry(arguments[0], definitions)}
        return {**found, "minItems": limits["min_length"]} if limits.get("min_length") else found
    if origin is dict:
        found = {"type": "object", "additionalProperties": _entry(arguments[1], definitions)}
        return {**found, "minProperties": limits["min_length"]} if limits.get("min_length") else found
    if inner is str:
        found = {"type": "string"}
        if "pattern" in limits:
            found["pattern"] = limits["pattern"]
        return {**found, "minLength": limits["min_length"]} if limits.get("min_length") else found
    if inner in (bool, int, float):
        name = {bool: "boolean", int: "integer", float: "number"}[inner]
        return {"type": name, **{_BOUNDS[limit]: limits[limit] for limit in _BOUNDS if limit in limits}}
    if isinstance(inner, type) and issubclass(inner, BaseModel):
        return _reference(inner, definitions)
    return {}


def _entry(annotation: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """What stands in a list or mapping: there, unlike for a key, null differs from nothing and must be allowed."""
    found = _type(annotation, {}, definitions)
    if type(None) in get_args(grammar.bare(annotation)):
        return {"anyOf": [found, {"type": "null"}]}
    return found


def _reference(model: type[BaseModel], definitions: dict[str, Any]) -> dict[str, Any]:
    name = model.__name__
    if name not in definitions:
        # Entered before it is built, for an input may hold inputs.
        definitions[name] = {}
        definitions[name] = _model(model, definitions)
    return {"$ref": f"#/definitions/{name}"}


def _form(name: str, annotation: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if name in _FORMS:
        return dict(_FORMS[name])
    if name == "one_or_many":
        many = _plain(grammar.bare(annotation), {"min_length": 1}, definitions)
        return {"anyOf": [many["items"], many]}
    if name == "dim":
        sizes = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
        forms = [{"type": ["number", "string"]}, sizes, _reference(schema.Dim, definitions)]
        return _named("dim", lambda: {"anyOf": forms}, definitions)
    if name == "output":
        words = list(get_args(schema.Output.model_fields["kind"].annotation))
        return _named(
            "output", lambda: {"anyOf": [{"enum": words}, _reference(schema.Output, definitions)]}, definitions
        )
    if name == "override":
        return _named("override", lambda: _override(definitions), definitions)
    return _named(name, lambda: _by_kind(annotation, definitions), definitions)


def _override(definitions: dict[str, Any]) -> dict[str, Any]:
    """What an edge case may change of an input: any key of any kind, none of them required."""
    found: dict[str, list[dict[str, Any]]] = {}
    for model in grammar.kinds(schema.InputEntry).values():
        for key in grammar.keys(model).values():
            described = {"description": key.description, **_type(key.annotation, key.limits, definitions)}
            if described not in found.setdefault(key.name, []):
                found[key.name].append(described)
    properties = {name: forms[0] if len(forms) == 1 else {"anyOf": forms} for name, forms in found.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _named(name: str, build_it: Callable[[], dict[str, Any]], definitions: dict[str, Any]) -> dict[str, Any]:
    if name not in definitions:
        definitions[name] = {}
        definitions[name] = build_it()
    return {"$ref": f"#/definitions/{name}"}


def _by_kind(annotation: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """A union told apart by ``kind``, as a chain of conditions: then an editor complains of one kind, not of all."""
    found = grammar.kinds(annotation)
    chain = [
        {"if": {"required": ["kind"], "properties": {"kind": {"const": kind}}}, "then": _reference(model, definitions)}
        for kind, model in found.items()
    ]
    implied: list[dict[str, Any]] = []
    if schema.ScalarInput in found.values():
        scalar = {"anyOf": [{"required": [key]} for key in ("value", "choices", "range")]}
        without = {"not": {"required": ["kind"]}}
        implied = [
            {"if": {"allOf": [without, scalar]}, "then": _reference(schema.ScalarInput, definitions)},
            {
                "if": {"allOf": [without, {"not": scalar}]},
                "then": _reference(schema.FloatInput, definitions),
            },
        ]
    required = {} if implied else {"required": ["kind"]}
    kinds = {"properties": {"kind": {"description": "What it is.", "enum": list(found)}}}
    return {"type": "object", **required, **kinds, "allOf": [*chain, *implied]}


def text() -> str:
    """The schema as it is committed."""
    return json.dumps(build(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--where"]:
        print(PATH)
    else:
        PATH.write_text(text(), encoding="utf-8")
        print(f"wrote {PATH}")
