"""Bank conflicts against the documents' own examples and against counting."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.simulation.sm.banks import addresses, bank_passes, conflict_ways, extra_passes
from gpudissect.simulation.sm.description import SharedMemory

FERMI = SharedMemory()
TESLA = SharedMemory(banks=16, lanes=16)
KEPLER_4, KEPLER_8 = SharedMemory(width=8, interleave=4), SharedMemory(width=8, interleave=8)


@pytest.mark.parametrize("stride", range(1, 65))
def test_ways_are_the_greatest_common_divisor_with_32(stride: int) -> None:
    """MC16 s6.2."""
    assert conflict_ways(FERMI, addresses(stride)) == np.gcd(stride, 32)


@pytest.mark.parametrize("shared", [FERMI, TESLA, KEPLER_4, KEPLER_8])
def test_one_word_for_all_is_a_broadcast(shared: SharedMemory) -> None:
    assert conflict_ways(shared, addresses(0)) == 1


@pytest.mark.parametrize(
    ("stride", "four", "eight"), [(1, 1, 1), (2, 1, 1), (4, 2, 2), (6, 2, 1), (8, 4, 4), (10, 2, 1), (64, 32, 32)]
)
def test_keplers_two_modes(stride: int, four: int, eight: int) -> None:
    """MC14 s4.1, fig 6-7, MC16 fig 18: stride 2 is free in both modes, stride 6 in the 8-byte mode only."""
    assert conflict_ways(KEPLER_4, addresses(stride)) == four
    assert conflict_ways(KEPLER_8, addresses(stride)) == eight


def test_half_a_warp_at_a_time() -> None:
    """VV16 s2.6: two rounds without a conflict, and 2 ways twice as many."""
    assert bank_passes(TESLA, addresses(1)) == 2
    assert conflict_ways(TESLA, addresses(2)) == 2
    assert conflict_ways(TESLA, addresses(32)) == 16


@pytest.mark.parametrize("shared", [TESLA, SharedMemory(banks=16)], ids=["halves", "as banks have words"])
def test_16_banks_serve_half_a_warp_whoever_says_so(shared: SharedMemory) -> None:
    """So a GPU file need not say it; and a 2-way conflict is one further turn of each half (VV16 s6.2)."""
    assert (conflict_ways(shared, addresses(1)), extra_passes(shared, addresses(1))) == (1, 0)
    assert (conflict_ways(shared, addresses(2)), extra_passes(shared, addresses(2))) == (2, 2)


@given(stride=st.integers(0, 64), shared=st.sampled_from([FERMI, TESLA, KEPLER_4, KEPLER_8]))
def test_a_conflict_costs_what_it_takes_more(stride: int, shared: SharedMemory) -> None:
    free = bank_passes(shared, addresses(1))
    assert extra_passes(shared, addresses(stride)) == bank_passes(shared, addresses(stride)) - free
    assert conflict_ways(shared, addresses(stride)) * free == bank_passes(shared, addresses(stride))


def test_different_degrees_the_largest_decides() -> None:
    """VV16 s2.6, fig 2.2: access (1, 3, 5, 8) to four banks."""
    four = SharedMemory(banks=4)
    assert bank_passes(four, np.array([1, 3, 5, 8]) * 4) == 2


@pytest.mark.parametrize(("width", "rounds"), [(4, 1), (8, 2), (16, 4)])
def test_wide_words_that_lie_side_by_side_take_a_round_for_128_bytes(width: int, rounds: int) -> None:
    assert bank_passes(FERMI, addresses(width // 4), width) == rounds


def test_atomics_on_one_word_are_not_merged() -> None:
    assert bank_passes(FERMI, addresses(0), merged=False) == 32
    assert bank_passes(FERMI, addresses(1), merged=False) == 1


def counted(shared: SharedMemory, words: list[int]) -> int:
    """Rounds, by playing them: in each, every bank opens one row and serves all lanes of the group that want it."""
    rounds = 0
    for first in range(0, len(words), shared.lanes):
        waiting = list(words[first : first + shared.lanes])
        while waiting:
            open_rows: dict[int, int] = {}
            served = defaultdict(bool)
            for lane, word in enumerate(waiting):
                place = word * 4 // shared.interleave
                bank, row = place % shared.banks, place // shared.banks // (shared.width // shared.interleave)
                served[lane] = open_rows.setdefault(bank, row) == row
            waiting = [word for lane, word in enumerate(waiting) if not served[lane]]
            rounds += 1
    return rounds


@given(
    words=st.lists(st.integers(0, 4096), min_size=32, max_size=32),
    shared=st.sampled_from([FERMI, TESLA, KEPLER_4, KEPLER_8, SharedMemory(banks=8, width=16, interleave=8)]),
)
def test_against_rounds_played_one_by_one(words: list[int], shared: SharedMemory) -> None:
    assert bank_passes(shared, np.array(words, dtype=np.int64) * 4) == counted(shared, words)
