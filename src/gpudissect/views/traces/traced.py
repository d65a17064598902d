"""One raw trace as a series, for its plot: single accesses by place and lap, laps, runs, or when warps ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gpudissect.results.evidence.series import access_map
from gpudissect.results.model import Series
from gpudissect.views.traces.trace import RawTrace
from gpudissect.workload import Chase, Mix, Stream, Timing, Workload

MOST_POINTS = 3000
_UNITS = {"cycles": "cycles", "nanoseconds": "ns", "offset": "B", "latency": "cycles", "bandwidth": "B/s",
          "begin": "cycles", "end": "cycles"}  # fmt: skip


def series_of_run(asked: Workload, raw: RawTrace) -> Series:
    """What one trace shows, as a series whose plot is the one that a reader expects of it.

    Of single accesses the latency by line and lap, or of one lap against the byte offset; of laps their cycles; of
    counted laps the misses; of a stream the bandwidth of each run; of a mix when each warp began and ended.
    """
    table = raw.columns()
    if isinstance(asked, Stream):
        rate = table["bytes"] / np.maximum(table["nanoseconds"], 1) * 1e9
        return _series(raw, "bandwidth against run", {"run": table["run"], "bandwidth": rate})
    if isinstance(asked, Mix):
        begin = table["begin"] - table["begin"].min()
        took = {"warp": np.arange(begin.size), "begin": begin, "end": table["end"] - table["begin"].min()}
        return _series(raw, "when each warp ran, against warp", took)
    if not isinstance(asked, Chase):
        return _series(raw, "time against run", table)
    if asked.timing is Timing.COUNT:
        return _series(raw, "misses against lap", {"lap": table["lap"], "misses": table["misses"]})
    if asked.timing is Timing.LAP:
        return _series(raw, "cycles against lap", table)
    by_line = access_map(raw.info.name, [(asked, raw.trace)])
    return by_line or _series(raw, "latency against offset", {name: table[name] for name in ("offset", "cycles")})


def _series(raw: RawTrace, name: str, table: Mapping[str, NDArray[np.generic]]) -> Series:
    size = len(next(iter(table.values())))
    step = -(-size // MOST_POINTS)
    columns: dict[str, Sequence[float]] = {key: column[::step].tolist() for key, column in table.items()}
    return Series(
        element=raw.info.name, name=name, columns={key: tuple(column) for key, column in columns.items()},
        units={key: _UNITS[key] for key in columns if key in _UNITS}, evidence=(raw.trace.workload,),
    )  # fmt: skip
