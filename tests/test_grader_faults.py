"""What is not the student's fault: a reference that fails, processes that die, disks that are full. A true report, never a zero."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import ordinary_user
import pytest
from conftest import BIN, ROOT, Command, Ran
from soaking import children

from grader import cases
from grader.grade import Options, grade
from grader.lockdown import Lockdown
from grader.oracle import ReferenceOracle
from grader.sandbox.runner import Limits, Runner, make_runner
from grader.spec import load
from grader.spec.exercise import Exercise
from grader.spec.library import find_library
from grader.submission import read_submission

SCHEMA = json.loads((ROOT / "grader" / "reports" / "report.schema.json").read_text())
RIGHT = ROOT / "fixtures" / "softmax" / "right" / "shifted_keepdims.py"
WRONG = ROOT / "fixtures" / "softmax" / "wrong" / "one_maximum.py"
HEAD = "def softmax(x, axis):\n"
PLAIN = (
    "import numpy as np\n\n\n"
    + HEAD
    + "    e = np.exp(x - x.max(axis=axis, keepdims=True))\n    return e / e.sum(axis=axis, keepdims=True)\n"
)


def library(folder: Path, solution: str | None, misconceptions: str | None = None, limit: float = 0.5) -> list[str]:
    """A library with one exercise, softmax, and the options that name it."""
    home = folder / "library" / "exercises" / "attention"
    shutil.copytree(ROOT / "exercises" / "attention" / "softmax", home / "softmax")
    path = home / "softmax" / "exercise.yaml"
    path.write_text(path.read_text() + f"\nlimits: {{time: {limit}, memory: 512}}\n")
    hidden = folder / "library" / "reference" / "attention" / "softmax"
    hidden.mkdir(parents=True)
    if solution is not None:
        (hidden / "solution.py").write_text(solution)
    if misconceptions is not None:
        (hidden / "misconceptions.yaml").write_text(misconceptions)
    return ["--exercises", str(home.parent), "--reference", str(hidden.parent.parent)]


def held(ran: Ran) -> dict[str, Any]:
    report = ran.report()
    jsonschema.validate(report, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert "Traceback" not in ran.out + ran.err
    return report


def not_graded(ran: Ran) -> str:
    """The reason, of a report that gives no score and blames nobody's answer."""
    report = held(ran)
    assert ran.code == 3
    assert (report["status"], report["passed"], report["score"]) == ("not_graded", False, None)
    assert {check["verdict"] for check in report["checks"]} == {"grader_error"}
    reason = report["reason"]
    assert isinstance(reason, str)
    return reason


CALL = "def softmax(x, axis):\n    "
ABSURD = "def softmax(x, axis):\n    import numpy as np\n    return "


@pytest.mark.parametrize(
    ("solution", "says"),
    [
        (CALL + "raise ValueError('unfinished')", "ValueError: unfinished"),
        ("raise ValueError('unfinished')", "cannot be loaded: ValueError"),
        ("def softmax(x, axis) return x", "cannot be loaded"),
        ("import no_such_module", "cannot be loaded"),
        ("def other(x, axis):\n    return x", "cannot be loaded"),
        (CALL + "while True: pass", "more than 2 s of computing time"),
        ("while True: pass", "cannot be loaded: it takes more than"),
        (CALL + "import time; time.sleep(3600)", "it takes more than"),
        (CALL + "import os; os._exit(0)", "ends its process"),
        (CALL + "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended by SIGKILL"),
        (CALL + "import ctypes; ctypes.string_at(0)", "ended by SIGSEGV"),
        (CALL + "return None", "returns None"),
        (CALL + "return 'text'", "returns a str"),
        (CALL + "return x.tolist()", "returns a list"),
        (CALL + "return object()", "returns a object"),
        (CALL + "return x.astype(complex)", "complex128"),
        (CALL + "return x.astype(object)", "object"),
        (ABSURD + "np.ones((1 << 36,))", "allocate"),
    ],
)  # fmt: skip
def test_a_reference_that_fails(command: Command, tmp_path: Path, solution: str, says: str) -> None:
    options = library(tmp_path, solution)
    reason = not_graded(command("grade", "softmax", RIGHT, "--json", "-", *options, timeout=150))
    assert "the reference of `softmax`" in reason and says in reason


@pytest.mark.parametrize("way", ["fork", "exec"])
def test_a_reference_is_locked_in_as_well(command: Command, tmp_path: Path, way: str) -> None:
    """The exercise may be a stranger's: found in the folder in which a submission is graded, or above it."""
    loot, secret = tmp_path / "loot", tmp_path / "secret"
    loot.mkdir(mode=0o777)
    loot.chmod(0o777)
    secret.write_text("mine")
    act = f"open({str(loot / 'x')!r}, 'w').write(open({str(secret)!r}).read())"
    for patched in (False, True):
        source = PLAIN if patched else PLAIN.replace(HEAD, f"{HEAD}    {act}\n")
        patch = json.dumps({"find": "    e =", "replace": f"    {act}\n    e ="})
        listed = f"schema: 1\nmisconceptions:\n  - {{id: writes, says: it writes., patch: [{patch}]}}\n"
        options = library(tmp_path / str(patched), source, listed if patched else None)
        ran = command("grade", "softmax", WRONG, "--json", "-", "--runner", way, *options)
        assert ran.code == (1 if patched else 3)
        assert held(ran)["diagnoses"] == []
        assert not list(loot.iterdir())


def test_a_reference_that_is_missing(command: Command, tmp_path: Path) -> None:
    options = library(tmp_path, None)
    assert "is missing" in not_graded(command("grade", "softmax", RIGHT, "--json", "-", *options))
    ran = command("grade", "softmax", RIGHT, *options)
    assert ran.code == 3 and "not yours" in ran.out


# --- misconceptions ---------------------------------------------------------------------------------------------------

GOOD = """schema: 1
misconceptions:
  - id: one_maximum
    says: The maximum is taken over everything.
    patch:
      - {find: "x.max(axis=axis, keepdims=True)", replace: "x.max()"}
"""
BROKEN = {
    "nothing": (GOOD, 1),
    "no_yaml": ("misconceptions: [", 0),
    "unknown_key": (GOOD.replace("says:", "say:"), 0),
    "no_match": (GOOD.replace("x.max(axis=axis", "y.max(axis=axis"), 0),
    "one_of_two": (
        GOOD + "  - {id: gone, says: Gone., patch: [{find: not there, replace: x}]}\n"
        "  - {id: cut, says: Cut., patch: [{find: 'return', replace: 'return ('}]}\n"
        "  - {id: stuck, says: Stuck., patch: [{find: '    e = ', replace: \"    while True: pass\\n    e = \"}]}\n",
        1,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_misconceptions_cost_a_diagnosis_and_no_grade(command: Command, tmp_path: Path, name: str) -> None:
    """A student's file is graded without them; `grader lint` is who tells the author."""
    text, found = BROKEN[name]
    options = library(tmp_path, PLAIN, text)
    assert held(command("grade", "softmax", RIGHT, "--json", "-", *options))["passed"]
    ran = command("grade", "softmax", WRONG, "--json", "-", "--seed", "1", *options)
    report = held(ran)
    assert (ran.code, report["status"], report["passed"]) == (1, "graded", False)
    assert len(report["diagnoses"]) == found
    if name in ("no_yaml", "no_match"):
        lint = command("grader", "lint", "softmax", *options, "--quick")
        assert lint.code in (1, 2) and "misconceptions.yaml" in lint.out + lint.err
        assert name == "no_yaml" or "no longer matches" in lint.out + lint.err
        assert "Traceback" not in lint.out + lint.err


# --- processes that die -----------------------------------------------------------------------------------------------

SLEEPS = "import time\n\nimport numpy as np\n\n\ndef softmax(x, axis):\n    time.sleep(0.15)\n    e = np.exp(x - x.max(axis=axis, keepdims=True))\n    return e / e.sum(axis=axis, keepdims=True)\n"


def zygote_at_work(pid: int, seconds: float = 60) -> int:
    """The process that has forked workers for the command ``pid``; waits until it has two."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for child in children(pid):
            for inner in [child, *children(child)]:
                if len(children(inner)) >= 2:
                    return inner
        time.sleep(0.01)
    raise AssertionError("no zygote was seen at work")


@contextmanager
def grading(tmp_path: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    answer = tmp_path / "softmax.py"
    answer.write_text(SLEEPS)
    process = subprocess.Popen(
        [str(BIN / "grade"), "softmax", str(answer), "--json", "-", "--seed", "1", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=tmp_path,
        env={**os.environ, "TENSORGRADE_STATE": str(tmp_path / "state.json")},
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def finished(process: subprocess.Popen[bytes]) -> Ran:
    out, err = process.communicate(timeout=240)
    return Ran(process.returncode, out.decode(), err.decode())


linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a zygote")


@linux
def test_a_zygote_that_is_killed_is_started_once_more(tmp_path: Path) -> None:
    with grading(tmp_path) as process:
        os.kill(zygote_at_work(process.pid), signal.SIGKILL)
        ran = finished(process)
    report = held(ran)
    assert ran.code == 0 and report["passed"], report.get("reason")


@linux
def test_a_zygote_that_is_killed_twice_is_the_graders_fault(tmp_path: Path) -> None:
    with grading(tmp_path) as process:
        first = zygote_at_work(process.pid)
        os.kill(first, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while (second := zygote_at_work(process.pid)) == first and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(second, signal.SIGKILL)
        ran = finished(process)
    assert "starts workers" in not_graded(ran)


@linux
def test_nothing_is_left_of_a_grader_that_is_killed(tmp_path: Path) -> None:
    with grading(tmp_path) as process:
        zygote = zygote_at_work(process.pid)
        family = [zygote, *children(zygote)]
        process.kill()
        process.wait()
        deadline = time.monotonic() + 20
        while any(Path(f"/proc/{pid}").exists() for pid in family) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not [pid for pid in family if Path(f"/proc/{pid}").exists()]


@linux
@pytest.mark.parametrize("way", ["fork", "exec"])
def test_a_reference_does_not_outlive_a_grader_that_is_killed(tmp_path: Path, way: str) -> None:
    """One that computes for ever notices no closed pipe."""
    options = library(tmp_path, CALL + "while True: pass", limit=100)
    with grading(tmp_path, "--runner", way, *options) as process:
        deadline = time.monotonic() + 60
        family: list[int] = []
        while not family and time.monotonic() < deadline:
            family = [pid for pid in offspring(process.pid) if computing(pid) > 2.5]
            time.sleep(0.02)
        assert family, "nothing was seen computing"
        process.kill()
        process.wait()
        deadline = time.monotonic() + 20
        while any(Path(f"/proc/{pid}").exists() for pid in family) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not [pid for pid in family if Path(f"/proc/{pid}").exists()]


def offspring(pid: int) -> list[int]:
    found = children(pid)
    return [*found, *(inner for child in found for inner in offspring(child))]


def computing(pid: int) -> float:
    """Seconds that a process has computed so far."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def exercise_in(folder: Path, solution: str, limit: float = 0.5) -> Exercise:
    library(folder, solution, limit=limit)
    root = folder / "library"
    return load.load(find_library(root / "exercises", root / "reference"), "softmax")


@pytest.mark.parametrize("way", ["fork", "exec"])
def test_a_reference_worker_that_is_killed_is_started_once_more(tmp_path: Path, way: str) -> None:
    slow = PLAIN.replace(HEAD, HEAD + "    import time; time.sleep(0.3)\n")
    exercise = exercise_in(tmp_path, slow)
    runner = make_runner(way, "numpy")
    oracle = ReferenceOracle(runner, exercise)
    try:
        case = cases.draw(exercise, "random", 0, 3)
        oracle.raw(case, "float64")
        oracle.prefetch([(case, "float64")])
        time.sleep(0.1)
        assert oracle._worker is not None
        os.kill(oracle._worker.pid, signal.SIGKILL)
        assert oracle.expected(case, "float64").leaves
    finally:
        oracle.close()
        runner.close()


def test_a_hopeless_reference_is_asked_once(tmp_path: Path) -> None:
    """Thirty calls wait for it; each would cost its whole limit."""
    exercise = exercise_in(tmp_path, CALL + "while True: pass")
    runner = make_runner("fork", "numpy")
    oracle = ReferenceOracle(runner, exercise, limits=Limits(0.3, 5.0))
    asked: list[str] = []
    spawn = runner.spawn
    runner.spawn = lambda policy: asked.append("worker") or spawn(policy)  # type: ignore[method-assign,func-returns-value]
    try:
        report = grade(exercise, read_submission(RIGHT), runner, Options(seed=1), oracle)
    finally:
        oracle.close()
        runner.close()
    assert report.status == "not_graded" and report.reason is not None and "0.3 s of computing time" in report.reason
    # One for the submission, one for the reference.
    assert len(asked) == 2


# --- limits and load --------------------------------------------------------------------------------------------------


@contextmanager
def busy(count: int = 2) -> Iterator[None]:
    """Both cores busy elsewhere."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


HEAVY = """import numpy as np


def softmax(x, axis):
    a = np.random.default_rng(0).standard_normal((160, 160))
    for _ in range(8):
        a = np.linalg.svd(a)[0]
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
"""


def test_on_a_busy_machine_right_submissions_pass(command: Command, tmp_path: Path) -> None:
    (tmp_path / "softmax.py").write_text(HEAVY)
    with busy(4):
        ran = command("grade", "softmax", "--json", "-", "--cases", "3")
    report = held(ran)
    assert report["passed"], [check["message"] for check in report["checks"] if check["verdict"] != "pass"]


def test_sleeping_is_a_time_out_though_it_costs_no_computing_time(command: Command, tmp_path: Path) -> None:
    (tmp_path / "softmax.py").write_text("import time\n\n\ndef softmax(x, axis):\n    time.sleep(3600)\n")
    report = held(command("grade", "softmax", "--json", "-", "--time-limit", "0.2"))
    first = report["checks"][0]
    assert (first["verdict"], first["cause"]) == ("timeout", "time_limit")
    assert "5.6 s" in first["message"]


BURNS = "    import time\n    started = time.process_time()\n    while time.process_time() - started < {}: pass\n"


def test_a_slow_reference_widens_the_limit(command: Command, tmp_path: Path) -> None:
    """A limit that the machine is too slow for: what the reference itself takes long for is no loop."""
    slow = PLAIN.replace(HEAD, HEAD + BURNS.format(0.02))
    options = library(tmp_path, slow, limit=0.05)
    answer = tmp_path / "answer.py"
    answer.write_text(PLAIN.replace(HEAD, HEAD + BURNS.format(0.15)))
    report = held(command("grade", "softmax", answer, "--json", "-", "--cases", "1", *options))
    assert report["passed"], [check["message"] for check in report["checks"] if check["verdict"] != "pass"]
    # Beyond fifty times what the reference takes it is a time-out after all.
    answer.write_text(PLAIN.replace(HEAD, HEAD + "    while True: pass\n"))
    report = held(command("grade", "softmax", answer, "--json", "-", "--cases", "1", *options))
    assert report["checks"][0]["verdict"] == "timeout"
    # And with a reference that is quick, the narrow limit stands.
    quick = library(tmp_path / "quick", PLAIN, limit=0.05)
    answer.write_text(PLAIN.replace(HEAD, HEAD + BURNS.format(0.4)))
    report = held(command("grade", "softmax", answer, "--json", "-", "--cases", "1", *quick))
    assert report["checks"][0]["verdict"] == "timeout"


@linux
def test_a_grader_that_was_stopped_for_a_while_blames_nobody(tmp_path: Path) -> None:
    """Longer than the wall limit of the call that was being made: its reply is there when the grader goes on."""
    with grading(tmp_path, "--time-limit", "0.05", "--cases", "2") as process:
        zygote_at_work(process.pid)
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(6)
        os.kill(process.pid, signal.SIGCONT)
        ran = finished(process)
    assert ran.code == 0 and held(ran)["passed"]


# --- disks and folders ------------------------------------------------------------------------------------------------


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system without a free byte."""
    folder = tmp_path / "full"
    folder.mkdir()
    mounted = sys.platform == "linux" and os.geteuid() == 0 and (
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(folder)], capture_output=True).returncode == 0
    )  # fmt: skip
    if not mounted:
        pytest.skip("only root can mount a small file system here")
    try:
        with (folder / "filler").open("wb", buffering=0) as file, pytest.raises(OSError):
            while True:
                file.write(bytes(512))
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_leaves_no_half_a_report(command: Command, full_disk: Path) -> None:
    ran = command("grade", "softmax", RIGHT, "--json", full_disk / "report.json")
    assert ran.code == 3
    assert "report.json cannot be written: No space left on device" in ran.err and "next: " in ran.err
    # The verdict is not lost with the file.
    assert "passed" in ran.out and "Traceback" not in ran.err
    assert os.listdir(full_disk) == ["filler"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("options", [["--json", "-"], [], ["--json", "/dev/full"]])
def test_a_full_output_is_said_in_a_sentence(tmp_path: Path, options: list[str]) -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [str(BIN / "grade"), "softmax", str(RIGHT), *options], stdin=subprocess.DEVNULL,
            stdout=full if "/dev/full" not in options else subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            env={**os.environ, "TENSORGRADE_STATE": str(tmp_path / "state.json")},
        )  # fmt: skip
    assert ran.returncode == 3
    assert "cannot be written: No space left on device" in ran.stderr
    assert "Traceback" not in ran.stderr and len(ran.stderr.splitlines()) == 2
    # A device is written to, and not replaced by a file.
    assert not Path("/dev/full").is_file()


def test_a_link_for_a_report_stays_a_link(command: Command, tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    assert command("grade", "softmax", RIGHT, "--json", tmp_path / "link.json").code == 0
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())["passed"]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(tmp_path: Path, closed: str) -> None:
    """What is opened next must not take their place."""
    line = f'"{BIN / "grade"}" softmax "{RIGHT}" --json report.json {closed}'
    environment = {**os.environ, "TENSORGRADE_STATE": str(tmp_path / "state.json")}
    ran = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert json.loads((tmp_path / "report.json").read_text())["passed"]


def test_no_folder_for_temporary_files(command: Command, tmp_path: Path) -> None:
    """TMPDIR names nothing: grading needs no temporary file."""
    ran = command("grade", "softmax", RIGHT, "--json", "-", TMPDIR=str(tmp_path / "missing"))
    assert held(ran)["passed"] and ran.code == 0


def test_an_ordinary_user_who_may_write_nowhere(tmp_path: Path) -> None:
    """Every folder for temporary files is read-only: still graded, and what the probe could not try is said."""
    arguments = [str(BIN / "grade"), "softmax", str(RIGHT), "--json", "-"]
    read_only = [f"mount -t tmpfs -o ro none {folder}" for folder in ("/tmp", "/var/tmp", "/dev/shm")]
    try:
        command = ordinary_user.command(arguments, tmp_path, read_only)
    except LookupError as reason:
        pytest.skip(str(reason))
    done = subprocess.run(command, cwd="/", capture_output=True, stdin=subprocess.DEVNULL, text=True, timeout=240)
    report = held(Ran(done.returncode, done.stdout, done.stderr))
    assert report["passed"] and done.returncode == 0
    assert report["isolation"]["missing"] or report["isolation"]["level"] == "full"


def test_progress_that_cannot_be_kept_is_no_fault(command: Command) -> None:
    ran = command("grade", "softmax", RIGHT, TENSORGRADE_STATE="/proc/nowhere/state.json")
    assert ran.code == 0 and "Traceback" not in ran.err


# --- descriptors ------------------------------------------------------------------------------------------------------


@linux
def test_many_open_descriptors_do_not_disturb_a_zygote(warm: Callable[[str], Runner], tmp_path: Path) -> None:
    """The control socket may then have a number above 1023, which select() does not take."""
    held_open = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        runner = make_runner("fork", "numpy")
        try:
            exercise = exercise_in(tmp_path, PLAIN)
            assert grade(exercise, read_submission(RIGHT), runner, Options(seed=1)).passed
        finally:
            runner.close()
    finally:
        for fd in held_open:
            os.close(fd)


@linux
def test_a_submission_that_ends_after_every_reply_leaves_no_descriptor(
    warm: Callable[[str], Runner], exercise_of: Callable[[str], Exercise], tmp_path: Path
) -> None:
    answer = tmp_path / "answer.py"
    answer.write_text(
        "import os, threading, time\n"
        + PLAIN.replace(
            "    return",
            "    threading.Thread(target=lambda: (time.sleep(0.02), os._exit(0)), daemon=True).start()\n    return",
        )
    )
    exercise, runner = exercise_of("softmax"), warm("numpy")
    lockdown = Lockdown("off")
    grade(exercise, read_submission(RIGHT), runner, Options(seed=1), lockdown=lockdown)
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(3):
        report = grade(exercise, read_submission(answer), runner, Options(seed=1), lockdown=lockdown)
        assert report.status == "graded"
    assert len(os.listdir("/proc/self/fd")) == before
    assert threading.active_count() == threads
