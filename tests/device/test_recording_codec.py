"""Arrays survive the codec; damaged and oversized ones are refused; relative arrays of older recordings are read."""

import contextlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from hypothesis.extra.numpy import arrays as numpy_arrays

from gpudissect.device.recording import codec
from gpudissect.errors import RecordingError

WARPS = 132 * 24
int64 = st.integers(-(2**63), 2**63 - 1)


def joined(description, **parts):
    """One relative array as older versions wrote it."""
    chunks = []
    for name, array in parts.items():
        part, data = codec.pack(array)
        description[name] = {**part, "packed": len(data)}
        chunks.append(data)
    return json.loads(json.dumps(description)), b"".join(chunks)


def pack_begin(sm, begin):
    groups, group = np.unique(sm, return_inverse=True)
    first = np.full(groups.size, np.iinfo(np.int64).max)
    np.minimum.at(first, group, begin)
    return joined({"code": "grouped", "by": "sm"}, first=first, rest=begin - first[group])


def pack_end(begin, end):
    return joined({"code": "since", "of": "begin"}, rest=end - begin)


def lifetimes():
    rng = np.random.default_rng(1)
    sm = np.tile(np.arange(132), WARPS // 132)
    begin = rng.integers(2**45, 2**46, 132)[sm] + rng.integers(0, 900, WARPS)
    return sm, begin, begin + rng.integers(100_000, 101_000, WARPS)


@given(numpy_arrays(np.int64, array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=20)))
def test_any_array_packs_and_unpacks(array):
    description, data = codec.pack(array)
    unpacked = codec.unpack(json.loads(json.dumps(description)), data, array.size)
    assert unpacked.dtype == np.int64 and unpacked.shape == array.shape
    assert np.array_equal(unpacked, array)


def test_the_smallest_form_is_written():
    rng = np.random.default_rng(2)
    cases = {"values": rng.integers(0, 4, 999), "steps": np.arange(999) * 7, "planes": rng.integers(0, 900, 999)}
    assert {code: codec.pack(array)[0]["code"] for code, array in cases.items()} == {code: code for code in cases}


@given(st.binary(max_size=60), st.sampled_from(["<u1", "<i8", "<f8", "O"]), st.lists(st.integers(-2, 9), max_size=3))
def test_arbitrary_bytes_are_read_or_refused(data, kind, shape):
    for code in ("values", "planes"):
        with contextlib.suppress(RecordingError):
            codec.unpack({"code": code, "type": kind, "shape": shape}, data, 1000)


def test_a_decompression_bomb_is_not_unpacked():
    description, _ = codec.pack(np.zeros(1000, np.int64))
    _, bomb = codec.pack(np.zeros(10**7, np.int64))
    with pytest.raises(RecordingError, match="has 1001 bytes"):
        codec.unpack(description, bomb, 1000)


@pytest.mark.parametrize("shape", [[10**400], [1] * 100, [True], ["4"], [-1]])
def test_impossible_shapes_are_refused(shape):
    description, data = codec.pack(np.zeros(4, int))
    with pytest.raises(RecordingError):
        codec.unpack({**description, "shape": shape}, data, 4)


@given(st.lists(st.tuples(int64, int64, int64), min_size=1, max_size=30))
def test_relative_arrays_of_older_recordings_are_read(rows):
    sm, begin, end = np.array(rows, dtype=np.int64).T
    unpacked = codec.unpack(*pack_begin(sm, begin), begin.size, {"sm": sm})
    assert np.array_equal(unpacked, begin)
    assert np.array_equal(codec.unpack(*pack_end(begin, end), end.size, {"begin": unpacked}), end)


@pytest.mark.parametrize(
    ("label", "change", "why"),
    [
        ("begin", lambda d, b, a: (d, b, WARPS, {}), "missing"),
        ("begin", lambda d, b, a: (d, b, WARPS, {"sm": a["sm"][1:]}), "of another length"),
        ("begin", lambda d, b, a: (d, b, WARPS, {"sm": a["sm"] % 7}), "the first of 132 groups, there are 7"),
        ("begin", lambda d, b, a: (d, b + b"x", WARPS, a), "1 bytes more"),
        ("begin", lambda d, b, a: (d, b[:-9], WARPS, a), "claims"),
        ("end", lambda d, b, a: ({**d, "rest": {**d["rest"], "packed": -1}}, b, WARPS, a), "claims -1"),
        ("end", lambda d, b, a: ({**d, "rest": {**d["rest"], "packed": "all"}}, b, WARPS, a), "claims 'all'"),
        ("end", lambda d, b, a: (d, b, WARPS - 1, a), "more than the 3167 values"),
        ("end", lambda d, b, a: ({**d, "of": "other"}, b, WARPS, a), "'other': missing"),
    ],
)
def test_damaged_relative_arrays_are_refused(label, change, why):
    sm, begin, end = lifetimes()
    packed = pack_begin(sm, begin) if label == "begin" else pack_end(begin, end)
    with pytest.raises(RecordingError, match=why):
        codec.unpack(*change(*packed, {"sm": sm, "begin": begin}))
