"""The exercise file as typed models: the one description that loading, the editor schema and the manual share.

Structure is checked here, by pydantic; what needs more than one place of the file (names that must exist, shapes that
must agree) is checked in `grader.spec.load`.
"""

from __future__ import annotations

import re
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


def _expression(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise PydanticCustomError("expression", "not an expression over dims such as 2 * d")
    if isinstance(value, str):
        try:
            expressions.parse(value)
        except expressions.ExpressionError as error:
            raise PydanticCustomError("expression", "{reason}", {"reason": str(error)}) from None
    return value


def _assignment(value: Any) -> Any:
    if not isinstance(value, str):
        raise PydanticCustomError("assignment", "not an assignment such as x[:, 0] = 0")
    try:
        expressions.parse_assignment(value)
    except expressions.ExpressionError as error:
        raise PydanticCustomError("assignment", "{reason}", {"reason": str(error)}) from None
    return value


Expression = Annotated[int | float | str, BeforeValidator(_expression)]
Assignment = Annotated[str, BeforeValidator(_assignment)]
_RANGE = re.compile(r"^\s*(-?[\d.]+(?:[eE]-?\d+)?)\s*\.\.\s*(-?[\d.]+(?:[eE]-?\d+)?)\s*$")


def parse_range(text: str) -> tuple[float, float] | None:
    """(low, high) of ``2..6``, both included, or None when ``text`` is no range."""
    match = _RANGE.match(text)
    if match is None:
        return None
    try:
        return float(match[1]), float(match[2])
    except ValueError:
        return None


class Dim(Model):
    """How one dim is drawn: by exactly one of ``range``, ``choices`` and ``value``."""

    range: str | None = Field(None, description="Both ends included, such as 2..6.")
    choices: tuple[int, ...] | None = Field(None, description="The sizes to choose from.")
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
            if ends is None or ends[0] != int(ends[0]) or ends[1] != int(ends[1]) or ends[0] > ends[1] or ends[0] < 0:
                raise PydanticCustomError("range", "not a range of whole numbers such as 2..6")
        return value

    def bounds(self) -> tuple[int, int]:
        assert self.range is not None
        ends = parse_range(self.range)
        assert ends is not None
        return int(ends[0]), int(ends[1])


def _dim(value: Any) -> Any:
    if isinstance(value, Dim):
        return value
    if isinstance(value, list):
        value = {"choices": value}
    elif isinstance(value, str) and ".." in value:
        value = {"range": value}
    elif isinstance(value, int | str) and not isinstance(value, bool):
        value = {"value": value}
    elif not isinstance(value, dict):
        raise PydanticCustomError("dim", "not a dim: write 2..6, [1, 2, 4], a number or an expression of other dims")
    if sum(key in value for key in ("range", "choices", "value")) != 1:
        raise PydanticCustomError("dim", "a dim has exactly one of range, choices and value")
    return value


DimEntry = Annotated[Dim, BeforeValidator(_dim)]


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
        "contiguous", description="Memory layout of the array."
    )

    @field_validator("shape", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class FloatInput(_Shaped):
    kind: Literal["float"] = "float"
    distribution: Literal["normal", "uniform"] = Field("normal", description="normal (the default) or uniform.")
    scale: Expression = Field(1.0, description="Standard deviation of a normal input.")
    offset: Expression = Field(0.0, description="Added to a normal input.")
    low: Expression = Field(0.0, description="Lower end of a uniform input.")
    high: Expression = Field(1.0, description="Upper end of a uniform input.")
    dtype: FloatDtype | None = Field(None, description="A dtype of its own instead of the case's.")


class IdsInput(_Shaped):
    kind: Literal["ids"]
    below: Expression = Field(description="Ids are drawn from 0 up to this, excluded.")
    dtype: Literal["int64", "int32", "float"] = Field(
        "int64", alias="as", description="int64, int32, or float (the case's float dtype)."
    )
    ignore: int | None = Field(None, description="The label that stands for `not counted`, such as -100.")
    ignored: float = Field(0.3, description="Share of labels replaced by `ignore`; at least one is left.")


class IntegersInput(_Shaped):
    kind: Literal["integers"]
    low: Expression = Field(0, description="Smallest value.")
    high: Expression = Field(description="Largest value, included.")
    dtype: tuple[Literal["int64", "int32", "int16", "int8", "float"], ...] = Field(
        ("int64",), alias="as", description="One dtype, or a list from which each case draws."
    )

    @field_validator("dtype", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else (value,)


class BooleansInput(_Shaped):
    kind: Literal["booleans"]
    share: float = Field(0.5, ge=0, le=1, description="Share of True.")


class ScalarInput(_Input):
    """A Python number: by exactly one of ``value``, ``choices`` and ``range``."""

    kind: Literal["scalar"] = "scalar"
    value: Any = Field(None, description="A literal, or an expression of dims.")
    choices: tuple[Any, ...] | None = Field(None, description="Literals to choose from.")
    range: str | None = Field(None, description="A float is drawn uniformly between both ends, such as 0.1..0.9.")

    @field_validator("choices", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("range")
    @classmethod
    def _numbers(cls, value: str | None) -> str | None:
        if value is not None and parse_range(value) is None:
            raise PydanticCustomError("range", "not a range such as 0.1..0.9")
        return value


class ListInput(_Input):
    kind: Literal["list"]
    items: tuple[InputEntry | None, ...] | None = Field(None, description="One input per place; null is None.")
    count: Expression | None = Field(None, description="With `of`: how many.")
    of: InputEntry | None = Field(None, description="With `count`: what each is.")

    @field_validator("items", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class DictInput(_Input):
    kind: Literal["dict"]
    items: dict[str, InputEntry]


class FunctionInput(_Input):
    """A function handed in; each call crosses to the grader, which answers with ``returns`` and keeps the record."""

    kind: Literal["function"]
    parameters: tuple[str, ...] = Field(description="Names of its arguments, for use in `returns`.")
    returns: Expression = Field(description="An expression of the arguments, dims, inputs and aux.")

    @field_validator("parameters", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


KINDS = ("float", "ids", "integers", "booleans", "scalar", "list", "dict", "function")


def _kind(value: Any) -> str | None:
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
    Discriminator(
        _kind,
        custom_error_type="kind",
        custom_error_message="not an input: a mapping with shape, value, or one of the kinds " + ", ".join(KINDS),
    ),
]


class Output(Model):
    """What the function returns. Names of axes are used in messages; dtypes are graded."""

    kind: Literal["array", "scalar", "tuple", "list", "dict", "python"] = Field(
        "array", description="The form of the result."
    )
    axes: tuple[str, ...] | None = Field(None, description="A name per axis, for messages.")
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


class EdgeCase(Model):
    title: str = Field(description="What a student reads, such as: no encoder blocks (E = 0).")
    dims: dict[str, DimEntry] = Field(default_factory=dict, description="Replace dims of the same name.")
    inputs: dict[str, dict[str, Any] | None] = Field(
        default_factory=dict, description="Merged key by key over the inputs."
    )
    omit: tuple[str, ...] = Field((), description="Optional inputs that are left out of the call.")
    adjust: tuple[Assignment, ...] = Field((), description="Assignments run after the exercise's own.")
    dtypes: tuple[FloatDtype, ...] | None = Field(None, description="Instead of the exercise's dtypes.")
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
    dtypes: tuple[FloatDtype, ...] | None = Field(None, description="Default: float64.")
    points: float | None = Field(None, ge=0, description="Instead of the check's points.")
    help: str | None = Field(None, description="Shown under `help:` when the case fails.")

    @field_validator("dtypes", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class Cases(Model):
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
    cases: str | tuple[str, ...] | None = Field(None, description="random, edge, examples, or names of cases.")
    dtypes: tuple[FloatDtype, ...] | None = Field(None, description="Instead of the exercise's dtypes.")

    @field_validator("cases", "dtypes", mode="before")
    @classmethod
    def _listed_(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class ValuesCheck(_Check):
    kind: Literal["values"]


class InputsUnchangedCheck(_Check):
    kind: Literal["inputs_unchanged"]


class RepeatableCheck(_Check):
    kind: Literal["repeatable"]


class _Relation(_Check):
    inputs: dict[str, int] = Field(description="The inputs that are changed, each with the axis along which.")
    output: int = Field(description="The axis of the output along which the effect is seen.")
    part: str | int | None = Field(None, description="Which part of a tuple or dict, by name or index.")


class IndependentCheck(_Relation):
    kind: Literal["independent"]


class CausalCheck(_Relation):
    kind: Literal["causal"]


class ReadsCheck(_Relation):
    kind: Literal["reads"]


class IgnoresCheck(_Check):
    kind: Literal["ignores"]
    what: tuple[str, ...] = Field(description="Inputs, or slices of inputs, that must have no effect.")

    @field_validator("what", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class GradientsCheck(_Check):
    kind: Literal["gradients"]
    wrt: tuple[str, ...] | None = Field(None, description="Default: every float array.")
    zero: tuple[str, ...] = Field((), description="Inputs or slices whose gradient must be exactly zero.")

    @field_validator("wrt", "zero", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class DeviceCheck(_Check):
    kind: Literal["device"]


class PrecisionCheck(_Check):
    kind: Literal["precision"]


class StridedCheck(_Check):
    kind: Literal["strided"]


class SourceCheck(_Check):
    kind: Literal["source"]
    require: tuple[str, ...] = Field((), description="Calls that must occur, such as np.exp.")
    forbid: tuple[str, ...] = Field((), description="Calls that may not occur.")

    @field_validator("require", "forbid", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class CallsCheck(_Check):
    kind: Literal["calls"]
    function: str = Field(description="The input of kind function whose calls must equal the reference's.")


class PeakMemoryCheck(_Check):
    kind: Literal["peak_memory"]
    below: Expression = Field(description="Bytes above the inputs, an expression of dims and `itemsize`.")


class FallsCheck(_Check):
    kind: Literal["falls"]
    output: str | int = Field(description="The part of the result that must fall.")
    feed: dict[str, str] = Field(
        description="Parts of the result (by name or index) that become inputs of the next step."
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
]


class LimitsEntry(Model):
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
    dtypes: tuple[FloatDtype, ...] = Field(("float64", "float32"), description="Dtypes of the float inputs.")
    dims: dict[str, DimEntry] = Field(default_factory=dict, description="Sizes, drawn for each case.")
    constraints: tuple[Expression, ...] = Field((), description="Conditions on dims.")
    inputs: dict[str, InputEntry] = Field(description="The arguments, in the order of the signature.")
    aux: dict[str, InputEntry] = Field(default_factory=dict, description="Drawn like inputs, and not passed.")
    adjust: tuple[Assignment, ...] = Field((), description="Assignments run on the drawn values.")
    output: Annotated[Output, BeforeValidator(_output)] = Field(default=Output(), description="What is returned.")
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
    find: str = Field(min_length=1, description="Exact text of solution.py.")
    replace: str = Field(description="What stands there instead.")
    all: bool = Field(False, description="Replace every occurrence, not just the only one.")


class MisconceptionEntry(Model):
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
