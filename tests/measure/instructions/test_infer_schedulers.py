"""Rounds of warps over schedulers, from times written by hand."""

from math import ceil

import pytest

from gpudissect.measure.instructions.infer_schedulers import Rounds, rounds_of, schedulers_of

WARPS = range(1, 25)
ALIKE = [0.97] * len(WARPS)


def times(schedulers, busy=1.0, noise=0.0):
    """Time of each number of warps, of which `busy` keep a scheduler busy."""
    return [max(1.0, ceil(warps / schedulers) / busy) * (1 + noise * (warps % 2)) for warps in WARPS]


@pytest.mark.parametrize("schedulers", [2, 3, 4, 6])
@pytest.mark.parametrize("busy", [1.0, 1.3, 2.25])
def test_rounds_have_a_warp_for_each_scheduler(schedulers, busy):
    steps = [k for k in range(1, ceil(24 / schedulers)) if max(1, (k + 1) / busy) > max(1, k / busy)]
    expected = schedulers if len(steps) >= 3 else None
    assert rounds_of(times(schedulers, busy, noise=0.004), ALIKE).count == expected


def test_a_shared_unit_takes_the_same_time_for_every_warp():
    rounds = rounds_of(times(1), ALIKE)
    assert rounds.count == 1
    found = schedulers_of({"fadd": rounds})
    assert (found.count, found.at_least) == (None, 1) and "units that all schedulers share" in found.reason


def test_more_than_one_scheduler_counts_if_another_unit_is_shared():
    found = schedulers_of({"fadd": Rounds(4), "rsq": Rounds(1), "i2f": Rounds(None, "x"), "lop": Rounds(4)})
    assert (found.count, found.by) == (4, ("fadd", "lop"))


def test_pairs_of_schedulers_that_share_a_unit_do_not_hide_four():
    assert schedulers_of({"fadd": Rounds(4), "rsq": Rounds(2)}).count == 4


def test_counts_that_contradict_one_another_give_a_lower_bound():
    found = schedulers_of({"fadd": Rounds(3), "rsq": Rounds(4)})
    assert (found.count, found.at_least) == (None, 4) and "but fadd: 3" in found.reason


def test_schedulers_that_prefer_some_warps_have_longer_rounds():
    """Two schedulers, each kept busy by two warps, which it runs to their end before it runs others."""
    preferring = [float(ceil(ceil(warps / 2) / 2)) for warps in WARPS]
    assert rounds_of(preferring, ALIKE).count == 4
    rounds = rounds_of(preferring, [0.5] * len(WARPS))
    assert rounds.count is None and "rounds of 4 warps, but" in rounds.reason


@pytest.mark.parametrize(
    ("observed", "reason"),
    [
        ([1.0] * 24, "rises 0 times"),
        ([1.0] * 23 + [1.02], "from 23 to 24 warps the time changes by 2.0%"),
        ([1.0, *times(4)[1:23], 4.0], "changes by -33.3%"),
        ([float(ceil((warps + 1) / 4)) for warps in WARPS], "not in even rounds"),
        ([1.0] * 4 + [2.0] * 5 + [3.0] * 4 + [4.0] * 11, "not in even rounds"),
        ([1.0] * 4 + [2.0] * 4 + [2.5] * 4 + [4.0] * 4 + [5.0] * 4 + [6.0] * 4, "not by 50.0%"),
    ],
)
def test_other_times_have_no_rounds(observed, reason):
    rounds = rounds_of(observed, ALIKE)
    assert rounds.count is None and reason in rounds.reason
    assert schedulers_of({"fadd": rounds}).reason == f"fadd: {rounds.reason}"


def test_times_that_cannot_be():
    for observed, durations in (([1.0, 0.0], [1.0, 1.0]), ([1.0], [])):
        with pytest.raises(ValueError, match="must be positive"):
            rounds_of(observed, durations)
