"""The imitated device: every mistake of the corpus is caught on its line, and nothing that CUDA permits is called wrong."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import device_corpus as corpus
import numpy as np
import pytest
import torch

from grader.worker import device

BUGS = sorted(name for name in vars(corpus) if name.startswith("bug_"))
LEGAL = sorted(name for name in vars(corpus) if name.startswith("legal_"))
MARKER = re.compile(r"# (mix|numpy|cpu_only|generator|returned)(?:: (.+))?$")
NAMED_MISTAKES = {
    "bug_mask_made_on_cpu",
    "bug_arange_positions",
    "bug_zeros_accumulator",
    "bug_result_on_cpu",
    "bug_tensor_from_a_list",
    "bug_device_index_into_cpu_table",
    "bug_eye_on_cpu",
    "bug_one_hot_on_cpu",
    "bug_position_table_on_cpu",
    "bug_numpy_round_trip",
    "bug_full_mask_in_where",
    "bug_linear_on_cpu",
    "bug_hard_coded_device",
    "bug_cat_with_cpu_tensor",
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def arguments(function: Callable[..., Any]) -> tuple[Any, ...]:
    made = corpus.inputs()
    return tuple(made[name] for name in inspect.signature(function).parameters)


def call(name: str) -> device.DeviceResult:
    function = getattr(corpus, name)
    torch.manual_seed(1)
    return device.call_on_device(function, arguments(function), scalar=name in corpus.SCALAR_RESULTS)


def plain(name: str) -> Any:
    function = getattr(corpus, name)
    torch.manual_seed(1)
    try:
        return function(*arguments(function))
    finally:
        torch.set_default_device(None)


def marked_line(function: FunctionType) -> tuple[int, str, str]:
    """Line, kind and operation of the marker in a function, or in the helper that it calls."""
    helpers = [getattr(corpus, name) for name in function.__code__.co_names if name.startswith("_helper")]
    for candidate in (function, *helpers):
        lines, start = inspect.getsourcelines(candidate)
        for number, line in enumerate(lines, start):
            found = MARKER.search(line.rstrip())
            if found:
                return number, found[1], found[2] or ""
    raise AssertionError(f"{function.__name__} marks no line")


def same(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return (
            type(second) in (torch.Tensor, torch.nn.Parameter)
            and first.dtype == second.dtype
            and first.shape == second.shape
            and torch.allclose(first.detach(), second.detach(), rtol=1e-9, atol=1e-9, equal_nan=True)
        )
    if isinstance(first, dict):
        return list(first) == list(second) and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


# --- the corpus ------------------------------------------------------------------------------------------------------


def test_corpus_is_large_and_holds_the_mistakes_that_people_make() -> None:
    assert len(BUGS) >= 50
    assert len(LEGAL) >= 140
    assert set(BUGS) >= NAMED_MISTAKES
    assert set(LEGAL) >= corpus.MAY_SKIP | corpus.SCALAR_RESULTS


@pytest.mark.parametrize("name", BUGS)
def test_mistake_works_on_the_cpu_and_is_caught_on_its_line(name: str) -> None:
    plain(name)
    line, kind, operation = marked_line(getattr(corpus, name))
    result = call(name)
    if kind == "returned":
        assert (result.status, result.operation) == ("wrong_device", ""), result.detail
    else:
        assert (result.status, result.kind, result.operation) == ("mix", kind, operation), result.detail
    assert result.where == device.Place(corpus.__file__, line), result.detail
    assert any(operand.device == "cpu" for operand in result.operands) or kind in ("numpy", "cpu_only", "generator")


@pytest.mark.parametrize("name", LEGAL)
def test_right_code_passes_with_the_values_of_a_plain_call(name: str) -> None:
    expected = plain(name)
    result = call(name)
    if name in corpus.MAY_SKIP and result.status == "skipped":
        assert result.detail
        return
    assert result.status == "ok", f"{result.operation}: {result.detail}"
    assert same(expected, result.value)


def test_nothing_is_left_behind_by_the_corpus() -> None:
    for name in ("legal_default_device_left_set", "bug_mask_made_on_cpu", "legal_generator_on_device"):
        before = torch.cuda.is_available, torch.cuda.device_count, torch.backends.cudnn.is_acceptable
        call(name)
        assert (torch.cuda.is_available, torch.cuda.device_count, torch.backends.cudnn.is_acceptable) == before
        assert torch.ones(2).device == torch.device("cpu")
        assert not torch._C._only_lift_cpu_tensors()
        assert torch._C._len_torch_function_stack() == 0
        assert torch._C._len_torch_dispatch_stack() == 0
        assert type(torch.ones(2) + 1) is torch.Tensor


# --- tensors ---------------------------------------------------------------------------------------------------------


def test_wrap_keeps_what_a_tensor_is() -> None:
    strided = torch.arange(24.0).reshape(4, 6).t()[1:]
    moved = device.wrap(strided)
    assert isinstance(moved, torch.Tensor)
    assert (moved.shape, moved.stride(), moved.dtype) == (strided.shape, strided.stride(), strided.dtype)
    assert moved.storage_offset() == strided.storage_offset()
    assert not moved.requires_grad
    assert device.wrap(moved) is moved
    assert torch.equal(device.unwrap(moved), strided)
    assert device.unwrap(strided) is strided


def test_wrap_keeps_leaves_and_parameters() -> None:
    leaf = device.wrap(torch.ones(2, requires_grad=True))
    assert leaf.is_leaf and leaf.requires_grad
    result = device.wrap(torch.ones(2, requires_grad=True) * 2)
    assert result.is_leaf and result.requires_grad
    parameter = device.wrap(torch.nn.Parameter(torch.ones(2), requires_grad=False))
    assert isinstance(parameter, torch.nn.Parameter) and not parameter.requires_grad
    assert type(parameter) is device.DeviceTensor


def test_wrap_shares_memory() -> None:
    data = torch.zeros(3)
    with device.pretend_device():
        device.wrap(data).add_(1)
    assert torch.equal(data, torch.ones(3))


@pytest.mark.parametrize(
    "tensor", [torch.eye(2).to_sparse(), torch.empty(2, device="meta")], ids=["sparse", "without data"]
)
def test_tensors_that_cannot_be_moved_are_unsupported(tensor: torch.Tensor) -> None:
    with pytest.raises(device.Unsupported):
        device.wrap(tensor)
    assert device.call_on_device(lambda x: x, (tensor,)).status == "skipped"


def test_pretended_device_is_the_one_that_tensors_name() -> None:
    with device.pretend_device() as where:
        x = device.wrap(torch.ones(2))
        assert x.device == where == torch.device("cuda", 0)
        assert torch.zeros(3, device=where).device == where
        assert torch.cuda.is_available() and torch.cuda.device_count() == 1
        assert "device='cuda:0'" in repr(x)
    assert type(x) is device.DeviceTensor


def test_block_is_left_in_order_after_an_error() -> None:
    before = torch.cuda.is_available
    with pytest.raises(device.DeviceMix), device.pretend_device():
        device.wrap(torch.ones(2)) + torch.ones(2)
    assert torch.cuda.is_available is before
    assert torch._C._len_torch_function_stack() == 0
    assert torch._C._len_torch_dispatch_stack() == 0


def test_mix_carries_its_operands() -> None:
    with pytest.raises(device.DeviceMix) as caught, device.pretend_device():
        torch.add(device.wrap(torch.ones(2, 3)), torch.ones(3, dtype=torch.int64))
    mix = caught.value
    assert isinstance(mix, RuntimeError)
    assert (mix.operation, mix.kind, mix.devices) == ("torch.add", "mix", ("cuda:0", "cpu"))
    assert [(o.shape, o.dtype, o.device) for o in mix.operands] == [
        ((2, 3), "float32", "cuda:0"),
        ((3,), "int64", "cpu"),
    ]
    assert mix.strangers == mix.operands[1:]
    assert str(mix) == (
        "torch.add: all tensors must be on one device, "
        "but got float32 of shape (2, 3) on cuda:0; int64 of shape (3,) on cpu"
    )


@pytest.mark.parametrize("convert", [lambda x: x.numpy(), np.asarray, lambda x: x.apply_(abs)])
def test_cpu_only_conversions_raise_the_type_error_that_cuda_raises(convert: Callable[[torch.Tensor], Any]) -> None:
    with device.pretend_device():
        x = device.wrap(torch.ones(2))
        with pytest.raises(TypeError) as caught:
            convert(x)
    assert isinstance(caught.value, device.DeviceMix)


@pytest.mark.parametrize(
    "operation",
    [
        lambda dev, cpu: cpu[dev.long()],
        lambda dev, cpu: cpu.add_(dev),
        lambda dev, cpu: torch.tensor(0.0).add_(dev.sum()),
        lambda dev, cpu: torch.stack([dev.sum(), torch.tensor(0.0)]),
        lambda dev, cpu: torch.index_select(dev, 0, torch.tensor(1)),
        lambda dev, cpu: dev.gather(0, torch.tensor(0).expand(1)),
        lambda dev, cpu: torch.where(dev > 0, dev, cpu),
        lambda dev, cpu: dev.masked_fill(cpu > 0, 0.0),
        lambda dev, cpu: torch.dot(cpu, dev),
        lambda dev, cpu: torch.maximum(cpu, dev.sum()),
    ],
)
def test_refused_as_cuda_refuses(operation: Callable[[torch.Tensor, torch.Tensor], Any]) -> None:
    with device.pretend_device(), pytest.raises(device.DeviceMix):
        operation(device.wrap(torch.ones(3)), torch.ones(3))


def test_results_of_packing_stay_where_cuda_leaves_them() -> None:
    with device.pretend_device() as where:
        padded = device.wrap(torch.ones(2, 4, 3))
        packed = torch.nn.utils.rnn.pack_padded_sequence(padded, torch.tensor([4, 2]), batch_first=True)
        _, lengths = torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
        assert packed.data.device == where
        assert packed.batch_sizes.device == lengths.device == torch.device("cpu")


# --- one call --------------------------------------------------------------------------------------------------------


def test_inputs_are_neither_moved_nor_changed() -> None:
    x = torch.ones(3)
    tree = {"a": [x, (x, None, 2)], "b": x}

    def change(given: dict[str, Any]) -> torch.Tensor:
        assert given["a"][0] is given["b"] is given["a"][1][0]
        assert given["a"][1][1:] == (None, 2)
        given["b"].zero_()
        return given["a"][0]

    result = device.call_on_device(change, (tree,))
    assert result.status == "ok", result.detail
    assert torch.equal(result.value, torch.zeros(3))
    assert torch.equal(x, torch.ones(3)) and tree["b"] is x and type(x) is torch.Tensor


def test_keyword_arguments_are_moved_too() -> None:
    result = device.call_on_device(
        lambda x, *, keep: torch.where(keep, x, 0.0), (torch.ones(2),), {"keep": torch.ones(2) > 0}
    )
    assert result.status == "ok", result.detail


@pytest.mark.parametrize(
    ("build", "path"),
    [
        (lambda x: x.cpu(), ""),
        (lambda x: (x, [x, x.cpu()]), "[1][1]"),
        (lambda x: {"k": x, "v": {"w": torch.zeros(2)}}, "['v']['w']"),
        (lambda x: corpus.Pair(x, torch.zeros(2)), "[1]"),
        (lambda x: (x, np.zeros(2)), "[1]"),
        (lambda x: torch.tensor(1.0), ""),
    ],
)
def test_stray_part_of_a_result_is_named(build: Callable[[torch.Tensor], Any], path: str) -> None:
    result = device.call_on_device(build, (torch.ones(2),))
    assert (result.status, result.path) == ("wrong_device", path)
    assert f"the result{path} is " in result.detail and "cpu" in result.detail


def test_scalar_results_may_be_on_the_cpu() -> None:
    for build in (lambda x: x.sum().cpu(), lambda x: torch.tensor(x.sum().item()), lambda x: (x, x.sum().cpu())):
        assert device.call_on_device(build, (torch.ones(2),), scalar=True).status == "ok"
        assert device.call_on_device(build, (torch.ones(2),)).status == "wrong_device"
    for number in (lambda x: x.sum().item(), lambda x: np.float64(x.sum().item()), lambda x: None):
        assert device.call_on_device(number, (torch.ones(2),)).status == "ok"
    assert device.call_on_device(lambda x: x.cpu(), (torch.ones(2),), scalar=True).status == "wrong_device"


def test_line_that_first_put_the_data_on_the_cpu_is_remembered(tmp_path: Path) -> None:
    source = """
        import torch

        def f(x):
            mask = torch.ones(3, 3)
            mask = mask.tril()
            mask = mask.bool()
            return x.masked_fill(~mask, 0.0)
        """
    function = load(tmp_path, source)
    result = device.call_on_device(function, (torch.ones(3, 3),))
    stranger = next(operand for operand in result.operands if operand.device == "cpu")
    assert stranger == device.Operand((3, 3), "bool", "cpu", device.Place(str(tmp_path / "answer.py"), 5))
    assert result.where == device.Place(str(tmp_path / "answer.py"), 8)
    assert "made on line 5" in result.detail


CACHES = """
    import torch

    MASKS = {}

    def f(x):
        if len(x) not in MASKS:
            MASKS[len(x)] = torch.ones(len(x), device=x.device)
        return x * MASKS[len(x)][:]
    """


def test_cache_filled_on_the_cpu_is_no_mistake(tmp_path: Path) -> None:
    function = load(tmp_path, CACHES)
    function(torch.ones(3))
    assert device.call_on_device(function, (torch.ones(3),)).status == "mix"
    assert device.call_on_device(function, (torch.ones(3),), called_before=True).status == "ok"
    # Nothing that claims a device is left where a plain call would find it.
    assert type(function.__globals__["MASKS"][3]) is torch.Tensor
    assert type(function(torch.ones(3))) is torch.Tensor


def test_cache_is_doubtful_where_the_source_is_gone(tmp_path: Path) -> None:
    function = load(tmp_path, CACHES)
    function(torch.ones(3))
    forget(tmp_path)
    result = device.call_on_device(function, (torch.ones(3),), called_before=True)
    assert result.status == "skipped" and "before this call" in result.detail
    fresh_mistake = device.call_on_device(lambda x: x * torch.ones(3), (torch.ones(3),), called_before=True)
    assert fresh_mistake.status == "mix"


def test_cached_result_is_doubtful_where_the_source_is_gone(tmp_path: Path) -> None:
    source = """
        RESULTS = {}

        def f(x):
            return RESULTS.setdefault(len(x), x * 2)
        """
    function = load(tmp_path, source)
    function(torch.ones(3))
    assert device.call_on_device(function, (torch.ones(3),), called_before=True).status == "ok"
    assert device.call_on_device(function, (torch.ones(3),)).status == "wrong_device"
    forget(tmp_path)
    assert device.call_on_device(function, (torch.ones(3),), called_before=True).status == "skipped"


def test_table_of_the_module_is_a_mistake_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = """
        import torch
        print("loaded")
        TABLE = torch.arange(3)

        def f(x):
            return x + TABLE[:2]
        """
    function = load(tmp_path, source)
    result = device.call_on_device(function, (torch.ones(2),), called_before=True)
    assert result.status == "mix"
    assert [operand.made_at.line for operand in result.operands if operand.made_at is not None] == [4]
    assert capsys.readouterr().out == "loaded\n"


def test_file_that_cannot_be_loaded_twice_is_called_as_it_is(tmp_path: Path) -> None:
    source = """
        import sys
        import torch

        if getattr(sys, "_loaded_once", False):
            raise RuntimeError("again")
        sys._loaded_once = True

        def f(x):
            return x + torch.ones(2)
        """
    try:
        function = load(tmp_path, source)
        result = device.call_on_device(function, (torch.ones(2),), called_before=True)
    finally:
        del sys._loaded_once  # type: ignore[attr-defined]
    assert result.status == "mix" and "answer" not in sys.modules


def test_decorated_function_is_found_in_the_fresh_module(tmp_path: Path) -> None:
    source = CACHES.replace("    def f(x):", "    @torch.no_grad()\n    def f(x):")
    function = load(tmp_path, source)
    function(torch.ones(3))
    assert device.call_on_device(function, (torch.ones(3),), called_before=True).status == "ok"


def test_handed_in_function_meets_cpu_tensors_and_answers_on_the_device() -> None:
    seen: list[type] = []

    def ask(ids: torch.Tensor) -> torch.Tensor:
        seen.append(type(ids))
        return torch.from_numpy(ids.numpy() * 2)

    result = device.call_on_device(lambda x, step: x + step(x), (torch.ones(2), ask))
    assert result.status == "ok", result.detail
    assert torch.equal(result.value, torch.full((2,), 3.0)) and seen == [torch.Tensor]


CHOOSES = """
    import torch

    DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def f(x):
        return x * torch.ones(3, device=DEVICE)
    """


@pytest.mark.skipif(torch.cuda.is_available(), reason="the file would choose the real device")
def test_device_chosen_at_import_is_not_held_against_the_file(tmp_path: Path) -> None:
    result = device.call_on_device(load(tmp_path, CHOOSES), (torch.ones(3),))
    assert result.status == "skipped" and "while it was imported" in result.detail
    assert device.call_on_device(load(tmp_path, CHOOSES), (torch.ones(3),), called_before=True).status == "ok"


def test_device_chosen_at_import_is_right_if_the_file_is_loaded_inside(tmp_path: Path) -> None:
    with device.pretend_device():
        function = load(tmp_path, CHOOSES)
    assert device.call_on_device(function, (torch.ones(3),)).status == "ok"


def test_constant_device_is_a_mistake(tmp_path: Path) -> None:
    function = load(tmp_path, CHOOSES.replace('"cuda" if torch.cuda.is_available() else "cpu"', '"cpu"'))
    assert device.call_on_device(function, (torch.ones(3),)).status == "mix"


def test_unknown_errors_are_skipped_with_the_operation() -> None:
    def pickles(x: torch.Tensor) -> torch.Tensor:
        return torch.save(x, "/dev/null") or x

    result = device.call_on_device(pickles, (torch.ones(2),))
    assert (result.status, result.operation) == ("skipped", "Tensor.__reduce_ex__")
    assert result.where is not None and result.where.file == __file__


def test_error_of_the_submission_is_skipped() -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("first line\nsecond line")

    result = device.call_on_device(fails, (torch.ones(2),))
    assert (result.status, result.detail, result.operation) == ("skipped", "ValueError: first line", "")


def test_error_whose_message_cannot_be_read_is_skipped() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def fails(x: torch.Tensor) -> torch.Tensor:
        raise Silent

    assert device.call_on_device(fails, (torch.ones(2),)).status == "skipped"


def test_mix_after_a_swallowed_failure_of_the_imitation_is_doubtful() -> None:
    def falls_back(x: torch.Tensor) -> torch.Tensor:
        try:
            return x.new([1.0, 2.0]) + x
        except Exception:
            return x + torch.ones(2)

    result = device.call_on_device(falls_back, (torch.ones(2),))
    assert result.status == "skipped" and "Tensor.new" in result.detail


def test_leaving_the_process_is_not_swallowed() -> None:
    with pytest.raises(SystemExit):
        device.call_on_device(lambda x: sys.exit(3), (torch.ones(2),))
    assert torch._C._len_torch_function_stack() == 0


def test_callable_objects_and_wrapped_functions_keep_their_lines(tmp_path: Path) -> None:
    source = """
        import functools
        import torch

        class Net(torch.nn.Module):
            def forward(self, x):
                return x + torch.ones(3)

        class Plain:
            def __call__(self, x):
                return x + torch.ones(3)

        def keep(g):
            @functools.wraps(g)
            def inner(*args):
                return g(*args)
            return inner

        @keep
        def decorated(x):
            return x + torch.ones(3)

        def f(x):
            return x
        """
    module = load(tmp_path, source).__globals__
    for function, line in ((module["Net"](), 7), (module["Plain"](), 11), (module["decorated"], 21)):
        result = device.call_on_device(function, (torch.ones(3),))
        assert result.status == "mix" and result.where is not None and result.where.line == line


def load(folder: Path, source: str) -> Any:
    """The function ``f`` of a file with this source, as a worker loads it."""
    path = folder / "answer.py"
    text = textwrap.dedent(source)
    path.write_text(text)
    linecache.checkcache(str(path))
    namespace: dict[str, Any] = {"__name__": "answer"}
    exec(compile(text, str(path), "exec"), namespace)
    return namespace["f"]


def forget(folder: Path) -> None:
    """Take away the source of what `load` loaded."""
    (folder / "answer.py").unlink()
    linecache.checkcache(str(folder / "answer.py"))


# --- the module ------------------------------------------------------------------------------------------------------


def test_module_imports_only_torch_the_standard_library_and_what_runs_in_a_worker() -> None:
    tree = ast.parse(Path(device.__file__).read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names = {name for name in names if not name.startswith("grader.worker.")}
    roots = {name.split(".")[0] for name in names} - {"__future__"}
    assert roots <= {"torch", *sys.stdlib_module_names}


def test_no_compiler_is_imported() -> None:
    code = (
        "import sys, torch\n"
        "from grader.worker import device\n"
        "result = device.call_on_device(lambda x: (x @ x).softmax(-1)[:, [0]], (torch.ones(2, 2),))\n"
        "assert result.status == 'ok', result\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    root = Path(device.__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root, timeout=120)


# --- whose doing a call is that could not be followed -------------------------------------------------------------------


def raises_by_name(x: torch.Tensor) -> torch.Tensor:
    if x.is_cuda:
        raise RuntimeError("no")
    return x


def asserts_the_exact_type(x: torch.Tensor) -> torch.Tensor:
    assert type(x) is torch.Tensor
    return x


def looks_up_the_device(x: torch.Tensor) -> torch.Tensor:
    return {"cpu": x}[x.device.type]


def recurses_there(x: torch.Tensor) -> torch.Tensor:
    return recurses_there(x) if x.is_cuda else x


def mixes_after_an_exception(x: torch.Tensor) -> torch.Tensor:
    try:
        x.sum(99)
    except IndexError:
        pass
    return x + torch.ones(8, dtype=x.dtype)


def returns_cpu_after_an_exception(x: torch.Tensor) -> torch.Tensor:
    try:
        x.sum(99)
    except IndexError:
        pass
    return torch.ones(8)


def says_it_in_other_words(x: torch.Tensor) -> torch.Tensor:
    try:
        return torch.ops.higher_order.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (x,))
    except Exception as error:
        raise ValueError("not this shape") from error


@pytest.mark.parametrize(
    "function",
    [
        raises_by_name,
        asserts_the_exact_type,
        looks_up_the_device,
        recurses_there,
        mixes_after_an_exception,
        returns_cpu_after_an_exception,
    ],
)
def test_what_a_submission_brings_about_itself_is_its_own(function: Callable[..., Any]) -> None:
    found = device.call_on_device(function, (torch.ones(2, 8, dtype=torch.float64),))
    assert found.status == "skipped" and found.own, found


@pytest.mark.parametrize("name", sorted(corpus.MAY_SKIP))
def test_what_the_imitation_lacks_is_nobodys_own(name: str) -> None:
    found = call(name)
    assert not found.own, found
    assert not device.call_on_device(says_it_in_other_words, (torch.ones(2, 8),)).own
