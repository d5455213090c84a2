"""The smallest failing case: of the same kind of failure, within what the file allows, and the same each time."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toys import check, exercise, graded

from grader import cases, shrink
from grader.cases import Case
from grader.checks import values
from grader.errors import GraderFault
from grader.model import Error, Mismatch, Outcome, Ruling
from grader.oracle import IllConditioned
from grader.sandbox.runner import Runner
from grader.spec.exercise import Exercise

Warm = Callable[[str], Runner]
BODY = """
framework: numpy
dims:
  N: 4..6
  T: 7..12
  heads: [2, 3]
  width: 2..5
  d: heads * width
  even: [14, 16, 18]
constraints: [T > N]
inputs: {x: {shape: [N, T, d]}, y: {shape: [even]}}
cases:
  random: 3
  edge: {wide: {title: wide, dims: {width: 20..22}}}
  examples: {one: {title: one, inputs: {x: [[[1, 2]]], y: [1, 2]}}}
checks: [{kind: values, cases: random}, {kind: values, cases: edge}, {kind: values, cases: examples}]
"""
SOLUTION = "def toy(x, y):\n    return x.sum(1) + y.sum()\n"


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Exercise:
    return exercise(tmp_path_factory.mktemp("shrink"), BODY, SOLUTION)


class Judge:
    """A rule by dims, which counts how often it is asked."""

    def __init__(self, wrong: Callable[[dict[str, int]], Any]) -> None:
        self.wrong = wrong
        self.asked: list[dict[str, int]] = []

    def __call__(self, case: Case, dtype: str) -> Ruling:
        self.asked.append(case.dims)
        said = self.wrong(case.dims)
        if isinstance(said, Exception):
            raise said
        if isinstance(said, str):
            return Ruling(
                "error", "exception", case, dtype, Outcome("raised", error=Error(said, "", "exception"), seconds=9.0)
            )
        # Slow beyond anyone's patience: the time a call took must decide nothing.
        outcome = Outcome("returned", value=1.0, seconds=9.0)
        return (
            Ruling("fail", None, case, dtype, outcome, Mismatch("values"))
            if said
            else Ruling("pass", None, case, dtype, outcome)
        )


def smallest(toy: Exercise, judge: Judge, name: str = "random", seed: int = 5) -> Ruling:
    first = judge(cases.draw(toy, name, 0, seed), "float64")
    return shrink.smallest(toy, first, judge, values.kind_of)


def test_every_size_becomes_the_least_that_fails_alike(toy: Exercise) -> None:
    judge = Judge(lambda dims: dims["T"] >= 5 and dims["d"] >= 4)
    found = smallest(toy, judge).case
    assert found.dims == {"N": 1, "T": 5, "heads": 2, "width": 2, "d": 4, "even": 14}
    assert found.token == "5:random-0:N=1,T=5,heads=2,width=2,d=4,even=14"
    assert len(judge.asked) <= shrink.MAX_TRIES + 1


def test_only_listed_sizes_are_tried_and_constraints_hold(toy: Exercise) -> None:
    judge = Judge(lambda dims: True)
    assert smallest(toy, judge).case.dims == {"N": 1, "T": 2, "heads": 2, "width": 1, "d": 2, "even": 14}
    assert all(dims["even"] in (14, 16, 18) and dims["heads"] in (2, 3) for dims in judge.asked)
    assert all(dims["T"] > dims["N"] and dims["d"] == dims["heads"] * dims["width"] for dims in judge.asked)


def test_an_edge_case_never_leaves_what_makes_it_one(toy: Exercise) -> None:
    judge = Judge(lambda dims: True)
    assert smallest(toy, judge, "wide").case.dims["width"] == 20
    assert all(dims["width"] >= 20 for dims in judge.asked)


def test_another_kind_of_failure_is_not_the_same(toy: Exercise) -> None:
    judge = Judge(lambda dims: "IndexError" if dims["N"] < 4 else True)
    found = smallest(toy, judge)
    assert found.verdict == "fail" and found.case.dims["N"] == 4


@pytest.mark.parametrize("fault", [GraderFault("the reference fails"), IllConditioned("no tolerance")])
def test_sizes_that_the_reference_cannot_answer_are_passed_over(fault: Exception, toy: Exercise) -> None:
    assert smallest(toy, Judge(lambda dims: fault if dims["N"] < 3 else True)).case.dims["N"] == 3


def test_a_failure_that_nothing_smaller_shows_stays_as_it_is(toy: Exercise) -> None:
    judge = Judge(lambda dims: len(judge.asked) == 1)
    first = smallest(toy, judge)
    assert first.case.dims == judge.asked[0] and not first.case.shrunk


def test_neither_examples_nor_calls_without_a_result_are_shrunk(toy: Exercise) -> None:
    judge = Judge(lambda dims: True)
    example = Ruling("fail", None, cases.example(toy, "one", 1), "float64", Outcome("returned"), Mismatch("values"))
    assert shrink.smallest(toy, example, judge, values.kind_of) is example
    ended = Ruling("crashed", "exited", cases.draw(toy, "random", 0, 1), "float64", Outcome("crashed"))
    assert shrink.smallest(toy, ended, judge, values.kind_of) is ended
    assert not judge.asked


def test_tries_are_counted_and_nothing_else(toy: Exercise) -> None:
    judge = Judge(lambda dims: (dims["N"], dims["T"], dims["width"]) != (1, 2, 1) and sum(dims.values()) % 2 == 1)
    first = smallest(toy, judge, seed=8)
    again = Judge(judge.wrong)
    assert smallest(toy, again, seed=8).case.dims == first.case.dims
    assert again.asked == judge.asked and len(judge.asked) <= shrink.MAX_TRIES + 1


def test_what_a_report_shows_replays(toy: Exercise, warm: Warm) -> None:
    source = "def toy(x, y):\n    return x.sum(1) + y.sum() + (1 if x.shape[1] > 4 and len(x) > 1 else 0)\n"
    shown = check(graded(toy, source, warm("numpy"), 3), "values")
    assert shown.case is not None
    assert shown.case.dims == {"N": 2, "T": 5, "heads": 2, "width": 1, "d": 2, "even": 14}
    again = graded(toy, source, warm("numpy"), case=shown.case.token)
    replayed = check(again, "values")
    assert (replayed.verdict, replayed.case and replayed.case.dims, again.seed) == ("fail", shown.case.dims, 3)
    assert replayed.message.splitlines()[:3] == shown.message.splitlines()[:3]
    assert {result.id for result in again.checks} == {"values"}


def test_a_slow_submission_gets_the_same_report(toy: Exercise, warm: Warm, tmp_path: Path) -> None:
    source = "import time\ndef toy(x, y):\n    time.sleep(PAUSE)\n    return x.sum(1) + y.sum() + x.shape[1] // 5\n"
    reports = [graded(toy, source.replace("PAUSE", pause), warm("numpy"), 3) for pause in ("0", "0.06")]
    assert [result.case for result in reports[0].checks] == [result.case for result in reports[1].checks]
    assert [result.message for result in reports[0].checks] == [result.message for result in reports[1].checks]


def test_a_clear_difference_stays_clear(toy: Exercise) -> None:
    class Faint(Judge):
        def __call__(self, case: Case, dtype: str) -> Ruling:
            ruling = super().__call__(case, dtype)
            ratio = 1e6 if case.dims["T"] >= 5 else 1.5
            return replace(ruling, mismatch=replace(ruling.mismatch, ratio=ratio)) if ruling.mismatch else ruling

    assert smallest(toy, Faint(lambda dims: True)).case.dims["T"] == 5


def test_ids_of_a_smaller_case_stay_below_their_bound(tmp_path: Path) -> None:
    body = """
    framework: numpy
    dims: {N: 4..6, V: 5..7}
    inputs: {ids: {kind: ids, shape: [N], below: V}}
    adjust: ["ids = ids % (V - 2) + 1"]
    cases:
      random: 3
      edge: {beyond: {title: beyond, adjust: ["ids = ids + 100"]}}
    checks: [{kind: values, cases: random}, {kind: values, cases: edge}]
    """
    made = exercise(tmp_path, textwrap.dedent(body), "def toy(ids):\n    return ids\n")
    assert smallest(made, Judge(lambda dims: True)).case.dims == {"N": 1, "V": 2}
    # Where ids leave their bound on purpose, smaller cases may too.
    assert smallest(made, Judge(lambda dims: True), "beyond").case.dims["N"] == 1


@pytest.mark.parametrize("name", ["greedy_decode", "encoder_forward", "encoder_decoder_forward", "flash_attention"])
def test_smaller_cases_of_the_exercises_keep_what_the_statement_promises(
    name: str, exercise_of: Callable[[str], Exercise]
) -> None:
    found = exercise_of(name)
    for case_name in ("random", *found.spec.cases.edge):
        for seed in range(4):
            small = smallest(found, Judge(lambda dims: True), case_name, seed).case
            assert cases.ids_in_range(found, small)
            if name == "greedy_decode":
                assert max(small.arguments["prompt"]) < small.dims["V"] and small.dims["eos"] < small.dims["V"]
                assert case_name != "random" or small.dims["eos"] not in small.arguments["prompt"]
            if case_name == "ragged_last_block":
                assert small.dims["S"] % small.dims["block"] != 0


def test_a_replayed_case_is_the_one_that_the_token_names(toy: Exercise, warm: Warm) -> None:
    source = "def toy(x, y):\n    return x.sum(1) + y.sum() + (1 if x.shape[1] > 4 and len(x) > 1 else 0)\n"
    for token in ("3:random-1", "3:wide"):
        shown = check(graded(toy, source, warm("numpy"), case=token), "wide" if "wide" in token else "values")
        assert shown.case is not None and shown.case.token == token


def test_of_several_wrong_results_a_clear_one_is_shown(warm: Warm, tmp_path: Path) -> None:
    """The smallest case is off by a hair of the tolerance here, and reads like rounding."""
    body = """
    framework: numpy
    dims: {N: 2..9}
    inputs: {x: {shape: [N]}}
    cases: {random: 8}
    checks: [{kind: values, cases: random, dtypes: [float64]}]
    """
    made = exercise(tmp_path, textwrap.dedent(body), "def toy(x):\n    return 2 * x\n")
    source = "def toy(x):\n    return 2 * x + (1e-5 if len(x) < 5 else 1.0)\n"
    shown = check(graded(made, source, warm("numpy"), 3), "values")
    assert shown.case is not None and shown.case.dims == {"N": 5}
    faint = check(graded(made, source.replace("1.0)", "1e-5)"), warm("numpy"), 3), "values")
    assert faint.case is not None and faint.case.dims == {"N": 1}
