"""A kernel in the file of a user, recorded on a GPU of this machine."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gpudissect.catalogue.compute_capability import SM_REGISTERS
from gpudissect.child_processes import temporary_folder
from gpudissect.device.cuda.driver import SIMULATED_HINT, GpuLimits, gpu_limits
from gpudissect.errors import DeviceError, GpudissectError, KernelFailed, UsageError
from gpudissect.explanation import jobs
from gpudissect.explanation.inputs import PROFILE
from gpudissect.explanation.jobs import DEFAULT_LIMIT_S, Step
from gpudissect.explanation.kernel_process import KernelProcess, StageFailed
from gpudissect.explanation.model.card import card_of
from gpudissect.explanation.parameters import check_parameters, parameters_of
from gpudissect.explanation.profile import MAX_BLOCK_THREADS, MAX_PROFILE_BYTES, Launch, Profile
from gpudissect.explanation.record import finish, prepare
from gpudissect.explanation.trips import NO_LOOPS
from gpudissect.explanation.user_code import CUDA, PTX, UserCode, check_options, errors_in_source, read_user_code
from gpudissect.explanation.values import Value, arguments_of, check_texts
from gpudissect.interrupts import uninterrupted
from gpudissect.machine_code.device_code import find_kernel, read_device_code
from gpudissect.machine_code.kernel import Kernel
from gpudissect.printable import quoted
from gpudissect.results.files import check_apart, check_ending, check_readable, check_writable, write_text
from gpudissect.results.model import Result
from gpudissect.units import WARP_SIZE, format_bytes, parse_bytes

Sizes = str | int | Sequence[int]
MAX_LIMIT_S = 86_400.0
DEFAULT_ARCHITECTURE = "sm_90"
"""For which code is checked without a GPU and its result."""
EXAMPLE_RESULT = "docs/results/h200.json"
MAX_GRID, MAX_BLOCK = ((1 << 31) - 1, 65_535, 65_535), (1024, 1024, 64)
"""Of every GPU in x, y and z (CUDA C++ Programming Guide, Technical Specifications per Compute Capability)."""
Progress = Callable[[int, int, str], None]
_STAGES = {
    "compile": (1, "compiling"),
    "assemble": (2, "assembling instrumented code"),
    "data": (1, "filling arrays"),
    "launch": (1, "first launch"),
    "counts": (1, "counting executions"),
    "sweep": (12, "timing at each occupancy"),
    "trace": (3, "recording addresses"),
    "lines": (1, "sampling cache lines"),
    "finish": (2, "writing the profile"),
}
"""Stages in their order: share of the progress, and what is done."""
_TOTAL = sum(share for share, _ in _STAGES.values())
_INTERRUPTED = "interrupted"
_FAULT = "a kernel failed: "  # how `CudaContext.wait` names it
_WHILE = {"launch": "in its first launch", "sweep": "while it was timed"}
_STEP_LIMITS, _STEP_SLACK_S = 3, 60.0  # time limits of a launch that a step may take; copies and files


@dataclass(frozen=True)
class GpuRun:
    """A launch to record: arguments, the number of the GPU, seconds that a launch may take, options of NVRTC."""

    launch: Launch
    arguments: tuple[Value, ...] = ()
    gpu: int = 0
    limit_s: float = DEFAULT_LIMIT_S
    options: tuple[str, ...] = ()


def run_of(
    grid: Sizes,
    block: Sizes,
    shared: str | int = 0,
    arguments: Sequence[Value] = (),
    device: str | None = None,
    limit_s: float | None = None,
    options: Sequence[str] = (),
) -> GpuRun:
    """A run as a user describes it; sizes are such as 256, (16, 16) or ``16,16``.

    Raises `UsageError` for sizes that no grid or block has, and a device that is no GPU of this machine.
    """
    gpu = gpu_number(device)
    limit_s = DEFAULT_LIMIT_S if limit_s is None else limit_s
    if not 0 < limit_s <= MAX_LIMIT_S:
        raise UsageError(f"a time limit of {limit_s:g} s: valid: more than 0, up to {MAX_LIMIT_S:.0f}")
    sizes, threads = _sizes("grid", grid, MAX_GRID), _sizes("block", block, MAX_BLOCK)
    if math.prod(threads) > MAX_BLOCK_THREADS:
        raise UsageError(f"a block of {math.prod(threads)} threads: at most {MAX_BLOCK_THREADS}")
    shared_bytes = parse_bytes(shared) if isinstance(shared, str) else shared
    if not 0 <= shared_bytes < 1 << 31:
        raise UsageError(f"{format_bytes(shared_bytes)} of dynamic shared memory: no SM has as much")
    launch = Launch(grid=sizes, block=threads, shared_bytes=shared_bytes)
    return GpuRun(launch, tuple(arguments), gpu, limit_s, tuple(options))


def gpu_number(device: str | None) -> int:
    """The number of a GPU such as ``cuda:1``; 0 for None. Raises `UsageError` for what is no GPU of this machine."""
    index = re.fullmatch(r"cuda:(\d{1,5})", "cuda:0" if device is None else device)
    if index is not None:
        return int(index[1])
    name = quoted(device, 60)
    if device is None or not device.startswith("sim:"):
        raise UsageError(f"{name} cannot run a kernel: name a GPU of this machine, such as cuda:0")
    raise UsageError(
        f"{name} cannot run a kernel: counts need a GPU (-d cuda:0), --profile FILE or --trips LOOP=N; for an estimate "
        f"without a GPU add --trips and --machine RESULT, a result of 'discover -d {name[1:-1]} -o RESULT'"
    )


def _sizes(what: str, given: Sizes, maxima: Sequence[int]) -> tuple[int, int, int]:
    parts = re.split(r"[,x]", given) if isinstance(given, str) else [given] if isinstance(given, int) else list(given)
    texts = [str(part).strip() for part in parts]
    if not 1 <= len(texts) <= 3 or not all(re.fullmatch(r"[0-9]{1,10}", text, re.ASCII) for text in texts):
        raise UsageError(f"not a {what}: {quoted(given, 60)}; write X, X,Y or X,Y,Z")
    x, y, z = [*map(int, texts), 1, 1][:3]
    for axis, size, maximum in zip("xyz", (x, y, z), maxima, strict=True):
        if not 1 <= size <= maximum:
            raise UsageError(f"{what} {given}: valid in {axis}: 1 to {maximum}")
    return x, y, z


@dataclass(frozen=True)
class RunOutcome:
    """What was recorded, also before an error or an interrupt; no profile if the kernel did not run once."""

    profile: Profile | None
    error: GpudissectError | None = None
    is_interrupted: bool = False

    @property
    def is_partial(self) -> bool:
        """Whether only instrumented kernels failed."""
        return isinstance(self.error, StageFailed)

    @property
    def notes(self) -> list[str]:
        """What is particular about the recording, but for the error."""
        notes = self.profile.notes if self.profile is not None else ()
        return [note for note in notes if note not in (str(self.error), _INTERRUPTED)]

    @property
    def is_explainable(self) -> bool:
        """Whether executions were counted."""
        return self.profile is not None and bool(self.profile.counts)


def record_on_gpu(
    file: Path,
    kernel: str | None,
    run: GpuRun,
    results: Sequence[Result] | None,
    progress: Progress = lambda done, total, text: None,
) -> RunOutcome:
    """Record a kernel of a file on a GPU. `results` are of a GPU of its model; None if nothing is to be predicted.

    What cannot work is refused before the GPU is used: raises `UsageError` as `read_user_code`, `prepare` and
    `check_kernel` do, `DeviceError` without a GPU or compiler, `KernelFailed` for CUDA C++ that does not compile.
    """
    check_options(file, run.options)
    check_readable(file)
    check_texts(run.arguments)
    try:
        limits = gpu_limits(run.gpu)
    except DeviceError as error:
        _check_without_gpu(file, kernel, run, results or ())
        hint = f"--trips LOOP=N of each loop ('{NO_LOOPS}' if there are none)"
        hint += "" if results else f" and --machine RESULT, such as {EXAMPLE_RESULT} of the repository"
        reason = str(error).removesuffix(SIMULATED_HINT)
        raise DeviceError(f"no GPU found: add {hint}, or --profile FILE of an earlier run ({reason})") from None
    if results is not None:
        check_machine(results, limits.name, run.gpu)
    architecture = "sm_{}{}".format(*limits.capability)
    report = partial(_report, progress)
    report(Step(stage="compile"))
    code = read_user_code(file, kernel, architecture, run.options)
    with temporary_folder() as folder:
        report(Step(stage="assemble"))
        arguments = arguments_of(run.arguments, parameters_of(code.module, code.module.function(code.kernel)))
        with errors_in_source(code, architecture):
            plain = prepare(folder, code.module, code.kernel, run.launch, arguments, architecture, run.limit_s)
        check_kernel(plain, run.launch, limits)
        return _measure(folder, run, code, _notes(file, code, plain), report)


def _check_without_gpu(file: Path, kernel: str | None, run: GpuRun, results: Sequence[Result]) -> None:
    """Raise what is wrong with the files and arguments of a run, as far as no GPU is needed to know."""
    architecture = f"sm_{card_of(*results).compute_capability}" if results else DEFAULT_ARCHITECTURE
    if not results and file.suffix not in (PTX, CUDA):
        find_kernel(read_device_code(file), kernel, str(file))
        return
    try:
        code = read_user_code(file, kernel, architecture, run.options)
    except KernelFailed:
        raise
    except DeviceError:  # the compiler is missing, as the GPU is
        return
    parameters = parameters_of(code.module, code.module.function(code.kernel))
    if run.arguments:  # without any, a user may not know that only a run needs them
        check_parameters(arguments_of(run.arguments, parameters), parameters)


def _measure(folder: Path, run: GpuRun, code: UserCode, notes: list[str], report: Callable[[Step], None]) -> RunOutcome:
    process, error, is_interrupted = KernelProcess(run.gpu), None, False
    try:
        process.measure(folder, _STEP_LIMITS * run.limit_s + _STEP_SLACK_S, report)
        process.close()
        report(Step(stage="finish"))
    except KernelFailed as failure:
        error = _explained(failure, folder)
    except KeyboardInterrupt:
        is_interrupted = True
    finally:
        process.kill()
    with uninterrupted():
        measured = jobs.read_measured(folder)
        if measured is None or measured.gpu is None:
            return RunOutcome(None, error, is_interrupted)
        notes += [str(error)] if error else [_INTERRUPTED] if is_interrupted else []
        return RunOutcome(finish(folder, code.tools, notes), error, is_interrupted)


def check_saved(path: Path | None, inputs: Sequence[Path]) -> None:
    """Make sure, before the GPU is used, that a profile can be written and replaces no input. Raises `UsageError`."""
    if path is not None:
        check_apart(path, inputs)
        check_writable(path)
        check_ending(path, "of a profile", (PROFILE,))


def save_profile(path: Path, profile: Profile) -> None:
    """Write a profile file. Raises `UsageError`, also for one that is too large to be read."""
    text = profile.to_json()
    if len(text) > MAX_PROFILE_BYTES:
        raise UsageError(f"cannot write {path}: the profile has {len(text)} B, at most {MAX_PROFILE_BYTES} are read")
    write_text(path, text)


def check_kernel(kernel: Kernel, launch: Launch, limits: GpuLimits) -> None:
    """Raise `UsageError` for a block that this kernel cannot have."""
    threads, shared = launch.threads_per_block, kernel.shared_bytes + launch.shared_bytes
    if kernel.max_threads is not None and threads > kernel.max_threads:
        raise UsageError(f"a block of {threads} threads: the kernel is compiled for at most {kernel.max_threads}")
    if shared > limits.shared_bytes:
        raise UsageError(
            f"{launch.shared_bytes} B of dynamic and {kernel.shared_bytes} B of static shared memory: a block has at "
            f"most {limits.shared_bytes} B on {limits.name}"
        )
    registers = launch.warps_per_block * WARP_SIZE * kernel.registers
    if registers > SM_REGISTERS:
        raise UsageError(
            f"a block of {threads} threads with {kernel.registers} registers each: an SM has {SM_REGISTERS} registers; "
            "use smaller blocks"
        )


def check_machine(results: Sequence[Result], gpu_name: str, gpu: int) -> None:
    """Raise `UsageError` without a result, for one of another model of GPU, or if they lack what a prediction needs."""
    if not results:
        raise UsageError(
            f"no measured values of {gpu_name}: measure with 'gpudissect discover -d cuda:{gpu} -o result.json', "
            "then add --machine result.json"
        )
    for result in results:
        if result.device.name != gpu_name:
            raise UsageError(
                f"the result is of {result.device.name}, but cuda:{gpu} is {gpu_name}: measure that with "
                f"'gpudissect discover -d cuda:{gpu} -o FILE'"
            )
    card_of(*results)


def _report(progress: Progress, step: Step) -> None:
    """A step of the process as progress of all."""
    names = list(_STAGES)
    if step.stage in names:
        before = sum(_STAGES[name][0] for name in names[: names.index(step.stage)])
        share, text = _STAGES[step.stage]
        progress(before + share * step.done // max(1, step.total), _TOTAL, text)


def _notes(file: Path, code: UserCode, plain: Kernel) -> list[str]:
    """Note if the assembled code differs from that in the file."""
    if file.suffix in (PTX, CUDA) or code.machine_code == plain.code:
        return []
    version = code.tools.get("ptxas", "")
    what = f"the file has no machine code for {plain.architecture}"
    if code.machine_code is not None:
        what = "that in the file differs (version or options of the compiler)"
    return [f"the explained machine code was assembled by ptxas {version} from the PTX in {file.name}; {what}"]


def _explained(failure: KernelFailed, folder: Path) -> KernelFailed:
    """Add stage and saved data to an error message."""
    measured = jobs.read_measured(folder)
    if isinstance(failure, StageFailed) or measured is None:
        return failure
    when = _WHILE.get(measured.stage, "while it was recorded")
    kept = "what was measured before is kept" if measured.has_counts else "nothing was measured"
    text, hint = str(failure), ""
    if text.startswith(_FAULT):
        text = f"the kernel failed {when}: {text.removeprefix(_FAULT)}"
        hint = "; its GPU context is lost: check the sizes of arrays, grid and shared memory"
    elif "did not end" in text:
        text, hint = f"{text} {when}", "; --limit SECONDS sets another limit"
    return KernelFailed(f"{text}; {kept}{hint}")
