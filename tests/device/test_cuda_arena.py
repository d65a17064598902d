"""Regions of the arena: disjoint, and where an offset is added no bit carries into another."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.device.cuda.arena import ALIGNMENT, WIDEST, Arena, place
from gpudissect.simulation.cache.geometry import Index, IndexKind
from gpudissect.simulation.cache.index import set_numbers

MIB = 1 << 20
MANY = settings(max_examples=200)
spans = st.lists(
    st.one_of(st.integers(0, 200 * MIB), st.sampled_from([1 << i for i in range(18, 28)]).map(lambda n: n + 1)),
    min_size=1, max_size=20,
)  # fmt: skip


class Odd:
    """An allocator of addresses that are multiples of 256 and nothing more."""

    def __init__(self, first):
        self.next, self.out = first * 256, {}

    def allocate(self, size):
        address, self.next = self.next, self.next + size + 256
        self.out[address] = size
        return address

    def free(self, address):
        del self.out[address]


@MANY
@given(spans)
def test_regions_are_disjoint_and_inside(spans):
    offsets, size = place(spans)
    ends = [offset + span for offset, span in zip(offsets, spans, strict=True)]
    assert all(end <= start for end, start in zip(ends, offsets[1:], strict=False))
    assert max(ends) <= size
    assert size % ALIGNMENT == 0


@MANY
@given(spans, st.integers(1, 1 << 30))
def test_no_bit_below_the_widest_carries(spans, first):
    offsets, size = place(spans)
    allocator = Odd(first)
    arena = Arena(allocator, 64 << 30)
    base = arena.reserve(size)
    ((address, taken),) = allocator.out.items()
    assert base % WIDEST == 0
    assert address <= base
    assert base + size <= address + taken
    for offset, span in zip(offsets, spans, strict=True):
        last = max(span - 1, 0) % WIDEST if span <= WIDEST else WIDEST - 1
        assert (base + offset) % ALIGNMENT == 0
        assert (base + offset) & last == 0
        assert (base + offset) + last == (base + offset) ^ last


@MANY
@given(st.integers(1, WIDEST // 4096), st.integers(0, 40), st.integers(1, (1 << 20) - 1), st.integers(0, 99))
def test_an_xor_of_address_bits_puts_the_same_lines_together_wherever_a_region_lies(pages, before, mask, seed):
    span = pages * 4096
    offsets, _ = place([before * ALIGNMENT + 1, span])
    index = Index(IndexKind.XOR, masks=(mask << 7,))
    lines = np.random.default_rng(seed).integers(0, span // 128, 200) * 128
    here, there = (set_numbers(index, 128, 2, start + lines) for start in (0, offsets[1]))
    assert np.unique(here ^ there).size == 1
