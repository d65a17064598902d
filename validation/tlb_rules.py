"""The TLBs of an H200 as `docs/tlb.md` describes them: which loads miss in which one."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from l2_rules import Flags, Numbers

from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.models import CacheModel

SMALL, BIG, HUGE = 12, 16, 21  # address bits within a page of 4 KiB, 64 KiB and 2 MiB
FIRST_PAGES, PAGES = 3, 4  # binary logarithm of the pages that an entry of the L1 TLB, or of another one, translates
FIRST_ENTRIES, MISS_CACHE_ENTRIES, WALK_CACHE_ENTRIES = 16, 16, 16
SECOND_SETS, THIRD_SETS, WAYS = 256, 512, 8  # third: of each half
SECOND_LABELS = {HUGE: (0, 0), BIG: (0, 0x28), SMALL: (4, 0x29)}
THIRD_LABELS = {HUGE: (0, 0), BIG: (0, 0x132), SMALL: (5, 0x333)}
"""For pages of each size: bits by which the XOR of the fields of the group number is rotated left, then a constant."""
HALF_BITS = 26  # the half of the L3 TLB is the XOR of the bits of the page number below this address bit
WALK_CACHES = {25: PolicyKind.LRU, 33: PolicyKind.FIFO, 40: PolicyKind.FIFO}
"""Page walk caches in the order in which they are looked up: address bits that an entry covers, and the policy."""
SIZE_SHIFT = 56  # in an entry's key, the size of its pages


@dataclass(frozen=True)
class Loads:
    """Loads of one SM.

    Attributes:
        address: virtual address of each.
        bits: size of its page, as a binary logarithm of bytes.
        excess: cycles that each took longer than a repeated load of the same line.
        compared: whether the load is compared with predictions.

    """

    address: Numbers
    bits: Numbers
    excess: Numbers
    compared: Flags

    def __getitem__(self, chosen: Flags | slice) -> "Loads":
        """Some of the loads."""
        return Loads(self.address[chosen], self.bits[chosen], self.excess[chosen], self.compared[chosen])

    def keys(self, pages: int = PAGES) -> Numbers:
        """The TLB entry of each load; `pages`: binary logarithm of the pages that an entry translates."""
        return self.bits << SIZE_SHIFT | self.numbers(pages)

    def numbers(self, pages: int = PAGES) -> Numbers:
        """The number of the page group of each load: the address, divided by what an entry translates."""
        return self.address >> self.bits + pages


def fold(number: Numbers, bits: int) -> Numbers:
    """The XOR of all fields of `number` that have so many bits."""
    folded = np.zeros_like(number)
    while number.any():
        folded ^= number & (1 << bits) - 1
        number = number >> bits
    return folded


def second_sets(loads: Loads) -> Numbers:
    """Set of the L2 TLB that each load maps to."""
    return _labelled(fold(loads.numbers(), 8), 8, loads.bits, SECOND_LABELS)


def third_sets(loads: Loads) -> Numbers:
    """The same of the L3 TLB: 0 to 511 in one half, 512 to 1023 in the other."""
    page = loads.address & (1 << HALF_BITS) - 1
    half = fold(page >> loads.bits + PAGES, 1)
    return half * THIRD_SETS ^ _labelled(fold(loads.numbers(), 9), 9, loads.bits, THIRD_LABELS)


def _labelled(folded: Numbers, width: int, bits: Numbers, labels: Mapping[int, tuple[int, int]]) -> Numbers:
    sets = np.zeros_like(folded)
    for size, (rotation, constant) in labels.items():
        rotated = (folded << rotation | folded >> width - rotation) & (1 << width) - 1
        sets[bits == size] = (rotated ^ constant)[bits == size]
    return sets


def find_misses(keys: Numbers, sets: Numbers, count: int, ways: int, policy: PolicyKind = PolicyKind.LRU) -> Flags:
    """Which accesses miss in a cache of `count` sets."""
    distinct, number = np.unique(keys, return_inverse=True)
    model = Cache((ways,) * count, 1, 1, Index(IndexKind.MODULO), Policy(policy))
    tags = np.zeros(distinct.size, np.int64)
    tags[number] = sets
    return CacheModel(model).access_many(np.arange(distinct.size)[number] * count + tags[number]).astype(np.bool_)


def first_misses(loads: Loads, entries: int = FIRST_ENTRIES) -> Flags:
    """Which loads miss in the L1 TLB."""
    keys = loads.keys(FIRST_PAGES)
    return find_misses(keys, np.zeros_like(keys), 1, entries)


def second_misses(loads: Loads) -> Flags:
    """Which loads miss in the L2 TLB, of those that reach it."""
    return misses_beside(loads.keys(), second_sets(loads), SECOND_SETS)


def third_misses(loads: Loads) -> Flags:
    """The same of the L3 TLB, each half of which has a miss cache."""
    keys, sets = loads.keys(), third_sets(loads)
    missed = np.zeros(keys.size, np.bool_)
    for half in (0, 1):
        here = sets // THIRD_SETS == half
        missed[here] = misses_beside(keys[here], sets[here] % THIRD_SETS, THIRD_SETS)
    return missed


def misses_beside(keys: Numbers, sets: Numbers, count: int, *, reloads: bool = False) -> Flags:
    """Which loads miss in a TLB of `count` sets and in its miss cache, which is filled on misses.

    A hit updates the recency in each that holds the entry. `reloads`: whether one in the miss cache alone also inserts
    the entry into the TLB.
    """
    ways = [OrderedDict[int, None]() for _ in range(count)]
    recent = OrderedDict[int, None]()
    missed = np.zeros(keys.size, np.bool_)
    for i, (key, number) in enumerate(zip(keys.tolist(), sets.tolist(), strict=True)):
        places = ((ways[number], WAYS), (recent, MISS_CACHE_ENTRIES))
        missed[i] = not any(key in place for place, _ in places)
        filled = places if missed[i] else places[:1] if reloads and key not in ways[number] else ()
        for place, entries in filled:
            if len(place) == entries:
                place.popitem(last=False)
            place[key] = None
        for place, _ in places:
            if key in place:
                place.move_to_end(key)
    return missed


def walk_reads(loads: Loads, caches: Mapping[int, PolicyKind] = WALK_CACHES) -> Numbers:
    """How many entries of page tables are read from memory for each load that misses all TLBs.

    Each walk cache that misses costs a read. The first one translates pages of 2 MiB; for smaller pages, it points to
    the page table, from which one more entry is read.
    """
    reads = np.where(loads.bits == HUGE, 0, 1)
    walks = np.arange(reads.size)
    for shift, policy in caches.items():
        areas = loads.address[walks] >> shift
        walks = walks[find_misses(areas, np.zeros_like(areas), 1, WALK_CACHE_ENTRIES, policy)]
        reads[walks] += 1
    return reads
