"""Memory of other GPUs: values by GPU, their median, and the matrix that `gpudissect links` prints."""

import json

import pytest

from gpudissect.cli.app import main
from gpudissect.device import kinds
from gpudissect.estimate import Status
from gpudissect.measure.links.plan_peer import ATTRIBUTES
from gpudissect.measure.plan import Study
from gpudissect.survey.links import measure_links
from gpudissect.survey.registry import experiments, measured_elements
from gpudissect.survey.run import run_survey
from tests.measure.links.conftest import FakePeers

LATENCIES = {"hit_latency": 1600, "link_latency": 1600, "wide_latency": 1600}  # of GPU 1, in cycles of 1 GHz
RATES = {"read_bandwidth": 5.2e10, "write_bandwidth": 5.5e10, "copy_bandwidth": 9e10}


@pytest.fixture(scope="module")
def four(linked):
    """GPU 0, which accesses the memory of three others."""
    return FakePeers(linked, "1 2 3")


@pytest.fixture(scope="module")
def survey(four):
    return run_survey(four, Study.LINKS)


def test_it_is_not_part_of_discover():
    assert "peer" not in measured_elements() and "host" in measured_elements()
    assert {each.element for each in experiments(Study.LINKS).values()} == {"host", "peer"}


def test_the_value_is_the_median_and_the_bracket_holds_all_gpus(survey):
    assert not survey.failures
    found = {each.attribute: each for each in survey.findings if each.element == "peer"}
    assert found.keys() == set(ATTRIBUTES)
    for attribute, value in LATENCIES.items():
        each = found[attribute]
        assert each.value == pytest.approx(2 * value, rel=0.01) and each.low < 1.01 * value < 2.97 * value < each.high
        assert "GPU 3 480" in each.caveats[0]
    for attribute, rate in RATES.items():
        each = found[attribute]
        assert each.value == pytest.approx(rate / 2, rel=0.02) and each.low < 0.34 * rate < 0.99 * rate < each.high


def test_every_link_has_its_own_values(four):
    links, failures, interrupted = measure_links(four)
    assert not failures and not interrupted
    assert [link.target for link in links] == ["host", "cuda:1", "cuda:2", "cuda:3"]
    for link, factor in zip(links, (1, 1, 2, 3), strict=True):
        assert link.values.keys() == set(ATTRIBUTES) and not link.reasons
        value, low, high = link.values["link_latency"]
        assert low < factor * 1600 < high and value == pytest.approx(factor * 1600, rel=0.01)
        assert link.values["read_bandwidth"][0] == pytest.approx(5.2e10 / factor, rel=0.02)


def test_without_other_gpus_there_is_a_reason(linked):
    survey = run_survey(linked, Study.LINKS)
    found = [each for each in survey.findings if each.element == "peer"]
    assert {each.status for each in found} == {Status.NOT_SUPPORTED}
    assert {each.reason for each in found} == {"GPUs are simulated one by one"}
    host, others = measure_links(linked)[0]
    assert (host.target, others.target) == ("host", "other GPUs") and others.reasons["hit_latency"]


def test_the_command_prints_a_matrix(four, monkeypatch, capsys):
    monkeypatch.setattr(kinds, "open_device", lambda spec: four)
    assert main(["links", "-d", "sim:x"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Latency of a load, ns" and lines[1].split() == ["from", "host", "cuda:1", "cuda:2", "cuda:3"]
    values = [float(text) for text in lines[2].split()[1:]]
    assert values == pytest.approx([1600, 1600, 3200, 4800], rel=0.01)
    assert main(["links", "-d", "sim:x", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["schema"] == "gpudissect-links/1" and len(content["links"]) == 4
    assert content["links"][3]["read_bandwidth"]["unit"] == "B/s" and content["gpus"][0]["peers"] == [1, 2, 3]


def test_the_command_says_why_there_is_no_link(capsys):
    assert main(["links", "-d", "sim:gtx980"]) == 0
    out = capsys.readouterr().out
    assert "sim:gtx980 to host: no " in out and "describes no link to the host" in out
    assert "sim:gtx980 to other GPUs: no " in out
