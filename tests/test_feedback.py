"""What a student reads, through the real command: golden pages for many kinds of mistake, and nothing that should stay hidden.

The pages are kept in ``tests/golden/``, one per mistake, 80 columns wide and without colour. After a change of wording

    REGENERATE_GOLDEN=1 python -m pytest tests/test_feedback.py -k golden

writes them again; read the diff before it is committed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, Command

from grader.model import CheckResult, Explanation, Report
from grader.reports import terminal

pytestmark = pytest.mark.slow

GOLDEN = ROOT / "tests" / "golden"
SEED = "7"


@dataclass(frozen=True)
class Page:
    """One golden page: the exercise, a fixture of it (or the text of a submission), and further options."""

    exercise: str
    fixture: str = ""
    text: str = ""
    options: tuple[str, ...] = ()
    width: int = 80
    passes: bool = False


TWO_MISTAKES = """\
import numpy as np


def layer_norm(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).sum(axis=-1, keepdims=True) / max(x.shape[-1] - 1, 1)
    if x.shape[-1] == 1:
        variance = variance * np.nan
    return (1 + gamma) * centred / np.sqrt(variance + eps) + beta
"""

LAST_HEAD_FLAT = """\
import numpy as np


def alibi_bias(num_heads, T):
    i, j = np.arange(T)[:, None], np.arange(T)[None, :]
    slopes = 2.0 ** (-8.0 * np.arange(1, num_heads + 1) / num_heads)
    bias = -slopes[:, None, None] * (i - j)
    bias[-1] = 0.0
    return np.where(j <= i, bias, -np.inf)
"""

PAGES = {
    "values_and_cause": Page("softmax", "scores_over_sum"),
    "values_two_causes": Page("layer_norm", text=TWO_MISTAKES),
    "values_without_cause": Page("multi_head_attention", "features_dealt_out"),
    "values_at_some_positions": Page("apply_rope", "starts_and_counts"),
    "values_in_a_pattern": Page("alibi_bias", text=LAST_HEAD_FLAT, options=("-v",)),
    "values_of_a_scalar": Page("decoder_lm_loss", "bits_for_nats"),
    "values_in_a_list": Page("greedy_decode", "last_of_equals"),
    "values_in_one_tensor_of_a_list": Page("clip_gradients", "per_tensor"),
    "values_of_one_edge_case": Page("encoder_decoder_forward", "mask_adds_minus_1e9"),
    "nan": Page("softmax", "textbook"),
    "infinity_missing": Page("top_p_filter", "large_negative"),
    "shape": Page("apply_rope", "squeezed_token"),
    "shape_transposed": Page("attention_scores", "keys_first"),
    "length_of_a_list": Page("greedy_decode", "without_eos"),
    "dtype": Page("causal_mask", "booleans"),
    "type_none": Page("decoder_lm_loss", "returns_none"),
    "type_list": Page("encoder_decoder_forward", "returns_a_list"),
    "inputs_changed": Page("softmax", "in_place"),
    "inputs_changed_list": Page("greedy_decode", "grows_the_prompt"),
    "not_repeatable": Page("softmax", "spoiled_memo"),
    "reads_too_little": Page("encoder_decoder_forward", "causal_cross_always"),
    "causal_leak": Page("multi_head_attention", "reads_the_future"),
    "examples_mixed": Page("encoder_forward", "softmax_over_batch"),
    "gradients_cut": Page("multi_head_attention", "detached_weights"),
    "device": Page("apply_rope", "pairs_on_the_cpu"),
    "calls": Page("greedy_decode", "calls_twice"),
    "exception": Page("softmax", "keepdims_forgotten"),
    "exception_in_full": Page("softmax", "keepdims_forgotten", options=("-v",)),
    "not_written": Page("softmax", text="def softmax(x, axis):\n    raise NotImplementedError\n"),
    "syntax_error": Page("softmax", text="import numpy as np\n\ndef softmax(x, axis):\n    return np.exp(x / (1\n"),
    "no_function": Page("softmax", text="def soft_max(x, axis):\n    return x\n"),
    "signature": Page("softmax", text="def softmax(x):\n    return x\n"),
    "import_error": Page("softmax", text="import scipy_extras\n\ndef softmax(x, axis):\n    return x\n"),
    "exit": Page("softmax", text="import sys\n\n\ndef softmax(x, axis):\n    sys.exit(0)\n"),
    "time_limit": Page("softmax", text="def softmax(x, axis):\n    while True:\n        pass\n", options=("--time-limit", "0.5")),
    "advisory_only": Page("softmax", "single_inside", passes=True),
    "narrow": Page("softmax", "scores_over_sum", width=60),
    "wide": Page("encoder_decoder_forward", "causal_cross_always", width=120),
}  # fmt: skip


def hand_in(page: Page, folder: Path) -> Path:
    """The submission under its usual name in ``folder``."""
    path = folder / f"{page.exercise}.py"
    if page.fixture:
        shutil.copyfile(ROOT / "fixtures" / page.exercise / "wrong" / f"{page.fixture}.py", path)
    else:
        path.write_text(page.text, encoding="utf-8")
    return path


COMMON = ("--seed", SEED, "--isolation", "off", "--exercises", str(ROOT / "exercises"))


@pytest.mark.parametrize("name", PAGES)
def test_golden_pages(name: str, command: Command, tmp_path: Path) -> None:
    page = PAGES[name]
    hand_in(page, tmp_path)
    ran = command("grade", page.exercise, *COMMON, *page.options, COLUMNS=str(page.width), NO_COLOR="1")
    assert ran.code == (0 if page.passes else 1), ran.out + ran.err
    assert ran.err == ""
    well_made(ran.out, page.width, folded="-v" not in page.options)
    kept = GOLDEN / f"{name}.txt"
    if os.environ.get("REGENERATE_GOLDEN"):
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(ran.out, encoding="utf-8")
    assert ran.out == kept.read_text(encoding="utf-8"), f"{kept} differs; see the docstring of this module"


def well_made(text: str, width: int, folded: bool) -> None:
    """No spaces at the ends of lines, nothing wider than the terminal but commands to copy, and one screen long."""
    lines = text.splitlines()
    assert not [line for line in lines if line != line.rstrip()]
    commands = ("grade ", "rerun:")
    assert not [line for line in lines if len(line) > width and not any(word in line for word in commands)]
    assert not folded or len(lines) <= 64
    assert "\x1b" not in text and str(ROOT) not in text and "Traceback" not in text


def test_every_golden_page_is_compared() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(PAGES)


def test_colour_is_only_added_on_top(command: Command, tmp_path: Path) -> None:
    hand_in(PAGES["values_and_cause"], tmp_path)
    plain = command("grade", "softmax", *COMMON, NO_COLOR="1")
    coloured = command("grade", "softmax", *COMMON, FORCE_COLOR="1", TERM="xterm-256color")
    assert "\x1b[" in coloured.out and "\x1b[" not in plain.out
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured.out) == plain.out


def test_a_file_of_another_name_is_named_in_the_commands(command: Command, tmp_path: Path) -> None:
    hand_in(PAGES["values_and_cause"], tmp_path).rename(tmp_path / "my answer.py")
    ran = command("grade", "softmax", "my answer.py", *COMMON)
    assert "rerun: grade softmax 'my answer.py' --case 7:" in ran.out
    assert "same cases again: grade softmax 'my answer.py' --seed 7" in ran.out


def test_the_rerun_shows_the_same_failure(command: Command, tmp_path: Path) -> None:
    hand_in(PAGES["values_at_some_positions"], tmp_path)
    first = command("grade", "apply_rope", *COMMON).out
    token = re.search(r"--case (\S+)", first)
    assert token is not None
    again = command("grade", "apply_rope", *COMMON[2:], "--case", token[1]).out
    evidence = first[first.index("you returned") : first.index(", allowed")]
    assert evidence in again


# --- the page, from a report made up ----------------------------------------------------------------------------------


def made_up(checks: list[CheckResult]) -> list[str]:
    report = Report(
        "toy", {"path": "toy.py", "sha256": None}, 7, "graded", False, 0.0, float(len(checks)), tuple(checks), (), {}, {}, {}
    )  # fmt: skip
    return [line.plain for line in terminal.page(report, 80)]


def passing(count: int, title: str = "edge case") -> list[CheckResult]:
    return [CheckResult(f"p{at}", f"{title} {at}", "pass", 1.0, 1.0) for at in range(count)]


def failing(count: int, title: str = "wrong") -> list[CheckResult]:
    return [
        CheckResult(f"f{at}", f"{title} {at}", "fail", 0.0, 1.0, explanation=Explanation("Values differ."))
        for at in range(count)
    ]


def test_what_passes_keeps_its_line_until_the_page_is_too_long() -> None:
    lines = made_up([*passing(30), *failing(12)])
    assert [line for line in lines if line.startswith("✓ edge case")] == [
        f"✓ edge case {at}".ljust(71) + "1/1 point" for at in range(30)
    ]
    assert any("11 checks fail in the same way" in line for line in lines) and len(lines) <= terminal.MAX_LINES
    long = made_up([*passing(70), *failing(2)])
    assert any("70 checks pass" in line for line in long) and len(long) <= terminal.MAX_LINES


def test_checks_that_are_folded_are_never_without_a_name() -> None:
    lines = made_up(
        [*passing(80), *failing(5, "a title so long that it takes a whole line of the page by itself alone")]
    )
    at = next(at for at, line in enumerate(lines) if "4 checks fail in the same way" in line)
    assert "a title so long" in "".join(lines[at + 1 : at + 4]), lines[at : at + 4]


def test_one_reason_is_said_in_words_that_fit_many() -> None:
    why = "Not run: no float64 result on random shapes is right yet."
    skipped = [
        CheckResult(f"s{at}", f"s {at}", "skipped", 0, 1, cause="values", explanation=Explanation(why))
        for at in range(3)
    ]
    other = CheckResult(
        "o", "o", "skipped", 0, 1, cause="values", explanation=Explanation("Not run: a step gave no result.")
    )
    lines = made_up([*failing(1), *skipped, other])
    assert "    because no float64 result on random shapes is right yet." in lines
    assert "    Not run: a step gave no result." in lines, "another reason is not folded into the first"


# --- what is not to be shown ------------------------------------------------------------------------------------------

HIDDEN = """\
import numpy as np


def softmax(x, axis):
    print("seen", x.reshape(-1)[:4].tolist(), x.shape)
    if x.ndim == 1:
        raise ValueError(f"{x.tolist()} along {axis}")
    if x.shape[axis] == 1:
        x -= 1.0
        return np.full_like(x, np.nan)
    return 2 * np.exp(x - x.max(axis=axis, keepdims=True)) / np.exp(x - x.max(axis=axis, keepdims=True)).sum(axis=axis, keepdims=True)
"""


@pytest.fixture(params=["summary", "verdict"])
def hidden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A library with one exercise that shows less, and a submission that is wrong in several ways and tells what it saw."""
    track = tmp_path / "exercises" / "attention"
    shutil.copytree(ROOT / "exercises" / "attention" / "softmax", track / "softmax")
    shutil.copy(ROOT / "exercises" / "attention" / "track.yaml", track)
    shutil.copytree(ROOT / "reference" / "attention" / "softmax", tmp_path / "reference" / "attention" / "softmax")
    written = track / "softmax" / "exercise.yaml"
    text = re.sub(r"^reveal:.*\n", "", written.read_text(encoding="utf-8"), flags=re.M)
    written.write_text(f"{text}\nreveal: {request.param}\n", encoding="utf-8")
    (tmp_path / "softmax.py").write_text(HIDDEN, encoding="utf-8")
    return str(request.param), tmp_path


SECRET_SEED = "314159"


def test_what_is_kept_from_a_student_is_nowhere(hidden: tuple[str, Path], command: Command) -> None:
    reveal, folder = hidden
    options = ("--seed", SECRET_SEED, "--isolation", "off", "--exercises", folder / "exercises")
    shown = [command("grade", "softmax", *options, *more, cwd=folder).out for more in ((), ("-v",), ("--json", "-"))]
    report = json.loads(shown[2])
    untimed = {**report, "timings": {}, "checks": [{**check, "seconds": 0} for check in report["checks"]]}
    shown[2] = json.dumps(untimed, ensure_ascii=False)
    assert report["passed"] is False and sum(check["verdict"] != "pass" for check in report["checks"]) >= 4
    for text in shown:
        assert "you returned  " not in text and "expected  " not in text, "values"
        assert "2 ×" not in text, "a fact from which values can be worked out"
        if reveal == "verdict":
            assert SECRET_SEED not in text and "--case" not in text and "--seed" not in text, "the seed"
            assert not re.search(r"\b[ABC]=\d|of shape \(|\d\.\d{3}", text.replace(str(folder), "")), "dims or inputs"
            assert "seen" not in text, "what the submission printed"
        else:
            assert "of shape (" in text and SECRET_SEED in text, "a summary shows the call, and the seed that draws it"
    if reveal == "verdict":
        assert report["seed"] is None and "output" not in report
        assert all(check["case"] is None for check in report["checks"])
        assert "Your function raised ValueError." in shown[1]
        assert "Values differ from the reference." in shown[1]


def test_saving_a_case_follows_reveal(hidden: tuple[str, Path], command: Command) -> None:
    reveal, folder = hidden
    options = ("--seed", SECRET_SEED, "--isolation", "off", "--exercises", folder / "exercises", "--save-case", "out")
    ran = command("grade", "softmax", *options, cwd=folder)
    if reveal == "verdict":
        assert ran.code == 2 and "not shown" in ran.err and not (folder / "out").exists()
    else:
        assert sorted(path.name for path in (folder / "out").iterdir()) == ["inputs.npz", "run_case.py"]
        assert "expected" not in (folder / "out" / "run_case.py").read_text(encoding="utf-8")


# --- a case as files --------------------------------------------------------------------------------------------------


def run_script(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(folder / "run_case.py")], capture_output=True, text=True, cwd="/", timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_saved_case_runs_by_itself(command: Command, tmp_path: Path) -> None:
    hand_in(PAGES["values_and_cause"], tmp_path)
    ran = command("grade", "softmax", *COMMON, "--save-case", "deep/out")
    assert "saved the case 7:" in ran.out and ran.code == 1
    folder = tmp_path / "deep" / "out"
    inputs, expected = np.load(folder / "inputs.npz"), np.load(folder / "expected.npz")
    assert list(inputs) == ["x"] and list(expected) == ["result"]
    x = inputs["x"]
    out = run_script(folder)
    axis = int(re.search(r"^axis = (-?\d+)$", (folder / "run_case.py").read_text(encoding="utf-8"), re.M)[1])  # type: ignore[index]
    weights = np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)
    np.testing.assert_allclose(expected["result"], weights, rtol=1e-12)
    assert out == f"result:\n{x / x.sum(axis=axis, keepdims=True)}\nexpected:\n{expected['result']}\n"


def test_a_named_case_is_saved_with_nested_tensors(command: Command, tmp_path: Path) -> None:
    hand_in(PAGES["values_in_one_tensor_of_a_list"], tmp_path)
    command("grade", "clip_gradients", *COMMON[2:], "--case", "7:none_in_place", "--save-case", "out")
    assert sorted(np.load(tmp_path / "out" / "inputs.npz")) == ["grads[1]", "grads[3]"]
    out = run_script(tmp_path / "out")
    assert out.startswith("result:\n[None, tensor(") and "expected:\n[None, array(" in out


def test_a_saved_case_answers_the_calls_of_a_function_handed_in(command: Command, tmp_path: Path) -> None:
    hand_in(PAGES["length_of_a_list"], tmp_path)
    page = command("grade", "greedy_decode", *COMMON, "--save-case", "out").out
    got, wanted = re.findall(r"(?:you returned|expected)  +(\[.*\])", page)[:2]
    assert run_script(tmp_path / "out") == f"result:\n{got}\nexpected:\n{wanted}\n"


def test_the_dtype_that_fails_is_the_one_saved(command: Command, tmp_path: Path) -> None:
    (tmp_path / "softmax.py").write_text(
        "import numpy as np\n\n\ndef softmax(x, axis):\n    e = np.exp(x - x.max(axis=axis, keepdims=True))\n"
        "    e = e / e.sum(axis=axis, keepdims=True)\n    return e if x.dtype == np.float64 else 2 * e\n",
        encoding="utf-8",
    )
    page = command("grade", "softmax", *COMMON, "--save-case", "out").out
    assert " in float32" in page
    assert np.load(tmp_path / "out" / "inputs.npz")["x"].dtype == np.float32


def test_nothing_is_saved_where_nothing_fails(command: Command, tmp_path: Path) -> None:
    (tmp_path / "softmax.py").write_text(
        (ROOT / "reference" / "attention" / "softmax" / "solution.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    ran = command("grade", "softmax", *COMMON, "--save-case", "out")
    assert ran.code == 0 and "no case was saved" in ran.out and not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_said(command: Command, tmp_path: Path) -> None:
    hand_in(PAGES["values_and_cause"], tmp_path)
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    ran = command("grade", "softmax", *COMMON, "--save-case", "taken/out")
    assert ran.code == 2 and "cannot be written" in ran.err
