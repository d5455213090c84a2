"""Token ids to logits: one pre-norm decoder block, one head, NumPy.

The block is "Decoder-Only Transformer Forward Pass" (Continuous Function), equations 1 to 6. Its parts come from
Vaswani et al. 2017 (scaled dot products, section 3.2.1; the causal mask, 3.2.3), Ba et al. 2016 (layer
normalisation, equation 3) and Xiong et al. 2020 (normalisation ahead of each sublayer, table 1).
"""

import math

import numpy as np

EPSILON = 1e-5


def embed(ids, tok_emb, pos_emb):
    """(B, T) ids -> (B, T, d): the row of each token plus the row of its position (equation 1)."""
    return tok_emb[ids] + pos_emb


def layer_norm(x):
    """(..., d) -> (..., d), without scale or shift; population variance (Ba et al. 2016, equation 3)."""
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + EPSILON)


def softmax(scores):
    """(..., T, S) -> (..., T, S) over the last axis; the row's maximum is subtracted, which changes nothing exactly."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def causal_attention(x, w_q, w_k, w_v, w_o):
    """(B, T, d) -> (B, T, d): softmax(q k^T / sqrt(d) + mask) v w_o (Vaswani et al. 2017, equation 1)."""
    T, d = x.shape[-2:]
    q = x @ w_q
    k = x @ w_k
    v = x @ w_v
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(d)
    future = np.triu(np.ones((T, T), dtype=bool), k=1)
    weights = softmax(np.where(future, -np.inf, scores))
    return weights @ v @ w_o


def mlp(x, w_1, w_2):
    """(B, T, d) -> (B, T, d) through a hidden layer of any width."""
    return np.tanh(x @ w_1) @ w_2


def decoder_forward(ids, tok_emb, pos_emb, w_q, w_k, w_v, w_o, w_1, w_2, w_u, b_u):
    """Logits of a one-block decoder, (B, T, V).

    Shapes: ids (B, T) integers; tok_emb (V, d); pos_emb (T, d); w_q, w_k, w_v, w_o (d, d); w_1 (d, f); w_2 (f, d);
    w_u (d, V); b_u (V,).
    """
    h = embed(ids, tok_emb, pos_emb)
    h = h + causal_attention(layer_norm(h), w_q, w_k, w_v, w_o)
    h = h + mlp(layer_norm(h), w_1, w_2)
    return layer_norm(h) @ w_u + b_u
