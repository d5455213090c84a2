"""How faithful the grader is: ``python benchmarks/fidelity.py [--write] [--lint FILE] [EXERCISE …]``.

Two tables. The first compares this grader with what most courses do, on every right and wrong fixture and every misconception
of an exercise: one fixed float32 case under `assert_close` with 1e-4, and ten random float32 cases with 1e-5. Both get the
random cases of the exercise file, with its distinct sizes and sensible scales, which is kinder than a typical test. The
second is the table of margins of ``grader lint --strict``; ``--lint FILE`` takes the JSON of an earlier run instead of linting
again. ``--write`` puts both into docs/fidelity.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from grader import cases, compare, fixtures
from grader.authoring import answers, summary
from grader.authoring.bench import Bench, examine
from grader.authoring.complaints import Places
from grader.authoring.lint import Linter
from grader.authoring.scope import Scope, Settings, unwatched
from grader.authoring.survey import Chain, Crew, Source
from grader.cases import Case
from grader.cli.lint import runners, usable_cores
from grader.questions import questions
from grader.sandbox.protocol import Array, Opaque, Value
from grader.sandbox.runner import Runner
from grader.spec import load
from grader.spec.exercise import Exercise
from grader.spec.library import Library, find_library
from grader.submission import Student

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "fidelity.md"
SEED = 1
RANDOM_CASES = 10
# Names of the graders compared, with relative and absolute tolerance of those of courses.
ONE_CASE, TEN_CASES, OURS = "one case, 1e-4", "ten cases, 1e-5", "this grader"
TOLERANCES = {ONE_CASE: 1e-4, TEN_CASES: 1e-5}


@dataclass(frozen=True)
class Tally:
    """Of one exercise: how many answers there are, and how many each grader rejects."""

    exercise: str
    right: int
    wrong: int
    rejected_right: dict[str, int]
    rejected_wrong: dict[str, int]


def close(actual: Value, expected: Value, tolerance: float) -> bool:
    """`torch.testing.assert_close` on plain values: type, shape, dtype, then |a - e| <= tolerance * (1 + |e|)."""
    if isinstance(expected, Array) and expected.family == "scalar":
        # The tests of courses take any number for a NumPy scalar.
        expected = expected.numbers()[()].item()
    if isinstance(expected, Array):
        if not isinstance(actual, Array) or actual.shape != expected.shape or actual.dtype != expected.dtype:
            return False
        mine, theirs = actual.numbers(), expected.numbers()
        if theirs.dtype.kind != "f":
            return bool(np.array_equal(mine, theirs))
        return bool(np.isclose(mine, theirs, rtol=tolerance, atol=tolerance).all())
    if isinstance(expected, list | tuple):
        same = isinstance(actual, list | tuple) and len(actual) == len(expected)
        return same and all(close(a, e, tolerance) for a, e in zip(actual, expected, strict=True))
    if isinstance(expected, dict):
        same = isinstance(actual, dict) and set(actual) == set(expected)
        return same and all(close(actual[key], expected[key], tolerance) for key in expected)
    if isinstance(expected, float) and not isinstance(actual, Opaque):
        number = compare.numbers(actual)
        return (
            number is not None
            and number.shape == ()
            and bool(np.isclose(number, expected, rtol=tolerance, atol=tolerance))
        )
    return bool(actual == expected)


def accepts(student: Student, bench: Bench, chosen: Sequence[Case], dtype: str, tolerance: float) -> bool:
    """Whether a course's test would pass: every case returns something close to what the reference returns."""
    for case in chosen:
        outcome = student.call(case, dtype)
        if not outcome.returned or not close(outcome.value, bench.oracle.raw(case, dtype).value, tolerance):
            return False
    return True


def tally(exercise: Exercise, library: Library, runner: Runner) -> Tally:
    """Grade every answer of one exercise in all three ways."""
    folder = library.fixtures / exercise.name if library.fixtures is not None else None
    crew = Crew(runner, exercise, usable_cores())
    scope = Scope(exercise, runner, Settings(), Places(exercise), crew, folder, unwatched)
    counting = {question.id for question in questions(exercise) if not question.advisory}
    found, _ = answers.read_fixtures(scope)
    patches, _ = answers.read_patches(scope)
    # A fixture that only advisory checks tell is no wrong answer: its statement allows it.
    sources = [
        (f.right, Source(f.path.name, f.path.read_bytes(), f.path.name))
        for f in found
        if f.right or _wrong(f, counting)
    ]
    sources += [(False, patched.source) for patched in patches]
    bench = Bench(exercise, runner, SEED)
    dtype = "float32" if "float32" in exercise.spec.dtypes else exercise.spec.dtypes[0]
    random = [cases.draw(exercise, "random", index, SEED) for index in range(RANDOM_CASES)]
    try:
        assert bench.plan
        rejected = crew.each(sources, _judge(bench, scope, random, dtype), lambda: None)
    finally:
        crew.close()
        bench.close()
    names = (ONE_CASE, TEN_CASES, OURS)
    right = [refused for (is_right, _), refused in zip(sources, rejected, strict=True) if is_right]
    wrong = [refused for (is_right, _), refused in zip(sources, rejected, strict=True) if not is_right]
    return Tally(
        exercise.name, len(right), len(wrong),
        {name: sum(name in refused for refused in right) for name in names},
        {name: sum(name in refused for refused in wrong) for name in names},
    )  # fmt: skip


def _wrong(fixture: fixtures.Fixture, counting: set[str]) -> bool:
    return any(name in counting for name in fixture.fails)


def _judge(
    bench: Bench, scope: Scope, random: Sequence[Case], dtype: str
) -> Callable[[Chain, tuple[bool, Source]], set[str]]:
    def judge(chain: Chain, entry: tuple[bool, Source]) -> set[str]:
        refused = set()
        for name, chosen in ((ONE_CASE, random[:1]), (TEN_CASES, random)):
            trial = chain.fresh(bench, entry[1], scope.limits)
            if not accepts(trial.student, bench, chosen, dtype, TOLERANCES[name]):
                refused.add(name)
            trial.student.close()
        trial = chain.fresh(bench, entry[1], scope.limits)
        look, _ = examine(trial, bench)
        trial.student.close()
        return refused if look.passed else refused | {OURS}

    return judge


def comparison(tallies: Sequence[Tally]) -> str:
    """The Markdown table: wrong answers rejected, and right answers rejected in brackets where there are any."""
    names = (ONE_CASE, TEN_CASES, OURS)
    rows = [f"| exercise | right | wrong | {' | '.join(names)} |", "|---|---:|---:|---:|---:|---:|"]
    whole = Tally(
        "all", sum(t.right for t in tallies), sum(t.wrong for t in tallies),
        {name: sum(t.rejected_right[name] for t in tallies) for name in names},
        {name: sum(t.rejected_wrong[name] for t in tallies) for name in names},
    )  # fmt: skip
    for each in (*tallies, whole):
        shown = [
            f"{each.rejected_wrong[name]}" + (f" ({each.rejected_right[name]})" if each.rejected_right[name] else "")
            for name in names
        ]
        title = f"`{each.exercise}`" if each is not whole else "**all**"
        rows.append(f"| {title} | {each.right} | {each.wrong} | {' | '.join(shown)} |")
    return "\n".join(rows) + "\n"


def write(section: str, text: str) -> None:
    """Replace what stands between the two comments of a section of docs/fidelity.md."""
    document = DOCUMENT.read_text(encoding="utf-8")
    start, end = f"<!-- {section} -->\n", f"<!-- end of {section} -->\n"
    before, rest = document.split(start)
    _, after = rest.split(end)
    DOCUMENT.write_text(before + start + text + end + after, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="EXERCISE", help="default: every exercise")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/fidelity.md")
    parser.add_argument("--lint", metavar="FILE", type=Path, help="JSON of `grader lint --strict --json FILE`")
    options = parser.parse_args()
    library = find_library(start=ROOT)
    known = load.folders(library)
    names = options.names or list(known)
    with runners() as runner_for:
        tallies = []
        for name in names:
            # The torch runner serves every framework; a fixture of a NumPy exercise may import torch.
            tallies.append(tally(load.load(library, name), library, runner_for("torch")))
            print(comparison(tallies[-1:]).splitlines()[2], file=sys.stderr)
        if options.lint is not None:
            report = json.loads(options.lint.read_text(encoding="utf-8"))
        else:
            linter = Linter(library, known, runner_for, Settings(strict=True, jobs=usable_cores()), unwatched)
            report = json.loads(summary.to_json([linter.lint(known[name]) for name in names], strict=True, quick=False))
    compared, margins = comparison(tallies), summary.table(report)
    print(compared)
    print(margins)
    if options.write:
        write("comparison", compared)
        write("margins", margins)
    return 0 if report["passed"] else 2


if __name__ == "__main__":
    sys.exit(main())
