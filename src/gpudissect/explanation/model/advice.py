"""Changes of a kernel, each with the time that the model predicts for the changed kernel.

Some have a gain that no real change exceeds: the model without any wait for an instruction, or with all hits in a
nearer cache (`Advice.is_limit`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpudissect.explanation.model.assess import Assessment
from gpudissect.explanation.model.critical import longest_chain
from gpudissect.explanation.model.predict import Prediction
from gpudissect.explanation.model.requests import LINE, SECTOR, Requests
from gpudissect.explanation.model.walk import Path
from gpudissect.explanation.result import Advice, Line
from gpudissect.explanation.sentences import place_of
from gpudissect.machine_code.program import Program
from gpudissect.machine_code.units import Use
from gpudissect.units import format_bytes_rounded

MIN_PASSES = 1.5  # relative to the fewest, from which an access is named
MIN_STALL = 0.05  # of the time of a warp, from which a wait is named
MAX_WAITS = 2  # groups of instructions that are waited for
MIN_WAITS = 1.5  # of a warp for loads, from which some can be issued before others are waited for
MAX_CHAINED = 0.5  # share of the loads of a warp in one chain, up to which the others can be issued earlier
MIN_REUSE = 1.5  # bytes that are read relative to those of all arrays: then a nearer cache can serve some
GLOBAL = ("global", "generic", "texture")


def advise(assessment: Assessment, found: Prediction, lines: Sequence[Line]) -> tuple[Advice, ...]:
    """What was tried, largest gain first; `lines` has the instructions of the program in their order."""
    changes = _Changes(assessment, found, lines)
    tried = [*changes.fewer_passes(), *changes.nearer_cache()]
    if found.limiter == "latency":
        tried += [*changes.more_blocks(), *changes.fewer_waits(), *changes.more_in_flight(), *changes.fewer_barriers()]
    return tuple(sorted(tried, key=lambda each: -each.gain))


class _Changes:
    """What can be changed in a kernel that was predicted at its own occupancy."""

    def __init__(self, assessment: Assessment, found: Prediction, lines: Sequence[Line]) -> None:
        self.assessment, self.found, self.lines, self.own = assessment, found, lines, found.resident
        self.executed = assessment.path.executed

    def fewer_passes(self) -> Iterator[Advice]:
        """Accesses without bank conflicts, and with lanes side by side: all of one kind together."""
        uses, groups = self.assessment.program.uses, defaultdict[tuple[bool, str], dict[int, Requests]](dict)
        for index, requests in self.found.requests.items():
            use = uses[index]
            fewest = max(1.0, requests.lanes * (use.bytes or 4) / LINE)
            has_more = requests.passes >= MIN_PASSES * fewest
            if use.space != "shared":
                has_more = requests.sectors >= MIN_PASSES * self._fewest_sectors(index)
            if has_more and self.executed[index]:
                groups[use.space == "shared", use.access or ""][index] = _side_by_side(requests, use, fewest)
        for (in_shared, _), better in groups.items():
            now = {index: self.found.requests[index] for index in better}  # means too, not single sampled requests
            before, time = (self._time({**self.assessment.requests, **each}) for each in (now, better))
            if in_shared:
                passes, fewest = (_mean(each.passes for each in group.values()) for group in (now, better))
                text = f"Avoid bank conflicts of {self._places(better)}"
                evidence = f"{passes:.3g} passes for each request instead of {fewest:.3g}"
            else:
                sectors, fewest = _mean(each.sectors for each in now.values()), _mean(map(self._fewest_sectors, now))
                text = f"Let the lanes of {self._places(better)} access neighbouring elements"
                evidence = f"{sectors:.3g} sectors for each request instead of {fewest:.3g}"
            yield Advice(text=text, gain=1 - time / before, evidence=evidence)

    def nearer_cache(self) -> Iterator[Advice]:
        """Loads that hit the L1, or the L2, if they read the same bytes more than once."""
        allocated, launch = self.assessment.facts.allocated, self.assessment.launch
        if not allocated or self.found.limiter not in ("latency", "l2", "memory"):
            return
        warps, loads = launch.blocks * launch.warps_per_block, {}
        read = fetched = 0.0
        for index, each in self.found.requests.items():
            use = self.assessment.program.uses[index]
            if use.space in GLOBAL and use.access == "load" and each.in_sm < 1 and self.executed[index]:
                loads[index] = each
                read += warps * self.executed[index] * each.lanes * (use.bytes or 4)
                fetched += warps * self.executed[index] * (1 - each.in_l2) * each.dram_bytes
        times = f"is read {read / allocated:.3g} times: {format_bytes_rounded(read)} of"
        arrays = f"arrays of {format_bytes_rounded(allocated)}"
        if read >= MIN_REUSE * allocated:
            here = {index: replace(each, in_sm=1.0, in_l2=1.0, access=None) for index, each in loads.items()}
            text = f"Keep what {self._places(loads)} read again in shared memory or registers, or let it hit the L1"
            gain = self._gain(self._time({**self.assessment.requests, **here}))
            yield Advice(text=text, gain=gain, is_limit=True, evidence=f"each byte {times} {arrays}; all in the SM")
        if min(read, fetched) >= MIN_REUSE * allocated:
            near = {index: replace(each, in_l2=1.0, access=None) for index, each in loads.items()}
            text = f"Let blocks that run together read the same data, so that {self._places(loads)} hit the L2"
            gain = self._gain(self._time({**self.assessment.requests, **near}))
            evidence = f"{format_bytes_rounded(fetched)} come from memory, for {arrays}; all in the L2"
            yield Advice(text=text, gain=gain, is_limit=True, evidence=evidence)

    def more_blocks(self) -> Iterator[Advice]:
        """More resident blocks, if what limits them is registers or shared memory."""
        assessment = self.assessment
        occupancy, card = assessment.occupancy, assessment.card
        others = [blocks for name, blocks in occupancy.by_limit.items() if name not in occupancy.limits]
        if len(occupancy.limits) != 1 or occupancy.limits[0] in ("warps", "blocks") or min(others) <= self.own:
            return
        advice = []
        for blocks in range(self.own + 1, min(min(others), self.own + 4) + 1):
            warps = blocks * assessment.launch.warps_per_block
            if occupancy.limits[0] == "registers":
                each = card.registers // card.schedulers // (-(-warps // card.schedulers) * 32) // 8 * 8
                text = f"{each} registers instead of {assessment.program.kernel.registers} allow {warps} warps"
            else:
                most = card.shared_bytes // blocks
                text = f"{most} bytes of shared memory for each block allow {warps} warps"
            evidence = f"{blocks} blocks on an SM instead of {self.own}"
            advice.append(Advice(text=text, gain=self._gain(self._time(resident=blocks)), evidence=evidence))
        yield max(advice, key=lambda each: each.gain)

    def fewer_waits(self) -> Iterator[Advice]:
        """No wait for the instructions that warps wait for most."""
        program = self.assessment.program
        for producers, stall, waits in self._awaited()[:MAX_WAITS]:
            is_load = program.uses[producers[0]].space in GLOBAL and program.uses[producers[0]].access == "load"
            if is_load and (waits < MIN_WAITS or _is_chained(program, self.assessment.path, producers)):
                continue  # more work for each thread is what helps
            instructions = list(program.instructions)
            for index in producers:
                instructions[index] = replace(instructions[index], write_barrier=None)
            changed = replace(program, flow=replace(program.flow, instructions=tuple(instructions)))
            time = replace(self.assessment, program=changed).predict(self.own, largest_carveout=False).nanoseconds
            places = self._places(dict.fromkeys(producers))
            if is_load:
                text = f"Issue {places} earlier, several before the first result is needed (unroll, or prefetch)"
            else:
                text = f"Put independent instructions between {places} and the use of the result"
            evidence = f"warps wait for it {stall:.0%} of their time; gain without any such wait"
            yield Advice(text=text, gain=self._gain(time), is_limit=True, evidence=evidence)

    def more_in_flight(self) -> Iterator[Advice]:
        """Twice the work in flight on an SM."""
        awaited = self._awaited()
        if not awaited:
            return
        producers, stall, _ = awaited[0]
        places = self._places(dict.fromkeys(producers))
        text = f"Let each thread do the work of two at once: twice as many of {places} in flight"
        evidence = (
            f"warps wait for it {stall:.0%} of their time; gain with {2 * self.own} blocks on an SM for {self.own}"
        )
        yield Advice(text=text, gain=self._gain(self._time(resident=2 * self.own)), evidence=evidence)

    def fewer_barriers(self) -> Iterator[Advice]:
        """No barriers of blocks."""
        costs = self.assessment.costs
        barriers = {
            index: float(self.executed[index])
            for index, cost in enumerate(costs)
            if cost.element == "barrier" and self.executed[index]
        }
        if not barriers:
            return
        free = tuple(replace(cost, element=None) if index in barriers else cost for index, cost in enumerate(costs))
        time = replace(self.assessment, costs=free).predict(self.own, largest_carveout=False).nanoseconds
        text = f"Use fewer barriers, or smaller blocks: {self._places(barriers)}"
        evidence = f"{sum(barriers.values()):.3g} barriers of each warp; gain without any"
        yield Advice(text=text, gain=self._gain(time), is_limit=True, evidence=evidence)

    def _awaited(self) -> list[tuple[list[int], float, float]]:
        """Instructions by opcode that warps wait for, the longest first: they, share of the time, waits of a warp."""
        program = self.assessment.program
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

    def _fewest_sectors(self, index: int) -> float:
        """Sectors of a request whose lanes access neighbouring elements."""
        return max(1.0, self.found.requests[index].lanes * (self.assessment.program.uses[index].bytes or 4) / SECTOR)

    def _places(self, indices: Mapping[int, object]) -> str:
        """The first of some instructions with its source line, and how many more there are."""
        first, *more = indices
        return place_of(self.lines[first]) + (f" and {len(more)} more" if more else "")

    def _time(self, requests: Mapping[int, Requests] | None = None, resident: int | None = None) -> float:
        return self.assessment.predict(resident or self.own, requests, largest_carveout=False).nanoseconds

    def _gain(self, time: float) -> float:
        return 1 - time / self.found.nanoseconds


def _side_by_side(requests: Requests, use: Use, fewest: float) -> Requests:
    moved, lines = requests.l2_bytes, requests.lines
    if use.space != "shared":
        moved, lines = min(moved, max(float(SECTOR), requests.lanes * (use.bytes or 4))), fewest
    changed = replace(requests, passes=fewest, l2_bytes=moved, lines=lines, scattered=0.0)
    return replace(changed, dram_bytes=min(moved, requests.dram_bytes))


def _is_chained(program: Program, path: Path, loads: Sequence[int]) -> bool:
    """Whether most of these loads of a warp need the result of another one."""
    is_load = np.isin(np.arange(len(program.instructions)), loads)
    depth = longest_chain(program, path.instructions, is_load.astype(np.float64)).cycles
    return depth > max(1.0, MAX_CHAINED * float(is_load[path.instructions].sum()))


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
