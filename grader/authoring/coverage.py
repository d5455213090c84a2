"""Whether every check earns its place: it rejects something, and a gate is the only one to reject something."""

from __future__ import annotations

from collections.abc import Sequence

from grader.authoring.answers import Known, Patched
from grader.authoring.bench import Bench, Look, examine
from grader.authoring.complaints import ADVICE, STRICT, Complaint, complaint
from grader.authoring.mutation import Fate
from grader.authoring.scope import Scope
from grader.authoring.survey import Chain

GATE_KINDS = ("inputs_unchanged", "repeatable")


def unused_checks(scope: Scope, bench: Bench, known: Sequence[Known], patches: Sequence[Patched]) -> list[Complaint]:
    """Checks that no fixture and no misconception fails, advisory ones included."""
    rejecting = {name for answer in known for name, _ in (*answer.look.failed, *answer.look.advisory)}
    idle = [question.id for question in bench.questions if question.id not in rejecting]
    if idle:
        idle = _ask_again(scope, bench, patches, idle)
    expected = "a fixture or a misconception that it rejects; without one nobody knows that it can"
    return [
        complaint("unused_check", scope.places.check(name), f"check `{name}` never rejects anything", expected, STRICT)
        for name in idle
    ]


def _ask_again(scope: Scope, bench: Bench, patches: Sequence[Patched], idle: list[str]) -> list[str]:
    """Of the checks that rejected nothing so far, those that reject no misconception either (not all were asked before)."""
    tick = scope.watch("checks", len(patches))

    def ask(chain: Chain, patched: Patched) -> set[str]:
        trial = chain.warm(bench, patched.source, scope.limits)
        look, _ = examine(trial, bench, idle, every_call=False)
        return {name for name, _ in (*look.failed, *look.advisory)}

    rejecting = set().union(*scope.crew.each(patches, ask, tick)) if patches else set()
    return [name for name in idle if name not in rejecting]


def shared_gates(scope: Scope, bench: Bench, known: Sequence[Known], fates: Sequence[Fate]) -> list[Complaint]:
    """Gates that are never the only check to reject something: each edge case, dtype, inputs unchanged, repeatable."""
    looks = [answer.look for answer in known] + [fate.look for fate in fates]
    alone = {look.only for look in looks if look.only is not None}
    edges = scope.exercise.spec.cases.edge
    gates = [q.id for q in bench.questions if not q.advisory and (q.check.kind in GATE_KINDS or q.id in edges)]
    expected = "a wrong answer that nothing else rejects, or one check fewer"
    found = [
        complaint(
            "gate", scope.places.check(name), f"`{name}` is never the only check to reject something", expected, ADVICE
        )
        for name in gates
        if name not in alone
    ]
    if not any(_dtype_alone(look) for look in looks):
        said = "nothing is rejected for its dtype alone"
        found.append(
            complaint(
                "gate", scope.places.at("checks"), said, "a wrong answer with right values in another dtype", ADVICE
            )
        )
    return found


def _dtype_alone(look: Look) -> bool:
    return look.complete and bool(look.failed) and all(cause == "dtype" for _, cause in look.failed)
