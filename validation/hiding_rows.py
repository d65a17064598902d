"""Numbers that VV16 prints and that follow from a model or a table alone, beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from gpudissect.models import hong_kim, one_latency, published
from gpudissect.models.baghsorkhi import Baghsorkhi
from gpudissect.models.base import Loop, Machine, Unit
from gpudissect.models.evaluation import cusp, warps_needed
from gpudissect.models.huang import GreedyThenOldest, RoundRobin, WithBandwidth
from gpudissect.models.one_latency import Agarwal
from gpudissect.models.published import synthetic, vector_add
from gpudissect.models.volkov import Basic, Refined
from gpudissect.models.worksheet import Issue, Sheet, after_barrier, timeline, worksheet
from gpudissect.models.zhang_owens import Added, ZhangOwens

BYTES = 10.4  # a cycle of one SM, VV16 table 3.3
WRITTEN = "the formula"
SYNTHETIC = synthetic()


@dataclass(frozen=True)
class Row:
    """One printed number.

    Attributes:
        place: section, table or figure.
        what: it is.
        printed, ours: the two.
        within: how far apart they may be: half of the last digit printed, or more where `near` says why.
        near: why they are not equal to the last digit.
        about: what a careful reader must know beside.

    """

    place: str
    what: str
    printed: float
    ours: float
    within: float
    near: str = ""
    about: str = ""

    @property
    def agrees(self) -> bool:
        return abs(self.printed - self.ours) <= self.within * (1 + 1e-9)


def rows() -> list[Row]:
    """All of them, in the order of the chapters."""
    return [*_chapter_3(), *_vector_add(), *_chapter_4(), *_one_latency(), *_chapter_6(), *_hong_kim(),
            *_baghsorkhi(), *_isolation(), *_sim(), *_huang()]  # fmt: skip


def _five() -> tuple[Machine, ...]:
    return tuple(published.machines().values())


def table_3_4() -> Sheet:
    """The worksheet of VV16 tables 3.2 to 3.4."""

    def unit(resource: str, rate: float, moved: float = 0, slots: float = 1) -> Unit:
        return Unit(resource=resource, latency=1, throughput=rate, bytes=moved, slots=slots)

    units = {
        "fadd": unit("CUDA cores", 4), "rsq": unit("SFU units", 1), "lds": unit("shared memory banks", 1),
        "lds_2way": unit("shared memory banks", 0.5, slots=2),
        "ldg_streaming": unit("memory system", BYTES / 128, 128),
        "ldg_stride2": unit("memory system", BYTES / 256, 256, 2),
    }  # fmt: skip
    counts = {"fadd": 100, "rsq": 5, "lds": 10, "lds_2way": 10, "ldg_streaming": 5, "ldg_stride2": 5}
    return worksheet(replace(published.machine("gtx980"), units=units), counts, 64, pairs=5)


def _chapter_3() -> Iterator[Row]:
    maxwell = published.machine("gtx980")
    adds, loads = maxwell.unit("fadd"), maxwell.unit("ldg_streaming")
    yield Row("table 3.1", "instructions needed, arithmetic, Maxwell", 24, adds.latency * adds.throughput, 0)
    yield Row("table 3.1", "instructions needed, memory, Maxwell", 30, loads.latency * loads.throughput, 0.5)
    pins = maxwell.pin_throughput("ldg_streaming")
    yield Row("s3.2", "pin bandwidth in IPC, Maxwell", 0.086, pins, 5e-4)
    yield Row("s3.2", "instructions needed at it", 33, loads.latency * pins, 0.5,
              "0.086 x 368 is 31.8: the two printed factors do not give the product")  # fmt: skip
    sheet = table_3_4()
    for resource, printed in (("CUDA cores", 25), ("SFU units", 5), ("shared memory banks", 30),
                              ("memory system", 184.5), ("issue", 36.25)):  # fmt: skip
        note = "12.3 CPI is printed rounded" if printed == 184.5 else ""
        yield Row("table 3.4", f"{resource}, cycles", printed, sheet.totals[resource], 0.2 if note else 0.01, note)
    yield Row("s3.6", "throughput bound, warps a cycle", 0.00542, sheet.throughput_bound, 5e-6)
    chain = [Issue("LD", 301, ("R1",), "R1"), Issue("LDS", 24, ("R1",), "R1"), Issue("FADD", 9, ("R1",), "R1"),
             Issue("RSQ", 9, ("R1",), "R1"), Issue("ST", 9, ("R1",))]  # fmt: skip
    yield Row("listing 3.1", "issue of the store, cycle", 343, timeline(chain, reissue=3, width=2).end, 0)
    adds7 = [Issue("FADD", 18, (f"R{i}",), f"R{i}") for i in range(7)]
    yield Row("listing 3.2", "issue of the 7th add on Fermi, cycle", 36, timeline(adds7, reissue=6).end, 0)
    yield Row("listing 3.3", "issue after the barrier, cycle", 580, after_barrier([546, 32], 34), 0)
    yield Row("s3.10", "traffic of a random permutation, 32 B transactions", 3.3, (256 + 32 * 32) / 384, 0.05)
    yield Row("s3.10", "the same with 128 B", 11, (256 + 32 * 128) / 384, 0.5)


def _vector_add() -> Iterator[Row]:
    kepler = published.machine("gtx680")
    found = timeline(vector_add(), reissue=kepler.reissue, width=2, replacement=201)
    yield Row("s3.8, figure 3.5", "vector addition: warp latency, cycles", 544, found.end, 0)
    peak = published.value("gtx680", "table_6_4", "peak_gbs") * 1e9
    share = peak / (kepler.sms * kepler.clock_hz)
    units = {"core": Unit(resource="cores", latency=9, throughput=6),
             "load": Unit(resource="memory", latency=301, throughput=share / 128, bytes=128)}  # fmt: skip
    machine = replace(kepler, units=units)
    one = worksheet(machine, {"core": 9, "load": 3}, 1, latency=found.end, pairs=len(found.pairs))
    yield Row("s3.8", "memory, B a cycle of one SM", 17.1, share, 0.05)
    yield Row("s3.8", "cycles a warp of one scheduler, issue", 8, 4 * one.totals["issue"], 0)
    yield Row("s3.8", "throughput bound, warps a cycle", 0.0445, one.throughput_bound, 1e-4)
    yield Row("s3.8", "GB/s of each warp", 6.35, one.bytes_per_second() / 1e9, 0.005)
    full = worksheet(machine, {"core": 9, "load": 3}, 64, latency=found.end, pairs=len(found.pairs))
    yield Row("s3.8", "GB/s at most", 154, full.bytes_per_second() / 1e9, 1e-6)
    yield Row("s3.9", "IPC at 156 GB/s", 0.54, 12 * 156e9 / (384 * kepler.sms * kepler.clock_hz), 0.005)


def _chapter_4() -> Iterator[Row]:
    for gpu, machine in published.machines().items():
        worst = 0.0
        a, m = machine.unit("fadd"), machine.unit("ldg_streaming")
        for alpha in (0.25, 1, 7, 32, 64, 512):
            n = np.arange(1, machine.warps + 1)
            compute = a.throughput / alpha if a.throughput < machine.issue else machine.issue / (alpha + 1)
            solution = np.minimum(n / (m.latency + a.latency * alpha), min(m.throughput, compute))
            loop = Loop(alpha=alpha)
            ours = loop.accesses(Basic().throughput(machine, loop, n))
            worst = max(worst, float(np.abs(ours / solution - 1).max()))
        yield Row("table 4.2", f"{published.generation(gpu)}: largest deviation from the solution", 0, worst, 1e-9,
                  about=WRITTEN)  # fmt: skip
    maxwell = published.machine("gtx980")
    yield Row("s4.3", "random accesses, Maxwell, IPC", 0.0029, maxwell.unit("ldg_random").throughput, 5e-5)
    for gpu in published.gpus():
        ratio = published.value(gpu, "table_6_3", "stream") / published.value(gpu, "table_6_3", "add")
        yield Row("s4.3", f"{published.generation(gpu)}: warps for 90 % of memory over those for arithmetic",
                  published.value(gpu, "section_4_3", "ratio"), ratio, 0.051)  # fmt: skip
    yield Row("s4.4", "arithmetic outpaces memory by, a year", 1.24, outpaced(), 0.05,
              "printed of all GeForce GPUs; ours of the five, 2006 to 2014")  # fmt: skip
    top = cusp(Basic(), maxwell, [Loop(alpha=alpha / 10) for alpha in range(10, 5121)])
    assert top is not None
    yield Row("s4.5, figure 4.5", "cusp on Maxwell, alpha", 49, top.alpha, 1, "48.1 as issue binds, 49.1 as cores do")
    yield Row("s4.5, figure 4.5", "cusp on Maxwell, warps", 54, top.warps, 0.6, "53.5 as issue binds, 54.0 as cores do")
    yield Row("s4.5, figure 4.5", "warps at alpha 0", 30, warps_needed(Basic(), maxwell, Loop(alpha=0)) or inf, 0.5)
    yield Row(
        "s4.5, figure 4.5", "warps at alpha infinite", 24, warps_needed(Basic(), maxwell, Loop(alpha=inf)) or inf, 1e-6
    )
    small = {"fadd": Unit(resource="cores", latency=3, throughput=1),
             "ldg_streaming": Unit(resource="memory", latency=12, throughput=1)}  # fmt: skip
    example = replace(maxwell, issue=9, units=small)
    loop = Loop(alpha=4)
    rate = float(Basic().throughput(example, loop, 6))
    yield Row("s4.6, figure 4.7", "arithmetic instructions in execution", 3, rate * loop.arithmetic_share * 3, 1e-6)
    yield Row("s4.6, figure 4.7", "memory instructions in execution", 3, rate * loop.access_share * 12, 1e-6)
    yield Row("s4.6, figure 4.7", "warps needed", 6, warps_needed(Basic(), example, loop) or inf, 1e-6)


def outpaced() -> float:
    """Growth of arithmetic over memory throughput a year, fitted to the five GPUs (VV16 s4.4)."""
    years = np.arange(2006, 2016, 2)
    slope = np.polyfit(years, np.log(memory_over_arithmetic()), 1)[0]
    return float(np.exp(-slope))


def memory_over_arithmetic() -> list[float]:
    """Pin bandwidth over CUDA cores times clock, B a core and cycle (VV16 figure 4.4)."""
    return [
        published.value(gpu, "table_2_7", "pin_bandwidth_gbs")
        / (published.value(gpu, "table_2_6", "cuda_cores") * published.value(gpu, "table_2_6", "sms")
           * published.value(gpu, "table_2_7", "clock_ghz"))
        for gpu in published.gpus()
    ]  # fmt: skip


def _one_latency() -> Iterator[Row]:
    for gpu, machine in published.machines().items():
        loop = Loop(alpha=published.value(gpu, "table_4_3", "alpha"))
        printed = published.value(gpu, "table_4_3", "estimate")
        yield Row("table 4.3", f"{machine.name}: warps needed, programming guide", printed,
                  one_latency.guide_warps(machine, loop), 0.5 if printed > 10 else 0.05)  # fmt: skip
    kepler = published.machine("gtx680")
    yield Row(
        "s4.8", "Kepler: the better estimate", 74, one_latency.guide_warps_with_arithmetic(kepler, Loop(alpha=32)), 0.5
    )
    guide = replace(kepler, units={"fadd": Unit(resource="cores", latency=9, throughput=0.25),
                                   "ldg_streaming": Unit(resource="memory", latency=600, throughput=1)})  # fmt: skip
    yield Row("s4.8", "the guide's example, warps", 5, one_latency.guide_warps(guide, Loop(alpha=30)), 1e-6)
    yield Row("s4.8", "the same with the stalled warp", 6,
              one_latency.guide_warps_with_access(guide, Loop(alpha=30)), 0.2,
              "printed rounded to whole warps: 600 / (4 x 31) + 1")  # fmt: skip
    loop = Loop(alpha=32)
    for machine in _five():
        both = Agarwal.threads_needed(*Agarwal().cycles(machine, loop)) - hong_kim.cwp_full(machine, loop)
        yield Row("s4.9", f"{machine.name}: Agarwal's threads less Hong & Kim's warps, alpha 32", 0, both, 1e-9)
    yield Row("s4.13", "GB/s of 16 coalesced loads a cycle at 1 GHz", 2048, 16 * 128.0, 0)


def _chapter_6() -> Iterator[Row]:
    for gpu, machine in published.machines().items():
        name, unit = machine.name, machine.unit("ldg_streaming")
        linear = unit.latency * unit.throughput / machine.schedulers
        yield Row("table 6.4", f"{name}: linear, warps a scheduler", published.value(gpu, "table_6_4", "linear"),
                  linear, 0.25)  # fmt: skip
    for gpu in published.gpus():
        further = 32 - published.value(gpu, "section_6_7", "transactions")
        more = published.value(gpu, "table_6_2", "random") - published.value(gpu, "table_6_2", "stream")
        printed = published.value(gpu, "table_6_7", "transaction_latency")
        yield Row("table 6.7", f"{published.generation(gpu)}: cycles of a further transaction", printed,
                  more / further, 0.5 if printed > 10 else 0.05)  # fmt: skip
    kepler, maxwell = published.machine("gtx680"), published.machine("gtx980")
    yield Row("s6.1", "Kepler: special functions needed, of an SM", 9, _product(kepler, "rsq"), 1e-9)
    yield Row("s6.1", "Maxwell: accesses to shared memory needed, of an SM", 24, _product(maxwell, "lds"), 1e-9)
    yield Row("s6.3", "MC16's 156 GB/s at the full memory clock", 182, 156 * 3.5 / 3.0, 0.5)
    ((_, c),) = kepler.contention["ldg_streaming"].terms
    yield Row("s6.5", "Kepler: c in accesses a cycle", 0.1477, c, 5e-5)
    loop = Loop(alpha=32)
    n = np.arange(1, 65)
    x = loop.accesses(Refined().throughput(kepler, loop, n))
    right = np.minimum(n / (300 + 32 * x / (c - x) + 9 * 32), min(0.1338, 4 / 33))
    yield Row(
        "s6.5", "Kepler, alpha 32: residual of the equation", 0, float(np.abs(x / right - 1).max()), 1e-6, about=WRITTEN
    )
    for gpu, machine in published.machines().items():
        for share, column in ((0.9, "at_90"), (0.95, "at_95")):
            found = warps_needed(Refined(), machine, Loop(alpha=0), share) or inf
            printed = published.value(gpu, "table_6_4", column)
            yield Row("table 6.4", f"{machine.name}: warps a scheduler for {share:.0%}, by the refined model", printed,
                      found / machine.schedulers, 0.2 * printed, "printed: measured; within 20 %")  # fmt: skip


def _product(machine: Machine, kind: str) -> float:
    unit = machine.unit(kind)
    return unit.latency * unit.throughput


def _hong_kim() -> Iterator[Row]:
    machine, loop = published.machine("gtx280"), Loop(alpha=32)
    yield Row("s7.1", "MWP_peak_bw, GTX280", 12.4, hong_kim.mwp_peak_bw(machine, loop), 0.05)
    yield Row("s7.1", "CWP, alpha 32", 4.3, hong_kim.cwp_full(machine, loop), 0.05)
    model = hong_kim.HongKim()

    def time(n: float) -> float:
        return n / float(loop.accesses(model.throughput(machine, loop, n)))

    yield Row("s7.1, Eq. 22", "time at 4 warps: 434 + 4 (alpha + 1)", 434 + 4 * 33, time(4), 1e-6)
    yield Row("s7.1, Eq. 24", "time at 10 warps: 4 n (alpha + 1)", 4 * 10 * 33, time(10), 1e-6)
    flat = 1 / float(model.throughput(machine, Loop(alpha=inf), 1))
    yield Row("s7.1", "CPI of adds alone, any occupancy", 4, flat, 1e-9)
    quotient = float(model.throughput(machine, loop, 1) / Basic().throughput(machine, loop, 1))
    yield Row("s7.1", "over-estimate at few warps, alpha 32", 2.1, quotient, 0.05,
              "printed: over measurement; ours: over 434 + 24 alpha")  # fmt: skip


def _baghsorkhi() -> Iterator[Row]:
    machine, model = published.machine("8800gtx"), Baghsorkhi()
    n = np.arange(1, 25)
    for alpha in (0, 11, 32):
        loop = Loop(alpha=alpha)
        x = alpha * np.maximum(4, 20 / n) + 4
        closed = np.maximum(np.maximum(1 / 0.0268, x), 440 - (n - 2) * x)
        ours = 1 / loop.accesses(model.throughput(machine, loop, n))
        yield Row("s7.2", f"max(37, x, 440 - (n - 2) x), alpha {alpha}: largest deviation", 0,
                  float(np.abs(ours / closed - 1).max()), 1e-9, about=WRITTEN)  # fmt: skip
    alone = Loop(alpha=0)
    yield Row("s7.2", "1 / max(448 - 4 n, 37) at 24 warps, cycles", 448 - 96,
              1 / float(model.throughput(machine, alone, 24)), 1e-6)  # fmt: skip
    yield Row("s7.2", "warps to peak memory throughput: over", 100, warps_needed(model, machine, alone) or inf, 5,
              "printed: over 100")  # fmt: skip
    yield Row("s7.2", "CYC_mem / NUM_mem, cycles", 37, 1 / machine.unit("ldg_streaming").throughput, 0.5)


def _isolation() -> Iterator[Row]:
    machine, loop = published.machine("gtx280"), Loop(alpha=16)
    n = np.arange(1, 33)
    alu, mem = np.minimum(n / 24, 0.25), np.minimum(n / 434, 0.0277)
    ours = loop.operations(ZhangOwens().throughput(machine, loop, n))
    worst = float(np.abs(ours / (32 * np.minimum(alu, 16 * mem)) - 1).max())
    yield Row("s7.3, s4.11", "min(alu(n), alpha mem(n)): largest deviation", 0, worst, 1e-9, about=WRITTEN)
    ours = loop.operations(Added().throughput(machine, loop, n))
    worst = float(np.abs(ours / (32 * 16 / (16 / alu + 1 / mem)) - 1).max())
    yield Row("s7.3, s4.12", "times added: largest deviation", 0, worst, 1e-9, about=WRITTEN)


def _sim() -> Iterator[Row]:
    printed = published.tables()["table_7_1"]["mwp_peak_bw"]
    for gpu, number in zip(published.gpus()[2:], printed, strict=True):
        machine = published.machine(gpu)
        peak = published.value(gpu, "table_6_4", "peak_gbs") * 1e9
        exact = peak / (machine.sms * machine.clock_hz * 128)
        units = {**machine.units, "ldg_streaming": replace(machine.unit("ldg_streaming"), throughput=exact)}
        ours = hong_kim.Sim.mwp_peak_bw(replace(machine, units=units), Loop(alpha=0))
        yield Row("table 7.1", f"{machine.name}: MWP_peak_bw", number, ours, 0.05, about="of the GB/s of table 6.4")
    fermi, n = published.machine("gtx480"), np.arange(1, 49)
    loop = Loop(alpha=32)
    alu = np.maximum(18 / n, 1)
    cwp, mwp = np.minimum(n, 1 + 513 / (33 * alu)), np.minimum(n, 513 * 0.0599)
    comp, mem = 33 * n * alu, n * 513 / np.minimum(mwp, np.maximum(1, cwp - 1))
    time = np.where(cwp > mwp, np.maximum(comp, mem), np.maximum(comp, mem + comp / n))
    ours = n / loop.accesses(hong_kim.Sim().throughput(fermi, loop, n))
    yield Row("s7.4, Eq. 1-17", "T_exec, Fermi, alpha 32: largest deviation", 0, float(np.abs(ours / time - 1).max()),
              1e-9, about=WRITTEN)  # fmt: skip
    low = Loop(alpha=0)
    for warps, factor in ((2, 2.0), (4, 1.3)):
        ours_too = float(Basic().throughput(fermi, low, warps) / hong_kim.Sim().throughput(fermi, low, warps))
        yield Row("s7.4, s7.9", f"under-estimate by CWP - 1 at {warps} warps", factor, ours_too, 0.1,
                  "printed: under measurement; ours: under the basic model")  # fmt: skip
    capped = hong_kim.Sim(departure_delay=32).throughput(fermi, low, 500)
    yield Row("s7.4", "Fermi with a departure delay of 32: GB/s", 84,
              float(fermi.bytes_per_second("ldg_streaming", capped)) / 1e9, 0.5)  # fmt: skip
    yield Row("s7.4", "C2050 at 22 warps and 0.335 GB/s each: GB/s", 103, 0.335 * 22 * 14, 0.5)


def _huang() -> Iterator[Row]:
    fermi, kepler, maxwell = (published.machine(gpu) for gpu in published.gpus()[2:])
    rr, gto = RoundRobin(), GreedyThenOldest()
    zero, mixed, adds = Loop(alpha=0), Loop(alpha=32), Loop(alpha=inf)
    full = fermi.bytes_per_second("ldg_streaming", rr.throughput(fermi, zero, 48))
    yield Row("s7.5", "Fermi, alpha 0, 48 warps: GB/s", 252, float(full) / 1e9, 0.5)
    yield Row("s7.5", "Maxwell, alpha infinite, 64 warps: adds a cycle", 341,
              float(adds.operations(rr.throughput(maxwell, adds, 64))), 0.5)  # fmt: skip
    note = "printed as adds; it is 32 times all instructions, adds are 111"
    for model in (Basic(), rr, gto):
        yield Row("s7.5, s7.6", f"Kepler, alpha 32, 64 warps, {model.name}", 115,
                  float(32 * model.throughput(kepler, mixed, 64)), 0.5, about=note)  # fmt: skip
    yield Row("s7.6", "peak issue exceeded, latency 25, %", 4,
              100 * (float(gto.throughput(SYNTHETIC, adds, 1e9)) - 1), 0.5)  # fmt: skip
    yield Row("s7.6", "peak issue exceeded, Maxwell, %", 20,
              100 * (float(gto.throughput(maxwell, adds, 1e9)) / 4 - 1), 0.5)  # fmt: skip
    queue = WithBandwidth(rr)
    yield Row("s7.7", "synthetic GPU: rho at 32 warps", 1.14, float(queue.utilisation(SYNTHETIC, zero, 32)), 5e-3)
    yield Row("s7.7", "rho at 29 warps", 1.03, float(queue.utilisation(SYNTHETIC, zero, 29)), 5e-3)
    yield Row("s7.7", "Bandwidth_delay at 29 warps, cycles", -11, float(queue.delay(SYNTHETIC, zero, 29)), 0.5)
    yield Row("s7.7", "CPI at 29 warps", -0.7, 1 / float(queue.throughput(SYNTHETIC, zero, 29)), 0.05)
    yield Row("s7.7, figure 7.10", "singular at, warps", 28.1, 28 / float(queue.utilisation(SYNTHETIC, zero, 28)), 0.05)
    for policy in (rr, gto):
        model = WithBandwidth(policy)
        yield Row("s7.7", f"Fermi, alpha 32, 34 warps, {policy.name}: adds a cycle", -12,
                  float(mixed.operations(model.throughput(fermi, mixed, 34))), 0.5)  # fmt: skip
    stride = Loop(alpha=0, access="ldg_stride2")
    yield Row(
        "s7.8", "Fermi, stride 2, 17 warps: Bandwidth_delay, cycles", -120, float(queue.delay(fermi, stride, 17)), 0.5
    )
    for policy in (rr, gto):
        cpi = 1 / float(WithBandwidth(policy).throughput(fermi, stride, 17))
        yield Row("s7.8", f"the same, {policy.name}: CPI", -89, cpi, 0.5)
