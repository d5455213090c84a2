"""``grader pack``: a kit for students, without references."""

from __future__ import annotations

import random
from pathlib import Path

import click

from grader.cli import frame

EPILOG = """
\b
Examples:
  grader pack --out kit                          every exercise
  grader pack --out kit --exercise softmax       one (may be repeated)

In the kit's folder `grade` works as always, offline, on the recorded cases.
"""


@click.command("pack", short_help="Write a kit for students, without the references.", epilog=EPILOG)
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The kit's folder; it must not exist yet, or be empty.",
)
@click.option("--exercise", "wanted", multiple=True, metavar="NAME", help="Only this exercise (may be repeated).")
@click.option(
    "--seeds",
    type=click.IntRange(1, 20),
    default=2,
    show_default=True,
    metavar="N",
    help="How many sets of cases are recorded.",
)
@frame.library_options
def pack(out: Path, wanted: tuple[str, ...], seeds: int, exercises: Path | None, reference: Path | None) -> int:
    """Write a kit for students: exercises, stubs, statements and recorded answers, but no reference, patch or fixture."""
    from grader.authoring import pack as packing
    from grader.spec import load

    library = frame.open_library(exercises, reference)
    names = list(load.folders(library))
    for name in wanted:
        if name not in names:
            load.load(library, name)
    console = frame.console()
    chosen = [name for name in names if not wanted or name in wanted]
    drawn = sorted(random.SystemRandom().sample(range(10**9), seeds))

    def heard(name: str, size: int) -> None:
        console.print(f"{name}   {size / 1e6:.2f} MB")

    manifest = packing.pack(library, chosen, out, drawn, heard)
    total = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    console.print(
        f"wrote {out}: {len(chosen)} exercises, {len(manifest.files)} files, {total / 1e6:.1f} MB", style="bold"
    )
    console.print(f"try it: cd {out} && grade {chosen[0]} --start", style="dim", soft_wrap=True)
    return 0
