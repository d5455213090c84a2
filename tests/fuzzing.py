"""Hostile input for the parts that read it, and what must hold of each: for the tests, and for longer runs.

Three readers face bytes that nobody trusts: the frames of a worker that was taken over, exercise files, and sources.
"""

from __future__ import annotations

import functools
import json
import os
import tempfile
import tracemalloc
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
from hypothesis import strategies as st
from rich.console import Console

from grader.diagnose import Diagnostician
from grader.errors import AuthorError
from grader.grade import Options, grade
from grader.lockdown import Lockdown
from grader.model import Report
from grader.oracle import ReferenceOracle
from grader.reports import report_json, terminal
from grader.sandbox import protocol
from grader.sandbox.protocol import STORAGE, Array, Function, Opaque
from grader.sandbox.runner import Runner, Worker, pipes
from grader.spec import load
from grader.spec.exercise import Exercise
from grader.submission import Submission

ROOT = Path(__file__).resolve().parent.parent
SEED = 7
PLAIN = Options(seed=SEED)
# One of each kind of result and check: an array, gradients and devices, memory, functions handed in, results fed back.
FACED = (
    "softmax",
    "scaled_dot_product_attention",
    "flash_attention",
    "greedy_decode",
    "sgd_train_step",
    "decoder_shape_trace",
)
SCHEMA = json.loads((ROOT / "grader" / "reports" / "report.schema.json").read_text())
CONTROL = frozenset(range(32)) - {10} | set(range(0x7F, 0xA0)) | set(range(0x202A, 0x202F)) | set(range(0x2066, 0x206A))

# --- bytes ------------------------------------------------------------------------------------------------------------

Edit = tuple[float, str, bytes]
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.sampled_from(["replace", "insert", "delete", "double", "cut"]), st.binary(min_size=1, max_size=9)),
    max_size=6,
)  # fmt: skip


def mutated(data: bytes, edits: list[Edit]) -> bytes:
    """``data`` with each edit made at its relative place."""
    for where, what, bits in edits:
        at = int(where * len(data))
        if what == "replace":
            data = data[:at] + bits + data[at + len(bits) :]
        elif what == "insert":
            data = data[:at] + bits + data[at:]
        elif what == "delete":
            data = data[:at] + data[at + len(bits) :]
        elif what == "double":
            data = data[:at] + data[at : at + 40 * len(bits)] * 2 + data[at + 40 * len(bits) :]
        else:
            data = data[:at]
    return data


# --- frames -----------------------------------------------------------------------------------------------------------

SHORT = st.text(max_size=12) | st.sampled_from(
    ["\x1b[31mred", "[bold]x", "\ud800", "\u202eabc", "a\x00b", "::error::x"]
)
TEXT = SHORT | st.just("x" * 5000)
INTEGERS = st.integers() | st.sampled_from([-1, 2**53, 2**63, -(2**64), 10**308, 10**400])
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats() | TEXT
JUNK = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=8
)


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    name = draw(st.sampled_from(sorted(STORAGE)))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=4)))
    family = "scalar" if shape == () and draw(st.booleans()) else draw(st.sampled_from(["tensor", "ndarray"]))
    storage = STORAGE[name]
    size = int(np.prod(shape)) * storage.itemsize
    raw = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), dtype=np.uint8)
    raw = (raw & 1).view(storage) if name == "bool" else raw.view(storage)
    return Array(
        family, name, raw.reshape(shape), draw(st.sampled_from(["cpu", "cuda:0", "\x1b[1m"])), draw(st.booleans())
    )


KEYS = TEXT | st.integers() | st.booleans()
VALUES = st.recursive(
    SCALARS | arrays() | st.builds(Opaque, SHORT, SHORT) | st.builds(Function, TEXT),
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=6,
)  # fmt: skip


def framed(header: dict[str, Any], buffers: list[Any]) -> bytes:
    return b"".join(bytes(piece) for piece in protocol.pack(header, buffers))


def check_frame(data: bytes) -> None:
    """Parsing ends with a value or a `ProtocolError`, and holds no more than a multiple of what came in."""
    tracemalloc.start()
    try:
        _parse(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 * len(data) + (1 << 16), f"{peak} bytes for a frame of {len(data)}"


def _parse(data: bytes) -> None:
    size = protocol.PREFIX.size
    if len(data) < size:
        return
    try:
        header_length, payload = protocol.parse_prefix(data[:size])
        header, buffers = protocol.parse_body(data[size : size + header_length + payload], header_length)
        for node in header.values():
            protocol.decode(node, buffers)
    except protocol.ProtocolError:
        pass


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """Bytes of an honest frame, changed here and there."""
    buffers: list[Any] = []
    header = {"value": protocol.encode(draw(VALUES), buffers), "more": draw(JUNK)}
    data = framed(header, buffers)
    if draw(st.booleans()):
        # Keep the prefix true to the lengths, so that what lies behind it is reached.
        body = mutated(data[protocol.PREFIX.size :], draw(EDITS))
        split = draw(st.integers(0, len(body)))
        return protocol.PREFIX.pack(split, len(body) - split) + body
    return mutated(data, draw(EDITS))


# --- a worker that was taken over -------------------------------------------------------------------------------------


@dataclass
class Ended:
    """A process that has ended with status 0 once everything it wrote was read."""

    pid: int = -1

    def exited(self) -> bool:
        return True

    def fileno(self) -> int | None:
        return None

    def kill(self) -> None: ...
    def status(self) -> int | None:
        return 0

    def close(self) -> None: ...


class Hostile:
    """A runner whose workers say they are ready and loaded, and then answer every call with the same bytes."""

    entered: tuple[str, ...] = ()
    died = False

    def __init__(self, answer: bytes) -> None:
        self.versions = {"numpy": "", "torch": ""}
        self.import_seconds = 0.0
        self._answer = answer
        self._open: list[int] = []

    def wait_ready(self) -> None: ...

    def spawn(self, policy: dict[str, Any] | None) -> Worker:
        self.close()
        ours, theirs = pipes()
        said = framed({"ready": True}, []) + framed({"loaded": True}, []) + self._answer
        os.set_blocking(theirs[1], False)
        os.write(theirs[1], said)
        os.close(theirs[1])
        os.close(theirs[2])
        # Kept open: a request is written, and nobody reads it.
        self._open = [theirs[0]]
        return Worker(Ended(), *ours)

    def close(self) -> None:
        for fd in self._open:
            os.close(fd)
        self._open = []


@st.composite
def replies(draw: st.DrawFn) -> bytes:
    """Frames that answer a call: some calls of functions handed in, then what looks like a result."""
    said = b""
    for _ in range(draw(st.integers(0, 2))):
        buffers: list[Any] = []
        name = draw(st.sampled_from(["step_fn", "logits_fn", "next"]) | TEXT)
        args = draw(st.lists(VALUES, max_size=2) | VALUES)
        said += framed({"callback": name, "args": protocol.encode(args, buffers)}, buffers)
    buffers = []
    body: Any = {
        "result": draw(VALUES),
        "inputs": draw(st.dictionaries(st.integers(-1, 3), VALUES, max_size=2) | VALUES),
    }
    body["gradients"] = draw(st.lists(st.tuples(st.integers(-1, 3), TEXT, VALUES).map(list), max_size=3) | VALUES)
    header = {
        "id": 0,
        "status": draw(st.sampled_from(["returned", "returned", "returned", "raised", "x"])),
        "value": protocol.encode(body, buffers) if draw(st.integers(0, 5)) else draw(JUNK),
        **draw(st.fixed_dictionaries({}, optional={
            "seconds": JUNK, "attached": JUNK, "peak": JUNK, "changed": _CHANGED | JUNK, "error": _ERROR | JUNK, "device": _DEVICE | JUNK,
        })),
    }  # fmt: skip
    return said + mutated(framed(header, buffers), draw(EDITS) if not draw(st.integers(0, 3)) else [])


_CHANGED = st.lists(st.fixed_dictionaries({"argument": st.integers(-1, 4), "path": JUNK, "what": JUNK}), max_size=3)
_FRAME = st.fixed_dictionaries(
    {"own": JUNK, "file": JUNK, "line": JUNK, "column": JUNK, "function": JUNK, "text": JUNK}
)
_CAUSES = st.sampled_from(
    ["exception", "exited", "memory", "import_error", "forbidden_operation", "grader_error", "pass"]
)
_ERROR = st.fixed_dictionaries(
    {"type": JUNK, "message": JUNK, "cause": _CAUSES | JUNK, "frames": st.lists(_FRAME, max_size=2) | JUNK}
)
_DEVICE = st.fixed_dictionaries(
    {"status": st.sampled_from(["ok", "mix", "wrong_device", "skipped"]) | JUNK},
    optional=dict.fromkeys(("detail", "operation", "path", "file", "line", "text", "own"), JUNK),
)


class Bench:
    """What one exercise needs to be graded again and again on the same cases."""

    def __init__(self, exercise: Exercise, runner: Runner) -> None:
        self.exercise = exercise
        self._oracle = ReferenceOracle(runner, exercise)
        self._mute = replace(exercise, misconceptions=None)
        self._lockdown = Lockdown("off")

    def grade(self, source: bytes, runner: Runner, options: Options = PLAIN) -> Report:
        submission = Submission("answer.py", source, "0" * 64)
        diagnostician = Diagnostician(runner, self._mute)
        return grade(self.exercise, submission, runner, options, self._oracle, diagnostician, self._lockdown)

    def close(self) -> None:
        self._oracle.close()


def check_reply(bench: Bench, answer: bytes) -> None:
    """Whatever a worker answers: a graded report, in which nothing passes that was not right."""
    runner = Hostile(answer)
    try:
        report = bench.grade(b"", runner)
    finally:
        runner.close()
    assert report.status == "graded", report.reason
    assert not report.passed
    hold(report)


def hold(report: Report) -> None:
    """A report is JSON of the schema, and text that moves no cursor."""
    text = report_json.render(report)
    jsonschema.validate(json.loads(text), SCHEMA, cls=jsonschema.Draft202012Validator)
    text.encode()
    page = StringIO()
    terminal.render(report, Console(file=page, width=80, highlight=False, emoji=False, markup=False), verbose=True)
    found = sorted({hex(ord(letter)) for letter in page.getvalue() if ord(letter) in CONTROL})
    assert not found, f"{found} in the page"


# --- exercise files ---------------------------------------------------------------------------------------------------


@functools.cache
def exercise_files() -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted((ROOT / "exercises").glob("*/*/exercise.yaml")))


LINES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.booleans()), max_size=4)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """An exercise file with bytes changed, and lines moved, doubled or indented."""
    known = exercise_files()
    data = known[draw(st.integers(0, len(known) - 1))]
    lines = data.split(b"\n")
    for source, target, away in draw(LINES):
        line = lines[int(source * (len(lines) - 1))]
        if away and len(lines) > 1:
            lines.remove(line)
        lines.insert(int(target * len(lines)), b"  " + line if not away else line)
    return mutated(b"\n".join(lines), draw(EDITS))


def check_document(data: bytes) -> None:
    """Reading an exercise gives it, or findings that name its file; nothing else comes out."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "track" / "softmax"
        home.mkdir(parents=True)
        (home / "exercise.yaml").write_bytes(data)
        try:
            load.read_exercise(home, None)
        except AuthorError as error:
            assert error.findings
            for finding in error.findings:
                assert finding.path.endswith("exercise.yaml") and finding.message
                str(finding).encode()


# --- sources ----------------------------------------------------------------------------------------------------------


@functools.cache
def sources() -> tuple[bytes, ...]:
    """Right and honest answers of the exercise that sources are read for."""
    folders = (ROOT / "fixtures" / "softmax" / "right", ROOT / "fixtures" / "attacks" / "sources")
    found = [path.read_bytes() for folder in folders for path in sorted(folder.glob("*.py"))]
    honest = (
        ROOT / "fixtures" / "honest" / name for name in ("latin_1.py", "windows_file.py", "decorated.py", "enums.py")
    )
    return tuple(text for text in [*found, *(path.read_bytes() for path in honest)] if len(text) < 4000)


@st.composite
def programs(draw: st.DrawFn) -> bytes:
    known = sources()
    return mutated(known[draw(st.integers(0, len(known) - 1))], draw(EDITS))


def check_source(bench: Bench, runner: Runner, source: bytes) -> None:
    """A real worker loads it and perhaps calls it: there is a report, and it is the submission's own."""
    report = bench.grade(source, runner, Options(seed=SEED, cases=1, time_limit=1.0))
    assert report.status == "graded", report.reason
    hold(report)
