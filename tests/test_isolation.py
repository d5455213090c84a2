"""The lock, tried from inside: every act below runs in a real locked process."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from locked_process import ENVIRONMENT, ROOT, Result, Scene, run, scene

from grader.sandbox import isolation, readable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the layers that are tested here")

WAYS = ("enter", "stay")
HIDDEN = (errno.EACCES, errno.ENOENT)
CLOSED = (errno.EACCES,)
FROZEN = (errno.EACCES, errno.EROFS)
FILTERED = (errno.EPERM,)

# What a submission may try, as an expression, and the errors that count as the lock's refusal.
FORBIDDEN: dict[str, tuple[str, tuple[int, ...]]] = {
    "read a file outside": ("open(outside).read()", CLOSED),
    "read it by way of /proc": ("open('/proc/self/root' + outside).read()", CLOSED),
    "read the users of the machine": ("open('/etc/passwd').read()", HIDDEN),
    "read the environment of its parent": ("open(f'/proc/{os.getppid()}/environ').read()", CLOSED),
    "read the memory of its parent": ("open(f'/proc/{os.getppid()}/mem', 'rb').read(1)", CLOSED),
    "write its own memory as a file": ("os.open('/proc/self/mem', os.O_RDWR)", CLOSED),
    "list the root": ("os.listdir('/')", CLOSED),
    "list the processes": ("os.listdir('/proc')", CLOSED),
    "list a folder outside": ("os.listdir(folder)", CLOSED),
    "write a file outside": ("open(outside, 'w')", FROZEN),
    "append to a file outside": ("open(outside, 'a')", FROZEN),
    "make a file outside": ("open(folder + '/made', 'w')", CLOSED),
    "make a file in the temporary folder": ("open('/tmp/made', 'w')", FROZEN),
    "make a file in shared memory": ("open('/dev/shm/made', 'w')", HIDDEN),
    "make a folder outside": ("os.mkdir(folder + '/made')", CLOSED),
    "remove a file outside": ("os.remove(folder + '/other')", CLOSED),
    "move a file in": ("os.rename(folder + '/other', scratch + '/other')", (errno.EACCES, errno.EXDEV)),
    "move a file out": ("os.rename(inside, folder + '/gone')", (errno.EACCES, errno.EXDEV)),
    "overwrite a library": ("open(os.__file__, 'r+')", FROZEN),
    "empty a library by reading it": ("os.open(os.__file__, os.O_RDONLY | os.O_TRUNC)", FILTERED),
    "shorten a file by name": ("os.truncate(inside, 1)", FILTERED),
    "change a mode": ("os.chmod(inside, 0o777)", FILTERED),
    "change an owner": ("os.chown(inside, os.getuid(), -1)", FILTERED),
    "change times": ("os.utime(inside)", FILTERED),
    "set an attribute": ("os.setxattr(inside, 'user.a', b'b')", FILTERED),
    "make a hard link": ("os.link(inside, scratch + '/link')", FILTERED),
    "make a symbolic link": ("os.symlink('/', scratch + '/link')", FILTERED),
    "make a named pipe": ("os.mkfifo(scratch + '/pipe')", FILTERED),
    "lock a file": ("fcntl.flock(opened, fcntl.LOCK_EX)", FILTERED),
    "lock a part of a file": ("fcntl.lockf(opened, fcntl.LOCK_EX)", FILTERED),
    "have others signalled": ("fcntl.fcntl(opened, fcntl.F_SETOWN, os.getppid())", FILTERED),
    "type into the terminal": ("fcntl.ioctl(0, termios.TIOCSTI, b'x')", FILTERED),
    "change folder": ("os.chdir(scratch)", FILTERED),
    "open a TCP socket": ("socket.socket()", FILTERED),
    "open a UDP socket": ("socket.socket(type=socket.SOCK_DGRAM)", FILTERED),
    "open a Unix socket": ("socket.socket(socket.AF_UNIX)", FILTERED),
    "open a pair of sockets": ("socket.socketpair()", FILTERED),
    "fork": ("os.fork()", FILTERED),
    "run a program": ("subprocess.run(['/bin/true'])", FILTERED),
    "spawn a program": ("os.posix_spawn('/bin/true', ['true'], {})", FILTERED),
    "become a program": ("os.execv('/bin/true', ['true'])", FILTERED),
    "signal its parent": ("os.kill(os.getppid(), 0)", FILTERED),
    "signal the first process": ("os.kill(1, 0)", FILTERED),
    "signal its group": ("os.kill(0, 0)", FILTERED),
    "signal everybody": ("os.kill(-1, 0)", FILTERED),
    "signal through a descriptor": ("os.pidfd_open(os.getpid())", FILTERED),
    "let others read its memory": ("linux.prctl(linux.PR_SET_DUMPABLE, 1)", FILTERED),
    "outlive its parent": ("linux.prctl(linux.PR_SET_PDEATHSIG, 0)", FILTERED),
    "use a descriptor left open": ("os.fstat(stray)", (errno.EBADF,)),
    "open many files": ("many()", (errno.EMFILE,)),
    "write a long file": ("long()", (errno.EFBIG,)),
    "reach 32-bit calls of x32": ("call(0x40000000 | 39)", FILTERED),
    "call clone3": ("call(435)", (errno.ENOSYS,)),
    "call what is newer than the table": ("call(9999)", (errno.ENOSYS,)),
}
if os.uname().machine != "x86_64":
    del FORBIDDEN["reach 32-bit calls of x32"]

# Calls that must not even be reached: x86-64 and aarch64 numbers, each called with zeros.
RAW = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "shmat": (30, 196), "semget": (64, 190),
    "msgget": (68, 186), "mq_open": (240, 180), "io_uring_setup": (425, 425), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "mount": (165, 40),
    "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97), "setns": (308, 268),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "mount_setattr": (442, 442), "reboot": (169, 142),
    "init_module": (175, 105), "kexec_load": (246, 104), "setuid": (105, 146), "setresuid": (117, 147), "setgroups": (116, 159),
    "capset": (126, 91), "setpgid": (109, 154), "setsid": (112, 157), "setpriority": (141, 140), "sched_setaffinity": (203, 122),
    "personality": (135, 92), "inotify_init1": (294, 26), "fanotify_init": (300, 262), "epoll_create1": (291, 20),
    "eventfd2": (290, 19), "timer_create": (222, 107), "sethostname": (170, 161), "syslog": (103, 116), "tkill": (200, 130),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "openat2": (437, 437), "execveat": (322, 281),
    "landlock_create_ruleset": (444, 444), "seccomp": (317, 277), "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438),
    "rt_sigqueueinfo": (129, 138), "quotactl": (179, 60), "swapon": (167, 224), "acct": (163, 89), "mknodat": (259, 33),
    "fchmodat": (268, 53), "fchownat": (260, 54), "utimensat": (280, 88), "linkat": (265, 37), "symlinkat": (266, 36),
    "fallocate": (285, 47), "mlock": (149, 228), "splice": (275, 76), "fork by clone": (56, 220),
}  # fmt: skip

ACTS = """
import ctypes, fcntl, signal, socket, subprocess, termios
from grader.sandbox import linux
inside = scratch + "/inside"
with open(inside, "w") as file:
    file.write("inside")
opened = os.open(inside, os.O_RDWR)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

def call(number):
    return linux.syscall(number, 0, 0, 0, 0, 0, 0)

def many():
    free = [fd for fd in range(300) if closed(fd)]
    try:
        return [os.dup(0) for _ in range(300)]
    finally:
        for fd in free:
            if not closed(fd):
                os.close(fd)

def closed(fd):
    try:
        os.fstat(fd)
    except OSError:
        return True

def long():
    with open(inside, "wb", buffering=0) as file:
        file.seek(policy.file_bytes)
        file.write(b"x")

for name, expression in json.loads({forbidden!r}).items():
    attempt(name, lambda: eval(expression))
for name, number in json.loads({raw!r}).items():
    attempt(name, lambda: call(number))
"""
# What the acts import, before the lock: the tests' own tools are no packages that a worker may read.
ACTS_PRELOAD = "import ctypes, fcntl, signal, socket, subprocess, termios\nfrom grader.sandbox import linux"


@pytest.fixture(scope="module")
def place() -> Iterator[Scene]:
    with scene() as made:
        (Path(made.folder) / "other").write_text("other")
        yield made


@pytest.fixture(scope="module")
def outcomes(place: Scene) -> dict[str, Result]:
    return {way: run(_acts(), place, enter=way == "enter", preload=ACTS_PRELOAD) for way in WAYS}


def _acts() -> str:
    column = 0 if os.uname().machine == "x86_64" else 1
    forbidden = json.dumps({name: expression for name, (expression, _) in FORBIDDEN.items()})
    return ACTS.format(forbidden=forbidden, raw=json.dumps({name: numbers[column] for name, numbers in RAW.items()}))


def need(result: Result, *layers: str) -> None:
    """Skip where the machine lacks a layer; a machine that has it and a lock without it is a failure."""
    for layer in layers:
        if layer not in result.layers:
            assert not machine_has(layer), result.missing
            pytest.skip(f"this machine has no {layer}: {result.missing.get(layer)}")


def need_namespaces(result: Result) -> None:
    if not result.entered:
        assert not machine_has("namespaces")
        pytest.skip("this machine denies namespaces")


def machine_has(layer: str) -> bool:
    """Asked of the kernel in the barest way, and not of the code under test."""
    if layer == "namespaces":
        bare = ["unshare", "--map-root-user", "--user", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "true"]
        return shutil.which("unshare") is not None and subprocess.run(bare, capture_output=True).returncode == 0
    if layer == "seccomp":
        return Path("/proc/sys/kernel/seccomp/actions_avail").exists()
    version = 1  # LANDLOCK_CREATE_RULESET_VERSION
    return layer == "landlock" and ctypes.CDLL(None).syscall(444, None, 0, version) > 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_forbidden_act_fails_with_an_error_and_nothing_worse(
    name: str, way: str, outcomes: dict[str, Result]
) -> None:
    result = outcomes[way]
    need(result, "landlock", "seccomp")
    said = result.said[name]
    assert said.get("errno") in FORBIDDEN[name][1], said


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", RAW)
def test_a_system_call_that_no_submission_needs_is_refused(name: str, way: str, outcomes: dict[str, Result]) -> None:
    result = outcomes[way]
    need(result, "seccomp")
    assert result.said[name].get("errno") == errno.EPERM, result.said[name]


@pytest.mark.parametrize("way", WAYS)
def test_nothing_outside_was_changed_by_all_that(way: str, outcomes: dict[str, Result], place: Scene) -> None:
    assert outcomes[way].status == 0
    assert Path(place.outside).read_text() == "outside"
    assert sorted(os.listdir(place.folder)) == ["other", "scratch"]
    assert os.listdir(place.scratch) == ["inside"]


@pytest.mark.parametrize("way", WAYS)
def test_the_same_acts_succeed_without_the_lock(way: str, place: Scene) -> None:
    """The control: it is the lock that refuses, and not the machine or a slip in the test."""
    acts = {
        name: FORBIDDEN[name][0]
        for name in ("read a file outside", "list the root", "open a TCP socket", "change times", "signal its parent")
    }
    # The twin must not go on with the list.
    acts["fork"] = "os.fork() or os._exit(0)"
    body = ACTS.format(forbidden=json.dumps(acts), raw="{}").replace("eval(expression)", "(eval(expression), None)[1]")
    result = run(body, place, enter=way == "enter", preload=ACTS_PRELOAD, policy={"layers": "off"})
    assert {name: result.said[name].get("text") for name in acts} == dict.fromkeys(acts)


def test_in_namespaces_what_is_not_shown_does_not_exist(outcomes: dict[str, Result], place: Scene) -> None:
    """Seen from the zygote, which no Landlock restricts, and from a worker, which may ask but not open."""
    need_namespaces(outcomes["enter"])
    Path(place.folder).parent.joinpath("hidden").write_text("hidden")
    preload = """
def say_list(name, path):
    say(name=name, value=sorted(os.listdir(path)) if os.path.isdir(path) else [])
say_list("root", "/")
say_list("etc", "/etc")
say_list("beside", os.path.dirname(setup["folder"]))
say_list("processes", "/proc")
say_list("covered", os.path.join(os.path.dirname(os.__file__), "site-packages"))
say(name="capabilities", value=[line for line in open("/proc/self/status") if line.startswith(("CapPrm", "CapEff"))])
"""
    hidden = ("/.old", "/home", "/var", "/usr/bin", "/etc/passwd", "/etc/hostname", f"{place.folder}/../hidden")
    body = f"for path in {hidden!r}: attempt(path, lambda: os.stat(path).st_size)\nattempt('pid', os.getpid)"
    result = run(body, place, preload=preload)
    seen = {name: result.said[name]["value"] for name in ("root", "etc", "beside", "processes", "covered")}
    view = readable.default_view(())
    tops = {path.split("/")[1] for path in (*view.paths, *view.folders, place.folder, str(ROOT), "/usr", "/proc")}
    assert set(seen["root"]) <= tops
    assert set(seen["etc"]) <= {"localtime", "ld.so.cache"}
    assert seen["beside"] == ["outside.txt", "work"]
    assert [name for name in seen["processes"] if name.isdigit()] == ["1"]
    assert seen["covered"] == []
    assert all(int(line.split()[1], 16) == 0 for line in result.said["capabilities"]["value"])
    for path in hidden:
        assert result.said[path].get("errno") == errno.ENOENT, result.said[path]
    assert result.said["pid"]["value"] < 10


def test_a_worker_of_root_is_nobody_in_namespaces(outcomes: dict[str, Result], place: Scene) -> None:
    need_namespaces(outcomes["enter"])
    if os.getuid() != 0:
        pytest.skip("the tests do not run as root")
    if outcomes["enter"].uid is None:
        pytest.skip(f"user {isolation.NOBODY} cannot read this Python")
    result = run("attempt('uid', os.getuid); attempt('groups', lambda: os.getgid())", place)
    assert result.said["uid"]["value"] == isolation.NOBODY
    assert result.said["groups"]["value"] == isolation.NOBODY


# --- What must go on working ---------------------------------------------------------------------------------------------

LEGAL = {
    "scratch": "(open(scratch + '/a', 'w').write('abc'), os.rename(scratch + '/a', scratch + '/b'), os.remove(scratch + '/b'))",
    "scratch folder": "(os.mkdir(scratch + '/d'), os.listdir(scratch), os.rmdir(scratch + '/d'))",
    "throw output away": "print('x', file=open(os.devnull, 'w'))",
    "read nothing": "open(os.devnull).read()",
    "randomness": "len(os.urandom(8)) + len(open('/dev/urandom', 'rb').read(8))",
    "processors": "os.cpu_count()",
    "a pipe of its own": "[os.close(fd) for fd in os.pipe()]",
    "signal itself": "os.kill(os.getpid(), 0)",
    "handle a signal": "(signal.signal(signal.SIGUSR1, lambda *_: None), os.kill(os.getpid(), signal.SIGUSR1))",
    "its own size": "len(open('/proc/self/status').read()) > 0",
    "limits": "resource.getrlimit(resource.RLIMIT_AS)[0]",
    "sleep": "time.sleep(0.001)",
    "threads": "[(t.start(), t.join()) for t in [threading.Thread(target=time.sleep, args=(0.001,)) for _ in range(8)]]",
    "a pool of threads": "list(concurrent.futures.ThreadPoolExecutor(4).map(abs, range(-9, 9)))",
    "a wait": "threading.Event().wait(0.001)",
    "local time": "datetime.datetime.now().astimezone().isoformat()",
    "a time zone": "zoneinfo.ZoneInfo('UTC').key",
    "decimal": "str(decimal.Decimal(1) / 3)",
    "json": "json.dumps({'a': [1, 2]})",
    "a data class": "dataclasses.make_dataclass('D', ['x'])(1).x",
    "typing": "str(typing.get_type_hints(dataclasses.make_dataclass('D', [('x', int)])))",
    "mock": "unittest.mock.Mock(return_value=3)()",
    "source of the library": "len(inspect.getsource(json.dumps))",
    "multiprocessing, imported": "multiprocessing.__name__",
    "sqlite, imported": "sqlite3.sqlite_version",
    "hash": "hashlib.sha256(b'x').hexdigest()",
    "compression": "len(lzma.compress(bz2.compress(zlib.compress(b'x'))))",
    "regular expressions": "re.sub('a+', 'b', 'aaa')",
    "logging": "logging.getLogger('x').info('y')",
    "a traceback": "traceback.format_exc()",
    "asyncio, imported": "asyncio.__name__",
    "metadata": "len(list(importlib.metadata.distributions()))",
    "the clock": "time.perf_counter() > 0 and time.process_time() > 0 and time.time() > 0",
    "an alarm": "signal.setitimer(signal.ITIMER_REAL, 0)",
    "memory": "len(bytearray(50_000_000))",
    "faulthandler": "faulthandler.enable(open(os.devnull, 'w'))",
    "terminal size": "shutil.get_terminal_size().columns",
    "no temporary folder, said plainly": "'refused' if _no_temporary() else 'made'",
}
LEGAL_BODY = """
import asyncio, bz2, concurrent.futures, dataclasses, datetime, decimal, faulthandler, hashlib, importlib.metadata, inspect
import logging, lzma, multiprocessing, re, resource, shutil, signal, sqlite3, tempfile, threading, time, traceback, typing
import unittest.mock, zlib, zoneinfo

def _no_temporary():
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        return True

for name, expression in json.loads({legal!r}).items():
    attempt(name, lambda: eval(expression))
"""


@pytest.fixture(scope="module")
def legal(place: Scene) -> dict[str, Result]:
    body = LEGAL_BODY.format(legal=json.dumps(LEGAL))
    return {way: run(body, place, enter=way == "enter") for way in WAYS}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LEGAL)
def test_what_a_submission_may_do_works(name: str, way: str, legal: dict[str, Result]) -> None:
    result = legal[way]
    assert name in result.said, f"the worker ended before, status {result.status}"
    assert "value" in result.said[name], result.said[name]


TORCH = {
    "matmul": "float((torch.ones(64, 64) @ torch.ones(64, 64)).sum())",
    "backward": "backward()",
    "backward in double precision, twice": "[backward() for _ in range(2)]",
    "svd": "torch.linalg.svd(torch.randn(20, 20)).S.shape[0]",
    "eigenvalues": "torch.linalg.eigvalsh(torch.eye(4)).tolist()",
    "fft": "torch.fft.irfft(torch.fft.rfft(torch.ones(16))).tolist()",
    "vmap": "torch.func.vmap(lambda a: a * 2)(torch.ones(3, 4)).shape[0]",
    "jacobian": "torch.func.jacrev(lambda a: a**2)(torch.ones(3)).shape[0]",
    "gradcheck": "torch.autograd.gradcheck(lambda a: a * a, torch.ones(3, dtype=torch.float64, requires_grad=True))",
    "attention": "F.scaled_dot_product_attention(*[torch.ones(2, 4, 8, 8) for _ in range(3)], is_causal=True).shape[0]",
    "convolution": "torch.nn.Conv2d(3, 8, 3)(torch.ones(2, 3, 16, 16)).shape[1]",
    "bfloat16": "float((torch.ones(64, 64).bfloat16() @ torch.ones(64, 64).bfloat16())[0, 0])",
    "encoder layer": "torch.nn.TransformerEncoderLayer(16, 2, batch_first=True)(torch.ones(2, 5, 16)).shape[2]",
    "einsum": "torch.einsum('bij,bjk->bik', torch.ones(2, 3, 4), torch.ones(2, 4, 5)).shape[2]",
    "print a tensor": "repr(torch.ones(2))",
    "random numbers": "(torch.manual_seed(3), torch.seed(), torch.randn(3))[2].shape[0]",
    "an optimizer, imported late": "optimize()",
    "source of a module": "len(inspect.getsource(torch.nn.Linear)) > 100",
    "version by metadata": "importlib.metadata.version('torch')",
    "torch in threads": "[(t.start(), t.join()) for t in [threading.Thread(target=backward) for _ in range(4)]]",
    "numpy": "float(np.linalg.svd(np.random.default_rng(1).random((9, 9)))[1].sum()) > 0",
    "numpy fft": "float(np.abs(np.fft.fft(np.ones(8))).sum())",
    "numpy, imported late": "__import__('numpy.testing').testing.assert_allclose(1, 1)",
}
TORCH_BODY = """
import importlib.metadata, inspect, threading
import torch.nn.functional as F

def backward():
    x = torch.ones(32, 32, requires_grad=True)
    (x @ x).softmax(-1).sum().backward()
    return x.grad.shape[0]

def optimize():
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    return "torch._dynamo" in sys.modules

for name, expression in json.loads({torch!r}).items():
    attempt(name, lambda: eval(expression))
attempt("more memory than the budget", lambda: torch.empty(policy.memory_bytes * 2, dtype=torch.uint8).fill_(1))
attempt("save to a file", lambda: torch.save({{}}, "/model.pt"))
"""


@pytest.fixture(scope="module")
def with_torch(place: Scene) -> dict[str, Result]:
    pytest.importorskip("torch")
    body = TORCH_BODY.format(torch=json.dumps(TORCH))
    packages = readable.PACKAGES
    return {
        way: run(
            body, place, enter=way == "enter", preload="import torch, numpy as np, numpy.random", packages=packages
        )
        for way in WAYS
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", TORCH)
def test_torch_and_numpy_work_under_the_lock(name: str, way: str, with_torch: dict[str, Result]) -> None:
    result = with_torch[way]
    assert name in result.said, f"the worker ended before, status {result.status}"
    assert "value" in result.said[name], result.said[name]


@pytest.mark.parametrize("way", WAYS)
def test_torch_meets_the_limits_as_errors(way: str, with_torch: dict[str, Result]) -> None:
    said = with_torch[way].said
    assert "allocate memory" in said["more memory than the budget"]["text"]
    assert "error" in said["save to a file"]
    assert with_torch[way].status == 0


# --- Limits and endings --------------------------------------------------------------------------------------------------


def test_memory_over_the_budget_is_a_memory_error(place: Scene) -> None:
    body = "attempt('half', lambda: len(bytearray(32 << 20))); attempt('twice', lambda: len(bytearray(128 << 20)))"
    result = run(body, place, policy={"memory_bytes": 64 << 20})
    assert result.said["half"]["value"] == 32 << 20
    assert result.said["twice"]["error"] == "MemoryError"


@pytest.mark.parametrize("way", WAYS)
def test_threads_without_end_come_to_one(way: str, place: Scene) -> None:
    body = """
import threading
def start():
    threads = 0
    while threads < 5000:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        threads += 1
    return threads
attempt("threads", start)
"""
    result = run(body, place, enter=way == "enter", policy={"memory_bytes": 1 << 30})
    assert result.said["threads"]["error"] == "RuntimeError", result.said["threads"]
    assert result.status == 0


def test_computing_without_end_is_ended_by_the_kernel(place: Scene) -> None:
    body = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    assert run(body, place, policy={"cpu_seconds": 1}).status in (-signal.SIGXCPU, -signal.SIGKILL)


def test_limits_cannot_be_raised_again(place: Scene) -> None:
    body = """
import resource
for name in ("AS", "CPU", "NPROC", "NOFILE", "FSIZE", "CORE"):
    number = getattr(resource, "RLIMIT_" + name)
    attempt(name + " hard", lambda: resource.getrlimit(number)[1])
    attempt(name, lambda: resource.setrlimit(number, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)))
"""
    said = run(body, place).said
    for name in ("AS", "CPU", "NPROC", "NOFILE", "FSIZE", "CORE"):
        assert said[f"{name} hard"]["value"] >= 0
        assert "error" in said[name], said[name]


def test_without_a_scratch_folder_nothing_can_be_written(place: Scene) -> None:
    body = """
attempt("open", lambda: open(scratch + "/x", "w"))
attempt("mkdir", lambda: os.mkdir(scratch + "/x"))
attempt("remove", lambda: os.remove(scratch + "/x"))
attempt("null", lambda: open(os.devnull, "w").write("x"))
"""
    said = run(body, place, policy={"scratch": None}).said
    assert {name: said[name]["errno"] for name in ("open", "mkdir", "remove")} == {
        "open": errno.EACCES,
        "mkdir": errno.EPERM,
        "remove": errno.EPERM,
    }
    assert said["null"]["value"] == 1


def test_a_worker_may_end_itself(place: Scene) -> None:
    assert run("os.kill(os.getpid(), 9)", place).status == -signal.SIGKILL
    assert run("os.abort()", place).status == -signal.SIGABRT
    assert run("os._exit(5)", place).status == 5


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="int 0x80 is an instruction of x86")
def test_calls_of_another_architecture_kill(place: Scene) -> None:
    # mov eax, 20 (getpid of i386); int 0x80; ret
    body = """
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b814000000cd80c3"))
function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
attempt("pid", lambda: function() == os.getpid())
"""
    preload = "import ctypes, mmap"
    free = run(body, place, enter=False, preload=preload, policy={"layers": "off"})
    if free.said.get("pid", {}).get("value") is not True:
        pytest.skip("this kernel has no calls of i386")
    assert run(body, place, preload=preload).status == -signal.SIGSYS


def test_a_worker_does_not_outlive_its_zygote() -> None:
    script = f"""
import os, signal, sys, time
sys.path.insert(0, {str(ROOT)!r})
from grader.sandbox import isolation
parent = os.getpid()
worker = os.fork()
if worker == 0:
    isolation.lock(isolation.Policy(isolation.default_read_paths(())), (0, 1, 2), parent)
    print("locked", flush=True)
    time.sleep(600)
    os._exit(0)
print(worker, flush=True)
time.sleep(600)
"""
    zygote = subprocess.Popen([sys.executable, "-I", "-B", "-c", script], stdout=subprocess.PIPE, text=True, cwd="/")
    assert zygote.stdout is not None
    lines = [zygote.stdout.readline().strip() for _ in range(2)]
    worker = next(int(line) for line in lines if line != "locked")
    assert "locked" in lines
    # If the machine runs out of memory, the kernel takes this one first.
    assert Path(f"/proc/{worker}/oom_score_adj").read_text().strip() == "1000"
    pidfd = os.pidfd_open(worker)
    zygote.kill()
    zygote.wait()
    ended, _, _ = select.select([pidfd], [], [], 20)
    if not ended:
        os.kill(worker, signal.SIGKILL)
    os.close(pidfd)
    zygote.stdout.close()
    assert ended


def test_a_worker_whose_zygote_is_gone_already_ends() -> None:
    script = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from grader.sandbox import isolation
isolation.lock(isolation.Policy(), (0, 1, 2), parent=os.getppid() + 1)
"""
    done = subprocess.run([sys.executable, "-I", "-B", "-c", script], cwd="/")
    assert done.returncode == -signal.SIGKILL


def test_a_process_with_two_threads_is_not_locked() -> None:
    script = f"""
import sys, threading
sys.path.insert(0, {str(ROOT)!r})
from grader.sandbox import isolation
threading.Thread(target=threading.Event().wait, args=(5,), daemon=True).start()
try:
    isolation.lock(isolation.Policy(), (0, 1, 2))
except RuntimeError as error:
    print(error, flush=True)
"""
    done = subprocess.run([sys.executable, "-I", "-B", "-c", script], capture_output=True, text=True, cwd="/")
    assert "2 threads" in done.stdout


# --- What holds, and machines that lack something ------------------------------------------------------------------------


def test_the_probe_finds_what_the_lock_set_up(outcomes: dict[str, Result]) -> None:
    found = isolation.probe()
    assert {"landlock", "seccomp", "limits", "descriptors", "capabilities"} & set(outcomes["enter"].layers) <= set(
        found.layers
    )
    assert ("namespaces" in found.layers) == bool(outcomes["enter"].entered)
    assert found.level == isolation.level_of(found.layers)
    json.dumps(found.to_dict())


def test_without_namespaces_the_rest_holds(outcomes: dict[str, Result]) -> None:
    need(outcomes["stay"], "landlock", "seccomp")
    found = isolation.probe(enter=False)
    assert found.level == "no-namespaces"
    assert {"capabilities", "descriptors"} <= set(found.layers)
    assert [one.layer for one in found.missing if one.layer == "namespaces"] == ["namespaces"]


def test_the_probe_believes_acts_and_not_a_lock_that_is_off() -> None:
    found = isolation.probe(enter=False, layers="off")
    assert found.level == "limits-only"
    assert not {"landlock", "seccomp"} & set(found.layers)
    reasons = {one.layer: one.reason for one in found.missing}
    assert "read a file outside: it succeeded" in reasons["landlock"]
    assert "open a socket: it succeeded" in reasons["seccomp"]


# A filter that answers some calls with an error, as containers' profiles and old kernels do.
DENY = """
import sys, struct, ctypes
sys.path.insert(0, {root!r})
from grader.sandbox import linux, seccomp
linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
column = seccomp.architecture().column
lines = [seccomp._instruction(0x20, 0)]
for number in {numbers!r}:
    lines += [seccomp._instruction(0x15, number[column], 0, 1), seccomp._instruction(0x06, 0x00050000 | {errno})]
lines.append(seccomp._instruction(0x06, 0x7FFF0000))
seccomp.install(b"".join(lines))
"""
UNSHARE, LANDLOCK, MOUNT, UNMOUNT, SECCOMP_LOADERS = (272, 97), (444, 444), (165, 40), (166, 39), (157, 167)


def deny(*numbers: tuple[int, int], error: int = errno.EPERM) -> str:
    return DENY.format(root=str(ROOT), numbers=numbers, errno=error)


def probe_with(before: str) -> dict[str, Any]:
    script = (
        before + "\nimport json\nfrom grader.sandbox import isolation\nprint(json.dumps(isolation.probe().to_dict()))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", script], capture_output=True, text=True, cwd="/", timeout=60
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_where_namespaces_are_denied_it_goes_on_without(outcomes: dict[str, Result], place: Scene) -> None:
    need(outcomes["stay"], "landlock", "seccomp")
    found = probe_with(deny(UNSHARE))
    assert found["level"] == "no-namespaces"
    assert {"landlock", "seccomp", "limits"} <= set(found["layers"])
    reason = next(one for one in found["missing"] if one["layer"] == "namespaces")
    assert "Operation not permitted" in reason["reason"] and reason["remedy"]


def test_namespaces_that_can_be_entered_and_not_used_are_not_entered(outcomes: dict[str, Result], place: Scene) -> None:
    """Some systems let anybody in and then refuse mounts: the launcher must not end up halfway."""
    need(outcomes["stay"], "landlock", "seccomp")
    outer = "\nimport os\nouter = os.readlink('/proc/self/ns/net')\n"
    preload = "say(name='still outside', value=os.readlink('/proc/self/ns/net') == outer)"
    body = "attempt('see', lambda: os.stat('/etc/passwd').st_size)"
    result = run(body, place, preload=preload, before=deny(MOUNT) + outer)
    assert result.entered == ()
    assert result.said["still outside"]["value"] is True
    assert result.said["see"].get("value", 0) > 0
    assert result.status == 0


def test_without_landlock_nothing_can_be_written_and_the_level_says_so(place: Scene) -> None:
    before = deny(LANDLOCK, error=errno.ENOSYS)
    found = probe_with(before)
    assert found["level"] == "limits-only" and "landlock" not in found["layers"]
    assert any(one["layer"] == "landlock" and "no Landlock" in one["reason"] for one in found["missing"])
    body = """
attempt("write", lambda: open(scratch + "/x", "w"))
attempt("append", lambda: open(outside, "a"))
attempt("mkdir", lambda: os.mkdir(scratch + "/x"))
attempt("read", lambda: open(os.__file__).read(1))
"""
    said = run(body, place, enter=False, before=before).said
    assert {said[name].get("errno") for name in ("write", "append", "mkdir")} == {errno.EPERM}
    assert "value" in said["read"]


def test_an_ordinary_user_gets_the_same_lock(place: Scene) -> None:
    """As root, the tests above ran as root; this one runs the acts as a user without any privilege."""
    if os.getuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    python = _python_for_everybody()
    if python is None:
        pytest.skip("no Python 3.11 or newer, or not this project, can be read by an ordinary user here")
    for way in WAYS:
        result = run(_acts(), place, enter=way == "enter", preload=ACTS_PRELOAD, python=python, user=54321)
        if way == "enter" and not result.entered:
            # Ubuntu and others keep user namespaces to root; the second round is what they have.
            continue
        need(result, "landlock", "seccomp")
        assert result.status == 0
        if way == "stay":
            # The kernel gives the files of a process that must not be traced to root.
            traced = run(
                "attempt('owner', lambda: os.stat('/proc/self/environ').st_uid)",
                place,
                enter=False,
                python=python,
                user=54321,
            )
            assert traced.said["owner"]["value"] == 0
        wrong = {
            name: result.said[name] for name in FORBIDDEN if result.said[name].get("errno") not in FORBIDDEN[name][1]
        }
        wrong |= {name: result.said[name] for name in RAW if result.said[name].get("errno") != errno.EPERM}
        assert wrong == {}


def _python_for_everybody() -> str | None:
    check = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import grader.sandbox.isolation; sys.exit(sys.version_info < (3, 11))"
    for name in ("python3.14", "python3.13", "python3.12", "python3.11", "python3"):
        python = shutil.which(name, path="/usr/bin:/usr/local/bin")
        if python is not None:
            done = subprocess.run(
                [python, "-I", "-B", "-c", check],
                user=54321,
                group=54321,
                extra_groups=[],
                capture_output=True,
                cwd="/",
            )
            if done.returncode == 0:
                return python
    return None


@pytest.mark.parametrize(("platform", "layers"), [("darwin", ("limits",)), ("win32", ())])
def test_elsewhere_it_imports_and_says_that_only_limits_hold(platform: str, layers: tuple[str, ...]) -> None:
    script = textwrap.dedent(
        f"""
        import sys
        sys.path.insert(0, {str(ROOT)!r})
        import json
        sys.platform = {platform!r}
        from grader.sandbox import isolation
        entered = isolation.settle(isolation.enter_namespaces())
        applied = isolation.lock(isolation.Policy(cpu_seconds=50), (0, 1, 2))
        print(json.dumps([entered.names, isolation.probe().to_dict(), applied.to_dict()]))
        """
    )
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", script], capture_output=True, text=True, env=ENVIRONMENT, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    names, probed, applied = json.loads(done.stdout)
    assert names == []
    assert probed["level"] == "limits-only" and tuple(probed["layers"]) == layers
    assert tuple(applied["layers"]) == layers
    for one in (*probed["missing"], *applied["missing"]):
        assert one["reason"]
    assert {"namespaces", "landlock", "seccomp"} <= {one["layer"] for one in applied["missing"]}


def test_an_unknown_machine_has_no_filter_and_says_so(place: Scene) -> None:
    path = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    before = path + "from grader.sandbox import seccomp\nseccomp.ARCHITECTURES.clear()\n"
    result = run("attempt('read', lambda: open(outside).read())", place, enter=False, before=before)
    assert "seccomp" not in result.layers
    assert os.uname().machine in result.missing["seccomp"]
    assert result.said["read"]["errno"] == errno.EACCES


def test_a_policy_survives_json() -> None:
    policy = isolation.Policy(("/a",), ("/b",), "/c", 1, 2, 3, 4, 5, None, "off")
    assert isolation.Policy.from_dict(json.loads(json.dumps(policy.to_dict()))) == policy
    with pytest.raises(TypeError):
        isolation.Policy.from_dict({"read_path": ["/a"]})


@pytest.mark.parametrize(
    ("layers", "level"),
    [
        ({"namespaces", "landlock", "seccomp", "limits"}, "full"),
        ({"landlock", "seccomp", "limits"}, "no-namespaces"),
        ({"namespaces", "seccomp", "limits"}, "limits-only"),
        ({"namespaces", "landlock", "limits"}, "limits-only"),
        ({"namespaces", "landlock", "seccomp"}, "limits-only"),
        (set(), "limits-only"),
    ],
)
def test_a_level_needs_each_of_its_layers(layers: set[str], level: str) -> None:
    assert isolation.level_of(layers) == level


def test_importing_it_brings_in_no_framework() -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import grader.sandbox.isolation; print(*sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-I", "-B", "-c", script], capture_output=True, text=True, cwd="/")
    loaded = set(done.stdout.split())
    assert not {"numpy", "torch", "pydantic", "subprocess", "json", "socket"} & loaded
