"""The shape of every stage between token ids and the loss of a decoder, without computing any of it.

The stages are those of "Decoder-Only Transformer Forward Pass" (Continuous Function), equations 1 to 7, with one head.
"""


def decoder_shape_trace(B, T, d, V):
    """Stage name -> shape, a tuple of integers, for B examples of T tokens, width d and V tokens in the vocabulary."""
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
