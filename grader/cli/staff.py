"""The ``grader`` command: what instructors and CI use."""

from __future__ import annotations

import click

from grader.cli import frame
from grader.cli.batch import batch
from grader.cli.doctor import doctor
from grader.cli.export import export
from grader.cli.lint import lint
from grader.cli.new import new
from grader.cli.pack import pack
from grader.cli.results import results
from grader.sandbox import launch

EPILOG = """\b
Examples:
  grader new cosine_similarity    an exercise of your own
  grader lint cosine_similarity   proof that it accepts right answers and rejects wrong ones
  grader batch handed-in          a class
  grader COMMAND --help           what a command takes, with more examples
"""


@click.group("grader", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tensorgrade", prog_name="tensorgrade")
def grader() -> None:
    """Write, prove and hand out exercises, and grade classes."""


grader.add_command(batch)
grader.add_command(doctor)
grader.add_command(export)
grader.add_command(lint)
grader.add_command(new)
grader.add_command(pack)
grader.add_command(results)


def main() -> None:
    """Entry point."""
    launch.settle_in()
    frame.run(grader, "grader")
