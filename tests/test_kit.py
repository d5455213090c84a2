"""A kit grades as the references do, says that it is one, and gives nothing away."""

from __future__ import annotations

import json
import re
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import leaks
import pytest
from conftest import ROOT, Command

from grader import kit

EXERCISES = ("softmax", "decoder_lm_loss", "greedy_decode", "sgd_train_step", "kv_cache_step")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kit of exercises of every kind, made once by the real command."""
    import subprocess

    from conftest import BIN

    out = tmp_path_factory.mktemp("packed") / "kit"
    chosen = [word for name in EXERCISES for word in ("--exercise", name)]
    subprocess.run(
        [BIN / "grader", "pack", "--out", out, "--seeds", "1", *chosen], check=True, cwd=ROOT, capture_output=True
    )
    return out


@pytest.fixture
def here(packed: Path, tmp_path: Path) -> Path:
    """A copy of the kit that a test may damage."""
    shutil.copytree(packed, tmp_path / "kit")
    return tmp_path / "kit"


def seed_of(folder: Path, name: str) -> int:
    return kit.read(next(folder.glob(f"recorded/*/{name}.bin"))).seeds[0]


def told(report: dict[str, Any]) -> dict[str, Any]:
    """What has to be the same with and without a reference."""
    checks = [(check["id"], check["verdict"], check["cause"], check["points"]) for check in report["checks"]]
    return {"passed": report["passed"], "score": report["score"], "checks": checks}


def fixtures_of(name: str, count: int) -> list[Path]:
    right, wrong = (sorted((ROOT / "fixtures" / name / kind).glob("*.py")) for kind in ("right", "wrong"))
    return right[:2] + wrong[:: max(1, len(wrong) // count)][:count]


@pytest.mark.parametrize("name", EXERCISES)
def test_fixtures_are_judged_as_with_the_reference(name: str, packed: Path, command: Command) -> None:
    seed = str(seed_of(packed, name))
    for file in fixtures_of(name, 3):
        mine = command("grade", name, file, "--seed", seed, "--json", "-", cwd=packed).report()
        theirs = command("grade", name, file, "--seed", seed, "--json", "-", cwd=ROOT).report()
        assert told(mine) == told(theirs), file.name
        named = {found["misconception"] for found in theirs["diagnoses"]}
        if len(named) == 1:
            assert {found["misconception"] for found in mine["diagnoses"]} == named, file.name
        assert mine["note"] == "recorded cases; your instructor grades with fresh ones"
        assert "note" not in theirs


def test_a_students_day_in_a_kit(here: Path, command: Command) -> None:
    assert "softmax" in command("grade", cwd=here).out
    assert command("grade", "softmax", "--start", cwd=here).code == 0
    assert command("grade", "softmax", "--show", cwd=here).code == 0
    shutil.copyfile(sorted((ROOT / "fixtures/softmax/wrong").glob("*.py"))[0], here / "softmax.py")
    done = command("grade", "softmax", cwd=here)
    assert done.code == 1 and "recorded cases; your instructor grades with fresh ones" in done.out
    rerun = re.search(r"rerun: grade softmax --case (\S+)", done.out)
    assert rerun is not None
    again = command("grade", "softmax", "--case", rerun[1], cwd=here)
    assert again.code == 1 and "not passed" in again.out
    shutil.copyfile(sorted((ROOT / "fixtures/softmax/right").glob("*.py"))[0], here / "softmax.py")
    assert command("grade", "softmax", cwd=here).code == 0
    assert command("grade", "--all", cwd=here).code == 0
    other = command("grade", "softmax", "--seed", "1", cwd=here)
    assert other.code == 2 and "not among the recorded ones" in other.err
    more = command("grade", "softmax", "--cases", "400", cwd=here)
    assert more.code == 2 and "this kit holds" in more.err


def broken(folder: Path, name: str) -> Path:
    return next(folder.glob(f"recorded/*/{name}.bin"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: broken(folder, "softmax").write_bytes(b"no record"),
        lambda folder: broken(folder, "softmax").write_bytes(broken(folder, "softmax").read_bytes()[:-40]),
        lambda folder: broken(folder, "softmax").write_bytes(zlib.compress(b"\0" * 8 + b"{}")),
        lambda folder: (folder / "kit.json").unlink(),
        lambda folder: (folder / "kit.json").write_text("{"),
        lambda folder: append(folder / "exercises/attention/softmax/exercise.yaml", "# changed\n"),
    ],
)
def test_a_damaged_kit_is_refused(damage: Callable[[Path], object], here: Path, command: Command) -> None:
    damage(here)
    done = command("grade", "softmax", sorted((ROOT / "fixtures/softmax/right").glob("*.py"))[0], cwd=here)
    assert done.code == 2 and "damaged" in done.err and "get the kit again" in done.err
    assert "Traceback" not in done.err + done.out


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_kit_of_another_version_is_refused(here: Path, command: Command) -> None:
    data = json.loads((here / "kit.json").read_text())
    data["version"] = 99
    (here / "kit.json").write_text(json.dumps(data))
    done = command("grade", "softmax", sorted((ROOT / "fixtures/softmax/right").glob("*.py"))[0], cwd=here)
    assert done.code == 2 and "version 99" in done.err


def test_no_line_of_a_reference_is_in_a_kit(packed: Path) -> None:
    """Every file is searched as bytes, records unpacked as well."""
    searched, leaked = leaks.search(packed, EXERCISES)
    assert searched > 150 and not leaked
    assert not list(packed.rglob("solution.py")) and not list(packed.rglob("misconceptions.yaml"))


def test_the_search_for_leaks_finds_one(here: Path) -> None:
    line = "    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))"
    assert line in next(ROOT.glob("reference/*/decoder_lm_loss/solution.py")).read_text()
    record = broken(here, "softmax")
    record.write_bytes(zlib.compress(zlib.decompress(record.read_bytes()) + line.encode()))
    assert leaks.search(here, EXERCISES)[1] == [f"decoder_lm_loss: {line.strip()}"]


def test_a_kit_is_not_written_over_anything(here: Path, command: Command) -> None:
    done = command("grader", "pack", "--out", here, "--exercise", "softmax", cwd=ROOT)
    assert done.code == 2 and "is not empty" in done.err
    done = command("grader", "pack", "--out", here / "new", "--exercise", "softmax", cwd=here)
    assert done.code == 2 and "has no reference here" in done.err
