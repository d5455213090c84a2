"""What a store keeps, and which of its results counts."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from grader.batch.store import Key, Store
from grader.errors import GraderFault, UsageError
from grader.grade import not_graded
from grader.model import Report
from grader.reports.entry import Person
from grader.submission import Submission


def report(score: float | None, exercise: str = "softmax") -> Report:
    base = not_graded(exercise, Submission("a.py", b"", "0" * 64), 7, "the reference died")
    if score is None:
        return base
    return replace(base, status="graded", score=score, max_score=2.0, passed=score == 2.0, reason=None)


def key(student: str = "alice", submission: str = "aa", exercise: str = "softmax", digest: str = "d1") -> Key:
    return Key(student, exercise, submission, digest, "g1", "{}")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "grades.sqlite", create=True)
    made.remember([Person("alice", "Alice", {"canvas": "4711"}), Person("bob")])
    return made


def add(store: Store, key: Key, score: float | None, run: int | None = None, round: int = 0) -> None:
    store.add(key, run or store.begin(7), round, f"{key.student}/softmax.py", report(score))


def score_of(store: Store, student: str = "alice") -> float | None:
    return store.counting()[student, "softmax"].score


def test_a_result_comes_back_whole(store: Store) -> None:
    wanted = report(1.0)
    store.add(key(), store.begin(7), 0, "alice/softmax.py", wanted)
    again = Store(store.path)
    entry = again.entries()[0]
    assert entry.report == wanted
    assert entry.person == Person("alice", "Alice", {"canvas": "4711"})
    assert (entry.attempts, entry.finished[-1]) == (1, "Z")


def test_the_latest_submission_counts_and_attempts_are_kept(store: Store) -> None:
    add(store, key(submission="aa"), 2.0)
    add(store, key(submission="bb"), 1.0)
    assert score_of(store) == 1.0
    assert [row.score for row in store.attempts("alice")] == [2.0, 1.0]
    assert store.entries()[0].attempts == 2


def test_a_failed_regrade_takes_nothing_away(store: Store) -> None:
    add(store, key(), 2.0)
    add(store, key(), None, round=1)
    assert score_of(store) == 2.0
    # With a changed exercise as well: the result of the old one stands until there is a new one.
    add(store, key(digest="d2"), None)
    assert score_of(store) == 2.0
    add(store, key(digest="d2"), 1.0, round=1)
    assert score_of(store) == 1.0


def test_a_new_submission_that_could_not_be_graded_is_no_old_score(store: Store) -> None:
    add(store, key(submission="aa"), 2.0)
    add(store, key(submission="bb"), None)
    row = store.counting()["alice", "softmax"]
    assert (row.status, row.score, row.submission) == ("not_graded", None, "bb")


def test_what_is_due(store: Store) -> None:
    assert store.round_of(key(), False, False) == 0
    add(store, key(), None)
    assert store.round_of(key(), False, False) is None
    assert store.round_of(key(), False, True) == 1
    add(store, key(), 2.0, round=1)
    assert store.round_of(key(), False, True) is None
    assert store.round_of(key(), True, False) == 2
    assert store.round_of(key(submission="bb"), False, False) == 0
    assert store.round_of(key(digest="d2"), False, False) == 0


def test_nobody_is_kept_twice(store: Store) -> None:
    add(store, key(), 2.0)
    with pytest.raises(GraderFault, match="UNIQUE"):
        add(store, key(), 2.0)
    assert len(store.attempts()) == 1


def test_changes_of_the_last_run(store: Store) -> None:
    first = store.begin(7)
    add(store, key("alice"), 1.0, first)
    add(store, key("bob"), 1.0, first)
    second = store.begin(7)
    add(store, key("alice", "bb"), 2.0, second)
    add(store, key("bob"), 1.0, second, round=1)
    changed = store.changes()
    assert [(c.student, c.before and c.before.score, c.after.score) for c in changed] == [("alice", 1.0, 2.0)]


def test_the_seed_is_drawn_once_and_can_be_chosen(store: Store) -> None:
    drawn = store.seed()
    assert Store(store.path).seed() == drawn
    assert store.seed(11) == 11
    assert Store(store.path).seed() == 11


def test_names_and_ids_are_kept_where_nothing_new_is_told(store: Store) -> None:
    store.remember([Person("alice", "", {"email": "a@example.org"})])
    assert store.people()["alice"] == Person("alice", "Alice", {"canvas": "4711", "email": "a@example.org"})


def test_one_process_writes_at_a_time(store: Store, tmp_path: Path) -> None:
    hold = "import sys; from pathlib import Path; from grader.batch.store import Store\nwith Store(Path(sys.argv[1])).writing(): print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(store.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ}
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(UsageError, match="another run is writing"), store.writing():
            pass
        # However it ends, its right ends with it.
        other.kill()
        other.wait()
    with store.writing():
        add(store, key(), 2.0)


def test_files_that_are_no_store_are_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, and longer than a header of one would be " * 20)
    with pytest.raises(UsageError, match="no store"):
        Store(text, create=True)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE theirs (x)")
    with pytest.raises(UsageError, match="another program"):
        Store(other, create=True)
    with pytest.raises(UsageError, match="no store of results here"):
        Store(tmp_path / "absent.sqlite")
    newer = tmp_path / "newer.sqlite"
    Store(newer, create=True).close()
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(UsageError, match="no store of this version"):
        Store(newer)


def test_a_damaged_report_is_the_stores_fault(store: Store) -> None:
    add(store, key(), 2.0)
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE results SET report = '{}'")
    with pytest.raises(GraderFault, match="stored report cannot be read"):
        store.entries()
