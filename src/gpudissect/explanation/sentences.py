"""Texts of an explanation for the terminal, the page and notebooks."""

import math
import tomllib
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from gpudissect.explanation.curve import MIN_FILL, SAME_TIME, curve_of, has_different_l1, resident_warps
from gpudissect.explanation.listing import address_of, hottest, opcode_of, place_of, source_of
from gpudissect.explanation.result import MIN_GAIN, Advice, Explanation, Line
from gpudissect.machine_code.names import short_name
from gpudissect.printable import brief, clean, counted
from gpudissect.results.text import provenance
from gpudissect.units import WARP_SIZE, format_bytes, format_bytes_rounded, format_ns

LATENCY = "latency"
_TABLE = tomllib.loads(Path(__file__).with_name("resources.toml").read_text(encoding="utf-8"))
_KINDS = _TABLE.pop("kinds")
RESOURCES = {name: row["name"] for name, row in _TABLE.items()}
"""Names of resources as in the Nsight Compute Profiling Guide."""
CONVERGED_THREADS = 28.0  # active threads of a warp, on average, below which divergence is named
SMALL_GAIN = 0.1  # below it, what is not predicted is named too
MIN_FASTER = 0.03  # share of the measured time by which one at fewer warps is shorter, from which it is named
MIN_WAIT = 0.02  # share of the time of a warp, from which a kind of wait is named
RETRIED, MAX_LOOPS = "ATOMS.CAST", 2  # opcode of the compare-and-swap of such a loop; places that are named
MIN_RETRIED = 0.1  # share of a warp's waits or of the limiting work at its source line, from which it is named
MAX_PLACES, MIN_PLACE = 3, 0.1  # source lines with most work; share of the work
CYCLES_WITH_FRACTION = 100  # above, whole cycles are printed
_OCCUPANCY_LIMITS = {
    "warps": "warps per SM",
    "blocks": "blocks per SM",
    "registers": "registers ({registers} per thread)",
    "shared memory": "shared memory ({shared} per block)",
}
MAX_NAME_LENGTH = 60  # characters of the name of a kernel or a GPU


def resource(name: str) -> str:
    """A resource in words."""
    return RESOURCES.get(name) or brief(name, MAX_NAME_LENGTH)


def kernel_of(explanation: Explanation) -> str:
    """Name of the kernel without its parameters."""
    return brief(short_name(explanation.kernel), MAX_NAME_LENGTH)


def gpu_of(explanation: Explanation) -> str:
    """The GPU and the origin of its values, and of the counts if they are not measured.

    Such as ``NVIDIA H200, GPU values MEASURED; counts GIVEN, not measured``.
    """
    text = brief(explanation.gpu, MAX_NAME_LENGTH)
    if explanation.origin is not None:
        text += f", GPU values {provenance(explanation.origin, explanation.recorded_origin)}"
    return text if explanation.counts == "measured" else f"{text}; counts GIVEN, not measured"


def launch_of(explanation: Explanation) -> str:
    """Grid, block and what a thread and a block take."""
    spills = f", {format_bytes(explanation.stack_bytes)} of local memory per thread" if explanation.stack_bytes else ""
    shared = f", {format_bytes_rounded(explanation.shared_bytes)} of shared memory" if explanation.shared_bytes else ""
    sizes = f"grid {_dimensions(explanation.grid)}, block {_dimensions(explanation.block)}"
    return f"{sizes}, {explanation.registers} registers{shared}{spills}, {brief(explanation.architecture, 20)}"


def grid_of(explanation: Explanation) -> str:
    """How the grid leaves SMs idle; empty if its waves are nearly full or the SMs are not known."""
    blocks, capacity = math.prod(explanation.grid), (explanation.sms or 0) * explanation.point.blocks_per_sm
    if explanation.working_blocks is not None:
        text = f"{explanation.working_blocks:,} of {blocks:,} blocks have work, the others exit at once"
        idle = (explanation.sms or 0) - explanation.working_blocks
        unequal = f"at least {counted(idle, 'SM')} idle" if idle > 0 else "SMs get unequal numbers"
        return f"{text}: {unequal}" if explanation.working_blocks <= capacity else text
    if not capacity or blocks / capacity >= MIN_FILL * math.ceil(blocks / capacity):
        return ""
    waves, sms = blocks / capacity, explanation.sms or 0
    if blocks < sms:
        return f"{counted(blocks, 'block')} for {sms} SMs: {counted(sms - blocks, 'SM')} idle"
    if waves < 1:
        return f"{counted(blocks, 'block')}: {capacity} fit on the GPU at once"
    return f"{waves:.2f} waves of {capacity} blocks: the last wave fills {waves % 1:.0%} of the GPU"


def _dimensions(sizes: Sequence[int]) -> str:
    last = max((n for n, size in enumerate(sizes) if size != 1), default=0)
    return " x ".join(map(str, sizes[: last + 1]))


def time_of(explanation: Explanation) -> str:
    """Predicted time with its bracket, and the measured one with the error."""
    point = explanation.point
    text = f"{format_ns(point.predicted)}, bracket {format_ns(point.low)} to {format_ns(point.high)}"
    if point.measured is None or point.error is None:
        other = explanation.recorded_gpu
        return f"{text}; not measured{f' on this GPU (profile of an {brief(other, MAX_NAME_LENGTH)})' if other else ''}"
    text += f"; measured {format_ns(point.measured)}, error {point.error:+.1%}"
    if point.low <= point.measured <= point.high:
        return text
    return f"{text}; outside the bracket: limiter and savings are unreliable"


def faster_of(explanation: Explanation) -> str:
    """The measured time with fewer warps, if it is clearly shorter than that of the launch."""
    point = explanation.point
    timed = [each for each in curve_of(explanation) if each.measured]
    best = min(timed, key=lambda each: each.measured or math.inf, default=None)
    if best is None or not best.measured or not point.measured or best.measured > (1 - MIN_FASTER) * point.measured:
        return ""
    saved = f"{1 - best.measured / point.measured:.0%} less than this launch"
    return f"{format_ns(best.measured)} at {counted(best.warps_per_sm, 'warp')} per SM, {saved}"


def limiter_of(explanation: Explanation) -> str:
    """What limits the kernel, in one sentence. Shares are of the predicted time, as bounds are predicted."""
    text = _limiter(explanation)
    return f"{text} (if all accesses are contiguous)" if assumed_of(explanation) else text


def _limiter(explanation: Explanation) -> str:
    point, bounds = explanation.point, bounds_of(explanation)
    if point.limiter != LATENCY:
        name, executes = resource(point.limiter), _TABLE.get(point.limiter, {}).get("work")
        name = f"{name} ({executes})" if executes else name
        busy = explanation.bounds.get(point.limiter, 0.0) / point.predicted if point.predicted else 0.0
        place, kind, share = _most_work(explanation)
        name += f": busy for {min(1.0, busy):.0%} of the predicted time{_moved(explanation)}"
        most = f"; {share:.0%} of its work is {f'{kind} ' if kind else ''}at {place}" if share else ""
        return f"{name}{most}{_retries(explanation)}"
    busiest = f"busiest resource: {bounds[0][0]}, {bounds[0][2]:.0%} busy" if bounds else ""
    longest, waits = _longest_wait(explanation) + _retries(explanation), _waits(explanation)
    is_busy = sum(line.contended for line in explanation.lines) > sum(line.stall for line in explanation.lines)
    kind, *texts = ("no single resource", waits, busiest, longest) if is_busy else (LATENCY, longest, waits, busiest)
    return f"{kind}: {'; '.join(filter(None, texts))}".removesuffix(": ")


def _moved(explanation: Explanation) -> str:
    """Bytes that the limiting level of memory moves; empty for other resources."""
    moved, ns = explanation.traffic.get(explanation.point.limiter, 0.0), explanation.point.predicted
    return f" ({format_bytes_rounded(round(moved))}, {moved / ns / 1e3:.3g} TB/s)" if moved and ns else ""


def _retries(explanation: Explanation) -> str:
    """Source lines with a loop of the compiler around an atomic that shared memory does not support."""
    times = _by_source(explanation, lambda line: line.stall + line.contended)
    work = _by_source(explanation, lambda line: line.limiting)
    loops = [line for line in explanation.lines if opcode_of(line).startswith(RETRIED) and line.executed]
    loops = [line for line in loops if max(times[source_of(line)], work[source_of(line)]) >= MIN_RETRIED]
    at_most = list(dict.fromkeys(source_of(line) or address_of(line.address) for line in loops))[:MAX_LOOPS]
    return f" (retry loop of atomics at {' and '.join(at_most)})" if at_most else ""


def _by_source(explanation: Explanation, value_of: Callable[[Line], float]) -> dict[str, float]:
    """Sums over the instructions of each source line."""
    found = defaultdict[str, float](float)
    for line in explanation.lines:
        found[source_of(line)] += value_of(line)
    return found


def _waits(explanation: Explanation) -> str:
    """Shares of the time of a warp by what it waits for."""
    at_barriers = sum(line.stall for line in explanation.lines if _kind_of(line) == "barriers")
    waits = {
        "for results": sum(line.stall for line in explanation.lines) - at_barriers,
        "at barriers": at_barriers,
        "for issue slots or busy pipes": sum(line.contended for line in explanation.lines),
    }
    named = [f"{name} {share:.0%}" for name, share in waits.items() if share >= MIN_WAIT]
    return f"a warp waits {', '.join(named)} of its time" if len(named) > 1 else ""


def assumed_of(explanation: Explanation) -> str:
    """What was not examined; empty if the kernel ran."""
    if explanation.counts == "measured":
        return ""
    return "all accesses are contiguous, miss every cache and have no bank conflicts: no addresses were recorded"


def divergence_of(explanation: Explanation) -> str:
    """Active threads of a warp on average; empty if nearly all are active, or if they were not counted."""
    active = explanation.active_threads
    if active is None or active >= CONVERGED_THREADS:
        return ""
    return f"{active:.3g} of {WARP_SIZE} threads per warp are active on average"


def _most_work(explanation: Explanation) -> tuple[str, str, float]:
    """The source line with most work of the limiting resource, what it mainly executes, and the share of the work.

    The kind, an opcode or a name of `_KINDS`, is empty if none has most of the work of that line. Otherwise, the share
    is that of the kind at all lines, and the place states how many more lines have it.
    """
    work = defaultdict[str, dict[str, float]](lambda: defaultdict(float))  # by source line and kind
    for line in explanation.lines:
        work[source_of(line) or address_of(line.address)][_kind_of(line)] += line.limiting
    totals = {place: sum(each.values()) for place, each in work.items()}
    place = max(totals, key=lambda each: totals[each], default="")
    if not totals or not totals[place]:
        return "", "", 0.0
    kind = max(work[place], key=lambda each: work[place][each])
    if work[place][kind] <= totals[place] / 2:
        return place, "", totals[place]
    others = sorted(
        (each for each in work if each != place and work[each].get(kind)), key=lambda each: -work[each][kind]
    )
    name = "line" if ":" in place else "instruction"
    more = f" and {len(others)} more {name}s" if len(others) > 1 else f" and {others[0]}" if others else ""
    return place + more, kind, sum(each.get(kind, 0.0) for each in work.values())


def _kind_of(line: Line) -> str:
    """A name of `resources.toml`, or else the opcode."""
    opcode = opcode_of(line)
    return next((name for name, row in _KINDS.items() if opcode.startswith(tuple(row["opcodes"]))), opcode)


def chain_of(explanation: Explanation) -> str:
    """The time of the longest chain of register dependences."""
    time = format_ns(explanation.critical_path)
    return f"{time} for one warp alone: register dependences only, without branches, barriers and shared memory"


def answers_of(explanation: Explanation, max_advice: int) -> list[tuple[str, str]]:
    """Labels and texts of what limits a kernel, how long it takes, what saves time and how many warps it needs."""
    optional = {
        "Grid": grid_of(explanation),
        "Divergence": divergence_of(explanation),
        "Assumed": assumed_of(explanation),
    }
    answers = [("Limited by", limiter_of(explanation)), ("Predicted time", time_of(explanation))]
    answers += [(name, text) for name, text in optional.items() if text] + advice_of(explanation)[:max_advice]
    if (other := explanation.against) is not None:
        answers.append(("Other GPU", f"{gpu_of(other)}: {against_of(explanation, other)}"))
    answers += [("Measured best", faster)] if (faster := faster_of(explanation)) else []
    answers += [("Occupancy", occupancy_of(explanation)), ("Warps needed", warps_of(explanation))]
    answers += [("Note", note) for note in explanation.notes[:1] if explanation.counts == "measured"]
    if explanation.point.limiter == LATENCY:
        answers.append(("Dependence chain", chain_of(explanation)))
        answers += [("Loop-carried", loop_of(explanation))] if any(explanation.loops.values()) else []
    return answers


def advice_of(explanation: Explanation) -> list[tuple[str, str]]:
    """What each advice saves, and its text with both times; one line that says why there is none.

    A measured time outside the bracket makes each saving doubtful: ``Saves 12%?``.
    """
    point, hint = explanation.point, hint_of(explanation)
    is_doubtful = point.measured is not None and not point.low <= point.measured <= point.high
    found = [
        (
            f"Saves {saved_of(each)}{'?' if is_doubtful else ''}",
            f"{change_of(explanation, each)}{each.text}; {each.evidence}",
        )
        for each in explanation.advice
    ]
    is_small = not found or explanation.advice[0].gain < SMALL_GAIN
    if found and explanation.hint and point.limiter == "memory":
        return [("Advice", hint), *found]
    if found and not (explanation.hint and is_small):
        return found
    tried = len(explanation.rejected)
    none = f"None of the {tried} changes" if tried > 1 else "No change"
    none += f" tried saves {MIN_GAIN:.0%} or more"
    return [*found, ("Advice", hint or none)]


def hint_of(explanation: Explanation) -> str:
    """What reduces the work of the resource that limits a kernel, without a predicted saving; empty without one."""
    limiter, kind = explanation.point.limiter, _most_work(explanation)[1]
    hint = _KINDS.get(kind, {}).get("less") or explanation.hint
    if not hint and (hint := _TABLE.get(limiter, {}).get("less", "")):
        hint += _busiest_places(explanation)
    return f"{hint}; the saving is not predicted" if hint else ""


def _busiest_places(explanation: Explanation) -> str:
    """The source lines with most work of the limiting resource, as the end of a sentence; empty without lines."""
    work = _by_source(explanation, lambda line: line.limiting)
    ranked = sorted(((share, place) for place, share in work.items() if place and share > 0), reverse=True)
    named = [f"{place} ({share:.0%})" for share, place in ranked[:MAX_PLACES] if share >= MIN_PLACE]
    return f"; mostly at {', '.join(named)}" if named else ""


def saved_of(advice: Advice) -> str:
    """The time that it saves, such as ``7%``, ``up to 45%``, or ``nothing``."""
    if advice.gain < SAME_TIME:
        return "nothing"
    return f"{'up to ' if advice.is_limit else ''}{advice.gain:.0%}"


def change_of(explanation: Explanation, advice: Advice) -> str:
    """Predicted time now and with the change, ``1.05 ms -> 640 us: ``; empty if it saves nothing."""
    now = explanation.point.predicted
    return "" if advice.gain < SAME_TIME else f"{format_ns(now)} -> {format_ns(now * (1 - advice.gain))}: "


def _longest_wait(explanation: Explanation) -> str:
    """Where a warp waits longest, an instruction or the whole source line that it is of, and for what."""
    hot = next((line for line in hottest(explanation, 1) if line.stall), None)
    if hot is None:
        return ""
    same = [line for line in explanation.lines if line.source_line and _source_of(line) == _source_of(hot)]
    together = sum(line.stall for line in same)
    slowest = cause_of(explanation, hot)
    cause = f", which needs the result of {place_of(slowest)}" if slowest is not None else ""
    if together > 2 * hot.stall:
        place = f"{clean(hot.source_file or '')}:{hot.source_line}"
        return f"{together:.0%} of a warp's time is stalls at {place}, most at {place_of(hot)}{cause}"
    return f"{hot.stall:.0%} of a warp's time is stalls at {place_of(hot)}{cause}"


def cause_of(explanation: Explanation, line: Line) -> Line | None:
    """The slowest instruction that another waits for."""
    producers = (each for each in explanation.lines if each.address in line.waits_for)
    return max(producers, key=lambda each: each.latency or 0.0, default=None)


def _source_of(line: Line) -> tuple[str | None, int | None]:
    return line.source_file, line.source_line


def occupancy_of(explanation: Explanation) -> str:
    """Warps of an SM, and what limits them."""
    point, limits = explanation.point, explanation.occupancy
    text = f"{counted(point.warps_per_sm, 'warp')} per SM"
    if explanation.max_warps:
        share = point.warps_per_sm / explanation.max_warps
        text = f"{share:.0%}, {point.warps_per_sm} of {explanation.max_warps} warps per SM"
        text += " (maximum)" if point.warps_per_sm >= explanation.max_warps else ""
    if resident_warps(explanation) < point.warps_per_sm:
        warps = resident_warps(explanation)
        return f"{counted(warps, 'warp')} per SM: limited by the number of blocks in the grid; theoretical: {text}"
    if not limits or point.warps_per_sm == explanation.max_warps:
        return text
    sizes = {"registers": explanation.registers, "shared": format_bytes_rounded(explanation.shared_bytes)}
    names = [_OCCUPANCY_LIMITS.get(name, clean(name)) for name, each in limits.items() if each == min(limits.values())]
    *first, last = (name.format(**sizes) for name in names)
    return f"{text}; limited by {' and '.join(filter(None, (', '.join(first), last)))}"


def warps_of(explanation: Explanation) -> str:
    """Warps needed for 90 % of the best throughput."""
    if explanation.warps_for_90 is None:
        return "unknown: other occupancies were not predicted"
    needed = min(explanation.warps_for_90, resident_warps(explanation))
    text = f"{counted(needed, 'warp')} per SM for 90% of the best predicted throughput"
    text += " of this grid" if resident_warps(explanation) < explanation.point.warps_per_sm else ""
    own = explanation.point.l1_bytes
    return f"{text}, with an L1 of {format_bytes(own)}" if own and has_different_l1(explanation) else text


def bounds_of(explanation: Explanation) -> list[tuple[str, float, float]]:
    """Resources that are used, the busiest first: name, nanoseconds it needs at least, share of the predicted time."""
    used = sorted(((ns, name) for name, ns in explanation.bounds.items() if ns > 0), reverse=True)
    predicted = explanation.point.predicted
    return [(resource(name), ns, ns / predicted if predicted else 0.0) for ns, name in used]


def loop_of(explanation: Explanation) -> str:
    """The loop with the longest chain from one iteration to the next."""
    name = max(explanation.loops, key=lambda each: explanation.loops[each])
    cycles = explanation.loops[name]
    number = f"{cycles:.3g}" if cycles < CYCLES_WITH_FRACTION else f"{cycles:,.0f}"
    name = brief(name, MAX_NAME_LENGTH)
    return f"{number} cycles per machine-code iteration of the loop at {name} (several source iterations if unrolled)"


def against_of(explanation: Explanation, other: Explanation) -> str:
    """The prediction for another GPU."""
    ratio = other.point.predicted / explanation.point.predicted if explanation.point.predicted else 1.0
    change = f"{abs(ratio - 1):.0%} {'longer' if ratio >= 1 else 'shorter'}"
    change = "the same time" if abs(ratio - 1) < SAME_TIME else change
    return f"{format_ns(other.point.predicted)}, {change}; limited by {limiter_of(other)}"
