"""Loops of the simulator are compiled in other processes."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from gpudissect.device.kinds import open_device
from gpudissect.device.simulated import precompile
from gpudissect.simulation.cache import compiled


@pytest.mark.parametrize(
    ("code", "stored"),
    [(precompile.SMS, {"_engine.simulate"}), (precompile.CACHES, {"_kernel.walk", "_replacement.reset"})],
)
def test_a_process_stores_its_loops(tmp_path, code, stored):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    command = [sys.executable, "-P", "-c", code]
    subprocess.run(command, env={**os.environ, "NUMBA_CACHE_DIR": str(folder)}, check=True)
    assert stored <= {path.name.partition("-")[0] for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("start", "code"),
    [(precompile.start_sms_if_missing, precompile.SMS), (precompile.start_caches_if_missing, precompile.CACHES)],
)
@pytest.mark.parametrize("missing", [True, False])
def test_a_process_compiles_missing_loops_once(monkeypatch, start, code, missing):
    started = []

    def popen(command, **options):
        started.append(command[-1])
        return SimpleNamespace(poll=lambda: None)

    monkeypatch.setattr(precompile, "_processes", {})
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(compiled, "is_missing", lambda function: missing)
    monkeypatch.setattr(subprocess, "Popen", popen)
    start()
    start()
    assert started == [code] * missing and precompile.is_compiling() == missing


def test_a_simulated_gpu_prepares_the_loop_of_sms(monkeypatch):
    started = []
    monkeypatch.setattr(precompile, "start_sms_if_missing", lambda: started.append(1))
    with open_device("sim:gtx980") as device:
        assert not device.prepare() and started
