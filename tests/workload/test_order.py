"""Orders: permutations are permutations, the same everywhere; bad ones are refused when they are made."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.errors import WorkloadError
from gpudissect.workload import Bounds, Chase, Explicit, Path, PriorAccesses, Sequential, Shuffled, Timing
from gpudissect.workload.order import permutation


@given(st.integers(1, 5000), st.integers(0, 2**32 - 1))
def test_permutation_visits_everything_once(count, seed):
    assert np.array_equal(np.sort(permutation(count, seed)), np.arange(count))


def test_permutation_is_frozen():
    assert permutation(20, 1).tolist() == [15, 17, 19, 4, 8, 2, 11, 3, 13, 12, 7, 16, 9, 10, 1, 0, 18, 5, 14, 6]


def test_long_permutation_has_no_constant_stride():
    steps = np.diff(permutation(65536, 3))
    assert np.mean(steps == np.median(steps)) < 0.01


@given(st.integers(1, 300), st.integers(1, 512), st.integers(0, 4096))
def test_shuffled_visits_what_sequential_visits(count, stride, start):
    shuffled, plain = Shuffled(count, stride, 7, start), Sequential(count, stride, start)
    assert np.array_equal(np.sort(shuffled.offsets()), plain.offsets())
    assert shuffled.span == plain.span == start + count * stride


def code(**changed):
    return Chase(**{"path": Path.CODE, "order": Sequential(8, 128), "timing": Timing.LAP} | changed)


@pytest.mark.parametrize("make", [
    lambda: Sequential(0, 32), lambda: Sequential(4, 0), lambda: Sequential(4, 4, -1), lambda: Shuffled(4, 4, -1),
    lambda: Explicit(np.array([0, 8, 0])), lambda: Explicit(np.array([-8])), lambda: Explicit(np.array([0.5])),
    lambda: Explicit(np.array([], int)),
    lambda: Bounds(50, 40, 60),
    lambda: Chase(path=Path.GLOBAL, order=Sequential(4, 8), timing=Timing.COUNT),
    lambda: Chase(path=Path.GLOBAL, order=Sequential(4, 8), timing=Timing.LAP, picks=(0,)),
    lambda: Chase(path=Path.GLOBAL, order=Sequential(4, 8), timing=Timing.EACH, picks=(4,)),
    lambda: Chase(path=Path.GLOBAL, order=Sequential(4, 8), timing=Timing.EACH, picks=(1, 1)),
    lambda: Chase(path=Path.GLOBAL, order=Sequential(4, 8), timing=Timing.LAP, laps=0),
    lambda: Chase(path=Path.GLOBAL, order=Sequential(4, 8), timing=Timing.LAP, carveout=101),
    lambda: Chase(path=Path.GLOBAL, order=Sequential(2**20, 8), timing=Timing.LAP, laps=4000),
    lambda: Chase(path=Path.GLOBAL, order=Sequential(4, 8), timing=Timing.EACH, laps=2**25),
    lambda: Chase(path=Path.GLOBAL, order=Sequential(4, 8), timing=Timing.LAP,
                  before=(PriorAccesses(path=Path.GLOBAL, order=Sequential(2**20, 8), laps=4000),)),
    lambda: Chase(path=Path.GLOBAL, order=Sequential(4, 4), timing=Timing.LAP),
    lambda: Chase(path=Path.SHARED, order=Explicit(np.array([0, 6])), timing=Timing.LAP),
    lambda: Chase(path=Path.GLOBAL, order=Sequential(4, 32), timing=Timing.LAP,
                  before=(PriorAccesses(path=Path.TEXTURE, order=Sequential(4, 32)),)),
    *(partial(code, **wrong) for wrong in (
        {"order": Shuffled(8, 128, 1)}, {"order": Explicit(np.arange(8) * 128)}, {"order": Sequential(8, 128, 1024)},
        {"order": Sequential(16, 64)}, {"order": Sequential(9, 128)}, {"timing": Timing.EACH}, {"flush": True},
        {"timing": Timing.COUNT, "bounds": Bounds(1, 2, 3)}, {"carveout": 0},
        {"before": (PriorAccesses(path=Path.GLOBAL, order=Sequential(4, 8)),)},
    )),
    lambda: PriorAccesses(path=Path.CODE, order=Sequential(4, 8)),
    lambda: Sequential(4.5, 8),
    lambda: Sequential("4", 8),
    lambda: PriorAccesses(path=Path.SHARED, order=Sequential(4, 8)),
    lambda: PriorAccesses(path=Path.GLOBAL, order=Sequential(4, 8), laps=0),
    lambda: PriorAccesses(path=Path.GLOBAL, order=Sequential(4, 8), warp=32),
    lambda: PriorAccesses(path=Path.GLOBAL, order=Sequential(4, 8), sm=-1),
])  # fmt: skip
def test_impossible_workloads_are_refused_in_one_line(make):
    with pytest.raises(WorkloadError) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_code_is_other_memory():
    turn = PriorAccesses(path=Path.CODE, order=Sequential(8, 128))
    for path in (Path.GLOBAL, Path.CONSTANT):
        assert Chase(path=path, order=Sequential(8, 128), timing=Timing.EACH, before=(turn, turn)).before
    assert code(warmup=3, laps=4, alone=True, repetition=1).records == 4


def test_explicit_keeps_its_own_copy():
    given_offsets = np.array([0, 64, 8])
    order = Explicit(given_offsets)
    given_offsets[0] = 999
    assert order.offsets().tolist() == [0, 64, 8]
