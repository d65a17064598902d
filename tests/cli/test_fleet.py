"""``gpudissect fleet report``: exit codes, JSON, metrics, and folders with other files in them."""

import json
import os
import re
from pathlib import Path

import pytest

from gpudissect.cli.app import main

H200 = Path(__file__).parents[2] / "docs" / "results" / "h200.json"


@pytest.fixture
def folder(tmp_path):
    """Twelve cards of two nodes; the DRAM of one is 30 % slow, and one lacks an SM."""
    result = json.loads(H200.read_text(encoding="utf-8")) | {"series": []}
    result["findings"] = [each for each in result["findings"] if each["element"] == "dram"]
    for number in range(12):
        card = json.loads(json.dumps(result))
        card["provenance"] |= {"gpu_uuid": f"GPU-{number:08x}", "host": f"node{number // 8}"}
        card["device"] |= {"spec": f"cuda:{number % 8}", "sm_count": 131 if number == 7 else 132}
        for each in card["findings"] if number == 5 else ():
            if each["unit"] == "B/s" and each["status"] == "found" and isinstance(each["value"], float):
                each |= {name: 0.7 * each[name] for name in ("value", "low", "high")}
        (tmp_path / f"node{number // 8}").mkdir(exist_ok=True)
        (tmp_path / f"node{number // 8}" / f"{number}.json").write_text(json.dumps(card), encoding="utf-8")
    return tmp_path


def test_cards_that_are_out(folder, capsys):
    assert main(["fleet", "report", str(folder)]) == 4
    summary, *out = capsys.readouterr().out.splitlines()
    assert "12 cards" in summary and "2 out" in summary
    assert sorted(line.split(" (")[0] for line in out) == ["node0 cuda:5", "node0 cuda:7"]


def test_json_lists_every_card(folder, capsys):
    assert main(["fleet", "report", str(folder), "--json"]) == 4
    content = json.loads(capsys.readouterr().out)
    assert content["schema"] == "gpudissect-fleet/1" and content["runs"] == len(content["cards"]) == 12
    assert [each["card"] for each in content["cards"] if each["out"]] == ["GPU-00000007", "GPU-00000005"]


def test_metrics_for_prometheus(folder):
    hostile = folder / "node0" / "0.json"
    hostile.write_text(hostile.read_text(encoding="utf-8").replace('"node0"', r'"a\"} 1\nb"'), encoding="utf-8")
    file = folder / "gpu.prom"
    main(["fleet", "report", str(folder), "--prometheus", str(file)])
    lines = file.read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("gpudissect_card_out{") for line in lines) == 12
    assert all(line.startswith(("# ", "gpudissect_")) for line in lines) and any(r"a\"} 1" in line for line in lines)


def test_metrics_of_a_card_measured_in_two_ways_differ_in_a_label(folder):
    card = json.loads((folder / "node0" / "0.json").read_text(encoding="utf-8"))
    card["options"]["quick"] = True
    (folder / "quick.json").write_text(json.dumps(card), encoding="utf-8")
    main(["fleet", "report", str(folder), "--prometheus", str(folder / "gpu.prom")])
    names = [line.rpartition(" ")[0] for line in (folder / "gpu.prom").read_text(encoding="utf-8").splitlines()]
    samples = [name for name in names if not name.startswith("#")]
    assert len(samples) == len(set(samples)) and sum('settings="' in name for name in samples) == len(samples)


@pytest.mark.parametrize(
    "options",
    [
        ("--prometheus", "mine.toml"),
        ("--prometheus", "page.html"),
        ("--html", "metrics.prom"),
        ("--html", "a.html", "--prometheus", "a.html"),
    ],
)
def test_no_file_of_another_kind_is_replaced(folder, monkeypatch, options):
    monkeypatch.chdir(folder)
    for name in options[1::2]:
        Path(name).write_text("mine")
    assert main(["fleet", "report", str(folder), *options]) == 2
    assert all(Path(name).read_text() == "mine" for name in options[1::2])


@pytest.mark.parametrize("name", ["x" * 300, "no/such" * 900])
def test_a_name_that_no_folder_can_have(name, capsys):
    assert main(["fleet", "report", name]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_page_has_a_row_for_each_card_and_escapes_names(folder):
    hostile = folder / "node0" / "0.json"
    hostile.write_text(hostile.read_text(encoding="utf-8").replace('"node0"', '"<b>x"'), encoding="utf-8")
    file = folder / "fleet.html"
    main(["fleet", "report", str(folder), "--html", str(file)])
    page = file.read_text(encoding="utf-8")
    assert page.count("<tr>") == 13 and page.count("<strong>out</strong>") == 2
    assert "<b>x" not in page and "slow-4" in page


@pytest.mark.parametrize("option", ["--html", "--prometheus"])
def test_a_result_is_never_overwritten(folder, option):
    file = folder / "node0" / "0.json"
    before = file.read_bytes()
    assert main(["fleet", "report", str(folder), option, str(file)]) == 2
    assert file.read_bytes() == before


def test_a_pipe_in_the_folder_is_not_awaited(folder):
    os.mkfifo(folder / "pipe.json")
    assert main(["fleet", "report", str(folder)]) == 4


def test_healthy_cards(folder, capsys):
    for number in (5, 7):
        (folder / "node0" / f"{number}.json").unlink()
    assert main(["fleet", "report", str(folder)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_damaged_files_among_good_ones(folder, capsys):
    (folder / "cut.json").write_text('{"schema": "gpu', encoding="utf-8")
    (folder / "other.json").write_text("[]", encoding="utf-8")
    (folder / ".hidden.json").write_text("[]", encoding="utf-8")
    assert main(["fleet", "report", str(folder)]) == 4
    printed = capsys.readouterr()
    assert len(printed.err.splitlines()) == 2 and "12 cards" in printed.out


@pytest.mark.parametrize("name", ["missing", "file.json", "empty"])
def test_a_folder_without_results(tmp_path, capsys, name):
    (tmp_path / "file.json").write_text("{}", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    assert main(["fleet", "report", str(tmp_path / name)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert name in line


def test_without_a_command_the_help_is_printed(capsys):
    assert main(["fleet"]) == 0
    assert "report" in capsys.readouterr().out


def test_run_measures_simulated_cards_and_resumes(tmp_path, capsys):
    command = ["fleet", "run", str(tmp_path), "-d", "sim:gtx980", "--only", "timer", "--workers", "1"]
    assert main([*command, "--count", "1"]) == 0
    assert capsys.readouterr().out.startswith("1 of 1 cards measured, in ")
    assert main([*command, "--count", "2", "--resume", "--json"]) == 0
    ended = json.loads(capsys.readouterr().out)
    assert (ended["schema"], ended["cards"], ended["measured"]) == ("gpudissect-fleet-run/1", 2, 2)
    assert len(list(tmp_path.rglob("*.json"))) == 2


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        (["--local", "--scheduler", "tcp://a:1"], 2, "name one"),
        (["--count", "2"], 2, "name their model"),
        (["-d", "cuda:0"], 2, "-d names a simulated GPU"),
        (["-d", "sim:gtx981"], 3, "did you mean sim:gtx980"),
        (["-d", "sim:gtx980", "--only", "l9"], 2, "l9"),
        (["-d", "sim:gtx980", "--resume"], 2, "no run to resume"),
    ],
)
def test_what_cannot_be_run(tmp_path, capsys, options, code, why):
    assert main(["fleet", "run", str(tmp_path), *options]) == code
    assert why in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_columns_in_which_a_card_is_out_come_first(folder):
    file = folder / "fleet.html"
    main(["fleet", "report", str(folder), "--html", str(file)])
    columns = re.findall('<th scope="col">([^<]*)</th>', file.read_text(encoding="utf-8"))
    assert columns[:3] == ["card", "", "Device memory: read bandwidth"]


@pytest.fixture
def history(folder):
    """Three runs of each card; the DRAM of one is 30 % slow in the last run, and the map of another one changes."""
    for file in list((folder / "node0").glob("*.json")) + list((folder / "node1").glob("*.json")):
        card = json.loads(file.read_text(encoding="utf-8"))
        sm_map = {"element": "l2", "attribute": "partition_by_sm", "status": "found", "value": [0, 0, 1] * 44}
        moved = sm_map | {"value": [0, 1, 1] * 44}
        card["device"]["sm_count"] = 132
        for day in range(1, 4):
            card["provenance"]["time"] = f"2026-11-0{day}T10:00:00+00:00"
            copy = json.loads(json.dumps(card))
            for each in copy["findings"] if file.stem == "5" and day < 3 else ():
                if each["unit"] == "B/s" and each["status"] == "found" and isinstance(each["value"], float):
                    each |= {name: each[name] / 0.7 for name in ("value", "low", "high")}
            copy["findings"].append(moved if file.stem == "9" and day == 3 else sm_map)
            (folder / f"run-{day}").mkdir(exist_ok=True)
            (folder / f"run-{day}" / file.name).write_text(json.dumps(copy), encoding="utf-8")
        file.unlink()
    return folder


def test_a_changed_map_is_reported_and_not_out(history, capsys):
    assert main(["fleet", "report", str(history)]) == 4
    summary, *lines = capsys.readouterr().out.splitlines()
    assert "1 out" in summary and [line.split(" (")[0] for line in lines] == ["node0 cuda:5", "node1 cuda:1"]
    assert "fingerprint of L2 partitions" in lines[1] and "earlier runs" in lines[0]


def test_json_has_the_map_of_each_card_and_its_id(history, capsys):
    main(["fleet", "report", str(history), "--json"])
    cards = {each["card"]: each for each in json.loads(capsys.readouterr().out)["cards"]}
    first, changed = cards["GPU-00000000"], cards["GPU-00000009"]
    assert first["partitions"] == "aab" * 44 and changed["partitions"] == "abb" * 44
    assert re.fullmatch("[0-9a-f]{8}", first["fingerprint"]) and first["fingerprint"] != changed["fingerprint"]


@pytest.mark.parametrize(("name", "code"), [("node0 cuda:5", 4), ("GPU-00000004", 0), ("GPU-00000009", 0)])
def test_one_card_over_its_runs(history, capsys, name, code):
    assert main(["fleet", "report", str(history), "--card", name]) == code
    title, *rows = capsys.readouterr().out.splitlines()
    assert name in title and sum(line.startswith("2026-11-0") and ".json" in line for line in rows) == 3
    assert any("drift" in line and "-30.0%" in line for line in rows) is (code == 4)
    assert any("earlier runs" in line for line in rows) is (code == 4)
    assert any("fingerprint" in line for line in rows) is name.endswith("9")


def test_one_card_as_json(history, capsys):
    assert main(["fleet", "report", str(history), "--card", "GPU-00000005", "--json"]) == 4
    content = json.loads(capsys.readouterr().out)
    (found,) = content["histories"]
    assert content["schema"] == "gpudissect-fleet-history/1" and found["label"] == "node0 cuda:5"
    assert [any(value["is_drift"] for value in run["values"]) for run in found["runs"]] == [False, False, True]
    assert all(len(run["fingerprint"]) == 8 for run in found["runs"])


@pytest.mark.parametrize("options", [("--card", "node"), ("--card", "GPU-1"), ("--card", "GPU-0", "--html", "a.html")])
def test_a_card_that_cannot_be_shown(history, capsys, options):
    assert main(["fleet", "report", str(history), *options]) == 2
    assert capsys.readouterr().err.count("\n") == 1
