"""The `gradients` check: the gradient of a random projection of the result, against the reference's."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader import cases, compare
from grader.cases import Case, Drawn
from grader.checks import verdicts
from grader.checks.conditions import nothing_right
from grader.checks.relations import root_name
from grader.checks.values import size
from grader.errors import AuthorError, Finding
from grader.model import Question, Ruling
from grader.oracle import RESPONSE_FACTOR
from grader.randomness import Draws
from grader.sandbox.protocol import Array, Value
from grader.spec import expressions
from grader.trial import Trial

DTYPE = "float64"
PERTURBED = 2
FLOOR = 64 * 2.0**-52

Gradients = dict[str, np.ndarray | None]


def check(trial: Trial, question: Question) -> Ruling:
    """Gradients reach every input they should, are the reference's, and are exactly zero where nothing is used."""
    group: Any = question.cases or "random"
    drawn = [case for case, _ in trial.plan.select(group, [DTYPE])]
    if not drawn:
        return verdicts.no_case()
    right = [case for case in drawn if trial.right(case, DTYPE)]
    if not right:
        return nothing_right(question)
    case = min(right, key=size)
    options, weights = _request(trial, question, case)
    outcome = trial.outcome(case, DTYPE, "gradients", options, values={"weights": weights})
    if outcome.status == "not_run":
        return Ruling("skipped", "stopped", outcome=outcome)
    if not outcome.returned:
        verdict, cause = verdicts.of_outcome(outcome)
        help = "an in-place operation on an input, or on a tensor that autograd still needs, cannot be differentiated."
        return Ruling(verdict, cause, case, DTYPE, outcome, failing=((case, DTYPE),), facts={"help": help})
    mine = _named(case, outcome.extra.get("gradients"))
    if not outcome.extra.get("attached"):
        return _failed(
            case,
            outcome,
            "gradient_cut",
            "The result is not connected to the inputs: no gradient can flow back.",
            "detach, no_grad, item, tolist, numpy and torch.tensor(...) cut the graph.",
        )
    base = _named(case, trial.oracle.raw(case, DTYPE, "gradients", options, {"weights": weights}).extra["gradients"])
    moved = [
        _named(
            case,
            trial.oracle.raw(cases.perturb(case, k), DTYPE, "gradients", options, {"weights": weights}).extra[
                "gradients"
            ],
        )
        for k in range(PERTURBED)
    ]
    largest = max(
        (float(np.abs(found).max()) for found in base.values() if found is not None and found.size), default=0.0
    )
    missing, different = [], []
    for name, theirs in base.items():
        verdict = _compare(mine.get(name), theirs, [other.get(name) for other in moved], FLOOR * largest)
        if verdict == "missing":
            missing.append(name)
        elif verdict == "different":
            different.append(name)
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        return _failed(
            case,
            outcome,
            "gradient_missing",
            f"No gradient reaches {names}.",
            "detach, no_grad, item, tolist, numpy and torch.tensor(...) cut the graph.",
        )
    if different:
        names = ", ".join(f"`{name}`" for name in different)
        return _failed(
            case,
            outcome,
            "gradient_wrong",
            f"The gradient with respect to {names} differs from the reference's.",
            "the values are right: look for a part that is computed without the graph, or added twice.",
        )
    return _zeros(trial, question, case, outcome, mine)


def _request(trial: Trial, question: Question, case: Case) -> tuple[dict[str, Any], list[Value]]:
    names = list(case.arguments)
    wrt = question.check.wrt or tuple(name for name, value in case.arguments.items() if _continuous(value))
    draws = Draws(case.seed, case.label, "projection")
    weights: list[Value] = []
    for part in compare.parts(trial.expected(case, DTYPE).value, trial.exercise.spec.output):
        values = compare.numbers(part.value)
        if isinstance(part.value, Array) and part.value.is_float and values is not None:
            weights.append(Array("tensor", DTYPE, draws.normal(values.shape)))
    return {"wrt": [names.index(name) for name in wrt if name in names]}, weights


def _continuous(value: Any) -> bool:
    if isinstance(value, Drawn):
        return value.continuous
    if isinstance(value, dict):
        return any(_continuous(item) for item in value.values())
    return isinstance(value, list) and any(_continuous(item) for item in value)


def _named(case: Case, found: Any) -> Gradients:
    names = list(case.arguments)
    gradients: Gradients = {}
    for entry in found if isinstance(found, list) else []:
        if isinstance(entry, list) and len(entry) == 3 and type(entry[0]) is int and 0 <= entry[0] < len(names):
            values = compare.numbers(entry[2]) if entry[2] is not None else None
            gradients[names[entry[0]] + str(entry[1])[:100]] = values
    return gradients


def _compare(mine: np.ndarray | None, theirs: np.ndarray | None, moved: list[np.ndarray | None], noise: float) -> str:
    """missing, different or right; ``noise`` is what rounding leaves of a gradient that cancels to zero."""
    if theirs is None or not theirs.any():
        return "different" if mine is not None and not (np.abs(mine) <= max(noise, FLOOR)).all() else "right"
    responses = [
        float(np.abs(other - theirs).max()) for other in moved if other is not None and other.shape == theirs.shape
    ]
    allowed = max(RESPONSE_FACTOR * max(responses, default=0.0), FLOOR * float(np.abs(theirs).max()), noise)
    if mine is None or mine.shape != theirs.shape or not mine.any():
        # What is itself no more than rounding may be left out altogether.
        return "right" if (np.abs(theirs) <= allowed).all() else "missing"
    return "different" if compare.wrong_elements(mine, theirs, allowed).any() else "right"


def _zeros(trial: Trial, question: Question, case: Case, outcome: Any, mine: Gradients) -> Ruling:
    for what in question.check.zero:
        name = root_name(what)
        if case.arguments.get(name) is None:
            continue
        scope = {**case.dims, name: _as_given(case.arguments[name], name, mine)}
        try:
            part = np.asarray(expressions.evaluate(what, scope))
        except expressions.ExpressionError as error:
            path = str(trial.exercise.folder / "exercise.yaml")
            raise AuthorError([Finding(path, 0, 0, f"check `{question.id}`: {error}")]) from None
        if part.size and part.any():
            return _failed(
                case,
                outcome,
                "gradient_not_zero",
                f"The gradient of `{what}` is not exactly zero, so it is used somewhere.",
                question.help,
            )
    return Ruling("pass", case=case)


def _as_given(value: Any, path: str, mine: Gradients) -> Any:
    """The gradients in the structure of an argument; zero where there is none."""
    if isinstance(value, Drawn):
        found = mine.get(path)
        return found if found is not None and found.shape == value.values.shape else np.zeros(value.values.shape)
    if isinstance(value, dict):
        return {key: _as_given(item, f"{path}[{key!r}]", mine) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_given(item, f"{path}[{index}]", mine) for index, item in enumerate(value)]
    return value


def _failed(case: Case, outcome: Any, cause: str, claim: str, help: str | None) -> Ruling:
    return Ruling("fail", cause, case, DTYPE, outcome, failing=((case, DTYPE),), facts={"claim": claim, "help": help})
