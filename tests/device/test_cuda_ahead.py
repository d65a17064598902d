"""Kernels compiled before they are needed: those that a batch needs, none twice, and nothing where that cannot be."""

from pathlib import Path as FilePath

import pytest

from gpudissect.device.cuda import ahead
from gpudissect.device.cuda.compile import Compiler
from gpudissect.workload import Instruction, Mix, Path, Sequential, Step, Stream, Timing, Transfer
from gpudissect.workload.chase import Chase

CAPABILITY = (9, 0)


def mix(instruction: Instruction) -> Mix:
    return Mix(body=(Step(instruction, 8),), warps=1, block_size=32, iterations=2, sms=1)


MIXES = [mix(each) for each in (
    Instruction.FADD, Instruction.FMUL, Instruction.FFMA, Instruction.IADD, Instruction.IMAD, Instruction.LOP,
)]  # fmt: skip
STREAM = Stream(path=Path.GLOBAL, transfer=Transfer.READ, footprint=4096, blocks=1, threads=32, width=4)


@pytest.fixture
def compiler(tmp_path: FilePath) -> Compiler:
    return Compiler(*CAPABILITY, tmp_path)


def test_several_kernels_are_there_before_they_are_asked_for(compiler: Compiler, monkeypatch) -> None:
    monkeypatch.setattr(ahead.os, "cpu_count", lambda: 2)
    chase = Chase(path=Path.GLOBAL, order=Sequential(4, 32), timing=Timing.LAP)
    ahead.compile_ahead([*MIXES, MIXES[0], STREAM, chase], CAPABILITY, compiler)
    assert len(list(compiler.folder.glob("*.cubin"))) == len(MIXES) + 1
    for code in ahead._codes([*MIXES, STREAM], CAPABILITY):
        assert compiler.has(*code) and compiler.cubin(*code)


def test_no_module_comes_from_the_working_folder(compiler: Compiler, monkeypatch, tmp_path: FilePath) -> None:
    (tmp_path / "json.py").write_text("open('was_run', 'w').close()\nfrom _json import *\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ahead.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(ahead, "_codes", lambda *_: [("missing.cu", str(number)) for number in range(ahead.FEW)])
    ahead.compile_ahead(MIXES, CAPABILITY, compiler)
    assert not (tmp_path / "was_run").exists()


def test_without_a_safe_folder_no_process_is_started(tmp_path: FilePath, monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    tmp_path.chmod(0o777)
    monkeypatch.setattr(ahead.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(ahead.subprocess, "Popen", refuse)
    ahead.compile_ahead(MIXES, CAPABILITY, Compiler(*CAPABILITY, tmp_path))


def test_few_are_left_to_those_who_need_them(compiler: Compiler) -> None:
    ahead.compile_ahead(MIXES[:2], CAPABILITY, compiler)
    assert not list(compiler.folder.iterdir())


def test_where_no_process_can_be_started_they_are_left_too(compiler: Compiler, monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr(ahead.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(ahead.subprocess, "Popen", refuse)
    ahead.compile_ahead(MIXES, CAPABILITY, compiler)
    assert not list(compiler.folder.iterdir())


def test_what_does_not_compile_costs_the_others_nothing(compiler: Compiler) -> None:
    good = next(iter(ahead._codes([STREAM], CAPABILITY)))
    ahead.compile_all(compiler.arch, compiler.folder, [("mix.cu", "NONSENSE"), good])
    assert compiler.has(*good)
