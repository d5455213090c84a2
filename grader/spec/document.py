"""YAML as plain values that remember where they stood, without the traps of stock YAML.

Plain scalars are read as YAML 1.2 reads them: ``1e-5`` is a number, ``no`` and ``on`` are texts, ``2:30`` is no
count of seconds and ``2026-01-01`` no date. A key that occurs twice, a tag or a merge key is an error with its place.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from grader.errors import Finding

Path_ = tuple[str | int, ...]
Place = tuple[int, int]
MAX_BYTES = 2 << 20
MAX_NODES = 200_000
MAX_DEPTH = 60
# From which similarity on a name counts as a misspelling of another, and how much less than the best is no candidate.
SPELT_ALIKE, MUCH_LESS = 0.7, 0.15

_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_SPECIAL = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    **{sign + word: float(sign.strip("+") + "inf") for sign in ("", "-", "+") for word in (".inf", ".Inf", ".INF", "inf")},
    **dict.fromkeys((".nan", ".NaN", ".NAN", "nan"), float("nan")),
}  # fmt: skip
# What YAML does not allow in a file: control characters, halves of surrogate pairs, and two non-characters.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONG_NUMBER = 400

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass
class Document:
    """One file: its plain ``data``, and where each path into it stands (1-based line and column).

    ``texts`` holds the place of the first character of every scalar whose source is its value letter for letter, so that
    a position inside an expression can be pointed at.
    """

    path: str
    data: Any = None
    places: dict[Path_, Place] = field(default_factory=dict)
    keys: dict[Path_, Place] = field(default_factory=dict)
    texts: dict[Path_, Place] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def place(self, path: Iterable[str | int], key: bool = False) -> Place:
        """Line and column of the value (or of the key) at ``path``, or of the nearest parent that is there."""
        steps = tuple(path)
        if key and steps in self.keys:
            return self.keys[steps]
        while steps and steps not in self.places:
            steps = steps[:-1]
        return self.places.get(steps, (1, 1))

    def report(
        self, path: Iterable[str | int], message: str, expected: str = "", key: bool = False, offset: int | None = None
    ) -> None:
        """Add a finding at ``path``: at its key, or ``offset`` characters into its text where that can be told."""
        steps = tuple(path)
        line, column = self.place(steps, key)
        if offset is not None:
            # A short form such as `d: 2 * n` stands where its parent stands.
            while steps and steps not in self.places:
                steps = steps[:-1]
            if steps in self.texts:
                line, column = self.texts[steps][0], self.texts[steps][1] + offset
        self.add(line, column, message, expected)

    def add(self, line: int, column: int, message: str, expected: str = "") -> None:
        """Add a finding, unless the very same one is there already."""
        finding = Finding(self.path, line, column, message, expected)
        if finding not in self.findings:
            self.findings.append(finding)


def shown(path: Path) -> str:
    """``path`` as a person in the current folder would write it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def read(path: Path, shown_as: str | None = None) -> Document:
    """Parse ``path``; what is wrong with it as YAML is in the document's findings."""
    document = Document(shown_as or shown(path))
    try:
        blob = path.read_bytes()
    except OSError as error:
        document.add(0, 0, f"cannot be read: {error.strerror}")
        return document
    return parse(blob, document)


def parse(blob: bytes, document: Document) -> Document:
    """Fill ``document`` from the bytes of a file."""
    if len(blob) > MAX_BYTES:
        document.add(0, 0, f"larger than {MAX_BYTES >> 20} MB")
        return document
    try:
        text = blob.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = blob[: error.start].removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
        document.add(*_end_of(before), f"byte 0x{blob[error.start]:02x} is not UTF-8", "a file saved as UTF-8")
        return document
    unprintable = _UNPRINTABLE.search(text)
    if unprintable is not None:
        place = _end_of(text[: unprintable.start()])
        document.add(*place, f"the character U+{ord(unprintable[0]):04X} may not stand in a YAML file")
        return document
    try:
        root = _compose(yaml.parse(text, Loader=_Loader), document)
    except yaml.MarkedYAMLError as error:
        _report_syntax(error, text.splitlines(), document)
        return document
    except yaml.YAMLError as error:
        document.add(1, 1, f"not YAML: {getattr(error, 'reason', error)}")
        return document
    if root is not None:
        builder = _Builder(document)
        data = builder.build(root, ())
        # Half a file would only be complained of for what it lacks.
        document.data = data if builder.complete else None
    return document


def _end_of(text: str) -> Place:
    return text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1


# --- what the parser refuses ------------------------------------------------------------------------------------------


def _report_syntax(error: yaml.MarkedYAMLError, lines: list[str], document: Document) -> None:
    """One finding in words of our own, for the parser's words and columns change between its two implementations."""
    problem, context = str(error.problem or ""), str(error.context or "")
    at = _place(error.problem_mark) or _place(error.context_mark) or (1, 1)
    start = _place(error.context_mark) or at
    line = lines[at[0] - 1] if at[0] <= len(lines) else ""
    indentation = line[: len(line) - len(line.lstrip())]
    if "\t" in indentation and at[1] <= len(indentation) + 1:
        document.add(at[0], indentation.index("\t") + 1, "a tab indents this line", "spaces; YAML allows no tabs there")
    elif "while parsing a flow" in context and ("',' or" in problem or "node content" in problem):
        bracket = _character(lines, start)
        if at[0] > start[0]:
            closing = {"[": "]", "{": "}"}.get(bracket, "a closing bracket")
            document.add(*start, f"the `{bracket}` that opens here is not closed", f"`{closing}` before line {at[0]}")
        else:
            closing = {"[": "]", "{": "}"}.get(bracket, "")
            wanted = "a comma between entries, and quotes around a text that contains brackets or commas"
            document.add(*at, f"a `,` or `{closing}` is missing before this", wanted)
    elif "unexpected end of stream" in problem:
        document.add(*start, "the quote that opens here is never closed", "a closing quote")
    elif "mapping values are not allowed" in problem and re.fullmatch(r"\s+[\w.-]+\s*", line[: at[1] - 1]):
        key = line[: at[1] - 1].strip()
        document.add(
            at[0], len(indentation) + 1, f"`{key}` stands below a key that has a value already",
            "keys of one mapping in one column",
        )  # fmt: skip
    elif "mapping values are not allowed" in problem:
        document.add(
            *at,
            "a second `: ` in one value",
            "quotes around a text that contains `: `, or each key on a line of its own, all in one column",
        )
    elif "expected ':'" in problem:
        words = _excerpt(lines, start)
        document.add(*start, f"`{words}` is no `key: value`", "a colon and a space after the key")
    elif "entries are not allowed" in problem:
        document.add(*at, "a list cannot begin on the line of its key", "`- …` on lines of their own, or `[a, b]`")
    elif "escape character" in problem:
        # One parser marks the backslash, the other the character after it.
        column = at[1] if _character(lines, at) == "\\" else at[1] - 1
        document.add(
            at[0], column, f"`{line[column - 1 : column + 1]}` means nothing in double quotes", "single quotes"
        )
    elif "alphabetic or numeric character" in problem or "cannot start any token" in problem:
        first = _character(lines, start if "alphabetic" in problem else at)
        document.add(
            *(start if "alphabetic" in problem else at),
            f"a value cannot begin with `{first}`",
            "quotes around the text",
        )
    elif "tag" in problem or "tag" in context:
        document.add(*start, "tags (!name) are not supported", "plain YAML without tags")
    elif "nesting depth" in problem:
        document.add(*at, "nested too deeply", f"at most {MAX_DEPTH} levels")
    elif "block scalar" in context:
        document.add(*at, "text on the line of `|` or `>`", "the text on the following lines, indented")
    elif "while parsing a block" in context:
        document.add(
            *at,
            f"`{_excerpt(lines, at)}` does not belong here",
            "keys of one mapping (and the dashes of one list) in one column, and nothing after a closing quote or bracket",
        )
    else:
        document.add(*at, "not YAML: " + " ".join(filter(None, (context, problem))))


def _place(mark: Any) -> Place | None:
    return (mark.line + 1, mark.column + 1) if mark is not None else None


def _character(lines: list[str], place: Place) -> str:
    line = lines[place[0] - 1] if place[0] <= len(lines) else ""
    return line[place[1] - 1 : place[1]]


def _excerpt(lines: list[str], place: Place, limit: int = 30) -> str:
    line = lines[place[0] - 1] if place[0] <= len(lines) else ""
    rest = line[place[1] - 1 :].strip()
    return rest if len(rest) <= limit else rest[: limit - 1] + "…"


# --- from events to nodes ---------------------------------------------------------------------------------------------


@dataclass
class _Node:
    """A value as it is written: a scalar's text, a list's nodes, or a mapping's pairs of nodes."""

    place: Place
    tag: str | None = None
    text: str | None = None
    items: list[_Node] | None = None
    pairs: list[tuple[_Node, _Node]] | None = None
    quoted: bool = False
    # Where the text begins, if its source is the text itself.
    begins: Place | None = None


def _compose(events: Iterator[Any], document: Document) -> _Node | None:
    """The tree of the first document; without recursion, and an alias can only name what is complete."""
    root: _Node | None = None
    anchors: dict[str, _Node] = {}
    open_nodes: list[tuple[_Node, str | None, list[_Node]]] = []
    for event in events:
        node: _Node | None = None
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.DocumentStartEvent) and root is not None:
            document.add(*_place(event.start_mark) or (1, 1), "a second document begins here (---)", "one document per file")  # fmt: skip
            return root
        if isinstance(event, yaml.AliasEvent):
            place = _place(event.start_mark) or (1, 1)
            if event.anchor not in anchors:
                close = nearest(event.anchor, anchors)
                document.add(*place, f"`*{event.anchor}` names no anchor before it{close}", "quotes around a text that begins with `*`")  # fmt: skip
            # It stands where it is used; what is inside stands where it was written.
            node, anchor = (
                replace(anchors.get(str(event.anchor), _Node(place, text="")), place=place, begins=None),
                None,
            )
        elif isinstance(event, yaml.ScalarEvent):
            node = _scalar_node(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            started = _Node(_place(event.start_mark) or (1, 1), _tag(event))
            if len(open_nodes) >= MAX_DEPTH:
                document.add(*started.place, "nested too deeply", f"at most {MAX_DEPTH} levels")
                return None
            open_nodes.append((started, anchor, []))
            if isinstance(event, yaml.SequenceStartEvent):
                started.items = []
            else:
                started.pairs = []
        elif isinstance(event, yaml.CollectionEndEvent):
            node, anchor, children = open_nodes.pop()
            if node.items is not None:
                node.items = children
            else:
                node.pairs = list(zip(children[::2], children[1::2], strict=True))
        if node is None:
            continue
        if anchor is not None:
            anchors[anchor] = node
        if open_nodes:
            open_nodes[-1][2].append(node)
        else:
            root = node
    return root


def _tag(event: Any) -> str | None:
    # "!" alone says only that a scalar is a text.
    return event.tag if event.tag not in (None, "!") else None


def _scalar_node(event: Any) -> _Node:
    start, end = event.start_mark, event.end_mark
    place = start.line + 1, start.column + 1
    # libyaml's plain style is "", the other implementation's None.
    quoted = bool(event.style)
    begins = None
    if start.line == end.line and end.column - start.column == len(event.value) + (2 if quoted else 0):
        begins = place[0], place[1] + (1 if quoted else 0)
    return _Node(place, _tag(event), text=event.value, quoted=quoted, begins=begins)


class _Builder:
    """Turns nodes into plain values; counts them, for an alias is built anew wherever it is used."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._left = MAX_NODES

    @property
    def complete(self) -> bool:
        """Whether everything was built."""
        return self._left >= 0

    def build(self, node: _Node, path: Path_) -> Any:
        document = self._document
        document.places[path] = node.place
        self._left -= 1
        if self._left < 0 or len(path) > MAX_DEPTH:
            if self._left >= -1:
                document.add(*document.place(path[:1], key=True), "too many or too deeply nested values", f"at most {MAX_NODES:,} values; an alias counts wherever it is used")  # fmt: skip
            self._left = -2
            return None
        if node.tag is not None:
            short = node.tag.replace("tag:yaml.org,2002:", "!!")
            document.add(*node.place, f"the tag {short} is not supported", "plain YAML without tags")
        if node.items is not None:
            return [self.build(item, (*path, index)) for index, item in enumerate(node.items)]
        if node.pairs is not None:
            return self._mapping(node.pairs, path)
        if node.begins is not None:
            document.texts[path] = node.begins
        text = node.text or ""
        return text if node.quoted else scalar(text)

    def _mapping(self, pairs: list[tuple[_Node, _Node]], path: Path_) -> dict[str, Any]:
        document = self._document
        result: dict[str, Any] = {}
        for key_node, value_node in pairs:
            if self._left < 0:
                break
            key = key_node.text
            if key is None:
                document.add(*key_node.place, "a key must be a plain word", "`key: value`")
            elif key == "<<" and not key_node.quoted:
                document.add(*key_node.place, "merge keys (<<) are not supported", "the keys written out")
            elif key in result:
                first = document.keys[(*path, key)][0]
                document.add(*key_node.place, f"the key `{key}` occurs twice (first in line {first})", "each key once")
            else:
                document.keys[(*path, key)] = key_node.place
                result[key] = self.build(value_node, (*path, key))
        return result


def scalar(text: str) -> Any:
    """The value of a plain scalar: null, a boolean, a number, or else the text itself."""
    if text in _SPECIAL:
        return _SPECIAL[text]
    if _INTEGER.match(text):
        return int(text) if len(text) < _LONG_NUMBER else text
    if _FLOAT.match(text):
        return float(text)
    return text


def closest(word: object, known: Iterable[str]) -> str | None:
    """The one of ``known`` that ``word`` was probably meant to be, or None."""
    names = list(known)
    lowered = {name.lower(): name for name in names}
    text = str(word)
    close = difflib.get_close_matches(text, names, n=1, cutoff=0.6)
    if close:
        return close[0]
    if text.lower() in lowered:
        return lowered[text.lower()]
    # The same words in another order, such as unchanged_inputs.
    words = sorted(text.split("_"))
    return next((name for name in names if len(words) > 1 and sorted(name.split("_")) == words), None)


def nearest(word: object, known: Iterable[str]) -> str:
    """`` (did you mean `x`?)`` for the closest of ``known``, or nothing."""
    close = closest(word, known)
    return f" (did you mean `{close}`?)" if close is not None else ""


def candidates(word: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The names that a short or misspelt ``word`` may stand for, the likeliest first; empty where none is near.

    A name that holds the word comes first, then one that holds all its parts (each perhaps cut short), then one that is
    spelt alike.
    """
    text = word.lower()
    parts = [part for part in re.split(r"[_\W]+", text) if part]
    found: list[tuple[float, str]] = []
    for name in known:
        tokens = name.lower().split("_")
        alike = difflib.SequenceMatcher(None, text, name.lower()).ratio()
        if len(text) >= 2 and text in name.lower():
            found.append((2 + alike, name))
        elif parts and all(len(part) >= 3 and any(token.startswith(part) for token in tokens) for part in parts):
            found.append((1 + alike, name))
        elif alike >= SPELT_ALIKE:
            found.append((alike, name))
    found.sort(key=lambda entry: -entry[0])
    best = found[0][0] if found else 0.0
    # Beside a name that is spelt nearly so, one that is merely alike is noise.
    return [name for score, name in found if int(score) == int(best) and (best >= 1 or score > best - MUCH_LESS)][:most]
