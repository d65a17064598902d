"""Pictures of caches and TLBs, each from chases on a simulated GPU, whose seed of noise is fixed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpudissect.catalogue import load
from gpudissect.device.find import open_device
from gpudissect.trace import Trace
from gpudissect.workload import Chase, Explicit, Path, PriorAccesses, Sequential, Shuffled, Timing
from making.svg import Axis, Plot

KIB, MIB = 1 << 10, 1 << 20
BETWEEN = 150  # cycles: on the GTX 980 a hit in an L1 takes fewer, one in the L2 more


def _run(spec: str, chases: Sequence[Chase]) -> list[Trace]:
    with open_device(f"sim:{spec}") as device:
        return device.run(chases)


def capacity() -> Plot:
    sizes = np.arange(16, 33)
    traces = _run(
        "gtx980",
        [
            Chase(path=Path.GLOBAL, order=Shuffled(int(k) * 32, 32, 1), timing=Timing.EACH, warmup=2, laps=2)
            for k in sizes
        ],
    )
    plot = Plot(
        "Share of accesses that miss, against the footprint: zero up to 24 KiB, one from 25 KiB on",
        Axis("bytes gone round, KiB", 15.5, 32.5, ticks=range(16, 33, 4)),
        Axis("share that misses", -0.04, 1.08, ticks=(0, 0.5, 1)),
    )
    plot.edge(24, "24 KiB: last lap without a miss")
    plot.line(sizes, [np.mean(trace.cycles > BETWEEN) for trace in traces], "one", "L1, LRU in four sets")
    return plot


def line() -> Plot:
    distances = np.arange(8, 264, 8)
    blocks = np.arange(8)[:, None] * 4096
    traces = _run(
        "v100",
        [
            Chase(
                path=Path.GLOBAL,
                order=Explicit((blocks + np.array([0, int(distance)])).ravel()),
                timing=Timing.EACH,
                warmup=0,
                flush=True,
                alone=True,
            )
            for distance in distances
        ],
    )
    plot = Plot(
        "Latency of a second touch against its distance from the first",
        Axis("distance from the first touch, B", 0, 264, ticks=range(0, 257, 32)),
        Axis("cycles of the second touch", 0, 700, ticks=(0, 200, 400, 600)),
    )
    plot.edge(32, "32 B: what one miss brings into the L1", "start")
    plot.points(distances, [np.median(trace.cycles[1::2]) for trace in traces], "one", "median of eight blocks")
    return plot


def latency() -> Plot:
    sizes = [round(2 ** (power / 4)) * 1024 for power in range(8, 53)]
    each = [Chase(path=Path.GLOBAL, order=Shuffled(size // 32, 32, 1), timing=Timing.LAP, alone=True) for size in sizes]
    traces = _run("gtx980", each)
    plot = Plot(
        "Latency of a load against the footprint: three levels, two edges",
        Axis("bytes gone round", 4 * KIB, 8 * MIB, log=True, ticks=[4**n * KIB for n in range(1, 7)], name=_bytes),
        Axis("cycles of a load", 0, 450, ticks=range(0, 401, 100)),
    )
    plot.edge(24 * KIB, "L1: 24 KiB", "start")
    plot.edge(2 * MIB, "L2: 2 MiB")
    plot.line(sizes, [t.cycles.mean() / (size // 32) for t, size in zip(traces, sizes, strict=True)], "one")
    return plot


def _bytes(value: float) -> str:
    return f"{value / MIB:g} MiB" if value >= MIB else f"{value / KIB:g} KiB"


def sets() -> Plot:
    """One full set, and every other line asked whether it belongs to it."""
    ways, line_size, in_row = 4, 128, 32
    full = [0, 8320, 16640, 24960]  # of set 0 by the bits of MC16 fig 11: 7^13, 8^14, 9, 10, 11
    lines = np.arange(128 * in_row // 16) + 1
    asked = [line for line in lines if line * line_size not in full]
    traces = _run(
        "gtx560ti",
        [
            Chase(
                path=Path.GLOBAL,
                order=Explicit(np.array([*full, line * line_size])),
                timing=Timing.EACH,
                warmup=4,
                laps=8,
            )
            for line in asked
        ],
    )
    misses = {line: np.mean(trace.cycles > 150) > 0.02 for line, trace in zip(asked, traces, strict=True)}
    rows = [
        ["four" if n * line_size in full else "" if n not in misses else "two" if misses[n] else "pale"
         for n in range(row, row + in_row)]
        for row in range(0, len(lines) + 1 - in_row + 1, in_row)
    ]  # fmt: skip
    plot = Plot(
        f"Which lines miss beside {ways} lines that fill one set",
        Axis("line of 128 B, within 4 KiB", 0, in_row, ticks=(0, 8, 16, 24, 32)),
        Axis("address, KiB", len(rows) * 4, 0, ticks=range(0, len(rows) * 4, 8)),
    )
    plot.cells(rows)
    plot.name("four", "the set, full")
    plot.name("two", "misses beside it: same set")
    plot.name("pale", "fits")
    return plot


def policy() -> Plot:
    """One line too many for a cache, lap after lap, on one with LRU and on one that draws its victims."""
    laps, first = 12, 64
    rows: list[list[str]] = []
    for spec, line_size, count, path in (("gtx980", 32, 768, Path.GLOBAL), ("gtx560ti", 128, 128, Path.GLOBAL)):
        chase = Chase(path=path, order=Sequential(count + 1, line_size), timing=Timing.EACH, warmup=4, laps=laps)
        missed = (_run(spec, [chase])[0].cycles > BETWEEN).reshape(laps, -1)[:, :first]
        rows += [["two" if miss else "pale" for miss in lap] for lap in missed] + [[""] * first]
    plot = Plot(
        "Which lines miss, lap after lap, with one line too many",
        Axis("line, in the order of visits", 0, first, ticks=range(0, first + 1, 16)),
        Axis("lap, downwards: above LRU (GTX 980), below drawn (GTX 560 Ti)", len(rows), 0, ticks=(100,)),
    )
    plot.cells(rows)
    plot.name("two", "miss")
    plot.name("pale", "hit")
    return plot


def tlb() -> Plot:
    pages = np.array([*range(4, 64, 4), *range(64, 80), *range(80, 132, 4)])
    order = [Shuffled(int(count), 2 * MIB + 128, 1) for count in pages]
    each = [Chase(path=Path.GLOBAL_L2, order=ring, timing=Timing.EACH, warmup=2, laps=4, alone=True) for ring in order]
    traces = _run("gtx980", each)
    plot = Plot(
        "Latency of one line a page against the number of pages: two stairs",
        Axis("pages of 2 MiB, one line each", 0, 132, ticks=(0, 16, 32, 65, 96, 128)),
        Axis("mean cycles of an access", 240, 320, ticks=(240, 260, 280, 300, 320)),
    )
    plot.edge(16, "16 entries", "start")
    plot.edge(65, "65 entries", "start")
    plot.line(pages, [trace.cycles.mean() for trace in traces], "one")
    return plot


def sharing() -> Plot:
    ring = Sequential(256, 32)
    other = Sequential(768, 32, MIB)
    others = (Path.READONLY, Path.GLOBAL, Path.GLOBAL_L2)
    asked = [
        Chase(path=Path.TEXTURE, order=ring, timing=Timing.EACH, warmup=0,
              before=(PriorAccesses(path=Path.TEXTURE, order=ring), *turns))
        for turns in ((), *((PriorAccesses(path=path, order=other, laps=2),) for path in others))
    ]  # fmt: skip
    traces = _run("gtx980", asked)
    shares = [float(np.mean(trace.cycles > BETWEEN)) for trace in traces]
    plot = Plot(
        "Share of a texture ring that misses after another path had its turn",
        Axis("who had a turn between", 0, 1, ticks=(2,)),
        Axis("share of the texture ring that misses", 0, 1.15, ticks=(0, 0.5, 1)),
    )
    plot.bars(
        ["nobody", "read-only", "global", "global, past the L1"], shares, "one", [f"{share:.0%}" for share in shares]
    )
    return plot


def parts() -> Plot:
    """First touches of the same lines after a flush, in four orders."""
    lines = 64
    orders = [Shuffled(lines, 4096, seed) for seed in range(1, 5)]
    asked = [
        Chase(path=Path.GLOBAL_L2, order=order, timing=Timing.EACH, warmup=0, flush=True, alone=True)
        for order in orders
    ]
    seen = np.array([trace.cycles[np.argsort(trace.offsets)] for trace in _run("h100", asked)])
    fastest = seen.min(axis=0)
    near = fastest < (fastest.min() + fastest.max()) / 2
    high = 200 * math.ceil(seen.max() / 200)
    plot = Plot(
        "First touches of 64 lines in four orders: the same lines are near every time, the others far",
        Axis("line, 4 KiB apart", 0, lines, ticks=range(0, lines + 1, 16)),
        Axis("cycles of the first touch", 0, high, ticks=range(0, high + 1, 200)),
    )
    for kind, name, which in (("one", "near memory", near), ("two", "far memory", ~near)):
        for touches in seen:
            plot.points(np.flatnonzero(which), touches[which], kind)
        plot.name(kind, name)
    return plot


def instruction_caches() -> Plot:
    sizes = np.array([2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 16, 24, 32, 48, 64, 96, 112, 120, 124, 128, 132, 136, 144, 160,
                      192, 256])  # fmt: skip
    traces = _run(
        "v100",
        [
            Chase(path=Path.CODE, order=Sequential(int(size) * 8, 128), timing=Timing.LAP, warmup=2, laps=5)
            for size in sizes
        ],
    )
    plot = Plot(
        "Cycles a line of straight-line code against the size of the loop: three rests",
        Axis("loop, KiB of code", 2, 256, log=True, ticks=(2, 4, 8, 16, 32, 64, 128, 256)),
        Axis("cycles a line of 128 B", 0, 60, ticks=(0, 20, 40, 60)),
    )
    plot.line(sizes, [np.median(t.cycles) / (size * 8) for t, size in zip(traces, sizes, strict=True)], "one")
    return plot


def clusters() -> Plot:
    ranks = range(16)
    traces = _run(
        "h100",
        [Chase(path=Path.CLUSTER, order=Shuffled(64, 128, 1), timing=Timing.LAP, laps=20, peer=rank) for rank in ranks],
    )
    plot = Plot(
        "Latency of a load from the shared memory of each block of the cluster",
        Axis("rank of the block that is asked", -0.5, 15.5, ticks=range(0, 16, 3)),
        Axis("cycles of a load", 0, 240, ticks=(0, 50, 100, 150, 200)),
    )
    plot.say(0.5, 45, "one's own memory, through the same window")
    plot.points(ranks, [np.median(trace.cycles) / 64 for trace in traces], "one")
    return plot


def prediction() -> Plot:
    """Random accesses of about the size of the L1, and what the cache as published says of each."""
    from gpudissect.simulation.cache.cache import CacheModel

    rng = np.random.default_rng(4)
    count, shown = 900, 160
    visits = rng.permutation(np.repeat(np.arange(count), 4))
    word = np.zeros(count, dtype=np.int64)
    offsets = np.empty(visits.size, dtype=np.int64)
    for n, line_number in enumerate(visits):
        offsets[n] = line_number * 32 + 8 * word[line_number]
        word[line_number] += 1
    (trace,) = _run("gtx980", [Chase(path=Path.GLOBAL, order=Explicit(offsets), timing=Timing.EACH, warmup=0)])
    missed = CacheModel(load("gtx980").hierarchy().caches["l1"]).access_many(offsets) > 0
    again = np.isin(np.arange(offsets.size), np.unique(visits, return_index=True)[1], invert=True)
    last = np.flatnonzero(again)[-shown:]
    plot = Plot(
        "Latencies of random accesses, coloured by what the simulated cache foretold",
        Axis("access", 0, shown, ticks=range(0, shown + 1, 40)),
        Axis("cycles", 0, 320, ticks=(0, 100, 200, 300)),
    )
    for kind, name, which in (("one", "foretold to hit", ~missed[last]), ("two", "foretold to miss", missed[last])):
        plot.points(np.flatnonzero(which), trace.cycles[last][which], kind, name)
    return plot
