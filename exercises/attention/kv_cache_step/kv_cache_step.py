import torch
from torch import Tensor


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
    """Attend from one new token to everything cached and to itself, and extend the caches.

    x_t                 (N, d)
    k_cache, v_cache    (N, H, P, d_h), H = num_heads, d_h = d / H; P may be 0
    w_q, w_k, w_v, w_o  (d, d), applied as x_t @ w
    returns             out (N, d), and the new caches, both (N, H, P + 1, d_h)
    """
    raise NotImplementedError("write kv_cache_step, then run: grade kv_cache_step")
