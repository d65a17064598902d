"""When warps began and ended comes back as it was, in less room; what does not belong together is refused."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.device.recording import format as recording
from gpudissect.device.recording import packed_warps
from gpudissect.device.recording.device import RecordedGpu, Recorder
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.errors import RecordingError
from gpudissect.trace import Context, Trace
from gpudissect.workload import Instruction, Mix, Step
from gpudissect.workload.digest import digest

MIX = Mix(body=(Step(Instruction.FADD, 8),), warps=8, block_size=128, iterations=100, waves=3)
whole = st.integers(-(2**63), 2**63 - 1)


def lifetimes(warps=132 * 24, seed=1):
    rng = np.random.default_rng(seed)
    sm = np.tile(np.arange(132), warps // 132 + 1)[:warps]
    begin = rng.integers(2**45, 2**46, 132)[sm] + rng.integers(0, 900, warps)
    return {"begin": begin, "end": begin + rng.integers(100_000, 101_000, warps), "sm": sm,
            "block": np.arange(warps) // 4, "nanoseconds": np.array([77])}  # fmt: skip


def round_trip(arrays):
    back = {}
    for label in packed_warps.ordered(arrays):
        packed = packed_warps.pack(label, arrays)
        description, data = packed or recording.pack(arrays[label])
        description = json.loads(json.dumps(description))
        size = arrays[label].size
        if packed:
            back[label] = packed_warps.unpack(description, data, back, size)
        else:
            back[label] = recording.unpack(description, data, size)
    return back


@given(st.lists(st.tuples(whole, whole, whole), min_size=1, max_size=30))
def test_any_numbers_come_back(rows):
    begin, end, sm = np.array(rows, dtype=np.int64).T
    arrays = {"begin": begin, "end": end, "sm": sm, "cycles": np.arange(3)}
    back = round_trip(arrays)
    assert all(np.array_equal(back[name], arrays[name]) for name in arrays)


@pytest.mark.parametrize("arrays", [
    {"begin": np.arange(4)}, {"begin": np.arange(4), "end": np.arange(4), "sm": np.arange(3)},
    {"begin": np.zeros(0, np.int64), "end": np.zeros(0, np.int64), "sm": np.zeros(0, np.int64)},
    {"begin": np.ones((2, 2), np.int64), "end": np.ones((2, 2), np.int64), "sm": np.ones((2, 2), np.int64)},
])  # fmt: skip
def test_what_is_of_no_mix_is_packed_as_ever(arrays):
    assert packed_warps.pack("begin", arrays) is None


class OneGpu:
    info = DeviceInfo(spec="x", name="x", origin=Origin.MEASURED, sm_count=132, span_limits={})

    def run(self, batch):
        return [Trace(digest(mix), lifetimes(), Context("x", 1.9e9)) for mix in batch]

    def close(self):
        pass


def test_a_recording_of_a_mix_replays_and_is_smaller(tmp_path):
    with Recorder(OneGpu(), tmp_path / "rec") as recorder:
        (then,) = recorder.run([MIX])
    with RecordedGpu.open(tmp_path / "rec") as replayed:
        (now,) = replayed.run([MIX])
    assert now.arrays.keys() == then.arrays.keys()
    assert all(np.array_equal(now.arrays[name], then.arrays[name]) for name in then.arrays)
    plain = sum(len(recording.pack(array)[1]) for array in then.arrays.values())
    assert (tmp_path / "rec" / recording.ARRAYS).stat().st_size < 0.7 * plain


def spoilt(change, label="begin"):
    arrays = lifetimes()
    description, data = packed_warps.pack(label, arrays)
    before = {"sm": arrays["sm"], "begin": arrays["begin"]}
    return change(description, data, before)


@pytest.mark.parametrize(("label", "change", "why"), [
    ("begin", lambda d, b, a: (d, b, {}), "which is not there"),
    ("begin", lambda d, b, a: (d, b, {"sm": a["sm"][1:]}), "of another length"),
    ("begin", lambda d, b, a: (d, b, {"sm": a["sm"] % 7}), "the first of 132 groups, there are 7"),
    ("begin", lambda d, b, a: (d, b + b"x", a), "bytes more than were said"),
    ("begin", lambda d, b, a: (d, b[:-9], a), "claims"),
    ("end", lambda d, b, a: ({**d, "rest": {**d["rest"], "packed": -1}}, b, a), "claims -1"),
    ("end", lambda d, b, a: ({**d, "rest": {**d["rest"], "packed": "all"}}, b, a), "claims 'all'"),
    ("end", lambda d, b, a: ({**d, "rest": {**d["rest"], "shape": [132 * 24 + 1]}}, b, a), "more than the 3168 values"),
    ("end", lambda d, b, a: ({**d, "of": "nobody"}, b, a), "'nobody', which is not there"),
])  # fmt: skip
def test_what_does_not_belong_together_is_refused(label, change, why):
    with pytest.raises(RecordingError, match=why):
        packed_warps.unpack(*spoilt(change, label), 132 * 24)
