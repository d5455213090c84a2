"""Reference for `encoder_forward`: the post-norm encoder of a Transformer.

Sources:
- Vaswani et al., "Attention Is All You Need" (2017): section 3.1 (the sublayers and their norm), 3.2.1
  (scaled dot-product attention), 3.2.2 (heads), 3.3 (feed-forward).
- Ba et al., "Layer Normalization" (2016): section 3.
- Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016): section 2, the approximation by tanh.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def embed(ids: Tensor, table: Tensor, positions: Tensor) -> Tensor:
    """Token plus position embeddings: (N, S), (V_src, d), (S, d) -> (N, S, d). Ids arrive as floats."""
    return table[ids.long()] + positions


def layer_norm(x: Tensor) -> Tensor:
    """(N, S, d) -> (N, S, d): Ba et al., section 3, over the d features, without their scale and bias."""
    mean = x.mean(dim=-1, keepdim=True)
    centred = x - mean
    variance = centred.square().mean(dim=-1, keepdim=True)
    return centred / torch.sqrt(variance + 1e-5)


def gelu(u: Tensor) -> Tensor:
    """Elementwise, any shape: Hendrycks and Gimpel, section 2, the approximation by tanh."""
    inner = math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)
    return 0.5 * u * (1 + torch.tanh(inner))


def softmax(scores: Tensor) -> Tensor:
    """(N, heads, S, S) -> the same: weights over the last axis, the keys, stable by each row's maximum."""
    largest = scores.amax(dim=-1, keepdim=True)
    weights = torch.exp(scores - largest)
    return weights / weights.sum(dim=-1, keepdim=True)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(N, S, d) -> (N, heads, S, d / heads): head h takes the h-th run of consecutive features."""
    examples, length, d = x.shape
    return x.reshape(examples, length, num_heads, d // num_heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(N, heads, S, width) -> (N, S, heads * width): the inverse of `split_heads`."""
    return x.transpose(1, 2).flatten(start_dim=2)


def attend(x: Tensor, weights: Tensor, num_heads: int) -> Tensor:
    """Multi-head self-attention (Vaswani et al., 3.2.1, 3.2.2) without a mask.

    x (N, S, d), weights (4, d, d) = [w_q, w_k, w_v, w_o] -> (N, S, d).
    """
    w_q, w_k, w_v, w_o = weights.unbind()
    q = split_heads(x @ w_q, num_heads)
    k = split_heads(x @ w_k, num_heads)
    v = split_heads(x @ w_v, num_heads)
    width = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(width)
    heads = softmax(scores) @ v
    return merge_heads(heads) @ w_o


def feed_forward(x: Tensor, w_mlp1: Tensor, w_mlp2: Tensor) -> Tensor:
    """(N, S, d), (d, d), (d, d) -> (N, S, d): Vaswani et al., section 3.3, with GELU and without biases."""
    return gelu(x @ w_mlp1) @ w_mlp2


def encoder_block(enc: Tensor, block: Tensor, num_heads: int) -> Tensor:
    """enc (N, S, d), block (6, d, d) -> (N, S, d): attention, feed-forward, each `norm(x + sublayer(x))`."""
    enc = layer_norm(enc + attend(enc, block[0:4], num_heads))
    enc = layer_norm(enc + feed_forward(enc, block[4], block[5]))
    return enc


def encoder_forward(
    src_ids: Tensor, src_emb: Tensor, enc_pos_embed: Tensor, enc_blocks: Tensor, num_heads: int
) -> Tensor:
    """One vector per source token, each made from the whole source (Vaswani et al., figure 1, left half).

    src_ids (N, S), src_emb (V_src, d), enc_pos_embed (S, d), enc_blocks (E, 6, d, d) -> (N, S, d).
    """
    enc = embed(src_ids, src_emb, enc_pos_embed)
    for block in enc_blocks:
        enc = encoder_block(enc, block, num_heads)
    return enc
