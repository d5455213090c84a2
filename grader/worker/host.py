"""The loop of one worker: load a submission (or a reference), answer calls until the pipe closes.

Every reply is only a claim. The grader compares the bytes, reads the clock and takes the exit status from
the kernel itself; what is said here of changed inputs or devices teaches honest students and is trusted for nothing else.
"""

from __future__ import annotations

import json
import linecache
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from grader.sandbox import forbidden, protocol
from grader.worker import notebook, source, steps, values

Mode = Callable[[Any, tuple[Any, ...], dict[str, Any]], dict[str, Any]]


class Pipe:
    """Blocking frames over two file descriptors."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    def receive(self) -> tuple[dict[str, Any], list[memoryview]] | None:
        """The next frame, or None when the grader has closed its end."""
        prefix = self._read(protocol.PREFIX.size)
        if prefix is None:
            return None
        header_length, payload_length = protocol.parse_prefix(bytes(prefix))
        body = self._read(header_length + payload_length)
        return None if body is None else protocol.parse_body(body, header_length)

    def _read(self, count: int) -> bytearray | None:
        data = bytearray(count)
        view = memoryview(data)
        at = 0
        while at < count:
            got = os.readv(self._incoming, [view[at:]])
            if got == 0:
                return None
            at += got
        return data

    def send(self, header: dict[str, Any], buffers: list[Any] | None = None) -> None:
        for piece in protocol.pack(header, buffers or []):
            view = memoryview(piece)
            while view:
                view = view[os.write(self._outgoing, view) :]

    def send_value(self, header: dict[str, Any], key: str, value: Any) -> None:
        buffers: list[Any] = []
        self.send({**header, key: protocol.encode(value, buffers)}, buffers)


class Host:
    """One submission in this process: its function, and the calls made of it."""

    def __init__(self, pipe: Pipe, read_paths: tuple[str, ...] | None = None) -> None:
        """``read_paths`` are what the lock lets this process read; None where there is no lock."""
        self._pipe = pipe
        self._read_paths = read_paths
        self._function: Any = None
        self._filename = ""
        # Of patched references, what many of them have in common.
        self._compiled: dict[tuple[int, str], Any] = {}

    def serve(self) -> None:
        while True:
            frame = self._pipe.receive()
            if frame is None:
                return
            header, buffers = frame
            if header["op"] == "calls":
                self._pipe.send({"calls": _called(header, bytes(buffers[0]))})
            elif header["op"] == "load":
                self._load(header, buffers)
            elif header["op"] == "call":
                self._call(header, buffers)
            elif header["op"] == "try":
                self._try(header, buffers)
            elif header["op"] == "cases":
                self._cases(header)

    def _load(self, header: dict[str, Any], buffers: list[memoryview]) -> None:
        self._filename = header["filename"]
        started = time.perf_counter()
        left_out: list[str] = []
        wanted = header["function"], header["arguments"]
        try:
            if header.get("cells"):
                module = source.new_module(self._filename, header["module"])
                left_out = notebook.execute(json.loads(bytes(buffers[0])), self._filename, module)
                self._function = source.find_function(module, *wanted, self._filename)
            else:
                self._function = source.load_function(bytes(buffers[0]), self._filename, header["module"], *wanted)
        except source.LoadError as error:
            reply: dict[str, Any] = {"loaded": False, "fault": error.data}
        except BaseException as error:
            reply = {"loaded": False, "fault": self._fault(error)}
        else:
            reply = {"loaded": True, "seconds": time.perf_counter() - started}
        _flush()
        self._pipe.send({**reply, "left_out": left_out})

    def _try(self, header: dict[str, Any], buffers: list[memoryview]) -> None:
        """Patched references only: load each source in turn and call it once with the same arguments."""
        count = header["sources"]
        found: list[Any] = []
        # Every array that a function is given is made anew of these.
        arguments = protocol.decode(header["args"], buffers)
        for text in buffers[:count]:
            try:
                function = source.load_variant(
                    bytes(text), header["module"], header["function"], header["arguments"], self._compiled
                )
            except BaseException:
                found.append(["not_loaded", None, []])
                continue
            try:
                reply = _plain(function, tuple(values.to_native(value) for value in arguments), header)
            except Exception as error:
                found.append(["raised", source.describe(error, header["filename"])["type"], []])
                continue
            found.append(["returned", reply["value"]["result"], reply["changed"]])
        self._pipe.send_value({"status": "returned"}, "value", found)

    def _cases(self, header: dict[str, Any]) -> None:
        """Reference only: the cases that `solution.py` builds itself with its optional ``cases(rng)``."""
        import numpy as np

        try:
            build = sys.modules[header["module"]].__dict__["cases"]
            made = build(np.random.Generator(np.random.PCG64(header["entropy"])))
            plain = {str(name): {str(k): values.from_native(v) for k, v in case.items()} for name, case in made.items()}
        except BaseException as error:
            self._pipe.send({"status": "raised", "error": source.describe(error, self._filename)})
            return
        self._pipe.send_value({"status": "returned"}, "value", plain)

    def _call(self, header: dict[str, Any], buffers: list[memoryview]) -> None:
        arguments = protocol.decode(header["args"], buffers)
        native = tuple(values.to_native(value, self._answer) for value in arguments)
        if "weights" in header:
            header["weights"] = protocol.decode(header["weights"], buffers)
        header["filename"] = self._filename
        mode = _mode(header.get("mode", "plain"))
        started = time.perf_counter()
        try:
            reply = mode(self._function, native, header)
        except BaseException as error:
            seconds = time.perf_counter() - started
            _flush()
            fault = self._fault(error)
            self._pipe.send({"id": header["id"], "status": "raised", "seconds": seconds, "error": fault})
            return
        _flush()
        result = reply.pop("value", None)
        try:
            self._pipe.send_value({"id": header["id"], "status": "returned", **reply}, "value", result)
        except TypeError:
            fallback = protocol.Opaque(type(result).__name__, "it could not be read")
            self._pipe.send_value({"id": header["id"], "status": "returned", **reply}, "value", fallback)

    def _fault(self, error: BaseException) -> dict[str, Any]:
        fault = {"cause": _cause(error), **source.describe(error, self._filename)}
        refused = forbidden.explain(error, self._read_paths) if self._read_paths is not None else None
        if refused is not None:
            fault.update(cause="forbidden_operation", message=refused.says)
        return fault

    def _answer(self, name: str, args: tuple[Any, ...]) -> Any:
        """Pass a call of a handed-in function on to the grader, and its answer back."""
        buffers: list[Any] = []
        plain = values.from_native(list(args))
        self._pipe.send({"callback": name, "args": protocol.encode(plain, buffers)}, buffers)
        frame = self._pipe.receive()
        if frame is None:
            os._exit(0)
        header, incoming = frame
        if "refused" in header:
            raise ValueError(header["refused"])
        return values.to_native(protocol.decode(header["value"], incoming))


def _plain(function: Any, native: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    before = [values.footprint(item) for item in native]
    started = time.perf_counter()
    result = function(*native)
    seconds = time.perf_counter() - started
    # What was returned is read before the inputs are: a result may be a view of one.
    value = values.from_native(result)
    changed: list[dict[str, Any]] = []
    for index, item in enumerate(native):
        for path, what in values.changes(before[index], values.footprint(item)):
            changed.append({"argument": index, "path": path, "what": what})
    return {
        "value": {"result": value, "inputs": _changed(native, changed)},
        "seconds": seconds,
        "changed": changed[:50],
    }


def _changed(native: tuple[Any, ...], changed: list[dict[str, Any]]) -> dict[int, Any]:
    """The changed arguments as they are now, so that the grader can show what happened to them."""
    return {entry["argument"]: values.from_native(native[entry["argument"]]) for entry in changed[:4]}


def _steps(function: Any, native: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    started = time.perf_counter()
    result, place = steps.changing_line(function, native, options["filename"], int(options["changed"]))
    value = {"result": values.from_native(result)}
    return {"value": value, "seconds": time.perf_counter() - started, "place": place}


def _on_device(function: Any, native: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    from grader.worker.device import call_on_device

    started = time.perf_counter()
    found = call_on_device(
        function, native, scalar=bool(options.get("scalar")), called_before=True, file=options.get("file")
    )
    place = found.where
    told = {
        "status": found.status,
        "detail": found.detail,
        "operation": found.operation,
        "path": found.path,
        "own": found.own,
        "file": place.file if place is not None else "",
        "line": place.line if place is not None else 0,
        "text": linecache.getline(place.file, place.line).strip() if place is not None else "",
    }
    result = values.from_native(found.value) if found.status == "ok" else None
    return {"value": {"result": result}, "seconds": time.perf_counter() - started, "device": told}


def _called(header: dict[str, Any], text: bytes) -> list[str]:
    """The names that a submission calls, a notebook or not."""
    if not header.get("cells"):
        return source.called_names(text)
    try:
        return source.called_in(notebook.syntax_tree(json.loads(text), header["filename"]))
    except (RecursionError, MemoryError):
        return []


def _mode(name: str) -> Mode:
    if name == "plain":
        return _plain
    if name == "gradients":
        from grader.worker.autograd import gradients

        return gradients
    if name == "device":
        return _on_device
    if name == "steps":
        return _steps
    if name == "memory":
        from grader.worker.memory import peak

        return peak
    raise ValueError(f"unknown mode {name}")


def _cause(error: BaseException) -> str:
    if isinstance(error, SystemExit | KeyboardInterrupt | GeneratorExit):
        return "exited"
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "allocate memory" in str(error)):
        return "memory"
    if isinstance(error, ModuleNotFoundError | ImportError):
        return "import_error"
    return "exception"


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            # The stream may be the submission's own object; what it printed is shown as far as it came.
            pass
