"""Attacks by what a submission is, or lies beside: links, pipes, names, and files that shadow a module."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import test_attacks
from conftest import ROOT, Command, Ran

RIGHT = ROOT / "fixtures" / "softmax" / "right" / "shifted_keepdims.py"
SECRET = "hunter2-of-a-private-file"


def refused(ran: Ran) -> dict[str, Any]:
    """The report of a file that cannot be read: graded, and no points."""
    report = ran.report()
    assert ran.code == 1 and report["status"] == "graded" and report["score"] == 0
    first = report["checks"][0]
    assert (first["verdict"], first["cause"]) == ("error", "unreadable_source")
    return report


def test_a_link_to_the_reference_hands_in_nothing(command: Command, tmp_path: Path) -> None:
    (tmp_path / "softmax.py").symlink_to(ROOT / "reference" / "attention" / "softmax" / "solution.py")
    report = refused(command("grade", "softmax", "--json", "-"))
    assert "leads out of its folder" in report["checks"][0]["message"]


def test_a_link_through_another_link_or_folder_is_seen_through(command: Command, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "elsewhere").symlink_to(RIGHT.parent)
    (inner / "second.py").symlink_to(f"elsewhere/{RIGHT.name}")
    (inner / "softmax.py").symlink_to("second.py")
    refused(command("grade", "softmax", inner / "softmax.py", "--json", "-"))


def test_a_link_to_a_private_file_quotes_nothing_of_it(command: Command, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "key").write_text(f"{SECRET} is no Python")
    handed_in = tmp_path / "handed_in"
    handed_in.mkdir()
    (handed_in / "softmax.py").symlink_to(private / "key")
    ran = command("grade", "softmax", handed_in / "softmax.py", "--json", "-")
    refused(ran)
    assert SECRET not in ran.out + ran.err


def test_a_link_to_a_version_beside_it_is_graded(command: Command, tmp_path: Path) -> None:
    (tmp_path / "version_2.py").write_bytes(RIGHT.read_bytes())
    (tmp_path / "softmax.py").symlink_to("version_2.py")
    assert command("grade", "softmax", "--json", "-").report()["passed"]


@pytest.mark.parametrize("kind", ["fifo", "loop", "dangling", "device", "large"])
def test_what_is_no_file_of_a_submission(command: Command, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "softmax.py"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to("softmax.py")
    elif kind == "dangling":
        path.symlink_to("missing.py")
    elif kind == "device":
        path = Path("/dev/zero")
    else:
        path.write_bytes(RIGHT.read_bytes() + b"#" * (3 << 20))
    refused(command("grade", "softmax", path, "--json", "-", timeout=60))


def test_files_that_shadow_modules_are_not_imported(command: Command, tmp_path: Path) -> None:
    """Neither in the grader nor in a worker: the folder of a submission is on nobody's path."""
    marker = tmp_path / "imported"
    for name in ("numpy", "torch", "json", "random", "grader", "click", "sitecustomize", "usercustomize", "einops"):
        (tmp_path / f"{name}.py").write_text(f"open({str(marker)!r}, 'a').write('{name} ')\nraise SystemExit\n")
    (tmp_path / "softmax.py").write_bytes(RIGHT.read_bytes())
    ran = command("grade", "softmax", "--json", "-")
    assert ran.code == 0 and ran.report()["passed"]
    assert not marker.exists()


DENIES = """import sys

import torch.nn.functional as F

source = sys.modules["grader.worker.source"]
source.called_names = lambda text: []


def flash_attention(q, k, v, block_size, causal):
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal), q[..., 0]
"""


def test_a_worker_cannot_deny_what_its_file_calls(command: Command, tmp_path: Path) -> None:
    (tmp_path / "flash_attention.py").write_text(DENIES)
    report = command("grade", "flash_attention", "--json", "-", "--cases", "1").report()
    check = next(check for check in report["checks"] if check["cause"] == "forbidden_call")
    assert check["verdict"] == "fail" and "scaled_dot_product_attention" in check["message"]


def test_the_table_in_the_docs_lists_every_attack() -> None:
    """And no other; what it says is what the header of the file says. `python benchmarks/attacks.py --write` writes it."""
    text = (ROOT / "docs" / "attacks.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| .* \| `(.+\.py)` \| (\w+) \| \w* \|$", text, re.MULTILINE))
    assert set(rows) == {f"{path.parent.name}/{path.name}" for path in test_attacks.ATTACKS}
    for path in test_attacks.ATTACKS:
        assert rows[f"{path.parent.name}/{path.name}"] in test_attacks.read(path).verdicts


def test_a_name_with_escape_codes_moves_no_cursor(command: Command, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\x1b[31mred\x1b]0;title\x07[bold]\xff.py")
    path.write_bytes(RIGHT.read_bytes())
    ran = command("grade", "softmax", path)
    assert ran.code == 0 and not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", ran.out)
    ran = command("grade", "softmax", path, "--json", "-")
    assert json.loads(ran.out)["submission"]["path"].endswith("red[bold]?.py")
