"""Reference for encoder_block."""

import math

import torch


def layer_norm(x: torch.Tensor) -> torch.Tensor:
    """Layer normalisation of (..., d) over the last axis, without scale and shift."""
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = (centred * centred).mean(dim=-1, keepdim=True)
    return centred / torch.sqrt(variance + 1e-5)


def gelu(u: torch.Tensor) -> torch.Tensor:
    """GELU in its tanh approximation (Hendrycks, Gimpel 2016), element by element."""
    inner = math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)
    return 0.5 * u * (1 + torch.tanh(inner))


def split_heads(x: torch.Tensor, num_heads: int) -> torch.Tensor:
    """(N, T, d) -> (N, num_heads, T, d / num_heads), consecutive features per head."""
    examples, tokens, features = x.shape
    width = features // num_heads
    return x.reshape(examples, tokens, num_heads, width).transpose(1, 2)


def merge_heads(x: torch.Tensor) -> torch.Tensor:
    """(N, num_heads, T, width) -> (N, T, num_heads * width), heads in order."""
    examples, heads, tokens, width = x.shape
    return x.transpose(1, 2).reshape(examples, tokens, heads * width)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Multi-head attention without a mask; all (N, T, d)."""
    q = split_heads(q, num_heads)
    k = split_heads(k, num_heads)
    v = split_heads(v, num_heads)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    weights = torch.softmax(scores, dim=-1)
    return merge_heads(weights @ v)


def encoder_block(x: torch.Tensor, block: torch.Tensor, num_heads: int) -> torch.Tensor:
    """One post-norm encoder block.

    x: (N, T, d); block: (6, d, d) holding w_q, w_k, w_v, w_o, w_mlp1, w_mlp2. Returns (N, T, d).
    Source: Vaswani et al., "Attention Is All You Need" (2017), sections 3.1 and 3.2, equation 1.
    """
    w_q, w_k, w_v, w_o, w_mlp1, w_mlp2 = block
    attended = attention(x @ w_q, x @ w_k, x @ w_v, num_heads) @ w_o
    hidden = layer_norm(x + attended)
    expanded = gelu(hidden @ w_mlp1) @ w_mlp2
    return layer_norm(hidden + expanded)
