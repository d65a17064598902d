"""The report on links: matrices, reasons, JSON; and its page, where a slow link stands out."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import gpudissect
from gpudissect.device.kinds import open_device
from gpudissect.errors import UsageError
from gpudissect.results.check import Weight, check_files, is_stable
from gpudissect.results.files import load, load_result_or_links
from gpudissect.results.links import LinkReport, LinksFile
from gpudissect.survey.links import LinkValues
from gpudissect.views.page.links import links_page
from gpudissect.views.terminal.links import print_links

GPUS = ("cuda:0", "cuda:1", "cuda:2")
SLOW = ("cuda:2", "cuda:0")
RESULT = Path(__file__).parents[2] / "docs" / "results" / "h200.json"


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


def test_long_reasons_and_failures_are_one_line(report, read):
    """A message of a driver may have kilobytes."""
    message = "CUDA_ERROR_UNKNOWN:\n" + "x" * 5000 + "; reset it"
    failed = replace(report, links=(LinkValues("cuda:0", "cuda:1", {}, {"link_latency": message}),))
    (concern,), _ = check_files([read().model_copy(update={"failures": (message,)})], ["a.json"])
    for line in (*failed.reasons, concern.what):
        assert len(line) < 400 and "\n" not in line and line.endswith("; reset it")


def test_a_reader_learns_that_rows_are_the_gpus_that_load(report):
    out = Console(file=io.StringIO(), width=200)
    print_links(out, report)
    legend, _, heading, *_ = out.file.getvalue().splitlines()
    assert legend.startswith("Rows are the GPUs that load") and heading.split() == ["GPU", "host", *GPUS]
    assert legend in links_page(report) and '<th scope="col">GPU</th>' in links_page(report)


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


@pytest.fixture
def read(tmp_path, report):
    """Reads the file of a report whose GPUs have UUIDs and whose last link may be slower."""

    def read(name="a.json", factor=1.0, uuids=("GPU-0", "GPU-1", "GPU-2"), order=GPUS, **changes):
        content = replace(report, failures=(), **changes).to_json()
        names = dict(zip(GPUS, order, strict=True))
        for gpu, uuid in zip(content["gpus"], uuids, strict=True):
            gpu |= {"gpu_uuid": uuid, "spec": names[gpu["spec"]]}
        latency = content["links"][-1]["link_latency"]
        latency |= {end: factor * latency[end] for end in ("value", "low", "high")}
        for link in content["links"]:
            link |= {end: names.get(link[end], link[end]) for end in ("from", "to")}
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
        return load_result_or_links(tmp_path / name)

    return read


def test_a_file_of_links_is_read_as_it_was_written(report, read):
    links = read()
    assert [gpu.uuid for gpu in links.gpus] == ["GPU-0", "GPU-1", "GPU-2"]
    by_pair = {(link.source, link.target): link.values for link in links.links}
    found = by_pair[SLOW]["read_bandwidth"]
    assert (found.element, found.value, found.low, found.high, found.unit) == ("peer", 300e9, 297e9, 303e9, "B/s")
    assert by_pair["cuda:0", "host"]["link_latency"].element == "host" and not by_pair["cuda:1", "cuda:2"]
    assert check_files([links], ["a.json"])[0] == []


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"value": 300000000000.0', '"value": [1]', "links.6.read_bandwidth.value"),
        ('"links": ', '"linked": ', 'lacks "links"'),
        ('"from": "cuda:2", "to": "cuda:1"', '"from": "cuda:2", "to": "cuda:0"', "the link cuda:2 to cuda:0 twice"),
        ("links/1", "links/2", "of another version"),
        ('"low": 297000000000.0', '"low": 304000000000.0', "links.6: the bracket of read_bandwidth begins at"),
        ('"value": 1070.0', '"value": -1070.0', "links.0: link_latency is -1070, below 0"),
        ('"from": "cuda:2", "to": "cuda:1"', '"from": "cuda:7", "to": "cuda:1"', "a link of cuda:7, which it does not"),
        ('"from": "cuda:2", "to": "cuda:1"', '"from": "cuda:2", "to": "cuda:7"', "a link of cuda:7, which it does not"),
    ],
)
def test_what_is_wrong_with_a_file_of_links_is_one_line(tmp_path, report, old, new, why):
    text = json.dumps(report.to_json())
    assert old in text
    (tmp_path / "x.json").write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(UsageError, match=r"x.json is not a .*" + why.replace(".", r"\.")):
        load_result_or_links(tmp_path / "x.json")


def test_links_to_gpus_that_were_not_opened_are_read(tmp_path, report):
    """The file of one GPU of several, as ``gpudissect links -d cuda:0`` writes it."""
    alone = [link for link in report.links if link.source == "cuda:0"]
    (info,) = (replace(info, facts=info.facts | {"peers": "1 2"}) for info in report.gpus[:1])
    content = replace(report, gpus=(info,), links=tuple(alone)).to_json()
    (tmp_path / "x.json").write_text(json.dumps(content), encoding="utf-8")
    assert [link.target for link in load_result_or_links(tmp_path / "x.json").links] == ["host", "cuda:2", "cuda:1"]


def test_a_command_for_results_names_those_for_links(read, tmp_path):
    read("a.json")
    with pytest.raises(UsageError, match=r"a.json is not a result file: it is a file of links: 'gpudissect check'"):
        load(tmp_path / "a.json")


def test_links_that_change_from_run_to_run_are_not_stable(read):
    """A link is named as in the first file, and known by the UUIDs of both ends."""
    first, same, slow = read(), read(factor=1.003), read(factor=1.5, order=("cuda:2", "cuda:0", "cuda:1"))
    found, (group,) = check_files([first, same], ["a.json", "b.json"])
    assert found == [] and (group.gpu, group.uuid) == ("<b>GPU</b>", "GPU-0, GPU-1, GPU-2")
    assert (group.command, group.settings, group.of) == ("links", "3 GPUs", (0, 1))
    (concern,), _ = check_files([first, same, slow], ["a.json", "b.json", "c.json"])
    assert concern.weight is Weight.UNSTABLE and concern.of == (0, 1, 2)
    assert concern.about == ("cuda:2 to cuda:0 link_latency 800-1200 ns",)
    without = read().model_copy(update={"links": read().links[:0]})
    (*_, concern), _ = check_files([first, slow, without], ["a.json", "c.json", "d.json"])
    assert concern.about, "a file that lacks the values hides no change between the others"


def test_links_of_other_gpus_and_results_are_checked_separately(read):
    links, others = read(), read(factor=1.5, uuids=("GPU-0", "GPU-1", "GPU-3"))
    result = load(RESULT)
    found, groups = check_files([links, result, others], ["a.json", "b.json", "c.json"])
    assert is_stable(found) and [each.of for each in found if "2 sets of GPUs" in each.what] == [(0, 2)]
    assert [(each.command, each.of) for each in groups] == [("discover", (1,)), ("links", (0,)), ("links", (2,))]


def test_incomplete_and_copied_files_of_links_are_named(read, report):
    lost = ("cuda:0: links.peer to cuda:1: it is lost",)
    (failed,), _ = check_files([read(interrupted=False).model_copy(update={"failures": lost})], ["a.json"])
    assert failed.weight is Weight.UNSTABLE and lost[0] in failed.what
    (interrupted,), _ = check_files([read(interrupted=True)], ["a.json"])
    assert interrupted.weight is Weight.UNSTABLE and "interrupted" in interrupted.what
    (empty,), _ = check_files([read().model_copy(update={"links": ()})], ["a.json"])
    assert empty.weight is Weight.UNSTABLE and "no link has a value" in empty.what
    (copied,), _ = check_files([read(), read()], ["a.json", "b.json"])
    assert copied.weight is Weight.NOTE and copied.what.endswith(" b.json")


def test_copies_are_found_without_comparing_each_file_with_each_other(read, monkeypatch):
    monkeypatch.setattr(LinksFile, "__eq__", lambda *_: pytest.fail("300 files take half a minute"), raising=False)
    files = [read(), read(factor=1.001), read()]
    (copied,), _ = check_files(files, ["a.json", "b.json", "c.json"])
    assert copied.what.endswith(": c.json")
