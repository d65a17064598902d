"""Distributed shared memory and bulk copies: what the experiments make of traces written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path as FilePath

import numpy as np
import pytest

from gpudissect.device.find import open_device
from gpudissect.device.recording.device import RecordedGpu, Recorder
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.estimate import Estimate, Status
from gpudissect.survey.run import Survey, run_survey
from gpudissect.trace import Context, Trace
from gpudissect.workload import Chase, Path, Stream, Workload
from gpudissect.workload.digest import digest

FACTS: dict[str, int | float | str] = {
    "cluster_size": 8, "clusters_2": 66, "clusters_4": 32, "clusters_8": 16, "clock_hz": 1.98e9, "l2_size": 60 << 20,
    "memory_clock_hz": 3.2e9, "memory_bus_bits": 6144, "shared_per_block": 227 << 10, "shared_per_sm": 228 << 10,
}  # fmt: skip
INFO = DeviceInfo(
    "fake:0", "fake", Origin.MEASURED, 132,
    {Path.CLUSTER: 200 << 10, Path.TMA: 64 << 30, Path.GLOBAL_L2: 64 << 30},
    facts=FACTS, streams=(Path.CLUSTER, Path.TMA),
)  # fmt: skip
MEMORY = 2 * 3.2e9 * 6144 / 8


class Hopper:
    """Latency by rank, of copies and of loads; bandwidth by stream, in B/s."""

    def __init__(self, info: DeviceInfo = INFO) -> None:
        self.info = info
        self.by_rank = (33, 181, 190, 195, 200, 205, 210, 213)
        self.copy, self.load = 385, 280
        self.streams: list[Stream] = []
        self.anew = 1.0  # factor on a configuration measured again
        self.memory, self.cached = 4.4e12, 5.8e12

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        return [self._trace(workload) for workload in batch]

    def _trace(self, workload: Workload) -> Trace:
        if isinstance(workload, Stream):
            self.streams.append(workload)
            took = workload.moved / (self._rate(workload) * (self.anew if workload.repetition else 1)) * 1e9
            arrays = {
                "nanoseconds": np.full(workload.runs, round(took)),
                "bytes": np.full(workload.runs, workload.moved),
            }
            return Trace(digest(workload), arrays, Context("fake"))
        assert isinstance(workload, Chase)
        link = {Path.CLUSTER: self.by_rank[workload.peer], Path.TMA: self.copy}.get(workload.path, self.load)
        laps = np.full(workload.laps, workload.order.count * link + 20)
        notes = {"peer_sm": str(2 * workload.peer), "cluster_size": "8"} if workload.path is Path.CLUSTER else {}
        return Trace(digest(workload), {"cycles": laps}, Context("fake", sm=0, notes=notes))

    def _rate(self, stream: Stream) -> float:
        if stream.path is Path.CLUSTER:
            return stream.blocks * 30e9 / (1 + 0.1 * stream.cluster) * min(1, stream.threads * stream.ilp / 4096)
        return (self.memory if stream.footprint > 1 << 30 else self.cached) * min(1, stream.ilp * stream.width / 65536)


def found(device: Hopper, *elements: str) -> tuple[dict[tuple[str, str], Estimate], Survey]:
    survey = run_survey(device, elements=elements)  # type: ignore[arg-type]
    assert survey.failures == ()
    return {(each.element, each.attribute): each for each in survey.findings}, survey


def test_latency_by_rank() -> None:
    results, _ = found(Hopper(), "cluster")
    hit = results["cluster", "hit_latency"]
    assert hit.value == pytest.approx(200, abs=0.1)
    assert results["cluster", "near_latency"].value == pytest.approx(181, abs=0.1)
    assert results["cluster", "far_latency"].value == pytest.approx(213, abs=0.1)
    assert hit.low is not None and hit.high is not None and hit.low < 181 and hit.high > 213
    assert any("through the window of the cluster: 33.0 cycles" in caveat for caveat in hit.caveats)
    assert any("3 (SM 0 to 6): 195.0" in caveat for caveat in hit.caveats)


def test_one_distance_has_no_near_and_no_far() -> None:
    device = Hopper()
    device.by_rank = (33,) + (200,) * 7
    results, _ = found(device, "cluster")
    assert results["cluster", "hit_latency"].value == pytest.approx(200, abs=0.1)
    assert {results["cluster", each].status for each in ("near_latency", "far_latency")} == {Status.NOT_FOUND}


def test_a_ring_of_blocks_fills_the_gpu_and_the_best_is_measured_anew() -> None:
    device = Hopper()
    results, _ = found(device, "cluster")
    bandwidth = results["cluster", "read_bandwidth"]
    assert bandwidth.status is Status.FOUND
    assert bandwidth.value == pytest.approx(132 * 30e9 / 1.2, rel=1e-3)
    assert {(each.cluster, each.blocks) for each in device.streams} == {(2, 132), (4, 128), (8, 128)}
    again = [each for each in device.streams if each.repetition]
    assert [(each.cluster, each.threads, each.ilp) for each in again] == [(2, 1024, 4)]
    assert any("2: 3.3, 4: 2.74, 8: 2.13" in caveat for caveat in bandwidth.caveats)


def test_more_than_the_banks_give_is_not_believed() -> None:
    device = Hopper(replace(INFO, facts=FACTS | {"clock_hz": 1e8}))
    results, _ = found(device, "cluster")
    bandwidth = results["cluster", "read_bandwidth"]
    assert bandwidth.status is Status.NOT_FOUND
    assert "more than the banks of all SMs can give" in bandwidth.reason


def test_bulk_copies() -> None:
    device = Hopper()
    results, _ = found(device, "tma")
    hit, bandwidth = results["tma", "hit_latency"], results["tma", "read_bandwidth"]
    assert hit.value == pytest.approx(385, abs=0.5)
    assert any("280.1 cycles" in caveat for caveat in hit.caveats)
    assert bandwidth.value == pytest.approx(4.4e12, rel=1e-3)
    assert any("in the L2: 5.8 TB/s" in caveat for caveat in bandwidth.caveats)
    sizes = {each.footprint for each in device.streams}
    assert max(sizes) > 32 * (60 << 20) and min(sizes) < 30 << 20
    assert all(each.footprint % (each.blocks * each.width) == 0 for each in device.streams), "all blocks get the same"
    assert all(each.moved > 3e9 for each in device.streams), "long enough for the timer"


@pytest.mark.parametrize(("rate", "status"), [(0.99 * MEMORY, Status.FOUND), (1.01 * MEMORY, Status.NOT_FOUND)])
def test_more_than_the_memory_gives_is_not_believed(rate: float, status: Status) -> None:
    device = Hopper()
    device.memory = rate
    results, _ = found(device, "tma")
    assert results["tma", "read_bandwidth"].status is status


def test_what_does_not_repeat_is_ambiguous() -> None:
    device = Hopper()
    device.anew = 0.9
    results, _ = found(device, "tma", "cluster")
    for element in ("tma", "cluster"):
        bandwidth = results[element, "read_bandwidth"]
        assert bandwidth.status is Status.AMBIGUOUS and bandwidth.low is not None and bandwidth.high is not None


def test_without_the_clock_of_the_memory_the_caveat_says_so() -> None:
    device = Hopper(replace(INFO, facts={k: v for k, v in FACTS.items() if k != "memory_clock_hz"}))
    results, _ = found(device, "tma")
    assert any("not compared with the peak of the memory" in each for each in results["tma", "read_bandwidth"].caveats)


def test_an_sm_with_less_shared_memory_takes_smaller_copies() -> None:
    device = Hopper(replace(INFO, facts=FACTS | {"shared_per_block": 99 << 10, "shared_per_sm": 100 << 10}))
    results, _ = found(device, "tma")
    assert results["tma", "read_bandwidth"].status is Status.FOUND
    assert max(each.width * each.ilp for each in device.streams) <= 64 << 10


@pytest.mark.parametrize("gpu", ["gtx980", "a100", "v100"])
def test_older_gpus_have_neither(gpu: str) -> None:
    with open_device(f"sim:{gpu}") as device:
        survey = run_survey(device, elements=("cluster", "tma"))
    assert survey.workloads == 0 and survey.failures == ()
    assert {(each.status, each.reason) for each in survey.findings} == {
        (Status.NOT_SUPPORTED, "needs compute capability 9.0")
    }


def test_a_simulated_h100_has_latencies_alone() -> None:
    with open_device("sim:h100?seed=3", seed=3) as device:
        survey = run_survey(device, elements=("cluster", "tma"), seed=3)
    assert survey.failures == ()
    values = {(each.element, each.attribute): each.value for each in survey.findings}
    assert values["cluster", "hit_latency"] == pytest.approx(200, abs=1)
    assert values["cluster", "near_latency"] == pytest.approx(181, abs=1)
    assert values["tma", "hit_latency"] == pytest.approx(367, abs=1)
    assert values["cluster", "read_bandwidth"] is values["tma", "read_bandwidth"] is None


def test_a_recording_gives_the_same_findings(tmp_path: FilePath) -> None:
    device = Hopper()
    with Recorder(device, tmp_path / "rec") as recorder:  # type: ignore[arg-type]
        measured = run_survey(recorder, elements=("cluster", "tma"))
    with RecordedGpu.open(tmp_path / "rec") as replay:
        assert run_survey(replay, elements=("cluster", "tma")).findings == measured.findings


def test_a_quick_survey_leaves_them_out() -> None:
    survey = run_survey(Hopper(), elements=("cluster", "tma"), quick=True)  # type: ignore[arg-type]
    assert {each.status for each in survey.findings} == {Status.SKIPPED}
