"""Latency of whole laps: delays and the constant cost of a lap do not count."""

import numpy as np

from gpudissect.measure.infer_latency import lap_latency


def test_a_delayed_lap_is_ignored():
    found = lap_latency(np.array([3200] * 14 + [90_000] * 10), 100)
    assert found.cycles == 32
    assert found.low <= 32 <= found.high


def test_the_cost_of_a_lap_cancels_with_a_shorter_chain():
    assert lap_latency(np.array([33 + 28 * 16] * 5), 16, np.array([33 + 28 * 8] * 5), 8).cycles == 28
