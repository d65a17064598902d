"""``gpudissect discover``: what it prints, writes and returns, also when something fails."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpudissect.device import kinds
from gpudissect.device.recording import format as recording
from gpudissect.device.recording.device import RecordedGpu, Recorder
from gpudissect.results.files import load
from gpudissect.workload import Chase, Sequential, Timing
from gpudissect.workload import Path as LoadPath

SIMULATED = ("discover", "-d", "sim:gtx980")


def test_prints_a_table_and_nothing_else(survey, gpudissect):
    code, out, err = gpudissect(*SIMULATED, "-o", "r.json")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].startswith("Fake  SIMULATED  sim:gtx980")
    assert "L1 data cache" in out and "hit_latency" not in out
    assert "hit_latency" in gpudissect(*SIMULATED, "--all")[1]


def test_without_a_device_one_line_names_the_one_used(survey, gpudissect):
    code, _, err = gpudissect("discover", "-o", "r.json")
    assert (code, err.count("\n")) == (0, 1)
    assert "sim:gtx980" in err


@pytest.mark.parametrize(
    ("options", "lines"),
    [((), 1), (("--quick",), 1), (("-o", "r.json"), 0), (("--record", "rec"), 0), (("--json",), 0)],
)
def test_one_line_says_that_the_result_was_not_saved(survey, gpudissect, options, lines):
    _, _, err = gpudissect(*SIMULATED, *options)
    assert err.count("\n") == err.count("-o FILE.json") == lines


def test_json_on_stdout_is_the_result_file(survey, gpudissect):
    code, out, err = gpudissect(*SIMULATED, "--json", "-o", "r.json")
    assert (code, err) == (0, "")
    assert out == Path("r.json").read_text()
    assert json.loads(out)["findings"][0]["value_ns"] == 30.0


def test_options_reach_the_survey_and_the_file(survey, gpudissect):
    options = ["--only", "l2", "--only", "l1", "--only", "l2", "--quick", "--seed", "7", "--compare-methods", "--json"]
    options += ["--precision", "3"]
    code, out, _ = gpudissect(*SIMULATED, *options)
    assert code == 0
    requested = {
        "elements": ("l2", "l1"),
        "quick": True,
        "seed": 7,
        "compare_methods": True,
        "methods": (),
        "precision": 3.0,
        "profile": None,
    }
    assert survey.options == requested
    assert json.loads(out)["options"] == {**survey.options, "elements": ["l2", "l1"], "methods": []}


def test_an_older_method_runs_alone(survey, gpudissect):
    assert gpudissect(*SIMULATED, "--method", "mt22", "--method", "wong", "--method", "mt22", "--json")[0] == 0
    assert survey.options["methods"] == ("mt22", "wong")
    assert survey.options["compare_methods"], "the study that older methods belong to"
    alone, whole = (gpudissect(*SIMULATED, *each)[1] for each in (("--method", "wong"), ("--all",)))
    assert alone == whole, "older methods have a table, no summary"
    code, _, err = gpudissect(*SIMULATED, "--method", "mt2")
    assert (code, err.strip()) == (2, "gpudissect: error: no such method: 'mt2'; did you mean mt22?")


def test_a_replay_finds_the_same_with_the_same_options(survey, gpudissect):
    options = ("--quick", "--seed", "4", "--only", "l1")
    assert gpudissect(*SIMULATED, "--record", "rec", "-o", "one.json", *options)[0] == 0
    assert gpudissect("discover", "-d", "rec:rec", "-o", "two.json")[0] == 0
    requested = {"elements": ("l1",), "quick": True, "seed": 4, "compare_methods": False, "methods": ()}
    assert survey.options == requested | {"precision": None, "profile": None}
    one, two = load(Path("one.json")), load(Path("two.json"))
    assert (one.findings, one.options) == (two.findings, two.options)
    assert (two.device.origin, two.device.recorded_origin) == ("replayed", "simulated")


def test_a_replay_with_another_seed_is_refused_at_once(survey, gpudissect, error_of):
    gpudissect(*SIMULATED, "--record", "rec")
    assert "--seed 0" in error_of("discover", "-d", "rec:rec", "--seed", "1", code=3)


def test_a_failed_experiment_is_4_and_keeps_the_others(survey, gpudissect):
    survey.fail_at = 1
    code, out, _ = gpudissect(*SIMULATED, "-o", "r.json")
    assert code == 4
    assert "l2: a kernel did not finish" in out
    assert [finding.element for finding in load(Path("r.json")).findings] == ["l1", "dram"]


def test_interrupted_is_130_and_keeps_what_was_measured(survey, gpudissect):
    survey.stop_at = 2
    code, out, _ = gpudissect(*SIMULATED, "-o", "r.json", "--record", "rec")
    assert code == 130
    assert "interrupted" in out
    assert load(Path("r.json")).interrupted
    assert len(load(Path("r.json")).findings) == 2
    assert RecordedGpu.open(Path("rec")).info.name == "Fake"


def test_a_run_without_a_finding_replaces_no_file(survey, gpudissect):
    outputs = ("-o", "good.json", "--html", "page.html", "--traces", "table.csv")
    assert gpudissect(*SIMULATED, *outputs)[0] == 0
    before = [Path(name).read_bytes() for name in outputs[1::2]]
    survey.stop_at = 0
    code, _, err = gpudissect(*SIMULATED, *outputs)
    assert code == 130
    assert "not replaced: good.json, page.html, table.csv;" in err and "are kept" not in err
    assert [Path(name).read_bytes() for name in outputs[1::2]] == before


def test_an_interrupted_run_is_written_beside_a_complete_result(survey, gpudissect):
    outputs = ("-o", "good.json", "--html", "page.html")
    assert gpudissect(*SIMULATED, *outputs)[0] == 0
    before = [Path(name).read_bytes() for name in outputs[1::2]]
    survey.stop_at = 2
    code, _, err = gpudissect(*SIMULATED, *outputs)
    assert code == 130 and "wrote good.partial.json, page.partial.html" in err and err.count("good.partial.json") == 1
    assert [Path(name).read_bytes() for name in outputs[1::2]] == before
    assert load(Path("good.partial.json")).interrupted and len(load(Path("good.partial.json")).findings) > 0
    first = Path("good.partial.json").read_bytes()
    assert gpudissect(*SIMULATED, *outputs)[0] == 130
    assert load(Path("good.partial2.json")).interrupted and Path("good.partial.json").read_bytes() == first


def test_an_interrupted_run_is_written_although_a_folder_has_the_name_of_its_file(survey, gpudissect):
    assert gpudissect(*SIMULATED, "-o", "good.json")[0] == 0
    Path("good.partial.json").mkdir()
    survey.stop_at = 2
    code, _, err = gpudissect(*SIMULATED, "-o", "good.json")
    assert code == 130 and "wrote good.partial2.json" in err
    assert load(Path("good.partial2.json")).interrupted


def test_a_foreign_recording_replaces_no_file(survey, gpudissect):
    chase = Chase(path=LoadPath.GLOBAL, order=Sequential(64, 32), timing=Timing.LAP)
    options = {"elements": None, "quick": False, "seed": 0, "compare_methods": False}
    with kinds.open_device("sim:gtx980") as gpu, Recorder(gpu, Path("foreign"), options=options) as recorder:
        recorder.run([replace(chase, laps=7)])
    gpudissect(*SIMULATED, "-o", "good.json")
    before = Path("good.json").read_bytes()
    code, _, err = gpudissect("discover", "-d", "rec:foreign", "-o", "good.json")
    assert code == 3 and "not replaced: good.json;" in err
    assert Path("good.json").read_bytes() == before


def test_a_run_without_a_finding_fills_new_and_empty_files(survey, gpudissect):
    Path("empty.json").touch()
    survey.stop_at = 0
    for name in ("new.json", "empty.json"):
        code, _, err = gpudissect(*SIMULATED, "-o", name)
        assert code == 130 and "not replaced" not in err
        assert load(Path(name)).interrupted


def test_a_complete_run_replaces_the_file(survey, gpudissect):
    Path("old.json").write_text("old")
    assert gpudissect(*SIMULATED, "-o", "old.json")[0] == 0
    assert len(load(Path("old.json")).findings) == 3


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
@pytest.mark.parametrize(
    ("option", "suffix"), [("-o", ""), ("--html", ".html"), ("--traces", ".csv"), ("--card", ".svg")]
)
def test_a_run_does_not_overwrite_its_recording(survey, error_of, output, record, option, suffix):
    Path("z").mkdir()
    links = {"folder_link": "z", "file_link": "z/recording.jsonl", "loop": "loop", "link_to_new": "new/recording.jsonl"}
    for link, target in links.items():
        Path(link).symlink_to(target)
    if suffix:  # a name that is valid for this option, of the same place
        Path(f"output{suffix}").symlink_to(output)
        output = f"output{suffix}"
    assert f"cannot write {Path(output)}" in error_of(*SIMULATED, option, output, "--record", record)
    assert survey.options == {}
    assert not Path("new").exists() and not list(Path("z").iterdir())


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (("-o", "no/such/r.json"), "no/such/r.json: there is no folder no/such"),
        (("-o", "."), "it is a folder"),
        (("-o", "same.json", "--html", "./same.json"), "same.json"),
        (("--traces", "t.txt"), ".csv or .parquet"),
        (("--card", "t.jpg"), ".svg or .png"),
        (("--record", "full"), "full: it is not empty"),
        (("--only", "l1x"), "did you mean l1"),
        (("--only", "moon"), "valid: timer, l1"),
        (("--seed", "-1"), "--seed"),
        (("--colour",), "--colour"),
        (("surplus",), "surplus"),
    ],
)
def test_invalid_arguments_are_refused_before_anything_is_measured(survey, error_of, arguments, fact):
    Path("full").mkdir()
    Path("full/file").touch()
    assert fact in error_of(*SIMULATED, *arguments)
    assert survey.options == {}


def test_a_recording_that_cannot_be_finished_costs_no_result(survey, gpudissect, monkeypatch):
    real = recording._write_all

    def nearly_full(file, data):
        if b'"end"' in data:
            raise OSError(28, "No space left on device")
        real(file, data)

    monkeypatch.setattr(recording, "_write_all", nearly_full)
    code, out, err = gpudissect(*SIMULATED, "--record", "rec", "-o", "r.json")
    assert (code, err.count("\n")) == (4, 1)
    assert len(load(Path("r.json")).findings) == 3
    assert "Device memory" in out
    assert "recording rec" in err and "No space left on device" in err


def test_traces_are_a_table(survey, gpudissect):
    assert gpudissect(*SIMULATED, "--traces", "t.csv")[0] == 0
    assert Path("t.csv").read_text().startswith("workload,kind,path")
