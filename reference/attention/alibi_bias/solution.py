import numpy as np


def slopes_of(num_heads: int) -> np.ndarray:
    """(num_heads,): the slope 2 ** (-8 h / num_heads) of the heads h = 1 ... num_heads."""
    head = np.arange(1, num_heads + 1)
    return 2.0 ** (-8.0 * head / num_heads)


def alibi_bias(num_heads: int, T: int) -> np.ndarray:
    """Causal attention bias that falls linearly with the distance to the key.

    Shapes: num_heads a power of two, T positions -> (num_heads, T, T), float64.
    Source: Press et al., "Train Short, Test Long: Attention with Linear Biases Enables Input Length
    Extrapolation" (2022), section 3; the causal mask is included, as in its figure 3.
    """
    i = np.arange(T)[:, None]
    j = np.arange(T)[None, :]
    distance = i - j
    slopes = slopes_of(num_heads)
    bias = slopes[:, None, None] * -distance
    return np.where(j <= i, bias, -np.inf)
