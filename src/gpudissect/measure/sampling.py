"""When sampling stops: the one rule behind ``--precision``."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from gpudissect.measure.infer_latency import Latency
from gpudissect.measure.plan import Ask, Bench

T = TypeVar("T")


def until_precise(
    bench: Bench,
    samples: Sequence[T],
    most: int,
    sample: Callable[[range], Ask[list[T]]],
    summary: Callable[[Sequence[T]], Latency],
) -> Ask[list[T]]:
    """The given `samples`, and more until their `summary` is as precise as requested or there are `most`.

    Without a requested precision no more are taken. Each round doubles their number; `sample(numbers)` takes those of
    the given numbers, which continue those of `samples`.
    """
    taken = list(samples)
    while len(taken) < most and not is_precise(summary(taken), bench.precision):
        taken += yield from sample(range(len(taken), min(most, 2 * len(taken))))
    return taken


def is_precise(latency: Latency, precision: float | None) -> bool:
    """Whether the bracket is at most `precision` percent of the value wide; always without a requested precision."""
    return precision is None or 100 * (latency.high - latency.low) <= precision * latency.cycles
