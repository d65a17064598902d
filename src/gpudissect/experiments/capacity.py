"""Capacity of a cache: the largest footprint that stays resident, to the line."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.base import Bench, Known, Outcome, Plan, without
from gpudissect.experiments.levels import Level, Levels
from gpudissect.experiments.line import Lines
from gpudissect.experiments.rings import footprint
from gpudissect.inference.first_miss import Control, Fit, decide, probe_sizes
from gpudissect.trace import Trace
from gpudissect.units import format_bytes
from gpudissect.workload import Chase, Timing
from gpudissect.workload.digest import digest

WARMUP = 2
LAPS = 4
TOP_UPS = 7  # times the laps are doubled before a size counts as undecided
MANY = 15  # sizes tried at once where that costs nothing
METHOD = "largest footprint without a steady-state miss"
OCCUPANCY_SLACK = 0.06  # thin random rings leave some sets unfilled

Ask = Generator[list[Chase], list[Trace], dict[int, Fit]]


def capacity_plan(element: str, needs: str, bench: Bench, known: Known) -> Plan:
    """Capacity of `element` in bytes: exact first miss, cross-checked by the policy-free occupancy."""
    levels: Levels = known[needs]
    level = levels.level(element)
    if level is None:
        return Outcome(without(Status.NOT_SUPPORTED, element, levels.absent[element], "capacity"))
    lines: Lines | None = known[f"line.{element}"]
    if lines is None:
        return Outcome(without(Status.NOT_FOUND, element, "its line size was not found", "capacity"))
    limit = bench.info.limit(level.path)
    if level.bounds is None:
        size = level.hit.largest
        reason = (
            f"at least {format_bytes(size)}: nothing slower was seen up to there, the end of what this path reaches"
        )
        return Outcome((_open_ended(level, size, reason),))
    search = _Search(level, lines.line, bench)
    guess = int(lines.held.elements * lines.line) if lines.held else level.hit.largest
    low, high = yield from _bracket(search, guess, limit)
    if high is None:
        reason = f"at least {format_bytes(low)}: that still fits, and this path reaches no further"
        return Outcome((_open_ended(level, low, reason),))
    if low == 0:
        return Outcome(without(Status.NOT_FOUND, element, "even one line does not stay resident", "capacity"))
    while sizes := probe_sizes(low, high, lines.line, 1 if level.alone else MANY):
        fits = yield from search.decide(sizes)
        undecided = [size for size in sizes if fits[size] is Fit.UNDECIDED]
        if undecided:
            reason = f"between {format_bytes(low)} and {format_bytes(high)}, hits and misses do not separate"
            return Outcome((Estimate(element=element, attribute="capacity", status=Status.AMBIGUOUS, unit="B",
                                     low=low, high=high, reason=reason, method=METHOD,
                                     evidence=search.evidence),))  # fmt: skip
        overflowing = [size for size in sizes if fits[size] is Fit.OVERFLOWS]
        high = min([high, *overflowing])
        low = max([low, *(size for size in sizes if fits[size] is Fit.FITS and size < high)])
    return Outcome((_judged(level, low, lines, search.evidence),), low)


class _Search:
    """Asks whether footprints fit, with more laps until the answer is certain, against one control."""

    def __init__(self, level: Level, step: int, bench: Bench) -> None:
        self.level, self.step, self.bench = level, step, bench
        self.control = Control(0, 1)
        self.evidence = level.evidence

    def chase(self, size: int, laps: int, turn: int) -> Chase:
        assert self.level.bounds is not None
        order = footprint(size, self.step, self.bench.seed_for("fit", self.level.element, size))
        return Chase(path=self.level.path, order=order, timing=Timing.COUNT, bounds=self.level.bounds,
                     warmup=WARMUP, laps=laps, alone=self.level.alone, repetition=turn)  # fmt: skip

    def calibrate(self, size: int) -> Generator[list[Chase], list[Trace], None]:
        """Misread hits on a footprint that surely fits."""
        (trace,) = yield [self.chase(size, 8, 99)]
        self.control = Control(int(trace.counts[:, 1].sum()), int(trace.counts.sum()))

    def decide(self, sizes: list[int]) -> Ask:
        """Fit of each size."""
        counts: dict[int, NDArray[np.int64]] = {}
        fits = dict.fromkeys(sizes, Fit.UNDECIDED)
        for turn in range(TOP_UPS):
            open_sizes = [size for size in sizes if fits[size] is Fit.UNDECIDED]
            if not open_sizes:
                break
            chases = [self.chase(size, LAPS << turn if turn else LAPS, turn) for size in open_sizes]
            traces = yield chases
            for size, chase, trace in zip(open_sizes, chases, traces, strict=True):
                counts[size] = np.vstack([counts[size], trace.counts]) if size in counts else trace.counts
                fits[size] = decide(counts[size], self.control)
                if turn == 0:
                    self.evidence = (*self.evidence, digest(chase))
        return fits


def _bracket(search: _Search, guess: int, limit: int) -> Generator[list[Chase], list[Trace], tuple[int, int | None]]:
    """A size that fits and one that overflows, by halving and doubling from a guess; None: none within the limit."""
    step = search.step
    low = max(step, int(guess * 0.6) // step * step)
    yield from search.calibrate(max(step, low // 2 // step * step))
    while (yield from search.decide([low]))[low] is not Fit.FITS:
        if low == step:
            return 0, step
        low = max(step, low // 2 // step * step)
    high = low
    while True:
        if high >= limit // step * step:
            return low, None
        high = min(int(high * 1.8) // step * step + step, limit // step * step)
        verdict = (yield from search.decide([high]))[high]
        if verdict is Fit.OVERFLOWS:
            return low, high
        if verdict is Fit.FITS:
            low = high


def _open_ended(level: Level, size: int, reason: str) -> Estimate:
    return Estimate(element=level.element, attribute="capacity", status=Status.NOT_FOUND, unit="B", low=size,
                    reason=reason, method=METHOD, evidence=level.evidence)  # fmt: skip


def _judged(level: Level, size: int, lines: Lines, evidence: tuple[str, ...]) -> Estimate:
    """The first-miss size with what the occupancy says of it."""
    high, confidence, caveats = size, 0.99, ()
    if lines.held is not None:
        held = lines.held.elements * lines.line
        spread = 3 * lines.held.error * lines.line + OCCUPANCY_SLACK * held
        if held - spread > size:
            high, confidence = int(held + spread), 0.5
            caveats = (
                f"lines held at any one time amount to {format_bytes(held)}: the footprint conflicts before the "
                "cache is full (unequal sets, or an index or replacement that is not plain)",
            )
        elif held + spread < size:
            confidence = 0.7
            caveats = (f"lines held at any one time amount to only {format_bytes(held)}",)
    return Estimate(
        element=level.element, attribute="capacity", status=Status.FOUND, value=size, unit="B", low=size, high=high,
        confidence=confidence, method=f"{METHOD}, cross-checked by occupancy", evidence=evidence, caveats=caveats,
    )  # fmt: skip
