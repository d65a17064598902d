"""Pictures of throughput, banks, instructions, launches, latency hiding and the spectrum, on simulated GPUs.

One picture is of a real GPU, from its result file: simulated SMs all lie near the same part of the L2.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from gpudissect.device.find import open_device
from gpudissect.models import by_key, published
from gpudissect.models.base import Loop
from gpudissect.survey.run import Survey, run_survey
from gpudissect.workload import Access, Instruction, Mix, Step
from making.h200 import values
from making.svg import Axis, Plot

MOST_THREADS = 2048
"""Of one SM, at once."""


@cache
def _survey(spec: str, element: str, quick: bool = False) -> Survey:
    with open_device(f"sim:{spec}") as device:
        return run_survey(device, elements=[element], quick=quick)


def _columns(survey: Survey, name: str) -> dict[str, np.ndarray]:
    series = next(each for each in survey.series if each.name == name)
    return {column: np.array(values) for column, values in series.columns.items()}


def spectrum() -> Plot:
    found = {each.attribute: each for each in _survey("gtx780", "spectrum_global_l2").findings}
    names = ("p1", "p2", "p3", "p4", "p5", "p6")
    values = [found[name].value for name in names]
    numbers = [float(value) if isinstance(value, int | float) else None for value in values]
    plot = Plot(
        "The latency spectrum: cycles of the patterns P1 to P6",
        Axis("pattern", 0, 1, ticks=(2,)),
        Axis("cycles of an access", 0, max(number or 0 for number in numbers) * 1.12),
    )
    notes = ["none" if number is None else f"{number:.0f}" for number in numbers]
    plot.bars([name.upper() for name in names], numbers, "one", notes)
    return plot


def bandwidth() -> Plot:
    columns = _columns(_survey("gtx980", "dram"), "read bandwidth by configuration")
    threads = columns["blocks_per_sm"] * columns["threads"]
    at_once = threads <= MOST_THREADS  # where blocks take turns, what is in flight is less than the numbers say
    in_flight = (threads * columns["ilp"] * columns["width"] / 1024)[at_once]
    found = {each.attribute: each.value for each in _survey("gtx980", "dram").findings}
    plot = Plot(
        "Read bandwidth of memory against bytes in flight: it rises, then rests on a plateau",
        Axis("bytes in flight on each SM, KiB", in_flight.min() / 1.3, in_flight.max() * 1.3, log=True),
        Axis("GB/s", 0, 250, ticks=(0, 50, 100, 150, 200, 250)),
    )
    plot.points(in_flight, columns["rate"][at_once] / 1e9, "one", "one configuration each")
    for attribute, words in (("peak_bandwidth", "clock x bus"), ("read_bandwidth", "the plateau")):
        value = float(found[attribute]) / 1e9
        plot.curve([plot.x.low, plot.x.high], [value, value], "two" if attribute.startswith("peak") else "three")
        plot.say(plot.x.low * 1.1, value + (5 if attribute.startswith("peak") else -14), f"{words}: {value:.0f} GB/s")
    return plot


def banks() -> Plot:
    plot = Plot(
        "Latency of a load of one warp against the stride between its lanes",
        Axis("stride between lanes, words of 4 B", 0, 64, ticks=range(0, 65, 8)),
        Axis("cycles", 0, 100, ticks=(0, 25, 50, 75, 100)),
    )
    columns = _columns(_survey("gtx980", "shared", quick=True), "latency against stride")
    narrow = columns["width"] == 4
    order = np.argsort(columns["stride"][narrow])
    plot.line(columns["stride"][narrow][order], columns["cycles"][narrow][order], "one", "GTX 980: 32 banks of 4 B")
    return plot


def instructions() -> Plot:
    columns = _columns(_survey("gtx980", "ffma"), "rate against warps and chains")
    plot = Plot(
        "Rate of ffma against warps of an SM, with one chain a warp and with several",
        Axis("warps of the SM", 0.9, 72, log=True, ticks=(1, 2, 4, 8, 16, 32, 64)),
        Axis("operations a cycle of one SM", 0, 140, ticks=(0, 32, 64, 96, 128)),
    )
    for kind, chains in (("one", 1), ("two", 2), ("three", 4)):
        own = np.flatnonzero(columns["chains"] == chains)
        own = own[np.argsort(columns["warps"][own])]
        if own.size:
            name = "one chain a warp" if chains == 1 else f"{chains} chains"
            plot.line(columns["warps"][own], columns["rate"][own], kind, name)
    return plot


def launch() -> Plot:
    columns = _columns(_survey("gtx980", "launch"), "time against kernels, kernel")
    plot = Plot(
        "Time of a row of empty kernels against how many there are",
        Axis("kernels, all queued before the first begins", 0, 132, ticks=(1, 32, 64, 96, 128)),
        Axis("µs from a mark before them to one after", 0, 420, ticks=(0, 100, 200, 300, 400)),
    )
    plot.line(columns["kernels"], columns["time"] / 1e3, "one", "the slope is kernel_interval")
    return plot


def l2_map() -> Plot:
    """Measured, not simulated."""
    latencies, parts = values("l2", "latency_by_sm"), values("l2", "partition_by_sm")
    plot = Plot(
        "Mean L2 hit latency of every SM of an H200, coloured by the part of the L2 it lies near",
        Axis("SM", 0, len(latencies), ticks=range(0, len(latencies) + 1, 33)),
        Axis("mean cycles of an L2 hit", 260, 300, ticks=range(260, 301, 10)),
    )
    for kind, part in (("one", 0), ("two", 1)):
        own = np.flatnonzero(parts == part)
        plot.points(own, latencies[own], kind, f"part {part}: {own.size} SMs")
    return plot


MODELS = (("one", "refined", "VV16"), ("two", "hong-kim", "Hong, Kim"), ("three", "agarwal", "Agarwal"))
"""Class, key of `gpudissect.models`, and name of each that is drawn."""


def hiding() -> Plot:
    """Additions between loads from memory, at every occupancy; models given what VV16 prints of this GPU."""
    additions, repeated = 32, 124
    loop, machine = Loop(alpha=additions), published.machines()["gtx980"]
    warps = np.array([1, 2, *range(4, 65, 4)])
    body = (Step(Instruction.LDG), Step(Instruction.FADD, additions))
    with open_device("sim:gtx980") as device:
        traces = device.run(
            [
                Mix(
                    body=body,
                    warps=int(count),
                    block_size=32 * math.gcd(int(count), 4),
                    iterations=repeated,
                    access=Access.STREAMING,
                    footprint=1 << 28,
                )
                for count in warps
            ]
        )
    times = [float(np.mean(trace.end - trace.begin)) for trace in traces]
    rates = np.array([count * repeated * (additions + 1) / time for count, time in zip(warps, times, strict=True)])
    plot = Plot(
        f"Throughput of {additions} additions between two loads, against warps: the simulated GPU and three models",
        Axis("warps of an SM", 0, 65, ticks=range(0, 65, 16)),
        Axis("additions a cycle of one SM", 0, 140, ticks=(0, 32, 64, 96, 128)),
    )
    fine = np.arange(1, 65)
    for kind, key, name in MODELS:
        plot.curve(fine, loop.operations(by_key(key).throughput(machine, loop, fine)), kind, name)
    plot.points(warps, loop.operations(rates), "four", "simulated GPU")
    return plot
