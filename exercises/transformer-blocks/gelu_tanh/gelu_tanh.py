import numpy as np


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    """Apply the tanh approximation of GELU to every element.

    x: any shape, also ().
    Returns an array of the shape and dtype of x.
    """
    raise NotImplementedError("write gelu_tanh, then run: grade gelu_tanh")
