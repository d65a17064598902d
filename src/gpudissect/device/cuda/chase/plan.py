"""Which chases of a batch run in which launch, where their rings lie and how much of a trace a launch records.

Pure: nothing here touches a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from gpudissect.device.cuda.arena import place
from gpudissect.device.cuda.chase.layout import SLOT, TRAITS
from gpudissect.device.cuda.mix.placement import Ring, span, with_turns
from gpudissect.errors import DeviceError, OutOfMemory, UnsupportedWorkload
from gpudissect.units import WARP_SIZE, format_bytes
from gpudissect.workload import Chase, Path, Stream, Timing, Workload

MOST_BLOCKS = 32
"""Blocks that an SM of any GPU so far may have at a time (CUDA programming guide, technical specifications)."""


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
        cluster: most blocks of a cluster, each on an SM of its own; 1 where there are no clusters.
        unsupported: paths that it lacks, each with the reason; they have no limit.

    """

    sm_count: int
    limits: dict[Path, int]
    shared_largest: int
    shared_per_sm: int
    shared_free: int
    cluster: int = 1
    unsupported: Mapping[Path, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Member:
    """One chase of a launch: its place in the batch, its region's offset in the arena, and records it will make."""

    index: int
    chase: Chase
    region: int
    records: int


@dataclass(frozen=True)
class Launch:
    """Chases that run at the same time, one block each; or one chase with the turns before it, one block an SM; or one
    chase that must run on a certain SM.

    Or one chase through the shared memory of another block: then a whole cluster of blocks works for it.

    Attributes:
        path, timing, carveout, flush: as of every chase in it; a cluster takes all shared memory there is.
        members: the chases.
        rings: what must be laid: the ring of every member, in their order, then those of turns.
        turns: for every turn before the chase the number of its ring in `rings`.
        sm: the SM that must run the one chase, None if the GPU may choose.
        blocks: one for each chase, or for each SM that has a turn before the one chase; or so many that every SM must
            have one, where the chase must run on a certain SM.
        arena: bytes of arena that their rings need.
        slots: records a chase can keep in one go; if one has more, the launch is repeated with the window moved.
        slots_at: where the slots begin in a block's shared memory.
        shared: bytes of shared memory a block asks for: ring, slots and the spare slot, see `recording_room`.
        cluster: blocks of the cluster, 1 for none.

    """

    path: Path
    timing: Timing
    carveout: int | None
    flush: bool
    members: tuple[Member, ...]
    rings: tuple[Ring, ...]
    turns: tuple[int, ...]
    sm: int | None
    blocks: int
    arena: int
    slots: int
    slots_at: int
    shared: int
    cluster: int = 1

    @property
    def bank(self) -> int | None:
        """Offset in the arena of what belongs into constant memory, None if nothing does."""
        return next((ring.region for ring in self.rings if ring.path is Path.CONSTANT), None)

    @property
    def paths(self) -> set[Path]:
        """Every path that somebody takes."""
        return {self.path, *(ring.path for ring in self.rings)}

    @property
    def threads(self) -> int:
        """Threads of a block: one, or whole warps up to the last that has a turn."""
        before = self.members[0].chase.before
        return WARP_SIZE * (1 + max(turn.warp for turn in before)) if before else 1

    @property
    def windows(self) -> int:
        """How often it must run for the longest trace in it."""
        return -(-max(member.records for member in self.members) // self.slots)


def plan(batch: Sequence[Workload], machine: Machine) -> list[Launch]:
    """Distribute a batch over launches.

    Chases share a launch if they agree in path, timing, carve-out and flush, are not `alone`, take no cluster, number
    at most one an SM and fit into memory together. Rings in constant memory share one bank, so there only equal rings
    go together.
    Raises `DeviceError` for what this device cannot do and `OutOfMemory` for what does not fit.
    """
    groups: dict[object, list[tuple[int, Chase]]] = {}
    for index, workload in enumerate(batch):
        if not isinstance(workload, Chase):
            raise DeviceError(_no_runner(workload))
        _check(workload, machine)
        groups.setdefault(_together(index, workload), []).append((index, workload))
    return [launch for group in groups.values() for launch in _split(group, machine)]


def _together(index: int, chase: Chase) -> object:
    if chase.alone or chase.before or chase.sm is not None or chase.path is Path.CLUSTER:
        return index
    ring = (chase.order, chase.picks) if chase.path is Path.CONSTANT else None
    return (chase.path, chase.timing, chase.carveout, chase.flush, ring)


def _check(chase: Chase, machine: Machine) -> None:
    for path, order in chase.chains:
        if path not in machine.limits:
            raise DeviceError(f"this device has no path {path.value!r}: {machine.unsupported.get(path, 'not known')}")
        asked = order.span if path is Path.CODE else span(path, order)
        if asked > machine.limits[path]:
            raise OutOfMemory(f"a chase over {format_bytes(asked)} on path {path}: "
                              f"this device has {format_bytes(machine.limits[path])}")  # fmt: skip
    if (farthest := max((turn.sm for turn in chase.before), default=0)) >= machine.sm_count:
        raise UnsupportedWorkload(f"this device has {machine.sm_count} SMs: there is no SM {farthest} beside SM 0")
    if chase.sm is not None and chase.sm >= machine.sm_count:
        raise UnsupportedWorkload(f"this device has {machine.sm_count} SMs: there is no SM {chase.sm}")
    if chase.path is Path.CLUSTER and chase.peer >= machine.cluster:
        raise UnsupportedWorkload(
            f"this device has clusters of {machine.cluster} blocks: there is no rank {chase.peer}"
        )


def _no_runner(workload: Workload) -> str:
    if isinstance(workload, Stream):
        return f"a CUDA device cannot run a Stream on path {workload.path.value!r} yet"
    return f"a CUDA device cannot run a {type(workload).__name__} yet"


def _split(group: list[tuple[int, Chase]], machine: Machine) -> list[Launch]:
    """One launch for as many chases as fit together, then the next."""
    launches: list[Launch] = []
    waiting = list(group)
    path = group[0][1].path
    # Those have one bank, or one ring for each block, or no ring at all.
    own_room = path in (Path.CONSTANT, Path.CODE) or TRAITS[path].ring_inside
    while waiting:
        taken: list[tuple[int, Chase]] = []
        for entry in waiting[: machine.sm_count]:
            spans = [span(path, chase.order) for _, chase in (*taken, entry)]
            if taken and not own_room and place(spans)[1] > machine.limits[path]:
                break
            taken.append(entry)
        launches.append(_launch(taken, machine))
        waiting = waiting[len(taken) :]
    return launches


def _launch(group: list[tuple[int, Chase]], machine: Machine) -> Launch:
    first = group[0][1]
    offsets, arena = place(span(chase.path, chase.order) for _, chase in group)
    members = tuple(
        Member(index, chase, region, chase.records) for (index, chase), region in zip(group, offsets, strict=True)
    )
    rings = [Ring(m.chase.path, m.chase.order, m.region, timed=True, picks=m.chase.picks) for m in members]
    turns: list[int] = []
    if first.before:
        rings, turns, arena = with_turns(first)
        members = (replace(members[0], region=rings[0].region),)
    launch = Launch(
        path=first.path, timing=first.timing, carveout=first.carveout, flush=first.flush, members=members,
        rings=tuple(rings), turns=tuple(turns), sm=first.sm, blocks=len(members), arena=arena,
        slots=0, slots_at=0, shared=0,
    )  # fmt: skip
    traits = TRAITS[first.path]
    slots_at = max(ring.order.span for ring in rings) if traits.ring_inside else traits.front
    slots_at = -(-slots_at // 8) * 8
    room = recording_room(launch.paths, first.carveout, machine)
    slots = min(max(member.records for member in members), (room - slots_at) // SLOT - 1)
    through_l1 = any(TRAITS[path].through_l1 for path in launch.paths)
    placed = first.sm is not None
    cluster = machine.cluster if first.path is Path.CLUSTER else 1
    all_of_it = through_l1 or placed or cluster > 1  # no two blocks of a cluster may share an SM
    shared = room if all_of_it else slots_at + (slots + 1) * SLOT
    carveout = 100 if cluster > 1 else first.carveout
    blocks = crowd(shared, machine) if placed else cluster if cluster > 1 else len(members)
    blocks = 1 + max(turn.sm for turn in first.before) if first.before else blocks
    return replace(
        launch, slots=slots, slots_at=slots_at, shared=shared, blocks=blocks, cluster=cluster, carveout=carveout
    )


def crowd(shared: int, machine: Machine) -> int:
    """How many blocks of so many bytes of shared memory the GPU can hold at most: with so many, no SM is left out.

    Where the carve-out is smaller than an SM's shared memory it holds fewer; the rest then waits its turn and finds
    nothing to do.
    """
    return machine.sm_count * min(max(machine.shared_per_sm // max(shared, 1), 1), MOST_BLOCKS)


def recording_room(paths: Set[Path], carveout: int | None, machine: Machine) -> int:
    """Bytes of shared memory a block may have on these paths without taking anything from the cache under test.

    On a path through the L1 a block always asks for all of it, whatever it records, because the driver's carve-out
    depends on what a block asks for. Seen on an H200 (driver 580; ncu, launch__shared_mem_config_size): of the steps
    8, 16, 32, 64, 100, 132, 164, 196, 228 KiB it takes the first that holds n blocks with their reserved 1 KiB each,
    n = percentage * 228 KiB / bytes asked for, rounded, at least 1. So a block that asks for next to nothing gets the
    largest carve-out at 10 % already, and one that asks for nothing gets 32 KiB (for 32 blocks) at 0 %.
    """
    if not any(TRAITS[path].through_l1 for path in paths):
        return machine.shared_largest
    asked = machine.shared_per_sm * (carveout or 0) // 100
    reserved = machine.shared_per_sm - machine.shared_largest
    return min(max(machine.shared_free, asked - reserved), machine.shared_largest)
