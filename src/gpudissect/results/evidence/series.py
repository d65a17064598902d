"""Series of the traces behind a finding: curves, maps of single accesses and histograms."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from gpudissect.estimate import Status
from gpudissect.measure.launch.infer_launch import replacement_waits
from gpudissect.results.evidence import shapes
from gpudissect.results.evidence.shapes import SECOND_ACCESS, Chases, Column, Mixes, make_series
from gpudissect.results.model import Number, Result, Series
from gpudissect.trace import Trace
from gpudissect.units import WARP_SIZE, format_bytes
from gpudissect.workload import Chase, Explicit, Mix, Path, Stream, Timing, Workload

MIN_ROWS = 3  # of a curve
MIN_KINDS = 2  # rows of a curve whose rows are of different kinds
MIN_SAMPLES = 8  # of a histogram
MAX_MAP_WIDTH = 80  # lines of a map that are counted to choose the number of laps
PERCENTILE_SHOWN = 99.5  # of latencies in a histogram
PRIOR_ACCESSES = "prior accesses"
IDENTIFIERS = ("sm", "peer")  # numbers without an order
_UNITS = {"misses": "%", "bandwidth": "B/s", "latency": "cycles", "time": "cycles"}
_UNITS |= dict.fromkeys(("footprint", "stride", "width"), "B")
Traces = Mapping[str, tuple[Workload, Trace]]
Row = dict[str, Number | str | None]
SHOWS_ONLY = {SECOND_ACCESS: ("fetch_granularity", "line_size")}
"""Series that show these attributes only; other findings that rest on the same traces are not read from them."""


@dataclass(frozen=True)
class Limits:
    """Size of a curve (points), of a map of accesses or of SMs (cells), of a histogram (bars)."""

    points: int
    cells: int
    sm_cells: int
    bars: int


PAGE_LIMITS = Limits(points=240, cells=2400, sm_cells=4000, bars=96)
"""Of a page that is made with the traces: more does not fit side by side."""


def series_of(element: str, evidence: Sequence[str], traces: Traces, limits: Limits = PAGE_LIMITS) -> list[Series]:
    """Series of the traces of a finding that are there, the most informative first; empty without any."""
    present = [traces[digest] for digest in dict.fromkeys(evidence) if digest in traces]
    chases = [(chase, trace) for chase, trace in present if isinstance(chase, Chase)]
    mixes = [(mix, trace) for mix, trace in present if isinstance(mix, Mix)]
    if element.startswith("tlb_"):
        shape = shapes.tlb_curve(element, chases)
    else:
        shape = shapes.sm_map(element, chases, limits.sm_cells)
    runs = shapes.latency_by_run(element, mixes)
    waits = _replacement_histogram(element, mixes, limits.bars)
    used = {digest for each in (shape, waits, runs) if each is not None for digest in each.evidence}
    curves = _curves(element, [each for each in present if each[1].workload not in used], limits.points)
    used = {digest for curve in curves for digest in curve.evidence}
    laps = [each for each in chases if each[0].timing is Timing.LAP and each[1].workload not in used]
    singles = [each for each in chases if each[0].timing is Timing.EACH]
    lists = [curve for curve in curves if " by " in curve.name]  # without a shape, the least informative
    found = [
        shape,
        shapes.latency_by_lap(element, laps),
        runs,
        shapes.second_access(element, singles),
        *(curve for curve in curves if curve not in lists),
        access_map(element, singles, limits.cells),
        *lists,
        _latency_histogram(element, singles, limits.bars),
        waits,
    ]
    return [each for each in found if each is not None]


def access_map(element: str, singles: Chases, max_cells: int = PAGE_LIMITS.cells) -> Series | None:
    """Cycles of every access by line and lap, of the chase with most laps; None without several laps."""
    several = [(chase, trace) for chase, trace in singles if chase.laps > 1 and chase.timed_per_lap > 1]
    if not several:
        return None
    chase, trace = max(several, key=lambda each: min(each[0].laps, each[0].timed_per_lap))
    lines = chase.timed_per_lap
    laps = min(chase.laps, max(2, max_cells // min(lines, MAX_MAP_WIDTH)))
    step = -(-lines * laps // max_cells)
    lap, position = np.divmod(np.arange(lines * laps), lines)
    line = np.argsort(np.argsort(trace.offsets[:lines]))[position]  # neighbours in memory are side by side
    shown = line % step == 0
    columns = {"line": line[shown], "lap": lap[shown], "latency": trace.cycles[: lines * laps][shown]}
    name = f"latency by line and lap, {chase.path.value}, {format_bytes(chase.order.span)}"
    return make_series(element, name, columns, [trace.workload])


def _curves(element: str, traces: Iterable[tuple[Workload, Trace]], max_points: int) -> list[Series]:
    """A curve for each quantity that the traces measure, where they are enough for one."""
    rows: dict[str, list[tuple[str, Row]]] = defaultdict(list)  # by quantity, with digests
    for workload, trace in traces:
        if (found := _measure(workload, trace)) is not None:
            rows[found[0]].append((trace.workload, found[1]))
    curves = [_curve(element, quantity, found, max_points) for quantity, found in rows.items()]
    return [curve for curve in curves if curve is not None]


def _measure(workload: Workload, trace: Trace) -> tuple[str, Row] | None:
    """The quantity that a trace measures, and a row with the parameters of the workload and the value, last."""
    if isinstance(workload, Stream):
        rate = float(np.median(trace.bytes / np.maximum(trace.nanoseconds, 1))) * 1e9
        row: Row = {name: getattr(workload, name) for name in ("footprint", "blocks", "threads", "ilp", "width")}
        return f"{workload.transfer.value} bandwidth", {"path": workload.path.value, **row, "bandwidth": rate}
    if isinstance(workload, Mix):
        row = {"warps": workload.warps, "chains": workload.ilp, "stride": workload.stride, "width": workload.width}
        row["body"] = ", ".join(f"{step.instruction}:{step.count}" for step in workload.body)
        durations = trace.arrays["duration"] / trace.arrays["warps"] if workload.per_sm else trace.end - trace.begin
        row["time"] = float(np.median(durations)) / workload.instructions
        return "time of an instruction", row
    return _measure_chase(workload, trace) if isinstance(workload, Chase) else None


def _measure_chase(chase: Chase, trace: Trace) -> tuple[str, Row]:
    order = chase.order
    prior = [f"{each.path.value} warp {each.warp} SM {each.sm}" for each in chase.before[:2]]
    row: Row = {"path": chase.path.value, "order": type(order).__name__.lower()}
    row |= {PRIOR_ACCESSES: ", ".join(prior) or "none", "sm": chase.sm}
    row["peer"] = chase.peer if chase.path is Path.CLUSTER else None
    if isinstance(order, Explicit):
        size, row["lines"] = "lines", order.count
    else:
        size, row["footprint"], row["stride"] = "footprint", order.count * order.stride, order.stride
    if chase.timing is Timing.COUNT:
        hits, misses, _ = (int(each) for each in trace.counts.sum(axis=0))
        row["misses"] = 100 * misses / (hits + misses) if hits + misses else None
        return f"misses against {size}", row
    if chase.timing is Timing.EACH:
        return f"mean access latency against {size}", row | {"latency": shapes.trimmed_mean(trace.cycles)}
    return f"latency against {size}", row | {"latency": float(np.median(trace.cycles)) / order.count}


def _curve(element: str, quantity: str, traces: Sequence[tuple[str, Row]], max_points: int) -> Series | None:
    """The parameters that vary and the quantity, thinned out evenly; None of too few rows.

    Where only the lines that a chain visits vary: whole laps chain by chain, nothing for single accesses.
    """
    rows = [row for _, row in traces]
    *parameters, measured = rows[0]
    varied = [name for name in parameters if len({row[name] for row in rows}) > 1]
    kinds = any(isinstance(row[name], str) for name in varied for row in rows)
    if len(rows) < (MIN_KINDS if kinds else MIN_ROWS):
        return None
    if not varied:
        name, against, _ = quantity.partition(" against ")
        if against and name != "latency":
            return None
        number = "chain" if against else "run"
        quantity, varied = f"{name} by {number}", [number]
        rows = [{number: n, **row} for n, row in enumerate(rows)]
    name, against, size = quantity.partition(" against ")
    if against and size not in varied:
        numeric = [each for each in varied if isinstance(rows[0][each], int | float)]
        across = max(numeric or varied[:1], key=lambda each: len({row[each] for row in rows}))  # what varies most
        quantity = f"{name} {'against' if numeric and across not in IDENTIFIERS else 'by'} {across}"
    rows = sorted(rows, key=lambda row: [_sort_key(row[name]) for name in varied])
    rows = rows[:: -(-len(rows) // max_points)]
    columns = {name: tuple(_short(row[name]) for row in rows) for name in (*varied, measured)}
    units = {name: _UNITS[name] for name in columns if name in _UNITS}
    if measured == "time":
        units.pop("stride", None)  # in words
    evidence = tuple(digest for digest, _ in traces)
    return Series(element=element, name=quantity, columns=columns, units=units, evidence=evidence)


def _sort_key(value: Number | str | None) -> tuple[float, str]:
    """Numbers by size, then texts, then missing values."""
    if value is None:
        return float("inf"), "~"
    return (float("inf"), value) if isinstance(value, str) else (float(value), "")


def _short(value: Number | str | None) -> Number | str | None:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _latency_histogram(element: str, singles: Chases, max_bars: int) -> Series | None:
    """Histogram of all accesses that were timed one by one, by path."""
    by_path: dict[str, list[np.ndarray]] = defaultdict(list)
    for chase, trace in singles:
        by_path[chase.path.value].append(trace.cycles)
    samples = {path: np.concatenate(parts) for path, parts in by_path.items()}
    if max((each.size for each in samples.values()), default=0) < MIN_SAMPLES:
        return None
    columns = _bin(samples, max_bars, ("path", "cycles", "accesses"))
    if len(samples) == 1:
        del columns["path"]
    return make_series(element, "histogram of access latencies", columns, [trace.workload for _, trace in singles])


def _replacement_histogram(element: str, mixes: Mixes, max_bars: int) -> Series | None:
    """Histogram of the cycles from the end of a block to the start of the block in its place."""
    waits: list[np.ndarray] = [np.empty(0, np.int64)]
    for mix, trace in mixes if element == "launch" else ():
        if mix.waves > 1 and mix.block_size and "block" in trace.arrays:
            resident = max(1, WARP_SIZE * mix.warps // mix.block_size)
            waits.append(replacement_waits(trace.begin, trace.end, trace.sm, trace.block, resident))
    samples = np.concatenate(waits)
    if samples.size < MIN_SAMPLES:
        return None
    columns = _bin({"": samples}, max_bars, ("", "cycles", "blocks"))
    del columns[""]
    return make_series(element, "histogram of block replacement times", columns, [trace.workload for _, trace in mixes])


def _bin(samples: Mapping[str, np.ndarray], max_bars: int, names: Sequence[str]) -> dict[str, Column]:
    """Columns with name, first cycle and number of samples of each bin, without the longest half percent."""
    low, high = np.percentile(np.concatenate(list(samples.values())), (0, PERCENTILE_SHOWN))
    width = max(1, -(-int(high - low + 1) // max_bars))
    rows: list[tuple[str, int, int]] = []
    for name, values in samples.items():
        counts = np.bincount((values[values <= high] - int(low)) // width).tolist()
        rows += [(name, int(low) + place * width, count) for place, count in enumerate(counts) if count]
    return dict(zip(names, zip(*rows, strict=True), strict=True))


FILE_LIMITS = Limits(points=48, cells=400, sm_cells=1056, bars=40)
"""Of a result file: a few hundred bytes to a few kilobytes each; of 132 SMs eight lines."""


def with_evidence(result: Result, traces: Traces, limits: Limits = FILE_LIMITS) -> Result:
    """The result with thinned series of findings whose evidence no series of their experiment shows.

    Series that show mostly the same traces are left out. Series that were added before are replaced.
    """
    if not traces:
        return result
    measured = [series for series in result.series if not series.shows]
    shown: dict[str, set[str]] = defaultdict(set)  # digests behind the experiments' own series of each element
    for series in measured:
        shown[series.element].update(series.evidence)
    findings: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)  # attributes with the same evidence
    for finding in result.findings:
        if finding.status is Status.FOUND and finding.evidence:
            findings[finding.element, finding.evidence].append(finding.attribute)
    added: list[Series] = []
    by_kind: dict[tuple[str, str], set[str]] = defaultdict(set)  # digests behind each kind of added series
    special = {attribute for attributes in SHOWS_ONLY.values() for attribute in attributes}
    for (element, evidence), attributes in findings.items():
        if _overlaps(evidence, shown[element]) and special.isdisjoint(attributes):
            continue
        for series in series_of(element, evidence, traces, limits):
            only = SHOWS_ONLY.get(series.name)
            shows = tuple(each for each in attributes if only is None or each in only)
            kind = by_kind[element, series.name.split(",")[0]]
            if shows and not _overlaps(series.evidence, kind if only else kind | shown[element]):
                kind.update(series.evidence)
                added.append(series.model_copy(update={"evidence": (), "shows": shows}))
    return result.model_copy(update={"series": (*measured, *added)})


def _overlaps(evidence: Sequence[str], shown: Set[str]) -> bool:
    """Whether most of the evidence is shown already."""
    return 2 * len(shown & set(evidence)) > len(evidence)
