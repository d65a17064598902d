"""The cost of starting kernels, and how soon an SM gets the next block (VV16 s3.7)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gpudissect.device_info import Origin
from gpudissect.estimate import Estimate, Series, Status
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.instructions.instructions import why_unsupported
from gpudissect.measure.launch.infer_launch import (
    PROCESS_FACTOR,
    Duration,
    Ints,
    block_replacement,
    kernel_interval,
    kernel_interval_by_run,
    undelayed_duration,
    widened_for_processes,
)
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Clock, Instruction, Launch, LaunchMethod, Mix, Step
from gpudissect.workload.digest import digest

NAMES = {LaunchMethod.STREAM: "kernel", LaunchMethod.GRAPH: "graph"}
KERNELS = (1, 2, 8, 32, 128)
REPETITIONS = 5  # each a batch of its own: a host's pace drifts over seconds
START_RUNS, INTERVAL_RUNS = 400, 16
QUANTILES = {0.0: "fastest", 0.25: "lower quartile", 0.5: "median", 0.75: "upper quartile"}
STARTED = {
    LaunchMethod.STREAM: "one empty kernel",
    LaunchMethod.GRAPH: "a graph of one empty kernel, ready in the GPU's memory",
}
START_METHOD = (
    "{}, by the host's clock from the call until the host observes its end; lower quartile, median of "
    f"{REPETITIONS} repetitions of {START_RUNS} runs; the bracket holds the fastest run, the upper quartile of the "
    "slowest repetition, and other processes"
)
INTERVAL_METHOD = (
    "time that each further empty kernel adds by the GPU's clock, all of them queued before the first begins; lower "
    f"quartile of {INTERVAL_RUNS} runs, median slope over 1 to 128 kernels, median of {REPETITIONS} "
    "repetitions; the bracket holds each repetition and the slopes between neighbouring counts"
)
FETCHED = (
    f"the GPU fetches each kernel from the host: other processes may differ by a factor of {PROCESS_FACTOR:g}, which "
    "is in the bracket"
)
SEVERAL_STREAMS = "in a process that uses several CUDA streams: with a single one kernels may follow each other faster"
HOST_TIME = (
    f"includes work of the host: other processes may differ by a factor of {PROCESS_FACTOR:g}, which is in the "
    "bracket; a different or busy host takes another time"
)

INSTRUCTION = Instruction.FADD
BLOCK_WARPS, RESIDENT_BLOCKS, WAVES = 4, 2, 4
COUNT, ITERATIONS = 64, 16  # about a thousand instructions: long enough that blocks do not all end at once
REPLACEMENT_REPETITIONS = 3
REPLACEMENT_METHOD = (
    f"{WAVES} waves of blocks; on each SM the k-th block that begins after the first ones replaces the k-th that ended "
    "(VV16 s3.7); median, 95 % in the bracket"
)
REPLACEMENT_CAVEAT = "from the last timed instruction to the first: includes the end of a block, the start of the next"

STORE_WAVES = 64
STORE_METHOD = (
    f"{STORE_WAVES} waves of blocks that store their times when they end, less as many of which only the last does, "
    f"per wave; median and range of {REPLACEMENT_REPETITIONS} runs of either"
)
STORE_CAVEAT = "five stores and a reduction of one thread of each warp, in the L2"
STORE_ERROR_NS = 64.0  # of both times: two steps of the global timer of an H200
SIMULATED = "blocks of simulated GPUs store nothing"


def launch_plan(method: LaunchMethod, bench: Bench, known: Known) -> Plan:
    """Time to start one kernel, and one more, ns, by calls or by a graph."""
    name = NAMES[method]
    start_name, interval_name = names = (f"{name}_start", f"{name}_interval")
    if method not in bench.info.launch_methods:
        by_method = f"kernels by a {method}" if bench.info.launch_methods else "empty kernels"
        return Outcome(without(Status.NOT_SUPPORTED, "launch", f"this device starts no {by_method}", *names))
    launches, starts, rows = yield from _measure(method)
    started, queued = (tuple(digest(n) for n in launches if n.clock is clock) for clock in (Clock.HOST, Clock.GPU))
    median, slowest = np.quantile(np.concatenate(starts), (0.5, 0.95))
    spread = f"half of these runs took up to {median / 1e3:.2f} us, 95% up to {slowest / 1e3:.2f} us"
    start_method = START_METHOD.format(STARTED[method])
    duration = widened_for_processes(undelayed_duration(starts))
    start = _estimate(start_name, duration, start_method, started, (spread, HOST_TIME))
    interval = kernel_interval(KERNELS, rows)
    if interval is None:
        (further,) = without(Status.NOT_FOUND, "launch", "more kernels took no longer", interval_name)
    else:
        caveats: tuple[str, ...] = (SEVERAL_STREAMS,)
        if method is LaunchMethod.STREAM:
            median, slowest = np.quantile(kernel_interval_by_run(KERNELS, rows), (0.5, 1.0))
            spread = f"half of the runs took up to {median / 1e3:.2f} us, the slowest {slowest / 1e3:.2f} us"
            interval, caveats = widened_for_processes(interval), (*caveats, FETCHED, spread)
        further = _estimate(interval_name, interval, INTERVAL_METHOD, queued, caveats)
    times = tuple(undelayed_duration(runs).value for runs in zip(*rows, strict=True))
    columns = {"kernels": tuple(map(float, KERNELS)), "time": times}
    series = Series("launch", f"time against kernels, {name}", columns, {"time": "ns"}, queued)
    return Outcome((start, further), series=(_starts_series(name, starts, started), series))


def _measure(method: LaunchMethod) -> Ask[tuple[list[Launch], list[Ints], list[list[Ints]]]]:
    """The launches, then nanoseconds: of one kernel by the host's clock, of every count by the GPU's; by repetition."""
    launches: list[Launch] = []
    rows: list[list[Ints]] = []
    for repetition in range(REPETITIONS):
        start = Launch(method=method, runs=START_RUNS, repetition=repetition)
        batch = [start, *(replace(start, kernels=n, runs=INTERVAL_RUNS, clock=Clock.GPU) for n in KERNELS)]
        traces = yield batch
        rows.append([trace.nanoseconds for trace in traces])
        launches += batch
    return launches, [row[0] for row in rows], [row[1:] for row in rows]


def _starts_series(name: str, starts: Sequence[Ints], evidence: tuple[str, ...]) -> Series:
    columns = {"repetition": tuple(float(1 + number) for number in range(len(starts)))}
    for quantile, label in QUANTILES.items():
        columns[label] = tuple(float(np.quantile(runs, quantile)) for runs in starts)
    units = dict.fromkeys(QUANTILES.values(), "ns")
    return Series("launch", f"start time of a {name} by repetition", columns, units, evidence)


def replacement_plan(bench: Bench, known: Known) -> Plan:
    """Cycles from the end of a block to the begin of its successor."""
    if (reason := why_unsupported(INSTRUCTION, bench.info)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "launch", reason, "block_replacement"))
    mixes = [replace(_mix(WAVES), repetition=repetition) for repetition in range(REPLACEMENT_REPETITIONS)]
    traces = yield mixes
    waits = [block_replacement(trace.begin, trace.end, trace.sm, trace.block, RESIDENT_BLOCKS) for trace in traces]
    kept = sorted((wait for wait in waits if wait is not None), key=lambda wait: wait.cycles)
    if len(kept) < REPLACEMENT_REPETITIONS:
        reason = "no block was observed to wait for the place of another"
        return Outcome(without(Status.NOT_FOUND, "launch", reason, "block_replacement"))
    bracket = Duration(kept[len(kept) // 2].cycles, min(wait.low for wait in kept), max(wait.high for wait in kept))
    evidence = tuple(map(digest, mixes))
    return Outcome((_estimate("block_replacement", bracket, REPLACEMENT_METHOD, evidence, (REPLACEMENT_CAVEAT,)),))


def store_plan(bench: Bench, known: Known) -> Plan:
    """Cycles by which the last stores of a block delay its successor."""
    reason = why_unsupported(INSTRUCTION, bench.info)
    if reason is None and Origin.SIMULATED in (bench.info.origin, bench.info.recorded_origin):
        reason = SIMULATED
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "launch", reason, "store_wait"))
    mixes = [
        replace(_mix(STORE_WAVES), silent=silent, repetition=repetition)
        for repetition in range(REPLACEMENT_REPETITIONS)
        for silent in (False, True)
    ]
    traces = yield mixes
    clocks = [trace.context.clock_hz for trace in traces]
    ghz = float(np.median([clock for clock in clocks if clock] or [0.0])) / 1e9
    times = np.reshape([float(trace.nanoseconds[0]) for trace in traces], (-1, 2))
    waits = (times[:, 0] - times[:, 1]) * ghz / (STORE_WAVES - 1)
    evidence, error = tuple(map(digest, mixes)), STORE_ERROR_NS * ghz / (STORE_WAVES - 1)
    if np.median(waits) <= 0:
        reason = "blocks that store take no longer"
        return Outcome(without(Status.NOT_FOUND, "launch", reason, "store_wait", evidence=evidence))
    low, high = max(0.0, float(waits.min()) - error), float(waits.max()) + error
    wait = Duration(float(np.median(waits)), low, high)
    return Outcome((_estimate("store_wait", wait, STORE_METHOD, evidence, (STORE_CAVEAT,)),))


def _mix(waves: int) -> Mix:
    warps, block_size = RESIDENT_BLOCKS * BLOCK_WARPS, WARP_SIZE * BLOCK_WARPS
    body = (Step(INSTRUCTION, COUNT),)
    return Mix(body=body, warps=warps, block_size=block_size, iterations=ITERATIONS, waves=waves)


def _estimate(
    attribute: str, duration: Duration, method: str, evidence: tuple[str, ...], caveats: tuple[str, ...]
) -> Estimate:
    value, low, high = duration.value, duration.low, duration.high
    return found("launch", attribute, value, low, high, TIMED, method, evidence, caveats)


_experiment = partial(Experiment, element="launch")
EXPERIMENTS = (
    _experiment(Key("launch.block"), replacement_plan, ("block_replacement",)),
    Experiment(Key("stores.launch"), store_plan, ("store_wait",)),
    *(
        _experiment(Key(f"launch.{name}"), partial(launch_plan, method), (f"{name}_start", f"{name}_interval"))
        for method, name in NAMES.items()
    ),
)
