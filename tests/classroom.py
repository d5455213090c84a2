"""A class to be graded by the real commands: what is handed in, what a store holds, and a cluster on loopback."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conftest import BIN, ROOT

FIXTURES = ROOT / "fixtures"
# Fast ones of two frameworks: what is tested is the class, not the exercises.
EXERCISES = ("softmax", "layer_norm", "scaled_dot_product_attention")


def hand_in(
    folder: Path, students: int, exercises: tuple[str, ...] = EXERCISES, seed: int = 0
) -> dict[tuple[str, str], bool]:
    """A class's folder; returns who should pass what."""
    draw = random.Random(seed)
    expected = {}
    for number in range(students):
        who = f"student{number:02d}"
        for name in exercises:
            kind = draw.choice(("right", "wrong"))
            files = [
                f for f in sorted((FIXTURES / name / kind).glob("*.py")) if "# fails: precision" not in f.read_text()
            ]
            file = draw.choice(files)
            (folder / who).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, folder / who / f"{name}.py")
            expected[who, name] = kind == "right"
    return expected


def stored(path: Path) -> list[tuple[str, str, str, float | None, str]]:
    """(student, exercise, status, score, report without times) of every row, in order."""
    with sqlite3.connect(path) as db:
        rows = db.execute("SELECT student, exercise, status, score, report FROM results ORDER BY student, exercise, id")
        return [(who, name, status, score, timeless(report)) for who, name, status, score, report in rows]


def timeless(report: str) -> str:
    body = json.loads(report)
    body.pop("timings")
    for check in body["checks"]:
        check.pop("seconds")
    return json.dumps(body, sort_keys=True)


def start_batch(here: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "TENSORGRADE_STATE": str(here / "state.json")}
    return subprocess.Popen(
        [str(BIN / "grader"), "batch", *arguments], cwd=here, env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def count(path: Path) -> int:
    if not path.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            found: int = db.execute("SELECT count(*) FROM results").fetchone()[0]
            return found
    except sqlite3.OperationalError:
        return 0


def kill_and_go_on(here: Path, arguments: Sequence[str], store: Path, moments: Sequence[int]) -> None:
    """Start a class again and again, and kill it (SIGKILL) when so many more results are stored."""
    for more in moments:
        process = start_batch(here, *arguments)
        wanted = count(store) + more
        while process.poll() is None and count(store) < wanted:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()


@contextmanager
def cluster(tmp_path: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A real scheduler and worker processes on loopback."""
    told = tmp_path / "scheduler.json"
    processes: list[subprocess.Popen[bytes]] = []
    quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "10"}
    scheduler = [
        str(BIN / "dask"),
        "scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--no-dashboard",
        "--scheduler-file",
        str(told),
    ]
    worker = [
        str(BIN / "dask"),
        "worker",
        "--scheduler-file",
        str(told),
        "--host",
        "127.0.0.1",
        "--nthreads",
        "1",
        "--no-nanny",
        "--no-dashboard",
        "--local-directory",
        str(tmp_path),
    ]
    try:
        processes.append(subprocess.Popen(scheduler, env=environment, cwd=tmp_path, **quiet))
        processes += [subprocess.Popen(worker, env=environment, cwd=tmp_path, **quiet) for _ in range(workers)]
        deadline = time.monotonic() + 60
        while not told.exists() or not told.read_text():
            assert time.monotonic() < deadline, "the scheduler did not start"
            time.sleep(0.05)
        yield json.loads(told.read_text())["address"], processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait()
