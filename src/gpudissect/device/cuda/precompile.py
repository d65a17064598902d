"""Compiles the kernels that a batch needs in several processes: the compiler runs on one core of a process.

Run as a module it is one of those processes: ``python -P -m gpudissect.device.cuda.precompile sm_90 FOLDER``, with
sources and macros as JSON on its standard input. It ignores errors: whoever needs a kernel reports them.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path as FilePath

from gpudissect.device.cuda.compile import Code, Compiler
from gpudissect.device.cuda.mix.body import build_body
from gpudissect.device.cuda.stream.backends import tile_code
from gpudissect.errors import DeviceError, KernelFailed
from gpudissect.workload import Mix, Path, Stream, Workload

MIN_KERNELS = 6  # fewer are compiled when needed: starting a process takes as long as several of them
MAX_PROCESSES = 8


def precompile(batch: Iterable[Workload], capability: tuple[int, int], compiler: Compiler) -> None:
    """Put the missing cubins of the mixes and streams of a batch into the compiler's folder."""
    if compiler.folder is None:  # no way to pass cubins on
        return
    missing = [code for code in dict.fromkeys(_codes(batch, capability)) if not compiler.has(*code)]
    count = min(os.cpu_count() or 1, MAX_PROCESSES, len(missing) // 2)
    if len(missing) < MIN_KERNELS or count < 2:
        return
    # -P: import no modules from the working folder
    command = [sys.executable, "-P", "-m", __name__, compiler.arch, str(compiler.folder)]
    processes: list[subprocess.Popen[str]] = []
    try:
        with contextlib.suppress(OSError):  # no more processes possible
            for number in range(count):
                processes.append(_start(command, json.dumps(missing[number::count])))
        for process in processes:
            process.wait()
    finally:
        for process in processes:
            process.kill()  # after Ctrl-C; otherwise they have ended


def _start(command: Sequence[str], work: str) -> subprocess.Popen[str]:
    null = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=null, stderr=null, text=True)
    assert process.stdin is not None
    with contextlib.suppress(OSError), process.stdin:  # it may have ended already
        process.stdin.write(work)
    return process


def _codes(batch: Iterable[Workload], capability: tuple[int, int]) -> Iterator[Code]:
    for workload in batch:
        with contextlib.suppress(DeviceError):
            match workload:
                case Mix():
                    yield build_body(workload, capability).code
                case Stream(path=Path.GLOBAL | Path.GLOBAL_L2 | Path.READONLY | Path.TEXTURE | Path.SHARED):
                    yield tile_code(workload)


def compile_all(compiler: Compiler, codes: Iterable[Code]) -> None:
    """Compile kernels one after the other into the compiler's folder."""
    for code in codes:
        with contextlib.suppress(KernelFailed):
            compiler.cubin(*code)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends this one
    compile_all(Compiler(sys.argv[1], FilePath(sys.argv[2])), json.load(sys.stdin))
