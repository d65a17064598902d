"""Traces behind a finding that make a plot of their own: the stairs of a TLB, the map of an L2."""

import json
import re

import numpy as np
import pytest

from gpudissect.results.evidence.series import series_of
from gpudissect.results.model import Series
from gpudissect.trace import Context, Trace
from gpudissect.views.page.result import result_page
from gpudissect.views.plots.choose import figure_of
from gpudissect.views.plots.draw import svg
from gpudissect.views.plots.figure import Kind
from gpudissect.workload import Chase, Explicit, Instruction, Mix, Path, Step, Timing
from tests.support.results import result

MIB = 1 << 20
KEPT = 16  # pages


def ring(name, offsets, cycles, laps=5, **more):
    """A chase of single accesses and its trace, by the trace's name."""
    chase = Chase(path=Path.GLOBAL_L2, order=Explicit(np.array(offsets)), timing=Timing.EACH, laps=laps, **more)
    arrays = {"offsets": np.tile(chase.order.offsets(), laps), "cycles": np.asarray(cycles)}
    return {name: (chase, Trace(name, arrays, Context("x", sm=more.get("sm"))))}


def tlb():
    """A TLB of 16 pages of 2 MiB; a line lies anywhere in its page, in a drawn order."""
    rng, kept = np.random.default_rng(3), {}
    for distance in (2 * MIB, 8 * MIB):
        for pages in (8, 16, 17, 32):
            lines = rng.permutation(np.arange(pages) * distance + rng.integers(0, MIB // 128, pages) * 128)
            cycles = np.full(5 * pages, 200 if pages <= KEPT else 230)
            kept |= ring(f"{distance // MIB} {pages}", lines, cycles)
    kept |= ring("half as far", np.arange(32) * MIB, np.full(160, 200))  # one number of pages is no stair
    kept |= ring("packed", np.arange(64) * 512, np.full(320, 200))
    return kept


def test_stairs_of_a_tlb_show_rings_of_one_line_a_page_only():
    kept = tlb()
    made = {each.name: each for each in series_of("tlb_l1", tuple(kept), kept)}
    stairs = made["latency against pages"]
    rows = list(zip(*(stairs.columns[name] for name in ("distance", "pages", "latency")), strict=True))
    assert rows == [(distance, pages, 200.0 if pages <= KEPT else 230.0)
                    for distance in (2 * MIB, 8 * MIB) for pages in (8, 16, 17, 32)]  # fmt: skip
    assert set(stairs.evidence) == set(kept) - {"half as far", "packed"}
    assert "latency against pages" not in {each.name for each in series_of("l1", tuple(kept), kept)}


def l2(sms=8, lines=40):
    """Two parts: what is near to half of the SMs is far from the others; the first lap touches memory."""
    kept = {}
    for sm in range(sms):
        far = (np.arange(lines) % 2 == 0) == (sm < sms // 2)
        lap = 200 + 2 * sm + 60 * far
        kept |= ring(f"sm {sm}", np.arange(lines) * 128, np.concatenate([lap + 400, *[lap] * 4]), sm=sm)
    return kept


def test_the_map_of_an_l2_puts_lines_of_one_part_together():
    kept = l2()
    (shown,) = [each for each in series_of("l2", tuple(kept), kept) if each.name == "hit latency by sm and line"]
    cycles = np.array(shown.columns["latency"]).reshape(8, -1)
    assert cycles.shape == (8, 40) and shown.columns["sm"][:41] == (0,) * 40 + (1,)
    assert set(cycles[0]) == {200, 260}  # hits, not first touches
    assert np.count_nonzero(np.diff(cycles[0])) == 1  # all near lines, then all far ones
    few = {name: kept[name] for name in list(kept)[:3]}
    assert not [each for each in series_of("l2", tuple(few), few) if "by sm and line" in each.name]


def test_a_map_of_many_sms_is_thinned_out():
    kept = l2(sms=132, lines=64)
    (shown,) = [each for each in series_of("l2", tuple(kept), kept) if each.name == "hit latency by sm and line"]
    assert len(shown.columns["sm"]) <= 4000 and len(set(shown.columns["sm"])) == 132


def test_both_are_on_the_page_beside_lists_that_rest_on_the_same():
    kept = l2()
    found = {"l2.latency_by_sm": {"value": tuple(200.0 + sm for sm in range(8)), "evidence": tuple(kept)}}
    text = result_page(result(found), kept)
    assert "latency by SM, SM by SM" in text and "hit latency by sm and line" in text
    kept = tlb()
    text = result_page(result({"tlb_l1.entries": {"value": 16, "evidence": tuple(kept)}}), kept)
    assert "latency against pages" in text


def test_a_curve_is_named_after_what_was_varied():
    kept = {}
    for sm in range(3):
        chase = Chase(path=Path.GLOBAL_L2, order=Explicit(np.arange(4) * 128), timing=Timing.LAP, laps=3, sm=sm)
        kept[f"{sm}"] = (chase, Trace(f"{sm}", {"cycles": np.full(3, 800 + sm)}, Context("x", sm=sm)))
    (curve,) = series_of("l2", tuple(kept), kept)
    assert curve.name == "latency by sm" and curve.columns["sm"] == (0, 1, 2)


def test_numbers_of_sms_are_no_scale():
    columns = {"sm": (1, 100, 131), "latency": (200.0, 210.0, 205.0)}
    made = figure_of(Series(element="l2", name="latency by sm", columns=columns, units={"latency": "cycles"}))
    assert made.kind is Kind.DOTS
    (across, _) = json.loads(re.search(r'data-scales="(.*?)"', svg(made, "p"))[1].replace("&quot;", '"'))
    assert across[2] == 0  # not by powers


def test_what_varies_most_goes_across():
    kept = {}
    for peer in range(4):
        for stride in (16, 32):
            order = Explicit(np.arange(4) * stride)
            chase = Chase(path=Path.CLUSTER, order=order, timing=Timing.LAP, laps=3, peer=peer)
            name = f"{peer} {stride}"
            kept[name] = (chase, Trace(name, {"cycles": np.full(3, 800 + peer)}, Context("x")))
    (curve,) = series_of("cluster", tuple(kept), kept)
    assert curve.name == "latency by peer"


def test_chains_of_two_lengths_give_what_one_instruction_takes():
    kept = {}
    for count in (320, 512):
        for run in range(3):
            mix = Mix(body=(Step(Instruction.FFMA, count),), warps=1, block_size=32, iterations=2, repetition=run)
            end = np.array([4 * mix.instructions + 60 + run])
            kept[f"{count} {run}"] = (mix, Trace(f"{count} {run}", {"begin": np.array([0]), "end": end}, Context("x")))
    (shown,) = series_of("ffma", tuple(kept), kept)
    assert shown.name == "latency of an instruction by run"
    assert shown.columns["latency"] == pytest.approx((4, 4, 4), abs=0.01)
