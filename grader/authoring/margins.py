"""Margins: how far honest answers stay below the tolerance, and how far wrong ones are above it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from grader.authoring.answers import Known
from grader.authoring.bench import Reach
from grader.authoring.complaints import Complaint, complaint
from grader.authoring.mutation import EQUIVALENT, KILLED, Fate
from grader.authoring.scope import Scope

# Both must be this far from 1: nearer, another machine's rounding may turn the verdict.
APART = 3.0


@dataclass(frozen=True)
class Margin:
    """A ratio to the tolerance, whose it is, and where."""

    ratio: float
    who: str
    where: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"ratio": self.ratio if self.ratio != float("inf") else None, "who": self.who, "where": self.where}


@dataclass(frozen=True)
class Margins:
    """The worst honest ratio, and the smallest by which a wrong answer is caught (None: only by other things than values)."""

    honest: Margin
    wrong: Margin | None


def measure(reference: Reach, known: Sequence[Known], fates: Sequence[Fate]) -> Margins:
    """Over the reference, right fixtures and equivalent mutants; and over wrong fixtures, misconceptions and killed mutants."""
    honest = [("the reference", reference)]
    honest += [(answer.name, answer.look.closest) for answer in known if answer.kind == "right"]
    honest += [(f"mutant {fate.mutant.id}", fate.look.closest) for fate in fates if fate.fate == EQUIVALENT]
    name, worst = max(honest, key=lambda entry: entry[1].ratio)
    wrong = [*_caught((a.name, a.look.clearest) for a in known if a.kind != "right")]
    wrong += _caught((f"mutant {fate.mutant.id}", fate.look.clearest) for fate in fates if fate.fate == KILLED)
    closest = min(wrong, key=lambda entry: entry[1].ratio, default=None)
    best = Margin(closest[1].ratio, closest[0], closest[1].where) if closest is not None else None
    return Margins(Margin(worst.ratio, name, worst.where if worst.ratio else ""), best)


def _caught(entries: Iterable[tuple[str, Reach | None]]) -> list[tuple[str, Reach]]:
    return [(name, found) for name, found in entries if found is not None and found.ratio != float("inf")]


def complaints(scope: Scope, margins: Margins) -> list[Complaint]:
    """Margins that are too near to 1, with the case that brings them there."""
    found = []
    place = scope.places.at("cases", key=True)
    if margins.honest.ratio > 1 / APART:
        said = f"{margins.honest.who} reaches {margins.honest.ratio:.2f} of what is allowed ({margins.honest.where})"
        found.append(complaint("margin", place, said, f"at most {1 / APART:.2f}: a case that is better conditioned"))
    if margins.wrong is not None and margins.wrong.ratio < APART:
        said = f"{margins.wrong.who} is caught by {margins.wrong.ratio:.2f} times what is allowed only ({margins.wrong.where})"
        found.append(
            complaint("margin", place, said, f"at least {APART:g} times: a case that shows the mistake more clearly")
        )
    return found
