import numpy as np


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """Weights exp(x) / sum(exp(x)) along `axis`.

    x: any shape, floating point. axis: one integer, negative allowed.
    Returns an array of the shape and dtype of x.

    The shift by the largest score leaves every ratio of weights, and so every weight, as it is:
    Goodfellow, Bengio and Courville, "Deep Learning" (2016), section 4.1.
    """
    largest = x.max(axis=axis, keepdims=True)
    exponentials = np.exp(x - largest)
    total = exponentials.sum(axis=axis, keepdims=True)
    return exponentials / total
