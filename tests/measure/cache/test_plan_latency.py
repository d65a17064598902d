"""Brackets of latencies where SMs are at different distances from a cache."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from gpudissect.device.base import Described
from gpudissect.device.kinds import open_device
from gpudissect.device.queue import Deferred
from gpudissect.survey.run import run_survey
from gpudissect.workload import Chase, Path, Timing

NEAREST_L1 = 60  # cycles: slower accesses on the constant path leave the SM
STEPS = (0, 5, 10)  # cycles by which SMs differ


class Uneven(Described):
    """Each chase through constant memory runs on another SM, farther from the caches behind its L1 by a step."""

    def __init__(self, device):
        super().__init__(device, lambda info: info)
        self._numbers = count()

    def run(self, batch):
        return [self._farther(*each) for each in zip(batch, super().run(batch), strict=True)]

    def queue(self):
        return Deferred(self.run)

    def _farther(self, workload, trace):
        if not (isinstance(workload, Chase) and workload.path is Path.CONSTANT and workload.timing is Timing.EACH):
            return trace
        step = STEPS[next(self._numbers) % len(STEPS)]
        cycles = trace.cycles + step * (trace.cycles > NEAREST_L1)
        return replace(trace, arrays={**trace.arrays, "cycles": cycles})


@pytest.fixture(scope="module")
def found():
    with open_device("sim:gtx980") as device:
        even, uneven = (
            run_survey(each, elements={"constant_l1", "constant_l15"}, quick=True) for each in (device, Uneven(device))
        )
    return [{(each.element, each.attribute): each for each in survey.findings} for survey in (even, uneven)]


@pytest.mark.parametrize("key", [("constant_l1", "miss_penalty"), ("constant_l15", "hit_latency")])
def test_brackets_cover_other_sms(found, key):
    even, uneven = (each[key] for each in found)
    assert even.high - even.low < max(STEPS)
    mean = even.value + np.mean(STEPS)
    assert uneven.low <= mean <= uneven.high
    assert uneven.high - uneven.low < even.high - even.low + 2 * max(STEPS) + 1


def test_what_is_the_same_on_all_sms_keeps_its_bracket(found):
    even, uneven = (each["constant_l1", "hit_latency"] for each in found)
    assert (even.low, even.high) == (uneven.low, uneven.high)
