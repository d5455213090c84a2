"""Token ids to the masked next-token loss: one pre-norm decoder block, one head, NumPy.

The block is "Decoder-Only Transformer Forward Pass" (Continuous Function), equations 1 to 7. Its parts come from
Vaswani et al. 2017 (scaled dot products, section 3.2.1; the causal mask, 3.2.3), Ba et al. 2016 (layer
normalisation, equation 3) and Xiong et al. 2020 (normalisation ahead of each sublayer, table 1).
"""

import math

import numpy as np

EPSILON = 1e-5
IGNORED = -100


def cases(rng):
    """The published example, with the published generator: `rng` is not used."""
    rng = np.random.default_rng(0)
    T, d, V, width = 6, 4, 8, 8
    shapes = {
        "tok_emb": (V, d),
        "pos_emb": (T, d),
        "w_q": (d, d),
        "w_k": (d, d),
        "w_v": (d, d),
        "w_o": (d, d),
        "w_1": (d, width),
        "w_2": (width, d),
        "w_u": (d, V),
    }
    example = {
        "ids": np.array([[1, 3, 4, 2, 1, 5]]),
        "labels": np.array([[3, 4, 2, 1, -100, -100]]),
    }
    example.update({name: rng.normal(size=shape) * 0.2 for name, shape in shapes.items()})
    example["b_u"] = np.zeros(V)
    return {"published_example": example}


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
    """(B, T) ids -> (B, T, V) logits."""
    h = embed(ids, tok_emb, pos_emb)
    h = h + causal_attention(layer_norm(h), w_q, w_k, w_v, w_o)
    h = h + mlp(layer_norm(h), w_1, w_2)
    return layer_norm(h) @ w_u + b_u


def log_softmax(logits):
    """(..., V) -> (..., V): logits - log(sum(exp(logits))), shifted by the row's maximum first."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def masked_cross_entropy(logits, labels):
    """(B, T, V), (B, T) -> scalar: the mean of -log p(label) over the labels that are not -100."""
    active = labels != IGNORED
    log_probs = log_softmax(logits)[active]
    rows = np.arange(len(log_probs))
    return -log_probs[rows, labels[active]].mean()


def decoder_lm_loss(ids, labels, tok_emb, pos_emb, w_q, w_k, w_v, w_o, w_1, w_2, w_u, b_u):
    """Mean next-token loss of a one-block decoder, a scalar.

    Shapes: ids and labels (B, T) integers; tok_emb (V, d); pos_emb (T, d); w_q, w_k, w_v, w_o (d, d);
    w_1 (d, f); w_2 (f, d); w_u (d, V); b_u (V,). Labels are shifted already; -100 is not counted.
    """
    logits = decoder_forward(ids, tok_emb, pos_emb, w_q, w_k, w_v, w_o, w_1, w_2, w_u, b_u)
    return masked_cross_entropy(logits, labels)
