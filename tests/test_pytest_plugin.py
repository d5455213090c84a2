"""The pytest plugin from outside, as a project's own tests would run it."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT, Command, Ran
from junitparser import Failure, JUnitXml, Skipped

from grader.questions import questions
from grader.spec import load
from grader.spec.library import find_library

# By its module, whether or not the entry point of the installed package would load it as well.
LOADED = ("-m", "pytest", "-p", "no:tensorgrade", "-p", "grader.pytest_plugin", "-p", "no:cacheprovider")
WRONG = ROOT / "fixtures" / "softmax" / "wrong" / "textbook.py"
RIGHT = ROOT / "fixtures" / "softmax" / "right" / "shifted_keepdims.py"
# With an equals sign: pytest takes a path that stands alone for one that says where the project is.
LIBRARY = f"--tensorgrade-exercises={ROOT / 'exercises'}"
EXERCISES = (LIBRARY, "--tensorgrade-seed=7")

# How many tests one submission to softmax comes to.
CHECKS = len(questions(load.load(find_library(start=ROOT), "softmax")))


@pytest.fixture
def run(command: Command, tmp_path: Path) -> Command:
    (tmp_path / "test_own.py").write_text("def test_own():\n    assert True\n")

    def run(*arguments: str | Path, **env: str) -> Ran:
        return command("python", *LOADED, *arguments, cwd=tmp_path, OMP_NUM_THREADS="1", **env)  # type: ignore[arg-type]

    return run


def outcomes(ran: Ran) -> dict[str, str]:
    """The outcome of each test by its id, from the lines that ``-rA`` prints."""
    found = re.findall(r"^(PASSED|FAILED|ERROR|XFAIL|SKIPPED) (\S+)", ran.out, re.MULTILINE)
    return {name.rpartition("::")[2]: outcome for outcome, name in found}


def test_without_being_asked_it_does_nothing(run: Command) -> None:
    ran = run("-rA", "-v")
    assert ran.code == 0 and "tensorgrade" not in ran.out.replace("test_without", "")
    assert outcomes(ran) == {"test_own": "PASSED"}


def test_loading_it_imports_nothing_of_the_grader() -> None:
    tree = ast.parse((ROOT / "grader" / "pytest_plugin.py").read_text(encoding="utf-8"))
    top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name if isinstance(node, ast.Import) else str(node.module) for node in top for alias in node.names}
    assert not [name for name in names if name.startswith("grader")]


def test_one_test_per_check_and_the_text_of_what_fails(run: Command, tmp_path: Path) -> None:
    (tmp_path / "softmax.py").write_bytes(WRONG.read_bytes())
    ran = run("--tensorgrade", "softmax=softmax.py", *EXERCISES, "-rA", "-v", "--junit-xml", "out.xml")
    assert ran.code == 1, ran.out + ran.err
    assert "tensorgrade: softmax=" in ran.out
    found = outcomes(ran)
    assert found["test_own"] == "PASSED" and found["values_float64"] == "PASSED"
    assert found["large_scores"] == found["rows_far_apart"] == "FAILED"
    assert "The result contains nan values." in ran.out and "rerun: grade softmax --case 7:large_scores" in ran.out
    # Nothing of the grader's own stands in between.
    assert "pytest_plugin.py" not in ran.out and "Traceback" not in ran.out
    cases = [case for suite in JUnitXml.fromfile(str(tmp_path / "out.xml")) for case in suite]
    failed = {case.name for case in cases if any(isinstance(each, Failure) for each in case.result)}
    assert {"large_scores", "rows_far_apart"} <= failed and len(cases) == 1 + CHECKS


def test_a_right_submission_passes_and_tests_can_be_chosen(run: Command) -> None:
    ran = run("--tensorgrade", f"softmax={RIGHT}", *EXERCISES, "-rA", "-k", "large_scores or test_own")
    assert ran.code == 0, ran.out + ran.err
    assert outcomes(ran) == {"test_own": "PASSED", "large_scores": "PASSED"}


def test_what_does_not_count_is_no_failure_and_what_was_not_run_is_skipped(run: Command, tmp_path: Path) -> None:
    (tmp_path / "wide.py").write_text(
        "import numpy as np\n\n\ndef softmax(x, axis):\n"
        "    y = np.exp((x - x.max(axis=axis, keepdims=True)).astype(np.float64))\n"
        "    return (y / y.sum(axis=axis, keepdims=True)).astype(x.dtype)\n"
    )
    (tmp_path / "unloadable.py").write_text("def softmax(x, axis)\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\ntensorgrade =\n    softmax=wide.py\n    softmax=unloadable.py\n")
    ran = run(*EXERCISES, "-rA", "--junit-xml", "out.xml")
    assert ran.code == 1
    lines = re.findall(r"^(PASSED|FAILED|XFAIL) (\S+)", ran.out, re.MULTILINE)
    wide = {name: outcome for outcome, name in lines if name.startswith("wide.py")}
    assert "FAILED" not in wide.values() and len(wide) == CHECKS
    other = [name for outcome, name in lines if name.startswith("unloadable.py")]
    assert len(other) == 1, "the first says why, and all others wait for it"
    cases = [case for suite in JUnitXml.fromfile(str(tmp_path / "out.xml")) for case in suite]
    skipped = [case for case in cases if any(isinstance(each, Skipped) for each in case.result)]
    assert len([case for case in skipped if "unloadable" in case.classname]) == CHECKS - 1


def test_an_advisory_check_that_fails_is_an_expected_failure(run: Command) -> None:
    fixture = ROOT / "fixtures" / "apply_rope" / "wrong" / "view_of_pairs.py"
    ran = run("--tensorgrade", f"apply_rope={fixture}", *EXERCISES, "-rA")
    assert ran.code == 0, ran.out + ran.err
    assert {name for name, outcome in outcomes(ran).items() if outcome == "XFAIL"} == {"strided"}


def test_what_cannot_be_graded_is_an_error_and_no_failure(run: Command, tmp_path: Path) -> None:
    (tmp_path / "unable.py").write_text(
        "import grader.session\n"
        "from grader.errors import GraderFault\n\n\n"
        "def wait_ready(self, *more):\n    raise GraderFault('no worker could be started')\n\n\n"
        "from grader.sandbox.runner import ForkRunner\n\nForkRunner.wait_ready = wait_ready\n"
    )
    ran = run("-p", "unable", "--tensorgrade", f"softmax={RIGHT}", *EXERCISES, "-rA", "-k", "values_float64")
    assert ran.code == 1, ran.out + ran.err
    assert outcomes(ran) == {"values_float64": "ERROR"}
    assert "softmax could not be graded: no worker could be started" in ran.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--tensorgrade", "softmax"), "EXERCISE=FILE"),
        (("--tensorgrade", "softmax=missing.py"), "no such file"),
        (("--tensorgrade", f"sofmax={RIGHT}"), "softmax"),
        (("--tensorgrade", f"softmax={RIGHT}", "--tensorgrade-exercises=nowhere"), "no such folder"),
    ],
)
def test_wrong_usage_is_said_and_no_traceback(run: Command, arguments: tuple[str, ...], says: str) -> None:
    ran = run(*arguments)
    assert ran.code == 4
    assert says in ran.out + ran.err and "Traceback" not in ran.out + ran.err


def test_several_processes_meet_the_same_cases(run: Command) -> None:
    arguments = ("--tensorgrade", f"softmax={WRONG}", LIBRARY)
    ran = run(*arguments, "-n", "2", "-rA")
    assert ran.code == 1, ran.out + ran.err
    seeds = set(re.findall(r"--case (\d+):", ran.out))
    assert len(seeds) == 1 and sum(outcome == "FAILED" for outcome in outcomes(ran).values()) >= 2


def test_the_package_offers_the_plugin_to_pytest() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"tensorgrade": "grader.pytest_plugin"}
