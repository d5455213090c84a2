import torch
from torch import Tensor


def apply_rope(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """Turn the features of every token, pair by pair, by angles that depend on its position.

    x          (N, H, T, d_h), d_h even
    positions  (N, T), int64 or int32
    theta      base of the frequencies, an int or a float
    returns    (N, H, T, d_h)
    """
    raise NotImplementedError("write apply_rope, then run: grade apply_rope")
