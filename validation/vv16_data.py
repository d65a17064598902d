"""Data that VV16 prints beside what the simulated SMs give: part of docs/validation-data.csv."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import vv16
from hiding_runs import FERMI, GPUS, KEPLER, MAXWELL, measure, processor_of, run_mix, timeline
from kinds import Kind, yes

from gpudissect.measure.instructions.infer_issue import SmTotals
from gpudissect.measure.latency_hiding.infer_contention import fit_contention
from gpudissect.models.base import Loop
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Access, Instruction, Mix, Step

TOLERANCE = 0.05  # of what a paper measured
THRESHOLD = 0.99  # of the peak of one chain: 92 % is too little, over 99 % is "peak" (VV16 s6.1)
RESIDENT = {"add": Instruction.FADD, "sfu": Instruction.RSQ, "smem": Instruction.LDS, "smem2": Instruction.LDS}
"""Columns of table 6.3 without global memory."""
STEPS, ITERATIONS = 64, 10
MIB = 1 << 20
INDEPENDENT_LOADS = 7  # of listing 3.2
FIGURE_5_1_WAVES, FIGURE_5_1_LOADS = 60, 40
NO_WALK_RATE = "no paper prints the rate of page walks"
UNEXPLAINED = "latency x rate needs {:g}; VV16 s6.1 cannot explain more either"


@dataclass(frozen=True)
class Row:
    """A printed datum and ours."""

    kind: Kind
    gpu: str
    what: str
    published: str
    found: str
    agrees: bool
    source: str
    note: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        verdict = ("agrees" if self.agrees else "differs") + (f": {self.note}" if self.note else "")
        return (
            self.kind.value,
            yes(self.agrees),
            self.gpu,
            self.what,
            self.published,
            self.found,
            verdict,
            self.source,
        )


def vv16_rows() -> Iterator[Row]:
    """All rows, by chapter."""
    yield from listing_3_2()
    yield from not_simulated()
    yield from figure_5_1()
    yield from table_6_3()
    yield from table_6_5()
    yield from figure_6_6()
    yield departure_delay()


def table_6_3() -> Iterator[Row]:
    """Warps of one chain each that reach the peak of one chain, without loops; latency and rate are inputs."""
    for gpu in GPUS:
        for column, instruction in RESIDENT.items():
            rates = _rates(gpu, instruction, _stride(gpu, column))
            peak = max(rates.values())
            found = min(warps for warps, rate in rates.items() if rate >= THRESHOLD * peak)
            schedulers = vv16.value(gpu, "table_2_6", "schedulers")
            printed = round(schedulers * vv16.value(gpu, "table_6_3", column))
            needed = (
                vv16.value(gpu, "table_6_2", column) * vv16.value(gpu, "table_6_1", column) * schedulers / WARP_SIZE
            )
            what = f"{column}: warps of an SM that reach {THRESHOLD:.0%} of the peak"
            note = "" if found == printed else UNEXPLAINED.format(round(needed, 1))
            name = vv16.generation(gpu)
            yield Row(Kind.EMERGENT, name, what, f"{printed}", f"{found}", found == printed, "VV16 table 6.3", note)


def _stride(gpu: str, column: str) -> int:
    """Words between lanes: without conflicts, or with two words in each bank."""
    if column != "smem2":
        return 1
    shared = processor_of(gpu).shared
    return next(stride for stride in (2, 4, 8) if shared.conflict_ways(np.arange(WARP_SIZE) * 4 * stride, 4) == 2)


def _rates(gpu: str, instruction: Instruction, stride: int) -> dict[int, float]:
    """Instructions per cycle of an SM by warps, in as few blocks as possible."""
    processor, rates = processor_of(gpu), {}
    for warps in range(1, processor.warps + 1):
        sizes = [warps // n * WARP_SIZE for n in range(1, processor.blocks + 1) if warps % n == 0]
        size = next((size for size in sizes if size <= processor.block_size), None)
        if size is not None:
            body = (Step(instruction, STEPS),)
            mix = Mix(body=body, warps=warps, block_size=size, iterations=ITERATIONS, stride=stride)
            rates[warps] = SmTotals.of(run_mix(gpu, mix)).attained_rate(mix.instructions)
    return rates


def table_6_5() -> Iterator[Row]:
    """Latency of memory under load, fitted on the simulated GPUs as VV16 fits it."""
    for gpu in GPUS:
        machine, runs = vv16.machine(gpu), measure(gpu, Loop(alpha=0))
        assert runs is not None
        gbs = machine.bytes_per_second("ldg_streaming", runs.rate) / 1e9
        fit = fit_contention(gbs, runs.warps / runs.rate)
        for name, unit in (("a", "cycles"), ("b", "cycles"), ("c", "GB/s")):
            known = vv16.value(gpu, "table_6_5", name)
            ours = None if fit is None else float(getattr(fit, name))
            agrees = ours is not None and abs(ours / known - 1) <= TOLERANCE
            found = "no fit" if ours is None else f"{ours:.4g} {unit} ({ours / known - 1:+.1%})"
            what = f"{name} of latency = a + b x / (c - x)"
            note = "" if agrees else "the simulated memory is one queue, fitted to the warps of table 6.3 alone"
            generation = vv16.generation(gpu)
            yield Row(Kind.DATA, generation, what, f"{known:g} {unit}", found, agrees, "VV16 table 6.5", note)


def listing_3_2() -> Iterator[Row]:
    """The last issue of independent loads of one warp on Fermi: at most five are in flight."""
    step, footprint = (Step(Instruction.LDG),), 256 * MIB
    cycles = []
    for chains in (1, INDEPENDENT_LOADS):
        mix = Mix(body=step, warps=1, block_size=WARP_SIZE, iterations=1, ilp=chains, sms=1)
        trace = run_mix(FERMI, mix, access=Access.STREAMING, footprint=footprint)
        cycles.append(int(trace.end[0] - trace.begin[0]))
    found, printed = cycles[1] - cycles[0], 534
    what = f"cycle at which the {INDEPENDENT_LOADS}th independent load of a warp is issued"
    agrees = abs(found / printed - 1) <= TOLERANCE
    yield Row(Kind.DATA, "Fermi", what, f"{printed}", f"{found}", agrees, "VV16 listing 3.2")


def not_simulated() -> Iterator[Row]:
    """Latencies that VV16 prints and that the simulated SM lacks."""
    for what, printed, source in (
        ("cycle at which the 7th independent store of a warp is issued", "204", "VV16 listing 3.2"),
        ("latency of a branch, not taken and taken", "28 and 32 cycles", "VV16 s3.7, listing 3.3"),
        ("latency of an add with operands in the same register bank", "2 cycles more", "VV16 s5.3"),
    ):
        yield Row(Kind.DATA, "Fermi", what, printed, "not simulated", False, source)


def figure_5_1() -> Iterator[Row]:
    """Occupancy of Kepler with 64 warps in blocks of 4: in step at first, later out of step."""
    options = {"waves": FIGURE_5_1_WAVES, "iterations": FIGURE_5_1_LOADS}
    occupancy = timeline(KEPLER, Instruction.LDG, 64, 4, **options).warps
    share, warps = occupancy.cycles[:-1] / occupancy.cycles[-1], occupancy.warps[:-1]
    cycles = np.diff(occupancy.cycles)
    first, later = share < 5 / FIGURE_5_1_WAVES, (share > 0.5) & (share < 0.9)
    full = [float(cycles[part & (warps == 64)].sum() / cycles[part].sum()) for part in (first, later)]
    lowest = int(warps[later].min())
    source, note = "VV16 s5.6, figure 5.1", "the printed kernel is unknown; ours loads, 40 times in each warp"
    what = "share of the time with all 64 warps, blocks still in step"
    yield Row(Kind.EMERGENT, "Kepler", what, "most", f"{full[0]:.0%}", full[0] > 0.5, source, note)
    what = "the same out of step, and the fewest warps"
    agrees = full[1] < 0.5 and 44 <= lowest <= 52
    found = f"{full[1]:.0%}, {lowest}"
    yield Row(Kind.EMERGENT, "Kepler", what, "short periods, about 48", found, agrees, source, note)


def figure_6_6() -> Iterator[Row]:
    """Random words: the fall at 512 MiB that VV16 cannot explain with caches."""
    for gpu in (FERMI, KEPLER, MAXWELL):
        name, ratio = vv16.generation(gpu), _random(gpu, 512 * MIB) / _random(gpu, 256 * MIB)
        what = "random words: throughput over 512 MiB relative to 256 MiB"
        agrees = 0.7 <= ratio <= 0.8
        yield Row(
            Kind.DATA, name, what, "0.7 to 0.8", f"{ratio:.2f}", agrees, "VV16 s6.7", "" if agrees else NO_WALK_RATE
        )


def _random(gpu: str, size: int) -> float:
    """Loads per cycle of an SM, every lane at random in `size` bytes."""
    warps = vv16.machine(gpu).warps
    mix = Mix(body=(Step(Instruction.LDG),), warps=warps, block_size=8 * WARP_SIZE, iterations=100)
    trace = run_mix(gpu, mix, access=Access.RANDOM, footprint=size)
    return SmTotals.of(trace).attained_rate(mix.instructions)


def departure_delay() -> Row:
    """Cycles of a transaction of one SM that has the memory to itself (VV16 s7.4)."""
    mix = Mix(
        body=(Step(Instruction.LDG),), warps=vv16.machine(FERMI).warps, block_size=8 * WARP_SIZE, iterations=200, sms=1
    )
    trace = run_mix(FERMI, mix, access=Access.RANDOM, footprint=256 * MIB)
    found = 1 / (WARP_SIZE * SmTotals.of(trace).attained_rate(mix.instructions))
    what = "random words of one SM alone: cycles of a transaction"
    agrees = abs(found / 8.6 - 1) <= TOLERANCE
    return Row(Kind.ROUND_TRIP, "Fermi", what, "8.6", f"{found:.2f}", agrees, "VV16 s7.4")
