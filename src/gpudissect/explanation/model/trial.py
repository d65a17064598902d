"""A kernel at its own occupancy, and the time that the model predicts for changed versions of it."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpudissect.explanation.listing import place_of, source_of
from gpudissect.explanation.model.assess import Assessment
from gpudissect.explanation.model.predict import Prediction
from gpudissect.explanation.model.requests import Requests
from gpudissect.explanation.result import Line

GLOBAL = ("global", "generic", "texture")
MIN_STALL = 0.05  # of the time of a warp, from which a wait is named


class Trial:
    """The baseline and its predicted variants; `lines` has the instructions of the program in their order."""

    def __init__(self, assessment: Assessment, found: Prediction, lines: Sequence[Line]) -> None:
        self.assessment, self.found, self.lines, self.resident = assessment, found, lines, found.resident
        self.program, self.launch, self.card = assessment.program, assessment.launch, assessment.card
        self.executed, self.warps = assessment.path.executed, self.launch.blocks * self.launch.warps_per_block
        self.new_shares = assessment.traffic.new_to_block

    def predict(self, requests: Mapping[int, Requests]) -> Prediction:
        """The prediction with other requests."""
        return self.assessment.predict(self.resident, requests, largest_carveout=False)

    def time_with(self, resident: int) -> float:
        """Predicted nanoseconds with another number of resident blocks."""
        return self.assessment.predict(resident, largest_carveout=False).nanoseconds

    def gain_of(self, changed: Assessment) -> float:
        """Share of the time that a changed kernel saves at the same number of resident blocks."""
        return self.gain(changed.predict(self.resident, largest_carveout=False).nanoseconds)

    def gain_with_same_work(self, time: float) -> float:
        """The same for a change that saves no work: it takes at least as long as the busiest resource now."""
        return self.gain(max(time, *self.found.bounds.values()))

    def gain(self, time: float) -> float:
        """Share of the time that a changed kernel saves which takes so many nanoseconds."""
        return 1 - time / self.found.nanoseconds

    def gain_from(self, before: float, changed: Prediction) -> float:
        """Share of the time that a change saves, of which the time before differs from that of the kernel.

        The kernel with the change takes as long as the busiest resource at least.
        """
        return self.gain(max(self.found.nanoseconds * changed.nanoseconds / before, *changed.bounds.values()))

    def loaded_sectors(self) -> dict[int, float]:
        """Sectors that each load of global and local memory requests for a warp, by index of instruction."""
        uses = self.program.uses
        return {
            index: float(self.executed[index]) * each.sectors
            for index, each in self.found.requests.items()
            if uses[index].access == "load" and uses[index].space in (*GLOBAL, "local") and each.sectors
        }

    def hit_rates(self, requests: Mapping[int, Requests], places: Collection[int]) -> tuple[float, float] | None:
        """Shares of the sectors that loads at some places request: those that hit the L1, and the L1 or the L2.

        None if they request none.
        """
        weights = {index: each for index, each in self.loaded_sectors().items() if index in places}
        total = sum(weights.values())
        if not total:
            return None
        in_sm = sum(weight * requests[index].l1_hits for index, weight in weights.items())
        memory = sum(weight * requests[index].from_memory for index, weight in weights.items())
        return in_sm / total, max(in_sm, total - memory) / total

    def without(self, removed: Iterable[int]) -> Assessment:
        """The kernel without some instructions."""
        path, indices = self.assessment.path, np.array(list(removed))
        variants, shorter = (
            tuple(each[~np.isin(each, indices)] for each in paths) for paths in (path.variants, path.shorter)
        )
        executed = path.executed.copy()
        executed[indices] = 0.0
        return replace(self.assessment, path=replace(path, variants=variants, shorter=shorter, executed=executed))

    def places(self, indices: Mapping[int, object]) -> str:
        """The first of some instructions with its source line, and how many more there are."""
        first, *more = indices
        return place_of(self.lines[first]) + (f" and {len(more)} more" if more else "")

    def atomics_at(self, indices: Mapping[int, object]) -> str:
        """The atomics at the source lines of some instructions: the first line and how many more; or as `places`."""
        first, *more = dict.fromkeys(source_of(self.lines[index]) for index in indices)
        if not first:
            return self.places(indices)
        others = f" and {len(more)} more line{'s' * (len(more) > 1)}" if more else ""
        return f"the atomics at {first}{others}"

    def awaited(self) -> list[tuple[list[int], float, float]]:
        """Instructions that warps wait for, grouped by opcode, longest wait first.

        Each group: the instructions, their share of the time, the waits per warp.
        """
        program = self.program
        groups = defaultdict[str, dict[int, float]](lambda: defaultdict(float))
        waits = defaultdict[str, float](float)
        for consumer, found in program.dependences.waits_by_consumer.items():
            producers = {each.producer for each in found if each.for_result and self.executed[each.producer]}
            if not producers or not self.lines[consumer].stall:
                continue
            slowest = max(producers, key=lambda index: self.lines[index].latency or 0.0)
            name = program.instructions[slowest].opcode
            groups[name][slowest] += self.lines[consumer].stall
            waits[name] += float(self.executed[consumer])
        ranked = [
            (sorted(stalls, key=lambda index: -stalls[index]), sum(stalls.values()), waits[name])
            for name, stalls in groups.items()
        ]
        return sorted((each for each in ranked if each[1] >= MIN_STALL), key=lambda each: -each[1])
