"""Which accesses of long warps a profile keeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.explanation import process, record, sampling, windows
from tests.explanation.test_record import prepared, reference, serve

KEPT = 24


@given(total=st.integers(0, 10_000), count=st.integers(1, 2_000), fewer=st.integers(1, 2_000))
def test_kept_accesses_are_in_order_and_those_of_a_smaller_number_are_among_them(total, count, fewer):
    kept = [number for part in windows.windows(total, count) for number in part]
    assert len(kept) == min(total, count) and kept == sorted(set(kept))
    assert all(0 <= number < total for number in kept)
    assert {number for part in windows.windows(total, min(fewer, count)) for number in part} <= set(kept)


def test_the_largest_part_is_in_the_middle():
    first, middle, last = windows.windows(10_000, 1600)
    assert (first, middle, last) == (range(100), range(4300, 5700), range(9900, 10_000))


def test_only_warps_with_too_many_accesses_are_traced_again():
    assert windows.skips(np.array([3, 9]), 9) == []
    middle, last = windows.skips(np.array([3, 320]), 160)
    assert (middle.tolist(), last.tolist()) == ([0, 90], [0, 310])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the measured job of a kernel whose warps make more accesses than are kept."""
    monkeypatch.setattr(process, "_WARM_UP_S", 0.0)
    monkeypatch.setattr(record, "LAUNCH_RECORDS", 1 << 14)
    for module in (record, sampling, windows):
        monkeypatch.setattr(module, "ACCESSES_PER_WARP", KEPT)
    serve(prepared(tmp_path, "nest"), tmp_path)
    return tmp_path


def test_a_profile_has_the_first_the_middle_and_the_last_accesses(folder):
    profile, expected = record.finish(folder, {}), reference("nest").events
    assert profile.warps and any(warp.more_accesses for warp in profile.warps)
    for warp in profile.warps:
        events, trace = expected[warp.block, warp.warp], warp.trace()
        numbers = [number for part in windows.windows(len(events), KEPT) for number in part]
        assert warp.accesses + warp.more_accesses == len(events)
        assert [profile.accesses[index][0] for index in trace.accessed] == [events[n][0] for n in numbers]
        assert trace.access_lanes.tolist() == [events[n][1] for n in numbers]


def test_traces_that_are_too_large_keep_fewer_accesses(folder, monkeypatch):
    whole = record.finish(folder, {}).warps
    characters = sum(len(warp.packed) for warp in whole)
    monkeypatch.setattr(windows, "MAX_TRACE_CHARACTERS", characters * 3 // 4)
    fewer = record.finish(folder, {}).warps
    assert [(warp.block, warp.warp) for warp in fewer] == [(warp.block, warp.warp) for warp in whole]
    assert sum(len(warp.packed) for warp in fewer) <= characters * 3 // 4
    for before, after in zip(whole, fewer, strict=True):
        assert after.accesses + after.more_accesses == before.accesses + before.more_accesses


def test_operations_on_barriers_are_traced_from_the_first_one_on(folder, monkeypatch):
    job = windows.jobs.read_job(folder)
    assert not job.is_traced_in_order
    recorded = windows._Recorded(0, 0, record.finish(folder, {}).warps[0].trace(), np.arange(KEPT), 100, 0)
    assert windows._thinned(recorded, 4, in_order=True).numbers.tolist() == [0, 1, 2, 3]
