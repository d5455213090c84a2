"""What the lock costs one submission, beside the fork of its worker and its own calls: ``python benchmarks/isolation.py [ROUNDS]``.

Everything is measured in one session, in turns, so that the shares mean something on a shared machine: a worker is forked
without a lock, then one with it; each loads a right encoder-decoder submission and answers five calls. Medians, and shares of the
whole of a locked submission. What one-off costs there are (namespaces, entered once per zygote; the probe, run beside the
import) is printed apart.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

from grader import cases
from grader.lockdown import policy
from grader.sandbox import isolation
from grader.sandbox.protocol import Value
from grader.sandbox.runner import Fault, Limits, Runner, make_runner
from grader.spec import load
from grader.spec.exercise import Exercise
from grader.spec.library import find_library

ROOT = Path(__file__).resolve().parent.parent
EXERCISE = "encoder_decoder_forward"
RIGHT = ROOT / "fixtures" / EXERCISE / "right" / "einsum.py"
CALLS = 5
GOAL = 0.1


def once(
    runner: Runner, exercise: Exercise, source: bytes, calls: list[list[Value]], lock: dict[str, Any] | None
) -> tuple[float, float, float]:
    """Seconds until a worker serves (fork and lock), to load the submission, and for all its calls with their transport."""
    began = time.perf_counter()
    worker = runner.spawn(lock)
    assert worker.wait_ready() is None
    ready = time.perf_counter()
    header = {"op": "load", "filename": RIGHT.name, "module": exercise.name, "function": exercise.function}
    reply = worker.request({**header, "arguments": len(exercise.spec.inputs)}, blobs=[source])
    assert not isinstance(reply, Fault) and reply.header["loaded"]
    loaded = time.perf_counter()
    for arguments in calls:
        reply = worker.request({"op": "call", "id": 0, "mode": "plain"}, {"args": arguments})
        assert not isinstance(reply, Fault) and reply.header["status"] == "returned"
    done = time.perf_counter()
    worker.close()
    return ready - began, loaded - ready, done - loaded


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
    runner.wait_ready()
    try:
        plain, locked = [], []
        for _ in range(3 + rounds):
            plain.append(once(runner, exercise, source, calls, None))
            locked.append(once(runner, exercise, source, calls, lock))
    finally:
        runner.close()
    fork, load_, answer = (statistics.median(column) for column in zip(*plain[3:], strict=True))
    # In turns, and the difference pair by pair: what disturbs one disturbs its neighbour as well.
    cost = statistics.median(with_[0] - without[0] for with_, without in zip(locked[3:], plain[3:], strict=True))
    slower = statistics.median(
        sum(with_[1:]) - sum(without[1:]) for with_, without in zip(locked[3:], plain[3:], strict=True)
    )
    whole = statistics.median(sum(one) for one in locked[3:])
    print(f"isolation here: {found.level} ({', '.join(found.layers)})")
    print(f"{rounds} pairs, {EXERCISE}, {CALLS} calls each; shares of a locked submission's {1000 * whole:.1f} ms:")
    for name, seconds in (
        ("fork and start of a worker", fork),
        ("the lock", cost),
        ("loading the submission", load_),
        ("its calls, with transport", answer),
        ("what the lock adds to loading and calls", slower),
    ):
        print(f"  {name:42} {1000 * seconds:7.2f} ms  {seconds / whole:6.1%}")
    share = (cost + max(0.0, slower)) / whole
    print(f"the lock in all: {share:.1%} of a submission (goal: below {GOAL:.0%})")
    print(f"once per run, beside the import: namespaces of the zygote, and the probe ({probing:.2f} s of wall time)")


if __name__ == "__main__":
    main()
