"""``fleet run`` on a local cluster of three worker processes: losses, resuming, and bad input."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import distributed
import numpy as np
import pytest

from gpudissect.device.cuda import driver
from gpudissect.errors import DeviceError, UsageError
from gpudissect.fleet import dask_workers, measure_card
from gpudissect.fleet.dask_workers import Card, Finder, measure_cards, workers_of
from gpudissect.fleet.measure_card import Gpu
from gpudissect.fleet.run import FleetRequest, run_fleet, simulated_cards
from gpudissect.fleet.store import run_folder
from tests.support.processes import device_processes, linux

SHORT = ("--only", "timer")


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


def run(folder, cluster, count, *, resume=False, device="sim:gtx980", options=SHORT, progress=lambda *_: None):
    request = FleetRequest(device, count, options, 100.0, scheduler=cluster.scheduler_address)
    return run_fleet(folder, request, resume, progress)


def enter(context):
    with context:
        pass


def specs(folder):
    return sorted(json.loads(file.read_text(encoding="utf-8"))["device"]["spec"] for file in folder.rglob("*.json"))


def test_a_killed_worker_costs_no_simulated_card(tmp_path, cluster):
    def kill_one(done, *_):
        with distributed.Client(cluster) as client:
            if done == 1:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

    ended = run(tmp_path, cluster, 6, progress=kill_one)
    assert (ended.measured, ended.problems) == (6, [])
    assert specs(tmp_path) == [f"sim:gtx980?seed={n}" for n in range(6)]


def test_a_lost_worker_costs_the_cards_that_it_alone_reaches(cluster):
    with distributed.Client(cluster) as client:
        first, second, *_ = client.nthreads()
        cards = [Card("lost", "sim:gtx980", (first,)), Card("kept", "sim:gtx980", (second,))]
        batches = [cards]
        outcomes = measure_cards(client, lambda: batches.pop() if batches else None, SHORT, 100.0)
        os.kill(client.run(os.getpid, workers=[first])[first], signal.SIGKILL)
        ended = {one.card.name: one for one in outcomes}
    assert ended["lost"].content is None and "no worker is left" in ended["lost"].problem
    assert json.loads(ended["kept"].content)["device"]["spec"] == "sim:gtx980" and not ended["kept"].problem


def test_a_result_lost_with_its_worker_is_measured_again(cluster, monkeypatch):
    wait, lost = distributed.wait, []

    def kill_the_holder(futures, **options):
        wait(futures, return_when="FIRST_COMPLETED")
        if not lost:
            lost.append(futures[0].key)
            (holder,) = client.who_has(futures)[futures[0].key]
            os.kill(client.run(os.getpid, workers=[holder])[holder], signal.SIGKILL)
            wait_until(lambda: futures[0].status != "finished")

    with distributed.Client(cluster) as client:
        batches = [[Card("one", "sim:gtx980")]]
        monkeypatch.setattr(distributed, "wait", kill_the_holder)
        (one,) = measure_cards(client, lambda: batches.pop() if batches else None, SHORT, 100.0)
    assert lost and one.content is not None and not one.problem


def test_resuming_measures_what_could_not_be_stored(tmp_path, cluster):
    def block_second(done, total, card):
        if card.endswith("0"):
            (next(tmp_path.glob("run-*")) / "sim-gtx980-00001.json").mkdir(exist_ok=True)

    ended = run(tmp_path, cluster, 1, progress=block_second)
    ended = run(tmp_path, cluster, 3, resume=True)
    assert ended.measured == 2 and len(ended.problems) == 1 and "00001" in ended.problems[0]
    (ended.folder / "sim-gtx980-00001.json").rmdir()
    before = {file: file.stat().st_mtime_ns for file in ended.folder.glob("*.json")}
    ended = run(tmp_path, cluster, 3, resume=True)
    assert (ended.measured, ended.problems) == (3, [])
    assert all(file.stat().st_mtime_ns == time for file, time in before.items())


def test_two_processes_do_not_write_one_run(tmp_path):
    with run_folder(tmp_path, "sim:gtx980", resume=False), pytest.raises(UsageError, match=r"process \d+ on .* writes"):
        enter(run_folder(tmp_path, "sim:gtx980", resume=True))
    with pytest.raises(UsageError, match="is a run of sim:gtx980, not of sim:gtx980 --quick"):
        enter(run_folder(tmp_path, "sim:gtx980 --quick", resume=True))


def test_a_card_that_fails_or_hangs_is_given_up():
    content, problem = measure_card.measure_card("sim:nothing", SHORT, 100.0)
    assert content is None and problem.startswith("unknown device")
    content, problem = measure_card.measure_card("sim:h200", (), 0.5)
    assert (content, problem) == (None, "it took more than 0.5 s")


def proc(pid, name):
    """What the kernel says of a process; nothing once it has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def wait_until(condition):
    while not condition():
        time.sleep(0.02)


def test_the_measuring_process_ends_with_its_worker():
    """A worker that is killed must not leave a GPU in use."""
    code = "from gpudissect.fleet.measure_card import measure_card; measure_card('sim:h200', (), 100.0)"
    worker = subprocess.Popen([sys.executable, "-c", code])
    children = f"task/{worker.pid}/children"
    wait_until(lambda: proc(worker.pid, children))
    child = int(proc(worker.pid, children))
    wait_until(lambda: "llvmlite" in proc(child, "maps"))  # it has loaded what measures
    worker.kill()
    worker.wait()
    wait_until(lambda: "State:\tZ" in (status := proc(child, "status")) or not status)


@linux
def test_a_gpu_that_falls_off_the_bus_loses_its_own_values_only(tmp_path, cluster):
    """The process that drives it is lost in the middle of a survey; its result has what was measured before."""
    with distributed.Client(cluster) as client:
        workers = [*client.run(os.getpid).values()]

    def kill_one():
        while not (found := [device for worker in workers for device in device_processes(worker)]):
            time.sleep(0.02)
        time.sleep(1)  # until it has opened the GPU
        os.kill(found[0], signal.SIGKILL)

    killer = Thread(target=kill_one, daemon=True)
    killer.start()
    ended = run(tmp_path, cluster, 3, options=("--only", "l1"))
    killer.join(10)
    (problem,) = ended.problems
    assert problem.startswith("sim:gtx980-0000") and "exited with code" in problem
    results = [json.loads(file.read_text(encoding="utf-8")) for file in ended.folder.glob("*.json")]
    assert sum(not result["failures"] for result in results) == 2


def test_each_gpu_is_one_card_whatever_its_workers_call_it():
    seen = {
        "a": [Gpu("node", "cuda:0", "GPU-1", None), Gpu("node", "cuda:1", "GPU-2", None)],
        "b": [Gpu("node", "cuda:0", "GPU-1", None)],
        "c": [Gpu("node", "cuda:0", "GPU-2", None), Gpu("node", "cuda:1", "GPU-3", "too old")],
    }
    here = {"a": 1, "b": 1}
    client = SimpleNamespace(
        wait_for_workers=lambda *_, **__: None,
        nthreads=lambda: here,
        run=lambda *_, workers, **__: {each: seen[each] for each in workers},
    )
    finder = Finder(client)
    one, two = Card("node-GPU-1", "cuda:0", ("a", "b")), Card("node-GPU-2", "cuda:1", ("a",))
    assert finder.new_cards() == [one, two] and not finder.unusable
    here["c"] = 1
    assert finder.new_cards() == [] and finder.unusable == ["node cuda:1 cannot be used: too old"]


def test_the_gpus_of_a_worker_have_host_number_and_uuid(monkeypatch):
    monkeypatch.setattr(driver, "list_gpus", lambda: [(0, "H200", None), (1, "G80", "too old")])
    monkeypatch.setattr(driver, "uuid_at", lambda index: f"GPU-{index}")
    assert [(gpu.spec, gpu.uuid, gpu.why_not) for gpu in measure_card.gpus_here()] == [
        ("cuda:0", "GPU-0", None),
        ("cuda:1", "GPU-1", "too old"),
    ]


def test_gpus_of_workers_that_come_later_are_measured(tmp_path, monkeypatch):
    """A batch system starts its jobs one after the other. Here each worker has one GPU, a simulated one."""

    def one_gpu():
        return [Gpu("node", f"sim:gtx980?seed={os.getpid()}", f"GPU-{os.getpid()}", None)]

    def start_two_more(done, *_):
        if done == 1:
            late.scale(3)

    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as late:
        monkeypatch.setattr(dask_workers, "gpus_here", one_gpu)
        monkeypatch.setattr(dask_workers, "_queued_cluster", lambda _: (late, 3))
        monkeypatch.setattr(late, "close", lambda: None)
        request = FleetRequest(None, 1, SHORT, 100.0, cluster=tmp_path)
        ended = run_fleet(tmp_path, request, False, start_two_more)
        monkeypatch.undo()
    assert (ended.measured, ended.cards, ended.problems) == (3, 3, [])
    assert len(specs(tmp_path)) == 3


def test_simulated_cards_spread_and_have_planted_faults():
    plain = [card.spec for card in simulated_cards("sim:gtx980", 2, 0.0, ())]
    assert plain == ["sim:gtx980?seed=0", "sim:gtx980?seed=1"]
    cards = [card.spec for card in simulated_cards("sim:gtx980?jitter=0", 500, 0.01, ("7:dram=0.9&sms=15",))]
    factors = np.array([float(spec.rpartition("dram=")[2].partition("&")[0]) for spec in cards])
    assert cards[7].startswith("sim:gtx980?jitter=0&seed=7&dram=") and cards[7].endswith("&sms=15")
    assert factors[7] < 0.94 and 0.008 < np.delete(factors, 7).std() < 0.012


@pytest.mark.parametrize(
    "fault",
    ["7:dram=0.9", "0", "0:dram", "x:dram=1", "0:dram=x", "0:sms=17", "0:drum=1", "\u0661:dram=1", "1:sms=2&sms=3"],
)
def test_impossible_faults_are_refused(fault):
    with pytest.raises(UsageError):
        simulated_cards("sim:gtx980", 7, 0.01, (fault,))


def test_without_a_gpu_nothing_is_written(tmp_path, cluster):
    with pytest.raises(DeviceError, match="no usable GPU"):
        run(tmp_path, cluster, 1, device=None)
    assert not list(tmp_path.iterdir())


def test_a_scheduler_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(dask_workers, "CONNECT_S", 0.2)
    with pytest.raises(DeviceError, match=r"no Dask scheduler answers at tcp://127"):
        enter(workers_of("tcp://127.0.0.1:9", None, 1))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it lacks 'kind'"),
        ("kind = 'os.system'", "'kind' is one of SLURMCluster"),
        ("kind = 'SLURMCluster'\njobs = 'x'", "'jobs' a number"),
        ("kind = 'SLURMCluster'\njobs = 0", "'jobs' a number"),
        ("kind =", "describes no cluster"),
    ],
)
def test_a_file_that_describes_no_cluster(tmp_path, text, why):
    file = tmp_path / "cluster.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=why):
        enter(workers_of(None, file, 1))


def test_a_batch_system_gets_its_options_and_the_number_of_jobs(tmp_path, monkeypatch, cluster):
    given = {}

    class Cluster:
        scheduler_address = cluster.scheduler_address

        def __init__(self, **options):
            given.update(options)

        def scale(self, jobs):
            given["jobs"] = jobs

        def close(self):
            given["closed"] = True

    monkeypatch.setitem(sys.modules, "dask_jobqueue", SimpleNamespace(SLURMCluster=Cluster))
    monkeypatch.setattr(distributed, "Client", lambda *_, **__: distributed.client.Client(cluster))
    file = tmp_path / "cluster.toml"
    file.write_text("kind = 'SLURMCluster'\njobs = 16\n[options]\nqueue = 'gpu'\n", encoding="utf-8")
    enter(workers_of(None, file, 1))
    assert given == {"queue": "gpu", "jobs": 16, "closed": True}


def test_a_scheduler_without_workers():
    def wait_for_workers(count, timeout):
        raise TimeoutError

    with pytest.raises(DeviceError, match="no worker came within 60 s"):
        Finder(SimpleNamespace(wait_for_workers=wait_for_workers))


def test_without_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match="needs Dask: pip install"):
        enter(workers_of(None, None, 1))
