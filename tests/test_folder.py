"""``grade --all`` and ``grade --format`` through the real command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

from conftest import ROOT, Command

FIXTURES = ROOT / "fixtures"


def put(folder: Path, name: str, kind: str) -> None:
    folder.mkdir(exist_ok=True)
    files = [f for f in sorted((FIXTURES / name / kind).glob("*.py")) if "# fails: precision" not in f.read_text()]
    shutil.copyfile(files[0], folder / f"{name}.py")


def test_a_folder_of_exercises(command: Command, tmp_path: Path) -> None:
    here = tmp_path / "mine"
    put(here, "softmax", "right")
    put(here, "layer_norm", "wrong")
    shutil.copyfile(ROOT / "exercises/attention/causal_mask/causal_mask.py", here / "causal_mask.py")
    (here / "notes.py").write_text("x = 1\n")
    done = command("grade", "--all", cwd=here)
    assert done.code == 1
    lines = done.out.splitlines()
    assert any(line.startswith("✓ softmax") for line in lines)
    assert any(line.startswith("✗ layer_norm") for line in lines)
    assert "– not begun: causal_mask" in lines and "1 of 2 passed" in lines
    told = command("grade", "--all", "mine", "--json", "-", "--seed", "4")
    body = json.loads(told.out)
    assert told.code == 1 and body["passed"] is False
    assert [report["exercise"] for report in body["reports"]] == ["softmax", "layer_norm"]
    assert body["score"] == sum(report["score"] for report in body["reports"])
    (here / "layer_norm.py").unlink()
    assert command("grade", "--all", "mine").code == 0


def test_a_fault_of_one_exercise_is_no_zero_and_stops_no_other(command: Command, tmp_path: Path) -> None:
    for name in ("softmax", "attention_scores"):
        for part in ("exercises", "reference"):
            shutil.copytree(ROOT / part / "attention" / name, tmp_path / part / "attention" / name)
        put(tmp_path / "mine", name, "right")
    shutil.copyfile(ROOT / "exercises/attention/track.yaml", tmp_path / "exercises/attention/track.yaml")
    (tmp_path / "reference/attention/softmax/solution.py").write_text("raise RuntimeError('broken')\n")
    done = command("grade", "--all", "mine", "--json", "out.json")
    assert done.code == 3
    body = json.loads((tmp_path / "out.json").read_text())
    assert {r["exercise"]: r["status"] for r in body["reports"]} == {
        "softmax": "not_graded",
        "attention_scores": "graded",
    }
    assert body["score"] is None and body["passed"] is False


def test_nothing_to_grade_is_wrong_usage(command: Command, tmp_path: Path) -> None:
    done = command("grade", "--all")
    assert done.code == 2 and "no file here is named after an exercise" in done.err
    assert command("grade", "--all", "nowhere").code == 2
    put(tmp_path, "softmax", "right")
    assert command("grade", "--all", "--case", "1:random-0").code == 2


def test_formats_of_one_grading(command: Command, tmp_path: Path) -> None:
    put(tmp_path, "softmax", "wrong")
    done = command("grade", "softmax", "--format", "junit", "--seed", "1")
    assert done.code == 1
    suite = ElementTree.fromstring(done.out)
    assert suite.iter("failure") is not None and list(suite.iter("failure"))
    both = command("grade", "softmax", "--format", "gradescope", "--output", "results.json", "--json", "report.json")
    assert both.code == 1 and "softmax" in both.out
    results = json.loads((tmp_path / "results.json").read_text())
    report = json.loads((tmp_path / "report.json").read_text())
    assert results["score"] == report["score"]
    assert command("grade", "softmax", "--format", "junk").code == 2
    assert command("grade", "softmax", "--output", "x").code == 2
    assert command("grade", "softmax", "--format", "junit", "--json", "-").code == 2
    full = command("grade", "softmax", "--format", "junit", "--output", "nowhere/results.xml")
    assert full.code == 3 and "cannot be written" in full.err
