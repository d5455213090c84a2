"""Starting the interpreter that hosts workers. Standard library only, so that a command can start it before anything else."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

# Passed on to a worker's empty environment: without them some installations cannot load NumPy or torch at all.
PASSED_ON = ("LD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "SYSTEMROOT")
ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Zygote:
    """A started zygote: its process, our end of its control socket, and what it writes to standard error."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    stderr: IO[bytes]


def settle_in() -> None:
    """What either command does first: before anything is opened, and before NumPy is imported."""
    # This process multiplies no matrices; idle threads of BLAS would only spin.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    open_standard_streams()


def open_standard_streams() -> None:
    """Send standard streams that the caller closed nowhere: the next file opened would otherwise take their place."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(fd)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != fd:
                os.dup2(null, fd)
                os.close(null)
            setattr(sys, name, open(fd, mode, encoding="utf-8", closefd=False))


def launch(framework: str, isolate: bool = True) -> Zygote:
    """Start a zygote that imports ``framework``; returns at once, while the import goes on."""
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stderr = _kept_in_memory()
    process = subprocess.Popen(
        command("fork", framework, theirs.fileno(), isolate),
        pass_fds=[theirs.fileno()],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=stderr,
        stderr=stderr,
        cwd="/",
        start_new_session=True,
    )
    theirs.close()
    return Zygote(process, control, stderr)


def _kept_in_memory() -> IO[bytes]:
    """A file without a name, for the few words of a zygote that fails; in memory, where no folder may be writable."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("stderr-of-zygote"), "w+b")
    return tempfile.TemporaryFile()


def command(mode: str, framework: str, fd: int, isolate: bool) -> list[str]:
    # -I: neither the current folder nor the user's environment can put a module in front of ours.
    boot = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from grader.worker import zygote; "
        f"sys.path.remove({str(ROOT)!r}); zygote.main(sys.argv[1:])"
    )
    return [sys.executable, "-I", "-B", "-c", boot, mode, framework, str(fd), "isolate" if isolate else "open"]


def environment() -> dict[str, str]:
    """A worker's whole environment: nothing of the caller's but what loading NumPy and torch may need."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {
        **passed,
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
        "PYTHONHASHSEED": "0",
        # As in `grader.sandbox.isolation.ENVIRONMENT`, which this module is too early to import: libraries otherwise look
        # for a folder to write to, and for the user's name, and the lock refuses both.
        "TORCHINDUCTOR_CACHE_DIR": "/",
        "HOME": "/",
        "USER": "student",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
    }
