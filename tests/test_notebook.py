"""Notebooks: as files through the real command, and cell by cell in a real Jupyter kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Command

nbformat = pytest.importorskip("nbformat")

SHIFT = "def shift(x, axis):\n    return x - x.max(axis=axis, keepdims=True)"
SOFTMAX = "def softmax(x, axis):\n    e = np.exp(shift(x, axis))\n    return e / e.sum(axis=axis, keepdims=True)"


def book(folder: Path, *cells: str, name: str = "softmax.ipynb") -> Path:
    made = nbformat.v4.new_notebook()
    made.cells = [nbformat.v4.new_markdown_cell("# softmax")]
    made.cells += [nbformat.v4.new_code_cell(text) for text in cells]
    nbformat.write(made, folder / name)
    return folder / name


def report(command: Command, *arguments: str | Path) -> dict[str, Any]:
    return command("grade", "softmax", *arguments, "--json", "-", "--seed", "3").report()


def test_imports_definitions_and_simple_constants_count(command: Command, tmp_path: Path) -> None:
    book(
        tmp_path,
        "%load_ext grader\nimport numpy as np\n!ls\n%matplotlib inline",
        "EPS, N = 1e-9, -3\nx = np.random.rand(3)\nplot(x)\nraise RuntimeError('never run')",
        "%%bash\nrm -rf important",
        SHIFT,
        "%%grade softmax\n" + SOFTMAX,
        "softmax(x, 0)\nfor i in range(3):\n    print(i)\nthing = undefined_here\nnp.exp?",
    )
    found = report(command)
    assert found["passed"], found
    assert found["left_out"] == [
        "cell 1, line 1: %load_ext grader",
        "cell 1, line 3: !ls",
        "cell 1, line 4: %matplotlib inline",
        "cell 2, line 2: x = np.random.rand(3)",
        "cell 2, line 3: plot(x)",
        "cell 2, line 4: raise RuntimeError('never run')",
        "cell 3: %%bash",
        "cell 6, line 5: np.exp?",
        "cell 6, line 1: softmax(x, 0)",
        "cell 6, line 2: for i in range(3):",
        "cell 6, line 4: thing = undefined_here",
    ]
    text = command("grade", "softmax", "softmax.ipynb").out
    assert "left out:" in text and "cell 1, line 1: %load_ext grader" in text


def test_errors_point_at_cell_and_line(command: Command, tmp_path: Path) -> None:
    book(tmp_path, "import numpy as np", SHIFT.replace("max", "maxx"), SOFTMAX)
    found = report(command)
    message = found["checks"][0]["message"]
    assert (
        "softmax.ipynb, cell 3, line 2, in softmax" in message and "softmax.ipynb, cell 2, line 2, in shift" in message
    )
    book(tmp_path, "import numpy as np", SOFTMAX, "def late(:\n    pass")
    found = report(command)
    assert found["checks"][0]["cause"] == "syntax_error"
    assert "cell 3, line 1" in found["checks"][0]["message"]
    book(tmp_path, "import numpy as np\nimport scipyy")
    found = report(command)
    assert found["checks"][0]["cause"] == "import_error" and "cell 1, line 2" in found["checks"][0]["message"]


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"[]", b"{}", b'{"nbformat": 4, "cells": 7}', b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": 3}]}',
     b'{"nbformat": 99}', b"\xff\xfe", b"[" * 100_000, b'{"nbformat": 3, "worksheets": []}', b'{"nbformat": "4"}'],
)  # fmt: skip
def test_what_is_no_notebook_is_said_to_be_none(command: Command, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "softmax.ipynb").write_bytes(content)
    done = command("grade", "softmax", "softmax.ipynb", "--json", "-")
    assert done.code == 1, done.err
    assert done.report()["checks"][0]["cause"] in ("unreadable_source", "no_function")


def test_an_old_notebook_is_read(command: Command, tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "input": text, "language": "python", "outputs": [], "collapsed": False, "metadata": {}, "prompt_number": 1}
             for text in ("import numpy as np", SHIFT, SOFTMAX)]  # fmt: skip
    old = {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {"name": ""},
        "worksheets": [{"cells": cells, "metadata": {}}],
    }
    (tmp_path / "softmax.ipynb").write_text(json.dumps(old))
    assert report(command)["passed"]


def test_a_constant_is_not_worked_out_for_ever(command: Command, tmp_path: Path) -> None:
    book(
        tmp_path,
        "import numpy as np\nhuge = 9 ** 9 ** 9 ** 9\ntext = 'a' * 10 ** 10\nitems = [0] * 10 ** 10",
        SHIFT,
        SOFTMAX,
    )
    found = report(command)
    assert found["passed"] and len(found["left_out"]) == 3


def test_cell_by_cell_in_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("TENSORGRADE_STATE", str(tmp_path / "state.json"))
    wrong = SOFTMAX.replace("shift(x, axis)", "x")
    cells = [
        "%load_ext grader",
        "import numpy as np",
        "%%grade softmax --seed 5\n" + wrong,
        "def broken(:",
        SHIFT,
        SOFTMAX,
        "%grade softmax --seed 5",
        "%grade softmaxx",
        "%grade",
        "%%grade softmax\nraise ValueError('of the student')",
    ]
    made = nbformat.read(book(tmp_path, *cells, name="class.ipynb"), 4)
    client = nbclient.NotebookClient(
        made, kernel_name="python3", allow_errors=True, timeout=240, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [cell.outputs for cell in made.cells if cell.cell_type == "code"]
    first, second = outputs[2][-1], outputs[6][-1]
    assert "scores up to 1e4" in first["data"]["text/plain"] and "not passed" in first["data"]["text/plain"]
    assert "<pre" in first["data"]["text/html"] and "not passed" in first["data"]["text/html"]
    assert "\x1b" not in first["data"]["text/plain"]
    assert "\npassed   " in second["data"]["text/plain"]
    assert "did you mean" in str(outputs[7]) and "softmax" in str(outputs[7])
    assert "%grade EXERCISE" in str(outputs[8])
    assert outputs[9][0]["ename"] == "ValueError" and len(outputs[9]) == 1
    assert json.loads((tmp_path / "state.json").read_text())["passed"] == ["softmax"]
