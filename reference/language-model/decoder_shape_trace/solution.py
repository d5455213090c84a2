"""The shape of every stage between token ids and the loss of a decoder, without computing any of it.

The stages are those of "Decoder-Only Transformer Forward Pass" (Continuous Function), equations 1 to 7.
"""


def decoder_shape_trace(B, T, d, V):
    """Stage name -> shape, for B examples of T tokens, hidden width d and a vocabulary of V tokens."""
    tokens = (B, T)
    hidden = (B, T, d)
    vocabulary = (B, T, V)
    return {
        "ids": tokens,
        "embedded": hidden,
        "normed": hidden,
        "queries": hidden,
        "scores": (B, T, T),
        "context": hidden,
        "after_attention": hidden,
        "after_mlp": hidden,
        "logits": vocabulary,
        "log_probs": vocabulary,
        "loss": (),
    }
