"""A simulated GPU runs a batch in several threads, and compiles its loops in two processes."""

import os
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from gpudissect.device.simulated import SimulatedGpu, precompile
from gpudissect.device.simulated.memory import Stopped
from gpudissect.errors import UnsupportedWorkload
from gpudissect.simulation.cache import compiled
from gpudissect.workload import Chase, Instruction, Mix, Path, Shuffled, Step
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


MIX = Mix(body=(Step(Instruction.FFMA, 1),), warps=1, block_size=32, iterations=1)


@pytest.mark.parametrize(
    ("batch", "missing", "count"), [([CHASES[0], MIX], True, 1), ([CHASES[0], MIX], False, 0), ([MIX] * 2, True, 0)]
)
def test_a_second_process_compiles_if_both_loops_are_needed(monkeypatch, batch, missing, count):
    started, elsewhere = [], []
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(compiled, "is_missing", lambda function: missing)
    monkeypatch.setattr(compiled, "compile_elsewhere", lambda function, process: elsewhere.append(function))
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: started.append(command))
    precompile.start_if_missing(batch)
    assert len(started) == len(elsewhere) == count
    assert all(command[-1] == precompile.CODE for command in started)


def test_the_second_process_stores_the_loop(monkeypatch, tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    command = [sys.executable, "-P", "-c", precompile.CODE]
    subprocess.run(command, env={**os.environ, "NUMBA_CACHE_DIR": str(folder)}, check=True)
    assert [path.name.partition("-")[0] for path in folder.iterdir()] == ["_engine.simulate"]
