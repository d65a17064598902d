"""The report on links: matrices, reasons, JSON; and its page, where a slow link stands out."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

import gpudissect
from gpudissect.device.kinds import open_device
from gpudissect.results.links import LinkReport
from gpudissect.survey.links import LinkValues
from gpudissect.views.page.links import links_page
from gpudissect.views.terminal.links import print_links

GPUS = ("cuda:0", "cuda:1", "cuda:2")
SLOW = ("cuda:2", "cuda:0")


@pytest.fixture(scope="module")
def report():
    """Three GPUs, all links at 370 GB/s and 800 ns but a slow one, and one that was not measured."""
    with open_device("sim:gtx980") as device:
        infos = tuple(replace(device.info, spec=spec, name="<b>GPU</b>") for spec in GPUS)
    links = [LinkValues("cuda:0", "host", {"link_latency": (1070.0, 1060.0, 1080.0)}, {"read_bandwidth": "no memory"})]
    for source in GPUS:
        for target in sorted({*GPUS} - {source}, reverse=True):
            rate = 300e9 if (source, target) == SLOW else 370e9
            values = {"link_latency": (800.0, 795.0, 805.0), "read_bandwidth": (rate, 0.99 * rate, 1.01 * rate)}
            links.append(LinkValues(source, target, {} if (source, target) == ("cuda:1", "cuda:2") else values, {}))
    return LinkReport(infos, tuple(links), ("cuda:0: latency.peer to cuda:1: a failure",))


def test_a_matrix_has_the_host_first_and_then_gpus_by_number(report):
    matrix = report.matrix("link_latency")
    assert list(matrix) == [*GPUS] and report.targets == ["host", *GPUS]
    assert [list(row) for row in matrix.values()] == 3 * [["host", *GPUS]]
    assert matrix["cuda:0"]["host"] == (1070.0, 1060.0, 1080.0)
    assert matrix["cuda:0"]["cuda:0"] is None and matrix["cuda:1"]["cuda:2"] is None


def test_reasons_name_the_link_and_the_attribute(report):
    assert report.reasons == ["cuda:0 to host: no read_bandwidth: no memory"]


def test_json_has_every_value_with_bracket_and_unit(report):
    content = json.loads(json.dumps(report.to_json()))
    by_pair = {(link["from"], link["to"]): link for link in content["links"]}
    assert by_pair[SLOW]["read_bandwidth"] == {"value": 300e9, "low": 297e9, "high": 303e9, "unit": "B/s"}
    assert by_pair["cuda:0", "host"]["missing"] == {"read_bandwidth": "no memory"}
    assert [gpu["spec"] for gpu in content["gpus"]] == [*GPUS] and content["failures"] == [*report.failures]


def test_the_page_marks_the_slow_link_alone(report):
    page = links_page(report)
    assert page.count('class="heat slow-') == 1 and page.count('class="heat fast-') == 0
    assert '<span class="heat slow-4" title="297 GB/s to 303 GB/s">300</span>' in page


def test_the_page_escapes_names_and_shows_failures_and_origin(report):
    page = links_page(report)
    assert "<b>GPU</b>" not in page and "&lt;b&gt;GPU&lt;/b&gt;, simulated" in page and "a failure" in page


def test_an_interrupted_report_says_so(report):
    assert "Interrupted" not in links_page(report)
    interrupted = replace(report, interrupted=True)
    assert "Interrupted" in links_page(interrupted) and interrupted.to_json()["interrupted"]


def test_a_reader_learns_what_was_measured_at_once(report):
    assert not report.notes and {link["pairs_at_once"] for link in report.to_json()["links"]} == {1}
    links = tuple(replace(link, pairs_at_once=4) for link in report.links)
    at_once = replace(report, links=links)
    assert {link["pairs_at_once"] for link in at_once.to_json()["links"]} == {4}
    (note,) = at_once.notes
    assert "4 pairs" in note and note in links_page(at_once)
    out = Console(file=io.StringIO(), width=200)
    print_links(out, at_once)
    assert note in out.file.getvalue()


def test_links_of_a_simulated_gpu_are_not_supported():
    report = gpudissect.links("sim:gtx980")
    assert not report.failures and all(not link.values for link in report.links)
    assert any("no link to the host" in line for line in report.reasons)
