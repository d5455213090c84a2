"""The filter as a program: interpreted here for both architectures, so that the one at hand is not the only one tested."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.sandbox import seccomp
from grader.sandbox.seccomp import ABSENT, ARCHITECTURES, CONDITIONAL, SCRATCH, Architecture

MACHINES = sorted(ARCHITECTURES)
PID = 4321
PLAIN = {
    name: numbers
    for group in (
        seccomp.MEMORY,
        seccomp.THREADS,
        seccomp.SIGNALS,
        seccomp.TIME,
        seccomp.ITSELF,
        seccomp.DESCRIPTORS,
        seccomp.PATHS,
    )
    for name, numbers in group.items()
}
ALLOW, KILL = 0x7FFF0000, 0x80000000
REFUSE, NOT_THERE = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
HEADERS = {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h"}


def decide(code: bytes, audit: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """Run the filter on one call as the kernel does (struct seccomp_data: number, architecture, address, arguments)."""
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("=iIQ6Q", number if number < 1 << 31 else number - (1 << 32), audit, 0, *padded)
    at, accumulator = 0, 0
    for _ in range(len(code)):
        operation, if_true, if_false, operand = struct.unpack_from("=HBBI", code, 8 * at)
        at += 1
        if operation == 0x20:
            accumulator = struct.unpack_from("=I", data, operand)[0]
        elif operation == 0x54:
            accumulator &= operand
        elif operation == 0x15:
            at += if_true if accumulator == operand else if_false
        elif operation == 0x35:
            at += if_true if accumulator >= operand else if_false
        elif operation == 0x06:
            return int(operand)
        else:
            raise AssertionError(f"an instruction the filter has no use for: {operation:#x}")
    raise AssertionError("it never returns")


def build(machine: Architecture, scratch: bool = False, read_only: bool = False) -> bytes:
    return seccomp.program(machine, PID, scratch=scratch, read_only=read_only)


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> Architecture:
    return ARCHITECTURES[request.param]


def test_what_is_listed_is_allowed_and_all_else_is_refused(machine: Architecture) -> None:
    code = build(machine)
    allowed = {numbers[machine.column] for numbers in PLAIN.values()} - {None}
    conditional = {numbers[machine.column] for numbers in (*CONDITIONAL.values(), *ABSENT.values())}
    for number in set(range(seccomp.NEWEST + 1)) - conditional:
        assert decide(code, machine.audit, number) == (ALLOW if number in allowed else REFUSE), number


def test_a_scratch_folder_adds_its_calls_and_no_others(machine: Architecture) -> None:
    without, with_scratch = build(machine), build(machine, scratch=True)
    added = {n for n in range(500) if decide(without, machine.audit, n) != decide(with_scratch, machine.audit, n)}
    assert added == {numbers[machine.column] for numbers in SCRATCH.values()} - {None}


def test_calls_newer_than_the_table_do_not_exist(machine: Architecture) -> None:
    code = build(machine)
    for number in (435, seccomp.NEWEST + 1, 1000, 0x3FFFFFFF):
        assert decide(code, machine.audit, number) == NOT_THERE


def test_another_architecture_is_death(machine: Architecture) -> None:
    code = build(machine)
    for audit in (0x40000003, 0x40000028, 0, *(other.audit for other in ARCHITECTURES.values() if other != machine)):
        assert decide(code, audit, 0) == KILL


@given(number=st.integers(0, 600))
def test_no_call_has_a_second_number_on_x86(number: int) -> None:
    machine = ARCHITECTURES["x86_64"]
    assert decide(build(machine), machine.audit, 0x40000000 | number) == REFUSE


CASES = [
    ("clone", (0x003D0F00,), ALLOW),  # what the C library passes for a thread
    ("clone", (0x01200011,), REFUSE),  # fork
    ("clone", (0x00004111,), REFUSE),  # vfork, posix_spawn
    ("clone", (0x10000000 | 17,), REFUSE),  # a user namespace
    ("kill", (PID, 9), ALLOW),
    ("kill", (PID - 1, 9), REFUSE),
    ("kill", (0, 9), REFUSE),
    ("kill", (0xFFFFFFFF, 9), REFUSE),
    ("kill", (0xFFFFFFFFFFFFFFFF, 9), REFUSE),
    ("tgkill", (PID, 77, 6), ALLOW),
    ("tgkill", (PID + 1, PID, 6), REFUSE),
    ("prctl", (15,), ALLOW),
    ("prctl", (1, 0), REFUSE),
    ("prctl", (4, 1), REFUSE),
    ("ioctl", (0, 0x5401), ALLOW),
    ("ioctl", (0, 0x5412), REFUSE),
    ("ioctl", (0x5401, 0), REFUSE),
    ("fcntl", (3, 1), ALLOW),
    ("fcntl", (3, 1030), ALLOW),
    ("fcntl", (3, 8), REFUSE),
    ("fcntl", (3, 6), REFUSE),
    ("prlimit64", (0, 7, 0), ALLOW),
    ("prlimit64", (PID, 7, 0), ALLOW),
    ("prlimit64", (1, 7, 0), REFUSE),
    ("prlimit64", (0, 7, 0x7FFF00001000), REFUSE),
    ("prlimit64", (0, 7, 0x7FFF00000000), REFUSE),
    ("openat", (100, 0, 0o2000000), ALLOW),
    ("openat", (100, 0, 0o2001101), ALLOW),
    ("openat", (100, 0, 0o1000), REFUSE),
    ("open", (0, 0, 0), ALLOW),
    ("open", (0, 0o1000), REFUSE),
]


@pytest.mark.parametrize(("name", "arguments", "answer"), CASES)
def test_calls_that_depend_on_their_arguments(
    name: str, arguments: tuple[int, ...], answer: int, machine: Architecture
) -> None:
    number = CONDITIONAL[name][machine.column]
    if number is None:
        return
    assert decide(build(machine), machine.audit, number, arguments) == answer


@given(flags=st.integers(0, 0o77777777), scratch=st.booleans(), name=st.sampled_from(MACHINES))
def test_a_read_only_filter_lets_nothing_be_opened_for_writing(flags: int, scratch: bool, name: str) -> None:
    machine = ARCHITECTURES[name]
    number = CONDITIONAL["openat"][machine.column]
    assert number is not None
    answer = decide(build(machine, scratch, read_only=True), machine.audit, number, (100, 0, flags))
    writes = flags & 0o3 or flags & 0o100 or flags & 0o1000
    assert answer == (REFUSE if writes else ALLOW)


def test_every_jump_fits_and_every_path_ends(machine: Architecture) -> None:
    code = build(machine, scratch=True)
    count = len(code) // 8
    assert count < 4096
    for index in range(count):
        operation, if_true, if_false, _ = struct.unpack_from("=HBBI", code, 8 * index)
        if operation in (0x15, 0x35):
            assert index + 1 + max(if_true, if_false) < count
    assert struct.unpack_from("=H", code, 8 * (count - 1))[0] == 0x06


@pytest.mark.parametrize("name", MACHINES)
def test_the_tables_are_those_of_the_kernel(name: str) -> None:
    header = Path(HEADERS[name])
    if not header.exists():
        pytest.skip(f"the kernel's header {header} is not installed")
    defined: dict[str, int] = {}
    for prefix, call, number in re.findall(r"#define __NR(3264)?_(\w+)\s+(\d+)\b", header.read_text()):
        defined[{"fstatat": "newfstatat"}.get(call, call) if prefix else call] = int(number)
    machine = ARCHITECTURES[name]
    for call, numbers in {**PLAIN, **SCRATCH, **CONDITIONAL, **ABSENT}.items():
        number = numbers[machine.column]
        if number is None:
            assert call not in defined, call
        else:
            assert defined.get(call) == number, call


def test_no_number_stands_twice(machine: Architecture) -> None:
    tables = {**PLAIN, **SCRATCH, **CONDITIONAL, **ABSENT}
    numbers = [entry[machine.column] for entry in tables.values() if entry[machine.column] is not None]
    assert len(numbers) == len(set(numbers))
