"""Distributed shared memory and bulk copies, from synthetic traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path as FilePath

import numpy as np
import pytest

from gpudissect.device.base import Device
from gpudissect.device.kinds import open_device
from gpudissect.device.recording.device import RecordedGpu, Recorder
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.estimate import Estimate, Status
from gpudissect.survey.run import run_survey
from gpudissect.trace import Context, Trace
from gpudissect.workload import Path, Stream, Workload
from gpudissect.workload.digest import digest

LIMITS = {Path.CLUSTER: 200 << 10, Path.TMA: 64 << 30, Path.GLOBAL_L2: 64 << 30}
FACTS = {"cluster_size": 8, "clusters_2": 66, "clusters_4": 32, "clusters_8": 16, "clock_hz": 1.98e9}
FACTS |= {"l2_size": 60 << 20, "memory_clock_hz": 3.2e9, "memory_bus_bits": 6144}
FACTS |= {"shared_per_block": 227 << 10, "shared_per_sm": 228 << 10}
INFO = DeviceInfo("fake:0", "fake", Origin.MEASURED, 132, LIMITS, facts=FACTS, streams=(Path.CLUSTER, Path.TMA))
MEMORY = 2 * 3.2e9 * 6144 / 8


class Hopper(Device):
    """Latency by rank, of copies and of loads; bandwidth by stream, in B/s."""

    info = None  # set below

    def __init__(self, **facts) -> None:
        self.info = replace(INFO, facts={name: fact for name, fact in (FACTS | facts).items() if fact is not None})
        self.by_rank = (33, 181, 190, 195, 200, 205, 210, 213)
        self.copy, self.load = 385, 280
        self.streams: list[Stream] = []
        self.repeated = 1.0  # factor on the bandwidth of a repeated configuration
        self.memory, self.cached = 4.4e12, 5.8e12

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        return [self._stream(each) if isinstance(each, Stream) else self._chase(each) for each in batch]

    def _stream(self, stream: Stream) -> Trace:
        self.streams.append(stream)
        rate = (self.memory if stream.footprint > 1 << 30 else self.cached) * min(1, stream.ilp * stream.width / 65536)
        if stream.path is Path.CLUSTER:
            rate = stream.blocks * 30e9 / (1 + 0.1 * stream.cluster) * min(1, stream.threads * stream.ilp / 4096)
        nanoseconds = round(stream.moved / (rate * (self.repeated if stream.repetition else 1)) * 1e9)
        arrays = {"nanoseconds": np.full(stream.runs, nanoseconds), "bytes": np.full(stream.runs, stream.moved)}
        return Trace(digest(stream), arrays, Context("fake"))

    def _chase(self, chase) -> Trace:
        link = {Path.CLUSTER: self.by_rank[chase.peer], Path.TMA: self.copy}.get(chase.path, self.load)
        laps = np.full(chase.laps, chase.order.count * link + 20)
        notes = {"peer_sm": str(2 * chase.peer), "cluster_size": "8"} if chase.path is Path.CLUSTER else {}
        return Trace(digest(chase), {"cycles": laps}, Context("fake", sm=0, notes=notes))


def survey(device, element: str, **options) -> dict[str, Estimate]:
    result = run_survey(device, elements=(element,), **options)
    assert result.failures == ()
    return {each.attribute: each for each in result.findings}


def has(estimate: Estimate, text: str) -> bool:
    return any(text in caveat for caveat in estimate.caveats)


def test_latency_by_rank() -> None:
    found = survey(Hopper(), "cluster")
    hit = found["hit_latency"]
    cycles = [found[name].value for name in ("near_latency", "hit_latency", "far_latency")]
    assert cycles == pytest.approx([181, 200, 213], abs=0.1)
    assert hit.low is not None and hit.high is not None and hit.low < 181 and hit.high > 213
    assert has(hit, "window of the cluster: 33.0 cycles") and has(hit, "3 (SM 0 to 6): 195.0")


def test_one_distance_has_no_near_and_no_far() -> None:
    device = Hopper()
    device.by_rank = (33,) + (200,) * 7
    found = survey(device, "cluster")
    assert found["hit_latency"].value == pytest.approx(200, abs=0.1)
    assert found["near_latency"].status is found["far_latency"].status is Status.NOT_FOUND


def test_clusters_fill_the_gpu_and_the_best_is_repeated() -> None:
    device = Hopper()
    bandwidth = survey(device, "cluster")["read_bandwidth"]
    assert bandwidth.status is Status.FOUND
    assert bandwidth.value == pytest.approx(132 * 30e9 / 1.2, rel=1e-3)
    assert {(stream.cluster, stream.blocks) for stream in device.streams} == {(2, 132), (4, 128), (8, 128)}
    repeated = [stream for stream in device.streams if stream.repetition]
    assert [(stream.cluster, stream.threads, stream.ilp) for stream in repeated] == [(2, 1024, 4)]
    assert has(bandwidth, "2: 3.3, 4: 2.74, 8: 2.13")


def test_more_than_the_banks_give_is_rejected() -> None:
    bandwidth = survey(Hopper(clock_hz=1e8), "cluster")["read_bandwidth"]
    assert bandwidth.status is Status.NOT_FOUND and "the banks of all SMs" in bandwidth.reason


def test_bulk_copies() -> None:
    device = Hopper()
    found = survey(device, "tma")
    assert found["hit_latency"].value == pytest.approx(385, abs=0.5)
    assert has(found["hit_latency"], "280.1 cycles")
    assert found["read_bandwidth"].value == pytest.approx(4.4e12, rel=1e-3)
    assert has(found["read_bandwidth"], "in the L2: 5.8 TB/s")
    sizes = {stream.footprint for stream in device.streams}
    assert max(sizes) > 32 * (60 << 20) and min(sizes) < 30 << 20
    assert all(stream.footprint % (stream.blocks * stream.width) == 0 for stream in device.streams), "equal blocks"
    assert all(stream.moved > 3e9 for stream in device.streams), "long enough for the timer"


@pytest.mark.parametrize(("rate", "status"), [(0.99 * MEMORY, Status.FOUND), (1.01 * MEMORY, Status.NOT_FOUND)])
def test_more_than_the_memory_gives_is_rejected(rate: float, status: Status) -> None:
    device = Hopper()
    device.memory = rate
    assert survey(device, "tma")["read_bandwidth"].status is status


@pytest.mark.parametrize("element", ["tma", "cluster"])
def test_a_bandwidth_that_does_not_repeat_is_ambiguous(element: str) -> None:
    device = Hopper()
    device.repeated = 0.9
    bandwidth = survey(device, element)["read_bandwidth"]
    assert bandwidth.status is Status.AMBIGUOUS and bandwidth.low is not None and bandwidth.high is not None


def test_without_the_memory_clock_there_is_no_bound() -> None:
    assert has(survey(Hopper(memory_clock_hz=None), "tma")["read_bandwidth"], "peak of the memory")


def test_less_shared_memory_takes_smaller_copies() -> None:
    device = Hopper(shared_per_block=99 << 10, shared_per_sm=100 << 10)
    assert survey(device, "tma")["read_bandwidth"].status is Status.FOUND
    assert max(stream.width * stream.ilp for stream in device.streams) <= 64 << 10


@pytest.mark.parametrize("gpu", ["gtx980", "a100", "v100"])
def test_older_gpus_have_neither(gpu: str) -> None:
    with open_device(f"sim:{gpu}") as device:
        result = run_survey(device, elements=("cluster", "tma"))
    assert result.workloads == 0 and result.failures == ()
    reasons = {(each.status, each.reason) for each in result.findings}
    assert reasons == {(Status.NOT_SUPPORTED, "needs compute capability 9.0")}


@pytest.mark.parametrize(
    ("element", "latencies"),
    [("cluster", {"hit_latency": 200, "near_latency": 181}), ("tma", {"hit_latency": 367})],
)
def test_a_simulated_h100_has_latencies_only(element: str, latencies: dict[str, int]) -> None:
    with open_device("sim:h100?seed=3", seed=3) as device:
        found = survey(device, element, seed=3)
    assert {name: found[name].value for name in latencies} == pytest.approx(latencies, abs=1)
    assert found["read_bandwidth"].value is None


def test_a_recording_gives_the_same_findings(tmp_path: FilePath) -> None:
    with Recorder(Hopper(), tmp_path / "rec") as recorder:  # type: ignore[arg-type]
        measured = run_survey(recorder, elements=("cluster", "tma"))
    with RecordedGpu.open(tmp_path / "rec") as replay:
        assert run_survey(replay, elements=("cluster", "tma")).findings == measured.findings


def test_a_quick_survey_skips_them() -> None:
    for element in ("cluster", "tma"):
        assert {each.status for each in survey(Hopper(), element, quick=True).values()} == {Status.SKIPPED}
