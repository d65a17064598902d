"""The values that the experiments should find on a simulated GPU."""

from dataclasses import replace

import pytest
from truth import truth_of

from gpudissect.device.simulated.random_gpu import random_gpu
from gpudissect.simulation.cache.geometry import (
    Distance,
    Index,
    IndexKind,
    Partition,
    Policy,
    PolicyKind,
    Prefetch,
    Rows,
)
from gpudissect.workload import Path

PLAIN = replace(random_gpu(0).hierarchy, partition=None, prefetch=None)
ROUTE = PLAIN.routes[Path.GLOBAL]


def test_latencies_and_penalties_add_up_along_the_path():
    truth = truth_of(PLAIN)
    assert truth["l1", "hit_latency"] + truth["l1", "miss_penalty"] == pytest.approx(truth["l2", "hit_latency"])
    assert truth["l2", "hit_latency"] + truth["l2", "miss_penalty"] == pytest.approx(truth["dram", "hit_latency"])


def test_two_partitions_hold_twice_the_array():
    truth = truth_of(replace(PLAIN, partition=Partition("l2", 1 << 12, 80.0, 150.0)))
    assert truth["l2", "capacity"] == 2 * truth["l2", "segment_size"] == 2 * PLAIN.caches["l2"].capacity
    assert ("l2", "sets") not in truth and ("dram", "hit_latency") not in truth


def test_what_has_no_single_value_is_left_out():
    truth = truth_of(replace(PLAIN, rows=Rows(512, 8, 20.0), prefetch=Prefetch("l1", 128, run=0)))
    assert not {("dram", "hit_latency"), ("l2", "miss_penalty"), ("l1", "max_miss_rate")} & truth.keys()


def test_latencies_of_an_l2_at_many_distances_are_left_out():
    truth = truth_of(replace(PLAIN, distance=Distance("l2", tuple(range(PLAIN.sm_count)))))
    assert ("l1", "hit_latency") in truth and ("l2", "capacity") in truth
    assert not {("l1", "miss_penalty"), ("l2", "hit_latency"), ("dram", "hit_latency")} & truth.keys()


@pytest.mark.parametrize(
    ("kind", "name"), [(PolicyKind.MRU, "lru"), (PolicyKind.PLRU, "lru"), (PolicyKind.LAST_TWO_HITS, "slru")]
)
def test_of_policies_that_are_equal_with_two_ways_one_is_expected(kind, name):
    l1 = replace(PLAIN.caches["l1"], ways=(2,) * PLAIN.caches["l1"].sets, policy=Policy(kind))
    assert truth_of(replace(PLAIN, caches={**PLAIN.caches, "l1": l1}))["l1", "replacement_policy"] == name


@pytest.mark.parametrize(
    ("order", "name"), [((1, 2, 3, 1, 2, 3), "fifo"), ((2, 1, 3, 2, 1, 3), "order 2 1 3"), ((1, 2), "order 1 2")]
)
def test_an_order_is_its_shortest_period_or_fifo(order, name):
    l1 = replace(PLAIN.caches["l1"], ways=(3,) * PLAIN.caches["l1"].sets, policy=Policy(PolicyKind.ORDER, order=order))
    assert truth_of(replace(PLAIN, caches={**PLAIN.caches, "l1": l1}))["l1", "replacement_policy"] == name


def test_textures_in_the_array_of_the_l1_have_the_index_of_their_path():
    index = Index(IndexKind.BITS, bits=(10, 9))
    l1 = replace(PLAIN.caches["l1"], ways=(4,) * 4, line=128, sector=32, index=Index(IndexKind.MODULO))
    texture = replace(PLAIN.routes[Path.TEXTURE], caches=("l1", "l2"), index=index)
    caches, routes = {"l1": l1, "l2": PLAIN.caches["l2"]}, {**PLAIN.routes, Path.TEXTURE: texture}
    truth = truth_of(replace(PLAIN, caches=caches, routes=routes))
    assert (truth["l1", "index_function"], truth["texture", "index_function"]) == ("bits 7 8", "bits 9 10")
    assert (truth["l1", "shared_with"], truth["texture", "shared_with"]) == ("texture", "l1")
