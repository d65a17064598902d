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
from gpudissect.exports import export
from gpudissect.results.model import Result
from gpudissect.simulation.cache.geometry import Partition, Policy, PolicyKind, Prefetch
from gpudissect.units import KIB, MIB
from gpudissect.vocabulary import ATTRIBUTES, ELEMENTS, unit_of
from gpudissect.workload import Path
from tests.support.results import FACTS, NO_PATHS, PLAIN, gpu_of, read, result

PARTITIONED = PLAIN | {
    "l2.capacity": {"value": 50 * MIB + 512 * KIB, "low": 46 * MIB, "high": 54 * MIB},
    "l2.segment_size": 25 * MIB,
    "l2.far_latency": 300.0,
    "dram.near_latency": 450.0,
    "dram.far_latency": 560.5,
}
L2_HIT = ("l2", "hit_latency")
L1 = {"capacity": 24 * KIB, "line_size": 32, "fetch_granularity": 32, "hit_latency": 82.0}


def found(element, **attributes):
    return {f"{element}.{attribute}": value for attribute, value in attributes.items()}


def gpu_with(findings, **device):
    """The GPU file of a plain result with further findings."""
    return gpu_of(result(PLAIN | findings, **device))


def test_found_numbers_have_the_run_as_source():
    made = result(PLAIN | {"l1.capacity": {"value": 16 * KIB, "caveats": ("odd",)}})
    gpu = gpu_of(made.model_copy(update={"environment": {"driver": "580.1"}}))
    run = "measured: gpudissect discover of Made Up 1, driver 580.1, cuda:0"
    assert (gpu.name, gpu.run) == ("Made Up 1", run)
    capacity = gpu.caches["l1"].capacity
    assert (capacity.value, capacity.source, capacity.note) == (16 * KIB, run, "odd")
    assert gpu.chip.sm_count.source == run.replace("measured:", "stated by the driver:")
    assert "not found" in gpu.caches["l1"].replacement_policy.assumed
    assert hierarchy_of(gpu).routes[Path.GLOBAL].latency == (30, 200)


@pytest.mark.parametrize(
    ("device", "origin"),
    [
        ({"origin": Origin.SIMULATED}, "simulated"),
        ({"origin": Origin.REPLAYED, "recorded_origin": Origin.MEASURED}, "measured, replayed"),
        ({"origin": Origin.REPLAYED}, "unknown, replayed"),
    ],
)
def test_the_source_names_the_origin(device, origin):
    gpu = gpu_with({}, **device)
    assert gpu.run.startswith(f"{origin}: ")
    assert gpu.caches["l2"].capacity.source.startswith(f"{origin}: ")
    assert gpu.chip.memory_size.source.startswith(f"stated by the driver ({origin}): ")


def test_every_number_found_is_in_the_file_once():
    made = result(PARTITIONED | {"cluster.hit_latency": 181.0, "shared.hit_latency": 23.0})
    numbers = {(each.element, each.attribute): each for each in published_of(gpu_of(made))}
    for each in made.findings:
        if each.element != "timer" and (each.element, each.attribute) != ("l2", "capacity"):
            assert numbers[each.element, each.attribute].value == each.value
    missing = {".".join(name) for name, each in numbers.items() if not each.simulated}
    assert missing == {"l2.miss_penalty", "dram.hit_latency", "dram.wide_latency", "cluster.hit_latency"}
    assert all(each.note for each in numbers.values() if not each.simulated)
    near, far, hit = (made.finding(*name).value for name in (("dram", "near_latency"), ("dram", "far_latency"), L2_HIT))
    assert numbers["dram", "hit_latency"].note.startswith(f"{(near + far) / 2:.0f} cycles when simulated")
    assert numbers["l2", "miss_penalty"].note.startswith(f"{(near + far) / 2 - hit:.0f} cycles when simulated")


def test_partitions_of_the_l2():
    gpu = gpu_of(result(PARTITIONED))
    hierarchy = hierarchy_of(gpu)
    assert hierarchy.caches["l2"].capacity == 25 * MIB
    home = sum(1 << bit for bit in (12, 15, 18, 21, 24, 27))
    assert hierarchy.partition == Partition("l2", home, far_penalty=105, far_memory_penalty=110.5)
    assert "52953088" in gpu.partition.capacity.note  # 50.5 MiB, and twice 25 is taken
    assert hierarchy.routes[Path.GLOBAL_L2].memory_latency == 450
    assert hierarchy.routes[Path.GLOBAL].memory_latency == 455


def test_three_partitions_of_the_l2():
    """Three segments in the capacity; whole lines of a partition after another, as bits select one of two."""
    hierarchy = hierarchy_of(gpu_of(result(PARTITIONED | {"l2.capacity": 75 * MIB})))
    partition = hierarchy.partition
    assert (partition.count, partition.granule, partition.home_mask) == (3, 4096, 0)
    assert hierarchy.caches["l2"].capacity == 25 * MIB


def test_a_quick_result_takes_the_partitions_from_the_drivers_l2_size():
    skipped = {"status": Status.SKIPPED, "value": None, "reason": "quick"}
    quick = PARTITIONED | {"l2.capacity": skipped, "l2.segment_size": skipped}
    gpu = gpu_of(result(quick, facts=FACTS | {"l2_size": 60 * MIB}))
    assert gpu.caches["l2"].capacity.value == 30 * MIB
    assert gpu.partition.capacity.assumed


@pytest.mark.parametrize(
    ("claims", "views"),
    [
        (
            {"l1": "readonly, texture", "readonly": "l1, texture", "texture": "l1, readonly", "constant_l1": "nothing"},
            {"readonly": "l1", "texture": "l1"},
        ),
        ({"readonly": "texture", "texture": "readonly", "l1": "nothing"}, {"texture": "readonly"}),
        ({"l1": "texture"}, {"texture": "l1"}),  # nothing was found about texture
        ({"l1": "texture", "texture": "nothing"}, {}),  # a contradiction
        ({"constant_l1": "constant_l15", "constant_l15": "constant_l1"}, {}),  # one behind the other
        ({}, {}),
    ],
)
def test_shared_arrays(claims, views):
    caches = {}
    for element in ("l1", "readonly", "texture", "constant_l1", "constant_l15"):
        caches |= found(element, **L1)
    gpu = gpu_with(caches | {f"{element}.shared_with": text for element, text in claims.items()})
    assert {element: view.of.value for element, view in gpu.views.items()} == views


def test_findings_that_differ_from_the_shared_array_are_published_only():
    texture = found("texture", **L1 | {"capacity": 12 * KIB})
    gpu = gpu_with(found("l1", **L1) | texture | {"l1.shared_with": "texture"})
    assert gpu.views["texture"].capacity is None
    capacity = gpu.published["texture"]["capacity"]
    assert (capacity.value, capacity.simulated) == (12 * KIB, False)


@pytest.mark.parametrize(("low", "size"), [(40, 64), (64, 64), (100, 100)])
def test_a_cache_larger_than_its_path_is_as_large_as_the_path(low, size):
    constant = found("constant_l1", hit_latency=20.0, line_size=64, fetch_granularity=64, capacity={"low": low * KIB})
    capacity = gpu_with(constant).caches["constant_l1"].capacity
    assert (capacity.value, capacity.low, capacity.high) == (size * KIB, low * KIB, None)


def test_tlbs():
    page = 2 * MIB
    gpu = gpu_with(
        found("tlb_l1", entries=16, page_size=page, miss_penalty=6.0)
        | found("tlb_l2", reach=130 * MIB, page_size=page, ways=(17, *[8] * 6), miss_penalty=53.0)
        | found("tlb_l3", entries=4096)  # and no page size
    )
    hierarchy, truth = hierarchy_of(gpu), load("gtx980").hierarchy()
    assert [tlb.ways for tlb in hierarchy.tlbs] == [(16,), truth.tlbs[1].ways]
    assert hierarchy.tlbs[1].index == truth.tlbs[1].index
    assert (hierarchy.tlbs[0].penalty, hierarchy.tlb_walk_penalty) == (6, 59)
    assert hierarchy.routes[Path.GLOBAL].translated_from == 1
    assert hierarchy.routes[Path.GLOBAL_L2].translated_from == 0


def test_a_sum_of_penalties_of_which_one_is_missing_is_assumed():
    first = found("tlb_l1", entries=16, page_size=2 * MIB)
    second = found("tlb_l2", entries=64, page_size=2 * MIB, miss_penalty=53.0)
    assert gpu_with(first | second).walk.penalty.assumed
    complete = gpu_with(first | second | {"tlb_l1.miss_penalty": 6.0}).walk.penalty
    assert (complete.value, complete.assumed) == (59, None)


@pytest.mark.parametrize(
    ("p5", "cold"),
    [
        ({"value": 734.0, "low": 731.0, "high": 737.0}, (363, 358, 368)),
        ({"value": 440.0, "low": 437.0, "high": 443.0}, None),  # 64 to 74, and P3 - P1 is 54 to 64
        ({"value": 300.0, "low": 298.0, "high": 302.0}, None),  # less than P4
        ({"value": 734.0}, None),  # nothing says how exact it is
        (None, None),
    ],
)
def test_a_walk_for_data_in_memory_costs_more_if_p5_less_p4_surely_does(p5, cold):
    tlb = found("tlb_l1", entries=16, page_size=2 * MIB, miss_penalty=59.0)
    brackets = {"p1": (230.0, 228.0, 232.0), "p3": (289.0, 286.0, 292.0), "p4": (371.0, 369.0, 373.0)}
    patterns = {name: dict(zip(("value", "low", "high"), each, strict=True)) for name, each in brackets.items()}
    entry = gpu_with(tlb | found("spectrum_global_l2", **patterns, p5=p5)).walk.cold_penalty
    assert (entry and (entry.value, entry.low, entry.high)) == cold


def test_missing_paths_have_a_reason():
    gpu = gpu_with({}, unsupported={"texture": "no texture units", "nonsense": "x"})
    assert gpu.unsupported[Path.TEXTURE] == "no texture units"
    assert "no finding" in gpu.unsupported[Path.CONSTANT]
    assert set(gpu.paths) == {Path.GLOBAL, Path.GLOBAL_L2}


def test_a_single_element_is_enough():
    gpu = gpu_of(result(found("texture", hit_latency=100.0, capacity=12 * KIB, miss_penalty=120.0)))
    assert set(gpu.paths) == {Path.TEXTURE}
    assert hierarchy_of(gpu).routes[Path.TEXTURE].memory_latency == 220


def test_without_an_l1_the_path_leads_to_the_l2():
    findings = {name: value for name, value in PLAIN.items() if not name.startswith("l1")}
    findings["l1.hit_latency"] = {"status": Status.NOT_SUPPORTED, "reason": "none"}
    hierarchy = hierarchy_of(gpu_of(result(findings, unsupported=NO_PATHS)))
    assert hierarchy.routes[Path.GLOBAL].caches == ("l2",)


def test_latencies_that_fall_are_replaced():
    path = gpu_with({"dram.hit_latency": 20.0, "l2.hit_latency": 25.0}).paths[Path.GLOBAL_L2]
    assert (path.latency[0].value, path.memory_latency.value) == (25, 25)
    assert "found 20 cycles" in path.memory_latency.assumed


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (result({}), "no latency of a cache or of memory: run discover"),
        (result({"shared.hit_latency": 20.0}), "no latency"),
        (result(PLAIN, unsupported=NO_PATHS | {"global": "", "global_l2": ""}), "no latency"),
        (result(PLAIN | {"l2.capacity": 2**43}), "at most 8388608 can be simulated"),
        (result({}, name="\x1b[2J\n" * 99 + "x" * 10**6, sm_count=-1), "no latency"),
    ],
    ids=["nothing", "shared only", "no path", "too large", "nasty"],
)
def test_results_that_make_no_gpu_are_refused_in_one_line(made, reason):
    with pytest.raises(UsageError, match=reason) as caught:
        export(made, "gpu")
    assert len(str(caught.value)) < 500


def test_nothing_breaks_out_of_its_string():
    nasty = '"]\n[caches.l9]\x1b[2J\u202e\0' + "x" * 5000
    made = json.loads(result(PLAIN, name=nasty, spec=nasty).to_json())
    made["environment"] = {"driver": nasty}
    made["device"] |= {"catalogue": nasty, "unsupported": {"texture": nasty, nasty: nasty}}
    made["device"]["facts"] |= {"compute_capability": nasty, nasty: nasty, "warp_size": nasty, "clock_hz": -1e300}
    for finding in made["findings"]:
        finding |= {"caveats": [nasty], "reason": nasty, "method": nasty}
    first = made["findings"][0]
    made["findings"].append(first | {"element": nasty})
    for attribute in ("shared_with", "index_function", "replacement_policy", "ways"):
        made["findings"].append(first | {"element": "l1", "attribute": attribute, "unit": "", "value": nasty})
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
NAMES = ["lru", "bits 7-8", "mod 64", "l1, texture", "nothing", "readonly", "weighted 0.5 0.5"]


@st.composite
def findings(draw):
    element, attribute = draw(st.sampled_from(ELEMENTS)), draw(st.sampled_from(list(ATTRIBUTES)))
    value = draw(values if unit_of(attribute) else values | st.sampled_from(NAMES) | st.text())
    bounds = st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 2**40)
    fields = {"value": value, "low": draw(bounds), "high": draw(bounds)}
    status = draw(st.sampled_from(Status)) if draw(st.booleans()) else Status.FOUND
    return f"{element}.{attribute}", fields | {"status": status, "reason": draw(st.text(max_size=20))}


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(
    made=st.lists(findings(), max_size=40).map(dict),
    base=st.sampled_from([{}, PLAIN, PARTITIONED]),
    name=st.text(max_size=10),
    sms=st.integers(-1, 2**30),
    facts=st.dictionaries(st.sampled_from([*FACTS, "l2_size", "clock_hz", "warp_size"]), values | st.text(max_size=9)),
)
def test_any_result_makes_a_gpu_that_can_be_simulated_or_one_line(made, base, name, sms, facts):
    facts = {key: value for key, value in facts.items() if not isinstance(value, tuple)}
    given_result = result(base | made, name=name, sm_count=sms, facts=facts)
    try:
        text = export(given_result, "gpu")
    except GpudissectError as error:
        assert len(str(error)) < 1000
        return
    gpu = read(text)
    hierarchy = hierarchy_of(gpu)
    assert all(c.isprintable() or c == "\n" for c in text)
    for each in given_result.findings:
        cache = gpu.caches.get(each.element)
        if cache and each.attribute == "capacity" and cache.capacity.source and not each.high and each.value:
            assert cache.capacity.value in (each.value, hierarchy.caches[each.element].capacity)


def test_a_fixed_order_of_victims_makes_a_round_trip():
    findings = found("l1", **L1, sets=32.0, ways=24.0, replacement_policy="order 2 3 2 1 2 4")
    gpu = gpu_with(findings)
    assert hierarchy_of(gpu).caches["l1"].policy == Policy(PolicyKind.ORDER, order=(2, 3, 2, 1, 2, 4))
    published = {(item.element, item.attribute): item.value for item in published_of(gpu)}
    assert published["l1", "replacement_policy"] == "order 2 3 2 1 2 4"


@pytest.mark.parametrize("run", [1, 3])
def test_what_the_l2_fetches_ahead_makes_a_round_trip(run):
    gpu = gpu_with(found("l2", prefetch_reach=65536.0, prefetch_run=float(run)))
    assert hierarchy_of(gpu).prefetch == Prefetch("l2", reach=65536, run=run - 1)


def test_without_prefetch_nothing_is_fetched_ahead():
    assert hierarchy_of(gpu_with(found("l2", prefetch_reach=0.0))).prefetch is None


@pytest.mark.parametrize(("accesses", "position"), [("every access", 0), ("misses only", 1)])
def test_the_place_of_the_tlbs_and_the_page_table_window(accesses, position):
    tlb = found("tlb_l1", entries=16, page_size=2 * MIB, miss_penalty=30.0)
    window = found("page_table", window=512 * MIB, switch_penalty=266.0)
    gpu = gpu_with(tlb | window | found("l1", translated=accesses))
    hierarchy = hierarchy_of(gpu)
    assert hierarchy.routes[Path.GLOBAL].translated_from == position and gpu.paths["global"].translated_from.source
    assert (hierarchy.page_window.size, hierarchy.page_window.penalty) == (512 * MIB, 266.0)
    assert "page_table" not in gpu.published
