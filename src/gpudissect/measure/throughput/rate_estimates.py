"""Estimates of rates: bounds that no rate can exceed, and plateaus over many configurations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from gpudissect.device_info import DeviceInfo
from gpudissect.estimate import Estimate, Series, Status
from gpudissect.measure.infer_confidence import BANDWIDTH
from gpudissect.measure.plan import found
from gpudissect.measure.throughput import infer_throughput
from gpudissect.measure.throughput.infer_throughput import FAR, NEAR, Plateau, Throughput
from gpudissect.vocabulary import unit_of

MAX_EXCESS = 0.005  # relative: a rate may be misread by so much, and exceed a true bound
MIN_REPORTED_EXCESS, MIN_REPORTED_SHARE = 0.0001, 0.1  # of a bound
MAX_REPEATED = 8  # configurations near the fastest that are measured again
DATA_RATE = 2
"""Transfers per cycle of the memory clock, where the device does not state it: drivers state a clock of which both
edges carry data, of GDDR as of HBM (``2 * memoryClockRate * memoryBusWidth / 8`` of the CUDA samples). Documents that
print the command clock of GDDR5, half as fast, take 4 (MC16 s5.1); GPUs simulated after them state so."""
METHOD = (
    f"plateau of a search: all configurations within {FAR:.0%} of the best are measured again; median of those that "
    "cannot be distinguished from the best"
)


@dataclass(frozen=True)
class Bound:
    """A rate that cannot be exceeded, in the unit of the attribute, and what limits it, as a text."""

    rate: float
    what: str

    def share(self, rate: float) -> float:
        """Share of the bound that a rate is."""
        return rate / self.rate

    def clip(self, rate: float) -> float:
        """A rate, at most the bound."""
        return min(rate, self.rate)


@dataclass(frozen=True)
class Unbounded:
    """No upper bound is known; `why` explains."""

    why: str

    def clip(self, rate: float) -> float:
        """The rate itself."""
        return rate


MEMORY = "the memory"
NO_PEAK = Unbounded("not compared with the peak of the memory: the device does not state it")


def peak_bandwidth(info: DeviceInfo) -> Bound | Unbounded:
    """Theoretical peak bandwidth of the memory, B/s (MC16 s5.1), if the device states its clock and bus width."""
    clock, bus, rate = (info.facts.get(name) for name in ("memory_clock_hz", "memory_bus_bits", "memory_data_rate"))
    if not (isinstance(clock, int | float) and isinstance(bus, int) and clock > 0 and bus > 0):
        return NO_PEAK
    transfers = rate if isinstance(rate, int) and rate > 0 else DATA_RATE
    return Bound(transfers * float(clock) * bus / 8, MEMORY)


def format_rate(rate: float, unit: str) -> str:
    """A rate with its unit."""
    return f"{rate / 1e9:.4g} GB/s" if unit == "B/s" else f"{rate:.4g} {unit}"


def refusal(rate: float, bound: Bound | Unbounded, unit: str) -> str | None:
    """Why a rate in `unit` is wrong: it exceeds the bound by more than `MAX_EXCESS`. None if it does not."""
    if isinstance(bound, Unbounded) or bound.share(rate) <= 1 + MAX_EXCESS:
        return None
    return f"{format_rate(rate, unit)} were measured, more than {bound.what} can give: {format_rate(bound.rate, unit)}"


def clip_throughput(throughput: Throughput, bound: Bound | Unbounded) -> Throughput:
    """A throughput, at most the bound."""
    rate = bound.clip(throughput.rate)
    return Throughput(rate, min(throughput.low, rate), bound.clip(throughput.high))


def excess_caveat(rate: float, bound: Bound) -> tuple[str, ...]:
    """By how much a rate exceeded the bound it was clipped to; nothing if negligible."""
    excess = bound.share(rate) - 1
    return (f"{excess:.2%} more were measured: misread",) if excess > MIN_REPORTED_EXCESS else ()


@dataclass(frozen=True)
class Surface:
    """Throughput of configurations, and of those near the fastest when measured again, by index."""

    columns: Mapping[str, tuple[float, ...]]  # parameters of the configurations by name, in the order of `first`
    in_flight: tuple[float, ...]  # bytes, or chains of instructions, of each at a time
    first: tuple[Throughput, ...]  # throughput of each
    again: Mapping[int, Throughput]  # second measurement of those near the fastest, the fastest first
    evidence: tuple[str, ...]  # digests of all workloads
    alternation: Mapping[int, float] = field(default_factory=dict)  # relative distance of two alternating rates

    @property
    def rising(self) -> bool:
        """Whether throughput still rises with the most in flight."""
        rates, near = [each.rate for each in self.first], infer_throughput.nearness(self.first)
        return infer_throughput.is_rising(self.in_flight, rates, near)

    @property
    def plateau(self) -> Plateau | None:
        """Its plateau, members by their index; None if the two measurements differ."""
        near = list(self.again)
        plateau = infer_throughput.find_plateau([self.first[i] for i in near], list(self.again.values()))
        return None if plateau is None else replace(plateau, members=tuple(near[i] for i in plateau.members))

    @property
    def counted(self) -> tuple[int, ...]:
        """Indices of the plateau's members or, without a plateau, of all that were measured again."""
        plateau = self.plateau
        return tuple(self.again) if plateau is None else plateau.members

    def describe(self, index: int) -> str:
        """Parameters of a configuration as a text."""
        return ", ".join(f"{name.replace('_', ' ')} {column[index]:g}" for name, column in self.columns.items())

    def series(self, element: str, name: str, unit: str, units: Mapping[str, str]) -> Series:
        """Parameters and rate of all configurations."""
        columns = {**self.columns, "rate": tuple(each.rate for each in self.first)}
        return Series(element, name, columns, {**units, "rate": unit}, self.evidence)


def members_to_repeat(first: Sequence[Throughput], within: float = FAR) -> list[int]:
    """Indices of the configurations to measure again, fastest first: `within` (relative) of it, within limits."""
    order = sorted(range(len(first)), key=lambda i: -first[i].rate)
    near = sum(each.rate >= (1 - within) * first[order[0]].rate for each in first)
    return order[: min(max(near, infer_throughput.MIN_MEMBERS), MAX_REPEATED)]


def plateau_estimate(
    element: str,
    attribute: str,
    surface: Surface,
    bound: Bound | Unbounded,
    caveats: tuple[str, ...] = (),
    method: str = METHOD,
    confidence: float = BANDWIDTH,
) -> Estimate:
    """The estimate of a plateau: not found above a bound, nor where the surface still rises or has a single peak.

    A surface that ends near the bound counts as a plateau, with a bracket up to the bound.
    """
    unit, plateau, rising = unit_of(attribute), surface.plateau, surface.rising
    again = {i: each.rate for i, each in surface.again.items()}
    rate = plateau.level.rate if plateau is not None else max(again.values())
    best = infer_throughput.fastest(surface.first)
    high = max(surface.first[best].rate, *again.values())
    estimate = partial(Estimate, element=element, attribute=attribute, method=method, evidence=surface.evidence)
    absent = partial(estimate, status=Status.NOT_FOUND, caveats=caveats)
    ambiguous = partial(estimate, status=Status.AMBIGUOUS, high=bound.clip(high), caveats=caveats)
    if (reason := refusal(rate, bound, unit)) is not None:
        return absent(reason=reason)
    at_bound = isinstance(bound, Bound) and bound.share(rate) >= 1 - NEAR
    if rising and not at_bound:
        low = min(rate, surface.first[best].rate)
        reason = (
            f"at least {format_rate(low, unit)}: it still rises at the maximum in flight ({surface.describe(best)})"
        )
        return absent(reason=reason, low=bound.clip(low))
    if plateau is None:
        reason = "the fastest configurations gave another rate when measured again"
        return ambiguous(reason=reason, low=bound.clip(min(again.values())))
    if plateau.isolated and not at_bound:
        peak, *others = sorted(again, key=lambda i: -again[i])
        second = max((again[i] for i in others), default=rate)
        reason = f"a single peak, no plateau: {surface.describe(peak)} is faster than all others in both measurements"
        return ambiguous(reason=reason, low=bound.clip(min(second, rate)))
    level = clip_throughput(plateau.level, bound)
    if (rising or plateau.isolated) and isinstance(bound, Bound):
        level = replace(level, high=bound.rate)
    caveats = (*_plateau_caveats(surface, plateau), *_bound_caveats(bound, rate, unit), *caveats)
    return found(element, attribute, level.rate, level.low, level.high, confidence, method, surface.evidence, caveats)


def _plateau_caveats(surface: Surface, plateau: Plateau) -> tuple[str, ...]:
    """Where a plateau begins, how much its members differ, and whether their runs alternate."""
    smallest = surface.describe(min(plateau.members, key=lambda i: surface.in_flight[i]))
    alike = f"{len(plateau.members)} configurations within {plateau.width:.1%} of the best are equivalent"
    if plateau.width > NEAR:
        alike += f": a rate measured again differs by about {plateau.scatter:.1%}"
    gaps = [gap for i in plateau.members if (gap := surface.alternation.get(i, 0.0)) > infer_throughput.MIN_WIDTH]
    runs = f"runs of {len(gaps)} of them alternate between two rates, up to {max(gaps, default=0):.1%} apart"
    return f"first reached with {smallest}", alike, *([f"{runs}: the value is between both"] if gaps else [])


def _bound_caveats(bound: Bound | Unbounded, rate: float, unit: str) -> tuple[str, ...]:
    if isinstance(bound, Unbounded):
        return (bound.why,) if bound.why else ()
    if bound.share(rate) < MIN_REPORTED_SHARE:
        return ()
    share = f"{bound.share(rate):.1%} of what {bound.what} can give, {format_rate(bound.rate, unit)}"
    return share, *excess_caveat(rate, bound)
