"""Reference for top_p_filter."""

import numpy as np


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax of (..., V) over the last axis, shifted by each row's maximum."""
    shifted = x - x.max(axis=-1, keepdims=True)
    exponentials = np.exp(shifted)
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def top_p_filter(logits: np.ndarray, p: float) -> np.ndarray:
    """Keep the smallest set of most likely ids whose probability reaches p.

    logits: (..., V); p: float, 0 < p <= 1. Returns (..., V) of the same dtype, -inf where not kept.
    Source: Holtzman et al., "The Curious Case of Neural Text Degeneration" (2020), section 3.1,
    equation 2 (the top-p vocabulary).
    """
    order = np.argsort(-logits, axis=-1, kind="stable")
    ordered = np.take_along_axis(logits, order, axis=-1)
    reached = np.cumsum(softmax(ordered), axis=-1)
    keep_ordered = np.ones(logits.shape, dtype=bool)
    if p < 1:
        keep_ordered[..., 1:] = reached[..., :-1] < p
    keep = np.zeros(logits.shape, dtype=bool)
    np.put_along_axis(keep, order, keep_ordered, axis=-1)
    return np.where(keep, logits, -np.inf)
