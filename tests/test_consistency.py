"""The references agree with each other, with PyTorch's own functions, and with the published numbers."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import ROOT

Solve = Callable[..., Any]


def module(name: str) -> ModuleType:
    path = next(ROOT.glob(f"reference/*/{name}/solution.py"))
    spec = importlib.util.spec_from_file_location(f"solution_{name}", path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def solve(name: str) -> Solve:
    return getattr(module(name), name)


@pytest.fixture(autouse=True)
def seeded_float64() -> Iterator[None]:
    """Float64 for these tests only: the setting belongs to the process, which other tests share."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)


def close(first: Any, second: Any) -> None:
    np.testing.assert_allclose(np.asarray(first), np.asarray(second), rtol=1e-10, atol=1e-12)


def language_model(B: int = 2, T: int = 5, d: int = 6, f: int = 9, V: int = 7) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    shapes = [(V, d), (T, d), (d, d), (d, d), (d, d), (d, d), (d, f), (f, d), (d, V), (V,)]
    ids = rng.integers(0, V, (B, T))
    return [ids, *(rng.normal(size=shape) * 0.5 for shape in shapes)]


def test_the_three_token_attention() -> None:
    q = np.array([[1.0, 0], [0, 1], [1, 1]])
    v = np.array([[1.0, 0], [0, 2], [1, 1]])
    np.testing.assert_allclose(solve("causal_attention")(q, q, v)[1], [0.3302, 1.3395], atol=5e-5)


def test_the_published_loss() -> None:
    rng = np.random.default_rng(0)
    d, V, T = 4, 8, 6
    shapes = [(V, d), (T, d), (d, d), (d, d), (d, d), (d, d), (d, 2 * d), (2 * d, d), (d, V)]
    weights = [rng.normal(size=shape) * 0.2 for shape in shapes]
    ids, labels = np.array([[1, 3, 4, 2, 1, 5]]), np.array([[3, 4, 2, 1, -100, -100]])
    loss = solve("decoder_lm_loss")(ids, labels, *weights, np.zeros(V))
    assert abs(float(loss) - 2.3001607588963036) < 1e-12


def test_multi_head_with_one_head_is_causal_attention() -> None:
    x = torch.randn(1, 5, 4)
    w = [torch.randn(4, 4) for _ in range(3)]
    q, k, v = ((x[0] @ each).numpy() for each in w)
    close(solve("multi_head_attention")(x, *w, torch.eye(4), 1, True)[0], solve("causal_attention")(q, k, v))


def test_as_many_groups_as_heads_is_multi_head() -> None:
    x, weights = torch.randn(2, 5, 8), [torch.randn(8, 8) for _ in range(4)]
    close(solve("grouped_query_attention")(x, *weights, 4, 4), solve("multi_head_attention")(x, *weights, 4, True))


def test_encoder_decoder_is_its_parts_composed() -> None:
    N, S, T, d, V_src, V_tgt, heads = 2, 5, 4, 6, 7, 8, 3
    src, tgt = torch.randint(0, V_src, (N, S)).double(), torch.randint(0, V_tgt, (N, T)).double()
    src_emb, tgt_emb = torch.randn(V_src, d), torch.randn(V_tgt, d)
    enc_pos, dec_pos = torch.randn(S, d), torch.randn(T, d)
    enc_blocks, dec_blocks = torch.randn(2, 6, d, d) / 3, torch.randn(2, 12, d, d) / 3
    head = torch.randn(d, V_tgt)
    whole = solve("encoder_decoder_forward")(
        src, tgt, src_emb, tgt_emb, enc_pos, dec_pos, enc_blocks, dec_blocks, head, heads
    )
    memory = solve("encoder_forward")(src, src_emb, enc_pos, enc_blocks, heads)
    encoded = src_emb[src.long()] + enc_pos
    for block in enc_blocks:
        encoded = solve("encoder_block")(encoded, block, heads)
    close(memory, encoded)
    decoded = tgt_emb[tgt.long()] + dec_pos
    for block in dec_blocks:
        decoded = solve("decoder_block")(decoded, memory, block, heads)
    close(whole, decoded @ head)


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention_is_scaled_dot_product_attention(causal: bool) -> None:
    q, k, v = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 7, 5), torch.randn(2, 3, 7, 5)
    keep = torch.ones(4, 7, dtype=torch.bool).tril(diagonal=3) if causal else None
    out, lse = solve("flash_attention")(q, k, v, 3, causal)
    close(out, solve("scaled_dot_product_attention")(q, k, v, keep))
    scores = q @ k.mT / 5**0.5
    if keep is not None:
        scores = scores.masked_fill(~keep, -torch.inf)
    close(lse, scores.logsumexp(-1))


def test_scaled_dot_product_attention_is_torchs() -> None:
    q, k, v = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 7, 5), torch.randn(2, 3, 7, 6)
    keep = torch.rand(2, 3, 4, 7) < 0.6
    keep[..., 0] = True
    close(solve("scaled_dot_product_attention")(q, k, v, keep), F.scaled_dot_product_attention(q, k, v, keep))


def test_the_loss_is_the_cross_entropy_of_the_forward_pass() -> None:
    ids, *weights = language_model()
    labels = np.where(np.random.default_rng(1).random(ids.shape) < 0.3, -100, ids)
    logits = solve("decoder_forward")(ids, *weights)
    loss = solve("decoder_lm_loss")(ids, labels, *weights)
    close(loss, solve("masked_cross_entropy")(logits, labels))
    flat = torch.from_numpy(logits).reshape(-1, logits.shape[-1])
    close(loss, F.cross_entropy(flat, torch.from_numpy(labels).reshape(-1), ignore_index=-100))
    close(solve("perplexity")(logits, labels), np.exp(loss))


def test_every_step_of_the_cache_is_the_last_row_of_full_attention() -> None:
    N, T, d, heads = 2, 6, 8, 2
    x, weights = torch.randn(N, T, d), [torch.randn(d, d) for _ in range(4)]
    keys = values = torch.zeros(N, heads, 0, d // heads)
    for t in range(T):
        out, keys, values = solve("kv_cache_step")(x[:, t], keys, values, *weights, heads)
        close(out, solve("multi_head_attention")(x[:, : t + 1], *weights, heads, True)[:, -1])


def test_norms_are_torchs() -> None:
    x, gamma, beta = torch.randn(3, 4, 5), torch.randn(5), torch.randn(5)
    close(solve("layer_norm")(x.numpy(), gamma.numpy(), beta.numpy(), 1e-5), F.layer_norm(x, (5,), gamma, beta, 1e-5))
    close(solve("rms_norm")(x, gamma, 1e-6), F.rms_norm(x, (5,), gamma, 1e-6))
    close(solve("gelu_tanh")(x.numpy()), F.gelu(x, approximate="tanh"))


def test_adamw_is_torchs() -> None:
    param, m, v = torch.randn(4, 3), torch.zeros(4, 3), torch.zeros(4, 3)
    theirs = param.clone().requires_grad_()
    optimizer = torch.optim.AdamW([theirs], lr=1e-2, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1)
    for step in range(1, 4):
        grad = torch.randn(4, 3)
        theirs.grad = grad.clone()
        optimizer.step()
        param, m, v = solve("adamw_step")(param, grad, m, v, step, 1e-2, 0.9, 0.99, 1e-8, 0.1)
        close(param, theirs.detach())


def test_clipping_is_torchs_but_for_its_epsilon() -> None:
    grads = [torch.randn(3), torch.randn(2, 2)]
    theirs = [torch.zeros_like(grad).requires_grad_() for grad in grads]
    for each, grad in zip(theirs, grads, strict=True):
        each.grad = grad.clone()
    torch.nn.utils.clip_grad_norm_(theirs, 0.5)
    for mine, each in zip(solve("clip_gradients")(grads, 0.5), theirs, strict=True):
        # torch divides by norm + 1e-6.
        assert each.grad is not None
        np.testing.assert_allclose(mine, each.grad, rtol=3e-6)


def test_a_training_step_lowers_the_loss() -> None:
    ids, *weights = language_model()
    names = ["tok_emb", "pos_emb", "w_q", "w_k", "w_v", "w_o", "w_1", "w_2", "w_u", "b_u"]
    params = {name: torch.from_numpy(weight) for name, weight in zip(names, weights, strict=True)}
    labels = torch.from_numpy(np.roll(ids, -1, axis=1))
    losses = []
    for _ in range(3):
        params, loss = solve("sgd_train_step")(params, torch.from_numpy(ids), labels, 0.01)
        losses.append(float(loss))
    assert losses[0] > losses[1] > losses[2]


def test_greedy_decoding_calls_once_per_new_token() -> None:
    calls: list[list[int]] = []

    def step(ids: list[int]) -> Any:
        calls.append(list(ids))
        return np.array([0.0, 1.0, float(len(ids) == 4)])

    assert list(map(int, solve("greedy_decode")(step, [0, 0], 5, 2))) == [0, 0, 1, 1, 1, 1, 1]
    assert [len(each) for each in calls] == [2, 3, 4, 5, 6]
