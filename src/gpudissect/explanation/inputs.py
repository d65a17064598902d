"""From the files of a user to an explanation: a kernel, its profile and results of a GPU, checked with one another."""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from gpudissect.errors import MachineCodeError, UsageError
from gpudissect.explanation.instrument import with_source_lines
from gpudissect.explanation.packing import DamagedProfileError
from gpudissect.explanation.profile import Launch, Profile, read_profile
from gpudissect.explanation.trips import executions
from gpudissect.explanation.user_code import (
    CUDA,
    PTX,
    assemble,
    check_options,
    errors_in_source,
    read_text,
    read_user_code,
)
from gpudissect.machine_code.device_code import cubins_for, find_kernel, read_device_code, read_embedded_ptx
from gpudissect.machine_code.kernel import Cubin, Kernel
from gpudissect.machine_code.lines import UNREADABLE
from gpudissect.machine_code.names import choose_name
from gpudissect.machine_code.program import read_program
from gpudissect.printable import quoted
from gpudissect.results.model import Result

if TYPE_CHECKING:
    from gpudissect.explanation.result import Explanation

PROFILE = ".json"
"""Ending of profiles."""
_PLAUSIBLE = {
    "latency": (1e-2, 1e7),
    "rate": (1e-3, 1e18),
    "bandwidth": (1e6, 1e18),
    "interval": (1e-3, 1e9),
    "replacement": (0, 1e7),
    "shuffle": (1e-3, 1e7),
    "granularity": (1, 1 << 16),
    "capacity": (1, 1 << 50),
    "l1.capacity": (1, 1 << 24),
    "l2.partition_by_sm": (0, 255),
    "sm_count": (1, 1 << 16),
    "clock_hz": (1e6, 1e11),
}
"""Values of attributes by their name or its last word: cycles or ns, operations per cycle or second, bytes (per
second), numbers, Hz."""
_OF_RUN = ("arg", "args", "device", "limit", "profile")
"""Options of a launch on a GPU alone."""
_MEASURE = "measure with 'gpudissect discover -o FILE'"


def check_launch(file: Path, options: Mapping[str, object], dashes: str = "") -> bool:
    """Whether options describe a launch: to run, or with ``trips`` to predict without a run.

    `options` has values by name, None for what is not given: grid, block, trips, profile and others; in messages,
    `dashes` precede the names. Raises `UsageError` for a launch of a profile, one without grid or block, and options of
    a run beside trips.
    """
    given = [name for name, value in options.items() if value is not None]
    of_launch = [f"{dashes}{name}" for name in given if name != "profile"]
    if not of_launch:
        return False
    if file.suffix == PROFILE:
        raise UsageError(f"{file} is a profile and contains the launch: omit {', '.join(of_launch)}")
    if missing := [f"{dashes}{name}" for name in ("grid", "block") if name not in given]:
        raise UsageError(f"{of_launch[0]} requires {' and '.join(missing)}")
    of_run = [f"{dashes}{name}" for name in given if name in _OF_RUN]
    if "trips" in given and of_run:
        raise UsageError(f"with {dashes}trips the kernel is not run: leave out {of_run[0]}, or {dashes}trips")
    return True


def explain_file(
    file: Path,
    results: Sequence[Result],
    *,
    kernel: str | None = None,
    profile: Path | None = None,
    options: Sequence[str] = (),
    against: Sequence[Result] = (),
    needs_time: bool = False,
) -> "Explanation":
    """The explanation of a kernel on the GPU of some results, and on another one if `against` has results.

    `file` is machine code, PTX, CUDA C++ (compiled with `options`) or a profile; for the first three `profile` is one
    of this very machine code. With `needs_time` a profile without a measured time of this GPU is refused.

    Raises `UsageError` for files that do not belong together or lack something, and what reading and compiling them
    raises: `MachineCodeError`, `PtxError`, `DeviceError`.
    """
    try:
        recorded = read_profile_of(file, kernel, profile, options)
        if not recorded.counts:
            raise UsageError(f"{profile or file} has no execution counts, because its run ended early: record it again")
        if needs_time and results and not (recorded.sweep and recorded.gpu.name == results[0].device.name):
            from gpudissect.explanation.gate import NEEDS_TIME

            raise UsageError(f"the condition {NEEDS_TIME}")
        return explain_recorded(recorded, results, against)
    except DamagedProfileError as error:
        raise UsageError(f"{profile or file}: {error}") from None


def explain_recorded(profile: Profile, results: Sequence[Result], against: Sequence[Result] = ()) -> "Explanation":
    """The explanation of a recorded kernel. Raises `UsageError` as `explain_file` does."""
    found = _explain(profile, results)
    return found.model_copy(update={"against": _explain(profile, against)}) if against else found


def explain_trips(
    file: Path,
    launch: Launch,
    trips: Mapping[str, float],
    results: Sequence[Result],
    *,
    kernel: str | None = None,
    options: Sequence[str] = (),
    against: Sequence[Result] = (),
) -> "Explanation":
    """The explanation of a launch that never ran, with the given trip counts, by loop name.

    The machine code is that for the GPU of the results. Raises `UsageError` as `explain_file` and `executions` do.
    """
    from gpudissect.explanation.model.build import explain_given
    from gpudissect.explanation.model.card import card_of

    _check_results(results)
    check_options(file, options)
    code = _machine_code_for(file, kernel, f"sm_{card_of(*results).compute_capability}", options)
    program = read_program(*code)

    def explain(chosen: Sequence[Result]) -> "Explanation":
        _check_results(chosen, code[1].architecture)
        found = explain_given(program, launch, executions(program, trips, launch), chosen)
        notes = found.notes if program.has_readable_lines else (*found.notes, UNREADABLE)
        return _with_origin(found, chosen).model_copy(update={"notes": notes})

    found = explain(results)
    return found.model_copy(update={"against": explain(against)}) if against else found


def _explain(profile: Profile, results: Sequence[Result]) -> "Explanation":
    _check_results(results, profile.architecture)
    active = profile.active_threads()
    profile.check()
    with ThreadPoolExecutor(1) as pool:  # the disassembler, a process of its own, starts while the model is imported
        disassembled = pool.submit(read_program, *profile.machine_code())
        from gpudissect.explanation.model.build import explain_profile

        found = explain_profile(profile, results, disassembled)
    return _with_origin(found, results).model_copy(update={"active_threads": active})


def _with_origin(explanation: "Explanation", results: Sequence[Result]) -> "Explanation":
    """The explanation with the origin of the GPU's values."""
    device = results[0].device
    return explanation.model_copy(update={"origin": device.origin, "recorded_origin": device.recorded_origin})


def _check_results(results: Sequence[Result], architecture: str | None = None) -> None:
    if not results:
        raise UsageError(f"no measured values of a GPU: add --machine RESULT, or {_MEASURE}")
    for result in results:
        _check_values(result)
        if architecture is not None:
            check_architecture(architecture, result)


def _check_values(result: Result) -> None:
    """Raise `UsageError` for a value that no GPU has: its simulation would not end, or give times below 0."""
    values: list[tuple[str, object]] = [(f"{each.element}.{each.attribute}", each.value) for each in result.findings]
    values += [("sm_count", result.device.sm_count), ("clock_hz", result.conditions.clock_hz)]
    for name, value in values:
        limits = (_PLAUSIBLE.get(key) for key in (name, re.split(r"[._]", name)[-1]))
        low, high = next(filter(None, limits), (-math.inf, math.inf))
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, int | float) and not low <= each <= high:
                raise UsageError(
                    f"{name} is {each:g} in the result of {result.device.name}, which no GPU has: {_MEASURE}"
                )


def check_architecture(architecture: str, result: Result) -> None:
    """Raise `UsageError` if the GPU of a result does not run machine code of an architecture such as ``sm_90``.

    It runs code of its own major compute capability, up to its minor one (CUDA C++ Programming Guide, Binary
    Compatibility).
    """
    code, stated = re.match(r"sm_(\d+)(\d)", architecture), str(result.device.facts.get("compute_capability", ""))
    gpu = re.fullmatch(r"(\d{1,2})\.(\d)", stated)
    if code is None or gpu is None:
        raise UsageError(f"the result of {result.device.name} has no compute capability: {_MEASURE}")
    if code[1] != gpu[1] or int(code[2]) > int(gpu[2]):
        raise UsageError(
            f"machine code of {architecture} does not run on {result.device.name} (sm_{gpu[1]}{gpu[2]}): "
            "name the result of a GPU that runs it"
        )


def read_profile_of(file: Path, kernel: str | None, profile: Path | None, options: Sequence[str] = ()) -> Profile:
    """The profile of a kernel in a file, which may be the profile itself. Raises as `explain_file` does."""
    check_options(file, options)
    if file.suffix == PROFILE:
        if profile is not None:
            raise UsageError(f"{file} is a profile itself: leave out --profile")
        recorded = read_profile(file)
        _check_name(file, recorded, kernel)
        return recorded
    if profile is None:
        if file.suffix not in (PTX, CUDA):
            find_kernel(read_device_code(file), kernel, str(file))
        else:
            read_text(file)
        raise UsageError(
            f"execution counts of {file} are not known: add --grid and --block to run it on a GPU, --profile FILE of "
            "an earlier run, or --grid, --block and --trips LOOP=N of each loop ('none' without loops)"
        )
    recorded = read_profile(profile)
    code = _code_for(file, kernel, recorded, options)
    if _digest(code[1]) != recorded.code_sha256:
        if code[1].name != recorded.kernel:
            other = _short(recorded.kernel)
            raise UsageError(f"{profile} is a profile of another kernel, {other}: name the profile of this kernel")
        compiler = recorded.tools.get("nvrtc")
        what = f"other machine code of {_short(recorded.kernel)}"
        what += f", compiled by NVRTC {_short(compiler)}" if compiler else ""
        raise UsageError(
            f"{profile} is a profile of {what}: record this code on a GPU, or give the profile itself as FILE"
        )
    return recorded


def _code_for(file: Path, kernel: str | None, recorded: Profile, options: Sequence[str]) -> tuple[Cubin, Kernel]:
    """The machine code of a kernel for the architecture of a profile; assembled if the file has PTX alone."""
    architecture = recorded.architecture
    if file.suffix in (PTX, CUDA):
        return _assembled(file, kernel, architecture, options)
    cubins = cubins_for(file, architecture)
    code = find_kernel(cubins, kernel, str(file)) if cubins else None
    if code is not None and _digest(code[1]) == recorded.code_sha256:
        return code
    if read_embedded_ptx(file, architecture):
        return _assembled(file, kernel, architecture, options)
    return code or find_kernel(read_device_code(file, architecture), kernel, str(file))  # raises with what it has


def _digest(kernel: Kernel) -> str:
    return hashlib.sha256(kernel.code).hexdigest()


def _check_name(file: Path, profile: Profile, name: str | None) -> None:
    try:
        choose_name([profile.kernel], name)
    except MachineCodeError:
        what = f"{file} is a profile of {_short(profile.kernel)}, not of {quoted(name, 60)}"
        raise UsageError(f"{what}: leave out --kernel, or name the profile of that kernel") from None


def _short(name: str) -> str:
    return ascii(name)[1:-1][:60]


def _assembled(file: Path, kernel: str | None, architecture: str, options: Sequence[str]) -> tuple[Cubin, Kernel]:
    """The machine code of the PTX of a kernel in a file, as a recorded kernel is assembled."""
    code = read_user_code(file, kernel, architecture, options)
    with errors_in_source(code, architecture):
        return find_kernel([assemble(with_source_lines(code.module), architecture, kernel=code.kernel)], code.kernel)


def _machine_code_for(
    file: Path, kernel: str | None, architecture: str, options: Sequence[str]
) -> tuple[Cubin, Kernel]:
    """The machine code of a kernel with its source lines; of another architecture if the file has no other."""
    if file.suffix not in (PTX, CUDA):
        return find_kernel(cubins_for(file, architecture) or read_device_code(file), kernel, str(file))
    code = read_user_code(file, kernel, architecture, options)
    with errors_in_source(code, architecture):
        return find_kernel([assemble(code.module.text, architecture, kernel=code.kernel)], code.kernel)
