"""One trace with its workload and device: columns, a summary in one line, files and a plot."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device_info import DeviceInfo
from gpudissect.printable import clean
from gpudissect.results.evidence.series import access_map
from gpudissect.results.evidence.shapes import make_series
from gpudissect.results.files import check_ending, write_bytes
from gpudissect.results.model import Series
from gpudissect.results.text import provenance, quantity
from gpudissect.trace import LIFETIME, TOTALS, Trace, totals_by_sm
from gpudissect.units import WARP_SIZE, cycles_to_ns
from gpudissect.workload import Chase, EngineCopy, Explicit, Launch, Mix, Stream, Timing, Workload

if TYPE_CHECKING:
    import pandas

SCHEMA = "gpudissect-trace/2"
MAX_POINTS = 3000  # of a plot
_UNITS = {"nanoseconds": "ns", "offset": "B", "bandwidth": "B/s", "begin": "cycles", "end": "cycles", "span": "cycles"}
Columns = dict[str, NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class RunTrace(Trace):
    """A `gpudissect.trace.Trace` with the workload that gave it and the device that ran it."""

    request: Workload
    """The workload."""
    info: DeviceInfo
    """The device."""

    @staticmethod
    def of(request: Workload, trace: Trace, info: DeviceInfo) -> RunTrace:
        """The trace of this workload on this device."""
        return RunTrace(trace.workload, trace.arrays, trace.context, request, info)

    def columns(self) -> Columns:
        """Columns of equal length: each lap or access of a chase, run of a stream or launch, warp or SM of a mix."""
        request = self.request
        if isinstance(request, Mix):
            return {name: self.arrays[name] for name in (TOTALS if request.per_sm else LIFETIME)}
        if isinstance(request, Chase):
            return self._chase_columns(request)
        columns = {"run": np.arange(self.nanoseconds.size), "nanoseconds": self.nanoseconds}
        if isinstance(request, Stream):
            columns["bytes"] = self.bytes
            if "cycles" in self.arrays:
                names = ("quickest_block", "median_block", "slowest_block")
                cycles = np.quantile(self.cycles, [0, 0.5, 1], axis=1, method="lower").astype(np.int64)
                columns |= dict(zip(names, cycles, strict=True))
        return columns

    def _chase_columns(self, chase: Chase) -> Columns:
        if chase.timing is Timing.COUNT:
            names = ("lap", "hits", "misses", "unknown")
            return dict(zip(names, (np.arange(len(self.counts)), *self.counts.T), strict=True))
        if chase.timing is Timing.LAP:
            return {"lap": np.arange(self.cycles.size), "cycles": self.cycles}
        lap, position = np.divmod(np.arange(self.cycles.size), chase.timed_per_lap)
        return {"lap": lap, "position": position, "offset": self.offsets, "cycles": self.cycles}

    def summary(self) -> str:
        """The main result in one line, with device and origin."""
        origin = provenance(self.info.origin, self.info.recorded_origin)
        return clean(f"{self.info.name} {origin} ({self.info.spec}), {_summarize(self.request, self)}")

    def to_series(self) -> Series:
        """The trace as a series that is plotted as a reader expects.

        Single accesses by line and lap, or of one lap against the offset; cycles or misses of laps; the bandwidth of
        each run of a stream; begin and end of each warp of a mix.
        """
        request, columns = self.request, self.columns()
        if isinstance(request, Stream):
            rate = columns["bytes"] / np.maximum(columns["nanoseconds"], 1) * 1e9
            return self._series("bandwidth against run", run=columns["run"], bandwidth=rate)
        if isinstance(request, Mix) and request.per_sm:
            return self._series("span against SM", sm=columns["sm"], span=columns["span"])
        if isinstance(request, Mix):
            begin, end = (columns[name] - columns["begin"].min() for name in ("begin", "end"))
            return self._series("lifetime of each warp, against warp", warp=np.arange(begin.size), begin=begin, end=end)
        if isinstance(request, Launch | EngineCopy):
            return self._series("time against run", **columns)
        if request.timing is Timing.COUNT:
            return self._series("misses against lap", lap=columns["lap"], misses=columns["misses"])
        if request.timing is Timing.LAP:
            return self._series("cycles against lap", **columns)
        if (by_line := access_map(self.info.name, [(request, self)])) is not None:
            return by_line
        return self._series("latency against offset", offset=columns["offset"], cycles=columns["cycles"])

    def _series(self, name: str, **columns: NDArray[Any]) -> Series:
        step = -(-len(next(iter(columns.values()))) // MAX_POINTS)
        thinned = {key: column[::step] for key, column in columns.items()}
        units = {key: _UNITS[key] for key in columns if key in _UNITS}
        return make_series(self.info.name, name, thinned, [self.workload], **units)

    def to_pandas(self) -> pandas.DataFrame:
        """The columns as a data frame. Raises `UsageError` without pandas."""
        from gpudissect.views.interactive import data_frame

        return data_frame(self.columns())

    def to_svg(self) -> str:
        """Its plot as an SVG file; empty where there is nothing to plot."""
        from gpudissect.views.plots.choose import figure_of
        from gpudissect.views.plots.standalone import standalone

        figure = figure_of(self.to_series())
        return standalone(figure) if figure is not None else ""

    def save(self, file: str | Path) -> None:
        """Write it as .csv, .json, .npz, .parquet, .txt, or its plot as .svg. Raises `UsageError`."""
        path = Path(file)
        check_ending(path, "of a trace", (*FORMATS, ".svg"))
        content = self.to_svg() if path.suffix == ".svg" else FORMATS[path.suffix](self)
        write_bytes(path, content.encode() if isinstance(content, str) else content)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {array.shape}" for name, array in self.arrays.items())
        return f"<{self.summary()}; {sizes}>"

    def _repr_html_(self) -> str:
        from gpudissect.views.notebook import picture
        from gpudissect.views.page.markup import tag

        return tag("div", tag("p", self.summary()), picture(self.to_svg(), self.summary(), repr(self)))


def _summarize(request: Workload, trace: Trace) -> str:
    if isinstance(request, Chase):
        return f"{request.path}, {request.order.count} accesses per lap: {_summarize_chase(request, trace)}"
    if isinstance(request, Mix):
        return _summarize_mix(request, trace)
    if isinstance(request, Launch):
        low, middle, high = np.quantile(trace.nanoseconds, [0, 0.5, 1])
        return f"{request.kernels} empty kernels by {request.method}: median {middle:.4g} ns ({low:.4g} .. {high:.4g})"
    if isinstance(request, EngineCopy):
        rate = quantity(request.size / float(np.median(trace.nanoseconds)) * 1e9, "B/s")
        return f"{request.path} {request.transfer}, {request.size} B by a copy engine: median {rate}"
    rates = np.quantile(trace.bytes / np.maximum(trace.nanoseconds, 1) * 1e9, (0, 0.5, 1))
    low, middle, high = (quantity(rate, "B/s") for rate in rates.tolist())
    shape = f"{request.blocks} blocks of {request.threads} threads, {request.ilp} x {request.width} B in flight each"
    return f"{request.path} {request.transfer}, {shape}: {middle} (runs {low} .. {high})"


def _summarize_chase(chase: Chase, trace: Trace) -> str:
    if chase.timing is Timing.COUNT:
        hits, misses, unknown = (int(total) for total in trace.counts.sum(axis=0))
        return f"{hits} hits, {misses} misses, {unknown} unknown"
    accesses = chase.order.count if chase.timing is Timing.LAP else 1
    low, middle, high = np.percentile(trace.cycles / accesses, (0, 50, 100))
    clock = trace.context.clock_hz
    ns = f" = {cycles_to_ns(float(middle), clock):.1f} ns" if clock else ""
    if chase.timing is Timing.LAP:
        return f"{middle:.2f} cycles per access{ns} (laps {low:.2f} .. {high:.2f})"
    return f"median {middle:g} cycles{ns}, {low:g} .. {high:g}, timer included"


def _summarize_mix(mix: Mix, trace: Trace) -> str:
    arrays = trace.arrays if mix.per_sm else totals_by_sm(trace.begin, np.maximum(trace.end, trace.begin + 1), trace.sm)
    warps, spans = arrays["warps"], np.maximum(arrays["span"], 1)
    cycles = float(arrays["duration"].sum() / max(1, warps.sum())) / mix.instructions
    rates = WARP_SIZE * mix.instructions * warps / spans
    shape = f"{_count(mix.warps, 'warp')} per SM, {_count(mix.ilp, 'chain')} each, on {_count(rates.size, 'SM')}"
    return f"{shape}: {cycles:.2f} cycles per instruction of a warp, {np.median(rates):.4g} operations per cycle and SM"


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def to_table(trace: RunTrace) -> str:
    """Aligned columns, a header first."""
    columns = trace.columns()
    ends = {name: (column.min(initial=0), column.max(initial=0)) for name, column in columns.items()}
    widths = [max(len(name), *(len(str(end)) for end in ends[name])) for name in columns]
    form = "  ".join(f"%{width}s" for width in widths) + "\n"
    return form % tuple(columns) + "".join(form % row for row in zip(*columns.values(), strict=True))


def to_csv(trace: RunTrace) -> str:
    """Comma-separated values, a header first."""
    columns = trace.columns()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def to_json(trace: RunTrace) -> str:
    """Device, workload, context and columns as one JSON object."""
    lists = {name: column.tolist() for name, column in trace.columns().items()}
    return json.dumps({**_describe(trace), "columns": lists}, default=str) + "\n"


def to_npz(trace: RunTrace) -> bytes:
    """A numpy archive: the columns, and ``about``, the rest as JSON text."""
    file = io.BytesIO()
    about = np.array(json.dumps(_describe(trace), default=str))
    np.savez_compressed(file, allow_pickle=False, about=about, **trace.columns())
    return file.getvalue()


def to_parquet(trace: RunTrace) -> bytes:
    """A Parquet file of the columns. Raises `UsageError` without pyarrow."""
    from gpudissect.exports.tables import parquet

    columns = trace.columns()
    return parquet(list(columns), [[int(value) for value in row] for row in zip(*columns.values(), strict=True)])


FORMATS: dict[str, Callable[[RunTrace], str | bytes]] = {
    ".txt": to_table,
    ".csv": to_csv,
    ".json": to_json,
    ".npz": to_npz,
    ".parquet": to_parquet,
}
"""File suffix to writer."""


def _describe(trace: RunTrace) -> dict[str, Any]:
    """Everything but the columns; an explicit order by its digest."""
    request, info, context = trace.request, trace.info, trace.context
    fields = dict(vars(request))
    if isinstance(request, Chase):
        order = request.order
        content = {"digest": order.digest, "count": order.count} if isinstance(order, Explicit) else vars(order)
        fields["order"] = {"kind": type(order).__name__.lower(), **content}
        fields["bounds"] = vars(request.bounds) if request.bounds else None
    if isinstance(request, Mix):
        fields["body"] = ",".join(f"{step.instruction}:{step.count}" for step in request.body)
    names = ("spec", "name", "origin", "recorded_origin")
    return {
        "schema": SCHEMA,
        "device": {name: getattr(info, name) for name in names},
        type(request).__name__.lower(): fields,
        "workload": trace.workload,
        "context": {**vars(context), "notes": dict(context.notes)},
    }
