"""Devices without a cache that could be found: no survey may claim one. Their traces are written by hand."""

import numpy as np
import pytest

from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.estimate import Status
from gpudissect.survey.run import run_survey
from gpudissect.trace import Context, Trace
from gpudissect.workload import Path, Timing
from gpudissect.workload.digest import digest

SIZES = (
    "capacity", "segment_size", "line_size", "fetch_granularity", "sets", "ways", "index_function",
    "replacement_policy", "max_miss_rate", "entries", "page_size", "reach",
)  # fmt: skip


class Scripted:
    """Answers every access with the cycles that a function of the chase gives, shape (laps, count)."""

    def __init__(self, cycles):
        self.cycles = cycles
        limits = {Path.GLOBAL: 1 << 28, Path.GLOBAL_L2: 1 << 28, Path.CONSTANT: 1 << 16}
        self.info = DeviceInfo("fake:0", "fake", Origin.SIMULATED, 1, limits)

    def run(self, batch):
        return [Trace(digest(chase), self._arrays(chase), Context("fake")) for chase in batch]

    def _arrays(self, chase):
        given = np.broadcast_to(self.cycles(chase), (chase.laps, chase.order.count)).astype(np.int64)
        if chase.timing is Timing.LAP:
            return {"cycles": given.sum(axis=1)}
        if chase.timing is Timing.COUNT:
            hit, miss = given <= chase.bounds.hit_max, given >= chase.bounds.miss_min
            return {"counts": np.stack([hit.sum(1), miss.sum(1), (~hit & ~miss).sum(1)], axis=1)}
        picks = slice(None) if chase.picks is None else list(chase.picks)
        offsets = np.tile(chase.order.offsets()[picks], chase.laps)
        return {"offsets": offsets, "cycles": given[:, picks].ravel()}


def flat(chase):
    """Every access takes the same: all of it is memory, or all of it is hits."""
    return 400


def ramp(chase):
    """Latency grows with the logarithm of the footprint, and never rests."""
    return 100 + 20 * np.log2(chase.order.span)


def drift(chase):
    """The clock slows down by half while a chase runs."""
    return np.linspace(300, 450, chase.laps * chase.order.count).reshape(chase.laps, chase.order.count)


def slow_drift(chase):
    """The clock swings by a hundredth, and back."""
    swing = 1 + 0.01 * np.sin(np.arange(chase.laps * chase.order.count) / 3000)
    return (400 * swing).reshape(chase.laps, chase.order.count)


def scatter(chase):
    """Any latency at any time."""
    rng = np.random.default_rng(int(digest(chase)[:8], 16))
    return rng.integers(30, 900, (chase.laps, chase.order.count))


def one_slow_access(chase):
    """As `flat`, but for one access of each chase."""
    cycles = np.full((chase.laps, chase.order.count), 400)
    cycles[0, chase.order.count // 2] = 4000
    return cycles


@pytest.mark.parametrize("cycles", [flat, ramp, drift, slow_drift, scatter, one_slow_access])
def test_no_size_is_claimed_where_there_is_no_cache(cycles):
    survey = run_survey(Scripted(cycles))
    assert survey.failures == ()
    claimed = [
        f"{each.element} {each.attribute} = {each.value}"
        for each in survey.findings
        if each.status is Status.FOUND and each.attribute in SIZES
    ]
    assert claimed == []
    assert all(each.reason for each in survey.findings if not each.status.has_value)
