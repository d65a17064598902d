"""VV16's figures 5.2 to 5.5, 6.5 and 6.6 from the simulated GPUs, and how near they come to what is printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import numpy as np
from hiding_figures import FERMI, G80, GPUS, WARPS, Experiment, Figure
from hiding_page_figures import stairs
from hiding_runs import (
    IMBALANCED,
    LIKE_IT,
    SIZES,
    WITH_L2,
    best_bandwidth,
    by_block,
    imbalanced,
    jigsaw,
    l2_of,
    persistent_or_not,
    random_bandwidth,
    single_loads,
)
from svg import Line, Panel, Points

from gpudissect.measure.latency_hiding.infer_warps import Occupancy
from gpudissect.models import published
from gpudissect.models.base import Loop
from gpudissect.models.evaluation import best_samples

PERCENTS = (0, 5, 25, 50, 75, 95, 100)
COMPARED = (1, 3, 5)  # of these: those that do not hang on how many samples there are
SHARES = ((0.90, "at_90"), (0.95, "at_95"))
WORD = 4


@dataclass(frozen=True)
class Shown:
    """Something printed and the same of a simulated GPU; `note` says why they differ."""

    place: str
    what: str
    printed: str
    ours: str
    near: float | None = None
    note: str = ""

    @property
    def line(self) -> str:
        off = "" if self.near is None else f"{self.near - 1:+.1%}"
        notes = "; ".join(text for text in (off, self.note) if text)
        return f"| {self.place} | {self.what} | {self.printed} | {self.ours} | {notes} |"


def lines(experiment: Experiment) -> list[str]:
    """A section of the page, in Markdown."""
    found = [*_occupancy(), *_streaming(experiment), *_singles(), *_random()]
    known = [abs(each.near - 1) for each in found if each.near is not None]
    within = [sum(off <= share for off in known) for share in (0.05, 0.1)]
    return ["", "## Occupancy against time, single loads, random words: simulated GPUs", "",
            "What VV16 chapters 5 and 6 print of experiments, beside the same on the simulated GPUs.",
            "The simulated GPUs are given latencies, peaks and the warps of 90 %: rows of those show only that the",
            "simulation keeps to them. Nobody told it of imbalance, of shares at fewer or more warps, of percentiles.",
            f"Of {len(known)} numbers ours are within 5 % of {within[0]}, within 10 % of {within[1]}.", "",
            "| where | what | printed | ours | |", "|---|---|---|---|---|", *(each.line for each in found)]  # fmt: skip


def figures(experiment: Experiment) -> Iterator[Figure]:
    """Those of chapter 5, and 6.5 and 6.6."""
    rates = Points("one block, from 34 warps on two", *zip(*jigsaw(), strict=True))
    yield Figure("5-02", "figure 5.2: load imbalance, reciprocal roots on Kepler",
                 (Panel("throughput", WARPS, "IPC per SM", (rates,)),
                  _against_time(f"{IMBALANCED} warps in one block", imbalanced().warps)))  # fmt: skip
    runs = by_block()
    yield Figure("5-03", "figure 5.3: block sizes, 64 warps of streaming loads on Kepler",
                 (Panel("throughput", "warps of a block", "IPC per SM",
                        (Points("simulated", list(runs), [each.rate for each in runs.values()]),)),
                  *(_against_time(f"blocks of {n} warps", runs[n].warps) for n in (min(runs), max(runs)))))  # fmt: skip
    one, many = persistent_or_not()
    yield Figure("5-04", "figure 5.4: shared memory on G80, 20 warps in blocks of 10",
                 (_against_time("persistent", one.warps), _against_time("oversubscribed", many.warps)))  # fmt: skip
    yield Figure("5-05", "figure 5.5: streaming loads", tuple(_streamed(gpu, experiment) for gpu in GPUS))
    yield Figure("6-05", "figure 6.5: latencies of single loads on Kepler", tuple(_distributions()))
    panels = []
    for gpu in GPUS:
        got = random_bandwidth(gpu)
        items: list[Line | Points] = []
        if l2_of(gpu):
            items.append(Line("its L2", [l2_of(gpu) / 2**20] * 2, [min(got), max(got)], "dashed"))
        items.append(Line("table 6.1", [SIZES[0] / 2**20, SIZES[-1] / 2**20], [_of_table(gpu)] * 2, "thick"))
        items.append(Points("simulated", [size / 2**20 for size in SIZES], got))
        panels.append(Panel(published.generation(gpu), "MiB", "GB/s", items, log=True))
    yield Figure("6-06", "figure 6.6: random words, by size of the array", tuple(panels))


def _against_time(title: str, seen: Occupancy) -> Panel:
    return Panel(title, "cycles", WARPS, (stairs("warps of one SM", seen.at, seen.warps),))


def _streamed(gpu: str, experiment: Experiment) -> Panel:
    machine, measured = published.machine(gpu), experiment(gpu, Loop(alpha=0))
    assert measured is not None
    gbs = machine.bytes_per_second("ldg_streaming", measured.rate) / 1e9
    peak = published.value(gpu, "table_6_4", "peak_gbs")
    ours = best_bandwidth(gpu)
    ends = [0, machine.warps]
    return Panel(machine.name, WARPS, "GB/s", (Line("peak, printed", ends, [peak] * 2, "thick"),
                 Line("peak, simulated, any chains", ends, [ours] * 2, "dashed"),
                 Points("simulated, one chain", measured.warps, gbs)))  # fmt: skip


def _distributions() -> Iterator[Panel]:
    table, loads = published.tables()["table_6_6"], single_loads()
    ours = [each.single.percentiles(PERCENTS) for each in loads]
    items: list[Line | Points] = []
    for k in (1, 2, 3, 4, 5):
        name = table["percentiles"][k]
        items.append(Line(f"{name}, printed", table["gbs"], [row[k] for row in table["latency"]],
                          "thin" if name == "50th" else "dashed"))  # fmt: skip
    at = [each.gbs for each in loads for _ in COMPARED]
    items.append(Points("5th, 50th, 95th, simulated", at, [row[k] for row in ours for k in COMPARED]))
    yield Panel("percentiles", "GB/s", "cycles", items)
    for load in (loads[0], loads[4], loads[6]):
        cycles, density = load.single.density(60)
        title = f"{load.gbs:.3g} GB/s, {load.warps} warps"
        yield Panel(title, "cycles", "density", (Line("share of the loads a cycle", cycles, density, "thin"),))


def _occupancy() -> Iterator[Shown]:
    rates, seen = dict(jigsaw()), imbalanced()
    quotient = seen.rate / rates[LIKE_IT]
    held = seen.warps.warps[:-1], np.diff(seen.warps.at)
    spent = {int(n): float(held[1][held[0] == n].sum()) / float(held[1].sum()) for n in np.unique(held[0])}
    left = max((n for n in spent if n < IMBALANCED), key=lambda n: spent[n])
    yield Shown("s5.8, figure 5.2", "reciprocal roots on Kepler, throughput of 17 warps over that of 16", "0.85",
                f"{quotient:.3f}", quotient / 0.85)  # fmt: skip
    yield Shown("s5.8, figure 5.2", "warps left for a substantial part of the time", "5",
                f"{left}, for {spent[left]:.0%} of it", left / 5)  # fmt: skip
    by = {n: each.rate for n, each in by_block().items()}
    apart = max(by.values()) / min(by.values()) - 1
    yield Shown("s5.8, figure 5.3", "64 warps: throughput depends on the size of blocks", "shorter ones are faster",
                f"{apart:.1%} apart, best of {max(by, key=lambda n: by[n])} warps",
                note="the mix is not printed, ours are streaming loads; simulated blocks start at once "
                     "where others end" if apart < 0.02 else "")  # fmt: skip
    one, many = persistent_or_not()
    half = _fallen(one.warps, 10)
    fair = "the simulated scheduler takes turns: no warp runs ahead of others" if half > 0.9 else ""
    yield Shown("s5.9, figure 5.4", "shared memory on G80: half of the warps end at, of the time", "about 2/3",
                f"{half:.3f}", half / (2 / 3), fair)  # fmt: skip
    yield Shown("s5.9", "share of the time with less than 9 warps", "0.07", f"{one.warps.below(9):.4f}", note=fair)
    yield Shown("s5.9", "throughput oversubscribed over persistent", "larger by a few percent",
                f"{many.rate / one.rate - 1:+.1%}", note=fair)  # fmt: skip


def _fallen(seen: Occupancy, warps: int) -> float:
    """Share of the time after which no more than so many warps are left."""
    peak = int(np.argmax(seen.warps))
    after = peak + int(np.argmax(seen.warps[peak:] <= warps))
    return float(seen.at[after] / seen.at[-1])


def _streaming(experiment: Experiment) -> Iterator[Shown]:
    for gpu in GPUS:
        name, machine = published.generation(gpu), published.machine(gpu)
        printed, ours = published.value(gpu, "table_6_4", "peak_gbs"), best_bandwidth(gpu)
        yield Shown("table 6.4, figure 5.5", f"{name}: peak of streaming loads, GB/s", f"{printed:g}", f"{ours:.4g}",
                    ours / printed)  # fmt: skip
        measured = experiment(gpu, Loop(alpha=0))
        assert measured is not None
        best = best_samples(measured)
        gbs = machine.bytes_per_second("ldg_streaming", best.rate) / 1e9
        linear = published.value(gpu, "table_6_4", "linear") * machine.schedulers
        share = float(np.interp(linear, best.warps, gbs)) / ours
        said = published.value(gpu, "table_6_4", "share_at_linear")
        yield Shown("table 6.4", f"{name}: share of the peak at latency times throughput", f"{said:g}", f"{share:.2f}",
                    share / said)  # fmt: skip
        for least, column in SHARES:
            said = published.value(gpu, "table_6_4", column)
            reached = best.warps[gbs >= least * ours]
            got = float(reached.min()) / machine.schedulers if reached.size else inf
            yield Shown("table 6.4", f"{name}: warps a scheduler for {least:.0%}", f"{said:g}",
                        f"{got:g}" if got < inf else "not reached", got / said if got < inf else None,
                        "printed: with two chains" if gpu == FERMI and column == "at_95" else "")  # fmt: skip


def _singles() -> Iterator[Shown]:
    table = published.tables()["table_6_6"]
    for gbs, row, load in zip(table["gbs"], table["latency"], single_loads(), strict=True):
        ours = load.single.percentiles(PERCENTS)
        for k in COMPARED:
            what = f"Kepler at {gbs:g} GB/s: {table['percentiles'][k]} percentile, cycles"
            got = f"{ours[k]:g} at {load.gbs:.3g} GB/s"
            yield Shown("table 6.6", what, f"{row[k]}", got, ours[k] / row[k])


def _of_table(gpu: str) -> float:
    """GB/s of random words that VV16 table 6.1 gives."""
    machine = published.machine(gpu)
    each = published.value(gpu, "table_6_1", "random") * published.value(gpu, "table_2_6", "schedulers")
    return each * WORD * machine.sms * machine.clock_hz / 1e9


def _random() -> Iterator[Shown]:
    for gpu in GPUS:
        got, name = random_bandwidth(gpu), published.generation(gpu)
        yield Shown("table 6.1, figure 6.6", f"{name}: random words in memory, GB/s", f"{_of_table(gpu):.3g}",
                    f"{got[-1]:.3g}", got[-1] / _of_table(gpu))  # fmt: skip
    for gpu in WITH_L2:
        got = random_bandwidth(gpu)
        drop = max(range(1, len(got)), key=lambda k: got[k - 1] / got[k])
        what = f"{published.generation(gpu)}: throughput falls with the array"
        yield Shown("s6.7, figure 6.6", what, "at the L2's end",
                    f"from {_mib(SIZES[drop - 1])} to {_mib(SIZES[drop])} by {got[drop - 1] / got[drop]:.3g}",
                    note=f"its L2: {_mib(l2_of(gpu))}")  # fmt: skip
    for gpu, times in ((G80, ""), (GPUS[1], " beyond 32 MiB")):
        got = random_bandwidth(gpu)
        yield Shown("s6.7, figure 6.6", f"{published.generation(gpu)}: throughput falls with the array{times}",
                    "by 25 or 100", f"by {max(got) / min(got):.3g}",
                    note="TLBs are not simulated in mixes" if max(got) < 2 * min(got) else "")  # fmt: skip


def _mib(size: float) -> str:
    return f"{size / 2**20:g} MiB"
