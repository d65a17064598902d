"""Compiles kernels ahead of their use, in several processes: the compiler runs on one core of a process.

Run as a module it is one of those processes: ``python -P -m gpudissect.device.cuda.precompile sm_90 FOLDER``. It reads
a source and its macros, as JSON, from each line of its standard input, and answers with a line. It ignores errors:
whoever needs a kernel reports them.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath
from threading import Condition, Thread

from gpudissect.device.cuda.chase.runner import CHAINS, chase_code
from gpudissect.device.cuda.compile import KERNELS, Code, Compiler
from gpudissect.device.cuda.launch import LAUNCHES
from gpudissect.device.cuda.mix.body import build_body
from gpudissect.device.cuda.mix.operands import links_code
from gpudissect.device.cuda.stream.backends import WORDS, stream_code
from gpudissect.errors import DeviceError, KernelFailed
from gpudissect.workload import Chase, Launch, Mix, Stream, Workload

MIN_KERNELS = 6  # fewer are compiled when needed: starting a process takes as long as several of them
MAX_PROCESSES = 16
NICENESS = 10  # the survey itself, and the compiler of the cache simulator, go first
SURVEY = KERNELS / "survey.json"
"""Kernels that a whole survey of an H100 needs, in the order of their use."""


class Precompiler:
    """Puts missing cubins into a compiler's folder.

    Whoever misses as many as `MIN_KERNELS` surveys a GPU for the first time, and will soon miss those of `SURVEY`. They
    are compiled while the GPU runs what is there already.
    """

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._present: set[Code] = set()  # in the folder, as seen by `start`
        self._changed = Condition()  # guards the attributes below
        self._waiting: dict[Code, None] = {}  # in the order in which they are compiled
        self._compiling: set[Code] = set()
        self._processes: list[subprocess.Popen[str]] = []
        self._started = 0  # threads, each with a process
        self._is_survey = False  # whether `SURVEY` was added

    def start_survey(self) -> None:
        """Begin to compile the kernels of `SURVEY`, if as many as `MIN_KERNELS` are missing."""
        self.start(survey_codes())

    def start(self, codes: Iterable[Code]) -> None:
        """Begin to compile those that are missing, before all others."""
        if self._compiler.folder is None:  # no way to pass cubins on
            return
        unknown = dict.fromkeys(code for code in codes if code not in self._present)
        missing = [code for code in unknown if not self._compiler.has(*code)]
        self._present.update(unknown.keys() - set(missing))
        with self._changed:
            if len(missing) < MIN_KERNELS and not self._started:
                return
            first = [code for code in missing if code not in self._compiling]
            self._waiting = dict.fromkeys((*first, *self._waiting, *self._rest()))
            count = min(os.cpu_count() or 1, MAX_PROCESSES, -(-len(self._waiting) // 2))
            with contextlib.suppress(RuntimeError):  # no more threads possible
                for _ in range(self._started, count if count > 1 else 0):
                    Thread(target=self._work, name="gpudissect-compile", daemon=True).start()
                    self._started += 1

    def is_ready(self, codes: Iterable[Code]) -> bool:
        """Whether none of them waits to be compiled, or is being compiled."""
        return not self._started or not any(code in self._waiting or code in self._compiling for code in codes)

    def wait(self, codes: Iterable[Code]) -> None:
        """Wait until those that were begun are compiled, or cannot be."""
        wanted = tuple(codes)
        with self._changed:
            self._changed.wait_for(lambda: self.is_ready(wanted))

    def close(self) -> None:
        """End all processes."""
        with self._changed:
            self._waiting.clear()
            for process in self._processes:
                process.kill()

    def _rest(self) -> list[Code]:
        """What a survey needs besides, the first time."""
        if self._is_survey:
            return []
        self._is_survey = True
        return [code for code in survey_codes() if code not in self._present and not self._compiler.has(*code)]

    def _work(self) -> None:
        """Let a process compile one kernel after the other until none is left."""
        code: Code = ()
        has_ended = False
        try:
            assert self._compiler.folder is not None
            with _start(self._compiler.arch, self._compiler.folder) as process:
                with self._changed:
                    self._processes.append(process)
                assert process.stdin is not None and process.stdout is not None
                while (following := self._next(code)) is not None:
                    code = following
                    process.stdin.write(json.dumps(code) + "\n")
                    process.stdin.flush()
                    if not process.stdout.readline():
                        break
                else:
                    has_ended = True
        except OSError:  # no more processes possible, or it has ended
            pass
        finally:
            if not has_ended:
                with self._changed:
                    self._end(code)

    def _next(self, done: Code) -> Code | None:
        """The next to compile; `done` is compiled. None if none is left: the thread counts as ended from then on."""
        with self._changed:
            code = next(iter(self._waiting), None)
            if code is None:
                self._end(done)
                return None
            self._compiling.add(code)  # before it leaves those that wait: `is_ready` takes no lock
            del self._waiting[code]
            self._compiling.discard(done)
            self._changed.notify_all()
            return code

    def _end(self, done: Code) -> None:
        self._started -= 1
        self._compiling.discard(done)
        self._changed.notify_all()


def _start(arch: str, folder: FilePath) -> subprocess.Popen[str]:
    # -P: import no modules from the working folder
    command = [sys.executable, "-P", "-m", __name__, arch, str(folder)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)


def survey_codes() -> list[Code]:
    """Source and macros of each kernel in `SURVEY`, in order of use."""
    return [tuple(code) for code in json.loads(SURVEY.read_text(encoding="utf-8"))]


def codes_of(batch: Iterable[Workload], capability: tuple[int, int]) -> Iterator[Code]:
    """Sources and macros of the kernels of a batch; unsupported workloads are skipped."""
    for workload in batch:
        with contextlib.suppress(DeviceError):
            match workload:
                case Chase():
                    yield from (CHAINS, chase_code(workload))
                case Mix():
                    yield from (build_body(workload, capability).code, links_code(workload))
                case Stream():
                    yield from (WORDS, stream_code(workload))
                case Launch():
                    yield LAUNCHES


def compile_all(compiler: Compiler, lines: Iterable[str]) -> Iterator[str]:
    """Compile the kernel of each line into the compiler's folder, and answer with a line."""
    for line in lines:
        with contextlib.suppress(KernelFailed):
            compiler.cubin(*json.loads(line))
        yield "\n"


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends this one
    os.nice(NICENESS)
    for answer in compile_all(Compiler(sys.argv[1], FilePath(sys.argv[2])), sys.stdin):
        sys.stdout.write(answer)
        sys.stdout.flush()
