"""Wire names: digests and recordings keep the names that they were first written with."""

import numpy as np
import pytest

from gpudissect.device.recording import format as recording
from gpudissect.device.recording.device import RecordedGpu, Recorder
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.errors import UnsupportedWorkload
from gpudissect.trace import Context, Trace
from gpudissect.workload import (
    Access,
    Bounds,
    Chase,
    Clock,
    Explicit,
    Instruction,
    Launch,
    LaunchMethod,
    Mix,
    Path,
    PriorAccesses,
    Sequential,
    Shuffled,
    Step,
    Stream,
    Timing,
    Transfer,
    wire,
)
from gpudissect.workload.digest import digest

BEFORE = (PriorAccesses(path=Path.TEXTURE, order=Sequential(4, 32, 512), laps=2, warp=3, sm=1),)
COUNT = {"path": Path.GLOBAL, "order": Sequential(10, 32), "timing": Timing.COUNT, "bounds": Bounds(40, 200, 300)}
EACH = {"path": Path.GLOBAL, "order": Explicit(np.arange(10) * 32), "timing": Timing.EACH}
LOAD = (Step(Instruction.LDG),)
SAMPLED = Mix(body=LOAD, warps=8, block_size=64, iterations=100, access=Access.RANDOM, footprint=1 << 30, sampled=8)
PINNED = {
    "1e48f1814f26179aa53e31ef8d20ca10": Chase(
        **COUNT, warmup=2, laps=3, carveout=50, alone=True, flush=True, repetition=1, before=BEFORE
    ),
    "0c43102471589e97cf8ec29fadb928a4": Chase(**EACH, picks=(1, 3), sm=2),
    "b5430a19eba4fdc6eec9925da25c2506": Chase(
        path=Path.CLUSTER, order=Shuffled(10, 32, 7, 64), timing=Timing.LAP, peer=2
    ),
    "fdfe77424e8eb79b91f8d575c0dcb4ac": Stream(
        path=Path.GLOBAL,
        transfer=Transfer.COPY,
        footprint=65536,
        blocks=8,
        threads=32,
        ilp=2,
        width=16,
        repetition=1,
        cluster=2,
        runs=3,
        waves=4,
    ),
    "47af7a09ebe20e558cbafc35e71f92e2": Stream(
        path=Path.SHARED, transfer=Transfer.READ, footprint=65536, blocks=8, threads=32, passes=4
    ),
    "85fe7c8929601b5658b88668b4c3e387": Mix(
        body=(*LOAD, Step(Instruction.FADD, 8)),
        warps=8,
        block_size=64,
        iterations=100,
        ilp=2,
        sms=3,
        stride=4,
        width=8,
        access=Access.STREAMING,
        footprint=1 << 30,
        waves=3,
        repetition=2,
        cold=True,
    ),
    "1dff2376ec762b599ecf2a64c06c6c8d": SAMPLED,
    "5f586bb1e69f84debfc60ede020abc46": Launch(
        method=LaunchMethod.GRAPH, kernels=3, runs=5, repetition=1, clock=Clock.GPU
    ),
}
INFO = DeviceInfo(
    spec="fake:0", name="Fake", origin=Origin.MEASURED, sm_count=1, span_limits={}, launch_methods=tuple(LaunchMethod)
)


@pytest.mark.parametrize("pinned", PINNED)
def test_digests_of_every_kind_are_those_of_version_1(pinned):
    assert digest(PINNED[pinned]) == pinned


class OneTrace:
    """A device with one trace that holds every renamed array and note, and then an error."""

    info = INFO

    def __init__(self):
        self.runs = 0

    def run(self, batch):
        self.runs += 1
        if self.runs > 1:
            raise UnsupportedWorkload("too many warps")
        notes = dict.fromkeys(wire.NOTES, "7")
        warps = {name: np.arange(8) for name in ("begin", "end", "sm", "block")}
        ones = {name: np.array([5]) for name in ("latency", "count", "overhead", "overflow_count", "nanoseconds")}
        return [Trace(digest(batch[0]), warps | ones, Context("Fake", notes=notes))]

    def close(self):
        pass


def test_recordings_hold_wire_names_and_replay_with_current_ones(tmp_path):
    with Recorder(OneTrace(), tmp_path / "rec") as recorder:
        (then,) = recorder.run([SAMPLED])
        with pytest.raises(UnsupportedWorkload):
            recorder.run([SAMPLED])
    content = recording.read(tmp_path / "rec")
    assert content.header["device"]["means"] == ["stream", "graph"]
    context, trace, error = (entry for entry, _ in content.entries)
    assert set(context["context"]["notes"]) == set(wire.NOTES.values())
    assert {array["name"] for array in trace["arrays"]} == {
        *("begin", "end", "sm", "block", "nanoseconds", "latency", "count", "overhead", "beyond")
    }
    assert error["error"] == "Unfit"
    with RecordedGpu.open(tmp_path / "rec") as replay:
        assert replay.info.launch_methods == INFO.launch_methods
        (now,) = replay.run([SAMPLED])
        with pytest.raises(UnsupportedWorkload, match="too many warps"):
            replay.run([SAMPLED])
    assert now.context == then.context and now.overflow_count == then.overflow_count == 5
    assert {name: array.tolist() for name, array in now.arrays.items()} == {
        name: array.tolist() for name, array in then.arrays.items()
    }


def test_wire_names_are_undone_by_current_names():
    for table in (wire.ARRAYS, wire.NOTES, wire.CLASSES, *wire.FIELDS.values()):
        assert wire.current_names(wire.wire_names(dict.fromkeys(table, 1), table), table) == dict.fromkeys(table, 1)
