"""``grader batch``, ``results`` and ``export`` through the real command: a class, killed and continued, and a cluster."""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from classroom import cluster, count, hand_in, kill_and_go_on, start_batch, stored
from conftest import ROOT, Command

FIXTURES = ROOT / "fixtures"


def test_a_class_from_beginning_to_end(command: Command, tmp_path: Path) -> None:
    expected = hand_in(tmp_path / "in", 5)
    (tmp_path / "in" / "student00" / "notes.txt").write_text("hello")
    (tmp_path / "in" / "student01" / "softmax.py").write_text("import os\nos._exit(0)\n")
    expected["student01", "softmax"] = False
    done = command("grader", "batch", "in", "--jobs", "2")
    assert done.code == 0, done.err
    assert "15 submissions by 5 students to 3 exercises (layout: students)" in done.out
    assert "not taken: student00/notes.txt" in done.out
    rows = stored(tmp_path / "grades.sqlite")
    assert {(who, name): json.loads(report)["passed"] for who, name, _, _, report in rows} == expected
    # Everyone met the same cases.
    assert len({json.loads(report)["seed"] for *_, report in rows}) == 1

    again = command("grader", "batch", "in")
    assert (again.code, "15 already in the store, 0 to grade" in again.out) == (0, True)

    # A new file of one student is graded, and nothing else.
    shutil.copyfile(next((FIXTURES / "softmax" / "right").glob("*.py")), tmp_path / "in" / "student01" / "softmax.py")
    changed = command("grader", "batch", "in")
    assert "14 already in the store, 1 to grade" in changed.out
    told = command("grader", "results", "--changes")
    assert [line.split()[:2] for line in told.out.splitlines()] == [["student01", "softmax"]]
    assert "→  ✓" in told.out

    table = command("grader", "results")
    assert table.out.splitlines()[0].split() == ["student", "layer_norm", "scaled_dot_product_attention", "softmax"]
    one = command("grader", "results", "--student", "student01")
    assert one.out.count("← counts") == 3 and one.out.count("student01/softmax.py") >= 2
    assert command("grader", "results", "--exercise", "layer_norm").out.count("student0") == 5
    wrong = command("grader", "results", "--student", "student1")
    assert wrong.code == 2 and "did you mean" in wrong.err
    rows_again = json.loads(command("grader", "results", "--json", "-").out)
    assert len(rows_again) == 15 and {"student", "exercise", "score", "passed"} <= set(rows_again[0])

    regraded = command("grader", "batch", "in", "--regrade", "--only", "student02", "--exercise", "softmax")
    assert "graded: " in regraded.out and "1/1" in regraded.out
    before, after = [row for row in stored(tmp_path / "grades.sqlite") if row[:2] == ("student02", "softmax")]
    assert before == after


def test_exports_of_a_class(command: Command, tmp_path: Path) -> None:
    hand_in(tmp_path / "in", 3, ("softmax", "layer_norm"), seed=1)
    assert command("grader", "batch", "in", "--seed", "123454321").code == 0
    table = command("grader", "export", "--format", "csv")
    lines = list(csv.DictReader(io.StringIO(table.out)))
    assert len(lines) == 6 and {line["student"] for line in lines} == {"student00", "student01", "student02"}
    done = command("grader", "export", "--format", "gradescope", "--output", "out")
    assert done.code == 0, done.err
    for number in range(3):
        body = json.loads((tmp_path / "out" / f"student{number:02d}" / "results.json").read_text())
        own = [line for line in lines if line["student"] == f"student{number:02d}"]
        assert body["score"] == pytest.approx(sum(float(line["score"]) for line in own))
        # One secret seed is shared: what a student is shown leads to no case.
        assert "123454321" not in json.dumps(body)
    staff = command("grader", "export", "--format", "json", "--for", "staff")
    assert "123454321" in staff.out
    assert "123454321" not in command("grader", "export", "--format", "json").out
    page = command("grader", "export", "--format", "html", "--output", "class.html", "--for", "staff")
    assert page.code == 0 and "student01" in (tmp_path / "class.html").read_text()
    (tmp_path / "book.csv").write_text("Student,ID,SIS User ID,SIS Login ID,Section\nOne,4711,,student01,A\n")
    book = command("grader", "export", "--format", "canvas-csv", "--roster", "book.csv", "--assignment", "HW (1)")
    assert book.code == 0 and "student01" in book.out
    # Who has no line in the gradebook is left out of it, and said.
    assert "not in the gradebook" in book.err and "student00" in book.err and "student01" not in book.err
    several = command("grader", "export", "--format", "exercism")
    assert several.code == 2 and "one student" in several.err
    unknown = command("grader", "export", "--format", "junitt")
    assert unknown.code == 2 and "junit" in unknown.err


def test_killed_at_any_moment_nothing_is_lost_and_nothing_is_there_twice(command: Command, tmp_path: Path) -> None:
    expected = hand_in(tmp_path / "in", 10, seed=2)
    assert command("grader", "batch", "in", "--seed", "5", "--store", "whole.sqlite").code == 0
    # Moments between nothing and half of the class: the rest is left for the runs that follow.
    draw = random.Random(3)
    moments = [draw.randrange(0, 5) for _ in range(5)]
    kill_and_go_on(tmp_path, ("in", "--seed", "5", "--store", "torn.sqlite"), tmp_path / "torn.sqlite", moments)
    assert 0 < count(tmp_path / "torn.sqlite") < len(expected)
    done = command("grader", "batch", "in", "--seed", "5", "--store", "torn.sqlite")
    assert done.code == 0, done.err
    assert stored(tmp_path / "torn.sqlite") == stored(tmp_path / "whole.sqlite")
    assert len(stored(tmp_path / "torn.sqlite")) == len(expected)


def test_what_the_grader_cannot_grade_is_no_zero_and_can_be_retried(command: Command, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "exercises" / "attention" / "softmax", tmp_path / "lib/exercises/attention/softmax")
    shutil.copyfile(ROOT / "exercises/attention/track.yaml", tmp_path / "lib/exercises/attention/track.yaml")
    reference = tmp_path / "lib/reference/attention/softmax"
    shutil.copytree(ROOT / "reference" / "attention" / "softmax", reference)
    hand_in(tmp_path / "in", 2, ("softmax",))
    library = ("--exercises", "lib/exercises", "--reference", "lib/reference")
    solution = (reference / "solution.py").read_text()
    (reference / "solution.py").write_text(solution + "\nraise RuntimeError('broken reference')\n")
    broken = command("grader", "batch", "in", *library)
    assert broken.code == 3
    assert "2 could not be graded" in broken.out
    assert [(status, score) for _, _, status, score, _ in stored(tmp_path / "grades.sqlite")] == [
        ("not_graded", None)
    ] * 2
    assert command("grader", "batch", "in", *library).code == 3
    assert len(stored(tmp_path / "grades.sqlite")) == 2
    # The same files, asked for once more.
    assert command("grader", "batch", "in", "--retry", "grader_error", *library).code == 3
    assert len(stored(tmp_path / "grades.sqlite")) == 4
    # A mended reference is another exercise: nothing has to be asked for.
    (reference / "solution.py").write_text(solution)
    mended = command("grader", "batch", "in", *library)
    assert mended.code == 0, mended.out + mended.err
    assert "! not graded" not in command("grader", "results").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name a folder or archive"),
        (("nowhere",), "no such folder"),
        (("in", "--engine", "dask"), "--scheduler"),
        (("in", "--exercise", "softmaxx"), "softmax"),
        (("in", "--only", "nobody"), "students here: student00"),
    ],
)
def test_wrong_usage(command: Command, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    hand_in(tmp_path / "in", 1, ("softmax",))
    done = command("grader", "batch", *arguments)
    assert done.code == 2 and said in done.err
    assert not (tmp_path / "grades.sqlite").exists()


# --- a cluster --------------------------------------------------------------------------------------------------------


def test_a_cluster_gives_the_same_results_though_a_worker_is_killed(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    expected = hand_in(tmp_path / "in", 8, seed=4)
    assert command("grader", "batch", "in", "--seed", "6", "--store", "local.sqlite").code == 0
    with cluster(tmp_path, 2) as (address, workers):
        store = tmp_path / "dask.sqlite"
        process = start_batch(
            tmp_path, "in", "--seed", "6", "--store", "dask.sqlite", "--engine", "dask", "--scheduler", address
        )
        while process.poll() is None and count(store) < 4:
            time.sleep(0.01)
        workers[0].send_signal(signal.SIGKILL)
        assert process.wait(240) == 0
    assert stored(store) == stored(tmp_path / "local.sqlite")
    assert len(stored(store)) == len(expected)


def test_a_scheduler_that_does_not_answer_is_no_students_fault(command: Command, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    hand_in(tmp_path / "in", 1, ("softmax",))
    done = command("grader", "batch", "in", "--engine", "dask", "--scheduler", "tcp://127.0.0.1:9")
    assert done.code == 3 and "no Dask scheduler answers" in done.err
