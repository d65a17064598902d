"""A result, exported and simulated, gives the same result again."""

from importlib import resources
from pathlib import Path

import pytest

from gpudissect import catalogue
from gpudissect.catalogue.build import hierarchy_of
from gpudissect.device.kinds import open_device
from gpudissect.estimate import Status
from gpudissect.exports import export
from gpudissect.results.build import build
from gpudissect.results.files import load
from gpudissect.results.model import Options
from tests.support.driving import survey_of
from tests.support.results import gpu_of

RANDOM = {(name, what) for name in ("l1", "readonly", "texture") for what in ("max_miss_rate", "replacement_policy")}
"""With random victims chance decides how many misses there are, and whether a policy shows."""
MORE_TAGS_THAN_LINES = {("l1", what) for what in ("sets", "ways", "index_function", "max_miss_rate")}
"""An H200's L1 has tags for more lines than it has room for, which no simulated cache has."""
FROM_ANOTHER_SM = {("constant_l1", "miss_penalty")}
"""Latencies of an H200's constant memory differ by up to 6 cycles from SM to SM, and a penalty is that of one."""
TRANSLATED = {("dram", "wide_latency"), *((name, "translated") for name in ("l1", "readonly", "texture"))}
"""What TLBs show, if those were not among the elements."""
PATHS = {(element, "memory_latency") for element in ("texture", "constant_l1")}
NOT_IN_A_FILE = {("shared", "conflict_latency"), ("l1", "write_rate"), *PATHS}
"""A result has no numbers for half warps, nor for an L2 that was not measured; a file has one memory latency."""
NOT_SIMULATED = {
    *("l2_fetch_limit", "persisting_l2_size", "default_shared_per_block", "reserved_shared_per_block", "cores"),
    *("registers_per_sm", "registers_per_block", "blocks_per_grid_x", "global_l1", "local_l1"),
    *("cooperative_launch", "concurrent_kernels", "pcie_generation", "pcie_lanes"),
}
"""Facts of a driver that a GPU file does not have."""


@pytest.fixture(scope="module")
def h200():
    return load(Path(__file__).parents[2] / "docs" / "results" / "h200.json")


def built(info, survey, options):
    assert survey.failures == ()
    return build(info, survey, options)


def discover(spec, options):
    return built(*survey_of(spec, options), options)


def differences(one, other):
    """What one found, if only a lower bound, and the other did not; a GPU file holds no such lists."""
    others = {(finding.element, finding.attribute): finding for finding in other.findings}
    found = {(finding.element, finding.attribute): finding for finding in one.findings}
    return {
        name
        for name, finding in found.items()
        if (finding.value, finding.low) != (None, None)
        and not finding.attribute.endswith(("_by_sm", "_by_width"))
        and not _same(finding, others[name])
    }


def _same(mine, other):
    """Sizes and names exactly, latencies to a cycle, bracketed numbers within the bracket."""
    if mine.attribute == "warps_needed" and mine.value is None is other.value:
        return mine.status is other.status and abs(mine.low - other.low) <= 2  # warps: one step between occupancies
    if None in (mine.value, other.value):
        return (mine.status, mine.value, mine.low) == (other.status, other.value, other.low)
    if mine.unit == "ns":
        return abs(mine.value - other.value) <= 0.02 * mine.value  # of the host, not of the GPU
    if mine.unit == "cycles" and abs(mine.value - other.value) <= 1:
        return True
    bracketed = other.low is not None and other.high is not None and other.low < other.high
    return other.low <= mine.value <= other.high if bracketed else mine.value == other.value


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("v100", Options(seed=3, elements=("l1", "readonly", "texture"))),  # one array in three views
        ("gtx980", Options(seed=1, quick=True)),
        ("h100", Options(seed=2, quick=True)),  # an L2 in two partitions
        ("gtx280", Options(seed=1, quick=True)),  # no L2
    ],
)
def test_a_simulated_gpu_comes_back(name, options, tmp_path, survey_once):
    first = built(*survey_once(f"sim:{name}", options), options)
    file = tmp_path / f"{name}.toml"
    file.write_text(export(first, "gpu"), encoding="utf-8")
    again = discover(f"sim:{file}", options)
    assert again.device.name == first.device.name
    assert differences(first, again) <= TRANSLATED | RANDOM | NOT_IN_A_FILE


@pytest.mark.parametrize("name", ["gtx560ti", "gtx780", "840m", "v100", "h200"])
def test_the_higher_penalty_of_walks_for_data_in_memory_comes_back(name):
    """P5 - P4 of the spectrum; in GPUs without that field, every walk costs the same, and no field is written."""
    options = Options(seed=1, elements=("dram", "tlb_l1", "tlb_l2", "spectrum_global_l2"))
    truth, walk = catalogue.load(name).table.walk, gpu_of(discover(f"sim:{name}", options)).walk
    assert walk.penalty.value == pytest.approx(truth.penalty.value, abs=1)
    if truth.cold_penalty is None:
        assert walk.cold_penalty is None
    else:
        assert walk.cold_penalty.low <= truth.cold_penalty.value <= walk.cold_penalty.high
        assert walk.cold_penalty.value == pytest.approx(truth.cold_penalty.value, abs=2)


def test_the_catalogues_h200_is_made_of_its_result(h200):
    """When the result is renewed: gpudissect export docs/results/h200.json -f gpu -o <this file>."""
    file = resources.files("gpudissect.catalogue") / "gpus" / "h200.toml"
    assert file.read_text("utf-8") == export(h200, "gpu")


def test_which_sms_share_a_tlb_comes_back_and_each_has_a_first_one_then(h200):
    by_sm = tuple(sm // 2 % 5 for sm in range(132))
    entries = h200.finding("tlb_l2", "entries")
    finding = entries.model_copy(update={"attribute": "tlb_by_sm", "value": by_sm, "low": None, "high": None})
    first, second = hierarchy_of(gpu_of(h200.model_copy(update={"findings": (*h200.findings, finding)}))).tlbs
    assert (first.by_sm, second.by_sm) == (tuple(range(132)), by_sm)
    assert [tlb.by_sm for tlb in hierarchy_of(gpu_of(h200)).tlbs] == [(), ()]


@pytest.mark.parametrize(
    "options", [Options(elements=("l1", "constant_l1", "tlb_l1")), Options(elements=("l2", "dram"), quick=True)]
)
def test_the_simulated_h200_is_found_to_be_the_measured_one(options, h200):
    published = catalogue.load("h200").published()
    not_simulated = {(each.element, each.attribute) for each in published if not each.simulated}
    assert {("l2", "miss_penalty"), ("dram", "hit_latency"), ("dram", "wide_latency")} <= not_simulated
    simulated = discover("sim:h200", options)
    names = {(each.element, each.attribute) for each in simulated.findings if each.status is not Status.SKIPPED}
    findings = tuple(each for each in h200.findings if (each.element, each.attribute) in names)
    differing = differences(h200.model_copy(update={"findings": findings}), simulated)
    assert differing <= not_simulated | MORE_TAGS_THAN_LINES | FROM_ANOTHER_SM | NOT_IN_A_FILE


def test_the_simulated_h200s_driver_states_what_the_measured_ones_does(h200):
    with open_device("sim:h200") as gpu:
        facts = gpu.info.facts
    measured = {key: value for key, value in h200.device.facts.items() if not key.startswith("cluster")}
    assert measured.keys() - facts.keys() == NOT_SIMULATED
    # The clock is the observed one, the L2 size the one that was found.
    assert {key for key, value in facts.items() if measured.get(key) != value} == {"clock_hz", "l2_size"}
