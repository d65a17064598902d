"""`Recorder` records the runs of a device; `RecordedGpu` replays them without it.

A recording answers by the digest of a workload: its k-th run replays the k-th trace recorded for it. Errors that the
device raised for a batch are replayed for the same batch. Names are stored as `gpudissect.workload.digest` has them.
"""

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
from pydantic import TypeAdapter, ValidationError

import gpudissect
from gpudissect import errors
from gpudissect.device.base import Device
from gpudissect.device.queue import Answer, Batch, BatchQueue, InOrder, Observed, Sorted
from gpudissect.device.recording import codec
from gpudissect.device.recording.codec import Data, Entry
from gpudissect.device.recording.format import Recording, Writer, read
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.errors import GpudissectError, NotRecorded, RecordingError, UsageError
from gpudissect.trace import LIFETIME, TOTALS, Array, Context, Trace, planned_arrays
from gpudissect.units import as_text
from gpudissect.workload import Chase, EngineCopy, Launch, Mix, Stream, Timing, Workload
from gpudissect.workload.digest import (
    WIRE_ARRAYS,
    WIRE_CLASSES,
    WIRE_FIELDS,
    WIRE_NOTES,
    current_name,
    current_names,
    digest,
    wire_names,
)
from gpudissect.workload.stream import MAX_TIMED_BLOCKS

T = TypeVar("T")
Shape = tuple[int, ...]
MAX_LISTED = 3  # items of a list in a message
MAX_ITEMS = 1024  # of a list or an object in a header or a context
MIN_CLOCK_HZ, MAX_CLOCK_HZ, MAX_FACT = 1e3, 1e12, 2**62
MAX_SMS = 1 << 16
MAX_LATENCIES = 1 << 16  # distinct latencies of single loads in one trace; devices count no more
SHORTER = ("latency", "count")  # arrays that may have fewer items than `array_shapes` states
OPTIONAL = {Stream: ("cycles",), Mix: ("overflow_count",)}  # arrays that a trace may lack
_INFO = TypeAdapter(DeviceInfo)
_CONTEXT = TypeAdapter(Context)


class Recorder(Device):
    """A device that passes every batch to another one and records the traces in a folder.

    `options` (JSON values) are stored in the recording, so that a replay can repeat the same survey. If the disk fails
    while measuring, measuring goes on, and `close` raises `UsageError`. Closing leaves `device` open.
    """

    def __init__(self, device: Device, folder: FilePath, *, options: Mapping[str, object] | None = None) -> None:
        self._device = device
        self._folder = folder
        self._contexts: dict[str, int] = {}
        self._batch_runs: Counter[str] = Counter()
        self._trace_count = 0
        self._disk_error: OSError | None = None
        self._open = True
        header = {
            "program": f"gpudissect {gpudissect.__version__}",
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "device": _plain(device.info),
            "options": dict(options or {}),
        }
        self._writer = Writer(folder, header)

    @property
    def info(self) -> DeviceInfo:
        """What is known of the recorded device."""
        return self._device.info

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Run a batch on the device and record its traces, or the error that it raises."""
        try:
            traces = self._device.run(batch)
        except GpudissectError as error:
            self._record(batch, error)
            raise
        self._record(batch, traces)
        return traces

    def queue(self) -> BatchQueue:
        """A queue of the device, whose traces and errors are recorded."""
        return Observed(InOrder(self._device.queue()), self._record)

    def _record(self, batch: Batch, answer: Answer) -> None:
        digests = [digest(workload) for workload in batch]
        key = _batch_key(digests)
        run = self._batch_runs[key]
        self._batch_runs[key] += 1
        if isinstance(answer, GpudissectError):
            kind = type(answer).__name__
            entry = {"error": WIRE_CLASSES.get(kind, kind), "message": str(answer), "batch": key, "turn": run}
            self._write([(entry, b"")])
        elif not isinstance(answer, Exception):
            self._write([entry for item in zip(batch, digests, answer, strict=True) for entry in self._entries(*item)])
            self._trace_count += len(answer)

    def close(self, *, interrupted: bool = False) -> None:
        """Finish the recording; may be called twice.

        Raises `UsageError` when it could not be written in full: it then holds what was written before.
        """
        if not self._open:
            return
        self._open = False
        end = {"traces": self._trace_count, "interrupted": interrupted}
        try:
            self._writer.close(end if self._disk_error is None else None)
        except OSError as error:
            self._disk_error = self._disk_error or error
        if self._disk_error is not None:
            why = self._disk_error.strerror or self._disk_error
            raise UsageError(f"the recording {self._folder} is cut off: {why}; what was written before is kept")

    def __exit__(self, *exception: object) -> None:
        self.close(interrupted=exception[0] is not None)

    def _entries(self, workload: Workload, name: str, trace: Trace) -> list[tuple[Entry, bytes]]:
        entries: list[tuple[Entry, bytes]] = []
        context = _plain(trace.context) | {"notes": wire_names(trace.context.notes, WIRE_NOTES)}
        text = json.dumps(context)
        if text not in self._contexts:  # thousands of traces share a few contexts: write each once
            self._contexts[text] = len(self._contexts)
            entries.append(({"context": context}, b""))
        packed = [(WIRE_ARRAYS.get(key, key), *_pack(key, array, workload)) for key, array in trace.arrays.items()]
        arrays = [{"name": label, **description, "packed": len(data)} for label, description, data in packed]
        entry = {"trace": name, "what": _summary(workload), "context": self._contexts[text], "arrays": arrays}
        return [*entries, (entry, b"".join(data for *_, data in packed))]

    def _write(self, entries: Sequence[tuple[Entry, bytes]]) -> None:
        if self._disk_error is not None:
            return
        try:
            self._writer.add(entries)
        except OSError as error:
            self._disk_error = error


class RecordedGpu(Device):
    """A device that replays a recording; `options` are those that it was recorded with."""

    def __init__(self, folder: FilePath, content: Recording) -> None:
        self._folder = folder
        self._content = content
        self._contexts: list[Context] = []
        self._place_count = 0  # traces and errors, which are numbered together and kept with their numbers
        self._traces: dict[str, list[tuple[int, Entry, Data]]] = defaultdict(list)
        self._errors: dict[tuple[str, int], tuple[int, GpudissectError]] = {}
        self._trace_runs: Counter[str] = Counter()
        self._batch_runs: Counter[str] = Counter()
        for entry, data in content.entries:
            self._add(entry, data)
        device = content.header.get("device")
        if isinstance(device, dict):
            device = current_names(device, WIRE_FIELDS["DeviceInfo"])
        info = _validate(_INFO, device, f"recording {folder}: its device")
        if not 0 < info.sm_count <= MAX_SMS:  # lengths of arrays, and time, follow from it
            raise RecordingError(f"recording {folder}: its device has {info.sm_count} SMs, allowed: 1 to {MAX_SMS}")
        self._check_numbers(info)
        origin = info.recorded_origin if info.origin is Origin.REPLAYED else info.origin
        self._info = replace(info, spec=as_text(f"rec:{folder}"), origin=Origin.REPLAYED, recorded_origin=origin)
        options = content.header.get("options")
        self.options: Mapping[str, Any] = MappingProxyType(options if isinstance(options, dict) else {})

    @classmethod
    def open(cls, folder: FilePath, *, partial: bool = False) -> Self:
        """Read and check a recording, see `gpudissect.device.recording.format.read`; raises `RecordingError`."""
        return cls(folder, read(folder, partial=partial))

    @property
    def info(self) -> DeviceInfo:
        """What was known of the recorded device, marked as replayed."""
        return self._info

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Return the recorded traces, or raise the recorded error.

        Raises `RecordingError` when the recording lacks one of them, `NotRecorded` when it lacks them all; no trace
        is used up then.
        """
        digests = [digest(workload) for workload in batch]
        key = _batch_key(digests)
        if (recorded_error := self._errors.get((key, self._batch_runs[key]))) is not None:
            self._batch_runs[key] += 1
            raise recorded_error[1]
        runs = self._trace_runs.copy()
        recorded: list[tuple[int, Entry, Data]] = []
        for workload, name in zip(batch, digests, strict=True):
            if runs[name] >= len(self._traces.get(name, ())):
                whole = self._content.end is not None and not self._content.end.get("interrupted")
                kind = NotRecorded if whole and self._traces.keys().isdisjoint(digests) else RecordingError
                raise kind(self._explain_lack(workload, name))
            recorded.append(self._traces[name][runs[name]])
            runs[name] += 1
        traces = [self._trace(*item) for item in zip(batch, digests, recorded, strict=True)]
        self._trace_runs = runs
        self._batch_runs[key] += 1
        return traces

    def queue(self) -> BatchQueue:
        """A queue that answers batches in the order in which they were recorded."""
        return Sorted(self.run, self._place)

    def _place(self, batch: Batch) -> tuple[int, ...]:
        """Where a batch was recorded: first those whose next traces stand together, the longest at a place first.

        Empty if a trace is missing.
        """
        names = [digest(workload) for workload in batch]
        if self._errors and (run := (key := _batch_key(names), self._batch_runs[key])) in self._errors:
            return (0, self._errors[run][0])
        used, places = Counter[str](), list[int]()
        for name in names:
            recorded, number = self._traces.get(name, ()), self._trace_runs[name] + used[name]
            if number >= len(recorded):
                return ()
            places.append(recorded[number][0])
            used[name] += 1
        first, count = places[0] if places else 0, len(places)
        return (0, first, -count) if places == [*range(first, first + count)] else (1, first, places[-1])

    def _add(self, entry: Entry, data: Data) -> None:
        self._place_count += "trace" in entry or "error" in entry
        if "trace" in entry:
            self._traces[str(entry["trace"])].append((self._place_count, entry, data))
        elif "context" in entry:
            context = _validate(_CONTEXT, entry["context"], f"recording {self._folder}: a context")
            if context.clock_hz is not None and not MIN_CLOCK_HZ <= context.clock_hz <= MAX_CLOCK_HZ:
                raise RecordingError(f"recording {self._folder}: a clock of {context.clock_hz!r:.40} Hz")
            if context.address is not None and not 0 <= context.address <= MAX_FACT:
                raise RecordingError(f"recording {self._folder}: a virtual address of {context.address!r:.40}")
            self._contexts.append(replace(context, notes=current_names(context.notes, WIRE_NOTES)))
        elif "error" in entry:
            kind = getattr(errors, current_name(str(entry["error"]), WIRE_CLASSES), None)
            run = entry.get("turn")
            if not (isinstance(kind, type) and issubclass(kind, GpudissectError) and isinstance(run, int)):
                raise RecordingError(f"recording {self._folder}: it holds an unknown error {entry['error']!r:.60}")
            self._errors[str(entry.get("batch")), run] = self._place_count, kind(str(entry.get("message")))

    def _check_numbers(self, info: DeviceInfo) -> None:
        """Raise `RecordingError` for numbers that no device has: they would overflow in what follows from them."""
        for name, value in (*info.facts.items(), *info.span_limits.items()):
            low, high = (MIN_CLOCK_HZ, MAX_CLOCK_HZ) if name.endswith("clock_hz") else (0, MAX_FACT)
            if isinstance(value, int | float) and not low <= value <= high:
                raise RecordingError(f"recording {self._folder}: its device has {name:.60} = {value!r:.40}")

    def _trace(self, workload: Workload, name: str, recorded: tuple[int, Entry, Data]) -> Trace:
        _, entry, data = recorded
        arrays, shapes = dict[str, Array](), array_shapes(workload, self._info.sm_count)
        try:
            for description in entry["arrays"]:
                label = current_name(description["name"], WIRE_ARRAYS)
                if label not in shapes or label in arrays:
                    raise RecordingError(f"array {label!r:.60} is none of this workload, or occurs twice")
                packed, data = data[: description["packed"]], data[description["packed"] :]
                shape = shapes[label]
                array = _unpack(label, description, packed, workload, arrays, math.prod(shape))
                may_lack = label in SHORTER or (isinstance(workload, Mix) and workload.silent and array.size > 0)
                shorter = may_lack and array.ndim == 1 and array.size <= shape[0]
                if array.shape != shape and not shorter:
                    raise RecordingError(f"array {label!r} has shape {array.shape}, that of the workload is {shape}")
                arrays[label] = array
            if missing := shapes.keys() - arrays.keys() - {*OPTIONAL.get(type(workload), ())}:
                raise RecordingError(f"it lacks the array {min(missing)!r}")
            if "begin" in arrays and (arrays["end"] < arrays["begin"]).any():
                raise RecordingError("some work ends before it begins")
            return Trace(name, arrays, self._contexts[entry["context"]])
        except RecordingError as error:
            raise RecordingError(f"recording {self._folder}, {_summary(workload)}: {error}") from None
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise RecordingError(f"recording {self._folder}, {_summary(workload)}: malformed ({error})") from None

    def _explain_lack(self, workload: Workload, name: str) -> str:
        count = len(self._traces.get(name, ()))
        held = f"only {count} runs of" if count else "no"
        end = self._content.end
        if end is None or end.get("interrupted"):
            why = "it ended early"
        else:
            lengths = {key: len(value) for key, value in self.options.items() if isinstance(value, list | tuple)}
            long = {key: f"{length} {key}" for key, length in lengths.items() if length > MAX_LISTED}
            options = (
                ", ".join(long.get(key, f"{key} {value}") for key, value in self.options.items()) or "other options"
            )
            why = f"it was made by {self._content.header.get('program')} with {options}; measure again with --record"
        return f"recording {self._folder} holds {held} workload {name[:8]} ({_summary(workload)}): {why}"


def array_shapes(workload: Workload, sm_count: int) -> Mapping[str, Shape]:
    """The shape of every array that a trace of `workload` may hold, on a GPU of `sm_count` SMs."""
    match workload:
        case Chase(timing=Timing.COUNT):
            return {"counts": (workload.laps, 3)}
        case Chase():
            shape = (workload.records,)
            return {"offsets": shape, "cycles": shape} if workload.timing is Timing.EACH else {"cycles": shape}
        case Stream():
            shapes: dict[str, Shape] = {"nanoseconds": (workload.runs,), "bytes": (workload.runs,)}
            return shapes | (
                {"cycles": (workload.runs, workload.blocks)} if workload.blocks <= MAX_TIMED_BLOCKS else {}
            )
        case Launch() | EngineCopy():
            return {"nanoseconds": (workload.runs,)}
        case Mix():
            sms = workload.sms or sm_count
            names, count = (TOTALS, sms) if workload.per_sm else (LIFETIME, sms * workload.warps * workload.waves)
            shapes = {**dict.fromkeys(names, (count,)), "nanoseconds": (1,)}
            if workload.sampled:
                shapes |= dict.fromkeys(SHORTER, (MAX_LATENCIES,)) | {"overhead": (1,), "overflow_count": (1,)}
            return shapes


def _batch_key(digests: Sequence[str]) -> str:
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()[:32]


def _summary(workload: Workload) -> str:
    """A few words for readers of a recording; programs use the digest."""
    if not isinstance(workload, Chase):
        return type(workload).__name__.lower()
    order = workload.order
    place = "" if workload.sm is None else f" on SM {workload.sm}"
    kind = type(order).__name__.lower()
    return f"chase {workload.path} {workload.timing} {kind} {order.count} in {order.span} B{place}"


def _planned(label: str, workload: Workload) -> Array | None:
    """The array if it follows from the workload."""
    planned = planned_arrays(workload).get(label)
    return None if planned is None else planned.compute()


def _pack(label: str, array: Array, workload: Workload) -> tuple[Entry, bytes]:
    if (planned := _planned(label, workload)) is not None and np.array_equal(planned, array):
        return {"code": "planned", "sha": codec.fingerprint(array)}, b""
    return codec.pack(array)


def _unpack(
    label: str, description: Entry, data: Data, workload: Workload, arrays: Mapping[str, Array], max_values: int
) -> Array:
    if description["code"] != "planned":
        return codec.unpack(description, data, max_values, arrays)
    if (planned := _planned(label, workload)) is None or codec.fingerprint(planned) != description["sha"]:
        raise RecordingError("this version visits the offsets in another order than the version that recorded")
    return planned


def _plain(value: object) -> Any:
    """A dataclass as JSON values, with wire names of fields."""
    if is_dataclass(value):
        values = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return wire_names(values, WIRE_FIELDS.get(type(value).__name__, {}))
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return value.value if isinstance(value, Enum) else value


def _validate(kind: TypeAdapter[T], value: object, subject: str) -> T:
    for name, part in value.items() if isinstance(value, dict) else ():  # pydantic keeps an error for each wrong item
        if isinstance(part, list | dict) and len(part) > MAX_ITEMS:
            count = f"{name:.60} has {len(part)} items, allowed: up to {MAX_ITEMS}"
            raise RecordingError(f"{subject} cannot be read: {count}")
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RecordingError(f"{subject} cannot be read: {place}: {first['msg']}") from None
    except (ValueError, TypeError) as error:
        raise RecordingError(f"{subject} cannot be read: {error}") from None
