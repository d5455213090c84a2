"""Automatic mutants of a reference solution: the same file with one small, plausible fault.

`grader lint` grades every mutant. One that passes although some input tells it from the reference shows
what an exercise does not check. The families are those of array code: axes, masks, scales, residuals,
transposes, casts and off-by-one bounds, beside the classical operators and constants.

`FAMILIES` is the whole catalogue: a name and a function from one node to the changes it proposes. A family
looks at the node it is given and at facts gathered once about the file (`Reading`); it never edits the tree.

What is left alone, because a change there proves nothing about the values: docstrings, annotations,
decorators, imports, f-strings, `assert` and `raise` statements, the condition of an `if` that only raises,
and `if __name__ == "__main__"`. So are calls whose removal changes no value (`contiguous`, `asarray`, …),
swaps of commutative operands, swaps of statements that do not depend on each other, and changes that cannot
but crash (one bound of a slice that is unpacked, an array given for a parameter annotated `int`).

A mutant may loop for ever or ask for a lot of memory: run it where submissions run.
"""

from __future__ import annotations

import ast
import itertools
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from grader.authoring.building import Change
from grader.authoring.mutate_calls import (
    mutate_arguments,
    mutate_call,
    mutate_cast,
    mutate_dropped_call,
    mutate_einsum,
    mutate_transpose,
    mutate_view,
)
from grader.authoring.mutate_control import (
    mutate_conditional,
    mutate_index,
    mutate_inplace,
    mutate_loop,
    mutate_order,
    mutate_range,
    mutate_slice,
    mutate_statement,
    mutate_tuple,
    mutate_variable,
)
from grader.authoring.mutate_values import (
    mutate_arithmetic,
    mutate_axis,
    mutate_boolean,
    mutate_comparison,
    mutate_constant,
    mutate_factor,
    mutate_infinity,
    mutate_keyword,
    mutate_negation,
    mutate_operands,
    mutate_term,
)
from grader.authoring.reading import Position, Reading, find_used, read_source, walk_mutable

__all__ = ["FAMILIES", "Change", "Mutant", "mutate", "sample"]


@dataclass(frozen=True)
class Mutant:
    """One mutated file.

    `line` and `column` (both from 1, in characters) are the place in the original source, and `before` and
    `after` are one line each, cut to the part that differs. `source` is the complete mutated file as
    `ast.unparse` writes it, so its own lines are numbered otherwise and its comments are gone.
    """

    id: str
    operator: str
    line: int
    column: int
    before: str
    after: str
    source: str


def mutate(source: str, *, function: str | None = None) -> tuple[Mutant, ...]:
    """Every distinct mutant of `source`, in source order.

    With `function`, only that top-level function and what it uses in the file are mutated: a generator of
    example inputs beside it is not. Mutants are distinct by normalised source, differ from the original, and
    compile. Raises `SyntaxError` when `source` does not parse and `ValueError` when it has no such function.
    """
    reading = read_source(source)
    statements = reading.tree.body
    mutable = set(range(len(statements))) if function is None else find_used(statements, function)

    texts = [write_statement(statement) for statement in statements]
    proposals: list[tuple[Position, int, int, str, Change]] = []
    for number, statement in enumerate(statements):
        if number not in mutable:
            continue
        for node in walk_mutable(statement):
            for rank, (operator, family) in enumerate(FAMILIES.items()):
                for change in family(node, reading):
                    proposals.append((change.at, rank, number, operator, change))
    proposals.sort(key=lambda proposal: proposal[:2])

    seen = {join_statements(texts)}
    ids: Counter[str] = Counter()
    mutants: list[Mutant] = []
    for at, _, number, operator, change in proposals:
        statement_text = render_changed(statements[number], change, reading)
        text = join_statements([*texts[:number], statement_text, *texts[number + 1 :]])
        if text in seen or not compiles(text):
            continue
        seen.add(text)
        line, column = at[0], len(reading.lines[at[0] - 1][: at[1]].decode()) + 1
        identity = f"{operator}@{line}:{column}:{change.variant}"
        ids[identity] += 1
        if ids[identity] > 1:
            identity = f"{identity}#{ids[identity]}"
        before, after = describe_change(change, reading)
        mutants.append(Mutant(identity, operator, line, column, before, after, text))
    return tuple(mutants)


def sample(mutants: Sequence[Mutant], limit: int, seed: int) -> tuple[Mutant, ...]:
    """At most `limit` of `mutants`, in their order, spread evenly over operators and then over lines.

    The same arguments give the same sample. Raises `ValueError` for a negative `limit`.
    """
    if limit < 0:
        raise ValueError(f"limit is {limit}; expected 0 or more")
    order = list(range(len(mutants)))
    random.Random(seed).shuffle(order)
    waiting: dict[str, list[int]] = {}
    for index in order:
        waiting.setdefault(mutants[index].operator, []).append(index)

    chosen: list[int] = []
    lines: Counter[int] = Counter()
    while waiting and len(chosen) < limit:
        for operator in list(waiting):
            if len(chosen) == limit:
                break
            index = min(waiting[operator], key=lambda i: lines[mutants[i].line])
            waiting[operator].remove(index)
            if not waiting[operator]:
                del waiting[operator]
            lines[mutants[index].line] += 1
            chosen.append(index)
    return tuple(mutants[index] for index in sorted(chosen))


Family = Callable[[ast.AST, Reading], Iterator[Change]]

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "arithmetic": mutate_arithmetic,
        "operands": mutate_operands,
        "term": mutate_term,
        "factor": mutate_factor,
        "negation": mutate_negation,
        "comparison": mutate_comparison,
        "boolean": mutate_boolean,
        "constant": mutate_constant,
        "infinity": mutate_infinity,
        "axis": mutate_axis,
        "keyword": mutate_keyword,
        "call": mutate_call,
        "dropped_call": mutate_dropped_call,
        "transpose": mutate_transpose,
        "view": mutate_view,
        "arguments": mutate_arguments,
        "einsum": mutate_einsum,
        "cast": mutate_cast,
        "slice": mutate_slice,
        "index": mutate_index,
        "range": mutate_range,
        "loop": mutate_loop,
        "conditional": mutate_conditional,
        "statement": mutate_statement,
        "order": mutate_order,
        "tuple": mutate_tuple,
        "inplace": mutate_inplace,
        "variable": mutate_variable,
    }
)
"""Every family of mutants by name, in the order in which equal mutants are claimed."""


# --- rendering a change -------------------------------------------------------------------------------


def render_changed(statement: ast.stmt, change: Change, reading: Reading) -> str:
    """The text of a top-level statement with `change` applied. The tree is as it was afterwards."""
    if change.replaced[0][0] is statement:
        return ast.unparse(change.replaced[0][1])
    # Patching in place and restoring costs nothing per mutant; copying the tree would dominate the run.
    slots = [reading.slots[id(old)] for old, _ in change.replaced]
    try:
        for slot, (_, new) in zip(slots, change.replaced, strict=True):
            slot.put(new)
        return write_statement(statement)
    finally:
        for slot, (old, _) in zip(slots, change.replaced, strict=True):
            slot.put(old)


def write_statement(statement: ast.stmt) -> str:
    # Within a module a string statement is written as the docstring it is.
    return ast.unparse(ast.Module([statement], []))


def join_statements(texts: Iterable[str]) -> str:
    return "\n\n".join(text.strip("\n") for text in texts) + "\n"


def compiles(text: str) -> bool:
    # `0[1]` and the like are legal and warn; under `-W error` the warning would become a SyntaxError.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "<mutant>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
    return True


def describe_change(change: Change, reading: Reading) -> tuple[str, str]:
    """Before and after, one line each, cut to the neighbourhood of the first difference."""
    limit, lead = 72, 24
    before = "; ".join(reading.show(old) for old, _ in change.replaced)
    after = "; ".join(" ".join(ast.unparse(new).split()) for _, new in change.replaced)
    if max(len(before), len(after)) <= limit:
        return before, after
    pairs = zip(before, after, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    start = max(0, same - lead)

    def cut(text: str) -> str:
        part = text[start : start + limit]
        return ("…" if start else "") + part + ("…" if start + limit < len(text) else "")

    return cut(before), cut(after)
