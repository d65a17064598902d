"""Replacement policies: every one that is known is named, any other is none of these."""

import numpy as np
import pytest

from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.cache.infer_policy import candidates
from gpudissect.measure.cache.infer_structure import Structure
from gpudissect.measure.cache.plan_policy import policy_plan
from gpudissect.measure.plan import Bench, Known
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from tests.measure.conftest import bits, plain_l2
from tests.support.driving import estimates, outcome
from tests.support.one_cache import OneCache, levels
from tests.support.oracle import POLICIES, Weighted
from tests.support.strange_policies import CHANCE, DETERMINISTIC, LruWithAQuirk

SETS = 4


def policy_of(device, seed=0):
    """What is said of the policy of a `OneCache`."""
    structure = Structure(device.line, Index(IndexKind.MODULO), (device.ways,) * SETS, 1 << 14)
    known = {
        "levels.global": levels(device.line),
        "sets.l1": structure,
        "capacity.l1": SETS * device.ways * device.line,
    }
    return outcome(policy_plan("l1", Bench(device.info, seed), Known(known)), device).estimates[0]


def known_policy(name, weights=None):
    """A policy of the oracle, as a `OneCache` takes it."""
    return lambda ways, rng: POLICIES[name](ways, iter(rng.random, None), weights)


@pytest.mark.parametrize("misread", [0.0, 0.0025])
@pytest.mark.parametrize("name", ["lru", "fifo", "plru", "nru", "mru", "srrip", "slru", "random"])
def test_every_known_policy_is_named(name, misread):
    for ways in [2, 4, 8, 16] if name == "plru" else range(2, 25, 4 if name == "random" else 1 if misread == 0 else 3):
        found = policy_of(OneCache(known_policy(name), ways, misread=misread, seed=ways), seed=ways)
        same = "lru" if ways == 2 and name in ("plru", "mru") else name  # with two ways they are the same
        assert (ways, found.value, found.reason) == (ways, same, "")


@pytest.mark.parametrize("policy", DETERMINISTIC, ids=lambda policy: policy.__name__)
@pytest.mark.parametrize("misread", [0.0, 0.0025])
def test_deterministic_policies_that_nobody_knows_are_none_of_these(policy, misread):
    for ways in (4, 6, 8, 16, 24):
        if policy is LruWithAQuirk and ways < 8:
            continue  # one use in 64: in small sets what that changes is forgotten before it shows
        found = policy_of(OneCache(policy, ways, misread=misread, seed=ways), seed=ways)
        assert (ways, found.status, found.value) == (ways, Status.AMBIGUOUS, None)
        assert "none of the policies known here" in found.reason
        assert "random" not in found.reason, ways


@pytest.mark.parametrize("policy", CHANCE, ids=lambda policy: policy.__name__)
def test_policies_with_some_chance_in_them_are_none_of_these(policy):
    for ways in (3, 4, 6, 8, 16, 24):
        found = policy_of(OneCache(policy, ways, misread=0.001, seed=ways), seed=ways)
        assert (ways, found.status, found.value) == (ways, Status.AMBIGUOUS, None)


@pytest.mark.parametrize("misread", [0.0, 0.001, 0.0025, 0.005])
def test_weights_of_the_ways_are_found_within_a_fiftieth(misread):
    """MC16 fig 11 first, then any."""
    rng = np.random.default_rng(1)
    for number in range(8):
        weights = np.array([1, 3, 1, 1]) if number < 3 else rng.integers(1, 7, rng.choice([3, 4, 6, 8, 12, 16]))
        shares = weights / weights.sum()
        if np.ptp(weights) == 0:
            continue
        device = OneCache(lambda ways, r, s=shares: Weighted(ways, iter(r.random, None), list(s)), shares.size,
                          misread=misread, seed=number)  # fmt: skip
        found = policy_of(device, number)
        assert str(found.value).startswith("weighted "), (number, found)
        told = np.array([float(word) for word in str(found.value).split()[1:]])
        assert np.abs(told - shares).max() <= (0.02 if misread < 0.004 else 0.03), (number, shares, told)


def test_on_the_simulated_gpu_through_sets_of_its_own(gpu_with):
    """The whole way from latencies, with delayed accesses: unequal sets, sectors, an XOR index."""
    index = Index(IndexKind.XOR, masks=(1 << 7 | 1 << 9, 1 << 8 | 1 << 12))
    for kind, ways in (("srrip", (6, 6, 7, 6)), ("slru", (12,) * 4)):
        cache = Cache(ways, 128, 32, index, Policy(PolicyKind(kind)))
        gpu = gpu_with(cache, plain_l2(), Noise(seed=3, outliers=0.005))
        found = estimates(gpu, ["policy.l1"], 3)["l1", "replacement_policy"]
        assert (kind, found.value) == (kind, kind)


def test_fermi_weights_on_the_simulated_gpu(gpu_with):
    """MC16 fig 11: ways replaced with 1/6, 1/2, 1/6, 1/6."""
    policy = Policy(PolicyKind.WEIGHTED, (1 / 6, 1 / 2, 1 / 6, 1 / 6))
    cache = Cache((4,) * 32, 128, 128, bits(7, 5), policy)
    for seed, noise in enumerate((Noise(), Noise(outliers=0.005))):
        found = estimates(gpu_with(cache, plain_l2(), noise), ["policy.l1"], seed)["l1", "replacement_policy"]
        told = [float(word) for word in found.value.split()[1:]]
        assert told == pytest.approx([1 / 6, 1 / 2, 1 / 6, 1 / 6], abs=0.02)


def test_nothing_to_choose_and_nobody_to_ask(gpu_with):
    found = estimates(gpu_with(Cache((1,) * 64, 32, 32, bits(5, 6), Policy(PolicyKind.LRU)), plain_l2()), ["policy.l1"])
    assert found["l1", "replacement_policy"].status is Status.NOT_FOUND
    found = estimates(gpu_with(None, plain_l2()), ["policy.l1"])
    assert found["l1", "replacement_policy"].status is Status.NOT_SUPPORTED


@pytest.mark.parametrize("ways", [2, 3, 4, 12, 24])
def test_candidates_differ_from_one_another(ways):
    kinds = candidates(ways)
    assert kinds[0] is PolicyKind.LRU
    assert (PolicyKind.PLRU in kinds) == (ways == 4)
    assert PolicyKind.SLRU in kinds


def test_without_the_width_of_a_line_no_miss_rate_is_told():
    device = OneCache(known_policy("lru"), 4)
    structure = Structure(device.line // 4, Index(IndexKind.MODULO), (4,) * SETS, 1 << 14)
    known = {"levels.global": levels(device.line), "sets.l1": structure, "capacity.l1": SETS * 4 * device.line}
    rate = outcome(policy_plan("l1", Bench(device.info), Known(known)), device).estimates[-1]
    assert rate.attribute == "max_miss_rate" and rate.status is Status.NOT_FOUND and "wider" in rate.reason
