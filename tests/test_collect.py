"""Submissions are found in the layouts in which people have them, and what is not taken is named."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from grader.batch.collect import Collection, collect, exercise_named
from grader.errors import UsageError

NAMES = ["softmax", "layer_norm", "multi_head_attention"]


def write(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n", encoding="utf-8")
    return root


def gathered(source: Path, tmp_path: Path, only: tuple[str, ...] = (), **more: object) -> Collection:
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    return collect(source, NAMES, only, scratch, **more)  # type: ignore[arg-type]


def pairs(found: Collection) -> set[tuple[str, str, str]]:
    return {(each.person.key, each.exercise, each.shown) for each in found.handed}


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("softmax.py", ("softmax", 0)),
        ("Softmax.PY", ("softmax", 0)),
        ("softmax-1.py", ("softmax", 1)),
        ("softmax_2.py", ("softmax", 2)),
        ("softmax (3).py", ("softmax", 3)),
        ("softmax - copy.py", (None, 0)),
        ("softmax copy.ipynb", ("softmax", 1)),
        ("layer-norm.py", ("layer_norm", 0)),
        ("multi head attention.py", ("multi_head_attention", 0)),
        ("softmax.txt", (None, 0)),
        ("softmaxx.py", (None, 0)),
        ("test_softmax.py", (None, 0)),
    ],
)
def test_files_are_named_by_exercise(file: str, expected: tuple[str | None, int]) -> None:
    assert exercise_named(file, NAMES) == expected


def test_a_folder_per_student(tmp_path: Path) -> None:
    root = write(
        tmp_path / "in", "alice/softmax.py", "alice/hw/layer_norm.py", "bob/softmax.ipynb", "bob/notes.txt", "stray.py"
    )
    found = gathered(root, tmp_path)
    assert found.layout == "students"
    assert pairs(found) == {
        ("alice", "softmax", "alice/softmax.py"),
        ("alice", "layer_norm", "alice/hw/layer_norm.py"),
        ("bob", "softmax", "bob/softmax.ipynb"),
    }
    assert {one.name for one in found.left} == {"bob/notes.txt", "stray.py"}


def test_a_folder_per_exercise(tmp_path: Path) -> None:
    root = write(
        tmp_path / "in", "softmax/alice.py", "softmax/bob.py", "layer_norm/alice.py", "softmaxx/bob.py", "softmax/x.pdf"
    )
    found = gathered(root, tmp_path)
    assert found.layout == "exercises"
    assert pairs(found) == {
        ("alice", "softmax", "softmax/alice.py"),
        ("bob", "softmax", "softmax/bob.py"),
        ("alice", "layer_norm", "layer_norm/alice.py"),
    }
    assert {one.name for one in found.left} == {"softmaxx", "softmax/x.pdf"}


def test_a_canvas_download_takes_the_latest_attachment(tmp_path: Path) -> None:
    root = write(
        tmp_path / "in",
        "doejane_4711_90001_softmax.py",
        "doejane_4711_90007_softmax-1.py",
        "roemax_LATE_4712_90002_layer_norm.py",
        "readme.md",
    )
    found = gathered(root, tmp_path)
    assert found.layout == "canvas"
    assert pairs(found) == {
        ("doejane_4711", "softmax", "doejane_4711_90007_softmax-1.py"),
        ("roemax_4712", "layer_norm", "roemax_LATE_4712_90002_layer_norm.py"),
    }
    assert {each.person.ids["canvas"] for each in found.handed} == {"4711", "4712"}
    assert {one.name: one.why for one in found.left} == {
        "doejane_4711_90001_softmax.py": "doejane_4711_90007_softmax-1.py counts for softmax",
        "readme.md": "its name is none that Canvas gives",
    }


def test_a_moodle_download_in_both_forms(tmp_path: Path) -> None:
    root = write(
        tmp_path / "in",
        "Jane Doe_4711_assignsubmission_file_/softmax.py",
        "Max Roe_4712_assignsubmission_file_layer_norm.py",
    )
    found = gathered(root, tmp_path)
    assert found.layout == "moodle"
    assert {(e.person.name, e.person.ids["moodle"], e.exercise) for e in found.handed} == {
        ("Jane Doe", "4711", "softmax"),
        ("Max Roe", "4712", "layer_norm"),
    }


def test_a_gradescope_export_with_a_group(tmp_path: Path) -> None:
    root = write(
        tmp_path / "in" / "assignment_1_export",
        "submission_7/softmax.py",
        "submission_8/softmax.py",
        "submission_9/softmax.py",
    )
    (root / "submission_metadata.yml").write_text(
        "submission_7:\n  :submitters:\n  - :name: Jane Doe\n    :sid: '11'\n    :email: jane@example.org\n"
        "  - :name: Max Roe\n    :email: max@example.org\n  :created_at: 2026-01-02 03:04:05.000000000 Z\n"
        "submission_8:\n  :submitters:\n  - :name: Ann Poe\n    :sid: '13'\n"
        "  :results: !ruby/hash:ActiveSupport::HashWithIndifferentAccess\n    score: 1\n"
    )
    found = gathered(tmp_path / "in", tmp_path)
    assert found.layout == "gradescope"
    assert {(e.person.key, e.person.name, e.shown) for e in found.handed} == {
        ("11", "Jane Doe", "submission_7/softmax.py"),
        ("max@example.org", "Max Roe", "submission_7/softmax.py"),
        ("13", "Ann Poe", "submission_8/softmax.py"),
    }
    assert {one.name for one in found.left} == {"submission_9"}


@pytest.mark.parametrize("suffix", [".csv", ".yaml"])
def test_a_manifest(tmp_path: Path, suffix: str) -> None:
    root = write(tmp_path / "in", "a.py", "deep/b.py")
    manifest = root / f"class{suffix}"
    if suffix == ".csv":
        manifest.write_text(
            'student,exercise,path,name,canvas\nalice,softmax,a.py,"Doe, Alice",4711\nbob,layer_norm,deep/b.py,,\n'
        )
    else:
        manifest.write_text(
            "- {student: alice, exercise: softmax, path: a.py, name: 'Doe, Alice', canvas: 4711}\n"
            "- {student: bob, exercise: layer_norm, path: deep/b.py}\n"
        )
    found = gathered(Path(), tmp_path, manifest=manifest)
    assert pairs(found) == {("alice", "softmax", "a.py"), ("bob", "layer_norm", "deep/b.py")}
    first = next(each.person for each in found.handed if each.person.key == "alice")
    assert first.name == "Doe, Alice" and first.ids == {"canvas": "4711"}
    assert all(each.path.is_file() for each in found.handed)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("student,exercise,path\nalice,softmaxx,a.py\n", "class.csv:2: there is no exercise `softmaxx`"),
        ("student,exercise\nalice,softmax\n", "class.csv:2: `path` is missing"),
        ("student,exercise,path,grade\nalice,softmax,a.py,1\n", "class.csv:2: `grade` is no column"),
        ("student,exercise,path\nalice,softmax,a.py,1\n", "class.csv:2: more fields"),
        ('student,exercise,path\nalice,softmax,"a.py\n', "it is no CSV"),
    ],
)
def test_a_wrong_manifest_says_where(tmp_path: Path, text: str, said: str) -> None:
    manifest = tmp_path / "class.csv"
    manifest.write_text(text)
    with pytest.raises(UsageError) as caught:
        gathered(Path(), tmp_path, manifest=manifest)
    assert said in str(caught.value)


def test_archives_of_the_class_and_of_a_student(tmp_path: Path) -> None:
    inner = tmp_path / "bob.zip"
    with zipfile.ZipFile(inner, "w") as out:
        out.writestr("hw/softmax.py", "# bob\n")
        out.writestr("../../escape.py", "# no\n")
    outer = tmp_path / "class.zip"
    with zipfile.ZipFile(outer, "w") as out:
        out.writestr("download/alice/softmax.py", "# alice\n")
        out.write(inner, "download/bob/work.zip")
        out.write(inner, "download/carol.zip")
        out.writestr("download/dan/broken.zip", b"no archive")
    found = gathered(outer, tmp_path)
    assert {(each.person.key, each.exercise) for each in found.handed} == {
        (who, "softmax") for who in ("alice", "bob", "carol")
    }
    assert {one.name for one in found.left} == {
        "bob/work.zip/../../escape.py",
        "carol.zip/../../escape.py",
        "dan/broken.zip",
    }
    assert not list(tmp_path.glob("escape.py"))


def test_of_several_files_the_shallowest_and_latest_counts(tmp_path: Path) -> None:
    root = write(tmp_path / "in", "alice/old/softmax.py", "alice/softmax.py", "alice/softmax (1).py", "bob/softmax.py")
    found = gathered(root, tmp_path)
    assert ("alice", "softmax", "alice/softmax (1).py") in pairs(found)
    why = "alice/softmax (1).py counts for softmax"
    assert {one.name: one.why for one in found.left} == {"alice/old/softmax.py": why, "alice/softmax.py": why}


def test_one_file_of_another_name_is_taken_when_one_exercise_is_asked_for(tmp_path: Path) -> None:
    root = write(tmp_path / "in", "alice/main.py", "bob/a.py", "bob/b.py", "carol/softmax.py", "carol/other.py")
    found = gathered(root, tmp_path, ("softmax",))
    assert pairs(found) == {("alice", "softmax", "alice/main.py"), ("carol", "softmax", "carol/softmax.py")}
    assert {one.name for one in found.left} == {"bob/a.py", "bob/b.py", "carol/other.py"}


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret = write(tmp_path / "secret", "softmax.py")
    root = write(tmp_path / "in", "alice/layer_norm.py", "bob/softmax.py")
    os.symlink(secret / "softmax.py", root / "alice" / "softmax.py")
    os.symlink(secret, root / "eve")
    found = gathered(root, tmp_path)
    assert pairs(found) == {("alice", "layer_norm", "alice/layer_norm.py"), ("bob", "softmax", "bob/softmax.py")}
    assert {one.name for one in found.left} == {"alice/softmax.py", "eve"}


def test_names_cannot_move_a_cursor(tmp_path: Path) -> None:
    root = write(tmp_path / "in", "\x1b[31malice\x1b[2J/softmax.py", "bob/softmax.py", "bob/\x1b]0;x\x07.py")
    found = gathered(root, tmp_path)
    texts = [each.shown + each.person.key for each in found.handed] + [one.name for one in found.left]
    assert not any("\x1b" in text or "\x07" in text for text in texts)


def test_nothing_found_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no submission was found"):
        gathered(write(tmp_path / "in", "alice/essay.pdf"), tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        gathered(tmp_path / "nowhere", tmp_path)
