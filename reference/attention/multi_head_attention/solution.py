import math

import torch
from torch import Tensor


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(N, T, d) to (N, num_heads, T, d / num_heads); each head owns consecutive features."""
    N, T, d = x.shape
    separated = x.reshape(N, T, num_heads, d // num_heads)
    return separated.transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(N, num_heads, T, width) to (N, T, num_heads * width); undoes `split_heads`."""
    N, num_heads, T, width = x.shape
    return x.transpose(1, 2).reshape(N, T, num_heads * width)


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """softmax(q k^T / sqrt(width) + M) v for q, k, v of shape (N, num_heads, T, width).

    M is 0, or with `causal` minus infinity where the key is later than the query.
    Vaswani et al., "Attention Is All You Need" (2017), equation 1 and section 3.2.3.
    """
    T, width = q.shape[2:]
    scores = q @ k.transpose(2, 3) / math.sqrt(width)
    if causal:
        token = torch.arange(T, device=q.device)
        future = token[None, :] > token[:, None]
        scores = scores.masked_fill(future, -math.inf)
    weights = torch.softmax(scores, dim=3)
    return weights @ v


def multi_head_attention(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int, causal: bool
) -> Tensor:
    """Concat(head_0, head_1, …) w_o, where head_h attends with columns h of x w_q, x w_k and x w_v.

    x: (N, T, d). w_q, w_k, w_v, w_o: (d, d). num_heads divides d. Returns (N, T, d), of x's dtype.

    Vaswani et al. (2017), section 3.2.2, with the heads' matrices side by side in one (d, d) matrix.
    """
    q = split_heads(x @ w_q, num_heads)
    k = split_heads(x @ w_k, num_heads)
    v = split_heads(x @ w_v, num_heads)
    joined = merge_heads(attend(q, k, v, causal))
    return joined @ w_o
