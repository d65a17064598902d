"""Bank passes compared with the documents' examples and with counting."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sms import FERMI_BANKS as FERMI

from gpudissect.simulation.sm.description import lane_addresses

TESLA = replace(FERMI, banks=16, lanes=16)
KEPLER_4, KEPLER_8 = replace(FERMI, width=8), replace(FERMI, width=8, interleave=8)


@pytest.mark.parametrize("stride", range(1, 65))
def test_conflict_ways_are_the_greatest_common_divisor_with_32(stride):
    """MC16 s6.2."""
    assert FERMI.conflict_ways(lane_addresses(stride)) == np.gcd(stride, 32)


@pytest.mark.parametrize("shared", [FERMI, TESLA, KEPLER_4, KEPLER_8])
def test_one_word_for_all_lanes_is_a_broadcast(shared):
    assert shared.conflict_ways(lane_addresses(0)) == 1


@pytest.mark.parametrize(
    ("stride", "four", "eight"), [(1, 1, 1), (2, 1, 1), (4, 2, 2), (6, 2, 1), (8, 4, 4), (10, 2, 1), (64, 32, 32)]
)
def test_both_modes_of_kepler(stride, four, eight):
    """MC14 s4.1, fig 6-7, MC16 fig 18: stride 2 is free in both modes, stride 6 in the 8-byte mode only."""
    assert KEPLER_4.conflict_ways(lane_addresses(stride)) == four
    assert KEPLER_8.conflict_ways(lane_addresses(stride)) == eight


@pytest.mark.parametrize("shared", [TESLA, replace(FERMI, banks=16)], ids=["16 lanes", "16 banks"])
@pytest.mark.parametrize(("stride", "ways", "extra"), [(1, 1, 0), (2, 2, 2), (32, 16, 30)])
def test_16_banks_serve_half_a_warp_at_a_time(shared, stride, ways, extra):
    """VV16 s2.6, s6.2: two passes without a conflict; a 2-way conflict is one extra pass of each half."""
    lanes = lane_addresses(stride)
    assert (shared.conflict_ways(lanes), shared.extra_passes(lanes), shared.passes(lanes)) == (ways, extra, 2 + extra)


def test_the_largest_degree_decides():
    """VV16 s2.6, fig 2.2: access (1, 3, 5, 8) to four banks."""
    assert replace(FERMI, banks=4).passes(np.array([1, 3, 5, 8]) * 4) == 2


@pytest.mark.parametrize(("width", "passes"), [(4, 1), (8, 2), (16, 4)])
def test_adjacent_wide_words_take_one_pass_per_128_bytes(width, passes):
    assert FERMI.passes(lane_addresses(width // 4), width) == passes


def test_atomics_on_one_word_are_not_merged():
    assert FERMI.passes(lane_addresses(0), merged=False) == 32
    assert FERMI.passes(lane_addresses(1), merged=False) == 1


def count_passes(shared, words):
    """Passes, simulated: in each, every bank opens one row and serves all lanes of the group that access it."""
    passes = 0
    for first in range(0, len(words), shared.lanes):
        waiting = list(words[first : first + shared.lanes])
        while waiting:
            open_rows, unserved = {}, []
            for word in waiting:
                place = word * 4 // shared.interleave
                row = place // shared.banks // (shared.width // shared.interleave)
                if open_rows.setdefault(place % shared.banks, row) != row:
                    unserved.append(word)
            waiting = unserved
            passes += 1
    return passes


@given(
    words=st.lists(st.integers(0, 4096), min_size=32, max_size=32),
    shared=st.sampled_from([FERMI, TESLA, KEPLER_4, KEPLER_8, replace(FERMI, banks=8, width=16, interleave=8)]),
)
def test_passes_agree_with_simulated_ones(words, shared):
    assert shared.passes(np.array(words, dtype=np.int64) * 4) == count_passes(shared, words)
