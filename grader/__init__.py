"""tensorgrade: an autograder for exercises about attention and Transformers.

Importing this package stays cheap on purpose: the process that hosts submissions imports it too,
before anything else, and must not pay for the grader's own libraries.
"""

import importlib

__version__ = "0.1.0"


def load_ipython_extension(shell: object) -> None:
    """What ``%load_ext grader`` calls."""
    # By name: the package itself stands below everything in it.
    importlib.import_module("grader.jupyter").register(shell)
