"""What the tests share: the real commands, warm runners, and the fixtures of the exercises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grader.sandbox.runner import Runner, make_runner
from grader.spec import load
from grader.spec.exercise import Exercise
from grader.spec.library import Library, find_library

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Ran:
    """A finished command."""

    code: int
    out: str
    err: str

    def report(self) -> dict[str, Any]:
        """Standard output as one JSON report."""
        found: dict[str, Any] = json.loads(self.out)
        return found


Command = Callable[..., Ran]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Runs ``grade`` or ``grader`` as a user would: in an empty folder, with a home of its own."""

    def run(name: str, *arguments: str | Path, cwd: Path | None = None, timeout: float = 240, **env: str) -> Ran:
        here = cwd or tmp_path
        environment = {
            **{key: value for key, value in os.environ.items() if key not in ("COLUMNS", "FORCE_COLOR", "NO_COLOR")},
            "TENSORGRADE_STATE": str(tmp_path / "state.json"),
            **env,
        }
        done = subprocess.run(
            [str(BIN / name), *map(str, arguments)],
            cwd=here,
            env=environment,
            capture_output=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture(autouse=True)
def torch_left_as_found() -> Iterator[None]:
    """A test that changes a setting of torch for the whole process fails itself rather than some later test."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None:
        assert torch.get_default_dtype() is torch.float32
        assert torch.is_grad_enabled()


@pytest.fixture(scope="session")
def library() -> Library:
    return find_library(start=ROOT)


@pytest.fixture(scope="session")
def exercise_of(library: Library) -> Callable[[str], Exercise]:
    known: dict[str, Exercise] = {}

    def find(name: str) -> Exercise:
        if name not in known:
            known[name] = load.load(library, name)
        return known[name]

    return find


@pytest.fixture(scope="session")
def warm() -> Iterator[Callable[[str], Runner]]:
    """One warm runner per framework for the whole session: real worker processes at the cost of a fork."""
    runners: dict[str, Runner] = {}

    def runner(framework: str) -> Runner:
        if framework not in runners:
            runners[framework] = make_runner("fork", framework)
        return runners[framework]

    yield runner
    for each in runners.values():
        each.close()
