"""TLBs of random simulated GPUs are found; caches, page-table windows and sets are not mistaken for one."""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from gpudissect.catalogue import load
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.infer_confidence import DOUBTFUL, EXACT
from gpudissect.measure.tlb import plan_sets
from gpudissect.measure.tlb.page_accesses import Undecided
from gpudissect.simulation.cache.geometry import (
    Cache,
    Hierarchy,
    Index,
    IndexKind,
    PageWindow,
    Policy,
    PolicyKind,
    Route,
    Scope,
    Tlb,
)
from gpudissect.vocabulary import TLBS
from gpudissect.workload import Path
from tests.measure.conftest import plain_l2
from tests.support.driving import estimates

MIB, GIB = 1 << 20, 1 << 30
WINDOW = PageWindow(512 * MIB, 200.0)
FEW = settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],  # a survey is too slow to shrink failures
)
noises = st.builds(
    Noise,
    seed=st.integers(0, 999),
    jitter=st.sampled_from([0.0, 0.1, 0.3]),
    outliers=st.sampled_from([0.0, 0.001, 0.005]),
    drift=st.sampled_from([0.0, 0.002]),
)
policies = st.sampled_from([PolicyKind.LRU, PolicyKind.RANDOM])


def tlb(entries, page, penalty=0.0, policy=PolicyKind.LRU):
    return Tlb((entries,), page, Index(IndexKind.MODULO), Policy(policy), penalty)


def gpu(tlbs, walk=60.0, noise=None, window=None, l2=None, limit=64 * GIB):
    hierarchy = Hierarchy(
        caches={"l2": l2 or plain_l2()},
        routes={Path.GLOBAL_L2: Route(("l2",), (230.0,), 500.0, timer=12)},
        tlbs=tuple(tlbs),
        tlb_walk_penalty=walk,
        page_window=window,
        limits={Path.GLOBAL_L2: limit},
        sm_count=8,
    )
    return SimulatedGpu(hierarchy, spec="sim:test", name="test", noise=noise or Noise(seed=1))


def findings(device, seed=0):
    """Estimates of each level: entries, page size, reach, miss penalty."""
    found = estimates(device, [f"{plan}.{element}" for element in TLBS for plan in ("tlb", "sets")], seed)
    names = ("entries", "page_size", "reach", "miss_penalty")
    return [[found[element, name] for name in names] for element in TLBS]


def sizes(level):
    """Entries, page size and reach, None if not found."""
    return [each.value for each in level[:3]] if level[0].status is Status.FOUND else None


def assert_level(level, entries, page, penalty):
    assert sizes(level) == [entries, page, entries * page]
    assert level[3].low <= penalty <= level[3].high


@given(entries=st.integers(4, 128), page=st.integers(20, 25), policy=policies, noise=noises, walk=st.floats(20, 120))
@example(entries=101, page=22, policy=PolicyKind.RANDOM, noise=Noise(seed=0), walk=94.0)
@example(entries=128, page=18, policy=PolicyKind.RANDOM, noise=Noise(seed=3, jitter=0.3, outliers=0.005), walk=60.0)
@FEW
def test_one_level_is_found_and_no_other(entries, page, policy, noise, walk):
    first, *others = findings(gpu([tlb(entries, 1 << page, policy=policy)], walk, noise), noise.seed)
    assert_level(first, entries, 1 << page, walk)
    assert [sizes(level) for level in others] == [None, None]


@given(
    entries=st.integers(4, 64),
    page=st.integers(20, 23),
    times=st.integers(2, 6),
    wider=st.integers(0, 2),
    policy=policies,
    noise=noises,
    penalty=st.floats(8, 40),
)
@FEW
def test_two_levels_are_found_each_with_its_penalty(entries, page, times, wider, policy, noise, penalty):
    levels = [tlb(entries, 1 << page, penalty, policy), tlb(entries * times, 1 << page + wider, policy=policy)]
    first, second, third = findings(gpu(levels, penalty * 1.7 + 15, noise), noise.seed)
    assert_level(first, entries, 1 << page, penalty)
    assert_level(second, entries * times, 1 << page + wider, penalty * 0.7 + 15)
    assert sizes(third) is None


def test_a_page_that_never_leaves_the_first_tlb_is_no_entry_of_the_second():
    """The order of victims names three ways: the fourth way of a set keeps its page."""
    order = Policy(PolicyKind.ORDER, order=(1, 2, 3, 1))
    before = Tlb((3, 3, 3, 4), 2 * MIB, Index(IndexKind.MODULO), order, 16.0)
    found = estimates(gpu([before, tlb(40, 2 * MIB, policy=PolicyKind.FIFO)], 56.0), ["tlb.tlb_l2", "sets.tlb_l2"], 1)
    entries, ways = found["tlb_l2", "entries"], found["tlb_l2", "ways"]
    assert (entries.value, entries.low, entries.high, ways.value) == (40, 40, 41, 40)
    assert max(entries.confidence, ways.confidence) < EXACT and "41 pages fit, but 1 hit" in entries.caveats[0]


@given(entries=st.integers(4, 128), page=st.integers(16, 21), noise=noises)
@example(entries=108, page=21, noise=Noise.none())
@example(entries=84, page=21, noise=Noise.none())
@FEW
def test_a_page_table_window_is_no_second_tlb(entries, page, noise):
    """MC16 s5.2, P6: beyond 512 MiB the page table itself changes; the TLB's reach is smaller here."""
    first, second, _ = findings(gpu([tlb(entries, 1 << page)], noise=noise, window=WINDOW), noise.seed)
    assert_level(first, entries, 1 << page, 60.0)
    assert sizes(second) is None


def test_the_penalty_of_a_tlb_whose_reach_exceeds_a_window():
    assert_level(findings(gpu([tlb(64, 16 * MIB)], window=WINDOW))[0], 64, 16 * MIB, 60.0)


@pytest.mark.parametrize(("ways", "policy"), [((3, 4, 3, 3), "random"), ((2, 3, 2, 2, 3, 2, 3, 2), "srrip")])
def test_a_window_of_few_pages_is_no_second_tlb_behind_one_in_sets(ways, policy):
    """Pages far apart change the window in order as well; those of the first TLB are found to be smaller later."""
    sets = Tlb(ways, 4 * MIB, Index(IndexKind.MODULO), Policy(PolicyKind(policy)), 0.0)
    first, second, _ = findings(gpu([sets], window=PageWindow(124 * MIB, 211.0), walk=19.0, limit=8 * GIB), 12)
    assert sizes(first) in (None, [sum(ways), 4 * MIB, sum(ways) * 4 * MIB])
    assert sizes(second) is None


def test_a_gpu_without_tlbs_has_none():
    """Its L2 has room for a line of each of all these pages only if they do not leave sets of it empty."""
    levels = findings(gpu([], walk=0.0, noise=Noise(seed=3, jitter=0.3, outliers=0.01, drift=0.002)))
    assert {each.status for level in levels for each in level} == {Status.NOT_FOUND}
    assert levels[0][2].low > GIB, "the reach of a TLB that was not noticed is larger"


def conflicting(index, ways, sets):
    return Cache((ways,) * sets, 128, 128, index, Policy(PolicyKind.LRU), Scope.GPU)


@pytest.mark.parametrize(
    "l2",
    [
        conflicting(Index(IndexKind.BITS, bits=(*range(7, 13), 26, 27)), 64, 256),
        conflicting(Index(IndexKind.XOR, masks=tuple(1 << b | 1 << b + 13 for b in range(7, 16))), 12, 512),
    ],
    ids=["bits", "xor"],
)
def test_conflicts_in_the_l2_are_no_tlb(l2):
    """Lines of pages far apart share few of its sets: as many lines near one another are as slow."""
    assert [sizes(level) for level in findings(gpu([], walk=0.0, l2=l2))] == [None, None, None]


@pytest.mark.parametrize(
    "ways",
    [(4,) * 16, (8,) * 4, (16,) * 2, (2,) * 32, (17, *[8] * 6), (9, 8, 8)],
    ids=["16x4", "4x8", "2x16", "32x2", "17+6x8", "9+8+8"],
)
@pytest.mark.parametrize("policy", [PolicyKind.LRU, PolicyKind.RANDOM])
def test_entries_in_sets_are_not_mistaken_for_fewer_of_wider_pages(ways, policy):
    """Pages a power of two apart share a set, and as many pages as there are sets look like one."""
    sets = Tlb(ways, 2 * MIB, Index(IndexKind.MODULO), Policy(policy), 0.0)
    assert sizes(findings(gpu([sets]))[0]) in (None, [sum(ways), 2 * MIB, sum(ways) * 2 * MIB])


XORS = (0b1000001, 0b10000010, 0b100100, 0b1000, 0b11110000)


@pytest.mark.parametrize(
    ("rows", "ways", "page"),
    [(XORS, 6, 4), ((1, 0b1000010, 0b1000100, 0b10001000, 0b110010000, 0b100000), 4, 8), (XORS[:4], 8, 2)],
    ids=["32x6", "64x4", "16x8"],
)
def test_pages_far_apart_that_use_all_sets_by_xor_are_not_mistaken_for_entries(rows, ways, page):
    """As many pages fit at several distances, of which the page size is the smallest, not the largest."""
    index = Index(IndexKind.XOR, masks=tuple(row * page * MIB for row in rows))
    second, entries = Tlb((ways,) * 2 ** len(rows), page * MIB, index, Policy(PolicyKind.LRU), 90.0), ways << len(rows)
    found = findings(gpu([tlb(24, 2 * MIB, 28.0), second], 90.0))
    assert sizes(found[1]) == [entries, page * MIB, entries * page * MIB]


def test_a_small_memory_gives_what_shows_in_it():
    first, second, _ = findings(gpu([tlb(16, 2 * MIB, 20.0), tlb(512, 2 * MIB)], 80.0, limit=256 * MIB))
    assert sizes(first) == [16, 2 * MIB, 32 * MIB]
    assert second[0].status is Status.NOT_FOUND
    assert second[2].low == 248 * MIB  # without the reserve


def test_pages_wider_than_the_largest_distance_are_not_misread():
    """Pages of 128 MiB: pages 64 MiB apart share an entry."""
    assert sizes(findings(gpu([tlb(24, 128 * MIB)]))[0]) in (None, [24, 128 * MIB, 24 * 128 * MIB])


def test_the_same_seed_gives_the_same_findings():
    one, two = (findings(gpu([tlb(20, 16 * MIB)], noise=Noise(seed=5)), 7) for _ in range(2))
    assert one == two
    assert np.all([each.evidence for each in one[0]])


@pytest.mark.parametrize("policy", ["lru", "fifo", "nru", "srrip", "random"])
@pytest.mark.parametrize("ways", [(16,), (48,), (17, *[8] * 6)], ids=["16", "48", "17+6x8"])
def test_sets_and_policy_of_a_tlb(policy, ways):
    """MC14 table 4 and MC16 table 5 differ on the first TLB's policy: only random order distinguishes."""
    device = gpu([Tlb(ways, 2 * MIB, Index(IndexKind.MODULO), Policy(PolicyKind(policy)), 0.0)])
    found = estimates(device, ["policy.tlb_l1"], 3)
    values = {name: found["tlb_l1", name].value for name in ("sets", "ways", "index_function", "replacement_policy")}
    several = len(ways) > 1
    assert values == {
        "sets": len(ways),
        "ways": tuple(sorted(ways, reverse=True)) if several else ways[0],
        "index_function": "page mod 7" if several else "one set",
        "replacement_policy": policy,
    }


@pytest.mark.parametrize(
    ("alternative", "misses"), [(False, "18, 27, 36, 45, 54, 63, 72, "), (True, "17, 25, 33, 41, 49, 57, 65, ")]
)
def test_misses_per_lap_tell_sets_apart_that_hold_as_many_pages(alternative, misses):
    """MC16 figure 8 counts 17, 25, ... 65 misses, and concludes sets of 17 and 6 x 8, which miss 18, 27, ... 72."""
    hierarchy = load("gtx780").hierarchy(alternative)
    found = estimates(SimulatedGpu(hierarchy, spec="sim:test", name="test", noise=Noise(seed=1)), ["sets.tlb_l2"], 3)
    assert found["tlb_l2", "ways"].value == ((16, *[7] * 7) if alternative else (17, *[8] * 6))
    for name in ("sets", "ways"):
        (caveat,) = found["tlb_l2", name].caveats
        assert caveat.startswith(f"misses per lap over 66, 67, ... pages in order: {misses}")
        assert f"LRU in these sets predicts {misses}" in caveat


def test_entries_are_doubtful_where_the_sets_cannot_be_separated(monkeypatch):
    def all_sets(search):
        raise Undecided("delayed accesses")
        yield

    monkeypatch.setattr(plan_sets._SetSearch, "all_sets", all_sets)
    found = estimates(gpu([tlb(16, 2 * MIB)]), ["sets.tlb_l1"])
    assert found["tlb_l1", "entries"].value == 16 and found["tlb_l1", "reach"].value == 32 * MIB
    assert found["tlb_l1", "entries"].confidence == found["tlb_l1", "reach"].confidence == DOUBTFUL
    assert (found["tlb_l1", "entries"].low, found["tlb_l1", "entries"].high) == (14, None)
