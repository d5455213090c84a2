"""The action and the scripts for Gradescope and PrairieLearn: that they parse, and what they write in a tree as there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from conftest import BIN, ROOT

FOLDER = ROOT / "integrations"
SCRIPTS = [*sorted(FOLDER.rglob("*.sh")), FOLDER / "gradescope" / "run_autograder"]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
RIGHT = ROOT / "fixtures" / "softmax" / "right" / "shifted_keepdims.py"
WRONG = ROOT / "fixtures" / "softmax" / "wrong" / "scores_over_sum.py"
HOSTILE = """\
import os
import sys

print("::error file=x.py::forged")
print("##[error]forged")
print("::set-output name=passed::true", file=sys.stderr)
for path in (%(targets)r):
    try:
        with open(path, "w") as file:
            file.write('{"score": 1000}')
    except OSError as error:
        print("refused", error)


def softmax(x, axis):
    sys.stdout.write("y" * 100_000)
    print("\\n::stop-commands::z")
    os._exit(0)
"""
# The real command, whose workers cannot be started.
UNABLE = """\
#!%(python)s
import sys
from grader.errors import GraderFault
from grader.sandbox.runner import ForkRunner
from grader.cli.grade import main


def wait_ready(self, *more):
    raise GraderFault("no worker could be started")


ForkRunner.wait_ready = wait_ready
main()
"""


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


def run(script: Path, *arguments: str, cwd: Path, **env: str | Path) -> Done:
    """A script as its system runs it, with a clean environment but for what is given."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(cwd),
        "OMP_NUM_THREADS": "1",
        "TENSORGRADE_STATE": str(cwd / "state.json"),
        **{key: str(value) for key, value in env.items()},
    }
    done = subprocess.run(
        ["bash", str(script), *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def stub(folder: Path, text: str) -> Path:
    """A folder of programs in which ``grade`` is ``text``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "grade").write_text(text)
    (folder / "grade").chmod(0o755)
    # A link to the interpreter would not be one of this environment's.
    (folder / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (folder / "python").chmod(0o755)
    return folder


# --- what parses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_scripts_parse_and_can_be_run(script: Path) -> None:
    assert script.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)


SHELLCHECK = shutil.which("shellcheck", path=f"{BIN}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed")
def test_scripts_please_shellcheck() -> None:
    done = subprocess.run([str(SHELLCHECK), *map(str, SCRIPTS)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_action_is_one_and_takes_inputs_as_variables_alone() -> None:
    assert ACTION["runs"]["using"] == "composite" and ACTION["name"] and ACTION["description"]
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    for step in ACTION["runs"]["steps"]:
        assert ("uses" in step) != ("run" in step)
        if "run" in step:
            assert step["shell"] == "bash" and "${{" not in step["run"], "what is pasted into a script can be a command"
            script = step["run"].removeprefix('bash "$TENSORGRADE_SOURCE/').removesuffix('"')
            assert (ROOT / script).is_file()
            known = set(re.findall(r"TENSORGRADE_\w+", (ROOT / script).read_text(encoding="utf-8")))
            assert set(step["env"]) <= known | {"TENSORGRADE_SOURCE"}
    for name, declared in ACTION["inputs"].items():
        assert declared["description"] and isinstance(declared["default"], str)
        assert text.count(f"inputs.{name} ") == 1, name
    for each in ACTION["outputs"].values():
        assert each["value"].startswith("${{ steps.grade.outputs.")


def test_every_input_of_the_action_is_documented() -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    assert not [name for name in (*ACTION["inputs"], *ACTION["outputs"]) if f"`{name}`" not in page]


def test_the_examples_for_prairielearn_name_what_is_there() -> None:
    info = json.loads((FOLDER / "prairielearn" / "info.json-example").read_text(encoding="utf-8"))
    options = info["externalGradingOptions"]
    recipe = (FOLDER / "prairielearn" / "Dockerfile").read_text(encoding="utf-8")
    program, exercise = options["entrypoint"].split()
    assert info["gradingMethod"] == "External" and options["enabled"] and f'["{program}"]' in recipe
    assert list(ROOT.glob(f"exercises/*/{exercise}/exercise.yaml"))
    for path in re.findall(r"(?:integrations/\S+|constraints\.txt)", recipe):
        assert (ROOT / path).is_file(), path


# --- GitHub -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A step that ran, with the files it wrote."""

    done: Done
    summary: str
    outputs: dict[str, str]


def step(folder: Path, **env: str | Path) -> Step:
    summary, outputs = folder / "summary", folder / "outputs"
    summary.write_text("")
    outputs.write_text("")
    values: dict[str, str | Path] = {
        "TENSORGRADE_SOURCE": ROOT,
        "TENSORGRADE_VENV": BIN.parent,
        "TENSORGRADE_SEED": "7",
        "GITHUB_STEP_SUMMARY": summary,
        "GITHUB_OUTPUT": outputs,
        "GITHUB_WORKSPACE": folder,
        "RUNNER_TEMP": folder,
        **env,
    }
    done = run(FOLDER / "github" / "grade.sh", cwd=folder, **values)
    found = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
    return Step(done, summary.read_text(), found)


def test_a_folder_is_graded_into_annotations_and_a_summary(tmp_path: Path) -> None:
    shutil.copy(WRONG, tmp_path / "softmax.py")
    shutil.copy(sorted((ROOT / "fixtures" / "causal_mask" / "right").glob("*.py"))[0], tmp_path / "causal_mask.py")
    ran = step(tmp_path)
    assert ran.done.code == 1, ran.done.err
    assert "::error file=softmax.py,title=softmax%3A random shapes%2C float64::Values differ" in ran.done.out
    assert ran.summary.startswith("## 1 of 2 exercises pass") and "::" not in ran.summary.replace("::text", "")
    assert ran.outputs == {"passed": "false", "graded": "true", "report": str(tmp_path / "tensorgrade-report.json")}
    assert json.loads((tmp_path / "tensorgrade-report.json").read_text())["passed"] is False
    assert step(tmp_path, TENSORGRADE_FAIL="false").done.code == 0
    # One exercise of the folder.
    ran = step(tmp_path, TENSORGRADE_EXERCISE="causal_mask", TENSORGRADE_PATH=tmp_path)
    assert ran.done.code == 0 and ran.outputs["passed"] == "true"


def test_nothing_of_a_submission_becomes_a_command(tmp_path: Path) -> None:
    outputs = str(tmp_path / "outputs")
    (tmp_path / "softmax.py").write_text(HOSTILE % {"targets": (outputs, str(tmp_path / "summary"))})
    ran = step(tmp_path)
    assert ran.done.code == 1 and ran.outputs["passed"] == "false"
    lines = re.split(r"[\r\n]", ran.done.out + ran.done.err)
    commands = [line for line in lines if line.strip().startswith("::")]
    assert commands and all(
        re.match(r"::(error file=softmax\.py,|notice title=tensorgrade::)", line) for line in commands
    )
    assert "##[" not in ran.done.out + ran.done.err
    assert "forged" in ran.summary, "what was printed is shown, harmless"


def test_exercises_of_the_repository_that_is_graded_are_not_used(tmp_path: Path) -> None:
    easy = tmp_path / "exercises" / "attention" / "softmax"
    shutil.copytree(ROOT / "exercises" / "attention" / "softmax", easy)
    solution = tmp_path / "reference" / "attention" / "softmax"
    shutil.copytree(ROOT / "reference" / "attention" / "softmax", solution)
    shutil.copy(WRONG, solution / "solution.py")
    shutil.copy(WRONG, tmp_path / "softmax.py")
    assert step(tmp_path).outputs["passed"] == "false"


def test_a_fault_of_the_grader_fails_the_step_whatever_was_asked(tmp_path: Path) -> None:
    shutil.copy(RIGHT, tmp_path / "softmax.py")
    venv = stub(tmp_path / "venv" / "bin", UNABLE % {"python": sys.executable}).parent
    ran = step(tmp_path, TENSORGRADE_VENV=venv, TENSORGRADE_FAIL="false")
    assert ran.done.code == 3 and ran.outputs["graded"] == "false"
    assert "softmax could not be graded" in ran.done.out and "not graded" in ran.summary


def test_nothing_to_grade_is_said(tmp_path: Path) -> None:
    ran = step(tmp_path)
    assert ran.done.code == 2 and ran.outputs == {**ran.outputs, "passed": "false", "graded": "false"}
    assert "::error title=tensorgrade::nothing was graded (exit code 2)" in ran.done.out
    assert "named after an exercise" in ran.done.err


# --- Gradescope -------------------------------------------------------------------------------------------------------


GRADESCOPE = json.loads((ROOT / "tests" / "schemas" / "gradescope.json").read_text())


@dataclass(frozen=True)
class Autograder:
    """A tree like /autograder."""

    root: Path

    def hand_in(self, name: str, content: Path | str) -> None:
        target = self.root / "submission" / name
        target.write_bytes(content.read_bytes() if isinstance(content, Path) else content.encode())

    def results(self, bin: Path = BIN) -> dict[str, Any]:
        """What ``run_autograder`` writes, held to Gradescope's format; an older file there must not survive."""
        target = self.root / "results" / "results.json"
        target.parent.mkdir(exist_ok=True)
        target.write_text('{"score": 77}')
        script = self.root / "run_autograder"
        shutil.copy(FOLDER / "gradescope" / "run_autograder", script)
        done = run(script, cwd=self.root, AUTOGRADER_ROOT=self.root, TENSORGRADE_BIN=bin)
        assert done.code == 0, done.err
        body: dict[str, Any] = json.loads(target.read_text())
        jsonschema.validate(body, GRADESCOPE, cls=jsonschema.Draft202012Validator)
        assert body.get("score") != 77
        return body


def points(body: dict[str, Any]) -> float:
    """What there is to have."""
    found: float = sum(test.get("max_score", 0) for test in body["tests"])
    return found


@pytest.fixture
def autograder(tmp_path: Path) -> Callable[..., Autograder]:
    def make(*exercises: str) -> Autograder:
        for name in ("source", "submission", "results"):
            (tmp_path / name).mkdir()
        if exercises:
            (tmp_path / "source" / "exercise.txt").write_text("\n".join(exercises) + "\n")
        return Autograder(tmp_path)

    return make


def test_gradescope_grades_the_exercise_that_the_zip_names(autograder: Callable[..., Autograder]) -> None:
    tree = autograder("softmax")
    tree.hand_in("softmax.py", RIGHT)
    tree.hand_in("notes.py", "print('hello')\n")
    body = tree.results()
    assert body["score"] == points(body) > 0
    assert {test["status"] for test in body["tests"] if "status" in test} == {"passed"}


def test_gradescope_takes_the_one_file_under_another_name(autograder: Callable[..., Autograder]) -> None:
    tree = autograder("softmax")
    tree.hand_in("my solution (2).py", WRONG)
    body = tree.results()
    assert 0 < body["score"] < points(body) and "divided by their sum" in json.dumps(body)


def test_gradescope_says_which_file_is_missing(autograder: Callable[..., Autograder]) -> None:
    tree = autograder("softmax")
    body = tree.results()
    assert body["score"] == 0 and "softmax.py" in body["output"]


def test_gradescope_grades_every_file_named_after_an_exercise(autograder: Callable[..., Autograder]) -> None:
    tree = autograder()
    assert "score" not in tree.results(), "nothing there is no zero, as it may be the autograder's fault"
    tree.hand_in("softmax.py", RIGHT)
    tree.hand_in("causal_mask.py", sorted((ROOT / "fixtures" / "causal_mask" / "right").glob("*.py"))[0])
    body = tree.results()
    assert body["score"] == points(body) > 0
    assert {test["name"].partition(":")[0] for test in body["tests"]} == {"softmax", "causal_mask"}


def test_gradescope_exercises_come_from_the_zip_and_never_from_what_is_handed_in(
    autograder: Callable[..., Autograder],
) -> None:
    tree = autograder("softmax")
    for top, path in (("source", "softmax"), ("submission", "softmax")):
        for kind in ("exercises", "reference"):
            shutil.copytree(ROOT / kind / "attention" / path, tree.root / top / kind / "attention" / path)
    spec = tree.root / "source" / "exercises" / "attention" / "softmax" / "exercise.yaml"
    spec.write_text(spec.read_text().replace("title: Softmax along any axis", "title: Our own softmax"))
    shutil.copy(WRONG, tree.root / "submission" / "reference" / "attention" / "softmax" / "solution.py")
    tree.hand_in("softmax.py", WRONG)
    body = tree.results()
    assert body["score"] < points(body)


def test_gradescope_with_a_hostile_submission(autograder: Callable[..., Autograder]) -> None:
    tree = autograder("softmax")
    targets = tuple(str(tree.root / "results" / name) for name in ("results.json", "stdout"))
    tree.hand_in("softmax.py", HOSTILE % {"targets": targets})
    body = tree.results()
    assert body["score"] < points(body) and len(json.dumps(body)) < 200_000
    assert "ended" in json.dumps(body["tests"]) and "cut here" in body["output"]


@pytest.mark.parametrize(
    "program",
    [
        "#!/bin/sh\nexit 3\n",
        "#!/bin/sh\nkill -9 $$\n",
        "#!/bin/sh\necho '{\"score\": '\n",
        "#!/bin/sh\necho '{\"score\": 16}'\nexit 2\n",
        "",
    ],
    ids=["no words", "killed", "half a file", "wrong usage", "no program"],
)
def test_gradescope_gives_no_zero_where_the_grader_cannot_grade(
    autograder: Callable[..., Autograder], program: str
) -> None:
    tree = autograder("softmax")
    tree.hand_in("softmax.py", RIGHT)
    body = tree.results(stub(tree.root / "bin", program))
    assert "score" not in body and "tests" not in body and "not your fault" in body["output"]


def test_gradescope_shows_the_graders_own_words_where_it_has_some(autograder: Callable[..., Autograder]) -> None:
    tree = autograder("softmax")
    tree.hand_in("softmax.py", RIGHT)
    body = tree.results(stub(tree.root / "bin", UNABLE % {"python": sys.executable}))
    assert "score" not in body and "no worker could be started" in body["output"]
    assert not any("score" in test for test in body["tests"])


# --- PrairieLearn -----------------------------------------------------------------------------------------------------


PRAIRIELEARN = json.loads((ROOT / "tests" / "schemas" / "prairielearn.json").read_text())


@dataclass(frozen=True)
class Question:
    """A tree like /grade."""

    root: Path

    def results(self, *arguments: str, bin: Path = BIN) -> dict[str, Any]:
        done = run(
            FOLDER / "prairielearn" / "run.sh", *arguments, cwd=self.root, GRADE_ROOT=self.root, TENSORGRADE_BIN=bin
        )
        assert done.code == 0, done.err
        body: dict[str, Any] = json.loads((self.root / "results" / "results.json").read_text())
        jsonschema.validate(body, PRAIRIELEARN, cls=jsonschema.Draft202012Validator)
        return body


@pytest.fixture
def question(tmp_path: Path) -> Question:
    for name in ("student", "tests", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "data" / "data.json").write_text("{}")
    return Question(tmp_path)


def test_prairielearn_grades_what_the_question_names(question: Question) -> None:
    shutil.copy(RIGHT, question.root / "student" / "softmax.py")
    assert question.results("softmax")["score"] == 1
    (question.root / "tests" / "exercise.txt").write_text("softmax\n")
    shutil.copy(WRONG, question.root / "student" / "softmax.py")
    body = question.results()
    assert body["gradable"] and 0 < body["score"] < 1


def test_prairielearn_takes_an_exercise_of_the_questions_own(question: Question) -> None:
    for kind in ("exercises", "reference"):
        shutil.copytree(ROOT / kind / "attention" / "softmax", question.root / "tests" / kind / "ours" / "softmax")
        shutil.copytree(ROOT / kind / "attention" / "softmax", question.root / "student" / kind / "ours" / "softmax")
    shutil.copy(ROOT / "exercises" / "attention" / "track.yaml", question.root / "tests" / "exercises" / "ours")
    shutil.copy(WRONG, question.root / "student" / "reference" / "ours" / "softmax" / "solution.py")
    shutil.copy(WRONG, question.root / "student" / "softmax.py")
    assert question.results("softmax")["score"] < 1


@pytest.mark.parametrize(
    ("arguments", "program", "says"),
    [
        (("softmax",), None, "no file softmax.py"),
        ((), None, "names no exercise"),
        (('"; rm -rf x',), None, "names no exercise"),
        (("softmax",), "#!/bin/sh\nkill -9 $$\n", "not your fault"),
        (("softmax",), UNABLE % {"python": sys.executable}, "no worker could be started"),
    ],
    ids=["no file", "no exercise", "odd exercise", "killed", "cannot grade"],
)
def test_prairielearn_takes_no_attempt_where_nothing_was_graded(
    question: Question, arguments: tuple[str, ...], program: str | None, says: str
) -> None:
    if program is not None:
        shutil.copy(RIGHT, question.root / "student" / "softmax.py")
    bin = BIN if program is None else stub(question.root / "bin", program)
    body = question.results(*arguments, bin=bin)
    assert body["gradable"] is False and says in body["format_errors"][0]


# --- installing -------------------------------------------------------------------------------------------------------

# Stands for every Python: notes how it is called, and copies itself where an environment is made.
PYTHON = """\
#!/bin/bash
echo "$0 $*" >>"$TENSORGRADE_LOG"
if [[ $1 == -m && $2 == venv ]]; then
    mkdir -p "$3/bin"
    cp "$0" "$3/bin/python"
fi
"""


def installed(tmp_path: Path, script: Path, **env: str | Path) -> list[str]:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("python3", "python3.12"):
        (programs / name).write_text(PYTHON)
        (programs / name).chmod(0o755)
    log = tmp_path / "log"
    done = run(script, cwd=tmp_path, PATH=f"{programs}:{os.environ['PATH']}", TENSORGRADE_LOG=log, **env)
    assert done.code == 0, done.err
    return log.read_text().splitlines()


def test_the_action_installs_torch_by_version_and_all_within_the_constraints(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    calls = installed(
        tmp_path,
        FOLDER / "github" / "install.sh",
        TENSORGRADE_SOURCE=ROOT,
        TENSORGRADE_VENV=venv,
        TENSORGRADE_TORCH_INDEX="https://example.edu/torch",
    )
    torch = next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))
    assert calls[0].endswith(f"python3 -m venv {venv}")
    assert f"--index-url https://example.edu/torch --no-deps {torch}" in calls[1]
    assert calls[2].endswith(f"-c {ROOT / 'constraints.txt'} {ROOT}") and len(calls) == 3


def test_gradescope_installs_the_wheel_of_the_zip(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    shutil.copy(ROOT / "constraints.txt", source)
    (source / "tensorgrade-0.1.0-py3-none-any.whl").write_text("")
    script = FOLDER / "gradescope" / "setup.sh"
    calls = installed(tmp_path, script, AUTOGRADER_ROOT=tmp_path, TENSORGRADE_TORCH_INDEX="")
    venv = tmp_path / "venv"
    assert any(call.endswith(f"-m venv {venv}") for call in calls)
    assert calls[-1] == (
        f"{venv}/bin/python -m pip install --no-cache-dir -c {source}/constraints.txt "
        f"{source}/tensorgrade-0.1.0-py3-none-any.whl"
    )
