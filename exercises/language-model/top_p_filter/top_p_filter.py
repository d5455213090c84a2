import numpy as np


def top_p_filter(logits: np.ndarray, p: float) -> np.ndarray:
    """Keep the smallest set of most likely ids that reaches probability p, set the rest to -inf.

    logits: (..., V); p: float, 0 < p <= 1.
    Returns an array of the shape and dtype of logits.
    """
    raise NotImplementedError("write top_p_filter, then run: grade top_p_filter")
