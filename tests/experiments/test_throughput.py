"""Bandwidth, banks, instructions and launches of a GPU in closed form, and what must not be found."""

from __future__ import annotations

import re
import zlib
from dataclasses import replace
from pathlib import Path as FilePath

import numpy as np
import pytest

from gpudissect.device.recorded import RecordedGpu, Recorder
from gpudissect.errors import DeviceError
from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.base import Bench
from gpudissect.experiments.bound import Bound
from gpudissect.experiments.instructions import KINDS
from gpudissect.experiments.issue_bound import issue_bound
from gpudissect.inference.banks import Layout
from gpudissect.inference.level import Absence
from gpudissect.survey.registry import EXPERIMENTS
from gpudissect.survey.run import run_survey
from gpudissect.vocabulary import ACCESSES, INSTRUCTIONS
from gpudissect.workload import Means, Mix, Path, Stream, Transfer
from gpudissect.workload.digest import digest

from .driving import estimates, outcome
from .steady_gpu import CLOCK, FACTS, INFO, PEAK, SMS, Level, SteadyGpu


class Levels:
    """That there is an L1."""

    absent: dict[str, Absence] = {}  # noqa: RUF012

    def level(self, element: str) -> object:
        return element


KNOWN = {"levels.global": Levels(), "capacity.l1": 48 << 10, "capacity.l2": 8 << 20}
DRAM = tuple(f"bandwidth.dram.{transfer}" for transfer in Transfer)
SHARED = tuple(f"bandwidth.shared.{transfer}" for transfer in Transfer)
OF_L2, OF_L1 = (tuple(f"bandwidth.{level}.{way}" for way in ("read", "write")) for level in ("l2", "l1"))
LAUNCHES = ("launch.kernel", "launch.graph", "launch.block")
ALL = ("peak.dram", *DRAM, *OF_L2, *OF_L1, *SHARED)


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
    read = found(SteadyGpu(), "bandwidth.dram.read")["dram", "read_bandwidth"]
    assert any(caveat.startswith("first reached with blocks per sm") for caveat in read.caveats)
    assert any("93.0% of what the memory can give" in caveat or "92.9%" in caveat for caveat in read.caveats)
    assert read.low is not None and read.low < 0.99 * float(str(read.value)), "a part may have come from the L2"


def test_the_surface_is_kept() -> None:
    device = SteadyGpu()
    result = outcome(EXPERIMENTS["bandwidth.dram.read"].plan(Bench(INFO), KNOWN), device)
    assert [series.name for series in result.series] == ["read bandwidth by configuration"]
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
        waits = each.blocks // SMS * each.threads > 2048
        assert not waits or each.footprint > 8 << 20 or each.laps > 1, "nothing stays in an L1 for blocks that come"
        copies = 2 if each.transfer == "copy" else 1
        if each.path is Path.SHARED:
            assert copies * each.footprint <= 48 << 10
            assert each.blocks // SMS * (copies * each.footprint + 1024) <= 96 << 10
        else:
            assert each.footprint % (each.around * each.threads * each.ilp * each.width) == 0, "all get the same"
    assert all(each.warps <= 64 for each in device.asked if isinstance(each, Mix))


def test_short_blocks_on_the_l2_are_far_apart() -> None:
    """What two of them read at the same time might be read from the L2 but once."""
    device = Watched()
    found(device, "bandwidth.l2.read")
    short = [each for each in device.asked if isinstance(each, Stream) and each.laps > 1]
    assert short and all(each.blocks == each.laps * each.around for each in short)
    for each in short:
        registers = each.threads * (each.ilp * each.width // 4 + 24)
        at_once = SMS * min(2048 // each.threads, 65536 // registers)
        assert each.around >= 1.3 * at_once
        assert each.moved >= 1 << 28


def test_blocks_that_wait_for_a_place_are_tried_too() -> None:
    """Where memory takes more from many short blocks than from those that stay, that is what is found."""
    stays = found(SteadyGpu(dram=Level(600e-9, 0.9 * PEAK)), "bandwidth.dram.write")["dram", "write_bandwidth"]
    many = found(SteadyGpu(dram=Level(600e-9, 0.9 * PEAK), many=1.03), "bandwidth.dram.write")
    write = many["dram", "write_bandwidth"]
    assert stays.value == pytest.approx(0.9 * PEAK, rel=0.01)
    assert write.value == pytest.approx(1.03 * 0.9 * PEAK, rel=0.01)
    reached = [int(each.split("blocks per sm ")[1].split(",")[0]) for each in write.caveats if "blocks per sm" in each]
    assert min(reached) >= 64


def test_a_small_excess_over_a_bound_is_cut_off() -> None:
    device = SteadyGpu(shared=Level(24, 128.5))
    read = found(device, "bandwidth.shared.read")["shared", "read_rate"]
    assert read.value == read.high == 128
    assert any("more were measured: misread" in each for each in read.caveats)


SAME, MORE = "as the L2 takes by itself", "more than the L2 took"


@pytest.mark.parametrize(("limit", "said"), [(900e9, None), (0.93 * PEAK, SAME), (0.85 * PEAK, MORE)])
def test_writes_that_the_l2_may_limit_say_so(limit: float, said: str | None) -> None:
    device = SteadyGpu(l2=Level(250e-9, limit), l1=Level(32, limit / SMS / CLOCK))
    results = found(device, "stores.dram", "stores.l1")
    of_memory, of_l1 = results["dram", "write_bandwidth"], results["l1", "write_rate"]
    assert [each for each in (SAME, MORE) if each in " ".join(of_memory.caveats)] == ([said] if said else [])
    assert any(SAME in each and "of all SMs" in each for each in of_l1.caveats), "an L1 that writes through"


def test_without_a_write_to_the_l2_nothing_is_compared() -> None:
    info = replace(INFO, streams=(Path.GLOBAL,))
    results = found(SteadyGpu(info, l2=Level(250e-9, 0.93 * PEAK)), "stores.l1")
    assert results["l1", "write_rate"].status is Status.FOUND
    assert not any("the L2" in each for each in results["l1", "write_rate"].caveats)


@pytest.mark.parametrize("name", ["dram", "shared"])
def test_more_than_can_be_is_a_mistake(name: str) -> None:
    device = SteadyGpu()
    if name == "dram":
        device.dram = Level(600e-9, 1.02 * PEAK)
    else:
        device.shared = Level(24, 131)
    results = found(device, f"bandwidth.{name}.read")
    refused = results[name, "read_bandwidth" if name == "dram" else "read_rate"]
    assert refused.status is Status.NOT_FOUND
    assert "can give" in refused.reason


@pytest.mark.parametrize("name", ["dram", "l2", "l1", "shared"])
def test_what_never_saturates_is_said_to_rise(name: str) -> None:
    device = SteadyGpu()
    latency = {"dram": 60e-6, "l2": 1e-4, "l1": 1e4, "shared": 1e4}[name]
    setattr(device, name, Level(latency, 1e30))
    rising = found(device, f"bandwidth.{name}.read")
    reading = rising[name, "read_rate" if name in ("l1", "shared") else "read_bandwidth"]
    assert reading.status is Status.NOT_FOUND
    assert "still rises" in reading.reason and reading.low is not None


def test_luck_is_no_plateau() -> None:
    rng = np.random.default_rng(1)
    device = SteadyGpu(dram=lambda flying: float(rng.uniform(0.1, 0.9)) * PEAK)
    results = found(device, *DRAM)
    assert {results["dram", f"{each}_bandwidth"].status for each in ("read", "write", "copy")} == {Status.AMBIGUOUS}


def test_what_does_not_repeat_is_ambiguous() -> None:
    results = found(SteadyGpu(anew=0.9), "bandwidth.dram.read", "bandwidth.l2.write")
    assert results["dram", "read_bandwidth"].status is Status.AMBIGUOUS
    assert results["l2", "write_bandwidth"].status is Status.AMBIGUOUS


def test_without_the_memorys_clock_nothing_is_held_against_a_peak() -> None:
    info = replace(INFO, facts={key: value for key, value in FACTS.items() if not key.startswith("memory_")})
    results = found(SteadyGpu(info), "peak.dram", "bandwidth.dram.read")
    assert results["dram", "peak_bandwidth"].status is Status.NOT_FOUND
    assert any("not held against" in caveat for caveat in results["dram", "read_bandwidth"].caveats)


def test_a_printed_command_clock_counts_four_times() -> None:
    info = replace(INFO, facts={**FACTS, "memory_clock_hz": 1_753_000_000.0, "memory_bus_bits": 256,
                                "memory_data_rate": 4})  # fmt: skip
    stated = found(SteadyGpu(info), "peak.dram")["dram", "peak_bandwidth"]
    assert stated.value == pytest.approx(224.38e9, rel=1e-4), "MC16 table 6"


@pytest.mark.parametrize(
    ("layout", "width"),
    [(Layout(32, 4, 4, 32), 4), (Layout(32, 8, 8, 32), 8), (Layout(32, 4, 8, 32), 8), (Layout(16, 4, 4, 16), 4)],
)
def test_banks_are_found_again(layout: Layout, width: int) -> None:
    device = SteadyGpu(layout=layout, way=2.0)
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
    results = found(SteadyGpu(way=0.0), "conflicts.shared")
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
    device.turn = 0.9
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
    device = Watched()
    latency = found(device, "latency.atomg")["atomg", "latency"]
    mixes = [each for each in device.asked if isinstance(each, Mix)]
    assert {each.sms for each in mixes} == {None} and latency.value == pytest.approx(6, abs=0.1)


def test_an_experiment_that_fails_takes_no_other_transfer_along() -> None:
    class Broken(SteadyGpu):
        def run(self, batch):  # type: ignore[no-untyped-def]
            if any(isinstance(each, Stream) and each.transfer is Transfer.WRITE for each in batch):
                raise DeviceError("no writes today")
            return super().run(batch)

    survey = run_survey(Broken(), elements=("shared",))  # type: ignore[arg-type]
    status = {each.attribute: each.status for each in survey.findings}
    assert status["write_rate"] is Status.SKIPPED
    assert status["read_rate"] is status["copy_rate"] is Status.FOUND


def test_loops_do_not_count() -> None:
    results = found(SteadyGpu(loop=60.0, noise=0.0), "warps.fadd")
    assert results["fadd", "latency"].value == pytest.approx(6, abs=0.02)
    assert results["fadd", "rate"].value == pytest.approx(128, rel=1e-3)


@pytest.mark.parametrize(("rise", "said"), [(0.0, "99% takes 24 "), (30.0, "99% takes 64 ")])
def test_what_nearly_all_of_a_rate_takes_is_told(rise: float, said: str) -> None:
    """One that grows little by little near its limit takes many more warps for the last per cents."""

    class Gradual(SteadyGpu):
        def _mix(self, mix: Mix) -> dict[str, np.ndarray]:
            arrays = super()._mix(mix)
            more = 1 + rise / (mix.warps * mix.ilp) ** 2
            return {**arrays, "end": arrays["begin"] + np.rint((arrays["end"] - arrays["begin"]) * more).astype(int)}

    warps = found(Gradual(noise=0.0), "warps.fadd")["fadd", "warps_needed"]
    assert warps.status is Status.FOUND and any(said in each for each in warps.caveats)


def test_a_rate_that_takes_more_than_one_chain_a_warp() -> None:
    results = found(SteadyGpu(unit=lambda _: (40.0, 0.25)), "warps.dfma")
    assert results["dfma", "rate"].value == pytest.approx(128, rel=0.01)
    needed = results["dfma", "warps_needed"]
    assert needed.status is Status.NOT_FOUND and needed.low == 64
    assert "more than one chain" in needed.reason


def test_a_rate_that_is_never_reached() -> None:
    results = found(SteadyGpu(unit=lambda _: (1000.0, 0.25)), "warps.dadd")
    assert results["dadd", "latency"].value == pytest.approx(1000, rel=0.01)
    assert results["dadd", "rate"].status is Status.NOT_FOUND and "still rises" in results["dadd", "rate"].reason
    assert results["dadd", "warps_needed"].status is Status.NOT_FOUND


def test_loads_with_conflicts_take_the_stride_of_the_banks() -> None:
    device = Watched(layout=Layout(32, 8, 8, 32))
    found(device, "warps.lds_2way")
    strides = {each.stride for each in device.asked if isinstance(each, Mix) and each.warps > 1}
    assert strides == {4}


def test_memory_is_asked_by_all_sms() -> None:
    device = Watched()
    results = found(device, "warps.ldg_streaming", "warps.ldg_random")
    mixes = [each for each in device.asked if isinstance(each, Mix)]
    assert all(each.footprint >= 32 * (8 << 20) and each.cold for each in mixes)
    assert all(each.sms is None for each in mixes if each.warps > 1)
    assert results["ldg_random", "latency"].value == pytest.approx(60, abs=0.5)


def test_launches() -> None:
    results = found(SteadyGpu(), *LAUNCHES)
    assert results["launch", "kernel_start"].value == pytest.approx(5000, rel=0.01)
    assert results["launch", "graph_interval"].value == pytest.approx(1500, rel=0.01)
    assert results["launch", "block_replacement"].value == pytest.approx(220, abs=2)
    alone = found(SteadyGpu(replace(INFO, means=(Means.STREAM,)), overlap=True), *LAUNCHES)
    assert alone["launch", "graph_start"].status is Status.NOT_SUPPORTED
    assert alone["launch", "block_replacement"].status is Status.NOT_FOUND


def test_a_device_that_runs_chases_only_supports_none_of_it() -> None:
    bare = SteadyGpu(replace(INFO, streams=(), instructions=(), means=()))
    names = (*ALL, "conflicts.shared", *LAUNCHES, "warps.fadd", "warps.ldg_random")
    results = found(bare, *names)
    stated = results.pop(("dram", "peak_bandwidth"))
    assert stated.status is Status.STATED
    assert {each.status for each in results.values()} == {Status.NOT_SUPPORTED}


def test_an_old_gpu_gets_no_blocks_of_a_thousand_threads() -> None:
    facts = {**FACTS, "compute_capability": "1.3", "threads_per_sm": 1024, "registers_per_sm": 16384}
    device = Watched(replace(INFO, facts=facts))
    found(device, "warps.fadd")
    mixes = [each for each in device.asked if isinstance(each, Mix)]
    assert max(each.warps for each in mixes) <= 32
    assert max(each.block_size for each in mixes) <= 512


def test_every_instruction_has_an_experiment() -> None:
    assert [kind.element for kind in KINDS] == [*INSTRUCTIONS, *ACCESSES]
    parts = {f"{part}.{each}" for each in (*INSTRUCTIONS, *ACCESSES) for part in ("latency", "rate", "warps")}
    assert parts <= set(EXPERIMENTS)


def test_runs_that_alternate_are_told_and_count_alike() -> None:
    class Alternating(SteadyGpu):
        def _stream(self, stream: Stream) -> dict[str, np.ndarray]:
            arrays = super()._stream(stream)
            slower = 1 + 0.04 * ((np.arange(stream.runs) + zlib.crc32(digest(stream).encode())) % 2)
            return {**arrays, "nanoseconds": np.rint(arrays["nanoseconds"] * slower)}

    read = found(Alternating(noise=0.001), "bandwidth.l2.read")["l2", "read_bandwidth"]
    assert read.value == pytest.approx(900e9 / 1.02, rel=0.005)
    assert any(re.search(r"alternate between two rates, up to (3.9|4.0)% apart", each) for each in read.caveats)
    steady = found(SteadyGpu(), "bandwidth.l2.read")["l2", "read_bandwidth"]
    assert not any("alternate" in each for each in steady.caveats)


def test_two_runs_agree() -> None:
    once, again = SteadyGpu(noise=0.005), SteadyGpu(noise=0.005)
    again._luck = lambda workload, size=1: SteadyGpu._luck(once, replace(workload, repetition=77), size)  # type: ignore[method-assign, call-arg, type-var]
    for key, one in found(once, *DRAM, *SHARED).items():
        other = found(again, *DRAM, *SHARED)[key]
        assert float(str(one.value)) == pytest.approx(float(str(other.value)), rel=0.02)


def test_a_survey_of_some_elements_and_its_recording(tmp_path: FilePath) -> None:
    with Recorder(SteadyGpu(), tmp_path / "rec") as recorder:  # type: ignore[arg-type]
        measured = run_survey(recorder, elements=("fadd", "launch", "lds_2way"))
    assert measured.failures == ()
    with RecordedGpu.open(tmp_path / "rec") as replay:
        again = run_survey(replay, elements=("fadd", "launch", "lds_2way"))
    assert again.findings == measured.findings and again.series == measured.series
    assert {series.element for series in again.series} == {"fadd", "launch", "lds_2way"}
