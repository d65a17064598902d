"""The page of a fleet: histories, drifts first, fingerprints, and texts of unknown origin."""

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from gpudissect.fleet.history import histories
from gpudissect.fleet.report import report
from gpudissect.views.page.fingerprint import strip
from gpudissect.views.page.fleet import fleet_page
from gpudissect.views.page.fleet_history import MAX_HISTORIES
from gpudissect.views.plots.sparkline import MIN_RANGE, Point, sparkline
from gpudissect.views.terminal.fleet_history import print_history
from tests.support.fleet import over_time, readings

MAP = "aabb" * 33


def runs_of(cards, count, drifting=()):
    """Each card in several runs; the last run of some is 30 % slow."""
    return [
        replace(run, file=f"{day}/{run.file}", time=f"2026-01-{day:02d}T00:00:00+00:00", partitions=MAP)
        for day in range(1, count + 1)
        for run in readings([3.2 if day == count and card in drifting else 4.6 for card in range(cards)], error=0.02)
    ]


def page_of(runs):
    return fleet_page(report(runs), runs)


def test_cards_that_drift_come_first_and_are_open():
    page = page_of(runs_of(12, 4, {7}))
    sections = re.findall(r"<details[^>]*?( open)?><summary[^>]*><h3>([^<]*)</h3>", page)
    assert (
        len(sections) == 12 and sections[0] == (" open", "cuda:7") and not any(is_open for is_open, _ in sections[1:])
    )
    assert page.count('class="sparkline"') == 12 and page.count('class="dot drift"') == 1
    assert "4 runs, 3.2 B/s to 4.6 B/s; last 3.2 B/s -30.4%, drift" in page


def test_without_a_second_run_there_is_no_history_and_without_a_map_no_fingerprint():
    page = page_of(readings([4.6] * 4))
    assert "History" not in page and "sparkline" not in page.partition("</style>")[2] and "near partition" not in page


def test_a_large_fleet_names_the_cards_that_are_left_out():
    page = page_of(runs_of(MAX_HISTORIES + 5, 2, {3}))
    assert page.count('class="sparkline"') == MAX_HISTORIES and "and 5 more cards" in page
    assert page.index("<h3>cuda:3</h3>") < page.index("<h3>cuda:0</h3>")


def test_a_partial_run_does_not_hide_the_drift_before_it():
    runs = over_time(readings([4.6, 4.6, 3.2, 3.2]))
    runs[3] = replace(runs[3], readings={})
    assert "drift of 1 value" in page_of(runs)


def test_names_of_files_are_cleaned_in_a_terminal():
    key = ("\x1b[31mred", "read_bandwidth")
    runs = over_time(readings([4.6, 4.6], key=key))
    found = report(runs)
    out = Console(file=StringIO(), width=200)
    print_history(out, *histories(found, runs, found.cards))
    assert "read bandwidth" in out.file.getvalue() and "\x1b" not in out.file.getvalue()


@pytest.mark.parametrize("field", ["file", "label", "time", "card"])
def test_texts_from_files_are_escaped(field):
    hostile = '<script>alert("x")</script>\x1b'
    runs = [replace(run, **{field: hostile + getattr(run, field)}) for run in runs_of(2, 3, {1})]
    runs = [replace(run, facts={"driver": f"<b>{run.time}"}) for run in runs]
    page = page_of(runs)
    assert "<script>alert" not in page and "<b>2026" not in page and "\x1b" not in page


def test_a_changed_fingerprint_is_named():
    runs = runs_of(3, 2)
    runs[-1] = replace(runs[-1], partitions="ab" * 66)
    page = page_of(runs)
    assert "Cards that changed" in page and page.count("<strong>changed</strong>") == 1
    assert page.count('class="strip"') == 3


def test_a_strip_has_a_cell_for_each_sm_and_the_map_as_text():
    drawing = strip("aabba")
    assert 'width="20"' in drawing and 'aria-label="5 SMs, 3 near a, 2 near b: SM 0-1 a, 2-3 b, 4 a"' in drawing
    assert 'd="M0 0h8v14h-8zM16 0h4v14h-4z"' in drawing and 'd="M8 0h8v14h-8z"' in drawing


def test_noise_looks_small():
    """Values within 0.4 % take a tenth of the height."""
    points = [Point(n, value, value, value) for n, value in enumerate([100.0, 100.4, 100.0])]
    drawing = sparkline(points, 0, 2, "text")
    heights = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", drawing.partition('class="line s0"')[2])]
    assert 0 < max(heights) - min(heights) <= 5 and MIN_RANGE == 0.04


@pytest.mark.parametrize("values", [[], [float("inf")], [1e300, 1e-300]])
def test_what_cannot_be_plotted(values):
    assert "nan" not in sparkline([Point(n, value, value, value) for n, value in enumerate(values)], 0, 1, "text")


def test_runs_at_one_time_stand_apart():
    runs = [
        replace(run, card="GPU-0", time="", label="cuda:0", file=f"{n}.json")
        for n, run in enumerate(readings([4.6, 4.5]))
    ]
    assert "M6.0 " in page_of(runs) and "234.0 " in page_of(runs)
