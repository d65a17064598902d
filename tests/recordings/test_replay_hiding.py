"""The recordings of latency hiding on a real H200 replay to the published results, and models fare as they did."""

from pathlib import Path

import pytest

from gpudissect.device.recording.device import RecordedGpu
from gpudissect.estimate import Status
from gpudissect.measure.plan import Study
from gpudissect.results.files import load
from gpudissect.survey.run import run_survey

FOLDER = Path(__file__).parent
RESULTS = FOLDER.parents[1] / "docs" / "results"
NAMES = {"h200-hiding": "h200-latency-hiding", "h200-hiding-kinds": "h200-kinds-latency-hiding"}
"""Names of result files by those of recordings."""


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def published(name):
    return load(RESULTS / f"{NAMES[name]}.json")


@pytest.fixture(scope="module")
def replayed(name, published):
    with RecordedGpu.open(FOLDER / name) as gpu:
        return run_survey(gpu, Study.HIDE, elements=published.options.elements)


def test_every_finding_is_the_published_one(replayed, published):
    """But for the last digits of a fit, which differ from one processor's linear algebra to the next."""
    assert replayed.failures == published.failures == () and len(published.findings) in (16, 70)
    assert [(each.element, each.attribute, each.status) for each in replayed.findings] == [
        (each.element, each.attribute, each.status) for each in published.findings
    ]
    for now, then in zip(replayed.findings, published.findings, strict=True):
        pairs = ((now.value, then.value), (now.low, then.low), (now.high, then.high))
        assert all(one == other or one == pytest.approx(other, rel=1e-9) for one, other in pairs)


def test_additions_stay_below_what_the_lanes_can_do(replayed):
    found = {each.attribute: each for each in replayed.findings if each.status is Status.FOUND}
    assert found["arithmetic_rate"].value <= 128


@pytest.mark.parametrize(("model", "bar"), [("basic", 1.30), ("refined", 1.12)])
def test_the_models_of_volkov_hardly_promise_too_much(replayed, model, bar):
    name = "worst estimate over measurement"
    (worst,) = [each for each in replayed.series if (each.element, each.name) == ("hiding", name)]
    over = {name: value for name, value in zip(worst.columns["name"], worst.columns["over"], strict=True)}
    (value,) = [value for name, value in over.items() if name.endswith(f"2016, {model}")]
    assert value <= bar
