"""Words for rulings: a sentence for every cause, calls and numbers that can be read, and no more than `reveal` allows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from grader import cases, compare, numerals
from grader.checks import verdicts
from grader.explain import BARE, call_text, explain, grid_text, leading, likeness
from grader.model import (
    CaseRef,
    Change,
    CheckResult,
    Error,
    Expected,
    Explanation,
    Grid,
    Leaf,
    Mismatch,
    Outcome,
    Question,
    Ruling,
)
from grader.questions import questions
from grader.sandbox.protocol import Array, Opaque
from grader.spec.exercise import Exercise
from grader.spec.schema import Output

Find = Callable[[str], Exercise]
SECRETS = ("0.7071", "0.99999", "31415", "A=2", "of shape")


@pytest.fixture
def softmax(exercise_of: Find) -> Exercise:
    return exercise_of("softmax")


def ask(exercise: Exercise, reveal: str = "values", kind: str = "values") -> Question:
    found = next(question for question in questions(exercise) if question.check.kind == kind)
    return replace(found, reveal=reveal)


def drawn(exercise: Exercise, name: str = "random", **dims: int) -> cases.Case:
    return cases.draw(exercise, name, 0, 31415, dims or None)


def tensor(*values: Any, dtype: str = "float64", family: str = "ndarray") -> Array:
    return Array(family, dtype, np.array(values[0] if len(values) == 1 else values, dtype=dtype))


def wrong(
    actual: Any, expected: Any, output: Output | None = None, framework: str = "numpy", dtype: str = "float64"
) -> Mismatch:
    output = output or Output()
    leaves = tuple(Leaf(part.path, part.value, 1e-9) for part in compare.parts(expected, output))
    found = compare.mismatch(actual, Expected(expected, leaves, dtype), output, framework)
    assert found is not None
    return found


def said(
    exercise: Exercise, actual: Any, expected: Any, reveal: str = "values", output: Output | None = None
) -> Explanation:
    mismatch = wrong(actual, expected, output)
    verdict, cause = verdicts.of_mismatch(mismatch)
    outcome = Outcome("returned", value=actual)
    ruling = Ruling(verdict, cause, drawn(exercise, A=2, B=3, C=4), "float64", outcome, mismatch)
    return explain(exercise, ask(exercise, reveal), ruling, "grade softmax --case 31415:random-0")


# --- results that are wrong -------------------------------------------------------------------------------------------


def test_values_beside_each_other_in_as_many_digits_as_they_need(softmax: Exercise) -> None:
    found = said(softmax, tensor([[-0.70710678, 0.70710678]]), tensor([[-0.99999, 0.99999]]))
    assert found.claim == "Values differ from the reference."
    assert found.blocks == (
        ("you returned", "[[-0.71,  0.71]]"),
        ("expected", "[[-1.00,  1.00]]"),
        ("", "2 of 2 elements differ, worst at [0, 0]: 0.293, allowed 1e-09"),
    )
    close = said(softmax, tensor([0.5, 0.25]), tensor([0.5, 0.250004]))
    assert close.blocks[:3] == (
        ("you returned", "[0.500000, 0.250000]"),
        ("expected", "[0.500000, 0.250004]"),
        (" ", "           ^^^^^^^^"),
    )


def test_rows_that_differ_are_pointed_at(softmax: Exercise) -> None:
    found = said(softmax, tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([[1.0, 2.0], [3.0, 5.0]]))
    assert dict(found.blocks)["you returned"] == "[[1.0, 2.0],\n [3.0, 4.0]]  ←"


def test_the_row_of_the_largest_difference(softmax: Exercise) -> None:
    theirs = np.random.default_rng(0).normal(size=(4, 5, 30))
    mine = theirs.copy()
    mine[2, 3, 17] += 2.0
    blocks = said(softmax, tensor(mine), tensor(theirs)).blocks
    assert blocks[0] == ("", "the row of the largest difference: at [2, 3]")
    assert blocks[1][1].startswith("[..., ") and blocks[1][1].endswith(", ...]")
    assert blocks[3] == (" ", blocks[3][1]) and set(blocks[3][1]) == {" ", "^"}
    assert blocks[4] == ("", "1 of 600 elements differs, worst at [2, 3, 17]: 2, allowed 1e-09")


@pytest.mark.parametrize(
    "actual, expected, claim",
    [
        (None, tensor([1.0]), "Your function returned None; expected a numpy.ndarray."),
        ([1.0], tensor([1.0]), "The result is a list; expected a numpy.ndarray."),
        (Opaque("pandas.DataFrame", "no array"), tensor([1.0]), "The result is a pandas.DataFrame, which cannot be graded: no array."),
        (tensor([[1.0]]), tensor([1.0]), "The result has the wrong shape."),
        (tensor([1.0], dtype="float32"), tensor([1.0]), "The result has dtype float32; expected float64."),
        (tensor([np.nan, 1.0]), tensor([1.0, 1.0]), "The result contains nan values."),
        (tensor([1.0, 1.0]), tensor([np.nan, 1.0]), "The result should be nan in places where it is not."),
        (tensor([np.inf, 1.0]), tensor([1.0, 1.0]), "The result is inf in places where it should not be."),
        (tensor([0.0, 1.0]), tensor([-np.inf, 1.0]), "The result should be -inf in places where it is not."),
        (tensor(1.5), tensor(1.25), "The result differs from the reference's."),
        (tensor(-np.inf), tensor(1.25), "The result is -inf."),
        (tensor(np.nan), tensor(1.25), "The result is nan."),
        (tensor(1.25), tensor(np.inf), "The result should be inf."),
    ],
)  # fmt: skip
def test_a_sentence_for_each_kind(softmax: Exercise, actual: Any, expected: Any, claim: str) -> None:
    assert said(softmax, actual, expected).claim == claim


def test_python_results(exercise_of: Find) -> None:
    exercise, output = exercise_of("softmax"), Output.model_validate({"kind": "python"})
    short = said(exercise, [1, 2], [1, 2, 3, 4], output=output)
    assert short.claim == "The result has 2 items; expected 4."
    assert short.blocks == (("you returned", "[1, 2]"), ("expected", "[1, 2, 3, 4]"))
    assert short.where == ("what is there is right, but 2 items more should follow",)
    assert said(exercise, [1, 2, 3], [1, 2], output=output).where == (
        "the first 2 items are right, but nothing should follow",
    )
    assert said(exercise, [1, 5, 7], [1, 2], output=output).where == ("right up to index 0, wrong from index 1",)
    place = said(exercise, [1, 5, 7], [1, 2, 7], output=output)
    assert place.claim == "The result differs from the reference's at [1]."
    assert place.blocks == (("you returned", "[1, 5, 7]"), ("at [1]", "5"), ("expected", "2"))
    floats = said(exercise, {"a": [0.1, 0.30001]}, {"a": [0.1, 0.3]}, output=output)
    assert ("at ['a'][1]", "0.30001") in floats.blocks and ("expected", "0.30000") in floats.blocks
    missing = said(exercise, {"a": 1}, {"a": 1, "b": 2}, output=output)
    assert missing.claim == "The result: the key 'b' is missing."


def test_parts_of_a_tuple_are_named(exercise_of: Find) -> None:
    flash = exercise_of("flash_attention")
    output = flash.spec.output
    pair = (tensor([1.0], family="tensor"), tensor([2.0], family="tensor"))
    case = drawn(flash)

    def of(actual: Any, **facts: Any) -> Explanation:
        mismatch = wrong(actual, pair, output, "torch")
        ruling = Ruling("fail", None, case, "float64", Outcome("returned", value=actual), mismatch, facts=facts)
        return explain(flash, ask(flash), ruling, "")

    assert of(pair[0]).claim == "The result is a torch.Tensor; expected a tuple (out, lse)."
    assert of(None).claim == "Your function returned None; expected a tuple (out, lse)."
    assert of(pair[:1]).claim == "The result has 1 item; expected 2: (out, lse)."
    changed = (tensor([5.0], family="tensor"), pair[1])
    assert of(changed, right_parts=["lse"], wrong_parts=[]).note == "`lse` is right."
    assert of(changed, right_parts=["a", "b"], wrong_parts=["c"]).note == "`a` and `b` are right; `c` differs too."


def test_marks_stand_under_everything_that_is_wrong(softmax: Exercise) -> None:
    found = said(softmax, tensor([0.0, 0.644, 2.0, 0.0]), tensor([-np.inf, 3.0, 2.0, -np.inf]))
    marks = dict(found.blocks)[" "]
    shown = dict(found.blocks)["you returned"]
    under = [shown[at : at + 5] for at in range(len(marks)) if marks[at] == "^" and (at == 0 or marks[at - 1] != "^")]
    assert len(under) == 3 and marks.count("^") == 3 * 5, (shown, marks)


def test_where_it_shows_only_on_the_larger_case(softmax: Exercise) -> None:
    larger = wrong(tensor(2 * np.arange(1.0, 7.0).reshape(2, 3)), tensor(np.arange(1.0, 7.0).reshape(2, 3)))
    small = wrong(tensor([[0.5]]), tensor([[0.3]]))
    case = drawn(softmax, A=2, B=3, C=4)
    ruling = Ruling("fail", None, case, "float64", Outcome("returned"), small, facts={"larger": (case, larger)})
    found = explain(softmax, ask(softmax), ruling, "")
    assert found.where == ("on a result of shape (2, 3): your values are 2 × the expected ones, everywhere",)
    hidden = explain(softmax, ask(softmax, "summary"), ruling, "")
    assert hidden.where == ()


def test_what_is_true_of_a_tiny_case_alone_is_not_said(softmax: Exercise) -> None:
    theirs = np.random.default_rng(0).normal(size=(4, 6))
    larger = wrong(tensor(theirs + np.random.default_rng(1).normal(size=(4, 6))), tensor(theirs))
    small = wrong(tensor([[-1.0, 2.0, -3.0]]), tensor([[1.0, -2.0, 3.0]]))
    case = drawn(softmax, A=2, B=3, C=4)
    ruling = Ruling("fail", None, case, "float64", Outcome("returned"), small)
    assert explain(softmax, ask(softmax), ruling, "").where == ("every value has the wrong sign",)
    shrunk = replace(ruling, facts={"larger": (case, larger)})
    assert explain(softmax, ask(softmax), shrunk, "").where == ()
    both = replace(ruling, facts={"larger": (case, wrong(tensor(-theirs), tensor(theirs)))})
    assert explain(softmax, ask(softmax), both, "").where == ("every value has the wrong sign",)


def test_a_dtype_that_alone_is_wrong(softmax: Exercise) -> None:
    edge = next(iter(softmax.spec.cases.edge))
    spec = softmax.spec.model_copy(update={"dtypes": ("float64", "float32")})
    entry = spec.cases.edge[edge].model_copy(update={"dtypes": None})
    spec = spec.model_copy(update={"cases": spec.cases.model_copy(update={"edge": {edge: entry}})})
    exercise = replace(softmax, spec=spec)
    case = drawn(softmax, edge)
    mismatch = wrong(tensor([0.5], dtype="float32"), tensor([0.3]), dtype="float32")
    ruling = Ruling("fail", None, case, "float32", Outcome("returned"), mismatch, failing=((case, "float32"),))
    question = replace(ask(exercise), dtypes=None)
    assert "wrong only in float32: in float64 the same calls are right" in explain(exercise, question, ruling, "").where
    both = replace(ruling, failing=((case, "float64"), (case, "float32")))
    assert not any("only in" in fact for fact in explain(exercise, question, both, "").where)


# --- effects, exceptions ----------------------------------------------------------------------------------------------


def test_an_input_that_was_changed(softmax: Exercise) -> None:
    case = drawn(softmax, A=1, B=1, C=2)
    x = case.arguments["x"].values
    after = tensor(x - np.array([0.0, 1.5]))
    outcome = Outcome("returned", changes=(Change("x", "", "values", after),))
    ruling = Ruling("fail", "inputs_changed", case, "float64", outcome, facts={"values_right": True})
    found = explain(softmax, ask(softmax, kind="inputs_unchanged"), ruling, "")
    assert found.claim == "Your function changed its argument `x`." and found.note == "the returned values are right."
    labels = [label for label, _ in found.blocks]
    assert labels == ["x[0, 0] before", "x[0, 0] after", " "]
    first, second = (re.findall(r"-?\d+\.\d+", text) for _, text in found.blocks[:2])
    assert first[0] == second[0] and abs(float(first[1]) - float(second[1]) - 1.5) < 0.02


@pytest.mark.parametrize(
    "what, claim",
    [
        ("grad", "Your function left a gradient in `x.grad`."),
        ("requires_grad", "Your function changed `x.requires_grad`."),
        ("shape", "Your function changed its argument `x`."),
    ],
)
def test_other_changes(softmax: Exercise, what: str, claim: str) -> None:
    outcome = Outcome("returned", changes=(Change("x", "", what, tensor([1.0, 2.0])),))
    ruling = Ruling("fail", "inputs_changed", drawn(softmax), "float64", outcome)
    assert explain(softmax, ask(softmax, kind="inputs_unchanged"), ruling, "").claim == claim


def test_the_line_that_changes_an_input_is_named(softmax: Exercise) -> None:
    case = drawn(softmax, A=1, B=1, C=2)
    outcome = Outcome("returned", changes=(Change("x", "", "values", tensor([1.0, 2.0])),))
    place = {"file": "mine.py", "line": 4, "text": "x -= x.max()"}
    ruling = Ruling("fail", "inputs_changed", case, "float64", outcome, facts={"place": place})
    question = ask(softmax, kind="inputs_unchanged")
    assert ("where", "mine.py:4\n    x -= x.max()") in explain(softmax, question, ruling, "").blocks
    plain = explain(softmax, question, replace(ruling, facts={}), "")
    assert "where" not in dict(plain.blocks)


def test_advice_on_values_is_none_on_time_or_memory(softmax: Exercise) -> None:
    question = replace(ask(softmax), help="the slab is enough")
    case = drawn(softmax, "large_scores")
    for status in ("timeout", "memory"):
        ruling = Ruling("timeout", "time_limit", case, "float64", Outcome(status, detail="5 s"))
        assert "slab" not in str(explain(softmax, question, ruling, "").help)
    peak = next(question for question in questions(softmax))
    held = replace(question, check=peak.check.model_copy(update={"kind": "peak_memory"}))
    memory = Ruling("memory", "memory_limit", case, "float64", Outcome("memory", detail="64 MB"))
    assert explain(softmax, held, memory, "").help == "the slab is enough"
    late = Ruling("timeout", "time_limit", case, "float64", Outcome("timeout", detail="5 s"))
    assert "loop" in str(explain(softmax, held, late, "").help)


def test_calls_of_a_function_handed_in_are_counted_where_a_call_was_ended(exercise_of: Find) -> None:
    greedy = exercise_of("greedy_decode")
    case = cases.draw(greedy, "random", 0, 7)
    ended = Outcome("timeout", detail="5 s", calls=(("step_fn", [[1]]),) * 3)
    ruling = Ruling("timeout", "time_limit", case, "float64", ended)
    assert explain(greedy, ask(greedy), ruling, "").note == "`step_fn` had been called 3 times by then."


def test_a_call_that_has_no_answer_is_told_by_its_argument(exercise_of: Find) -> None:
    greedy = exercise_of("greedy_decode")
    case = cases.draw(greedy, "random", 0, 7)
    answer = cases.answerer(case, "python", "float64", [])
    for ids, told in (
        ([0, 1, 2.31], "step_fn got ids = [0, 1, 2.31]: item 2 is not an integer"),
        (3, "step_fn got ids = 3, which is no list"),
        ([], "step_fn got ids = [], to which it has no answer"),
    ):
        with pytest.raises(ValueError) as caught:
            answer("step_fn", [ids])
        assert str(caught.value) == told
        raised = Outcome("raised", error=Error("ValueError", told, "exception", (FRAME,)))
        ruling = Ruling("error", "exception", case, "float64", raised)
        assert explain(greedy, ask(greedy), ruling, "").claim == "`step_fn`" + told.removeprefix("step_fn") + "."
    own = Outcome("raised", error=Error("ValueError", "no ids", "exception", (FRAME,)))
    ruling = Ruling("error", "exception", case, "float64", own)
    assert explain(greedy, ask(greedy), ruling, "").claim == "Your function raised ValueError: no ids"


FRAME = {"own": True, "file": "mine.py", "line": 3, "column": 9, "function": "softmax", "text": "    return x / 0.7071"}


@pytest.mark.parametrize(
    "outcome, claim",
    [
        (Outcome("timeout", detail="5 s"), "The call did not finish within 5 s."),
        (Outcome("memory", detail="64 MB"), "The call used more memory than it may (limit 64 MB)."),
        (Outcome("crashed", detail="SIGSEGV", extra={"how": "signal"}), "The process that ran your function was ended by SIGSEGV before it returned."),
        (Outcome("crashed", detail="exit code 3"), "The process that ran your function ended itself (exit code 3) before it returned."),
        (Outcome("too_large"), "The result is far larger than the expected one and was not read."),
        (Outcome("garbled"), "Your function returned nothing that could be read."),
        (Outcome("forbidden", error=Error("PermissionError", "open('/etc')", "forbidden_operation", (FRAME,))), "Your code tried something that is not allowed while it is graded: open('/etc')."),
        (Outcome("raised", error=Error("SystemExit", "0", "exited", (FRAME,))), "Your code ended the program (SystemExit) instead of returning a result."),
        (Outcome("raised", error=Error("NotImplementedError", "", "exception", (FRAME,))), "`softmax` is not written yet."),
        (Outcome("raised", error=Error("AssertionError", "", "exception", (FRAME,))), "Your function raised AssertionError."),
        (Outcome("raised", error=Error("ValueError", "one\ntwo", "exception", (FRAME,))), "Your function raised ValueError: one"),
    ],
)  # fmt: skip
def test_calls_without_a_result(softmax: Exercise, outcome: Outcome, claim: str) -> None:
    verdict, cause = verdicts.of_outcome(outcome)
    ruling = Ruling(verdict, cause, drawn(softmax), "float64", outcome)
    found = explain(softmax, ask(softmax), ruling, "grade softmax")
    assert found.claim == claim
    if outcome.error is not None:
        assert ("where", "mine.py:3:9, in softmax\n    return x / 0.7071") in found.blocks


# --- what is not shown ------------------------------------------------------------------------------------------------


def rulings(exercise: Exercise) -> list[Ruling]:
    """Failures of every sort, each with values, dims and a message that must not be told."""
    case = drawn(exercise, A=2, B=3, C=4)
    mine, theirs = tensor([[-0.70710678, 0.70710678]]), tensor([[-0.99999, 0.99999]])
    found = []
    mismatch = wrong(mine, theirs)
    facts = {"claim": "0.7071 of shape (A=2)", "blocks": [("0.99999", "31415")], "help": "31415", "first": mine}
    grid = Grid("a", "b", ((True,),), ((False,),))
    for cause in [*BARE, "missing_call"]:
        own = {"claim": "The file does not call exp."} if cause == "missing_call" else facts
        found.append(Ruling("fail", cause, case, "float64", Outcome("returned"), mismatch, grid=grid, facts=own))
    error = Error("0.99999", "0.7071 of shape (2, 3)", "exception", (FRAME,))
    for status in ("raised", "timeout", "memory", "crashed", "forbidden", "too_large", "garbled"):
        outcome = Outcome(status, error=error, detail="31415", changes=())
        verdict, cause = verdicts.of_outcome(outcome)
        found.append(Ruling(verdict, cause, case, "float64", outcome, facts=facts))
    return found


def test_a_verdict_is_a_sentence_and_nothing_else(softmax: Exercise) -> None:
    question = replace(ask(softmax, "verdict"), help=None)
    for ruling in rulings(softmax):
        found = explain(softmax, question, ruling, "grade softmax --case 31415:random-0")
        assert found == Explanation(claim=found.claim), ruling.cause
        assert found.claim.endswith(".") and not any(secret in found.claim for secret in SECRETS), found.claim


def test_a_summary_shows_no_value(softmax: Exercise) -> None:
    question = replace(ask(softmax, "summary"), help=None)
    mine, theirs = tensor([[1.5, 0.5, 3.0]]), tensor([[0.75, 0.25, 1.5]])
    case = drawn(softmax, A=2, B=3, C=4)
    for cause in (None, "structure", "calls", "does_not_fall"):
        facts = {"claim": "after step 0.75 it is 1.5"} if cause else {}
        ruling = Ruling("fail", cause, case, "float64", Outcome("returned"), wrong(mine, theirs), facts=facts)
        found = explain(softmax, question, ruling, "grade softmax --case 31415:random-0")
        assert found.blocks == () and found.grid is None and found.where == ()
        assert "0.75" not in found.claim and "1.5" not in found.claim
        assert found.call and found.rerun == "grade softmax --case 31415:random-0"


def test_every_cause_has_its_bare_sentence() -> None:
    """Whatever cause a check gives, `reveal: verdict` has a sentence for it."""
    known = set()
    for path in (ROOT / "grader" / "checks").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        known |= set(re.findall(r'Ruling\(\s*"fail",\s*"(\w+)"', text))
        known |= set(re.findall(r'_failed\(\s*\w+,\s*\w+,\s*"(\w+)"', text))
    assert len(known) >= 8
    assert known - set(BARE) <= {"forbidden_call", "missing_call"}
    assert {verdicts.of_mismatch(Mismatch(kind))[1] for kind in verdicts._MISMATCH_CAUSES} <= set(BARE)


# --- the call ---------------------------------------------------------------------------------------------------------


def test_calls_as_they_would_be_typed(exercise_of: Find) -> None:
    softmax = exercise_of("softmax")
    small = cases.draw(softmax, "large_scores", 0, 7, {"A": 1, "B": 1, "C": 2})
    assert re.fullmatch(
        r"softmax\(x=\[\[\[\d+\.0, \d+\.0\]\]\], axis=2\)   \(case: scores up to 1e4\)",
        call_text(softmax, small, "float64"),
    )
    assert call_text(softmax, small, "float32", "scores up to 1e4").endswith("axis=2) in float32")
    forward = exercise_of("encoder_decoder_forward")
    text = call_text(forward, cases.draw(forward, "random", 0, 7), "float64")
    assert re.fullmatch(r"encoder_decoder_forward\((\w+=\d+, )+num_heads=\d\)", text)
    assert " S=" in text and "width=" not in text and "heads=" in text
    example = call_text(
        forward, cases.example(forward, "worked_example", 7), "float64", "the statement's worked example"
    )
    assert example == (
        "encoder_decoder_forward(…, num_heads=2)   (the worked example of grade encoder_decoder_forward --show)"
    )
    clip = exercise_of("clip_gradients")
    assert "grads=[None, shape (" in call_text(clip, cases.draw(clip, "none_in_place", 0, 7), "float64")
    greedy = exercise_of("greedy_decode")
    assert call_text(greedy, cases.draw(greedy, "random", 0, 7), "float64").startswith(
        "greedy_decode(step_fn, prompt=["
    )


def test_plain_numbers_are_always_in_a_call_and_sizes_have_the_names_of_the_statement(exercise_of: Find) -> None:
    adamw = exercise_of("adamw_step")
    text = call_text(adamw, cases.draw(adamw, "random", 0, 7), "float64")
    assert "a=" not in text and "b=" not in text and "param of shape (" in text
    assert all(f"{name}=" in text for name in ("step", "lr", "beta1", "beta2", "eps", "weight_decay"))
    step = exercise_of("kv_cache_step")
    text = call_text(step, cases.draw(step, "random", 0, 7), "float64")
    assert text.count("heads=") == 1 and "num_heads=" in text
    grouped = exercise_of("grouped_query_attention")
    text = call_text(grouped, cases.draw(grouped, "random", 0, 7), "float64")
    assert "width_q" not in text and "num_kv_heads=" in text and "group=" not in text
    flash = exercise_of("flash_attention")
    text = call_text(flash, cases.example(flash, "three_tokens", 7), "float64")
    assert "block_size=1, causal=True)   (the worked example of grade flash_attention --show)" in text
    assert " more)" not in text


def test_many_arrays_are_cut_but_no_plain_number(exercise_of: Find) -> None:
    loss = exercise_of("decoder_lm_loss")
    case = cases.draw(loss, "random", 0, 7)
    arguments = {"alpha": 0.5, **case.arguments, **{f"more_{at}": case.arguments["w_q"] for at in range(9)}, "beta": 2}
    nameless = replace(loss, folder=loss.folder.parent / "none")
    text = call_text(nameless, replace(case, arguments=arguments), "float64")
    assert "alpha=0.5" in text and "beta=2" in text and re.search(r"… \d+ more\)$", text) and len(text) < 330


def test_the_numbers_of_a_small_call_are_shown(exercise_of: Find) -> None:
    loss = exercise_of("masked_cross_entropy")
    case = cases.draw(loss, "random", 0, 7, {"B": 1, "T": 1, "V": 2})
    mismatch = wrong(1.5, 1.25, loss.spec.output)
    ruling = Ruling("fail", None, case, "float64", Outcome("returned", value=1.5), mismatch)
    blocks = dict(explain(loss, ask(loss), ruling, "").blocks)
    shown = np.array(eval(blocks["logits"]))
    np.testing.assert_allclose(shown, case.arguments["logits"].values, atol=1e-5)
    large = replace(ruling, case=cases.draw(loss, "random", 0, 7))
    assert "logits" not in dict(explain(loss, ask(loss), large, "").blocks)
    assert explain(loss, ask(loss, "verdict"), ruling, "").blocks == ()
    assert explain(loss, ask(loss, "summary"), ruling, "").blocks == ()


def test_a_function_handed_in_is_shown_where_a_list_goes_wrong(exercise_of: Find) -> None:
    greedy = exercise_of("greedy_decode")
    case = cases.draw(greedy, "worked_example", 0, 7)
    calls = tuple(("step_fn", [ids]) for ids in ([3, 0], [3, 0, 1]))
    for value in ([3, 0, 1, 3], [3, 0, 1, 3, 2]):
        mismatch = wrong(value, [3, 0, 1, 2, 3], greedy.spec.output, "python")
        ruling = Ruling("fail", None, case, "float64", Outcome("returned", value=value, calls=calls), mismatch)
        assert ("step_fn([3, 0, 1])", "[0.5, 0.2, 1.5, 1.5]") in explain(greedy, ask(greedy), ruling, "").blocks
    uncalled = replace(ruling, outcome=Outcome("returned", value=value, calls=calls[:1]))
    assert not any("step_fn" in label for label, _ in explain(greedy, ask(greedy), uncalled, "").blocks)


# --- which check is shown ---------------------------------------------------------------------------------------------


def check(
    id: str, cause: str | None = None, claim: str = "Values differ from the reference.", **more: Any
) -> CheckResult:
    explanation = Explanation(
        claim=claim,
        blocks=(("you returned", more.pop("text", "[1.0]")),),
        grid=more.pop("grid", None),
        where=more.pop("where", ()),
    )
    return CheckResult(id, id, more.pop("verdict", "fail"), 0, 1, cause=cause, explanation=explanation, **more)


def test_the_most_telling_failure_is_chosen() -> None:
    grid = Grid("a", "b", ((True,),), ((False,),))
    passed = CheckResult("p", "p", "pass", 1, 1)
    assert leading([passed]) is None
    values, other = check("random", text="[1.0]" * 100), check("small")
    assert leading([values, other]) is other, "the shorter one"
    assert leading([check("first"), check("second")]).id == "first"  # type: ignore[union-attr]
    picture = check("reads", "not_read", grid=grid)
    assert leading([values, picture]) is picture, "a picture of what depends on what"
    related = check(
        "b", text="[1.0]" * 9, where=("on a result of shape (2,): along row everything stands one place earlier",)
    )
    assert leading([values, other, picture, related]) is related, "a plain relation says as much as a picture"
    changed = check("inputs", "inputs_changed", "Your function changed `x`.")
    assert leading([changed, values]) is values, "values before effects"
    assert leading([changed]) is changed
    shape = check("edge", "shape", "The result has the wrong shape.")
    assert leading([shape, values, other]) is other, "what most have in common"
    advisory = check("strided", "strided", advisory=True)
    assert leading([advisory, changed]) is changed and leading([passed, advisory]) is advisory
    shaky = check("repeatable", "not_repeatable", "The same inputs gave another result.")
    assert leading([values, picture, shaky]) is shaky, "what changes by itself seems to depend on everything"
    dtype = check("random", "dtype", "The result has dtype float32; expected float64.")
    assert leading([dtype, shaky]) is dtype


def test_the_worked_example_is_shown_before_other_cases_that_fail_alike() -> None:
    def at(id: str, group: str, **more: Any) -> CheckResult:
        return check(id, case=CaseRef(id, 1, {}, f"7:{id}", group), **more)

    edge, random, example = at("edge", "edge"), at("random", "random", text="[1.0]" * 90), at("example", "examples")
    assert leading([edge, random]) is random, "a special case, and its special help, only where plain ones pass"
    assert leading([edge, random, example]) is example
    related = at("related", "random", where=("your values are 2 × the expected ones, everywhere",))
    assert leading([related, edge, example]) is example
    otherwise = at("example", "examples", claim="The result has the wrong shape.")
    assert leading([related, edge, otherwise]) is related, "it fails in another way"
    picture = at("reads", "random", grid=Grid("a", "b", ((True,),), ((False,),)))
    assert leading([example, picture]) is picture
    named = replace(at("edge", "edge"), title="the worked example, a model")
    assert leading([random, named]) is named


def test_checks_that_were_not_run_are_alike_only_for_one_reason() -> None:
    one, two = (check("a", claim=f"Not run: {why}.", verdict="skipped") for why in ("no case", "nothing is right"))
    assert likeness(one) != likeness(two)


def test_checks_alike_but_for_numbers() -> None:
    one, two = (
        check("a", claim="The result has 2 items; expected 3."),
        check("b", claim="The result has 5 items; expected 4."),
    )
    assert likeness(one) == likeness(two) != likeness(check("c"))


# --- grids and numbers ------------------------------------------------------------------------------------------------


def test_grids_beside_each_other_or_below() -> None:
    grid = Grid("target", "source", ((True, False), (True, None)), ((True, False), (True, True)))
    assert grid_text(grid).splitlines() == [
        "  source 0 1     expected 0 1",
        "target 0 ● ·              ● ·",
        "target 1 ● ?              ● ●",
        "● output changed   · output unchanged   ? undecided",
        "rows: the output, by target; columns: the source position that was changed",
    ]
    same = Grid("target", "target", ((True,),), ((True,),))
    assert grid_text(same).splitlines()[-1] == "rows: the output, by target; columns: the position that was changed"
    wide = Grid("t", "s", ((True,) * 30,), ((False,) * 30,))
    assert max(map(len, grid_text(wide).splitlines())) <= 76 and "expected" in grid_text(wide).splitlines()


finite = st.floats(-1e12, 1e12).filter(lambda value: value == 0 or abs(value) > 1e-12)


@settings(max_examples=300, deadline=None)
@given(st.lists(finite, min_size=1, max_size=8), st.sampled_from([1e-12, 1e-6, 1e-3, 0.5, 100.0]))
def test_a_difference_always_shows(numbers: list[float], relative: float) -> None:
    """Two numbers that differ clearly (for float64) are written differently, and each as a number near itself."""
    mine = np.array(numbers)
    theirs = mine + relative * np.maximum(np.abs(mine), 1e-3)
    wrong = mine != theirs
    gap = numerals.smallest_gap(mine, theirs, wrong)
    write = numerals.formatter((mine, theirs), gap)
    worst = int(np.argmax(np.abs(mine - theirs)))
    assert write(mine[worst]) != write(theirs[worst])
    for value in (*mine, *theirs):
        assert abs(float(write(value)) - value) <= max(np.abs(mine - theirs).max(), 1e-5 * np.abs(mine).max())


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(lambda shape: np.prod(shape) <= 24),
    st.integers(0, 1000),
)
def test_arrays_are_written_as_python_reads_them(shape: list[int], seed: int) -> None:
    values = np.round(np.random.default_rng(seed).normal(size=shape), 2)
    write = numerals.formatter((values,))
    text = numerals.whole(values, write, numerals.widest((values,), write))
    if values.size:
        np.testing.assert_allclose(np.array(eval(text)), values)
        assert len({len(line) for line in text.splitlines()}) <= 2 or values.ndim > 2


def test_special_numbers() -> None:
    values = np.array([-np.inf, 0.0, np.nan, 1.5])
    write = numerals.formatter((values,))
    assert [write(value) for value in values] == ["-inf", "0.0", "nan", "1.5"]
    masks = np.array([0.0, -1e9])
    assert [numerals.formatter((masks,))(value) for value in masks] == ["0", "-1e+09"]
    zero = np.array([-0.0, -1.23456789e-12])
    assert [numerals.formatter((zero,))(value) for value in zero] == ["0", "-1.2346e-12"]
    assert numerals.exact(-0.0) == "0.0"
    tiny = np.array([1.25e-7, 3e-9])
    assert [numerals.formatter((tiny,))(value) for value in tiny] == ["1.25e-07", "3e-09"]
    assert numerals.formatter((np.array([True, False]),))(np.True_) == "True"
    assert (
        numerals.exact(0.1 + 0.2) is None and numerals.exact(10000.0) == "10000.0" and numerals.exact(1e-5) == "1e-05"
    )


@pytest.mark.parametrize(
    "row",
    [
        [0.5684258937835693, -0.1660969853401184],
        [0.9, 0.2],
        [0.99, 0.011],
        [3.7, 1.1],
        [123456.7, 99999.9],
        [2.5e-5, 1e-5],
    ],
)
def test_a_difference_in_the_last_bit_shows(row: list[float]) -> None:
    before, after = np.array(row), np.array(row)
    after[-1] = np.nextafter(after[-1], 10)
    write = numerals.formatter((before, after), numerals.smallest_gap(after, before, after != before))
    assert write(before[-1]) != write(after[-1]) and write(before[0]) == write(after[0])
