"""Device code in a file: a cubin itself, or cubins and PTX in a shared object, executable, object file or fatbin."""

import os
import re
import struct
from collections.abc import Iterable
from pathlib import Path

from gpudissect.child_processes import temporary_folder
from gpudissect.errors import MachineCodeError
from gpudissect.machine_code.elf import MAX_CUBIN_BYTES
from gpudissect.machine_code.kernel import Cubin, Kernel, choose_kernel, read_cubin
from gpudissect.machine_code.tools import run_tool

_ELF = b"\x7fELF"
_CUDA = (190).to_bytes(2, "little")  # EM_CUDA, in bytes 18 and 19
_FATBIN = bytes.fromhex("50ed55ba")
_ARCHIVE = b"!<arch>\n"
_HOST_HEADER = struct.Struct("<18xH20xQ8xHHH2x")  # Elf64_Ehdr: e_machine, e_shoff, e_phnum, e_shentsize, e_shnum
_ELF_64 = 2
_PTX_TARGET = re.compile(r"\.sm_(\d{2,3})([af]?)\.ptx$")  # of the name of an extracted file
_MAX_PTX_FILES = 4096
_NO_DEVICE_CODE = "does not contain device code"  # in the message of cuobjdump


def read_device_code(path: Path, architecture: str | None = None) -> tuple[Cubin, ...]:
    """The cubins of a file in their order, of one `architecture` such as ``sm_90`` (or ``sm_90a``) or of all.

    Raises `MachineCodeError` if the file cannot be read or has no device code of this architecture.
    """
    cubins = cubins_for(path, architecture)
    if not cubins:
        others = ", ".join(dict.fromkeys(cubin.architecture for cubin in cubins_for(path, None))) or "none"
        raise MachineCodeError(f"no machine code for {architecture or 'any GPU'} in {path.name!a}; found: {others}")
    return cubins


def cubins_for(path: Path, architecture: str | None) -> tuple[Cubin, ...]:
    """As `read_device_code`, but without an error if there is none of this architecture."""
    try:
        with path.open("rb") as file:
            start = file.read(20)
            size = min(MAX_CUBIN_BYTES, os.fstat(file.fileno()).st_size)  # Python allocates the number given
            data = start + file.read(size) if start[:4] == _ELF and start[18:] == _CUDA else b""
    except OSError as error:
        raise MachineCodeError(f"cannot read {str(path)!a}: {error.strerror}") from error
    if not data and start.startswith(_ELF):
        _check_whole(path)
    if not data and not start.startswith((_ELF, _FATBIN, _ARCHIVE)):
        valid = "a cubin, fatbin, ELF file or archive; the name of other kinds ends in .cu, .ptx or .json (profile)"
        raise MachineCodeError(f"no device code in {path.name!a}: valid: {valid}")
    cubins = (read_cubin(data),) if data else _embedded_cubins(path, architecture)
    return tuple(cubin for cubin in cubins if architecture is None or cubin.architecture == architecture.rstrip("af"))


def read_embedded_ptx(path: Path, architecture: str) -> tuple[str, ...]:
    """The PTX modules in a file from which machine code of an architecture can be made, those of the newest target.

    None for a cubin. Raises `MachineCodeError` if the file cannot be read.
    """
    capability = int(re.sub(r"\D", "", architecture))
    with temporary_folder() as folder:
        run_tool("cuobjdump", ["-xptx", "all", str(path.resolve())], folder)
        targets = [(file, match) for file in folder.iterdir() if (match := _PTX_TARGET.search(file.name))]
        usable = {
            file: (int(match[1]), match[2])
            for file, match in targets
            if int(match[1]) == capability or (int(match[1]) < capability and not match[2])
        }
        newest = sorted((f for f in usable if usable[f] == max(usable.values())), key=lambda file: _number(file.name))
        _check_size(path, newest[:_MAX_PTX_FILES])
        return tuple(file.read_text(encoding="utf-8", errors="replace") for file in newest[:_MAX_PTX_FILES])


def find_kernel(cubins: Iterable[Cubin], name: str | None, where: str = "the file") -> tuple[Cubin, Kernel]:
    """The kernel of this mangled or short name, or the only one, and its cubin. Raises `MachineCodeError`."""
    found = {kernel.name: (cubin, kernel) for cubin in cubins for kernel in cubin.kernels}
    return found[choose_kernel((kernel for _, kernel in found.values()), name, where).name]


def _check_whole(path: Path) -> None:
    """Raise `MachineCodeError` for an ELF file of the host that is empty or ends before its sections do."""
    with path.open("rb") as file:
        header = file.read(_HOST_HEADER.size)
        size = file.seek(0, os.SEEK_END)
    if len(header) < _HOST_HEADER.size:
        raise MachineCodeError(f"truncated ELF file {path.name!a}: its header is incomplete")
    machine, place, programs, entry_bytes, count = _HOST_HEADER.unpack(header)
    if machine == 0 or (header[4] == _ELF_64 and not programs and not count):
        raise MachineCodeError(f"no device code in {path.name!a}: an ELF file for no machine, or without content")
    if header[4] == _ELF_64 and place + entry_bytes * count > size:
        raise MachineCodeError(
            f"truncated ELF file {path.name!a}: it has {size} bytes and describes {place + entry_bytes * count}"
        )


def _embedded_cubins(path: Path, architecture: str | None) -> tuple[Cubin, ...]:
    chosen = ["-arch", architecture] if architecture else []
    with temporary_folder() as folder:
        try:
            run_tool("cuobjdump", [*chosen, "-xelf", "all", str(path.resolve())], folder)
        except MachineCodeError as error:
            if _NO_DEVICE_CODE in str(error):
                raise MachineCodeError(f"no device code in {path.name!a}: name the file with the kernels") from None
            raise
        files = [file for file in folder.iterdir() if file.suffix == ".cubin"]
        _check_size(path, files)
        return tuple(read_cubin(file.read_bytes()) for file in sorted(files, key=lambda file: _number(file.name)))


def _check_size(path: Path, files: Iterable[Path]) -> None:
    """Raise `MachineCodeError` if files that were extracted from another one are too large together."""
    size = sum(file.stat().st_size for file in files)
    if size > MAX_CUBIN_BYTES:
        raise MachineCodeError(
            f"{path.name!a} has {size} bytes of uncompressed device code; at most {MAX_CUBIN_BYTES} are "
            "read: extract one cubin with 'cuobjdump -xelf'"
        )


def _number(name: str) -> int:
    """Position of an extracted file: 12 of ``kernels.12.sm_90.cubin``."""
    parts = name.rsplit(".", 3)
    return int(parts[1]) if len(parts) == 4 and parts[1].isdecimal() else 0
