"""Compiles what a batch will need, in several processes: the compiler keeps one core of one process busy.

Run as a module it is one of those processes: ``python -P -m gpudissect.device.cuda.ahead sm_90 FOLDER``, with sources
and macros as JSON on its standard input. Whatever goes wrong in one is left to the one who needs the kernel, and
says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path as FilePath

from gpudissect.device.cuda.compile import Code, Compiler, CubinCache, compile_cubin, compiler_version, cubin_key
from gpudissect.device.cuda.mix.bodies import body_of
from gpudissect.device.cuda.stream import global_memory as stream_global
from gpudissect.device.cuda.stream import shared as stream_shared
from gpudissect.errors import DeviceError, KernelFailed
from gpudissect.workload import Mix, Path, Stream, Workload

FEW = 6  # kernels that are compiled as they come: to start a process takes as long as several
MOST_PROCESSES = 8


def compile_ahead(batch: Iterable[Workload], capability: tuple[int, int], compiler: Compiler) -> None:
    """Put the cubins that mixes and streams of a batch need, and that are not there yet, into the compiler's folder."""
    if compiler.folder is None:  # nothing to pass cubins on in
        return
    missing = [code for code in dict.fromkeys(_codes(batch, capability)) if not compiler.has(*code)]
    processes = min(os.cpu_count() or 1, MOST_PROCESSES, len(missing) // 2)
    if len(missing) < FEW or processes < 2:
        return
    # -P: import no modules from the working folder
    command = [sys.executable, "-P", "-m", __name__, compiler.arch, str(compiler.folder)]
    started: list[subprocess.Popen[str]] = []
    try:
        for number in range(processes):
            started += _start(command, json.dumps(missing[number::processes]))
        for one in started:
            one.wait()
    finally:
        for one in started:
            one.kill()  # those that Ctrl-C left; the others have ended


def _start(command: Sequence[str], work: str) -> list[subprocess.Popen[str]]:
    """A process at work; none where no more are to be had."""
    try:
        one = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, text=True)  # fmt: skip
    except OSError:
        return []
    assert one.stdin is not None
    with contextlib.suppress(OSError), one.stdin:  # it may have ended already
        one.stdin.write(work)
    return [one]


def _codes(batch: Iterable[Workload], capability: tuple[int, int]) -> Iterator[Code]:
    for each in batch:
        try:
            match each:
                case Mix():
                    yield body_of(each, capability).code
                case Stream(path=Path.GLOBAL | Path.GLOBAL_L2):
                    yield stream_global.code(each)
                case Stream(path=Path.SHARED):
                    yield stream_shared.code(each)
        except DeviceError:
            continue


def compile_all(arch: str, folder: FilePath, codes: Sequence[Code]) -> None:
    """Compile them one after the other into a folder."""
    cache = CubinCache(folder)
    for source, *rest in codes:
        own = tuple(rest)
        key = cubin_key(source, own, arch, compiler_version())
        try:
            cache.get(key, lambda source=source, own=own: compile_cubin(source, own, arch))  # type: ignore[misc]
        except KernelFailed:
            continue


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it ends it
    compile_all(sys.argv[1], FilePath(sys.argv[2]), [tuple(code) for code in json.load(sys.stdin)])
