"""Bandwidth of copies by copy engines (``cudaMemcpy``), for `gpudissect links`.

The difference of two sizes removes the time to start a copy.
"""

from dataclasses import replace

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.infer_confidence import BANDWIDTH
from gpudissect.measure.links.plan_host import share_of_link
from gpudissect.measure.links.plan_peer import share_of_nvlinks
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, Study, found, without
from gpudissect.units import MIB
from gpudissect.workload import EngineCopy, Path, Transfer

SIZES = (32 * MIB, 128 * MIB)
RUNS, REPETITIONS = 4, 5
ERROR = 0.01  # relative, of the slope of a lower quartile
DIRECTIONS = {"read": Transfer.READ, "write": Transfer.WRITE}
HOST_ATTRIBUTES = tuple(f"{kind}_{name}_bandwidth" for kind in ("engine", "pageable") for name in DIRECTIONS)
PEER_ATTRIBUTES = HOST_ATTRIBUTES[:2]
METHOD = (
    f"copies by a copy engine of {SIZES[1] // MIB} MiB less those of {SIZES[0] // MIB} MiB, by CUDA events; lower "
    f"quartiles of {RUNS} runs, median and range of {REPETITIONS} repetitions"
)
BY_THE_DRIVER = "the driver stages these copies through page-locked memory: the rate depends on the host's CPU"


def host_copies_plan(bench: Bench, known: Known) -> Plan:
    """Copies from and to page-locked and pageable memory of the host."""
    if (absent := _absent("host", Path.HOST, HOST_ATTRIBUTES, bench)) is not None:
        return absent
    estimates: list[Estimate] = []
    for pageable in (False, True):
        kind = "pageable" if pageable else "engine"
        for name, transfer in DIRECTIONS.items():
            rates, evidence = yield from _rates(
                EngineCopy(path=Path.HOST, transfer=transfer, size=1, pageable=pageable)
            )
            caveat = BY_THE_DRIVER if pageable else share_of_link(float(np.median(rates)), transfer, bench)
            estimates.append(_estimate("host", f"{kind}_{name}_bandwidth", rates, evidence, caveat))
    return Outcome(tuple(estimates))


def peer_copies_plan(bench: Bench, known: Known) -> Plan:
    """Copies from and to the memory of the first of the peer GPUs that the device states."""
    if (absent := _absent("peer", Path.PEER, PEER_ATTRIBUTES, bench)) is not None:
        return absent
    peer = int(str(bench.info.facts.get("peers", "")).split()[0])
    estimates: list[Estimate] = []
    for name, transfer in DIRECTIONS.items():
        rates, evidence = yield from _rates(EngineCopy(path=Path.PEER, transfer=transfer, size=1, peer=peer))
        caveat = share_of_nvlinks(float(np.median(rates)), transfer, bench)
        estimates.append(_estimate("peer", f"engine_{name}_bandwidth", rates, evidence, caveat))
    return Outcome(tuple(estimates))


def _absent(element: str, path: Path, attributes: tuple[str, ...], bench: Bench) -> Outcome | None:
    """The outcome where the device makes no such copies; None where it does."""
    if path in bench.info.copies and bench.info.limit(path) >= SIZES[-1]:
        return None
    reason = bench.info.unsupported.get(path, "this device makes no copies over this link")
    return Outcome(without(Status.NOT_SUPPORTED, element, reason, *attributes))


def _rates(kind: EngineCopy) -> Ask[tuple[list[float], tuple[str, ...]]]:
    """B/s of each repetition, and the evidence."""
    copies = [
        replace(kind, size=size, runs=RUNS, repetition=repetition)
        for repetition in range(REPETITIONS)
        for size in SIZES
    ]
    traces = yield copies
    times = [float(np.quantile(trace.nanoseconds, 0.25)) for trace in traces]
    seconds = [max(large - small, 1.0) / 1e9 for small, large in zip(times[::2], times[1::2], strict=True)]
    return [(SIZES[1] - SIZES[0]) / each for each in seconds], tuple(trace.workload for trace in traces)


def _estimate(element: str, attribute: str, rates: list[float], evidence: tuple[str, ...], caveat: str) -> Estimate:
    value, low, high = float(np.median(rates)), min(rates) * (1 - ERROR), max(rates) * (1 + ERROR)
    return found(element, attribute, value, low, high, BANDWIDTH, METHOD, evidence, (caveat,))


EXPERIMENTS = (
    Experiment(Key("copies.host"), host_copies_plan, HOST_ATTRIBUTES, study=Study.LINKS, element="host"),
    Experiment(Key("copies.peer"), peer_copies_plan, PEER_ATTRIBUTES, study=Study.LINKS, element="peer"),
)
