"""Workloads are frozen, plain data: `Chase` (dependent loads), `Stream`, `Mix` and `Launch`."""

from gpudissect.workload.chase import Bounds, Chase, Path, PriorAccesses, Timing
from gpudissect.workload.launch import Clock, Launch, LaunchMethod
from gpudissect.workload.mix import (
    GLOBAL_INSTRUCTIONS,
    MATRIX_MULTIPLY_ADDS,
    MATRIX_NAMES,
    SHARED_INSTRUCTIONS,
    Access,
    Instruction,
    Mix,
    Step,
)
from gpudissect.workload.order import Explicit, Order, Sequential, Shuffled
from gpudissect.workload.stream import Stream, Transfer

Workload = Chase | Stream | Mix | Launch

__all__ = ["Bounds", "Chase", "Explicit", "Order", "Path", "PriorAccesses", "Sequential", "Shuffled", "Timing"]
__all__ += [
    "GLOBAL_INSTRUCTIONS",
    "MATRIX_MULTIPLY_ADDS",
    "MATRIX_NAMES",
    "SHARED_INSTRUCTIONS",
    "Access",
    "Instruction",
    "Mix",
    "Step",
]
__all__ += ["Clock", "Launch", "LaunchMethod", "Stream", "Transfer", "Workload"]
