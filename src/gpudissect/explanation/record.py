"""A kernel recorded: prepared without a GPU, measured in a process of its own, and made a profile without a GPU again.

The three steps share a folder, so that several kernels can be prepared and finished while another one is measured.
"""

import hashlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from pydantic import ValidationError

from gpudissect.errors import KernelFailed, UsageError
from gpudissect.explanation import jobs, process
from gpudissect.explanation.arguments import check_parameters, parse_arguments
from gpudissect.explanation.assemble import assemble
from gpudissect.explanation.instrument import (
    WARP_THREADS,
    BlockCount,
    Counted,
    Sample,
    Traced,
    counted,
    traced,
    with_source_lines,
)
from gpudissect.explanation.jobs import Answer, Job, Measured
from gpudissect.explanation.line_records import LAUNCH_RECORDS, SHIFT, LineRecords, pack, thinned
from gpudissect.explanation.line_sample import LineSampled, line_sampled
from gpudissect.explanation.packing import Trace, pack_bytes, pack_trace, relative_trace
from gpudissect.explanation.profile import SCHEMA, Allocation, Launch, Profile, Warp
from gpudissect.explanation.ptx import Module, parse_ptx
from gpudissect.explanation.sampling import ACCESSES_PER_WARP, MAX_WARPS, VISITS_PER_WARP, Plan
from gpudissect.machine_code.kernel import choose_kernel, read_cubin

MAX_TRACE_CHARACTERS = 1_500_000
"""Of all packed traces of a profile; beyond, fewer accesses of each warp are kept."""
_PTX = "kernel.ptx"
_END_S = 5.0
_REGISTERS_PER_SM, _MAX_REGISTERS, _MIN_REGISTERS = 1 << 16, 255, 32  # 65,536 on every GPU since Kepler


def prepare(
    folder: Path, ptx: str, kernel: str | None, launch: Launch, arguments: Sequence[str], architecture: str
) -> None:
    """Assemble the kernel and its instrumented forms, and write the job into a folder.

    Raises `UsageError` for arguments that the kernel does not take, `PtxError` and `MachineCodeError`.
    """
    module = parse_ptx(ptx)
    plain = assemble(with_source_lines(module), architecture)
    chosen = choose_kernel(plain.kernels, kernel)
    check_parameters(parse_arguments(arguments), [parameter.size for parameter in chosen.parameters])
    counting, tracing = _instrumented(module, chosen.name)
    (folder / _PTX).write_text(ptx, encoding="utf-8")
    (folder / jobs.PLAIN).write_bytes(plain.data)
    registers = _max_registers(launch)
    (folder / jobs.COUNTED).write_bytes(assemble(counting.ptx, architecture, registers).data)
    (folder / jobs.TRACED).write_bytes(assemble(tracing.ptx, architecture, registers).data)
    sampling = _sampled(module, chosen.name)
    if sampling.accesses:
        (folder / jobs.SAMPLED).write_bytes(assemble(sampling.ptx, architecture, registers).data)
    job = Job(
        kernel=chosen.name,
        launch=launch,
        arguments=tuple(arguments),
        counters=counting.array,
        trace={name.rpartition("_")[2]: name for name in tracing.arrays},
        lines={name.rpartition("_")[2]: name for name in sampling.arrays if sampling.accesses},
        accesses_of_blocks=_accesses_of_blocks(module, counting, tracing),
    )
    jobs.write_job(folder, job)


def _max_registers(launch: Launch) -> int:
    """Registers of a thread with which one block fits on an SM: instrumented kernels need more than the plain one."""
    threads = WARP_THREADS * max(1, launch.warps_per_block)
    return min(_MAX_REGISTERS, max(_MIN_REGISTERS, _REGISTERS_PER_SM // threads // 8 * 8))


def _instrumented(module: Module, kernel: str) -> tuple[Counted, Traced]:
    tracing = traced(module, kernel, warps=MAX_WARPS, accesses=ACCESSES_PER_WARP, visits=VISITS_PER_WARP)
    return counted(module, kernel), tracing


def _sampled(module: Module, kernel: str) -> LineSampled:
    return line_sampled(module, kernel, shift=SHIFT, capacity=LAUNCH_RECORDS)


def _accesses_of_blocks(module: Module, counting: Counted, tracing: Traced) -> tuple[int, ...]:
    numbers = np.array([access.instruction for access in tracing.accesses], np.int64)
    found = []
    for name, index in counting.blocks:
        function = module.function(name)
        block = function.blocks[index]
        inside = (numbers >= function.first + block.start) & (numbers < function.first + block.end)
        found.append(int(inside.sum()))
    return tuple(found)


class KernelProcess:
    """The process that runs kernels on a GPU, started when it is needed. What it logs goes to `log`."""

    def __init__(self, gpu: int, log: IO[str] | int = subprocess.DEVNULL) -> None:
        self._gpu, self._log = gpu, log
        self._process: subprocess.Popen[str] | None = None

    def measure(self, folder: Path, limit_s: float) -> None:
        """Measure the job of a folder. Raises `KernelFailed` in one line; what was measured is in the folder.

        A stage with an instrumented kernel that fails is left out, and the others are measured again.
        """
        try:
            self._run(folder, limit_s)
        except KernelFailed as error:
            measured = jobs.read_measured(folder)
            if measured is None or measured.stage not in ("counts", "trace", "lines"):
                raise
            stage = measured.stage
            if stage == "counts":
                jobs.write_job(folder, jobs.read_job(folder).model_copy(update={"skip": ("counts", "trace")}))
                self._run(folder, limit_s)
            raise KernelFailed(f"no {stage}: {error}") from None

    def _run(self, folder: Path, limit_s: float) -> None:
        running = self._process = self._process or self._start()
        assert running.stdin is not None and running.stdout is not None
        with suppress(OSError):  # it has ended: then it gives no answer
            running.stdin.write(f"{json.dumps(str(folder))}\n")
            running.stdin.flush()
        ready, _, _ = select.select([running.stdout], [], [], limit_s)
        line = running.stdout.readline() if ready else ""
        if not line:
            self._kill()
            how = f"did not finish within {limit_s:.0f} s" if not ready else f"ended with code {running.returncode}"
            raise KernelFailed(f"the process that ran the kernel {how}")
        try:
            answer = Answer.model_validate_json(line)
        except ValidationError:
            self._kill()
            raise KernelFailed("the process that ran the kernel gave no answer") from None
        if answer.is_lost:
            self.close()
        if answer.error:
            raise KernelFailed(answer.error)

    def _start(self) -> "subprocess.Popen[str]":
        command = [sys.executable, "-P", "-m", process.__name__, str(self._gpu)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._log, text=True, env=dict(os.environ))

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            if self._process.stdin is not None:
                with suppress(OSError):
                    self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
            self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
        self._process = None


def finish(folder: Path, tools: dict[str, str], notes: Sequence[str] = ()) -> Profile:
    """The profile of what was measured in a folder. Raises `UsageError` if the kernel did not even run once."""
    job, measured = jobs.read_job(folder), jobs.read_measured(folder)
    if measured is None or measured.gpu is None:
        raise UsageError("nothing was measured: the kernel did not run")
    ptx = (folder / _PTX).read_text(encoding="utf-8")
    module = parse_ptx(ptx)
    cubin = read_cubin((folder / jobs.PLAIN).read_bytes())
    kernel = choose_kernel(cubin.kernels, job.kernel)
    counting, tracing = _instrumented(module, job.kernel)
    counts: dict[tuple[str, int], BlockCount] = {}
    if measured.has_counts:
        counts = counting.read(np.load(folder / jobs.COUNTERS, allow_pickle=False).tobytes())
    arrays = [argument for argument in parse_arguments(job.arguments) if argument.count is not None]
    sizes = [argument.array_bytes for argument in arrays]
    return Profile(
        schema=SCHEMA,
        kernel=kernel.name,
        architecture=cubin.architecture,
        code_sha256=hashlib.sha256(kernel.code).hexdigest(),
        packed_ptx=pack_bytes(ptx.encode()),
        packed_cubin=pack_bytes(cubin.data),
        registers=measured.registers,
        shared_bytes=measured.shared_bytes,
        local_bytes=measured.local_bytes,
        launch=job.launch,
        arguments=job.arguments,
        gpu=measured.gpu,
        tools=tools,
        counts=tuple((*block, *count) for block, count in counts.items()),
        accesses=tuple((a.instruction, a.space, a.kind, a.size) for a in tracing.accesses),
        allocations=tuple(Allocation(name=a.name, bytes=a.array_bytes) for a in arrays),
        warps=_warps(folder, measured, tracing, sizes),
        lines=_lines(folder, measured, _sampled(module, job.kernel), sizes),
        blocks_per_sm=measured.blocks_per_sm,
        sweep=measured.sweep,
        results=measured.results,
        notes=(*notes, *_limits(module, job.kernel, tracing)),
    )


def _lines(folder: Path, measured: Measured, sampling: LineSampled, sizes: Sequence[int]) -> LineRecords | None:
    if not measured.has_lines:
        return None
    with np.load(folder / jobs.LINES, allow_pickle=False) as file:
        requests = sampling.read({name: file[name].tobytes() for name in file.files})
    return pack(sampling, thinned(requests, SHIFT), measured.addresses, sizes)


def _limits(module: Module, kernel: str, tracing: Traced) -> list[str]:
    """What instrumented code cannot show of this kernel."""
    notes = []
    if tracing.untraced:
        numbers = ", ".join(map(str, tracing.untraced[:20]))
        notes.append(f"addresses of these PTX instructions are not traced: {numbers}")
    functions = module.called_from(module.function(kernel))
    if any(instruction.name == "activemask" for function in functions for instruction in function.instructions):
        notes.append("the kernel reads activemask, which code for counts and traces may change")
    return notes


def _warps(folder: Path, measured: Measured, tracing: Traced, sizes: Sequence[int]) -> tuple[Warp, ...]:
    """The traces, with so few accesses of each warp that all fit into the profile."""
    found: list[tuple[tuple[int, int], Trace, int, int]] = []
    spaces = [access.space for access in tracing.accesses]
    for number, launch in enumerate(measured.traces):
        with np.load(folder / jobs.trace_file(number), allow_pickle=False) as file:
            arrays: dict[str, Any] = {name: file[name].tobytes() for name in file.files}
        plan = Plan(Sample(launch.blocks, launch.warps), launch.accesses)
        for slot, place in enumerate(plan.places()):
            visits, accesses = tracing.read_visits(arrays, slot), tracing.read_accesses(arrays, slot)
            trace = relative_trace(visits, accesses, spaces, measured.addresses, sizes)
            total = len(accesses.index) + accesses.overflow_count
            found.append((place, trace.first_accesses(plan.accesses), visits.overflow_count, total))
    limit = ACCESSES_PER_WARP
    while True:
        packed = [pack_trace(trace.first_accesses(limit)) for _, trace, _, _ in found]
        characters = sum(map(len, packed))
        if characters <= MAX_TRACE_CHARACTERS or limit <= 1:
            break
        longest = max(len(trace.accessed) for _, trace, _, _ in found)
        limit = max(1, int(min(limit, longest) * min(0.8, 0.95 * MAX_TRACE_CHARACTERS / characters)))
    return tuple(
        Warp(
            block=block,
            warp=warp,
            visits=len(trace.visited),
            accesses=min(limit, len(trace.accessed)),
            more_visits=more_visits,
            more_accesses=total - min(limit, len(trace.accessed)),
            packed=text,
        )
        for ((block, warp), trace, more_visits, total), text in zip(found, packed, strict=True)
    )
