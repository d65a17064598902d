"""``gpudissect discover``: what it prints, writes and returns, also when things go wrong."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpudissect.device import find
from gpudissect.device.recording.device import RecordedGpu, Recorder
from gpudissect.results.files import load
from gpudissect.workload import Chase, Sequential, Timing
from gpudissect.workload import Path as LoadPath


def test_prints_a_table_and_nothing_else(survey, gpudissect):
    code, out, err = gpudissect("discover", "-d", "sim:gtx980")
    assert code == 0
    assert err == ""
    assert out.splitlines()[0] == "Fake  SIMULATED  sim:gtx980"
    assert "hit_latency" in out


def test_without_a_device_says_in_one_line_which_it_took(survey, gpudissect):
    code, _, err = gpudissect("discover")
    assert code == 0
    assert err.count("\n") == 1
    assert "sim:gtx980" in err


def test_json_on_stdout_is_the_result_file(survey, gpudissect):
    code, out, _ = gpudissect("discover", "-d", "sim:gtx980", "--json", "-o", "r.json")
    assert code == 0
    assert out == Path("r.json").read_text()
    assert json.loads(out)["findings"][0]["value_ns"] == 30.0


def test_options_reach_the_survey_and_the_file(survey, gpudissect):
    code, out, _ = gpudissect(
        "discover",
        "-d",
        "sim:gtx980",
        "--only",
        "l2",
        "--only",
        "l1",
        "--only",
        "l2",
        "--quick",
        "--seed",
        "7",
        "--compare-methods",
        "--json",
    )
    assert code == 0
    assert survey.asked == {"elements": ("l2", "l1"), "quick": True, "seed": 7, "compare_methods": True}
    assert json.loads(out)["options"] == {**survey.asked, "elements": ["l2", "l1"]}


def test_a_replay_finds_the_same_with_the_same_options(survey, gpudissect):
    options = ("--quick", "--seed", "4", "--only", "l1")
    assert gpudissect("discover", "-d", "sim:gtx980", "--record", "rec", "-o", "one.json", *options)[0] == 0
    assert gpudissect("discover", "-d", "rec:rec", "-o", "two.json")[0] == 0
    assert survey.asked == {"elements": ("l1",), "quick": True, "seed": 4, "compare_methods": False}
    one, two = load(Path("one.json")), load(Path("two.json"))
    assert one.findings == two.findings
    assert one.options == two.options
    assert (two.device.origin, two.device.recorded_origin) == ("replayed", "simulated")


def test_a_replay_with_another_seed_is_refused_at_once(survey, gpudissect):
    gpudissect("discover", "-d", "sim:gtx980", "--record", "rec")
    code, out, err = gpudissect("discover", "-d", "rec:rec", "--seed", "1")
    assert code == 3
    assert out == ""
    assert "recorded with --seed 0" in err


def test_done_in_part_is_4_and_keeps_the_rest(survey, gpudissect):
    survey.fail_at = 1
    code, out, _ = gpudissect("discover", "-d", "sim:gtx980", "-o", "r.json")
    assert code == 4
    assert "failed: l2: a kernel did not finish" in out
    assert [finding.element for finding in load(Path("r.json")).findings] == ["l1", "dram"]


def test_interrupted_is_130_and_keeps_what_was_measured(survey, gpudissect):
    survey.stop_at = 2
    code, out, _ = gpudissect("discover", "-d", "sim:gtx980", "-o", "r.json", "--record", "rec")
    assert code == 130
    assert "interrupted" in out
    assert load(Path("r.json")).interrupted
    assert len(load(Path("r.json")).findings) == 2
    assert RecordedGpu.open(Path("rec")).info.name == "Fake"


OUTPUTS = ("good.json", "page.html", "table.csv")
WRITE_ALL = ("-o", "good.json", "--html", "page.html", "--traces", "table.csv")


def test_a_run_that_finds_nothing_replaces_no_file(survey, gpudissect):
    assert gpudissect("discover", "-d", "sim:gtx980", *WRITE_ALL)[0] == 0
    before = [Path(name).read_bytes() for name in OUTPUTS]
    survey.stop_at = 0
    code, _, err = gpudissect("discover", "-d", "sim:gtx980", *WRITE_ALL)
    assert code == 130
    assert "not replaced: good.json, page.html, table.csv;" in err
    assert "is kept" not in err
    assert [Path(name).read_bytes() for name in OUTPUTS] == before


def test_a_foreign_recording_replaces_no_file(survey, gpudissect, monkeypatch):
    chase = Chase(path=LoadPath.GLOBAL, order=Sequential(64, 32), timing=Timing.LAP)
    options = {"elements": None, "quick": False, "seed": 0, "compare_methods": False}
    with find.open_device("sim:gtx980") as gpu, Recorder(gpu, Path("foreign"), options=options) as recorder:
        recorder.run([replace(chase, laps=7)])
    gpudissect("discover", "-d", "sim:gtx980", "-o", "good.json")
    before = Path("good.json").read_bytes()
    code, _, err = gpudissect("discover", "-d", "rec:foreign", "-o", "good.json")
    assert code == 3
    assert "not replaced: good.json;" in err
    assert Path("good.json").read_bytes() == before


def test_a_run_that_finds_nothing_replaces_no_file_of_one_of_several_gpus(two_gpus, gpudissect):
    Path("r.cuda0.json").write_text("good")
    two_gpus.stop_at = 0
    code, _, err = gpudissect("discover", "-d", "cuda:all", "-o", "r.json")
    assert code == 130 and "not replaced: r.cuda0.json;" in err
    assert Path("r.cuda0.json").read_text() == "good"


def test_a_run_that_finds_nothing_still_fills_new_and_empty_files(survey, gpudissect):
    Path("empty.json").touch()
    survey.stop_at = 0
    for name in ("new.json", "empty.json"):
        code, _, err = gpudissect("discover", "-d", "sim:gtx980", "-o", name)
        assert code == 130 and "not replaced" not in err
        assert load(Path(name)).interrupted


def test_a_run_that_finds_something_replaces_the_file(survey, gpudissect):
    Path("old.json").write_text("old")
    survey.stop_at = 1
    assert gpudissect("discover", "-d", "sim:gtx980", "-o", "old.json")[0] == 130
    assert len(load(Path("old.json")).findings) == 1


@pytest.mark.parametrize(
    ("output", "record"),
    [
        ("z/../z/recording.jsonl", "z"),
        ("z/recording.jsonl", "z/../z"),
        ("new/../new/recording.jsonl", "new"),
        ("z/arrays.bin", "folder_link"),
        ("file_link", "z"),
        ("link_to_new", "new"),
        ("new", "new"),
        ("./new", "z/../new"),
        ("new", "new/inner"),
        ("loop", "loop/inner"),
    ],
)
@pytest.mark.parametrize("option", ["-o", "--html", "--traces"])
def test_a_run_does_not_overwrite_its_recording(survey, gpudissect, output, record, option):
    ending = {"-o": "", "--html": ".html", "--traces": ".csv"}[option]
    Path("z").mkdir()
    for link, target in (("folder_link", "z"), ("file_link", "z/recording.jsonl"), ("loop", "loop"),
                         ("link_to_new", "new/recording.jsonl")):  # fmt: skip
        Path(link).symlink_to(target)
    if ending:  # a name that is right for this option, of the same place
        Path(f"output{ending}").symlink_to(output)
        output = f"output{ending}"
    code, out, err = gpudissect("discover", "-d", "sim:gtx980", option, output, "--record", record)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"cannot write {Path(output)}" in err
    assert survey.asked == {}
    assert not Path("new").exists() and not list(Path("z").iterdir())


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("-o", "no/such/r.json"), "no/such/r.json: there is no folder no/such"),
        (("-o", "."), "it is a folder"),
        (("-o", "same.json", "--html", "./same.json"), "something else is written there; name two files"),
        (("--record", "full"), "full: it is not empty"),
        (("--only", "l1x"), "did you mean l1"),
        (("--only", "moon"), "there are timer, l1"),
        (("--seed", "-1"), "--seed"),
        (("--colour",), "--colour"),
        (("surplus",), "surplus"),
    ],
)
def test_wrong_usage_is_one_line_and_2_before_anything_is_measured(survey, gpudissect, arguments, why):
    Path("full").mkdir()
    Path("full/file").touch()
    code, out, err = gpudissect("discover", "-d", "sim:gtx980", *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("gpudissect: error: ")
    assert err.count("\n") == 1
    assert why in err
    assert survey.asked == {}


def test_a_recording_that_cannot_be_finished_costs_no_result(survey, gpudissect, monkeypatch):
    from gpudissect.device.recording import format as recording

    real = recording._write_all

    def nearly_full(file, data):
        if b'"end"' in data:
            raise OSError(28, "No space left on device")
        real(file, data)

    monkeypatch.setattr(recording, "_write_all", nearly_full)
    code, out, err = gpudissect("discover", "-d", "sim:gtx980", "--record", "rec", "-o", "r.json")
    assert code == 2
    assert len(load(Path("r.json")).findings) == 3
    assert "hit_latency" in out
    assert err == (
        "gpudissect: error: the recording rec is cut off: No space left on device; what was written before is kept\n"
    )


@pytest.fixture
def two_gpus(survey, monkeypatch):
    gpus = [find.Listing(f"cuda:{index}", "Fake", "measured") for index in (0, 1)]
    monkeypatch.setattr(find, "_cuda_gpus", lambda: gpus)
    return survey


def test_all_gpus_give_a_file_and_a_recording_each(two_gpus, gpudissect):
    code, out, err = gpudissect("discover", "-d", "cuda:all", "-o", "r.json", "--record", "rec", "--json")
    assert (code, err) == (0, "")
    assert [result["device"]["spec"] for result in json.loads(out)] == ["cuda:0", "cuda:1"]
    assert load(Path("r.cuda0.json")).device.spec == "cuda:0"
    assert load(Path("r.cuda1.json")).device.spec == "cuda:1"
    for name in ("rec/cuda0", "rec/cuda1"):
        assert RecordedGpu.open(Path(name)).info.name == "Fake"


def test_one_broken_gpu_does_not_cost_the_others(two_gpus, gpudissect, monkeypatch):
    from gpudissect.errors import DeviceError

    working = find.open_device

    def open_device(spec, *, seed=0):
        if spec == "cuda:0":
            raise DeviceError("cuda:0 fell off the bus")
        return working(spec, seed=seed)

    monkeypatch.setattr(find, "open_device", open_device)
    code, out, err = gpudissect("discover", "-d", "cuda:all")
    assert code == 4
    assert err == "gpudissect: error: cuda:0 fell off the bus\n"
    assert "cuda:1" in out


def test_traces_are_a_table_of_a_name_that_says_which(survey, gpudissect):
    assert gpudissect("discover", "-d", "sim:gtx980", "--traces", "t.csv")[0] == 0
    assert Path("t.csv").read_text().startswith("workload,kind,path")
    code, _, err = gpudissect("discover", "-d", "sim:gtx980", "--traces", "t.txt")
    assert code == 2 and "must end in .csv or .parquet" in err
