"""A class in one go: what isolation and judging cost, and how that compares and grows. ``python benchmarks/batch.py [COUNT]``.

On the same COUNT submissions (200; right, wrong and slow ones, in equal parts of three exercises), in one run:

(a) total computing time of ``grader batch`` against the bare cost of the same calls (of the submissions, the references
    and the patched references; backward passes and calls on the imitated device are made as such), in one warm process
    without isolation, without comparing anything; then the same for the right, the wrong and the slow ones alone, since
    what a call costs decides what isolation adds to it;
(b) submissions per second against one ``pytest`` per submission, as many at a time, that makes the calls which the
    grader makes of a right submission and compares with ``assert_close``;
(c) computing time at COUNT / 4, COUNT / 2, COUNT and 2 * COUNT submissions.

The slow ones are right, and written as beginners write loops: over rows, features or single numbers. They take 1 to 10 ms a
call; nothing is made to wait.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
EXERCISES = ("encoder_decoder_forward", "decoder_lm_loss", "multi_head_attention")
SEED = 20

KINDS = ("right", "wrong", "slow")
SLOW = {
    "encoder_decoder_forward": "loops",
    "decoder_lm_loss": "number_by_number",
    "multi_head_attention": "feature_by_feature",
}

PYTEST = """
import importlib.util, json, pathlib, pickle, sys
import numpy as np, pytest, torch

HERE = pathlib.Path(__file__).parent
spec = importlib.util.spec_from_file_location("submission", {file!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
CASES = pickle.loads(pathlib.Path({cases!r}).read_bytes())


@pytest.mark.parametrize("number", range(len(CASES)))
def test_case(number):
    arguments, expected = CASES[number]
    got = getattr(module, {function!r})(*arguments)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(got, expected)
    else:
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
"""


def cpu() -> float:
    """Computing seconds of this process and of all that it waited for."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def hand_in(folder: Path, count: int, kinds: tuple[str, ...] = KINDS) -> list[tuple[str, Path]]:
    """``count`` submissions, one folder per student, in equal parts of ``kinds``; the same ones for the same count."""
    draw = random.Random(1)
    made = []
    for number in range(count):
        name = EXERCISES[number % len(EXERCISES)]
        kind = kinds[(number // len(EXERCISES)) % len(kinds)]
        files = sorted((ROOT / "fixtures" / name / ("wrong" if kind == "wrong" else "right")).glob("*.py"))
        chosen = [path for path in files if (path.stem == SLOW[name]) == (kind == "slow")]
        target = folder / f"student{number:04d}" / f"{name}.py"
        target.parent.mkdir(parents=True)
        target.write_text(draw.choice(chosen).read_text(encoding="utf-8"), encoding="utf-8")
        made.append((name, target))
    return made


def batch(folder: Path, store: Path, jobs: int) -> tuple[float, float]:
    """(wall, CPU) seconds of one ``grader batch``."""
    before, started = cpu(), time.perf_counter()
    command = [
        str(BIN / "grader"),
        "batch",
        str(folder),
        "--store",
        str(store),
        "--seed",
        str(SEED),
        "--jobs",
        str(jobs),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT)
    if done.returncode:
        raise SystemExit(done.stdout.decode())
    return time.perf_counter() - started, cpu() - before


@contextmanager
def listening(hear: Callable[[Any, Any, str, str, str | None, Any], None]) -> Iterator[None]:
    """Tell ``hear`` (student, case, dtype, mode, layout, outcome) of every single call that gradings make meanwhile."""
    from grader.submission import Student

    kept = Student.call, Student.call_each
    single, row = kept

    def call(self: Student, case: Any, dtype: str, mode: str = "plain", *rest: Any, **more: Any) -> Any:
        outcome = single(self, case, dtype, mode, *rest, **more)
        hear(self, case, dtype, mode, rest[1] if len(rest) > 1 else more.get("layout"), outcome)
        return outcome

    def in_a_row(self: Student, calls: Any) -> Any:
        for (case, dtype), outcome in zip(calls, row(self, calls), strict=True):
            if not case.functions:
                # Those with functions are made one by one, and heard of there.
                hear(self, case, dtype, "plain", None, outcome)
            yield outcome

    Student.call, Student.call_each = call, in_a_row  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Student.call, Student.call_each = kept  # type: ignore[method-assign]


def recorded_calls(submissions: list[tuple[str, Path]], target: Path) -> None:
    """Every call that grading makes, of submissions, references and patched references, in order, written to ``target``."""
    import pickle

    from grader import cases
    from grader.grade import Options
    from grader.oracle import ReferenceOracle
    from grader.session import Session
    from grader.spec import load
    from grader.spec.library import find_library
    from grader.submission import Student, read_submission

    library = find_library(start=ROOT)
    exercises = {name: load.load(library, name) for name in EXERCISES}
    log: list[Any] = []
    kept = Student.try_each, ReferenceOracle._raw
    each, raw = kept

    def hear(student: Student, case: Any, dtype: str, mode: str, layout: str | None, outcome: Any) -> None:
        exercise = student._exercise
        arguments = cases.arguments(case, exercise.spec.framework, dtype, layout)
        log.append((exercise.function, student._submission.source, mode, arguments))

    def several(self: Student, sources: Any, case: Any, dtype: str) -> Any:
        arguments = cases.arguments(case, self._exercise.spec.framework, dtype)
        log.extend((self._exercise.function, source, "plain", arguments) for source in sources)
        return each(self, sources, case, dtype)

    def asked(
        self: ReferenceOracle, case: Any, dtype: str, mode: str = "plain", options: Any = None, values: Any = None
    ) -> Any:
        known = len(self._answers)
        answer = raw(self, case, dtype, mode, options, values)
        if len(self._answers) > known:
            arguments = cases.arguments(case, self.exercise.spec.framework, dtype)
            log.append((self.exercise.function, self._source, mode, arguments))
        return answer

    Student.try_each, ReferenceOracle._raw = several, asked  # type: ignore[method-assign]
    session = Session()
    try:
        with listening(hear):
            for name, path in submissions:
                session.grade(exercises[name], read_submission(path), Options(seed=SEED))
    finally:
        session.close()
        Student.try_each, ReferenceOracle._raw = kept  # type: ignore[method-assign]
    target.write_bytes(pickle.dumps(log))


def bare(target: Path) -> None:
    """Make the recorded calls in this process and print their computing time: loading, inputs made native, calls."""
    import pickle

    import torch

    from grader.worker import values
    from grader.worker.device import call_on_device

    torch.set_num_threads(1)
    log = pickle.loads(target.read_bytes())
    loaded: dict[bytes, Any] = {}
    started = time.process_time()
    for function, source, mode, arguments in log:
        if source not in loaded:
            scope: dict[str, Any] = {"__name__": "submission"}
            try:
                exec(compile(source, "submission.py", "exec"), scope)
            except Exception:
                scope = {}
            loaded[source] = scope.get(function)
        solve = loaded[source]
        native = tuple(values.to_native(value, None) for value in arguments)
        try:
            if mode == "gradients":
                for item in native:
                    if isinstance(item, torch.Tensor) and item.is_floating_point():
                        item.requires_grad_(True)
                result = solve(*native)
                if isinstance(result, torch.Tensor) and result.requires_grad:
                    result.sum().backward()
            elif mode == "device":
                call_on_device(solve, native, called_before=True, file="submission.py")
            else:
                solve(*native)
        except Exception:
            pass
    print(json.dumps({"cpu": time.process_time() - started, "calls": len(log)}))


def bare_cost(submissions: list[tuple[str, Path]], target: Path) -> tuple[int, float]:
    """(how many, computing seconds) of the calls that grading ``submissions`` makes, in a process of its own."""
    recorded_calls(submissions, target)
    told = subprocess.run(
        [sys.executable, __file__, "--bare", str(target)], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    target.unlink()
    found = json.loads(told.stdout.splitlines()[-1])
    return found["calls"], found["cpu"]


def pytest_files(submissions: list[tuple[str, Path]], folder: Path) -> list[Path]:
    """One test file per submission, with the calls that the grader makes of a right one, and what they return, beside it."""
    import pickle

    import torch  # noqa: F401  values are made native with whatever is imported

    from grader import cases
    from grader.grade import Options
    from grader.session import Session
    from grader.spec import load
    from grader.spec.library import find_library
    from grader.submission import Student, read_submission
    from grader.worker import values

    library = find_library(start=ROOT)
    found: list[Any] = []

    def hear(student: Student, case: Any, dtype: str, mode: str, layout: str | None, outcome: Any) -> None:
        framework = student._exercise.spec.framework
        native = [values.to_native(value, None) for value in cases.arguments(case, framework, dtype, layout)]
        # Whatever else a mode asks for, the result is that of a plain call.
        found.append((native, values.to_native(outcome.value, None)))

    stored = {}
    session = Session()
    try:
        with listening(hear):
            for name in EXERCISES:
                exercise = load.load(library, name)
                assert exercise.solution is not None
                found.clear()
                session.grade(exercise, read_submission(exercise.solution), Options(seed=SEED))
                stored[name] = folder / f"{name}.pickle"
                stored[name].write_bytes(pickle.dumps(found))
    finally:
        session.close()
    made = []
    for number, (name, path) in enumerate(submissions):
        target = folder / f"test_{number:04d}.py"
        target.write_text(PYTEST.format(file=str(path), cases=str(stored[name]), function=name))
        made.append(target)
    return made


def run_pytest(path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(path.parent),
        str(path),
    ]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, cwd=path.parent)


def main() -> None:
    if len(sys.argv) > 2 and sys.argv[1] == "--bare":
        bare(Path(sys.argv[2]))
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    jobs = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"{count} submissions: {', '.join(KINDS)}; in (b) and (c) {jobs} at a time")
        for kinds in (KINDS, *((kind,) for kind in KINDS)):
            label = "all" if kinds == KINDS else kinds[0]
            made = hand_in(folder / label, count if kinds == KINDS else count // 3, kinds)
            # One at a time, as the bare calls are: where cores share what they compute with, two cost more seconds each.
            _, total = batch(folder / label, folder / f"{label}.sqlite", 1)
            calls, bare_cpu = bare_cost(made, folder / f"{label}.pickle")
            print(
                f"(a) computing time  {label:5}  batch {total:.1f} s   bare {calls} calls {bare_cpu:.1f} s   ratio {total / bare_cpu:.2f}",
                flush=True,
            )
            if kinds == KINDS:
                submissions = made
        wall, _ = batch(folder / "all", folder / "b.sqlite", jobs)
        files = pytest_files(submissions[: max(20, count // 5)], folder)
        started = time.perf_counter()
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(run_pytest, files))
        theirs = len(files) / (time.perf_counter() - started)
        ours = count / wall
        print(f"(b) per second      batch {ours:.1f}   pytest {theirs:.2f}   ratio {ours / theirs:.1f}")
        for size in (count // 4, count // 2, count, 2 * count):
            inner = folder / f"class{size}"
            hand_in(inner, size)
            _, spent = batch(inner, folder / f"{size}.sqlite", jobs)
            print(f"(c) {size:4} submissions  {spent:.1f} s of computing time, {1000 * spent / size:.0f} ms each")


if __name__ == "__main__":
    main()
