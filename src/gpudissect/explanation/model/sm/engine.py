"""Simulation of the warps of a kernel on one SM: the interface to the compiled loop."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation.model.asynchronous import SYNCHRONOUS, Asynchronous
from gpudissect.explanation.model.operands import NO_READS, Reads
from gpudissect.explanation.model.sample import Sample, empty_sample

if TYPE_CHECKING:
    from gpudissect.explanation.model.sm._l1 import L1
    from gpudissect.explanation.model.sm._state import Loads, Phases

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MemoryLatency:
    """Unloaded latency of device memory in cycles: `least` for near lines, `farther` more for the share `far_homes`.

    A bank refreshes for `refresh` cycles in every `period` cycles. Accesses to the bank wait for the refresh to end.
    """

    least: float
    farther: float = 0.0
    far_homes: float = 0.0
    refresh: float = 0.0
    period: float = 1.0


@dataclass(frozen=True)
class Sm:
    """An SM with its share of the L2 and of device memory.

    Latencies in cycles, for lines in the near partition of the L2; `l2_farther` more for the far partition. Bandwidths
    in bytes per cycle and SM; `link_bytes`: maximum from the L2 and memory to the SM. Memory latency rises by
    ``rise * load / (1 - load)``. `credit`: cycles by which an idle SM can get ahead of its share. `depth`:
    instructions of a scheduler that wait for a shared pipe, at most; `backlog`: cycles of work in the queues of the L2
    and memory from which loads wait in the SM.
    """

    schedulers: int
    pipes: tuple[str, ...]  # of each scheduler
    shared_pipes: tuple[str, ...]  # of the SM
    l2_latency: float
    dram_latency: MemoryLatency
    l2_bytes: float
    dram_bytes: float
    link_bytes: float
    rise: float
    credit: float
    block_replacement: float
    depth: int
    backlog: float
    lines: int  # capacity of the L1, which lines in flight take too
    sets: int = 512  # of the L1's tags
    ways: int = 4
    l2_farther: float = 0.0
    mixed_rise: float = 0.0  # mean of a random rise of reads that queue behind writes
    l2_rise: float = 0.0  # as `rise`, of the latency of the L2 with its own load
    line_interval: float = 0.0  # cycles from one line of a request to the next


@dataclass(frozen=True)
class Step:
    """One instruction of a kernel: see the columns of the compiled loop."""

    stall: int
    waits: int
    sets: int | None
    reads: int | None
    pipe: str
    interval: float
    is_either: bool = False  # alternates between the first and the second pipe
    shared_pipe: str | None = None
    shared_interval: float = 0.0
    predicated_on: float = 1.0  # share of the executions whose predicate is true
    tag_interval: float = 0.0  # cycles of the tag banks of the L1, before the data banks
    latency: float = 1.0
    read_latency: float = 1.0
    kind: str = "plain"  # plain, load, store, barrier, matrix; of barriers in memory: prepare, arrive, wait, bulk
    in_sm: float = 1.0  # share of requests that hit the L1
    in_l2: float = 1.0  # share that hits the L1 or the L2
    l2_bytes: float = 0.0
    l2_more: float = 0.0  # additional bytes of the L2 if the request misses it
    l2_written: float = 0.0  # bytes on the path of stores to the L2
    dram_bytes: float = 0.0
    link_bytes: float = 0.0
    far: float = 0.0  # share of the L2 hits that are in the far partition
    access: int | None = None  # index in the sample: then shares of lines, and bytes of sectors, that miss the L1
    is_whole: bool = False  # the sample has all requests of the access: a warp on a longer path repeats the last one
    jump: int = 0  # additional cycles to the next instruction if it is not adjacent
    operands: Reads = NO_READS
    fetch: float = 1.0  # cycles in which its scheduler fetches it
    asynchronous: Asynchronous = SYNCHRONOUS
    operand_interval: float = 0.0  # cycles of shared memory that read the operands of a matrix instruction
    bypasses: bool = False  # its lines are not allocated in the L1
    operation: int | None = None  # index of an operation on a barrier in memory
    size: float = 1.0  # mean bytes of a bulk copy
    fits: bool = False  # issued between passes of loads and stores: only their first pass takes the issue path

    @cached_property
    def row(self) -> Floats:
        """The step as a row of the compiled loop's array of instructions, without the numbers of its pipes."""
        sets, reads, access, operation, *asynchronous = (
            -1 if each is None else each
            for each in (self.sets, self.reads, self.access, self.operation, *self.asynchronous)
        )
        numbers = [
            *(max(1, self.stall), self.waits, sets, reads, -1, self.interval, self.is_either),
            *(-1, self.shared_interval, self.latency, self.read_latency, KINDS.index(self.kind), self.in_sm),
            *(self.in_l2, self.l2_bytes, self.l2_more, self.l2_written, self.dram_bytes, self.link_bytes, self.far),
            *(access, self.is_whole, max(1, self.stall) + self.jump, *self.operands, self.bypasses, *asynchronous),
            *(self.operand_interval, operation, self.size, self.fits, self.tag_interval, self.predicated_on),
            self.fetch if self.fetch > 1 else 0.0,
        ]
        return np.array(numbers)


@dataclass(frozen=True)
class Work:
    """Blocks to run on an SM, `resident` of them at a time. Warps take the paths of `order` cyclically; empty: all.

    `scales`: factor of what each step takes of the pipes of the SM, the L2 and memory.
    """

    steps: tuple[Step, ...]
    paths: tuple[NDArray[np.int64], ...]
    warps_per_block: int
    resident: int
    blocks: int
    sample: Sample = field(default_factory=empty_sample, repr=False)
    order: tuple[int, ...] = ()
    scales: Floats | None = None


@dataclass(frozen=True)
class Run:
    """Result of a simulation: end of each block in cycles, busy cycles by pipe, cycles that warps waited by step.

    `busy`: pipes of the schedulers (sum over schedulers), pipes of the SM, ``l2`` and ``memory``. `waited`, shape
    (steps, 2): for scoreboard or block barriers, and for pipes or issue slots.
    """

    ends: NDArray[np.int64]
    busy: dict[str, float]
    waited: Floats = field(repr=False)
    l1_counts: Floats = field(repr=False)  # (steps, 4): see `Loads`
    released: int = 0  # warps that waited for an arrival at a barrier in memory which no path has

    def with_more(self, fewer: "Run", times: float) -> "Run":
        """Extrapolate: this run plus `times` its difference from `fewer`, a run with fewer iterations.

        The shares of the requests that miss the L1 remain those of this run.
        """
        waited = self.waited + times * np.maximum(self.waited - fewer.waited, 0.0)
        requests = self.l1_counts[:, :1]
        more = times * np.maximum(requests - fewer.l1_counts[:, :1], 0.0) / np.maximum(requests, 1.0)
        return replace(self, waited=waited, l1_counts=self.l1_counts * (1 + more))

    @property
    def cycles(self) -> int:
        """Cycles until the last block ended."""
        return int(self.ends.max())


KINDS = ("plain", "load", "store", "barrier", "matrix", "prepare", "arrive", "wait", "bulk")


def run(sm: Sm, work: Work) -> Run:
    """Simulate all blocks on an SM. Raises `ValueError` without a path, warps or blocks."""
    from gpudissect.explanation.model.sm import _state as state
    from gpudissect.explanation.model.sm._loop import simulate

    sizes = [path.size for path in work.paths] or [0]
    if min(*sizes, work.warps_per_block, work.resident, work.blocks) < 1:
        raise ValueError("a run needs a path, warps and blocks")
    resident = min(work.resident, work.blocks)
    warps = resident * work.warps_per_block
    job = np.zeros(state.J_SIZE, dtype=np.int64)
    job[state.J_PER_BLOCK], job[state.J_BLOCKS] = work.warps_per_block, work.blocks
    schedulers = np.zeros((sm.schedulers, state.S_SIZE), dtype=np.int64)
    schedulers[:, state.S_LAST] = np.arange(sm.schedulers) - sm.schedulers
    ends = np.zeros(work.blocks, dtype=np.int64)
    names = (*sm.pipes, *sm.shared_pipes, "l2", "memory")
    busy, waited = np.zeros(len(names)), np.zeros((len(work.steps), 2))
    loads, phases, l1 = _loads(work, warps), _phases(work, warps, resident), _l1(sm)
    banks, pipes = np.zeros((sm.schedulers, 3)), np.zeros((sm.schedulers, len(sm.pipes)))
    shared, cores = np.zeros(len(sm.shared_pipes) + 2), np.zeros((sm.schedulers, state.C_SIZE))
    last, counted = np.zeros((warps, state.QUEUES)), np.zeros((warps, state.COUNTERS, state.COUNTED))
    counts, strata = np.zeros((warps, state.COUNTERS), dtype=np.int64), np.zeros(2 * len(work.steps), dtype=np.int64)
    path, queues = np.concatenate(work.paths).astype(np.int64), np.zeros(4)
    places = (np.zeros((warps, state.W_SIZE), dtype=np.int64), np.zeros((resident, state.B_SIZE), dtype=np.int64))
    kernel = (_rows(sm, work), path, _spans(work), job, *places, schedulers)
    entered = np.zeros((sm.schedulers, len(sm.shared_pipes), sm.depth))
    units = (entered, np.zeros((sm.schedulers, len(sm.shared_pipes)), dtype=np.int64), cores, last, counted)
    simulate(
        state.State(
            _machine(sm),
            *kernel,
            banks,
            pipes,
            shared,
            *units,
            counts,
            queues,
            loads,
            phases,
            l1,
            ends,
            busy,
            waited,
            strata,
        )
    )
    return Run(ends, dict(zip(names, busy.tolist(), strict=True)), waited, loads.l1_counts, int(job[state.J_RELEASED]))


def released_note(run: Run) -> list[str]:
    """What to state of warps that nothing but the simulation itself let go on (none in 294 recorded launches)."""
    if not run.released:
        return []
    what = "barriers in memory at which no sampled warp arrives"
    return [f"waits of {run.released} simulated warps at {what} were cut short: the predicted time may be too short"]


def _spans(work: Work) -> NDArray[np.int64]:
    ends = np.cumsum([0, *(path.size for path in work.paths)], dtype=np.int64)
    spans = np.stack([ends[:-1], ends[1:]], axis=1)
    return np.ascontiguousarray(spans[list(work.order or range(len(spans)))])


def _machine(sm: Sm) -> Floats:
    memory = sm.dram_latency
    latencies = (sm.backlog, sm.block_replacement, sm.l2_latency, memory.least)
    rates = (sm.l2_bytes, sm.dram_bytes, sm.link_bytes, sm.rise, sm.credit)
    farther = (sm.l2_farther, memory.farther, memory.far_homes, memory.refresh, memory.period)
    return np.array([*latencies, *rates, *farther, sm.line_interval, sm.mixed_rise, sm.l2_rise])


def _loads(work: Work, warps: int) -> "Loads":
    from gpudissect.explanation.model.sm._state import Loads

    sample = work.sample
    arrays = (
        sample.begins,
        sample.ends,
        sample.lines,
        sample.number,
        sample.sectors,
        sample.arriving,
        sample.is_shared,
    )
    cursors = np.zeros((warps, sample.begins.shape[1]), dtype=np.int64)
    return Loads(*arrays, _strides(work), cursors, np.zeros((len(work.steps), 4)))


def _strides(work: Work) -> Floats:
    """Sampled requests per request on the path, for each sampled warp and access, at least 1."""
    requests = (work.sample.ends - work.sample.begins).astype(np.float64)
    order = np.resize(work.order or range(len(work.paths)), max(len(work.order), len(requests)))
    counts = np.array([np.bincount(path, minlength=len(work.steps)) for path in work.paths])
    requesting, executed = np.zeros((len(work.paths), requests.shape[1])), np.zeros_like(requests)
    for index, step in enumerate(work.steps):
        if step.access is not None:
            requesting[:, step.access] += counts[:, index] * step.predicated_on
    for slot in range(len(requests)):
        executed[slot] = requesting[order[slot :: len(requests)]].mean(axis=0)
    is_longer = (executed > 0) & work.sample.is_swept & (requests > executed)
    return np.divide(requests, executed, out=np.ones_like(requests), where=is_longer)


def _phases(work: Work, warps: int, resident: int) -> "Phases":
    from gpudissect.explanation.model.sm import _state as state

    events = work.sample.events
    cursors = np.zeros((warps, events.begins.shape[1]), dtype=np.int64)
    barriers = np.zeros((resident, max(1, events.barriers), state.P_SIZE))
    arrays = (events.begins, events.ends, events.barrier, events.arrivals, events.value)
    return state.Phases(*arrays, cursors, barriers)


def _l1(sm: Sm) -> "L1":
    from gpudissect.explanation.model.sm._l1 import L1, NONE

    line, sectors, tag, used = (np.zeros(max(1, sm.lines), dtype=np.int64) for _ in range(4))
    places, counts = np.full((sm.sets, sm.ways), NONE), np.zeros(2, dtype=np.int64)
    soonest = np.arange(2 * line.size) - line.size
    return L1(places, line, sectors, np.zeros(line.size), tag, used, soonest, counts)


def _rows(sm: Sm, work: Work) -> Floats:
    """The steps as rows of the compiled loop's array of instructions, shape (steps, columns)."""
    from gpudissect.explanation.model.sm._state import PIPE, SHARED, TRAFFIC

    found = np.concatenate([step.row for step in work.steps]).reshape(len(work.steps), -1)
    found[:, PIPE] = [sm.pipes.index(step.pipe) for step in work.steps]
    numbers = {None: -1} | {name: number for number, name in enumerate(sm.shared_pipes)}
    found[:, SHARED] = [numbers[step.shared_pipe] for step in work.steps]
    if work.scales is not None:
        found[:, TRAFFIC] *= work.scales[:, np.newaxis]
    return found
