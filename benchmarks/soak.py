"""500 submissions in a row, right, wrong and hostile, through one zygote: ``python benchmarks/soak.py [COUNT]``.

Prints what the grader and the zygote hold before and after: memory of their own, descriptors, threads and processes.
"""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import soaking  # noqa: E402

WARM_UP = 25


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    before, after, verdicts = soaking.soak(count, WARM_UP, say=True)
    print(f"{count} submissions after {WARM_UP} to warm up:", ", ".join(f"{n} {v}" for v, n in verdicts.most_common()))
    for entry in fields(before):
        print(f"{entry.name:20} {getattr(before, entry.name):9} before {getattr(after, entry.name):9} after")


if __name__ == "__main__":
    main()
