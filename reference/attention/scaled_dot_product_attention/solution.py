import math

import torch
from torch import Tensor


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None = None
) -> Tensor:
    """softmax(q k^T / sqrt(d_k)) v over the keys that `keep` allows.

    q: (..., T, d_k). k: (..., S, d_k). v: (..., S, d_v), with the same leading axes.
    keep: boolean, broadcastable to (..., T, S), at least one True per query; None allows every key.
    Returns (..., T, d_v), of q's dtype.

    Vaswani et al., "Attention Is All You Need" (2017), equation 1; hidden scores are minus infinity as in
    section 3.2.3.
    """
    d_k = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    if keep is not None:
        scores = scores.masked_fill(~keep, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v
