"""Page-table windows of random sizes are found to the byte; nothing else passes for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truth import truth_of

from gpudissect.catalogue import load
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.device.simulated.random_gpu import random_gpu
from gpudissect.estimate import Status
from gpudissect.simulation.cache.geometry import Index, IndexKind, PageWindow, Policy, PolicyKind, Tlb
from tests.measure.tlb.test_plan_entries_and_page_size import FEW, GIB, MIB, gpu, noises, policies, tlb
from tests.support.driving import estimates, learned

NAMES = [("page_table", name) for name in ("window", "switch_penalty")]


def window_of(device, seed=0, known=None):
    """The estimates of the size and of the penalty."""
    found = estimates(device, ["window.page_table"], seed, known)
    return [found[name] for name in NAMES]


def assert_window(found, window):
    size, penalty = found
    assert (size.value, size.low, size.high) == (window.size,) * 3, size.reason
    assert size.confidence >= 0.95 and size.evidence
    assert penalty.low <= window.penalty <= penalty.high


@given(
    entries=st.integers(8, 64),
    page=st.integers(20, 22),
    pages=st.integers(32, 700),
    penalty=st.floats(20, 400),
    policy=policies,
    noise=noises,
)
@FEW
def test_a_window_of_any_number_of_pages(entries, page, pages, penalty, policy, noise):
    window = PageWindow(pages << page, penalty)
    device = gpu([tlb(entries, 1 << page, policy=policy)], noise=noise, window=window, limit=8 * GIB)
    assert_window(window_of(device, noise.seed), window)


@given(entries=st.integers(8, 40), page=st.integers(20, 22), wider=st.integers(0, 2), noise=noises)
@FEW
def test_behind_two_tlbs(entries, page, wider, noise):
    window = PageWindow(512 * MIB, 150.0)
    tlbs = [tlb(entries, 1 << page, 20.0), tlb(4 * entries, 1 << page + wider)]
    device = gpu(tlbs, 80.0, noise, window, limit=16 * GIB)
    assert_window(window_of(device, noise.seed), window)


@given(entries=st.integers(8, 64), page=st.integers(18, 23), policy=policies, noise=noises)
@FEW
def test_without_a_window_none_is_found(entries, page, policy, noise):
    size, penalty = window_of(gpu([tlb(entries, 1 << page, policy=policy)], noise=noise, limit=8 * GIB), noise.seed)
    assert size.status is penalty.status is Status.NOT_FOUND
    assert "take as long in both directions" in size.reason and size.evidence


@pytest.mark.parametrize("page", [128 << 10, 2 * MIB, 16 * MIB], ids=str)
def test_the_size_does_not_depend_on_the_page(page):
    window = PageWindow(512 * MIB, 266.0)
    assert_window(window_of(gpu([tlb(24, page)], window=window, limit=8 * GIB)), window)


@pytest.mark.parametrize(
    ("ways", "policy"),
    [((4,) * 8, "lru"), ((17, *[8] * 6), "lru"), ((17, *[8] * 6), "random"), ((5, 4, 4), "random")],
    ids=["8x4", "17+6x8", "17+6x8 at random", "5+4+4"],
)
def test_a_tlb_in_sets(ways, policy):
    """Pages a power of two apart would leave sets empty, whose pages never walk."""
    window = PageWindow(256 * MIB, 90.0)
    sets = Tlb(ways, 2 * MIB, Index(IndexKind.MODULO), Policy(PolicyKind(policy)), 0.0)
    assert_window(window_of(gpu([sets], window=window, limit=8 * GIB)), window)


def test_a_window_that_memory_holds_only_twice_is_only_bounded():
    size, penalty = window_of(gpu([tlb(16, 2 * MIB)], window=PageWindow(2 * GIB, 200.0), limit=4 * GIB))
    assert size.status is penalty.status is Status.AMBIGUOUS
    assert "only one change" in size.reason and GIB < size.low <= 2 * GIB


def test_a_tlb_that_was_not_noticed_is_no_window():
    """Its wide pages are slow in order as windows are; but it keeps two of them at once."""
    device = gpu([tlb(16, 2 * MIB, 20.0), tlb(4, 256 * MIB)], 150.0, limit=16 * GIB)
    _, known = learned(device, ["tlb.tlb_l1"])
    size, _ = window_of(device, known={**known, "tlb.tlb_l2": None, "tlb.tlb_l3": None})
    assert size.status is Status.AMBIGUOUS and "contradict" in size.reason


def test_few_pages_are_refused():
    size, _ = window_of(gpu([tlb(60, 2 * MIB)], window=PageWindow(64 * MIB, 200.0), limit=128 * MIB))
    assert size.value is None and size.reason


def test_without_a_tlb_nothing_is_known_to_walk():
    size, _ = window_of(gpu([], walk=0.0, limit=8 * GIB))
    assert size.status is Status.NOT_FOUND and "no TLB was found" in size.reason


@pytest.mark.parametrize(("name", "size"), [("gtx780", 512 * MIB), ("gtx560ti", None)])
def test_published_gpus(name, size):
    """MC16 s5.2: 512 MB on Kepler, no P6 on Fermi."""
    hierarchy = load(name).hierarchy()
    found, penalty = window_of(SimulatedGpu(hierarchy, spec="sim:test", name=name, noise=Noise(seed=1)))
    assert found.value == size
    if size:
        assert penalty.low <= 266 <= penalty.high


@pytest.mark.parametrize("seed", [9, 10, 29, 34])
def test_random_gpus(seed):
    device = random_gpu(seed)
    truth = truth_of(device.hierarchy)
    for found, name in zip(window_of(device, seed), NAMES, strict=True):
        if found.status is Status.FOUND:
            assert name in truth and found.low <= truth[name] <= found.high
