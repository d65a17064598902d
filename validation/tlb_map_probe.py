"""Measure the TLBs of an H200: ``python validation/tlb_map_probe.py FILE.npz [SEED]``; see `tlb_map.py`.

Takes nearly all memory of the GPU, and eleven seconds. To exceed the reach of the L3 TLB, the same 2 MiB are mapped at
many addresses. Managed memory has pages of 4 or 64 KiB if one such page of each block is not resident.
"""

from pathlib import Path
from typing import Any

import gpu_probe
import numpy as np
from cuda.bindings import driver
from gpu_probe import U32, U64, Gpu, call
from l2_rules import Numbers
from numpy.typing import NDArray
from tlb_map import groups_of, order_of
from tlb_rules import BIG, FIRST_PAGES, HUGE, PAGES, SMALL, Loads, second_sets, third_sets

SOURCE = Path(__file__).with_name("tlb_map.cu")
SHARED_BYTES = 200 << 10  # so that one block runs on each SM
KIB, MIB, GIB, LINE = 1 << 10, 1 << 20, 1 << 30, 128
PIECE, AREA, AREAS = 2 * MIB, 32 * MIB, 16384  # bytes mapped; bytes that an entry of the L2 TLB covers; how many
REGION_AREAS = 2048  # mapped in each of several regions
CANDIDATES = 4  # lines of a page, of which the fastest one is loaded
KEPT_BYTES = 2 * GIB  # of the GPU's memory, not used
LAUNCH = 20_000  # loads
LONG, SHORT = 50_000, 20_000  # traces
MIN_EXCESS, MAX_EXCESS = -127, 2047
FLUSH = 8704  # areas, more than the L3 TLB holds
FILLERS = 24  # areas, more than the L1 TLB holds
MANAGED = {SMALL: (2 * GIB, 64 * KIB), BIG: (18 * GIB, 2 * MIB)}
"""For pages of each size: bytes of managed memory, and of each part of it in which one page is not resident."""
WIDE_BYTES, WIDE_BLOCKS = 1 << 42, 2048  # addresses of managed memory, and blocks of 2 MiB of it that are resident
OTHER_SM = 40  # with another L2 TLB than SM 0
PAIRS = 60
DISTANCES = [1 << bits for bits in range(11, 27)]
LOOPS = ((1, 14), (1, 20), (1, 24), (1, 32), (2, 12), (2, 16), (4, 9), (4, 10), (4, 12), (8, 9), (16, 12))
"""Sets of the L2 TLB, and pages of each."""
THIRD_LOOPS = ((1, 16), (2, 10), (2, 12), (2, 16), (4, 10), (4, 12), (8, 9), (8, 10), (8, 16))
"""Sets of the L3 TLB, and pages of each, all of them in one set of the second."""
LOOP_SET, THIRD_LOOP_SETS, THIRD_PAGES, THIRD_EVICTING = 100, (41, 76, 301, 448, 553, 588, 813, 960), 16, 40
"""This set of the L2 TLB, those of the third (four in each half), pages mapped in each, and pages of other sets."""
DIRECTORY_AREAS = 20, 24


class Probe:
    """The kernels, and memory in pages of 2 MiB that fills all TLBs.

    Attributes:
        gpu: the GPU.
        rng: of all random choices.
        base: address of the first of the areas.
        every: a line in each area.
        kept: what was measured.

    """

    def __init__(self, seed: int) -> None:
        self.gpu = Gpu()
        self.rng = np.random.default_rng(seed)
        self.kept: dict[str, NDArray[Any]] = {}
        self._names: list[str] = []
        cubin = self.gpu.compile(SOURCE)
        self._repeat, self._follow = (self.gpu.function(cubin, name, SHARED_BYTES) for name in (b"repeat", b"follow"))
        self.scatter = self.gpu.function(cubin, b"scatter")
        self._list, self._out = self.gpu.allocate(8 * CANDIDATES * LAUNCH), self.gpu.allocate(2 * CANDIDATES * LAUNCH)
        self._piece = Piece()
        self.base = self._piece.reserve(AREAS)
        for area in range(AREAS):
            self._piece.map(self.base + area * AREA)
        self.every = self.lines(self.base + np.arange(AREAS) * AREA, PIECE)

    def lines(self, starts: Numbers, size: int) -> Numbers:
        """A random line of each page; `size`: bytes from its start that may be used."""
        lines: Numbers = starts + self.rng.integers(0, size // LINE, starts.size) * LINE
        return lines

    def latencies(self, lines: Numbers, sm: int = 0) -> Numbers:
        """Latencies of loads of an SM, one after the other."""
        return self._each(self._follow, lines, sm, LAUNCH)

    def repeated(self, lines: Numbers, sm: int = 0) -> Numbers:
        """Minimum latency of a repeated load of each line."""
        return self._each(self._repeat, lines, sm, CANDIDATES * LAUNCH)

    def trace(self, name: str, starts: Numbers, bits: Numbers | int, loads: int = SHORT) -> None:
        """Keep random loads of pages; `bits`: address bits within each page."""
        bits = np.resize(bits, starts.size)
        size = np.where(bits == HUGE, PIECE, 4 * KIB)
        candidates = np.array([starts + self.rng.integers(0, size // LINE) * LINE for _ in range(CANDIDATES)])
        cycles = self.repeated(candidates.ravel()).reshape(candidates.shape)
        fastest = cycles.argmin(axis=0), np.arange(starts.size)
        order = order_of(len(self._names), loads, starts.size)
        excess = self.latencies(candidates[fastest][order]) - cycles[fastest][order]
        self.kept[f"pages_{len(self._names)}"] = np.stack([starts, bits])
        self.kept[f"excess_{len(self._names)}"] = np.clip(excess, MIN_EXCESS, MAX_EXCESS).astype(np.int16)
        shares = [round(float(np.mean(excess[loads // 2 :] >= bound)), 4) for bound in (6, 72, 250, 680)]
        print(f"{name}: {starts.size} pages; excess over 5, 71, 249, 679: {shares}", flush=True)
        self._names.append(name)
        self.kept["names"] = np.array(self._names)

    def regions(self) -> Numbers:
        """Areas in regions whose addresses differ in one of bits 40 to 46."""
        starts = [self.base]
        for bit in range(40, 47):
            try:
                starts.append(self._piece.reserve(REGION_AREAS, self.base ^ 1 << bit))
            except RuntimeError:  # these addresses are in use
                continue
            for area in range(REGION_AREAS):
                self._piece.map(starts[-1] + area * AREA)
        addresses: Numbers = np.add.outer(np.array(starts), np.arange(REGION_AREAS) * AREA).ravel()
        return addresses

    def map_some(self, addresses: Numbers, count: int) -> Numbers:
        """Map up to `count` of these addresses, except those in use; return the mapped ones."""
        mapped: list[int] = []
        for address in self.rng.permutation(addresses).tolist():
            if len(mapped) == count:
                break
            try:
                self._piece.reserve(1, address)
            except RuntimeError:
                continue
            self._piece.map(address)
            mapped.append(address)
        return np.array(mapped)

    def map_halves(self) -> None:
        """Map the second half of each area, too."""
        for area in range(AREAS):
            self._piece.map(self.base + area * AREA + AREA // 2)

    def _each(self, kernel: Any, lines: Numbers, sm: int, launch: int) -> Numbers:
        found = []
        for first in range(0, lines.size, launch):
            part = lines[first : first + launch].astype(np.uint64)
            self.gpu.upload(self._list, part)
            self.gpu.upload(self._out, np.zeros(part.size, np.uint16))
            arguments = (sm, U32), (self._list, U64), (part.size, U32), (self._out, U64)
            self.gpu.launch(kernel, (self.gpu.sms, 128), SHARED_BYTES, *arguments)
            found.append(self.gpu.download(self._out, part.size, np.uint16))
        if not all(part.all() for part in found):
            raise RuntimeError(f"no block ran on SM {sm}")
        latencies: Numbers = np.concatenate(found).astype(np.int64)
        return latencies


class Piece:
    """2 MiB of physical memory that can be mapped at many addresses."""

    def __init__(self) -> None:
        kind = driver.CUmemAllocationProp()
        kind.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        kind.location = device_location()
        self._access = driver.CUmemAccessDesc()
        self._access.location = kind.location
        self._access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        self._memory = call(driver.cuMemCreate, PIECE, kind, 0)

    def reserve(self, areas: int, wanted: int = 0) -> int:
        """Reserve addresses for so many areas. Raise `RuntimeError` if the wanted ones are in use."""
        start = int(call(driver.cuMemAddressReserve, areas * AREA, min(areas * AREA, 8 * GIB), wanted, 0))
        if wanted not in (0, start):
            raise RuntimeError(f"{wanted:#x} is in use")
        return start

    def map(self, address: int) -> None:
        """Map the memory at an address."""
        call(driver.cuMemMap, address, PIECE, 0, self._memory, 0)
        call(driver.cuMemSetAccess, address, PIECE, [self._access], 1)


def device_location() -> Any:
    """GPU 0, for functions of the driver."""
    location = driver.CUmemLocation()
    location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    location.id = 0
    return location


def loads_of(starts: Numbers, bits: int) -> Loads:
    """A load of each page."""
    bits_of = np.full_like(starts, bits)
    return Loads(starts, bits_of, bits_of, bits_of > 0)


def free_bytes() -> int:
    """Memory of the GPU that is free."""
    return int(call(driver.cuMemGetInfo))


def allocate_managed(size: int) -> int:
    """Managed memory; its address, a multiple of 64 MiB."""
    address = int(call(driver.cuMemAllocManaged, size + 2 * AREA, 1))
    return (address + 2 * AREA - 1) // (2 * AREA) * 2 * AREA


def make_resident(address: int, size: int) -> None:
    """Move managed memory to the GPU."""
    call(driver.cuMemPrefetchAsync, address, size, device_location(), 0, 0)


def measure_ordinary(probe: Probe) -> None:
    """Traces of nearly all memory of the GPU."""
    size = (free_bytes() - KEPT_BYTES) // AREA * AREA
    memory = probe.gpu.allocate(size)
    start = (memory + AREA - 1) // AREA * AREA
    areas = (memory + size - start) // AREA
    probe.trace("2 MiB: 16 MiB apart", start + np.arange(24) * AREA // 2, HUGE)
    probe.trace("2 MiB: 8 MiB apart", start + np.arange(64) * AREA // 4, HUGE)
    probe.trace("2 MiB: ordinary memory, part", start + np.arange(2600) * AREA, HUGE)
    probe.trace("2 MiB: ordinary memory", start + np.arange(areas) * AREA, HUGE)
    measure_entries(probe, start, 8 * GIB, HUGE)
    call(driver.cuMemFree, memory)


def measure_areas(probe: Probe) -> None:
    """Traces of 2 MiB that are mapped at many addresses."""
    for count in (4096, 8192, 12288, 16384):
        probe.trace(f"2 MiB: {count} areas", probe.base + np.arange(count) * AREA, HUGE, LONG)
    probe.map_halves()
    for count in (4096, 12288):
        probe.trace(f"2 MiB: halves of {count} areas", probe.base + np.arange(2 * count) * AREA // 2, HUGE, LONG)
    probe.trace("2 MiB: regions", probe.regions(), HUGE, LONG)
    starts = probe.base + np.arange(AREAS) * AREA
    for loop in LOOPS:
        measure_loop(probe, *loop, starts, HUGE)


def measure_third(probe: Probe) -> None:
    """Traces of pages from one set of the L2 TLB, many of them from a few sets of the third."""
    starts = np.arange(16 * GIB // AREA, 1 << 22) * AREA
    starts = starts[second_sets(loads_of(starts, HUGE)) == LOOP_SET]
    third = third_sets(loads_of(starts, HUGE))
    pages = {number: probe.map_some(starts[third == number], THIRD_PAGES) for number in THIRD_LOOP_SETS}
    own = probe.base + np.arange(AREAS) * AREA
    own = own[second_sets(loads_of(own, HUGE)) == LOOP_SET]
    evicting = own[~np.isin(third_sets(loads_of(own, HUGE)), THIRD_LOOP_SETS)][:THIRD_EVICTING]
    for sets, each in THIRD_LOOPS:
        chosen = [pages[number][:each] for number in THIRD_LOOP_SETS[:sets]]
        probe.trace(f"2 MiB: {sets} sets of the L3 TLB with {each} pages", np.concatenate([*chosen, evicting]), HUGE)


def measure_loop(probe: Probe, sets: int, each: int, starts: Numbers, bits: int) -> None:
    """A trace of pages from a few sets of the L2 TLB."""
    of_page = second_sets(loads_of(starts, bits))
    chosen = [starts[of_page == (LOOP_SET + 37 * i) % 256][:each] for i in range(sets)]
    probe.trace(f"{name_of(bits)}: {sets} sets of {each} pages", np.concatenate(chosen), bits)


def measure_small(probe: Probe, bits: int) -> None:
    """Traces of pages of 4 or 64 KiB, alone and with pages of 2 MiB."""
    size, part = MANAGED[bits]
    start, page, name = allocate_managed(size), 1 << bits, name_of(bits)
    for address in range(start, start + size, part):
        make_resident(address, part - page)
    half, unit = page << FIRST_PAGES, page << PAGES
    measure_entries(probe, start, size, bits)
    for count in (14, 17, 24, 64):
        probe.trace(f"{name}: {count} halves of entries", start + np.arange(count) * half, bits)
    probe.trace(f"{name}: 64 quarters of entries", start + np.arange(64) * half // 2, bits)
    probe.trace(f"{name}: 4096 halves of entries", start + np.arange(4096) * half, bits)
    for count, loads in ((2600, SHORT), (4096, SHORT), (8192, LONG), (12288, LONG), (16384, LONG)):
        probe.trace(f"{name}: {count} entries", start + np.arange(count) * unit, bits, loads)
    units = start + np.arange(size // unit) * unit
    for loop in ((1, 20), (2, 16), (4, 12)):
        measure_loop(probe, *loop, units, bits)
    huge = probe.base + np.arange(AREAS) * AREA
    for each in (10, 16):
        number = int(probe.rng.integers(256))
        mixed = [
            chosen[second_sets(loads_of(chosen, size_)) == number][:each]
            for chosen, size_ in ((units, bits), (huge, HUGE))
        ]
        probe.trace(f"mixed with {name}: {each} of a set", np.concatenate(mixed), np.repeat([bits, HUGE], each))
    for each, loads in ((1500, SHORT), (6000, LONG)):
        probe.trace(
            f"mixed with {name}: {each}",
            np.concatenate([units[:each], huge[:each]]),
            np.repeat([bits, HUGE], each),
            loads,
        )
    if bits == BIG:
        for count in DIRECTORY_AREAS:
            areas = start + np.arange(count) * (512 * MIB)
            probe.trace(
                f"{name}: {count} directory entries", np.add.outer(areas, np.arange(32) * unit).ravel(), bits, LONG
            )


def measure_wide(probe: Probe, bits: int) -> None:
    """A trace of pages of 4 or 64 KiB at random addresses."""
    start, page = allocate_managed(WIDE_BYTES), 1 << bits
    blocks = start + np.sort(probe.rng.choice(WIDE_BYTES // PIECE, WIDE_BLOCKS, replace=False)) * PIECE
    _, part = MANAGED[bits]
    starts = []
    for block in blocks.tolist():
        for unit in probe.rng.choice(PIECE // part, min(2, PIECE // part), replace=False).tolist():
            make_resident(block + unit * part, part - page)
            starts.append(block + unit * part)
    pages = np.array(starts)
    if bits == BIG:
        pages = np.concatenate([pages, pages + (page << PAGES)])
    probe.trace(f"{name_of(bits)}: random addresses", pages, bits, LONG)


def measure_entries(probe: Probe, start: int, size: int, bits: int) -> None:
    """Keep the excess of loads at a distance from one that missed all TLBs.

    Rows of address bits within a page, distance, and three medians of the excess: directly after it, later than loads
    that fill the L1 TLB, and by an SM with another L2 TLB.
    """
    flush, fillers, resident = probe.every[:FLUSH], probe.every[FLUSH - 40 :][:FILLERS], (1 << bits) * 15
    rows = []
    for distance in DISTANCES:
        span = max(2 * distance, AREA)
        firsts = start + probe.rng.choice(size // span, min(PAIRS, size // span), replace=False) * span
        firsts = probe.lines(firsts, min(resident, distance, 4 * KIB))
        seconds = firsts + distance
        probe.repeated(np.concatenate([firsts, seconds]))
        again = np.repeat(seconds, 3).reshape(-1, 3)
        at_once = excess_of(probe, flush, np.column_stack([firsts, again]))
        fill = np.tile(fillers, (firsts.size, 1))
        later = excess_of(probe, flush, np.column_stack([firsts, fill, again]))
        probe.latencies(flush, OTHER_SM)
        probe.latencies(np.concatenate([flush, firsts]))
        other = excess_of(probe, seconds[:0], again, OTHER_SM)
        rows.append((bits, distance, at_once, later, other))
    probe.kept[f"entries_{bits}"] = np.array(rows, np.int64)


def excess_of(probe: Probe, before: Numbers, rows: Numbers, sm: int = 0) -> int:
    """Median excess of the last load but two of each row; the last two repeat it."""
    cycles = probe.latencies(np.concatenate([before, rows.ravel()]), sm)[before.size :].reshape(rows.shape)
    return int(np.median(cycles[:, -3] - cycles[:, -2:].min(axis=1)))


def measure_sharing(probe: Probe) -> None:
    """Keep which SMs share a L2 TLB, and how far they are from the third."""
    line = probe.lines(probe.base + np.arange(AREAS) * AREA, PIECE)
    of_page = second_sets(loads_of(probe.base + np.arange(AREAS) * AREA, HUGE))
    conflicting, fillers = line[of_page == LOOP_SET], np.array([line[of_page == 7 * i + 3][0] for i in range(FILLERS)])
    evicting, thrice = np.tile(conflicting[21:61], 2), np.repeat(conflicting[20], 3)
    sms = range(probe.gpu.sms)
    sharing = np.zeros((len(sms), len(sms)), np.uint8)
    for first in sms:
        for second in sms:
            probe.latencies(evicting, second)
            probe.latencies(np.append(fillers, conflicting[20]), first)
            cycles = probe.latencies(thrice, second)
            sharing[first, second] = np.clip(cycles[0] - cycles[1:].min(), 0, 255)
    probe.kept["sharing"] = sharing
    print(f"SMs with a common L2 TLB: {groups_of(sharing.astype(np.int64))}")
    lap, rows = np.concatenate([conflicting[:13], fillers]), []
    for sm in sms:
        probe.latencies(probe.every[:FLUSH], sm)
        probe.latencies(np.tile(lap, 20))
        probe.latencies(fillers, sm)
        cycles = probe.latencies(np.repeat(conflicting[:13], 2), sm).reshape(-1, 2)
        rows.append(int(np.sum(cycles[:, 0] > cycles[:, 1] + 50)))
    probe.kept["misses_of_13"] = np.array(rows)


def name_of(bits: int) -> str:
    """The size of a page."""
    return {SMALL: "4 KiB", BIG: "64 KiB", HUGE: "2 MiB"}[bits]


def measure(seed: int) -> dict[str, NDArray[Any]]:
    """What `tlb_map.py` reads."""
    probe = Probe(seed)
    for stage in (measure_ordinary, measure_areas, measure_sharing):
        stage(probe)
    for bits in (BIG, SMALL):
        measure_small(probe, bits)
        measure_wide(probe, bits)
    measure_third(probe)  # leaves no large range of addresses unused
    return probe.kept


if __name__ == "__main__":
    gpu_probe.main(measure)
