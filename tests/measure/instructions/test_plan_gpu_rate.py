"""Rate of all SMs at once on a GPU in closed form."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpudissect.estimate import Status
from gpudissect.workload import Instruction, Mix
from tests.support.steady_gpu import CLOCK, INFO, SMS, SteadyGpu
from tests.support.steady_survey import LoggingGpu, found


def test_it_is_the_rate_of_one_sm_times_sms_and_clock() -> None:
    results = found(SteadyGpu(unit=lambda _: (6.0, 0.25), noise=0.0), "gpu_rate.ffma")
    assert results["ffma", "gpu_rate"].value == pytest.approx(128 * SMS * CLOCK, rel=0.02)


def test_all_sms_run_for_milliseconds() -> None:
    gpu = LoggingGpu(unit=lambda _: (6.0, 0.25))
    found(gpu, "gpu_rate.ffma")
    mixes = [each for each in gpu.workloads if isinstance(each, Mix) and each.sms is None]
    assert mixes
    for mix in mixes:
        assert 32 * mix.warps * mix.instructions / 128 / CLOCK == pytest.approx(4e-3, rel=0.1)


def test_a_gpu_without_the_instruction_has_no_rate() -> None:
    lacking = replace(INFO, instructions=(Instruction.FADD,))
    results = found(SteadyGpu(lacking), "gpu_rate.ffma")
    assert results["ffma", "gpu_rate"].status is Status.NOT_SUPPORTED
