"""The process that runs kernels, from outside: started, given jobs, and ended when a kernel crashes or never ends."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from pydantic import TypeAdapter, ValidationError

from gpudissect.errors import KernelFailed
from gpudissect.explanation import jobs, process
from gpudissect.explanation.jobs import Answer, Step

_END_S = 5.0
_MAX_LINE_BYTES = 1 << 16
_LINE: TypeAdapter[Step | Answer] = TypeAdapter(Step | Answer)


class StageFailed(KernelFailed):
    """A stage with an instrumented kernel failed; the others were measured."""

    exit_code = 4


class KernelProcess:
    """The process that runs kernels on a GPU, started when it is needed. What it logs goes to `log`."""

    def __init__(self, gpu: int, log: IO[str] | int = subprocess.DEVNULL) -> None:
        self._gpu, self._log = gpu, log
        self._process: subprocess.Popen[bytes] | None = None
        self._received = b""

    def measure(self, folder: Path, limit_s: float, progress: Callable[[Step], None] = lambda step: None) -> None:
        """Measure the job of a folder; `progress` is called at each step, none of which may take `limit_s` seconds.

        Raises `KernelFailed` in one line; what was measured is in the folder. A stage with an instrumented kernel that
        fails is left out, and if the others were not measured they are now; then the error is `StageFailed`.
        """
        try:
            self._run(folder, limit_s, progress)
        except KernelFailed as error:
            measured = jobs.read_measured(folder)
            if measured is None or measured.stage not in jobs.INSTRUMENTED:
                raise
            stage = measured.stage
            if stage == "counts":
                jobs.write_job(folder, jobs.read_job(folder).model_copy(update={"skip": ("counts", "trace")}))
                self._run(folder, limit_s, progress)
            raise StageFailed(f"no {stage}: {error}") from None

    def _run(self, folder: Path, limit_s: float, progress: Callable[[Step], None]) -> None:
        running = self._process = self._process or self._start()
        assert running.stdin is not None
        with suppress(OSError):  # it has ended: then it gives no answer
            running.stdin.write(f"{json.dumps(str(folder))}\n".encode())
            running.stdin.flush()
        while isinstance(line := self._read(running, limit_s), Step):
            progress(line)
        if line.is_lost:
            self.close()
        if line.has_timed_out:
            raise KernelFailed(f"the kernel did not end within {jobs.read_job(folder).limit_s:.4g} s")
        if line.error:
            raise KernelFailed(line.error)

    def _read(self, running: "subprocess.Popen[bytes]", limit_s: float) -> Step | Answer:
        """The next line. Raises `KernelFailed`, and ends the process, without one."""
        assert running.stdout is not None
        end = time.monotonic() + limit_s
        while b"\n" not in self._received:
            ready, _, _ = select.select([running.stdout], [], [], max(0.0, end - time.monotonic()))
            data = os.read(running.stdout.fileno(), _MAX_LINE_BYTES) if ready else b""
            if not data or len(self._received) > _MAX_LINE_BYTES:
                self.kill()
                how = f"ended with code {running.returncode}" if ready else f"did not respond within {limit_s:.4g} s"
                raise KernelFailed(f"the process that ran the kernel {how}")
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        try:
            return _LINE.validate_json(line)
        except ValidationError:
            self.kill()
            raise KernelFailed("the process that ran the kernel sent no valid response") from None

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-P", "-m", process.__name__, str(self._gpu)]
        pipe = subprocess.PIPE
        self._received = b""
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._log, env=dict(os.environ))

    def close(self) -> None:
        """Let the process end, then make sure that it has."""
        if self._process is not None:
            if self._process.stdin is not None:
                with suppress(OSError):
                    self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
            self.kill()

    def kill(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
        self._process = None
