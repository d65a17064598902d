"""Barriers by the size of their blocks: latency, and time of an SM for each warp that arrives."""

from dataclasses import replace

import numpy as np

from gpudissect.catalogue.compute_capability import max_block_threads
from gpudissect.device_info import DeviceInfo
from gpudissect.estimate import Series, Status
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.infer_latency import MAX_CLOCK_DRIFT
from gpudissect.measure.instructions.infer_issue import SmTotals, median_duration
from gpudissect.measure.instructions.instructions import max_warps, why_unsupported
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Instruction, Mix, Step
from gpudissect.workload.digest import digest

BLOCK_WARPS = (1, 4, 8, 16, 32)
COUNT, LONG, SHORT = 64, 6, 2  # barriers of an iteration; iterations of one kernel
REPETITIONS = 3
MAX_BLOCKS = 8  # of an SM: every GPU has room for so many
MIN_ERROR_CYCLES = 0.05
ATTRIBUTES = ("block_latency", "arrival_interval")
METHOD = f"barriers that follow one another, {COUNT * LONG} less {COUNT * SHORT}; {{}}; median of {REPETITIONS} runs"
LATENCY_METHOD, INTERVAL_METHOD = METHOD.format("one block on an SM"), METHOD.format("an SM full of blocks")


def barrier_plan(bench: Bench, known: Known) -> Plan:
    """Cycles of a barrier of the largest block, and of an SM for each warp that arrives."""
    if (reason := why_unsupported(Instruction.BARRIER, bench.info)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "barrier", reason, *ATTRIBUTES))
    shapes = _shapes(bench.info)
    mixes = [
        replace(mix, iterations=iterations, repetition=repetition)
        for pair in shapes.values()
        for mix in pair
        for repetition in range(REPETITIONS)
        for iterations in (LONG, SHORT)
    ]
    traces = yield mixes
    alone = [median_duration(trace.begin, trace.end) for trace in traces]
    full = [float(np.median(SmTotals.of(trace).spans)) for trace in traces]
    times = np.reshape([alone, full], (2, len(shapes), 2, REPETITIONS, 2))
    times = (times[..., 0] - times[..., 1]) / (COUNT * (LONG - SHORT))
    warps = np.array([each.warps for _, each in shapes.values()])
    latencies, intervals = times[0, :, 0], times[1, :, 1] / warps[:, None]
    evidence = tuple(map(digest, mixes))
    columns = {
        "warps": tuple(map(float, shapes)),
        "latency": tuple(np.median(latencies, axis=1).tolist()),
        "interval": tuple(np.median(intervals, axis=1).tolist()),
    }
    units = {"latency": "cycles", "interval": "cycles"}
    series = Series("barrier", "cycles of a barrier against warps of a block", columns, units, evidence)
    shared = intervals[np.array(list(shapes)) > 1] if len(shapes) > 1 else intervals
    largest, sizes = max(shapes), ", ".join(str(each) for each in shapes if each > 1 or len(shapes) == 1)
    estimates = []
    for name, values, method, caveat in (
        (
            "block_latency",
            latencies[-1:],
            LATENCY_METHOD,
            f"of a block of {largest} warps, all of which arrive at once",
        ),
        ("arrival_interval", shared, INTERVAL_METHOD, f"blocks of {sizes} warps: median and range"),
    ):
        middle, error = float(np.median(values)), MAX_CLOCK_DRIFT * float(np.median(values)) + MIN_ERROR_CYCLES
        low, high = float(values.min()) - error, float(values.max()) + error
        estimates.append(found("barrier", name, middle, max(0.0, low), high, TIMED, method, evidence, (caveat,)))
    return Outcome(tuple(estimates), series=(series,))


def _shapes(info: DeviceInfo) -> dict[int, tuple[Mix, Mix]]:
    """By warps of a block: one such block on an SM, and as many as it has room for."""
    plain = Mix(body=(Step(Instruction.BARRIER, COUNT),), warps=1, block_size=WARP_SIZE, iterations=LONG, sms=1)
    largest = min(max_block_threads(info.facts) // WARP_SIZE, max_warps(info))
    shapes = {}
    for warps in (each for each in BLOCK_WARPS if each <= largest):
        block = replace(plain, warps=warps, block_size=warps * WARP_SIZE)
        shapes[warps] = block, replace(block, warps=min(max_warps(info) // warps, MAX_BLOCKS) * warps)
    return shapes


EXPERIMENTS = (Experiment(Key("blocks.barrier"), barrier_plan, ATTRIBUTES, element="barrier"),)
