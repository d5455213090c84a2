import math

import numpy as np


def softmax(scores: np.ndarray) -> np.ndarray:
    """Weights over the last axis of scores (T, T), shifted by each row's largest score."""
    largest = scores.max(axis=-1, keepdims=True)
    exponentials = np.exp(scores - largest)
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def causal_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """softmax(q k^T / sqrt(d_k) + M) v, where M is 0 at and below the diagonal and -inf above.

    q: (T, d_k). k: (T, d_k). v: (T, d_v). Returns (T, d_v), of the inputs' dtype.

    Vaswani et al., "Attention Is All You Need" (2017), equation 1; the mask is that of section 3.2.3
    (the decoder's self-attention, illegal connections set to minus infinity before the softmax).
    """
    T, d_k = q.shape
    scores = (q @ k.T) / math.sqrt(d_k)
    token = np.arange(T)
    future = token[None, :] > token[:, None]
    visible = np.where(future, -np.inf, scores)
    weights = softmax(visible)
    return weights @ v
