"""Hit latency of the far L2 partition from several SMs, in place of that from one.

Each SM traverses a footprint that its near partition does not hold. Its hits in the far one are accesses to lines with
a far home that take longer than a near hit and less than memory. Which lines have a far home depends on the SM, so each
SM also accesses them first after a flush.
"""

from dataclasses import replace

import numpy as np

from gpudissect.measure.cache.plan_latency import FAR_METHOD, L2_TIMING, latency_estimate
from gpudissect.measure.cache.plan_levels import L2, far_hits, first_access_chases, level_of, overflow_chase
from gpudissect.measure.infer_confidence import BRACKETED
from gpudissect.measure.infer_latency import deviation_over_sms, trimmed_mean, widened
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan

SMS = 9
MIN_SMS = 3  # with far hits; of fewer the latency from one SM stays


def far_partition_plan(bench: Bench, known: Known) -> Plan:
    """Hit latency of the far partition, cycles, mean over SMs; no estimate without such a partition."""
    level, timing = level_of("l2", known), known[L2_TIMING]
    if level is None or timing is None or level.far_partition is None or level.home_partition is None:
        return Outcome()
    size = level.far_partition.overflow_footprint
    chase, offsets = overflow_chase(level.path, size, bench)
    chases = [chase, *first_access_chases(level.path, offsets, bench, size)]
    sms: list[int] = bench.rng("far", "sms").permutation(bench.info.sm_count)[:SMS].tolist()
    traces = yield [replace(each, sm=sm) for sm in sms for each in chases]  # one batch: the same memory
    samples = []
    for first in range(0, len(traces), len(chases)):
        trace, *touches = traces[first : first + len(chases)]
        hits, _ = far_hits(level, level.home_partition, size, trace, touches)
        if hits is not None:
            samples.append(hits.samples)
    if len(samples) < MIN_SMS:
        return Outcome()
    by_sm = [trimmed_mean(each, timing.overhead) for each in samples]
    deviation = max(timing.deviation, deviation_over_sms(by_sm))
    latency = widened(trimmed_mean(np.concatenate(samples), timing.overhead), deviation, len(by_sm))
    means = [each.cycles for each in by_sm]
    caveat = f"mean over {len(means)} SMs; single SMs: {min(means):.0f} to {max(means):.0f} cycles"
    evidence = tuple(trace.workload for trace in traces)
    return Outcome((latency_estimate("l2", "far_latency", latency, FAR_METHOD, evidence, BRACKETED, (caveat,)),))


EXPERIMENTS = (
    Experiment(Key("far_partition.l2"), far_partition_plan, needs=(L2, L2_TIMING), revises=("l2.far_latency",)),
)
