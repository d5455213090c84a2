"""Reference for clip_gradients."""

import math

import torch


def global_norm(present: list[torch.Tensor]) -> float:
    """Euclidean norm of all elements of all tensors of `present`; 0 for an empty list."""
    total = 0.0
    for grad in present:
        total = total + (grad * grad).sum().item()
    return math.sqrt(total)


def clip_gradients(grads: list[torch.Tensor | None], max_norm: float) -> list[torch.Tensor | None]:
    """Rescale gradients to a global norm of at most `max_norm`.

    grads: list of tensors of any shapes, or None; max_norm: positive float.
    Returns a list of the same length; None stays None, shapes, dtype and device are kept.
    Source: Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks"
    (2013), algorithm 1, with the norm taken over all parameters together.
    """
    present = [grad for grad in grads if grad is not None]
    norm = global_norm(present)
    if norm > max_norm:
        factor = max_norm / norm
    else:
        factor = 1.0
    clipped: list[torch.Tensor | None] = []
    for grad in grads:
        if grad is None:
            clipped.append(None)
        else:
            clipped.append(grad * factor)
    return clipped
