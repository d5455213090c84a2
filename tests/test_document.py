"""YAML with places: values as YAML 1.2 reads them, traps refused, and every refusal where it stands."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.spec import document
from grader.spec.document import Document

LOADERS = [yaml.SafeLoader, *([yaml.CSafeLoader] if hasattr(yaml, "CSafeLoader") else [])]


def parse(text: str | bytes) -> Document:
    return document.parse(text if isinstance(text, bytes) else text.encode(), Document("file.yaml"))


def complaints(text: str | bytes) -> list[tuple[int, int, str]]:
    return [(finding.line, finding.column, finding.message) for finding in parse(text).findings]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("1E5", 1e5),
        ("-2.5e+3", -2500.0),
        (".5", 0.5),
        ("010", 10),
        ("+3", 3),
        ("-0", 0),
        ("no", "no"),
        ("on", "on"),
        ("Yes", "Yes"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("2:30", "2:30"),
        ("1:30:00", "1:30:00"),
        ("2026-01-01", "2026-01-01"),
        ("1_000", "1_000"),
        ("0x1F", "0x1F"),
        ("2..6", "2..6"),
        ("inf", math.inf),
        ("-.inf", -math.inf),
        ("'5'", "5"),
        ('"true"', "true"),
        ("[1, a, 2.0]", [1, "a", 2.0]),
        ("{a: {b: [null]}}", {"a": {"b": [None]}}),
    ],
)
def test_plain_values_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    found = parse(f"key: {text}\n")
    assert not found.findings
    assert found.data == {"key": value}
    assert type(found.data["key"]) is type(value)


def test_nan_is_a_number() -> None:
    assert math.isnan(parse("x: [nan, .nan]\n").data["x"][1])


def test_a_number_of_many_digits_stays_text() -> None:
    digits = "9" * 5000
    assert parse(f"x: {digits}\n").data == {"x": digits}


def test_places_are_those_of_the_file() -> None:
    found = parse("# a comment\ndims:\n  N: 2..3\n  d: {value: 2 * N}\nhints:\n  - one\n  - two\n")
    assert found.place(("dims", "N")) == (3, 6)
    assert found.place(("dims", "N"), key=True) == (3, 3)
    assert found.place(("dims", "d", "value")) == (4, 14)
    assert found.place(("hints", 1)) == (7, 5)
    assert found.place(("dims", "N", "value")) == (3, 6), "a short form stands where its parent stands"
    assert found.place(("nothing",)) == (1, 1) or found.place(("nothing",)) == found.place(())


@pytest.mark.parametrize(
    ("text", "column"),
    [("x: a + b\n", 8), ("x: 'a + b'\n", 9), ('x: "a + b"\n', 9), ("x: {y: 1, z: a + b}\n", 18)],
)
def test_a_place_inside_a_text_is_pointed_at(text: str, column: int) -> None:
    found = parse(text)
    path = ("x", "z") if "z" in text else ("x",)
    found.report(path, "here", offset=4)
    assert (found.findings[0].line, found.findings[0].column) == (1, column)


@pytest.mark.parametrize("text", ["x: >-\n  a +\n  b\n", 'x: "a \\u002b b"\n', "x: 'it''s'\n"])
def test_a_text_that_is_not_written_letter_for_letter_is_pointed_at_as_a_whole(text: str) -> None:
    found = parse(text)
    found.report(("x",), "here", offset=2)
    assert (found.findings[0].line, found.findings[0].column) == (1, 4)


TRAPS = {
    "a: 1\nb: 2\na: 3\n": (3, 1, "the key `a` occurs twice (first in line 1)"),
    "a: {b: 1, b: 2}\n": (1, 11, "the key `b` occurs twice (first in line 1)"),
    "a: &x {b: 1}\nc: {<<: *x}\n": (2, 5, "merge keys (<<) are not supported"),
    "a: !thing 1\n": (1, 4, "the tag !thing is not supported"),
    "a: !!str 1\n": (1, 4, "the tag !!str is not supported"),
    "a: !!python/object/apply:os.system ['true']\n": (1, 4, "the tag !!python/object/apply:os.system is not supported"),
    "a: !h!x 1\n": (1, 4, "tags (!name) are not supported"),
    "a: *x\n": (1, 4, "`*x` names no anchor before it"),
    "a: &x [*x]\n": (1, 8, "`*x` names no anchor before it"),
    "? [a]\n: 1\n": (1, 3, "a key must be a plain word"),
    "a: 1\n---\nb: 2\n": (2, 1, "a second document begins here (---)"),
    "a:\n\tb: 1\n": (2, 1, "a tab indents this line"),
    "a:\n  b: 1\n\tc: 2\n": (3, 1, "a tab indents this line"),
    "a: [1, 2\nb: 3\n": (1, 4, "the `[` that opens here is not closed"),
    "a: {b: 1\nc: 3\n": (1, 4, "the `{` that opens here is not closed"),
    "a: {b: 1 c: 2}\n": (1, 11, "a `,` or `}` is missing before this"),
    "a: 'x\nb: 2\n": (1, 4, "the quote that opens here is never closed"),
    'a: "x\nb: 2\n': (1, 4, "the quote that opens here is never closed"),
    "a: b: c\n": (1, 5, "a second `: ` in one value"),
    "a: 1\n  b: 2\n": (2, 3, "`b` stands below a key that has a value already"),
    "a: 1\nword\nb: 2\n": (2, 1, "`word` is no `key: value`"),
    "a:\n  b: 1\n c: 2\n": (3, 2, "`c: 2` does not belong here"),
    'a: "x" y\n': (1, 8, "`y` does not belong here"),
    "a: - b\n": (1, 4, "a list cannot begin on the line of its key"),
    'a: "\\d"\n': (1, 5, "`\\d` means nothing in double quotes"),
    "a: @x\n": (1, 4, "a value cannot begin with `@`"),
    "a: %x\n": (1, 4, "a value cannot begin with `%`"),
    "a: *bold*\n": (1, 4, "a value cannot begin with `*`"),
    "a: |x\n  y\n": (1, 5, "text on the line of `|` or `>`"),
    "a: x\x00y\n": (1, 5, "the character U+0000 may not stand in a YAML file"),
}


@pytest.mark.parametrize("loader", LOADERS, ids=lambda loader: loader.__name__)
@pytest.mark.parametrize("text", TRAPS, ids=range(len(TRAPS)))
def test_traps_are_refused_where_they_stand(text: str, loader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same words and at the same place with both of PyYAML's parsers."""
    monkeypatch.setattr(document, "_Loader", loader)
    assert complaints(text) == [TRAPS[text]]
    assert parse(text).findings[0].expected or "U+0000" in TRAPS[text][2]


def test_the_rest_of_a_file_with_traps_is_read() -> None:
    found = parse("a: !x 1\nb: 2\nb: 3\nc: [4]\n")
    assert found.data == {"a": 1, "b": 2, "c": [4]}
    assert len(found.findings) == 2


def test_a_byte_that_is_no_utf_8() -> None:
    assert complaints(b"a: 1\nb: na\xefve\n") == [(2, 6, "byte 0xef is not UTF-8")]


def test_a_byte_order_mark_is_no_part_of_the_file() -> None:
    found = parse(b"\xef\xbb\xbfa: 1\n")
    assert found.data == {"a": 1} and not found.findings


def bomb(levels: int) -> str:
    lines = ["- &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"- &a{level} [" + ", ".join([f"*a{level - 1}"] * 10) + "]" for level in range(1, levels)]
    return "\n".join(lines) + "\n"


def test_an_alias_bomb_is_refused_once_and_yields_nothing() -> None:
    found = parse(bomb(9))
    assert found.data is None
    assert [finding.message for finding in found.findings] == ["too many or too deeply nested values"]


def test_aliases_themselves_are_allowed() -> None:
    found = parse("a: &eye [[1, 0], [0, 1]]\nb: *eye\n")
    assert not found.findings and found.data["b"] == [[1, 0], [0, 1]]
    assert found.place(("b",)) == (2, 4), "it stands where it is used"
    assert found.place(("b", 1, 0)) == (1, 19), "what is in it stands where it is written"


@pytest.mark.parametrize(
    "text", ["a: " + "[" * 100_000, "a: " + "[" * 500 + "]" * 500, "- " * 500 + "x", "{a: " * 5000]
)
def test_deep_nesting_is_refused(text: str) -> None:
    assert any("nested too deeply" in message for _, _, message in complaints(text))


def test_a_large_file_is_refused_unread() -> None:
    assert complaints(b"a: " + b"x" * document.MAX_BYTES) == [(0, 0, "larger than 2 MB")]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert "cannot be read" in document.read(tmp_path / "none.yaml").findings[0].message
    assert "cannot be read" in document.read(tmp_path).findings[0].message


def test_paths_are_shown_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.yaml").write_text("a: !x 1\n")
    monkeypatch.chdir(tmp_path)
    assert document.read(tmp_path / "a" / "x.yaml").findings[0].path == str(Path("a", "x.yaml"))
    monkeypatch.chdir(tmp_path / "a")
    assert document.read(tmp_path / "a" / "x.yaml").findings[0].path == "x.yaml"
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "b")
    assert document.read(tmp_path / "a" / "x.yaml").findings[0].path == str(tmp_path / "a" / "x.yaml")


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("tittle", ["title", "summary"], "title"),
        ("n", ["N", "D"], "N"),
        ("unchanged_inputs", ["values", "inputs_unchanged"], "inputs_unchanged"),
        ("xyz", ["title"], None),
        (3, ["title"], None),
        ("a", [], None),
    ],
)
def test_the_nearest_word(word: object, known: list[str], meant: str | None) -> None:
    assert document.closest(word, known) == meant
    assert document.nearest(word, known) == (f" (did you mean `{meant}`?)" if meant else "")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(JSON)
def test_json_is_read_as_json(value: Any) -> None:
    text = json.dumps(value)
    # YAML's parsers take surrogate halves and a few control characters for no text at all.
    if re.search(r"\\u(d[89a-f]|00[01789]|fff[ef])", text):
        return
    assert parse(f"value: {text}\n").data == {"value": value}


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab:-[]{},&*!|>'\"#% \n\t?@\\0123.", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = parse(text)
    lines = text.count("\n") + 1
    for finding in found.findings:
        assert 0 <= finding.line <= lines + 1 and finding.message


NAMES = ["softmax", "masked_softmax", "kv_cache_step", "greedy_decode", "decoder_forward", "decoder_block", "adamw_step",
         "gelu_tanh", "encoder_decoder_forward", "attention_scores"]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("kv", ["kv_cache_step"]),
        ("softmax_masked", ["masked_softmax"]),
        ("Soft", ["softmax", "masked_softmax"]),
        ("sofmax", ["softmax"]),
        ("gred_decode", ["greedy_decode"]),
        ("enc_dec", ["encoder_decoder_forward"]),
        ("greedydecode", ["greedy_decode"]),
        ("beam_search", []),
        ("beam", []),
        ("x", []),
        ("", []),
    ],
)
def test_names_that_a_word_may_stand_for(word: str, meant: list[str]) -> None:
    assert document.candidates(word, NAMES) == meant


def test_only_a_few_names_are_offered() -> None:
    assert len(document.candidates("deco", NAMES)) == 3
