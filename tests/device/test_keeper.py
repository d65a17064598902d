"""`Keeper` keeps the smallest traces, in whatever order they come."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.device.base import Keeper
from gpudissect.trace import Context, Trace
from gpudissect.workload import Launch, LaunchMethod
from gpudissect.workload.digest import digest


def run(batch):
    return [Trace(digest(each), {"nanoseconds": np.zeros(each.runs, np.int64)}, Context("fake")) for each in batch]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(0, 400), st.randoms())
def test_the_smallest_traces_are_kept_in_any_order(sizes, room, random):
    launches = [Launch(method=LaunchMethod.GRAPH, runs=size, repetition=n) for n, size in enumerate(sizes)]
    kept = []
    for _ in range(2):
        keeper = Keeper(SimpleNamespace(run=run), 8 * room)
        for each in launches:
            keeper.run([each, each])
        kept.append(set(keeper))
        random.shuffle(launches)
    assert kept[0] == kept[1]
    smallest = sorted(sizes)
    fitting = max(n for n in range(len(sizes) + 1) if sum(smallest[:n]) <= room)
    assert sorted(each.runs for each in launches if digest(each) in kept[0]) == smallest[:fitting]
