"""Expected values and what may differ from them: honest rounding far below, every real mistake far above."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toys import exercise, graded, submission, verdicts

from grader import cases, compare
from grader.errors import AuthorError, GraderFault
from grader.oracle import ReferenceOracle, golden_gap
from grader.sandbox.protocol import Array
from grader.sandbox.runner import Limits, Runner
from grader.spec.exercise import Exercise
from grader.submission import Student
from grader.trial import Trial, make_plan, settle

Warm = Callable[[str], Runner]
SEEDS = (1, 2, 3, 4)

NORM = """
framework: numpy
dims: {N: 2..5, d: 3..8}
inputs:
  x: {shape: [N, d]}
  w: {shape: [d]}
  b: {shape: [d]}
cases:
  random: 3
  edge:
    tiny: {title: tiny variance, inputs: {x: {scale: 3.0e-3}, b: {scale: 0}}}
checks: [{kind: values}]
"""
NORM_SOLUTION = """
import numpy as np

def toy(x, w, b):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + x.dtype.type(1e-5)) * w + b
"""
GELU = """
framework: numpy
inputs: {x: {shape: [60], scale: 2}}
cases: {random: 3}
checks: [{kind: values}]
"""
GELU_SOLUTION = """
import numpy as np

def toy(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi).astype(x.dtype) * (x + 0.044715 * x ** 3)))
"""


def ratios(toy: Exercise, source: str, runner: Runner, dtype: str, seeds: tuple[int, ...] = SEEDS) -> dict[str, float]:
    """The largest error of a source per case name, as a multiple of what is allowed."""
    worst: dict[str, float] = {}
    student = Student(runner, toy, submission(source), None, Limits.of(10))
    oracle = ReferenceOracle(runner, toy)
    try:
        for seed in seeds:
            plan = settle(toy, oracle, make_plan(toy, oracle, seed))
            trial = Trial(toy, plan, student, oracle)
            for case, own in plan.select(None, [dtype]):
                outcome = trial.outcome(case, own)
                assert outcome.returned, outcome
                ratio = compare.margin(outcome.value, trial.expected(case, own), toy.spec.output)
                worst[case.name] = max(worst.get(case.name, 0.0), ratio)
    finally:
        student.close()
        oracle.close()
    return worst


HONEST = {
    "var": """
        import numpy as np
        def toy(x, w, b):
            return w * ((x - x.mean(-1)[:, None]) / (x.var(-1)[:, None] + 1e-5) ** 0.5) + b
        """,
    "loop": """
        import numpy as np
        def toy(x, w, b):
            out = np.empty_like(x)
            for i, row in enumerate(x):
                m = sum(row) / len(row)
                v = sum((r - m) * (r - m) for r in row) / len(row)
                out[i] = (row - m) * w * (1 / np.sqrt(v + 1e-5)) + b
            return out
        """,
    "einsum": """
        import numpy as np
        def toy(x, w, b):
            c = x - np.einsum("nd->n", x)[:, None] / np.array(x.shape[1], x.dtype)
            v = np.einsum("nd,nd->n", c, c) / np.array(x.shape[1], x.dtype)
            return (c.T / np.sqrt(v + np.array(1e-5, x.dtype))).T * w + b
        """,
    "moments": """
        import numpy as np
        def toy(x, w, b):
            m = x.mean(-1, keepdims=True)
            v = (x ** 2).mean(-1, keepdims=True) - m ** 2
            return (x - m) / np.sqrt(v + 1e-5) * w + b
        """,
}


@pytest.mark.parametrize("style", sorted(HONEST))
def test_honest_code_in_any_style_is_far_below_the_tolerance(style: str, warm: Warm, tmp_path: Path) -> None:
    toy = exercise(tmp_path, NORM, NORM_SOLUTION)
    wide = ratios(toy, HONEST[style], warm("numpy"), "float64")
    assert max(wide.values()) < 1e-3, wide
    narrow = ratios(toy, HONEST[style], warm("numpy"), "float32")
    assert max(narrow.values()) < 0.6, narrow


@pytest.mark.parametrize("epsilon", ["1e-6", "1e-4", "1e-8", "0", "1.1e-5"])
def test_another_epsilon_is_seen_on_rows_of_tiny_variance(epsilon: str, warm: Warm, tmp_path: Path) -> None:
    toy = exercise(tmp_path, NORM, NORM_SOLUTION)
    found = ratios(toy, HONEST["var"].replace("1e-5", epsilon), warm("numpy"), "float64", (1, 2))
    assert found["tiny"] > 1000, found


def test_an_epsilon_outside_the_root_is_seen(warm: Warm, tmp_path: Path) -> None:
    toy = exercise(tmp_path, NORM, NORM_SOLUTION)
    source = HONEST["var"].replace("(x.var(-1)[:, None] + 1e-5) ** 0.5", "(x.var(-1)[:, None] ** 0.5 + 1e-5)")
    found = ratios(toy, source, warm("numpy"), "float64", (1, 2))
    assert found["tiny"] > 1000 and found["random"] > 10, found


def gelu(constant: str = "0.044715", root: str = "np.sqrt(2 / np.pi)", whole: str | None = None) -> str:
    body = whole or f"0.5 * x * (1 + np.tanh(x.dtype.type({root}) * (x + x.dtype.type({constant}) * x ** 3)))"
    return f"import math\nimport numpy as np\ndef toy(x):\n    return {body}\n"


@pytest.mark.parametrize(
    ("source", "low", "high"),
    [
        (gelu(whole="0.5 * (x + x * np.tanh(0.7978845608028654 * x * (1 + 0.044715 * x * x)))"), 0.0, 1e-3),
        (gelu(root="0.79788456"), 1e-5, 0.9),
        (gelu(root="np.float32(0.7978845608028654)"), 1e-5, 0.9),
        (gelu(constant="np.float32(0.044715)"), 0.0, 0.9),
        (gelu(constant="0.0447"), 3, np.inf),
        (gelu(root="0.8"), 100, np.inf),
        (gelu(whole="np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x])"), 100, np.inf),
    ],
    ids=["rewritten", "eight digits", "float32 root", "float32 constant", "0.0447", "0.8", "erf"],
)
def test_constants_rounded_to_float32_pass_and_others_do_not(
    source: str, low: float, high: float, warm: Warm, tmp_path: Path
) -> None:
    toy = exercise(tmp_path, GELU, GELU_SOLUTION)
    found = ratios(toy, source, warm("numpy"), "float64")["random"]
    assert low <= found <= high


def test_a_small_output_is_judged_by_the_inputs_that_reach_it(warm: Warm, tmp_path: Path) -> None:
    """Beside an input of scale 1, squares of 1e-6 would drown in a tolerance made for sums that cancel."""
    body = """
    framework: numpy
    inputs: {p: {shape: [4]}, g: {shape: [4], scale: 1.0e-8}}
    output: {kind: tuple, items: {p: {}, v: {}}}
    cases: {random: 2}
    checks: [{kind: values}]
    """
    toy = exercise(tmp_path, body, "def toy(p, g):\n    return p - g, g * g\n")
    assert ratios(toy, "def toy(p, g):\n    return p - g, g ** 2\n", warm("numpy"), "float64")["random"] < 1e-2
    assert ratios(toy, "def toy(p, g):\n    return p - g, 1.001 * g ** 2\n", warm("numpy"), "float64")["random"] > 100


def test_an_answer_that_is_zero_allows_for_what_cancels(warm: Warm, tmp_path: Path) -> None:
    """The loss of a vocabulary of one: exactly 0 in the reference, and a rounding of the logit in other honest code."""
    body = """
    framework: numpy
    inputs: {x: {shape: [9], scale: 2}}
    cases: {random: 3}
    checks: [{kind: values}]
    """
    toy = exercise(tmp_path, body, "import numpy as np\ndef toy(x):\n    return np.log(np.exp(x - x)) + x - x\n")
    honest = "import numpy as np\ndef toy(x):\n    return np.log(np.exp(x)) - x\n"
    assert ratios(toy, honest, warm("numpy"), "float64")["random"] < 1
    assert ratios(toy, honest.replace("- x", "- x + 1e-13"), warm("numpy"), "float64")["random"] > 10


def test_narrow_results_are_judged_on_the_bits_they_were_given(warm: Warm, tmp_path: Path) -> None:
    body = """
    framework: torch
    dtypes: [float64, float16, bfloat16]
    inputs: {x: {shape: [50]}}
    cases: {random: 2}
    checks: [{kind: values}]
    """
    toy = exercise(tmp_path, body, "def toy(x):\n    return x * 1\n")
    oracle = ReferenceOracle(warm("torch"), toy)
    try:
        case = make_plan(toy, oracle, 1).cases[0][0]
        for dtype, ulp in (("float16", 2.0**-10), ("bfloat16", 2.0**-7)):
            leaf = oracle.expected(case, dtype).leaves[0]
            given = cases.arguments(case, "torch", dtype)[0]
            assert np.array_equal(leaf.expected.numbers(), given.numbers())
            assert leaf.allowed <= 8 * ulp * np.abs(given.numbers()).max()
    finally:
        oracle.close()
    assert ratios(toy, "def toy(x):\n    return x + 0\n", warm("torch"), "bfloat16")["random"] == 0


# --- cases without a sharp answer --------------------------------------------------------------------------------------


def plan_of(toy: Exercise, runner: Runner, seed: int = 1) -> list[Any]:
    oracle = ReferenceOracle(runner, toy)
    try:
        return [case for case, _ in settle(toy, oracle, make_plan(toy, oracle, seed)).cases]
    finally:
        oracle.close()


def test_an_ill_conditioned_random_case_is_drawn_again_and_can_be_replayed(warm: Warm, tmp_path: Path) -> None:
    body = """
    framework: numpy
    inputs: {x: {shape: [5]}, wild: {choices: [0, 1]}}
    cases: {random: 6}
    checks: [{kind: values}]
    """
    toy = exercise(tmp_path, body, "import numpy as np\ndef toy(x, wild):\n    return np.sin(1e9 * x) if wild else x\n")
    drawn = plan_of(toy, warm("numpy"))
    assert [case.arguments["wild"] for case in drawn] == [0] * 6
    redrawn = [case for case in drawn if case.index >= 1000]
    assert redrawn and [case.number for case in drawn] == [1, 2, 3, 4, 5, 6]
    report = graded(toy, "def toy(x, wild):\n    return x + 1\n", warm("numpy"), case=redrawn[0].token)
    assert verdicts(report) == {"values": "fail"} and report.seed == 1


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("np.sin(1e9 * x)", "a relative change of 6e-8 moves the result"),
        ("np.floor(1e10 * x).astype(int) % 2", "changes with the last bits"),
    ],
)
def test_an_ill_conditioned_named_case_is_the_authors_error(
    reference: str, says: str, warm: Warm, tmp_path: Path
) -> None:
    body = """
    framework: numpy
    inputs: {x: {shape: [40]}}
    output: {dtype: %s}
    cases: {random: 0, edge: {wild: {title: wild}}}
    checks: [{kind: values}]
    """ % ("int64" if "floor" in reference else "floats")
    toy = exercise(tmp_path, body, f"import numpy as np\ndef toy(x):\n    return np.asarray({reference})\n")
    with pytest.raises(AuthorError) as caught:
        plan_of(toy, warm("numpy"))
    assert "case `wild`" in str(caught.value) and says in str(caught.value)


def test_ties_need_an_exact_input(warm: Warm, tmp_path: Path) -> None:
    """In which order equal numbers come is told by their last bits, unless these are said to be exact."""
    body = """
    framework: numpy
    inputs: {x: {shape: [24]EXACT}}
    output: {dtype: int64}
    cases: {random: 0, edge: {tie: {title: a tie, adjust: ["x[:] = 1.5"]}}}
    checks: [{kind: values}]
    """
    solution = "import numpy as np\ndef toy(x):\n    return np.argsort(x, kind='stable')\n"
    with pytest.raises(AuthorError, match="last bits"):
        plan_of(exercise(tmp_path / "a", body.replace("EXACT", ""), solution), warm("numpy"))
    toy = exercise(tmp_path / "b", body.replace("EXACT", ", exact: true"), solution)
    assert graded(toy, solution, warm("numpy")).passed
    assert not graded(
        toy, "import numpy as np\ndef toy(x):\n    return np.argsort(-x, kind='stable')[::-1]\n", warm("numpy")
    ).passed


def test_a_reference_that_overflows_in_a_narrow_dtype_is_the_authors_error(warm: Warm, tmp_path: Path) -> None:
    body = """
    framework: numpy
    dtypes: [float16]
    inputs: {x: {shape: [5], offset: 300}}
    cases: {random: 0, edge: {square: {title: squares}}}
    checks: [{kind: values}]
    """
    with pytest.raises(AuthorError, match="overflows in float16"):
        plan_of(exercise(tmp_path, body, "def toy(x):\n    return x * x\n"), warm("numpy"))


# --- whose fault ------------------------------------------------------------------------------------------------------

GOLDEN = """
framework: numpy
inputs: {x: {shape: [2]}}
cases:
  random: 1
  examples:
    published: {title: published, inputs: {x: [1, 2]}, expected: [%s], tolerance: 1.0e-3}
checks: [{kind: values}]
"""


def test_golden_values_are_held_against_the_reference(warm: Warm, tmp_path: Path) -> None:
    double = "def toy(x):\n    return 2 * x\n"
    assert graded(exercise(tmp_path / "a", GOLDEN % "2.0009, 4", double), double, warm("numpy")).passed
    with pytest.raises(
        AuthorError, match=r"`published`: the reference differs from the published values by 0.0011"
    ) as caught:
        graded(exercise(tmp_path / "b", GOLDEN % "2.0011, 4", double), double, warm("numpy"))
    assert caught.value.exit_code == 2 and caught.value.findings[0].path.endswith("exercise.yaml")
    with pytest.raises(AuthorError, match="by inf"):
        graded(exercise(tmp_path / "c", GOLDEN % "2, 4, 6", double), double, warm("numpy"))


@pytest.mark.parametrize(
    ("value", "golden", "gap"),
    [
        (Array("ndarray", "float64", np.array([1.0, 2.0])), [1, 2.5], 0.5), (Array("ndarray", "float64", np.array([1.0])), 1, np.inf),
        (2.5, 2, 0.5), ([1.0, (2.0, 3.0)], [1, [2, 3.25]], 0.25), ([1.0], [1, 2], np.inf), ({"a": 1.0}, {"a": 3}, 2.0),
        ({"a": 1.0}, {"b": 1}, np.inf), ("x", "x", 0.0), ("x", "y", np.inf), (Array("ndarray", "float64", np.array([np.nan])), [float("nan")], 0.0),
        (Array("ndarray", "float64", np.array([np.inf])), [float("inf")], 0.0), (Array("ndarray", "float64", np.zeros((0,))), [], 0.0),
        (Array("ndarray", "int64", np.array([1, 2])), [1, 3], 1.0),
    ],
)  # fmt: skip
def test_the_gap_to_golden_values(value: Any, golden: Any, gap: float) -> None:
    assert golden_gap(value, golden) == gap


@pytest.mark.parametrize(
    ("solution", "says"),
    [
        ("def toy(x):\n    return 1 / 0\n", "ZeroDivisionError"),
        ("import os\ndef toy(x):\n    os._exit(3)\n", "ends its process"),
        ("def other(x):\n    return x\n", "cannot be loaded"),
        ("def toy(x) return x\n", "cannot be loaded"),
        ("def toy(x):\n    return None\n", "None"),
        ("def toy(x):\n    return object()\n", "object"),
    ],
)
def test_a_broken_reference_grades_nobody(solution: str, says: str, warm: Warm, tmp_path: Path) -> None:
    toy = exercise(
        tmp_path,
        "framework: numpy\ninputs: {x: {shape: [3]}}\ncases: {random: 1}\nchecks: [{kind: values}]\n",
        solution,
    )
    report = graded(toy, "def toy(x):\n    return x\n", warm("numpy"))
    assert (report.status, report.score, report.passed) == ("not_graded", None, False)
    assert report.reason is not None and says in report.reason
    assert [check.verdict for check in report.checks] == ["grader_error"]


def test_a_missing_reference_is_said(warm: Warm, tmp_path: Path) -> None:
    toy = exercise(tmp_path, "framework: numpy\ninputs: {x: {shape: [3]}}\nchecks: [{kind: values}]\n")
    with pytest.raises(GraderFault, match="reference of `toy` is missing"):
        ReferenceOracle(warm("numpy"), toy)
    assert graded(toy, "def toy(x):\n    return x\n", warm("numpy")).status == "not_graded"


def test_one_oracle_keeps_seeds_apart(warm: Warm, tmp_path: Path) -> None:
    toy = exercise(tmp_path, GELU, GELU_SOLUTION)
    oracle = ReferenceOracle(warm("numpy"), toy)
    try:
        first, second = (oracle.expected(cases.draw(toy, "random", 0, seed), "float64") for seed in (1, 2))
        assert not np.array_equal(first.value.numbers(), second.value.numbers())
        assert oracle.expected(cases.draw(toy, "random", 0, 1), "float64") is first
    finally:
        oracle.close()
