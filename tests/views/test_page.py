"""The page of a result: whole, self-contained, quick, and harmless whatever the result holds."""

import json
import re
import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from gpudissect.estimate import Status
from gpudissect.results.evidence.attach import with_evidence
from gpudissect.results.evidence.series import series_of
from gpudissect.results.files import load
from gpudissect.results.model import Failure, Published, Series
from gpudissect.results.verdict import Verdict
from gpudissect.trace import Context, Trace
from gpudissect.views.page.result import result_page
from gpudissect.workload import Bounds, Chase, Explicit, Sequential, Timing
from gpudissect.workload import Path as Way
from tests.support.results import PLAIN, finding, result

ROOT = Path(__file__).parents[2]
NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x1b[2J\"'&--><!--"


class Read(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.blocks = [], [], {}
        self._block = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self._block = dict(attrs).get("id") if dict(attrs).get("type") == "application/json" else None

    def handle_data(self, data):
        if self._block:
            self.blocks[self._block] = json.loads(data)
            self._block = None


@pytest.fixture(scope="module")
def h200():
    return load(ROOT / "docs" / "results" / "h200.json")


def test_a_page_is_small_quick_and_asks_for_nothing(h200):
    begin = time.perf_counter()
    text = result_page(h200)
    assert time.perf_counter() - begin < 3
    assert len(text) < 3_000_000
    read = Read(text)
    assert {"iframe", "object", "embed", "base", "form"}.isdisjoint(read.tags)
    for name, value in read.attributes:
        assert not name.startswith("on") and name != "style"
        if name in ("href", "src"):
            assert value.startswith("#") or value == "data:,"
    policy = next(value for _, value in read.attributes if value and "default-src" in value)
    assert policy.startswith("default-src 'none'; style-src 'sha256-") and "unsafe" not in policy


def test_every_finding_is_there_with_what_belongs_to_it(h200):
    text = result_page(h200)
    assert text.count('class="finding"') == len(h200.findings)
    assert text.count("c-verdict v-") == sum(each.published is not None for each in h200.findings)
    assert len(Read(text).blocks) >= len(h200.series)
    assert "MEASURED" in text


def test_a_page_of_latency_hiding_answers_in_words():
    read = result_page(load(ROOT / "tests" / "recordings" / "h200-hiding.json"))
    assert "How many warps hide latency" in read
    assert "hide the latency of a load at alpha 0" in read.replace("\n", " ")
    assert "\\n" not in read[read.index("<pre>") : read.index("</pre>")]


def test_whole_paths_are_predicted_and_what_is_not_has_a_reason(h200):
    read = result_page(h200)
    assert "path, all its levels as one" in read
    assert "Not predicted:" in read


def test_every_link_leads_somewhere_and_every_name_is_given_once(h200):
    read = Read(result_page(h200))
    names = [value for name, value in read.attributes if name == "id"]
    assert len(names) == len(set(names))
    assert {value[1:] for name, value in read.attributes if name == "href" and value.startswith("#")} <= set(names)


def test_a_page_is_the_same_twice(h200):
    assert result_page(h200) == result_page(h200)


def hostile(count=30):
    """A result full of what might do harm."""
    nasty = {"method": NASTY, "caveats": (NASTY,), "evidence": (NASTY, "a" * 100_000), "reason": NASTY}
    findings = [finding("l1", "index_function", NASTY + "x" * 1_000_000, **nasty)]
    findings += [finding("l1", "ways", (1e308, -1e308, 5e-324), **nasty)]
    findings += [finding("l1", "hit_latency", 2.0**62, low=-1e308, high=1e308, **nasty)]
    findings = [each.model_copy(update={"element": NASTY, "attribute": NASTY}) for each in findings]
    findings += [finding("l2", "hit_latency", float(n), **nasty) for n in range(count)]
    findings.append(finding("dram", "hit_latency", status=Status.NOT_FOUND, reason=NASTY))
    columns = {NASTY: (1.0, None, 3.0, 1e308), "y": (1.0, 2.0, -1e308, 5.0), "text": (NASTY,) * 4}
    series = [
        Series(element=NASTY, name=NASTY, columns=columns, units={"y": NASTY}, evidence=(NASTY,)),
        Series(element="l1", name="", columns={}),
        Series(element="l1", name="one", columns={"x": (1.0,), "y": (2.0,)}),
        Series(element="l1", name="nothing", columns={"x": (None, None), "y": (None, None)}),
        Series(element="l1", name="same", columns={"x": (1.0, 1.0), "y": (0.0, 0.0)}),
        Series(element="l1", name="large", columns={"x": tuple(map(float, range(50_000))), "y": (2.0,) * 50_000}),
    ]
    device = {"name": NASTY, "spec": NASTY, "facts": {NASTY: NASTY, "clock_hz": 1e308}, "unsupported": {NASTY: NASTY}}
    made = result({}, **device)
    return made.model_copy(update={"findings": tuple(findings), "series": tuple(series), "environment": {NASTY: NASTY}})


def test_a_hostile_result_makes_a_harmless_page():
    text = result_page(hostile())
    read = Read(text)
    assert read.tags.count("script") == 1 + len(read.blocks)
    assert "img" not in read.tags
    assert not any(name.startswith("on") for name, _ in read.attributes)
    assert "\x1b" not in text and "\u202e" not in text
    assert "nan" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL).replace("nanosecond", "")
    assert len(text) < 3_000_000


def monstrous():
    """Ten thousand findings of different elements, and everything in it as long as can be."""
    long = NASTY * 200
    made = hostile(10_000)
    findings = [each.model_copy(update={"element": f"{long}{n // 4}", "method": long, "caveats": (long,) * 9})
                for n, each in enumerate(made.findings)]  # fmt: skip
    device = made.device.model_copy(update={
        "name": long, "spec": long, "facts": {**{f"{n}{long[:9000]}": long for n in range(300)}, "l2_size": long},
        "unsupported": {f"{n}": long for n in range(300)},
    })  # fmt: skip
    series = [Series(element="l1", name=f"{long}{n}", columns={"t": (long,) * 9, "x": [*range(9)], "y": [*range(9)]})
              for n in range(300)]  # fmt: skip
    failures = tuple(Failure(experiment=long, reason=long) for _ in range(300))
    environment = {f"{n}": long for n in range(600)}
    return made.model_copy(update={"device": device, "findings": tuple(findings), "failures": failures,
                                   "series": tuple(series), "environment": environment})  # fmt: skip


@pytest.mark.parametrize("make", [lambda: hostile(10_000), monstrous])
def test_whatever_a_file_holds_its_page_stays_one_that_opens(make):
    made = make()
    begin = time.perf_counter()
    text = result_page(made)
    assert time.perf_counter() - begin < 3
    assert len(text.encode()) < 3_000_000
    lines = text.count('class="finding"')
    assert 10 < lines < 2001
    left = len(made.findings) - lines
    assert (
        f"The first {lines} of {len(made.findings)} findings; {left} findings are left out to keep this page small"
        in text
    )
    names = [value for name, value in Read(text).attributes if name == "id"]
    assert len(names) == len(set(names))
    assert {value[1:] for name, value in Read(text).attributes if name == "href" and value[0] == "#"} <= set(names)


@pytest.mark.parametrize(("name", "value", "shown"), [
    ("dram.capacity", 150109880320, "139.8 GiB"), ("l2.capacity", 80 << 30, "80 GiB"),
    ("l1.capacity", 24608, "24.03125 KiB"),
    ("l1.capacity", 24575, "23.99902 KiB"), ("hiding.cusp_alpha", 45.25483399593904, "45.25"), ("l1.ways", 4.0, "4"),
    ("l1.replacement_policy", "lru", "LRU"), ("l1.replacement_policy", "plru", "PLRU"),
    ("l1.replacement_policy", "random", "random"), ("l1.replacement_policy", "weighted 0.5 0.5", "weighted 0.5 0.5"),
    ("l1.shared_with", "lru", "lru"),
])  # fmt: skip
def test_values_have_the_digits_and_the_spelling_that_a_reader_wants(name, value, shown):
    assert f"<strong>{shown}</strong>" in result_page(result({name: value}))


def test_a_published_range_is_shown_as_one():
    known = Published(value=220, low=200, high=250, unit="cycles", verdict=Verdict.OVERLAPS, text="why")
    text = result_page(result({"l2.hit_latency": {"value": 230.0, "low": 190.0, "high": 270.0, "published": known}}))
    assert re.search(r'c-published"><span class="aside">published </span>200 .. 250 cycles</span>', text)
    assert "overlaps</span>" in text and "v-overlaps" in text
    assert "200 .. 250 cycles, of which 220 cycles is taken as the value: overlaps, why" in text


def test_a_long_name_is_cut_where_it_is_shown():
    text = result_page(
        result(PLAIN, name="A" * 200_000, spec="B" * 200_000, facts={"compute_capability": "C" * 200_000})
    )
    assert (
        len(re.search(r"<h1[^>]*>(.*?)</h1>", text)[1]) <= 80 and len(re.search("<title>(.*?)</title>", text)[1]) < 110
    )
    assert len(re.search(r'<h1 title="(A+ …)"', text)[1]) <= 400
    assert not re.search("A{401}|B{201}|C{41}", re.sub("(?s)<details class=.group.*", "", text))
    assert "<h1>Made Up 1</h1>" in result_page(result(PLAIN))


def test_results_without_this_or_that_have_pages_too():
    for findings in ({}, {"l1.capacity": 1024}, {"launch.kernel_start": 900.0}, {"fadd.rate": 4.0}, PLAIN):
        text = result_page(result(findings))
        assert text.count('class="finding"') == len(findings)


def chases():
    """A small cache in counts, and single accesses of four laps."""
    kept = {}
    for lines in (4, 8, 16, 32):
        chase = Chase(path=Way.GLOBAL, order=Sequential(lines, 32), timing=Timing.COUNT, bounds=Bounds(40, 50, 90))
        kept[f"c{lines}"] = chase, Trace(f"c{lines}", {"counts": np.array([[8, max(0, lines - 8), 0]])}, Context("x"))
    order = Explicit(np.array([0, 96, 32, 64]))
    each = Chase(path=Way.GLOBAL, order=order, timing=Timing.EACH, laps=4)
    arrays = {"offsets": np.tile(order.offsets(), 4), "cycles": np.arange(16)}
    kept["each"] = each, Trace("each", arrays, Context("x"))
    return kept


def test_evidence_becomes_curves_maps_and_histograms():
    made = {
        series.name.split(",")[0]: series
        for series in series_of("l1", ("c4", "c8", "c16", "c32", "each", "?"), chases())
    }
    misses = made["misses against footprint"]
    assert misses.columns["footprint"] == (128, 256, 512, 1024)
    assert misses.columns["misses"] == (0, 0, 50, 75)
    assert misses.evidence == ("c4", "c8", "c16", "c32")
    lines = made["latency by line and lap"]
    assert lines.columns["line"][:4] == (0, 3, 1, 2)  # by place in memory
    assert lines.columns["lap"] == tuple(n // 4 for n in range(16))
    assert sum(made["histogram of access latencies"].columns["accesses"]) >= 15


def test_what_is_kept_of_the_evidence_is_on_the_page():
    made = result({"l1.capacity": {"value": 256, "evidence": ("c4", "c8", "c16", "c32", "each")}})
    assert 'class="canvas"' not in result_page(made)
    text = result_page(with_evidence(made, chases()))
    assert "misses against footprint" in text and "latency by line and lap" in text


def test_what_was_skipped_was_not_looked_for():
    skipped = {"status": Status.SKIPPED, "reason": "left out by --quick"}
    assert "Tested for and not found" not in result_page(result({**PLAIN, "tlb_l1.entries": skipped}))
    assert "Tested for and not found: L1 TLB." in result_page(result({**PLAIN, "tlb_l1.entries": None}))
