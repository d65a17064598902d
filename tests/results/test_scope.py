"""What values hold for."""

import pytest

from gpudissect.measure.instructions import plan_rate
from gpudissect.results.scope import FROM_MEMORY, MEMORY_WARPS_SHARE, WARPS_SHARE, scopes
from tests.support.results import result


@pytest.mark.parametrize(
    ("findings", "scope"),
    [
        ({"l2.hit_latency": 280.0, "l2.near_latency": 280.0}, "near partition"),
        ({"l2.hit_latency": 280.0, "l2.near_latency": 270.0}, ""),
        ({"l2.hit_latency": 280.0}, ""),
    ],
)
def test_the_hit_latency_of_an_l2_in_two_partitions_is_that_of_the_near_one(findings, scope):
    assert scopes(result(findings).findings).get(("l2", "hit_latency"), "") == scope


def test_warps_needed_name_the_share_that_they_were_measured_for():
    found = scopes(result({"ffma.warps_needed": 16, "ldg_random.warps_needed": 5}).findings)
    assert set(found.values()) == {"for 95% of peak", "for 90% of peak"}
    assert "90%" in found["ldg_random", "warps_needed"]
    assert (WARPS_SHARE, MEMORY_WARPS_SHARE) == (plan_rate.SHARE, plan_rate.MEMORY_SHARE)
    assert set(FROM_MEMORY) == {kind.element for kind in plan_rate.KINDS if not kind.resident}


def test_a_peak_of_the_latency_spectrum_is_named_by_what_it_hits():
    assert scopes(result({"spectrum_global.p4": 560.0}).findings)["spectrum_global", "p4"] == "cache miss, TLB hit"
