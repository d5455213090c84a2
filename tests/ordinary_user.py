"""Running a command as user 65534, from tests that are run by root: what a worker of root becomes, and students are."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

UID = 65534
# Where this interpreter and what it has installed lie; in a private mount namespace they can be shown to everyone.
_NEEDED = sorted({sys.prefix, sys.base_prefix})


def command(arguments: list[str], home: Path, before: Sequence[str] = ()) -> list[str]:
    """``arguments`` as that user, whose home is ``home`` (made its own). Raises LookupError with the reason it cannot be.

    ``before`` are lines of a shell that root runs first, in a mount namespace of the command's own.

    Where this Python lies in a folder closed to others, such as root's home, the folder is covered in a mount namespace
    of the command's own, and only Python is shown in it.
    """
    if sys.platform != "linux":
        raise LookupError("there is no such user on this system")
    if os.geteuid() != 0:
        raise LookupError("the tests run as an ordinary user already")
    if shutil.which("setpriv") is None:
        raise LookupError("setpriv (util-linux) is not installed")
    os.chown(home, UID, UID)
    become = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--no-new-privs"]
    environment = ["env", f"HOME={home}", f"TMPDIR={home}", "USER=nobody"]
    direct = [*become, *environment, *arguments]
    check = [*become, sys.executable, "-c", "import numpy"]
    if not before and _works(check):
        return direct
    closed = sorted({found for folder in _NEEDED if (found := _closed(folder)) is not None})
    if shutil.which("unshare") is None:
        raise LookupError("unshare (util-linux) is not installed")
    shown = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", _script(closed, before), "sh"]
    if not _works([*shown, *check]):
        raise LookupError("this Python is closed to that user, and root may not mount anything here")
    return [*shown, *direct]


def _script(closed: list[str], before: Sequence[str]) -> str:
    """Cover each closed folder, show Python in it under its own name, and run the rest of the arguments."""
    lines = ["held=$(mktemp -d)", "mount -t tmpfs none $held"]
    for at, folder in enumerate(_NEEDED):
        lines += [f"mkdir $held/{at}", f"mount --bind {shlex.quote(folder)} $held/{at}"]
    lines += [f"mount -t tmpfs -o mode=755 none {shlex.quote(folder)}" for folder in closed]
    for at, folder in enumerate(_NEEDED):
        if any(folder.startswith(f"{one}/") for one in closed):
            lines += [f"mkdir -p {shlex.quote(folder)}", f"mount --bind $held/{at} {shlex.quote(folder)}"]
    return "; ".join([*lines, "umount -l $held", "rmdir $held", *before, 'exec "$@"'])


def _closed(folder: str) -> str | None:
    """The first folder on the way that others may not enter."""
    at = Path("/")
    for part in Path(folder).parts[1:]:
        at /= part
        if not at.stat().st_mode & 0o001:
            return str(at)
    return None


def _works(arguments: list[str]) -> bool:
    return subprocess.run(arguments, capture_output=True, stdin=subprocess.DEVNULL, timeout=120).returncode == 0
