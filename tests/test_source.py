"""A patched reference that is loaded in pieces is the one that is loaded whole."""

from __future__ import annotations

import ast
import types
from pathlib import Path

import pytest
from conftest import ROOT

from grader import diagnose
from grader.errors import AuthorError
from grader.spec import load
from grader.spec.library import find_library
from grader.worker import source

EXERCISES = sorted(path.parent.name for path in ROOT.glob("exercises/*/*/exercise.yaml"))


@pytest.mark.parametrize("name", EXERCISES)
def test_in_pieces_or_whole(name: str) -> None:
    exercise = load.load(find_library(start=ROOT), name)
    assert exercise.solution is not None
    text = exercise.solution.read_text(encoding="utf-8")
    texts = [text]
    for entry in diagnose.read(exercise):
        try:
            texts.append(diagnose.patched(text, (entry,)))
        except AuthorError:
            continue
    wanted = (exercise.function, len(exercise.spec.inputs))
    compiled: dict[tuple[int, str], types.CodeType] = {}
    for each in texts:
        first, *rest = ast.parse(each).body
        whole = rest if isinstance(first, ast.Expr) else [first, *rest]
        apart = [node for piece in source.statements(each) for node in ast.parse(piece).body]
        assert [ast.dump(node) for node in apart] == [ast.dump(node) for node in whole]
        assert source.load_variant(each.encode(), "variant", *wanted, compiled).__name__ == exercise.function
    # Pieces were shared, or nothing would be gained.
    assert compiled and (len(texts) < 4 or len(compiled) < 12 * len(texts))


@pytest.mark.parametrize(
    "text",
    [
        "import functools\n@functools.lru_cache\ndef toy(x):\n    return x\n",
        "x = 1\nif x:\n    def toy(x):\n        return x\nelse:\n    toy = None\n",
        'WORDS = """\ndef toy(x): no\n"""\ndef toy(x):\n    return x\n',
        "def toy(\n    x,\n):\n    return x\n",
        "VALUES = (\n1,\n2,\n)\ndef toy(x):\n    return x\n",
        "from __future__ import annotations\ndef toy(x: Missing):\n    return x\n",
        "try:\n    y = 1\nfinally:\n    y = 2\ndef toy(x):\n    return y and x\n",
        "x = 1 + \\\n2\ndef toy(x):\n    return x\n",
    ],
    ids=["decorator", "else", "text", "signature", "tuple", "future", "finally", "continued"],
)
def test_what_cannot_be_taken_apart_is_loaded_whole(text: str, tmp_path: Path) -> None:
    pieces = source.load_variant(text.encode(), "variant", "toy", 1, {})
    whole = source.load_function(text.encode(), "whole.py", "whole", "toy", 1)
    assert pieces(5) == whole(5) == 5


def test_an_error_in_a_variant_is_told_as_in_any_file() -> None:
    with pytest.raises(source.LoadError):
        source.load_variant(b"def toy(x):\n    return (\n", "variant", "toy", 1, {})
