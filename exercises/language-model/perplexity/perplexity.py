import numpy as np


def perplexity(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the exponential of the mean of -log p(label) over the labels that are not -100.

    logits: (B, T, V), float. labels: (B, T) int64, each in 0 ... V-1 or -100.
    Returns one number.
    """
    raise NotImplementedError("write perplexity, then run: grade perplexity")
