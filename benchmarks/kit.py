"""A kit of the whole catalogue: ``python benchmarks/kit.py [EXERCISE ...]``.

Packs it with the real command, prints its size, searches it for lines of references and patches, and grades every right
and wrong fixture in it and with the references, on the same recorded seed: how many differ in a verdict, and in what is
named as the cause.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import leaks  # noqa: E402

from grader import kit  # noqa: E402
from grader.grade import Options  # noqa: E402
from grader.model import Report  # noqa: E402
from grader.session import Session  # noqa: E402
from grader.spec import load  # noqa: E402
from grader.spec.library import find_library  # noqa: E402
from grader.submission import read_submission  # noqa: E402


def told(report: Report) -> Any:
    """What has to be the same with and without a reference."""
    checks = [(check.id, check.verdict, check.cause, check.points) for check in report.checks]
    return report.passed, report.score, checks


def named(report: Report) -> frozenset[str]:
    return frozenset(found.misconception for found in report.diagnoses)


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    library = find_library(start=ROOT)
    names = sys.argv[1:] or sorted(path.parent.name for path in ROOT.glob("exercises/*/*/exercise.yaml"))
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "kit"
        chosen = [word for name in names for word in ("--exercise", name)]
        command = [str(Path(sys.executable).parent / "grader"), "pack", "--out", str(out), *chosen]
        started = time.perf_counter()
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        took = time.perf_counter() - started
        records = sorted(out.glob("recorded/*/*.bin"), key=lambda path: -path.stat().st_size)
        largest = ", ".join(f"{path.stem} {path.stat().st_size / 1e6:.1f}" for path in records[:3])
        print(
            f"{len(names)} exercises packed in {took:.0f} s: {size_of(out) / 1e6:.1f} MB (largest records: {largest} MB)"
        )
        searched, leaked = leaks.search(out, names)
        print(
            f"{searched} lines of references and patches looked for: {len(leaked)} found",
            *leaked[:10],
            sep="\n  ",
            flush=True,
        )

        kits = find_library(start=out)
        here, there = Session(), Session()
        counts: Counter[str] = Counter()
        try:
            for name in names:
                alone, whole = load.load(kits, name), load.load(library, name)
                seeds = kit.seeds_of(alone)
                assert seeds
                for number, file in enumerate(sorted((ROOT / "fixtures" / name).glob("*/*.py"))):
                    options = Options(seed=seeds[number % len(seeds)])
                    submission = read_submission(file)
                    mine, theirs = here.grade(alone, submission, options), there.grade(whole, submission, options)
                    counts["graded"] += 1
                    place = f"{name}/{file.parent.name}/{file.name}"
                    if mine.passed != theirs.passed:
                        counts["another verdict"] += 1
                        print(f"  {place}: passed {mine.passed} in the kit, {theirs.passed} with the reference")
                    elif told(mine) != told(theirs):
                        counts["another check"] += 1
                        print(f"  {place}: {set(told(mine)[2]) ^ set(told(theirs)[2])}")
                    if named(mine) != named(theirs):
                        two = any(found.combined_with for found in theirs.diagnoses)
                        counts["two mistakes at once, not named in a kit" if two else "another cause"] += 1
                        if not two:
                            print(
                                f"  {place}: {sorted(named(mine))} in the kit, {sorted(named(theirs))} with the reference"
                            )
                here.release(name)
                there.release(name)
        finally:
            here.close()
            there.close()
        total = counts.pop("graded")
        print(f"{total} fixtures graded both ways; differing:", dict(counts) or "none")
        for what, count in counts.items():
            print(f"  {what}: {count} ({100 * count / total:.1f} %)")


if __name__ == "__main__":
    main()
