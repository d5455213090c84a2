"""Frames: what is encoded comes back, and nothing that only a hostile worker would send is believed."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from grader.sandbox import protocol
from grader.sandbox.protocol import (
    FLOATS,
    MAX_DEPTH,
    MAX_HEADER,
    MAX_INTEGER,
    MAX_NDIM,
    MAX_NODES,
    MAX_PAYLOAD,
    PREFIX,
    STORAGE,
    Array,
    Function,
    Opaque,
    ProtocolError,
    TooLarge,
    decode,
    encode,
    pack,
    parse_body,
    parse_prefix,
)


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    dtype = draw(st.sampled_from(sorted(STORAGE)))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3))
    storage = STORAGE[dtype]
    if dtype == "bool":
        raw = draw(hnp.arrays(bool, shape))
    else:
        # Any bits at all: subnormals, infinities, every payload of a NaN.
        count = math.prod(shape) * storage.itemsize
        raw = np.frombuffer(draw(st.binary(min_size=count, max_size=count)), storage).reshape(shape)
    family = "scalar" if shape == () and draw(st.booleans()) else draw(st.sampled_from(["tensor", "ndarray"]))
    device = draw(st.sampled_from(["cpu", "cuda:0"]))
    layout = draw(st.sampled_from(["contiguous", "transposed", "stepped"]))
    return Array(family, dtype, raw, device, draw(st.booleans()), layout)


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-MAX_INTEGER + 1, MAX_INTEGER - 1),
    st.floats(),
    st.text(max_size=20),
    arrays(),
    st.builds(Opaque, st.text(max_size=20), st.text(max_size=20)),
    st.builds(Function, st.text(max_size=10)),
)
KEYS = st.one_of(
    st.text(max_size=5), st.integers(-(10**20), 10**20), st.floats(allow_nan=False), st.booleans(), st.none()
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.lists(inner, max_size=4).map(tuple), st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)


def through(value: Any) -> Any:
    """Encode, pack into one frame, and read that frame as the other end would."""
    buffers: list[Any] = []
    header = {"value": encode(value, buffers)}
    frame = b"".join(bytes(piece) for piece in pack(header, buffers))
    header_length, payload = parse_prefix(frame[: PREFIX.size])
    assert len(frame) == PREFIX.size + header_length + payload
    read, views = parse_body(frame[PREFIX.size :], header_length)
    return decode(read["value"], views)


def same(first: Any, second: Any) -> bool:
    if type(first) is not type(second):
        return False
    if isinstance(first, Array):
        facts = (first.family, first.dtype, first.shape, first.device, first.requires_grad, first.layout)
        theirs = (second.family, second.dtype, second.shape, second.device, second.requires_grad, second.layout)
        return facts == theirs and first.raw.tobytes() == second.raw.tobytes() and first.raw.dtype == second.raw.dtype
    if isinstance(first, float):
        return (first == second and math.copysign(1, first) == math.copysign(1, second)) or (
            first != first and second != second
        )
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, dict):
        pairs = zip(first.items(), second.items(), strict=True)
        return len(first) == len(second) and all(same(a, c) and same(b, d) for (a, b), (c, d) in pairs)
    return bool(first == second)


@settings(max_examples=300, deadline=None)
@given(VALUES)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert same(through(value), value)


@settings(max_examples=100, deadline=None)
@given(arrays())
def test_a_decoded_array_is_fresh_memory(array: Array) -> None:
    buffers: list[Any] = []
    node = encode(array, buffers)
    body = bytearray(b"".join(bytes(buffer) for buffer in buffers))
    decoded = decode(node, [memoryview(body)])
    before = decoded.raw.tobytes()
    for index in range(len(body)):
        body[index] ^= 0xFF
    assert decoded.raw.tobytes() == before and decoded.raw.flags.writeable and decoded.raw.flags.aligned


@settings(max_examples=100, deadline=None)
@given(arrays())
def test_numbers_are_the_values(array: Array) -> None:
    numbers = array.numbers()
    assert numbers.shape == array.shape
    assert (numbers.dtype == np.float64) == (array.dtype in FLOATS)
    if array.dtype == "bfloat16":
        wide = (array.raw.astype(np.uint32) << 16).view(np.float32).reshape(array.shape)
        assert np.array_equal(numbers, wide.astype(np.float64), equal_nan=True)
    else:
        assert np.array_equal(numbers, array.raw.astype(numbers.dtype), equal_nan=array.dtype in FLOATS)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["a", "d", "s", "b", "L", "T", "D", "i", "f", "fn", "o", "v", "g", "l", "x"]),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=10,
)


@settings(max_examples=500, deadline=None)
@given(node=JSON, sizes=st.lists(st.integers(0, 9), max_size=3))
def test_hostile_nodes_are_refused_and_nothing_else_is_raised(node: Any, sizes: list[int]) -> None:
    try:
        decode(node, [memoryview(bytes(size)) for size in sizes])
    except ProtocolError:
        pass


def node(**changed: Any) -> dict[str, Any]:
    return {"a": "tensor", "d": "float64", "s": [2], "b": 0, **changed}


@pytest.mark.parametrize(
    "changed",
    [
        {"a": "object"}, {"a": 3}, {"d": "object"}, {"d": "complex128"}, {"d": ["float64"]}, {"d": None},
        {"s": 2}, {"s": [-2]}, {"s": [2.0]}, {"s": [True, 2]}, {"s": ["2"]}, {"s": [3]}, {"s": [1]}, {"s": []},
        {"s": [1] * (MAX_NDIM + 1) + [2]}, {"s": [MAX_PAYLOAD + 1]},
        {"b": 1}, {"b": -1}, {"b": "0"}, {"b": True}, {"b": None},
    ],
)  # fmt: skip
def test_an_array_that_does_not_fit_its_bytes_is_refused(changed: dict[str, Any]) -> None:
    assert decode(node(), [memoryview(bytes(16))]).shape == (2,)
    with pytest.raises(ProtocolError):
        decode(node(**changed), [memoryview(bytes(16))])


def test_an_empty_array_of_an_impossible_shape_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decode(node(s=[0, *[MAX_PAYLOAD] * 5]), [memoryview(b"")])
    assert decode(node(s=[0, 7]), [memoryview(b"")]).shape == (0, 7)


def test_a_buffer_is_used_once() -> None:
    """Else a frame of 256 MB could become a value of any size."""
    with pytest.raises(ProtocolError, match="used before"):
        decode({"L": [node(), node()]}, [memoryview(bytes(16))])


def test_any_byte_but_zero_is_true() -> None:
    assert decode(node(d="bool", s=[3]), [memoryview(b"\x00\x02\xff")]).raw.tolist() == [False, True, True]


@pytest.mark.parametrize(
    "bad",
    [
        {"i": "1" * 401}, {"i": "1" * 350}, {"i": "x"}, {"i": 3}, 10**60, -(1 << 53), {"f": "1.5"}, {"f": 1.5}, {"fn": 3},
        {"o": ["a"]}, {"o": "ab"}, {"L": "ab"}, {"T": 3}, {"D": [["k"]]}, {"D": [[{"L": []}, 1]]}, {"D": 3}, {}, {"x": 1}, [1],
    ],
)  # fmt: skip
def test_what_is_no_value_is_refused(bad: Any) -> None:
    with pytest.raises(ProtocolError):
        decode(bad, [])


def test_integers_of_any_honest_size_are_kept() -> None:
    for whole in (0, (1 << 53) - 1, 1 << 53, -(1 << 53), 10**299, -(10**299)):
        assert through(whole) == whole and type(through(whole)) is int
        float(through(whole))


def test_depth_and_number_of_parts_are_capped() -> None:
    deep: Any = None
    for _ in range(MAX_DEPTH):
        deep = {"L": [deep]}
    assert decode(deep, []) is not None
    with pytest.raises(TooLarge):
        decode({"L": [deep]}, [])
    assert len(decode({"L": [None] * (MAX_NODES - 1)}, [])) == MAX_NODES - 1
    with pytest.raises(TooLarge):
        decode({"L": [None] * MAX_NODES}, [])


def test_lengths_are_capped_before_anything_is_read() -> None:
    assert parse_prefix(PREFIX.pack(MAX_HEADER, MAX_PAYLOAD)) == (MAX_HEADER, MAX_PAYLOAD)
    for header, payload in [(MAX_HEADER + 1, 0), (0, MAX_PAYLOAD + 1), (2**32 - 1, 2**64 - 1)]:
        with pytest.raises(TooLarge):
            parse_prefix(PREFIX.pack(header, payload))
    with pytest.raises(TooLarge):
        parse_prefix(PREFIX.pack(10, 101), max_payload=100)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"[]", b"3", b"\xff{}", b'{"sizes": 3}', b'{"sizes": [-1, 5]}', b'{"sizes": [1.0]}', b'{"sizes": [true]}',
        b'{"sizes": [3]}', b"{}", b'{"sizes": [4, 1]}', b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b', "sizes": [4]}',
    ],
)  # fmt: skip
def test_a_header_that_is_none_is_refused(text: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_body(text + bytes(4), len(text))


def test_buffers_are_cut_as_their_sizes_say() -> None:
    text = json.dumps({"x": 1, "sizes": [1, 0, 3]}).encode()
    header, views = parse_body(text + b"abcd", len(text))
    assert header == {"x": 1} and [bytes(view) for view in views] == [b"a", b"", b"bcd"]


def test_long_names_are_cut() -> None:
    opaque = decode({"o": ["n" * 500, "r" * 500]}, [])
    assert len(opaque.type_name) == len(opaque.reason) == 200
    assert len(decode(node(v="d" * 500), [memoryview(bytes(16))]).device) == 40


def test_nothing_else_can_be_sent() -> None:
    with pytest.raises(TypeError):
        encode(object(), [])
    with pytest.raises(TypeError):
        encode(np.zeros(2), [])
    with pytest.raises(TypeError):
        encode({1, 2}, [])


def test_casting_rounds_to_nearest_even_and_overflows_to_infinity() -> None:
    assert protocol.cast(np.array([1 + 2**-24, 1 + 3 * 2**-24, 1e39]), "float32").tolist() == [1.0, 1 + 2**-22, np.inf]
    assert protocol.cast(np.array([1 + 2**-11, 1 + 3 * 2**-11, 1e6]), "float16").tolist() == [1.0, 1 + 2**-9, np.inf]
    assert protocol.cast(np.array(2.5), "bfloat16").shape == ()
