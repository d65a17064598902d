"""The policy of a TLB whose misses are so cheap that the order of accesses hides some of them."""

import numpy as np
import pytest

from gpudissect.estimate import Status
from gpudissect.measure.tlb.page_accesses import PageAccesses
from gpudissect.measure.tlb.plan_policy import HELD_OUT
from tests.measure.tlb.test_plan_entries_and_page_size import gpu, tlb
from tests.support.driving import estimates

DELAYED_SHARE, DELAY = 0.015, 9.0  # of the visits; cycles, of 10.5 that a miss costs


def policy(monkeypatch, of_lines, experiment="policy.tlb_l1"):
    """The policy found if some visits are always delayed, others for other lines if `of_lines`."""
    visits = PageAccesses.visits

    def delayed(accesses, sequences, laps, repetition=0):
        penalties = yield from visits(accesses, sequences, laps, repetition)
        for number, each in enumerate(penalties):
            rng = np.random.default_rng([number, accesses.placement if of_lines else 0])
            each[:, rng.random(each.shape[1]) < DELAYED_SHARE] += DELAY
        return penalties

    monkeypatch.setattr(PageAccesses, "visits", delayed)
    return estimates(gpu([tlb(16, 2 << 20)], walk=10.5), [experiment])["tlb_l1", "replacement_policy"]


@pytest.mark.parametrize("experiment", ["policy.tlb_l1", "hierarchy.translation"])
def test_visits_that_are_always_delayed_refute_no_policy(monkeypatch, experiment):
    assert policy(monkeypatch, True, experiment).value == "lru"


def test_the_evidence_includes_the_run_that_decided(monkeypatch):
    evidence = policy(monkeypatch, of_lines=True).evidence
    monkeypatch.undo()
    undisturbed = estimates(gpu([tlb(16, 2 << 20)], walk=10.5), ["policy.tlb_l1"])["tlb_l1", "replacement_policy"]
    assert len(evidence) == len(undisturbed.evidence) + HELD_OUT


def test_what_other_lines_repeat_refutes_a_policy(monkeypatch):
    assert policy(monkeypatch, of_lines=False).status is Status.AMBIGUOUS
