"""Landlock: which files a process may open, decided by the kernel for the process itself (Linux 5.13 and newer).

Landlock mediates opening, listing, creating, removing and (from ABI 3) truncating. It does not mediate stat, chmod,
utime, setxattr or flock; `grader.sandbox.seccomp` refuses what changes a file, and the private view of
`grader.sandbox.namespaces` hides what could be asked about. The numbers are those of linux/landlock.h and the
same on every architecture.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable

from grader.sandbox import linux

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_RULE = struct.Struct("=Qi")  # rights, descriptor of the path

_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
_REMOVE_DIR = 1 << 4
_REMOVE_FILE = 1 << 5
_MAKE_DIR = 1 << 7
_MAKE_REG = 1 << 8
_REFER = 1 << 13
_TRUNCATE = 1 << 14
_IOCTL_DEV = 1 << 15
# What each ABI can refuse: 1 has the first thirteen rights (execute to make_sym), then one more at a time.
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_BIND_AND_CONNECT_TCP = 0b11  # ABI 4
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11  # ABI 6

# Landlock refuses rights on a single file that only make sense for a folder.
_ON_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
READ = _READ_FILE | _READ_DIR
LIST = _READ_DIR
DISCARD = _READ_FILE | _WRITE_FILE | _TRUNCATE
"""For /dev/null: writing there changes nothing, and redirecting output to it is an honest habit."""
WRITE = READ | _WRITE_FILE | _TRUNCATE | _MAKE_REG | _MAKE_DIR | _REMOVE_FILE | _REMOVE_DIR
"""For the scratch folder: plain files and folders; no links, sockets, pipes or devices, nothing moved in or out."""
ANYTHING = WRITE
"""Left to be decided by other rules: where two sets are in force, each must allow what is done."""


def abi() -> int:
    """The kernel's Landlock version; raises OSError where there is none (ENOSYS, EOPNOTSUPP) or it is refused (EPERM)."""
    return linux.syscall(_CREATE_RULESET, 0, 0, _CREATE_RULESET_VERSION)


def build(rules: Iterable[tuple[str, int]]) -> int:
    """A descriptor of the rules (path, rights), which any process that holds it can put in force for itself.

    A folder's rights hold for all below it. Paths that do not exist are left out. Raises OSError.
    """
    version = abi()
    files = _FILE_RIGHTS[max(known for known in _FILE_RIGHTS if known <= version)]
    attributes = struct.pack("=Q", files)
    if version >= 4:
        attributes += struct.pack("=Q", _BIND_AND_CONNECT_TCP)
    if version >= 6:
        attributes += struct.pack("=Q", _ABSTRACT_SOCKETS_AND_SIGNALS)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    ruleset = linux.syscall(_CREATE_RULESET, ctypes.addressof(buffer), len(attributes), 0)
    rule = ctypes.create_string_buffer(_RULE.size)
    try:
        for path, rights in rules:
            try:
                fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError as error:
                # What is not there, or not reachable for this user, needs no permission.
                if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
                    continue
                raise
            try:
                if not stat.S_ISDIR(os.fstat(fd).st_mode):
                    rights &= _ON_FILES
                if rights & files:
                    _RULE.pack_into(rule, 0, rights & files, fd)
                    linux.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.addressof(rule), 0)
            finally:
                os.close(fd)
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def enforce(ruleset: int) -> None:
    """Let this process open nothing but what the rules of ``build`` name, and close their descriptor.

    Needs no_new_privs and a single thread: other threads would stay outside. Raises OSError.
    """
    try:
        linux.syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
