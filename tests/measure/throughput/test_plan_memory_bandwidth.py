"""Bandwidths of a GPU in closed form, and what must not be found: L2 and memory, L1 and shared memory."""

from __future__ import annotations

import re
import zlib
from dataclasses import replace

import numpy as np
import pytest

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.plan import Bench, Known, StopEarly, Study
from gpudissect.survey.registry import experiments
from gpudissect.trace import Context, Trace
from gpudissect.workload import Mix, Path, Stream, Workload
from gpudissect.workload.digest import digest
from tests.support.driving import outcome
from tests.support.steady_gpu import CLOCK, FACTS, INFO, PEAK, SMS, Level, SteadyGpu
from tests.support.steady_survey import ALL, DRAM, KNOWN, LoggingGpu, found

READ = {"dram": "read_bandwidth", "l2": "read_bandwidth", "l1": "read_rate", "shared": "read_rate"}


def reading(device: SteadyGpu, element: str) -> Estimate:
    """The estimate of reads of an element."""
    return found(device, f"bandwidth.{element}.read")[element, READ[element]]


def test_every_level_is_found() -> None:
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


def test_caveats_name_configuration_and_share_of_the_peak() -> None:
    read = reading(SteadyGpu(), "dram")
    assert any("blocks per sm" in caveat for caveat in read.caveats)
    assert any(re.search(r"(93\.[01]|92\.9)%.*the memory", caveat) for caveat in read.caveats)
    assert read.low is not None and read.low < 0.99 * float(str(read.value)), "a part may have come from the L2"


def test_the_surface_is_a_series() -> None:
    plan = experiments(Study.DISCOVER)["bandwidth.dram.read"].plan(Bench(INFO), Known(KNOWN))
    (series,) = outcome(plan, SteadyGpu()).series
    assert series.name == "read bandwidth by configuration"
    assert list(series.columns) == ["blocks_per_sm", "threads", "ilp", "width", "rate"]
    assert len(series.columns["rate"]) > 20
    assert {8.0, 16.0} <= set(series.columns["width"])
    assert max(series.columns["rate"]) > 5 * min(series.columns["rate"])


def test_every_workload_fits_on_the_gpu() -> None:
    device = LoggingGpu()
    found(device, *ALL)
    streams = [each for each in device.workloads if isinstance(each, Stream)]
    assert 200 < len(streams) < 900
    for each in streams:
        oversubscribed = each.blocks // SMS * each.threads > 2048
        assert not oversubscribed or each.footprint > 8 << 20 or each.waves > 1, "short blocks keep nothing in an L1"
        buffers = 2 if each.transfer == "copy" else 1
        if each.path is Path.SHARED:
            assert buffers * each.footprint <= 48 << 10
            assert each.blocks // SMS * (buffers * each.footprint + 1024) <= 96 << 10
        else:
            tiles = each.blocks_per_wave * each.threads * each.ilp * each.width
            assert each.footprint % tiles == 0, "all blocks have the same number of tiles"
    assert all(each.warps <= 64 for each in device.workloads if isinstance(each, Mix))


def test_short_blocks_on_the_l2_are_far_apart() -> None:
    """Requests of two blocks for the same line at the same time may be merged."""
    device = LoggingGpu()
    reading(device, "l2")
    short = [each for each in device.workloads if isinstance(each, Stream) and each.waves > 1]
    assert short and all(each.blocks == each.waves * each.blocks_per_wave for each in short)
    assert {each.threads for each in short if each.blocks_per_wave <= SMS} == {128, 256}, "of these, many share lines"
    for each in (each for each in short if each.blocks_per_wave > SMS):
        registers = each.threads * (each.ilp * each.width // 4 + 24)
        assert each.blocks_per_wave >= 1.3 * SMS * min(2048 // each.threads, 65536 // registers)
        assert each.moved >= 1 << 28


class BlockwiseGpu(SteadyGpu):
    """Its L2 gives more to long blocks (`long`) and to blocks that share lines (`sharing`), in multiples."""

    long = sharing = 1.0

    def _stream(self, stream: Stream) -> dict[str, np.ndarray]:
        arrays = super()._stream(stream)
        if stream.waves > 1:
            factor = self.long if stream.passes > 1 else self.sharing if stream.blocks_per_wave <= SMS else 1.0
            arrays["nanoseconds"] = np.rint(arrays["nanoseconds"] / factor)
        return arrays


@pytest.mark.parametrize("transfer", ["read", "write"])
def test_longer_blocks_count_where_they_are_faster(transfer: str) -> None:
    device = BlockwiseGpu()
    shorter, device.long = (found(device, f"bandwidth.l2.{transfer}")["l2", f"{transfer}_bandwidth"], 1.02)
    longer = found(device, f"bandwidth.l2.{transfer}")["l2", f"{transfer}_bandwidth"]
    assert longer.value / shorter.value == pytest.approx(1.02, abs=0.004)
    assert longer.low <= longer.value <= longer.high
    assert "for each block of" in longer.caveats[0] and "for each block of" not in " ".join(shorter.caveats)


def test_longer_blocks_that_are_slower_when_repeated_do_not_count() -> None:
    class OnceFaster(BlockwiseGpu):
        def _stream(self, stream: Stream) -> dict[str, np.ndarray]:
            self.long = 1.03 if stream.repetition else 1.09
            return super()._stream(stream)

    read = reading(OnceFaster(), "l2")
    assert read.status is Status.FOUND and read.value == pytest.approx(900e9, rel=0.01)


def test_lines_that_blocks_share_are_a_caveat_of_reads() -> None:
    device = BlockwiseGpu()
    device.sharing = 1.3
    read, write = (found(device, f"bandwidth.l2.{each}")["l2", f"{each}_bandwidth"] for each in ("read", "write"))
    assert read.value == pytest.approx(900e9, rel=0.01) and "read the same lines at a time: 117" in read.caveats[-1]
    assert "same lines" not in " ".join(write.caveats)


def test_a_recording_without_the_longer_blocks_keeps_what_it_has() -> None:
    plan = experiments(Study.DISCOVER)["bandwidth.l2.read"].plan(Bench(INFO), Known(KNOWN))
    device, batch, ended = SteadyGpu(), next(plan), None
    while ended is None:
        try:
            is_longer = any(isinstance(each, Stream) and each.waves > 1 and each.passes > 1 for each in batch)
            batch = plan.throw(StopEarly()) if is_longer else plan.send(device.run(batch))
        except StopIteration as stop:
            ended = stop.value
    assert ended.estimates[0].value == pytest.approx(900e9, rel=0.01)


def test_waves_of_blocks_are_tried() -> None:
    """Memory that takes more from many short blocks than from resident ones."""
    device = SteadyGpu(dram=Level(600e-9, 0.9 * PEAK), oversubscription_factor=1.03)
    write = found(device, "bandwidth.dram.write")["dram", "write_bandwidth"]
    assert write.value == pytest.approx(1.03 * 0.9 * PEAK, rel=0.01)
    (blocks,) = (int(number) for each in write.caveats for number in re.findall(r"blocks per sm (\d+)", each))
    assert blocks >= 64


def test_a_small_excess_over_a_bound_is_clipped() -> None:
    read = reading(SteadyGpu(shared=Level(24, 128.5)), "shared")
    assert read.value == read.high == 128
    assert any("misread" in each for each in read.caveats)


@pytest.mark.parametrize(
    ("device", "element"),
    [(SteadyGpu(dram=Level(600e-9, 1.02 * PEAK)), "dram"), (SteadyGpu(shared=Level(24, 131)), "shared")],
    ids=["dram", "shared"],
)
def test_a_rate_above_its_bound_is_refused(device: SteadyGpu, element: str) -> None:
    refused = reading(device, element)
    assert refused.status is Status.NOT_FOUND and "can give" in refused.reason


SAME, MORE = "may limit both", "more than the L2 took"


@pytest.mark.parametrize(("limit", "expected"), [(900e9, []), (0.93 * PEAK, [SAME]), (0.85 * PEAK, [MORE])])
def test_writes_that_the_l2_may_limit_have_a_caveat(limit: float, expected: list[str]) -> None:
    device = SteadyGpu(l2=Level(250e-9, limit), l1=Level(32, limit / SMS / CLOCK))
    results = found(device, "stores.dram", "stores.l1")
    dram = " ".join(results["dram", "write_bandwidth"].caveats)
    assert [text for text in (SAME, MORE) if text in dram] == expected


def test_the_write_rate_of_an_l1_that_the_l2_limits_is_a_lower_bound() -> None:
    limit = 900e9
    device = SteadyGpu(l2=Level(250e-9, limit), l1=Level(32, limit / SMS / CLOCK))
    write = found(device, "stores.l1")["l1", "write_rate"]
    assert (write.status, write.value, write.high) == (Status.NOT_FOUND, None, None)
    assert write.low == pytest.approx(limit / SMS / CLOCK, rel=0.03) and "GB/s" in write.reason


def test_without_writes_to_the_l2_nothing_is_compared() -> None:
    info = replace(INFO, streams=(Path.GLOBAL,))
    write = found(SteadyGpu(info, l2=Level(250e-9, 0.93 * PEAK)), "stores.l1")["l1", "write_rate"]
    assert write.status is Status.FOUND
    assert not any("the L2" in each for each in write.caveats)


@pytest.mark.parametrize(("capability", "status", "low"), [("9.0", Status.NOT_FOUND, 40), ("5.2", Status.FOUND, 20)])
def test_all_stores_cross_the_l1_since_volta(capability: str, status: Status, low: float) -> None:
    """It takes at least what the L2 takes from its SM."""
    info = replace(INFO, facts={**FACTS, "compute_capability": capability})
    device = SteadyGpu(info, l1=Level(30, 20.0), l2=Level(250e-9, 40.0 * SMS * CLOCK))
    write = found(device, "stores.l1")["l1", "write_rate"]
    assert write.status is status and write.low == pytest.approx(low, rel=0.03)


@pytest.mark.parametrize(("element", "latency"), [("dram", 60e-6), ("l2", 1e-4), ("l1", 1e4), ("shared", 1e4)])
def test_a_rate_that_never_saturates_is_not_found(element: str, latency: float) -> None:
    device = SteadyGpu()
    setattr(device, element, Level(latency, 1e30))
    rising = reading(device, element)
    assert rising.status is Status.NOT_FOUND
    assert "still rises" in rising.reason and rising.low is not None


def test_luck_is_no_plateau() -> None:
    rng = np.random.default_rng(1)
    results = found(SteadyGpu(dram=lambda in_flight: float(rng.uniform(0.1, 0.9)) * PEAK), *DRAM)
    assert {results["dram", f"{each}_bandwidth"].status for each in ("read", "write", "copy")} == {Status.AMBIGUOUS}


def test_a_rate_that_does_not_repeat_is_ambiguous() -> None:
    results = found(SteadyGpu(repeat_factor=0.9), "bandwidth.dram.read", "bandwidth.l2.write")
    assert results["dram", "read_bandwidth"].status is Status.AMBIGUOUS
    assert results["l2", "write_bandwidth"].status is Status.AMBIGUOUS


def test_without_a_memory_clock_there_is_no_peak() -> None:
    info = replace(INFO, facts={key: value for key, value in FACTS.items() if not key.startswith("memory_")})
    results = found(SteadyGpu(info), "peak.dram", "bandwidth.dram.read")
    assert results["dram", "peak_bandwidth"].status is Status.NOT_FOUND
    assert any("not compared" in caveat for caveat in results["dram", "read_bandwidth"].caveats)


def test_a_command_clock_counts_four_times() -> None:
    memory = {"memory_clock_hz": 1_753_000_000.0, "memory_bus_bits": 256, "memory_data_rate": 4}
    stated = found(SteadyGpu(replace(INFO, facts={**FACTS, **memory})), "peak.dram")["dram", "peak_bandwidth"]
    assert stated.value == pytest.approx(224.38e9, rel=1e-4), "MC16 table 6"


def test_the_value_of_alternating_runs_is_between_both_rates() -> None:
    class Alternating(SteadyGpu):
        def _stream(self, stream: Stream) -> dict[str, np.ndarray]:
            arrays = super()._stream(stream)
            slower = 1 + 0.04 * ((np.arange(stream.runs) + zlib.crc32(digest(stream).encode())) % 2)
            return {**arrays, "nanoseconds": np.rint(arrays["nanoseconds"] * slower)}

    read = reading(Alternating(noise=0.001), "l2")
    assert read.value == pytest.approx(900e9 / 1.02, rel=0.005)
    assert any(re.search(r"alternate between two rates, up to (3.[89]|4.0)% apart", each) for each in read.caveats)
    assert not any("alternate" in each for each in reading(SteadyGpu(), "l2").caveats)


def test_without_a_measured_clock_the_whole_run_counts() -> None:
    """Each block took half of it, one after the other: by their own cycles an SM would be twice as fast."""

    class ClocklessGpu(SteadyGpu):
        def _trace(self, workload: Workload) -> Trace:
            trace = super()._trace(workload)
            if not isinstance(workload, Stream) or workload.path is not Path.SHARED:
                return trace
            arrays = {**trace.arrays, "cycles": trace.arrays["cycles"] // 2}
            return replace(trace, arrays=arrays, context=Context("fake", clock_hz=None))

    plain, clockless = (reading(gpu(), "shared") for gpu in (SteadyGpu, ClocklessGpu))
    assert clockless.value == pytest.approx(plain.value, rel=0.01)
