import math

import torch
from torch import Tensor


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(N, T, H * d_h) -> (N, H, T, d_h), consecutive features to each head."""
    N, T, width = x.shape
    return x.reshape(N, T, num_heads, width // num_heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(N, H, T, d_h) -> (N, T, H * d_h), the heads side by side in their order."""
    N, H, T, d_h = x.shape
    return x.transpose(1, 2).reshape(N, T, H * d_h)


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention over (N, H, T, d_h) in which position i reads the positions 0 to i."""
    T, d_h = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_h)
    visible = torch.ones(T, T, dtype=torch.bool, device=q.device).tril()
    scores = scores.masked_fill(~visible, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v


def grouped_query_attention(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int, num_kv_heads: int
) -> Tensor:
    """Causal attention with num_heads query heads on num_kv_heads key and value heads.

    Shapes: x (N, T, d), w_q (d, H * d_h), w_k and w_v (d, G * d_h), w_o (H * d_h, d) -> (N, T, d).
    Source: Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head
    Checkpoints" (2023), section 2.2; G = 1 is Shazeer, "Fast Transformer Decoding" (2019).
    """
    group = num_heads // num_kv_heads
    q = split_heads(x @ w_q, num_heads)
    k = split_heads(x @ w_k, num_kv_heads).repeat_interleave(group, dim=1)
    v = split_heads(x @ w_v, num_kv_heads).repeat_interleave(group, dim=1)
    return merge_heads(causal_attention(q, k, v)) @ w_o
