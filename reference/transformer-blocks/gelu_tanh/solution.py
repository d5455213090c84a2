"""Reference for gelu_tanh."""

import math

import numpy as np


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    """GELU by its tanh approximation, element by element.

    x: any shape. Returns an array of the shape and dtype of x.
    Source: Hendrycks, Gimpel, "Gaussian Error Linear Units (GELUs)" (2016), section 2, the
    approximation with tanh.
    """
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    gate = 1 + np.tanh(inner)
    return 0.5 * x * gate
