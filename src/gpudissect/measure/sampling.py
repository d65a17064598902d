"""When sampling stops: the one rule behind ``--precision``."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from gpudissect.measure.infer_latency import Latency
from gpudissect.measure.plan import Ask, Bench, StopEarly

T = TypeVar("T")


def until_precise(
    bench: Bench,
    samples: Sequence[T],
    max_samples: int,
    sample: Callable[[range], Ask[list[T]]],
    summary: Callable[[Sequence[T]], Latency],
) -> Ask[list[T]]:
    """Add to `samples` until their `summary` is as precise as requested, or until there are `max_samples`.

    Without a requested precision none is added. Each round doubles their number; `sample(numbers)` measures the samples
    with these numbers, counted from the first of `samples`. If the survey is interrupted meanwhile, those of the rounds
    before count.
    """
    every = list(samples)
    with suppress(StopEarly):
        while len(every) < max_samples and not is_precise(summary(every), bench.precision):
            every += yield from sample(range(len(every), min(max_samples, 2 * len(every))))
    return every


def shortfall(bench: Bench, latency: Latency) -> tuple[str, ...]:
    """The caveat of a latency that is less precise than requested."""
    if is_precise(latency, bench.precision):
        return ()
    return (f"the bracket is wider than the requested {bench.precision:g} %",)


def is_precise(latency: Latency, precision: float | None) -> bool:
    """Whether the bracket is at most `precision` percent of the value wide; always without a requested precision."""
    return precision is None or 100 * (latency.high - latency.low) <= precision * latency.cycles
