"""The recording's file format, schema ``gpudissect-recording/2``: a folder with two files, written as it grows.

``recording.jsonl`` has one JSON object a line: first the header (schema, program, device, options), then entries,
last a closing line ``{"end": ...}``. ``arrays.bin`` holds the bytes that entries carry, one after the other; an
entry says how many are its own (``bytes``). Every line ends with ``check``: a SHA-256 (16 hexadecimal digits) over
the check of the line before, the line's own text and its bytes. So one altered byte anywhere breaks the chain, and
a recording without its closing line is known to be cut off. Nothing is ever executed or unpickled.

Arrays are int64, stored as values or as first differences, whichever packs smaller, in the narrowest integer that
holds them, zlib-packed; ``planes`` are values byte by byte (`pack_noise`). When warps began and ended is stored as
`packed_warps` says. Schema 1 knew neither, and is read.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.errors import RecordingError, UsageError

SCHEMA_NAME = "gpudissect-recording"
SCHEMA_VERSION = 2
INDEX = "recording.jsonl"
ARRAYS = "arrays.bin"
MAX_FILE_BYTES = 1 << 31  # recordings are megabytes; refuse to read a disk image by mistake
MAX_LINE_BYTES = 1 << 22  # of the index; the longest lines have some kilobytes

_LINE = re.compile(rb'(\{.*),"check":"([0-9a-f]{16})"\}')
_WIDTHS = tuple(np.dtype(name) for name in ("<u1", "<i1", "<u2", "<i2", "<u4", "<i4", "<i8"))
_BY_NAME = {kind.str: kind for kind in _WIDTHS}
MAX_DIMENSIONS = 3
_CODES = ("values", "steps", "planes")
Entry = dict[str, Any]


def pack(array: NDArray[np.int64]) -> tuple[Entry, bytes]:
    """Pack an int64 array of any shape; gives its description ``{code, type, shape}`` and its bytes."""
    flat = np.ascontiguousarray(array, dtype=np.int64).ravel()
    # Differences wrap round in 64 bits, and so does the sum that undoes them: exact for every value.
    steps = np.diff(flat, prepend=np.int64(0))
    packed = [(code, narrow := _narrow(values), zlib.compress(narrow.tobytes(), 6))
              for code, values in (("values", flat), ("steps", steps))]  # fmt: skip
    code, narrow, data = min(packed, key=lambda choice: len(choice[2]))
    return {"code": code, "type": narrow.dtype.str, "shape": list(array.shape)}, data


def pack_noise(array: NDArray[np.int64]) -> tuple[Entry, bytes]:
    """As `pack`, for numbers of which only the upper bytes are alike: the first bytes of all, then the second ones."""
    flat = np.ascontiguousarray(array, dtype=np.int64).ravel()
    narrow = _narrow(flat)
    planes = narrow.view(np.uint8).reshape(flat.size, narrow.itemsize).T
    data = zlib.compress(planes.tobytes(), 6)
    return {"code": "planes", "type": narrow.dtype.str, "shape": list(array.shape)}, data


def unpack(description: Entry, data: bytes, max_values: int) -> NDArray[np.int64]:
    """Undo `pack` and `pack_noise`. Allocates nothing for an array that claims more than `max_values` values.

    Raises `RecordingError` for such an array, and when description and bytes do not belong together.
    """
    shape = tuple(description["shape"])
    kind = _BY_NAME.get(description["type"])
    whole = all(type(size) is int and size >= 0 for size in shape)
    if kind is None or description["code"] not in _CODES or not whole or len(shape) > MAX_DIMENSIONS:
        raise RecordingError(f"an array of unknown form: {description!s:.200}")
    count = math.prod(shape)
    if count > max_values:
        raise RecordingError(f"an array claims more than the {max_values} values that it can have")
    expected = count * kind.itemsize
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(data, expected + 1)  # never more than claimed: no decompression bombs
    except zlib.error as error:
        raise RecordingError(f"an array cannot be unpacked: {error}") from None
    if len(raw) != expected:
        raise RecordingError(f"an array has {len(raw)} bytes where {expected} were said")
    if description["code"] == "planes":
        raw = np.frombuffer(raw, np.uint8).reshape(kind.itemsize, -1).T.tobytes()
    flat = np.frombuffer(raw, kind).astype(np.int64)
    return (np.cumsum(flat) if description["code"] == "steps" else flat).reshape(shape)


def fingerprint(array: NDArray[np.int64]) -> str:
    """Sixteen hexadecimal digits of SHA-256 over an int64 array, to know it again without storing it."""
    return hashlib.sha256(np.ascontiguousarray(array, dtype="<i8").tobytes()).hexdigest()[:16]


def _narrow(values: NDArray[np.int64]) -> NDArray[Any]:
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    fitting = (kind for kind in _WIDTHS if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return values.astype(next(fitting))


def _link(before: str, body: bytes, data: bytes) -> str:
    return hashlib.sha256(before.encode() + body + data).hexdigest()[:16]


def is_recording(folder: FilePath) -> bool:
    """Whether a folder looks like a recording."""
    return (folder / INDEX).is_file()


class Writer:
    """Writes a recording into a new or empty folder, as it grows.

    Raises `UsageError` when the folder is in use or cannot be written. Once open it raises `OSError` as the disk
    gives it; what was written before stays whole.
    """

    def __init__(self, folder: FilePath, header: Entry) -> None:
        self._check = ""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                what = "holds a recording" if is_recording(folder) else "is not empty"
                raise UsageError(f"cannot record into {folder}: it {what}; name a new folder, or empty this one")
            self._arrays = (folder / ARRAYS).open("xb", buffering=0)
            self._index = (folder / INDEX).open("xb", buffering=0)
            self.add([({"schema": f"{SCHEMA_NAME}/{SCHEMA_VERSION}", **header}, b"")])
        except OSError as error:
            raise UsageError(f"cannot record into {folder}: {error.strerror or error}") from None

    def add(self, entries: Sequence[tuple[Entry, bytes]]) -> None:
        """Append entries, each with the bytes it carries: all of them, or none if the disk or Ctrl-C cuts in."""
        check, lines = self._check, []
        for entry, data in entries:
            body = json.dumps({**entry, "bytes": len(data)} if data else entry, separators=(",", ":")).encode()
            check = _link(check, body, data)
            lines.append(body[:-1] + f',"check":"{check}"}}\n'.encode())
        before = self._arrays.tell(), self._index.tell()
        try:
            # Bytes first, so that no line ever stands without its bytes.
            _write_all(self._arrays, b"".join(data for _, data in entries))
            _write_all(self._index, b"".join(lines))
        except BaseException:
            for file, size in zip((self._arrays, self._index), before, strict=True):
                file.truncate(size)
                file.seek(size)
            raise
        self._check = check

    def close(self, end: Entry | None = None) -> None:
        """Write the closing line, unless `end` is None, and close the files."""
        try:
            if end is not None:
                self.add([({"end": end}, b"")])
        finally:
            self._arrays.close()
            self._index.close()


def _write_all(file: RawIOBase, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) or 0 :]


@dataclass(frozen=True)
class Recording:
    """A recording as read: header, entries with their bytes, and the closing entry (None if it was cut off)."""

    header: Entry
    entries: tuple[tuple[Entry, bytes], ...]
    end: Entry | None


def read(folder: FilePath, *, partial: bool = False) -> Recording:
    """Read and check a recording; with `partial`, one that was cut off gives what it still holds.

    Raises `RecordingError`, in one line, for one that is missing, foreign, newer, altered or cut off.
    """
    index, arrays = _read_file(folder, INDEX), _read_file(folder, ARRAYS)
    _check_schema(folder, index)
    entries: list[tuple[Entry, bytes]] = []
    used = 0
    for entry, data in _chain(folder, index, arrays):
        used += len(data)
        entries.append((entry, data))
    end = entries[-1][0].get("end") if len(entries) > 1 else None
    if end is None and not partial:
        held = f"{len(entries)} lines; 'rec:{folder}?partial=yes' replays what they hold"
        raise RecordingError(f"recording {folder} is cut off after {held}")
    if end is not None and used != len(arrays):
        raise RecordingError(f"recording {folder} is damaged: {ARRAYS} has {len(arrays)} bytes, its lines say {used}")
    if not entries:
        raise RecordingError(f"recording {folder} is cut off within its header")
    last = len(entries) if end is None else len(entries) - 1
    return Recording(entries[0][0], tuple(entries[1:last]), end)


def _read_file(folder: FilePath, name: str) -> bytes:
    path = folder / name
    try:
        if path.exists() and not path.is_file():
            raise RecordingError(f"recording {folder}: {name} is no regular file")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise RecordingError(f"recording {folder}: {name} is larger than any recording")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        what = f"it has no {name}" if folder.is_dir() else "there is no such folder"
        raise RecordingError(f"no recording at {folder}: {what}") from None
    except OSError as error:
        raise RecordingError(f"recording {folder} cannot be read: {error.strerror or error}") from None


def _check_schema(folder: FilePath, index: bytes) -> None:
    """Look at the schema before the checks: a newer one may check in another way."""
    match = re.match(rb'\{"schema":"' + SCHEMA_NAME.encode() + rb'/(\d{1,6})"', index)
    if match is None:
        raise RecordingError(f"recording {folder} is damaged or foreign: {INDEX} does not start with its schema")
    if int(match.group(1)) > SCHEMA_VERSION:
        raise RecordingError(
            f"recording {folder} has schema {int(match.group(1))}, this program reads up to {SCHEMA_VERSION}: "
            "update gpudissect"
        )


def _chain(folder: FilePath, index: bytes, arrays: bytes) -> Iterator[tuple[Entry, bytes]]:
    """Give line by line what the checks vouch for; end quietly where something is missing, loudly where altered."""
    damaged = f"recording {folder} is damaged: {INDEX} line"
    check, used, ended, number, start = "", 0, False, 0, 0
    while (stop := index.find(b"\n", start)) >= 0:  # what follows the last newline is empty or unfinished
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
            raise RecordingError(f"{damaged} {number} carries {size!r:.60} bytes")
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


def _parse(body: bytes, where: str) -> Entry:
    try:
        entry = json.loads(body)
    except (ValueError, RecursionError):
        raise RecordingError(f"{where} is not JSON") from None
    if not isinstance(entry, dict):
        raise RecordingError(f"{where} is not an object")
    return entry
