"""The generators of random GPUs: possible hierarchies, and every kind of thing that real GPUs were observed to do."""

import pytest

from gpudissect.device.simulated.random_gpu import random_gpu
from gpudissect.device.simulated.untuned_gpu import FEATURES, untuned_gpu
from gpudissect.simulation.cache.geometry import IndexKind, PolicyKind
from gpudissect.workload import Path

SEEDS = range(100)
HIERARCHIES = [random_gpu(seed).hierarchy for seed in SEEDS]
CACHES = [cache for each in HIERARCHIES for cache in each.caches.values()]


def test_every_policy_and_kind_of_index_occurs():
    assert {cache.policy.kind for cache in CACHES} == set(PolicyKind)
    assert {cache.index.kind for cache in CACHES} == {IndexKind.BITS, IndexKind.XOR, IndexKind.MODULO}


@pytest.mark.parametrize(
    "holds",
    [
        lambda gpu: gpu.partition is not None,
        lambda gpu: not gpu.tlbs,
        lambda gpu: len(gpu.tlbs) == 2,
        lambda gpu: any(len(set(cache.ways)) > 1 for cache in gpu.caches.values()),
        lambda gpu: "texture" in gpu.caches,
        lambda gpu: any(name == "texture" and cache.copies == 4 for name, cache in gpu.caches.items()),
        lambda gpu: gpu.caches["l1"].copies == 2,
        lambda gpu: any(tlb.policy.kind is PolicyKind.ORDER for tlb in gpu.tlbs),
        lambda gpu: gpu.routes[Path.GLOBAL].translated_from == 1,
        lambda gpu: gpu.tlb_cold_walk_penalty is not None,
        lambda gpu: gpu.page_window is not None,
        lambda gpu: gpu.prefetch is not None,
        lambda gpu: gpu.caches["l1"].room is not None,
        lambda gpu: any(tlb.index.kind is IndexKind.XOR for tlb in gpu.tlbs),
        lambda gpu: any(tlb.miss_cache for tlb in gpu.tlbs),
    ],
    ids=[
        *("partitions", "no TLB", "two TLBs", "unequal sets", "a texture cache of its own", "four copies"),
        *("two copies of the L1", "a TLB with a fixed order"),
        *("an L1 before the TLBs", "cold walks", "page window", "prefetch", "an L1 with more tags than room"),
        *("a TLB with an XOR index", "a miss cache"),
    ],
)
def test_some_gpus_have_it_and_some_lack_it(holds):
    assert {holds(gpu) for gpu in HIERARCHIES} == {True, False}


def test_a_fixed_order_has_every_way_and_often_some_of_them_more_than_once():
    policies = [(cache.policy.order, cache.ways[0]) for cache in CACHES if cache.policy.kind is PolicyKind.ORDER]
    assert all(set(order) == set(range(1, ways + 1)) for order, ways in policies)
    assert {len(order) > ways for order, ways in policies} == {True, False}


def test_some_clocks_drift_and_others_do_not():
    assert {random_gpu(seed).noise.drift > 0 for seed in SEEDS} == {True, False}


def test_some_clocks_are_exact_and_others_delay_one_access_in_a_hundred():
    assert {0.0, 0.01} <= {random_gpu(seed).noise.outliers for seed in SEEDS}


@pytest.mark.parametrize("feature", FEATURES)
def test_every_feature_beyond_the_tuned_ranges_occurs(feature):
    assert any(feature in untuned_gpu(seed).info.name for seed in SEEDS)


def test_some_gpus_have_other_users():
    assert {random_gpu(seed).noise.other_users > 0 for seed in SEEDS} == {True, False}
