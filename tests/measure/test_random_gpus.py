"""Random GPUs whose answers were once wrong at 0.95 or more: right now, or stated with less confidence."""

from dataclasses import replace

import pytest

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.random_gpu import random_gpu
from gpudissect.estimate import Status
from gpudissect.measure.cache.infer_residency import Fit
from gpudissect.measure.cache.residency_probe import ResidencyTest
from gpudissect.measure.infer_confidence import BRACKETED, CONFLICTED, DOUBTFUL
from gpudissect.measure.infer_doubts import OTHERS_USED_IT
from gpudissect.simulation.cache.geometry import Index, IndexKind, Policy, PolicyKind, Tlb
from gpudissect.survey.run import run_survey
from gpudissect.workload import Explicit, Path
from tests.support.driving import estimates, outcome
from tests.support.one_cache import level


@pytest.mark.parametrize("seed", [900029, 900083, 900130, 1200087])
def test_a_line_of_an_l1_with_more_tags_than_room_is_no_smaller_line(seed):
    gpu = random_gpu(seed)
    found = estimates(gpu, ["line.l1"], seed)["l1", "line_size"]
    assert (found.value, gpu.hierarchy.caches["l1"].line) == (256, 256)


@pytest.mark.parametrize("seed", [1000468, 1200087, 1400005, 1400185])
def test_sets_and_room_are_found_where_there_is_room_for_less_than_the_tags(seed):
    """The room alone once looked like one large set."""
    cache, found = random_gpu(seed).hierarchy.caches["l1"], estimates(random_gpu(seed), ["sets.l1"], seed)
    ways = found["l1", "ways"].value
    assert found["l1", "sets"].value == cache.sets and ways == (
        cache.ways if len(set(cache.ways)) > 1 else cache.ways[0]
    )
    assert found["l1", "capacity"].value == cache.capacity < sum(cache.ways) * cache.line


def test_a_policy_that_predicts_too_little_of_one_set_is_not_certain():
    """BIP, whose insertions are random: LIP predicts 98.85 % of the accesses."""
    found = estimates(random_gpu(1800336), ["policy.texture"], 1800336)["texture", "replacement_policy"]
    assert (found.value, found.confidence) == ("lip", CONFLICTED)


def test_pages_of_other_processes_halve_no_page_of_a_tlb():
    found = estimates(random_gpu(1800266), ["tlb.tlb_l1"], 1800266)
    assert (found["tlb_l1", "page_size"].value, found["tlb_l1", "entries"].value) == (2 << 20, 33)


def with_tlbs(seed, *tlbs):
    """A random GPU with other TLBs: ways, MiB of a page, policy and penalty of each."""
    gpu = random_gpu(seed)
    levels = tuple(
        Tlb(ways, size << 20, Index(IndexKind.MODULO), Policy(policy), penalty) for ways, size, policy, penalty in tlbs
    )
    limits = dict.fromkeys(gpu.hierarchy.routes, 8 << 30)
    hierarchy = replace(gpu.hierarchy, tlbs=levels, tlb_walk_penalty=levels[-1].penalty, limits=limits)
    return SimulatedGpu(hierarchy, spec="sim:test", name="test", noise=gpu.noise)


@pytest.mark.parametrize("seed", [5000801, 6000394, 6000569])
def test_lines_that_conflict_in_the_l2_make_no_page_of_a_tlb_larger(seed):
    gpu = random_gpu(seed)
    size = estimates(gpu, ["tlb.tlb_l2"], seed)["tlb_l2", "page_size"]
    assert size.value in (None, gpu.hierarchy.tlbs[1].page) and gpu.hierarchy.tlbs[1].index.kind is IndexKind.XOR


@pytest.mark.parametrize("seed", [6000438, 6001442, 7000317])
def test_unequal_sets_that_hold_more_pages_far_apart_halve_no_page_of_a_tlb(seed):
    """Of 31 pages that fit far apart, 29 do side by side: 62 half pages do not fit."""
    gpu = random_gpu(seed)
    size = estimates(gpu, ["tlb.tlb_l1"], seed)["tlb_l1", "page_size"]
    assert size.value in (None, gpu.hierarchy.tlbs[0].page)


def test_pages_of_a_tlb_whose_sets_contradict_them_are_doubtful():
    """Each page was taken for two entries of half its size."""
    gpu = with_tlbs(1800453, ((45,), 4, PolicyKind.NRU, 20.9), ((67,) * 4, 16, PolicyKind.SRRIP, 47.6))
    found = estimates(gpu, ["sets.tlb_l2"], 1800453)
    assert found["tlb_l2", "sets"].status is not Status.FOUND
    for name, truth in (("page_size", 16 << 20), ("entries", 268)):
        assert found["tlb_l2", name].value in (None, truth) or found["tlb_l2", name].confidence == DOUBTFUL


def test_a_policy_that_errs_alike_in_two_runs_is_ambiguous():
    """NRU with 215 entries: MRU predicts 98.8 % of the accesses, and 21 wrongly in both runs."""
    gpu = with_tlbs(2300468, ((6, 7, *[6] * 5), 1, PolicyKind.NRU, 13.8), ((215,), 1, PolicyKind.NRU, 85.7))
    found = estimates(gpu, ["policy.tlb_l2"], 2300468)["tlb_l2", "replacement_policy"]
    assert found.status is Status.AMBIGUOUS and "mru" in found.reason


def test_misses_in_some_laps_only_are_in_doubt():
    """Seed 2500387: 1 % of the accesses are delayed; 550 lines seemed to miss in some laps, so 549 were reported."""
    found = estimates(random_gpu(2500387), ["sets.l1"], 2500387)["l1", "capacity"]
    assert (found.value, found.high) == (550 * 32, 550 * 32) and found.low <= found.value
    assert found.confidence == CONFLICTED


def test_a_capacity_that_was_not_tested_has_a_bracket_below_what_seems_to_fit():
    """Seed 2800960: 1417 lines miss in few laps; 1416 fit."""
    gpu = random_gpu(2800960)
    found = estimates(gpu, ["sets.l1"], 2800960)["l1", "capacity"]
    cache = gpu.hierarchy.caches["l1"]
    assert cache.capacity - 4 * cache.line <= found.low <= cache.capacity <= found.high


def test_the_search_for_sets_ends_when_they_overlap():
    """Seed 2800027: of a TLB with random replacement, each page too many showed another set, for 20 minutes."""
    found = estimates(random_gpu(2800027), ["sets.tlb_l2"], 2800027)["tlb_l2", "sets"]
    assert found.status is Status.AMBIGUOUS and "several sets" in found.reason


@pytest.mark.parametrize(("seed", "cache", "copies"), [(2300536, "l1", 2), (2300836, "texture", 4)])
def test_copies_of_a_cache_are_counted_by_a_chain_that_does_not_quite_fit(seed, cache, copies):
    found = estimates(random_gpu(seed), [f"sharing.{cache}"], seed)
    assert found[cache, "count_per_sm"].value == copies


def test_no_way_of_a_tlb_is_outside_its_fixed_order():
    """Seed 2300873: an entry that no access replaces is filled by the first one and lost to all others."""
    tlb = random_gpu(2300873).hierarchy.tlbs[0]
    assert max(tlb.ways) <= max(tlb.policy.order)


def test_lines_of_other_processes_take_no_way_from_the_sets_of_the_l2():
    seed = 1400025
    cache, found = random_gpu(seed).hierarchy.caches["l2"], estimates(random_gpu(seed), ["sets.l2"], seed)
    assert (found["l2", "sets"].value, found["l2", "ways"].value) == (cache.sets, cache.ways[0])


def test_a_miss_that_takes_longer_than_others_in_every_lap_is_one():
    """Lines on pages that the TLB lacks: their misses were unknown, so seven lines seemed to fit in six ways."""
    found = estimates(random_gpu(1600001), ["sets.l2"], 1600001)
    assert (found["l2", "sets"].value, found["l2", "ways"].value) == (2708, 6)


def test_pages_that_the_first_tlb_holds_do_not_make_those_of_the_second_smaller():
    found = estimates(random_gpu(900092), ["tlb.tlb_l2"], 900092)
    assert (found["tlb_l2", "page_size"].value, found["tlb_l2", "entries"].value) == (16 << 20, 144)


def test_pages_of_a_tlb_miss_cost_no_change_of_window():
    """Pages 64 MiB apart change the window at every second access; the entries are found 16 MiB apart."""
    gpu, found = random_gpu(2000249), estimates(random_gpu(2000249), ["tlb.tlb_l2"], 2000249)
    first, second = (tlb.penalty for tlb in gpu.hierarchy.tlbs)
    assert found["tlb_l2", "miss_penalty"].value == pytest.approx(second - first, abs=1)


def test_evicted_lines_do_not_change_the_timing_overhead():
    """Other processes evict some of the lines that all SMs access."""
    gpu, found = random_gpu(2100163), estimates(random_gpu(2100163), ["map.l2"], 2100163)
    latency = found["dram", "near_latency"]
    assert latency.low <= gpu.hierarchy.routes[Path.GLOBAL_L2].memory_latency <= latency.high


def test_a_capacity_that_unequal_sets_contradict_is_doubtful_if_the_line_is_not_known():
    found = estimates(random_gpu(1100275), ["sets.texture"], 1100275)
    assert found["texture", "line_size"].status is Status.AMBIGUOUS
    assert found["texture", "capacity"].confidence == DOUBTFUL


def test_room_that_other_processes_may_take_is_stated_with_less_confidence():
    gpu = random_gpu(900170)
    alone = SimulatedGpu(gpu.hierarchy, spec="sim:test", name="test", noise=replace(gpu.noise, other_users=0))
    for device, is_disturbed in ((gpu, True), (alone, False)):
        survey = run_survey(device, elements=["tlb_l1"])
        findings = {(each.element, each.attribute): each for each in survey.findings}
        entries = findings["tlb_l1", "entries"]
        assert ("other_processes" in survey.conditions.notes) == is_disturbed
        assert (OTHERS_USED_IT in entries.caveats, entries.confidence <= BRACKETED) == (is_disturbed, is_disturbed)
        assert findings["tlb_l1", "miss_penalty"].confidence > BRACKETED


def test_after_so_many_accesses_what_is_undecided_stays_so():
    test = ResidencyTest(level(32), Explicit([0]), max_accesses=-1)
    assert outcome(test.decide([Explicit([0, 32])]), None) == [Fit.UNDECIDED]
