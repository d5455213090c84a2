"""``grader doctor``: versions, the isolation layers that truly hold here, and what to do about those that do not."""

from __future__ import annotations

import platform
import sys
from importlib import metadata

import click

from grader import __version__
from grader.cli import frame
from grader.errors import TensorgradeError
from grader.sandbox import isolation
from grader.spec.library import find_library

PACKAGES = ("numpy", "torch", "pydantic", "rich", "click", "PyYAML")
MEANING = {
    "full": "a submission sees only Python's own files, no network, no other process, and cannot leave its limits.",
    "no-namespaces": "Landlock, seccomp and limits hold; a submission shares the machine's process and network namespaces, unable to use them.",
    "limits-only": "only time and memory limits hold: a submission can read files, write files and use the network as you can.",
}  # fmt: skip


@click.command(
    "doctor",
    short_help="What is installed, how files are locked in, what is missing.",
    epilog="\b\nExample:\n  grader doctor",
)
def doctor() -> int:
    """Versions, isolation layers in force, what is missing and what that means."""
    console = frame.console()
    console.print("versions", style="bold")
    console.print(
        f"  tensorgrade {__version__}, Python {platform.python_version()}, {platform.system()} {platform.release()} {platform.machine()}"
    )
    for name in PACKAGES:
        try:
            console.print(f"  {name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            console.print(f"  {name} is missing: pip install {name}", style="red")
    console.print("exercises", style="bold")
    try:
        library = find_library()
        console.print(f"  {library.exercises}")
        console.print(f"  references: {library.reference or 'none: submissions cannot be graded here'}")
    except TensorgradeError as error:
        console.print(f"  {error}", style="red")
    console.print("isolation", style="bold")
    found = isolation.probe()
    console.print(f"  level: {found.level}", style="green" if found.level == "full" else "yellow")
    console.print(f"  {MEANING[found.level]}")
    for name in found.layers:
        console.print(f"  ✓ {name}")
    for one in found.missing:
        console.print(f"  ✗ {one.layer}: {one.reason}", style="yellow")
        if one.remedy:
            console.print(f"      {one.remedy}")
    if sys.platform != "linux":
        console.print("  On this system a worker is started afresh for each submission, and only limits hold.")
    return 0
