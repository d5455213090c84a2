"""Turn the bytes of a submission into its function, and say exactly what went wrong if that fails."""

from __future__ import annotations
import __future__

import ast
import difflib
import inspect
import linecache
import os
import re
import sys
import traceback
import types
import warnings
from collections.abc import Callable
from typing import Any

# Frames of our own (the hook that refuses an operation) teach a student nothing.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Enough for a message, little enough for a frame.
MAX_TEXT = 4000
# What stands between the name of a notebook and the number of a cell.
CELL = ", cell "
# Warnings of one submission that are written down.
MAX_WARNINGS = 50


class LoadError(Exception):
    """A submission that offers nothing to call. ``data`` is what the report needs."""

    def __init__(self, cause: str, message: str, **data: Any) -> None:
        super().__init__(message)
        self.data = {"cause": cause, "message": message[:MAX_TEXT], **data}


def belongs(frame_file: str, filename: str) -> bool:
    """Whether a frame's file is the submission, of which a notebook's cells are parts: ``mine.ipynb, cell 3``."""
    return frame_file.partition(CELL)[0] == filename.partition(CELL)[0]


def load_function(source: bytes, filename: str, module_name: str, function: str, argument_count: int) -> Any:
    """Execute ``source`` as module ``module_name`` and return its ``function``.

    Raises:
        LoadError: the source is no Python, fails while it is executed, lacks the function, or has one
            that cannot be called with ``argument_count`` positional arguments.
    """
    code = _compile(source, filename)
    text = _decode(source)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module = new_module(filename, module_name)
    exec(code, module.__dict__)
    return find_function(module, function, argument_count, filename)


# Where a statement of a module may begin: at the margin, with neither a comment, a bracket nor a text.
_BEGINNING = re.compile(r"""^(?=[^\s#)\]}"'])""", re.MULTILINE)
_FUTURE = re.compile(r"^from __future__ import (\w+)$", re.MULTILINE)
_DOCSTRING = re.compile(r'\A("""|\'\'\').*?\1', re.DOTALL)


def load_variant(
    source: bytes, module_name: str, function: str, argument_count: int, compiled: dict[tuple[int, str], types.CodeType]
) -> Any:
    """As `load_function`, for one of many trusted sources that differ in a few lines.

    Each statement of the module is compiled once for all of them; ``compiled`` holds the results. What cannot be taken
    apart at its margin (a decorator, an ``else``, a text over several lines) fails to compile in part, and is compiled whole.
    """
    filename = f"{module_name}.py"
    text = _decode(source)
    module = new_module(filename, module_name)
    # Said once, it holds for every statement that follows.
    flags = sum(getattr(__future__, name).compiler_flag for name in _FUTURE.findall(text))
    try:
        pieces = statements(text)
        for piece in pieces:
            if (flags, piece) not in compiled:
                compiled[flags, piece] = compile(piece, filename, "exec", flags, dont_inherit=True)
        codes = [compiled[flags, piece] for piece in pieces]
    except SyntaxError:
        codes = [_compile(source, filename)]
    for code in codes:
        exec(code, module.__dict__)
    return find_function(module, function, argument_count, filename)


def statements(text: str) -> list[str]:
    """The statements of a module without its docstring, taken apart at the margin; not all need be whole ones."""
    return [piece for piece in _BEGINNING.split(_DOCSTRING.sub("", text)) if piece.strip()]


def new_module(filename: str, module_name: str) -> types.ModuleType:
    """An empty module of a submission, known by its name."""
    warnings.showwarning = warner(filename)
    module = types.ModuleType(module_name)
    module.__file__ = filename
    # Dataclasses, typing and pickling of a class look their module up by name.
    sys.modules[module_name] = module
    return module


def warner(filename: str) -> Callable[..., None]:
    """A ``warnings.showwarning`` that writes one line per warning, at the line of the submission that led to it, once each."""
    told: set[str] = set()

    def show(
        message: Any, category: Any, file_: str, line: int, file: Any = None, text: Any = None, *more: Any
    ) -> None:
        # A library warns at a line of its own; the student knows only the line that called it.
        frame: types.FrameType | None = sys._getframe(1)
        while not belongs(file_, filename) and frame is not None:
            if belongs(frame.f_code.co_filename, filename):
                file_, line = frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back
        words = " ".join(_text(message).split())
        said = f"{file_}:{line}: {_type_of(category)}: {words}\n"
        if said in told or not belongs(file_, filename) or len(told) >= MAX_WARNINGS:
            return
        told.add(said)
        try:
            (file or sys.stderr).write(said)
        except BaseException:
            # The stream may be the submission's own object.
            pass

    return show


def _type_of(category: Any) -> str:
    return str(getattr(category, "__name__", "Warning"))[:60]


def _decode(source: bytes) -> str:
    import io
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        return source.decode(encoding, "replace")
    except (SyntaxError, LookupError):
        return source.decode("utf-8", "replace")


def _compile(source: bytes, filename: str) -> types.CodeType:
    try:
        return compile(source, filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        line, column = error.lineno or 0, error.offset or 0
        text = (error.text or "").rstrip("\n")
        raise LoadError(
            "syntax_error"
            if "codec" not in str(error.msg) and "encoding" not in str(error.msg)
            else "unreadable_source",
            str(error.msg),
            line=line,
            column=column,
            text=text[:300],
        ) from None
    except (ValueError, UnicodeDecodeError, RecursionError, MemoryError, OverflowError) as error:
        raise LoadError("unreadable_source", f"{type(error).__name__}: {error}") from None


def find_function(module: types.ModuleType, name: str, argument_count: int, filename: str) -> Any:
    namespace = vars(module)
    if name not in namespace:
        own = [key for key, item in namespace.items() if _is_own(item, module.__name__) and not key.startswith("_")]
        near = difflib.get_close_matches(name, own, n=1, cutoff=0.5)
        raise LoadError("no_function", name, near=near, defined=own[:12])
    function = namespace[name]
    if inspect.isclass(function):
        raise LoadError("signature", "a class", kind="class")
    if not callable(function):
        raise LoadError("signature", f"a value of type {type(function).__name__}", kind="value")
    inner = inspect.unwrap(function) if inspect.isfunction(function) else function
    if inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner):
        raise LoadError("signature", "an async function", kind="async", line=_line(inner))
    if inspect.isgeneratorfunction(inner):
        raise LoadError("signature", "a generator function", kind="generator", line=_line(inner))
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return function
    try:
        signature.bind(*[None] * argument_count)
    except TypeError as error:
        raise LoadError(
            "signature", str(error), kind="parameters", signature=f"{name}{signature}"[:400], line=_line(inner)
        ) from None
    return function


def _is_own(item: Any, module_name: str) -> bool:
    return callable(item) and getattr(item, "__module__", None) == module_name


def _line(function: Any) -> int:
    code = getattr(function, "__code__", None)
    return code.co_firstlineno if code is not None else 0


def called_names(source: bytes) -> list[str]:
    """Dotted names of everything that is called, aliases of imports resolved; empty where the source does not parse."""
    try:
        return called_in(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def called_in(tree: ast.Module) -> list[str]:
    """As `called_names`, of a syntax tree."""
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases.update({name.asname: name.name for name in node.names if name.asname})
        elif isinstance(node, ast.ImportFrom) and node.module:
            aliases.update({name.asname or name.name: f"{node.module}.{name.name}" for name in node.names})
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            dotted = _dotted(node.func)
            head, _, rest = dotted.partition(".")
            found.add(aliases.get(head, head) + ("." + rest if rest else ""))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            found.add("operator.matmul")
    return sorted(name for name in found if name)[:2000]


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = _dotted(node.value)
        # A method of any expression is known by its last name alone.
        return f"{inner}.{node.attr}" if inner else f".{node.attr}".lstrip(".")
    return ""


def describe(error: BaseException, filename: str) -> dict[str, Any]:
    """An exception as data: type, message, and the frames from the submission's file onwards."""
    frames: list[dict[str, Any]] = []
    for frame in traceback.extract_tb(error.__traceback__):
        own = belongs(frame.filename, filename)
        if (not own and not frames) or frame.filename.startswith(PACKAGE):
            continue
        frames.append(
            {
                "own": own,
                "file": frame.filename if own else frame.filename.rsplit("/", 1)[-1],
                "line": frame.lineno or 0,
                "column": (frame.colno or 0) + 1,
                "function": frame.name,
                "text": (frame.line or "")[:300] if own else "",
            }
        )
    # The student's own frames, and the innermost of all: a library's inner calls teach nothing.
    kept = [frame for index, frame in enumerate(frames) if frame["own"] or index == len(frames) - 1]
    if len(kept) > 12:
        kept = kept[:6] + kept[-6:]
    return {"type": _type_name(error), "message": _text(error), "frames": kept}


def _type_name(error: BaseException) -> str:
    # Past the class's own metaclass, which may be the submission's.
    return str(type.__dict__["__name__"].__get__(type(error)))[:200]


def _text(error: BaseException) -> str:
    try:
        return str(error)[:MAX_TEXT]
    except BaseException:
        return "(its message could not be read)"
