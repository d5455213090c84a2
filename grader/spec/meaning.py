"""What an exercise file says, beyond its structure: every name must exist, shapes must agree, every check must find a case.

Works on whatever could be read, so that these faults are reported together with the structural ones. Where a section
could not be read its names are unknown, and nothing is said of names that might have stood there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grader.spec import expressions, schema, sizes, structure
from grader.spec.document import Path_
from grader.spec.facts import Facts, count, listed
from grader.spec.meaning_cases import examine_edge, examine_example
from grader.spec.meaning_checks import GROUPS, examine_checks
from grader.spec.meaning_inputs import examine_input, leaves


def examine(held: structure.Held[schema.ExerciseFile], name: str) -> dict[str, dict[str, Any]]:
    """Report every fault of meaning; returns, for each edge case, its inputs after merging (None is a literal None)."""
    facts = Facts(held, name)
    spec = facts.spec
    _names(facts)
    _framework(facts)
    _dims(facts)
    for section, entries in (("inputs", spec.inputs), ("aux", spec.aux)):
        for key, entry in entries.items():
            examine_input(facts, (section, key), entry)
    _signature(facts)
    for index, line in enumerate(spec.adjust):
        facts.assignment(("adjust", index), line)
    _output(facts, ("output",), spec.output)
    for key, edge in spec.cases.edge.items():
        examine_edge(facts, ("cases", "edge", key), key, edge)
    for key, example in spec.cases.examples.items():
        examine_example(facts, ("cases", "examples", key), example)
    examine_checks(facts)
    _builds_on(facts)
    return facts.merged


def _names(facts: Facts) -> None:
    seen: dict[str, Path_] = {}
    for section, names in (("dims", facts.dims), ("inputs", facts.inputs), ("aux", facts.aux)):
        for name in names or ():
            path: Path_ = (section, name)
            facts.usable(path, name)
            if name in seen:
                where = {"dims": "a dim", "inputs": "an input", "aux": "an aux array"}
                said = f"`{name}` is both {where[str(seen[name][0])]} and {where[section]}"
                facts.report(path, said, "two different names", key=True)
            seen.setdefault(name, path)
    cases: dict[str, str] = {}
    for group, names in (("edge", facts.edges), ("examples", facts.examples)):
        for name in names or ():
            path = ("cases", group, name)
            if name in GROUPS:
                facts.report(
                    path, f"`{name}` cannot name a case: it stands for a group of cases", "another name", key=True
                )
            elif not _matches(name):
                facts.report(
                    path,
                    f"`{name}` cannot name a case",
                    "small letters, digits and underscores, a letter first",
                    key=True,
                )
            if name in cases:
                facts.report(path, f"`{name}` is also the name of an edge case", "two different names", key=True)
            cases[name] = group


def _framework(facts: Facts) -> None:
    spec = facts.spec
    if facts.lost("framework"):
        return
    if spec.framework == "python" and tuple(spec.dtypes) != ("float64",):
        path: Path_ = ("dtypes",) if "dtypes" in spec.model_fields_set else ("framework",)
        facts.report(path, "a `python` exercise is graded in float64 only", "`dtypes: [float64]`", key=True)
    if spec.framework == "numpy":
        places: list[tuple[Path_, Any]] = [(("dtypes",), spec.dtypes)]
        places += [(("cases", "edge", name, "dtypes"), edge.dtypes) for name, edge in spec.cases.edge.items()]
        places += [(("cases", "examples", n, "dtypes"), entry.dtypes) for n, entry in spec.cases.examples.items()]
        for path, dtypes in places:
            for index, dtype in enumerate(dtypes or ()):
                if dtype == "bfloat16":
                    facts.report((*path, index), "NumPy has no bfloat16", "float64, float32 or float16")


def _dims(facts: Facts) -> None:
    spec = facts.spec
    said = facts.said
    before: list[str] = []
    for name in facts.dims or ():
        dim = spec.dims.get(name)
        if dim is not None and isinstance(dim.value, str):
            path: Path_ = ("dims", name, "value")
            later = [word for word in facts.dims or () if word not in before]
            wrong = expressions.names(expressions.parse(dim.value)) & set(later)
            for word in sorted(wrong):
                fault = "depends on itself" if word == name else f"uses `{word}`, which comes later"
                facts.report(path, f"`{name}` {fault}", listed("an earlier dim", before))
            facts.expression(path, dim.value, facts.dims, "an earlier dim", among=before)
        before.append(name)
    for index, rule in enumerate(spec.constraints):
        facts.expression(("constraints", index), rule, facts.dims, "a dim")
    for name, dim in spec.dims.items():
        if dim.value is not None and not sizes.needs(dim) and not sizes.draws(dim):
            _computed_size(facts, ("dims", name), {name: dim}, {})
    if facts.sizes_known and said == facts.said:
        _sizes(facts)
        facts.sizes_sound = said == facts.said


def _sizes(facts: Facts) -> None:
    """Try the smallest and largest sizes, and see that computed ones are sizes and that some draw is acceptable."""
    spec = facts.spec
    accepted = 0
    for drawn in sizes.corners(spec.dims):
        failed = sizes.compute(spec.dims, drawn)
        if failed is not None:
            name, reason = failed
            said = f"{reason}{sizes.in_words(drawn, name)}"
            facts.report(("dims", name, "value"), said, "a whole number, whatever is drawn")
            return
        if not sizes.holds(spec.constraints, drawn):
            continue
        negative = next((name for name, size in drawn.items() if size < 0), None)
        if negative is not None:
            said = f"`{negative}` is {drawn[negative]}{sizes.in_words(drawn, negative)}"
            facts.report(("dims", negative), said, "0 or more, or a constraint that keeps such draws out")
            return
        accepted += sizes.distinct(spec.dims, drawn)
        if _shapes(facts, drawn):
            return
    if not accepted and not sizes.some_draw_is_accepted(spec):
        said = "no draw satisfies the constraints with all sizes different" if spec.constraints else "no draw gives all dims different sizes"  # fmt: skip
        wanted = "sizes that can all differ, and `free: true` on depths and counts, which need not"
        facts.report(("dims",), said, wanted, key=True)


def _computed_size(facts: Facts, path: Path_, dims: Mapping[str, schema.Dim], drawn: dict[str, int]) -> None:
    """A size that does not depend on any draw, and so is always what it is."""
    name = str(path[-1])
    failed = sizes.compute(dims, drawn)
    said = failed[1] if failed is not None else f"`{name}` is {drawn[name]}" if drawn[name] < 0 else ""
    if said:
        text = dims[name].value
        hint = " (a range is written 2..6)" if isinstance(text, str) and "-" in text else ""
        facts.report(path, said, f"a whole number, 0 or more{hint}")


def _shapes(facts: Facts, drawn: Mapping[str, int]) -> bool:
    """Whether some input cannot be drawn for these dims; reports the first."""
    for section, entries in (("inputs", facts.spec.inputs), ("aux", facts.spec.aux)):
        for key, entry in entries.items():
            for path, shaped in leaves((section, key), entry):
                fault = sizes.array_fault(shaped, drawn)
                if fault is not None:
                    facts.report((*path, *fault.where), f"{fault.said}{sizes.in_words(drawn)}", fault.wanted)
                    return True
    return False


def _signature(facts: Facts) -> None:
    optional = ""
    for name, entry in facts.spec.inputs.items():
        if entry.optional:
            optional = name
        elif optional:
            facts.report(
                ("inputs", name),
                f"`{name}` has no default, and follows `{optional}`, which has one",
                "optional inputs last, as in a Python signature",
                key=True,
            )


def _output(facts: Facts, path: Path_, entry: schema.Output) -> None:
    report = facts.report
    if entry.items is not None and entry.kind not in ("tuple", "list", "dict"):
        report(
            (*path, "items"),
            f"`items` has no meaning for a result of kind {entry.kind}",
            "`kind: tuple`, list or dict",
            key=True,
        )
    for key, value in (("axes", entry.axes), ("shape", entry.shape)):
        if value is not None and entry.kind != "array":
            report(
                (*path, key),
                f"`{key}` has no meaning for a result of kind {entry.kind}",
                "`kind: array`, or `axes` and `shape` in its `items`",
                key=True,
            )
    if entry.axes is not None and entry.shape is not None and len(entry.axes) != len(entry.shape):
        report(
            (*path, "axes"),
            f"`axes` names {count(len(entry.axes), 'axis', 'axes')} and `shape` has {len(entry.shape)}",
            "one name per axis",
        )
    for index, name in enumerate(entry.axes or ()):
        if name in (entry.axes or ())[:index]:
            report((*path, "axes", index), f"the axis name `{name}` occurs twice", "a name of its own for each axis")
    for index, size in enumerate(entry.shape or ()):
        facts.expression((*path, "shape", index), size, facts.dims, "a dim")
    for name, item in (entry.items or {}).items():
        _output(facts, (*path, "items", name), item)


def _builds_on(facts: Facts) -> None:
    for index, name in enumerate(facts.spec.builds_on):
        if name == facts.name:
            facts.report(("builds_on", index), f"`{name}` builds on itself", "other exercises")
        elif name in facts.spec.builds_on[:index]:
            facts.report(("builds_on", index), f"`{name}` occurs twice", "each exercise once")


def _matches(name: str) -> bool:
    return name.isidentifier() and name == name.lower() and name.isascii() and not name.startswith("_")
