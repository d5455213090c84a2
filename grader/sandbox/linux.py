"""The kernel calls of the lock that Python 3.11 has no function for, each raising OSError with the kernel's errno.

Every constant is part of Linux's stable interface (linux/prctl.h, linux/sched.h, linux/mount.h, linux/capability.h).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

SUPPORTED = sys.platform == "linux"

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

_MOUNT_SETATTR = 442  # the same number on every architecture, as for every call added since Linux 5.1
_AT_FDCWD = (1 << 64) - 100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1
_MOUNT_ATTR_NOSUID = 2
_CAPABILITY_VERSION_3 = 0x20080522

# CDLL(None) is the C library that the interpreter runs on; Windows has no such thing.
_libc = ctypes.CDLL(None, use_errno=True) if SUPPORTED else None
if _libc is not None:
    _libc.syscall.restype = ctypes.c_long
    # Only the number is fixed: the kernel's calls take up to six words, and integers must not be cut to 32 bits.
    _libc.syscall.argtypes = [ctypes.c_long]


def syscall(number: int, *arguments: int) -> int:
    """Call the kernel by number; pointers are passed as addresses. Raises OSError."""
    return _checked(_function("syscall")(number, *map(ctypes.c_ulong, arguments)))


def prctl(option: int, *arguments: int) -> int:
    """prctl(2). The kernel insists on zeros for the arguments that an option does not use."""
    padded = (*arguments, 0, 0, 0, 0)[:4]
    return _checked(_function("prctl")(ctypes.c_int(option), *map(ctypes.c_ulong, padded)))


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends; a later change of user undoes it."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def unshare(flags: int) -> None:
    _checked(_function("unshare")(ctypes.c_int(flags)))


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """mount(2). Raises OSError that names the target."""
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
    result = _function("mount")(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def unmount(target: str, flags: int) -> None:
    _checked(_function("umount2")(os.fsencode(target), ctypes.c_int(flags)))


def pivot_root(new: str, old: str) -> None:
    _checked(_function("pivot_root")(os.fsencode(new), os.fsencode(old)))


def freeze_mounts(path: str, *, below: bool) -> None:
    """Make the mount at ``path`` (and those ``below`` it) read-only, set-user-id bits ignored; mount_setattr(2)."""
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID, 0, 0, 0)
    name = ctypes.create_string_buffer(os.fsencode(path))
    syscall(
        _MOUNT_SETATTR,
        _AT_FDCWD,
        ctypes.addressof(name),
        _AT_RECURSIVE if below else 0,
        ctypes.addressof(attributes),
        ctypes.sizeof(attributes),
    )


def drop_capabilities() -> None:
    """Give up every capability for good (capset(2)); without exec there is no way to regain one."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    empty = (ctypes.c_uint32 * 6)()
    _checked(_function("capset")(ctypes.byref(header), ctypes.byref(empty)))


def _function(name: str) -> ctypes._NamedFuncPointer:
    if _libc is None:
        raise OSError(38, f"{name} is a call of Linux")
    function: ctypes._NamedFuncPointer = getattr(_libc, name)
    return function


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
