"""Capacity of a cache: the largest footprint that stays resident, to the line."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.access_patterns import footprint
from gpudissect.measure.cache.infer_first_miss import Fit, probe_sizes
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.infer_residency import SLACK
from gpudissect.measure.cache.l2_partitions import parts_plan
from gpudissect.measure.cache.plan_l2 import ONE_PART
from gpudissect.measure.cache.plan_levels import levels_of, sample
from gpudissect.measure.cache.plan_line import Lines, lines_of
from gpudissect.measure.cache.residency_test import Fitting
from gpudissect.measure.infer_confidence import BRACKETED, CONFLICTED, EXACT
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.series import Series
from gpudissect.simulation.cache.geometry import PARTITION_COUNT
from gpudissect.units import format_bytes
from gpudissect.vocabulary import CACHES
from gpudissect.workload import Shuffled

MANY = 15  # sizes tried at once where that costs nothing
FILLED = 0.9  # of the cache, where hits are looked at once more
SLOWER = 1.1  # than over a small footprint: worth a word
MAYBE_NEAR = "memory is near and far, yet no hits in a far part were seen: this may be the near part alone"
METHOD = "largest footprint without a steady-state miss"

Verdicts = Ask[dict[int, Fit]]
Bracket = Ask[tuple[int, int | None]]


def capacity_of(element: str) -> Key[int | None]:
    """Bytes that a cache surely holds; None if its capacity was not found."""
    return Key(f"capacity.{element}", (int, NoneType))


def l2_capacity_plan(bench: Bench, known: Known) -> Plan:
    """Capacity of the L2, and size of its near part, or why it has no parts."""
    levels = known[levels_of("l2")]
    level, lines = levels.level("l2"), known[lines_of("l2")]
    if level is not None and level.parts is not None and lines is not None:
        whole, near = yield from parts_plan(level, level.parts, lines.line, bench)
        whole = no_more_than_stated(_beside_the_driver(whole, bench), 1, bench)
        return Outcome((whole, no_more_than_stated(near, PARTITION_COUNT, bench)), round(float(whole.high or 0)))
    outcome = yield from capacity_plan("l2", bench, known)
    (whole,) = outcome.estimates
    if whole.status is Status.FOUND and level is not None and lines is not None:
        whole = yield from _beside_small_footprints(whole, level, lines.line, bench)
        if level.homes is not None:
            both = PARTITION_COUNT * float(whole.high or 0)
            whole = replace(whole, high=both, confidence=CONFLICTED, caveats=(*whole.caveats, MAYBE_NEAR))
        (part,) = without(Status.NOT_FOUND, "l2", ONE_PART, "segment_size")
    else:
        (part,) = without(whole.status, "l2", whole.reason, "segment_size")
    return Outcome((whole, part), outcome.knowledge, outcome.series)


def _beside_small_footprints(whole: Estimate, level: Level, line: int, bench: Bench) -> Ask[Estimate]:
    """Say so if hits take much longer over most of the cache than over little of it."""
    chase = sample(level.path, int(FILLED * float(whole.low or 0)), line, bench, alone=True)
    (trace,) = yield [chase]
    filled = float(np.median(trace.cycles))
    if filled <= SLOWER * level.hit.median:
        return whole
    caveat = (
        f"over {format_bytes(chase.order.span)} hits take {filled - level.hit.median:.0f} cycles longer than over a "
        "little: translations that run out, or a level in between"
    )
    return replace(whole, caveats=(*whole.caveats, caveat), evidence=(*whole.evidence, trace.workload))


def capacity_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Capacity of `element` in bytes: exact first miss, cross-checked by the policy-free occupancy."""
    levels = known[levels_of(element)]
    level = levels.level(element)
    if level is None:
        absence = levels.absent[element]
        return Outcome(without(absence.status, element, absence.reason, "capacity"))
    lines = known[lines_of(element)]
    if lines is None:
        return Outcome(without(Status.NOT_FOUND, element, "its line size was not found", "capacity"))
    limit = bench.info.limit(level.path)
    if level.behind is None:
        return Outcome((_open_ended(level, level.hit.largest),))
    search = _Search(level, lines, bench)
    low, high = yield from search.bracket(lines.held.elements * lines.line if lines.held else level.hit.largest, limit)
    if high is None:
        return Outcome((_open_ended(level, low),))
    if low == 0:
        return Outcome(without(Status.NOT_FOUND, element, "even one line does not stay resident", "capacity"))
    while sizes := probe_sizes(low, high, lines.line, 1 if level.alone else MANY):
        fits = yield from search.decide(sizes)
        if Fit.UNDECIDED in fits.values():
            return Outcome((_blurred(level, low, high, search.evidence),), series=(search.series,))
        high = min([high, *(size for size in sizes if fits[size] is Fit.OVERFLOWS)])
        low = max([low, *(size for size in sizes if fits[size] is Fit.FITS and size < high)])
    found = _beside_the_driver(_judged(level, low, lines, search.evidence), bench)
    return Outcome((found,), low, (search.series,))


class _Search:
    """Asks which footprints fit, against a control of half of what is known to fit."""

    def __init__(self, level: Level, lines: Lines, bench: Bench) -> None:
        self.level, self.step, self.bench = level, lines.line, bench
        self.fitting = Fitting(level, self._footprint(self.step))
        self.known = (*level.evidence, *lines.evidence)

    @property
    def evidence(self) -> tuple[str, ...]:
        return (*self.known, *self.fitting.evidence)

    @property
    def series(self) -> Series:
        """Misses against footprint, as far as they were counted."""
        rings = sorted((ring.count * self.step, 100 * share) for ring, share in self.fitting.counted)
        columns = {"footprint": tuple(size for size, _ in rings), "misses": tuple(share for _, share in rings)}
        units = {"footprint": "B", "misses": "%"}
        return Series(self.level.element, "misses against footprint", columns, units, self.fitting.evidence)

    def bracket(self, guess: float, limit: int) -> Bracket:
        """A size that fits and one that overflows, from a guess outwards; (0, step): none; (size, None): no end."""
        step = self.step
        low = max(step, int(guess * 0.6) // step * step)
        self._against_half(low)
        while (yield from self.decide([low]))[low] is not Fit.FITS:
            if low == step:
                return 0, step
            low = max(step, low // 2 // step * step)
            self._against_half(low)
        high, top = low, limit // step * step
        while high < top:
            high = min(int(high * 1.8) // step * step + step, top)
            verdict = (yield from self.decide([high]))[high]
            if verdict is Fit.OVERFLOWS:
                return low, high
            if verdict is Fit.FITS:
                low = high
        return low, None

    def decide(self, sizes: list[int]) -> Verdicts:
        """Fit of each size."""
        fits = yield from self.fitting.decide([self._footprint(size) for size in sizes])
        return dict(zip(sizes, fits, strict=True))

    def _against_half(self, size: int) -> None:
        self.fitting.against(self._footprint(max(self.step, size // 2 // self.step * self.step)))

    def _footprint(self, size: int) -> Shuffled:
        return footprint(size, self.step, self.bench.seed_for("fit", self.level.element, size))


def _beside_the_driver(estimate: Estimate, bench: Bench) -> Estimate:
    """Say what the driver states of the same thing (MT22 s4.1); it is never used to find anything."""
    stated = bench.info.facts.get("l2_size")
    if (estimate.element, estimate.attribute) != ("l2", "capacity") or not isinstance(stated, int):
        return estimate
    return replace(estimate, caveats=(*estimate.caveats, f"the driver states {format_bytes(stated)}"))


def no_more_than_stated(estimate: Estimate, parts: int, bench: Bench) -> Estimate:
    """Cut the bracket of an L2's size, or of one of its equal parts, off at what the driver states of the whole.

    A share of random lines leaves per cents open, upwards too, and no L2 is larger than its vendor says. What was found
    is not moved: where it lies above what is stated, the bracket stays as it is.
    """
    stated = bench.info.facts.get("l2_size")
    if not isinstance(stated, int) or not isinstance(estimate.value, int | float) or estimate.high is None:
        return estimate
    most = stated // parts
    if not estimate.value <= most < estimate.high:
        return estimate
    whose = format_bytes(stated) if parts == 1 else f"{format_bytes(stated)} for {parts} equal parts"
    return replace(
        estimate, high=most, caveats=(*estimate.caveats, f"bracket cut off at what the driver states, {whose}")
    )


def _open_ended(level: Level, size: int) -> Estimate:
    reason = f"at least {format_bytes(size)}: that still fits, and this path reaches no further"
    return Estimate(element=level.element, attribute="capacity", status=Status.NOT_FOUND, low=size,
                    reason=reason, method=METHOD, evidence=level.evidence)  # fmt: skip


def _blurred(level: Level, low: int, high: int, evidence: tuple[str, ...]) -> Estimate:
    reason = f"between {format_bytes(low)} and {format_bytes(high)} the misses are too few or too unclear to decide"
    return Estimate(element=level.element, attribute="capacity", status=Status.AMBIGUOUS, low=low,
                    high=high, reason=reason, method=METHOD, evidence=evidence)  # fmt: skip


def _judged(level: Level, size: int, lines: Lines, evidence: tuple[str, ...]) -> Estimate:
    """The first-miss size with what the occupancy says of it."""
    method = METHOD if lines.held is None else f"{METHOD}, cross-checked by occupancy"
    high, confidence = size, EXACT if lines.held is not None else BRACKETED
    caveats: tuple[str, ...] = ()
    if lines.held is not None:
        held = lines.held.elements * lines.line
        spread = 3 * lines.held.error * lines.line + SLACK * held
        if held - spread > size:
            high, confidence = int(held + spread), CONFLICTED
            caveats = (
                f"lines held at any one time amount to {format_bytes(round(held))}: the footprint conflicts before "
                "the cache is full (unequal sets, or an index or replacement that is not plain)",
            )
    return Estimate(
        element=level.element, attribute="capacity", status=Status.FOUND, value=size, low=size, high=high,
        confidence=confidence, method=method, evidence=evidence, caveats=caveats,
    )  # fmt: skip


EXPERIMENTS = tuple(
    Experiment(
        key=capacity_of(element),
        element=element,
        plan=l2_capacity_plan if element == "l2" else partial(capacity_plan, element),
        emits=("capacity", "segment_size") if element == "l2" else ("capacity",),
        needs=(levels_of(element), lines_of(element)),
        quick=element != "l2",  # only footprints of the size of an L2 tell its capacity
    )
    for element in CACHES
)
