"""A fragment of an Accel-Sim / GPGPU-Sim configuration: what was measured, each line with where it comes from.

It is to be laid over a whole configuration (``gpgpusim.config`` of a GPU of the same generation): nothing here says how
the simulator's pipelines, networks or DRAM timing are set up. The options are those of gpgpu-sim's ``gpgpusim.config``.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudissect.catalogue.capabilities import schedulers
from gpudissect.exports.stated import Known
from gpudissect.results.model import Finding, Result
from gpudissect.results.text import bracket, clean, percent, quantity
from gpudissect.units import WARP_SIZE

_POLICIES = {"lru": "L", "fifo": "F"}  # what the simulator has
_OPCODES = {  # an option wants those of five kinds of instructions; what was measured of them stands in a comment
    "-ptx_opcode_latency_int": ("iadd", "imad"),
    "-ptx_opcode_latency_fp": ("fadd", "fmul", "ffma"),
    "-ptx_opcode_latency_dp": ("dadd", "dfma"),
}
_ONE = {"-ptx_opcode_latency_sfu": "rcp", "-ptx_opcode_latency_tesnor": "mma_f16"}  # spelt so there
_TRACED = {"int": "iadd", "sp": "fadd", "dp": "dadd", "sfu": "rcp"}  # of Accel-Sim's trace.config: one each
Line = tuple[str, str]
"""An option with its value, and the comment above it; without an option the comment alone."""


def accelsim(result: Result) -> str:
    """The text of the fragment. Raises `UsageError` for a result without compute capability."""
    known = Known(result)
    lines = [f"# {clean(result.device.name)[:100]}: made by gpudissect export, {result.device.origin.value}",
             "# Lay it over a whole gpgpusim.config of the same generation.", ""]  # fmt: skip
    for option, comment in (*_chip(known), *_sm(known), *_caches(known), *_latencies(known), *_traced(known)):
        lines += [f"# {clean(comment)[:300]}", *([option] if option else [])]
    return "\n".join(lines) + "\n"


def _found(finding: Finding) -> str:
    within = bracket(finding.low, finding.high, finding.unit)
    said = f"{finding.element} {finding.attribute}: {quantity(finding.value, finding.unit)}"
    return said + (f" ({within}, {percent(finding.confidence)})" if within else "")


def _chip(known: Known) -> Iterator[Line]:
    major, minor = known.capability
    yield f"-gpgpu_compute_capability_major {major}", "stated"
    yield f"-gpgpu_compute_capability_minor {minor}", "stated"
    yield f"-gpgpu_n_clusters {known.result.device.sm_count}", "stated: SMs, one a cluster"
    yield "-gpgpu_n_cores_per_cluster 1", "one SM a cluster"
    core = known.result.conditions.clock_hz or known.fact("clock_hz")
    memory = known.fact("memory_clock_hz")
    if core and memory:
        clocks = ":".join(f"{each / 1e6:.1f}" for each in (core, core, core, memory))
        yield (
            f"-gpgpu_clock_domains {clocks}",
            "SM clock as seen; network and L2 are taken to run at it; memory as stated",
        )


def _sm(known: Known) -> Iterator[Line]:
    if registers := known.fact("registers_per_sm"):
        yield f"-gpgpu_shader_registers {registers:g}", "stated"
    if (threads := known.fact("threads_per_sm")) and (warp := known.fact("warp_size")):
        yield f"-gpgpu_shader_core_pipeline {threads:g}:{warp:g}", "stated"
    if size := known.fact("shared_per_sm"):
        yield f"-gpgpu_shmem_size {size:.0f}", "stated"
    if size := known.fact("shared_per_block"):
        yield f"-gpgpu_shmem_per_block {size:.0f}", "stated"
    if (banks := known.finding("shared", "banks")) is not None:
        yield f"-gpgpu_shmem_num_banks {banks.value}", _found(banks)
    if (size := known.number("l1", "capacity")) and "readonly" in known.shared_with("l1"):
        shared = known.fact("shared_per_sm") or 0
        if size + shared > 0:
            held = f"one array: with nothing shared the L1 held {quantity(size, 'B')}"
            yield "", f"{held}; -gpgpu_unified_l1d_size, of both, is not set here: the whole was not measured"


def _caches(known: Known) -> Iterator[Line]:
    yield from _cache(known, "l1", "-gpgpu_cache:dl1", "S", "T:m:L:{index},A:512:8,16:0,32")
    yield from _cache(known, "icache_l1", "-gpgpu_cache:il1", "N", "R:f:N:{index},S:2:48,4")
    yield from _cache(known, "constant_l1", "-gpgpu_const_cache:l1", "N", "R:f:N:{index},S:2:64,4")
    if (size := known.finding("l2", "capacity")) is not None:
        yield "", f"{_found(size)}: -gpgpu_cache:dl2, of each of its partitions, is not set here: nor are they measured"
    sets, ways, line = (known.finding("l2", name) for name in ("sets", "ways", "line_size"))
    if line is not None:
        yield "", _found(line)
    if sets is not None and ways is not None and line is not None and isinstance(ways.value, int):
        form = f"-gpgpu_cache:dl2 S:SETS:{line.value}:{ways.value},..."
        each = "-gpgpu_n_mem x -gpgpu_n_sub_partition_per_mchannel"
        yield "", f"{_found(sets)}, {ways.value} ways: {form}, SETS of each of {each}, not set here, not measured"


def _cache(known: Known, element: str, option: str, kind: str, rest: str) -> Iterator[Line]:
    """A cache whose sets, ways and line were found; the rest of the line is the simulator's usual, and said to be."""
    sets, ways, line = (known.finding(element, name) for name in ("sets", "ways", "line_size"))
    if any(each is None or not isinstance(each.value, int) for each in (sets, ways, line)):
        size = known.finding(element, "capacity")
        if size is not None:
            yield "", f"{_found(size)}: its sets, ways or line were not found, so {option} is not set here"
        return
    assert sets is not None and ways is not None and line is not None
    policy = known.finding(element, "replacement_policy")
    name = str(policy.value) if policy is not None else "not found"
    index = known.finding(element, "index_function")
    hashed = index is not None and str(index.value).startswith("xor")
    said = f"sets, ways and line as found; replacement {name}" + (
        "" if name in _POLICIES else ", for which LRU stands in"
    )
    said += "; a hashed index, for which the simulator's own stands in" if hashed else ""
    tail = rest.format(index="X" if hashed else "L")
    geometry = f"{sets.value}:{line.value}:{ways.value}"
    yield (
        f"{option} {kind}:{geometry},{_POLICIES.get(name, 'L')}:{tail}",
        f"{said}; write policy and queues are the usual",
    )


def _latencies(known: Known) -> Iterator[Line]:
    for option, element in (
        ("-gpgpu_l1_latency", "l1"),
        ("-gpgpu_smem_latency", "shared"),
        ("-gpgpu_l2_rop_latency", "l2"),
    ):
        if (found := known.finding(element, "hit_latency")) is not None and isinstance(found.value, int | float):
            own = "as a load sees it: take off what the simulator's pipeline adds"
            yield f"{option} {round(found.value)}", f"{_found(found)}, {own}"
    near, far = known.number("l2", "hit_latency"), known.number("dram", "hit_latency")
    if near and far and far > near:
        yield f"-dram_latency {round(far - near)}", "dram hit_latency less that of the L2"
    for option, names in _OPCODES.items():
        each = [f"{name} {value:.4g}" for name in names if (value := known.number(name, "latency")) is not None]
        if each:
            yield (
                "",
                f"{option}, of several kinds, is not set here: cycles to a dependent instruction, {', '.join(each)}",
            )
    for option, name in _ONE.items():
        if (latency := known.finding(name, "latency")) is not None and isinstance(latency.value, int | float):
            yield f"{option} {round(latency.value)}", _found(latency)
    start = known.finding("launch", "kernel_start")
    clock = known.result.conditions.clock_hz
    if start is not None and clock and isinstance(start.value, int | float):
        cycles = round(start.value * clock / 1e9)
        yield f"-gpgpu_kernel_launch_latency {cycles}", f"{_found(start)}: until the host knows that it ended"


def _traced(known: Known) -> Iterator[Line]:
    """Latency and cycles from one instruction to the next of a unit, of which each scheduler has one."""
    count = schedulers(known.result.device.facts)
    for kind, name in _TRACED.items():
        latency, rate = known.number(name, "latency"), known.number(name, "rate")
        if latency and rate:
            every = max(1, round(WARP_SIZE * count / rate))
            yield (
                f"-trace_opcode_latency_initiation_{kind} {round(latency)},{every}",
                f"trace.config (not for gpgpu-sim alone): {name} {latency:.4g} cycles, {rate:.4g} a cycle of an "
                f"SM with {count} schedulers, a unit each",
            )
