"""The answer of latency hiding in sentences: numbers that agree with their nouns, shares that are named."""

from __future__ import annotations

from gpudissect.models.base import Machine, Unit
from gpudissect.report.hiding import answer
from gpudissect.report.result import Series

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
