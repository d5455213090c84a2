"""``grader new``: parse, call, print, exit code."""

from __future__ import annotations

from pathlib import Path

import click

from grader.cli import frame

EPILOG = """
\b
Examples:
  grader new cosine_similarity --framework numpy
  grader new pad_batch --framework python --track data --dir ~/course
"""


@click.command("new", short_help="Write a new exercise that works at once, to be changed into yours.", epilog=EPILOG)
@click.argument("name")
@click.option(
    "--framework",
    type=click.Choice(["torch", "numpy", "python"]),
    default="torch",
    show_default=True,
    help="What the function receives and returns.",
)
@click.option("--track", metavar="TRACK", help="The track it belongs to (default: the only one there is, or drafts).")
@click.option(
    "--dir",
    "root",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The folder that holds exercises/, reference/ and fixtures/ (default: found from here upwards, or here).",
)
def new(name: str, framework: str, track: str | None, root: Path | None) -> int:
    """Write a new exercise that works at once, to be changed into yours; never over a file that exists."""
    from grader.authoring import scaffold
    from grader.spec.document import shown

    planned = scaffold.plan(name, framework, track, root)
    scaffold.write(planned)
    console = frame.console()
    for path, _ in planned.files:
        console.print(f"wrote {shown(path)}", soft_wrap=True)
    for note in planned.notes:
        console.print(f"note: {note}", soft_wrap=True)
    where = "" if root is None else f" --exercises {shown(planned.root / 'exercises')}"
    console.print("\nIt works as it is:", soft_wrap=True)
    console.print(f"  grade {name} {shown(planned.solution)}{where}    # the reference passes", soft_wrap=True)
    console.print(f"  grade {name}{where}    # the stub does not, yet", soft_wrap=True)
    console.print("Change its files into your exercise, and prove that it is sound:", soft_wrap=True)
    console.print(f"  grader lint {name}{where}", soft_wrap=True)
    return 0
