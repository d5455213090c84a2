import math

import numpy as np


def attention_scores(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """q k^T / sqrt(d_k).

    q: (T, d_k). k: (S, d_k). Returns (T, S), of the inputs' dtype.

    Vaswani et al., "Attention Is All You Need" (2017), equation 1, the argument of the softmax; the
    scale is explained in their section 3.2.1, footnote 4.
    """
    d_k = q.shape[1]
    products = q @ k.T
    return products / math.sqrt(d_k)
