"""Victims in a fixed order: found with their period, and not in the victims of other policies."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.cache import infer_order
from gpudissect.measure.cache.infer_policy import (
    HIT,
    MIN_LEAD_NATS,
    MISS,
    Observation,
    log_likelihood,
    predict_policy,
    rank_candidates,
)
from gpudissect.simulation.cache.geometry import Cache, Policy, PolicyKind
from tests.measure.cache.test_plan_policy import run_policy_plan
from tests.measure.conftest import bits, plain_l2
from tests.support.driving import estimates
from tests.support.geometries import orders
from tests.support.one_cache import OneCache
from tests.support.oracle_policies import POLICIES, Order, Weighted

MISREAD = 0.004
FIGURE_11 = (2, 3, 2, 1, 2, 4, 2, 3, 2)  # the victims that MC16 fig 11 prints
FERMI = FIGURE_11[:6]
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)  # an example takes a second, so none is shrunk
VISITS = 8  # of a line in a lap


def shortest_period(order):
    """One period of an order repeated over and over."""
    return next(order[:n] for n in range(1, len(order) + 1) if order == (order * 2)[n : n + len(order)])


def observe(policy, ways, count, laps, misread, seed, start=lambda number: 0):
    """Runs of a random lap each over one line more than fits; run n skips the first `start(n)` victims."""
    rng, runs = np.random.default_rng(seed), []
    for number in range(count):
        rest = np.concatenate([np.repeat(np.arange(ways), VISITS - 1), np.full(VISITS, ways)])
        lines = np.tile(np.concatenate([np.arange(ways), rng.permutation(rest)]), laps)
        one, held, outcomes = policy(), {}, []
        for _ in range(start(number)):
            one.victim()
        for line in lines.tolist():
            hit = line in held
            if not hit:
                way = len(held) if len(held) < ways else one.victim()
                held = {each: place for each, place in held.items() if place != way}
                held[line] = way
            one.use(held[line], hit)
            outcomes.append(HIT if hit else MISS)
        flipped = rng.random(lines.size) < misread
        runs.append(Observation(lines, np.where(flipped, 1 - np.array(outcomes), outcomes).astype(np.int8)))
    return runs


def score(order, ways, run, start):
    """Log-likelihood of a run that begins at a place of the order."""
    return log_likelihood(infer_order.predict_order(order, ways, run.lines, start), run.outcomes, MISREAD)


def fit(runs, ways):
    rival = max(rank_candidates(runs, ways, MISREAD).scores.values())
    return infer_order.fit_order(runs, ways, MISREAD, rival)


@st.composite
def sets_with_an_order(draw):
    """Ways and an order that is not FIFO."""
    ways = draw(st.integers(2, 16))
    order = shortest_period(draw(orders(ways, 24)))
    assume(order != tuple(range(1, ways + 1)))
    return ways, order


@settings(max_examples=25, deadline=None, phases=PHASES)
@given(sets_with_an_order(), st.sampled_from([0.0, 0.005]), st.integers(0, 1000))
def test_any_order_is_found_with_its_shortest_period(case, misread, seed):
    ways, order = case
    laps = 2400 // (VISITS * (ways + 1))
    found = fit(observe(lambda: Order(ways, None, None, order), ways, 3, laps, misread, seed), ways)
    assert found is not None and found.repeats and found.restarts
    assert found.policy(ways) == Policy(PolicyKind.ORDER, order=order)


@settings(max_examples=15, deadline=None, phases=PHASES)
@given(sets_with_an_order(), st.sampled_from([0.0, 0.005]), st.integers(0, 1000))
def test_an_order_is_found_where_runs_begin_anywhere_in_it(case, misread, seed):
    ways, order = case
    assume(len(order) > 1)
    laps, rng = 2400 // (VISITS * (ways + 1)), random.Random(seed)
    starts = [rng.randrange(len(order)) for _ in range(3)]
    assume(any(starts))
    runs = observe(lambda: Order(ways, None, None, order), ways, 3, laps, misread, seed, starts.__getitem__)
    found = fit(runs, ways)
    rotations = [(*order[n:], *order[:n]) for n in range(len(order))]
    assert found is not None and found.repeats
    assert found.order in rotations
    if found.restarts:  # then no run is much likelier to begin elsewhere
        for run in runs:
            scores = [score(found.order, ways, run, start) for start in range(len(order))]
            assert max(scores) - scores[0] <= MIN_LEAD_NATS
    else:
        kind = PolicyKind.FIFO if min(rotations) == tuple(range(1, ways + 1)) else PolicyKind.ORDER
        assert found.policy(ways) == Policy(kind, order=min(rotations) if kind is PolicyKind.ORDER else ())


@settings(max_examples=25, deadline=None, phases=PHASES)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=8), st.sampled_from([0.0, 0.005]), st.integers(0, 1000))
def test_weighted_random_victims_are_no_order(weights, misread, seed):
    ways, rng = len(weights), random.Random(seed)
    for count, laps in ((4, 4), (3, 2400 // (VISITS * (ways + 1)))):
        runs = observe(lambda: Weighted(ways, iter(rng.random, None), weights), ways, count, laps, misread, seed)
        assert fit(runs, ways) is None


@pytest.mark.parametrize("name", ["lru", "fifo", "plru", "nru", "mru", "srrip", "slru", "random"])
@pytest.mark.parametrize("ways", [2, 4, 16])
def test_other_policies_are_no_order(name, ways):
    rng = random.Random(ways)
    for seed in range(3):
        runs = observe(lambda: POLICIES[name](ways, iter(rng.random, None), None), ways, 4, 4, 0.005, seed)
        assert fit(runs, ways) is None, seed


def test_short_runs_show_no_order():
    """Nine victims, as MC16 fig 11 prints, are too few: a rival explanation is not far less likely."""
    lines = np.tile(np.arange(5), 4)[:17]  # five lines in turn: nine replacements
    outcomes = predict_policy(Policy(PolicyKind.ORDER, order=FERMI), 4, lines)
    assert fit([Observation(lines, outcomes)], 4) is None


def test_an_order_longer_than_the_runs_does_not_repeat():
    order = tuple(random.Random(3).choices(range(1, 5), k=60))
    found = fit(observe(lambda: Order(4, None, None, order), 4, 4, 4, 0.0, 1), 4)
    assert found is not None and not found.repeats


@pytest.mark.parametrize("misread", [0.0, 0.005])
@pytest.mark.parametrize("ways", [4, 8, 16])
def test_the_order_of_figure_11_by_the_plan(ways, misread):
    device = OneCache(lambda ways, rng: Order(ways, None, None, FERMI), ways, misread=misread, seed=ways)
    found = run_policy_plan(device, device.line, ways)[0]
    assert (found.value, found.reason) == ("order 2 3 2 1 2 4", "")
    assert "begins with the first" in found.caveats[0]


@pytest.mark.parametrize(("order", "value"), [(FERMI, "order 1 2 4 2 3 2"), ((1, 2, 3, 4), "fifo")])
def test_an_order_with_an_unknown_start_by_the_plan(order, value):
    def policy(ways, rng):
        one = Order(ways, None, None, order)
        for _ in range(rng.randrange(len(order))):
            one.victim()
        return one

    device = OneCache(policy, 4, misread=0.001, seed=1)
    found = run_policy_plan(device, device.line)[0]
    assert found.value == value, found
    assert "varies" in found.caveats[0]


def test_an_order_without_a_period_is_ambiguous():
    """A sequence of victims that is the same from cold, far longer than a run."""
    order = tuple(random.Random(5).choices(range(1, 5), k=5000))
    device = OneCache(lambda ways, rng: Order(ways, None, None, order), 4)
    found = run_policy_plan(device, device.line)[0]
    assert found.status is Status.AMBIGUOUS and "no order repeats" in found.reason


@pytest.mark.parametrize("noise", [Noise(), Noise(outliers=0.005)], ids=["quiet", "delays"])
def test_an_order_from_latencies(gpu_with, noise):
    cache = Cache((4,) * 32, 128, 128, bits(7, 5), Policy(PolicyKind.ORDER, order=FERMI))
    found = estimates(gpu_with(cache, plain_l2(), noise), ["policy.l1"], 1)["l1", "replacement_policy"]
    assert found.value == "order 2 3 2 1 2 4", found
