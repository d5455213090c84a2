"""Runs source text in a locked worker: launcher, zygote and worker as real processes, the way the runner has them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.sandbox import isolation

ROOT = Path(__file__).resolve().parent.parent

_PRELUDE = """
import json, os, sys
sys.path.insert(0, {root!r})
from grader.sandbox import isolation
setup = json.loads({setup!r})
reading, writing = os.pipe()
launcher = os.fork()
if launcher:
    os.close(writing)
    text = os.fdopen(reading, "r", encoding="utf-8").read()
    os.waitpid(launcher, 0)
    sys.stdout.write(text)
    sys.exit()
os.close(reading)

def say(**message):
    os.write(writing, json.dumps(message).encode() + b"\\n")

if setup["enter"]:
    entered = isolation.enter_namespaces(setup["packages"], also=setup["also"], writable=setup["folder"])
else:
    entered = isolation.Entered((), None, ())
zygote = os.fork()
if zygote:
    os.waitpid(zygote, 0)
    os._exit(0)
entered = isolation.settle(entered)
say(entered=entered.names, uid=entered.uid)
# A number that nothing the worker opens will be given.
stray = os.dup2(os.open(os.devnull, os.O_RDONLY), 200)
exec(compile(setup["preload"], "preload", "exec"))
read_paths = isolation.default_read_paths(setup["packages"]) + tuple(setup["readable"])
policy = isolation.Policy(read_paths, isolation.default_list_paths(), **setup["policy"])
parent = os.getpid()
worker = os.fork()
if worker:
    say(status=os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]))
    os._exit(0)
applied = isolation.lock(policy, (0, 1, 2, writing), parent)
say(applied=applied.to_dict())

def attempt(name, act):
    try:
        value = act()
    except BaseException as error:
        say(name=name, error=type(error).__name__, errno=getattr(error, "errno", None), text=str(error)[:500])
    else:
        say(name=name, value=value if isinstance(value, (int, float, str, bool, list)) else repr(type(value)))

folder, scratch, outside = setup["folder"], setup["scratch"], setup["outside"]
exec(compile(setup["body"], "submission", "exec"))
os._exit(0)
"""

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}


@dataclass(frozen=True)
class Scene:
    """``outside`` is a file that exists in the worker's file tree and is not in its policy; ``folder`` can be written
    but for the policy, which allows ``scratch`` in it."""

    folder: str
    scratch: str
    outside: str


@dataclass(frozen=True)
class Result:
    """``uid`` is the user that a zygote of root was to become. ``said`` maps the name of each attempt to its value or error; ``status`` is the worker's exit status, ``stderr``
    what all of them wrote there."""

    entered: tuple[str, ...]
    uid: int | None
    layers: tuple[str, ...]
    missing: dict[str, str]
    status: int | None
    said: dict[str, dict[str, Any]]
    stderr: str


@contextlib.contextmanager
def scene() -> Iterator[Scene]:
    """Files that every user may change, so that whatever refuses it is the lock."""
    top = tempfile.mkdtemp(prefix="locked-", dir="/tmp")
    made = Scene(f"{top}/work", f"{top}/work/scratch", f"{top}/outside.txt")
    os.makedirs(made.scratch)
    Path(made.outside).write_text("outside")
    for path, mode in ((top, 0o755), (made.folder, 0o777), (made.scratch, 0o777), (made.outside, 0o666)):
        os.chmod(path, mode)
    try:
        yield made
    finally:
        shutil.rmtree(top, ignore_errors=True)


def run(
    body: str,
    where: Scene,
    *,
    enter: bool = True,
    preload: str = "",
    packages: tuple[str, ...] = (),
    readable: tuple[str, ...] = (),
    policy: dict[str, Any] | None = None,
    python: str = sys.executable,
    user: int | None = None,
    before: str = "",
) -> Result:
    """Run ``body`` in a locked worker. It reports by ``attempt(name, function)`` and ``say(name=..., value=...)``.

    ``preload`` runs in the zygote; ``before`` in the first process, to take something of the machine away from it.
    """
    # Left by a worker of another user, files in the scratch folder would be closed to this one.
    shutil.rmtree(where.scratch)
    os.mkdir(where.scratch)
    os.chmod(where.scratch, 0o777)
    setup = {
        "body": body,
        "preload": preload,
        "enter": enter,
        "packages": packages,
        "readable": readable,
        "policy": {"scratch": where.scratch, **(policy or {})},
        "folder": where.folder,
        "scratch": where.scratch,
        "outside": where.outside,
        "also": [where.outside],
    }
    identity: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    done = subprocess.run(
        [python, "-I", "-B", "-c", before + _PRELUDE.format(root=str(ROOT), setup=json.dumps(setup))],
        capture_output=True,
        text=True,
        env={**ENVIRONMENT, **isolation.ENVIRONMENT},
        cwd="/",
        timeout=180,
        **identity,
    )
    assert done.returncode == 0, done.stderr
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    merged: dict[str, Any] = {}
    for message in messages:
        if "name" not in message:
            merged.update(message)
    assert "applied" in merged, done.stderr
    return Result(
        tuple(merged["entered"]),
        merged["uid"],
        tuple(merged["applied"]["layers"]),
        {entry["layer"]: entry["reason"] for entry in merged["applied"]["missing"]},
        merged.get("status"),
        {message["name"]: message for message in messages if "name" in message},
        done.stderr,
    )
