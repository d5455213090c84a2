"""What every exercise's own texts owe a student: statements that fit a terminal and leave nothing to guess, and help that helps."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from conftest import ROOT

from grader import diagnose
from grader.spec.exercise import Exercise

EXERCISES = sorted(path.parent.name for path in ROOT.glob("exercises/*/*/exercise.yaml"))
# A terminal of 80 columns, less the margin of `grade NAME --show`.
WIDTH = 78
# How a statement names what an advisory check looks at.
NAMED = {
    "gradients": "gradients",
    "strided": "inputs that are not contiguous in memory",
    "precision": "arithmetic in the inputs' precision (no step of a float64 call is done in a narrower dtype; a wider dtype "
    "than the inputs' is always fine)",
    "source": "calls of `F.scaled_dot_product_attention`",
}
# Their worked examples take whole tables of random numbers, and stand in the statement alone.
EXAMPLE_IN_WORDS_ONLY = {"decoder_forward", "sgd_train_step"}

Find = Callable[[str], Exercise]


def statement(exercise: Exercise) -> str:
    return exercise.statement.read_text(encoding="utf-8")


def code_lines(text: str) -> list[str]:
    """The lines inside fences, with their indentation."""
    found, inside = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            inside = not inside
        elif inside:
            found.append(line)
    assert not inside, "a fence is not closed"
    return found


def prose(text: str) -> str:
    """The whole text with every run of blanks as one, so that line breaks do not matter."""
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("name", EXERCISES)
def test_code_blocks_fit_into_eighty_columns(name: str, exercise_of: Find) -> None:
    lines = code_lines(statement(exercise_of(name)))
    assert lines
    assert [line for line in lines if len(line) > WIDTH] == []


@pytest.mark.parametrize("name", EXERCISES)
def test_statements_say_which_functions_are_allowed(name: str, exercise_of: Find) -> None:
    assert prose(statement(exercise_of(name))).count(" may be used") == 1


@pytest.mark.parametrize("name", EXERCISES)
def test_statements_name_what_is_looked_at_without_points(name: str, exercise_of: Find) -> None:
    exercise = exercise_of(name)
    text = prose(statement(exercise))
    advisory = {check.kind for check in exercise.spec.checks if check.advisory}
    assert ("Advisory checks are reported and cost no points" in text) == bool(advisory)
    assert [kind for kind in advisory if NAMED[kind] not in text] == []


@pytest.mark.parametrize("name", EXERCISES)
def test_the_worked_example_is_graded_under_that_name(name: str, exercise_of: Find) -> None:
    cases = exercise_of(name).spec.cases
    titles = [case.title or "" for case in cases.examples.values()] + [case.title or "" for case in cases.edge.values()]
    worked = [title for title in titles if re.match(r"the worked .*example", title)]
    assert bool(worked) == (name not in EXAMPLE_IN_WORDS_ONLY)
    assert [title for title in titles if "published example" in title or "statement's" in title] == []


@pytest.mark.parametrize("name", EXERCISES)
def test_every_edge_case_and_every_mistake_has_its_own_help(name: str, exercise_of: Find) -> None:
    exercise = exercise_of(name)
    assert [key for key, case in exercise.spec.cases.edge.items() if not (case.help or "").strip()] == []
    assert [each.id for each in diagnose.read(exercise) if not (each.help or "").strip()] == []


@pytest.mark.parametrize("name", EXERCISES)
def test_a_limit_of_exp_is_given_for_both_dtypes(name: str, exercise_of: Find) -> None:
    exercise = exercise_of(name)
    helps = [case.help or "" for case in exercise.spec.cases.edge.values()]
    assert [each for each in helps if "709" in each and "88" not in each] == []
