"""Caches that hold lines of another GPU's memory, from latencies of known hierarchies."""

from hypothesis import given
from hypothesis import strategies as st

from gpudissect.measure.infer_latency import Latency
from gpudissect.measure.links.plan_caching import OTHER_L2, OWN_L1, OWN_L2, Repeated, holding_caches

flags = st.booleans()


def within(cycles, error):
    return Latency(cycles, cycles * (1 - error), cycles * (1 + error))


@given(
    in_l1=flags,
    in_l2=flags,
    in_other=flags,
    link=st.floats(500, 5000),
    memory=st.floats(1.1, 2),
    l1=st.floats(0.02, 0.1),
    l2=st.floats(0.15, 0.5),
    error=st.floats(0.001, 0.03),
)
def test_every_combination_of_caches_is_found(in_l1, in_l2, in_other, link, memory, l1, l2, error):
    """The other L2 answers after `link`, its memory after `memory * link`, own caches after a fraction of `link`."""
    first = link if in_other else link * memory
    past_l1 = l2 * link if in_l2 else first
    through_l1 = l1 * link if in_l1 else past_l1
    spread = [1 - error, 1, 1 + error]
    latencies = (
        [within(each * factor, error) for factor in spread] for each in (first, past_l1, through_l1, link * memory)
    )
    held = {OWN_L1: in_l1, OWN_L2: in_l2, OTHER_L2: in_other}
    assert holding_caches(Repeated(*latencies)) == held


def test_equal_latencies_show_no_cache():
    same = [within(800, 0.02)] * 3
    assert set(holding_caches(Repeated(same, same, same, [within(810, 0.02)] * 3)).values()) == {False}


def test_sms_that_disagree_leave_it_open():
    same = [within(800, 0.02)] * 3
    displaced = [within(each, 0.02) for each in (800, 1000, 1000)]
    assert holding_caches(Repeated(same, same, same, displaced)) == {OWN_L1: False, OWN_L2: False, OTHER_L2: None}
