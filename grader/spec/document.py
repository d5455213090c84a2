"""YAML as plain values that remember where they stood, without the traps of stock YAML.

Plain scalars are read as YAML 1.2 reads them: ``1e-5`` is a number, ``no`` and ``on`` are strings, ``2:30`` is no
count of seconds and ``2026-01-01`` no date. A key that occurs twice, a tag or a merge key is an error with its place.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from grader.errors import Finding

Path_ = tuple[str | int, ...]
MAX_BYTES = 2 << 20
MAX_NODES = 200_000
MAX_DEPTH = 60

_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_SPECIAL = {
    "null": None, "~": None, "": None, "true": True, "false": False, "True": True, "False": False,
    ".inf": float("inf"), "-.inf": float("-inf"), ".nan": float("nan"), "inf": float("inf"), "-inf": float("-inf"),
    "nan": float("nan"),
}  # fmt: skip

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass
class Document:
    """One file: its plain ``data``, and where each path into it stands (1-based line and column)."""

    path: str
    data: Any = None
    places: dict[Path_, tuple[int, int]] = field(default_factory=dict)
    keys: dict[Path_, tuple[int, int]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def place(self, path: Iterable[str | int], key: bool = False) -> tuple[int, int]:
        """Line and column of the value (or of the key) at ``path``, or of the nearest parent that is there."""
        steps = tuple(path)
        if key and steps in self.keys:
            return self.keys[steps]
        while steps and steps not in self.places:
            steps = steps[:-1]
        return self.places.get(steps, (1, 1))

    def report(self, path: Iterable[str | int], message: str, expected: str = "", key: bool = False) -> None:
        line, column = self.place(path, key)
        self.findings.append(Finding(self.path, line, column, message, expected))


def read(path: Path, shown_as: str | None = None) -> Document:
    """Parse ``path``; what is wrong with it as YAML is in the document's findings."""
    document = Document(shown_as or str(path))
    try:
        blob = path.read_bytes()
    except OSError as error:
        document.findings.append(Finding(document.path, 0, 0, f"cannot be read: {error.strerror}"))
        return document
    return parse(blob, document)


def parse(blob: bytes, document: Document) -> Document:
    if len(blob) > MAX_BYTES:
        document.findings.append(Finding(document.path, 0, 0, f"larger than {MAX_BYTES >> 20} MB"))
        return document
    try:
        text = blob.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = blob[: error.start].count(b"\n") + 1
        document.findings.append(Finding(document.path, line, 1, f"byte 0x{blob[error.start]:02x} is not UTF-8"))
        return document
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = " ".join(part for part in (error.context, error.problem) if part)
        document.findings.append(Finding(document.path, line, column, f"not YAML: {problem}", _advice(problem)))
        return document
    except yaml.YAMLError as error:
        line = text[: getattr(error, "position", 0)].count("\n") + 1
        document.findings.append(Finding(document.path, line, 1, f"not YAML: {getattr(error, 'reason', error)}"))
        return document
    except RecursionError:
        document.findings.append(Finding(document.path, 1, 1, "nested too deeply"))
        return document
    if root is not None:
        budget = [MAX_NODES]
        document.data = _build(root, (), document, budget)
    return document


def _advice(problem: str) -> str:
    if "could not find expected ':'" in problem or "mapping values are not allowed" in problem:
        return "`key: value` with a space after the colon, and quotes around a value that contains `: `"
    if "\\t" in problem or "tab" in problem:
        return "spaces for indentation, never tabs"
    return ""


def _build(node: Any, path: Path_, document: Document, budget: list[int]) -> Any:
    document.places[path] = (node.start_mark.line + 1, node.start_mark.column + 1)
    budget[0] -= 1
    if budget[0] < 0 or len(path) > MAX_DEPTH:
        if budget[0] == -1 or len(path) > MAX_DEPTH:
            document.report(path, "too many or too deeply nested values (aliases count each time they are used)")
        budget[0] = min(budget[0], -1)
        return None
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, path, document)
    if not node.tag.startswith("tag:yaml.org,2002:"):
        document.report(path, f"the tag {node.tag} is not supported", "plain YAML without tags")
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, (*path, index), document, budget) for index, item in enumerate(node.value)]
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line, column = key_node.start_mark.line + 1, key_node.start_mark.column + 1
        if not isinstance(key_node, yaml.ScalarNode):
            document.findings.append(Finding(document.path, line, column, "a key must be a plain word"))
            continue
        key = key_node.value
        if key == "<<" and not key_node.style:
            document.findings.append(Finding(document.path, line, column, "merge keys (<<) are not supported"))
            continue
        if key in result:
            first = document.keys[(*path, key)][0]
            document.findings.append(
                Finding(
                    document.path,
                    line,
                    column,
                    f"the key `{key}` occurs twice (first in line {first})",
                    "each key once",
                )
            )
            continue
        document.keys[(*path, key)] = (line, column)
        result[key] = _build(value_node, (*path, key), document, budget)
    return result


def _scalar(node: yaml.ScalarNode, path: Path_, document: Document) -> Any:
    if node.style:  # quoted or a block: text as it stands (libyaml's plain style is "", Python's None)
        return node.value
    if not node.tag.startswith("tag:yaml.org,2002:"):
        document.report(path, f"the tag {node.tag} is not supported", "plain YAML without tags")
    text = node.value
    if text in _SPECIAL:
        return _SPECIAL[text]
    if _INTEGER.match(text):
        return int(text) if len(text) < 400 else text
    if _FLOAT.match(text):
        return float(text)
    return text


def nearest(word: str, known: Iterable[str]) -> str:
    """`` (did you mean `x`?)`` for the closest of ``known``, or nothing."""
    close = difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.6)
    return f" (did you mean `{close[0]}`?)" if close else ""
