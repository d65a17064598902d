"""Traces and files of profiles: what is written is read again, damaged ones are refused in one line."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.errors import UsageError
from gpudissect.explanation.instrument import Events
from gpudissect.explanation.packing import (
    ELSEWHERE,
    LOCAL,
    SHARED,
    Trace,
    pack_bytes,
    pack_trace,
    relative_trace,
    unpack_bytes,
    unpack_trace,
)
from gpudissect.explanation.profile import MAX_PROFILE_BYTES, Gpu, Launch, Point, Profile, Warp, read_profile

EVERY_LANE = 0xFFFFFFFF


def trace_of(index, lanes, allocations, offsets, visits=0):
    numbers = np.arange(visits, dtype=np.uint32)
    active = (np.asarray(lanes, np.uint32)[:, None] >> np.arange(32, dtype=np.uint32) & 1).astype(bool)
    allocations, offsets = np.where(active, allocations, 0).astype(np.int16), np.where(active, offsets, 0)
    return Trace(
        numbers,
        numbers * 3,
        np.array(index, np.uint32),
        np.array(lanes, np.uint32),
        allocations,
        offsets.astype(np.int64),
    )


def assert_equal(first, second):
    for name in Trace.__dataclass_fields__:
        a, b = getattr(first, name), getattr(second, name)
        assert a.dtype == b.dtype and a.shape == b.shape and (a == b).all(), name


@settings(max_examples=100)
@given(st.integers(0, 40), st.integers(0, 30), st.integers(0, 10**6))
def test_a_trace_is_unpacked_as_it_was_packed(accesses, visits, seed):
    random = np.random.default_rng(seed)
    trace = trace_of(
        random.integers(0, 4, accesses),
        random.choice([0, 1, 2**31, EVERY_LANE, 0xFFFF, 12345678], accesses),
        random.integers(-3, 3, (accesses, 32)),
        random.integers(-(2**62), 2**62, (accesses, 32)),
        visits,
    )
    assert_equal(unpack_trace(pack_trace(trace), visits, accesses, "trace"), trace)


def test_regular_accesses_take_little_space():
    count = 1500
    offsets = 4 * np.arange(32) + 128 * 100 * (np.arange(count) // 3)[:, None]
    trace = trace_of(np.arange(count) % 3, [EVERY_LANE] * count, (np.arange(count) % 3)[:, None], offsets)
    assert len(pack_trace(trace)) < 2500


def test_addresses_are_relative_to_the_allocation_they_fall_in():
    addresses = np.zeros((4, 32), np.uint64)
    addresses[0, :2] = 0x1010, 0x2FFF
    addresses[1, :2] = 0x2000, 0x3000
    addresses[2, :2] = 0x44, (1 << 62) | 0x44
    addresses[3, :3] = 0x1004, (1 << 62) | 0x20, (1 << 63) | 0x30
    index = np.array([0, 0, 1, 2], np.uint32)
    accesses = Events(index, np.array([3, 3, 1, 7], np.uint32), addresses, 0)
    visits = Events(np.zeros(0, np.uint32), np.zeros(0, np.uint32), None, 0)
    trace = relative_trace(visits, accesses, ("global", "shared", "generic"), (0x1000, 0x2000), (0x100, 0x1000))
    assert trace.allocations[:, :3].tolist() == [[0, 1, 0], [1, ELSEWHERE, 0], [SHARED, 0, 0], [0, SHARED, LOCAL]]
    assert trace.offsets[:, :3].tolist() == [[0x10, 0xFFF, 0], [0, 0x3000, 0], [0x44, 0, 0], [4, 0x20, 0x30]]
    assert not trace.allocations[:, 3:].any() and not trace.offsets[:, 3:].any()


@pytest.mark.parametrize(
    "text", ["", "x", "AAAA", pack_bytes(b"1" * 9), pack_bytes(bytes(10**6)), pack_bytes(b"1" * 10)[:-6] + "AA=="]
)
def test_damaged_traces_are_refused_in_one_line(text):
    with pytest.raises(UsageError) as error:
        unpack_trace(text, 1, 0, "a field")
    assert "\n" not in str(error.value) and "a field" in str(error.value)
    with pytest.raises(UsageError):
        unpack_trace(pack_bytes(b""), 1 << 40, 0, "a field")


def test_decompression_is_bounded():
    assert unpack_bytes(pack_bytes(b"abc"), 3, "a field") == b"abc"
    with pytest.raises(UsageError, match="more than 2 bytes"):
        unpack_bytes(pack_bytes(b"abc"), 2, "a field")


def profile():
    trace = trace_of([0, 1], [EVERY_LANE, 3], 0, 4 * np.arange(32), 5)
    return Profile(
        kernel="k",
        architecture="sm_90",
        code_sha256="0" * 64,
        packed_ptx=pack_bytes(b".version 8.0"),
        packed_cubin=pack_bytes(b""),
        registers=32,
        shared_bytes=0,
        local_bytes=0,
        launch=Launch(grid=(4, 2, 1), block=(100, 1, 1)),
        arguments=("x:f32[64]=random",),
        gpu=Gpu(name="GPU", sm_count=132, facts={"l2_size": 1 << 20}),
        counts=(("k", 0, 32, 800, 0), ("k", 1, 3, 20, 7)),
        warps=(Warp(block=3, warp=1, visits=5, accesses=2, packed=pack_trace(trace)),),
        sweep=(
            Point(
                blocks_per_sm=1,
                warps_per_sm=4,
                shared_bytes=9,
                carveout=100,
                ns=2.5,
                ns_low=2.0,
                ns_high=3.0,
                launches=9,
                launches_per_time=3,
                host_ns=1.0,
            ),
        ),
    )


def test_a_profile_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "k.json"
    path.write_text(profile().to_json())
    found = read_profile(path)
    assert found == profile()
    assert json.loads(path.read_text())["schema"] == "gpudissect/profile/1"
    assert found.block_counts()["k", 1] == (3, 20, 7, ())
    assert (found.ptx(), found.launch.warps_per_block, found.launch.blocks) == (".version 8.0", 4, 8)
    assert found.warps[0].trace().offsets[1].tolist() == [0, 4] + [0] * 30


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("profile/1", "profile/2"),
        lambda text: text.replace('"registers":32', '"registers":-1'),
        lambda text: text.replace('"visits":5', '"visits":99999999'),
        lambda text: "[" * 100_000,
        lambda text: text + " " * MAX_PROFILE_BYTES,
        lambda text: text.replace('"k"', "1\\n"),
    ],
)
def test_damaged_profiles_are_refused_in_one_line(tmp_path, damage):
    path = tmp_path / "k.json"
    path.write_text(damage(profile().to_json()))
    with pytest.raises(UsageError) as error:
        read_profile(path)
    assert "\n" not in str(error.value) and "k.json" in str(error.value)
    with pytest.raises(UsageError, match="cannot read"):
        read_profile(tmp_path / "missing.json")
