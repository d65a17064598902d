"""From a profile and the results of a GPU to an explanation."""

import os
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cached_property

import numpy as np

from gpudissect.errors import UsageError
from gpudissect.explanation.mapping import MachineCounts
from gpudissect.explanation.model.advice import advise, hint_of
from gpudissect.explanation.model.assess import Assessment, assess, assess_counts
from gpudissect.explanation.model.card import Card, card_of
from gpudissect.explanation.model.contiguous import contiguous_traffic
from gpudissect.explanation.model.costs import SHARED_PIPES
from gpudissect.explanation.model.critical import Chain, cycles_per_iteration, latencies, longest_chain
from gpudissect.explanation.model.facts import Facts, facts_of
from gpudissect.explanation.model.predict import moved_bytes, roofline, volkov
from gpudissect.explanation.model.remarks import assumed_accesses, assumptions_of, cost_source, notes_of, too_large
from gpudissect.explanation.model.requests import Requests
from gpudissect.explanation.model.sm.engine import released_note
from gpudissect.explanation.model.steps import steps_of
from gpudissect.explanation.model.trial import Trial
from gpudissect.explanation.packing import DamagedProfileError
from gpudissect.explanation.profile import Launch, Profile
from gpudissect.explanation.profile import Point as Timed
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.explanation.result import MIN_GAIN, SCHEMA, Explanation, Line, Point, WorksheetRow
from gpudissect.explanation.source import Sources, sources_of
from gpudissect.explanation.trips import NOTE
from gpudissect.machine_code.program import Program, read_program
from gpudissect.results.model import Result

ERROR = 0.3
"""Half of the bracket relative to the time (docs/validation-explain.md says how many times lie within it)."""
GIVEN_FACTOR = 4.5
"""By which times from given counts are off, to either side: nine of ten recorded kernels with the exact trips of their
loops lie within it (validation/given_counts.py)."""
MAX_POINTS, MIN_POINTS, LONG = 12, 6, 20_000
"""Points of a curve, at most and at least, and instructions of a block from which it has fewer, for time."""
MIN_SHARE_OF_BEST = 0.9


def explain_profile(
    profile: Profile, results: Sequence[Result], disassembled: Future[Program] | None = None
) -> Explanation:
    """What limits a recorded kernel on a measured GPU; `disassembled`: its program if another thread reads it already.

    Raises `DamagedProfileError` for a damaged profile, `UsageError` for results of several GPUs or without what the
    model needs, and for blocks that do not fit on an SM.
    """
    card = card_of(*results)
    if not profile.counts:
        raise DamagedProfileError("counts", "is empty")
    facts, module = facts_of(profile, card), parse_ptx(profile.ptx())
    program = disassembled.result() if disassembled else read_program(*profile.machine_code())
    sources = sources_of(module, program.lines, (instruction.address for instruction in program.instructions))
    assessment = assess(program, module, facts, card)
    ran_here = profile.gpu.name == card.name
    notes = notes_of(profile, card) + assumed_accesses(assessment)
    found = build(assessment, profile.launch, sources, profile.sweep, notes, has_times=ran_here)
    return found if ran_here else found.model_copy(update={"recorded_gpu": profile.gpu.name})


def explain_given(program: Program, launch: Launch, counts: MachineCounts, results: Sequence[Result]) -> Explanation:
    """What limits a launch that never ran, with counts that were given. Raises `UsageError` as `explain_profile`."""
    sources = Sources(program.lines)
    found = build(assess_given(program, launch, counts, card_of(*results)), launch, sources, notes=[NOTE])
    curve = tuple(map(_with_wide_bracket, found.curve))
    changes = {"curve": curve, "point": _with_wide_bracket(found.point), "counts": "given"}
    changes |= {"active_threads": launch.threads_per_block / launch.warps_per_block}
    return found.model_copy(update=changes)


def assess_given(program: Program, launch: Launch, counts: MachineCounts, card: Card) -> Assessment:
    """A launch with given counts; all accesses are taken as contiguous."""
    facts = Facts(launch.blocks, launch.threads_per_block, launch.shared_bytes, {}, (), (), {})
    return assess_counts(program, counts, facts, *contiguous_traffic(program), card)


def _with_wide_bracket(point: Point) -> Point:
    """A point whose time rests on given counts and unknown addresses."""
    low, high = point.predicted / GIVEN_FACTOR, point.predicted * GIVEN_FACTOR
    return point.model_copy(update={"low": low, "high": high})


def build(
    assessment: Assessment,
    launch: Launch,
    sources: Sources,
    sweep: Sequence[Timed] = (),
    notes: Sequence[str] = (),
    *,
    has_times: bool = False,
) -> Explanation:
    """The explanation of an assessed launch; `sweep`: occupancies at which it ran, with times of this GPU or not."""
    with ThreadPoolExecutor(min(os.cpu_count() or 1, MAX_POINTS)) as pool:  # the simulated SM runs without the GIL
        return _Builder(assessment, launch, sources, sweep, notes, pool, has_times=has_times).explanation()


class _Builder:
    """Points, lines and advice of one kernel."""

    def __init__(
        self,
        assessment: Assessment,
        launch: Launch,
        sources: Sources,
        sweep: Sequence[Timed],
        notes: Sequence[str],
        pool: Executor,
        *,
        has_times: bool,
    ) -> None:
        self.assessment, self.launch, self.sources = assessment, launch, sources
        self.sweep, self.notes, self.pool = sweep, notes, pool
        self.has_times = has_times
        self.resident = assessment.occupancy.blocks
        length = max(1.0, assessment.path.length * assessment.launch.warps_per_block)
        self.numbers = _spread(self.resident, round(min(max(MAX_POINTS * LONG / length, MIN_POINTS), MAX_POINTS)))
        if self.resident < 1:
            raise UsageError(too_large(assessment))
        self.predictions = {
            blocks: pool.submit(assessment.predict, blocks, largest_carveout=bool(self._timed(blocks)))
            for blocks in reversed(self.numbers[:-1])  # the longest first, while this thread simulates the launch
        }
        self.prediction = assessment.predict(self.resident, largest_carveout=False)
        self.requests = self.prediction.requests
        self.latency = assessment.latency(self.requests)
        self.steps = steps_of(assessment.program, assessment.costs, self.requests, assessment.card)
        self.latencies = [
            _latency(self.requests.get(index), step.latency, assessment.card) for index, step in enumerate(self.steps)
        ]

    def explanation(self) -> Explanation:
        launch, assessment, found = self.launch, self.assessment, self.prediction
        kernel, card = assessment.program.kernel, assessment.card
        chain, loop_cycles = self._chain()
        lines, names = self._lines(chain), [loop.name for loop in assessment.program.loops.loops]
        loops = sorted((cycles, self.sources.loop_name(names[number])) for number, cycles in loop_cycles.items())
        trial = Trial(assessment, found, lines)
        warps_for_90 = self.pool.submit(self._warps_for, MIN_SHARE_OF_BEST)
        advice = advise(trial, self.pool)
        return Explanation(
            schema=SCHEMA,
            kernel=kernel.short_name,
            architecture=kernel.architecture,
            gpu=card.name,
            sms=card.sms,
            max_warps=card.warps,
            grid=launch.grid,
            block=launch.block,
            registers=kernel.registers,
            shared_bytes=kernel.shared_bytes + launch.shared_bytes,
            stack_bytes=kernel.stack_bytes,
            occupancy=assessment.occupancy.by_limit,
            point=self.curve[-1],
            curve=self.curve,
            warps_for_90=warps_for_90.result(),
            bounds={name: value for name, value in found.bounds.items() if value > 0},
            traffic=moved_bytes(found, assessment.path.executed, assessment.launch),
            working_blocks=assessment.launch.working,
            critical_path=chain.cycles / assessment.path.share / card.clock_hz * 1e9,
            loops={name: cycles for cycles, name in loops},  # of several of a line the longest chain
            worksheet=self._worksheet(),
            lines=lines,
            advice=tuple(each for each in advice if each.gain >= MIN_GAIN),
            rejected=tuple(each for each in advice if each.gain < MIN_GAIN),
            hint=hint_of(trial, self.curve[-1].measured or 0.0),
            assumptions=assumptions_of(assessment),
            notes=(*self.notes, *released_note(found.run)),
        )

    @cached_property
    def curve(self) -> tuple[Point, ...]:
        return tuple(map(self._point, self.numbers))

    def _timed(self, blocks: int) -> list[Timed]:
        return [point for point in self.sweep if point.blocks_per_sm == blocks]

    def _point(self, blocks: int) -> Point:
        assessment, measured, is_launch = self.assessment, self._timed(blocks), blocks == self.resident
        chosen = [p for p in measured if (p.carveout < 0) == is_launch] or measured
        found = self.prediction if is_launch else self.predictions[blocks].result()
        l1 = assessment.l1_bytes(blocks, largest_carveout=bool(measured) and not is_launch)
        return Point(
            blocks_per_sm=blocks,
            warps_per_sm=blocks * assessment.launch.warps_per_block,
            predicted=found.nanoseconds,
            l1_bytes=l1,
            low=found.nanoseconds * (1 - ERROR),
            high=found.nanoseconds * (1 + ERROR),
            limiter=found.limiter,
            measured=chosen[0].ns if chosen and self.has_times else None,
            volkov=volkov(found, self.latency, assessment.launch, assessment.card),
            roofline=roofline(found),
        )

    def _warps_for(self, share: float) -> int:
        """Fewest warps whose throughput is this share of the best, all with the L1 of the launch.

        Throughput is taken to rise with the warps.
        """
        curve, first, last = self.curve, 0, len(self.curve) - 1
        own, best = curve[-1], curve[-1].predicted
        uses_l1 = any(each.access is not None for each in self.assessment.requests.values())
        while first < last:
            middle = (first + last) // 2
            point = curve[middle]
            time = point.predicted
            if uses_l1 and point.l1_bytes != own.l1_bytes:
                found = self.assessment.predict(point.blocks_per_sm, largest_carveout=False, l1_bytes=own.l1_bytes)
                time = found.nanoseconds
            best = min(best, time)
            first, last = (first, middle) if best >= share * time else (middle + 1, last)
        return curve[last].warps_per_sm

    def _chain(self) -> tuple[Chain, dict[int, float]]:
        assessment = self.assessment
        program = assessment.program
        cycles = latencies(program, self.latencies)
        path = assessment.path.instructions
        return longest_chain(program, path, cycles), dict(cycles_per_iteration(program, path, cycles))

    def _worksheet(self) -> tuple[WorksheetRow, ...]:
        assessment, found, clock_hz = self.assessment, self.prediction, self.assessment.card.clock_hz
        executed: dict[str, float] = {}
        for count, cost in zip(assessment.path.executed, assessment.costs, strict=True):
            executed[cost.pipe] = executed.get(cost.pipe, 0.0) + float(count)
        if any(step.is_either for step in self.steps):  # both pipes of multiply-adds, one of which serves integers too
            executed["fma"] = executed.get("fma", 0.0) + executed.get("imad", 0.0)
        executed["issue"] = executed["fetch"] = float(assessment.path.executed.sum())
        return tuple(
            WorksheetRow(
                unit=name,
                instructions=executed.get(name, 0.0),
                cycles=ns * clock_hz / 1e9,
                share=ns / found.nanoseconds,
            )
            for name, ns in sorted(found.bounds.items(), key=lambda item: -item[1])
            if ns > 0
        )

    def _lines(self, chain: Chain) -> tuple[Line, ...]:
        assessment, found = self.assessment, self.prediction
        program = assessment.program
        total = max(1.0, float(found.run.waited.sum()) + float(assessment.path.executed.sum()))
        waits = program.dependences.waits_by_consumer
        demand = found.demand.get(found.limiter, np.zeros(len(self.steps)))
        limiting = demand / max(float(demand.sum()), 1e-9)
        lines, of_calls, active = [], self._lines_of_calls(), self._active_threads()
        for index, (instruction, cost) in enumerate(zip(program.instructions, assessment.costs, strict=True)):
            requests, step = self.requests.get(index), self.steps[index]
            stalled, contended = found.run.waited[index]
            address = of_calls.get(index, instruction.address)
            file, number = self.sources.by_address.get(address, (None, None))
            lines.append(
                Line(
                    address=instruction.address,
                    text=str(instruction),
                    source_file=file,
                    source_line=number,
                    executed=float(assessment.path.executed[index]),
                    active_threads=active.get(index),
                    unit=cost.pipe,
                    issue_cycles=step.shared_interval if cost.pipe in SHARED_PIPES else step.interval,
                    latency=None if instruction.write_barrier is None else self.latencies[index],
                    waits_for=tuple(program.instructions[w.producer].address for w in waits.get(index, ())),
                    stall=float(stalled) / total,
                    contended=float(contended) / total,
                    limiting=float(limiting[index]),
                    is_measured=cost.is_measured,
                    cost_source=cost_source(cost),
                    is_critical=index in chain.instructions,
                    sectors=requests.sectors if requests else None,
                    l1_hits=requests.l1_hits if requests else None,
                    l2_hits=requests.l2_hits if requests else None,
                )
            )
        return tuple(lines)

    def _active_threads(self) -> dict[int, float]:
        """Threads of a warp that execute each executed instruction together."""
        counts = self.assessment.counts
        return {
            index: threads.value / warps.value
            for block, threads, warps in zip(
                self.assessment.program.flow.blocks, counts.threads, counts.warps, strict=True
            )
            for index in range(block.start, block.end)
            if warps.value > 0
        }

    def _lines_of_calls(self) -> dict[int, int]:
        """For each instruction of a function for exceptional operands, the address of the call that runs most often."""
        program, executed, found = self.assessment.program, self.assessment.path.executed, dict[int, int]()
        flow = program.flow
        for function in (each for each in flow.called if each.start in program.slow_paths):
            calls = [block.end - 1 for block in flow.blocks if block.callee == function.start]
            code = range(flow.blocks[function.start].start, flow.blocks[function.stop - 1].end)
            if calls:
                most = max(calls, key=lambda call: executed[call])
                found |= dict.fromkeys(code, program.instructions[most].address)
        return found


def _latency(requests: Requests | None, in_sm: float, card: Card) -> float:
    """Cycles of an instruction without load; of one with requests the mean by where they end."""
    if requests is None or requests.in_sm >= 1:
        return in_sm
    l2, memory = card.value("l2", "hit_latency"), card.value("dram", "hit_latency")
    return requests.in_sm * in_sm + (requests.in_l2 - requests.in_sm) * l2 + (1 - requests.in_l2) * memory


def _spread(count: int, points: int) -> list[int]:
    """Numbers from 1 to `count`, at most `points` of them."""
    if count <= points:
        return list(range(1, count + 1))
    return sorted({round(1 + (count - 1) * k / (points - 1)) for k in range(points)})
