"""What the traces behind a finding show, as series: whoever doubts a number can look at what it was read from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpudissect.measure.launch.infer_launch import replacement_waits
from gpudissect.results.evidence.laps import by_lap, by_run
from gpudissect.results.evidence.second_words import second_words
from gpudissect.results.evidence.sm_map import sm_map
from gpudissect.results.evidence.tlb_curve import stairs
from gpudissect.results.model import Number, Series
from gpudissect.trace import Trace
from gpudissect.units import WARP_SIZE, format_bytes
from gpudissect.workload import Chase, Explicit, Mix, Path, Stream, Timing, Workload

FEWEST = 3  # rows that make a curve
KINDS = 2  # rows that can be compared where they are of different kinds
EARLIER = "earlier turn"
NUMBERED = ("sm", "peer")  # of which a number is a name: what lies between two of them is nothing
TLBS = ("tlb_l1", "tlb_l2", "tlb_l3")
Kept = Mapping[str, tuple[Workload, Trace]]
Row = dict[str, Number | str | None]


@dataclass(frozen=True)
class Limits:
    """How much is kept of a curve (points), of a map of accesses or of SMs (cells), of a histogram (bars)."""

    points: int
    cells: int
    sm_cells: int
    bars: int


ALL = Limits(points=240, cells=2400, sm_cells=4000, bars=96)
"""Of a page whose traces are at hand: more does not fit beside one another."""


def series_of(element: str, evidence: Sequence[str], kept: Kept, limits: Limits = ALL) -> list[Series]:
    """What is kept of a finding's evidence, as curves, a map of single accesses and a histogram; empty without any."""
    traces = [kept[digest] for digest in dict.fromkeys(evidence) if digest in kept]
    chases = [(chase, trace) for chase, trace in traces if isinstance(chase, Chase)]
    shape = stairs(element, chases) if element in TLBS else sm_map(element, chases, limits.sm_cells)
    mixes = [(mix, trace) for mix, trace in traces if isinstance(mix, Mix)]
    waits = _replacements(element, mixes, limits.bars)
    runs = by_run(element, mixes)
    drawn = {digest for each in (shape, waits, runs) if each is not None for digest in each.evidence}
    curves = []
    for (about, unit), rows in _curves(each for each in traces if each[1].workload not in drawn).items():
        if (curve := _curve(element, about, unit, rows, limits.points)) is not None:
            curves.append(curve)
    drawn = {digest for curve in curves for digest in curve.evidence}
    laps = [each for each in chases if each[0].timing is Timing.LAP and each[1].workload not in drawn]
    singles = [each for each in chases if each[0].timing is Timing.EACH]
    one_by_one = [curve for curve in curves if " by " in curve.name]  # says least: behind what has a shape
    made = [shape, by_lap(element, laps), runs, second_words(element, singles),
            *(curve for curve in curves if curve not in one_by_one), accesses(element, singles, limits.cells),
            *one_by_one, _histogram(element, singles, limits.bars), waits]  # fmt: skip
    return [each for each in made if each is not None]


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
    row: Row = {"path": chase.path.value, "order": type(order).__name__.lower(), EARLIER: _turns(chase)}
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


def _curve(element: str, about: str, unit: str, rows: list[Row], most: int) -> Series | None:
    """Columns that vary, thinned out evenly; None of so few that they make no curve, and are of no two kinds either.

    Where nothing was varied but which lines a ring has, ring by ring.
    """
    evidence = tuple(str(row.pop("")) for row in rows)
    names = list(rows[0])
    measured = names[-1]
    varied = [name for name in names[:-1] if len({row[name] for row in rows}) > 1]
    kinds = any(isinstance(row[name], str) for name in varied for row in rows)
    if len(rows) < (KINDS if kinds else FEWEST):
        return None
    if not varied:
        one = "ring" if " against " in about else "run"
        about, varied = f"{about.partition(' against ')[0]} by {one}", [one]
        rows = [{one: number, **row} for number, row in enumerate(rows)]
    numbers = [name for name in varied if isinstance(rows[0][name], int | float)]
    numbers.sort(key=lambda name: -len({row[name] for row in rows}))  # what varies most goes across
    what, against, across = about.partition(" against ")
    if against and across not in varied:
        first = (numbers or varied)[0]
        about = f"{what} {'against' if numbers and first not in NUMBERED else 'by'} {first}"
    rows = sorted(rows, key=lambda row: [_rank(row[name]) for name in varied])
    rows = rows[:: -(-len(rows) // most)]
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


def accesses(element: str, singles: Sequence[tuple[Chase, Trace]], most: int = ALL.cells) -> Series | None:
    """The cycles of every access of one chase by position and lap, of the one with most laps."""
    several = [(chase, trace) for chase, trace in singles if chase.laps > 1 and chase.timed_per_lap > 1]
    if not several:
        return None
    chase, trace = max(several, key=lambda each: min(each[0].laps, each[0].timed_per_lap))
    across = chase.timed_per_lap
    laps = min(chase.laps, max(2, most // min(across, 80)))
    every = -(-across * laps // most)
    lap, position = np.divmod(np.arange(across * laps), across)
    rank = np.argsort(np.argsort(trace.offsets[:across]))  # neighbours in memory stand side by side
    shown = rank[position] % every == 0
    columns = {"line": rank[position][shown], "lap": lap[shown], "latency": trace.cycles[: across * laps][shown]}
    return Series(
        element=element, name=f"latency by line and lap, {chase.path.value}, {format_bytes(chase.order.span)}",
        columns={name: tuple(column.tolist()) for name, column in columns.items()},
        units={"latency": "cycles"}, evidence=(trace.workload,),
    )  # fmt: skip


def _histogram(element: str, singles: Sequence[tuple[Chase, Trace]], most: int) -> Series | None:
    """How often each latency was seen over all accesses that were timed by themselves; by path."""
    by_path: dict[str, list[np.ndarray]] = defaultdict(list)
    for chase, trace in singles:
        by_path[chase.path.value].append(trace.cycles)
    pooled = {path: np.concatenate(parts) for path, parts in by_path.items()}
    if not pooled or max(each.size for each in pooled.values()) < 8:
        return None
    rows = _binned(pooled, most)
    columns: dict[str, tuple[Number | str | None, ...]] = {}
    if len(pooled) > 1:
        columns["path"] = tuple(row[0] for row in rows)
    columns |= {"cycles": tuple(row[1] for row in rows), "accesses": tuple(row[2] for row in rows)}
    evidence = tuple(trace.workload for _, trace in singles)
    return Series(element=element, name="histogram of single latencies", columns=columns,
                  units={"cycles": "cycles"}, evidence=evidence)  # fmt: skip


def _binned(pooled: Mapping[str, np.ndarray], most: int) -> list[tuple[str, int, int]]:
    """How often each number of cycles was seen, of each name; in at most so many bins, less the last half percent."""
    low, high = np.percentile(np.concatenate(list(pooled.values())), (0, 99.5))
    width = max(1, -(-int(high - low + 1) // most))
    rows: list[tuple[str, int, int]] = []
    for name, values in pooled.items():
        binned = Counter(((values[values <= high] - int(low)) // width).tolist())
        rows += [(name, int(low) + place * width, binned[place]) for place in sorted(binned)]
    return rows


def _replacements(element: str, mixes: Sequence[tuple[Mix, Trace]], most: int) -> Series | None:
    """How often a block waited so long for the place of another, of blocks more than an SM runs at once."""
    waits: list[np.ndarray] = []
    for mix, trace in mixes:
        if mix.waves > 1 and mix.block_size and "block" in trace.arrays:
            at_once = max(1, WARP_SIZE * mix.warps // mix.block_size)
            waits.append(replacement_waits(trace.begin, trace.end, trace.sm, trace.block, at_once))
    together = np.concatenate(waits) if waits else np.empty(0, np.int64)
    if element != "launch" or together.size < 8:
        return None
    rows = _binned({"": together}, most)
    columns: dict[str, tuple[Number | str | None, ...]] = {
        "cycles": tuple(row[1] for row in rows), "blocks": tuple(row[2] for row in rows)
    }  # fmt: skip
    return Series(element=element, name="histogram of waits for a block's place", columns=columns,
                  units={"cycles": "cycles"}, evidence=tuple(trace.workload for _, trace in mixes))  # fmt: skip


def _short(value: Number | str | None) -> Number | str | None:
    return float(f"{value:.6g}") if isinstance(value, float) else value
