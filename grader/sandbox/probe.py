"""Forbidden acts, each tried in a locked child: a layer holds if every act it should refuse was refused by it.

Started by `grader.sandbox.isolation.probe` as a process of its own. What setting a layer up returned is not believed;
each act is recognised by the error that this layer alone would give.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from grader.sandbox import isolation, linux
from grader.sandbox.isolation import Missing, Policy

LAYERS = ("namespaces", "uid", "capabilities", "descriptors", "landlock", "seccomp", "limits")
_KINDS = ("mnt", "net", "pid", "ipc", "uts")
_BUDGET = 64 << 20
_MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}


@dataclass(frozen=True)
class Scene:
    """What the acts are tried on. ``seen`` is in the private file tree, yet not in the policy; ``hidden`` is in neither."""

    seen: str
    hidden: str
    work: str
    scratch: str
    port: int
    namespaces: dict[str, int]


@dataclass(frozen=True)
class Tried:
    """One act. ``instead`` is None if the layer refused it, else what happened."""

    layer: str
    act: str
    instead: str | None


def main(arguments: list[str]) -> None:
    """``enter`` or ``stay``, and the policy's layers; prints {layers, missing} as JSON."""
    folder = tempfile.mkdtemp(prefix="isolation-")
    listener = socket.create_server(("127.0.0.1", 0))
    try:
        os.chmod(folder, 0o755)
        scene = _build_scene(folder, listener.getsockname()[1])
        tried, missing = _run(scene, enter=arguments[0] == "enter", layers=arguments[1])
        if (
            _read(scene.seen) != "seen"
            or os.stat(scene.seen).st_mode & 0o777 != 0o666
            or os.listdir(scene.work) != ["scratch"]
        ):
            tried.append(Tried("landlock", "leave files outside as they are", "one was changed"))
    finally:
        listener.close()
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(conclude(tried, missing)))


def conclude(tried: list[Tried], missing: list[Missing]) -> dict[str, Any]:
    """Layers whose every act was refused, and for each of the others the reason: the lock's own, or what happened."""
    layers = [name for name in LAYERS if _acts(name, tried) and all(one.instead is None for one in _acts(name, tried))]
    reasons = {one.layer: one for one in missing}
    for name in LAYERS:
        if name not in layers and name not in reasons:
            failed = [f"{one.act}: {one.instead}" for one in _acts(name, tried) if one.instead is not None]
            reasons[name] = Missing(name, "; ".join(failed) or "it was not tried")
    return {"layers": layers, "missing": [asdict(one) for name, one in reasons.items() if name not in layers]}


def _acts(layer: str, tried: list[Tried]) -> list[Tried]:
    return [one for one in tried if one.layer == layer]


def _build_scene(folder: str, port: int) -> Scene:
    scratch = os.path.join(folder, "work", "scratch")
    os.makedirs(scratch)
    for name in (os.path.dirname(scratch), scratch):
        # Open to the user that a worker of root becomes, so that only the lock can refuse what is done there.
        os.chmod(name, 0o777)
    for name in ("seen", "hidden"):
        with open(os.path.join(folder, name), "w") as file:
            file.write(name)
        os.chmod(os.path.join(folder, name), 0o666)
    return Scene(
        os.path.join(folder, "seen"),
        os.path.join(folder, "hidden"),
        os.path.dirname(scratch),
        scratch,
        port,
        {kind: os.stat(f"/proc/self/ns/{kind}").st_ino for kind in _KINDS},
    )


def _run(scene: Scene, *, enter: bool, layers: str) -> tuple[list[Tried], list[Missing]]:
    """Launcher, zygote and worker as they are in earnest; each says what it found through one pipe."""
    reading, writing = os.pipe()
    launcher = os.fork()
    if launcher == 0:
        try:
            os.close(reading)
            _be_launcher(scene, writing, enter=enter, layers=layers)
        except BaseException as error:
            _say(writing, {"missing": asdict(Missing("probe", f"{type(error).__name__}: {error}"))})
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "r", encoding="utf-8") as pipe:
        said = [json.loads(line) for line in pipe]
    os.waitpid(launcher, 0)
    tried = [Tried(**entry["tried"]) for entry in said if "tried" in entry]
    return tried, [Missing(**entry["missing"]) for entry in said if "missing" in entry]


def _be_launcher(scene: Scene, writing: int, *, enter: bool, layers: str) -> None:
    read_paths = isolation.default_read_paths(packages=())
    if enter:
        entered = isolation.enter_namespaces((), also=(scene.seen,), writable=scene.work)
    else:
        entered = isolation.Entered((), None, (Missing("namespaces", "they were not asked for"),))
    for one in entered.missing:
        _say(writing, {"missing": asdict(one)})
    zygote = os.fork()
    if zygote:
        os.waitpid(zygote, 0)
        return
    isolation.settle(entered)
    if entered.names:
        for found in _try_namespaces(scene):
            _say(writing, {"tried": asdict(found)})
    parent = os.getpid()
    worker = os.fork()
    if worker:
        os.waitpid(worker, 0)
        return
    policy = Policy(
        read_paths, isolation.default_list_paths(), scene.scratch, memory_bytes=_BUDGET, cpu_seconds=20, layers=layers
    )
    stray = os.open(os.devnull, os.O_RDONLY)
    applied = isolation.lock(policy, (0, 1, 2, writing), parent)
    for one in applied.missing:
        _say(writing, {"missing": asdict(one)})
    for found in _try_locked(scene, stray, policy, parent):
        _say(writing, {"tried": asdict(found)})


def _try_namespaces(scene: Scene) -> Iterator[Tried]:
    same = [kind for kind in _KINDS if os.stat(f"/proc/self/ns/{kind}").st_ino == scene.namespaces[kind]]
    yield Tried("namespaces", "be in others than the grader", f"the same {', '.join(same)}" if same else None)
    unreachable = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.ECONNREFUSED)
    yield _try("namespaces", "connect to the grader's machine", unreachable, lambda: _connect(scene.port))
    yield _try("namespaces", "open a file outside the view", (errno.ENOENT,), lambda: _read(scene.hidden))
    yield _try("namespaces", "change a file of the view", (errno.EROFS,), lambda: os.open(scene.seen, os.O_WRONLY))


def _try_locked(scene: Scene, stray: int, policy: Policy, parent: int) -> Iterator[Tried]:
    yield Tried("uid", "be root", "it is" if os.getuid() == 0 else None)
    held = [line for line in _read("/proc/self/status").splitlines() if line.startswith(("CapPrm", "CapEff", "CapInh"))]
    some = [line for line in held if int(line.split()[1], 16)]
    yield Tried("capabilities", "hold a capability", ", ".join(some) or None)
    yield _try("descriptors", "use a descriptor left open", (errno.EBADF,), lambda: os.fstat(stray))

    denied = (errno.EACCES,)
    yield _try("landlock", "read a file outside", denied, lambda: _read(scene.seen))
    yield _try("landlock", "list a folder outside", denied, lambda: os.listdir(scene.work))
    outside = os.path.join(scene.work, "made")
    yield _try("landlock", "make a file outside", denied, lambda: os.open(outside, os.O_CREAT | os.O_WRONLY))
    inside = os.path.join(scene.scratch, "made")
    with open(inside, "w") as file:
        file.write("made")
    yield Tried("landlock", "use the scratch folder", None if _read(inside) == "made" else "it could not")

    refused = (errno.EPERM,)
    yield _try("seccomp", "open a socket", refused, socket.socket)
    yield _try("seccomp", "open a Unix socket", refused, lambda: socket.socket(socket.AF_UNIX))
    yield _try("seccomp", "start a process", refused, _fork)
    # No such program: only a filter answers before the kernel looks for it.
    yield _try("seccomp", "become another program", refused, lambda: os.execv("/no/such/program", ["program"]))
    yield _try("seccomp", "signal another process", refused, lambda: os.kill(parent, 0))
    yield _try("seccomp", "change a file's mode", refused, lambda: os.chmod(inside, 0o777))
    yield _try("seccomp", "change a file's times", refused, lambda: os.utime(inside))
    yield _try("seccomp", "allow others to trace it", refused, lambda: linux.prctl(linux.PR_SET_DUMPABLE, 1))
    yield _try("seccomp", "take memory that no limit counts", refused, _make_memory_file)

    yield Tried("limits", "take more memory than its budget", _take_memory(2 * policy.memory_bytes))
    yield _try("limits", "open more files than its limit", (errno.EMFILE,), lambda: _open_many(policy.open_files + 1))
    yield _try(
        "limits", "write a longer file than its limit", (errno.EFBIG,), lambda: _write_long(inside, policy.file_bytes)
    )
    unlimited = resource.getrlimit(resource.RLIMIT_CPU)[1] == resource.RLIM_INFINITY
    yield Tried("limits", "compute for ever", "no limit on CPU time" if unlimited else None)


def _try(layer: str, act: str, refusals: tuple[int, ...], do: Callable[[], object]) -> Tried:
    try:
        do()
    except OSError as error:
        if error.errno in refusals:
            return Tried(layer, act, None)
        return Tried(layer, act, error.strerror or str(error))
    return Tried(layer, act, "it succeeded")


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _connect(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=2):
        pass


def _fork() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _make_memory_file() -> None:
    name = ctypes.create_string_buffer(b"probe")
    linux.syscall(_MEMFD_CREATE[os.uname().machine], ctypes.addressof(name), 0)


def _take_memory(size: int) -> str | None:
    try:
        return f"it got {len(bytearray(size))} bytes"
    except MemoryError:
        return None


def _open_many(count: int) -> None:
    opened: list[int] = []
    try:
        while len(opened) < count:
            opened.append(os.dup(0))
    finally:
        for fd in opened:
            os.close(fd)


def _write_long(path: str, most: int) -> None:
    # Python ignores SIGXFSZ, so the limit is an error here and not the end.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open(path, "wb", buffering=0) as file:
        file.seek(most)
        file.write(b"x")


def _say(fd: int, message: dict[str, Any]) -> None:
    os.write(fd, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
