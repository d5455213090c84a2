"""The process that imports the framework once and forks workers from it; also a worker started by exec.

It never sees a reference, an expected value or a seed: a submission is a fork of it.
Run as ``zygote MODE FRAMEWORK FD`` by `grader.sandbox.runner`; MODE is ``fork`` (FD is the control socket) or
``exec`` (FD is a pipe with one line of JSON: what a spawn message would say, with file descriptors by number).
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from grader.sandbox import forbidden, isolation, linux

# Forking after a threaded matmul hangs the child; with one thread there is no pool to lose. These must stand in
# the environment before NumPy or torch is imported (the runner sets them; this is the second lock on the door).
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

CONTROL_BYTES = 1 << 16


def warm_up(framework: str) -> dict[str, str]:
    """Import what submissions import, run one small computation, and return the versions.

    Nothing is collected meanwhile, and what is there afterwards never is: an import makes a million objects that stay, and
    to look for garbage among them takes a fifth of its time; a collection in a worker would copy their pages.
    """
    import gc

    gc.disable()
    try:
        return _import(framework)
    finally:
        gc.freeze()
        gc.enable()


def _import(framework: str) -> dict[str, str]:
    import collections  # noqa: F401
    import dataclasses  # noqa: F401
    import difflib  # noqa: F401
    import functools  # noqa: F401
    import inspect  # noqa: F401
    import linecache  # noqa: F401
    import traceback  # noqa: F401
    import typing  # noqa: F401

    import numpy as np
    import numpy.random

    import grader.worker.host
    import grader.worker.memory

    versions = {"numpy": np.__version__}
    small = np.ones((2, 2))
    _ = small @ small
    if framework == "torch":
        import torch
        import torch.nn.functional as F

        import grader.worker.autograd
        import grader.worker.device  # noqa: F401

        with torch.no_grad():
            for dtype in (torch.float64, torch.float32):
                x = torch.ones(2, 2, dtype=dtype)
                _ = torch.softmax(x @ x, dim=-1)
                _ = F.embedding(torch.zeros(1, dtype=torch.long), x)
        versions["torch"] = torch.__version__
    return versions


Readable = tuple[tuple[str, ...], tuple[str, ...]]


def find_readable() -> Readable:
    """Paths that a submission may read, and folders whose names it may list."""
    return isolation.default_read_paths(), isolation.default_list_paths()


def become_worker(
    spec: dict[str, Any],
    requests: int,
    replies: int,
    output: int,
    parent: int | None,
    readable: Readable | None = None,
    prepared: int | None = None,
) -> None:
    """Turn this process into a worker and serve until the grader closes the pipe. Never returns.

    ``prepared`` are the file rules that go with ``readable``, from `isolation.prepare`.
    """
    status = 0
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdin = open(0, closefd=False)
        sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
        sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(signum, signal.SIG_DFL)
        from grader.worker.host import Host, Pipe

        applied: dict[str, Any] = {}
        read_paths: tuple[str, ...] | None = None
        if spec.get("policy") is not None:
            read_paths, list_paths = readable or find_readable()
            rules = {"read_paths": read_paths, "list_paths": list_paths, **spec["policy"]}
            policy = isolation.Policy.from_dict(rules)
            own = policy.scratch is not None or (policy.read_paths, policy.list_paths) != (read_paths, list_paths)
            applied = isolation.lock(policy, (0, 1, 2, requests, replies), parent, None if own else prepared).to_dict()
            if policy.layers != "off":
                forbidden.watch(policy.scratch)
        elif linux.SUPPORTED:
            # Without a lock no limit of its own ends it: it must not outlive its zygote.
            linux.die_with_parent()
        pipe = Pipe(requests, replies)
        pipe.send({"ready": True, "applied": applied, "versions": spec.get("versions", {})})
        Host(pipe, read_paths).serve()
    except BaseException as error:
        status = 70
        try:
            os.write(2, f"worker failed: {type(error).__name__}: {error}\n".encode("utf-8", "replace"))
        except OSError:
            pass
    finally:
        # No atexit handler, no destructor of the submission's runs on the way out.
        os._exit(status)


def serve(framework: str, control: socket.socket, entered: tuple[str, ...] = ()) -> None:
    """Answer spawn requests until the grader closes its end; then take every worker along."""
    started = time.perf_counter()
    versions = warm_up(framework)
    _say(control, {"ready": True, "versions": versions, "import_s": time.perf_counter() - started, "entered": entered})
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    os.set_blocking(wake_read, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, int] = {}
    # Found once: every worker of this zygote may read the same.
    readable_paths = find_readable()
    prepared = isolation.prepare(*readable_paths)
    # Not select(), which knows no descriptor above 1023: the control socket has the number that the grader gave it.
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wake_read, select.POLLIN)
    while True:
        ready = [fd for fd, _ in poll.poll()]
        if wake_read in ready:
            try:
                os.read(wake_read, 512)
            except BlockingIOError:
                pass
            _reap(control, children)
        if control.fileno() in ready:
            message, fds = _hear(control)
            if message is None:
                break
            if "spawn" in message:
                _spawn(control, message, fds, children, (wake_read, wake_write), readable_paths, prepared)
    for pid in children:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    os._exit(0)


def _spawn(
    control: socket.socket,
    message: dict[str, Any],
    fds: list[int],
    children: dict[int, int],
    own: tuple[int, int],
    readable_paths: Readable,
    prepared: int | None,
) -> None:
    requests, replies, output = fds
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        _say(control, {"failed": message["spawn"], "reason": str(error)})
        for fd in fds:
            os.close(fd)
        return
    if pid == 0:
        signal.set_wakeup_fd(-1)
        control.close()
        for fd in own:
            os.close(fd)
        become_worker(message, requests, replies, output, parent, readable_paths, prepared)
    for fd in fds:
        os.close(fd)
    children[pid] = message["spawn"]
    pidfd = os.pidfd_open(pid)
    try:
        socket.send_fds(control, [json.dumps({"spawned": message["spawn"], "pid": pid}).encode()], [pidfd])
    finally:
        os.close(pidfd)


def _reap(control: socket.socket, children: dict[int, int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        # As pid 1 of a namespace this process also reaps orphans it never started.
        number = children.pop(pid, None)
        if number is not None:
            _say(control, {"exited": number, "status": os.waitstatus_to_exitcode(status)})


def _hear(control: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    data, fds, _, _ = socket.recv_fds(control, CONTROL_BYTES, 4)
    return (json.loads(data) if data else None), list(fds)


def _say(control: socket.socket, message: dict[str, Any]) -> None:
    try:
        control.send(json.dumps(message).encode())
    except OSError:
        os._exit(0)


def main(arguments: list[str]) -> None:
    mode, framework, number, isolate = arguments[0], arguments[1], int(arguments[2]), arguments[3] == "isolate"
    _forget_checkout()
    if mode == "exec":
        if linux.SUPPORTED:
            # A worker without a lock, which a reference has, would compute on when its grader is killed.
            linux.die_with_parent()
        with os.fdopen(number, "r", encoding="utf-8") as pipe:
            spec = json.loads(pipe.readline())
        spec["versions"] = warm_up(framework)
        become_worker(spec, spec["requests"], spec["replies"], spec["output"], None)
    control = socket.socket(fileno=number)
    entered: tuple[str, ...] = ()
    if isolate:
        inside = isolation.enter_namespaces()
        if inside.names:
            # Only a child lives in the new pid namespace; as its pid 1 it takes every process there along when it dies.
            child = os.fork()
            if child:
                control.close()
                os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
        entered = isolation.settle(inside).names
    serve(framework, control, entered)


def _forget_checkout() -> None:
    """Take folders that hold references off the path: a submission shall not import what it cannot read."""
    sys.path[:] = [entry for entry in sys.path if entry and not os.path.isdir(os.path.join(entry, "reference"))]
