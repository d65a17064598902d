"""The throughput experiments of MC16 (tables 6 and 7, figures 12, 15 to 19) and VV16 (table 6.7) on simulated GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import gcd

from kinds import Kind, yes

from gpudissect import catalogue
from gpudissect.device.kinds import open_device
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.workload import Access, Instruction, Mix, Path, Step, Stream, Transfer

NAMES = {
    "gtx560ti": "GTX560Ti",
    "gtx780": "GTX780",
    "gtx980": "GTX980",
    "8800gtx": "G80",
    "gtx280": "GT200",
    "gtx480": "Fermi",
    "gtx680": "Kepler",
}
MEI = ("gtx560ti", "gtx780", "gtx980")  # the GPUs of MC16
WORD = 4  # bytes
WARP = 32
ILPS = (1, 2, 4)
SHARED_ILPS = (1, 2, 4, 6, 8)
BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # per SM
MIN_COPY_BYTES = 32 << 20
BEYOND_CACHES = 256 << 20  # bytes
SATURATED = 0.9  # of the maximum throughput
TABLE_6 = {"gtx560ti": 109.38, "gtx780": 215.92, "gtx980": 156.25}  # GB/s
TABLE_7 = {"gtx560ti": (34.90, (1, 512, 4)), "gtx780": (83.81, (1, 1024, 6)), "gtx980": (137.41, (2, 256, 8))}
TIMER_CYCLES = {"gtx560ti": 78, "gtx780": 37, "gtx980": 36}  # of a barrier and a reading of the clock (MC16 s6.1)
TABLE_6_7 = {"8800gtx": 6.7, "gtx280": 7.6, "gtx480": 34.0, "gtx680": 33.0, "gtx980": 5.9}  # VV16, cycles
TABLE_6_2 = {
    "8800gtx": (444, 644),
    "gtx280": (434, 662),
    "gtx480": (513, 1571),
    "gtx680": (301, 1213),
    "gtx980": (368, 534),
}
COALESCED_TRANSACTIONS = {"8800gtx": 2, "gtx280": 2, "gtx480": 1, "gtx680": 4, "gtx980": 4}  # per load, VV16 s6.7
STRIDES = range(65)
LOADS = 64  # as in MC16 listing 4
TUNED_STORES = ("gtx560ti", "gtx780")  # `units.sts` of their files is fitted to table 7
SHARED_TOLERANCE = 0.05  # relative uncertainty of the document's own method
Shape = tuple[int, int, int]  # blocks per SM, threads per block, accesses in flight
Rates = Mapping[Shape, float]  # GB/s


@dataclass(frozen=True)
class Row:
    """A published statement or number beside ours."""

    place: str
    gpu: str
    what: str
    published: str
    found: str
    agrees: bool
    kind: Kind

    @property
    def cells(self) -> tuple[str, ...]:
        verdict = "agrees" if self.agrees else "differs"
        what = (self.what, self.published, self.found, verdict)
        return (self.kind.value, yes(self.agrees), NAMES[self.gpu], *what, self.place)

    @property
    def line(self) -> str:
        verdict = "agrees" if self.agrees else "**differs**"
        return f"| {self.place} | {NAMES[self.gpu]} | {self.what} | {self.published} | {self.found} | {verdict} |"


def number(
    kind: Kind, place: str, gpu: str, what: str, published: float, found: float, unit: str, tolerance: float
) -> Row:
    """A number that must be found again within a relative tolerance."""
    error = found / published - 1
    ours = f"{found:.4g} {unit} ({error:+.1%})"
    return Row(place, gpu, what, f"{published:g} {unit}", ours, abs(error) <= tolerance, kind)


@cache
def global_copies(gpu: str) -> Rates:
    """Throughput of copies in global memory, read and written (MC16 s5.1)."""
    rates = {}
    with open_device(f"sim:{gpu}?noise=none") as device:
        for blocks, threads, ilp in product(BLOCKS, (64, 128, 256, 512, 1024), ILPS):
            count = blocks * device.info.sm_count
            tile = count * threads * ilp * WORD
            stream = Stream(
                path=Path.GLOBAL_L2,
                transfer=Transfer.COPY,
                footprint=-(-MIN_COPY_BYTES // tile) * tile,
                blocks=count,
                threads=threads,
                ilp=ilp,
                width=WORD,
            )
            (trace,) = device.run([stream])
            rates[blocks, threads, ilp] = float(trace.bytes[0] / trace.nanoseconds[0])
    return rates


def words_needed(rates: Rates, ilp: int | None = None) -> int:
    """Fewest words in flight per SM that reach 90 % of the maximum."""
    target = SATURATED * max(rates.values())
    return min(b * t * i for (b, t, i), rate in rates.items() if ilp in (None, i) and rate >= target)


def table_6() -> Iterator[Row]:
    """MC16 table 6 and figure 12."""
    total = {}
    for gpu in MEI:
        rates = global_copies(gpu)
        best, known = max(rates.values()), TABLE_6[gpu]
        yield number(Kind.ROUND_TRIP, "MC16 table 6", gpu, "maximum throughput of a copy", known, best, "GB/s", 0.02)
        ratio = rates[2, 64, 1] / rates[1, 64, 1]
        what = "64 threads, ILP 1: 2 CTAs per SM over 1"
        yield Row("MC16 fig 12", gpu, what, "almost linear", f"x {ratio:.2f}", 1.8 <= ratio <= 2.05, Kind.EMERGENT)
        warps = [words_needed(rates, ilp) // ilp // WARP for ilp in ILPS]
        what, found = "warps per SM for 90 % with ILP 1, 2, 4", ", ".join(map(str, warps))
        is_falling = warps == sorted(set(warps), reverse=True)
        yield Row("MC16 fig 12", gpu, what, "a larger ILP saturates faster", found, is_falling, Kind.EMERGENT)
        total[gpu] = words_needed(rates) * catalogue.load(gpu).table.chip.sm_count.value
    found = ", ".join(f"{words} ({NAMES[gpu]})" for gpu, words in total.items())
    what, is_largest = "words in flight on all SMs for 90 %", max(total, key=total.__getitem__) == "gtx780"
    yield Row("MC16 fig 12", "gtx780", what, "the largest of the three", found, is_largest, Kind.EMERGENT)


@cache
def shared_copies(gpu: str) -> Rates:
    """Throughput per SM where every thread copies `ilp` words once between two readings of the clock (MC16 s6.1)."""
    rates = {}
    clock = catalogue.load(gpu).table.chip.clock_hz.value
    with open_device(f"sim:{gpu}?noise=none") as device:
        facts = {name: int(value) for name, value in device.info.facts.items() if isinstance(value, int)}
        for threads, blocks, ilp in product((32, 64, 128, 256, 512, 1024), range(1, 7), SHARED_ILPS):
            size = threads * ilp * WORD
            fits_shared = 2 * size <= facts["shared_per_block"] and 2 * size * blocks <= facts["shared_per_sm"]
            if not fits_shared or threads * blocks > facts["threads_per_sm"]:
                continue
            stream = Stream(
                path=Path.SHARED,
                transfer=Transfer.COPY,
                footprint=size,
                threads=threads,
                ilp=ilp,
                width=WORD,
                blocks=blocks * device.info.sm_count,
            )
            (trace,) = device.run([stream])
            cycles = int(trace.cycles.max()) + TIMER_CYCLES[gpu]
            rates[blocks, threads, ilp] = 2 * size * blocks / cycles * clock / 1e9
    return rates


def by_warps(rates: Rates, ilp: int | None = None) -> dict[int, float]:
    """Best throughput of each number of warps, with any ILP or one."""
    best: dict[int, float] = {}
    for (blocks, threads, own_ilp), rate in rates.items():
        warps = blocks * threads // WARP
        if ilp in (None, own_ilp):
            best[warps] = max(best.get(warps, 0.0), rate)
    return dict(sorted(best.items()))


def table_7() -> Iterator[Row]:
    """MC16 table 7, figures 15 and 16."""
    for gpu in MEI:
        rates, (known, shape) = shared_copies(gpu), TABLE_7[gpu]
        blocks, threads, ilp = shape
        what = f"{blocks} CTA{'s' * (blocks > 1)} of {threads} threads, ILP {ilp}: the published maximum"
        kind = Kind.TUNED if gpu in TUNED_STORES else Kind.EMERGENT
        yield number(kind, "MC16 table 7", gpu, what, known, rates[shape], "GB/s", SHARED_TOLERANCE)
        best = max(rates.values())
        yield number(kind, "MC16 fig 15", gpu, "maximum of all shapes", known, best, "GB/s", SHARED_TOLERANCE)
        dip, so_far = 0.0, 0.0
        for rate in by_warps(rates).values():
            so_far = max(so_far, rate)
            dip = max(dip, 1 - rate / so_far)
        what, found = "throughput against active warps", f"never more than {dip:.1%} below that of fewer warps"
        yield Row("MC16 fig 15", gpu, what, "grows, until some threshold", found, dip < SHARED_TOLERANCE, Kind.EMERGENT)
    fermi, kepler, maxwell = (shared_copies(gpu) for gpu in MEI)
    gain, further = (fermi[1, 512, 2 * ilp] / fermi[1, 512, ilp] - 1 for ilp in (2, 4))
    found, agrees = f"{gain:+.1%}, then {further:+.1%}", gain > 0.05 and further < gain / 2
    yield Row(
        "MC16 fig 16", "gtx560ti", "16 warps, ILP 2 to 4, and 4 to 8", "grows until 4", found, agrees, Kind.EMERGENT
    )
    cases = (
        ("gtx780", kepler, 1, 128, "4", (4,)),
        ("gtx780", kepler, 1, 1024, "6 or 8", (6, 8)),
        ("gtx980", maxwell, 2, 512, "high", (6, 8)),
    )
    for gpu, rates, blocks, threads, published, accepted in cases:
        best_ilp = max(SHARED_ILPS, key=lambda ilp: rates.get((blocks, threads, ilp), 0.0))
        what = f"best ILP with {blocks * threads // WARP} warps"
        yield Row("MC16 fig 16", gpu, what, published, str(best_ilp), best_ilp in accepted, Kind.EMERGENT)


@cache
def stride_latencies(gpu: str, interleave: int | None = None) -> list[float]:
    """Cycles of a load from shared memory by one warp at every stride, optionally in another bank mode (bytes)."""
    known = catalogue.load(gpu)
    processor = known.processor()
    assert processor is not None
    if interleave is not None:
        processor = replace(processor, shared=replace(processor.shared, interleave=interleave))
    device = SimulatedGpu(
        known.hierarchy(),
        spec=f"sim:{gpu}",
        name=known.name,
        facts=known.facts(),
        noise=Noise.none(),
        processor=processor,
    )
    body = (Step(Instruction.LDS, LOADS),)
    mixes = [Mix(body=body, warps=1, block_size=WARP, iterations=4, sms=1, stride=stride) for stride in STRIDES]
    traces = device.run(mixes)
    return [float(t.end[0] - t.begin[0]) / mix.instructions for mix, t in zip(mixes, traces, strict=True)]


def bank_conflicts() -> Iterator[Row]:
    """MC16 figures 17 to 19."""
    fermi, maxwell = stride_latencies("gtx560ti"), stride_latencies("gtx980")
    modes = {mode: stride_latencies("gtx780", mode) for mode in (4, 8)}

    def ways(cycles: Sequence[float], stride: int, worst_stride: int = 64) -> float:
        return 1 + (cycles[stride] - cycles[1]) / (cycles[worst_stride] - cycles[1]) * 31

    count = sum(round(ways(fermi, stride, 32)) == gcd(stride, 32) for stride in STRIDES[1:])
    what, found = "ways of strides 1 to 64", f"so in {count} of 64"
    yield Row("MC16 fig 17", "gtx560ti", what, "gcd(stride, 32)", found, count == 64, Kind.DATA)
    for place, stride, known in (("MC14 s4.1", 0, 50), ("MC16 fig 17", 2, 88), ("MC14 s4.1", 32, 1210)):
        kind = Kind.DATA if stride == 2 else Kind.ROUND_TRIP  # the cost of a way is that of stride 32 less stride 0
        yield number(kind, place, "gtx560ti", f"load at stride {stride}", known, fermi[stride], "cycles", 0.01)
    for stride, mode, expected in ((2, 4, 1), (2, 8, 1), (6, 4, 2), (6, 8, 1), (4, 4, 2), (4, 8, 2)):
        conflict = ways(modes[mode], stride)
        place, found = f"MC16 fig {18 if stride == 6 else 19}", f"{conflict:.0f} way{'s' * (conflict > 1.5)}"
        published = "no conflict" if expected == 1 else "2 ways"
        what = f"stride {stride}, {mode}-byte mode"
        yield Row(place, "gtx780", what, published, found, round(conflict) == expected, Kind.DATA)
    for gpu, cycles in (("gtx560ti", fermi), ("gtx780", modes[4])):
        worst, processor = max(cycles), catalogue.load(gpu).processor()
        assert processor is not None
        memory = processor.memory.latency
        what, found = "32 ways against a load from memory", f"{worst:.0f} against {memory:.0f} cycles"
        yield Row("MC16 s6.2", gpu, what, "much longer", found, worst > 1.5 * memory, Kind.ROUND_TRIP)
    l1, worst = catalogue.load("gtx980").table.paths[Path.GLOBAL].latency[0].value, max(maxwell)
    what, found = "32 ways against a hit in the L1", f"{worst:.0f} against {l1:.0f} cycles"
    yield Row("MC16 s6.2", "gtx980", what, "the same level", found, abs(worst / l1 - 1) < 0.15, Kind.ROUND_TRIP)


def divergence() -> Iterator[Row]:
    """VV16 tables 6.2 (stream, random) and 6.7: one warp on the whole GPU, as there."""
    for gpu, known in TABLE_6_7.items():
        cycles = []
        with open_device(f"sim:{gpu}?noise=none") as device:
            for access in (Access.STREAMING, Access.RANDOM):
                options = {"sms": 1, "access": access, "footprint": BEYOND_CACHES}
                mix = Mix(body=(Step(Instruction.LDG, 16),), warps=1, block_size=WARP, iterations=64, **options)
                (trace,) = device.run([mix])
                cycles.append(float(trace.end[0] - trace.begin[0]) / mix.instructions)
        for name, value, found in zip(("stream", "random"), TABLE_6_2[gpu], cycles, strict=True):
            yield number(
                Kind.ROUND_TRIP, "VV16 table 6.2", gpu, f"{name}, one warp on the GPU", value, found, "cycles", 0.02
            )
        each = (cycles[1] - cycles[0]) / (WARP - COALESCED_TRANSACTIONS[gpu])
        yield number(Kind.ROUND_TRIP, "VV16 table 6.7", gpu, "each further transaction", known, each, "cycles", 0.03)
