"""Workers from outside, by fork and by exec: limits, output, exit statuses, callbacks, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT

from grader.errors import GraderFault
from grader.lockdown import policy
from grader.sandbox.launch import environment, launch
from grader.sandbox.protocol import Array, Function
from grader.sandbox.runner import KEPT_OUTPUT, ExecRunner, Fault, ForkRunner, Limits, Reply, Runner, Worker, make_runner

WAYS = ("fork", "exec")
PATIENT = Limits.of(30)


@pytest.fixture(scope="module", params=WAYS)
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    made = make_runner(request.param, "numpy")
    made.wait_ready()
    yield made
    made.close()


Hosted = Callable[[str], Worker]


@pytest.fixture
def host(runner: Runner) -> Iterator[Hosted]:
    """Starts workers, each with a function ``f`` of one argument loaded, and closes them afterwards."""
    started: list[Worker] = []

    def start(body: str, locked: bool = True) -> Worker:
        worker = runner.spawn(policy("auto", Limits.of(5, 512)) if locked else None)
        started.append(worker)
        assert worker.wait_ready() is None
        source = "import os, signal, sys, time\nimport numpy as np\n" + textwrap.dedent(body)
        header = {"op": "load", "filename": "f.py", "module": "f", "function": "f", "arguments": 1}
        reply = worker.request(header, blobs=[source.encode()], limits=PATIENT)
        assert isinstance(reply, Reply) and reply.header["loaded"], reply
        return worker

    yield start
    for worker in started:
        worker.close()


def call(worker: Worker, value: Any = 1, limits: Limits = PATIENT, answer: Any = None) -> Reply | Fault:
    return worker.request({"op": "call", "id": 7, "mode": "plain"}, {"args": (value,)}, limits=limits, answer=answer)


def result(reply: Reply | Fault) -> Any:
    assert isinstance(reply, Reply), reply
    assert (reply.header["id"], reply.header["status"]) == (7, "returned"), reply.header
    return reply.value()["result"]


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


def wait_until(happens: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not happens() and time.monotonic() < deadline:
        time.sleep(0.02)
    return happens()


# --- calls ------------------------------------------------------------------------------------------------------------


def test_a_call_and_its_result(host: Hosted) -> None:
    worker = host("def f(x):\n    return {'twice': x * 2, 'pid': os.getpid()}\n")
    array = Array("ndarray", "float32", np.arange(6, dtype=np.float32).reshape(2, 3))
    for _ in range(3):
        got = result(call(worker, array))
        assert np.array_equal(got["twice"].raw, array.raw * 2) and got["twice"].dtype == "float32"
    assert worker.alive


def test_large_arguments_and_results_cross(host: Hosted) -> None:
    worker = host("def f(x):\n    return x + 1\n")
    big = Array("ndarray", "float64", np.arange(2_000_000, dtype=np.float64))
    assert np.array_equal(result(call(worker, big)).raw, big.raw + 1)


def test_an_exception_leaves_the_worker_alive(host: Hosted) -> None:
    worker = host("def f(x):\n    return [1, 2][x]\n")
    reply = call(worker, 5)
    assert isinstance(reply, Reply) and reply.header["status"] == "raised"
    assert reply.header["error"]["type"] == "IndexError" and reply.header["error"]["frames"][-1]["line"] == 4
    assert result(call(worker, 1)) == 2


def test_functions_handed_in_are_answered_by_the_grader(host: Hosted) -> None:
    worker = host("def f(g):\n    return [g(1, 2), g(np.arange(3))]\n")
    asked: list[Any] = []

    def answer(name: str, args: Any) -> Any:
        asked.append((name, [item.raw.tolist() if isinstance(item, Array) else item for item in args]))
        return len(asked)

    assert result(call(worker, Function("g"), answer=answer)) == [1, 2]
    assert asked == [("g", [1, 2]), ("g", [[0, 1, 2]])]

    def refuse(name: str, args: Any) -> Any:
        raise ValueError("not with this")

    reply = call(worker, Function("g"), answer=refuse)
    assert isinstance(reply, Reply) and reply.header["error"]["message"] == "not with this"
    assert result(call(worker, Function("g"), answer=lambda name, args: 5)) == [5, 5]


def test_a_call_of_nothing_handed_in_is_garbled(host: Hosted) -> None:
    worker = host("def f(g):\n    return g(1)\n")
    reply = call(worker, Function("g"))
    assert isinstance(reply, Fault) and reply.kind == "garbled" and not worker.alive


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "loop",
    ["while True: pass", "while True:\n        try:\n            while True: pass\n        except BaseException: pass"],
)
def test_computing_time_ends(loop: str, host: Hosted) -> None:
    worker = host(f"def f(x):\n    {loop}\n")
    reply = call(worker, limits=Limits(0.3, 60))
    assert isinstance(reply, Fault) and (reply.kind, reply.detail) == ("timeout", "0.3 s of computing time")
    assert not worker.alive and gone(worker.pid)


@pytest.mark.parametrize("wait", ["time.sleep(1000)", "os.kill(os.getpid(), signal.SIGSTOP)"])
def test_waiting_ends_too(wait: str, host: Hosted) -> None:
    worker = host(f"def f(x):\n    {wait}\n")
    reply = call(worker, limits=Limits(30, 0.5))
    # Under seccomp a signal to itself may be refused; then nothing waits, and the worker lives.
    if isinstance(reply, Reply):
        assert "SIGSTOP" in wait
        return
    assert (reply.kind, reply.detail) == ("timeout", "0.5 s")
    assert gone(worker.pid)


def test_memory_ends(host: Hosted) -> None:
    worker = host(
        "def f(x):\n    kept = []\n    while True:\n        kept.append(np.ones(1 << 20))\n        time.sleep(0.005)\n",
        locked=False,
    )
    reply = call(worker, limits=Limits(30, 60, 64 << 20))
    assert isinstance(reply, Fault) and (reply.kind, reply.detail) == ("memory", "64 MB")
    assert gone(worker.pid)


def test_a_reply_beyond_its_cap_is_not_read(host: Hosted) -> None:
    worker = host("def f(x):\n    return np.zeros(x)\n")
    assert result(call(worker, 1000, Limits(30, 60, reply_bytes=8000))).shape == (1000,)
    reply = call(worker, 1001, Limits(30, 60, reply_bytes=8000))
    assert isinstance(reply, Fault) and reply.kind == "too_large" and not worker.alive


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "kind", "detail", "status"),
    [
        ("os._exit(0)", "exited", "exit status 0", 0),
        ("os._exit(3)", "exited", "exit status 3", 3),
        ("__import__('ctypes').string_at(0)", "signal", "SIGSEGV", -11),
        ("os.abort()", "signal", "SIGABRT", -6),
    ],
)
def test_how_a_worker_ended_is_the_kernels_word(end: str, kind: str, detail: str, status: int, host: Hosted) -> None:
    worker = host(f"def f(x):\n    {end}\n")
    reply = call(worker)
    assert isinstance(reply, Fault), reply
    assert (reply.kind, reply.detail, reply.status) == (kind, detail, status)
    assert not worker.alive
    again = call(worker)
    assert isinstance(again, Fault) and again.kind == "exited"


def test_a_closed_pipe_is_an_end(host: Hosted) -> None:
    worker = host("def f(x):\n    os.closerange(3, 64)\n    time.sleep(1000)\n")
    reply = call(worker)
    assert isinstance(reply, Fault) and (reply.kind, reply.detail) == ("exited", "closed its reply pipe")
    assert gone(worker.pid)


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        ("b'\\xff' * 12", "too_large"),
        ("struct.pack('>IQ', 3, 0) + b'abc'", "garbled"),
        ("struct.pack('>IQ', 2, 0) + b'{}'", "garbled"),
        ("struct.pack('>IQ', 12, 0) + b'{\"sizes\": []'", "garbled"),
        ('struct.pack(\'>IQ\', 34, 0) + b\'{"callback": "g", "sizes": [], "x"\'', "garbled"),
    ],
)
def test_a_forged_frame_ends_the_worker(frame: str, kind: str, host: Hosted) -> None:
    body = f"""
    import struct
    def f(x):
        frame = {frame}
        for fd in range(3, 64):
            try:
                os.write(fd, frame)
            except OSError:
                pass
        os._exit(0)
    """
    reply = call(host(body))
    assert isinstance(reply, Fault) and reply.kind == kind


# --- output -----------------------------------------------------------------------------------------------------------


def test_what_is_printed_is_kept_up_to_a_cap(host: Hosted) -> None:
    worker = host("def f(x):\n    print('a' * x)\n    print('err', file=sys.stderr)\n    return x\n")
    assert result(call(worker, 3)) == 3
    assert worker.take_output() == b"aaa\nerr\n" and worker.take_output() == b""
    size = KEPT_OUTPUT + 5000
    result(call(worker, size))
    text = worker.take_output()
    assert len(text) == KEPT_OUTPUT and text.startswith(b"aaaa")
    assert worker.dropped_output == size + 1 + len("err\n") - KEPT_OUTPUT
    assert worker.take_output() == b""


def test_endless_output_ends_with_the_time_and_costs_no_memory(host: Hosted) -> None:
    worker = host("def f(x):\n    while True:\n        os.write(1, b'x' * 65536)\n")
    reply = call(worker, limits=Limits(0.5, 60))
    assert isinstance(reply, Fault) and reply.kind == "timeout"
    assert len(worker.take_output()) == KEPT_OUTPUT and worker.dropped_output > 0


def test_nothing_is_read_from_a_worker_that_was_closed(host: Hosted) -> None:
    """Its descriptor's number may belong to another file by then, and reading there would steal or block."""
    worker = host("def f(x):\n    print('last words')\n    os._exit(1)\n")
    before = set(os.listdir("/proc/self/fd"))
    assert isinstance(call(worker), Fault)
    freed = before - set(os.listdir("/proc/self/fd"))
    assert len(freed) >= 3
    pairs = [os.pipe() for _ in range(6)]
    try:
        for _, write in pairs:
            os.write(write, b"not yours")
        assert worker.take_output() == b"last words\n"
        assert worker.take_output() == b""
        assert all(os.read(read, 100) == b"not yours" for read, _ in pairs)
    finally:
        for read, write in pairs:
            os.close(read)
            os.close(write)


# --- nothing is left ---------------------------------------------------------------------------------------------------


def test_closing_kills_at_once_and_twice_is_once(host: Hosted) -> None:
    worker = host("def f(x):\n    return x\n")
    assert worker.alive
    worker.close()
    worker.close()
    assert not worker.alive and wait_until(lambda: gone(worker.pid))
    assert isinstance(call(worker), Fault)


def test_no_descriptor_is_leaked(runner: Runner, host: Hosted) -> None:
    bodies = ["def f(x):\n    return x\n", "def f(x):\n    os._exit(0)\n", "def f(x):\n    return np.zeros(1000)\n"]
    host(bodies[0]).close()
    before = sorted(os.listdir("/proc/self/fd"))
    for body in bodies:
        for _ in range(2):
            worker = host(body)
            call(worker, limits=Limits(30, 60, reply_bytes=100))
            worker.close()
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_worker_holds_only_its_own_descriptors(host: Hosted) -> None:
    other = host("def f(x):\n    return x\n")
    worker = host("def f(x):\n    return x\n")
    held = os.listdir(f"/proc/{worker.pid}/fd")
    assert len(held) <= 6, held
    assert other.alive


@pytest.mark.parametrize("way", WAYS)
def test_closing_a_runner_ends_every_process(way: str) -> None:
    made = make_runner(way, "numpy")
    workers = [made.spawn(None) for _ in range(2)]
    assert all(worker.wait_ready() is None for worker in workers)
    pids = [worker.pid for worker in workers]
    if isinstance(made, ExecRunner):
        # It starts no process of its own; each worker is closed by whoever asked for it.
        for worker in workers:
            worker.close()
    zygote = made._process.pid if isinstance(made, ForkRunner) else None
    made.close()
    made.close()
    assert wait_until(lambda: all(gone(pid) for pid in [*pids, *([zygote] if zygote else [])]))
    for worker in workers:
        worker.close()


GRADER = """
import sys, time
sys.path.insert(0, {root!r})
from grader.lockdown import policy
from grader.sandbox.runner import Limits, make_runner
made = make_runner({way!r}, "numpy", isolate={locked!r})
workers = []
for body in ("return x", "return x"):
    worker = made.spawn(policy("auto", Limits.of(5)) if {locked!r} else None)
    assert worker.wait_ready() is None
    source = ("def f(x):\\n    while x: pass\\n").encode()
    worker.request({{"op": "load", "filename": "f.py", "module": "f", "function": "f", "arguments": 1}}, blobs=[source])
    workers.append(worker)
print(*(worker.pid for worker in workers), *([made._process.pid] if hasattr(made, "_process") else []), flush=True)
# The second computes without end when its grader dies.
workers[1].request({{"op": "call", "id": 0, "mode": "plain"}}, {{"args": (1,)}}, limits=Limits(600, 600))
"""


@pytest.mark.parametrize("locked", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_a_killed_grader_leaves_no_worker(way: str, locked: bool) -> None:
    script = GRADER.format(root=str(ROOT), way=way, locked=locked)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None
    pids = [int(word) for word in process.stdout.readline().split()]
    assert len(pids) >= 2
    time.sleep(0.3)
    assert not any(map(gone, pids))
    process.kill()
    process.wait()
    process.stdout.close()
    left = [] if wait_until(lambda: all(map(gone, pids))) else [pid for pid in pids if not gone(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


# --- starting ---------------------------------------------------------------------------------------------------------


def test_versions_and_import_time_are_told() -> None:
    made = make_runner("fork", "numpy")
    try:
        made.wait_ready()
        assert made.versions["numpy"] == np.__version__ and made.import_seconds > 0 and not made.died
    finally:
        made.close()


def test_a_dead_zygote_is_the_graders_own_fault() -> None:
    made = ForkRunner(launch("numpy", isolate=False))
    made.wait_ready()
    before = sorted(os.listdir("/proc/self/fd"))
    made._process.kill()
    made._process.wait()
    with pytest.raises(GraderFault, match="process that starts workers"):
        made.spawn(None)
    assert made.died
    assert sorted(os.listdir("/proc/self/fd")) == before
    made.close()


def test_a_worker_sees_nothing_of_the_callers_environment(host: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    assert "SECRET_TOKEN" not in environment()
    got = result(call(host("def f(x):\n    return dict(os.environ)\n")))
    assert got["OMP_NUM_THREADS"] == "1" and not any("SECRET" in key for key in got)


def test_the_wall_limit_is_wider_than_the_computing_time() -> None:
    limits = Limits.of(5, 100)
    assert (limits.cpu_seconds, limits.wall_seconds, limits.memory_bytes) == (5, 20, 100 << 20)
