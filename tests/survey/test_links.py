"""The order in which links are measured."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from gpudissect.survey.links import HOST, schedule

GPUS = [f"cuda:{number}" for number in range(9)]
ALL = [*permutations(GPUS, 2)]
pairs = st.lists(st.sampled_from([*ALL, *((gpu, HOST) for gpu in GPUS)]), unique=True)
at_once = st.sets(st.sampled_from(ALL))


@given(pairs, at_once)
def test_each_link_is_measured_once_and_no_gpu_twice_at_a_time(pairs, at_once):
    rounds = schedule(pairs, at_once)
    assert sorted(pair for one in rounds for each in one for pair in each) == sorted(pairs)
    for one in rounds:
        gpus = [gpu for each in one for gpu in {gpu for pair in each for gpu in pair}]
        assert len(gpus) == len(set(gpus)), "disjoint"
        assert all(len({frozenset(pair) for pair in each}) == 1 for each in one), "one pair, in both directions"


@given(pairs, at_once)
def test_only_pairs_without_a_shared_link_are_measured_at_once_and_the_host_comes_last(pairs, at_once):
    rounds = schedule(pairs, at_once)
    assert {pair for one in rounds if len(one) > 1 for each in one for pair in each} <= at_once
    to_host = [any(target == HOST for each in one for _, target in each) for one in rounds]
    assert to_host == sorted(to_host)


@given(st.integers(2, 9))
def test_all_pairs_take_as_few_rounds_as_possible(count):
    """Of an odd number of GPUs, one waits in each round."""
    all_pairs = [*permutations(GPUS[:count], 2)]
    assert [len(each) for each in schedule(all_pairs, all_pairs)] == (count - 1 + count % 2) * [count // 2]
