"""Which accesses are translated, from latencies written by hand."""

import numpy as np
import pytest

from gpudissect.measure.tlb.infer_translation import Roles, infer_translation
from gpudissect.vocabulary import EVERY_ACCESS, MISSES_ONLY

LINES, HIT, L2_HIT, MISS, HIT_MAX, THRESHOLD = 40, 30.0, 230.0, 20.0, 60.0, 13.0


def roles(cycles, added):
    second = np.full(LINES, cycles)
    return Roles(second + added, second)


CONTROL = roles(L2_HIT, MISS)


@pytest.mark.parametrize(("added", "accesses"), [(MISS, EVERY_ACCESS), (L2_HIT, EVERY_ACCESS), (0.0, MISSES_ONLY)])
def test_hits_tell(added, accesses):
    """A miss of a TLB beside the L2 costs at least a hit in the L2."""
    assert infer_translation(roles(HIT, added), CONTROL, HIT_MAX, THRESHOLD).accesses == accesses


def test_lines_that_the_cache_does_not_keep_are_left_out():
    """They are slow as the first of their pair whatever is translated."""
    cached = roles(HIT, 0.0)
    cached.first[:15] += 200.0
    cached.second[:15] += 200.0
    cached.first[:15] += MISS
    assert infer_translation(cached, CONTROL, HIT_MAX, THRESHOLD).accesses == MISSES_ONLY


def test_pages_that_hit_the_tlb_decide_nothing():
    """Half of the pages stay: half of the lines are slow."""
    added = MISS * (np.arange(LINES) % 2)
    cached, control = roles(HIT, added), roles(L2_HIT, added)
    assert infer_translation(cached, control, HIT_MAX, THRESHOLD).accesses == EVERY_ACCESS
    unclear = infer_translation(cached, roles(L2_HIT, 0.0), HIT_MAX, THRESHOLD)
    assert unclear.accesses is None and "0 lie in pages that miss the TLB" in unclear.reason


def test_some_slow_hits_are_ambiguous():
    mixed = infer_translation(roles(HIT, MISS * (np.arange(LINES) % 2)), CONTROL, HIT_MAX, THRESHOLD)
    assert mixed.accesses is None and "50% of 40 hits" in mixed.reason
    conflicts = infer_translation(roles(L2_HIT, MISS), CONTROL, HIT_MAX, THRESHOLD)
    assert conflicts.accesses is None and "0 hit" in conflicts.reason
