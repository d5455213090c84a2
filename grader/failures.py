"""Words for calls that gave no result, and for files that offer nothing to call."""

from __future__ import annotations

from collections import Counter

from grader.model import Explanation, Outcome, Question, Ruling
from grader.spec.exercise import Exercise

MAX_MESSAGE = 200
# From so many calls of a function handed in on, their number is worth telling.
MANY_CALLS = 100

Block = tuple[str, str]


# --- calls that gave no result ------------------------------------------------------------------------------------------


def no_result(exercise: Exercise, question: Question, ruling: Ruling, outcome: Outcome, call: str) -> Explanation:
    """Why a call gave no result: an exception, a limit, or the end of its process."""
    # What an author advises on values of random cases is no advice on an exception.
    general = question.check.kind == "values" and ruling.case is not None and ruling.case.name == "random"
    help = None if general else question.help or ruling.facts.get("help")
    note = _circumstance(question, ruling)
    if note is None and outcome.status in ("timeout", "memory"):
        note = _calls_made(outcome)
    where = _traceback(outcome)

    def said(claim: str, advice: str | None = help) -> Explanation:
        return Explanation(claim, call, where, help=advice, note=note)

    match outcome.status:
        case "timeout":
            return said(
                f"The call did not finish within {outcome.detail}.",
                # What an author advises on the check is about results or memory, and this is about time.
                "look for a loop that never ends, or for work that grows much faster than the inputs.",
            )
        case "memory":
            limit = f" (limit {outcome.detail})" if outcome.detail.endswith("MB") else ""
            return said(
                f"The call used more memory than it may{limit}.",
                (question.help if question.check.kind == "peak_memory" else None)
                or "look for an array with an axis too many, or for something that grows in a loop.",
            )
        case "crashed":
            signalled = outcome.extra.get("how") == "signal"
            how = f"was ended by {outcome.detail}" if signalled else f"ended itself ({outcome.detail})"
            return said(f"The process that ran your function {how} before it returned.", _exit_help(outcome))
        case "too_large":
            return said("The result is far larger than the expected one and was not read.")
        case "garbled":
            return said("Your function returned nothing that could be read.", None)
    assert outcome.error is not None
    error = outcome.error
    if outcome.status == "forbidden":
        return said(
            f"Your code tried something that is not allowed while it is graded: {_first_line(error.message) or error.type}.",
            "an exercise needs no files, no network and no other programs; compute from the arguments alone.",
        )
    if error.cause == "exited":
        return said(
            f"Your code ended the program ({error.type}) instead of returning a result.",
            "remove exit(), quit() and sys.exit() from the file.",
        )
    if error.cause == "import_error":
        return said(f"An import failed: {_first_line(error.message)}", _import_help(exercise))
    if error.type == "NotImplementedError":
        return said(
            f"`{exercise.function}` is not written yet.",
            f"replace the line that raises it; grade {exercise.name} --show prints the statement.",
        )
    refused = _refused(ruling, error.type, error.message)
    if refused is not None:
        note = _calls_made(outcome) if len(outcome.calls) >= MANY_CALLS else note
        return said(refused)
    return said(_raised(f"Your function raised {error.type}", error.message))


def _refused(ruling: Ruling, kind: str, message: str) -> str | None:
    """A call of a function handed in that has no answer: what it was given, which is the student's doing."""
    functions = ruling.case.functions if ruling.case is not None else {}
    name = next((name for name in functions if message.startswith(f"{name} ")), None)
    if kind != "ValueError" or name is None:
        return None
    return _first_line(f"`{name}`{message.removeprefix(name)}").rstrip(".") + "."


def _calls_made(outcome: Outcome) -> str | None:
    """How often functions handed in had been called when a call was ended."""
    if not outcome.calls:
        return None
    counts = Counter(name for name, _ in outcome.calls)
    told = (f"`{name}` had been called {count} time{'' if count == 1 else 's'}" for name, count in counts.items())
    return " and ".join(told) + " by then."


def _circumstance(question: Question, ruling: Ruling) -> str | None:
    """What is special about a call that gave no result, where it is not one of the plain calls."""
    if ruling.facts.get("again"):
        return "the first time, the same call returned a result."
    if question.check.kind == "gradients":
        return "in this call the inputs require gradients; without that it returned the right result."
    if question.check.kind == "strided":
        return "in this call the inputs are not contiguous in memory; when they are, the result is right."
    if question.check.kind in ("independent", "causal", "reads", "ignores") and ruling.case is not None:
        return "a call with other values of " + " and ".join(f"`{name}`" for name in _varied(question)) + "."
    return None


def _varied(question: Question) -> tuple[str, ...]:
    return tuple(getattr(question.check, "inputs", None) or getattr(question.check, "what", None) or ("an input",))


def _raised(what: str, message: str) -> str:
    text = _first_line(message)
    return f"{what}: {text}" if text else f"{what}."


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else ""
    return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 4] + " ..."


def _exit_help(outcome: Outcome) -> str:
    if outcome.detail == "SIGSEGV":
        return "a segmentation fault comes from memory that is not yours: look for as_strided, ctypes, or very deep recursion."
    if outcome.extra.get("how") == "signal":
        return "nothing in an exercise needs signals."
    return "remove os._exit and anything that ends the process."


def _import_help(exercise: Exercise) -> str:
    have = {"torch": "torch, NumPy", "numpy": "NumPy", "python": "NumPy"}[exercise.spec.framework]
    return f"an exercise is solved with {have} and the standard library; helper files beside the submission are not graded."


def _traceback(outcome: Outcome) -> tuple[Block, ...]:
    """The frames from the student's file onwards, each with its line of source."""
    if outcome.error is None or not outcome.error.frames:
        return ()
    lines = []
    for frame in outcome.error.frames:
        if ", cell " in frame["file"]:
            place = f"{frame['file']}, line {frame['line']}"
        else:
            place = f"{frame['file']}:{frame['line']}" + (f":{frame['column']}" if frame["own"] else "")
        inside = "" if frame["function"] == "<module>" else f", in {frame['function']}"
        lines.append(place + inside)
        if frame["text"].strip():
            lines.append(f"    {frame['text'].strip()}")
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
            # A notebook's lines are counted cell by cell.
            cell = str(extra.get("file", "")).rpartition(", ")[2]
            before = f"{cell}, " if cell else ""
            pointed = (
                f"{before}line {line}, column {column}\n    {stripped}\n    {' ' * caret}^"
                if stripped
                else f"{before}line {line}"
            )
            return Explanation(
                f"Python cannot read your file: {error.message}.",
                blocks=(("where", pointed),),
                help="fix the line, or the one before it: an open bracket is often reported one line late.",
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
