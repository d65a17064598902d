"""Names and shapes of the arrays that a workload's trace may hold, so that a recording cannot claim others."""

from __future__ import annotations

from collections.abc import Mapping

from gpudissect.errors import RecordingError
from gpudissect.trace import Array
from gpudissect.workload import Chase, Launch, Mix, Stream, Timing, Workload
from gpudissect.workload.stream import MOST_TOLD

MAX_LATENCIES = 1 << 16  # distinct latencies of single loads in one trace; devices count no more
UP_TO = ("latency", "count")  # arrays that may be shorter than their shape here; all others have exactly that shape

Shape = tuple[int, ...]


def array_shapes(workload: Workload, sm_count: int) -> Mapping[str, Shape]:
    """The shape of every array that a trace of `workload` may hold, on a GPU of `sm_count` SMs."""
    match workload:
        case Chase(timing=Timing.COUNT):
            return {"counts": (workload.laps, 3)}
        case Chase():
            shape = (workload.records,)
            return {"offsets": shape, "cycles": shape} if workload.timing is Timing.EACH else {"cycles": shape}
        case Stream():
            shapes: dict[str, Shape] = {"nanoseconds": (workload.runs,), "bytes": (workload.runs,)}
            return shapes | ({"cycles": (workload.runs, workload.blocks)} if workload.blocks <= MOST_TOLD else {})
        case Launch():
            return {"nanoseconds": (workload.runs,)}
        case Mix():
            warps: Shape = ((workload.sms or sm_count) * workload.warps * workload.waves,)
            shapes = dict.fromkeys(("begin", "end", "sm", "block"), warps) | {"nanoseconds": (1,)}
            if workload.sampled:
                shapes |= dict.fromkeys(UP_TO, (MAX_LATENCIES,)) | {"overhead": (1,), "overflow_count": (1,)}
            return shapes


def check_shape(name: str, array: Array, expected: Shape) -> None:
    """Raise `RecordingError` for an array that does not have the shape that the workload gives it."""
    if array.shape == expected or (name in UP_TO and array.ndim == 1 and array.size <= expected[0]):
        return
    raise RecordingError(f"array {name!r} has shape {array.shape}, the workload gives {expected}")
