"""The analysis of instruction caches agrees with simulated ones of the stated structure, not of other policies."""

import code_map
import numpy as np
import pytest
from tlb_rules import find_misses

from gpudissect.simulation.cache.geometry import PolicyKind

FIRST, SECOND, THIRD, FARTHER = 134, 143, 199, 420  # cycles
VISITS = 6000


def visits_of(lines, policies, rng):
    """Addresses and cycles of random visits; lines 16 apart fetch nothing ahead that is visited."""
    visits = rng.choice(np.arange(lines) * 16 << code_map.LINE_SHIFT, VISITS) + code_map.CONSTANT_BYTES
    cycles = np.full(VISITS, FIRST)
    reach = np.flatnonzero(code_map.first_misses(visits >> code_map.LINE_SHIFT, 0))
    for shift, count, ways, hit, policy in (
        (code_map.LINE_SHIFT, code_map.SECOND_SETS, code_map.SECOND_WAYS, SECOND, policies[0]),
        (code_map.UNIT_SHIFT, code_map.THIRD_SETS, code_map.THIRD_WAYS, THIRD, policies[1]),
    ):
        tags = visits[reach] >> shift
        cycles[reach] = hit
        reach = reach[find_misses(tags, tags % count, count, ways, policy)]
    cycles[reach] = FARTHER
    return visits, cycles


@pytest.mark.parametrize("policies", [(PolicyKind.PLRU, PolicyKind.PLRU), (PolicyKind.LRU, PolicyKind.FIFO)])
def test_the_policies_of_simulated_caches_are_distinguished(policies):
    visits, cycles = visits_of(96, policies, np.random.default_rng(1))
    for assumed in (PolicyKind.PLRU, PolicyKind.LRU, PolicyKind.FIFO):
        found = code_map.predict(visits, cycles, assumed)
        assert [not each.wrong.any() for each in found.values()] == [assumed is policy for policy in policies]


def test_sets_with_wrong_predictions_in_the_first_kernel_are_those_of_the_probe():
    numbers = np.arange(2 * code_map.LAUNCH_VISITS)
    sets, missed = numbers % 4, np.zeros(numbers.size, np.bool_)
    wrong = (sets == 2) & (numbers % 100 == 2) | (sets == 3) & (numbers >= code_map.LAUNCH_VISITS)
    found = code_map.Predicted(numbers, sets, missed, missed ^ wrong)
    assert found.probe_sets.tolist() == [2]
    assert not found.compared[: code_map.LAUNCH_VISITS].any()
