"""Under what conditions a survey ran, gathered from the contexts of its traces."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from gpudissect.trace import Context

MAX_TEXTS_PER_NOTE = 4
OUTLIER_SHARE = 0.005
"""Short runs misread the clock."""


@dataclass(frozen=True)
class Conditions:
    """Clock rates and notes of a survey.

    Attributes:
        clock_hz: median SM clock rate over the workloads that report it; None if none does.
        clock_low, clock_high: range of the rates in Hz, without the lowest and the highest `OUTLIER_SHARE` of them.
        notes: every different text under each name: throttle reasons, other users of the GPU, driver.

    """

    clock_hz: float | None = None
    clock_low: float | None = None
    clock_high: float | None = None
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)


def gather(contexts: Iterable[Context]) -> Conditions:
    """Summarize the contexts of many traces."""
    clocks: list[float] = []
    texts_of: dict[str, dict[str, None]] = {}
    for context in contexts:
        if context.clock_hz is not None:
            clocks.append(context.clock_hz)
        for name, text in context.notes.items():
            texts_of.setdefault(name, {})[text] = None
    notes = {name: _shorten(list(texts)) for name, texts in texts_of.items()}
    if not clocks:
        return Conditions(notes=notes)
    clocks.sort()
    outliers = int(OUTLIER_SHARE * len(clocks))
    return Conditions(median(clocks), clocks[outliers], clocks[-1 - outliers], notes)


def _shorten(texts: list[str]) -> tuple[str, ...]:
    more = len(texts) - MAX_TEXTS_PER_NOTE
    return (*texts[:MAX_TEXTS_PER_NOTE], f"and {more} more") if more > 0 else tuple(texts)
