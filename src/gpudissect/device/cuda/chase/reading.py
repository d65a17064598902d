"""From what the kernels recorded to traces: windows joined, chains checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.chase.layout import TRAITS, origin
from gpudissect.device.cuda.chase.plan import Launch
from gpudissect.device.cuda.clocks import clock_rate
from gpudissect.errors import KernelFailed
from gpudissect.trace import Array, Context, Trace
from gpudissect.workload import Chase, Path, Timing
from gpudissect.workload.digest import digest

_LOW = 0xFFFFFFFF


@dataclass(frozen=True)
class Seen:
    """What one run of the kernel gave: a `REPORT` and the slots of every member; did two blocks share an SM?

    `prior_access_sms`: the SM that each of the prior accesses ran on.
    """

    reports: NDArray[Any]
    slots: NDArray[np.uint64]
    crowded: bool
    prior_access_sms: tuple[int, ...] = ()


def read(launch: Launch, at: int, seen: Sequence[Seen], base: int, device: str, notes: Mapping[str, str]) -> Trace:
    """The trace of member `at` of a launch whose arena was at `base`.

    Raises `KernelFailed` if the chase did not go the way that was laid for it.
    """
    member = launch.members[at]
    seen = seen[: -(-member.records // launch.slots)]
    found = np.concatenate([part.slots[at] for part in seen])[: member.records]
    reports = [part.reports[at] for part in seen]
    if any(report["start"] != report["end"] for report in reports):
        raise KernelFailed(f"chain broken: a chase on path {launch.path} did not end where it began")
    zero = origin(launch.path, base, member.region) + int(reports[0]["base"])
    arrays = _arrays(launch, member.chase, found, zero)
    sms = sorted({int(report["sm"]) for report in reports})
    if launch.sm is not None and sms != [launch.sm]:
        raise KernelFailed(f"a chase meant for SM {launch.sm} ran on SM {' and '.join(map(str, sms))}")
    peers = sorted({int(report["peer_sm"]) for report in reports}) if launch.cluster > 1 else []
    context = Context(
        device=device,
        clock_hz=clock_rate([int(r["cycles"]) for r in reports], [int(r["ns"]) for r in reports]),
        sm=sms[0] if len(sms) == 1 else None,
        notes={**notes, **_circumstances(launch, seen, sms, peers)},
    )
    return Trace(workload=digest(member.chase), arrays=arrays, context=context)


def _arrays(launch: Launch, chase: Chase, found: NDArray[np.uint64], zero: int) -> dict[str, Array]:
    """The arrays of a trace, out of the records; `zero` is the link to offset 0."""
    low = (found & np.uint64(_LOW)).astype(np.int64)
    high = (found >> np.uint64(32)).astype(np.int64)
    match chase.timing:
        case Timing.EACH:
            visited, links = _lap(chase)
            if launch.path is not Path.NOTHING:
                _check(launch.path, low, links, zero)
            return {"offsets": np.tile(visited, chase.laps), "cycles": high}
        case Timing.LAP:
            return {"cycles": found.astype(np.int64)}
        case Timing.COUNT:
            return {"counts": np.stack([low, high, chase.order.count - low - high], axis=1)}


def _lap(chase: Chase) -> tuple[Array, Array]:
    """Offsets that one lap reports, and the offsets that the links found there lead to."""
    offsets = chase.order.offsets()
    following = np.roll(offsets, -1)
    if chase.picks is None:
        return offsets, following
    picks = np.array(chase.picks)
    return offsets[picks], following[picks]


def _check(path: Path, loaded: Array, offsets: Array, zero: int) -> None:
    """Compare the links that were loaded (their low 32 bits, lap after lap) with those to `offsets`."""
    traits = TRAITS[path]
    laid = (zero + (offsets >> traits.shift) | traits.mark) & _LOW
    if not (loaded.reshape(-1, laid.size) == laid).all():
        raise KernelFailed(f"chain broken: a chase on path {path} went another way than was laid")


def _circumstances(launch: Launch, seen: Sequence[Seen], sms: Sequence[int], peers: Sequence[int]) -> dict[str, str]:
    """What a reader of the trace should know about how it was taken, where it matters."""
    notes = {"carveout_requested": f"{launch.carveout or 0} %", "shared_bytes": str(launch.shared)}
    if len(seen) > 1:
        notes["windows"] = str(len(seen))
    if len(sms) > 1:
        notes["sms"] = " ".join(map(str, sms))
    if peers:
        notes |= {"peer_sm": " ".join(map(str, peers)), "cluster_size": str(launch.cluster)}
    if turns := {part.prior_access_sms for part in seen if part.prior_access_sms}:
        notes["prior_access_sms"] = "; ".join(" ".join(map(str, each)) for each in sorted(turns))
    return notes
