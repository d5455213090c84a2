import numpy as np


def causal_mask(T: int) -> np.ndarray:
    """M of shape (T, T), float64: M[i, j] = 0 where j <= i and -inf where j > i.

    Vaswani et al., "Attention Is All You Need" (2017), section 3.2.3: illegal connections are set to
    minus infinity before the softmax.
    """
    token = np.arange(T)
    query = token[:, None]
    key = token[None, :]
    return np.where(key > query, -np.inf, 0.0)
