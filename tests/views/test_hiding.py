"""Sentences about latency hiding: they hold the numbers of the result."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpudissect.models.base import Machine, Unit
from gpudissect.results.model import Series
from gpudissect.views.terminal.hiding import answer, single_loads

UNITS = {
    "fadd": Unit(resource="cores", latency=4.0, throughput=1.0),
    "ldg_random": Unit(resource="memory", latency=2000.0, throughput=0.001, bytes=128.0),
}
MACHINE = Machine(name="made up", sms=4, clock_hz=1e9, schedulers=1, warps=8, issue=1.0, units=UNITS)
SINGLE = {"warps": (1.0, 32.0, 64.0), "samples": (100.0,) * 3, "p0": (485.0, 249.0, 247.0)}


def sentences(rates: dict[float | str, dict[int, float]], machine: Machine = MACHINE) -> str:
    rows = [(alpha, float(warps), 1.0, rate) for alpha, curve in rates.items() for warps, rate in curve.items()]
    columns = dict(zip(("alpha", "warps", "chains", "rate"), zip(*rows, strict=True), strict=True))
    return "\n".join(answer(machine, "ldg_random", Series(element="hiding_random", name="x", columns=columns)))


def test_warps_that_are_enough() -> None:
    text = sentences({0.0: {1: 0.00095, 8: 0.001}, "inf": {1: 0.25, 4: 0.95, 8: 1.0}})
    assert "takes 2000 cycles (2000 ns)" in text
    assert "1 warp per SM hides the latency of a load of random words without additions (95% of the peak)." in text
    assert "4 warps hide the latency of additions alone (95% of the peak)." in text
    assert "The most warps, 4, are needed for additions alone: by Little's law 4 warps must compute." in text


def test_warps_that_are_too_few() -> None:
    text = sentences({0.0: {8: 0.001}, 999.0: {8: 0.5}, "inf": {8: 1.0}})
    assert "With 999 additions per load of random words, even 8 warps are too few (50% of the peak with 999)" in text
    assert "2 warps must wait" in text


def test_only_evenly_shared_warp_counts_are_considered() -> None:
    """15 warps reach the target, but schedulers do not share them evenly."""
    four = replace(MACHINE, schedulers=4, warps=32)
    text = sentences({"inf": {14: 0.89, 15: 0.93, 16: 0.99, 17: 0.82, 20: 0.99}, 0.0: {16: 0.001}}, four)
    assert "16 warps hide the latency of additions alone" in text
    assert "4 schedulers" in text


@pytest.mark.parametrize(
    ("columns", "facts"),
    [
        (SINGLE | {"overflow_count": (0.0, 0.0, 4.0)}, [["64 warps", "247 cycles", "485"], ["64 warps", "4.0%"]]),
        (SINGLE | {"p0": (485.0, 480.0, 470.0)}, []),
        (None, []),
    ],
)
def test_single_loads_from_nearer_caches_and_too_slow_ones(columns, facts) -> None:
    series = {} if columns is None else {"single latencies": Series(element="hiding", name="x", columns=columns)}
    found = list(single_loads(series, {}))
    assert len(found) == len(facts)
    assert all(fact in text for text, expected in zip(found, facts, strict=True) for fact in expected)


@pytest.mark.parametrize(
    ("fastest", "cache"), [(64.0, "the L1, whose hits take 32"), (225.0, "the L2, whose hits take 281")]
)
def test_the_cache_that_served_fast_loads_is_named_by_their_latency(fastest: float, cache: str) -> None:
    columns = {"warps": (1.0, 64.0), "samples": (100.0,) * 2, "p0": (494.0, fastest)}
    series = {"single latencies": Series(element="hiding", name="x", columns=columns)}
    (text,) = single_loads(series, {"l1": 32.0, "l2": 281.0})
    assert cache in text and f"took {fastest:.0f} cycles" in text
