"""GPUs beyond what the inference was tuned on: what it states at 0.95 or more is right."""

from dataclasses import replace

import numpy as np
import pytest

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.cache import plan_levels, plan_line
from gpudissect.measure.infer_confidence import DOUBTFUL
from gpudissect.measure.infer_latency import chase_latency
from gpudissect.simulation.cache.geometry import (
    Cache,
    Fill,
    Hierarchy,
    Index,
    IndexKind,
    PageWindow,
    Partition,
    Policy,
    PolicyKind,
    Prefetch,
    Room,
    Route,
    Rows,
    Scope,
    Tlb,
)
from gpudissect.survey.run import run_survey
from gpudissect.workload import Path
from tests.support.driving import estimates

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LRU, FIFO = Policy(PolicyKind.LRU), Policy(PolicyKind.FIFO)
PLAIN = Index(IndexKind.MODULO)
L1_HIT, L2_HIT, MEMORY, TIMER = 33.0, 200.0, 440.0, 12.0
NEAR_CERTAIN = 0.95
HOME = sum(1 << bit for bit in (9, 12, 14, 17, 20))  # address bits whose parity is the home of a line
PAGES = (Tlb((16,), 2 * MIB, PLAIN, LRU, 100.0),)


def cache(size, line=128, sector=32, ways=4, scope=Scope.SM, index=PLAIN):
    return Cache((ways,) * (size // line // ways), line, sector, index, LRU, scope)


def gpu(l1=16 * KIB, l2=MIB, noise=None, facts=(), line=128, sector=32, **parts):
    caches = {"l1": cache(l1, line, sector), "l2": cache(l2, ways=16, scope=Scope.GPU)}
    routes = {
        Path.GLOBAL: Route(("l1", "l2"), (L1_HIT, L2_HIT), MEMORY, timer=TIMER),
        Path.GLOBAL_L2: Route(("l2",), (L2_HIT,), MEMORY, timer=TIMER),
    }
    parts = {"tlbs": PAGES} | parts
    walk = parts["tlbs"][-1].penalty
    limits = dict.fromkeys(routes, 8 * GIB)
    hierarchy = Hierarchy(caches, routes, sm_count=8, limits=limits, tlb_walk_penalty=walk, **parts)
    return SimulatedGpu(hierarchy, spec="sim:untuned", name="untuned", noise=noise or Noise(), facts=dict(facts))


def truth_of(device):
    """Values of the geometry, and of the latencies."""
    hierarchy = device.hierarchy
    truth = {("l1", "miss_penalty"): L2_HIT - L1_HIT, ("l2", "miss_penalty"): MEMORY - L2_HIT}
    truth |= {("dram", "hit_latency"): MEMORY, ("timer", "overhead"): TIMER}
    for name, cycles in (("l1", L1_HIT), ("l2", L2_HIT)):
        each = hierarchy.caches[name]
        truth |= {(name, "line_size"): each.line, (name, "fetch_granularity"): each.sector, (name, "sets"): each.sets}
        truth |= {(name, "ways"): each.ways[0], (name, "capacity"): each.capacity, (name, "hit_latency"): cycles}
    if hierarchy.partition is not None:
        truth["l2", "capacity"] *= hierarchy.partition.count
        del truth["dram", "hit_latency"], truth["l2", "miss_penalty"]
    before = 0.0
    for name, tlb in zip(("tlb_l1", "tlb_l2"), hierarchy.tlbs, strict=False):
        truth |= {(name, "entries"): sum(tlb.ways), (name, "page_size"): tlb.page}
        truth[name, "miss_penalty"] = tlb.penalty - before
        before = tlb.penalty
    return truth


def surveyed(device, *elements, seed=0):
    """Findings by name, and those that are wrong although stated with near certainty."""
    survey = run_survey(device, elements=elements, seed=seed)
    assert survey.failures == ()
    found = {(each.element, each.attribute): each for each in survey.findings if each.status is Status.FOUND}
    wrong = []
    for name, value in truth_of(device).items():
        if name in found and found[name].confidence >= NEAR_CERTAIN:
            low, high = found[name].low, found[name].high
            if not (low or 0) <= value <= (high if high is not None else np.inf):
                wrong.append((*name, found[name].value, value))
    return found, wrong


@pytest.mark.parametrize("rows", [Rows(512, 16, 40.0), Rows(2048, 32, 60.0), Rows(1024, 64, 25.0)], ids=str)
def test_open_rows_of_memory_are_no_hits(rows):
    found, wrong = surveyed(gpu(l2=1280 * KIB, rows=rows), "l2", "dram")
    assert wrong == []
    assert found["l2", "fetch_granularity"].value == 32 and found["l2", "sets"].value == 640


@pytest.mark.parametrize(("first", "second"), [(16, 24), (16, 18), (12, 20)])
@pytest.mark.parametrize("policy", [LRU, FIFO], ids=["lru", "fifo"])
def test_a_second_tlb_close_to_the_first_is_another(first, second, policy):
    tlbs = tuple(Tlb((n,), 2 * MIB, PLAIN, policy, cycles) for n, cycles in ((first, 23.0), (second, 117.0)))
    found, wrong = surveyed(gpu(tlbs=tlbs), "tlb_l1", "tlb_l2")
    assert wrong == []
    assert [found[tlb, "entries"].value for tlb in ("tlb_l1", "tlb_l2")] == [first, second]


@pytest.mark.parametrize(("l1", "l2"), [(256 * KIB, 384 * KIB), (96 * KIB, 128 * KIB), (200 * KIB, 256 * KIB)])
def test_an_l1_of_more_than_half_the_l2(l1, l2):
    found, wrong = surveyed(gpu(l1, l2), "l1")
    assert wrong == [] and found["l1", "capacity"].value == l1 and found["l1", "sets"].value == l1 // 512


@pytest.mark.parametrize("mask", [1 << 7, 1 << 8, 1 << 27 | 1 << 29], ids=hex)
def test_home_partitions_by_low_or_high_bits(mask):
    found, wrong = surveyed(gpu(l2=2 * MIB, partition=Partition("l2", mask, 80.0, 150.0)), "l2", "dram")
    assert wrong == []
    assert found["dram", "near_latency"].value == pytest.approx(MEMORY, abs=3)


@pytest.mark.parametrize("count", [3, 4])
def test_more_than_two_partitions(count):
    device = gpu(l2=256 * KIB, sector=32, partition=Partition("l2", 0, 90.0, 150.0, count, 4 * KIB))
    found, wrong = surveyed(device, "l2")
    capacity = found["l2", "capacity"]
    assert wrong == [] and capacity.low <= count * 256 * KIB <= capacity.high
    if ("l2", "segment_size") in found:
        assert capacity.value == pytest.approx(count * found["l2", "segment_size"].value, rel=0.05)


@pytest.mark.parametrize("policy", [LRU, Policy(PolicyKind.RANDOM)], ids=["lru", "random"])
@pytest.mark.parametrize("fill", [Fill.VICTIMS, Fill.EXCLUSIVE])
def test_a_victim_cache_behind_the_l1_makes_its_size_doubtful(fill, policy):
    plain = gpu().hierarchy
    victim = Cache((32,), 128, 32, PLAIN, LRU, fill=fill)
    caches = {**plain.caches, "l1": replace(plain.caches["l1"], policy=policy), "victim": victim}
    route = replace(plain.routes[Path.GLOBAL], caches=("l1", "victim", "l2"), latency=(L1_HIT, 90.0, L2_HIT))
    hierarchy = replace(plain, caches=caches, routes={**plain.routes, Path.GLOBAL: route})
    found = estimates(
        SimulatedGpu(hierarchy, spec="sim:untuned", name="untuned", noise=Noise()), ["capacity.l1", "penalty.l1"]
    )
    for name in ("capacity", "miss_penalty"):
        assert found["l1", name].confidence <= DOUBTFUL and "another level" in found["l1", name].caveats[-1]


@pytest.mark.parametrize("walk", [100.0, 230.0])
def test_page_walks_within_a_partition_of_the_l2_are_no_hits_in_the_other(walk):
    tlbs = (Tlb((32,), 64 * KIB, PLAIN, LRU, walk),)
    device = gpu(l2=3 * MIB, tlbs=tlbs, partition=Partition("l2", HOME, 150.0, 180.0))
    assert estimates(device, ["latency.l2"])["l2", "far_latency"].status is Status.NOT_FOUND


def test_the_size_of_an_l2_whose_far_partition_was_not_found_is_a_range():
    tlbs = (Tlb((32,), 64 * KIB, PLAIN, LRU, 100.0),)
    device = gpu(l2=3 * MIB, tlbs=tlbs, partition=Partition("l2", HOME, 150.0, 180.0))
    found = estimates(device, ["capacity.l2"])
    assert found["l2", "segment_size"].status is Status.NOT_FOUND
    assert found["l2", "capacity"].low <= 6 * MIB <= found["l2", "capacity"].high


@pytest.mark.parametrize("tlbs", [PAGES, (Tlb((16,), 128 * KIB, PLAIN, LRU, 185.0),)], ids=["large pages", "small"])
def test_memory_behind_an_l2_that_fetches_the_next_lines(tlbs):
    """Half of the first accesses in random order find their line fetched ahead."""
    found, wrong = surveyed(gpu(line=32, tlbs=tlbs, prefetch=Prefetch("l2", 256, run=0)), "l2", "dram", "tlb_l1")
    assert wrong == [] and found["l2", "hit_latency"].value == pytest.approx(L2_HIT, abs=1)
    assert found["dram", "hit_latency"].value == pytest.approx(MEMORY, abs=3)


@pytest.mark.parametrize("page", [32 * KIB, 128 * KIB])
def test_latencies_with_small_pages(page):
    found, wrong = surveyed(gpu(tlbs=(Tlb((16,), page, PLAIN, LRU, 170.0),)), "l2", "dram", "tlb_l1")
    assert wrong == []
    assert found["dram", "hit_latency"].value == pytest.approx(MEMORY, abs=3)


def test_page_walks_are_no_part_of_the_latency_of_memory():
    tlbs = (Tlb((64,), 64 * KIB, PLAIN, LRU, 170.0),)
    found, _ = surveyed(gpu(tlbs=tlbs, page_window=PageWindow(512 * MIB, 280.0)), "dram")
    assert found["dram", "hit_latency"].value == pytest.approx(MEMORY, abs=3)


@pytest.mark.parametrize("reach", [64, 128])
def test_prefetch_of_the_next_lines_makes_the_l1_doubtful(reach):
    _, wrong = surveyed(gpu(line=64, sector=64, prefetch=Prefetch("l1", reach, run=0)), "l1")
    assert wrong == []


def test_lines_of_an_l1_that_fetches_the_next_one_are_doubtful():
    found, _ = surveyed(gpu(line=32, sector=32, prefetch=Prefetch("l1", 32, run=0)), "l1")
    stated = [found[name] for name in (("l1", "line_size"), ("l1", "capacity")) if name in found]
    assert stated and all(each.confidence <= DOUBTFUL and plan_line.AHEAD in each.caveats for each in stated)


@pytest.mark.parametrize("seed", range(4))
def test_the_timer_where_one_access_in_a_hundred_is_delayed(seed):
    _, wrong = surveyed(gpu(noise=Noise(seed=seed, outliers=0.01, drift=0.002)), "timer")
    assert wrong == []


@pytest.mark.parametrize("size", [32 * KIB, 64 * KIB, 200 * KIB])
def test_a_small_l2(size):
    found, wrong = surveyed(gpu(2 * KIB, size), "l1", "l2")
    assert wrong == [] and found["l2", "capacity"].value == size


def test_the_size_that_the_driver_states_makes_another_doubtful():
    found, _ = surveyed(gpu(facts={"l2_size": 2 * MIB}), "l2")
    capacity = found["l2", "capacity"]
    assert capacity.confidence <= DOUBTFUL and "driver states 2 MiB" in capacity.caveats[-1]


@pytest.mark.parametrize("even", [37, 43])
def test_latency_where_even_lines_are_faster_or_slower(even):
    links, odd = 64, 80 - even
    whole, half = np.full(9, 20 + links // 2 * (even + odd)), np.full(9, 20 + links // 2 * even)
    latency = chase_latency(whole, links, half, links // 2)
    assert latency.cycles == pytest.approx(40, abs=1) and latency.low <= odd <= latency.high


def test_an_l1_of_one_line_is_not_called_absent():
    hierarchy = gpu().hierarchy
    hierarchy = replace(hierarchy, caches={**hierarchy.caches, "l1": cache(128, sector=128, ways=1)})
    device = SimulatedGpu(hierarchy, spec="sim:untuned", name="untuned", noise=Noise(), facts={})
    capacity = next(each for each in run_survey(device, elements=("l1",)).findings if each.attribute == "capacity")
    assert capacity.status is Status.NOT_FOUND and "too small" in capacity.reason


@pytest.mark.parametrize("hit", [180.0, 198.0])
def test_an_l1_as_slow_as_the_l2_is_not_called_absent(hit):
    hierarchy = gpu().hierarchy
    near = replace(hierarchy.routes[Path.GLOBAL], latency=(hit, L2_HIT))
    routes = {**hierarchy.routes, Path.GLOBAL: near}
    device = SimulatedGpu(
        replace(hierarchy, routes=routes), spec="sim:untuned", name="untuned", noise=Noise(), facts={}
    )
    capacity = next(each for each in run_survey(device, elements=("l1",)).findings if each.attribute == "capacity")
    assert capacity.status is Status.NOT_FOUND
    assert f"{hit + TIMER:.0f} cycles" in capacity.reason and f"{L2_HIT + TIMER:.0f} cycles" in capacity.reason


def test_an_l2_that_was_not_found_is_no_l1(monkeypatch):
    """Where hits and misses of the L2 overlap, its plateau is not that of the L1."""
    monkeypatch.setattr(plan_levels, "bounds_between", lambda hits, misses: None)
    hierarchy = gpu().hierarchy
    near = replace(hierarchy.routes[Path.GLOBAL], latency=(L2_HIT - 2, L2_HIT))
    hierarchy = replace(hierarchy, routes={**hierarchy.routes, Path.GLOBAL: near})
    found = estimates(SimulatedGpu(hierarchy, spec="sim:untuned", name="untuned", noise=Noise()), ["capacity.l1"])
    assert found["l1", "capacity"].status is Status.NOT_FOUND and "may be the L2" in found["l1", "capacity"].reason


ROOMS = [
    *((4, 64, Room(230), LRU), (4, 64, Room(230), FIFO), (4, 512, Room(1928), FIFO)),
    *((4, 64, Room(200), LRU), (8, 64, Room(400), LRU), (8, 512, Room(2048), FIFO)),
]


@pytest.mark.parametrize(("ways", "sets", "room", "policy"), ROOMS, ids=str)
def test_an_l1_with_more_tags_than_room_for_data(ways, sets, room, policy):
    """Its size is that of the data, its ways are those of the tags: beyond doubt with one of two seeds at least."""
    plain = gpu().hierarchy
    l1 = Cache((ways,) * sets, 128, 32, PLAIN, policy, room=room)
    caches = {**plain.caches, "l1": l1}
    for seed in (0, 1):
        device = SimulatedGpu(replace(plain, caches=caches), spec="sim:untuned", name="untuned", noise=Noise())
        found, wrong = surveyed(device, "l1", seed=seed)
        assert wrong == [] and found["l1", "capacity"].value == l1.capacity == room.lines * 128
        if ("l1", "ways") in found and found["l1", "ways"].confidence >= NEAR_CERTAIN:
            break
    assert (found["l1", "sets"].value, found["l1", "ways"].value) == (sets, ways)
    if ("l1", "replacement_policy") in found:
        assert found["l1", "replacement_policy"].value == str(policy)
