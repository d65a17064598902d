"""Kernels of a cubin: code, registers, shared memory, stack, as the file declares them.

Their attributes stand in the sections ``.nv.info``: a format byte, an identifier byte and 16 bits, a value or the
length of what follows. NVIDIA does not document them; identifiers and layouts are those that ``cuobjdump -elf`` (13.5)
prints beside the same bytes.
"""

import struct
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from gpudissect.errors import MachineCodeError
from gpudissect.machine_code.elf import ElfFile, read_elf
from gpudissect.machine_code.names import choose_name, short_name
from gpudissect.printable import quoted

INSTRUCTION_BYTES = 16  # Volta and later
RESERVED_SHARED_BYTES = 1024
"""Of each block from compute capability 8.0 on (CUDA C++ Programming Guide, Shared Memory)."""
MAX_SHARED_BYTES = 1 << 20  # several times the shared memory of an SM
_RESERVED_SHARED = ".nv.reservedSmem.offset0"  # a cubin with this symbol counts them in its sections
_FIRST_CAPABILITY = 70  # earlier GPUs have 8-byte instructions
_REGISTERS = 0x2F  # symbol, registers per thread
_MAX_THREADS = 0x05  # x, y, z
_REQUIRED_THREADS = 0x10  # x, y, z
_STACK = 0x12  # symbol, bytes per thread with the functions that it calls
_TARGETS = 0x34  # records of: offset of the branch, zero, number of targets, targets
_SIZED = 4  # the 16 bits are a length
_Attributes = list[tuple[int, tuple[int, ...]]]
"""Identifier and 32-bit words of each."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function inside the code of a kernel, at a byte offset."""

    name: str
    start: int
    size: int


@dataclass(frozen=True)
class Kernel:
    """A kernel as a cubin declares it. Sizes are in bytes: shared memory per block, stack per thread.

    `shared_bytes` is static shared memory, without what the system reserves. `functions` are those in `code`, the
    kernel first. `indirect_targets` has the targets of indirect branches by address; `symbol` is the index of its
    symbol. `max_threads` is None if not declared.
    """

    name: str
    architecture: str
    code: bytes = field(repr=False)
    symbol: int
    registers: int
    shared_bytes: int
    stack_bytes: int
    max_threads: int | None
    functions: tuple[Function, ...] = field(repr=False)
    indirect_targets: dict[int, tuple[int, ...]] = field(repr=False)

    @property
    def short_name(self) -> str:
        """Namespaces and name without parameters: ``ns::name`` for ``_ZN2ns4nameIfEvPT_``."""
        return short_name(self.name)


@dataclass(frozen=True)
class Cubin:
    """A checked cubin: its bytes, its architecture such as ``sm_90``, and its kernels in the order of their symbols."""

    data: bytes = field(repr=False)
    architecture: str
    kernels: tuple[Kernel, ...]


def read_cubin(data: bytes) -> Cubin:
    """The kernels of a cubin. Raises `MachineCodeError` for anything that is not a whole cubin."""
    file = read_elf(data)
    if file.capability < _FIRST_CAPABILITY:
        raise MachineCodeError(f"machine code of sm_{file.capability}: GPUs before sm_{_FIRST_CAPABILITY} are not read")
    everywhere = _attributes(file.content(".nv.info"))
    registers, stacks = (_by_symbol(everywhere, kind) for kind in (_REGISTERS, _STACK))
    reserved = RESERVED_SHARED_BYTES if any(s.name == _RESERVED_SHARED for s in file.symbols) else 0
    functions = defaultdict[int | None, dict[int, Function]](dict)
    for symbol in file.symbols:
        if symbol.is_function:
            functions[symbol.section][symbol.value] = Function(symbol.name, symbol.value, symbol.size)
    found = {index: symbol for index, symbol in enumerate(file.symbols) if symbol.is_kernel}
    if len(found) > min(len({each.name for each in found.values()}), len({each.section for each in found.values()})):
        raise MachineCodeError("damaged cubin: two kernels with the same name or section")
    kernels = tuple(
        _kernel(file, index, registers.get(index), stacks.get(index, 0), reserved, functions[symbol.section])
        for index, symbol in found.items()
    )
    return Cubin(data, f"sm_{file.capability}", kernels)


def choose_kernel(kernels: Iterable[Kernel], name: str | None, where: str = "the file") -> Kernel:
    """The kernel of a name as `choose_name` reads it, or the only one. Raises `MachineCodeError` with their names."""
    by_name = {kernel.name: kernel for kernel in kernels}
    return by_name[choose_name(by_name, name, where)]


def _kernel(
    file: ElfFile, index: int, registers: int | None, stack: int, reserved: int, functions: dict[int, Function]
) -> Kernel:
    symbol = file.symbols[index]
    section = file.sections[symbol.section or 0]
    own = _attributes(file.content(f".nv.info.{symbol.name}"))
    if not section.content or len(section.content) % INSTRUCTION_BYTES:
        size = len(section.content)
        raise MachineCodeError(f"damaged cubin: kernel {quoted(symbol.name, 60)} has {size} bytes of code")
    shared = file.section(f".nv.shared.{symbol.name}")
    shared_bytes = max(0, shared.size - reserved) if shared else 0
    if shared_bytes > MAX_SHARED_BYTES:
        raise MachineCodeError(f"damaged cubin: a kernel with {shared_bytes} bytes of shared memory")
    threads = _words_of(own, _REQUIRED_THREADS, 3) or _words_of(own, _MAX_THREADS, 3)
    return Kernel(
        name=symbol.name,
        architecture=f"sm_{file.capability}",
        code=section.content,
        symbol=index,
        registers=section.info >> 24 if registers is None else registers,
        shared_bytes=shared_bytes,
        stack_bytes=stack,
        max_threads=threads[0] * threads[1] * threads[2] if threads else None,
        functions=_inside(Function(symbol.name, 0, symbol.size), functions, len(section.content)),
        indirect_targets=_indirect_targets(own),
    )


def _inside(kernel: Function, functions: dict[int, Function], code_bytes: int) -> tuple[Function, ...]:
    """The kernel and the functions in its section, by address."""
    starts = (start for start in sorted(functions) if 0 < start < code_bytes and start % INSTRUCTION_BYTES == 0)
    return kernel, *(functions[start] for start in starts)


def _attributes(data: bytes) -> _Attributes:
    """The attributes of a section that have words. Raises `MachineCodeError` if one extends past the end."""
    found, position = [], 0
    while position + 4 <= len(data):
        form, identifier, value = struct.unpack_from("<BBH", data, position)
        position += 4
        if form != _SIZED:
            continue
        if position + value > len(data):
            raise MachineCodeError(f"damaged cubin: attribute {identifier:#x} extends past its section")
        found.append((identifier, struct.unpack_from(f"<{value // 4}I", data, position)))
        position += value
    return found


def _words_of(attributes: _Attributes, identifier: int, count: int) -> tuple[int, ...] | None:
    """The first `count` words of the first attribute of this kind that has them, or None."""
    return next((words[:count] for kind, words in attributes if kind == identifier and len(words) >= count), None)


def _by_symbol(attributes: _Attributes, identifier: int) -> dict[int, int]:
    """Value of an attribute by index of the symbol that it describes."""
    return {words[0]: words[1] for kind, words in attributes if kind == identifier and len(words) >= 2}


def _indirect_targets(attributes: _Attributes) -> dict[int, tuple[int, ...]]:
    """Addresses that each indirect branch may lead to, by the address of the branch, in bytes from the section."""
    targets: dict[int, tuple[int, ...]] = {}
    for kind, words in attributes:
        first = 0
        while kind == _TARGETS and len(words) >= first + 3:
            end = first + 3 + words[first + 2]
            targets[words[first]], first = words[first + 3 : end], end
    return targets
