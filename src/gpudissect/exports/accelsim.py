"""A fragment of an Accel-Sim / GPGPU-Sim configuration: measured values, each line with its source.

It overlays a whole configuration (``gpgpusim.config`` of a GPU of the same generation): pipelines, networks and DRAM
timing of the simulator are not set. The options are those of gpgpu-sim's ``gpgpusim.config``.

Latencies are comments. They are measured from load to use, or from one instruction to the next; what the simulator's
pipeline, network and DRAM timing take is in them, depends on the configuration, and would count twice. The files that
come with the simulator have net values, too: 20 for the L1 of the V100, which takes 28 cycles.
"""

from collections.abc import Iterator

from gpudissect.catalogue.compute_capability import schedulers
from gpudissect.exports.readings import Lookup
from gpudissect.printable import clean
from gpudissect.results.model import Finding, Result
from gpudissect.results.text import bracket, percent, quantity
from gpudissect.units import WARP_SIZE

_POLICIES = {"lru": "L", "fifo": "F"}  # those that the simulator has
_CACHES = (  # element, option, kind, and the rest of the value: the simulator's usual one
    ("l1", "-gpgpu_cache:dl1", "S", "T:m:L:{index},A:512:8,16:0,32"),
    ("icache_l1", "-gpgpu_cache:il1", "N", "R:f:N:{index},S:2:48,4"),
    ("constant_l1", "-gpgpu_const_cache:l1", "N", "R:f:N:{index},S:2:64,4"),
)
_LATENCIES = (  # option, element and the one before it on the way, and what the simulator adds
    ("-gpgpu_l1_latency", "l1", None, "pipeline"),
    ("-gpgpu_smem_latency", "shared", None, "pipeline"),
    ("-gpgpu_l2_rop_latency", "l2", "l1", "L1, network and L2"),
    ("-dram_latency", "dram", "l2", "network, L2 and DRAM timing"),
)
_OPCODES = {  # an option needs five kinds of instructions; those measured stand in a comment
    "-ptx_opcode_latency_int": ("iadd", "imad"),
    "-ptx_opcode_latency_fp": ("fadd", "fmul", "ffma"),
    "-ptx_opcode_latency_dp": ("dadd", "dfma"),
}
_SINGLE_OPCODES = {"-ptx_opcode_latency_sfu": "rcp", "-ptx_opcode_latency_tesnor": "mma_f16"}  # spelt so there
_TRACED = {"int": "iadd", "sp": "fadd", "dp": "dadd", "sfu": "rcp"}  # of Accel-Sim's trace.config: one each
Line = tuple[str, str]
"""An option with its value, and the comment above it; without an option the comment alone."""


def accelsim(result: Result) -> str:
    """The text of the fragment. Raises `UsageError` for a result without compute capability."""
    lookup = Lookup(result)
    device = result.device
    overlay = "# Overlay it on a whole gpgpusim.config of the same generation."
    note = "# Latencies are not set: choose each so that the simulated pointer chase takes as long as the measured one."
    lines = [f"# {clean(device.name)[:100]}: made by gpudissect export, {device.origin.value}", overlay, note, ""]
    for option, comment in (line for part in (_chip, _sm, _caches, _latencies, _trace_config) for line in part(lookup)):
        lines += [f"# {clean(comment)[:300]}", *([option] if option else [])]
    return "\n".join(lines) + "\n"


def _found(finding: Finding) -> str:
    within = bracket(finding.low, finding.high, finding.unit)
    text = f"{finding.element} {finding.attribute}: {quantity(finding.value, finding.unit)}"
    return text + (f" ({within}, {percent(finding.confidence)})" if within else "")


def _chip(lookup: Lookup) -> Iterator[Line]:
    major, minor = lookup.capability
    yield f"-gpgpu_compute_capability_major {major}", "stated"
    yield f"-gpgpu_compute_capability_minor {minor}", "stated"
    yield f"-gpgpu_n_clusters {lookup.result.device.sm_count}", "stated: SMs, one per cluster"
    yield "-gpgpu_n_cores_per_cluster 1", "one SM per cluster"
    core = lookup.result.conditions.clock_hz or lookup.fact("clock_hz")
    if core and (memory := lookup.fact("memory_clock_hz")):
        clocks = ":".join(f"{clock / 1e6:.1f}" for clock in (core, core, core, memory))
        comment = "SM clock as observed; network and L2 are assumed to run at it; memory as stated"
        yield f"-gpgpu_clock_domains {clocks}", comment


def _sm(lookup: Lookup) -> Iterator[Line]:
    if registers := lookup.fact("registers_per_sm"):
        yield f"-gpgpu_shader_registers {registers:g}", "stated"
    if (threads := lookup.fact("threads_per_sm")) and (warp := lookup.fact("warp_size")):
        yield f"-gpgpu_shader_core_pipeline {threads:g}:{warp:g}", "stated"
    for option, fact in (("-gpgpu_shmem_size", "shared_per_sm"), ("-gpgpu_shmem_per_block", "shared_per_block")):
        if size := lookup.fact(fact):
            yield f"{option} {size:.0f}", "stated"
    if (banks := lookup.finding("shared", "banks")) is not None:
        yield f"-gpgpu_shmem_num_banks {banks.value}", _found(banks)
    if (size := lookup.number("l1", "capacity")) and "readonly" in lookup.shared_with("l1"):
        comment = f"one array: with no shared memory in use the L1 held {quantity(size, 'B')}"
        yield "", f"{comment}; -gpgpu_unified_l1d_size, of both, is not set here: the whole was not measured"


def _caches(lookup: Lookup) -> Iterator[Line]:
    for element, option, kind, rest in _CACHES:
        yield from _cache(lookup, element, option, kind, rest)
    if (size := lookup.finding("l2", "capacity")) is not None:
        yield "", f"{_found(size)}: -gpgpu_cache:dl2, of each of its partitions, is not set here: nor are they measured"
    sets, ways, line = (lookup.finding("l2", name) for name in ("sets", "ways", "line_size"))
    if line is not None:
        yield "", _found(line)
    if sets is not None and ways is not None and line is not None and isinstance(ways.value, int):
        value = f"-gpgpu_cache:dl2 S:SETS:{line.value}:{ways.value},..."
        value += ", SETS of each of -gpgpu_n_mem x -gpgpu_n_sub_partition_per_mchannel, not set here, not measured"
        yield "", f"{_found(sets)}, {ways.value} ways: {value}"


def _cache(lookup: Lookup, element: str, option: str, kind: str, rest: str) -> Iterator[Line]:
    """A cache of which sets, ways and line were found; the rest of the line is the simulator's usual value."""
    found = [lookup.finding(element, name) for name in ("sets", "line_size", "ways")]
    geometry = [finding.value for finding in found if finding is not None and isinstance(finding.value, int)]
    if len(geometry) < len(found):
        if (size := lookup.finding(element, "capacity")) is not None:
            yield "", f"{_found(size)}: its sets, ways or line were not found, so {option} is not set here"
        return
    policy, index = lookup.finding(element, "replacement_policy"), lookup.finding(element, "index_function")
    name = str(policy.value) if policy is not None else "not found"
    is_hashed = index is not None and str(index.value).startswith("xor")
    comment = f"sets, ways and line as found; replacement {name}"
    comment += "" if name in _POLICIES else ", LRU in its place"
    comment += "; a hashed index, the simulator's own in its place" if is_hashed else ""
    rest = rest.format(index="X" if is_hashed else "L")
    value = f"{kind}:{':'.join(map(str, geometry))},{_POLICIES.get(name, 'L')}:{rest}"
    yield f"{option} {value}", f"{comment}; write policy and queues are the usual ones"


def _latencies(lookup: Lookup) -> Iterator[Line]:
    for option, element, nearer, included in _LATENCIES:
        found = lookup.finding(element, "hit_latency")
        if found is None or not isinstance(found.value, int | float):
            continue
        before = lookup.number(nearer, "hit_latency") if nearer else None
        comment = f"{option} is not set here: {_found(found)} from load to use; subtract the simulator's {included}"
        if before is not None and found.value > before:
            comment += f"; {found.value - before:.0f} more than {nearer}, an upper bound"
        yield "", comment
    for option, names in _OPCODES.items():
        cycles = [f"{name} {value:.4g}" for name in names if (value := lookup.number(name, "latency")) is not None]
        if cycles:
            comment = f"{option}, of several kinds, is not set here: cycles to a dependent instruction"
            yield "", f"{comment}, {', '.join(cycles)}"
    for option, name in _SINGLE_OPCODES.items():
        if (latency := lookup.finding(name, "latency")) is not None:
            yield "", f"{option} is not set here: {_found(latency)} to a dependent instruction; subtract the pipeline"
    start, clock = lookup.finding("launch", "kernel_start"), lookup.result.conditions.clock_hz
    if start is not None and clock and isinstance(start.value, int | float):
        comment = f"-gpgpu_kernel_launch_latency is not set here: {_found(start)} from the call until the host"
        yield ("", f"{comment} observes the end, {start.value * clock / 1e9:.0f} cycles, an upper bound")


def _trace_config(lookup: Lookup) -> Iterator[Line]:
    """Latency and issue interval of a unit, of which each scheduler has one."""
    count = round(lookup.number("issue", "schedulers") or schedulers(lookup.result.device.facts))
    for kind, name in _TRACED.items():
        latency, rate = lookup.number(name, "latency"), lookup.number(name, "rate")
        if latency and rate:
            interval = max(1.0, WARP_SIZE * count / rate)
            option = f"-trace_opcode_latency_initiation_{kind}"
            comment = f"{option} of trace.config is not set here: {name} {latency:.4g} cycles to a dependent"
            comment += f" instruction; subtract the pipeline; interval {interval:.0f} on each of {count} schedulers"
            yield "", comment
