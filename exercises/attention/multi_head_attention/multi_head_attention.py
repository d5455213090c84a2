import torch
from torch import Tensor


def multi_head_attention(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int, causal: bool
) -> Tensor:
    """Attend within each example, in `num_heads` heads, and project the joined heads.

    x: (N, T, d). w_q, w_k, w_v, w_o: (d, d), applied as x @ w. num_heads divides d.
    causal: whether a token reads only itself and earlier tokens.
    Returns (N, T, d), of x's dtype and on x's device.
    """
    raise NotImplementedError("write multi_head_attention, then run: grade multi_head_attention")
