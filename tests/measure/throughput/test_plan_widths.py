"""Bandwidth by the width of an access: limited by the level, or by the accesses that an SM starts."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.catalogue.load import load
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.simulation.sm.description import Fetches
from gpudissect.workload import Path
from gpudissect.workload.stream import ACCESS_WIDTHS
from tests.support.driving import estimates
from tests.support.one_cache import levels
from tests.support.steady_gpu import CLOCK, INFO, SMS, Level, SteadyGpu
from tests.support.steady_survey import LoggingGpu, found

ATTRIBUTES = {
    "l1": "read_rate_by_width",
    "shared": "read_rate_by_width",
    "l2": "read_bandwidth_by_width",
    "dram": "read_bandwidth_by_width",
}


def by_width(device, element):
    return found(device, f"bandwidth.{element}.read", f"widths.{element}")[element, ATTRIBUTES[element]]


@settings(max_examples=15, deadline=None)
@given(accesses=st.floats(0.1, 1.0), level=st.floats(20, 120))
def test_narrow_accesses_are_limited_by_their_number(accesses, level):
    device = SteadyGpu(l1=Level(32, level), accesses=accesses)
    expected = [min(level, 32 * accesses * width) for width in ACCESS_WIDTHS]
    assert by_width(device, "l1").value == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("element", ["l2", "dram"])
@pytest.mark.parametrize("accesses", [0.05, 1.0])
def test_levels_that_all_sms_share(element, accesses):
    rate = {"l2": 900e9, "dram": 238e9}[element]
    device = SteadyGpu(accesses=accesses, dram=Level(300e-9, rate))  # so short that single bytes in flight suffice
    expected = [min(rate, 32 * accesses * width * SMS * CLOCK) for width in ACCESS_WIDTHS]
    assert by_width(device, element).value == pytest.approx(expected, rel=0.03)


def test_wide_accesses_take_what_the_search_has_measured():
    device = LoggingGpu()
    found(device, "bandwidth.shared.read")
    searched = len(device.workloads)
    assert found(device, "widths.shared")["shared", "read_rate_by_width"].status is Status.FOUND
    streams = device.workloads[2 * searched :]
    assert {each.width for each in streams} == {1, 2, 4} and len(streams) <= 12, "the search begins with 16"


@pytest.mark.parametrize("element", ATTRIBUTES)
def test_without_streams_nothing_is_found(element):
    missing = by_width(SteadyGpu(replace(INFO, streams=())), element)
    assert missing.status is Status.NOT_FOUND and missing.value is None


H200 = load("h200")
TEXTURES = {"levels.texture": levels(128, "texture", Path.TEXTURE), "capacity.texture": 128 << 10}


def texture_rates(fetches):
    processor = replace(H200.processor(), texture=fetches)
    gpu = SimulatedGpu(H200.hierarchy(), spec="sim:test", name="test", noise=Noise(seed=1), processor=processor)
    found = estimates(gpu, ["bandwidth.texture.read"], known=TEXTURES)
    return found["texture", "read_rate"], found["texture", "read_rate_by_width"]


@settings(max_examples=12, deadline=None)
@given(rate=st.floats(16, 128), interval=st.floats(2, 8))
def test_texture_fetches_are_limited_by_their_number_and_their_bytes(rate, interval):
    found, by_width = texture_rates(Fetches(rate, interval))
    expected = [min(rate, 32 * width / interval) for width in ACCESS_WIDTHS]
    assert by_width.value == pytest.approx(expected, rel=0.08)  # SMs are simulated in whole cycles
    assert found.value == pytest.approx(max(expected), rel=0.05) and "bytes for each access" in found.caveats[2]


def test_a_gpu_file_without_texture_rates_supports_none():
    assert {each.status for each in texture_rates(None)} == {Status.NOT_SUPPORTED}
