import math

import torch
from torch import Tensor


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(N, T, d) -> (N, num_heads, T, d / num_heads), consecutive features to each head."""
    N, T, d = x.shape
    return x.reshape(N, T, num_heads, d // num_heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(N, H, T, d_h) -> (N, T, H * d_h), the heads side by side in their order."""
    N, H, T, d_h = x.shape
    return x.transpose(1, 2).reshape(N, T, H * d_h)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(q k^T / sqrt(d_h)) v over (N, H, T, d_h), (N, H, S, d_h), (N, H, S, d_h); nothing is hidden."""
    d_h = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_h)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v


def cross_attention(
    x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int
) -> Tensor:
    """Multi-head attention with queries from x, keys and values from memory.

    Shapes: x (N, T, d), memory (N, S, d), weights (d, d) -> (N, T, d).
    Source: Vaswani et al., "Attention Is All You Need" (2017), equation 1, and sections 3.2.2 (heads) and
    3.2.3 (encoder-decoder attention).
    """
    q = split_heads(x @ w_q, num_heads)
    k = split_heads(memory @ w_k, num_heads)
    v = split_heads(memory @ w_v, num_heads)
    return merge_heads(attention(q, k, v)) @ w_o
