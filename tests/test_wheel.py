"""A wheel of the project carries exercises and references, and works outside the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from conftest import ROOT


def test_a_wheel_works_outside_the_checkout(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("tensorgrade-*.whl")
    installed, folder = tmp_path / "installed", tmp_path / "elsewhere"
    folder.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(installed)
    assert not [name for name in names if name.startswith(("fixtures/", "tests/", "grader/library/fixtures"))]
    exercises = {Path(name).parent.name for name in names if name.endswith("exercise.yaml")}
    assert exercises == {path.parent.name for path in ROOT.glob("exercises/*/*/exercise.yaml")}
    code = f"import sys; sys.path.insert(0, {str(installed)!r}); from grader.cli.grade import main; main()"
    environment = {**os.environ, "TENSORGRADE_STATE": str(tmp_path / "state.json")}

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-c", code, *map(str, arguments)]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    assert run("softmax", "--start").returncode == 0
    stub = run("softmax", "--json", "-")
    assert stub.returncode == 1, stub.stderr
    right = run("softmax", ROOT / "fixtures" / "softmax" / "right" / "differences.py", "--json", "-")
    assert json.loads(right.stdout)["passed"]
    spy = folder / "softmax.py"
    spy.write_text(
        "import numpy as np\n"
        "def softmax(x, axis):\n"
        f"    exec(open({str(installed / 'grader/library/reference/attention/softmax/solution.py')!r}).read(), globals())\n"
        "    return globals()['softmax'](x, axis)\n"
    )
    report = json.loads(run("softmax", "--json", "-").stdout)
    assert report["checks"][0]["cause"] == "forbidden_operation"


def test_a_wheel_for_a_class_carries_no_reference(tmp_path: Path) -> None:
    """As docs/kits.md says: from a copy whose references and fixtures are emptied."""
    copy = tmp_path / "copy"
    for name in ("grader", "exercises"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("reference", "fixtures"):
        (copy / name).mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "constraints.txt"):
        shutil.copyfile(ROOT / name, copy / name)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path, copy],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("tensorgrade-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith("exercise.yaml")]
    assert not [
        name for name in names if name.endswith(("solution.py", "misconceptions.yaml")) or "/reference/" in name
    ]
