"""A map of the L2: how long a hit takes from every SM to every one of some lines, and which SMs lie in one part.

Each SM in turn touches the same lines, after a flush, and then visits them lap after lap. The first touches tell which
part an SM lies in: memory near to it answers sooner, and which lines are near is the other way round in the other part.
The laps after that are hits. They alone would not do, for an SM keeps copies of far lines in the near part. The SMs
come in random order, and some come again at the end, so that nothing that changes with time passes for a part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.access_patterns import scattered
from gpudissect.measure.cache.infer_l2_map import (
    FEWEST_SMS,
    Parts,
    Visits,
    additive,
    explained_by_parts,
    find_parts,
    slices,
)
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.infer_confidence import BRACKETED, TIMED, UNTRIED
from gpudissect.measure.infer_latency import DRIFT, lap_latency
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.units import format_bytes
from gpudissect.workload import Chase, Explicit, Path, Timing
from gpudissect.workload.digest import digest

LINES = 192  # whole rounds of a lap; on 132 SMs as many numbers, with all laps, as a recording should be asked to hold
SPAN = 2 << 20  # one large page
STRIDE = 128
LAPS = 5  # one of first touches, four of hits
AGAIN = 16  # SMs that are looked at twice
UNTIMED = 3  # SMs on which whole laps show what timing single accesses adds
UNTIMED_LAPS = 21
STAYING = 0.5  # share of the lines that must be hits from every SM
ATTRIBUTES = ("latency_by_sm", "partition_by_sm")
METHOD = "mean over lines of the median of single hits, less what timing one adds"
BY_TOUCHES = "which lines lie near and which far, by first touches from every SM"
BY_HITS = "two patterns of hit latencies over the lines"
ONE_PART = "every SM finds the same lines sooner and the same later: one part shows"


def l2_map_plan(bench: Bench, known: Known) -> Plan:
    """Hit latency of every SM, cycles, and the part of the L2 that each lies in."""
    levels = known[levels_of("l2")]
    level = levels.level("l2")
    if level is None:
        absence = levels.absent["l2"]
        return Outcome(without(absence.status, "l2", absence.reason, *ATTRIBUTES))
    span = min(SPAN, bench.info.limit(level.path))
    lines = scattered(min(LINES, span // STRIDE), STRIDE, span, bench.rng("map"))
    order = bench.rng("map", "order").permutation(bench.info.sm_count).tolist()
    again = bench.rng("map", "again").permutation(order)[:AGAIN].tolist()
    ring = Explicit(lines)
    visiting = [_visit(level.path, ring, sm) for sm in order]
    untimed = [_laps(level.path, ring, sm) for sm in order[:UNTIMED]]
    repeating = [_visit(level.path, ring, sm, repetition=1) for sm in again]
    chases = [*visiting, *untimed, *repeating]  # one batch: in the next the lines might lie elsewhere
    traces = yield chases
    laps = [trace.cycles.reshape(LAPS, -1) for trace in traces[: len(order)]]
    visits = Visits.of([laps[at] for at in np.argsort(order)])
    repeated = Visits.of([trace.cycles.reshape(LAPS, -1) for trace in traces[-len(again) :]])
    stays = np.all(visits.hits < (level.behind.low if level.behind else np.inf), axis=0)
    if np.mean(stays) < STAYING:
        reason = f"of {lines.size} lines within {format_bytes(span)} only {int(stays.sum())} are hits from every SM"
        return Outcome(without(Status.NOT_FOUND, "l2", reason, *ATTRIBUTES))
    pure = [lap_latency(trace.cycles, lines.size).cycles for trace in traces[len(order) : len(order) + len(untimed)]]
    timer = [float(visits.hits[sm].mean()) - cycles for sm, cycles in zip(order, pure, strict=False)]
    visits, repeated = visits.over(stays), repeated.over(stays)
    evidence = tuple(digest(chase) for chase in chases)
    seen = _Seen(level, visits, again, repeated, timer, find_parts(visits), format_bytes(span), evidence)
    return Outcome((_latencies(seen), _parts(seen)))


@dataclass(frozen=True, eq=False)
class _Seen:
    """All that was seen: from every SM, from those in `again` once more, and what timing added on some (cycles)."""

    level: Level
    visits: Visits
    again: list[int]
    repeated: Visits
    timer: list[float]
    parts: Parts | None
    span: str
    evidence: tuple[str, ...]


def _visit(path: Path, ring: Explicit, sm: int, repetition: int = 0) -> Chase:
    return Chase(path=path, order=ring, timing=Timing.EACH, warmup=0, laps=LAPS, alone=True, flush=True,
                 repetition=repetition, sm=sm)  # fmt: skip


def _laps(path: Path, ring: Explicit, sm: int) -> Chase:
    return Chase(path=path, order=ring, timing=Timing.LAP, warmup=2, laps=UNTIMED_LAPS, alone=True, sm=sm)


def _latencies(seen: _Seen) -> Estimate:
    hits = seen.visits.hits
    model = additive(hits)
    timer = float(np.median(seen.timer))
    cycles = hits.mean(axis=1) - timer
    repeated = float(np.max(np.abs(seen.repeated.hits.mean(axis=1) - hits[seen.again].mean(axis=1))))
    error = 0.5 + DRIFT * float(cycles.max()) + float(np.ptp(seen.timer)) / 2 + repeated
    low, high = np.quantile(model.by_line, [0.005, 0.995]) + model.mean - timer
    caveats = [
        f"over the same {hits.shape[1]} lines within {seen.span}; each to within {error:.1f} cycles",
        f"{len(seen.again)} of them measured again at the end: within {repeated:.1f} cycles of before",
        f"lines differ as well: {low:.0f} to {high:.0f} cycles, means over the SMs",
    ]
    if model.explained is not None:
        said = f"latency = SM + line explains {model.explained:.1%} of the variance"
        if seen.parts is not None:
            said += f", with lines of its own for each part {explained_by_parts(hits, seen.parts.second) or 0:.1%}"
        caveats.append(said)
    if (patterns := slices(hits)) is not None:
        caveats.append(f"the lines show {patterns} different patterns over the SMs: at least so many slices")
    return Estimate(
        element="l2", attribute="latency_by_sm", status=Status.FOUND, confidence=TIMED, method=METHOD,
        value=tuple(round(float(each), 1) for each in cycles), evidence=seen.evidence, caveats=tuple(caveats),
    )  # fmt: skip


def _parts(seen: _Seen) -> Estimate:
    parts = seen.parts
    if parts is None:
        count = len(seen.visits.hits)
        reason = ONE_PART if count >= FEWEST_SMS else f"{count} SMs are too few to tell parts by"
        return Estimate(element="l2", attribute="partition_by_sm", status=Status.NOT_FOUND, reason=reason,
                        evidence=seen.evidence)  # fmt: skip
    otherwise = parts.sides(seen.repeated) != parts.second[seen.again]
    unsure = sorted({*parts.unsure, *np.array(seen.again)[otherwise].tolist()})
    method = BY_TOUCHES if parts.by_touches else BY_HITS
    if unsure:
        which = ", ".join(map(str, unsure[:8])) + (" and more" if len(unsure) > 8 else "")
        return Estimate(
            element="l2", attribute="partition_by_sm", status=Status.AMBIGUOUS, method=method, evidence=seen.evidence,
            reason=f"two groups of SMs, but some lines or a second look put SM {which} into the other",
        )  # fmt: skip
    return Estimate(
        element="l2", attribute="partition_by_sm", status=Status.FOUND, method=method, evidence=seen.evidence,
        value=tuple(float(each) for each in parts.second), caveats=tuple(_near_and_far(seen, parts)),
        confidence=BRACKETED if parts.by_touches and parts.hits_agree is not False else UNTRIED,
    )  # fmt: skip


def _near_and_far(seen: _Seen, parts: Parts) -> list[str]:
    """What near and far is from all SMs, beside what one SM sees."""
    level, timer = seen.level, float(np.median(seen.timer))
    caveats = []
    if parts.by_touches:
        near, far = (cycles - timer for cycles in parts.near_and_far(seen.visits.touches))
        one = (
            ""
            if level.homes is None
            else (f" (one SM alone: {level.homes.near - timer:.0f} and {level.homes.far - timer:.0f})")
        )
        caveats.append(f"memory from all SMs: near {near:.0f}, far {far:.0f} cycles{one}")
        near, far = (cycles - timer for cycles in parts.near_and_far(seen.visits.hits))
        said = f"hits once the lines are there: near {near:.0f}, far {far:.0f} cycles"
        if level.parts is not None:
            beyond = f"near {level.hit.median - timer:.0f}, far {level.parts.far.median - timer:.0f}"
            said += f" (one SM alone, far ones beyond what the near part holds: {beyond})"
        caveats.append(said)
    else:
        caveats.append("by hits alone: no line's memory is nearer to some SMs and farther from others")
    if parts.hits_agree is not None:
        caveats.append("patterns of hits group the SMs " + ("alike" if parts.hits_agree else "otherwise"))
    return caveats


EXPERIMENTS = (
    Experiment(key=Key("map.l2"), element="l2", plan=l2_map_plan, emits=ATTRIBUTES, needs=(levels_of("l2"),)),
)
