"""From a ruling to the words a student reads: one claim, the smallest call, got and expected, where, and what next.

Facts only: what is said here was measured on the case shown. Nothing is guessed, and no internals of the grader appear.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grader import compare, locate
from grader.cases import Case, Drawn
from grader.model import Explanation, Mismatch, Outcome, Question, Ruling
from grader.sandbox.protocol import Array, Value
from grader.spec.exercise import Exercise
from grader.submission import inert

MAX_SHOWN = 24
MAX_DIFFERING = 6
DIGITS = 5


def explain(exercise: Exercise, question: Question, ruling: Ruling, rerun: str) -> Explanation:
    """The explanation of a failing ruling, redacted as the question's ``reveal`` demands."""
    explanation = _explain(exercise, question, ruling)
    if question.reveal == "verdict":
        return Explanation(claim=explanation.claim, help=question.help)
    if question.reveal == "summary":
        return Explanation(
            claim=explanation.claim, call=explanation.call, where=explanation.where, help=explanation.help, rerun=rerun
        )
    return Explanation(**{**vars(explanation), "rerun": rerun if ruling.case is not None else None})


def _explain(exercise: Exercise, question: Question, ruling: Ruling) -> Explanation:
    call = call_text(exercise, ruling.case, ruling.dtype) if ruling.case is not None else ""
    outcome = ruling.outcome
    if ruling.verdict == "skipped":
        return Explanation(claim=skipped_claim(ruling), help=None)
    if outcome is not None and outcome.extra.get("loading"):
        return loading(exercise, outcome)
    if outcome is not None and not outcome.returned:
        return _no_result(exercise, question, ruling, outcome, call)
    if ruling.cause == "inputs_changed":
        return _inputs_changed(question, ruling, call)
    if ruling.cause == "not_repeatable":
        return _not_repeatable(question, ruling, call)
    if "claim" in ruling.facts:
        return _stated(question, ruling, call)
    if ruling.mismatch is not None:
        return _wrong_result(question, ruling, ruling.mismatch, call)
    return Explanation(claim="The check failed.", call=call, help=question.help)


def _stated(question: Question, ruling: Ruling, call: str) -> Explanation:
    """A relation or a condition: the check made the claim, with what it measured."""
    facts = ruling.facts
    blocks = tuple(facts.get("blocks", ()))
    if ruling.mismatch is not None:
        blocks += _got_and_expected(ruling.mismatch, facts.get("labels", ("you returned", "expected")))
    note = "the result on the inputs as they are is right." if facts.get("values_right") else None
    return Explanation(
        str(facts["claim"]), call, blocks, grid=ruling.grid, help=question.help or facts.get("help"), note=note
    )


def skipped_claim(ruling: Ruling) -> str:
    """Why a check was not run, in words."""
    if ruling.cause == "stopped":
        why = ruling.outcome.detail if ruling.outcome is not None else "the run was stopped"
        return f"Not run: {why}."
    if ruling.cause == "nothing_returned":
        return "Not run: no call returned a result."
    if ruling.neutral:
        return (
            f"Not decided: {ruling.facts.get('why', 'it could not be measured here')}. It does not count against you."
        )
    return f"Not run: {ruling.facts.get('why', 'something before it failed')}."


def call_text(exercise: Exercise, case: Case, dtype: str) -> str:
    """The call as a student would recognise it: the dims, or the arguments where there are no dims."""
    if case.dims:
        shown = ", ".join(f"{name}={size}" for name, size in case.dims.items())
    else:
        shown = ", ".join(f"{name}={_argument(value)}" for name, value in case.arguments.items())
    suffix = f" in {dtype}" if exercise.spec.framework != "python" and dtype != "float64" else ""
    title = "" if case.name == "random" else f"    ({case.title})"
    return f"{exercise.function}({shown}){suffix}{title}"


def _argument(value: Any) -> str:
    if isinstance(value, Drawn):
        return f"<{'x'.join(map(str, value.values.shape)) or '0-d'}>"
    if isinstance(value, list | dict):
        return f"<{type(value).__name__} of {len(value)}>"
    return repr(value)


# --- results that are wrong -----------------------------------------------------------------------------------------


def _wrong_result(question: Question, ruling: Ruling, mismatch: Mismatch, call: str) -> Explanation:
    what = f"`{mismatch.path}`" if mismatch.path else "The result"
    got, wanted = compare.describe(mismatch.actual), compare.describe(mismatch.expected)
    blocks: tuple[tuple[str, str], ...] = ()
    where: tuple[str, ...] = ()
    if mismatch.kind == "unsupported":
        claim = f"{what} is {got}, which cannot be graded."
        blocks = (("why", str(mismatch.note)), ("expected", wanted))
    elif mismatch.kind == "type":
        claim = f"{what} is {got}; expected {mismatch.note or wanted}."
        if mismatch.actual is None:
            claim = f"Your function returned None; expected {mismatch.note or wanted}."
            blocks = (("note", "a function without a `return` statement returns None"),)
    elif mismatch.kind == "structure":
        claim = f"{what} has {mismatch.note}." if mismatch.note[:1].isdigit() else f"{what}: {mismatch.note}."
    elif mismatch.kind == "shape":
        claim = f"{what} has the wrong shape."
        blocks = (("you returned", _shape(mismatch.actual)), ("expected", _shape(mismatch.expected, mismatch.axes)))
    elif mismatch.kind == "dtype":
        claim = f"{what} has dtype {getattr(mismatch.actual, 'dtype', '?')}; expected {mismatch.note}."
        blocks = (("note", f"the float inputs of this call are {ruling.dtype}"),)
    elif mismatch.kind in ("nan", "inf"):
        word = {"nan": "nan", "inf": "infinite"}[mismatch.kind]
        claim = (
            f"{what} should be {word} in places where it is not."
            if mismatch.note
            else f"{what} contains {'nan' if word == 'nan' else 'infinite'} values."
        )
        blocks = _got_and_expected(mismatch)
        where = locate.places(mismatch)
    else:
        claim = (
            "Values differ from the reference."
            if not mismatch.path
            else f"Values of `{mismatch.path}` differ from the reference."
        )
        blocks = _got_and_expected(mismatch)
        where = locate.places(mismatch)
    return Explanation(claim=claim, call=call, blocks=blocks, where=where, help=question.help)


def _shape(value: Value, axes: tuple[str, ...] = ()) -> str:
    shape = value.shape if isinstance(value, Array) else ()
    if axes and len(axes) == len(shape):
        return f"{tuple(shape)}    ({', '.join(axes)})"
    return str(tuple(shape))


def _got_and_expected(
    mismatch: Mismatch, labels: tuple[str, str] = ("you returned", "expected")
) -> tuple[tuple[str, str], ...]:
    got, wanted = labels
    mine, theirs = compare.numbers(mismatch.actual), compare.numbers(mismatch.expected)
    if mine is None or theirs is None:
        return ((got, _python_text(mismatch.actual)), (wanted, _python_text(mismatch.expected)))
    if theirs.ndim == 0:
        blocks = [(got, number_text(mine)), (wanted, number_text(theirs))]
        if mismatch.kind == "values":
            blocks.append(("", f"off by {mismatch.worst_difference:.3g}, allowed {mismatch.allowed:.2g}"))
        return tuple(blocks)
    blocks = []
    if theirs.size <= MAX_SHOWN:
        blocks = [(got, array_text(mine)), (wanted, array_text(theirs))]
    else:
        index = mismatch.worst
        row = index[:-1]
        at = "[" + ", ".join(map(str, row)) + (", :]" if row else ":]")
        blocks = [(f"{got}, at {at}", array_text(mine[row])), (f"{wanted}, at {at}", array_text(theirs[row]))]
    worst = "[" + ", ".join(map(str, mismatch.worst)) + "]"
    if mismatch.kind == "values" and mine.dtype.kind == "f":
        summary = (
            f"{mismatch.wrong} of {mismatch.total} elements differ, worst at {worst}: "
            f"{mismatch.worst_difference:.3g}, allowed {mismatch.allowed:.2g}"
        )
    else:
        summary = f"{mismatch.wrong} of {mismatch.total} elements, first at {worst}"
    return (*blocks, ("", summary))


def number_text(value: Any) -> str:
    """A number at the precision that a difference needs."""
    return f"{float(value):.12g}" if np.asarray(value).dtype.kind == "f" else str(int(value))


def array_text(values: np.ndarray) -> str:
    """A small array, at fixed width, never more than ``MAX_SHOWN`` numbers a row."""
    with np.printoptions(precision=DIGITS, suppress=False, linewidth=72, threshold=60, edgeitems=4):
        return str(np.asarray(values))


def _python_text(value: Value) -> str:
    text = inert(repr(_plain(value)))
    return text if len(text) <= 300 else text[:297] + "..."


def _plain(value: Value) -> Any:
    if isinstance(value, Array):
        return value.numbers().tolist()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


# --- effects ----------------------------------------------------------------------------------------------------------


def _inputs_changed(question: Question, ruling: Ruling, call: str) -> Explanation:
    assert ruling.outcome is not None
    change = ruling.outcome.changes[0]
    name = change.parameter + change.path
    blocks: list[tuple[str, str]] = []
    if change.what == "values":
        claim = f"Your function changed its argument `{name}`."
        before = ruling.case.arguments.get(change.parameter)
        if isinstance(before, Drawn) and isinstance(change.after, Array):
            old, new = before.values, change.after.numbers()
            if old.shape == new.shape and old.size:
                differs = np.argwhere(np.asarray(old != new))
                row = tuple(int(i) for i in differs[0])[:-1] if differs.size else ()
                label = f"`{change.parameter}`" + (f"[{', '.join(map(str, row))}]" if row else "")
                blocks = [(f"{label} before", array_text(old[row])), (f"{label} after", array_text(new[row]))]
    elif change.what == "grad":
        claim = f"Your function left a gradient in `{name}.grad`."
    elif change.what == "requires_grad":
        claim = f"Your function changed `{name}.requires_grad`."
    else:
        claim = f"Your function changed its argument `{name}` ({change.what})."
    others = sorted({c.parameter for c in ruling.outcome.changes} - {change.parameter})
    if others:
        blocks.append(("also changed", ", ".join(others)))
    help = question.help or f"build a new array instead of updating `{change.parameter}`; callers still need it."
    note = "the returned values are right." if ruling.facts.get("values_right") else None
    return Explanation(claim=claim, call=call, blocks=tuple(blocks), help=help, note=note)


def _not_repeatable(question: Question, ruling: Ruling, call: str) -> Explanation:
    assert ruling.mismatch is not None
    blocks = [("first call", _brief(ruling.facts.get("first"))), ("same call again", _brief(ruling.mismatch.actual))]
    help = (
        question.help
        or "keep nothing between calls, and draw no random numbers: the result depends on the arguments alone."
    )
    return Explanation("The same inputs gave another result when they came again.", call, tuple(blocks), help=help)


def _brief(value: Value) -> str:
    found = compare.numbers(value)
    if found is None:
        return _python_text(value)
    if found.ndim == 0:
        return number_text(found)
    while found.ndim > 1:
        found = found[0]
    return array_text(found[:6]) + (" ..." if found.size > 6 else "")


# --- calls that gave no result ------------------------------------------------------------------------------------------


def _no_result(exercise: Exercise, question: Question, ruling: Ruling, outcome: Outcome, call: str) -> Explanation:
    if outcome.status == "timeout":
        return Explanation(
            f"The call did not finish within {outcome.detail}.", call,
            help="look for a loop that never ends, or for work that grows much faster than the inputs.",
        )  # fmt: skip
    if outcome.status == "memory":
        return Explanation(
            "The call used more memory than it may." + (f" (limit {outcome.detail})" if outcome.detail.endswith("MB") else ""),
            call, blocks=_traceback(outcome), help="look for an array with an axis too many, or for something that grows in a loop.",
        )  # fmt: skip
    if outcome.status == "crashed":
        how = (
            f"was ended by {outcome.detail}"
            if outcome.extra.get("how") == "signal"
            else f"ended itself ({outcome.detail})"
        )
        return Explanation(
            f"The process that ran your function {how} before it returned.", call, help=_exit_help(outcome)
        )
    if outcome.status == "too_large":
        return Explanation("The result is far larger than the expected one and was not read.", call, help=question.help)
    if outcome.status == "garbled":
        return Explanation("Your function returned nothing that could be read.", call)
    assert outcome.error is not None
    error = outcome.error
    if outcome.status == "forbidden":
        return Explanation(
            f"Your code tried something that is not allowed while it is graded: {error.message or error.type}.", call,
            blocks=_traceback(outcome),
            help="an exercise needs no files, no network and no other programs; compute from the arguments alone.",
        )  # fmt: skip
    if error.cause == "exited":
        return Explanation(
            f"Your code ended the program ({error.type}) instead of returning a result.", call,
            blocks=_traceback(outcome), help="remove exit(), quit() and sys.exit() from the file.",
        )  # fmt: skip
    if error.cause == "import_error":
        return Explanation(f"An import failed: {error.message}", call, _traceback(outcome), help=_import_help(exercise))
    if error.type == "NotImplementedError":
        return Explanation(
            f"`{exercise.function}` is not written yet.",
            call,
            _traceback(outcome),
            help=f"replace the line that raises it; grade {exercise.name} --show prints the statement.",
        )
    return Explanation(
        f"Your function raised {error.type}: {_first_line(error.message)}",
        call,
        _traceback(outcome),
        help=question.help,
    )


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else ""
    return line if len(line) <= 200 else line[:197] + "..."


def _exit_help(outcome: Outcome) -> str:
    if outcome.detail == "SIGSEGV":
        return "a segmentation fault comes from memory that is not yours: look for as_strided, ctypes, or very deep recursion."
    if outcome.extra.get("how") == "signal":
        return "nothing in an exercise needs signals."
    return "remove os._exit and anything that ends the process."


def _import_help(exercise: Exercise) -> str:
    have = {"torch": "torch, NumPy", "numpy": "NumPy", "python": "NumPy"}[exercise.spec.framework]
    return f"an exercise is solved with {have} and the standard library; helper files beside the submission are not graded."


def _traceback(outcome: Outcome) -> tuple[tuple[str, str], ...]:
    if outcome.error is None or not outcome.error.frames:
        return ()
    lines = []
    for frame in outcome.error.frames:
        place = f"{frame['file']}:{frame['line']}" + (f":{frame['column']}" if frame["own"] else "")
        lines.append(f"{place} in {frame['function']}" + (f"\n    {frame['text'].strip()}" if frame["text"] else ""))
    return (("where", "\n".join(lines)),)


# --- submissions that could not be loaded -------------------------------------------------------------------------------


def loading(exercise: Exercise, outcome: Outcome) -> Explanation:
    """Why a file offers nothing to call."""
    name = exercise.function
    where = _traceback(outcome)
    if outcome.status in ("timeout", "memory", "crashed", "garbled", "too_large"):
        what = {
            "timeout": f"Your file did not finish loading within {outcome.detail}.",
            "memory": "Loading your file used more memory than it may.",
        }.get(outcome.status, f"Your file ended the process while it was loaded ({outcome.detail}).")
        return Explanation(
            what, help="code outside functions runs when the file is loaded; keep only imports and definitions there."
        )
    assert outcome.error is not None
    error, extra = outcome.error, outcome.extra
    match error.cause:
        case "syntax_error":
            line, column = extra.get("line", 0), extra.get("column", 0)
            text = str(extra.get("text", ""))
            stripped = text.lstrip()
            caret = max(0, int(column) - 1 - (len(text) - len(stripped)))
            pointed = (
                f"line {line}, column {column}\n    {stripped}\n    {' ' * caret}^" if stripped else f"line {line}"
            )
            return Explanation(
                f"Python cannot read your file: {error.message}.",
                blocks=(("where", pointed),),
                help="mend the line, and the one before it: an open bracket is often reported one line late.",
            )
        case "unreadable_source":
            return Explanation(
                f"Your file cannot be read: {error.message}.", help="hand in a plain Python file in UTF-8."
            )
        case "no_function":
            near, defined = extra.get("near") or [], extra.get("defined") or []
            blocks: tuple[tuple[str, str], ...] = (("it defines", ", ".join(defined)),) if defined else ()
            help = (
                f"rename `{near[0]}` to `{name}`."
                if near
                else f"define `{name}` at the top level of the file; grade {exercise.name} --start writes a stub."
            )
            return Explanation(f"Your file has no function `{name}`.", blocks=blocks, help=help)
        case "signature":
            return _signature(exercise, outcome)
        case "exited":
            return Explanation(
                f"Your file ended the program ({error.type}) while it was loaded.",
                blocks=where,
                help="remove exit(), quit() and sys.exit(), or put them under `if __name__ == '__main__':`.",
            )
        case "import_error":
            return Explanation(f"An import failed: {error.message}", blocks=where, help=_import_help(exercise))
        case "forbidden_operation":
            return Explanation(
                f"While it was loaded, your file tried something that is not allowed: {error.message or error.type}.",
                blocks=where,
                help="an exercise needs no files, no network and no other programs; keep tests of your own under `if __name__ == '__main__':`.",
            )
        case "memory":
            return Explanation("Loading your file used more memory than it may.", blocks=where)
    return Explanation(
        f"Loading your file raised {error.type}: {_first_line(error.message)}",
        blocks=where,
        help="code outside functions runs when the file is loaded; keep tests of your own under `if __name__ == '__main__':`.",
    )


def _signature(exercise: Exercise, outcome: Outcome) -> Explanation:
    assert outcome.error is not None
    name = exercise.function
    wanted = f"{name}({', '.join(exercise.parameters)})"
    kind = outcome.extra.get("kind")
    if kind == "parameters":
        return Explanation(
            f"`{name}` cannot be called with {len(exercise.parameters)} positional arguments: {outcome.error.message}.",
            blocks=(("yours", str(outcome.extra.get("signature", ""))), ("expected", wanted)),
            help="parameters may have other names, but their number and order are the statement's.",
        )  # fmt: skip
    article = {
        "async": "an async function",
        "generator": "a generator function (it contains yield)",
        "class": "a class",
    }.get(str(kind), outcome.error.message)
    return Explanation(
        f"`{name}` is {article}; expected a plain function.",
        blocks=(("expected", f"def {wanted}: ... return ..."),),
        help="a call must return the result itself.",
    )
