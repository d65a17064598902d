"""Kernels compiled in advance: those that a batch needs, then those of a whole survey; nothing where that cannot be."""

import json
import threading
import time

import pytest

from gpudissect.device.cuda import precompile as module
from gpudissect.device.cuda.compile import Compiler
from gpudissect.device.cuda.precompile import MIN_KERNELS, Precompiler, codes_of, compile_all
from gpudissect.workload import Instruction, Mix, Path, Sequential, Step, Stream, Timing, Transfer
from gpudissect.workload.chase import Chase

CAPABILITY = (9, 0)
SIMPLE = list(Instruction)[:6]
MIXES = [Mix(body=(Step(simple, 8),), warps=1, block_size=32, iterations=2, sms=1) for simple in SIMPLE]
STREAM = Stream(path=Path.GLOBAL, transfer=Transfer.READ, footprint=4096, blocks=1, threads=32, width=4)
CHASE = Chase(path=Path.GLOBAL, order=Sequential(4, 32), timing=Timing.LAP)


@pytest.fixture(autouse=True)
def survey(monkeypatch, tmp_path_factory):
    """Two cores, and a survey that needs one kernel."""
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    file = tmp_path_factory.mktemp("survey") / "survey.json"
    file.write_text(json.dumps(list(codes_of([STREAM], CAPABILITY))))
    monkeypatch.setattr(module, "SURVEY", file)
    return file


@pytest.fixture
def compiler(tmp_path):
    return Compiler("sm_90", tmp_path)


def precompile(batch, compiler):
    precompiler, codes = Precompiler(compiler), list(codes_of(batch, CAPABILITY))
    precompiler.start(codes)
    precompiler.wait(codes)
    return precompiler


def has_all(compiler, *batch):
    return all(compiler.has(*code) for code in codes_of(batch, CAPABILITY))


def test_kernels_of_a_batch_are_compiled_then_those_of_a_survey(compiler):
    precompiler = precompile([*MIXES, MIXES[0], CHASE], compiler)
    assert has_all(compiler, *MIXES, CHASE)
    precompiler.wait(codes_of([STREAM], CAPABILITY))
    assert has_all(compiler, STREAM)
    kernels = set(codes_of([*MIXES, CHASE, STREAM], CAPABILITY))
    assert len(list(compiler.folder.glob("*.cubin"))) == len(kernels) == len(MIXES) + 5


def test_kernels_are_ready_once_they_are_compiled(compiler):
    precompiler, codes = Precompiler(compiler), [*codes_of(MIXES, CAPABILITY)]
    assert precompiler.is_ready(codes)
    precompiler.start(codes)
    assert not precompiler.is_ready(codes[-1:])
    precompiler.wait(codes)
    assert precompiler.is_ready(codes)


def test_the_kernels_of_a_survey_are_compiled_before_its_first_batch(compiler, survey):
    survey.write_text(json.dumps([*codes_of(MIXES, CAPABILITY)]))
    precompiler = Precompiler(compiler)
    precompiler.start_survey()
    precompiler.wait(codes_of(MIXES, CAPABILITY))
    assert has_all(compiler, *MIXES)


def test_kernels_that_come_while_processes_end_get_new_ones(compiler, monkeypatch):
    precompiler, late = Precompiler(compiler), [*codes_of(MIXES, CAPABILITY)]
    has_begun, real_next = threading.Event(), precompiler._next

    def next_code(done):
        if (code := real_next(done)) is None and not has_begun.is_set():
            precompiler.start(late)
            has_begun.set()
        return code

    monkeypatch.setattr(precompiler, "_next", next_code)
    first = [("missing.cu", str(number)) for number in range(MIN_KERNELS)]
    precompiler.start(first)
    assert has_begun.wait(60)
    precompiler.wait(late)
    assert has_all(compiler, *MIXES)


def test_closing_ends_the_processes(compiler):
    codes, precompiler = list(codes_of(MIXES, CAPABILITY)), Precompiler(compiler)
    precompiler.start(codes)
    deadline = time.monotonic() + 60
    while not precompiler._processes and time.monotonic() < deadline:
        time.sleep(0.01)
    precompiler.close()
    precompiler.wait(codes)
    assert not has_all(compiler, *MIXES)


def test_no_module_comes_from_the_working_folder(compiler, monkeypatch, tmp_path):
    (tmp_path / "json.py").write_text("open('was_run', 'w').close()\nfrom _json import *\n")
    monkeypatch.chdir(tmp_path)
    precompiler, codes = Precompiler(compiler), [("missing.cu", str(number)) for number in range(MIN_KERNELS)]
    precompiler.start(codes)
    precompiler.wait(codes)
    assert not (tmp_path / "was_run").exists()


def test_without_a_safe_folder_no_process_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(module.subprocess, "Popen", None)
    tmp_path.chmod(0o777)
    precompile(MIXES, Compiler("sm_90", tmp_path))


def test_few_kernels_are_compiled_when_needed(compiler):
    precompile(MIXES[:2], compiler)
    assert not list(compiler.folder.iterdir())


def test_without_processes_kernels_are_compiled_when_needed(compiler, monkeypatch):
    def refuse(*_, **__):
        raise OSError

    monkeypatch.setattr(module.subprocess, "Popen", refuse)
    precompile(MIXES, compiler)
    assert not list(compiler.folder.iterdir())


def test_without_threads_kernels_are_compiled_when_needed(compiler, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module, "Thread", refuse)
    precompile(MIXES, compiler)
    assert not list(compiler.folder.iterdir())


def test_a_kernel_that_does_not_compile_does_not_stop_the_others(compiler):
    good, _ = codes_of([STREAM], CAPABILITY)
    assert list(compile_all(compiler, map(json.dumps, [("mix.cu", "NONSENSE"), good]))) == ["\n"] * 2
    assert compiler.has(*good)
