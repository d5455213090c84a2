"""Whether mistakes are named, and never wrongly: ``python benchmarks/diagnosis.py [EXERCISE …] [--seeds N] [--pairs N]``.

Every misconception of an exercise is handed in as a submission, on N seeds: it must be diagnosed as itself (or as one
that is declared equal). Then random pairs of them in one file: all must be rejected; fully named, partly named, not
named and misnamed are counted. The whole pipeline runs, with isolation, as a student's submission meets it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from grader.diagnose import Misconception, patched, read  # noqa: E402
from grader.errors import AuthorError  # noqa: E402
from grader.grade import Options  # noqa: E402
from grader.model import Report  # noqa: E402
from grader.session import Session  # noqa: E402
from grader.spec import load  # noqa: E402
from grader.spec.exercise import Exercise  # noqa: E402
from grader.spec.library import find_library  # noqa: E402
from grader.submission import Submission  # noqa: E402

EXERCISES = ("encoder_decoder_forward", "decoder_lm_loss")


def handed_in(exercise: Exercise, chosen: tuple[Misconception, ...]) -> Submission | None:
    """The reference with these mistakes as a student's file; None where their patches do not go together."""
    assert exercise.solution is not None
    try:
        text = patched(exercise.solution.read_text(encoding="utf-8"), chosen)
    except AuthorError:
        return None
    return Submission(f"{exercise.name}.py", text.encode(), "0" * 64)


def allowed(chosen: tuple[Misconception, ...], known: dict[str, Misconception]) -> set[str]:
    """The names that are true of a file with these mistakes."""
    names = {entry.id for entry in chosen} | {other for entry in chosen for other in entry.equals}
    return names | {other.id for other in known.values() if set(other.equals) & {entry.id for entry in chosen}}


def as_themselves(session: Session, exercise: Exercise, seeds: range) -> int:
    """How many misconceptions are, on some seed, not rejected or not named as themselves."""
    known = {entry.id: entry for entry in read(exercise)}
    bad = 0
    started = time.monotonic()
    for seed in seeds:
        for entry in known.values():
            submission = handed_in(exercise, (entry,))
            assert submission is not None
            report = session.grade(exercise, submission, Options(seed=seed))
            named = {found.misconception for found in report.diagnoses}
            advisory_only = report.passed and any(check.verdict == "fail" for check in report.checks)
            if (report.passed and not advisory_only) or entry.id not in named or named - allowed((entry,), known):
                bad += 1
                print(f"  seed {seed}: {entry.id}: passed {report.passed}, named {sorted(named)}", flush=True)
        session.release(exercise.name)
    count = len(known) * len(seeds)
    print(
        f"{exercise.name}: {len(known)} misconceptions on {len(seeds)} seeds, {count - bad} of {count} named as themselves, {time.monotonic() - started:.0f} s",
        flush=True,
    )
    return bad


def in_pairs(session: Session, exercise: Exercise, count: int) -> int:
    """How many random pairs are accepted or misnamed."""
    known = {entry.id: entry for entry in read(exercise)}
    draw = random.Random(1)
    told: Counter[str] = Counter()
    bad = 0
    while sum(told.values()) < count:
        chosen = tuple(draw.sample(list(known.values()), 2))
        submission = handed_in(exercise, chosen)
        if submission is None:
            continue
        report = session.grade(exercise, submission, Options(seed=sum(told.values()) % 4))
        kind = naming(report, chosen, known)
        told[kind] += 1
        if kind in ("misnamed", "accepted"):
            bad += 1
            named = [found.misconception for found in report.diagnoses]
            print(f"  {chosen[0].id} + {chosen[1].id}: {kind} {named}", flush=True)
    shares = ", ".join(
        f"{kind} {told[kind]}" for kind in ("fully named", "partly named", "not named", "misnamed", "accepted")
    )
    print(f"{exercise.name}: {count} random pairs: {shares}", flush=True)
    return bad


def naming(report: Report, chosen: tuple[Misconception, ...], known: dict[str, Misconception]) -> str:
    named = {found.misconception for found in report.diagnoses}
    if report.passed:
        return "accepted"
    if not named:
        return "not named"
    if named - allowed(chosen, known):
        return "misnamed"
    return "fully named" if all(named & allowed((entry,), known) for entry in chosen) else "partly named"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("exercises", nargs="*", default=EXERCISES)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=200)
    asked = parser.parse_args()
    library = find_library(start=ROOT)
    session = Session()
    bad = 0
    try:
        for name in asked.exercises:
            exercise = load.load(library, name)
            bad += as_themselves(session, exercise, range(1, asked.seeds + 1))
            bad += in_pairs(session, exercise, asked.pairs) if asked.pairs else 0
            session.release(name)
    finally:
        session.close()
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
