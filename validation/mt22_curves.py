"""Figures 4.5, 4.6 and 4.21 to 4.26 of MT22, as its text and logs give them, beside the same curves of simulated GPUs.

The plots themselves were not available here. `LOGS` summarizes ``coreFlow_Texture_*.log`` of caps-tum/mt4g, commit
580018e, the author's data of the GPUs and the test of figures 4.23 to 4.26. Of the others only what the text states is
compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from hiding_figures import unmeasured
from kinds import Kind
from numpy.typing import NDArray
from vv16_data import TOLERANCE, Row

from gpudissect import catalogue
from gpudissect.device.kinds import open_device
from gpudissect.measure.cache.infer_old_methods import geometric_angle, geometric_distance
from gpudissect.simulation.cache.models import Actor, HierarchyModel
from gpudissect.units import KIB, WARP_SIZE
from gpudissect.views.plots.figure import Figure, overlay
from gpudissect.views.plots.figure import Kind as Marks
from gpudissect.views.plots.standalone import sheet
from gpudissect.workload import Chase, Path, Sequential, Timing

WORD = 4  # bytes of a texture load
MARGIN = 200  # bytes by which both arrays are smaller than the size that MT22 reads
TIMED_LOADS = 1024
ALIGNMENT = 512  # bytes, of the second array
SHARE_OF_FIRST = 0.8  # of the deviation of thread 1, from which on a thread shares its cache: MT22's rule
PERIOD = 128  # threads after which the pattern repeats (MT22 s4.6)
PERIODIC = ("k20c", "840m")  # GPUs of which the text states that
LOADS_PER_FETCH = 8  # words in the 32 bytes that a miss fetches
FIGURES = {"840m": "4.21", "rtx2080ti": "4.22", "k20c": "4.23", "p6000": "4.24", "v100": "4.25", "a100": "4.26"}
L2_HIT = "L2 hit on the texture path: {:g} cycles assumed in the file; the log gives {:.0f} if every line is evicted"
BY_LANE = "the log varies within a warp, by groups of four threads; simulated threads of a warp do not differ"
COPIES = "simulated warps use the two copies alternately; in the log of the P6000 pairs of warps do"
RANDOM = "random replacement, which the file assumes, keeps some lines, others in each launch"
FIGURE_4_6_GPU, FIGURE_4_6_SIZE = "v100", 25.5  # KiB; the text names no GPU: the nearest L1 size of tables 5.4 to 5.9
FIGURE_4_6_SIZES = range(23 * KIB, 36 * KIB + 1, 32)  # bytes
FIGURE_4_6_LOADS, FAR_HIGHER = 255, 2.0  # timed loads; ratio of rises that counts as "by far the highest"
EARLY = "MT22 names no GPU, V100 taken; random replacement is assumed, no known policy gives the early misses of s5.3.7"
Array = NDArray[np.float64]


class Spread(NamedTuple):
    """Lowest, median and highest deviation of a group of threads, cycles."""

    low: float
    median: float
    high: float

    @property
    def change(self) -> float:
        """Highest less lowest."""
        return self.high - self.low

    def __str__(self) -> str:
        return f"{self.low:.1f} to {self.high:.1f} cycles"


@dataclass(frozen=True)
class Curve:
    """Deviation of the mean load time by thread, from thread 1 on."""

    threads: int  # of the block, thread 0 included
    sharing: int  # threads besides thread 0 that share its cache
    warps: tuple[int, ...]  # of the first four, that share the cache of warp 0
    disturbed: Spread
    rest: Spread | None  # threads that do not share it; None if all do

    @property
    def step(self) -> float:
        """Cycles by which the median of the sharing threads exceeds that of the others, or the reference."""
        return self.disturbed.median - (self.rest.median if self.rest else 0.0)


LOGS: Mapping[str, Curve] = {
    "k20c": Curve(1024, 255, (0,), Spread(14.957, 15.454, 15.762), Spread(0.001, 0.049, 4.033)),
    "p6000": Curve(1024, 511, (0, 1), Spread(18.681, 21.386, 24.503), Spread(0.269, 2.621, 5.721)),
    "v100": Curve(512, 511, (0, 1, 2, 3), Spread(22.813, 22.884, 22.958), None),
    "a100": Curve(256, 255, (0, 1, 2, 3), Spread(19.365, 19.394, 19.412), None),
}
THREADS = {"840m": 1024, "rtx2080ti": 512, **{gpu: log.threads for gpu, log in LOGS.items()}}
"""Of a block; the tool halves 1024 until the first four threads share a cache with thread 0."""


@cache
def deviations(gpu: str) -> tuple[float, ...]:
    """The deviation of every thread from thread 1 on, cycles, simulated once a warp, each with a seed of its own."""
    by_warp = [_deviation(gpu, warp) for warp in range(THREADS[gpu] // WARP_SIZE)]
    return tuple(np.repeat(by_warp, WARP_SIZE)[1:].tolist())


def _deviation(gpu: str, warp: int) -> float:
    """The larger deviation of the two arrays' mean load time from that of one array alone (MT22 s4.6)."""
    read = next(
        item.printed
        for item in catalogue.load(gpu).published()
        if (item.element, item.attribute) == ("texture", "capacity") and item.printed is not None
    )
    words = int(read - MARGIN) // WORD
    first = np.arange(words, dtype=np.int64) * WORD
    second = first + -(-words * WORD // ALIGNMENT) * ALIGNMENT
    model = HierarchyModel(catalogue.load(gpu).hierarchy(), seed=warp)

    def mean(chain: NDArray[np.int64], loads: int, warp: int) -> float:
        latencies = np.zeros(loads)
        model.walk(Path.TEXTURE, chain, 0, np.zeros(loads, np.int8), latencies, Actor(warp=warp))
        return float(latencies.mean())

    mean(first, words, 0)
    alone = mean(first, TIMED_LOADS, 0)
    model.reset(seed=warp)
    mean(first, words, 0)
    mean(second, words, warp)
    return max(abs(mean(first, TIMED_LOADS, 0) - alone), abs(mean(second, TIMED_LOADS, warp) - alone))


@cache
def curve(gpu: str) -> Curve:
    """The simulated curve, summarized as the logs."""
    values = np.array(deviations(gpu))
    shares = values >= SHARE_OF_FIRST * values[0]
    warps = tuple(warp for warp in range(4) if shares[max(warp * WARP_SIZE - 1, 0)])
    rest = None if shares.all() else _spread(values[~shares])
    return Curve(values.size + 1, int(shares.sum()), warps, _spread(values[shares]), rest)


def _spread(values: Array) -> Spread:
    return Spread(float(values.min()), float(np.median(values)), float(values.max()))


def mt22_rows() -> Iterator[Row]:
    """All rows."""
    yield from _figures_4_5_and_4_6()
    for gpu in FIGURES:
        yield from _disturbance(gpu)


def _disturbance(gpu: str) -> Iterator[Row]:
    """Ours beside the log, or where there is none beside what the text states: half of the threads, or no change."""
    log, ours, values = LOGS.get(gpu), curve(gpu), np.array(deviations(gpu))
    figure, others = f"MT22 fig {FIGURES[gpu]}", ours.threads - 1
    source = f"{figure}, MT4G log" if log else f"{figure}, s4.6"

    def row(kind: Kind, what: str, texts: tuple[str, str], agrees: bool, reason: str, source: str = source) -> Row:
        return Row(kind, gpu, what, *texts, agrees, source, "" if agrees else reason)

    sharing = log.sharing if log else others // 2 if gpu in PERIODIC else others
    printed = f"{sharing} of {others}" if log else "half" if gpu in PERIODIC else "all"
    texts = printed, f"{ours.sharing} of {others}"
    yield row(Kind.ROUND_TRIP, "threads that share thread 0's texture cache", texts, sharing == ours.sharing, RANDOM)
    if gpu in PERIODIC:
        period = next(n for n in range(WARP_SIZE, others, WARP_SIZE) if np.array_equal(values[n:], values[:-n]))
        texts, what = (f"{PERIOD}", f"{period}"), "threads after which the pattern repeats"
        yield row(Kind.ROUND_TRIP, what, texts, period == PERIOD, COPIES, f"{figure}, s4.6")
    if not log or not log.rest:
        change, printed = float(np.ptp(values)), f"{log.disturbed.change:.1f} cycles" if log else "none"
        if gpu not in PERIODIC:
            texts, agrees = (printed, f"{change:.1f} cycles"), change <= TOLERANCE * values.max()
            yield row(Kind.ROUND_TRIP, "change of the deviation over the threads", texts, agrees, RANDOM)
    if not log:
        return
    hit, miss = catalogue.load(gpu).hierarchy().routes[Path.TEXTURE].latency
    step = ours.step if log.rest else float(np.median(values))
    texts, agrees = (f"{log.step:.1f} cycles", f"{step:.1f} cycles"), abs(step / log.step - 1) <= TOLERANCE
    reason = RANDOM if np.ptp(values) and not log.rest else L2_HIT.format(miss, hit + LOADS_PER_FETCH * log.step)
    what = "mean delay of a load by a thread that shares the cache"
    yield row(Kind.DATA, what, texts, agrees, reason)
    if log.rest and ours.rest:
        texts, what = (_list(log.warps), _list(ours.warps)), "warps of the first four that share warp 0's texture cache"
        yield row(Kind.ROUND_TRIP, what, texts, log.warps == ours.warps, COPIES)
        agrees = abs(ours.rest.high - log.rest.high) <= TOLERANCE * log.step
        what = "mean delay of a load by any other thread"
        yield row(Kind.DATA, what, (str(log.rest), str(ours.rest)), agrees, BY_LANE)


def _list(warps: tuple[int, ...]) -> str:
    return ", ".join(map(str, warps))


@cache
def reductions() -> Mapping[str, Array]:
    """Mean load time, geometric distance and angle of the simulated L1 for each size of `FIGURE_4_6_SIZES`."""
    order, picks = Path.GLOBAL.word, tuple(range(FIGURE_4_6_LOADS))
    chases = [
        Chase(path=Path.GLOBAL, order=Sequential(size // order, order), timing=Timing.EACH, picks=picks)
        for size in FIGURE_4_6_SIZES
    ]
    rows = [trace.cycles for trace in open_device(f"sim:{FIGURE_4_6_GPU}?seed=1").run(chases)]
    mean = np.array([float(row.mean()) for row in rows])
    return {"mean load time": mean, "distance": geometric_distance(rows), "angle": geometric_angle(rows)}


def _figures_4_5_and_4_6() -> Iterator[Row]:
    """Where mean and distance rise most, and by how much more than anywhere else (MT22 s4.2.1)."""
    for name, figure, is_far_higher in (("mean load time", "4.5", False), ("distance", "4.6", True)):
        source = f"MT22 fig {figure}, s4.2.1"
        rises = np.diff(reductions()[name])
        size = FIGURE_4_6_SIZES[int(rises.argmax()) + 1] / KIB
        second, first = np.sort(rises)[-2:]
        agrees, texts = (
            abs(size / FIGURE_4_6_SIZE - 1) <= TOLERANCE,
            (f"about {FIGURE_4_6_SIZE} KiB", f"{size:.1f} KiB"),
        )
        what = f"l1: array size at which the {name} rises the most"
        yield Row(Kind.DATA, FIGURE_4_6_GPU, what, *texts, agrees, source, "" if agrees else EARLY)
        agrees = agrees and (first / second >= FAR_HIGHER) == is_far_higher
        texts = "by far" if is_far_higher else "roughly 1", f"{first / second:.2f}"
        what = f"l1: highest over second highest rise of the {name}"
        yield Row(Kind.DATA, FIGURE_4_6_GPU, what, *texts, agrees, source, "" if agrees else EARLY)


def pictures() -> Iterator[tuple[str, str]]:
    """Key and SVG file of both sheets."""
    title = "MT22 figures 4.5 and 4.6: the simulated L1 of the V100"
    yield "4-05", unmeasured(sheet(title, [_reduction(name) for name in reductions()]))
    title = "MT22 figures 4.21 to 4.26: texture cache, disturbance by thread"
    yield "4-21", unmeasured(sheet(title, [_disturbance_figure(gpu) for gpu in FIGURES]))


def _reduction(name: str) -> Figure:
    sizes, unit = list(FIGURE_4_6_SIZES), "rad" if name == "angle" else "cycles"
    marks = [(FIGURE_4_6_SIZE * KIB, "MT22")]
    groups = {"simulated": (sizes, reductions()[name].tolist())}
    return overlay(name, ("size", "B"), (name, unit), groups, Marks.CURVES, marks=marks, log_x=False, log_y=False)


def _disturbance_figure(gpu: str) -> Figure:
    log = LOGS.get(gpu)
    threads = [n for n in range(1, THREADS[gpu]) if n == 1 or n % WARP_SIZE in (0, WARP_SIZE - 1)]
    groups = {"simulated": (threads, [deviations(gpu)[n - 1] for n in threads])}
    if log is not None:
        spreads = [log.disturbed if n // WARP_SIZE % 4 in log.warps else log.rest or log.disturbed for n in threads]
        groups["log, lowest of the group"] = threads, [each.low for each in spreads]
        groups["log, highest of the group"] = threads, [each.high for each in spreads]
    name = f"figure {FIGURES[gpu]}: {gpu}"
    note = "" if log else "the text gives no cycles, and there is no log"
    axes = ("thread", ""), ("deviation", "cycles")
    return overlay(name, *axes, groups, Marks.CURVES, log_x=False, log_y=False, levels=[(0, "")], note=note)
