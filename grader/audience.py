"""Who may see what of a report: staff see all of it, students who share one secret seed see nothing of its cases."""

from __future__ import annotations

from dataclasses import replace

from grader.grade import message_text
from grader.model import CheckResult, Diagnosis, Report


def for_student(report: Report) -> Report:
    """``report`` without seed, cases, values and what the submission printed, which may be its inputs.

    What stays is each verdict with a sentence on what kind of thing is wrong, and the measured cause: neither depends
    on a case.
    """
    checks = tuple(_bare(check, report.diagnoses) for check in report.checks)
    return replace(report, checks=checks, output="", secret=True)


def _bare(check: CheckResult, diagnoses: tuple[Diagnosis, ...]) -> CheckResult:
    if check.bare is None:
        return replace(check, case=None, explanation=None)
    shown = check.bare
    if check.explanation is not None and check.explanation.likely:
        help = next((found.help for found in diagnoses if found.help), shown.help)
        shown = replace(shown, likely=check.explanation.likely, help=help)
    return replace(check, case=None, message=message_text(shown), hint=shown.help, explanation=shown)
