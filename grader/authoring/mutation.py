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

KILLED, CRASHED, EQUIVALENT, SURVIVED = "killed", "crashed", "equivalent", "survived"
# The same mutants every time, so that two quick runs agree.
SAMPLE_SEED = 1


@dataclass(frozen=True, eq=False)
class Fate:
    """What became of one mutant."""

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
        witness = wide.find(Trial(scope.exercise, bench.plan, trial.student, wide.oracle))
        return Fate(mutant, EQUIVALENT if witness is None else SURVIVED, look, witness)

    return scope.crew.each(found, judge, scope.watch("mutants", len(found)))


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
