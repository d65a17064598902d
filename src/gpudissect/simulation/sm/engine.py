"""Runs warps on one SM: the interface of the compiled loop."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

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
    from gpudissect.simulation.sm import _engine as engine

    if job.warps % job.warps_per_block or job.warps < 1:
        raise ValueError(f"{job.warps} warps are no whole number of blocks of {job.warps_per_block}")
    resident = job.warps // job.warps_per_block
    blocks = max(resident, job.blocks or resident)
    kinds = list(dict.fromkeys(job.body))
    queues = list(dict.fromkeys(cost.queue.name for cost in kinds if cost.queue))
    operations = np.array([_row(processor, cost, queues) for cost in kinds], dtype=np.float64)
    body = np.array([kinds.index(cost) for cost in job.body], dtype=np.int64)
    repeats = _repeats(body)
    body = body[: body.size // repeats].copy()

    machine = np.zeros(engine.M_SIZE, dtype=np.int64)
    machine[engine.M_SCHEDULERS] = processor.schedulers
    machine[engine.M_STEP] = processor.issue_interval
    machine[engine.M_WIDTH] = processor.issue_width
    machine[engine.M_REISSUE] = processor.reissue
    machine[engine.M_IN_FLIGHT] = processor.loads_in_flight or 0
    machine[engine.M_OLDEST] = processor.scheduling is Scheduling.OLDEST
    machine[engine.M_PIPES] = len(_PIPES)
    machine[engine.M_REPLACEMENT] = round(processor.launches.block_replacement)
    task = np.zeros(engine.J_SIZE, dtype=np.int64)
    task[engine.J_WARPS], task[engine.J_PER_BLOCK] = job.warps, job.warps_per_block
    task[engine.J_CHAINS], task[engine.J_ITERATIONS] = job.chains, job.iterations * repeats
    task[engine.J_BLOCKS], task[engine.J_STARTED] = blocks, resident
    task[engine.J_SAMPLED] = job.sampled

    warps = np.zeros((job.warps, engine.W_SIZE), dtype=np.int64)
    warps[:, engine.W_RECORD] = np.arange(job.warps)
    ready = np.zeros((job.warps, job.chains), dtype=np.int64)
    residents = np.zeros((resident, engine.B_SIZE), dtype=np.int64)
    residents[:, engine.B_LEFT] = job.warps_per_block
    schedulers = np.zeros((processor.schedulers, engine.S_SIZE), dtype=np.int64)
    schedulers[:, engine.S_LAST] = np.arange(processor.schedulers) - processor.schedulers
    units = np.zeros(len(_PIPES) * (1 + processor.schedulers))
    served = np.zeros(max(1, len(queues)))
    records = np.zeros((blocks * job.warps_per_block, engine.R_SIZE), dtype=np.int64)
    draws = np.zeros(engine.D_SIZE, dtype=np.uint64)
    draws[engine.D_STATE] = seed
    samples = np.zeros(SAMPLE_BINS if job.sampled else 1, dtype=np.int64)
    is_periodic = (
        blocks == resident and not job.sampled and not any(cost.queue and cost.queue.is_random for cost in kinds)
    )
    sizes = (job.warps, job.chains, resident, processor.schedulers, units.size, served.size)
    states = np.zeros((2, engine.state_size(*sizes) if is_periodic else 0))
    state = (warps, ready, residents, schedulers, units, served)
    engine.simulate(engine.State(machine, task, operations, body, *state, records, draws, samples, states))
    return Run(records[:, engine.R_BEGIN].copy(), records[:, engine.R_END].copy(), samples)


def _repeats(body: NDArray[np.int64]) -> int:
    """How many times a body repeats its shortest part: iterations of that part are the same work."""
    sizes = (size for size in range(1, body.size // 2 + 1) if body.size % size == 0)
    return next((body.size // size for size in sizes if np.array_equal(body[size:], body[:-size])), 1)


def run_long(processor: Processor, job: Job, max_instructions: int, seed: int = 0) -> Run:
    """Run a job of one wave; of more than about `max_instructions` only the first are simulated one by one.

    The time of the rest follows from two runs, one twice as long as the other, by linear extrapolation over iterations:
    also for warps that run alone because others have ended.
    """
    if any(cost.queue and cost.queue.is_random for cost in job.body):  # others repeat, and `run` skips whole periods
        repeats = _repeats(np.array([job.body.index(cost) for cost in job.body]))
        job = replace(job, body=job.body[: len(job.body) // repeats], iterations=job.iterations * repeats)
    half = max(MIN_ITERATIONS, max_instructions // (job.warps * job.chains * len(job.body)) // 2)
    if 2 * half >= job.iterations or job.blocks not in (None, job.warps // job.warps_per_block):
        return run(processor, job, seed)
    shorter, longer = (run(processor, replace(job, iterations=count), seed) for count in (half, 2 * half))
    pace = (longer.end - shorter.end) / half
    rest = np.rint(pace * (job.iterations - 2 * half)).astype(np.int64)
    return Run(longer.begin, longer.end + rest, longer.samples)


def _row(processor: Processor, cost: Cost, queues: Sequence[str]) -> list[float]:
    """A cost in the order of the engine's columns."""
    pipe = _PIPES.index(cost.pipe)
    unit = pipe if cost.pipe in processor.single else -1 - pipe
    latency_to_core = cost.latency if cost.latency_to_core is None else cost.latency_to_core
    row = [unit, cost.interval, cost.latency, latency_to_core, cost.core, cost.slots, cost.barrier]
    queue = cost.queue
    if queue is None:
        return [*row, -1, 0.0, 0.0, True]
    return [*row, queues.index(queue.name), queue.service, queue.variability, queue.awaited]
