"""The smallest case that fails in the same way, found by making dims smaller one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from grader import cases
from grader.cases import Case
from grader.checks.values import CLEAR, clearness, size
from grader.errors import AuthorError, GraderFault
from grader.model import Ruling
from grader.oracle import IllConditioned
from grader.spec.exercise import Exercise

# About as many calls as a grading makes anyway. Tries are counted and not seconds: the same seed gives the same report.
MAX_TRIES = 40
# Cases of so few elements are remembered, and so many of them.
SMALL, MOST = 4096, 1000

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
            for smaller in cases.smaller_sizes(exercise, case.name, dim, best.case.dims[dim]):
                if tries >= MAX_TRIES:
                    break
                found = _try(exercise, best, {**best.case.dims, dim: smaller}, rule)
                tries += 1
                alike = found is not None and found.verdict != "pass" and same(found) == wanted
                if found is not None and alike and clearness(found) >= clear:
                    best, improved = found, True
                    break
    return best


def _try(exercise: Exercise, best: Ruling, dims: dict[str, int], rule: Rule) -> Ruling | None:
    try:
        smaller = _smaller(exercise, best.case, dims)
        if smaller is None:
            return None
        return rule(smaller, best.dtype)
    except (AuthorError, IllConditioned, GraderFault):
        # A size at which the inputs cannot be drawn or no tolerance exists is simply not a smaller example.
        return None


def _smaller(exercise: Exercise, case: Case, dims: dict[str, int]) -> Case | None:
    """The case at other sizes; None where they break a rule. Remembered while small: a class goes through the same ones."""
    chosen = _chosen(exercise, case.name, dims)
    key = (case.name, case.index, case.seed, case.grid, tuple(sorted(chosen.items())))
    found: Case | None
    if key in exercise.smaller_cases:
        found = exercise.smaller_cases[key]
    else:
        drawn = cases.draw(exercise, case.name, case.index, case.seed, chosen)
        allowed = cases.dims_allowed(exercise, case.name, drawn.dims)
        found = replace(cases.on_grid(drawn, case.grid), number=case.number) if allowed else None
        if size(drawn) <= SMALL and len(exercise.smaller_cases) < MOST:
            exercise.smaller_cases[key] = found
    # What the statement promises of ids holds of the case that is shown, too.
    if found is not None and cases.ids_in_range(exercise, case) and not cases.ids_in_range(exercise, found):
        return None
    return found


def _chosen(exercise: Exercise, name: str, dims: dict[str, int]) -> dict[str, int]:
    free = {dim for dim, _ in cases.chosen_dims(exercise, name)}
    return {dim: size for dim, size in dims.items() if dim in free}
