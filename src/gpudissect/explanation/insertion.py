"""What code inserted into PTX needs: functions to instrument, unused names, registers, the address of an access."""

import re

from gpudissect.errors import PtxError
from gpudissect.explanation.accesses import Access
from gpudissect.explanation.ptx import Function, Module, edit

MAX_TRACE_BYTES = 1 << 30
REGISTERS = ".reg .pred {r}p<6>; .reg .b32 {r}r<8>; .reg .b64 {r}d<12>;"
"""Declarations for the body of a function, to be filled in by `Names`."""
_FIRST_VERSION = (6, 2)  # of activemask


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
