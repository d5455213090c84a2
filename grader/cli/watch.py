"""``grade EXERCISE --watch``: grade again at every save, with everything warm."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader import progress
from grader.cli import frame
from grader.errors import TensorgradeError, UsageError
from grader.model import Report
from grader.sandbox.launch import Zygote
from grader.spec.exercise import Exercise
from grader.spec.library import Library

KEYS = "r rerun   h hint   s statement   a all checks   q quit"
# Looked at so often whatever the file system tells: some tell nothing.
LOOK_SECONDS = 1.0
# Many small writes are one save.
SETTLE_SECONDS = 0.02
SETTLE_TRIES = 50
MAX_TITLES = 6
# File systems of other machines and of hosts, where the kernel sees only its own changes.
REMOTE = ("nfs", "cifs", "smb", "9p", "fuse", "vboxsf", "virtiofs", "afs", "ceph", "drvfs", "prl_fs")


@dataclass(frozen=True)
class Look:
    """A file as it was when last looked at; ``stamp`` is None where there was none."""

    stamp: tuple[int, int, int] | None

    @classmethod
    def at(cls, path: Path) -> Look:
        try:
            info = path.stat()
        except OSError:
            return cls(None)
        return cls((info.st_ino, info.st_size, info.st_mtime_ns))


def watch(
    exercise: Exercise, path: Path, library: Library, zygote: Zygote | None, verbose: bool, options: dict[str, Any]
) -> int:
    """Grade at every save until ``q`` or an interrupt; returns the exit code of the last report."""
    from grader.session import Session

    for name in ("json_path", "html_path", "format_name", "save_case", "case"):
        if options[name] is not None:
            raise UsageError(
                "--watch shows results in the terminal, and nothing else", f"grade {exercise.name} --watch"
            )
    console = frame.console()
    framework = exercise.spec.framework if zygote is not None else ""
    session = Session(options["runner"], options["isolation"], zygote, framework)
    watcher = _Watcher(exercise, path, library, session, console, verbose, options)
    try:
        return watcher.run()
    finally:
        session.close()


class _Watcher:
    def __init__(
        self,
        exercise: Exercise,
        path: Path,
        library: Library,
        session: Any,
        console: Any,
        verbose: bool,
        options: dict[str, Any],
    ) -> None:
        from grader.grade import Options, fresh_seed

        self._exercise, self._path, self._library = exercise, path, library
        self._session, self._console, self._verbose = session, console, verbose
        # One seed for all runs: what changes between two is the student's doing.
        seed = fresh_seed(exercise) if options["seed"] is None else options["seed"]
        self._options = Options(seed, options["cases"], None, options["time_limit"], options["memory_limit"])
        self._events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._last: Report | None = None
        self._graded_sha: str | None = None
        self._running = False
        self._again = False
        self._missing = False

    def run(self) -> int:
        told = self._path if self._path.is_absolute() else Path(os.path.relpath(self._path))
        self._console.print(f"watching {told}", style="bold")
        polling = sends_no_events(self._path.parent)
        if polling:
            self._console.print(
                f"this file system ({polling}) does not tell of changes: looking once a second", style="dim"
            )
        stopping = threading.Event()
        if not polling:
            threading.Thread(target=self._listen, args=(stopping,), daemon=True).start()
        seen = Look.at(self._path)
        silent = bool(polling)
        self._begin()
        try:
            with _single_keys(self._events, stopping) as interactive:
                if interactive:
                    self._console.print(KEYS, style="dim")
                while True:
                    try:
                        kind, value = self._events.get(timeout=LOOK_SECONDS)
                    except queue.Empty:
                        kind, value = "look", None
                    if kind == "key" and value == "q":
                        break
                    if kind == "key":
                        self._key(value)
                    elif kind == "done":
                        self._show(value)
                    else:
                        now = Look.at(self._path)
                        if kind == "look" and now != seen and not silent and not self._running:
                            silent = True
                            self._console.print(
                                "no word of a change came from the file system: looking once a second", style="dim"
                            )
                        changed, seen = now != seen, now
                        if changed:
                            self._begin()
        except KeyboardInterrupt:
            self._console.print()
        finally:
            stopping.set()
        return self._code()

    def _code(self) -> int:
        if self._last is None:
            return 0
        if self._last.status != "graded":
            return 3
        return 0 if self._last.passed else 1

    def _listen(self, stopping: threading.Event) -> None:
        from watchfiles import watch as changes

        try:
            # The folder, because editors save by writing another file and renaming it.
            for _ in changes(
                self._path.parent,
                watch_filter=self._is_ours,
                stop_event=stopping,
                step=10,
                debounce=100,
                recursive=False,
                raise_interrupt=False,
            ):
                self._events.put(("saved", None))
        except Exception:
            # Too many watches, or a folder that vanished: it is looked at once a second all the same.
            return

    def _is_ours(self, change: Any, name: str) -> bool:
        return os.path.basename(name) == self._path.name

    def _begin(self, again: bool = False) -> None:
        """Grade what is there now, unless a run is on: then once more after it."""
        from grader.submission import read_submission

        if self._running:
            self._again = True
            return
        if not self._settled():
            if not self._missing:
                how = "is gone" if self._graded_sha is not None else "is not there yet"
                self._console.print(f"{self._path.name} {how}; waiting for it", style="yellow")
            self._missing = True
            return
        self._missing = False
        handed_in = read_submission(self._path)
        if handed_in.sha256 is not None and handed_in.sha256 == self._graded_sha and not again:
            # Saved without a change.
            return
        self._graded_sha = handed_in.sha256
        self._running = True

        def work() -> None:
            try:
                report: Any = self._session.grade(self._exercise, handed_in, self._options)
            except TensorgradeError as error:
                report = error
            except BaseException as error:
                report = error
            self._events.put(("done", report))

        threading.Thread(target=work, daemon=True).start()

    def _settled(self) -> bool:
        """Whether the file is there and has stopped changing; one that goes on changing is taken as it is."""
        before = Look.at(self._path)
        for _ in range(SETTLE_TRIES):
            if before.stamp is not None and time.time_ns() - before.stamp[2] > SETTLE_SECONDS * 1e9:
                return True
            time.sleep(SETTLE_SECONDS)
            now = Look.at(self._path)
            if now == before and now.stamp is not None:
                return True
            before = now
        return before.stamp is not None

    def _show(self, report: Any) -> None:
        from grader.cli.student import after
        from grader.reports import terminal

        self._running = False
        if isinstance(report, BaseException):
            text = (
                str(report)
                if isinstance(report, TensorgradeError)
                else f"the grader failed: {type(report).__name__}: {report}"
            )
            self._console.print(text, style="magenta", soft_wrap=True)
        else:
            self._console.rule(time.strftime("%H:%M:%S"), style="dim")
            before, self._last = self._last, report
            for line, style in changes_between(before, report):
                self._console.print(line, style=style)
            terminal.render(report, self._console, self._verbose)
            if report.passed:
                progress.remember_pass(self._exercise.name)
            after(report, self._exercise, self._library, self._console)
        if self._again:
            self._again = False
            self._begin()

    def _key(self, key: str) -> None:
        from grader.cli.student import show_hint, show_statement
        from grader.reports import terminal

        if key == "r":
            self._begin(again=True)
        elif key == "h":
            with contextlib.suppress(UsageError):
                show_hint(self._exercise)
        elif key == "s":
            show_statement(self._exercise)
        elif key == "a" and self._last is not None:
            terminal.render(self._last, self._console, verbose=True)
        elif key in "?\n\r":
            self._console.print(KEYS, style="dim")


def changes_between(before: Report | None, after: Report) -> Iterator[tuple[str, str]]:
    """What two runs differ in, as (line, style): checks that pass now, and checks that do not any more."""
    if before is None or after.status != "graded" or before.status != "graded":
        return
    old = {check.id: check.verdict == "pass" for check in before.checks}
    new = {check.id: check for check in after.checks}
    passing = [check.title for check in new.values() if check.verdict == "pass" and old.get(check.id) is False]
    failing = [check.title for check in new.values() if check.verdict != "pass" and old.get(check.id) is True]
    if passing:
        yield f"now passing: {_some(passing)}", "green"
    if failing:
        yield f"now failing: {_some(failing)}", "red"
    if not passing and not failing:
        yield "the same checks pass and fail as before", "dim"


def _some(titles: list[str]) -> str:
    if len(titles) <= MAX_TITLES:
        return " · ".join(titles)
    return " · ".join(titles[: MAX_TITLES - 1]) + f" · {len(titles) - MAX_TITLES + 1} more"


def sends_no_events(folder: Path) -> str:
    """The type of a file system that is known to tell nothing of others' changes, or an empty text."""
    if os.environ.get("WATCHFILES_FORCE_POLLING"):
        return "polling was asked for"
    try:
        here = os.stat(folder).st_dev
        wanted = f"{os.major(here)}:{os.minor(here)}"
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                fields = line.split()
                kind = fields[fields.index("-") + 1]
                if fields[2] == wanted and kind.startswith(REMOTE):
                    return kind
    except (OSError, ValueError, IndexError):
        pass
    return ""


@contextlib.contextmanager
def _single_keys(events: queue.SimpleQueue[tuple[str, Any]], stopping: threading.Event) -> Iterator[bool]:
    """Keys without Enter where standard input is a terminal, which is given back as it was."""
    try:
        import termios
        import tty

        number = sys.stdin.fileno()
        kept = termios.tcgetattr(number) if os.isatty(number) else None
    except (ImportError, OSError, ValueError):
        kept = None
    if kept is None:
        yield False
        return
    tty.setcbreak(number)

    def read() -> None:
        while not stopping.is_set():
            if select.select([number], [], [], 0.2)[0]:
                key = os.read(number, 1).decode("ascii", "replace")
                if not key:
                    return
                events.put(("key", key))

    threading.Thread(target=read, daemon=True).start()
    try:
        yield True
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, kept)
