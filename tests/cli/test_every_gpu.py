"""A study on every GPU at once: simulated ones stand for those of this machine, each in a process of its own."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import gpudissect.__main__ as command
from gpudissect import child_processes, link_study
from gpudissect.cli import every_gpu
from gpudissect.cli.console import finish
from gpudissect.cli.every_gpu import Job, surveyed_at_once
from gpudissect.device.recording.device import RecordedGpu
from gpudissect.link_study import PAIRS
from gpudissect.results.files import load
from gpudissect.study import Request
from tests.support.processes import children, device_processes, linux

ALL = ("discover", "-d", "cuda:all", "--only", "timer", "-o", "r.json")


def jobs(*specs, only=("timer",)):
    outputs = (Path("r.json"), None, None, None)
    return [Job(spec, spec.replace(":", ""), Request(elements=only), None, outputs, kept_bytes=0) for spec in specs]


def run_at_once(jobs, progress, held):
    """Results and errors of all."""
    with surveyed_at_once(jobs, progress, held) as surveys:
        outcomes = [survey.outcome for survey in surveys]
        return [each for one in outcomes for each in one.results], [each for one in outcomes for each in one.errors]


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
    held, totals, stopped = set(), [], []

    def progress(done, total, experiment):
        totals.append(total)
        if done > 8 and not stopped:
            stopped.append(done)
            held.add(signal.SIGINT)

    results, errors = run_at_once(jobs(*gpus, only=None), progress, held)
    assert errors == [] and all(result.interrupted for result in results) and results
    assert max(totals) > 80, "experiments of both"
    assert not multiprocessing.active_children()


class TwoSignals(set):
    """Stop signals: the second one comes right after the first."""

    seconds = (signal.SIGINT,)

    def clear(self):
        super().clear()
        self.update(self.seconds)
        self.seconds = ()


def test_a_second_stop_signal_ends_all_processes_at_once(gpus):
    """They are halted, so that none can end by itself."""
    held = TwoSignals()

    def progress(done, total, experiment):
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGSTOP)
        held.add(signal.SIGINT)

    assert run_at_once(jobs(*gpus, only=None), progress, held) == ([], [])
    assert not multiprocessing.active_children()


def test_a_process_that_is_lost_costs_no_other_result(gpus):
    def progress(done, total, experiment):
        for child in multiprocessing.active_children()[:1]:
            if len(multiprocessing.active_children()) == 2:
                child.kill()

    results, errors = run_at_once(jobs(*gpus), progress, set())
    assert len(results) == len(errors) == 1 and "its process ended with code -9" in str(errors[0])
    assert results[0].device.spec not in str(errors[0])


@linux
def test_a_gpu_that_falls_off_the_bus_loses_its_own_values_only(gpus, capsys):
    """Its device process is lost in the middle of the survey."""
    gpus[1] = f"{gpus[0]}?seed=2"
    totals, killed = [], []

    def progress(done, total, experiment):
        totals.append(total)
        if not killed and total > totals[0]:  # both have begun
            killed.append(device_processes(os.getpid())[0])
            os.kill(killed[0], signal.SIGKILL)

    results, errors = run_at_once(jobs(*gpus, only=("l1",)), progress, set())
    assert errors == [] and [result.device.spec for result in results] == gpus
    (lost,) = (result for result in results if result.failures)
    (kept,) = (result for result in results if not result.failures)
    assert any("exited with code" in failure.reason for failure in lost.failures)
    assert load(Path(f"r.{kept.device.spec.replace(':', '')}.json")).findings == kept.findings
    assert finish(results, errors) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert f" {lost.device.spec}: " in line and "exited with code" in line


@linux
def test_a_survey_leaves_its_device_open_for_links(gpus):
    """The processes measure links until they are dismissed; one that is asked to reopens its device."""
    linked = [replace(job, measures_links=True) for job in jobs(*gpus)]
    with surveyed_at_once(linked, lambda *_: None, set()) as surveys:
        first, second = surveys
        assert [survey.outcome.info.spec for survey in surveys] == gpus
        link = first.measure("cuda:1", PAIRS, 2)
        assert (link.source, link.target, link.pairs_at_once, link.failures) == (gpus[0], "cuda:1", 2, ())
        assert "read_bandwidth" in link.reasons, "a simulated GPU has no peers"
        before = {*device_processes(os.getpid())}
        first.reopen()
        assert {*device_processes(os.getpid())} - before, "a new process"
        assert first.measure("cuda:1", PAIRS, 1).failures == ()
        second.close()
        assert "its process ended with code 0; run" in second.measure("cuda:0", PAIRS, 1).failures[0]
    assert not multiprocessing.active_children() and not device_processes(os.getpid())


def test_ctrl_c_of_a_terminal_reaches_no_survey_process(gpus):
    """It reaches the process group of the command, which passes it on."""
    with surveyed_at_once([replace(job, measures_links=True) for job in jobs(gpus[0])], lambda *_: None, set()):
        (child,) = multiprocessing.active_children()
        assert os.getpgid(child.pid) == child.pid


def test_the_command_starts_survey_processes_before_it_imports_much(monkeypatch):
    events = []
    monkeypatch.setattr(sys, "argv", ["gpudissect", "discover", "-d", "cuda:all", "--seed", "3"])
    monkeypatch.setattr(every_gpu, "start_early", events.append)
    monkeypatch.setattr(command, "_run", lambda: events.append("run"))
    monkeypatch.setattr(command, "_leave", events.append)
    monkeypatch.setattr(command, "STOP_SIGNALS", ())
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    for name in ("collect_rarely", "remove_children"):  # of a process that ends
        monkeypatch.setattr(child_processes, name, lambda: None)
    command.main()
    assert events == [3, "run", None]


def test_a_bounded_number_of_processes_starts_early(monkeypatch, tmp_path):
    """A host may have more nodes of GPUs than a job may use."""
    for number in range(4):
        (tmp_path / f"nvidia{number}").touch()
    monkeypatch.setattr(every_gpu, "DEVICES", tmp_path)
    monkeypatch.setattr(every_gpu, "MAX_GPUS", 3)
    monkeypatch.setattr(every_gpu, "SurveyProcess", lambda spec, seed: spec)
    monkeypatch.setattr(every_gpu, "_early", {})
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    every_gpu.start_early(0)
    assert [*every_gpu._early.values()] == ["cuda:0", "cuda:1", "cuda:2"]


@pytest.mark.parametrize(("visible", "count"), [("3,GPU-1", 2), ("", 0), ("-1", 0), (",".join("x" * 100), 3)])
def test_processes_started_early_are_used_or_end(gpus, monkeypatch, tmp_path, visible, count):
    for number in range(3):
        (tmp_path / f"nvidia{number}").touch()
    monkeypatch.setattr(every_gpu, "DEVICES", tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    every_gpu.start_early(0)
    assert len(multiprocessing.active_children()) == count
    every_gpu._early[gpus[0], 0] = early = every_gpu.SurveyProcess(gpus[0], 0)
    with surveyed_at_once(jobs(*gpus), lambda *_: None, set()) as surveys:
        assert surveys[0] is early and all(survey.outcome.results for survey in surveys)
    assert not multiprocessing.active_children()


def test_a_device_is_opened_once_whatever_the_seed(gpus):
    """The process that was started early for this seed is used."""
    seeded = [replace(job, request=Request(elements=("timer",), seed=5), measures_links=True) for job in jobs(*gpus)]
    with surveyed_at_once(seeded, lambda *_: None, set()) as surveys:
        assert all(survey.outcome.results for survey in surveys)
        assert len(device_processes(os.getpid())) == 2


@linux
def test_a_device_lost_in_the_survey_costs_no_result_and_is_opened_again(gpus):
    linked = [replace(job, measures_links=True) for job in jobs(*gpus, only=("l1",))]
    killed, totals = [], []
    with surveyed_at_once(linked, lambda _, total, __: totals.append(total), set()):
        pass

    def progress(done, total, experiment):
        if not killed and done > 2 and total == max(totals):  # both are open
            killed.extend(device_processes(os.getpid()))
            for process in killed:
                os.kill(process, signal.SIGKILL)

    with surveyed_at_once(linked, progress, set()) as surveys:
        assert [len(survey.outcome.results) for survey in surveys] == [1, 1]
        assert any(survey.outcome.results[0].failures for survey in surveys)
        assert all(survey.measure("cuda:1", PAIRS, 1).failures == () for survey in surveys)


def test_links_are_measured_by_the_processes_of_the_surveys(gpus):
    linked = [replace(job, measures_links=True) for job in jobs(*gpus)]
    with surveyed_at_once(linked, lambda *_: None, set()) as surveys:
        opened = {survey.spec: (survey, survey.outcome.info) for survey in surveys}
        report = link_study.links_between(opened, 0, lambda *_: None)
    assert [link.source for link in report.links] == gpus and report.failures == ()
    assert all(link.reasons for link in report.links), "simulated GPUs have no peers"


@linux
def test_a_survey_process_that_hangs_on_a_link_is_ended_and_costs_no_other_link(gpus, monkeypatch):
    monkeypatch.setattr(link_study, "LINK_LIMIT_S", 1.0)
    linked = [replace(job, measures_links=True) for job in jobs(*gpus)]
    with surveyed_at_once(linked, lambda *_: None, set()) as surveys:
        opened = {survey.spec: (survey, survey.outcome.info) for survey in surveys}
        os.kill(surveys[0]._process.pid, signal.SIGSTOP)
        report = link_study.links_between(opened, 0, lambda *_: None)
    assert report.failures == (f"{gpus[0]}: link to other GPUs: not measured within 1 s; its process was ended",)
    assert [bool(link.reasons) for link in report.links] == [False, True], "simulated GPUs have no peers"


@linux
def test_stop_signals_to_the_group_while_processes_start_leave_none(gpus, tmp_path):
    """They have the default handler only where signals are blocked: no traceback, and no process that is left."""
    (tmp_path / "nvidia0").touch()
    script = (
        "import signal, time; from pathlib import Path; from gpudissect.cli import every_gpu\n"
        "if __name__ == '__main__':\n"
        "    from gpudissect.__main__ import _stop; signal.signal(signal.SIGINT, _stop)\n"
        f"    every_gpu.DEVICES = Path({str(tmp_path)!r}); every_gpu.start_early(0); print('started', flush=True)\n"
        "    time.sleep(60)"
    )
    (tmp_path / "start.py").write_text(script)
    command = [sys.executable, str(tmp_path / "start.py")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:
        process.stdout.readline()
        assert wait_until(lambda: started_by(process.pid))
        (child,) = started_by(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        _, messages = process.communicate(timeout=20)
    assert (process.returncode, messages) == (130, "")
    assert wait_until(lambda: not Path(f"/proc/{child}").exists())


def started_by(pid):
    """The processes of surveys that a process has started."""
    return [each for each in children(pid) if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]


def wait_until(holds):
    """Whether a condition holds within ten seconds."""
    for _ in range(200):
        if holds():
            return True
        time.sleep(0.05)
    return False
