"""How many bytes of arrays a call holds at once, above its inputs."""

from __future__ import annotations

import sys
import time
import tracemalloc
import weakref
from typing import Any

from grader.worker import values

# What the objects around tensors weigh, those of the watching included.
OBJECTS = 1 << 20


def peak(function: Any, native: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """Call ``function`` without gradients and report the peak of live bytes.

    Of an exercise on arrays these are Python's and NumPy's allocations; of one on tensors torch's storages, unless more
    than that was held outside torch, in arrays or lists.
    """
    on_tensors = "torch" in sys.modules and _holds_tensor(native)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        if on_tensors:
            result, seconds, held = _torch_peak(function, native)
        else:
            started = time.perf_counter()
            result = function(*native)
            seconds, held = time.perf_counter() - started, 0
        outside = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    held = max(held, outside - OBJECTS if on_tensors else outside)
    return {"value": {"result": values.from_native(result)}, "seconds": seconds, "peak": int(held)}


def _holds_tensor(native: tuple[Any, ...]) -> bool:
    torch = sys.modules["torch"]
    return any(isinstance(item, torch.Tensor) for item in native)


def _torch_peak(function: Any, native: tuple[Any, ...]) -> tuple[Any, float, int]:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    live: dict[int, int] = {}
    total = [0, 0]

    def forget(key: int) -> None:
        total[0] -= live.pop(key, 0)

    def note(tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in live or key in known:
            return
        size = storage.nbytes()
        live[key] = size
        total[0] += size
        total[1] = max(total[1], total[0])
        # The Python object of a storage lives as long as the storage itself where torch keeps them paired.
        weakref.finalize(storage, forget, key)

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            # As in `grader.worker.device`: the default imports torch._dynamo, seconds of a student's time.
            return False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            for leaf in tree_leaves(out):
                if isinstance(leaf, torch.Tensor):
                    note(leaf)
            return out

    known = {leaf.untyped_storage()._cdata for leaf in tree_leaves(list(native)) if isinstance(leaf, torch.Tensor)}
    started = time.perf_counter()
    with torch.no_grad(), Watch():  # type: ignore[no-untyped-call]
        result = function(*native)
    return result, time.perf_counter() - started, total[1]
