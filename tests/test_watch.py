"""``grade EXERCISE --watch`` in a real terminal: saves of every kind, keys, and files that are not ready."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BIN, ROOT

RIGHT = next((ROOT / "fixtures" / "softmax" / "right").glob("*.py")).read_text()
WRONG = (
    "import numpy as np\n\n\ndef softmax(x, axis):\n    e = np.exp(x)\n    return e / e.sum(axis=axis, keepdims=True)\n"
)
SECONDS = 90.0


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, here: Path, *arguments: str, **more: str) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(here)
            environment = {
                **os.environ,
                "TENSORGRADE_STATE": str(here / "state.json"),
                "TERM": "xterm",
                "COLUMNS": "100",
                **more,
            }
            os.execve(str(BIN / "grade"), ["grade", *arguments], environment)
        self._text = ""
        self._at = 0

    def until(self, pattern: str) -> str:
        """Read on until ``pattern`` appears, and return everything up to its end."""
        deadline = time.monotonic() + SECONDS
        while True:
            match = re.compile(pattern).search(self._text, self._at)
            if match is not None:
                text, self._at = self._text[self._at : match.end()], match.end()
                return text
            assert time.monotonic() < deadline, f"no {pattern!r} in {self._text[self._at :]!r}"
            if select.select([self._fd], [], [], 0.2)[0]:
                try:
                    read = os.read(self._fd, 1 << 16)
                except OSError:
                    read = b""
                assert read, f"it ended before {pattern!r}: {self._text[self._at :]!r}"
                self._text += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", read.decode("utf-8", "replace")).replace(
                    "\r\n", "\n"
                )

    def press(self, key: str) -> None:
        os.write(self._fd, key.encode())

    def wait(self) -> int:
        deadline = time.monotonic() + SECONDS
        while True:
            # What is still printed has to be read, or the command waits for that.
            if select.select([self._fd], [], [], 0.05)[0]:
                try:
                    os.read(self._fd, 1 << 16)
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < deadline

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "softmax.py").write_text(WRONG)
    return tmp_path


@pytest.fixture
def terminal(here: Path) -> Iterator[Terminal]:
    made = Terminal(here, "softmax", "--watch", "--seed", "5")
    yield made
    made.close()


def test_saves_of_every_kind(here: Path, terminal: Terminal) -> None:
    assert "scores up to 1e4" in terminal.until(r"not passed   \d+ of")
    file = here / "softmax.py"
    # As an editor does that writes another file and renames it.
    (here / ".softmax.py.swp").write_text(RIGHT)
    os.replace(here / ".softmax.py.swp", file)
    text = terminal.until(r"\npassed   \d+ of")
    # First what changed.
    assert text.index("now passing: scores up to 1e4") < text.index("softmax   softmax.py")
    # As one that writes in place.
    file.write_text(WRONG)
    assert "now failing: scores up to 1e4" in terminal.until(r"not passed   \d+ of")
    file.unlink()
    terminal.until("softmax.py is gone; waiting for it")
    file.write_text("def softmax(x, axis):\n    return (")
    assert "could not be loaded" in terminal.until(r"not passed   0 of")
    file.write_text(RIGHT)
    terminal.until(r"\npassed   \d+ of")
    terminal.press("q")
    assert terminal.wait() == 0
    assert file.read_text() == RIGHT and not (here / "__pycache__").exists()


def test_a_loop_without_end_is_survived_and_the_next_save_is_graded(here: Path, terminal: Terminal) -> None:
    terminal.until(r"not passed   \d+ of")
    (here / "softmax.py").write_text("def softmax(x, axis):\n    while True:\n        pass\n")
    # Saved again while the loop runs: there are never two runs at once, and the last save is graded.
    time.sleep(1)
    (here / "softmax.py").write_text(RIGHT)
    assert "time limit" in terminal.until(r"not passed   0 of")
    terminal.until(r"\npassed   \d+ of")


def test_keys(here: Path, terminal: Terminal) -> None:
    terminal.until(r"not passed   \d+ of")
    terminal.press("h")
    terminal.until("hint 1 of 3")
    terminal.press("h")
    terminal.until("hint 2 of 3")
    terminal.press("s")
    terminal.until("softmax")
    terminal.press("a")
    terminal.until(r"not passed   \d+ of")
    terminal.press("r")
    assert "the same checks pass and fail as before" in terminal.until(r"not passed   \d+ of")
    terminal.press("q")
    assert terminal.wait() == 1


def test_an_interrupt_ends_it_and_leaves_the_terminal_as_it_was(here: Path, terminal: Terminal) -> None:
    import termios

    before = termios.tcgetattr(terminal._fd)[3] & (termios.ICANON | termios.ECHO)
    terminal.until(r"not passed   \d+ of")
    os.kill(terminal.pid, signal.SIGINT)
    assert terminal.wait() == 1
    assert termios.tcgetattr(terminal._fd)[3] & (termios.ICANON | termios.ECHO) == before


def test_a_file_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "softmax", "--watch")
    try:
        terminal.until("softmax.py is not there yet; waiting for it")
        (tmp_path / "softmax.py").write_text(RIGHT)
        terminal.until(r"\npassed   \d+ of")
    finally:
        terminal.close()


def test_where_no_events_come_it_looks_once_a_second_and_says_so(here: Path) -> None:
    terminal = Terminal(here, "softmax", "--watch", WATCHFILES_FORCE_POLLING="1")
    try:
        terminal.until("looking once a second")
        terminal.until(r"not passed   \d+ of")
        (here / "softmax.py").write_text(RIGHT)
        terminal.until(r"\npassed   \d+ of")
    finally:
        terminal.close()


def test_reports_for_programs_are_not_for_watching(command: object, here: Path) -> None:
    done = command("grade", "softmax", "--watch", "--json", "x.json", cwd=here)  # type: ignore[operator]
    assert done.code == 2 and "--watch" in done.err
