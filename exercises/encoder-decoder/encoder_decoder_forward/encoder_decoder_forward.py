from torch import Tensor


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
    """Vocabulary scores at every target position of an encoder-decoder Transformer.

    src_ids (N, S) and tgt_ids (N, T): token ids, whole numbers that arrive as floats.
    src_emb (V_src, d), tgt_emb (V_tgt, d): token embeddings.
    enc_pos_embed (S, d), dec_pos_embed (T, d): position embeddings.
    enc_blocks (E, 6, d, d), dec_blocks (L, 12, d, d): the blocks' matrices; E and L may be 0.
    w_head (d, V_tgt): projection to the target vocabulary. num_heads divides d.
    Returns logits (N, T, V_tgt).
    """
    raise NotImplementedError("write encoder_decoder_forward, then run: grade encoder_decoder_forward")
