import numpy as np


def masked_softmax(scores: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """exp(scores) / sum(exp(scores)) over the last axis, sums and maxima over kept entries only.

    scores: any shape, floating point. keep: boolean, broadcastable to scores.
    Returns an array of the shape and dtype of scores: 0 where not kept, and in rows that keep nothing.

    An excluded score counts as minus infinity: Vaswani et al., "Attention Is All You Need" (2017),
    section 3.2.3. The zeros of an empty row are this exercise's convention.
    """
    kept = np.broadcast_to(keep, scores.shape)
    visible = np.where(kept, scores, -np.inf)
    largest = visible.max(axis=-1, keepdims=True)
    shift = np.where(largest == -np.inf, 0.0, largest)
    exponentials = np.exp(visible - shift)
    total = exponentials.sum(axis=-1, keepdims=True)
    return exponentials / np.where(total == 0.0, 1.0, total)
