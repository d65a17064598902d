"""What the search for one set makes of pages that show none, and how many rounds pages take."""

import numpy as np
import pytest

from gpudissect.estimate import Status
from gpudissect.measure.plan import Bench
from gpudissect.measure.tlb import plan_sets
from gpudissect.measure.tlb.infer_miss_penalty import MissCosts, MissPenalty, TlbLevel
from gpudissect.measure.tlb.page_accesses import PageAccesses, Undecided
from gpudissect.measure.tlb.plan_sets import _Conflict, _SetSearch, tlb_of, tlb_sets_plan
from tests.measure.tlb.test_plan_entries_and_page_size import gpu, tlb

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


def answer(value):
    yield from ()
    return value


def test_a_page_that_conflicts_with_no_other_shows_no_set(monkeypatch):
    level = TlbLevel(MissPenalty(60.0, 40.0), MissCosts((), (), ()), PAGE, 300, ())
    device = gpu([tlb(300, PAGE)])
    search = _SetSearch(level, Bench(device.info))
    with pytest.raises(Undecided, match="without page 7"):
        answered(device, search.ways(_Conflict(np.arange(251), [7], is_exact=True)))


@pytest.mark.parametrize(("pages", "ways"), [(1160, 16), (1160, 64), (300, 100), (280, 150), (200, 80)])
def test_a_set_needs_no_more_pages_than_it_may(pages, ways):
    for seed in range(200):
        groups = np.array_split(np.random.default_rng(seed).permutation(pages), plan_sets.GROUPS)
        hit = [group for group in groups if (group <= ways).any()]
        candidates = sum(group.size for group in hit)
        if len(hit) < plan_sets.GROUPS and candidates > plan_sets.MAX_CANDIDATES:
            of_sample = np.random.default_rng(seed).choice(np.concatenate(hit), plan_sets.SAMPLE, replace=False)
            share = plan_sets.max_needed_share(len(hit), plan_sets.GROUPS, candidates)
            assert np.mean(of_sample <= ways) <= share or share == plan_sets.MAX_NEEDED_SHARE, seed


def test_pages_most_of_which_are_needed_show_no_set(monkeypatch):
    """Three of four pages of 63 groups, as where another level hides conflicts; the last group is not needed."""
    level = TlbLevel(MissPenalty(60.0, 40.0), MissCosts((), (), ()), PAGE, 2048, ())
    search = _SetSearch(level, Bench(gpu([tlb(300, PAGE)]).info))
    sizes, pages = [], np.arange(1152)

    def fit(chains):
        sizes.append(len(chains))
        missing = [np.setdiff1d(pages, chain) for chain in chains]
        return answer([0 not in each if each.size > 1 else each[0] % 4 > 0 for each in missing])

    monkeypatch.setattr(search, "_fit", fit)
    with pytest.raises(Undecided, match="no single set"):
        answered(None, search._narrowed(pages))
    assert sizes == [64, 16]


def test_pages_are_tried_one_by_one_only_if_both_conflicts_seem_to_be_of_one_set(monkeypatch):
    level = TlbLevel(MissPenalty(60.0, 40.0), MissCosts((), (), ()), PAGE, 2048, ())
    tried = []

    def conflict(search, attempt):
        if attempt == 1:
            raise Undecided("no single set")
        return answer(_Conflict(np.arange(9), [1, 2], is_exact=False))

    monkeypatch.setattr(_SetSearch, "conflict", conflict)
    monkeypatch.setattr(_SetSearch, "ways", lambda *_: tried.append(1))
    known = {tlb_of("tlb_l2"): level}
    outcome, _ = answered(None, tlb_sets_plan("tlb_l2", Bench(gpu([tlb(300, PAGE)]).info), known))
    assert not tried and {each.status for each in outcome.estimates[:3]} == {Status.AMBIGUOUS}


def test_new_pages_are_measured_in_the_same_round_as_their_chain():
    device = gpu([tlb(16, PAGE)])
    accesses = PageAccesses(PAGE, Bench(device.info))
    for pages, expected in ((8, 2), (16, 1), (12, 1)):  # the first fixes the SM
        (penalties,), rounds = answered(device, accesses.penalties([np.arange(pages)]))
        assert (penalties.shape[1], rounds) == (pages, expected)
        assert abs(np.median(penalties)) < 2
