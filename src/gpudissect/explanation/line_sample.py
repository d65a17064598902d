"""PTX that records the requests of a sample of cache lines, for hit rates of the L1 and the L2 (`reuse`).

The sample is spatial: all requests of a line are recorded, or none. So the reuse of a recorded line is complete, and
distances between its requests are those of the whole stream times the sampling rate (SHARDS: Waldspurger et al.,
"Efficient MRC Construction with SHARDS", FAST 2015). The code follows the rules of `instrument`: no branches, no
barriers, registers and arrays of its own.

To launch: load `LineSampled.ptx`, fill the arrays of `LineSampled.arrays` with zeros (they are zero in a newly loaded
module), launch the kernel once with its arguments, and pass the content of the arrays to `LineSampled.read`. Compiled
with more registers than the original kernel, fewer blocks may share an SM: limit the registers of the compilation to
those of the original (`--maxrregcount`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpudissect.errors import PtxError
from gpudissect.explanation.insertion import (
    MAX_TRACE_BYTES,
    PTX,
    REGISTERS,
    Access,
    Names,
    address_code,
    find_accesses,
    instrumented_functions,
)
from gpudissect.explanation.ptx import Instruction, Module
from gpudissect.explanation.reuse import SECTOR_BYTES, Requests

MAX_SHIFT = 32
RECORD_BYTES = 16
_FIRST_TARGET = 70  # of match.any.sync
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of SplitMix64
_RECORDED_SPACES = frozenset(("global", "generic"))
_PAST_L1 = frozenset(("cg", "cv", "volatile", "mmio", "L1::no_allocate"))
_COHERENT = frozenset(("relaxed", "acquire"))


@dataclass(frozen=True)
class LineSampled:
    """A module that records requests of sampled lines, and the sizes of its arrays in bytes.

    `uses_l1` is whether each access is a load that the L1 may hold. Accesses to local memory and those of unknown
    addresses (`find_accesses`) are not among them.
    """

    ptx: str = field(repr=False)
    arrays: dict[str, int]
    accesses: tuple[Access, ...]
    uses_l1: tuple[bool, ...]
    shift: int
    line_bytes: int
    capacity: int

    def read(self, arrays: Mapping[str, bytes]) -> Requests:
        """The recorded requests. Arrays are those of `arrays`, without their common prefix.

        If some did not fit into the capacity, those recorded are the first: sample again, with a greater shift.
        """
        total = int(np.frombuffer(arrays["cursor"], np.uint64)[0])
        count = min(total, self.capacity)
        kind = np.dtype([("address", np.uint64), ("access", np.uint32), ("sm", np.uint32)])
        rows = np.frombuffer(arrays["records"], kind, count)
        address, access, sm = (np.ascontiguousarray(rows[name]) for name in kind.names or ())
        return Requests(address, access, sm, self.line_bytes, 2.0**-self.shift, total - count)


def is_sampled(addresses: NDArray[np.uint64], *, shift: int, line_bytes: int) -> NDArray[np.bool_]:
    """Whether the lines of addresses are in the sample: the first `shift` bits of their hash are 0."""
    first, second = (np.uint64(multiplier) for multiplier in _MULTIPLIERS)
    hashed = addresses // np.uint64(line_bytes) * first
    return (hashed ^ hashed >> np.uint64(32)) * second <= np.uint64(_limit(shift))


def line_sampled(module: Module, kernel: str, *, shift: int, capacity: int, line_bytes: int = 128) -> LineSampled:
    """The module with code that records the global accesses of all warps to one of 2**shift lines.

    A record is a request of a 32-byte sector by an access of a warp, whatever the number of its lanes. Records are in
    the order of an atomic counter: in that order the accesses were issued, but for the latency of the counter. Generic
    accesses to shared or local memory are left out. `capacity` is in records of 16 bytes. Raises `PtxError` as
    `counted` does, for sizes out of range, or for PTX of a target below sm_70.
    """
    if not 0 <= shift <= MAX_SHIFT or not 1 <= capacity <= MAX_TRACE_BYTES // RECORD_BYTES:
        limit = MAX_TRACE_BYTES // RECORD_BYTES
        raise PtxError(f"a shift of {shift} and {capacity} records; valid: 0 to {MAX_SHIFT}, 1 to {limit}")
    if line_bytes < SECTOR_BYTES or line_bytes & (line_bytes - 1):
        raise PtxError(f"lines of {line_bytes} bytes; valid: powers of two from {SECTOR_BYTES}")
    target = re.match(r"sm_(\d{1,3})", module.target)
    if target and int(target[1]) < _FIRST_TARGET:
        raise PtxError(f"PTX for {target[0]} has no match instruction: compile it for sm_{_FIRST_TARGET} or newer")
    names, found, uses_l1 = Names(module), list[Access](), list[bool]()
    constants = {"line_bits": line_bytes.bit_length() - 1, "limit": f"0x{_limit(shift):x}", "sector": SECTOR_BYTES}
    constants |= {"first": f"0x{_MULTIPLIERS[0]:x}", "second": f"0x{_MULTIPLIERS[1]:x}", "spaces": 1 << 62}
    edits = []
    for function in instrumented_functions(module, kernel):
        edits.append((function.body, function.body, names.fill(REGISTERS)))
        for index, group in find_accesses(function)[0].items():
            instruction = function.instructions[index]
            for access in group:
                if access.space in _RECORDED_SPACES:
                    guard = instruction.guard
                    executing = f".and.u32 {{r}}p0, 0, 0, {guard}" if guard else ".u32 {r}p0, 0, 0"
                    code = names.fill(
                        PTX["record_line"],
                        executing=names.fill(executing),
                        address=names.fill(address_code(access)),
                        event=len(found),
                        capacity=capacity,
                        **constants,
                    )
                    edits.append((instruction.start, instruction.start, code))
                    found.append(access)
                    uses_l1.append(access.kind == "load" and _may_hit_l1(instruction))
    sizes = {"cursor": 1, "records": 2 * capacity}
    text = names.apply(module, edits, sizes)
    arrays = {f"{names.name}_{array}": 8 * size for array, size in sizes.items()}
    return LineSampled(text, arrays, tuple(found), tuple(uses_l1), shift, line_bytes, capacity)


def _limit(shift: int) -> int:
    """The greatest 64-bit number whose first `shift` bits are 0."""
    return (1 << 64 - shift) - 1


def _may_hit_l1(instruction: Instruction) -> bool:
    """Whether a load may hit in the L1: loads that are coherent beyond the block read from the L2."""
    modifiers = set(instruction.modifiers)
    return not _PAST_L1 & modifiers and not (_COHERENT & modifiers and "cta" not in modifiers)
