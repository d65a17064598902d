"""Recordings that claim more than their workloads give are refused before memory is taken for it."""

import tracemalloc
from pathlib import Path as FilePath

import numpy as np
import pytest

from gpudissect.device.recording import format as recording
from gpudissect.device.recording.device import MAX_ITEMS, MAX_SMS, RecordedGpu
from gpudissect.errors import RecordingError
from gpudissect.workload import (
    Bounds,
    Chase,
    Instruction,
    Launch,
    LaunchMethod,
    Mix,
    Path,
    Sequential,
    Step,
    Stream,
    Timing,
    Transfer,
)
from gpudissect.workload.digest import digest

DEVICE = {"spec": "x", "name": "x", "origin": "measured", "sm_count": 3, "span_limits": {}}
CONTEXT = {"device": "x", "clock_hz": None, "sm": None, "notes": {}}
BOMB = np.zeros(4_000_000, np.int64)  # packs into some kilobytes
MAX_PEAK_BYTES = 4 << 20
RING = Sequential(4, 32)
LAP = Chase(path=Path.GLOBAL, order=RING, timing=Timing.LAP, laps=4)
EACH = Chase(path=Path.GLOBAL, order=RING, timing=Timing.EACH, laps=2)
COUNT = Chase(path=Path.GLOBAL, order=RING, timing=Timing.COUNT, laps=2, bounds=Bounds(1, 2, 3))
MIX = Mix(body=(Step(Instruction.LDG),), warps=2, block_size=32, iterations=3)
STREAM = Stream(path=Path.GLOBAL, transfer=Transfer.READ, footprint=4096, blocks=4, threads=32, runs=2)
LAUNCH = Launch(method=LaunchMethod.STREAM, runs=5)


def recorded(folder: FilePath, workload, arrays, header=None) -> FilePath:
    writer = recording.Writer(folder, {"program": "test", "device": {**DEVICE, **(header or {})}})
    writer.add([({"context": CONTEXT}, b"")])
    entries, chunks = [], []
    for name, array in arrays:
        description, data = recording.pack(array)
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
def test_a_longer_array_than_the_workload_gives_takes_no_memory(tmp_path, workload, name):
    gpu = RecordedGpu.open(recorded(tmp_path / "rec", workload, [(name, BOMB)]))
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
        ([("cycles", np.zeros(3, int))], r"array 'cycles' has shape \(3,\), the workload gives \(4,\)"),
        ([("cycles", np.zeros((2, 2), int))], r"has shape \(2, 2\)"),
        ([("cycle", np.zeros(4, int))], "array 'cycle' is none of this workload"),
        ([("cycles", np.zeros(4, int))] * 2, "occurs twice"),
    ],
)
def test_arrays_of_another_name_or_shape_are_refused(tmp_path, arrays, why):
    gpu = RecordedGpu.open(recorded(tmp_path / "rec", LAP, arrays))
    with pytest.raises(RecordingError, match=why):
        gpu.run([LAP])


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ({"instructions": ["x"] * (MAX_ITEMS + 1)}, "instructions has 1025 items, allowed: up to 1024"),
        ({"facts": {str(number): [] for number in range(MAX_ITEMS + 1)}}, "facts has 1025 items"),
        ({"sm_count": MAX_SMS + 1}, "its device has 65537 SMs, allowed: 1 to 65536"),
        ({"sm_count": 0}, "its device has 0 SMs"),
    ],
)
def test_a_header_of_more_than_any_gpu_has_is_refused(tmp_path, header, why):
    folder = recorded(tmp_path / "rec", LAP, [], header)
    with pytest.raises(RecordingError, match=why):
        RecordedGpu.open(folder)


def test_a_line_longer_than_any_is_not_parsed(tmp_path):
    folder = recorded(tmp_path / "rec", LAP, [], {"name": "x" * recording.MAX_LINE_BYTES})
    with pytest.raises(RecordingError, match=r"line 1 has [0-9]+ bytes, allowed: up to 4194304"):
        RecordedGpu.open(folder)


def test_shapes_of_huge_numbers_are_refused():
    description, data = recording.pack(np.zeros(4, int))
    for shape in ([10**400], [1] * 100, [True], ["4"], [-1]):
        with pytest.raises(RecordingError):
            recording.unpack({**description, "shape": shape}, data, 4)
