"""Numbers that VV16 prints and that follow from a model or a table alone, beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import vv16
from issue_times import Issue, timeline
from needed import cusp, guide_warps, guide_warps_with_access, guide_warps_with_arithmetic

from gpudissect.models import hong_kim
from gpudissect.models.base import Floats, Loop, Machine, Unit
from gpudissect.models.evaluation import warps_needed
from gpudissect.models.huang import GreedyThenOldest, RoundRobin, WithBandwidth
from gpudissect.models.one_latency import Agarwal
from gpudissect.models.separate_times import Added, Baghsorkhi, ZhangOwens
from gpudissect.models.volkov import Basic, Refined
from gpudissect.models.worksheet import Sheet, worksheet
from gpudissect.units import WARP_SIZE

SYNTHETIC = vv16.synthetic()
G80, GT200, FERMI, KEPLER, MAXWELL = vv16.gpus()
YEARS = np.arange(2006, 2016, 2)
ARITHMETIC, FORMULA, MODEL = "arithmetic on printed numbers", "reimplemented formula", "model"


@dataclass(frozen=True)
class Row:
    """One printed number.

    Attributes:
        place: section, table or figure.
        what: what it is.
        printed, ours: the two numbers.
        tolerance: half of the last digit printed, or more where `near` gives the reason.
        near: why they are not equal to the last digit.
        about: what a careful reader must know.
        basis: what ours is calculated with; none of these rows is measured or simulated.

    """

    place: str
    what: str
    printed: float
    ours: float
    tolerance: float
    near: str = ""
    about: str = ""
    basis: str = MODEL

    @property
    def agrees(self) -> bool:
        return abs(self.printed - self.ours) <= self.tolerance * (1 + 1e-9)


def rows() -> list[Row]:
    """All rows in the order of the chapters."""
    sections = (_chapter_3, _vector_add, _chapter_4, _cusp, _one_latency, _chapter_5, _chapter_6, _hong_kim)
    return [row for section in (*sections, _baghsorkhi, _isolation, _sim, _huang) for row in section()]


def _formula(place: str, what: str, ours: Floats, exact: Floats, tolerance: float = 1e-9) -> Row:
    """The model against a printed formula, over all occupancies."""
    deviation = float(np.abs(ours / exact - 1).max())
    return Row(place, f"{what}: largest deviation", 0, deviation, tolerance, about="the formula", basis=FORMULA)


def _digit(printed: float) -> float:
    """Half of the last digit of a number of two digits."""
    return 0.5 if printed > 10 else 0.05


def table_3_4() -> Sheet:
    """The worksheet of VV16 tables 3.2 to 3.4."""

    limits = vv16.tables()["table_3_3"]

    def unit(resource: str, rate: float, moved: float = 0, slots: float = 1) -> Unit:
        return Unit(resource=resource, latency=1, throughput=rate, bytes=moved, slots=slots)

    units = {
        "fadd": unit("CUDA cores", limits["fadd"] / WARP_SIZE),
        "rsq": unit("SFU units", limits["rsq"] / WARP_SIZE),
        "lds": unit("shared memory banks", limits["lds"] / WARP_SIZE),
        "lds_2way": unit("shared memory banks", limits["lds"] / WARP_SIZE / 2, slots=2),
        "ldg_streaming": unit("memory system", limits["ldg_streaming"] / 128, 128),
        "ldg_stride2": unit("memory system", limits["ldg_streaming"] / 256, 256, 2),
    }
    counts = {kind: vv16.tables()["table_3_2"][kind] for kind in units}
    pairs = vv16.tables()["table_3_4"]["issues"]["dual"]
    return worksheet(replace(vv16.machine(MAXWELL), units=units), counts, 64, pairs=pairs)


def _chapter_3() -> Iterator[Row]:
    maxwell = vv16.machine(MAXWELL)
    loads, pins = maxwell.unit("ldg_streaming"), maxwell.pin_throughput("ldg_streaming")
    for kind, name, tolerance in (("fadd", "arithmetic", 0), ("ldg_streaming", "memory", 0.5)):
        needed = vv16.tables()["table_3_1"][kind]["concurrency"]
        yield Row(
            "table 3.1",
            f"instructions needed, {name}, Maxwell",
            needed,
            _product(maxwell, kind),
            tolerance,
            basis=ARITHMETIC,
        )
    yield Row("s3.2", "pin bandwidth in IPC, Maxwell", 0.086, pins, 5e-4, basis=ARITHMETIC)
    near = "0.086 x 368 is 31.8: the two printed factors do not give the product"
    yield Row("s3.2", "instructions needed at it", 33, loads.latency * pins, 0.5, near, basis=ARITHMETIC)
    sheet = table_3_4()
    table = vv16.tables()["table_3_4"]
    for resource, printed in table["totals"].items():
        near = "12.3 CPI is printed rounded" if resource == "memory system" else ""
        yield Row("table 3.4", f"{resource}, cycles", printed, sheet.totals[resource], 0.2 if near else 0.01, near)
    yield Row("s3.6", "throughput bound, warps per cycle", table["throughput_bound"], sheet.throughput_bound, 5e-6)
    cycles = {"LD": 301, "LDS": 24, "FADD": 9, "RSQ": 9}
    chain = [Issue(name, each, ("R1",), "R1") for name, each in cycles.items()] + [Issue("ST", 9, ("R1",))]
    yield Row("listing 3.1", "issue of the store, cycle", 343, timeline(chain, reissue=3, width=2).end, 0)
    adds = [Issue("FADD", 18, (f"R{i}",), f"R{i}") for i in range(7)]
    yield Row("listing 3.2", "issue of the 7th add on Fermi, cycle", 36, timeline(adds, reissue=6).end, 0)
    yield Row(
        "s3.10",
        "traffic of a random permutation, 32 B transactions",
        3.3,
        (256 + 32 * 32) / 384,
        0.05,
        basis=ARITHMETIC,
    )
    yield Row("s3.10", "the same with 128 B", 11, (256 + 32 * 128) / 384, 0.5, basis=ARITHMETIC)


def _vector_add() -> Iterator[Row]:
    kepler, printed = vv16.machine(KEPLER), vv16.tables()["section_3_8"]
    found = timeline(vv16.vector_add(), reissue=kepler.reissue, width=2, replacement=printed["replacement"])
    yield Row("s3.8, figure 3.5", "vector addition: warp latency, cycles", printed["warp_latency"], found.end, 0)
    share = vv16.value(KEPLER, "table_6_4", "peak_gbs") * 1e9 / (kepler.sms * kepler.clock_hz)
    units = {
        "core": Unit(resource="cores", latency=9, throughput=6),
        "load": Unit(resource="memory", latency=301, throughput=share / 128, bytes=128),
    }
    one, full = (
        worksheet(replace(kepler, units=units), {"core": 9, "load": 3}, n, latency=found.end, pairs=len(found.pairs))
        for n in (1, 64)
    )
    yield Row("s3.8", "memory, B per cycle of one SM", 17.1, share, 0.05, basis=ARITHMETIC)
    yield Row("s3.8", "cycles per warp of one scheduler, issue", printed["issues"], 4 * one.totals["issue"], 0)
    bound = printed["throughput_bound"]
    yield Row("s3.8", "throughput bound, warps per cycle", bound, one.throughput_bound, 1e-4)
    yield Row("s3.8", "GB/s of each warp", printed["gbs_per_warp"], one.bytes_per_second() / 1e9, 0.005)
    yield Row("s3.8", "maximum GB/s", printed["peak_gbs"], full.bytes_per_second() / 1e9, 1e-6)
    yield Row(
        "s3.9", "IPC at 156 GB/s", 0.54, 12 * 156e9 / (384 * kepler.sms * kepler.clock_hz), 0.005, basis=ARITHMETIC
    )


def _chapter_4() -> Iterator[Row]:
    for gpu, machine in vv16.machines().items():
        ours, exact = [], []
        a, m, n = machine.unit("fadd"), machine.unit("ldg_streaming"), np.arange(1, machine.warps + 1)
        for alpha in (0.25, 1, 7, 32, 64, 512):
            compute = a.throughput / alpha if a.throughput < machine.issue else machine.issue / (alpha + 1)
            exact.append(np.minimum(n / (m.latency + a.latency * alpha), min(m.throughput, compute)))
            ours.append(Loop(alpha=alpha).accesses(Basic().throughput(machine, Loop(alpha=alpha), n)))
        yield _formula("table 4.2", f"{vv16.generation(gpu)}, the solution", np.stack(ours), np.stack(exact))
    random = vv16.machine(MAXWELL).unit("ldg_random").throughput
    yield Row("s4.3", "random accesses, Maxwell, IPC", 0.0029, random, 5e-5, basis=ARITHMETIC)
    for gpu in vv16.gpus():
        stream, add = (vv16.value(gpu, "table_6_3", column) for column in ("stream", "add"))
        what = f"{vv16.generation(gpu)}: warps for 90 % of memory over those for arithmetic"
        yield Row("s4.3", what, vv16.value(gpu, "section_4_3", "ratio"), stream / add, 0.051, basis=ARITHMETIC)
    near = "printed for all GeForce GPUs; ours for the five, 2006 to 2014"
    growth = float(np.exp(-np.polyfit(YEARS, np.log(memory_over_arithmetic()), 1)[0]))
    yield Row("s4.4", "arithmetic over memory throughput grows per year by", 1.24, growth, 0.05, near, basis=ARITHMETIC)


def memory_over_arithmetic() -> list[float]:
    """Pin bandwidth over CUDA cores times clock, B per core and cycle (VV16 figure 4.4)."""
    ratios = []
    for gpu in vv16.gpus():
        cores, sms = (vv16.value(gpu, "table_2_6", column) for column in ("cuda_cores", "sms"))
        bandwidth, clock = (vv16.value(gpu, "table_2_7", name) for name in ("pin_bandwidth_gbs", "clock_ghz"))
        ratios.append(bandwidth / (cores * sms * clock))
    return ratios


def _cusp() -> Iterator[Row]:
    maxwell, basic, place = vv16.machine(MAXWELL), Basic(), "s4.5, figure 4.5"
    top = cusp(basic, maxwell, [Loop(alpha=alpha / 10) for alpha in range(10, 5121)])
    assert top is not None
    yield Row(place, "cusp on Maxwell, alpha", 49, top[0].alpha, 1, "48.1 as issue binds, 49.1 as cores do")
    yield Row(place, "cusp on Maxwell, warps", 54, top[1], 0.6, "53.5 as issue binds, 54.0 as cores do")
    yield Row(place, "warps at alpha 0", 30, _needed(basic, maxwell, Loop(alpha=0)), 0.5, basis=ARITHMETIC)
    yield Row(place, "warps at alpha infinite", 24, _needed(basic, maxwell, Loop(alpha=inf)), 1e-6, basis=ARITHMETIC)
    units = {
        "fadd": Unit(resource="cores", latency=3, throughput=1),
        "ldg_streaming": Unit(resource="memory", latency=12, throughput=1),
    }
    example, loop, place = replace(maxwell, issue=9, units=units), Loop(alpha=4), "s4.6, figure 4.7"
    rate = float(basic.throughput(example, loop, 6))
    yield Row(place, "arithmetic instructions in execution", 3, rate * loop.arithmetic_share * 3, 1e-6)
    yield Row(place, "memory instructions in execution", 3, rate * loop.access_share * 12, 1e-6)
    yield Row(place, "warps needed", 6, _needed(basic, example, loop), 1e-6)


def _needed(model: Basic | Baghsorkhi, machine: Machine, loop: Loop, share: float = 1.0) -> float:
    return warps_needed(model, machine, loop, share) or inf


def _one_latency() -> Iterator[Row]:
    for gpu, machine in vv16.machines().items():
        alpha, printed = (vv16.value(gpu, "table_4_3", column) for column in ("alpha", "estimate"))
        what = f"{machine.name}: warps needed, programming guide"
        yield Row("table 4.3", what, printed, guide_warps(machine, Loop(alpha=alpha)), _digit(printed))
    kepler = vv16.machine(KEPLER)
    better = guide_warps_with_arithmetic(kepler, Loop(alpha=32))
    yield Row("s4.8", "Kepler: the better estimate", 74, better, 0.5)
    units = {
        "fadd": Unit(resource="cores", latency=9, throughput=0.25),
        "ldg_streaming": Unit(resource="memory", latency=600, throughput=1),
    }
    guide, loop = replace(kepler, units=units), Loop(alpha=30)
    yield Row("s4.8", "the guide's example, warps", 5, guide_warps(guide, loop), 1e-6)
    near = "printed rounded to whole warps: 600 / (4 x 31) + 1"
    yield Row(
        "s4.8",
        "the guide's example with the stalled warp counted, warps",
        6,
        guide_warps_with_access(guide, loop),
        0.2,
        near,
    )
    loop = Loop(alpha=32)
    for machine in vv16.machines().values():
        run, wait, switch = Agarwal().cycles(machine, loop)
        difference = (run + wait) / (run + switch) - hong_kim.cwp_full(machine, loop)
        what = f"{machine.name}: Agarwal's threads less Hong & Kim's warps, alpha 32"
        yield Row("s4.9", what, 0, difference, 1e-9, basis=FORMULA)
    yield Row("s4.13", "GB/s of 16 coalesced loads per cycle at 1 GHz", 2048, 16 * 128.0, 0, basis=ARITHMETIC)


def _chapter_5() -> Iterator[Row]:
    """Blocks of an SM by their shared memory, rounded up to multiples of 256 B on Kepler, of 512 B on G80."""
    for size, blocks in ((3072, 16), (3073, 14)):
        ours = 49152 // (-(-size // 256) * 256)
        yield Row("s5.7", f"Kepler: blocks of {size} B of shared memory", blocks, ours, 0, basis=ARITHMETIC)
    possible = {16384 // (512 * units) for units in range(1, 33)}
    missing = min(set(range(1, 9)) - possible)
    yield Row("s5.7", "G80: number of blocks that no size gives", 7, missing, 0, basis=ARITHMETIC)


def _chapter_6() -> Iterator[Row]:
    for gpu, machine in vv16.machines().items():
        linear, printed = _product(machine, "ldg_streaming"), vv16.value(gpu, "table_6_4", "linear")
        what = f"{machine.name}: linear, warps per scheduler"
        yield Row("table 6.4", what, printed, linear / machine.schedulers, 0.25, basis=ARITHMETIC)
    for gpu in vv16.gpus():
        random, stream = (vv16.value(gpu, "table_6_2", column) for column in ("random", "stream"))
        further = (random - stream) / (32 - vv16.value(gpu, "section_6_7", "transactions"))
        printed = vv16.value(gpu, "table_6_7", "transaction_latency")
        what = f"{vv16.generation(gpu)}: cycles of a further transaction"
        yield Row("table 6.7", what, printed, further, _digit(printed), basis=ARITHMETIC)
    kepler, maxwell = vv16.machine(KEPLER), vv16.machine(MAXWELL)
    yield Row("s6.1", "Kepler: special functions needed per SM", 9, _product(kepler, "rsq"), 1e-9, basis=ARITHMETIC)
    yield Row(
        "s6.1", "Maxwell: accesses to shared memory needed per SM", 24, _product(maxwell, "lds"), 1e-9, basis=ARITHMETIC
    )
    yield Row("s6.3", "MC16's 156 GB/s at the full memory clock", 182, 156 * 3.5 / 3.0, 0.5, basis=ARITHMETIC)
    ((_, c),) = kepler.contention["ldg_streaming"].terms
    yield Row("s6.5", "Kepler: c in accesses per cycle", 0.1477, c, 5e-5, basis=ARITHMETIC)
    loop, n = Loop(alpha=32), np.arange(1, 65)
    x = loop.accesses(Refined().throughput(kepler, loop, n))
    solution = np.minimum(n / (300 + 32 * x / (c - x) + 9 * 32), min(0.1338, 4 / 33))
    yield _formula("s6.5", "Kepler, alpha 32, the equation", x, solution, 1e-6)
    for gpu, machine in vv16.machines().items():
        for share, column in ((0.9, "at_90"), (0.95, "at_95")):
            ours = _needed(Refined(), machine, Loop(alpha=0), share) / machine.schedulers
            printed, near = vv16.value(gpu, "table_6_4", column), "printed: as VV16 measured; within 20 %"
            what = f"{machine.name}: warps per scheduler for {share:.0%}, by the refined model"
            yield Row("table 6.4", what, printed, ours, 0.2 * printed, near)


def _product(machine: Machine, kind: str) -> float:
    """Latency times throughput."""
    unit = machine.unit(kind)
    return unit.latency * unit.throughput


def _hong_kim() -> Iterator[Row]:
    machine, loop, model = vv16.machine(GT200), Loop(alpha=32), hong_kim.HongKim()
    yield Row("s7.1", "MWP_peak_bw, GTX280", 12.4, hong_kim.mwp_peak_bw(machine, loop), 0.05)
    yield Row("s7.1", "CWP, alpha 32", 4.3, hong_kim.cwp_full(machine, loop), 0.05)
    n = np.array([4, 10])
    few, many = n / loop.accesses(model.throughput(machine, loop, n))
    yield Row("s7.1, Eq. 22", "time at 4 warps: 434 + 4 (alpha + 1)", 434 + 4 * 33, float(few), 1e-6, basis=FORMULA)
    yield Row("s7.1, Eq. 24", "time at 10 warps: 4 n (alpha + 1)", 4 * 10 * 33, float(many), 1e-6, basis=FORMULA)
    cpi = 1 / float(model.throughput(machine, Loop(alpha=inf), 1))
    yield Row("s7.1", "CPI of adds alone, any occupancy", 4, cpi, 1e-9)
    quotient = float(model.throughput(machine, loop, 1) / Basic().throughput(machine, loop, 1))
    near = "printed: relative to what VV16 measured; ours: to 434 + 24 alpha"
    yield Row("s7.1", "overestimate at few warps, alpha 32", 2.1, quotient, 0.05, near)


def _baghsorkhi() -> Iterator[Row]:
    machine, model, n = vv16.machine(G80), Baghsorkhi(), np.arange(1, 25)
    for alpha in (0, 11, 32):
        x = alpha * np.maximum(4, 20 / n) + 4
        exact = np.maximum(np.maximum(1 / 0.0268, x), 440 - (n - 2) * x)
        ours = 1 / Loop(alpha=alpha).accesses(model.throughput(machine, Loop(alpha=alpha), n))
        yield _formula("s7.2", f"max(37, x, 440 - (n - 2) x), alpha {alpha}", ours, exact)
    loop = Loop(alpha=0)
    cycles = 1 / float(model.throughput(machine, loop, 24))
    yield Row("s7.2", "1 / max(448 - 4 n, 37) at 24 warps, cycles", 448 - 96, cycles, 1e-6, basis=FORMULA)
    needed = _needed(model, machine, loop)
    yield Row("s7.2", "warps to peak memory throughput: over", 100, needed, 5, "printed: over 100")
    yield Row(
        "s7.2", "CYC_mem / NUM_mem, cycles", 37, 1 / machine.unit("ldg_streaming").throughput, 0.5, basis=ARITHMETIC
    )


def _isolation() -> Iterator[Row]:
    machine, loop, n = vv16.machine(GT200), Loop(alpha=16), np.arange(1, 33)
    alu, mem = np.minimum(n / 24, 0.25), np.minimum(n / 434, 0.0277)
    ours = loop.operations(ZhangOwens().throughput(machine, loop, n))
    yield _formula("s7.3, s4.11", "min(alu(n), alpha mem(n))", ours, 32 * np.minimum(alu, 16 * mem))
    ours = loop.operations(Added().throughput(machine, loop, n))
    yield _formula("s7.3, s4.12", "times added", ours, 32 * 16 / (16 / alu + 1 / mem))


def _sim() -> Iterator[Row]:
    printed = vv16.tables()["table_7_1"]["mwp_peak_bw"]
    for gpu, number in zip(vv16.gpus()[2:], printed, strict=True):
        machine = vv16.machine(gpu)
        rate = vv16.value(gpu, "table_6_4", "peak_gbs") * 1e9 / (machine.sms * machine.clock_hz * 128)
        units = {**machine.units, "ldg_streaming": replace(machine.unit("ldg_streaming"), throughput=rate)}
        ours = hong_kim.Sim.mwp_peak_bw(replace(machine, units=units), Loop(alpha=0))
        yield Row("table 7.1", f"{machine.name}: MWP_peak_bw", number, ours, 0.05, about="of the GB/s of table 6.4")
    fermi, loop, n = vv16.machine(FERMI), Loop(alpha=32), np.arange(1, 49)
    alu = np.maximum(18 / n, 1)
    cwp, mwp = np.minimum(n, 1 + 513 / (33 * alu)), np.minimum(n, 513 * 0.0599)
    comp, mem = 33 * n * alu, n * 513 / np.minimum(mwp, np.maximum(1, cwp - 1))
    exact = np.where(cwp > mwp, np.maximum(comp, mem), np.maximum(comp, mem + comp / n))
    ours = n / loop.accesses(hong_kim.Sim().throughput(fermi, loop, n))
    yield _formula("s7.4, Eq. 1-17", "T_exec, Fermi, alpha 32", ours, exact)
    loads, near = Loop(alpha=0), "printed: relative to what VV16 measured; ours: to the basic model"
    for warps, factor in ((2, 2.0), (4, 1.3)):
        ratio = float(Basic().throughput(fermi, loads, warps) / hong_kim.Sim().throughput(fermi, loads, warps))
        yield Row("s7.4, s7.9", f"underestimate by CWP - 1 at {warps} warps", factor, ratio, 0.1, near)
    capped = hong_kim.Sim(departure_delay=32).throughput(fermi, loads, 500)
    gbs = float(fermi.bytes_per_second("ldg_streaming", capped)) / 1e9
    yield Row("s7.4", "Fermi with a departure delay of 32: GB/s", 84, gbs, 0.5)
    yield Row("s7.4", "C2050 at 22 warps and 0.335 GB/s each: GB/s", 103, 0.335 * 22 * 14, 0.5, basis=ARITHMETIC)


def _huang() -> Iterator[Row]:
    fermi, kepler, maxwell = (vv16.machine(gpu) for gpu in vv16.gpus()[2:])
    rr, gto = RoundRobin(), GreedyThenOldest()
    loads, mixed, adds = Loop(alpha=0), Loop(alpha=32), Loop(alpha=inf)
    gbs = float(fermi.bytes_per_second("ldg_streaming", rr.throughput(fermi, loads, 48))) / 1e9
    yield Row("s7.5", "Fermi, alpha 0, 48 warps: GB/s", 252, gbs, 0.5)
    rate = float(adds.operations(rr.throughput(maxwell, adds, 64)))
    yield Row("s7.5", "Maxwell, alpha infinite, 64 warps: adds per cycle", 341, rate, 0.5)
    note = "printed as adds; it is 32 times all instructions, adds are 111"
    for model in (Basic(), rr, gto):
        rate = float(32 * model.throughput(kepler, mixed, 64))
        yield Row("s7.5, s7.6", f"Kepler, alpha 32, 64 warps, {model.name}", 115, rate, 0.5, about=note)
    for name, machine, printed in (("latency 25", SYNTHETIC, 4), ("Maxwell", maxwell, 20)):
        excess = 100 * (float(gto.throughput(machine, adds, 1e9)) / machine.issue - 1)
        yield Row("s7.6", f"peak issue exceeded, {name}, %", printed, excess, 0.5)
    queue = WithBandwidth(rr)
    yield Row("s7.7", "synthetic GPU: rho at 32 warps", 1.14, float(queue.utilisation(SYNTHETIC, loads, 32)), 5e-3)
    yield Row("s7.7", "rho at 29 warps", 1.03, float(queue.utilisation(SYNTHETIC, loads, 29)), 5e-3)
    yield Row("s7.7", "Bandwidth_delay at 29 warps, cycles", -11, float(queue.delay(SYNTHETIC, loads, 29)), 0.5)
    yield Row("s7.7", "CPI at 29 warps", -0.7, 1 / float(queue.throughput(SYNTHETIC, loads, 29)), 0.05)
    singular = 28 / float(queue.utilisation(SYNTHETIC, loads, 28))
    yield Row("s7.7, figure 7.10", "singular at, warps", 28.1, singular, 0.05)
    for policy in (rr, gto):
        rate = float(mixed.operations(WithBandwidth(policy).throughput(fermi, mixed, 34)))
        yield Row("s7.7", f"Fermi, alpha 32, 34 warps, {policy.name}: adds per cycle", -12, rate, 0.5)
    stride = Loop(alpha=0, access="ldg_stride2")
    delay = float(queue.delay(fermi, stride, 17))
    yield Row("s7.8", "Fermi, stride 2, 17 warps: Bandwidth_delay, cycles", -120, delay, 0.5)
    for policy in (rr, gto):
        cpi = 1 / float(WithBandwidth(policy).throughput(fermi, stride, 17))
        yield Row("s7.8", f"the same, {policy.name}: CPI", -89, cpi, 0.5)
