"""Every contradiction between findings is noticed, and names those that may be wrong."""

import pytest

from gpudissect.measure.infer_contradictions import Agreement, contradictions, path_agreements

KIB, MIB = 1 << 10, 1 << 20
CONSISTENT = {
    "l1.capacity": 16 * KIB,
    "l1.sets": 32,
    "l1.ways": 4,
    "l1.line_size": 128,
    "l1.hit_latency": 33.0,
    "l1.miss_penalty": 168.0,
    "l2.capacity": MIB,
    "l2.hit_latency": 200.0,
    "dram.hit_latency": 440.0,
    "tlb_l1.miss_penalty": 23.0,
    "tlb_l2.miss_penalty": 94.0,
}


def found(changes=(), agreements=(), stated=MIB):
    values = CONSISTENT | dict(changes)
    findings = {tuple(name.split(".")): (value, None, None) for name, value in values.items()}
    return list(contradictions(findings, agreements, stated))


def test_what_fits_together_is_no_contradiction():
    assert (
        found()
        == found(stated=None)
        == found(agreements=[Agreement("l1", 0.96, 1.0), Agreement("l2", 0.83, 0.87)])
        == []
    )
    assert found({"l1.ways": (33.0, *([3.0] * 31), 2.0)}) == []  # unequal sets


@pytest.mark.parametrize(
    ("changes", "share", "contradicted"),
    [
        ({"l1.replacement_policy": "lru"}, 0.92, True),
        ({"l1.replacement_policy": None}, 0.92, False),  # explains it: the closest policy was simulated
        ({"l1.replacement_policy": None}, 0.88, True),  # but not that much, as with lines of 96 B taken for 128 B
        ({"l1.replacement_policy": None, "l1.sets": None}, 0.92, True),  # the sets were not checked either
    ],
)
def test_wrong_predictions_contradict_the_geometry_unless_the_policy_explains_them(changes, share, contradicted):
    assert bool(found(changes, [Agreement("l1", share, 1.0)])) == contradicted


def test_more_tags_than_room_are_no_contradiction_where_accesses_are_predicted_with_them():
    tags = {"l1.capacity": 12 * KIB}
    assert found(tags, [Agreement("l1", 1.0, 1.0)]) == [] != found(tags)


@pytest.mark.parametrize(
    ("changes", "about"),
    [
        ({"l1.line_size": 256}, "l1.line_size"),
        ({"l1.ways": 1}, "l1.ways"),
        ({"l1.ways": (33.0, 33.0)}, "l1.sets"),
        ({"l1.miss_penalty": 407.0}, "l1.capacity"),
        ({"l1.hit_latency": 8.0, "l1.miss_penalty": 7.9, "l2.hit_latency": 10.0}, "l1.miss_penalty"),
        ({"l2.hit_latency": 450.0, "l1.miss_penalty": 417.0}, "dram.hit_latency"),
        ({"l2.capacity": MIB // 2}, "l2.capacity"),
        ({"dram.near_latency": 440.0, "dram.far_latency": 590.0}, "l2.capacity"),
        ({"tlb_l2.miss_penalty": 0.0}, "tlb_l1.entries"),
        ({"tlb_l1.reach": 3 * MIB // 2}, "l2.segment_size"),
        ({"tlb_l1.reach": 3 * MIB, "dram.near_latency": 440.0}, "dram.far_latency"),
        ({"l2.hit_latency": None}, "l1.miss_penalty"),
    ],
)
def test_a_contradiction_names_what_may_be_wrong(changes, about):
    (contradiction,) = found(changes)
    assert about in contradiction.about


def test_accesses_that_random_replacement_makes_unpredictable_contradict_nothing():
    assert found(agreements=path_agreements({"l1": 130, "l2": 10}, {}, 1000, 0.86)) == []
    (contradiction,) = found(agreements=path_agreements({"l1": 330, "l2": 10}, {}, 1000, 0.86))
    assert "l1.sets" in contradiction.about and "l2.sets" not in contradiction.about


def test_misread_accesses_contradict_nothing():
    """The first TLB of an H100, whose misses take 10 cycles: 62 of 1152 accesses wrong, 52 of them in one run only."""
    wrong = {"tlb_l1": 62}
    assert found(agreements=path_agreements(wrong, {"tlb_l1": 52}, 1152, 1.0)) == []
    assert len(found(agreements=path_agreements(wrong, {"tlb_l2": 52}, 1152, 1.0))) == 1


def test_a_failed_prediction_contradicts_the_geometry():
    (contradiction,) = found(agreements=[Agreement("l2", 0.53, 1.0)])
    assert {"l2.sets", "l2.line_size", "l2.fetch_granularity", "l2.index_function"} <= set(contradiction.about)
