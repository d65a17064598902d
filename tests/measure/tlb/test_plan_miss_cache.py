"""A miss cache beside a TLB is found behind another TLB, with its size, and where there is none, none is."""

from dataclasses import replace

import pytest

from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.simulation.cache.geometry import Index, IndexKind, Policy, PolicyKind, Tlb
from tests.measure.conftest import plain_l2
from tests.measure.tlb.test_plan_entries_and_page_size import gpu, tlb
from tests.support.driving import estimates

PAGE, GIB = 32 << 20, 1 << 30
ROWS = tuple((1 << bit | 1 << bit + 8) * PAGE for bit in range(8))
SECOND = Tlb((8,) * 256, PAGE, Index(IndexKind.XOR, masks=ROWS), Policy(PolicyKind.LRU), 100.0)


def found(second, **options):
    """What is found of a second TLB behind one like an H200's."""
    l2 = plain_l2(8192, 128)
    device = gpu([tlb(16, PAGE // 2, 10.5), second], walk=110.0, limit=111 * GIB, l2=l2, **options)
    return {
        name: each for (element, name), each in estimates(device, ["miss_cache.tlb_l2"]).items() if element == "tlb_l2"
    }


@pytest.mark.parametrize("entries", [16, 24])
def test_a_miss_cache_is_found_and_so_are_sets_that_it_hides_from_group_tests(entries):
    values = found(replace(SECOND, miss_cache=entries), noise=Noise(seed=3, jitter=0.1))
    size = values["miss_cache"]
    assert size.low <= entries <= size.high and abs(size.value - entries) <= 1
    assert [values[name].value for name in ("sets", "ways", "entries", "replacement_policy")] == [256, 8, 2048, "lru"]
    assert values["index_function"].value == "xor 25^33 26^34 27^35 28^36 29 30 31 32"


@pytest.mark.parametrize(("sets", "ways", "entries"), [(32, 4, 8), (16, 8, 16)])
def test_few_sets_are_found_from_random_visits_where_a_miss_cache_hides_them_from_group_tests(sets, ways, entries):
    second = Tlb((ways,) * sets, PAGE, Index(IndexKind.MODULO), Policy(PolicyKind.LRU), 100.0, miss_cache=entries)
    values = found(second)
    assert [values[name].value for name in ("sets", "ways", "entries")] == [sets, ways, sets * ways]
    assert values["entries"].caveats == (f"the ways of all sets; {sets * ways + 1} consecutive pages fit",)


def test_without_a_miss_cache_none_is_found():
    size = found(SECOND)["miss_cache"]
    assert (size.value, size.low) == (0, 0) and size.high < 16


def test_one_set_cannot_show_one():
    size = found(tlb(300, PAGE))["miss_cache"]
    assert size.status is Status.NOT_FOUND
