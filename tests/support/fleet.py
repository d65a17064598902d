"""Runs of a fleet made from the readings of one card: values spread from card to card, and faults are planted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpudissect.fleet.readings import Reading, Run
from gpudissect.results.compare import Key

SPREADS = {"B/s": 0.005, "ops/s": 0.004}  # relative standard deviations; 0.002 of other units
DRAM = ("dram", "read_bandwidth")


def fleet(model: Run, count: int, seed: int, faults: Mapping[int, Mapping[Key, float]] = {}) -> list[Run]:
    """`count` cards like `model`; `faults` gives relative deviations of some values of some cards."""
    rng = np.random.default_rng(seed)
    return [_card(model, number, rng, faults.get(number, {})) for number in range(count)]


def _card(model: Run, number: int, rng: np.random.Generator, faults: Mapping[Key, float]) -> Run:
    readings = {}
    for key, each in model.readings.items():
        factor = 1 + SPREADS.get(each.unit, 0.002) * rng.standard_normal() + faults.get(key, 0)
        readings[key] = replace(each, value=each.value * factor)
    name = f"node{number // 8} cuda:{number % 8}"
    return replace(model, file=f"{name}.json", card=f"GPU-{number:08x}", label=name, readings=readings)


def readings(values: Sequence[float], key: Key = DRAM, error: float = 0.0, unit: str = "B/s") -> list[Run]:
    """Cards with one value each."""
    return [
        Run(f"{n}.json", f"GPU-{n}", f"cuda:{n}", ("model",), "", {key: Reading(float(value), error, unit)}, {})
        for n, value in enumerate(values)
    ]
