"""Lines and fetch granularity of a cache: how many lone elements it holds, then what a dense footprint needs."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.base import Bench, Known, Outcome, Plan, without
from gpudissect.experiments.levels import Level, Levels, sample
from gpudissect.experiments.rings import Probed, probed
from gpudissect.inference.line import dense_test_size, overflows
from gpudissect.inference.occupancy import Occupancy, occupancy
from gpudissect.trace import Trace
from gpudissect.workload import Chase, Timing
from gpudissect.workload.digest import digest

FIRST_ELEMENTS = 16
ROUND = 4  # doublings asked for at once where that costs nothing
THINNESS = 64  # granules of room for every scattered element
ROOM_NEEDED = 8
FIRST_PROBES = 300  # to see whether so many elements still fit
PROBES = 3000  # to count how many do
CROWDED = 0.55  # below this share of hits so many elements compete that hardly a set is left unfilled
DOUBLINGS = 5  # a line is at most 32 times what one miss fetches


@dataclass(frozen=True)
class Lines:
    """What is known of the lines of a level: bytes of one, and how many the cache holds (None if too many to tell)."""

    line: int
    held: Occupancy | None
    evidence: tuple[str, ...]


Probing = Generator[list[Chase], list[Trace], list[tuple[int, int, int, str]]]
Holding = Generator[list[Chase], list[Trace], tuple[Occupancy | None, tuple[str, ...]]]


def line_plan(element: str, needs: str, bench: Bench, known: Known) -> Plan:
    """Fetch granularity and line size of `element`."""
    levels: Levels = known[needs]
    level = levels.level(element)
    if level is None:
        reason = levels.absent[element]
        return Outcome(without(Status.NOT_SUPPORTED, element, reason, "fetch_granularity", "line_size"))
    fetch_estimate = _fetch_estimate(level)
    fetch = level.fetch.fetch
    if fetch is None:
        reason = f"the fetch granularity is not known: {level.fetch.reason}"
        return Outcome((fetch_estimate, *without(Status.NOT_FOUND, element, reason, "line_size")))
    if level.behind is None:
        return Outcome((fetch_estimate, _line_is_fetch(level, fetch)), Lines(fetch, None, level.evidence))

    held, evidence = yield from _lines_held(level, fetch, bench)
    if held is None:
        return Outcome((fetch_estimate, _line_is_fetch(level, fetch)), Lines(fetch, None, level.evidence))
    line = fetch
    for _ in range(DOUBLINGS):
        size = dense_test_size(held.elements, line)
        if size > bench.info.limit(level.path):
            break
        chase = sample(level.path, size, line, bench, alone=level.alone, warmup=1)
        (trace,) = yield [chase]
        evidence = (*evidence, digest(chase))
        if overflows(*level.split(trace.cycles)):
            break
        line *= 2
    else:
        reason = f"a footprint of {held.elements:.0f} lines of {line} B still fits"
        return Outcome((fetch_estimate, *without(Status.AMBIGUOUS, element, reason, "line_size")))
    estimate = Estimate(
        element=element, attribute="line_size", status=Status.FOUND, value=line, unit="B", low=line, high=line,
        confidence=0.99, method="lone elements held against dense footprint", evidence=evidence,
    )  # fmt: skip
    return Outcome((fetch_estimate, estimate), Lines(line, held, evidence))


def _lines_held(level: Level, fetch: int, bench: Bench) -> Holding:
    """Resident lone elements: double their number until they no longer all fit, then probe that many well."""
    limit = bench.info.limit(level.path)
    evidence: tuple[str, ...] = ()
    count = FIRST_ELEMENTS if not level.alone else 4096
    while True:
        counts = [count << i for i in range(1 if level.alone else ROUND)]
        counts = [c for c in counts if c * fetch * ROOM_NEEDED <= limit]
        if not counts:
            return None, evidence
        for c, hits, probes, used in (yield from _probe(level, fetch, counts, FIRST_PROBES, bench)):
            evidence = (*evidence, used)
            if hits < CROWDED * probes:
                ((_, hits, probes, used),) = yield from _probe(level, fetch, [c], PROBES, bench)
                return occupancy(hits, probes, c), (*evidence, used)
        count = 2 * counts[-1]


def _probe(level: Level, fetch: int, counts: list[int], probes: int, bench: Bench) -> Probing:
    """At least `probes` of each number of scattered elements: (elements, hits, probes, digest of the first ring)."""
    rings: list[Probed] = []
    for count in counts:
        span, wanted = min(bench.info.limit(level.path), count * fetch * THINNESS), probes
        while wanted > 0:
            rng = bench.rng("scattered", level.element, count, probes, wanted)
            rings.append(probed(count, fetch, level.path.word, span, rng))
            wanted -= len(rings[-1].picks)
    chases = [
        Chase(path=level.path, order=ring.order, timing=Timing.EACH, picks=ring.picks, warmup=ring.warmup,
              alone=level.alone)
        for ring in rings
    ]  # fmt: skip
    traces = yield chases
    answers = []
    for count in counts:
        mine = [i for i, ring in enumerate(rings) if ring.elements == count]
        cycles = np.concatenate([traces[i].cycles for i in mine])
        hits, misses = level.split(cycles)
        answers.append((count, hits, max(hits + misses, 1), digest(chases[mine[0]])))
    return answers


def _fetch_estimate(level: Level) -> Estimate:
    granularity = level.fetch
    if granularity.fetch is None:
        return Estimate(element=level.element, attribute="fetch_granularity", status=Status.NOT_FOUND,
                        reason=granularity.reason, evidence=level.evidence)  # fmt: skip
    return Estimate(
        element=level.element, attribute="fetch_granularity", status=Status.FOUND, value=granularity.fetch, unit="B",
        low=granularity.fetch, high=granularity.fetch, confidence=min(0.99, granularity.agreement),
        method="second word after a cold miss", evidence=level.evidence,
    )  # fmt: skip


def _line_is_fetch(level: Level, fetch: int) -> Estimate:
    """Where nothing can be evicted, a line is at least what one miss brings along."""
    return Estimate(
        element=level.element, attribute="line_size", status=Status.FOUND, value=fetch, unit="B", low=fetch,
        confidence=0.9, method="second word after a cold miss", evidence=level.evidence,
        caveats=("the path is too short to evict single lines: a line could be larger than what one miss fetches",),
    )  # fmt: skip
