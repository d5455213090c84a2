import torch
from torch import Tensor


def apply_rope(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """Rotary position embedding on neighbouring pairs of features.

    Shapes: x (N, H, T, d_h) with d_h even, positions (N, T) integers, theta a number -> (N, H, T, d_h).
    Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021): frequencies
    after equation 15, the turned features in equation 34 (section 3.4.2).
    """
    width = x.shape[-1]
    pair = torch.arange(width // 2, dtype=x.dtype, device=x.device)
    frequencies = theta ** (-2 * pair / width)
    angles = positions[:, None, :, None].to(x.dtype) * frequencies
    cos, sin = torch.cos(angles), torch.sin(angles)
    a, b = x[..., 0::2], x[..., 1::2]
    turned_a = a * cos - b * sin
    turned_b = a * sin + b * cos
    return torch.stack([turned_a, turned_b], dim=-1).flatten(-2)
