"""Is this result the expected one? Structure, type, shape and dtype first, then NaN and infinity, then values.

Only bytes that the grader holds are compared, never anything that a submission says of them. The answer is a
`Mismatch` (evidence, no sentences) or None.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from grader.model import Expected, Leaf, Mismatch
from grader.sandbox.protocol import Array, Function, Opaque, Value
from grader.spec.schema import Output

EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
FLOOR_ULPS = 8.0
SIGNED = ("int64", "int32", "int16", "int8")
INTEGERS = (*SIGNED, "uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True)
class Part:
    """One leaf of a value: where it is, what it is, and what the exercise says of it."""

    path: str
    value: Value
    output: Output


def parts(value: Value, output: Output, path: str = "") -> Iterator[Part]:
    """The leaves of a result, in order. Containers that the exercise does not describe are walked as they come."""
    if output.kind in ("tuple", "list") and isinstance(value, list | tuple):
        specs = list((output.items or {}).items())
        for index, item in enumerate(value):
            name, spec = specs[index] if index < len(specs) else (str(index), Output())
            inner = f"{path}[{index}]" if not output.items else _join(path, name)
            yield from parts(item, spec, inner)
    elif output.kind == "dict" and isinstance(value, dict):
        for key, item in value.items():
            spec = (output.items or {}).get(str(key), Output())
            yield from parts(item, spec, f"{path}[{key!r}]")
    else:
        yield Part(path, value, output)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def numbers(value: Value) -> np.ndarray | None:
    """The value as an array of numbers, or None when it holds none."""
    if isinstance(value, Array):
        return value.numbers()
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return np.asarray(float(value))
    return None


def largest(value: Value) -> float:
    """The largest finite magnitude among the floats of a leaf; 0 where it has none."""
    found = numbers(value)
    if found is None or found.dtype.kind != "f":
        return 0.0
    finite = found[np.isfinite(found)]
    return float(np.abs(finite).max()) if finite.size else 0.0


def rounding(value: Value, dtype: str) -> float:
    """What a few roundings of the largest float of a leaf amount to."""
    return FLOOR_ULPS * EPS[dtype] * largest(value)


def mismatch(actual: Value, expected: Expected, output: Output, framework: str) -> Mismatch | None:
    """Compare a result with the reference's; the first kind of difference, at the first leaf that has one."""
    wrong = _structure(actual, expected.value, output, "")
    if wrong is not None:
        return wrong
    found = {part.path: part for part in parts(actual, output)}
    pairs = [(leaf, found[leaf.path]) for leaf in expected.leaves]
    for judge in (_type, _shape, _dtype):
        for leaf, part in pairs:
            wrong = judge(part, leaf, framework, expected.dtype)
            if wrong is not None:
                return wrong
    for compare in (_nonfinite, _values):
        for leaf, part in pairs:
            wrong = compare(part, leaf)
            if wrong is not None:
                return wrong
    return None


def margin(actual: Value, expected: Expected, output: Output) -> float:
    """The largest error of a result as a multiple of what is allowed (inf where it is no number at all)."""
    found = {part.path: part for part in parts(actual, output)}
    worst = 0.0
    for leaf in expected.leaves:
        if leaf.path not in found:
            return float("inf")
        mine, theirs = numbers(found[leaf.path].value), numbers(leaf.expected)
        if theirs is None:
            continue
        if mine is None or mine.shape != theirs.shape:
            return float("inf")
        worst = max(worst, _ratio(mine, theirs, leaf.allowed))
    return worst


def _ratio(mine: np.ndarray, theirs: np.ndarray, allowed: float) -> float:
    if mine.dtype.kind != "f" or theirs.dtype.kind != "f":
        return 0.0 if np.array_equal(mine, theirs) else float("inf")
    with np.errstate(invalid="ignore"):
        same = (mine == theirs) | (np.isnan(mine) & np.isnan(theirs))
        difference = np.where(same, 0.0, np.abs(mine - theirs))
    if difference.size == 0 or not difference.any():
        return 0.0
    if np.isnan(difference).any() or np.isinf(difference).any() or allowed <= 0:
        return float("inf")
    return float(difference.max() / allowed)


def describe(value: Value) -> str:
    """What a value is, in words for a student: ``a tensor of shape (2, 3)``."""
    if value is None:
        return "None"
    if isinstance(value, Array):
        if value.family == "scalar":
            return f"a NumPy {value.dtype}"
        word = "a tensor" if value.family == "tensor" else "an array"
        return f"{word} of shape {value.shape}, {value.dtype}"
    if isinstance(value, Opaque):
        return f"a {value.type_name}"
    if isinstance(value, Function):
        return "a function"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"a dict with {len(value)} keys"
    if isinstance(value, bool):
        return f"the boolean {value}"
    if isinstance(value, int | float):
        return f"a Python {type(value).__name__}"
    return f"a {type(value).__name__}"


def _structure(actual: Value, expected: Value, output: Output, path: str) -> Mismatch | None:
    if isinstance(actual, Opaque):
        return Mismatch("unsupported", path, actual, expected, note=actual.reason)
    if output.kind in ("tuple", "list"):
        wanted = tuple if output.kind == "tuple" else list
        if not isinstance(actual, wanted):
            return Mismatch("type", path, actual, expected, note=f"a {output.kind} of {len(expected)}")
        if len(actual) != len(expected):
            return Mismatch("structure", path, actual, expected, note=f"{len(actual)} items instead of {len(expected)}")
        specs = list((output.items or {}).items())
        for index, (mine, theirs) in enumerate(zip(actual, expected, strict=True)):
            name, spec = specs[index] if index < len(specs) else (str(index), Output())
            inner = f"{path}[{index}]" if not output.items else _join(path, name)
            wrong = _structure(mine, theirs, spec, inner)
            if wrong is not None:
                return wrong
        return None
    if output.kind == "dict":
        if not isinstance(actual, dict):
            return Mismatch("type", path, actual, expected, note="a dict")
        missing = [key for key in expected if key not in actual]
        extra = [key for key in actual if key not in expected]
        if missing or extra:
            words = [f"the key {key!r} is missing" for key in missing[:3]]
            words += [f"the key {key!r} is not asked for" for key in extra[:3]]
            return Mismatch("structure", path, actual, expected, note="; ".join(words))
        for key, theirs in expected.items():
            spec = (output.items or {}).get(str(key), Output())
            wrong = _structure(actual[key], theirs, spec, f"{path}[{key!r}]")
            if wrong is not None:
                return wrong
        return None
    if output.kind == "python":
        return None
    if expected is None or actual is None:
        if expected is actual:
            return None
        note = "None" if expected is None else ""
        return Mismatch("type", path, actual, expected, note=note)
    return None


def _type(part: Part, leaf: Leaf, framework: str, dtype: str) -> Mismatch | None:
    if part.output.kind == "python" or leaf.expected is None:
        return None
    actual, expected = part.value, leaf.expected
    if part.output.kind == "scalar":
        return None if _is_number(actual) else Mismatch("type", leaf.path, actual, expected, note="a number")
    if isinstance(expected, Array):
        family = expected.family
        if isinstance(actual, Array):
            zero_d = expected.shape == () and framework != "torch"
            if actual.family == family or (zero_d and {actual.family, family} <= {"scalar", "ndarray"}):
                return None
        elif expected.shape == () and framework != "torch" and _is_number(actual):
            return None
        word = "a torch.Tensor" if family == "tensor" else "a numpy.ndarray"
        return Mismatch("type", leaf.path, actual, expected, note=word)
    return None


def _is_number(value: Value) -> bool:
    if isinstance(value, Array):
        return value.dtype != "bool"
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shape(part: Part, leaf: Leaf, framework: str, dtype: str) -> Mismatch | None:
    if part.output.kind == "python" or leaf.expected is None:
        return None
    actual = part.value.shape if isinstance(part.value, Array) else ()
    expected = () if part.output.kind == "scalar" or not isinstance(leaf.expected, Array) else leaf.expected.shape
    if actual == expected:
        return None
    return Mismatch("shape", leaf.path, part.value, leaf.expected, leaf.axes)


def wanted_dtypes(output: Output, dtype: str) -> tuple[str, ...]:
    """The dtypes that a leaf may have when the float inputs are ``dtype``."""
    if output.dtype == "floats":
        return (dtype,)
    if output.dtype == "signed_integer":
        return SIGNED
    return (output.dtype,)


def _dtype(part: Part, leaf: Leaf, framework: str, dtype: str) -> Mismatch | None:
    if (
        part.output.kind in ("python", "scalar")
        or not isinstance(part.value, Array)
        or not isinstance(leaf.expected, Array)
    ):
        return None
    wanted = wanted_dtypes(part.output, dtype)
    if part.output.dtype == "floats" and not leaf.expected.is_float:
        wanted = (leaf.expected.dtype,)
    if part.value.dtype in wanted:
        return None
    note = wanted[0] if len(wanted) == 1 else "a signed integer dtype"
    return Mismatch("dtype", leaf.path, part.value, leaf.expected, leaf.axes, note=note)


def _nonfinite(part: Part, leaf: Leaf) -> Mismatch | None:
    mine, theirs = numbers(part.value), numbers(leaf.expected)
    if (
        mine is None
        or theirs is None
        or mine.dtype.kind != "f"
        or theirs.dtype.kind != "f"
        or mine.shape != theirs.shape
    ):
        return None
    for kind, test in (("nan", np.isnan), ("inf", np.isinf)):
        wrong = test(mine) != test(theirs)
        if kind == "inf":
            with np.errstate(invalid="ignore"):
                wrong |= np.isinf(mine) & np.isinf(theirs) & (mine != theirs)
        if wrong.any():
            first = tuple(int(i) for i in np.argwhere(wrong)[0])
            missing = bool(test(theirs)[first]) and not bool(test(mine)[first])
            return Mismatch(
                kind, leaf.path, part.value, leaf.expected, leaf.axes, int(wrong.sum()), wrong.size, first,
                allowed=leaf.allowed, note="missing" if missing else "",
            )  # fmt: skip
    return None


def _values(part: Part, leaf: Leaf) -> Mismatch | None:
    if part.output.kind == "python":
        return _python(part.value, leaf.expected, leaf, leaf.path)
    mine, theirs = numbers(part.value), numbers(leaf.expected)
    if mine is None or theirs is None:
        if part.value == leaf.expected:
            return None
        return Mismatch("values", leaf.path, part.value, leaf.expected, leaf.axes, 1, 1)
    wrong = wrong_elements(mine, theirs, leaf.allowed)
    if not wrong.any():
        return None
    return _evidence(part.value, leaf, mine, theirs, wrong)


def wrong_elements(mine: np.ndarray, theirs: np.ndarray, allowed: float) -> np.ndarray:
    """Where two arrays of one shape differ by more than ``allowed``; written so that NaN counts as different."""
    if mine.dtype.kind == "f" and theirs.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            same = (mine == theirs) | (np.isnan(mine) & np.isnan(theirs))
            return np.asarray(~(same | (np.abs(mine - theirs) <= allowed)))
    return np.asarray(mine != theirs)


def _evidence(actual: Value, leaf: Leaf, mine: np.ndarray, theirs: np.ndarray, wrong: np.ndarray) -> Mismatch:
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(mine.astype(np.float64) - theirs.astype(np.float64))
    difference = np.where(wrong, np.nan_to_num(difference, nan=np.inf), -1.0)
    worst = (
        tuple(int(i) for i in np.unravel_index(int(np.argmax(difference)), difference.shape))
        if difference.shape
        else ()
    )
    gap = float(difference[worst]) if difference.shape else float(difference)
    return Mismatch(
        "values", leaf.path, actual, leaf.expected, leaf.axes, int(wrong.sum()), wrong.size, worst, gap, leaf.allowed,
        ratio=gap / leaf.allowed if leaf.allowed > 0 else float("inf"),
    )  # fmt: skip


def _python(actual: Value, expected: Value, leaf: Leaf, path: str) -> Mismatch | None:
    """Nested Python results: tuples and lists are one, integers of any type are one, floats are compared with a tolerance."""
    if isinstance(actual, Opaque):
        return Mismatch("unsupported", path, actual, expected, note=actual.reason)
    if isinstance(actual, Array) and actual.shape == ():
        actual = actual.numbers()[()].item()
    if isinstance(expected, Array) and expected.shape == ():
        expected = expected.numbers()[()].item()
    if isinstance(expected, list | tuple):
        if not isinstance(actual, list | tuple):
            return Mismatch("type", path, actual, expected, note=f"a {type(expected).__name__}")
        if len(actual) != len(expected):
            note = f"{len(actual)} items instead of {len(expected)}"
            return Mismatch("structure", path, actual, expected, note=note)
        for index, (mine, theirs) in enumerate(zip(actual, expected, strict=True)):
            wrong = _python(mine, theirs, leaf, f"{path}[{index}]")
            if wrong is not None:
                return wrong
        return None
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            return Mismatch("type", path, actual, expected, note="a dict")
        missing = [key for key in expected if key not in actual]
        extra = [key for key in actual if key not in expected]
        if missing or extra:
            words = [f"the key {key!r} is missing" for key in missing[:3]]
            words += [f"the key {key!r} is not asked for" for key in extra[:3]]
            return Mismatch("structure", path, actual, expected, note="; ".join(words))
        for key, theirs in expected.items():
            wrong = _python(actual[key], theirs, leaf, f"{path}[{key!r}]")
            if wrong is not None:
                return wrong
        return None
    if isinstance(expected, float):
        if not _is_number(actual):
            return Mismatch("type", path, actual, expected, note="a number")
        if (actual != actual) != (expected != expected):
            note = "missing" if expected != expected else ""
            return Mismatch("nan", path, actual, expected, (), 1, 1, note=note)
        if not (actual == expected or actual != actual or abs(actual - expected) <= leaf.allowed):
            gap = abs(actual - expected)
            ratio = gap / leaf.allowed if leaf.allowed > 0 else float("inf")
            return Mismatch("values", path, actual, expected, (), 1, 1, (), gap, leaf.allowed, ratio)
        return None
    if isinstance(expected, bool) or expected is None or isinstance(expected, str):
        same = type(actual) is type(expected) and actual == expected
    else:
        same = isinstance(actual, int) and not isinstance(actual, bool) and actual == expected
        if not same and not (isinstance(actual, int) and not isinstance(actual, bool)):
            return Mismatch("type", path, actual, expected, note="an integer")
    return None if same else Mismatch("values", path, actual, expected, (), 1, 1)


def changed(before: Value, after: Value, expected: Expected, output: Output) -> Mismatch | None:
    """How a later result of a submission differs from an earlier one, within the tolerances of ``expected``.

    Whether either is right is not asked. The evidence holds ``after`` as actual and ``before`` as expected.
    """
    allowed = {leaf.path: leaf.allowed for leaf in expected.leaves}
    for part in parts(before, output):
        # A wrong result may be of another scale than the expected one, and rounds on its own.
        allowed[part.path] = max(allowed.get(part.path, 0.0), rounding(part.value, expected.dtype))
    then, now = list(parts(before, output)), list(parts(after, output))
    if [part.path for part in then] != [part.path for part in now]:
        return Mismatch("structure", "", describe(after), describe(before))
    for old, new in zip(then, now, strict=True):
        if equal_leaves(old.value, new.value, allowed.get(old.path, 0.0)):
            continue
        mine, theirs = numbers(new.value), numbers(old.value)
        if mine is None or theirs is None:
            plain = not isinstance(new.value, Array | Opaque) and not isinstance(old.value, Array | Opaque)
            shown = (new.value, old.value) if plain else (describe(new.value), describe(old.value))
            return Mismatch("values", old.path, *shown)
        if mine.shape != theirs.shape:
            return Mismatch("shape", old.path, new.value, old.value)
        leaf = Leaf(old.path, old.value, allowed.get(old.path, 0.0), tuple(old.output.axes or ()))
        wrong = wrong_elements(mine, theirs, leaf.allowed)
        if wrong.any():
            return _evidence(new.value, leaf, mine, theirs, wrong)
        return Mismatch("dtype", old.path, describe(new.value), describe(old.value))
    return None


def equal(first: Value, second: Value, allowed: dict[str, float], output: Output) -> bool:
    """Whether two results are one and the same: structure, dtype, shape, and values within ``allowed`` per leaf."""
    one, two = list(parts(first, output)), list(parts(second, output))
    if [part.path for part in one] != [part.path for part in two]:
        return False
    return all(_equal_parts(a, b, allowed.get(a.path, 0.0)) for a, b in zip(one, two, strict=True))


def _equal_parts(first: Part, second: Part, allowed: float) -> bool:
    if first.output.kind == "scalar":
        a, b = numbers(first.value), numbers(second.value)
        if a is not None and b is not None:
            # The dtype of a number is not graded, so it tells no two results apart.
            return a.shape == b.shape and not wrong_elements(a, b, allowed).any()
    return equal_leaves(first.value, second.value, allowed)


def equal_leaves(first: Value, second: Value, allowed: float) -> bool:
    """Whether two leaves are the same; of what has no plain form only the type is known."""
    if isinstance(first, Opaque) or isinstance(second, Opaque):
        return isinstance(first, Opaque) and isinstance(second, Opaque) and first.type_name == second.type_name
    if isinstance(first, Array) and isinstance(second, Array) and first.dtype != second.dtype:
        return False
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(
            equal_leaves(a, b, allowed) for a, b in zip(first, second, strict=True)
        )
    if isinstance(first, dict) and isinstance(second, dict):
        return set(first) == set(second) and all(equal_leaves(first[key], second[key], allowed) for key in first)
    a, b = numbers(first), numbers(second)
    if a is None or b is None:
        return type(first) is type(second) and bool(first == second)
    return a.shape == b.shape and not wrong_elements(a, b, allowed).any()


def pick(value: Value, part: str | int, output: Output) -> Value:
    """One part of a tuple or list (by index, or by the name that ``output`` gives it) or of a dict (by key, or by its place
    among the declared ones); None when there is no such part."""
    names = list(output.items or {})
    if isinstance(part, str) and part.lstrip("-").isdecimal() and part not in names:
        part = int(part)
    if isinstance(value, list | tuple):
        index = names.index(part) if part in names else part
        return value[index] if isinstance(index, int) and -len(value) <= index < len(value) else None
    if not isinstance(value, dict):
        return None
    if isinstance(part, int) and part not in value and -len(names) <= part < len(names):
        part = names[part]
    return value.get(part)
