"""A class graded through kills: ``python benchmarks/killed.py [STUDENTS]``.

STUDENTS (30) students hand in ten exercises each: right, wrong and hostile files. One run is left alone. Another store,
with the same seed, is filled by a grader that is killed (SIGKILL) ten times at random moments and then run to its end; a
third by a cluster of two worker processes, one of which is killed in the middle. Prints how many results each store
holds, and how many differ from the undisturbed run in anything but times.
"""

from __future__ import annotations

import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import classroom  # noqa: E402
import soaking  # noqa: E402

EXERCISES = (
    "softmax", "layer_norm", "scaled_dot_product_attention", "causal_mask", "split_heads", "rms_norm", "masked_cross_entropy",
    "multi_head_attention", "decoder_lm_loss", "encoder_decoder_forward",
)  # fmt: skip
KILLS = 10
SEED = "20"
# Of all files about so many are hostile.
HOSTILE = 0.1


def run(here: Path, *arguments: str) -> float:
    started = time.perf_counter()
    if classroom.start_batch(here, *arguments).wait():
        raise SystemExit(f"grader batch {' '.join(arguments)} failed")
    return time.perf_counter() - started


def compared(name: str, rows: list[tuple[str, str, str, float | None, str]], whole: list[tuple[str, ...]]) -> None:
    kept = {row[:2]: row for row in rows}
    differ = sum(kept.get(row[:2]) != row for row in whole)
    print(f"{name:34} {len(rows)} results, {len(rows) - len(kept)} twice, {differ} other than undisturbed", flush=True)


def main() -> None:
    students = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        classroom.hand_in(here / "in", students, EXERCISES)
        for path in sorted((here / "in").glob("*/softmax.py")) + sorted((here / "in").glob("*/scaled_dot*.py")):
            if draw.random() < HOSTILE * len(EXERCISES) / 2:
                shutil.copyfile(ROOT / "fixtures" / "attacks" / f"{draw.choice(soaking.HOSTILE)}.py", path)
        total = students * len(EXERCISES)
        took = run(here, "in", "--seed", SEED, "--store", "whole.sqlite")
        whole = classroom.stored(here / "whole.sqlite")
        passed = sum('"passed": true' in row[-1] for row in whole)
        print(f"undisturbed: {len(whole)} of {total} results, {passed} passed, {took:.0f} s", flush=True)

        torn = here / "torn.sqlite"
        arguments = ("in", "--seed", SEED, "--store", torn.name)
        at = []
        for _ in range(KILLS):
            # A moment of the grader's start, or of its work.
            classroom.kill_and_go_on(here, arguments, torn, [draw.randrange(0, max(2, total // KILLS))])
            at.append(classroom.count(torn))
        print(f"killed when {', '.join(map(str, at))} results were stored")
        run(here, *arguments)
        compared(f"killed {KILLS} times, then run on", classroom.stored(torn), whole)

        with classroom.cluster(here, 2) as (address, workers):
            arguments = ("in", "--seed", SEED, "--store", "dask.sqlite", "--engine", "dask", "--scheduler", address)
            process = classroom.start_batch(here, *arguments)
            while process.poll() is None and classroom.count(here / "dask.sqlite") < total // 2:
                time.sleep(0.01)
            at = [classroom.count(here / "dask.sqlite")]
            workers[0].send_signal(signal.SIGKILL)
            code = process.wait()
        print(f"cluster of two, one killed when {at[0]} results were stored: exit code {code}")
        compared("cluster, one of two workers killed", classroom.stored(here / "dask.sqlite"), whole)


if __name__ == "__main__":
    main()
