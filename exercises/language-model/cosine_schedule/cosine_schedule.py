def cosine_schedule(
    step: int, max_lr: float, min_lr: float, warmup_steps: int, total_steps: int
) -> float:
    """Learning rate of one step: linear warm-up, cosine decay, then constant.

    step: int from 0; max_lr, min_lr: floats; 0 <= warmup_steps < total_steps, warm-up included.
    Returns the learning rate, a float.
    """
    raise NotImplementedError("write cosine_schedule, then run: grade cosine_schedule")
