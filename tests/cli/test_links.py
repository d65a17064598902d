"""``gpudissect links``: matrices on the screen, as JSON and as a page; here of a simulated GPU, which has no links."""

import json

import pytest

SIMULATED = ("links", "-d", "sim:gtx980")


def test_without_a_value_the_reasons_alone_are_printed(gpudissect):
    code, out, err = gpudissect(*SIMULATED)
    assert (code, err) == (0, "")
    assert all(": no " in line for line in out.splitlines()) and "sim:gtx980 to host: no " in out


def test_no_input_and_no_other_output_is_replaced(gpudissect, tmp_path):
    folder, page = tmp_path / "run", tmp_path / "links.html"
    gpudissect("discover", "-d", "sim:gtx980", "--only", "timer", "--record", str(folder))
    index = folder / "recording.jsonl"
    before, alias = index.read_bytes(), tmp_path / "alias.json"
    alias.symlink_to(page)
    assert gpudissect("links", "-d", f"rec:{folder}", "-o", str(index))[0] == 2
    assert gpudissect(*SIMULATED, "-o", str(alias), "--html", str(page))[0] == 2
    assert index.read_bytes() == before and not page.exists()


def test_a_full_disk_costs_no_output(gpudissect):
    code, out, err = gpudissect(*SIMULATED, "-o", "/dev/full")
    assert code == 4 and "to host: no " in out and "cannot write /dev/full" in err


def test_files_of_an_earlier_run_are_not_replaced_by_nothing(gpudissect, tmp_path):
    kept = tmp_path / "links.json"
    kept.write_text("earlier")
    code, _, err = gpudissect(*SIMULATED, "-o", str(kept))
    assert code == 4 and "not replaced" in err and kept.read_text() == "earlier"


def test_files_hold_what_json_prints(gpudissect, tmp_path):
    data, page = tmp_path / "links.json", tmp_path / "links.html"
    code, out, _ = gpudissect(*SIMULATED, "-o", str(data), "--html", str(page), "--json")
    assert code == 0 and json.loads(data.read_text()) == json.loads(out)
    assert json.loads(out)["schema"] == "gpudissect-links/1"
    assert "sim:gtx980: NVIDIA GeForce GTX 980, simulated" in page.read_text()


@pytest.mark.parametrize(("option", "name"), [("-o", "links.html"), ("--html", "links.json"), ("-o", "no/links.json")])
def test_a_file_that_cannot_be_written_is_refused_before_measuring(gpudissect, tmp_path, option, name):
    code, out, err = gpudissect(*SIMULATED, option, str(tmp_path / name))
    assert code == 2 and out == "" and err.count("\n") == 1


def test_a_device_that_does_not_exist_is_one_line(gpudissect):
    code, _, err = gpudissect("links", "-d", "sim:nothing")
    assert code == 3 and err.count("\n") == 1
