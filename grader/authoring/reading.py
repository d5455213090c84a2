"""What is known about a source file before it is mutated: names, scopes, what literals stand for, and where nodes hang."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, TypeVar

Node = TypeVar("Node", bound=ast.AST)
Position = tuple[int, int]
"""Line from 1 and column from 0 in UTF-8 bytes, as `ast` counts."""

Number = int | float


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
CORRECTIONS = words("correction ddof")
DIAGONALS = words("diagonal k offset")
DIAGONAL_CALLS = words("triu tril tri eye diag diagonal triu_indices tril_indices diag_embed")


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


def is_diagonal(node: ast.Call, keyword: ast.keyword, reading: Reading) -> bool:
    """Whether a keyword argument numbers a diagonal; `k` alone may be anything, keys for one."""
    callee = reading.callee(node)
    return keyword.arg in DIAGONALS and callee is not None and callee.name in DIAGONAL_CALLS


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
