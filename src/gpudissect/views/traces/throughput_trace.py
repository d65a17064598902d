"""Raw traces of streams and mixes, as `report.trace` shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpudissect.device_info import DeviceInfo
from gpudissect.results.text import quantity
from gpudissect.trace import Trace
from gpudissect.units import WARP_SIZE
from gpudissect.views.traces.trace import Columns
from gpudissect.workload import Mix, Stream


@dataclass(frozen=True)
class StreamTrace:
    """A stream, the trace it gave and the device that gave it."""

    info: DeviceInfo
    stream: Stream
    trace: Trace

    def columns(self) -> Columns:
        """Each run; where blocks were timed too, the cycles of the quickest, the middle and the slowest one."""
        trace = self.trace
        table = {"run": np.arange(trace.bytes.size), "nanoseconds": trace.nanoseconds, "bytes": trace.bytes}
        if "cycles" in trace.arrays:
            names = ("quickest_block", "median_block", "slowest_block")
            spread = np.quantile(trace.cycles, [0, 0.5, 1], axis=1, method="lower").astype(np.int64)
            table |= dict(zip(names, spread, strict=True))
        return table

    def described(self) -> dict[str, Any]:
        """The stream."""
        return {"stream": vars(self.stream)}

    def summary(self) -> str:
        """Bytes a second."""
        stream = self.stream
        rates = self.trace.bytes / np.maximum(self.trace.nanoseconds, 1) * 1e9
        middle, low, high = (quantity(float(each), "B/s") for each in (np.median(rates), rates.min(), rates.max()))
        return (f"{stream.path} {stream.transfer}, {stream.blocks} blocks of {stream.threads} threads, {stream.ilp} x "
                f"{stream.width} B in flight each: {middle} (runs {low} .. {high})")  # fmt: skip


@dataclass(frozen=True)
class MixTrace:
    """A mix, the trace it gave and the device that gave it."""

    info: DeviceInfo
    mix: Mix
    trace: Trace

    def columns(self) -> Columns:
        """Each warp."""
        trace = self.trace
        return {"sm": trace.sm, "block": trace.block, "begin": trace.begin, "end": trace.end}

    def described(self) -> dict[str, Any]:
        """The mix; its body as it was written."""
        body = ",".join(f"{step.instruction}:{step.count}" for step in self.mix.body)
        return {"mix": {**vars(self.mix), "body": body}}

    def summary(self) -> str:
        """Cycles from instruction to instruction of a warp, and how many an SM runs in a cycle."""
        mix, trace = self.mix, self.trace
        each = float(np.median(trace.end - trace.begin)) / mix.instructions
        rates = []
        for one in np.unique(trace.sm):
            own = trace.sm == one
            took = max(1, int(trace.end[own].max() - trace.begin[own].min()))
            rates.append(WARP_SIZE * mix.instructions * int(own.sum()) / took)
        what = f"{_count(mix.warps, 'warp')} an SM, {_count(mix.ilp, 'chain')} each, on {_count(len(rates), 'SM')}"
        return (f"{what}: {each:.2f} cycles an instruction of a "
                f"warp, {np.median(rates):.4g} a cycle of an SM, all threads counted")  # fmt: skip


def _count(number: int, of: str) -> str:
    return f"1 {of}" if number == 1 else f"{number} {of}s"
