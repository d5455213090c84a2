"""Telling a student which forbidden thing was tried. A teaching aid beside the lock, and no part of it.

The kernel says only "Operation not permitted". An audit hook (PEP 578) sees most such acts coming and refuses them
with a sentence; `explain` finds words for the errors of those that it does not see. Code that gets around the hook
meets the lock.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_NETWORK = "network"
_PROCESS = "process"
_SIGNAL = "signal"
_WRITE = "write"
_READ = "read"
_OTHER = "other"

_CLAIMS = {
    _NETWORK: "the network may not be used",
    _PROCESS: "other programs and processes may not be started",
    _SIGNAL: "other processes may not be signalled",
    _WRITE: "files may not be written or changed",
    _READ: "files may not be read, except Python's own and those of the installed packages that are allowed",
    _OTHER: "this operation is not allowed",
}
# Where the refusal of an act without an audit event surfaces: semaphores and socket pairs, by the module that asks.
_KIND_OF_MODULE = {
    "socket": _NETWORK, "selectors": _NETWORK, "synchronize": _PROCESS, "resource_tracker": _PROCESS, "popen_fork": _PROCESS,
}  # fmt: skip
# What asked for it, by a folder of torch on the way: the name by which the student knows it, and what to write instead.
_ASKED_FOR = {
    "/torch/_inductor/": "torch.compile starts a compiler: call the function without it",
    "/torch/_dynamo/": "torch.compile starts a compiler: call the function without it",
    "/torch/utils/data/": "DataLoader with workers: use num_workers=0",
}
# What torch's C++ says when it could not open a file for torch.save, or shared memory for other processes.
_KIND_OF_WORDS = {
    "open file failed with strerror": _WRITE,
    "PytorchStreamWriter failed": _WRITE,
    "shared memory object": _PROCESS,
}

# Audit events by name; for those with a path, which arguments are paths that the scratch folder would excuse.
_PROCESS_EVENTS = frozenset(
    ("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn")
)
_PATHS_OF_EVENTS = {
    "os.mkdir": 1, "os.rmdir": 1, "os.remove": 1, "os.rename": 2, "shutil.rmtree": 1, "tempfile.mkstemp": 1, "tempfile.mkdtemp": 1,
}  # fmt: skip
_CHANGING_EVENTS = frozenset(
    ("os.chmod", "os.chown", "os.link", "os.symlink", "os.truncate", "os.utime", "os.setxattr", "os.removexattr", "os.chflags",
     "fcntl.flock", "fcntl.lockf")
)  # fmt: skip


class ForbiddenOperation(PermissionError):
    """Raised in a submission in place of the kernel's refusal. ``operation`` is the kind, ``detail`` what was tried."""

    def __init__(self, operation: str, detail: str) -> None:
        super().__init__(f"{_CLAIMS[operation]} here ({detail})")
        self.errno = errno.EPERM
        self.operation = operation
        self.detail = detail


@dataclass(frozen=True)
class Explanation:
    """``operation`` is network, process, signal, write, read or other; ``says`` is a sentence for the student."""

    operation: str
    says: str


def watch(scratch: str | None = None) -> None:
    """Install the hook for the rest of this process; there is no way to remove one."""
    sys.addaudithook(_make_hook(scratch))


def explain(error: BaseException, read_paths: tuple[str, ...] = ()) -> Explanation | None:
    """What forbidden act an error came from, its causes included, or None if from none that is known.

    ``read_paths`` tells a file that is hidden from one that is simply not there.
    """
    for one in _chain(error):
        found = _explain(one, read_paths)
        if found is not None:
            asked = _asked_for(error)
            return found if asked is None else _explanation(found.operation, asked)
    return None


def _make_hook(scratch: str | None) -> Callable[[str, tuple[Any, ...]], None]:
    own = os.getpid()

    def excused(path: Any) -> bool:
        if isinstance(path, int) or path is None:
            # A descriptor that is already open.
            return True
        try:
            name = os.path.abspath(os.fsdecode(path))
        except (TypeError, ValueError):
            return True
        return name == os.devnull or (scratch is not None and name.startswith(scratch.rstrip("/") + "/"))

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            if arguments[2] & _WRITING and not excused(arguments[0]):
                raise ForbiddenOperation(_WRITE, f"open {_quote(arguments[0])} for writing")
        elif event.startswith("socket."):
            raise ForbiddenOperation(_NETWORK, event.replace("__new__", "socket"))
        elif event in _PROCESS_EVENTS:
            raise ForbiddenOperation(_PROCESS, event)
        elif event in _CHANGING_EVENTS:
            raise ForbiddenOperation(_WRITE, event)
        elif event in _PATHS_OF_EVENTS:
            if not all(excused(path) for path in arguments[: _PATHS_OF_EVENTS[event]]):
                raise ForbiddenOperation(_WRITE, f"{event} {_quote(arguments[0])}")
        elif event in ("os.kill", "os.killpg") and (event == "os.killpg" or arguments[0] != own):
            raise ForbiddenOperation(_SIGNAL, event)

    return refuse


def _explain(error: BaseException, read_paths: tuple[str, ...]) -> Explanation | None:
    if isinstance(error, ForbiddenOperation):
        return _explanation(error.operation, error.detail)
    if isinstance(error, RuntimeError):
        for words, kind in _KIND_OF_WORDS.items():
            if words in str(error):
                return _explanation(kind, "in C++")
    if not isinstance(error, OSError):
        return None
    if error.errno == errno.ENOENT and "temporary directory" in str(error):
        return _explanation(_WRITE, "temporary files neither")
    if isinstance(error, FileNotFoundError) and error.errno is None:
        # NumPy looks first and raises one of its own.
        return _explanation(_READ, _quote(str(error)[:200]))
    path = error.filename
    if isinstance(path, str | bytes):
        if error.errno in (errno.EROFS, errno.EPERM):
            return _explanation(_WRITE, _quote(path))
        hidden = bool(read_paths) and not any(_inside(os.path.abspath(os.fsdecode(path)), one) for one in read_paths)
        if error.errno == errno.EACCES or (error.errno == errno.ENOENT and hidden):
            return _explanation(_READ, _quote(path))
    elif error.errno in (errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOENT):
        module, function = _origin(error)
        if module in _KIND_OF_MODULE:
            return _explanation(_KIND_OF_MODULE[module], f"in {module}.{function}")
        if error.errno != errno.ENOENT:
            return _explanation(_OTHER, f"in {module}.{function}")
    return None


def _explanation(operation: str, detail: str) -> Explanation:
    return Explanation(operation, f"{_CLAIMS[operation]} here ({detail})")


def _asked_for(error: BaseException) -> str | None:
    for one in _chain(error):
        trace = one.__traceback__
        while trace is not None:
            for folder, words in _ASKED_FOR.items():
                if folder in trace.tb_frame.f_code.co_filename:
                    return words
            trace = trace.tb_next
    return None


def _origin(error: BaseException) -> tuple[str, str]:
    """Module and function, by name, of the innermost Python frame."""
    trace = error.__traceback__
    if trace is None:
        return "?", "?"
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return os.path.splitext(os.path.basename(code.co_filename))[0], code.co_name


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting: list[Any] = [error]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, BaseException) and id(one) not in seen:
            seen.add(id(one))
            yield one
            # urllib keeps the cause under a name of its own.
            waiting += [one.__cause__, one.__context__, one.__dict__.get("reason")]


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _quote(path: Any) -> str:
    try:
        return repr(os.fsdecode(path))
    except TypeError:
        return "a file"
