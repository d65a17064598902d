"""All of throughput together: launches, what a device cannot run, two runs, a recording."""

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


def test_launches() -> None:
    results = found(SteadyGpu(), *LAUNCHES)
    assert results["launch", "kernel_start"].value == pytest.approx(5000, rel=0.01)
    assert results["launch", "graph_interval"].value == pytest.approx(1500, rel=0.01)
    for name in ("kernel_start", "graph_start", "kernel_interval"):
        of_the_host = results["launch", name]
        assert of_the_host.low < 0.8 * of_the_host.value and of_the_host.high > 1.3 * of_the_host.value, name
    assert results["launch", "graph_interval"].high < 1.05 * results["launch", "graph_interval"].value
    assert results["launch", "block_replacement"].value == pytest.approx(220, abs=2)
    alone = found(SteadyGpu(replace(INFO, launch_methods=(LaunchMethod.STREAM,)), overlap=True), *LAUNCHES)
    assert alone["launch", "graph_start"].status is Status.NOT_SUPPORTED
    assert alone["launch", "block_replacement"].status is Status.NOT_FOUND


def test_a_device_that_runs_chases_only_supports_none_of_it() -> None:
    bare = SteadyGpu(replace(INFO, streams=(), instructions=(), launch_methods=()))
    names = (*ALL, "conflicts.shared", *LAUNCHES, "warps.fadd", "warps.ldg_random")
    results = found(bare, *names)
    stated = results.pop(("dram", "peak_bandwidth"))
    assert stated.status is Status.STATED
    assert {each.status for each in results.values()} == {Status.NOT_SUPPORTED}


def test_an_old_gpu_gets_no_blocks_of_a_thousand_threads() -> None:
    facts = {**FACTS, "compute_capability": "1.3", "threads_per_sm": 1024, "registers_per_sm": 16384}
    device = LoggingGpu(replace(INFO, facts=facts))
    found(device, "warps.fadd")
    mixes = [each for each in device.workloads if isinstance(each, Mix)]
    assert max(each.warps for each in mixes) <= 32
    assert max(each.block_size for each in mixes) <= 512


def test_two_runs_agree() -> None:
    once, again = SteadyGpu(noise=0.005), SteadyGpu(noise=0.005)
    again._noise = lambda workload, size=1: SteadyGpu._noise(once, replace(workload, repetition=77), size)  # type: ignore[method-assign, call-arg, type-var]
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
