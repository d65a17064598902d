"""The policy of a TLB whose misses are so cheap that the order of accesses hides some of them."""

import numpy as np
import pytest

from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.infer_confidence import DOUBTFUL, EXACT
from gpudissect.measure.plan import StopEarly
from gpudissect.measure.tlb.page_accesses import PageAccesses
from gpudissect.measure.tlb.plan_policy import HELD_OUT
from gpudissect.simulation.cache.geometry import Index, IndexKind, Policy, PolicyKind, Tlb
from tests.measure.tlb.test_plan_entries_and_page_size import gpu, tlb
from tests.support.driving import estimates

DELAYED_SHARE, DELAY = 0.015, 9.0  # of the visits; cycles, of 10.5 that a miss costs


def policy(monkeypatch, delays_of, experiment="policy.tlb_l1"):
    """The policy found if some visits are always delayed: which, depends on `delays_of` the placement of lines."""
    visits = PageAccesses.visits

    def delayed(accesses, sequences, laps, repetition=0):
        penalties = yield from visits(accesses, sequences, laps, repetition)
        for number, each in enumerate(penalties):
            rng = np.random.default_rng([number, delays_of(accesses.placement)])
            each[:, rng.random(each.shape[1]) < DELAYED_SHARE] += DELAY
        return penalties

    monkeypatch.setattr(PageAccesses, "visits", delayed)
    return estimates(gpu([tlb(16, 2 << 20)], walk=10.5), [experiment])["tlb_l1", "replacement_policy"]


@pytest.mark.parametrize("experiment", ["policy.tlb_l1", "hierarchy.translation"])
@pytest.mark.parametrize("alike", [0, 1], ids=["other lines differ", "a second set of other lines differs"])
def test_visits_that_are_always_delayed_refute_no_policy(monkeypatch, experiment, alike):
    assert policy(monkeypatch, lambda placement: max(placement - alike, 0), experiment).value == "lru"


def test_the_evidence_includes_the_run_that_decided(monkeypatch):
    evidence = policy(monkeypatch, lambda placement: placement).evidence
    monkeypatch.undo()
    undisturbed = estimates(gpu([tlb(16, 2 << 20)], walk=10.5), ["policy.tlb_l1"])["tlb_l1", "replacement_policy"]
    assert len(evidence) == len(undisturbed.evidence) + HELD_OUT


def test_what_other_lines_repeat_refutes_a_policy(monkeypatch):
    assert policy(monkeypatch, lambda placement: 0).status is Status.AMBIGUOUS


def test_policies_that_one_page_too_many_does_not_distinguish_are_distinguished_by_more():
    """LRU and last-two-hits miss on the same visits of 17 pages of a TLB with 16 entries, but not of 20."""
    found = estimates(gpu([tlb(16, 2 << 20)]), ["policy.tlb_l1"])["tlb_l1", "replacement_policy"]
    assert (found.value, found.confidence) == ("lru", EXACT) and len(found.caveats) == 1


@pytest.mark.parametrize("noise", [Noise(seed=1), *(Noise(seed=seed, outliers=0.01) for seed in range(6))], ids=repr)
def test_a_policy_is_ambiguous_where_the_pages_of_more_sets_miss_at_random(noise):
    """148 consecutive pages fit, so visits of 149 distinguish no policies: LRU predicts 99.7 % of random misses."""
    second = Tlb((22, 22, 21, 21, 21, 22, 21), 16 << 20, Index(IndexKind.MODULO), Policy(PolicyKind.RANDOM), 106.0)
    device = gpu([tlb(25, 4 << 20, 51.0), second], walk=106.0, noise=noise)
    assert estimates(device, ["policy.tlb_l2"])["tlb_l2", "replacement_policy"].status is Status.AMBIGUOUS


def test_without_visits_of_more_pages_a_policy_that_others_equal_is_doubtful(monkeypatch):
    misses = PageAccesses.misses

    def recorded(accesses, sequences, *rest):
        if sequences[0].max() > 16:
            raise StopEarly
        return (yield from misses(accesses, sequences, *rest))

    monkeypatch.setattr(PageAccesses, "misses", recorded)
    found = estimates(gpu([tlb(16, 2 << 20)]), ["policy.tlb_l1"])["tlb_l1", "replacement_policy"]
    assert (found.value, found.confidence) == ("lru", DOUBTFUL) and "last-two-hits" in found.caveats[1]
