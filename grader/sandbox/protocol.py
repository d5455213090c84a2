"""Frames between the grader and a worker: a JSON header and raw buffers.

A frame is ``>IQ`` (header length, payload length), the header as UTF-8 JSON, then the payload: the bytes
of every array, one after the other. Nothing is ever unpickled. A frame from a worker that hosts a
submission is hostile input: each length is checked against a cap before it is believed, each dtype
against a list, and each shape against the bytes that are really there.

Both ends import this module, so it needs nothing but the standard library and NumPy.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PREFIX = struct.Struct(">IQ")
MAX_HEADER = 4 << 20
MAX_PAYLOAD = 256 << 20
MAX_DEPTH = 24
MAX_NODES = 200_000
MAX_NDIM = 16
# Integers beyond this are no honest result, and would overflow where they meet a float.
MAX_INTEGER = 10**300

# Storage of each dtype that may cross the pipe. NumPy has no bfloat16, so its bits travel as uint16.
STORAGE: dict[str, np.dtype[Any]] = {
    "float64": np.dtype("<f8"),
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype("<u2"),
    "int64": np.dtype("<i8"),
    "int32": np.dtype("<i4"),
    "int16": np.dtype("<i2"),
    "int8": np.dtype("i1"),
    "uint64": np.dtype("<u8"),
    "uint32": np.dtype("<u4"),
    "uint16": np.dtype("<u2"),
    "uint8": np.dtype("u1"),
    "bool": np.dtype("?"),
}
FLOATS = ("float64", "float32", "float16", "bfloat16")


class ProtocolError(Exception):
    """A frame that no honest worker would send."""


class TooLarge(ProtocolError):
    """A frame larger than its cap."""


@dataclass(frozen=True, eq=False)
class Array:
    """A tensor or an ndarray as plain bits.

    ``family`` is ``tensor``, ``ndarray`` or ``scalar`` (a NumPy scalar); ``raw`` holds the bits in the
    storage dtype of ``dtype``. What a worker says of a tensor's device and of ``requires_grad`` is its word only.
    ``layout`` asks the worker for a non-contiguous view of the same values.
    """

    family: str
    dtype: str
    raw: np.ndarray
    device: str = "cpu"
    requires_grad: bool = False
    layout: str = "contiguous"

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.raw.shape)

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    def numbers(self) -> np.ndarray:
        """The values, as float64 where they are floats and in their own dtype otherwise."""
        if self.dtype == "bfloat16":
            bits = self.raw.astype(np.uint32) << np.uint32(16)
            return bits.view(np.float32).astype(np.float64)
        if self.is_float:
            return self.raw.astype(np.float64)
        return self.raw


@dataclass(frozen=True)
class Opaque:
    """A value that has no plain form: what it was, and why it is not taken."""

    type_name: str
    reason: str


@dataclass(frozen=True)
class Function:
    """A function handed to the submission; each of its calls is answered by the grader."""

    name: str


@dataclass(frozen=True)
class Encoded:
    """A value that was encoded before, as the first of its frame: what is sent many times is taken apart once."""

    node: Any
    buffers: tuple[bytes | memoryview, ...]

    @classmethod
    def of(cls, value: Value) -> Encoded:
        buffers: list[bytes | memoryview] = []
        node = encode(value, buffers)
        return cls(node, tuple(buffers))


ONE_PIECE = 256 << 10

# JSON numbers are exact below this everywhere; larger integers travel as text.
EXACT = 1 << 53
Value = Any  # Array | Opaque | Function | None | bool | int | float | str | list | tuple | dict


@dataclass
class Frame:
    header: dict[str, Any]
    buffers: list[bytes | memoryview] = field(default_factory=list)


def cast(values: np.ndarray, dtype: str) -> np.ndarray:
    """Round float64 ``values`` to ``dtype`` and return them in its storage form (round to nearest even)."""
    if dtype != "bfloat16":
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(STORAGE[dtype])
    with np.errstate(over="ignore", invalid="ignore"):
        bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).reshape(values.shape)
    rounding = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded = ((bits + rounding) >> np.uint32(16)).astype(np.uint16)
    nan = np.isnan(values)
    return np.where(nan, np.uint16(0x7FC0), rounded).astype(np.uint16)


def encode(value: Value, buffers: list[bytes | memoryview]) -> Any:
    """The JSON form of ``value``; the bytes of its arrays are appended to ``buffers``."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return {"i": str(value)} if abs(value) >= EXACT else value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"f": repr(value)}
    if isinstance(value, Array):
        raw = np.ascontiguousarray(value.raw, dtype=STORAGE[value.dtype]).reshape(value.raw.shape)
        buffers.append(raw.tobytes())
        node: dict[str, Any] = {"a": value.family, "d": value.dtype, "s": list(raw.shape), "b": len(buffers) - 1}
        if value.device != "cpu":
            node["v"] = value.device
        if value.requires_grad:
            node["g"] = True
        if value.layout != "contiguous":
            node["l"] = value.layout
        return node
    if isinstance(value, list):
        return {"L": [encode(item, buffers) for item in value]}
    if isinstance(value, tuple):
        return {"T": [encode(item, buffers) for item in value]}
    if isinstance(value, dict):
        return {"D": [[encode(k, buffers), encode(v, buffers)] for k, v in value.items()]}
    if isinstance(value, Function):
        return {"fn": value.name}
    if isinstance(value, Opaque):
        return {"o": [value.type_name, value.reason]}
    if isinstance(value, Encoded):
        if buffers:
            raise ValueError("its buffers are numbered from the first of a frame")
        buffers.extend(value.buffers)
        return value.node
    raise TypeError(f"no plain form for {type(value).__name__}")


def decode(node: Any, buffers: list[memoryview]) -> Value:
    """The value that ``encode`` gave; raises `ProtocolError` for anything else.

    Arrays are copies: nothing in the result shares memory with the frame. No two of them may share a buffer either, so
    that a value is never larger than the frame it came in.
    """
    budget = [MAX_NODES]
    return _decode(node, list(buffers), 0, budget)


def _decode(node: Any, buffers: list[memoryview | None], depth: int, budget: list[int]) -> Value:
    budget[0] -= 1
    if depth > MAX_DEPTH or budget[0] < 0:
        raise TooLarge("the value is nested too deeply or has too many parts")
    if node is None or isinstance(node, bool | float | str):
        return node
    if isinstance(node, int):
        if abs(node) >= EXACT:
            raise ProtocolError("not an integer")
        return node
    if not isinstance(node, dict):
        raise ProtocolError("not a value")
    if "a" in node:
        return _decode_array(node, buffers)
    if "L" in node and isinstance(node["L"], list):
        return [_decode(item, buffers, depth + 1, budget) for item in node["L"]]
    if "T" in node and isinstance(node["T"], list):
        return tuple(_decode(item, buffers, depth + 1, budget) for item in node["T"])
    if "D" in node and isinstance(node["D"], list):
        result: dict[Any, Value] = {}
        for pair in node["D"]:
            if not isinstance(pair, list) or len(pair) != 2:
                raise ProtocolError("not a pair")
            key = _decode(pair[0], buffers, depth + 1, budget)
            if not isinstance(key, str | int | float | bool | None):
                raise ProtocolError("not a key")
            result[key] = _decode(pair[1], buffers, depth + 1, budget)
        return result
    if "i" in node and isinstance(node["i"], str) and len(node["i"]) <= 400:
        try:
            whole = int(node["i"])
        except ValueError:
            raise ProtocolError("not an integer") from None
        if abs(whole) >= MAX_INTEGER:
            raise ProtocolError("not an integer")
        return whole
    if "f" in node and node["f"] in ("nan", "inf", "-inf"):
        return float(node["f"])
    if "fn" in node and isinstance(node["fn"], str):
        return Function(node["fn"])
    if "o" in node and isinstance(node["o"], list) and len(node["o"]) == 2:
        name, reason = node["o"]
        return Opaque(str(name)[:200], str(reason)[:200])
    raise ProtocolError("not a value")


def _decode_array(node: dict[str, Any], buffers: list[memoryview | None]) -> Array:
    family, dtype, shape, index = node.get("a"), node.get("d"), node.get("s"), node.get("b")
    if family not in ("tensor", "ndarray", "scalar") or not isinstance(dtype, str) or dtype not in STORAGE:
        raise ProtocolError("unknown array family or dtype")
    if not isinstance(shape, list) or len(shape) > MAX_NDIM:
        raise ProtocolError("not a shape")
    if not all(type(n) is int and 0 <= n <= MAX_PAYLOAD for n in shape):
        raise ProtocolError("not a shape")
    if type(index) is not int or not 0 <= index < len(buffers):
        raise ProtocolError("no such buffer")
    buffer, buffers[index] = buffers[index], None
    if buffer is None:
        raise ProtocolError("a buffer that was used before")
    count = math.prod(shape)
    storage = STORAGE[dtype]
    if count * storage.itemsize != len(buffer):
        raise ProtocolError("shape and bytes disagree")
    try:
        # A fresh array: aligned as NumPy aligns its own, writable, and independent of the frame.
        raw = np.empty(shape, dtype=storage)
    except ValueError:
        # An empty array may still have axes beyond what NumPy counts.
        raise ProtocolError("not a shape") from None
    raw.reshape(-1)[:] = np.frombuffer(buffer, dtype=storage)
    if dtype == "bool":
        # Any byte but 0 is true; a byte such as 2 must not compare as a third truth value.
        raw = np.asarray(raw.view(np.uint8) != 0)
    device = node.get("v", "cpu")
    layout = node.get("l", "contiguous")
    return Array(str(family), dtype, raw, str(device)[:40], node.get("g") is True, str(layout)[:20])


def pack(header: dict[str, Any], buffers: list[bytes | memoryview]) -> list[bytes | memoryview]:
    """The pieces of one frame, to be written one after another; the header gains the sizes of the buffers.

    A small frame is one piece: writing many would cost more than joining them.
    """
    sizes = [len(buffer) for buffer in buffers]
    text = json.dumps({**header, "sizes": sizes}, separators=(",", ":")).encode()
    pieces = [PREFIX.pack(len(text), sum(sizes)), text, *buffers]
    return [b"".join(pieces)] if len(text) + sum(sizes) <= ONE_PIECE else pieces


def parse_prefix(prefix: bytes, max_header: int = MAX_HEADER, max_payload: int = MAX_PAYLOAD) -> tuple[int, int]:
    """Header and payload lengths; raises `TooLarge` beyond the caps."""
    header, payload = PREFIX.unpack(prefix)
    if header > max_header or payload > max_payload:
        raise TooLarge(f"a frame of {header + payload} bytes")
    return header, payload


def parse_body(body: bytes | bytearray, header_length: int) -> tuple[dict[str, Any], list[memoryview]]:
    """Header and buffers of a frame's body; raises `ProtocolError`."""
    try:
        header = json.loads(bytes(body[:header_length]).decode("utf-8"))
    except (ValueError, RecursionError):
        raise ProtocolError("the header is not JSON") from None
    if not isinstance(header, dict):
        raise ProtocolError("the header is not an object")
    sizes = header.pop("sizes", None)
    rest = memoryview(body)[header_length:]
    if not isinstance(sizes, list) or len(sizes) > MAX_NODES:
        raise ProtocolError("no list of buffer sizes")
    if not all(type(n) is int and n >= 0 for n in sizes) or sum(sizes) != len(rest):
        raise ProtocolError("the buffer sizes disagree with the payload")
    return header, list(_split(rest, sizes))


def _split(rest: memoryview, sizes: list[int]) -> Iterator[memoryview]:
    at = 0
    for size in sizes:
        yield rest[at : at + size]
        at += size
