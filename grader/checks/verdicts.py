"""What an outcome means for a check: the verdict and the stable code of its cause."""

from __future__ import annotations

from grader.model import Mismatch, Outcome, Ruling

_MISMATCH_CAUSES = {
    "values": None,
    "nan": "nan",
    "inf": "inf",
    "shape": "shape",
    "dtype": "dtype",
    "type": "type",
    "structure": "structure",
    "unsupported": "unsupported_result",
}
_STATUS = {
    "timeout": ("timeout", "time_limit"),
    "memory": ("memory", "memory_limit"),
    "forbidden": ("error", "forbidden_operation"),
    "too_large": ("fail", "output_too_large"),
    "garbled": ("crashed", "garbled_reply"),
    "not_run": ("skipped", "stopped"),
}


def of_outcome(outcome: Outcome) -> tuple[str, str | None]:
    """(verdict, cause) of a call that gave no result."""
    if outcome.status in _STATUS:
        return _STATUS[outcome.status]
    if outcome.status == "crashed":
        return "crashed", "signal" if outcome.extra.get("how") == "signal" else "exited"
    assert outcome.error is not None
    return "error", outcome.error.cause or "exception"


def no_case() -> Ruling:
    """A check to which no case was drawn, as with ``--cases 0``: it says nothing of the submission."""
    return Ruling("skipped", "no_case", facts={"why": "no case was drawn for it"})


def of_mismatch(mismatch: Mismatch) -> tuple[str, str | None]:
    """(verdict, cause) of a result that is not the expected one."""
    return "fail", _MISMATCH_CAUSES[mismatch.kind]
