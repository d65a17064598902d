"""What other processes do to confidences."""

import pytest

from gpudissect.measure.infer_confidence import BRACKETED, CONFLICTED, DOUBTFUL, disturbed_limit


@pytest.mark.parametrize(
    ("finding", "limit"),
    [
        (("l2", "capacity", 1 << 20, False), BRACKETED),
        (("l2", "capacity", 1 << 20, True), DOUBTFUL),  # random GPU 2000476
        (("l2", "replacement_policy", "lru", False), CONFLICTED),
        (("l2", "replacement_policy", "weighted 0.115 0.243 0.402 0.240", False), DOUBTFUL),  # 2000208
        (("tlb_l1", "replacement_policy", "random", False), DOUBTFUL),
        (("tlb_l1", "entries", 16, True), BRACKETED),
        (("l1", "capacity", 1 << 15, True), None),
        (("l2", "hit_latency", 250.0, True), None),
    ],
)
def test_only_what_other_processes_can_change_is_less_certain(finding, limit):
    assert disturbed_limit(*finding) == limit
