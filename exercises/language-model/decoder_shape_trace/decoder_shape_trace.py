def decoder_shape_trace(B: int, T: int, d: int, V: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of every stage of a decoder, from the token ids to the loss.

    B: number of examples. T: tokens per example. d: width of the hidden state. V: size of the vocabulary.
    Returns a dict from the name of a stage to its shape, a tuple or a list of integers.
    """
    raise NotImplementedError("write decoder_shape_trace, then run: grade decoder_shape_trace")
