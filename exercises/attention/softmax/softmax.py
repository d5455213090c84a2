import numpy as np


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """Turn scores into weights that sum to one along `axis`.

    x: any shape, float64 or float32.
    axis: one integer, negative allowed.
    Returns an array of the shape and dtype of x.
    """
    raise NotImplementedError("write softmax, then run: grade softmax")
