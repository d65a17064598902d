"""A simulated GPU runs a batch in several threads."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from gpudissect.device.simulated import SimulatedGpu
from gpudissect.device.simulated.memory import Stopped
from gpudissect.errors import UnsupportedWorkload
from gpudissect.workload import Chase, Path, Shuffled
from tests.device.test_simulated_gpu import EACH, FITS, GPU

CHASES = [Chase(path=Path.GLOBAL, order=Shuffled(200, 128, seed), timing=EACH, laps=3) for seed in range(40)]


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1, 2}, raising=False)
    return SimulatedGpu(GPU, spec="sim:test", name="test")


def test_traces_of_a_batch_are_those_of_its_workloads_alone(gpu, monkeypatch):
    threads = set()
    run_one = gpu._run_one
    monkeypatch.setattr(gpu, "_run_one", lambda *given: threads.add(threading.get_ident()) or run_one(*given))
    alone = [gpu.run([chase])[0] for chase in CHASES]
    threads.clear()
    for trace, other in zip(gpu.run(CHASES), alone, strict=True):
        assert trace.workload == other.workload and np.array_equal(trace.cycles, other.cycles)
    assert threads and threading.get_ident() not in threads


def test_after_an_error_no_workload_is_begun_and_the_gpu_is_usable(gpu, monkeypatch):
    run_one, begun = gpu._run_one, []
    monkeypatch.setattr(gpu, "_run_one", lambda *given: begun.append(given) or run_one(*given))
    with pytest.raises(UnsupportedWorkload, match="SM 99"):
        gpu.run([replace(CHASES[0], sm=99), *CHASES * 50])
    assert len(begun) < 1000
    assert [trace.cycles.size for trace in gpu.run(CHASES[:1]) + gpu.run(CHASES)] == [600] * 41


def test_a_long_chase_ends_when_it_is_stopped(gpu):
    gpu.run([replace(CHASES[0], order=FITS)])
    (memory,) = gpu._memories[0].values()
    memory.stopped = True
    with pytest.raises(Stopped):
        gpu._run_one(CHASES[0], gpu._memories[0])
