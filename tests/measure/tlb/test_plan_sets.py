"""What is known of many sets without an address, and how many rounds pages take."""

import numpy as np
import pytest

from gpudissect.estimate import Status
from gpudissect.measure.cache.infer_residency import Fit
from gpudissect.measure.infer_confidence import DOUBTFUL
from gpudissect.measure.plan import Bench, StopEarly
from gpudissect.measure.tlb import plan_sets
from gpudissect.measure.tlb.infer_miss_penalty import MissCosts, MissPenalty, TlbLevel
from gpudissect.measure.tlb.page_accesses import PageAccesses, Undecided
from gpudissect.measure.tlb.plan_sets import tlb_of, tlb_sets_plan
from gpudissect.simulation.cache.geometry import Index, IndexKind, Policy, PolicyKind, Tlb
from tests.measure.tlb.test_plan_entries_and_page_size import gpu, tlb
from tests.support.driving import estimates

PAGE = 2 << 20


def answered(device, plan):
    """What a part of a plan returns, and the number of its rounds."""
    traces, rounds = None, 0
    while True:
        try:
            batch = plan.send(traces)
        except StopIteration as stop:
            return stop.value, rounds
        traces, rounds = device.run(batch), rounds + 1


def test_sets_of_many_entries_need_the_address_of_memory():
    level = TlbLevel(MissPenalty(60.0, 40.0), MissCosts((), (), ()), PAGE, 2048, ())
    outcome, rounds = answered(
        None, tlb_sets_plan("tlb_l2", Bench(gpu([tlb(300, PAGE)]).info), {tlb_of("tlb_l2"): level})
    )
    assert rounds == 0 and {each.status for each in outcome.estimates[:3]} == {Status.AMBIGUOUS}


def test_new_pages_are_measured_in_the_same_round_as_their_chain():
    device = gpu([tlb(16, PAGE)])
    accesses = PageAccesses(PAGE, Bench(device.info))
    for pages, expected in ((8, 2), (16, 1), (12, 1)):  # the first fixes the SM
        (penalties,), rounds = answered(device, accesses.penalties([np.arange(pages)]))
        assert (penalties.shape[1], rounds) == (pages, expected)
        assert abs(np.median(penalties)) < 2


@pytest.mark.parametrize("placements", [1, 2])
def test_chains_that_cannot_be_decided_are_tried_on_other_lines(monkeypatch, placements):
    """Lines of the first placements leave all chains undecided."""
    fit = PageAccesses.fit

    def undecided(accesses, chains, threshold):
        fits = yield from fit(accesses, chains, threshold)
        return [Fit.UNDECIDED] * len(fits) if accesses.placement < placements else fits

    monkeypatch.setattr(PageAccesses, "fit", undecided)
    device = gpu([tlb(16, PAGE)])
    accesses = PageAccesses(PAGE, Bench(device.info))
    plan = accesses.stay_resident([np.arange(16), np.arange(17)], 40.0)
    if placements == 1:
        assert answered(device, plan)[0] == [True, False] and len(accesses.evidence) == 4
    else:
        with pytest.raises(Undecided):
            answered(device, plan)


def test_without_random_visits_sets_that_group_tests_cannot_separate_stay_ambiguous(monkeypatch):
    """24 sets of 4 ways with a miss cache: 98 pages fit. Early recordings have no random visits of few pages."""

    def stop(search):
        raise StopEarly
        yield

    monkeypatch.setattr(plan_sets._SetSearch, "linear_sets", stop)
    few = Tlb((4,) * 24, 2 << 20, Index(IndexKind.MODULO), Policy(PolicyKind.LRU), 100.0, miss_cache=12)
    found = estimates(gpu([few], 100.0), ["sets.tlb_l1"])
    assert found["tlb_l1", "sets"].status is Status.AMBIGUOUS
    entries = found["tlb_l1", "entries"]
    assert (entries.confidence, entries.high) == (DOUBTFUL, None) and entries.low <= 96
