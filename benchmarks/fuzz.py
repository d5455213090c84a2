"""The properties of tests/test_fuzzing.py for as long as one likes: ``python benchmarks/fuzz.py [SECONDS] [NAME …]``.

Each round takes fresh random input. What fails is printed, shrunk, with its traceback, and ends the run with exit code 1. At
the end: rounds, inputs per second, and the resident memory of this process at the start, after the first round and at the end.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Verbosity, given, seed, settings

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import fuzzing  # noqa: E402

from grader.sandbox.runner import make_runner  # noqa: E402
from grader.spec import load  # noqa: E402
from grader.spec.library import find_library  # noqa: E402

SECONDS = 60.0
# Inputs of one round; a graded reply costs as much as a hundred frames.
ROUND = {"frames": 500, "documents": 100, "sources": 30}
REPLIES = 8


def main(arguments: list[str]) -> int:
    seconds = float(arguments[0]) if arguments else SECONDS
    checks = prepare()
    wanted = {name: check for name, check in checks.items() if not arguments[1:] or name in arguments[1:]}
    if not wanted:
        print(f"no such name; there are {', '.join(checks)}")
        return 2
    counts = dict.fromkeys(wanted, 0)
    spent = dict.fromkeys(wanted, 0.0)
    started, resident = time.monotonic(), [held()]
    while time.monotonic() - started < seconds:
        for name, (strategy, check, count) in wanted.items():
            began = time.monotonic()
            if not one_round(strategy, check, count):
                print(f"{name}: failed, see above")
                return 1
            counts[name] += count
            spent[name] += time.monotonic() - began
        if len(resident) == 1:
            resident.append(held())
    for name, count in counts.items():
        print(f"{name:45} {count:8} inputs {count / spent[name]:8.0f} per second")
    first, *warm = resident
    print(f"resident memory: {first} MB at the start, {warm[0]} MB after one round, {held()} MB at the end")
    return 0


def prepare() -> dict[str, tuple[Any, Callable[..., None], int]]:
    library = find_library(start=ROOT)
    numpy, torch = make_runner("fork", "numpy"), make_runner("fork", "torch")
    checks: dict[str, tuple[Any, Callable[..., None], int]] = {
        "frames": (fuzzing.frames(), fuzzing.check_frame, ROUND["frames"]),
        "documents": (fuzzing.documents(), fuzzing.check_document, ROUND["documents"]),
    }
    for name in fuzzing.FACED:
        exercise = load.load(library, name)
        bench = fuzzing.Bench(exercise, torch if exercise.spec.framework == "torch" else numpy)
        checks[f"replies:{name}"] = (fuzzing.replies(), lambda answer, b=bench: fuzzing.check_reply(b, answer), REPLIES)
    bench = fuzzing.Bench(load.load(library, "softmax"), numpy)
    checks["sources"] = (fuzzing.programs(), lambda text: fuzzing.check_source(bench, numpy, text), ROUND["sources"])
    return checks


def one_round(strategy: Any, check: Callable[..., None], count: int) -> bool:
    """Whether ``count`` fresh inputs pass; what fails is printed by Hypothesis."""

    @seed(random.SystemRandom().getrandbits(64))
    @settings(
        max_examples=count, deadline=None, database=None, verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def hold(data: Any) -> None:
        check(data)

    try:
        hold()
    except Exception as error:
        import traceback

        traceback.print_exception(error)
        return False
    return True


def held() -> int:
    """Resident memory in MB."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
