"""Line sizes where a line touched twice is treated otherwise than one touched once."""

from itertools import cycle, islice

import pytest

from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from tests.measure.conftest import plain_l2
from tests.support.driving import estimates


@pytest.mark.parametrize(("bits", "ways"), [(6, (7, 10, 8, 8, 9, 8)), (5, (16, 15, 17, 16, 16, 18))])
def test_lines_that_a_second_touch_protects(gpu_with, bits, ways):
    """Pairs in one line hit far more often than single words, pairs in two lines far less often."""
    masks = tuple(1 << bit | 1 << bit + bits | 1 << bit + 2 * bits + 1 for bit in range(7, 7 + bits))
    policy = Policy(PolicyKind.SLRU)
    l1 = Cache(tuple(islice(cycle(ways), 1 << bits)), 128, 32, Index(IndexKind.XOR, masks=masks), policy)
    assert estimates(gpu_with(l1, plain_l2()), ["line.l1"])["l1", "line_size"].value == 128
