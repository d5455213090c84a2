"""Reference for adamw_step."""

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
    """One AdamW update.

    param, grad, m, v: tensors of one shape; step: int from 1. Returns (param, m, v) after the step.
    Source: Loshchilov, Hutter, "Decoupled Weight Decay Regularization" (2019), algorithm 2, with the
    decay multiplied by the learning rate as in torch.optim.AdamW.
    """
    new_m = beta1 * m + (1 - beta1) * grad
    new_v = beta2 * v + (1 - beta2) * grad * grad
    m_hat = new_m / (1 - beta1**step)
    v_hat = new_v / (1 - beta2**step)
    adaptive = m_hat / (torch.sqrt(v_hat) + eps)
    new_param = param - lr * (adaptive + weight_decay * param)
    return new_param, new_m, new_v
