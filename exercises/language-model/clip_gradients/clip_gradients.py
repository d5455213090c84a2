import torch


def clip_gradients(grads: list[torch.Tensor | None], max_norm: float) -> list[torch.Tensor | None]:
    """Scale all gradients by one factor when their global norm is above max_norm.

    grads: list of tensors of any shapes, or None; max_norm: positive float.
    Returns a list of the same length, shapes and dtype, None where grads has None.
    """
    raise NotImplementedError("write clip_gradients, then run: grade clip_gradients")
