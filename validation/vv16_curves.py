"""VV16 figures 1.1 and 3.6 to 3.11 with kernels recorded on an H200 and an H100: what they plot, and the plots.

The points are in ``docs/validation-explain-vv16.csv``, which ``explain_vv16.py`` writes.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path

import numpy as np
from kernels import read_entries
from numpy.typing import NDArray

from gpudissect.explanation.arguments import parse_arguments
from gpudissect.views.plots.figure import Figure, Kind, overlay
from gpudissect.views.plots.standalone import sheet

TABLE = Path(__file__).parents[1] / "docs" / "validation-explain-vv16.csv"
COLUMNS = (
    "gpu",
    "kernel",
    "warps per SM",
    "largest carveout",
    "measured ns",
    "explain ns",
    "latency bound ns",
    "throughput bound ns",
)
GPUS = {"h200": "H200", "h100": "H100"}
WARPS = "warps per SM"
CLOSE = 0.9  # of the best throughput: "close to the maximum" (VV16 s3.10)
HEADROOM = 1.25  # of the highest plotted measurement or bound, where the latency bound is cut off
SAME = 0.1  # relative difference of two times, below which the point of the driver's own L1 is left out
PLACES = 129  # of the axis, at which the bounds are plotted
FLOPS_OF_A_PRODUCT = 2  # a multiplication and an addition


@dataclass(frozen=True)
class Point:
    """Nanoseconds of a kernel at an occupancy: see `explain.Point`."""

    warps: int
    largest_carveout: bool
    measured: float
    explain: float
    latency_bound: float
    throughput_bound: float


@dataclass(frozen=True)
class Panel:
    """One plot: a kernel, and the arrays whose bytes VV16 counts as its work; none: floating-point operations."""

    kernel: str
    title: str
    counted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plot:
    """A counterpart of one or two figures: panels side by side.

    `is_shared`: the marked occupancies are those of one throughput in all of them (VV16 s3.10).
    """

    title: str
    panels: tuple[Panel, ...]
    is_shared: bool = False


_OPTION = ("price", "strike", "years")
PLOTS: Mapping[str, Plot] = {
    "1-01": Plot(
        "VV16 figure 1.1: throughput rises with occupancy up to a limit",
        (
            Panel("matrix_multiply", "matrix multiply (SGEMM)"),
            Panel("reduction", "reduction", ("x",)),
            Panel("black_scholes_kind_by_warp", "Black-Scholes, kind by warp", (*_OPTION, "value")),
            Panel("black_scholes_kind_by_lane", "Black-Scholes, kind by lane", (*_OPTION, "value")),
        ),
    ),
    "3-06": Plot("VV16 figure 3.6: vector add", (Panel("vector_add", "vector add", ("x", "y", "out")),)),
    "3-07": Plot(
        "VV16 figures 3.7 and 3.8: permutation",
        tuple(Panel(f"permute_{kind}", f"{kind} permutation", ("a", "b", "c")) for kind in ("trivial", "random")),
    ),
    "3-09": Plot(
        "VV16 figures 3.9 and 3.10: absolute value",
        (
            Panel("absolute_value_positive", "all positive: 4 bytes read", ("a",)),
            Panel("absolute_value_negative", "all negative: 4 bytes read, 4 written", ("a", "out")),
        ),
        is_shared=True,
    ),
    "3-10": Plot(
        "VV16 figures 3.9 and 3.10 with wider accesses",
        (
            Panel("absolute_value_float2", "all negative, accesses of 8 bytes", ("a", "out")),
            Panel("absolute_value_float4", "all negative, accesses of 16 bytes", ("a", "out")),
        ),
    ),
    "3-11": Plot(
        "VV16 figure 3.11: Black-Scholes",
        (
            Panel("black_scholes", "as compiled by default", (*_OPTION, "call", "put")),
            Panel("black_scholes_fast", "as with -use_fast_math", (*_OPTION, "call", "put")),
        ),
        is_shared=True,
    ),
}
"""By key of the picture."""


@cache
def work(kernel: str, counted: tuple[str, ...]) -> float:
    """Bytes of the counted arrays of a kernel, or the floating-point operations of a matrix multiplication."""
    entry = next(each for each in read_entries() if each.name == kernel)
    arguments = {each.name: each for each in parse_arguments(entry.arguments)}
    if not counted:
        return float(FLOPS_OF_A_PRODUCT * prod(int(arguments[name].values[0]) for name in ("m", "n", "k")))
    return float(sum(arguments[name].array_bytes for name in counted))


def read_points(table: str) -> dict[tuple[str, str], list[Point]]:
    """The points of the CSV by GPU and kernel."""
    found = defaultdict[tuple[str, str], list[Point]](list)
    for gpu, kernel, warps, largest, *times in list(csv.reader(table.splitlines()))[1:]:
        measured, explain, latency, throughput = map(float, times)
        found[gpu, kernel].append(Point(int(warps), largest == "yes", measured, explain, latency, throughput))
    return dict(found)


def rate(panel: Panel, nanoseconds: float) -> float:
    """GB/s as VV16 counts bytes, or GFLOP/s."""
    return work(panel.kernel, panel.counted) / nanoseconds


def unit(panel: Panel) -> str:
    """Unit of the vertical axis."""
    return "GB/s" if panel.counted else "GFLOP/s"


def needed(panel: Panel, points: Sequence[Point], target: float) -> int | None:
    """Fewest warps per SM, of those measured, with at least this throughput; None if none has it."""
    return min((each.warps for each in points if rate(panel, each.measured) >= target), default=None)


def best_rate(panel: Panel, points: Sequence[Point]) -> float:
    """The highest throughput measured."""
    return max(rate(panel, each.measured) for each in swept(points))


def targets(plot: Plot, points: Mapping[str, Sequence[Point]]) -> dict[str, float]:
    """By kernel, the throughput close to its maximum; if `is_shared`, to the smaller maximum of all of them."""
    best = {each.kernel: best_rate(each, points[each.kernel]) for each in plot.panels}
    return {kernel: CLOSE * (min(best.values()) if plot.is_shared else each) for kernel, each in best.items()}


def swept(points: Sequence[Point]) -> list[Point]:
    """Those at which only dynamic shared memory differs (VV16 s5.11)."""
    return [point for point in points if point.largest_carveout]


@dataclass(frozen=True)
class Summary:
    """A panel on one GPU: best throughput measured, warps per SM for the plot's target, and errors of both models.

    `bound`: the throughput bound at the largest occupancy. `meeting`: warps per SM at which the bounds meet, latency
    times throughput (VV16 s3.10).
    """

    best: float
    needed: int | None
    bound: float
    meeting: float
    volkov: NDArray[np.float64]  # relative to the measured time, by occupancy
    explain: NDArray[np.float64]


def summaries(points: Mapping[tuple[str, str], Sequence[Point]]) -> dict[tuple[str, str], Summary]:
    """By GPU and kernel."""
    found = {}
    for gpu in GPUS:
        for plot in PLOTS.values():
            aims = targets(plot, {each.kernel: points[gpu, each.kernel] for each in plot.panels})
            for panel in plot.panels:
                found[gpu, panel.kernel] = _summary(panel, swept(points[gpu, panel.kernel]), aims[panel.kernel])
    return found


def _summary(panel: Panel, points: Sequence[Point], target: float) -> Summary:
    last, times = points[-1], np.array([each.measured for each in points])
    return Summary(
        best=best_rate(panel, points),
        needed=needed(panel, points, target),
        bound=rate(panel, last.throughput_bound),
        meeting=last.warps * last.latency_bound / last.throughput_bound,
        volkov=np.array([max(each.latency_bound, each.throughput_bound) for each in points]) / times - 1,
        explain=np.array([each.explain for each in points]) / times - 1,
    )


def pictures() -> Iterator[tuple[str, str]]:
    """Key, such as 3-06, and SVG file of every plot: a column for each panel, a row for each GPU."""
    points = read_points(TABLE.read_text(encoding="utf-8"))
    for key, plot in PLOTS.items():
        yield key, sheet(plot.title, [figure for gpu in GPUS for figure in figures(plot, gpu, points)])


def figures(plot: Plot, gpu: str, points: Mapping[tuple[str, str], Sequence[Point]]) -> Iterator[Figure]:
    """The panels of a plot for one GPU."""
    of_gpu = {each.kernel: points[gpu, each.kernel] for each in plot.panels}
    aims = targets(plot, of_gpu)
    for panel in plot.panels:
        yield _figure(panel, GPUS[gpu], of_gpu[panel.kernel], aims[panel.kernel])


def _figure(panel: Panel, gpu: str, points: Sequence[Point], target: float) -> Figure:
    chosen = swept(points)
    own = [point for point in points if not point.largest_carveout]
    warps = [point.warps for point in chosen]
    top = max(max(rate(panel, each.measured), rate(panel, each.throughput_bound)) for each in points)
    places = np.linspace(0, warps[-1], PLACES)
    latency = np.interp(places, [0, *warps], [0, *(rate(panel, each.latency_bound) for each in chosen)])
    throughput = np.interp(places, warps, [rate(panel, each.throughput_bound) for each in chosen])
    groups: dict[str, tuple[Sequence[float], Sequence[float]]] = {
        "measured": (warps, [rate(panel, each.measured) for each in chosen]),
        "explain": (warps, [rate(panel, each.explain) for each in chosen]),
        "Volkov's model": (places.tolist(), np.minimum(latency, throughput).tolist()),
        "throughput bound": (places.tolist(), np.where(latency <= throughput, throughput, np.nan).tolist()),
        "latency bound": (places.tolist(), np.where(latency >= throughput, latency, np.nan).tolist()),
    }
    if own and abs(own[-1].measured / chosen[-1].measured - 1) > SAME:
        groups["measured, largest L1"] = ([own[-1].warps], [rate(panel, own[-1].measured)])
    kinds = {name: Kind.DOTS if name.startswith("measured") else Kind.CURVES for name in groups}
    enough = needed(panel, chosen, target)
    marks = () if enough is None else ((float(enough), f"{enough} warps"),)
    title = f"{gpu}: {panel.title}"
    return overlay(
        title,
        (WARPS, ""),
        (unit(panel), ""),
        groups,
        kinds=kinds,
        y_max=HEADROOM * top,
        marks=marks,
        log_x=False,
        log_y=False,
    )
