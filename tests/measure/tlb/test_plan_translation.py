"""An L1 before or behind the TLBs is recognised; too few lines, or no TLB, give no answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from truth import truth_of

from gpudissect.catalogue import load
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.device.simulated.random_gpu import random_gpu
from gpudissect.estimate import Status
from gpudissect.measure.tlb.plan_translation import paired_chain
from gpudissect.simulation.cache.geometry import (
    Cache,
    Hierarchy,
    Index,
    IndexKind,
    PageWindow,
    Policy,
    PolicyKind,
    Route,
    Tlb,
)
from gpudissect.vocabulary import EVERY_ACCESS, MISSES_ONLY
from gpudissect.workload import Path
from tests.measure.conftest import plain_l2
from tests.measure.tlb.test_plan_entries_and_page_size import FEW, GIB, MIB, noises, policies
from tests.support.driving import estimates

ACCESSES = (EVERY_ACCESS, MISSES_ONLY)  # by position of the TLBs on the route


def gpu(entries, translated_from, noise=None, lines=384, l1_policy=PolicyKind.LRU, policy=PolicyKind.LRU, **fields):
    """A GPU with an L1 of `lines` lines of 64 bytes and one TLB; `fields` as of a hierarchy or `tlbs_at`."""
    l1 = Cache((6,) * (lines // 6), 64, 32, Index(IndexKind.MODULO), Policy(l1_policy))
    at = {"tlbs_at": fields.pop("tlbs_at", 0), "translated_from": translated_from}
    hierarchy = Hierarchy(
        caches={"l1": l1, "l2": plain_l2()},
        routes={
            Path.GLOBAL: Route(("l1", "l2"), (40.0, 230.0), 500.0, timer=12, **at),
            Path.GLOBAL_L2: Route(("l2",), (225.0,), 495.0, timer=12),
        },
        tlbs=(Tlb((entries,), 2 * MIB, Index(IndexKind.MODULO), Policy(policy), 0.0),) if entries else (),
        tlb_walk_penalty=30.0 if entries else 0.0,
        limits=dict.fromkeys((Path.GLOBAL, Path.GLOBAL_L2), 4 * GIB),
        sm_count=8,
        **fields,
    )
    return SimulatedGpu(hierarchy, spec="sim:test", name="test", noise=noise or Noise(seed=1))


def translated(device, seed=0, element="l1"):
    return estimates(device, [f"translation.{element}"], seed)[element, "translated"]


@given(
    entries=st.integers(8, 64),
    position=st.integers(0, 1),
    policy=policies,
    l1_policy=st.sampled_from([PolicyKind.LRU, PolicyKind.RANDOM, PolicyKind.SRRIP]),
    noise=noises,
)
@FEW
def test_both_places(entries, position, policy, l1_policy, noise):
    device = gpu(entries, position, noise, l1_policy=l1_policy, policy=policy)
    found = translated(device, noise.seed)
    assert found.value == ACCESSES[position] and found.confidence >= 0.95 and found.evidence


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize(
    "fields",
    [{"tlbs_at": 1}, {"tlb_cold_walk_penalty": 300.0}, {"page_window": PageWindow(64 * MIB, 200.0)}],
    ids=["TLBs beside the L2", "cold walks", "page window"],
)
def test_whatever_a_miss_costs(position, fields):
    assert translated(gpu(16, position, **fields)).value == ACCESSES[position]


@pytest.mark.parametrize("position", [0, 1])
def test_a_cache_of_fewer_lines_than_the_tlb_has_entries_is_ambiguous(position):
    found = translated(gpu(64, position, lines=96))
    assert found.status is Status.AMBIGUOUS and "too few to displace the 64 entries" in found.reason


def test_without_a_tlb_it_does_not_show():
    found = translated(gpu(0, 0))
    assert found.status is Status.NOT_FOUND and "no TLB was found" in found.reason


@pytest.mark.parametrize(("name", "accesses"), [("gtx980", MISSES_ONLY), ("gtx560ti", EVERY_ACCESS)])
def test_published_gpus(name, accesses):
    """MC16 s5.2 finding 2 and MC14 table 3."""
    device = SimulatedGpu(load(name).hierarchy(), spec="sim:test", name=name, noise=Noise(seed=1))
    assert translated(device).value == accesses


@pytest.mark.parametrize("seed", [7, 9, 12])
def test_random_gpus(seed):
    device = random_gpu(seed)
    found = translated(device, seed)
    assert found.value in (None, truth_of(device.hierarchy).get(("l1", "translated")))


def test_a_chain_visits_every_page_twice_in_a_row():
    chain = paired_chain(20, 5, 128, 2 * MIB, 8, np.random.default_rng(0))
    pages = chain.offsets.reshape(20, 2) // (2 * MIB)
    assert (pages[:, 0] == pages[:, 1]).all() and set(pages[:, 0]) == set(range(20))
    lines = chain.offsets // 128
    assert np.unique(lines).size == 25 and np.unique(chain.offsets).size == 40
    assert (lines[chain.pairs[:, 0]] != lines[chain.pairs[:, 1]]).all()
    assert (chain.exchanged().offsets[chain.pairs] == chain.offsets[chain.pairs[:, ::-1]]).all()
