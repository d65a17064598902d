"""Random loads against the size of the array: it falls where the L2, and where the TLBs, hold less of it."""

from dataclasses import replace
from importlib import resources

import numpy as np
import pytest

from gpudissect.catalogue import load
from gpudissect.catalogue.build import hierarchy_of, processor_of
from gpudissect.catalogue.load import check, parse
from gpudissect.device.simulated.costs import mix_costs, tlb_miss_share
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.measure.curves.plan_random_loads import random_load_curve_plan
from gpudissect.measure.plan import Bench, Known
from gpudissect.simulation.cache.models import CacheModel
from gpudissect.workload import Access, Instruction, Mix, Step
from tests.support.driving import learned, outcome

KIB, MIB = 1 << 10, 1 << 20
GPU = load("gtx980")
PROCESSOR = processor_of(GPU.table)
REACH = 65 * 2 * MIB  # of its second TLB
INTERVAL = 4.0  # cycles between two walks
SMS = 16


def random_mix(footprint):
    return Mix(
        body=(Step(Instruction.LDG),), warps=8, block_size=256, iterations=8, access=Access.RANDOM, footprint=footprint
    )


def curve(interval):
    """Footprints, and random loads of an SM per cycle."""
    hierarchy = replace(GPU.hierarchy(), tlb_walk_interval=interval)
    facts = {"threads_per_sm": 2048, "threads_per_block": 1024, "registers_per_sm": 65536, "l2_size": 2 * MIB}
    device = SimulatedGpu(hierarchy, spec="sim:test", name="test", facts=facts, noise=Noise.none(), processor=PROCESSOR)
    _, known = learned(device, ["rate.ldg_random"])
    (series,) = outcome(random_load_curve_plan(Bench(device.info), Known(known)), device).series
    return tuple(np.array(series.columns[name]) for name in ("footprint", "rate"))


@pytest.fixture(scope="module")
def without_limit():
    return curve(None)


def test_it_falls_where_the_l2_ends_and_no_further(without_limit):
    footprint, rate = without_limit
    assert footprint[0] <= 2 * MIB and footprint[-1] > 1 << 30
    beyond = rate[footprint > 2 * MIB]
    assert rate[footprint <= 2 * MIB].min() > 2 * beyond.max()
    assert beyond == pytest.approx(0.092, rel=0.03), "VV16 table 6.1"


def test_walks_limit_it_beyond_the_reach_of_the_tlbs(without_limit):
    """VV16 s6.7: on the GT200 beyond 32 MB, the reach of its second TLB."""
    (footprint, free), (_, limited) = without_limit, curve(INTERVAL)
    fits = footprint <= REACH
    assert limited[fits] == pytest.approx(free[fits], rel=0.01)
    walks = 1 / (INTERVAL * SMS)  # of an SM per cycle
    expected = walks / (1 - REACH / footprint[~fits])
    assert limited[~fits] == pytest.approx(np.minimum(free[~fits], expected), rel=0.03)
    assert limited[-1] < 0.2 * free[-1]


def test_a_gpu_file_may_have_the_interval():
    file = resources.files("gpudissect.catalogue") / "gpus" / "gtx980.toml"
    text = file.read_text("utf-8").replace("[walk]\n", '[walk]\ninterval = { value = 4, assumed = "a test" }\n')
    assert hierarchy_of(check("test", parse("test", text.encode()))).tlb_walk_interval == 4
    assert GPU.hierarchy().tlb_walk_interval is None


def test_a_load_awaits_the_walks_of_its_lanes():
    limited = replace(GPU.hierarchy(), tlb_walk_interval=INTERVAL)
    for hierarchy, extra in ((GPU.hierarchy(), 0.0), (limited, limited.tlb_walk_penalty)):
        small, large = (mix_costs(random_mix(size), PROCESSOR, hierarchy)[0] for size in (64 * MIB, 1024 * MIB))
        assert large.latency - small.latency == pytest.approx(extra)


@pytest.mark.parametrize(("size", "share"), [(MIB, 0.0), (REACH, 0.0), (2 * REACH, 0.5), (10 * REACH, 0.9)])
def test_share_of_accesses_that_miss_every_tlb(size, share):
    assert tlb_miss_share(size, GPU.hierarchy()) == pytest.approx(share)
    assert tlb_miss_share(size, replace(GPU.hierarchy(), tlbs=())) == 0.0


def test_the_share_is_that_of_simulated_tlbs():
    """Random accesses to pages, whatever the policy and the sets."""
    tlb = GPU.hierarchy().tlbs[-1]
    pages = 2 * sum(tlb.ways)
    model = CacheModel(tlb.as_cache())
    missed = model.access_many(np.random.default_rng(0).integers(0, pages, 40_000) * tlb.page)
    assert missed[1000:].mean() == pytest.approx(tlb_miss_share(pages * tlb.page, GPU.hierarchy()), abs=0.02)
