"""From the sampled addresses of a kernel to what the requests of each access need: passes, sectors, hits in the L1.

The warps of a block take turns, one access each, and the blocks that share an SM are equally far apart. The L1 is taken
to be fully associative with LRU replacement, of lines of four sectors, written through without allocation. Hits in the
L2 are those of another sample, of the lines of the whole GPU.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation import reuse
from gpudissect.explanation.line_records import BehindL1
from gpudissect.explanation.model.card import Card
from gpudissect.explanation.model.requests import (
    BANK_BYTES,
    LINE,
    SECTOR,
    Requests,
    active,
    bank_passes,
    distinct,
    is_scattered,
)
from gpudissect.explanation.packing import SHARED, Trace
from gpudissect.machine_code.program import Program

_ALLOCATION_BITS = 40
LINES_PER_PASS = 4  # tags that the L1 compares at once: loads with a stride of 3 words take one pass on an H200


@dataclass(frozen=True)
class Accessed:
    """An access of the PTX: number of its instruction, space, kind (load, store, atomic), bytes of a thread."""

    instruction: int
    space: str
    kind: str
    size: int


@dataclass(frozen=True)
class SampledWarp:
    """What a warp of the sample did; `block`: number of its block among those on one SM, -1 if it is on another."""

    block: int
    trace: Trace


@dataclass(frozen=True)
class _Group:
    """All requests of one access: addresses and active lanes, warps and positions in them."""

    access: Accessed
    addresses: NDArray[np.uint64]
    lanes: NDArray[np.bool_]
    warps: NDArray[np.int64]
    positions: NDArray[np.int64]


class Traffic:
    """Requests of each access of a sample, by its index, at any number of resident blocks and capacity of the L1."""

    def __init__(self, accesses: Sequence[Accessed], warps: Sequence[SampledWarp]) -> None:
        self.blocks = np.array([warp.block for warp in warps], dtype=np.int64)
        self.outside: dict[int, Requests] = {}
        parts: list[NDArray[np.int64]] = []
        for index, group in _groups(accesses, warps).items():
            self.outside[index] = _without_cache(group)
            if group.access.space != "shared" and group.access.kind == "load":
                rows = _sectors(index, group)
                parts.append(rows[self.blocks[rows[:, 2]] >= 0])
        rows = np.concatenate(parts) if parts else np.zeros((0, 5), dtype=np.int64)
        self.index, self.request, self.warp, self.position, self.sector = rows.T.copy()
        self.request += self.index << 32

    def at(self, resident: int, l1_bytes: int) -> dict[int, Requests]:
        """Requests with the share that hits the L1, and the sectors of those that miss; all of these go to memory."""
        blocks = self.blocks[self.warp]
        waves, places = np.divmod(blocks, resident)
        apart = (int(self.position.max(initial=0)) + 1) / resident  # blocks replace each other at different times
        order = np.lexsort((self.warp, self.position + places * apart, waves))
        address, access = (self.sector[order] * SECTOR).astype(np.uint64), self.index[order].astype(np.uint32)
        requests_of_sm = reuse.Requests(address, access, np.zeros(len(order), np.uint32), LINE, 1.0)
        all_use_it = np.ones(int(access.max(initial=0)) + 1, dtype=bool)
        missed = reuse.l1_reuse(requests_of_sm, all_use_it).distances >= max(LINE, l1_bytes)
        result = dict(self.outside)
        requests, of_request = np.unique(self.request[order], return_inverse=True)
        misses = np.bincount(of_request, missed, minlength=len(requests))
        accesses = requests >> 32
        for index in np.unique(accesses).tolist():
            each = misses[accesses == index]
            some = float((each > 0).mean())
            moved = SECTOR * float(each.sum()) / max(1.0, float((each > 0).sum()))
            found = result[index]
            lines = found.lines if not some else max(1.0, min(found.lines, moved / SECTOR))
            units = min(found.units, moved / SECTOR)
            moves = {"l2_bytes": moved, "dram_bytes": moved}
            result[index] = replace(found, in_sm=1 - some, in_l2=1 - some, lines=lines, units=units, **moves)
        return result


def _without_cache(group: _Group) -> Requests:
    """The requests of an access if nothing hits the L1."""
    access, lanes = group.access, group.lanes
    mean_lanes = float(lanes.sum(axis=1).mean())
    if access.space == "shared":
        conflicts = bank_passes(
            group.addresses, lanes, access.size, merged=access.kind != "atomic", paired=access.kind == "load"
        )
        return Requests(mean_lanes, float(conflicts.mean()), 0.0)
    lines = distinct(group.addresses, lanes, access.size, LINE)
    sectors = distinct(group.addresses, lanes, access.size, SECTOR)
    touched = distinct(group.addresses, lanes, access.size, BANK_BYTES) * min(access.size, BANK_BYTES)
    conflicts = bank_passes(group.addresses, lanes, access.size, merged=access.kind != "atomic")
    mean, moved = float(sectors.mean()), float(sectors.mean()) * SECTOR
    return Requests(
        lanes=mean_lanes,
        passes=float(np.maximum(conflicts, -(-lines // LINES_PER_PASS)).mean()),
        sectors=mean,
        in_sm=0.0,
        in_l2=0.0,
        l2_bytes=moved,
        dram_bytes=moved,
        lines=float(lines.mean()),
        scattered=float(is_scattered(group.addresses, lanes, lines).mean()),
        units=float(distinct(group.addresses, lanes, access.size, 2 * SECTOR).mean()),
        partial=max(0.0, 1 - float(touched.mean()) / max(1.0, moved)) if access.kind != "load" else 0.0,
    )


def _sectors(index: int, group: _Group) -> NDArray[np.int64]:
    """Rows of access, request, warp, position, sector: one for each different sector of each request."""
    pieces = np.arange(0, group.access.size, SECTOR, dtype=np.uint64)
    touched = (group.addresses[:, :, None] + pieces) // np.uint64(SECTOR)
    request = np.broadcast_to(np.arange(len(touched))[:, None, None], touched.shape)
    on = np.broadcast_to(group.lanes[:, :, None], touched.shape)
    found = np.unique(np.stack([request[on], touched[on].astype(np.int64)], axis=1), axis=0)
    of = found[:, 0]
    return np.stack([np.full(len(of), index), of, group.warps[of], group.positions[of], found[:, 1]], axis=1)


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
        groups[index] = _Group(access, addresses, lanes, of, np.concatenate([at for _, at in chosen]))
    return groups


def _addresses(trace: Trace, at: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Addresses in which each allocation has a range of its own, shape (events, 32)."""
    allocations, offsets = trace.allocations[at].astype(np.int64), trace.offsets[at]
    return np.asarray((offsets + np.where(allocations >= 0, allocations + 1 << _ALLOCATION_BITS, 0)).astype(np.uint64))


def with_l2(requests: Mapping[int, Requests], behind: Mapping[int, BehindL1], card: Card) -> dict[int, Requests]:
    """Requests of which a share of the sectors hits the L2, by index of access; without a share none does.

    A request goes on to memory if any of its sectors does; sectors of a line hit alike, lines independently. A line of
    a scattered request costs as much as one of random loads (`ldg_random.rate`), stated as bytes at the bandwidth of
    memory.
    """
    read = card.bytes_per_cycle("dram", "read_bandwidth")
    random_rate = card.values.get(("ldg_random", "rate"), 0.0)
    of_random_line = read / random_rate if random_rate else 0.0
    result = {}
    for index, each in requests.items():
        hits, of_sector = behind.get(index, BehindL1(0.0, float(SECTOR)))
        out, sectors = 1 - each.in_sm, each.l2_bytes / SECTOR
        if not out or not sectors:
            result[index] = each
            continue
        all_hit = hits**each.lines
        moved = max(of_sector * sectors, each.scattered * each.lines * (1 - hits) * of_random_line)
        on = moved / (1 - all_hit) if all_hit < 1 else 0.0
        result[index] = replace(each, in_l2=1 - out * (1 - all_hit), dram_bytes=on)
    return result


def as_assembled(program: Program, accesses: Sequence[Accessed]) -> list[Accessed]:
    """Accesses with the bytes of their machine code: the assembler joins neighbouring loads."""
    sizes = defaultdict[int, int](int)
    for instruction, use in zip(program.instructions, program.uses, strict=True):
        if use.access is not None and use.bytes is not None and instruction.line is not None:
            sizes[instruction.line] = max(sizes[instruction.line], use.bytes)
    return [replace(access, size=max(access.size, sizes[access.instruction])) for access in accesses]


def by_instruction(
    program: Program, accesses: Sequence[Accessed], requests: Mapping[int, Requests]
) -> dict[int, Requests]:
    """Requests of the machine instructions, whose lines are the numbers of their PTX instructions."""
    of_line = defaultdict[int, list[int]](list)
    for index, access in enumerate(accesses):
        if index in requests:
            of_line[access.instruction].append(index)
    found = {}
    for place, (instruction, use) in enumerate(zip(program.instructions, program.uses, strict=True)):
        if use.access is None or instruction.line is None:
            continue
        candidates = of_line.get(instruction.line, [])
        fitting = [i for i in candidates if use.space in ("generic", accesses[i].space)] or candidates
        if fitting:
            found[place] = requests[fitting[0]]
    return found
