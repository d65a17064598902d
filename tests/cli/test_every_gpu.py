"""A study on every GPU at once: simulated ones stand for those of this machine, each in a process of its own."""

import json
import multiprocessing
import signal
from pathlib import Path

import pytest

from gpudissect.cli.every_gpu import Job, run_at_once
from gpudissect.device import kinds
from gpudissect.device.recording.device import RecordedGpu
from gpudissect.results.files import load
from gpudissect.study import Request

ALL = ("discover", "-d", "cuda:all", "--only", "timer", "-o", "r.json")


@pytest.fixture
def gpus(monkeypatch, tmp_path):
    """GPUs of this machine, by their specs."""
    monkeypatch.chdir(tmp_path)
    specs = ["sim:gtx980", "sim:gtx280"]
    monkeypatch.setattr(kinds, "_cuda_gpus", lambda: [kinds.Listing(spec, "Fake", "measured") for spec in specs])
    return specs


def jobs(*specs, only=("timer",)):
    outputs = (Path("r.json"), None, None, None)
    return [Job(spec, spec.replace(":", ""), Request(elements=only), None, outputs, kept_bytes=0) for spec in specs]


def test_each_gpu_gets_a_file_and_a_recording(gpus, gpudissect):
    code, out, err = gpudissect(*ALL, "--record", "rec", "--json")
    assert (code, err) == (0, "")
    assert [result["device"]["spec"] for result in json.loads(out)] == gpus
    for spec in gpus:
        name = spec.replace(":", "")
        assert load(Path(f"r.{name}.json")).device.spec == spec
        assert RecordedGpu.open(Path("rec") / name).info.name == load(Path(f"r.{name}.json")).device.name


def test_one_broken_gpu_does_not_cost_the_others(gpus, gpudissect):
    gpus[0] = "sim:nonsense"
    code, out, err = gpudissect(*ALL)
    assert code == 4 and err.count("\n") == 1 and "sim:nonsense" in err
    assert "sim:gtx280" in out and load(Path("r.simgtx280.json")).findings


def test_a_stop_signal_reaches_all_and_each_keeps_what_it_measured(gpus):
    held, totals = set(), []

    def progress(done, total, experiment):
        totals.append(total)
        if done > 8:
            held.add(signal.SIGINT)

    results, errors = run_at_once(jobs(*gpus, only=None), progress, held)
    assert errors == [] and all(result.interrupted for result in results) and results
    assert max(totals) > 80, "experiments of both"
    assert not multiprocessing.active_children()


def test_a_process_that_is_lost_costs_no_other_result(gpus):
    def progress(done, total, experiment):
        for child in multiprocessing.active_children()[:1]:
            if len(multiprocessing.active_children()) == 2:
                child.kill()

    results, errors = run_at_once(jobs(*gpus), progress, set())
    assert len(results) == len(errors) == 1 and "its process ended with code -9" in str(errors[0])
    assert results[0].device.spec not in str(errors[0])
