"""Workers as the grader sees them: one interface, two ways to start one.

`ForkRunner` keeps a zygote that has imported the framework and forks a worker in milliseconds; `ExecRunner` starts a
fresh interpreter per worker, for platforms that cannot fork safely (and, on Linux, to test every fixture both ways).
Time and memory are measured here, from outside: the wall clock is the grader's, CPU time, resident memory and exit
status are the kernel's. A missing reply is never a pass.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from grader.errors import GraderFault
from grader.sandbox import protocol
from grader.sandbox.launch import Zygote, command, environment, launch
from grader.sandbox.protocol import Value

PIPE_BYTES = 1 << 20
F_SETPIPE_SZ = 1031
START_SECONDS = 120.0
EXIT_SECONDS = 5.0
KEPT_OUTPUT = 64 << 10
CHECK_SECONDS = 0.005
GRACE_SECONDS = 2.0
# A byte of JSON such as `[],` becomes that many of objects, at most.
OBJECT_COST = 24

Answer = Callable[[str, Value], Value]


@dataclass(frozen=True)
class Limits:
    """What one request may cost: CPU seconds of the worker, wall seconds, bytes resident above the start, bytes of a reply."""

    cpu_seconds: float = 5.0
    wall_seconds: float = 20.0
    memory_bytes: int = 2 << 30
    reply_bytes: int = protocol.MAX_PAYLOAD

    @classmethod
    def of(cls, seconds: float, memory_mb: float = 2048) -> Limits:
        """``seconds`` of CPU time; the wall limit is wider, so that a busy machine is no verdict."""
        return cls(seconds, 3 * seconds + 5, int(memory_mb * (1 << 20)))


@dataclass(frozen=True)
class Fault:
    """Why there is no reply. ``kind``: timeout, memory, exited, signal, too_large, garbled, lost.

    Lost means that nobody can say how the worker ended, because the process that started it is gone: the grader's fault.
    ``grown`` is how many bytes it was last seen to hold above its start.
    """

    kind: str
    detail: str = ""
    status: int | None = None
    grown: int = 0


@dataclass(frozen=True)
class Reply:
    """``cost`` is about what the reply occupies here: its bytes, those of the header as objects."""

    header: dict[str, Any]
    buffers: tuple[memoryview, ...]
    cost: int = 0

    def value(self, key: str = "value") -> Value:
        """Decode the value under ``key``; raises `ProtocolError`."""
        return protocol.decode(self.header.get(key), list(self.buffers))


class ProcessHandle(Protocol):
    pid: int

    def exited(self) -> bool: ...
    def fileno(self) -> int | None: ...
    def kill(self) -> None: ...
    def status(self) -> int | None: ...
    def close(self) -> None: ...


class Runner(Protocol):
    """Something that starts workers for one framework."""

    versions: dict[str, str]
    import_seconds: float
    # The namespaces that workers live in.
    entered: tuple[str, ...]

    @property
    def died(self) -> bool: ...
    def wait_ready(self) -> None: ...
    def spawn(self, policy: dict[str, Any] | None) -> Worker: ...
    def close(self) -> None: ...


class Worker:
    """One process that hosts a submission or a reference. Not shared between threads."""

    def __init__(self, process: ProcessHandle, requests: int, replies: int, output: int) -> None:
        self._process = process
        self._requests = requests
        self._replies = replies
        self._output = output
        self._open = True
        self._text = bytearray()
        self.dropped_output = 0
        self.applied: dict[str, Any] = {}
        # Told by a worker that was started by exec; a zygote's workers share the runner's.
        self.versions: dict[str, str] = {}
        self._base_rss = 0
        self._grown = 0
        # What is still to be written, and how many requests wait for their reply.
        self._unsent: list[memoryview] = []
        self._asked = 0
        for fd in (requests, replies, output):
            os.set_blocking(fd, False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_seconds(self) -> float:
        """Computing time so far, all threads; 0 where it cannot be told, as of a worker that has ended."""
        return self._cpu() or 0.0

    @property
    def alive(self) -> bool:
        return self._open and not self._process.exited()

    def wait_ready(self, seconds: float = START_SECONDS) -> Fault | None:
        """Wait until the worker says that it is locked and serving; every clock starts after that."""
        got = self._exchange(Limits(seconds, seconds), None)
        if isinstance(got, Fault):
            return got
        self.applied = got.header.get("applied") or {}
        self.versions = got.header.get("versions") or {}
        self._base_rss = self._rss()
        return None

    def request(
        self,
        header: dict[str, Any],
        values: dict[str, Value] | None = None,
        blobs: list[bytes] | None = None,
        limits: Limits = Limits(),
        answer: Answer | None = None,
    ) -> Reply | Fault:
        """Send one request and wait for its reply within ``limits``; a `Fault` leaves the worker dead.

        ``values`` are encoded under their keys; ``blobs`` travel as the first buffers.
        """
        if not self._open:
            return Fault("exited", "the worker has ended")
        if self._asked:
            raise GraderFault("a worker was asked while it still had other answers to give")
        self.send(header, values, blobs)
        return self.receive(limits, answer)

    def send(
        self, header: dict[str, Any], values: dict[str, Value] | None = None, blobs: list[bytes] | None = None
    ) -> None:
        """Ask without waiting; replies come in the order of the requests, each from one `receive`.

        Not for a request during which the worker calls back.
        """
        buffers: list[Any] = list(blobs or [])
        message = dict(header)
        for key, value in (values or {}).items():
            message[key] = protocol.encode(value, buffers)
        self._unsent += [memoryview(piece) for piece in protocol.pack(message, buffers)]
        self._asked += 1
        if self._open and not self._write(self._unsent):
            self._unsent = []

    def receive(self, limits: Limits = Limits(), answer: Answer | None = None) -> Reply | Fault:
        """Wait for the reply to the oldest request, within ``limits`` that count from now."""
        if not self._open:
            return Fault("exited", "the worker has ended")
        self._asked -= 1
        return self._exchange(limits, answer)

    @property
    def asked(self) -> int:
        """How many requests wait for their reply."""
        return self._asked

    @property
    def unsent_bytes(self) -> int:
        """Bytes of requests that did not fit into the pipe yet."""
        return sum(map(len, self._unsent))

    def take_output(self) -> bytes:
        """What the submission printed since the last call, up to the cap."""
        self._drain_output()
        text = bytes(self._text)
        self._text.clear()
        return text

    def close(self) -> None:
        """Kill the process and release its descriptors; safe to call twice."""
        if not self._open:
            return
        self._open = False
        self._process.kill()
        for fd in (self._requests, self._replies, self._output):
            os.close(fd)
        # The numbers may be given to other files at once: nothing may be read from them by mistake.
        self._requests = self._replies = self._output = -1
        self._process.status()
        self._process.close()

    def _exchange(self, limits: Limits, answer: Answer | None) -> Reply | Fault:
        started = time.monotonic()
        cpu_start = self._cpu()
        received = bytearray()
        wanted = protocol.PREFIX.size
        header_length = -1
        watched = self._process.fileno()
        pause = 0.002
        checked = started
        late: float | None = None
        while True:
            if time.monotonic() - checked > CHECK_SECONDS:
                # Whatever there is to read: a worker that never stops talking is held to its limits as well.
                over = self._over(limits, cpu_start)
                if over is not None:
                    return self._end(over)
                checked = time.monotonic()
            poll = select.poll()
            poll.register(self._replies, select.POLLIN)
            if self._output >= 0:
                poll.register(self._output, select.POLLIN)
            if watched is not None:
                poll.register(watched, select.POLLIN)
            if self._unsent:
                poll.register(self._requests, select.POLLOUT)
            events = dict(poll.poll(pause * 1000))
            pause = min(pause * 1.5, 0.05)
            now = time.monotonic()
            if now - started > limits.wall_seconds:
                # Where a reply waits to be read it may be this process that was stopped for a while.
                late = now if late is None else late
                if self._replies not in events or now - late > GRACE_SECONDS:
                    return self._end(Fault("timeout", f"{limits.wall_seconds:g} s"))
            if self._output in events:
                self._drain_output()
            if self._unsent and self._requests in events and not self._write(self._unsent):
                self._unsent = []
            ended = False
            if self._replies in events:
                try:
                    chunk = os.read(self._replies, min(wanted - len(received), 1 << 20))
                except BlockingIOError:
                    chunk = None
                if chunk == b"":
                    ended = True
                elif chunk:
                    received += chunk
                    pause = 0.002
            if len(received) == wanted:
                if header_length < 0:
                    try:
                        header_length, payload = protocol.parse_prefix(bytes(received), max_payload=limits.reply_bytes)
                    except protocol.TooLarge as error:
                        return self._end(Fault("too_large", str(error)))
                    received = bytearray()
                    wanted = header_length + payload
                    if wanted:
                        continue
                try:
                    header, views = protocol.parse_body(received, header_length)
                    if "callback" not in header:
                        return Reply(header, tuple(views), OBJECT_COST * header_length + payload)
                    self._unsent += self._answer(header, views, answer)
                except protocol.ProtocolError as error:
                    return self._end(Fault("garbled", str(error)))
                received, wanted, header_length = bytearray(), protocol.PREFIX.size, -1
                continue
            if (
                ended
                or (watched is not None and watched in events and self._replies not in events)
                or self._process.exited()
            ):
                # Asked anew: what it wrote just before its end may have come after the last look.
                if not ended and self._answering():
                    continue
                return self._end(self._last_words())

    def _answering(self) -> bool:
        """Whether there is something to read from the worker now, if only the end of its replies."""
        poll = select.poll()
        poll.register(self._replies, select.POLLIN)
        return bool(poll.poll(0))

    def _over(self, limits: Limits, cpu_start: float | None) -> Fault | None:
        """Which limit of the kernel's counting the worker has passed in this exchange, if any."""
        cpu = self._cpu()
        if cpu is not None and cpu_start is not None and cpu - cpu_start > limits.cpu_seconds:
            return Fault("timeout", f"{limits.cpu_seconds:g} s of computing time")
        self._grown = self._rss() - self._base_rss if self._base_rss else 0
        if self._grown > limits.memory_bytes:
            return Fault("memory", f"{limits.memory_bytes >> 20} MB", grown=self._grown)
        return None

    def _answer(self, header: dict[str, Any], views: list[memoryview], answer: Answer | None) -> list[memoryview]:
        if answer is None:
            raise protocol.ProtocolError("a call of a function that was not handed in")
        arguments = protocol.decode(header.get("args"), views)
        buffers: list[Any] = []
        try:
            body = {"value": protocol.encode(answer(str(header["callback"]), arguments), buffers)}
        except ValueError as error:
            body, buffers = {"refused": str(error)}, []
        return [memoryview(piece) for piece in protocol.pack(body, buffers)]

    def _write(self, pieces: list[memoryview]) -> bool:
        """Write what the pipe takes; False when the worker no longer reads."""
        try:
            while pieces:
                count = os.write(self._requests, pieces[0])
                pieces[0] = pieces[0][count:]
                if not pieces[0]:
                    pieces.pop(0)
        except BlockingIOError:
            pass
        except BrokenPipeError:
            return False
        return True

    def _drain_output(self) -> None:
        if self._output < 0:
            return
        for _ in range(64):
            try:
                chunk = os.read(self._output, 1 << 16)
            except (BlockingIOError, OSError):
                return
            if not chunk:
                return
            room = max(0, KEPT_OUTPUT - len(self._text))
            self._text += chunk[:room]
            self.dropped_output += len(chunk) - len(chunk[:room])

    def _last_words(self) -> Fault:
        deadline = time.monotonic() + EXIT_SECONDS
        while not self._process.exited() and time.monotonic() < deadline:
            time.sleep(0.001)
        if not self._process.exited():
            # It closed its pipe and lives on: nothing more can come from it.
            return Fault("exited", "closed its reply pipe")
        status = self._process.status()
        if status is None:
            return Fault("lost", "the process that starts workers ended during a call")
        if status < 0:
            try:
                name = signal.Signals(-status).name
            except ValueError:
                name = f"signal {-status}"
            return Fault("signal", name, status, self._grown)
        return Fault("exited", f"exit status {status}", status)

    def _end(self, fault: Fault) -> Fault:
        self._drain_output()
        self.close()
        return fault

    def _cpu(self) -> float | None:
        """CPU seconds of the worker so far, all threads, from the kernel's per-process clock."""
        try:
            return time.clock_gettime((~self._process.pid << 3) | 2)
        except (OSError, AttributeError, OverflowError):
            return None

    def _rss(self) -> int:
        try:
            with open(f"/proc/{self._process.pid}/statm", "rb") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            return 0


class _Forked:
    """A child of the zygote: watched and killed through its pidfd, its exit status told by the zygote."""

    def __init__(self, runner: ForkRunner, number: int, pidfd: int, pid: int) -> None:
        self._runner, self._number, self._pidfd, self.pid = runner, number, pidfd, pid

    def fileno(self) -> int | None:
        return self._pidfd

    def exited(self) -> bool:
        if self._pidfd < 0:
            return True
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def kill(self) -> None:
        try:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        except (ProcessLookupError, OSError):
            pass

    def status(self) -> int | None:
        return self._runner._exit_status(self._number)

    def close(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


class _Executed:
    """A child of the grader itself."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except (AttributeError, OSError):
            self._pidfd = -1

    def fileno(self) -> int | None:
        return self._pidfd if self._pidfd >= 0 else None

    def exited(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()

    def status(self) -> int | None:
        try:
            return self._process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


class ForkRunner:
    """A zygote and the workers it forks. Start it first, do other work, then `wait_ready`."""

    def __init__(self, zygote: Zygote) -> None:
        self.versions: dict[str, str] = {}
        self.import_seconds = 0.0
        self.entered: tuple[str, ...] = ()
        self._lock = threading.RLock()
        self._next = 0
        self._spawned: dict[int, tuple[int, int]] = {}
        self._failed: dict[int, str] = {}
        self._statuses: dict[int, int] = {}
        self._control, self._process, self._stderr = zygote.control, zygote.process, zygote.stderr
        self._silent = False

    def wait_ready(self) -> None:
        with self._lock:
            while not self.versions:
                message, _ = self._hear(START_SECONDS)
                if message.get("ready"):
                    self.versions = message["versions"]
                    self.import_seconds = float(message["import_s"])
                    self.entered = tuple(message.get("entered", ()))

    def spawn(self, policy: dict[str, Any] | None) -> Worker:
        """Fork a worker; with a ``policy`` it locks itself before it reads its first request."""
        with self._lock:
            self.wait_ready()
            self._next += 1
            number = self._next
            ours, theirs = pipes()
            try:
                socket.send_fds(self._control, [json.dumps({"spawn": number, "policy": policy}).encode()], list(theirs))
                while number not in self._spawned and number not in self._failed:
                    self._take(*self._hear(START_SECONDS))
            except OSError:
                for fd in ours:
                    os.close(fd)
                raise GraderFault(self._obituary()) from None
            except GraderFault:
                for fd in ours:
                    os.close(fd)
                raise
            finally:
                for fd in theirs:
                    os.close(fd)
            if number in self._failed:
                for fd in ours:
                    os.close(fd)
                raise GraderFault(f"no worker could be started: {self._failed.pop(number)}")
            pidfd, pid = self._spawned.pop(number)
        return Worker(_Forked(self, number, pidfd, outer_pid(pidfd, pid)), *ours)

    @property
    def died(self) -> bool:
        """Whether the zygote ended by itself, or does not answer any more."""
        return self._silent or self._process.poll() is not None

    def close(self) -> None:
        """End the zygote and, with it, whatever it started."""
        self._control.close()
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr.close()

    def _exit_status(self, number: int) -> int | None:
        deadline = time.monotonic() + EXIT_SECONDS
        with self._lock:
            while number not in self._statuses:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return None
                try:
                    self._take(*self._hear(remaining))
                except GraderFault:
                    return None
            return self._statuses[number]

    def _hear(self, seconds: float) -> tuple[dict[str, Any], list[int]]:
        try:
            self._control.settimeout(seconds)
            data, fds, _, _ = socket.recv_fds(self._control, 1 << 16, 4)
        except OSError:
            data, fds = b"", []
        if not data:
            self._silent = True
            raise GraderFault(self._obituary())
        return json.loads(data), list(fds)

    def _take(self, message: dict[str, Any], fds: list[int]) -> None:
        if "spawned" in message:
            self._spawned[message["spawned"]] = (fds[0], message["pid"])
        elif "failed" in message:
            self._failed[message["failed"]] = message["reason"]
        elif "exited" in message:
            self._statuses[message["exited"]] = message["status"]

    def _obituary(self) -> str:
        status = self._process.poll()
        words = ""
        if not self._stderr.closed:
            self._stderr.seek(0)
            words = self._stderr.read()[-2000:].decode("utf-8", "replace").strip()
        how = "does not answer" if status is None else f"ended with status {status}"
        return f"the process that starts workers {how}" + (f": {words.splitlines()[-1]}" if words else "")


class ExecRunner:
    """A fresh interpreter per worker: slower by one import, at home on every POSIX system."""

    def __init__(self, framework: str) -> None:
        self.versions: dict[str, str] = {}
        self.import_seconds = 0.0
        self.entered: tuple[str, ...] = ()
        self._framework = framework

    @property
    def died(self) -> bool:
        return False

    def wait_ready(self) -> None:
        return None

    def spawn(self, policy: dict[str, Any] | None) -> Worker:
        ours, theirs = pipes()
        read, write = os.pipe()
        spec = {"policy": policy, "requests": theirs[0], "replies": theirs[1], "output": theirs[2]}
        started = time.monotonic()
        try:
            process = subprocess.Popen(
                command("exec", self._framework, read, False),
                pass_fds=[read, *theirs],
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
            os.write(write, json.dumps(spec).encode() + b"\n")
        except OSError as error:
            for fd in ours:
                os.close(fd)
            raise GraderFault(f"no worker could be started: {error}") from None
        finally:
            for fd in (read, write, *theirs):
                os.close(fd)
        worker = Worker(_Executed(process), *ours)
        self.import_seconds = time.monotonic() - started
        return worker

    def close(self) -> None:
        return None


def make_runner(way: str, framework: str, isolate: bool = True) -> ForkRunner | ExecRunner:
    """``way`` is fork or exec; fork needs Linux (pidfds, and a framework that survives a fork)."""
    if way == "fork" and sys.platform == "linux":
        return ForkRunner(launch(framework, isolate))
    return ExecRunner(framework)


def pipes() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """(ours, theirs): request, reply and output pipes of one worker."""
    request_read, request_write = os.pipe()
    reply_read, reply_write = os.pipe()
    output_read, output_write = os.pipe()
    if sys.platform == "linux":
        import fcntl

        for fd in (request_write, reply_write):
            try:
                fcntl.fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES)
            except OSError:
                # An ordinary user's share of pipe memory may be used up; the default size works too.
                pass
    return (request_write, reply_read, output_read), (request_read, reply_write, output_write)


def outer_pid(pidfd: int, fallback: int) -> int:
    """The pid of a pidfd's process as this process sees it (the zygote may live in a pid namespace of its own)."""
    try:
        with open(f"/proc/self/fdinfo/{pidfd}") as file:
            for line in file:
                if line.startswith("Pid:"):
                    return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return fallback
