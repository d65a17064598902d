"""SMs that share a TLB, from single accesses: thresholds, delayed accesses, contradictions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.measure.tlb.infer_sharing import Visits, loaded_for, miss_penalty, number_tlbs

UNLOADED = np.full(16, 90.0)


def flags(*sms: int) -> np.ndarray:
    return np.isin(np.arange(4), sms)


def test_half_of_the_pages_of_an_sm_may_be_delayed():
    loaded = np.array([[0.0, 1.0, 90.0, 95.0], [90.0, 89.0, 0.0, 91.0], [-3.0, 2.0, 0.0, 300.0]])
    assert loaded_for(Visits(loaded, UNLOADED), 90.0).tolist() == [True, False, True]


def test_pages_that_do_not_clearly_miss_give_no_penalty():
    for unloaded in (np.zeros(16), np.full(16, 2.0), np.repeat([0.0, 90.0], 8)):
        assert miss_penalty(Visits(np.zeros((4, 4)), unloaded)) is None
    assert miss_penalty(Visits(np.zeros((4, 4)), np.repeat([0.0, 90.0], [3, 13]))) == 90.0


@given(st.lists(st.integers(0, 3), min_size=4, max_size=4), st.sets(st.integers(0, 3)))
def test_any_sms_that_name_all_groups_number_them_by_first_sm(groups, tested):
    members = {sm: flags(*(other for other in range(4) if groups[other] == groups[sm])) for sm in range(4)}
    numbers = number_tlbs({sm: members[sm] for sm in tested}, 4)
    if {groups[sm] for sm in tested} != set(groups):
        assert numbers is None
    else:
        assert numbers == tuple(list(dict.fromkeys(groups)).index(each) for each in groups)


def test_contradictions_give_no_numbers():
    assert number_tlbs({0: flags(0, 1), 1: flags(1), 2: flags(2, 3)}, 4) is None
    assert number_tlbs({0: flags(0, 1), 2: flags(2)}, 4) is None
    assert number_tlbs({0: flags(1), 1: flags(0), 2: flags(2, 3)}, 4) is None
