"""What code inserted into PTX needs: functions to instrument, unused names, registers, accesses and their addresses."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpudissect.errors import PtxError
from gpudissect.explanation.ptx import Function, Instruction, Module, edit

MAX_TRACE_BYTES = 1 << 30
REGISTERS = ".reg .pred {r}p<6>; .reg .b32 {r}r<8>; .reg .b64 {r}d<12>;"
"""Declarations for the body of a function, to be filled in by `Names`."""
PTX: dict[str, str] = tomllib.loads(Path(__file__).with_name("inserted_ptx.toml").read_text(encoding="utf-8"))
_FIRST_VERSION = (6, 2)  # of activemask
_KINDS = {"ld": "load", "ldu": "load", "st": "store", "atom": "atomic", "red": "atomic"}
_MATRIX_KINDS = {"ldmatrix": "load", "stmatrix": "store"}
_MATRIX_ROW_BYTES = 16
_COPY_SIZES = {text: size for size in (4, 8, 16) for text in (str(size), hex(size))}  # of cp.async
_BULK_LOAD = ("async", "bulk", "shared::cluster"), ("async", "bulk", "shared::cta")
_DESCRIPTORS = ("wgmma.mma_async", "tcgen05.mma")  # with operands in memory that a descriptor states
VALUE = "value"
"""Kind of an access that makes no request: the value that each lane compares (`match`) in place of its address."""
_SPACES = ("global", "shared", "local", "const")
_NOT_TRACED_SPACES = frozenset(("param",))
_ADDRESS = re.compile(r"\[\s*(?:([A-Za-z_$%][\w$]*)\s*(?:\+\s*)?)?(-?\s*(?:0[xX][0-9a-fA-F]{1,16}|\d{1,19}))?\s*\]")
_ELEMENT = re.compile(r"(?:[busf]|bf|tf)(8|16|32|64|128)(x2)?")


@dataclass(frozen=True, slots=True)
class Access:
    """An access of an instruction, by its number in the module.

    `space` is global, shared, local, const or generic; `kind` is load, store, atomic or `VALUE`; `size` is in bytes per
    thread.
    """

    instruction: int
    space: str
    kind: str
    size: int
    address: str
    """Code that leaves the address in the register ``{address}``; the space of a generic one is in bits 62 and 63."""


def instrumented_functions(module: Module, kernel: str) -> tuple[Function, ...]:
    """A kernel and the functions it may call. Raises `PtxError` for an unknown kernel or 32-bit addresses."""
    function = module.function(kernel)
    if module.address_bits != 64:
        raise PtxError("PTX with 32-bit addresses is not instrumented")
    return module.called_from(function)


def address_code(access: Access) -> str:
    """Code that leaves the address of an access in ``{r}d2``; a generic one uses ``{r}p3`` and ``{r}p4``."""
    code = access.address.replace("{address}", "{r}d2")
    return code.replace("{is_shared}", "{r}p3").replace("{is_local}", "{r}p4")


class Names:
    """A name that does not occur in a module, for registers and arrays."""

    def __init__(self, module: Module) -> None:
        used = set(re.findall(r"gpudissect_(\d*)", module.text))
        self.name = next(f"gpudissect_{n}" for n in range(len(used) + 1) if str(n) not in used)

    def fill(self, code: str, **values: object) -> str:
        """Code on one line with names filled in: ``{r}`` is the prefix of registers, ``{name}`` that of arrays."""
        return code.replace("\n", " ").format(r=f"%{self.name}_", name=self.name, **values) + "\n"

    def apply(self, module: Module, edits: list[tuple[int, int, str]], arrays: dict[str, int]) -> str:
        """The edited module with arrays of 64-bit words."""
        lines = [f".visible .global .align 16 .u64 {self.name}_{array}[{size}];" for array, size in arrays.items()]
        start = module.functions[0].start
        first = [(start, start, "\n".join([*lines, ""]))]
        if module.version < _FIRST_VERSION:
            first.append((*module.version_place, ".version {}.{}".format(*_FIRST_VERSION)))
        return edit(module.text, first + edits)


def find_accesses(function: Function) -> tuple[dict[int, tuple[Access, ...]], tuple[int, ...]]:
    """Accesses by index of instruction, and the numbers of instructions whose addresses are not known.

    Those are tensor copies, bulk copies from shared memory, operands of the tensor core by descriptor, reductions of
    several GPUs, and addresses of an unknown form. Parameters are not accesses, nor are constants at a fixed address.
    """
    found: dict[int, tuple[Access, ...]] = {}
    unknown = []
    for index, instruction in enumerate(function.instructions):
        number = function.first + index
        spaces = {_space(modifier) for modifier in instruction.modifiers}
        if not _NOT_TRACED_SPACES & spaces:
            accesses = tuple(_accesses(function, instruction, number))
            addresses = sum(operand.startswith("[") for operand in instruction.operands)
            if accesses:
                found[index] = accesses
            elif "const" not in spaces and (addresses or instruction.opcode.startswith(_DESCRIPTORS)):
                unknown.append(number)
    return found, tuple(unknown)


def _space(modifier: str) -> str:
    return modifier.partition("::")[0]


def _accesses(function: Function, instruction: Instruction, number: int) -> Iterator[Access]:
    spaces = [_space(modifier) for modifier in instruction.modifiers if _space(modifier) in _SPACES]
    places = [operand for operand in instruction.operands if operand.startswith("[")]
    if instruction.name == "cp" and instruction.modifiers[:1] == ("async",) and "bulk" not in instruction.modifiers:
        size = _COPY_SIZES.get(instruction.operands[2], 0) if instruction.operands[2:] else 0
        codes = [_address(function, instruction, place, "") for place in places[:2]]
        if size and len(codes) == 2 and all(codes):
            yield Access(number, "global", "load", size, codes[1])
            yield Access(number, "shared", "store", size, codes[0])
        return
    if instruction.name == "match":
        value = (
            _address(function, instruction, f"[{instruction.operands[1]}]", "shared")
            if instruction.operands[1:]
            else ""
        )
        if value:
            yield Access(number, "shared", VALUE, 1, value)
        return
    if instruction.name == "mbarrier" or (instruction.modifiers[:3] in _BULK_LOAD and len(places) > 2):
        yield from _barrier_accesses(function, instruction, number, places)
        return
    kind = _KINDS.get(instruction.name) or _MATRIX_KINDS.get(instruction.name)
    if kind is None or not places or {"async", "bulk"} & set(instruction.modifiers):
        return
    space = spaces[0] if spaces else "generic"
    if space == "const" and "%" not in places[0]:
        return
    size = _MATRIX_ROW_BYTES if instruction.name in _MATRIX_KINDS else _size(instruction.modifiers)
    code = _address(function, instruction, places[0], space)
    if size and code:
        yield Access(number, space, kind, size, code)


def _barrier_accesses(function: Function, instruction: Instruction, number: int, places: list[str]) -> Iterator[Access]:
    """Of a bulk copy, a load of its first sector; its barrier as an atomic; its number as the address of a byte."""
    is_copy = instruction.name == "cp"
    barrier = _address(function, instruction, places[2 if is_copy else 0], "shared") if places else ""
    source = _address(function, instruction, places[1], "global") if is_copy else "none"
    if not (barrier and source):
        return
    if is_copy:
        yield Access(number, "global", "load", 16, source)
    yield Access(number, "shared", "atomic", 8, barrier)
    after = instruction.operands[instruction.operands.index(places[0]) + 1 :]
    operands = [operand for operand in after if not operand.startswith("[")]
    if operands and (value := _address(function, instruction, f"[{operands[0]}]", "shared")):
        yield Access(number, "shared", "load", 1, value)


def _size(modifiers: tuple[str, ...]) -> int:
    """Bytes that a thread accesses; 0 if the type is not known."""
    element = _ELEMENT.fullmatch(modifiers[-1]) if modifiers else None
    vector = next((int(m[1:]) for m in modifiers if m in ("v2", "v4", "v8")), 1)
    return vector * int(element[1]) // 8 * (2 if element[2] else 1) if element else 0


def _address(function: Function, instruction: Instruction, place: str, space: str) -> str:
    """Code for an address; empty if its form is not known."""
    match = _ADDRESS.fullmatch(place)
    if match is None or not (match[1] or match[2]):
        return ""
    base, offset = match[1], (match[2] or "0").replace(" ", "")
    bits = function.register_bits(base, instruction.scope) if base else None
    if base is None:
        code = f"mov.u64 {{address}}, {offset};"
    elif bits in (32, 64):
        widened = "mov.u64" if bits == 64 else "cvt.u64.u32"
        code = f"{widened} {{address}}, {base}; add.s64 {{address}}, {{address}}, {offset};"
    elif bits is None and not base.startswith("%"):
        code = f"mov.u64 {{address}}, {base}; add.s64 {{address}}, {{address}}, {offset};"
    else:
        return ""
    if space == "generic":
        code += (
            " isspacep.shared {is_shared}, {address}; isspacep.local {is_local}, {address};"
            " @{is_shared} cvta.to.shared.u64 {address}, {address}; @{is_local} cvta.to.local.u64 {address}, {address};"
            f" @{{is_shared}} or.b64 {{address}}, {{address}}, {1 << 62};"
            f" @{{is_local}} or.b64 {{address}}, {{address}}, 0x{1 << 63:x};"
        )
    return code
