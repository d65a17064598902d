"""Queues of batches: a survey submits the next workloads before it has the traces of the last."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from gpudissect.trace import Trace
from gpudissect.workload import Workload

Batch = Sequence[Workload]
Run = Callable[[Batch], list[Trace]]
MERGED_WORKLOADS = 256  # that run as one, at most: the survey needs traces early to prepare the next batches
Answer = list[Trace] | Exception
"""The traces of a batch, or the exception it raised."""


class BatchQueue(Protocol):
    """Batches in flight, answered in the order of submission."""

    def submit(self, batch: Batch) -> None:
        """Add a batch; it may run together with others."""

    def collect(self) -> list[Trace]:
        """The traces of the first batch that has not been collected. Raises what the device raised for it."""


def run_merged(run: Run, batches: Sequence[Batch]) -> list[Answer]:
    """Run batches as one. If that fails, run each alone, so that one failure does not affect the others."""
    if len(batches) == 1:
        return [answer_of(run, batches[0])]
    try:
        traces = iter(run([workload for batch in batches for workload in batch]))
    except Exception:
        return [answer_of(run, batch) for batch in batches]
    return [[next(traces) for _ in batch] for batch in batches]


def answer_of(run: Callable[..., list[Trace]], *arguments: Batch) -> Answer:
    """What a call returns, or the exception that it raises."""
    try:
        return run(*arguments)
    except Exception as error:
        return error


class Deferred(BatchQueue):
    """Runs batches when the first of them is collected: those submitted until then as one, up to `max_workloads`.

    A KeyboardInterrupt discards the batches that run.
    """

    def __init__(self, run: Run, max_workloads: int = MERGED_WORKLOADS) -> None:
        self._run, self._max_workloads = run, max_workloads
        self._waiting: deque[Batch] = deque()
        self._answers: deque[Answer] = deque()

    def submit(self, batch: Batch) -> None:
        """Hold a batch until `collect` needs traces."""
        self._waiting.append(batch)

    def collect(self) -> list[Trace]:
        """The next traces. Raises what their batch raised."""
        if not self._answers:
            batches = [self._waiting.popleft()]
            while self._waiting and sum(map(len, (*batches, self._waiting[0]))) <= self._max_workloads:
                batches.append(self._waiting.popleft())
            self._answers.extend(run_merged(self._run, batches))
        answer = self._answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer


class Observed(BatchQueue):
    """Another queue; `observe` is called with each batch and its answer when it is collected."""

    def __init__(self, queue: BatchQueue, observe: Callable[[Batch, Answer], None]) -> None:
        self._queue = queue
        self._observe = observe
        self._batches: deque[Batch] = deque()

    def submit(self, batch: Batch) -> None:
        """Add a batch to the other queue."""
        self._queue.submit(batch)
        self._batches.append(batch)

    def collect(self) -> list[Trace]:
        """The next traces of the other queue, which are observed. Raises what it raises."""
        batch = self._batches.popleft()
        try:
            traces = self._queue.collect()
        except Exception as error:
            self._observe(batch, error)
            raise
        self._observe(batch, traces)
        return traces
