"""From save to verdict while `grade EXERCISE --watch` runs, against a cold `grade EXERCISE`: ``python benchmarks/watch.py [ROUNDS]``.

Both are the wall time that a student waits, taken alternately in one run; the figure is the median of the ratios.
"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GRADE = Path(sys.executable).parent / "grade"
GOALS = {"encoder_decoder_forward": 0.25, "softmax": 0.15}
VERDICT = re.compile(rb"passed   \d+ of \d+ points")
SECONDS = 120.0


def read_verdict(terminal: int, seen: bytearray) -> None:
    """Read from the terminal until the next verdict stands there."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        match = VERDICT.search(seen)
        if match is not None:
            del seen[: match.end()]
            return
        if select.select([terminal], [], [], 0.5)[0]:
            seen += re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", os.read(terminal, 1 << 16))
    raise SystemExit(f"no verdict came: {bytes(seen[-500:])!r}")


def measure(name: str, rounds: int) -> None:
    right = sorted((ROOT / "fixtures" / name / "right").glob("*.py"))[0].read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.py"
        file.write_text(right, encoding="utf-8")
        environment = {**os.environ, "TENSORGRADE_STATE": str(Path(folder) / "state.json"), "TERM": "xterm"}
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.execve(str(GRADE), ["grade", name, "--watch"], environment)
        try:
            seen = bytearray()
            read_verdict(terminal, seen)
            warm, cold = [], []
            for number in range(rounds):
                started = time.perf_counter()
                subprocess.run([str(GRADE), name], cwd=folder, env=environment, stdout=subprocess.DEVNULL)
                cold.append(time.perf_counter() - started)
                text = f"{right}\n# save {number}\n"
                started = time.perf_counter()
                file.write_text(text, encoding="utf-8")
                read_verdict(terminal, seen)
                warm.append(time.perf_counter() - started)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    ratios = [a / b for a, b in zip(warm, cold, strict=True)]
    print(
        f"{name:24} save to verdict {statistics.median(warm):.2f} s   cold grade {statistics.median(cold):.2f} s   "
        f"ratio {statistics.median(ratios):.2f}  (from {min(ratios):.2f} to {max(ratios):.2f}, goal {GOALS[name]})"
    )


def main() -> None:
    for name in GOALS:
        measure(name, int(sys.argv[1]) if len(sys.argv) > 1 else 9)


if __name__ == "__main__":
    main()
