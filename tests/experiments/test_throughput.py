"""Bandwidth, banks, instructions and launches of a GPU in closed form, and what must not be found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath

import numpy as np
import pytest

from gpudissect.device.recorded import RecordedGpu, Recorder
from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.base import Bench
from gpudissect.experiments.issue import KINDS
from gpudissect.inference.banks import Layout
from gpudissect.inference.level import Absence
from gpudissect.survey.registry import EXPERIMENTS
from gpudissect.survey.run import run_survey
from gpudissect.vocabulary import ACCESSES, INSTRUCTIONS
from gpudissect.workload import Means, Mix, Path, Stream

from .driving import estimates, outcome
from .steady_gpu import FACTS, INFO, PEAK, SMS, Level, SteadyGpu


class Levels:
    """That there is an L1."""

    absent: dict[str, Absence] = {}  # noqa: RUF012

    def level(self, element: str) -> object:
        return element


KNOWN = {"levels.global": Levels(), "capacity.l1": 48 << 10, "capacity.l2": 8 << 20}
ALL = ("bandwidth.dram", "bandwidth.l2", "bandwidth.l1", "bandwidth.shared")


def found(device: SteadyGpu, *names: str) -> dict[tuple[str, str], Estimate]:
    return estimates(device, names, known=KNOWN)


def test_every_level_is_found_again() -> None:
    results = found(SteadyGpu(), *ALL)
    assert results["dram", "peak_bandwidth"].value == PEAK
    for transfer in ("read", "write", "copy"):
        assert results["dram", f"{transfer}_bandwidth"].value == pytest.approx(0.93 * PEAK, rel=0.01)
        assert results["shared", f"{transfer}_rate"].value == pytest.approx(127.5, rel=0.01)
    for transfer in ("read", "write"):
        assert results["l2", f"{transfer}_bandwidth"].value == pytest.approx(900e9, rel=0.01)
        assert results["l1", f"{transfer}_rate"].value == pytest.approx(120, rel=0.01)
    for estimate in results.values():
        if estimate.status is Status.FOUND and estimate.low is not None and estimate.high is not None:
            assert estimate.low <= float(str(estimate.value)) <= estimate.high


def test_the_caveats_say_where_it_was_reached_and_the_share_of_the_peak() -> None:
    read = found(SteadyGpu(), "bandwidth.dram")["dram", "read_bandwidth"]
    assert any(caveat.startswith("first reached with blocks per sm") for caveat in read.caveats)
    assert any("93.0% of what the memory can give" in caveat or "92.9%" in caveat for caveat in read.caveats)
    assert read.low is not None and read.low < 0.99 * float(str(read.value)), "a part may have come from the L2"


def test_the_surface_is_kept() -> None:
    device = SteadyGpu()
    result = outcome(EXPERIMENTS["bandwidth.dram"].plan(Bench(INFO), KNOWN), device)
    assert [series.name for series in result.series] == [
        f"{transfer} bandwidth by configuration" for transfer in ("read", "write", "copy")
    ]
    columns = result.series[0].columns
    assert list(columns) == ["blocks_per_sm", "threads", "ilp", "width", "rate"]
    assert len(columns["rate"]) > 20
    assert {4.0, 16.0} <= set(columns["width"])
    assert max(columns["rate"]) > 5 * min(columns["rate"])


class Watched(SteadyGpu):
    """Remembers what it was asked."""

    def run(self, batch):  # type: ignore[no-untyped-def]
        self.asked = [*getattr(self, "asked", []), *batch]
        return super().run(batch)


def test_all_that_is_asked_fits_on_the_gpu() -> None:
    device = Watched()
    found(device, *ALL)
    streams = [each for each in device.asked if isinstance(each, Stream)]
    assert 200 < len(streams) < 900
    for each in streams:
        assert each.blocks // SMS * each.threads <= 2048
        copies = 2 if each.transfer == "copy" else 1
        if each.path is Path.SHARED:
            assert copies * each.footprint <= 48 << 10
            assert each.blocks // SMS * (copies * each.footprint + 1024) <= 96 << 10
        else:
            assert each.footprint % (each.blocks * each.threads * each.ilp * each.width) == 0, "all get the same"
    assert all(each.warps <= 64 for each in device.asked if isinstance(each, Mix))


@pytest.mark.parametrize("name", ["dram", "shared"])
def test_more_than_can_be_is_a_mistake(name: str) -> None:
    device = SteadyGpu()
    if name == "dram":
        device.dram = Level(600e-9, 1.02 * PEAK)
    else:
        device.shared = Level(24, 131)
    results = found(device, f"bandwidth.{name}")
    refused = results[name, "read_bandwidth" if name == "dram" else "read_rate"]
    assert refused.status is Status.NOT_FOUND
    assert "can give" in refused.reason


@pytest.mark.parametrize("name", ["dram", "l2", "l1", "shared"])
def test_what_never_saturates_is_said_to_rise(name: str) -> None:
    device = SteadyGpu()
    latency = {"dram": 60e-6, "l2": 1e-4, "l1": 1e4, "shared": 1e4}[name]
    setattr(device, name, Level(latency, 1e30))
    rising = found(device, f"bandwidth.{name}")
    reading = rising[name, "read_rate" if name in ("l1", "shared") else "read_bandwidth"]
    assert reading.status is Status.NOT_FOUND
    assert "still rises" in reading.reason and reading.low is not None


def test_luck_is_no_plateau() -> None:
    rng = np.random.default_rng(1)
    device = SteadyGpu(dram=lambda flying: float(rng.uniform(0.1, 0.9)) * PEAK)
    results = found(device, "bandwidth.dram")
    assert {results["dram", f"{each}_bandwidth"].status for each in ("read", "write", "copy")} == {Status.AMBIGUOUS}


def test_what_does_not_repeat_is_ambiguous() -> None:
    results = found(SteadyGpu(anew=0.9), "bandwidth.dram", "bandwidth.l2")
    assert results["dram", "read_bandwidth"].status is Status.AMBIGUOUS
    assert results["l2", "write_bandwidth"].status is Status.AMBIGUOUS


def test_without_the_memorys_clock_nothing_is_held_against_a_peak() -> None:
    info = replace(INFO, facts={key: value for key, value in FACTS.items() if not key.startswith("memory_")})
    results = found(SteadyGpu(info), "bandwidth.dram")
    assert results["dram", "peak_bandwidth"].status is Status.NOT_FOUND
    assert any("not held against" in caveat for caveat in results["dram", "read_bandwidth"].caveats)


def test_a_printed_command_clock_counts_four_times() -> None:
    info = replace(INFO, facts={**FACTS, "memory_clock_hz": 1_753_000_000.0, "memory_bus_bits": 256,
                                "memory_data_rate": 4})  # fmt: skip
    stated = found(SteadyGpu(info), "bandwidth.dram")["dram", "peak_bandwidth"]
    assert stated.value == pytest.approx(224.38e9, rel=1e-4), "MC16 table 6"


@pytest.mark.parametrize(
    ("layout", "width"),
    [(Layout(32, 4, 4, 32), 4), (Layout(32, 8, 8, 32), 8), (Layout(32, 4, 8, 32), 8), (Layout(16, 4, 4, 16), 4)],
)
def test_banks_are_found_again(layout: Layout, width: int) -> None:
    device = SteadyGpu(layout=layout, way=2.0)
    results = found(device, "banks.shared")
    assert (results["shared", "banks"].value, results["shared", "bank_width"].value) == (layout.banks, width)
    assert results["shared", "conflict_latency"].status is Status.FOUND
    assert any("broadcast" in caveat for caveat in results["shared", "banks"].caveats)
    if layout.interleave != layout.width:
        assert any("4-byte mode" in caveat for caveat in results["shared", "banks"].caveats)
    if layout.banks == 32 and layout.width == 4:
        assert results["shared", "conflict_latency"].value == pytest.approx(2, abs=0.05)
        assert results["shared", "write_conflict"].value == pytest.approx(2, abs=0.05)


def test_no_conflicts_no_banks() -> None:
    results = found(SteadyGpu(way=0.0), "banks.shared")
    assert {results["shared", each].status for each in ("banks", "conflict_latency", "write_conflict")} == {
        Status.NOT_FOUND
    }


def test_an_instruction() -> None:
    device = SteadyGpu(unit=lambda _: (6.0, 0.25))
    results = found(device, "issue.ffma", "issue.mma_s8")
    assert results["ffma", "latency"].value == pytest.approx(6, abs=0.05)
    assert results["ffma", "rate"].value == pytest.approx(128, rel=0.01)
    assert results["ffma", "warps_needed"].value == 23
    assert results["mma_s8", "rate"].value == pytest.approx(4 * 16 * 8 * 32, rel=0.01)


def test_loops_do_not_count() -> None:
    results = found(SteadyGpu(loop=60.0, noise=0.0), "issue.fadd")
    assert results["fadd", "latency"].value == pytest.approx(6, abs=0.02)
    assert results["fadd", "rate"].value == pytest.approx(128, rel=1e-3)


def test_a_rate_that_takes_more_than_one_chain_a_warp() -> None:
    results = found(SteadyGpu(unit=lambda _: (40.0, 0.25)), "issue.dfma")
    assert results["dfma", "rate"].value == pytest.approx(128, rel=0.01)
    needed = results["dfma", "warps_needed"]
    assert needed.status is Status.NOT_FOUND and needed.low == 64
    assert "more than one chain" in needed.reason


def test_a_rate_that_is_never_reached() -> None:
    results = found(SteadyGpu(unit=lambda _: (1000.0, 0.25)), "issue.dadd")
    assert results["dadd", "latency"].value == pytest.approx(1000, rel=0.01)
    assert results["dadd", "rate"].status is Status.NOT_FOUND and "still rises" in results["dadd", "rate"].reason
    assert results["dadd", "warps_needed"].status is Status.NOT_FOUND


def test_loads_with_conflicts_take_the_stride_of_the_banks() -> None:
    device = Watched(layout=Layout(32, 8, 8, 32))
    found(device, "issue.lds_2way")
    strides = {each.stride for each in device.asked if isinstance(each, Mix) and each.warps > 1}
    assert strides == {4}


def test_memory_is_asked_by_all_sms() -> None:
    device = Watched()
    results = found(device, "issue.ldg_streaming", "issue.ldg_random")
    mixes = [each for each in device.asked if isinstance(each, Mix)]
    assert all(each.sms is None and each.footprint >= 32 * (8 << 20) for each in mixes)
    assert results["ldg_random", "latency"].value == pytest.approx(60, abs=0.5)


def test_launches() -> None:
    results = found(SteadyGpu(), "launch")
    assert results["launch", "kernel_start"].value == pytest.approx(5000, rel=0.01)
    assert results["launch", "graph_interval"].value == pytest.approx(1500, rel=0.01)
    assert results["launch", "block_replacement"].value == pytest.approx(220, abs=2)
    alone = found(SteadyGpu(replace(INFO, means=(Means.STREAM,)), overlap=True), "launch")
    assert alone["launch", "graph_start"].status is Status.NOT_SUPPORTED
    assert alone["launch", "block_replacement"].status is Status.NOT_FOUND


def test_a_device_that_runs_chases_only_supports_none_of_it() -> None:
    bare = SteadyGpu(replace(INFO, streams=(), instructions=(), means=()))
    names = (*ALL, "banks.shared", "launch", "issue.fadd", "issue.ldg_random")
    results = found(bare, *names)
    stated = results.pop(("dram", "peak_bandwidth"))
    assert stated.status is Status.STATED
    assert {each.status for each in results.values()} == {Status.NOT_SUPPORTED}


def test_an_old_gpu_gets_no_blocks_of_a_thousand_threads() -> None:
    facts = {**FACTS, "compute_capability": "1.3", "threads_per_sm": 1024, "registers_per_sm": 16384}
    device = Watched(replace(INFO, facts=facts))
    found(device, "issue.fadd")
    mixes = [each for each in device.asked if isinstance(each, Mix)]
    assert max(each.warps for each in mixes) <= 32
    assert max(each.block_size for each in mixes) <= 512


def test_every_instruction_has_an_experiment() -> None:
    assert [kind.element for kind in KINDS] == [*INSTRUCTIONS, *ACCESSES]
    assert {f"issue.{each}" for each in (*INSTRUCTIONS, *ACCESSES)} <= set(EXPERIMENTS)


def test_two_runs_agree() -> None:
    once, again = SteadyGpu(noise=0.005), SteadyGpu(noise=0.005)
    again._luck = lambda workload, size=1: SteadyGpu._luck(once, replace(workload, repetition=77), size)  # type: ignore[method-assign, call-arg, type-var]
    for key, one in found(once, "bandwidth.dram", "bandwidth.shared").items():
        other = found(again, "bandwidth.dram", "bandwidth.shared")[key]
        assert float(str(one.value)) == pytest.approx(float(str(other.value)), rel=0.02)


def test_a_survey_of_some_elements_and_its_recording(tmp_path: FilePath) -> None:
    with Recorder(SteadyGpu(), tmp_path / "rec") as recorder:  # type: ignore[arg-type]
        measured = run_survey(recorder, elements=("fadd", "launch", "lds_2way"))
    assert measured.failures == ()
    with RecordedGpu.open(tmp_path / "rec") as replay:
        again = run_survey(replay, elements=("fadd", "launch", "lds_2way"))
    assert again.findings == measured.findings and again.series == measured.series
    assert {series.element for series in again.series} == {"fadd", "launch", "lds_2way"}
