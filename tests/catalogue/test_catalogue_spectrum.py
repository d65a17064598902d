"""P1 to P6 of MC14 table 3, put together again from hit latencies, TLB penalties, walks and the page window."""

import pytest

from gpudissect.catalogue import load
from gpudissect.simulation.cache.geometry import Hierarchy
from gpudissect.workload import Path


def spectrum(hierarchy: Hierarchy, path: Path) -> list[float]:
    """P1..P6: data cache hit with TLB hit, L1 TLB miss, both miss; memory with TLB hit, both miss, window missed."""
    route = hierarchy.routes[path]
    hit, memory = route.latency[0], route.memory_latency
    assert memory is not None
    window = hierarchy.page_window.penalty if hierarchy.page_window else 0
    cold = hierarchy.tlb_cold_walk_penalty
    assert cold is not None
    past_tlb = max(hit, route.latency[route.tlbs_at])
    return [
        hit,
        past_tlb + hierarchy.tlbs[0].penalty,
        past_tlb + hierarchy.tlb_walk_penalty,
        memory,
        memory + cold,
        memory + cold + window,
    ]


def test_kepler_exactly() -> None:
    assert spectrum(load("gtx780").hierarchy(), Path.GLOBAL) == [230, 236, 289, 371, 734, 1000]


def test_fermi_with_and_without_l1() -> None:
    hierarchy = load("gtx560ti").hierarchy()
    on, off = spectrum(hierarchy, Path.GLOBAL), spectrum(hierarchy, Path.GLOBAL_L2)
    assert on[:4] == [116, 404, 488, 655]
    assert off[:4] == [371, 398, 482, 639]
    assert on[4] == pytest.approx(1259, abs=1)  # P5 - P4 is 604 with the L1, 606 without: no one walk gives both
    assert off[4] == pytest.approx(1245, abs=1)
    assert hierarchy.page_window is None  # Fermi has no P6


def test_the_published_spectra_are_listed() -> None:
    for name, path in (("gtx780", Path.GLOBAL), ("gtx560ti", Path.GLOBAL), ("gtx560ti", Path.GLOBAL_L2)):
        gpu = load(name)
        listed = [item.value for item in gpu.published() if item.element == f"spectrum_{path}"]
        assert listed == pytest.approx(spectrum(gpu.hierarchy(), path)[: len(listed)], abs=1)
        assert len(listed) == (6 if name == "gtx780" else 5)


def test_maxwell_as_mc16_tells_it() -> None:
    hierarchy = load("gtx980").hierarchy()
    p1, p2, p3, p4, p5, p6 = spectrum(hierarchy, Path.GLOBAL_L2)
    assert p4 == 383
    assert p5 / 734 == pytest.approx(3.5, abs=0.05)  # "about 3.5 times longer than on the Kepler"
    assert p5 / 1259 == pytest.approx(2, abs=0.1)  # "and twice as long as on the Fermi"
    assert p6 - p5 > 266  # "also much more expensive than that of the GTX780"
    assert [p1, p2, p3] == pytest.approx([230, 236, 289])  # "similar latencies to those of the GTX780"
    assert hierarchy.routes[Path.GLOBAL].translated_from == 1  # L1 hits go through no TLB
