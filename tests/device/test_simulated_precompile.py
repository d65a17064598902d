"""Loops of the simulator are compiled in other processes."""

import os
import subprocess
import sys

import pytest

from gpudissect.device.simulated import precompile
from gpudissect.simulation.cache import compiled
from gpudissect.simulation.cache._kernel import reset, walk
from gpudissect.workload import Chase, Instruction, Mix, Path, Shuffled, Step, Timing

CHASE = Chase(path=Path.GLOBAL, order=Shuffled(200, 128, 1), timing=Timing.EACH)


MIX = Mix(body=(Step(Instruction.FFMA, 1),), warps=1, block_size=32, iterations=1)


@pytest.mark.parametrize(
    ("batch", "missing", "count"), [([CHASE, MIX], True, 1), ([CHASE, MIX], False, 0), ([MIX] * 2, True, 0)]
)
def test_a_second_process_compiles_if_both_loops_are_needed(monkeypatch, batch, missing, count):
    started, elsewhere = [], []
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(compiled, "is_missing", lambda function: missing)
    monkeypatch.setattr(compiled, "compile_elsewhere", lambda function, process: elsewhere.append(function))
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: started.append(command))
    precompile.start_if_missing(batch)
    assert len(started) == len(elsewhere) == count
    assert all(command[-1] == precompile.SMS for command in started)


@pytest.mark.parametrize(
    ("code", "stored"), [(precompile.SMS, {"_engine.simulate"}), (precompile.CACHES, {"_kernel.walk", "_kernel.reset"})]
)
def test_a_process_stores_its_loops(tmp_path, code, stored):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    command = [sys.executable, "-P", "-c", code]
    subprocess.run(command, env={**os.environ, "NUMBA_CACHE_DIR": str(folder)}, check=True)
    assert stored <= {path.name.partition("-")[0] for path in folder.iterdir()}


def test_loops_of_caches_are_compiled_elsewhere_once(monkeypatch):
    missing = {walk, reset}
    started = []
    monkeypatch.setattr(precompile, "_processes", [])
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(compiled, "is_missing", missing.__contains__)
    monkeypatch.setattr(compiled, "compile_elsewhere", lambda function, process: missing.remove(function))
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: started.append(command))
    precompile.start_caches_if_missing()
    precompile.start_caches_if_missing()
    assert [command[-1] for command in started] == [precompile.CACHES] and not missing
