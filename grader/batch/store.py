"""The results of a class in one SQLite file: every attempt kept, each durable the moment it exists.

One process writes at a time. A result is never replaced: grading again adds a row, and which row counts is worked out
when results are read, so that a run that fails can take nothing away.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grader.errors import GraderFault, UsageError
from grader.grade import SEED_LIMIT
from grader.model import Report
from grader.reports import record
from grader.reports.entry import Entry, Person

VERSION = 1
SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE people (key TEXT PRIMARY KEY, name TEXT NOT NULL, ids TEXT NOT NULL) STRICT;
CREATE TABLE runs (id INTEGER PRIMARY KEY, started TEXT NOT NULL, finished TEXT, seed INTEGER NOT NULL) STRICT;
CREATE TABLE results (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES runs (id),
    student TEXT NOT NULL REFERENCES people (key),
    exercise TEXT NOT NULL,
    submission TEXT NOT NULL,           -- SHA-256 of the file, or why it could not be read
    exercise_digest TEXT NOT NULL,
    grader_digest TEXT NOT NULL,
    settings TEXT NOT NULL,             -- seed and limits, as JSON
    round INTEGER NOT NULL,             -- 0, and one more each time the same is graded again on purpose
    path TEXT NOT NULL,
    status TEXT NOT NULL,
    passed INTEGER NOT NULL,
    score REAL,
    max_score REAL NOT NULL,
    finished TEXT NOT NULL,
    report TEXT NOT NULL,
    UNIQUE (student, exercise, submission, exercise_digest, grader_digest, settings, round)
) STRICT;
CREATE INDEX by_student ON results (student, exercise, id);
"""


@dataclass(frozen=True)
class Key:
    """What makes two gradings the same grading."""

    student: str
    exercise: str
    submission: str
    exercise_digest: str
    grader_digest: str
    settings: str


@dataclass(frozen=True)
class Row:
    """One result without its report."""

    id: int
    run: int
    student: str
    exercise: str
    submission: str
    path: str
    status: str
    passed: bool
    score: float | None
    max_score: float
    finished: str


@dataclass(frozen=True)
class Change:
    """What one student's result of one exercise was before the last run, and is now; None where there was none."""

    student: str
    exercise: str
    before: Row | None
    after: Row


class Store:
    """An open store; made when it does not exist and ``create`` is given."""

    def __init__(self, path: Path, create: bool = False) -> None:
        """Raises `UsageError` when there is no store or it is another program's file."""
        self.path = path
        if not create and not path.exists():
            raise UsageError(f"{path}: there is no store of results here", f"grader batch DIR --store {path}")
        try:
            self._db = sqlite3.connect(path, isolation_level=None, timeout=30)
            self._db.execute("PRAGMA foreign_keys = ON")
            found = self._db.execute("PRAGMA user_version").fetchone()[0]
            if found == 0 and create:
                self._make()
            elif found != VERSION:
                raise UsageError(
                    f"{path}: this is no store of this version (it says {found}, not {VERSION})", "name another --store"
                )
        except sqlite3.DatabaseError as error:
            raise _fault(path, error) from None

    def close(self) -> None:
        self._db.close()

    def _make(self) -> None:
        tables = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables:
            raise UsageError(f"{self.path}: this is another program's database", "name another --store")
        self._db.execute("PRAGMA journal_mode = WAL")
        # All of it or nothing: a store that was begun by a run that was killed is no store.
        with self._transaction():
            for statement in SCHEMA.split(";\n"):
                if statement.strip():
                    self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise _fault(self.path, error) from None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to add results, which one process has at a time; the kernel takes it back however that one ends."""
        fd = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise UsageError(
                f"{self.path}: another run is writing to this store", "wait until it has ended, or name another --store"
            ) from None
        try:
            # Durable before the next submission is begun: the log is synced at every commit.
            self._db.execute("PRAGMA synchronous = FULL")
            yield
        finally:
            os.close(fd)

    # --- writing ------------------------------------------------------------------------------------------------------

    def seed(self, wanted: int | None = None) -> int:
        """The seed that the whole class meets: ``wanted``, else the store's own, drawn when it has none."""
        found = self._db.execute("SELECT value FROM meta WHERE key = 'seed'").fetchone()
        if wanted is None:
            wanted = int(found[0]) if found is not None else secrets.randbelow(SEED_LIMIT)
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('seed', ?)", (str(wanted),))
        return wanted

    def begin(self, seed: int) -> int:
        """A new run's number."""
        with self._transaction():
            done = self._db.execute("INSERT INTO runs (started, seed) VALUES (?, ?)", (now(), seed))
        assert done.lastrowid is not None
        return done.lastrowid

    def end(self, run: int) -> None:
        with self._transaction():
            self._db.execute("UPDATE runs SET finished = ? WHERE id = ?", (now(), run))

    def remember(self, people: Sequence[Person]) -> None:
        """Names and ids of students; what is known is kept where nothing new is told."""
        with self._transaction():
            for person in people:
                known = self._db.execute("SELECT name, ids FROM people WHERE key = ?", (person.key,)).fetchone()
                ids = {**(json.loads(known[1]) if known else {}), **person.ids}
                name = person.name or (known[0] if known else "")
                row = (person.key, name, json.dumps(ids, sort_keys=True))
                self._db.execute(
                    "INSERT INTO people VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET name = excluded.name, ids = excluded.ids",
                    row,
                )

    def round_of(self, key: Key, regrade: bool, retry: bool) -> int | None:
        """Which round of this grading is due; None when it is done.

        ``regrade`` asks for one more in any case, ``retry`` where the grader failed so far.
        """
        rows = self._db.execute(
            "SELECT round, status FROM results WHERE student = ? AND exercise = ? AND submission = ?"
            " AND exercise_digest = ? AND grader_digest = ? AND settings = ?",
            (key.student, key.exercise, key.submission, key.exercise_digest, key.grader_digest, key.settings),
        ).fetchall()
        if not rows:
            return 0
        following: int = max(row[0] for row in rows) + 1
        failed = all(row[1] != "graded" for row in rows)
        return following if regrade or (retry and failed) else None

    def add(self, key: Key, run: int, round: int, path: str, report: Report) -> None:
        """Keep one result; it is on disk when this returns."""
        with self._transaction():
            self._db.execute(
                "INSERT INTO results (run, student, exercise, submission, exercise_digest, grader_digest, settings, round,"
                " path, status, passed, score, max_score, finished, report)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    run, key.student, key.exercise, key.submission, key.exercise_digest, key.grader_digest, key.settings,
                    round, path, report.status, int(report.passed), report.score, report.max_score, now(),
                    record.dump(report),
                ),
            )  # fmt: skip

    # --- reading ------------------------------------------------------------------------------------------------------

    def people(self) -> dict[str, Person]:
        rows = self._read("SELECT key, name, ids FROM people ORDER BY key")
        return {key: Person(key, name, json.loads(ids)) for key, name, ids in rows}

    def attempts(self, student: str | None = None, exercise: str | None = None) -> list[Row]:
        """Every result, oldest first."""
        return [
            row
            for row in self._rows()
            if (student is None or row.student == student) and (exercise is None or row.exercise == exercise)
        ]

    def counting(self, before_run: int | None = None) -> dict[tuple[str, str], Row]:
        """The result that counts for each student and exercise, as it stood before a run where one is named.

        The latest submission's latest graded result; where none of its results is graded, its latest. Which submission
        is the latest is told by when it was last graded: one that came back after others counts again.
        """
        latest: dict[tuple[str, str], Row] = {}
        for row in self._rows():
            if before_run is not None and row.run >= before_run:
                continue
            key = (row.student, row.exercise)
            kept = latest.get(key)
            same = kept is not None and kept.submission == row.submission
            if same and kept is not None and kept.status == "graded" and row.status != "graded":
                continue
            latest[key] = row
        return latest

    def last_run(self) -> int | None:
        rows = self._read("SELECT max(run) FROM results")
        number: int | None = rows[0][0]
        return number

    def changes(self) -> list[Change]:
        """What the last run that added results changed."""
        run = self.last_run()
        if run is None:
            return []
        before, after = self.counting(run), self.counting(run + 1)
        return [
            Change(*key, before.get(key), row)
            for key, row in sorted(after.items())
            if row.run == run and (before.get(key) is None or _differs(before[key], row))
        ]

    def report(self, row: Row) -> Report:
        return record.load(self._read("SELECT report FROM results WHERE id = ?", row.id)[0][0])

    def entries(self, student: str | None = None, exercise: str | None = None) -> list[Entry]:
        """What counts, with reports, by student and exercise."""
        people = self.people()
        count: dict[tuple[str, str], int] = {}
        for row in self._rows():
            count[row.student, row.exercise] = count.get((row.student, row.exercise), 0) + 1
        return [
            Entry(people[row.student], self.report(row), row.finished, count[key])
            for key, row in sorted(self.counting().items())
            if (student is None or row.student == student) and (exercise is None or row.exercise == exercise)
        ]

    def _rows(self) -> list[Row]:
        rows = self._read(
            "SELECT id, run, student, exercise, submission, path, status, passed, score, max_score, finished"
            " FROM results ORDER BY id"
        )
        return [replace(Row(*row), passed=bool(row[7])) for row in rows]

    def _read(self, query: str, *values: Any) -> list[Any]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise _fault(self.path, error) from None


def now() -> str:
    """UTC to the second, as ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _differs(before: Row, after: Row) -> bool:
    return (before.status, before.passed, before.score, before.submission) != (
        after.status,
        after.passed,
        after.score,
        after.submission,
    )


def _fault(path: Path, error: sqlite3.Error) -> GraderFault | UsageError:
    if isinstance(error, sqlite3.DatabaseError) and "not a database" in str(error):
        return UsageError(f"{path}: this is no store of results", "name another --store")
    return GraderFault(f"{path}: the store cannot be used ({error})", "make room, or name another --store")
