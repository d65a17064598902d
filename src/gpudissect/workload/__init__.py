"""What to do: frozen, plain data, no code. `Chase` (dependent loads), `Stream`, `Mix` and `Launch`."""

from gpudissect.workload.chase import Bounds, Chase, Path, PriorAccesses, Timing
from gpudissect.workload.instruction import Instruction
from gpudissect.workload.launch import Clock, Launch, LaunchMethod
from gpudissect.workload.mix import Access, Mix, Step
from gpudissect.workload.order import Explicit, Order, Sequential, Shuffled
from gpudissect.workload.stream import Stream, Transfer

Workload = Chase | Stream | Mix | Launch

__all__ = [
    "Access",
    "Bounds",
    "Chase",
    "Clock",
    "Explicit",
    "Instruction",
    "Launch",
    "LaunchMethod",
    "Mix",
    "Order",
    "Path",
    "PriorAccesses",
    "Sequential",
    "Shuffled",
    "Step",
    "Stream",
    "Timing",
    "Transfer",
    "Workload",
]  # fmt: skip
