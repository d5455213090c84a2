"""Perplexity of next-token predictions, NumPy: exp of the masked mean loss.

Definition: Jelinek et al. 1977, as the exponential of the cross-entropy in nats; the loss is that of
`masked_cross_entropy`.
"""

import numpy as np

IGNORED = -100


def log_softmax(logits):
    """(..., V) -> (..., V): logits - log(sum(exp(logits))), shifted by the row's maximum first."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def label_losses(logits, labels):
    """(B, T, V), (B, T) -> (n,): -log p(label) for each of the n labels that are not -100."""
    active = labels != IGNORED
    log_probs = log_softmax(logits)[active]
    rows = np.arange(len(log_probs))
    return -log_probs[rows, labels[active]]


def perplexity(logits, labels):
    """exp of the mean of -log p(label) over the labels that are not -100, a scalar.

    Shapes: logits (B, T, V); labels (B, T) integers, at least one of them not -100.
    """
    return np.exp(label_losses(logits, labels).mean())
