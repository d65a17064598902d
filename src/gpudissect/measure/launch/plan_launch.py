"""What starting kernels costs, and how soon an SM has the next block (VV16 s3.7)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.instructions.mixes import why_no_mix
from gpudissect.measure.launch.infer_launch import (
    ELSEWHERE,
    Duration,
    by_stream,
    elsewhere,
    interval,
    replacement,
    usual,
)
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.series import Series
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Clock, Instruction, Launch, LaunchMethod, Mix, Step
from gpudissect.workload.digest import digest

NAMES = {LaunchMethod.STREAM: "kernel", LaunchMethod.GRAPH: "graph"}
KERNELS = (1, 2, 8, 32, 128)
TURNS = 5  # of a survey, one round of it each: a host's pace wanders over seconds
RUNS = 400
RUNS_OF_MANY = 16
QUANTILES = {0.0: "fastest", 0.25: "lower quartile", 0.5: "median", 0.75: "upper quartile"}
START_METHOD = (
    "{}, by the host's clock until it knows of its end, from compiled code, in several CUDA streams, on "
    f"the quickest of up to eight cores of the host; lower quartile, median of {TURNS} turns of {RUNS} runs; the "
    "bracket holds the fastest run, the upper quartile of the slowest turn, and other processes"
)
STARTED = {
    LaunchMethod.STREAM: "one empty kernel",
    LaunchMethod.GRAPH: "a graph of one empty kernel, ready in the GPU's memory",
}
INTERVAL_METHOD = (
    "what each further empty kernel adds by the GPU's clock, all of them queued before the first begins; lower "
    f"quartile of {RUNS_OF_MANY} CUDA streams, median slope over 1 to 128 kernels, median of {TURNS} turns; each turn "
    "and the slopes between neighbouring numbers lie in the bracket"
)
FROM_THE_HOST = (
    f"the GPU fetches each from the host: in another process it may take up to {ELSEWHERE:g} times as long, or as "
    "short, which is in the bracket"
)
SEVERAL = "in a process that uses several CUDA streams: in one that uses a single one kernels may follow sooner"
OF_THE_HOST = (
    f"the host's work is in it: in another process it may take up to {ELSEWHERE:g} times as long, or as short, which "
    "is in the bracket; another host, or one that does other work besides, takes another time"
)

INSTRUCTION = Instruction.FADD
BLOCK_WARPS, AT_ONCE, ROUNDS = 4, 2, 4
COUNT, ITERATIONS = 64, 16  # about a thousand instructions: long enough that blocks do not all end at once
REPEATS = 3
BLOCK_METHOD = (
    f"{ROUNDS} times as many blocks as run at once; on each SM the k-th that begins after the first ones takes the "
    "place of the k-th that ended (VV16 s3.7); median, 95 % in the bracket"
)
WINDOW = "from the last instruction that is timed to the first one: the end of the one block and the start of the other"


def launch_plan(method: LaunchMethod, bench: Bench, known: Known) -> Plan:
    """Time to start one kernel and one more, ns, by calls or by a graph."""
    name = NAMES[method]
    names = (f"{name}_start", f"{name}_interval")
    if method not in bench.info.launch_methods:
        return Outcome(without(Status.NOT_SUPPORTED, "launch", _why_no_start(method, bench), *names))
    turns, asked = yield from _in_turns(method)
    alone, rows = [turn[0] for turn in turns], [turn[1:] for turn in turns]
    called, queued = (tuple(digest(each) for each in asked if each.clock is clock) for clock in (Clock.HOST, Clock.GPU))
    start = _found(
        names[0], elsewhere(usual(alone)), START_METHOD.format(STARTED[method]), called, (_most(alone), OF_THE_HOST)
    )
    each = interval(KERNELS, rows)
    if each is None:
        (further,) = without(Status.NOT_FOUND, "launch", "more kernels took no longer", names[1])
    else:
        fetched = (FROM_THE_HOST, _by_stream(rows)) if method is LaunchMethod.STREAM else ()
        each = elsewhere(each) if fetched else each
        further = _found(names[1], each, INTERVAL_METHOD, queued, (SEVERAL, *fetched))
    took = tuple(usual(runs).value for runs in zip(*rows, strict=True))
    columns = {"kernels": tuple(map(float, KERNELS)), "time": took}
    series = Series("launch", f"time against kernels, {name}", columns, {"time": "ns"}, queued)
    return Outcome((start, further), series=(_by_turn(name, alone, called), series))


def _by_turn(name: str, turns: Sequence[NDArray[np.int64]], evidence: tuple[str, ...]) -> Series:
    """What a start took, turn by turn."""
    columns: dict[str, tuple[float, ...]] = {"turn": tuple(float(1 + number) for number in range(len(turns)))}
    for quantile, what in QUANTILES.items():
        columns[what] = tuple(float(np.quantile(turn, quantile)) for turn in turns)
    units = dict.fromkeys(QUANTILES.values(), "ns")
    return Series("launch", f"time of a {name}'s start by turn", columns, units, evidence)


def _in_turns(method: LaunchMethod) -> Ask[tuple[list[list[NDArray[np.int64]]], list[Launch]]]:
    """Nanoseconds of one kernel by the host and of every number of them by the GPU, several times over.

    Each turn is a batch of its own.
    """
    turns: list[list[NDArray[np.int64]]] = []
    asked: list[Launch] = []
    for turn in range(TURNS):
        launches = [
            Launch(method=method, runs=RUNS, repetition=turn),
            *(Launch(method=method, kernels=n, runs=RUNS_OF_MANY, repetition=turn, clock=Clock.GPU) for n in KERNELS),
        ]
        traces = yield launches
        turns.append([trace.nanoseconds for trace in traces])
        asked += launches
    return turns, asked


def _by_stream(rows: Sequence[Sequence[NDArray[np.int64]]]) -> str:
    """How streams differ."""
    middle, most = np.quantile(by_stream(KERNELS, rows), (0.5, 1.0))
    return f"half of the streams took up to {middle / 1e3:.2f} us, the slowest {most / 1e3:.2f} us"


def _most(turns: Sequence[NDArray[np.int64]]) -> str:
    """What runs take that somebody waits for, delayed or not, on the core that is quickest."""
    middle, most = np.quantile(np.concatenate(turns), (0.5, 0.95))
    return f"half of these runs took up to {middle / 1e3:.2f} us, 95% up to {most / 1e3:.2f} us"


def _why_no_start(method: LaunchMethod, bench: Bench) -> str:
    if bench.info.launch_methods:
        return f"this device starts no kernels by a {method}"
    return "this device starts no empty kernels"


def _found(
    attribute: str, duration: Duration, method: str, evidence: tuple[str, ...], caveats: tuple[str, ...] = ()
) -> Estimate:  # fmt: skip
    return Estimate(element="launch", attribute=attribute, status=Status.FOUND, value=duration.value,
                    low=duration.low, high=duration.high, confidence=TIMED, method=method,
                    evidence=evidence, caveats=caveats)  # fmt: skip


def replacement_plan(bench: Bench, known: Known) -> Plan:
    """Cycles from the end of a block to the begin of the one in its place."""
    reason = why_no_mix(INSTRUCTION, bench)
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "launch", reason, "block_replacement"))
    mixes = [
        Mix(body=(Step(INSTRUCTION, COUNT),), warps=AT_ONCE * BLOCK_WARPS, block_size=WARP_SIZE * BLOCK_WARPS,
            iterations=ITERATIONS, waves=ROUNDS, repetition=turn)
        for turn in range(REPEATS)
    ]  # fmt: skip
    traces = yield mixes
    waits = [replacement(each.begin, each.end, each.sm, each.block, AT_ONCE) for each in traces]
    told = sorted((wait for wait in waits if wait is not None), key=lambda wait: wait.cycles)
    evidence = tuple(digest(mix) for mix in mixes)
    if len(told) < REPEATS:
        reason = "blocks did not wait for one another: no block was seen to take another's place"
        return Outcome(without(Status.NOT_FOUND, "launch", reason, "block_replacement"))
    middle = told[len(told) // 2]
    found = Estimate(
        element="launch", attribute="block_replacement", status=Status.FOUND, value=middle.cycles,
        low=min(wait.low for wait in told), high=max(wait.high for wait in told), confidence=TIMED,
        method=BLOCK_METHOD, evidence=evidence, caveats=(WINDOW,),
    )  # fmt: skip
    return Outcome((found,))


EXPERIMENTS = (
    Experiment(
        key=Key("launch.block"), element="launch", plan=replacement_plan, emits=("block_replacement",), quick=True
    ),
    *(
        Experiment(
            key=Key(f"launch.{name}"),
            element="launch",
            plan=partial(launch_plan, means),
            emits=(f"{name}_start", f"{name}_interval"),
            quick=True,
        )
        for means, name in NAMES.items()
    ),
)
