"""Under what conditions a survey ran, gathered from the contexts of its traces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from gpudissect.trace import Context


@dataclass(frozen=True)
class Conditions:
    """What was seen while it ran.

    Attributes:
        clock_hz: median SM clock rate over the workloads that tell it, None if none does.
        clock_low, clock_high: the slowest and the fastest of them.
        notes: every different text seen under each name: throttle reasons, other users of the GPU, driver.

    """

    clock_hz: float | None = None
    clock_low: float | None = None
    clock_high: float | None = None
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)


MOST = 4  # different texts under one name that are worth listing


def _shortened(texts: list[str]) -> tuple[str, ...]:
    return tuple(texts) if len(texts) <= MOST else (*texts[:MOST], f"and {len(texts) - MOST} more")


def gather(contexts: Iterable[Context]) -> Conditions:
    """Sum up the contexts of many traces."""
    clocks: list[float] = []
    notes: dict[str, dict[str, None]] = {}
    for context in contexts:
        if context.clock_hz is not None:
            clocks.append(context.clock_hz)
        for name, text in context.notes.items():
            notes.setdefault(name, {})[text] = None
    seen = {name: _shortened(list(texts)) for name, texts in notes.items()}
    if not clocks:
        return Conditions(notes=seen)
    return Conditions(median(clocks), min(clocks), max(clocks), seen)
