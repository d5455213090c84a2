"""The pipeline: load, plan, run and expect, check, shrink, diagnose, explain, report."""

from __future__ import annotations

import platform
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from grader import __version__, cases, kit, picture, shrink
from grader.cases import Case
from grader.checks import registry, values, verdicts
from grader.diagnose import Diagnostician
from grader.errors import AuthorError, GraderFault, UsageError, crash_file
from grader.explain import (
    block_lines,
    explain,
    grid_text,
    leading,
    printed,
    skipped_claim,
    verdict_only,
    worth_shrinking,
)
from grader.lockdown import Lockdown, policy
from grader.model import CheckResult, Diagnosis, Explanation, Outcome, Question, Report, Ruling
from grader.oracle import IllConditioned, Oracle
from grader.questions import questions
from grader.sandbox.runner import Limits, Runner
from grader.spec.exercise import Exercise
from grader.spec.meaning_checks import ON_RANDOM
from grader.submission import Student, Submission, inert
from grader.trial import Plan, Trial, make_plan, settle

SEED_LIMIT = 10**9
MAX_DIGITS = 9
# Causes that one replayed call cannot tell apart are named together, up to so many.
MAX_ALTERNATIVES = 3
# Seconds of a call that is repeated line by line.
MAX_FOLLOWED = 0.5
# Checks that fail by results on plain calls, which is what a diagnosis reproduces; what else fails has another cause.
EXPLAINED = ("values", "inputs_unchanged", "independent", "causal", "reads", "ignores", "falls")


@dataclass(frozen=True)
class Options:
    """What a caller may choose of a run."""

    seed: int | None = None
    cases: int | None = None
    case: str | None = None
    time_limit: float | None = None
    memory_limit: float | None = None


def fresh_seed(exercise: Exercise | None = None) -> int:
    """A secret seed; it is printed afterwards. In a kit it is one of those that were recorded."""
    seeds = kit.seeds_of(exercise) if exercise is not None else None
    return secrets.choice(seeds) if seeds else secrets.randbelow(SEED_LIMIT)


def grade(
    exercise: Exercise,
    submission: Submission,
    runner: Runner,
    options: Options = Options(),
    oracle: Oracle | None = None,
    diagnostician: Diagnostician | None = None,
    lockdown: Lockdown | None = None,
    plans: dict[tuple[int, int | None], Plan] | None = None,
) -> Report:
    """Grade one submission; whatever it does, a report comes back.

    ``oracle``, ``diagnostician`` and ``plans`` (by seed and count of random cases) may be shared by many submissions to
    the exercise; without them the reference is started, and the cases are drawn, for this run.

    Raises:
        AuthorError: the exercise's own files are wrong.
        UsageError: ``options.case`` names no case.
    """
    started = time.monotonic()
    seed, only = _seed_and_case(exercise, options)
    own_oracle = oracle is None
    own_diagnostician = diagnostician is None
    diagnostician = diagnostician or kit.diagnostician_for(runner, exercise)
    limits = limits_of(exercise, options)
    lockdown = lockdown or Lockdown("auto")
    student = Student(runner, exercise, submission, policy(lockdown.mode, limits), limits)
    reference: Oracle | None = oracle
    try:
        lockdown.demand()
        runner.wait_ready()
        if reference is None:
            reference = kit.oracle_for(runner, exercise)
        if only is not None:
            plan = replayed(exercise, reference, options)
        else:
            plan = (plans or {}).get((seed, options.cases)) or make_plan(exercise, reference, seed, options.cases)
        asked_before = reference.seconds
        trial = _run(exercise, plan, student, reference)
        if plans is not None and only is None:
            plans[seed, options.cases] = trial.plan
        results, diagnoses = _answer(trial, options, diagnostician)
        spent = reference.seconds - asked_before
        return _report(exercise, submission, seed, results, diagnoses, trial, spent, runner, lockdown, started)
    except GraderFault as fault:
        return _not_graded(exercise, submission, seed, str(fault), runner, lockdown, started)
    except (AuthorError, UsageError):
        raise
    except Exception as error:
        # A fault of our own: the student gets a true report and no zero, the maintainers the traceback.
        reason = f"an error in the grader itself ({type(error).__name__}); send the maintainers {crash_file()}"
        return _not_graded(exercise, submission, seed, reason, runner, lockdown, started)
    finally:
        student.close()
        if own_diagnostician:
            diagnostician.close()
        if own_oracle and reference is not None:
            reference.close()


def _seed_and_case(exercise: Exercise, options: Options) -> tuple[int, tuple[str, dict[str, int] | None] | None]:
    if options.case is None:
        seed = fresh_seed(exercise) if options.seed is None else options.seed
        kit.insist_on_recorded(exercise, seed, options.cases)
        return seed, None
    try:
        seed, name, dims = cases.parse_token(options.case, options.seed)
    except ValueError as error:
        raise UsageError(
            f"--case {options.case}: {error}", "copy the token that the report prints under `rerun`"
        ) from None
    kit.insist_on_recorded(exercise, seed, None)
    return seed, (name, dims)


def replayed(exercise: Exercise, oracle: Oracle, options: Options) -> Plan:
    """The plan that holds the one case that ``options.case`` names; raises `UsageError` when there is none."""
    seed, only = _seed_and_case(exercise, options)
    assert only is not None
    text, dims = only
    spec = exercise.spec
    names = ["random", *spec.cases.edge, *spec.cases.examples]
    name, _, index = text.rpartition("-") if "-" in text else (text, "", "0")
    if len(index) > MAX_DIGITS or (text.isdecimal() and len(text) > MAX_DIGITS):
        raise UsageError(f"--case {text}: no such case", "one of " + ", ".join(names))
    if text.isdecimal():
        random = spec.cases.random if options.cases is None else options.cases
        numbered = [(n, 0) for n in spec.cases.examples]
        numbered += [("random", i) for i in range(random)]
        numbered += [(n, i) for n, edge in spec.cases.edge.items() for i in range(edge.count)]
        if not 1 <= int(text) <= len(numbered):
            raise UsageError(f"--case {text}: there are {len(numbered)} cases", f"grade {exercise.name}")
        name, number = numbered[int(text) - 1]
        index = str(number)
    if name not in names or not index.isdecimal():
        raise UsageError(f"--case {text}: no such case", "one of " + ", ".join(names))
    if name in spec.cases.examples:
        provided = oracle.provided_cases(seed)[name] if spec.cases.examples[name].from_reference else None
        case = cases.example(exercise, name, seed, provided)
        dtypes = spec.cases.examples[name].dtypes or ("float64",)
    else:
        unknown = set(dims or ()) - {dim for dim, _ in cases.chosen_dims(exercise, name)} - set(spec.dims)
        if unknown:
            raise UsageError(f"--case: `{exercise.name}` has no dim {', '.join(sorted(unknown))}")
        large = cases.beyond(exercise, name, dims or {})
        if large is not None:
            raise UsageError(f"--case {text}: {large}={(dims or {})[large]} is larger than this case ever draws it")
        case = cases.draw(exercise, name, int(index), seed, dims)
        fixed = next((dim for dim, size in (dims or {}).items() if case.dims[dim] != size), None)
        if fixed is not None:
            raise UsageError(f"--case {text}: {fixed} is {case.dims[fixed]} here, and cannot be chosen")
        if dims is not None and not cases.dims_allowed(exercise, name, case.dims):
            raise UsageError(f"--case {text}: these sizes break a constraint of `{exercise.name}`")
        edge = spec.cases.edge.get(name)
        dtypes = (edge.dtypes if edge is not None else None) or spec.dtypes
    return Plan(seed, ((replace(case, number=1), tuple(dtypes)),), replay=True)


def limits_of(exercise: Exercise, options: Options) -> Limits:
    """The limits of a call: the exercise's, or what a caller chose."""
    spec = exercise.spec.limits
    return Limits.of(options.time_limit or spec.time, options.memory_limit or spec.memory)


def _run(exercise: Exercise, plan: Plan, student: Student, oracle: Oracle) -> Trial:
    """The submission's plain calls, while the reference answers the same calls on the other core."""
    oracle.prefetch((case, dtype) for case, dtypes in plan.cases for dtype in dtypes)
    draft = Trial(exercise, plan, student, oracle)
    if student.load() is None:
        draft.foresee(plan.select(None))
    draft.plan = settle(exercise, oracle, plan)
    return draft


def _answer(
    trial: Trial, options: Options, diagnostician: Diagnostician
) -> tuple[tuple[CheckResult, ...], tuple[Diagnosis, ...]]:
    asked = questions(trial.exercise) if options.case is None else _relevant(trial.exercise, trial.plan)
    failure = trial.student.load_failure
    if failure is not None:
        return _blocked(trial.exercise, asked, failure), ()
    rulings = []
    for question in asked:
        began = time.monotonic()
        try:
            ruling = registry.CHECKS[question.check.kind](trial, question)
        except kit.NotRecorded:
            # Only where one case is replayed: a run of a recorded seed finds all that it asks for.
            ruling = Ruling("skipped", "not_recorded", facts={"why": "this kit does not hold what it needs"})
        rulings.append((question, replace(ruling, seconds=time.monotonic() - began)))
    rulings = _shrunk(trial, rulings)
    # The long search, for two mistakes at once, is for what costs points.
    pairs = any(ruling.verdict in ("fail", "error") and not question.advisory for question, ruling in rulings)
    diagnoses = diagnostician.diagnose(trial, _failing(rulings), pairs)
    results = [_result(trial.exercise, question, ruling) for question, ruling in rulings]
    return _with_pictures(_with_cause(results, rulings, diagnoses, trial)), diagnoses


def _with_pictures(results: list[CheckResult]) -> tuple[CheckResult, ...]:
    """The results with as many pictures as a report may hold."""
    first = leading(results)
    shown = picture.kept([result.explanation for result in results], first.explanation if first is not None else None)
    return tuple(replace(result, explanation=each) for result, each in zip(results, shown, strict=True))


def _failing(rulings: list[tuple[Question, Ruling]]) -> list[tuple[Case, str]]:
    """Every call on which a check failed, once; the case shown (perhaps a shrunk one) among them."""
    found: dict[tuple[str, str], tuple[Case, str]] = {}
    for _, ruling in rulings:
        if ruling.verdict in ("fail", "error"):
            shown = ((ruling.case, ruling.dtype),) if ruling.case is not None else ()
            for case, dtype in (*ruling.failing, *shown):
                found.setdefault((case.key, dtype), (case, dtype))
    return list(found.values())


def _with_cause(
    results: list[CheckResult],
    rulings: list[tuple[Question, Ruling]],
    diagnoses: tuple[Diagnosis, ...],
    trial: Trial,
) -> list[CheckResult]:
    """The measured cause, said beside every failure that it explains, and no other help or guess beside it."""
    results = _without_special_help(results, rulings)
    said = _cause_in_words(diagnoses, trial)
    if said is None:
        return results
    likely, evidence, help = said
    found = []
    for result, (question, ruling) in zip(results, rulings, strict=True):
        explained_by_it = ruling.verdict in ("fail", "error") and question.check.kind in EXPLAINED
        if result.explanation is None or not explained_by_it or question.reveal == "verdict":
            found.append(result)
            continue
        # Where it goes wrong follows from the cause; that one dtype alone is wrong does not.
        where = tuple(fact for fact in result.explanation.where if fact.startswith("wrong only in float"))
        explained = replace(result.explanation, likely=likely, evidence=evidence, help=help, where=where)
        found.append(replace(result, explanation=explained, message=message_text(explained), hint=help))
    return found


def _cause_in_words(diagnoses: tuple[Diagnosis, ...], trial: Trial) -> tuple[str, str, str | None] | None:
    """(cause, evidence, help) in a student's words; None where none was measured, or too many fit the one call made."""
    if not diagnoses:
        return None
    together = [d for d in diagnoses if d.combined_with]
    helps = [d.help for d in together if d.help] if together else [diagnoses[0].help]
    help = " And: ".join(text for text in helps if text) or None
    if together:
        likely = " And: ".join(d.says for d in together)
        exactly = (
            "exactly these changes" if len(together) > 1 else "this change and one more, which may be any of several"
        )
        return likely, f"Your results equal the reference with {exactly}, on every call.", help
    failing = diagnoses[0].cases_matched
    calls = {1: "the failing call", 2: "both failing calls"}.get(failing, f"all {failing} failing calls")
    if not trial.plan.replay:
        passing = any(trial.right(case, dtype) for case, dtype in trial.plan.select(None))
        also = " and on every call that passes" if passing else ""
        return diagnoses[0].says, f"Your results equal the reference with that one change, on {calls}{also}.", help
    if len({case.key for case, _ in trial.seen}) > 2:
        evidence = "Your results equal the reference with that one change, on this call and on every other of the run."
        return diagnoses[0].says, evidence, help
    if len(diagnoses) == 1:
        return diagnoses[0].says, "On this call your result equals the reference with that one change.", help
    if len(diagnoses) > MAX_ALTERNATIVES:
        return None
    likely = " Or: ".join(d.says for d in diagnoses)
    return likely, "Each of these changes alone gives your result on this call; a run of all cases tells more.", None


def _without_special_help(results: list[CheckResult], rulings: list[tuple[Question, Ruling]]) -> list[CheckResult]:
    """Help for a special case is none where plain cases fail in the same way."""
    plain = set()
    for question, ruling in rulings:
        if question.check.kind == "values" and ruling.case is not None and ruling.case.group != "edge":
            plain.add(values.kind_of(ruling))
    found = []
    for result, (question, ruling) in zip(results, rulings, strict=True):
        special = question.check.kind == "values" and ruling.case is not None and ruling.case.group == "edge"
        shown = result.explanation
        if special and shown is not None and shown.help == question.help and values.kind_of(ruling) in plain:
            result = replace(result, explanation=replace(shown, help=None), hint=None)
        found.append(result)
    return found


def _relevant(exercise: Exercise, plan: Plan) -> tuple[Question, ...]:
    """The questions that one replayed case can answer; raises `UsageError` when no check looks at it."""
    found = []
    for question in questions(exercise):
        kind = question.check.kind
        cases_seen = question.cases or ("random" if kind in ON_RANDOM else None)
        wide = kind in ON_RANDOM or (kind == "peak_memory" and question.dtypes is None)
        if plan.select(cases_seen, ("float64",) if wide else question.dtypes):
            found.append(question)
    if all(question.advisory for question in found):
        case = plan.cases[0][0]
        raise UsageError(f"--case: no check of `{exercise.name}` that counts looks at the case `{case.name}`")
    return tuple(found)


def _blocked(exercise: Exercise, asked: tuple[Question, ...], failure: Outcome) -> tuple[CheckResult, ...]:
    """Nothing could be called: the first check says why, the others that they were blocked by it."""
    verdict, cause = verdicts.of_outcome(failure)
    results = []
    for index, question in enumerate(asked):
        if index == 0:
            ruling = Ruling(verdict, cause, outcome=replace(failure, extra={**failure.extra, "loading": True}))
        else:
            ruling = Ruling("skipped", "blocked", facts={"why": "your file could not be loaded"})
        results.append(_result(exercise, question, ruling))
    return tuple(results)


def _shrunk(trial: Trial, rulings: list[tuple[Question, Ruling]]) -> list[tuple[Question, Ruling]]:
    """The rulings, the first wrong result among them shown on the smallest case that fails in the same way.

    A case that a token names is shown as it is. Changed inputs are given the line that changes them.
    """
    rulings = [(question, _placed(trial, ruling)) for question, ruling in rulings]
    if trial.plan.replay:
        rulings = _as_in_the_run(trial, rulings)
    index = worth_shrinking(rulings)
    if index is None or trial.plan.replay:
        return rulings
    question, ruling = rulings[index]
    smaller = shrink.smallest(trial.exercise, ruling, _judge(trial), values.kind_of)
    # What is wrong where shows better where there is more to see.
    facts = {**smaller.facts, "larger": (ruling.case, ruling.mismatch)}
    smaller = replace(smaller, failing=ruling.failing, facts=facts)
    return [*rulings[:index], (question, smaller), *rulings[index + 1 :]]


def _as_in_the_run(trial: Trial, rulings: list[tuple[Question, Ruling]]) -> list[tuple[Question, Ruling]]:
    """The rulings of a replay with what the run of its seed saw beside them: the larger case, and all other calls.

    On one small call many mistakes look alike, and much is true by accident. Nothing more is called where the submission
    prints, since its lines are those of the call that was asked for.
    """
    failing = any(ruling.verdict in ("fail", "error") and q.check.kind in EXPLAINED for q, ruling in rulings)
    if not failing or trial.student.stopped is not None or printed(trial.student.output):
        return rulings
    found = []
    for question, ruling in rulings:
        case = ruling.case
        if question.check.kind == "values" and ruling.mismatch is not None and case.shrunk:
            larger = _before_shrinking(trial, ruling)
            ruling = replace(ruling, facts={**ruling.facts, "larger": (larger.case, larger.mismatch)})
        found.append((question, ruling))
    asked = trial.plan
    try:
        plan = make_plan(trial.exercise, trial.oracle, asked.seed)
        trial.oracle.prefetch(plan.select(None))
        trial.plan = settle(trial.exercise, trial.oracle, plan)
        for question in questions(trial.exercise):
            if question.check.kind in EXPLAINED and trial.student.stopped is None:
                registry.CHECKS[question.check.kind](trial, question)
    except (AuthorError, IllConditioned):
        # Of a run that cannot be made there is nothing to add.
        pass
    finally:
        trial.plan = asked
    return found


def _before_shrinking(trial: Trial, ruling: Ruling) -> Ruling:
    """The ruling on the case that a shrunk one was made of; the ruling itself where there is no such case."""
    case = ruling.case
    try:
        drawn = cases.on_grid(cases.draw(trial.exercise, case.name, case.index, case.seed), case.grid)
        found = _judge(trial)(drawn, ruling.dtype)
    except (AuthorError, IllConditioned, GraderFault):
        return ruling
    return found if found.verdict != "pass" and values.kind_of(found) == values.kind_of(ruling) else ruling


def _placed(trial: Trial, ruling: Ruling) -> Ruling:
    """The ruling with the line of the submission that changes an input first, where one more call shows it."""
    if ruling.cause != "inputs_changed" or ruling.outcome is None or ruling.outcome.seconds > MAX_FOLLOWED:
        return ruling
    index = list(ruling.case.arguments).index(ruling.outcome.changes[0].parameter)
    followed = trial.outcome(ruling.case, ruling.dtype, mode="steps", options={"changed": index})
    place = followed.extra.get("place") if followed.returned else None
    if not isinstance(place, dict) or type(place.get("line")) is not int or not 0 < place["line"] < 10**7:
        return ruling
    told = {"line": place["line"]}
    told |= {key: inert(str(place.get(key, "")))[:300] for key in ("file", "text")}
    return replace(ruling, facts={**ruling.facts, "place": told})


def _judge(trial: Trial) -> Callable[[Case, str], Ruling]:
    def judge(case: Case, dtype: str) -> Ruling:
        # The reference first: a case that it cannot answer is none, and the submission must not meet it.
        trial.expected(case, dtype)
        return values.rule(trial, case, dtype)

    return judge


def _result(exercise: Exercise, question: Question, ruling: Ruling) -> CheckResult:
    passed = ruling.verdict == "pass"
    secret = exercise.keeps_secrets
    explanation: Explanation | None = None
    bare: Explanation | None = None
    if ruling.verdict == "skipped":
        explanation = Explanation(claim=skipped_claim(ruling))
        bare = explanation
    elif not passed:
        loading = ruling.outcome is not None and ruling.outcome.extra.get("loading")
        known = ruling.case is not None and not secret
        rerun = f"grade {exercise.name} --case {ruling.case.token}" if known else None
        explanation = explain(exercise, question, ruling, rerun)
        # A file that cannot even be loaded has seen no case yet.
        bare = explanation if loading else verdict_only(exercise, question, ruling)
    return CheckResult(
        id=question.id,
        title=question.title,
        verdict=ruling.verdict,
        points=question.points if passed or ruling.neutral else 0.0,
        max_points=question.points,
        advisory=question.advisory,
        cause=ruling.cause,
        message=message_text(explanation),
        hint=explanation.help if explanation is not None else None,
        case=ruling.case.ref if ruling.case is not None and not passed and not secret else None,
        seconds=ruling.seconds,
        explanation=explanation,
        neutral=ruling.neutral,
        bare=bare,
    )


def message_text(explanation: Explanation | None) -> str:
    """The explanation as plain text, complete without colour."""
    if explanation is None:
        return ""
    lines = [explanation.claim]
    if explanation.call:
        lines.append(explanation.call)
    lines.extend(block_lines(explanation.blocks))
    if explanation.grid is not None:
        lines.append(grid_text(explanation.grid))
    lines.extend(explanation.where)
    if explanation.likely:
        lines.append(f"likely cause: {explanation.likely}")
    if explanation.note:
        lines.append(f"note: {explanation.note}")
    return "\n".join(lines)


def _report(
    exercise: Exercise,
    submission: Submission,
    seed: int,
    results: tuple[CheckResult, ...],
    diagnoses: tuple[Any, ...],
    trial: Trial,
    reference_seconds: float,
    runner: Runner,
    lockdown: Lockdown,
    started: float,
) -> Report:
    counting = [result for result in results if not result.advisory]
    return Report(
        exercise=exercise.name,
        submission={"path": submission.path, "sha256": submission.sha256},
        seed=seed,
        status="graded",
        passed=all(result.verdict == "pass" or result.neutral for result in counting),
        score=sum(result.points for result in counting),
        max_score=sum(result.max_points for result in counting),
        checks=results,
        diagnoses=diagnoses,
        isolation=lockdown.report(runner, trial.student.applied),
        timings=_timings(runner, trial.student.seconds, reference_seconds, started),
        versions=_versions(runner),
        # What a submission prints may be its inputs.
        output="" if exercise.keeps_secrets else trial.student.output,
        left_out=trial.student.left_out,
        note=kit.NOTE if kit.seeds_of(exercise) else "",
        title=exercise.spec.title,
        secret=exercise.keeps_secrets,
    )


def _not_graded(
    exercise: Exercise,
    submission: Submission,
    seed: int,
    reason: str,
    runner: Runner,
    lockdown: Lockdown,
    started: float,
) -> Report:
    return replace(
        not_graded(exercise, submission, seed, reason),
        isolation=lockdown.report(runner, {}),
        timings=_timings(runner, 0.0, 0.0, started),
        versions=_versions(runner),
    )


def not_graded(exercise: Exercise | str, submission: Submission, seed: int, reason: str) -> Report:
    """The report of a run in which the grader itself failed; of an exercise that is only a name no check is known."""
    known = exercise if isinstance(exercise, Exercise) else None
    asked = questions(known) if known is not None else ()
    results = tuple(
        CheckResult(q.id, q.title, "grader_error", 0.0, q.points, q.advisory, "grader_error", reason) for q in asked
    )
    return Report(
        exercise=known.name if known is not None else str(exercise),
        submission={"path": submission.path, "sha256": submission.sha256},
        seed=seed,
        status="not_graded",
        passed=False,
        score=None,
        max_score=sum(q.points for q in asked if not q.advisory),
        checks=results,
        diagnoses=(),
        isolation={"level": "off", "layers": [], "missing": ["nothing was run"]},
        timings={"import_s": 0.0, "student_s": 0.0, "reference_s": 0.0, "total_s": 0.0},
        versions={"grader": __version__, "python": platform.python_version(), "numpy": "", "torch": ""},
        reason=reason,
        title=known.spec.title if known is not None else "",
        secret=known is not None and known.keeps_secrets,
    )


def _timings(runner: Runner, student: float, reference: float, started: float) -> dict[str, float]:
    return {
        "import_s": round(runner.import_seconds, 4),
        "student_s": round(student, 4),
        "reference_s": round(reference, 4),
        "total_s": round(time.monotonic() - started, 4),
    }


def _versions(runner: Runner) -> dict[str, str]:
    found = {"grader": __version__, "python": platform.python_version()}
    for name in ("numpy", "torch"):
        found[name] = runner.versions.get(name, "")
    return found


__all__ = ["AuthorError", "IllConditioned", "Options", "fresh_seed", "grade", "message_text", "not_graded"]
