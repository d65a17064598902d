"""Caches that hold lines of another GPU's memory, from latencies of known hierarchies."""

from hypothesis import given
from hypothesis import strategies as st

from gpudissect.measure.infer_latency import Latency
from gpudissect.measure.links.infer_caching import OTHER_L2, OWN_L1, OWN_L2, Repeated, holding_caches

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
    """The other's L2 answers after `link`, its memory after `memory` times that; own caches after a share of it."""
    first = link if in_other else link * memory
    past_l1 = l2 * link if in_l2 else first
    through_l1 = l1 * link if in_l1 else past_l1
    latencies = (within(each, error) for each in (first, past_l1, through_l1, link * memory))
    held = [name for name, holds in ((OWN_L1, in_l1), (OWN_L2, in_l2), (OTHER_L2, in_other)) if holds]
    assert holding_caches(Repeated(*latencies)) == held


def test_latencies_within_their_brackets_show_no_cache():
    same = within(800, 0.02)
    assert holding_caches(Repeated(same, same, same, within(810, 0.02))) == []
