"""Throughput against occupancy and arithmetic intensity, and what it takes to hide latency (VV16 ch 4-6)."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import NoneType

from gpudissect.catalogue.compute_capability import schedulers, special_function_rate, warp_issues
from gpudissect.device_info import DeviceInfo
from gpudissect.estimate import Estimate, Series, Status
from gpudissect.measure.infer_confidence import BANDWIDTH, RATE, TIMED, UNTRIED, WARPS
from gpudissect.measure.instructions.infer_issue import SmTotals
from gpudissect.measure.instructions.instructions import why_unsupported
from gpudissect.measure.latency_hiding.infer_loops import (
    PLATEAU_WIDTH,
    LoopData,
    Pace,
    Plateau,
    Point,
    loop_rate,
    plateau_of,
    points_of,
    unloaded_latency,
)
from gpudissect.measure.latency_hiding.mixes import (
    FULL,
    FULL_CLOCK,
    KINDS,
    QUICK,
    WAVES,
    Grid,
    Kind,
    block_sizes,
    counts,
    mix_of,
    occupancies,
    possible_warps,
    run_at_full_clock,
)
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, StopEarly, Study, found, without
from gpudissect.measure.throughput.rate_estimates import MAX_EXCESS, MEMORY, Bound, Unbounded, peak_bandwidth
from gpudissect.trace import Trace
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Access, Instruction, Mix
from gpudissect.workload.digest import digest

MEMORY_ATTRIBUTES = ("read_bandwidth", "access_bytes")
ATTRIBUTES = (
    *("access_latency", "access_rate", *MEMORY_ATTRIBUTES, "arithmetic_latency", "arithmetic_rate", "issue_rate"),
    *("warps_for_90", "warps_for_95", "arithmetic_warps", "cusp_alpha", "cusp_warps", "load_imbalance"),
)
SHARES = {"warps_for_90": (0.0, 0.90), "warps_for_95": (0.0, 0.95), "arithmetic_warps": (math.inf, 0.98)}
"""Alpha and share of the peak; additions alone do not saturate gradually."""
CHAINS = (2, 4)
BATCH_MIXES = 200  # lost together if the batch is interrupted
MAX_RATE_UNCERTAINTY = 0.01  # of warps that end at different times
WIDE_BENEFIT = 0.90  # 4 bytes a lane fill the memory if they reach this share of the throughput of 8
ERROR = 0.01  # relative, of latencies and of the imbalance
REPORTED_EXCESS = 0.0001  # relative, over a bound
SERVED_ACCESSES = 1.0  # per cycle by shared memory: each of 32 banks serves one word or row
PLATEAU_METHOD = (
    f"plateau: median of the mixes within {PLATEAU_WIDTH:.0%} of the fastest, of occupancies that give each scheduler "
    "equally many warps"
)
IMBALANCE_METHOD = "accesses alone: longest span of an SM over the mean, at the worst occupancy (VV16 s5.5)"
UNKNOWN_BOUND = Unbounded("")


def loops_of(element: str) -> Key[LoopData | None]:
    """Latency hiding of an access, as measured; None where no peak could be measured."""
    return Key(f"loops.{element}", (LoopData, NoneType))


def loops_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Latencies, peaks, warps needed, the cusp. The quick grid runs first, so that interrupted runs have an answer."""
    info = bench.info
    for instruction in (kind.instruction, Instruction.FADD):
        if (reason := why_unsupported(instruction, info)) is not None:
            attributes = (name for name in ATTRIBUTES if kind.of_memory or name not in MEMORY_ATTRIBUTES)
            return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, *attributes))
    width, pace, first = yield from _measure_pace(kind, info)
    measured = {digest(mix) for mix, _ in first}
    quick = _mixes(kind, QUICK, width, pace, info)
    mixes = quick if bench.quick else _mixes(kind, FULL, width, pace, info)
    mixes = [mix for mix in mixes if digest(mix) not in measured]
    runs: dict[Mix, tuple[Mix, Trace]] = {}  # by the planned mix the final one
    try:
        for batch in _batches(mixes, set(quick)):
            clock = max(_clocks([*first, *runs.values()]), default=0.0)
            runs.update(zip(batch, (yield from _run_steadily(batch, clock)), strict=True))
    except StopEarly:
        if not runs:
            raise
    pairs = [*first, *(runs[mix] for mix in mixes if mix in runs)]
    pairs = [(mix, trace) for mix, trace in pairs if mix.width == width or not counts(mix)[0]]
    caveats: tuple[str, ...] = ()
    if len(runs) < len(mixes):  # without the maximum occupancy the warps needed are unknown
        most = max(mix.warps for mix in mixes)
        complete = {mix.body for mix, _ in pairs if mix.warps == most}
        pairs = [(mix, trace) for mix, trace in pairs if mix.body in complete]
        caveats = (f"only {len(runs)} of {len(mixes)} mixes were run",)
    clocks = sorted(_clocks(pairs))
    if slow := sum(clock < FULL_CLOCK * clocks[-1] for clock in clocks):
        caveats = (f"{slow} mixes ran below {FULL_CLOCK:.0%} of the full clock", *caveats)
    loops = _loop_data(kind, tuple(_point(mix, trace) for mix, trace in pairs), width, pace, info)
    clock_hz = clocks[len(clocks) // 2] if clocks else None
    valid = not _why_misread(loops.accesses, loops.arithmetic, loops.issue)
    estimates = tuple(_estimates(kind, loops, info, clock_hz, caveats))
    return Outcome(estimates, loops if valid else None, (_series(kind, loops),))


def _clocks(pairs: Sequence[tuple[Mix, Trace]]) -> list[float]:
    return [trace.context.clock_hz for _, trace in pairs if trace.context.clock_hz is not None]


def _measure_pace(kind: Kind, info: DeviceInfo) -> Ask[tuple[int, Pace, list[tuple[Mix, Trace]]]]:
    """Bytes of a lane that fill the memory, the pace with one warp and with all, and the mixes that were run."""
    most = possible_warps(info)[-1]
    widths = (4, 8) if kind.of_memory and kind.access is not Access.RANDOM else (4,)
    mixes = [mix_of(kind, 0.0, warps, info, Pace(), width) for width in widths for warps in (1, most)]
    mixes += [mix_of(kind, math.inf, warps, info, Pace()) for warps in (1, most)]
    pairs = yield from _run_steadily(mixes)
    points = [_point(mix, trace) for mix, trace in pairs]
    chosen = 0 if 4 * points[1].rate >= WIDE_BENEFIT * widths[-1] * points[-3].rate else len(widths) - 1
    alone, full, adding, all_adding = *points[2 * chosen : 2 * chosen + 2], *points[-2:]
    rates = max(full.rate, alone.rate), max(all_adding.rate, adding.rate)
    return widths[chosen], Pace(alone.latency, rates[0], adding.latency, rates[1]), pairs


def _mixes(kind: Kind, grid: Grid, width: int, pace: Pace, info: DeviceInfo) -> list[Mix]:
    """All mixes, by warps, because links are written again when their number changes."""
    shared = occupancies(grid, info)
    mixes = []
    for warps in sorted({*shared, *(possible_warps(info) if grid.all_occupancies else ())}):
        sizes = block_sizes(warps, info)
        for alpha in grid.alphas if warps in shared else (0.0, math.inf):
            several = grid.all_occupancies and alpha in (0.0, math.inf)
            for block in (sizes[-1], sizes[0]) if several else sizes[-1:]:
                mixes.append(mix_of(kind, alpha, warps, info, pace, width, block=block))
    top = shared[-1]
    few = [warps for warps in shared if top // 4 <= warps <= max(1, top // 2)][-1:] + shared[:1]
    mixes += [mix_of(kind, 0.0, warps, info, pace, width, chains) for chains in CHAINS for warps in few]
    return list(dict.fromkeys(mixes))


def _batches(mixes: Sequence[Mix], quick: set[Mix]) -> Iterator[list[Mix]]:
    """Batches of mixes, those of the quick grid first. They are large because a device compiles each at once."""
    rest = [mix for mix in mixes if mix not in quick]
    batches = [rest[start : start + BATCH_MIXES] for start in range(0, len(rest), BATCH_MIXES)]
    yield from filter(None, ([mix for mix in mixes if mix in quick], *batches))


def _run_steadily(mixes: Sequence[Mix], fastest: float = 0.0) -> Ask[list[tuple[Mix, Trace]]]:
    """Run mixes at full clock; those whose warps take unequal times again in several waves (VV16 s5.9).

    `fastest`: the fastest clock of earlier mixes, Hz. Returns the final mixes and their traces.
    """
    pairs = list(zip(*(yield from run_at_full_clock(mixes, fastest)), strict=True))
    uneven = [n for n, (_, trace) in enumerate(pairs) if SmTotals.of(trace).rate_uncertainty > MAX_RATE_UNCERTAINTY]
    if uneven:
        waves = [replace(pairs[n][0], waves=WAVES, repetition=0) for n in uneven]
        for n, mix, trace in zip(uneven, *(yield from run_at_full_clock(waves, fastest)), strict=True):
            pairs[n] = mix, trace
    return pairs


def _point(mix: Mix, trace: Trace) -> Point:
    """A mix as a point. Its latency is that of warps; of warps of unequal pace it follows from Little's law."""
    totals, (accesses, additions) = SmTotals.of(trace), counts(mix)
    rate = loop_rate(totals, mix.waves, mix.instructions)
    duration = totals.mean_duration / (mix.instructions / mix.ilp)
    return Point(
        alpha=additions / accesses if accesses else math.inf,
        warps=mix.warps,
        block=mix.block_size,
        chains=mix.ilp,
        rate=rate,
        overall=totals.overall_rate(mix.instructions),
        latency=duration if mix.waves == 1 else mix.warps * mix.ilp / rate,
        imbalance=totals.imbalance,
        clock_hz=trace.context.clock_hz,
        source=digest(mix),
    )


def _loop_data(kind: Kind, points: tuple[Point, ...], width: int, pace: Pace, info: DeviceInfo) -> LoopData:
    accesses, single = [point for point in points if point.alpha == 0.0], [p for p in points if p.chains == 1]
    latency, arithmetic_latency = unloaded_latency(accesses), unloaded_latency(points_of(points, math.inf))
    dependent = [2 * point.latency - arithmetic_latency for point in points if (point.alpha, point.warps) == (1.0, 1)]
    access_bytes = WARP_SIZE * width * kind.stride if kind.of_memory else 0
    return LoopData(
        points=points,
        access_bytes=access_bytes,
        width=width,
        pace=pace,
        access_latency=latency,
        arithmetic_latency=arithmetic_latency,
        dependent_latency=latency if kind.of_memory else min([*dependent, latency]),
        accesses=_plateau(accesses, info, access_bound(kind, access_bytes, info)),
        arithmetic=_plateau(points_of(points, math.inf), info, scheduler_bound(info)),
        issue=_plateau(single, info, scheduler_bound(info)),
    )


def scheduler_bound(info: DeviceInfo) -> Bound | Unbounded:
    """Upper bound of all instructions, per cycle of one SM."""
    issues = warp_issues(info.facts)
    return UNKNOWN_BOUND if issues is None else Bound(float(issues), "the schedulers")


def access_bound(kind: Kind, access_bytes: int, info: DeviceInfo) -> Bound | Unbounded:
    """Upper bound of accesses per cycle of one SM: by the memory, the banks, or the special function units."""
    if kind.of_memory:
        bound, clock = peak_bandwidth(info), info.facts.get("clock_hz")
        if isinstance(bound, Unbounded) or not (isinstance(clock, int | float) and clock > 0):
            return UNKNOWN_BOUND
        return Bound(bound.rate / (access_bytes * info.sm_count * float(clock)), MEMORY)
    if kind.instruction is Instruction.LDS:
        return Bound(SERVED_ACCESSES, "the banks")
    results = special_function_rate(info.facts)
    return UNKNOWN_BOUND if results is None else Bound(results / WARP_SIZE, "the units for special functions")


def _plateau(points: Sequence[Point], info: DeviceInfo, bound: Bound | Unbounded) -> Plateau:
    limits = (bound.rate, bound.what) if isinstance(bound, Bound) else ()
    return plateau_of(points, schedulers(info.facts), *limits)


def _why_misread(*plateaus: Plateau) -> str:
    """Why one of these must be wrong: it exceeds its bound by more than `MAX_EXCESS`. Empty if none does."""
    worst = max(plateaus, key=lambda plateau: plateau.excess)
    if worst.excess <= MAX_EXCESS:
        return ""
    return f"the measured rate is {worst.excess:.1%} more than {worst.bound} can give"


def _estimates(
    kind: Kind, loops: LoopData, info: DeviceInfo, clock_hz: float | None, caveats: tuple[str, ...]
) -> Iterator[Estimate]:
    """All estimates; `clock_hz` of the SMs while mixes ran, None if not observed. `caveats` go with what was found."""
    element, accesses, additions = kind.element, loops.evidence(0.0), loops.evidence(math.inf)

    def latency(attribute: str, cycles: float, what: str, evidence: tuple[str, ...]) -> Estimate:
        method = f"{what}, smallest mean latency of a warp (VV16 table 6.2)"
        low, high = cycles * (1 - ERROR), cycles * (1 + ERROR)
        return found(element, attribute, cycles, low, high, TIMED, method, evidence, caveats)

    def rate(attribute: str, plateau: Plateau, what: str, evidence: tuple[str, ...], scale: float) -> Estimate:
        """In a unit of which one instruction per cycle of one SM is `scale`."""
        method, confidence = f"{PLATEAU_METHOD}: {what}", BANDWIDTH if attribute == "read_bandwidth" else RATE
        if reason := _why_misread(plateau):
            return replace(_not_found(element, attribute, reason, evidence), method=method)
        value, low, high = (scale * end for end in (plateau.rate, plateau.low, plateau.high))
        notes = (*caveats, *_plateau_caveats(plateau))
        return found(element, attribute, value, low, high, confidence, method, evidence, notes)

    several_chains = "accesses alone, with 1, 2 and 4 chains per warp (VV16 s6.3, table 6.4)"
    issue = "the fastest mixes, one chain per warp: a lower bound for the schedulers"
    yield latency("access_latency", loops.access_latency, "accesses alone", accesses)
    yield rate("access_rate", loops.accesses, several_chains, accesses, WARP_SIZE)
    yield latency("arithmetic_latency", loops.arithmetic_latency, "additions alone", additions)
    yield rate("arithmetic_rate", loops.arithmetic, "additions alone (VV16 table 6.1)", additions, WARP_SIZE)
    yield rate("issue_rate", loops.issue, issue, loops.evidence(), WARP_SIZE)
    worst = max(point.imbalance for point in loops.curve(0.0).values())
    low, high = max(1.0, worst * (1 - ERROR)), worst * (1 + ERROR)
    yield found(element, "load_imbalance", worst, low, high, UNTRIED, IMBALANCE_METHOD, accesses, caveats)
    if kind.of_memory:
        hertz = clock_hz if clock_hz is not None else info.facts.get("clock_hz")
        if isinstance(hertz, int | float):
            scale = loops.access_bytes * info.sm_count * hertz
            yield rate("read_bandwidth", loops.accesses, several_chains, accesses, scale)
        size = float(loops.access_bytes)
        method = f"{loops.width} bytes per lane saturate the memory" + (", fewer do not" if loops.width > 4 else "")
        yield found(element, "access_bytes", size, size, size, UNTRIED, method, accesses, caveats)
    yield from _warps_estimates(kind, loops, info, caveats)
    yield from _cusp_estimates(kind, loops, info, caveats)


def _not_found(
    element: str, attribute: str, reason: str, evidence: tuple[str, ...], low: float | None = None
) -> Estimate:
    (estimate,) = without(Status.NOT_FOUND, element, reason, attribute)
    return replace(estimate, evidence=evidence, low=low)


def _plateau_caveats(plateau: Plateau) -> Iterator[str]:
    if plateau.members == 1:
        yield f"one mix alone is this fast, others are {PLATEAU_WIDTH:.0%} or more slower: the maximum may be higher"
    if plateau.excess > REPORTED_EXCESS:
        yield f"the measured rate is {plateau.excess:.2%} more than {plateau.bound} can give: misread"


def _min_unmeasured(measured: Iterable[int], warps: int, info: DeviceInfo) -> int:
    """The smallest possible number of warps above the largest measured one below `warps`."""
    below = max((count for count in measured if count < warps), default=0)
    return min((count for count in possible_warps(info) if below < count <= warps), default=warps)


def _warps_estimates(kind: Kind, loops: LoopData, info: DeviceInfo, caveats: tuple[str, ...]) -> Iterator[Estimate]:
    for attribute, (alpha, share) in SHARES.items():
        if reason := _why_misread(loops.issue, loops.arithmetic if math.isinf(alpha) else loops.accesses):
            yield from without(Status.NOT_FOUND, kind.element, reason, attribute)
            continue
        curve, needed, evidence = loops.curve(alpha), loops.warps_needed(alpha, share), loops.evidence(alpha)
        most = max(curve)
        if needed.warps is None:
            reached = max(point.rate for point in curve.values()) / loops.peak(alpha)
            reason = f"up to {most} warps of one chain each reach {reached:.0%} of the peak, not {share:.0%}"
            yield _not_found(kind.element, attribute, reason, evidence, most)
            continue
        low = _min_unmeasured(curve, needed.low or needed.warps, info)
        method = f"minimum number of warps per SM that reaches {share:.0%} of the peak"
        high = needed.high or most
        yield found(kind.element, attribute, needed.warps, low, high, WARPS, method, evidence, caveats)


def _cusp_estimates(kind: Kind, loops: LoopData, info: DeviceInfo, caveats: tuple[str, ...]) -> Iterator[Estimate]:
    cusp, reason = loops.cusp, _why_misread(loops.issue, loops.arithmetic, loops.accesses)
    if cusp is None or reason:
        reason = reason or "warps needed for 90 % of the peak do not rise and then fall with arithmetic intensity"
        yield from without(Status.NOT_FOUND, kind.element, reason, "cusp_alpha", "cusp_warps")
        return
    evidence = loops.evidence(*(alpha for alpha in loops.alphas if cusp.low <= alpha <= cusp.high))
    method = "additions per access at which 90 % of the peak needs the most warps (VV16 s4.5)"
    yield found(kind.element, "cusp_alpha", cusp.alpha, cusp.low, cusp.high, UNTRIED, method, evidence, caveats)
    measured = sorted({p.warps for p in loops.points if cusp.low <= p.alpha <= cusp.high and p.chains == 1})
    if cusp.warps is None:
        reason = f"not even {measured[-1]} warps reach 90 % of the peak there"
        yield _not_found(kind.element, "cusp_warps", reason, evidence, measured[-1])
    else:
        low, method = _min_unmeasured(measured, cusp.warps, info), "warps of an SM needed there"
        yield found(kind.element, "cusp_warps", cusp.warps, low, cusp.warps, UNTRIED, method, evidence, caveats)


def _series(kind: Kind, loops: LoopData) -> Series:
    """Every point, by alpha, chains, warps and block."""
    points = sorted(loops.points, key=lambda point: (point.alpha, point.chains, point.warps, point.block))
    names = ("warps", "chains", "block", "overall", "latency", "imbalance", "rate")
    return Series(
        element=kind.element,
        name="throughput against warps and alpha",
        columns={"alpha": tuple("inf" if math.isinf(point.alpha) else point.alpha for point in points)}
        | {name: tuple(float(getattr(point, name)) for point in points) for name in names},
        units={"block": "threads", "rate": "instructions/cycle", "overall": "instructions/cycle", "latency": "cycles"},
        evidence=loops.evidence(),
    )


EXPERIMENTS = tuple(
    Experiment(loops_of(kind.element), partial(loops_plan, kind), ATTRIBUTES, quick=True, study=Study.HIDE)
    for kind in KINDS
)
