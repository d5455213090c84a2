"""Cold start: whole-process time of `grade encoder_decoder_forward RIGHT.py` against `python -c 'import torch'`.

The two are run alternately in one session, and the figure is the median of the ratios pair by pair: absolute times are
noise on a shared machine. Run with ``python benchmarks/cold_start.py [pairs]``.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GRADE = Path(sys.executable).parent / "grade"
RIGHT = ROOT / "fixtures" / "encoder_decoder_forward" / "right" / "einsum.py"


def spend(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """(wall, CPU) seconds of one whole process, children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print both medians, the ratios, and where the grader's time goes by its own account."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TENSORGRADE_STATE": str(Path(folder) / "state.json")}
        report = Path(folder) / "report.json"
        grade = [str(GRADE), "encoder_decoder_forward", str(RIGHT), "--json", str(report)]
        bare = [sys.executable, "-c", "import torch"]
        spend(grade, environment)
        spend(bare, environment)
        measured = [(spend(grade, environment), spend(bare, environment)) for _ in range(pairs)]
        timings = json.loads(report.read_text())["timings"]
    for index, name in enumerate(("wall", "CPU")):
        ours = [one[index] for one, _ in measured]
        theirs = [other[index] for _, other in measured]
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        print(
            f"{name:4}  grade {statistics.median(ours):.2f} s   import torch {statistics.median(theirs):.2f} s   "
            f"ratio {statistics.median(ratios):.2f}  (from {min(ratios):.2f} to {max(ratios):.2f})"
        )
    total = timings["total_s"]
    print("of a grade's time after its own imports, by its own account:")
    print(
        f"  waiting for torch in the zygote  {timings['import_s']:.2f} s of import, overlapped with everything before"
    )
    print(f"  the submission's calls           {timings['student_s']:.2f} s")
    print(f"  the reference's calls            {timings['reference_s']:.2f} s, on the other core")
    print(f"  total                            {total:.2f} s")


if __name__ == "__main__":
    main()
