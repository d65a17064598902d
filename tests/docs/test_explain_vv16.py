"""Chapter 3 of VV16 from recorded kernels and from machine code: plots, instruction mixes, issue times."""

import re

import pytest
import vv16
import vv16_code
from explain_vv16 import PAGE, TABLES, figures
from vv16_code import lane_stride, printed_code, recorded_code
from vv16_curves import GPUS, PLOTS, TABLE, Panel, Point, needed, pictures, rate, read_points, summaries, swept, targets
from vv16_tables import difference, machine_of, short

KEPLER = vv16.gpus()[3]
VALUES = {
    (kind, name): value
    for kind in ("fadd", "rsq", "lds", "lds_2way", "ldg_streaming", "ldg_random")
    for name, value in (("latency", 10.0), ("rate", 32.0))
} | {("launch", "block_replacement"): 200.0}


@pytest.fixture(scope="module")
def points():
    return read_points(TABLE.read_text(encoding="utf-8"))


def test_the_text_of_the_figures_is_that_of_the_points(points):
    text = "".join(figures(summaries(points)))
    assert text in PAGE.read_text(encoding="utf-8").partition(TABLES)[0]


def test_every_figure_is_on_the_page_and_has_both_gpus():
    shown = re.findall(r"picture vv16-kernels/(\S+) ", PAGE.read_text(encoding="utf-8"))
    made = dict(pictures())
    assert shown == list(PLOTS) == list(made)
    assert all(f"{name}: " in svg for svg in made.values() for name in GPUS.values())


def test_throughput_counts_each_array_once(points):
    vector_add = PLOTS["3-06"].panels[0]
    assert rate(vector_add, 1.0) == 3 * 4 * (1 << 25)
    sgemm = next(panel for panel in PLOTS["1-01"].panels if not panel.counted)
    assert rate(sgemm, 1.0) == 2 * 8192 * 4096 * 512


def test_marked_occupancy_is_the_smallest_with_the_target():
    panel = Panel("vector_add", "", ("x",))
    curve = [Point(warps, True, 64.0 / warps, 0.0, 1.0, 1.0) for warps in (8, 16, 32)]
    target = rate(panel, 64.0 / 16)
    assert needed(panel, curve, target) == 16
    assert needed(panel, curve, 3 * target) is None


def test_kernels_with_the_same_work_share_a_target(points):
    plot = PLOTS["3-09"]
    of_gpu = {panel.kernel: swept(points["h200", panel.kernel]) for panel in plot.panels}
    assert len(set(targets(plot, of_gpu).values())) == 1


def test_the_sample_mix_has_the_instructions_of_table_3_2():
    printed, mix = vv16.tables()["table_3_2"], printed_code("sample_mix").mix
    assert {kind: mix[kind] for kind in ("rsq", "lds", "lds_2way", "ldg_stride2")} == {
        kind: printed[kind] for kind in ("rsq", "lds", "lds_2way", "ldg_stride2")
    }
    assert mix["ldg_streaming"] == printed["ldg_streaming"] + 1  # the store
    assert printed_code("sample_mix").opcodes["FADD"] == printed["fadd"]


def test_distances_of_lanes_follow_from_machine_code():
    program = printed_code("sample_mix").program
    found = {(use.space, lane_stride(program, n)) for n, use in enumerate(program.uses) if use.access == "load"}
    assert found == {("global", 4), ("global", 8), ("shared", 4), ("shared", 8)}


def test_a_vector_addition_takes_544_cycles_on_kepler():
    code = printed_code("add")
    printed = vv16.tables()["section_3_8"]
    (run,) = code.timelines(vv16.machine(KEPLER), 2, printed["replacement"])
    assert run.end == printed["warp_latency"]
    assert code.executed.sum() - len(run.pairs) == printed["issues"]


def test_recorded_kernels_have_the_accesses_of_their_profiles():
    assert recorded_code("permute_trivial").mix["ldg_streaming"] == 3
    random = recorded_code("permute_random").mix
    assert (random["ldg_streaming"], random["ldg_random"]) == (2, 1)
    assert recorded_code("absolute_value_positive").mix["ldg_streaming"] == 1  # nothing is written


def test_a_profile_of_other_ptx_is_refused(monkeypatch):
    monkeypatch.setattr(vv16_code, "_body", lambda ptx: ptx)
    with pytest.raises(ValueError, match="another PTX"):
        recorded_code.__wrapped__("vector_add")


def test_the_warps_needed_are_latency_times_the_bound():
    found = machine_of(KEPLER, VALUES)
    sheet = found.sheet(printed_code("add"))
    assert sheet.totals == pytest.approx({"CUDA cores": 10, "memory system": 3, "issue": 2})
    assert sheet.needed == pytest.approx(sheet.latency / 10)


@pytest.mark.parametrize(
    ("printed", "ours", "text"),
    [(544, 543.6, "same"), (0.0445, 0.04458, "+0.2 %"), (12, 13, "+8.3 %"), (4, 5, "+25.0 %")],
)
def test_difference_of_a_printed_number(printed, ours, text):
    assert difference(printed, ours) == text


def test_cycles_are_short():
    assert [short(cycles) for cycles in (1258.4, 22.43, 0)] == ["1258", "22.4", "0"]
