import torch
from torch import Tensor


def grouped_query_attention(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int, num_kv_heads: int
) -> Tensor:
    """Causal self-attention in which groups of query heads share one key and value head.

    x             (N, T, d)
    w_q           (d, H * d_h), H = num_heads
    w_k, w_v      (d, G * d_h), G = num_kv_heads, which divides H
    w_o           (H * d_h, d)
    returns       (N, T, d)
    """
    raise NotImplementedError("write grouped_query_attention, then run: grade grouped_query_attention")
