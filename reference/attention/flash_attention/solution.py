import math

import torch
from torch import Tensor


def flash_attention(q: Tensor, k: Tensor, v: Tensor, block_size: int, causal: bool) -> tuple[Tensor, Tensor]:
    """Attention over blocks of keys, holding one (T, block_size) slab of scores at a time.

    Shapes: q (N, H, T, d_h), k and v (N, H, S, d_h) -> out (N, H, T, d_h), lse (N, H, T).
    Source: Dao et al., "FlashAttention" (2022), section 3.1 and algorithm 1, with the output divided once at
    the end and the log-sum-exp kept, as in Dao, "FlashAttention-2" (2023), section 3.1. The running maximum
    and sum are Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018), algorithm 3.
    """
    N, H, T, d_h = q.shape
    S = k.shape[2]
    maximum = torch.full((N, H, T, 1), -math.inf, dtype=q.dtype, device=q.device)
    total = torch.zeros((N, H, T, 1), dtype=q.dtype, device=q.device)
    mixed = torch.zeros((N, H, T, d_h), dtype=q.dtype, device=q.device)
    query = torch.arange(T, device=q.device)[:, None] + (S - T)
    for start in range(0, S, block_size):
        stop = min(start + block_size, S)
        scores = q @ k[:, :, start:stop].transpose(-2, -1) / math.sqrt(d_h)
        if causal:
            key = torch.arange(start, stop, device=q.device)[None, :]
            scores = scores.masked_fill(key > query, -math.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        rescale = torch.exp(maximum - new_maximum)
        weights = torch.exp(scores - new_maximum)
        total = total * rescale + weights.sum(dim=-1, keepdim=True)
        mixed = mixed * rescale + weights @ v[:, :, start:stop]
        maximum = new_maximum
    out = mixed / total
    lse = maximum + torch.log(total)
    return out, lse.squeeze(-1)
