"""Hostile and broken submissions through the real command: a true report every time, and nothing left behind."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest
from conftest import ROOT, Command

SCHEMA = json.loads((ROOT / "grader" / "reports" / "report.schema.json").read_text())
SECRET = "secret-7f3a9c-of-the-environment"
LISTENER_PORT = 18573
ESCAPES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


@dataclass(frozen=True)
class Attack:
    """One file of ``fixtures/attacks`` and what its header says must be reported."""

    path: Path
    verdicts: frozenset[str]
    cause: str | None
    exercise: str
    options: tuple[str, ...]


def read(path: Path) -> Attack:
    found: dict[str, str] = {}
    for line in path.read_bytes().decode("utf-8", "replace").splitlines():
        match = re.match(r"# (attack|expect|cause|exercise|options): (.*)$", line)
        if match is not None:
            found[match[1]] = match[2]
        elif not line.startswith("#"):
            break
    verdicts = frozenset(word.strip() for word in found["expect"].split(","))
    return Attack(
        path,
        verdicts,
        found.get("cause"),
        found.get("exercise", "softmax"),
        tuple(shlex.split(found.get("options", ""))),
    )


ATTACKS = sorted((ROOT / "fixtures" / "attacks").glob("*/*.py"))


@pytest.fixture(scope="module")
def heard() -> Iterator[list[bytes]]:
    """A listener on loopback: whatever reaches it is a leak. (A second test process shares the port of the first.)"""
    received: list[bytes] = []
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(("127.0.0.1", LISTENER_PORT))
    except OSError:
        server.close()
        yield received
        return
    server.listen()

    def listen() -> None:
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            received.append(b"connected")
            peer.close()

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    yield received
    server.close()


def workers() -> set[int]:
    """Processes of ours that host or start workers."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                line = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            if b"zygote.main" in line:
                found.add(int(entry))
    return found


def planted() -> set[str]:
    return {str(path) for folder in ("/tmp", "/dev/shm") for path in Path(folder).glob("planted*")}


@pytest.mark.parametrize("runner", ["fork", "exec"])
@pytest.mark.parametrize("path", ATTACKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_attack(path: Path, runner: str, command: Command, tmp_path: Path, heard: list[bytes]) -> None:
    attack = read(path)
    if runner == "exec" and attack.path.parent.name in ("sources", "values", "semantics", "patching"):
        pytest.skip("what a file contains or returns is read by the same code under both runners")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    report_path = tmp_path / "report.json"
    ran = command(
        "grade", attack.exercise, path, "--json", report_path, "--seed", "3", "--runner", runner, *attack.options,
        GRADER_TEST_TOKEN=SECRET,
    )  # fmt: skip
    text = report_path.read_text(encoding="utf-8")
    report = json.loads(text)
    jsonschema.validate(report, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert ran.code == 1, f"{report.get('reason')} {ran.err}"
    assert report["status"] == "graded" and not report["passed"]
    failed = [
        check for check in report["checks"] if check["verdict"] not in ("pass", "skipped") and not check["advisory"]
    ]
    assert failed
    verdicts = {check["verdict"] for check in failed}
    assert verdicts & attack.verdicts, f"{verdicts} instead of {set(attack.verdicts)}: {failed[0]['message']}"
    if attack.cause is not None:
        causes = {check["cause"] for check in failed}
        assert attack.cause in causes, f"{causes}: {failed[0]['message']}"
    assert all(check["message"] for check in failed)
    for said in (ran.out, ran.err, text):
        assert SECRET not in said
        assert "Traceback" not in said
    assert not ESCAPES.search(ran.out)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["report.json"]
    assert not planted()
    assert not heard
