"""Latency hiding on the simulated GPUs of VV16: what stands in its tables, from traces."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gpudissect.device.find import open_device
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.latency_hiding.bounds import access_bound, starts
from gpudissect.measure.latency_hiding.mixes import (
    FULL,
    KINDS,
    QUICK,
    STREAMING,
    Paces,
    at_full_clock,
    blocks_of,
    body,
    mix_of,
    occupancies,
    reachable,
)
from gpudissect.measure.latency_hiding.plan_contention import contention_plan
from gpudissect.measure.latency_hiding.plan_hiding import hiding_plan
from gpudissect.measure.latency_hiding.plan_models import models_plan
from gpudissect.measure.latency_hiding.plan_oversubscription import oversubscription_plan
from gpudissect.measure.plan import Bench, Known, Outcome
from gpudissect.measure.throughput.rate_estimates import Bound, Unbounded, peak_bandwidth
from gpudissect.workload import Instruction, Mix
from tests.support.driving import outcome

# VV16 tables 6.2, 6.4, 6.3: latency, GB/s, warps of an SM at 90 %; addition: latency, ops a cycle of an SM, warps.
PRINTED = {
    "8800gtx": (444, 74, 20, 20, 8, 5), "gtx280": (434, 138, 16, 24, 8, 6), "gtx480": (513, 161, 42, 18, 32, 18),
    "gtx680": (301, 154, 56, 9, 128, 36), "gtx980": (368, 211, 40, 6, 128, 24),
}  # fmt: skip


def outcome_of(device, plan) -> Outcome:
    return outcome(plan, device)


def by_attribute(outcome: Outcome) -> dict[str, Estimate]:
    return {each.attribute: each for each in outcome.estimates}


@pytest.mark.parametrize("gpu", PRINTED)
def test_what_vv16_prints(gpu: str) -> None:
    latency, bandwidth, warps, adding, rate, of_adds = PRINTED[gpu]
    with open_device(f"sim:{gpu}") as device:
        found = by_attribute(outcome_of(device, hiding_plan(STREAMING, Bench(device.info), Known({}))))
    assert found["access_latency"].value == pytest.approx(latency, rel=0.01)
    assert found["read_bandwidth"].value == pytest.approx(bandwidth * 1e9, rel=0.03)
    assert found["warps_for_90"].value == pytest.approx(warps, rel=0.1)
    assert found["arithmetic_latency"].value == pytest.approx(adding, rel=0.01)
    assert found["arithmetic_rate"].value == pytest.approx(rate, rel=0.01)
    assert found["arithmetic_warps"].value == pytest.approx(of_adds, rel=0.03)
    assert found["cusp_alpha"].status is Status.FOUND, "VV16 figure 4.6: on each of the five"


def test_maxwell_from_loads_to_models() -> None:
    """The cusp near alpha 49 (VV16 s4.5); table 6.5; the order of models."""
    with open_device("sim:gtx980") as device:
        bench = Bench(device.info, quick=True)
        hiding = outcome_of(device, hiding_plan(STREAMING, bench, Known({})))
        known = {"loops.hiding": hiding.knowledge}
        contention = outcome_of(device, contention_plan(STREAMING, bench, Known(known)))
        over = outcome_of(device, oversubscription_plan(STREAMING, bench, Known(known)))
        models = outcome_of(
            device, models_plan(STREAMING, bench, Known(known | {"contention.hiding": contention.knowledge}))
        )
    cusp = by_attribute(hiding)["cusp_alpha"]
    assert cusp.low is not None and cusp.high is not None and cusp.low < 49 < cusp.high
    fitted = by_attribute(contention)
    base, ceiling = fitted["contention_base"], fitted["contention_ceiling"]
    assert base.value == pytest.approx(372, rel=0.04) and base.low <= 372 <= base.high
    assert ceiling.value == pytest.approx(221e9, rel=0.03) and ceiling.low <= 221e9 <= ceiling.high
    assert by_attribute(hiding)["read_bandwidth"].value <= ceiling.low
    assert ceiling.high <= peak_bandwidth(bench.info).rate
    assert any("more than the memory can give" in each for each in ceiling.caveats), "a fit alone is open above that"
    singles = contention.series[1].columns
    assert all(low <= high for low, high in zip(singles["p5"], singles["p95"], strict=True))
    assert singles["p50"][-1] > 1.5 * singles["p50"][0] and min(singles["samples"]) > 1000
    rates = over.series[0].columns["rate"]
    assert max(rates) < 1.05 * min(rates) and set(over.series[1].columns["rounds"]) == {1.0, 6.0}
    worst = dict(zip(models.series[1].columns["model"], models.series[1].columns["over"], strict=True))
    assert worst["refined"] < worst["basic"] < 1.35 < min(worst["hong-kim"], worst["cuda-guide"])


@pytest.mark.parametrize("kind", KINDS[1:], ids=lambda kind: kind.element)
def test_other_accesses(kind) -> None:
    """VV16 tables 6.1, 6.2: SFU 13 cycles and 32 ops, shared memory 24 and 32; half as many loads of stride 2."""
    with open_device("sim:gtx980") as device:
        found = by_attribute(outcome_of(device, hiding_plan(kind, Bench(device.info, quick=True), Known({}))))
    latency = {"rsq": 13, "lds": 24, "ldg_stride2": 392, "ldg_random": 3400}[kind.name]
    if kind.name != "ldg_random":  # all SMs at once: never unloaded
        assert found["access_latency"].value == pytest.approx(latency, rel=0.03)
    rate = {"rsq": 32, "lds": 32, "ldg_stride2": 2.6 / 2, "ldg_random": 0.092}[kind.name]
    assert found["access_rate"].value == pytest.approx(rate, rel=0.05)
    assert ("read_bandwidth" in found) == kind.of_memory


def test_a_bracket_reaches_down_to_where_nothing_was_run() -> None:
    """Of a few occupancies the least that suffices is not the least there is: the whole grid's lies in the bracket."""
    with open_device("sim:gtx280") as device:
        quick, full = (
            by_attribute(outcome_of(device, hiding_plan(STREAMING, Bench(device.info, quick=quick), Known({}))))
            for quick in (True, False)
        )
        assert occupancies(QUICK, device.info)[-1] == 32, "an SM that is full is always among them"
    for attribute in ("warps_for_90", "warps_for_95", "arithmetic_warps"):
        assert quick[attribute].low <= full[attribute].value <= quick[attribute].high
    assert quick["warps_for_95"].low < quick["warps_for_95"].value
    assert quick["warps_for_90"].value <= quick["warps_for_95"].value
    assert quick["cusp_warps"].status is Status.NOT_FOUND or quick["cusp_warps"].low < quick["cusp_warps"].value
    assert set(quick["issue_rate"].evidence) > set(quick["access_rate"].evidence), "it is of every mix"
    assert 1 == quick["load_imbalance"].low <= quick["load_imbalance"].value, "no SM takes longer than the longest"


def test_far_more_than_the_banks_can_give_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut off at the bound it would look as sure as what was measured: no rate is found, nor what is a share of it."""
    (lds,) = [kind for kind in KINDS if kind.name == "lds"]
    with open_device("sim:gtx980") as device:
        bench = Bench(device.info, quick=True)
        fair = by_attribute(outcome_of(device, hiding_plan(lds, bench, Known({}))))
        monkeypatch.setattr("gpudissect.measure.latency_hiding.bounds.BANKED", 0.84)
        refused = outcome_of(device, hiding_plan(lds, bench, Known({})))
    found = by_attribute(refused)
    assert fair["access_rate"].status is fair["warps_for_90"].status is Status.FOUND
    for attribute in ("access_rate", "warps_for_90", "warps_for_95", "cusp_alpha", "cusp_warps"):
        assert found[attribute].status is Status.NOT_FOUND and "than the banks can give" in found[attribute].reason
    assert found["arithmetic_rate"].status is found["arithmetic_warps"].status is Status.FOUND
    assert found["access_latency"].status is Status.FOUND and refused.knowledge is None and refused.series


def test_bounds_of_real_gpus() -> None:
    """Maxwell: 4 schedulers, 32 special functions and 32 words of shared memory a cycle; GDDR5 at the papers' clock."""
    with open_device("sim:gtx980") as device:
        info = device.info
    streaming, _, _, rsq, lds = KINDS
    assert starts(info) == Bound(4.0, "the schedulers")
    assert access_bound(rsq, 0, info).rate == access_bound(lds, 0, info).rate == 1.0
    plain = replace(info, facts={"clock_hz": 1e9, "memory_clock_hz": 2e9, "memory_bus_bits": 256})
    most = access_bound(streaming, 128, plain)
    assert most.rate * 128 * info.sm_count * 1e9 == pytest.approx(2 * 2e9 * 32)
    for nothing in ({}, {"compute_capability": "99.0"}):
        unknown = replace(info, facts=nothing)
        assert isinstance(starts(unknown), Unbounded) and isinstance(access_bound(rsq, 0, unknown), Unbounded)
        assert isinstance(access_bound(streaming, 128, unknown), Unbounded)


def test_bodies_and_blocks() -> None:
    assert [(s.instruction, s.count) for s in body(STREAMING, 0.25)] == [(Instruction.LDG, 4), (Instruction.FADD, 1)]
    assert [s.count for s in body(STREAMING, 11.0)] == [1, 11] and len(body(STREAMING, 0.0)) == 1
    assert [s.instruction for s in body(STREAMING, math.inf)] == [Instruction.FADD]
    with open_device("sim:gtx980") as device:
        info = device.info
        assert blocks_of(64, info) == [1024, 512, 256, 128] and blocks_of(37, info) == []
        assert reachable(info)[-1] == 64 and 31 in reachable(info) and 37 not in reachable(info)
        assert occupancies(FULL, info) == [1, *range(4, 65, 4)]
        mix = mix_of(STREAMING, 8.0, 32, 128, Bench(info), Paces(), width=8)
    assert (mix.width, mix.stride, mix.warps, mix.block_size) == (8, 2, 32, 128) and mix.footprint > 2**25


def test_what_ran_below_the_full_clock_runs_again() -> None:
    with open_device("sim:gtx980") as device:
        mixes = [mix_of(STREAMING, 0.0, warps, 128, Bench(device.info), Paces()) for warps in (4, 8)]
        traces = device.run(mixes)

        def seen(mix: Mix, hertz: float):
            trace = traces[mixes.index(replace(mix, repetition=0))]
            return replace(trace, context=replace(trace.context, clock_hz=hertz))

        plan = at_full_clock(mixes)
        batch = next(plan)
        anew = plan.send([seen(batch[0], 1e9), seen(batch[1], 1.5e9)])
        assert [mix.repetition for mix in anew] == [1] and anew[0].warps == 4
        with pytest.raises(StopIteration) as end:
            plan.send([seen(anew[0], 1.49e9)])
        ran, told = end.value.value
        assert ran == [anew[0], mixes[1]] and told[0].context.clock_hz == 1.49e9
