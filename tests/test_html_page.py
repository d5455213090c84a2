"""The page of one submission, through the real command and held to the HTML standard; and what its pictures are made of."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import html5lib
import numpy as np
import pytest
from conftest import ROOT, Command
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from grader import picture
from grader.audience import for_student
from grader.model import CaseRef, CheckResult, Explanation, Grid, Panel, Picture, Report
from grader.reports import heat_map, html_page, record, terminal

SVG = "{http://www.w3.org/2000/svg}"
SEED = "7"
OPTIONS = ("--seed", SEED, "--isolation", "off", "--exercises", str(ROOT / "exercises"))
WRONG = ("you returned", "expected")


# --- reading a page ---------------------------------------------------------------------------------------------------


def parse(text: str) -> Any:
    """The page as a browser reads it; anything that is not quite HTML is an error."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)


def words(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


def parts(page: Any, name: str, tag: str = "*") -> list[Any]:
    """Elements of a class."""
    return [element for element in page.iter() if isinstance(element.tag, str) and name in (element.get("class") or "").split()
            and tag in ("*", element.tag)]  # fmt: skip


def figures(page: Any) -> list[Any]:
    return [element for element in page.iter(f"{SVG}svg") if element.get("role") == "img"]


def well_made(text: str) -> Any:
    """A page that stands for itself: no scripts, nothing fetched, ids once, links inside, pictures with names and tables."""
    page = parse(text)
    tags = [element.tag for element in page.iter() if isinstance(element.tag, str)]
    assert not {"script", "img", "link", "iframe", "object", "embed", "form", "base"} & set(tags)
    ids = [element.get("id") for element in page.iter() if element.get("id")]
    assert len(set(ids)) == len(ids)
    for element in page.iter():
        if not isinstance(element.tag, str):
            continue
        for attribute in ("href", "src", "action", "{http://www.w3.org/1999/xlink}href"):
            target = element.get(attribute)
            assert target is None or (target.startswith("#") and target[1:] in ids), target
        assert not any(str(key).startswith("on") for key in element.attrib)
        if element.tag == "th":
            assert element.get("scope") in ("row", "col")
    assert not re.search(r"url\(|@import|https?://", re.sub(r">[^<]*<", "><", text))
    for figure in page.iter("figure"):
        assert figure.find(".//table") is not None and words(figure.find("figcaption"))
    for svg in page.iter(f"{SVG}svg"):
        if svg.get("role") == "img":
            assert words(svg.find(f"{SVG}title")) and words(svg.find(f"{SVG}desc"))
        else:
            assert svg.get("aria-hidden") == "true"
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    return page


def hand_in(folder: Path, exercise: str, fixture: str = "", text: str = "") -> Path:
    path = folder / f"{exercise}.py"
    if fixture:
        shutil.copyfile(ROOT / "fixtures" / exercise / "wrong" / f"{fixture}.py", path)
    else:
        path.write_text(text, encoding="utf-8")
    return path


def paged(command: Command, folder: Path, exercise: str, *options: str) -> str:
    ran = command("grade", exercise, *OPTIONS, "--html", "page.html", *options)
    assert ran.code in (0, 1), ran.err
    text = (folder / "page.html").read_text(encoding="utf-8")
    assert len(text.encode()) < 1_000_000
    return text


# --- pages of real submissions ----------------------------------------------------------------------------------------


def test_a_wrong_result_is_shown_with_all_its_evidence(command: Command, tmp_path: Path) -> None:
    hand_in(tmp_path, "multi_head_attention", "features_dealt_out")
    ran = command("grade", "multi_head_attention", *OPTIONS, "--html", "page.html", "--json", "report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    page = well_made((tmp_path / "page.html").read_text(encoding="utf-8"))
    text = words(page.find("body"))
    assert f"✗ not passed {report['score']:g} of {report['max_score']:g} points" in text
    (first,) = parts(page, "first", "section")
    title = words(first.find(".//h3"))
    check = next(check for check in report["checks"] if check["title"] == title)
    assert title in ran.out and f"--case {check['case']['token']}" in words(first)
    for line in check["message"].splitlines():
        if line.startswith(("note", "likely cause")) or not line.startswith(" "):
            assert " ".join(line.replace("`", "").split()) in words(first), line
    assert check["hint"] in words(first)
    assert [words(svg.find(f"{SVG}title")) for svg in figures(first)] == [
        f"{label}, example 0" for label in (*WRONG, "difference")
    ]
    listed = [words(item) for item in parts(page, "checks", "ul")[0].findall("li")]
    assert len(listed) == len(report["checks"])
    for each, item in zip(report["checks"], listed, strict=True):
        worth = "advisory" if each["advisory"] else f"{each['points']:g}/{each['max_points']:g} point"
        assert each["title"] in item and worth in item
    assert "a hint grade multi_head_attention --hint" in text
    assert f"same cases again grade multi_head_attention --seed {SEED}" in text


def test_what_depends_on_what_is_a_grid_beside_the_expected_one(command: Command, tmp_path: Path) -> None:
    hand_in(tmp_path, "encoder_decoder_forward", "causal_cross_always")
    page = well_made(paged(command, tmp_path, "encoder_decoder_forward"))
    (first,) = parts(page, "first", "section")
    yours, expected = figures(first)
    assert "3 outputs by 7 inputs; 6 of 21 outputs change with an input; 15 of 21 marked" in words(yours)
    assert "21 of 21 outputs change with an input." in words(expected)
    rows = [[words(cell) for cell in row.iter("td")] for row in first.find(".//tbody").iter("tr")]
    assert [[cell.startswith("changes") for cell in row] for row in rows] == [
        [c <= r for c in range(7)] for r in range(3)
    ]
    assert rows[0][1] == "stays ✗ (expected: changes)"
    assert "likely cause: the causal mask is also applied to cross-attention." in words(first)
    opened = [each for each in page.iter("details") if "open" in each.attrib]
    assert len(opened) == 1 and len(figures(opened[0])) == 3, "the smallest failing case is open too"


def test_a_changed_argument_is_shown_before_and_after(command: Command, tmp_path: Path) -> None:
    hand_in(tmp_path, "softmax", "in_place")
    page = well_made(paged(command, tmp_path, "softmax"))
    heads = [words(svg.find(f"{SVG}title")).partition(",")[0] for svg in figures(page)]
    at = heads.index("x before")
    assert heads[at : at + 3] == ["x before", "x after", "difference"]


def test_every_picture_of_a_page_tells_what_the_message_tells(command: Command, tmp_path: Path) -> None:
    hand_in(tmp_path, "apply_rope", "starts_and_counts")
    page = well_made(paged(command, tmp_path, "apply_rope"))
    seen = 0
    for figure in page.iter("figure"):
        found = re.search(r"(\d+) of (\d+) differs? ", words(figure.find("figcaption")) + " ")
        assert found is not None
        rows = [words(row) for row in figure.find(".//tbody").iter("tr")]
        if len(rows) == int(found[2]):
            assert sum("✗ differs" in row for row in rows) == int(found[1])
            seen += 1
    assert seen


def test_what_passes_is_a_short_page(command: Command, tmp_path: Path) -> None:
    (tmp_path / "softmax.py").write_bytes((ROOT / "reference" / "attention" / "softmax" / "solution.py").read_bytes())
    text = paged(command, tmp_path, "softmax")
    page = well_made(text)
    assert "✓ passed" in words(page.find("body")) and not figures(page) and len(text) < 30_000
    assert "--hint" not in text


@pytest.mark.parametrize(
    ("exercise", "fixture", "expected"),
    [("softmax", "textbook", "nan"), ("top_p_filter", "large_negative", "−inf"), ("decoder_lm_loss", "bits_for_nats", "")],
)  # fmt: skip
def test_numbers_without_a_colour(command: Command, tmp_path: Path, exercise: str, fixture: str, expected: str) -> None:
    """nan and infinity have a shade of their own; a single number has no picture."""
    hand_in(tmp_path, exercise, fixture)
    page = well_made(paged(command, tmp_path, exercise))
    drawn = " ".join(words(svg) for svg in figures(page))
    assert expected in drawn and bool(drawn) == bool(expected)
    assert bool([each for each in page.iter("figure") if parts(each, "odd")]) == bool(expected)


HOSTILE = """\
import numpy as np

TEXT = "</pre></style></svg><script>alert(1)</script><img src=x onerror=alert(1)>&amp;<!-- \\x1b[31m \\x00 \\ufffe ]]>"


def softmax(x, axis):
    print(TEXT)
    print("y" * 300_000)
    if x.ndim > 1:
        raise ValueError(TEXT * 50)
    return np.exp(x)
"""


def test_hostile_texts_stay_texts(command: Command, tmp_path: Path) -> None:
    (tmp_path / "<b>&softmax.py").write_text(HOSTILE, encoding="utf-8")
    ran = command("grade", "softmax", "<b>&softmax.py", *OPTIONS, "--html", "page.html")
    assert ran.code == 1, ran.err
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = well_made(text)
    assert len(text) < 1_000_000 and "<script" not in text and "\x1b" not in text and "\x00" not in text
    shown = words(page.find("body"))
    assert shown.count("<script>alert(1)</script>") >= 2 and "<b>&softmax.py" in shown and "cut here" in shown


@pytest.mark.parametrize("reveal", ["summary", "verdict"])
def test_what_is_kept_from_a_student_is_in_no_picture(command: Command, tmp_path: Path, reveal: str) -> None:
    track = tmp_path / "exercises" / "attention"
    name = "multi_head_attention"
    shutil.copytree(ROOT / "exercises" / "attention" / name, track / name)
    shutil.copy(ROOT / "exercises" / "attention" / "track.yaml", track)
    shutil.copytree(ROOT / "reference" / "attention" / name, tmp_path / "reference" / "attention" / name)
    written = track / name / "exercise.yaml"
    plain = re.sub(r"^(reveal|builds_on):.*\n", "", written.read_text(encoding="utf-8"), flags=re.M)
    written.write_text(f"{plain}\nreveal: {reveal}\n", encoding="utf-8")
    wrong = (ROOT / "fixtures" / name / "wrong" / "reads_the_future.py").read_text(encoding="utf-8")
    (tmp_path / f"{name}.py").write_text(wrong + "\nprint('seen')\n", encoding="utf-8")
    ran = command(
        "grade",
        name,
        "--seed",
        "314159",
        "--isolation",
        "off",
        "--exercises",
        tmp_path / "exercises",
        "--html",
        "p.html",
    )
    assert ran.code == 1, ran.err
    text = (tmp_path / "p.html").read_text(encoding="utf-8")
    page = well_made(text)
    assert (
        not figures(page)
        and "you returned" not in text
        and "0." not in words(page.find("body")).partition("tensorgrade")[0]
    )
    if reveal == "verdict":
        assert "314159" not in text and "--case" not in text and "seen" not in text
    else:
        assert "--case 314159" in text


# --- the option -------------------------------------------------------------------------------------------------------


def test_where_the_page_goes(command: Command, tmp_path: Path) -> None:
    hand_in(tmp_path, "softmax", "scores_over_sum")
    printed = command("grade", "softmax", *OPTIONS, "--html", "-")
    assert printed.code == 1 and printed.err == ""
    well_made(printed.out)
    unwritable = command("grade", "softmax", *OPTIONS, "--html", "no/such/folder.html")
    assert unwritable.code == 3 and "cannot be written" in unwritable.err and "not passed" in unwritable.out
    both = command("grade", "softmax", *OPTIONS, "--html", "-", "--json", "-")
    assert both.code == 2 and "cannot both go to standard output" in both.err and both.out == ""
    watched = command("grade", "softmax", "--watch", "--html", "page.html")
    assert watched.code == 2 and "--watch" in watched.err


def test_the_same_run_is_the_same_page(command: Command, tmp_path: Path) -> None:
    hand_in(tmp_path, "softmax", "scores_over_sum")
    assert paged(command, tmp_path, "softmax") == paged(command, tmp_path, "softmax")


def test_a_folder_is_one_page_with_a_section_each(command: Command, tmp_path: Path) -> None:
    hand_in(tmp_path, "softmax", "scores_over_sum")
    (tmp_path / "causal_mask.py").write_bytes(
        (ROOT / "reference" / "attention" / "causal_mask" / "solution.py").read_bytes()
    )
    ran = command("grade", "--all", *OPTIONS, "--html", "page.html")
    assert ran.code == 1, ran.err
    page = well_made((tmp_path / "page.html").read_text(encoding="utf-8"))
    (table,) = parts(page, "overview", "table")
    rows = {words(row.find("th")): words(row).partition(" ")[2] for row in table.find("tbody").iter("tr")}
    assert rows["causal_mask"].endswith("✓ passed") and rows["softmax"].endswith("✗ not passed")
    assert [words(section.find(".//h2")) for section in parts(page, "exercise", "section")] == list(rows)


# --- reports made up --------------------------------------------------------------------------------------------------


def report(*checks: CheckResult, **changes: Any) -> Report:
    made = Report(
        "toy", {"path": "toy.py", "sha256": None}, 7, "graded", False, 0.0, float(len(checks)), checks, (), {}, {}, {"grader": "1"}
    )  # fmt: skip
    return replace(made, **changes)


def failing(name: str, explanation: Explanation) -> CheckResult:
    ref = CaseRef("random", 1, {"N": 2}, f"7:{name}")
    bare = Explanation("Values differ from the reference.")
    return CheckResult(name, name, "fail", 0.0, 1.0, explanation=explanation, case=ref, bare=bare)


def drawn(mine: np.ndarray, theirs: np.ndarray, axes: tuple[str, ...] = ()) -> Picture | None:
    with np.errstate(invalid="ignore"):
        wrong = ~((mine == theirs) | ((mine != mine) & (theirs != theirs)))
    return picture.draw(mine, theirs, np.asarray(wrong), WRONG, axes, allowed=1e-9)


def test_nothing_to_see_has_no_picture() -> None:
    assert drawn(np.array(1.0), np.array(2.0)) is None
    assert drawn(np.zeros((0, 3)), np.zeros((0, 3))) is None
    assert drawn(np.zeros((1, 1)), np.ones((1, 1))) is None
    wrong = np.ones((2, 3), dtype=bool)
    assert picture.draw(np.zeros((2, 3)), np.ones((3, 2)), wrong, WRONG) is None


@settings(max_examples=30, deadline=None)
@given(
    arrays.arrays(st.sampled_from([np.float64, np.float32, np.int64, np.bool_, np.uint8]), arrays.array_shapes(min_dims=1, max_dims=6, max_side=4)),
    st.data(),
)  # fmt: skip
def test_a_picture_comes_back_from_the_record_and_makes_a_page(mine: np.ndarray, data: st.DataObject) -> None:
    """Any numbers, nan and infinity among them, any number of axes."""
    theirs = data.draw(arrays.arrays(mine.dtype, mine.shape))
    found = drawn(mine, theirs, tuple(f"axis{k}" for k in range(mine.ndim)) if data.draw(st.booleans()) else ())
    if found is None:
        assert mine.size < 2
        return
    made = report(failing("one", Explanation("Values differ.", picture=found)))
    text = record.dump(made)
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert record.load(text) == made
    page = well_made(html_page.render([made]))
    assert len(figures(page)) == 3 * len(found.panels)
    differing = sum(sum(map(sum, panel.wrong)) for panel in found.panels)
    assert differing == found.wrong or found.left_out
    assert max(map(len, picture.text(found, 60).splitlines())) <= 60


def test_a_large_result_is_cut_around_the_worst_element() -> None:
    mine, theirs = np.zeros((5, 6, 200, 300)), np.zeros((5, 6, 200, 300))
    mine[3, 4, 150, 250] = 1.0
    mine[4, 5, 0, 0] = 0.5
    found = picture.draw(mine, theirs, mine != theirs, WRONG, ("a", "b", "c", "d"), (3, 4, 150, 250))
    assert found is not None and found.cells <= picture.MAX_CELLS and (found.left_out, found.left_out_wrong) == (29, 1)
    (panel,) = found.panels
    assert panel.at == (3, 4) and panel.got[150 - found.first[0]][250 - found.first[1]] == 1.0
    shown = html_page.render([report(failing("one", Explanation("Values differ.", picture=found)))])
    page = well_made(shown)
    notes = words(next(page.iter("figure")))
    assert "Only c 118 to 181 of 200 is shown" in notes and "Only d 218 to 281 of 300 is shown" in notes
    assert "29 more places along a, b are not shown, 1 of them with differences." in notes


def test_many_large_pictures_are_still_one_page() -> None:
    numbers = np.random.default_rng(0).normal(size=(8, 64, 64))
    found = drawn(numbers, -numbers, ("head", "query", "key"))
    assert found is not None
    text = "x" * 5_000
    checks = [
        failing(f"check {at}", Explanation("Values differ.", blocks=(("a", text),), picture=found)) for at in range(30)
    ]
    kept = picture.kept([check.explanation for check in checks], checks[4].explanation)
    assert kept[4] is checks[4].explanation
    assert sum(each.picture.cells for each in kept if each and each.picture) <= picture.MAX_REPORT_CELLS
    stored = [replace(check, explanation=each) for check, each in zip(checks, kept, strict=True)]
    for reports in ([report(*checks[:8])], [report(*stored, exercise=f"toy{at}") for at in range(6)]):
        page = html_page.render(reports)
        assert len(page.encode()) < 1_000_000
        assert "left out to keep the page small" in page
        assert len(list(well_made(page).iter("li"))) >= sum(len(each.checks) for each in reports)


def test_a_student_of_a_secret_class_sees_no_picture() -> None:
    found = drawn(np.zeros((2, 3)), np.ones((2, 3)))
    grid = Grid("token", "x", ((True, True), (None, True)), ((True, False), (True, True)))
    explanation = Explanation("Values differ.", call="f(x)", picture=found, grid=grid, rerun="grade toy --case 7:one")
    made = report(failing("one", explanation), output="seen")
    assert len(figures(parse(html_page.render([made])))) == 5
    page = html_page.render([for_student(made)])
    assert not figures(well_made(page)) and "f(x)" not in page and "--seed" not in page and "seen" not in page


def test_a_run_that_failed_is_no_zero() -> None:
    page = well_made(html_page.render([report(status="not_graded", score=None, reason="no room <here>")]))
    assert "! not graded" in words(page) and "no room <here>" in words(page) and "0 of" not in words(page.find("body"))


def test_a_fragment_reaches_nothing_around_it() -> None:
    found = drawn(np.zeros((2, 3)), np.ones((2, 3)))
    text = html_page.fragment(report(failing("one", Explanation("Values differ.", picture=found))))
    page = parse(f"<!DOCTYPE html><html><head><title>x</title></head><body>{text}</body></html>")
    assert len(figures(page)) == 3 and not [
        each for each in page.iter() if isinstance(each.tag, str) and each.get("id")
    ]
    (sheet,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    for selectors in re.findall(r"(?:^|[{}])\s*([^{}@]+)\{", re.sub(r"@media[^{]*\{", "", sheet)):
        for selector in selectors.split(","):
            assert re.match(r"(\[data-jp-theme-light=\"\w+\"\] )?\.tg\b", selector.strip()), selector


# --- colours and characters -------------------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """As https://www.w3.org/TR/WCAG21/#dfn-contrast-ratio."""
    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def test_every_text_can_be_read_on_every_shade() -> None:
    text = html_page.render([report()])
    sheets = re.findall(
        r"\.tg \{ color-scheme.*?\}|@media \(prefers-color-scheme: dark\) \{ \.tg \{.*?\}", text, re.DOTALL
    )
    assert len(sheets) == 2
    for sheet in sheets:
        colours = dict(re.findall(r"--([\w-]+): (#\w{6});", sheet))
        shades = [f"{side}{step}" for side in "np" for step in range(1, heat_map.SHADES + 1)]
        for shade in ("z", "odd", *shades):
            assert contrast(colours["ink"], colours[shade]) >= 4.5, shade
        for name in ("ink", "soft", "accent", "good", "bad", "warn"):
            for ground in ("page", "card", "code"):
                assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
        assert contrast(colours["soft"], colours["z"]) >= 4.5


def test_wild_numbers_leave_the_others_their_colours() -> None:
    scale = heat_map.of_values([-1.0, 0.5, 1.0] * 20 + [1e9], [])
    assert scale.cut and scale.shade(-1.0) < -1 and scale.shade(1e9) == heat_map.SHADES
    assert heat_map.of_values([-1.0, 2.0], [1e9]).high == 2.0
    assert heat_map.of_values([0.1, 0.9], []).low == 0.0 and heat_map.of_values([100.0, 101.0], []).low == 100.0
    assert heat_map.of_values([float("nan")], [float("inf")]).shade(0.0) == 0
    assert heat_map.of_values([-3.0, -1.0], []).shade(-3.0) == -heat_map.SHADES


def masked(wrong: np.ndarray, axes: tuple[str, ...]) -> Picture:
    found = picture.draw(wrong.astype(float), np.zeros(wrong.shape), wrong, WRONG, axes)
    assert found is not None
    return found


def test_a_map_in_characters_is_for_patterns() -> None:
    above = np.triu(np.ones((6, 6), dtype=bool), 1)
    heads = np.zeros((2, 4, 4), dtype=bool)
    heads[1] = True
    scattered = np.random.default_rng(1).random((6, 6)) < 0.4
    for mask in (above, above.T, heads, np.tile(np.arange(6) == 2, (6, 1))):
        found = masked(mask, ("head", "query", "key")[-mask.ndim :])
        assert picture.tells_more(found, patterned=True)
    assert not picture.tells_more(masked(scattered, ("query", "key")), patterned=True)
    assert picture.tells_more(masked(scattered, ("query", "key")), patterned=False)
    assert not picture.tells_more(masked(np.ones((6, 6), dtype=bool), ()), patterned=False), "nothing is right"
    assert not picture.tells_more(masked(above[:3, :3], ()), patterned=False), "all numbers are shown beside it"
    assert picture.text(masked(above[:5, :6], ("query", "key")), 60) == (
        "    key 0 1 2 3 4 5\n"
        "query 0 · ✗ ✗ ✗ ✗ ✗\n"
        "query 1 · · ✗ ✗ ✗ ✗\n"
        "query 2 · · · ✗ ✗ ✗\n"
        "query 3 · · · · ✗ ✗\n"
        "query 4 · · · · · ✗\n"
        "✗ differs   · agrees"
    )


def test_the_terminal_shows_it_within_its_width() -> None:
    heads = np.zeros((3, 4, 40), dtype=bool)
    heads[1] = True
    explanation = Explanation("Values differ.", picture=masked(heads, ("head", "query", "feature")))
    for width in (40, 60, 100):
        lines = [line.plain for line in terminal.page(report(failing("one", explanation)), width)]
        assert max(map(len, lines)) <= width and any("✗ ✗ ✗" in line for line in lines)
    likely = replace(explanation, likely="head 1 is wrong.")
    assert not any("✗ ✗ ✗" in line.plain for line in terminal.page(report(failing("one", likely)), 80))
    assert any("✗ ✗ ✗" in line.plain for line in terminal.page(report(failing("one", likely)), 80, verbose=True))


def test_panels_are_plain_values() -> None:
    found = drawn(np.array([[1.0, np.nan]]), np.array([[np.inf, 2.0]]), ("a", "b"))
    assert found is not None
    assert found.panels == (Panel((), ((1.0, "nan"),), (("inf", 2.0),), (("-inf", "nan"),), ((True, True),)),)
