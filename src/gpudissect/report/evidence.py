"""What the traces behind a finding show, as series: whoever doubts a number can look at what it was read from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gpudissect.report.result import Number, Series
from gpudissect.report.sm_map import sm_map
from gpudissect.report.stairs import stairs
from gpudissect.trace import Trace
from gpudissect.units import format_bytes
from gpudissect.workload import Chase, Explicit, Mix, Path, Stream, Timing, Workload

MOST_POINTS = 240  # of a curve: more do not fit beside one another
FEWEST = 3
MOST_CELLS = 2400  # of a map of accesses
MOST_BARS = 96  # of a histogram
TLBS = ("tlb_l1", "tlb_l2", "tlb_l3")
Kept = Mapping[str, tuple[Workload, Trace]]
Row = dict[str, Number | str | None]


def series_of(element: str, evidence: Sequence[str], kept: Kept) -> list[Series]:
    """What is kept of a finding's evidence, as curves, a map of single accesses and a histogram; empty without any."""
    traces = [kept[digest] for digest in dict.fromkeys(evidence) if digest in kept]
    chases = [(chase, trace) for chase, trace in traces if isinstance(chase, Chase)]
    shape, rest = stairs(element, chases) if element in TLBS else sm_map(element, chases)
    made = [shape] if shape is not None else []
    traces = [*rest, *(each for each in traces if not isinstance(each[0], Chase))]
    for (about, unit), rows in _curves(traces).items():
        if (curve := _curve(element, about, unit, rows)) is not None:
            made.append(curve)
    singles = [(chase, trace) for chase, trace in chases if chase.timing is Timing.EACH]
    made += [each for each in (accesses(element, singles), _histogram(element, singles)) if each is not None]
    return made


def _curves(traces: Iterable[tuple[Workload, Trace]]) -> dict[tuple[str, str], list[Row]]:
    """Rows of what can be seen together, by what is measured and its unit."""
    rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for workload, trace in traces:
        if isinstance(workload, Chase):
            about, unit, row = _of_chase(workload, trace)
        elif isinstance(workload, Stream):
            about, unit, row = _of_stream(workload, trace)
        elif isinstance(workload, Mix):
            about, unit, row = _of_mix(workload, trace)
        else:
            continue
        rows[about, unit].append({**row, "": trace.workload})
    return rows


def _of_chase(chase: Chase, trace: Trace) -> tuple[str, str, Row]:
    order = chase.order
    row: Row = {"path": chase.path.value, "order": type(order).__name__.lower(), "before": _turns(chase)}
    row |= {"sm": chase.sm, "peer": chase.peer if chase.path is Path.CLUSTER else None}
    if isinstance(order, Explicit):
        across, row["lines"] = "lines", order.count
    else:
        across, row["footprint"], row["stride"] = "footprint", order.count * order.stride, order.stride
    if chase.timing is Timing.COUNT:
        hits, misses, _ = (int(each) for each in trace.counts.sum(axis=0))
        share = 100 * misses / (hits + misses) if hits + misses else None
        return f"misses against {across}", "%", {**row, "misses": share}
    if chase.timing is Timing.EACH:
        cycles = float(np.mean(np.sort(trace.cycles)[: max(1, trace.cycles.size * 99 // 100)]))
        return f"mean of single latencies against {across}", "cycles", {**row, "latency": cycles}
    cycles = float(np.median(trace.cycles)) / order.count
    return f"latency against {across}", "cycles", {**row, "latency": cycles}


def _of_stream(stream: Stream, trace: Trace) -> tuple[str, str, Row]:
    rate = float(np.median(trace.bytes / np.maximum(trace.nanoseconds, 1))) * 1e9
    row: Row = {name: getattr(stream, name) for name in ("footprint", "blocks", "threads", "ilp", "width")}
    return f"{stream.transfer.value} bandwidth", "B/s", {"path": stream.path.value, **row, "bandwidth": rate}


def _of_mix(mix: Mix, trace: Trace) -> tuple[str, str, Row]:
    cycles = float(np.median(trace.end - trace.begin)) / mix.instructions
    row: Row = {"warps": mix.warps, "chains": mix.ilp, "stride": mix.stride, "width": mix.width}
    body = ", ".join(f"{step.instruction}:{step.count}" for step in mix.body)
    return "time of an instruction", "cycles", {**row, "body": body, "time": cycles}


def _turns(chase: Chase) -> str:
    return ", ".join(f"{turn.path.value} warp {turn.warp} SM {turn.sm}" for turn in chase.before[:2]) or "nobody"


def _curve(element: str, about: str, unit: str, rows: list[Row]) -> Series | None:
    """Columns that vary, thinned out evenly; None where nothing was varied, or only once."""
    evidence = tuple(str(row.pop("")) for row in rows)
    names = list(rows[0])
    measured = names[-1]
    varied = [name for name in names[:-1] if len({row[name] for row in rows}) > 1]
    if not varied or len(rows) < FEWEST:
        return None
    numbers = [name for name in varied if isinstance(rows[0][name], int | float)]
    what, against, across = about.partition(" against ")
    if against and across not in varied and numbers:
        about = f"{what} against {numbers[0]}"
    rows = sorted(rows, key=lambda row: [_rank(row[name]) for name in varied])
    rows = rows[:: -(-len(rows) // MOST_POINTS)]
    columns = {name: tuple(_short(row[name]) for row in rows) for name in (*varied, measured)}
    units = {measured: unit} | {name: "B" for name in ("footprint", "stride", "width") if name in varied}
    if about.startswith("time of"):
        units.pop("stride", None)  # in words there
    return Series(element=element, name=about, columns=columns, units=units, evidence=evidence)


def _rank(value: Number | str | None) -> tuple[float, str]:
    """Where a value stands among others of its column: numbers by size, then texts, then what there is not."""
    if value is None:
        return float("inf"), "~"
    return (float("inf"), value) if isinstance(value, str) else (float(value), "")


def accesses(element: str, singles: Sequence[tuple[Chase, Trace]]) -> Series | None:
    """The cycles of every access of one chase by position and lap, of the one with most laps."""
    several = [(chase, trace) for chase, trace in singles if chase.laps > 1 and chase.timed_per_lap > 1]
    if not several:
        return None
    chase, trace = max(several, key=lambda each: min(each[0].laps, each[0].timed_per_lap))
    across = chase.timed_per_lap
    laps = min(chase.laps, max(2, MOST_CELLS // min(across, 80)))
    every = -(-across * laps // MOST_CELLS)
    lap, position = np.divmod(np.arange(across * laps), across)
    rank = np.argsort(np.argsort(trace.offsets[:across]))  # neighbours in memory stand side by side
    shown = rank[position] % every == 0
    columns = {"line": rank[position][shown], "lap": lap[shown], "latency": trace.cycles[: across * laps][shown]}
    return Series(
        element=element, name=f"latency by line and lap, {chase.path.value}, {format_bytes(chase.order.span)}",
        columns={name: tuple(column.tolist()) for name, column in columns.items()},
        units={"latency": "cycles"}, evidence=(trace.workload,),
    )  # fmt: skip


def _histogram(element: str, singles: Sequence[tuple[Chase, Trace]]) -> Series | None:
    """How often each latency was seen over all accesses that were timed by themselves; by path."""
    by_path: dict[str, list[np.ndarray]] = defaultdict(list)
    for chase, trace in singles:
        by_path[chase.path.value].append(trace.cycles)
    pooled = {path: np.concatenate(parts) for path, parts in by_path.items()}
    if not pooled or max(each.size for each in pooled.values()) < 8:
        return None
    together = np.concatenate(list(pooled.values()))
    low, high = np.percentile(together, (0, 99.5))
    width = max(1, -(-int(high - low + 1) // MOST_BARS))
    paths: list[str] = []
    cycles: list[int] = []
    counts: list[int] = []
    for path, values in pooled.items():
        binned = Counter(((values[values <= high] - int(low)) // width).tolist())
        for place in sorted(binned):
            paths.append(path)
            cycles.append(int(low) + place * width)
            counts.append(binned[place])
    columns: dict[str, tuple[Number | str | None, ...]] = {}
    if len(pooled) > 1:
        columns["path"] = tuple(paths)
    columns |= {"cycles": tuple(cycles), "accesses": tuple(counts)}
    evidence = tuple(trace.workload for _, trace in singles)
    return Series(element=element, name="histogram of single latencies", columns=columns,
                  units={"cycles": "cycles"}, evidence=evidence)  # fmt: skip


def _short(value: Number | str | None) -> Number | str | None:
    return float(f"{value:.6g}") if isinstance(value, float) else value
