"""Which chases of a batch run in which launch, where their chains lie, how many records a launch keeps. Uses no GPU."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.layout import (
    CHAIN,
    CONSTANT_BANK_BYTES,
    POINTER_BYTES,
    REPORT,
    SLOT_BYTES,
    TRAITS,
    UNCHAINED,
    ChainKind,
)
from gpudissect.device.cuda.memory import count_fitting, place
from gpudissect.errors import DeviceError, OutOfMemory, UnsupportedWorkload
from gpudissect.units import WARP_SIZE, format_bytes
from gpudissect.workload import Chase, Explicit, Order, Path, Sequential, Shuffled, Stream, Timing, Workload
from gpudissect.workload.order import feistel_half_bits

SECTOR_BYTES = 32  # no line is smaller
_FIRST_OFFSET = CHAIN.fields["first"][1] if CHAIN.fields else 0


@dataclass(frozen=True)
class DeviceLimits:
    """What the plan needs to know of the GPU; shared memory in bytes."""

    sm_count: int
    blocks_per_sm: int  # at most
    spans: Mapping[Path, int]  # bytes that all chases of one launch may span together
    shared_per_block: int
    shared_per_sm: int
    shared_beside_l1: int  # in the smallest carve-out: takes nothing from the L1
    max_cluster: int = 1  # blocks, each on an SM of its own
    peers: tuple[int, ...] = ()  # GPUs whose memory it can access
    unsupported: Mapping[Path, str] = field(default_factory=dict)  # with the reason


@dataclass(frozen=True)
class Chain:
    """A chain to be written: its path, its region's offset in the arena, and, if timed, its picked positions or all.

    Chains of constant memory share a region, in which each begins at a `shift` (bytes) of its own.
    """

    path: Path
    order: Order
    region: int = 0
    timed: bool = False
    picks: tuple[int, ...] | None = None
    shift: int = 0

    @property
    def size(self) -> int:
        """Bytes that it takes in memory, a multiple of 8; 0 on a path without a chain."""
        return 0 if self.path in UNCHAINED else _round_up(self.order.span, 8)

    def first_link(self, base: int) -> int:
        """The link to offset 0, if the arena begins at `base`."""
        traits = TRAITS[self.path]
        if traits.absolute:
            return base + self.region
        return self.region >> traits.shift if self.path is Path.TEXTURE else self.shift


@dataclass(frozen=True)
class ChaseLaunch:
    """Chases that run at the same time, one block each; or one chase that needs more blocks.

    The latter has accesses before it (one block an SM that has any), must run on a certain SM (as many blocks as the
    GPU holds), or goes through the shared memory of another block (a cluster).

    One run of a block keeps `slots` records: a window of the trace. Longer traces need several windows, of which
    `at_once` run in parallel, each on its own SM; the launch repeats until all windows are done.
    """

    indices: tuple[int, ...]  # of the chases in the batch
    chases: tuple[Chase, ...]  # they agree in path, timing, carve-out and flush
    chains: tuple[Chain, ...]  # of every chase, in their order, then those of prior accesses
    prior: tuple[int, ...]  # for each of the accesses before the one chase the number of its chain
    blocks: int
    cluster: int  # blocks of a cluster, 1 for none
    carveout: int  # percent of the on-chip array preferred as shared memory
    arena_bytes: int  # that the chains need
    slots: int
    slots_offset: int  # bytes, in a block's shared memory
    shared: int  # bytes of a block: chain, slots and a spare slot, see `recording_bytes`
    at_once: int = 1  # windows of a chase that run in parallel

    @property
    def first(self) -> Chase:
        """The first chase, or the only one."""
        return self.chases[0]

    @property
    def constant_region(self) -> int | None:
        """Offset in the arena of what is copied to constant memory, None if nothing is."""
        return next((chain.region for chain in self.chains if chain.path is Path.CONSTANT), None)

    @property
    def through_l1(self) -> bool:
        """Whether any of its chains goes through the L1."""
        return _through_l1(self.paths)

    @property
    def paths(self) -> set[Path]:
        """Every path that is used."""
        return {chain.path for chain in self.chains}

    @property
    def threads(self) -> int:
        """Threads of a block: one, or whole warps up to the last with prior accesses."""
        warps = (max(prior.warp + 1, -(-prior.threads // WARP_SIZE)) for prior in self.first.before)
        return WARP_SIZE * max(warps) if self.first.before else 1

    @property
    def result_bytes(self) -> int:
        """Bytes of the report and the records of a chase."""
        return int(REPORT.itemsize) + self.slots * SLOT_BYTES

    @property
    def windows(self) -> int:
        """Windows that the longest trace needs."""
        return -(-max(chase.records for chase in self.chases) // self.slots)


def plan_launches(batch: Sequence[Workload], device: DeviceLimits) -> list[ChaseLaunch]:
    """Distribute a batch over launches.

    Chases share a launch if they agree in path, timing, carve-out and flush, need none of their own, number at most one
    an SM and fit into memory together. In the constant bank, which they share, each has words of its own.
    Raises `DeviceError` for what this device cannot do and `OutOfMemory` for what does not fit.
    """
    groups: dict[object, list[tuple[int, Chase]]] = {}
    for index, workload in enumerate(batch):
        if not isinstance(workload, Chase):
            path = f" on path {workload.path.value!r}" if isinstance(workload, Stream) else ""
            raise DeviceError(f"a CUDA device cannot run a {type(workload).__name__}{path}")
        _check(workload, device)
        groups.setdefault(_group_key(index, workload), []).append((index, workload))
    return [launch for group in groups.values() for launch in _split(group, device)]


def _needs_own_launch(chase: Chase) -> bool:
    return bool(chase.alone or chase.before or chase.sm is not None or chase.path is Path.CLUSTER)


def _group_key(index: int, chase: Chase) -> object:
    if _needs_own_launch(chase):
        return index
    # Latencies are compared with one another: on an H200 those of constant memory differ by 6 cycles between SMs.
    same_sm = (chase.order, chase.picks) if chase.path is Path.CONSTANT and chase.timing is Timing.LAP else None
    return (chase.path, chase.peer, chase.timing, chase.carveout, chase.flush, same_sm)


def _check(chase: Chase, device: DeviceLimits) -> None:
    for path, order in chase.chains:
        if path not in device.spans:
            raise DeviceError(f"this device has no path {path.value!r}: {device.unsupported.get(path, 'not known')}")
        size = order.span if path is Path.CODE else Chain(path, order).size
        if size > device.spans[path]:
            span, limit = format_bytes(size), format_bytes(device.spans[path])
            raise OutOfMemory(f"a chase over {span} on path {path}: this device has {limit}")
    sms = [prior.sm for prior in chase.before] + ([] if chase.sm is None else [chase.sm])
    if max(sms, default=0) >= device.sm_count:
        raise UnsupportedWorkload(f"this device has {device.sm_count} SMs: there is no SM {max(sms)}")
    if chase.path.leads_to_peer and chase.peer not in device.peers:
        raise UnsupportedWorkload(f"this GPU does not access memory of GPU {chase.peer}, but of {device.peers}")
    if chase.path is Path.CLUSTER and chase.peer >= device.max_cluster:
        size = device.max_cluster
        raise UnsupportedWorkload(f"this device has clusters of {size} blocks: there is no rank {chase.peer}")


def _split(group: list[tuple[int, Chase]], device: DeviceLimits) -> list[ChaseLaunch]:
    """Launches of as many chases each as fit together."""
    launches: list[ChaseLaunch] = []
    path = group[0][1].path
    # These have one bank, or a chain in each block, or none at all.
    no_arena = path in (Path.CONSTANT, Path.CODE) or TRAITS[path].chain_in_shared
    while group:
        count = min(len(group), device.sm_count)
        sizes = [Chain(path, chase.order).size for _, chase in group[:count]]
        if not no_arena:
            count = max(1, count_fitting(sizes, device.spans[path]))
        shifts = _bank_shifts([chase for _, chase in group[:count]]) if path is Path.CONSTANT else [0] * count
        count = len(shifts)
        launches.append(_launch(group[:count], shifts, device))
        group = group[count:]
    return launches


def _bank_shifts(chases: Sequence[Chase]) -> list[int]:
    """Bytes at which the chains begin in the constant bank, of the first ones that have words of their own there.

    No offset leaves its sector. Equal chains are one.
    """
    taken = np.zeros(-(-max(chase.order.span for chase in chases) // SECTOR_BYTES) * SECTOR_BYTES, dtype=bool)
    shifts: dict[object, int] = {}
    word = Path.CONSTANT.word
    for number, chase in enumerate(chases):
        key = (chase.order, chase.picks)
        if key not in shifts:
            offsets = chase.order.offsets()
            room = SECTOR_BYTES - int((offsets % SECTOR_BYTES).max())
            free = [shift for shift in range(0, room, word) if not taken[offsets + shift].any()]
            if not free:
                return [shifts[each.order, each.picks] for each in chases[:number]]
            shifts[key] = free[0]
            taken[offsets + free[0]] = True
    return [shifts[each.order, each.picks] for each in chases]


def _launch(group: list[tuple[int, Chase]], shifts: Sequence[int], device: DeviceLimits) -> ChaseLaunch:
    indices, chases = zip(*group, strict=True)
    first: Chase = chases[0]
    chains, prior, arena_bytes = _place_chains(chases, shifts)
    paths = {chain.path for chain in chains}
    traits = TRAITS[first.path]
    cluster = device.max_cluster if first.path is Path.CLUSTER else 1

    front = max(chain.order.span for chain in chains) if traits.chain_in_shared else traits.front_bytes
    slots_offset = _round_up(front, SLOT_BYTES)
    room = recording_bytes(paths, first.carveout, device)
    slots = min(max(chase.records for chase in chases), (room - slots_offset) // SLOT_BYTES - 1)
    # No two blocks of a cluster, or of a launch for one SM, may share an SM: each takes all there is.
    whole = _through_l1(paths) or first.sm is not None or cluster > 1
    shared = room if whole else slots_offset + (slots + 1) * SLOT_BYTES
    carveout = 100 if cluster > 1 else first.carveout or 0
    launch = ChaseLaunch(
        indices, chases, chains, prior, len(chases), cluster, carveout, arena_bytes, slots, slots_offset, shared
    )
    if first.sm is not None:
        return replace(launch, blocks=max_resident_blocks(shared, device))
    if first.before:
        return replace(launch, blocks=1 + max(accesses.sm for accesses in first.before))
    if cluster > 1:
        return replace(launch, blocks=cluster)
    # Each block has an SM, and so an L1, to itself: windows can run in parallel.
    # Without a warm-up they would not find the L2 as the windows before left it.
    if traits.through_l1 and not _needs_own_launch(first) and not first.flush and all(each.warmup for each in chases):
        at_once = min(launch.windows, device.sm_count // len(chases))
        return replace(launch, blocks=at_once * len(chases), at_once=at_once)
    return launch


def _place_chains(chases: Sequence[Chase], shifts: Sequence[int]) -> tuple[tuple[Chain, ...], tuple[int, ...], int]:
    """Chains of chases and of the accesses before a lone one, the chain of each of the latter, and the arena's bytes.

    Every chase has a region of its own, except in constant memory. Prior accesses lie in the region of their chase, as
    offsets say, but for those of constant memory, which has a region of its own; equal chains are one.
    """
    chains = [
        Chain(chase.path, chase.order, timed=True, picks=chase.picks, shift=shift)
        for chase, shift in zip(chases, shifts, strict=True)
    ]
    if chases[0].path is Path.CONSTANT and not chases[0].before:
        return tuple(chains), (), place([CONSTANT_BANK_BYTES])[1]
    if not chases[0].before:
        regions, size = place(chain.size for chain in chains)
        return tuple(replace(c, region=region) for c, region in zip(chains, regions, strict=True)), (), size
    places, numbers = {_content(chains[0]): 0}, list[int]()
    for accesses in chases[0].before:
        chain = Chain(accesses.path, accesses.order)
        numbers.append(places.setdefault(_content(chain), len(chains)))
        chains += [chain] if numbers[-1] == len(chains) else []
    spaces = [[c.size for c in chains if (c.path is Path.CONSTANT) is constant] for constant in (False, True)]
    regions, size = place(max(sizes, default=0) for sizes in spaces)
    return tuple(replace(c, region=regions[c.path is Path.CONSTANT]) for c in chains), tuple(numbers), size


def _content(chain: Chain) -> tuple[object, ...]:
    """Key that is equal for chains with the same words and links. (Code has none, whatever its order.)"""
    return chain.path.link_format, chain.order, chain.size


def max_resident_blocks(shared: int, device: DeviceLimits) -> int:
    """Blocks with so many bytes of shared memory that the GPU can hold at most: with so many, every SM has one."""
    return device.sm_count * min(max(device.shared_per_sm // max(shared, 1), 1), device.blocks_per_sm)


def recording_bytes(paths: Set[Path], carveout: int | None, device: DeviceLimits) -> int:
    """Bytes of shared memory a block may have on these paths without taking anything from the cache under test.

    On a path through the L1 a block always requests all of it, whatever it records, because the driver's carve-out
    depends on what a block requests. Observed on an H200 (driver 580; ncu, launch__shared_mem_config_size): of the
    steps 8, 16, 32, 64, 100, 132, 164, 196, 228 KiB it takes the first that holds n blocks with their reserved 1 KiB
    each, n = percentage * 228 KiB / bytes requested, rounded, at least 1. So a block that requests next to nothing gets
    the largest carve-out at 10 % already, and one that requests nothing gets 32 KiB (for 32 blocks) at 0 %.
    """
    if not _through_l1(paths):
        return device.shared_per_block
    preferred = device.shared_per_sm * (carveout or 0) // 100
    reserved = device.shared_per_sm - device.shared_per_block
    return min(max(device.shared_beside_l1, preferred - reserved), device.shared_per_block)


def _through_l1(paths: Set[Path]) -> bool:
    return any(TRAITS[path].through_l1 for path in paths)


def _round_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


class ChainTable:
    """The chains of one launch as one piece of memory: `CHAIN` records, then tables aligned to 8 bytes."""

    def __init__(self, launch: ChaseLaunch, base: int) -> None:
        self.records = np.zeros(len(launch.chains), CHAIN)
        self._tables: list[NDArray[Any]] = []
        self._pointers: list[tuple[int, str, int]] = []  # record, field, offset of the table that it points to
        self.size = self.records.nbytes
        for number, chain in enumerate(launch.chains):
            if chain.path in UNCHAINED:
                continue
            record, traits = self.records[number], TRAITS[chain.path]
            record["region"] = base + chain.region + chain.shift
            record["origin"] = chain.first_link(base)
            record["link_bytes"], record["shift"] = min(chain.path.word, POINTER_BYTES), traits.shift
            record["mark"] = traits.mark if chain.timed and launch.first.timing is Timing.EACH else 0
            record["count"] = chain.order.count
            match chain.order:
                case Explicit() as order:
                    record["kind"] = ChainKind.EXPLICIT
                    self._append(number, "table", order.offsets())
                case Shuffled() as order:
                    record["kind"], record["stride"], record["start"] = ChainKind.SHUFFLED, order.stride, order.start
                    record["seed"], record["half"] = order.seed, feistel_half_bits(order.count)
                case Sequential() as order:
                    record["kind"], record["stride"], record["start"] = ChainKind.SEQUENTIAL, order.stride, order.start
            if chain.picks is not None:
                record["pick_count"] = len(chain.picks)
                self._append(number, "picks", np.array(chain.picks, np.uint32))

    @staticmethod
    def start(address: int, number: int) -> int:
        """Address at which the link to the first position of a chain stands, given the address of the table."""
        return address + number * CHAIN.itemsize + _FIRST_OFFSET

    def write(self, target: NDArray[np.uint8], address: int) -> None:
        """Write its bytes to the start of `target`, as they are to be uploaded to `address`."""
        for (number, name, offset), table in zip(self._pointers, self._tables, strict=True):
            self.records[number][name] = address + offset
            target[offset : offset + table.nbytes] = table.view(np.uint8)
        target[: self.records.nbytes] = self.records.view(np.uint8)

    def _append(self, number: int, field: str, table: NDArray[Any]) -> None:
        self._pointers.append((number, field, self.size))
        self._tables.append(table)
        self.size += -(-table.nbytes // 8) * 8
