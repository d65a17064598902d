"""Memory of the host: values of a simulated link come back, and devices without one give reasons or nothing."""

import re
from dataclasses import replace

import pytest

from gpudissect.catalogue import load
from gpudissect.cli.app import main
from gpudissect.device.kinds import open_device
from gpudissect.device.recording.device import RecordedGpu, Recorder
from gpudissect.device_info import Origin
from gpudissect.estimate import Status
from gpudissect.measure.links.plan_host import EXPERIMENTS
from gpudissect.survey.run import run_survey
from gpudissect.workload import Path
from tests.measure.links.conftest import Changed

VALUES = {"hit_latency": 1600, "wide_latency": 1600, "link_latency": 1600}  # a clock of 1 GHz
VALUES |= {"read_bandwidth": 5.2e10, "write_bandwidth": 5.5e10, "copy_bandwidth": 9e10}


def findings(device):
    survey = run_survey(device, elements=("host",))
    assert not survey.failures
    return {each.attribute: each for each in survey.findings}


def test_the_values_of_the_link_are_found(linked):
    found = findings(linked)
    assert {each.status for each in found.values()} == {Status.FOUND} and found.keys() == VALUES.keys()
    for attribute, value in VALUES.items():
        assert found[attribute].value == pytest.approx(value, rel=0.01)
        assert found[attribute].low <= value <= found[attribute].high


@pytest.mark.parametrize(
    ("lanes", "caveat"), [(16, r"82\.\d% of what PCIe generation 5 x16"), (8, "more than PCIe generation 5 x8")]
)
def test_the_rate_is_compared_with_that_of_the_link(linked, lanes, caveat):
    facts = {**linked.info.facts, "pcie_generation": 5, "pcie_lanes": lanes}
    found = findings(Changed(linked, facts=facts))
    assert re.search(caveat, " ".join(found["read_bandwidth"].caveats))


def test_what_the_l2_may_hold_is_not_counted(linked):
    found = findings(Changed(linked, facts={**linked.info.facts, "l2_size": 64 << 20}))
    assert found["write_bandwidth"].low < 0.9 * found["write_bandwidth"].value


def test_without_a_clock_there_are_no_nanoseconds(linked):
    class NoClock(Changed):
        def run(self, batch):
            traces = super().run(batch)
            return [replace(trace, context=replace(trace.context, clock_hz=None)) for trace in traces]

    found = findings(NoClock(linked))
    assert found["link_latency"].status is Status.NOT_FOUND and found["hit_latency"].status is Status.FOUND


def test_a_gpu_file_without_a_link_is_not_supported():
    with open_device("sim:gtx980") as device:
        found = findings(device)
    assert {each.status for each in found.values()} == {Status.NOT_SUPPORTED} and found.keys() == VALUES.keys()
    assert found["hit_latency"].reason == "its GPU file describes no link to the host"


def test_little_free_memory_of_the_host(linked):
    limits = {**linked.info.span_limits, Path.HOST: 4 << 20}
    assert findings(Changed(linked, span_limits=limits))["read_bandwidth"].status is Status.FOUND
    limits[Path.HOST] = 0
    found = findings(Changed(linked, span_limits=limits))
    assert found["read_bandwidth"].reason == "this device maps no memory of the host"


def test_a_recording_replays_and_an_older_one_gives_nothing(linked, tmp_path):
    with Recorder(linked, tmp_path / "r") as recorder:
        recorded = findings(recorder)
    with RecordedGpu.open(tmp_path / "r") as replay:
        assert findings(replay) == recorded
        limits = {path: span for path, span in replay.info.span_limits.items() if path is not Path.HOST}
        assert replay.info.origin is Origin.REPLAYED
        assert findings(Changed(replay, span_limits=limits)) == {}


def test_it_comes_last():
    assert all(each.last and not each.needs for each in EXPERIMENTS)


def test_an_exported_gpu_has_the_link(linked_file, tmp_path, capsys):
    result, file = str(tmp_path / "r.json"), str(tmp_path / "mine.toml")
    assert main(["discover", "-d", f"sim:{linked_file}", "--only", "host", "--only", "l2", "-o", result]) == 0
    assert main(["export", result, "-f", "gpu", "-o", file]) == 0
    capsys.readouterr()
    with open_device(f"sim:{file}") as device:
        assert Path.HOST in device.info.span_limits
        latency = {each.attribute: each.value for each in run_survey(device, elements=("host",)).findings}
    assert latency["hit_latency"] == pytest.approx(1600, rel=0.01)
    published = {(each.element, each.attribute): each.value for each in load(file).published()}
    assert published["host", "hit_latency"] == pytest.approx(1600, rel=0.01)
    assert published["host", "read_bandwidth"] == pytest.approx(5.2e10, rel=0.01)
