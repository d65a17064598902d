"""Runs of a fleet made from the readings of one card: values spread from card to card, and faults are planted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpudissect.fleet.readings import Reading, Run
from gpudissect.results.compare import Key

SPREADS = {"B/s": 0.005, "ops/s": 0.004}  # relative standard deviations; 0.002 of other units
DRAM = ("dram", "read_bandwidth")


def fleet(
    model: Run,
    count: int,
    seed: int,
    faults: Mapping[int, Mapping[Key, float]] = {},
    spread: float | None = None,
) -> list[Run]:
    """`count` cards like `model`; `faults` gives relative deviations of some values of some cards.

    `spread` is the relative standard deviation of every value, in place of `SPREADS`.
    """
    rng = np.random.default_rng(seed)
    return [_card(model, number, rng, faults.get(number, {}), spread) for number in range(count)]


def _card(model: Run, number: int, rng: np.random.Generator, faults: Mapping[Key, float], spread: float | None) -> Run:
    readings = {}
    for key, each in model.readings.items():
        width = SPREADS.get(each.unit, 0.002) if spread is None else spread
        factor = 1 + width * rng.standard_normal() + faults.get(key, 0)
        readings[key] = each._replace(value=each.value * factor)
    name = f"node{number // 8} cuda:{number % 8}"
    return replace(model, file=f"{name}.json", card=f"GPU-{number:08x}", label=name, readings=readings)


def readings(values: Sequence[float], key: Key = DRAM, error: float = 0.0, unit: str = "B/s") -> list[Run]:
    """Cards with one value each."""
    return [
        Run(f"{n}.json", f"GPU-{n}", f"cuda:{n}", ("model",), "", {key: Reading(float(value), error, unit)}, {})
        for n, value in enumerate(values)
    ]


def over_time(runs: Sequence[Run]) -> list[Run]:
    """The same card in several runs, a day apart, the first one on 1 January."""
    same = {"card": "GPU-1", "label": "node0 cuda:1"}
    return [replace(run, **same, time=f"2026-01-{n:02d}") for n, run in enumerate(runs, start=1)]
