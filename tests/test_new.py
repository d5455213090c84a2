"""``grader new``: what it writes works at once, and it never writes over anything."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, Command

from grader import fixtures
from grader.authoring import scaffold
from grader.errors import UsageError
from grader.grade import Options, grade
from grader.sandbox.runner import Runner
from grader.spec import editor, load, remarks
from grader.spec.exercise import Exercise
from grader.spec.library import Library, find_library
from grader.submission import read_submission

FRAMEWORKS = ("torch", "numpy", "python")


def made(framework: str, root: Path) -> tuple[Library, Exercise]:
    """A freshly scaffolded exercise, loaded."""
    scaffold.write(scaffold.plan("brand_new", framework, "first", root))
    library = find_library(root / "exercises")
    return library, load.load(library, "brand_new")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_new_exercise_works_at_once(framework: str, tmp_path: Path, warm: Callable[[str], Runner]) -> None:
    library, exercise = made(framework, tmp_path)
    assert exercise.spec.framework == framework
    assert remarks.remarks(exercise) == []
    assert exercise.solution is not None
    for seed in (1, 2, 3):
        report = grade(exercise, read_submission(exercise.solution), warm(framework), Options(seed=seed))
        assert report.passed, report
        assert {check.verdict for check in report.checks} == {"pass"}
    report = grade(exercise, read_submission(exercise.stub), warm(framework), Options(seed=1))
    assert not report.passed and report.score == 0
    assert library.fixtures is not None
    found = fixtures.of(library.fixtures / "brand_new")
    assert [fixture.right for fixture in found] == [True, False]
    for fixture in found:
        report = grade(exercise, read_submission(fixture.path), warm(framework), Options(seed=4))
        assert fixtures.complaint(fixture, report) is None
    assert exercise.misconceptions is not None
    assert len(load.read_misconceptions(exercise.misconceptions).misconceptions) == 2


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_its_texts_agree_with_each_other(framework: str, tmp_path: Path) -> None:
    _, exercise = made(framework, tmp_path)
    statement = exercise.statement.read_text()
    for name in exercise.parameters:
        assert f"`{name}`" in statement
    for path in tmp_path.rglob("*"):
        if path.is_file():
            text = path.read_text()
            assert "@" not in text and "\n\n\n\n" not in text, path
            assert text.endswith("\n") and not text.endswith("\n\n"), path
            assert max(map(len, text.splitlines())) <= 125, path


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_it_lints(framework: str, tmp_path: Path, command: Command) -> None:
    assert command("grader", "new", "brand_new", "--framework", framework).code == 0
    ran = command("grader", "lint", "brand_new", "--quick", "--jobs", "1")
    assert ran.code == 0 and "brand_new: sound" in ran.out, ran.out + ran.err


def test_what_is_printed(tmp_path: Path, command: Command) -> None:
    ran = command("grader", "new", "first_try", "--framework", "numpy")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "wrote exercises/drafts/track.yaml",
        "wrote exercises/drafts/first_try/exercise.yaml",
        "wrote exercises/drafts/first_try/README.md",
        "wrote exercises/drafts/first_try/first_try.py",
        "wrote reference/drafts/first_try/solution.py",
        "wrote reference/drafts/first_try/misconceptions.yaml",
        "wrote fixtures/first_try/right/row_by_row.py",
        "wrote fixtures/first_try/wrong/not_divided.py",
        "",
        "It works as it is:",
        "  grade first_try reference/drafts/first_try/solution.py    # the reference passes",
        "  grade first_try    # the stub does not, yet",
        "Change its files into your exercise, and prove that it is sound:",
        "  grader lint first_try",
    ]
    for line in ran.out.splitlines():
        if line.startswith("wrote "):
            assert (tmp_path / line.removeprefix("wrote ")).is_file()
    assert command("grade", "first_try", "reference/drafts/first_try/solution.py").code == 0
    assert command("grade", "first_try").code == 1


def test_it_finds_its_place(tmp_path: Path, command: Command) -> None:
    """In the only track there is; below the folder that holds `exercises/`, wherever in it the command is run."""
    assert command("grader", "new", "one", "--track", "my-track").code == 0
    inside = tmp_path / "exercises" / "my-track" / "one"
    ran = command("grader", "new", "two", cwd=inside)
    assert ran.code == 0 and (tmp_path / "exercises" / "my-track" / "two" / "exercise.yaml").is_file()
    assert "gives the order of the track; add `two`" in ran.out
    assert command("grader", "new", "three", "--track", "other").code == 0
    assert command("grader", "new", "four").code == 0
    assert (tmp_path / "exercises" / "drafts" / "four").is_dir(), "two tracks: none of them is meant"
    elsewhere = command("grader", "new", "five", "--dir", "sub/folder")
    assert elsewhere.code == 0 and (tmp_path / "sub/folder/exercises/drafts/five/exercise.yaml").is_file()
    assert "grade five sub/folder/reference/drafts/five/solution.py --exercises sub/folder/exercises" in elsewhere.out


def test_it_never_overwrites(tmp_path: Path, command: Command) -> None:
    assert command("grader", "new", "mine", "--framework", "python").code == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    ran = command("grader", "new", "mine", "--framework", "torch")
    assert ran.code == 2 and "`mine` is there already" in ran.err
    ran = command("grader", "new", "mine", "--track", "another")
    assert ran.code == 2 and "there is an exercise `mine` already: exercises/drafts/mine" in ran.err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_one_file_in_the_way_is_enough_and_nothing_is_written(tmp_path: Path, command: Command) -> None:
    there = tmp_path / "reference" / "drafts" / "mine" / "solution.py"
    there.parent.mkdir(parents=True)
    there.write_text("precious")
    ran = command("grader", "new", "mine")
    assert ran.code == 2 and "reference/drafts/mine/solution.py" in ran.err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [there]
    assert there.read_text() == "precious"


def test_a_name_is_used_once_in_all_tracks(tmp_path: Path) -> None:
    scaffold.write(scaffold.plan("mine", "numpy", "one", tmp_path))
    for path in (tmp_path / "fixtures").rglob("*.py"):
        path.unlink()
    with pytest.raises(UsageError, match="there is an exercise `mine` already"):
        scaffold.plan("mine", "numpy", "two", tmp_path)


@pytest.mark.parametrize(
    ("name", "says", "next_step"),
    [
        ("MyExercise", "cannot name an exercise", "grader new my_exercise"),
        ("cosine-similarity", "cannot name an exercise", "grader new cosine_similarity"),
        ("2d_rope", "cannot name an exercise", "a letter first"),
        ("../outside", "cannot name an exercise", "grader new outside"),
        ("", "cannot name an exercise", "a letter first"),
        ("lambda", "word of Python", "grader new lambda_exercise"),
        ("match", "word of Python", "grader new match_exercise"),
        ("random", "would hide Python's own module", "grader new random_exercise"),
        ("torch", "would hide Python's own module", "grader new torch_exercise"),
    ],
)
def test_names_that_cannot_be_used(name: str, says: str, next_step: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        scaffold.plan(name, "torch", None, tmp_path)
    assert next_step in caught.value.next_step
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("track", ["../outside", "a/b", "Ab c", "-x"])
def test_tracks_that_cannot_be_used(track: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot name a track"):
        scaffold.plan("fine", "torch", track, tmp_path)


def test_names_near_to_others_are_remarked_on(tmp_path: Path) -> None:
    scaffold.write(scaffold.plan("cosine_similarity", "numpy", "one", tmp_path))
    assert any(
        "`cosine_similarity`" in note for note in scaffold.plan("cosine_similarty", "numpy", None, tmp_path).notes
    )
    assert any("`softmax`" in note for note in scaffold.plan("softmaxx", "numpy", "one", tmp_path).notes)
    assert any(
        "comes with an exercise `softmax`" in note for note in scaffold.plan("softmax", "numpy", "one", tmp_path).notes
    )
    assert scaffold.plan("unheard_of", "numpy", "two", tmp_path).notes == ()


def test_a_folder_that_cannot_be_written_is_no_traceback(tmp_path: Path, command: Command) -> None:
    (tmp_path / "exercises").write_text("a file where a folder must be")
    ran = command("grader", "new", "mine")
    assert ran.code in (2, 3) and "cannot be written" in ran.err and "Traceback" not in ran.err


def test_editors_find_the_schema_in_the_same_project(tmp_path: Path) -> None:
    folder = ROOT / "exercises" / "attention" / "nothing"
    line = scaffold.modeline(folder)
    path = line.removeprefix("# yaml-language-server: $schema=")
    assert (folder / path).resolve() == editor.PATH
    assert "--where" in scaffold.modeline(tmp_path / "exercises" / "t" / "e")


def signature(source: str, function: str) -> list[tuple[str, bool]]:
    """The parameters of a function in a source text, each with whether it has a default."""
    node = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == function)
    names = [argument.arg for argument in node.args.args]
    optional = len(node.args.defaults)
    return [(name, index >= len(names) - optional) for index, name in enumerate(names)]


def test_stubs_have_the_signature_of_the_exercise_file(library: Library) -> None:
    """For every exercise of the catalogue: the stub that its file alone gives, and the one that was written by hand."""
    for name, folder in load.folders(library).items():
        exercise = load.read_exercise(folder, library.reference)
        text = scaffold.stub(exercise)
        compile(text, name, "exec")
        wanted = [(key, entry.optional) for key, entry in exercise.spec.inputs.items()]
        assert signature(text, exercise.function) == wanted
        assert signature(exercise.stub.read_text(), exercise.function) == wanted
        assert "raise NotImplementedError" in text


def test_types_of_a_stub(tmp_path: Path) -> None:
    folder = tmp_path / "t" / "all_kinds"
    folder.mkdir(parents=True)
    (folder / "exercise.yaml").write_text("""schema: 1
title: t
summary: Everything at once.
framework: torch
dims: {N: 2..3, d: 4..5}
inputs:
  x: {shape: [N, d], about: rows}
  n: {value: N}
  p: {range: 0..1}
  flag: {choices: [true, false]}
  mode: {choices: [sum, mean]}
  grads: {kind: list, items: [{shape: [N]}, null]}
  ids: {kind: list, count: N, of: {choices: [1, 2]}}
  params: {kind: dict, items: {w: {shape: [d, d]}}}
  step: {kind: function, parameters: [a], returns: a, type: "Callable[[int], torch.Tensor]"}
  keep: {kind: booleans, shape: [N], default: null}
  eps: {value: 1e-5, default: 1e-5}
output: {kind: tuple, items: {y: {axes: [row]}, loss: {kind: scalar}}}
checks: [{kind: values}]
""")
    text = scaffold.stub(load.read_exercise(folder, None))
    assert (
        text
        == '''from collections.abc import Callable

import torch


def all_kinds(
    x: torch.Tensor,
    n: int,
    p: float,
    flag: bool,
    mode: str,
    grads: list[torch.Tensor | None],
    ids: list[int],
    params: dict[str, torch.Tensor],
    step: Callable[[int], torch.Tensor],
    keep: torch.Tensor | None = None,
    eps: float = 1e-05,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Everything at once.

    x: (N, d), rows
    keep: (N,)
    """
    raise NotImplementedError("write all_kinds, then run: grade all_kinds")
'''
    )
