"""docs/exercise-yaml.md says something of every key, kind and function, and its examples are valid."""

from __future__ import annotations

import re
from typing import Any

import pytest
from conftest import ROOT
from pydantic import BaseModel

from grader import fixtures
from grader.spec import document, expressions, grammar, load, schema, structure
from grader.spec.document import Document

PAGE = (ROOT / "docs" / "exercise-yaml.md").read_text(encoding="utf-8")
# Without its code blocks, in which a comment looks like a heading.
PROSE = re.sub(r"^```.*?^```$", "", PAGE, flags=re.M | re.S)
# Where each model is documented; inputs and checks by their kind.
SECTIONS: dict[type[BaseModel], str] = {
    schema.ExerciseFile: "Keys of the file",
    schema.Dim: "Dims",
    schema.Output: "Output",
    schema.Cases: "Cases",
    schema.EdgeCase: "Edge cases",
    schema.Example: "Examples",
    schema.LimitsEntry: "limits",
    schema.TrackFile: "track.yaml",
    schema.MisconceptionsFile: "misconceptions.yaml",
    schema.MisconceptionEntry: "misconceptions.yaml",
    schema.PatchEntry: "misconceptions.yaml",
    **{model: kind for kind, model in grammar.kinds(schema.InputEntry).items()},
    **{model: kind for kind, model in schema.CHECK_KINDS.items()},
}
SHARED: dict[type[BaseModel], tuple[str, ...]] = {
    **dict.fromkeys(
        grammar.kinds(schema.InputEntry).values(), ("Keys that every input has", "Keys that every array has")
    ),
    **dict.fromkeys(schema.CHECK_KINDS.values(), ("Keys that every check has",)),
}


def section(title: str) -> str:
    """The text below a heading, up to the next one of the same level or a higher one."""
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,6}} |\Z)", PROSE, re.M | re.S)
    assert found is not None, f"no section `{title}`"
    return found[2]


def documented(text: str) -> set[str]:
    """The words in backticks."""
    return set(re.findall(r"`([^`\n]+)`", text))


@pytest.mark.parametrize("model", SECTIONS, ids=lambda model: model.__name__)
def test_every_key_is_documented_where_it_belongs(model: type[BaseModel]) -> None:
    text = section(SECTIONS[model]) + "".join(section(title) for title in SHARED.get(model, ()))
    missing = [name for name in grammar.keys(model) if name not in documented(text)]
    assert not missing, f"section `{SECTIONS[model]}` lacks {missing}"


def test_every_model_has_a_section() -> None:
    known = {schema.ExerciseFile, schema.TrackFile, schema.MisconceptionsFile}
    waiting = list(known)
    while waiting:
        for key in grammar.keys(waiting.pop()).values():
            for inner in inside(key.annotation):
                if inner not in known:
                    known.add(inner)
                    waiting.append(inner)
    assert known == set(SECTIONS)


def inside(annotation: Any) -> list[type[BaseModel]]:
    arguments = getattr(grammar.bare(annotation), "__args__", ())
    return [*grammar.models(annotation), *(model for argument in arguments for model in inside(argument))]


def test_no_key_is_documented_that_does_not_exist() -> None:
    """The first column of every table of keys holds keys of the section's models."""
    for title in {
        *SECTIONS.values(),
        "Keys that every input has",
        "Keys that every array has",
        "Keys that every check has",
    }:
        models = [model for model, heading in SECTIONS.items() if heading == title] or list(SHARED)
        known = {name for model in models for name in grammar.keys(model)}
        for row in re.findall(r"^\| `([^`]+)` \|", section(title), re.M):
            assert row in known, f"`{row}` in section `{title}`"


def test_every_choice_is_documented() -> None:
    for model, title in SECTIONS.items():
        text = section(title) + "".join(section(name) for name in SHARED.get(model, ()))
        for key in grammar.keys(model).values():
            said = grammar.says(key.annotation, key.limits)
            if said.startswith("one of ") and key.name not in ("kind",):
                for word in said.removeprefix("one of ").split(", "):
                    assert word in text, f"{title}: `{key.name}` may be `{word}`"


@pytest.mark.parametrize("name", [*expressions.FUNCTIONS, *expressions.DRAWING])
def test_every_function_is_documented(name: str) -> None:
    rows = [row for row in section("Expressions").splitlines() if row.startswith("|")]
    assert any(f"`{name}(" in row for row in rows)


def test_every_constant_is_documented() -> None:
    assert set(expressions.CONSTANTS) <= documented(section("Expressions"))


def test_functions_are_shown_as_they_are_called() -> None:
    """Every call in the table is of the language."""
    for call in re.findall(r"`(\w+\([^`]*\))`", section("Expressions")):
        expressions.parse(call.replace("…", "2"))


def test_every_header_of_a_fixture_is_documented() -> None:
    names = re.search(r"\(([\w|]+)\)", fixtures._LINE.pattern)
    assert names is not None
    described = {name for name in names[1].split("|") if f"`# {name}:`" in section("Fixtures")}
    assert described >= {"right", "wrong", "fails", "cause", "misconception"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)


BASE = {
    "schema": 1, "title": "t", "summary": "s", "framework": "torch", "inputs": {"x": {"shape": [2]}},
    "checks": [{"kind": "values"}],
}  # fmt: skip


@pytest.mark.parametrize("text", blocks("yaml"), ids=lambda text: text.split("\n")[0][:40])
def test_every_yaml_example_is_valid(text: str) -> None:
    found = document.parse(text.encode(), Document("example"))
    assert not found.findings
    data = found.data or {}
    model: type[BaseModel] = schema.ExerciseFile
    if "misconceptions" in data:
        model = schema.MisconceptionsFile
    elif "order" in data:
        model = schema.TrackFile
    elif "schema" not in data:
        found.data = {**BASE, **data}
    structure.hold(model, found)
    assert [str(finding) for finding in found.findings] == []


def test_the_whole_file_is_an_exercise(tmp_path: Any) -> None:
    folder = tmp_path / "track" / "scaled_dot_product_attention"
    folder.mkdir(parents=True)
    (folder / "exercise.yaml").write_text(blocks("yaml")[0])
    assert load.read_exercise(folder, None).spec.checks


@pytest.mark.parametrize("kind", schema.CHECK_KINDS)
def test_every_check_has_an_example_that_is_valid(kind: str) -> None:
    shown = re.search(rf"`(\{{kind: {kind}\b[^`]*\}})`", section(kind))
    assert shown is not None
    found = document.parse(f"checks: [{shown[1]}]\n".encode(), Document("example"))
    found.data = {**BASE, **(found.data or {})}
    structure.hold(schema.ExerciseFile, found)
    assert [str(finding) for finding in found.findings] == []


def test_links_lead_somewhere() -> None:
    headings = {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", PAGE, re.M)
    }
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        if target.startswith("#"):
            assert target[1:] in headings, target
        else:
            assert (ROOT / "docs" / target).is_file(), target
