"""Gradients of a weighted sum of a function's results with respect to its tensors."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from grader.sandbox.protocol import Value
from grader.worker import values


def gradients(function: Any, native: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """Call ``function`` with gradients on for the arguments ``options["wrt"]`` (by index) and differentiate.

    The scalar is the sum over the float tensors of the result, in order, of (tensor * weight).sum(), with the weights
    that the grader sent. The reply holds, per tensor, [argument, path, gradient or None]; ``attached`` says whether any
    part of the result was connected to the graph at all.
    """
    torch = sys.modules["torch"]
    wanted: list[tuple[int, str, Any]] = []
    for index in options["wrt"]:
        for path, tensor in _tensors(native[index], ""):
            if tensor.is_floating_point():
                tensor.requires_grad_(True)
                wanted.append((index, path, tensor))
    weights = [values.to_native(weight) for weight in options["weights"]]
    started = time.perf_counter()
    with torch.enable_grad():
        result = function(*native)
        parts = [part for _, part in _tensors(result, "") if part.is_floating_point()]
        terms = [
            (part * weight).sum()
            for part, weight in zip(parts, weights, strict=False)
            if part.requires_grad and part.shape == weight.shape
        ]
        found: list[Any] = [None] * len(wanted)
        if terms:
            total = torch.stack(terms).sum()
            found = list(torch.autograd.grad(total, [tensor for _, _, tensor in wanted], allow_unused=True))
    seconds = time.perf_counter() - started
    plain: list[Value] = [
        [index, path, None if gradient is None else values.from_native(gradient.detach())]
        for (index, path, _), gradient in zip(wanted, found, strict=True)
    ]
    return {
        "value": {"result": values.from_native(result), "gradients": plain},
        "seconds": seconds,
        "attached": bool(terms),
    }


def _tensors(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _tensors(item, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _tensors(item, f"{path}[{index}]")
