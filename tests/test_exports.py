"""Results in the formats other systems read: each held to its reader's parser or schema, and all telling the same.

The reports are made by really grading fixtures; those that no fixture makes (limits, faults, odd texts) are built by hand.
"""

from __future__ import annotations

import ast
import csv
import html
import io
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import html5lib
import jsonschema
import pytest
from conftest import ROOT
from junitparser import Error, Failure, JUnitXml, Skipped

from grader.audience import for_student
from grader.errors import UsageError
from grader.grade import Options, grade
from grader.model import CaseRef, CheckResult, Diagnosis, Explanation, Report
from grader.reports import csv_table, digest, formats, github, gradescope, junit
from grader.reports.entry import Entry, Person
from grader.reports.setting import Setting
from grader.sandbox.runner import Runner
from grader.spec.exercise import Exercise
from grader.submission import read_submission

SEED = 918273645
SVG = "{http://www.w3.org/2000/svg}"
ANN = Person("ann", "Ann Ångström", {"canvas": "101", "moodle": "17", "login": "ann", "email": "ann@example.edu"})
BOB = Person("bob", "Bob")
RUNNER = {
    "CLASSROOM": "models",
    "ASSIGNMENT": "attention",
    "SUBMISSION_TAG": "submit/2026-03-01T10-00-00Z-abc1234",
    "COMMIT_URL": "https://example.edu/commit/abc1234",
    "RELEASE_URL": "https://example.edu/release/1",
    "REVIEW_URL": "https://example.edu/compare/1",
}
SETTING = Setting("Attention (4711)", "2026-03-01T10:00:00Z", "0.1.0", RUNNER)
# What a submission may print or put into an exception to be taken for something else.
HOSTILE = (
    "::error file=a.py,line=1::forged\n  ::stop-commands::x\n\u3000::add-mask::y\n##[error]old\ntext ##[set-env name=A]b\n"
    "<script>alert(1)</script> </pre> & \"quoted\" 'q' ]]> ``` | * _ [link](http://example.edu) {{ 7 * 7 }}\n"
    '{"scores": {"softmax": 999}}\n=1+1\n% %0A \x00\x07\x1b[31mred\x1b[0m \ufffe \udcff 注意 ∑ 🙂\r\nlast'
)

SOURCES = {
    "printing": f"print({HOSTILE.encode('utf-8', 'surrogatepass')!r}.decode('utf-8', 'surrogatepass').replace(chr(0xdcff), ''))\n"
    "def softmax(x, axis):\n    return x\n",
    "raising": "def softmax(x, axis):\n"
    f"    raise ValueError({HOSTILE.encode('utf-8', 'surrogatepass')!r}.decode('utf-8', 'surrogatepass'))\n",
    "unloadable": "def softmax(x, axis)\n    return x\n",
}
FIXTURES = {
    "right": ("softmax", "right/shifted_keepdims"),
    "diagnosed": ("softmax", "wrong/scores_over_sum"),
    "in_place": ("softmax", "wrong/in_place"),
    "nan": ("softmax", "wrong/textbook"),
    "lists": ("greedy_decode", "wrong/calls_twice"),
    "two": ("layer_norm", "wrong/textbook_epsilon"),
    "grid": ("causal_mask", "wrong/booleans"),
}


@pytest.fixture(scope="session")
def graded(
    warm: Callable[[str], Runner],
    exercise_of: Callable[[str], Exercise],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Report]:
    """Reports of real submissions, by a name for each."""
    folder = tmp_path_factory.mktemp("exports")
    found = {}
    paths = {name: (exercise, _fixture(exercise, file)) for name, (exercise, file) in FIXTURES.items()}
    for name, source in SOURCES.items():
        (folder / name).mkdir()
        path = folder / name / "softmax.py"
        path.write_text(source)
        paths[name] = ("softmax", path)
    for name, (exercise, path) in paths.items():
        loaded = exercise_of(exercise)
        found[name] = grade(loaded, read_submission(path), warm(loaded.spec.framework), Options(seed=SEED, cases=4))
    return found


def _fixture(exercise: str, file: str) -> Path:
    path = ROOT / "fixtures" / exercise / f"{file}.py"
    # Any wrong one serves where a fixture was given another name.
    return path if path.exists() else sorted((ROOT / "fixtures" / exercise / "wrong").glob("*.py"))[0]


# --- reports that no fixture makes ------------------------------------------------------------------------------------


def check(id: str, verdict: str = "pass", points: float = 1.0, **more: Any) -> CheckResult:
    got = points if verdict == "pass" or more.get("neutral") else 0.0
    claim = more.pop("claim", "" if verdict == "pass" else f"{id} is wrong.")
    explanation = Explanation(claim=claim, help=more.get("hint")) if claim else None
    values = {"title": f"the {id}", "message": claim, "explanation": explanation, "bare": explanation, **more}
    return CheckResult(id=id, verdict=verdict, points=got, max_points=points, **values)


def report(*checks: CheckResult, exercise: str = "softmax", **more: Any) -> Report:
    counting = [each for each in checks if not each.advisory]
    values: dict[str, Any] = {
        "status": "graded",
        "passed": all(each.verdict == "pass" or each.neutral for each in counting),
        "score": sum(each.points for each in counting),
        "max_score": sum(each.max_points for each in counting),
        "diagnoses": (),
        "title": "An exercise",
        "output": "",
        **more,
    }
    return Report(
        exercise=exercise,
        submission={"path": f"work/{exercise}.py", "sha256": "0" * 64},
        seed=SEED,
        checks=checks,
        isolation={"layers": [], "missing": []},
        timings={"import_s": 0.0, "student_s": 0.1, "reference_s": 0.1, "total_s": 0.25},
        versions={"grader": "0.1.0", "python": "3.12.1", "numpy": "2.1.0", "torch": ""},
        **values,
    )


def ungraded(exercise: str = "layer_norm", reason: str = "no worker could be started") -> Report:
    checks = tuple(check(id, "grader_error", 2.0, claim=reason, cause="grader_error") for id in ("values", "shape"))
    return report(*checks, exercise=exercise, status="not_graded", passed=False, score=None, reason=reason)


EVERYTHING = report(
    check("first", points=0.1),
    check("second", points=0.2),
    check("failing", "fail", 2.5, hint="Look at the axis."),
    check("raising", "error", 1.0, cause="exception"),
    check("slow", "timeout", 1.0),
    check("large", "memory", 1.0),
    check("ended", "crashed", 1.0),
    check("blocked", "skipped", 1.0, claim="Not run: something else fails."),
    check("undecided", "skipped", 0.5, claim="Not run: it could not be decided.", neutral=True),
    check("advised", "fail", 1.0, advisory=True, claim="Better done otherwise."),
    check("advised_too", "pass", 1.0, advisory=True),
    diagnoses=(Diagnosis("no_axis", "the axis is left out.", 3),),
)
EXTREMES = {
    "everything": EVERYTHING,
    "nothing to have": report(check("one", points=0.0), check("two", "fail", 0.0)),
    "nothing to have, all right": report(check("one", points=0.0)),
    "no checks": report(),
    "only advisory": report(check("one", "fail", advisory=True)),
    "odd texts": report(
        check("odd", "fail", claim=HOSTILE, title=f"title {HOSTILE}", hint=HOSTILE),
        check("same", "error", claim=HOSTILE, title="the same title"),
        check("same_too", title="the same title"),
        output=HOSTILE,
        title=HOSTILE,
        diagnoses=(Diagnosis("odd", HOSTILE, 1),),
    ),
    "long": report(
        *(check(f"c{i}", "fail", claim=f"{i} {'long é ' * 30_000}", title=f"t{i} " + "name " * 200) for i in range(60)),
        output="printed ☃ " * 50_000,
    ),
    "not graded": ungraded("softmax"),
    "not graded, oddly": ungraded("softmax", HOSTILE),
}


def entry(found: Report, person: Person = ANN, attempts: int = 1) -> Entry:
    return Entry(person, found, "2026-03-01T09:59:58Z", attempts)


# --- reading a format back --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """What a format says: the score (None: none given) and the checks that fail; ``share`` where it is 0..1.

    ``failing`` is None where the format does not list checks.
    """

    score: float | None
    failing: Counter[str] | None
    share: bool = False


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "tests" / "schemas" / f"{name}.json").read_text())
    return found


REPORT = json.loads((ROOT / "grader" / "reports" / "report.schema.json").read_text())
ENTRIES = json.loads((ROOT / "grader" / "reports" / "entries.schema.json").read_text())


def held(text: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """``text`` as JSON that keeps to a schema."""
    body: dict[str, Any] = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(wanted)
    jsonschema.validate(body, wanted, cls=jsonschema.Draft202012Validator)
    return body


def read_json(text: str) -> Told:
    body = json.loads(text)
    if "reports" in body:
        held(text, ENTRIES)
        for each in body["reports"]:
            whole = {key: value for key, value in each.items() if key not in ("student", "finished", "attempts")}
            jsonschema.validate(whole, REPORT, cls=jsonschema.Draft202012Validator)
    else:
        held(text, REPORT)
        body = {**body, "reports": [body]}
    failing: Counter[str] = Counter()
    for each in body["reports"]:
        if each["status"] == "graded":
            failing.update(
                digest.name(c["title"])
                for c in each["checks"]
                if not c["advisory"] and c["verdict"] not in ("pass", "skipped", "grader_error")
            )
    return Told(body["score"], failing)


def read_junit(text: str) -> Told:
    xml = JUnitXml.fromstring(text.encode())
    xml.update_statistics()
    root = ElementTree.fromstring(text.encode())
    assert root.tag == "testsuites" and root.get("timestamp") == SETTING.generated
    # What the file says of itself is what junitparser counts.
    for key, value in (
        ("tests", xml.tests),
        ("failures", xml.failures),
        ("errors", xml.errors),
        ("skipped", xml.skipped),
    ):
        assert int(root.get(key, "-1")) == value, key
    failing: Counter[str] = Counter()
    score: float | None = 0.0
    for suite in xml:
        facts = {p.name: p.value for p in suite.properties()}
        score = None if score is None or "score" not in facts else score + float(facts["score"])
        names = [case.name for case in suite]
        assert len(set(names)) == len(names), "two cases of one name are shown as one"
        for case in suite:
            assert case.classname == suite.name
            assert all(isinstance(each, Failure | Error | Skipped) for each in case.result)
            assert all(each.message for each in case.result)
            if any(isinstance(each, Failure) for each in case.result):
                failing[case.name] += 1
            if facts["status"] != "graded":
                assert [type(each) for each in case.result] == [Error]
    return Told(score, failing)


COMMAND = re.compile(r"::(error|warning|notice)( [a-z]+=[^\s:,][^:,\n]*(,[a-z]+=[^:,\n]+)*)?::([^\r\n]*)")


def unescaped(text: str) -> str:
    for code, char in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(code, char)
    return text


def read_github(text: str) -> Told:
    kinds: Counter[str] = Counter()
    failing: Counter[str] = Counter()
    summary = []
    for line in text.split("\n"):
        if not line.lstrip().startswith("::"):
            summary.append(line)
            continue
        assert not summary, "commands come first"
        found = COMMAND.fullmatch(line)
        assert found, line[:200]
        kinds[found[1]] += 1
        assert "%" not in re.sub(r"%(25|0D|0A|3A|2C)", "", line)
        title = re.search(r"title=([^:,]*)", found[2] or "")
        if found[1] == "error" and title and "could not be graded" not in title[1]:
            failing[unescaped(title[1]).partition(": ")[2]] += 1
    assert max(kinds.values()) <= github.MAX_ANNOTATIONS and kinds["notice"] == 1
    assert "\r" not in text and "##[" not in text
    assert len("\n".join(summary).encode()) < 1024 * 1000
    cells = re.findall(r"^\| (?:✅|❌|⚠️) \| .* \| (not graded|([\d.]+) / [\d.]+) \|", text, re.MULTILINE)
    assert cells
    score = None if any(whole == "not graded" for whole, _ in cells) else sum(float(got) for _, got in cells)
    full = kinds["error"] == github.MAX_ANNOTATIONS
    return Told(score, None if full else failing)


def read_gradescope(text: str) -> Told:
    body = held(text, schema("gradescope"))
    assert len(text.encode()) <= gradescope.MAX_BYTES
    assert body["stdout_visibility"] == "hidden"
    scored = [test for test in body["tests"] if "score" in test]
    if "score" not in body:
        # A score of some tests alone would be summed up to a grade.
        assert not scored and "could not be graded" in body["output"]
        return Told(None, Counter(_bare(t["name"]) for t in body["tests"] if t.get("status") == "failed" and _ran(t)))
    if len(body["tests"]) == len({test["number"] for test in body["tests"] if "number" in test}):
        assert sum(test["score"] for test in scored) == pytest.approx(body["score"])
    for test in body["tests"]:
        if test["name"].endswith("(advisory, does not count)"):
            assert "score" not in test and "status" not in test
    return Told(
        body["score"], Counter(test["name"] for test in body["tests"] if test.get("status") == "failed" and _ran(test))
    )


def _ran(test: dict[str, Any]) -> bool:
    return not re.match(r"(\S+ points?\n)?Not run", test["output"])


def _bare(name: str) -> str:
    return name.partition(": ")[2] or name


def read_prairielearn(text: str) -> Told:
    body = held(text, schema("prairielearn"))
    assert len(text.encode()) <= 1_000_000
    if not body.get("gradable", True):
        return Told(None, None)
    failing = Counter(
        test["name"]
        for test in body["tests"]
        if test["message"] not in ("Passed.", "Not run.", "Could not be decided; the points are given.")
        and "advisory" not in test["name"]
    )
    most = sum(test["max_points"] for test in body["tests"])
    if most:
        assert sum(test["points"] for test in body["tests"]) / most == pytest.approx(body["score"], abs=1e-5)
    return Told(body["score"], failing, share=True)


def read_exercism(text: str) -> Told:
    body = held(text, schema("exercism"))
    assert len(text.encode()) <= 500_000
    return Told(None, Counter(test["name"] for test in body["tests"] if test["status"] == "fail"))


def read_classroom50(text: str) -> Told:
    body = held(text, schema("classroom50"))
    assert body["score"] <= body["max-score"]
    assert body["score"] == sum(test["score"] for test in body["tests"])
    assert body["max-score"] == sum(test["max-score"] for test in body["tests"])
    assert all(test["score"] <= test["max-score"] for test in body["tests"])
    failing = Counter(
        t["test-name"] for t in body["tests"] if not t["passed"] and not t.get("message", "").startswith("Not run")
    )
    if not body["max-score"]:
        return Told(None, failing if body["tests"] else None, share=True)
    return Told(body["score"] / body["max-score"], failing, share=True)


def read_submitty(text: str) -> Told:
    body = held(text, schema("submitty"))
    return Told(body["data"]["score"] if body["status"] == "success" else None, None, share=True)


def read_autolab(text: str) -> Told:
    assert text.endswith("}\n")
    lines = text.rstrip("\n").split("\n")
    body = json.loads(lines[-1])
    assert set(body) == {"scores"}
    assert not [line for line in lines[:-1] if line.startswith("{")]
    failing = Counter(
        found[1] for line in lines if (found := re.fullmatch(r"  FAILS: (.*) \([\d.]+/[\d.]+ points?\)", line))
    )
    return Told(sum(body["scores"].values()) if body["scores"] else None, failing)


def read_check50(text: str) -> Told:
    body = held(text, schema("check50"))
    names = [result["name"] for result in body["results"]]
    assert len(set(names)) == len(names)
    assert all(result["dependency"] is None or result["dependency"] in names for result in body["results"])
    points = [r["data"]["points"] for r in body["results"] if r["data"] and r["data"]["max_points"] is not None]
    failing = Counter(result["description"] for result in body["results"] if result["passed"] is False)
    return Told(None if None in points else sum(points), failing)


def read_csv(text: str) -> Told:
    rows = list(csv.DictReader(io.StringIO(text)))
    assert all(None not in row and None not in row.values() for row in rows)
    assert_no_formula(text)
    scores = [row["score"] for row in rows]
    return Told(None if "" in scores else sum(map(float, scores)), None)


def assert_no_formula(text: str) -> None:
    for row in csv.reader(io.StringIO(text)):
        for cell in row:
            assert not cell.strip() or cell.strip()[0] not in "=+-@＝＋－＠", cell
            assert "\n" not in cell and "\t" not in cell


def read_canvas(text: str) -> Told:
    rows = list(csv.DictReader(io.StringIO(text)))
    assert_no_formula(text)
    assert next(csv.reader(io.StringIO(text))) == [*csv_table.CANVAS, SETTING.assignment]
    return Told(float(rows[0][SETTING.assignment]) if rows else None, None)


def read_moodle(text: str) -> Told:
    rows = list(csv.DictReader(io.StringIO(text)))
    assert_no_formula(text)
    assert all(row["Identifier"] == "Participant 17" for row in rows)
    return Told(float(rows[0]["Grade"]) if rows else None, None)


def parse(text: str) -> Any:
    """The page as a browser reads it; anything that is not quite HTML is an error."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)


def words(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


def read_html(text: str) -> Told:
    page = parse(text)
    names = [element.tag for element in page.iter() if isinstance(element.tag, str)]
    assert "script" not in names and "img" not in names and "link" not in names and "iframe" not in names
    ids = [element.get("id") for element in page.iter() if element.get("id")]
    assert len(set(ids)) == len(ids)
    for element in page.iter():
        for attribute in ("href", "src", "action"):
            target = element.get(attribute)
            assert target is None or (target.startswith("#") and target[1:] in ids), target
        assert not any(key.startswith("on") for key in element.attrib)
        for attribute in ("aria-labelledby",):
            assert element.get(attribute) is None or element.get(attribute) in ids
        if element.tag == "th":
            assert element.get("scope") in ("row", "col")
    assert not re.search(r"url\(|@import|https?://", re.sub(r">[^<]*<", "><", text))
    failing: Counter[str] = Counter()
    for detail in page.iter("details"):
        if detail.get("class") == "fail":
            tags = [words(tag) for tag in detail.iter("span") if tag.get("class") == "tag"]
            title = words(detail.find("summary")).removeprefix("✗ ").partition(f" {tags[0]}")[0]
            if tags[0] != "advisory":
                failing[title] += 1
    (table,) = [t for t in page.iter("table") if t.get("class") == "overview"]
    cells = [cell for row in table.find("tbody").iter("tr") for cell in list(row)[-1:]]
    bold = [cell.find("b") if cell.find("b") is not None else None for cell in cells]
    return Told(None if None in bold else sum(float(each.text) for each in bold), failing)


READERS: dict[str, Callable[[str], Told]] = {
    "json": read_json,
    "junit": read_junit,
    "github": read_github,
    "gradescope": read_gradescope,
    "csv": read_csv,
    "html": read_html,
    "prairielearn": read_prairielearn,
    "exercism": read_exercism,
    "classroom50": read_classroom50,
    "canvas-csv": read_canvas,
    "moodle-csv": read_moodle,
    "submitty": read_submitty,
    "autolab": read_autolab,
    "check50": read_check50,
}


def told(name: str, *entries: Entry, setting: Setting = SETTING) -> Told:
    return READERS[name](formats.render(name, entries, setting))


def expected_failing(found: Report) -> Counter[str]:
    return Counter(
        digest.name(each.title) for each in found.checks if not each.advisory and digest.state(found, each) == "failed"
    )


def agrees(name: str, found: Report) -> None:
    """What a format tells of one report is what the report says."""
    got = told(name, entry(found))
    if found.score is None:
        assert got.score is None, "what could not be graded has no score"
        return
    if name != "exercism" and not (name == "classroom50" and got.score is None):
        share = found.score / found.max_score if found.max_score else float(found.passed)
        assert got.score == pytest.approx(share if got.share else found.score, abs=1e-5)
    if got.failing is not None:
        assert got.failing == expected_failing(found)


# --- the table --------------------------------------------------------------------------------------------------------


def test_every_format_that_was_promised_is_there_and_is_read_back_here() -> None:
    assert set(formats.NAMES) == set(READERS)
    for name, found in formats.FORMATS.items():
        assert found.name == name and found.about and "/" not in found.file


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        formats.render("jnuit", [], SETTING)
    assert "junit" in caught.value.next_step


@pytest.mark.parametrize("name", formats.NAMES)
def test_whose_results_a_format_takes(name: str) -> None:
    several = [entry(EVERYTHING, ANN), entry(EVERYTHING, BOB)]
    if formats.FORMATS[name].per == "class":
        assert formats.render(name, several, SETTING)
        assert formats.render(name, [], SETTING)
        return
    with pytest.raises(UsageError, match="one student, not of 2"):
        formats.render(name, several, SETTING)
    with pytest.raises(UsageError, match="no results"):
        formats.render(name, [], SETTING)


def test_a_renderer_reads_no_clock_and_no_environment() -> None:
    for path in (ROOT / "grader" / "reports").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            alias.name if isinstance(node, ast.Import) else str(node.module)
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert not imported & {"os", "time", "datetime", "random", "socket", "subprocess", "platform"}, path.name


# --- one report in every format ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", formats.NAMES)
def test_every_format_tells_the_same_of_real_results(name: str, graded: dict[str, Report]) -> None:
    assert graded["right"].passed and not graded["diagnosed"].passed and graded["diagnosed"].diagnoses
    assert graded["unloadable"].score == 0
    for found in graded.values():
        agrees(name, found)


@pytest.mark.parametrize("case", EXTREMES)
@pytest.mark.parametrize("name", formats.NAMES)
def test_every_format_stands_extreme_results(name: str, case: str) -> None:
    if case in ("odd texts", "long"):
        # Names are changed or cut there, so that only what is counted can be compared.
        got = told(name, entry(EXTREMES[case]))
        if got.failing is not None and case == "odd texts":
            assert got.failing.total() == expected_failing(EXTREMES[case]).total()
    else:
        agrees(name, EXTREMES[case])


@pytest.mark.parametrize("name", formats.NAMES)
def test_several_exercises_with_the_same_checks_stay_apart(name: str) -> None:
    other = replace(EVERYTHING, exercise="layer_norm")
    got = told(name, entry(EVERYTHING), entry(other))
    assert EVERYTHING.score is not None
    if got.score is not None:
        share = EVERYTHING.score / EVERYTHING.max_score
        assert got.score == pytest.approx(share if got.share else 2 * EVERYTHING.score, abs=1e-5)
    else:
        assert name == "exercism"
    if got.failing is not None:
        assert got.failing.total() == 2 * expected_failing(EVERYTHING).total()
        if name not in ("json", "junit", "html", "autolab", "github"):
            assert max(got.failing.values()) == 1, "a name for each"


@pytest.mark.parametrize("name", formats.NAMES)
def test_one_exercise_that_could_not_be_graded_leaves_no_sum(name: str) -> None:
    got = told(name, entry(EVERYTHING), entry(ungraded()))
    if name == "autolab":
        # Problems are scored one by one there.
        assert got.score == EVERYTHING.score
    else:
        assert got.score is None


@pytest.mark.parametrize("name", formats.NAMES)
def test_advisory_checks_never_count(name: str) -> None:
    plain = report(check("one"), check("two", "fail"))
    advised = report(check("one"), check("two", "fail"), check("three", "fail", 7.0, advisory=True))
    assert told(name, entry(plain)) == told(name, entry(advised))


@pytest.mark.parametrize("name", formats.NAMES)
def test_a_check_that_could_not_be_decided_is_not_held_against_anyone(name: str) -> None:
    found = report(check("one"), check("two", "skipped", 3.0, neutral=True, claim="Not run: nothing could be told."))
    assert found.passed and found.score == 4
    got = told(name, entry(found))
    if name != "exercism":
        assert got.score == (1 if got.share else 4)
    assert not got.failing


def test_what_could_not_be_decided_stands_as_passed_where_a_format_knows_no_third_state() -> None:
    found = report(check("one"), check("two", "skipped", 3.0, neutral=True, claim="Not run: nothing could be told."))

    def body(name: str) -> dict[str, Any]:
        text: dict[str, Any] = json.loads(formats.render(name, [entry(found)], SETTING))
        return text

    assert [test["status"] for test in body("gradescope")["tests"]] == ["passed", "passed"]
    assert body("exercism")["status"] == "pass" == body("exercism")["tests"][1]["status"]
    assert [test["passed"] for test in body("classroom50")["tests"]] == [True, True]
    assert body("check50")["results"][1]["passed"] is None
    assert "not held against you" in body("check50")["results"][1]["cause"]["rationale"]
    assert "(points given)" in formats.render("html", [entry(found)], SETTING)


# --- who may see what -------------------------------------------------------------------------------------------------


def secrets_of(found: Report) -> set[str]:
    """Seed, tokens, values and calls that stand in a report for staff."""
    words = {str(found.seed)}
    for each in found.checks:
        if each.case is not None:
            words.add(each.case.token)
        if each.explanation is not None:
            lines = [line for _, block in each.explanation.blocks for line in block.split("\n")]
            words |= {line.strip() for line in [*lines, each.explanation.call] if len(line.strip()) >= 6}
            if each.explanation.rerun:
                words.add(each.explanation.rerun)
    return words


@pytest.mark.parametrize("name", formats.NAMES)
def test_nothing_of_a_shared_seed_is_in_what_students_see(name: str, graded: dict[str, Report]) -> None:
    seen = 0
    for case, found in graded.items():
        if case == "unloadable":
            # Its message is about the file itself, and there is no case yet.
            continue
        words = {word for word in secrets_of(found) if word not in _texts_of(for_student(found))}
        assert str(SEED) in words
        text = formats.render(name, [entry(for_student(found))], SETTING)
        # As a reader sees it, whatever the format escapes.
        plain = html.unescape(unescaped(text)).replace('\\"', '"').replace("\\n", "\n").replace("\\", "")
        assert not [word for word in words if word in plain or word in text], case
        staff = formats.render(name, [entry(found)], SETTING)
        seen += str(SEED) in staff
    if name in ("json", "junit", "gradescope", "html", "github"):
        assert seen, "staff see it, so that the test above can fail"


def _texts_of(found: Report) -> str:
    """What for_student leaves of a report's claims and helps: titles and sentences may name a shape or a number."""
    return " ".join(f"{each.title} {each.message} {each.hint}" for each in found.checks)


# --- single formats ---------------------------------------------------------------------------------------------------


def test_json_of_one_is_the_report_itself_and_of_several_says_whose_it_is() -> None:
    assert json.loads(formats.render("json", [entry(EVERYTHING)], SETTING))["exercise"] == "softmax"
    body = held(formats.render("json", [entry(EVERYTHING), entry(ungraded(), BOB, 3)], SETTING), ENTRIES)
    assert [each["student"]["key"] for each in body["reports"]] == ["ann", "bob"]
    assert body["ungraded"] == 1 and body["score"] is None and not body["passed"]
    assert body["reports"][1]["attempts"] == 3


def test_junit_has_a_kind_for_each_verdict_and_a_suite_for_each_student() -> None:
    text = formats.render("junit", [entry(EVERYTHING, ANN), entry(ungraded(), BOB)], SETTING)
    first, second = list(JUnitXml.fromstring(text.encode()))
    assert first.name == "ann.softmax" and second.name == "bob.layer_norm"
    kinds = {case.name: [(type(each), each.type) for each in case.result] for case in first}
    assert kinds["the first"] == []
    assert kinds["the failing"] == [(Failure, "fail")]
    assert kinds["the slow"] == [(Failure, "timeout")]
    assert kinds["the blocked"] == kinds["the undecided"] == kinds["the advised"] == [(Skipped, None)]
    assert {type(each) for case in second for each in case.result} == {Error}


def test_junit_without_checks_is_no_empty_success() -> None:
    nothing = report(status="not_graded", score=None, passed=False, reason="nothing was there")
    (suite,) = JUnitXml.fromstring(formats.render("junit", [entry(nothing)], SETTING).encode())
    assert [type(each) for case in suite for each in case.result] == [Error]


def test_xml_holds_what_it_can_and_marks_what_it_cannot() -> None:
    everything = "".join(map(chr, [*range(0x20), 0x7F, 0x85, 0xD800, 0xDFFF, 0xFFFD, 0xFFFE, 0xFFFF, 0x10FFFF]))
    element = ElementTree.Element("a", b=junit.clean(everything))
    element.text = junit.clean(everything)
    back = ElementTree.fromstring(ElementTree.tostring(element, encoding="utf-8"))
    assert "\t\n" in str(back.text) and "\ufffd" in str(back.get("b"))


def test_github_takes_the_most_telling_failure_of_each_exercise_first() -> None:
    many = [report(*(check(f"c{i}", "fail") for i in range(8)), exercise=f"exercise_{n}") for n in range(4)]
    lines = formats.render("github", [entry(each) for each in many], SETTING).split("\n")
    errors = [line for line in lines if line.startswith("::error")]
    assert len(errors) == 10 and "23 more failing checks" in errors[-1]
    assert all(f"exercise_{n}%3A" in errors[n] for n in range(4))


def test_github_links_the_line_that_a_message_names() -> None:
    found = report(check("one", "fail", claim="Wrong.\nwhere softmax.py:4   x -= 1"))
    found = replace(found, submission={"path": "/repo/student/softmax.py", "sha256": None})
    setting = replace(SETTING, environment={"GITHUB_WORKSPACE": "/repo"})
    first = formats.render("github", [entry(found)], setting).partition("\n")[0]
    assert first.startswith("::error file=student/softmax.py,line=4,title=softmax%3A the one::Wrong.%0Awhere")


@pytest.mark.parametrize(
    "text", [HOSTILE, "::error::x", "\n::error::x", "a\r::error::x", "``` \n````\n::x", "x\u2028::y"]
)
def test_nothing_a_student_writes_is_a_command(text: str) -> None:
    found = report(check("one", "fail", claim=text, title=text, hint=text), output=text, exercise="softmax")
    found = replace(found, submission={"path": f"{text}.py", "sha256": None})
    out = formats.render(
        "github", [entry(found), entry(ungraded("b", text)), entry(replace(found, exercise="c"))], SETTING
    )
    read_github(out)
    # The runner splits lines at CR as well, and trims white space of every kind.
    commands = [line for line in re.split(r"[\r\n]", out) if line.strip().startswith("::")]
    assert len(commands) == 4 and len([line for line in commands if line.startswith("::error")]) == 3


def test_markdown_is_said_not_meant() -> None:
    said = r"a\|b &lt;b&gt; \[x\](y) \`c\` \*d\* \_e\_ \#f \@g"
    assert github.md("a|b <b> [x](y) `c` *d* _e_ #f @g") == said
    assert github.fenced("a\n```\nb")[0] == "````text"


def test_gradescope_without_a_grade_says_so_and_gives_no_zero() -> None:
    body = json.loads(formats.render("gradescope", [entry(EVERYTHING), entry(ungraded())], SETTING))
    assert "score" not in body and "grader's fault" in body["output"]
    assert not any("score" in test for test in body["tests"])
    with pytest.raises(UsageError, match="visibility"):
        formats.render("gradescope", [entry(EVERYTHING)], replace(SETTING, visibility="staff"))
    hidden = json.loads(
        formats.render("gradescope", [entry(EVERYTHING)], replace(SETTING, visibility="after_due_date"))
    )
    assert hidden["visibility"] == "after_due_date" == hidden["tests"][0]["visibility"]


def test_exercism_fails_where_something_ran_and_errs_where_nothing_did(graded: dict[str, Report]) -> None:
    for name, status in (("right", "pass"), ("diagnosed", "fail"), ("unloadable", "error"), ("raising", "fail")):
        body = json.loads(formats.render("exercism", [entry(graded[name])], SETTING))
        assert body["status"] == status, name
    body = json.loads(formats.render("exercism", [entry(graded["printing"])], SETTING))
    assert [len(test["output"]) <= 500 for test in body["tests"] if "output" in test] == [True]
    long = replace(EVERYTHING, output="x" * 501)
    body = json.loads(formats.render("exercism", [entry(long)], SETTING))
    (output,) = [test["output"] for test in body["tests"] if "output" in test]
    assert len(output) == 500 and "truncated" in output


def test_prairielearn_takes_no_attempt_for_a_fault_of_the_grader() -> None:
    body = json.loads(formats.render("prairielearn", [entry(ungraded())], SETTING))
    assert body["gradable"] is False and "no worker could be started" in body["format_errors"][0]


def test_classroom50_counts_in_whole_numbers() -> None:
    found = report(check("half", points=0.5), check("third", "fail", 1 / 3), check("two", points=2.0))
    body = json.loads(formats.render("classroom50", [entry(found)], SETTING))
    assert (body["score"], body["max-score"]) == (15, 17)
    nothing = json.loads(formats.render("classroom50", [entry(ungraded())], SETTING))
    assert (nothing["score"], nothing["max-score"], nothing["tests"]) == (0, 0, [])


def test_classroom50_needs_its_runner() -> None:
    with pytest.raises(UsageError, match="SUBMISSION_TAG"):
        formats.render("classroom50", [entry(EVERYTHING)], replace(SETTING, environment={"CLASSROOM": "a"}))
    with pytest.raises(UsageError, match="UTC"):
        formats.render("classroom50", [entry(EVERYTHING)], replace(SETTING, generated="yesterday"))
    short = {key: value for key, value in RUNNER.items() if key != "REVIEW_URL"}
    body = json.loads(formats.render("classroom50", [entry(EVERYTHING)], replace(SETTING, environment=short)))
    assert body["review"] == RUNNER["COMMIT_URL"]


def test_submitty_and_autolab_have_no_score_for_what_was_not_graded() -> None:
    assert json.loads(formats.render("submitty", [entry(ungraded())], SETTING))["status"] == "failure"
    text = formats.render("autolab", [entry(EVERYTHING), entry(ungraded())], SETTING)
    assert json.loads(text.strip().split("\n")[-1]) == {"scores": {"softmax": EVERYTHING.score}}


def test_check50_names_what_blocks(graded: dict[str, Report]) -> None:
    body = json.loads(formats.render("check50", [entry(graded["unloadable"])], SETTING))
    first, *rest = body["results"]
    assert first["passed"] is False and first["cause"]["rationale"]
    assert rest and all(each["passed"] is None and each["dependency"] == first["name"] for each in rest)


# --- tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1", "=cmd|' /C calc'!A0", "\x00=1", "\u202e=1"],
)
def test_no_cell_is_a_formula(text: str) -> None:
    person = Person(text, text, {"canvas": text, "moodle": "17", "login": text, "sis": text, "section": text})
    found = replace(EVERYTHING, exercise=text)
    for name in ("csv", "canvas-csv", "moodle-csv"):
        assert_no_formula(formats.render(name, [entry(found, person)], replace(SETTING, assignment=text)))


def test_cells_come_back_as_they_were() -> None:
    for text in ('a,b "c"', "Ångström", "x;y", "'quoted'"):
        (row,) = csv.DictReader(io.StringIO(formats.render("csv", [entry(EVERYTHING, Person(text, text))], SETTING)))
        assert row["student"] == text == row["name"]


CANVAS_ROSTER = (
    "\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Other (1),Attention (4711),Attention (4711) more\n"
    "    Points Possible,,,,,10,20,5\n"
    '"Ångström, Ann",101,s1,ann,"A, B",3,,\n'
    "Bob,102,s2,BOB,A,,9,\n"
    "Cleo,103,s3,cleo,A,,9,\n"
    '"Student, Test",104,,feedface,A,,,\n'
)


def test_canvas_fills_the_column_of_its_own_export_and_leaves_out_whom_it_does_not_know() -> None:
    setting = replace(SETTING, roster=CANVAS_ROSTER, assignment="Attention", points=20)
    entries = [entry(EVERYTHING), entry(replace(EVERYTHING, exercise="b"), BOB), entry(ungraded(), Person("cleo"))]
    entries.append(entry(EVERYTHING, Person("dan")))
    text = formats.render("canvas-csv", entries, setting)
    header, *rows = csv.reader(io.StringIO(text))
    assert header == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Attention (4711)"]
    # Three exercises are in the class, and each student has one of them.
    most = sum(digest.exercises(entries).values())
    grade = pytest.approx(20 * (EVERYTHING.score or 0) / most, abs=1e-5)
    assert [(row[0], row[1], float(row[5])) for row in rows] == [("Ångström, Ann", "101", grade), ("Bob", "102", grade)]
    assert csv_table.unmatched("canvas-csv", entries, setting) == ("dan",)


def test_moodle_gives_its_worksheet_back_with_grades() -> None:
    roster = (
        "Identifier,Full name,Email address,Status,Grade,Maximum grade\n"
        "Teilnehmer/in17,Ann,ann@example.edu,Submitted,,20\n"
        "Teilnehmer/in18,Bob,BOB@example.edu,Submitted,7,20\n"
        "Teilnehmer/in171,Cleo,c@example.edu,,5,20\n"
    )
    setting = replace(SETTING, roster=roster)
    entries = [entry(EVERYTHING), entry(ungraded(), Person("bob@example.edu")), entry(EVERYTHING, Person("dan"))]
    rows = list(csv.DictReader(io.StringIO(formats.render("moodle-csv", entries, setting))))
    assert [(row["Identifier"], float(row["Grade"]), row["Status"]) for row in rows] == [
        ("Teilnehmer/in17", EVERYTHING.score, "Submitted")
    ]
    assert csv_table.unmatched("moodle-csv", entries, setting) == ("dan",)
    with pytest.raises(UsageError, match="participant number"):
        formats.render("moodle-csv", [entry(EVERYTHING, BOB)], SETTING)


def test_a_roster_that_is_none_or_not_clear_is_refused() -> None:
    with pytest.raises(UsageError, match="no column `ID`"):
        formats.render("canvas-csv", [entry(EVERYTHING)], replace(SETTING, roster="Name,Grade\nAnn,1\n"))
    twice = CANVAS_ROSTER + "Ann Other,105,s9,ANN,A,,,\n"
    other = Person("ann")
    with pytest.raises(UsageError, match="not clear"):
        formats.render("canvas-csv", [entry(EVERYTHING, other)], replace(SETTING, roster=twice))
    with pytest.raises(UsageError, match="not clear"):
        claims = [entry(EVERYTHING, ANN), entry(EVERYTHING, Person("x", ids={"login": "Ann"}))]
        formats.render("canvas-csv", claims, replace(SETTING, roster=CANVAS_ROSTER))


# --- the page of a class ----------------------------------------------------------------------------------------------


def test_the_page_counts_checks_and_mistakes_over_the_class(graded: dict[str, Report]) -> None:
    people = [Person(f"s{i}", name) for i, name in enumerate(["Zoë", "Élan", "Ada", "<b>Bo</b>"])]
    softmax = [graded[name] for name in ("right", "diagnosed", "diagnosed", "unloadable")]
    entries = [entry(found, person) for found, person in zip(softmax, people, strict=True)]
    entries += [entry(ungraded(), people[0]), entry(EXTREMES["no checks"], people[1])]
    entries[-1] = entry(replace(EXTREMES["no checks"], exercise="empty"), people[1])
    page = parse(formats.render("html", entries, SETTING))
    (table,) = [t for t in page.iter("table") if t.get("class") == "overview"]
    rows = {words(row.find("th")): [words(cell) for cell in row.iter("td")] for row in table.find("tbody").iter("tr")}
    assert list(rows) == ["<b>Bo</b>", "Ada", "Élan", "Zoë"]
    most = f"{graded['right'].max_score:g}"
    assert (
        rows["Zoë"][0] == f"{most}/{most}✓, passed"
        and rows["Zoë"][1] == "!not graded"
        and rows["Zoë"][3] == "!not graded"
    )
    assert rows["Ada"][1] == "·not handed in"
    checks = [t for t in page.iter("table") if t.get("class") == "checks"]
    first = {words(row.find("th")): words(row.findall("td")[-1]) for row in checks[0].find("tbody").iter("tr")}
    for at, each in enumerate(softmax[0].checks):
        states = Counter(digest.state(found, found.checks[at]) for found in softmax)
        counts = f"{states['passed']} of 4 pass, {states['failed']} fail, {states['blocked']} not run"
        assert first[each.title + (" advisory" if each.advisory else "")] == counts
    assert len(set(first.values())) > 1
    states = Counter(digest.state(found, found.checks[0]) for found in softmax)
    widths = [float(rect.get("width")) for rect in next(checks[0].iter(f"{SVG}svg")).iter(f"{SVG}rect")]
    assert widths == [100.0, 25.0 * (states["passed"] + states["blocked"]), 25.0 * states["passed"]]
    (mistakes,) = [ul for ul in page.iter("ul") if ul.get("class") == "mistakes"]
    (mistake,) = mistakes.findall("li")
    assert words(mistake).startswith("2 of 4 students:") and "Ada" in words(mistake) and "Élan" in words(mistake)


def test_the_page_shows_every_part_of_a_failing_check(graded: dict[str, Report]) -> None:
    found = graded["diagnosed"]
    page = parse(formats.render("html", [entry(found)], SETTING))
    shown = [detail for detail in page.iter("details") if detail.get("class") == "fail" and "open" in detail.attrib]
    assert len(shown) == 1
    text = words(shown[0])
    leading = next(each for each in found.checks if each.explanation and f" {each.title} " in f" {text} " and each.hint)
    assert leading.explanation is not None and leading.explanation.likely is not None and leading.case is not None
    for part in (leading.explanation.claim, leading.explanation.likely, leading.explanation.call, leading.hint):
        assert text.count(" ".join(str(part).split())) == 1, part
    assert leading.case.token in text


def test_a_long_page_is_cut_and_says_so() -> None:
    text = formats.render("html", [entry(EXTREMES["long"])], SETTING)
    assert len(text) < 2_000_000 and "cut here" in text


def test_what_is_cut_says_so_everywhere() -> None:
    assert digest.cut("abc", 3) == "abc" and digest.cut("x" * 100, 10) == "x" * 9 + "…"
    assert digest.cut("x" * 1000, 100).endswith("1000 characters, cut here")
    for name in (
        "junit",
        "github",
        "gradescope",
        "prairielearn",
        "exercism",
        "submitty",
        "autolab",
        "check50",
        "classroom50",
    ):
        assert "cut here" in formats.render(name, [entry(EXTREMES["long"])], SETTING), name


def test_a_case_is_named_for_staff() -> None:
    known = check("one", "fail", case=CaseRef("random", 1, {"N": 2}, f"{SEED}:random-1"))
    assert known.explanation is not None
    known = replace(known, explanation=replace(known.explanation, rerun=f"grade softmax --case {SEED}:random-1"))
    for name in (
        "html",
        "gradescope",
        "junit",
        "github",
        "prairielearn",
        "autolab",
        "check50",
        "exercism",
        "classroom50",
    ):
        assert f"--case {SEED}:random-1" in unescaped(formats.render(name, [entry(report(known))], SETTING)), name
