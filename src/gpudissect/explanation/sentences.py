"""What an explanation says in sentences and short texts: one wording for the terminal, the page and notebooks."""

import math
from collections import defaultdict
from collections.abc import Sequence

from gpudissect.explanation.result import MIN_GAIN, Advice, Explanation, Line, Point
from gpudissect.machine_code.names import short_name
from gpudissect.results.text import brief, clean, provenance
from gpudissect.units import WARP_SIZE, format_bytes, format_bytes_rounded, format_ns

LATENCY = "latency"
RESOURCES = {
    "memory": "device memory",
    "l2": "L2 cache",
    "issue": "issue slots",
    "fma": "FMA pipe",
    "imad": "FMA pipe, integer",
    "alu": "ALU pipe",
    "fp16": "FP16 pipe",
    "fp64": "FP64 pipe",
    "xu": "XU pipe",
    "uniform": "uniform pipe",
    "cbu": "CBU pipe",
    "lsu": "LSU pipe",
    "adu": "ADU pipe",
    "tensor": "tensor pipe",
    "tex": "TEX pipe",
}
"""Names of resources as in the Nsight Compute Profiling Guide."""
_LESS_WORK = {
    "memory": "move fewer bytes: smaller types, fewer passes over the arrays, fused kernels",
    "l2": "access the L2 less: coalesce, and reuse data in registers or shared memory",
    "issue": "execute fewer instructions: less divergence, invariants out of loops, wider loads",
    "fma": "execute fewer multiplications and additions, or use tensor cores or a smaller type",
    "imad": "execute fewer integer multiplications: simpler or 32-bit indices, invariants out of loops",
    "alu": "execute fewer integer, logic and comparison instructions, such as division and modulo",
    "fp64": "use float where its precision suffices: FP64 units are few",
    "xu": "execute fewer special functions and conversions: approximations, polynomials, values computed once",
    "lsu": "execute fewer memory instructions: 8 or 16 bytes each, data in registers, several results per thread",
    "tensor": "use a smaller type, or fewer multiplications",
}
"""What reduces the work of a resource."""
_KINDS = {"ATOM": "atomics", "RED": "atomics", "LDL": "local memory", "STL": "local memory"}
"""Instructions by the beginning of their opcode that have a name of their own."""
_LESS_OF_KIND = {
    "atomics": "execute fewer atomics: combine in registers or shared memory first",
    "local memory": "avoid spills: fewer live values, or more registers (__launch_bounds__, -maxrregcount)",
}
CONVERGED_THREADS = 28.0  # active threads of a warp, on average, below which divergence is named
_SAME_TIME = 0.005  # relative difference
MIN_FILL = 0.9
"""Share of the block slots of all waves that a grid fills, below which the grid is named."""
_OCCUPANCY_LIMITS = {
    "warps": "warps per SM",
    "blocks": "blocks per SM",
    "registers": "registers ({registers} per thread)",
    "shared memory": "shared memory ({shared} per block)",
}
NOTE_ON_CURVE = (
    "Lower occupancies use dynamic shared memory, which shrinks the L1: part of a difference may be L1 hits."
)
MIN_EXECUTIONS, MIN_SHARE = 0.001, 0.0005  # below them a number is not shown
MAX_NAME_LENGTH = 60  # characters of the name of a kernel or a GPU


def resource(name: str) -> str:
    """A resource in words."""
    return RESOURCES.get(name) or brief(name, MAX_NAME_LENGTH)


def kernel_of(explanation: Explanation) -> str:
    """Name of the kernel without its parameters."""
    return brief(short_name(explanation.kernel), MAX_NAME_LENGTH)


def gpu_of(explanation: Explanation) -> str:
    """The GPU and the origin of its values, and of the counts if they are not measured.

    Such as ``NVIDIA H200, values MEASURED; counts GIVEN, not measured``.
    """
    text = brief(explanation.gpu, MAX_NAME_LENGTH)
    if explanation.origin is not None:
        text += f", values {provenance(explanation.origin, explanation.recorded_origin)}"
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
    if not capacity or blocks / capacity >= MIN_FILL * math.ceil(blocks / capacity):
        return ""
    waves, sms = blocks / capacity, explanation.sms or 0
    if blocks < sms:
        return f"{blocks} blocks for {sms} SMs: {sms - blocks} SMs are idle"
    if waves < 1:
        return f"{waves:.2f} waves: {blocks} blocks, {capacity} fit on the GPU at once"
    return f"{waves:.2f} waves of {capacity} blocks: the last wave fills {waves % 1:.0%} of the GPU"


def _dimensions(sizes: Sequence[int]) -> str:
    last = max((n for n, size in enumerate(sizes) if size != 1), default=0)
    return " x ".join(map(str, sizes[: last + 1]))


def time_of(point: Point) -> str:
    """Predicted time with its bracket, and the measured one with the error."""
    text = f"{format_ns(point.predicted)}, bracket {format_ns(point.low)} to {format_ns(point.high)}"
    if point.measured is None or point.error is None:
        return f"{text}; not measured"
    text += f"; measured {format_ns(point.measured)}, error {point.error:+.1%}"
    if point.low <= point.measured <= point.high:
        return text
    return f"{text}; outside the bracket: treat the limiter and the savings with caution"


def limiter_of(explanation: Explanation) -> str:
    """What limits the kernel, in one sentence."""
    point, bounds = explanation.point, bounds_of(explanation)
    if point.limiter != LATENCY:
        name = resource(point.limiter)
        busy = explanation.bounds.get(point.limiter, 0.0) / point.predicted if point.predicted else 0.0
        place, kind, share = _most_work(explanation)
        most = f"; {share:.0%} of its work is {f'{kind} at ' if kind else ''}{place}" if share else ""
        return f"{name}: busy for {min(busy, 1.0):.0%} of the time{most}"
    wait = _longest_wait(explanation)
    busiest = f"{bounds[0][0]} busy for {bounds[0][2]:.0%}" if bounds else ""
    return ": ".join(filter(None, (LATENCY, "; ".join(filter(None, (wait, busiest))))))


def divergence_of(explanation: Explanation) -> str:
    """Active threads of a warp on average; empty if nearly all are active, or if they were not counted."""
    active = explanation.active_threads
    if active is None or active >= CONVERGED_THREADS:
        return ""
    return f"on average {active:.3g} of {WARP_SIZE} threads of a warp are active"


def _most_work(explanation: Explanation) -> tuple[str, str, float]:
    """The source line with most work of the limiting resource, what it mainly executes, and the share of the work.

    The kind, an opcode or a name of `_KINDS`, is empty if none has most of the work of that line. Otherwise, the share
    is that of the kind at all lines, and the place states how many more lines have it.
    """
    work = defaultdict[str, dict[str, float]](lambda: defaultdict(float))  # by source line and opcode
    for line in explanation.lines:
        opcode = opcode_of(line)
        kind = next((name for start, name in _KINDS.items() if opcode.startswith(start)), opcode)
        work[source_of(line) or address_of(line.address)][kind] += _work_of(line, explanation.point.limiter)
    totals = {place: sum(each.values()) for place, each in work.items()}
    place = max(totals, key=lambda each: totals[each], default="")
    if not totals or not totals[place]:
        return "", "", 0.0
    kind = max(work[place], key=lambda each: work[place][each])
    if work[place][kind] <= totals[place] / 2:
        return place, "", totals[place] / sum(totals.values())
    of_kind = [each[kind] for each in work.values() if each.get(kind)]
    name = "line" if ":" in place else "instruction"
    more = f" and {len(of_kind) - 1} more {name}{'s' if len(of_kind) > 2 else ''}" if len(of_kind) > 1 else ""
    return place + more, kind, sum(of_kind) / sum(totals.values())


def _work_of(line: Line, name: str) -> float:
    """What an instruction takes of a resource, in any unit."""
    behind_l1 = line.executed * (line.sectors or 0.0) * (1 - (line.l1_hits or 0.0))
    if name == "memory":
        return behind_l1 * (1 - (line.l2_hits or 0.0))
    if name == "l2":
        return behind_l1
    if name == "issue":
        return line.executed
    return line.executed * line.issue_cycles if line.unit == name else 0.0


def chain_of(explanation: Explanation) -> str:
    """The longest chain of dependent instructions."""
    chain = "longest chain of register dependences in one warp, with unloaded latencies; no barriers, no busy units"
    return f"{format_ns(explanation.critical_path)}: {chain}"


def advice_of(explanation: Explanation) -> list[tuple[str, str]]:
    """What each advice saves, and its text; one line that says why there is none."""
    if explanation.advice:
        return [(f"Saves {saved_of(each)}", f"{each.text}; {each.evidence}") for each in explanation.advice]
    limiter, kind = explanation.point.limiter, _most_work(explanation)[1]
    hint = _LESS_OF_KIND.get(kind) or _LESS_WORK.get(limiter)
    if limiter != LATENCY and hint:
        return [("Advice", f"{hint}; the saving is not predicted")]
    return [("Advice", f"none of {len(explanation.rejected)} changes tried saves {MIN_GAIN:.0%}")]


def saved_of(advice: Advice) -> str:
    """The time that it saves, such as ``7%``, ``up to 45%``, or ``nothing``."""
    if advice.gain < _SAME_TIME:
        return "nothing"
    return f"{'up to ' if advice.is_limit else ''}{advice.gain:.0%}"


def _longest_wait(explanation: Explanation) -> str:
    """Where a warp waits longest, an instruction or the whole source line that it is of, and for what."""
    hot = next((line for line in hottest(explanation, 1) if line.stall), None)
    if hot is None:
        return ""
    same = [line for line in explanation.lines if line.source_line and _source_of(line) == _source_of(hot)]
    together = sum(line.stall for line in same)
    producers = {line.address: line for line in explanation.lines if line.address in hot.waits_for}
    slowest = max(producers.values(), key=lambda line: line.latency or 0.0, default=None)
    cause = f" for {place_of(slowest)}" if slowest is not None else ""
    if together > 2 * hot.stall:
        place = f"{clean(hot.source_file or '')}:{hot.source_line}"
        return f"a warp waits {together:.0%} of its time at {place}, such as at {place_of(hot)}{cause}"
    return f"a warp waits {hot.stall:.0%} of its time at {place_of(hot)}{cause}"


def _source_of(line: Line) -> tuple[str | None, int | None]:
    return line.source_file, line.source_line


def occupancy_of(explanation: Explanation) -> str:
    """Warps of an SM, and what limits them."""
    point, limits = explanation.point, explanation.occupancy
    text = f"{point.warps_per_sm} warps per SM"
    if explanation.max_warps:
        share = point.warps_per_sm / explanation.max_warps
        text = f"{share:.0%}, {point.warps_per_sm} of {explanation.max_warps} warps per SM"
        text += " (maximum)" if point.warps_per_sm >= explanation.max_warps else ""
    resident = math.ceil(math.prod(explanation.grid) / explanation.sms) if explanation.sms else point.blocks_per_sm
    if resident < point.blocks_per_sm:
        warps = resident * point.warps_per_sm // point.blocks_per_sm
        return f"{warps} warps per SM: limited by the number of blocks in the grid; theoretical: {text}"
    if not limits or point.warps_per_sm == explanation.max_warps:
        return text
    sizes = {"registers": explanation.registers, "shared": format_bytes_rounded(explanation.shared_bytes)}
    names = [_OCCUPANCY_LIMITS.get(name, clean(name)) for name, each in limits.items() if each == min(limits.values())]
    *first, last = (name.format(**sizes) for name in names)
    return f"{text}; limited by {' and '.join(filter(None, (', '.join(first), last)))}"


def warps_of(explanation: Explanation) -> str:
    """Warps needed for 90 % of the best throughput."""
    if explanation.warps_for_90 is None:
        return "not known: no curve over occupancies"
    return f"{explanation.warps_for_90} warps per SM reach 90 % of the best predicted throughput"


def bounds_of(explanation: Explanation) -> list[tuple[str, float, float]]:
    """Resources that are used, the busiest first: name, nanoseconds it needs at least, share of the predicted time."""
    used = sorted(((ns, name) for name, ns in explanation.bounds.items() if ns > 0), reverse=True)
    predicted = explanation.point.predicted
    return [(resource(name), ns, ns / predicted if predicted else 0.0) for ns, name in used]


def loop_of(explanation: Explanation) -> str:
    """The loop with the longest chain from one iteration to the next; empty without a loop."""
    name = max(explanation.loops, key=lambda each: explanation.loops[each], default="")
    if not name or not explanation.loops[name]:
        return "none"
    return f"{explanation.loops[name]:.4g} cycles per iteration of the loop at {brief(name, MAX_NAME_LENGTH)}"


def against_of(explanation: Explanation, other: Explanation) -> str:
    """The prediction for another GPU."""
    ratio = other.point.predicted / explanation.point.predicted if explanation.point.predicted else 1.0
    change = f"{ratio:.2f} x the time" if ratio >= 1 else f"{1 / ratio:.2f} x as fast"
    change = "the same time" if abs(ratio - 1) < _SAME_TIME else change
    return f"{format_ns(other.point.predicted)}, {change}; limited by {limiter_of(other)}"


def hottest(explanation: Explanation, count: int) -> list[Line]:
    """Instructions at which a warp spends most time, the first `count`."""
    ranked = sorted(explanation.lines, key=lambda line: (-line.stall - line.contended, line.address))
    return [line for line in ranked[:count] if line.stall + line.contended > 0]


def executed_lines(explanation: Explanation) -> list[Line]:
    """The machine code by address, without the padding behind the last instruction that a warp executes."""
    lines = sorted(explanation.lines, key=lambda line: line.address)
    last = max((n for n, line in enumerate(lines) if line.executed > 0), default=-1)
    return lines[: last + 1]


def executions_of(line: Line) -> str:
    """Executions by a warp, on average."""
    return f"{line.executed:.4g}" if line.executed >= MIN_EXECUTIONS or not line.executed else f"<{MIN_EXECUTIONS:g}"


def number_of(value: float | None) -> str:
    """A number in four digits; empty without one."""
    return "" if value is None else f"{value:.4g}"


def hits_of(line: Line) -> tuple[str, str]:
    """Hit rates in the L1 and, of its misses, in the L2; empty for other instructions and for shared memory."""
    rates = (line.l1_hits, line.l2_hits) if line.sectors else (None, None)
    return "" if rates[0] is None else f"{rates[0]:.0%}", "" if rates[1] is None else f"{rates[1]:.0%}"


def share_of(share: float) -> str:
    """A share in percent; empty if it rounds to zero."""
    return f"{share:.1%}" if share >= MIN_SHARE else ""


def place_of(line: Line) -> str:
    """Opcode, address and source line: ``LDG.E (0x0010, add.cu:4)``."""
    source = source_of(line)
    return f"{opcode_of(line)} ({address_of(line.address)}{', ' if source else ''}{source})"


def opcode_of(line: Line) -> str:
    """The opcode with its modifiers, without a predicate."""
    words = line.text.split()
    return clean(next((word for word in words if not word.startswith("@")), ""))


def source_of(line: Line) -> str:
    """File name and number of the source line; empty if not known."""
    if line.source_line is None:
        return ""
    return clean(f"{(line.source_file or '').rpartition('/')[2]}:{line.source_line}")


def address_of(address: int) -> str:
    """An address in the kernel, in hexadecimal."""
    return f"0x{address:04x}"
