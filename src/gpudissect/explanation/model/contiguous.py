"""Requests of accesses whose addresses are not known: lanes access neighbouring words, no line twice."""

from dataclasses import replace

import numpy as np

from gpudissect.explanation.model.traffic import Accessed, SampledWarp, Traffic
from gpudissect.explanation.packing import Trace
from gpudissect.machine_code.program import Program
from gpudissect.machine_code.units import Use
from gpudissect.units import WARP_SIZE

_KINDS = {"load": "load", "copy": "load", "store": "store", "atomic": "atomic", "reduction": "atomic"}
_SPACES = ("global", "generic", "local", "shared")
_ALL_LANES = (1 << WARP_SIZE) - 1
_NO_SM = -1  # of a warp whose loads are not run through the simulated L1
_APART = 1 << 16  # bytes between two accesses


def contiguous_traffic(program: Program) -> tuple[Traffic, dict[int, int]]:
    """Requests of the accesses of a program, and the index of the access of each instruction that makes one.

    A load of 4 bytes is a request of one line, four sectors. All of device memory come from there; local memory is in
    the L1.
    """
    uses = enumerate(program.uses)
    places = [n for n, each in uses if each.access in _KINDS and each.space in _SPACES and each.bytes is not None]
    accesses = [_accessed(index, program.uses[index]) for index in places]
    traffic = Traffic(accesses, [SampledWarp(_NO_SM, _trace(accesses))])
    for number, access in enumerate(accesses):
        if access.space == "local":
            traffic.outside[number] = replace(traffic.outside[number], in_sm=1.0, in_l2=1.0)
    return traffic, {place: number for number, place in enumerate(places)}


def _accessed(index: int, use: Use) -> Accessed:
    space = "global" if use.space == "generic" else use.space or ""
    return Accessed(index, space, _KINDS[use.access or ""], use.bytes or 0)


def _trace(accesses: list[Accessed]) -> Trace:
    """A warp that makes each access once."""
    count = len(accesses)
    sizes = np.array([access.size for access in accesses], np.int64).reshape(-1, 1)
    none, all_lanes = np.zeros(0, np.uint32), np.full(count, _ALL_LANES, np.uint32)
    own = np.array([access.space == "local" for access in accesses]).reshape(-1, 1)  # lanes have the same offset
    offsets = np.arange(count)[:, None] * _APART + np.where(own, 0, sizes * np.arange(WARP_SIZE))
    allocations = np.zeros((count, WARP_SIZE), np.int16)
    return Trace(none, none, np.arange(count, dtype=np.uint32), all_lanes, allocations, offsets.astype(np.int64))
