"""Device code in the file of a user: CUDA C++, PTX, or machine code with the PTX that it was assembled from."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gpudissect.child_processes import temporary_folder
from gpudissect.errors import DeviceError, GpudissectError, KernelFailed, MachineCodeError, PtxError, UsageError
from gpudissect.explanation.ptx import MAX_PTX_BYTES, Module, parse_ptx
from gpudissect.machine_code.device_code import cubins_for, read_device_code, read_embedded_ptx
from gpudissect.machine_code.kernel import Cubin, read_cubin
from gpudissect.machine_code.names import choose_name, source_name
from gpudissect.machine_code.tools import ToolTimeoutError, find_tool, run_tool
from gpudissect.results.files import read_bounded

PTX, CUDA = ".ptx", ".cu"
"""Endings of files; any other file is machine code."""
MAX_SECOND_MESSAGE = 100  # characters of the error of nvcc, before the reason for nvcc
_SPECIFIC = re.compile(r"^\s*\.target\s+(sm_\d+)([af])\b", re.MULTILINE)  # code for this architecture or family alone
_WITH_SPECIFIC = "compute_90"  # its warpgroup matrix instructions exist for this architecture alone
_NEEDS_SPECIFIC = re.compile(
    r"\bwgmma\.|\bsetmaxnreg\.|\b__CUDA_ARCH_FEAT_SM90_ALL\b"
)  # what code for sm_90a alone has
_NEWER = re.compile(r"this ptxas is older .* up to (\d+\.\d+):")
_PLACE = re.compile(r"^ptxas cannot assemble the PTX: ptxas (?:kernel\.ptx, line (\d+); )?(?:error|fatal) *: *")
_TARGET = re.compile(r"sm_(\d+)([af]?)\b")


@dataclass(frozen=True)
class UserCode:
    """A kernel in PTX, and its machine code if the file has it. `tools` has versions of the compiler and assembler.

    `file` is the name of the file with the PTX if a user wrote it.
    """

    kernel: str
    module: Module = field(repr=False)
    machine_code: bytes | None = field(default=None, repr=False)
    tools: dict[str, str] = field(default_factory=dict)
    file: str | None = None


def read_user_code(file: Path, kernel: str | None, architecture: str, options: Sequence[str] = ()) -> UserCode:
    """The kernel of a file for an architecture such as ``sm_90``; `options` of NVRTC are for CUDA C++ alone.

    Raises `UsageError` for a file that cannot be read, an unknown kernel, or one without PTX; `KernelFailed` for CUDA
    C++ that does not compile; `DeviceError` without a compiler.
    """
    check_options(file, options)
    if file.suffix not in (PTX, CUDA):
        return _from_machine_code(file, kernel, architecture)
    if file.suffix == CUDA:
        text, instance, tools = _compile(file, kernel, architecture, options)
        kernel = instance or kernel
    else:
        text, tools = read_text(file), {}
    try:
        module = parse_ptx(text)
    except PtxError as error:
        raise PtxError(f"{file}: {error}") from None
    names = kernels_of(module)
    if not names and file.suffix == CUDA and "__global__" not in read_text(file):
        raise MachineCodeError(f"{file}: no kernel found: mark it __global__")
    if not names and file.suffix == CUDA:
        raise MachineCodeError(f"{file} has no kernel; a template is compiled for --kernel 'NAME<ARGUMENTS>'")
    if file.suffix == PTX:
        _check_target(file, module.target, architecture)
    written = str(file) if file.suffix == PTX else None
    return UserCode(choose_name(names, kernel, str(file)), module, tools=tools | _assembler(), file=written)


def _check_target(file: Path, target: str, architecture: str) -> None:
    """Raise `UsageError` for PTX from which no machine code of an architecture can be made.

    Code is made for its target and newer ones; for the target alone if it ends in ``a``, for its family if in ``f``.
    """
    stated, capability = _TARGET.match(target), int(re.sub(r"\D", "", architecture))
    if stated is None:
        return  # ptxas names it
    lowest = int(stated[1])
    is_usable = lowest == capability if stated[2] == "a" else lowest <= capability
    if not is_usable or (stated[2] == "f" and lowest // 10 != capability // 10):
        raise UsageError(
            f"{file}: PTX for {stated[0]} does not run on {architecture}: name the result of a GPU that runs it"
        )


@contextmanager
def errors_in_source(code: UserCode, architecture: str) -> Iterator[None]:
    """Errors of ptxas in the block name file and line of a user's PTX, of which an edited copy was assembled."""
    try:
        yield
    except MachineCodeError as error:
        if code.file is None or isinstance(error, ToolTimeoutError):
            raise
        found = error
        try:
            assemble(code.module.text, architecture, kernel=code.kernel)
        except MachineCodeError as plain:
            found = plain
        if match := _PLACE.match(str(found)):
            place = f", line {match[1]}" if match[1] else ""
            raise PtxError(f"{code.file}{place}: {str(found)[match.end() :]}") from None
        raise


def check_options(file: Path, options: Sequence[str]) -> None:
    """Raise `UsageError` for options of a compiler that nothing is compiled with."""
    if options and file.suffix != CUDA:
        raise UsageError(f"{file} is not compiled: leave out --compile-option")


def _compile(
    file: Path, kernel: str | None, architecture: str, options: Sequence[str]
) -> tuple[str, str | None, dict[str, str]]:
    """PTX of CUDA C++, the mangled name of an instance of a template that `kernel` is, and the compiler's version.

    By NVRTC, or by nvcc if NVRTC is missing or the file includes headers of the host.
    """
    source = read_text(file)
    instance = kernel if kernel is not None and "<" in kernel else None
    from gpudissect.device.cuda.compile import MissingHeader, compile_ptx

    virtual = architecture.replace("sm_", "compute_")
    virtual += "a" if virtual == _WITH_SPECIFIC and _NEEDS_SPECIFIC.search(source) else ""
    try:
        text, lowered, version = compile_ptx(source, file.name, virtual, [file.parent], options, instance)
        if virtual == _WITH_SPECIFIC and _NEEDS_SPECIFIC.search(text):  # in a header
            text, lowered, _ = compile_ptx(source, file.name, f"{virtual}a", [file.parent], options, instance)
        return text, lowered, {"nvrtc": version}
    except ImportError:
        reason: GpudissectError = DeviceError("NVRTC is missing: pip install '.[cuda13]'")
    except MissingHeader as error:
        reason = error
    return _compile_with_nvcc(file, virtual, options, reason), None, {"nvcc": _version("nvcc")}


def _compile_with_nvcc(file: Path, architecture: str, options: Sequence[str], reason: GpudissectError) -> str:
    """PTX of CUDA C++ by nvcc and the compiler of the host. Raises `KernelFailed`, and `reason` without nvcc."""
    try:
        find_tool("nvcc")
    except MachineCodeError:
        raise reason from None
    with temporary_folder() as folder:
        ptx = folder / "kernel.ptx"
        command = ["-ptx", f"-arch={architecture}", "-lineinfo", "-std=c++17", *options]
        try:
            run_tool("nvcc", [*command, "-o", str(ptx), str(file.resolve())])
        except MachineCodeError as error:
            text = str(error).replace(f"{file.resolve().parent}/", "")
            raise KernelFailed(f"{text[:MAX_SECOND_MESSAGE]}; nvcc was used because {reason}") from None
        return ptx.read_text(encoding="utf-8", errors="replace").replace(f'"{file.resolve().parent}/', '"')


def kernels_of(module: Module) -> list[str]:
    """Names of the kernels of a module."""
    return [function.name for function in module.functions if function.is_entry]


def read_text(file: Path) -> str:
    """The text of a file. Raises `UsageError`."""
    return read_bounded(file, MAX_PTX_BYTES, "source").decode("utf-8-sig", "replace")


def _from_machine_code(file: Path, kernel: str | None, architecture: str) -> UserCode:
    codes = {each.name: each.code for cubin in cubins_for(file, architecture) for each in cubin.kernels}
    modules: dict[str, Module] = {}
    for text in read_embedded_ptx(file, architecture):
        module = parse_ptx(text)
        modules |= {name: module for name in kernels_of(module) if name not in modules}
    if not codes and not modules:
        read_device_code(file, architecture)  # raises with the architectures that it has
    name = choose_name((*codes, *modules), kernel, str(file))
    if name not in modules:
        virtual = architecture.replace("sm_", "compute_")
        raise UsageError(
            f"{file} has no PTX of {ascii(source_name(name))[1:-1][:60]}, which counting its executions needs: compile "
            f"with nvcc -gencode arch={virtual},code=[{architecture},{virtual}], or name a recorded --profile"
        )
    return UserCode(name, modules[name], codes.get(name), _assembler())


def _assembler() -> dict[str, str]:
    return {"ptxas": _version("ptxas")}


def _version(tool: str) -> str:
    words = run_tool(tool, ["--version"]).decode("ascii", "replace").split()
    return next((word for word in words if re.fullmatch(r"V\d+\.\d[\d.]*", word)), "")


def assemble(ptx: str, architecture: str, max_registers: int | None = None, kernel: str | None = None) -> Cubin:
    """The cubin of a module of PTX for an architecture such as ``sm_90``, with its line information.

    Of all kernels, or of one alone, whose machine code is the same. A thread has at most `max_registers`, where the PTX
    itself does not state the size of a block. PTX of a newer version than ptxas knows is assembled as one of the newest
    that it knows, PTX of ``sm_90a`` for that.

    Raises `MachineCodeError` with the first error of ptxas, or if it is missing or does not finish in time.
    """
    if not re.fullmatch(r"sm_\d{2,3}[af]?", architecture):
        raise PtxError(f"no architecture of a GPU: {architecture[:20]!a}; valid: such as sm_90")
    if (specific := _SPECIFIC.search(ptx)) and specific[1] == architecture:
        architecture += specific[2]
    try:
        return _assemble(ptx, architecture, max_registers, kernel)
    except MachineCodeError as error:
        newest = _NEWER.search(str(error))
        if newest is None:
            raise
        older = re.sub(r"(?m)^\s*\.version\s.*$", f".version {newest[1]}", ptx, count=1)
        return _assemble(older, architecture, max_registers, kernel)


def _assemble(ptx: str, architecture: str, max_registers: int | None, kernel: str | None) -> Cubin:
    with temporary_folder() as folder:
        source, cubin = folder / "kernel.ptx", folder / "kernel.cubin"
        source.write_text(ptx, encoding="utf-8")
        limit = [f"-maxrregcount={max_registers}"] if max_registers else []
        limit += ["--entry", kernel] if kernel else []
        run_tool("ptxas", [f"-arch={architecture}", "-lineinfo", *limit, "-o", cubin.name, source.name], folder)
        return read_cubin(cubin.read_bytes())
