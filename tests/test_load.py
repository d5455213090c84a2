"""Wrong exercise files, through the real command: what is printed for each is a golden file beside it.

``python tests/test_load.py`` prints them all anew into ``tests/broken/*.txt``; read the diff before you commit it.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from conftest import ROOT, Command

from grader.cli import grade as grade_command
from grader.errors import AuthorError, UsageError
from grader.spec import load, meaning_checks, remarks
from grader.spec.library import Library

BROKEN = ROOT / "tests" / "broken"
NAMES = sorted(path.stem for path in BROKEN.glob("*.yaml"))
# All are printed by the command's own entry point; these also by a process of their own, as a user starts it.
IN_A_PROCESS = [name for name in NAMES if name.startswith("five_")] + ["tab", "alias_bomb", "latin_1"]


def lay_out(name: str, folder: Path) -> None:
    """A library with one broken exercise in it."""
    target = folder / "exercises" / "broken" / name
    target.mkdir(parents=True)
    shutil.copyfile(BROKEN / f"{name}.yaml", target / "exercise.yaml")


def arguments(name: str) -> list[str]:
    # --show reads the exercise as every use of it does, and spares the start of a worker.
    return ["grade", name, "--show", "--exercises", "exercises"]


def transcript(name: str, out: str, err: str, code: object) -> str:
    return f"$ {' '.join(arguments(name))}\n{out}{err}exit code {code}\n"


def printed(name: str, folder: Path) -> str:
    """What the command prints of one broken file, run from its entry point."""
    lay_out(name, folder)
    out, err = io.StringIO(), io.StringIO()
    here = Path.cwd()
    os.chdir(folder)
    try:
        with (
            mock.patch.object(sys, "argv", arguments(name)),
            mock.patch.dict(os.environ, {"TENSORGRADE_STATE": str(folder / "state.json")}),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as ended,
        ):
            grade_command.main()
    finally:
        os.chdir(here)
    return transcript(name, out.getvalue(), err.getvalue(), ended.value.code)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_printed(name: str, tmp_path: Path) -> None:
    assert printed(name, tmp_path) == (BROKEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", IN_A_PROCESS)
def test_a_process_prints_the_same(name: str, tmp_path: Path, command: Command) -> None:
    lay_out(name, tmp_path)
    ran = command(*arguments(name))
    assert transcript(name, ran.out, ran.err, ran.code) == (BROKEN / f"{name}.txt").read_text(encoding="utf-8")


def test_grading_with_a_broken_exercise_is_no_failure_of_the_student(tmp_path: Path, command: Command) -> None:
    lay_out("five_names", tmp_path)
    (tmp_path / "mine.py").write_text("def five_names(x, weights):\n    return x\n")
    ran = command("grade", "five_names", "mine.py", "--exercises", "exercises", "--json", "report.json")
    assert ran.code == 2
    assert "not your submission" in ran.err and "Traceback" not in ran.err
    assert not (tmp_path / "report.json").exists()


def test_there_are_at_least_thirty_and_some_with_five() -> None:
    assert len(NAMES) >= 30
    assert sum(name.startswith("five_") for name in NAMES) >= 3


def test_every_file_with_five_mistakes_gets_five_complaints() -> None:
    for name in NAMES:
        if name.startswith("five_"):
            assert (BROKEN / f"{name}.txt").read_text().count("    expected: ") == 5, name


def test_no_golden_file_is_stale() -> None:
    assert sorted(path.stem for path in BROKEN.glob("*.txt")) == NAMES


def regenerate() -> None:
    for stale in BROKEN.glob("*.txt"):
        stale.unlink()
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            (BROKEN / f"{name}.txt").write_text(printed(name, Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    regenerate()
