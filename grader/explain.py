"""From a ruling to the words a student reads: one claim, the smallest call, got and expected, where, and what next.

Facts only: what is said here was measured on the case shown. Nothing is guessed, and no internals of the grader appear.
A check whose ``reveal`` is ``summary`` or ``verdict`` is put into words by other functions than one that shows values,
so that there is nothing to take out afterwards.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from grader import compare, failures, locate, numerals, picture
from grader.cases import Case, Drawn, answerer, arrays
from grader.model import CheckResult, Explanation, Grid, Mismatch, Picture, Question, Ruling
from grader.sandbox.protocol import Array, Function, Opaque, Value, cast
from grader.spec import schema
from grader.spec.exercise import Exercise
from grader.submission import inert

MAX_CALL = 110
MAX_LITERAL = 6
# A call of which the sizes have no names is written with the shapes of its arrays, up to so many characters.
MAX_SHAPES = 240
# The numbers of a call are shown below it where they are so few, in so few arrays.
MAX_SMALL, MAX_SMALL_ARRAYS = 12, 6
MAX_REPLY = 160
MAX_TEXT = 300
GOT, EXPECTED = "you returned", "expected"
MOVED, STILL, OPEN = "●", "·", "?"

PARTIAL = ("the row of the largest difference", "the first such row")

# Facts that say how a whole result is related to the expected one, and not only where it is wrong.
RELATED = r"(^|: )(your (values|result)|along|every value|all your values|the heads)"

# As `grader.worker.source` writes a warning: the file and line of the submission, what kind, and the text.
WARNING = re.compile(r"[^\n]+:\d+: \w*Warning: ")

Block = tuple[str, str]

# What a check with `reveal: verdict` says: the cause alone, nothing that depends on a case.
BARE = {
    None: "Values differ from the reference.",
    "nan": "The result contains nan where it should not, or none where it should.",
    "inf": "The result contains infinite values where it should not, or none where it should.",
    "shape": "The result has the wrong shape.",
    "dtype": "The result has the wrong dtype.",
    "type": "The result has the wrong type.",
    "structure": "The result has the wrong parts.",
    "unsupported_result": "The result is nothing that can be graded.",
    "output_too_large": "The result is far larger than the expected one and was not read.",
    "inputs_changed": "Your function changed one of its arguments.",
    "not_repeatable": "The same inputs gave another result when they came again.",
    "leak": "Some outputs change with an input that they must not depend on.",
    "not_read": "Some outputs do not change with an input that they depend on.",
    "not_ignored": "The result changes with an input that should be ignored.",
    "gradient_cut": "The result is not connected to the inputs: no gradient can flow back.",
    "gradient_missing": "No gradient reaches some of the inputs.",
    "gradient_wrong": "Some gradients differ from the reference's.",
    "gradient_not_zero": "A gradient that should be exactly zero is not.",
    "device": "The computation does not stay on the device of the inputs.",
    "precision": "The result does not follow a small change of float64 inputs as it should.",
    "strided": "The result is wrong when the inputs are not contiguous in memory.",
    "calls": "The function handed in is not called as it should be.",
    "peak_memory": "The call holds more memory at once than it may.",
    "does_not_fall": "The value does not fall from step to step.",
    "time_limit": "A call did not finish within its time limit.",
    "memory_limit": "A call used more memory than it may.",
    "memory": "A call used more memory than it may.",
    "forbidden_operation": "Your code tried something that is not allowed while it is graded.",
    "exited": "Your code ended the program instead of returning a result.",
    "signal": "The process that ran your function was ended before it returned.",
    "garbled_reply": "Your function returned nothing that could be read.",
    "import_error": "An import failed.",
}
# Claims of checks that count or show what was measured; with `reveal: summary` the bare sentence stands instead.
COUNTING = ("calls", "does_not_fall", "structure")
# Causes that are shown in full only where no value is wrong.
BESIDE_VALUES = (
    "inputs_changed", "not_repeatable", "not_ignored", "gradient_cut", "gradient_missing", "gradient_wrong",
    "gradient_not_zero", "device", "precision", "strided", "calls", "peak_memory", "does_not_fall", "forbidden_call",
    "missing_call",
)  # fmt: skip


def explain(exercise: Exercise, question: Question, ruling: Ruling, rerun: str | None) -> Explanation:
    """The explanation of a failing ruling, as much of it as the question's ``reveal`` allows.

    ``rerun`` is the command that replays the case; None where its token is to stay hidden.
    """
    outcome = ruling.outcome
    if ruling.verdict == "skipped":
        return Explanation(claim=skipped_claim(ruling))
    if outcome is not None and outcome.extra.get("loading"):
        # Nothing of any case was there yet.
        return failures.loading(exercise, outcome)
    if question.reveal == "verdict":
        return verdict_only(exercise, question, ruling)
    rerun = rerun if ruling.case is not None else None
    if question.reveal == "summary":
        return _summary(exercise, question, ruling, rerun or None)
    explanation = _explain(exercise, question, ruling)
    return Explanation(**{**vars(explanation), "rerun": rerun or None})


def leading(checks: Sequence[CheckResult]) -> CheckResult | None:
    """The failing check to show in full: a picture, or a plain relation; else the shortest wrong result to read.

    Among wrong results, one that most checks have in common: of those the worked example, which can be followed by hand,
    then plain cases before special ones. An advisory check only where nothing that counts fails.
    """
    failing = [check for check in checks if check.explanation is not None and check.verdict not in ("pass", "skipped")]
    failing = [check for check in failing if not check.advisory] or failing
    common = Counter(likeness(check) for check in failing)

    # What answers differently each time seems to depend on everything.
    shaky = any(check.cause == "not_repeatable" for check in failing)
    values_differ = any(check.cause is None for check in failing)

    def rank(check: CheckResult) -> tuple[int, int, int, bool, int]:
        explanation = check.explanation
        assert explanation is not None
        told = any(re.search(RELATED, fact) for fact in explanation.where)
        kind = 0 if told or (explanation.grid is not None and not shaky) else 2 if check.cause in BESIDE_VALUES else 1
        if check.cause == "not_repeatable" and values_differ:
            kind = 0
        cut = any(text.startswith(PARTIAL) for label, text in explanation.blocks if not label)
        # In steps, so that of two about equally long the first is taken.
        results = sum(len(text) for label, text in explanation.blocks if label in (GOT, EXPECTED))
        length = (results + len(explanation.call)) // 150
        return kind, -common[likeness(check)], _special(check), cut, length

    best = min(failing, key=rank, default=None)
    if best is None or best.case is None or best.explanation is None or best.explanation.grid is not None:
        return best
    alike = (check for check in failing if likeness(check) == likeness(best) and _special(check) == 0)
    return next(alike, best)


def _special(check: CheckResult) -> int:
    """How special the case is that a check shows: 0 the worked example, 1 a random one, 2 an edge case."""
    if is_worked(check.title):
        return 0
    return {"examples": 0, "random": 1}.get(check.case.group if check.case is not None else "random", 2)


def is_worked(title: str) -> bool:
    """Whether a case of this title is the statement's own example."""
    return re.search(r"\bworked\b.*\bexample\b", title) is not None


def likeness(check: CheckResult) -> tuple[str, ...]:
    """What makes checks alike for a reader: the verdict, and the same claim but for its numbers."""
    if check.verdict == "pass":
        return ("pass",)
    claim = check.explanation.claim if check.explanation is not None else check.message
    # Shapes of any number of axes, and then single numbers.
    plain = re.sub(r"\d+", "#", re.sub(r"\(\d+,[\d, ]*\)", "(#)", claim))
    return (check.verdict, str(check.cause), str(check.advisory), plain)


def worth_shrinking(rulings: Sequence[tuple[Question, Ruling]]) -> int | None:
    """Which ruling to look for a smaller case for: the first wrong result on a drawn case."""
    for index, (question, ruling) in enumerate(rulings):
        drawn = ruling.case is not None and ruling.case.group != "examples" and not is_worked(ruling.case.title)
        if question.check.kind == "values" and ruling.verdict in ("fail", "error") and drawn:
            return index
    return None


def _explain(exercise: Exercise, question: Question, ruling: Ruling) -> Explanation:
    call = call_text(exercise, ruling.case, ruling.dtype, question.title) if ruling.case is not None else ""
    outcome = ruling.outcome
    if outcome is not None and not outcome.returned:
        return failures.no_result(exercise, question, ruling, outcome, call)
    if ruling.cause == "inputs_changed":
        return _inputs_changed(question, ruling, call)
    if ruling.cause == "not_repeatable":
        return _not_repeatable(question, ruling, call)
    if "claim" in ruling.facts:
        return _stated(question, ruling, call)
    if ruling.mismatch is not None:
        found = _wrong_result(exercise, question, ruling, ruling.mismatch, call)
        given = _small_inputs(ruling.case, call) if ruling.case is not None else ()
        return replace(found, blocks=(*given, *found.blocks, *_handed_in(exercise, ruling)))
    return Explanation(claim="The check failed.", call=call, help=question.help)


def _summary(exercise: Exercise, question: Question, ruling: Ruling, rerun: str | None) -> Explanation:
    """The claim, the call and where it goes wrong; no value, and nothing from which one could be worked out."""
    full = _explain(exercise, question, ruling)
    claim = BARE[ruling.cause] if ruling.cause in COUNTING else full.claim
    where = _where(ruling, ruling.mismatch, values=False) if ruling.mismatch is not None else ()
    blocks = tuple(block for block in full.blocks if block[0] == "where")
    return Explanation(claim=claim, call=full.call, blocks=blocks, where=where, help=full.help, rerun=rerun)


def verdict_only(exercise: Exercise, question: Question, ruling: Ruling) -> Explanation:
    """One sentence per cause. Not even the text of an exception is shown: a submission writes it, and could write inputs."""
    error = ruling.outcome.error if ruling.outcome is not None else None
    if ruling.cause in ("forbidden_call", "missing_call"):
        claim = str(ruling.facts["claim"])
    elif ruling.cause in BARE:
        claim = BARE[ruling.cause]
    elif error is not None and error.type == "NotImplementedError":
        claim = f"`{exercise.function}` is not written yet."
    elif error is not None:
        known = error.type if isinstance(getattr(builtins, error.type, None), type) else "an exception"
        claim = f"Your function raised {known}."
    else:
        claim = "The check failed."
    return Explanation(claim=claim, help=question.help)


def _stated(question: Question, ruling: Ruling, call: str) -> Explanation:
    """A relation or a condition: the check made the claim, with what it measured."""
    facts = ruling.facts
    blocks: tuple[Block, ...] = tuple(
        (label, text.replace("    ", "\n    ", 1) if label == "where" else text)
        for label, text in facts.get("blocks", ())
    )
    drawn = None
    if ruling.mismatch is not None:
        labels = facts.get("labels", (GOT, EXPECTED))
        blocks += _got_and_expected(ruling.mismatch, labels)
        drawn = _picture(ruling.mismatch, labels)
    note = "the result on the inputs as they are is right." if facts.get("values_right") else None
    return Explanation(
        str(facts["claim"]), call, blocks, grid=ruling.grid, picture=drawn, help=question.help or facts.get("help"), note=note
    )  # fmt: skip


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


# --- the call ---------------------------------------------------------------------------------------------------------


def call_text(exercise: Exercise, case: Case, dtype: str, known: str = "") -> str:
    """The call as a student would recognise it: small arguments as they are, arrays by shape, or the sizes where that is long.

    Plain numbers are always written. ``known`` is the title under which it is shown; a case of that name is not named
    again, but of a worked example it is said where it stands.
    """
    given = {name: _argument(name, value) for name, value in case.arguments.items()}
    text = f"{exercise.function}({', '.join(given.values())})"
    worked = is_worked(case.title)
    if len(text) > MAX_CALL and worked:
        # The statement holds the arrays.
        plain = [word for name, word in given.items() if not isinstance(case.arguments[name], Drawn | list | dict)]
        text = f"{exercise.function}({', '.join(['…', *plain])})"
    elif len(text) > MAX_CALL:
        sizes = _sizes(exercise, case)
        words = sizes if sizes else _shortened(case, given)
        text = f"{exercise.function}({', '.join(words)})"
    if exercise.spec.framework != "python" and dtype != "float64":
        text += f" in {dtype}"
    if worked:
        return f"{text}   (the worked example of grade {exercise.name} --show)"
    named = case.name == "random" or not case.title or case.title in known
    return text if named else f"{text}   (case: {case.title})"


def _shortened(case: Case, given: dict[str, str]) -> list[str]:
    """The arguments with no array written out and, where that is still long, only the first arrays beside all plain ones."""
    words = {name: _argument(name, value, 0) for name, value in case.arguments.items()}
    long = [name for name, value in case.arguments.items() if isinstance(value, Drawn | list | dict)]
    while sum(map(len, words.values())) > MAX_SHAPES and len(long) > 1:
        del words[long.pop()]
    left = len(given) - len(words)
    return [*words.values(), *([f"… {left} more"] if left else [])]


def _argument(name: str, value: Any, literals: int = MAX_LITERAL) -> str:
    """One argument in a call; arrays of at most ``literals`` numbers are written out."""
    if isinstance(value, Function):
        return name
    if isinstance(value, Drawn):
        literal = _literal(value.values) if value.values.size <= literals else None
        return f"{name}={literal}" if literal is not None else f"{name} of shape {value.values.shape}"
    if isinstance(value, list | dict):
        items = list(value.values()) if isinstance(value, dict) else value
        word = "dict" if isinstance(value, dict) else "list"
        if not any(isinstance(item, Drawn | list | dict) for item in items):
            text = repr(value)
            return f"{name}={text}" if len(text) <= 60 else f"{name}, a {word} of {len(items)}"
        if isinstance(value, list) and len(value) <= 4:
            return f"{name}=[{', '.join(_item(item) for item in value)}]"
        return f"{name}, a {word} of {len(items)}"
    return f"{name}={numerals.exact(value) or f'{value:.6g}' if type(value) is float else repr(value)}"


def _item(item: Any) -> str:
    if isinstance(item, Drawn):
        return f"shape {item.values.shape}"
    return f"a {type(item).__name__} of {len(item)}" if isinstance(item, list | dict) else repr(item)


def _literal(values: np.ndarray) -> str | None:
    """An array as it would be typed; None when a number of it needs more than a few digits."""
    if values.size == 0:
        return None
    if values.dtype.kind != "f":
        return str(values.tolist())
    texts = [numerals.exact(float(value)) for value in values.reshape(-1)]
    if any(text is None for text in texts):
        return None
    found = iter(texts)
    return re.sub(r"\n\s*", " ", numerals.whole(values, lambda _: str(next(found))))


def _sizes(exercise: Exercise, case: Case) -> list[str]:
    """Sizes that shape an argument, under the names of the statement, and the arguments that are plain numbers.

    Empty where the statement has no name for some size: shapes then say it better.
    """
    used: set[str] = set()
    for name, entry in exercise.spec.inputs.items():
        if name in case.arguments and not isinstance(entry, schema.ScalarInput):
            used |= set(re.findall(r"[A-Za-z_]\w*", str(entry.model_dump(exclude={"about", "type", "kind"}))))
    # What is an argument itself is written as that.
    told = {str(entry.value) for entry in exercise.spec.inputs.values() if isinstance(entry, schema.ScalarInput)}
    shown = {name: size for name, size in case.dims.items() if name in used and name not in told}
    if not shown or not set(shown) <= _symbols(exercise):
        return []
    words = [f"{name}={size}" for name, size in shown.items()]
    for name, value in case.arguments.items():
        if not isinstance(value, Drawn | list | dict | Function) and name not in shown:
            words.append(_argument(name, value))
    return words


def _symbols(exercise: Exercise) -> set[str]:
    """Names of sizes in the statement: whatever stands in brackets with commas, as in `(N, T, d)`, or in code."""
    try:
        text = exercise.statement.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return set()
    shapes = re.findall(r"[(\[]([^()\[\]]*,[^()\[\]]*)[)\]]", text)
    return {word for part in (*shapes, *re.findall(r"`([^`\n]*)`", text)) for word in re.findall(r"[A-Za-z_]\w*", part)}


def _small_inputs(case: Case, call: str) -> tuple[Block, ...]:
    """The arrays of a call in numbers, where all of them together are few and the call does not hold them already."""
    found = [(name, drawn.values) for name, drawn in arrays(case) if f"{name}=[" not in call]
    sizes = [values.size for _, values in found]
    if not sizes or sum(sizes) > MAX_SMALL or min(sizes) == 0 or len(found) > MAX_SMALL_ARRAYS:
        return ()
    blocks = []
    for name, values in found:
        write = numerals.formatter((values,))
        width = numerals.widest((values,), write)
        if not numerals.fits(values, width):
            return ()
        blocks.append((name, numerals.whole(values, write, width)))
    return tuple(blocks)


def _handed_in(exercise: Exercise, ruling: Ruling) -> tuple[Block, ...]:
    """What a function handed in answered just where a list goes wrong: to the call with all that is right so far."""
    mismatch, outcome, case = ruling.mismatch, ruling.outcome, ruling.case
    whole = outcome.value if outcome is not None else None
    if mismatch is None or outcome is None or case is None or not case.functions or not isinstance(whole, list | tuple):
        return ()
    place = re.fullmatch(r"\[(\d+)\]", mismatch.path)
    if place is not None:
        right = int(place[1])
    elif mismatch.kind == "structure" and not mismatch.path and isinstance(mismatch.expected, list | tuple):
        pairs = zip(_plain(list(whole)), _plain(list(mismatch.expected)), strict=False)
        right = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(whole), len(mismatch.expected)))
    else:
        return ()
    so_far = _plain(list(whole[:right]))
    for name, args in outcome.calls:
        if not isinstance(args, list) or len(args) != 1 or _plain(args[0]) != so_far:
            continue
        try:
            reply = _plain(answerer(case, exercise.spec.framework, ruling.dtype, [])(name, args))
        except ValueError:
            return ()
        text = inert(repr(reply))
        return ((f"{name}({so_far})", text),) if len(text) + len(str(so_far)) <= MAX_REPLY else ()
    return ()


# --- results that are wrong -----------------------------------------------------------------------------------------


def _wrong_result(exercise: Exercise, question: Question, ruling: Ruling, mismatch: Mismatch, call: str) -> Explanation:
    what = _what(mismatch.path)
    blocks: tuple[Block, ...] = ()
    note: str | None = _parts_beside(ruling)
    where = _where(ruling, mismatch)
    wanted = _wanted(exercise, mismatch)
    match mismatch.kind:
        case "unsupported":
            claim = f"{what} is {_kind(mismatch.actual)}, which cannot be graded: {mismatch.note}."
            blocks = ((EXPECTED, compare.describe(mismatch.expected)),)
        case "type" if mismatch.actual is None and not mismatch.path:
            claim = f"Your function returned None; expected {wanted}."
            blocks = ((EXPECTED, _summary_of(mismatch.expected)),)
            note = "a function that ends without `return` returns None."
        case "type":
            claim = f"{what} is {_kind(mismatch.actual)}; expected {wanted}."
            blocks = (
                (GOT, _summary_of(mismatch.actual)),
                (EXPECTED, _summary_of(mismatch.expected)),
            )
        case "structure":
            claim = f"{what}: {mismatch.note}."
            if isinstance(mismatch.actual, list | tuple) and isinstance(mismatch.expected, list | tuple):
                names = _tuple_names(exercise, mismatch)
                named = f": {names}" if names else ""
                claim = f"{what} has {_items(len(mismatch.actual))}; expected {len(mismatch.expected)}{named}."
            blocks = ((GOT, _summary_of(mismatch.actual)), (EXPECTED, _summary_of(mismatch.expected)))
            where = _common_start(mismatch.actual, mismatch.expected)
        case "shape":
            claim = f"{what} has the wrong shape."
            blocks = ((GOT, _shape(mismatch.actual)), (EXPECTED, _shape(mismatch.expected, mismatch.axes)))
        case "dtype":
            claim = f"{what} has dtype {getattr(mismatch.actual, 'dtype', '?')}; expected {mismatch.note}."
            if mismatch.note == ruling.dtype and any(drawn.dtype == "floats" for _, drawn in arrays(ruling.case)):
                note = f"the floating-point inputs of this call are {ruling.dtype}."
        case "nan" | "inf":
            word = _nonfinite_word(mismatch)
            found = compare.numbers(mismatch.actual)
            if found is not None and found.ndim == 0:
                claim = f"{what} should be {word}." if mismatch.note else f"{what} is {word}."
            elif mismatch.note:
                claim = f"{what} should be {word} in places where it is not."
            elif word == "nan":
                claim = f"{what} contains nan values."
            else:
                claim = f"{what} is {word} in places where it should not be."
            blocks = _got_and_expected(mismatch)
        case _:
            claim, blocks = _wrong_values(ruling, mismatch)
            where = (*where, *_only_in(exercise, question, ruling))[: locate.MOST]
    drawn = _picture(mismatch)
    return Explanation(claim, call, blocks, where, picture=drawn, help=question.help, note=note)


def _where(ruling: Ruling, mismatch: Mismatch, values: bool = True) -> tuple[str, ...]:
    """Where it goes wrong, read off the case before it was made smaller: on a tiny one much is true by accident."""
    shown = locate.places(mismatch, ruling.case.dims if ruling.case is not None else {}, values)
    case, larger = ruling.facts.get("larger", (None, None))
    if larger is None or larger is mismatch or larger.kind != mismatch.kind or larger.path != mismatch.path:
        return shown
    before, after = compare.numbers(larger.actual), compare.numbers(mismatch.actual)
    if before is None or after is None or before.shape == after.shape:
        return shown
    found = [fact for fact in locate.places(larger, case.dims, values) if "is one of" not in fact]
    both = tuple(fact for fact in found if fact in shown)
    apart = "; ".join(fact for fact in found if fact not in shown)
    return (*both, f"on a result of shape {tuple(before.shape)}: {apart}") if apart else both


def _wrong_values(ruling: Ruling, mismatch: Mismatch) -> tuple[str, tuple[Block, ...]]:
    whole = ruling.outcome.value if ruling.outcome is not None else None
    found = compare.numbers(mismatch.actual)
    single = found is None or found.ndim == 0
    if (
        mismatch.path.startswith("[")
        and single
        and isinstance(whole, list | tuple | dict)
        and not isinstance(mismatch.actual, Array)
    ):
        # A Python result: the whole of it helps to find the place.
        a, b = mismatch.actual, mismatch.expected
        if mismatch.worst_difference > 0 and isinstance(a, int | float) and isinstance(b, int | float):
            pair = np.array(float(a)), np.array(float(b))
            write = numerals.formatter(pair, mismatch.worst_difference)
            got, wanted = write(pair[0]), write(pair[1])
        else:
            got, wanted = _python_text(a), _python_text(b)
        blocks = ((GOT, _python_text(whole)), (f"at {mismatch.path}", got), (EXPECTED, wanted), *_off_by(mismatch))
        return f"The result differs from the reference's at {mismatch.path}.", blocks
    if single and not mismatch.path:
        return "The result differs from the reference's.", _got_and_expected(mismatch)
    if not mismatch.path:
        return "Values differ from the reference.", _got_and_expected(mismatch)
    return f"Values of {_what(mismatch.path)} differ from the reference.", _got_and_expected(mismatch)


def _what(path: str) -> str:
    return "The result" if not path else f"`result{path}`" if path.startswith("[") else f"`{path}`"


def _kind(value: Value) -> str:
    """What a value is, without its size."""
    if value is None:
        return "None"
    if isinstance(value, Array):
        return {"tensor": "a torch.Tensor", "ndarray": "a numpy.ndarray"}.get(value.family, f"a NumPy {value.dtype}")
    if isinstance(value, list | tuple | dict | Opaque):
        return f"a {inert(value.type_name) if isinstance(value, Opaque) else type(value).__name__}"
    return compare.describe(value)


def _wanted(exercise: Exercise, mismatch: Mismatch) -> str:
    expected = mismatch.expected
    if isinstance(expected, Array) and expected.shape == () and expected.family != "tensor":
        return "a number"
    names = _tuple_names(exercise, mismatch)
    if names:
        return f"a {exercise.spec.output.kind} {names}"
    return mismatch.note or _kind(expected)


def _tuple_names(exercise: Exercise, mismatch: Mismatch) -> str:
    """The names of the parts of a result, as in ``(out, lse)``; '' where they have none, or another part is concerned."""
    output = exercise.spec.output
    if mismatch.path or output.kind not in ("tuple", "list") or not output.items:
        return ""
    return f"({', '.join(output.items)})"


def _parts_beside(ruling: Ruling) -> str | None:
    """Of a result in several parts: which others are right and which are wrong too."""
    right, wrong = (ruling.facts.get(key) or [] for key in ("right_parts", "wrong_parts"))
    said = []
    if right:
        said.append(f"{_listed(right)} {'is' if len(right) == 1 else 'are'} right")
    if wrong:
        said.append(f"{_listed(wrong)} {'differs' if len(wrong) == 1 else 'differ'} too")
    return "; ".join(said) + "." if said else None


def _listed(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def _summary_of(value: Value) -> str:
    """A value in one line: Python values as they are where that is short, arrays by shape and dtype."""
    if isinstance(value, Array) and value.family == "scalar":
        return f"a number, such as a NumPy {value.dtype}"
    if value is None or isinstance(value, Array | Opaque | Function):
        return compare.describe(value)
    if isinstance(value, list | tuple | dict) and _holds_arrays(value):
        return compare.describe(value)
    return _python_text(value)


def _holds_arrays(value: Value) -> bool:
    items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return any(isinstance(item, Array | Opaque) or _holds_arrays(item) for item in items)


def _common_start(mine: Value, theirs: Value) -> tuple[str, ...]:
    """How much of a list of another length is right so far."""
    if not (isinstance(mine, list | tuple) and isinstance(theirs, list | tuple)) or _holds_arrays([mine, theirs]):
        return ()
    same = 0
    while same < min(len(mine), len(theirs)) and _plain(mine[same]) == _plain(theirs[same]):
        same += 1
    shorter = min(len(mine), len(theirs))
    if same == 0:
        return ()
    if same == shorter and len(mine) < len(theirs):
        return (f"what is there is right, but {_items(len(theirs) - same)} more should follow",)
    if same == shorter:
        return (f"the first {_items(same)} are right, but nothing should follow" if same > 1
                else "the first item is right, but nothing should follow",)  # fmt: skip
    return (f"right up to index {same - 1}, wrong from index {same}",)


def _only_in(exercise: Exercise, question: Question, ruling: Ruling) -> tuple[str, ...]:
    """The dtype that alone is wrong, where the same calls were made in float64 and were right."""
    case = ruling.case
    if question.dtypes is not None or not ruling.failing or case is None:
        return ()
    edge = exercise.spec.cases.edge.get(case.name)
    made = (edge.dtypes if edge is not None else None) or exercise.spec.dtypes
    wrong = {dtype for _, dtype in ruling.failing}
    if "float64" in made and "float64" not in wrong and made.index("float64") < made.index(ruling.dtype):
        return (f"wrong only in {' and '.join(sorted(wrong))}: in float64 the same calls are right",)
    return ()


def _shape(value: Value, axes: tuple[str, ...] = ()) -> str:
    shape = value.shape if isinstance(value, Array) else ()
    if axes and len(axes) == len(shape):
        return f"{tuple(shape)}   {', '.join(axes)}"
    if not isinstance(value, Array):
        return compare.describe(value)
    return str(tuple(shape))


def _got_and_expected(mismatch: Mismatch, labels: tuple[str, str] = (GOT, EXPECTED)) -> tuple[Block, ...]:
    """Two results beside each other, whole where they are small and in the row of the largest difference where not."""
    got, wanted = labels
    mine, theirs = compare.numbers(mismatch.actual), compare.numbers(mismatch.expected)
    if mine is None or theirs is None:
        return ((got, _python_text(mismatch.actual)), (wanted, _python_text(mismatch.expected)))
    if mine.shape != theirs.shape:
        return ((got, _shape(mismatch.actual)), (wanted, _shape(mismatch.expected)))
    wrong = _wrong(mine, theirs, mismatch)
    summary = ("", _counted(mismatch, mine, theirs))
    if theirs.size <= numerals.MAX_WHOLE:
        write = numerals.formatter((mine, theirs), numerals.smallest_gap(mine, theirs, wrong))
        width = numerals.widest((mine, theirs), write)
        if theirs.size == 1:
            pair = ((got, numerals.whole(mine, write, width)), (wanted, numerals.whole(theirs, write, width)))
            return (*pair, *_off_by(mismatch))
        if numerals.fits(theirs, width):
            wrong = _marked(mine, theirs, mismatch)
            mine_text, theirs_text = numerals.whole(mine, write, width, wrong), numerals.whole(theirs, write, width)
            marks: tuple[Block, ...] = ()
            if "\n" not in mine_text and not wrong.all():
                marks = ((" ", numerals.carets(wrong.reshape(-1), 0, wrong.size, width, mine.ndim)),)
            return ((got, mine_text), (wanted, theirs_text), *marks, summary)
    row, at = mismatch.worst[:-1], mismatch.worst[-1]
    mine_text, theirs_text, marked = _row(mine[row], theirs[row], _marked(mine, theirs, mismatch)[row], at)
    blocks: list[Block] = [(got, mine_text), (wanted, theirs_text)]
    if marked:
        blocks.append((" ", marked))
    if row:
        names = mismatch.axes if len(mismatch.axes) == mine.ndim else ()
        spelt = ", ".join(f"{name} {at}" for name, at in zip(names, row, strict=False))
        which = PARTIAL[0] if mismatch.kind == "values" else PARTIAL[1]
        place = f"[{', '.join(map(str, row))}]"
        blocks.insert(0, ("", f"{which}: {spelt or 'at ' + place}"))
    return (*blocks, summary)


def _picture(mismatch: Mismatch, labels: tuple[str, str] = (GOT, EXPECTED)) -> Picture | None:
    """The two results element by element, where they are arrays of one shape that differ in their numbers."""
    mine, theirs = compare.numbers(mismatch.actual), compare.numbers(mismatch.expected)
    if mine is None or theirs is None or mine.shape != theirs.shape or mismatch.kind not in ("values", "nan", "inf"):
        return None
    wrong = _marked(mine, theirs, mismatch)
    return picture.draw(mine, theirs, wrong, labels, mismatch.axes, mismatch.worst, mismatch.path, mismatch.allowed)


def _row(mine: np.ndarray, theirs: np.ndarray, wrong: np.ndarray, at: int) -> tuple[str, str, str]:
    """Two long rows around place ``at``, and carets under what is wrong there ('' where all of it is)."""
    # As many numbers as one line could hold, whatever their width.
    start, stop = max(0, at - numerals.MAX_ROW // 2), min(mine.size, at + numerals.MAX_ROW // 2)
    gap = numerals.smallest_gap(mine[start:stop], theirs[start:stop], wrong[start:stop])
    write = numerals.formatter((mine[start:stop], theirs[start:stop]), gap)
    width = numerals.widest((mine[start:stop], theirs[start:stop]), write)
    start, stop = numerals.window(mine, at, width)
    texts = [numerals.part(values, start, stop, write, width) for values in (mine, theirs)]
    marked = "" if wrong[start:stop].all() else numerals.carets(wrong, start, stop, width)
    return texts[0], texts[1], marked


def _wrong(mine: np.ndarray, theirs: np.ndarray, mismatch: Mismatch) -> np.ndarray:
    if mismatch.kind == "nan":
        return np.asarray(np.isnan(mine) != np.isnan(theirs))
    if mismatch.kind == "inf":
        return np.asarray((np.isinf(mine) | np.isinf(theirs)) & (mine != theirs))
    return compare.wrong_elements(mine, theirs, mismatch.allowed)


def _marked(mine: np.ndarray, theirs: np.ndarray, mismatch: Mismatch) -> np.ndarray:
    """Everything that is not as expected, whichever kind of difference is counted."""
    wrong = _wrong(mine, theirs, mismatch)
    if mismatch.kind == "values":
        return wrong
    both = np.isfinite(mine) & np.isfinite(theirs)
    return np.asarray(wrong | (both & compare.wrong_elements(mine, theirs, mismatch.allowed)))


def _off_by(mismatch: Mismatch) -> tuple[Block, ...]:
    if mismatch.kind != "values" or mismatch.worst_difference == 0:
        return ()
    text = f"off by {numerals.difference(mismatch.worst_difference)}"
    return (("", text + (f", allowed {mismatch.allowed:.2g}" if mismatch.allowed else "")),)


def _counted(mismatch: Mismatch, mine: np.ndarray, theirs: np.ndarray) -> str:
    at = f"[{', '.join(map(str, mismatch.worst))}]"
    of = f"{mismatch.wrong} of {mismatch.total} elements"
    if mismatch.kind == "values":
        verb = "differs" if mismatch.wrong == 1 else "differ"
        if mine.dtype.kind != "f":
            return f"{of} {verb}, the first at {at}"
        gap = numerals.difference(mismatch.worst_difference)
        return f"{of} {verb}, worst at {at}: {gap}, allowed {mismatch.allowed:.2g}"
    word = _nonfinite_word(mismatch)
    verb = "is" if mismatch.wrong == 1 else "are"
    first = f"at {at}" if mismatch.wrong == 1 else f"the first at {at}"
    test = np.isnan if mismatch.kind == "nan" else np.isinf
    if not (test(mine) & _wrong(mine, theirs, mismatch)).any():
        return f"{of} should be {word}, {first}"
    if not (test(theirs) & _wrong(mine, theirs, mismatch)).any():
        return f"{of} {verb} {word}, {first}"
    return f"{of} {verb} {'nan' if mismatch.kind == 'nan' else 'infinite'}, or should be, {first}"


def _nonfinite_word(mismatch: Mismatch) -> str:
    """nan, infinite, or -inf where every infinity concerned is that one."""
    if mismatch.kind == "nan":
        return "nan"
    found = compare.numbers(mismatch.expected if mismatch.note else mismatch.actual)
    kinds = {float(value) for value in found[np.isinf(found)].reshape(-1)} if found is not None else set()
    return f"{kinds.pop():g}" if len(kinds) == 1 else "infinite"


def _items(count: int) -> str:
    return f"{count} item" if count == 1 else f"{count} items"


class _Short(float):
    """A float that is written in six digits."""

    def __repr__(self) -> str:
        text = f"{float(self):.6g}"
        return text if any(sign in text for sign in ".en") else text + ".0"


def _python_text(value: Value) -> str:
    text = inert(repr(_plain(value)))
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 4] + " ..."


def _plain(value: Value) -> Any:
    if isinstance(value, Array):
        return _plain(value.numbers().tolist())
    if isinstance(value, float):
        return _Short(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def block_lines(blocks: Sequence[Block], indent: str = "") -> list[str]:
    """Labelled values below each other, the labels as wide as the widest; a block without a label is a paragraph."""
    column = max((len(label) for label, _ in blocks), default=0) + 2
    lines: list[str] = []
    for label, text in blocks:
        if not label:
            lines.append(indent + text)
            continue
        for at, part in enumerate(text.split("\n")):
            lines.append((indent + (label if at == 0 else "").ljust(column) + part).rstrip())
    return lines


# --- what depends on what ------------------------------------------------------------------------------------------------


def grid_text(grid: Grid, width: int = 76) -> str:
    """A dependence map and the expected one beside each other, or one above the other where they are too wide for that."""
    columns = len(grid.got[0]) if grid.got else 0
    head = " ".join(str(column % 10) for column in range(columns))
    labels = [f"{grid.rows} {row}" for row in range(len(grid.got))]
    pad = max([len(label) for label in labels] + [len(grid.columns)])
    got = [_cells(row) for row in grid.got]
    expected = [_cells(row) for row in grid.expected]
    key = f"{MOVED} output changed   {STILL} output unchanged" + (f"   {OPEN} undecided" if _any_open(grid) else "")
    if pad + 1 + 2 * len(head) + 5 + len("expected ") <= width:
        lines = [f"{grid.columns:>{pad}} {head}     expected {head}"]
        space = " " * len("     expected ")
        lines += [f"{label:>{pad}} {a}{space}{b}" for label, a, b in zip(labels, got, expected, strict=True)]
    else:
        lines = []
        for title, rows in (("you", got), ("expected", expected)):
            lines += [title, f"{grid.columns:>{pad}} {head}"]
            lines += [f"{label:>{pad}} {row}" for label, row in zip(labels, rows, strict=True)]
    axes = f"rows: the output, by {grid.rows}; columns: the {grid.changed} that was changed"
    return "\n".join([*lines, *([key, axes] if len(axes) <= width else [key, *axes.replace("; ", "\n").split("\n")])])


def _cells(row: tuple[bool | None, ...]) -> str:
    return " ".join(OPEN if cell is None else MOVED if cell else STILL for cell in row)


def _any_open(grid: Grid) -> bool:
    return any(cell is None for rows in (grid.got, grid.expected) for row in rows for cell in row)


# --- effects ----------------------------------------------------------------------------------------------------------


def _inputs_changed(question: Question, ruling: Ruling, call: str) -> Explanation:
    assert ruling.outcome is not None and ruling.case is not None
    change = ruling.outcome.changes[0]
    name = change.parameter + change.path
    claim = {
        "grad": f"Your function left a gradient in `{name}.grad`.",
        "requires_grad": f"Your function changed `{name}.requires_grad`.",
    }.get(change.what, f"Your function changed its argument `{name}`.")
    blocks: list[Block] = []
    drawn = None
    if change.what not in ("grad", "requires_grad"):
        blocks, drawn = _before_and_after(name, change.path, ruling.case.arguments.get(change.parameter), change.after)
    others = sorted({c.parameter for c in ruling.outcome.changes} - {change.parameter})
    if others:
        blocks.append(("also changed", ", ".join(f"`{other}`" for other in others)))
    place = ruling.facts.get("place")
    if place is not None:
        blocks.append(("where", f"{place['file']}:{place['line']}\n    {place['text']}"))
    help = question.help or f"build a new object instead of updating `{change.parameter}`; callers still need it."
    note = "the returned values are right." if ruling.facts.get("values_right") else None
    return Explanation(claim=claim, call=call, blocks=tuple(blocks), picture=drawn, help=help, note=note)


def _before_and_after(name: str, path: str, before: Any, after: Value) -> tuple[list[Block], Picture | None]:
    """What became of an argument: numbers in the first row that changed (and all of them as a picture), Python values as they are."""
    old, new = _descend(before, path), _descend(after, path)
    if isinstance(old, Drawn) and isinstance(new, Array):
        first, second = old.values, new.numbers()
        if first.shape != second.shape:
            return [(f"{name} before", f"shape {first.shape}"), (f"{name} after", f"shape {second.shape}")], None
        if first.dtype.kind == "f" and new.dtype in ("float16", "bfloat16", "float32"):
            # What the function was given was rounded to its dtype.
            first = Array("ndarray", new.dtype, cast(first, new.dtype)).numbers()
        with np.errstate(invalid="ignore"):
            differs = ~((first == second) | ((first != first) & (second != second)))
        if not differs.any():
            return [], None
        drawn = picture.draw(second, first, differs, (f"{name} after", f"{name} before"))
        drawn = replace(drawn, backwards=True) if drawn is not None else None
        index = tuple(int(i) for i in np.argwhere(differs)[0])
        row = () if first.ndim == 0 else index[:-1]
        a, b, wrong = np.asarray(first[row]), np.asarray(second[row]), np.asarray(differs[row])
        label = name + (f"[{', '.join(map(str, row))}]" if row else "")
        if a.ndim == 0:
            write = numerals.formatter((a, b), numerals.smallest_gap(a, b, wrong))
            width = numerals.widest((a, b), write)
            pair = [(f"{label} before", write(a[()]).rjust(width)), (f"{label} after", write(b[()]).rjust(width))]
            return pair, drawn
        before_text, after_text, marked = _row(a, b, wrong, index[-1])
        pair = [(f"{label} before", before_text), (f"{label} after", after_text)]
        return ([*pair, (" ", marked)] if marked else pair), drawn
    if isinstance(old, Drawn | Array) or isinstance(new, Drawn | Array) or _holds_drawn(old) or _holds_arrays(new):
        return [], None
    return [(f"{name} before", _python_text(old)), (f"{name} after", _python_text(new))], None


def _holds_drawn(value: Any) -> bool:
    items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(isinstance(item, Drawn) or _holds_drawn(item) for item in items)


def _descend(value: Any, path: str) -> Any:
    """The part of an argument at a path such as ``['w_q'][0]``; None when it is not there."""
    for piece in re.findall(r"\[([^\[\]]+)\]", path):
        try:
            value = value[ast.literal_eval(piece)]
        except (KeyError, IndexError, TypeError, ValueError, SyntaxError):
            return None
    return value


def _not_repeatable(question: Question, ruling: Ruling, call: str) -> Explanation:
    assert ruling.mismatch is not None
    # The first call first, as it happened.
    in_order = replace(ruling.mismatch, actual=ruling.mismatch.expected, expected=ruling.mismatch.actual)
    labels = "first call", "same call again"
    blocks = _got_and_expected(in_order, labels)
    help = (
        question.help
        or "keep nothing between calls, and draw no random numbers: the result depends on the arguments alone."
    )
    claim = "The same inputs gave another result when they came again."
    return Explanation(claim, call, blocks, picture=_picture(in_order, labels), help=help)


def printed(output: str) -> bool:
    """Whether there is anything in what a submission wrote beside warnings of the libraries that it calls."""
    return any(line.strip() and not WARNING.match(line) for line in output.splitlines())
