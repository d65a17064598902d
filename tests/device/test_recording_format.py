"""A damaged, cut, foreign or newer recording is refused in one line."""

import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from gpudissect.device.recording import codec
from gpudissect.device.recording import format as recording
from gpudissect.device.recording.device import RecordedGpu
from gpudissect.errors import RecordingError

DEVICE = {"spec": "x", "name": "x", "origin": "measured", "sm_count": 1, "span_limits": {}}
HEADER = {"program": "test", "device": DEVICE}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "rec"
    writer = recording.Writer(folder, HEADER)
    for number in range(5):
        description, data = codec.pack(np.arange(100) * number % 7)
        arrays = [{"name": "cycles", **description, "packed": len(data)}]
        writer.add([({"trace": f"{number:032}", "context": 0, "arrays": arrays}, data)])
    writer.close({"traces": 5})
    assert len(recording.read(folder).entries) == 5
    return folder


def refused(folder: Path, why: str = ".", **options: bool) -> None:
    with pytest.raises(RecordingError, match=why) as caught:
        RecordedGpu.open(folder, **options)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("name", [recording.INDEX, recording.ARRAYS])
@pytest.mark.parametrize("quarter", range(4))
def test_cut_at_every_quarter(folder, name, quarter):
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: len(data) * quarter // 4])
    refused(folder)


@pytest.mark.parametrize("name", [recording.INDEX, recording.ARRAYS])
def test_every_single_flipped_bit_is_detected(folder, name):
    data = (folder / name).read_bytes()
    for place in range(0, len(data), 3):
        (folder / name).write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        refused(folder)


@pytest.mark.parametrize("name", [recording.INDEX, recording.ARRAYS])
def test_anything_appended_is_detected(folder, name):
    with (folder / name).open("ab") as file:
        file.write(b"{}")
    refused(folder, "damaged")


def test_swapped_lines_are_detected(folder):
    lines = (folder / recording.INDEX).read_bytes().splitlines(keepends=True)
    lines[2], lines[3] = lines[3], lines[2]
    (folder / recording.INDEX).write_bytes(b"".join(lines))
    refused(folder, "line 3 does not match its checksum")


def test_partial_reads_up_to_a_lost_tail(folder):
    lines = (folder / recording.INDEX).read_bytes().splitlines(keepends=True)
    (folder / recording.INDEX).write_bytes(b"".join(lines[:4]) + lines[4][:20])
    refused(folder, "cut off after 4 lines; 'rec:.*partial=yes'")
    assert len(recording.read(folder, partial=True).entries) == 3


def test_partial_reads_up_to_lost_bytes(folder):
    data = (folder / recording.ARRAYS).read_bytes()
    (folder / recording.ARRAYS).write_bytes(data[:-1])
    refused(folder, "cut off")
    assert len(recording.read(folder, partial=True).entries) == 4


def test_partial_refuses_an_altered_one(folder):
    data = (folder / recording.ARRAYS).read_bytes()
    (folder / recording.ARRAYS).write_bytes(b"\xff" + data[1:])
    refused(folder, "does not match its checksum", partial=True)
    (folder / recording.INDEX).write_bytes(b'{"schema":"gpudissect-recording/1","pro')
    refused(folder, "cut off within its header", partial=True)


def test_a_newer_one_is_refused_by_its_version(folder):
    data = (folder / recording.INDEX).read_bytes()
    (folder / recording.INDEX).write_bytes(data.replace(b"recording/2", b"recording/3"))
    refused(folder, "schema 3, this program reads up to 2: update gpudissect")


@pytest.fixture
def compressed(folder: Path) -> Path:
    """The file of a compressed index, in place of the plain one."""
    index = folder / recording.INDEX
    packed = folder / recording.COMPRESSED_INDEX
    packed.write_bytes(gzip.compress(index.read_bytes()))
    index.unlink()
    return packed


def test_a_compressed_index_is_read(folder, compressed):
    assert len(recording.read(folder).entries) == 5
    assert recording.is_recording(folder)


def test_a_compressed_index_cut_off_is_read_as_far_as_it_goes(folder, compressed):
    compressed.write_bytes(compressed.read_bytes()[:-20])
    refused(folder, "cut off after . lines; 'rec:.*partial=yes'")
    assert 0 < len(recording.read(folder, partial=True).entries) <= 5


@pytest.mark.parametrize("after", [b"x", gzip.compress(b"{}\n", mtime=0)], ids=["bytes", "member"])
def test_what_follows_a_compressed_index_is_refused(folder, compressed, after):
    compressed.write_bytes(compressed.read_bytes() + after)
    refused(folder, "damaged")


def test_a_compressed_index_with_a_flipped_bit_is_refused(folder, compressed):
    data = compressed.read_bytes()
    for place in range(10, len(data), 3):  # after the header of gzip, which has the time
        compressed.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        refused(folder)


def test_a_decompression_bomb_is_refused_before_it_is_unpacked(folder, compressed, monkeypatch):
    monkeypatch.setattr(recording, "MAX_UNPACKED_BYTES", 1 << 20)
    compressed.write_bytes(gzip.compress(bytes(1 << 24)))
    tracemalloc.start()
    refused(folder, f"unpacks to more than {1 << 20} bytes")
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (b'{"trace":"x","what":[' + b"[]," * (recording.MAX_VALUES // 2) + b"0]}\n", "values"),
        (b'{"trace":"x","what":[' + b"0," * recording.MAX_VALUES + b"0]}\n", "values"),
        (b"{}\n" * recording.MAX_LINES, "lines"),
    ],
)
def test_an_index_of_many_values_or_lines_is_refused_before_it_is_parsed(folder, compressed, monkeypatch, lines, why):
    monkeypatch.setattr(recording, "_parse", lambda *_: pytest.fail("parsed"))
    compressed.write_bytes(gzip.compress(gzip.decompress(compressed.read_bytes()) + lines))
    refused(folder, rf"recording.jsonl has \d+ {why}, allowed: up to \d+")


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"[]\n", b'{"schema":"other/1"}\n', b"{" * 100_000])
def test_garbage_is_refused(folder, content):
    (folder / recording.INDEX).write_bytes(content)
    refused(folder, "damaged or foreign")


def test_messages_name_missing_files(folder, tmp_path):
    (folder / recording.ARRAYS).unlink()
    refused(folder, "it has no arrays.bin")
    refused(tmp_path, "it has no recording.jsonl")
    refused(tmp_path / "nowhere", "there is no such folder")


@pytest.mark.parametrize(
    "entry",
    [
        {"context": {"device": 5}},
        {"context": None},
        {"error": "SystemExit", "message": "x"},
        {"error": "annotations", "message": "x"},
        {"error": "OutOfMemory", "message": "x", "batch": "x", "turn": "y"},
    ],
)
def test_invalid_entries_are_refused(tmp_path, entry):
    writer = recording.Writer(tmp_path / "rec", HEADER)
    writer.add([(entry, b"")])
    writer.close({})
    refused(tmp_path / "rec")


@pytest.mark.parametrize("device", [None, {}, [], {**DEVICE, "origin": "unknown"}])
def test_an_invalid_device_is_refused(tmp_path, device):
    recording.Writer(tmp_path / "rec", {**HEADER, "device": device}).close({})
    refused(tmp_path / "rec", "its device cannot be read")
