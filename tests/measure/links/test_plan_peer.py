"""Memory of other GPUs, and the matrix that `gpudissect links` prints."""

import json
from dataclasses import replace

import pytest

from gpudissect import link_study
from gpudissect.cli.app import main
from gpudissect.device.base import Described
from gpudissect.errors import DeviceError
from gpudissect.estimate import Status
from gpudissect.measure.links import plan_caching, plan_peer
from gpudissect.measure.links.plan_engine_copies import HOST_ATTRIBUTES, PEER_ATTRIBUTES
from gpudissect.measure.plan import Study
from gpudissect.survey.links import measure_link, pairs_of
from gpudissect.survey.registry import experiments, measured_elements
from gpudissect.survey.run import run_survey
from gpudissect.workload import MOVES, Path
from tests.measure.links.conftest import ADDED, COPIED, DISPLACED, REPEATED, FakePeers

LATENCIES = dict.fromkeys(("hit_latency", "link_latency", "wide_latency", "first_latency", "repeated_latency"), 1600)
"""Of GPU 1, in cycles of 1 GHz."""
LATENCIES |= {"repeated_l1_latency": 1600 / REPEATED, "evicted_latency": 1600 * DISPLACED}
EXPERIMENTS = ("links", "additions", "copies", "caching")
COPIES = {"engine": COPIED, "pageable": COPIED / 4}
RATES = {"read_bandwidth": 5.2e10, "write_bandwidth": 5.5e10, "copy_bandwidth": 9e10, "add_rate": 5.5e10 / 4 / ADDED}
ATTRIBUTES = {"add_rate", *plan_peer.ATTRIBUTES, *plan_caching.ATTRIBUTES, *PEER_ATTRIBUTES}


@pytest.fixture(scope="module")
def four(linked):
    """GPU 0, which accesses the memory of three others."""
    return FakePeers(linked, "1 2 3")


def measured(device, names=None, among=None):
    """All links of a device."""
    return [measure_link(device, target, names=names) for _, target in pairs_of("cuda:0", device.info, names, among)]


def test_it_is_not_part_of_discover():
    assert "peer" not in measured_elements() and "host" in measured_elements()
    assert {each.element for each in experiments(Study.LINKS).values()} == {"host", "peer"}


def test_the_plan_measures_the_first_of_its_peers(linked):
    survey = run_survey(FakePeers(linked, "3 1"), Study.LINKS)
    found = {each.attribute: each for each in survey.findings if each.element == "peer"}
    assert not survey.failures and found.keys() == ATTRIBUTES
    for attribute, value in ({each: 3 * cycles for each, cycles in LATENCIES.items()} | RATES).items():
        each = found[attribute]
        expected = value / 3 if attribute in RATES else value
        assert each.low < expected < each.high and each.value == pytest.approx(expected, rel=0.02), attribute


@pytest.mark.parametrize(
    ("facts", "share"), [({"nvlinks": 4, "nvlink_version": 3}, "its 4 NVLinks"), ({}, "not state")]
)
def test_a_bandwidth_is_compared_with_the_stated_links(linked, facts, share):
    device = Described(FakePeers(linked, "1"), lambda info: replace(info, facts={**info.facts, **facts}))
    found = run_survey(device, Study.LINKS).findings
    (read,) = (each for each in found if (each.element, each.attribute) == ("peer", "read_bandwidth"))
    assert share in " ".join(read.caveats)


def test_a_failed_link_does_not_affect_the_others(linked):
    class Broken(FakePeers):
        def run(self, batch):
            if any(each.path is Path.PEER and each.peer == 2 for each in batch):
                raise DeviceError("the GPU fell off the bus")
            return super().run(batch)

    links = measured(Broken(linked, "1 2 3"))
    assert [bool(link.values) for link in links] == [not link.failures for link in links] == [True, True, False, True]
    assert {line.split(": ")[1] for line in links[2].failures} == {f"{name}.peer to cuda:2" for name in EXPERIMENTS}
    assert "fell off the bus" in links[2].failures[0] and "fell off the bus" in links[2].reasons["hit_latency"]


def test_every_link_has_its_own_values(four):
    links = measured(four)
    assert [link.target for link in links] == ["host", "cuda:1", "cuda:2", "cuda:3"]
    for link, factor in zip(links, (1, 1, 2, 3), strict=True):
        assert not link.failures
        if link.target == "host":
            expected = {*plan_peer.LATENCIES, *HOST_ATTRIBUTES, *(f"{each}_bandwidth" for each in MOVES)}
        else:
            expected = ATTRIBUTES - {"cached_in"}
            assert link.texts == {"cached_in": "L1 of this GPU, L2 of the other GPU"}
        assert link.values.keys() == expected and not link.reasons
        value, low, high = link.values["link_latency"]
        assert low < factor * 1600 < high and value == pytest.approx(factor * 1600, rel=0.01)
        assert link.values["read_bandwidth"][0] == pytest.approx(5.2e10 / factor, rel=0.02)


def test_copy_engines_are_timed_without_the_start_of_a_copy(four):
    host, first, second, _ = measured(four)
    rates = {f"{kind}_{name}_bandwidth": rate for kind, rate in COPIES.items() for name in ("read", "write")}
    for attribute, rate in rates.items():
        value, low, high = host.values[attribute]
        assert low < rate < high and value == pytest.approx(rate, rel=0.01), attribute
    ratio = first.values["engine_read_bandwidth"][0] / second.values["engine_read_bandwidth"][0]
    assert ratio == pytest.approx(2, rel=0.01)


def test_without_other_gpus_there_is_a_reason(linked):
    survey = run_survey(linked, Study.LINKS)
    found = [each for each in survey.findings if each.element == "peer"]
    assert {each.status for each in found} == {Status.NOT_SUPPORTED}
    assert {each.reason for each in found} == {"GPUs are simulated one by one"}
    host, others = measured(linked)
    assert (host.target, others.target) == ("host", "other GPUs") and others.reasons["hit_latency"]


def test_the_command_prints_a_matrix(four, monkeypatch, capsys):
    monkeypatch.setattr(link_study, "open_in_process", lambda spec, seed, prepares: four)
    assert main(["links", "-d", "sim:x"]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Latency of a load, ns" and lines[1].split() == ["GPU", "host", "cuda:1", "cuda:2", "cuda:3"]
    values = [float(text) for text in lines[2].split()[1:]]
    assert lines[-1] == "Lines of another GPU's memory are held by: L1 of this GPU, L2 of the other GPU"
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


def test_additions_need_native_atomics(linked):
    device = Described(FakePeers(linked, "1"), lambda info: replace(info, facts={**info.facts, "atomic_peers": "2"}))
    found = {each.attribute: each for each in run_survey(device, Study.LINKS).findings if each.element == "peer"}
    assert found["add_rate"].status is Status.NOT_SUPPORTED and "native atomics" in found["add_rate"].reason
    assert found["read_bandwidth"].status is Status.FOUND


def test_links_between_some_gpus_alone(four):
    (link,) = measured(four, ("links.peer",), ("cuda:0", "cuda:2"))
    assert link.target == "cuda:2" and link.values and "add_rate" not in link.values
    assert not measured(four, ("links.peer",), ("cuda:0",))
