"""The smallest case that fails in the same way, found by making dims smaller one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from grader import cases
from grader.cases import Case
from grader.checks.values import CLEAR, clearness
from grader.errors import AuthorError, GraderFault
from grader.model import Ruling
from grader.oracle import IllConditioned
from grader.spec.exercise import Exercise

# About as many calls as a grading makes anyway. Tries are counted and not seconds: the same seed gives the same report.
MAX_TRIES = 40

Rule = Callable[[Case, str], Ruling]


def smallest(exercise: Exercise, ruling: Ruling, rule: Rule, same: Callable[[Ruling], object]) -> Ruling:
    """A ruling of the same kind on a case as small as a few tries find; the ruling itself when there is none.

    ``rule`` judges one call; ``same`` names a failure's kind. A difference that is clear stays so. Deterministic.
    """
    case = ruling.case
    if case is None or case.group == "examples" or ruling.outcome is None or not ruling.outcome.returned:
        return ruling
    best = ruling
    wanted = same(ruling)
    clear = min(CLEAR, clearness(ruling))
    tries = 0
    improved = True
    while improved and tries < MAX_TRIES:
        improved = False
        for dim, _ in cases.chosen_dims(exercise, case.name):
            for size in cases.smaller_sizes(exercise, case.name, dim, best.case.dims[dim]):
                if tries >= MAX_TRIES:
                    break
                found = _try(exercise, best, {**best.case.dims, dim: size}, rule)
                tries += 1
                alike = found is not None and found.verdict != "pass" and same(found) == wanted
                if found is not None and alike and clearness(found) >= clear:
                    best, improved = found, True
                    break
    return best


def _try(exercise: Exercise, best: Ruling, dims: dict[str, int], rule: Rule) -> Ruling | None:
    case = best.case
    try:
        smaller = cases.draw(exercise, case.name, case.index, case.seed, _chosen(exercise, case.name, dims))
        if not cases.dims_allowed(exercise, case.name, smaller.dims):
            return None
        # What the statement promises of ids holds of the case that is shown, too.
        if cases.ids_in_range(exercise, case) and not cases.ids_in_range(exercise, smaller):
            return None
        smaller = replace(cases.on_grid(smaller, case.grid), number=case.number)
        return rule(smaller, best.dtype)
    except (AuthorError, IllConditioned, GraderFault):
        # A size at which the inputs cannot be drawn or no tolerance exists is simply not a smaller example.
        return None


def _chosen(exercise: Exercise, name: str, dims: dict[str, int]) -> dict[str, int]:
    free = {dim for dim, _ in cases.chosen_dims(exercise, name)}
    return {dim: size for dim, size in dims.items() if dim in free}
