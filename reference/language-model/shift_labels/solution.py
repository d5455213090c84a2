"""Next-token labels from token ids and a loss mask, NumPy.

The shift is that of "Decoder-Only Transformer Forward Pass" (Continuous Function): Y[b, t] = X[b, t + 1] at
every position that the loss counts; -100 for the others is the `ignore_index` of torch's cross_entropy.
"""

import numpy as np

IGNORED = -100


def shift_labels(ids, loss_mask):
    """Labels (B, T): the id that follows each position, or -100.

    Shapes: ids (B, T) int64; loss_mask (B, T) booleans, True where the token itself is to be learned.
    """
    labels = np.full_like(ids, IGNORED)
    following = ids[:, 1:]
    counted = loss_mask[:, 1:]
    labels[:, :-1] = np.where(counted, following, IGNORED)
    return labels
