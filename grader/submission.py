"""One submission: its bytes, and the worker (or, after a fault, the next worker) that runs it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grader import cases, notebook
from grader.cases import Case
from grader.errors import GraderFault
from grader.model import Change, Error, Outcome
from grader.sandbox.protocol import Array, Opaque, ProtocolError, TooLarge, Value
from grader.sandbox.runner import Answer, Fault, Limits, Reply, Runner, Worker
from grader.spec.exercise import Exercise

MAX_BYTES = 2 << 20
MAX_TIMEOUTS = 2
MAX_LEFT_OUT = 30
MAX_CRASHES = 3
LOAD_FACTOR = 4.0
# Calls that each stay below their limit may add up to hours. So many times the wall limit of one call they may wait in
# all; only waiting counts, because what computes for so little of its time is not held up by a busy machine.
PATIENCE = 6.0
IDLE_SHARE = 0.05
# Results are kept until the report is written; a submission may not fill the grader's own memory with them.
MAX_KEPT = 1 << 30
MUCH = 64 << 20
# Calls sent ahead of the one that is waited for, and bytes of them that may wait outside the pipe.
AHEAD = 8
ROOM = 1 << 18
# What a worker may say of an exception; a worker that was taken over may say anything, and blame others.
CAUSES = frozenset(
    ("exception", "exited", "memory", "import_error", "forbidden_operation", "syntax_error", "unreadable_source", "no_function",
     "signature")
)  # fmt: skip
# Escape sequences, and every control character but tab and newline: what is printed cannot move a cursor or hide text.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


def inert(text: str) -> str:
    """``text`` from a submission with nothing left that a terminal would act on."""
    text = text.replace("\r\n", "\n").encode("utf-8", "replace").decode("utf-8")
    return _ESCAPES.sub("", text)


def inert_value(value: Value) -> Value:
    """``value`` with every text in it inert: names of types, keys of dicts, what a tensor says of its device."""
    if isinstance(value, str):
        return inert(value)
    if isinstance(value, Opaque):
        return Opaque(inert(value.type_name), inert(value.reason))
    if isinstance(value, Array):
        return value if value.device == "cpu" else replace(value, device=inert(value.device))
    if isinstance(value, list):
        return [inert_value(item) for item in value]
    if isinstance(value, tuple):
        return tuple(inert_value(item) for item in value)
    if isinstance(value, dict):
        return {inert_value(key): inert_value(item) for key, item in value.items()}
    return value


@dataclass(frozen=True)
class Submission:
    """What was handed in. ``problem`` says why it could not be read, if so."""

    path: str
    source: bytes
    sha256: str | None
    problem: str | None = None
    # The code of a notebook, cell by cell; None for a plain file.
    cells: tuple[str, ...] | None = None

    @property
    def shown(self) -> str:
        """The name used in tracebacks and messages."""
        return os.path.basename(self.path)


def read_submission(path: Path) -> Submission:
    """Read a submission once; only a regular file of at most 2 MB, or a link to one in the same folder or below, is read.

    A link that leads elsewhere could hand in the reference, or have a private file of whoever grades quoted in a report.
    """
    # A file name is the submission's as well.
    shown = inert(os.fsdecode(path))
    if path.is_symlink():
        # realpath() of a link to itself is that link, which is then not followed.
        target = Path(os.path.realpath(path))
        if not target.is_relative_to(os.path.realpath(path.parent)):
            return Submission(shown, b"", None, "it is a link that leads out of its folder; name the file itself")
        path = target
    try:
        # O_NONBLOCK: a FIFO must not make the grader wait for a writer.
        flags = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOFOLLOW"))
        fd = os.open(path, flags)
    except OSError as error:
        return Submission(shown, b"", None, f"it cannot be opened: {error.strerror}")
    with os.fdopen(fd, "rb", buffering=0) as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            return Submission(shown, b"", None, "it is not a regular file")
        if info.st_size > MAX_BYTES:
            return Submission(shown, b"", None, f"it is larger than {MAX_BYTES >> 20} MB")
        chunks = []
        size = 0
        while size <= MAX_BYTES and (chunk := file.read(1 << 16)):
            chunks.append(chunk)
            size += len(chunk)
    source = b"".join(chunks)
    if len(source) > MAX_BYTES:
        return Submission(shown, b"", None, f"it is larger than {MAX_BYTES >> 20} MB")
    sha256 = hashlib.sha256(source).hexdigest()
    if path.suffix.lower() != ".ipynb":
        return Submission(shown, source, sha256)
    try:
        return Submission(shown, source, sha256, cells=notebook.code_cells(source))
    except notebook.NotANotebook as error:
        return Submission(shown, b"", sha256, f"it {error}")


class Student:
    """Runs one submission: a fresh worker, and another one after a fault, up to two time-outs."""

    def __init__(
        self,
        runner: Runner,
        exercise: Exercise,
        submission: Submission,
        policy: dict[str, Any] | None,
        limits: Limits,
        trusted: bool = False,
    ) -> None:
        """``trusted`` are patched references: one worker answers for a whole class, and may wait as long as that takes."""
        self._runner = runner
        self._exercise = exercise
        self._submission = submission
        self._policy = policy
        self._limits = limits
        self._trusted = trusted
        self._worker: Worker | None = None
        # Whether the worker has loaded the present submission.
        self._fresh = False
        self._timeouts = 0
        self._crashes = 0
        self._output: list[str] = []
        self._output_size = 0
        self._kept = 0
        self.dropped_output = 0
        self._waited = 0.0
        self._computed = 0.0
        self.seconds = 0.0
        self.applied: dict[str, Any] = {}
        # Names of everything the file calls, read from its syntax tree before it was run.
        self.called: tuple[str, ...] = ()
        # What of a notebook is no part of the solution, by place.
        self.left_out: tuple[str, ...] = ()
        # Why nothing more is run, in words, once that is decided.
        self.stopped: str | None = None
        self.load_failure: Outcome | None = None

    @property
    def output(self) -> str:
        return inert("".join(self._output))

    def close(self) -> None:
        if self._worker is not None:
            self._collect(self._worker)
            self._worker.close()
            self._worker = None

    def load(self) -> Outcome | None:
        """Start a worker and load the submission; None when it can be called, else what went wrong."""
        if self.load_failure is not None:
            return self.load_failure
        if self._worker is not None and self._worker.alive and self._fresh:
            return None
        if self._submission.problem is not None:
            error = Error("Unreadable", self._submission.problem, "unreadable_source")
            self.load_failure = Outcome("raised", error=error)
            return self.load_failure
        if self._worker is not None and not self._worker.alive:
            # It ended between two calls.
            self.close()
        worker = self._worker if self._worker is not None else self._start()
        header = {
            "op": "load",
            "filename": self._submission.shown,
            "module": self._exercise.name,
            "function": self._exercise.function,
            "arguments": len(self._exercise.spec.inputs),
        }
        limits = replace(
            self._limits,
            cpu_seconds=self._limits.cpu_seconds * LOAD_FACTOR,
            wall_seconds=self._limits.wall_seconds * LOAD_FACTOR,
        )
        blob = self._submission.source
        if self._submission.cells is not None:
            header["cells"] = True
            blob = json.dumps(self._submission.cells).encode()
        reply: Reply | Fault | None = None
        if any(check.kind == "source" for check in self._exercise.spec.checks):
            # Told by a worker that has run nothing of the submission yet, which so has no say in it.
            reply = worker.request({**header, "op": "calls"}, blobs=[blob], limits=limits)
            if isinstance(reply, Reply):
                called = reply.header.get("calls")
                self.called = tuple(map(str, called[:2000])) if isinstance(called, list) else ()
        if not isinstance(reply, Fault):
            reply = worker.request(header, blobs=[blob], limits=limits)
        self._collect(worker)
        if isinstance(reply, Fault):
            outcome = self._from_fault(reply)
            self.load_failure = replace(outcome, extra={**outcome.extra, "loading": True})
            return self.load_failure
        left = reply.header.get("left_out")
        if isinstance(left, list) and self._submission.cells is not None:
            self.left_out = tuple(_text(one, 120) for one in left[:MAX_LEFT_OUT])
        if not reply.header.get("loaded"):
            worker.close()
            self._worker = None
            self.load_failure = _load_failure(reply.header.get("fault"))
            return self.load_failure
        self._worker = worker
        self._fresh = True
        return None

    def _start(self) -> Worker:
        worker = self._runner.spawn(self._policy)
        fault = worker.wait_ready()
        if isinstance(fault, Fault):
            raise GraderFault(f"a worker did not start: {fault.kind} {fault.detail}")
        self.applied = worker.applied
        if not self._runner.versions:
            self._runner.versions = dict(worker.versions)
        return worker

    def reload(self, submission: Submission) -> None:
        """Load another file into the same worker: only for sources that are trusted, which patched references are."""
        self._submission = submission
        self.load_failure = None
        self._fresh = False

    def call(
        self,
        case: Case,
        dtype: str,
        mode: str = "plain",
        options: dict[str, Any] | None = None,
        layout: str | None = None,
        values: dict[str, Value] | None = None,
        limits: Limits | None = None,
    ) -> Outcome:
        """Call the submission's function once, within ``limits`` or its own. Never raises for anything the submission does."""
        if self.stopped is not None:
            return Outcome("not_run", detail=self.stopped)
        failed = self.load()
        if failed is not None:
            return failed
        assert self._worker is not None
        worker = self._worker
        framework = self._exercise.spec.framework
        record: list[tuple[str, Value]] = []
        if worker.asked:
            raise GraderFault("a submission was called while answers to earlier calls were to come")
        worker.send(
            {"op": "call", "id": 0, "mode": mode, **(options or {})},
            {"args": cases.encoded(case, framework, dtype, layout), **(values or {})},
        )
        answer = cases.answerer(case, framework, dtype, record) if case.functions else None
        return self._answer(worker, case, record, limits, answer)

    def call_each(self, calls: Sequence[tuple[Case, str]]) -> Iterator[Outcome]:
        """What the submission does with each of several plain calls, in order.

        Some are sent ahead, so that the worker need not wait while its last answer is read. Nothing else may be asked of
        the submission before all is answered, but after a call that ended its worker.
        """
        told: Worker | None = None
        sent = 0
        for index, (case, dtype) in enumerate(calls):
            if case.functions:
                # A reply would have to pass what was sent ahead.
                yield self.call(case, dtype)
                continue
            if self.stopped is not None:
                yield Outcome("not_run", detail=self.stopped)
                continue
            if self._worker is None or self._worker is not told or not told.asked:
                # Who has answers to give is not replaced, though it may have ended since: they may be in the pipe.
                failed = self.load()
                if failed is not None:
                    yield failed
                    continue
                told, sent = self._worker, index
            assert told is not None
            while sent < len(calls) and sent < index + AHEAD and (sent == index or told.unsent_bytes < ROOM):
                following, narrow = calls[sent]
                if following.functions:
                    break
                arguments = cases.encoded(following, self._exercise.spec.framework, narrow)
                told.send({"op": "call", "id": 0, "mode": "plain"}, {"args": arguments})
                sent += 1
            yield self._answer(told, case, [], None, None)

    def _answer(
        self,
        worker: Worker,
        case: Case,
        record: list[tuple[str, Value]],
        limits: Limits | None,
        answer: Answer | None,
    ) -> Outcome:
        """The outcome of the call that ``worker`` was asked for first."""
        began, computed = time.monotonic(), worker.cpu_seconds()
        reply = worker.receive(limits or self._limits, answer)
        self._collect(worker)
        self._waited += time.monotonic() - began
        self._computed += max(0.0, worker.cpu_seconds() - computed)
        if (
            not self._trusted
            and self._waited > PATIENCE * self._limits.wall_seconds
            and self._computed < IDLE_SHARE * self._waited
        ):
            worker.close()
            self._worker = None
            self.stopped = "all its calls together waited too long"
            return Outcome("timeout", detail=f"{self._waited:.0f} s in all calls, nearly all of it waiting")
        if isinstance(reply, Fault):
            self._worker = None
            return replace(self._from_fault(reply), calls=tuple(record))
        return self._read(reply, case, record)

    def try_each(self, sources: Sequence[bytes], case: Case, dtype: str) -> list[Outcome | None] | None:
        """What each of several trusted sources does with one case, in one request; None for one that cannot be loaded.

        Only values, types of exceptions and changes are told. None in all when the request fails: then nothing is known.
        """
        if self.stopped is not None:
            return None
        worker = self._worker if self._worker is not None and self._worker.alive else self._start()
        self._worker, self._fresh = worker, False
        header = {
            "op": "try",
            "sources": len(sources),
            "filename": self._submission.shown,
            "module": self._exercise.name,
            "function": self._exercise.function,
            "arguments": len(self._exercise.spec.inputs),
        }
        reply = worker.request(
            header,
            {"args": cases.arguments(case, self._exercise.spec.framework, dtype)},
            blobs=list(sources),
            limits=self._limits,
        )
        if isinstance(reply, Fault):
            worker.close()
            self._worker = None
            return None
        try:
            told = reply.value()
        except ProtocolError:
            return None
        found: list[Outcome | None] = []
        for status, value, changed in told:
            if status == "returned":
                found.append(Outcome("returned", value=value, changes=_changes(changed, {}, case)))
            else:
                found.append(Outcome("raised", error=Error(value, "", "exception")) if status == "raised" else None)
        return found

    def _read(self, reply: Reply, case: Case, record: list[tuple[str, Value]]) -> Outcome:
        header = reply.header
        seconds = _seconds(header.get("seconds"))
        self.seconds += seconds
        self._kept += reply.cost
        if self._kept > MAX_KEPT:
            self.stopped = "the results of earlier calls were too large to be kept"
            return Outcome("too_large", detail=f"results of more than {MAX_KEPT >> 20} MB in all", seconds=seconds)
        if header.get("status") == "raised":
            return Outcome(
                _raised_status(header.get("error")),
                error=_error(header.get("error")),
                seconds=seconds,
                calls=tuple(record),
            )
        try:
            body = inert_value(reply.value())
            if header.get("status") != "returned" or not isinstance(body, dict) or "result" not in body:
                raise ProtocolError("not a reply to a call")
        except TooLarge as error:
            return Outcome("too_large", detail=str(error), seconds=seconds)
        except ProtocolError as error:
            # Only a worker that was taken over answers like this; nothing else it says is worth reading.
            self._drop_worker()
            return Outcome("garbled", detail=str(error))
        extra = {
            key: item for key, item in header.items() if key not in ("id", "status", "value", "changed", "seconds")
        }
        extra.update({key: item for key, item in body.items() if key not in ("result", "inputs")})
        return Outcome(
            "returned",
            value=body["result"],
            changes=_changes(header.get("changed"), body.get("inputs"), case),
            calls=tuple(record),
            seconds=seconds,
            extra=extra,
        )

    def again_with(self, seconds: float) -> Limits | None:
        """Limits of ``seconds`` for a call that ran into narrower ones, which is then forgotten; None if they are no wider."""
        if seconds <= self._limits.cpu_seconds:
            return None
        self._timeouts -= 1
        self.stopped = None
        return replace(self._limits, cpu_seconds=seconds, wall_seconds=Limits.of(seconds).wall_seconds)

    def _drop_worker(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        self._crashes += 1
        if self._crashes >= MAX_CRASHES:
            self.stopped = "the submission ended its process too often"

    def _from_fault(self, fault: Fault) -> Outcome:
        self._worker = None
        if fault.kind == "timeout":
            self._timeouts += 1
            self.seconds += self._limits.cpu_seconds
            if self._timeouts >= MAX_TIMEOUTS:
                self.stopped = "an earlier call ran into the time limit twice"
            return Outcome("timeout", detail=fault.detail)
        if fault.kind == "lost":
            raise GraderFault(fault.detail)
        self._crashes += 1
        if self._crashes >= MAX_CRASHES:
            self.stopped = "the submission ended its process too often"
        if fault.kind == "memory":
            return Outcome("memory", detail=fault.detail)
        if fault.kind == "signal" and fault.detail == "SIGKILL" and fault.grown > MUCH:
            # What the system does where memory is short for all; a process that held little was not ended for that.
            return Outcome("memory", detail="the system ended the process")
        if fault.kind == "signal" and fault.detail == "SIGXCPU":
            return Outcome("timeout", detail="its computing time")
        if fault.kind == "signal" and fault.detail == "SIGSYS":
            return Outcome("forbidden", detail="a system call that is not allowed")
        if fault.kind == "too_large":
            return Outcome("too_large", detail=fault.detail)
        if fault.kind == "garbled":
            return Outcome("garbled", detail=fault.detail)
        return Outcome("crashed", detail=fault.detail, extra={"how": fault.kind})

    def _collect(self, worker: Worker) -> None:
        text = worker.take_output().decode("utf-8", "replace")
        room = max(0, (64 << 10) - self._output_size)
        self._output.append(text[:room])
        self._output_size += len(text[:room])
        self.dropped_output += worker.dropped_output + len(text) - len(text[:room])
        worker.dropped_output = 0


def _seconds(told: Any) -> float:
    """A duration that a worker claims; 0 for anything that is none."""
    return float(told) if isinstance(told, int | float) and 0 <= told < 1e6 else 0.0


def _place(told: Any) -> int:
    """A line or column that a worker names; 0 for anything that is none."""
    return told if type(told) is int and 0 <= told < 10**7 else 0


def _text(value: Any, limit: int = 4000) -> str:
    return inert(str(value))[:limit] if isinstance(value, str | int | float) else ""


def _error(data: Any) -> Error:
    if not isinstance(data, dict):
        return Error("Exception", "", "exception")
    frames = []
    told = data.get("frames")
    for frame in told if isinstance(told, list) else []:
        if isinstance(frame, dict):
            frames.append(
                {
                    "own": frame.get("own") is True,
                    "file": _text(frame.get("file"), 200),
                    "line": _place(frame.get("line")),
                    "column": _place(frame.get("column")),
                    "function": _text(frame.get("function"), 200),
                    "text": _text(frame.get("text"), 300),
                }
            )
    told = data.get("cause")
    cause = told if isinstance(told, str) and told in CAUSES else "exception"
    return Error(_text(data.get("type"), 200), _text(data.get("message")), cause, tuple(frames[:20]))


def _raised_status(data: Any) -> str:
    cause = data.get("cause") if isinstance(data, dict) else ""
    return {"memory": "memory", "forbidden_operation": "forbidden"}.get(str(cause), "raised")


def _load_failure(data: Any) -> Outcome:
    known = data if isinstance(data, dict) else {}
    kept: dict[str, Any] = {"loading": True}
    for key in ("line", "column"):
        if type(known.get(key)) is int:
            kept[key] = _place(known[key])
    for key in ("text", "kind", "signature", "name", "file"):
        if isinstance(known.get(key), str):
            kept[key] = _text(known[key], 400)
    for key in ("near", "defined"):
        if isinstance(known.get(key), list):
            kept[key] = [_text(word, 100) for word in known[key][:12]]
    return Outcome(_raised_status(data), error=_error(data), extra=kept)


def _changes(data: Any, inputs: Any, case: Case) -> tuple[Change, ...]:
    names = list(case.arguments)
    found = []
    for entry in data if isinstance(data, list) else []:
        if (
            not isinstance(entry, dict)
            or type(entry.get("argument")) is not int
            or not 0 <= entry["argument"] < len(names)
        ):
            continue
        after = inputs.get(entry["argument"]) if isinstance(inputs, dict) else None
        after = None if isinstance(after, Opaque) else after
        found.append(
            Change(names[entry["argument"]], _text(entry.get("path"), 100), _text(entry.get("what"), 40), after)
        )
    return tuple(found[:20])
