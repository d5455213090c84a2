import torch


def encoder_block(x: torch.Tensor, block: torch.Tensor, num_heads: int) -> torch.Tensor:
    """One post-norm encoder block: full self-attention, then a feed-forward layer.

    x: (N, T, d); block: (6, d, d) holding w_q, w_k, w_v, w_o, w_mlp1, w_mlp2; num_heads divides d.
    Returns (N, T, d) in the dtype of x.
    """
    raise NotImplementedError("write encoder_block, then run: grade encoder_block")
