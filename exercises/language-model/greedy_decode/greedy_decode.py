from collections.abc import Callable


def greedy_decode(
    step_fn: Callable[[list[int]], list[float]], prompt: list[int], max_new_tokens: int, eos_id: int
) -> list[int]:
    """Extend prompt by the most likely id, again and again, until eos_id or max_new_tokens.

    step_fn: list of all ids so far -> list of V logits; prompt: list of at least one id.
    Returns the list of the prompt's ids followed by the new ids.
    """
    raise NotImplementedError("write greedy_decode, then run: grade greedy_decode")
