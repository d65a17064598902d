"""Links between GPUs, measured after the surveys of all of them."""

import json
import signal
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import gpudissect as gd
from gpudissect import interrupts, link_study
from gpudissect.cli import every_gpu
from gpudissect.device import kinds
from gpudissect.errors import DeviceError
from gpudissect.results.links import LinkReport
from gpudissect.survey.links import LinkValues


@pytest.fixture
def surveyed(gpus, monkeypatch):
    """Both GPUs as surveyed at once, and the link from the first to the second. Lists the calls that measure links."""
    measured_links = []

    def measure(processes, seed, progress, stop_reason):
        measured_links.append(([*processes], seed))
        link = LinkValues("sim:gtx980", "cuda:1", {"read_bandwidth": (3.7e11, 3.6e11, 3.8e11)}, {})
        return LinkReport((), (link,))

    survey_with(monkeypatch, [gd.discover(spec, only="timer") for spec in gpus])
    monkeypatch.setattr(link_study, "links_between", measure)
    return measured_links


def survey_with(monkeypatch, results):
    """Let the surveys of all GPUs have these results; None: the GPU is lost."""

    def outcome(result):
        if result is None:
            return SimpleNamespace(results=[], errors=[DeviceError("it is lost")], info=None)
        return SimpleNamespace(results=[result], errors=[], info=object())

    @contextmanager
    def surveys(jobs, progress, held):
        yield [
            SimpleNamespace(spec=job.spec, outcome=outcome(result)) for job, result in zip(jobs, results, strict=True)
        ]

    monkeypatch.setattr(every_gpu, "surveyed_at_once", surveys)


def test_a_whole_survey_of_all_includes_the_links_between_them(gpus, surveyed, gpudissect):
    code, out, _ = gpudissect("discover", "-d", "cuda:all", "-o", "r.json", "--html", "r.html")
    assert code == 0 and surveyed == [(gpus, 0)]
    assert "Loads, GB/s" in out and "370" in out.splitlines()[-1]
    assert json.loads(Path("r.links.json").read_text())["links"][0]["read_bandwidth"]["value"] == 3.7e11
    assert "Loads, GB/s" in Path("r.links.html").read_text()


@pytest.mark.parametrize(
    "part", [("--quick",), ("--only", "l1"), ("--method", "wong"), ("--json",), ("--profile", "health", "--json")]
)
def test_a_part_of_a_survey_does_not(surveyed, gpudissect, part):
    assert gpudissect("discover", "-d", "cuda:all", *part)[0] == 0 and not surveyed


def test_health_of_all_includes_the_links_unless_a_gpu_is_in_use(gpus, surveyed, gpudissect, monkeypatch):
    health = ("discover", "-d", "cuda:all", "--profile", "health", "-o", "r.json")
    assert gpudissect(*health)[0] == 0 and len(surveyed) == 1 and Path("r.links.json").exists()
    disturbed = gd.discover("sim:gtx980?other_users=100", profile="health")
    survey_with(monkeypatch, [disturbed, disturbed])
    code, _, err = gpudissect(*health)
    assert code == 3 and len(surveyed) == 1 and "links between GPUs are not measured" in err


def test_a_reader_learns_why_no_links_are_measured_if_one_gpu_is_left(gpus, surveyed, gpudissect, monkeypatch):
    survey_with(monkeypatch, [gd.discover(gpus[0], only="timer"), None])
    code, _, err = gpudissect("discover", "-d", "cuda:all", "-o", "r.json")
    assert (
        code == 4 and not surveyed and "links between GPUs are not measured: too few GPUs have a result (1 of 2)" in err
    )


def test_no_links_are_measured_after_a_stop_signal(surveyed, gpudissect, monkeypatch):
    monkeypatch.setattr(interrupts, "_requested", False)  # so that it is restored
    surveys = every_gpu.surveyed_at_once

    @contextmanager
    def interrupted(*arguments):
        signal.raise_signal(signal.SIGTERM)
        with surveys(*arguments) as found:
            yield found

    monkeypatch.setattr(every_gpu, "surveyed_at_once", interrupted)
    assert gpudissect("discover", "-d", "cuda:all", "-o", "r.json")[0] == 130 and not surveyed


@pytest.mark.parametrize("option", ["--host", "--no-host"])
def test_the_name_of_the_host_can_be_left_out_of_the_links(gpus, surveyed, gpudissect, monkeypatch, option):
    with kinds.open_device("sim:gtx980") as device:
        info = replace(device.info, provenance={"host": "node7", "gpu_uuid": "GPU-1"})
    link = LinkValues("cuda:0", "cuda:1", {"read_bandwidth": (3.7e11, 3.6e11, 3.8e11)}, {})
    monkeypatch.setattr(link_study, "links_between", lambda *_: LinkReport((info,), (link,)))
    monkeypatch.setattr(link_study, "links", lambda *_, **__: LinkReport((info,), (link,)))
    assert gpudissect("discover", "-d", "cuda:all", option, "-o", "r.json")[0] == 0
    assert gpudissect("links", option, "-o", "s.links.json")[0] == 0
    for file in ("r.links.json", "s.links.json"):
        (gpu,) = json.loads(Path(file).read_text())["gpus"]
        assert ("host" in gpu["provenance"]) is (option == "--host") and gpu["gpu_uuid"] == "GPU-1"


def test_links_that_fail_cost_no_result(gpus, surveyed, gpudissect, monkeypatch):
    lost = LinkValues("sim:gtx980", "cuda:1", {}, {}, failures=("sim:gtx980: it fell off the bus",))
    monkeypatch.setattr(link_study, "links_between", lambda *_: LinkReport((), (lost,), lost.failures))
    code, out, err = gpudissect("discover", "-d", "cuda:all", "--json", "-o", "r.json")
    assert code == 4 and "fell off the bus" in err
    assert [result["device"]["spec"] for result in json.loads(out)] == gpus


def test_gpus_without_links_between_them_get_no_file_of_links(gpus, surveyed, gpudissect, monkeypatch):
    link = LinkValues("sim:gtx980", "other GPUs", {}, {"read_bandwidth": "no other GPU"})
    monkeypatch.setattr(link_study, "links_between", lambda *_: LinkReport((), (link,)))
    for _ in range(2):
        code, out, err = gpudissect("discover", "-d", "cuda:all", "-o", "r.json")
        assert (code, err) == (0, "") and "no other GPU" in out and not Path("r.links.json").exists()


def test_links_between_jobs_give_way_and_end_in_time(monkeypatch):
    times, counts = iter([0.0, 1.0, 2.0, every_gpu.HEALTH_LINKS_S + 1]), iter([2, 3])
    monkeypatch.setattr(every_gpu, "monotonic", times.__next__)
    monkeypatch.setattr("gpudissect.device.cuda.info.count_processes", counts.__next__)
    stop_reason = every_gpu._stop_condition_of_health(2)
    assert stop_reason() is None
    assert stop_reason() == "not measured: another process uses a GPU of this machine"
    assert stop_reason() == "not measured within 30 s"
