"""P1 to P3: what a hit takes longer for its translation, where lines differ more than that."""

import numpy as np
import pytest

from gpudissect.inference.latency import Latency
from gpudissect.inference.spectrum import Hits, of_hits
from gpudissect.inference.translation import Stair

FIRST, SECOND, NOTHING = Stair(10.0, 6.5), Stair(100.0, 70.0), Latency(0.0, 0.0, 0.0)


def test_the_same_lines_are_compared():
    """Only the near lines miss the first TLB here: their median lies below that of all, and yet P2 above P1."""
    rng = np.random.default_rng(0)
    lines = np.concatenate([rng.integers(250, 260, 100), rng.integers(300, 310, 120)])
    hits = Hits(
        at_hand=lines, first_missed=lines + np.where(lines < 280, 10, 0), both_missed=lines + 100,
        packed=lines, packed_at_hand=lines,
    )  # fmt: skip
    p1, p2, p3 = of_hits(hits, FIRST, SECOND, NOTHING)
    assert p2.latency.cycles - p1.latency.cycles == pytest.approx(10, abs=1)
    assert p3.latency.cycles - p1.latency.cycles == pytest.approx(100, abs=1)
