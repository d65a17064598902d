"""Compiles the kernels to machine code for one GPU, cached on disk.

They are compiled to cubins and never to PTX: a driver takes a cubin of any compiler of its major release, but PTX only
of its own release or older (and no test has read what the driver makes of PTX).
"""

import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path as FilePath

from gpudissect.cache_folder import cache_folder, private_folder
from gpudissect.child_processes import MEMORY_LIMIT, run_limited
from gpudissect.device.cuda import compile_process
from gpudissect.device.cuda.mix.patches import patched
from gpudissect.errors import DeviceError, KernelFailed, UsageError
from gpudissect.printable import quoted

KERNELS = FilePath(__file__).parent / "kernels"
Code = tuple[str, ...]
"""What a cubin is compiled of: a source in ``kernels/``, and macros."""
_STANDARD = "c++17"
_DIGEST_BYTES = 32  # of SHA-256
_NO_HEADER = re.compile(
    r'(?:cannot|could not) open source file "[^"]*"(?!:)'
)  # after a colon: why an existing one is not read
_NO_NVRTC = "the CUDA run-time compiler (libnvrtc) was not found: pip install '.[cuda13]'"
_CCCL = re.compile(r'source file "(nv|cuda|cub|thrust)/')  # headers of CCCL, which cooperative_groups.h includes
_MAX_ERRORS, _ERROR_CHARACTERS = 3, 200  # of a user's source that does not compile
_OWN_OPTIONS = (
    *("-arch", "--gpu-architecture", "-dlto", "--dlink-time-opt"),
    *("-G", "--device-debug", "-ptx", "-rdc", "-dc"),
)


class MissingHeader(KernelFailed):
    """CUDA C++ includes a file that NVRTC does not find, such as a header of the host."""


def compile_cubin(source: str, macros: tuple[str, ...], arch: str) -> bytes:
    """The cubin of ``kernels/<source>`` for `arch`, such as ``sm_90``. Raises `KernelFailed` with the first error."""
    from cuda.core import Program, ProgramOptions

    options = ProgramOptions(std=_STANDARD, arch=arch, include_path=[str(KERNELS)], define_macro=list(macros) or None)
    try:
        program = Program((KERNELS / source).read_text(), "c++", options)
        cubin = bytes(program.compile("cubin").code)
    except Exception as error:
        reason = next((line for line in str(error).splitlines() if "error" in line), str(error).partition("\n")[0])
        raise KernelFailed(f"{source} did not compile for {arch}: {reason.strip()}") from error
    return patched(cubin, macros)


def compile_ptx(
    source: str,
    name: str,
    arch: str,
    folders: Sequence[FilePath] = (),
    options: Sequence[str] = (),
    instance: str | None = None,
) -> tuple[str, str | None, str]:
    """The PTX of a CUDA source of a user for a virtual architecture such as ``compute_90``, with its source lines.

    `folders` are searched for files that it includes, after them those of the toolkit. `options` are NVRTC's. The
    `instance` of a template, such as ``scale<float>``, is compiled too; its mangled name is the second result, the
    version of NVRTC the third. NVRTC runs in a process with limits. Needs no GPU and no driver.

    Raises `KernelFailed` with the first errors (`MissingHeader` for a file that does not exist), or if NVRTC crashes or
    exceeds a limit; `UsageError` for options that are set here; `ImportError` or `DeviceError` without NVRTC.
    """
    if find_spec("cuda.bindings") is None:
        raise ImportError("cuda.bindings")
    if wrong := next((option for option in options if option.startswith(_OWN_OPTIONS)), None):
        raise UsageError(f"the option {quoted(wrong, 60)} is not for a kernel to explain: leave it out")
    command = [f"-arch={arch}", "-lineinfo", *options]
    command += [] if any("-std" in option for option in options) else [f"--std={_STANDARD}"]
    command += [f"-I{folder}" for folder in (*folders, *_toolkit_headers())]
    job = json.dumps({"source": source, "name": name, "command": command, "instance": instance}).encode()
    try:
        ended = run_limited([sys.executable, "-P", compile_process.__file__], given=job)
    except TimeoutError as error:
        raise KernelFailed(f"compiling {name} took {error}: give a smaller source, or its cubin or PTX") from None
    if ended.code:
        raise KernelFailed(f"the compiler failed on {name}: it crashed, or needed more than {MEMORY_LIMIT} of memory")
    answer = json.loads(ended.output)
    if answer.get("missing"):
        raise DeviceError(_NO_NVRTC)
    if "log" in answer:
        reason = first_errors(answer["log"]) or answer["status"]
        kind = MissingHeader if _NO_HEADER.search(reason) else KernelFailed
        raise kind(f"{name} did not compile for {arch}: {reason}")
    return answer["ptx"].replace(f'"{os.getcwd()}{os.sep}', '"'), answer["lowered"], answer["version"]


def first_errors(log: str) -> str:
    """The first errors of a log of NVRTC in one printable line."""
    lines = [line.strip() for line in log.rstrip("\0").splitlines() if line.strip()]
    errors = [line for line in lines if "error:" in line] or lines
    text = "; ".join(ascii(line)[1:-1][:_ERROR_CHARACTERS] for line in errors[:_MAX_ERRORS])
    if _NO_HEADER.search(text):
        hint = "NVRTC has no headers of the host: name a folder with --compile-option=-IDIR, or leave them out"
        text += "; pip install nvidia-cuda-cccl" if _CCCL.search(text) else f"; {hint}"
    return text


def _toolkit_headers() -> list[FilePath]:
    """Folders with headers such as ``cuda_fp16.h`` and ``cuda/std``: of wheels, or of a toolkit."""
    spec = find_spec("nvidia")
    wheels = [FilePath(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    found = [path for folder in wheels for path in sorted(folder.glob("cu*/include"), reverse=True)]
    found.append(FilePath(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include"))
    chosen = [folder for folder in found if (folder / "cuda_fp16.h").is_file()][:1]
    return chosen + [folder / "cccl" for folder in chosen if (folder / "cccl").is_dir()]


@cache
def compiler_version() -> str:
    """Version of NVRTC, such as ``13.5``. Raises `DeviceError` without NVRTC."""
    from cuda.bindings import nvrtc

    try:
        _, major, minor = nvrtc.nvrtcVersion()
    except RuntimeError as error:
        raise DeviceError(_NO_NVRTC) from error
    return f"{major}.{minor}"


@cache
def supported_archs() -> tuple[int, ...]:
    """Compute capabilities that the compiler knows, as 10 * major + minor."""
    from cuda.bindings import nvrtc

    return tuple(nvrtc.nvrtcGetSupportedArchs()[1])


def choose_arch(major: int, minor: int, known: tuple[int, ...]) -> str:
    """The best of the `known` architectures for a GPU of this compute capability. Raises `DeviceError` without any.

    A cubin runs on every GPU of its own major capability from its own minor one up.
    """
    capability = 10 * major + minor
    compatible = [arch for arch in known if arch // 10 == major and arch <= capability]
    if not compatible:
        older = major < 8 and bool(known) and capability < min(known)
        cure = "pip install '.[cuda12]'" if older else "pip install --upgrade nvidia-cuda-nvrtc"
        raise DeviceError(
            f"this CUDA compiler ({compiler_version()}) has no code for compute capability {major}.{minor}: {cure}"
        )
    return f"sm_{max(compatible)}"


class CubinCache:
    """Cubins on disk. A file holds the SHA-256 of a cubin and the cubin; any other content counts as absent.

    A folder that cannot be read or written, or that other users may write to, costs time, never a failure.
    """

    def __init__(self, folder: FilePath | None) -> None:
        self.folder = private_folder(folder) if folder else None

    def get(self, key: str, make: Callable[[], bytes]) -> bytes:
        """The cubin of this key: from disk, or else from `make`, and then stored."""
        if self.folder is None:
            return make()
        path = self.folder / f"{key}.cubin"
        try:
            stored = path.read_bytes()
        except OSError:
            stored = b""
        digest, cubin = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
        if cubin and hashlib.sha256(cubin).digest() == digest:
            return cubin
        cubin = make()
        self._store(path, hashlib.sha256(cubin).digest() + cubin)
        return cubin

    def has(self, key: str) -> bool:
        """Whether there is a file for this key, damaged or not."""
        return self.folder is not None and (self.folder / f"{key}.cubin").is_file()

    def _store(self, path: FilePath, content: bytes) -> None:
        with suppress(OSError):
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                os.replace(temporary, path)
            except OSError:
                os.unlink(temporary)


def cubin_key(source: str, macros: tuple[str, ...], arch: str, version: str) -> str:
    """Hash of everything that decides the content of a cubin, 20 hexadecimal digits."""
    state = hashlib.sha256()
    for part in (source, _STANDARD, arch, version, *macros):
        state.update(part.encode() + b"\0")
    state.update(_kernel_sources(KERNELS))
    return state.hexdigest()[:20]


@cache
def _kernel_sources(folder: FilePath) -> bytes:
    """Hash of names and contents of all kernels, which may include one another."""
    files = sorted(file for file in folder.iterdir() if file.suffix in (".cu", ".cuh"))
    content = b"".join(file.name.encode() + b"\0" + file.read_bytes() + b"\0" for file in files)
    return hashlib.sha256(content).digest()


class Compiler:
    """Cubins for one architecture, each compiled at most once."""

    def __init__(self, arch: str, folder: FilePath | None = None) -> None:
        self.version = compiler_version()
        self.arch = arch
        self._cache = CubinCache(folder or cache_folder("cubins"))
        self.folder = self._cache.folder

    def has(self, source: str, *macros: str) -> bool:
        """Whether there is a cubin of ``kernels/<source>`` with these macros on disk."""
        return self._cache.has(cubin_key(source, macros, self.arch, self.version))

    def cubin(self, source: str, *macros: str) -> bytes:
        """The cubin of ``kernels/<source>`` with these macros. Raises `KernelFailed`."""
        key = cubin_key(source, macros, self.arch, self.version)
        return self._cache.get(key, lambda: compile_cubin(source, macros, self.arch))
