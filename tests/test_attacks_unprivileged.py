"""The attacks once more, graded by a user without any privilege: only what such a user may set up holds, and it must do."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import ordinary_user
import pytest
from conftest import ROOT
from test_attacks import ATTACKS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("way", ["fork", "exec"])
def test_attacks_as_an_ordinary_user(tmp_path: Path, way: str) -> None:
    """Under exec the kinds that tell the two ways apart; what a file contains or returns is read by the same code."""
    kinds = [] if way == "fork" else ["files", "forging", "network", "processes"]
    run = [sys.executable, str(ROOT / "benchmarks" / "attacks.py"), "--runner", way, *kinds]
    try:
        command = ordinary_user.command(run, tmp_path)
    except LookupError as reason:
        pytest.skip(str(reason))
    done = subprocess.run(command, cwd="/", capture_output=True, stdin=subprocess.DEVNULL, text=True, timeout=3000)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    count = sum(not kinds or path.parent.name in kinds for path in ATTACKS)
    assert re.search(
        rf"^{count} files .*: 0 passed, 0 grader faults, 0 traces, 0 complaints$", done.stdout, re.MULTILINE
    )
