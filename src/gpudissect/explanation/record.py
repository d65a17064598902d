"""A kernel recorded: prepared without a GPU, measured in a process of its own, and made a profile without a GPU again.

The three steps share a folder, so that several kernels can be prepared and finished while another one is measured.
"""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from gpudissect import printable
from gpudissect.catalogue.compute_capability import MAX_THREAD_REGISTERS, SM_REGISTERS
from gpudissect.child_processes import end_children
from gpudissect.errors import UsageError
from gpudissect.explanation import jobs
from gpudissect.explanation.arguments import Argument, parse_arguments
from gpudissect.explanation.instrument import (
    ACCESSES_PER_WARP,
    MAX_WARPS,
    VISITS_PER_WARP,
    BlockCount,
    Counted,
    Traced,
    counted,
    traced,
    with_source_lines,
)
from gpudissect.explanation.jobs import DEFAULT_LIMIT_S, Job, Measured
from gpudissect.explanation.line_records import LAUNCH_RECORDS, SHIFT, LineRecords, pack, thinned
from gpudissect.explanation.line_sample import LineSampled, line_sampled
from gpudissect.explanation.packing import pack_bytes
from gpudissect.explanation.parameters import check_parameters, parameters_of
from gpudissect.explanation.profile import SCHEMA, Allocation, Launch, Profile
from gpudissect.explanation.ptx import Module, parse_ptx
from gpudissect.explanation.user_code import assemble
from gpudissect.explanation.windows import read_warps
from gpudissect.machine_code.kernel import Cubin, Kernel, choose_kernel, read_cubin
from gpudissect.units import WARP_SIZE

_PTX = "kernel.ptx"
_MIN_REGISTERS = 32


def prepare(
    folder: Path,
    module: Module,
    kernel: str,
    launch: Launch,
    arguments: Sequence[Argument],
    architecture: str,
    limit_s: float = DEFAULT_LIMIT_S,
) -> Kernel:
    """Assemble a kernel and its instrumented forms, and write the job into a folder; the assembled kernel.

    A launch may take `limit_s` seconds, and so may all times against occupancy. Raises `UsageError` for arguments that
    the kernel does not take, `PtxError` and `MachineCodeError`.
    """
    check_parameters(arguments, parameters_of(module, module.function(kernel)))
    counting, tracing = _instrumented(module, kernel)
    sampling = _sampled(module, kernel)
    registers = _max_registers(launch)
    texts = {jobs.PLAIN: with_source_lines(module), jobs.COUNTED: counting.ptx, jobs.TRACED: tracing.ptx}
    texts |= {jobs.SAMPLED: sampling.ptx} if sampling.accesses else {}

    def write(file: str) -> Cubin:
        cubin = assemble(texts[file], architecture, None if file == jobs.PLAIN else registers, kernel)
        (folder / file).write_bytes(cubin.data)
        return cubin

    (folder / _PTX).write_text(module.text, encoding="utf-8")
    with ThreadPoolExecutor(len(texts)) as pool:
        try:
            plain, *_ = pool.map(write, texts)
        except BaseException:  # the pool waits for its threads, these for ptxas
            end_children()
            raise
    job = Job(
        kernel=kernel,
        launch=launch,
        arguments=tuple(argument.spec for argument in arguments),
        counters=counting.array,
        trace={name.rpartition("_")[2]: name for name in tracing.arrays},
        lines={name.rpartition("_")[2]: name for name in sampling.arrays if sampling.accesses},
        is_traced_in_order=tracing.has_barriers,
        accesses_of_blocks=_accesses_of_blocks(module, counting, tracing),
        limit_s=limit_s,
        sweep_s=limit_s,
    )
    jobs.write_contents(folder, arguments)
    jobs.write_job(folder, job)
    return choose_kernel(plain.kernels, kernel)


def _max_registers(launch: Launch) -> int:
    """Registers of a thread with which one block fits on an SM: instrumented kernels need more than the plain one."""
    threads = WARP_SIZE * max(1, launch.warps_per_block)
    return min(MAX_THREAD_REGISTERS, max(_MIN_REGISTERS, SM_REGISTERS // threads // 8 * 8))


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
        counts=tuple((*block, count.warps, count.threads, count.taken) for block, count in counts.items()),
        slow_paths=tuple((*block, *slow) for block, count in counts.items() for slow in count.slow),
        accesses=tuple((a.instruction, a.space, a.kind, a.size) for a in tracing.accesses),
        allocations=tuple(Allocation(name=a.name, bytes=a.array_bytes) for a in arrays),
        warps=read_warps(folder, measured, tracing, sizes),
        lines=_lines(folder, measured, _sampled(module, job.kernel), sizes),
        blocks_per_sm=measured.blocks_per_sm,
        sweep=measured.sweep,
        results=measured.results,
        notes=(*notes, *_limits(module, job.kernel, tracing), *_omissions(measured), *measured.conditions),
    )


def _lines(folder: Path, measured: Measured, sampling: LineSampled, sizes: Sequence[int]) -> LineRecords | None:
    if not measured.has_lines:
        return None
    with np.load(folder / jobs.LINES, allow_pickle=False) as file:
        requests = sampling.read({name: file[name].tobytes() for name in file.files})
    return pack(sampling, thinned(requests, SHIFT), measured.addresses, sizes)


def _limits(module: Module, kernel: str, tracing: Traced) -> list[str]:
    """Notes on what instrumentation cannot record."""
    notes = []
    if tracing.untraced:
        numbers, more = ", ".join(map(str, tracing.untraced[:8])), ", ..." if len(tracing.untraced) > 8 else ""
        count = printable.counted(len(tracing.untraced), "PTX instruction")
        notes.append(f"{count} without recorded addresses: {numbers}{more}")
    functions = module.called_from(module.function(kernel))
    if any(instruction.name == "activemask" for function in functions for instruction in function.instructions):
        notes.append("the kernel reads activemask, which code for counts and traces may change")
    return notes


def _omissions(measured: Measured) -> list[str]:
    count = measured.omitted_points
    return (
        [f"no times at {count} lower occupanc{'ies' if count > 1 else 'y'}: the time limit is too short"]
        if count
        else []
    )
