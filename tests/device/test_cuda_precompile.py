"""Kernels compiled in advance: those that a batch needs, none twice, and nothing where that is not possible."""

import pytest

from gpudissect.device.cuda import precompile as module
from gpudissect.device.cuda.compile import Compiler
from gpudissect.device.cuda.precompile import MIN_KERNELS, compile_all, precompile
from gpudissect.workload import Instruction, Mix, Path, Sequential, Step, Stream, Timing, Transfer
from gpudissect.workload.chase import Chase

CAPABILITY = (9, 0)
SIMPLE = list(Instruction)[:6]
MIXES = [Mix(body=(Step(simple, 8),), warps=1, block_size=32, iterations=2, sms=1) for simple in SIMPLE]
STREAM = Stream(path=Path.GLOBAL, transfer=Transfer.READ, footprint=4096, blocks=1, threads=32, width=4)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)


@pytest.fixture
def compiler(tmp_path):
    return Compiler("sm_90", tmp_path)


def test_kernels_of_a_batch_are_compiled(compiler):
    chase = Chase(path=Path.GLOBAL, order=Sequential(4, 32), timing=Timing.LAP)
    precompile([*MIXES, MIXES[0], STREAM, chase], CAPABILITY, compiler)
    assert len(list(compiler.folder.glob("*.cubin"))) == len(MIXES) + 1
    for code in module._codes([*MIXES, STREAM], CAPABILITY):
        assert compiler.has(*code) and compiler.cubin(*code)


def test_no_module_comes_from_the_working_folder(compiler, monkeypatch, tmp_path):
    (tmp_path / "json.py").write_text("open('was_run', 'w').close()\nfrom _json import *\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "_codes", lambda *_: [("missing.cu", str(number)) for number in range(MIN_KERNELS)])
    precompile(MIXES, CAPABILITY, compiler)
    assert not (tmp_path / "was_run").exists()


def test_without_a_safe_folder_no_process_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(module.subprocess, "Popen", None)
    tmp_path.chmod(0o777)
    precompile(MIXES, CAPABILITY, Compiler("sm_90", tmp_path))


def test_few_kernels_are_compiled_when_needed(compiler):
    precompile(MIXES[:2], CAPABILITY, compiler)
    assert not list(compiler.folder.iterdir())


def test_without_processes_kernels_are_compiled_when_needed(compiler, monkeypatch):
    def refuse(*_, **__):
        raise OSError

    monkeypatch.setattr(module.subprocess, "Popen", refuse)
    precompile(MIXES, CAPABILITY, compiler)
    assert not list(compiler.folder.iterdir())


def test_a_kernel_that_does_not_compile_does_not_stop_the_others(compiler):
    good = next(iter(module._codes([STREAM], CAPABILITY)))
    compile_all(compiler, [("mix.cu", "NONSENSE"), good])
    assert compiler.has(*good)
