from torch import Tensor


def encoder_forward(
    src_ids: Tensor, src_emb: Tensor, enc_pos_embed: Tensor, enc_blocks: Tensor, num_heads: int
) -> Tensor:
    """One vector per source token, each made from the whole source.

    src_ids (N, S): token ids, whole numbers that arrive as floats.
    src_emb (V_src, d): token embeddings. enc_pos_embed (S, d): position embeddings.
    enc_blocks (E, 6, d, d): the blocks' matrices; E may be 0. num_heads divides d.
    Returns the encoded source (N, S, d).
    """
    raise NotImplementedError("write encoder_forward, then run: grade encoder_forward")
