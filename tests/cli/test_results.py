"""Commands on result files: show, check, compare, export, schema."""

import json
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).parents[2]
H200 = ROOT / "docs" / "results" / "h200.json"


def test_schema_describes_the_result_file(survey, gpudissect):
    _, schema, _ = gpudissect("schema")
    _, result, _ = gpudissect("discover", "-d", "sim:gtx980", "--json")
    jsonschema.validate(json.loads(result), json.loads(schema))


def test_show_prints_what_discover_printed(survey, gpudissect):
    _, table, _ = gpudissect("discover", "-d", "sim:gtx980", "-o", "one.json")
    assert gpudissect("show", "one.json") == (0, table, "")
    code, both, _ = gpudissect("show", "--details", "one.json", "one.json")
    assert code == 0
    assert both.count("SIMULATED") == 2 and "evidence 1 workload" in " ".join(both.split())


def test_show_refuses_a_file_that_is_no_result(error_of, tmp_path):
    (tmp_path / "x.json").write_text("{}")
    assert "x.json" in error_of("show", tmp_path / "x.json")


def test_show_prints_json(survey, gpudissect):
    gpudissect("discover", "-o", "r.json")
    assert json.loads(gpudissect("show", "r.json", "--json")[1])["device"]["name"] == "Fake"
    assert len(json.loads(gpudissect("show", "r.json", "r.json", "--json")[1])) == 2


def test_a_page_is_written_while_measuring_and_from_the_file(survey, gpudissect):
    code, out, _ = gpudissect("discover", "-d", "sim:gtx980", "-o", "r.json", "--html", "r.html")
    assert code == 0 and "L1 data cache" in out
    page = Path("r.html").read_text()
    assert page.count('class="finding"') == 3 and "SIMULATED" in page
    assert gpudissect("show", "r.json", "--html", "again.html")[:2] == (0, "")
    assert Path("again.html").read_text().count('class="finding"') == 3


def test_a_card_is_written_while_measuring_and_from_the_file(survey, gpudissect, error_of):
    assert gpudissect("discover", "-d", "sim:gtx980", "-o", "r.json", "--card", "r.svg")[0] == 0
    assert gpudissect("show", "r.json", "--card", "again.svg")[:2] == (0, "")
    assert Path("r.svg").read_text() == Path("again.svg").read_text() and "SIMULATED" in Path("r.svg").read_text()
    assert gpudissect("show", "r.json", "--card", "card.png")[:2] == (0, "")
    assert Path("card.png").read_bytes().startswith(b"\x89PNG")
    assert ".svg or .png" in error_of("show", "r.json", "--card", "card.jpg")
    assert "got 2" in error_of("show", "r.json", "r.json", "--card", "x.svg")


def test_a_page_replaces_no_input_and_no_result(survey, gpudissect, error_of):
    gpudissect("discover", "-o", "r.json")
    gpudissect("discover", "-o", "old.json")
    before = Path("old.json").read_bytes()
    for command in (("show", "r.json"), ("compare", "r.json", "r.json")):
        assert "it is an input" in error_of(*command, "--html", "r.json")
    for command in (("show", "r.json"), ("compare", "r.json", "r.json"), ("discover", "-d", "sim:gtx980"), ("hide",)):
        assert ".html" in error_of(*command, "--html", "old.json")
    assert Path("old.json").read_bytes() == before
    assert "got 2" in error_of("show", "r.json", "r.json", "--html", "x.html")
    assert "nowhere" in error_of("discover", "-d", "sim:gtx980", "--html", "nowhere/x.html")


def test_compare(survey, gpudissect, error_of):
    gpudissect("discover", "-o", "a.json")
    gpudissect("discover", "-o", "b.json", "--seed", "5")
    code, out, _ = gpudissect("compare", "a.json", "b.json")
    assert code == 0 and "3 different" in out
    assert json.loads(gpudissect("compare", "a.json", "b.json", "--json")[1])["counts"]["different"] == 3
    assert gpudissect("compare", "a.json", "b.json", "--html", "c.html")[0] == 0
    assert "Comparison" in Path("c.html").read_text()
    assert "two or more results" in error_of("compare", "a.json")


def test_check(survey, gpudissect):
    gpudissect("discover", "-o", "a.json")
    code, out, _ = gpudissect("check", "a.json")
    assert code == 0 and out.startswith("stable")
    gpudissect("discover", "-o", "b.json", "--seed", "5")
    code, out, _ = gpudissect("check", "a.json", "b.json")
    assert code == 4 and "3 values differ from run to run" in out
    code, out, _ = gpudissect("check", "a.json", "b.json", "--json")
    assert code == 4 and json.loads(out)["stable"] is False
    assert json.loads(out)["concerns"][0]["files"] == json.loads(out)["files"] == ["a.json", "b.json"]


def test_check_names_the_files_of_each_concern(survey, gpudissect):
    gpudissect("discover", "-o", "a.json")
    gpudissect("discover", "-o", "quick.json", "--quick")
    code, out, _ = gpudissect("check", "a.json", "quick.json", "quick.json")
    assert code == 0 and "\nnote (quick.json, quick.json): quick run" in out
    assert "note: quick run" in gpudissect("check", "quick.json")[1]


def test_check_lists_the_files_of_each_group(survey, gpudissect):
    for name, options in (("a.json", ()), ("b.json", ()), ("quick.json", ("--quick",))):
        gpudissect("discover", "-o", name, *options)
    lines = gpudissect("check", "a.json", "b.json")[1].splitlines()
    assert lines[1] == "Fake, no GPU UUID, discover, 1000 MHz: a.json, b.json"
    assert not any(line.startswith("Fake") for line in gpudissect("check", "a.json")[1].splitlines())
    (group,) = json.loads(gpudissect("check", "quick.json", "--json")[1])["groups"]
    assert (group["settings"], group["files"]) == ("quick, 1000 MHz", ["quick.json"])


def test_an_unreadable_file_does_not_stop_the_check_of_the_others(survey, gpudissect):
    gpudissect("discover", "-o", "a.json")
    Path("bad.json").write_text("no")
    code, out, err = gpudissect("check", "bad.json", "a.json", "missing.json")
    assert code == 2 and out.startswith("stable") and err.count("\n") == 2
    assert "bad.json" in err and "missing.json" in err
    code, out, _ = gpudissect("check", "bad.json", "a.json", "--json")
    assert code == 2 and (json.loads(out)["files"], json.loads(out)["unreadable"]) == (["a.json"], ["bad.json"])


def test_files_of_links_are_checked_too(survey, gpudissect, error_of):
    gpudissect("discover", "-o", "r.json")
    for name, latency in (("a.links.json", 800.0), ("b.links.json", 900.0)):
        value = {"value": latency, "low": latency - 5, "high": latency + 5, "unit": "ns"}
        gpus = [{"spec": f"cuda:{n}", "name": "H200", "origin": "measured", "gpu_uuid": f"GPU-{n}"} for n in (0, 1)]
        content = {"schema": "gpudissect-links/1", "gpus": gpus}
        links = [{"from": "cuda:0", "to": "cuda:1", "link_latency": value}]
        Path(name).write_text(json.dumps(content | {"links": links}))
    assert gpudissect("check", "a.links.json")[:2] == (0, "stable\n")
    code, out, _ = gpudissect("check", "a.links.json", "r.json", "b.links.json")
    assert code == 4 and "H200, GPU-0, GPU-1, links, 2 GPUs: a.links.json, b.links.json" in out
    assert "(a.links.json, b.links.json): 1 value differs" in out and "cuda:0 to cuda:1 link_latency 800-900 ns" in out
    assert "'gpudissect check'" in error_of("show", "a.links.json")
    Path("b.links.json").write_text(json.dumps(content | {"links": links * 2}))
    code, out, err = gpudissect("check", "a.links.json", "b.links.json")
    assert code == 2 and out == "stable\n" and "b.links.json is not a valid file of links: it has the link" in err


def test_export_prints_a_gpu_file_which_is_a_device(gpudissect, tmp_path):
    code, out, err = gpudissect("export", H200, "--format", "gpu")
    assert (code, err) == (0, "")
    assert out.startswith("# NVIDIA H200\n") and '\nname = "NVIDIA H200"\n' in out
    file = tmp_path / "mine.toml"
    assert gpudissect("export", H200, "-f", "gpu", "-o", file) == (0, "", "")
    code, out, _ = gpudissect("chase", "-d", f"sim:{file}", "--size", "4KiB", "--json")
    assert code == 0 and "NVIDIA H200" in out


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        ((H200,), "'--format'"),
        (("-f", "gpu"), "'FILE'"),
        ((H200, "-f", "mtg"), "'mtg'; did you mean mt4g?"),
        ((H200, "-f", "xml"), "'xml'; valid: gpu"),
        (("nowhere.json", "-f", "gpu"), "nowhere.json: No such file"),
        (("empty.json", "-f", "gpu"), "empty.json is not a result file: it is empty"),
        (("nothing.json", "-f", "gpu"), "run discover on all elements"),
        ((H200, "-f", "gpu", "-o", "no/folder.toml"), "no/folder.toml: there is no folder no"),
        ((H200, "-f", "gpu", "-o", "."), "it is a folder"),
        ((H200, "-f", "csv", "-o", "mine.toml"), "the name of a GPU file"),
        ((H200, "-f", "gpu", "-o", "page.html"), "cannot write page.html"),
    ],
)
def test_what_cannot_be_exported(error_of, tmp_path, monkeypatch, arguments, fact):
    monkeypatch.chdir(tmp_path)
    Path("empty.json").touch()
    device = '{"spec": "cuda:0", "name": "x\\n\\u001b[2J", "origin": "measured", "sm_count": 1}'
    Path("nothing.json").write_text(f'{{"schema": "gpudissect/1", "device": {device}}}')
    error = error_of("export", *arguments)
    assert fact in error and "\x1b" not in error


def test_a_wrong_name_of_a_card_is_known_before_the_page_is_written(error_of, tmp_path):
    page = tmp_path / "page.html"
    error_of("show", H200, "--html", page, "--card", tmp_path / "card.html")
    assert not page.exists()


def test_a_failed_export_keeps_the_file(error_of, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("mine")
    error_of("export", H200, "-f", "xml", "-o", file)
    assert file.read_text() == "mine"


def test_no_output_replaces_what_is_read_or_recorded(error_of, tmp_path):
    result, gpu, recording = tmp_path / "result.json", tmp_path / "gpu.toml", tmp_path / "recording"
    result.write_bytes(H200.read_bytes())
    (tmp_path / "link.json").symlink_to(result)
    gpu.write_text((ROOT / "src/gpudissect/catalogue/gpus/gtx780.toml").read_text())
    for arguments, fact in [
        (("export", result, "-f", "gpu", "-o", tmp_path / "link.json"), "it is an input"),
        (("discover", "-d", f"sim:{gpu}?noise=0", "-o", gpu), "it is an input"),
        (("discover", "-d", f"rec:{recording}", "-o", recording / "arrays.bin"), "it is an input"),
        (("discover", "-d", "sim:gtx780", "--record", recording, "-o", recording / "recording.jsonl"), recording.name),
    ]:
        assert fact in error_of(*arguments)
    assert result.read_bytes() == H200.read_bytes()
    assert gpu.read_text().startswith("#")
