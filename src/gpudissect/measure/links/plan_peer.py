"""Memory of another GPU, through the link to it: `gpudissect links`, not part of `discover`.

Whoever measures it disturbs the other GPU, so it is a study of its own. What the chases load was written just before,
so that the L2 of the other GPU answers.
"""

from gpudissect.catalogue.link_rates import nvlink_bandwidth
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.links.link import Link, share_of_rate
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, Study, without
from gpudissect.measure.throughput.rate_estimates import Unbounded
from gpudissect.measure.throughput.stream_search import bandwidth_estimate
from gpudissect.workload import MOVES, Path, Transfer

LATENCIES = ("hit_latency", "link_latency", "wide_latency")
ATTRIBUTES = (*LATENCIES, *(f"{transfer}_bandwidth" for transfer in MOVES))
ADDITIONS = "32-bit additions to consecutive words, one per thread and instruction; atomics to one word are slower"


def first_peer(bench: Bench) -> int | None:
    """Number of the first GPU whose memory the device states that it can access; None for none."""
    peers = str(bench.info.facts.get("peers", "")).split()
    return int(peers[0]) if peers and bench.info.limit(Path.PEER) else None


def without_peers(bench: Bench, *attributes: str) -> Outcome:
    """The outcome where the device accesses no other GPU."""
    reason = bench.info.unsupported.get(Path.PEER, "this device states no GPUs whose memory it can access")
    return Outcome(without(Status.NOT_SUPPORTED, "peer", reason, *attributes))


def peer_plan(bench: Bench, known: Known) -> Plan:
    """Latencies and bandwidths of the link to the first of the peer GPUs that the device states."""
    if (peer := first_peer(bench)) is None:
        return without_peers(bench, *ATTRIBUTES)
    link = Link(Path.PEER, peer)
    estimates: list[Estimate] = []
    for transfer in (Transfer.COPY, Transfer.READ, Transfer.WRITE):  # a copy needs most memory, which is taken once
        best = yield from link.bandwidth(transfer, bench)
        share = Unbounded(share_of_nvlinks(best.second.rate, transfer, bench))
        estimates.append(bandwidth_estimate("peer", f"{transfer}_bandwidth", best, share, ()))
    return Outcome((*estimates, *(yield from link.latencies("peer", bench))))


def additions_plan(bench: Bench, known: Known) -> Plan:
    """Rate of atomic additions to memory of the first of the peer GPUs, where the link supports them."""
    if (peer := first_peer(bench)) is None:
        return without_peers(bench, "add_rate")
    if str(peer) not in str(bench.info.facts.get("atomic_peers", "")).split():
        reason = "the driver states no native atomics over this link"
        return Outcome(without(Status.NOT_SUPPORTED, "peer", reason, "add_rate"))
    best = yield from Link(Path.PEER, peer).additions(bench)
    return Outcome((bandwidth_estimate("peer", "add_rate", best, Unbounded(ADDITIONS), ()),))


def share_of_nvlinks(rate: float, transfer: Transfer, bench: Bench) -> str:
    """What share of the stated rate of all NVLinks of the GPU a rate is, as text; some may lead to other GPUs."""
    facts = bench.info.facts
    return share_of_rate(rate, transfer, nvlink_bandwidth(facts), f"its {facts.get('nvlinks')} NVLinks transfer")


EXPERIMENTS = (
    Experiment(Key("links.peer"), peer_plan, ATTRIBUTES, study=Study.LINKS, element="peer"),
    Experiment(Key("additions.peer"), additions_plan, ("add_rate",), study=Study.LINKS, element="peer"),
)
