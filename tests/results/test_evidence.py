"""Series from the traces behind findings, in files and on pages."""

import numpy as np
import pytest

from gpudissect.device.base import Keeper
from gpudissect.device.kinds import open_device
from gpudissect.results.build import build
from gpudissect.results.evidence.series import FILE_LIMITS, PAGE_LIMITS, series_of, with_evidence
from gpudissect.results.model import Options, Result
from gpudissect.survey.run import run_survey
from gpudissect.trace import Context, Trace
from gpudissect.views.page.result import result_page
from gpudissect.workload import Chase, Explicit, Instruction, Mix, Path, Shuffled, Step, Timing
from tests.support.page_links import findings_without_plot, linked_plots
from tests.support.results import result

MIB = 1 << 20
TLB_PAGES = 16
ELEMENTS = ("timer", "l1", "shared", "launch")
SM_MAP, TLB_CURVE = "hit latency by sm and line", "latency against pages"


def chase_of(name, offsets, cycles, laps=5, path=Path.GLOBAL_L2, **fields):
    """A chase of single accesses with its trace, by name."""
    chase = Chase(path=path, order=Explicit(np.array(offsets)), timing=Timing.EACH, laps=laps, **fields)
    arrays = {"offsets": np.tile(chase.order.offsets(), laps), "cycles": np.asarray(cycles)}
    return {name: (chase, Trace(name, arrays, Context("x", sm=fields.get("sm"))))}


def laps_of(name, path, order, cycles, **fields):
    """A chase of timed laps with its trace, by name."""
    chase = Chase(path=path, order=order, timing=Timing.LAP, laps=len(cycles), **fields)
    return {name: (chase, Trace(name, {"cycles": np.asarray(cycles)}, Context("x")))}


def tlb_traces():
    """A TLB of 16 pages of 2 MiB; each line lies anywhere in its page, in random order."""
    rng, traces = np.random.default_rng(3), {}
    for distance in (2 * MIB, 8 * MIB):
        for pages in (8, 16, 17, 32):
            lines = rng.permutation(np.arange(pages) * distance + rng.integers(0, MIB // 128, pages) * 128)
            cycles = np.full(5 * pages, 200 if pages <= TLB_PAGES else 230)
            traces |= chase_of(f"{distance // MIB} {pages}", lines, cycles)
    traces |= chase_of("one page count", np.arange(32) * MIB, np.full(160, 200))
    return traces | chase_of("dense", np.arange(64) * 512, np.full(320, 200))


def l2_traces(sms=8, lines=40):
    """An L2 with two partitions, each near to half of the SMs; the first lap misses."""
    traces = {}
    for sm in range(sms):
        far = (np.arange(lines) % 2 == 0) == (sm < sms // 2)
        lap = 200 + 2 * sm + 60 * far
        traces |= chase_of(f"sm {sm}", np.arange(lines) * 128, np.concatenate([lap + 400, *[lap] * 4]), sm=sm)
    return traces


def all_series(element, traces):
    return {series.name: series for series in series_of(element, tuple(traces), traces)}


@pytest.fixture(scope="module")
def survey():
    """A result and its traces."""
    with open_device("sim:gtx980") as device:
        keeper = Keeper(device)
        yield build(device.info, run_survey(keeper, elements=ELEMENTS, quick=True), Options()), keeper


@pytest.fixture(scope="module")
def stored(survey):
    """The result with evidence, as it is read from its file."""
    return Result.model_validate_json(with_evidence(*survey).to_json())


def test_the_curve_of_a_tlb_has_chains_of_one_line_per_page_only():
    traces = tlb_traces()
    curve = all_series("tlb_l1", traces)[TLB_CURVE]
    rows = list(zip(*(curve.columns[name] for name in ("distance", "pages", "latency")), strict=True))
    page_counts = ((8, 200.0), (16, 200.0), (17, 230.0), (32, 230.0))
    assert rows == [(distance, *each) for distance in (2 * MIB, 8 * MIB) for each in page_counts]
    assert set(curve.evidence) == set(traces) - {"one page count", "dense"}
    assert TLB_CURVE not in all_series("l1", traces)


def test_the_map_of_an_l2_sorts_lines_by_partition():
    traces = l2_traces()
    sm_map = all_series("l2", traces)[SM_MAP]
    cycles = np.array(sm_map.columns["latency"]).reshape(8, -1)
    assert cycles.shape == (8, 40) and sm_map.columns["sm"][:41] == (0,) * 40 + (1,)
    assert set(cycles[0]) == {200, 260}  # hits, not first touches
    assert np.count_nonzero(np.diff(cycles[0])) == 1  # all near lines, then all far ones
    assert SM_MAP not in all_series("l2", dict(list(traces.items())[:3]))


def test_the_map_of_many_sms_is_thinned_out():
    traces = l2_traces(sms=132, lines=64)
    page = all_series("l2", traces)[SM_MAP]
    finding = {"l2.partition_by_sm": {"value": (0, 1), "evidence": tuple(traces)}}
    file = with_evidence(result(finding), traces).observed("l2", SM_MAP)
    for series, max_cells in ((page, 4000), (file, 1056)):
        assert len(series.columns["sm"]) <= max_cells and len(set(series.columns["sm"])) == 132
    assert file.evidence == () and file.shows == ("partition_by_sm",)


def test_a_curve_is_named_after_the_parameter_that_varies_most():
    order, traces = Explicit(np.arange(4) * 128), {}
    for sm in range(3):
        traces |= laps_of(f"{sm}", Path.GLOBAL_L2, order, np.full(3, 800 + sm), sm=sm)
    (curve,) = all_series("l2", traces).values()
    assert curve.name == "latency by sm" and curve.columns["sm"] == (0, 1, 2)
    traces = {}
    for peer in range(4):
        for stride in (16, 32):
            order = Explicit(np.arange(4) * stride)
            traces |= laps_of(f"{peer} {stride}", Path.CLUSTER, order, np.full(3, 800 + peer), peer=peer)
    assert list(all_series("cluster", traces)) == ["latency by peer"]


def test_the_latency_of_an_instruction_is_the_difference_of_two_chains():
    traces = {}
    for count in (320, 512):
        for run in range(3):
            mix = Mix(body=(Step(Instruction.FFMA, count),), warps=1, block_size=32, iterations=2, repetition=run)
            arrays = {"begin": np.array([0]), "end": np.array([4 * mix.instructions + 60 + run])}
            traces[f"{count} {run}"] = (mix, Trace(f"{count} {run}", arrays, Context("x")))
    (series,) = all_series("ffma", traces).values()
    assert series.name == "latency of an instruction by run"
    assert series.columns["latency"] == pytest.approx((4, 4, 4), abs=0.01)


def test_the_latency_of_a_load_is_the_difference_of_two_chains():
    traces = {}
    for links in (32, 64):
        traces |= laps_of(f"{links}", Path.SHARED, Shuffled(links, 4, 0), 23 * links + 40 + np.arange(9))
    example = with_evidence(result({"shared.hit_latency": {"value": 23.0, "evidence": ("64", "32")}}), traces)
    latency = example.observed("shared", "latency of a load by lap").columns["latency"]
    assert len(latency) == 9 and latency[2] == 23.0  # the lower quartile of both


def test_second_accesses_need_pairs():
    traces = chase_of("far", np.arange(16) * 8192, np.full(16, 500), laps=1, path=Path.GLOBAL, flush=True)
    example = with_evidence(result({"l1.fetch_granularity": {"value": 32, "evidence": ("far",)}}), traces)
    assert [each.name for each in example.series] == ["histogram of access latencies"]


def test_every_finding_of_a_file_leads_to_a_plot(survey, stored):
    assert findings_without_plot(stored, result_page(stored)) == []
    assert findings_without_plot(survey[0], result_page(with_evidence(*survey, PAGE_LIMITS))) == []
    assert findings_without_plot(survey[0], result_page(survey[0])) != []  # without traces


@pytest.mark.parametrize(
    ("element", "attribute", "name"),
    [
        ("l1", "hit_latency", "latency of a load by lap"),
        ("l1", "line_size", "hits against distance of a second access"),
        ("l1", "fetch_granularity", "latency of a second access against distance"),
        ("l1", "capacity", "misses against footprint"),
        ("shared", "hit_latency", "latency of a load by lap"),
    ],
)
def test_a_finding_leads_to_the_plot_that_shows_its_value(stored, element, attribute, name):
    linked = zip(stored.findings, linked_plots(result_page(stored)), strict=True)
    titles = {(finding.element, finding.attribute): titles for finding, (titles, _) in linked}
    assert titles[element, attribute][0].endswith(name)


def test_stored_series_hold_the_values(stored):
    latency = stored.observed("l1", "latency of a load by lap").columns["latency"]
    assert np.quantile(latency, 0.25) == pytest.approx(stored.finding("l1", "hit_latency").value, abs=0.01)
    columns = stored.observed("l1", "latency of a second access against distance").columns
    slow = (min(columns["latency"]) + max(columns["latency"])) / 2
    fetched = [d for d, cycles in zip(columns["distance"], columns["latency"], strict=True) if cycles < slow]
    assert max(fetched) * 2 == stored.finding("l1", "fetch_granularity").value
    pairs = stored.observed("l1", "hits against distance of a second access").columns
    nearer = [d for d, hits, one, two in zip(*pairs.values(), strict=True) if abs(hits - one) < abs(hits - two)]
    assert 2 * max(nearer, default=0) in (0, stored.finding("l1", "line_size").value)


def test_stored_series_are_small_and_added_once(survey, stored):
    added = len(stored.to_json()) - len(survey[0].to_json())
    assert 0 < added < 1500 * len(stored.findings)
    assert with_evidence(stored, survey[1]) == with_evidence(*survey)
    traces = l2_traces()
    finding = {"l2.partition_by_sm": {"value": (0, 1), "evidence": tuple(traces)}}
    text = with_evidence(result(finding), traces).to_json()
    assert max(map(len, text.splitlines())) < 200
    assert '"latency": [\n          2' in text and text.count("\n") < 300  # several numbers a line


@pytest.mark.parametrize(
    ("traces", "name", "value", "title"),
    [
        (tlb_traces(), "tlb_l1.entries", 16, TLB_CURVE),
        (l2_traces(), "l2.latency_by_sm", tuple(map(float, range(8))), SM_MAP),
    ],
)
def test_pages_have_curves_and_maps(traces, name, value, title):
    example = result({name: {"value": value, "evidence": tuple(traces)}})
    assert title not in result_page(example).lower()
    for limits in (FILE_LIMITS, PAGE_LIMITS):
        ((titles, _),) = linked_plots(result_page(with_evidence(example, traces, limits)))
        assert any(title in each.lower() for each in titles)


def test_pages_say_where_there_is_no_plot():
    for value, text in (({"value": 4, "evidence": ("gone",)}, "No plot"), (4, "No workload of its own")):
        assert [(titles, text in words) for titles, words in linked_plots(result_page(result({"l1.ways": value})))] == [
            ([], True)
        ]
