import numpy as np


def masked_softmax(scores: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Softmax over the last axis in which only the entries that are kept take part.

    scores: any shape, float64 or float32.
    keep: boolean, broadcastable to the shape of scores.
    Returns an array of the shape and dtype of scores; excluded entries are 0.
    """
    raise NotImplementedError("write masked_softmax, then run: grade masked_softmax")
