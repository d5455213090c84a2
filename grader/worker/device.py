"""Does a function stay on the device of its inputs? Answered on a machine without an accelerator.

A `DeviceTensor` holds ordinary CPU data and says that it lives on ``cuda:0``. Two modes watch one call:

- a dispatch mode sees every aten operation, runs it on the held data, and refuses operands that CUDA would refuse;
- a function mode sees every call of torch's Python interface: it answers questions such as ``x.device``, turns
  ``device="cuda:0"`` into the carrier below, and gives a refusal the name that the caller wrote.

To C++ a `DeviceTensor` is on the *meta* device, the carrier: autograd, indexing and the device guards work with it in
every build of torch, and what a composite operation makes inside itself is told apart from what the caller made on
the CPU. Under the cuda device itself they abort where there is no driver.

A call fails only on a proven mix or on a result that is somewhere else. Whatever this module cannot imitate is
`Unsupported`, and the verdict is ``skipped``.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import io
import linecache
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType, FunctionType, ModuleType
from typing import Any, Literal, NoReturn, Self

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import DeviceContext, _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode

from grader.worker.source import belongs

Status = Literal["ok", "mix", "wrong_device", "skipped"]
Kind = Literal["mix", "numpy", "cpu_only", "generator"]

PRETEND = torch.device("cuda", 0)
_CARRIER = torch.device("meta")
_CPU = torch.device("cpu")

# Where the attribute is missing, a tensor was made before the watched call began, or by code that torch does not show.
_MADE_AT = "_made_at"

# aten operations that take CPU tensors of any rank beside CUDA ones; None: at every position. The rest of
# native_functions.yaml either has the generated same-device check or TensorIterator's.
_TAKES_CPU: dict[str, frozenset[int] | None] = {
    "aten::copy_": None,
    "aten::copy": None,
    "aten::_foreach_copy_": None,
    "aten::_foreach_copy": None,
    "aten::is_same_size": None,
    "aten::is_set_to": None,
    "aten::resize_as_": None,
    "aten::_has_same_storage_numel": None,
    "aten::bernoulli": frozenset({1}),
    "aten::bernoulli_": frozenset({1}),
    "aten::index": frozenset({1}),
    "aten::_unsafe_index": frozenset({1}),
    "aten::index_put": frozenset({1}),
    "aten::index_put_": frozenset({1}),
    "aten::_index_put_impl_": frozenset({1}),
    "aten::_unsafe_index_put": frozenset({1}),
    "aten::slice_scatter": frozenset({1}),
    "aten::select_scatter": frozenset({1}),
    "aten::diagonal_scatter": frozenset({1}),
    "aten::as_strided_scatter": frozenset({1}),
    "aten::_pack_padded_sequence": frozenset({1}),
    "aten::_pad_packed_sequence": frozenset({1}),
    "aten::_ctc_loss": frozenset({2, 3}),
}
# Operations whose CUDA kernels refuse even a CPU tensor without axes (the generated same-device check).
_REFUSES_CPU_SCALARS = frozenset(
    {
        *("aten::cat", "aten::stack", "aten::embedding", "aten::index_select", "aten::gather", "aten::take"),
        *("aten::scatter", "aten::scatter_", "aten::scatter_add", "aten::scatter_add_"),
        *("aten::scatter_reduce", "aten::scatter_reduce_", "aten::index_add", "aten::index_add_"),
        *(
            "aten::index_copy",
            "aten::index_copy_",
            "aten::put_",
            "aten::masked_select",
            "aten::masked_scatter_",
        ),
        *("aten::nll_loss_forward", "aten::equal"),
    }
)
# These return lengths on the CPU as their second result, also for CUDA data.
_SECOND_RESULT_ON_CPU = frozenset({"aten::_pack_padded_sequence", "aten::_pad_packed_sequence"})
_RESULT_ON_CPU = frozenset({"aten::_shape_as_tensor"})

# What torch's own checks say, in C++ and in Python, when devices differ.
_DEVICE_COMPLAINT = re.compile(
    r"same\W+(?:\w+\W+){0,3}devices?\b|different devices?\b|devices? .{0,20}(?:to be|must be) the same"
    r"|same dtype/layout/device|Input type .* should be the same|device .* does(?: not|n't) match",
    re.DOTALL,
)
_OPERATORS = {
    "__matmul__": "@",
    "__rmatmul__": "@",
    "__and__": "&",
    "__or__": "|",
    "__xor__": "^",
    "__invert__": "~",
    "__getitem__": "indexing",
    "__setitem__": "assignment to an index",
}
_LEGACY_TYPES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "LongTensor": torch.int64,
    "IntTensor": torch.int32,
    "ShortTensor": torch.int16,
    "CharTensor": torch.int8,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}


@dataclass(frozen=True)
class Place:
    """A line of the submission."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Operand:
    """One tensor of a refused operation; ``made_at`` is the line that first put it on the CPU, where known.

    ``earlier`` says that it was not seen to be made during the call: a constant of the module, a cache, a parameter.
    """

    shape: tuple[int, ...]
    dtype: str
    device: str
    made_at: Place | None = None
    earlier: bool = False

    def __str__(self) -> str:
        made = f", made on line {self.made_at.line}" if self.made_at is not None else ""
        return f"{self.dtype} of shape {self.shape} on {self.device}{made}"


class DeviceMix(RuntimeError):
    """Operands that a CUDA build refuses: a proven mistake. A RuntimeError, as torch's own refusal is one.

    ``kind`` is ``mix`` (tensors on two devices), ``numpy`` (a device tensor handed to NumPy), ``cpu_only`` (a method
    that exists for CPU tensors alone) or ``generator`` (a CPU random generator for a device tensor).
    """

    def __init__(self, operation: str, operands: tuple[Operand, ...], kind: Kind = "mix", named: bool = False) -> None:
        super().__init__(operation)
        self.operation = operation.removeprefix("aten::")
        self.operands = operands
        self.kind: Kind = kind
        # False while the operation has only its aten name.
        self.named = named

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that met, the pretended one first."""
        return tuple(sorted({operand.device for operand in self.operands}, reverse=True))

    @property
    def strangers(self) -> tuple[Operand, ...]:
        """The operands that are not on the pretended device."""
        return tuple(operand for operand in self.operands if operand.device != str(PRETEND))

    def __str__(self) -> str:
        listed = "; ".join(map(str, self.operands))
        if self.kind == "numpy":
            return f"{self.operation}: a tensor on {PRETEND} cannot become a NumPy array ({listed})"
        if self.kind == "cpu_only":
            return f"{self.operation} exists for CPU tensors only ({listed})"
        if self.kind == "generator":
            return f"{self.operation}: a random generator on the cpu cannot fill a tensor on {PRETEND}"
        return f"{self.operation}: all tensors must be on one device, but got {listed}"


class _TypeErrorMix(DeviceMix, TypeError):
    """A mistake for which torch raises TypeError, so that code which expects that still gets it."""


class Unsupported(Exception):
    """Something that this module does not imitate: the check is skipped, never failed."""

    def __init__(self, reason: str, operation: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.operation = operation.removeprefix("aten::")


@dataclass(frozen=True)
class DeviceResult:
    """The outcome of one watched call.

    ``where`` is the innermost line of the submission when a mix was refused, and the line that put a value on the CPU
    for ``wrong_device`` (None if it was made before the call). ``path`` names the part of the result that is on the
    wrong device, such as ``[1]`` or ``['w']``. ``value`` is the result on plain CPU tensors, without its graph.
    ``own`` says of a ``skipped`` call that the submission brought it about: it raised an exception of its own, or mixed
    devices after it had swallowed an exception.
    """

    status: Status
    detail: str = ""
    operation: str = ""
    where: Place | None = None
    value: Any = None
    kind: str = ""
    path: str = ""
    operands: tuple[Operand, ...] = ()
    own: bool = False


# --- the tensor ------------------------------------------------------------------------------------------------------


class DeviceTensor(torch.Tensor):
    """A tensor that claims the pretended device; ``held`` is its data, an ordinary CPU tensor without a graph."""

    held: torch.Tensor

    # The function mode answers for it; a second round through the class would only cost time.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, held: torch.Tensor, requires_grad: bool = False) -> Self:
        # The carrier has no such bits, so torch would forget to apply them; and a zero without memory, as forward-mode
        # differentiation makes them, crashes where its mark is lost.
        if held.is_conj() or held.is_neg():
            held = held.resolve_conj().resolve_neg()
        elif held._is_zerotensor():
            held = torch.zeros_like(held)
        made: Self = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            layout=held.layout,
            device=_CARRIER,
            requires_grad=requires_grad,
        )
        made.held = held
        return made

    # A plain repr: the inherited one reads data that the carrier does not have.
    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return _describe(self)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        with torch._C.DisableTorchFunction():
            return _run(func, args, kwargs or {}, None)


def wrap(tensor: torch.Tensor) -> torch.Tensor:
    """``tensor`` on the pretended device; a leaf that requires a gradient exactly where ``tensor`` does.

    The memory is shared: what is done in place to the result is done to ``tensor``.

    Raises:
        Unsupported: a sparse, quantised, nested or meta tensor, or one that lives on a real device.
    """
    if type(tensor) is DeviceTensor:
        return tensor
    with torch._C.DisableTorchFunction():
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
            raise Unsupported("only dense tensors can be moved to the pretended device")
        if tensor.device != _CPU:
            raise Unsupported(f"a tensor on {tensor.device} cannot be moved to the pretended device")
        made = DeviceTensor(tensor.detach(), tensor.requires_grad)
        return torch.nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else made


def unwrap(tensor: torch.Tensor) -> torch.Tensor:
    """The CPU data of a tensor on the pretended device; any other tensor as it is."""
    return tensor.held if type(tensor) is DeviceTensor else tensor


def _describe(tensor: torch.Tensor) -> str:
    with torch._C.DisableTorchFunction():
        text = repr(unwrap(tensor).detach())
        grad = ", requires_grad=True" if tensor.requires_grad else ""
    return f"{text[:-1]}, device='{PRETEND}'{grad})"


# --- aten operations -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rule:
    """What has to be known of one aten operation; ``written`` has one entry per result.

    An entry is the argument (its position, or its name) that the operation writes and returns, or None.
    """

    name: str
    written: tuple[int | str | None, ...]
    writes: frozenset[int | str]
    takes_cpu: frozenset[int] | None
    refuses_cpu_scalars: bool
    composite: bool
    reshapes_in_place: bool


@functools.cache
def _rule(func: Any) -> _Rule:
    if not isinstance(func, torch._ops.OpOverload):
        raise Unsupported("a higher-order operation", str(func))
    schema = func._schema
    name = schema.name
    written_sets: dict[str, int | str] = {}
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            key = argument.name if argument.kwarg_only else position
            for alias in argument.alias_info.before_set:
                written_sets[alias] = key
    written: list[int | str | None] = []
    for result in schema.returns:
        aliases = result.alias_info.before_set if result.alias_info is not None and result.alias_info.is_write else ()
        written.append(next((written_sets[alias] for alias in aliases if alias in written_sets), None))
    takes = _TAKES_CPU.get(name, frozenset())
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]
    return _Rule(
        name=name,
        written=tuple(written),
        writes=frozenset(written_sets.values()),
        takes_cpu=takes,
        refuses_cpu_scalars=name in _REFUSES_CPU_SCALARS,
        composite=composite,
        reshapes_in_place=torch.Tag.inplace_view in func.tags,
    )


# Told apart first: the class of tensors takes its time over isinstance.
_NUMBERS = frozenset({int, float, bool, type(None)})


@dataclass(slots=True)
class _Operands:
    """What one look through the arguments of an operation finds."""

    on_device: bool = False
    generator: bool = False
    plain: list[tuple[int | str, torch.Tensor]] | None = None

    def lower(self, key: int | str, value: Any) -> Any:
        """``value`` with its device tensors replaced by their data; what was seen is noted."""
        if type(value) is DeviceTensor:
            self.on_device = True
            return value.held
        if type(value) in _NUMBERS:
            return value
        if isinstance(value, torch.Tensor):
            if value.is_meta:
                # Made on the carrier where no mode watches, such as in a thread of the submission.
                raise Unsupported("a tensor without data")
            if self.plain is None:
                self.plain = []
            self.plain.append((key, value))
            return value
        if type(value) is list or type(value) is tuple:
            return type(value)([self.lower(key, item) for item in value])
        if isinstance(value, torch.Generator):
            self.generator = True
        return value


def _run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], mode: TorchDispatchMode | None) -> Any:
    """One aten operation, on the held data. Called with torch functions disabled: a device here is the true one."""
    seen = _Operands()
    lowered = [seen.lower(position, value) for position, value in enumerate(args)]
    named = {key: seen.lower(key, value) for key, value in kwargs.items()}
    target = kwargs.get("device")
    to_carrier = target is not None and target.type == "meta"
    if not seen.on_device and not to_carrier:
        # Nothing of ours: a meta tensor without data can only come from a call that went past both modes.
        return func(*args, **kwargs)
    rule = _rule(func)
    if rule.composite:
        # In inference mode composite operations arrive whole; their parts are what there are rules for.
        if mode is None:
            return func.decompose(*args, **kwargs)
        with mode:
            return func.decompose(*args, **kwargs)
    if seen.plain is not None and seen.on_device:
        _refuse_mix(rule, args, kwargs, seen.plain)
    if to_carrier:
        named["device"] = _CPU
    if seen.generator:
        raise DeviceMix(rule.name, _operands(args, kwargs), "generator")
    if named.get("pin_memory"):
        named["pin_memory"] = False
    result = func(*lowered, **named)
    if rule.reshapes_in_place:
        _reshape_carrier(func, args, kwargs)
    on_device = (to_carrier or target is None) and rule.name not in _RESULT_ON_CPU
    return _raise_to_device(rule, result, args, kwargs, on_device)


def _reshape_carrier(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Let an operation such as ``t_`` or ``unsqueeze_`` change the sizes of the carrier as well; it has no data."""
    with torch._C._DisableTorchDispatch():
        func(*args, **kwargs)


def _raise_to_device(rule: _Rule, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], on_device: bool) -> Any:
    if len(rule.written) == 1:
        return _raise_one(rule.written[0], result, args, kwargs, on_device)
    if not isinstance(result, tuple | list):
        return result
    raised = []
    for index, (written, item) in enumerate(zip(rule.written, result, strict=True)):
        stays = index == 1 and rule.name in _SECOND_RESULT_ON_CPU
        raised.append(_raise_one(written, item, args, kwargs, on_device and not stays))
    return tuple(raised)


def _raise_one(
    written: int | str | None, item: Any, args: tuple[Any, ...], kwargs: dict[str, Any], on_device: bool
) -> Any:
    if written is not None:
        return args[written] if isinstance(written, int) and written < len(args) else kwargs.get(str(written), item)
    if isinstance(item, torch.Tensor):
        return DeviceTensor(item) if on_device else item
    if isinstance(item, list | tuple):
        return [_raise_one(None, part, args, kwargs, on_device) for part in item]
    return item


def _refuse_mix(
    rule: _Rule, args: tuple[Any, ...], kwargs: dict[str, Any], plain: list[tuple[int | str, torch.Tensor]]
) -> None:
    """Raise DeviceMix where CUDA would: ``plain`` are the CPU tensors, and there is a device tensor beside them."""
    if rule.takes_cpu is None:
        return
    for key, tensor in plain:
        if key in rule.takes_cpu and (key == 0 or not _first_is_plain(args)):
            continue
        # A kernel that writes to the CPU cannot read from the device, not even a single number.
        if tensor.dim() == 0 and key not in rule.writes and not rule.refuses_cpu_scalars:
            continue
        if rule.name.startswith("aten::index_put") and key == 2 and tensor.numel() == 1:
            continue
        if rule.name.startswith("aten::_foreach"):
            # Taken pair by pair where the fast kernels do not apply; which pairs meet is not known here.
            raise Unsupported("a list operation on tensors of two devices", rule.name)
        raise DeviceMix(rule.name, _operands(args, kwargs))


def _first_is_plain(args: tuple[Any, ...]) -> bool:
    """Is the tensor that is indexed on the CPU? Then its indices have to be there too."""
    return bool(args) and isinstance(args[0], torch.Tensor) and type(args[0]) is not DeviceTensor


def _operands(args: Any, kwargs: dict[str, Any]) -> tuple[Operand, ...]:
    """The tensors among arguments, in order, each once."""
    found: list[torch.Tensor] = []
    _collect([args, kwargs], found)
    return tuple(_operand(tensor) for tensor in {id(tensor): tensor for tensor in found}.values())


def _collect(value: Any, found: list[torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, list | tuple):
        for item in value:
            _collect(item, found)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, found)


def _operand(tensor: torch.Tensor) -> Operand:
    with torch._C.DisableTorchFunction():
        shape, dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
        device = _shown(tensor.device)
    made_at = getattr(tensor, _MADE_AT, None) if device != PRETEND else None
    return Operand(shape, dtype, str(device), made_at or None, device != PRETEND and not made_at)


def _shown(device: torch.device) -> torch.device:
    return PRETEND if device.type == "meta" else device


class _DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # The default wraps the method below in a way that imports torch._dynamo, which takes a second or more.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunction():
            return _run(func, args, kwargs or {}, self)


# --- torch's Python interface ----------------------------------------------------------------------------------------


class _FunctionMode(TorchFunctionMode):
    """Sees each call that a submission makes of torch, with plain devices while it looks: a mode is off in itself."""

    def __init__(self, file: str | None) -> None:
        self.file = file
        self.failed: tuple[BaseException, str] | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        try:
            special = _SPECIAL.get(func)
            if special is not None:
                result = special(func, args, kwargs)
            else:
                args, kwargs = _redirect(func, args, kwargs)
                result = func(*args, **kwargs)
            if isinstance(result, torch.Tensor):
                if type(result) is not DeviceTensor:
                    self._mark(result, func, args, kwargs)
            elif type(result) is tuple or type(result) is list:
                for item in result:
                    if isinstance(item, torch.Tensor) and type(item) is not DeviceTensor:
                        self._mark(item, func, args, kwargs)
        except DeviceMix as mix:
            if not mix.named:
                self._name(mix, func, args, kwargs)
            raise
        except Exception as error:
            self._note(error, func, args, kwargs)
            raise
        return result

    def _name(self, mix: DeviceMix, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Give a refusal the caller's name for the operation, and the caller's operands where they show the mix."""
        mix.operation, mix.named = name_of(func), True
        operands = _operands(args, kwargs)
        if mix.kind == "mix" and len({operand.device for operand in operands}) > 1:
            mix.operands = operands

    def _note(self, error: Exception, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        if isinstance(error, Unsupported):
            error.operation = error.operation or name_of(func)
        if isinstance(error, RuntimeError) and _DEVICE_COMPLAINT.search(str(error)):
            operands = _operands(args, kwargs)
            # Torch compared the devices itself; only tensors with axes count, the others are often let through.
            devices = {operand.device for operand in operands if operand.shape}
            if str(PRETEND) in devices and len(devices) > 1:
                raise DeviceMix(name_of(func), operands, named=True) from error
        if self.failed is None or self.failed[0] is not error:
            self.failed = (error, name_of(func))

    def _mark(self, result: torch.Tensor, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Note on a CPU tensor the line where its data first was on the CPU."""
        if result.device.type == "meta":
            if not torch._C._functorch.is_functorch_wrapped_tensor(result):
                raise Unsupported("a tensor without data", name_of(func))
            return
        if self.file is None or hasattr(result, _MADE_AT):
            return
        found: list[torch.Tensor] = []
        _collect([args, kwargs], found)
        parents = [tensor for tensor in found if type(tensor) is not DeviceTensor and tensor is not result]
        # Something older stays older: a slice of a cached table is as old as the table.
        place = getattr(parents[0], _MADE_AT, False) if parents else _line_in(self.file, sys._getframe(2))
        setattr(result, _MADE_AT, place)


def _line_in(file: str, frame: FrameType | None) -> Place | None:
    while frame is not None:
        if belongs(frame.f_code.co_filename, file):
            return Place(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def _redirect(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with every mention of the pretended device turned into the carrier."""
    if func is torch._C._nn._parse_to:
        # `Module.to` has its arguments read; what comes back is handed to `Tensor.to`.
        return args, kwargs
    device = kwargs.get("device")
    if device is not None:
        kwargs = {**kwargs, "device": _carried(device)}
    elif func in _device_constructors() and _default_is_pretended():
        kwargs = {**kwargs, "device": _CARRIER}
    if any(type(item) is torch.device for item in args):
        args = tuple(_carried(item) if type(item) is torch.device else item for item in args)
    return args, kwargs


def _carried(device: Any) -> Any:
    """A device as torch accepts it (an object, a string, an index), with the carrier for the pretended one."""
    if isinstance(device, int) and not isinstance(device, bool):
        wanted = torch.device("cuda", device)
    elif isinstance(device, str):
        wanted = torch.device(device)
    else:
        wanted = device
    if not isinstance(wanted, torch.device) or wanted.type == "cpu":
        return wanted
    # The carrier itself comes from torch's own code, which reads it off a tensor in C++.
    if (wanted.type == "cuda" and wanted.index in (None, 0)) or (device is wanted and wanted == _CARRIER):
        return _CARRIER
    raise Unsupported(f"the device {wanted} is not imitated")


def _default_is_pretended() -> bool:
    """Is the pretended device the default, by ``torch.set_default_device`` or ``with torch.device(...)``?"""
    for mode in _get_current_function_mode_stack():  # type: ignore[no-untyped-call]
        if isinstance(mode, DeviceContext):
            return mode.device.type == "cuda"
    return False


_Special = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


def _device(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    made = func(*args, **kwargs)
    if made.type == "meta":
        raise Unsupported("the meta device carries the pretended one")
    return made


def _get_device(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _shown(func(*args, **kwargs))


def _get_index(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return 0 if args[0].device.type == "meta" else func(*args, **kwargs)


def _is_cuda(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0].device.type == "meta"


def _is_meta(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return False


def _to(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) > 1 and isinstance(args[1], str | int | torch.device):
        return func(args[0], _carried(args[1]), *args[2:], **kwargs)
    args, kwargs = _redirect(func, args, kwargs)
    return func(*args, **kwargs)


def _cuda(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    device = args[1] if len(args) > 1 else kwargs.get("device")
    return args[0].to(_CARRIER if device is None else _carried(device))


def _type(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    wanted = args[1] if len(args) > 1 else kwargs.get("dtype")
    if wanted is None:
        return str(func(*args, **kwargs)).replace("torch.meta.", "torch.cuda.")
    if isinstance(wanted, str) and wanted.startswith("torch.cuda."):
        dtype = _LEGACY_TYPES.get(wanted.removeprefix("torch.cuda."))
        if dtype is None:
            raise Unsupported(f"the tensor type {wanted}")
        return args[0].to(_CARRIER, dtype)
    return func(*args, **kwargs)


def _tolist(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func(unwrap(args[0]))


def _numpy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if args[0].device.type != "meta":
        return func(*args, **kwargs)
    if kwargs.get("force"):
        return func(unwrap(args[0].detach()), **kwargs)
    _refuse(func, args, "numpy")


def _cpu_only(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if args[0].device.type != "meta":
        return func(*args, **kwargs)
    _refuse(func, args, "cpu_only")


def _refuse(func: Any, args: tuple[Any, ...], kind: Kind) -> NoReturn:
    raise _TypeErrorMix(name_of(func), _operands(args[:1], {}), kind, named=True)


def _repr(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _describe(args[0]) if type(args[0]) is DeviceTensor else func(*args, **kwargs)


def _format(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensor = args[0]
    if type(tensor) is not DeviceTensor:
        return func(*args, **kwargs)
    return format(tensor.item(), args[1]) if tensor.dim() == 0 else object.__format__(tensor, args[1])


def _of_held(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func(unwrap(args[0]), *args[1:], **kwargs)


def _refuse_copying(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if type(args[0]) is DeviceTensor:
        raise Unsupported("a tensor on the pretended device cannot be pickled")
    return func(*args, **kwargs)


def _index(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Reading or writing ``x[...]``: C++ would make a list of indices into a tensor on the carrier, without data."""
    if args[0].device.type != "meta":
        return func(*args, **kwargs)
    index = args[1]
    if isinstance(index, tuple):
        index = tuple(_index_tensor(item) for item in index)
    elif not isinstance(index, list) or all(isinstance(item, int) for item in index):
        index = _index_tensor(index)
    return func(args[0], index, *args[2:], **kwargs)


def _index_tensor(index: Any) -> Any:
    """A list, range or array of indices as a CPU tensor, which CUDA takes as well; any other index as it is."""
    if not isinstance(index, list | range) and type(index).__name__ != "ndarray":
        return index
    found: list[torch.Tensor] = []
    _collect(index, found)
    if found:
        return index
    return torch.tensor(index, dtype=None if len(index) else torch.int64)


def _new_data(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``torch.tensor``, ``as_tensor`` and ``asarray``: from a tensor the device follows it, from numbers the default."""
    options = dict(kwargs)
    data = args[0] if args else options.pop("data" if "data" in options else "obj")
    return _make(func, data, options, _follow(data, options))


def _new_tensor(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``x.new_tensor(data)``: dtype and device of ``x`` unless others are asked for."""
    options = dict(kwargs)
    data = args[1] if len(args) > 1 else options.pop("data")
    device = options.pop("device", None)
    target = args[0].device if device is None else _carried(device)
    options.setdefault("dtype", args[0].dtype)
    return _make(torch.tensor, data, options, target)


def _follow(data: Any, options: dict[str, Any]) -> torch.device:
    device = options.pop("device", None)
    if device is not None:
        wanted = _carried(device)
        assert isinstance(wanted, torch.device)
        return wanted
    if isinstance(data, torch.Tensor):
        return data.device
    return _CARRIER if _default_is_pretended() else _CPU


def _make(func: Any, data: Any, options: dict[str, Any], target: torch.device) -> torch.Tensor:
    if isinstance(data, torch.Tensor) and func is not torch.tensor:
        # Without copying where torch does not copy, and with the graph.
        return data.to(target, options.get("dtype") or data.dtype, copy=bool(options.get("copy")))
    requires_grad = bool(options.pop("requires_grad", False))
    options.pop("pin_memory", None)
    made: torch.Tensor = func(_lowered(data), device=_CPU, **options)
    if target.type != "meta":
        return made.requires_grad_() if requires_grad else made
    held = made.detach()
    # Data on a device is a copy, whatever it was made from.
    return DeviceTensor(held if func is torch.tensor else held.clone(), requires_grad)


def _lowered(data: Any) -> Any:
    if type(data) is DeviceTensor:
        return data.held
    if isinstance(data, list | tuple):
        return [_lowered(item) for item in data]
    return data


def _start_backward(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The engine does not compare the devices of a subclass, so the gradients that a backward pass starts with are here."""
    outputs = args[0] if args else kwargs["outputs"]
    if func is torch.Tensor.backward:
        gradients = args[1] if len(args) > 1 else kwargs.get("gradient")
    else:
        gradients = args[2] if len(args) > 2 else kwargs.get("grad_outputs")
    for output, gradient in zip(_sequence(outputs), _sequence(gradients), strict=False):
        if isinstance(gradient, torch.Tensor) and gradient.dim() > 0 and gradient.device != output.device:
            raise DeviceMix(name_of(func), (_operand(output), _operand(gradient)), named=True)
    return func(*args, **kwargs)


def _sequence(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _getter(name: str) -> Any:
    return getattr(torch.Tensor, name).__get__


_SPECIAL: dict[Any, _Special] = {
    torch.device: _device,
    _getter("device"): _get_device,
    _getter("is_cuda"): _is_cuda,
    _getter("is_meta"): _is_meta,
    torch.Tensor.get_device: _get_index,
    torch.get_device: _get_index,
    torch.Tensor.to: _to,
    torch.Tensor.cuda: _cuda,
    torch.Tensor.type: _type,
    torch.Tensor.tolist: _tolist,
    torch.Tensor.numpy: _numpy,
    torch.Tensor.__array__: _numpy,
    torch.Tensor.apply_: _cpu_only,
    torch.Tensor.map_: _cpu_only,
    torch.Tensor.map2_: _cpu_only,
    torch.Tensor.__repr__: _repr,
    torch.Tensor.__format__: _format,
    torch.Tensor.__reduce_ex__: _refuse_copying,
    torch.Tensor.data_ptr: _of_held,
    torch.Tensor.untyped_storage: _of_held,
    torch.Tensor.__getitem__: _index,
    torch.Tensor.__setitem__: _index,
    torch.tensor: _new_data,
    torch.as_tensor: _new_data,
    torch.asarray: _new_data,
    torch.Tensor.new_tensor: _new_tensor,
    torch.Tensor.backward: _start_backward,
    torch.autograd.grad: _start_backward,
}


def name_of(func: Any) -> str:
    """A name of a torch function that someone who wrote the call recognises."""
    name = str(getattr(func, "__name__", func))
    owner = getattr(func, "__self__", None)
    if name in ("__get__", "__set__") and owner is not None:
        return f"Tensor.{getattr(owner, '__name__', name)}"
    if name in _OPERATORS:
        return _OPERATORS[name]
    if getattr(func, "__objclass__", None) is not None or getattr(torch.Tensor, name, None) is func:
        return f"Tensor.{name}"
    for module, prefix in (
        (torch.nn.functional, "torch.nn.functional"),
        (torch, "torch"),
        (torch.linalg, "torch.linalg"),
    ):
        if getattr(module, name, None) is func:
            return f"{prefix}.{name}"
    return f"{getattr(func, '__module__', None) or 'torch'}.{name}"


# --- one watched call ------------------------------------------------------------------------------------------------


class _Stream:
    """The one question that torch.optim asks of a stream."""

    def is_capturing(self) -> bool:
        return False


_CUDA_ANSWERS: dict[str, Any] = {
    "is_available": True,
    "device_count": 1,
    "current_device": 0,
    "is_bf16_supported": True,
    "is_current_stream_capturing": False,
    "synchronize": None,
    "empty_cache": None,
    "set_device": None,
}
_ACCELERATOR_ANSWERS: dict[str, Any] = {
    "is_available": True,
    "device_count": 1,
    "current_accelerator": torch.device("cuda"),
    "current_device_index": 0,
    "current_device_idx": 0,
    "current_stream": _Stream(),
    "synchronize": None,
}


@contextlib.contextmanager
def pretend_device() -> Iterator[torch.device]:
    """Within the block torch behaves as if ``cuda:0`` were there; gives that device.

    ``torch.cuda.is_available()`` says True, tensors that `wrap` made or that were made with ``device="cuda"`` claim
    ``cuda:0``, and mixing them with CPU tensors raises `DeviceMix`. A default device that was set inside is reset.
    """
    with _watching(_FunctionMode(None)):
        yield PRETEND


@contextlib.contextmanager
def _watching(functions: _FunctionMode) -> Iterator[None]:
    # As a dict: older releases cannot say their default device once the entry is there and None.
    default = dict(vars(torch._GLOBAL_DEVICE_CONTEXT))
    lifting = torch._C._only_lift_cpu_tensors()
    with contextlib.ExitStack() as stack:
        _answer_for(torch.cuda, _CUDA_ANSWERS, stack)
        # Builds with cuDNN would otherwise lay the weights of recurrent layers out anew, on a device that is not there.
        _answer_for(torch.backends.cudnn, {"is_acceptable": False}, stack)
        accelerator = getattr(torch, "accelerator", None)
        if accelerator is not None:
            _answer_for(accelerator, _ACCELERATOR_ANSWERS, stack)
        # Data given with device=... is made on the CPU first and moved by an operation that the mode sees.
        torch._C._set_only_lift_cpu_tensors(True)
        stack.callback(torch._C._set_only_lift_cpu_tensors, lifting)
        stack.enter_context(_DispatchMode())  # type: ignore[no-untyped-call]
        stack.enter_context(functions)
        try:
            yield
        finally:
            if vars(torch._GLOBAL_DEVICE_CONTEXT) != default:
                before = default.get("device_context")
                torch.set_default_device(None if before is None else before.device)
                if not default:
                    vars(torch._GLOBAL_DEVICE_CONTEXT).clear()


def _answer_for(module: ModuleType, answers: dict[str, Any], stack: contextlib.ExitStack) -> None:
    for name, answer in answers.items():
        before = getattr(module, name, None)
        if before is not None:
            setattr(module, name, _always(answer))
            stack.callback(setattr, module, name, before)


def _always(answer: Any) -> Callable[..., Any]:
    def answering(*args: Any, **kwargs: Any) -> Any:
        return answer

    return answering


def call_on_device(
    function: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    scalar: bool = False,
    called_before: bool = False,
    file: str | None = None,
) -> DeviceResult:
    """Call ``function`` with copies of ``args`` on the pretended device, and say where its work went astray.

    ``args`` may nest tensors in dicts, lists and tuples. A function among them is given CPU tensors, and what it answers
    is on the pretended device; everything else is handed on as it is. The same call on plain CPU tensors is known to
    work: an exception that is no `DeviceMix` is laid to the imitation, and gives ``skipped``.

    Args:
        scalar: a tensor without axes may come back on the CPU. Python numbers have no device and are always legal.
        called_before: ``function`` has run on CPU tensors in this process, and may hold some in an honest cache. Its file
            is executed anew, and the function of that name is called instead; where that cannot be done, a mix with a
            tensor that is older than this call gives ``skipped``.
        file: the submission's file, as its code objects name it; by default that of ``function``.
    """
    file = file or _file_of(function)
    functions = _FunctionMode(file)
    copies: dict[int, torch.Tensor] = {}
    try:
        moved = _rebuild(args, lambda tensor: _moved(tensor, copies), _carry_over)
        moved_names = _rebuild(kwargs or {}, lambda tensor: _moved(tensor, copies), _carry_over)
        with _watching(functions):
            anew = _loaded_anew(function, file) if called_before else None
            if anew is not None:
                function, called_before = anew, False
            functions.failed = None
            result = function(*moved, **moved_names)
    except DeviceMix as mix:
        return _judge_mix(mix, functions, function, file, called_before)
    except Unsupported as unknown:
        return DeviceResult("skipped", unknown.reason, unknown.operation, _innermost(unknown, file))
    except Exception as error:
        operation = functions.failed[1] if functions.failed is not None and functions.failed[0] is error else ""
        detail = f"{type(error).__name__}: {_first_line(error)}"
        own = _is_own(error, functions, file)
        return DeviceResult("skipped", detail, operation, _innermost(error, file), own=own)
    return _judge_result(result, functions, function, scalar, called_before)


def _loaded_anew(function: Any, file: str | None) -> Any:
    """The function of the same name in a fresh module from the same source; None where that cannot be had.

    Inside the block, so that the file finds an accelerator when it asks for one; what it prints was printed before.
    """
    names = getattr(inspect.unwrap(function), "__globals__", {})
    name = next((key for key, value in names.items() if value is function), None)
    lines = linecache.getlines(file) if file is not None else []
    if name is None or file is None or not lines:
        return None
    module = ModuleType(str(names.get("__name__")))
    module.__file__ = file
    before = sys.modules.get(module.__name__)
    # Dataclasses and typing look the module of a class up by name.
    sys.modules[module.__name__] = module
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            exec(compile("".join(lines), file, "exec", dont_inherit=True), module.__dict__)
    except Exception:
        return None
    finally:
        if before is None:
            del sys.modules[module.__name__]
        else:
            sys.modules[module.__name__] = before
    return module.__dict__.get(name)


def _carry_over(function: Callable[..., Any]) -> Callable[..., Any]:
    """A handed-in function for both sides: it is given CPU tensors, and its answer is on the pretended device."""

    def carried(*args: Any, **kwargs: Any) -> Any:
        return _rebuild(function(*_lower_all(args), **_lower_all(kwargs)), wrap)

    return carried


def _judge_mix(
    mix: DeviceMix, functions: _FunctionMode, function: Any, file: str | None, called_before: bool
) -> DeviceResult:
    doubt = _doubt(functions, function)
    own = bool(doubt) and functions.failed is not None
    if not doubt and called_before and any(operand.earlier for operand in mix.strangers):
        doubt = "a tensor from before this call took part, perhaps from a cache"
    status: Status = "skipped" if doubt else "mix"
    detail = f"{doubt}: {mix}" if doubt else str(mix)
    return DeviceResult(status, detail, mix.operation, _innermost(mix, file), None, mix.kind, "", mix.operands, own)


def _judge_result(
    result: Any, functions: _FunctionMode, function: Any, scalar: bool, called_before: bool
) -> DeviceResult:
    for path, part in _parts(result, ""):
        if not isinstance(part, torch.Tensor):
            if len(getattr(part, "shape", ())) == 0:
                continue
            detail = f"the inputs are on {PRETEND}, but the result{path} is a NumPy array, which is always on the cpu"
            return DeviceResult("wrong_device", detail, value=_lower_all(result), path=path)
        if type(part) is DeviceTensor or (scalar and part.dim() == 0 and part.device == _CPU):
            continue
        operand = _operand(part)
        doubt = "" if part.device == _CPU else "a tensor without data was returned"
        doubt = doubt or _doubt(functions, function)
        own = bool(doubt) and functions.failed is not None
        if not doubt and called_before and operand.earlier:
            doubt = "a tensor from before this call was returned, perhaps from a cache"
        if doubt:
            return DeviceResult("skipped", doubt, path=path, operands=(operand,), own=own)
        detail = f"the inputs are on {PRETEND}, but the result{path} is {operand}"
        return DeviceResult("wrong_device", detail, "", operand.made_at, _lower_all(result), "", path, (operand,))
    return DeviceResult("ok", value=_lower_all(result))


def _doubt(functions: _FunctionMode, function: Any) -> str:
    """Why what looks like a mistake may be one of the imitation, or nothing."""
    if functions.failed is not None:
        error, operation = functions.failed
        return f"the submission went on after {operation} had raised {type(error).__name__}, which CUDA may not do"
    if _device_chosen_at_import(function):
        return "the file chose its device while it was imported, where there was only the CPU"
    return ""


def _parts(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The tensors and NumPy arrays of a result, each with its path."""
    if isinstance(value, torch.Tensor) or type(value).__module__ == "numpy":
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _parts(item, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _parts(item, f"{path}[{index}]")


def _moved(tensor: torch.Tensor, copies: dict[int, torch.Tensor]) -> torch.Tensor:
    """A copy of ``tensor`` on the pretended device; one and the same copy for one and the same tensor."""
    if id(tensor) not in copies:
        copy = tensor.detach().clone()
        if isinstance(tensor, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy, tensor.requires_grad)
        elif tensor.requires_grad:
            copy.requires_grad_()
        copies[id(tensor)] = wrap(copy)
    return copies[id(tensor)]


def _lower_all(value: Any) -> Any:
    return _rebuild(value, lambda tensor: unwrap(tensor).detach())


def _rebuild(
    value: Any,
    change: Callable[[torch.Tensor], torch.Tensor],
    change_function: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
) -> Any:
    """``value`` with every tensor in its dicts, lists and tuples changed, and every plain function if asked for."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if type(value) is FunctionType and change_function is not None:
        return change_function(value)
    if type(value) is dict:
        return {key: _rebuild(item, change, change_function) for key, item in value.items()}
    if type(value) is list or type(value) is tuple:
        return type(value)(_rebuild(item, change, change_function) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_rebuild(item, change, change_function) for item in value))
    return value


def _file_of(function: Any) -> str | None:
    inner = inspect.unwrap(function)
    code = getattr(inner, "__code__", None) or getattr(getattr(inner, "func", None), "__code__", None)
    if code is None:
        # A module or another callable object: what runs is a method of its class.
        methods = vars(type(inner))
        code = getattr(methods.get("forward", methods.get("__call__")), "__code__", None)
    return code.co_filename if code is not None else None


def _innermost(error: BaseException, file: str | None) -> Place | None:
    if file is None:
        return None
    place = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if belongs(frame.f_code.co_filename, file):
            place = Place(frame.f_code.co_filename, line)
    return place


def _is_own(error: BaseException, functions: _FunctionMode, file: str | None) -> bool:
    """Whether the submission itself raised this, rather than torch or the imitation for want of a device."""
    if isinstance(error, RecursionError):
        # Wherever the last frame happened to be.
        return True
    cause: BaseException | None = error
    while cause is not None:
        if functions.failed is not None and functions.failed[0] is cause:
            return False
        cause = cause.__cause__ or cause.__context__
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or file is None or not belongs(last.tb_frame.f_code.co_filename, file):
        return False
    stated = last.tb_frame.f_code.co_code[last.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    # A call into torch's C++ code leaves no frame of its own: a generator or a stream of a device that is not there.
    return stated or type(error) not in (RuntimeError, NotImplementedError)


def _first_line(error: BaseException) -> str:
    try:
        return (str(error).splitlines() or [""])[0][:300]
    except Exception:
        return "(its message could not be read)"


def _device_chosen_at_import(function: Any) -> bool:
    """Did the file ask for an accelerator while it was imported, and keep the answer in a global?

    ``DEVICE = "cuda" if torch.cuda.is_available() else "cpu"`` is right on the machine it was written for.
    """
    inner = inspect.unwrap(function)
    kept = [*getattr(inner, "__globals__", {}).values(), *(getattr(inner, "__defaults__", None) or ())]
    if not any(isinstance(value, str | torch.device) and str(value) == "cpu" for value in kept):
        return False
    file = _file_of(function)
    text = "".join(linecache.getlines(file)) if file is not None else ""
    return "is_available" in text or not text
