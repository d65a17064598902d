"""Memory of the host, through the link to it.

Page-locked memory of the host is mapped into the GPU's address space, so the chases and streams of device memory run on
it. A recording without this memory was made before it was measured, and gives no findings.
"""

from dataclasses import replace
from functools import partial

from gpudissect.catalogue.link_rates import describe_pcie, pcie_bandwidth
from gpudissect.device_info import Origin
from gpudissect.estimate import Status
from gpudissect.measure.links.link import MIN_L2_SIZES, MIN_SPAN, Link, footprint_limit, share_of_rate
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.throughput.rate_estimates import Unbounded
from gpudissect.measure.throughput.stream_search import bandwidth_estimate, why_no_streams
from gpudissect.units import format_bytes
from gpudissect.workload import MOVES, Path, Transfer

HOST = Link(Path.HOST)


def latency_plan(bench: Bench, known: Known) -> Plan:
    """Latency of a load over few pages, in cycles and in ns, and over many pages."""
    if (absent := _absent(bench, "hit_latency", "link_latency", "wide_latency")) is not None:
        return absent
    return Outcome((yield from HOST.latencies("host", bench)))


def bandwidth_plan(transfer: Transfer, bench: Bench, known: Known) -> Plan:
    """Bandwidth of loads, of stores or, as a copy within the host's memory, of both directions at once, B/s."""
    attribute = f"{transfer}_bandwidth"
    if (absent := _absent(bench, attribute)) is not None:
        return absent
    if (reason := why_no_streams(Path.HOST, bench)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "host", reason, attribute))
    l2 = bench.info.facts.get("l2_size")
    if isinstance(l2, int) and footprint_limit(Path.HOST, bench) < MIN_L2_SIZES * l2:
        reason = f"too little memory of the host is free for footprints of {MIN_L2_SIZES} times the L2"
        return Outcome(without(Status.NOT_SUPPORTED, "host", reason, attribute))
    best = yield from HOST.bandwidth(transfer, bench)
    stream = best.best
    over = f"{stream.blocks} blocks of {stream.threads} threads, over {format_bytes(stream.footprint)}"
    share = Unbounded(share_of_link(best.second.rate, transfer, bench))
    estimate = bandwidth_estimate("host", attribute, best, share, (over,))
    if estimate.low is not None and isinstance(l2, int):  # what the L2 may hold at the end has not crossed the link
        estimate = replace(estimate, low=estimate.low * max(0.0, 1 - l2 / stream.moved))
    return Outcome((estimate,))


def share_of_link(rate: float, transfer: Transfer, bench: Bench) -> str:
    """What share of the stated rate a rate is, as text. It may be more: not all memory of hosts is behind PCIe."""
    facts = bench.info.facts
    return share_of_rate(rate, transfer, pcie_bandwidth(facts), f"{describe_pcie(facts)} transfers")


def _absent(bench: Bench, *attributes: str) -> Outcome | None:
    """The outcome where the device has no memory of the host; None where it has."""
    info = bench.info
    if info.limit(Path.HOST) >= MIN_SPAN:
        return None
    if info.origin is Origin.REPLAYED and Path.HOST not in info.unsupported:
        return Outcome()
    reason = info.unsupported.get(Path.HOST, "this device maps no memory of the host")
    return Outcome(without(Status.NOT_SUPPORTED, "host", reason, *attributes))


EXPERIMENTS = (
    *(
        Experiment(Key(f"bandwidth.host.{each}"), partial(bandwidth_plan, each), (f"{each}_bandwidth",), last=True)
        for each in MOVES
    ),
    Experiment(Key("latency.host"), latency_plan, ("hit_latency", "link_latency", "wide_latency"), last=True),
)
