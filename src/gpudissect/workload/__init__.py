"""What to do: frozen, plain data, no code. `Chase` (dependent loads), `Stream` and `Mix`."""

from gpudissect.workload.chase import Bounds, Chase, Path, Timing, Turn
from gpudissect.workload.mix import Mix
from gpudissect.workload.order import Explicit, Order, Sequential, Shuffled
from gpudissect.workload.stream import Stream

Workload = Chase | Stream | Mix

__all__ = [
    "Bounds", "Chase", "Explicit", "Mix", "Order", "Path", "Sequential", "Shuffled", "Stream", "Timing", "Turn",
    "Workload",
]  # fmt: skip
