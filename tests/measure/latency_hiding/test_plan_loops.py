"""Latency hiding on the simulated GPUs of VV16: what its tables print, from traces."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gpudissect.device.kinds import open_device
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.latency_hiding import plan_loops
from gpudissect.measure.latency_hiding.mixes import FULL, KINDS, QUICK, STREAMING, Kind, occupancies
from gpudissect.measure.latency_hiding.plan_contention import contention_plan, oversubscription_plan
from gpudissect.measure.latency_hiding.plan_loops import access_bound, loops_plan, scheduler_bound
from gpudissect.measure.latency_hiding.plan_models import models_plan
from gpudissect.measure.plan import Bench, Known, Outcome
from gpudissect.measure.throughput.rate_estimates import Bound, Unbounded, peak_bandwidth
from tests.support.driving import outcome

# VV16 tables 6.2, 6.4, 6.3: latency, GB/s, warps of an SM at 90 %; addition: latency, ops per cycle of an SM, warps.
PRINTED = {
    "8800gtx": (444, 74, 20, 20, 8, 5),
    "gtx280": (434, 138, 16, 24, 8, 6),
    "gtx480": (513, 161, 42, 18, 32, 18),
    "gtx680": (301, 154, 56, 9, 128, 36),
    "gtx980": (368, 211, 40, 6, 128, 24),
}


def by_attribute(outcome: Outcome) -> dict[str, Estimate]:
    return {estimate.attribute: estimate for estimate in outcome.estimates}


@pytest.fixture(autouse=True)
def fewer_alphas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every occupancy, but only the alphas of the quick grid."""
    monkeypatch.setattr(plan_loops, "FULL", replace(FULL, alphas=QUICK.alphas))


@cache
def run_loops(gpu: str, kind: Kind = STREAMING, quick: bool = True) -> Outcome:
    with open_device(f"sim:{gpu}") as device:
        return outcome(loops_plan(kind, Bench(device.info, quick=quick), Known({})), device)


@pytest.fixture
def quick_gtx980() -> Outcome:
    return run_loops("gtx980")


@pytest.mark.parametrize("gpu", PRINTED)
def test_what_vv16_prints(gpu: str) -> None:
    latency, bandwidth, warps, addition_latency, rate, addition_warps = PRINTED[gpu]
    found = by_attribute(run_loops(gpu, quick=False))
    assert found["access_latency"].value == pytest.approx(latency, rel=0.01)
    assert found["read_bandwidth"].value == pytest.approx(bandwidth * 1e9, rel=0.03)
    assert found["warps_for_90"].value == pytest.approx(warps, rel=0.1)
    assert found["arithmetic_latency"].value == pytest.approx(addition_latency, rel=0.01)
    assert found["arithmetic_rate"].value == pytest.approx(rate, rel=0.01)
    assert found["arithmetic_warps"].value == pytest.approx(addition_warps, rel=0.03)
    assert found["cusp_alpha"].status is Status.FOUND, "VV16 figure 4.6: on each of the five"


def test_the_cusp_of_maxwell(quick_gtx980: Outcome) -> None:
    cusp = by_attribute(quick_gtx980)["cusp_alpha"]
    assert cusp.low is not None and cusp.high is not None and cusp.low < 49 < cusp.high, "VV16 s4.5"


def test_contention_of_maxwell(quick_gtx980: Outcome) -> None:
    """VV16 table 6.5; the base varies by 1 % from seed to seed, so their median is compared."""
    bases = []
    for seed in (1, 2, 3):
        with open_device(f"sim:gtx980?seed={seed}") as device:
            loops, bench = run_loops(f"gtx980?seed={seed}"), Bench(device.info, quick=True)
            contention = outcome(contention_plan(STREAMING, bench, Known({"loops.hiding": loops.knowledge})), device)
        found = by_attribute(contention)
        bases.append(found["contention_base"])
    ceiling = found["contention_ceiling"]
    assert np.median([base.value for base in bases]) == pytest.approx(372, rel=0.04)
    assert all(base.low <= 372 <= base.high for base in bases)
    assert ceiling.value == pytest.approx(221e9, rel=0.03) and ceiling.low <= 221e9 <= ceiling.high
    assert by_attribute(quick_gtx980)["read_bandwidth"].value <= ceiling.low
    assert ceiling.high <= peak_bandwidth(bench.info).rate
    assert any("than the memory can give" in caveat for caveat in ceiling.caveats), "the fit alone is open above that"
    singles = contention.series[1].columns
    assert all(low <= high for low, high in zip(singles["p5"], singles["p95"], strict=True))
    assert singles["p50"][-1] > 1.5 * singles["p50"][0] and min(singles["samples"]) > 1000


def test_oversubscription_and_models_of_maxwell(quick_gtx980: Outcome) -> None:
    with open_device("sim:gtx980") as device:
        known = Known({"loops.hiding": quick_gtx980.knowledge, "contention.hiding": None})
        bench = Bench(device.info, quick=True)
        by_block, by_time = outcome(oversubscription_plan(STREAMING, bench, known), device).series
        _, worst, _ = outcome(models_plan(STREAMING, bench, known), device).series
    rates = by_block.columns["rate"]
    assert max(rates) < 1.05 * min(rates) and set(by_time.columns["waves"]) == {1.0, 6.0}
    over = dict(zip(worst.columns["model"], worst.columns["over"], strict=True))
    assert over["refined"] <= over["basic"] < 1.35 < min(over["hong-kim"], over["cuda-guide"])


@pytest.mark.parametrize("kind", KINDS[1:], ids=lambda kind: kind.element)
def test_other_accesses(kind: Kind) -> None:
    """VV16 tables 6.1, 6.2: SFU 13 cycles and 32 ops, shared memory 24 and 32; half as many loads of stride 2."""
    found = by_attribute(run_loops("gtx980", kind))
    latency = {"rsq": 13, "lds": 24, "ldg_stride2": 392, "ldg_random": 3400}[kind.name]
    if kind.name != "ldg_random":  # all SMs at once: never unloaded
        assert found["access_latency"].value == pytest.approx(latency, rel=0.03)
    rate = {"rsq": 32, "lds": 32, "ldg_stride2": 2.6 / 2, "ldg_random": 0.092}[kind.name]
    assert found["access_rate"].value == pytest.approx(rate, rel=0.05)
    assert ("read_bandwidth" in found) == kind.of_memory


def test_a_bracket_reaches_down_to_numbers_that_were_not_measured() -> None:
    """The smallest of a few occupancies that suffices is not the minimum: that of the full grid lies in the bracket."""
    quick, full = (by_attribute(run_loops("gtx280", quick=quick)) for quick in (True, False))
    with open_device("sim:gtx280") as device:
        assert occupancies(QUICK, device.info)[-1] == 32, "the maximum is always included"
    for attribute in ("warps_for_90", "warps_for_95", "arithmetic_warps"):
        assert quick[attribute].low <= full[attribute].value <= quick[attribute].high
    assert quick["warps_for_95"].low < quick["warps_for_95"].value
    assert quick["warps_for_90"].value <= quick["warps_for_95"].value
    assert quick["cusp_warps"].status is Status.NOT_FOUND or quick["cusp_warps"].low < quick["cusp_warps"].value
    assert set(quick["issue_rate"].evidence) > set(quick["access_rate"].evidence), "it is of every mix"
    assert 1 == quick["load_imbalance"].low <= quick["load_imbalance"].value, "no SM takes longer than the longest"


def test_a_rate_far_above_the_bound_of_the_banks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut off at the bound it would look as sure as a measurement: no rate is found, nor what is a share of it."""
    (lds,) = [kind for kind in KINDS if kind.name == "lds"]
    valid = by_attribute(run_loops("gtx980", lds))
    assert valid["access_rate"].status is valid["warps_for_90"].status is Status.FOUND
    monkeypatch.setattr(plan_loops, "SERVED_ACCESSES", 0.84)
    refused = run_loops.__wrapped__("gtx980", lds)
    found = by_attribute(refused)
    for attribute in ("access_rate", "warps_for_90", "warps_for_95", "cusp_alpha", "cusp_warps"):
        assert found[attribute].status is Status.NOT_FOUND and "than the banks can give" in found[attribute].reason
    assert found["arithmetic_rate"].status is found["arithmetic_warps"].status is Status.FOUND
    assert found["access_latency"].status is Status.FOUND and refused.knowledge is None and refused.series


def test_bounds_of_real_gpus() -> None:
    """Maxwell: 4 schedulers, 32 special functions and 32 words of shared memory a cycle; GDDR5 at the papers' clock."""
    with open_device("sim:gtx980") as device:
        info = device.info
    streaming, _, _, rsq, lds = KINDS
    assert scheduler_bound(info) == Bound(4.0, "the schedulers")
    assert access_bound(rsq, 0, info).rate == access_bound(lds, 0, info).rate == 1.0
    plain = replace(info, facts={"clock_hz": 1e9, "memory_clock_hz": 2e9, "memory_bus_bits": 256})
    bound = access_bound(streaming, 128, plain)
    assert bound.rate * 128 * info.sm_count * 1e9 == pytest.approx(2 * 2e9 * 32)
    for facts in ({}, {"compute_capability": "99.0"}):
        unknown = replace(info, facts=facts)
        assert isinstance(scheduler_bound(unknown), Unbounded) and isinstance(access_bound(rsq, 0, unknown), Unbounded)
        assert isinstance(access_bound(streaming, 128, unknown), Unbounded)
