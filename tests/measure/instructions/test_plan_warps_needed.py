"""Warps that the rate of an instruction needs, on a GPU in closed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from gpudissect.estimate import Estimate, Status
from gpudissect.workload import Mix
from tests.support.steady_gpu import SteadyGpu
from tests.support.steady_survey import found


@dataclass
class SlowGpu(SteadyGpu):
    """Mixes take longer by a factor."""

    noise: float = 0.0
    factor: Callable[[Mix], float] = lambda mix: 1.0

    def _mix(self, mix: Mix) -> dict[str, np.ndarray]:
        arrays = super()._mix(mix)
        cycles = np.rint((arrays["end"] - arrays["begin"]) * self.factor(mix)).astype(int)
        return {**arrays, "end": arrays["begin"] + cycles}


def warps_needed(device: SteadyGpu, element: str = "fadd") -> Estimate:
    return found(device, f"warps.{element}")[element, "warps_needed"]


@pytest.mark.parametrize(("rise", "caveat"), [(0.0, "99% takes 24 "), (30.0, "99% takes 64 ")])
def test_the_warps_of_nearly_all_of_the_rate_are_a_caveat(rise: float, caveat: str) -> None:
    """A rate that grows slowly near its limit takes many more warps for the last per cent."""
    needed = warps_needed(SlowGpu(factor=lambda mix: 1 + rise / (mix.warps * mix.ilp) ** 2))
    assert needed.status is Status.FOUND and any(caveat in each for each in needed.caveats)


def test_a_rate_that_takes_more_than_one_chain_a_warp() -> None:
    results = found(SteadyGpu(unit=lambda _: (40.0, 0.25)), "warps.dfma")
    assert results["dfma", "rate"].value == pytest.approx(128, rel=0.01)
    needed = results["dfma", "warps_needed"]
    assert needed.status is Status.NOT_FOUND and needed.low == 64
    assert "more than one chain" in needed.reason


@pytest.mark.parametrize("latency", [16.7, 16.9, 17.0])
def test_all_warps_of_an_sm_may_be_indistinguishable_from_the_target(latency: float) -> None:
    needed = warps_needed(SteadyGpu(unit=lambda _: (latency, 0.25)), "dfma")
    assert needed.status is Status.NOT_FOUND and needed.low == 64
    assert "indistinguishable from the 95% target" in needed.reason


def test_one_slow_sample_decides_nothing() -> None:
    slow = SlowGpu(factor=lambda mix: 1.02 if (mix.ilp, mix.warps, mix.repetition) == (1, 23, 16) else 1.0)
    expected, needed = warps_needed(SlowGpu()), warps_needed(slow)
    assert (needed.value, needed.low, needed.high) == (expected.value, expected.low, expected.high)


def test_repeated_samples_lead_to_numbers_that_were_not_measured() -> None:
    def factor(mix: Mix) -> float:
        return 1.06 if (mix.ilp, mix.warps, mix.repetition) == (1, 20, 0) else 1.0

    needed = warps_needed(SlowGpu(unit=lambda _: (4.75, 0.25), factor=factor))
    assert needed.value == 19 and len(set(needed.evidence)) == len(needed.evidence)


def test_a_rate_that_levels_off_near_the_target() -> None:
    """From 48 warps on 95.5 % and no more: the minimum number is unknown."""
    needed = warps_needed(SlowGpu(unit=lambda _: (11.0, 0.25), factor=lambda mix: 1 / 0.955 if mix.ilp == 1 else 1.0))
    assert needed.status is Status.NOT_FOUND and "indistinguishable" in needed.reason and needed.low <= 48


def test_a_rate_that_is_never_reached() -> None:
    results = found(SteadyGpu(unit=lambda _: (1000.0, 0.25)), "warps.dadd")
    assert results["dadd", "latency"].value == pytest.approx(1000, rel=0.01)
    assert results["dadd", "rate"].status is Status.NOT_FOUND and "rises" in results["dadd", "rate"].reason
    assert results["dadd", "warps_needed"].status is Status.NOT_FOUND
