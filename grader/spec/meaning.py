"""What an exercise file says, beyond its structure: every name must exist, shapes must agree, every check must find a case.

Works on whatever could be read, so that these faults are reported together with the structural ones. Where a section
could not be read its names are unknown, and nothing is said of names that might have stood there.
"""

from __future__ import annotations

import ast
import itertools
import keyword
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from grader.spec import expressions, grammar, schema, structure
from grader.spec.document import Path_, nearest
from grader.spec.expressions import ExpressionError

GROUPS = ("random", "edge", "examples")
SHAPED = ("float", "ids", "integers", "booleans")
RELATIONS = ("independent", "causal", "reads")
# Checks that look at random cases unless told otherwise, and those that look at float64 alone.
ON_RANDOM = (*RELATIONS, "ignores", "gradients", "device", "precision", "strided", "falls")
IN_FLOAT64 = ON_RANDOM
TORCH_ONLY = ("gradients", "device")
# Names that the language gives a meaning of its own.
RESERVED = {"itemsize": "the size of one element in `peak_memory`"}
MAX_CORNERS = 24
MAX_ENUMERATED = 4096

_INPUT: TypeAdapter[Any] = TypeAdapter(schema.InputEntry)
# A case may say one of a group where the exercise says another.
_EXCLUSIVE = ({"value", "choices", "range"}, {"items", "of"}, {"items", "count"})
_KEPT_ACROSS_KINDS = ("shape", "layout", "type", "about", "default")

Names = Mapping[str, Any] | None


@dataclass(frozen=True)
class Selected:
    """One case that a check may look at: its group, its name, and the dtypes it is run in."""

    group: str
    name: str
    dtypes: tuple[str, ...]


def examine(held: structure.Held[schema.ExerciseFile], name: str) -> dict[str, dict[str, Any]]:
    """Report every fault of meaning; returns, for each edge case, its inputs after merging (None is a literal None)."""
    return _Examination(held, name).run()


def expand_ids(spec: schema.ExerciseFile, check: Any) -> list[str]:
    """The report ids of one check: a `values` check over a group of named cases is one check per case."""
    if check.kind == "values" and check.cases in ("edge", "examples") and check.id is None:
        return list(spec.cases.edge if check.cases == "edge" else spec.cases.examples)
    return [check.id or check.kind]


class _Examination:
    """One run over one file."""

    def __init__(self, held: structure.Held[schema.ExerciseFile], name: str) -> None:
        assert held.model is not None
        self.spec = held.model
        self.view = held.view
        self.name = name
        self.dims: Names = held.declared[("dims",)]
        self.inputs: Names = held.declared[("inputs",)]
        self.aux: Names = held.declared[("aux",)]
        self.edges: Names = held.declared[("cases", "edge")]
        self.examples: Names = held.declared[("cases", "examples")]
        self.merged: dict[str, dict[str, Any]] = {}

    def run(self) -> dict[str, dict[str, Any]]:
        self._names()
        self._framework()
        self._dims()
        for section, entries in (("inputs", self.spec.inputs), ("aux", self.spec.aux)):
            for key, entry in entries.items():
                self._input((section, key), entry)
        self._signature()
        for index, line in enumerate(self.spec.adjust):
            self._assignment(("adjust", index), line, frozenset())
        self._output(("output",), self.spec.output)
        for name, edge in self.spec.cases.edge.items():
            self._edge(("cases", "edge", name), name, edge)
        for name, example in self.spec.cases.examples.items():
            self._example(("cases", "examples", name), example)
        self._checks()
        self._builds_on()
        return self.merged

    # --- names ---

    def _names(self) -> None:
        seen: dict[str, Path_] = {}
        for section, names in (("dims", self.dims), ("inputs", self.inputs), ("aux", self.aux)):
            for name in names or ():
                path: Path_ = (section, name)
                self._usable(path, name)
                if name in seen:
                    where = {"dims": "a dim", "inputs": "an input", "aux": "an aux array"}
                    said = f"`{name}` is both {where[str(seen[name][0])]} and {where[section]}"
                    self.view.report(path, said, "two different names", key=True)
                seen.setdefault(name, path)
        cases: dict[str, str] = {}
        for group, names in (("edge", self.edges), ("examples", self.examples)):
            for name in names or ():
                path = ("cases", group, name)
                if name in GROUPS:
                    self.view.report(path, f"`{name}` cannot name a case: it stands for a group of cases", "another name", key=True)  # fmt: skip
                elif not _matches(name):
                    self.view.report(path, f"`{name}` cannot name a case", "small letters, digits and underscores, a letter first", key=True)  # fmt: skip
                if name in cases:
                    self.view.report(path, f"`{name}` is also the name of an edge case", "two different names", key=True)  # fmt: skip
                cases[name] = group

    def _usable(self, path: Path_, name: str) -> None:
        said, wanted = "", "another name"
        if not name.isidentifier() or keyword.iskeyword(name):
            said, wanted = f"`{name}` cannot be used as a name", "letters, digits and underscores, and no word of Python"
        elif name in expressions.FUNCTIONS or name in expressions.DRAWING:
            said = f"`{name}` is a function of the expression language"
        elif name in expressions.CONSTANTS:
            said = f"`{name}` is a constant of the expression language"
        elif name in RESERVED:
            said = f"`{name}` is reserved: it is {RESERVED[name]}"
        if said:
            self.view.report(path, said, wanted, key=True)

    def _expression(self, path: Path_, text: Any, known: Iterable[str] | None, what: str, drawing: bool = False) -> None:
        """Every name of an expression must be known; ``known`` None stands for names that could not be read."""
        if not isinstance(text, str):
            return
        try:
            tree = expressions.parse(text)
        except ExpressionError:
            # Said when the file was held to the models.
            return
        self._tree(path, text, tree, known, what, drawing)

    def _tree(
        self, path: Path_, text: str, tree: ast.expr, known: Iterable[str] | None, what: str, drawing: bool = False
    ) -> None:
        names = None if known is None else list(known)
        said: set[str] = set()
        for node in sorted(expressions.variables(tree), key=lambda node: (node.lineno, node.col_offset)):
            if names is not None and node.id not in names and node.id not in said:
                said.add(node.id)
                self.view.report(
                    path, f"{_quoted(text)}unknown name `{node.id}`{nearest(node.id, names)}", _listed(what, names),
                    offset=expressions.offset_of(node, text),
                )  # fmt: skip
        for call in ast.walk(tree):
            if not drawing and isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                if call.func.id in expressions.DRAWING:
                    offset = expressions.offset_of(call, text)
                    self.view.report(path, f"{_quoted(text)}{call.func.id}() cannot draw here", "draws only in `adjust`", offset=offset)  # fmt: skip

    def _scope(self, *extra: str) -> list[str] | None:
        """What an expression over drawn values may name."""
        if self.dims is None or self.inputs is None or self.aux is None:
            return None
        return [*extra, *self.dims, *self.inputs, *self.aux]

    def _assignment(self, path: Path_, line: str, omitted: frozenset[str]) -> None:
        target, value = expressions.parse_assignment(line)
        scope = self._scope()
        for tree in (target, value):
            self._tree(path, line, tree, scope, "a dim, an input or an aux array", drawing=True)
        root = target
        while isinstance(root, ast.Subscript):
            root = root.value
        assert isinstance(root, ast.Name)
        if self.dims is not None and root.id in self.dims:
            self.view.report(path, f"`{root.id}` is a dim, and dims cannot be assigned to", "an input or an aux array", offset=expressions.offset_of(root, line))  # fmt: skip
        elif isinstance(self.spec.inputs.get(root.id), schema.FunctionInput):
            self.view.report(path, f"`{root.id}` is a function and cannot be assigned to", "`inputs: {" + root.id + ": {returns: …}}` in the edge case")  # fmt: skip
        for name in sorted((expressions.names(target) | expressions.names(value)) & omitted):
            self.view.report(path, f"`{name}` is left out in this case", "a line without it")

    # --- sections ---

    def _framework(self) -> None:
        spec = self.spec
        if ("framework",) in self.view.lost:
            return
        if spec.framework == "python" and tuple(spec.dtypes) != ("float64",):
            path: Path_ = ("dtypes",) if "dtypes" in spec.model_fields_set else ("framework",)
            self.view.report(path, "a `python` exercise is graded in float64 only", "`dtypes: [float64]`", key=True)
        if spec.framework == "numpy":
            places: list[tuple[Path_, Any]] = [(("dtypes",), spec.dtypes)]
            places += [(("cases", "edge", name, "dtypes"), edge.dtypes) for name, edge in spec.cases.edge.items()]
            places += [(("cases", "examples", n, "dtypes"), entry.dtypes) for n, entry in spec.cases.examples.items()]
            for path, dtypes in places:
                for index, dtype in enumerate(dtypes or ()):
                    if dtype == "bfloat16":
                        self.view.report((*path, index), "NumPy has no bfloat16", "float64, float32 or float16")

    def _dims(self) -> None:
        spec = self.spec
        before: list[str] = []
        for name in self.dims or ():
            dim = spec.dims.get(name)
            if dim is not None and isinstance(dim.value, str):
                path: Path_ = ("dims", name, "value")
                later = [word for word in self.dims or () if word not in before]
                wrong = expressions.names(expressions.parse(dim.value)) & set(later)
                for word in sorted(wrong):
                    said = f"`{name}` depends on itself" if word == name else f"`{name}` uses `{word}`, which comes later"
                    self.view.report(path, said, _listed("an earlier dim", before))
                self._expression(path, dim.value, self.dims, "an earlier dim")
            before.append(name)
        for index, rule in enumerate(spec.constraints):
            self._expression(("constraints", index), rule, self.dims, "a dim")
        self._sizes()

    def _sizes(self) -> None:
        """Draw the smallest and largest sizes, and see that computed ones are sizes and that some draw is acceptable."""
        spec = self.spec
        if not spec.dims or any(path[:1] in (("dims",), ("constraints",)) for path in self.view.lost):
            return
        if not _all_names_known(spec.dims, spec.constraints):
            return
        accepted, said = 0, False
        for sizes in _corners(spec.dims):
            failed = _compute(spec.dims, sizes)
            if failed is not None:
                name, reason = failed
                self.view.report(("dims", name, "value"), f"{reason}{_with(sizes, name)}", "a whole number, whatever is drawn")  # fmt: skip
                said = True
                break
            if not _holds(spec.constraints, sizes):
                continue
            negative = next((name for name, size in sizes.items() if size < 0), None)
            if negative is not None:
                text = spec.dims[negative].value
                hint = " (a range is written 2..6)" if isinstance(text, str) and "-" in text else ""
                self.view.report(("dims", negative), f"`{negative}` is {sizes[negative]}{_with(sizes, negative)}", f"0 or more{hint}")  # fmt: skip
                said = True
                break
            accepted += _distinct(spec.dims, sizes)
            said = self._shapes(sizes) or said
            if said:
                break
        if not accepted and not said and not _some_draw_is_accepted(spec):
            reason = "satisfy the constraints and differ from each other" if spec.constraints else "differ from each other"
            self.view.report(
                ("dims",), f"no sizes {reason}", "sizes that can all be different (or `free: true` on depths and counts)",
                key=True,
            )  # fmt: skip

    def _shapes(self, sizes: Mapping[str, int]) -> bool:
        """Whether an axis of some input is no size for these dims; reports the first."""
        for section, entries in (("inputs", self.spec.inputs), ("aux", self.spec.aux)):
            for key, entry in entries.items():
                for path, shaped in _leaves((section, key), entry):
                    for index, text in enumerate(shaped.shape):
                        reason = _no_size(text, sizes)
                        if reason is not None:
                            self.view.report((*path, "shape", index), f"{reason}{_with(sizes)}", "a whole number, 0 or more, whatever is drawn")  # fmt: skip
                            return True
        return False

    def _input(self, path: Path_, entry: Any, only: Iterable[str] | None = None, nested: bool = False) -> None:
        """One input; ``only`` are the keys that an edge case gives, the others having been examined before."""
        given = set(entry.model_fields_set)
        looked = given if only is None else given & set(only)
        report = self.view.report
        for key in ("below", "scale", "offset", "low", "high", "count"):
            if key in looked:
                self._expression((*path, key), getattr(entry, key), self.dims, "a dim")
        if "shape" in looked:
            for index, size in enumerate(entry.shape):
                self._expression((*path, "shape", index), size, self.dims, "a dim")
        if entry.type is not None and "type" in looked and not _is_annotation(entry.type):
            report((*path, "type"), f"`{entry.type}` is no type annotation", "Python such as `list[int]` or `torch.Tensor | None`")  # fmt: skip
        match entry:
            case schema.FloatInput():
                useless = ("scale", "offset") if entry.distribution == "uniform" else ("low", "high")
                other = "normal" if entry.distribution == "uniform" else "uniform"
                for key in useless:
                    if key in looked:
                        report((*path, key), f"`{key}` has no effect on a {entry.distribution} input", f"`distribution: {other}`", key=True)  # fmt: skip
                self._ordered(path, entry, looked)
            case schema.IdsInput():
                if "ignored" in looked and entry.ignore is None:
                    report((*path, "ignored"), "`ignored` has no effect without `ignore`", "`ignore: -100`", key=True)
                if isinstance(entry.below, int | float) and entry.below < 1:
                    report((*path, "below"), f"there are no ids below {entry.below}", "1 or more")
            case schema.IntegersInput():
                self._ordered(path, entry, looked)
            case schema.ScalarInput():
                self._scalar(path, entry)
            case schema.ListInput():
                self._list(path, entry)
            case schema.DictInput():
                for key, item in entry.items.items():
                    self._input((*path, "items", key), item, nested=True)
            case schema.FunctionInput():
                self._function(path, entry, nested or path[0] == "aux")

    def _ordered(self, path: Path_, entry: Any, looked: set[str]) -> None:
        low, high = entry.low, entry.high
        if looked & {"low", "high"} and not isinstance(low, str) and not isinstance(high, str) and low > high:
            key = "high" if "high" in looked else "low"
            self.view.report((*path, key), f"`low` is {low} and `high` is {high}", "the smaller number as `low`")

    def _scalar(self, path: Path_, entry: schema.ScalarInput) -> None:
        given = [key for key in ("value", "choices", "range") if key in entry.model_fields_set]
        if len(given) != 1:
            said = "has " + " and ".join(f"`{key}`" for key in given) if given else "has no value"
            self.view.report(path, f"`{path[-1]}` {said}", "exactly one of value, choices and range", key=True)
            return
        if isinstance(entry.value, str) and self.dims is not None:
            try:
                tree = expressions.parse(entry.value)
            except ExpressionError:
                return
            wanted = "a number, an expression of dims, or for a text `choices: [" + entry.value + "]`"
            for node in expressions.variables(tree):
                if node.id not in self.dims:
                    self.view.report(
                        (*path, "value"), f"{_quoted(entry.value)}unknown name `{node.id}`{nearest(node.id, self.dims)}",
                        wanted, offset=expressions.offset_of(node, entry.value),
                    )  # fmt: skip

    def _list(self, path: Path_, entry: schema.ListInput) -> None:
        given = [key for key in ("items", "count", "of") if getattr(entry, key) is not None]
        if given not in (["items"], ["count", "of"]):
            said = "has " + " and ".join(f"`{key}`" for key in given) if given else "has no entries"
            self.view.report(path, f"the list `{path[-1]}` {said}", "either `items`, or `count` and `of`", key=True)
        for index, item in enumerate(entry.items or ()):
            if item is not None:
                self._input((*path, "items", index), item, nested=True)
        if entry.of is not None:
            self._input((*path, "of"), entry.of, nested=True)

    def _function(self, path: Path_, entry: schema.FunctionInput, misplaced: bool) -> None:
        if misplaced:
            self.view.report(path, "a function can only be an input of its own", "`kind: function` directly below `inputs`", key=True)  # fmt: skip
        for index, name in enumerate(entry.parameters):
            self._usable((*path, "parameters", index), name)
            if name in entry.parameters[:index]:
                self.view.report((*path, "parameters", index), f"the parameter `{name}` occurs twice", "each name once")
        self._expression(
            (*path, "returns"), entry.returns, self._scope(*entry.parameters), "a parameter, a dim, an input or an aux array"
        )  # fmt: skip

    def _signature(self) -> None:
        optional = ""
        for name, entry in self.spec.inputs.items():
            if entry.optional:
                optional = name
            elif optional:
                self.view.report(
                    ("inputs", name), f"`{name}` has no default, and follows `{optional}`, which has one",
                    "optional inputs last, as in a Python signature", key=True,
                )  # fmt: skip

    def _output(self, path: Path_, entry: schema.Output) -> None:
        report = self.view.report
        if entry.items is not None and entry.kind not in ("tuple", "list", "dict"):
            report((*path, "items"), f"`items` has no meaning for a result of kind {entry.kind}", "`kind: tuple`, list or dict", key=True)  # fmt: skip
        for key, value in (("axes", entry.axes), ("shape", entry.shape)):
            if value is not None and entry.kind != "array":
                report((*path, key), f"`{key}` has no meaning for a result of kind {entry.kind}", "`kind: array`, or `axes` and `shape` in its `items`", key=True)  # fmt: skip
        if entry.axes is not None and entry.shape is not None and len(entry.axes) != len(entry.shape):
            report(
                (*path, "axes"), f"`axes` names {_count(len(entry.axes), 'axis', 'axes')} and `shape` has {len(entry.shape)}",
                "one name per axis",
            )  # fmt: skip
        for index, name in enumerate(entry.axes or ()):
            if name in (entry.axes or ())[:index]:
                report((*path, "axes", index), f"the axis name `{name}` occurs twice", "a name of its own for each axis")
        for index, size in enumerate(entry.shape or ()):
            self._expression((*path, "shape", index), size, self.dims, "a dim")
        for name, item in (entry.items or {}).items():
            self._output((*path, "items", name), item)

    # --- cases ---

    def _edge(self, path: Path_, name: str, edge: schema.EdgeCase) -> None:
        report = self.view.report
        for key, dim in edge.dims.items():
            if self.dims is not None and key not in self.dims:
                report((*path, "dims", key), f"there is no dim `{key}`{nearest(key, self.dims)}", _listed("a dim", self.dims), key=True)  # fmt: skip
            self._expression((*path, "dims", key, "value"), dim.value, self.dims, "a dim")
        self._edge_sizes(path, edge)
        self.merged[name] = {}
        for key, override in edge.inputs.items():
            self._override((*path, "inputs", key), name, key, override)
        for index, line in enumerate(edge.adjust):
            self._assignment((*path, "adjust", index), line, frozenset(edge.omit))
        self._omitted(path, edge)

    def _edge_sizes(self, path: Path_, edge: schema.EdgeCase) -> None:
        spec = self.spec
        entries = {**spec.dims, **edge.dims}
        if not edge.dims or set(edge.dims) - set(spec.dims) or not _all_names_known(entries, ()):
            return
        if any(lost[:1] == ("dims",) for lost in self.view.lost):
            return
        try:
            order = _order(entries)
        except ExpressionError as error:
            self.view.report((*path, "dims"), str(error), "a dim that is drawn, or has a value of its own", key=True)
            return
        entries = {name: entries[name] for name in order}
        for sizes in itertools.islice(_corners(entries), 2):
            failed = _compute(entries, sizes)
            negative = next((name for name, size in sizes.items() if size < 0), None) if failed is None else failed[0]
            if negative is not None:
                reason = failed[1] if failed is not None else f"`{negative}` is {sizes[negative]}"
                place = (*path, "dims", negative) if negative in edge.dims else (*path, "dims")
                self.view.report(place, f"{reason}{_with(sizes, negative)}", "a whole number, 0 or more, whatever is drawn")  # fmt: skip
                return

    def _override(self, path: Path_, case: str, key: str, override: dict[str, Any] | None) -> None:
        known = None if self.inputs is None or self.aux is None else [*self.inputs, *self.aux]
        if known is not None and key not in known:
            self.view.report(path, f"there is no input `{key}`{nearest(key, known)}", _listed("an input", known), key=True)  # fmt: skip
            return
        if override is None:
            self.merged[case][key] = None
            return
        section = "inputs" if key in self.spec.inputs else "aux"
        base = self.view.at((section, key))
        if not isinstance(base, dict) or key not in {**self.spec.inputs, **self.spec.aux}:
            # What it overrides could not be read.
            return
        together = {**_base_for(base, override), **override}
        try:
            merged = _INPUT.validate_python(together)
        except ValidationError as error:
            for fault in structure.faults_of(error, together):
                self._report_merged(path, key, fault, together, override)
            return
        self.merged[case][key] = merged
        self._input(path, merged, only=override)

    def _report_merged(self, path: Path_, key: str, fault: structure.Fault, together: Any, override: Any) -> None:
        """A fault of a merged input, said at the line that the edge case gives."""
        model = grammar.model_of(schema.InputEntry, together)
        allowed = list(grammar.keys(model)) if model is not None else []
        own = bool(fault.path) and isinstance(override, dict) and fault.path[0] in override
        place = (*path, *fault.path) if own else path
        if fault.type == "extra_forbidden":
            kind = schema.kind_of(together)
            self.view.report(place, f"unknown key `{fault.path[-1]}` for the {kind} input `{key}`{nearest(fault.path[-1], allowed)}", "one of " + ", ".join(allowed), key=True)  # fmt: skip
        elif fault.type == "missing":
            self.view.report(path, f"`{key}` becomes a {schema.kind_of(together)} input, and the key `{fault.path[-1]}` is missing", f"`{fault.path[-1]}: …`", key=True)  # fmt: skip
        elif fault.type == "union_tag_invalid":
            given = together.get("kind")
            self.view.report((*path, "kind"), f"unknown kind `{given}`{nearest(given, schema.KINDS)}", "one of " + ", ".join(schema.KINDS))  # fmt: skip
        else:
            holder = grammar.Key(key, schema.InputEntry, "", True)
            found: grammar.Key | None = holder
            data = together
            for step in fault.path:
                found = grammar.inside(found.annotation, step, data) if found is not None else None
                data = data[step] if isinstance(data, dict) and step in data else None
            said, wanted, offset = structure.explain(fault, found)
            self.view.report(place, said, wanted, offset=offset)

    def _omitted(self, path: Path_, edge: schema.EdgeCase) -> None:
        for index, key in enumerate(edge.omit):
            entry = self.spec.inputs.get(key)
            if self.inputs is not None and key not in self.inputs:
                self.view.report((*path, "omit", index), f"there is no input `{key}`{nearest(key, self.inputs)}", "an input with a `default`")  # fmt: skip
            elif entry is not None and not entry.optional:
                self.view.report((*path, "omit", index), f"`{key}` has no `default` and cannot be left out", "an input with a `default`")  # fmt: skip
        names = list(self.spec.inputs)
        last = next((name for name in reversed(names) if name not in edge.omit), None)
        after = names[: names.index(last) + 1] if last is not None else []
        for index, key in enumerate(edge.omit):
            if key in after and self.spec.inputs[key].optional:
                self.view.report(
                    (*path, "omit", index), f"`{key}` is left out, and `{last}` after it is not",
                    "only the last inputs of the signature: arguments are passed by position",
                )  # fmt: skip

    def _example(self, path: Path_, example: schema.Example) -> None:
        report = self.view.report
        for key, literal in example.inputs.items():
            entry = self.spec.inputs.get(key)
            if self.inputs is not None and key not in self.inputs:
                report((*path, "inputs", key), f"there is no input `{key}`{nearest(key, self.inputs)}", _listed("an input", self.inputs), key=True)  # fmt: skip
            elif entry is not None and not (literal is None and entry.optional):
                said = _literal_fault(entry, literal)
                if said is not None:
                    report((*path, "inputs", key), f"`{key}` {said[0]}", said[1])
        if example.from_reference and example.inputs:
            report((*path, "inputs"), "this example has `inputs` and `from_reference`", "either of them", key=True)
        elif not example.from_reference and (*path, "inputs") not in self.view.lost:
            for key, entry in self.spec.inputs.items():
                if key not in example.inputs and not entry.optional:
                    report(path, f"the example lacks the input `{key}`", f"`{key}: …` below `inputs`, as literal numbers", key=True)  # fmt: skip
        if example.tolerance and example.expected is None:
            report((*path, "tolerance"), "`tolerance` has no effect without `expected`", "`expected: …`, the published values", key=True)  # fmt: skip
        shape = _shape_of(example.expected)
        output = self.spec.output
        axes = output.shape if output.shape is not None else output.axes
        if output.kind == "array" and axes is not None and example.expected is not None:
            if shape is None:
                report((*path, "expected"), "the rows of `expected` differ in length", "lists of equal length")
            elif len(shape) != len(axes):
                report((*path, "expected"), f"`expected` has {_count(len(shape), 'axis', 'axes')} and the output {len(axes)}", f"lists nested {len(axes)} deep")  # fmt: skip

    # --- checks ---

    def _checks(self) -> None:
        if ("checks",) in self.view.lost:
            return
        ids: dict[str, int] = {}
        for index, check in enumerate(self.spec.checks):
            path: Path_ = ("checks", index)
            self._reach(path, check)
            if check.kind in TORCH_ONLY and self.spec.framework != "torch" and ("framework",) not in self.view.lost:
                self.view.report((*path, "kind"), f"`{check.kind}` needs a torch exercise", "`framework: torch`, or leave the check out")  # fmt: skip
            self._named(path, check)
            line = self.view.document.place(self.view.origin(path))[0]
            for identity in expand_ids(self.spec, check):
                if identity in ids:
                    place: Path_ = (*path, "id") if check.id is not None else (*path, "kind")
                    self.view.report(place, f"the check id `{identity}` occurs twice (first in line {ids[identity]})", "an `id:` of its own")  # fmt: skip
                ids.setdefault(identity, line)

    def _all_cases(self) -> list[Selected] | None:
        """Every case the file declares; None when some could not be read."""
        lost = {path[:2] for path in self.view.lost} & {("cases", "edge"), ("cases", "examples"), ("cases", "random")}
        if lost or ("cases",) in self.view.lost or self.edges is None or self.examples is None:
            return None
        spec = self.spec
        found = [Selected("random", "random", tuple(spec.dtypes))] if spec.cases.random else []
        found += [Selected("edge", n, tuple(edge.dtypes or spec.dtypes)) for n, edge in spec.cases.edge.items()]
        return found + [Selected("examples", n, tuple(e.dtypes or ("float64",))) for n, e in spec.cases.examples.items()]

    def _reach(self, path: Path_, check: Any) -> None:
        """Every check must find at least one call to look at."""
        if self.edges is None or self.examples is None:
            return
        wanted = [check.cases] if isinstance(check.cases, str) else list(check.cases or ())
        known = [*GROUPS, *self.edges, *self.examples]
        unknown = [name for name in wanted if name not in known]
        for name in unknown:
            place = (*path, "cases") if isinstance(check.cases, str) else (*path, "cases", wanted.index(name))
            self.view.report(place, f"there is no case `{name}`{nearest(name, known)}", "one of " + ", ".join(known))
        everything = self._all_cases()
        if unknown or everything is None:
            return
        names = wanted or (["random"] if check.kind in ON_RANDOM else list(GROUPS))
        found = [case for case in everything if case.name in names or case.group in names]
        place = (*path, "cases") if wanted else path
        if not found:
            words = {"random": "random cases (`random: 0`)", "edge": "edge cases", "examples": "examples"}
            what = " and no ".join(words.get(name, name) for name in names)
            self.view.report(place, f"this `{check.kind}` check finds no case: there are no {what}", "cases to look at")
            return
        dtypes = ("float64",) if check.kind in IN_FLOAT64 else check.dtypes
        if dtypes is not None and not any(set(case.dtypes) & set(dtypes) for case in found):
            run_in = ", ".join(dict.fromkeys(dtype for case in found for dtype in case.dtypes))
            why = "looks at float64 only" if check.kind in IN_FLOAT64 else f"asks for {', '.join(dtypes)}"
            place = (*path, "dtypes") if check.kind not in IN_FLOAT64 and check.dtypes is not None else place
            self.view.report(place, f"this `{check.kind}` check finds no call: it {why}, and its cases run in {run_in}", "a dtype that they run in")  # fmt: skip

    def _named(self, path: Path_, check: Any) -> None:
        """The inputs and parts of the output that a check names."""
        match check:
            case schema.IndependentCheck() | schema.CausalCheck() | schema.ReadsCheck():
                self._relation(path, check)
            case schema.IgnoresCheck():
                for index, text in enumerate(check.what):
                    self._slice((*path, "what", index), text)
            case schema.GradientsCheck():
                for index, name in enumerate(check.wrt or ()):
                    self._input_named((*path, "wrt", index), name, ("float", "list", "dict"), "a float input")
                for index, text in enumerate(check.zero):
                    self._slice((*path, "zero", index), text)
            case schema.CallsCheck():
                self._input_named((*path, "function"), check.function, ("function",), "an input of kind function")
            case schema.FallsCheck():
                self._part((*path, "output"), check.output)
                for part, name in check.feed.items():
                    self._part((*path, "feed", part), int(part) if part.isdigit() else part, key=True)
                    self._input_named((*path, "feed", part), name, None, "an input")
            case schema.PeakMemoryCheck():
                known = None if self.dims is None else [*self.dims, "itemsize"]
                self._expression((*path, "below"), check.below, known, "a dim or `itemsize`")
            case schema.SourceCheck():
                if not check.require and not check.forbid:
                    self.view.report(path, "this `source` check asks for nothing", "`require: […]` or `forbid: […]`")

    def _input_named(self, path: Path_, name: str, kinds: tuple[str, ...] | None, what: str, key: bool = False) -> bool:
        """Whether ``name`` is an input that could be read and is of one of ``kinds``; reports what it is instead."""
        if self.inputs is None:
            return False
        fitting = [n for n, entry in self.spec.inputs.items() if kinds is None or entry.kind in kinds]
        if name not in self.inputs:
            self.view.report(path, f"there is no input `{name}`{nearest(name, self.inputs)}", _listed(what, fitting), key=key)  # fmt: skip
            return False
        entry = self.spec.inputs.get(name)
        if entry is None:
            return False
        if kinds is not None and entry.kind not in kinds:
            self.view.report(path, f"`{name}` is of kind {entry.kind}", _listed(what, fitting), key=key)
            return False
        return True

    def _slice(self, path: Path_, text: str) -> None:
        wanted = "an input, or a slice of one such as `blocks[:, 10:12]`"
        try:
            tree = expressions.parse(text)
        except ExpressionError as error:
            self.view.report(path, f"`{text}`: {error}", wanted, offset=error.offset)
            return
        root: ast.expr = tree
        while isinstance(root, ast.Subscript):
            root = root.value
        if not isinstance(root, ast.Name):
            self.view.report(path, f"`{text}` is no slice of an input", wanted)
            return
        if self._input_named(path, root.id, None, "an input") and self.dims is not None:
            self._tree(path, text, tree, [root.id, *self.dims], "a dim")

    def _relation(self, path: Path_, check: Any) -> None:
        for name, axis in check.inputs.items():
            place = (*path, "inputs", name)
            if not self._input_named(place, name, SHAPED, "an input that is an array", key=True):
                continue
            for rank, where in self._ranks(check, name):
                if not -rank <= axis < rank:
                    self.view.report(place, f"`{name}` has no axis {axis}: it has {_count(rank, 'axis', 'axes')}{where}", _axes(rank))  # fmt: skip
                    break
        output: schema.Output | None = self.spec.output
        if check.part is not None:
            output = self._part((*path, "part"), check.part)
        if output is None or ("output",) in {lost[:1] for lost in self.view.lost}:
            return
        axes = output.shape if output.shape is not None else output.axes
        if axes is not None and not -len(axes) <= check.output < len(axes):
            self.view.report((*path, "output"), f"the output has no axis {check.output}: it has {_count(len(axes), 'axis', 'axes')}", _axes(len(axes)))  # fmt: skip
        elif check.part is None and output.kind in ("tuple", "dict") and output.items:
            self.view.report(path, f"the output is a {output.kind}, and the check names no part of it", "`part:` with one of " + ", ".join(output.items))  # fmt: skip

    def _ranks(self, check: Any, name: str) -> Iterator[tuple[int, str]]:
        """The number of axes that an input has in the cases that a relation looks at, and words for where."""
        wanted = [check.cases] if isinstance(check.cases, str) else list(check.cases or ("random",))
        for case in wanted:
            entry = self.merged.get(case, {}).get(name) or self.spec.inputs[name]
            if entry.kind in SHAPED:
                yield len(entry.shape), f" in the case `{case}`" if case in self.merged else ""

    def _part(self, path: Path_, part: str | int, key: bool = False) -> schema.Output | None:
        """The part of the output of that name or index; None where the file does not describe it."""
        output = self.spec.output
        if ("output",) in {lost[:1] for lost in self.view.lost}:
            return None
        if output.kind not in ("tuple", "list", "dict"):
            self.view.report(path, f"the output is one {output.kind} and has no parts", "`kind: tuple`, list or dict as output", key=key)  # fmt: skip
            return None
        items = output.items
        if not items:
            return None
        names = list(items)
        if isinstance(part, int) and -len(names) <= part < len(names):
            return items[names[part]]
        if str(part) in items:
            return items[str(part)]
        self.view.report(path, f"the output has no part `{part}`{nearest(part, names)}", _listed("a part, or its index", names), key=key)  # fmt: skip
        return None

    def _builds_on(self) -> None:
        for index, name in enumerate(self.spec.builds_on):
            if name == self.name:
                self.view.report(("builds_on", index), f"`{name}` builds on itself", "other exercises")
            elif name in self.spec.builds_on[:index]:
                self.view.report(("builds_on", index), f"`{name}` occurs twice", "each exercise once")


# --- small questions --------------------------------------------------------------------------------------------------


def _matches(name: str) -> bool:
    return name.isidentifier() and name == name.lower() and name.isascii() and not name.startswith("_")


def _quoted(text: str) -> str:
    """The expression, where it is more than the one name that is complained of."""
    return f"`{structure.short(text)}`: " if not text.strip().isidentifier() else ""


def _listed(what: str, names: Iterable[str]) -> str:
    known = list(names)
    return f"{what} ({', '.join(known)})" if 0 < len(known) <= 12 else what


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _axes(rank: int) -> str:
    return "a single number has none" if rank == 0 else "axis 0" if rank == 1 else f"an axis from 0 to {rank - 1}"


def _is_annotation(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True


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


def _leaves(path: Path_, entry: Any) -> Iterator[tuple[Path_, Any]]:
    """Every array of an input, with its path."""
    if isinstance(entry, schema.ListInput):
        for index, item in enumerate(entry.items or ()):
            if item is not None:
                yield from _leaves((*path, "items", index), item)
        if entry.of is not None:
            yield from _leaves((*path, "of"), entry.of)
    elif isinstance(entry, schema.DictInput):
        for key, item in entry.items.items():
            yield from _leaves((*path, "items", key), item)
    elif hasattr(entry, "shape"):
        yield path, entry


def _literal_fault(entry: Any, literal: Any) -> tuple[str, str] | None:
    """(what is wrong, what was expected) of an example's literal for an input; None when it fits."""
    if isinstance(entry, schema.FunctionInput):
        return "is a function, which an example cannot hand in", "an edge case instead"
    if isinstance(entry, schema.ListInput):
        return None if isinstance(literal, list) else (f"is {structure.what_is(literal)}", "a list")
    if isinstance(entry, schema.DictInput):
        if not isinstance(literal, dict):
            return f"is {structure.what_is(literal)}", "a mapping with the keys " + ", ".join(entry.items)
        missing = [key for key in entry.items if key not in literal]
        unknown = [key for key in literal if key not in entry.items]
        if missing or unknown:
            said = f"lacks the key `{missing[0]}`" if missing else f"has the unknown key `{unknown[0]}`{nearest(unknown[0], entry.items)}"  # fmt: skip
            return said, "a mapping with the keys " + ", ".join(entry.items)
        return None
    if isinstance(entry, schema.ScalarInput):
        return ("is a mapping", "a literal") if isinstance(literal, dict) else None
    words = {"booleans": "true and false", "float": "numbers"}.get(entry.kind, "whole numbers")
    wrong = next((leaf for leaf in _flat(literal) if not _is_literal_of(entry.kind, leaf)), None)
    if wrong is not None:
        return f"holds {structure.what_is(wrong[0])}", f"{words}, as lists nested {len(entry.shape)} deep"
    # Its rank is free: functions over any number of axes have examples of any.
    return ("has rows that differ in length", "lists of equal length") if _shape_of(literal) is None else None


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
    return kind == "float" or value == value // 1


def _shape_of(literal: Any) -> tuple[int, ...] | None:
    """The shape of nested lists; None when they are ragged."""
    if not isinstance(literal, list):
        return ()
    inner = {_shape_of(item) for item in literal}
    if not inner:
        return (0,)
    only = inner.pop()
    return None if inner or only is None else (len(literal), *only)


# --- sizes ------------------------------------------------------------------------------------------------------------


def _all_names_known(dims: Mapping[str, schema.Dim], rules: Iterable[Any]) -> bool:
    texts = [dim.value for dim in dims.values()] + list(rules)
    return all(
        expressions.names(expressions.parse(text)) <= set(dims) for text in texts if isinstance(text, str)
    )  # fmt: skip


def _order(dims: Mapping[str, schema.Dim]) -> list[str]:
    """The dims, each after those it uses; raises `ExpressionError` when some use each other in a circle."""
    done: list[str] = []
    waiting = list(dims)
    while waiting:
        ready = [
            name
            for name in waiting
            if not isinstance(dims[name].value, str) or expressions.names(expressions.parse(str(dims[name].value))) <= set(done)
        ]  # fmt: skip
        if not ready:
            names = ", ".join(f"`{name}`" for name in waiting)
            raise ExpressionError(f"the dims {names} depend on each other" if len(waiting) > 1 else f"{names} depends on itself")  # fmt: skip
        done += ready
        waiting = [name for name in waiting if name not in ready]
    return done


def _ends(dim: schema.Dim) -> list[int]:
    """The smallest and the largest size of a dim that is drawn; nothing for a computed one."""
    if dim.range is not None:
        return list(dict.fromkeys(dim.bounds()))
    if dim.choices is not None:
        return list(dict.fromkeys((min(dim.choices), max(dim.choices))))
    return []


def _corners(dims: Mapping[str, schema.Dim]) -> Iterator[dict[str, int]]:
    """Draws at the ends of what is drawn: all smallest, all largest, and mixtures, up to `MAX_CORNERS`."""
    ends = {name: _ends(dim) for name, dim in dims.items() if _ends(dim)}
    low = {name: values[0] for name, values in ends.items()}
    high = {name: values[-1] for name, values in ends.items()}
    found = [low, high, *({**low, name: high[name]} for name in ends), *({**high, name: low[name]} for name in ends)]
    for sizes in found[:MAX_CORNERS]:
        yield dict(sizes)


def _compute(dims: Mapping[str, schema.Dim], sizes: dict[str, int]) -> tuple[str, str] | None:
    """Add the computed dims to ``sizes``; (dim, reason) when one cannot be computed."""
    for name, dim in dims.items():
        if dim.value is not None:
            try:
                sizes[name] = expressions.integer(_whole(dim.value), sizes)
            except ExpressionError as error:
                return name, f"`{name}`: {error}"
    return None


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value == value // 1 else value if not isinstance(value, float) else str(value)  # fmt: skip


def _holds(rules: Iterable[Any], sizes: Mapping[str, int]) -> bool:
    try:
        return all(expressions.evaluate(str(rule), sizes) for rule in rules)
    except ExpressionError:
        return False


def _distinct(dims: Mapping[str, schema.Dim], sizes: Mapping[str, int]) -> bool:
    shaping = [size for name, size in sizes.items() if not dims[name].free]
    return len(set(shaping)) == len(shaping)


def _some_draw_is_accepted(spec: schema.ExerciseFile) -> bool:
    """Whether some draw satisfies the constraints with all sizes different; True where there are too many to try."""
    options = []
    for name, dim in spec.dims.items():
        if dim.range is not None:
            low, high = dim.bounds()
            options.append([(name, size) for size in range(low, high + 1)])
        elif dim.choices is not None:
            options.append([(name, size) for size in dict.fromkeys(dim.choices)])
    total = 1
    for option in options:
        total *= len(option)
    if total > MAX_ENUMERATED:
        return True
    for drawn in itertools.product(*options):
        sizes = dict(drawn)
        if _compute(spec.dims, sizes) is None and _holds(spec.constraints, sizes) and _distinct(spec.dims, sizes):
            return True
    return False


def _no_size(text: Any, sizes: Mapping[str, int]) -> str | None:
    try:
        size = expressions.integer(_whole(text), sizes)
    except ExpressionError as error:
        # An unknown name has been reported; a case may give the value that is missing here.
        return None if "unknown name" in str(error) else str(error)
    return f"`{text}` is {size}" if size < 0 else None


def _with(sizes: Mapping[str, int], but: str = "") -> str:
    """For which draw, in a few words."""
    drawn = ", ".join(f"{name} = {size}" for name, size in sizes.items() if name != but)
    return f" when {structure.short(drawn)}" if drawn else ""
