"""One card of a simulated model: slower memory or fewer SMs than its siblings, to plant faults in a fleet."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpudissect.errors import UsageError
from gpudissect.simulation.cache.geometry import Hierarchy
from gpudissect.simulation.sm.description import Bandwidth, Processor

MIN_FACTOR, MAX_FACTOR = 0.01, 100.0


@dataclass(frozen=True)
class Card:
    """How a card differs from the GPU file.

    Attributes:
        dram: factor of the bandwidth of memory.
        sms: number of SMs; None for all.

    """

    dram: float = 1.0
    sms: int | None = None

    def of(self, hierarchy: Hierarchy, processor: Processor | None) -> tuple[Hierarchy, Processor | None]:
        """The card of a model. Raises `UsageError` for what the model cannot be."""
        if self == Card():
            return hierarchy, processor
        if processor is None:
            raise UsageError("the GPU file describes no SMs and no bandwidths: a card has no options dram and sms")
        sms = processor.sms if self.sms is None else self.sms
        if not 1 <= sms <= processor.sms:
            raise UsageError(f"the option sms takes a number of SMs in [1, {processor.sms}], got {sms}")
        if not MIN_FACTOR <= self.dram <= MAX_FACTOR:
            raise UsageError(f"the option dram takes a factor in [{MIN_FACTOR}, {MAX_FACTOR:g}], got {self.dram:g}")
        before, memory = processor.dram, processor.memory
        dram = Bandwidth(*(self.dram * rate for rate in (before.read, before.write, before.copy)))
        memory = replace(memory, random_bandwidth=self.dram * memory.random_bandwidth)
        return replace(hierarchy, sm_count=sms), replace(processor, sms=sms, dram=dram, memory=memory)
