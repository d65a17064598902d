"""From the files of a user to an explanation: a kernel, its profile and results of a GPU, checked with one another."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from gpudissect.errors import DeviceError, UsageError
from gpudissect.explanation.assemble import assemble
from gpudissect.explanation.instrument import with_source_lines
from gpudissect.explanation.profile import Profile, read_profile
from gpudissect.explanation.ptx import MAX_PTX_BYTES, parse_ptx
from gpudissect.explanation.result import Explanation
from gpudissect.explanation.source import with_sources
from gpudissect.machine_code.device_code import find_kernel, read_device_code
from gpudissect.machine_code.kernel import Cubin, Kernel
from gpudissect.results.model import Result

PROFILE, PTX, CUDA = ".json", ".ptx", ".cu"
"""Endings of files; any other file is machine code."""
_MEASURE = "measure with 'gpudissect discover -o FILE'"


def explain_file(
    file: Path,
    results: Sequence[Result],
    *,
    kernel: str | None = None,
    profile: Path | None = None,
    against: Sequence[Result] = (),
) -> Explanation:
    """The explanation of a kernel on the GPU of some results, and on another one if `against` has results.

    `file` is machine code, PTX, CUDA C++ or a profile; for the first three `profile` is one of this very machine code.

    Raises `UsageError` for files that do not belong together or lack something, and what reading and compiling them
    raises: `MachineCodeError`, `PtxError`, `DeviceError`.
    """
    recorded = read_profile_of(file, kernel, profile)
    found = _explain(recorded, results)
    return found.model_copy(update={"against": _explain(recorded, against)}) if against else found


def _explain(profile: Profile, results: Sequence[Result]) -> Explanation:
    from gpudissect.explanation.model.build import explain_profile
    from gpudissect.explanation.model.card import card_of

    if not results:
        raise UsageError(f"no values of a GPU: name a result with --machine FILE, or {_MEASURE}")
    for result in results:
        check_architecture(profile.architecture, result)
    device, card = results[0].device, card_of(*results)
    origins = {"origin": device.origin, "recorded_origin": device.recorded_origin}
    found = explain_profile(profile, results).model_copy(update=origins | {"max_warps": card.warps})
    return with_sources(found, profile)


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
            "use a result of a GPU that it was compiled for"
        )


def read_profile_of(file: Path, kernel: str | None, profile: Path | None) -> Profile:
    """The profile of a kernel in a file, which may be the profile itself. Raises as `explain_file` does."""
    if file.suffix == PROFILE:
        if profile is not None:
            raise UsageError(f"{file} is a profile itself: leave out --profile")
        recorded = read_profile(file)
        _check_name(recorded.machine_code()[1], kernel)
        return recorded
    code = None if file.suffix in (PTX, CUDA) else find_kernel(read_device_code(file), kernel)
    text = "" if code else _read_text(file)
    if profile is None:
        raise UsageError(
            f"how often the instructions of {file} run is not known: name a profile with --profile FILE; "
            "a profile is recorded on a GPU"
        )
    recorded = read_profile(profile)
    if code is None:
        code = find_kernel([_compile(file, text, recorded.architecture)], kernel)
    elif code[1].architecture != recorded.architecture:
        code = find_kernel(read_device_code(file, recorded.architecture), kernel)
    if hashlib.sha256(code[1].code).hexdigest() != recorded.code_sha256:
        same = code[1].name == recorded.kernel
        what = f"other machine code of {_short(code[1].name)}" if same else f"another kernel, {_short(recorded.kernel)}"
        raise UsageError(f"{profile} is a profile of {what}: record one of this file, or name the right profile")
    return recorded


def _check_name(kernel: Kernel, name: str | None) -> None:
    if name not in (None, kernel.name, kernel.short_name):
        raise UsageError(f"the profile is one of {_short(kernel.name)}, not of {ascii(name)[:60]}")


def _short(name: str) -> str:
    return ascii(name)[1:-1][:60]


def _read_text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_PTX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from None
    if len(data) > MAX_PTX_BYTES:
        raise UsageError(f"cannot read {file}: larger than {MAX_PTX_BYTES >> 20} MiB")
    return data.decode("utf-8", "replace")


def _compile(file: Path, text: str, architecture: str) -> Cubin:
    """The machine code of PTX, or of CUDA C++ by NVRTC, with the options of a recorded kernel."""
    if file.suffix == CUDA:
        try:
            from gpudissect.device.cuda.compile import compile_ptx

            text = compile_ptx(text, file.name, architecture.replace("sm_", "compute_"), [file.parent])
        except ImportError:
            raise DeviceError("the CUDA compiler is missing: pip install 'gpudissect[cuda13]'") from None
    return assemble(with_source_lines(parse_ptx(text)), architecture)
