"""P1 to P6: penalties of translations where lines differ more than these."""

import numpy as np
import pytest

from gpudissect.measure.infer_latency import Latency
from gpudissect.measure.tlb.infer_miss_penalty import MissPenalty
from gpudissect.measure.tlb.infer_spectrum import FirstTouches, Hits, classify_hits, latency_by_partition

FIRST, SECOND, NO_OVERHEAD = MissPenalty(10.0, 6.5), MissPenalty(100.0, 70.0), Latency(0.0, 0.0, 0.0)


def test_the_same_lines_are_compared():
    """Only the near lines miss the first TLB: their median is below that of all, and yet P2 is above P1."""
    rng = np.random.default_rng(0)
    lines = np.concatenate([rng.integers(250, 260, 100), rng.integers(300, 310, 120)])
    hits = Hits(lines, lines + np.where(lines < 280, 10, 0), lines + 100, lines, lines)
    p1, p2, p3 = classify_hits(hits, FIRST, SECOND, NO_OVERHEAD)
    assert p2.latency.cycles - p1.latency.cycles == pytest.approx(10, abs=1)
    assert p3.latency.cycles - p1.latency.cycles == pytest.approx(100, abs=1)


def test_first_touches_by_partition():
    """The median of near and far lines together is the latency of neither."""
    rng = np.random.default_rng(1)
    lines = rng.permutation(np.repeat([0, 180], (60, 50)))
    roles = (base + lines + rng.integers(0, 30, 110) for base in (540, 700, 1000))
    found = latency_by_partition(FirstTouches(*roles, distances=np.arange(110)), Latency(20.0, 19.0, 21.0))
    assert found is not None
    assert np.array(found) == pytest.approx(np.array([(535, 715), (695, 875), (995, 1175)]), abs=8)
    alike = FirstTouches(*(rng.integers(500, 530, 110) for _ in range(3)), distances=np.arange(110))
    assert latency_by_partition(alike, Latency(20.0, 19.0, 21.0)) is None
