"""Runs warps on one SM: the interface of the compiled loop."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpudissect.simulation.sm import _state as columns
from gpudissect.simulation.sm._state import State
from gpudissect.simulation.sm.description import Pipe, Processor, Scheduling

_PIPES = list(Pipe)
SAMPLE_BINS = 1 << 16  # cycles
MIN_ITERATIONS = 16  # simulated one by one, however long they are, because warps begin in step


@dataclass(frozen=True)
class Queue:
    """Service behind the SM: one access at a time, each for `service` cycles on average, see `MemorySystem`.

    Accesses with the same `name` share a queue. An access that is not `awaited` (a store) delays its chain only until
    it has been served.
    """

    name: str
    service: float
    variability: float = 0.5
    awaited: bool = True

    @property
    def is_random(self) -> bool:
        """Whether service times vary."""
        return self.variability > 0.5


@dataclass(frozen=True)
class Cost:
    """Cost of one instruction of a job, conflicts included: see `Operation` for the other names."""

    pipe: Pipe
    interval: float
    latency: float  # of a single access if there is a queue
    latency_to_core: float | None = None
    slots: int = 1
    core: bool = False  # executed by the cores, so that some results reach it sooner
    barrier: bool = False  # waits for all warps of its block
    queue: Queue | None = None  # where it waits for memory


@dataclass(frozen=True)
class Job:
    """The work of an SM. Each instruction depends on the one before, also from iteration to iteration."""

    body: tuple[Cost, ...]  # one iteration
    warps: int  # at once, a whole number of blocks
    warps_per_block: int
    iterations: int  # runs of the body per warp
    chains: int = 1  # per warp, interleaved instruction by instruction
    blocks: int | None = None  # in total; None for as many as run at once. As blocks end, others replace them
    sampled: int = 0  # one in so many queued accesses of warp 0 is timed; 0 for none


@dataclass(frozen=True)
class Run:
    """Begin and end of the warps of all blocks in cycles, shape (blocks * warps_per_block,).

    `samples`: number of timed accesses by cycles, the last bin for as many or more; shape (SAMPLE_BINS,).
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    samples: NDArray[np.int64]


def run(processor: Processor, job: Job, seed: int = 0) -> Run:
    """Run a job on one SM, cycle by cycle; `seed` is that of the service times.

    Warp w belongs to scheduler w modulo their number. Raises `ValueError` for warps that are not whole blocks.
    """
    from gpudissect.simulation.sm._engine import simulate

    start = _start(processor, job, seed)
    simulate(start)
    return _ended(start)


def _ended(state: State) -> Run:
    return Run(state.records[:, columns.R_BEGIN].copy(), state.records[:, columns.R_END].copy(), state.samples)


def _start(processor: Processor, job: Job, seed: int) -> State:
    """The state in which a job begins."""
    if job.warps % job.warps_per_block or job.warps < 1:
        raise ValueError(f"{job.warps} warps are no whole number of blocks of {job.warps_per_block}")
    resident = job.warps // job.warps_per_block
    blocks = max(resident, job.blocks or resident)
    kinds, body = _kinds(job.body)
    repeats = _repeats(body)
    body = body[: body.size // repeats]
    queues = list(dict.fromkeys(cost.queue.name for cost in kinds if cost.queue))
    rows = [_row(processor, cost, queues) for cost in kinds]
    positions = np.array([whole for whole, _ in rows], dtype=np.int64)[body]
    times = np.array([each for _, each in rows], dtype=np.float64)[body]
    to_core = np.array([cost.core for cost in kinds])[np.concatenate((body[1:], body[:1]))]
    cycles = np.column_stack([times[:, 0], np.where(to_core, times[:, 2], times[:, 1]), times[:, 3:]])

    machine = np.zeros(columns.M_SIZE, dtype=np.int64)
    machine[columns.M_SCHEDULERS] = processor.schedulers
    machine[columns.M_STEP] = processor.issue_interval
    machine[columns.M_WIDTH] = processor.issue_width
    machine[columns.M_REISSUE] = processor.reissue
    machine[columns.M_IN_FLIGHT] = processor.loads_in_flight or 0
    machine[columns.M_OLDEST] = processor.scheduling is Scheduling.OLDEST
    machine[columns.M_REPLACEMENT] = round(processor.launches.block_replacement)
    task = np.zeros(columns.J_SIZE, dtype=np.int64)
    task[columns.J_WARPS], task[columns.J_PER_BLOCK] = job.warps, job.warps_per_block
    task[columns.J_CHAINS], task[columns.J_ITERATIONS] = job.chains, job.iterations * repeats
    task[columns.J_BLOCKS], task[columns.J_STARTED] = blocks, resident
    task[columns.J_SAMPLED] = job.sampled

    warps = np.zeros((job.warps, columns.W_SIZE), dtype=np.int64)
    numbers = np.arange(job.warps)
    warps[:, columns.W_RECORD] = numbers
    warps[:, columns.W_SCHEDULER] = numbers % processor.schedulers
    warps[:, columns.W_RESIDENT] = numbers // job.warps_per_block
    ready = np.zeros((job.warps, job.chains), dtype=np.int64)
    residents = np.zeros((resident, columns.B_SIZE), dtype=np.int64)
    residents[:, columns.B_LEFT] = job.warps_per_block
    schedulers = np.zeros((processor.schedulers, columns.S_SIZE), dtype=np.int64)
    schedulers[:, columns.S_LAST] = np.arange(processor.schedulers) - processor.schedulers
    units = np.zeros(len(_PIPES) * (1 + processor.schedulers))
    served = np.zeros(max(1, len(queues)))
    records = np.zeros((blocks * job.warps_per_block, columns.R_SIZE), dtype=np.int64)
    draws = np.zeros(columns.D_SIZE, dtype=np.uint64)
    draws[columns.D_STATE] = seed
    samples = np.zeros(SAMPLE_BINS if job.sampled else 1, dtype=np.int64)
    is_periodic = blocks == resident and not job.sampled and not is_random(kinds)
    sizes = (job.warps, job.chains, resident, processor.schedulers, units.size, served.size)
    states = np.zeros((2, columns.state_size(*sizes) if is_periodic else 0))
    state = (warps, ready, residents, schedulers, units, served, records, draws, samples, states)
    return State(machine, task, positions, cycles, *state)


def _kinds(body: Sequence[Cost]) -> tuple[list[Cost], NDArray[np.int64]]:
    """The different costs of a body, and the number of that at each position."""
    ids = list(map(id, body))
    numbers: dict[Cost, int] = {}
    costs = dict(zip(ids, body, strict=True))
    number_of = {each: numbers.setdefault(cost, len(numbers)) for each, cost in costs.items()}
    return list(numbers), np.array(list(map(number_of.__getitem__, ids)), dtype=np.int64)


def is_random(body: Sequence[Cost]) -> bool:
    """Whether service times of any instruction vary."""
    different = dict(zip(map(id, body), body, strict=True)).values()
    return any(cost.queue is not None and cost.queue.is_random for cost in different)


def _repeats(body: NDArray[np.int64]) -> int:
    """How many times a body repeats its shortest part: iterations of that part are the same work."""
    sizes = (size for size in range(1, body.size // 2 + 1) if body.size % size == 0)
    return next((body.size // size for size in sizes if np.array_equal(body[size:], body[:-size])), 1)


def run_long(processor: Processor, job: Job, max_instructions: int, seed: int = 0) -> Run:
    """Run a job of one wave; of more than about `max_instructions` only the first are simulated one by one.

    The time of the rest follows from two runs, one twice as long as the other, by linear extrapolation over iterations:
    also for warps that run alone because others have ended.
    """
    random = is_random(job.body)
    if random:  # others repeat, and `run` skips whole periods
        repeats = _repeats(_kinds(job.body)[1])
        job = replace(job, body=job.body[: len(job.body) // repeats], iterations=job.iterations * repeats)
    half = max(MIN_ITERATIONS, max_instructions // (job.warps * job.chains * len(job.body)) // 2)
    if 2 * half >= job.iterations or job.blocks not in (None, job.warps // job.warps_per_block):
        return run(processor, job, seed)
    shorter, longer = (
        _run_twice(processor, job, half, seed)
        if random
        else [run(processor, replace(job, iterations=count), seed) for count in (half, 2 * half)]
    )
    pace = (longer.end - shorter.end) / half
    rest = np.rint(pace * (job.iterations - 2 * half)).astype(np.int64)
    return Run(longer.begin, longer.end + rest, longer.samples)


def _run_twice(processor: Processor, job: Job, half: int, seed: int) -> tuple[Run, Run]:
    """Run a job for `half` and for twice as many iterations, and what both have in common once."""
    from gpudissect.simulation.sm._engine import simulate

    longer = _start(processor, replace(job, iterations=2 * half), seed)
    certain = half - processor.issue_width  # a warp issues so many instructions at once, and each may end an iteration
    longer.job[columns.J_PAUSE] = max(certain, 0) or -1
    simulate(longer)
    shorter = State._make(array.copy() for array in longer)
    shorter.job[columns.J_ITERATIONS] = half
    simulate(shorter)
    simulate(longer)
    return _ended(shorter), _ended(longer)


def _row(processor: Processor, cost: Cost, queues: Sequence[str]) -> tuple[list[int], list[float]]:
    """A cost in the order of the columns: whole numbers; interval, latency, latency to a core, service, variability."""
    pipe, is_shared = _PIPES.index(cost.pipe), cost.pipe in processor.single
    place = [pipe, 0] if is_shared else [len(_PIPES) + pipe, len(_PIPES)]
    slots = -cost.slots if is_shared else cost.slots
    times = [cost.interval, cost.latency, cost.latency if cost.latency_to_core is None else cost.latency_to_core]
    queue = cost.queue
    if queue is None:
        return [*place, slots, cost.barrier, False, -1], [*times, 0.0, 0.0]
    whole = [*place, slots, cost.barrier, queue.awaited, queues.index(queue.name)]
    return whole, [*times, queue.service, queue.variability]
