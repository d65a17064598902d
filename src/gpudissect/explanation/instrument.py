"""PTX with code that counts, traces or marks what a kernel executes; the kernel computes what it did before.

The code adds registers of its own, writes only to arrays of its own (``.global``, zero at the start, found by name in
the loaded module), and has no branches and no barriers. The launch needs no other arguments. Active lanes communicate
as `coalesced_threads` of cooperative groups does: `activemask`, then operations with this mask.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

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
from gpudissect.explanation.ptx import BLOCK_ENDS, Function, Module, edit
from gpudissect.explanation.slow_paths import COUNTERS, SlowCount, count_code, slow_instructions
from gpudissect.units import WARP_SIZE

LINES_FILE = "gpudissect.ptx"
"""Source file of the lines that `with_source_lines` sets."""
_RECORD_BYTES = 8
_SAMPLE_FIELDS = 6
_COUNTERS = 3
MAX_WARPS = 64
"""Warps traced in one launch."""
ACCESSES_PER_WARP, VISITS_PER_WARP = 1500, 3000
"""Capacities of a trace."""


class BlockCount(NamedTuple):
    """Executions of a PTX block by warps and by threads, and threads for which the guard of its last branch held.

    `slow` has the slow paths of its divisions and roots; none if they were not counted.
    """

    warps: int
    threads: int
    taken: int
    slow: tuple[SlowCount, ...] = ()


@dataclass(frozen=True)
class Counted:
    """A module that counts how often the blocks of a kernel and its functions run.

    `array` is the name of its counters in the module, `blocks` has the function and the index of each block, `slow` the
    block and the number of each instruction whose slow path is counted.
    """

    ptx: str = field(repr=False)
    array: str
    blocks: tuple[tuple[str, int], ...]
    slow: tuple[tuple[tuple[str, int], int], ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the counters: those of the blocks, then those of slow paths."""
        return _RECORD_BYTES * (_COUNTERS * len(self.blocks) + COUNTERS * len(self.slow))

    def read(self, data: bytes) -> dict[tuple[str, int], BlockCount]:
        """The counts of each block."""
        words = np.frombuffer(data, np.uint64, self.size // _RECORD_BYTES)
        rows, slow_rows = np.split(words, [_COUNTERS * len(self.blocks)])
        slow: dict[tuple[str, int], list[SlowCount]] = {block: [] for block in self.blocks}
        for (block, number), row in zip(self.slow, slow_rows.reshape(-1, COUNTERS).tolist(), strict=True):
            slow[block].append(SlowCount(number, *row))
        by_block = zip(self.blocks, rows.reshape(-1, _COUNTERS).tolist(), strict=True)
        return {
            block: BlockCount(warps, threads, taken, tuple(slow[block])) for block, (warps, threads, taken) in by_block
        }


@dataclass(frozen=True)
class Sample:
    """The warps to trace: of every `step`-th of `count` thread blocks from `first` on, likewise warps in these."""

    blocks: tuple[int, int, int]
    warps: tuple[int, int, int]

    def data(self) -> bytes:
        """Content of the array ``..._sample``, to be written before the launch."""
        return np.array([*self.blocks, *self.warps], np.uint64).tobytes()


@dataclass(frozen=True)
class Events:
    """What a warp executed, in order: index of the block or access, lanes that executed it, addresses (events, 32).

    Addresses of lanes that did not execute are not defined. The first event is number `first` of the warp; after the
    last one, `overflow_count` more did not fit into the capacity.
    """

    index: NDArray[np.uint32]
    lanes: NDArray[np.uint32]
    addresses: NDArray[np.uint64] | None
    overflow_count: int
    first: int = 0


@dataclass(frozen=True)
class Traced:
    """A module that records the blocks and accesses of sampled warps, and the sizes of its arrays in bytes.

    A warp has the slot (index of its block in the sample) * (warps per block in the sample) + (index of its warp). It
    records accesses after the first ones, whose number the array ``..._skips`` has for each slot.
    `untraced` has the numbers of instructions whose addresses are not recorded. `has_barriers`: there are operations on
    barriers in memory (``mbarrier``), whose phases follow from the order of all of them.
    """

    ptx: str = field(repr=False)
    arrays: dict[str, int]
    blocks: tuple[tuple[str, int], ...]
    accesses: tuple[Access, ...]
    untraced: tuple[int, ...]
    has_barriers: bool
    access_capacity: int
    visit_capacity: int

    def read_visits(self, arrays: dict[str, bytes], slot: int) -> Events:
        """The blocks that the warp of a slot executed. Arrays are those of `arrays`, without their common prefix."""
        return self._read(arrays, slot, 1, "visits", self.visit_capacity)

    def read_accesses(self, arrays: dict[str, bytes], slot: int) -> Events:
        """The accesses that the warp of a slot executed, with the address of each lane."""
        return self._read(arrays, slot, 0, "accesses", self.access_capacity)

    def _read(self, arrays: dict[str, bytes], slot: int, stream: int, name: str, capacity: int) -> Events:
        total = int(np.frombuffer(arrays["cursors"], np.uint32)[2 * slot + stream])
        first = 0 if stream else min(total, int(np.frombuffer(arrays["skips"], np.uint64)[slot]))
        count, place = min(total - first, capacity), slot * capacity
        records = np.frombuffer(arrays[name], np.uint32, 2 * count, place * _RECORD_BYTES).reshape(-1, 2)
        addresses = None
        if stream == 0:
            start = place * WARP_SIZE * _RECORD_BYTES
            addresses = np.frombuffer(arrays["addresses"], np.uint64, count * WARP_SIZE, start).reshape(-1, WARP_SIZE)
        return Events(records[:, 1], records[:, 0], addresses, total - first - count, first)


def with_source_lines(module: Module) -> str:
    """The text with the number of each instruction as its source line, instead of lines and files it had.

    Raises `PtxError` for a module compiled for debugging: its machine code depends on these lines.
    """
    if re.search(r"\bdebug\b", module.target):
        raise PtxError("the PTX was compiled for debugging (-G): compile it with -lineinfo")
    edits = [(start, end, "") for start, end in module.locations]
    for function in module.functions:
        for number, instruction in enumerate(function.instructions, start=function.first):
            edits.append((instruction.start, instruction.start, f".loc 1 {number} 0\n"))
    return edit(module.text, edits) + f'\n.file 1 "{LINES_FILE}"\n'


def counted(module: Module, kernel: str) -> Counted:
    """The module with counters at the head of each block of a kernel and of the functions it may call.

    Before divisions and roots it has counters of their slow paths.

    Raises `PtxError` for an unknown kernel or 32-bit addresses.
    """
    functions = instrumented_functions(module, kernel)
    names = Names(module)
    blocks = _blocks(functions)
    offsets = {block: _COUNTERS * _RECORD_BYTES * index for index, block in enumerate(blocks)}
    edits, slow, size = [], list[tuple[tuple[str, int], int]](), _COUNTERS * len(blocks)

    def count(block: tuple[str, int]) -> str:
        warps = offsets[block]
        return names.fill(PTX["elect"]) + names.fill(PTX["count"], warps=warps, threads=warps + _RECORD_BYTES)

    for function in functions:
        edits.append((function.body, function.body, names.fill(REGISTERS)))
        edits += _at_heads(function, count)
        for index, block in enumerate(function.blocks):
            last = function.instructions[block.end - 1]
            if last.guard and last.name in BLOCK_ENDS:
                taken = offsets[function.name, index] + 2 * _RECORD_BYTES
                code = names.fill(PTX["elect"]) + names.fill(PTX["count_taken"], guard=last.guard, taken=taken)
                edits.append((last.start, last.start, code))
        for number, index in slow_instructions(function):
            instruction = function.instructions[index]
            code = count_code(names, instruction, _RECORD_BYTES * size)
            edits.append((instruction.start, instruction.start, code))
            slow.append(((function.name, number), function.first + index))
            size += COUNTERS
    return Counted(names.apply(module, edits, {"counts": size}), f"{names.name}_counts", blocks, tuple(slow))


def traced(module: Module, kernel: str, *, warps: int, accesses: int, visits: int) -> Traced:
    """The module with code that records accesses and visited blocks of up to `warps` sampled warps.

    `accesses` and `visits` are the capacities per warp. Raises `PtxError` as `counted` does, or if the arrays would
    exceed `MAX_TRACE_BYTES`.
    """
    sizes = {
        "sample": _SAMPLE_FIELDS,
        "cursors": warps,
        "accesses": warps * accesses,
        "visits": warps * visits,
        "addresses": warps * accesses * WARP_SIZE,
        "skips": warps,
    }
    if min(warps, accesses, visits) < 1 or sum(sizes.values()) * _RECORD_BYTES > MAX_TRACE_BYTES:
        raise PtxError(f"a trace of {warps} warps, {accesses} accesses, {visits} blocks: 1 to {MAX_TRACE_BYTES} bytes")
    functions = instrumented_functions(module, kernel)
    names, blocks = Names(module), _blocks(functions)
    index_of = {block: index for index, block in enumerate(blocks)}
    prologue = (
        names.fill(REGISTERS) + names.fill(PTX["linear_block"]) + names.fill(PTX["position"], first=0, step=8, count=16)
    )
    prologue += names.fill(PTX["linear_warp"]) + names.fill(PTX["position"], first=24, step=32, count=40)
    capacities = {"access_bytes": 8 * accesses, "visit_bytes": 8 * visits, "address_bytes": 256 * accesses}
    prologue += names.fill(PTX["slot"], warps=warps, **capacities)
    edits: list[tuple[int, int, str]] = []
    found: list[Access] = []
    untraced: list[int] = []
    visit = {"base": "d10", "cursor": 4, "capacity": visits, "skip": 0}
    visit["executing"] = names.fill("mov.u32 {r}r1, {r}r0;")
    for function in functions:
        edits.append((function.body, function.body, prologue))
        edits += _at_heads(function, lambda block: names.fill(PTX["record"], event=index_of[block], **visit))
        by_index, unknown = find_accesses(function)
        untraced += unknown
        for index, group in by_index.items():
            instruction = function.instructions[index]
            text = "".join(
                _record_access(names, access, instruction.guard, len(found) + position, accesses)
                for position, access in enumerate(group)
            )
            found += group
            edits.append((instruction.start, instruction.start, text))
    text = names.apply(module, edits, sizes)
    arrays = {f"{names.name}_{array}": _RECORD_BYTES * count for array, count in sizes.items()}
    has_barriers = any(each.name == "mbarrier" for function in functions for each in function.instructions)
    return Traced(text, arrays, blocks, tuple(found), tuple(untraced), has_barriers, accesses, visits)


def _record_access(names: Names, access: Access, guard: str, event: int, capacity: int) -> str:
    executing = f"vote.sync.ballot.b32 {{r}}r1, {guard}, {{r}}r0;" if guard else "mov.u32 {r}r1, {r}r0;"
    place = {"base": "d9", "cursor": 0, "capacity": capacity, "skip": names.fill("{r}r6").strip()}
    record = names.fill(PTX["record"], event=event, executing=names.fill(executing), **place)
    return record + names.fill(PTX["store_address"], address=names.fill(address_code(access)))


def _blocks(functions: Iterable[Function]) -> tuple[tuple[str, int], ...]:
    return tuple((function.name, index) for function in functions for index in range(len(function.blocks)))


def _at_heads(function: Function, code: Callable[[tuple[str, int]], str]) -> list[tuple[int, int, str]]:
    places = [function.instructions[block.start].start for block in function.blocks]
    return [(place, place, code((function.name, index))) for index, place in enumerate(places)]
