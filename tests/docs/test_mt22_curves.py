"""Figures 4.5, 4.6 and 4.21 to 4.26 of MT22: every row is computed, and the plots show what the rows compare."""

from xml.etree import ElementTree

import mt22_curves
import numpy as np
import pytest
from kinds import Kind

from gpudissect import catalogue
from gpudissect.units import WARP_SIZE


def rows():
    return list(mt22_curves.mt22_rows())


def test_every_figure_has_rows():
    figures = {row.source.split()[2].rstrip(",") for row in rows()}
    assert figures == {"4.5", "4.6", *mt22_curves.FIGURES.values()}
    assert {row.kind for row in rows()} == {Kind.DATA, Kind.ROUND_TRIP}


def test_a_row_that_differs_has_a_reason_and_others_have_none():
    for row in rows():
        assert bool(row.note) != row.agrees, row.what


def test_a_curve_agrees_with_itself(monkeypatch):
    monkeypatch.setattr(mt22_curves, "LOGS", {gpu: mt22_curves.curve(gpu) for gpu in ("k20c", "p6000", "a100")})
    compared = [row for row in rows() if row.source.endswith("MT4G log")]
    assert len(compared) == 4 + 4 + 3 and all(row.agrees for row in compared)


def test_another_log_makes_rows_differ(monkeypatch):
    log = mt22_curves.curve("k20c")
    spread = mt22_curves.Spread(20.0, 20.0, 20.0)
    other = mt22_curves.Curve(log.threads, log.sharing + 32, (0, 1), spread, mt22_curves.Spread(0.0, 0.0, 9.0))
    monkeypatch.setattr(mt22_curves, "LOGS", {"k20c": other})
    assert [row.agrees for row in rows() if row.source.endswith("MT4G log")] == [False] * 4


@pytest.mark.parametrize("gpu", ["840m", "k20c", "p6000"])
def test_threads_share_by_copies_and_each_miss_costs_the_next_level(gpu):
    """All lines of the array are evicted: one of eight loads misses."""
    hierarchy = catalogue.load(gpu).hierarchy()
    route = hierarchy.routes[mt22_curves.Path.TEXTURE]
    copies = hierarchy.caches[route.caches[0]].copies
    by_warp = np.array([0.0, *mt22_curves.deviations(gpu)])[WARP_SIZE - 1 :: WARP_SIZE]
    full = (route.latency[1] - route.latency[0]) / mt22_curves.LOADS_PER_FETCH
    assert by_warp.tolist() == [0.0 if warp % copies else full for warp in range(by_warp.size)]


def test_the_logs_are_consistent():
    for gpu, log in mt22_curves.LOGS.items():
        assert log.sharing == log.threads * len(log.warps) // 4 - 1
        assert log.disturbed == tuple(sorted(log.disturbed)) and (log.rest is None) == (len(log.warps) == 4)
        assert log.threads == mt22_curves.THREADS[gpu]


def test_plots_have_every_panel():
    sheets = dict(mt22_curves.pictures())
    assert list(sheets) == ["4-05", "4-21"]
    for gpu, figure in mt22_curves.FIGURES.items():
        assert f"figure {figure}: {gpu}" in sheets["4-21"]
    for svg in sheets.values():
        assert ElementTree.fromstring(svg) is not None and len(svg) < 50_000 and "NaN" not in svg
