"""What the checks say: each must find a case to look at, and name inputs, axes and parts that exist."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grader.spec import expressions, schema
from grader.spec.document import Path_, nearest
from grader.spec.expressions import ExpressionError
from grader.spec.facts import Facts, count, listed
from grader.spec.meaning_inputs import SHAPED

GROUPS = ("random", "edge", "examples")
RELATIONS = ("independent", "causal", "reads")
# Checks that look at random cases unless told otherwise; all of them look at float64 alone.
ON_RANDOM = (*RELATIONS, "ignores", "gradients", "device", "precision", "strided", "falls")
TORCH_ONLY = ("gradients", "device")


@dataclass(frozen=True)
class Selected:
    """One case that a check may look at: its group, its name, and the dtypes it is run in."""

    group: str
    name: str
    dtypes: tuple[str, ...]


def expand_ids(spec: schema.ExerciseFile, check: Any) -> list[str]:
    """The report ids of one check: a `values` check over a group of named cases is one check per case."""
    if check.kind == "values" and check.cases in ("edge", "examples") and check.id is None:
        return list(spec.cases.edge if check.cases == "edge" else spec.cases.examples)
    return [check.id or check.kind]


def examine_checks(facts: Facts) -> None:
    """Report every fault of the checks."""
    if ("checks",) in facts.view.lost:
        return
    ids: dict[str, int] = {}
    for index, check in enumerate(facts.spec.checks):
        path: Path_ = ("checks", index)
        known = _reach(facts, path, check)
        if check.kind in TORCH_ONLY and facts.spec.framework != "torch" and not facts.lost("framework"):
            facts.report(
                (*path, "kind"),
                f"`{check.kind}` needs a torch exercise",
                "`framework: torch`, or leave the check out",
            )
        _named(facts, path, check)
        line = facts.view.document.place(facts.view.origin(path))[0]
        # What a check of unknown cases would be called is not known either.
        for identity in expand_ids(facts.spec, check) if known or check.id is not None else []:
            if identity in ids:
                place: Path_ = (*path, "id") if check.id is not None else (*path, "kind")
                facts.report(
                    place,
                    f"the check id `{identity}` occurs twice (first in line {ids[identity]})",
                    "an `id:` of its own",
                )
            ids.setdefault(identity, line)


def _all_cases(facts: Facts) -> list[Selected] | None:
    """Every case the file declares; None when some could not be read."""
    if facts.lost("cases") or facts.edges is None or facts.examples is None:
        return None
    spec = facts.spec
    found = [Selected("random", "random", tuple(spec.dtypes))] if spec.cases.random else []
    found += [Selected("edge", n, tuple(edge.dtypes or spec.dtypes)) for n, edge in spec.cases.edge.items()]
    return found + [Selected("examples", n, tuple(e.dtypes or ("float64",))) for n, e in spec.cases.examples.items()]


def _reach(facts: Facts, path: Path_, check: Any) -> bool:
    """Whether every case that a check names exists; reports where it does not, and a check that finds no call to look at."""
    if facts.edges is None or facts.examples is None:
        return False
    wanted = [check.cases] if isinstance(check.cases, str) else list(check.cases or ())
    known = [*GROUPS, *facts.edges, *facts.examples]
    unknown = [name for name in wanted if name not in known]
    for name in unknown:
        place = (*path, "cases") if isinstance(check.cases, str) else (*path, "cases", wanted.index(name))
        facts.report(place, f"there is no case `{name}`{nearest(name, known)}", "one of " + ", ".join(known))
    everything = _all_cases(facts)
    if unknown or everything is None:
        return not unknown
    names = wanted or (["random"] if check.kind in ON_RANDOM else list(GROUPS))
    found = [case for case in everything if case.name in names or case.group in names]
    place = (*path, "cases") if wanted else path
    if not found:
        words = {"random": "random cases (`random: 0`)", "edge": "edge cases", "examples": "examples"}
        what = " and no ".join(words.get(name, name) for name in names)
        facts.report(place, f"this `{check.kind}` check finds no case: there are no {what}", "cases to look at")
        return True
    dtypes = ("float64",) if check.kind in ON_RANDOM else check.dtypes
    if dtypes is not None and not facts.lost("dtypes") and not any(set(case.dtypes) & set(dtypes) for case in found):
        run_in = ", ".join(dict.fromkeys(dtype for case in found for dtype in case.dtypes))
        why = "looks at float64 only" if check.kind in ON_RANDOM else f"asks for {', '.join(dtypes)}"
        place = (*path, "dtypes") if check.kind not in ON_RANDOM and check.dtypes is not None else place
        facts.report(
            place,
            f"this `{check.kind}` check finds no call: it {why}, and its cases run in {run_in}",
            "a dtype that they run in",
        )
    return True


def _named(facts: Facts, path: Path_, check: Any) -> None:
    """The inputs and parts of the output that a check names."""
    match check:
        case schema.IndependentCheck() | schema.CausalCheck() | schema.ReadsCheck():
            _relation(facts, path, check)
        case schema.IgnoresCheck():
            for index, text in enumerate(check.what):
                _slice(facts, (*path, "what", index), text)
        case schema.GradientsCheck():
            for index, name in enumerate(check.wrt or ()):
                _input_named(facts, (*path, "wrt", index), name, ("float", "list", "dict"), "a float input")
            for index, text in enumerate(check.zero):
                _slice(facts, (*path, "zero", index), text)
        case schema.CallsCheck():
            _input_named(facts, (*path, "function"), check.function, ("function",), "an input of kind function")
        case schema.FallsCheck():
            _part(facts, (*path, "output"), check.output)
            for part, name in check.feed.items():
                _part(facts, (*path, "feed", part), int(part) if part.isdigit() else part, key=True)
                _input_named(facts, (*path, "feed", part), name, None, "an input")
        case schema.PeakMemoryCheck():
            known = None if facts.dims is None else [*facts.dims, "itemsize"]
            facts.expression((*path, "below"), check.below, known, "a dim or `itemsize`")
        case schema.SourceCheck():
            if not check.require and not check.forbid:
                facts.report(path, "this `source` check asks for nothing", "`require: […]` or `forbid: […]`")


def _input_named(
    facts: Facts, path: Path_, name: str, kinds: tuple[str, ...] | None, what: str, key: bool = False
) -> bool:
    """Whether ``name`` is an input that could be read and is of one of ``kinds``; reports what it is instead."""
    if facts.inputs is None:
        return False
    fitting = [n for n, entry in facts.spec.inputs.items() if kinds is None or entry.kind in kinds]
    if name not in facts.inputs:
        facts.report(path, f"there is no input `{name}`{nearest(name, facts.inputs)}", listed(what, fitting), key=key)
        return False
    entry = facts.spec.inputs.get(name)
    if entry is None:
        return False
    if kinds is not None and entry.kind not in kinds:
        facts.report(path, f"`{name}` is of kind {entry.kind}", listed(what, fitting), key=key)
        return False
    return True


def _slice(facts: Facts, path: Path_, text: str) -> None:
    wanted = "an input, or a slice of one such as `blocks[:, 10:12]`"
    try:
        tree = expressions.parse(text)
    except ExpressionError as error:
        facts.report(path, f"`{text}`: {error}", wanted, offset=error.offset)
        return
    root: ast.expr = tree
    while isinstance(root, ast.Subscript):
        root = root.value
    if not isinstance(root, ast.Name):
        facts.report(path, f"`{text}` is no slice of an input", wanted)
        return
    if _input_named(facts, path, root.id, None, "an input") and facts.dims is not None:
        facts.tree(path, text, tree, [root.id, *facts.dims], listed("a dim", facts.dims))


def _relation(facts: Facts, path: Path_, check: Any) -> None:
    for name, axis in check.inputs.items():
        place = (*path, "inputs", name)
        if not _input_named(facts, place, name, SHAPED, "an input that is an array", key=True):
            continue
        for rank, where in _ranks(facts, check, name):
            if not -rank <= axis < rank:
                facts.report(
                    place, f"`{name}` has no axis {axis}: it has {count(rank, 'axis', 'axes')}{where}", _axes(rank)
                )
                break
    output: schema.Output | None = facts.spec.output
    if check.part is not None:
        output = _part(facts, (*path, "part"), check.part)
    if output is None or facts.lost("output"):
        return
    axes = output.shape if output.shape is not None else output.axes
    if axes is not None and not -len(axes) <= check.output < len(axes):
        facts.report(
            (*path, "output"),
            f"the output has no axis {check.output}: it has {count(len(axes), 'axis', 'axes')}",
            _axes(len(axes)),
        )
    elif check.part is None and output.kind in ("tuple", "dict") and output.items:
        facts.report(
            path,
            f"the output is a {output.kind}, and the check names no part of it",
            "`part:` with one of " + ", ".join(output.items),
        )


def _ranks(facts: Facts, check: Any, name: str) -> Iterator[tuple[int, str]]:
    """The number of axes that an input has in the cases that a relation looks at, and words for where."""
    wanted = [check.cases] if isinstance(check.cases, str) else list(check.cases or ("random",))
    for case in wanted:
        entry = facts.merged.get(case, {}).get(name) or facts.spec.inputs[name]
        if hasattr(entry, "shape"):
            yield len(entry.shape), f" in the case `{case}`" if case in facts.merged else ""


def _part(facts: Facts, path: Path_, part: str | int, key: bool = False) -> schema.Output | None:
    """The part of the output of that name or index; None where the file does not describe it."""
    output = facts.spec.output
    if facts.lost("output"):
        return None
    if output.kind not in ("tuple", "list", "dict"):
        facts.report(
            path,
            f"the output is one {output.kind} and has no parts",
            "`kind: tuple`, list or dict as output",
            key=key,
        )
        return None
    items = output.items
    if not items:
        return None
    names = list(items)
    if isinstance(part, int) and -len(names) <= part < len(names):
        return items[names[part]]
    if str(part) in items:
        return items[str(part)]
    facts.report(
        path,
        f"the output has no part `{part}`{nearest(part, names)}",
        listed("a part, or its index", names),
        key=key,
    )
    return None


def _axes(rank: int) -> str:
    return "a single number has none" if rank == 0 else "axis 0" if rank == 1 else f"an axis from 0 to {rank - 1}"
