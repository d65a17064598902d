"""A recording replays exactly what was recorded, and refuses anything that it does not hold."""

import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path as FilePath

import numpy as np
import pytest

from gpudissect.device.base import Described, Device, without_host
from gpudissect.device.recording import codec, format
from gpudissect.device.recording.device import MAX_ITEMS, MAX_SMS, RecordedGpu, Recorder
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.errors import KernelFailed, NotRecorded, OutOfMemory, RecordingError, UsageError
from gpudissect.trace import Context, Trace, totals_by_sm
from gpudissect.workload import (
    Bounds,
    Chase,
    Explicit,
    Instruction,
    Launch,
    LaunchMethod,
    Mix,
    Path,
    Sequential,
    Shuffled,
    Step,
    Stream,
    Timing,
    Transfer,
    Workload,
)
from gpudissect.workload.digest import digest

EACH = Chase(path=Path.GLOBAL, order=Shuffled(64, 32, seed=3), timing=Timing.EACH, laps=2)
PICKED = Chase(path=Path.TEXTURE, order=Sequential(64, 32), timing=Timing.EACH, picks=(1, 5, 63), laps=3)
LAP = Chase(path=Path.SHARED, order=Explicit(np.array([8, 0, 24])), timing=Timing.LAP, laps=4)
COUNT = Chase(path=Path.GLOBAL, order=Sequential(4, 32), timing=Timing.COUNT, laps=2, bounds=Bounds(1, 2, 3))
MIX = Mix(body=(Step(Instruction.FADD),), warps=2, block_size=32, iterations=3)
SILENT = replace(MIX, waves=5, silent=True)
PER_SM = replace(MIX, per_sm=True)
STREAM = Stream(path=Path.GLOBAL, transfer=Transfer.READ, footprint=4096, blocks=4, threads=32, runs=2)
LAUNCH = Launch(method=LaunchMethod.STREAM, runs=5)
INFO = DeviceInfo(
    spec="fake:0",
    name="Fake \x1b[31mGPU\u202e é",
    origin=Origin.MEASURED,
    sm_count=7,
    span_limits={Path.GLOBAL: 1 << 30, Path.SHARED: 49152},
    unsupported={Path.TEXTURE: "no texture units"},
    facts={"clock_hz": 1.5e9, "l2_size": 1 << 21, "compute_capability": "9.0"},
    environment={"driver": "580.1"},
    provenance={"gpu_uuid": "GPU-1", "host": "node17", "time": "2026-11-22T00:00:00+00:00"},
    streams=(Path.CLUSTER, Path.TMA),
    catalogue="h200",
)
OPTIONS = {"seed": 5, "quick": False, "elements": ["l1"]}
DEVICE = {"spec": "x", "name": "x", "origin": "measured", "sm_count": 3, "span_limits": {}}
CONTEXT = {"device": "x", "clock_hz": None, "sm": None, "notes": {}}
BOMB = np.zeros(4_000_000, np.int64)  # some kilobytes when packed
MAX_PEAK_BYTES = 4 << 20


class FakeGpu(Device):
    """Traces hold the number of the run; `error`, if set, is raised instead."""

    info = INFO

    def __init__(self) -> None:
        self.runs = 0
        self.error: Exception | None = None

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        if self.error is not None:
            raise self.error
        return [self._trace(workload) for workload in batch]

    def _trace(self, workload: Workload) -> Trace:
        self.runs += 1
        context = Context(device=self.info.name, clock_hz=1e9 + self.runs % 3, sm=self.runs % 2, notes={"pass": "x"})
        if isinstance(workload, Mix):
            warps = np.arange(INFO.sm_count * workload.warps)
            arrays = {"sm": warps // workload.warps, "begin": warps, "end": warps + self.runs, "block": warps}
            if workload.per_sm:
                arrays = totals_by_sm(warps, warps + self.runs, arrays["sm"])
            return Trace(digest(workload), {**arrays, "nanoseconds": np.array([self.runs])}, context)
        if not isinstance(workload, Chase) or workload.timing is not Timing.EACH:
            return Trace(digest(workload), {"cycles": np.full(4, 100 + self.runs)}, context)
        lap = workload.order.offsets()
        lap = lap if workload.picks is None else lap[list(workload.picks)]
        offsets = np.tile(lap, workload.laps)
        return Trace(digest(workload), {"offsets": offsets, "cycles": 50 + self.runs + offsets % 5}, context)


def same(one: Trace, other: Trace) -> bool:
    return (one.workload, one.context, list(one.arrays)) == (other.workload, other.context, list(other.arrays)) and all(
        np.array_equal(array, other.arrays[name]) for name, array in one.arrays.items()
    )


@pytest.fixture
def folder(tmp_path: FilePath) -> FilePath:
    return tmp_path / "rec"


def record(folder: FilePath, *batches: Sequence[Workload]) -> list[Trace]:
    with Recorder(FakeGpu(), folder, options=OPTIONS) as recorder:
        return [trace for batch in batches for trace in recorder.run(batch)]


def test_replays_every_trace_with_its_context(folder):
    batches = [[EACH, LAP], [PICKED], [MIX], [SILENT], [PER_SM]]
    recorded = record(folder, *batches)
    with RecordedGpu.open(folder) as gpu:
        replayed = [trace for batch in batches for trace in gpu.run(batch)]
    assert all(map(same, recorded, replayed))
    assert gpu.options == OPTIONS


def test_run_k_of_a_workload_replays_its_trace_k_in_any_batches(folder):
    recorded = record(folder, [LAP, LAP], [EACH], [LAP])
    gpu = RecordedGpu.open(folder)
    replayed = [gpu.run([LAP])[0], *gpu.run([LAP, LAP]), *gpu.run([EACH])]
    assert all(map(same, [recorded[0], recorded[1], recorded[3], recorded[2]], replayed))


def test_the_device_is_the_recorded_one_marked_as_replayed(folder, tmp_path):
    record(folder, [LAP])
    info = RecordedGpu.open(folder).info
    assert (info.spec, info.origin, info.recorded_origin) == (f"rec:{folder}", Origin.REPLAYED, Origin.MEASURED)
    for name in ("name", "sm_count", "span_limits", "unsupported", "facts", "environment", "provenance", "catalogue"):
        assert getattr(info, name) == getattr(INFO, name)
    assert [type(value) for value in info.facts.values()] == [float, int, str]

    again = tmp_path / "again"  # a recording of a replay is still of a measured GPU
    with Recorder(RecordedGpu.open(folder), again) as recorder:
        recorder.run([LAP])
    assert RecordedGpu.open(again).info.recorded_origin is Origin.MEASURED


def test_a_recording_without_the_host_names_none(folder):
    with Recorder(Described(FakeGpu(), without_host), folder) as recorder:
        recorder.run([LAP])
    provenance = RecordedGpu.open(folder).info.provenance
    assert "host" not in provenance and provenance["gpu_uuid"] == "GPU-1"
    assert "node17" not in (folder / "recording.jsonl").read_text(encoding="utf-8")


def test_errors_are_raised_again_in_the_same_run_of_a_batch(folder):
    gpu = FakeGpu()
    with Recorder(gpu, folder) as recorder:
        first = recorder.run([LAP])[0]
        for error in (OutOfMemory("no room for 3 GiB"), KernelFailed("misaligned address")):
            gpu.error = error
            with pytest.raises(type(error)):
                recorder.run([LAP])
        gpu.error = None
        last = recorder.run([LAP])[0]
    replay = RecordedGpu.open(folder)
    assert same(replay.run([LAP])[0], first)
    with pytest.raises(OutOfMemory, match=r"^no room for 3 GiB$"):
        replay.run([LAP])
    with pytest.raises(KernelFailed, match=r"^misaligned address$"):
        replay.run([LAP])
    assert same(replay.run([LAP])[0], last)


def test_a_missing_workload_is_refused_in_one_line_and_uses_nothing_up(folder):
    recorded = record(folder, [LAP])
    gpu = RecordedGpu.open(folder)
    with pytest.raises(RecordingError, match=r"no workload .*seed 5") as caught:
        gpu.run([LAP, EACH])
    assert "\n" not in str(caught.value)
    assert same(gpu.run([LAP])[0], recorded[0])
    with pytest.raises(RecordingError, match="only 1 runs of") as caught:
        gpu.run([LAP])
    assert not isinstance(caught.value, NotRecorded)
    with pytest.raises(NotRecorded, match="no workload"):
        gpu.run([EACH])


def test_an_interrupted_recording_is_whole_and_says_that_it_ended_early(folder):
    with pytest.raises(KeyboardInterrupt), Recorder(FakeGpu(), folder) as recorder:
        recorder.run([LAP])
        raise KeyboardInterrupt
    gpu = RecordedGpu.open(folder)
    gpu.run([LAP])
    with pytest.raises(RecordingError, match="ended early") as caught:
        gpu.run([EACH])
    assert not isinstance(caught.value, NotRecorded)


def test_closing_twice_is_fine(folder):
    recorder = Recorder(FakeGpu(), folder)
    recorder.close()
    recorder.close()
    assert RecordedGpu.open(folder).options == {}


def test_offsets_that_follow_from_the_workload_take_no_space(folder):
    record(folder, [Chase(path=Path.GLOBAL, order=Shuffled(50_000, 32, seed=1), timing=Timing.EACH)])
    assert (folder / format.ARRAYS).stat().st_size < 50_000


def test_an_order_that_this_version_visits_differently_is_refused(folder, monkeypatch):
    record(folder, [EACH])
    monkeypatch.setattr(Shuffled, "offsets", lambda self: Sequential(self.count, self.stride).offsets())
    with pytest.raises(RecordingError, match="another order"):
        RecordedGpu.open(folder).run([EACH])


def test_a_folder_in_use_is_left_alone(folder, tmp_path):
    record(folder, [LAP])
    index = (folder / format.INDEX).read_bytes()
    with pytest.raises(UsageError, match="holds a recording"):
        Recorder(FakeGpu(), folder)
    assert (folder / format.INDEX).read_bytes() == index
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is not empty"):
        Recorder(FakeGpu(), tmp_path)
    with pytest.raises(UsageError, match="cannot record into"):
        Recorder(FakeGpu(), tmp_path / "file")


def test_a_full_disk_does_not_stop_the_measurement(folder, monkeypatch):
    recorder = Recorder(FakeGpu(), folder)
    recorder.run([LAP])
    write_all = format._write_all

    def full(file, data):
        write_all(file, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(format, "_write_all", full)
    assert recorder.run([EACH])[0].cycles.size == 128
    with pytest.raises(UsageError, match="No space left on device; what was written before is kept"):
        recorder.close()
    with pytest.raises(RecordingError, match="cut off"):
        RecordedGpu.open(folder)
    RecordedGpu.open(folder, partial=True).run([LAP])


def crafted(folder: FilePath, workload, arrays, header=None) -> FilePath:
    """A recording of one trace with these arrays, valid or not."""
    writer = format.Writer(folder, {"program": "test", "device": {**DEVICE, **(header or {})}})
    writer.add([({"context": CONTEXT}, b"")])
    entries, chunks = [], []
    for name, array in arrays:
        description, data = codec.pack(array)
        entries.append({"name": name, **description, "packed": len(data)})
        chunks.append(data)
    writer.add([({"trace": digest(workload), "context": 0, "arrays": entries}, b"".join(chunks))])
    writer.close({"traces": 1})
    return folder


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        (LAP, "cycles"),
        (EACH, "offsets"),
        (COUNT, "counts"),
        (MIX, "begin"),
        (STREAM, "cycles"),
        (LAUNCH, "nanoseconds"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_array_longer_than_that_of_the_workload_allocates_nothing(folder, workload, name):
    gpu = RecordedGpu.open(crafted(folder, workload, [(name, BOMB)]))
    tracemalloc.start()
    try:
        with pytest.raises(RecordingError, match=r"claims more than the [0-9]+ values") as caught:
            gpu.run([workload])
        assert tracemalloc.get_traced_memory()[1] < MAX_PEAK_BYTES
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        ([("cycles", np.zeros(3, int))], r"array 'cycles' has shape \(3,\), that of the workload is \(4,\)"),
        ([("cycles", np.zeros((2, 2), int))], r"has shape \(2, 2\)"),
        ([("cycle", np.zeros(4, int))], "array 'cycle' is none of this workload"),
        ([("cycles", np.zeros(4, int))] * 2, "occurs twice"),
    ],
)
def test_arrays_of_another_name_or_shape_are_refused(folder, arrays, why):
    gpu = RecordedGpu.open(crafted(folder, LAP, arrays))
    with pytest.raises(RecordingError, match=why):
        gpu.run([LAP])


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ({"instructions": ["x"] * (MAX_ITEMS + 1)}, "instructions has 1025 items, allowed: up to 1024"),
        ({"facts": {str(number): [] for number in range(MAX_ITEMS + 1)}}, "facts has 1025 items"),
        ({"sm_count": MAX_SMS + 1}, "its device has 65537 SMs, allowed: 1 to 65536"),
        ({"sm_count": 0}, "its device has 0 SMs"),
        ({"name": "x" * format.MAX_LINE_BYTES}, r"line 1 has [0-9]+ bytes, allowed: up to 4194304"),
    ],
)
def test_an_oversized_header_is_refused(folder, header, why):
    with pytest.raises(RecordingError, match=why):
        RecordedGpu.open(crafted(folder, LAP, [], header))


@pytest.mark.parametrize("lost", ["begin", "block"])
def test_a_trace_without_one_of_its_arrays_is_refused(folder, monkeypatch, lost):
    whole = FakeGpu._trace

    def without_one(gpu: FakeGpu, workload: Workload) -> Trace:
        trace = whole(gpu, workload)
        arrays = {name: array for name, array in trace.arrays.items() if name != lost}
        return Trace(trace.workload, arrays, trace.context)

    monkeypatch.setattr(FakeGpu, "_trace", without_one)
    record(folder, [MIX])
    with RecordedGpu.open(folder) as gpu, pytest.raises(RecordingError, match=f"it lacks the array '{lost}'"):
        gpu.run([MIX])


def test_work_that_ends_before_it_begins_is_refused(folder, monkeypatch):
    whole = FakeGpu._trace

    def reversed_in_time(gpu: FakeGpu, workload: Workload) -> Trace:
        trace = whole(gpu, workload)
        return Trace(trace.workload, {**trace.arrays, "end": trace.begin - 1}, trace.context)

    monkeypatch.setattr(FakeGpu, "_trace", reversed_in_time)
    record(folder, [MIX])
    with RecordedGpu.open(folder) as gpu, pytest.raises(RecordingError, match="ends before it begins"):
        gpu.run([MIX])
