import torch


def sgd_train_step(
    params: dict[str, torch.Tensor], ids: torch.Tensor, labels: torch.Tensor, lr: float
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Return the parameters after one step of gradient descent, and the loss before it.

    params: tok_emb (V, d), pos_emb (T, d), w_q, w_k, w_v, w_o (d, d), w_1 (d, f), w_2 (f, d), w_u (d, V), b_u (V,).
    ids, labels: (B, T) int64; labels are shifted already, -100 is not counted. lr: the size of the step.
    Returns a dict like params with new, detached tensors, and one number.
    """
    raise NotImplementedError("write sgd_train_step, then run: grade sgd_train_step")
