"""How firmly this run's submissions are locked in: what is asked of a worker, and what truly holds."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from grader.errors import GraderFault
from grader.sandbox import isolation
from grader.sandbox.isolation import Isolation
from grader.sandbox.runner import Limits, Runner

# Address space is not resident memory: allocators and thread stacks reserve more than they use.
ADDRESS_SLACK = 512 << 20
CPU_BACKSTOP = 3600


def policy(mode: str, limits: Limits) -> dict[str, Any]:
    """What a student's worker is told to lock: the part of the policy that the grader decides."""
    return {
        "layers": "off" if mode == "off" else "auto",
        "memory_bytes": limits.memory_bytes + ADDRESS_SLACK,
        "cpu_seconds": CPU_BACKSTOP,
    }


def reference_policy(limits: Limits) -> dict[str, Any]:
    """What a worker of a reference, patched or not, is told to lock: all that the machine can.

    It is trusted, and yet an exercise may lie in a folder that came from elsewhere. One worker answers for a whole class.
    """
    return {**policy("auto", limits), "cpu_seconds": 100 * CPU_BACKSTOP}


class Lockdown:
    """The probe of this machine, started early and asked for late; ``mode`` is auto, require or off."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="probe")
        self._found: Future[Isolation] | None = None if mode == "off" else self._thread.submit(isolation.probe)
        self._thread.shutdown(wait=False)

    def demand(self) -> None:
        """With mode require: raises `GraderFault` unless Landlock, seccomp and limits hold here."""
        if self.mode != "require" or self._found is None:
            return
        found = self._found.result()
        if found.level == "limits-only":
            lacking = "; ".join(f"{one.layer}: {one.reason}" for one in found.missing)
            raise GraderFault(f"--isolation require: this machine only limits submissions ({lacking})", "grader doctor")

    def report(self, runner: Runner, applied: dict[str, Any]) -> dict[str, Any]:
        """The report's ``isolation``: layers that the probe saw hold and that the worker set up, and what is missing."""
        if self._found is None:
            return {"level": "off", "layers": [], "missing": ["isolation was switched off with --isolation off"]}
        found = self._found.result()
        set_up = set(applied.get("layers", ())) | ({"namespaces", "uid"} if runner.entered else set())
        layers = [name for name in found.layers if not applied or name in set_up]
        missing = [f"{one.layer}: {one.reason}" for one in found.missing]
        named = {one.layer for one in found.missing}
        missing += [
            f"{name}: the worker did not set it up" for name in found.layers if name not in layers and name not in named
        ]
        return {"level": isolation.level_of(layers), "layers": layers, "missing": missing}
