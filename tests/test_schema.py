"""The models, and the two things made from them: words for errors, and the JSON Schema that editors read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
from conftest import ROOT
from pydantic import BaseModel, TypeAdapter

from grader.checks.registry import CHECKS
from grader.spec import document, editor, grammar, schema, structure
from grader.spec.document import Document

EXERCISES = sorted(ROOT.glob("exercises/*/*/exercise.yaml"))
BROKEN = ROOT / "tests" / "broken"
# Mistakes that an editor can see without knowing what names mean.
SEEN_BY_EDITORS = (
    "misspelt_key", "misspelt_section", "missing_key", "unknown_key", "unknown_check_kind", "unknown_input_kind",
    "input_lacks_a_key", "number_in_quotes", "no_for_false", "time_of_day", "colon_in_a_hint", "two_sizes",
    "scalar_two_ways", "override_of_a_wrong_key", "comparison_for_assignment", "negative_points", "no_checks",
    "unknown_dtype", "five_structural", "five_kinds_of_mistake", "a_list", "empty",
)  # fmt: skip


@pytest.fixture(scope="module")
def validator() -> Any:
    return jsonschema.Draft7Validator(json.loads(editor.PATH.read_text(encoding="utf-8")))


def models() -> list[type[BaseModel]]:
    """Every model that a file of an exercise is held to."""
    found: dict[type[BaseModel], None] = {}

    def walk(model: type[BaseModel]) -> None:
        if model not in found:
            found[model] = None
            for key in grammar.keys(model).values():
                visit(key.annotation)

    def visit(annotation: Any) -> None:
        for inner in grammar.models(annotation):
            walk(inner)
        for part in get_args(grammar.bare(annotation)):
            if part is not annotation:
                visit(part)

    for root in (schema.ExerciseFile, schema.TrackFile, schema.MisconceptionsFile):
        walk(root)
    return list(found)


def test_the_committed_schema_is_up_to_date() -> None:
    assert editor.PATH.read_text(encoding="utf-8") == editor.text(), "run: python -m grader.spec.editor"


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(editor.build())


@pytest.mark.parametrize("path", EXERCISES, ids=[path.parent.name for path in EXERCISES])
def test_every_exercise_validates(path: Path, validator: Any) -> None:
    assert [error.message for error in validator.iter_errors(document.read(path).data)] == []


@pytest.mark.parametrize("name", SEEN_BY_EDITORS)
def test_broken_files_do_not(name: str, validator: Any) -> None:
    assert not validator.is_valid(document.read(BROKEN / f"{name}.yaml").data)


INPUTS: list[tuple[Any, bool]] = [
    ({"shape": ["N", 3]}, True),
    ({"kind": "float", "shape": []}, True),
    ({"value": "N // 2"}, True),
    ({"kind": "scalar", "choices": [True, None]}, True),
    ({"range": "0.1..0.9"}, True),
    ({"kind": "ids", "shape": ["N"], "below": "V", "as": "float", "ignore": -100}, True),
    ({"kind": "integers", "shape": [], "high": 4, "as": ["int64", "int32"]}, True),
    ({"kind": "integers", "shape": [], "high": 4, "as": "int8"}, True),
    ({"kind": "booleans", "shape": ["N"], "share": 1, "default": None}, True),
    ({"kind": "list", "items": [{"shape": []}, None]}, True),
    ({"kind": "list", "count": "n", "of": {"choices": [1, 2]}}, True),
    ({"kind": "dict", "items": {"w": {"shape": ["N"]}}}, True),
    ({"kind": "function", "parameters": ["ids"], "returns": "table[0]"}, True),
    ({}, False),
    (None, False),
    ("N", False),
    ({"kind": "scalar"}, False),
    ({"shape": "N"}, False),
    ({"shape": ["N"], "value": 1}, False),
    ({"value": 1, "choices": [1]}, False),
    ({"kind": "ids", "shape": ["N"]}, False),
    ({"kind": "id", "shape": ["N"], "below": 3}, False),
    ({"kind": "booleans", "shape": ["N"], "share": 2}, False),
    ({"kind": "integers", "shape": [], "high": 4, "as": ["int65"]}, False),
    ({"kind": "list", "items": [{"kind": "nothing"}]}, False),
    ({"shape": [None]}, False),
    ({"shape": [True]}, False),
    ({"kind": "function", "parameters": ["ids"]}, False),
]


@pytest.mark.parametrize(("entry", "accepted"), INPUTS, ids=[json.dumps(entry) for entry, _ in INPUTS])
def test_inputs_are_accepted_by_both_or_by_neither(entry: Any, accepted: bool, validator: Any) -> None:
    """The models and the schema for editors agree on the forms of an input."""
    body = {**minimal(), "inputs": {"x": entry}}
    assert validator.is_valid(body) == accepted
    if not (isinstance(entry, dict) and (("choices" in entry and "value" in entry) or entry == {"kind": "scalar"})):
        # Two values for one scalar are told by `grader.spec.meaning`, which knows the other alternatives.
        assert (faults(body) == []) == accepted


DIMS: list[tuple[Any, bool]] = [
    ("2..6", True),
    ([2, 3], True),
    (4, True),
    ("2 * N", True),
    ({"range": "1..2", "free": True}, True),
    ({"choices": [1], "free": False}, True),
    ({"value": "N + 1"}, True),
    ([], False),
    ([-1], False),
    (["2"], False),
    (None, False),
    (True, False),
    ({}, False),
    ({"free": True}, False),
    ({"range": "1..2", "value": 2}, False),
    ({"range": "1..2", "fre": True}, False),
    ({"range": 12}, False),
]


@pytest.mark.parametrize(("entry", "accepted"), DIMS, ids=[json.dumps(entry) for entry, _ in DIMS])
def test_dims_are_accepted_by_both_or_by_neither(entry: Any, accepted: bool, validator: Any) -> None:
    body = {**minimal(), "dims": {"D": entry}}
    assert validator.is_valid(body) == accepted
    assert (faults(body) == []) == accepted


@pytest.mark.parametrize("kind", schema.CHECK_KINDS)
def test_a_check_accepts_its_own_keys_and_no_others(kind: str, validator: Any) -> None:
    needed: dict[str, Any] = {
        "inputs": {"x": 0}, "output": 0, "what": ["x"], "function": "f", "below": 100, "feed": {"0": "x"},
    }  # fmt: skip
    check = {"kind": kind, **{key: needed[key] for key, entry in grammar.keys(schema.CHECK_KINDS[kind]).items() if entry.required and key != "kind"}}  # fmt: skip
    body = {**minimal(), "checks": [check]}
    assert validator.is_valid(body) and faults(body) == []
    check["colour"] = "red"
    assert not validator.is_valid(body)
    assert len(faults(body)) == 1 and "colour" in faults(body)[0]


def test_short_forms_of_the_output(validator: Any) -> None:
    for output in ("scalar", {"kind": "tuple", "items": {"a": {"axes": ["row"]}, "b": {"kind": "scalar"}}}, {}):
        assert validator.is_valid({**minimal(), "output": output}) and faults({**minimal(), "output": output}) == []
    assert not validator.is_valid({**minimal(), "output": "sclar"})


def minimal() -> dict[str, Any]:
    return {
        "schema": 1, "title": "t", "summary": "s", "framework": "numpy", "inputs": {"x": {"shape": [2]}},
        "checks": [{"kind": "values"}],
    }  # fmt: skip


def faults(body: dict[str, Any]) -> list[str]:
    """The structural complaints about a body that is no file."""
    found = Document("file.yaml", data=body)
    structure.hold(schema.ExerciseFile, found)
    return [finding.message for finding in found.findings]


@pytest.mark.parametrize("model", models(), ids=lambda model: model.__name__)
def test_every_key_is_described(model: type[BaseModel]) -> None:
    assert model.__doc__ and model.__doc__ != schema.Model.__doc__
    for key in grammar.keys(model).values():
        assert key.description, f"{model.__name__}.{key.name}"


def test_every_kind_of_check_is_carried_out_and_described() -> None:
    assert set(schema.CHECK_KINDS) == set(CHECKS) == set(grammar.kinds(schema.CheckEntry))
    assert set(schema.KINDS) == set(grammar.kinds(schema.InputEntry))


def test_the_grammar_knows_every_key_of_the_models() -> None:
    for model in models():
        names = {info.alias or name for name, info in model.model_fields.items()}
        assert set(grammar.keys(model)) == names


@pytest.mark.parametrize(
    ("annotation", "limits", "words"),
    [
        (bool, {}, "true or false"),
        (int, {"ge": 0, "le": 500}, "a whole number from 0 to 500"),
        (float, {"gt": 0, "le": 600}, "a number above 0, at most 600"),
        (float, {"ge": 0}, "a number, 0 or more"),
        (str, {}, "a text"),
        (str | None, {"min_length": 1}, "a text that is not empty"),
        (tuple[str, ...], {}, "a list, each entry a text"),
        (schema.Framework, {}, "one of torch, numpy, python"),
        (schema.Expression, {}, "a number, or an expression such as 2 * d"),
        (dict[str, int], {}, "a mapping of names, each to a whole number"),
    ],
)
def test_what_is_expected_in_words(annotation: Any, limits: dict[str, Any], words: str) -> None:
    assert grammar.says(annotation, limits) == words


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("2..6", (2, 6)),
        (" 0.1 .. 0.9 ", (0.1, 0.9)),
        ("-1..1", (-1, 1)),
        ("1e-3..1", (1e-3, 1)),
        (".5..1", (0.5, 1)),
        ("2...6", (2, 0.6)),
        ("2..", None),
        ("..6", None),
        ("2-6", None),
        ("a..b", None),
        ("1..2..3", None),
        ("", None),
    ],
)
def test_ranges(text: str, ends: tuple[float, float] | None) -> None:
    assert schema.parse_range(text) == ends


def test_models_are_frozen_and_strict() -> None:
    dim = TypeAdapter(schema.DimEntry).validate_python("2..6")
    assert isinstance(dim, schema.Dim) and dim.bounds() == (2, 6)
    with pytest.raises(ValueError, match="frozen"):
        dim.range = "1..2"
    with pytest.raises(ValueError, match="valid integer"):
        schema.Cases(random="4")  # type: ignore[arg-type]
