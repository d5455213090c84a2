"""The student's command from outside: exit codes, reports, and what is printed for every kind of broken submission."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import ROOT, Command, Ran

SCHEMA = json.loads((ROOT / "grader" / "reports" / "report.schema.json").read_text())
RIGHT = ROOT / "fixtures" / "softmax" / "right" / "shifted_keepdims.py"


def held(ran: Ran) -> dict[str, Any]:
    """The report on standard output, held to the schema that ships with the package."""
    report = ran.report()
    jsonschema.validate(report, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert ran.code == (3 if report["status"] != "graded" else 0 if report["passed"] else 1)
    return report


def write(folder: Path, text: str | bytes, name: str = "softmax.py") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_right_submission_passes_and_unlocks_the_next(command: Command) -> None:
    ran = command("grade", "softmax", RIGHT)
    assert ran.code == 0, ran.out + ran.err
    assert "passed" in ran.out and "next: grade masked_softmax --start" in ran.out
    assert "\x1b" not in ran.out
    assert "✓" in command("grade").out


def test_json_on_standard_output_is_alone_there(command: Command) -> None:
    report = held(command("grade", "softmax", RIGHT, "--json", "-", "--seed", "5"))
    assert report["passed"] and report["score"] == report["max_score"] and report["seed"] == 5
    assert [check["verdict"] for check in report["checks"]].count("fail") == 0


def test_same_seed_same_report(command: Command, tmp_path: Path) -> None:
    wrong = ROOT / "fixtures" / "softmax" / "wrong" / "one_maximum.py"
    first, second = (held(command("grade", "softmax", wrong, "--json", "-", "--seed", "11")) for _ in range(2))
    for report in (first, second):
        report.pop("timings")
        for check in report["checks"]:
            check.pop("seconds")
    assert first == second
    assert first["diagnoses"]


def test_a_printed_token_replays_the_shrunk_case(command: Command) -> None:
    wrong = ROOT / "fixtures" / "softmax" / "wrong" / "scores_over_sum.py"
    report = held(command("grade", "softmax", wrong, "--json", "-", "--seed", "3"))
    shown = next(check for check in report["checks"] if check["verdict"] == "fail" and check["id"] == "values_float64")
    again = held(command("grade", "softmax", wrong, "--json", "-", "--case", shown["case"]["token"]))
    replayed = next(check for check in again["checks"] if check["verdict"] == "fail")
    assert replayed["case"]["dims"] == shown["case"]["dims"]
    assert again["seed"] == 3


@pytest.mark.parametrize(
    ("text", "verdict", "cause", "says"),
    [
        ("import sys\nsys.exit(0)\n", "error", "exited", "ended the program"),
        ("import os\nos._exit(0)\n", "crashed", "exited", "ended the process"),
        ("def softmax(x, axis)\n    return x\n", "error", "syntax_error", "line 1"),
        ("def soft_max(x, axis):\n    return x\n", "error", "no_function", "rename `soft_max`"),
        ("x = 1\n", "error", "no_function", "no function `softmax`"),
        ("def softmax(x):\n    return x\n", "error", "signature", "softmax(x, axis)"),
        ("async def softmax(x, axis):\n    return x\n", "error", "signature", "async"),
        ("def softmax(x, axis):\n    yield x\n", "error", "signature", "generator"),
        ("class softmax:\n    pass\n", "error", "signature", "class"),
        ("softmax = 3\n", "error", "signature", "int"),
        ("import no_such_module_xyz\n", "error", "import_error", "no_such_module_xyz"),
        ("1 / 0\n", "error", "exception", "ZeroDivisionError"),
        (b"def softmax(x, axis):\n    return '\x00'\n", "error", None, "cannot"),
        (b"# coding: latin-9000\n", "error", None, "cannot"),
        ("(" * 50_000, "error", None, "cannot"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_loaded(
    command: Command, tmp_path: Path, text: str | bytes, verdict: str, cause: str | None, says: str
) -> None:
    write(tmp_path, text)
    report = held(command("grade", "softmax", "--json", "-"))
    first, *others = report["checks"]
    assert first["verdict"] == verdict
    assert cause is None or first["cause"] == cause
    assert says in first["message"] + (first["hint"] or "")
    assert {check["verdict"] for check in others} == {"skipped"}
    assert report["score"] == 0


@pytest.mark.parametrize(
    ("body", "verdict", "cause", "says"),
    [
        ("return None", "fail", "type", "returned None"),
        ("return x.tolist()", "fail", "type", "list"),
        ("import sys; sys.exit(3)", "error", "exited", "ended the program"),
        ("import os; os._exit(0)", "crashed", "exited", "ended itself"),
        ("import os; os.kill(os.getpid(), 11)", "crashed", "signal", "SIGSEGV"),
        ("raise ValueError('no')", "error", "exception", "ValueError: no"),
        ("return x.astype(complex)", "fail", "unsupported_result", "complex"),
        ("return x.astype(object)", "fail", "unsupported_result", "object"),
        ("return x[..., None]", "fail", "shape", "shape"),
    ],
)
def test_a_function_that_gives_no_result(
    command: Command, tmp_path: Path, body: str, verdict: str, cause: str, says: str
) -> None:
    write(tmp_path, f"import numpy as np\ndef softmax(x, axis):\n    {body}\n")
    report = held(command("grade", "softmax", "--json", "-"))
    first = report["checks"][0]
    assert (first["verdict"], first["cause"]) == (verdict, cause)
    assert says in first["message"]


def test_an_endless_loop_costs_its_limit_and_names_the_call(command: Command, tmp_path: Path) -> None:
    write(tmp_path, "def softmax(x, axis):\n    while True:\n        pass\n")
    report = held(command("grade", "softmax", "--json", "-", "--time-limit", "0.5"))
    first = report["checks"][0]
    assert (first["verdict"], first["cause"]) == ("timeout", "time_limit")
    assert "softmax(" in first["message"]
    assert "skipped" in {check["verdict"] for check in report["checks"]}


def test_what_a_submission_prints_is_shown_apart_and_inert(command: Command, tmp_path: Path) -> None:
    write(
        tmp_path,
        "import numpy as np\n"
        "def softmax(x, axis):\n"
        "    print('[bold red]mark\\x1b[31mup[/bold red]\\x1b]0;title\\x07')\n"
        "    e = np.exp(x - x.max(axis=axis, keepdims=True))\n"
        "    return e / e.sum(axis=axis, keepdims=True)\n",
    )
    ran = command("grade", "softmax", FORCE_COLOR="1")
    assert ran.code == 0
    assert "\x1b]0;title" not in ran.out and "mark\x1b[31m" not in ran.out
    assert "[bold red]markup[/bold red]" in ran.out


def test_wrong_usage_exits_2_and_says_what_to_type(command: Command, tmp_path: Path) -> None:
    unknown = command("grade", "sofmax")
    assert unknown.code == 2 and "softmax" in unknown.err and "Traceback" not in unknown.err
    assert command("grade", "softmax", "missing.py").code == 2
    assert command("grade", "softmax", "--seed", "x").code == 2
    assert command("grade", "softmax", RIGHT, "--case", "1:nonsense").code == 2
    assert command("grade", "softmax", tmp_path).code == 2


def test_names_that_are_near_are_offered_and_no_others(command: Command) -> None:
    for typed, near in (("kv", "kv_cache_step"), ("gred_decode", "greedy_decode")):
        ran = command("grade", typed)
        assert ran.code == 2
        assert ran.err == f"there is no exercise `{typed}`; did you mean `{near}`?\nnext: grade {near}\n"
    ran = command("grade", "beam_search")
    assert ran.code == 2 and ran.err == "there is no exercise `beam_search`\nnext: grade (lists the names)\n"


def test_without_a_file_of_ones_own_the_page_says_that_it_is_about_the_stub(command: Command, tmp_path: Path) -> None:
    ran = command("grade", "softmax")
    assert ran.code == 1 and ran.out.startswith("There is no ./softmax.py here; this page is about the stub.\n")
    assert "grade softmax --start" in ran.out.splitlines()[1] and "grade softmax FILE" in ran.out.splitlines()[2]
    assert ran.out.splitlines()[-1] == "to begin: grade softmax --start" and "--hint" not in ran.out
    held(command("grade", "softmax", "--json", "-"))
    assert command("grade", "softmax", "--start").code == 0
    assert "There is no" not in command("grade", "softmax").out
    assert "There is no" not in command("grade", "softmax", RIGHT, cwd=tmp_path.parent).out


def test_the_path_goes_on_where_prerequisites_are_passed(command: Command, tmp_path: Path) -> None:
    """The catalogue and the end of a report name the same exercise; nothing is named whose prerequisites are missing."""
    state = tmp_path / "progress.json"

    def after(name: str, passed: list[str]) -> str:
        state.write_text(json.dumps({"version": 1, "passed": passed, "hints": {}}))
        answer = sorted((ROOT / "fixtures" / name / "right").glob("*.py"))[0]
        ran = command("grade", name, answer, TENSORGRADE_STATE=str(state))
        assert ran.code == 0, ran.out + ran.err
        return ran.out.splitlines()[-1]

    *_, first, told = command("grade").out.splitlines()
    assert first == "next: grade softmax --start"
    # A newcomer, who has passed nothing, is told what that does and what comes after it.
    assert told == "That writes softmax.py here. Put your solution into it, then run: grade softmax"
    assert after("top_p_filter", []) == first, "nothing is unlocked by it, and nothing else is open before"
    assert after("softmax", []) == "next: grade masked_softmax --start"
    (tmp_path / "masked_softmax.py").write_text("begun = True\n")
    assert after("softmax", []) == "next: grade masked_softmax", "it was begun already"
    everything = [path.parent.name for path in ROOT.glob("exercises/*/*/exercise.yaml")]
    assert after("softmax", everything) == "every exercise passes: grade lists them"
    last = command("grade", TENSORGRADE_STATE=str(state)).out
    assert last.rstrip().endswith("Everything passes.")


def test_warnings_of_libraries_are_no_output_of_the_student(command: Command, tmp_path: Path) -> None:
    write(
        tmp_path,
        "import warnings\nimport numpy as np\n\ndef softmax(x, axis):\n    np.zeros((0, 2)).mean(0)\n"
        "    np.zeros((0, 2)).mean(0)\n    warnings.warn('mine   and\\nlong')\n    print('printed')\n    return x\n",
    )
    ran = command("grade", "softmax", "--seed", "1", COLUMNS="60")
    shown = ran.out[ran.out.index("your code printed:") :].splitlines()
    told = shown.index("Python warned while your code ran:")
    assert set(shown[1:told]) <= {"  │ printed", shown[told - 1]}
    warned = " ".join(" ".join(shown[told + 1 : shown.index("", told)]).split())
    assert warned.startswith(
        "softmax.py:5: RuntimeWarning: Mean of empty slice softmax.py:5: RuntimeWarning: invalid value"
    )
    assert "site-packages" not in ran.out and "_methods" not in ran.out
    assert warned.count("Mean of empty slice") == 1 or "softmax.py:6: RuntimeWarning: Mean" in warned
    assert "softmax.py:7: UserWarning: mine and long" in command("grade", "softmax", "-v").out


def test_start_never_overwrites_without_force(command: Command, tmp_path: Path) -> None:
    started = command("grade", "softmax", "--start")
    assert started.code == 0
    # The first lines of the statement, and what to type next.
    opening = (ROOT / "exercises/attention/softmax/README.md").read_text().partition("\n## ")[0]
    assert " ".join(opening.lstrip("# ").split()) in " ".join(started.out.split())
    assert started.out.splitlines()[-1].endswith("run  grade softmax") and "grade softmax --show" in started.out
    path = tmp_path / "softmax.py"
    path.write_text("mine")
    refused = command("grade", "softmax", "--start")
    assert refused.code == 2 and path.read_text() == "mine" and "--force" in refused.err
    assert command("grade", "softmax", "--start", "--force").code == 0
    assert "NotImplementedError" in path.read_text()


def test_show_and_hints(command: Command) -> None:
    assert "axis" in command("grade", "softmax", "--show").out
    first, second, *others = (command("grade", "softmax", "--hint").out for _ in range(6))
    assert "hint 1 of" in first and "hint 2 of" in second and "one more: grade softmax --hint" in first
    assert others[-1].splitlines()[-1] == "that is the last hint", "and it stays that"
    assert "one more" not in others[-1]


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_feedback_fits_the_width(command: Command, tmp_path: Path, columns: str) -> None:
    write(tmp_path, (ROOT / "fixtures" / "softmax" / "wrong" / "one_maximum.py").read_bytes())
    ran = command("grade", "softmax", "--seed", "1", "-v", COLUMNS=columns)
    assert ran.code == 1
    # A command is never broken, since it is there to be copied; nor is what the submission printed, with -v.
    lines = [line for line in ran.out.splitlines() if "grade softmax" not in line and "│" not in line]
    assert max(map(len, lines)) <= int(columns)


def test_a_new_users_path(command: Command, tmp_path: Path) -> None:
    """Catalogue, stub, a first failing grade, an answer, a pass: what the README tells a newcomer to do."""
    assert "grade softmax --start" in command("grade").out
    assert command("grade", "decoder_lm_loss", "--start").code == 0
    first = command("grade", "decoder_lm_loss")
    assert first.code == 1 and "not written yet" in first.out
    answer = ROOT / "fixtures" / "decoder_lm_loss" / "right" / "einsum.py"
    (tmp_path / "decoder_lm_loss.py").write_bytes(answer.read_bytes())
    last = command("grade", "decoder_lm_loss")
    assert last.code == 0 and "passed" in last.out
