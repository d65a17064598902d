"""Whether writes to different levels are held up by one and the same limit: the way of stores from the SMs to the L2.

An L1 that writes through hands on what it is given, and memory gets what the L2 was given before. So what they take
goes through the L2: where one takes as much, the way there may limit both; where more, the L2 takes at least so much.
Held against what was found, nothing is run. Since Volta whatever an SM stores passes by its L1, whether or not anything
stays there (Nsight Compute, "L1TEX"): so that L1 takes at least what the L2 took of an SM.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from gpudissect.catalogue.capabilities import stores_cross_l1
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan
from gpudissect.measure.throughput.bandwidth import bandwidth_of
from gpudissect.measure.throughput.bound import said
from gpudissect.workload import Transfer

PER_SM = "B/cycle"


def stores_plan(element: str, bench: Bench, known: Known) -> Plan:
    """What was found of writes to an element, beside what the L2 takes: a caveat, or more of an L1 passed by."""
    yield from ()
    own, l2 = known[bandwidth_of(element, Transfer.WRITE)], known[bandwidth_of("l2", Transfer.WRITE)]
    if not isinstance(own, Estimate) or not isinstance(l2, Estimate):
        return Outcome()
    together = 1.0
    if own.unit == PER_SM:
        clock = bench.info.facts.get("clock_hz")
        if not isinstance(clock, int | float):
            return Outcome()
        together = clock * bench.info.sm_count
    if element == "l1" and stores_cross_l1(bench.info.facts) and (more := _past_it(own, l2, together)):
        return Outcome((more,))
    if (caveat := _beside(own, l2, together)) is None:
        return Outcome()
    of_all = f"{said(float(str(own.value)) * together, 'B/s')} of all SMs, " if own.unit == PER_SM else ""
    return Outcome((replace(own, caveats=(*own.caveats, of_all + caveat)),))


def _past_it(own: Estimate, l2: Estimate, together: float) -> Estimate | None:
    """What an L1 takes, if more was stored past it: so much. None if no more was."""
    ends = (own.value, own.high, l2.value, l2.low, l2.high)
    if own.status is not Status.FOUND or l2.status is not Status.FOUND or None in ends:
        return None
    stayed, high, value, low, most = (float(str(end)) for end in ends)
    if low <= high * together:
        return None
    more = (f"stores past it, which pass by it all the same, from blocks that come and go; those that stay stored "
            f"{said(stayed, PER_SM)} through it")  # fmt: skip
    return replace(own, value=value / together, low=low / together, high=most / together,
                   evidence=(*own.evidence, *l2.evidence), caveats=(more, *own.caveats[-1:]))  # fmt: skip


def _beside(own: Estimate, l2: Estimate, together: float) -> str | None:
    """How a rate, in units of `together` B/s, stands to that of the L2, in words; None if it is a limit of its own."""
    ends = (own.low, own.high, l2.low, l2.high)
    if own.value is None or l2.value is None or None in ends:
        return None
    low, high, least, most = (float(str(end)) for end in ends)
    of_l2 = said(float(str(l2.value)), "B/s")
    if high * together < least:
        return None
    if most < low * together:
        return (f"more than the L2 took when it was written to by itself ({of_l2}): all of it went through the L2, "
                "which takes at least so much")  # fmt: skip
    return (f"the same, within the brackets, as the L2 takes by itself ({of_l2}): the way of stores from the SMs to "
            "the L2 may limit both")  # fmt: skip


EXPERIMENTS = tuple(
    Experiment(
        key=Key(f"stores.{element}"),
        element=element,
        plan=partial(stores_plan, element),
        revises=(f"{element}.{attribute}",),
        needs=(bandwidth_of(element, Transfer.WRITE), bandwidth_of("l2", Transfer.WRITE)),
    )
    for element, attribute in (("dram", "write_bandwidth"), ("l1", "write_rate"))
)
