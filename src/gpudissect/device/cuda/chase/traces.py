"""From what the kernels recorded to traces: windows joined, chains checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.chase.plan import ChaseLaunch
from gpudissect.device.cuda.info import clock_rate
from gpudissect.device.cuda.layout import TRAITS, first_link
from gpudissect.errors import KernelFailed
from gpudissect.trace import Array, Context, Trace
from gpudissect.workload import Chase, Path, Timing
from gpudissect.workload.digest import digest

_LOW_32 = 0xFFFFFFFF


@dataclass(frozen=True)
class Window:
    """Results of one run of the kernel."""

    reports: NDArray[Any]  # a `REPORT` for each chase
    slots: NDArray[np.uint64]  # records, shape (chases, slots)
    prior_sms: tuple[int, ...] = ()  # of each of the prior accesses


def build_trace(
    launch: ChaseLaunch, number: int, windows: Sequence[Window], base: int, device: str, notes: Mapping[str, str]
) -> Trace:
    """The trace of chase `number`; chains are at `base`. Raises `KernelFailed` if it left its chain or its SM."""
    chase = launch.chases[number]
    windows = windows[: -(-chase.records // launch.slots)]
    records = np.concatenate([window.slots[number] for window in windows])[: chase.records]
    reports = np.array([window.reports[number] for window in windows])
    if (reports["start"] != reports["end"]).any():
        raise KernelFailed(f"chain broken: a chase on path {chase.path} did not end where it began")
    sms = np.unique(reports["sm"]).tolist()
    if chase.sm is not None and sms != [chase.sm]:
        raise KernelFailed(f"a chase meant for SM {chase.sm} ran on SM {' and '.join(map(str, sms))}")
    origin = first_link(chase.path, base, launch.chains[number].region) + int(reports["base"][0])
    context = Context(
        device=device,
        clock_hz=clock_rate(reports["cycles"], reports["ns"]),
        sm=sms[0] if len(sms) == 1 else None,
        notes={**notes, **_notes(launch, windows, reports)},
    )
    return Trace(workload=digest(chase), arrays=_arrays(chase, records, origin), context=context)


def _arrays(chase: Chase, records: NDArray[np.uint64], origin: int) -> dict[str, Array]:
    """The arrays of a trace; `origin` is the link to offset 0."""
    low = (records & np.uint64(_LOW_32)).astype(np.int64)
    high = (records >> np.uint64(32)).astype(np.int64)
    match chase.timing:
        case Timing.EACH:
            offsets = chase.order.offsets()
            picks = slice(None) if chase.picks is None else np.array(chase.picks)
            if chase.path is not Path.NOTHING:
                _check_links(chase.path, low, np.roll(offsets, -1)[picks], origin)
            return {"offsets": np.tile(offsets[picks], chase.laps), "cycles": high}
        case Timing.LAP:
            return {"cycles": records.astype(np.int64)}
        case Timing.COUNT:
            return {"counts": np.stack([low, high, chase.order.count - low - high], axis=1)}


def _check_links(path: Path, loaded: Array, offsets: Array, origin: int) -> None:
    """Compare the links that were loaded (their low 32 bits, lap after lap) with those to `offsets`."""
    traits = TRAITS[path]
    links = (origin + (offsets >> traits.shift) | traits.mark) & _LOW_32
    if not (loaded.reshape(-1, links.size) == links).all():
        raise KernelFailed(f"chain broken: a chase on path {path} left its chain")


def _notes(launch: ChaseLaunch, windows: Sequence[Window], reports: NDArray[Any]) -> dict[str, str]:
    """Conditions under which the trace was taken."""
    sms, peers = (" ".join(map(str, np.unique(reports[name]))) for name in ("sm", "peer_sm"))
    notes = {"carveout_requested": f"{launch.carveout} %", "shared_bytes": str(launch.shared)}
    if len(windows) > 1:
        notes["windows"] = str(len(windows))
    if " " in sms:
        notes["sms"] = sms
    if launch.cluster > 1:
        notes |= {"peer_sm": peers, "cluster_size": str(launch.cluster)}
    if prior := {window.prior_sms for window in windows if window.prior_sms}:
        notes["prior_access_sms"] = "; ".join(" ".join(map(str, one)) for one in sorted(prior))
    return notes
