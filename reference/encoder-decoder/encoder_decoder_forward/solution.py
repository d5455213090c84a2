"""Reference for `encoder_decoder_forward`: a post-norm encoder-decoder Transformer, forward pass only.

Sources:
- Vaswani et al., "Attention Is All You Need" (2017): section 3.1 (the sublayers and their norm), 3.2.1
  (scaled dot-product attention), 3.2.2 (heads), 3.2.3 (what each attention reads), 3.3 (feed-forward).
- Ba et al., "Layer Normalization" (2016): section 3.
- Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016): section 2, the approximation by tanh.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def embed(ids: Tensor, table: Tensor, positions: Tensor) -> Tensor:
    """Token plus position embeddings: (N, T), (V, d), (T, d) -> (N, T, d). Ids arrive as floats."""
    return table[ids.long()] + positions


def layer_norm(x: Tensor) -> Tensor:
    """(N, T, d) -> (N, T, d): Ba et al., section 3, over the d features, without their scale and bias."""
    mean = x.mean(dim=-1, keepdim=True)
    centred = x - mean
    variance = centred.square().mean(dim=-1, keepdim=True)
    return centred / torch.sqrt(variance + 1e-5)


def gelu(u: Tensor) -> Tensor:
    """Elementwise, any shape: Hendrycks and Gimpel, section 2, the approximation by tanh."""
    inner = math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)
    return 0.5 * u * (1 + torch.tanh(inner))


def softmax(scores: Tensor) -> Tensor:
    """(N, heads, T, S) -> the same: weights over the last axis, the keys, stable by each row's maximum."""
    largest = scores.amax(dim=-1, keepdim=True)
    weights = torch.exp(scores - largest)
    return weights / weights.sum(dim=-1, keepdim=True)


def hide_later_keys(scores: Tensor) -> Tensor:
    """(N, heads, T, T) -> the same: -inf where the key is later than the query (Vaswani et al., 3.2.3)."""
    length = scores.shape[-1]
    later = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(diagonal=1)
    return scores.masked_fill(later, -math.inf)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(N, T, d) -> (N, heads, T, d / heads): head h takes the h-th run of consecutive features."""
    examples, length, d = x.shape
    return x.reshape(examples, length, num_heads, d // num_heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(N, heads, T, width) -> (N, T, heads * width): the inverse of `split_heads`."""
    return x.transpose(1, 2).flatten(start_dim=2)


def attend(x: Tensor, memory: Tensor, weights: Tensor, num_heads: int, causal: bool) -> Tensor:
    """Multi-head attention (Vaswani et al., 3.2.1, 3.2.2): queries from x, keys and values from memory.

    x (N, T, d), memory (N, S, d), weights (4, d, d) = [w_q, w_k, w_v, w_o] -> (N, T, d).
    """
    w_q, w_k, w_v, w_o = weights.unbind()
    q = split_heads(x @ w_q, num_heads)
    k = split_heads(memory @ w_k, num_heads)
    v = split_heads(memory @ w_v, num_heads)
    width = q.shape[-1]
    scores = q @ k.transpose(-2, -1) / math.sqrt(width)
    if causal:
        scores = hide_later_keys(scores)
    heads = softmax(scores) @ v
    return merge_heads(heads) @ w_o


def feed_forward(x: Tensor, w_mlp1: Tensor, w_mlp2: Tensor) -> Tensor:
    """(N, T, d), (d, d), (d, d) -> (N, T, d): Vaswani et al., section 3.3, with GELU and without biases."""
    return gelu(x @ w_mlp1) @ w_mlp2


def encoder_block(enc: Tensor, block: Tensor, num_heads: int) -> Tensor:
    """enc (N, S, d), block (6, d, d) -> (N, S, d): attention, feed-forward, each `norm(x + sublayer(x))`."""
    enc = layer_norm(enc + attend(enc, enc, block[0:4], num_heads, causal=False))
    enc = layer_norm(enc + feed_forward(enc, block[4], block[5]))
    return enc


def decoder_block(dec: Tensor, enc: Tensor, block: Tensor, num_heads: int) -> Tensor:
    """dec (N, T, d), enc (N, S, d), block (12, d, d), of which slots 0 to 9 are in use -> (N, T, d)."""
    dec = layer_norm(dec + attend(dec, dec, block[0:4], num_heads, causal=True))
    dec = layer_norm(dec + attend(dec, enc, block[4:8], num_heads, causal=False))
    dec = layer_norm(dec + feed_forward(dec, block[8], block[9]))
    return dec


def encode(ids: Tensor, table: Tensor, positions: Tensor, blocks: Tensor, num_heads: int) -> Tensor:
    """(N, S) ids -> (N, S, d), the context that every decoder block reads."""
    enc = embed(ids, table, positions)
    for block in blocks:
        enc = encoder_block(enc, block, num_heads)
    return enc


def decode(
    ids: Tensor, table: Tensor, positions: Tensor, enc: Tensor, blocks: Tensor, num_heads: int
) -> Tensor:
    """(N, T) ids, (N, S, d) context -> (N, T, d), ready for the projection."""
    dec = embed(ids, table, positions)
    for block in blocks:
        dec = decoder_block(dec, enc, block, num_heads)
    return dec


def encoder_decoder_forward(
    src_ids: Tensor,
    tgt_ids: Tensor,
    src_emb: Tensor,
    tgt_emb: Tensor,
    enc_pos_embed: Tensor,
    dec_pos_embed: Tensor,
    enc_blocks: Tensor,
    dec_blocks: Tensor,
    w_head: Tensor,
    num_heads: int,
) -> Tensor:
    """Vocabulary scores at every target position (Vaswani et al., figure 1, without the last softmax).

    src_ids (N, S), tgt_ids (N, T), src_emb (V_src, d), tgt_emb (V_tgt, d), enc_pos_embed (S, d),
    dec_pos_embed (T, d), enc_blocks (E, 6, d, d), dec_blocks (L, 12, d, d), w_head (d, V_tgt)
    -> (N, T, V_tgt).
    """
    enc = encode(src_ids, src_emb, enc_pos_embed, enc_blocks, num_heads)
    dec = decode(tgt_ids, tgt_emb, dec_pos_embed, enc, dec_blocks, num_heads)
    return dec @ w_head
