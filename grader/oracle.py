"""What the reference answers, and how far an honest answer may be from it.

The tolerance is measured, not chosen: per case and output array it is a multiple of the reference's own response to a
relative change of 6e-8 in its continuous inputs, and in narrower dtypes of its own rounding. See docs/fidelity.md.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from grader import cases, compare
from grader.cases import Case
from grader.errors import AuthorError, Finding, GraderFault
from grader.lockdown import reference_policy
from grader.model import Expected, Leaf
from grader.sandbox import protocol
from grader.sandbox.protocol import Array, Opaque, ProtocolError, Value
from grader.sandbox.runner import Fault, Limits, Runner, Worker
from grader.spec.exercise import Exercise
from grader.spec.schema import Output

RESPONSE_FACTOR = 8.0
ROUNDING_FACTOR = 64.0
ILL_CONDITIONED = 1e-4
# A tolerance beyond this part of the output's scale is looked into before it is believed.
COARSE = 1e-2
# A response seen on few elements may be small by accident, so small outputs are perturbed more often.
ENOUGH_ELEMENTS = 48
HALVES = ("float16", "bfloat16")
MAX_PERTURBATIONS = 4
# A call of a reference may take this many times what one of a submission may, and at least so long.
PATIENCE = 4.0
PATIENCE_FLOOR = 2.0
LOADING = 10.0
REFERENCE_MEMORY = 8192.0


def limits_for(exercise: Exercise) -> Limits:
    """What one call of a reference, patched or not, may cost: more than a submission's, and never without end."""
    return Limits.of(max(PATIENCE * exercise.spec.limits.time, PATIENCE_FLOOR), REFERENCE_MEMORY)


T = TypeVar("T")
STOPPED = "the reference was stopped before it answered"


class IllConditioned(Exception):
    """A case whose answer depends so strongly on its inputs that no sharp tolerance exists."""


@dataclass(frozen=True)
class Answer:
    """One raw answer of a reference."""

    value: Value
    seconds: float
    calls: tuple[tuple[str, Value], ...]
    extra: dict[str, Any]


class Oracle(Protocol):
    """Something that knows the expected results: a reference that runs, or a record of one that did."""

    exercise: Exercise
    seconds: float

    def expected(self, case: Case, dtype: str) -> Expected: ...
    def prefetch(self, wanted: Iterable[tuple[Case, str]]) -> None: ...
    def raw(
        self,
        case: Case,
        dtype: str,
        mode: str = "plain",
        options: dict[str, Any] | None = None,
        values: dict[str, Value] | None = None,
    ) -> Answer: ...
    def provided_cases(self, entropy: int) -> dict[str, dict[str, Value]]: ...
    def close(self) -> None: ...


class ReferenceOracle:
    """Runs ``solution.py`` (or a patched text of it) in a worker of its own, in a thread of its own."""

    def __init__(
        self, runner: Runner, exercise: Exercise, source: bytes | None = None, limits: Limits | None = None
    ) -> None:
        """``limits`` are those of one call; without them they follow from the exercise's own."""
        if source is None:
            if exercise.solution is None:
                raise GraderFault(f"the reference of `{exercise.name}` is missing", "grader doctor, or --reference DIR")
            source = exercise.solution.read_bytes()
        self.exercise = exercise
        self.seconds = 0.0
        self._runner = runner
        self._source = source
        self._limits = limits or limits_for(exercise)
        # Set when the reference gave no answer in its time: it is not asked again, call after call.
        self._hopeless: GraderFault | None = None
        self._worker: Worker | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reference")
        self._futures: dict[tuple[str, str], Future[Expected]] = {}
        self._answers: dict[tuple[str, ...], Answer] = {}
        self._lock = threading.Lock()

    def expected(self, case: Case, dtype: str) -> Expected:
        """The reference's answer with its tolerances.

        Raises:
            IllConditioned: no sharp tolerance exists for the case.
            GraderFault: the reference fails.
        """
        return _result(self._future(case, dtype))

    def prefetch(self, wanted: Iterable[tuple[Case, str]]) -> None:
        """Start on these in the background, in this order."""
        for case, dtype in wanted:
            self._future(case, dtype)

    def raw(
        self,
        case: Case,
        dtype: str,
        mode: str = "plain",
        options: dict[str, Any] | None = None,
        values: dict[str, Value] | None = None,
    ) -> Answer:
        """The reference's bare answer, in the thread of the reference."""
        return _result(self._submit(self._raw, case, dtype, mode, options, values))

    def provided_cases(self, entropy: int) -> dict[str, dict[str, Value]]:
        """What the optional ``cases(rng)`` of solution.py returns: inputs by case name."""
        return _result(self._submit(self._provided, entropy))

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._worker is not None:
            self._worker.close()

    def _future(self, case: Case, dtype: str) -> Future[Expected]:
        key = (case.key, dtype)
        with self._lock:
            if key not in self._futures:
                self._futures[key] = self._submit(self._expected, case, dtype)
            return self._futures[key]

    def _submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        try:
            return self._thread.submit(function, *arguments)
        except RuntimeError:
            # Closed by another thread that shares it, because the process that starts workers died.
            raise GraderFault(STOPPED) from None

    def _started(self) -> Worker:
        if self._hopeless is not None:
            raise self._hopeless
        if self._worker is not None and self._worker.alive:
            return self._worker
        if self._worker is not None:
            self._worker.close()
            self._worker = None
        worker = self._runner.spawn(reference_policy(self._limits))
        fault = worker.wait_ready()
        if isinstance(fault, Fault):
            raise GraderFault(f"the reference's worker did not start: {fault.kind} {fault.detail}")
        spec = self.exercise.spec
        header = {
            "op": "load",
            "filename": "solution.py",
            "module": f"reference_{self.exercise.name}",
            "function": self.exercise.function,
            "arguments": len(spec.inputs),
        }
        # Loading includes what it imports, however little its calls may take.
        loading = Limits.of(max(self._limits.cpu_seconds, LOADING), REFERENCE_MEMORY)
        reply = worker.request(header, blobs=[self._source], limits=loading)
        if isinstance(reply, Fault) or not reply.header.get("loaded"):
            why = _ending(reply) if isinstance(reply, Fault) else _words(reply.header["fault"])
            worker.close()
            self._hopeless = self._fault(f"cannot be loaded: {why}")
            raise self._hopeless
        self._worker = worker
        return worker

    def _fault(self, what: str) -> GraderFault:
        return GraderFault(f"the reference of `{self.exercise.name}` {what}", f"grader lint {self.exercise.name}")

    def _provided(self, entropy: int) -> dict[str, dict[str, Value]]:
        worker = self._started()
        reply = worker.request(
            {"op": "cases", "module": f"reference_{self.exercise.name}", "entropy": entropy}, limits=self._limits
        )
        if isinstance(reply, Fault) or reply.header["status"] != "returned":
            why = reply.kind if isinstance(reply, Fault) else _words(reply.header["error"])
            raise GraderFault(
                f"cases() in the reference of `{self.exercise.name}` failed: {why}", "grader lint " + self.exercise.name
            )
        provided: dict[str, dict[str, Value]] = reply.value()
        return provided

    def _raw(
        self,
        case: Case,
        dtype: str,
        mode: str = "plain",
        options: dict[str, Any] | None = None,
        values: dict[str, Value] | None = None,
    ) -> Answer:
        remembered = (case.key, dtype, mode, repr(sorted((options or {}).items())), fingerprint(values))
        if remembered in self._answers:
            return self._answers[remembered]
        framework = self.exercise.spec.framework
        for _ in range(2):
            # A worker may be ended from outside, by the system when memory is short for one: the second death is the reference's.
            worker = self._started()
            record: list[tuple[str, Value]] = []
            reply = worker.request(
                {"op": "call", "id": 0, "mode": mode, **(options or {})},
                {"args": cases.arguments(case, framework, dtype), **(values or {})},
                limits=self._limits,
                answer=cases.answerer(case, framework, dtype, record) if case.functions else None,
            )
            if not isinstance(reply, Fault) or reply.kind not in ("exited", "signal"):
                break
            self._worker = None
        if isinstance(reply, Fault):
            self._worker = None
            fault = self._fault(f"gave no answer on case `{case.name}`: {_ending(reply)}")
            if reply.kind != "lost":
                self._hopeless = fault
            raise fault
        if reply.header["status"] != "returned":
            raise self._fault(f"fails on case `{case.name}`: {_words(reply.header['error'])}")
        seconds = float(reply.header["seconds"])
        self.seconds += seconds
        try:
            body = reply.value()
        except ProtocolError as error:
            raise self._fault(f"returns what has no plain form on case `{case.name}`: {error}") from None
        extra = {key: item for key, item in reply.header.items() if key not in ("id", "status", "value")}
        extra.update({key: item for key, item in body.items() if key not in ("result", "inputs")})
        answer = Answer(body["result"], seconds, tuple(record), extra)
        self._answers[remembered] = answer
        return answer

    def _expected(self, case: Case, dtype: str) -> Expected:
        output = self.exercise.spec.output
        # On the bits that the narrower call sees, so that rounding the inputs is no part of what is measured.
        case = cases.on_grid(case, dtype) if dtype in HALVES else case
        base = self._raw(case, "float64")
        absurd = _absurd(base.value, output, self.exercise.spec.framework)
        if absurd is not None:
            raise self._fault(f"returns {absurd} on case `{case.name}`")
        found = list(compare.parts(base.value, output))
        elements = sum(n.size for part in found if (n := compare.numbers(part.value)) is not None)
        count = 1 if elements >= ENOUGH_ELEMENTS else min(MAX_PERTURBATIONS, 1 + ENOUGH_ELEMENTS // max(1, elements))
        moved = [list(compare.parts(self._raw(cases.perturb(case, k), "float64").value, output)) for k in range(count)]
        narrow = list(compare.parts(self._raw(case, dtype).value, output)) if dtype != "float64" else None
        scale_in = max((scale for _, scale in _input_scales(case)), default=1.0)
        leaves = []
        for index, part in enumerate(found):
            responses = [_distance(part.value, other[index].value) for other in moved if index < len(other)]
            response = max(responses, default=0.0)
            rounding = _distance(part.value, narrow[index].value) if narrow is not None else 0.0
            allowed = self._allowed(case, dtype, part, response, rounding, scale_in)
            if 0.0 < compare.largest(part.value) * COARSE < allowed and RESPONSE_FACTOR * response < allowed:
                # So small an output may be all that cancels, or may come of small inputs alone: then it is judged by those.
                reaching = self._reaching(case, base, index)
                allowed = self._allowed(case, dtype, part, response, rounding, reaching)
            # The leaf keeps the float64 values, whatever dtype the call is made in: its own dtype is graded apart.
            leaves.append(Leaf(part.path, part.value, allowed, tuple(part.output.axes or ())))
        self._check_golden(case, base.value)
        return Expected(base.value, tuple(leaves), dtype, base.seconds, base.calls)

    def _reaching(self, case: Case, base: Answer, index: int) -> float:
        """The scale of the largest input that has any part in one part of the result, to the last bit."""
        output = self.exercise.spec.output
        before = list(compare.parts(base.value, output))[index].value
        for path, scale in sorted(_input_scales(case), key=lambda entry: -entry[1]):
            after = list(compare.parts(self._raw(cases.perturb_only(case, path), "float64").value, output))
            if _distance(before, after[index].value if index < len(after) else None) > 0:
                return scale
        return 1.0

    def _allowed(
        self, case: Case, dtype: str, part: compare.Part, response: float, rounding: float, scale_in: float
    ) -> float:
        values = compare.numbers(part.value) if part.output.kind != "python" else _python_numbers(part.value)
        if values is None or values.dtype.kind != "f":
            if response or rounding:
                raise IllConditioned(
                    f"case `{case.name}`: {part.path or 'the result'}, which is not continuous, changes with the last bits of the inputs"
                )
            return 0.0
        finite = values[np.isfinite(values)]
        scale = float(np.abs(finite).max()) if finite.size else 0.0
        floor = compare.FLOOR_ULPS * compare.EPS[dtype] * max(scale, min(1.0, scale_in))
        if dtype == "float64":
            allowed = max(RESPONSE_FACTOR * response, floor)
            if not allowed <= max(ILL_CONDITIONED * scale, floor):
                raise IllConditioned(
                    f"case `{case.name}`: a relative change of 6e-8 moves {part.path or 'the result'} by {response:.2g} (scale {scale:.2g})"
                )
            return allowed
        allowed = max(ROUNDING_FACTOR * max(response, rounding), floor)
        if not np.isfinite(allowed):
            raise IllConditioned(f"case `{case.name}`: the reference itself overflows in {dtype}")
        return allowed

    def _check_golden(self, case: Case, value: Value) -> None:
        if case.golden is None:
            return
        gap = golden_gap(value, case.golden)
        if not gap <= max(case.golden_tolerance, 1e-12):
            path = str(self.exercise.folder / "exercise.yaml")
            message = f"example `{case.name}`: the reference differs from the published values by {gap:.3g}"
            raise AuthorError([Finding(path, 0, 0, message)], f"grader lint {self.exercise.name}")


def fingerprint(values: dict[str, Value] | None) -> str:
    """A text that is the same exactly where the values sent along are."""
    if not values:
        return ""
    pieces: list[Any] = []
    body = protocol.encode(values, pieces)
    total = hashlib.sha256(json.dumps(body, sort_keys=True).encode())
    for piece in pieces:
        total.update(piece)
    return total.hexdigest()


def _result(future: Future[T]) -> T:
    try:
        return future.result()
    except CancelledError:
        raise GraderFault(STOPPED) from None


def _absurd(value: Value, output: Output, framework: str) -> str | None:
    """What a reference returned, where that can be nobody's right answer; submissions must not be held to it."""
    wanted = {"tuple": tuple, "list": list, "dict": dict}.get(output.kind)
    if wanted is not None and not isinstance(value, wanted):
        return f"{compare.describe(value)} instead of a {output.kind}"
    for part in compare.parts(value, output):
        at = f" at {part.path}" if part.path else ""
        if isinstance(part.value, Opaque):
            return f"{compare.describe(part.value)}{at}, and {part.value.reason}"
        if part.value is None and not part.path:
            return "None"
        if part.output.kind == "array" and part.value is not None:
            family = part.value.family if isinstance(part.value, Array) else ""
            if family not in {"torch": ("tensor",)}.get(framework, ("ndarray", "scalar")):
                return f"{compare.describe(part.value)}{at}"
        if part.output.kind == "scalar" and compare.numbers(part.value) is None:
            return f"{compare.describe(part.value)}{at}"
    return None


def _ending(fault: Fault) -> str:
    """How a worker that hosts a reference ended, in words."""
    match fault.kind:
        case "timeout":
            return f"it takes more than {fault.detail}"
        case "memory":
            return f"it takes more than {fault.detail} of memory"
        case "signal":
            return f"its process was ended by {fault.detail}"
        case "exited":
            return f"it ends its process ({fault.detail})"
    return fault.detail or fault.kind


def golden_gap(value: Value, golden: Any) -> float:
    """The largest absolute difference between a result and published values of the same structure (inf when they do not fit)."""
    if isinstance(golden, dict) and isinstance(value, dict):
        if set(golden) != set(value):
            return float("inf")
        return max((golden_gap(value[key], golden[key]) for key in golden), default=0.0)
    if isinstance(value, list | tuple):
        if not isinstance(golden, list) or len(golden) != len(value):
            return float("inf")
        return max((golden_gap(mine, theirs) for mine, theirs in zip(value, golden, strict=True)), default=0.0)
    mine = compare.numbers(value)
    if mine is None:
        return 0.0 if value == golden else float("inf")
    theirs = np.asarray(golden, dtype=np.float64)
    if mine.shape != theirs.shape:
        return float("inf")
    same = (mine == theirs) | (np.isnan(mine.astype(np.float64)) & np.isnan(theirs))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(mine.astype(np.float64) - theirs))
    return float(difference.max()) if difference.size else 0.0


def _input_scales(case: Case) -> list[tuple[str, float]]:
    """The largest magnitude of each continuous array that is not zero throughout, by its path."""
    found = []
    for path, drawn in cases.arrays(case):
        if drawn.continuous and drawn.values.size and drawn.values.dtype.kind == "f":
            finite = drawn.values[np.isfinite(drawn.values)]
            scale = float(np.abs(finite).max()) if finite.size else 0.0
            found += [(path, scale)] if scale > 0 else []
    return found


def _python_numbers(value: Value) -> np.ndarray | None:
    found: list[float] = []

    def walk(item: Value) -> None:
        if isinstance(item, Array):
            found.extend(float(x) for x in item.numbers().reshape(-1))
        elif isinstance(item, float):
            found.append(item)
        elif isinstance(item, dict):
            for inner in item.values():
                walk(inner)
        elif isinstance(item, list | tuple):
            for inner in item:
                walk(inner)

    walk(value)
    return np.asarray(found, dtype=np.float64) if found else None


def _frame(value: Value) -> Any:
    """A Python value without its floats: what must stay as it is when they move."""
    if isinstance(value, Array):
        return value.dtype, value.shape, None if value.is_float else value.raw.tolist()
    if isinstance(value, dict):
        return {key: _frame(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_frame(item) for item in value]
    return "float" if isinstance(value, float) else value


def _distance(first: Value, second: Value) -> float:
    """The largest absolute difference of two leaves; inf when they differ in shape or in what is finite."""
    a, b = compare.numbers(first), compare.numbers(second)
    if a is None or b is None:
        if _frame(first) != _frame(second):
            return float("inf")
        a, b = _python_numbers(first), _python_numbers(second)
        if a is None or b is None:
            return 0.0 if a is b else float("inf")
    if a.shape != b.shape:
        return float("inf")
    if a.dtype.kind != "f" or b.dtype.kind != "f":
        return 0.0 if np.array_equal(a, b) else float("inf")
    with np.errstate(invalid="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        difference = np.where(same, 0.0, np.abs(a - b))
    if difference.size == 0:
        return 0.0
    worst = float(np.nan_to_num(difference, nan=np.inf).max())
    return worst


def _words(fault: dict[str, Any]) -> str:
    frames = fault.get("frames") or []
    where = f" (line {frames[-1]['line']})" if frames else (f" (line {fault['line']})" if fault.get("line") else "")
    kind = fault.get("type")
    return (f"{kind}: " if kind else "") + str(fault.get("message", "")) + where
