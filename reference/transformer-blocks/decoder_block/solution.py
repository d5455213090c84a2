"""Reference for decoder_block."""

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


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, num_heads: int, causal: bool
) -> torch.Tensor:
    """Multi-head attention of q (N, T, d) over k and v (N, S, d); causal hides key j from query i < j."""
    q = split_heads(q, num_heads)
    k = split_heads(k, num_heads)
    v = split_heads(v, num_heads)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        queries = torch.arange(scores.shape[-2], device=scores.device)
        keys = torch.arange(scores.shape[-1], device=scores.device)
        later = keys[None, :] > queries[:, None]
        scores = scores.masked_fill(later, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return merge_heads(weights @ v)


def decoder_block(
    x: torch.Tensor, memory: torch.Tensor, block: torch.Tensor, num_heads: int
) -> torch.Tensor:
    """One post-norm decoder block.

    x: (N, T, d); memory: (N, S, d); block: (12, d, d): four self-attention, four cross-attention and
    two feed-forward weights, then two unused slots. Returns (N, T, d).
    Source: Vaswani et al., "Attention Is All You Need" (2017), sections 3.1 and 3.2, equation 1.
    """
    w_q_self, w_k_self, w_v_self, w_o_self = block[0:4]
    w_q_cross, w_k_cross, w_v_cross, w_o_cross = block[4:8]
    w_mlp1, w_mlp2 = block[8:10]
    looked_back = attention(x @ w_q_self, x @ w_k_self, x @ w_v_self, num_heads, causal=True)
    target = layer_norm(x + looked_back @ w_o_self)
    looked_across = attention(
        target @ w_q_cross, memory @ w_k_cross, memory @ w_v_cross, num_heads, causal=False
    )
    informed = layer_norm(target + looked_across @ w_o_cross)
    expanded = gelu(informed @ w_mlp1) @ w_mlp2
    return layer_norm(informed + expanded)
