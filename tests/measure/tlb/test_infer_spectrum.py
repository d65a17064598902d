"""P1 to P3: what a hit takes longer for its translation, where lines differ more than that."""

import numpy as np
import pytest

from gpudissect.measure.infer_latency import Latency
from gpudissect.measure.tlb.infer_spectrum import FirstTouches, Hits, by_home, of_hits
from gpudissect.measure.tlb.infer_translation import Stair

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


def test_first_touches_by_home():
    """A median of near and far lines is a latency of neither, so each is told by itself."""
    rng = np.random.default_rng(1)
    home = rng.permutation(np.repeat([0, 180], (60, 50)))
    touches = FirstTouches(
        at_hand=540 + home + rng.integers(0, 30, 110), near=700 + home + rng.integers(0, 30, 110),
        far=1000 + home + rng.integers(0, 30, 110), distances=np.arange(110),
    )  # fmt: skip
    found = by_home(touches, Latency(20.0, 19.0, 21.0))
    assert found is not None
    assert np.array(found) == pytest.approx(np.array([(535, 715), (695, 875), (995, 1175)]), abs=8)
    alike = FirstTouches(*(rng.integers(500, 530, 110) for _ in range(3)), distances=np.arange(110))
    assert by_home(alike, Latency(20.0, 19.0, 21.0)) is None
