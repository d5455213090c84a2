"""A report as one line of JSON from which the whole of it comes back: what a store keeps and a cluster sends."""

from __future__ import annotations

from functools import cache

from pydantic import TypeAdapter, ValidationError

from grader.errors import GraderFault
from grader.model import Report


@cache
def _adapter() -> TypeAdapter[Report]:
    return TypeAdapter(Report)


def dump(report: Report) -> str:
    """``report`` as JSON."""
    return _adapter().dump_json(report).decode()


def load(text: str | bytes) -> Report:
    """The report that `dump` wrote; raises `GraderFault` for anything else."""
    try:
        return _adapter().validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise GraderFault(
            f"a stored report cannot be read: {place}: {first['msg']}", "grader batch DIR --regrade"
        ) from None
