"""Throughput against occupancy on the simulated GPUs of VV16: the measurement that its models are held against.

One block of warps at every occupancy that gives each scheduler equally many, all SMs, adds and accesses back-to-back
dependent (VV16 s5.1, 5.2). Throughput is occupancy over mean warp latency, by Little's law (VV16 s3.4).
"""

from __future__ import annotations

from functools import cache
from math import inf

import numpy as np

from gpudissect import catalogue
from gpudissect.device.base import Device
from gpudissect.device.find import open_device
from gpudissect.models import published
from gpudissect.models.base import Loop
from gpudissect.models.evaluation import Measurement
from gpudissect.simulation.sm.description import Processor
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Access, Instruction, Mix
from gpudissect.workload.mix import Step

SEED = 1
INSTRUCTIONS = 4096  # of a warp, about
FOOTPRINT = 1 << 28  # past every cache
ACCESSES = {  # kinds of `models.base.Machine.units`
    "ldg_streaming": (Instruction.LDG, Access.STREAMING, 1),
    "ldg_stride2": (Instruction.LDG, Access.STREAMING, 2),
    "ldg_random": (Instruction.LDG, Access.RANDOM, 1),
    "rsq": (Instruction.RSQ, Access.RESIDENT, 1),
    "lds": (Instruction.LDS, Access.RESIDENT, 1),
}


def simulated(gpu: str, loop: Loop) -> Measurement | None:
    """Run the loop, alpha rounded to a whole number of adds or accesses; None for accesses that are not known here."""
    if loop.access not in ACCESSES or (loop.access == "lds" and gpu in published.gpus()[:2]):
        return None  # G80 and GT200 address shared memory through registers of their own (VV16 s4.7)
    instruction, access, stride = ACCESSES[loop.access]
    adds, accesses = _counts(loop.alpha)
    body = [Step(kind, count) for kind, count in ((instruction, accesses), (Instruction.FADD, adds)) if count]
    in_memory = accesses > 0 and access is not Access.RESIDENT
    mixes = [
        Mix(
            body=tuple(body),
            warps=warps,
            block_size=size,
            iterations=max(4, INSTRUCTIONS // (adds + accesses)),
            ilp=loop.ilp,
            stride=stride if accesses else 1,
            access=access if in_memory else Access.RESIDENT,
            footprint=FOOTPRINT if in_memory else 0,
        )
        for warps, size in _occupancies(gpu)
    ]
    rates = []
    for mix, trace in zip(mixes, _device(gpu).run(mixes), strict=True):
        latency = float(np.mean(trace.arrays["end"] - trace.arrays["begin"]))
        rates.append(mix.warps * mix.instructions / latency)
    ran = Loop(alpha=adds / accesses if accesses else inf, access=loop.access, ilp=loop.ilp)
    return Measurement(ran, np.array([mix.warps for mix in mixes], float), np.array(rates))


def _counts(alpha: float) -> tuple[int, int]:
    """Adds and accesses of one iteration."""
    if alpha == inf:
        return 1, 0
    if alpha == 0:
        return 0, 1
    return (round(alpha), 1) if alpha >= 1 else (1, round(1 / alpha))


def _occupancies(gpu: str) -> list[tuple[int, int]]:
    """Warps of an SM and threads of a block, in as few blocks as can be."""
    processor = _processor(gpu)
    found = []
    for warps in range(processor.schedulers, processor.warps + 1, processor.schedulers):
        sizes = [warps // blocks * WARP_SIZE for blocks in range(1, processor.blocks + 1) if warps % blocks == 0]
        fitting = [size for size in sizes if size <= processor.block_size]
        found += [(warps, fitting[0])] if fitting else []
    return found


@cache
def _processor(gpu: str) -> Processor:
    processor = catalogue.load(gpu).processor()
    assert processor is not None, f"{gpu} has no processor"
    return processor


@cache
def _device(gpu: str) -> Device:
    return open_device(f"sim:{gpu}?seed={SEED}", seed=SEED)
