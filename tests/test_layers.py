"""Imports go downward, in no circle; what runs beside a submission sees nothing of the grader, and the grader no torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BIN, ROOT

FILES = sorted((ROOT / "grader").rglob("*.py"))
# Beside the standard library, NumPy and torch: the protocol, and what locks the process (standard library itself).
IN_A_WORKER = ("grader.worker", "grader.sandbox")
NEVER_IN_A_WORKER = ("grader.sandbox.runner", "grader.sandbox.launch")


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in FILES}


def imports(path: Path, everywhere: bool = True) -> Iterator[str]:
    """Full names of what a file imports; with ``everywhere`` those inside functions too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = ast.walk(tree) if everywhere else iter(_at_the_top(tree.body))
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module


def _at_the_top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node


@pytest.mark.parametrize("path", FILES, ids=lambda path: name_of(path))
def test_who_may_import_what(path: Path) -> None:
    module = name_of(path)
    wanted = set(imports(path))
    beside = module.startswith("grader.worker") or module == "grader.sandbox.protocol"
    foreign = {name.partition(".")[0] for name in wanted} - sys.stdlib_module_names - {"grader"}
    if beside:
        assert foreign <= {"numpy", "torch"}, foreign
        ours = {
            name
            for name in wanted
            if name.startswith("grader") and name not in ("grader", "grader.worker", "grader.sandbox")
        }
        assert all(name.startswith(IN_A_WORKER) and name not in NEVER_IN_A_WORKER for name in ours), ours
    else:
        assert "torch" not in foreign, "the grader never imports torch"
    if module == "grader.sandbox.protocol":
        assert foreign <= {"numpy"} and not any(name.startswith("grader") for name in wanted)
    if module in ("grader.sandbox.launch", "grader.spec.library", "grader.errors"):
        assert not foreign, "a command starts it before anything slow is imported"


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {
        name: {other for other in imports(path, everywhere=False) if other in MODULES} - {name}
        for name, path in MODULES.items()
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, (*trail, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())


def test_the_layers_of_the_project_hold() -> None:
    done = subprocess.run([str(BIN / "lint-imports"), "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_is_registered_or_remembered_in_a_module() -> None:
    """No module-level list or dict that fills as the program runs: constants there are tuples, or never written to."""
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        for function in functions:
            assert not any(isinstance(node, ast.Global) for node in ast.walk(function)), (
                f"{path}: global in {function.name}"
            )
