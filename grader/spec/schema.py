"""The exercise file as typed models: the one description that loading, the editor schema and the manual share.

Structure is checked here, by pydantic; what needs more than one place of the file (names that must exist, shapes that
must agree) is checked in `grader.spec.meaning`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, field_validator
from pydantic_core import PydanticCustomError

from grader.spec import expressions

SCHEMA_VERSION = 1
DTYPES = ("float64", "float32", "float16", "bfloat16")
NAME = r"^[a-z][a-z0-9_]*$"

FloatDtype = Literal["float64", "float32", "float16", "bfloat16"]
Framework = Literal["torch", "numpy", "python"]
Reveal = Literal["values", "summary", "verdict"]


class Model(BaseModel):
    """Strict and frozen: an unknown key is an error, a string is no number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


@dataclass(frozen=True)
class Form:
    """Marks an annotation whose YAML form is not what its type says: ``says`` is that form in words."""

    name: str
    says: str


def complain(reason: str, wanted: str = "", offset: int | None = None) -> PydanticCustomError:
    """A validator's error in words for the author: what is wrong, what was expected, and how far into the text."""
    return PydanticCustomError("author", "{reason}", {"reason": reason, "wanted": wanted, "offset": offset})


def _expression(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise complain("")
    if isinstance(value, str):
        try:
            expressions.parse(value)
        except expressions.ExpressionError as error:
            raise complain(f"`{value}`: {error}", error.wanted, error.offset) from None
    return value


def _assignment(value: Any) -> Any:
    if not isinstance(value, str):
        raise complain("")
    try:
        expressions.parse_assignment(value)
    except expressions.ExpressionError as error:
        raise complain(f"`{value}`: {error}", error.wanted, error.offset) from None
    return value


Expression = Annotated[
    int | float | str,
    BeforeValidator(_expression),
    Form("expression", "a number, or an expression such as 2 * d"),
]
Assignment = Annotated[
    str, BeforeValidator(_assignment), Form("assignment", "an assignment such as `x[:, 0] = 0` (in quotes)")
]
_NUMBER = r"(-?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?)"
RANGE = rf"^\s*{_NUMBER}\s*\.\.\s*{_NUMBER}\s*$"
_RANGE = re.compile(RANGE)


def parse_range(text: str) -> tuple[float, float] | None:
    """(low, high) of ``2..6``, both included, or None when ``text`` is no range."""
    match = _RANGE.match(text)
    return (float(match[1]), float(match[2])) if match is not None else None


class Dim(Model):
    """How one dim is drawn: by exactly one of ``range``, ``choices`` and ``value``."""

    range: str | None = Field(None, description="Both ends included, such as 2..6.")
    choices: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(
        None, min_length=1, description="The sizes to choose from."
    )
    value: Expression | None = Field(None, description="A number, or an expression of earlier dims.")
    free: bool = Field(False, description="May equal other dims (depths and counts).")

    @field_validator("choices", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("range")
    @classmethod
    def _whole(cls, value: str | None) -> str | None:
        if value is not None:
            ends = parse_range(value)
            if ends is None or ends[0] != int(ends[0]) or ends[1] != int(ends[1]) or ends[0] < 0:
                raise complain("", "a range of whole numbers such as 2..6")
            if ends[0] > ends[1]:
                raise complain(f"the range {value} is empty", "the smaller number first, such as 2..6")
        return value

    def bounds(self) -> tuple[int, int]:
        assert self.range is not None
        ends = parse_range(self.range)
        assert ends is not None
        return int(ends[0]), int(ends[1])


DIM_FORMS = ("range", "choices", "value")


def _dim(value: Any) -> Any:
    if isinstance(value, Dim):
        return value
    if isinstance(value, list):
        return {"choices": value}
    if isinstance(value, str) and ".." in value:
        return {"range": value}
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        return {"value": value}
    if not isinstance(value, dict):
        raise complain("")
    given = [key for key in DIM_FORMS if key in value]
    if len(given) > 1:
        raise complain("has " + " and ".join(f"`{key}`" for key in given), "exactly one of range, choices and value")
    if not given and set(value) <= set(Dim.model_fields):
        raise complain("has no size", "exactly one of range, choices and value")
    return value


DimEntry = Annotated[
    Dim,
    BeforeValidator(_dim),
    Form("dim", "a range such as 2..6, a list of sizes, a number, or an expression of other dims"),
]


class _Input(Model):
    type: str | None = Field(None, description="The annotation in the stub, where the default one does not fit.")
    about: str | None = Field(None, description="A few words for the reader of the file.")
    default: Any = Field(
        None, description="The value in the signature when the argument may be left out (YAML null is None)."
    )
    exact: bool = Field(False, description="Never perturbed when tolerances are measured (ties, exact boundaries).")

    @property
    def optional(self) -> bool:
        return "default" in self.model_fields_set


class _Shaped(_Input):
    shape: tuple[Expression, ...] = Field(description="One expression of dims per axis; [] is 0-d.")
    layout: Literal["contiguous", "transposed", "stepped"] = Field(
        "contiguous", description="Memory layout of the array: contiguous, transposed (last axis first), or stepped."
    )

    @field_validator("shape", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class FloatInput(_Shaped):
    """An array of floats in the dtype of the case."""

    kind: Literal["float"] = Field("float", description="float is the default and may be left out.")
    distribution: Literal["normal", "uniform"] = Field("normal", description="normal (the default) or uniform.")
    scale: Expression = Field(1.0, description="Standard deviation of a normal input.")
    offset: Expression = Field(0.0, description="Added to a normal input.")
    low: Expression = Field(0.0, description="Lower end of a uniform input.")
    high: Expression = Field(1.0, description="Upper end of a uniform input.")
    dtype: FloatDtype | None = Field(None, description="A dtype of its own instead of the case's.")


class IdsInput(_Shaped):
    """An array of whole numbers from 0 up: token ids, labels, classes."""

    kind: Literal["ids"] = Field(description="ids")
    below: Expression = Field(description="Ids are drawn from 0 up to this, excluded.")
    dtype: Literal["int64", "int32", "float"] = Field(
        "int64", alias="as", description="int64, int32, or float (the case's float dtype)."
    )
    ignore: int | None = Field(
        None, ge=-(2**31), lt=2**31, description="The label that stands for `not counted`, such as -100."
    )
    ignored: float = Field(0.3, ge=0, le=1, description="Share of labels replaced by `ignore`; at least one is left.")


class IntegersInput(_Shaped):
    """An array of whole numbers between two ends."""

    kind: Literal["integers"] = Field(description="integers")
    low: Expression = Field(0, description="Smallest value.")
    high: Expression = Field(description="Largest value, included.")
    dtype: Annotated[
        tuple[Literal["int64", "int32", "int16", "int8", "float"], ...],
        Form("one_or_many", "int64, int32, int16, int8 or float, or a list of these"),
    ] = Field(("int64",), alias="as", min_length=1, description="One dtype, or a list from which each case draws.")

    @field_validator("dtype", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else (value,)


class BooleansInput(_Shaped):
    """An array of True and False."""

    kind: Literal["booleans"] = Field(description="booleans")
    share: float = Field(0.5, ge=0, le=1, description="Share of True.")


class ScalarInput(_Input):
    """A Python number: by exactly one of ``value``, ``choices`` and ``range``."""

    kind: Literal["scalar"] = Field(
        "scalar", description="scalar; may be left out where value, choices or range is given."
    )
    value: Any = Field(None, description="A literal, or an expression of dims.")
    choices: tuple[Any, ...] | None = Field(None, min_length=1, description="Literals to choose from.")
    range: str | None = Field(None, description="A float is drawn uniformly between both ends, such as 0.1..0.9.")

    @field_validator("choices", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("range")
    @classmethod
    def _numbers(cls, value: str | None) -> str | None:
        if value is not None:
            ends = parse_range(value)
            if ends is None:
                raise complain("", "a range such as 0.1..0.9")
            if ends[0] > ends[1]:
                raise complain(f"the range {value} is empty", "the smaller number first, such as 0.1..0.9")
        return value


class ListInput(_Input):
    """A Python list: by ``items``, one by one, or by ``count`` and ``of``."""

    kind: Literal["list"] = Field(description="list")
    items: tuple[InputEntry | None, ...] | None = Field(None, description="One input per place; null is None.")
    count: Expression | None = Field(None, description="With `of`: how many.")
    of: InputEntry | None = Field(None, description="With `count`: what each is.")

    @field_validator("items", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class DictInput(_Input):
    """A Python dict, such as parameters by name."""

    kind: Literal["dict"] = Field(description="dict")
    items: dict[str, InputEntry] = Field(description="One input per key.")


class FunctionInput(_Input):
    """A function handed in; each call crosses to the grader, which answers with ``returns`` and keeps the record."""

    kind: Literal["function"] = Field(description="function")
    parameters: tuple[str, ...] = Field(description="Names of its arguments, for use in `returns`.")
    returns: Expression = Field(description="An expression of the arguments, dims, inputs and aux.")

    @field_validator("parameters", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


KINDS = ("float", "ids", "integers", "booleans", "scalar", "list", "dict", "function")


def kind_of(value: Any) -> str | None:
    """The kind of a raw input: what it says, or what its keys say."""
    if isinstance(value, BaseModel):
        return str(getattr(value, "kind", ""))
    if isinstance(value, dict):
        if "kind" in value:
            return str(value["kind"])
        return "scalar" if any(key in value for key in ("value", "choices", "range")) else "float"
    return None


InputEntry = Annotated[
    Annotated[FloatInput, Tag("float")]
    | Annotated[IdsInput, Tag("ids")]
    | Annotated[IntegersInput, Tag("integers")]
    | Annotated[BooleansInput, Tag("booleans")]
    | Annotated[ScalarInput, Tag("scalar")]
    | Annotated[ListInput, Tag("list")]
    | Annotated[DictInput, Tag("dict")]
    | Annotated[FunctionInput, Tag("function")],
    Discriminator(kind_of),
    Form("input", "an input such as `{shape: [N, d]}` or `{value: 1e-5}`"),
]


class Output(Model):
    """What the function returns. Names of axes are used in messages; dtypes are graded."""

    kind: Literal["array", "scalar", "tuple", "list", "dict", "python"] = Field(
        "array", description="The form of the result."
    )
    axes: tuple[str, ...] | None = Field(None, description="A name per axis of an array, for messages.")
    shape: tuple[Expression, ...] | None = Field(None, description="Checked against the reference by `grader lint`.")
    dtype: Literal["floats", "float64", "float32", "int64", "signed_integer", "bool"] = Field(
        "floats", description="floats: the dtype of the float inputs."
    )
    items: dict[str, Output] | None = Field(None, description="The parts of a tuple, list or dict, by name.")

    @field_validator("axes", "shape", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


def _output(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


OutputEntry = Annotated[
    Output, BeforeValidator(_output), Form("output", "a mapping such as {axes: [row, column]}, or a kind alone")
]


Override = Annotated[dict[str, Any], Form("override", "a mapping of the keys to change, such as {scale: 1e3}, or null")]


class EdgeCase(Model):
    """A named case that is always run; a line of its own in the report."""

    title: str = Field(description="What a student reads, such as: no encoder blocks (E = 0).")
    dims: dict[str, DimEntry] = Field(default_factory=dict, description="Replace dims of the same name.")
    inputs: dict[str, Override | None] = Field(default_factory=dict, description="Merged key by key over the inputs.")
    omit: tuple[str, ...] = Field((), description="Optional inputs that are left out of the call.")
    adjust: tuple[Assignment, ...] = Field((), description="Assignments run after the exercise's own.")
    dtypes: tuple[FloatDtype, ...] | None = Field(None, min_length=1, description="Instead of the exercise's dtypes.")
    count: int = Field(1, ge=1, le=50, description="How many draws of this case.")
    points: float | None = Field(None, ge=0, description="Instead of the check's points.")
    help: str | None = Field(None, description="Shown under `help:` when the case fails.")

    @field_validator("omit", "adjust", "dtypes", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class Example(Model):
    """A published case: literal inputs (or inputs from the reference's own ``cases``), and golden values if there are any."""

    title: str = Field(description="What a student reads.")
    inputs: dict[str, Any] = Field(default_factory=dict, description="A literal per input.")
    from_reference: bool = Field(False, description="Inputs come from `cases(rng)` in solution.py, under this name.")
    expected: Any = Field(None, description="Published values of the result.")
    tolerance: float = Field(0.0, ge=0, description="Absolute, for the published digits.")
    dtypes: tuple[FloatDtype, ...] | None = Field(None, min_length=1, description="Default: float64.")
    points: float | None = Field(None, ge=0, description="Instead of the check's points.")
    help: str | None = Field(None, description="Shown under `help:` when the case fails.")

    @field_validator("dtypes", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class Cases(Model):
    """What the function is called on."""

    random: int = Field(6, ge=0, le=500, description="Random cases, each with dims of its own.")
    edge: dict[str, EdgeCase] = Field(default_factory=dict, description="Named edge cases, always run.")
    examples: dict[str, Example] = Field(default_factory=dict, description="Published cases.")


class _Check(Model):
    id: str | None = Field(None, pattern=NAME, description="Default: the kind, or the name of the case.")
    title: str | None = Field(None, description="The line a student reads.")
    points: float = Field(1.0, ge=0, description="What passing it is worth.")
    advisory: bool = Field(False, description="Run and shown, and never counts.")
    help: str | None = Field(None, description="Shown under `help:` when it fails.")
    reveal: Reveal | None = Field(None, description="Instead of the exercise's `reveal`.")
    cases: (
        Annotated[
            str | tuple[str, ...], Form("cases", "random, edge, examples, the name of a case, or a list of these")
        ]
        | None
    ) = Field(None, min_length=1, description="random, edge, examples, or names of cases.")
    dtypes: tuple[FloatDtype, ...] | None = Field(None, min_length=1, description="Instead of the exercise's dtypes.")

    @field_validator("cases", "dtypes", mode="before")
    @classmethod
    def _listed_(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class ValuesCheck(_Check):
    """The result is the expected one, in structure, type, shape, dtype and value."""

    kind: Literal["values"] = Field(description="values")


class InputsUnchangedCheck(_Check):
    """No call changes an argument, bit for bit."""

    kind: Literal["inputs_unchanged"] = Field(description="inputs_unchanged")


class RepeatableCheck(_Check):
    """Asked again after all the other calls, the function answers as before."""

    kind: Literal["repeatable"] = Field(description="repeatable")


PartName = Annotated[str | int, Form("part", "the name of a part of the output, or its index")]


class _Relation(_Check):
    inputs: dict[str, int] = Field(
        min_length=1, description="The inputs that are changed, each with the axis along which."
    )
    output: int = Field(description="The axis of the output along which the effect is seen.")
    part: PartName | None = Field(None, description="Which part of a tuple or dict, by name or index.")


class IndependentCheck(_Relation):
    """One example does not reach another."""

    kind: Literal["independent"] = Field(description="independent")


class CausalCheck(_Relation):
    """Later positions do not reach earlier outputs."""

    kind: Literal["causal"] = Field(description="causal")


class ReadsCheck(_Relation):
    """Every output depends on every input position on which the reference's depends."""

    kind: Literal["reads"] = Field(description="reads")


class IgnoresCheck(_Check):
    """Other large finite values where nothing is to be read change nothing."""

    kind: Literal["ignores"] = Field(description="ignores")
    what: tuple[str, ...] = Field(min_length=1, description="Inputs, or slices of inputs, that must have no effect.")

    @field_validator("what", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class GradientsCheck(_Check):
    """Gradients reach every input they should and are the reference's (torch)."""

    kind: Literal["gradients"] = Field(description="gradients")
    wrt: tuple[str, ...] | None = Field(None, min_length=1, description="Default: every float array.")
    zero: tuple[str, ...] = Field((), description="Inputs or slices whose gradient must be exactly zero.")

    @field_validator("wrt", "zero", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class DeviceCheck(_Check):
    """Computation and result stay on the device of the inputs (torch)."""

    kind: Literal["device"] = Field(description="device")


class PrecisionCheck(_Check):
    """The arithmetic is done in the precision of the inputs."""

    kind: Literal["precision"] = Field(description="precision")


class StridedCheck(_Check):
    """Inputs that are not contiguous in memory give the same result."""

    kind: Literal["strided"] = Field(description="strided")


class SourceCheck(_Check):
    """Calls that the file must, or must not, contain."""

    kind: Literal["source"] = Field(description="source")
    require: tuple[str, ...] = Field((), description="Calls that must occur, such as np.exp.")
    forbid: tuple[str, ...] = Field((), description="Calls that may not occur.")

    @field_validator("require", "forbid", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class CallsCheck(_Check):
    """A function handed in is called as the reference calls it."""

    kind: Literal["calls"] = Field(description="calls")
    function: str = Field(description="The input of kind function whose calls must equal the reference's.")


class PeakMemoryCheck(_Check):
    """The memory held at once, above the inputs, stays below a limit."""

    kind: Literal["peak_memory"] = Field(description="peak_memory")
    below: Expression = Field(description="Bytes above the inputs, an expression of dims and `itemsize`.")


class FallsCheck(_Check):
    """A part of the result falls when parts of it are fed back as inputs."""

    kind: Literal["falls"] = Field(description="falls")
    output: PartName = Field(description="The part of the result that must fall.")
    feed: dict[str, str] = Field(
        min_length=1, description="Parts of the result (by name or index) that become inputs of the next step."
    )
    steps: int = Field(2, ge=2, le=20, description="How many steps.")

    @field_validator("feed", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        return {str(key): item for key, item in value.items()} if isinstance(value, dict) else value


CHECK_KINDS: dict[str, type[_Check]] = {
    "values": ValuesCheck,
    "inputs_unchanged": InputsUnchangedCheck,
    "repeatable": RepeatableCheck,
    "independent": IndependentCheck,
    "causal": CausalCheck,
    "reads": ReadsCheck,
    "ignores": IgnoresCheck,
    "gradients": GradientsCheck,
    "device": DeviceCheck,
    "precision": PrecisionCheck,
    "strided": StridedCheck,
    "source": SourceCheck,
    "calls": CallsCheck,
    "peak_memory": PeakMemoryCheck,
    "falls": FallsCheck,
}

CheckEntry = Annotated[
    ValuesCheck
    | InputsUnchangedCheck
    | RepeatableCheck
    | IndependentCheck
    | CausalCheck
    | ReadsCheck
    | IgnoresCheck
    | GradientsCheck
    | DeviceCheck
    | PrecisionCheck
    | StridedCheck
    | SourceCheck
    | CallsCheck
    | PeakMemoryCheck
    | FallsCheck,
    Field(discriminator="kind"),
    Form("check", "a check such as `{kind: values, cases: random}`"),
]


class LimitsEntry(Model):
    """What one call may cost."""

    time: float = Field(5.0, gt=0, le=600, description="Seconds of computing time per call.")
    memory: float = Field(1024.0, gt=0, description="MB above the start.")

    @field_validator("time", "memory", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


class ExerciseFile(Model):
    """The whole of ``exercise.yaml``."""

    schema_version: Literal[1] = Field(alias="schema", description="The version of this language: 1.")
    title: str = Field(description="The exercise's title.")
    summary: str = Field(description="One sentence for the catalogue.")
    framework: Framework = Field(description="What the function receives and returns.")
    function: str | None = Field(None, pattern=r"^[A-Za-z_]\w*$", description="Default: the name of the folder.")
    builds_on: tuple[str, ...] = Field((), description="Exercises to do before.")
    dtypes: tuple[FloatDtype, ...] = Field(
        ("float64", "float32"), min_length=1, description="Dtypes of the float inputs."
    )
    dims: dict[str, DimEntry] = Field(default_factory=dict, description="Sizes, drawn for each case.")
    constraints: tuple[Expression, ...] = Field((), description="Conditions on dims.")
    inputs: dict[str, InputEntry] = Field(description="The arguments, in the order of the signature.")
    aux: dict[str, InputEntry] = Field(default_factory=dict, description="Drawn like inputs, and not passed.")
    adjust: tuple[Assignment, ...] = Field((), description="Assignments run on the drawn values.")
    output: OutputEntry = Field(default=Output(), description="What is returned.")
    cases: Cases = Field(default=Cases(), description="What the function is called on.")
    checks: tuple[CheckEntry, ...] = Field(min_length=1, description="What is asked of it, in the order of the report.")
    hints: tuple[str, ...] = Field((), description="From where to look to the line most people miss.")
    limits: LimitsEntry = Field(default=LimitsEntry(), description="What one call may cost.")
    reveal: Reveal = Field("values", description="How much a student is shown of a failing case.")

    @field_validator("builds_on", "dtypes", "constraints", "adjust", "checks", "hints", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class TrackFile(Model):
    """The whole of ``track.yaml``."""

    title: str = Field(description="The track's title.")
    about: str = Field("", description="One sentence on it.")
    position: int = Field(100, ge=0, description="Tracks are shown in this order, those of equal position by name.")
    order: tuple[str, ...] = Field(description="Its exercises, in order.")

    @field_validator("order", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class PatchEntry(Model):
    """One replacement on the text of solution.py."""

    find: str = Field(min_length=1, description="Exact text of solution.py.")
    replace: str = Field(description="What stands there instead.")
    all: bool = Field(False, description="Replace every occurrence, not just the only one.")


class MisconceptionEntry(Model):
    """One mistake a student may make, as a patch of the reference that makes it."""

    id: str = Field(pattern=NAME, description="A name of its own.")
    says: str = Field(description="Completes `likely cause:`.")
    help: str | None = Field(None, description="Shown under `help:`.")
    equals: tuple[str, ...] = Field((), description="Misconceptions that give the same numbers.")
    patch: tuple[PatchEntry, ...] = Field(min_length=1, description="Replacements on solution.py.")

    @field_validator("equals", "patch", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class MisconceptionsFile(Model):
    """The whole of ``misconceptions.yaml``."""

    schema_version: Literal[1] = Field(alias="schema", description="The version of this language: 1.")
    misconceptions: tuple[MisconceptionEntry, ...] = Field(description="Patches of the reference, each a mistake.")

    @field_validator("misconceptions", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


ListInput.model_rebuild()
DictInput.model_rebuild()
Output.model_rebuild()
