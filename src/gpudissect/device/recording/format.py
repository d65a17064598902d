"""The file format of recordings, schema ``gpudissect-recording/2``: a folder with two files that only grow.

``recording.jsonl`` has one JSON object per line: the header (schema, program, device, options), entries, and a closing
line ``{"end": ...}``. ``arrays.bin`` holds the bytes of all entries, one after the other; ``bytes`` of an entry is
their number. Every line ends with ``check``: 16 hexadecimal digits of a SHA-256 over the check of the line before, the
line's own text and its bytes. So any altered byte is detected, and a recording without its closing line is known to be
cut off. Nothing is executed or unpickled. Arrays are packed by `codec`. Also read are schema 1, which has fewer codes,
and an index that was compressed with gzip.
"""

import errno
import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path as FilePath

from gpudissect.device.recording.codec import Data, Entry
from gpudissect.errors import RecordingError, UsageError

SCHEMA_NAME = "gpudissect-recording"
SCHEMA_VERSION = 2
INDEX = "recording.jsonl"
COMPRESSED_INDEX = "recording.jsonl.gz"
ARRAYS = "arrays.bin"
MAX_ARRAYS_BYTES = 1 << 28  # recordings have megabytes; a disk image is refused
MAX_UNPACKED_BYTES = 1 << 26  # of an index: nine times that of a whole survey
MAX_LINE_BYTES = 1 << 22  # lines of the index have up to some kilobytes
MAX_LINES, MAX_VALUES = 1 << 18, 3 << 19  # of the index, which take up to 1 KB and 300 B: a survey has a third or less

_LINE = re.compile(rb'(\{.*),"check":"([0-9a-f]{16})"\}')


def is_recording(folder: FilePath) -> bool:
    """Whether a folder looks like a recording."""
    return (folder / INDEX).is_file() or (folder / COMPRESSED_INDEX).is_file()


def count_values(text: bytes) -> int:
    """An estimate of the memory that JSON takes once parsed, in values: the bytes that begin or separate them."""
    import numpy as np

    marks = np.frombuffer(text, np.uint8)  # a fifth of the time of `bytes.count`
    return sum(int(np.count_nonzero(marks == mark)) for mark in b"[{,")


class Writer:
    """Writes a recording into a new or empty folder, entry by entry.

    Raises `UsageError` when the folder is in use or cannot be written. Once open it raises `OSError` as the disk does;
    everything written before stays intact.
    """

    def __init__(self, folder: FilePath, header: Entry) -> None:
        self._check = ""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                content = "holds a recording" if is_recording(folder) else "is not empty"
                raise UsageError(f"cannot record into {folder}: it {content}; name a new folder, or empty this one")
            self._arrays = (folder / ARRAYS).open("xb", buffering=0)
            self._index = (folder / INDEX).open("xb", buffering=0)
            self.add([({"schema": f"{SCHEMA_NAME}/{SCHEMA_VERSION}", **header}, b"")])
        except (OSError, RecursionError) as error:  # RecursionError: hundreds of new folders, one in the other
            reason = error.strerror or error if isinstance(error, OSError) else "too many folders that do not exist"
            raise UsageError(f"cannot record into {folder}: {reason}") from None

    def add(self, entries: Sequence[tuple[Entry, bytes]]) -> None:
        """Append entries with their bytes: all of them, or none if the disk fails or Ctrl-C interrupts."""
        check, lines = self._check, []
        for entry, data in entries:
            body = json.dumps({**entry, "bytes": len(data)} if data else entry, separators=(",", ":")).encode()
            check = _link(check, body, data)
            lines.append(body[:-1] + f',"check":"{check}"}}\n'.encode())
        sizes = self._arrays.tell(), self._index.tell()
        try:
            _write_all(self._arrays, b"".join(data for _, data in entries))  # first, so that no line lacks its bytes
            _write_all(self._index, b"".join(lines))
        except BaseException:
            for file, size in zip((self._arrays, self._index), sizes, strict=True):
                file.truncate(size)
                file.seek(size)
            raise
        self._check = check

    def close(self, end: Entry | None = None) -> None:
        """Write the closing line, unless `end` is None, and close the files."""
        try:
            if end is not None:
                self.add([({"end": end}, b"")])
            if not all(os.fstat(file.fileno()).st_nlink for file in (self._arrays, self._index)):
                raise OSError(errno.ENOENT, "a file of it was removed while measuring")
        finally:
            self._arrays.close()
            self._index.close()


def _link(check: str, body: bytes, data: Data) -> str:
    return hashlib.sha256(check.encode() + body + data).hexdigest()[:16]


def _write_all(file: RawIOBase, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) or 0 :]


@dataclass(frozen=True)
class Recording:
    """The content of a recording: header, entries with their bytes, and the closing entry (None if it was cut off)."""

    header: Entry
    entries: tuple[tuple[Entry, Data], ...]
    end: Entry | None


def read(folder: FilePath, *, partial: bool = False) -> Recording:
    """Read and check a recording; with `partial`, also one that was cut off, as far as it goes.

    Raises `RecordingError`, in one line, for one that is missing, foreign, newer, altered or cut off.
    """
    index, arrays = _read_index(folder), memoryview(_read_file(folder, ARRAYS, MAX_ARRAYS_BYTES))
    _check_schema(folder, index)
    entries = list(_checked_entries(folder, index, arrays))
    end = entries[-1][0].get("end") if len(entries) > 1 else None
    if end is None and not partial:
        hint = f"'rec:{folder}?partial=yes' replays them"
        raise RecordingError(f"recording {folder} is cut off after {len(entries)} lines; {hint}")
    if end is not None and not isinstance(end, dict):
        raise RecordingError(f"recording {folder} is damaged: its closing line states {end!r:.60}")
    used = sum(len(data) for _, data in entries)
    if end is not None and used != len(arrays):
        raise RecordingError(f"recording {folder} is damaged: {ARRAYS} has {len(arrays)} bytes, its lines claim {used}")
    if not entries:
        raise RecordingError(f"recording {folder} is cut off within its header")
    return Recording(entries[0][0], tuple(entries[1:] if end is None else entries[1:-1]), end)


def _read_index(folder: FilePath) -> bytes:
    """The index; a compressed one as far as it goes, at most `MAX_UNPACKED_BYTES`."""
    if (folder / INDEX).exists() or not (folder / COMPRESSED_INDEX).exists():
        return _read_file(folder, INDEX, MAX_UNPACKED_BYTES)
    unpacker, damaged = zlib.decompressobj(zlib.MAX_WBITS | 16), f"recording {folder} is damaged: {COMPRESSED_INDEX}"
    try:
        index = unpacker.decompress(_read_file(folder, COMPRESSED_INDEX, MAX_UNPACKED_BYTES), MAX_UNPACKED_BYTES)
    except zlib.error as error:
        raise RecordingError(f"{damaged}: {error}") from None
    if unpacker.unconsumed_tail or unpacker.unused_data:
        raise RecordingError(f"{damaged} unpacks to more than {MAX_UNPACKED_BYTES} bytes, or goes on after its end")
    return index


def _read_file(folder: FilePath, name: str, max_bytes: int) -> bytes:
    path = folder / name
    try:
        if path.exists() and not path.is_file():
            raise RecordingError(f"recording {folder}: {name} is no regular file")
        if path.stat().st_size > max_bytes:
            raise RecordingError(f"recording {folder}: {name} has more than {max_bytes} bytes")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        problem = f"it has no {name}" if folder.is_dir() else "there is no such folder"
        raise RecordingError(f"no recording at {folder}: {problem}") from None
    except OSError as error:
        raise RecordingError(f"recording {folder} cannot be read: {error.strerror or error}") from None


def _check_schema(folder: FilePath, index: bytes) -> None:
    """Check the schema first: a newer one may compute its checks in another way."""
    match = re.match(rb'\{"schema":"' + SCHEMA_NAME.encode() + rb'/(\d{1,6})"', index)
    if match is None:
        raise RecordingError(f"recording {folder} is damaged or foreign: {INDEX} does not start with its schema")
    if (version := int(match.group(1))) > SCHEMA_VERSION:
        newer = f"schema {version}, this program reads up to {SCHEMA_VERSION}"
        raise RecordingError(f"recording {folder} has {newer}: update gpudissect")


def _checked_entries(folder: FilePath, index: bytes, arrays: memoryview) -> Iterator[tuple[Entry, Data]]:
    """Yield the entries with their bytes up to where the files are cut off. Raises `RecordingError` if altered."""
    for kind, count, limit in (("lines", index.count(b"\n"), MAX_LINES), ("values", count_values(index), MAX_VALUES)):
        if count > limit:
            raise RecordingError(f"recording {folder}: {INDEX} has {count} {kind}, allowed: up to {limit}")
    damaged = f"recording {folder} is damaged: {INDEX} line"
    check, used, ended, number, start = "", 0, False, 0, 0
    while (stop := index.find(b"\n", start)) >= 0:  # the rest after the last newline is empty or unfinished
        number += 1
        if stop - start > MAX_LINE_BYTES:
            raise RecordingError(f"{damaged} {number} has {stop - start} bytes, allowed: up to {MAX_LINE_BYTES}")
        line, start = index[start:stop], stop + 1
        match = _LINE.fullmatch(line)
        if match is None or ended:
            raise RecordingError(f"{damaged} {number} is not a line of a recording")
        body = match.group(1) + b"}"
        entry = _parse(body, f"{damaged} {number}")
        size = entry.get("bytes", 0)
        if not isinstance(size, int) or size < 0:
            raise RecordingError(f"{damaged} {number} claims {size!r:.60} bytes")
        if used + size > len(arrays):
            return
        data = arrays[used : used + size]
        check = _link(check, body, data)
        if check != match.group(2).decode():
            raise RecordingError(f"{damaged} {number} does not match its checksum")
        used += size
        ended = "end" in entry
        yield entry, data
    if ended and start < len(index):
        raise RecordingError(f"{damaged} {number + 1} follows the closing line")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _parse(body: bytes, line: str) -> Entry:
    try:
        entry = json.loads(body, parse_constant=_refuse_constant)
        if b"\\ud" in body.lower():
            json.dumps(entry, ensure_ascii=False).encode()  # raises for half a character, which no file can hold
    except (ValueError, RecursionError):
        raise RecordingError(f"{line} is not JSON") from None
    if not isinstance(entry, dict):
        raise RecordingError(f"{line} is not an object")
    return entry
