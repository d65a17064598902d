"""Banks, latencies and rates of instructions of a GPU in closed form, and what must not be found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from gpudissect.estimate import Status
from gpudissect.measure.instructions.instructions import KINDS
from gpudissect.measure.instructions.issue_bound import issue_bound
from gpudissect.measure.plan import Study
from gpudissect.measure.shared_memory.infer_banks import Layout
from gpudissect.measure.throughput.bound import Bound
from gpudissect.survey.registry import experiments
from gpudissect.vocabulary import ACCESSES, INSTRUCTIONS
from gpudissect.workload import Access, Mix
from tests.support.steady_gpu import FACTS, INFO, SteadyGpu
from tests.support.steady_survey import LoggingGpu, found


@dataclass
class Late(SteadyGpu):
    """Every mix takes so many times as long as it should."""

    late: Callable[[Mix], float] = lambda mix: 1.0

    def _mix(self, mix: Mix) -> dict[str, np.ndarray]:
        arrays = super()._mix(mix)
        took = np.rint((arrays["end"] - arrays["begin"]) * self.late(mix)).astype(int)
        return {**arrays, "end": arrays["begin"] + took}


@pytest.mark.parametrize(
    ("layout", "width"),
    [(Layout(32, 4, 4, 32), 4), (Layout(32, 8, 8, 32), 8), (Layout(32, 4, 8, 32), 8), (Layout(16, 4, 4, 16), 4)],
)
def test_banks_are_found_again(layout: Layout, width: int) -> None:
    device = SteadyGpu(layout=layout, conflict_latency=2.0)
    results = found(device, "conflicts.shared")
    assert (results["shared", "banks"].value, results["shared", "bank_width"].value) == (layout.banks, width)
    assert results["shared", "conflict_latency"].status is Status.FOUND
    assert any("broadcast" in caveat for caveat in results["shared", "banks"].caveats)
    if layout.interleave != layout.width:
        assert any("4-byte mode" in caveat for caveat in results["shared", "banks"].caveats)
    if layout.banks == 32 and layout.width == 4:
        assert results["shared", "conflict_latency"].value == pytest.approx(2, abs=0.05)
        assert results["shared", "write_conflict"].value == pytest.approx(2, abs=0.05)


def test_no_conflicts_no_banks() -> None:
    results = found(SteadyGpu(conflict_latency=0.0), "conflicts.shared")
    assert {results["shared", each].status for each in ("banks", "conflict_latency", "write_conflict")} == {
        Status.NOT_FOUND
    }


def test_an_instruction() -> None:
    device = SteadyGpu(unit=lambda _: (6.0, 0.25))
    results = found(device, "warps.ffma", "warps.mma_s8")
    assert results["ffma", "latency"].value == pytest.approx(6, abs=0.05)
    assert results["ffma", "rate"].value == pytest.approx(128, rel=0.01)
    assert results["ffma", "warps_needed"].value == 23
    assert results["mma_s8", "rate"].value == pytest.approx(4 * 16 * 8 * 32, rel=0.01)


def test_more_than_schedulers_can_start_is_a_mistake() -> None:
    facts = {**FACTS, "compute_capability": "9.0"}
    refused = found(SteadyGpu(replace(INFO, facts=facts), unit=lambda _: (6.0, 0.24)), "warps.fadd")
    assert refused["fadd", "rate"].status is Status.NOT_FOUND
    assert "the schedulers can give: 128 ops/cycle" in refused["fadd", "rate"].reason
    assert refused["fadd", "warps_needed"].status is Status.NOT_FOUND
    held = found(SteadyGpu(replace(INFO, facts=facts), unit=lambda _: (6.0, 0.25)), "rate.fadd")["fadd", "rate"]
    assert held.high is not None and held.high <= 128
    newer = SteadyGpu(replace(INFO, facts={**FACTS, "compute_capability": "99.0"}), unit=lambda _: (6.0, 0.24))
    unknown = found(newer, "rate.fadd")["fadd", "rate"]
    assert unknown.status is Status.FOUND and any("held against no bound" in each for each in unknown.caveats)


def test_a_slope_that_ends_at_the_bound_is_as_good_as_a_plateau() -> None:
    """So slow an instruction that all warps with all chains just keep the schedulers busy."""
    info = replace(INFO, facts={**FACTS, "compute_capability": "9.0"})
    rate = found(SteadyGpu(info, unit=lambda _: (63.9, 0.25)), "rate.dfma")["dfma", "rate"]
    assert rate.status is Status.FOUND and rate.high == 128
    short = found(SteadyGpu(info, unit=lambda _: (80.0, 0.25)), "rate.dfma")["dfma", "rate"]
    assert short.status is Status.NOT_FOUND and "still rises" in short.reason


@pytest.mark.parametrize(("capability", "most"), [
    ("2.0", 64), ("2.1", 128), ("3.5", 256), ("5.2", 128), ("6.0", 64), ("6.1", 128), ("9.0", 128), ("12.0", 128),
])  # fmt: skip
def test_what_schedulers_can_start(capability: str, most: int) -> None:
    info = replace(INFO, facts={**FACTS, "compute_capability": capability})
    kinds = {kind.element: kind for kind in KINDS}
    assert issue_bound(kinds["fadd"], 1, info, {}) == Bound(most, "the schedulers")
    assert issue_bound(kinds["mma_f16"], 1, info, {}) == Bound(most // 32 * 16 * 8 * 16, "the schedulers")
    assert issue_bound(kinds["lds"], 2, info, {"banks.shared": Layout(32, 4, 4, 32)}) == Bound(16, "the banks")


def test_more_than_the_banks_can_serve_is_a_mistake() -> None:
    device = SteadyGpu(unit=lambda _: (6.0, 0.9), layout=Layout(32, 4, 4, 32))
    device.pass_interval = 0.9
    results = found(device, "rate.lds")
    assert results["lds", "rate"].status is Status.NOT_FOUND and "the banks can give" in results["lds", "rate"].reason


def test_caveats_say_of_what_a_number_is() -> None:
    results = found(SteadyGpu(), "rate.barrier", "rate.mma_f16", "rate.hfma2", "rate.ldg", "rate.ldg_random")
    said = {key: " | ".join(each.caveats) for key, each in results.items()}
    assert "of a block of one warp" in said["barrier", "latency"] and "in blocks of" in said["barrier", "rate"]
    assert "matrix instruction" in said["mma_f16", "latency"] and "multiply-add" in said["mma_f16", "rate"]
    assert "two pipelines" in said["hfma2", "rate"]
    assert "words of 4 B" in said["ldg", "latency"] and "last of 32 lanes" in said["ldg_random", "latency"]
    assert "of one SM" in said["ldg", "rate"] and "all SMs at once" in said["ldg_random", "rate"]


def test_global_atomics_are_asked_for_at_several_addresses() -> None:
    device = LoggingGpu()
    latency = found(device, "latency.atomg")["atomg", "latency"]
    mixes = [each for each in device.workloads if isinstance(each, Mix)]
    assert {each.sms for each in mixes} == {None} and latency.value == pytest.approx(6, abs=0.1)
    found(device, "rate.atomg")
    assert max(each.warps * each.ilp for each in device.workloads if isinstance(each, Mix)) > 256, "far ones take many"


def test_loops_do_not_count() -> None:
    results = found(SteadyGpu(loop=60.0, noise=0.0), "warps.fadd")
    assert results["fadd", "latency"].value == pytest.approx(6, abs=0.02)
    assert results["fadd", "rate"].value == pytest.approx(128, rel=1e-3)


@pytest.mark.parametrize(("rise", "said"), [(0.0, "99% takes 24 "), (30.0, "99% takes 64 ")])
def test_what_nearly_all_of_a_rate_takes_is_told(rise: float, said: str) -> None:
    """One that grows little by little near its limit takes many more warps for the last per cents."""

    gradual = Late(noise=0.0, late=lambda mix: 1 + rise / (mix.warps * mix.ilp) ** 2)
    warps = found(gradual, "warps.fadd")["fadd", "warps_needed"]
    assert warps.status is Status.FOUND and any(said in each for each in warps.caveats)


def test_a_rate_that_takes_more_than_one_chain_a_warp() -> None:
    results = found(SteadyGpu(unit=lambda _: (40.0, 0.25)), "warps.dfma")
    assert results["dfma", "rate"].value == pytest.approx(128, rel=0.01)
    needed = results["dfma", "warps_needed"]
    assert needed.status is Status.NOT_FOUND and needed.low == 64
    assert "more than one chain" in needed.reason


@pytest.mark.parametrize("latency", [16.7, 16.9, 17.0])
def test_all_warps_of_an_sm_that_come_as_near_as_can_be_told(latency: float) -> None:
    needed = found(SteadyGpu(unit=lambda _: (latency, 0.25)), "warps.dfma")["dfma", "warps_needed"]
    assert needed.status is Status.NOT_FOUND and needed.low == 64
    assert "not to be told from 95%" in needed.reason


def test_one_look_decides_nothing() -> None:
    once = Late(noise=0.0, late=lambda mix: 1.02 if (mix.ilp, mix.warps, mix.repetition) == (1, 23, 16) else 1.0)
    steady, stumbling = (found(device, "warps.fadd")["fadd", "warps_needed"] for device in (SteadyGpu(noise=0.0), once))
    assert (steady.value, steady.low, steady.high) == (stumbling.value, stumbling.low, stumbling.high)


def test_what_is_measured_anew_opens_numbers_that_were_not_tried() -> None:
    once = Late(noise=0.0, unit=lambda _: (4.75, 0.25),
                late=lambda mix: 1.06 if (mix.ilp, mix.warps, mix.repetition) == (1, 20, 0) else 1.0)  # fmt: skip
    needed = found(once, "warps.fadd")["fadd", "warps_needed"]
    assert needed.value == 19 and len(set(needed.evidence)) == len(needed.evidence)


def test_more_than_enough_warps_that_come_no_nearer() -> None:
    """From 48 on 95.5 % and no more: which number is the fewest is not to be told, however many are left."""
    capped = Late(noise=0.0, unit=lambda _: (11.0, 0.25), late=lambda mix: 1 / 0.955 if mix.ilp == 1 else 1.0)
    needed = found(capped, "warps.fadd")["fadd", "warps_needed"]
    assert needed.status is Status.NOT_FOUND and "not to be told" in needed.reason and needed.low <= 48


def test_a_rate_that_is_never_reached() -> None:
    results = found(SteadyGpu(unit=lambda _: (1000.0, 0.25)), "warps.dadd")
    assert results["dadd", "latency"].value == pytest.approx(1000, rel=0.01)
    assert results["dadd", "rate"].status is Status.NOT_FOUND and "still rises" in results["dadd", "rate"].reason
    assert results["dadd", "warps_needed"].status is Status.NOT_FOUND


def test_loads_with_conflicts_take_the_stride_of_the_banks() -> None:
    device = LoggingGpu(layout=Layout(32, 8, 8, 32))
    found(device, "warps.lds_2way")
    strides = {each.stride for each in device.workloads if isinstance(each, Mix) and each.warps > 1}
    assert strides == {4}


def test_memory_is_asked_by_all_sms() -> None:
    device = LoggingGpu()
    results = found(device, "warps.ldg_streaming", "warps.ldg_random")
    mixes = [each for each in device.workloads if isinstance(each, Mix)]
    assert all(each.footprint >= 32 * (8 << 20) and each.cold for each in mixes)
    assert all(each.sms is None for each in mixes if each.warps > 1)
    streams = [each for each in mixes if each.access is Access.STREAMING and each.warps > 1]
    assert min(each.iterations for each in streams) == 8, "short runs lie up to 3 % apart on an H200"
    assert results["ldg_random", "latency"].value == pytest.approx(60, abs=0.5)


def test_every_instruction_has_an_experiment() -> None:
    assert [kind.element for kind in KINDS] == [*INSTRUCTIONS, *ACCESSES]
    parts = {f"{part}.{each}" for each in (*INSTRUCTIONS, *ACCESSES) for part in ("latency", "rate", "warps")}
    assert parts <= set(experiments(Study.DISCOVER))
