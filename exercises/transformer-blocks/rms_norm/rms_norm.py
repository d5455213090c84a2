import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Divide every token of x by its root mean square and multiply each feature by its weight.

    x: (..., d); weight: (d,), the dtype of x; eps: positive float.
    Returns a tensor of the shape and dtype of x; float16 is computed in float32.
    """
    raise NotImplementedError("write rms_norm, then run: grade rms_norm")
