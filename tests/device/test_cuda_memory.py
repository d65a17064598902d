"""Regions of the arena, its growth, and the time for which memory is cleared."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.device.cuda.memory import MAX_ALIGNMENT, MIN_ALIGNMENT, Arena, ClearingTimer, Slots, place
from gpudissect.errors import OutOfMemory
from gpudissect.simulation.cache.geometry import Index, IndexKind
from gpudissect.simulation.cache.index import set_numbers
from gpudissect.units import GIB, MIB

EXAMPLES = settings(max_examples=200)
odd_sizes = st.sampled_from([(1 << i) + 1 for i in range(18, 28)])
sizes_lists = st.lists(st.one_of(st.integers(0, 200 * MIB), odd_sizes), min_size=1, max_size=20)


class Allocator:
    """Addresses that are multiples of 256 and no more; `limit` bytes in one piece."""

    def __init__(self, first=1, limit=1 << 62):
        self.next, self.limit = first * 256, limit
        self.allocations = {}

    def allocate(self, size):
        if size > self.limit:
            raise OutOfMemory("full")
        address, self.next = self.next, self.next + size + 256
        self.allocations[address] = size
        return address

    def free(self, address):
        del self.allocations[address]


@EXAMPLES
@given(sizes_lists)
def test_regions_are_disjoint_and_inside(sizes):
    offsets, total = place(sizes)
    ends = [offset + size for offset, size in zip(offsets, sizes, strict=True)]
    assert all(end <= start for end, start in zip(ends, [*offsets[1:], total], strict=True))
    assert total % MIN_ALIGNMENT == 0


@EXAMPLES
@given(sizes_lists, st.integers(1, 1 << 30))
def test_no_bit_of_an_offset_carries(sizes, first):
    offsets, total = place(sizes)
    allocator = Allocator(first)
    base = Arena(allocator, 64 << 30).reserve(total)
    ((address, allocated),) = allocator.allocations.items()
    assert base % MAX_ALIGNMENT == 0
    assert address <= base and base + total <= address + allocated
    for offset, size in zip(offsets, sizes, strict=True):
        last = max(size - 1, 0) % MAX_ALIGNMENT if size <= MAX_ALIGNMENT else MAX_ALIGNMENT - 1
        assert (base + offset) % MIN_ALIGNMENT == 0
        assert (base + offset) & last == 0
        assert (base + offset) + last == (base + offset) ^ last


@EXAMPLES
@given(st.integers(1, MAX_ALIGNMENT // 4096), st.integers(0, 40), st.integers(1, (1 << 20) - 1), st.integers(0, 99))
def test_an_xor_of_address_bits_gives_the_same_sets_in_every_region(pages, before, mask, seed):
    size = pages * 4096
    offsets, _ = place([before * MIN_ALIGNMENT + 1, size])
    index = Index(IndexKind.XOR, masks=(mask << 7,))
    lines = np.random.default_rng(seed).integers(0, size // 128, 200) * 128
    first, second = (set_numbers(index, 128, 2, start + lines) for start in (0, offsets[1]))
    assert np.unique(first ^ second).size == 1


def test_an_arena_grows_and_frees_its_memory():
    allocator = Allocator()
    arena = Arena(allocator, limit=GIB)
    assert not allocator.allocations, "nothing is allocated before it is needed"
    first = arena.reserve(100)
    assert arena.reserve(arena.size) == first and len(allocator.allocations) == 1
    arena.reserve(arena.size + 1)
    ((address, size),) = allocator.allocations.items()
    assert arena.base + arena.size <= address + size
    assert arena.reserve(GIB) and arena.size == GIB
    with pytest.raises(OutOfMemory, match="1 GiB may be used"):
        arena.reserve(GIB + 1)
    arena.release()
    arena.release()
    assert not allocator.allocations


def test_an_arena_does_without_room_to_grow():
    arena = Arena(Allocator(limit=200 * MIB), limit=GIB)
    arena.reserve(100 * MIB)
    arena.reserve(150 * MIB)
    assert arena.size == 150 * MIB


def clearing_time(sizes, timer):
    """Seconds that remain when all of these were freed at once."""
    for address, size in enumerate(sizes):
        timer.allocated(address, size)
    for address in range(len(sizes)):
        timer.freed(address, 100.0)
    return timer.remaining(100.0)


@pytest.mark.parametrize(
    ("size", "seconds"), [(GIB // 2, 0.004), (GIB, 0.0042), (2 * GIB, 0.008), (9 * GIB, 0.029), (36 * GIB, 0.095)]
)
def test_clearing_takes_longer_than_on_an_h200_but_not_much(size, seconds):
    assert seconds < clearing_time([size], ClearingTimer(4.8e12)) < 2.5 * seconds


def test_memory_is_cleared_one_piece_after_the_other():
    first, second = (clearing_time([size], ClearingTimer()) for size in (GIB, 2 * GIB))
    assert clearing_time([GIB, 2 * GIB], ClearingTimer()) == pytest.approx(first + second)


def test_slower_memory_takes_longer_to_clear():
    assert clearing_time([GIB], ClearingTimer(224e9)) > 2 * GIB / 224e9 > clearing_time([GIB], ClearingTimer(4.8e12))


def test_clearing_ends():
    timer = ClearingTimer()
    seconds = clearing_time([9 * GIB], timer)
    assert timer.remaining(100.0 + seconds / 2) == pytest.approx(seconds / 2)
    assert timer.remaining(200.0) == 0.0


def test_each_task_on_its_way_has_a_memory_of_its_own():
    slots = Slots(["first", "second"])
    with slots.taken() as memory:
        assert memory == "first"
    with pytest.raises(OutOfMemory), slots.taken() as memory:
        assert memory == "second"
        raise OutOfMemory("no room")
    with slots.taken() as memory:
        assert memory == "second", "not that of the task that is on its way"
    slots.free("first")
    with slots.taken() as memory:
        assert memory == "first"
    slots.free_all()
    with slots.taken() as one, slots.taken() as other:
        assert {one, other} == {"first", "second"}


def test_an_arena_whose_content_is_lost_has_no_user():
    arena = Arena(Allocator(), 1 << 40)
    arena.reserve(1 << 20)
    arena.user = "a stream"
    arena.reserve(1 << 10)
    assert arena.user == "a stream"
    arena.reserve(1 << 30)
    assert arena.user is None
