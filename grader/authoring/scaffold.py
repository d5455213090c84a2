"""`grader new`: an exercise that works at once, with comments that teach by example.

The exercise that is written is a real one (a weighted mean, or padding for `python`), so that its author sees every part
at work before changing it: the reference passes, the stub and the wrong fixture fail, a mistake is diagnosed.
"""

from __future__ import annotations

import difflib
import keyword
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.authoring import templates
from grader.errors import GraderFault, UsageError
from grader.spec import document, editor, load, schema, structure
from grader.spec.document import shown
from grader.spec.exercise import Exercise
from grader.spec.library import Library, find_library

DEFAULT_TRACK = "drafts"
CLOSE = 0.8
WIDTH = 100
_TRACK = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*\Z")


@dataclass(frozen=True)
class Scaffold:
    """What `grader new` writes: every file with its text, and remarks for the author."""

    name: str
    track: str
    root: Path
    files: tuple[tuple[Path, str], ...]
    notes: tuple[str, ...] = ()

    @property
    def solution(self) -> Path:
        return self.root / "reference" / self.track / self.name / "solution.py"


def plan(name: str, framework: str, track: str | None = None, root: Path | None = None) -> Scaffold:
    """Everything that will be written, and nothing written yet.

    Raises:
        UsageError: the name or the track cannot be used, or something of that name is there already.
    """
    root = root if root is not None else home()
    _check_name(name)
    tracks = sorted(path.parent.parent.name for path in (root / "exercises").glob("*/*/exercise.yaml"))
    track = track or (tracks[0] if len(set(tracks)) == 1 else DEFAULT_TRACK)
    if not _TRACK.match(track):
        raise UsageError(f"`{track}` cannot name a track", "small letters, digits, - and _, such as --track attention")
    folder, hidden, fixtures = (
        root / "exercises" / track / name,
        root / "reference" / track / name,
        root / "fixtures" / name,
    )
    texts = templates.texts(framework, name, modeline(folder))
    exercise = Exercise(name, track, _read(texts["exercise.yaml"]), folder, None, None)
    files = [
        (folder / "exercise.yaml", texts["exercise.yaml"]),
        (folder / "README.md", texts["README.md"]),
        (folder / f"{name}.py", stub(exercise)),
        (hidden / "solution.py", texts["solution.py"]),
        (hidden / "misconceptions.yaml", texts["misconceptions.yaml"]),
        (fixtures / "right" / texts["right name"], texts["right"]),
        (fixtures / "wrong" / texts["wrong name"], texts["wrong"]),
    ]
    notes = _refuse_or_note(name, root, [path for path, _ in files])
    track_file = root / "exercises" / track / "track.yaml"
    if not track_file.exists():
        title = track.replace("-", " ").replace("_", " ").capitalize()
        files.insert(0, (track_file, templates.track(title, name)))
    elif name not in load.track_of(track_file.parent).order:
        notes.append(f"{shown(track_file)} gives the order of the track; add `{name}` where it belongs.")
    return Scaffold(name, track, root, tuple(files), tuple(notes))


def write(scaffold: Scaffold) -> None:
    """Write every file. Raises `UsageError` when one has appeared meanwhile, `GraderFault` when one cannot be written."""
    for path, text in scaffold.files:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise UsageError(f"{shown(path)} already exists", "another name, or remove it first") from None
        except OSError as error:
            raise GraderFault(
                f"{shown(path)} cannot be written: {error.strerror}", "grader new NAME --dir DIR, a folder of yours"
            ) from None


def _read(text: str) -> schema.ExerciseFile:
    spec = structure.hold(schema.ExerciseFile, document.parse(text.encode(), document.Document("exercise.yaml"))).model
    assert spec is not None
    return spec


def home() -> Path:
    """The folder that holds `exercises/`: the nearest from here upwards, or else the current one."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if any((folder / "exercises").glob("*/*/exercise.yaml")):
            return folder
    return here


def modeline(folder: Path) -> str:
    """The line that gives editors the schema, where it lies in the same project; elsewhere a word on how to get it."""
    root = folder.resolve().parents[2]
    if editor.PATH.is_relative_to(root):
        return f"# yaml-language-server: $schema={os.path.relpath(editor.PATH, folder.resolve())}"
    return "# Completion in your editor: `python -m grader.spec.editor --where` prints the path of the JSON Schema."


def _check_name(name: str) -> None:
    if not re.match(schema.NAME, name):
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
        meant = re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")
        usable = re.match(schema.NAME, meant)
        raise UsageError(
            f"`{name}` cannot name an exercise: its function has the same name",
            f"grader new {meant}" if usable else "small letters, digits and underscores, a letter first",
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise UsageError(f"`{name}` is a word of Python and cannot name a function", f"grader new {name}_exercise")
    if name in sys.stdlib_module_names or name in ("torch", "numpy"):
        raise UsageError(
            f"a file {name}.py in a student's folder would hide Python's own module `{name}`",
            f"grader new {name}_exercise",
        )


def _refuse_or_note(name: str, root: Path, paths: Iterable[Path]) -> list[str]:
    there = [path for path in paths if path.exists()]
    if there:
        raise UsageError(
            f"`{name}` is there already: " + ", ".join(shown(path) for path in there), "another name, or remove these"
        )
    mine = {path.parent.name: path.parent for path in (root / "exercises").glob("*/*/exercise.yaml")}
    if name in mine:
        raise UsageError(
            f"there is an exercise `{name}` already: {shown(mine[name])}",
            "another name: a name is used once in all tracks",
        )
    notes = []
    installed = _installed_names()
    if name in installed:
        notes.append(
            f"tensorgrade comes with an exercise `{name}` too; below {shown(root) or '.'} yours is the one found."
        )
    close = difflib.get_close_matches(name, {*mine, *installed} - {name}, n=1, cutoff=CLOSE)
    if close:
        notes.append(
            f"there is an exercise of nearly that name: `{close[0]}`. Students will mistake one for the other."
        )
    return notes


def _installed_names() -> set[str]:
    try:
        library: Library = find_library(start=Path("/"))
    except UsageError:
        return set()
    return {path.parent.name for path in library.exercises.glob("*/*/exercise.yaml")}


# --- the stub, from the exercise file ---------------------------------------------------------------------------------


def stub(exercise: Exercise) -> str:
    """The stub that the exercise's own signature gives: imports, types, shapes, and nothing of the solution."""
    spec = exercise.spec
    array = {"torch": "torch.Tensor", "numpy": "np.ndarray"}.get(spec.framework, "list[float]")
    types = {name: entry.type or _type(entry, array) for name, entry in spec.inputs.items()}
    returned = _returned(spec.output, array)
    parameters = [
        f"{name}: {types[name]}" + (f" = {entry.default!r}" if entry.optional else "")
        for name, entry in spec.inputs.items()
    ]
    head = f"def {exercise.function}({', '.join(parameters)})" + (f" -> {returned}:" if returned else ":")
    if len(head) > WIDTH:
        head = "\n".join(
            (head.partition("(")[0] + "(", *(f"    {each}," for each in parameters), ")" + head.rpartition(")")[2])
        )
    words = " ".join([*types.values(), returned])
    lines = []
    if "Callable" in words:
        lines += ["from collections.abc import Callable", ""]
    if "np." in words:
        lines.append("import numpy as np")
    if "torch." in words:
        lines.append("import torch")
    lines += ["", ""] if lines and lines[-1] else [""] if lines else []
    lines.append(head)
    lines.append(f'    """{spec.summary.strip()}')
    described = [text for text in (_described(name, entry) for name, entry in spec.inputs.items()) if ":" in text]
    lines += ["", *(f"    {line}" for line in described), '    """'] if described else ['    """']
    lines.append(f'    raise NotImplementedError("write {exercise.function}, then run: grade {exercise.name}")')
    return "\n".join(lines) + "\n"


def _type(entry: Any, array: str) -> str:
    optional = " | None" if entry.optional and entry.default is None else ""
    match entry:
        case schema.ScalarInput():
            given = entry.choices if entry.choices is not None else (entry.value,)
            kinds = {type(item) for item in given}
            if entry.range is not None:
                return "float" + optional
            if kinds == {str} and entry.choices is None:
                return "int" + optional
            names = {bool: "bool", int: "int", float: "float", str: "str"}
            return (" | ".join(sorted(names.get(kind, "object") for kind in kinds)) or "float") + optional
        case schema.ListInput():
            inner = entry.of or next((item for item in entry.items or () if item is not None), None)
            holes = " | None" if entry.items is not None and None in entry.items else ""
            return f"list[{_type(inner, array)}{holes}]{optional}" if inner is not None else f"list{optional}"
        case schema.DictInput():
            kinds_inside = sorted({_type(item, array) for item in entry.items.values()})
            return f"dict[str, {' | '.join(kinds_inside)}]{optional}"
        case schema.FunctionInput():
            return f"Callable{optional}"
    return array + optional


def _returned(output: schema.Output, array: str) -> str:
    if output.kind == "array":
        return array
    if output.kind == "tuple" and output.items:
        return f"tuple[{', '.join(_returned(item, array) for item in output.items.values())}]"
    return {"scalar": "float" if array != "torch.Tensor" else array, "list": "list", "dict": "dict", "tuple": "tuple"}.get(output.kind, "")  # fmt: skip


def _described(name: str, entry: Any) -> str:
    """What is known of an input beyond its type, in one line; its bare name where that is nothing."""
    shape = getattr(entry, "shape", None)
    sizes = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})" if shape is not None else ""
    words = ", ".join(filter(None, (sizes, entry.about or "")))
    return f"{name}: {words}" if words else name
