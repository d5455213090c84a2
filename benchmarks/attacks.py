"""Every file of fixtures/attacks, graded: ``python benchmarks/attacks.py [--runner fork|exec] [--write] [NAME …]``.

Prints file, verdict, cause and seconds, and at the end how many passed, how many were not graded, and how many left a trace;
each must be none. ``--write`` puts the table (without seconds, which are this machine's) into docs/attacks.md. The tests
run the same files through the real command, and look at processes, files and the network as well.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from fuzzing import hold  # noqa: E402
from test_attacks import ATTACKS, Attack, read  # noqa: E402

from grader.diagnose import Diagnostician  # noqa: E402
from grader.grade import Options, grade  # noqa: E402
from grader.lockdown import Lockdown  # noqa: E402
from grader.model import Report  # noqa: E402
from grader.oracle import ReferenceOracle  # noqa: E402
from grader.sandbox.runner import Runner, make_runner  # noqa: E402
from grader.spec import load  # noqa: E402
from grader.spec.exercise import Exercise  # noqa: E402
from grader.spec.library import find_library  # noqa: E402
from grader.submission import read_submission  # noqa: E402

SEED = 3
DOCUMENT = ROOT / "docs" / "attacks.md"
HEAD = """# Attacks

Hostile and broken submissions, and what is reported of each. Every file lies in `fixtures/attacks`, and its header
says what must be reported; `tests/test_attacks.py` runs them all through the real command, under both ways to start a worker.
None passes, none makes the grader fail, and none leaves a file, a process or a word to the outside behind.

## A submission that owns its whole worker

It may replace the worker's modules, write frames of its own to the pipe, before a call or in place of a reply, and walk every
frame and object of its process. What it can reach holds no expected value, no seed and no verdict, and the kernel keeps it from
every other process, so all it can send is an answer, and only right values pass. What it can lie about is what a worker
says of itself, and only where its values are right: that inputs are unchanged, which device a tensor is on, whether a result was a
tensor or an array, and how much memory a call held. (Which functions its file calls is read before it runs.)

Links, pipes, strange names and files that shadow a module are in `tests/test_attack_surroundings.py`.

## The table

It is written by `python benchmarks/attacks.py --write`. The verdict and the cause are those of the first check that
counts and did not pass.

| attack | file | verdict | cause |
|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    """One graded attack; ``fault`` says what is wrong with the report, if anything."""

    attack: Attack
    about: str
    verdict: str
    cause: str
    seconds: float
    fault: str | None


class Range:
    """Runners and references, started once."""

    def __init__(self, way: str) -> None:
        self._way = way
        self._library = find_library(start=ROOT)
        self._lockdown = Lockdown("auto")
        self._runners: dict[str, Runner] = {}
        self._exercises: dict[str, tuple[Exercise, ReferenceOracle]] = {}
        self._trusted: dict[str, Runner] = {}

    def runner(self, framework: str) -> Runner:
        if framework not in self._runners:
            self._runners[framework] = make_runner(self._way, framework)
        return self._runners[framework]

    def grade(self, attack: Attack) -> Report:
        if attack.exercise not in self._exercises:
            exercise = load.load(self._library, attack.exercise)
            framework = exercise.spec.framework
            if framework not in self._trusted:
                self._trusted[framework] = make_runner("fork", framework)
            self._exercises[attack.exercise] = exercise, ReferenceOracle(self._trusted[framework], exercise)
        exercise, oracle = self._exercises[attack.exercise]
        runner = self.runner(exercise.spec.framework)
        given = dict(zip(attack.options[::2], attack.options[1::2], strict=True))
        options = Options(
            seed=SEED,
            time_limit=float(given["--time-limit"]) if "--time-limit" in given else None,
            memory_limit=float(given["--memory-limit"]) if "--memory-limit" in given else None,
        )
        mute = Diagnostician(runner, replace(exercise, misconceptions=None))
        return grade(exercise, read_submission(attack.path), runner, options, oracle, mute, self._lockdown)

    def close(self) -> None:
        for _, oracle in self._exercises.values():
            oracle.close()
        for runner in (*self._runners.values(), *self._trusted.values()):
            runner.close()


def run(scene: Range, path: Path) -> Row:
    attack = read(path)
    began = time.monotonic()
    report = scene.grade(attack)
    seconds = time.monotonic() - began
    failed = [check for check in report.checks if check.verdict not in ("pass", "skipped") and not check.advisory]
    fault = None
    if report.status != "graded":
        fault = f"not graded: {report.reason}"
    elif report.passed or not failed:
        fault = "passed"
    elif not {check.verdict for check in failed} & attack.verdicts:
        fault = f"{failed[0].verdict} instead of {', '.join(sorted(attack.verdicts))}: {failed[0].message}"
    elif attack.cause is not None and attack.cause not in {check.cause for check in failed}:
        fault = f"{failed[0].cause} instead of {attack.cause}"
    try:
        hold(report)
    except Exception as error:
        fault = f"its report does not hold: {error}"
    first = failed[0] if failed else report.checks[0]
    about = path.read_bytes().decode("utf-8", "replace").splitlines()[0].removeprefix("# attack: ")
    return Row(attack, about, first.verdict, first.cause or "", seconds, fault)


def planted() -> set[str]:
    return {str(path) for folder in ("/tmp", "/dev/shm") for path in Path(folder).glob("planted*")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runner", choices=["fork", "exec"], default="fork")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    chosen = [
        path for path in ATTACKS if not asked.names or path.stem in asked.names or path.parent.name in asked.names
    ]
    scene = Range(asked.runner)
    rows = []
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    try:
        for path in chosen:
            row = run(scene, path)
            rows.append(row)
            name = f"{path.parent.name}/{path.stem}"
            print(f"{name:44} {row.verdict:8} {row.cause:20} {row.seconds:6.1f} s  {row.fault or ''}", flush=True)
    finally:
        scene.close()
    faults = [row for row in rows if row.fault is not None]
    passed = sum(row.fault == "passed" for row in rows)
    ungraded = sum(bool(row.fault) and row.fault.startswith("not graded") for row in rows if row.fault)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(row.verdict for row in rows).most_common())
    print(
        f"{len(rows)} files ({counts}): {passed} passed, {ungraded} grader faults, {len(planted())} traces, {len(faults)} complaints"
    )
    if before:
        print(f"descriptors: {before} before, {len(os.listdir('/proc/self/fd'))} after")
    if asked.write and not asked.names:
        lines = [
            f"| {row.about} | `{row.attack.path.parent.name}/{row.attack.path.name}` | {row.verdict} | {row.cause} |"
            for row in rows
        ]
        DOCUMENT.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    return 1 if faults or planted() else 0


if __name__ == "__main__":
    sys.exit(main())
