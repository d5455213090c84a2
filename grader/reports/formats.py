"""The formats that results leave in, in one table: each a function from results and a setting to text."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from grader.errors import UsageError
from grader.reports import (
    autolab,
    check50,
    classroom50,
    csv_table,
    entries_json,
    exercism,
    github,
    gradescope,
    html_class,
    junit,
    prairielearn,
    submitty,
)
from grader.reports.entry import Entry
from grader.reports.setting import Setting


@dataclass(frozen=True)
class Format:
    """One way to hand results on.

    ``per`` says whose results ``render`` takes: those of one ``student`` (one or several exercises), or of the whole
    ``class``. ``file`` is the name that the reading system expects, or the usual one.
    """

    name: str
    about: str
    per: Literal["student", "class"]
    file: str
    render: Callable[[Sequence[Entry], Setting], str]


FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        Format("json", "the report itself; of several results one object", "class", "report.json", entries_json.render),
        Format("junit", "JUnit XML for GitLab, Jenkins and others", "class", "junit.xml", junit.render),
        Format("github", "GitHub annotations and step summary", "student", "summary.md", github.render),
        Format("gradescope", "Gradescope's results.json", "student", "results.json", gradescope.render),
        Format("csv", "a table, one line per student and exercise", "class", "results.csv", csv_table.render),
        Format("html", "one page about a class, to read offline", "class", "results.html", html_class.render),
        Format("prairielearn", "PrairieLearn's results.json", "student", "results.json", prairielearn.render),
        Format("exercism", "Exercism's results.json, version 3", "student", "results.json", exercism.render),
        Format("classroom50", "Classroom 50's result.json", "student", "result.json", classroom50.render),
        Format("canvas-csv", "grades for Canvas' gradebook", "class", "canvas.csv", csv_table.render_canvas),
        Format("moodle-csv", "grades for Moodle's worksheet", "class", "moodle.csv", csv_table.render_moodle),
        Format("submitty", "a custom validator's answer", "student", "validation.json", submitty.render),
        Format("autolab", "feedback and Autolab's line of scores", "student", "autolab.txt", autolab.render),
        Format("check50", "check50's JSON", "student", "check50.json", check50.render),
    )
}
NAMES: tuple[str, ...] = tuple(FORMATS)


def find(name: str) -> Format:
    """The format of that name; raises `UsageError` where there is none."""
    found = FORMATS.get(name)
    if found is None:
        near = difflib.get_close_matches(name, NAMES, 1)
        raise UsageError(
            f"there is no format `{name}`", f"--format {near[0]}" if near else f"one of {', '.join(NAMES)}"
        )
    return found


def render(name: str, entries: Sequence[Entry], setting: Setting) -> str:
    """``entries`` as ``name`` has them; who may see what (`grader.audience`) is the caller's to settle before.

    Raises:
        UsageError: there is no such format, it is one student's and there are several or none, or the setting lacks
            something that it needs.
    """
    found = find(name)
    if found.per == "student":
        people = {entry.person.key for entry in entries}
        if not people:
            raise UsageError(f"there are no results to write as {name}", "grade something first")
        if len(people) > 1:
            raise UsageError(f"{name} holds the results of one student, not of {len(people)}", "name one student")
    return found.render(entries, setting)
