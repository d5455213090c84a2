"""The pipeline as a whole: replaying, no cases at all, unusual exercises, and submissions that try to upset the grader itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toys import check, exercise, graded, verdicts

from grader.errors import UsageError
from grader.model import Report
from grader.reports import report_json
from grader.sandbox.runner import Runner
from grader.spec.exercise import Exercise

Warm = Callable[[str], Runner]

BODY = """
framework: torch
dims: {N: 2..3, T: 4..6, k: {range: 1..2, free: true}}
inputs:
  x: {shape: [N, T]}
  y: {shape: [T], default: null}
output: {axes: [example, token]}
cases:
  random: 3
  edge:
    alone: {title: one example, dims: {N: 1}, count: 2}
    without: {title: without y, omit: [y]}
    half: {title: half precision, dtypes: [float16]}
  examples:
    given: {title: an example, inputs: {x: [[1, 2]], y: [3, 4]}, expected: [[4, 6]]}
    built: {title: a built example, from_reference: true}
checks:
  - {kind: values, cases: examples}
  - {kind: values, cases: random, dtypes: [float64], id: wide}
  - {kind: values, cases: random, dtypes: [float32], id: narrow}
  - {kind: values, cases: edge}
  - {kind: inputs_unchanged}
  - {kind: repeatable}
  - {kind: independent, inputs: {x: 0}, output: 0}
  - {kind: reads, inputs: {x: 1}, output: 1, cases: alone}
  - {kind: ignores, what: ["x[:, :0]"]}
  - {kind: gradients}
  - {kind: device}
  - {kind: precision}
  - {kind: strided}
  - {kind: peak_memory, below: "1e6"}
"""
SOLUTION = """
import torch
def toy(x, y=None):
    return x + (0 if y is None else y) + 0 * x.mean(1, keepdim=True)
def cases(rng):
    return {"built": {"x": torch.tensor([[5.0, 6.0, 7.0]], dtype=torch.float64), "y": torch.zeros(3, dtype=torch.float64)}}
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Exercise:
    body = BODY.replace(
        "reads, inputs: {x: 1}, output: 1, cases: alone", "causal, inputs: {x: 1}, output: 1, cases: random"
    )
    solution = SOLUTION.replace(" + 0 * x.mean(1, keepdim=True)", "")
    return exercise(tmp_path_factory.mktemp("grade"), body, solution)


RIGHT = "def toy(x, y=None):\n    return x.clone() if y is None else y + x\n"
WRONG = "def toy(x, y=None):\n    return x.clone() if y is None else y + 2 * x\n"


def bare(report: Report) -> Report:
    """A report without what may differ between two runs: only durations."""
    checks = tuple(replace(result, seconds=0.0) for result in report.checks)
    return replace(report, timings={}, checks=checks)


def test_same_seed_same_report_in_any_company(toy: Exercise, warm: Warm) -> None:
    for source in (RIGHT, WRONG):
        first, second = (bare(graded(toy, source, warm("torch"), 9)) for _ in range(2))
        assert first == second
    assert bare(graded(toy, WRONG, warm("torch"), 10)) != bare(graded(toy, WRONG, warm("torch"), 9))


def test_everything_passes_and_what_has_no_case_is_nobodys_fault(toy: Exercise, warm: Warm) -> None:
    report = graded(toy, RIGHT, warm("torch"))
    found = verdicts(report)
    # Nothing can be filled in a slice that is always empty: the exercise's doing, so its points are given.
    assert (
        found.pop("ignores") == "skipped"
        and check(report, "ignores").neutral
        and check(report, "ignores").cause == "no_case"
    )
    assert set(found.values()) == {"pass"}, [(c.id, c.message) for c in report.checks if c.verdict != "pass"]
    assert report.passed and report.score == report.max_score


# --- no cases ---------------------------------------------------------------------------------------------------------


def test_without_random_cases_nothing_is_said_of_them(toy: Exercise, warm: Warm) -> None:
    """`--cases 0` runs what is named. What found no case is skipped, gives no points, and no pass either."""
    report = graded(toy, RIGHT, warm("torch"), cases=0)
    found = verdicts(report)
    on_random = {"wide", "narrow", "independent", "causal", "ignores", "gradients", "device", "precision", "strided"}
    assert {name for name, verdict in found.items() if verdict == "skipped"} == on_random
    assert {found[name] for name in found if name not in on_random} == {"pass"}
    for name in on_random:
        result = check(report, name)
        assert (result.cause, result.points, result.neutral) == ("no_case", 0, False), name
        assert "no case was drawn for it" in result.message
    assert not report.passed
    assert verdicts(graded(toy, RIGHT, warm("torch"), cases=1)) == verdicts(graded(toy, RIGHT, warm("torch")))


# --- replaying --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "token",
    ["7:random-0", "7:random-2", "7:random-1004", "7:alone", "7:alone-1", "7:without", "7:half", "7:given", "7:built"],
)
def test_one_case_of_any_group_can_be_replayed(token: str, toy: Exercise, warm: Warm) -> None:
    report = graded(toy, RIGHT, warm("torch"), case=token)
    found = verdicts(report)
    assert report.passed and report.seed == 7, found
    group = "random" if "random" in token else token.partition(":")[2].partition("-")[0]
    expected = {"wide", "narrow"} if group == "random" else {group}
    assert expected <= set(found) and {"inputs_unchanged", "repeatable"} <= set(found)
    assert ("gradients" in found) == ("device" in found) == ("causal" in found) == (group == "random")
    wrong = graded(toy, WRONG, warm("torch"), case=token)
    assert wrong.passed == (group == "without")


def test_a_number_means_the_case_that_the_whole_run_counted(toy: Exercise, warm: Warm) -> None:
    for count in (None, 1):
        whole = graded(toy, "def toy(x, y=None):\n    return x * 3 + 1\n", warm("torch"), 7, cases=count)
        for result in whole.checks:
            if result.case is None or result.verdict != "fail" or "=" in result.case.token:
                continue
            replayed = graded(
                toy,
                "def toy(x, y=None):\n    return x * 3 + 1\n",
                warm("torch"),
                7,
                cases=count,
                case=str(result.case.number),
            )
            again = next((c for c in replayed.checks if c.id == result.id and c.case is not None), None)
            assert again is not None and again.case is not None
            # Alone, it may be shown on a smaller size: the token is then longer, and of the same case.
            assert again.case.name == result.case.name and again.case.token.startswith(result.case.token)


@pytest.mark.parametrize(
    "token",
    [
        "7:nothing", "7:random-x", "7:random-²", "7:random-" + "1" * 5000, "0", "99", "²", "1" * 5000, "7:random-0:T=0", "7:random-0:T=999999999",
        "7:random-0:zzz=1", "7:given:T=3:", "nothing", "7:alone:N=9",
    ],
)  # fmt: skip
def test_a_token_of_no_case_is_wrong_usage(token: str, toy: Exercise, warm: Warm) -> None:
    with pytest.raises(UsageError):
        report = graded(toy, RIGHT, warm("torch"), 7, case=token)
        # A size below the range is a smaller case, which shrinking may reach too.
        assert token.endswith("T=0") and report.status == "graded"
        raise UsageError("as good as refused")


def test_a_case_that_no_check_looks_at_cannot_be_replayed(warm: Warm, tmp_path: Path) -> None:
    body = """
    framework: numpy
    inputs: {x: {shape: [3]}}
    cases: {random: 2, edge: {seen: {title: seen}, unseen: {title: unseen}}}
    checks: [{kind: values, cases: seen}, {kind: strided}]
    """
    toy = exercise(tmp_path, body, "def toy(x):\n    return x\n")
    assert graded(toy, "def toy(x):\n    return x\n", warm("numpy"), case="1:seen").passed
    with pytest.raises(UsageError, match="no check of `toy` that counts looks at the case `unseen`"):
        graded(toy, "def toy(x):\n    return x\n", warm("numpy"), case="1:unseen")


# --- exercises of an unusual kind --------------------------------------------------------------------------------------


def test_an_exercise_without_any_float(warm: Warm, tmp_path: Path) -> None:
    body = """
    framework: numpy
    dtypes: [float64]
    dims: {n: 2..9}
    inputs: {n: {value: n}, keep: {kind: booleans, shape: [n]}, ids: {kind: ids, shape: [n], below: 5}}
    output: {dtype: int64}
    checks:
      - {kind: values}
      - {kind: inputs_unchanged}
      - {kind: repeatable}
      - {kind: reads, inputs: {ids: 0}, output: 0}
      - {kind: causal, inputs: {ids: 0, keep: 0}, output: 0}
      - {kind: precision}
      - {kind: strided}
    """.replace("n: {value: n}, ", "count: {value: n}, ")
    solution = "import numpy as np\ndef toy(count, keep, ids):\n    return np.cumsum(np.where(keep, ids, -ids)) + count + ids\n"
    toy = exercise(tmp_path, body, solution)
    for seed in (1, 2, 3):
        report = graded(
            toy,
            "import numpy as np\ndef toy(n, k, i):\n    return n + i + ((2 * k - 1) * i).cumsum()\n",
            warm("numpy"),
            seed,
        )
        found = verdicts(report)
        assert found.pop("precision") == "skipped" and set(found.values()) == {"pass"}
        assert report.passed, "what nothing continuous can show is not held against anyone"
    assert verdicts(graded(toy, solution.replace("+ count", "+ count + 1"), warm("numpy")))["values"] == "fail"
    assert (
        verdicts(graded(toy, solution.replace("np.cumsum(np.where(keep, ids, -ids))", "0 * keep"), warm("numpy")))[
            "reads"
        ]
        == "fail"
    )
    assert verdicts(graded(toy, solution.replace("+ ids\n", "+ ids.sum()\n"), warm("numpy")))["causal"] == "fail"


def test_results_that_are_empty(warm: Warm, tmp_path: Path) -> None:
    body = """
    framework: torch
    dims: {N: 2..3, T: 4..5, Z: {range: 0..0, free: true}}
    inputs: {x: {shape: [N, Z, T]}}
    cases: {random: 2, edge: {full: {title: not empty, dims: {Z: 2}}}}
    checks:
      - {kind: values}
      - {kind: inputs_unchanged}
      - {kind: repeatable}
      - {kind: independent, inputs: {x: 0}, output: 0}
      - {kind: causal, inputs: {x: 2}, output: 1}
      - {kind: gradients}
      - {kind: device}
      - {kind: precision}
      - {kind: strided}
    """
    solution = "def toy(x):\n    return x.cumsum(2)[:, 0] if x.shape[1] else x[:, 0:1].reshape(len(x), 0)\n"
    toy = exercise(tmp_path, body, solution)
    report = graded(toy, solution, warm("torch"))
    found = verdicts(report)
    assert report.passed, [(c.id, c.verdict, c.message) for c in report.checks]
    assert found["values"] == found["independent"] == found["gradients"] == found["device"] == "pass"
    assert verdicts(graded(toy, solution.replace("0)", "1)"), warm("torch")))["values"] in ("fail", "error")
    assert check(graded(toy, "def toy(x):\n    return x.new_zeros(0)\n", warm("torch")), "values").cause == "shape"


# --- submissions that try to upset the grader -------------------------------------------------------------------------

NUMPY = """
framework: numpy
inputs: {x: {shape: [3, 4]}}
cases: {random: 12}
checks: [{kind: values}, {kind: inputs_unchanged}, {kind: repeatable}, {kind: strided}]
"""


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        ("np.zeros((3000, 4000))", "shape"), ("np.zeros((1 << 25) + 1)", "output_too_large"), ("np.broadcast_to(x[0, 0], (6000, 6000))", "output_too_large"),
        ("np.zeros((0, 1 << 40))", None), ("10**299", "type"), ("10**5000", "unsupported_result"), ("float('nan')", "type"), ("[x] * 5_000", "type"),
        ("{i: i for i in range(100_000)}", "output_too_large"), ("'x' * 3_000_000", "type"), ("'x' * 5_000_000", "output_too_large"), ("x.view(np.complex128)", "unsupported_result"),
        ("x * 1e308 * 10", "inf"), ("np.float64('nan') * x", "nan"), ("range(3)", "type"), ("(i for i in x)", "type"), ("[[[[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]]]", "type"),
    ],
)  # fmt: skip
def test_results_of_absurd_size_or_kind(value: str, cause: str | None, warm: Warm, tmp_path: Path) -> None:
    toy = exercise(tmp_path, NUMPY, "def toy(x):\n    return x * 2\n")
    report = graded(toy, f"import numpy as np\ndef toy(x):\n    return {value}\n", warm("numpy"), cases=2)
    assert (
        report.status == "graded"
        and not report.passed
        and report.checks[0].verdict in ("fail", "error", "crashed", "memory")
    )
    assert cause is None or report.checks[0].cause in (cause, "unsupported_result"), report.checks[0]
    report_json.render(report)


def test_results_cannot_fill_the_graders_memory(warm: Warm, tmp_path: Path) -> None:
    """Two dozen results of 120 MB are more than anyone wants to keep; after the first gigabyte they are not read."""
    toy = exercise(tmp_path, NUMPY, "def toy(x):\n    return x * 2\n")
    source = "import numpy as np\ndef toy(x):\n    return np.zeros(15_000_000)\n"
    report = graded(toy, source, warm("numpy"), memory_limit=4096)
    found = check(report, "values")
    assert report.status == "graded" and (found.verdict, found.cause) == ("fail", "shape")


FORGE = """
import json, os, struct, sys
def forge(header):
    text = json.dumps({"sizes": [], **header}).encode()
    frame = struct.pack(">IQ", len(text), 0) + text
    for fd in range(3, 64):
        try:
            os.write(fd, frame)
        except OSError:
            pass
    os._exit(0)
def toy(x):
    forge(HEADER)
"""
PLAIN = '"id": 0, "status": "returned"'


@pytest.mark.parametrize(
    "header",
    [
        '{%s, "seconds": 10**4000, "value": 1}' % PLAIN,
        '{%s, "seconds": float("nan"), "value": {"D": [["result", 3], ["inputs", None]]}}' % PLAIN,
        '{%s, "seconds": -1, "value": {"D": [["result", {"i": "9" * 390}]]}, "changed": 3}' % PLAIN,
        '{%s, "value": {"D": [["result", 10**400]]}}' % PLAIN,
        '{%s, "value": {"D": [["result", {"a": "ndarray", "d": "float64", "s": [0, 1 << 28, 1 << 28, 1 << 28], "b": 0}]]}, "sizes": [0]}' % PLAIN,
        '{%s, "value": {"D": [["result", None]]}, "changed": [{"argument": 0, "path": {"a": 1}, "what": ["b"]}] * 3}' % PLAIN,
        '{%s, "value": {"D": [["result", {"o": ["\\x1b[31m" * 9, "no"]}]]}}' % PLAIN,
        '{"id": 0, "status": "raised", "error": {"type": 3, "message": ["x"], "cause": {"a": 1}, "frames": {"a": 1}}}',
        '{"id": 0, "status": "raised", "error": {"type": "E", "message": "\\x1b]0;t\\x07", "cause": "forbidden_operation", "frames": [{"line": 10**300}]}}',
        '{"id": 0, "status": "raised", "error": None, "seconds": "x"}',
        '{"status": 7, "value": {"D": [["result", 1]]}}',
        '{"callback": ["a"], "args": {"L": [1]}}',
        '{}',
    ],
)  # fmt: skip
def test_forged_replies_end_in_a_true_report(header: str, warm: Warm, tmp_path: Path) -> None:
    toy = exercise(tmp_path, NUMPY, "def toy(x):\n    return x * 2\n")
    report = graded(toy, FORGE.replace("HEADER", header), warm("numpy"), cases=2)
    assert report.status == "graded", report.reason
    # What a worker says of its inputs is its word; without right values it gains nothing that matters.
    assert not report.passed and report.checks[0].points == 0
    text = report_json.render(report)
    assert "NaN" not in text and "Infinity" not in text and "\x1b" not in text and "\\u001b" not in text


def test_how_loading_ended_is_told_apart(warm: Warm, tmp_path: Path) -> None:
    toy = exercise(tmp_path, NUMPY, "def toy(x):\n    return x * 2\n")
    ends = {"os._exit(0)": "exited", "ctypes.string_at(0)": "signal"}
    for end, cause in ends.items():
        first = graded(toy, f"import ctypes, os\n{end}\ndef toy(x):\n    return x\n", warm("numpy")).checks[0]
        assert (first.verdict, first.cause) == ("crashed", cause)


def checks_of(report: Report) -> list[tuple[str, Any]]:
    return [(result.id, result.verdict) for result in report.checks]


def test_a_submission_that_stops_working_is_not_run_on(warm: Warm, tmp_path: Path) -> None:
    toy = exercise(tmp_path, NUMPY, "def toy(x):\n    return x * 2\n")
    report = graded(toy, "def toy(x):\n    while True: pass\n", warm("numpy"), time_limit=0.3)
    assert report.checks[0].verdict == "timeout" and report.score == 0 and not report.passed
    assert {result.verdict for result in report.checks[1:]} == {"skipped"}
    crashing = graded(toy, "import os\ndef toy(x):\n    os._exit(1)\n", warm("numpy"))
    assert checks_of(crashing)[0] == ("values", "crashed")
    assert not any(result.neutral for result in (*report.checks, *crashing.checks))
