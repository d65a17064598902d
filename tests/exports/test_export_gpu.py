"""A result becomes a GPU file: found numbers with their run, the rest assumed, and always one that can be simulated."""

import json
import tomllib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpudissect.catalogue import load
from gpudissect.catalogue.build import hierarchy_of
from gpudissect.catalogue.published import published_of
from gpudissect.device_info import Origin
from gpudissect.errors import GpudissectError, UsageError
from gpudissect.estimate import Status
from gpudissect.exports import FORMATS, export
from gpudissect.exports.gpu.geometry import usual_ways
from gpudissect.results.model import Result
from gpudissect.simulation.cache.geometry import Partition
from gpudissect.units import MIB
from gpudissect.vocabulary import ATTRIBUTES, ELEMENTS, unit_of
from gpudissect.workload import Path
from tests.support.results import FACTS, KIB, NO_PATHS, PLAIN, gpu_of, read, result

IN_PARTS = PLAIN | {
    "l2.capacity": {"value": 50 * MIB + 512 * KIB, "low": 46 * MIB, "high": 54 * MIB},
    "l2.segment_size": 25 * MIB,
    "l2.far_latency": 300.0,
    "dram.near_latency": 450.0,
    "dram.far_latency": 560.5,
}
L1 = {"l1.capacity": 24 * KIB, "l1.line_size": 32, "l1.fetch_granularity": 32, "l1.hit_latency": 82.0}


def test_found_numbers_have_the_run_for_their_source():
    made = result(PLAIN | {"l1.capacity": {"value": 16 * KIB, "caveats": ("odd",)}}).model_copy(
        update={"environment": {"driver": "580.1"}}
    )
    gpu = gpu_of(made)
    run = "measured: gpudissect discover of Made Up 1, driver 580.1, cuda:0"
    assert (gpu.name, gpu.run) == ("Made Up 1", run)
    capacity = gpu.caches["l1"].capacity
    assert (capacity.value, capacity.source, capacity.note) == (16 * KIB, run, "odd")
    assert gpu.chip.sm_count.source == run.replace("measured:", "stated by the driver:")
    assert "not found" in gpu.caches["l1"].replacement_policy.assumed
    assert hierarchy_of(gpu).routes[Path.GLOBAL].latency == (30, 200)


@pytest.mark.parametrize(
    ("device", "opening"),
    [
        ({"origin": Origin.SIMULATED}, "simulated: "),
        ({"origin": Origin.REPLAYED, "recorded_origin": Origin.MEASURED}, "measured, replayed: "),
        ({"origin": Origin.REPLAYED}, "unknown, replayed: "),
    ],
)
def test_what_was_not_measured_says_so(device, opening):
    gpu = gpu_of(result(PLAIN, **device))
    assert gpu.run.startswith(opening)
    assert gpu.caches["l2"].capacity.source.startswith(opening)
    assert gpu.chip.memory_size.source.startswith(f"stated by the driver ({opening[:-2]}): ")


def test_every_number_found_is_in_the_file_once():
    made = result(IN_PARTS | {"cluster.hit_latency": 181.0, "shared.hit_latency": 23.0})
    gpu = gpu_of(made)
    given = {(each.element, each.attribute): each for each in published_of(gpu)}
    for each in made.findings:
        if each.element != "timer" and (each.element, each.attribute) != ("l2", "capacity"):
            assert given[each.element, each.attribute].value == each.value
    lacking = {".".join(name) for name, each in given.items() if not each.simulated}
    assert lacking == {"l2.miss_penalty", "dram.hit_latency", "dram.wide_latency", "cluster.hit_latency"}
    assert all(each.note for each in given.values() if not each.simulated)


@pytest.mark.parametrize("size", [16 * KIB, 241 * KIB, 1931 * 128, 128, 3 * 128, 25_165_824, 8191 * 2 * 128])
def test_sets_and_ways_make_the_capacity_to_the_byte(size):
    made = result(PLAIN | {"l1.capacity": size, "l2.capacity": 64 * MIB})
    cache = hierarchy_of(gpu_of(made)).caches["l1"]
    assert cache.capacity == size
    assert len(set(cache.ways)) == 1
    assert size // 128 < 4 or cache.ways[0] >= 4


@pytest.mark.parametrize(
    ("lines", "ways"), [(1, 1), (5, 5), (105, 15), (1021, 1021), (1928, 8), (4096, 16), (1931, 1931), (2 * 8191, 8191)]
)
def test_assumed_sets_have_about_sixteen_ways_if_that_divides(lines, ways):
    assert usual_ways(lines) == ways


def test_a_structure_that_was_found_is_taken():
    made = result(
        PLAIN
        | L1
        | {"l1.sets": 4, "l1.ways": 192, "l1.index_function": "bits 7-8", "l1.replacement_policy": "random"}
        | {"l2.ways": (17, *[8] * 6), "l2.capacity": 65 * 128, "l2.sets": 7}
    )
    gpu = gpu_of(made)
    truth = load("gtx980").hierarchy()
    l1, l2 = (hierarchy_of(gpu).caches[name] for name in ("l1", "l2"))
    assert (l1.ways, l1.index) == (truth.caches["l1"].ways, truth.caches["l1"].index)
    assert l1.policy.kind == "random"
    assert gpu.caches["l1"].index_function.source
    assert l2.ways == truth.tlbs[1].ways
    assert l2.index == truth.tlbs[1].index


def test_of_sets_that_neighbours_do_not_fill_evenly_all_are_taken():
    found = {"l1.capacity": 18 * 128, "l1.sets": 4, "l1.ways": 6, "l1.index_function": "bits 9 10"}
    gpu = gpu_of(result(PLAIN | found))
    capacity = gpu.caches["l1"].capacity
    assert (capacity.value, capacity.low) == (24 * 128, 18 * 128)
    assert gpu.caches["l1"].index_function.source
    # Without the index function the capacity would not come out.
    assert gpu_of(result(PLAIN | found | {"l1.index_function": "not linear"})).caches["l1"].capacity.value == 18 * 128


@pytest.mark.parametrize(
    "wrong",
    [
        {"l1.sets": 5}, {"l1.ways": 7}, {"l1.sets": 4, "l1.ways": 5}, {"l1.ways": (5, 6, 7)}, {"l1.ways": "many"},
        {"l1.sets": 0}, {"l1.ways": (4.5, 3.5)}, {"l1.index_function": "not linear"}, {"l1.index_function": "mod 7"},
        {"l1.replacement_policy": "not one of these"}, {"l1.replacement_policy": "weighted 0.5 0.5"},
    ],
)  # fmt: skip
def test_a_structure_that_does_not_make_the_capacity_is_assumed_and_says_what_was_found(wrong):
    gpu = gpu_of(result(PLAIN | wrong))
    assert hierarchy_of(gpu).caches["l1"].capacity == 16 * KIB
    l1 = gpu.caches["l1"]
    reasons = " ".join(str(entry.assumed) for entry in (l1.sets, l1.index_function, l1.replacement_policy))
    assert "found" in reasons


def test_tlbs():
    page = 2 * MIB
    made = result(
        PLAIN
        | {"tlb_l1.entries": 16, "tlb_l1.page_size": page, "tlb_l1.miss_penalty": 6.0}
        | {"tlb_l2.reach": 130 * MIB, "tlb_l2.page_size": page, "tlb_l2.ways": (17, *[8] * 6)}
        | {"tlb_l2.miss_penalty": 53.0}  # beyond a hit in it
        | {"tlb_l3.entries": 4096}
    )
    hierarchy, truth = hierarchy_of(gpu_of(made)), load("gtx980").hierarchy()
    assert [tlb.ways for tlb in hierarchy.tlbs] == [(16,), truth.tlbs[1].ways]
    assert hierarchy.tlbs[1].index == truth.tlbs[1].index
    assert (hierarchy.tlbs[0].penalty, hierarchy.tlb_walk_penalty) == (6, 59)
    assert hierarchy.routes[Path.GLOBAL].translated_from == 1
    assert hierarchy.routes[Path.GLOBAL_L2].translated_from == 0


def test_an_l2_in_two_parts():
    gpu = gpu_of(result(IN_PARTS))
    hierarchy = hierarchy_of(gpu)
    assert hierarchy.caches["l2"].capacity == 25 * MIB
    home = sum(1 << bit for bit in (12, 15, 18, 21, 24, 27))
    assert hierarchy.partition == Partition("l2", home, far_penalty=105, far_memory_penalty=110.5)
    assert "52953088" in gpu.partition.capacity.note  # 50.5 MiB, and twice 25 is taken
    assert hierarchy.routes[Path.GLOBAL_L2].memory_latency == 450
    assert hierarchy.routes[Path.GLOBAL].memory_latency == 455


def test_a_quick_result_takes_the_parts_from_what_the_driver_states():
    skipped = {"status": Status.SKIPPED, "value": None, "reason": "quick"}
    quick = IN_PARTS | {"l2.capacity": skipped, "l2.segment_size": skipped}
    gpu = gpu_of(result(quick, facts=FACTS | {"l2_size": 60 * MIB}))
    assert gpu.caches["l2"].capacity.value == 30 * MIB
    assert gpu.partition.capacity.assumed


def shared_by(**claims):
    elements = ("l1", "readonly", "texture", "constant_l1", "constant_l15")
    own = {f"{element}.{key.partition('.')[2]}": value for element in elements for key, value in L1.items()}
    told = {f"{element}.shared_with": text for element, text in claims.items()}
    views = gpu_of(result(PLAIN | own | told)).views
    return {str(element): view.of.value for element, view in views.items()}


def test_shared_arrays_are_one():
    assert shared_by(l1="readonly, texture", readonly="l1, texture", texture="l1, readonly", constant_l1="nothing") == {
        "readonly": "l1", "texture": "l1",
    }  # fmt: skip
    assert shared_by(readonly="texture", texture="readonly", l1="nothing") == {"texture": "readonly"}
    assert shared_by(l1="texture") == {"texture": "l1"}  # of texture nothing was found
    assert shared_by(l1="texture", texture="nothing") == {}  # they contradict each other
    assert shared_by(constant_l1="constant_l15", constant_l15="constant_l1") == {}  # one behind the other
    assert shared_by() == {}


def test_a_view_keeps_what_was_found_otherwise_for_comparison_only():
    told = {f"texture.{key.partition('.')[2]}": value for key, value in L1.items()}
    gpu = gpu_of(result(PLAIN | L1 | told | {"texture.capacity": 12 * KIB, "l1.shared_with": "texture"}))
    assert gpu.views["texture"].capacity is None
    own = gpu.published["texture"]["capacity"]
    assert (own.value, own.simulated) == (12 * KIB, False)


def test_a_cache_that_is_larger_than_its_path_is_as_large_as_the_path():
    for low, size in ((40 * KIB, 64 * KIB), (64 * KIB, 64 * KIB), (100 * KIB, 100 * KIB)):
        findings = {"constant_l1.hit_latency": 20.0, "constant_l1.line_size": 64, "constant_l1.fetch_granularity": 64}
        gpu = gpu_of(result(PLAIN | findings | {"constant_l1.capacity": {"low": low}}))
        capacity = gpu.caches["constant_l1"].capacity
        assert (capacity.value, capacity.low, capacity.high) == (size, low, None)


def test_paths_that_are_lacking_or_were_not_looked_at_say_why():
    gpu = gpu_of(result(PLAIN, unsupported={"texture": "no texture units", "nonsense": "x"}))
    assert gpu.unsupported[Path.TEXTURE] == "no texture units"
    assert "no finding" in gpu.unsupported[Path.CONSTANT]
    assert set(gpu.paths) == {Path.GLOBAL, Path.GLOBAL_L2}


def test_of_one_element_only_the_rest_is_what_its_misses_show():
    gpu = gpu_of(result({"texture.hit_latency": 100.0, "texture.capacity": 12 * KIB, "texture.miss_penalty": 120.0}))
    assert set(gpu.paths) == {Path.TEXTURE}
    assert hierarchy_of(gpu).routes[Path.TEXTURE].memory_latency == 220


def test_no_l1_is_a_route_not_a_lack():
    none = {"l1.hit_latency": {"status": Status.NOT_SUPPORTED, "reason": "none"}}
    past = {name: value for name, value in PLAIN.items() if not name.startswith("l1")}
    hierarchy = hierarchy_of(gpu_of(result(past | none, unsupported=NO_PATHS)))
    assert hierarchy.routes[Path.GLOBAL].caches == ("l2",)


def test_latencies_that_fall_are_assumed_not_to():
    gpu = gpu_of(result(PLAIN | {"dram.hit_latency": 20.0, "l2.hit_latency": 25.0}))
    past = gpu.paths[Path.GLOBAL_L2]
    assert (past.latency[0].value, past.memory_latency.value) == (25, 25)
    assert "found 20 cycles" in past.memory_latency.assumed


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (result({}), "no latency of a cache or of memory: run discover"),
        (result({"shared.hit_latency": 20.0}), "no latency"),
        (result(PLAIN, unsupported=NO_PATHS | {"global": "", "global_l2": ""}), "no latency"),
        (result(PLAIN | {"l2.capacity": 2**43}), "at most 8388608 can be simulated"),
        (result({}, name="\x1b[2J\n" * 99 + "x" * 10**6, sm_count=-1), "no latency"),
    ],
)  # fmt: skip
def test_what_makes_no_gpu_is_one_short_line(made, why):
    with pytest.raises(UsageError, match=why) as caught:
        export(made, "gpu")
    assert len(str(caught.value)) < 500


def test_an_unknown_format_names_those_there_are():
    with pytest.raises(UsageError, match=r"no such format: 'xml'; there are gpu \(a GPU file"):
        export(result(PLAIN), "xml")
    assert next(iter(FORMATS)) == "gpu"


NASTY = '"]\n[caches.l9]\x1b[2J\u202e\0' + "x" * 5000


def test_nothing_of_a_stranger_breaks_out_of_its_string():
    made = json.loads(result(PLAIN, name=NASTY, spec=NASTY).to_json())
    made["environment"] = {"driver": NASTY}
    made["device"] |= {"catalogue": NASTY, "unsupported": {"texture": NASTY, NASTY: NASTY}}
    made["device"]["facts"] |= {"compute_capability": NASTY, NASTY: NASTY, "warp_size": NASTY, "clock_hz": -1e300}
    for each in made["findings"]:
        each |= {"caveats": [NASTY], "reason": NASTY, "method": NASTY}
    made["findings"] += [
        each | {"element": NASTY} for each in made["findings"][:1]
    ] + [made["findings"][0] | {"element": "l1", "attribute": attribute, "unit": "", "value": NASTY}
         for attribute in ("shared_with", "index_function", "replacement_policy", "ways")]  # fmt: skip
    text = export(Result.model_validate_json(json.dumps(made)), "gpu")
    assert all(c.isprintable() or c == "\n" for c in text)
    assert set(tomllib.loads(text)["caches"]) == {"l1", "l2"}
    assert hierarchy_of(read(text)).caches["l1"].capacity == 16 * KIB


values = st.one_of(
    st.none(),
    st.integers(0, 1 << 22),
    st.sampled_from([16, 32, 64, 128, 256, 4096, 24576, 2**20, 2**43, 2**62, -1, -(2**63)]),
    st.floats(0, 2000),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.integers(-1, 100), max_size=8).map(tuple),
)
texts = (
    st.sampled_from(["lru", "bits 7-8", "mod 64", "l1, texture", "nothing", "readonly", "weighted 0.5 0.5"]) | st.text()
)


@st.composite
def findings(draw):
    element, attribute = draw(st.sampled_from(ELEMENTS)), draw(st.sampled_from(list(ATTRIBUTES)))
    value = draw(values if unit_of(attribute) else values | texts)
    bounds = st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 2**40)
    fields = {"value": value, "low": draw(bounds), "high": draw(bounds)}
    status = draw(st.sampled_from(Status)) if draw(st.booleans()) else Status.FOUND
    return f"{element}.{attribute}", fields | {"status": status, "reason": draw(st.text(max_size=20))}


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(
    made=st.lists(findings(), max_size=40).map(dict),
    plain=st.sampled_from([{}, PLAIN, IN_PARTS]),
    name=st.text(max_size=10),
    sms=st.integers(-1, 2**30),
    facts=st.dictionaries(st.sampled_from([*FACTS, "l2_size", "clock_hz", "warp_size"]), values | st.text(max_size=9)),
)
def test_any_result_makes_a_gpu_that_can_be_simulated_or_one_line(made, plain, name, sms, facts):
    facts = {key: value for key, value in facts.items() if not isinstance(value, tuple)}
    given_ = result(plain | made, name=name, sm_count=sms, facts=facts)
    try:
        text = export(given_, "gpu")
    except GpudissectError as error:
        assert len(str(error)) < 1000
        return
    gpu = read(text)
    hierarchy = hierarchy_of(gpu)
    assert all(c.isprintable() or c == "\n" for c in text)
    for each in given_.findings:
        own = gpu.caches.get(each.element)
        if own is not None and each.attribute == "capacity" and own.capacity.source and not each.high and each.value:
            assert own.capacity.value in (each.value, hierarchy.caches[each.element].capacity)
