"""Copies in shared memory: MC16 s6.1, table 7 and figures 15 and 16."""

from __future__ import annotations

from itertools import product

from curves import Panel, picture
from rows import NAMES, Row, number

from gpudissect import catalogue
from gpudissect.device.find import open_device
from gpudissect.workload import Path, Stream, Transfer

WORD = 4
NEAR = 0.05  # relative: what a document's own method adds to a throughput nobody knows better
Shape = tuple[int, int, int]  # blocks of an SM, threads of a block, accesses in flight
CTA_SIZES, CTAS, WORDS = (32, 64, 128, 256, 512, 1024), (1, 2, 3, 4, 5, 6), (1, 2, 4, 6, 8)
OVERHEAD = {"gtx560ti": 78, "gtx780": 37, "gtx980": 36}  # cycles of a barrier and a reading of the clock
TABLE_7 = {"gtx560ti": (34.90, (1, 512, 4)), "gtx780": (83.81, (1, 1024, 6)), "gtx980": (137.41, (2, 256, 8))}


def short_copies(gpu: str) -> dict[Shape, float]:
    """GB/s of an SM in which every thread copies `ILP` words once, between two barriers and readings of the clock."""
    rates = {}
    clock = catalogue.load(gpu).table.chip.clock_hz.value
    with open_device(f"sim:{gpu}?noise=none") as device:
        facts = device.info.facts
        for threads, blocks, ilp in product(CTA_SIZES, CTAS, WORDS):
            each = threads * ilp * WORD
            if 2 * each > int(facts["shared_per_block"]) or 2 * each * blocks > int(facts["shared_per_sm"]):
                continue
            if threads * blocks > int(facts["threads_per_sm"]):
                continue
            stream = Stream(path=Path.SHARED, transfer=Transfer.COPY, footprint=each, threads=threads, ilp=ilp,
                            width=WORD, blocks=blocks * device.info.sm_count)  # fmt: skip
            (trace,) = device.run([stream])
            cycles = int(trace.cycles.max()) + OVERHEAD[gpu]
            rates[blocks, threads, ilp] = 2 * each * blocks / cycles * clock / 1e9
    return rates


def by_warps(rates: dict[Shape, float], ilp: int | None = None) -> list[tuple[float, float]]:
    """The most that each number of warps moves, with any ILP or a certain one."""
    best: dict[int, float] = {}
    for (blocks, threads, words), rate in rates.items():
        warps = blocks * threads // 32
        if ilp in (None, words):
            best[warps] = max(best.get(warps, 0.0), rate)
    return [(float(warps), best[warps]) for warps in sorted(best)]


def figures_15_and_16(every: dict[str, dict[Shape, float]]) -> tuple[list[Row], str, str]:
    """Rows and pictures of MC16 table 7 and figures 15 and 16."""
    rows, panels = [], []
    for gpu, rates in every.items():
        known, shape = TABLE_7[gpu]
        blocks, threads, ilp = shape
        what = f"{blocks} CTA{'s' * (blocks > 1)} of {threads} threads, ILP {ilp}: the most that was published"
        rows.append(number("MC16 table 7", gpu, what, known, rates[shape], "GB/s", NEAR))
        most = max(rates.values())
        rows.append(number("MC16 fig 15", gpu, "the most of all shapes", known, most, "GB/s", 3 * NEAR))
        curve = by_warps(rates)
        best = [max(rate for warps, rate in curve if warps <= each) for each, _ in curve]
        dips = max(1 - rate / so_far for (_, rate), so_far in zip(curve, best, strict=True))
        rows.append(Row("MC16 fig 15", gpu, "throughput against active warps", "grows, until some threshold",
                        f"never more than {dips:.1%} below what fewer warps move", dips < NEAR))  # fmt: skip
        panels.append(Panel(NAMES[gpu], {f"ILP={i}": by_warps(rates, i) for i in WORDS},
                            ((blocks * threads / 32, known),)))  # fmt: skip
    fermi = every["gtx560ti"]
    gain, more = fermi[1, 512, 4] / fermi[1, 512, 2] - 1, fermi[1, 512, 8] / fermi[1, 512, 4] - 1
    rows.append(Row("MC16 fig 16", "gtx560ti", "16 warps, ILP 2 to 4, and 4 to 8", "grows until 4",
                    f"{gain:+.1%}, then {more:+.1%}", gain > 0.05 and more < gain / 2))  # fmt: skip
    kepler = every["gtx780"]
    low = max(WORDS, key=lambda ilp: kepler[1, 128, ilp])
    rows.append(Row("MC16 fig 16", "gtx780", "best ILP with 4 warps", "4", str(low), low == 4))
    high = max((ilp for ilp in WORDS if (1, 1024, ilp) in kepler), key=lambda ilp: kepler[1, 1024, ilp])
    rows.append(Row("MC16 fig 16", "gtx780", "best ILP with 32 warps", "6 or 8", str(high), high in (6, 8)))
    maxwell = every["gtx980"]
    best_ilp = max(WORDS, key=lambda ilp: maxwell.get((2, 512, ilp), 0.0))
    rows.append(Row("MC16 fig 16", "gtx980", "best ILP with 32 warps", "high", str(best_ilp), best_ilp in (6, 8)))
    together = Panel("best ILP", {NAMES[gpu]: by_warps(rates) for gpu, rates in every.items()},
                     tuple((b * t / 32, known) for known, (b, t, _) in TABLE_7.values()))  # fmt: skip
    return (
        rows,
        picture([together], "active warps of an SM", "GB/s of an SM"),
        picture(panels, "active warps of an SM", "GB/s of an SM"),
    )
