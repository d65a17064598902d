"""Which warps of a launch are traced."""

import numpy as np
import pytest

from gpudissect.explanation.instrument import ACCESSES_PER_WARP, MAX_WARPS
from gpudissect.explanation.sampling import MAX_ACCESSES, PLACES, most_typical, plan_samples


@pytest.mark.parametrize(
    ("blocks", "warps", "resident", "accesses"),
    [
        (1, 1, 1, 1),
        (131072, 8, 8, 3),
        (16384, 32, 2, 700),
        (100, 8, 8, 5000),
        (132, 1, 32, 10),
        (5000, 2, 32, 0),
        (2, 32, 1, 9),
    ],
)
@pytest.mark.parametrize("place", PLACES)
def test_samples_lie_in_the_grid_and_fit(place, blocks, warps, resident, accesses):
    plans = plan_samples(blocks, warps, 132, resident, accesses, place)
    places = [place for plan in plans for place in plan.places()]
    assert len(set(places)) == len(places)
    assert all(0 <= block < blocks and 0 <= warp < warps for block, warp in places)
    assert all(len(plan.places()) <= MAX_WARPS for plan in plans)
    kept = min(accesses, ACCESSES_PER_WARP)
    assert sum(min(kept, plan.accesses) * len(plan.places()) for plan in plans) <= MAX_ACCESSES
    first, step, count = plans[0].sample.blocks
    assert step == 132 and count <= resident
    if blocks > 10 * 132 * resident and accesses < 100:
        assert count == min(resident, MAX_WARPS // warps) and abs(first / blocks - place) < 0.1
        assert plans[1].sample.blocks[:2] == (first + 1, 1)


def test_the_first_sample_is_taken_where_all_are_alike():
    visits = [np.full((6, 4), number) for number in (102, 100, 98)]
    assert most_typical(visits, 100.0) == 0


def test_a_sample_with_the_mean_of_the_launch_is_typical():
    visits = [np.full((6, 4), number) for number in (300, 20, 110)]
    assert most_typical(visits, 100.0) == 2


def test_a_sample_whose_warps_differ_as_much_as_those_of_others_is_typical():
    uneven = np.tile([100, 100, 100, 500], (6, 1))
    slightly = np.tile([150, 190, 230, 230], (6, 1))
    assert most_typical([uneven, slightly, slightly, slightly], 200.0) == 1
