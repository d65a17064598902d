"""Taken apart, exported, simulated and taken apart again, a GPU is found to be the same."""

from importlib import resources
from pathlib import Path

import pytest

from gpudissect import catalogue
from gpudissect.device.find import open_device
from gpudissect.estimate import Status
from gpudissect.exports import export
from gpudissect.results.build import build
from gpudissect.results.files import load
from gpudissect.results.model import Finding, Options, Result
from gpudissect.survey.run import run_survey

H200 = Path(__file__).parents[2] / "docs" / "results" / "h200.json"
DRAWN = {(name, what) for name in ("l1", "readonly", "texture") for what in ("max_miss_rate", "replacement_policy")}
"""Where victims are drawn at random, chance decides how many misses there are, and whether a policy shows."""
MORE_TAGS_THAN_ROOM = {("l1", what) for what in ("sets", "ways", "index_function", "max_miss_rate")}
"""No simulated cache has tags for more lines than it has room for, as an H200's L1."""
TRANSLATED = {("dram", "wide_latency")}  # what it owes to TLBs, where those were not found
NOT_IN_THE_FILE = {("shared", "conflict_latency"), ("l1", "write_rate")}
"""Whether lanes are served by half warps, and what an L2 that was not looked at takes, no result says in numbers."""


def discover(spec: str, options: Options) -> Result:
    with open_device(spec, seed=options.seed) as device:
        survey = run_survey(device, elements=options.elements, quick=options.quick, seed=options.seed)
        assert survey.failures == ()
        return build(device.info, survey, options)


def differences(one: Result, other: Result) -> set[tuple[str, str]]:
    """What one found, if only "at least", and the other did not. Lists, one number an SM, no GPU file holds."""
    theirs = {(each.element, each.attribute): each for each in other.findings}
    return {
        (mine.element, mine.attribute)
        for mine in one.findings
        if (mine.value, mine.low) != (None, None)
        and not mine.attribute.endswith("_by_sm")
        and not _same(mine, theirs[mine.element, mine.attribute])
    }


def _same(mine: Finding, other: Finding) -> bool:
    """Sizes and names exactly, latencies to a cycle, what is given with a bracket within it."""
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
        ("h100", Options(seed=2, quick=True)),  # an L2 in two parts
        ("gtx280", Options(seed=1, quick=True)),  # no L2
    ],
)
def test_a_simulated_gpu_comes_back(name, options, tmp_path):
    first = discover(f"sim:{name}", options)
    file = tmp_path / f"{name}.toml"
    file.write_text(export(first, "gpu"), encoding="utf-8")
    again = discover(f"sim:{file}", options)
    assert again.device.name == first.device.name
    assert differences(first, again) <= TRANSLATED | DRAWN | NOT_IN_THE_FILE


def test_the_catalogues_h200_is_made_of_its_result():
    """When the result is renewed: gpudissect export docs/results/h200.json -f gpu -o <this file>."""
    file = resources.files("gpudissect.catalogue") / "gpus" / "h200.toml"
    assert file.read_text("utf-8") == export(load(H200), "gpu")


def test_the_simulated_h200_is_found_to_be_the_measured_one():
    measured, known = load(H200), catalogue.load("h200")
    not_simulated = {(each.element, each.attribute) for each in known.published() if not each.simulated}
    for options in (Options(elements=("l1", "constant_l1", "tlb_l1")), Options(elements=("l2", "dram"), quick=True)):
        simulated = discover("sim:h200", options)
        names = {(each.element, each.attribute) for each in simulated.findings if each.status is not Status.SKIPPED}
        mine = [each for each in measured.findings if (each.element, each.attribute) in names]
        differing = differences(measured.model_copy(update={"findings": tuple(mine)}), simulated)
        assert differing <= not_simulated | MORE_TAGS_THAN_ROOM | NOT_IN_THE_FILE
    of_memory = {("l2", "miss_penalty"), ("dram", "hit_latency"), ("dram", "wide_latency")}
    assert of_memory <= not_simulated, "means over the slow tail of a real memory"


def test_the_simulated_h200s_driver_states_what_the_measured_ones_does():
    with open_device("sim:h200") as gpu:
        theirs = gpu.info.facts
    differing = {key for key, value in load(H200).device.facts.items() if theirs.get(key) != value}
    # No limit of what a miss fetches is simulated; the clock is the one that was seen, the L2 the one that was found.
    # Clusters are simulated as far as they were found, registers not at all.
    clusters = {key for key in differing if key.startswith("cluster")}
    assert differing - clusters == {"l2_fetch_limit", "clock_hz", "l2_size", "registers_per_sm"}
