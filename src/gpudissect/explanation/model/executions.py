"""What the sampled warps executed, from their traces: blocks of machine code, operations on barriers in memory."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gpudissect.errors import UsageError
from gpudissect.explanation.evidence import PtxBlock
from gpudissect.explanation.instrument import BlockCount
from gpudissect.explanation.mapping import MachineCounts
from gpudissect.explanation.model.phases import Events, events_of, kind_of, no_events
from gpudissect.explanation.model.traffic import Accessed, SampledWarp
from gpudissect.explanation.packing import Trace
from gpudissect.machine_code.program import Program

TYPICAL = 1.25  # ratio of executions by sampled and by all warps up to which the sampled ones have their own number
TYPICAL_OF_BRANCH = 2.0  # the same for blocks that warps execute equally often or not at all


def barrier_events(program: Program, accesses: Sequence[Accessed], traces: Sequence[Trace]) -> Events:
    """Operations on barriers by the sampled warps, if the kernel has bulk copies. Raises `UsageError` without them."""
    copies = {place for place, each in enumerate(program.instructions) if kind_of(each) == "bulk"}
    if not copies:
        return no_events()
    kinds = {("shared", "atomic", 8): "barrier", ("shared", "load", 1): "value"}
    kind_of_access = [(each.instruction, kinds.get((each.space, each.kind, each.size), "")) for each in accesses]
    found = events_of(program.instructions, kind_of_access, traces)
    if copies - set(found.operations) or not found.barriers:
        raise UsageError("UBLKCP: bulk copies without recorded barriers are not supported: record the profile again")
    return found


def relative_executions(
    sampled: Sequence[SampledWarp],
    executed: Mapping[PtxBlock, BlockCount],
    warps: int,
    counts: MachineCounts,
    program: Program,
    events: Events,
) -> NDArray[np.float64] | None:
    """How often sampled warps execute each block of machine code relative to all warps, shape (sampled warps, blocks).

    As its PTX block, of which `executed` has the executions of all `warps` launched ones; None without sampled warps.
    What every warp executes once may hold code of a PTX block that some of them skip: none of them skips it. If warps
    visit different numbers of blocks, one whose trace is cut executes what warps repeat in proportion to its number,
    except what it has not entered but other cut traces have: the start of a trace has other proportions than the whole.
    """
    if not sampled:
        return None
    traces = [warp.trace for warp in sampled]
    numbers = {block: number for number, block in enumerate(executed)}
    visits = np.array([np.bincount(each.visited, minlength=len(numbers)) for each in traces], dtype=np.float64)
    launched = np.array([count.warps / warps for count in executed.values()])
    found = visits.mean(axis=0)
    is_alike = (visits == 0) | (visits == visits.max(axis=0))
    typical = np.where(is_alike.all(axis=0), TYPICAL_OF_BRANCH, TYPICAL)
    is_typical = (found > launched / typical) & (found < launched * typical)
    mean = np.where(is_typical, launched, found)
    relative = np.where(mean > 0, visits / np.where(mean > 0, mean, 1.0), 1.0)
    columns = [
        np.ones(len(sampled)) if each not in numbers or round(count.value) == warps else relative[:, numbers[each]]
        for each, count in zip(counts.origin, counts.warps, strict=True)
    ]
    is_wait = np.zeros(len(columns), dtype=bool)
    for number, block in enumerate(program.flow.blocks):  # a warp waits once, however often it polls
        for place in range(block.start, block.end):
            if kind_of(program.instructions[place]) == "wait" and place in events.operations:
                waits = (events.ends - events.begins)[:, events.operations[place]]
                for each, origin in enumerate(counts.origin):
                    if origin == counts.origin[number]:
                        is_wait[each] = True
                        columns[each] = waits * warps / max(1.0, counts.warps[each].value)
    relative = np.stack(columns, axis=1)
    more = np.array([warp.more_visits for warp in sampled], dtype=np.float64)
    total = more + [trace.visited.size for trace in traces]
    if np.unique(total).size > 1:
        is_cut = more > 0
        is_skipped = (visits == 0) & (visits[is_cut] > 0).any(axis=0)
        scale = total / np.maximum(1.0, np.where(is_skipped, 0.0, launched).sum(axis=1))
        is_repeated = np.array([count.value > warps for count in counts.warps]) & ~is_wait
        is_entered = (relative > 0) | ~(relative[is_cut] > 0).any(axis=0)
        relative = np.where(is_cut[:, None] & is_repeated & is_entered, scale[:, None], relative)
    return relative
