"""Which chases of a batch run in which launch, where their chains lie, how many records a launch keeps. Uses no GPU."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from gpudissect.device.cuda.layout import REPORT, SLOT_BYTES, TRAITS, UNCHAINED
from gpudissect.device.cuda.memory import place
from gpudissect.errors import DeviceError, OutOfMemory, UnsupportedWorkload
from gpudissect.units import WARP_SIZE, format_bytes
from gpudissect.workload import Chase, Order, Path, Stream, Workload


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
    unsupported: Mapping[Path, str] = field(default_factory=dict)  # with the reason


@dataclass(frozen=True)
class Chain:
    """A chain to be written: its path, its region's offset in the arena, and, if timed, its picked positions or all."""

    path: Path
    order: Order
    region: int = 0
    timed: bool = False
    picks: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        """Bytes that it takes in memory, a multiple of 8; 0 on a path without a chain."""
        return 0 if self.path in UNCHAINED else _round_up(self.order.span, 8)


@dataclass(frozen=True)
class ChaseLaunch:
    """Chases that run at the same time, one block each; or one chase that needs more blocks.

    The latter has accesses before it (one block an SM that has any), must run on a certain SM (as many blocks as the
    GPU holds), or goes through the shared memory of another block (a cluster).

    A chase keeps `slots` records in one run; if one has more, the launch is repeated with the window moved.
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

    @property
    def first(self) -> Chase:
        """The first chase, or the only one."""
        return self.chases[0]

    @property
    def constant_region(self) -> int | None:
        """Offset in the arena of what is copied to constant memory, None if nothing is."""
        return next((chain.region for chain in self.chains if chain.path is Path.CONSTANT), None)

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
        """Runs that the longest trace needs."""
        return -(-max(chase.records for chase in self.chases) // self.slots)


def plan_launches(batch: Sequence[Workload], device: DeviceLimits) -> list[ChaseLaunch]:
    """Distribute a batch over launches.

    Chases share a launch if they agree in path, timing, carve-out and flush, need none of their own, number at most one
    an SM and fit into memory together. They share the constant bank, so chains in it must be equal.
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


def _group_key(index: int, chase: Chase) -> object:
    if chase.alone or chase.before or chase.sm is not None or chase.path is Path.CLUSTER:
        return index
    constants = (chase.order, chase.picks) if chase.path is Path.CONSTANT else None
    return (chase.path, chase.timing, chase.carveout, chase.flush, constants)


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
        while count > 1 and not no_arena and place(sizes[:count])[1] > device.spans[path]:
            count -= 1
        launches.append(_launch(group[:count], device))
        group = group[count:]
    return launches


def _launch(group: list[tuple[int, Chase]], device: DeviceLimits) -> ChaseLaunch:
    indices, chases = zip(*group, strict=True)
    first: Chase = chases[0]
    chains, prior, arena_bytes = _place_chains(chases)
    paths = {chain.path for chain in chains}
    traits = TRAITS[first.path]
    cluster = device.max_cluster if first.path is Path.CLUSTER else 1

    front = max(chain.order.span for chain in chains) if traits.chain_in_shared else traits.front_bytes
    slots_offset = _round_up(front, SLOT_BYTES)
    room = recording_bytes(paths, first.carveout, device)
    slots = min(max(chase.records for chase in chases), (room - slots_offset) // SLOT_BYTES - 1)
    # No two blocks of a cluster, or of a launch for one SM, may share an SM: each takes all there is.
    whole = any(TRAITS[path].through_l1 for path in paths) or first.sm is not None or cluster > 1
    shared = room if whole else slots_offset + (slots + 1) * SLOT_BYTES
    if first.sm is not None:
        blocks = max_resident_blocks(shared, device)
    elif first.before:
        blocks = 1 + max(accesses.sm for accesses in first.before)
    else:
        blocks = cluster if cluster > 1 else len(chases)
    carveout = 100 if cluster > 1 else first.carveout or 0
    return ChaseLaunch(
        indices, chases, chains, prior, blocks, cluster, carveout, arena_bytes, slots, slots_offset, shared
    )


def _place_chains(chases: Sequence[Chase]) -> tuple[tuple[Chain, ...], tuple[int, ...], int]:
    """Chains of chases and of the accesses before a lone one, the chain of each of the latter, and the arena's bytes.

    Every chase has a region of its own. Prior accesses lie in the region of their chase, as offsets say, but for those
    of constant memory, which has a region of its own; equal chains are one.
    """
    chains = [Chain(chase.path, chase.order, timed=True, picks=chase.picks) for chase in chases]
    if not chases[0].before:
        regions, size = place(chain.size for chain in chains)
        return tuple(replace(c, region=region) for c, region in zip(chains, regions, strict=True)), (), size
    numbers: list[int] = []
    for accesses in chases[0].before:
        chain = Chain(accesses.path, accesses.order)
        number = next((i for i, other in enumerate(chains) if _is_same(chain, other)), len(chains))
        chains += [chain] if number == len(chains) else []
        numbers.append(number)
    spaces = [[c.size for c in chains if (c.path is Path.CONSTANT) is constant] for constant in (False, True)]
    regions, size = place(max(sizes, default=0) for sizes in spaces)
    return tuple(replace(c, region=regions[c.path is Path.CONSTANT]) for c in chains), tuple(numbers), size


def _is_same(chain: Chain, other: Chain) -> bool:
    """Whether two chains have the same words with the same links. (Code has none, whatever its order.)"""
    return chain.path.link_format == other.path.link_format and chain.order == other.order and chain.size == other.size


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
    if not any(TRAITS[path].through_l1 for path in paths):
        return device.shared_per_block
    preferred = device.shared_per_sm * (carveout or 0) // 100
    reserved = device.shared_per_sm - device.shared_per_block
    return min(max(device.shared_beside_l1, preferred - reserved), device.shared_per_block)


def _round_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
