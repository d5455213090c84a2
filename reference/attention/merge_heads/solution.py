from torch import Tensor


def merge_heads(x: Tensor) -> Tensor:
    """result[n, t, h * width + c] = x[n, h, t, c].

    x: (N, H, T, width). Returns (N, T, H * width), of x's dtype.

    The Concat of Vaswani et al., "Attention Is All You Need" (2017), section 3.2.2.
    """
    N, H, T, width = x.shape
    tokens_first = x.transpose(1, 2)
    return tokens_first.reshape(N, T, H * width)
