import torch


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
    """One causal Transformer block with layer normalisation before each sublayer.

    x: (N, T, d); w_q, w_k, w_v, w_o: (d, d); w_1: (d, f); w_2: (f, d); num_heads divides d.
    Returns (N, T, d) in the dtype of x.
    """
    raise NotImplementedError("write pre_norm_block, then run: grade pre_norm_block")
