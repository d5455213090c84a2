"""Whether something of a reference stands in a kit: for a test of a few exercises, and for a kit of all of them."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from pathlib import Path

from conftest import ROOT

from grader import diagnose
from grader.spec import load
from grader.spec.library import find_library

# What a student reads of a misconception is in a kit on purpose; imports stand in any file.
COMMON = re.compile(r"(-?\s*id|says|help|equals):|import |from |\"\"\"")
SHORT = 12


def lines_of(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines()}


def search(kit: Path, names: Iterable[str]) -> tuple[int, list[str]]:
    """(how many lines of references and patches were looked for, those that stand in some file of the kit).

    A line is not looked for where it is something that students are given: it stands in the statement, the stub or the file of
    some exercise among ``names``, or in what is said of a mistake. Records are unpacked first.
    """
    held = b"\n".join(
        zlib.decompress(path.read_bytes()) if path.suffix == ".bin" else path.read_bytes()
        for path in kit.rglob("*")
        if path.is_file()
    )
    library = find_library(start=ROOT)
    assert library.reference is not None
    searched, leaked = 0, []
    folders = {name: folder for name in names if (folder := library.find(name)) is not None}
    seen = ""
    for name, folder in folders.items():
        for path in (folder / "README.md", folder / f"{name}.py", folder / "exercise.yaml"):
            seen += path.read_text(encoding="utf-8")
        for entry in diagnose.read(load.load(library, name)):
            seen += f"\n{entry.says}\n{entry.help}"
    for name, folder in folders.items():
        for source in sorted((library.reference / folder.parent.name / name).glob("*")):
            if source.suffix not in (".py", ".yaml"):
                continue
            for line in sorted(lines_of(source.read_text(encoding="utf-8"))):
                if len(line) < SHORT or COMMON.match(line) or line in seen:
                    continue
                searched += 1
                if line.encode() in held:
                    leaked.append(f"{name}: {line}")
    return searched, leaked
