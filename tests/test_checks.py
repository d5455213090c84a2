"""Every kind of check against honest answers in many styles and against the mistakes it exists for, through real workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from toys import check, exercise, graded, text, verdicts

from grader.checks.registry import CHECKS
from grader.sandbox.runner import Runner
from grader.spec.exercise import Exercise
from grader.spec.schema import CHECK_KINDS

Warm = Callable[[str], Runner]
SEEDS = (1, 2, 3)

MIX = """
framework: torch
dims: {N: 2..3, T: 4..6, d: 7..9}
inputs:
  x: {shape: [N, T, d]}
  w: {shape: [d, d], scale: 0.4}
  spare: {shape: [3, d]}
output: {axes: [example, token, feature], shape: [N, T, d]}
cases: {random: 3, edge: {one_token: {title: one token, dims: {T: 1}}}}
checks:
  - {kind: values, cases: random}
  - {kind: values, cases: edge}
  - {kind: inputs_unchanged}
  - {kind: repeatable}
  - {kind: independent, inputs: {x: 0}, output: 0}
  - {kind: causal, inputs: {x: 1}, output: 1}
  - {kind: reads, inputs: {x: -1}, output: -1, points: 2}
  - {kind: ignores, what: ["spare[1:]"]}
  - {kind: gradients, zero: ["spare[1:]"]}
  - {kind: device}
  - {kind: precision}
  - {kind: strided}
  - {kind: source, forbid: [F.scaled_dot_product_attention], require: [torch.softmax]}
  - {kind: peak_memory, cases: random, below: "40 * N * T * (T + d) * itemsize"}
limits: {time: 1, memory: 512}
"""
RIGHT = """
import torch
def toy(x, w, spare):
    scores = x @ x.transpose(1, 2) / x.shape[-1] ** 0.5
    hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
    scores = scores.masked_fill(hidden, float("-inf"))
    return torch.softmax(scores, dim=-1) @ x @ w + spare[0]
"""
HONEST = {
    "reference": RIGHT,
    "einsum": """
        import torch
        import math
        def toy(q, matrix, extra):
            n, t, d = q.shape
            a = torch.einsum("nid,njd->nij", q, q) / math.sqrt(d)
            a = torch.where(torch.arange(t, device=q.device)[:, None] >= torch.arange(t, device=q.device), a, -torch.inf)
            return torch.einsum("nij,njd,de->nie", torch.softmax(a, -1), q, matrix) + extra[:1]
        """,
    "loops": """
        import torch
        def toy(x, w, spare):
            rows = []
            for example in x:
                for t in range(len(example)):
                    seen = example[: t + 1]
                    weights = torch.softmax((seen @ example[t]) / x.size(-1) ** 0.5, 0)
                    rows.append((weights @ seen) @ w + spare[0])
            return torch.stack(rows).reshape(x.shape)
        """,
    "by hand": """
        import torch
        def softmax(z):
            e = torch.exp(z - z.amax(dim=-1, keepdim=True))
            return e / e.sum(-1, keepdim=True)
        def toy(x, w, spare):
            _ = torch.softmax(x, -1)
            mask = torch.full((x.shape[1], x.shape[1]), -torch.inf, dtype=x.dtype, device=x.device).triu(1)
            return softmax(x.matmul(x.mT) / x.shape[2] ** 0.5 + mask).bmm(x).matmul(w).add(spare[0])
        """,
    "module": """
        import torch
        from torch import nn
        class Mix(nn.Module):
            def forward(self, x, w):
                s = torch.baddbmm(x.new_zeros(x.shape[0], x.shape[1], x.shape[1]), x, x.transpose(-1, -2), alpha=x.shape[-1] ** -0.5)
                s = s.tril() + torch.zeros_like(s).masked_fill_(~torch.ones_like(s, dtype=torch.bool).tril(), float("-inf"))
                return torch.softmax(s, 2) @ (x @ w)
        mix = Mix()
        def toy(x, w, spare):
            return mix(x, w) + spare[0].expand_as(x)
        """,
    "cached mask": """
        import torch
        from functools import lru_cache
        @lru_cache
        def hidden(t, device):
            return torch.ones(t, t, dtype=torch.bool, device=device).triu(1)
        def toy(x, w, spare):
            s = (x / x.shape[-1] ** 0.25) @ (x / x.shape[-1] ** 0.25).transpose(-2, -1)
            s = s.clone()
            s[:, hidden(x.shape[1], x.device)] = -torch.inf
            p = torch.softmax(s, dim=-1)
            return torch.nn.functional.linear(p @ x, w.T) + spare.unbind()[0]
        """,
    "log space": """
        import torch
        def toy(x, w, spare):
            s = torch.bmm(x, x.permute(0, 2, 1)).div(x.shape[-1] ** 0.5)
            keep = torch.ones_like(s[0]).tril().bool()
            s = s.masked_fill(keep.logical_not(), torch.finfo(s.dtype).min)
            p = (s - s.logsumexp(-1, keepdim=True)).exp() * keep
            assert torch.softmax(s.detach(), -1).shape == p.shape
            return (p @ (x @ w)).contiguous() + spare[0]
        """,
    "copies": """
        import torch
        def toy(x, w, spare):
            x, w, spare = x.clone(), w.clone(), spare.clone()
            x *= 1
            s = x @ x.swapaxes(1, 2)
            s *= x.shape[-1] ** -0.5
            s += torch.tensor([[0.0 if j <= i else float("-inf") for j in range(x.shape[1])] for i in range(x.shape[1])], dtype=x.dtype, device=x.device)
            out = torch.empty_like(x)
            out[:] = torch.softmax(s, -1) @ x @ w
            out += spare[0]
            return out
        """,
}
IDS = [
    "values", "one_token", "inputs_unchanged", "repeatable", "independent", "causal", "reads", "ignores", "gradients", "device", "precision",
    "strided", "source", "peak_memory",
]  # fmt: skip


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> Exercise:
    return exercise(tmp_path_factory.mktemp("mix"), MIX, RIGHT)


def test_every_kind_of_check_is_in_the_table() -> None:
    assert set(CHECKS) == set(CHECK_KINDS)


@pytest.mark.parametrize("style", sorted(HONEST))
def test_an_honest_answer_passes_every_check_on_every_seed(style: str, mix: Exercise, warm: Warm) -> None:
    for seed in SEEDS:
        report = graded(mix, HONEST[style], warm("torch"), seed)
        assert verdicts(report) == dict.fromkeys(IDS, "pass"), [
            (c.id, c.message) for c in report.checks if c.verdict != "pass"
        ]
        assert report.passed and report.score == report.max_score == 15


def body(*lines: str, last: str = "return out", before: str = "") -> str:
    """The right answer, with lines after its result."""
    start = (
        "import torch\nimport functools\n"
        + text(before)
        + text(RIGHT).replace("import torch\n", "").replace("return ", "out = ")
    )
    return start + "".join(f"    {line}\n" for line in (*lines, last))


CALLED = "calls = [0]\nseen = {}\n"
WRONG = {
    "a batch statistic": ("independent", "leak", RIGHT.replace("scores = x @", "scores = 1e-3 * x.mean(0) @ x.mean(0).T + x @")),
    "the neighbour": ("independent", "leak", body("out = out + 1e-4 * out.roll(1, 0)")),
    "no mask": ("causal", "leak", RIGHT.replace("masked_fill(hidden", "masked_fill(hidden & False")),
    "a mask one off": ("causal", "leak", RIGHT.replace("triu(1)", "triu(2)")),
    "a shape that depends on others": ("independent", "leak", body("out = out[: len(x) - 1] if x[0, 0, 0] > 1e9 or calls_shape(x) else out", before="first = {}\ndef calls_shape(x):\n    old = first.setdefault(tuple(x.shape), x[0].clone())\n    return not torch.equal(old, x[0])\n")),
    "features left out": ("reads", "not_read", RIGHT.replace("@ x @ w", "@ x[..., :-1] @ w[:-1]").replace("x @ x.transpose(1, 2)", "x[..., :-1] @ x[..., :-1].transpose(1, 2)")),
    "a slot that is not used": ("ignores", "not_ignored", body("out = out + 1e-3 * spare[2]")),
    "a slot that decides the dtype": ("ignores", "not_ignored", body("out = out.float() if spare[1:].abs().max() > 100 else out")),
    "a slot that decides the type": ("ignores", "not_ignored", body("out = None if spare[1:].abs().max() > 100 else out")),
    "a slot that raises": ("ignores", "exception", body("assert spare[1:].abs().max() < 100")),
    "detach": ("gradients", "gradient_cut", body(last="return out.detach()")),
    "no_grad": ("gradients", "gradient_cut", text(RIGHT).replace("def toy", "@torch.no_grad()\ndef toy")),
    "one parameter detached": ("gradients", "gradient_missing", RIGHT.replace("@ w", "@ w.detach()")),
    "a part counted twice": ("gradients", "gradient_wrong", body("out = out + (w - w.detach()).sum()")),
    "a trace of what is unused": ("gradients", "gradient_not_zero", body("out = out + 1e-18 * (spare[1] - spare[1].detach())")),
    "in place on a leaf": ("gradients", "exception", body("spare[0] *= 1")),
    "a mask on the CPU": ("device", "device", RIGHT.replace(", device=x.device", "")),
    "a result on the CPU": ("device", "device", body(last="return out.cpu()")),
    "float32 inside": ("precision", "precision", RIGHT.replace("def toy(x, w, spare):", "def toy(x, w, spare):\n    x = x.float().to(x.dtype)")),
    "refuses more than float32 holds": ("precision", "exception", body("assert torch.equal(x, x.float().to(x.dtype))")),
    "needs contiguous inputs": ("strided", "exception", body("x.view(-1)")),
    "reads memory in its order": ("strided", "strided", RIGHT.replace("@ w ", "@ w.as_strided(w.shape, (w.shape[1], 1)) ")),
    "a forbidden call": ("source", "forbidden_call", "from torch.nn.functional import scaled_dot_product_attention as sdpa\n" + body("sdpa(x, x, x)")),
    "a missing call": ("source", "missing_call", RIGHT.replace("torch.softmax", "torch.special.softmax")),
    "a large array": ("peak_memory", "peak_memory", body("torch.zeros(500_000, dtype=x.dtype)")),
    "a large array in NumPy": ("peak_memory", "peak_memory", body("numpy.ones(500_000)", before="import numpy\n")),
    "a large list": ("peak_memory", "peak_memory", body("list(range(300_000))")),
    "writes into x": ("inputs_unchanged", "inputs_changed", body("x[0, 0, 0] += 1")),
    "asks for gradients": ("inputs_unchanged", "inputs_changed", body("w.requires_grad_(True)", last="return out.detach()")),
    "counts its calls": ("repeatable", "not_repeatable", body("calls[0] += 1", "out = out + 1e-3 * calls[0]", before=CALLED)),
    "right the first time only": ("repeatable", "not_repeatable", body("key = tuple(x.flatten()[:2].tolist())", "out = out * (1 + seen.get(key, 0))", "seen[key] = 1", before=CALLED)),
    "random": ("repeatable", "not_repeatable", body("out = out + torch.rand_like(out)")),
    "another type the second time": ("repeatable", "not_repeatable", body("key = tuple(x.flatten()[:2].tolist())", "calls[0] = seen.get(key, 0)", "seen[key] = 1", last="return object() if calls[0] else out", before=CALLED)),
}  # fmt: skip


@pytest.mark.parametrize("mistake", sorted(WRONG))
def test_a_mistake_fails_the_check_that_exists_for_it(mistake: str, mix: Exercise, warm: Warm) -> None:
    identity, cause, source = WRONG[mistake]
    report = graded(mix, source, warm("torch"))
    found = check(report, identity)
    assert (found.verdict, found.cause) == ("error" if cause == "exception" else "fail", cause), (
        verdicts(report),
        found.message,
    )
    assert found.points == 0 and found.message and not report.passed


ALONE = [
    "detach", "no_grad", "one parameter detached", "a part counted twice", "a trace of what is unused", "a mask on the CPU", "a result on the CPU",
    "refuses more than float32 holds", "reads memory in its order", "a forbidden call", "a missing call",
    "a large array", "a slot that decides the dtype", "a slot that decides the type", "a slot that raises",
]  # fmt: skip


@pytest.mark.parametrize("mistake", ALONE)
def test_what_values_do_not_show_is_told_by_one_check_alone(mistake: str, mix: Exercise, warm: Warm) -> None:
    identity, _, source = WRONG[mistake]
    found = verdicts(graded(mix, source, warm("torch")))
    assert {name for name, verdict in found.items() if verdict != "pass"} == {identity}, found


# --- what a submission cannot gain ------------------------------------------------------------------------------------

ON_DEVICE = {
    "raises there": "if x.is_cuda: raise RuntimeError('no')",
    "asks for the exact type": "if type(x) is not torch.Tensor: raise TypeError('no')",
    "ends the program there": "if x.is_cuda: raise SystemExit(0)",
    "ends the process there": "if x.is_cuda: __import__('os')._exit(0)",
    "loops there": "while x.is_cuda: pass",
    "answers otherwise there": "if x.is_cuda: return x * 0",
    "fills the memory there": "if x.is_cuda: bytearray(3 << 30)",
}


@pytest.mark.parametrize("way", sorted(ON_DEVICE))
def test_going_wrong_on_a_device_on_purpose_gains_nothing(way: str, mix: Exercise, warm: Warm) -> None:
    source = RIGHT.replace("def toy(x, w, spare):", f"def toy(x, w, spare):\n    {ON_DEVICE[way]}").replace(
        ", device=x.device", ""
    )
    report = graded(mix, source, warm("torch"))
    found = check(report, "device")
    assert found.verdict in ("fail", "error", "crashed", "timeout", "memory"), (found.verdict, found.message)
    assert found.points == 0 and not report.passed and not found.neutral


def test_a_swallowed_exception_does_not_hide_a_mix(mix: Exercise, warm: Warm) -> None:
    hiding = "    try:\n        x.sum(99)\n    except IndexError:\n        pass\n"
    source = (
        text(RIGHT)
        .replace("def toy(x, w, spare):\n", "def toy(x, w, spare):\n" + hiding)
        .replace(", device=x.device", "")
    )
    assert check(graded(mix, source, warm("torch")), "device").verdict == "fail"
    fine = text(RIGHT).replace("def toy(x, w, spare):\n", "def toy(x, w, spare):\n" + hiding)
    assert verdicts(graded(mix, fine, warm("torch")))["device"] == "pass"


def test_what_cannot_be_imitated_is_not_held_against_anyone(mix: Exercise, warm: Warm) -> None:
    """Right code on a real device, which asks more of torch than can be imitated without one."""
    report = graded(mix, body("with torch.random.fork_rng(): pass"), warm("torch"))
    found = check(report, "device")
    assert (found.verdict, found.cause, found.neutral, found.points) == ("skipped", "undecided", True, 1)
    assert report.passed and "does not count against you" in found.message


def test_other_shapes_on_varied_inputs_gain_nothing(mix: Exercise, warm: Warm) -> None:
    """`reads` cannot be had by answering every changed input with something else."""
    source = body(
        "key = tuple(x.shape)",
        "calls[0] = torch.equal(seen.setdefault(key, x.clone()), x)",
        last="return out if calls[0] else out[:, :, :-1]",
        before=CALLED,
    )
    report = graded(mix, source, warm("torch"))
    assert check(report, "reads").points == 0 and not check(report, "reads").neutral
    assert check(report, "independent").verdict == check(report, "causal").verdict == "fail"


@pytest.mark.parametrize(
    ("last", "cause"),
    [
        ("return out.float()", "dtype"), ("return out.tolist()", "type"), ("return (out, out)", "type"), ("return out.detach().numpy()", "type"),
        ("return object()", "unsupported_result"), ("return out / 0 * 0", "nan"), ("return out[..., None]", "shape"),
        ("return [float('nan')]", "type"), ("return None", "type"),
    ],
)  # fmt: skip
def test_a_wrong_form_is_no_change_between_calls(last: str, cause: str, mix: Exercise, warm: Warm) -> None:
    """What is always wrong in the same way is repeatable, and reads nothing that it should ignore."""
    report = graded(mix, body(last=last), warm("torch"))
    found = verdicts(report)
    assert (found["values"], check(report, "values").cause) == ("fail", cause)
    assert (
        found["repeatable"] == "pass"
        and found["ignores"] in ("pass", "skipped")
        and found["inputs_unchanged"] == "pass"
    )


def test_nothing_is_decided_of_what_never_returns(mix: Exercise, warm: Warm) -> None:
    report = graded(mix, "def toy(x, w, spare):\n    raise ValueError('no')\n", warm("torch"))
    found = verdicts(report)
    assert found.pop("values") == found.pop("one_token") == "error"
    assert found.pop("source") == "fail" and found.pop("peak_memory") == "error"
    assert set(found.values()) == {"skipped"} and report.score == 0
    assert not any(result.neutral for result in report.checks)


def test_a_gradient_that_cancels_is_rounding_in_any_style(warm: Warm, tmp_path: Path) -> None:
    """A number added to every score changes no weight: its gradient is 0 but for the last bits, which are everyone's own."""
    body_ = """
    framework: torch
    dims: {N: 2..3, T: 5..7}
    inputs: {x: {shape: [N, T]}, b: {shape: []}, k: {shape: [N, 1], scale: 3}}
    cases: {random: 2}
    checks: [{kind: values}, {kind: gradients}]
    """
    toy = exercise(tmp_path, body_, "import torch\ndef toy(x, b, k):\n    return torch.softmax(x + b + k, -1)\n")
    for seed in range(1, 6):
        for source in (
            "z = (x + k) + b\n    e = (z - z.amax(-1, keepdim=True)).exp()\n    return e / e.sum(-1, keepdim=True)",
            "z = b + k + x\n    return (z - z.logsumexp(-1, keepdim=True)).exp()",
            "return torch.softmax(x, -1)",
        ):
            report = graded(toy, f"import torch\ndef toy(x, b, k):\n    {source}\n", warm("torch"), seed)
            assert report.passed, [result.message for result in report.checks]
    wrong = graded(
        toy,
        "import torch\ndef toy(x, b, k):\n    return torch.softmax(x + b + k, -1) + 1e-9 * (b - b.detach())\n",
        warm("torch"),
    )
    assert verdicts(wrong) == {"values": "pass", "gradients": "fail"}


# --- relations of parts, of whole numbers, of empty arrays -------------------------------------------------------------

PARTS = """
framework: numpy
dims: {N: 2..4, T: 5..6, Z: {range: 0..0, free: true}}
inputs:
  x: {shape: [N, T]}
  ids: {kind: ids, shape: [N, T], below: 9}
  big: {shape: [2], scale: 1.0e6}
  params: {kind: dict, items: {w: {shape: [T]}, unused: {shape: [T]}}}
output: {kind: tuple, items: {big: {}, out: {}, marks: {dtype: int64}, nothing: {}}}
cases: {random: 2}
checks:
  - {kind: values}
  - {kind: independent, id: by_name, inputs: {x: 0}, output: 0, part: out}
  - {kind: independent, id: of_ids, inputs: {ids: 0}, output: 0, part: 2}
  - {kind: causal, inputs: {ids: -1}, output: -1, part: marks}
  - {kind: reads, inputs: {x: 0}, output: -2, part: -3}
  - {kind: causal, id: of_nothing, inputs: {x: 1}, output: 0, part: nothing}
  - {kind: ignores, what: ['params["unused"]', 'params["unused"][1:]']}
  - {kind: strided}
  - {kind: precision}
"""
PARTS_SOLUTION = """
import numpy as np
def toy(x, ids, big, params):
    out = x * params["w"]
    marks = np.cumsum(ids, axis=1)
    return big * 1000, out, marks, np.zeros((x.shape[1], 0), x.dtype)
"""


def test_relations_look_at_parts_by_name_or_index_from_either_end(warm: Warm, tmp_path: Path) -> None:
    toy = exercise(tmp_path, PARTS, PARTS_SOLUTION)
    for seed in SEEDS:
        assert set(verdicts(graded(toy, PARTS_SOLUTION, warm("numpy"), seed)).values()) == {"pass"}
    for change, identity in [
        ('out = x * params["w"] + 1e-3 * x.mean(0)', "by_name"),
        # Small beside the other part, whose scale is none of its business.
        ('out = x * params["w"] + 1e-4 * x.mean(0)', "by_name"),
        ('out = 0 * x + params["w"]', "reads"),
        ('out = x * params["w"] + params["unused"]', "ignores"),
    ]:
        found = verdicts(graded(toy, PARTS_SOLUTION.replace('out = x * params["w"]', change), warm("numpy")))
        assert found[identity] == "fail", (change, found)
    assert (
        verdicts(graded(toy, PARTS_SOLUTION.replace("np.cumsum(ids, axis=1)", "ids + ids.sum(0)"), warm("numpy")))[
            "of_ids"
        ]
        == "fail"
    )
    assert (
        verdicts(
            graded(
                toy,
                PARTS_SOLUTION.replace("np.cumsum(ids, axis=1)", "np.cumsum(ids[:, ::-1], axis=1)[:, ::-1]"),
                warm("numpy"),
            )
        )["causal"]
        == "fail"
    )


# --- calls ------------------------------------------------------------------------------------------------------------

CALLS = """
framework: numpy
dims: {K: 3..5}
inputs:
  f: {kind: function, parameters: [at, ids], returns: "at * at + sum(ids)"}
  x: {shape: [K]}
output: {kind: scalar}
cases: {random: 3}
checks:
  - {kind: values}
  - {kind: calls, function: f}
"""
CALLS_SOLUTION = """
def toy(f, x):
    total = 0.0
    for at in range(len(x)):
        total = total + f(float(x[at]) / 3, list(range(at + 1)))
    return total
"""
CALLED_RIGHT = {
    "array": "import numpy as np\ndef toy(f, x):\n    return sum(f(x[i] / 3, np.arange(i + 1)) for i in range(len(x)))\n",
    "tuple": "def toy(f, x):\n    return sum(f(v / 3, tuple(range(i + 1))) for i, v in enumerate(x))\n",
    "rounds otherwise": "def toy(f, x):\n    return sum(f(v * (1 / 3), list(range(i + 1))) for i, v in enumerate(x))\n",
    "numpy integers": "import numpy as np\ndef toy(f, x):\n    return sum(f(np.float64(v) / 3, [np.int32(k) for k in range(i + 1)]) for i, v in enumerate(x))\n",
}
CALLED_WRONG = {
    "once too often": "def toy(f, x):\n    f(x[0] / 3, [0])\n    return sum(f(v / 3, list(range(i + 1))) for i, v in enumerate(x))\n",
    "backwards": "def toy(f, x):\n    return sum(f(x[i] / 3, list(range(i + 1))) for i in reversed(range(len(x))))\n",
    "not at all": "def toy(f, x):\n    return sum(v * v / 9 + i * (i + 1) / 2 for i, v in enumerate(x))\n",
    "another list": "def toy(f, x):\n    return sum(f(v / 3, [i, *range(i)]) for i, v in enumerate(x))\n",
    "a little beside": "def toy(f, x):\n    return sum(f(v / 3 + 1e-6, list(range(i + 1))) - 2e-6 * v / 3 for i, v in enumerate(x))\n",
}


@pytest.mark.parametrize("style", sorted(CALLED_RIGHT))
def test_calls_of_a_function_may_be_written_in_any_way(style: str, warm: Warm, tmp_path: Path) -> None:
    toy = exercise(tmp_path, CALLS, CALLS_SOLUTION)
    for seed in SEEDS:
        assert verdicts(graded(toy, CALLED_RIGHT[style], warm("numpy"), seed)) == {"values": "pass", "calls": "pass"}


@pytest.mark.parametrize("mistake", sorted(CALLED_WRONG))
def test_other_calls_are_told(mistake: str, warm: Warm, tmp_path: Path) -> None:
    report = graded(exercise(tmp_path, CALLS, CALLS_SOLUTION), CALLED_WRONG[mistake], warm("numpy"))
    found = check(report, "calls")
    assert (found.verdict, found.cause) == ("fail", "calls") and "`f`" in found.message


@pytest.mark.parametrize(
    "given",
    [
        "object(), [0]",
        "'a', [0]",
        "x[0] / 3",
        "1, 2, 3",
        "10**400, [0]",
        "x[0] / 3, {}",
        "float('nan'), [0]",
        "None, None",
        "[], []",
    ],
)
def test_absurd_calls_end_in_a_report(given: str, warm: Warm, tmp_path: Path) -> None:
    report = graded(
        exercise(tmp_path, CALLS, CALLS_SOLUTION), f"def toy(f, x):\n    return f({given})\n", warm("numpy")
    )
    assert verdicts(report)["values"] in ("error", "fail") and not report.passed


def test_a_submission_cannot_fill_the_graders_memory_with_calls(warm: Warm, tmp_path: Path) -> None:
    source = (
        "import numpy as np\ndef toy(f, x):\n    for _ in range(50):\n        f(np.zeros(3_000_000, np.int8), [0])\n"
    )
    found = check(graded(exercise(tmp_path, CALLS, CALLS_SOLUTION), source, warm("numpy")), "values")
    assert found.verdict == "error" and "numbers in all" in found.message


# --- falls ------------------------------------------------------------------------------------------------------------

FALLS = """
framework: numpy
inputs:
  params: {kind: dict, items: {w: {shape: [4]}, b: {shape: []}}}
  moments: {kind: list, items: [{shape: [4]}, {shape: []}]}
  step: {value: 1}
  ids: {kind: ids, shape: [2], below: 4}
output: {kind: tuple, items: {params: {kind: dict}, moments: {kind: list}, step: {kind: scalar}, loss: {kind: scalar}, ids: {dtype: int64}}}
cases: {random: 2}
checks:
  - {kind: values}
  - {kind: falls, output: loss, feed: {params: params, 1: moments, step: step, 4: ids}, steps: 4}
"""
FALLS_SOLUTION = """
import numpy as np
def toy(params, moments, step, ids):
    w, b = params["w"], params["b"]
    loss = (w ** 2).sum() + (b - 3) ** 2 + 0 * w[ids].sum() + 0 * step
    new = {"w": w - 0.1 * w, "b": b - 0.1 * (b - 3)}
    return new, [0.9 * moments[0] + w, 0.9 * moments[1] + b], step + 1, loss, (ids + 1) % 4
"""


def test_a_value_falls_over_steps_fed_back_in_every_form(warm: Warm, tmp_path: Path) -> None:
    toy = exercise(tmp_path, FALLS, FALLS_SOLUTION)
    for seed in SEEDS:
        assert verdicts(graded(toy, FALLS_SOLUTION, warm("numpy"), seed)) == {"values": "pass", "falls": "pass"}
    up = check(
        graded(toy, FALLS_SOLUTION.replace("w - 0.1", "w + 0.1").replace("b - 0.1", "b + 0.1"), warm("numpy")), "falls"
    )
    assert (up.verdict, up.cause) == ("fail", "does_not_fall") and "After step 1" in up.message


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("loss, (ids", "float('nan'), (ids", "fail"),
        ("loss, (ids", "None, (ids", "skipped"),
        ("(ids + 1) % 4", "ids + 1000", "skipped"),
        ("(ids + 1) % 4", "None", "skipped"),
        ('{"w": w - 0.1 * w,', '{"w": w[:2],', "skipped"),
        ("step + 1", "'two'", "skipped"),
        ("0.9 * moments[1] + b]", "]", "skipped"),
    ],
)
def test_what_is_fed_back_may_be_absurd(old: str, new: str, verdict: str, warm: Warm, tmp_path: Path) -> None:
    """The reference, which is asked about every call when a mistake is looked for, never meets what a submission made up."""
    misconceptions = """
    - id: no_offset
      says: the offset is left out.
      patch: [{find: "(b - 3) ** 2", replace: "b ** 2"}]
    """
    toy = exercise(tmp_path, FALLS, FALLS_SOLUTION, misconceptions)
    report = graded(toy, FALLS_SOLUTION.replace(old, new), warm("numpy"))
    found = check(report, "falls")
    assert report.status == "graded" and (found.verdict, found.points, found.neutral) == (verdict, 0, False), (
        found.message
    )


def test_nothing_is_said_of_what_a_result_depends_on_where_it_changes_by_itself(mix: Exercise, warm: Warm) -> None:
    """A counter in the function moves every output; no relation is to be read from that."""
    source = text(RIGHT).replace("def toy(x, w, spare):", "count = [0]\n\ndef toy(x, w, spare):\n    count[0] += 1")
    report = graded(mix, source.replace("+ spare[0]", "+ spare[0] * (1 + 1e-3 * count[0])"), warm("torch"))
    for identity in ("independent", "causal", "reads", "ignores"):
        found = check(report, identity)
        assert (found.verdict, found.points) == ("skipped", 0), identity
        assert "the same inputs give different results" in found.message, identity
    assert check(report, "repeatable").verdict == "fail" and not report.passed


def test_a_leak_is_still_one_beside_a_function_that_answers_alike(mix: Exercise, warm: Warm) -> None:
    leaking = text(RIGHT).replace("return torch", "return x.mean(0) + torch")
    assert check(graded(mix, leaking, warm("torch")), "independent").verdict == "fail"


def test_what_was_not_run_says_why_without_a_false_word(mix: Exercise, warm: Warm) -> None:
    """Right where there is one token alone: no check may say that nothing is right."""
    report = graded(mix, text(RIGHT).replace("/ x.shape[-1] ** 0.5", ""), warm("torch"))
    assert check(report, "one_token").verdict == "pass"
    for identity in ("gradients", "precision", "strided"):
        assert check(report, identity).message == "Not run: no float64 result on random shapes is right yet."


def test_a_result_that_was_rounded_is_no_narrow_arithmetic(warm: Warm, tmp_path: Path) -> None:
    body = """
    framework: numpy
    dims: {N: 3..4}
    inputs: {x: {shape: [N]}}
    output: {}
    cases: {random: 2}
    checks: [{kind: values, cases: random}, {kind: precision}]
    """
    toy = exercise(tmp_path, body, "def toy(x):\n    return 3 * x\n")
    rounded = check(
        graded(toy, "import numpy as np\ndef toy(x):\n    return np.round(3 * x, 8)\n", warm("numpy")), "precision"
    )
    assert rounded.verdict == "fail" and rounded.message.startswith("The result is rounded to 8 decimals.")
    single = check(
        graded(toy, "import numpy as np\ndef toy(x):\n    return 3.0 * np.float64(np.float32(x))\n", warm("numpy")),
        "precision",
    )
    assert single.verdict == "fail"
    assert "does not follow a small change" in single.message and "rounded" not in single.message
    assert "does not change your result" in single.message


def test_a_call_too_many_or_too_few_is_shown(warm: Warm, tmp_path: Path) -> None:
    body = """
    framework: python
    dtypes: [float64]
    dims: {n: 3..4}
    inputs:
      step: {kind: function, parameters: [ids], returns: "sum(ids)"}
      count: {value: n}
    output: {kind: python}
    cases: {random: 2}
    checks: [{kind: values, cases: random}, {kind: calls, function: step, cases: random}]
    """
    solution = "def toy(step, count):\n    for k in range(count):\n        step([k])\n    return count\n"
    toy = exercise(tmp_path, body, solution)
    more = check(graded(toy, solution.replace("range(count)", "range(count + 1)"), warm("python")), "calls")
    n = more.case.dims["n"]  # type: ignore[union-attr]
    assert f"one too many  call {n + 1} of `step`, with [{n}]" in more.message
    fewer = check(graded(toy, solution.replace("range(count)", "range(count - 1)"), warm("python")), "calls")
    assert f"missing  call {n} of `step`, with [{n - 1}]" in fewer.message
    other = check(graded(toy, solution.replace("step([k])", "step([k + 5])"), warm("python")), "calls")
    assert "too many" not in other.message and "missing" not in other.message


@pytest.mark.parametrize(
    ("body", "line", "says"),
    [
        ("    y = x * 2\n    x -= x.max()\n    return y\n", 4, "x -= x.max()"),
        ("    y = x * 2\n    z = x[0]\n    z[...] = 5.0\n    return y\n", 5, "z[...] = 5.0"),
        ("    return helper(x) * 0 + x0(x)\n\ndef helper(a):\n    b = a + 1\n    np.add(a, 1, out=a)\n    return b\n\ndef x0(x):\n    return x\n", 7, "np.add(a, 1, out=a)"),
        ("    y = x * 2\n    x[0] = (lambda: 7.0)()\n    return y\n", 4, "x[0] = (lambda: 7.0)()"),
        ("    x = x.copy()\n    x -= 1\n    return 2 * x + 2\n", 0, ""),
        ("    for _ in range(9000):\n        pass\n    y = 2 * x\n    x += 1\n    return y\n", 0, ""),
    ],
)  # fmt: skip
def test_the_line_that_changes_an_input(body: str, line: int, says: str, warm: Warm, tmp_path: Path) -> None:
    toy_body = """
    framework: numpy
    dims: {N: 3..4}
    inputs: {w: {shape: [2]}, x: {shape: [N, 2]}}
    output: {}
    cases: {random: 2}
    checks: [{kind: values, cases: random}, {kind: inputs_unchanged}]
    """
    toy = exercise(tmp_path, toy_body, "def toy(w, x):\n    return 2 * x\n")
    report = graded(toy, "import numpy as np\ndef toy(w, x):\n" + body, warm("numpy"))
    found = check(report, "inputs_unchanged")
    if not line:
        assert "where" not in found.message
        return
    assert found.verdict == "fail"
    assert f"toy.py:{line}" in found.message and says in found.message, found.message


def test_following_a_call_prints_nothing_and_decides_nothing(warm: Warm, tmp_path: Path) -> None:
    body = """
    framework: numpy
    dims: {N: 3..4}
    inputs: {x: {shape: [N]}}
    output: {}
    cases: {random: 1}
    checks: [{kind: values, cases: random}, {kind: inputs_unchanged}, {kind: repeatable}]
    """
    toy = exercise(tmp_path, body, "def toy(x):\n    return 2 * x\n")
    source = "def toy(x):\n    print('called')\n    y = 2 * x\n    x += 1\n    return y\n"
    report = graded(toy, source, warm("numpy"))
    assert "toy.py:4" in check(report, "inputs_unchanged").message
    # float64, float32, and the calls that are repeated; none for the line.
    assert report.output.count("called") == 4
    assert check(report, "values").verdict == "pass" and check(report, "repeatable").verdict == "pass"
