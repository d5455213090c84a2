"""One case as files for a debugger: its inputs as .npz, and a short script that calls the submission's function on them.

The script needs neither the grader nor the exercise, only NumPy (and torch where the exercise is one of torch). Expected
values are written only where every check of the exercise may show values.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from grader import cases, kit
from grader.cases import Case
from grader.checks import values
from grader.errors import UsageError
from grader.explain import leading
from grader.grade import Options, limits_of, replayed
from grader.lockdown import Lockdown, policy
from grader.model import Report
from grader.questions import questions
from grader.sandbox.protocol import Array, Function, Value
from grader.sandbox.runner import Runner
from grader.spec.exercise import Exercise
from grader.submission import Student, Submission
from grader.trial import Trial

SCRIPT, INPUTS, EXPECTED, CALLS = "run_case.py", "inputs.npz", "expected.npz", "calls.json"

Wrap = Callable[[str, Array], str]


@dataclass(frozen=True)
class Saved:
    """What was written, and for which case."""

    token: str
    script: Path


def save(
    exercise: Exercise,
    submission: Submission,
    runner: Runner,
    options: Options,
    report: Report,
    folder: Path,
    lockdown: Lockdown | None = None,
) -> Saved | None:
    """Write the case that ``options`` name, or else the one that the report shows; None when no case fails.

    Raises:
        UsageError: the exercise keeps its cases to itself, or no file can be written in ``folder``.
        GraderFault: the reference or a worker failed.
    """
    reveals = {question.reveal for question in questions(exercise)}
    if "verdict" in reveals or report.secret:
        raise UsageError(f"the cases of `{exercise.name}` are not shown", f"grade {exercise.name}")
    token = options.case or _shown(report)
    if token is None:
        return None
    oracle = kit.oracle_for(runner, exercise)
    limits = limits_of(exercise, options)
    student = Student(runner, exercise, submission, policy((lockdown or Lockdown("auto")).mode, limits), limits)
    try:
        plan = replayed(exercise, oracle, replace(options, case=token))
        trial = Trial(exercise, plan, student, oracle)
        case, dtypes = plan.cases[0]
        dtype = _failing_dtype(trial, case, dtypes)
        return _write(trial, submission, case, dtype, folder, with_expected=reveals == {"values"})
    finally:
        student.close()
        oracle.close()


def _shown(report: Report) -> str | None:
    shown = leading(report.checks)
    return shown.case.token if shown is not None and shown.case is not None else None


def _failing_dtype(trial: Trial, case: Case, dtypes: tuple[str, ...]) -> str:
    """The first dtype in which the result is wrong; the first of all where it is right in each."""
    for dtype in dtypes:
        if values.rule(trial, case, dtype).verdict not in ("pass", "skipped"):
            return dtype
    return dtypes[0]


def _write(trial: Trial, submission: Submission, case: Case, dtype: str, folder: Path, with_expected: bool) -> Saved:
    exercise = trial.exercise
    framework = exercise.spec.framework
    inputs: dict[str, np.ndarray] = {}
    lines = []
    for name, value in zip(case.arguments, cases.arguments(case, framework, dtype), strict=True):
        if not isinstance(value, Function):
            lines.append(f"{name} = {_expression(value, name, inputs, _tensor if framework == 'torch' else _array)}")
    expected: dict[str, np.ndarray] = {}
    wanted = None
    if with_expected:
        wanted = _expression(trial.expected(case, dtype).value, "result", expected, lambda key, _: f"expected[{key!r}]")
    calls = _calls(trial, case, dtype)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / INPUTS, **inputs)  # type: ignore[arg-type]
        if expected:
            np.savez(folder / EXPECTED, **expected)  # type: ignore[arg-type]
        if calls:
            (folder / CALLS).write_text(json.dumps(calls), encoding="utf-8")
        file = Path(submission.path).resolve()
        if file.suffix != ".py":
            file = folder / "submission.py"
            file.write_bytes(submission.source)
        place = os.path.relpath(file, folder.resolve())
        text = _script(exercise, case, dtype, place, lines, wanted, bool(expected), calls)
        (folder / SCRIPT).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}", "name a folder of your own") from None
    return Saved(case.token, folder / SCRIPT)


def _expression(value: Value, path: str, arrays: dict[str, np.ndarray], wrap: Wrap) -> str:
    """Python text that builds ``value`` again; arrays go to ``arrays`` under their path, such as ``params['w_q']``."""
    if isinstance(value, Array):
        # NumPy has no bfloat16; every number of it is one of float32.
        arrays[path] = value.numbers().astype(np.float32) if value.dtype == "bfloat16" else value.raw
        return wrap(path, value)
    if isinstance(value, dict):
        items = (f"{key!r}: {_expression(item, f'{path}[{key!r}]', arrays, wrap)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list | tuple):
        inner = [_expression(item, f"{path}[{at}]", arrays, wrap) for at, item in enumerate(value)]
        if isinstance(value, tuple):
            return "(" + ", ".join(inner) + ("," if len(inner) == 1 else "") + ")"
        return "[" + ", ".join(inner) + "]"
    if isinstance(value, float) and not np.isfinite(value):
        return f"float({str(value)!r})"
    return repr(value)


def _array(key: str, array: Array) -> str:
    text = f"inputs[{key!r}]"
    if array.layout == "transposed" and array.raw.ndim >= 2:
        return f"np.ascontiguousarray({text}.swapaxes(0, -1)).swapaxes(0, -1)"
    if array.layout != "contiguous" and array.raw.ndim:
        return f"np.repeat({text}, 2, axis=-1)[..., ::2]"
    return text


def _tensor(key: str, array: Array) -> str:
    text = f"torch.from_numpy(inputs[{key!r}])"
    if array.dtype == "bfloat16":
        text += ".to(torch.bfloat16)"
    if array.layout == "transposed" and array.raw.ndim >= 2:
        return f"{text}.transpose(0, -1).contiguous().transpose(0, -1)"
    if array.layout != "contiguous" and array.raw.ndim:
        return f"{text}.repeat_interleave(2, dim=-1)[..., ::2]"
    return text


def _calls(trial: Trial, case: Case, dtype: str) -> dict[str, list[list[Any]]]:
    """Per function handed in, the arguments of every call that was made of it and the answer, as plain lists."""
    if not case.functions:
        return {}
    framework = trial.exercise.spec.framework
    answer = cases.answerer(case, framework, dtype, [])
    made = [*trial.outcome(case, dtype).calls, *trial.expected(case, dtype).calls]
    found: dict[str, list[list[Any]]] = {name: [] for name in case.functions}
    for name, args in made:
        try:
            reply = _plain(answer(name, args))
        except ValueError:
            # A call that the function refuses; here it finds no answer either.
            continue
        entry = [_plain(args), reply]
        if name in found and entry not in found[name]:
            found[name].append(entry)
    return found


def _plain(value: Value) -> Any:
    if isinstance(value, Array):
        return value.numbers().tolist()
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


HANDED_IN = '''

def {name}(*args):
    """Answers as it did when the case was saved; a call that was not made then has no answer here."""
    given = [arg.tolist() if hasattr(arg, "tolist") else arg for arg in args]
    for recorded, answer in calls["{name}"]:
        if recorded == given:
            return {answer}
    raise LookupError(f"{name} was not called with {{given}} when this case was saved")

'''


def _script(
    exercise: Exercise,
    case: Case,
    dtype: str,
    place: str,
    lines: list[str],
    wanted: str | None,
    loads: bool,
    calls: dict[str, list[list[Any]]],
) -> str:
    framework, function = exercise.spec.framework, exercise.function
    about = f"in {dtype}, " if framework != "python" else ""
    imports = ["import json"] if calls else []
    imports += ["import runpy", "from pathlib import Path", "", "import numpy as np"]
    if framework == "torch":
        imports.append("import torch")
    answer = {"python": "answer", "numpy": f"np.asarray(answer, dtype={dtype!r})"}.get(
        framework, f"torch.tensor(answer, dtype=torch.{dtype})"
    )
    text = [
        f'"""`{function}` on one case, {about}{case.title or case.name}. The same case in the grader:',
        "",
        f"    grade {exercise.name} --case {case.token}",
        '"""',
        "",
        *imports,
        "",
        "here = Path(__file__).resolve().parent",
        f'inputs = np.load(here / "{INPUTS}")',
        *([f'calls = json.loads((here / "{CALLS}").read_text(encoding="utf-8"))'] if calls else []),
        *(HANDED_IN.format(name=name, answer=answer).removesuffix("\n") for name in calls),
        "",
        *lines,
        "",
        'if __name__ == "__main__":',
        f"    {function} = runpy.run_path(str((here / {place!r}).resolve()))[{function!r}]",
        f"    result = {function}({', '.join(case.arguments)})",
        '    print("result:", result, sep="\\n")',
    ]
    if wanted is not None:
        text += [f'    expected = np.load(here / "{EXPECTED}")'] if loads else []
        text.append(f'    print("expected:", {wanted}, sep="\\n")')
    return "\n".join(text) + "\n"
