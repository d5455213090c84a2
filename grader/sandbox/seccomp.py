"""seccomp: which system calls a worker may make. An allow-list, so that what nobody thought of is refused.

Three answers besides "go on": EPERM for what is refused (Python turns it into a PermissionError with a traceback);
ENOSYS for clone3 and for calls newer than this table (the C library then falls back to an older one, as on an older
kernel); death for a program of another architecture, which no interpreter turns into by accident.

Numbers: asm/unistd_64.h for x86-64, asm-generic/unistd.h for aarch64 (None: the call does not exist there).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from grader.sandbox import linux


@dataclass(frozen=True)
class Architecture:
    """``column`` is its place in the tables below; ``audit`` is its AUDIT_ARCH number in linux/audit.h."""

    name: str
    column: int
    audit: int


ARCHITECTURES = {
    "x86_64": Architecture("x86_64", 0, 0xC000003E),
    "aarch64": Architecture("aarch64", 1, 0xC00000B7),
}

Numbers = Mapping[str, tuple[int | None, int | None]]

MEMORY: Numbers = {
    "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226), "mremap": (25, 216), "brk": (12, 214), "madvise": (28, 233),
}  # fmt: skip
# autograd runs backward in threads of its own, and a student may start some; clone itself stands under CONDITIONS.
THREADS: Numbers = {
    "futex": (202, 98), "set_robust_list": (273, 99), "set_tid_address": (218, 96), "rseq": (334, 293), "gettid": (186, 178),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "sched_getparam": (143, 121), "sched_getscheduler": (145, 120),
    "getcpu": (309, 168), "membarrier": (324, 283), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
# Of signals a process may only set up its own; sending stands under CONDITIONS.
SIGNALS: Numbers = {
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137), "rt_sigsuspend": (130, 133), "sigaltstack": (131, 132), "restart_syscall": (219, 128),
    "pause": (34, None), "alarm": (37, None), "setitimer": (38, 103), "getitimer": (36, 102),
}  # fmt: skip
TIME: Numbers = {
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "nanosleep": (35, 101),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153),
}  # fmt: skip
ITSELF: Numbers = {
    "getpid": (39, 172), "getppid": (110, 173), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176),
    "getegid": (108, 177), "getrusage": (98, 165), "getrlimit": (97, 163), "uname": (63, 160), "sysinfo": (99, 179),
    "getrandom": (318, 278),
}  # fmt: skip
# A descriptor can only be what the lock left open, a pipe of the process's own, or a file that Landlock let it open.
DESCRIPTORS: Numbers = {
    "read": (0, 63), "readv": (19, 65), "pread64": (17, 67), "preadv": (295, 69), "write": (1, 64), "writev": (20, 66),
    "pwrite64": (18, 68), "pwritev": (296, 70), "lseek": (8, 62), "close": (3, 57), "close_range": (436, 436), "fstat": (5, 80),
    "getdents64": (217, 61), "fadvise64": (221, 223), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24), "pipe": (22, None),
    "pipe2": (293, 59), "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72),
}  # fmt: skip
# An import asks for the existence of many files; open stands under CONDITIONS, and Landlock decides on the file.
PATHS: Numbers = {
    "newfstatat": (262, 79), "stat": (4, None), "lstat": (6, None), "statx": (332, 291), "access": (21, None),
    "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None), "readlinkat": (267, 78), "getcwd": (79, 17),
}  # fmt: skip
# Only where there is a scratch folder; Landlock decides where.
SCRATCH: Numbers = {
    "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None), "unlink": (87, None), "unlinkat": (263, 35),
    "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276), "ftruncate": (77, 46), "fsync": (74, 82),
    "fdatasync": (75, 83),
}  # fmt: skip
CONDITIONAL: Numbers = {
    "openat": (257, 56), "open": (2, None), "clone": (56, 220), "kill": (62, 129), "tgkill": (234, 131), "prctl": (157, 167),
    "ioctl": (16, 29), "fcntl": (72, 25), "prlimit64": (302, 261),
}  # fmt: skip
ABSENT: Numbers = {"clone3": (435, 435)}
NEWEST = 450
"""The newest call the headers behind these tables know (set_mempolicy_home_node); above it is ENOSYS."""


@dataclass(frozen=True)
class Condition:
    """Allowed only if ``word & mask`` of the arguments is among ``values``.

    Argument n is words 2n (low half) and 2n + 1 (high half) on these little-endian machines. Where the kernel takes an
    int, the high half is no part of the argument and is not looked at.
    """

    word: int
    mask: int
    values: tuple[int, ...]


_INT = 0xFFFFFFFF
_O_ACCMODE, _O_CREAT, _O_TRUNC = 0o3, 0o100, 0o1000
_CLONE_THREAD = 0x00010000
_SET_NAME, _GET_NAME, _SET_VMA = 15, 16, 0x53564D41
_TCGETS, _TCGETS2, _TIOCGWINSZ, _FIONREAD, _FIONCLEX, _FIOCLEX = 0x5401, 0x802C542A, 0x5413, 0x541B, 0x5450, 0x5451
_F_DUPFD, _F_GETFD, _F_SETFD, _F_GETFL, _F_DUPFD_CLOEXEC, _F_GETPIPE_SZ = 0, 1, 2, 3, 1030, 1032


def conditions(pid: int, read_only: bool) -> dict[str, tuple[Condition, ...]]:
    """The calls that are allowed with some arguments only, for the process ``pid`` (as it sees itself)."""
    if read_only:
        opening = (Condition(0, _O_ACCMODE | _O_CREAT | _O_TRUNC, (0,)),)
    else:
        # Landlock does not look at O_TRUNC on a file opened for reading before ABI 3, and nobody honest asks for it.
        usual = (0, 1, 2, 1 | _O_TRUNC, 2 | _O_TRUNC)
        opening = (Condition(0, _O_ACCMODE | _O_TRUNC, usual),)
    # The flags are the second argument of open and the third of openat.
    at = {"open": 2, "openat": 4}
    opens = {name: tuple(Condition(word, c.mask, c.values) for c in opening) for name, word in at.items()}
    return {
        **opens,
        # A thread, never a process: fork, vfork and posix_spawn all lack this flag.
        "clone": (Condition(0, _CLONE_THREAD, (_CLONE_THREAD,)),),
        # abort() and faulthandler signal the process itself; 0 and -1 would reach others.
        "kill": (Condition(0, _INT, (pid,)),),
        "tgkill": (Condition(0, _INT, (pid,)),),
        # Threads give themselves and their memory names. Not PDEATHSIG, DUMPABLE, or the rest.
        "prctl": (Condition(0, _INT, (_SET_NAME, _GET_NAME, _SET_VMA)),),
        # Python asks of each file it opens whether it is a terminal. Not TIOCSTI, which types into one.
        "ioctl": (Condition(2, _INT, (_TCGETS, _TCGETS2, _TIOCGWINSZ, _FIONREAD, _FIONCLEX, _FIOCLEX)),),
        # Not locks, and not F_SETOWN, which sends signals.
        "fcntl": (Condition(2, _INT, (_F_DUPFD, _F_DUPFD_CLOEXEC, _F_GETFD, _F_SETFD, _F_GETFL, _F_GETPIPE_SZ)),),
        # Limits may be read (no new limit: a null pointer), the process's own.
        "prlimit64": (Condition(0, _INT, (0, pid)), Condition(4, _INT, (0,)), Condition(5, _INT, (0,))),
    }


_LOAD, _JUMP_EQUAL, _JUMP_GREATER_OR_EQUAL, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_REFUSE, _NOT_THERE = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000


def architecture() -> Architecture | None:
    """The table for this interpreter, or None: an unknown machine, or a 32-bit interpreter on a 64-bit kernel."""
    return ARCHITECTURES.get(_machine()) if struct.calcsize("P") == 8 else None


def program(machine: Architecture, pid: int, *, scratch: bool, read_only: bool) -> bytes:
    """The filter as struct sock_filter instructions.

    ``scratch`` admits the calls that change a folder; ``read_only`` refuses every open for writing (for kernels whose
    Landlock cannot decide that).
    """
    lines = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_JUMP_EQUAL, machine.audit, 1, 0),
        _instruction(_RETURN, _KILL_PROCESS),
        _instruction(_LOAD, _NUMBER),
    ]
    if machine.name == "x86_64":
        # x32 gives every call a second number, by which it would get past a filter that forgot it.
        lines += [_instruction(_JUMP_GREATER_OR_EQUAL, _X32, 0, 1), _instruction(_RETURN, _REFUSE)]
    for name, wanted in conditions(pid, read_only).items():
        number = CONDITIONAL[name][machine.column]
        if number is not None:
            body = _body(wanted)
            lines += [_instruction(_JUMP_EQUAL, number, 0, len(body)), *body]
    groups = (MEMORY, THREADS, SIGNALS, TIME, ITSELF, DESCRIPTORS, PATHS, *((SCRATCH,) if scratch else ()))
    for number in _numbers(machine, groups):
        lines += [_instruction(_JUMP_EQUAL, number, 0, 1), _instruction(_RETURN, _ALLOW)]
    for number in _numbers(machine, (ABSENT,)):
        lines += [_instruction(_JUMP_EQUAL, number, 0, 1), _instruction(_RETURN, _NOT_THERE)]
    lines += [_instruction(_JUMP_GREATER_OR_EQUAL, NEWEST + 1, 0, 1), _instruction(_RETURN, _NOT_THERE)]
    lines += [_instruction(_RETURN, _REFUSE)]
    return b"".join(lines)


def install(code: bytes) -> None:
    """Load the filter for this thread and all it starts. Needs no_new_privs; there is no way back. Raises OSError."""
    instructions = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(instructions)))
    linux.prctl(linux.PR_SET_SECCOMP, 2, ctypes.addressof(header))  # 2 is SECCOMP_MODE_FILTER


def available() -> bool:
    """Whether the kernel knows filters at all (asked with a null pointer, which it answers with EFAULT)."""
    try:
        linux.prctl(linux.PR_SET_SECCOMP, 2, 0)
    except OSError as error:
        return error.errno == errno.EFAULT
    return False


def _numbers(machine: Architecture, groups: Iterable[Numbers]) -> list[int]:
    found = (numbers[machine.column] for group in groups for numbers in group.values())
    return [number for number in found if number is not None]


def _body(wanted: tuple[Condition, ...]) -> list[bytes]:
    """Instructions that end in ALLOW if every condition holds, else in EPERM; never fall through."""
    lines = []
    for condition in wanted:
        lines += [_instruction(_LOAD, _ARGUMENTS + 4 * condition.word), _instruction(_AND, condition.mask)]
        count = len(condition.values)
        for index, value in enumerate(condition.values):
            # On a match, over the remaining values and the refusal to the next condition.
            lines.append(_instruction(_JUMP_EQUAL, value, count - index, 0))
        lines.append(_instruction(_RETURN, _REFUSE))
    return [*lines, _instruction(_RETURN, _ALLOW)]


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)


def _machine() -> str:
    return os.uname().machine if linux.SUPPORTED else ""


def describe_machine() -> str:
    return f"{_machine() or os.name}, {struct.calcsize('P') * 8} bits"
