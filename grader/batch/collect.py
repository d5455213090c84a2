"""Who handed in what: the layouts in which people have submissions, read into one list.

Nothing is run and nothing is guessed silently: every file that is not taken is named with the reason.
"""

from __future__ import annotations

import csv
import io
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from grader.batch import archive
from grader.batch.archive import Left
from grader.errors import UsageError
from grader.reports.entry import Person
from grader.spec import document
from grader.submission import inert

LAYOUTS = ("auto", "students", "exercises", "canvas", "moodle", "gradescope")
SUFFIXES = (".py", ".ipynb")
MANIFEST_IDS = ("canvas", "sis", "login", "section", "moodle", "email", "gradescope")
METADATA = "submission_metadata.yml"
# Canvas: doejane_LATE_4711_98765_softmax.py, a later attempt softmax-1.py.
_CANVAS = re.compile(r"(?P<who>[^_]+)_(?:LATE_)?(?P<id>\d+)_(?P<attachment>\d+)_(?P<file>.+)", re.DOTALL)
# Moodle: "Jane Doe_4711_assignsubmission_file_/softmax.py", or flat with the file's name at the end.
_MOODLE = re.compile(r"(?P<name>.+)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)", re.DOTALL)
# What browsers and systems append to a second file of one name.
_COPY = re.compile(r"(?:[-_ ](\d{1,3})|\s*\((\d{1,3})\)|[-_ ]copy)$", re.IGNORECASE)
MAX_DEPTH = 8
MAX_ENTRIES = 200_000


@dataclass(frozen=True)
class Handed:
    """One submission: whose, for which exercise, and where it lies. ``shown`` is its path as staff know it."""

    person: Person
    exercise: str
    path: Path
    shown: str


@dataclass(frozen=True)
class Collection:
    """Everything found, by student and exercise; ``left`` names what was not taken, and why."""

    handed: tuple[Handed, ...]
    left: tuple[Left, ...]
    layout: str


@dataclass(frozen=True)
class _Found:
    """A file that may be a submission. ``rank`` is larger for a later attempt."""

    person: Person
    path: Path
    shown: str
    name: str
    rank: tuple[int, ...] = ()
    exercise: str | None = None


def collect(
    source: Path,
    names: Sequence[str],
    only: Sequence[str],
    scratch: Path,
    layout: str = "auto",
    manifest: Path | None = None,
) -> Collection:
    """Read ``source``, a folder or an archive, or the files that ``manifest`` lists.

    ``names`` are all exercises, ``only`` those wanted (empty: all). Archives are unpacked below ``scratch``.

    Raises:
        UsageError: nothing that looks like submissions was found, or an archive or manifest is wrong.
    """
    left: list[Left] = []
    if manifest is not None:
        found = list(_from_manifest(manifest, names))
        return _chosen(found, names, only, left, "manifest")
    root, shown = source, source.name or str(source)
    if archive.is_archive(source):
        root = _unpacked(source, scratch, "class", left)
        shown = source.name
    elif not source.is_dir():
        raise UsageError(f"{source}: there is no such folder or archive", "grader batch DIR")
    root = _inside_wrapper(root, names)
    if layout == "auto":
        layout = _layout_of(root, names)
    readers = {
        "students": _by_student,
        "exercises": _by_exercise,
        "canvas": _canvas,
        "moodle": _moodle,
        "gradescope": _gradescope,
    }
    found = list(readers[layout](_Walk(root, shown, names, scratch, left)))
    chosen = _chosen(found, names, only, left, layout)
    if not chosen.handed:
        wanted = f" to {', '.join(only)}" if only else ""
        raise UsageError(
            f"{source}: no submission{wanted} was found (looked for the layout `{layout}`; "
            f"files are named by exercise, as {(only or names)[0]}.py)",
            "grader batch DIR --layout " + "|".join(LAYOUTS[1:]) + ", or --manifest FILE",
        )
    return chosen


def exercise_named(file_name: str, names: Iterable[str]) -> tuple[str | None, int]:
    """Which exercise a file is named after, and which copy it is (``softmax-1.py`` and ``softmax (1).py`` are copy 1)."""
    base, suffix = os.path.splitext(file_name)
    if suffix.lower() not in SUFFIXES:
        return None, 0
    known = {name.lower(): name for name in names}
    copy = 0
    for _ in range(3):
        exact = known.get(base.strip().lower().replace("-", "_").replace(" ", "_"))
        if exact is not None:
            return exact, copy
        match = _COPY.search(base)
        if match is None:
            return None, 0
        copy = max(copy, int(match[1] or match[2] or 1))
        base = base[: match.start()]
    return None, 0


# --- the layouts ------------------------------------------------------------------------------------------------------


@dataclass
class _Walk:
    root: Path
    shown: str
    names: Sequence[str]
    scratch: Path
    left: list[Left]
    count: int = 0

    def entries(self, folder: Path) -> list[os.DirEntry[str]]:
        """What a folder holds, in name order, without what nobody handed in; links are named and left alone."""
        try:
            with os.scandir(folder) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError as error:
            self.leave(folder, f"it cannot be read: {error.strerror}")
            return []
        self.count += len(entries)
        if self.count > MAX_ENTRIES:
            raise UsageError(
                f"{self.root}: more than {MAX_ENTRIES} files", "name a folder that holds submissions alone"
            )
        kept = []
        for entry in entries:
            if entry.name.startswith(".") or entry.name in archive.NOISE:
                continue
            if entry.is_symlink():
                self.leave(Path(entry.path), "it is a link")
                continue
            kept.append(entry)
        return kept

    def name(self, path: Path) -> str:
        """A path as staff know it, with nothing in it that a terminal would act on."""
        try:
            inner = path.relative_to(self.root).as_posix()
        except ValueError:
            inner = path.name
        return inert(os.fsdecode(os.fsencode(inner)))

    def leave(self, path: Path, why: str) -> None:
        self.left.append(Left(self.name(path), why))

    def below(
        self, folder: Path, person: Person, shown: str = "", depth: int = 0, rank: tuple[int, ...] = ()
    ) -> Iterator[_Found]:
        """Every file of one student, archives among them unpacked; the shallowest and latest of one name ranks first."""
        if depth > MAX_DEPTH:
            self.leave(folder, f"it is more than {MAX_DEPTH} folders deep")
            return
        for entry in self.entries(folder):
            path = Path(entry.path)
            name = f"{shown}/{entry.name}" if shown else self.name(path)
            if entry.is_dir(follow_symlinks=False):
                yield from self.below(path, person, name, depth + 1, rank)
            elif archive.is_archive(path):
                inner = self.unpack(path, name)
                if inner is not None:
                    yield from self.below(inner, person, name, depth + 1, rank)
            else:
                yield self.file(path, person, inert(name), depth, rank)

    def file(
        self, path: Path, person: Person, shown: str, depth: int, rank: tuple[int, ...] = (), name: str = ""
    ) -> _Found:
        try:
            changed = int(path.stat().st_mtime)
        except OSError:
            changed = 0
        _, copy = exercise_named(name or path.name, self.names)
        return _Found(person, path, shown, name or path.name, (*rank, -depth, copy, changed))

    def unpack(self, path: Path, shown: str) -> Path | None:
        """A student's own archive; one that cannot be read costs that student's files alone, and is named."""
        try:
            return _unpacked(path, self.scratch, shown, self.left)
        except UsageError as error:
            self.leave(path, str(error).removeprefix(f"{path}: "))
            return None


def _by_student(walk: _Walk) -> Iterator[_Found]:
    """DIR/alice/softmax.py, at any depth below the student; or DIR/alice.zip."""
    for entry in walk.entries(walk.root):
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from walk.below(path, Person(_key(entry.name)))
        elif archive.is_archive(path):
            inner = walk.unpack(path, walk.name(path))
            if inner is not None:
                yield from walk.below(inner, Person(_key(archive.stem(path))), walk.name(path))
        elif path.suffix in SUFFIXES:
            walk.leave(path, "it stands in no student's folder")


def _by_exercise(walk: _Walk) -> Iterator[_Found]:
    """DIR/softmax/alice.py."""
    for entry in walk.entries(walk.root):
        path = Path(entry.path)
        if not entry.is_dir(follow_symlinks=False):
            continue
        if entry.name not in walk.names:
            walk.leave(path, "no exercise has this name")
            continue
        for inner in walk.entries(path):
            file = Path(inner.path)
            if inner.is_dir(follow_symlinks=False):
                found = list(walk.below(file, Person(_key(inner.name))))
                yield from (replace(each, exercise=entry.name) for each in found if each.path.suffix in SUFFIXES)
            elif file.suffix in SUFFIXES:
                person = Person(_key(file.stem))
                yield replace(walk.file(file, person, walk.name(file), 0), exercise=entry.name)
            else:
                walk.leave(file, "it is no .py or .ipynb file")


def _canvas(walk: _Walk) -> Iterator[_Found]:
    """A Canvas download of one assignment: flat, each name with the student's id; a later attachment counts."""
    for entry in walk.entries(walk.root):
        path = Path(entry.path)
        match = _CANVAS.fullmatch(entry.name)
        if match is None or entry.is_dir(follow_symlinks=False):
            walk.leave(path, "its name is none that Canvas gives")
            continue
        person = Person(_key(f"{match['who']}_{match['id']}"), match["who"], {"canvas": match["id"]})
        attachment = int(match["attachment"])
        if archive.is_archive(path):
            inner = walk.unpack(path, walk.name(path))
            if inner is not None:
                yield from walk.below(inner, person, walk.name(path), 1, (attachment,))
        else:
            yield walk.file(path, person, walk.name(path), 0, (attachment,), match["file"])


def _moodle(walk: _Walk) -> Iterator[_Found]:
    """A Moodle download: a folder per student, or flat."""
    for entry in walk.entries(walk.root):
        path = Path(entry.path)
        match = _MOODLE.fullmatch(entry.name)
        if match is None:
            walk.leave(path, "its name is none that Moodle gives")
            continue
        person = Person(_key(f"{match['name']}_{match['id']}"), match["name"], {"moodle": match["id"]})
        if entry.is_dir(follow_symlinks=False):
            yield from walk.below(path, person)
        elif archive.is_archive(path):
            inner = walk.unpack(path, walk.name(path))
            if inner is not None:
                yield from walk.below(inner, person, walk.name(path))
        else:
            yield walk.file(path, person, walk.name(path), 0, (), match["file"])


def _gradescope(walk: _Walk) -> Iterator[_Found]:
    """A Gradescope export: submission_123/ folders, their people in ``submission_metadata.yml``; a group is each of its members."""
    path = walk.root / METADATA
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_Lenient)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: it cannot be read ({error})", "export the submissions again") from None
    told = data if isinstance(data, dict) else {}
    for entry in walk.entries(walk.root):
        folder = Path(entry.path)
        if not entry.is_dir(follow_symlinks=False):
            continue
        about = told.get(entry.name)
        people = about.get(":submitters", about.get("submitters")) if isinstance(about, dict) else None
        submitters = [one for one in people or () if isinstance(one, dict)]
        if not submitters:
            walk.leave(folder, f"{METADATA} names nobody for it")
            continue
        files = list(walk.below(folder, Person("")))
        for one in submitters:
            known = {str(key).lstrip(":"): str(value) for key, value in one.items() if value is not None}
            name, email = known.get("name", ""), known.get("email", "")
            key = _key(known.get("sid") or email or name or entry.name)
            ids = {k: v for k, v in (("email", email), ("sis", known.get("sid", ""))) if v}
            person = Person(key, inert(name), {**ids, "gradescope": entry.name.rpartition("_")[2]})
            yield from (replace(file, person=person) for file in files)


class _Lenient(yaml.SafeLoader):
    """Reads tags of other languages as the plain values they stand before."""


def _as_plain(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_scalar(node)  # type: ignore[arg-type]


_Lenient.add_multi_constructor("!", _as_plain)


def _from_manifest(path: Path, names: Sequence[str]) -> Iterator[_Found]:
    """Rows of student, exercise and path (and name and ids where known), from CSV or YAML."""
    for line, row in _rows(path):
        where = f"{path}:{line}" if line else str(path)
        missing = [key for key in ("student", "exercise", "path") if not str(row.get(key) or "").strip()]
        unknown = sorted(set(row) - {"student", "exercise", "path", "name", *MANIFEST_IDS})
        if missing or unknown:
            said = [f"`{key}` is missing" for key in missing] + [f"`{key}` is no column" for key in unknown]
            columns = ", ".join(("student", "exercise", "path", "name", *MANIFEST_IDS))
            raise UsageError(f"{where}: {'; '.join(said)}", f"columns are {columns}; the first three are needed")
        exercise = str(row["exercise"]).strip()
        if exercise not in names:
            raise UsageError(f"{where}: there is no exercise `{exercise}`", "grade lists the exercises")
        ids = {key: str(row[key]).strip() for key in MANIFEST_IDS if str(row.get(key) or "").strip()}
        person = Person(_key(str(row["student"]).strip()), inert(str(row.get("name") or "").strip()), ids)
        shown = str(row["path"]).strip()
        yield _Found(person, path.parent / shown, inert(shown), Path(shown).name, (line,), exercise)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if path.suffix.lower() in (".yaml", ".yml"):
        found = document.read(path)
        if found.findings:
            raise UsageError("\n".join(map(str, found.findings)), "mend the manifest")
        if not isinstance(found.data, list) or not all(isinstance(row, dict) for row in found.data):
            raise UsageError(f"{path}: it is no list of mappings", "- {student: …, exercise: …, path: …}")
        for number, row in enumerate(found.data):
            yield found.place((number,))[0], row
        return
    try:
        text = path.read_text(encoding="utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        for row in reader:
            if None in row:
                raise UsageError(f"{path}:{reader.line_num}: more fields than the first line names", "quote commas")
            yield reader.line_num, {str(key).strip().lower(): value for key, value in row.items()}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: it cannot be read ({error})", "give a CSV or YAML file in UTF-8") from None
    except csv.Error as error:
        raise UsageError(f"{path}: it is no CSV ({error})", 'separate by commas and quote with "') from None


# --- what is taken ----------------------------------------------------------------------------------------------------


def _chosen(
    found: list[_Found], names: Sequence[str], only: Sequence[str], left: list[Left], layout: str
) -> Collection:
    """One file per student and exercise: the latest attempt, the shallowest, the last copy; the others are named."""
    best: dict[tuple[str, str], _Found] = {}
    named: list[_Found] = []
    beaten: list[tuple[tuple[str, str], _Found]] = []
    odd: dict[str, list[_Found]] = {}
    for each in found:
        exercise = each.exercise or exercise_named(each.name, names)[0]
        if exercise is not None:
            named.append(replace(each, exercise=exercise))
        elif os.path.splitext(each.name)[1].lower() in SUFFIXES:
            odd.setdefault(each.person.key, []).append(each)
        else:
            left.append(Left(each.shown, "it is no .py or .ipynb file"))
    for each in named:
        assert each.exercise is not None
        if only and each.exercise not in only:
            continue
        key = (each.person.key, each.exercise)
        other = best.get(key)
        if other is None or (each.rank, each.shown) > (other.rank, other.shown):
            best[key] = each
            if other is not None:
                beaten.append((key, other))
        else:
            beaten.append((key, each))
    left.extend(Left(loser.shown, f"{best[key].shown} counts for {key[1]}") for key, loser in beaten)
    for who, files in odd.items():
        # One exercise is asked for and one file was handed in: there is nothing else that it could be.
        alone = len(only) == 1 and len(files) == 1 and (who, only[0]) not in best
        if alone:
            best[who, only[0]] = replace(files[0], exercise=only[0])
        else:
            left.extend(Left(each.shown, "it is named after no exercise") for each in files)
    handed = tuple(
        Handed(each.person, each.exercise or "", each.path, each.shown)
        for _, each in sorted(best.items(), key=lambda pair: (names.index(pair[0][1]), pair[0][0]))
    )
    return Collection(handed, tuple(left), layout)


def _layout_of(root: Path, names: Sequence[str]) -> str:
    try:
        entries = [entry for entry in root.iterdir() if not entry.name.startswith(".")]
    except OSError as error:
        raise UsageError(f"{root}: it cannot be read: {error.strerror}", "grader batch DIR") from None
    if (root / METADATA).is_file():
        return "gradescope"
    if any(_MOODLE.fullmatch(entry.name) for entry in entries):
        return "moodle"
    if any(_CANVAS.fullmatch(entry.name) for entry in entries if entry.is_file()):
        return "canvas"
    if any(entry.name in names for entry in entries if entry.is_dir()):
        return "exercises"
    return "students"


def _inside_wrapper(root: Path, names: Sequence[str]) -> Path:
    """The folder that holds the submissions, where a download has one folder around everything."""
    for _ in range(3):
        try:
            entries = [
                entry for entry in root.iterdir() if not entry.name.startswith(".") and entry.name not in archive.NOISE
            ]
        except OSError:
            return root
        if len(entries) != 1 or not entries[0].is_dir() or entries[0].is_symlink():
            return root
        inner = entries[0]
        if inner.name in names or _MOODLE.fullmatch(inner.name):
            return root
        inside = list(inner.iterdir())
        submissions = any(exercise_named(entry.name, names)[0] for entry in inside if entry.is_file())
        if submissions and not any(_CANVAS.fullmatch(entry.name) for entry in inside):
            # One student, rather than a folder around many.
            return root
        if not any(entry.is_dir() or archive.is_archive(entry) or _CANVAS.fullmatch(entry.name) for entry in inside):
            return root
        root = inner
    return root


def _unpacked(path: Path, scratch: Path, shown: str, left: list[Left]) -> Path:
    target = scratch / f"{len(list(scratch.iterdir())):06d}"
    target.mkdir()
    left.extend(Left(f"{shown}/{one.name}" if shown else one.name, one.why) for one in archive.unpack(path, target))
    return target


def _key(name: str) -> str:
    """A student's name in the store: one spelling, and nothing a terminal would act on."""
    return inert(unicodedata.normalize("NFC", os.fsdecode(os.fsencode(name)))).strip() or "?"
