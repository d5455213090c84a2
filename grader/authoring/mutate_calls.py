"""Families of mutants: calls, their arguments, and casts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from grader.authoring.building import Change, altered, change, near_pairs, renamed_call, swapped
from grader.authoring.mutate_values import transposed_array
from grader.authoring.reading import (
    TRANSPOSES,
    Callee,
    Number,
    Reading,
    call_position,
    end,
    is_literal,
    parameters_of,
    signed_number,
    words,
)

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
