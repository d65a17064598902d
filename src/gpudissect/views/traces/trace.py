"""One raw trace for people and programs: a table of columns, CSV, JSON, npz, and a summary in one line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpudissect.device_info import DeviceInfo
from gpudissect.results.text import clean, provenance
from gpudissect.trace import Trace
from gpudissect.units import cycles_to_ns
from gpudissect.workload import Chase, Explicit, Timing

SCHEMA = "gpudissect-trace/1"
Columns = dict[str, NDArray[np.int64]]


class RawTrace(Protocol):
    """A workload, the trace it gave and the device that gave it."""

    @property
    def info(self) -> DeviceInfo:
        """The device."""

    @property
    def trace(self) -> Trace:
        """What it gave."""

    def columns(self) -> Columns:
        """The trace as columns of equal length."""

    def described(self) -> dict[str, Any]:
        """The workload, under the name of its kind."""

    def summary(self) -> str:
        """What was seen, in a few words, without where the numbers come from."""


@dataclass(frozen=True)
class ChaseTrace:
    """A chase, the trace it gave and the device that gave it."""

    info: DeviceInfo
    chase: Chase
    trace: Trace

    def columns(self) -> Columns:
        """What was timed, lap by lap."""
        chase, trace = self.chase, self.trace
        if chase.timing is Timing.COUNT:
            counts = trace.counts
            laps = np.arange(len(counts))
            return {"lap": laps, "hits": counts[:, 0], "misses": counts[:, 1], "unknown": counts[:, 2]}
        if chase.timing is Timing.LAP:
            return {"lap": np.arange(trace.cycles.size), "cycles": trace.cycles}
        lap, position = np.divmod(np.arange(trace.cycles.size), chase.timed_per_lap)
        return {"lap": lap, "position": position, "offset": trace.offsets, "cycles": trace.cycles}

    def described(self) -> dict[str, Any]:
        """The chase; of an order that was given one by one its digest."""
        chase, order = self.chase, self.chase.order
        ring: dict[str, Any] = {"kind": type(order).__name__.lower()}
        ring |= {"digest": order.digest, "count": order.count} if isinstance(order, Explicit) else vars(order)
        return {"chase": {**vars(chase), "order": ring, "bounds": vars(chase.bounds) if chase.bounds else None}}

    def summary(self) -> str:
        """Cycles of an access, or how many hit."""
        chase, trace = self.chase, self.trace
        where = f"{chase.path}, {chase.order.count} accesses a lap: "
        if chase.timing is Timing.COUNT:
            hits, misses, unknown = (int(total) for total in trace.counts.sum(axis=0))
            return f"{where}{hits} hits, {misses} misses, {unknown} unknown"
        clock = trace.context.clock_hz
        if chase.timing is Timing.LAP:
            each = trace.cycles / chase.order.count
            ns = f" = {cycles_to_ns(float(np.median(each)), clock):.1f} ns" if clock else ""
            spread = f"laps {each.min():.2f} .. {each.max():.2f}"
            return f"{where}{np.median(each):.2f} cycles an access{ns} ({spread})"
        low, middle, high = np.percentile(trace.cycles, (0, 50, 100))
        ns = f" = {cycles_to_ns(float(middle), clock):.1f} ns" if clock else ""
        return f"{where}median {middle:g} cycles{ns}, {low:g} .. {high:g}, timer included"


def summary(given: RawTrace) -> str:
    """What was seen, in one line, with where the numbers come from."""
    info = given.info
    return clean(f"{info.name} {provenance(info.origin, info.recorded_origin)} ({info.spec}), {given.summary()}")


def to_table(given: RawTrace) -> str:
    """Aligned columns, a header first."""
    table = given.columns()
    rows = [list(table), *([str(value) for value in row] for row in zip(*table.values(), strict=True))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(lines) + "\n"


def to_csv(given: RawTrace) -> str:
    """Comma-separated values, a header first."""
    table = given.columns()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return text.getvalue()


def to_json(given: RawTrace) -> str:
    """Device, workload, context and columns as one JSON object."""
    lists = {name: column.tolist() for name, column in given.columns().items()}
    return json.dumps({**_about(given), "columns": lists}, default=str) + "\n"


def to_npz(given: RawTrace) -> bytes:
    """A numpy archive: the columns, and ``about``, the rest as JSON text."""
    file = io.BytesIO()
    about = np.array(json.dumps(_about(given), default=str))
    np.savez_compressed(file, allow_pickle=False, about=about, **given.columns())
    return file.getvalue()


def to_parquet(given: RawTrace) -> bytes:
    """A Parquet file of the columns. Raises `UsageError` without pyarrow."""
    from gpudissect.exports.tables import parquet

    table = given.columns()
    return parquet(list(table), [[int(value) for value in row] for row in zip(*table.values(), strict=True)])


FORMATS: dict[str, Callable[[RawTrace], str | bytes]] = {
    ".txt": to_table, ".csv": to_csv, ".json": to_json, ".npz": to_npz, ".parquet": to_parquet,
}  # fmt: skip
"""File suffix to writer."""


def _about(given: RawTrace) -> dict[str, Any]:
    info, context = given.info, given.trace.context
    return {
        "schema": SCHEMA,
        "device": {
            "spec": info.spec,
            "name": info.name,
            "origin": info.origin,
            "recorded_origin": info.recorded_origin,
        },
        **given.described(),
        "workload": given.trace.workload,
        "context": {**vars(context), "notes": dict(context.notes)},
    }
