"""Redo, on the simulated GPUs, the experiments behind MC16 tables 6 and 7, its figures 12 and 15 to 19, VV16 table 6.7.

`discover` finds plateaus; these are whole curves, and the documents' own protocols, workload by workload. Writes
`docs/throughput.md` and the pictures beside it, or compares with them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd
from pathlib import Path as FilePath

from curves import Panel, picture

from gpudissect import catalogue
from gpudissect.device.find import open_device
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.workload import Access, Instruction, Mix, Path, Step, Stream, Transfer

DOCS = FilePath(__file__).parent.parent / "docs"
PAGE = DOCS / "throughput.md"
MEI = ("gtx560ti", "gtx780", "gtx980")
WORD = 4
NAMES = {"gtx560ti": "GTX560Ti", "gtx780": "GTX780", "gtx980": "GTX980", "8800gtx": "G80", "gtx280": "GT200",
         "gtx480": "Fermi", "gtx680": "Kepler"}  # fmt: skip
NEAR = 0.05  # relative, of a throughput: what a document's own method adds to it nobody knows better
SATURATED = 0.9


@dataclass(frozen=True)
class Row:
    """What a document says, in words or in a number, and what was found."""

    place: str
    gpu: str
    what: str
    published: str
    found: str
    agrees: bool

    @property
    def line(self) -> str:
        verdict = "agrees" if self.agrees else "**differs**"
        return f"| {self.place} | {NAMES[self.gpu]} | {self.what} | {self.published} | {self.found} | {verdict} |"


def number(place: str, gpu: str, what: str, published: float, found: float, unit: str, within: float) -> Row:
    """A number that must be found again `within` a relative distance."""
    off = found / published - 1
    return Row(place, gpu, what, f"{published:g} {unit}", f"{found:.4g} {unit} ({off:+.1%})", abs(off) <= within)


# ---- MC16 s5.1: copies in global memory ---------------------------------------------------------------------------

BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # of an SM
THREADS = (64, 128, 256, 512, 1024)
ILPS = (1, 2, 4)
PASS = 32 << 20  # bytes, at least, that a copy goes through
TABLE_6 = {"gtx560ti": 109.38, "gtx780": 215.92, "gtx980": 156.25}  # GB/s
Shape = tuple[int, int, int]  # blocks of an SM, threads of a block, accesses in flight


def copies(gpu: str) -> dict[Shape, float]:
    """GB/s of every shape of a copy: what is read and what is written."""
    rates = {}
    with open_device(f"sim:{gpu}?noise=none") as device:
        for blocks, threads, ilp in product(BLOCKS, THREADS, ILPS):
            tiles = blocks * device.info.sm_count * threads * ilp * WORD
            stream = Stream(path=Path.GLOBAL_L2, transfer=Transfer.COPY, footprint=-(-PASS // tiles) * tiles,
                            blocks=blocks * device.info.sm_count, threads=threads, ilp=ilp, width=WORD)  # fmt: skip
            (trace,) = device.run([stream])
            rates[blocks, threads, ilp] = float(trace.bytes[0] / trace.nanoseconds[0])
    return rates


def needed(rates: dict[Shape, float], ilp: int) -> int:
    """The fewest words of 4 bytes in flight of an SM with which 90 % of the most is reached."""
    enough = SATURATED * max(rates.values())
    return min(b * t * i for (b, t, i), rate in rates.items() if i == ilp and rate >= enough)


def figure_12(every: dict[str, dict[Shape, float]]) -> tuple[list[Row], str]:
    """Rows and picture of MC16 table 6 and figure 12."""
    rows, panels = [], []
    for gpu, rates in every.items():
        most = max(rates.values())
        rows.append(number("MC16 table 6", gpu, "most that a copy moves", TABLE_6[gpu], most, "GB/s", 0.02))
        twice = rates[2, 64, 1] / rates[1, 64, 1]
        rows.append(Row("MC16 fig 12", gpu, "64 threads, ILP 1: 2 CTAs of an SM over 1", "almost linear",
                        f"x {twice:.2f}", 1.8 <= twice <= 2.05))  # fmt: skip
        warps = [needed(rates, ilp) // ilp // 32 for ilp in ILPS]
        rows.append(Row("MC16 fig 12", gpu, "warps of an SM for 90 % with ILP 1, 2, 4", "a larger ILP saturates faster",
                        ", ".join(map(str, warps)), warps == sorted(set(warps), reverse=True)))  # fmt: skip
        curves = {f"T={t}, ILP={i}": [(b, rates[b, t, i]) for b in BLOCKS] for t in (64, 256) for i in ILPS}
        panels.append(Panel(NAMES[gpu], curves, ((BLOCKS[-1], TABLE_6[gpu]),)))
    slowest = {gpu: min(needed(rates, ilp) for ilp in ILPS) for gpu, rates in every.items()}
    rows.append(Row("MC16 fig 12", "gtx780", "words in flight of all SMs for 90 %", "the most of the three",
                    ", ".join(f"{_in_all(gpu, each)} ({NAMES[gpu]})" for gpu, each in slowest.items()),
                    max(slowest, key=lambda gpu: _in_all(gpu, slowest[gpu])) == "gtx780"))  # fmt: skip
    return rows, picture(panels, "CTAs of an SM", "GB/s")


def _in_all(gpu: str, of_one: int) -> int:
    return of_one * catalogue.load(gpu).table.chip.sm_count.value


# ---- MC16 s6.1: copies in shared memory ---------------------------------------------------------------------------

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


# ---- MC16 s6.2: strides over banks --------------------------------------------------------------------------------

STRIDES = range(65)
REPEATED = 64  # loads, as in MC16 listing 4


def latencies(gpu: str, interleave: int | None = None) -> list[float]:
    """Cycles of a load of shared memory by one warp at every stride; with the banks in another mode if one is given."""
    known = catalogue.load(gpu)
    processor = known.processor()
    assert processor is not None
    if interleave is not None:
        processor = replace(processor, shared=replace(processor.shared, interleave=interleave))
    device = SimulatedGpu(known.hierarchy(), spec=f"sim:{gpu}", name=known.name, facts=known.facts(),
                          noise=Noise.none(), processor=processor)  # fmt: skip
    body = (Step(Instruction.LDS, REPEATED),)
    mixes = [Mix(body=body, warps=1, block_size=32, iterations=4, sms=1, stride=stride) for stride in STRIDES]
    return [float(trace.end[0] - trace.begin[0]) / mix.instructions
            for mix, trace in zip(mixes, device.run(mixes), strict=True)]  # fmt: skip


def figures_17_to_19() -> tuple[list[Row], str]:
    """Rows and picture of MC16 figures 17 to 19."""
    fermi, maxwell = latencies("gtx560ti"), latencies("gtx980")
    modes = {4: latencies("gtx780", 4), 8: latencies("gtx780", 8)}
    rows = []

    def ways(took: Sequence[float], stride: int) -> float:
        return 1 + (took[stride] - took[1]) / (took[32 if took is fermi else 64] - took[1]) * 31

    told = sum(round(ways(fermi, stride)) == gcd(stride, 32) for stride in STRIDES[1:])
    rows.append(Row("MC16 fig 17", "gtx560ti", "ways of strides 1 to 64", "gcd(stride, 32)",
                    f"so in {told} of 64", told == 64))  # fmt: skip
    for place, stride, known in (("MC14 s4.1", 0, 50), ("MC16 fig 17", 2, 88), ("MC14 s4.1", 32, 1210)):
        rows.append(number(place, "gtx560ti", f"load at stride {stride}", known, fermi[stride], "cycles", 0.01))
    free = {(2, 4): True, (2, 8): True, (6, 4): False, (6, 8): True, (4, 4): False, (4, 8): False}
    for (stride, mode), known in free.items():
        found = ways(modes[mode], stride)
        place = "MC16 fig 18" if stride == 6 else "MC16 fig 19"
        rows.append(Row(place, "gtx780", f"stride {stride}, {mode}-byte mode", "no conflict" if known else "2 ways",
                        f"{found:.0f} way{'s' * (found > 1.5)}", round(found) == (1 if known else 2)))  # fmt: skip
    for gpu, took in (("gtx560ti", fermi), ("gtx780", modes[4])):
        worst, memory = max(took), catalogue.load(gpu).processor().memory.latency  # type: ignore[union-attr]
        rows.append(Row("MC16 s6.2", gpu, "32 ways against a load from memory", "much longer",
                        f"{worst:.0f} against {memory:.0f} cycles", worst > 1.5 * memory))  # fmt: skip
    l1 = catalogue.load("gtx980").table.paths[Path.GLOBAL].latency[0].value
    rows.append(Row("MC16 s6.2", "gtx980", "32 ways against a hit in the L1", "the same level",
                    f"{max(maxwell):.0f} against {l1:.0f} cycles", abs(max(maxwell) / l1 - 1) < 0.15))  # fmt: skip

    def even(took: Sequence[float]) -> list[tuple[float, float]]:
        return [(float(stride), took[stride]) for stride in STRIDES if stride % 2 == 0]

    panels = [
        Panel("GTX560Ti (fig 17)", {"4 B": even(fermi)}, ((0, 50), (2, 88), (32, 1210))),
        Panel("GTX780 (fig 19)", {"4-byte mode": even(modes[4]), "8-byte mode": even(modes[8])}),
        Panel("GTX980", {"4 B": even(maxwell)}),
    ]
    return rows, picture(panels, "stride, words of 4 bytes", "cycles", doubling=False)


# ---- VV16 s6.7: transactions of a load that diverges --------------------------------------------------------------

TABLE_6_7 = {"8800gtx": 6.7, "gtx280": 7.6, "gtx480": 34.0, "gtx680": 33.0, "gtx980": 5.9}
TRANSACTIONS = {"8800gtx": 2, "gtx280": 2, "gtx480": 1, "gtx680": 4, "gtx980": 4}  # of a coalesced load, VV16 s6.7
TABLE_6_2 = {"8800gtx": (444, 644), "gtx280": (434, 662), "gtx480": (513, 1571), "gtx680": (301, 1213),
             "gtx980": (368, 534)}  # fmt: skip
OVER = 256 << 20  # bytes, beyond every cache


def table_6_7() -> list[Row]:
    """Rows of VV16 tables 6.2 (stream, random) and 6.7: one warp on the whole GPU, as there."""
    rows = []
    for gpu, known in TABLE_6_7.items():
        took = {}
        with open_device(f"sim:{gpu}?noise=none") as device:
            for access in (Access.STREAMING, Access.RANDOM):
                mix = Mix(body=(Step(Instruction.LDG, 16),), warps=1, block_size=32, iterations=64, sms=1,
                          access=access, footprint=OVER)  # fmt: skip
                (trace,) = device.run([mix])
                took[access] = float(trace.end[0] - trace.begin[0]) / mix.instructions
        stream, random = took[Access.STREAMING], took[Access.RANDOM]
        for what, value, found in zip(("stream", "random"), TABLE_6_2[gpu], (stream, random), strict=True):
            rows.append(number("VV16 table 6.2", gpu, f"{what}, one warp on the GPU", value, found, "cycles", 0.02))
        each = (random - stream) / (32 - TRANSACTIONS[gpu])
        rows.append(number("VV16 table 6.7", gpu, "each further transaction", known, each, "cycles", 0.03))
    return rows


# ---- The page -----------------------------------------------------------------------------------------------------


def made() -> dict[FilePath, str]:
    """What the files hold: the page and its pictures."""
    first, fig_12 = figure_12({gpu: copies(gpu) for gpu in MEI})
    second, fig_15, fig_16 = figures_15_and_16({gpu: short_copies(gpu) for gpu in MEI})
    third, fig_19 = figures_17_to_19()
    fourth = table_6_7()
    every = [*first, *second, *third, *fourth]
    pictures = {DOCS / f"throughput-{name}.svg": text for name, text in (
        ("global", fig_12), ("shared", fig_15), ("shared-ilp", fig_16), ("banks", fig_19))}  # fmt: skip
    out = [
        "# Throughput: the documents' own experiments, redone",
        "",
        "Curves and protocols of MC16 and VV16 on the simulated GPUs, without noise. What `gpudissect discover` makes",
        "of the same GPUs stands in [validation](validation.md). Made by `python validation/throughput.py`.",
        "",
        f"**{sum(row.agrees for row in every)} of {len(every)} rows agree.** Throughputs within 2 % (table 6), 5 % "
        "(table 7, at the shape published) or 15 % (fig 15, of all shapes), latencies within 1 to 3 %, *almost linear* within",
        "10 %.",
        "",
        "## Copies in global memory (MC16 table 6, fig 12)",
        "",
        "CTAs of an SM x threads x independent words of 4 bytes; the ring is table 6. CTAs beyond what an SM holds run",
        "one after the other.",
        "",
        "![Copies in global memory](throughput-global.svg)",
        "",
        *_table(first),
        "",
        "## Copies in shared memory (MC16 table 7, fig 15-16)",
        "",
        "Every thread copies ILP words once, between two barriers and readings of the clock, whose cost (78, 37 and 36",
        "cycles, MC16 s6.1) counts. So little work does not reach what the SM can do, as VV16 s6.1 says of these very",
        "numbers; on Fermi and Kepler stores must take twice as long as loads besides, which the GPU files take from",
        "here. That shared memory gives all of its bandwidth to long runs (VV16 table 6.1) holds at the same time.",
        "Rings are table 7. That the most of all shapes lies above it comes of shapes with more in flight, which gain",
        "nothing on the real GPUs.",
        "",
        "![Copies in shared memory, the best ILP](throughput-shared.svg)",
        "",
        "![Copies in shared memory by ILP](throughput-shared-ilp.svg)",
        "",
        *_table(second),
        "",
        "## Strides over banks (MC16 fig 17-19)",
        "",
        "One warp, dependent loads, even strides; both modes of Kepler.",
        "",
        "![Latency against stride](throughput-banks.svg)",
        "",
        *_table(third),
        "",
        "## Loads that diverge (VV16 table 6.7)",
        "",
        "One warp on the whole GPU: each load 32 transactions instead of the 1, 2 or 4 of a coalesced one.",
        "",
        *_table(fourth),
    ]
    return {PAGE: "\n".join(out) + "\n", **pictures}


def _table(rows: Sequence[Row]) -> list[str]:
    return ["| where | GPU | what | published | found | |", "|---|---|---|---|---|---|", *(row.line for row in rows)]


def main() -> int:
    """Write the files, or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would become another")
    options = parser.parse_args()
    files = made()
    if options.check:
        stale = [path.name for path, text in files.items() if not path.exists() or path.read_text() != text]
        print(f"stale: {', '.join(stale)}: run validation/throughput.py" if stale else "throughput: as written")
        return 1 if stale else 0
    for path, text in files.items():
        path.write_text(text)
    print("\n".join(line for line in files[PAGE].splitlines() if "agree" in line or "differs" in line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
