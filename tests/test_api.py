"""What ``import gpudissect`` offers: the same as the commands, with results for values."""

import ast
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import gpudissect as gd
from gpudissect.cli.app import main
from gpudissect.device import kinds

CHASE = gd.Chase(path=gd.Path.GLOBAL, order=gd.Sequential(64, 32), timing=gd.Timing.EACH, laps=2)


@pytest.fixture(scope="module")
def result():
    return gd.discover("sim:gtx980", elements=["timer", "shared"], quick=True)


def test_every_name_is_there_and_checkers_see_the_same():
    tree = ast.parse(Path(gd.__file__).read_text(encoding="utf-8"))
    checked, _ = [node for node in tree.body if isinstance(node, ast.If)]
    names = {(each.module, alias.name) for each in checked.body for alias in each.names}
    assert names == {(home, name) for name, home in gd._HOME.items()}
    assert set(gd.__all__) <= set(dir(gd))
    for name in gd.__all__:
        assert getattr(gd, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'discovr'"):
        _ = gd.discovr


def test_discover_finds_what_the_command_finds(result, tmp_path):
    file = tmp_path / "r.json"
    options = ["--only", "timer", "--only", "shared", "--quick", "-o", str(file)]
    assert main(["discover", "-d", "sim:gtx980", *options]) == 0
    assert gd.load(file).findings == result.findings
    result.save(tmp_path / "again.json")
    assert gd.load(tmp_path / "again.json") == result


def test_a_finding_and_a_series_by_name(result):
    assert result.finding("shared", "hit_latency").unit == "cycles"
    with pytest.raises(KeyError, match=r"no shared\.hit_latncy; of shared there is .*hit_latency"):
        result.finding("shared", "hit_latncy")
    with pytest.raises(KeyError, match="no series 'x' of timer; there is latency of a load by lap"):
        result.observed("timer", "x")
    with pytest.raises(KeyError, match="no series 'x' of l2; there is none"):
        result.observed("l2", "x")


def test_recorded_and_replayed_with_a_page(tmp_path):
    first = gd.discover("sim:gtx980", elements=["timer"], record=tmp_path / "rec", html=tmp_path / "p.html", seed=3)
    again = gd.discover(f"rec:{tmp_path / 'rec'}")
    assert again.findings == first.findings and again.options == first.options
    assert "<figure" in (tmp_path / "p.html").read_text()  # the traces behind it
    with pytest.raises(gd.DeviceError, match="recorded with --seed 3"):
        gd.discover(f"rec:{tmp_path / 'rec'}", seed=4)
    with pytest.raises(gd.UsageError, match="it is an input"):
        gd.discover(f"rec:{tmp_path / 'rec'}", html=tmp_path / "rec" / "recording.jsonl")


def test_a_page_takes_no_results_place_here_either(tmp_path):
    (tmp_path / "old.json").write_text("{}")
    with pytest.raises(gd.UsageError, match=r"the name of a page must end in \.html"):
        gd.discover("sim:gtx980", elements=["timer"], html=tmp_path / "old.json")
    assert (tmp_path / "old.json").read_text() == "{}"


def test_without_a_gpu_the_simulated_one_is_taken_and_said(monkeypatch):
    monkeypatch.setattr(kinds, "_cuda_gpus", list)
    with pytest.warns(UserWarning, match=r"no CUDA GPU can be used .*; taking sim:gtx980") as warned:
        found = gd.discover(elements=["timer"])
    assert found.device.spec == "sim:gtx980" and warned[0].filename == __file__
    with pytest.warns(UserWarning, match="taking sim:gtx980") as warned:
        gd.run(CHASE)
    assert warned[0].filename == __file__


def test_several_gpus_are_not_one(monkeypatch):
    monkeypatch.setattr(kinds, "_cuda_gpus", lambda: [kinds.Listing(f"cuda:{n}", "X", "measured") for n in (0, 1)])
    with pytest.raises(gd.UsageError, match="names 2 GPUs where one is needed; name one, such as cuda:0"):
        gd.discover("cuda:all")


@pytest.mark.parametrize("call", [gd.discover, gd.hide])
def test_wrong_elements_are_told_before_anything_runs(call):
    with pytest.raises(gd.UsageError, match="no such element"):
        call("sim:gtx980", elements=["l9"])
    with pytest.raises(gd.UsageError, match="elements are a list"):
        call("sim:gtx980", elements="l1")


def test_an_interrupt_gives_what_was_measured():
    def stop(done: int, total: int, what: str) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted; the result holds") as warned:
        partial = gd.discover("sim:gtx980", elements=["timer", "l1"], progress=stop)
    assert partial.interrupted and partial.finding("timer", "overhead").value is not None
    assert "interrupted" in partial._repr_html_() and warned[0].filename == __file__


def test_a_run_that_finds_nothing_replaces_no_file(tmp_path):
    def stop(done: int, total: int, what: str) -> None:
        raise KeyboardInterrupt

    page = tmp_path / "page.html"
    page.write_text("good")
    with pytest.warns(UserWarning) as warned:
        partial = gd.discover("sim:gtx980", elements=["timer"], html=page, progress=stop)
    assert partial.interrupted and page.read_text() == "good"
    assert [f"not replaced: {page};" in str(each.message) for each in warned] == [True, False]
    assert {each.filename for each in warned} == {__file__}


def test_one_trace_or_several_and_a_device_that_stays_open():
    one = gd.run(CHASE, "sim:gtx980?noise=none")
    assert isinstance(one, gd.Trace) and one.cycles.shape == (128,)
    with gd.open_device("sim:gtx980?noise=none") as device:
        several = gd.run([CHASE, CHASE], device)
        assert len(gd.run([CHASE], device)) == 1
    assert np.array_equal(several[0].cycles, one.cycles)
    assert one.request == CHASE and one.info.name == "NVIDIA GeForce GTX 980"
    assert gd.run([], "sim:gtx980") == []


def test_what_was_run_is_recorded(tmp_path):
    first = gd.run(CHASE, "sim:gtx980", record=tmp_path / "rec")
    assert np.array_equal(gd.run(CHASE, f"rec:{tmp_path / 'rec'}").cycles, first.cycles)


def test_a_workload_that_does_not_fit_says_so():
    with pytest.raises(gd.GpudissectError):
        gd.run(gd.Chase(path=gd.Path.TMA, order=gd.Sequential(8, 16), timing=gd.Timing.LAP), "sim:gtx980")


def test_devices_checks_comparisons(result):
    assert "sim:h200" in [each.spec for each in gd.devices()]
    assert [each.weight.value for each in gd.check(result)] == ["note"] * len(gd.check(result))
    compared = gd.compare(result, result)
    assert {row.outcome.value for row in compared.rows} <= {"same", "ambiguous", "not comparable"}
    assert compared.to_html().startswith("<!doctype html>")
    assert json.loads(gd.export(result, "mt4g"))
    with pytest.raises(gd.UsageError, match="two results or more"):
        gd.compare(result)


def test_data_frames_need_pandas(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for each in (result, result.series[0] if result.series else result, gd.run(CHASE, "sim:gtx980")):
        with pytest.raises(gd.UsageError, match=r"^data frames need pandas: pip install pandas$"):
            each.to_pandas()


def test_data_frames(result):
    pytest.importorskip("pandas")
    frame = result.to_pandas()
    assert len(frame) == len(result.findings)
    row = frame[(frame.element == "shared") & (frame.attribute == "hit_latency")].iloc[0]
    assert row["value"] == result.finding("shared", "hit_latency").value and row["status"] == "found"
    trace = gd.run(CHASE, "sim:gtx980").to_pandas()
    assert list(trace.columns) == ["lap", "position", "offset", "cycles"] and len(trace) == 128
    made = gd.Series(element="x", name="y against x", columns={"x": np.arange(3), "y": [1.0, 2.5, 4.0]})
    assert made.to_pandas().shape == (3, 2)
