"""Reference for layer_norm."""

import numpy as np


def layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float) -> np.ndarray:
    """Layer normalisation over the last axis.

    x: (..., d); gamma: (d,); beta: (d,); eps: positive float. Returns (..., d) in the dtype of x.
    Source: Ba, Kiros, Hinton, "Layer Normalization" (2016), equations 3 and 4, with an epsilon
    under the root.
    """
    mean = x.mean(axis=-1, keepdims=True)
    centred = x - mean
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    normalised = centred / np.sqrt(variance + eps)
    return gamma * normalised + beta
