"""Which caches hold lines of another GPU's memory, for `gpudissect links`.

Caches are inferred from latencies. If a cache of this GPU holds the line, a repeated load, through the L1 or past it,
is faster than the first one. If the L2 of the other GPU holds the line, a first load is faster than a first load after
many other lines of that memory were loaded.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.plan_latency import latency_estimate
from gpudissect.measure.infer_confidence import TIMED, UNTRIED
from gpudissect.measure.infer_latency import Latency, lap_latency, median_over_sms
from gpudissect.measure.links.link import CHAINS, nanoseconds
from gpudissect.measure.links.plan_peer import first_peer, without_peers
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, Study, found, without
from gpudissect.units import KIB, MIB
from gpudissect.workload import Chase, Path, PriorAccesses, Sequential, Shuffled, Timing

OWN_L1, OWN_L2, OTHER_L2 = "L1 of this GPU", "L2 of this GPU", "L2 of the other GPU"
MAX_HIT_SHARE = 0.7  # of the latency over the link; a cache of this GPU answers in a fraction of that
MAX_OTHER_HIT_SHARE = 0.95  # of the latency of memory behind the link, of which the link is most
LATENCIES = ("first_latency", "repeated_latency", "repeated_l1_latency", "evicted_latency")
ATTRIBUTES = (*LATENCIES, "cached_in")
LINKS, STRIDE = 64, 256  # 16 KiB, which every L1 holds
OTHERS_START, OTHERS_STRIDE, DEFAULT_OTHERS = 64 * KIB, 128, 256 * MIB  # lines that displace those of the chain
DISPLACING_L2_SIZES = 4  # whatever the replacement policy
THREADS = 1024
METHOD = f"median over {CHAINS} SMs of a lap of {LINKS} dependent loads, {STRIDE} bytes apart, after a flush"
HOW = {
    "first_latency": "first loads",
    "repeated_latency": "repeated past the L1",
    "repeated_l1_latency": "repeated through the L1",
    "evicted_latency": "first loads, after loads of other lines of that memory",
}


class Repeated(NamedTuple):
    """Latencies of loads from another GPU's memory by SM, all in the same unit and order."""

    first: Sequence[Latency]
    past_l1: Sequence[Latency]  # of the same lines again, bypassing the L1
    through_l1: Sequence[Latency]  # of the same lines again
    displaced: Sequence[Latency]  # first loads after other lines of that memory were loaded


def holding_caches(latencies: Repeated) -> dict[str, bool | None]:
    """Whether each cache holds the lines, nearest first; None where the SMs disagree.

    A short latency through the L1 shows that the L1 holds the lines only if the latency past it is longer.
    """
    first, past_l1, through_l1, displaced = latencies
    slower = [min(pair, key=lambda each: each.cycles) for pair in zip(first, past_l1, strict=True)]
    return {
        OWN_L1: _are_shorter(through_l1, slower, MAX_HIT_SHARE),
        OWN_L2: _are_shorter(past_l1, first, MAX_HIT_SHARE),
        OTHER_L2: _are_shorter(first, displaced, MAX_OTHER_HIT_SHARE),
    }


def _are_shorter(some: Sequence[Latency], others: Sequence[Latency], share: float) -> bool | None:
    """Whether latencies are below this share of others on every SM; None if on some of them."""
    shorter = {one.cycles < share * other.cycles for one, other in zip(some, others, strict=True)}
    return shorter.pop() if len(shorter) == 1 else None


def caching_plan(bench: Bench, known: Known) -> Plan:
    """Latencies of loads that a cache may serve, ns, and which caches do."""
    info = bench.info
    if (peer := first_peer(bench)) is None or not info.limit(Path.PEER_L1):
        return without_peers(bench, *ATTRIBUTES)
    order = Shuffled(LINKS, STRIDE, bench.seed_for("peer caching"))
    chase = Chase(path=Path.PEER, order=order, timing=Timing.LAP, warmup=0, laps=2, flush=True, alone=True, peer=peer)
    others = Sequential(_displacing_bytes(bench) // OTHERS_STRIDE, OTHERS_STRIDE, OTHERS_START)
    displaced = replace(chase, laps=1, before=(PriorAccesses(path=Path.PEER, order=others, threads=THREADS),))
    sms = bench.rng("peer caching", "sms").permutation(info.sm_count)
    traces = yield [
        replace(each, sm=int(sms[i % sms.size]))
        for each in (chase, replace(chase, path=Path.PEER_L1), displaced)
        for i in range(CHAINS)
    ]
    if not all(trace.context.clock_hz for trace in traces):
        return Outcome(without(Status.NOT_FOUND, "peer", "the SM clock is not known", *ATTRIBUTES))
    evidence = tuple(trace.workload for trace in traces)

    def by_sm(which: int, lap: int) -> list[Latency]:
        chosen = traces[which * CHAINS : (which + 1) * CHAINS]
        laps = ((lap_latency(each.cycles[lap : lap + 1], LINKS), each.context.clock_hz or 0.0) for each in chosen)
        return [nanoseconds(cycles, clock) for cycles, clock in laps]

    repeated = Repeated(by_sm(0, 0), by_sm(0, 1), by_sm(1, 1), by_sm(2, 0))
    estimates: list[Estimate] = [
        latency_estimate("peer", name, median_over_sms(each), f"{METHOD}; {HOW[name]}", evidence, TIMED)
        for name, each in zip(LATENCIES, repeated, strict=True)
    ]
    holding = holding_caches(repeated)
    if doubtful := [cache for cache, holds in holding.items() if holds is None]:
        reason = f"SMs disagree about: {', '.join(doubtful)}"
        estimates += without(Status.AMBIGUOUS, "peer", reason, "cached_in", evidence=evidence, method=METHOD)
    else:
        value = ", ".join(cache for cache, holds in holding.items() if holds) or "no cache"
        estimates.append(found("peer", "cached_in", value, None, None, UNTRIED, METHOD, evidence))
    return Outcome(tuple(estimates))


def _displacing_bytes(bench: Bench) -> int:
    """Bytes that displace every other line from another GPU's L2, assumed to be as large as this GPU's L2."""
    l2 = bench.info.facts.get("l2_size")
    wanted = DISPLACING_L2_SIZES * l2 if isinstance(l2, int) and l2 else DEFAULT_OTHERS
    return min(wanted, bench.info.limit(Path.PEER) - OTHERS_START)


EXPERIMENTS = (Experiment(Key("caching.peer"), caching_plan, ATTRIBUTES, study=Study.LINKS, element="peer"),)
