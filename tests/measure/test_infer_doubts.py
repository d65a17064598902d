"""Every contradiction between findings, and what other processes may change, names the findings that may be wrong."""

import pytest

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.infer_confidence import BRACKETED, CONFLICTED, DOUBTFUL, EXACT
from gpudissect.measure.infer_doubts import Agreement, ambiguities, contradictions, disturbances, path_agreements

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
DOUBTED_OF_ONE_SET = ("l1.sets", "l1.ways", "l1.index_function")


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
    ("changes", "share", "confidences"),
    [
        ({"l1.replacement_policy": "lru"}, 0.92, [DOUBTFUL]),
        ({"l1.replacement_policy": None}, 0.92, []),  # explains it: the closest policy was simulated
        ({"l1.replacement_policy": None}, 0.88, [DOUBTFUL]),  # but not that much, as with lines of 96 B taken for 128 B
        ({"l1.replacement_policy": None, "l1.sets": None}, 0.92, [DOUBTFUL]),  # the sets were not checked either
    ],
)
def test_wrong_predictions_contradict_the_geometry_unless_the_policy_explains_them(changes, share, confidences):
    assert [each.confidence for each in found(changes, [Agreement("l1", share, 1.0)])] == confidences


def ambiguous(element, attribute):
    return Estimate(element=element, attribute=attribute, status=Status.AMBIGUOUS, reason="no index")


@pytest.mark.parametrize("about", ["l1.capacity", "l1.line_size", "l1.fetch_granularity"])
def test_lines_that_fall_into_no_known_sets_make_what_follows_from_them_less_certain(about):
    """Random GPUs 2100251 and 2100069: room for fewer lines than tags. An L2 with lines of 96 B: its fetches, too."""
    (doubt,) = ambiguities({("l1", "sets"): ambiguous("l1", "sets")})
    assert about in doubt.about and doubt.confidence == DOUBTFUL


@pytest.mark.parametrize("status", [Status.FOUND, Status.NOT_FOUND])
def test_sizes_of_partitions_are_doubtful_where_the_line_is_ambiguous(status):
    """Random GPUs 3000537 and 3000676: with random victims, or LIP, sectors of a line come and go alone."""
    fields = {"value": 1, "low": 1, "high": 1, "confidence": 0.9, "method": "m"} if status is Status.FOUND else {}
    reason = "" if status is Status.FOUND else "one partition"
    segment = Estimate(element="l2", attribute="segment_size", status=status, reason=reason, **fields)
    doubts = ambiguities({("l2", "line_size"): ambiguous("l2", "line_size"), ("l2", "segment_size"): segment})
    assert [each.about for each in doubts] == ([("l2.capacity", "l2.segment_size")] if fields else [])


@pytest.mark.parametrize(("sets", "status"), [(1, Status.NOT_FOUND), (2, Status.NOT_FOUND), (1, Status.SKIPPED)])
def test_one_set_is_doubtful_if_no_policy_explains_its_misses(sets, status):
    """Random GPU 3100349: data storage for 112 lines of 198 tags, so any 113 lines conflict."""
    found_sets = Estimate(
        element="l1", attribute="sets", status=Status.FOUND, value=sets, low=sets, high=sets, confidence=0.9, method="m"
    )
    policy = Estimate(element="l1", attribute="replacement_policy", status=status, reason="none of the known policies")
    doubts = ambiguities({("l1", "sets"): found_sets, ("l1", "replacement_policy"): policy})
    is_doubtful = sets == 1 and status is Status.AMBIGUOUS
    assert [each.about for each in doubts if "l1.ways" in each.about] == [DOUBTED_OF_ONE_SET] * is_doubtful


def test_penalties_of_tlbs_are_doubtful_where_windows_are_ambiguous():
    """A second TLB with pages of 32 MiB before windows of 64 MiB: every second page in order changes the window."""
    (doubt,) = ambiguities({("page_table", "window"): ambiguous("page_table", "window")})
    assert "tlb_l2.miss_penalty" in doubt.about


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


def estimate(name, value):
    element, attribute = name.split(".")
    fields = {"status": Status.FOUND, "confidence": EXACT} if value else {"status": Status.AMBIGUOUS, "reason": "none"}
    return Estimate(element=element, attribute=attribute, value=value, **fields)


@pytest.mark.parametrize(
    ("name", "value", "sets", "confidences"),
    [
        ("l2.capacity", 1 << 20, 16, [BRACKETED]),
        ("l2.capacity", 1 << 20, None, [DOUBTFUL]),  # random GPU 2000476
        ("l2.segment_size", 1 << 20, 16, [DOUBTFUL]),  # 2100163, 2400280
        ("l2.max_miss_rate", 0.5, 16, [DOUBTFUL]),  # 2100067
        ("l2.replacement_policy", "lru", 16, [CONFLICTED]),
        ("l2.replacement_policy", "weighted 0.115 0.243 0.402 0.240", 16, [DOUBTFUL]),  # 2000208
        ("tlb_l1.replacement_policy", "random", 16, [DOUBTFUL]),
        ("tlb_l1.entries", 16, None, [BRACKETED]),
        ("l1.capacity", 1 << 15, None, []),
        ("l2.hit_latency", 250.0, None, []),
    ],
)
def test_only_what_other_processes_can_change_is_less_certain(name, value, sets, confidences):
    findings = (estimate(name, value), estimate(f"{name.split('.')[0]}.sets", sets))
    doubts = disturbances({(each.element, each.attribute): each for each in findings})
    assert [each.confidence for each in doubts if name in each.about] == confidences


def test_the_capacity_of_two_partitions_is_less_certain_if_other_processes_used_one():
    """Random GPUs 2400280, 2800500 and 2800710: their lines filled a fifth to a half of the near partition."""
    findings = (estimate("l2.capacity", 1 << 20), estimate("l2.segment_size", 1 << 19))
    doubts = disturbances({(each.element, each.attribute): each for each in findings})
    assert [each.confidence for each in doubts if "l2.capacity" in each.about] == [DOUBTFUL]
