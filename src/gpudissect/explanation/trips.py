"""Executions of machine code without a run, from how often each of its loops turns."""

import math
import re
from collections.abc import Mapping, Sequence

from gpudissect.errors import MachineCodeError, UsageError
from gpudissect.explanation.counts import Count
from gpudissect.explanation.instrument import WARP_THREADS
from gpudissect.explanation.mapping import MachineCounts
from gpudissect.machine_code.loops import Loop
from gpudissect.machine_code.program import Program
from gpudissect.results.text import brief

NO_LOOPS = "none"
"""Stands for no trips: of a kernel without loops."""
MAX_TRIPS = 1e12
MAX_LISTED, MAX_NAME = 12, 60
NOTE = (
    "execution counts are GIVEN, not measured: trip counts as stated, conditional code executed by all threads, "
    "accesses contiguous and to device memory (local memory: L1 hits)"
)


def parse_trips(texts: Sequence[str]) -> dict[str, float]:
    """Trips by name of their loop, of texts such as ``kernel.cu:12=1024``; none of ``none``. Raises `UsageError`."""
    if list(texts) == [NO_LOOPS]:
        return {}
    found: dict[str, float] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or not re.fullmatch(r"[0-9.e+]{1,20}", number, re.ASCII):
            raise UsageError(f"not a trip count: {ascii(text)[:60]}; write LOOP=N, such as kernel.cu:12=1024")
        if name in found:
            raise UsageError(f"two trip counts of the loop {ascii(name)[1:-1][:MAX_NAME]}: give one")
        try:
            found[name] = float(number)
        except ValueError:
            raise UsageError(f"not a trip count: {ascii(text)[:60]}; write LOOP=N, such as kernel.cu:12=1024") from None
    return found


def executions(program: Program, trips: Mapping[str, float], threads: int) -> MachineCounts:
    """Executions of all blocks by so many `threads`: each block of a loop runs `trips` times per entry of the loop.

    Both ways of a branch run. Raises `UsageError` with the loops that have no trips, for trips of no loop, and for code
    whose executions do not follow from them.
    """
    turns = _turns_by_loop(program, trips)
    flow, loops = program.flow, program.loops
    if loops.has_irreducible or any(flow.blocks[number].has_unknown_successors for number in flow.order):
        raise UsageError("trip counts do not determine the executions of this machine code: record it on a GPU")
    per_entry = [_per_entry(loops.loops, turns, loop) for loop in loops.innermost]
    calls = _calls(program, per_entry)
    times = [per_entry[n] * calls[_function_of(program, n)] for n in range(len(flow.blocks))]
    edges = dict[tuple[int, int], Count]()
    for number, loop in enumerate(loops.loops):
        around = max(0.0, turns[number] - 1) / turns[number] * times[loop.header] if turns[number] else 0.0
        edges |= {(latch, loop.header): _exact(threads * around / len(loop.latches)) for latch in loop.latches}
    reached = set(flow.order)
    by_threads = tuple(_exact(threads * times[n] if n in reached else 0.0) for n in range(len(flow.blocks)))
    by_warps = tuple(_exact(math.ceil(threads / WARP_THREADS) * each.value / threads) for each in by_threads)
    return MachineCounts(by_threads, by_warps, {}, edges, (None,) * len(flow.blocks), ())


def _exact(value: float) -> Count:
    return Count(value, value, value)


def _turns_by_loop(program: Program, trips: Mapping[str, float]) -> list[float]:
    """Trips by index of loop. Raises `UsageError`."""
    loops = program.loops.loops
    found: dict[int, float] = {}
    for name, number in trips.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= MAX_TRIPS:
            what = f"trip count {ascii(number)[:40]} of the loop {ascii(name)[1:-1][:MAX_NAME]}"
            raise UsageError(f"{what}: valid: 0 to {MAX_TRIPS:g}")
        found[_find(program, name)] = float(number)
    missing = [number for number in range(len(loops)) if number not in found]
    if missing:
        listed = [_description(program, loops[number]) for number in missing[:MAX_LISTED]]
        more = f" and {len(missing) - MAX_LISTED} more" if len(missing) > MAX_LISTED else ""
        example = brief(loops[missing[0]].name, MAX_NAME)
        raise UsageError(
            f"no trip count of {len(missing)} loop{'s' * (len(missing) > 1)}: {', '.join(listed)}{more}; add the "
            f"iterations per entry of each, such as --trips {example}=100"
        )
    return [found[number] for number in range(len(loops))]


def _find(program: Program, name: str) -> int:
    """The index of a loop by its name or the address of its header."""
    addresses = [_addresses(program, loop)[0] for loop in program.loops.loops]
    if re.fullmatch(r"0x[0-9a-fA-F]{1,12}", name) and int(name, 16) in addresses:
        return addresses.index(int(name, 16))
    try:
        return program.loops.find(name)
    except MachineCodeError as error:
        raise UsageError(str(error)) from None


def _addresses(program: Program, loop: Loop) -> tuple[int, int]:
    """Addresses of the first instruction of a loop's header, and of its last one."""
    blocks, instructions = program.flow.blocks, program.instructions
    last = max(blocks[number].end for number in loop.blocks) - 1
    return instructions[blocks[loop.header].start].address, instructions[last].address


def _description(program: Program, loop: Loop) -> str:
    first, last = _addresses(program, loop)
    parent = loop.parent
    inside = "" if parent is None else f", inside {brief(program.loops.loops[parent].name, MAX_NAME)}"
    return f"{brief(loop.name, MAX_NAME)} (0x{first:04x} to 0x{last:04x}{inside})"


def _per_entry(loops: Sequence[Loop], turns: Sequence[float], loop: int | None) -> float:
    """Executions of a block for each entry of its function."""
    times = 1.0
    while loop is not None:
        times *= turns[loop]
        loop = loops[loop].parent
    return times


def _function_of(program: Program, block: int) -> int:
    """The entry of the function that a block is in."""
    return max((entry for entry in program.flow.entries if entry <= block), default=0)


def _calls(program: Program, per_entry: Sequence[float]) -> dict[int, float]:
    """How often each function runs, by its entry, for each thread of the kernel. Raises `UsageError` for recursion."""
    flow = program.flow
    callers: dict[int, list[int]] = {entry: [] for entry in flow.entries}
    for number in flow.order:
        callee = flow.blocks[number].callee
        if callee is not None:
            callers[callee].append(number)
    found = {flow.entries[0]: 1.0}

    def calls_of(entry: int, above: tuple[int, ...]) -> float:
        if entry in above:
            raise UsageError("executions of a recursive function do not follow from trips: record them on a GPU")
        if entry not in found:
            around = [(calls_of(_function_of(program, each), (*above, entry)), each) for each in callers[entry]]
            found[entry] = sum(calls * per_entry[each] for calls, each in around)
        return found[entry]

    return {entry: calls_of(entry, ()) for entry in flow.entries}
