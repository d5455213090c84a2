"""Mutated frames, replies, exercise files and sources: no traceback, no hang, no memory out of proportion.

``python benchmarks/fuzz.py SECONDS`` goes on for longer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import fuzzing
import pytest
from hypothesis import HealthCheck, example, given, settings

from grader.sandbox import protocol
from grader.sandbox.runner import Runner
from grader.spec.exercise import Exercise

# Found by chance once is found again only if it is repeated: what failed is written down as an example.
common = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


def frame(header: object, payload: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return protocol.PREFIX.pack(len(text), len(payload)) + text + payload


@settings(common, max_examples=400)
@given(fuzzing.frames())
@example(frame({"sizes": [], "value": {"i": "9" * 400}}))
@example(frame({"sizes": [0], "value": {"a": "ndarray", "d": "float64", "s": [0, *[1 << 28] * 8], "b": 0}}))
@example(frame({"sizes": [8], "value": {"L": [{"a": "ndarray", "d": "int8", "s": [8], "b": 0}] * 1000}}, bytes(8)))
@example(frame(b'{"sizes":' + b"[" * 100_000))
@example(frame(b'{"sizes":[' + b"0," * 50_000 + b"0]}"))
@example(frame(b'{"sizes":[1e999,-1,true]}'))
@example(protocol.PREFIX.pack(2**32 - 1, 2**64 - 1))
def test_frames(data: bytes) -> None:
    fuzzing.check_frame(data)


@settings(common, max_examples=200)
@given(fuzzing.VALUES)
def test_what_is_encoded_is_decoded(value: object) -> None:
    """Only what a value may not hold is refused; all else comes back with the same text, bits and structure."""
    buffers: list[bytes | memoryview] = []
    try:
        data = fuzzing.framed({"value": protocol.encode(value, buffers)}, buffers)
        size = protocol.PREFIX.size
        header, views = protocol.parse_body(data[size:], protocol.parse_prefix(data[:size])[0])
        again = protocol.decode(header["value"], views)
    except protocol.ProtocolError:
        # Integers beyond any float are the one thing that has a form and is not taken.
        assert "0" * 290 in repr(value)
        return
    second: list[bytes | memoryview] = []
    assert fuzzing.framed({"value": protocol.encode(again, second)}, second) == data


@pytest.fixture(scope="module")
def bench_of(
    exercise_of: Callable[[str], Exercise], warm: Callable[[str], Runner]
) -> Iterator[Callable[[str], fuzzing.Bench]]:
    made: dict[str, fuzzing.Bench] = {}

    def bench(name: str) -> fuzzing.Bench:
        if name not in made:
            exercise = exercise_of(name)
            made[name] = fuzzing.Bench(exercise, warm(exercise.spec.framework))
        return made[name]

    yield bench
    for each in made.values():
        each.close()


@pytest.mark.parametrize("name", fuzzing.FACED)
def test_replies_of_a_worker_that_was_taken_over(name: str, bench_of: Callable[[str], fuzzing.Bench]) -> None:
    bench = bench_of(name)

    # A graded torch exercise makes many calls; `benchmarks/fuzz.py` has more time for them.
    @settings(common, max_examples=40 if bench.exercise.spec.framework != "torch" else 12)
    @given(fuzzing.replies())
    def face(answer: bytes) -> None:
        fuzzing.check_reply(bench, answer)

    face()


@settings(common, max_examples=150)
@given(fuzzing.documents())
def test_exercise_files(data: bytes) -> None:
    fuzzing.check_document(data)


def test_sources(bench_of: Callable[[str], fuzzing.Bench], warm: Callable[[str], Runner]) -> None:
    bench = bench_of("softmax")

    @settings(common, max_examples=60)
    @given(fuzzing.programs())
    def face(source: bytes) -> None:
        fuzzing.check_source(bench, warm("numpy"), source)

    face()
