"""Bandwidth of copies by copy engines (``cudaMemcpy``), for `gpudissect links`.

The difference of two sizes removes the time to start a copy.
"""

from dataclasses import replace
from functools import partial

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
DIRECTIONS = (Transfer.READ, Transfer.WRITE)
PEER_ATTRIBUTES = tuple(f"engine_{transfer}_bandwidth" for transfer in DIRECTIONS)
HOST_ATTRIBUTES = (*PEER_ATTRIBUTES, *(f"pageable_{transfer}_bandwidth" for transfer in DIRECTIONS))
METHOD = (
    f"copies by a copy engine of {SIZES[1] // MIB} MiB less those of {SIZES[0] // MIB} MiB, by CUDA events; lower "
    f"quartiles of {RUNS} runs, median and range of {REPETITIONS} repetitions"
)
BY_THE_DRIVER = "the driver stages these copies through page-locked memory: the rate depends on the host's CPU"


def copies_plan(element: str, path: Path, bench: Bench, known: Known) -> Plan:
    """Copies from and to page-locked and pageable memory of the host, or memory of the first of the peer GPUs."""
    attributes, info = PEER_ATTRIBUTES if path is Path.PEER else HOST_ATTRIBUTES, bench.info
    if path not in info.copies or info.limit(path) < SIZES[-1]:
        reason = info.unsupported.get(path, "this device makes no copies over this link")
        return Outcome(without(Status.NOT_SUPPORTED, element, reason, *attributes))
    peer = int(str(info.facts["peers"]).split()[0]) if path is Path.PEER else 1
    share_of = share_of_nvlinks if path is Path.PEER else share_of_link
    estimates: list[Estimate] = []
    for attribute in attributes:
        kind, transfer = attribute.split("_")[:2]
        copy = EngineCopy(
            path=path, transfer=Transfer(transfer), size=SIZES[0], runs=RUNS, pageable=kind == "pageable", peer=peer
        )
        rates, evidence = yield from _rates(copy)
        value, low, high = float(np.median(rates)), min(rates) * (1 - ERROR), max(rates) * (1 + ERROR)
        caveat = BY_THE_DRIVER if copy.pageable else share_of(value, copy.transfer, bench)
        estimates.append(found(element, attribute, value, low, high, BANDWIDTH, METHOD, evidence, (caveat,)))
    return Outcome(tuple(estimates))


def _rates(copy: EngineCopy) -> Ask[tuple[list[float], tuple[str, ...]]]:
    """B/s of each repetition, and the evidence."""
    traces = yield [replace(copy, size=size, repetition=number) for number in range(REPETITIONS) for size in SIZES]
    times = [float(np.quantile(trace.nanoseconds, 0.25)) for trace in traces]
    seconds = [max(large - small, 1.0) / 1e9 for small, large in zip(times[::2], times[1::2], strict=True)]
    return [(SIZES[1] - SIZES[0]) / each for each in seconds], tuple(trace.workload for trace in traces)


EXPERIMENTS = tuple(
    Experiment(
        Key(f"copies.{element}"), partial(copies_plan, element, path), attributes, study=Study.LINKS, element=element
    )
    for element, path, attributes in (("host", Path.HOST, HOST_ATTRIBUTES), ("peer", Path.PEER, PEER_ATTRIBUTES))
)
