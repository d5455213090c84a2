"""A refusal that names what was tried. The hook cannot be taken out again, so every act runs in a process of its own."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from locked_process import Result, run, scene

from grader.sandbox import forbidden

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the refusals that are explained are Linux's")

# An act, the kind it must be told as, and a word that the sentence must have.
ACTS = {
    "socket.socket()": ("network", "socket"),
    "socket.create_connection(('127.0.0.1', 1))": ("network", "socket"),
    "urllib.request.urlopen('http://127.0.0.1:1/')": ("network", "socket"),
    "subprocess.run(['true'])": ("process", "subprocess.Popen"),
    "os.system('true')": ("process", "os.system"),
    "os.fork()": ("process", "os.fork"),
    "os.execv('/bin/true', ['true'])": ("process", "os.exec"),
    "os.posix_spawn('/bin/true', ['true'], {})": ("process", "os.posix_spawn"),
    "multiprocessing.get_context('fork').Process(target=print).start()": ("process", "os.fork"),
    "multiprocessing.Lock()": ("process", "synchronize"),
    "os.kill(1, 9)": ("signal", "os.kill"),
    "os.killpg(1, 9)": ("signal", "os.killpg"),
    "open('results.txt', 'w')": ("write", "results.txt"),
    "open(b'results.txt', 'ab')": ("write", "results.txt"),
    "pathlib.Path('results.txt').write_text('x')": ("write", "results.txt"),
    "os.open('results.txt', os.O_RDWR)": ("write", "results.txt"),
    "os.mkdir('folder')": ("write", "folder"),
    "os.remove('other.txt')": ("write", "other.txt"),
    "os.rename(scratch + '/a', '/a')": ("write", "os.rename"),
    "shutil.rmtree('folder')": ("write", "folder"),
    "os.chmod(scratch, 0o777)": ("write", "os.chmod"),
    "os.symlink('/', scratch + '/link')": ("write", "os.symlink"),
    "os.chdir('/')": ("write", "'/'"),
    "open('data.txt')": ("read", "data.txt"),
    "open(outside)": ("read", "outside.txt"),
    "os.listdir('/')": ("read", "'/'"),
    "np.save('weights.npy', np.ones(2))": ("write", "weights.npy"),
    "np.load('weights.npy')": ("read", "weights.npy"),
    "asyncio.new_event_loop()": ("network", "selectors"),
}
ALLOWED = (
    "open(scratch + '/a', 'w').write('x')",
    "os.rename(scratch + '/a', scratch + '/b')",
    "os.remove(scratch + '/b')",
    "open(os.devnull, 'w').write('x')",
    "open(1, 'w', closefd=False).flush()",
    "os.kill(os.getpid(), 0)",
    "open(os.__file__).read(1)",
    "__import__('colorsys').__name__",
)
# Errors that a submission may make by itself: no forbidden act is behind them.
HONEST = (
    "1 / 0",
    "open(os.path.dirname(json.__file__) + '/missing')",
    "[][0]",
    "(_ for _ in ()).throw(RuntimeError('shapes differ'))",
    "int('x')",
)
BODY = """
import asyncio, multiprocessing, multiprocessing.synchronize, pathlib, shutil, socket, subprocess, urllib.request
from grader.sandbox import forbidden
import numpy as np
forbidden.watch(scratch)
for text in json.loads({texts!r}):
    try:
        eval(text)
    except BaseException as error:
        found = forbidden.explain(error, read_paths)
        say(name=text, error=type(error).__name__, text=str(error), kind=found and found.operation, says=found and found.says)
    else:
        say(name=text, value=True)
"""


@pytest.fixture(scope="module", params=["enter", "stay"])
def told(request: pytest.FixtureRequest) -> Result:
    texts = json.dumps([*ALLOWED, *HONEST, *ACTS])
    preload = BODY.partition("forbidden.watch")[0]
    with scene() as where:
        return run(
            BODY.format(texts=texts), where, enter=request.param == "enter", preload=preload, packages=("numpy",)
        )


@pytest.mark.parametrize("text", ACTS)
def test_the_sentence_names_what_was_tried(text: str, told: Result) -> None:
    kind, word = ACTS[text]
    said = told.said[text]
    assert (said["kind"], word in (said["says"] or "")) == (kind, True), said


@pytest.mark.parametrize("text", ALLOWED)
def test_what_is_allowed_is_not_refused(text: str, told: Result) -> None:
    assert told.said[text].get("value") is True, told.said[text]


@pytest.mark.parametrize("text", HONEST)
def test_a_mistake_is_not_called_forbidden(text: str, told: Result) -> None:
    assert told.said[text]["kind"] is None, told.said[text]


def test_causes_are_searched_and_circles_end() -> None:
    inner = forbidden.ForbiddenOperation("network", "socket.socket")
    outer = ValueError("it failed")
    outer.__cause__ = inner
    inner.__context__ = outer
    found = forbidden.explain(outer)
    assert found is not None and found.operation == "network"
    assert forbidden.explain(ValueError("alone")) is None


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("[enforce fail at inline_container.cc:747] . open file failed with strerror: Read-only file system", "write"),
        ("unable to open shared memory object </torch_2_0> in read-write mode", "process"),
        ("The size of tensor a (3) must match the size of tensor b (4)", None),
    ],
)
def test_refusals_inside_of_torch_are_known_by_their_words(words: str, kind: str | None) -> None:
    found = forbidden.explain(RuntimeError(words))
    assert (found.operation if found else None) == kind


def test_it_is_a_permission_error_with_the_kernels_number() -> None:
    error: Any = forbidden.ForbiddenOperation("write", "open 'x'")
    assert isinstance(error, PermissionError) and error.errno == 1
    assert str(error) == "files may not be written or changed here (open 'x')"
