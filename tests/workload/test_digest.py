"""Digests distinguish workloads and never change, nor do the names in recordings: old recordings stay readable."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from gpudissect.device.base import Device
from gpudissect.device.recording import format
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
)
from gpudissect.workload.digest import (
    WIRE_ARRAYS,
    WIRE_CLASSES,
    WIRE_FIELDS,
    WIRE_NOTES,
    current_names,
    digest,
    wire_names,
)

CHASE = Chase(path=Path.GLOBAL, order=Shuffled(10, 32, 1), timing=Timing.LAP)
COUNT = replace(CHASE, timing=Timing.COUNT, bounds=Bounds(40, 200, 300))
PRIOR = PriorAccesses(path=Path.TEXTURE, order=Sequential(4, 32, 512), warp=1)
CODE = {"path": Path.CODE, "order": Sequential(8, 128)}
STREAM = Stream(path=Path.TMA, transfer=Transfer.READ, footprint=65536, blocks=4, threads=1, width=1024, ilp=2)
TILES = Stream(path=Path.GLOBAL, transfer=Transfer.COPY, footprint=65536, blocks=8, threads=32)
MIX = Mix(body=(Step(Instruction.LDG),), warps=8, block_size=64, iterations=100)
SAMPLED = replace(MIX, access=Access.RANDOM, footprint=1 << 30, sampled=8)
DIFFERENT = (
    CHASE,
    *(replace(CHASE, laps=2), replace(CHASE, warmup=0), replace(CHASE, repetition=1), replace(CHASE, alone=True)),
    *(replace(CHASE, flush=True), replace(CHASE, carveout=0), replace(CHASE, path=Path.TEXTURE)),
    *(replace(CHASE, order=Sequential(10, 32)), replace(CHASE, order=Shuffled(10, 32, 1, 32))),
    *(replace(CHASE, order=Explicit(np.arange(10) * 32)), replace(CHASE, timing=Timing.EACH)),
    *(replace(CHASE, timing=Timing.EACH, picks=(1,)), COUNT),
    *(replace(CHASE, before=before) for before in ((PRIOR,), (PRIOR, PRIOR), (replace(PRIOR, sm=1),))),
    replace(CHASE, before=(replace(PRIOR, warp=0, threads=2),)),
    *(replace(CHASE, sm=0), replace(CHASE, sm=1), replace(CHASE, before=(PriorAccesses(**CODE),))),
    *(replace(CHASE, path=Path.CLUSTER), replace(CHASE, path=Path.CLUSTER, peer=2)),
    *(replace(CHASE, path=Path.TMA), replace(CHASE, **CODE)),
    STREAM,
    *(replace(STREAM, passes=2), replace(STREAM, runs=2), replace(STREAM, repetition=1), replace(STREAM, blocks=8)),
    replace(STREAM, path=Path.GLOBAL, width=16, waves=2),
    *(replace(STREAM, path=Path.CLUSTER, width=16, cluster=cluster) for cluster in (2, 4)),
)
COUNT_CHANGES = {"warmup": 2, "laps": 3, "carveout": 50, "alone": True, "flush": True, "repetition": 1}
COUNT_CHANGES |= {"order": Sequential(10, 32), "before": (replace(PRIOR, laps=2, warp=3, sm=1),)}
MIX_CHANGES = {"body": (Step(Instruction.LDG), Step(Instruction.FADD, 8)), "ilp": 2, "sms": 3, "stride": 4, "width": 8}
MIX_CHANGES |= {"access": Access.STREAMING, "footprint": 1 << 30, "waves": 3, "repetition": 2, "cold": True}
PINNED = {
    "0222aff041af9df1c1d426971051b061": CHASE,
    "5505f321282235cba679f8ddc3225622": replace(CHASE, order=Explicit(np.arange(10) * 32)),
    "71bcb159a9c72b4db0f39c0d61404df7": replace(CHASE, timing=Timing.EACH, picks=(1,)),
    "300db5f9718ad5c7c6f62b885413286c": COUNT,
    "7c0452ef792b291dfffdf7df5741ca67": replace(CHASE, before=(PRIOR,)),
    "035201320ad09d3c4d286fcc9e214ff0": replace(CHASE, path=Path.CLUSTER),
    "aff4aebe73049c2a924d4463b4f7691d": replace(CHASE, path=Path.CLUSTER, peer=2),
    "996ee840d35397f529041ab8b6d03ce1": STREAM,
    "c6123ac884595532798b790ff3f3ff19": replace(STREAM, path=Path.CLUSTER, width=16, cluster=4),
    "3fad66bf00d8181ad947856f91ec8bbc": Chase(**CODE, timing=Timing.LAP),
    "1e48f1814f26179aa53e31ef8d20ca10": replace(COUNT, **COUNT_CHANGES),
    "0c43102471589e97cf8ec29fadb928a4": replace(
        CHASE, order=Explicit(np.arange(10) * 32), timing=Timing.EACH, picks=(1, 3), sm=2
    ),
    "b5430a19eba4fdc6eec9925da25c2506": replace(CHASE, path=Path.CLUSTER, order=Shuffled(10, 32, 7, 64), peer=2),
    "fdfe77424e8eb79b91f8d575c0dcb4ac": replace(TILES, ilp=2, width=16, repetition=1, cluster=2, runs=3, waves=4),
    "47af7a09ebe20e558cbafc35e71f92e2": replace(TILES, path=Path.SHARED, transfer=Transfer.READ, passes=4),
    "85fe7c8929601b5658b88668b4c3e387": replace(MIX, **MIX_CHANGES),
    "1dff2376ec762b599ecf2a64c06c6c8d": SAMPLED,
    "5f586bb1e69f84debfc60ede020abc46": Launch(
        method=LaunchMethod.GRAPH, kernels=3, runs=5, repetition=1, clock=Clock.GPU
    ),
}
METHODS = tuple(LaunchMethod)
INFO = DeviceInfo("fake:0", "Fake", Origin.MEASURED, sm_count=1, span_limits={}, launch_methods=METHODS)


def test_every_field_counts():
    assert len({digest(workload) for workload in DIFFERENT}) == len(DIFFERENT)


@pytest.mark.parametrize("pinned", PINNED)
def test_digests_are_the_same_in_every_version(pinned):
    assert digest(PINNED[pinned]) == pinned


def test_a_field_added_later_leaves_old_digests_as_they_are():
    @dataclass(frozen=True)
    class Old:
        laps: int
        flush: bool = False

    @dataclass(frozen=True)
    class New:
        laps: int
        flush: bool = False
        added: int = 7

    New.__name__ = "Old"
    assert digest(Old(3)) == digest(New(3)) != digest(New(3, added=8))


class OneTrace(Device):
    """A device with one trace that holds every renamed array and note, then an error."""

    info = INFO

    def __init__(self):
        self.runs = 0

    def run(self, batch):
        self.runs += 1
        if self.runs > 1:
            raise UnsupportedWorkload("too many warps")
        warps = {name: np.arange(8) for name in ("begin", "end", "sm", "block")}
        ones = {name: np.array([5]) for name in ("latency", "count", "overhead", "overflow_count", "nanoseconds")}
        return [Trace(digest(batch[0]), warps | ones, Context("Fake", notes=dict.fromkeys(WIRE_NOTES, "7")))]


def test_recordings_hold_wire_names_and_replay_with_current_ones(tmp_path):
    with Recorder(OneTrace(), tmp_path / "rec") as recorder:
        (recorded,) = recorder.run([SAMPLED])
        with pytest.raises(UnsupportedWorkload):
            recorder.run([SAMPLED])
    content = format.read(tmp_path / "rec")
    assert content.header["device"]["means"] == ["stream", "graph"]
    context, trace, error = (entry for entry, _ in content.entries)
    assert set(context["context"]["notes"]) == set(WIRE_NOTES.values())
    names = {array["name"] for array in trace["arrays"]}
    assert "beyond" in names and "overflow_count" not in names and len(names) == len(recorded.arrays)
    assert error["error"] == "Unfit"
    with RecordedGpu.open(tmp_path / "rec") as replay:
        assert replay.info.launch_methods == METHODS
        (replayed,) = replay.run([SAMPLED])
        with pytest.raises(UnsupportedWorkload, match="too many warps"):
            replay.run([SAMPLED])
    assert replayed.context == recorded.context and replayed.overflow_count == recorded.overflow_count == 5
    assert {name: array.tolist() for name, array in replayed.arrays.items()} == {
        name: array.tolist() for name, array in recorded.arrays.items()
    }


def test_current_names_undo_wire_names():
    for table in (WIRE_ARRAYS, WIRE_NOTES, WIRE_CLASSES, *WIRE_FIELDS.values()):
        assert current_names(wire_names(dict.fromkeys(table, 1), table), table) == dict.fromkeys(table, 1)
