"""What the named cases say: overrides of edge cases, and literals of examples."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from grader.spec import grammar, schema, sizes, structure
from grader.spec.document import Path_, nearest
from grader.spec.expressions import ExpressionError
from grader.spec.facts import Facts, count, listed
from grader.spec.meaning_inputs import SHAPED, examine_input, leaves

_INPUT: TypeAdapter[Any] = TypeAdapter(schema.InputEntry)
# A case may say one of a group where the exercise says another.
_EXCLUSIVE = ({"value", "choices", "range"}, {"items", "of"}, {"items", "count"})
# How many draws at the ends of the ranges are tried of an edge case.
CORNERS = 6
_KEPT_ACROSS_KINDS = ("shape", "layout", "type", "about", "default")


def examine_edge(facts: Facts, path: Path_, name: str, edge: schema.EdgeCase) -> None:
    """Report every fault of an edge case, and keep its merged inputs."""
    report = facts.report
    said = facts.said
    for key, dim in edge.dims.items():
        if facts.dims is not None and key not in facts.dims:
            report(
                (*path, "dims", key),
                f"there is no dim `{key}`{nearest(key, facts.dims)}",
                listed("a dim", facts.dims),
                key=True,
            )
        facts.expression((*path, "dims", key, "value"), dim.value, facts.dims, "a dim")
    facts.merged[name] = {}
    for key, override in edge.inputs.items():
        _override(facts, (*path, "inputs", key), name, key, override)
    for index, line in enumerate(edge.adjust):
        facts.assignment((*path, "adjust", index), line, frozenset(edge.omit))
    _omitted(facts, path, edge)
    if facts.sizes_sound and said == facts.said and (edge.dims or edge.inputs):
        _edge_sizes(facts, path, name, edge)


def _edge_sizes(facts: Facts, path: Path_, case: str, edge: schema.EdgeCase) -> None:
    """Try the smallest and largest sizes of an edge case; where none satisfies the constraints, the case is one that breaks them."""
    entries = {**facts.spec.dims, **edge.dims}
    if not sizes.all_names_known(entries):
        return
    try:
        entries = {name: entries[name] for name in sizes.order(entries)}
    except ExpressionError as error:
        facts.report((*path, "dims"), str(error), "a dim that is drawn, or has a value of its own", key=True)
        return
    tried = list(itertools.islice(sizes.corners(entries), CORNERS))
    for drawn in tried:
        failed = sizes.compute(entries, drawn)
        if failed is not None:
            _at_dim(facts, path, edge, failed[0], failed[1], drawn)
            return
    for drawn in [drawn for drawn in tried if sizes.holds(facts.spec.constraints, drawn)] or tried:
        name = next((name for name, size in drawn.items() if size < 0), None)
        if name is not None:
            _at_dim(facts, path, edge, name, f"`{name}` is {drawn[name]}", drawn)
            return
        if _edge_arrays(facts, path, case, edge, drawn):
            return


def _at_dim(facts: Facts, path: Path_, edge: schema.EdgeCase, name: str, reason: str, drawn: Mapping[str, int]) -> None:
    place = (*path, "dims", name) if name in edge.dims else (*path, "dims") if edge.dims else path
    wanted = "a whole number, 0 or more, whatever is drawn"
    facts.report(place, f"{reason}{sizes.in_words(drawn, name)}", wanted, key=place == path)


def _edge_arrays(facts: Facts, path: Path_, case: str, edge: schema.EdgeCase, drawn: Mapping[str, int]) -> bool:
    """Whether some input of an edge case cannot be drawn for these dims; reports the first."""
    for key, entry in {**facts.spec.inputs, **facts.spec.aux, **facts.merged[case]}.items():
        if key in edge.omit:
            continue
        for below, shaped in leaves((), entry):
            fault = sizes.array_fault(shaped, drawn)
            if fault is not None:
                own = (*path, "inputs", key, *below, *fault.where)
                place = own if key in edge.inputs else (*path, "dims")
                facts.report(place, f"`{key}`: {fault.said}{sizes.in_words(drawn)}", fault.wanted)
                return True
    return False


def _override(facts: Facts, path: Path_, case: str, key: str, override: dict[str, Any] | None) -> None:
    known = None if facts.inputs is None or facts.aux is None else [*facts.inputs, *facts.aux]
    if known is not None and key not in known:
        facts.report(path, f"there is no input `{key}`{nearest(key, known)}", listed("an input", known), key=True)
        return
    if override is None:
        facts.merged[case][key] = None
        return
    section = "inputs" if key in facts.spec.inputs else "aux"
    base = facts.view.at((section, key))
    if not isinstance(base, dict) or key not in {**facts.spec.inputs, **facts.spec.aux}:
        # What it overrides could not be read.
        return
    together = {**_base_for(base, override), **override}
    try:
        merged = _INPUT.validate_python(together)
    except ValidationError as error:
        for fault in structure.faults_of(error, together):
            _report_merged(facts, path, key, fault, together, override)
        return
    facts.merged[case][key] = merged
    examine_input(facts, path, merged, only=override)


def _report_merged(facts: Facts, path: Path_, key: str, fault: structure.Fault, together: Any, override: Any) -> None:
    """A fault of a merged input, said at the line that the edge case gives."""
    model = grammar.model_of(schema.InputEntry, together)
    allowed = list(grammar.keys(model)) if model is not None else []
    own = bool(fault.path) and isinstance(override, dict) and fault.path[0] in override
    place = (*path, *fault.path) if own else path
    if fault.type == "extra_forbidden":
        kind = schema.kind_of(together)
        facts.report(
            place,
            f"unknown key `{fault.path[-1]}` for the {kind} input `{key}`{nearest(fault.path[-1], allowed)}",
            "one of " + ", ".join(allowed),
            key=True,
        )
    elif fault.type == "missing":
        facts.report(
            path,
            f"`{key}` becomes a {schema.kind_of(together)} input, and the key `{fault.path[-1]}` is missing",
            f"`{fault.path[-1]}: …`",
            key=True,
        )
    elif fault.type == "union_tag_invalid":
        given = together.get("kind")
        facts.report(
            (*path, "kind"),
            f"unknown kind `{given}`{nearest(given, schema.KINDS)}",
            "one of " + ", ".join(schema.KINDS),
        )
    else:
        holder = grammar.Key(key, schema.InputEntry, "", True)
        found: grammar.Key | None = holder
        data = together
        for step in fault.path:
            found = grammar.inside(found.annotation, step, data) if found is not None else None
            data = data[step] if isinstance(data, dict) and step in data else None
        said, wanted, offset = structure.explain(fault, found)
        facts.report(place, said, wanted, offset=offset)


def _omitted(facts: Facts, path: Path_, edge: schema.EdgeCase) -> None:
    for index, key in enumerate(edge.omit):
        entry = facts.spec.inputs.get(key)
        if facts.inputs is not None and key not in facts.inputs:
            facts.report(
                (*path, "omit", index),
                f"there is no input `{key}`{nearest(key, facts.inputs)}",
                "an input with a `default`",
            )
        elif entry is not None and not entry.optional:
            facts.report(
                (*path, "omit", index),
                f"`{key}` has no `default` and cannot be left out",
                "an input with a `default`",
            )
    names = list(facts.spec.inputs)
    last = next((name for name in reversed(names) if name not in edge.omit), None)
    after = names[: names.index(last) + 1] if last is not None else []
    for index, key in enumerate(edge.omit):
        if key in after and facts.spec.inputs[key].optional:
            facts.report(
                (*path, "omit", index),
                f"`{key}` is left out, and `{last}` after it is not",
                "only the last inputs of the signature: arguments are passed by position",
            )


def examine_example(facts: Facts, path: Path_, example: schema.Example) -> None:
    report = facts.report
    for key, literal in example.inputs.items():
        entry = facts.spec.inputs.get(key)
        if facts.inputs is not None and key not in facts.inputs:
            report(
                (*path, "inputs", key),
                f"there is no input `{key}`{nearest(key, facts.inputs)}",
                listed("an input", facts.inputs),
                key=True,
            )
        elif entry is not None and not (literal is None and entry.optional):
            said = _literal_fault(entry, literal)
            if said is not None:
                report((*path, "inputs", key), f"`{key}` {said[0]}", said[1])
    if example.from_reference and example.inputs:
        report((*path, "inputs"), "this example has `inputs` and `from_reference`", "either of them", key=True)
    elif not example.from_reference and not facts.lost(*path, "inputs"):
        for key, entry in facts.spec.inputs.items():
            if key not in example.inputs and not entry.optional:
                report(
                    path,
                    f"the example lacks the input `{key}`",
                    f"`{key}: …` below `inputs`, as literal numbers",
                    key=True,
                )
    if example.tolerance and example.expected is None:
        report(
            (*path, "tolerance"),
            "`tolerance` has no effect without `expected`",
            "`expected: …`, the published values",
            key=True,
        )
    shape = _shape_of(example.expected)
    output = facts.spec.output
    axes = output.shape if output.shape is not None else output.axes
    if output.kind == "array" and axes is not None and example.expected is not None:
        if shape is None:
            report((*path, "expected"), "the rows of `expected` differ in length", "lists of equal length")
        elif len(shape) != len(axes):
            report(
                (*path, "expected"),
                f"`expected` has {count(len(shape), 'axis', 'axes')} and the output {len(axes)}",
                f"lists nested {len(axes)} deep",
            )


def _base_for(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """What remains of an input's own keys under an override: all, but for those that the override replaces as a group."""
    new_kind = schema.kind_of(override) if {"kind", "value", "choices", "range"} & override.keys() else None
    if new_kind is None and "shape" in override and schema.kind_of(base) not in SHAPED:
        new_kind = "float"
    if new_kind is not None and new_kind != schema.kind_of(base):
        fitting = grammar.kinds(schema.InputEntry).get(new_kind)
        allowed = grammar.keys(fitting) if fitting is not None else {}
        return {key: value for key, value in base.items() if key in _KEPT_ACROSS_KINDS and key in allowed}
    for group in _EXCLUSIVE:
        if group & override.keys():
            base = {key: value for key, value in base.items() if key not in group or key in override}
    return base


def _literal_fault(entry: Any, literal: Any) -> tuple[str, str] | None:
    """(what is wrong, what was expected) of an example's literal for an input; None when it fits."""
    if isinstance(entry, schema.FunctionInput):
        return "is a function, which an example cannot hand in", "an edge case instead"
    if isinstance(entry, schema.ListInput):
        if not isinstance(literal, list):
            return f"is {structure.what_is(literal)}", "a list"
        declared = entry.items or ()
        some = entry.of or next((item for item in declared if item is not None), None)
        wanted = [
            declared[at] if at < len(declared) and declared[at] is not None else some for at in range(len(literal))
        ]
        return _first_fault(zip(literal, wanted, (f"[{at}]" for at in range(len(literal))), strict=True))
    if isinstance(entry, schema.DictInput):
        keys = "a mapping with the keys " + ", ".join(entry.items)
        if not isinstance(literal, dict):
            return f"is {structure.what_is(literal)}", keys
        missing = [key for key in entry.items if key not in literal]
        if missing:
            return f"lacks the key `{missing[0]}`", keys
        unknown = [key for key in literal if key not in entry.items]
        if unknown:
            return f"has the unknown key `{unknown[0]}`{nearest(unknown[0], entry.items)}", keys
        return _first_fault((literal[key], entry.items[key], f"['{key}']") for key in entry.items)
    if isinstance(entry, schema.ScalarInput):
        return ("is a mapping", "a literal") if isinstance(literal, dict) else None
    words = {"booleans": "true and false", "float": "numbers"}.get(entry.kind, "whole numbers")
    wrong = next((leaf for leaf in _flat(literal) if not _is_literal_of(entry.kind, leaf)), None)
    if wrong is not None:
        return f"holds {structure.what_is(wrong[0])}", f"{words}, as lists nested {len(entry.shape)} deep"
    # Its rank is free: functions over any number of axes have examples of any.
    return ("has rows that differ in length", "lists of equal length") if _shape_of(literal) is None else None


def _first_fault(parts: Iterable[tuple[Any, Any, str]]) -> tuple[str, str] | None:
    """The first fault among (literal, input, where) of a container; None stands for None."""
    for literal, entry, where in parts:
        fault = None if literal is None or entry is None else _literal_fault(entry, literal)
        if fault is not None:
            return f"{fault[0]} (at {where})", fault[1]
    return None


def _flat(literal: Any) -> Iterator[tuple[Any]]:
    if isinstance(literal, list):
        for item in literal:
            yield from _flat(item)
    else:
        yield (literal,)


def _is_literal_of(kind: str, leaf: tuple[Any]) -> bool:
    value = leaf[0]
    if kind == "booleans":
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return kind == "float" or (value == value // 1 and abs(value) < 2**63)


def _shape_of(literal: Any) -> tuple[int, ...] | None:
    """The shape of nested lists; None when they are ragged."""
    if not isinstance(literal, list):
        return ()
    inner = {_shape_of(item) for item in literal}
    if not inner:
        return (0,)
    only = inner.pop()
    return None if inner or only is None else (len(literal), *only)
