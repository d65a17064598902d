"""Executions of machine code without a run, from the trip count of each loop."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from gpudissect.errors import MachineCodeError, UsageError, unknown_name
from gpudissect.explanation.counts import Count
from gpudissect.explanation.mapping import MachineCounts
from gpudissect.explanation.profile import Launch
from gpudissect.machine_code.loops import Loop
from gpudissect.machine_code.program import Program
from gpudissect.printable import brief, quoted

NO_LOOPS = "none"
"""Stands for no trips: of a kernel without loops."""
MAX_TRIPS = 1e12
MAX_LISTED, MAX_NAME = 12, 60
MAX_DESCRIBED = 180  # characters; of more loops only the names are listed
_ADDITIONS = ("IADD", "IADD3", "UIADD3", "VIADD")
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
        if re.search(r"=[0-9.e+]{1,20},[^=]+=", text, re.ASCII):
            raise UsageError(f"several trip counts in {ascii(text)[:MAX_NAME]}: repeat --trips for each loop")
        name, _, number = text.rpartition("=")
        if not name or not re.fullmatch(r"[0-9.e+]{1,20}", number, re.ASCII):
            raise UsageError(f"not a trip count: {quoted(text, 60)}; write LOOP=N, such as kernel.cu:12=1024")
        if name in found:
            raise UsageError(f"two trip counts of the loop {ascii(name)[1:-1][:MAX_NAME]}: give one")
        try:
            found[name] = float(number)
        except ValueError:
            raise UsageError(f"not a trip count: {quoted(text, 60)}; write LOOP=N, such as kernel.cu:12=1024") from None
    return found


def executions(program: Program, trips: Mapping[str, float], launch: Launch) -> MachineCounts:
    """Executions of all blocks in a launch: each block of a loop runs `trips` times per entry of the loop.

    Iterations of the source, by the name of its line, are distributed over an unrolled loop and its remainders. Both
    ways of a branch run. Raises `UsageError` with the loops that have no trips, for trips of no loop, and for code of
    unknown control flow.
    """
    trip_counts = _trips_by_loop(program, trips)
    threads, warps = launch.blocks * launch.threads_per_block, launch.blocks * launch.warps_per_block
    flow, loops = program.flow, program.loops
    if loops.has_irreducible or any(flow.blocks[number].has_unknown_successors for number in flow.order):
        raise UsageError("trip counts do not determine the executions of this machine code: record it on a GPU")
    per_entry = [_per_entry(loops.loops, trip_counts, loop) for loop in loops.innermost]
    calls = _calls(program, per_entry)
    times = [per_entry[n] * calls[_function_of(program, n)] for n in range(len(flow.blocks))]
    for number in program.slow_paths:
        times[number] = 0.0
    edges = dict[tuple[int, int], Count]()
    for number, loop in enumerate(loops.loops):
        count = trip_counts[number]
        around = max(0.0, count - 1) / count * times[loop.header] if count else 0.0
        edges |= {(latch, loop.header): _exact(threads * around / len(loop.latches)) for latch in loop.latches}
    reached = set(flow.order)
    by_threads, by_warps = (
        tuple(_exact(count * times[n] if n in reached else 0.0) for n in range(len(flow.blocks)))
        for count in (threads, warps)
    )
    return MachineCounts(by_threads, by_warps, edges, (None,) * len(flow.blocks))


def _exact(value: float) -> Count:
    return Count(value, value, value)


def _trips_by_loop(program: Program, trips: Mapping[str, float]) -> list[float]:
    """Trips by index of loop. Raises `UsageError`."""
    loops, unrolled = program.loops.loops, unrolled_loops(program)
    found, given = dict[int, float](), dict[int, str]()
    for name, number in trips.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= MAX_TRIPS:
            what = f"trip count {quoted(number, 40)} of the loop {ascii(name)[1:-1][:MAX_NAME]}"
            raise UsageError(f"{what}: valid: 0 to {MAX_TRIPS:g}")
        if not loops:
            raise UsageError(f"the machine code has no loops: --trips {NO_LOOPS}")
        left = float(number)
        for loop, iterations in unrolled.get(name) or [(_find(program, name), 1)]:
            if loop in found:
                other = f"{ascii(given[loop])[1:-1][:MAX_NAME]} and {ascii(name)[1:-1][:MAX_NAME]}"
                raise UsageError(f"two trip counts of one loop, by the names {other}: give one")
            given[loop] = name
            found[loop] = left if iterations == 1 else left // iterations
            left -= found[loop] * iterations
    names = {loop: name for name, members in unrolled.items() for loop, _ in members}
    missing = {names.get(n, loops[n].name): n for n in range(len(loops)) if n not in found}
    if missing:
        listed = [_description(program, name, number, unrolled) for name, number in missing.items()]
        if sum(map(len, listed)) > MAX_DESCRIBED:
            listed = [brief(name, MAX_NAME) for name in missing]
        more = f" and {len(missing) - MAX_LISTED} more" if len(missing) > MAX_LISTED else ""
        raise UsageError(
            f"no trip count of {len(missing)} loop{'s' * (len(missing) > 1)}: {', '.join(listed[:MAX_LISTED])}{more}; "
            f"add the iterations per entry of each, such as --trips {brief(next(iter(missing)), MAX_NAME)}=100"
        )
    return [found[number] for number in range(len(loops))]


def unrolled_loops(program: Program) -> dict[str, list[tuple[int, int]]]:
    """Loops that the compiler made of one of the source: by its line, their indices and iterations of the source.

    The main body is first; the last one, the remainder, counts single iterations. The ratio of most of their counters
    and addresses is the number of iterations. Loops around others are not unrolled into several.
    """
    loops, found = program.loops.loops, dict[str, list[tuple[int, int]]]()
    by_line = defaultdict[str, list[int]](list)
    for number, loop in enumerate(loops):
        by_line[re.sub(r"#\d+$", "", loop.name)].append(number)
    around = {loop.parent for loop in loops}
    for name, numbers in by_line.items():
        steps = {number: _steps(program, number) for number in numbers}
        remainders = [number for number in numbers if 1 in steps[number]]
        if len(numbers) < 2 or len(remainders) != 1 or around & {*numbers}:
            continue
        iterations = {n: _ratio(steps[n], steps[remainders[0]]) for n in numbers} | {remainders[0]: 1}
        if len({*iterations.values()}) == len(numbers) and len({loops[number].parent for number in numbers}) == 1:
            found[name] = sorted(iterations.items(), key=lambda item: -item[1])
    return found


def _ratio(steps: set[int], of_one: set[int]) -> int:
    """The ratio that most steps of two loops have, 1 if none is a multiple."""
    ratios = Counter(a // b for a in steps for b in of_one if a % b == 0 and a > b)
    return min(ratios, key=lambda ratio: (-ratios[ratio], ratio), default=1)


def _steps(program: Program, number: int) -> set[int]:
    """How far an iteration of a loop, without those inside it, advances each register to which it adds constants."""
    sums = Counter[str]()
    blocks = (block for n, block in enumerate(program.flow.blocks) if program.loops.innermost[n] == number)
    for block in blocks:
        for each in program.instructions[block.start : block.end]:
            if each.opcode in _ADDITIONS and not each.predicate and "X" not in each.modifiers:
                added = [text for text in each.operands[1:] if not re.fullmatch(r"!?U?P[T\d]|U?RZ", text)]
                constants = [text for text in added if text != each.operands[0]]
                if len(added) == 2 and len(constants) == 1 and re.fullmatch(r"-?0x[0-9a-f]{1,8}", constants[0]):
                    value = int(constants[0], 16)
                    sums[each.operands[0]] += value - (1 << 32) * (value >> 31 > 0)
    return {abs(value) for value in sums.values() if value}


def _find(program: Program, name: str) -> int:
    """The index of a loop by its name or the address of its header."""
    addresses = [_addresses(program, loop)[0] for loop in program.loops.loops]
    if re.fullmatch(r"0x[0-9a-fA-F]{1,12}", name) and int(name, 16) in addresses:
        return addresses.index(int(name, 16))
    try:
        return program.loops.find(name)
    except MachineCodeError:  # of unrolled loops the name is the line
        unrolled = {loop: line for line, members in unrolled_loops(program).items() for loop, _ in members}
        known = list(dict.fromkeys(unrolled.get(n, loop.name) for n, loop in enumerate(program.loops.loops)))
        raise unknown_name("loop", name, known, ", ".join(known[:MAX_LISTED]) or "none") from None


def _addresses(program: Program, loop: Loop) -> tuple[int, int]:
    """Addresses of the first instruction of a loop's header, and of its last one."""
    blocks, instructions = program.flow.blocks, program.instructions
    last = max(blocks[number].end for number in loop.blocks) - 1
    return instructions[blocks[loop.header].start].address, instructions[last].address


def _description(program: Program, name: str, number: int, unrolled: Mapping[str, Sequence[tuple[int, int]]]) -> str:
    """Name of a loop, where it is, and how it is unrolled."""
    loops, steps = program.loops.loops, _steps(program, number)
    parent = loops[number].parent
    text = "" if parent is None else f", inside {brief(loops[parent].name, MAX_NAME)}"
    if name in unrolled:
        sizes = (
            f"{size} iteration{'s' * (size > 1)} at {_addresses(program, loops[n])[0]:#06x}"
            for n, size in unrolled[name]
        )
        return f"{brief(name, MAX_NAME)} (unrolled: {', '.join(sizes)}{text})"
    first, last = _addresses(program, loops[number])
    text += f", counts in steps of {min(steps)}" if steps and min(steps) > 1 else ""
    return f"{brief(name, MAX_NAME)} (0x{first:04x} to 0x{last:04x}{text})"


def _per_entry(loops: Sequence[Loop], trip_counts: Sequence[float], loop: int | None) -> float:
    """Executions of a block for each entry of its function."""
    times = 1.0
    while loop is not None:
        times *= trip_counts[loop]
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
