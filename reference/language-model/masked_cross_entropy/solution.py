"""The masked mean of next-token losses, from logits and labels, NumPy.

Cross-entropy as in "Decoder-Only Transformer Forward Pass" (Continuous Function), the last equation; the
shift by the row's maximum is analysed in Blanchard, Higham and Higham 2021 ("Accurately computing the
log-sum-exp and softmax functions").
"""

import numpy as np

IGNORED = -100


def log_softmax(logits):
    """(..., V) -> (..., V): logits - log(sum(exp(logits))), shifted by the row's maximum first."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def masked_cross_entropy(logits, labels):
    """Mean of -log p(label) over the labels that are not -100, a scalar.

    Shapes: logits (B, T, V); labels (B, T) integers, at least one of them not -100.
    """
    active = labels != IGNORED
    log_probs = log_softmax(logits)[active]
    rows = np.arange(len(log_probs))
    return -log_probs[rows, labels[active]].mean()
