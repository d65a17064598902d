"""The answer of latency hiding in sentences: numbers that agree with their nouns, shares that are named."""

from __future__ import annotations

from dataclasses import replace

from gpudissect.models.base import Machine, Unit
from gpudissect.results.model import Series
from gpudissect.views.terminal.hiding import answer, of_single_loads

UNITS = {
    "fadd": Unit(resource="cores", latency=4.0, throughput=1.0),
    "ldg_random": Unit(resource="memory", latency=2000.0, throughput=0.001, bytes=128.0),
}
MACHINE = Machine(name="made up", sms=4, clock_hz=1e9, schedulers=1, warps=8, issue=1.0, units=UNITS)


def said(rates: dict[float | str, dict[int, float]]) -> str:
    rows = [(alpha, float(warps), rate) for alpha, curve in rates.items() for warps, rate in curve.items()]
    alphas, warps, found = zip(*rows, strict=True)
    columns = {"alpha": alphas, "warps": warps, "chains": (1.0,) * len(rows), "rate": found}
    return "\n".join(answer(MACHINE, "ldg_random", Series(element="hiding_random", name="x", columns=columns)))


def test_one_warp_hides_and_many_hide() -> None:
    text = said({0.0: {1: 0.00095, 8: 0.001}, "inf": {1: 0.25, 4: 0.95, 8: 1.0}})
    assert "takes 2000 cycles (2000 ns) at best" in text
    assert "1 warp per SM hides the latency of a load of random words at alpha 0 (90 % of the peak)." in text
    assert "4 warps hide the latency of additions alone (90 % of the peak)." in text
    assert "Most are needed at alpha inf: 4. 4 must add at once." in text


def test_what_is_not_enough_is_said_once() -> None:
    text = said({0.0: {8: 0.001}, 999.0: {8: 0.5}, "inf": {8: 1.0}})
    assert "8 are not enough at alpha 999: they reach 50% of the peak, because 2 warps must wait" in text


def test_only_occupancies_that_are_even_count() -> None:
    """15 warps of 4 schedulers may do, yet 17 do worse: what is said holds from 16 on."""
    four = replace(MACHINE, schedulers=4, warps=32)
    rates = {"inf": {14: 0.89, 15: 0.93, 16: 0.99, 17: 0.82, 20: 0.99}, 0.0: {16: 0.001}}
    rows = [(alpha, float(warps), rate) for alpha, curve in rates.items() for warps, rate in curve.items()]
    alphas, warps, found = zip(*rows, strict=True)
    columns = {"alpha": alphas, "warps": warps, "chains": (1.0,) * len(rows), "rate": found}
    text = "\n".join(answer(four, "ldg_random", Series(element="hiding_random", name="x", columns=columns)))
    assert "16 warps hide the latency of additions alone" in text
    assert "each of 4 schedulers equally many warps" in text


def test_single_loads_that_never_came_to_memory_and_those_too_long() -> None:
    columns = {
        "warps": (1.0, 32.0, 64.0),
        "samples": (100.0,) * 3,
        "p0": (485.0, 249.0, 247.0),
        "overflow_count": (0.0, 0.0, 4.0),
    }
    told = {"single latencies": Series(element="hiding", name="single latencies", columns=columns)}
    first, second = of_single_loads(told)
    assert "with 64 warps took 247 cycles; one warp alone had none below 485" in first
    assert second == "With 64 warps 4.0% of them took longer than can be told."
    near = {**columns, "p0": (485.0, 480.0, 470.0)}
    del near["overflow_count"]
    assert not list(of_single_loads({"single latencies": Series(element="hiding", name="x", columns=near)}))
    assert not list(of_single_loads({}))
