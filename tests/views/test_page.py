"""The page of a result: complete, self-contained, small, and harmless whatever the result holds."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from gpudissect.estimate import Status
from gpudissect.results.evidence.series import series_of, with_evidence
from gpudissect.results.files import load
from gpudissect.results.model import Provenance, Published, Series
from gpudissect.results.summary import BANDWIDTH_SERIES, summarize
from gpudissect.results.verdict import Verdict
from gpudissect.trace import Context, Trace
from gpudissect.views.page.hierarchy import LETTER, frames_of, hierarchy
from gpudissect.views.page.result import NARROW, WIDE, result_page
from gpudissect.views.plots.signature import CURVES, MOUNTAIN, signature_figures
from gpudissect.workload import Bounds, Chase, Explicit, Sequential, Timing
from gpudissect.workload import Path as MemoryPath
from tests.support.hostile import ParsedPage, hostile, monstrous
from tests.support.results import PLAIN, result, shown

ROOT = Path(__file__).parents[2]
MAX_BYTES = 3_000_000
MAX_MEASURED_BYTES = 2_000_000  # of a whole survey of a GPU


@pytest.fixture(scope="module")
def h200():
    return load(ROOT / "docs" / "results" / "h200.json")


@pytest.fixture(scope="module")
def h200_page(h200):
    return result_page(h200)


def test_a_page_is_small_and_makes_no_request(h200_page):
    assert len(h200_page.encode()) < MAX_MEASURED_BYTES
    page = ParsedPage(h200_page)
    assert {"iframe", "object", "embed", "base", "form"}.isdisjoint(page.tags)
    for name, value in page.attributes:
        assert not name.startswith("on") and name != "style"
        if name in ("href", "src"):
            assert value.startswith("#") or value == "data:,"
    policy = next(value for _, value in page.attributes if value and "default-src" in value)
    assert policy.startswith("default-src 'none'; style-src 'sha256-") and "unsafe" not in policy


def test_every_finding_is_there_with_its_verdict_and_plots(h200, h200_page):
    assert h200_page.count('class="finding"') == len(h200.findings)
    assert h200_page.count("c-verdict v-") == sum(each.published is not None for each in h200.findings)
    assert len(ParsedPage(h200_page).blocks) >= 0.9 * len(h200.series)
    assert "MEASURED" in h200_page


def test_latency_hiding_is_answered_in_words_then_in_a_map_then_in_tables():
    text = result_page(load(ROOT / "tests" / "results" / "h200-hiding.json"))
    places = [text.index(part) for part in ("How many warps hide latency", "without additions", "<figure", "<pre>")]
    assert places == sorted(places)
    assert "\\n" not in text[text.index("<pre>") : text.index("</pre>")]


def test_the_first_screen_has_summary_remarks_and_what_differs(h200, h200_page):
    first = h200_page[h200_page.index('class="first"') : h200_page.index("<h2>Plots")]
    near, far = (shown(h200, f"l2.{place}_latency", unit=False) for place in ("near", "far"))
    values = (shown(h200, "l1.capacity"), f"{near} / {far}", shown(h200, "l2.read_bandwidth"))
    reach, by_sm = f"{shown(h200, 'tlb_l2.reach')} in one piece", summarize(h200).latency_by_sm
    for part in (*values, reach, by_sm, "hash of address bits 7 to ", " (higher ones were not tested)"):
        assert part in first, part
    assert "is the L1 instruction cache" not in first
    different = [each for each in h200.findings if each.published and each.published.verdict is Verdict.DIFFERS]
    assert f"Different from published values ({len(different)})" in first
    assert all(each.published.text in first for each in different)
    assert h200_page.index("<figure") < h200_page.index("Uncertain or not found") < h200_page.index('id="findings"')


def test_a_figure_on_top_is_not_repeated_below(h200_page):
    titles = re.findall("<figcaption>(.*?)</figcaption>", h200_page)
    for title in ("Roofline from measured rates", "L2 cache: latency by SM", "L1 TLB: latency against pages"):
        assert titles.count(title) == 1


def with_series(made, element, name, columns, **units):
    added = Series(element=element, name=name, columns=columns, units=units)
    return made.model_copy(update={"series": (*made.series, added)})


@pytest.fixture(scope="module")
def without_curves(h200):
    """The result without series over footprints, as of a run that left them out."""
    series = tuple(each for each in h200.series if each.element != CURVES and each.name != BANDWIDTH_SERIES)
    return h200.model_copy(update={"series": series})


def test_the_memory_mountain_comes_first_and_replaces_single_accesses(without_curves):
    columns = {"footprint": (1 << 14, 1 << 18, 1 << 22, 1 << 30), "latency": (32.0, 60.0, 281.0, 690.0)}
    made = with_series(without_curves, *MOUNTAIN, columns, footprint="B", latency="cycles")
    figure, *_ = signature_figures(made)
    assert figure.log_x and "published" in " ".join(figure.columns["group"])
    assert {text.split()[0] for _, text in figure.levels} == {"L1", "L2", "DRAM"}
    assert [text for _, text in figure.marks] == ["L1", "L2 partition", "L2", "L1 TLB"]
    single = "L1 data cache: latency of single accesses against footprint, timer included"
    assert single not in result_page(made) and single in result_page(without_curves)


def test_bandwidth_against_footprint_marks_capacities_and_bandwidths(without_curves):
    columns = {"footprint": (1 << 20, 1 << 24, 1 << 28), "bandwidth": (33e12, 9.1e12, 4.7e12)}
    made = with_series(without_curves, CURVES, BANDWIDTH_SERIES, columns, footprint="B", bandwidth="B/s")
    figure, *_ = signature_figures(made)
    assert figure.unit("bandwidth") == "B/s" and [text for _, text in figure.levels][1:] == [
        f"L2 {shown(without_curves, 'l2.read_bandwidth')}",
        f"DRAM {shown(without_curves, 'dram.read_bandwidth')}",
    ]
    (size, name), *_ = figure.marks
    assert name == "L2 partition" or size == 132 * without_curves.finding("l1", "capacity").value
    assert "Other measurements" not in result_page(made)


def test_the_bandwidth_of_the_l2_is_given_with_its_footprint(without_curves):
    columns = {"footprint": (1 << 20, 1 << 28), "bandwidth": (9.2e12, 4.7e12)}
    made = with_series(without_curves, "l2", BANDWIDTH_SERIES, columns, footprint="B", bandwidth="B/s")
    assert "at 1 MiB" in next(frame.title for frame in frames_of(made) if frame.kind == "chip")
    assert "9.2 TB/s at 1 MiB<br>4.7 TB/s at 256 MiB" in result_page(made)


def test_predictions_of_whole_paths_and_the_missing_ones_are_there(h200_page):
    assert "path, all its levels as one" in h200_page
    assert "Not predicted:" in h200_page


def test_every_link_has_its_target_and_every_id_is_unique(h200_page):
    page = ParsedPage(h200_page)
    assert len(page.ids) == len(set(page.ids))
    assert page.fragments <= set(page.ids)


def test_a_page_is_reproducible(h200, h200_page):
    assert result_page(h200) == h200_page


def test_a_hostile_result_makes_a_harmless_page():
    text = result_page(hostile())
    page = ParsedPage(text)
    assert page.tags.count("script") == 1 + len(page.blocks)
    assert "img" not in page.tags
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert "\x1b" not in text and "\u202e" not in text
    assert "nan" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL).replace("nanosecond", "")
    assert len(text) < MAX_BYTES


@pytest.mark.parametrize("make", [lambda: hostile(10_000), monstrous])
def test_the_page_of_a_huge_result_stays_small_and_says_what_is_left_out(make):
    made = make()
    text = result_page(made)
    assert len(text.encode()) < MAX_BYTES
    shown, total = text.count('class="finding"'), len(made.findings)
    assert 10 < shown < 2001
    assert f"The first {shown} of {total} findings; {total - shown} findings are left out" in text
    page = ParsedPage(text)
    assert len(page.ids) == len(set(page.ids))
    assert page.fragments <= set(page.ids)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("dram.capacity", 150109880320, "139.8 GiB"),
        ("l2.capacity", 80 << 30, "80 GiB"),
        ("l1.capacity", 24608, "24.03125 KiB"),
        ("l1.capacity", 24575, "23.99902 KiB"),
        ("hiding.cusp_alpha", 45.25483399593904, "45.25"),
        ("l1.ways", 4.0, "4"),
        ("l1.replacement_policy", "lru", "LRU"),
        ("l1.replacement_policy", "plru", "PLRU"),
        ("l1.replacement_policy", "last-two-hits", "last-two-hits"),
        ("l1.replacement_policy", "random", "random"),
        ("l1.replacement_policy", "weighted 0.5 0.5", "weighted 0.5 0.5"),
        ("l1.shared_with", "lru", "lru"),
    ],
)
def test_values_have_readable_digits_and_spelling(name, value, shown):
    assert f"<strong>{shown}</strong>" in result_page(result({name: value}))


def test_a_published_range_is_shown_as_one():
    known = Published(value=220, low=200, high=250, unit="cycles", verdict=Verdict.OVERLAPS, text="why")
    text = result_page(result({"l2.hit_latency": {"value": 230.0, "low": 190.0, "high": 270.0, "published": known}}))
    assert re.search(r'c-published"><span class="aside">published </span>200-250 cycles</span>', text)
    assert "overlaps</span>" in text and "v-overlaps" in text
    assert "200-250 cycles, of which 220 cycles is taken as the value: overlaps, why" in text


@pytest.mark.parametrize(
    ("time", "shown"), [("2026-11-22T18:41:40+00:00", "2026-11-22 18:41 UTC"), ("<b>noon", "&lt;b&gt;noon")]
)
def test_time_and_driver_stand_in_the_header(time, shown):
    made = result(PLAIN).model_copy(update={"provenance": Provenance(time=time, driver="580.1")})
    assert f" · {shown} · driver 580.1 · " in result_page(made)


def test_long_names_are_cut():
    facts = {"compute_capability": "C" * 200_000}
    text = result_page(result(PLAIN, name="A" * 200_000, spec="B" * 200_000, facts=facts))
    assert len(re.search(r"<h1[^>]*>(.*?)</h1>", text)[1]) <= 80
    assert len(re.search("<title>(.*?)</title>", text)[1]) < 110
    assert len(re.search(r'<h1 title="(A+ …)"', text)[1]) <= 400
    assert not re.search("A{401}|B{201}|C{41}", re.sub("(?s)<details class=.group.*", "", text))
    assert "<h1>Made Up 1</h1>" in result_page(result(PLAIN))


@pytest.mark.parametrize(
    "findings", [{}, {"l1.capacity": 1024}, {"launch.kernel_start": 900.0}, {"fadd.rate": 4.0}, PLAIN]
)
def test_incomplete_results_have_pages_too(findings):
    assert result_page(result(findings)).count('class="finding"') == len(findings)


def chases():
    """A small cache in counts, and single accesses of four laps."""
    kept = {}
    for lines in (4, 8, 16, 32):
        order = Sequential(lines, 32)
        chase = Chase(path=MemoryPath.GLOBAL, order=order, timing=Timing.COUNT, bounds=Bounds(40, 50, 90))
        kept[f"c{lines}"] = chase, Trace(f"c{lines}", {"counts": np.array([[8, max(0, lines - 8), 0]])}, Context("x"))
    order = Explicit(np.array([0, 96, 32, 64]))
    each = Chase(path=MemoryPath.GLOBAL, order=order, timing=Timing.EACH, laps=4)
    arrays = {"offsets": np.tile(order.offsets(), 4), "cycles": np.arange(16)}
    kept["each"] = each, Trace("each", arrays, Context("x"))
    return kept


def test_evidence_becomes_curves_maps_and_histograms():
    digests = ("c4", "c8", "c16", "c32", "each", "?")
    made = {series.name.split(",")[0]: series for series in series_of("l1", digests, chases())}
    misses = made["misses against footprint"]
    assert misses.columns["footprint"] == (128, 256, 512, 1024)
    assert misses.columns["misses"] == (0, 0, 50, 75)
    assert misses.evidence == ("c4", "c8", "c16", "c32")
    lines = made["latency by line and lap"]
    assert lines.columns["line"][:4] == (0, 3, 1, 2)  # by place in memory
    assert lines.columns["lap"] == tuple(n // 4 for n in range(16))
    assert sum(made["histogram of access latencies"].columns["accesses"]) >= 15


def test_kept_evidence_is_on_the_page():
    made = result({"l1.capacity": {"value": 256, "evidence": ("c4", "c8", "c16", "c32", "each")}})
    assert 'class="canvas"' not in result_page(made)
    text = result_page(with_evidence(made, chases()))
    assert "misses against footprint" in text and "latency by line and lap" in text


def test_what_was_skipped_is_not_listed_as_missing():
    skipped = {"status": Status.SKIPPED, "reason": "left out by --quick"}
    assert "Tested for and not found" not in result_page(result({**PLAIN, "tlb_l1.entries": skipped}))
    assert "Tested for and not found: L1 TLB." in result_page(result({**PLAIN, "tlb_l1.entries": None}))


def titles(frames):
    return {frame.title: [" ".join(box.titles) for box in frame.boxes] for frame in frames}


def test_the_drawing_states_no_position_that_was_not_measured(h200):
    frames = titles(frames_of(h200))
    assert frames["Position not measured"] == ["L1 TLB", "L2 TLB", "Constant L1.5 + L1 code", "L0 instruction cache"]
    (code,) = (box for frame in frames_of(h200) for box in frame.boxes if box.element == "icache_l0")
    assert code.lines[-1] == f"miss + {shown(h200, 'icache_l0.miss_penalty')} per line"
    assert not any("TLB" in box for title, boxes in frames.items() for box in boxes if title.startswith("Each"))


def test_l1_and_shared_memory_are_one_array_where_they_are_one(h200):
    (array, *_), *_ = (frame.boxes for frame in frames_of(h200))
    assert [part.element for part in array.parts] == ["l1", "shared"]
    assert all(shown(h200, f"{name}.capacity") in array.lines[0] for name in ("l1", "shared"))
    assert not any("KiB" in line for part in array.parts for line in part.lines)
    old = h200.model_copy(update={"device": h200.device.model_copy(update={"facts": {"compute_capability": "5.2"}})})
    assert {"l1", "shared"} < {box.element for box in frames_of(old)[0].boxes}


def test_the_far_partition_stands_at_a_longer_distance(h200):
    near, far = next(frame.boxes for frame in frames_of(h200) if frame.kind == "chip")
    assert shown(h200, "l2.near_latency", unit=False) in near.latency and far.drop > near.drop
    assert shown(h200, "l2.far_latency", unit=False) in far.latency
    assert not any("miss" in line for box in (near, far) for line in box.lines)  # its cost is a mean of both
    (memory,) = next(frame.boxes for frame in frames_of(h200) if frame.kind == "board")
    assert memory.latency.startswith("latency ")


def test_labels_of_arrows_stay_within_a_narrow_drawing(h200):
    for width in (WIDE, NARROW):
        labels = ET.fromstring(str(hierarchy(h200, width, {}))).findall(".//text[@class='cost']")
        assert labels and all(float(each.get("x")) - LETTER * len(each.text) >= 0 for each in labels)
