"""From the files of a user to an explanation: a kernel, its profile and results of a GPU, checked with one another."""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpudissect.errors import MachineCodeError, UsageError
from gpudissect.explanation.instrument import with_source_lines
from gpudissect.explanation.packing import DamagedProfileError
from gpudissect.explanation.profile import Launch, Profile, read_profile
from gpudissect.explanation.result import Explanation
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
from gpudissect.machine_code.names import choose_name
from gpudissect.machine_code.program import read_program
from gpudissect.printable import quoted
from gpudissect.results.model import Result

PROFILE = ".json"
"""Ending of profiles."""
_PLAUSIBLE = {"latency": (1e-2, 1e7), "rate": (1e-3, 1e18), "bandwidth": (1e6, 1e18)}
"""Values of attributes by their last word: cycles, operations per cycle or second, bytes per second."""
_MEASURE = "measure with 'gpudissect discover -o FILE'"


def explain_file(
    file: Path,
    results: Sequence[Result],
    *,
    kernel: str | None = None,
    profile: Path | None = None,
    options: Sequence[str] = (),
    against: Sequence[Result] = (),
) -> Explanation:
    """The explanation of a kernel on the GPU of some results, and on another one if `against` has results.

    `file` is machine code, PTX, CUDA C++ (compiled with `options`) or a profile; for the first three `profile` is one
    of this very machine code.

    Raises `UsageError` for files that do not belong together or lack something, and what reading and compiling them
    raises: `MachineCodeError`, `PtxError`, `DeviceError`.
    """
    try:
        recorded = read_profile_of(file, kernel, profile, options)
        if not recorded.counts:
            raise UsageError(f"{profile or file} has no execution counts, because its run ended early: record it again")
        return explain_recorded(recorded, results, against)
    except DamagedProfileError as error:
        raise UsageError(f"{profile or file}: {error}") from None


def explain_recorded(profile: Profile, results: Sequence[Result], against: Sequence[Result] = ()) -> Explanation:
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
) -> Explanation:
    """The explanation of a launch that never ran, with loops that turn as often as `trips` say by their names.

    The machine code is that for the GPU of the results. Raises `UsageError` as `explain_file` and `executions` do.
    """
    from gpudissect.explanation.model.build import explain_given
    from gpudissect.explanation.model.card import card_of

    if file.suffix == PROFILE:
        raise UsageError(f"{file} is a profile, which has its counts: leave out --trips, --grid and --block")
    _check_results(results)
    check_options(file, options)
    code = _machine_code_for(file, kernel, f"sm_{card_of(*results).compute_capability}", options)
    program = read_program(*code)

    def explain(chosen: Sequence[Result]) -> Explanation:
        _check_results(chosen, code[1].architecture)
        counts = executions(program, trips, launch.blocks * launch.threads_per_block)
        return _with_origin(explain_given(program, launch, counts, chosen), chosen)

    found = explain(results)
    return found.model_copy(update={"against": explain(against)}) if against else found


def _explain(profile: Profile, results: Sequence[Result]) -> Explanation:
    from gpudissect.explanation.model.build import explain_profile

    _check_results(results, profile.architecture)
    active = profile.active_threads()
    profile.check_traces()
    return _with_origin(explain_profile(profile, results), results).model_copy(update={"active_threads": active})


def _with_origin(explanation: Explanation, results: Sequence[Result]) -> Explanation:
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
    """Raise `UsageError` for a latency, rate or bandwidth that no GPU has: its simulation would not end."""
    for each in result.findings:
        low, high = _PLAUSIBLE.get(each.attribute.rpartition("_")[2], (-math.inf, math.inf))
        if isinstance(each.value, int | float) and not low <= each.value <= high:
            name = f"{each.element}.{each.attribute}"
            raise UsageError(
                f"{name} is {each.value:g} in the result of {result.device.name}, which no GPU has: {_MEASURE}"
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
    is_machine_code = file.suffix not in (PTX, CUDA)
    code = find_kernel(read_device_code(file), kernel) if is_machine_code else None
    if not is_machine_code:
        read_text(file)
    if profile is None:
        raise UsageError(
            f"execution counts of {file} are not known: add --grid and --block to run it on a GPU, --profile FILE of "
            "an earlier run, or --grid, --block and --trips LOOP=N of each loop ('none' without loops)"
        )
    recorded = read_profile(profile)
    if code is None:
        code = _assembled(file, kernel, recorded.architecture, options)
    elif code[1].architecture != recorded.architecture:
        code = find_kernel(read_device_code(file, recorded.architecture), kernel)
    if is_machine_code and _digest(code[1]) != recorded.code_sha256 and read_embedded_ptx(file, recorded.architecture):
        code = _assembled(file, kernel, recorded.architecture, options)
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


def _digest(kernel: Kernel) -> str:
    return hashlib.sha256(kernel.code).hexdigest()


def _check_name(file: Path, profile: Profile, name: str | None) -> None:
    profile.machine_code()  # raises for a damaged one
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
        return find_kernel(cubins_for(file, architecture) or read_device_code(file), kernel)
    code = read_user_code(file, kernel, architecture, options)
    with errors_in_source(code, architecture):
        return find_kernel([assemble(code.module.text, architecture, kernel=code.kernel)], code.kernel)
