"""Reference for swiglu."""

import torch


def silu(u: torch.Tensor) -> torch.Tensor:
    """u times the sigmoid of u, element by element."""
    return u * torch.sigmoid(u)


def swiglu(
    x: torch.Tensor, w_gate: torch.Tensor, w_up: torch.Tensor, w_down: torch.Tensor
) -> torch.Tensor:
    """Gated feed-forward layer.

    x: (..., d); w_gate: (d, f); w_up: (d, f); w_down: (f, d). Returns (..., d).
    Source: Shazeer, "GLU Variants Improve Transformer" (2020), equation 6 (FFN_SwiGLU with beta = 1).
    """
    gate = x @ w_gate
    up = x @ w_up
    hidden = silu(gate) * up
    return hidden @ w_down
