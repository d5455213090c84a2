"""Unpacking what people send as .zip or .tar.gz: regular files only, inside the folder given, and not without end."""

from __future__ import annotations

import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from grader.errors import UsageError

SUFFIXES = (".zip", ".tar.gz", ".tgz", ".tar")
# Far above any class, far below what fills a disk.
MAX_FILES = 20_000
MAX_BYTES = 1 << 30
MAX_FILE_BYTES = 64 << 20
MAX_DEPTH = 16
MAX_NAME = 200
CHUNK = 1 << 20
# What an archive holds that nobody handed in: resource forks, caches, version control.
NOISE = ("__MACOSX", "__pycache__", ".git", ".ipynb_checkpoints", ".venv")


@dataclass(frozen=True)
class Left:
    """A member that was not unpacked, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class _Member:
    name: str
    size: int
    what: str  # file, folder, or what else it is in words
    handle: Any


def is_archive(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES) and path.is_file() and not path.is_symlink()


def stem(path: Path) -> str:
    """The file name without its archive suffix."""
    name = path.name
    for suffix in SUFFIXES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return path.stem


def unpack(path: Path, target: Path) -> list[Left]:
    """Unpack ``path`` into the empty folder ``target``; returns what was left out.

    Sizes are counted as they are written: what an archive says of itself is not believed.

    Raises:
        UsageError: it is no archive, is damaged, or exceeds the caps on files, bytes or one file's bytes.
    """
    left: list[Left] = []
    written = files = 0
    taken: set[str] = set()
    try:
        with _opened(path) as (members, read):
            for number, member in enumerate(members):
                if number >= 2 * MAX_FILES:
                    raise UsageError(f"{path}: more than {2 * MAX_FILES} members", "unpack it by hand and look at it")
                if member.what == "folder":
                    continue
                why = _refused(member, taken)
                if why is not None:
                    if why:
                        left.append(Left(_printable(member.name), why))
                    continue
                files += 1
                if files > MAX_FILES:
                    raise UsageError(f"{path}: more than {MAX_FILES} files", "unpack it by hand and look at it")
                place = target.joinpath(*PurePosixPath(member.name).parts)
                place.parent.mkdir(parents=True, exist_ok=True)
                with read(member) as source, place.open("xb") as sink:
                    own = 0
                    while chunk := source.read(CHUNK):
                        own += len(chunk)
                        written += len(chunk)
                        if own > MAX_FILE_BYTES or written > MAX_BYTES:
                            raise UsageError(
                                f"{path}: {_printable(member.name)} unpacks to more than may be unpacked "
                                f"({MAX_FILE_BYTES >> 20} MB a file, {MAX_BYTES >> 20} MB in all)",
                                "unpack it by hand and look at it",
                            )
                        sink.write(chunk)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise UsageError(f"{path}: the archive cannot be read ({error})", "download it again") from None
    except OSError as error:
        # gzip and zlib report damage as OSError as well as what the disk says.
        raise UsageError(f"{path}: {error.strerror or error}", "download it again, or make room") from None
    return left


def _refused(member: _Member, taken: set[str]) -> str | None:
    """Why a member is left out ("" where nobody needs to be told); None for one to unpack."""
    parts = PurePosixPath(member.name.replace("\\", "/")).parts
    if any(part in NOISE or part.startswith("._") for part in parts):
        return ""
    if member.what != "file":
        return f"it is {member.what}"
    if member.name.startswith("/") or ".." in parts or "\\" in member.name or (parts and ":" in parts[0]):
        return "its path leads out of the archive"
    if (
        not parts
        or len(parts) > MAX_DEPTH
        or any(len(part.encode()) > MAX_NAME for part in parts)
        or "\0" in member.name
    ):
        return "its path is too long or too deep"
    # Twice under one name, or a file where another member needs a folder: the first one counts.
    name = "/".join(parts)
    above = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
    if name in taken or name + "/" in taken or above & taken:
        return "an earlier member has its name"
    taken.add(name)
    taken.update(folder + "/" for folder in above)
    return None


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Iterator[_Member], Callable[[_Member], IO[bytes]]]]:
    if path.name.lower().endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            yield _zip_members(archive), lambda member: archive.open(member.handle)
    else:
        with tarfile.open(path, "r:*") as archive:
            yield _tar_members(archive), lambda member: _content(archive, member)
            _insist_on_end(archive)


def _insist_on_end(archive: tarfile.TarFile) -> None:
    """Raises tarfile.ReadError when the end marker is missing: tarfile takes an archive that was cut off for one that ends."""
    assert archive.fileobj is not None
    archive.fileobj.seek(archive.offset)
    if archive.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("it ends too early")
    rest = 0
    # To the last byte, where a compressed file has its checksum.
    while chunk := archive.fileobj.read(CHUNK):
        rest += len(chunk)
        if rest > MAX_FILE_BYTES:
            raise tarfile.ReadError("much follows its end")


def _content(archive: tarfile.TarFile, member: _Member) -> IO[bytes]:
    file = archive.extractfile(member.handle)
    # Only asked for regular files, which always have content.
    assert file is not None
    return file


def _zip_members(archive: zipfile.ZipFile) -> Iterator[_Member]:
    for info in archive.infolist():
        mode = info.external_attr >> 16
        if info.is_dir():
            what = "folder"
        elif info.flag_bits & 1:
            what = "encrypted"
        elif mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            what = "a link" if stat.S_ISLNK(mode) else "no regular file"
        else:
            what = "file"
        yield _Member(info.filename, info.file_size, what, info)


def _tar_members(archive: tarfile.TarFile) -> Iterator[_Member]:
    for info in archive:
        what = (
            "folder"
            if info.isdir()
            else "file"
            if info.isreg()
            else "a link"
            if info.issym() or info.islnk()
            else "no regular file"
        )
        yield _Member(info.name, info.size, what, info)


def _printable(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:MAX_NAME]


__all__ = ["Left", "is_archive", "stem", "unpack"]
