"""A mistake is named only where it was measured: on every call, right ones too, and nothing is ever guessed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from toys import check, exercise, graded, text, verdicts

from grader.diagnose import Diagnostician, Misconception, patched
from grader.errors import AuthorError
from grader.model import Report
from grader.sandbox.runner import Runner, Worker
from grader.spec.exercise import Exercise
from grader.spec.schema import PatchEntry

Warm = Callable[[str], Runner]

BODY = """
framework: numpy
dims: {N: 2..4, T: 5..7, d: 8..9}
inputs:
  x: {shape: [N, T]}
  w: {shape: [T, d]}
cases:
  random: 4
  edge: {one_row: {title: one row, dims: {N: 1}}}
checks:
  - {kind: values, cases: random}
  - {kind: values, cases: edge}
  - {kind: inputs_unchanged}
  - {kind: repeatable}
  - {kind: source, forbid: [np.einsum]}
  - {kind: strided}
"""
SOLUTION = """
import numpy as np
def toy(x, w):
    scale = 2.0
    mean = x.mean(-1, keepdims=True)
    y = (x - mean) * scale
    return y @ w + 1
"""
MISCONCEPTIONS = """
- id: no_mean
  says: the mean is not taken off.
  patch: [{find: "x.mean(-1, keepdims=True)", replace: "0 * x"}]
- id: wrong_axis
  says: the mean is taken over the wrong axis.
  patch: [{find: "mean(-1", replace: "mean(0"}]
- id: scale_three
  says: the scale is 3, not 2.
  help: Look at the scale.
  equals: [half_six]
  patch: [{find: "scale = 2.0", replace: "scale = 3.0"}]
- id: half_six
  says: the scale is half of 6.
  equals: [scale_three]
  patch: [{find: "scale = 2.0", replace: "scale = 6.0 / 2"}]
- id: no_offset
  says: the offset is left out.
  patch: [{find: " + 1", replace: ""}]
- id: in_place
  says: the mean is taken off in place.
  patch: [{find: "y = (x - mean) * scale", replace: "x -= mean; y = x * scale"}]
- id: no_single_row
  says: a single row is refused.
  patch: [{find: "    scale = 2.0", replace: "    scale = 2.0\\n    if len(x) == 1: raise IndexError('one row')"}]
- id: same_thing
  says: nothing at all.
  patch: [{find: "(x - mean)", replace: "(x + 0 - mean)"}]
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Exercise:
    return exercise(tmp_path_factory.mktemp("diagnose"), BODY, SOLUTION, MISCONCEPTIONS)


def student(
    scale: str = "2", mean: str = "np.mean(x, axis=1)[:, None]", offset: str = "1", before: str = "pass"
) -> str:
    """The same in other words, and mistakes in their own words."""
    return f"""
import numpy as np
def toy(a, matrix):
    x = a
    {before}
    centred = x - {mean}
    return {offset} + {scale} * np.matmul(centred, matrix)
"""


def named(report: Report) -> list[str]:
    assert report.status == "graded", report.reason
    return [diagnosis.misconception for diagnosis in report.diagnoses]


def test_the_words_of_the_student_are_right(toy: Exercise, warm: Warm) -> None:
    report = graded(toy, student(), warm("numpy"))
    assert report.passed and named(report) == []


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (student(mean="0"), ["no_mean"]),
        (student(mean="np.mean(x, axis=0)"), ["wrong_axis"]),
        (student(scale="3"), ["scale_three", "half_six"]),
        (student(offset="0"), ["no_offset"]),
        (student(before="x -= x.mean(1, keepdims=True)"), ["in_place"]),
        (student(before="x[[0, 1]]"), ["no_single_row"]),
    ],
    ids=["no_mean", "wrong_axis", "scale", "no_offset", "in_place", "no_single_row"],
)
def test_a_listed_mistake_is_named_in_any_words(source: str, wanted: list[str], toy: Exercise, warm: Warm) -> None:
    for seed in (1, 2):
        assert named(graded(toy, source, warm("numpy"), seed)) == wanted


def test_what_is_said_of_it(toy: Exercise, warm: Warm) -> None:
    report = graded(toy, student(scale="3"), warm("numpy"))
    failing = check(report, "values")
    assert "likely cause: the scale is 3, not 2." in failing.message
    assert failing.hint == "Look at the scale."
    assert failing.explanation is not None and failing.explanation.evidence is not None
    count = report.diagnoses[0].cases_matched
    assert f"on all {count} failing calls" in failing.explanation.evidence
    # Four random cases and one of one row, each in two dtypes, and the one that is shown.
    assert count in (10, 11)


def test_the_cause_is_not_said_of_what_it_does_not_explain(toy: Exercise, warm: Warm) -> None:
    report = graded(
        toy,
        student(scale="3").replace("np.matmul(centred, matrix)", "np.einsum('nt,td->nd', centred, matrix)"),
        warm("numpy"),
    )
    assert named(report) == ["scale_three", "half_six"]
    assert "likely cause" in check(report, "values").message
    assert check(report, "source").verdict == "fail" and "likely cause" not in check(report, "source").message


def test_a_mistake_may_answer_on_another_scale(warm: Warm, tmp_path: Path) -> None:
    """Held to a tolerance made for squares of 1e-8, no two ways of writing the same mistake would ever be equal."""
    body = """
    framework: numpy
    inputs: {p: {shape: [6]}, g: {shape: [6], scale: 1.0e-8}}
    output: {kind: tuple, items: {p: {}, v: {}}}
    cases: {random: 3}
    checks: [{kind: values}]
    """
    misconceptions = """
    - id: decay_in_gradient
      says: the decay is added to the gradient.
      patch: [{find: "v = g * g", replace: "v = (g + p / 8 + p / 40) ** 2"}]
    """
    toy = exercise(tmp_path, body, "def toy(p, g):\n    v = g * g\n    return p - g, v\n", misconceptions)
    source = "def toy(p, g):\n    h = (6 * p / 40) + g\n    return p - g, h * h\n"
    for seed in range(1, 5):
        assert named(graded(toy, source, warm("numpy"), seed)) == ["decay_in_gradient"]


def test_two_mistakes_are_named_together(toy: Exercise, warm: Warm) -> None:
    report = graded(toy, student(scale="3", offset="0"), warm("numpy"))
    assert named(report) == ["scale_three", "no_offset"]
    assert [diagnosis.combined_with for diagnosis in report.diagnoses] == [("no_offset",), ("scale_three",)]
    assert "the scale is 3, not 2. And: the offset is left out." in check(report, "values").message


@pytest.mark.parametrize(
    "source",
    [
        student(scale="3", offset="0", mean="0"),
        student(scale="2.5"),
        student(scale="(3 if len(x) > 1 else 2)"),
        student(scale="(3 if x.shape[1] == 6 else 2)"),
        student(scale="(3 if x.dtype == np.float64 else x.dtype.type(2))"),
        student(scale="3", before="matrix[0, 0] += 1"),
        student(before="matrix += 0.0; matrix *= 1.0000001"),
        student(before="assert len(x) > 1"),
        student(scale="3.001"),
        "def toy(x, w):\n    raise NotImplementedError\n",
        "def toy(x, w):\n    return x.tolist()\n",
        "import numpy as np\ndef toy(x, w):\n    return np.float32(3) * ((x - x.mean(1, keepdims=True)) @ w).astype(np.float32) + 1\n",
    ],
    ids=[
        "three", "another scale", "not with one row", "one size only", "one dtype only", "and another effect", "another effect",
        "another exception", "nearly", "nothing written", "a list", "another dtype",
    ],
)  # fmt: skip
def test_nothing_is_named_for_what_is_not_listed(source: str, toy: Exercise, warm: Warm) -> None:
    report = graded(toy, source, warm("numpy"))
    assert not report.passed and named(report) == []
    assert not any("likely cause" in result.message for result in report.checks)


def test_a_file_that_cannot_be_loaded_or_does_not_end_is_not_diagnosed(toy: Exercise, warm: Warm) -> None:
    assert named(graded(toy, "def toy(x, w)\n", warm("numpy"))) == []
    assert (
        named(graded(toy, student(scale="3", before="\n    while len(x) == 1: pass"), warm("numpy"), time_limit=0.3))
        == []
    )
    assert (
        named(graded(toy, student(scale="3", before="\n    if len(x) == 1: import os; os._exit(0)"), warm("numpy")))
        == []
    )


class Counting:
    """A runner that counts the workers it starts."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.spawned = 0

    def spawn(self, policy: dict[str, Any] | None) -> Worker:
        self.spawned += 1
        return self._runner.spawn(policy)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)


def test_nothing_runs_for_it_while_everything_passes(toy: Exercise, warm: Warm) -> None:
    counting = Counting(warm("numpy"))
    assert graded(toy, student(), counting).passed  # type: ignore[arg-type]
    assert counting.spawned == 2
    graded(toy, student(scale="3"), counting)  # type: ignore[arg-type]
    assert counting.spawned == 5


@pytest.mark.parametrize(
    ("source", "most"),
    [
        # On plain cases every mistake but `no_single_row` shows, and this answers them rightly.
        (student(before="matrix = matrix * (1 + (len(x) == 1))"), 0),
        ("def toy(x, w):\n    return None\n", 0),
        # Wrong everywhere, in a way of its own: any two may be it.
        (student(scale="2.5"), 28),
    ],
    ids=["right on plain cases", "nothing comes back", "wrong everywhere"],
)
def test_two_at_once_are_searched_only_among_what_can_be(
    source: str, most: int, toy: Exercise, warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs: list[tuple[str, ...]] = []
    ask = Diagnostician._ask_together

    def asked(self: Diagnostician, several: Any, case: Any, dtype: str) -> None:
        pairs.extend(tuple(entry.id for entry in entries) for entries in several if len(entries) == 2)
        ask(self, several, case, dtype)

    monkeypatch.setattr(Diagnostician, "_ask_together", asked)
    report = graded(toy, source, warm("numpy"))
    assert not report.passed and named(report) == []
    assert len(pairs) <= most and (most == 0 or pairs)


@pytest.mark.parametrize(
    "patch",
    [
        "{find: nowhere, replace: x}",
        "{find: 'scale = 2.0', replace: 'scale = ('}",
        "{find: 'scale = 2.0', replace: 'import os; os._exit(1)'}",
    ],
    ids=["fits nowhere", "no Python", "ends the process"],
)
def test_a_useless_patch_is_the_authors_affair_and_no_students(patch: str, warm: Warm, tmp_path: Path) -> None:
    """`grader lint` tells the author. A student is graded all the same, and other mistakes are still named."""
    broken = f"- id: broken\n  says: s.\n  patch: [{patch}]\n" + text(MISCONCEPTIONS)
    toy = exercise(tmp_path, BODY, SOLUTION, broken)
    assert graded(toy, student(), warm("numpy")).passed
    assert named(graded(toy, student(scale="3"), warm("numpy"))) == ["scale_three", "half_six"]
    assert named(graded(toy, student(scale="3", offset="0"), warm("numpy"))) == ["scale_three", "no_offset"]
    assert named(graded(toy, student(scale="2.5"), warm("numpy"))) == []


def test_an_advisory_failure_alone_is_looked_into(warm: Warm, tmp_path: Path) -> None:
    body = BODY.replace("{kind: inputs_unchanged}", "{kind: inputs_unchanged, advisory: true}")
    toy = exercise(tmp_path, body, SOLUTION, MISCONCEPTIONS)
    report = graded(toy, student(before="x -= x.mean(1, keepdims=True)"), warm("numpy"))
    assert verdicts(report)["inputs_unchanged"] == "fail"
    assert named(report) == ["in_place"]


def test_values_of_a_hidden_case_stay_hidden(warm: Warm, tmp_path: Path) -> None:
    toy = exercise(tmp_path, BODY + "reveal: verdict\n", SOLUTION, MISCONCEPTIONS)
    report = graded(toy, student(scale="3"), warm("numpy"))
    assert verdicts(report)["values"] == "fail"
    assert not any("likely cause" in result.message for result in report.checks)


# --- patches ----------------------------------------------------------------------------------------------------------


def misconception(identity: str, *patches: tuple[str, str] | tuple[str, str, bool]) -> Misconception:
    entries = tuple(PatchEntry(find=p[0], replace=p[1], all=bool(p[2]) if len(p) > 2 else False) for p in patches)
    return Misconception(identity, "s.", None, (), entries)


def test_patches_are_applied_in_order_and_must_fit_once() -> None:
    source = text(SOLUTION)
    both = patched(
        source, [misconception("a", ("scale = 2.0", "scale = 3.0")), misconception("b", ("scale = 3.0", "scale = 4.0"))]
    )
    assert "scale = 4.0" in both
    assert patched(source, [misconception("a", ("x", "z", True))]).count("z") == source.count("x")
    with pytest.raises(AuthorError, match="the patch of `a` matches 2 times"):
        patched(source, [misconception("a", ("(x", "("))])
    with pytest.raises(AuthorError, match="`b` no longer matches"):
        patched(
            source,
            [misconception("a", ("scale = 2.0", "scale = 3.0")), misconception("b", ("scale = 2.0", "scale = 4.0"))],
        )


def test_patches_that_do_not_go_together_are_no_pair(toy: Exercise, warm: Warm) -> None:
    """`no_mean` and `wrong_axis` change the same words; a submission that is neither must still get its report."""
    report = graded(toy, student(mean="0.5"), warm("numpy"))
    assert verdicts(report)["values"] == "fail" and named(report) == []


# --- a cause, and what stands beside it -------------------------------------------------------------------------------

SPECIAL = """
framework: numpy
dims: {N: 2..4, T: 5..7}
inputs:
  x: {shape: [N, T]}
output: {axes: [row, column], shape: [N, T]}
cases:
  random: 3
  edge: {one_row: {title: one row, dims: {N: 1}, help: A single row is a row too.}}
checks:
  - {kind: values, cases: random}
  - {kind: values, cases: edge}
"""
DOUBLE = "def toy(x):\n    factor = 2.0\n    return factor * x\n"
TRIPLE = """
- id: three
  says: the factor is 3.
  patch: [{find: "factor = 2.0", replace: "factor = 3.0"}]
- id: three_of_several
  says: the factor is 3 where there are several rows.
  patch: [{find: "factor = 2.0", replace: "factor = 3.0 if len(x) > 1 else 2.0"}]
"""


@pytest.fixture
def special(tmp_path: Path) -> Exercise:
    return exercise(tmp_path, SPECIAL, DOUBLE, TRIPLE)


def test_beside_a_cause_stands_its_own_help_or_none(special: Exercise, warm: Warm) -> None:
    report = graded(special, "def toy(x):\n    return 3.0 * x\n", warm("numpy"))
    for identity in ("values", "one_row"):
        found = check(report, identity)
        assert found.explanation is not None and found.explanation.likely == "the factor is 3."
        assert found.explanation.help is None and found.hint is None
        assert found.explanation.where == (), "the cause says it all"
    evidence = check(report, "values").explanation.evidence  # type: ignore[union-attr]
    assert evidence == "Your results equal the reference with that one change, on all 9 failing calls."


def test_help_for_a_special_case_is_none_where_plain_cases_fail_alike(special: Exercise, warm: Warm) -> None:
    report = graded(special, "def toy(x):\n    return 2 * x + x * x\n", warm("numpy"))
    assert check(report, "one_row").hint is None and not report.diagnoses
    alone = graded(special, "def toy(x):\n    return 2 * x + (x * x if len(x) == 1 else 0)\n", warm("numpy"))
    assert check(alone, "one_row").hint == "A single row is a row too."
    other = graded(special, "def toy(x):\n    return 2 * x[:, :1] if len(x) == 1 else 2 * x + x * x\n", warm("numpy"))
    assert check(other, "one_row").hint == "A single row is a row too.", "it fails in a way of its own"


def test_a_replayed_case_has_the_message_of_the_whole_run(special: Exercise, warm: Warm) -> None:
    """On one row alone both mistakes, and more, would look alike."""
    for source in ("3.0 * x", "3.0 * x if len(x) > 1 else 2 * x", "2 * x + (len(x) > 1) * x * x"):
        whole = graded(special, f"def toy(x):\n    return {source}\n", warm("numpy"), seed=5)
        for shown in whole.checks:
            if shown.case is None:
                continue
            again = graded(special, f"def toy(x):\n    return {source}\n", warm("numpy"), case=shown.case.token)
            assert check(again, shown.id).message == shown.message, source


def test_a_replay_of_what_prints_makes_that_call_alone(special: Exercise, warm: Warm) -> None:
    source = "def toy(x):\n    print('rows', len(x))\n    return 3.0 * x\n"
    report = graded(special, source, warm("numpy"), case="5:one_row")
    assert report.output.count("rows") == 2, "float64 and float32"
    shown = check(report, "one_row").explanation
    assert shown is not None and shown.likely == "the factor is 3."
    assert shown.evidence == "On this call your result equals the reference with that one change."
    both = graded(special, source, warm("numpy"), case="5:random-0")
    shown = check(both, "values").explanation
    assert shown is not None and shown.likely == "the factor is 3. Or: the factor is 3 where there are several rows."
    assert shown.help is None


def test_parts_of_a_result_are_told_apart(warm: Warm, tmp_path: Path) -> None:
    body = """
    framework: numpy
    dims: {N: 2..4}
    inputs: {x: {shape: [N]}}
    output: {kind: tuple, items: {twice: {}, thrice: {}, square: {}}}
    cases: {random: 2}
    checks: [{kind: values, cases: random}]
    """
    toy = exercise(tmp_path, body, "def toy(x):\n    return 2 * x, 3 * x, x * x\n")
    report = graded(toy, "def toy(x):\n    return 2 * x, 4 * x, x + 1\n", warm("numpy"))
    shown = check(report, "values").explanation
    assert shown is not None and shown.claim == "Values of `thrice` differ from the reference."
    assert shown.note == "`twice` is right; `square` differs too."


# --- two at once, of which one cannot be told from others ---------------------------------------------------------------

SIGNS = """
- id: positive
  says: the sign is lost.
  patch: [{find: "return y", replace: "return abs(y)"}]
- id: three
  says: the factor is 3.
  patch: [{find: "factor = 2.0", replace: "factor = 3.0"}]
- id: minus_three
  says: the factor is -3.
  patch: [{find: "factor = 2.0", replace: "factor = -3.0"}]
"""


def test_a_second_mistake_that_others_could_be_is_not_named(tmp_path: Path, warm: Warm) -> None:
    source = "def toy(x):\n    factor = 2.0\n    y = factor * x\n    return y\n"
    toy = exercise(tmp_path, SPECIAL, source, SIGNS)
    report = graded(toy, "def toy(x):\n    return abs(3 * x)\n", warm("numpy"))
    assert [found.misconception for found in report.diagnoses] == ["positive"]
    told = check(report, "values").explanation
    assert told is not None and told.likely == "the sign is lost."
    assert told.evidence is not None and "and one more, which may be any of several" in told.evidence
    # Where all can be told apart, all are named.
    two = exercise(tmp_path / "two", SPECIAL, source, SIGNS.partition("- id: minus_three")[0])
    both = graded(two, "def toy(x):\n    return abs(3 * x)\n", warm("numpy"))
    assert {found.misconception for found in both.diagnoses} == {"positive", "three"}
