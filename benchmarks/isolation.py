"""What the lock costs one submission, beside the fork of its worker and its own calls: ``python benchmarks/isolation.py [ROUNDS]``.

A worker is forked without a lock, then one with it, in turns in one session; each loads a right encoder-decoder submission and
answers five calls. What is compared is computing time, of the worker and of the zygote that forks it, as the kernel counts it:
shares of the whole of a locked submission, which a busy machine changes little. Wall times are printed beside them. What
is paid once (namespaces, entered by the zygote; the probe, run beside the import) is printed apart.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import soaking  # noqa: E402

from grader import cases  # noqa: E402
from grader.lockdown import policy  # noqa: E402
from grader.sandbox import isolation  # noqa: E402
from grader.sandbox.protocol import Value  # noqa: E402
from grader.sandbox.runner import Fault, ForkRunner, Limits, Worker, make_runner  # noqa: E402
from grader.spec import load  # noqa: E402
from grader.spec.exercise import Exercise  # noqa: E402
from grader.spec.library import find_library  # noqa: E402

EXERCISE = "encoder_decoder_forward"
RIGHT = ROOT / "fixtures" / EXERCISE / "right" / "einsum.py"
CALLS = 5
GOAL = 0.1


@dataclass(frozen=True)
class Spent:
    """Seconds of one submission: start of a worker (fork and lock), loading, and all calls."""

    start: float
    load: float
    calls: float

    @property
    def whole(self) -> float:
        return self.start + self.load + self.calls


class Clock:
    """Computing time of a process and of the zygote it comes from, and wall time."""

    def __init__(self, runner: ForkRunner) -> None:
        self._zygote = soaking.zygote_of(runner)

    def read(self, worker: Worker | None) -> tuple[float, float]:
        own = _computed(worker.pid) if worker is not None else 0.0
        return own + _computed(self._zygote), time.perf_counter()


def _computed(pid: int) -> float:
    return time.clock_gettime((~pid << 3) | 2)


def once(
    runner: ForkRunner,
    clock: Clock,
    exercise: Exercise,
    source: bytes,
    calls: list[list[Value]],
    lock: dict[str, Any] | None,
) -> tuple[Spent, Spent]:
    """(computing, wall) seconds of one submission."""
    marks = [clock.read(None)]
    worker = runner.spawn(lock)
    assert worker.wait_ready() is None
    marks.append(clock.read(worker))
    header = {"op": "load", "filename": RIGHT.name, "module": exercise.name, "function": exercise.function}
    reply = worker.request({**header, "arguments": len(exercise.spec.inputs)}, blobs=[source])
    assert not isinstance(reply, Fault) and reply.header["loaded"]
    marks.append(clock.read(worker))
    for arguments in calls:
        reply = worker.request({"op": "call", "id": 0, "mode": "plain"}, {"args": arguments})
        assert not isinstance(reply, Fault) and reply.header["status"] == "returned"
    marks.append(clock.read(worker))
    worker.close()
    return tuple(Spent(*(b[n] - a[n] for a, b in pairwise(marks))) for n in (0, 1))  # type: ignore[return-value]


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    exercise = load.load(find_library(start=ROOT), EXERCISE)
    framework = exercise.spec.framework
    source = RIGHT.read_bytes()
    drawn = [cases.draw(exercise, "random", index, 1) for index in range(CALLS)]
    calls = [cases.arguments(case, framework, exercise.spec.dtypes[0]) for case in drawn]
    lock = policy("auto", Limits())

    began = time.perf_counter()
    found = isolation.probe()
    probing = time.perf_counter() - began
    runner = make_runner("fork", framework)
    assert isinstance(runner, ForkRunner)
    runner.wait_ready()
    clock = Clock(runner)
    plain, locked = [], []
    try:
        for _ in range(3 + rounds):
            plain.append(once(runner, clock, exercise, source, calls, None))
            locked.append(once(runner, clock, exercise, source, calls, lock))
    finally:
        runner.close()
    print(f"isolation here: {found.level} ({', '.join(found.layers)})")
    print(f"{rounds} pairs, {EXERCISE}, {CALLS} calls each; medians, and shares of a locked submission")
    for n, kind in enumerate(("computing time", "wall time")):
        pairs = [(a[n], b[n]) for a, b in zip(plain[3:], locked[3:], strict=True)]
        whole = median(b.whole for _, b in pairs)
        # The difference pair by pair: what disturbs one disturbs its neighbour as well.
        cost = median(b.start - a.start for a, b in pairs)
        slower = median(b.load + b.calls - a.load - a.calls for a, b in pairs)
        print(f"{kind}: {1000 * whole:.1f} ms")
        for name, seconds in (
            ("fork and start of a worker", median(a.start for a, _ in pairs)),
            ("the lock", cost),
            ("loading the submission", median(a.load for a, _ in pairs)),
            ("its calls, with transport", median(a.calls for a, _ in pairs)),
            ("what the lock adds to loading and calls", slower),
        ):
            print(f"  {name:42} {1000 * seconds:7.2f} ms  {seconds / whole:6.1%}")
        share = (cost + max(0.0, slower)) / whole
        print(f"  the lock in all: {share:.1%} of a submission (goal: below {GOAL:.0%} of computing time)")
    print(f"once per run, beside the import: namespaces of the zygote, and the probe ({probing:.2f} s of wall time)")


if __name__ == "__main__":
    main()
