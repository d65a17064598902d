"""Which chases of a batch run in which launch, where their rings lie and how much of a trace a launch records.

Pure: nothing here touches a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpudissect.device.cuda.arena import place
from gpudissect.device.cuda.layout import SLOT, TRAITS
from gpudissect.errors import DeviceError, OutOfMemory
from gpudissect.units import format_bytes
from gpudissect.workload import Chase, Explicit, Mix, Path, Stream, Timing, Workload


@dataclass(frozen=True)
class Machine:
    """What the plan must know of the GPU.

    Attributes:
        sm_count: blocks that run at once, one on each SM.
        limits: bytes all chases of one launch may span together, for each path.
        shared_largest: bytes of shared memory one block may have.
        shared_per_sm: bytes of shared memory an SM may have.
        shared_free: bytes of shared memory that the smallest carve-out offers anyway, so that using them takes
            nothing from the L1.

    """

    sm_count: int
    limits: dict[Path, int]
    shared_largest: int
    shared_per_sm: int
    shared_free: int


@dataclass(frozen=True)
class Member:
    """One chase of a launch: its place in the batch, its region's offset in the arena, and records it will make."""

    index: int
    chase: Chase
    region: int
    records: int


@dataclass(frozen=True)
class Launch:
    """Chases that run at the same time, one block each.

    Attributes:
        path, timing, carveout, flush: as of every chase in it.
        members: the chases.
        arena: bytes of arena that their rings need.
        slots: records a chase can keep in one go; if one has more, the launch is repeated with the window moved.
        slots_at: where the slots begin in a block's shared memory.
        shared: bytes of shared memory a block asks for: ring, slots and the spare slot, see `recording_room`.

    """

    path: Path
    timing: Timing
    carveout: int | None
    flush: bool
    members: tuple[Member, ...]
    arena: int
    slots: int
    slots_at: int
    shared: int

    @property
    def windows(self) -> int:
        """How often it must run for the longest trace in it."""
        return -(-max(member.records for member in self.members) // self.slots)


def plan(batch: Sequence[Workload], machine: Machine) -> list[Launch]:
    """Distribute a batch over launches.

    Chases share a launch if they agree in path, timing, carve-out and flush, are not `alone`, number at most one an
    SM and fit into memory together. Rings in constant memory share one bank, so there only equal rings go together.
    Raises `DeviceError` for what this device cannot do and `OutOfMemory` for what does not fit.
    """
    groups: dict[object, list[tuple[int, Chase]]] = {}
    for index, workload in enumerate(batch):
        if isinstance(workload, Stream | Mix):
            raise DeviceError(f"a CUDA device cannot run a {type(workload).__name__} yet, only chases")
        _check(workload, machine)
        groups.setdefault(_together(index, workload), []).append((index, workload))
    return [launch for group in groups.values() for launch in _split(group, machine)]


def span(chase: Chase) -> int:
    """Bytes its ring takes, a multiple of 8; 0 where there is no ring."""
    return 0 if chase.path is Path.NOTHING else -(-chase.order.span // 8) * 8


def _together(index: int, chase: Chase) -> object:
    if chase.alone:
        return index
    ring = (chase.order, chase.picks) if chase.path is Path.CONSTANT else None
    return (chase.path, chase.timing, chase.carveout, chase.flush, ring)


def _check(chase: Chase, machine: Machine) -> None:
    if chase.before:
        raise DeviceError("a CUDA device cannot let others have their turn before a chase yet")
    path, word = chase.path, chase.path.word
    order = chase.order
    if path is not Path.NOTHING:
        steps = order.offsets() if isinstance(order, Explicit) else np.array([order.start, order.stride])
        if (steps % word).any():
            raise DeviceError(f"offsets on path {path} must be multiples of {word} bytes: a link is that long")
        if span(chase) > machine.limits[path]:
            raise OutOfMemory(f"a chase over {format_bytes(span(chase))} on path {path}: "
                              f"this device has {format_bytes(machine.limits[path])}")  # fmt: skip


def _split(group: list[tuple[int, Chase]], machine: Machine) -> list[Launch]:
    """One launch for as many chases as fit together, then the next."""
    launches: list[Launch] = []
    waiting = list(group)
    path = group[0][1].path
    shares_memory = path not in (Path.CONSTANT, Path.SHARED)  # those have one bank, or one ring for each block
    while waiting:
        taken: list[tuple[int, Chase]] = []
        for entry in waiting[: machine.sm_count]:
            spans = [span(chase) for _, chase in (*taken, entry)]
            if taken and shares_memory and place(spans)[1] > machine.limits[path]:
                break
            taken.append(entry)
        launches.append(_launch(taken, machine))
        waiting = waiting[len(taken) :]
    return launches


def _launch(group: list[tuple[int, Chase]], machine: Machine) -> Launch:
    first = group[0][1]
    offsets, arena = place(span(chase) for _, chase in group)
    members = tuple(
        Member(index, chase, region, chase.records) for (index, chase), region in zip(group, offsets, strict=True)
    )
    slots_at = max(span(chase) for _, chase in group) if first.path is Path.SHARED else 0
    room = recording_room(first.path, first.carveout, machine)
    slots = min(max(member.records for member in members), (room - slots_at) // SLOT - 1)
    shared = room if TRAITS[first.path].through_l1 else slots_at + (slots + 1) * SLOT
    return Launch(
        first.path, first.timing, first.carveout, first.flush, members, arena, slots, slots_at, shared
    )  # fmt: skip


def recording_room(path: Path, carveout: int | None, machine: Machine) -> int:
    """Bytes of shared memory a block may have on this path without taking anything from the cache under test.

    On a path through the L1 a block always asks for all of it, whatever it records, because the driver's carve-out
    depends on what a block asks for. Seen on an H200 (driver 580; ncu, launch__shared_mem_config_size): of the steps
    8, 16, 32, 64, 100, 132, 164, 196, 228 KiB it takes the first that holds n blocks with their reserved 1 KiB each,
    n = percentage * 228 KiB / bytes asked for, rounded, at least 1. So a block that asks for next to nothing gets the
    largest carve-out at 10 % already, and one that asks for nothing gets 32 KiB (for 32 blocks) at 0 %.
    """
    if not TRAITS[path].through_l1:
        return machine.shared_largest
    asked = machine.shared_per_sm * (carveout or 0) // 100
    reserved = machine.shared_per_sm - machine.shared_largest
    return min(max(machine.shared_free, asked - reserved), machine.shared_largest)
