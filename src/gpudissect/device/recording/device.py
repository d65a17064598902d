"""Record what a device ran (`Recorder`) and run it again without the device (`RecordedGpu`).

A recording answers by the workload's own hash: the k-th time a workload is asked it gives the k-th trace recorded
for it. Errors that the device raised for a batch are recorded and raised again for the same batch.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

import gpudissect
from gpudissect import errors
from gpudissect.device.base import Device
from gpudissect.device.recording import format as recording
from gpudissect.device.recording import packed_warps
from gpudissect.device.recording.format import Entry
from gpudissect.device.recording.trace_shapes import array_shapes, check_shape
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.errors import GpudissectError, RecordingError, UsageError
from gpudissect.trace import Context, Trace
from gpudissect.workload import Chase, Timing, Workload, wire
from gpudissect.workload.digest import digest

T = TypeVar("T")
SHOWN = 3  # of a list, in a message
MAX_ITEMS = 1024  # of a list or an object in a header or a context
MAX_SMS = 1 << 16
_INFO = TypeAdapter(DeviceInfo)
_CONTEXT = TypeAdapter(Context)


class Recorder:
    """A device that hands every batch to another one and writes what came back into a folder.

    `options` (JSON values) are kept with the recording, so that a replay can ask the same again. Should the disk
    fail while measuring, measuring goes on, and `close` raises `UsageError`. Closing leaves `device` open.
    """

    def __init__(self, device: Device, folder: FilePath, *, options: Mapping[str, object] | None = None) -> None:
        self._device = device
        self._folder = folder
        self._contexts: dict[str, int] = {}
        self._asked: Counter[str] = Counter()
        self._traces = 0
        self._trouble: OSError | None = None
        self._open = True
        header = {
            "program": f"gpudissect {gpudissect.__version__}",
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "device": _plain(device.info),
            "options": dict(options or {}),
        }
        self._writer = recording.Writer(folder, header)

    @property
    def info(self) -> DeviceInfo:
        """What is known of the device that is recorded."""
        return self._device.info

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Run a batch on the device and record its traces, or the error that it raised."""
        digests = [digest(workload) for workload in batch]
        key = _batch_key(digests)
        turn = self._asked[key]
        self._asked[key] += 1
        try:
            traces = self._device.run(batch)
        except GpudissectError as error:
            kind = type(error).__name__
            kind = wire.CLASSES.get(kind, kind)
            self._write([({"error": kind, "message": str(error), "batch": key, "turn": turn}, b"")])
            raise
        self._write([entry for item in zip(batch, digests, traces, strict=True) for entry in self._entries(*item)])
        self._traces += len(traces)
        return traces

    def close(self, *, interrupted: bool = False) -> None:
        """Finish the recording; may be called twice.

        Raises `UsageError` when it could not be written in full: it then holds what was written before.
        """
        if not self._open:
            return
        self._open = False
        end = {"traces": self._traces, "interrupted": interrupted}
        try:
            self._writer.close(end if self._trouble is None else None)
        except OSError as error:
            self._trouble = self._trouble or error
        if self._trouble is not None:
            why = self._trouble.strerror or self._trouble
            raise UsageError(f"the recording {self._folder} is cut off: {why}; what was written before is kept")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close(interrupted=exception[0] is not None)

    def _entries(self, workload: Workload, name: str, trace: Trace) -> list[tuple[Entry, bytes]]:
        entries: list[tuple[Entry, bytes]] = []
        context = _plain(trace.context) | {"notes": wire.wire_names(trace.context.notes, wire.NOTES)}
        text = json.dumps(context)
        if text not in self._contexts:  # thousands of traces share a few contexts: write each once
            self._contexts[text] = len(self._contexts)
            entries.append(({"context": context}, b""))
        arrays: list[Entry] = []
        chunks: list[bytes] = []
        for label in packed_warps.ordered(trace.arrays):
            description, data = _pack(label, trace.arrays, workload)
            arrays.append({"name": wire.ARRAYS.get(label, label), **description, "packed": len(data)})
            chunks.append(data)
        entry = {"trace": name, "what": _summary(workload), "context": self._contexts[text], "arrays": arrays}
        return [*entries, (entry, b"".join(chunks))]

    def _write(self, entries: Sequence[tuple[Entry, bytes]]) -> None:
        if self._trouble is not None:
            return
        try:
            self._writer.add(entries)
        except OSError as error:
            self._trouble = error


class RecordedGpu(Device):
    """A device that answers from a recording. `options` are those it was recorded with."""

    def __init__(self, folder: FilePath, content: recording.Recording) -> None:
        self._folder = folder
        self._content = content
        self._contexts: list[Context] = []
        self._answers: dict[str, list[tuple[Entry, bytes]]] = defaultdict(list)
        self._errors: dict[tuple[str, int], GpudissectError] = {}
        self._given: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()
        for entry, data in content.entries:
            self._take(entry, data)
        device = content.header.get("device")
        if isinstance(device, dict):
            device = wire.current_names(device, wire.FIELDS.get("DeviceInfo", {}))
        known = _read_as(_INFO, device, f"recording {folder}: its device")
        if not 0 < known.sm_count <= MAX_SMS:  # lengths of arrays, and time, follow from it
            raise RecordingError(f"recording {folder}: its device has {known.sm_count} SMs, allowed: 1 to {MAX_SMS}")
        self._info = replace(
            known,
            spec=f"rec:{folder}",
            origin=Origin.REPLAYED,
            recorded_origin=known.recorded_origin if known.origin is Origin.REPLAYED else known.origin,
        )
        options = content.header.get("options")
        self.options: Mapping[str, Any] = MappingProxyType(options if isinstance(options, dict) else {})

    @classmethod
    def open(cls, folder: FilePath, *, partial: bool = False) -> Self:
        """Read and check a recording; `partial` takes one that was cut off for what it still holds.

        Raises `RecordingError` for one that is missing, foreign, newer, altered or cut off.
        """
        return cls(folder, recording.read(folder, partial=partial))

    @property
    def info(self) -> DeviceInfo:
        """What was known of the recorded device, marked as replayed."""
        return self._info

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Give the recorded traces, or raise the recorded error.

        Raises `RecordingError` when the recording does not hold what is asked; nothing is used up then.
        """
        digests = [digest(workload) for workload in batch]
        key = _batch_key(digests)
        if (error := self._errors.get((key, self._asked[key]))) is not None:
            self._asked[key] += 1
            raise error
        turns = self._given.copy()
        found: list[tuple[Entry, bytes]] = []
        for workload, name in zip(batch, digests, strict=True):
            if turns[name] >= len(self._answers.get(name, ())):
                raise RecordingError(self._lacks(workload, name))
            found.append(self._answers[name][turns[name]])
            turns[name] += 1
        traces = [self._trace(*item) for item in zip(batch, digests, found, strict=True)]
        self._given = turns
        self._asked[key] += 1
        return traces

    def _take(self, entry: Entry, data: bytes) -> None:
        if "trace" in entry:
            self._answers[str(entry["trace"])].append((entry, data))
        elif "context" in entry:
            context = _read_as(_CONTEXT, entry["context"], f"recording {self._folder}: a context")
            self._contexts.append(replace(context, notes=wire.current_names(context.notes, wire.NOTES)))
        elif "error" in entry:
            kind = getattr(errors, wire.current_name(str(entry["error"]), wire.CLASSES), None)
            turn = entry.get("turn")
            if not (isinstance(kind, type) and issubclass(kind, GpudissectError) and isinstance(turn, int)):
                raise RecordingError(f"recording {self._folder}: it holds an unknown error {entry['error']!r:.60}")
            self._errors[str(entry.get("batch")), turn] = kind(str(entry.get("message")))

    def _trace(self, workload: Workload, key: str, answer: tuple[Entry, bytes]) -> Trace:
        entry, data = answer
        arrays: dict[str, NDArray[np.int64]] = {}
        expected = array_shapes(workload, self._info.sm_count)
        try:
            for description in entry["arrays"]:
                name = wire.current_name(description["name"], wire.ARRAYS)
                if name not in expected or name in arrays:
                    raise RecordingError(f"array {name!r:.60} is none of this workload, or occurs twice")
                packed, data = data[: description["packed"]], data[description["packed"] :]
                array = _unpack(name, description, packed, workload, arrays, math.prod(expected[name]))
                check_shape(name, array, expected[name])
                arrays[name] = array
            return Trace(key, arrays, self._contexts[entry["context"]])
        except RecordingError as error:
            raise RecordingError(f"recording {self._folder}, {_summary(workload)}: {error}") from None
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise RecordingError(f"recording {self._folder}, {_summary(workload)}: malformed ({error})") from None

    def _lacks(self, workload: Workload, name: str) -> str:
        """Why the recording cannot answer, with what it was made with."""
        held = len(self._answers.get(name, ()))
        what = f"only {held} runs of" if held else "no"
        end = self._content.end
        if end is None or end.get("interrupted"):
            why = "it ended early"
        else:
            options = ", ".join(_option(key, value) for key, value in self.options.items()) or "other options"
            why = f"it was made by {self._content.header.get('program')} with {options}; measure anew with --record"
        return f"recording {self._folder} holds {what} workload {name[:8]} ({_summary(workload)}): {why}"


def _option(name: str, value: object) -> str:
    """One of the options it was made with; a long list as its length."""
    return f"{len(value)} {name}" if isinstance(value, list | tuple) and len(value) > SHOWN else f"{name} {value}"


def _batch_key(digests: Sequence[str]) -> str:
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()[:32]


def _summary(workload: Workload) -> str:
    """A few words for people who look into a recording; the digest is what counts."""
    if isinstance(workload, Chase):
        order = workload.order
        where = "" if workload.sm is None else f" on SM {workload.sm}"
        kind = type(order).__name__.lower()
        return f"chase {workload.path} {workload.timing} {kind} {order.count} in {order.span} B{where}"
    return type(workload).__name__.lower()


def _planned(label: str, workload: Workload) -> NDArray[np.int64] | None:
    """The array as it follows from the workload, if it does: a shuffled ring would be most of a recording."""
    if label != "offsets" or not isinstance(workload, Chase) or workload.timing is not Timing.EACH:
        return None
    lap = workload.order.offsets()
    return np.tile(lap if workload.picks is None else lap[list(workload.picks)], workload.laps)


def _pack(label: str, arrays: Mapping[str, NDArray[np.int64]], workload: Workload) -> tuple[Entry, bytes]:
    array = arrays[label]
    planned = _planned(label, workload)
    if planned is not None and np.array_equal(planned, array):
        return {"code": "planned", "sha": recording.fingerprint(array)}, b""
    return packed_warps.pack(label, arrays) or recording.pack(array)


def _unpack(
    label: str,
    description: Entry,
    data: bytes,
    workload: Workload,
    before: Mapping[str, NDArray[np.int64]],
    max_values: int,
) -> NDArray[np.int64]:
    if description["code"] in packed_warps.FORMS:
        return packed_warps.unpack(description, data, before, max_values)
    if description["code"] != "planned":
        return recording.unpack(description, data, max_values)
    planned = _planned(label, workload)
    if planned is None or recording.fingerprint(planned) != description["sha"]:
        raise RecordingError("this version visits the offsets in another order than the one that recorded")
    return planned


def _plain(value: object) -> Any:
    """A frozen record of the waist as JSON values."""
    if is_dataclass(value):
        named = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return wire.wire_names(named, wire.FIELDS.get(type(value).__name__, {}))
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return value.value if isinstance(value, Enum) else value


def _read_as(kind: TypeAdapter[T], value: object, what: str) -> T:
    for name, part in value.items() if isinstance(value, dict) else ():  # pydantic keeps an error for each wrong item
        if isinstance(part, list | dict) and len(part) > MAX_ITEMS:
            raise RecordingError(f"{what} cannot be read: {name:.60} has {len(part)} items, allowed: up to {MAX_ITEMS}")
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RecordingError(f"{what} cannot be read: {where}: {first['msg']}") from None
    except (ValueError, TypeError) as error:
        raise RecordingError(f"{what} cannot be read: {error}") from None
