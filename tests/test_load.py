"""Wrong exercise files, through the real command: what is printed for each is a golden file beside it.

``python tests/test_load.py`` prints them all anew into ``tests/broken/*.txt``; read the diff before you commit it.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from conftest import ROOT, Command

from grader import cases
from grader.cli import grade as grade_command
from grader.errors import AuthorError, UsageError
from grader.spec import document as documents
from grader.spec import load, meaning_checks, remarks
from grader.spec.library import Library

BROKEN = ROOT / "tests" / "broken"
NAMES = sorted(path.stem for path in BROKEN.glob("*.yaml"))
# All are printed by the command's own entry point; these also by a process of their own, as a user starts it.
IN_A_PROCESS = [name for name in NAMES if name.startswith("five_")] + ["tab", "alias_bomb", "latin_1"]


def lay_out(name: str, folder: Path) -> None:
    """A library with one broken exercise in it."""
    target = folder / "exercises" / "broken" / name
    target.mkdir(parents=True)
    shutil.copyfile(BROKEN / f"{name}.yaml", target / "exercise.yaml")


def arguments(name: str) -> list[str]:
    # --show reads the exercise as every use of it does, and spares the start of a worker.
    return ["grade", name, "--show", "--exercises", "exercises"]


def transcript(name: str, out: str, err: str, code: object) -> str:
    return f"$ {' '.join(arguments(name))}\n{out}{err}exit code {code}\n"


def printed(name: str, folder: Path) -> str:
    """What the command prints of one broken file, run from its entry point."""
    lay_out(name, folder)
    out, err = io.StringIO(), io.StringIO()
    here = Path.cwd()
    os.chdir(folder)
    try:
        with (
            mock.patch.object(sys, "argv", arguments(name)),
            mock.patch.dict(os.environ, {"TENSORGRADE_STATE": str(folder / "state.json")}),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as ended,
        ):
            grade_command.main()
    finally:
        os.chdir(here)
    return transcript(name, out.getvalue(), err.getvalue(), ended.value.code)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_printed(name: str, tmp_path: Path) -> None:
    assert printed(name, tmp_path) == (BROKEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", IN_A_PROCESS)
def test_a_process_prints_the_same(name: str, tmp_path: Path, command: Command) -> None:
    lay_out(name, tmp_path)
    ran = command(*arguments(name))
    assert transcript(name, ran.out, ran.err, ran.code) == (BROKEN / f"{name}.txt").read_text(encoding="utf-8")


def test_grading_with_a_broken_exercise_is_no_failure_of_the_student(tmp_path: Path, command: Command) -> None:
    lay_out("five_names", tmp_path)
    (tmp_path / "mine.py").write_text("def five_names(x, weights):\n    return x\n")
    ran = command("grade", "five_names", "mine.py", "--exercises", "exercises", "--json", "report.json")
    assert ran.code == 2
    assert "not your submission" in ran.err and "Traceback" not in ran.err
    assert not (tmp_path / "report.json").exists()


def test_there_are_at_least_thirty_and_some_with_five() -> None:
    assert len(NAMES) >= 30
    assert sum(name.startswith("five_") for name in NAMES) >= 3


def test_every_file_with_five_mistakes_gets_five_complaints() -> None:
    for name in NAMES:
        if name.startswith("five_"):
            assert (BROKEN / f"{name}.txt").read_text().count("    expected: ") == 5, name


def test_no_golden_file_is_stale() -> None:
    assert sorted(path.stem for path in BROKEN.glob("*.txt")) == NAMES


# --- what can be read in spite of mistakes ----------------------------------------------------------------------------

GOOD = """\
schema: 1
title: t
summary: s
framework: torch
dtypes: [float64]
dims:
  N: 2..4
  D: 5..8
inputs:
  x: {shape: [N, D]}
  ids: {kind: ids, shape: [N], below: D}
  grads: {kind: list, items: [{shape: [N]}, null]}
  step: {kind: function, parameters: [a], returns: 'a[0]'}
  keep: {kind: booleans, shape: [N], default: null}
  eps: {value: 1e-5, default: 1e-5}
aux:
  table: {shape: [D, D]}
adjust:
  - x = x + table[0]
output: {kind: tuple, items: {y: {axes: [row, column]}, loss: {kind: scalar}}}
cases:
  random: 3
  edge:
    one:
      title: one
      dims: {N: 1}
checks:
  - {kind: values}
"""


def findings(tmp_path: Path, text: str, *, known: tuple[str, ...] = ()) -> list[str]:
    """``line:column message`` of every finding about an exercise file."""
    folder = tmp_path / "track" / "the_exercise"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "exercise.yaml").write_text(text, encoding="utf-8")
    try:
        load.read_exercise(folder, None, known)
    except AuthorError as error:
        assert error.exit_code == 2 and "grader lint the_exercise" in error.next_step
        assert all(finding.expected for finding in error.findings if finding.line)
        return [f"{finding.line}:{finding.column} {finding.message}" for finding in error.findings]
    return []


def swap(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def test_the_good_file_is_good(tmp_path: Path) -> None:
    assert findings(tmp_path, GOOD) == []


CHANGES = {
    ("  N: 2..4", "  N: 2..4\n  lambda: 2"): "8:3 `lambda` cannot be used as a name",
    ("  N: 2..4", "  N: 2..4\n  inf: 2"): "8:3 `inf` is a constant of the expression language",
    (
        "  N: 2..4",
        "  N: 2..4\n  itemsize: 9",
    ): "8:3 `itemsize` is reserved: it is the size of one element in `peak_memory`",
    ("  N: 2..4", "  N: 2..4\n  M: M + 1"): "8:6 `M` depends on itself",
    ("  N: 2..4", "  N: 2..4\n  M: normal(3)"): "8:6 `normal(3)`: normal() cannot draw here",
    ("  N: 2..4", "  N: 2..4\n  M: N - 4"): "8:6 `M` is -2 when N = 2, D = 5",
    ("  N: 2..4", "  N: 2..4\n  M: 1 / (N - 2)"): "8:6 `M`: `1 / (N - 2)`: division by zero when N = 2, D = 5",
    ("  N: 2..4", "  N: 2..4\n  M: 3.5"): "8:6 `M`: `3.5` is 3.5, not a whole number",
    ("shape: [N, D]", "shape: [N, D - 6]"): "10:18 `D - 6` is -1 when N = 2, D = 5",
    ("shape: [N, D]", "shape: [N, D / 2]"): "10:18 `D / 2` is 2.5, not a whole number when N = 2, D = 5",
    ("shape: [N, D]", "shape: [N, 10000000, D]"): "10:14 an array of 1e+08 elements when N = 2, D = 5",
    ("shape: [N, D]", "shape: [N, 2.5]"): "10:18 an axis of size 2.5",
    ("dims: {N: 1}", "inputs: {x: {shape: [N, -1]}}"): "26:31 an axis of size -1",
    ("below: D", "below: 0"): "11:39 there are no ids below 0",
    ("below: D", "below: N - 2"): "11:39 `N - 2` is 0 when N = 2, D = 5",
    ("below: D", "below: 2.5"): "11:39 `below` is the number 2.5",
    ("below: D", "below: D, ignored: 0.5"): "11:42 `ignored` has no effect without `ignore`",
    ("below: D", "below: D, type: 'list[int'"): "11:48 `list[int` is no type annotation",
    ("parameters: [a]", "parameters: [a, a]"): "13:42 the parameter `a` occurs twice",
    ("parameters: [a]", "parameters: [a, sum]"): "13:42 `sum` is a function of the expression language",
    ("'a[0]'", "'b[0]'"): "13:53 `b[0]`: unknown name `b`",
    ("value: 1e-5,", "value: 1e-5, range: 0.2..0.1,"): "15:29 `range`: the range 0.2..0.1 is empty",
    ("value: 1e-5,", "value: D * d,"): "15:20 `D * d`: unknown name `d` (did you mean `D`?)",
    (
        "table: {shape: [D, D]}",
        "table: {shape: [D, D]}\n  x: {shape: [D]}",
    ): "18:3 `x` is both an input and an aux array",
    (
        "table: {shape: [D, D]}",
        "table: {shape: [D, D]}\n  f: {kind: function, parameters: [], returns: 1}",
    ): "18:3 a function can only be an input of its own",
    ("x = x + table[0]", "x = x + tabel[0]"): "19:13 `x = x + tabel[0]`: unknown name `tabel` (did you mean `table`?)",
    ("x = x + table[0]", "step = 3"): "19:5 `step` is a function and cannot be assigned to",
    ("axes: [row, column]", "axes: [row, row]"): "20:47 the axis name `row` occurs twice",
    (
        "loss: {kind: scalar}",
        "loss: {kind: scalar, axes: [row]}",
    ): "20:78 `axes` has no meaning for a result of kind scalar",
    ("kind: tuple, items", "items"): "20:10 `items` has no meaning for a result of kind array",
    ("dims: {N: 1}", "dims: {N: D, D: N}"): "26:7 `N` and `D` depend on each other",
    ("dims: {N: 1}", "dims: {N: 1, D: N - 3}"): "26:23 `D` is -2 when N = 1",
    ("dims: {N: 1}", "dims: {N: 1000000000}"): "26:13 `x`: an array of 5e+09 elements when D = 5, N = 1000000000",
    ("dims: {N: 1}", "dims: {D: 0}"): "26:13 `ids`: `D` is 0 when N = 2, D = 0",
    ("dims: {N: 1}", "inputs: {x: {shape: [N, D - 7]}}"): "26:31 `x`: `D - 7` is -2 when N = 2, D = 5",
    ("dims: {N: 1}", "inputs: {ids: {below: N - 2}}"): "26:29 `ids`: `N - 2` is 0 when N = 2, D = 5",
    ("dims: {N: 1}", "inputs: {x: null}"): None,
    ("dims: {N: 1}", "inputs: {x: {shape: [N]}, grads: {count: 2, of: {shape: []}}, eps: {choices: [1]}}"): None,
    ("dims: {N: 1}", "inputs: {ids: {kind: float}, eps: {kind: ids, shape: [N], below: 2}}"): None,
    ("dims: {N: 1}", "inputs: {x: {kind: ids}}"): "26:16 `x` becomes a ids input, and the key `below` is missing",
    ("dims: {N: 1}", "inputs: {x: {kind: idds}}"): "26:26 unknown kind `idds` (did you mean `ids`?)",
    ("dims: {N: 1}", "inputs: {x: {shape: [N, M]}}"): "26:31 unknown name `M`",
    ("dims: {N: 1}", "inputs: {x: {shape: [N, D +]}}"): "26:34 `D +`: not an expression: it ends too early",
    ("dims: {N: 1}", "inputs: {x: {scale: [1]}}"): "26:27 `scale` is a list",
    ("dims: {N: 1}", "inputs: {grads: {items: [{shape: [M]}]}}"): "26:41 unknown name `M`",
    ("dims: {N: 1}", "inputs: {x: 5}"): "26:19 `x` is the number 5",
    ("dims: {N: 1}", "omit: [keep]"): "26:14 `keep` is left out, and `eps` after it is not",
    ("dims: {N: 1}", "omit: [keep, eps]"): None,
    ("dims: {N: 1}", "omit: [eps]\n      adjust: [eps = 1]"): "27:16 `eps` is left out in this case",
    ("dims: {N: 1}", "count: 0"): "26:14 `count` is the number 0",
    ("- {kind: values}", "- {kind: causal, inputs: {x: 1}, output: 1, part: y}"): None,
    ("- {kind: values}", "- {kind: causal, inputs: {x: -2}, output: -1, part: 0}"): None,
    (
        "- {kind: values}",
        "- {kind: causal, inputs: {x: 1}, output: 2, part: y}",
    ): "28:44 the output has no axis 2: it has 2 axes",
    (
        "- {kind: values}",
        "- {kind: causal, inputs: {x: 1}, output: 1}",
    ): "28:5 the output is a tuple, and the check names no part of it",
    ("- {kind: values}", "- {kind: reads, inputs: {x: 1}, output: 1, part: z}"): "28:52 the output has no part `z`",
    ("- {kind: values}", "- {kind: reads, inputs: {grads: 0}, output: 0, part: y}"): "28:28 `grads` is of kind list",
    ("- {kind: values}", "- {kind: calls, function: x}"): "28:29 `x` is of kind float",
    ("- {kind: values}", "- {kind: calls, function: stp}"): "28:29 there is no input `stp` (did you mean `step`?)",
    ("- {kind: values}", "- {kind: falls, output: loss, feed: {y: x}}"): None,
    ("- {kind: values}", "- {kind: falls, output: 2, feed: {0: x}}"): "28:27 the output has no part `2`",
    ("- {kind: values}", "- {kind: peak_memory, below: N * itemsize}"): None,
    ("- {kind: values}", "- {kind: peak_memory, below: x * 2}"): "28:32 `x * 2`: unknown name `x`",
    ("- {kind: values}", '- {kind: ignores, what: ["x[:, N:]", "table[0]"]}'): "28:40 there is no input `table`",
    ("- {kind: values}", '- {kind: ignores, what: ["x + 1"]}'): "28:28 `x + 1` is no slice of an input",
    ("- {kind: values}", "- {kind: gradients, wrt: [x, ids]}"): "28:32 `ids` is of kind ids",
    ("- {kind: values}", "- {kind: values, cases: [random, examples]}"): None,
    (
        "- {kind: values}",
        "- {kind: values, cases: examples}",
    ): "28:27 this `values` check finds no case: there are no examples",
    ("- {kind: values}", "- {kind: values, cases: [one, two]}"): "28:33 there is no case `two`",
    ("framework: torch", "framework: python"): None,
}


@pytest.mark.parametrize(("old", "new"), CHANGES, ids=[new.strip()[:60] for _, new in CHANGES])
def test_what_a_change_to_a_good_file_is_told(old: str, new: str, tmp_path: Path) -> None:
    """One change, one complaint, at its place; None where the change is allowed."""
    told = CHANGES[old, new]
    assert findings(tmp_path, swap(old, new)) == ([] if told is None else [told])


def test_dtypes_that_a_framework_does_not_have(tmp_path: Path) -> None:
    numpy = swap("framework: torch\ndtypes: [float64]", "framework: numpy\ndtypes: [float64, bfloat16]")
    assert findings(tmp_path, numpy) == ["5:19 NumPy has no bfloat16"]
    python = swap("framework: torch\ndtypes: [float64]", "framework: python")
    assert findings(tmp_path, python) == ["4:1 a `python` exercise is graded in float64 only"]


def test_float64_only_checks_need_float64_cases(tmp_path: Path) -> None:
    text = swap("dtypes: [float64]", "dtypes: [float32]").replace("{kind: values}", "{kind: strided}")
    said = "this `strided` check finds no call: it looks at float64 only, and its cases run in float32"
    assert findings(tmp_path, text) == [f"28:5 {said}"]


def test_prerequisites_are_looked_at_where_the_exercises_are_known(tmp_path: Path) -> None:
    text = swap("framework: torch", "framework: torch\nbuilds_on: [softmx, the_exercise, softmax]")
    assert findings(tmp_path, text) == ["5:21 `the_exercise` builds on itself"]
    known = ("softmax", "the_exercise")
    assert findings(tmp_path, text, known=known) == [
        "5:13 there is no exercise `softmx` (did you mean `softmax`?)",
        "5:21 `the_exercise` builds on itself",
    ]


def test_a_section_that_cannot_be_read_hides_no_other_and_starts_no_cascade(tmp_path: Path) -> None:
    text = swap("  N: 2..4\n  D: 5..8\n", "  - N\n  - D\n").replace("{kind: values}", "{kind: value, points: -1}")
    assert findings(tmp_path, text) == [
        "7:3 `dims` is a list",
        "28:12 unknown kind `value` (did you mean `values`?)",
        "28:27 `points` is the number -1",
    ]


def test_entries_of_lists_keep_their_places_when_others_cannot_be_read(tmp_path: Path) -> None:
    checks = """\
- {kind: nothing_like_it}
  - {kind: ignores, what: [3, masks, 4, "x[:, Q]"]}
  - {points: 3}
  - {kind: reads, inputs: {z: 0}, output: 0, part: y}
"""
    assert findings(tmp_path, swap("- {kind: values}\n", checks)) == [
        "28:12 unknown kind `nothing_like_it`",
        "29:28 entry 1 of `what` is the number 3",
        "29:31 there is no input `masks`",
        "29:38 entry 3 of `what` is the number 4",
        "29:47 `x[:, Q]`: unknown name `Q`",
        "30:5 the key `kind` is missing in entry 3 of `checks`",
        "31:28 there is no input `z`",
    ]


def test_misspelt_keys_are_read_as_what_they_were_meant_to_be(tmp_path: Path) -> None:
    text = swap("inputs:\n", "input:\n").replace("shape: [N, D]", "shpe: [N, d]").replace("cases:", "case:")
    assert findings(tmp_path, text) == [
        "9:1 unknown key `input` (did you mean `inputs`?)",
        "10:7 unknown key `shpe` in `x` (did you mean `shape`?)",
        "10:17 unknown name `d` (did you mean `D`?)",
        "21:1 unknown key `case` (did you mean `cases`?)",
    ]


def test_merged_inputs_are_what_the_edge_case_makes_of_them(tmp_path: Path) -> None:
    folder = tmp_path / "track" / "the_exercise"
    folder.mkdir(parents=True)
    inputs = "{x: {scale: 1e3}, ids: null, grads: {count: 2, of: {shape: []}}, keep: {kind: ids, below: 2}, eps: {range: 0..1}}"  # fmt: skip
    (folder / "exercise.yaml").write_text(swap("dims: {N: 1}", f"inputs: {inputs}"))
    merged = load.read_exercise(folder, None).edge_inputs["one"]
    assert (merged["x"].scale, merged["x"].shape) == (1e3, ("N", "D"))
    assert merged["ids"] is None
    assert (merged["grads"].items, merged["grads"].count) == (None, 2)
    assert (merged["keep"].kind, merged["keep"].shape, merged["keep"].optional) == ("ids", ("N",), True)
    assert (merged["eps"].value, merged["eps"].range) == (None, "0..1")


EXAMPLES = {
    "x: [[1, inf], [3, nan]], ids: [0, 1], grads: [[1, 2], null]": None,
    "x: [[1, 2], [3]], ids: [0], grads: []": "`x` has rows that differ in length",
    "x: [[1, true]], ids: [0], grads: []": "`x` holds true",
    "x: [[1, a]], ids: [0], grads: []": "`x` holds the text `a`",
    "x: [[1]], ids: [0.5], grads: []": "`ids` holds the number 0.5",
    "x: [[1]], ids: [0], grads: 3": "`grads` is the number 3",
    "x: [[1]], ids: [0], grads: [[1], [b]]": "`grads` holds the text `b` (at [1])",
    "x: [[1]], ids: [0], grads: [], keep: [1]": "`keep` holds the number 1",
    "x: [[1]], ids: [0], grads: [], keep: null": None,
    "x: [[1]], grads: []": "the example lacks the input `ids`",
    "x: [[1]], ids: [0], grads: [], y: 1": "there is no input `y`",
}


@pytest.mark.parametrize("inputs", EXAMPLES)
def test_examples_must_fit_the_inputs(inputs: str, tmp_path: Path) -> None:
    text = GOOD.replace("  step: {kind: function, parameters: [a], returns: 'a[0]'}\n", "").replace(
        "cases:\n", f"cases:\n  examples:\n    first:\n      title: e\n      inputs: {{{inputs}}}\n"
    )
    told = EXAMPLES[inputs]
    assert [line.partition(" ")[2] for line in findings(tmp_path, text)] == ([] if told is None else [told])


def test_golden_values_must_fit_the_output(tmp_path: Path) -> None:
    def told(example: str) -> list[str]:
        text = """schema: 1\ntitle: t\nsummary: s\nframework: numpy\ninputs: {x: {shape: [2, 3]}}
output: {axes: [row, column]}
cases: {examples: {e: {title: e, inputs: {x: [[1]]}, %s}}}
checks: [{kind: values}]\n"""
        return [line.partition(" ")[2] for line in findings(tmp_path, text % example)]

    assert told("expected: [[1, 2]], tolerance: 1e-4") == []
    assert told("expected: [1, 2]") == ["`expected` has 1 axis and the output 2"]
    assert told("expected: [[1, 2], [3]]") == ["the rows of `expected` differ in length"]
    assert told("tolerance: 1e-4") == ["`tolerance` has no effect without `expected`"]
    assert told("from_reference: true") == ["this example has `inputs` and `from_reference`"]


def test_a_draw_must_exist_under_the_constraints(tmp_path: Path) -> None:
    impossible = swap("  D: 5..8\n", "  D: 5..8\nconstraints: [D < N]\n")
    assert findings(tmp_path, impossible) == ["6:1 no draw satisfies the constraints with all sizes different"]
    # Only one of the draws between the ends will do.
    assert findings(tmp_path, swap("  D: 5..8\n", "  D: 5..8\nconstraints: [D == 2 * N, N == 3]\n")) == []


# Values that an author might write anywhere.
ODD = [
    None, True, 0, -1, 2.5, 1e400, 10**30, "", "x", "N", "no", "2..3", "3..2", "a b", "x +", "x = 1", "float", "ids", "random",
    "mean(x)", "x[0]", "1/0", "normal(3)", [], [1], ["x"], [[1, 2], [3]], {}, {"shape": []}, {"kind": "ids"}, {"value": 1},
]  # fmt: skip


def mutated(data: Any, rng: random.Random) -> Any:
    """A copy of ``data`` with one entry removed, renamed or replaced."""
    body = copy.deepcopy(data)
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            places.append((value, key))
            walk(value[key])

    walk(body)
    holder, key = rng.choice(places)
    choice = rng.random()
    if choice < 0.2:
        del holder[key]
    elif choice < 0.35 and isinstance(holder, dict):
        holder[rng.choice(["x", "N", "sum", "a-b", "kind", "shape", f"{key}s", str(key)[:-1]])] = holder.pop(key)
    else:
        holder[key] = copy.deepcopy(rng.choice(ODD))
    return body


def test_no_slip_is_too_odd_for_a_complaint(library: Library, tmp_path: Path) -> None:
    """Whatever one entry becomes, the file loads and its cases can be drawn, or it is refused with places in the file."""
    rng = random.Random(2026)
    data = [documents.read(folder / "exercise.yaml").data for folder in load.folders(library).values()]
    folder = tmp_path / "track" / "slip"
    folder.mkdir(parents=True)
    refused = 0
    for _ in range(250):
        text = json.dumps(mutated(rng.choice(data), rng), indent=1).replace("Infinity", ".inf").replace("NaN", ".nan")
        (folder / "exercise.yaml").write_text(text)
        try:
            exercise = load.read_exercise(folder, None)
        except AuthorError as error:
            refused += 1
            assert all(finding.message and 1 <= finding.line <= text.count("\n") + 1 for finding in error.findings)
            continue
        for name in ("random", *exercise.spec.cases.edge):
            with contextlib.suppress(AuthorError):
                cases.draw(exercise, name, 0, 1)
    assert refused > 100


# --- other files ------------------------------------------------------------------------------------------------------


def test_every_exercise_of_the_repository_loads(library: Library) -> None:
    known = load.folders(library)
    assert known
    for folder in known.values():
        exercise = load.read_exercise(folder, library.reference, known)
        if exercise.misconceptions is not None:
            assert load.read_misconceptions(exercise.misconceptions).misconceptions
        assert len({identity for check in exercise.spec.checks for identity in meaning_checks.expand_ids(exercise.spec, check)}) >= len(exercise.spec.checks) - 1  # fmt: skip


def test_an_unknown_exercise_names_the_nearest(library: Library) -> None:
    with pytest.raises(UsageError, match="did you mean `softmax`") as caught:
        load.load(library, "sofmax")
    assert caught.value.next_step == "grade softmax"
    with pytest.raises(UsageError) as caught:
        load.load(library, "zzzzzz")
    assert "did you mean" not in str(caught.value) and caught.value.next_step == "grade (lists the names)"


def test_a_track_file_with_mistakes(tmp_path: Path) -> None:
    (tmp_path / "track.yaml").write_text("title: 3\nodrer: [a, 2]\nposition: first\n")
    with pytest.raises(AuthorError) as caught:
        load.track_of(tmp_path)
    assert [(finding.line, finding.message) for finding in caught.value.findings] == [
        (1, "`title` is the number 3"),
        (2, "unknown key `odrer` (did you mean `order`?)"),
        (2, "entry 2 of `order` is the number 2"),
        (3, "`position` is the text `first`"),
    ]
    (tmp_path / "track.yaml").unlink()
    assert load.track_of(tmp_path).title == tmp_path.name


def test_misconceptions_with_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "misconceptions.yaml"
    path.write_text(
        """schema: 1
misconceptions:
  - {id: one, says: s, patch: [{find: a, replace: b}], equals: [on, one]}
  - {id: one, says: s, patch: [{find: a, replace: a}]}
  - {id: Three, says: s, patch: []}
  - {id: four, say: s, patch: [{find: "", replace: b, al: true}]}
"""
    )
    with pytest.raises(AuthorError) as caught:
        load.read_misconceptions(path)
    assert [(finding.line, finding.message) for finding in caught.value.findings] == [
        (3, "there is no misconception `on` (did you mean `one`?)"),
        (3, "`one` equals itself"),
        (4, "the id `one` occurs twice"),
        (4, "this patch changes nothing"),
        (5, "`id` is the text `Three`"),
        (5, "`patch` is empty"),
        (6, "unknown key `say` in entry 4 of `misconceptions` (did you mean `says`?)"),
        (6, "`find` is empty"),
        (6, "unknown key `al` in entry 1 of `patch` (did you mean `all`?)"),
    ]


def test_remarks_name_what_nothing_uses(tmp_path: Path) -> None:
    text = """schema: 1
title: t
summary: s
framework: numpy
dims:
  N: 2..4
  Q: 5
  V: 6..9
  K: 10..12
  A: 2..3
inputs:
  x: {shape: [N]}
aux:
  table: {shape: [V]}
  spare: {shape: [V]}
adjust: ["x = x + table[0]"]
cases:
  edge:
    plain: {title: a}
    other: {title: b, inputs: {x: {shape: [K]}}}
checks:
  - {kind: values, cases: [random, other], title: same, advisory: true}
  - {kind: peak_memory, below: A * itemsize, title: same, points: 0}
"""
    assert findings(tmp_path, text) == []
    exercise = load.read_exercise(tmp_path / "track" / "the_exercise", None)
    assert [(finding.line, finding.message) for finding in remarks.remarks(exercise)] == [
        (1, "there are no hints"),
        (7, "nothing uses the dim `Q`"),
        (15, "nothing uses the aux array `spare`"),
        (19, "no `values` check looks at the case `plain`"),
        (19, "the case `plain` is like any random one"),
        (21, "no check counts"),
        (23, "two checks have the title `same`"),
    ]


def test_the_catalogue_leaves_nothing_to_remark(library: Library) -> None:
    for folder in load.folders(library).values():
        exercise = load.read_exercise(folder, library.reference)
        assert [str(finding) for finding in remarks.remarks(exercise)] == []


def regenerate() -> None:
    for stale in BROKEN.glob("*.txt"):
        stale.unlink()
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            (BROKEN / f"{name}.txt").write_text(printed(name, Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    regenerate()
