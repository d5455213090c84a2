"""Reference for rms_norm."""

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Root-mean-square normalisation over the last axis.

    x: (..., d); weight: (d,) in the dtype of x; eps: positive float. Returns (..., d) in the dtype of x.
    Source: Zhang, Sennrich, "Root Mean Square Layer Normalization" (2019), equation 4, with an epsilon
    under the root; float16 is computed in float32.
    """
    working = torch.float32 if x.dtype == torch.float16 else x.dtype
    wide = x.to(working)
    mean_square = (wide * wide).mean(dim=-1, keepdim=True)
    normalised = wide / torch.sqrt(mean_square + eps)
    scaled = normalised * weight.to(working)
    return scaled.to(x.dtype)
