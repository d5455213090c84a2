"""`grader lint` finds what is wrong with an exercise: small bad exercises, one fault each, through the real command."""

from __future__ import annotations

import json
import subprocess
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, Command, Ran

from grader.authoring import texts, witness
from grader.authoring.scope import unwatched
from grader.authoring.survey import Crew
from grader.authoring.witness import Recipe
from grader.spec import load, schema
from grader.spec.exercise import Exercise

YAML = """
schema: 1
title: Centred rows
summary: Take the mean off every row and add a number.
framework: numpy
dims: {A: 2..4, B: 3..6}
inputs:
  x: {shape: [A, B]}
  shift: {range: 0.5..1.5}
output: {axes: [row, column], shape: [A, B]}
cases:
  random: 3
  edge:
    one_row:
      title: one row
      dims: {A: 1}
checks:
  - {kind: values, cases: random, dtypes: [float64], id: values_float64}
  - {kind: values, cases: random, dtypes: [float32], id: values_float32}
  - {kind: values, cases: edge}
  - {kind: inputs_unchanged}
  - {kind: repeatable}
limits: {time: 5, memory: 1024}
"""

SOLUTION = '''
import numpy as np


def NAME(x: np.ndarray, shift: float) -> np.ndarray:
    """Rows (A, B) without their means, plus a number."""
    mean = x.mean(axis=1, keepdims=True)
    return x - mean + np.asarray(shift, dtype=x.dtype)
'''

STATEMENT = """
# Centred rows

`x` is an array (A, B) of floats and `shift` a number: `result[a, b] = x[a, b] - mean_b x[a, b] + shift`.
"""

STUB = """
def NAME(x, shift):
    raise NotImplementedError("write NAME, then run: grade NAME")
"""


@dataclass(frozen=True)
class Parts:
    """The files of one small exercise; what is not named is that of the sound one."""

    yaml: str = YAML
    solution: str | None = SOLUTION
    statement: str | None = STATEMENT
    stub: str | None = STUB
    misconceptions: str = ""
    fixtures: dict[str, str] = field(default_factory=dict)


def write(root: Path, name: str, parts: Parts) -> None:
    """The exercise as files of the track ``small`` below ``root``; NAME stands for its name."""
    here, hidden = root / "exercises" / "small" / name, root / "reference" / "small" / name
    files = {
        here / "exercise.yaml": parts.yaml,
        here / "README.md": parts.statement,
        here / f"{name}.py": parts.stub,
        hidden / "solution.py": parts.solution,
        hidden / "misconceptions.yaml": parts.misconceptions or None,
        **{root / "fixtures" / name / path: text for path, text in parts.fixtures.items()},
    }
    for path, text in files.items():
        if text is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.strip("\n").replace("NAME", name) + "\n")


def edited(text: str, *changes: tuple[str, str]) -> str:
    """``text`` with replacements, each of which must apply."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def body(line: str, imports: str = "import numpy as np") -> str:
    """A submission whose function is this one line (or several, indented)."""
    return f"{imports}\n\n\ndef NAME(x, shift):\n{textwrap.indent(textwrap.dedent(line).strip(), '    ')}\n"


GOOD = "return x - x.mean(1)[:, None] + x.dtype.type(shift)"
PATCHES = """
schema: 1
misconceptions:
  - id: first
    says: first.
    patch: [{find: "- mean", replace: "+ mean"}]
"""
NORM_YAML = edited(
    YAML, ("  shift: {range: 0.5..1.5}\n", ""), ("Take the mean off every row and add a number.", "Rows of length 1.")
)
NORM_SOLUTION = '''
import numpy as np


def NAME(x: np.ndarray) -> np.ndarray:
    """Rows (A, B) divided by the root of their mean square."""
    square = (x * x).mean(axis=1, keepdims=True)
    return x / np.sqrt(square + 1e-9)
'''
LOOP_SOLUTION = '''
import numpy as np


def NAME(x: np.ndarray, shift: float) -> np.ndarray:
    """Rows (A, B) without their means, plus a number, one row after another."""
    result = np.empty_like(x)
    row = 0
    while row != len(x):
        result[row] = x[row] - x[row].mean() + x.dtype.type(shift)
        row += 1
    return result
'''

# name -> (parts, rule, what the finding must say, the file it names)
BAD: dict[str, tuple[Parts, str, str, str]] = {
    "unknown_key": (Parts(yaml=edited(YAML, ("summary:", "sumary:"))), "exercise_file", "sumary", "exercise.yaml"),
    "no_statement": (Parts(statement=None), "statement", "there is no statement", "README.md"),
    "unnamed_parameter": (
        Parts(statement="# Rows\n\n`x` is an array; shifted."),
        "statement",
        "does not name the parameter `shift`",
        "README.md",
    ),
    "no_stub": (Parts(stub=None), "stub", "there is no stub", "no_stub.py"),
    "stub_order": (
        Parts(stub=edited(STUB, ("x, shift", "shift, x"))),
        "stub",
        "the parameters are shift, x",
        "stub_order.py",
    ),
    "stub_default": (
        Parts(stub=edited(STUB, ("x, shift", "x, shift=1"))),
        "stub",
        "`shift` has a default",
        "stub_default.py",
    ),
    "stub_syntax": (Parts(stub="def NAME(x, shift:\n    pass\n"), "stub", "not Python", "stub_syntax.py"),
    "stub_passes": (Parts(stub=body(GOOD)), "stub", "the stub passes", "stub_passes.py"),
    "secret": (
        Parts(statement=STATEMENT + "\n```\nmean = x.mean(axis=1, keepdims=True)\n```\n"),
        "secret",
        "a line of the solution stands here",
        "README.md",
    ),
    "no_reference": (Parts(solution=None), "reference", "there is no reference", "exercise.yaml"),
    "other_signature": (
        Parts(solution=edited(SOLUTION, ("x: np.ndarray, shift: float", "shift: float, x: np.ndarray"))),
        "reference",
        "the parameters are shift, x",
        "solution.py",
    ),
    "reference_unloadable": (
        Parts(solution="import nowhere\n" + SOLUTION),
        "reference",
        "cannot be loaded",
        "solution.py",
    ),
    "reference_raises": (
        Parts(solution=edited(SOLUTION, ("    mean =", "    assert len(x) > 1\n    mean ="))),
        "reference",
        "fails on case `one_row` in float64: AssertionError",
        "exercise.yaml",
    ),
    "reference_changes_input": (
        Parts(solution=edited(SOLUTION, ("return x - mean", "x -= mean\n    return x"))),
        "reference",
        "the reference itself does not pass `inputs_unchanged`",
        "exercise.yaml",
    ),
    "golden": (
        Parts(
            yaml=edited(
                YAML,
                (
                    "  random: 3\n",
                    "  random: 3\n  examples:\n    printed: {title: printed, inputs: {x: [[1, 3]], shift: 1.0}, expected: [[0, 3]], tolerance: 1e-3}\n",
                ),
                (
                    "  - {kind: values, cases: edge}",
                    "  - {kind: values, cases: edge}\n  - {kind: values, cases: examples}",
                ),
            )
        ),
        "golden",
        "differs from the published values by 1",
        "exercise.yaml",
    ),
    "shape": (
        Parts(yaml=edited(YAML, ("shape: [A, B]}\ncases", "shape: [A, B + 1]}\ncases"))),
        "output",
        "declared is",
        "exercise.yaml",
    ),
    "axes": (
        Parts(yaml=edited(YAML, ("{axes: [row, column], shape: [A, B]}", "{axes: [row]}"))),
        "output",
        "2 axes in case",
        "exercise.yaml",
    ),
    "ill_conditioned": (
        Parts(yaml=edited(YAML, ("      dims: {A: 1}\n", "      dims: {A: 1}\n      inputs: {x: {offset: 1e+9}}\n"))),
        "ill_conditioned",
        "case `one_row`",
        "exercise.yaml",
    ),
    "limit_short": (
        Parts(yaml=edited(YAML, ("time: 5,", "time: 1e-6,"))),
        "limits",
        "times the reference's slowest call",
        "exercise.yaml",
    ),
    "limit_long": (Parts(yaml=edited(YAML, ("time: 5,", "time: 600,"))), "limits", "a limit of 600 s", "exercise.yaml"),
    "limit_memory": (
        Parts(yaml=edited(YAML, ("memory: 1024", "memory: 100000"))),
        "limits",
        "100000 MB",
        "exercise.yaml",
    ),
    "patch_lost": (
        Parts(misconceptions=edited(PATCHES, ("- mean", "- average"))),
        "misconception",
        "the patch of `first` no longer matches: `- average`",
        "misconceptions.yaml",
    ),
    "patch_twice": (
        Parts(misconceptions=edited(PATCHES, ('find: "- mean", replace: "+ mean"', 'find: "mean", replace: "median"'))),
        "misconception",
        "the patch of `first` matches 4 times",
        "misconceptions.yaml",
    ),
    "not_rejected": (
        Parts(
            misconceptions=edited(PATCHES, ('find: "- mean", replace: "+ mean"', 'find: "axis=1", replace: "axis=-1"'))
        ),
        "misconception",
        "`first` passes every check",
        "misconceptions.yaml",
    ),
    "two_alike": (
        Parts(
            misconceptions=PATCHES
            + '  - id: second\n    says: second.\n    patch: [{find: "x - mean", replace: "x + 1 * mean"}]\n'
        ),
        "misconception",
        "gives the same results as",
        "misconceptions.yaml",
    ),
    "right_fails": (
        Parts(fixtures={"right/median.py": "# right: median\n" + body(edited(GOOD, ("x.mean(1)", "np.median(x, 1)")))}),
        "fixture",
        "a right answer fails values_float64",
        "median.py",
    ),
    "wrong_passes": (
        Parts(fixtures={"wrong/fine.py": "# wrong: nothing\n# fails: values_float64\n" + body(GOOD)}),
        "fixture",
        "a wrong answer passes",
        "fine.py",
    ),
    "wrong_elsewhere": (
        Parts(
            fixtures={
                "wrong/wide.py": "# wrong: always float64\n# fails: one_row, repeatable\n"
                + body("return (x - x.mean(1)[:, None] + shift).astype(np.float64)")
            }
        ),
        "fixture",
        "does not fail repeatable",
        "wide.py",
    ),
    "no_header": (Parts(fixtures={"wrong/bare.py": body(GOOD)}), "fixture", "the first line must be", "bare.py"),
    "header_unknown": (
        Parts(fixtures={"wrong/odd.py": "# wrong: odd\n# fails: no_such_check\n" + body("return x")}),
        "fixture",
        "there is no check `no_such_check`",
        "odd.py",
    ),
    "margin_honest": (
        Parts(
            fixtures={
                "right/near.py": "# right: nearly\n"
                + body(GOOD + " * x.dtype.type(1 + 1e-6 * (x.itemsize == 4) + 4e-7)")
            }
        ),
        "margin",
        "of what is allowed",
        "exercise.yaml",
    ),
    "margin_wrong": (
        Parts(
            fixtures={
                "wrong/near.py": "# wrong: nearly\n# fails: values_float64\n"
                + body(GOOD + " * x.dtype.type(1 + 1.6e-6 * (x.itemsize == 8))")
            }
        ),
        "margin",
        "times what is allowed only",
        "exercise.yaml",
    ),
    "surviving_mutant": (
        Parts(
            yaml=NORM_YAML,
            solution=NORM_SOLUTION,
            statement="# Rows\n\n`x`: an array (A, B).",
            stub=edited(STUB, ("x, shift", "x")),
        ),
        "mutant",
        "this mutant passes: `1e-9` -> `0.0`",
        "solution.py",
    ),
}
SOUND = {"sound": Parts(), "loops": Parts(solution=LOOP_SOLUTION)}


@dataclass(frozen=True)
class Library:
    root: Path
    ran: Ran
    found: dict[str, dict[str, Any]]

    def findings(self, name: str, level: str = "error") -> list[dict[str, Any]]:
        return [each for each in self.found[name]["findings"] if each["level"] == level]


@pytest.fixture(scope="module")
def linted(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Every bad exercise and the sound ones in one library, linted by one command."""
    root = tmp_path_factory.mktemp("library")
    for name, (parts, *_) in BAD.items():
        write(root, name, parts)
    for name, parts in SOUND.items():
        write(root, name, parts)
    arguments = ["lint", "--quick", "--seeds", "1", "--json", "-", "--exercises", str(root / "exercises")]
    done = subprocess.run([str(BIN / "grader"), *arguments], capture_output=True, timeout=900, cwd=root)
    ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert ran.code == 2, ran.err
    return Library(root, ran, {each["exercise"]: each for each in json.loads(ran.out)["exercises"]})


@pytest.mark.parametrize("name", BAD)
def test_each_fault_is_found_where_it_is(name: str, linted: Library) -> None:
    _, rule, said, file = BAD[name]
    findings = linted.findings(name)
    fitting = [each for each in findings if each["rule"] == rule and said in each["message"]]
    assert fitting, findings
    assert Path(fitting[0]["path"]).name == file
    assert not linted.found[name]["passed"]
    assert fitting[0]["expected"] or fitting[0]["next"] or rule in ("exercise_file", "golden"), (
        "it says what would be right"
    )
    if fitting[0]["line"]:
        assert fitting[0]["column"] >= 1
        assert fitting[0]["line"] <= len((linted.root / fitting[0]["path"]).read_text().splitlines())


@pytest.mark.parametrize("name", sorted(set(BAD) - {"two_alike", "stub_passes"}))
def test_nothing_else_is_found(name: str, linted: Library) -> None:
    _, rule, _, _ = BAD[name]
    assert {each["rule"] for each in linted.findings(name)} == {rule}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_exercise_is_sound(name: str, linted: Library) -> None:
    assert linted.found[name]["passed"] and linted.findings(name) == []
    asked = {each["rule"] for each in linted.findings(name, "strict")}
    assert {"hints", "worked_example", "misconceptions", "fixtures"} <= asked


def test_places_in_yaml_files_are_exact(linted: Library) -> None:
    short = next(each for each in linted.findings("limit_short") if each["rule"] == "limits")
    line = (linted.root / short["path"]).read_text().splitlines()[short["line"] - 1]
    assert line[short["column"] - 1 :].startswith("1e-6")
    lost = next(each for each in linted.findings("patch_lost") if each["rule"] == "misconception")
    line = (linted.root / lost["path"]).read_text().splitlines()[lost["line"] - 1]
    assert line[lost["column"] - 1 :].startswith('"- average"')


def test_mutants_that_loop_are_ended_and_counted(linted: Library) -> None:
    mutants = linted.found["loops"]["mutants"]
    assert mutants["survived"] == 0 and mutants["crashed"] > 0 and mutants["killed"] > 0
    assert mutants["total"] == sum(mutants[fate] for fate in ("killed", "crashed", "tolerated", "equivalent"))


def test_a_witness_pasted_into_the_file_kills_the_mutant(linted: Library, tmp_path: Path, command: Command) -> None:
    finding = next(each for each in linted.findings("surviving_mutant") if "-> `0.0`" in each["message"])
    assert "scale: 0.001" in finding["paste"] or "scale: 0.03" in finding["paste"]
    parts = BAD["surviving_mutant"][0]
    pasted = edited(parts.yaml, ("    one_row:\n", finding["paste"] + "    one_row:\n"))
    write(tmp_path, "mended", Parts(pasted, parts.solution, parts.statement, parts.stub))
    ran = command("grader", "lint", "mended", "--seeds", "1", "--json", "-", "--exercises", tmp_path / "exercises")
    assert ran.code == 0, ran.out
    assert ran.report()["exercises"][0]["mutants"]["survived"] == 0


# --- the full, strict lint of one exercise ---------------------------------------------------------------------------


FIXTURES = {
    "right/a.py": "# right: indexed\n" + body(GOOD),
    "right/b.py": "# right: keepdims\n" + body("return x - x.mean(1, keepdims=True) + x.dtype.type(shift)"),
    "right/c.py": "# right: sums\n" + body("return x - (x.sum(1) / x.shape[1])[:, None] + x.dtype.type(shift)"),
    "wrong/columns.py": "# wrong: the mean of the columns\n# fails: values_float64, values_float32, one_row\n# misconception: columns\n"
    + body("return x - x.mean(0) + x.dtype.type(shift)"),
    "wrong/wide.py": "# wrong: always float64\n# fails: values_float32, one_row\n# cause: dtype\n"
    + body("return (x - x.mean(1)[:, None] + shift).astype(np.float64)"),
    "wrong/in_place.py": "# wrong: changes x\n# fails: inputs_unchanged\n"
    + body("x -= x.mean(1)[:, None]\nreturn x + x.dtype.type(shift)"),
}
COLUMNS = '  - {id: columns, says: "the mean is that of the columns.", patch: [{find: "axis=1", replace: "axis=0"}]}\n'
HINTED = YAML + "hints: [one, two, three]\n"
WORKED = STATEMENT + "\n## Worked example\n\n1, 3 become 0 and 2 where shift is 1.\n"


def test_strict_asks_that_every_check_rejects_something(tmp_path: Path, command: Command) -> None:
    parts = Parts(HINTED, SOLUTION, WORKED, STUB, "schema: 1\nmisconceptions:\n" + COLUMNS, FIXTURES)
    write(tmp_path, "strictly", parts)
    ran = command("grader", "lint", "strictly", "--strict", "--seeds", "1", "--exercises", tmp_path / "exercises")
    assert ran.code == 2
    assert "strictly: 1 finding" in ran.out and "check `repeatable` never rejects anything" in ran.out
    assert "`one_row` is never the only check to reject something" in ran.out, "gates are advice"
    fixtures = dict(FIXTURES)
    fixtures["wrong/grows.py"] = "# wrong: grows\n# fails: repeatable\nseen = []\n" + body(
        "seen.append(1)\nreturn x - x.mean(1)[:, None] + x.dtype.type(shift + (len(seen) > 8))"
    )
    write(
        tmp_path, "strictly", Parts(HINTED, SOLUTION, WORKED, STUB, "schema: 1\nmisconceptions:\n" + COLUMNS, fixtures)
    )
    ran = command("grader", "lint", "strictly", "--strict", "--seeds", "1", "--exercises", tmp_path / "exercises")
    assert ran.code == 0, ran.out
    assert "margins: honest answers up to" in ran.out


def test_without_strict_what_it_would_ask_is_shown_at_the_end(tmp_path: Path, command: Command) -> None:
    write(tmp_path, "plain", Parts())
    arguments = ("lint", "plain", "--quick", "--seeds", "1", "--exercises", tmp_path / "exercises")
    ran = command("grader", *arguments)
    assert ran.code == 0 and "plain: sound" in ran.out
    end = ran.out[ran.out.index("--strict would ask for more:") :]
    for wanted in ("0 right answers", "no wrong answers", "0 hints", "no worked example", "no mistake can be named"):
        assert wanted in end
    strict = command("grader", *arguments, "--strict")
    assert strict.code == 2 and "next: mend these" in strict.out and "0 hints" in strict.out


def test_the_same_files_give_the_same_findings(tmp_path: Path, command: Command) -> None:
    write(tmp_path, "again", BAD["surviving_mutant"][0])
    arguments = ("lint", "again", "--quick", "--seeds", "1", "--json", "-", "--exercises", tmp_path / "exercises")

    def timeless(ran: Ran) -> dict[str, Any]:
        report = ran.report()
        for exercise in report["exercises"]:
            del exercise["seconds"], exercise["reference_slowest_s"]
        return report

    assert timeless(command("grader", *arguments, "--jobs", "1")) == timeless(
        command("grader", *arguments, "--jobs", "3")
    )


def test_wrong_usage_and_faults_have_codes_of_their_own(tmp_path: Path, command: Command) -> None:
    write(tmp_path, "sound", Parts())
    unknown = command("grader", "lint", "sund", "--exercises", tmp_path / "exercises")
    assert unknown.code == 2 and "did you mean `sound`?" in unknown.err
    nowhere = tmp_path / "no" / "such" / "folder" / "lint.json"
    fault = command(
        "grader", "lint", "sound", "--quick", "--seeds", "1", "--json", nowhere, "--exercises", tmp_path / "exercises"
    )
    assert fault.code == 3 and "cannot be written" in fault.err


# --- parts ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def toy(tmp_path: Path) -> Callable[[str], Exercise]:
    def make(yaml: str) -> Exercise:
        write(tmp_path, "toy", Parts(yaml=yaml))
        return load.read_exercise(tmp_path / "exercises" / "small" / "toy", tmp_path / "reference")

    return make


def test_uniform_and_exact_inputs_are_never_scaled(toy: Callable[[str], Exercise]) -> None:
    exercise = toy(edited(YAML, ("x: {shape: [A, B]}", "x: {shape: [A, B], distribution: uniform, low: 0, high: 1}")))
    assert all(recipe.factor == 1.0 for recipe in witness.recipes(exercise))
    exact = toy(edited(YAML, ("x: {shape: [A, B]}", "x: {shape: [A, B], exact: true}")))
    assert all(recipe.factor == 1.0 for recipe in witness.recipes(exact))


def test_an_equation_is_no_secret_and_a_line_of_python_is(toy: Callable[[str], Exercise]) -> None:
    exercise = toy(YAML)
    assert exercise.solution is not None
    exercise.solution.write_text("def toy(x, shift):\n    result = (x - shift) / (shift - 2 * x)\n    return result\n")
    for block, secret in (("```", False), ("```python", True)):
        exercise.statement.write_text(f"# Rows\n\n`x`, `shift`\n\n{block}\nresult = (x - shift) / (shift - 2*x)\n```\n")
        assert ("secret" in {each.rule for each in texts.read(exercise)}) == secret


def test_scaling_reaches_into_lists_and_dicts() -> None:
    plain = schema.FloatInput(shape=(2,), scale="1 / d", offset=2.0)
    listed = schema.ListInput(kind="list", items=(plain, None, schema.FloatInput(shape=())))
    named = schema.DictInput(kind="dict", items={"w": listed, "n": schema.BooleansInput(kind="booleans", shape=(1,))})
    found = witness.scaled(named, 10.0)
    inner = found.items["w"].items
    assert inner[0].scale == "10.0 * (1 / d)" and inner[0].offset == 20.0
    assert inner[1] is None and inner[2].scale == 10.0
    assert found.items["n"] is named.items["n"]
    assert witness.scaled(named.items["n"], 10.0) is named.items["n"]


def test_a_pasted_case_draws_what_was_found(toy: Callable[[str], Exercise], tmp_path: Path) -> None:
    exercise = toy(YAML)
    recipe = Recipe("one_row", 1e-3, ("x",))
    case = witness.draw(exercise, recipe, 0)
    assert case is not None and case.dims["A"] == 1 and abs(case.arguments["x"].values).max() < 1e-2
    dims = witness.pinned(exercise, "one_row", case)
    text = witness.paste(exercise, recipe, dims, "float64")
    again = toy(edited(YAML, ("    one_row:\n", text + "    one_row:\n")))
    assert again.spec.cases.edge["one_row_found"].dims["B"].value == case.dims["B"]
    assert again.edge_inputs["one_row_found"]["x"].scale == 1e-3


def test_results_come_in_the_order_of_the_sources_and_errors_come_through(
    toy: Callable[[str], Exercise], warm: Any
) -> None:
    crew = Crew(warm("numpy"), toy(YAML), 3)
    ticks: list[int] = []
    assert crew.each(range(40), lambda chain, item: item * item, lambda: ticks.append(1)) == [n * n for n in range(40)]
    assert len(ticks) == 40

    def fail(chain: Any, item: int) -> int:
        raise KeyError(item)

    with pytest.raises(KeyError):
        crew.each([1, 2], fail, unwatched("", 0))
    crew.close()


def test_a_fault_of_the_grader_itself_is_no_finding_about_the_exercise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from grader.authoring.lint import Linter
    from grader.cli.lint import lint
    from grader.errors import GraderFault

    def fail(self: Linter, folder: Path) -> None:
        raise GraderFault("no worker could be started")

    write(tmp_path, "sound", Parts())
    monkeypatch.setattr(Linter, "lint", fail)
    ran = CliRunner().invoke(lint, ["--json", "-", "--exercises", str(tmp_path / "exercises")], standalone_mode=False)
    assert ran.return_value == 3
    finding = json.loads(ran.output)["exercises"][0]["findings"][0]
    assert finding["rule"] == "grader_fault" and "no worker could be started" in finding["message"]
