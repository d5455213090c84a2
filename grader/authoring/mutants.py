"""Automatic mutants of a reference solution: the same file with one small, plausible fault.

`grader lint` grades every mutant. One that passes although some input tells it from the reference shows
what an exercise does not check. The families are those of array code: axes, masks, scales, residuals,
transposes, casts and off-by-one bounds, beside the classical operators and constants.

`FAMILIES` is the whole catalogue: a name and a function from one node to the changes it proposes. A family
looks at the node it is given and at facts gathered once about the file (`Reading`); it never edits the tree.

What is left alone, because a change there proves nothing about the values: docstrings, annotations,
decorators, imports, f-strings, `assert` and `raise` statements, the condition of an `if` that only raises,
and `if __name__ == "__main__"`. So are calls whose removal changes no value (`contiguous`, `asarray`, …),
swaps of commutative operands, swaps of statements that do not depend on each other, and changes that cannot
but crash (one bound of a slice that is unpacked, an array given for a parameter annotated `int`).

A mutant may loop for ever or ask for a lot of memory: run it where submissions run.
"""

from __future__ import annotations

import ast
import copy
import itertools
import math
import random
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, TypeVar

__all__ = ["FAMILIES", "Change", "Mutant", "mutate", "sample"]

Node = TypeVar("Node", bound=ast.AST)
Position = tuple[int, int]
"""Line from 1 and column from 0 in UTF-8 bytes, as `ast` counts."""

Number = int | float


@dataclass(frozen=True)
class Mutant:
    """One mutated file.

    `line` and `column` (both from 1, in characters) are the place in the original source, and `before` and
    `after` are one line each, cut to the part that differs. `source` is the complete mutated file as
    `ast.unparse` writes it, so its own lines are numbered otherwise and its comments are gone.
    """

    id: str
    operator: str
    line: int
    column: int
    before: str
    after: str
    source: str


@dataclass(frozen=True)
class Change:
    """What a family proposes: nodes of the original and what takes their place."""

    variant: str
    replaced: tuple[tuple[ast.AST, ast.AST], ...]
    at: Position


def mutate(source: str, *, function: str | None = None) -> tuple[Mutant, ...]:
    """Every distinct mutant of `source`, in source order.

    With `function`, only that top-level function and what it uses in the file are mutated: a generator of
    example inputs beside it is not. Mutants are distinct by normalised source, differ from the original, and
    compile. Raises `SyntaxError` when `source` does not parse and `ValueError` when it has no such function.
    """
    reading = read_source(source)
    statements = reading.tree.body
    mutable = set(range(len(statements))) if function is None else find_used(statements, function)

    texts = [write_statement(statement) for statement in statements]
    proposals: list[tuple[Position, int, int, str, Change]] = []
    for number, statement in enumerate(statements):
        if number not in mutable:
            continue
        for node in walk_mutable(statement):
            for rank, (operator, family) in enumerate(FAMILIES.items()):
                for change in family(node, reading):
                    proposals.append((change.at, rank, number, operator, change))
    proposals.sort(key=lambda proposal: proposal[:2])

    seen = {join_statements(texts)}
    ids: Counter[str] = Counter()
    mutants: list[Mutant] = []
    for at, _, number, operator, change in proposals:
        statement_text = render_changed(statements[number], change, reading)
        text = join_statements([*texts[:number], statement_text, *texts[number + 1 :]])
        if text in seen or not compiles(text):
            continue
        seen.add(text)
        line, column = at[0], len(reading.lines[at[0] - 1][: at[1]].decode()) + 1
        identity = f"{operator}@{line}:{column}:{change.variant}"
        ids[identity] += 1
        if ids[identity] > 1:
            identity = f"{identity}#{ids[identity]}"
        before, after = describe_change(change, reading)
        mutants.append(Mutant(identity, operator, line, column, before, after, text))
    return tuple(mutants)


def find_used(statements: Sequence[ast.stmt], function: str) -> set[int]:
    """The numbers of the top-level statements that `function` needs, its own among them."""
    if not any(is_function_named(statement, function) for statement in statements):
        raise ValueError(f"no top-level function {function!r} in the source")
    uses = [names_used(statement) for statement in statements]
    makers: dict[str, list[int]] = {}
    for number, statement in enumerate(statements):
        names = {statement.name} if isinstance(statement, DEFINITIONS) else uses[number][1]
        for name in names:
            makers.setdefault(name, []).append(number)
    used: set[int] = set()
    wanted = {function}
    while wanted:
        found = {number for name in wanted for number in makers.get(name, ())} - used
        used |= found
        wanted = {name for number in found for name in uses[number][0]}
    return used


def sample(mutants: Sequence[Mutant], limit: int, seed: int) -> tuple[Mutant, ...]:
    """At most `limit` of `mutants`, in their order, spread evenly over operators and then over lines.

    The same arguments give the same sample. Raises `ValueError` for a negative `limit`.
    """
    if limit < 0:
        raise ValueError(f"limit is {limit}; expected 0 or more")
    order = list(range(len(mutants)))
    random.Random(seed).shuffle(order)
    waiting: dict[str, list[int]] = {}
    for index in order:
        waiting.setdefault(mutants[index].operator, []).append(index)

    chosen: list[int] = []
    lines: Counter[int] = Counter()
    while waiting and len(chosen) < limit:
        for operator in list(waiting):
            if len(chosen) == limit:
                break
            index = min(waiting[operator], key=lambda i: lines[mutants[i].line])
            waiting[operator].remove(index)
            if not waiting[operator]:
                del waiting[operator]
            lines[mutants[index].line] += 1
            chosen.append(index)
    return tuple(mutants[index] for index in sorted(chosen))


# --- rendering a change -------------------------------------------------------------------------------


def render_changed(statement: ast.stmt, change: Change, reading: Reading) -> str:
    """The text of a top-level statement with `change` applied. The tree is as it was afterwards."""
    if change.replaced[0][0] is statement:
        return ast.unparse(change.replaced[0][1])
    # Patching in place and restoring costs nothing per mutant; copying the tree would dominate the run.
    slots = [reading.slots[id(old)] for old, _ in change.replaced]
    try:
        for slot, (_, new) in zip(slots, change.replaced, strict=True):
            slot.put(new)
        return write_statement(statement)
    finally:
        for slot, (old, _) in zip(slots, change.replaced, strict=True):
            slot.put(old)


def write_statement(statement: ast.stmt) -> str:
    # Within a module a string statement is written as the docstring it is.
    return ast.unparse(ast.Module([statement], []))


def join_statements(texts: Iterable[str]) -> str:
    return "\n\n".join(text.strip("\n") for text in texts) + "\n"


def compiles(text: str) -> bool:
    # `0[1]` and the like are legal and warn; under `-W error` the warning would become a SyntaxError.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "<mutant>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
    return True


def describe_change(change: Change, reading: Reading) -> tuple[str, str]:
    """Before and after, one line each, cut to the neighbourhood of the first difference."""
    limit, lead = 72, 24
    before = "; ".join(reading.show(old) for old, _ in change.replaced)
    after = "; ".join(" ".join(ast.unparse(new).split()) for _, new in change.replaced)
    if max(len(before), len(after)) <= limit:
        return before, after
    pairs = zip(before, after, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    start = max(0, same - lead)

    def cut(text: str) -> str:
        part = text[start : start + limit]
        return ("…" if start else "") + part + ("…" if start + limit < len(text) else "")

    return cut(before), cut(after)


# --- what is known about a file -----------------------------------------------------------------------


class Slot(NamedTuple):
    """Where a node hangs in the tree."""

    parent: ast.AST
    field: str
    place: int | None

    def put(self, node: ast.AST) -> None:
        if self.place is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.place] = node


class Callee(NamedTuple):
    """What a call calls: a function of a module, a method (`receiver` is set), or a plain name."""

    name: str
    module: str | None
    receiver: ast.expr | None


class Binding(NamedTuple):
    """The first time a scope gives a name a value. `kin` says with what other names it was made alike."""

    position: Position
    order: int
    kin: frozenset[str]


@dataclass(frozen=True)
class Reading:
    """Facts about one file, gathered once and read by the families."""

    tree: ast.Module
    lines: tuple[bytes, ...]
    slots: Mapping[int, Slot]
    modules: Mapping[str, str]
    imported: Mapping[str, tuple[str, str]]
    functions: Mapping[str, ast.FunctionDef]
    called: frozenset[str]
    roles: Mapping[int, str]
    scopes: Mapping[int, Mapping[str, Binding]]

    def parent(self, node: ast.AST) -> ast.AST | None:
        slot = self.slots.get(id(node))
        return slot.parent if slot else None

    def role(self, node: ast.AST) -> str | None:
        """What a literal stands for: axis, index, bound, range, shape, keyword, infinity, or part of one."""
        return self.roles.get(id(node))

    def scope(self, node: ast.AST) -> Mapping[str, Binding]:
        """The names of the innermost function (or of the module) that holds `node`."""
        at: ast.AST | None = self.parent(node)
        while at is not None and id(at) not in self.scopes:
            at = self.parent(at)
        return self.scopes[id(at if at is not None else self.tree)]

    def exists(self, name: str, node: ast.AST) -> bool:
        """Whether `name` was bound, in the scope of `node`, above it."""
        binding = self.scope(node).get(name)
        return binding is not None and binding.position < start(node)

    def show(self, node: ast.AST) -> str:
        """The source of `node` on one line."""
        if isinstance(node, ast.expr | ast.stmt | ast.keyword) and node.lineno == node.end_lineno:
            return self.lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()
        return " ".join(ast.unparse(node).split())

    def alias(self, module: str) -> ast.expr | None:
        """The name under which the file imports `module`."""
        for name, dotted in self.modules.items():
            if dotted == module:
                return ast.Name(name, ast.Load())
        return None

    def module_of(self, node: ast.AST) -> str | None:
        """The dotted module that an expression such as `torch.nn.functional` or `F` names."""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self.module_of(node.value)
            dotted = f"{base}.{node.attr}" if base else None
            return dotted if dotted in SUBMODULES else None
        return None

    def callee(self, node: ast.AST) -> Callee | None:
        """What `node` calls; None when it is no call, or calls what another call or an index gives."""
        if not isinstance(node, ast.Call):
            return None
        function = node.func
        if isinstance(function, ast.Attribute):
            module = self.module_of(function.value)
            return Callee(function.attr, module, None if module else function.value)
        if isinstance(function, ast.Name):
            module, name = self.imported.get(function.id, (None, function.id))
            return Callee(name, module, None)
        return None

    def array_call(self, node: ast.AST) -> tuple[str, ast.expr, list[ast.expr]] | None:
        """Name, array and further positional arguments of `x.name(…)` or `module.name(x, …)`."""
        callee = self.callee(node)
        if callee is None or not isinstance(node, ast.Call):
            return None
        if callee.receiver is not None:
            return callee.name, callee.receiver, node.args
        if callee.module and node.args and not isinstance(node.args[0], ast.Starred):
            return callee.name, node.args[0], node.args[1:]
        return None


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SUBMODULES = words("torch.nn torch.nn.functional torch.special torch.linalg numpy.linalg numpy.random")

AXIS_KEYWORDS = words("axis dim axes dims dim0 dim1 axis0 axis1 axis2 start_dim end_dim source destination")
REDUCTIONS = words("mean sum prod max min amax amin var std argmax argmin any all")
AXIS_POSITIONS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    dict.fromkeys(
        REDUCTIONS
        | words(
            "softmax log_softmax logsumexp argsort sort cumsum cumprod squeeze unsqueeze expand_dims "
            "concatenate cat stack flip size gather index_select select narrow unbind flatten unflatten "
            "count_nonzero median"
        ),
        (1,),
    )
    | dict.fromkeys(words("split chunk roll repeat_interleave take take_along_axis diff topk"), (2,))
    | dict.fromkeys(words("transpose swapaxes swapdims moveaxis movedim"), (1, 2))
)
"""Where a positional axis stands, counting the array as argument 0."""

RESHAPES = words("view reshape expand broadcast_to tile repeat resize")
TRANSPOSED = words("T mT H mH")
TRANSPOSES = words("transpose swapaxes swapdims permute moveaxis movedim permute_dims")


def read_source(source: str) -> Reading:
    tree = ast.parse(source)
    slots = {
        id(child): Slot(parent, field, index)
        for parent in ast.walk(tree)
        for field, index, child in iter_children(parent)
    }
    modules, imported = read_imports(tree)
    functions = {s.name: s for s in tree.body if isinstance(s, ast.FunctionDef)}
    lines = tuple(line.encode() for line in re.split(r"\r\n|\r|\n", source))
    called = frozenset(
        node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    )
    bare = Reading(tree, lines, slots, modules, imported, functions, called, {}, {})
    scopes = {
        id(node): read_scope(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef)
    }
    return replace(bare, roles=read_roles(bare), scopes=scopes)


def read_imports(tree: ast.Module) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """Names bound to modules, and names bound to things imported from modules."""
    modules: dict[str, str] = {}
    imported: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                modules[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                dotted = f"{node.module}.{alias.name}"
                if dotted in SUBMODULES:
                    modules[alias.asname or alias.name] = dotted
                else:
                    imported[alias.asname or alias.name] = (node.module, alias.name)
    return modules, imported


def read_roles(reading: Reading) -> dict[int, str]:
    """What each literal stands for, so that a number is changed by the one family that understands it."""
    roles: dict[int, str] = {}

    def mark(node: ast.AST | None, role: str) -> None:
        if isinstance(node, ast.Tuple | ast.List):
            for element in node.elts:
                mark(element, role)
        elif node is not None and is_literal(node):
            roles.setdefault(id(node), role)

    for node in ast.walk(reading.tree):
        if infinity_sign(node) is not None:
            roles.setdefault(id(node), "infinity")
            for inner in itertools.islice(ast.walk(node), 1, None):
                roles[id(inner)] = "part"
        elif isinstance(node, ast.UnaryOp) and signed_number(node) is not None:
            roles[id(node.operand)] = "part"
        elif isinstance(node, ast.Subscript):
            is_shape = isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
            for item in index_items(node):
                for bound in (item.lower, item.upper, item.step) if isinstance(item, ast.Slice) else ():
                    mark(bound, "bound")
                mark(item, "axis" if is_shape else "index")
        elif isinstance(node, ast.FunctionDef):
            positional = reversed([*node.args.posonlyargs, *node.args.args])
            for parameter, default in (
                *zip(positional, reversed(node.args.defaults), strict=False),
                *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
            ):
                if parameter.arg in AXIS_KEYWORDS:
                    mark(default, "axis")
        elif isinstance(node, ast.Call):
            mark_call(node, reading, mark)
    return roles


def mark_call(node: ast.Call, reading: Reading, mark: Callable[[ast.AST | None, str], None]) -> None:
    for keyword in node.keywords:
        if keyword.arg in AXIS_KEYWORDS:
            mark(keyword.value, "axis")
        elif is_diagonal(node, keyword, reading) or keyword.arg in CORRECTIONS or is_bool(keyword.value):
            mark(keyword.value, "keyword")
    callee = reading.callee(node)
    if callee is not None and callee.receiver is None and callee.module is None:
        if callee.name == "range":
            for argument in node.args:
                mark(argument, "range")
        parameters = parameters_of(callee.name, reading)
        for parameter, argument in zip(parameters, node.args, strict=False):
            if parameter.arg in AXIS_KEYWORDS:
                mark(argument, "axis")
    called = reading.array_call(node)
    if called is None:
        return
    name, _, rest = called
    if name in RESHAPES:
        for argument in rest:
            mark(argument, "shape")
    elif name in {"triu", "tril"} and rest:
        mark(rest[0], "keyword")
    elif name in TRANSPOSES and len(rest) > 2:
        for argument in rest:
            mark(argument, "axis")
    else:
        for position in AXIS_POSITIONS.get(name, ()):
            mark(rest[position - 1] if position <= len(rest) else None, "axis")


Bind = Callable[[str, Position, Iterable[str]], None]
SIZE = "a size"


def read_scope(owner: ast.AST) -> dict[str, Binding]:
    """The names a function (or the module) binds, in order, each with the marks of how it was made."""
    found: dict[str, Binding] = {}

    def bind(name: str, position: Position, kin: Iterable[str]) -> None:
        old = found.get(name)
        if old is None:
            found[name] = Binding(position, len(found), frozenset(kin))
        else:
            found[name] = old._replace(kin=old.kin | frozenset(kin))

    if isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        arguments = owner.args
        for parameter in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            bind(parameter.arg, start(owner), ())
    for node in walk_scope(owner):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                bind_target(target, node.value, bind)
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
            bind_target(node.target, node.value, bind)
        elif isinstance(node, ast.For):
            bind_target(node.target, node.iter, bind)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            bind_target(node.optional_vars, node.context_expr, bind)
    return found


def bind_target(target: ast.expr, value: ast.expr, bind: Bind) -> None:
    # A name exists after the statement that makes it, so its position is the end of the value.
    if isinstance(target, ast.Name):
        bind(target.id, end(value), making(value))
    elif isinstance(target, ast.Tuple | ast.List):
        group = f"unpacked at {start(target)}"
        values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        for index, element in enumerate(target.elts):
            name = element.value if isinstance(element, ast.Starred) else element
            single = values[index] if len(values) == len(target.elts) else None
            if isinstance(name, ast.Name):
                made = making(single) if single else [SIZE] if is_size(value) else []
                bind(name.id, end(value), [group, *made])
            elif isinstance(name, ast.Tuple | ast.List):
                bind_target(name, single or value, bind)


def making(value: ast.expr) -> list[str]:
    """Marks of how a value is made: names whose values share one are of a kind."""
    if isinstance(value, ast.Name | ast.Constant):
        return []
    return [erase_names(value), *([SIZE] if is_size(value) else [])]


def is_size(value: ast.expr) -> bool:
    """Whether a value is `x.shape`, `x.shape[0]`, `x.size(0)` or `len(x)`."""
    if isinstance(value, ast.Subscript):
        return is_size(value.value)
    if isinstance(value, ast.Call):
        function = value.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
        return name in {"size", "len"}
    return isinstance(value, ast.Attribute) and value.attr == "shape"


def erase_names(node: ast.AST) -> str:
    """The form of an expression: what it calls, whatever other names it uses."""
    return re.sub(r"(?<!func=Name\()id='\w+'", "id=_", ast.dump(node))


# --- walking ------------------------------------------------------------------------------------------

UNTOUCHED = (
    ast.Import,
    ast.ImportFrom,
    ast.Raise,
    ast.Assert,
    ast.Global,
    ast.Nonlocal,
    ast.JoinedStr,
    ast.pattern,
)
UNTOUCHED_FIELDS = words("annotation returns decorator_list bases type_params")


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def iter_children(node: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield field, None, value
        elif isinstance(value, list):
            for index, child in enumerate(value):
                if isinstance(child, ast.AST):
                    yield field, index, child


def walk_mutable(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and what is below it, without the parts that are never mutated."""
    if isinstance(node, UNTOUCHED) or is_string_statement(node) or is_main_guard(node):
        return
    guard = isinstance(node, ast.If) and all(isinstance(s, ast.Raise) for s in node.body)
    if not guard:
        yield node
    for field, _, child in iter_children(node):
        if field not in UNTOUCHED_FIELDS and not (guard and field == "test"):
            yield from walk_mutable(child)


def walk_scope(owner: ast.AST) -> Iterator[ast.AST]:
    """What is below `owner` in source order, without the insides of nested functions and classes."""
    for _, _, child in iter_children(owner):
        yield child
        if not isinstance(child, (*DEFINITIONS, ast.Lambda)):
            yield from walk_scope(child)


def start(node: ast.AST) -> Position:
    assert isinstance(node, ast.expr | ast.stmt | ast.keyword)
    return node.lineno, node.col_offset


def end(node: ast.AST) -> Position:
    assert isinstance(node, ast.expr | ast.stmt | ast.keyword)
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def between(left: ast.AST, right: ast.AST, symbol: str, reading: Reading) -> Position:
    """Where the operator `symbol` stands between two neighbours: nested operations share their start."""
    (line, column), (last, _) = end(left), start(right)
    while line <= last:
        text = reading.lines[line - 1]
        code = text[: text.find(b"#", column)] if b"#" in text[column:] else text
        found = code.find(symbol.encode(), column)
        if found >= 0:
            return line, found
        line, column = line + 1, 0
    return start(right)


def call_position(node: ast.Call) -> Position:
    """A method's own name, since the calls of a chain share their start; else the start of the call."""
    if isinstance(node.func, ast.Attribute):
        line, column = end(node.func)
        return line, column - len(node.func.attr.encode())
    return start(node)


# --- recognising --------------------------------------------------------------------------------------


def is_function_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name


def is_string_statement(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_main_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and any(
        isinstance(inner, ast.Name) and inner.id == "__name__" for inner in ast.walk(node.test)
    )


def is_bool(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def is_full_slice(node: ast.AST) -> bool:
    return isinstance(node, ast.Slice) and node.lower is None and node.upper is None and node.step is None


def is_new_axis(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "newaxis"
    return isinstance(node, ast.Constant) and node.value is None


def is_literal(node: ast.AST) -> bool:
    """A constant, a signed number or an infinity."""
    signed = signed_number(node) is not None or infinity_sign(node) is not None
    return signed or isinstance(node, ast.Constant)


def signed_number(node: ast.AST | None) -> Number | None:
    """The value of `3`, `-1` or `1e-5`. Python parses the sign as an operator of its own."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = signed_number(node.operand) if isinstance(node.operand, ast.Constant) else None
        return None if value is None else -value
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        number: Number = node.value  # type: ignore[assignment]
        return number if math.isfinite(number) else None
    return None


def infinity_sign(node: ast.AST) -> int | None:
    """1 or -1 for `float("inf")`, `np.inf`, `-math.inf`, …; finfo's largest and lowest count too."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign = infinity_sign(node.operand)
        return None if sign is None else -sign
    if isinstance(node, ast.Attribute):
        if node.attr in {"inf", "Inf", "infty"}:
            return 1
        owner = node.value.func if isinstance(node.value, ast.Call) else None
        if isinstance(owner, ast.Attribute) and owner.attr == "finfo" and node.attr in {"min", "max"}:
            return 1 if node.attr == "max" else -1
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return None
    if node.func.id == "float" and node.args:
        text = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
        if isinstance(text, str) and text.strip().lower().lstrip("+-") in {"inf", "infinity"}:
            return -1 if text.strip().startswith("-") else 1
    return None


def parameters_of(name: str, reading: Reading) -> list[ast.arg]:
    """The positional parameters of a function of the file, or nothing."""
    function = reading.functions.get(name)
    return [*function.args.posonlyargs, *function.args.args] if function else []


def index_items(node: ast.Subscript) -> list[ast.expr]:
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


# --- building -----------------------------------------------------------------------------------------


def altered(node: Node, **fields: object) -> Node:
    """A shallow copy of `node` with some fields changed."""
    new = copy.copy(node)
    for field, value in fields.items():
        setattr(new, field, value)
    return new


def change(variant: str, old: ast.AST, new: ast.AST, at: Position | None = None) -> Change:
    return Change(variant, ((old, new),), start(old) if at is None else at)


def number_literal(value: Number) -> ast.expr:
    # A negative Constant unparses without parentheses: `(-1) ** 2` would turn into `-1 ** 2`.
    if value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def offset(node: ast.expr, step: int) -> ast.expr:
    """`node + step`, simplified for numbers and for what has a number added already."""
    value = signed_number(node)
    if value is not None:
        return number_literal(value + step)
    base = node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        added = signed_number(node.right)
        if isinstance(added, int):
            base, step = node.left, step + (added if isinstance(node.op, ast.Add) else -added)
    if step == 0:
        return base
    return ast.BinOp(base, ast.Add() if step > 0 else ast.Sub(), ast.Constant(abs(step)))


def swapped(items: Sequence[ast.expr], i: int, j: int) -> list[ast.expr]:
    new = list(items)
    new[i], new[j] = new[j], new[i]
    return new


def near_pairs(count: int) -> Iterator[tuple[int, int]]:
    """All pairs of up to four things; of more, those at most two apart, which keeps long lists bounded."""
    for i, j in itertools.combinations(range(count), 2):
        if count <= 4 or j - i <= 2:
            yield i, j


def with_item(node: ast.Subscript, position: int, item: ast.expr) -> ast.Subscript:
    items = index_items(node)
    items[position] = item
    if isinstance(node.slice, ast.Tuple):
        return altered(node, slice=altered(node.slice, elts=items))
    return altered(node, slice=item)


def renamed_call(node: ast.Call, name: str) -> ast.Call:
    function = node.func
    if isinstance(function, ast.Attribute):
        return altered(node, func=altered(function, attr=name))
    return altered(node, func=ast.Name(name, ast.Load()))


# --- the families: operators and constants ------------------------------------------------------------

SYMBOLS: Mapping[type[ast.AST], str] = MappingProxyType(
    {
        ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
        ast.Pow: "**", ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
        ast.LShift: "<<", ast.RShift: ">>", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
        ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is", ast.IsNot: "is", ast.In: "in", ast.NotIn: "not",
        ast.And: "and", ast.Or: "or",
    }
)  # fmt: skip

ARITHMETIC: Mapping[type[ast.AST], tuple[type[ast.operator], ...]] = MappingProxyType(
    {
        ast.Add: (ast.Sub, ast.Mult), ast.Sub: (ast.Add,), ast.Mult: (ast.Div, ast.Add),
        ast.Div: (ast.Mult, ast.FloorDiv), ast.FloorDiv: (ast.Div, ast.Mod), ast.Mod: (ast.FloorDiv,),
        ast.Pow: (ast.Mult,), ast.MatMult: (ast.Mult,), ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,),
        ast.BitXor: (ast.BitAnd,), ast.LShift: (ast.RShift,), ast.RShift: (ast.LShift,),
    }
)  # fmt: skip
NON_COMMUTATIVE = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult, ast.LShift, ast.RShift)

COMPARISONS: Mapping[type[ast.AST], tuple[type[ast.cmpop], ...]] = MappingProxyType(
    {
        ast.Lt: (ast.LtE, ast.Gt, ast.GtE), ast.LtE: (ast.Lt, ast.GtE, ast.Gt),
        ast.Gt: (ast.GtE, ast.Lt, ast.LtE), ast.GtE: (ast.Gt, ast.LtE, ast.Lt),
        ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
        ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
    }
)  # fmt: skip


def is_text_operation(node: ast.BinOp | ast.AugAssign) -> bool:
    operands = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
    return any(
        isinstance(o, ast.JoinedStr | ast.List | ast.ListComp)
        or (isinstance(o, ast.Constant) and isinstance(o.value, str | bytes))
        for o in operands
    )


def operator_position(node: ast.BinOp | ast.AugAssign, reading: Reading) -> Position:
    left, right = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
    return between(left, right, SYMBOLS[type(node.op)], reading)


def mutate_arithmetic(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """Another operator: `a + b` becomes `a - b`; `x += y` becomes `x -= y`."""
    if isinstance(node, ast.BinOp | ast.AugAssign) and not is_text_operation(node):
        for operator in ARITHMETIC.get(type(node.op), ()):
            variant = operator.__name__.lower()
            yield change(variant, node, altered(node, op=operator()), operator_position(node, reading))


def mutate_operands(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """The operands of a non-commutative operation change places; `q @ k.T` also becomes `k @ q.T`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, NON_COMMUTATIVE) or is_text_operation(node):
        return
    at = operator_position(node, reading)
    yield change("swapped", node, altered(node, left=node.right, right=node.left), at)
    if isinstance(node.op, ast.MatMult):
        inner = transposed_array(node.right, reading)
        if inner is not None:
            right = with_transposed(node.right, node.left, reading)
            yield change("crossed", node, altered(node, left=inner, right=right), at)


def transposed_array(node: ast.expr, reading: Reading) -> ast.expr | None:
    """What `x.T`, `x.transpose(…)` or `swapaxes(x, …)` transposes."""
    if isinstance(node, ast.Attribute) and node.attr in TRANSPOSED and reading.module_of(node.value) is None:
        return node.value
    called = reading.array_call(node)
    return called[1] if called is not None and called[0] in TRANSPOSES else None


def with_transposed(node: ast.expr, array: ast.expr, reading: Reading) -> ast.expr:
    """The same transpose of another array."""
    if isinstance(node, ast.Attribute):
        return altered(node, value=array)
    assert isinstance(node, ast.Call)
    callee = reading.callee(node)
    if callee is not None and callee.receiver is not None:
        return altered(node, func=altered(node.func, value=array))
    return altered(node, args=[array, *node.args[1:]])


SUMS = (ast.Add, ast.Sub, ast.BitAnd, ast.BitOr)


def mutate_term(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """One side of a sum or of a mask is lost: a residual, a bias, the maximum before an exponential."""
    if not isinstance(node, ast.BinOp | ast.AugAssign) or not isinstance(node.op, SUMS):
        return
    if is_text_operation(node):
        return
    if isinstance(node, ast.BinOp):
        yield from keep_sides(node, ("left", "right"), reading)
    else:
        new = ast.Assign([node.target], node.value, lineno=node.lineno)
        yield change("overwrite", node, new, operator_position(node, reading))


def mutate_factor(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """A scale, a projection, a gate or a power is lost: `a / b`, `a @ w` and `a ** 2` become `a`."""
    if isinstance(node, ast.BinOp) and not is_text_operation(node):
        if isinstance(node.op, ast.Mult):
            yield from keep_sides(node, ("left", "right"), reading)
        elif isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod | ast.Pow | ast.MatMult):
            yield from keep_sides(node, ("left",), reading)


def keep_sides(node: ast.BinOp, sides: Iterable[str], reading: Reading) -> Iterator[Change]:
    for side in sides:
        kept = node.left if side == "left" else node.right
        # What is left of `i + 1` must not be a bare number: the constant family says that better.
        if not is_literal(kept):
            yield change(side, node, kept, operator_position(node, reading))


def mutate_negation(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """`-x`, `~mask` and `not flag` lose their sign."""
    if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd) and not is_literal(node):
        yield change("dropped", node, node.operand)


def mutate_comparison(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """The boundary moves, the sides change, or the answer is turned round."""
    if not isinstance(node, ast.Compare):
        return
    sides = [node.left, *node.comparators]
    for index, operator in enumerate(node.ops):
        at = between(sides[index], sides[index + 1], SYMBOLS[type(operator)], reading)
        for other in COMPARISONS[type(operator)]:
            ops = [*node.ops[:index], other(), *node.ops[index + 1 :]]
            yield change(other.__name__.lower(), node, altered(node, ops=ops), at)


def mutate_boolean(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """`and` for `or`, one condition lost, True for False, a mask turned inside out."""
    if isinstance(node, ast.BoolOp):
        at = between(node.values[0], node.values[1], SYMBOLS[type(node.op)], reading)
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield change(type(other).__name__.lower(), node, altered(node, op=other), at)
        for index in range(len(node.values)):
            values = [*node.values[:index], *node.values[index + 1 :]]
            new = altered(node, values=values) if values[1:] else values[0]
            yield change(f"without-{index}", node, new, at)
    elif is_bool(node) and isinstance(node, ast.Constant) and reading.role(node) != "keyword":
        yield change("flipped", node, ast.Constant(not node.value))
    elif isinstance(node, ast.Call):
        yield from mutate_mask(node, reading)


def mutate_mask(node: ast.Call, reading: Reading) -> Iterator[Change]:
    """The mask of a `masked_fill` inverted; one side of a `logical_and` or `logical_or` lost."""
    called = reading.array_call(node)
    if called is None or not called[2]:
        return
    name, array, (second, *_) = called
    at = call_position(node)
    if name in {"logical_and", "logical_or"}:
        yield change("without-0", node, second, at)
        yield change("without-1", node, array, at)
    elif name in {"masked_fill", "masked_fill_"} and not is_inverted(second):
        inverted = ast.UnaryOp(ast.Invert(), second)
        new = altered(node, args=[inverted if argument is second else argument for argument in node.args])
        yield change("inverted", node, new, at)


def is_inverted(node: ast.AST) -> bool:
    """Whether a mask is `~mask` already; it loses its sign in the family of negations."""
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert)


def mutate_constant(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """Numbers one off, ten times as large, zero, of the other sign, of another exponent, 1 % off, rounded."""
    value = signed_number(node)
    if value is None or reading.role(node) is not None:
        return
    for variant, new in number_variants(value):
        yield change(variant, node, number_literal(new))


def number_variants(value: Number) -> Iterator[tuple[str, Number]]:
    kind = type(value)
    if 0 < abs(value) < 1e-3:
        yield from (("exp-1", tidy(value / 10)), ("exp+1", tidy(value * 10)), ("exp-7", tidy(value / 1e7)))
    else:
        yield from (("+1", tidy(value + 1)), ("-1", tidy(value - 1)), ("x10", tidy(value * 10)))
    if value:
        yield from (("0", kind(0)), ("sign", -value))
    if isinstance(value, float) and value:
        yield from (("+1%", tidy(value * 1.01)), ("-1%", tidy(value * 0.99)))
        yield "rounded", float(f"{value:.3g}")


def tidy(value: Number) -> Number:
    """1e-5 / 10 is 1.0000000000000002e-06; what a reader should see is 1e-06."""
    return float(f"{value:.12g}") if isinstance(value, float) else value


def mutate_infinity(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """A finite penalty for an infinite one, none at all, or the wrong sign."""
    sign = infinity_sign(node)
    if sign is None or reading.role(node) != "infinity":
        return
    yield change("finite", node, number_literal(sign * 1e9))
    yield change("0", node, ast.Constant(0.0))
    if isinstance(node, ast.UnaryOp):
        yield change("sign", node, node.operand)
    elif isinstance(node, ast.Call):
        yield change("sign", node, altered(node, args=[ast.Constant("inf" if sign < 0 else "-inf")]))
    elif isinstance(node, ast.expr):
        yield change("sign", node, ast.UnaryOp(ast.USub(), node))


# --- the families: axes and keyword arguments ---------------------------------------------------------

AXES = (-1, -2, 0, 1)


def mutate_axis(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """Another axis: -1, -2, 0 and 1 for each other, also in `.shape[axis]`; one of them for `axis=axis`."""
    if isinstance(node, ast.keyword) and node.arg in {"axis", "dim"} and isinstance(node.value, ast.Name):
        for axis in (-1, 0):
            yield change(str(axis), node.value, number_literal(axis))
    value = signed_number(node)
    others = axis_partners(node, reading)
    if value is None or reading.role(node) != "axis" or len(others) > 1:
        return
    for axis in AXES:
        # transpose(1, 1) is the transpose removed, which has its own family.
        if axis != value and axis not in others:
            yield change(str(axis), node, number_literal(axis))


def axis_partners(node: ast.AST, reading: Reading) -> list[Number]:
    """The axes that stand beside `node` in a tuple or a transposing call."""
    parent = reading.parent(node)
    group: Sequence[ast.AST] = ()
    if isinstance(parent, ast.Tuple | ast.List):
        group = parent.elts
    elif isinstance(parent, ast.Call):
        called = reading.array_call(parent)
        if called and called[0] in TRANSPOSES:
            group = called[2]
    elif isinstance(parent, ast.keyword) and isinstance(call := reading.parent(parent), ast.Call):
        called = reading.array_call(call)
        if called and called[0] in TRANSPOSES:
            group = [keyword.value for keyword in call.keywords]
    values = [signed_number(other) for other in group if other is not node]
    return [other for other in values if other is not None]


DIAGONALS = words("diagonal k offset")
DIAGONAL_CALLS = words("triu tril tri eye diag diagonal triu_indices tril_indices diag_embed")
CORRECTIONS = words("correction ddof")
WORDS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "approximate": {"tanh": ("none",), "none": ("tanh",)},
        "indexing": {"ij": ("xy",), "xy": ("ij",)},
        "reduction": {"mean": ("sum",), "sum": ("mean",), "none": ("mean",)},
        "side": {"left": ("right",), "right": ("left",)},
    }
)
SWITCHES = words("keepdim keepdims unbiased")
"""Keyword arguments with two values, one of them the default: to drop one is nothing, or is to flip it."""


def mutate_keyword(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """keepdim, unbiased, correction, diagonal, approximate and the like: changed, dropped, or added."""
    if not isinstance(node, ast.Call):
        return
    for index, keyword in enumerate(node.keywords):
        if keyword.arg is None:
            continue
        at = start(keyword)
        others = [*node.keywords[:index], *node.keywords[index + 1 :]]
        for variant, value in keyword_values(node, keyword, reading):
            keywords = [*node.keywords[:index], altered(keyword, value=value), *node.keywords[index + 1 :]]
            yield change(f"{keyword.arg}={variant}", node, altered(node, keywords=keywords), at)
        if keyword.arg in {"axis", "dim"}:
            others = keywords_of_whole(others, reading)
        if is_droppable(node, keyword, reading):
            yield change(f"without-{keyword.arg}", node, altered(node, keywords=others), at)
    yield from mutate_defaults(node, reading)


def keywords_of_whole(keywords: list[ast.keyword], reading: Reading) -> list[ast.keyword]:
    """What may stay when the axis of a reduction goes: torch refuses `keepdim` without `dim`."""
    return [k for k in keywords if k.arg != "keepdim" or reading.alias("torch") is None]


def keyword_values(node: ast.Call, keyword: ast.keyword, reading: Reading) -> Iterator[tuple[str, ast.expr]]:
    name, value = keyword.arg or "", keyword.value
    if isinstance(value, ast.Constant) and isinstance(value.value, bool):
        yield str(not value.value), ast.Constant(not value.value)
    elif is_diagonal(node, keyword, reading):
        yield "+1", offset(value, 1)
        yield "-1", offset(value, -1)
    elif name in CORRECTIONS:
        for correction in (0, 1):
            if signed_number(value) != correction:
                yield str(correction), ast.Constant(correction)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str) and name in WORDS:
        for word in WORDS[name].get(value.value, ()):
            yield word, ast.Constant(word)


def is_diagonal(node: ast.Call, keyword: ast.keyword, reading: Reading) -> bool:
    """Whether a keyword argument numbers a diagonal; `k` alone may be anything, keys for one."""
    callee = reading.callee(node)
    return keyword.arg in DIAGONALS and callee is not None and callee.name in DIAGONAL_CALLS


def is_droppable(node: ast.Call, keyword: ast.keyword, reading: Reading) -> bool:
    if keyword.arg in SWITCHES and is_bool(keyword.value):
        return False
    if isinstance(node.func, ast.Name) and node.func.id in reading.functions:
        arguments = reading.functions[node.func.id].args
        positional = [a.arg for a in [*arguments.posonlyargs, *arguments.args]]
        required = positional[: len(positional) - len(arguments.defaults)]
        only = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return keyword.arg not in {*required, *(a.arg for a, default in only if default is None)}
    return True


def mutate_defaults(node: ast.Call, reading: Reading) -> Iterator[Change]:
    """What a call leaves at its default, given another value; an axis or a diagonal given by position."""
    called = reading.array_call(node)
    if called is None:
        return
    name, _, rest = called
    named = {keyword.arg for keyword in node.keywords}
    at = call_position(node)
    kept = node.args[: len(node.args) - len(rest)]
    if name in REDUCTIONS and rest and reading.role(rest[0]) == "axis":
        keywords = keywords_of_whole(node.keywords, reading)
        yield change("without-axis", node, altered(node, args=kept, keywords=keywords), at)
    if name in {"triu", "tril"} and not named & DIAGONALS:
        old: ast.expr = rest[0] if rest else ast.Constant(0)
        for variant, step in (("+1", 1), ("-1", -1)):
            yield change(f"diagonal={variant}", node, altered(node, args=[*kept, offset(old, step)]), at)
    elif name in {"var", "std", "var_mean", "std_mean"} and not named & {"unbiased", *CORRECTIONS}:
        if not any(is_bool(argument) for argument in rest):
            # The two libraries disagree: NumPy divides by n unless told otherwise, PyTorch by n - 1.
            torch = reading.alias("torch") is not None
            extra = ast.keyword("correction" if torch else "ddof", ast.Constant(0 if torch else 1))
            yield change(f"with-{extra.arg}", node, altered(node, keywords=[*node.keywords, extra]), at)
    elif name == "gelu" and "approximate" not in named:
        extra = ast.keyword("approximate", ast.Constant("tanh"))
        yield change("with-approximate", node, altered(node, keywords=[*node.keywords, extra]), at)


# --- the families: calls ------------------------------------------------------------------------------

TWINS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "mean": ("sum",), "sum": ("mean",), "max": ("min",), "min": ("max",), "amax": ("amin",),
        "amin": ("amax",), "maximum": ("minimum",), "minimum": ("maximum",), "argmax": ("argmin",),
        "argmin": ("argmax",), "var": ("std",), "std": ("var",), "triu": ("tril",), "tril": ("triu",),
        "sin": ("cos",), "cos": ("sin",), "zeros": ("ones",), "ones": ("zeros",),
        "zeros_like": ("ones_like",), "ones_like": ("zeros_like",), "new_zeros": ("new_ones",),
        "new_ones": ("new_zeros",), "floor": ("ceil",), "ceil": ("floor",), "exp": ("exp2",),
        "log": ("log2",), "any": ("all",), "all": ("any",), "logical_and": ("logical_or",),
        "logical_or": ("logical_and",), "cumsum": ("cumprod",), "sqrt": ("square",),
        "softmax": ("log_softmax",), "log_softmax": ("softmax",), "triu_indices": ("tril_indices",),
        "tril_indices": ("triu_indices",), "rsqrt": ("sqrt",), "square": ("sqrt",),
        "greater": ("greater_equal",), "less": ("less_equal",), "clamp_min": ("clamp_max",),
    }
)  # fmt: skip
ACTIVATIONS = ("relu", "gelu", "silu")
OF_MATH = words("sin cos exp log floor ceil")
BUILTIN_TWINS = words("max min any all")


def mutate_call(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """The neighbour of a function: sum for mean, min for max, tril for triu, silu for gelu."""
    callee = reading.callee(node)
    if callee is None or not isinstance(node, ast.Call):
        return
    for name in call_twins(node, callee, reading):
        yield change(name, node, renamed_call(node, name), call_position(node))
    yield from tile_for_repeat(node, reading)


def call_twins(node: ast.Call, callee: Callee, reading: Reading) -> Iterator[str]:
    name, module, receiver = callee
    if receiver is None and module is None:
        if name in reading.functions:
            yield from (other for other in reading.functions if is_relative(name, other, reading))
        elif name in BUILTIN_TWINS:
            yield from TWINS[name]
    elif isinstance(node.func, ast.Name):
        return  # imported by name: its twin is not
    elif name in ACTIVATIONS and module == "torch.nn.functional":
        yield from (other for other in ACTIVATIONS if other != name)
    elif name in {"sigmoid", "tanh"} and (module or "torch").startswith("torch"):
        yield "tanh" if name == "sigmoid" else "sigmoid"
    elif module != "math" or name in OF_MATH:
        yield from TWINS.get(name, ())


def is_relative(name: str, other: str, reading: Reading) -> bool:
    """Whether two functions of the file take the same parameters, or as many and share a word in the name."""
    own, others = ([p.arg for p in parameters_of(f, reading)] for f in (name, other))
    alike = own == others or (len(own) == len(others) and words_of(name) & words_of(other))
    return name != other and bool(own) and bool(alike)


def words_of(name: str) -> set[str]:
    return set(name.strip("_").split("_"))


def tile_for_repeat(node: ast.Call, reading: Reading) -> Iterator[Change]:
    """Copies of the whole instead of each element repeated: the same shape, another order."""
    called = reading.array_call(node)
    if called is None or called[0] not in {"repeat_interleave", "repeat"} or not called[2]:
        return
    name, array, rest = called
    axis = rest[1:] + [keyword.value for keyword in node.keywords if keyword.arg in {"axis", "dim"}]
    package = "torch" if name == "repeat_interleave" else "numpy"
    alias = reading.alias(package)
    # Without an axis this is torch's `repeat`, which tiles already.
    if len(axis) != 1 or alias is None or (name == "repeat" and reading.alias("torch")):
        return
    copies = ast.BinOp(ast.List([array], ast.Load()), ast.Mult(), rest[0])
    join = ast.Attribute(alias, "cat" if package == "torch" else "concatenate", ast.Load())
    yield change("tiled", node, ast.Call(join, [copies, axis[0]], []), call_position(node))


CASTS = words("long int short float double half bfloat16 bool to type type_as astype")
KEPT_CALLS = words(
    # No value changes without these, or nothing that could stand in their place is left.
    "contiguous ascontiguousarray asarray as_tensor array tensor from_numpy numpy requires_grad_ item tolist "
    "cpu cuda zeros ones full empty arange linspace eye tri rand randn normal uniform integers default_rng "
    "new_zeros new_ones new_full new_empty zeros_like ones_like full_like empty_like triu_indices "
    "tril_indices meshgrid finfo iinfo items keys values append extend pop split chunk unbind nonzero topk "
    "size dim numel element_size is_floating_point result_type promote_types expand expand_as view reshape "
    "einsum broadcast_tensors no_grad enable_grad inference_mode set_grad_enabled backward copy_ format join"
)
MASKINGS = words("masked_fill masked_fill_ clamp clip roll dropout nan_to_num")
BUILTINS = words(
    "all any bool dict enumerate filter float format frozenset getattr hasattr int isinstance iter len "
    "list map max min next object open print range repr reversed round set sorted str sum super tuple "
    "type zip"
)


def mutate_dropped_call(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """`f(x)`, `x.f()` and `f(x, -1)` become `x`: no square root, no norm, no softmax, no mask."""
    callee = reading.callee(node)
    if callee is None or not isinstance(node, ast.Call) or isinstance(reading.parent(node), ast.Expr):
        return
    name, module, receiver = callee
    if name in KEPT_CALLS | TRANSPOSES or (receiver is not None and name in CASTS):
        return
    if receiver is None and module is None and (name in BUILTINS or name[:1].isupper()):
        return
    arguments = node.args if receiver is None else [receiver, *node.args]
    if not arguments or isinstance(arguments[0], ast.Starred) or is_literal(arguments[0]):
        return
    scalars = scalar_parameters(node, reading)
    if name in MASKINGS or all(is_literal(a) or i in scalars for i, a in enumerate(arguments) if i):
        yield change(name, node, arguments[0], call_position(node))


def scalar_parameters(node: ast.Call, reading: Reading) -> set[int]:
    """The positions of a call to a function of the file that are annotated as plain numbers."""
    parameters = parameters_of(node.func.id, reading) if isinstance(node.func, ast.Name) else []
    return {i for i, parameter in enumerate(parameters) if is_scalar_annotation(parameter.annotation)}


def is_scalar_annotation(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Name) and node.id in {"int", "float", "bool"}


def mutate_transpose(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """A transpose is lost."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        (line, column), width = end(node), len(node.attr)
        at = (line, column - width)
    elif isinstance(node, ast.Call):
        at = call_position(node)
    else:
        return
    array = transposed_array(node, reading)
    if array is not None:
        yield change("dropped", node, array, at)


def mutate_view(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """A view goes straight to the sizes that a view and a transpose give: the right shape, mixed up."""
    called = reading.array_call(node)
    if called is None or called[0] not in TRANSPOSES or not isinstance(node, ast.Call):
        return
    name, view, axes = called
    inner = reading.array_call(view)
    if inner is None or inner[0] not in {"view", "reshape"} or not isinstance(view, ast.Call):
        return
    shape = inner[2]
    sizes = unpack_sequence(shape)
    order = axis_order(name, [signed_number(axis) for axis in unpack_sequence(axes)], len(sizes))
    if order is not None:
        moved = [sizes[axis] for axis in order]
        new = moved if len(shape) == len(sizes) else [altered(shape[0], elts=moved)]
        kept = view.args[: len(view.args) - len(shape)]
        yield change("instead", node, altered(view, args=[*kept, *new]), call_position(node))


def unpack_sequence(arguments: Sequence[ast.expr]) -> list[ast.expr]:
    """The elements of `f(a, b)` or of `f((a, b))`."""
    if len(arguments) == 1 and isinstance(arguments[0], ast.Tuple | ast.List):
        return list(arguments[0].elts)
    return list(arguments)


def axis_order(name: str, axes: Sequence[Number | None], rank: int) -> list[int] | None:
    """The permutation that a transposing call with these axes stands for, when that can be told."""
    numbers = [int(axis) for axis in axes if axis is not None]
    if len(numbers) != len(axes) or any(not -rank <= axis < rank for axis in numbers):
        return None
    if len(numbers) == rank and name in {"permute", "transpose", "permute_dims"} and rank > 2:
        return [axis % rank for axis in numbers]
    if len(numbers) == 2 and name in {"transpose", "swapaxes", "swapdims"}:
        order = list(range(rank))
        i, j = numbers
        order[i], order[j] = order[j], order[i]
        return order
    return None


SYMMETRIC_CALLS = words(
    "maximum minimum max min logical_and logical_or logical_xor add multiply mul swapaxes swapdims "
    "isinstance getattr hasattr equal allclose isclose range promote_types result_type print"
)


def mutate_arguments(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """Two positional arguments change places."""
    callee = reading.callee(node)
    if callee is None or not isinstance(node, ast.Call) or callee.name in SYMMETRIC_CALLS:
        return
    called = reading.array_call(node)
    if callee.name == "transpose" and called is not None and len(called[2]) == 2:
        return
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        return
    scalars = scalar_parameters(node, reading)
    for i, j in near_pairs(len(node.args)):
        mixed = is_literal(node.args[i]) != is_literal(node.args[j]) or (i in scalars) != (j in scalars)
        if (i == 1) if callee.name == "where" else not mixed:
            new = altered(node, args=swapped(node.args, i, j))
            yield change(f"{i}-{j}", node, new, call_position(node))


def mutate_einsum(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """The last two letters of one term of an einsum change places: an operand or the result transposed."""
    callee = reading.callee(node)
    if callee is None or callee.name != "einsum" or not isinstance(node, ast.Call) or not node.args:
        return
    subscripts = node.args[0]
    if not isinstance(subscripts, ast.Constant) or not isinstance(subscripts.value, str):
        return
    for number, match in enumerate(re.finditer(r"([A-Za-z])([A-Za-z])(?=\s*(?:,|->|$))", subscripts.value)):
        text = subscripts.value[: match.start()] + match[2] + match[1] + subscripts.value[match.end() :]
        yield change(f"term-{number}", subscripts, ast.Constant(text))


# --- the families: casts ------------------------------------------------------------------------------

OTHER_DTYPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "float64": ("float32", "float16"), "double": ("float32", "float16"),
        "float32": ("float64", "float16"), "float16": ("float32",), "int64": ("int16",),
        "long": ("int16",), "int32": ("int16",),
    }
)  # fmt: skip


def mutate_cast(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """A cast is lost, names another dtype, or one too many narrows the result."""
    package = "torch" if reading.alias("torch") is not None else "numpy"
    alias = reading.alias(package)
    callee = reading.callee(node)
    if isinstance(node, ast.Call) and callee and callee.receiver is not None and callee.name in CASTS:
        if not isinstance(reading.parent(node), ast.Expr):
            yield change("dropped", node, callee.receiver, call_position(node))
    elif isinstance(node, ast.Attribute) and reading.module_of(node.value) in {"torch", "numpy"}:
        for dtype in OTHER_DTYPES.get(node.attr, ()):
            yield change(dtype, node, altered(node, attr=dtype))
    elif isinstance(node, ast.Attribute) and node.attr == "dtype" and alias is not None:
        if stands_for_dtype(node, reading):
            for dtype in ("float32", "float16"):
                yield change(dtype, node, ast.Attribute(alias, dtype, ast.Load()))
    elif isinstance(node, ast.Return) and isinstance(node.value, ARRAYS) and alias is not None:
        # torch refuses to multiply what a function within the file would then return.
        function = function_of(node, reading)
        if function is not None and (
            is_plain_annotation(function.returns) or (package == "torch" and function.name in reading.called)
        ):
            return
        for method, dtype in (("float", "float32"), ("half", "float16")):
            called = ast.Attribute(node.value, method if package == "torch" else "astype", ast.Load())
            named: list[ast.expr] = [ast.Attribute(alias, dtype, ast.Load())] if package == "numpy" else []
            yield change(f"to-{dtype}", node, altered(node, value=ast.Call(called, named, [])))


ARRAYS = (ast.BinOp, ast.Call, ast.Name, ast.Subscript, ast.UnaryOp, ast.Attribute)
"""The forms of a returned expression that may be an array."""


def function_of(node: ast.AST, reading: Reading) -> ast.FunctionDef | None:
    """The innermost function that holds `node`."""
    at = reading.parent(node)
    while at is not None and not isinstance(at, ast.FunctionDef):
        at = reading.parent(at)
    return at


def is_plain_annotation(node: ast.expr | None) -> bool:
    """Whether a return annotation names a Python number or container, not an array."""
    plain = {"int", "float", "bool", "str", "list", "tuple", "dict", "None"}
    return node is not None and ast.unparse(node).partition("[")[0] in plain


def stands_for_dtype(node: ast.AST, reading: Reading) -> bool:
    """Whether `x.dtype` is given to a call as the dtype to make, not compared or asked something."""
    parent = reading.parent(node)
    if isinstance(parent, ast.keyword):
        return parent.arg == "dtype"
    callee = reading.callee(parent) if parent is not None else None
    return callee is not None and callee.name in CASTS and callee.receiver is not None


# --- the families: slices, indices, bounds ------------------------------------------------------------


def mutate_slice(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """Both ends of a slice off by one, of the other sign, or open; the slice shifted; its step lost."""
    if not isinstance(node, ast.Subscript):
        return
    parent = reading.parent(node)
    unpacked = isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Tuple | ast.List)
    for position, item in enumerate(index_items(node)):
        if not isinstance(item, ast.Slice) or is_full_slice(item):
            continue
        changes = [*shifted_slices(item, open_too=unpacked)]
        if not unpacked or isinstance(node.slice, ast.Tuple):
            changes += slice_variants(item)
        for variant, new in changes:
            yield change(variant, node, with_item(node, position, new), start(item))


def shifted_slices(item: ast.Slice, *, open_too: bool) -> Iterator[tuple[str, ast.Slice]]:
    """A slice of the same length one place on or back; `[:n]` becomes `[1:n + 1]` only with `open_too`."""
    if item.upper is None or item.step is not None or (item.lower is None and not open_too):
        return
    lower = item.lower or ast.Constant(0)
    for delta in (1, -1):
        bounds = [offset(lower, delta), offset(item.upper, delta)]
        crossed = [is_negative(old) != is_negative(new) for old, new in zip((lower, item.upper), bounds, strict=True)]
        if not any(crossed):
            yield f"shifted{delta:+d}", altered(item, lower=bounds[0], upper=bounds[1])


def is_negative(node: ast.expr) -> bool:
    value = signed_number(node)
    return value is not None and value < 0


def slice_variants(item: ast.Slice) -> Iterator[tuple[str, ast.Slice]]:
    step = signed_number(item.step)
    if item.step is not None and step != 1:
        yield "step-open", altered(item, step=None)
    if step is not None and step < 0:
        return
    for name, bound, closed in (("lower", item.lower, 1), ("upper", item.upper, -1)):
        if bound is None:
            yield f"{name}{closed:+d}", altered(item, **{name: number_literal(closed)})
            continue
        value = signed_number(bound)
        for delta in (1, -1):
            # An end that becomes 0 is an open end (or an empty slice); "open" below stands for it.
            if value is None or value + delta != 0:
                yield f"{name}{delta:+d}", altered(item, **{name: offset(bound, delta)})
        if isinstance(bound, ast.UnaryOp) and isinstance(bound.op, ast.USub):
            yield f"{name}-sign", altered(item, **{name: bound.operand})
        elif value:
            yield f"{name}-sign", altered(item, **{name: number_literal(-value)})
        if not (name == "lower" and value == 0):
            yield f"{name}-open", altered(item, **{name: None})


def mutate_index(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """An index off by one; a new axis before instead of after its neighbour."""
    if not isinstance(node, ast.Subscript):
        return
    items = index_items(node)
    for position, item in enumerate(items):
        if is_offset_index(item, reading):
            for delta in (1, -1):
                yield change(f"{delta:+d}", node, with_item(node, position, offset(item, delta)), start(item))
        if position + 1 < len(items) and isinstance(node.slice, ast.Tuple):
            pair = (item, items[position + 1])
            if any(map(is_new_axis, pair)) and any(map(is_full_slice, pair)):
                moved = altered(node.slice, elts=swapped(items, position, position + 1))
                yield change("axis-moved", node, altered(node, slice=moved), start(item))


def is_offset_index(item: ast.expr, reading: Reading) -> bool:
    if reading.role(item) == "axis" or is_new_axis(item):
        return False
    if isinstance(item, ast.Constant):
        return type(item.value) is int
    if isinstance(item, ast.UnaryOp) and not isinstance(item.op, ast.USub):
        return False
    return isinstance(item, ast.Name | ast.BinOp | ast.Call | ast.Attribute | ast.Subscript | ast.UnaryOp)


def mutate_range(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """The bounds of `range` off by one; `arange` that starts one later and keeps its length."""
    callee = reading.callee(node)
    if callee is None or not isinstance(node, ast.Call) or not node.args:
        return
    arguments = list(node.args)
    first, stop = (None, 0) if len(arguments) == 1 else (0, 1)

    def moved(steps: Mapping[int | None, int]) -> list[ast.expr]:
        return [offset(a, steps[i]) if i in steps else a for i, a in enumerate(arguments)]

    if callee.name == "arange" and callee.module is not None:
        new = [*([ast.Constant(1)] if first is None else []), *moved({first: 1, stop: 1})]
        yield change("shifted", node, altered(node, args=new), call_position(node))
    elif callee.name == "range" and callee.module is None and callee.receiver is None:
        yield change("stop+1", node, altered(node, args=moved({stop: 1})))
        yield change("stop-1", node, altered(node, args=moved({stop: -1})))
        if first is None:
            yield change("start+1", node, altered(node, args=[ast.Constant(1), *arguments]))
        else:
            yield change("start+1", node, altered(node, args=moved({first: 1})))
            yield change("start-1", node, altered(node, args=moved({first: -1})))


# --- the families: statements and control -------------------------------------------------------------


def mutate_loop(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """A loop without its last or its first turn, and in reverse."""
    if not isinstance(node, ast.For | ast.comprehension):
        return
    items = ast.Call(ast.Name("list", ast.Load()), [node.iter], [])
    minus = number_literal(-1)
    slices = {"without-last": ast.Slice(upper=minus), "without-first": ast.Slice(lower=ast.Constant(1))}
    callee = reading.callee(node.iter)
    if callee is not None and callee.name == "range":
        slices = {}  # its bounds have a family of their own
    if not (isinstance(node.target, ast.Name) and node.target.id == "_"):
        slices["reversed"] = ast.Slice(step=minus)
    for variant, part in slices.items():
        yield change(variant, node.iter, ast.Subscript(items, part, ast.Load()))


def mutate_conditional(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """A condition that always holds, never holds, or is turned round; one branch of a choice for both."""
    if isinstance(node, ast.If) and not isinstance(node.test, ast.Constant):
        yield change("always", node.test, ast.Constant(True))
        yield change("never", node.test, ast.Constant(False))
        if isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
            yield change("inverted", node.test, ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.While) and not isinstance(node.test, ast.Constant):
        yield change("never", node.test, ast.Constant(False))
    elif isinstance(node, ast.IfExp):
        yield change("always", node, node.body, start(node.test))
        yield change("never", node, node.orelse, start(node.test))
    elif isinstance(node, ast.comprehension):
        for test in node.ifs:
            yield change("always", test, ast.Constant(True))
    elif isinstance(node, ast.Call):
        callee = reading.callee(node)
        if callee and callee.name == "where" and callee.module and len(node.args) == 3:
            for variant, kept in (("always", node.args[1]), ("never", node.args[2])):
                if not is_literal(kept):
                    yield change(variant, node, kept)


def mutate_statement(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """A statement is lost, where its names exist without it."""
    if isinstance(node, ast.Assign):
        lost = all(
            isinstance(leaf, ast.Subscript | ast.Attribute)
            or (isinstance(leaf, ast.Name) and reading.exists(leaf.id, node))
            for target in node.targets
            for leaf in target_leaves(target)
        )
    elif isinstance(node, ast.AnnAssign):
        lost = isinstance(node.target, ast.Name) and reading.exists(node.target.id, node)
    else:
        lost = isinstance(node, ast.AugAssign | ast.Break | ast.Continue)
        lost = lost or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
    if lost:
        yield change("dropped", node, ast.Pass())


def target_leaves(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Tuple | ast.List):
        for element in node.elts:
            yield from target_leaves(element)
    else:
        yield node.value if isinstance(node, ast.Starred) else node


def mutate_order(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """Two neighbouring statements change places, where that matters and every name still exists."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if not isinstance(block, list):
            continue
        for first, second in itertools.pairwise(block):
            if is_movable(first) and is_movable(second) and is_order_visible(first, second, reading):
                yield Change("swapped", ((first, second), (second, first)), start(first))


def is_movable(node: ast.AST) -> bool:
    kinds = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.For, ast.If)
    leaves = (ast.Return, ast.Raise, ast.Break, ast.Continue)
    movable = isinstance(node, kinds) and not is_string_statement(node) and not is_main_guard(node)
    return movable and not any(isinstance(inner, leaves) for inner in ast.walk(node))


def is_order_visible(first: ast.stmt, second: ast.stmt, reading: Reading) -> bool:
    reads_first, writes_first = names_used(first)
    reads_second, writes_second = names_used(second)
    if not (writes_first & (reads_second | writes_second) or reads_first & writes_second):
        return False
    return all(reading.exists(name, first) for name in writes_first & reads_second)


def names_used(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """Names a statement reads and names it gives or changes the value of."""
    reads: set[str] = set()
    writes: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            (reads if isinstance(node.ctx, ast.Load) else writes).add(node.id)
        elif isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            writes |= base_names(node)
        elif isinstance(node, ast.AugAssign):
            reads |= base_names(node.target)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            # A call for its effect changes its receiver (x.mul_(2), ids.append(i)) or an argument.
            writes |= set().union(*(base_names(part) for part in (node.value.func, *node.value.args)))
    return reads, writes


def base_names(node: ast.AST) -> set[str]:
    """The name at the root of `x[i].data`; empty when there is none."""
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Starred):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def mutate_tuple(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """Two results, sizes, parts of a concatenation or unpacked names change places."""
    if isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load):
        parent = reading.parent(node)
        if isinstance(parent, ast.Subscript) or is_axis_set(node, reading):
            return
        for i, j in near_pairs(len(node.elts)):
            yield change(f"{i}-{j}", node, altered(node, elts=swapped(node.elts, i, j)))
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        # With a tuple on the right, swapping there is the same fault.
        if isinstance(target, ast.Tuple | ast.List) and not isinstance(node.value, ast.Tuple | ast.List):
            for i, j in itertools.pairwise(range(len(target.elts))):
                yield change(f"{i}-{j}", target, altered(target, elts=swapped(target.elts, i, j)))


def is_axis_set(node: ast.Tuple | ast.List, reading: Reading) -> bool:
    """Whether a tuple holds axes to reduce over, whose order is no matter."""
    if not node.elts or any(reading.role(element) != "axis" for element in node.elts):
        return False
    parent = reading.parent(node)
    call = reading.parent(parent) if isinstance(parent, ast.keyword) else parent
    called = reading.array_call(call) if call is not None else None
    return called is not None and called[0] not in TRANSPOSES


def mutate_inplace(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """`x = x + y` becomes `x += y` on a parameter, which changes the caller's array."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.BinOp) or len(node.targets) != 1:
        return
    target, left = node.targets[0], node.value.left
    if isinstance(target, ast.Name) and isinstance(left, ast.Name) and target.id == left.id:
        function = function_of(node, reading)
        if function is not None and target.id in {parameter.arg for parameter in function.args.args}:
            yield change("augmented", node, ast.AugAssign(target, node.value.op, node.value.right))


KIN_LIMIT = 2


def mutate_variable(node: ast.AST, reading: Reading) -> Iterator[Change]:
    """One use of a name becomes a name of its kind: k for q, enc for dec, tgt_ids for src_ids.

    Each use gets the `KIN_LIMIT` nearest names of the nearest kind, and the nearest of kind 1 where there
    is one: `w_q_self` for `w_q_cross`, which has relatives enough among those it was unpacked with.
    """
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    parent = reading.parent(node)
    if isinstance(parent, ast.Call) and parent.func is node:
        return
    scope = reading.scope(node)
    own = scope.get(node.id)
    if own is None or not reading.exists(node.id, node):
        return
    ranked: dict[int, list[tuple[int, int, str]]] = {}
    for name, binding in scope.items():
        kind = kinship(node.id, own, name, binding)
        if kind is not None and reading.exists(name, node):
            ranked.setdefault(kind, []).append((abs(binding.order - own.order), binding.order, name))
    nearest = min(ranked, default=None)
    for kind, names in sorted(ranked.items()):
        limit = KIN_LIMIT if kind == nearest else 1 if kind == 1 else 0
        for _, _, name in sorted(names)[:limit]:
            yield change(name, node, ast.Name(name, ast.Load()))


def kinship(name: str, binding: Binding, other: str, other_binding: Binding) -> int | None:
    """Of what kind the likeness of two names is, 0 the nearest; None where there is none.

    0: unpacked together, or made by expressions of one form. 1: all words but one the same, the last among
    them or two of three. 2: the first of two words the same. 3: two single letters. A size (`n = x.shape[0]`)
    is like nothing but a size.
    """
    if other in {name, "_"} or (SIZE in binding.kin) != (SIZE in other_binding.kin):
        return None
    if binding.kin & other_binding.kin:
        return 0
    parts, other_parts = name.split("_"), other.split("_")
    same = [a == b for a, b in zip(parts, other_parts, strict=False)]
    if len(parts) == len(other_parts) > 1 and same.count(False) == 1:
        return 1 if same[-1] or len(same) > 2 else 2
    return 3 if len(name) == len(other) == 1 and name.islower() == other.islower() else None


Family = Callable[[ast.AST, Reading], Iterator[Change]]

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "arithmetic": mutate_arithmetic,
        "operands": mutate_operands,
        "term": mutate_term,
        "factor": mutate_factor,
        "negation": mutate_negation,
        "comparison": mutate_comparison,
        "boolean": mutate_boolean,
        "constant": mutate_constant,
        "infinity": mutate_infinity,
        "axis": mutate_axis,
        "keyword": mutate_keyword,
        "call": mutate_call,
        "dropped_call": mutate_dropped_call,
        "transpose": mutate_transpose,
        "view": mutate_view,
        "arguments": mutate_arguments,
        "einsum": mutate_einsum,
        "cast": mutate_cast,
        "slice": mutate_slice,
        "index": mutate_index,
        "range": mutate_range,
        "loop": mutate_loop,
        "conditional": mutate_conditional,
        "statement": mutate_statement,
        "order": mutate_order,
        "tuple": mutate_tuple,
        "inplace": mutate_inplace,
        "variable": mutate_variable,
    }
)
"""Every family of mutants by name, in the order in which equal mutants are claimed."""
