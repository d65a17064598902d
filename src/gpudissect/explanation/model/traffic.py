"""From the sampled addresses of a kernel to what the requests of each access need: passes, sectors, lines.

Which loads hit the L1 follows in the simulated SM. Hits in the L2 are those of another sample, of the lines of the
whole GPU.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation.insertion import VALUE
from gpudissect.explanation.line_records import BehindL1
from gpudissect.explanation.model.card import Card
from gpudissect.explanation.model.requests import (
    LINE,
    SECTOR,
    UNIT,
    Requests,
    active,
    atomic_operations,
    bank_passes,
    busiest_slice,
    crowded,
    distinct,
    is_scattered,
    shared_units,
    tag_passes,
)
from gpudissect.explanation.model.retries import Contention, contention_of
from gpudissect.explanation.model.sample import sample_of
from gpudissect.explanation.model.sm._state import LOCAL_LINE, LOCAL_LINE_BITS
from gpudissect.explanation.packing import SHARED, Trace
from gpudissect.explanation.rows import distinct_in_rows, distinct_rows
from gpudissect.units import WARP_SIZE

RANDOM_STORE = 2.4  # times a random load: an H200 loads 39, writes 16 and reduces 16 random words of 1 GiB in a ns
COMPLETED_STORE = 1.3
"""The same if the warp's next stores complete the sector: an H100 loads 32 random sectors in a ns, and writes 25."""
LONE = 1.1  # lanes of a sector in stores of which each lane has a line of its own
_ALLOCATION_BITS = 40
WHOLE_SECTOR = (1 << SECTOR) - 1  # a bit for each byte
WORD = 4  # bytes: local memory is interleaved by lane in words


@dataclass(frozen=True)
class Accessed:
    """An access of the PTX: number of its instruction, space, kind (load, store, atomic), bytes of a thread.

    `is_copied`: its data are written to shared memory, not to registers. `passes_l1`: a load that the L1 never holds.
    """

    instruction: int
    space: str
    kind: str
    size: int
    is_copied: bool = False
    passes_l1: bool = False


@dataclass(frozen=True)
class SampledWarp:
    """What a warp of the sample did; `block`: number of its block on one SM, negative if it is on another SM.

    `more_visits`: of blocks of the PTX, after those of its trace.
    """

    block: int
    trace: Trace
    more_visits: int = 0


@dataclass(frozen=True)
class _Group:
    """All requests of one access: addresses and active lanes, warps and positions in them.

    Addresses have shape (requests, lanes); for local memory (requests, words x lanes).
    """

    access: Accessed
    addresses: NDArray[np.uint64]
    lanes: NDArray[np.bool_]
    warps: NDArray[np.int64]
    positions: NDArray[np.int64]


class Traffic:
    """Requests of each access if nothing hits the L1, by its index, and the loads of warps that share an SM.

    `assumed`: accesses that no sampled warp made; they are taken to be contiguous. `diverged`: accesses whose lanes
    diverge more in the recorded warps than in the kernel itself: `_converged`. `retried`: accesses in loops of
    `retries`, whose number of attempts follows from `contention`. `combined`: warp-aggregated atomics. `values`: mean
    number of different values that the lanes of a warp compare.
    """

    def __init__(
        self,
        accesses: Sequence[Accessed],
        warps: Sequence[SampledWarp],
        diverged: Collection[int] = (),
        retried: Collection[int] = (),
        combined: Collection[int] = (),
    ) -> None:
        self.outside: dict[int, Requests] = {}
        self.values: dict[int, float] = {}
        self.contention: dict[int, Contention] = {}
        blocks = np.array([warp.block for warp in warps], dtype=np.int64)
        parts, written = list[NDArray[np.int64]](), list[NDArray[np.int64]]()
        stores, atomics = dict[int, _Group](), defaultdict[int, dict[int, _Group]](dict)  # atomics by array
        for index, group in _groups(accesses, warps).items():
            if group.access.kind == VALUE:
                self.values[index] = float(distinct(group.addresses, group.lanes, 1, 1).mean())
                continue
            group = _converged(group) if index in diverged else group
            if index in combined:  # only the first active lane requests
                group = replace(group, lanes=group.lanes & (np.cumsum(group.lanes, axis=1) == 1))
            self.outside[index] = _without_cache(group, merged=index in retried)
            if index in retried:
                self.contention[index] = contention_of(group.addresses, group.lanes, group.access.size, group.warps)
            if group.access.kind == "atomic" and group.access.space not in ("shared", "const"):
                atomics[int(group.addresses[group.lanes].max(initial=0)) >> _ALLOCATION_BITS][index] = group
            if group.access.passes_l1:
                continue
            if group.access.space == "global" and group.access.kind == "store":
                stores[index] = group
            if group.access.space not in ("shared", "const") and group.access.kind in ("load", "store"):
                (parts if group.access.kind == "load" else written).append(_sectors(index, group))
        self.assumed = frozenset(
            index
            for index, access in enumerate(accesses)
            if index not in self.outside and access.space in ("global", "generic") and warps
        )
        for index, share in _completed(stores).items():
            random = RANDOM_STORE + share * (COMPLETED_STORE - RANDOM_STORE)
            self.outside[index] = replace(self.outside[index], random=random)
        self.outside |= {index: _without_cache(_contiguous(accesses[index])) for index in self.assumed}
        for groups in atomics.values():
            hot, hottest = _concentration(list(groups.values()), blocks)
            self.outside |= {index: replace(self.outside[index], hot=hot, hottest=hottest) for index in groups}
        for rows in parts:
            if rows.size and accesses[index := int(rows[0, 0])].space != "local":
                self.outside[index] = replace(self.outside[index], crowded=_crowded(rows, blocks))
        self._rows = np.concatenate(parts) if parts else np.zeros((0, 6), dtype=np.int64)
        self._blocks = blocks
        self.sample = sample_of(np.concatenate([self._rows, *written]), blocks, len(accesses), LINE // SECTOR)

    @cached_property
    def new_to_block(self) -> dict[int, float]:
        """Share of the sectors that each load requests and that no sampled warp of its block has loaded before."""
        rows = self._rows[np.argsort(self._rows[:, 3], kind="stable")]
        first, _ = distinct_rows(self._blocks[rows[:, 2]], rows[:, 4])
        requested, new = (np.bincount(each, minlength=1) for each in (rows[:, 0], rows[first, 0]))
        return {index: new[index] / requested[index] for index in np.flatnonzero(requested[: new.size]).tolist()}


def _crowded(rows: NDArray[np.int64], blocks: NDArray[np.int64]) -> float:
    """`Requests.crowded` of the requests of a load, see `_sectors`."""
    lines = rows[distinct_rows(rows[:, 1], rows[:, 4] // (LINE // SECTOR))[0]]
    return crowded(lines[:, 4], blocks[lines[:, 2]])


def _concentration(atomics: Sequence[_Group], blocks: NDArray[np.int64]) -> tuple[float, float]:
    """Share of the atomic accesses of an array by lanes at the busiest slice of the L2, and at the busiest sector.

    `blocks`: number of the block of each warp.
    """
    addresses, lanes = (np.concatenate(each) for each in zip(*((g.addresses, g.lanes) for g in atomics), strict=True))
    of = blocks[np.concatenate([group.warps for group in atomics])]
    units, sectors = (shared_units(addresses, lanes, of, unit) for unit in (UNIT, SECTOR))
    return busiest_slice(units), float(sectors.max(initial=0.0))


def _without_cache(group: _Group, *, merged: bool = False) -> Requests:
    """The requests of an access if nothing hits the L1; `merged`: lanes of an atomic with one word share a pass."""
    access, lanes = group.access, group.lanes
    mean_lanes = float(lanes[:, :WARP_SIZE].sum(axis=1).mean())
    if access.space == "const":
        return Requests(mean_lanes, float(distinct(group.addresses, lanes, 1, access.size).mean()), 0.0)
    if access.space == "shared":
        conflicts = bank_passes(
            group.addresses, lanes, access.size, merged=merged or access.kind != "atomic", paired=access.kind == "load"
        )
        return Requests(mean_lanes, float(conflicts.mean()), 0.0)
    lines = distinct(group.addresses, lanes, access.size, LINE)
    sectors = distinct(group.addresses, lanes, access.size, SECTOR)
    is_load, is_atomic = access.kind == "load", access.kind == "atomic"
    words = [slice(n, n + WARP_SIZE) for n in range(0, lanes.shape[1], WARP_SIZE)]  # several in local memory alone
    passes = [bank_passes(group.addresses[:, n], lanes[:, n], access.size, merged=not is_atomic) for n in words]
    data_passes = float(np.sum(passes, axis=0).mean())
    if access.is_copied:
        data_passes = max(1.0, mean_lanes * access.size / LINE)
    operations = float(atomic_operations(group.addresses, lanes, access.size).mean()) if is_atomic else 0.0
    mean, unit = float(sectors.mean()), min(access.size, WORD)
    moved = mean * SECTOR
    touched = unit * float(distinct(group.addresses, lanes, access.size, unit).mean())
    return Requests(
        lanes=mean_lanes,
        passes=data_passes,
        sectors=mean,
        tags=float(tag_passes(group.addresses, lanes).mean()),
        in_sm=0.0,
        in_l2=0.0,
        l2_bytes=moved,
        dram_bytes=moved,
        covered=touched / moved if moved else 1.0,
        lines=float(lines.mean()),
        scattered=_scattered(group, lines) if is_load or (access.size < SECTOR and mean_lanes <= LONE * mean) else 0.0,
        random=1.0 if is_load else RANDOM_STORE,
        operations=operations,
    )


def _scattered(group: _Group, lines: NDArray[np.int64]) -> float:
    """Share of the lines in requests whose lines lie far apart."""
    return float((is_scattered(group.addresses, group.lanes, lines) * lines).sum() / max(1, lines.sum()))


def _contiguous(access: Accessed) -> _Group:
    """A request of neighbouring words: of an access that no sampled warp made."""
    addresses = (np.arange(WARP_SIZE, dtype=np.uint64) * np.uint64(access.size)).reshape(1, -1)
    zero = np.zeros(1, dtype=np.int64)
    return _Group(access, addresses, np.ones((1, WARP_SIZE), dtype=np.bool_), zero, zero)


def _sectors(index: int, group: _Group) -> NDArray[np.int64]:
    """Rows of access, request, warp, position, sector, validity: one for each different sector of each request.

    Validity is 0 for a sector that a store writes partly; always 1 in local memory, where a lane loads what it stored.
    """
    if group.access.kind == "store" and group.access.space != "local":
        return _written(index, group)
    pieces = np.arange(0, group.access.size, SECTOR, dtype=np.uint64)
    touched = ((group.addresses[:, :, None] + pieces) // np.uint64(SECTOR)).astype(np.int64)
    sectors, is_first = distinct_in_rows(touched.reshape(len(touched), -1), np.repeat(group.lanes, pieces.size, axis=1))
    of = np.nonzero(is_first)[0]
    columns = np.full(len(of), index), of, group.warps[of], group.positions[of], sectors[is_first], np.ones_like(of)
    return np.stack(columns, axis=1)


def _written(index: int, group: _Group) -> NDArray[np.int64]:
    """`_sectors` for stores to global memory."""
    size = group.access.size
    rows, lanes = np.nonzero(group.lanes)
    units = group.addresses[rows, lanes] // np.uint64(size)
    first = distinct_rows(rows, units.astype(np.int64))[0]
    rows, sectors = rows[first], (units[first] * np.uint64(size) // np.uint64(SECTOR)).astype(np.int64)
    first, pair = distinct_rows(rows, sectors)
    of, whole = rows[first], np.bincount(pair) * size >= SECTOR
    columns = np.full(len(of), index), of, group.warps[of], group.positions[of], sectors[first], whole
    return np.stack(columns, axis=1)


def _completed(stores: Mapping[int, _Group]) -> dict[int, float]:
    """Share of the sectors of each store that its warp writes whole, with all its stores in the sample."""
    parts, index = [np.zeros((0, 3), dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for number, group in stores.items():
        rows, lanes = np.nonzero(group.lanes)
        sector, begin = np.divmod(group.addresses[rows, lanes].astype(np.int64), SECTOR)
        bits = (1 << min(group.access.size, SECTOR)) - 1 << begin & WHOLE_SECTOR
        parts.append(np.stack([group.warps[rows], sector, bits], axis=1))
        index.append(np.full(rows.size, number))
    rows, of = np.concatenate(parts), np.concatenate(index)
    first, pair = distinct_rows(rows[:, 0], rows[:, 1])
    written = np.zeros(first.size, dtype=np.int64)
    np.bitwise_or.at(written, pair, rows[:, 2])
    is_whole = written[pair] == WHOLE_SECTOR
    return {number: float(is_whole[of == number].mean()) for number in stores}


def _groups(accesses: Sequence[Accessed], warps: Sequence[SampledWarp]) -> dict[int, _Group]:
    parts = defaultdict[int, list[tuple[int, NDArray[np.int64]]]](list)
    for number, warp in enumerate(warps):
        for index in np.unique(warp.trace.accessed):
            parts[int(index)].append((number, np.flatnonzero(warp.trace.accessed == index)))
    groups = {}
    for index, chosen in sorted(parts.items()):
        addresses = np.concatenate([_addresses(warps[number].trace, at) for number, at in chosen])
        lanes = np.concatenate([active(warps[number].trace.access_lanes[at]) for number, at in chosen])
        spaces = np.concatenate([warps[number].trace.allocations[at] for number, at in chosen])[lanes]
        access = accesses[index]
        if access.space == "generic":
            is_shared = bool(spaces.size) and float((spaces == SHARED).mean()) > 0.5
            access = replace(access, space="shared" if is_shared else "global")
        of = np.concatenate([np.full(at.size, number) for number, at in chosen])
        group = _Group(access, addresses, lanes, of, np.concatenate([at for _, at in chosen]))
        groups[index] = _interleaved(group) if access.space == "local" else group
    return groups


def _interleaved(group: _Group) -> _Group:
    """Accesses to local memory word by word: the words of all lanes of a warp at one offset are adjacent.

    See CUDA C++ Programming Guide, Local Memory. Columns are the first words of all lanes, then their second words.
    """
    words = np.arange(max(1, group.access.size // WORD), dtype=np.uint64)
    place = (group.addresses[:, None, :] // np.uint64(WORD) + words[:, None]) * np.uint64(WARP_SIZE)
    place += np.arange(WARP_SIZE, dtype=np.uint64)
    size = LINE << LOCAL_LINE_BITS
    first = np.uint64(LOCAL_LINE * LINE) + group.warps.astype(np.uint64) * np.uint64(size)
    addresses = (place * np.uint64(WORD)) % np.uint64(size) + first[:, None, None]
    return replace(
        group,
        access=replace(group.access, size=min(group.access.size, WORD)),
        addresses=addresses.reshape(len(addresses), -1),
        lanes=np.tile(group.lanes, words.size),
    )


def _converged(group: _Group) -> _Group:
    """Merge lane accesses with equal visit index into one request, at the position of the first."""
    rows, lanes = np.nonzero(group.lanes)
    order = np.lexsort((rows, lanes, group.warps[rows]))
    rows, lanes = rows[order], lanes[order]
    columns = group.lanes.shape[1]
    thread = group.warps[rows] * columns + lanes
    number = np.arange(len(rows))
    turn = number - np.maximum.accumulate(np.where(np.diff(thread, prepend=-1) != 0, number, 0))
    first, of = distinct_rows(group.warps[rows], turn)
    addresses = np.zeros((len(first), columns), dtype=np.uint64)
    positions = np.full(len(first), np.iinfo(np.int64).max)
    addresses[of, lanes] = group.addresses[rows, lanes]
    np.minimum.at(positions, of, group.positions[rows])
    active_lanes = np.zeros(addresses.shape, dtype=np.bool_)
    active_lanes[of, lanes] = True
    return replace(group, addresses=addresses, lanes=active_lanes, warps=group.warps[rows][first], positions=positions)


def _addresses(trace: Trace, at: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Addresses in which each allocation has a range of its own, shape (events, 32)."""
    allocations, offsets = trace.allocations[at].astype(np.int64), trace.offsets[at]
    return np.asarray((offsets + np.where(allocations >= 0, allocations + 1 << _ALLOCATION_BITS, 0)).astype(np.uint64))


def with_l2(each: Requests, behind: BehindL1 | None, card: Card) -> Requests:
    """Requests of which a share of the sectors hits the L2; without one none does.

    A request goes on to memory if any of its sectors does; sectors of a line hit alike, lines independently. Lines of a
    scattered load have the measured rate of random lines, parts of sectors that are written alone a lower one.
    """
    found = behind or BehindL1(1.0, float(SECTOR))
    out, missed = 1 - each.in_sm, each.l2_bytes / SECTOR
    if not out or not missed:
        return each
    share = min(1.0, found.memory * each.sectors / (out * missed))
    all_hit = (1 - share) ** each.lines
    of_random_line = bytes_of_random_line(card)
    of_sector = found.memory_bytes / found.memory if found.memory else 0.0
    of_random = max(of_sector, of_random_line * each.random * each.lines / missed)
    slower = 1.0
    if each.random > 1 and of_sector:  # parts of a sector that are written one after the other meet in the L2
        slower += each.scattered * max(0.0, 2 * found.memory - 1) * (of_random / of_sector - 1)
    else:
        of_sector += each.scattered * (of_random - of_sector)
    moved = of_sector * slower * missed * share
    return replace(
        each,
        in_l2=1 - out * (1 - all_hit),
        dram_bytes=moved / (1 - all_hit) if all_hit < 1 else 0.0,
        from_memory=found.memory,
        random=slower,
        crossing=(1 - share) * found.far + share * card.far_homes,
        far=found.far,
        merged=found.merged,
        sector_dram_bytes=moved / missed / share if share else 0.0,
    )


def bytes_of_random_line(card: Card) -> float:
    """Bytes at the bandwidth of memory that take as long as a sector of a random line."""
    unit = card.values.get(("l2", "fetch_granularity"), float(SECTOR))
    rate = card.values.get(("ldg_random", "rate"))
    if rate is None:
        return unit
    return max(unit, card.value("dram", "read_bandwidth") / (rate * card.sms * card.clock_hz))


def after_l1(requests: Requests, l1_counts: NDArray[np.float64], behind: BehindL1 | None, card: Card) -> Requests:
    """Requests with the hits of the simulated L1; `l1_counts`: requests, those that missed, their lines and sectors."""
    count, missed, lines, sectors = (float(number) for number in l1_counts[:4])
    if not count:
        return replace(requests, access=None)
    moved = SECTOR * sectors / missed if missed else 0.0
    found = replace(
        requests,
        access=None,
        in_sm=1 - missed / count,
        in_l2=1 - missed / count,
        l2_bytes=moved,
        dram_bytes=moved,
        lines=lines / missed if missed else requests.lines,
    )
    return with_l2(found, behind, card)
