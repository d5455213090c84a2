import numpy as np


def decoder_forward(
    ids: np.ndarray,
    tok_emb: np.ndarray,
    pos_emb: np.ndarray,
    w_q: np.ndarray,
    w_k: np.ndarray,
    w_v: np.ndarray,
    w_o: np.ndarray,
    w_1: np.ndarray,
    w_2: np.ndarray,
    w_u: np.ndarray,
    b_u: np.ndarray,
) -> np.ndarray:
    """Return the logits of a decoder with one pre-norm block.

    ids: (B, T) int64. tok_emb: (V, d). pos_emb: (T, d). w_q, w_k, w_v, w_o: (d, d).
    w_1: (d, f). w_2: (f, d). w_u: (d, V). b_u: (V,).
    Returns (B, T, V), of the dtype of the tables.
    """
    raise NotImplementedError("write decoder_forward, then run: grade decoder_forward")
