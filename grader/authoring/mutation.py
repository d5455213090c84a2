"""Mutants of the reference: which die, which crash, which live on, and of those which a wider search tells apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.authoring.answers import expects
from grader.authoring.bench import Bench, Look, examine, glance
from grader.authoring.complaints import Complaint, complaint
from grader.authoring.mutants import Mutant, mutate, sample
from grader.authoring.scope import Scope
from grader.authoring.survey import Chain, Source
from grader.authoring.witness import WideSearch, Witness
from grader.trial import Trial

KILLED, CRASHED, TOLERATED, EQUIVALENT, SURVIVED = "killed", "crashed", "tolerated", "equivalent", "survived"
FATES = (KILLED, CRASHED, TOLERATED, EQUIVALENT, SURVIVED)
# The same mutants every time, so that two quick runs agree.
SAMPLE_SEED = 1


@dataclass(frozen=True, eq=False)
class Fate:
    """What became of one mutant.

    ``killed``: a check that counts tells it. ``crashed``: it never returned anything wrong, and failed by raising.
    ``tolerated``: only advisory checks tell it, as is meant for what a statement does not promise. ``equivalent``: it
    passes, and the wider search found no difference. ``survived``: it passes, and a witness tells it apart.
    """

    mutant: Mutant
    fate: str
    look: Look
    witness: Witness | None = None


def try_mutants(scope: Scope, bench: Bench, wide: WideSearch, slowest: float) -> list[Fate]:
    """Grade every mutant (or a sample), giving up early on those that plainly fail; search wider for the others."""
    assert scope.exercise.solution is not None
    source = scope.exercise.solution.read_text(encoding="utf-8")
    found: Sequence[Mutant] = mutate(source, function=scope.exercise.function)
    if scope.settings.mutants is not None:
        found = sample(found, scope.settings.mutants, SAMPLE_SEED)
    limits = scope.short_limits(slowest)

    def judge(chain: Chain, mutant: Mutant) -> Fate:
        trial = chain.warm(bench, Source(mutant.id, mutant.source.encode()), limits)
        look = glance(trial, bench)
        if look.complete:
            look, _ = examine(trial, bench)
        if look.failed:
            return Fate(mutant, KILLED if look.returned_wrong or _told(look) else CRASHED, look)
        if look.advisory or _narrow(mutant):
            return Fate(mutant, TOLERATED, look)
        witness = wide.find(Trial(scope.exercise, bench.plan, trial.student, wide.oracle))
        return Fate(mutant, EQUIVALENT if witness is None else SURVIVED, look, witness)

    return scope.crew.each(found, judge, scope.watch("mutants", len(found)))


def _narrow(mutant: Mutant) -> bool:
    """Whether it only does some of its arithmetic in float32, which an exercise accepts unless its statement says otherwise."""
    return mutant.operator == "cast" and "float32" in mutant.id.rpartition(":")[2]


def _told(look: Look) -> bool:
    """Whether a check failed for another reason than that a call gave no result at all."""
    return look.complete and look.first is None


def complaints(scope: Scope, fates: Sequence[Fate]) -> list[Complaint]:
    """A complaint for every mutant that passes although some case tells it from the reference."""
    found = []
    for fate in fates:
        if fate.witness is not None:
            mutant = fate.mutant
            place = (str(scope.exercise.solution), mutant.line, mutant.column)
            said = f"this mutant passes: `{mutant.before}` -> `{mutant.after}` ({mutant.operator})"
            found.append(complaint("mutant", place, said, expects(fate.witness), paste=fate.witness.paste))
    return found
