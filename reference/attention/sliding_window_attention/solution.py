import math

import torch
from torch import Tensor


def visible_keys(T: int, window: int, device: torch.device) -> Tensor:
    """(T, T) booleans: query i may read key j, which is not later and fewer than window positions back."""
    i = torch.arange(T, device=device)[:, None]
    j = torch.arange(T, device=device)[None, :]
    not_later = j <= i
    in_window = i - j < window
    return not_later & in_window


def sliding_window_attention(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    """Causal attention over the last window positions.

    Shapes: q, k, v (N, H, T, d_h), window an integer >= 1 -> (N, H, T, d_h).
    Source: Beltagy et al., "Longformer" (2020), section 3.1, in its causal form; Jiang et al., "Mistral 7B"
    (2023), section 2. The softmax is equation 1 of Vaswani et al. (2017) over the visible keys.
    """
    T, d_h = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_h)
    visible = visible_keys(T, window, q.device)
    scores = scores.masked_fill(~visible, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v
