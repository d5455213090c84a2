"""A notebook's code cells as a module: imports, definitions and simple constants, in order.

Everything else (calls, plots, loops, magics) is work on the way to a solution and no part of it: it is left out, and said.
"""

from __future__ import annotations

import ast
import linecache
import re
import types
from collections.abc import Sequence

from grader.worker.source import CELL, LoadError

DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# Cell magics whose cell is Python all the same.
PYTHON_CELLS = ("grade", "time", "timeit", "capture", "prun")
MAX_LEFT_OUT = 30
_MAGIC = re.compile(r"^(\s*)(?:[%!?].*|.*[^?\s#]\?{1,2}\s*)$")
_CELL_MAGIC = re.compile(r"^\s*%%(\w+)")


def cell_name(filename: str, number: int) -> str:
    """The file name under which a cell's lines are counted; cells of code are numbered from 1."""
    return f"{filename}{CELL}{number}"


def execute(cells: Sequence[str], filename: str, module: types.ModuleType) -> list[str]:
    """Run what counts of ``cells`` in ``module``; returns what was left out, one place and line of code each.

    Raises:
        LoadError: a cell is no Python even without its magics.
    """
    left: list[str] = []
    for number, text in enumerate(cells, start=1):
        name = cell_name(filename, number)
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        tree, dropped = _parsed(text, name, number)
        left += dropped
        for node in tree.body:
            if isinstance(node, DEFINITIONS):
                _run(node, name, module)
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _simple(node.value):
                try:
                    _run(node, name, module)
                except (NameError, AttributeError):
                    # It stands on something that was left out.
                    left.append(_told(text, node, number))
            elif not isinstance(node, ast.Pass) and not (
                isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            ):
                left.append(_told(text, node, number))
    return left[:MAX_LEFT_OUT]


def syntax_tree(cells: Sequence[str], filename: str) -> ast.Module:
    """What counts of the cells as one syntax tree, cells that do not parse left out."""
    body: list[ast.stmt] = []
    for number, text in enumerate(cells, start=1):
        try:
            found = _parsed(text, cell_name(filename, number), number)[0].body
        except LoadError:
            continue
        body += [node for node in found if isinstance(node, DEFINITIONS)]
    return ast.Module(body, [])


def _run(node: ast.stmt, name: str, module: types.ModuleType) -> None:
    exec(compile(ast.Module([node], []), name, "exec", dont_inherit=True), module.__dict__)


def _parsed(text: str, name: str, number: int) -> tuple[ast.Module, list[str]]:
    """The syntax tree of a cell, and what had to be blanked for it; lines keep their numbers."""
    magic = _CELL_MAGIC.match(text)
    if magic is not None and magic[1] not in PYTHON_CELLS:
        return ast.Module([], []), [f"cell {number}: {text.strip().splitlines()[0][:60]}"]
    dropped = []
    lines = text.splitlines()
    if magic is not None:
        first = next(index for index, line in enumerate(lines) if line.strip())
        lines[first] = ""
        text = "\n".join(lines)
    try:
        return ast.parse(text, name), []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    for index, line in enumerate(lines):
        match = _MAGIC.match(line)
        if match is not None:
            dropped.append(f"cell {number}, line {index + 1}: {line.strip()[:60]}")
            # A statement of the same depth, so that a block that held nothing else stays one.
            lines[index] = f"{match[1]}pass"
    try:
        return ast.parse("\n".join(lines), name), dropped
    except SyntaxError as error:
        place = {"line": error.lineno or 0, "column": error.offset or 0, "text": (error.text or "").rstrip("\n")[:300]}
        raise LoadError("syntax_error", str(error.msg), file=name, **place) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise LoadError("unreadable_source", f"cell {number}: {type(error).__name__}: {error}") from None


def _simple(value: ast.expr) -> bool:
    """Whether evaluating it can do nothing but give a value: constants, names, arithmetic of those, and lambdas."""
    if isinstance(value, ast.Constant | ast.Name | ast.Lambda):
        return True
    if isinstance(value, ast.Attribute):
        return _simple(value.value)
    if isinstance(value, ast.UnaryOp):
        return _simple(value.operand)
    if isinstance(value, ast.BinOp):
        # Not a power: 9 ** 9 ** 9 is a constant as well.
        return (
            not isinstance(value.op, ast.Pow | ast.LShift | ast.Mult) and _simple(value.left) and _simple(value.right)
        ) or (isinstance(value.op, ast.Mult) and _number(value.left) and _number(value.right))
    if isinstance(value, ast.Tuple | ast.List | ast.Set):
        return all(_simple(item) for item in value.elts)
    if isinstance(value, ast.Dict):
        return all(key is not None and _simple(key) for key in value.keys) and all(map(_simple, value.values))
    return False


def _number(value: ast.expr) -> bool:
    if isinstance(value, ast.UnaryOp):
        return _number(value.operand)
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float | complex)


def _told(text: str, node: ast.stmt, number: int) -> str:
    lines = text.splitlines()
    line = lines[node.lineno - 1].strip() if node.lineno <= len(lines) else ""
    return f"cell {number}, line {node.lineno}: {line[:60]}"
