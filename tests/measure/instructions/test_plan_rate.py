"""Latencies, rates and warps needed of instructions of a GPU in closed form, and what must not be found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from gpudissect.device_info import DeviceInfo
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.instructions.instructions import KINDS, issue_bound
from gpudissect.measure.plan import Study
from gpudissect.measure.shared_memory.infer_banks import Layout
from gpudissect.measure.throughput.rate_estimates import Bound, Unbounded
from gpudissect.survey.registry import experiments
from gpudissect.vocabulary import ACCESSES, INSTRUCTIONS
from gpudissect.workload import Access, Mix
from tests.support.steady_gpu import FACTS, INFO, MODERN_BANKS, SteadyGpu
from tests.support.steady_survey import LoggingGpu, found


def info_of(capability: str) -> DeviceInfo:
    return replace(INFO, facts={**FACTS, "compute_capability": capability})


def test_every_instruction_has_its_experiments() -> None:
    assert [kind.element for kind in KINDS] == [*INSTRUCTIONS, *ACCESSES]
    names = {f"{part}.{kind.element}" for kind in KINDS for part in ("latency", "rate", "warps")}
    assert names <= set(experiments(Study.DISCOVER))


def test_latency_rate_and_warps() -> None:
    results = found(SteadyGpu(unit=lambda _: (6.0, 0.25)), "warps.ffma", "warps.mma_s8")
    assert results["ffma", "latency"].value == pytest.approx(6, abs=0.05)
    assert results["ffma", "rate"].value == pytest.approx(128, rel=0.01)
    assert results["ffma", "warps_needed"].value == 23
    assert results["mma_s8", "rate"].value == pytest.approx(4 * 16 * 8 * 32, rel=0.01)


def test_the_cost_of_loops_cancels() -> None:
    results = found(SteadyGpu(loop=60.0, noise=0.0), "rate.fadd")
    assert results["fadd", "latency"].value == pytest.approx(6, abs=0.02)
    assert results["fadd", "rate"].value == pytest.approx(128, rel=1e-3)


def test_a_rate_above_the_bound_of_the_schedulers_is_refused() -> None:
    refused = found(SteadyGpu(info_of("9.0"), unit=lambda _: (6.0, 0.24)), "warps.fadd")
    assert refused["fadd", "rate"].status is Status.NOT_FOUND
    assert "the schedulers" in refused["fadd", "rate"].reason and "128 ops/cycle" in refused["fadd", "rate"].reason
    assert refused["fadd", "warps_needed"].status is Status.NOT_FOUND
    bounded = found(SteadyGpu(info_of("9.0"), unit=lambda _: (6.0, 0.25)), "rate.fadd")["fadd", "rate"]
    assert bounded.high is not None and bounded.high <= 128
    unknown = found(SteadyGpu(info_of("99.0"), unit=lambda _: (6.0, 0.24)), "rate.fadd")["fadd", "rate"]
    assert unknown.status is Status.FOUND and any("not compared with a bound" in each for each in unknown.caveats)


def test_a_rate_above_the_bound_of_the_banks_is_refused() -> None:
    rate = found(SteadyGpu(unit=lambda _: (6.0, 0.9), pass_interval=0.9), "rate.lds")["lds", "rate"]
    assert rate.status is Status.NOT_FOUND and "the banks" in rate.reason


def test_a_slope_that_ends_at_the_bound_is_as_good_as_a_plateau() -> None:
    """An instruction so slow that all warps with all chains just keep the schedulers busy."""
    rate = found(SteadyGpu(info_of("9.0"), unit=lambda _: (63.9, 0.25)), "rate.dfma")["dfma", "rate"]
    assert rate.status is Status.FOUND and rate.high == 128
    short = found(SteadyGpu(info_of("9.0"), unit=lambda _: (80.0, 0.25)), "rate.dfma")["dfma", "rate"]
    assert short.status is Status.NOT_FOUND and "rises" in short.reason


@pytest.mark.parametrize(
    ("capability", "limit"),
    [("2.0", 64), ("2.1", 128), ("3.5", 256), ("5.2", 128), ("6.0", 64), ("6.1", 128), ("9.0", 128), ("12.0", 128)],
)
def test_issue_bound(capability: str, limit: int) -> None:
    info = info_of(capability)
    kinds = {kind.element: kind for kind in KINDS}
    assert issue_bound(kinds["fadd"], 1, info, None) == Bound(limit, "the schedulers")
    assert issue_bound(kinds["lds"], 2, info, MODERN_BANKS) == Bound(16, "the banks")


@pytest.mark.parametrize(("capability", "peak"), [("8.0", 1024), ("9.0", 2048)])
def test_matrix_instructions_are_compared_with_the_dense_peak(capability: str, peak: int) -> None:
    kinds = {kind.element: kind for kind in KINDS}
    bounds = {
        name: issue_bound(kinds[name], 1, info_of(capability), None) for name in ("mma_f16", "mma_tf32", "mma_f64")
    }
    rates = [bound.rate for bound in bounds.values() if isinstance(bound, Bound)]
    assert rates == [peak, peak / 2, peak / 16]
    assert isinstance(issue_bound(kinds["mma_f16"], 1, info_of("8.6"), None), Unbounded)


def test_caveats_name_the_conditions() -> None:
    results = found(SteadyGpu(), "rate.barrier", "rate.mma_f16", "rate.hfma2", "rate.ldg", "rate.ldg_random")
    caveats = {key: " | ".join(estimate.caveats) for key, estimate in results.items()}
    assert "of a block of one warp" in caveats["barrier", "latency"] and "in blocks of" in caveats["barrier", "rate"]
    assert "matrix instruction" in caveats["mma_f16", "latency"] and "multiply-add" in caveats["mma_f16", "rate"]
    assert "two pipelines" in caveats["hfma2", "rate"]
    assert "words of 4 B" in caveats["ldg", "latency"] and "last of 32 lanes" in caveats["ldg_random", "latency"]
    assert "one SM" in caveats["ldg", "rate"] and "all SMs at once" in caveats["ldg_random", "rate"]


def mixes_of(device: LoggingGpu) -> list[Mix]:
    return [workload for workload in device.workloads if isinstance(workload, Mix)]


def test_global_atomics_run_at_several_addresses() -> None:
    device = LoggingGpu()
    latency = found(device, "latency.atomg")["atomg", "latency"]
    assert {mix.sms for mix in mixes_of(device)} == {None} and latency.value == pytest.approx(6, abs=0.1)
    found(device, "rate.atomg")
    assert max(mix.warps * mix.ilp for mix in mixes_of(device)) > 256, "the far partition needs many in flight"


def test_loads_with_conflicts_take_the_stride_of_the_banks() -> None:
    device = LoggingGpu(layout=Layout(32, 8, 8, 32))
    found(device, "warps.lds_2way")
    assert {mix.stride for mix in mixes_of(device) if mix.warps > 1} == {4}


def test_memory_is_loaded_by_all_sms() -> None:
    device = LoggingGpu()
    results = found(device, "warps.ldg_streaming", "warps.ldg_random")
    mixes = mixes_of(device)
    assert all(mix.footprint >= 32 * (8 << 20) and mix.cold for mix in mixes)
    assert all(mix.sms is None for mix in mixes if mix.warps > 1)
    streams = [mix for mix in mixes if mix.access is Access.STREAMING and mix.warps > 1]
    assert min(mix.iterations for mix in streams) == 8, "short runs differ by up to 3 % on an H200"
    assert results["ldg_random", "latency"].value == pytest.approx(60, abs=0.5)


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
    assert "one chain per warp is not enough" in needed.reason


@pytest.mark.parametrize("latency", [16.7, 16.9, 17.0])
def test_all_warps_of_an_sm_may_be_indistinguishable_from_the_target(latency: float) -> None:
    needed = warps_needed(SteadyGpu(unit=lambda _: (latency, 0.25)), "dfma")
    assert needed.status is Status.AMBIGUOUS and needed.low == 64
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
    assert needed.status is Status.AMBIGUOUS and "indistinguishable" in needed.reason and needed.low <= 48


def test_a_rate_that_is_never_reached() -> None:
    results = found(SteadyGpu(unit=lambda _: (1000.0, 0.25)), "warps.dadd")
    assert results["dadd", "latency"].value == pytest.approx(1000, rel=0.01)
    assert results["dadd", "rate"].status is Status.NOT_FOUND and "rises" in results["dadd", "rate"].reason
    assert results["dadd", "warps_needed"].status is Status.NOT_FOUND
