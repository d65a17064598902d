"""What ``import gpudissect`` offers: the same as the commands, with results for values."""

import ast
import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest

import gpudissect as gd
from gpudissect.cli.app import main
from gpudissect.device import kinds
from tests.support.results import result as result_of

CHASE = gd.Chase(path=gd.Path.GLOBAL, order=gd.Sequential(64, 32), timing=gd.Timing.EACH, laps=2)


@pytest.fixture(scope="module")
def result():
    return gd.discover("sim:gtx980", only=["timer", "shared"], quick=True)


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


@pytest.mark.parametrize("first", ["import gpudissect.explanation.gate", "import gpudissect as gd; gd.explain"])
def test_explain_is_a_function_and_a_folder(first):
    code = f"{first}; import gpudissect as gd; import gpudissect.explanation.gate as gate; assert gate.parse_gate\n"
    code += "try: gd.explain(3, machine=())\nexcept gd.UsageError as error: assert 'not a kernel: int' in str(error)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_discover_finds_what_the_command_finds(result, tmp_path):
    file = tmp_path / "r.json"
    options = ["--only", "timer", "--only", "shared", "--quick", "-o", str(file)]
    assert main(["discover", "-d", "sim:gtx980", *options]) == 0
    assert gd.load(file).findings == result.findings
    result.save(tmp_path / "again.json")
    assert gd.load(tmp_path / "again.json") == result


def test_elements_findings_and_series_by_name(result):
    assert result["shared"].hit_latency is result.finding("shared", "hit_latency")
    assert result["shared"]["hit_latency"].unit == "cycles"
    assert "shared" in result and "l9" not in result and "hit_latency" in result["shared"]
    assert len(result) == len(list(result)) == len(result.findings) and next(iter(result)) is result.findings[0]
    assert [each.element for each in result["shared"]] == ["shared"] * len(result["shared"])
    assert result.elements == ("timer", "shared")
    for error, call in (
        (AttributeError, lambda: result["shared"].hit_latncy),
        (KeyError, lambda: result["shared"]["hit_latncy"]),
        (KeyError, lambda: result.finding("shared", "hit_latncy")),
    ):
        with pytest.raises(error, match=r"no such attribute of shared: .*did you mean hit_latency.*valid: .*banks"):
            call()
    with pytest.raises(KeyError, match=r"no such element of this result: 'shard'; did you mean shared.*timer"):
        _ = result["shard"]
    with pytest.raises(KeyError, match="no series 'x' of timer; there is latency of a load by lap"):
        result.observed("timer", "x")
    with pytest.raises(KeyError, match="no series 'x' of l2; there is none"):
        result.observed("l2", "x")


def test_names_of_pydantic_are_not_listed(result):
    own = {"findings", "device", "summary", "elements", "to_pandas", "to_html", "to_json", "plots", "save", "finding"}
    assert own <= set(dir(result)) and len(dir(result)) < 30
    assert {"bracket", "verdict", "number", "value", "reason"} <= set(dir(result["shared"].hit_latency))
    assert {"columns", "to_svg"} <= set(dir(result.series[0]))
    assert dir(result["shared"]) == sorted(each.attribute for each in result["shared"])
    for each in (result, result.findings[0], result.series[0]):
        assert not {"json", "copy", "dict", "schema", "parse_obj", "model_dump"} & set(dir(each))


def test_a_finding_as_number_text_and_bracket():
    found = gd.Result.of(
        result_of(
            {
                "l1.capacity": 24576,
                "l2.hit_latency": {"value": 281.2, "low": 275.0, "high": 287.4},
                "l1.replacement_policy": "lru",
                "l1.sets": {"reason": "no two lines collide"},
                "l2.capacity": {"reason": "too large", "low": 1 << 20},
            }
        )
    )
    l1, l2 = found["l1"], found["l2"]
    assert f"{l1.capacity}" == "24 KiB" and f"{l1.capacity:>8}" == "  24 KiB" and f"{l1.capacity:d}" == "24576"
    assert str(l2.hit_latency) == "281 ± 7 cycles" and f"{l2.hit_latency:.1f}" == "281.2"
    assert l2.hit_latency.bracket == (275.0, 287.4) and l1.capacity.number == 24576
    assert l1.capacity.verdict is None
    assert str(l1.replacement_policy) == "lru" and str(l1.sets) == "not found"
    assert str(l2.capacity) == "not found, ≥ 1 MiB" and l2.capacity.bracket == (1 << 20, None)
    with pytest.raises(gd.UsageError, match=r"l1 sets has no value: not found \(no two lines collide\)"):
        _ = l1.sets.number
    with pytest.raises(gd.UsageError, match="l1 replacement_policy is not a single number: lru"):
        _ = l1.replacement_policy.number
    assert "24 KiB" in str(l1) and "capacity" in repr(l1)
    assert pickle.loads(pickle.dumps(l1)).capacity == l1.capacity and copy.copy(l1).sets is l1.sets


def test_checkers_see_findings_of_elements():
    assert get_type_hints(gd.Result.__getitem__)["return"] is gd.Element
    assert get_type_hints(gd.Element.__getattr__)["return"] is gd.Finding
    assert get_type_hints(gd.Result.__iter__)["return"].__args__ == (gd.Finding,)
    assert get_type_hints(gd.predict)["return"] is gd.MixPrediction


def test_the_verdict_of_a_finding(result):
    known = [each for each in result if each.published is not None]
    assert known and all(each.verdict is each.published.verdict for each in known)


def test_the_summary_of_a_result(result):
    assert [level.element for level in result.summary.levels] == ["shared"]


def test_a_chase_as_the_command_runs_it(tmp_path):
    trace = gd.chase("sim:gtx980?noise=none", size="2KiB", stride=64, order="random", seed=3)
    assert trace.request == gd.Chase(
        path=gd.Path.GLOBAL, order=gd.Shuffled(32, 64, 3), timing=gd.Timing.EACH, warmup=1, alone=True
    )
    assert trace.cycles.shape == (32,)
    with gd.open_device("sim:gtx980") as device:
        assert gd.chase(device, timing="lap", laps=2).cycles.shape == (2,)
    with pytest.raises(gd.UsageError, match="at least one stride"):
        gd.chase("sim:gtx980", size=16)


def test_a_prediction_is_that_of_the_command(capsys):
    file = Path(__file__).parents[1] / "docs" / "results" / "h200-latency-hiding.json"
    hidden = gd.load(file)
    predicted = gd.predict(hidden, warps=32, alpha=16)
    assert main(["predict", str(file), "--warps", "32", "--alpha", "16"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == str(predicted)
    mix = {"ldg_streaming": 1, "fadd": 16}
    for same in (gd.predict(hidden, 32, run=mix), gd.predict(hidden, 32, run="ldg_streaming:1,fadd:16")):
        assert same == predicted and same.instructions_per_cycle > 0
    assert "32 warps per SM" in repr(predicted) and "\n" not in repr(predicted) and len(repr(predicted)) < 200
    assert predicted.limit in {"latency", "memory", "issue", "pipeline"} and predicted.warps_needed > 0
    for wrong in ({}, {"fadd": "x"}, {"fad": 1}):
        with pytest.raises(gd.UsageError):
            gd.predict(hidden, 32, run=wrong)
    for warps in (1.5, "8"):
        with pytest.raises(gd.UsageError, match="whole number"):
            gd.predict(hidden, warps, alpha=16)


def test_recorded_and_replayed_with_a_page(tmp_path):
    files = {"record": tmp_path / "rec", "html": tmp_path / "p.html", "card": tmp_path / "c.svg"}
    first = gd.discover("sim:gtx980", only="timer", seed=3, precision=5, **files)
    assert (tmp_path / "c.svg").read_text() == first.to_card()
    again = gd.discover(f"rec:{tmp_path / 'rec'}")
    assert again.findings == first.findings and again.options == first.options
    assert "<figure" in (tmp_path / "p.html").read_text()  # the traces behind it
    with pytest.raises(gd.DeviceError, match="recorded with --seed 3"):
        gd.discover(f"rec:{tmp_path / 'rec'}", seed=4)
    with pytest.raises(gd.DeviceError, match="another --precision"):
        gd.discover(f"rec:{tmp_path / 'rec'}", precision=4)
    with pytest.raises(gd.UsageError, match="it is an input"):
        gd.discover(f"rec:{tmp_path / 'rec'}", html=tmp_path / "rec" / "recording.jsonl")


def test_a_page_takes_no_results_place_here_either(tmp_path):
    (tmp_path / "old.json").write_text("{}")
    with pytest.raises(gd.UsageError, match=r"the name of a page must end in \.html"):
        gd.discover("sim:gtx980", only="timer", html=tmp_path / "old.json")
    assert (tmp_path / "old.json").read_text() == "{}"


def test_without_a_gpu_the_simulated_one_is_taken_and_said(monkeypatch):
    monkeypatch.setattr(kinds, "_cuda_gpus", list)
    with pytest.warns(UserWarning, match=r"no CUDA GPU can be used .*; taking sim:gtx980") as warned:
        found = gd.discover(only="timer")
    assert found.device.spec == "sim:gtx980" and warned[0].filename == __file__
    with pytest.warns(UserWarning, match="taking sim:gtx980") as warned:
        gd.run(CHASE)
    assert warned[0].filename == __file__


def test_several_gpus_are_not_one(monkeypatch):
    monkeypatch.setattr(kinds, "_cuda_gpus", lambda: [kinds.Listing(f"cuda:{n}", "X", "measured") for n in (0, 1)])
    with pytest.raises(gd.UsageError, match="names 2 GPUs where one is needed; name one, such as cuda:0"):
        gd.discover("cuda:all")


def test_wrong_names_are_refused_before_anything_runs():
    with pytest.raises(gd.UsageError, match="no such element: 'l9'"):
        gd.discover("sim:gtx980", only="l9")
    with pytest.raises(gd.UsageError, match="no such access: 'stream'; did you mean streaming"):
        gd.hide("sim:gtx980", access="stream")
    with pytest.raises(gd.UsageError, match="no such path: 'globl'; did you mean global"):
        gd.chase("sim:gtx980", path="globl")


def test_an_interrupt_gives_what_was_measured():
    def stop(done: int, total: int, what: str) -> None:
        if what == "timer":  # it has ended
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted; the result holds") as warned:
        partial = gd.discover("sim:gtx980", only=["timer", "l1"], progress=stop)
    assert partial.interrupted and partial.finding("timer", "overhead").value is not None
    assert "interrupted" in partial._repr_html_() and warned[0].filename == __file__


def test_a_run_that_finds_nothing_replaces_no_file(tmp_path):
    def stop(done: int, total: int, what: str) -> None:
        raise KeyboardInterrupt

    page = tmp_path / "page.html"
    page.write_text("good")
    with pytest.warns(UserWarning) as warned:
        partial = gd.discover("sim:gtx980", only="timer", html=page, progress=stop)
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


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: gd.discover(5), "device"),
        (lambda: gd.hide(["cuda:0"]), "device"),
        (lambda: gd.chase(5), "device"),
        (lambda: gd.discover("sim:gtx980", only=[]), "only"),
        (lambda: gd.discover("sim:gtx980", only=[5]), "only"),
        (lambda: gd.hide("sim:gtx980", access=()), "access"),
        (lambda: gd.discover("sim:gtx980", html=5), "html"),
        (lambda: gd.run(5, "sim:gtx980"), "workload"),
        (lambda: gd.run(CHASE, 5), "device"),
        (lambda: gd.load(None), "file"),
        (lambda: gd.compare("a.json", "b.json"), "result"),
        (lambda: gd.check("a.json"), "result"),
        (lambda: gd.predict("a.json", 4), "result"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(call, argument):
    with pytest.raises(gd.GpudissectError, match=rf"^{argument} .*, got "):
        call()


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
    with pytest.raises(gd.UsageError, match="two or more results"):
        gd.compare(result)


def test_data_frames_need_pandas(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for each in (result, result.series[0] if result.series else result, gd.run(CHASE, "sim:gtx980")):
        with pytest.raises(gd.UsageError, match=r"^data frames need pandas: pip install pandas$"):
            each.to_pandas()


def test_data_frames(result):
    pytest.importorskip("pandas")
    frame = result.to_pandas()
    assert frame.index.names == ["element", "attribute"] and len(frame) == len(result)
    assert [*frame.columns] == ["value", "unit", "low", "high", "confidence", "status", "published", "verdict"]
    row, latency = frame.loc["shared", "hit_latency"], result["shared"].hit_latency
    assert (row["value"], row["status"], row["verdict"]) == (latency.value, "found", latency.verdict.value)
    assert {"method", "evidence", "caveats"} < set(result.to_pandas(evidence=True).columns)
    assert result.model_copy(update={"findings": ()}).to_pandas().empty
    trace = gd.run(CHASE, "sim:gtx980").to_pandas()
    assert list(trace.columns) == ["lap", "position", "offset", "cycles"] and len(trace) == 128
    made = gd.Series(element="x", name="y against x", columns={"x": np.arange(3), "y": [1.0, 2.5, 4.0]})
    assert made.to_pandas().shape == (3, 2)


@pytest.mark.parametrize("wrong", [{"seed": "x"}, {"quick": "yes"}])
def test_a_wrong_option_is_named_and_not_blamed_on_a_recording(wrong):
    with pytest.raises(gd.UsageError, match=next(iter(wrong))):
        gd.discover("sim:gtx980", only="timer", **wrong)
