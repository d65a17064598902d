"""Memory of other GPUs, through the links between them: `gpudissect links`, not part of `discover`.

Whoever measures it disturbs the other GPU, so it is a study of its own. What the chases load was written just before,
so that the L2 of the other GPU answers; where loads are cached in between differs by GPU, and is not measured.
"""

from gpudissect.estimate import Estimate, Series, Status
from gpudissect.measure.infer_confidence import BANDWIDTH, TIMED
from gpudissect.measure.links.link import SPANS, Link
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, Study, found, without
from gpudissect.measure.throughput.stream_search import METHOD
from gpudissect.vocabulary import unit_of
from gpudissect.workload import Path, Transfer

ATTRIBUTES = ("hit_latency", "link_latency", "wide_latency", "read_bandwidth", "write_bandwidth", "copy_bandwidth")
BY_GPU = "by GPU"
Bracketed = tuple[float, float, float]  # value, low, high


def peer_plan(bench: Bench, known: Known) -> Plan:
    """Latencies and bandwidths to every GPU that can be accessed: the median over them, from the lowest to the highest.

    The series has one row for each GPU: its number, then value, low and high of each attribute.
    """
    peers = [int(number) for number in str(bench.info.facts.get("peers", "")).split()]
    if not peers or not bench.info.limit(Path.PEER):
        reason = bench.info.unsupported.get(Path.PEER, "this device states no GPUs whose memory it can access")
        return Outcome(without(Status.NOT_SUPPORTED, "peer", reason, *ATTRIBUTES))
    rows: dict[str, dict[int, Bracketed]] = {attribute: {} for attribute in ATTRIBUTES}
    methods: dict[str, str] = dict.fromkeys(ATTRIBUTES, METHOD)
    evidence: dict[str, tuple[str, ...]] = dict.fromkeys(ATTRIBUTES, ())
    for peer in peers:
        link = Link(Path.PEER, peer)
        for transfer in (Transfer.COPY, Transfer.READ, Transfer.WRITE):  # a copy needs most memory, which is taken once
            best, attribute = (yield from link.bandwidth(transfer, bench)), f"{transfer}_bandwidth"
            pair = best.first, best.second
            rows[attribute][peer] = best.second.rate, min(each.low for each in pair), max(each.high for each in pair)
            evidence[attribute] += best.evidence
        for attribute in SPANS:
            latency = yield from link.latency(attribute, bench)
            measured = {attribute: latency.cycles}
            if attribute == "hit_latency" and latency.nanoseconds is not None:
                measured["link_latency"] = latency.nanoseconds
            for name, each in measured.items():
                rows[name][peer] = each.cycles, each.low, each.high
                methods[name], evidence[name] = latency.method, evidence[name] + latency.evidence
    estimates = (_estimate(each, rows[each], methods[each], evidence[each]) for each in ATTRIBUTES)
    complete = {attribute: row for attribute, row in rows.items() if len(row) == len(peers)}
    columns: dict[str, tuple[float | str, ...]] = {"gpu": tuple(map(float, peers))}
    for attribute, row in complete.items():
        for place, suffix in enumerate(("", "_low", "_high")):
            columns[attribute + suffix] = tuple(row[peer][place] for peer in peers)
    units = {name: unit_of(attribute) for attribute in complete for name in columns if name.startswith(attribute)}
    every = tuple(dict.fromkeys(digest for each in evidence.values() for digest in each))
    return Outcome(tuple(estimates), None, (Series("peer", BY_GPU, columns, units, every),))


def _estimate(attribute: str, row: dict[int, Bracketed], method: str, evidence: tuple[str, ...]) -> Estimate:
    """The median over GPUs, with a bracket that holds all of them; each in a caveat if there are several."""
    if not row:
        return without(Status.NOT_FOUND, "peer", "the SM clock is not known", attribute)[0]
    values = sorted(value for value, _, _ in row.values())
    median = values[len(values) // 2]
    low, high = min(low for _, low, _ in row.values()), max(high for _, _, high in row.values())
    each = ", ".join(f"GPU {peer} {value:.4g}" for peer, (value, _, _) in row.items())
    confidence = TIMED if attribute.endswith("latency") else BANDWIDTH
    return found("peer", attribute, median, low, high, confidence, method, evidence, (f"{unit_of(attribute)}: {each}",))


EXPERIMENTS = (Experiment(Key("links.peer"), peer_plan, ATTRIBUTES, study=Study.LINKS, element="peer"),)
