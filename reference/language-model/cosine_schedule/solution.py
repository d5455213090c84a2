"""Reference for cosine_schedule."""

import math


def cosine_schedule(
    step: int, max_lr: float, min_lr: float, warmup_steps: int, total_steps: int
) -> float:
    """Learning rate of one step.

    step: int from 0; max_lr, min_lr: floats; 0 <= warmup_steps < total_steps. Returns a float.
    Source: Loshchilov, Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts" (2017),
    equation 5, for one period and after a linear warm-up.
    """
    if step < warmup_steps:
        return max_lr * step / warmup_steps
    if step >= total_steps:
        return min_lr
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    return min_lr + (max_lr - min_lr) / 2 * (1 + math.cos(math.pi * progress))
