"""Bandwidths of a GPU in closed form, and what must not be found."""

from __future__ import annotations

import re
import zlib
from dataclasses import replace

import numpy as np
import pytest

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.plan import Bench, Known, Study
from gpudissect.survey.registry import experiments
from gpudissect.trace import Context, Trace
from gpudissect.workload import Mix, Path, Stream, Workload
from gpudissect.workload.digest import digest
from tests.support.driving import outcome
from tests.support.steady_gpu import CLOCK, FACTS, INFO, PEAK, SMS, Level, SteadyGpu
from tests.support.steady_survey import ALL, DRAM, KNOWN, LoggingGpu, found


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
    result = outcome(experiments(Study.DISCOVER)["bandwidth.dram.read"].plan(Bench(INFO), Known(KNOWN)), device)
    assert [series.name for series in result.series] == ["read bandwidth by configuration"]
    columns = result.series[0].columns
    assert list(columns) == ["blocks_per_sm", "threads", "ilp", "width", "rate"]
    assert len(columns["rate"]) > 20
    assert {4.0, 16.0} <= set(columns["width"])
    assert max(columns["rate"]) > 5 * min(columns["rate"])


def test_all_that_is_asked_fits_on_the_gpu() -> None:
    device = LoggingGpu()
    found(device, *ALL)
    streams = [each for each in device.workloads if isinstance(each, Stream)]
    assert 200 < len(streams) < 900
    for each in streams:
        waits = each.blocks // SMS * each.threads > 2048
        assert not waits or each.footprint > 8 << 20 or each.waves > 1, "nothing stays in an L1 for blocks that come"
        copies = 2 if each.transfer == "copy" else 1
        if each.path is Path.SHARED:
            assert copies * each.footprint <= 48 << 10
            assert each.blocks // SMS * (copies * each.footprint + 1024) <= 96 << 10
        else:
            assert each.footprint % (each.blocks_per_wave * each.threads * each.ilp * each.width) == 0, (
                "all get the same"
            )
    assert all(each.warps <= 64 for each in device.workloads if isinstance(each, Mix))


def test_short_blocks_on_the_l2_are_far_apart() -> None:
    """What two of them read at the same time might be read from the L2 but once."""
    device = LoggingGpu()
    found(device, "bandwidth.l2.read")
    short = [each for each in device.workloads if isinstance(each, Stream) and each.waves > 1]
    assert short and all(each.blocks == each.waves * each.blocks_per_wave for each in short)
    for each in short:
        registers = each.threads * (each.ilp * each.width // 4 + 24)
        at_once = SMS * min(2048 // each.threads, 65536 // registers)
        assert each.blocks_per_wave >= 1.3 * at_once
        assert each.moved >= 1 << 28


def test_blocks_that_wait_for_a_place_are_tried_too() -> None:
    """Where memory takes more from many short blocks than from those that stay, that is what is found."""
    stays = found(SteadyGpu(dram=Level(600e-9, 0.9 * PEAK)), "bandwidth.dram.write")["dram", "write_bandwidth"]
    many = found(SteadyGpu(dram=Level(600e-9, 0.9 * PEAK), oversubscription_factor=1.03), "bandwidth.dram.write")
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


def test_stores_past_an_l1_pass_by_it_since_volta() -> None:
    """What the L2 takes of each SM its L1 takes as well, from blocks that come and go."""

    def rate(capability: str) -> Estimate:
        info = replace(INFO, facts={**FACTS, "compute_capability": capability})
        device = SteadyGpu(info, l1=Level(30, 20.0), l2=Level(250e-9, 40.0 * SMS * CLOCK))
        return found(device, "stores.l1")["l1", "write_rate"]

    new, old = rate("9.0"), rate("5.2")
    assert new.value == pytest.approx(40, rel=0.02) and any("those that stay" in each for each in new.caveats)
    assert old.value == pytest.approx(20, rel=0.02)


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
    results = found(SteadyGpu(repeat_factor=0.9), "bandwidth.dram.read", "bandwidth.l2.write")
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


def test_blocks_that_did_not_tell_the_clock_are_not_taken_for_the_whole_run() -> None:
    """Each took half of it, one after the other: by their own cycles an SM would be twice as fast."""

    class Silent(SteadyGpu):
        def _trace(self, workload: Workload) -> Trace:
            trace = super()._trace(workload)
            if not isinstance(workload, Stream) or workload.path is not Path.SHARED:
                return trace
            arrays = {**trace.arrays, "cycles": trace.arrays["cycles"] // 2}
            return replace(trace, arrays=arrays, context=Context("fake", clock_hz=None))

    plain, silent = (found(kind(), "bandwidth.shared.read")["shared", "read_rate"] for kind in (SteadyGpu, Silent))
    assert silent.value == pytest.approx(plain.value, rel=0.01)
