from torch import Tensor


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """result[n, h, t, c] = x[n, t, h * width + c], with width = d / num_heads.

    x: (N, T, d). num_heads divides d. Returns (N, num_heads, T, width), of x's dtype.

    Vaswani et al., "Attention Is All You Need" (2017), section 3.2.2, read backwards: head h owns the h-th of
    num_heads equal, consecutive parts of the features.
    """
    N, T, d = x.shape
    width = d // num_heads
    separated = x.reshape(N, T, num_heads, width)
    return separated.transpose(1, 2)
