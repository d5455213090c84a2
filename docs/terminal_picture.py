"""Draws docs/terminal.svg, the picture in the README, from a real grading: ``python docs/terminal_picture.py``."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console

from grader.grade import Options
from grader.reports import terminal
from grader.session import Session
from grader.spec import load
from grader.spec.library import find_library
from grader.submission import read_submission

ROOT = Path(__file__).resolve().parent.parent
SUBMISSION = ROOT / "fixtures" / "encoder_decoder_forward" / "wrong" / "causal_cross_always.py"


def main() -> None:
    exercise = load.load(find_library(start=ROOT), "encoder_decoder_forward")
    session = Session()
    try:
        report = session.grade(exercise, read_submission(SUBMISSION), Options(seed=5))
    finally:
        session.close()
    console = Console(file=io.StringIO(), record=True, width=84, force_terminal=True, highlight=False)
    # The file as a student has it.
    report.submission["path"] = "encoder_decoder_forward.py"
    terminal.render(report, console)
    svg = console.export_svg(title="grade encoder_decoder_forward")
    # Whoever reads it has a monospaced font, and a picture loads nothing from elsewhere.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    (ROOT / "docs" / "terminal.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
