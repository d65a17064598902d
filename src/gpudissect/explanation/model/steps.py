"""The instructions of a program as steps of the simulated SM."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpudissect.explanation.model.asynchronous import MATRIX_OPCODES, Asynchronous, asynchronous_of
from gpudissect.explanation.model.card import Card
from gpudissect.explanation.model.costs import SHARED_PIPES, Cost, fence_stall
from gpudissect.explanation.model.operands import Reads, reads_of
from gpudissect.explanation.model.phases import Events, kind_of, no_events
from gpudissect.explanation.model.requests import SECTOR, Requests, l2_load, written_load
from gpudissect.explanation.model.sm.engine import Step
from gpudissect.machine_code.program import Program
from gpudissect.machine_code.units import Use

BULK_LINK = 64 / 101  # of LINK_BYTES that bulk copies take: 16 KiB take 162 cycles more than 16 bytes (H200)
CONSTANT_INTERVAL, CONSTANT_LATENCY = 2.0, 11.0
"""Cycles of an SM per distinct address of a constant load, and cycles of latency that each address after the first
adds: an H100, 2 to 32 addresses."""
SPECIAL_INTERVAL = 0.8  # cycles of the pipe of loads that a special function takes, unless measured
TAKEN_BRANCH = 10.0  # cycles from a branch to the next, unless measured, of which its own stall count is the first five
BRANCH_STALL, FETCH = 5.0, 2.0  # others between branches add two at most (`branch.latency`)
RESOLVING = {"BRA": 1, "BSYNC": 9}  # cycles more, taken or not: stalls that Nsight Compute counts on an H200
FENCE_LATENCY = 150.0  # cycles of a fence between generic and asynchronous accesses of the whole GPU: H200
MAX_DUAL_INTERVAL = 1.01  # cycles: multiply-adds at this rate have two pipes, of which one serves integers too
_NO_REQUEST = Requests(lanes=0.0, passes=1.0, sectors=0.0, lines=0.0)  # of an instruction without a sample
_EMPTY = Step(stall=1, waits=0, sets=None, reads=None, pipe="issue", interval=1.0)


def steps_of(
    program: Program,
    costs: Sequence[Cost],
    requests: Mapping[int, Requests],
    card: Card,
    events: Events | None = None,
    bare: Sequence[Step] | None = None,
) -> tuple[Step, ...]:
    """The instructions of a program as steps of the simulated SM.

    `bare`: the steps without requests if they are known; only those with requests differ from them.
    """
    events = events or no_events()
    operands: Sequence[Reads] = [step.operands for step in bare or ()]
    asynchronous: Sequence[Asynchronous] = [step.asynchronous for step in bare or ()]
    if bare is None:
        operands, asynchronous = reads_of(program.instructions), asynchronous_of(program.instructions)
    steps = [_EMPTY] * len(costs) if bare is None else list(bare)
    l1 = card.value("l1", "hit_latency")
    special = card.values.get(("issue", "special_with_shuffle"), SPECIAL_INTERVAL)
    jump = round(card.values.get(("branch", "latency"), TAKEN_BRANCH) - BRANCH_STALL + FETCH)
    for index in range(len(costs)) if bare is None else sorted(requests):
        instruction, cost, use = program.instructions[index], costs[index], program.uses[index]
        found = requests.get(index, _NO_REQUEST)
        shared = cost.pipe if cost.pipe in SHARED_PIPES else "lsu" if cost.pipe == "xu" else None
        interval = special if cost.pipe == "xu" else found.passes * cost.interval
        latency = cost.latency or 1.0
        if use.space == "constant" and found.passes > 1:
            interval = CONSTANT_INTERVAL * found.passes
            latency += CONSTANT_LATENCY * (found.passes - 1)
        is_memory = use.space in ("global", "generic", "local", "texture") and use.access is not None
        is_fence = instruction.opcode == "MEMBAR" and asynchronous[index].queue is not None
        fence = 0 if is_fence else fence_stall(instruction, card)
        is_either = cost.pipe == "fma" and cost.interval <= MAX_DUAL_INTERVAL
        step = Step(
            stall=max(1, instruction.stall + RESOLVING.get(instruction.opcode, 0) + fence),
            waits=instruction.wait_mask,
            sets=instruction.write_barrier,
            reads=instruction.read_barrier,
            pipe="issue" if cost.pipe in SHARED_PIPES else cost.pipe,
            interval=1.0 if cost.pipe in SHARED_PIPES else cost.interval * (1 + is_either),
            is_either=is_either,
            shared_pipe=shared,
            shared_interval=interval if shared else 0.0,
            predicated_on=found.predicated_on,
            tag_interval=found.tags if shared == "lsu" else 0.0,
            latency=FENCE_LATENCY if is_fence else l1 if is_memory else latency,
            read_latency=8.0,
            kind="matrix" if instruction.opcode in MATRIX_OPCODES else _kind(cost, use, found),
            in_sm=found.in_sm,
            in_l2=found.in_l2,
            l2_bytes=l2_load(found, use.access or "", card),
            l2_written=written_load(found, use.access or "", card),
            dram_bytes=found.dram_bytes,
            link_bytes=found.l2_bytes,
            far=found.far,
            jump=jump,
            operands=operands[index],
            fetch=1.0 if bare is None else bare[index].fetch,
            asynchronous=asynchronous[index],
            operand_interval=cost.operands,
            bypasses="BYPASS" in instruction.modifiers,
            operation=events.operations.get(index),
            size=events.sizes.get(index) or 1.0,
            fits=cost.pipe == "xu",
        )
        if index in events.operations:
            step = replace(step, kind=kind_of(instruction) or step.kind, link_bytes=found.l2_bytes * BULK_LINK)
        if found.access is not None and use.access == "store":
            step = replace(step, access=found.access, is_whole=found.is_whole)
        steps[index] = step if found.access is None or step.kind == "store" else _sampled(step, found, card)
    return tuple(steps)


def _sampled(step: Step, requests: Requests, card: Card) -> Step:
    """A load whose sampled lines the simulated L1 looks up."""
    sectors = requests.l2_bytes / SECTOR
    hit, miss = (l2_load(replace(requests, crossing=each), "load", card) for each in (requests.far, card.far_homes))
    return replace(
        step,
        kind="load",
        in_sm=0.0,
        in_l2=1 - requests.from_memory / requests.new if requests.new else 1.0,
        l2_bytes=hit / sectors,
        l2_more=max(0.0, miss - hit) / sectors,
        dram_bytes=requests.sector_dram_bytes,
        link_bytes=float(SECTOR),
        access=requests.access,
        is_whole=requests.is_whole,
    )


def _kind(cost: Cost, use: Use, requests: Requests) -> str:
    """The kind of a step: see `Step`."""
    if cost.element == "barrier":
        return "barrier"
    if use.access == "store":
        return "store"
    return "load" if requests.in_sm < 1 else "plain"
