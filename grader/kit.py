"""A kit for students: recorded answers in place of references, so that nothing in it gives a solution away.

One file per exercise holds, for a few seeds, what the reference answered to every call that a grading makes, and what
each misconception's patched reference answered where that differs. Inputs are not kept: the seed draws the same bits
everywhere. Read here as an oracle and a diagnostician that know what was recorded, and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from grader.cases import Case
from grader.diagnose import Diagnostician, Misconception
from grader.errors import GraderFault, UsageError
from grader.model import Change, Error, Expected, Leaf, Outcome
from grader.oracle import Answer, IllConditioned, Oracle, ReferenceOracle, fingerprint
from grader.sandbox import protocol
from grader.sandbox.protocol import ProtocolError, Value
from grader.sandbox.runner import Runner
from grader.spec.exercise import Exercise

VERSION = 1
MANIFEST = "kit.json"
RECORDED = "recorded"
MAX_BYTES = 512 << 20
NOTE = "recorded cases; your instructor grades with fresh ones"

CallKey = tuple[str, str, str, str, str]


class NotRecorded(IllConditioned):
    """A call that nobody made when the kit was packed: for a check it is as good as a case without a sharp tolerance."""


@dataclass(frozen=True)
class Manifest:
    """``kit.json``: what packed the kit, and the digest of each of its files."""

    version: int
    made_by: str
    files: dict[str, str]


def call_key(
    case: Case, dtype: str, mode: str, options: dict[str, Any] | None, values: dict[str, Value] | None
) -> CallKey:
    """What a raw answer is kept under; as `grader.oracle` remembers it."""
    return case.key, dtype, mode, repr(sorted((options or {}).items())), fingerprint(values)


# --- files ------------------------------------------------------------------------------------------------------------


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of the kit in ``folder``; None where there is none.

    Raises:
        UsageError: it cannot be read, or is of another version.
    """
    path = folder / MANIFEST
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: it cannot be read ({error})", FETCH) from None
    try:
        data = json.loads(text)
        found = Manifest(int(data["version"]), str(data["made_by"]), {str(k): str(v) for k, v in data["files"].items()})
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{path}: this kit is damaged", FETCH) from None
    if found.version != VERSION:
        raise UsageError(
            f"{path}: this kit is of version {found.version}, and this tensorgrade reads version {VERSION}",
            "install the tensorgrade that the kit was made for, or get a newer kit",
        )
    return found


FETCH = "get the kit again from your instructor"


def check(folder: Path, manifest: Manifest, names: Iterable[str]) -> None:
    """Raises `UsageError` when one of the named files is not as it was packed."""
    for name in names:
        path = folder / name
        try:
            whole = digest(path) == manifest.files.get(name)
        except OSError:
            whole = False
        if not whole:
            raise UsageError(f"{path}: this file of the kit is damaged or was changed", FETCH)


def write(path: Path, record: dict[str, Any]) -> None:
    """Write a record: entries as frames, compressed."""
    buffers: list[bytes | memoryview] = []
    nodes = {
        kind: [[key, protocol.encode(value, buffers)] for key, value in entries.items()]
        for kind, entries in record["entries"].items()
    }
    head = {
        **{key: item for key, item in record.items() if key != "entries"},
        "entries": nodes,
        "sizes": [len(b) for b in buffers],
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    blob = len(text).to_bytes(8, "big") + text + b"".join(buffers)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zlib.compress(blob, 9))


@dataclass(frozen=True)
class Record:
    """An exercise's record as read: entries are decoded when they are asked for."""

    exercise: str
    seeds: tuple[int, ...]
    misconceptions: tuple[Misconception, ...]
    nodes: dict[str, dict[str, Any]]
    buffers: tuple[memoryview, ...]

    def get(self, kind: str, key: tuple[Any, ...]) -> Value:
        """The entry; raises KeyError."""
        return protocol.decode(self.nodes[kind][text_of(key)], list(self.buffers))

    def has(self, kind: str, key: tuple[Any, ...]) -> bool:
        return text_of(key) in self.nodes.get(kind, {})


def text_of(key: tuple[Any, ...]) -> str:
    return json.dumps(key, separators=(",", ":"))


@lru_cache(maxsize=64)
def read(path: Path) -> Record:
    """Read a record; raises `UsageError` when it is damaged."""
    try:
        opened = zlib.decompressobj()
        blob = opened.decompress(path.read_bytes(), MAX_BYTES)
        size = int.from_bytes(blob[:8], "big")
        head = json.loads(blob[8 : 8 + size])
        rest = memoryview(blob)[8 + size :]
        buffers = []
        at = 0
        for length in head["sizes"]:
            buffers.append(rest[at : at + length])
            at += length
        if at != len(rest):
            raise ValueError("cut off")
        known = tuple(
            Misconception(m["id"], m["says"], m["help"], tuple(m["equals"]), ()) for m in head["misconceptions"]
        )
        nodes = {kind: dict(entries) for kind, entries in head["entries"].items()}
        return Record(head["exercise"], tuple(head["seeds"]), known, nodes, tuple(buffers))
    except (OSError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise UsageError(f"{path}: this file of the kit is damaged ({type(error).__name__})", FETCH) from None


# --- what was recorded, as an oracle ----------------------------------------------------------------------------------


class RecordedOracle:
    """Knows what a reference answered when the kit was packed."""

    def __init__(self, exercise: Exercise, record: Record) -> None:
        self.exercise = exercise
        self.seconds = 0.0
        self._record = record
        self._expected: dict[tuple[str, str], Expected] = {}

    def expected(self, case: Case, dtype: str) -> Expected:
        key = (case.key, dtype)
        if key not in self._expected:
            try:
                value, leaves, seconds, calls = self._record.get("expected", key)
            except KeyError:
                raise NotRecorded(f"case `{case.name}` was not recorded") from None
            except ProtocolError:
                raise _damaged(self.exercise) from None
            known = tuple(Leaf(path, part, allowed, tuple(axes)) for path, part, allowed, axes in leaves)
            self._expected[key] = Expected(value, known, dtype, seconds, tuple((name, given) for name, given in calls))
        return self._expected[key]

    def prefetch(self, wanted: Iterable[tuple[Case, str]]) -> None:
        """Nothing runs here, so there is nothing to begin with."""

    def raw(
        self,
        case: Case,
        dtype: str,
        mode: str = "plain",
        options: dict[str, Any] | None = None,
        values: dict[str, Value] | None = None,
    ) -> Answer:
        try:
            value, seconds, calls, extra = self._record.get("raw", call_key(case, dtype, mode, options, values))
        except KeyError:
            if mode == "plain":
                known = self.expected(case, dtype)
                return Answer(known.value, known.seconds, known.calls, {})
            raise NotRecorded(f"case `{case.name}` was not recorded") from None
        except ProtocolError:
            raise _damaged(self.exercise) from None
        return Answer(value, seconds, tuple((name, given) for name, given in calls), extra)

    def provided_cases(self, entropy: int) -> dict[str, dict[str, Value]]:
        try:
            found: dict[str, dict[str, Value]] = self._record.get("provided", (entropy,))
        except KeyError:
            return {}
        return found

    def close(self) -> None:
        """Nothing is held."""


def seeds_of(exercise: Exercise) -> tuple[int, ...] | None:
    """The seeds that were recorded; None where a reference answers, or nothing does."""
    if exercise.solution is not None or exercise.recorded is None:
        return None
    return read(exercise.recorded).seeds


def insist_on_recorded(exercise: Exercise, seed: int, count: int | None) -> None:
    """Raises `UsageError` when a run asks for cases that a kit does not hold."""
    seeds = seeds_of(exercise)
    if seeds is None:
        return
    if seed not in seeds:
        known = ", ".join(map(str, seeds))
        raise UsageError(f"seed {seed} is not among the recorded ones ({known})", f"grade {exercise.name}")
    if count is not None and count > exercise.spec.cases.random:
        raise UsageError(
            f"--cases {count}: this kit holds {exercise.spec.cases.random} random cases", f"grade {exercise.name}"
        )


def oracle_for(runner: Runner, exercise: Exercise) -> Oracle:
    """What knows the expected results: the reference, or in a kit what was recorded of it.

    Raises:
        GraderFault: there is neither.
        UsageError: the kit is damaged or of another version.
    """
    if exercise.solution is not None or exercise.recorded is None:
        return ReferenceOracle(runner, exercise)
    insist_on_whole(exercise, exercise.recorded)
    return RecordedOracle(exercise, read(exercise.recorded))


def diagnostician_for(runner: Runner, exercise: Exercise) -> Diagnostician:
    """What names mistakes: by patching the reference, or in a kit by what patched ones answered."""
    if exercise.solution is not None or exercise.recorded is None:
        return Diagnostician(runner, exercise)
    known = read(exercise.recorded)
    return RecordedDiagnostician(runner, exercise, known, RecordedOracle(exercise, known))


def insist_on_whole(exercise: Exercise, recorded: Path) -> None:
    """Raises `UsageError` when a file of an exercise in a kit is not as it was packed, or the kit of another version."""
    root = recorded.parent.parent.parent
    manifest = read_manifest(root)
    if manifest is None:
        raise UsageError(f"{root / MANIFEST}: this kit is damaged: the file is missing", FETCH)
    folder = exercise.folder.resolve().relative_to(root.resolve()).as_posix()
    check(root, manifest, (f"{folder}/exercise.yaml", recorded.relative_to(root).as_posix()))


class RecordedDiagnostician(Diagnostician):
    """Knows what each misconception's patched reference answered; two at once were not recorded."""

    def __init__(self, runner: Runner, exercise: Exercise, record: Record, oracle: RecordedOracle) -> None:
        super().__init__(runner, exercise)
        self._record, self._oracle = record, oracle

    @property
    def misconceptions(self) -> tuple[Misconception, ...]:
        return self._record.misconceptions

    def diagnose(self, trial: Any, failing: Any, pairs: bool = True) -> Any:
        return super().diagnose(trial, failing, pairs=False)

    def _ask_together(self, several: Sequence[tuple[Misconception, ...]], case: Case, dtype: str) -> None:
        # What was recorded needs no asking.
        pass

    def _ask_on(self, entries: tuple[Misconception, ...], calls: Sequence[tuple[Case, str]]) -> None:
        pass

    def answer(self, entries: tuple[Misconception, ...], case: Case, dtype: str) -> Outcome | None:
        key = (entries[0].id, case.key, dtype)
        if self._record.has("alike", key):
            return Outcome("returned", value=self._oracle.expected(case, dtype).value)
        try:
            status, value, changes, error = self._record.get("patched", key)
        except KeyError:
            return None
        told = Error(error, "", "exception") if error else None
        return Outcome(status, value=value, changes=tuple(Change(*one) for one in changes), error=told)


def _damaged(exercise: Exercise) -> GraderFault:
    return GraderFault(f"the record of `{exercise.name}` is damaged", FETCH)
