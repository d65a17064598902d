"""All throughput experiments together: launches, unsupported workloads, two runs, a recording."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath

import pytest

from gpudissect.device.recording.device import RecordedGpu, Recorder
from gpudissect.errors import DeviceError
from gpudissect.estimate import Status
from gpudissect.survey.run import run_survey
from gpudissect.workload import LaunchMethod, Mix, Stream, Transfer
from tests.support.steady_gpu import FACTS, INFO, SteadyGpu
from tests.support.steady_survey import ALL, DRAM, LAUNCHES, SHARED, LoggingGpu, found


def test_a_failed_experiment_fails_no_other_transfer() -> None:
    class FailingGpu(SteadyGpu):
        def run(self, batch):  # type: ignore[no-untyped-def]
            if any(isinstance(each, Stream) and each.transfer is Transfer.WRITE for each in batch):
                raise DeviceError("no writes today")
            return super().run(batch)

    survey = run_survey(FailingGpu(), elements=("shared",))
    status = {each.attribute: each.status for each in survey.findings}
    assert status["write_rate"] is Status.SKIPPED
    assert status["read_rate"] is status["copy_rate"] is Status.FOUND


def test_launches() -> None:
    results = {attribute: found for (_, attribute), found in found(SteadyGpu(), *LAUNCHES).items()}
    assert results["kernel_start"].value == pytest.approx(5000, rel=0.01)
    assert results["graph_interval"].value == pytest.approx(1500, rel=0.01)
    for name in ("kernel_start", "graph_start", "kernel_interval"):
        by_host = results[name]
        assert by_host.low < 0.8 * by_host.value and by_host.high > 1.3 * by_host.value, name
    assert results["graph_interval"].high < 1.05 * results["graph_interval"].value
    assert results["block_replacement"].value == pytest.approx(220, abs=2)
    streams_only = SteadyGpu(replace(INFO, launch_methods=(LaunchMethod.STREAM,)), overlap=True)
    results = found(streams_only, *LAUNCHES)
    assert results["launch", "graph_start"].status is Status.NOT_SUPPORTED
    assert results["launch", "block_replacement"].status is Status.NOT_FOUND


def test_a_device_that_runs_only_chases_supports_none_of_it() -> None:
    device = SteadyGpu(replace(INFO, streams=(), instructions=(), launch_methods=()))
    results = found(device, *ALL, "conflicts.shared", *LAUNCHES, "warps.fadd", "warps.ldg_random")
    assert results.pop(("dram", "peak_bandwidth")).status is Status.STATED
    assert {each.status for each in results.values()} == {Status.NOT_SUPPORTED}


def test_an_old_gpu_runs_no_blocks_of_a_thousand_threads() -> None:
    facts = {**FACTS, "compute_capability": "1.3", "threads_per_sm": 1024, "registers_per_sm": 16384}
    device = LoggingGpu(replace(INFO, facts=facts))
    found(device, "warps.fadd")
    mixes = [each for each in device.workloads if isinstance(each, Mix)]
    assert max(each.warps for each in mixes) <= 32
    assert max(each.block_size for each in mixes) <= 512


def test_two_runs_agree() -> None:
    class OtherNoise(SteadyGpu):
        def _noise(self, workload, size=1):  # type: ignore[no-untyped-def]
            return super()._noise(replace(workload, repetition=77), size)

    first, second = (found(gpu(noise=0.005), *DRAM, *SHARED) for gpu in (SteadyGpu, OtherNoise))
    for key, estimate in first.items():
        assert float(str(estimate.value)) == pytest.approx(float(str(second[key].value)), rel=0.02)


def test_a_recording_of_some_elements_replays(tmp_path: FilePath) -> None:
    elements = ("fadd", "launch", "lds_2way")
    with Recorder(SteadyGpu(), tmp_path / "rec") as recorder:
        measured = run_survey(recorder, elements=elements)
    assert measured.failures == ()
    with RecordedGpu.open(tmp_path / "rec") as replay:
        again = run_survey(replay, elements=elements)
    assert again.findings == measured.findings and again.series == measured.series
    assert {series.element for series in again.series} == set(elements)
