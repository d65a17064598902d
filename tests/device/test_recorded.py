"""What goes into a recording comes out of it, and nothing else does."""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path as FilePath

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gpudissect.device.recording import format as recording
from gpudissect.device.recording.device import RecordedGpu, Recorder
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.errors import KernelFailed, OutOfMemory, RecordingError, UsageError
from gpudissect.trace import Context, Trace
from gpudissect.workload import Chase, Explicit, Instruction, Mix, Path, Sequential, Shuffled, Step, Timing, Workload
from gpudissect.workload.digest import digest

EACH = Chase(path=Path.GLOBAL, order=Shuffled(64, 32, seed=3), timing=Timing.EACH, laps=2)
PICKED = Chase(path=Path.TEXTURE, order=Sequential(64, 32), timing=Timing.EACH, picks=(1, 5, 63), laps=3)
LAP = Chase(path=Path.SHARED, order=Explicit(np.array([8, 0, 24])), timing=Timing.LAP, laps=4)
INFO = DeviceInfo(
    spec="fake:0",
    name="Fake \x1b[31mGPU\u202e é",
    origin=Origin.MEASURED,
    sm_count=7,
    span_limits={Path.GLOBAL: 1 << 30, Path.SHARED: 49152},
    unsupported={Path.TEXTURE: "no texture units"},
    facts={"clock_hz": 1.5e9, "l2_size": 1 << 21, "compute_capability": "9.0"},
    environment={"driver": "580.1"},
    streams=(Path.CLUSTER, Path.TMA),
    catalogue="h200",
)


class FakeGpu:
    """Answers every workload with a number that counts up, and fails when it is told to."""

    def __init__(self) -> None:
        self.info = INFO
        self.runs = 0
        self.fail: Exception | None = None

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        if self.fail is not None:
            raise self.fail
        return [self._trace(workload) for workload in batch]

    def _trace(self, workload: Workload) -> Trace:
        self.runs += 1
        context = Context(device=self.info.name, clock_hz=1e9 + self.runs % 3, sm=self.runs % 2, notes={"pass": "x"})
        if isinstance(workload, Mix):
            warps = np.arange(INFO.sm_count * workload.warps)
            own = {"sm": warps // workload.warps, "begin": warps, "end": warps + self.runs, "block": warps}
            return Trace(digest(workload), {**own, "nanoseconds": np.array([self.runs])}, context)
        if not isinstance(workload, Chase) or workload.timing is not Timing.EACH:
            return Trace(digest(workload), {"cycles": np.full(4, 100 + self.runs)}, context)
        lap = workload.order.offsets()
        lap = lap if workload.picks is None else lap[list(workload.picks)]
        offsets = np.tile(lap, workload.laps)
        return Trace(digest(workload), {"offsets": offsets, "cycles": 50 + self.runs + offsets % 5}, context)

    def close(self) -> None: ...

    def __enter__(self):
        return self

    def __exit__(self, *exception: object) -> None: ...


def same(one: Trace, other: Trace) -> bool:
    return (
        one.workload == other.workload
        and one.context == other.context
        and list(one.arrays) == list(other.arrays)
        and all(np.array_equal(array, other.arrays[name]) for name, array in one.arrays.items())
    )


@pytest.fixture
def folder(tmp_path: FilePath) -> FilePath:
    return tmp_path / "rec"


def record(folder: FilePath, *batches: Sequence[Workload]) -> list[Trace]:
    with Recorder(FakeGpu(), folder, options={"seed": 5, "quick": False, "elements": ["l1"]}) as recorder:
        return [trace for batch in batches for trace in recorder.run(batch)]


def test_replays_every_trace_with_its_context(folder):
    batches = [[EACH, LAP], [PICKED], [Mix(body=(Step(Instruction.FADD),), warps=2, block_size=32, iterations=3)]]
    recorded = record(folder, *batches)
    with RecordedGpu.open(folder) as gpu:
        replayed = [trace for batch in batches for trace in gpu.run(batch)]
    assert all(map(same, recorded, replayed))
    assert gpu.options == {"seed": 5, "quick": False, "elements": ["l1"]}


def test_the_kth_ask_gives_the_kth_trace_whatever_the_batches(folder):
    recorded = record(folder, [LAP, LAP], [EACH], [LAP])
    gpu = RecordedGpu.open(folder)
    replayed = [gpu.run([LAP])[0], *gpu.run([LAP, LAP]), *gpu.run([EACH])]
    assert all(map(same, [recorded[0], recorded[1], recorded[3], recorded[2]], replayed))


def test_the_device_is_the_same_but_says_that_it_is_a_replay(folder, tmp_path):
    record(folder, [LAP])
    info = RecordedGpu.open(folder).info
    assert (info.spec, info.origin, info.recorded_origin) == (f"rec:{folder}", Origin.REPLAYED, Origin.MEASURED)
    for name in ("name", "sm_count", "span_limits", "unsupported", "facts", "environment", "catalogue"):
        assert getattr(info, name) == getattr(INFO, name)
    assert [type(value) for value in info.facts.values()] == [float, int, str]

    again = tmp_path / "again"  # a recording of a replay is still of a measured GPU
    with Recorder(RecordedGpu.open(folder), again) as recorder:
        recorder.run([LAP])
    assert RecordedGpu.open(again).info.recorded_origin is Origin.MEASURED


def test_errors_of_the_device_are_raised_again_at_the_same_ask(folder):
    gpu = FakeGpu()
    with Recorder(gpu, folder) as recorder:
        first = recorder.run([LAP])[0]
        for error in (OutOfMemory("no room for 3 GiB"), KernelFailed("misaligned address")):
            gpu.fail = error
            with pytest.raises(type(error)):
                recorder.run([LAP])
        gpu.fail = None
        last = recorder.run([LAP])[0]
    replay = RecordedGpu.open(folder)
    assert same(replay.run([LAP])[0], first)
    with pytest.raises(OutOfMemory, match=r"^no room for 3 GiB$"):
        replay.run([LAP])
    with pytest.raises(KernelFailed, match=r"^misaligned address$"):
        replay.run([LAP])
    assert same(replay.run([LAP])[0], last)


def test_what_it_does_not_hold_is_refused_in_one_line_and_uses_nothing_up(folder):
    recorded = record(folder, [LAP])
    gpu = RecordedGpu.open(folder)
    with pytest.raises(RecordingError, match=r"no workload .*seed 5") as caught:
        gpu.run([LAP, EACH])
    assert "\n" not in str(caught.value)
    assert same(gpu.run([LAP])[0], recorded[0])
    with pytest.raises(RecordingError, match="only 1 runs of"):
        gpu.run([LAP])


def test_an_interrupted_recording_is_whole_and_says_that_it_ended_early(folder):
    with pytest.raises(KeyboardInterrupt), Recorder(FakeGpu(), folder) as recorder:
        recorder.run([LAP])
        raise KeyboardInterrupt
    gpu = RecordedGpu.open(folder)
    gpu.run([LAP])
    with pytest.raises(RecordingError, match="ended early"):
        gpu.run([EACH])


def test_closing_twice_is_fine(folder):
    recorder = Recorder(FakeGpu(), folder)
    recorder.close()
    recorder.close()
    assert RecordedGpu.open(folder).options == {}


def test_offsets_that_follow_from_the_workload_take_no_room(folder):
    big = Chase(path=Path.GLOBAL, order=Shuffled(50_000, 32, seed=1), timing=Timing.EACH)
    record(folder, [big])
    assert (folder / recording.ARRAYS).stat().st_size < 50_000


def test_an_order_that_another_version_would_visit_differently_is_refused(folder, monkeypatch):
    record(folder, [EACH])
    monkeypatch.setattr(Shuffled, "offsets", lambda self: Sequential(self.count, self.stride).offsets())
    with pytest.raises(RecordingError, match="another order"):
        RecordedGpu.open(folder).run([EACH])


def test_a_folder_in_use_is_left_alone(folder, tmp_path):
    record(folder, [LAP])
    before = (folder / recording.INDEX).read_bytes()
    with pytest.raises(UsageError, match="holds a recording"):
        Recorder(FakeGpu(), folder)
    assert (folder / recording.INDEX).read_bytes() == before
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is not empty"):
        Recorder(FakeGpu(), tmp_path)
    with pytest.raises(UsageError, match="cannot record into"):
        Recorder(FakeGpu(), tmp_path / "file")


def test_a_full_disk_does_not_stop_the_measurement(folder, monkeypatch):
    recorder = Recorder(FakeGpu(), folder)
    recorder.run([LAP])
    real = recording._write_all

    def full(file, data):
        real(file, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recording, "_write_all", full)
    assert recorder.run([EACH])[0].cycles.size == 128
    with pytest.raises(UsageError, match="No space left on device; what was written before is kept"):
        recorder.close()
    with pytest.raises(RecordingError, match="cut off"):
        RecordedGpu.open(folder)
    RecordedGpu.open(folder, partial=True).run([LAP])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arrays.arrays(np.int64, arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=20)))
def test_any_array_packs_and_unpacks(array):
    for packed in (recording.pack, recording.pack_noise):
        description, data = packed(array)
        description = json.loads(json.dumps(description))
        back = recording.unpack(description, data, array.size)
        assert back.dtype == np.int64
        assert np.array_equal(back, array)
        assert back.shape == array.shape


@given(st.binary(max_size=60), st.sampled_from(["<u1", "<i8", "<f8", "O"]), st.lists(st.integers(-2, 9), max_size=3))
def test_any_other_bytes_are_refused_or_read_never_worse(data, kind, shape):
    for code in ("values", "planes"):
        with contextlib.suppress(RecordingError):
            recording.unpack({"code": code, "type": kind, "shape": shape}, data, 1000)


def test_a_decompression_bomb_is_not_unpacked():
    description, _ = recording.pack(np.zeros(1000, np.int64))
    _, bomb = recording.pack(np.zeros(10**7, np.int64))
    with pytest.raises(RecordingError, match="bytes where"):
        recording.unpack(description, bomb, 1000)
