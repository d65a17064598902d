"""Series with a shape of their own: latency by lap and by run, second accesses, maps of an L2, curves of TLBs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.cache.infer_l2_partitions import MIN_SMS, LatencyMap, fit_additive
from gpudissect.measure.instructions.infer_issue import median_duration
from gpudissect.results.model import Number, Series
from gpudissect.trace import Trace
from gpudissect.workload import Chase, Explicit, Mix, Order, Timing
from gpudissect.workload.order import narrowed

SECOND_ACCESS = "latency of a second access against distance"
MIN_LAPS, MAX_LAPS = 8, 200
MIN_RUNS = 3
MIN_DISTANCES = 3
MAX_DISTANCE = 4096  # bytes; pairs of accesses lie within a block of this size
MIN_PAGE_BITS = 12  # 4 KiB, the smallest page of any GPU
MAX_PAGE_BITS = 40
MIN_PAGE_COUNTS = 3  # of a curve of a TLB
MAX_CURVES = 8  # that a reader can distinguish
TRIM_PERCENT = 99  # of the accesses count: the rest is delayed by refreshes of the memory
QUARTILE = 0.25
Chases = Sequence[tuple[Chase, Trace]]
Mixes = Sequence[tuple[Mix, Trace]]
Column = tuple[Number | str | None, ...]


def latency_by_lap(element: str, laps: Chases) -> Series | None:
    """Cycles of a load in each lap of the longest chain, less the laps of a shorter chain (`measure.infer_latency`).

    The difference excludes what a lap costs besides its loads. Without a shorter chain that cost is included. None of
    too few laps.
    """
    if not laps:
        return None
    chase, trace = max(laps, key=lambda each: (each[0].order.count, each[0].laps))
    if trace.cycles.size < MIN_LAPS:
        return None
    loads, base, evidence = chase.order.count, 0.0, [trace.workload]
    shorter = [each for each in laps if each[0].path is chase.path and each[0].order.count < chase.order.count]
    if shorter:
        other, other_trace = max(shorter, key=lambda each: each[0].order.count)
        loads -= other.order.count
        base = float(np.quantile(other_trace.cycles, QUARTILE))
        evidence.append(other_trace.workload)
    latencies = [round(each, 3) for each in ((trace.cycles - base) / loads)[:MAX_LAPS].tolist()]
    columns = {"lap": range(len(latencies)), "latency": latencies}
    return make_series(element, "latency of a load by lap", columns, evidence)


def latency_by_run(element: str, mixes: Mixes) -> Series | None:
    """Cycles of an instruction in each run of the longer of two chains of one warp, less the shorter one.

    None unless all mixes are one warp with one chain, of two lengths, several runs each.
    """
    durations: dict[int, list[float]] = {}
    for mix, trace in (each for each in mixes if not each[0].per_sm):
        durations.setdefault(mix.instructions, []).append(float(round(median_duration(trace.begin, trace.end))))
    single = all((mix.warps, mix.ilp) == (1, 1) for mix, _ in mixes)
    if not single or len(durations) != 2 or min(map(len, durations.values())) < MIN_RUNS:
        return None
    short, long = sorted(durations)
    base = np.quantile(durations[short], QUARTILE)
    latencies = [round(each, 4) for each in ((np.array(durations[long]) - base) / (long - short)).tolist()]
    columns = {"run": range(len(latencies)), "latency": latencies}
    return make_series(element, "latency of an instruction by run", columns, [trace.workload for _, trace in mixes])


def second_access(element: str, singles: Chases) -> Series | None:
    """Median latency of second accesses by distance from a first, cold access, behind it and before it.

    Data fetched with the first access is fast to reach, so the distance at which latency rises is the fetch
    granularity. None unless a chase visits every word once and cold, in pairs.
    """
    for chase, trace in singles:
        if not isinstance(chase.order, Explicit) or chase.picks is not None or chase.laps > 1 or not chase.flush:
            continue
        if trace.offsets.size % 2:
            continue
        difference, latencies = trace.offsets[1::2] - trace.offsets[0::2], trace.cycles[1::2]
        distances = np.unique(np.abs(difference))
        if distances.size < MIN_DISTANCES or distances[0] < 1 or distances[-1] >= MAX_DISTANCE:
            continue
        rows = [
            (side, int(distance), float(np.median(latencies[difference == sign * distance])))
            for side, sign in (("behind", 1), ("before", -1))
            for distance in distances
            if np.any(difference == sign * distance)
        ]
        columns = dict(zip(("side", "distance", "latency"), zip(*rows, strict=True), strict=True))
        return make_series(element, SECOND_ACCESS, columns, [trace.workload], distance="B")
    return None


def sm_map(element: str, chases: Chases, max_cells: int) -> Series | None:
    """Cycles of a hit by SM and line, timer included, of the chain that most SMs visited; None of too few SMs.

    Lines are sorted by what SMs add to them beyond what each SM and each line adds by itself, so that lines of one
    slice or partition stand together; thinned out evenly to `max_cells`.
    """
    by_chain: dict[Order, dict[int, tuple[Chase, Trace]]] = defaultdict(dict)
    for chase, trace in chases:
        if chase.timing is Timing.EACH and chase.sm is not None and chase.laps > 1 and chase.picks is None:
            by_chain[chase.order].setdefault(chase.sm, (chase, trace))
    visits = max(by_chain.values(), key=len, default={})
    if len(visits) < MIN_SMS or len({(chase.laps, chase.order.count) for chase, _ in visits.values()}) > 1:
        return None
    sms = sorted(visits)
    hits = LatencyMap.from_laps([visits[sm][1].cycles.reshape(visits[sm][0].laps, -1) for sm in sms]).hits
    residual = fit_additive(hits).residual
    leading = np.linalg.eigh(residual @ residual.T).eigenvectors[:, -1]  # singular vector over the SMs
    order = np.argsort((leading if leading[0] >= 0 else -leading) @ residual, kind="stable")
    lines = order[:: -(-hits.size // max_cells)]
    columns = {
        "sm": np.repeat(sms, lines.size),
        "line": np.tile(np.arange(lines.size), len(sms)),
        "latency": hits[:, lines].ravel(),
    }
    evidence = dict.fromkeys(visits[sm][1].workload for sm in sms)
    return make_series(element, "hit latency by sm and line", columns, evidence)


def tlb_curve(element: str, chases: Chases) -> Series | None:
    """Mean latency against pages, a curve for each distance between pages (MC16 s5.2).

    Chains count if each of their lines lies in its own page; chains of equally many pages are averaged. None without a
    distance at which several numbers of pages were visited.
    """
    by_distance: dict[int, list[tuple[int, Trace]]] = defaultdict(list)
    for chase, trace in chases:
        if isinstance(chase.order, Explicit) and chase.timing is Timing.EACH and chase.order.count > 1:
            by_distance[_page_distance(chase.order.sequence)].append((chase.order.count, trace))
    by_distance.pop(0, None)
    counts = {distance: len({pages for pages, _ in chains}) for distance, chains in by_distance.items()}
    enough = [distance for distance in by_distance if counts[distance] >= MIN_PAGE_COUNTS]
    chosen = sorted(enough, key=lambda distance: -counts[distance])[:MAX_CURVES]
    rows = []
    for distance in sorted(chosen):
        by_pages: dict[int, list[float]] = defaultdict(list)
        for pages, trace in by_distance[distance]:
            by_pages[pages].append(trimmed_mean(trace.cycles))
        rows += [(distance, pages, round(float(np.mean(means)), 1)) for pages, means in sorted(by_pages.items())]
    if not rows:
        return None
    columns = dict(zip(("distance", "pages", "latency"), zip(*rows, strict=True), strict=True))
    evidence = dict.fromkeys(trace.workload for distance in chosen for _, trace in by_distance[distance])
    return make_series(element, "latency against pages", columns, evidence, distance="B")


def trimmed_mean(cycles: NDArray[np.int64]) -> float:
    """Mean of the fastest `TRIM_PERCENT` percent."""
    ordered = np.sort(narrowed(cycles), kind="stable")  # by radix, where the type is narrow
    return float(np.mean(ordered[: max(1, cycles.size * TRIM_PERCENT // 100)]))


def _page_distance(offsets: NDArray[np.integer[Any]]) -> int:
    """The largest power of two of bytes in which no two lines lie together; 0 below the smallest page."""
    ordered = np.sort(offsets)
    bit = int((ordered[1:] ^ ordered[:-1]).min()).bit_length() - 1  # of two neighbours, in the same page below it
    return 1 << min(bit, MAX_PAGE_BITS - 1) if bit >= MIN_PAGE_BITS else 0


def make_series(element: str, name: str, columns: Mapping[str, Any], evidence: Iterable[str], **units: str) -> Series:
    """A series of arrays or sequences; latencies are in cycles."""
    plain = {column: tuple(np.asarray(data).tolist()) for column, data in columns.items()}
    units |= {column: "cycles" for column in ("latency", "cycles") if column in columns}
    return Series(element=element, name=name, columns=plain, units=units, evidence=tuple(evidence))
