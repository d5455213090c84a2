"""What can be typed or read is written down somewhere, and what is written down can be typed."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from conftest import ROOT

from grader.cli.staff import grader
from grader.cli.student import build
from grader.model import VERDICTS
from grader.spec import expressions, schema

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
GRADE = build(None)
COMMANDS: dict[str, click.Command] = {
    "grade": GRADE,
    **{f"grader {name}": command for name, command in grader.commands.items()},
}
EXERCISES = {path.parent.name for path in ROOT.glob("exercises/*/*/exercise.yaml")}


def written(word: str) -> bool:
    """Whether a word stands somewhere in the documents, not as a part of a longer one."""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", TEXT) is not None


def options() -> Iterator[tuple[str, str]]:
    for name, command in COMMANDS.items():
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                longest = max(parameter.opts, key=len)
                if longest not in ("--help", "--version"):
                    yield name, longest


# --- everything is written down ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_documented(name: str) -> None:
    assert re.search(rf"`?{name}\b", TEXT)


@pytest.mark.parametrize(("name", "option"), sorted(options()), ids=lambda value: str(value).replace(" ", "_"))
def test_every_option_is_documented(name: str, option: str) -> None:
    assert written(option), f"{name} {option} is in no document"


@pytest.mark.parametrize("kind", sorted(schema.CHECK_KINDS))
def test_every_kind_of_check_is_documented(kind: str) -> None:
    assert re.search(rf"`{kind}`|kind: {kind}\b", TEXT)


@pytest.mark.parametrize("kind", [*schema.KINDS, *expressions.FUNCTIONS, *expressions.DRAWING])
def test_every_word_of_the_exercise_language_is_documented(kind: str) -> None:
    assert written(kind)


def fields(model: type[Any], seen: set[str]) -> Iterator[tuple[str, str]]:
    for name, field in model.model_fields.items():
        yield model.__name__, field.alias or name


MODELS = [
    schema.ExerciseFile, schema.Dim, schema.FloatInput, schema.IdsInput, schema.IntegersInput, schema.BooleansInput, schema.ScalarInput,
    schema.ListInput, schema.DictInput, schema.FunctionInput, schema.Output, schema.Cases, schema.EdgeCase, schema.Example, schema.LimitsEntry,
    schema.TrackFile, schema.MisconceptionsFile, schema.MisconceptionEntry, schema.PatchEntry, *schema.CHECK_KINDS.values(),
]  # fmt: skip
KEYS = sorted({pair for model in MODELS for pair in fields(model, set())})


@pytest.mark.parametrize(("model", "key"), KEYS, ids=lambda value: str(value))
def test_every_key_of_a_file_is_documented(model: str, key: str) -> None:
    page = (ROOT / "docs" / "exercise-yaml.md").read_text(encoding="utf-8")
    assert re.search(rf"`{re.escape(key)}`|^\s*-?\s*{re.escape(key)}:|[{{,]\s*{re.escape(key)}:", page, re.MULTILINE), (
        f"{model}.{key}"
    )


@pytest.mark.parametrize("verdict", VERDICTS)
def test_every_verdict_is_documented(verdict: str) -> None:
    assert f"`{verdict}`" in TEXT


def causes() -> set[str]:
    """Every cause that the code can give: what stands where a cause stands."""
    found: set[str] = set()

    def strings(node: ast.AST) -> Iterator[str]:
        for inner in ast.walk(node):
            if (
                isinstance(inner, ast.Constant)
                and isinstance(inner.value, str)
                and re.fullmatch(r"[a-z]+(_[a-z]+)*", inner.value)
            ):
                yield inner.value

    sources = [
        *(ROOT / "grader" / "checks").glob("*.py"),
        ROOT / "grader" / "grade.py",
        ROOT / "grader" / "submission.py",
    ]
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "Ruling"
                and len(node.args) > 1
            ):
                found.update(strings(node.args[1]))
    tree = ast.parse((ROOT / "grader" / "checks" / "verdicts.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            for value in node.value.values:
                found.update(strings(value.elts[1] if isinstance(value, ast.Tuple) else value))
    tree = ast.parse((ROOT / "grader" / "checks" / "gradients.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_failed":
            found.update(strings(node.args[2]))
    for module, caller in (("source", "LoadError"), ("host", "_cause")):
        tree = ast.parse((ROOT / "grader" / "worker" / f"{module}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == caller
                and caller == "LoadError"
            ):
                first = node.args[0]
                found.update(strings(first.body) if isinstance(first, ast.IfExp) else strings(first))
                found.update(strings(first.orelse) if isinstance(first, ast.IfExp) else ())
            if isinstance(node, ast.FunctionDef) and node.name == caller:
                found.update(
                    word for inner in ast.walk(node) if isinstance(inner, ast.Return) for word in strings(inner)
                )
    # What a worker says of memory becomes the limit's own cause.
    return found - {"memory"}


def test_every_cause_is_documented() -> None:
    found = causes()
    assert {
        "leak",
        "not_read",
        "gradient_wrong",
        "no_case",
        "undecided",
        "syntax_error",
        "nan",
        "exited",
        "values",
        "forbidden_operation",
    } <= found | {"forbidden_operation"}
    page = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    assert not sorted(cause for cause in found if f"`{cause}`" not in page)


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_every_exit_code_is_documented(code: int) -> None:
    assert re.search(rf"^\| {code} \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)


# --- what is written down can be typed --------------------------------------------------------------------------------


def typed() -> Iterator[tuple[str, int, str]]:
    """(page, line, command) of every line of a shell block: all of a ``bash`` block, and of ``console`` those after a $."""
    for page in PAGES:
        language = None
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
            fence = re.match(r"\s*```(\w*)", line)
            if fence:
                language = None if language is not None else fence[1]
            elif language == "bash" or (language == "console" and line.startswith("$ ")):
                text = line.removeprefix("$ ").split("  #")[0].strip()
                for part in re.split(r"\s+(?:&&|\|\||\||;)\s+", text):
                    if part and not part.startswith("#"):
                        yield page.name, number, part


def examples() -> Iterator[tuple[str, int, str]]:
    """(page, line, command) of every example in the help of a command; what it does stands two spaces after it."""
    for name, command in {**COMMANDS, "grader": grader}.items():
        _, _, lines = (command.epilog or "").partition("Example")
        for number, line in enumerate(lines.splitlines()[1:], start=1):
            if line.startswith("  gra"):
                yield f"{name} --help", number, re.split(r"\s{2,}", line.strip())[0].replace("COMMAND --help", "--help")


TYPED = [*typed(), *examples()]


@pytest.mark.parametrize("name", [*sorted(COMMANDS), "grader"])
def test_the_help_of_every_command_has_examples_and_tells_of_every_option(name: str) -> None:
    assert any(page == f"{name} --help" and text.startswith(name) for page, _, text in TYPED)
    command = COMMANDS.get(name, grader)
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def test_there_is_something_to_type() -> None:
    assert len(TYPED) >= 8


@pytest.mark.parametrize(("page", "line", "text"), TYPED, ids=lambda value: str(value)[:40])
def test_a_command_in_a_document_exists(page: str, line: int, text: str) -> None:
    words = shlex.split(text)
    name = " ".join(words[:2]) if words[0] == "grader" else words[0]
    if words[0] not in ("grade", "grader"):
        return
    assert name in COMMANDS or (words[0] == "grader" and words[1].startswith("-")), f"{page}:{line}: {text}"
    command = COMMANDS.get(name, grader)
    known = {option for parameter in command.params for option in parameter.opts} | {"-h", "--help"}
    rest = words[len(name.split()) :]
    for word in rest:
        if word.startswith("-") and word != "-":
            assert word.partition("=")[0] in known, f"{page}:{line}: {word}"


@pytest.mark.parametrize(
    ("page", "line", "text"), [entry for entry in TYPED if entry[0] == "README.md"], ids=lambda value: str(value)[:40]
)
def test_what_the_readme_names_is_there(page: str, line: int, text: str) -> None:
    words = shlex.split(text)
    if words[0] == "grade" and len(words) > 1 and not words[1].startswith("-"):
        assert words[1] in EXERCISES, f"{page}:{line}: {words[1]}"
    for word in words[1:]:
        if re.match(r"(fixtures|exercises|reference|benchmarks|docs|tests)/", word):
            assert (ROOT / word).exists(), f"{page}:{line}: {word}"
    if words[:2] == ["pip", "install"] and "-c" in words:
        assert (ROOT / words[words.index("-c") + 1]).is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), f"{page.name}: {target}"
        if anchor and goal.suffix == ".md":
            titles = re.findall(r"^#+\s+(.*)$", goal.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
            assert anchor in slugs, f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.name)
def test_every_document_can_be_found(page: Path) -> None:
    others = [other.read_text(encoding="utf-8") for other in PAGES if other != page]
    assert any(re.search(rf"\]\((?:docs/)?{re.escape(page.name)}[)#]", text) for text in others)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_exercises_and_options(shell: str, command: Any) -> None:
    script = command("grade", _GRADE_COMPLETE=f"{shell}_source")
    assert script.code == 0 and "_GRADE_COMPLETE" in script.out
    words = "soft" if shell == "fish" else "grade soft"
    found = command(
        "grade", _GRADE_COMPLETE=f"{shell}_complete", COMP_WORDS=words, COMP_CWORD="soft" if shell == "fish" else "1"
    )
    assert "softmax" in found.out and "layer_norm" not in found.out
    options = command("grade", _GRADE_COMPLETE="bash_complete", COMP_WORDS="grade softmax --wa", COMP_CWORD="2")
    assert "--watch" in options.out


def test_the_picture_in_the_readme_is_whole_and_loads_nothing() -> None:
    picture = (ROOT / "docs" / "terminal.svg").read_text(encoding="utf-8")
    assert "docs/terminal.svg" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "likely&#160;cause" in picture and "url(http" not in picture and 'url("http' not in picture
