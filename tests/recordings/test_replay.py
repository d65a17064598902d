"""The recording of a real H200 replays to the very result that was found on it."""

from pathlib import Path

import pytest

from gpudissect.device.base import Keeper
from gpudissect.device.recording.device import RecordedGpu
from gpudissect.device_info import Origin
from gpudissect.results.build import build
from gpudissect.results.evidence.series import PAGE_LIMITS, with_evidence
from gpudissect.results.files import load
from gpudissect.results.model import Options
from gpudissect.survey.run import run_survey
from gpudissect.views.page.result import result_page
from tests.support.page_links import findings_without_plot

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def recorded():
    """What was found while it was recorded: all but what needs half of the memory, so that it stays small."""
    return load(ROOT / "tests" / "recordings" / "h200.json")


@pytest.fixture(scope="module")
def kept():
    with RecordedGpu.open(ROOT / "tests" / "recordings" / "h200") as gpu:
        yield Keeper(gpu)


@pytest.fixture(scope="module")
def replayed(recorded, kept):
    return build(kept.info, run_survey(kept, elements=recorded.options.elements), Options())


@pytest.fixture(scope="module")
def measured():
    return load(ROOT / "docs" / "results" / "h200.json")


TEXTS = {"published", "method", "reason", "caveats", "experiment", "revised"}


def test_every_finding_is_the_same_bit_for_bit(replayed, recorded):
    """Texts are left out: their wording may improve. Times in ns follow from the median clock of all workloads."""
    excluded = TEXTS | {"value_ns"}
    known = {(each.element, each.attribute) for each in recorded.findings}
    findings = [each for each in replayed.findings if (each.element, each.attribute) in known]
    assert [each.model_dump(exclude=excluded) for each in findings] == [
        each.model_dump(exclude=excluded) for each in recorded.findings
    ]
    times = [[each.value_ns for each in found if each.value_ns] for found in (findings, recorded.findings)]
    assert times[0] == pytest.approx(times[1], rel=1e-4)
    texts = {"not_predicted": True, "paths": {"__all__": {"assumed"}}}
    assert replayed.prediction.model_dump(exclude=texts) == recorded.prediction.model_dump(exclude=texts)
    assert replayed.prediction.not_predicted.keys() == recorded.prediction.not_predicted.keys()
    later = {each.attribute for each in replayed.findings if (each.element, each.attribute) not in known}
    assert later == {"store_wait", "latency_64", "latency_128"}, "of experiments that the recording does not have"
    assert {each.experiment for each in replayed.failures} == {"stores.launch", "widths.lds", "widths.ldg"}


def test_a_replay_says_that_it_is_one(replayed, measured):
    assert measured.device.origin is Origin.MEASURED
    assert replayed.device.origin is Origin.REPLAYED
    assert replayed.device.recorded_origin is Origin.MEASURED


def test_the_h200s_numbers_are_these(measured):
    found = {(each.element, each.attribute): each.value for each in measured.findings}
    assert found["l1", "capacity"] == found["readonly", "capacity"] == found["texture", "capacity"]
    assert 236 * 1024 <= found["l1", "capacity"] <= 256 * 1024
    assert found["l1", "hit_latency"] == pytest.approx(32, abs=1)
    assert 23 <= found["shared", "hit_latency"] <= 30
    assert 600 <= found["dram", "wide_latency"] <= 720
    assert found["l2", "near_latency"] < found["l2", "far_latency"] < found["dram", "near_latency"]


def test_every_finding_leads_to_a_plot_of_what_it_was_read_from(replayed, kept):
    of_the_file = with_evidence(replayed, kept)
    assert findings_without_plot(of_the_file, result_page(of_the_file)) == []
    assert len(of_the_file.to_json()) < 1.2 * len(replayed.to_json())
    fine = result_page(with_evidence(replayed, kept, PAGE_LIMITS))
    assert findings_without_plot(replayed, fine) == [] and len(fine) < 3_000_000
