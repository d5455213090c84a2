"""tensorgrade: an autograder for exercises about attention and Transformers.

Importing this package stays cheap on purpose: the process that hosts submissions imports it too,
before anything else, and must not pay for the grader's own libraries.
"""

__version__ = "0.1.0"


def load_ipython_extension(shell: object) -> None:
    """What ``%load_ext grader`` calls."""
    from grader.jupyter import register

    register(shell)
