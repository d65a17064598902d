"""Capacity of a cache: the largest footprint that stays resident, to the line.

An L2 of two partitions is measured by residency instead: every access checks the near partition, so its size is that of
any cache, the share of random lines that hit in it. The far partition is checked only for far lines that the near one
lacks; what the near one holds of them is counted for both, for lines fetched last lie in both.
"""

import math
from dataclasses import replace
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Series, Status
from gpudissect.measure.access_patterns import BLOCKS_PER_PROBE, Blocks, footprint, random_probes
from gpudissect.measure.cache.infer_l2_partitions import partition_count
from gpudissect.measure.cache.infer_level import FarPartition, Level
from gpudissect.measure.cache.infer_residency import (
    MAX_SIZES_PER_BATCH,
    SIZE_TOLERANCE,
    Fit,
    ResidentBytes,
    narrowed,
    partition_sizes,
    probe_sizes,
)
from gpudissect.measure.cache.plan_levels import (
    L2,
    NO_FAR_PARTITION,
    PRIVATE_CACHES,
    absent,
    first_access_chases,
    first_accesses,
    for_each_cache,
    level_of,
    levels_of,
    sample_chase,
)
from gpudissect.measure.cache.plan_line import AHEAD, Lines, lines_of
from gpudissect.measure.cache.residency_probe import ResidencyTest
from gpudissect.measure.infer_confidence import BRACKETED, CONFLICTED, DOUBTFUL, EXACT
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.simulation.cache.geometry import PARTITION_COUNT
from gpudissect.units import format_bytes
from gpudissect.workload import Shuffled

FILLED_SHARE = 0.9  # of the L2, where hits are timed again
CAVEAT_LATENCY_RATIO = 1.1  # relative to a small footprint
OVERSUBSCRIPTION = 3  # footprint of random lines, relative to one that overflows the near partition
PARTITION_PROBES, MAX_CHASE_PROBES, MAX_PARTITION_CHASES = 32768, 16384, 16
METHOD = "largest footprint without a steady-state miss"
PARTITION_METHOD = "share of random lines resident at any one time"
MULTIPLE = "{} the near partition; the residency of the far one lies within the bracket"
MAYBE_NEAR = "lines are near or far, but no hits in a far partition were found: this may be the near partition alone"


def capacity_of(element: str) -> Key[int | None]:
    """Bytes that a cache certainly holds; None if its capacity was not found."""
    return Key(f"capacity.{element}", (int, NoneType))


def capacity_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Capacity of `element` in bytes: exact first miss, cross-checked by the policy-independent residency."""
    level, lines = level_of(element, known), known[lines_of(element)]
    if level is None:
        return absent(element, known, "capacity")
    if lines is None:
        return Outcome(without(Status.NOT_FOUND, element, "its line size was not found", "capacity"))
    if level.behind is None:
        return _lower_bound(level, level.hit.largest)
    search = _Search(level, lines, bench)
    guess = level.hit.largest if lines.resident is None else lines.resident.elements * lines.line
    low, high = yield from search.bracket(guess, bench.info.limit(level.path))
    if high is None:
        return _lower_bound(level, low)
    if low == 0:
        return Outcome(without(Status.NOT_FOUND, element, "even one line does not stay resident", "capacity"))
    while sizes := probe_sizes(low, high, lines.line, 1 if level.alone else MAX_SIZES_PER_BATCH):
        fits = yield from search.decide(sizes)
        if Fit.UNDECIDED in fits.values():
            reason = f"between {format_bytes(low)} and {format_bytes(high)} misses are too few or too unclear to decide"
            fields = {"low": low, "high": high, "method": METHOD, "evidence": search.evidence}
            return Outcome(without(Status.AMBIGUOUS, element, reason, "capacity", **fields), series=(search.series,))
        low, high = narrowed(low, high, {size: fit is Fit.FITS for size, fit in fits.items()})
    capacity = _add_stated_size(_cross_checked(level, low, lines, search.evidence), bench)
    return Outcome((capacity,), low, (search.series,))


class _Search:
    """Tests footprints for residency, compared with a control of half of what is known to fit."""

    def __init__(self, level: Level, lines: Lines, bench: Bench) -> None:
        self.level, self.step, self.bench = level, lines.line, bench
        self.test = ResidencyTest(level, self._footprint(self.step))
        self.prior_evidence = (*level.evidence, *lines.evidence)

    @property
    def evidence(self) -> tuple[str, ...]:
        return (*self.prior_evidence, *self.test.evidence)

    @property
    def series(self) -> Series:
        """Misses against footprint, as far as they were counted."""
        rows = sorted((order.count * self.step, 100 * share) for order, share in self.test.miss_shares)
        columns = {"footprint": tuple(size for size, _ in rows), "misses": tuple(share for _, share in rows)}
        units = {"footprint": "B", "misses": "%"}
        return Series(self.level.element, "misses against footprint", columns, units, self.test.evidence)

    def bracket(self, guess: float, limit: int) -> Ask[tuple[int, int | None]]:
        """A size that fits and one that overflows, from a guess outwards.

        (0, step) if nothing fits, (size, None) if nothing overflows.
        """
        step = self.step
        low = max(step, int(guess * 0.6) // step * step)
        self._set_control(low)
        while (yield from self.decide([low]))[low] is not Fit.FITS:
            if low == step:
                return 0, step
            low = max(step, low // 2 // step * step)
            self._set_control(low)
        high, largest = low, limit // step * step
        while high < largest:
            high = min(int(high * 1.8) // step * step + step, largest)
            verdict = (yield from self.decide([high]))[high]
            if verdict is Fit.OVERFLOWS:
                return low, high
            if verdict is Fit.FITS:
                low = high
        return low, None

    def decide(self, sizes: list[int]) -> Ask[dict[int, Fit]]:
        """Fit of each size."""
        fits = yield from self.test.decide([self._footprint(size) for size in sizes])
        return dict(zip(sizes, fits, strict=True))

    def _set_control(self, size: int) -> None:
        self.test.set_control(self._footprint(max(self.step, size // 2 // self.step * self.step)))

    def _footprint(self, size: int) -> Shuffled:
        return footprint(size, self.step, self.bench.seed_for("fit", self.level.element, size))


def _lower_bound(level: Level, size: int) -> Outcome:
    reason = f"at least {format_bytes(size)}: the largest footprint that this path reaches still fits"
    fields = {"low": size, "method": METHOD, "evidence": level.evidence}
    return Outcome(without(Status.NOT_FOUND, level.element, reason, "capacity", **fields))


def _cross_checked(level: Level, size: int, lines: Lines, evidence: tuple[str, ...]) -> Estimate:
    """The first-miss size; bracketed up to the residency where more is resident."""
    high, confidence, method = size, CONFLICTED, METHOD  # of a cache whose line size is not known
    caveats: tuple[str, ...] = ()
    if lines.resident is not None:
        resident = lines.resident.elements * lines.line
        margin = 3 * lines.resident.error * lines.line + SIZE_TOLERANCE * resident
        confidence, method = EXACT, f"{METHOD}, cross-checked by residency"
        if resident - margin > size:
            high, confidence = int(resident + margin), CONFLICTED
            caveats = (
                f"{format_bytes(round(resident))} of lines are resident at any one time: the footprint conflicts "
                "before the cache is full (unequal sets, or an index or replacement that is not plain)",
            )
    if level.fetch.ahead is not None:
        confidence, caveats = DOUBTFUL, (*caveats, AHEAD)
    if lines.slower is not None:
        confidence, caveats = DOUBTFUL, (*caveats, str(lines.slower))
    return found(level.element, "capacity", size, size, high, confidence, method, evidence, caveats)


def l2_capacity_plan(bench: Bench, known: Known) -> Plan:
    """Capacity of the L2, and size of its near partition, or why there is only one."""
    level, lines = level_of("l2", known), known[lines_of("l2")]
    if level is not None and level.far_partition is not None and lines is not None:
        whole, near = yield from _partition_sizes(level, level.far_partition, lines.line, bench)
        largest, stated = round(float(whole.high or 0)), bench.info.facts.get("l2_size")
        footprint_size = min(largest, stated) if isinstance(stated, int) else largest  # of other experiments
        return Outcome((_add_stated_size(whole, bench), near), footprint_size)
    outcome = yield from capacity_plan("l2", bench, known)
    (whole,) = outcome.estimates
    if whole.status is not Status.FOUND or level is None or lines is None:
        segment = without(whole.status, "l2", whole.reason, "segment_size")
        return replace(outcome, estimates=(whole, *segment))
    whole = yield from _check_filled_latency(whole, level, lines.line, bench)
    if level.home_partition is not None:
        high = level.home_partition.partitions * float(whole.high or 0)
        confidence = CONFLICTED if whole.confidence == EXACT else DOUBTFUL
        whole = replace(whole, high=high, confidence=confidence, caveats=(*whole.caveats, MAYBE_NEAR))
    segment = without(Status.NOT_FOUND, "l2", NO_FAR_PARTITION, "segment_size")
    return replace(outcome, estimates=(whole, *segment))


def _check_filled_latency(whole: Estimate, level: Level, line: int, bench: Bench) -> Ask[Estimate]:
    """Add a caveat if hits take much longer over most of the cache than over a small footprint."""
    chase = sample_chase(level.path, int(FILLED_SHARE * float(whole.low or 0)), line, bench, alone=True)
    (trace,) = yield [chase]
    filled = float(np.median(trace.cycles))
    if filled <= CAVEAT_LATENCY_RATIO * level.hit.median:
        return whole
    caveat = (
        f"over {format_bytes(chase.order.span)} hits take {filled - level.hit.median:.0f} cycles longer than over a "
        "small footprint: TLB misses, or a level in between"
    )
    return replace(whole, caveats=(*whole.caveats, caveat), evidence=(*whole.evidence, trace.workload))


def _partition_sizes(level: Level, far: FarPartition, line: int, bench: Bench) -> Ask[tuple[Estimate, Estimate]]:
    """Capacity of all partitions together, and segment size, that of the near one."""
    bounds, home = level.bounds, level.home_partition
    assert bounds is not None and home is not None  # or no far partition would be known
    count = min(OVERSUBSCRIPTION * far.overflow_footprint, bench.info.limit(level.path)) // line
    blocks = Blocks(count, line, (0,), count * line)
    near, far_lines, hits = [], [], []
    evidence = level.evidence
    for i in range(min(MAX_PARTITION_CHASES, math.ceil(PARTITION_PROBES * BLOCKS_PER_PROBE / count))):
        chase = random_probes(level.path, blocks, bench.rng("parts", count, i), MAX_CHASE_PROBES)
        probed = chase.order.offsets()
        trace, *touches = yield [chase, *first_access_chases(level.path, probed, bench, "parts", i)]
        evidence += (trace.workload, *(touch.workload for touch in touches))
        near.append(trace.cycles <= bounds.hit_max)
        far_lines.append(home.are_far(first_accesses(probed, touches)))
        hits.append(trace.cycles < (far.hits.high + home.far) / 2)
    are_far = np.concatenate(far_lines)
    sizes = count * line, chase.order.count * line
    near_size, whole = partition_sizes(np.concatenate(near), are_far, np.concatenate(hits), *sizes)
    partitions = partition_count(int((~are_far).sum()), are_far.size)
    multiple = MULTIPLE.format("twice" if partitions == PARTITION_COUNT else f"{partitions} times")
    capacity = _partition("capacity", whole, evidence, multiple)
    return capacity, _partition("segment_size", near_size, evidence)


def _partition(attribute: str, size: ResidentBytes, evidence: tuple[str, ...], *caveats: str) -> Estimate:
    grain = 1 << max(int(size.error), 1).bit_length() - 1
    low, high = int(size.low // grain) * grain, int(-(-size.high // grain)) * grain
    value, caveats = round(size.size / grain) * grain, (f"rounded to {format_bytes(grain)}", *caveats)
    return found("l2", attribute, value, low, high, BRACKETED, PARTITION_METHOD, evidence, caveats)


def _add_stated_size(estimate: Estimate, bench: Bench) -> Estimate:
    """Add the L2 size that the driver states as a caveat (MT22 s4.1); nothing is inferred from it."""
    stated = bench.info.facts.get("l2_size")
    if estimate.element != "l2" or not isinstance(stated, int):
        return estimate
    return replace(estimate, caveats=(*estimate.caveats, f"the driver states {format_bytes(stated)}"))


EXPERIMENTS = (
    *for_each_cache(
        capacity_of, capacity_plan, levels_of, lines_of, caches=PRIVATE_CACHES, emits=("capacity",), quick=True
    ),
    Experiment(
        capacity_of("l2"), l2_capacity_plan, ("capacity", "segment_size"), needs=(L2, lines_of("l2")), quick=True
    ),
)
