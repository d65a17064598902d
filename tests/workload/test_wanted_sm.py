"""A chase may say which SM must run it."""

import pytest

from gpudissect.errors import WorkloadError
from gpudissect.workload import Chase, Path, PriorAccesses, Sequential, Timing

RING = Sequential(4, 32)


def chase(**changed) -> Chase:
    return Chase(path=Path.GLOBAL, order=RING, timing=Timing.EACH, **changed)


def test_any_sm_may_be_asked_for():
    assert chase().sm is None
    assert chase(sm=0).sm == 0 and chase(sm=500).sm == 500


def test_not_a_negative_one_and_not_with_turns():
    with pytest.raises(WorkloadError, match="numbered from 0, got -1"):
        chase(sm=-1)
    with pytest.raises(WorkloadError, match="leave out its SM"):
        chase(sm=0, before=(PriorAccesses(path=Path.GLOBAL, order=RING),))
