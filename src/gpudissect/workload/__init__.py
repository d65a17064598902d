"""Workloads are frozen, plain data: `Chase` (dependent loads), `Stream`, `Mix`, `Launch` and `EngineCopy`."""

from gpudissect.workload.chase import Bounds, Chase, Path, PriorAccesses, Timing
from gpudissect.workload.engine_copy import EngineCopy
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
from gpudissect.workload.stream import MOVES, Stream, Transfer

Workload = Chase | Stream | Mix | Launch | EngineCopy

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
__all__ += ["MOVES", "Clock", "EngineCopy", "Launch", "LaunchMethod", "Stream", "Transfer", "Workload"]
