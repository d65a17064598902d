"""Banks of shared memory: what an access of one warp takes at every stride (MC16 s6.2)."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.infer_confidence import BANKS, TIMED
from gpudissect.measure.instructions.infer_issue import median_duration
from gpudissect.measure.instructions.instructions import why_unsupported
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.shared_memory.infer_banks import (
    HIDDEN,
    Banks,
    Layout,
    Point,
    banks_of,
    hidden,
    per_turn,
    same_answer,
    without_wide,
)
from gpudissect.series import Series
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Instruction, Mix, Step
from gpudissect.workload.digest import digest

ATTRIBUTES = ("banks", "bank_width", "conflict_latency")
STRIDES = range(65)  # words
WIDTHS = (4, 8, 16)
WORD = 4
COUNT = 64  # accesses of an iteration
ITERATIONS = 4
REPEATS = 2
METHOD = "one warp, dependent loads at strides of 0 to 64 words, of 4, 8 and 16 bytes; the likeliest layout"
COST = "slope over the turns that each stride takes"
WIDE_LEFT_OUT = "by loads of 4 bytes alone: no layout explains those of 8 and 16 too"
FOUR_BYTE_MODE = "4-byte mode: a bank gives 8 bytes, but successive words of 4 lie in successive banks (MC16 fig 18)"


BANK_LAYOUT: Key[Layout | None] = Key("banks.shared", (Layout, NoneType))


def banks_plan(bench: Bench, known: Known) -> Plan:
    """Banks, their width, and what conflicts cost, cycles. Its knowledge is the layout, None if none was found."""
    reason = why_unsupported(Instruction.LDS, bench.info)
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "shared", reason, *ATTRIBUTES))
    loads, evidence = yield from _at_every_stride(Instruction.LDS)
    found, caveats = banks_of(loads), _broadcast(loads)
    if found.layout is None:
        narrow = banks_of(without_wide(loads))
        found, caveats = (found, caveats) if narrow.layout is None else (narrow, (*caveats, WIDE_LEFT_OUT))
    unique = found.layout if found.layout and all(same_answer(found.layout, each) for each in found.rivals) else None
    series = _series("latency against stride", loads, evidence)
    return Outcome(_layout(found, caveats, evidence), unique, (series,))


def write_conflict_plan(bench: Bench, known: Known) -> Plan:
    """Cycles that each turn adds to the time between two stores."""
    reason = why_unsupported(Instruction.STS, bench.info)
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "shared", reason, "write_conflict"))
    stores, evidence = yield from _at_every_stride(Instruction.STS)
    series = _series("time between stores against stride", stores, evidence)
    return Outcome((_of_stores(stores, known[BANK_LAYOUT], evidence),), series=(series,))


def _at_every_stride(instruction: Instruction) -> Ask[tuple[list[Point], tuple[str, ...]]]:
    """Cycles of one access at every stride and width that fit together, the least of a few repetitions."""
    shapes = [(stride, width) for width in WIDTHS for stride in STRIDES if stride * WORD % width == 0]
    mixes = [
        Mix(body=(Step(instruction, COUNT),), warps=1, block_size=WARP_SIZE, iterations=ITERATIONS, sms=1,
            stride=stride, width=width, repetition=repetition)
        for stride, width in shapes for repetition in range(REPEATS)
    ]  # fmt: skip
    traces = yield mixes
    pairs = zip(traces, mixes, strict=True)
    each = [median_duration(trace.begin, trace.end) / mix.instructions for trace, mix in pairs]
    points = [
        Point(stride, width, min(each[number * REPEATS : (number + 1) * REPEATS]))
        for number, (stride, width) in enumerate(shapes)
    ]
    return points, tuple(digest(mix) for mix in mixes)


def _broadcast(points: Sequence[Point]) -> tuple[str, ...]:
    """What it takes if all lanes ask for one word, beside neighbouring words."""
    cycles = {point.stride: point.cycles for point in points if point.width == WORD}
    more = cycles[0] - cycles[1]
    return ("one word for all lanes (broadcast) is as fast as a word for each" if abs(more) < 1
            else f"one word for all lanes (broadcast) takes {more:+.1f} cycles beside a word for each",)  # fmt: skip


def _layout(found: Banks, caveats: tuple[str, ...], evidence: tuple[str, ...]) -> tuple[Estimate, ...]:
    """Banks, their width, cycles a turn."""
    names = ATTRIBUTES[:3]
    if found.layout is None:
        return without(Status.NOT_FOUND, "shared", found.reason, *names)
    layout = found.layout
    others = [each for each in found.rivals if not same_answer(layout, each)]
    if others:
        which = " or ".join(f"{each.banks} of {each.width} B" for each in (layout, *others))
        return without(Status.AMBIGUOUS, "shared", f"several layouts explain it as well: {which}", *names)
    if layout.interleave != layout.width:
        caveats = (*caveats, FOUR_BYTE_MODE)
    turns = f"lanes that are served together: {layout.at_once}" if not found.rivals else ""
    explained = f"explains {found.explained:.2%} of the differences between strides"
    caveats = (explained, *((turns,) if turns else ()), *caveats)

    def exactly(attribute: str, value: int) -> Estimate:
        return Estimate(element="shared", attribute=attribute, status=Status.FOUND, value=value, low=value, high=value,
                        confidence=BANKS, method=METHOD, evidence=evidence, caveats=caveats)  # fmt: skip

    cost = Estimate(
        element="shared", attribute="conflict_latency", status=Status.FOUND, value=found.cost, low=found.low,
        high=found.high, confidence=TIMED, method=f"{METHOD}; {COST}", evidence=evidence,
    )  # fmt: skip
    return exactly("banks", layout.banks), exactly("bank_width", layout.width), cost


def _of_stores(points: Sequence[Point], layout: Layout | None, evidence: tuple[str, ...]) -> Estimate:
    """Cycles that each turn adds to the time between two stores."""
    name = "write_conflict"
    if layout is None:
        return without(Status.NOT_FOUND, "shared", "without the banks nobody knows which stores conflict", name)[0]
    slope = per_turn(points, layout)
    if slope is None:
        reason = "the time between two stores does not grow with the turns that they should take"
        return without(Status.NOT_FOUND, "shared", reason, name)[0]
    return Estimate(element="shared", attribute=name, status=Status.FOUND, value=slope.cycles, low=slope.low,
                    high=slope.high, confidence=TIMED, method=f"one warp, stores one after the other; {COST}",
                    evidence=evidence, caveats=_few_turns(points, layout))  # fmt: skip


def _few_turns(points: Sequence[Point], layout: Layout) -> tuple[str, ...]:
    """What stores take that need fewer turns than the slope is of."""
    few = hidden(points, layout)
    told = ", ".join(f"{turns}: {cycles:.1f}" for turns, cycles in few.items())
    return (f"from {HIDDEN} turns on: fewer may pass while a store is started; cycles by turns {told}",) if few else ()


def _series(name: str, points: Sequence[Point], evidence: tuple[str, ...]) -> Series:
    columns = {
        "stride": tuple(float(point.stride) for point in points),
        "width": tuple(float(point.width) for point in points),
        "cycles": tuple(point.cycles for point in points),
    }
    return Series("shared", name, columns, {"stride": "words", "width": "B", "cycles": "cycles"}, evidence)


EXPERIMENTS = (
    Experiment(key=BANK_LAYOUT, element="shared", plan=banks_plan, emits=ATTRIBUTES, quick=True),
    Experiment(
        key=Key("conflicts.shared"),
        element="shared",
        plan=write_conflict_plan,
        emits=("write_conflict",),
        needs=(BANK_LAYOUT,),
        quick=True,
    ),
)
