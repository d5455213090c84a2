"""docs/adding-an-exercise.md, followed to the letter: its files are written and its commands run, in its order.

A block after a line such as `` `path/to/file`: `` is that file. In a ``console`` block, lines with ``$`` are commands, and
every other line must appear in what the command prints, in order.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import BIN, ROOT

PAGE = ROOT / "docs" / "adding-an-exercise.md"
_BLOCK = re.compile(
    r"(?:^`(?P<path>[^`\n]+)`:\n\n)?^(?P<fence>````?)(?P<language>\w*)\n(?P<body>.*?)^(?P=fence)$", re.M | re.S
)


@dataclass(frozen=True)
class Step:
    """A file to write (``path``), or a command with the lines it must print."""

    text: str
    path: str | None = None
    printed: tuple[str, ...] = ()


def steps() -> list[Step]:
    found = []
    for block in _BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        if block["path"] is not None:
            found.append(Step(block["body"], block["path"]))
            continue
        assert block["language"] == "console", f"a block that is neither a file nor commands: {block[0][:60]}"
        for command in re.split(r"^\$ ", block["body"], flags=re.M)[1:]:
            line, _, printed = command.partition("\n")
            found.append(Step(line, None, tuple(filter(None, (text.strip() for text in printed.splitlines())))))
    return found


def script(followed: list[Step]) -> str:
    """The whole page as one shell script, so that `cd` and `$?` mean what they mean to its reader."""
    lines = []
    for number, step in enumerate(followed):
        if step.path is not None:
            lines += [f"cat > {step.path} <<'END_OF_FILE'", step.text + "END_OF_FILE"]
        else:
            lines += [f"status=$?; echo '@@@ {number}'; (exit $status)", f"{step.text} 2>&1"]
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_the_page_is_followed_to_the_letter(tmp_path: Path) -> None:
    followed = steps()
    environment = {
        **{key: value for key, value in os.environ.items() if key not in ("COLUMNS", "FORCE_COLOR")},
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "TENSORGRADE_STATE": str(tmp_path / "state.json"),
        "COLUMNS": "100",
    }
    done = subprocess.run(
        ["bash"], input=script(followed), cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900
    )
    parts = re.split(r"^@@@ (\d+)\n", done.stdout, flags=re.M)
    printed = dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))
    for number, step in enumerate(followed):
        if step.path is not None:
            continue
        rest = printed[number]
        for line in step.printed:
            assert line in rest, f"$ {step.text}\ndoes not print (in this order): {line}\nbut:\n{printed[number]}"
            rest = rest[rest.index(line) + len(line) :]
    assert done.stderr == ""


def test_the_page_has_files_and_commands() -> None:
    followed = steps()
    paths = [step.path for step in followed if step.path is not None]
    assert len(paths) == len(set(paths)) >= 7
    commands = " ".join(step.text for step in followed if step.path is None)
    for command in ("grader new", "grade cosine_similarity", "grader lint", "--start", "--hint"):
        assert command in commands
