"""The recordings of a real H200 and H100 replay to the published results, without a GPU."""

import json
from pathlib import Path

import numpy as np
import pytest

from gpudissect.device.base import Keeper
from gpudissect.device.cuda.precompile import SURVEY, codes_of
from gpudissect.device.recording.device import RecordedGpu
from gpudissect.device_info import Origin
from gpudissect.estimate import Status
from gpudissect.measure.cache import plan_policy
from gpudissect.measure.cache.infer_policy import UNKNOWN, predict
from gpudissect.results.build import build
from gpudissect.results.evidence.series import PAGE_LIMITS, with_evidence
from gpudissect.results.files import load
from gpudissect.results.model import Options
from gpudissect.simulation.cache.geometry import PolicyKind
from gpudissect.survey.run import run_survey
from gpudissect.views.page.result import result_page
from tests.support.page_links import findings_without_plot

ROOT = Path(__file__).parents[2]
GPUS = ("h100", "h200")
MAX_BYTES = 12_000_000  # of a recording
TEXTS = {"published", "method", "reason", "caveats", "experiment", "revised"}


@pytest.fixture(scope="session", params=GPUS)
def gpu(request):
    return request.param


@pytest.fixture(scope="session")
def published(gpu):
    return load(ROOT / "docs" / "results" / f"{gpu}.json")


@pytest.fixture(scope="session")
def kept(gpu):
    with RecordedGpu.open(ROOT / "tests" / "recordings" / gpu) as recorded:
        yield Keeper(recorded)


@pytest.fixture(scope="session")
def single_sets():
    """Lines and outcomes of the accesses to single sets of each cache, filled while `replayed` is made."""
    return {}


@pytest.fixture(scope="session")
def replayed(kept, single_sets):
    observe = plan_policy._PolicyTest._observe

    def keeping(test, runs):
        observed = yield from observe(test, runs)
        single_sets.setdefault(test.level.element, []).extend(observed)
        return observed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_policy._PolicyTest, "_observe", keeping)
        return build(kept.info, run_survey(kept), Options())


def test_every_finding_is_the_published_one_bit_for_bit(replayed, published):
    """Texts are left out: their wording may improve."""
    assert len(published.findings) > 300 and replayed.failures == published.failures == ()
    newer = [each for each in replayed.findings if each.attribute == "tlb_by_sm"]  # than the recordings
    assert [each.status for each in newer] in ([Status.SKIPPED], [Status.NOT_FOUND])
    assert [each.model_dump(exclude=TEXTS) for each in replayed.findings if each not in newer] == [
        each.model_dump(exclude=TEXTS) for each in published.findings
    ]
    assert _numbers(replayed.prediction) == _numbers(published.prediction)
    assert replayed.prediction.not_predicted.keys() == published.prediction.not_predicted.keys()
    assert replayed.conditions.clock_hz == published.conditions.clock_hz


def test_every_access_to_a_single_set_of_the_l1_is_as_its_policy_predicts(replayed, single_sets):
    wrong = accesses = 0
    for element in ("l1", "readonly", "texture"):
        for each in single_sets[element]:
            known = each.outcomes != UNKNOWN
            predicted = predict(PolicyKind.LAST_TWO_HITS, 4, each.lines)
            wrong, accesses = wrong + int(np.sum((predicted != each.outcomes)[known])), accesses + int(known.sum())
    assert (wrong, accesses > 213_000) == (0, True)


def test_the_l1_evicts_behind_the_last_two_hits_and_that_predicts_every_access(replayed):
    """0 of some 110,000 accesses through the L1 are wrong, none of which the policy was chosen by."""
    policies = {each.element: each.value for each in replayed.findings if each.attribute == "replacement_policy"}
    shared = ("l1", "readonly", "texture")
    assert [policies[each] for each in shared] == ["last-two-hits"] * 3
    caches = {each.element: each for each in replayed.prediction.elements}
    assert all(caches[each].agreement == 1 and caches[each].accesses > 12_000 for each in shared)
    paths = {each.path: each for each in replayed.prediction.paths}
    assert all(
        paths[each].agreement == 1 and paths[each].accesses > 37_000 for each in ("global", "readonly", "texture")
    )


def _numbers(prediction):
    """Of a prediction, in the order of names: the published results list caches and paths as they ended."""
    numbers = prediction.model_dump(exclude={"not_predicted": True, "paths": {"__all__": {"assumed"}}})
    for kind, name in (("elements", "element"), ("paths", "path")):
        numbers[kind] = sorted(numbers[kind], key=lambda each: each[name])
    return numbers


def test_kernels_of_a_survey_are_compiled_in_advance(kept, replayed):
    """After a change: ``python validation/survey_kernels.py``."""
    needed = set(codes_of((workload for workload, _ in kept.values()), (9, 0)))
    listed = {tuple(code) for code in json.loads(SURVEY.read_text())}
    assert len(needed) > 400 and len(needed ^ listed) < 0.03 * len(needed)


def test_a_replay_says_that_it_is_one(replayed, published):
    assert published.device.origin is Origin.MEASURED
    assert replayed.device.origin is Origin.REPLAYED
    assert replayed.device.recorded_origin is Origin.MEASURED


def test_recording_and_result_are_of_one_card_and_name_no_host(kept, published):
    """The clone of the repository stays small, too."""
    assert kept.info.provenance["gpu_uuid"] == published.provenance.gpu_uuid
    assert "host" not in kept.info.provenance and published.provenance.host is None


@pytest.mark.parametrize("name", [*GPUS, "h200-hiding", "h200-hiding-kinds"])
def test_recordings_are_small(name):
    assert sum(path.stat().st_size for path in (ROOT / "tests" / "recordings" / name).iterdir()) <= MAX_BYTES


def test_numbers_that_all_cards_share(gpu, published):
    found = {(each.element, each.attribute): each.value for each in published.findings}
    shared = [found[each, "capacity"] for each in ("l1", "readonly", "texture")]
    assert max(shared) - min(shared) <= 128  # a line
    assert 236 * 1024 <= found["l1", "capacity"] <= 256 * 1024
    assert found["l1", "hit_latency"] == pytest.approx(32, abs=1)
    assert 23 <= found["shared", "hit_latency"] <= 30
    assert 600 <= found["dram", "wide_latency"] <= 720
    assert found["l2", "near_latency"] < found["l2", "far_latency"]
    assert gpu == "h100" or found["l2", "far_latency"] < found["dram", "near_latency"]
    assert gpu == "h100" or found["ldg_random", "rate"] > 0.14


def test_the_l2_is_measured_not_stated(gpu, published):
    """The bracket does not end at the size that the driver states; lines that are kept are not counted twice."""
    (l2,) = (each for each in published.findings if (each.element, each.attribute) == ("l2", "capacity"))
    assert l2.low < l2.value < published.device.facts["l2_size"] < l2.high
    assert l2.value == pytest.approx({"h200": 58, "h100": 49}[gpu] * 2**20, rel=0.03)


@pytest.mark.parametrize("gpu", ["h200"], indirect=True)
def test_every_finding_leads_to_a_plot_of_what_it_was_read_from(replayed, kept):
    of_the_file = with_evidence(replayed, kept)
    assert findings_without_plot(of_the_file, result_page(of_the_file)) == []
    assert len(of_the_file.to_json()) < 1.2 * len(replayed.to_json())
    fine = result_page(with_evidence(replayed, kept, PAGE_LIMITS))
    assert findings_without_plot(replayed, fine) == [] and len(fine) < 3_000_000
