"""Accuracy of predicted times over all recorded kernels and occupancies: ``python validation/explain.py``.

Writes docs/validation-explain.md, or with ``--check`` compares it; fails if an error exceeds `MAX_ERROR`. Times were
recorded on the GPUs (``validation/kernels.py``); predictions take the profile of a kernel and the result files of the
same GPU model.
"""

from __future__ import annotations

import lzma
import os
import sys
import tomllib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from explain_text import INTRODUCTION, WARPGROUP_HEAD
from written import write_or_check

from gpudissect.explanation.model.assess import assess
from gpudissect.explanation.model.card import card_of
from gpudissect.explanation.model.facts import facts_of
from gpudissect.explanation.model.predict import roofline, volkov
from gpudissect.explanation.profile import Profile, read_profile
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.machine_code.program import read_program
from gpudissect.results.files import load

ROOT = Path(__file__).parents[1]
RECORDINGS, TABLE = ROOT / "tests" / "recordings" / "kernels", ROOT / "examples" / "kernels" / "kernels.toml"
WARPGROUP = ROOT / "tests" / "recordings" / "warpgroup"
PAGE = ROOT / "docs" / "validation-explain.md"
GPUS = {"h200": "H200", "h100": "H100"}
GROUPS = (
    *("tuning", "held out", "development", "unseen", "second unseen", "third unseen", "fourth unseen", "fifth unseen"),
    *("sixth unseen", "seventh unseen", "eighth unseen", "ninth unseen", "tenth unseen", "eleventh unseen"),
)
MAX_ERROR = 0.35
"""Largest error of a predicted time, relative to the measured one."""
MODELS = ("explain", "Volkov", "roofline")


@dataclass(frozen=True)
class Row:
    """Errors of one kernel on one GPU, by model; shape (points,) each, relative to the measured time."""

    gpu: str
    kernel: str
    half: str
    limiter: str
    errors: dict[str, tuple[float, ...]]


@dataclass(frozen=True)
class Point:
    """Nanoseconds of a kernel at one occupancy: measured, and by each of `MODELS`.

    Of `latency_bound` and `throughput_bound` VV16 (s3.5) takes the larger. The former is the latency of a warp and of
    the replacement of its block (s3.7), for all waves of blocks.
    """

    warps: int  # of an SM
    blocks: int  # of an SM
    clock: float  # of the SMs as recorded, relative to that of the prediction
    largest_carveout: bool  # False: the L1 that the driver chooses
    measured: float
    predicted: dict[str, float]
    latency_bound: float
    throughput_bound: float
    limiter: str


def points_of(gpu: str, kernel: str) -> list[Point]:
    """A recorded kernel at all its occupancies, measured and predicted."""
    return points_of_profile(gpu, read_profile(RECORDINGS / gpu / f"{kernel}.json"))


def points_of_profile(gpu: str, profile: Profile) -> list[Point]:
    """A profile at all its occupancies, measured and predicted for a GPU."""
    card = card_of(load(ROOT / "docs" / "results" / f"{gpu}.json"))
    cubin, machine = profile.machine_code()
    found = assess(read_program(cubin, machine), parse_ptx(profile.ptx()), facts_of(profile, card), card)
    points = []
    for point in profile.sweep:
        largest = point.carveout == 100
        predicted = found.predict(point.blocks_per_sm, largest_carveout=largest)
        latency = found.latency(predicted.requests)
        times = (
            predicted.nanoseconds,
            volkov(predicted, latency, found.launch, card),
            roofline(predicted),
        )
        no_bounds = replace(predicted, bounds={"none": 0.0})
        points.append(
            Point(
                warps=point.warps_per_sm,
                blocks=point.blocks_per_sm,
                clock=(point.sm_clock_hz or card.clock_hz) / card.clock_hz,
                largest_carveout=largest,
                measured=point.ns,
                predicted=dict(zip(MODELS, times, strict=True)),
                latency_bound=volkov(no_bounds, latency, found.launch, card),
                throughput_bound=max(predicted.bounds.values()),
                limiter=predicted.limiter,
            )
        )
    return points


def row_of(gpu: str, kernel: str, half: str) -> Row:
    """The errors of a recorded kernel."""
    points = points_of(gpu, kernel)
    errors = {model: tuple(each.predicted[model] / each.measured - 1 for each in points) for model in MODELS}
    return Row(gpu, kernel, half, points[-1].limiter if points else "", errors)


def percent(value: float) -> str:
    """A share in percent."""
    return f"{100 * value:.1f} %"


def summary(rows: Sequence[Row], model: str) -> str:
    """Columns of a table: mean, median, 90th percentile and maximum of the absolute errors."""
    errors = np.abs(np.concatenate([row.errors[model] for row in rows]))
    numbers = (errors.mean(), np.median(errors), np.quantile(errors, 0.9), errors.max())
    return " | ".join(percent(float(number)) for number in numbers)


def page(rows: Sequence[Row]) -> str:
    """The page."""
    points = sum(len(row.errors[MODELS[0]]) for row in rows)
    every = np.abs(np.concatenate([row.errors["explain"] for row in rows]))
    text = INTRODUCTION.format(
        kernels=len({row.kernel for row in rows}),
        points=points,
        mean=percent(float(every.mean())),
    )
    text += "\n## Absolute errors\n\n| GPU | kernels | model | mean | median | 90th percentile | worst |\n"
    text += "| --- | --- | --- | --- | --- | --- | --- |\n"
    for gpu, name in GPUS.items():
        for half in (*(group for group in GROUPS if group in {row.half for row in rows if row.gpu == gpu}), "all"):
            chosen = [row for row in rows if row.gpu == gpu and half in (row.half, "all")]
            for model in MODELS:
                text += f"| {name} | {half} | {model} | {summary(chosen, model)} |\n"
    text += (
        "\n## By kernel\n\nMean absolute error of `explain`, the error farthest from zero, and what limits the kernel"
    )
    text += " at its own occupancy by the model.\n\n"
    text += "| kernel | group | H200 mean | worst | H100 mean | worst | limiter |\n"
    text += "| --- | --- | --- | --- | --- | --- | --- |\n"
    for kernel in dict.fromkeys(row.kernel for row in rows):
        both = {row.gpu: row for row in rows if row.kernel == kernel}
        cells = []
        for gpu in GPUS:
            cells += _mean_and_worst(both[gpu]) if gpu in both else ("not recorded", "")
        one = both.get("h200", both["h100"])
        text += f"| {kernel} | {one.half} | {' | '.join(cells)} | {one.limiter} |\n"
    return text


def _mean_and_worst(row: Row) -> tuple[str, str]:
    errors = np.array(row.errors["explain"])
    return percent(float(np.abs(errors).mean())), f"{100 * errors[np.abs(errors).argmax()]:+.0f} %"


def warpgroup_section() -> str:
    """Errors of the kernels with warpgroup matrix instructions, by occupancy."""
    text = WARPGROUP_HEAD
    for path in sorted(WARPGROUP.glob("*.json.xz")):
        profile = Profile.model_validate_json(lzma.decompress(path.read_bytes()))
        for point in points_of_profile("h200", profile)[:-1]:
            error = point.predicted["explain"] / point.measured - 1
            in_cycles = (1 + error) / point.clock - 1
            times = (
                f"{point.measured / 1000:.1f} us | {point.predicted['explain'] / 1000:.1f} us | {100 * error:+.0f} %"
            )
            clock = f"{100 * point.clock:.0f} %"
            text += f"| {path.name.partition('.')[0]} | {point.blocks} | {times} | {point.limiter} | {clock} | "
            text += f"{100 * in_cycles:+.0f} % |\n"
    return text


def texts() -> dict[Path, str]:
    """The page of all kernels that are recorded. Raises `SystemExit` if an error exceeds the bar."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))["kernel"]
    jobs = [
        (gpu, each["name"], each["half"])
        for gpu in GPUS
        for each in table
        if (RECORDINGS / gpu / f"{each['name']}.json").exists()
    ]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        rows = list(pool.map(row_of, *zip(*jobs, strict=True)))
    beyond = [f"{row.kernel} ({row.gpu})" for row in rows if max(map(abs, row.errors["explain"])) > MAX_ERROR]
    if beyond:
        raise SystemExit(f"errors of more than {MAX_ERROR:.0%}: {', '.join(beyond)}")
    return {PAGE: page(rows) + warpgroup_section()}


def report() -> str:
    """The page up to the table by kernel."""
    return PAGE.read_text(encoding="utf-8").partition("## By kernel")[0]


if __name__ == "__main__":
    sys.exit(write_or_check(__doc__, __file__, texts, report))
