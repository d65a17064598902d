"""Pictures that explain attributes, each from a few workloads on a simulated GPU with a fixed noise seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
import vv16

from gpudissect.catalogue import load
from gpudissect.catalogue.compute_capability import MAX_SM_THREADS
from gpudissect.device.kinds import open_device
from gpudissect.models import by_key
from gpudissect.models.base import Loop
from gpudissect.simulation.cache.models import CacheModel
from gpudissect.survey.run import Survey, run_survey
from gpudissect.trace import Trace
from gpudissect.views.plots.figure import Figure, Kind, overlay
from gpudissect.workload import (
    Access,
    Chase,
    Explicit,
    Instruction,
    Mix,
    Path,
    PriorAccesses,
    Sequential,
    Shuffled,
    Step,
    Timing,
    Workload,
)
from making.result_page import result_of

KIB, MIB = 1 << 10, 1 << 20
MISS_CYCLES = 150  # on the GTX 980 and the GTX 560 Ti: a hit in an L1 takes fewer cycles, one in the L2 more
CYCLES = ("latency", "cycles")
HIDING_MODELS = {"refined": "VV16", "hong-kim": "Hong, Kim", "agarwal": "Agarwal"}


def _run(spec: str, workloads: Sequence[Workload]) -> list[Trace]:
    with open_device(f"sim:{spec}") as device:
        return device.run(workloads)


def _each(order: Sequential | Shuffled | Explicit, path: Path = Path.GLOBAL, **options: object) -> Chase:
    return Chase(path=path, order=order, timing=Timing.EACH, **options)  # type: ignore[arg-type]


@cache
def _survey(spec: str, element: str, quick: bool = False) -> Survey:
    with open_device(f"sim:{spec}") as device:
        return run_survey(device, elements=[element], quick=quick)


def _columns(survey: Survey, name: str) -> dict[str, np.ndarray]:
    series = next(each for each in survey.series if each.name == name)
    return {column: np.array(values) for column, values in series.columns.items()}


def capacity() -> Figure:
    lines = np.arange(16, 33) * 32
    traces = _run("gtx980", [_each(Shuffled(int(count), 32, 1), warmup=2, laps=2) for count in lines])
    misses = [100 * np.mean(trace.cycles > MISS_CYCLES) for trace in traces]
    title = "Share of accesses that miss against the footprint: zero up to 24 KiB, all from 25 KiB on"
    marks = [(24 * KIB, "24 KiB: last footprint without a miss")]
    return overlay(title, ("footprint", "B"), ("misses", "%"), {"L1": (lines * 32, misses)}, marks=marks)


def line() -> Figure:
    distances = np.arange(8, 264, 8)
    first = np.arange(8)[:, None] * 4096
    pairs = [Explicit((first + np.array([0, int(distance)])).ravel()) for distance in distances]
    traces = _run("v100", [_each(pair, warmup=0, flush=True, alone=True) for pair in pairs])
    title = "Latency of a second access against its distance from the first"
    median = [np.median(trace.cycles[1::2]) for trace in traces]
    marks = [(32, "32 B: fetched by one miss of the L1")]
    return overlay(title, ("distance", "B"), CYCLES, {"median of eight": (distances, median)}, marks=marks)


def latency() -> Figure:
    sizes = [round(2 ** (power / 4)) * KIB for power in range(8, 53)]
    orders = [Shuffled(size // 32, 32, 1) for size in sizes]
    chases = [Chase(path=Path.GLOBAL, order=order, timing=Timing.LAP, alone=True) for order in orders]
    cycles = [trace.cycles.mean() / order.count for trace, order in zip(_run("gtx980", chases), orders, strict=True)]
    title = "Latency of a load against the footprint: three levels"
    marks = [(24 * KIB, "L1: 24 KiB"), (2 * MIB, "L2: 2 MiB")]
    return overlay(title, ("footprint", "B"), CYCLES, {"GTX 980": (sizes, cycles)}, marks=marks)


def sets() -> Figure:
    """One full set, and whether each other line conflicts with it."""
    line_size, per_row = 128, 32
    full = [0, 8320, 16640, 24960]  # of set 0 by the bits of MC16 fig 11: 7^13, 8^14, 9, 10, 11
    others = [n for n in range(1, 257) if n * line_size not in full]
    traces = _run("gtx560ti", [_each(Explicit(np.array([*full, n * line_size])), warmup=4, laps=8) for n in others])
    rate = {offset // line_size: 2.0 for offset in full} | {
        n: float(np.mean(trace.cycles > MISS_CYCLES) > 0.02) for n, trace in zip(others, traces, strict=True)
    }
    lines = range(256)
    columns = {
        "line within 4 KiB": tuple(n % per_row for n in lines),
        "row": tuple(n // per_row for n in lines),
        "0: fits, 1: misses, 2: the full set": tuple(rate.get(n) for n in lines),
    }
    x, row, colour = columns
    return Figure("Lines that miss beside four lines that fill one set", Kind.MAP, columns, x, (row,), colour=colour)


def policy() -> Figure:
    """A footprint one line larger than the cache, with LRU and with random replacement."""
    laps, shown = 12, 64
    rows: list[tuple[int, int, float]] = []
    for number, (spec, line_size, count) in enumerate((("gtx980", 32, 768), ("gtx560ti", 128, 128))):
        (trace,) = _run(spec, [_each(Sequential(count + 1, line_size), warmup=4, laps=laps)])
        missed = (trace.cycles > MISS_CYCLES).reshape(laps, -1)[:, :shown]
        first = number * (laps + 1)
        rows += [(n, first + lap, float(missed[lap, n])) for lap in range(laps) for n in range(shown)]
    names = ("line", "lap: below LRU (GTX 980), above random (GTX 560 Ti)", "miss")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return Figure("Misses by line and lap, one line too many", Kind.MAP, columns, "line", names[1:2], colour="miss")


def tlb() -> Figure:
    pages = np.array([*range(4, 64, 4), *range(64, 80), *range(80, 132, 4)])
    orders = [Shuffled(int(count), 2 * MIB + 128, 1) for count in pages]
    traces = _run("gtx980", [_each(order, Path.GLOBAL_L2, warmup=2, laps=4, alone=True) for order in orders])
    cycles = [trace.cycles.mean() for trace in traces]
    title = "Mean latency against the number of pages, one line in each: two TLBs"
    marks = [(16, "16 entries"), (65, "65 entries")]
    return overlay(title, ("pages of 2 MiB", ""), CYCLES, {"GTX 980": (pages, cycles)}, marks=marks)


def sharing() -> Figure:
    chain, other = Sequential(256, 32), Sequential(768, 32, MIB)
    own = PriorAccesses(path=Path.TEXTURE, order=chain)
    others: dict[str, tuple[PriorAccesses, ...]] = {"none": ()}
    for name, path in (("read-only", Path.READONLY), ("global", Path.GLOBAL), ("global past the L1", Path.GLOBAL_L2)):
        others[name] = (PriorAccesses(path=path, order=other, laps=2),)
    traces = _run("gtx980", [_each(chain, Path.TEXTURE, warmup=0, before=(own, *prior)) for prior in others.values()])
    shares = tuple(100 * float(np.mean(trace.cycles > MISS_CYCLES)) for trace in traces)
    columns = {"accesses between": tuple(range(1, 5)), "path": tuple(others), "misses": shares}
    title = "Misses of texture fetches after accesses on another path"
    return Figure(title, Kind.BARS, columns, "accesses between", ("misses",), {"misses": "%"}, colour="path")


def l2_parts() -> Figure:
    """First accesses to the same lines after a flush, in four orders."""
    lines = 64
    orders = [Shuffled(lines, 4096, seed) for seed in range(1, 5)]
    traces = _run("h100", [_each(order, Path.GLOBAL_L2, warmup=0, flush=True, alone=True) for order in orders])
    cycles = np.array([trace.cycles[np.argsort(trace.offsets)] for trace in traces])
    fastest = cycles.min(axis=0)
    near = fastest < (fastest.min() + fastest.max()) / 2
    groups = {
        name: (np.tile(np.flatnonzero(which), len(orders)), cycles[:, which].ravel())
        for name, which in (("near partition", near), ("far partition", ~near))
    }
    title = "First accesses to 64 lines in four orders: each line is near, or far, every time"
    return overlay(title, ("line, 4 KiB apart", ""), CYCLES, groups, kind=Kind.DOTS)


def instruction_caches() -> Figure:
    sizes = [2, 4, 6, *range(8, 15), 16, 24, 32, 48, 64, 96, 112, 120, 124, 128, 132, 136, 144, 160, 192, 256]  # KiB
    loops = [Sequential(size * 8, 128) for size in sizes]
    traces = _run("v100", [Chase(path=Path.CODE, order=o, timing=Timing.LAP, warmup=2, laps=5) for o in loops])
    cycles = [np.median(trace.cycles) / order.count for trace, order in zip(traces, loops, strict=True)]
    title = "Cycles per line of straight-line code against the size of the loop: three plateaus"
    return overlay(title, ("loop", "B"), ("time per 128 B", "cycles"), {"V100": (np.array(sizes) * KIB, cycles)})


def clusters() -> Figure:
    order = Shuffled(64, 128, 1)
    chases = [Chase(path=Path.CLUSTER, order=order, timing=Timing.LAP, laps=20, peer=rank) for rank in range(16)]
    cycles = [np.median(trace.cycles) / order.count for trace in _run("h100", chases)]
    title = "Latency of a load from the shared memory of each block of a cluster (rank 0: its own)"
    return overlay(title, ("rank", ""), CYCLES, {"H100": (range(16), cycles)}, kind=Kind.DOTS)


def prediction() -> Figure:
    """Random accesses to a footprint of about the size of the L1, and the prediction of the published cache."""
    rng = np.random.default_rng(4)
    count, shown = 900, 160
    visits = rng.permutation(np.repeat(np.arange(count), 4))
    word = np.zeros(count, dtype=np.int64)
    offsets = np.empty(visits.size, dtype=np.int64)
    for n, number in enumerate(visits):
        offsets[n] = number * 32 + 8 * word[number]
        word[number] += 1
    (trace,) = _run("gtx980", [_each(Explicit(offsets), warmup=0)])
    missed = CacheModel(load("gtx980").hierarchy().caches["l1"]).access_many(offsets) > 0
    repeated = np.isin(np.arange(offsets.size), np.unique(visits, return_index=True)[1], invert=True)
    last = np.flatnonzero(repeated)[-shown:]
    groups = {
        name: (np.flatnonzero(which), trace.cycles[last][which])
        for name, which in (("predicted hit", ~missed[last]), ("predicted miss", missed[last]))
    }
    title = "Latencies of random accesses, coloured by the prediction of the simulated cache"
    return overlay(title, ("access", ""), CYCLES, groups, kind=Kind.DOTS)


def spectrum() -> Figure:
    found = {each.attribute: each.value for each in _survey("gtx780", "spectrum_global_l2").findings}
    patterns = [n for n in range(1, 7) if isinstance(found.get(f"p{n}"), int | float)]
    cycles = [float(found[f"p{n}"]) for n in patterns]  # type: ignore[arg-type]
    title = "The latency spectrum: cycles of the patterns P1 to P6"
    return overlay(title, ("pattern P", ""), CYCLES, {"GTX 780": (patterns, cycles)}, kind=Kind.BARS)


def page_window() -> Figure:
    columns = _columns(_survey("gtx780", "page_table"), "added cycles against offset, in rising and in falling order")
    groups = {f"in {order} order": (columns["offset"], columns[order]) for order in ("rising", "falling")}
    title = "Cycles added by page walks: windows of 512 MiB begin where rising order is slow"
    return overlay(title, ("offset", "B"), ("added", "cycles"), groups, kind=Kind.DOTS)


def bandwidth() -> Figure:
    survey = _survey("gtx980", "dram")
    columns = _columns(survey, "read bandwidth by configuration")
    threads = columns["blocks_per_sm"] * columns["threads"]
    resident = threads <= MAX_SM_THREADS  # further blocks wait, so that less is in flight
    in_flight = (threads * columns["ilp"] * columns["width"])[resident]
    ends = [in_flight.min(), in_flight.max()]
    groups = {"configurations": (in_flight, columns["rate"][resident])}
    for name, attribute in (("clock x bus", "peak_bandwidth"), ("the plateau", "read_bandwidth")):
        value = next(float(each.value) for each in survey.findings if each.attribute == attribute)  # type: ignore[arg-type]
        groups[name] = (ends, [value, value])
    kinds = {"clock x bus": Kind.CURVES, "the plateau": Kind.CURVES}
    title = "Read bandwidth of memory against bytes in flight per SM: it rises up to a plateau"
    return overlay(title, ("in flight", "B"), ("bandwidth", "B/s"), groups, kinds=kinds, kind=Kind.DOTS, log_x=True)


def banks() -> Figure:
    columns = _columns(_survey("gtx980", "shared", quick=True), "latency against stride")
    narrow = columns["width"] == 4
    title = "Latency of a load of one warp against the stride between its lanes"
    groups = {"GTX 980: 32 banks of 4 B": (columns["stride"][narrow], columns["cycles"][narrow])}
    return overlay(title, ("stride", "words of 4 B"), CYCLES, groups)


def instructions() -> Figure:
    columns = _columns(_survey("gtx980", "ffma"), "rate against warps and chains")
    groups = {}
    for chains in (1, 2, 4):
        chosen = columns["chains"] == chains
        groups[f"chains per warp: {chains}"] = (columns["warps"][chosen], columns["rate"][chosen])
    title = "Rate of ffma against warps per SM, with one chain per warp and with several"
    return overlay(title, ("warps per SM", ""), ("rate", "ops/cycle"), groups, log_x=True)


def launch() -> Figure:
    columns = _columns(_survey("gtx980", "launch"), "time against kernels, kernel")
    title = "Time of a sequence of empty kernels against their number: the slope is kernel_interval"
    groups = {"GTX 980": (columns["kernels"], columns["time"] / 1e3)}
    return overlay(title, ("kernels, all queued before the first begins", ""), ("time", "µs"), groups)


def curves() -> Figure:
    columns = _columns(_survey("gtx980", "curves"), "latency against footprint")
    title = "Latency against footprint: a step at the 24 KiB of the L1 and at the 2 MiB of the L2"
    groups = {"GTX 980": (columns["footprint"], columns["latency"])}
    return overlay(title, ("footprint", "B"), CYCLES, groups, log_x=True)


def l2_map() -> Figure:
    """Measured: simulated SMs all lie near the same part of the L2."""
    latencies, parts = (
        np.array(result_of("h200").finding("l2", name).value) for name in ("latency_by_sm", "partition_by_sm")
    )
    groups = {
        f"partition {part}: {np.sum(parts == part)} SMs": (np.flatnonzero(parts == part), latencies[parts == part])
        for part in (0, 1)
    }
    title = "Mean L2 hit latency of every SM of an H200, coloured by the nearer partition of the L2"
    return overlay(title, ("sm", ""), CYCLES, groups, kind=Kind.DOTS)


def hiding() -> Figure:
    """Additions between loads at every occupancy; the models are given what VV16 prints of this GPU."""
    additions, iterations = 32, 124
    loop, machine = Loop(alpha=additions), vv16.machines()["gtx980"]
    warps = [1, 2, *range(4, 65, 4)]
    body = (Step(Instruction.LDG), Step(Instruction.FADD, additions))
    options = {"body": body, "iterations": iterations, "access": Access.STREAMING, "footprint": 1 << 28}
    traces = _run("gtx980", [Mix(warps=n, block_size=32 * math.gcd(n, 4), **options) for n in warps])  # type: ignore[arg-type]
    times = np.array([float(np.mean(trace.end - trace.begin)) for trace in traces])
    fine = np.arange(1, 65)
    groups = {
        name: (fine, loop.operations(by_key(key).throughput(machine, loop, fine)))
        for key, name in HIDING_MODELS.items()
    }
    kinds = dict.fromkeys(groups, Kind.CURVES)
    groups["simulated GPU"] = (warps, loop.operations(np.array(warps) * iterations * (additions + 1) / times))
    title = f"Throughput of {additions} additions between two loads against warps: simulated GPU and three models"
    return overlay(title, ("warps per SM", ""), ("additions", "ops/cycle"), groups, kinds=kinds, kind=Kind.DOTS)


PICTURES: Mapping[str, Callable[[], Figure]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        capacity,
        line,
        latency,
        sets,
        policy,
        tlb,
        sharing,
        l2_parts,
        l2_map,
        instruction_caches,
        clusters,
        prediction,
        page_window,
        spectrum,
        bandwidth,
        banks,
        instructions,
        curves,
        launch,
        hiding,
    )
}
