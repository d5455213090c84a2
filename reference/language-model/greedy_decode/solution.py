"""Reference for greedy_decode."""

from collections.abc import Callable


def most_likely(logits: list[float]) -> int:
    """The index of the largest of V logits; of several equal ones, the lowest index."""
    best = 0
    for candidate in range(1, len(logits)):
        if logits[candidate] > logits[best]:
            best = candidate
    return best


def greedy_decode(
    step_fn: Callable[[list[int]], list[float]], prompt: list[int], max_new_tokens: int, eos_id: int
) -> list[int]:
    """Extend a prompt with the most likely id until `eos_id` is produced or the limit is reached.

    step_fn: list of all ids so far -> V logits; prompt: list of at least one id.
    Returns the list of prompt ids followed by at most max_new_tokens new ids.
    Source: decoding with a beam of one; Sutskever, Vinyals, Le, "Sequence to Sequence Learning with
    Neural Networks" (2014), section 3.2.
    """
    ids = list(prompt)
    for _ in range(max_new_tokens):
        logits = step_fn(list(ids))
        chosen = most_likely(logits)
        ids.append(chosen)
        if chosen == eos_id:
            break
    return ids
