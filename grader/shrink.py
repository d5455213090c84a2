"""The smallest case that fails in the same way, found by making dims smaller one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from grader import cases
from grader.cases import Case
from grader.errors import AuthorError, GraderFault
from grader.model import Ruling
from grader.oracle import IllConditioned
from grader.spec.exercise import Exercise

MAX_TRIES = 40
# Computing time that a reader is willing to wait for a smaller example.
MAX_SECONDS = 1.5

Rule = Callable[[Case, str], Ruling]


def smallest(exercise: Exercise, ruling: Ruling, rule: Rule, same: Callable[[Ruling], object]) -> Ruling:
    """A ruling of the same kind on a case as small as a few tries find; the ruling itself when there is none.

    ``rule`` judges one call; ``same`` names a failure's kind. Deterministic but for a cap on the time spent.
    """
    case = ruling.case
    if case is None or case.group == "examples" or ruling.outcome is None or not ruling.outcome.returned:
        return ruling
    best = ruling
    wanted = same(ruling)
    tries = 0
    spent = 0.0
    improved = True
    while improved and tries < MAX_TRIES and spent < MAX_SECONDS:
        improved = False
        for dim, least in cases.chosen_dims(exercise, case.name):
            current = best.case.dims[dim]
            for size in _candidates(least, current):
                if tries >= MAX_TRIES or spent >= MAX_SECONDS:
                    break
                found = _try(exercise, best, {**best.case.dims, dim: size}, rule)
                tries += 1
                if found is not None and found.outcome is not None:
                    spent += found.outcome.seconds
                    if found.verdict != "pass" and same(found) == wanted:
                        best, improved = found, True
                        break
    return best


def _candidates(least: int, current: int) -> list[int]:
    """Sizes to try, the boldest first: the least, then halfway, then one less."""
    bold = [least, max(least, 1), max(least, 2), (least + current) // 2, current - 1]
    return [size for size in dict.fromkeys(bold) if least <= size < current]


def _try(exercise: Exercise, best: Ruling, dims: dict[str, int], rule: Rule) -> Ruling | None:
    case = best.case
    try:
        smaller = cases.draw(exercise, case.name, case.index, case.seed, _chosen(exercise, case.name, dims))
        if not cases.dims_allowed(exercise, case.name, smaller.dims):
            return None
        smaller = replace(cases.on_grid(smaller, case.grid), number=case.number)
        return rule(smaller, best.dtype)
    except (AuthorError, IllConditioned, GraderFault):
        # A size at which the inputs cannot be drawn or no tolerance exists is simply not a smaller example.
        return None


def _chosen(exercise: Exercise, name: str, dims: dict[str, int]) -> dict[str, int]:
    free = {dim for dim, _ in cases.chosen_dims(exercise, name)}
    return {dim: size for dim, size in dims.items() if dim in free}
