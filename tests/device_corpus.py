"""What people write about devices: mistakes that a GPU would refuse, and code that is right.

Every function is called with the inputs that its parameters name (`inputs` makes them). ``bug_…`` functions carry a marker
on the line that has to be reported: ``# mix: OPERATION``, ``# numpy: OPERATION``, ``# cpu_only: OPERATION``,
``# generator: OPERATION``, or ``# returned`` on the line that put the result on the CPU. ``legal_…`` functions run
unchanged on CUDA; the ones in `MAY_SKIP` may be given up on, and none may be called wrong. They carry no types, as
submissions carry none.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

POSITIONS = torch.arange(64)
SCALE = torch.tensor(0.5, dtype=torch.float64)

SCALAR_RESULTS = {
    "legal_item_as_result",
    "legal_cpu_number_as_result",
    "legal_loss",
    "legal_sgd_step_with_loss",
    "legal_optimizer_step",
}
MAY_SKIP = {
    "legal_compiled",
    "legal_conditional_operator",
    "legal_data_moved_by_assignment",
    "legal_fork_of_the_generator",
    "legal_generator_on_device",
    "legal_old_constructor",
    "legal_pickled_copy",
    "legal_threads",
}


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


def inputs() -> dict[str, Any]:
    """Fresh CPU inputs by name; N = 2, T = 5, d = 8, V = 11."""
    g = torch.Generator().manual_seed(7)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    return {
        "x": normal(2, 5, 8),
        "y": normal(2, 5, 8),
        "w": normal(8, 8),
        "v": normal(8),
        "table": normal(11, 8),
        "scores": normal(2, 5, 5),
        "ids": torch.randint(0, 11, (2, 5), generator=g),
        "float_ids": torch.randint(0, 11, (2, 5), generator=g).double(),
        "keep": torch.ones(5, 5, dtype=torch.bool).tril(),
        "leaf": normal(4, 8).requires_grad_(),
        "strided": normal(5, 2, 8).transpose(0, 1),
        "params": {"w": normal(8, 3).requires_grad_(), "b": [normal(3).requires_grad_(), None]},
        "pair": Pair(normal(3), normal(3)),
        "none": None,
        "step": 3,
        "call": lambda ids: [float(len(ids)), 0.0, 1.0],
    }


# --- mistakes --------------------------------------------------------------------------------------------------------


def bug_mask_made_on_cpu(scores):
    T = scores.shape[-1]
    mask = torch.triu(torch.ones(T, T, dtype=torch.bool), diagonal=1)
    return torch.softmax(scores.masked_fill(mask, -math.inf), dim=-1)  # mix: Tensor.masked_fill


def bug_additive_mask(scores):
    T = scores.shape[-1]
    mask = torch.full((T, T), -math.inf, dtype=scores.dtype).triu(1)
    return torch.softmax(scores + mask, dim=-1)  # mix: Tensor.add


def bug_arange_positions(x, table):
    T = x.shape[1]
    return x + F.embedding(torch.arange(T), table)  # mix: torch.nn.functional.embedding


def bug_arange_compared_with_device(x):
    T = x.shape[1]
    here = torch.arange(T)
    lengths = (x.sum(-1) > 0).sum(-1)
    return here[None, :] < lengths[:, None]  # mix: Tensor.gt


def bug_zeros_accumulator(x):
    total = torch.zeros(x.shape[0], x.shape[2], dtype=x.dtype)
    for t in range(x.shape[1]):
        total = total + x[:, t]  # mix: Tensor.add
    return total


def bug_zeros_accumulator_in_place(x):
    total = torch.zeros(x.shape[0], x.shape[2], dtype=x.dtype)
    for t in range(x.shape[1]):
        total += x[:, t]  # mix: Tensor.add_
    return total


def bug_number_accumulator_in_place(x):
    total = torch.tensor(0.0, dtype=x.dtype)
    for row in x:
        total += row.sum()  # mix: Tensor.add_
    return total


def bug_result_on_cpu(x):
    return (x * 2).cpu()  # returned


def bug_result_in_a_cpu_buffer(x):
    out = torch.empty(x.shape, dtype=x.dtype)  # returned
    for n in range(x.shape[0]):
        out[n] = x[n].cumsum(0)
    return out


def bug_result_inside_a_tuple(x):
    return x + 1, torch.zeros(3)  # returned


def bug_result_inside_a_dict(x):
    cache = {"k": [x, x.to("cpu")]}  # returned
    return {"out": x, "cache": cache}


def bug_tensor_from_a_list(x):
    rows = [float(row.sum()) for row in x]
    return torch.tensor(rows, dtype=x.dtype)  # returned


def bug_tensor_from_a_list_mixed(x):
    norms = torch.tensor([row.norm().item() for row in x], dtype=x.dtype)
    return x / norms[:, None, None]  # mix: Tensor.div


def bug_device_index_into_cpu_table(ids):
    d = 8
    angles = torch.arange(11)[:, None] / (10.0 ** torch.arange(d))
    return angles[ids]  # mix: indexing


def bug_device_mask_into_cpu_table(keep):
    grid = torch.ones(5, 5)
    return grid[keep]  # mix: indexing


def bug_eye_on_cpu(table):
    hot = torch.eye(11, dtype=table.dtype)
    return table.T @ hot  # mix: Tensor.matmul


def bug_one_hot_on_cpu(ids, table):
    hot = F.one_hot(ids.cpu(), 11).to(table.dtype)
    return torch.matmul(hot, table)  # mix: torch.matmul


def bug_position_table_on_cpu(x):
    _, T, d = x.shape
    angle = torch.arange(T)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
    table = torch.zeros(T, d, dtype=x.dtype)
    table[:, 0::2] = torch.sin(angle)
    table[:, 1::2] = torch.cos(angle)
    return x + table  # mix: Tensor.add


def bug_global_table_on_cpu(x):
    T = x.shape[1]
    return x * POSITIONS[:T, None]  # mix: Tensor.mul


def bug_numpy_round_trip(x):
    rows = x.numpy()  # numpy: Tensor.numpy
    return torch.from_numpy(np.exp(rows)).to(x.device)


def bug_numpy_function(x):
    return torch.as_tensor(np.exp(x), device=x.device)  # numpy: Tensor.__array__


def bug_numpy_asarray(x):
    return torch.tensor(np.asarray(x.detach()).sum(), device=x.device)  # numpy: Tensor.__array__


def bug_from_numpy_stays_on_cpu(x):
    scale = torch.from_numpy(np.linspace(0, 1, x.shape[-1]))
    return x * scale  # mix: Tensor.mul


def bug_full_mask_in_where(scores, keep):
    low = torch.full(scores.shape, -math.inf, dtype=scores.dtype)
    return torch.where(keep, scores, low)  # mix: torch.where


def bug_condition_of_where(scores):
    T = scores.shape[-1]
    allowed = torch.ones(T, T).tril().bool()
    return torch.where(allowed, scores, -math.inf)  # mix: torch.where


def bug_linear_on_cpu(x):
    layer = nn.Linear(8, 4, dtype=x.dtype)
    return layer(x)  # mix: torch.nn.functional.linear


def bug_layer_norm_on_cpu(x):
    norm = nn.LayerNorm(8, dtype=x.dtype)
    return norm(x)  # mix: torch.nn.functional.layer_norm


def bug_lstm_on_cpu(x):
    lstm = nn.LSTM(8, 4, batch_first=True, dtype=x.dtype)
    return lstm(x)[0]  # mix: torch.lstm


def bug_multihead_attention_on_cpu(x):
    layer = nn.MultiheadAttention(8, 2, batch_first=True, dtype=x.dtype)
    return layer(x, x, x)[0]  # mix: torch.nn.functional.multi_head_attention_forward


def bug_hard_coded_device(scores):
    device = "cpu"
    T = scores.shape[-1]
    row = torch.arange(T, device=device)
    mask = row[None, :] > row[:, None]
    return scores.masked_fill(mask, -math.inf).softmax(-1)  # mix: Tensor.masked_fill


def bug_hard_coded_device_object(x):
    device = torch.device("cpu")
    return x.to(device) @ torch.eye(8, dtype=x.dtype, device=device)  # returned


def bug_cat_with_cpu_tensor(x):
    start = torch.zeros(2, 1, 8, dtype=x.dtype)
    return torch.cat([start, x], dim=1)  # mix: torch.cat


def bug_stack_with_cpu_number(x):
    return torch.stack([x.sum(), torch.tensor(1.0, dtype=x.dtype)])  # mix: torch.stack


def bug_index_select(x):
    even = torch.arange(0, 5, 2)
    return x.index_select(1, even)  # mix: Tensor.index_select


def bug_gather(x):
    index = torch.zeros(2, 5, 1, dtype=torch.int64)
    return x.gather(2, index)  # mix: Tensor.gather


def bug_scatter(scores):
    index = torch.arange(5).expand(2, 5, 5)
    return torch.zeros_like(scores).scatter_(2, index, scores)  # mix: Tensor.scatter_


def bug_assignment_of_cpu_values_at_indices(x, ids):
    out = torch.zeros_like(x)
    rows = torch.tensor([0, 1])
    out[:, rows] = torch.ones(2, 8, dtype=x.dtype)  # mix: assignment to an index
    return out


def bug_cross_entropy_labels(scores):
    labels = torch.zeros(10, dtype=torch.int64)
    return F.cross_entropy(scores.reshape(10, 5), labels)  # mix: torch.nn.functional.cross_entropy


def bug_sdpa_mask(x):
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(x, x, x, mask)  # mix: torch.nn.functional.scaled_dot_product_attention


def bug_sdpa_keys(x, y):
    keys = y.cpu()
    return F.scaled_dot_product_attention(x, keys, keys)  # mix: torch.nn.functional.scaled_dot_product_attention


def bug_einsum(x):
    w = torch.eye(8, dtype=x.dtype)
    return torch.einsum("ntd,de->nte", x, w)  # mix: torch.einsum


def bug_inside_a_helper(x):
    return _helper_that_mixes(x)


def _helper_that_mixes(x):
    weights = torch.ones(x.shape[-1], dtype=x.dtype)
    return (x * weights).sum(-1)  # mix: Tensor.mul


def bug_inside_vmap(x):
    w = torch.ones(8, dtype=x.dtype)
    return torch.func.vmap(lambda row: row * w)(x[0])  # mix: Tensor.mul


def bug_inside_functional_grad(v):
    w = torch.ones(8, dtype=v.dtype)
    return torch.func.grad(lambda p: (p * w).sum())(v)  # mix: Tensor.mul


def bug_inside_inference_mode(x):
    with torch.inference_mode():
        return x @ torch.ones(8, 3, dtype=x.dtype)  # mix: Tensor.matmul


def bug_gradient_on_cpu(leaf):
    (leaf * 2).sum().backward()
    return leaf.grad.cpu()  # returned


def bug_gradient_argument(leaf):
    out = leaf * 2
    out.backward(torch.ones(4, 8, dtype=leaf.dtype))  # mix: Tensor.backward
    return leaf.grad


def bug_bias_in_a_dict(params):
    bias = torch.zeros(3, dtype=params["w"].dtype)
    return {"w": params["w"] + bias}  # mix: Tensor.add


def bug_equal_across_devices(x):
    return x if torch.equal(x, x.cpu()) else -x  # mix: torch.equal


def bug_meshgrid(v):
    rows, columns = torch.meshgrid(v, torch.arange(8, dtype=v.dtype), indexing="ij")  # mix: torch.meshgrid
    return rows + columns


def bug_repeat_interleave(x):
    return x.repeat_interleave(torch.tensor([2, 0, 1, 1, 1]), dim=1)  # mix: Tensor.repeat_interleave


def bug_cpu_generator(x):
    g = torch.Generator().manual_seed(0)
    return x + torch.rand(x.shape, generator=g, device=x.device, dtype=x.dtype)  # generator: torch.rand


def bug_apply(x):
    return x.clone().apply_(abs)  # cpu_only: Tensor.apply_


def bug_out_argument(x, w):
    out = torch.empty(2, 5, 8, dtype=x.dtype)
    torch.matmul(x, w, out=out)  # mix: torch.matmul
    return out


def bug_tensor_constructor(x):
    return x + torch.DoubleTensor([1.0] * 8)  # mix: Tensor.add


def bug_comparison_with_cpu_table(x):
    return torch.maximum(x, torch.zeros(8, dtype=x.dtype))  # mix: torch.maximum


def bug_quantiles_on_cpu(x):
    return torch.quantile(x, torch.tensor([0.1, 0.9], dtype=x.dtype))  # mix: torch.quantile


def bug_triangular_indices(scores):
    rows, columns = torch.triu_indices(5, 5, 1)
    low = torch.zeros(5, 5, dtype=scores.dtype)
    low[rows, columns] = -math.inf
    return scores + low  # mix: Tensor.add


def bug_result_stacked_on_cpu(x):
    rows = [row.detach().cpu() for row in x]  # returned
    return torch.stack(rows)


def bug_embedding_module(ids):
    table = nn.Embedding(11, 4)
    return table(ids)  # mix: torch.nn.functional.embedding


def bug_rope_complex(x):
    angle = torch.outer(torch.arange(5), 1.0 / 10.0 ** torch.arange(4)).double()
    turn = torch.polar(torch.ones_like(angle), angle)
    z = torch.view_as_complex(x.reshape(2, 5, 4, 2))
    return torch.view_as_real(z * turn).flatten(2)  # mix: Tensor.mul


# --- right code ------------------------------------------------------------------------------------------------------


def legal_arithmetic(x, y):
    return (1 + x) * 2 - y / 3 + x**2 - 1 / (y.abs() + 1) + (-x) // 2 + 5 % (x.abs() + 1)


def legal_matmul_and_transpose(x, w):
    return torch.softmax(x @ w @ x.transpose(-2, -1) / math.sqrt(8), dim=-1) @ x.mT.mT


def legal_cpu_number_times_tensor(x):
    return x * torch.tensor(2.0) + torch.tensor(1) - torch.tensor(3.0, dtype=torch.float64)


def legal_global_cpu_number(x):
    return x * SCALE


def legal_cpu_number_comparisons(x):
    return torch.where(x > torch.tensor(0.0), x, torch.tensor(-math.inf, dtype=x.dtype))


def legal_where_with_numbers(x, keep, scores):
    return torch.where(keep, scores, float("-inf")), torch.where(x > 0, 1.0, 0.0)


def legal_cpu_number_in_masked_fill(scores, keep):
    return scores.masked_fill(~keep, torch.tensor(-math.inf, dtype=scores.dtype))


def legal_cpu_number_clamp(x):
    return torch.clamp(x, min=torch.tensor(0.0, dtype=x.dtype)), x.clamp(-1, 1), x.clamp_min(0)


def legal_cpu_index(x):
    return x[:, torch.tensor([0, 2, 1])]


def legal_cpu_boolean_index(x):
    even = torch.arange(5) % 2 == 0
    return x[:, even]


def legal_list_and_range_index(x):
    some = x[:, [0, 2]], x[0, range(3)], x[[1, 0]], x[[True, False]], x[:, np.array([3, 1])], x[[0], [1, 2]], x[:, []]
    return *some, x[..., None, ::2], x[-1], x[:, 1:3], x[None], x[:, np.int64(2)], x[x.new_tensor(1).long(), [0, 3]]


def legal_device_index(x, ids, table):
    return table[ids], x[torch.arange(2, device=x.device)[:, None], ids % 5]


def legal_device_number_indexes_cpu_table(ids):
    sizes = torch.tensor([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
    return torch.full((2,), int(sizes[ids[0, 0]]), device=ids.device)


def legal_device_number_indexes_list(ids):
    names = list(range(11))
    return ids * names[ids[0, 1]]


def legal_float_ids(float_ids, table):
    return table[float_ids.long()] + table[float_ids.to(torch.int64)]


def legal_assignment(x, y):
    out = x.clone()
    out[:, 0] = 0
    out[:, 1] = y[:, 1]
    out[0, 2, :] = torch.tensor(1.0)
    out[out < -1] = -1.0
    out[:, torch.tensor([3, 4])] = y[:, :2]
    out[..., 1:3] *= 2
    return out


def legal_assignment_from_cpu(x):
    out = torch.zeros_like(x)
    out[:, 0] = torch.ones(8, dtype=x.dtype)
    out[:, 1:] = torch.arange(8, dtype=x.dtype)
    return out


def legal_assignment_of_one_cpu_value_at_mask(x):
    out = x.clone()
    out[x > 0] = torch.tensor([0.5], dtype=x.dtype)
    out[x < -1] = torch.tensor(0.25, dtype=x.dtype)
    return out


def legal_fill_a_cpu_buffer_then_move(x):
    out = torch.empty(x.shape, dtype=x.dtype)
    for n in range(x.shape[0]):
        out[n] = x[n]
    return out.to(x.device)


def legal_item(x):
    return x / x.abs().max().item() + float(x[0, 0, 0]) + int(x[0, 0, 1] * 10)


def legal_item_as_result(x):
    return float(x.mean())


def legal_cpu_number_as_result(x):
    return x.mean().cpu()


def legal_tolist(x, ids):
    return torch.tensor(x.tolist(), dtype=x.dtype, device=x.device) + len(ids[0].tolist())


def legal_branch_on_value(x):
    if x.sum() > 0 and bool((x < 100).all()) and not torch.isnan(x).any():
        return x
    return -x


def legal_python_max(ids):
    longest = max(row.sum() for row in ids)
    return torch.arange(int(longest), device=ids.device), [len(row) for row in ids]


def legal_to_cpu_and_back(x):
    on_cpu = x.cpu()
    table = torch.linspace(0, 1, 8, dtype=x.dtype)
    return (on_cpu * table).to(x.device)


def legal_numpy_by_way_of_cpu(x):
    rows = np.exp(x.detach().cpu().numpy())
    return torch.from_numpy(rows).to(x.device), torch.as_tensor(rows, device=x.device)


def legal_numpy_forced(x):
    return torch.from_numpy(x.numpy(force=True)).to(x)


def legal_numpy_array_to_device(x):
    return torch.tensor(np.arange(8.0), device=x.device) * x, torch.asarray(np.ones(8), device=x.device)


def legal_numpy_with_a_fallback(x):
    try:
        rows = x.numpy()
    except TypeError:
        rows = x.cpu().numpy()
    return torch.from_numpy(rows * 2).to(x.device)


def legal_fallback_on_runtime_error(x):
    mask = torch.ones(8, dtype=x.dtype)
    try:
        return x * mask
    except RuntimeError:
        return x * mask.to(x.device)


def legal_tensor_on_device(x):
    return x[..., :3] * torch.tensor([1.0, 2.0, 3.0], device=x.device), torch.tensor(True, device=x.device)


def legal_tensor_of_device_numbers(x):
    return torch.tensor([row.sum() for row in x], dtype=x.dtype, device=x.device)


def legal_tensor_of_a_tensor(x):
    return torch.as_tensor(x) + torch.as_tensor(x, dtype=torch.float32), torch.asarray(x), x.new_tensor([1, 2])


def legal_new(x):
    return x.new_zeros(3), x.new_ones((2, 2)), x.new_full((2,), 7.0), x.new_empty(0), x.new_tensor([[1.0]])


def legal_like(x):
    made = torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 2), torch.empty_like(x).fill_(3)
    return *made, torch.zeros_like(x, dtype=torch.bool)


def legal_factories_on_device(x):
    device = x.device
    return (
        torch.zeros(2, 3, device=device),
        torch.ones(3, dtype=x.dtype, device=device),
        torch.full((2,), -math.inf, device=device),
        torch.eye(3, device=device),
        torch.arange(5, device=device),
        torch.linspace(0, 1, 4, device=device),
        torch.empty(0, device=device),
        torch.tril(torch.ones(4, 4, device=device)),
        torch.tril_indices(3, 3, device=device),
        torch.full(size=(1,), fill_value=x[0, 0, 0], device=device),
    )


def legal_device_by_string(x):
    if x.is_cuda:
        device = "cuda"
    else:
        device = "cpu"
    return torch.zeros(8, dtype=x.dtype, device=device) + x.to(device)


def legal_device_by_availability(x):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu") if x.is_cuda else x.device
    return x + torch.ones(8, dtype=x.dtype).to(device)


def legal_device_by_index(x):
    index = x.get_device()
    return x + (torch.ones(8, dtype=x.dtype, device=index) if index >= 0 else torch.ones(8, dtype=x.dtype))


def legal_cuda_method(x):
    table = torch.ones(8, dtype=x.dtype)
    return x * (table.cuda() if x.is_cuda else table)


def legal_device_comparisons(x, y):
    assert x.device == y.device
    assert x.device == torch.device(str(x.device))
    assert x.device.type in ("cuda", "cpu") and x.is_cuda == (x.device.type == "cuda")
    assert x.get_device() == (0 if x.is_cuda else -1) and torch.get_device(x) == x.get_device()
    assert torch.zeros(2).device == torch.device("cpu") and not torch.zeros(2).is_cuda
    assert not x.is_meta and {x.device: 1}[y.device] == 1
    return x


def legal_default_device_block(x):
    with torch.device(x.device):
        T = x.shape[1]
        mask = torch.ones(T, T).tril()
        return x * torch.arange(8) + mask.sum() + torch.tensor([1.0])


def legal_default_device_set(x):
    torch.set_default_device(x.device)
    try:
        return x + torch.ones(8, dtype=x.dtype) + torch.tensor([1.0])
    finally:
        torch.set_default_device(None)


def legal_default_device_left_set(x):
    torch.set_default_device(x.device)
    return x + torch.zeros(8, dtype=x.dtype)


def legal_default_device_to_leave(x):
    with torch.device(x.device), torch.device("cpu"):
        rows = torch.arange(3)
    return x[:, rows]


def legal_dtype_moves(x, ids):
    return x.float().double(), x.to(torch.float32).to(x), ids.type_as(x), x.half().to(x.dtype), x.type(torch.float32)


def legal_to_other(x):
    return torch.arange(8).to(x) + x, torch.ones(8, dtype=torch.float32).type_as(x) * x


def legal_to_variants(x):
    ones = torch.ones(8, dtype=torch.float32)
    return (
        ones.to(x.device, x.dtype),
        ones.to(device=x.device),
        ones.to(dtype=x.dtype, device=x.device, non_blocking=True),
        ones.to(str(x.device)),
        x.to(x.device),
        x.to("cpu").to(x.device),
    )


def legal_type_string(x):
    return torch.ones(8).type(x.type()) + x


def legal_repr(x, ids):
    text = f"{x} {ids!r} {x.sum():.3f} {x[0, 0, 0]} {x.shape}"
    print(text)
    return x


def legal_allclose(x, y):
    return x if torch.allclose(x, y) or torch.equal(x, y) else y


def legal_random(x):
    return torch.rand(3, device=x.device) + torch.randn_like(x[0, 0, :3]), torch.randint(0, 5, (2,), device=x.device)


def legal_random_in_place(x):
    torch.manual_seed(3)
    return (
        torch.empty_like(x).normal_().uniform_(0, 1),
        torch.bernoulli(torch.sigmoid(x)),
        torch.randperm(4, device=x.device),
    )


def legal_multinomial(scores):
    return torch.multinomial(torch.softmax(scores[0], -1), 2)


def legal_dropout(x):
    return F.dropout(x, 0.5, training=True), F.dropout(x, 0.5, training=False)


def legal_detach_clone_data(x, leaf):
    return x.detach().clone(), leaf.data * 2, leaf.detach().requires_grad_()


def legal_copy_across(x):
    on_device = torch.empty_like(x).copy_(torch.ones(8, dtype=x.dtype))
    on_cpu = torch.empty(x.shape, dtype=x.dtype).copy_(x)
    return on_device + on_cpu.to(x.device)


def legal_in_place(x):
    out = x.clone()
    out += 1
    out.mul_(2).sub_(x).clamp_(min=0).masked_fill_(out > 3, 0.0)
    out.exp_()
    return out


def legal_in_place_shapes(x):
    out = x.clone()
    out.unsqueeze_(0).squeeze_(0).transpose_(0, 1)
    assert tuple(out.shape) == (5, 2, 8)
    other = x[0].clone().t_()
    return out, other + 1, out.contiguous().view(10, 8)


def legal_in_place_on_a_view(x):
    out = x.clone()
    view = out[:, 0]
    view += 1
    out.view(-1)[0] = 5
    out.diagonal(dim1=-2, dim2=-1).zero_()
    return out


def legal_in_place_on_a_view_with_gradient(leaf):
    out = leaf * 1
    out[:, 0] += 1
    out[1] *= 3
    out[0, 0] = 2.0
    (out * out).sum().backward()
    return leaf.grad


def legal_cat_stack_split(x, y):
    a, b = x.split(4, dim=-1)
    c, d = y.chunk(2, dim=-1)
    return torch.cat([a, b, c, d], dim=-1), torch.stack([a, c]), torch.hstack([x, y]), x.unbind(1), torch.vstack((a, d))


def legal_views(x):
    N, T, d = x.shape
    heads = x.view(N, T, 2, d // 2).transpose(1, 2)
    merged = heads.transpose(1, 2).reshape(N, T, d)
    return (
        merged,
        x.permute(2, 0, 1),
        x.flatten(1),
        x.expand(2, 2, 5, 8),
        x.unfold(1, 2, 1),
        x.movedim(0, -1),
        x.T.shape,
    )


def legal_expand_as(x):
    row = torch.ones(8)
    assert row.expand_as(x).shape == x.shape
    return x.view_as(torch.empty(10, 8)), x.reshape_as(torch.empty(2, 40)), x.expand_as(torch.empty(3, 2, 5, 8))


def legal_strided_input(strided):
    assert not strided.is_contiguous()
    return strided.contiguous().view(2, -1), strided.reshape(10, 8), strided.stride()[0] * strided


def legal_reductions(x):
    values, where = x.max(dim=-1)
    var, mean = torch.var_mean(x, dim=-1, correction=0)
    return (
        x.sum(),
        x.mean(-1),
        values,
        where,
        var,
        mean,
        x.std(),
        x.argmax(-1),
        x.norm(dim=-1),
        x.logsumexp(-1),
        x.prod(-1),
    )


def legal_sorting(x):
    values, order = x.sort(dim=-1, descending=True, stable=True)
    top = torch.topk(x, 3)
    return values.cumsum(-1), order, top.values, top.indices, x.argsort(-1), torch.unique((x * 2).long()), x.median()


def legal_top_p(scores):
    probabilities, order = scores.softmax(-1).sort(-1, descending=True)
    dropped = probabilities.cumsum(-1) - probabilities >= 0.5
    keep = torch.zeros_like(dropped).scatter(-1, order, ~dropped)
    return scores.masked_fill(~keep, -math.inf)


def legal_scatter_gather(x, ids):
    index = ids[..., None] % 8
    return (
        torch.zeros_like(x).scatter_(2, index, 1.0),
        x.gather(2, index),
        x.new_zeros(2, 11).scatter_add_(1, ids, torch.ones_like(ids, dtype=x.dtype)),
        x.index_select(1, ids[0] % 5),
        torch.take_along_dim(x, index, dim=2),
        x.new_zeros(11, 8).index_add_(0, ids[0], x[0]),
        torch.bincount(ids.flatten(), minlength=11),
    )


def legal_repeat(x):
    return x.repeat_interleave(2, dim=1), x.repeat(1, 2, 1), torch.tile(x, (2,)), x.roll(1, 1), x.flip(-1)


def legal_repeat_by_tensor(x):
    return x.repeat_interleave(torch.tensor([2, 0, 1, 1, 1], device=x.device), dim=1)


def legal_causal_mask_by_tril(scores):
    T = scores.size(-1)
    allowed = torch.ones(T, T, device=scores.device, dtype=torch.bool).tril()
    return scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(-1)


def legal_causal_mask_by_triu(scores):
    T = scores.size(-1)
    penalty = torch.triu(torch.full((T, T), -math.inf, device=scores.device, dtype=scores.dtype), 1)
    return (scores + penalty).softmax(dim=-1)


def legal_causal_mask_by_positions(scores):
    row = torch.arange(scores.size(-1), device=scores.device)
    return torch.where(row[None, :] <= row[:, None], scores, -math.inf).softmax(-1)


def legal_mask_moved(scores):
    T = scores.size(-1)
    mask = torch.tril(torch.ones(T, T)).bool()
    return scores.masked_fill(~mask.to(scores.device), -math.inf).softmax(-1)


def legal_nonzero(x):
    rows, columns, features = torch.nonzero(x > 0, as_tuple=True)
    return x[rows, columns, features], (x > 1).nonzero(), x[x > 0], torch.masked_select(x, x > 0), torch.argwhere(x > 2)


def legal_one_hot(ids, table):
    return F.one_hot(ids, 11).to(table.dtype) @ table, F.one_hot(ids)


def legal_embedding(ids, table):
    return F.embedding(ids, table), F.embedding(ids, table, padding_idx=0)


def legal_functional(x, w, v):
    return (
        F.linear(x, w, v),
        F.layer_norm(x, (8,), v, v, 1e-5),
        F.gelu(x, approximate="tanh"),
        F.silu(x),
        F.relu(x),
        F.softplus(x),
        F.log_softmax(x, -1),
        F.normalize(x, dim=-1),
        F.pad(x, (1, 2)),
        F.softmax(x, dim=-1, dtype=torch.float32),
        F.cosine_similarity(x[0], x[1]),
        F.glu(x),
    )


def legal_rms_norm(x, v):
    return F.rms_norm(x, (8,), v, 1e-6), x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * v


def legal_loss(scores, ids):
    logits = scores.reshape(10, 5)
    labels = ids.reshape(-1) % 5
    labels[0] = -100
    return F.cross_entropy(logits, labels, ignore_index=-100), F.nll_loss(F.log_softmax(logits, -1), labels)


def legal_sdpa(x, y, keep):
    q = x.view(2, 5, 2, 4).transpose(1, 2)
    k = y.view(2, 5, 2, 4).transpose(1, 2)
    penalty = torch.zeros(5, 5, device=x.device, dtype=x.dtype).masked_fill(~keep, -math.inf)
    return (
        F.scaled_dot_product_attention(q, k, k),
        F.scaled_dot_product_attention(q, k, k, is_causal=True),
        F.scaled_dot_product_attention(q, k, k, attn_mask=keep),
        F.scaled_dot_product_attention(q, k, k, attn_mask=penalty, scale=0.3),
    )


def legal_sdpa_backend(x):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(x, x, x)


def legal_einsum(x, y, w):
    return torch.einsum("ntd,nsd->nts", x, y), torch.einsum("ntd,de,nse->nts", x, w, y), torch.einsum("...d->...", x)


def legal_module_moved(x):
    torch.manual_seed(0)
    layer = nn.Linear(8, 4).to(x.device, x.dtype)
    return layer(x), layer.weight, nn.Linear(8, 2, device=x.device, dtype=x.dtype)(x)


def legal_module_stack(x):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8), nn.LayerNorm(8), nn.Dropout(0.1), nn.RMSNorm(8))
    return net.eval().to(device=x.device, dtype=x.dtype)(x)


def legal_module_with_buffer(x):
    class Masked(nn.Module):
        def __init__(self, T: int) -> None:
            super().__init__()
            self.register_buffer("mask", torch.ones(T, T).tril().bool())
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, scores: torch.Tensor) -> torch.Tensor:
            return scores.masked_fill(~self.mask, -math.inf).softmax(-1) * self.scale

    return Masked(5).to(x.device)(x @ x.mT)


def legal_module_cuda(x):
    torch.manual_seed(0)
    layer = nn.Linear(8, 4, dtype=x.dtype)
    return (layer.cuda() if x.is_cuda else layer)(x)


def legal_functional_call(x, w):
    layer = nn.Linear(8, 8, bias=False)
    return torch.func.functional_call(layer, {"weight": w}, (x,))


def legal_parameters_assigned(x, w):
    layer = nn.Linear(8, 8, bias=False, device=x.device, dtype=x.dtype)
    with torch.no_grad():
        layer.weight.copy_(w)
    other = nn.Linear(8, 8, bias=False)
    other.weight = nn.Parameter(w.clone())
    loaded = nn.Linear(8, 8, bias=False, dtype=x.dtype).to(x.device)
    loaded.load_state_dict({"weight": w})
    return layer(x) + other(x) + loaded(x)


def legal_multihead_attention(x):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True, dtype=x.dtype).to(x.device)
    mask = torch.ones(5, 5, dtype=torch.bool, device=x.device).triu(1)
    return layer(x, x, x, attn_mask=mask, need_weights=True)


def legal_transformer_layer(x):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dtype=x.dtype, device=x.device).eval()
    mask = nn.Transformer.generate_square_subsequent_mask(5, device=x.device, dtype=x.dtype)
    with torch.no_grad():
        return layer(x, src_mask=mask, is_causal=True)


def legal_recurrent(x):
    torch.manual_seed(0)
    out, (h, c) = nn.LSTM(8, 4, batch_first=True, dtype=x.dtype).to(x.device)(x)
    again, _ = nn.GRU(8, 4, batch_first=True, dtype=x.dtype, device=x.device)(x)
    return out, h, c, again.shape


def legal_packed_sequence(x):
    torch.manual_seed(0)
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]), batch_first=True)
    out, _ = nn.LSTM(8, 4, batch_first=True, dtype=x.dtype).to(x.device)(packed)
    padded, lengths = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
    return padded * lengths.to(x.device)[:, None, None]


def legal_convolution(x):
    torch.manual_seed(0)
    return nn.Conv1d(8, 4, 3, padding=1, dtype=x.dtype).to(x.device)(x.mT), F.avg_pool1d(x, 2), F.max_pool1d(x, 2)


def legal_no_grad(x, leaf):
    with torch.no_grad():
        return leaf * 2 + x.mean()


def legal_inference_mode(x, w):
    with torch.inference_mode():
        mask = torch.ones(5, 5, device=x.device, dtype=x.dtype).tril()
        return mask @ (x @ w).reshape(2, 5, 8).to(torch.float32).to(x.dtype)


def legal_backward(leaf, x):
    loss = (torch.tanh(leaf @ x[0].T) ** 2).mean()
    loss.backward()
    return leaf.grad


def legal_backward_with_gradient(leaf):
    out = leaf.exp()
    out.backward(torch.ones_like(out))
    return leaf.grad.clone()


def legal_autograd_grad(leaf, x):
    out = F.layer_norm(leaf, (8,)).softmax(-1) @ x[0].T
    (first,) = torch.autograd.grad(out.sum(), leaf, create_graph=True)
    (second,) = torch.autograd.grad(first.pow(2).sum(), [leaf])
    return first.detach(), second


def legal_autograd_function(leaf):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return grad * 2 * x + torch.zeros(8, dtype=x.dtype, device=x.device)

    Square.apply(leaf).sum().backward()
    return leaf.grad


def legal_hook(leaf):
    leaf.register_hook(lambda grad: grad * 2)
    (leaf * leaf).sum().backward()
    return leaf.grad


def legal_embedding_gradient(ids, table):
    weight = table.clone().requires_grad_()
    F.embedding(ids, weight).pow(2).sum().backward()
    other = table.clone().requires_grad_()
    other[ids].sum().backward()
    return weight.grad, other.grad


def legal_sdpa_gradient(x):
    q = x.clone().requires_grad_()
    F.scaled_dot_product_attention(q, q, q, is_causal=True).square().sum().backward()
    return q.grad


def legal_sgd_step_with_loss(params, x):
    loss = F.cross_entropy((x @ params["w"] + params["b"][0]).flatten(0, 1), torch.arange(10, device=x.device) % 3)
    grads = torch.autograd.grad(loss, [params["w"], params["b"][0]])
    new = {"w": (params["w"] - 0.1 * grads[0]).detach(), "b": [(params["b"][0] - 0.1 * grads[1]).detach(), None]}
    return new, loss.item()


def legal_sgd_step_on_clones(params, x):
    leaves = [params["w"].detach().clone().requires_grad_(), params["b"][0].detach().clone().requires_grad_()]
    (x @ leaves[0] + leaves[1]).square().mean().backward()
    with torch.no_grad():
        for p in leaves:
            p -= 0.1 * p.grad
            p.grad = None
    return [p.detach() for p in leaves]


def legal_optimizer_step(params, x):
    leaves = [nn.Parameter(params["w"].detach().clone()), nn.Parameter(params["b"][0].detach().clone())]
    for kind in (torch.optim.SGD, torch.optim.AdamW):
        optimizer = kind(leaves, lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            loss = (x @ leaves[0] + leaves[1]).square().mean()
            loss.backward()
            optimizer.step()
    return [p.detach() for p in leaves], loss.detach().cpu()


def legal_clip_gradients(params, x):
    leaves = [params["w"].detach().clone().requires_grad_(), params["b"][0].detach().clone().requires_grad_()]
    (x @ leaves[0] + leaves[1]).square().mean().backward()
    total = nn.utils.clip_grad_norm_(leaves, 0.01)
    return [p.grad for p in leaves], total


def legal_global_norm(x, y):
    grads = [x, None, y]
    norm = torch.sqrt(sum((g**2).sum() for g in grads if g is not None))
    factor = min(1.0, 1.0 / norm.item())
    return [None if g is None else g * factor for g in grads], torch.linalg.vector_norm(x)


def legal_sum_of_numbers(x):
    total = torch.tensor(0.0, dtype=x.dtype)
    for row in x:
        total = total + row.sum()
    return total


def legal_vmap(x, w):
    return torch.func.vmap(lambda row: torch.tanh(row @ w).sum(-1))(x), torch.vmap(torch.dot)(x[0], x[1])


def legal_vmap_asks_for_the_device(x):
    return torch.func.vmap(lambda row: row + torch.arange(8, device=row.device))(x)


def legal_functional_grad(v, w):
    gradient = torch.func.grad(lambda p: (torch.tanh(w @ p) ** 2).sum())(v)
    return gradient, torch.func.jacrev(lambda p: p * w[0])(v), torch.func.hessian(lambda p: (p**3).sum())(v)


def legal_forward_mode(v):
    return torch.func.jvp(lambda p: p.sin(), (v,), (torch.ones_like(v),))


def legal_autocast(x, w):
    with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=False):
        return x @ w


def legal_autocast_enabled(x, w):
    with torch.autocast(device_type=x.device.type, dtype=torch.bfloat16):
        out = x.float() @ w.float()
    return torch.zeros_like(out, dtype=x.dtype)


def legal_checkpoint(leaf, w):
    from torch.utils.checkpoint import checkpoint

    out = checkpoint(lambda p: torch.tanh(p @ w) + torch.ones(8, device=p.device), leaf, use_reentrant=False)
    out.sum().backward()
    return leaf.grad


def legal_checkpoint_reentrant(leaf, w):
    from torch.utils.checkpoint import checkpoint

    checkpoint(lambda p: torch.tanh(p @ w), leaf, use_reentrant=True).sum().backward()
    return leaf.grad


def legal_rope_complex(x):
    angle = torch.outer(torch.arange(5, device=x.device), 1.0 / 10.0 ** torch.arange(4, device=x.device)).double()
    turn = torch.polar(torch.ones_like(angle), angle)
    z = torch.view_as_complex(x.reshape(2, 5, 4, 2))
    return torch.view_as_real(z * turn).flatten(2), torch.view_as_real(z.conj() * 1j), z.real, z.imag, z.conj().abs()


def legal_rope_interleaved(x, ids):
    angle = ids[..., None] * 10000.0 ** (-torch.arange(0, 8, 2, device=x.device, dtype=x.dtype) / 8)
    a, b = x[..., 0::2], x[..., 1::2]
    out = torch.empty_like(x)
    out[..., 0::2] = a * angle.cos() - b * angle.sin()
    out[..., 1::2] = a * angle.sin() + b * angle.cos()
    return out


def legal_online_softmax(x, y):
    scores = x @ y.mT
    high = torch.full(scores.shape[:-1], -math.inf, device=x.device, dtype=x.dtype)
    total = torch.zeros_like(high)
    out = torch.zeros_like(x)
    for start in range(0, 5, 2):
        block = scores[..., start : start + 2]
        new = torch.maximum(high, block.amax(-1))
        shrink = torch.exp(high - new)
        weights = torch.exp(block - new[..., None])
        total = total * shrink + weights.sum(-1)
        out = out * shrink[..., None] + weights @ y[:, start : start + 2]
        high = new
    return out / total[..., None], high + total.log()


def legal_cache_step(x, y):
    cache = torch.cat((y, x[:, :1]), dim=1)
    empty = x.new_empty(2, 0, 8)
    return cache, torch.cat([empty, x], 1)


def legal_none_and_numbers(x, none, step):
    assert none is None and step == 3
    return x * step, none, step


def legal_named_tuple(pair):
    assert type(pair).__name__ == "Pair"
    return pair.first + pair[1], pair


def legal_handed_in_function(x, call):
    logits = call([1, 2])
    return torch.tensor(logits, device=x.device).argmax()


def legal_step_function_answers(call):
    ids = [1]
    for _ in range(2):
        ids.append(int(np.argmax(call(ids))))
    return ids


def legal_linalg(w):
    return (
        torch.linalg.inv(w),
        torch.linalg.qr(w).Q,
        torch.linalg.solve(w, w),
        torch.linalg.svdvals(w),
        w.det(),
        torch.trace(w),
    )


def legal_sum_product_functions(x, v):
    return (
        torch.addmm(x[0], x[0], v.outer(v)),
        torch.baddbmm(x, x, v.outer(v).expand(2, 8, 8)),
        torch.outer(v, v),
        v.dot(v),
    )


def legal_lerp_and_addcmul(x, y):
    return (
        torch.lerp(x, y, 0.3),
        torch.addcmul(x, x, y, value=2),
        torch.addcdiv(x, x, y),
        x.lerp(y, torch.tensor(0.5, dtype=x.dtype)),
    )


def legal_searching(x):
    edges = torch.linspace(-1, 1, 5, device=x.device, dtype=x.dtype)
    return torch.bucketize(x, edges), torch.searchsorted(edges, x), torch.histc(x, 4), torch.isin(x.long(), x.long())


def legal_meshgrid(v):
    return torch.meshgrid(v, v, indexing="ij"), torch.cartesian_prod(v, v), torch.combinations(v[:3])


def legal_membership_and_length(ids):
    return ids * 2 if 3 in ids or len(ids) == 2 else ids


def legal_iteration(x):
    return torch.stack([row.sum() for row in x]), [a + b for a, b in zip(x, x, strict=True)], sum(x.unbind(0))


def legal_deepcopy(x, leaf):
    import copy

    return (
        copy.deepcopy(x),
        copy.deepcopy({"p": leaf.detach()}),
        copy.deepcopy(nn.Linear(8, 8, device=x.device))(x.float()),
    )


def legal_size_arithmetic(x):
    scale = torch.tensor(x.shape[-1]).sqrt()
    return x / scale, x / torch.sqrt(torch.tensor(8.0)), x * torch.tensor(x.shape).prod()


def legal_math_and_numpy_numbers(x):
    return x / np.sqrt(8) * np.float64(2.0) + math.sqrt(x[0, 0, 0].abs()) + np.int64(2)


def legal_empty_results(x):
    return x[:, :0], torch.zeros(0, 3, device=x.device), [], {}, ()


def legal_data_pointer(x):
    assert x.data_ptr() == x.view(-1).data_ptr() and x.clone().data_ptr() != x.data_ptr()
    return x


def legal_bit_operations(keep, ids):
    return (
        keep & keep.T,
        keep | ~keep,
        keep ^ keep.T,
        ids & 1,
        ids << 1,
        keep.logical_and(keep),
        keep.all(-1),
        keep.any(),
    )


def legal_cumulative(x):
    return x.cumprod(-1), x.cummax(-1).values, x.logcumsumexp(-1), x.diff(dim=1), torch.cdist(x, x)


def legal_special_functions(x):
    return (
        torch.special.erf(x),
        torch.erf(x),
        torch.sigmoid(x),
        x.sign(),
        torch.nan_to_num(x / 0 * 0),
        torch.logit(x.sigmoid()),
    )


def legal_set_gradient_enabled(x):
    with torch.set_grad_enabled(False), contextlib.suppress(ValueError):
        return x + 1
    return None


def legal_generator_on_device(x):
    g = torch.Generator(device=x.device).manual_seed(0)
    return torch.rand(3, generator=g, device=x.device) * 0


def legal_pickled_copy(x):
    import copy

    return copy.copy(x)


def legal_data_moved_by_assignment(x):
    p = nn.Parameter(torch.ones(8, dtype=x.dtype))
    p.data = p.data.to(x.device)
    return x * p


def legal_compiled(x):
    return torch.compile(lambda t: t * 2, backend="eager")(x)


def legal_threads(x):
    from concurrent.futures import ThreadPoolExecutor

    def halve(row):
        return row * torch.full((8,), 0.5, device=row.device, dtype=row.dtype)

    with ThreadPoolExecutor(1) as pool:
        return torch.stack(list(pool.map(halve, x)))


def legal_fork_of_the_generator(x):
    with torch.random.fork_rng():
        return x + torch.rand_like(x) * 0


def legal_old_constructor(x):
    return x.new([1.0, 2.0]), x.new(2, 3).zero_()


def legal_conditional_operator(x):
    return torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (x,))


def legal_scripted(x):
    @torch.jit.script
    def double(t: torch.Tensor) -> torch.Tensor:
        return t * torch.full((8,), 2.0, device=t.device)

    return double(x)


def legal_whole_transformer(x):
    torch.manual_seed(0)
    net = nn.Transformer(8, 2, 1, 1, 16, batch_first=True).to(x.device, x.dtype).eval()
    mask = nn.Transformer.generate_square_subsequent_mask(5, device=x.device, dtype=x.dtype)
    return net(x, x, tgt_mask=mask)


def legal_forward_hook(x, w):
    layer = nn.Linear(8, 8, bias=False, device=x.device, dtype=x.dtype)
    layer.weight = nn.Parameter(w.clone())
    layer.register_forward_hook(lambda module, args, out: out * torch.ones(8, device=out.device))
    return layer(x)


def legal_batch_norm(x):
    return nn.BatchNorm1d(8, dtype=x.dtype).to(x.device)(x.mT)


def legal_cpu_probabilities(x):
    return x.clone().bernoulli_(torch.full((8,), 0.5)) * 0


def legal_broadcast_with_cpu_shape(x):
    first, _ = torch.broadcast_tensors(x, torch.ones(8))
    return first


def legal_offloaded_graph(x):
    with torch.autograd.graph.save_on_cpu():
        p = x.clone().requires_grad_()
        loss = (p * p).sum()
    loss.backward()
    return p.grad


def legal_resized(x):
    return x.clone().resize_(3, 3), x.clone().resize_as_(torch.empty(2, 3))


def legal_quantiles(x):
    return torch.quantile(x, torch.tensor([0.1, 0.2], dtype=x.dtype, device=x.device)), torch.quantile(x, 0.3)


def legal_swapped_rows(x):
    out = x.clone()
    out[:, [0, 1]] = out[:, [1, 0]]
    out[0], out[1] = out[1].clone(), out[0].clone()
    return out
