"""The values that pass between stages: frozen, without behaviour beyond reading themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from grader.sandbox.protocol import Array, Value

VERDICTS = ("pass", "fail", "error", "timeout", "memory", "crashed", "skipped", "grader_error")


@dataclass(frozen=True)
class Error:
    """An exception in a submission as data. ``frames`` start at the submission's own file."""

    type: str
    message: str
    cause: str
    frames: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Change:
    """One thing a call changed of an argument: ``what`` is values, shape, keys, requires_grad, grad, structure …"""

    parameter: str
    path: str
    what: str
    after: Value = None


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one call of a submission came to.

    ``status``: returned, raised, timeout, memory, crashed, forbidden, too_large, garbled, not_run.
    """

    status: str
    value: Value = None
    error: Error | None = None
    detail: str = ""
    changes: tuple[Change, ...] = ()
    calls: tuple[tuple[str, Value], ...] = ()
    seconds: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def returned(self) -> bool:
        return self.status == "returned"


@dataclass(frozen=True, eq=False)
class Leaf:
    """One array, number or plain value of an expected result, with the error allowed of it."""

    path: str
    expected: Value
    allowed: float
    axes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Expected:
    """The reference's answer to one call: the value in float64, and per leaf what may differ."""

    value: Value
    leaves: tuple[Leaf, ...]
    dtype: str
    seconds: float = 0.0
    calls: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, eq=False)
class Mismatch:
    """Why a result is not the expected one, as evidence; the sentences come later.

    ``kind``: structure, type, shape, dtype, nan, inf, values, unsupported.
    """

    kind: str
    path: str = ""
    actual: Value = None
    expected: Value = None
    axes: tuple[str, ...] = ()
    wrong: int = 0
    total: int = 0
    worst: tuple[int, ...] = ()
    worst_difference: float = 0.0
    allowed: float = 0.0
    ratio: float = 0.0
    note: str = ""

    def array(self, which: str) -> Array | None:
        value = self.actual if which == "actual" else self.expected
        return value if isinstance(value, Array) else None


@dataclass(frozen=True)
class CaseRef:
    """What a report says of a case: enough to read it and to replay it."""

    name: str
    number: int
    dims: dict[str, int]
    token: str
    # random, edge or examples
    group: str = "random"


@dataclass(frozen=True)
class Grid:
    """A map of effects, such as which outputs moved when one input position was changed.

    ``got`` and ``expected`` hold one row per output position, one column per input position; None is undecided.
    """

    rows: str
    columns: str
    got: tuple[tuple[bool | None, ...], ...]
    expected: tuple[tuple[bool | None, ...], ...]

    @property
    def changed(self) -> str:
        """What a column stands for, in words: an example, a position, or a position of some input."""
        if self.columns == "example":
            return "example"
        return "position" if self.columns in (self.rows, "") else f"{self.columns} position"


# One number of a picture. What JSON has no number for is a word: nan, inf or -inf; ``float`` reads them all.
Number = float | str


@dataclass(frozen=True)
class Panel:
    """Two results over the last two axes, at one place ``at`` of the axes before them.

    One row per position of the last axis but one (a single row where there is none), one column per position of the last.
    ``difference`` is got minus expected, and ``wrong`` what the check counts as different.
    """

    at: tuple[int, ...]
    got: tuple[tuple[Number, ...], ...]
    expected: tuple[tuple[Number, ...], ...]
    difference: tuple[tuple[Number, ...], ...]
    wrong: tuple[tuple[bool, ...], ...]


@dataclass(frozen=True)
class Picture:
    """Two results of one shape element by element, as much of them as can be looked at.

    ``axes`` and ``shape`` are those of the whole; ``panels`` start at ``first`` (row, column), and of other panels only how
    many there are is kept, and how many of those hold something wrong. ``kind`` is float, integer or boolean.
    """

    labels: tuple[str, str]
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    kind: str
    panels: tuple[Panel, ...]
    wrong: int
    total: int
    first: tuple[int, int] = (0, 0)
    left_out: int = 0
    left_out_wrong: int = 0
    path: str = ""
    allowed: float = 0.0
    # Set where the second of the two was there first, such as an argument before a call.
    backwards: bool = False

    @property
    def cells(self) -> int:
        return sum(len(panel.got) * len(panel.got[0]) for panel in self.panels)


@dataclass(frozen=True)
class Explanation:
    """What a student reads of one failing check, in the order of the page; every part is plain text."""

    claim: str
    call: str = ""
    # Labelled blocks such as ("you returned", "[[…]]"); an empty label is a plain paragraph.
    blocks: tuple[tuple[str, str], ...] = ()
    # Where along the named axes it goes wrong, one fact per line.
    where: tuple[str, ...] = ()
    grid: Grid | None = None
    picture: Picture | None = None
    likely: str | None = None
    evidence: str | None = None
    help: str | None = None
    note: str | None = None
    rerun: str | None = None


@dataclass(frozen=True)
class Question:
    """One line of the report to be: a declared check, or one named case of a declared `values` check."""

    id: str
    title: str
    check: Any
    points: float
    advisory: bool
    reveal: str
    cases: str | tuple[str, ...] | None
    dtypes: tuple[str, ...] | None
    help: str | None = None


@dataclass(frozen=True, eq=False)
class Ruling:
    """A check's verdict with its evidence, before anything is put into words.

    ``failing`` are the calls on which it failed, in the order run; ``case`` and ``dtype`` are the one to show.
    """

    verdict: str
    cause: str | None = None
    case: Any = None
    dtype: str = "float64"
    outcome: Outcome | None = None
    mismatch: Mismatch | None = None
    failing: tuple[tuple[Any, str], ...] = ()
    grid: Grid | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    # Skipped because the check itself could not decide: never held against a submission.
    neutral: bool = False


@dataclass(frozen=True)
class CheckResult:
    """One line of the report."""

    id: str
    title: str
    verdict: str
    points: float
    max_points: float
    advisory: bool = False
    cause: str | None = None
    message: str = ""
    hint: str | None = None
    case: CaseRef | None = None
    seconds: float = 0.0
    explanation: Explanation | None = None
    # Skipped because the check itself could not decide: its points are given, and it does not stand in the way of passing.
    neutral: bool = False
    # The same with nothing of any case in it, for students who share one secret seed.
    bare: Explanation | None = None


@dataclass(frozen=True)
class Diagnosis:
    misconception: str
    says: str
    cases_matched: int
    help: str | None = None
    combined_with: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """The outcome of grading one submission; see ``grader/reports/report.schema.json``."""

    exercise: str
    submission: dict[str, Any]
    seed: int
    status: str
    passed: bool
    score: float | None
    max_score: float
    checks: tuple[CheckResult, ...]
    diagnoses: tuple[Diagnosis, ...]
    isolation: dict[str, Any]
    timings: dict[str, float]
    versions: dict[str, str]
    reason: str | None = None
    output: str = ""
    # What of a notebook was left out, by cell and line.
    left_out: tuple[str, ...] = ()
    # What a reader has to know of the whole, such as that the cases were recorded.
    note: str = ""
    title: str = ""
    # Set where one seed is shared by hidden runs: it is then left out of what a student is shown.
    secret: bool = False
