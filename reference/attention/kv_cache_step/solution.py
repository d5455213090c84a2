import math

import torch
from torch import Tensor


def split_heads(x_t: Tensor, num_heads: int) -> Tensor:
    """(N, d) -> (N, num_heads, 1, d / num_heads): one position, consecutive features to each head."""
    N, d = x_t.shape
    return x_t.reshape(N, num_heads, 1, d // num_heads)


def merge_heads(x: Tensor) -> Tensor:
    """(N, H, 1, d_h) -> (N, H * d_h), the heads side by side in their order."""
    N, H, _, d_h = x.shape
    return x.reshape(N, H * d_h)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(q k^T / sqrt(d_h)) v for one query per head: (N, H, 1, d_h), twice (N, H, S, d_h)."""
    d_h = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_h)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v


def kv_cache_step(
    x_t: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    num_heads: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """One step of causal self-attention: the last row of it, from the cached keys and values.

    Shapes: x_t (N, d), caches (N, H, P, d_h), weights (d, d) -> out (N, d), caches (N, H, P + 1, d_h).
    Source: Shazeer, "Fast Transformer Decoding: One Write-Head is All You Need" (2019), section 2.4, with the
    scale of Vaswani et al. (2017), equation 1.
    """
    q = split_heads(x_t @ w_q, num_heads)
    k_t = split_heads(x_t @ w_k, num_heads)
    v_t = split_heads(x_t @ w_v, num_heads)
    keys = torch.cat([k_cache, k_t], dim=2)
    values = torch.cat([v_cache, v_t], dim=2)
    out = merge_heads(attention(q, keys, values)) @ w_o
    return out, keys, values
