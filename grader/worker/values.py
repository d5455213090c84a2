"""Between plain values and the objects that a submission sees.

A submission receives real tensors and arrays, and what it returns is turned into plain values by exact
type: a subclass, a sparse, quantised, meta, nested or complex tensor, or an object array has no plain
form and is reported as what it is. NumPy alone is imported here; torch is used only where it was loaded.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from grader.sandbox.protocol import STORAGE, Array, Function, Opaque, Value

MAX_ITEMS = 100_000
MAX_DEPTH = 16
# Arrays of so many bytes are kept themselves: a copy is made in a fraction of the time of a digest.
SMALL = 1 << 20

Callback = Callable[[str, tuple[Any, ...]], Any]


def _torch() -> Any:
    return sys.modules.get("torch")


def to_native(value: Value, callback: Callback | None = None) -> Any:
    """The object that a submission receives for ``value``; every array is fresh memory."""
    if isinstance(value, Array):
        return _array_to_native(value)
    if isinstance(value, list):
        return [to_native(item, callback) for item in value]
    if isinstance(value, tuple):
        return tuple(to_native(item, callback) for item in value)
    if isinstance(value, dict):
        return {key: to_native(item, callback) for key, item in value.items()}
    if isinstance(value, Function):
        if callback is None:
            raise TypeError("a function can only be handed in where calls can be answered")
        return _proxy(value.name, callback)
    return value


def _proxy(name: str, callback: Callback) -> Callable[..., Any]:
    def handed_in(*args: Any) -> Any:
        return callback(name, args)

    handed_in.__name__ = handed_in.__qualname__ = name
    return handed_in


def _array_to_native(array: Array) -> Any:
    if array.family == "scalar":
        return array.raw.dtype.type(array.raw[()])
    if array.family == "ndarray":
        return _lay_out_ndarray(array.raw.copy(), array.layout)
    torch = _torch()
    if array.dtype == "bfloat16":
        tensor = torch.from_numpy(array.raw.view(np.int16).copy()).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(array.raw.copy())
    tensor = _lay_out_tensor(tensor, array.layout)
    if array.requires_grad:
        tensor.requires_grad_(True)
    return tensor


def _lay_out_ndarray(values: np.ndarray, layout: str) -> np.ndarray:
    if layout == "transposed" and values.ndim >= 2:
        return np.ascontiguousarray(values.swapaxes(0, -1)).swapaxes(0, -1)
    if layout in ("stepped", "transposed") and values.ndim >= 1 and values.size:
        wide = np.zeros((*values.shape[:-1], values.shape[-1] * 2), dtype=values.dtype)
        wide[..., ::2] = values
        return wide[..., ::2]
    return values


def _lay_out_tensor(values: Any, layout: str) -> Any:
    if layout == "transposed" and values.ndim >= 2:
        return values.transpose(0, -1).contiguous().transpose(0, -1)
    if layout in ("stepped", "transposed") and values.ndim >= 1 and values.numel():
        wide = values.new_zeros((*values.shape[:-1], values.shape[-1] * 2))
        wide[..., ::2] = values
        return wide[..., ::2]
    return values


def from_native(value: Any, depth: int = 0, budget: list[int] | None = None) -> Value:
    """The plain value of what a submission returned; whatever has none becomes `Opaque`."""
    budget = [MAX_ITEMS] if budget is None else budget
    budget[0] -= 1
    if depth > MAX_DEPTH or budget[0] < 0:
        return Opaque(type(value).__name__, "nested too deeply or too many items")
    kind = type(value)
    if value is None or kind in (bool, str, float):
        return value
    if kind is int:
        return value if abs(value) < 10**300 else Opaque("int", "an integer of more than 300 digits")
    if kind is list:
        return [from_native(item, depth + 1, budget) for item in value]
    if kind is tuple or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        return tuple(from_native(item, depth + 1, budget) for item in value)
    if isinstance(value, dict) and kind.__module__ in ("builtins", "collections"):
        # Keys are parts too.
        budget[0] -= len(value)
        return {_key(key): from_native(item, depth + 1, budget) for key, item in value.items()}
    if isinstance(value, np.generic):
        return _from_ndarray(np.asarray(value), "scalar")
    # Where numpy.ma was never imported nothing is masked; to ask for it would import it, in every worker anew.
    ma = sys.modules.get("numpy.ma")
    if ma is not None and isinstance(value, ma.MaskedArray):
        if ma.getmaskarray(value).any():
            return Opaque("MaskedArray", "a masked array with masked entries")
        return _from_ndarray(np.asarray(value.data), "ndarray")
    if kind is np.ndarray:
        return _from_ndarray(value, "ndarray")
    torch = _torch()
    if torch is not None and isinstance(value, torch.Tensor):
        return _from_tensor(value, torch)
    if torch is not None and kind is torch.Size:
        return tuple(value)
    return Opaque(_type_name(kind), "not a tensor, an array, a number or a container of those")


def _type_name(kind: type) -> str:
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _key(key: Any) -> Any:
    return key if type(key) in (str, int, float, bool, type(None)) else repr(type(key))


def _from_ndarray(value: np.ndarray, family: str) -> Value:
    name = value.dtype.name
    if name not in STORAGE or value.dtype.kind not in "fiub":
        shown = "object" if value.dtype.kind == "O" else name
        return Opaque(f"ndarray of dtype {shown}", f"dtype {shown} is not taken")
    return Array(family, name, np.ascontiguousarray(value).reshape(value.shape))


def _from_tensor(value: Any, torch: Any) -> Value:
    kind = type(value)
    if kind is not torch.Tensor and kind is not torch.nn.Parameter:
        return Opaque(_type_name(kind), "a subclass of torch.Tensor")
    if value.is_nested:
        return Opaque("nested tensor", "a nested tensor")
    if value.layout is not torch.strided:
        return Opaque(f"sparse tensor ({value.layout})", "a sparse tensor")
    if value.is_quantized:
        return Opaque("quantised tensor", "a quantised tensor")
    if value.is_meta:
        return Opaque("tensor on the meta device", "a tensor without data")
    name = str(value.dtype).removeprefix("torch.")
    if name not in STORAGE:
        return Opaque(f"tensor of dtype {name}", f"dtype {name} is not taken")
    device = str(value.device)
    requires_grad = bool(value.requires_grad)
    plain = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if name == "bfloat16":
        raw = plain.view(torch.int16).numpy().view(np.uint16)
    else:
        raw = plain.numpy()
    return Array("tensor", name, raw.reshape(tuple(value.shape)), device, requires_grad)


def footprint(value: Any) -> list[tuple[str, Any]]:
    """What a call may not change of its argument: one entry per array, container and tensor attribute.

    Taken by code that is imported before any submission; a digest, not a copy, so that large inputs cost little.
    """
    entries: list[tuple[str, Any]] = []
    _footprint(value, "", entries, _torch())
    return entries


def _footprint(value: Any, path: str, entries: list[tuple[str, Any]], torch: Any) -> None:
    if isinstance(value, np.ndarray):
        entries.append((path, ("values", value.shape, str(value.dtype), _digest(value))))
    elif torch is not None and isinstance(value, torch.Tensor):
        # Detached, so that nothing here is recorded for a gradient.
        plain = value.detach().contiguous()
        if plain.dtype is torch.bfloat16:
            plain = plain.view(torch.int16)
        entries.append((path, ("values", tuple(value.shape), str(value.dtype), _digest(plain.numpy()))))
        entries.append((path, ("requires_grad", bool(value.requires_grad))))
        entries.append((path, ("grad", value.is_leaf and value.grad is not None)))
    elif isinstance(value, dict):
        entries.append((path, ("keys", tuple(map(str, value)))))
        for key, item in value.items():
            _footprint(item, f"{path}[{key!r}]", entries, torch)
    elif isinstance(value, list | tuple):
        entries.append((path, ("length", len(value), tuple(type(item).__name__ for item in value))))
        for index, item in enumerate(value):
            _footprint(item, f"{path}[{index}]", entries, torch)
    elif not callable(value):
        entries.append((path, ("value", repr(value))))


def _digest(values: np.ndarray) -> bytes:
    plain = values.tobytes()
    return plain if len(plain) <= SMALL else hashlib.blake2b(plain, digest_size=16).digest()


def changes(before: list[tuple[str, Any]], after: list[tuple[str, Any]]) -> list[tuple[str, str]]:
    """Pairs of (path, what changed) between two footprints; what is one of values, shape, keys, grad …"""
    found: list[tuple[str, str]] = []
    if [path for path, _ in before] != [path for path, _ in after]:
        found.append(("", "structure"))
    then = {(path, entry[0]): entry for path, entry in before}
    for path, entry in after:
        old = then.get((path, entry[0]))
        if old is not None and old != entry:
            found.append((path, entry[0]))
    return found
