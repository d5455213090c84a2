"""``github``: annotations for GitHub Actions, then the step summary in Markdown.

The lines that begin with ``::`` are workflow commands; all others are the summary, which an action appends to the file
named by ``GITHUB_STEP_SUMMARY`` (so does ``integrations/github/grade.sh``). Nothing that comes from a submission begins
such a line. Commands: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from grader.explain import leading
from grader.model import CheckResult, Report
from grader.reports import digest
from grader.reports.digest import Room
from grader.reports.entry import Entry
from grader.reports.setting import Setting
from grader.submission import inert

# More of a kind than this vanish in silence.
MAX_ANNOTATIONS = 10
MAX_MESSAGE = 2_000
# A summary may have 1024 kB; what the action itself adds must fit as well.
MAX_BYTES = 1_000_000
MAX_CELL = 6
MARKS = {"passed": "✅", "failed": "❌", "blocked": "➖", "neutral": "➖", "fault": "⚠️"}


def render(entries: Sequence[Entry], setting: Setting) -> str:
    marks = "".join(f"{line}\n" for line in commands(entries, setting))
    return marks + digest.fit(lambda room: summary(entries, room), MAX_BYTES)


def commands(entries: Sequence[Entry], setting: Setting) -> Iterator[str]:
    """At most ten errors, ten warnings and one notice; what there is no room for is counted in the last."""
    errors: list[str] = []
    later: list[str] = []
    warnings: list[str] = []
    for entry in entries:
        report = entry.report
        path = _path(report, setting)
        if report.status != "graded":
            title = f"{report.exercise} could not be graded"
            errors.append(command("error", f"{digest.reason(report)}\n(the grader's fault, not yours)", path, title))
            continue
        first = leading([check for check in report.checks if digest.withheld(report, check)])
        for check in report.checks:
            state = digest.state(report, check)
            if state not in ("failed", "fault"):
                continue
            text = digest.cut(digest.feedback(check), MAX_MESSAGE)
            title = f"{report.exercise}: {digest.name(check.title or check.id)}"
            line = _line(report, text)
            if check.advisory:
                warnings.append(command("warning", text, path, f"{title} (advisory)", line))
            else:
                # The most telling failure of every exercise before the second of any.
                (errors if check is first else later).append(command("error", text, path, title, line))
    yield from _capped("error", errors + later, "failing checks")
    yield from _capped("warning", warnings, "advisory checks")
    yield command("notice", _headline(entries), title="tensorgrade")


def command(kind: str, message: str, path: str = "", title: str = "", line: int | None = None) -> str:
    """One workflow command, every part of it escaped."""
    properties = {"file": path, "line": "" if line is None or not path else str(line), "title": title}
    text = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    return f"::{kind}{' ' + text if text else ''}::{_data(message)}"


def _data(text: str) -> str:
    return inert(text).replace("##[", "# #[").replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _capped(kind: str, lines: list[str], what: str) -> list[str]:
    if len(lines) <= MAX_ANNOTATIONS:
        return lines
    kept = lines[: MAX_ANNOTATIONS - 1]
    return [*kept, command(kind, f"{len(lines) - len(kept)} more {what}: see the summary of this step")]


def _path(report: Report, setting: Setting) -> str:
    """The submission's path as seen from the top of the repository, which is what GitHub links."""
    path = str(report.submission.get("path") or "")
    top = setting.environment.get("GITHUB_WORKSPACE", "")
    if top and PurePosixPath(path).is_relative_to(top):
        return str(PurePosixPath(path).relative_to(top))
    return path


def _line(report: Report, text: str) -> int | None:
    """The line of the submission that a message names, as ``softmax.py:4`` or in a traceback."""
    name = re.escape(PurePosixPath(str(report.submission.get("path") or "")).name)
    found = re.search(rf"(?<![\w.]){name}:(\d{{1,6}})\b", text) if name else None
    return int(found[1]) if found is not None else None


def _headline(entries: Sequence[Entry]) -> str:
    total = digest.total(entries)
    passed = sum(entry.report.passed for entry in entries)
    # Of several exercises, those with a score are worth saying even where one has none.
    scored = [entry for entry in entries if entry.report.score is not None]
    score = digest.total(scored)
    line = f"{passed} of {len(entries)} {'exercise passes' if len(entries) == 1 else 'exercises pass'}"
    if scored:
        line += f", {digest.points(score.score or 0.0, score.max_score)}"
    return line + (f"; {len(total.ungraded)} could not be graded" if total.ungraded else "")


def summary(entries: Sequence[Entry], room: Room) -> str:
    """The Markdown part. No line of it is a workflow command, not even an old one (``##[``)."""
    lines = [f"## {md(_headline(entries))}", "", "| | exercise | points | not passing |", "|---|---|---:|---|"]
    for entry in entries:
        lines.append(_row(entry))
    for entry in entries:
        lines += _details(entry, room)
    return "".join(f"{_harmless(line)}\n" for line in "\n".join(lines).split("\n"))


def _row(entry: Entry) -> str:
    report = entry.report
    if report.score is None or report.status != "graded":
        reason = digest.cut(digest.reason(report), 300)
        return f"| {MARKS['fault']} | {md(report.exercise)} | not graded | {md(reason)} |"
    failing = [digest.name(check.title or check.id) for check in report.checks if digest.withheld(report, check)]
    shown = " · ".join(md(title) for title in failing[:MAX_CELL])
    if len(failing) > MAX_CELL:
        shown += f" · {len(failing) - MAX_CELL} more"
    mark = MARKS["passed" if report.passed else "failed"]
    worth = f"{digest.number(report.score)} / {digest.number(report.max_score)}"
    return f"| {mark} | {md(report.exercise)} | {worth} | {shown} |"


def _details(entry: Entry, room: Room) -> Iterator[str]:
    report = entry.report
    if report.status != "graded":
        return
    shown = [check for check in report.checks if digest.state(report, check) != "passed"]
    if not shown and not report.output:
        return
    opened = " open" if any(digest.withheld(report, check) for check in shown) else ""
    yield from ("", f"<details{opened}><summary>{html.escape(report.exercise)}</summary>", "")
    limit = len(shown) if room.tests is None else room.tests
    for check in shown[:limit]:
        yield from _check(report, check, room)
    if len(shown) > limit:
        yield from (f"{len(shown) - limit} more checks are not listed here.", "")
    if report.output:
        yield from ("What your code printed:", "", *fenced(digest.cut(report.output, min(room.text, 4_000))), "")
    yield "</details>"


def _check(report: Report, check: CheckResult, room: Room) -> Iterator[str]:
    state = digest.state(report, check)
    worth = "advisory, does not count" if check.advisory else digest.points(check.points, check.max_points)
    yield f"{MARKS[state]} **{md(digest.name(check.title or check.id))}** ({worth})"
    yield ""
    text = digest.cut(digest.feedback(check), room.text)
    if text:
        yield from fenced(text)
        yield ""


def md(text: str) -> str:
    """``text`` as one line of Markdown that says just that."""
    line = " ".join(inert(text).split())
    return re.sub(r"([\\`*_\[\]#!|~@$])", r"\\\1", html.escape(line, quote=False))


def fenced(text: str) -> list[str]:
    """``text`` as a block of code whose fence is longer than any run of backticks in it."""
    text = inert(text)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return [f"{fence}text", *text.split("\n"), fence]


def _harmless(line: str) -> str:
    """The runner reads a command after any white space, and the old form anywhere in a line."""
    if line.lstrip().startswith("::"):
        line = line.replace("::", ": :", 1)
    return line.replace("##[", "# #[")
