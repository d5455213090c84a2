"""``junit``: JUnit XML as GitLab, Jenkins and others read it: one suite per result, one test case per check.

A wrong answer is a ``failure`` (its ``type`` is the verdict), the grader's own fault an ``error``, and a check that
was not run or does not count is ``skipped`` with the reason. What a submission printed is the suite's ``system-out``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree

from grader.model import CheckResult, Report
from grader.reports import digest
from grader.reports.entry import Entry
from grader.reports.setting import Setting
from grader.submission import inert

MAX_TEXT = 20_000
MAX_LINE = 500
# What XML 1.0 cannot hold, not even escaped (https://www.w3.org/TR/xml/#charsets).
_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(entries: Sequence[Entry], setting: Setting) -> str:
    root = ElementTree.Element("testsuites", name=clean(setting.assignment or "tensorgrade"))
    counts: Counter[str] = Counter()
    seconds = 0.0
    several = len({entry.person.key for entry in entries}) > 1
    for entry in entries:
        suite = _suite(entry, several)
        root.append(suite)
        counts.update({key: int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped")})
        seconds += entry.report.timings.get("total_s", 0.0)
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(counts[key]))
    root.set("time", f"{seconds:.3f}")
    if setting.generated:
        root.set("timestamp", clean(setting.generated))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def clean(text: str) -> str:
    """``text`` with a replacement character wherever XML cannot hold what stood there."""
    return _FORBIDDEN.sub("\ufffd", inert(text))


def _suite(entry: Entry, several: bool) -> ElementTree.Element:
    report = entry.report
    place = f"{entry.person.key}.{report.exercise}" if several else report.exercise
    suite = ElementTree.Element("testsuite", name=clean(place))
    titles = Counter(check.title for check in report.checks)
    cases = [_case(report, check, clean(place), titles[check.title] > 1) for check in report.checks]
    if not cases:
        # An exercise without checks is none that passes in silence.
        cases = [_nothing(report, clean(place))]
    counts = Counter(case[0].tag for case in cases if len(case))
    suite.set("tests", str(len(cases)))
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(counts[tag]))
    suite.set("time", f"{report.timings.get('total_s', 0.0):.3f}")
    if entry.finished:
        suite.set("timestamp", clean(entry.finished))
    suite.append(_properties(entry))
    suite.extend(cases)
    if report.output:
        out = ElementTree.SubElement(suite, "system-out")
        out.text = clean(digest.cut(report.output, MAX_TEXT))
    return suite


def _properties(entry: Entry) -> ElementTree.Element:
    report = entry.report
    facts = {
        "student": entry.person.key,
        "status": report.status,
        "passed": str(report.passed).lower(),
        "score": "" if report.score is None else str(digest.number(report.score)),
        "max_score": str(digest.number(report.max_score)),
        "seed": "" if report.secret else str(report.seed),
        "version": report.versions.get("grader", ""),
    }
    found = ElementTree.Element("properties")
    for key, value in facts.items():
        if value:
            ElementTree.SubElement(found, "property", name=key, value=clean(value))
    return found


def _case(report: Report, check: CheckResult, place: str, twice: bool) -> ElementTree.Element:
    title = check.title or check.id
    shown = f"{title} ({check.id})" if twice else title
    case = ElementTree.Element(
        "testcase", name=clean(digest.name(shown)), classname=place, time=f"{max(check.seconds, 0.0):.3f}"
    )
    state = digest.state(report, check)
    text = digest.feedback(check)
    line = digest.cut(digest.claim(check), MAX_LINE)
    if state == "fault":
        line = digest.cut(digest.reason(report) if report.status != "graded" else line, MAX_LINE)
        _add(
            case,
            "error",
            line,
            "grader_error",
            "The grader could not grade this; it says nothing about the submission.",
        )
    elif state == "failed" and check.advisory:
        _add(case, "skipped", f"advisory, does not count: {line}", None, text)
    elif state == "failed":
        _add(case, "failure", line, check.verdict, f"{digest.points(check.points, check.max_points)}\n{text}")
    elif state in ("blocked", "neutral"):
        _add(case, "skipped", line or "not run", None, "")
    return case


def _nothing(report: Report, place: str) -> ElementTree.Element:
    case = ElementTree.Element("testcase", name="grading", classname=place, time="0.000")
    if report.status != "graded":
        _add(case, "error", digest.cut(digest.reason(report), MAX_LINE), "grader_error", "")
    elif not report.passed:
        _add(case, "failure", "not passed", "fail", "")
    return case


def _add(case: ElementTree.Element, tag: str, message: str, kind: str | None, text: str) -> None:
    found = ElementTree.SubElement(case, tag, message=clean(message))
    if kind is not None:
        found.set("type", kind)
    if text:
        found.text = clean(digest.cut(text, MAX_TEXT))
