import torch


def adamw_step(
    param: torch.Tensor,
    grad: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One AdamW update of a parameter and its two running means.

    param, grad, m, v: tensors of one shape; step: int from 1; the other five: floats.
    Returns (param_new, m_new, v_new) after the step, of the same shape and dtype.
    """
    raise NotImplementedError("write adamw_step, then run: grade adamw_step")
