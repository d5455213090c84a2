"""What reading alone shows of an exercise: its statement, its stub, and what would give the solution away."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grader.authoring.complaints import STRICT, Complaint, Places, complaint
from grader.authoring.reading import find_used
from grader.spec.exercise import Exercise

# Shorter lines of code are common property: `return x / total` gives nothing away.
SECRET_LENGTH = 25
HINTS = 3
_FENCE = re.compile(r"^(```+|~~~+)", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")


def read(exercise: Exercise) -> list[Complaint]:
    """Everything that is wrong with the texts of ``exercise``; runs nothing."""
    places = Places(exercise)
    found = [*_statement(exercise), *_stub(exercise)]
    if exercise.solution is None:
        expected = "solution.py, which defines the function that the checks compare with"
        where = f"reference/{exercise.track}/{exercise.name}"
        found.append(complaint("reference", (str(places.yaml), 1, 1), f"there is no reference in {where}", expected))
    else:
        found += _signature(exercise, exercise.solution, "reference")
        found += list(_secrets(exercise))
    return [*found, *_wanted(exercise, places)]


def _wanted(exercise: Exercise, places: Places) -> Iterator[Complaint]:
    """What our own catalogue asks for beyond what makes an exercise sound."""
    hints = exercise.spec.hints
    if len(hints) < HINTS:
        said = f"{len(hints)} hint{'' if len(hints) == 1 else 's'}"
        expected = f"{HINTS}: where to look, a closer one, the line most people miss"
        yield complaint("hints", places.at("hints"), said, expected, STRICT)
    if exercise.statement.is_file():
        text = exercise.statement.read_text(encoding="utf-8", errors="replace")
        if not re.search(r"^#+ .*worked example", text, re.MULTILINE | re.IGNORECASE):
            place = (str(exercise.statement), 1, 1)
            expected = "a section `## Worked example` with printed numbers"
            yield complaint("worked_example", place, "the statement has no worked example", expected, STRICT)
    if exercise.misconceptions is None:
        expected = "misconceptions.yaml beside solution.py: mistakes as patches of it"
        yield complaint("misconceptions", places.at(), "no mistake can be named", expected, STRICT)


# --- statement --------------------------------------------------------------------------------------------------------


def _statement(exercise: Exercise) -> Iterator[Complaint]:
    path = exercise.statement
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        yield complaint("statement", (str(path), 0, 0), "there is no statement", "a README.md in the exercise's folder")
        return
    except (OSError, UnicodeDecodeError) as error:
        yield complaint("statement", (str(path), 0, 0), f"it cannot be read: {error}", "UTF-8 text")
        return
    for name in exercise.parameters:
        if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text):
            yield complaint(
                "statement", (str(path), 1, 1), f"the statement does not name the parameter `{name}`",
                f"what `{name}` is: its shape, dtype and range",
            )  # fmt: skip


# --- stub and signature -----------------------------------------------------------------------------------------------


def signature_line(exercise: Exercise) -> str:
    """``def name(a, b, c=None)`` as the exercise file says."""
    words = []
    for name, entry in exercise.spec.inputs.items():
        words.append(f"{name}={entry.default!r}" if entry.optional else name)
    return f"def {exercise.function}({', '.join(words)})"


def _stub(exercise: Exercise) -> list[Complaint]:
    if not exercise.stub.is_file():
        return [
            complaint("stub", (str(exercise.stub), 0, 0), "there is no stub", f"a file with {signature_line(exercise)}")
        ]
    return _signature(exercise, exercise.stub, "stub")


def _signature(exercise: Exercise, path: Path, rule: str) -> list[Complaint]:
    """Names, order and defaults of the function in ``path`` against the exercise file's inputs."""
    wanted = signature_line(exercise)
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        place = (str(path), error.lineno or 1, error.offset or 1)
        return [complaint(rule, place, f"not Python: {error.msg}", wanted)]
    except (OSError, UnicodeDecodeError, ValueError) as error:
        return [complaint(rule, (str(path), 0, 0), f"it cannot be read: {error}", wanted)]
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == exercise.function]
    if not functions:
        return [complaint(rule, (str(path), 1, 1), f"it does not define `{exercise.function}`", wanted)]
    function = functions[-1]
    arguments = function.args
    place = (str(path), function.lineno, function.col_offset + 1)
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        return [complaint(rule, place, "parameters must be positional and named", wanted)]
    given = [*arguments.posonlyargs, *arguments.args]
    names = [argument.arg for argument in given]
    if names != list(exercise.parameters):
        return [complaint(rule, place, f"the parameters are {', '.join(names) or 'none'}", wanted)]
    defaults: list[ast.expr | None] = [*[None] * (len(given) - len(arguments.defaults)), *arguments.defaults]
    found = []
    for name, entry, default in zip(names, exercise.spec.inputs.values(), defaults, strict=True):
        said = _default_differs(entry, default)
        if said is not None:
            at = (str(path), default.lineno, default.col_offset + 1) if default is not None else place
            found.append(complaint(rule, at, f"`{name}` {said}", wanted))
    return found


def _default_differs(entry: Any, default: ast.expr | None) -> str | None:
    if default is None:
        return "has no default" if entry.optional else None
    if not entry.optional:
        return "has a default, and the exercise file gives it none"
    try:
        value = ast.literal_eval(default)
    except (ValueError, SyntaxError):
        # An expression such as math.pi: whether it is the YAML's number cannot be read off.
        return None
    same = value == entry.default and isinstance(value, bool) == isinstance(entry.default, bool)
    return None if same else f"has the default {ast.unparse(default)} instead of {entry.default!r}"


# --- what gives the solution away -------------------------------------------------------------------------------------


def _secrets(exercise: Exercise) -> Iterator[Complaint]:
    """Lines of the solution that stand in a file students get.

    Every statement of a function's body (for a compound one, its header) counts, without white space and with one kind
    of quotes. Definitions and docstrings do not: a signature is given. Neither does plain arithmetic on names in the text
    blocks of a statement, since there an equation and its line of Python are the same.
    """
    assert exercise.solution is not None
    try:
        tree = ast.parse(exercise.solution.read_text(encoding="utf-8"))
    except (SyntaxError, OSError, UnicodeDecodeError, ValueError):
        return
    if not any(isinstance(node, ast.FunctionDef) and node.name == exercise.function for node in tree.body):
        return
    # What only builds example inputs, such as cases(rng), is no part of the solution.
    solution = [tree.body[number] for number in find_used(tree.body, exercise.function)]
    functions = [node for part in solution for node in ast.walk(part) if isinstance(node, ast.FunctionDef)]
    lines = {line: statement for function in functions for line, statement in _lines(function)}
    secrets = {line: statement for line, statement in lines.items() if len(line) >= SECRET_LENGTH}
    shown = [
        path for path in sorted(exercise.folder.iterdir()) if path.suffix in (".py", ".md", ".yaml", ".ipynb", ".txt")
    ]
    for path in shown:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        for number, code, is_python in _code_of(path, text):
            bare = _bare(code)
            hits = [statement for secret, statement in secrets.items() if secret in bare]
            if any(is_python or not _is_equation(statement) for statement in hits):
                yield complaint(
                    "secret", (str(path), number, 1), f"a line of the solution stands here: `{code.strip()[:80]}`",
                    "words or an equation, never the solution's own line",
                )  # fmt: skip


def _lines(function: ast.FunctionDef) -> Iterator[tuple[str, ast.stmt]]:
    for node in ast.walk(function):
        for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            for index, statement in enumerate(body if isinstance(body, list) else ()):
                docstring = index == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                if docstring or isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Raise):
                    continue
                yield _bare(ast.unparse(statement).splitlines()[0]), statement


def _is_equation(statement: ast.stmt) -> bool:
    """Whether a line of Python is nothing but arithmetic: names, numbers, indices, and functions of one name."""
    if not isinstance(statement, ast.Assign | ast.Return | ast.Expr):
        return False
    code = (ast.Attribute, ast.keyword, ast.Starred, ast.Lambda, ast.IfExp, ast.comprehension, ast.Slice)
    return not any(isinstance(node, code) for node in ast.walk(statement))


def _bare(code: str) -> str:
    return re.sub(r"\s+", "", code).replace('"', "'")


def _code_of(path: Path, text: str) -> Iterator[tuple[int, str, bool]]:
    """(line, code, is it Python) of what may be code in a file: of Markdown its blocks and spans, of another file every line."""
    if path.suffix != ".md":
        yield from ((number, line, True) for number, line in enumerate(text.splitlines(), start=1))
        return
    fence = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if _FENCE.match(line):
            fence = "" if fence else line.strip()
        elif fence:
            yield number, line, "py" in fence
        else:
            for span in _CODE.findall(line):
                yield number, span, False
