"""A kernel on a measured GPU: everything that a prediction at any occupancy needs."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation.instrument import LINES_FILE
from gpudissect.explanation.line_records import BehindL1
from gpudissect.explanation.mapping import MachineCounts, map_counts
from gpudissect.explanation.model.assembled import as_assembled, by_instruction, combined_accesses
from gpudissect.explanation.model.card import Card
from gpudissect.explanation.model.costs import Cost, cost_of
from gpudissect.explanation.model.dispatch import Launch, working_share
from gpudissect.explanation.model.executions import barrier_events, relative_executions
from gpudissect.explanation.model.facts import WHOLE, Facts
from gpudissect.explanation.model.fetch import fetch_intervals
from gpudissect.explanation.model.occupancy import Occupancy, l1_bytes, occupancy_of, shared_of_block
from gpudissect.explanation.model.phases import Events, no_events
from gpudissect.explanation.model.predict import Prediction, latency_of_warp, predict
from gpudissect.explanation.model.requests import LINE, SECTOR, Requests, of_floats
from gpudissect.explanation.model.retries import mean_passes, retried_accesses, with_retries
from gpudissect.explanation.model.rounds import rounds_of
from gpudissect.explanation.model.sample import Sample
from gpudissect.explanation.model.sm.engine import Step
from gpudissect.explanation.model.steps import steps_of
from gpudissect.explanation.model.traffic import Traffic, after_l1, with_l2
from gpudissect.explanation.model.walk import Path, walk
from gpudissect.explanation.packing import DamagedProfileError
from gpudissect.explanation.ptx import Module
from gpudissect.machine_code.program import Program

MIN_MEMORY = 0.1  # share from memory below which loads without sampled addresses are taken to hit the L1
FLOATS = frozenset(("F32", "F64", "F16x2", "BF16x2"))  # types of atomics
MIN_WRITTEN = 0.25  # share of the sampled lines from which on blocks compete for room in the L2
MIN_OF_WORKING = 0.9  # instructions of a sampled warp relative to those of one whose block does not exit at once
DIVERGED = 1.1  # times as many lanes


@dataclass(frozen=True)
class Assessment:
    """A kernel, what it did, and what that costs on a GPU."""

    program: Program
    facts: Facts
    card: Card
    counts: MachineCounts = field(repr=False)
    path: Path = field(repr=False)
    costs: tuple[Cost, ...] = field(repr=False)
    traffic: Traffic = field(repr=False)
    accessed: Mapping[int, int] = field(repr=False)
    events: Events = field(default_factory=no_events, repr=False)
    attempts: Mapping[int, float] = field(default_factory=dict, repr=False)  # see `retries`, by instruction
    predicated_on: Mapping[int, float] = field(default_factory=dict, repr=False)  # as of `Requests`, where below 1

    @property
    def occupancy(self) -> Occupancy:
        """Blocks that an SM holds."""
        return occupancy_of(self.program.kernel, self.facts.threads, self.facts.dynamic_shared, self.card)

    @cached_property
    def launch(self) -> Launch:
        """Blocks, warps of a block, and the blocks that do not exit at once if those of the sample do not."""
        facts = self.facts
        executed = [count.value / facts.launched_warps for count in self.counts.warps]
        share = working_share(self.program, executed, facts.warps)
        is_sampled = share * self.path.relative >= MIN_OF_WORKING
        return Launch(
            facts.blocks,
            facts.warps_per_block,
            max(1, round(share * facts.blocks)) if share < 1 and is_sampled else None,
        )

    def l1_bytes(self, resident: int, *, largest_carveout: bool) -> int:
        """Bytes of the L1 left by `resident` blocks."""
        shared = shared_of_block(self.program.kernel, self.facts.dynamic_shared, self.card)
        return l1_bytes(self.card, resident, shared, largest_carveout=largest_carveout)

    @cached_property
    def requests(self) -> dict[int, Requests]:
        """What the memory instructions need if nothing hits the L1, by index of instruction."""
        found, executed = {}, defaultdict[int, float](float)
        for place, index in self.accessed.items():
            executed[index] += float(self.path.executed[place])
        for place, index in self.accessed.items():
            predicated_on = self.predicated_on.get(place, 1.0)
            each = with_l2(self.traffic.outside[index], self.behind_l1.get(index), self.card)
            if index in self._new:
                is_whole = self.sample.mean_requests(index) >= WHOLE * executed[index] * predicated_on
                each = replace(each, access=index, new=self._new[index], is_whole=is_whole)
            elif index in self.traffic.assumed and each.from_memory < MIN_MEMORY and self._is_load(index):
                each = replace(each, in_sm=1.0, in_l2=1.0)
            each = mean_passes(each, self.attempts[place]) if place in self.attempts else each
            each = of_floats(each) if FLOATS & set(self.program.instructions[place].modifiers) else each
            each = replace(each, predicated_on=predicated_on)
            found[place] = self._bulk_copy_requests(place, each) if place in self.events.sizes else each
        return found

    def _bulk_copy_requests(self, place: int, each: Requests) -> Requests:
        """The requests of a bulk copy whose first sector alone was traced."""
        size = self.events.sizes[place]
        bulk = replace(
            each, access=None, in_sm=0.0, in_l2=1 - each.from_memory, sectors=size / SECTOR, lines=size / LINE
        )
        return replace(bulk, l2_bytes=size, dram_bytes=size, crowded=1.0)

    def _is_load(self, index: int) -> bool:
        return self.facts.accesses[index].kind == "load"

    @cached_property
    def behind_l1(self) -> dict[int, BehindL1]:
        """What becomes of requests at the L2, by index of access. Of sampled loads only new sectors come from memory.

        The sample of lines is recorded by a slower kernel, in which warps alternate more: what a warp requests again at
        once may seem to have left a cache.
        """
        sectors = defaultdict[int, float](float)
        for place, index in self.accessed.items():
            requests = float(self.path.executed[place]) * self.predicated_on.get(place, 1.0) * self.facts.launched_warps
            sectors[index] += requests * self.traffic.outside[index].sectors
        found = {index: each.of_all(sectors[index]) for index, each in self.facts.behind_l1.items()}
        new = {index: share for index, share in self._new.items() if self._is_load(index)}
        return {index: each.at_most(new.get(index, 1.0)) for index, each in found.items()}

    @cached_property
    def _new(self) -> dict[int, float]:
        return {index: self.sample.new_share(index) for index in self.sample.accesses}

    @cached_property
    def sample(self) -> Sample:
        """The loads of warps that share an SM."""
        found = self.traffic.sample.restrict_to_unshared_lines(
            {index: each.memory for index, each in self.facts.behind_l1.items()}
        )
        return replace(found, events=self.events)

    def predict(
        self,
        resident: int,
        requests: Mapping[int, Requests] | None = None,
        *,
        largest_carveout: bool,
        l1_bytes: int | None = None,
    ) -> Prediction:
        """Predicted time with `resident` blocks on an SM.

        Other `requests` than its own show what they would change, other `l1_bytes` the effect of the L1.
        """
        found = self.l1_bytes(resident, largest_carveout=largest_carveout) if l1_bytes is None else l1_bytes
        lines = found // LINE
        replaced = self._replaced(resident)
        behind = self._served_after_replacement(replaced)
        sample = self.sample
        if replaced.any():
            sample = replace(sample, new=np.where(replaced, sample.sectors, sample.new))
        requests = dict(self.requests if requests is None else requests)
        for place, index in self.accessed.items():
            if index in behind and requests[place].in_sm < 1:
                each = requests[place]
                again = replace(
                    each, new=sample.new_share(index), scattered=float(each.covered < 1 or each.scattered > 0)
                )
                requests[place] = with_l2(again, behind[index], self.card)
        behind = self.behind_l1 | behind

        def after(place: int, each: Requests, seen: NDArray[np.float64]) -> Requests:
            return after_l1(each, seen, behind.get(self.accessed[place]), self.card)

        kernel = (self.program, self.path, self.costs, requests, after, sample)
        return predict(*kernel, self.card, self.launch, resident, lines, self._bare_steps)

    @cached_property
    def _bare_steps(self) -> tuple[Step, ...]:
        steps = steps_of(self.program, self.costs, {}, self.card, self.events)
        intervals = fetch_intervals(self.program, self.counts, self.facts.launched_warps, self.card)
        return tuple(replace(step, fetch=fetch) for step, fetch in zip(steps, intervals.tolist(), strict=True))

    def _replaced(self, resident: int) -> NDArray[np.bool_]:
        """Lines of the sample's requests that the L2 has replaced while so many blocks share each SM."""
        capacity = self.card.values.get(("l2", "capacity"))
        if capacity is None or not self._is_written:
            return np.zeros(self.sample.number.size, dtype=bool)
        return self.sample.replaced(capacity / (LINE * min(self.card.sms * resident, self.launch.blocks)))

    @cached_property
    def _is_written(self) -> bool:
        """Whether blocks write a part of the lines that they touch, and so compete for room in the L2.

        Lines that are only read stay longer: a kernel that reads 70 MB sequentially hits for 67 % of the bytes (H100).
        """
        written = np.isin(self.sample.number, self.sample.number[np.isin(self.sample.access, self._stores)])
        return bool(written.size) and float(written.mean()) >= MIN_WRITTEN

    @cached_property
    def _stores(self) -> list[int]:
        return [index for index, access in enumerate(self.facts.accesses) if access.kind == "store"]

    def behind_full_l2(self, resident: int) -> dict[int, BehindL1]:
        """`behind_l1` while `resident` blocks share each SM: lines that the L2 has replaced come from memory."""
        return self.behind_l1 | self._served_after_replacement(self._replaced(resident))

    def _served_after_replacement(self, replaced: NDArray[np.bool_]) -> dict[int, BehindL1]:
        """What becomes of the requests of accesses to lines that the L2 has replaced, by index of access."""
        if not replaced.any():
            return {}
        found, moved = {}, replaced | self.sample.written_back(replaced, self._stores)
        for index in self.sample.accesses:
            each = self.behind_l1.get(index, BehindL1(0.0, 0.0))
            is_local = self.facts.accesses[index].space == "local"
            more = self.sample.share_of(index, moved) * (1.0 if is_local else each.lone) * (1 - each.memory)
            if more:
                found[index] = each._replace(memory=each.memory + more, memory_bytes=each.memory_bytes + more * SECTOR)
        return found

    def latency(self, requests: Mapping[int, Requests]) -> float:
        """Nanoseconds of a warp that has the GPU to itself."""
        return latency_of_warp(self.program, self.path, self.costs, requests, self.card)


def assess(program: Program, module: Module, facts: Facts, card: Card) -> Assessment:
    """What a prediction needs of a program whose lines are the numbers of the PTX instructions of `module`.

    Raises `DamagedProfileError` if none of its instructions has such a line.
    """
    if not any(each.file == LINES_FILE for each in program.instructions):
        raise DamagedProfileError("packed_cubin", "has no lines with the numbers of PTX instructions")
    counts = map_counts(program, module.functions, facts.counts, facts.blocks * facts.threads)
    accesses = as_assembled(program, facts.accesses)
    retried = retried_accesses(program, [access.instruction for access in accesses])
    combined = combined_accesses(program, accesses)
    traffic = Traffic(accesses, facts.warps, _diverged(facts, module), retried, combined)
    accessed = by_instruction(program, accesses, traffic.outside)
    found = assess_counts(program, counts, facts, traffic, accessed, card)
    return replace(found, predicated_on=_predicated_on(program, counts, facts, module, accessed, found.attempts))


def _predicated_on(
    program: Program,
    counts: MachineCounts,
    facts: Facts,
    module: Module,
    accessed: Mapping[int, int],
    attempts: Collection[int],
) -> dict[int, float]:
    """`Requests.predicated_on` of instructions whose predicate can be false.

    If all instructions of an access have predicates, they make as many requests as its PTX block has executions: the
    assembler turns short branches around accesses into predicates.
    """
    executed = {
        place: count.value
        for block, count in zip(program.flow.blocks, counts.warps, strict=True)
        for place in range(block.start, block.end)
        if place in accessed
    }
    places = defaultdict[int, list[int]](list)
    for place, index in accessed.items():
        places[index].append(place)
    found: dict[int, float] = {}
    for index, block in _ptx_blocks(facts, module).items():
        at, count = places[index], facts.counts.get(block)
        total = sum(executed[place] for place in at)
        is_off = all(program.instructions[place].predicate and place not in attempts for place in at)
        if count is not None and is_off and count.warps < total:
            found |= dict.fromkeys(at, count.warps / total)
    return found


def _diverged(facts: Facts, module: Module) -> frozenset[int]:
    """Accesses in PTX blocks that recorded warps visit more often and with fewer lanes than warps of the kernel."""
    visited = np.concatenate([warp.trace.visited for warp in facts.warps] or [np.zeros(0, np.uint32)])
    lanes = np.concatenate([warp.trace.visit_lanes for warp in facts.warps] or [np.zeros(0, np.uint32)])
    visits = np.bincount(visited, minlength=len(facts.counts))
    threads = np.bincount(visited, np.bitwise_count(lanes), minlength=len(facts.counts))
    numbers = {
        block
        for number, (block, count) in enumerate(facts.counts.items())
        if count.threads * visits[number] > DIVERGED * threads[number] * count.warps
        and visits[number] * facts.launched_warps > DIVERGED * count.warps * len(facts.warps)
    }
    return frozenset(index for index, block in _ptx_blocks(facts, module).items() if block in numbers)


def _ptx_blocks(facts: Facts, module: Module) -> dict[int, tuple[str, int]]:
    """Function and number of the PTX block of each access."""
    blocks = {
        place: (function.name, number)
        for function in module.functions
        for number, block in enumerate(function.blocks)
        for place in range(function.first + block.start, function.first + block.end)
    }
    of_access = {index: blocks.get(access.instruction) for index, access in enumerate(facts.accesses)}
    return {index: block for index, block in of_access.items() if block is not None}


def walked(program: Program, counts: MachineCounts, facts: Facts, sms: int) -> tuple[Path, Events]:
    """The paths of the warps, and what they do with barriers in memory. Raises `UsageError`, see `barrier_events`."""
    traces = [warp.trace for warp in facts.sampled]
    events = barrier_events(program, facts.accesses, traces)
    relative = relative_executions(facts.sampled, facts.counts, facts.launched_warps, counts, program, events)
    sizes = [block.end - block.start for block in program.flow.blocks]
    executed = sum(size * count.value for size, count in zip(sizes, counts.warps, strict=True)) / facts.launched_warps
    rounds = rounds_of(facts.sampled, facts.counts, counts, program)
    return walk(program, counts, facts.launched_warps, facts.max_path(executed, sms), relative, rounds), events


def assess_counts(
    program: Program, counts: MachineCounts, facts: Facts, traffic: Traffic, accessed: Mapping[int, int], card: Card
) -> Assessment:
    """The same with known executions; `accessed` has the index of the access of each instruction that makes one."""
    counts, attempts = with_retries(program, counts, accessed, traffic.contention, facts.warps_per_block)
    path, events = walked(program, counts, facts, card.sms)
    pairs = zip(program.instructions, program.uses, strict=True)
    values = {facts.accesses[index].instruction: count for index, count in traffic.values.items()}
    costs = tuple(cost_of(instruction, use, card, values.get(instruction.line or -1)) for instruction, use in pairs)
    return Assessment(program, facts, card, counts, path, costs, traffic, accessed, events, attempts)
