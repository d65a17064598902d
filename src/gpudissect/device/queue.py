"""Queues of batches: a survey submits the next workloads before it has the traces of the last."""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol

from gpudissect.trace import Trace
from gpudissect.workload import Workload
from gpudissect.workload.digest import digest

Batch = Sequence[Workload]
Run = Callable[[Batch], list[Trace]]
MERGED_WORKLOADS = 256  # that run as one, at most: the survey needs traces early to prepare the next batches
Answer = list[Trace] | Exception
"""The traces of a batch, or the exception it raised."""


def do_nothing() -> None:
    """Do nothing."""


class BatchQueue(Protocol):
    """Batches in flight."""

    def submit(self, batch: Batch, priority: int = 0) -> int:
        """Add a batch, and return its number. It may run together with others, after those of higher priority."""

    def collect(self, meanwhile: Callable[[], None] = do_nothing) -> tuple[int, Answer]:
        """Wait until a batch is answered; its number and its answer.

        `meanwhile` may submit further batches. A queue that divides batches into tasks calls it between them.
        """


def traces_of(answer: Answer) -> list[Trace]:
    """The traces. Raises the exception that the batch raised."""
    if isinstance(answer, Exception):
        raise answer
    return answer


def run_merged(run: Run, batches: Sequence[Batch]) -> list[Answer]:
    """Run batches as one. If that fails, run each alone, so that one failure does not affect the others."""
    if len(batches) == 1:
        return [answer_of(run, batches[0])]
    try:
        traces = iter(run([workload for batch in batches for workload in batch]))
    except Exception:
        return [answer_of(run, batch) for batch in batches]
    return [[next(traces) for _ in batch] for batch in batches]


def answer_of(run: Run, batch: Batch) -> Answer:
    """The traces of a batch, or the exception that it raises."""
    try:
        return run(batch)
    except Exception as error:
        return error


class Deferred(BatchQueue):
    """Answers batches in order of submission.

    `collect` runs those submitted until then, merged into one run of up to `max_workloads`. A KeyboardInterrupt
    discards the batches that run.
    """

    def __init__(self, run: Run, max_workloads: int = MERGED_WORKLOADS) -> None:
        self._run, self._max_workloads = run, max_workloads
        self._numbers = count()
        self._waiting: deque[tuple[int, Batch]] = deque()
        self._answers: deque[tuple[int, Answer]] = deque()

    def submit(self, batch: Batch, priority: int = 0) -> int:
        """Hold a batch until `collect` needs traces."""
        number = next(self._numbers)
        self._waiting.append((number, batch))
        return number

    def collect(self, meanwhile: Callable[[], None] = do_nothing) -> tuple[int, Answer]:
        """The answer of the first batch that was not collected."""
        if not self._answers:
            group = [self._waiting.popleft()]
            while self._waiting and sum(len(batch) for _, batch in (*group, self._waiting[0])) <= self._max_workloads:
                group.append(self._waiting.popleft())
            answers = run_merged(self._run, [batch for _, batch in group])
            self._answers.extend((number, answer) for (number, _), answer in zip(group, answers, strict=True))
        return self._answers.popleft()


class Sorted(BatchQueue):
    """Runs batches one at a time: the waiting batch with the lowest `key` first, whatever its priority.

    A key may change when a batch runs that shares a workload.
    """

    def __init__(self, run: Run, key: Callable[[Batch], tuple[int, ...]]) -> None:
        self._run, self._key = run, key
        self._numbers = count()
        self._waiting: dict[int, tuple[Batch, frozenset[str]]] = {}  # with the digests of its workloads
        self._keys: dict[int, tuple[int, ...]] = {}

    def submit(self, batch: Batch, priority: int = 0) -> int:
        """Hold a batch until `collect` chooses it."""
        number = next(self._numbers)
        self._waiting[number] = batch, frozenset(map(digest, batch))
        self._keys[number] = self._key(batch)
        return number

    def collect(self, meanwhile: Callable[[], None] = do_nothing) -> tuple[int, Answer]:
        """The next batch and its answer."""
        number = min(self._keys, key=self._keys.__getitem__)
        batch, digests = self._waiting.pop(number)
        del self._keys[number]
        answer = answer_of(self._run, batch)
        for other, (waiting, others) in self._waiting.items():
            if not digests.isdisjoint(others):
                self._keys[other] = self._key(waiting)
        return number, answer


class Stepwise(BatchQueue):
    """Runs the waiting batch of the highest priority, among these the smallest, `step` workloads at a time.

    So a batch that is submitted meanwhile may overtake one that runs. For devices whose traces depend only on their
    workload. A KeyboardInterrupt discards the batch that runs.
    """

    def __init__(self, run: Run, step: int) -> None:
        self._run, self._step = run, step
        self._numbers = count()
        self._waiting: dict[int, tuple[tuple[int, int], Batch, list[Trace]]] = {}  # order, batch, traces so far

    def submit(self, batch: Batch, priority: int = 0) -> int:
        """Hold a batch until `collect` chooses it."""
        number = next(self._numbers)
        self._waiting[number] = (-priority, len(batch)), batch, []
        return number

    def collect(self, meanwhile: Callable[[], None] = do_nothing) -> tuple[int, Answer]:
        """The first batch that ends, and its answer."""
        while True:
            number = min(self._waiting, key=lambda each: self._waiting[each][0])
            order, batch, traces = self._waiting.pop(number)
            answer = answer_of(self._run, batch[len(traces) : len(traces) + self._step])
            if isinstance(answer, Exception):
                return number, answer
            traces += answer
            if len(traces) == len(batch):
                return number, traces
            self._waiting[number] = order, batch, traces
            meanwhile()


class Observed(BatchQueue):
    """Another queue; `observe` is called with each batch and its answer when it is collected."""

    def __init__(self, queue: BatchQueue, observe: Callable[[Batch, Answer], None]) -> None:
        self._queue = queue
        self._observe = observe
        self._batches: dict[int, Batch] = {}

    def submit(self, batch: Batch, priority: int = 0) -> int:
        """Add a batch to the other queue."""
        number = self._queue.submit(batch, priority)
        self._batches[number] = batch
        return number

    def collect(self, meanwhile: Callable[[], None] = do_nothing) -> tuple[int, Answer]:
        """The next answer of the other queue, which is observed."""
        number, answer = self._queue.collect(meanwhile)
        try:
            self._observe(self._batches.pop(number), answer)
        except Exception as error:
            return number, error
        return number, answer


class InOrder(BatchQueue):
    """Another queue, which answers equal batches in the order of submission: so does a replay."""

    def __init__(self, queue: BatchQueue) -> None:
        self._queue = queue
        self._keys: dict[int, tuple[str, ...]] = {}  # digests of the batches in flight
        self._numbers = defaultdict[tuple[str, ...], deque[int]](deque)  # of those with equal digests

    def submit(self, batch: Batch, priority: int = 0) -> int:
        """Add a batch to the other queue."""
        number = self._queue.submit(batch, priority)
        self._keys[number] = key = tuple(map(digest, batch))
        self._numbers[key].append(number)
        return number

    def collect(self, meanwhile: Callable[[], None] = do_nothing) -> tuple[int, Answer]:
        """The next answer of the other queue, for the first of the batches equal to its own."""
        number, answer = self._queue.collect(meanwhile)
        return self._numbers[self._keys.pop(number)].popleft(), answer
