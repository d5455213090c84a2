"""Reference for pre_norm_block."""

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


def causal_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, num_heads: int
) -> torch.Tensor:
    """Multi-head attention in which token i reads tokens 0 .. i; all (N, T, d)."""
    q = split_heads(q, num_heads)
    k = split_heads(k, num_heads)
    v = split_heads(v, num_heads)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    tokens = torch.arange(q.shape[-2], device=q.device)
    later = tokens[None, :] > tokens[:, None]
    scores = scores.masked_fill(later, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return merge_heads(weights @ v)


def pre_norm_block(
    x: torch.Tensor,
    w_q: torch.Tensor,
    w_k: torch.Tensor,
    w_v: torch.Tensor,
    w_o: torch.Tensor,
    w_1: torch.Tensor,
    w_2: torch.Tensor,
    num_heads: int,
) -> torch.Tensor:
    """One causal block with layer normalisation before each sublayer.

    x: (N, T, d); w_q, w_k, w_v, w_o: (d, d); w_1: (d, f); w_2: (f, d). Returns (N, T, d).
    Source: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), section 2.3;
    attention from Vaswani et al., "Attention Is All You Need" (2017), equation 1 and section 3.2.2.
    """
    normed = layer_norm(x)
    attended = causal_attention(normed @ w_q, normed @ w_k, normed @ w_v, num_heads)
    hidden = x + attended @ w_o
    return hidden + gelu(layer_norm(hidden) @ w_1) @ w_2
