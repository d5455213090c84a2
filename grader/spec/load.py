"""From files to `Exercise`: find the library, read one exercise, and say everything that is wrong with it at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grader.errors import AuthorError, Finding, UsageError
from grader.spec import document as documents
from grader.spec import meaning, schema, structure
from grader.spec.document import Document, nearest
from grader.spec.exercise import Exercise
from grader.spec.library import Library


def folders(library: Library) -> dict[str, Path]:
    """Every exercise folder by name, in track order where a track file gives one."""
    found: dict[str, Path] = {}
    for track in ordered_tracks(library):
        inside = {path.parent.name: path.parent for path in track.glob("*/exercise.yaml")}
        for name in [*(n for n in track_of(track).order if n in inside), *sorted(inside)]:
            found.setdefault(name, inside[name])
    return found


def ordered_tracks(library: Library) -> list[Path]:
    """The folders of the tracks, in the order that their files give."""
    return sorted(library.tracks(), key=lambda folder: (track_of(folder).position, folder.name))


def track_of(folder: Path) -> schema.TrackFile:
    """The track file of a folder; a folder without one is a track named after itself."""
    path = folder / "track.yaml"
    if not path.is_file():
        return schema.TrackFile(title=folder.name, order=())
    document = documents.read(path)
    track = structure.hold(schema.TrackFile, document).model
    if document.findings or track is None:
        raise AuthorError(in_order(document), f"mend {document.path} and run the command again")
    return track


def load(library: Library, name: str) -> Exercise:
    """Read one exercise.

    Raises:
        UsageError: there is no exercise of that name; names the nearest ones.
        AuthorError: its file is wrong; carries every finding.
    """
    folder = library.find(name)
    if folder is None:
        close = documents.candidates(name, folders(library))
        did = " or ".join(f"`{word}`" for word in close)
        raise UsageError(
            f"there is no exercise `{name}`" + (f"; did you mean {did}?" if close else ""),
            f"grade {close[0]}" if len(close) == 1 else "grade (lists the names)",
        )
    return read_exercise(folder, library.reference)


def read_exercise(folder: Path, reference: Path | None, known: Iterable[str] = ()) -> Exercise:
    """Read the exercise in ``folder``.

    ``known`` are the names that ``builds_on`` may name; without them its names are not looked at.

    Raises:
        AuthorError: its file is wrong; carries every finding, in the order of the file.
    """
    document = documents.read(folder / "exercise.yaml")
    held = structure.hold(schema.ExerciseFile, document)
    edge_inputs: dict[str, dict[str, Any]] = {}
    if held.model is not None:
        edge_inputs = meaning.examine(held, folder.name)
        _prerequisites(held, list(known))
    if document.findings or held.model is None:
        raise AuthorError(in_order(document), f"mend {document.path}, then run: grader lint {folder.name}")
    hidden = reference / folder.parent.name / folder.name if reference is not None else None
    solution = hidden / "solution.py" if hidden is not None else None
    patches = hidden / "misconceptions.yaml" if hidden is not None else None
    return Exercise(
        name=folder.name,
        track=folder.parent.name,
        spec=held.model,
        folder=folder,
        solution=solution if solution is not None and solution.is_file() else None,
        misconceptions=patches if patches is not None and patches.is_file() else None,
        recorded=_recorded(folder),
        edge_inputs=edge_inputs,
    )


def _recorded(folder: Path) -> Path | None:
    """The record of an exercise in a kit."""
    path = folder.parent.parent.parent / "recorded" / folder.parent.name / f"{folder.name}.bin"
    return path if path.is_file() else None


def _prerequisites(held: structure.Held[schema.ExerciseFile], known: list[str]) -> None:
    assert held.model is not None
    for index, name in enumerate(held.model.builds_on):
        if known and name not in known:
            wanted = "the name of an exercise"
            held.view.report(("builds_on", index), f"there is no exercise `{name}`{nearest(name, known)}", wanted)


def in_order(document: Document) -> list[Finding]:
    """The findings of a document in the order of its lines."""
    return sorted(document.findings, key=lambda finding: (finding.line, finding.column))


def read_misconceptions(path: Path) -> schema.MisconceptionsFile:
    """Read a misconceptions file; raises `AuthorError` with every finding."""
    document = documents.read(path)
    held = structure.hold(schema.MisconceptionsFile, document)
    if held.model is not None:
        entries = held.model.misconceptions
        known = [entry.id for entry in entries]
        for index, entry in enumerate(entries):
            at: documents.Path_ = ("misconceptions", index)
            if entry.id in known[:index]:
                held.view.report((*at, "id"), f"the id `{entry.id}` occurs twice", "an id of its own")
            for place, other in enumerate(entry.equals):
                if other == entry.id:
                    held.view.report((*at, "equals", place), f"`{other}` equals itself", "the ids of others")
                elif other not in known:
                    said = f"there is no misconception `{other}`{nearest(other, known)}"
                    held.view.report((*at, "equals", place), said, "an id of this file")
            for place, patch in enumerate(entry.patch):
                if patch.find == patch.replace:
                    held.view.report(
                        (*at, "patch", place), "this patch changes nothing", "a `replace` other than `find`"
                    )
    if document.findings or held.model is None:
        raise AuthorError(in_order(document), f"mend {document.path} and run the command again")
    return held.model
