"""Links of several GPUs, on fake devices: which are measured at once, and what a failure or an interrupt costs."""

import os
import signal
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

import gpudissect
from gpudissect import link_study
from gpudissect.device import kinds
from gpudissect.errors import DeviceError
from gpudissect.survey.links import LinkValues

LATENCY = {"link_latency": (800.0, 795.0, 805.0)}
TIMEOUT_S = 10


class Machine:
    """GPUs whose links all take the same time.

    `lost` are pairs that fail, `hangs` those that only closing ends; with `is_impatient`, Ctrl-C follows.
    """

    def __init__(self, count, nvlink):
        self.specs = tuple(f"cuda:{number}" for number in range(count))
        self.nvlink, self.lost, self.hangs, self.facts, self.is_impatient = nvlink, set(), set(), {}, False
        self.opened, self.at_once, self.busy, self.log = [], [], [], []
        self.lock = threading.Lock()

    def open(self, spec, *, seed=0, prepares):
        assert not prepares and threading.current_thread() is threading.main_thread()
        peers = " ".join(each.partition(":")[2] for each in self.specs if each != spec)
        facts = self.facts | {"peers": peers} | ({"nvlink_peers": peers} if self.nvlink else {})
        device = SimpleNamespace(info=SimpleNamespace(spec=spec, facts=facts), closed=threading.Event())
        device.close = device.closed.set
        self.opened.append(device)
        return device

    @contextmanager
    def use(self, *gpus):
        with self.lock:
            assert not {*gpus} & {gpu for each in self.busy for gpu in each}, "a GPU is in two pairs"
            self.busy.append(gpus)
            self.at_once.append(len(self.busy))
        try:
            yield
        finally:
            with self.lock:
                self.busy.remove(gpus)

    def measure(self, device, target, seed, names, pairs_at_once):
        source = device.info.spec
        assert not device.closed.is_set()
        with self.use(source, target):
            if (source, target) in self.hangs:
                if self.is_impatient:
                    os.kill(os.getpid(), signal.SIGINT)
                assert device.closed.wait(TIMEOUT_S), "it is closed after an interrupt, or once it took too long"
                raise DeviceError("the process was killed")
            time.sleep(0.02)
            if target == "host":
                self.log.append((source, sum(not each.closed.is_set() for each in self.opened)))
        failures = (f"{source}: links.peer to {target}: lost",) if (source, target) in self.lost else ()
        return LinkValues(source, target, {} if failures else LATENCY, {}, {}, pairs_at_once, failures)


@pytest.fixture
def machine(request, monkeypatch):
    """Four GPUs by default, connected by NVLink."""
    machine = Machine(*getattr(request, "param", (4, True)))
    monkeypatch.setattr(kinds, "choose", lambda device: kinds.Choice(machine.specs))
    monkeypatch.setattr(link_study, "open_in_process", machine.open)
    monkeypatch.setattr(link_study, "measure_link", machine.measure)
    return machine


def pairs(report):
    return [(link.source, link.target) for link in report.links]


def expected(machine):
    return [(one, other) for one in machine.specs for other in ("host", *machine.specs) if one != other]


@pytest.mark.parametrize(
    ("machine", "at_once"),
    [((4, True), 2), ((5, True), 2), ((4, False), 1), ((2, True), 1), ((1, False), 1)],
    indirect=["machine"],
)
def test_pairs_connected_by_nvlink_are_measured_at_once(machine, at_once):
    report = gpudissect.links()
    assert max(machine.at_once) == at_once
    assert {link.pairs_at_once for link in report.links if link.target != "host"} <= {at_once}
    assert {link.pairs_at_once for link in report.links if link.target == "host"} == {1}
    assert any("at once" in line for line in report.notes) is (at_once > 1)


def test_the_order_of_the_report_is_that_of_the_gpus(machine):
    assert pairs(gpudissect.links()) == expected(machine)


def test_memory_of_the_host_is_locked_by_one_process_at_a_time(machine):
    """Each process ends after its link to the host, before the next one measures its own."""
    gpudissect.links()
    assert machine.log == [(spec, 4 - number) for number, spec in enumerate(machine.specs)]
    assert len(machine.opened) == 4 and all(device.closed.is_set() for device in machine.opened)


def test_gpus_in_exclusive_mode_are_open_one_at_a_time(machine):
    machine.facts["compute_mode"] = "exclusive"
    report = gpudissect.links()
    assert pairs(report) == expected(machine) and max(machine.at_once) == 1
    assert machine.log == [(spec, 1) for spec in machine.specs]
    assert len(machine.opened) == 8 and all(device.closed.is_set() for device in machine.opened)


def test_a_pair_that_fails_costs_no_other_and_its_gpu_gets_a_new_process(machine):
    machine.lost.add(("cuda:1", "cuda:3"))
    report = gpudissect.links()
    assert report.failures == ("cuda:1: links.peer to cuda:3: lost",)
    assert [(link.source, link.target) for link in report.links if not link.values] == [("cuda:1", "cuda:3")]
    assert pairs(report) == expected(machine) and len(machine.opened) == 5


def test_a_gpu_that_cannot_be_opened_again_costs_its_own_links_only(machine, monkeypatch):
    """It fell off the bus: its process is lost, and a new one does not start."""
    machine.lost.add(("cuda:1", "cuda:2"))
    measure = machine.measure

    def measure_unless_lost(device, *arguments):
        if device.info.spec == "cuda:1" and len(machine.opened) > 4:
            raise DeviceError("no CUDA GPU 1")
        return measure(device, *arguments)

    monkeypatch.setattr(link_study, "measure_link", measure_unless_lost)
    report = gpudissect.links()
    assert {link.source for link in report.links if not link.values} == {"cuda:1"}
    assert "cuda:1: link to host: no CUDA GPU 1" in report.failures
    assert len([link for link in report.links if link.values]) >= 12


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DeviceError("it is lost")], ids=repr)
def test_a_gpu_that_cannot_be_opened(machine, monkeypatch, error):
    def open_others(spec, **options):
        if spec == "cuda:2":
            raise error
        return machine.open(spec, **options)

    monkeypatch.setattr(link_study, "open_in_process", open_others)
    report = gpudissect.links()
    assert report.interrupted is isinstance(error, KeyboardInterrupt)
    if not report.interrupted:
        assert report.failures == ("cuda:2: it is lost",)
        assert pairs(report) == [pair for pair in expected(machine) if pair[0] != "cuda:2"]
    assert all(device.closed.is_set() for device in machine.opened)


def test_without_a_gpu_the_first_error_is_raised(machine, monkeypatch):
    def refuse(spec, **options):
        raise DeviceError(f"{spec} is lost")

    monkeypatch.setattr(link_study, "open_in_process", refuse)
    with pytest.raises(DeviceError, match="cuda:0 is lost"):
        gpudissect.links()


def test_an_interrupt_keeps_what_was_measured_and_ends_what_hangs(machine):
    machine.hangs.add(("cuda:1", "cuda:2"))

    def progress(done, total, what):
        assert total == 16
        if ("cuda:1", "cuda:2") in machine.busy:
            raise KeyboardInterrupt

    report = gpudissect.links(progress=progress)
    assert report.interrupted and not report.failures
    assert report.links and all(link.values for link in report.links)
    assert all(device.closed.is_set() for device in machine.opened)


@pytest.mark.parametrize("machine", [(2, True)], indirect=True)
def test_an_interrupt_keeps_the_link_in_the_other_direction(machine):
    """Both are measured one after the other, by one thread."""
    machine.hangs.add(("cuda:1", "cuda:0"))
    machine.is_impatient = True
    report = gpudissect.links()
    assert report.interrupted and pairs(report) == [("cuda:0", "cuda:1")]


@pytest.mark.parametrize("machine", [(2, True)], indirect=True)
def test_a_link_that_hangs_fails_and_costs_no_other(machine, monkeypatch):
    monkeypatch.setattr(link_study, "LINK_LIMIT_S", 1.0)
    machine.hangs.add(("cuda:0", "cuda:1"))
    report = gpudissect.links()
    assert report.failures == ("cuda:0: link to cuda:1: not measured within 1 s; its process was ended",)
    assert pairs(report) == expected(machine) and sum(bool(link.values) for link in report.links) == 3
    assert len(machine.opened) == 3 and all(device.closed.is_set() for device in machine.opened)


def opened(machine, *specs):
    """These GPUs, open in processes of their own, and their infos."""
    gpus = {spec: link_study.OpenGpu(spec, 0, machine.open(spec, prepares=False)) for spec in specs}
    return {spec: (gpu, gpu.opened().info) for spec, gpu in gpus.items()}


def test_links_between_gpus_leave_out_the_host_and_other_gpus(machine):
    report = link_study.links_between(opened(machine, "cuda:0", "cuda:1"), 0, lambda *_: None)
    assert pairs(report) == [("cuda:0", "cuda:1"), ("cuda:1", "cuda:0")]


def test_open_gpus_are_used_as_they_are_and_closed(machine):
    link_study.links_between(opened(machine, *machine.specs), 0, lambda *_: None)
    assert len(machine.opened) == 4 and all(device.closed.is_set() for device in machine.opened)


class HangingGpu:
    """A GPU that answers nothing; once its process has ended, it cannot be reopened."""

    def __init__(self):
        self.ended = threading.Event()

    def measure(self, target, names, pairs_at_once):
        assert self.ended.wait(TIMEOUT_S)
        return LinkValues("cuda:0", target, {}, {}, failures=("its process ended",))

    def reopen(self):
        pass

    def dismiss(self):
        self.ended.set()


def test_a_gpu_that_hung_is_measured_by_another_process(machine, monkeypatch):
    monkeypatch.setattr(link_study, "LINK_LIMIT_S", 1.0)
    gpus = opened(machine, *machine.specs)
    gpus["cuda:0"] = (HangingGpu(), gpus["cuda:0"][1])
    report = link_study.links_between(gpus, 0, lambda *_: None)
    assert [link.source for link in report.links if not link.values] == ["cuda:0"] and len(report.links) == 12


def test_links_end_for_a_reason_that_the_failures_state(machine):
    """It is given before the second of three rounds."""
    reasons = iter([None, "not measured within 10 s"])
    report = link_study.links_between(opened(machine, *machine.specs), 0, lambda *_: None, reasons.__next__)
    assert len(report.links) == 4 and report.failures == (
        "8 of 12 links were not measured within 10 s; run 'gpudissect links' when the GPUs are idle",
    )


def test_open_gpus_in_exclusive_mode_are_closed_before_others_open(machine):
    machine.facts["compute_mode"] = "exclusive"
    report = link_study.links_between(opened(machine, "cuda:0", "cuda:1"), 0, lambda *_: None)
    assert all(link.values for link in report.links) and len(machine.opened) == 4
    assert all(device.closed.is_set() for device in machine.opened)


def test_a_gpu_that_cannot_be_opened_again_loses_its_later_links_and_says_why(machine, monkeypatch):
    machine.lost = {("cuda:0", "cuda:3")}
    opened = []

    def open_once(spec, *, seed, prepares):
        opened.append(spec)
        if opened.count(spec) > 1:
            raise DeviceError("no more processes")
        return machine.open(spec, prepares=prepares)

    monkeypatch.setattr(link_study, "open_in_process", open_once)
    report = link_study.links()
    lost = [link for link in report.links if not link.values]
    assert {link.source for link in lost} == {"cuda:0"}
    assert sum("no more processes" in line for line in report.failures) == len(lost) - 1
