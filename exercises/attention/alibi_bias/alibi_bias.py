import numpy as np


def alibi_bias(num_heads: int, T: int) -> np.ndarray:
    """Build the bias that is added to the attention scores of every head.

    num_heads  a power of two
    T          number of positions
    returns    (num_heads, T, T), float64
    """
    raise NotImplementedError("write alibi_bias, then run: grade alibi_bias")
