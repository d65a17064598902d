"""What the search for one set makes of pages that show none, and how many rounds pages take."""

import numpy as np
import pytest

from gpudissect.measure.plan import Bench
from gpudissect.measure.tlb.infer_miss_penalty import MissCosts, MissPenalty, TlbLevel
from gpudissect.measure.tlb.page_accesses import PageAccesses, Undecided
from gpudissect.measure.tlb.plan_sets import _SetSearch
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
    monkeypatch.setattr(search, "_fit", lambda chains: answer([False]))
    monkeypatch.setattr(search, "_needed", lambda pages: answer([7]))
    monkeypatch.setattr(search.accesses, "max_resident", lambda *_: answer(250))
    with pytest.raises(Undecided, match="without page 7"):
        answered(device, search.one_set(0))


def test_new_pages_are_measured_in_the_same_round_as_their_chain():
    device = gpu([tlb(16, PAGE)])
    accesses = PageAccesses(PAGE, Bench(device.info))
    for pages, expected in ((8, 2), (16, 1), (12, 1)):  # the first fixes the SM
        (penalties,), rounds = answered(device, accesses.penalties([np.arange(pages)]))
        assert (penalties.shape[1], rounds) == (pages, expected)
        assert abs(np.median(penalties)) < 2
