import numpy as np


def decoder_lm_loss(
    ids: np.ndarray,
    labels: np.ndarray,
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
) -> float:
    """Return the mean next-token loss of a decoder with one pre-norm block.

    ids: (B, T) int64. labels: (B, T) int64, already shifted, -100 where nothing is predicted.
    tok_emb: (V, d). pos_emb: (T, d). w_q, w_k, w_v, w_o: (d, d). w_1: (d, f). w_2: (f, d). w_u: (d, V). b_u: (V,).
    Returns one number.
    """
    raise NotImplementedError("write decoder_lm_loss, then run: grade decoder_lm_loss")
