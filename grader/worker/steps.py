"""Which line of a submission changes one of its inputs: found by following a call line by line, never by reading the code."""

from __future__ import annotations

import contextlib
import io
import linecache
import sys
from types import FrameType
from typing import Any

from grader.worker import values
from grader.worker.source import belongs

# A call of more steps is not followed to its end: it would take long, and it is over before the change or it is not.
MAX_STEPS = 5000


def changing_line(function: Any, native: tuple[Any, ...], file: str, index: int) -> tuple[Any, dict[str, Any] | None]:
    """Call ``function`` and watch argument ``index``: (its result, the place of the line that first changes it or None).

    ``file`` is the name under which the submission was compiled; lines of other files are not told apart, so that a
    change made by a library counts for the line that called it.
    """
    watched = native[index]
    before = values.footprint(watched)
    found: list[tuple[str, int]] = []
    steps = [0]
    # The line being executed; what an event finds changed was done there.
    current = [(file, 0)]

    def look() -> bool:
        if values.footprint(watched) == before:
            return False
        found.append(current[0])
        sys.settrace(None)
        return True

    def follow(frame: FrameType, event: str, argument: Any) -> Any:
        steps[0] += 1
        if found or steps[0] > MAX_STEPS:
            sys.settrace(None)
            return None
        if look():
            return None
        caller = frame.f_back
        while event == "return" and caller is not None and not belongs(caller.f_code.co_filename, file):
            caller = caller.f_back
        here = caller if event == "return" else frame
        current[0] = (here.f_code.co_filename, here.f_lineno) if here is not None else current[0]
        return follow

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return follow(frame, event, argument) if belongs(frame.f_code.co_filename, file) else None

    # What it prints was printed by the call that this one repeats.
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        sys.settrace(enter)
        try:
            result = function(*native)
        finally:
            sys.settrace(None)
    where, line = found[0] if found else (file, 0)
    text = linecache.getline(where, line).strip()
    if not line or not text:
        return result, None
    return result, {"file": where, "line": line, "text": text[:300]}
