"""Cases: sizes, values and tokens. The same seed gives the same bits, whatever else the exercise holds."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import exercise

from grader import cases
from grader.cases import Case, Drawn
from grader.errors import AuthorError
from grader.sandbox.protocol import Array, Function, Opaque, cast
from grader.spec.exercise import Exercise

SEEDS = range(40)
BODY = """
framework: numpy
dims:
  N: 2..4
  S: 3..8
  heads: [2, 3]
  width: 2..5
  d: heads * width
  L: {range: 1..4, free: true}
constraints: [heads != width]
inputs:
  x: {shape: [N, S, d], scale: 2, offset: 1}
  u: {shape: [S], distribution: uniform, low: -1, high: 3}
  ids: {kind: ids, shape: [N, S], below: d, ignore: -100, ignored: 0.9}
  n: {kind: integers, shape: [S], low: -3, high: d, as: [int64, int32]}
  keep: {kind: booleans, shape: [S, 2], share: 0.25}
  axis: {choices: [0, 1, -1]}
  rate: {range: 0.1..0.9}
  eps: {value: 1.0e-5}
  count: {value: L + 1}
  blocks: {kind: list, count: L, of: {shape: [d]}}
  pair: {kind: list, items: [{shape: [S]}, null, {value: 3}]}
  params: {kind: dict, items: {w: {shape: [d, d]}, b: {shape: [d], exact: true}}}
  tokens: {kind: list, count: N, of: {choices: [4, 5, 6]}}
  mask: {kind: booleans, shape: [S], default: null}
aux:
  scale: {shape: [S], distribution: uniform, low: 1, high: 2}
adjust:
  - x[0] = 0
  - u = u * scale
  - params["w"][0, 0] = 7
  - tokens[0] = N
  - mask[0] = True
cases:
  random: 3
  edge:
    same: {title: S = N, dims: {S: N}}
    no_blocks: {title: no blocks, dims: {L: 0}}
    without_mask: {title: no mask, omit: [mask]}
    none_mask: {title: the mask is None, inputs: {mask: null}}
    half: {title: half, dtypes: [float16]}
    kept_out: {title: what a constraint keeps out, dims: {heads: 3, width: 3}}
    larger: {title: larger values, inputs: {x: {scale: 100, offset: 0}}, adjust: ["x[:] = x[:] + d"], count: 2}
checks:
  - {kind: values}
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Exercise:
    return exercise(tmp_path_factory.mktemp("cases"), BODY)


def flat(value: Any) -> list[Any]:
    """Everything in an argument, arrays as bytes."""
    if isinstance(value, Drawn):
        return [value.dtype, value.values.shape, value.values.tobytes()]
    if isinstance(value, Array):
        return [value.dtype, value.raw.shape, value.raw.tobytes()]
    if isinstance(value, dict):
        return [item for key in value for item in (key, *flat(value[key]))]
    if isinstance(value, list | tuple):
        return [item for part in value for item in flat(part)]
    return [value]


def values(case: Case, name: str) -> np.ndarray:
    drawn = case.arguments[name]
    assert isinstance(drawn, Drawn)
    return drawn.values


# --- dims -------------------------------------------------------------------------------------------------------------


def test_no_two_shaping_dims_of_a_random_case_are_equal(toy: Exercise) -> None:
    seen: set[int] = set()
    for seed in SEEDS:
        dims = cases.draw(toy, "random", 0, seed).dims
        shaping = [dims[name] for name in ("N", "S", "heads", "width", "d")]
        assert len(set(shaping)) == 5, dims
        assert dims["d"] == dims["heads"] * dims["width"] and dims["heads"] != dims["width"]
        assert 2 <= dims["N"] <= 4 and 3 <= dims["S"] <= 8 and dims["heads"] in (2, 3)
        seen.add(dims["S"])
    assert seen == {3, 4, 5, 6, 7, 8}, "every size of a range is drawn, both ends included"


def test_a_free_dim_may_equal_others(toy: Exercise) -> None:
    found = [cases.draw(toy, "random", 0, seed).dims for seed in SEEDS]
    assert any(dims["L"] in (dims["N"], dims["S"], dims["heads"]) for dims in found)


def test_an_edge_case_replaces_its_own_dims_and_keeps_the_others_apart(toy: Exercise) -> None:
    for seed in SEEDS:
        dims = cases.draw(toy, "same", 0, seed).dims
        assert dims["S"] == dims["N"]
        assert len({dims[name] for name in ("N", "heads", "width", "d")}) == 4
        assert cases.draw(toy, "no_blocks", 0, seed).dims["L"] == 0


def test_an_edge_case_may_be_what_a_constraint_keeps_out(toy: Exercise) -> None:
    dims = cases.draw(toy, "kept_out", 0, 1).dims
    assert (dims["heads"], dims["width"], dims["d"]) == (3, 3, 9)


def test_dims_that_cannot_be_drawn_are_the_authors_error(toy: Exercise) -> None:
    spec = toy.spec.model_copy(update={"constraints": ("S > 100",)})
    with pytest.raises(AuthorError, match="no dims that satisfy the constraints"):
        cases.draw(replace(toy, spec=spec), "random", 0, 1)


def test_sizes_to_shrink_to_are_those_that_the_file_lists(toy: Exercise) -> None:
    assert cases.smaller_sizes(toy, "random", "heads", 3) == [2]
    assert cases.smaller_sizes(toy, "random", "heads", 2) == []
    assert cases.smaller_sizes(toy, "random", "S", 8) == [1, 2, 4, 7]
    assert cases.smaller_sizes(toy, "random", "S", 1) == []
    assert dict(cases.chosen_dims(toy, "random")) == {"N": 1, "S": 1, "heads": 2, "width": 1, "L": 1}
    assert cases.beyond(toy, "random", {"S": 9}) == "S"
    assert cases.beyond(toy, "random", {"S": 8, "heads": 3, "d": 999}) is None


def test_shrunk_dims_obey_constraints_and_computed_sizes(toy: Exercise) -> None:
    good = {"N": 1, "S": 1, "heads": 2, "width": 1, "d": 2, "L": 1}
    assert cases.dims_allowed(toy, "random", good)
    assert not cases.dims_allowed(toy, "random", {**good, "width": 2, "d": 4})
    assert not cases.dims_allowed(toy, "random", {**good, "d": 3})


# --- values -----------------------------------------------------------------------------------------------------------


def test_shapes_kinds_and_ranges(toy: Exercise) -> None:
    for seed in SEEDS:
        case = cases.draw(toy, "random", 0, seed)
        dims = case.dims
        n, s, d = dims["N"], dims["S"], dims["d"]
        assert values(case, "x").shape == (n, s, d)
        ids = values(case, "ids")
        assert ids.shape == (n, s) and ids.dtype == np.int64
        assert ((ids == -100) | ((ids >= 0) & (ids < d))).all() and (ids != -100).any()
        assert ((values(case, "n") >= -3) & (values(case, "n") <= d)).all()
        assert case.arguments["n"].dtype in ("int64", "int32")
        assert values(case, "keep").dtype == bool and values(case, "keep").shape == (s, 2)
        assert case.arguments["axis"] in (0, 1, -1) and type(case.arguments["axis"]) is int
        assert 0.1 <= case.arguments["rate"] <= 0.9
        assert case.arguments["eps"] == 1e-5 and case.arguments["count"] == dims["L"] + 1
        assert [block.values.shape for block in case.arguments["blocks"]] == [(d,)] * dims["L"]
        first, second, third = case.arguments["pair"]
        assert first.values.shape == (s,) and second is None and third == 3
        assert list(case.arguments["params"]) == ["w", "b"]
        assert all(type(token) is int for token in case.arguments["tokens"])
        assert list(case.arguments) == list(toy.spec.inputs), "arguments stand in the order of the signature"
        assert "scale" not in case.arguments, "an aux array is drawn and not passed"


def test_adjust_runs_on_dims_inputs_and_aux(toy: Exercise) -> None:
    case = cases.draw(toy, "random", 1, 5)
    assert not values(case, "x")[0].any() and values(case, "x")[1].all()
    assert case.arguments["params"]["w"].values[0, 0] == 7
    assert case.arguments["tokens"][0] == case.dims["N"]
    assert values(case, "mask")[0]
    larger = cases.draw(toy, "larger", 1, 5)
    assert (values(larger, "x")[0] == larger.dims["d"]).all(), "an edge case's lines run after the exercise's"
    assert np.abs(values(larger, "x")[1] - larger.dims["d"]).max() > 30, "its scale is merged over the input"


def test_what_is_left_out_and_what_is_none(toy: Exercise) -> None:
    assert "mask" not in cases.draw(toy, "without_mask", 0, 1).arguments
    assert cases.draw(toy, "none_mask", 0, 1).arguments["mask"] is None
    assert cases.arguments(cases.draw(toy, "none_mask", 0, 1), "numpy", "float64")[-1] is None


def test_floats_lie_on_the_grid_of_the_narrowest_dtype_that_sees_them(toy: Exercise) -> None:
    case = cases.draw(toy, "random", 0, 3)
    for _, drawn in cases.arrays(case):
        if drawn.dtype == "floats":
            assert np.array_equal(drawn.values, drawn.values.astype(np.float32).astype(np.float64))
    half = cases.draw(toy, "half", 0, 3)
    assert half.grid == "float16"
    assert np.array_equal(values(half, "u"), values(half, "u").astype(np.float16).astype(np.float64))
    narrowed = cases.on_grid(case, "bfloat16")
    assert np.array_equal(values(narrowed, "u"), torch.tensor(values(case, "u")).to(torch.bfloat16).double().numpy())
    assert narrowed.key != case.key and cases.on_grid(case, "float64") is case


def test_arguments_have_the_dtype_of_the_call_and_their_own_otherwise(toy: Exercise) -> None:
    case = cases.draw(toy, "random", 0, 3)
    for framework, family in (("numpy", "ndarray"), ("torch", "tensor")):
        for dtype in ("float64", "float32", "float16"):
            given = dict(zip(case.arguments, cases.arguments(case, framework, dtype), strict=True))
            assert (given["x"].family, given["x"].dtype) == (family, dtype)
            assert given["ids"].dtype == "int64" and given["keep"].dtype == "bool"
            assert given["n"].dtype == case.arguments["n"].dtype
            assert given["params"]["w"].dtype == given["blocks"][0].dtype == dtype
            assert type(given["rate"]) is float
    assert {a.layout for a in cases.arguments(case, "numpy", "float64", "stepped") if isinstance(a, Array)} == {
        "stepped"
    }


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(width=64), min_size=1, max_size=8))
def test_bfloat16_is_rounded_as_torch_rounds_it(numbers: list[float]) -> None:
    given_ = np.array(numbers)
    mine = cast(given_, "bfloat16")
    theirs = torch.tensor(given_).to(torch.bfloat16)
    bits = theirs.view(torch.int16).numpy().view(np.uint16)
    nan = np.isnan(given_)
    assert np.array_equal(mine[~nan], bits[~nan])
    assert np.array_equal(Array("tensor", "bfloat16", mine).numbers(), theirs.double().numpy(), equal_nan=True)


# --- seeds ------------------------------------------------------------------------------------------------------------


def test_a_case_is_the_same_bits_on_every_machine(toy: Exercise) -> None:
    digest = hashlib.sha256()
    for name in ("random", *toy.spec.cases.edge):
        digest.update(repr(flat(cases.draw(toy, name, 0, 12).arguments)).encode())
    assert digest.hexdigest() == "508dfbf048bd074ecfd00a2ba6c6c2f63140e1ee95935fa415befabfe5fdf29f"


def test_a_case_does_not_depend_on_what_else_is_declared_or_drawn(toy: Exercise, tmp_path: Path) -> None:
    one = cases.draw(toy, "random", 2, 9)
    for name in toy.spec.cases.edge:
        cases.draw(toy, name, 0, 9)
    assert flat(cases.draw(toy, "random", 2, 9).arguments) == flat(one.arguments)
    # Another edge case, another input before the others: what was drawn before is drawn again.
    more = BODY.replace("  x: {shape", "  before: {shape: [N]}\n  x: {shape").replace(
        "    same:", "    first: {title: f}\n    same:"
    )
    other = cases.draw(exercise(tmp_path, more), "random", 2, 9)
    assert other.dims == one.dims
    assert all(flat(other.arguments[name]) == flat(one.arguments[name]) for name in one.arguments)


def test_cases_of_other_seeds_indices_and_names_are_others(toy: Exercise) -> None:
    drawn = [
        cases.draw(toy, name, index, seed)
        for name, index, seed in [
            ("random", 0, 1),
            ("random", 1, 1),
            ("random", 0, 2),
            ("larger", 0, 1),
            ("larger", 1, 1),
        ]
    ]
    texts = {repr(flat(case.arguments["params"])) for case in drawn}
    assert len(texts) == 5
    assert len({case.key for case in drawn}) == 5


# --- tokens -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["random", "same", "no_blocks", "larger", "half"])
def test_a_token_draws_the_very_case_again(toy: Exercise, name: str) -> None:
    for index in (0, 1, 1003):
        case = cases.draw(toy, name, index, 77)
        seed, text, dims = cases.parse_token(case.token, None)
        again_name, _, again_index = text.rpartition("-") if "-" in text else (text, "", "0")
        again = cases.draw(toy, again_name, int(again_index), seed, dims)
        assert flat(again.arguments) == flat(case.arguments) and again.token == case.token


def test_a_shrunk_token_carries_its_sizes(toy: Exercise) -> None:
    small = cases.draw(toy, "random", 1, 77, {"N": 1, "S": 2, "heads": 2, "width": 1, "L": 1})
    assert small.token == "77:random-1:N=1,S=2,heads=2,width=1,d=2,L=1"
    seed, text, dims = cases.parse_token(small.token, None)
    assert (seed, text) == (77, "random-1")
    assert flat(cases.draw(toy, "random", 1, seed, dims).arguments) == flat(small.arguments)
    assert small.ref.token == small.token and small.ref.dims == small.dims


@pytest.mark.parametrize(
    "token", ["", "x:random", "1:a:S", "1:a:S=", "1:a:S=-1", "1:a:S=²", "²:a", "1:a:S=1:b", "7" * 5000 + ":a"]
)
def test_a_token_that_is_none_is_refused_in_words(token: str) -> None:
    with pytest.raises(ValueError):
        cases.parse_token(token, None)


def test_a_name_or_number_alone_needs_a_seed() -> None:
    assert cases.parse_token("random-2", 5) == (5, "random-2", None)
    assert cases.parse_token("3", 5) == (5, "3", None)
    with pytest.raises(ValueError, match="--seed"):
        cases.parse_token("3", None)


# --- perturbing -------------------------------------------------------------------------------------------------------


def test_only_continuous_inputs_are_perturbed_and_by_very_little(toy: Exercise) -> None:
    case = cases.draw(toy, "random", 0, 4)
    moved = cases.perturb(case, 0)
    for name in ("ids", "n", "keep", "axis", "rate", "eps", "count", "tokens", "mask"):
        assert flat(moved.arguments[name]) == flat(case.arguments[name]), name
    assert flat(moved.arguments["params"]["b"]) == flat(case.arguments["params"]["b"]), "exact is never perturbed"
    for before, after in [
        (values(case, "x"), values(moved, "x")),
        (case.arguments["blocks"][0].values, moved.arguments["blocks"][0].values),
        (case.arguments["params"]["w"].values, moved.arguments["params"]["w"].values),
    ]:
        zero = before == 0
        relative = after[~zero] / before[~zero] - 1
        assert not after[zero].any()
        assert np.allclose(np.abs(relative), 6e-8, rtol=1e-6)
        assert {-1.0, 1.0} == set(np.sign(relative).tolist())
    assert moved.key != case.key and cases.perturb(case, 1).key != moved.key
    assert flat(cases.perturb(case, 0).arguments) == flat(moved.arguments)
    assert not np.array_equal(values(cases.perturb(case, 1), "x"), values(moved, "x"))


def test_one_array_alone_can_be_perturbed(toy: Exercise) -> None:
    case = cases.draw(toy, "random", 0, 4)
    moved = cases.perturb_only(case, "params['w']")
    changed = [
        path for (path, a), (_, b) in zip(cases.arrays(case), cases.arrays(moved), strict=True) if flat(a) != flat(b)
    ]
    assert changed == ["params['w']"]


def test_python_floats_are_perturbed_where_no_array_is(tmp_path: Path) -> None:
    body = """
    framework: python
    dtypes: [float64]
    inputs:
      step: {choices: [3]}
      rate: {range: 0.1..0.9}
      edge: {range: 0.1..0.9, exact: true}
      many: {kind: list, count: 3, of: {range: 1..2}}
      ids: {kind: ids, shape: [4], below: 3}
      empty: {shape: [0]}
    checks: [{kind: values}]
    """
    case = cases.draw(exercise(tmp_path, body), "random", 0, 1)
    moved = cases.perturb(case, 0)
    assert abs(moved.arguments["rate"] / case.arguments["rate"] - 1) == pytest.approx(6e-8, rel=1e-6)
    assert all(a != b for a, b in zip(moved.arguments["many"], case.arguments["many"], strict=True))
    for name in ("step", "edge", "ids", "empty"):
        assert flat(moved.arguments[name]) == flat(case.arguments[name])


# --- adjusting into something else ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("blocks = x", "a list of 2 arrays cannot become an array of shape"),
        ("tokens = 3", None),
        ("tokens = concatenate(arange(2), arange(3))", None),
        ("rate = arange(3)", "cannot become an array of shape (3,)"),
    ],
)
def test_adjust_keeps_the_kind_of_an_input(tmp_path: Path, line: str, says: str | None) -> None:
    body = f"""
    framework: numpy
    dims: {{A: 2..2}}
    inputs:
      x: {{shape: [3]}}
      blocks: {{kind: list, count: A, of: {{shape: [2]}}}}
      tokens: {{kind: list, count: A, of: {{choices: [1]}}}}
      rate: {{value: 0.5}}
    adjust: ["{line}"]
    checks: [{{kind: values}}]
    """
    if says is not None:
        with pytest.raises(AuthorError) as caught:
            cases.draw(exercise(tmp_path, body), "random", 0, 1)
        assert says in str(caught.value)
        return
    case = cases.draw(exercise(tmp_path, body), "random", 0, 1)
    plain = cases.arguments(case, "numpy", "float64")[2]
    assert plain == 3 or plain == [0, 1, 0, 1, 2]


# --- examples ---------------------------------------------------------------------------------------------------------


def test_an_example_is_its_literals(tmp_path: Path) -> None:
    body = """
    framework: numpy
    inputs:
      x: {shape: [2]}
      ids: {kind: ids, shape: [2], below: 9}
      keep: {kind: booleans, shape: [2]}
      n: {value: 1}
      params: {kind: dict, items: {w: {shape: [1]}}}
    cases:
      random: 0
      examples:
        one:
          title: one
          inputs: {x: [0.1, 2], ids: [3, 4], keep: [true, false], n: 7, params: {w: [5]}}
          expected: [1, 2]
          tolerance: 1.0e-3
    checks: [{kind: values}]
    """
    case = cases.example(exercise(tmp_path, body), "one", 3)
    given_ = cases.arguments(case, "numpy", "float64")
    assert [flat(value) for value in given_] == [
        ["float64", (2,), np.array([0.1, 2.0]).tobytes()],
        ["int64", (2,), np.array([3, 4]).tobytes()],
        ["bool", (2,), np.array([True, False]).tobytes()],
        [7],
        ["w", "float64", (1,), np.array([5.0]).tobytes()],
    ]
    assert (case.golden, case.golden_tolerance, case.token, case.group) == ([1, 2], 1e-3, "3:one", "examples")


def test_an_example_may_leave_out_what_has_a_default(tmp_path: Path) -> None:
    """Arguments go by position: one that is left out before another is passed as its default."""
    body = """
    framework: numpy
    inputs: {a: {shape: [2]}, b: {shape: [2], default: null}, c: {value: 1, default: 7}, d: {shape: [1], default: null}}
    cases:
      random: 0
      examples:
        all: {title: all, inputs: {a: [1, 2], b: [3, 4], c: 5, d: [6]}}
        middle: {title: middle, inputs: {a: [1, 2], d: [6]}}
        end: {title: end, inputs: {a: [1, 2], b: [3, 4]}}
    checks: [{kind: values}]
    """
    toy_ = exercise(tmp_path, body)
    assert list(cases.example(toy_, "all", 1).arguments) == ["a", "b", "c", "d"]
    middle = cases.example(toy_, "middle", 1).arguments
    assert list(middle) == ["a", "b", "c", "d"] and middle["b"] is None and middle["c"] == 7
    assert list(cases.example(toy_, "end", 1).arguments) == ["a", "b"]
    with pytest.raises(AuthorError, match="input `a` is missing"):
        cases.example(toy_, "end", 1, {"b": None})


def test_sizes_at_which_nothing_can_be_drawn_are_the_authors_error(tmp_path: Path) -> None:
    body = """
    framework: numpy
    dims: {V: {range: 1..4, free: true}, n: 2..3}
    inputs: {ids: {kind: ids, shape: [n], below: V}}
    checks: [{kind: values}]
    """
    with pytest.raises(AuthorError, match=r"case `random`: no integer in \[0, 0\)"):
        cases.draw(exercise(tmp_path, body), "random", 0, 1, {"V": 0})


# --- functions handed in ----------------------------------------------------------------------------------------------

FUNCTION = """
framework: {framework}
dtypes: [float64{more}]
dims: {{K: 3..5}}
inputs:
  step_fn: {{kind: function, parameters: [ids, gain], returns: "{returns}"}}
  bias: {{shape: [K]}}
aux:
  table: {{shape: [K]}}
checks: [{{kind: values}}]
"""


def handed_in(folder: Path, returns: str, framework: str = "numpy") -> Case:
    more = "" if framework == "python" else ", float32"
    return cases.draw(
        exercise(folder, FUNCTION.format(framework=framework, more=more, returns=returns)), "random", 0, 1
    )


def test_a_function_answers_from_dims_inputs_and_aux_and_is_recorded(tmp_path: Path) -> None:
    case = handed_in(tmp_path, "gain * table + bias + len(ids) + K")
    assert case.arguments["step_fn"] == Function("step_fn")
    record: list[tuple[str, Any]] = []
    answer = cases.answerer(case, "numpy", "float32", record)
    got = answer("step_fn", [[1, 2], 0.5])
    wanted = 0.5 * case.scope["table"] + case.scope["bias"] + 2 + case.dims["K"]
    assert (got.family, got.dtype) == ("ndarray", "float32") and np.allclose(got.numbers(), wanted, rtol=1e-6)
    tensor = cases.answerer(case, "torch", "float64", [])(
        "step_fn", [[1, 2], Array("scalar", "float64", np.array(0.5))]
    )
    assert (tensor.family, tensor.dtype) == ("tensor", "float64") and np.allclose(tensor.numbers(), wanted)
    assert record == [("step_fn", [[1, 2], 0.5])]


def test_a_python_function_answers_with_python_numbers(tmp_path: Path) -> None:
    case = handed_in(tmp_path, "table * gain", "python")
    got = cases.answerer(case, "python", "float64", [])("step_fn", [[1], 2])
    assert isinstance(got, list) and all(type(item) is float for item in got)
    whole = handed_in(tmp_path / "w", "argsort(table)")
    assert cases.answerer(whole, "numpy", "float32", [])("step_fn", [[1], 2]).dtype == "int64"


@pytest.mark.parametrize(
    "args",
    [
        [],
        [[1]],
        [[1], 2, 3],
        "abc",
        {"ids": 1},
        [[1], "two"],
        [[1], None],
        [[1], Opaque("thing", "no")],
        [[1], 10**299],
        [[1], [[1, 2], [3]]],
        [[1], {"a": 1}],
        [[1], Array("ndarray", "float64", np.zeros((2, 0, 7)))],
    ],
)
def test_a_call_that_makes_no_sense_is_refused_in_words(tmp_path: Path, args: Any) -> None:
    case = handed_in(tmp_path, "reshape(gain, 1) * 1 + len(ids)")
    answer = cases.answerer(case, "numpy", "float64", [])
    try:
        answer("step_fn", args)
    except ValueError as error:
        assert str(error)
    with pytest.raises(ValueError, match="no function `other`"):
        answer("other", [1, 2])


def test_a_submission_cannot_fill_the_memory_with_calls(tmp_path: Path) -> None:
    case = handed_in(tmp_path, "gain * 1.0")
    answer = cases.answerer(case, "numpy", "float64", [])
    big = Array("ndarray", "int8", np.zeros(cases.MAX_RECORDED // 3, np.int8))
    with pytest.raises(ValueError, match="numbers in all"):
        for _ in range(4):
            answer("step_fn", [big, 1])
    record: list[tuple[str, Any]] = []
    answer = cases.answerer(case, "numpy", "float64", record)
    with pytest.raises(ValueError, match="more than 10,000 times"):
        for _ in range(cases.MAX_CALLS + 1):
            answer("step_fn", [[1], 1])
    assert len(record) == cases.MAX_CALLS
