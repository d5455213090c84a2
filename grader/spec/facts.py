"""What is known of an exercise file while its meaning is examined: what could be read of it, and every declared name."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Iterable, Mapping
from typing import Any

from grader.spec import expressions, schema, structure
from grader.spec.document import Path_, nearest
from grader.spec.expressions import ExpressionError

# Names that the language gives a meaning of its own.
RESERVED = {"itemsize": "the size of one element in `peak_memory`"}

Names = Mapping[str, Any] | None


class Facts:
    """One file under examination. Names are None where their section could not be read, and then nothing is said of them."""

    def __init__(self, held: structure.Held[schema.ExerciseFile], name: str) -> None:
        assert held.model is not None
        self.spec = held.model
        self.view = held.view
        self.name = name
        self.dims: Names = held.declared[("dims",)]
        self.inputs: Names = held.declared[("inputs",)]
        self.aux: Names = held.declared[("aux",)]
        self.edges: Names = held.declared[("cases", "edge")]
        self.examples: Names = held.declared[("cases", "examples")]
        # For each edge case, its inputs after merging; None is a literal None.
        self.merged: dict[str, dict[str, Any]] = {}
        # Whether every dim is a size, whatever is drawn; until then edge cases are not asked.
        self.sizes_sound = False
        self.report = held.view.report

    def lost(self, *section: str | int) -> bool:
        """Whether something at or below ``section`` could not be read."""
        return any(path[: len(section)] == section for path in self.view.lost)

    @property
    def sizes_known(self) -> bool:
        """Whether every dim and constraint could be read."""
        return self.dims is not None and not self.lost("dims") and not self.lost("constraints")

    @property
    def said(self) -> int:
        """How many findings there are so far."""
        return len(self.view.document.findings)

    def usable(self, path: Path_, name: str) -> None:
        said, wanted = "", "another name"
        if not name.isidentifier() or keyword.iskeyword(name):
            said, wanted = (
                f"`{name}` cannot be used as a name",
                "letters, digits and underscores, and no word of Python",
            )
        elif name in expressions.FUNCTIONS or name in expressions.DRAWING:
            said = f"`{name}` is a function of the expression language"
        elif name in expressions.CONSTANTS:
            said = f"`{name}` is a constant of the expression language"
        elif name in RESERVED:
            said = f"`{name}` is reserved: it is {RESERVED[name]}"
        if said:
            self.report(path, said, wanted, key=True)

    def expression(
        self, path: Path_, text: Any, known: Iterable[str] | None, what: str, among: Iterable[str] | None = None
    ) -> None:
        """Every name of an expression must be known; ``known`` None stands for names that could not be read.

        ``what`` and ``among`` (default: all that is known) say what was expected.
        """
        if not isinstance(text, str):
            return
        try:
            tree = expressions.parse(text)
        except ExpressionError:
            # Said when the file was held to the models.
            return
        self.tree(path, text, tree, known, what if among is None else listed(what, among))

    def tree(
        self, path: Path_, text: str, tree: ast.expr, known: Iterable[str] | None, what: str, drawing: bool = False
    ) -> None:
        names = None if known is None else list(known)
        wanted = what if "(" in what or names is None else listed(what, names)
        said: set[str] = set()
        for node in sorted(expressions.variables(tree), key=lambda node: (node.lineno, node.col_offset)):
            if names is not None and node.id not in names and node.id not in said:
                said.add(node.id)
                self.report(
                    path,
                    f"{quoted(text)}unknown name `{node.id}`{nearest(node.id, names)}",
                    wanted,
                    offset=expressions.offset_of(node, text),
                )
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        for call in calls:
            function = getattr(call.func, "id", "")
            if function in expressions.DRAWING and not drawing:
                offset = expressions.offset_of(call, text)
                self.report(
                    path, f"{quoted(text)}{function}() cannot draw here", "draws in `adjust` only", offset=offset
                )

    def scope(self, *extra: str) -> list[str] | None:
        """What an expression over drawn values may name."""
        if self.dims is None or self.inputs is None or self.aux is None:
            return None
        return [*extra, *self.dims, *self.inputs, *self.aux]

    def assignment(self, path: Path_, line: str, omitted: frozenset[str] = frozenset()) -> None:
        target, value = expressions.parse_assignment(line)
        scope = self.scope()
        for tree in (target, value):
            self.tree(path, line, tree, scope, "a dim, an input or an aux array", drawing=True)
        root = target
        while isinstance(root, ast.Subscript):
            root = root.value
        assert isinstance(root, ast.Name)
        if self.dims is not None and root.id in self.dims:
            self.report(
                path,
                f"`{root.id}` is a dim, and dims cannot be assigned to",
                "an input or an aux array",
                offset=expressions.offset_of(root, line),
            )
        elif isinstance(self.spec.inputs.get(root.id), schema.FunctionInput):
            self.report(
                path,
                f"`{root.id}` is a function and cannot be assigned to",
                "`inputs: {" + root.id + ": {returns: …}}` in the edge case",
            )
        for name in sorted((expressions.names(target) | expressions.names(value)) & omitted):
            self.report(path, f"`{name}` is left out in this case", "a line without it")


def quoted(text: str) -> str:
    """The expression, where it is more than the one name that is complained of."""
    return f"`{structure.short(text)}`: " if not text.strip().isidentifier() else ""


def listed(what: str, names: Iterable[str]) -> str:
    known = list(names)
    return f"{what} ({', '.join(known)})" if 0 < len(known) <= 12 else what


def count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
