"""Banks of a GPU in closed form."""

from __future__ import annotations

import pytest

from gpudissect.estimate import Status
from gpudissect.measure.shared_memory.infer_banks import Layout
from tests.support.steady_gpu import SteadyGpu
from tests.support.steady_survey import found


@pytest.mark.parametrize(
    ("layout", "width"),
    [(Layout(32, 4, 4, 32), 4), (Layout(32, 8, 8, 32), 8), (Layout(32, 4, 8, 32), 8), (Layout(16, 4, 4, 16), 4)],
)
def test_banks_are_found_again(layout: Layout, width: int) -> None:
    results = found(SteadyGpu(layout=layout, conflict_latency=2.0), "conflicts.shared")
    assert (results["shared", "banks"].value, results["shared", "bank_width"].value) == (layout.banks, width)
    assert results["shared", "conflict_latency"].status is Status.FOUND
    assert any("broadcast" in caveat for caveat in results["shared", "banks"].caveats)
    if layout.interleave != layout.width:
        assert any("4-byte mode" in caveat for caveat in results["shared", "banks"].caveats)
    if layout.banks == 32 and layout.width == 4:
        assert results["shared", "conflict_latency"].value == pytest.approx(2, abs=0.05)
        assert results["shared", "write_conflict"].value == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("attribute", ["banks", "conflict_latency", "write_conflict"])
def test_no_conflicts_no_banks(attribute: str) -> None:
    assert found(SteadyGpu(conflict_latency=0.0), "conflicts.shared")["shared", attribute].status is Status.NOT_FOUND
