"""Chases and prior accesses: valid parameters are accepted, impossible ones refused in one line."""

from dataclasses import replace

import numpy as np
import pytest

from gpudissect.errors import WorkloadError
from gpudissect.workload import Bounds, Chase, Explicit, Path, PriorAccesses, Sequential, Shuffled, Timing

CHAIN = Sequential(16, 64)
PRIOR = PriorAccesses(path=Path.GLOBAL, order=Sequential(4, 64, start=2048))
BOUNDS = Bounds(250, 300, 400)
COUNT = {"timing": Timing.COUNT, "bounds": BOUNDS}
CODE = {"path": Path.CODE, "order": Sequential(8, 128)}
CLUSTER = {"path": Path.CLUSTER}
TMA = {"path": Path.TMA}


def chase(**changes) -> Chase:
    return Chase(**{"path": Path.GLOBAL, "order": CHAIN, "timing": Timing.LAP} | changes)


@pytest.mark.parametrize(
    "changes",
    [
        *({"sm": sm} for sm in (None, 0, 500)),
        *(CLUSTER | {"peer": peer} for peer in (0, 1, 15)),
        CLUSTER | {"timing": Timing.EACH, "picks": (3,)},
        CLUSTER | COUNT,
        TMA,
        TMA | {"flush": True},
        TMA | {"order": Explicit(np.array([0, 48, 16]))},
    ],
)
def test_valid_chases(changes):
    chase(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"timing": Timing.COUNT}, "needs bounds"),
        ({"bounds": BOUNDS}, "other timings have none"),
        ({"picks": (0,)}, "timing 'each'"),
        ({"timing": Timing.EACH, "picks": (16,)}, r"in \[0, 16\)"),
        ({"timing": Timing.EACH, "picks": (1, 1)}, "rising"),
        ({"laps": 0}, "laps >= 1"),
        ({"carveout": 101}, "percentage, got 101"),
        ({"order": Sequential(2**20, 8), "laps": 4000}, "fewer laps"),
        ({"timing": Timing.EACH, "laps": 2**25}, "fewer laps"),
        ({"before": (PriorAccesses(path=Path.GLOBAL, order=Sequential(2**10, 8, 1024), laps=2**22),)}, "fewer laps"),
        ({"order": Sequential(4, 4)}, "multiples of 8"),
        ({"path": Path.SHARED, "order": Explicit(np.array([0, 6]))}, "multiples of 4"),
        ({"before": (PriorAccesses(path=Path.TEXTURE, order=CHAIN),)}, "same word"),
        ({"sm": -1}, "numbered from 0, got -1"),
        (TMA | {"timing": Timing.EACH}, "'lap' only"),
        (TMA | COUNT, "'lap' only"),
        (TMA | {"order": Sequential(16, 8)}, "multiples of 16"),
        (TMA | {"order": Sequential(16, 32, start=8)}, "multiples of 16"),
        (TMA | {"before": (PRIOR,)}, "'before' is not supported on path 'tma'"),
        (CLUSTER | {"before": (PRIOR,)}, "'before' is not supported on path 'cluster': it has no cache"),
        (CLUSTER | {"order": Sequential(16, 4)}, "multiples of 8"),
        (CLUSTER | {"peer": 16}, "rank in a cluster"),
        (CLUSTER | {"peer": -1}, "rank in a cluster"),
        ({"peer": 0}, "option of paths 'cluster', 'peer'"),
        (TMA | {"peer": 2}, "option of paths 'cluster', 'peer'"),
        (CODE | {"order": Shuffled(8, 128, 1)}, "runs in order"),
        (CODE | {"order": Explicit(np.arange(8) * 128)}, "runs in order"),
        (CODE | {"order": Sequential(8, 128, 1024)}, "runs in order"),
        (CODE | {"order": CHAIN}, "runs in order"),
        (CODE | {"order": Sequential(9, 128)}, "units of 1024 B"),
        (CODE | {"timing": Timing.EACH}, "timing 'lap'"),
        (CODE | COUNT, "timing 'lap'"),
        (CODE | {"flush": True}, "no flush"),
        (CODE | {"carveout": 0}, "no carveout"),
        (CODE | {"before": (PRIOR,)}, "no prior accesses"),
    ],
)
def test_impossible_chases_are_refused(changes, message):
    with pytest.raises(WorkloadError, match=message) as caught:
        chase(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(({"path": path}, "through a cache") for path in (Path.CLUSTER, Path.TMA, Path.SHARED, Path.NOTHING)),
        ({"path": Path.CODE}, "runs in order"),
        ({"laps": 0}, "laps >= 1"),
        ({"warp": 32}, "warp < 32"),
        ({"sm": -1}, "sm >= 0"),
        ({"threads": 0}, "at most 16 here"),
        ({"threads": 17}, "at most 16 here"),
        ({"threads": 2, "warp": 1}, "at most 1 here"),
        ({"threads": 1025, "order": Sequential(2048, 8)}, "at most 1024 here"),
        ({"threads": 2, **CODE}, "code by one"),
    ],
)
def test_impossible_prior_accesses_are_refused(changes, message):
    with pytest.raises(WorkloadError, match=message) as caught:
        PriorAccesses(**{"path": Path.GLOBAL, "order": CHAIN} | changes)
    assert "\n" not in str(caught.value)


def test_threads_advance_through_their_parts_at_the_same_pace():
    shared = PriorAccesses(path=Path.GLOBAL, order=Sequential(8, 8), threads=3)
    assert shared.parts.tolist() == [0, 3, 6, 8]
    assert (shared.offsets() // 8).tolist() == [0, 3, 6, 1, 4, 7, 2, 5]
    assert replace(shared, threads=1).offsets().tolist() == shared.order.offsets().tolist()


def test_bounds_must_rise():
    with pytest.raises(WorkloadError):
        Bounds(50, 40, 60)


def test_code_is_separate_from_other_memory():
    prior = PriorAccesses(**CODE)
    for path in (Path.GLOBAL, Path.CONSTANT):
        assert chase(path=path, order=Sequential(8, 128), timing=Timing.EACH, before=(prior, prior)).before
    assert chase(**CODE, warmup=3, laps=4, alone=True, repetition=1).records == 4
