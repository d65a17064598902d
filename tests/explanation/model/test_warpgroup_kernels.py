"""Recorded kernels with warpgroup matrix instructions and asynchronous copies: predicted times, and what waits."""

import lzma
from functools import cache
from pathlib import Path

import pytest

from gpudissect.explanation.model.build import explain_profile
from gpudissect.explanation.profile import Profile
from gpudissect.results.files import load

FOLDER = Path("tests/recordings/warpgroup")


@cache
def explained(kernel):
    text = lzma.decompress((FOLDER / f"{kernel}.json.xz").read_bytes())
    return explain_profile(Profile.model_validate_json(text), [load(Path("docs/results/h200.json"))])


@pytest.mark.parametrize(
    ("kernel", "error"),
    [
        ("async_gemm_1x128", 0.26),
        ("async_gemm_2x128", 0.06),
        ("triton_128x128", 0.15),
        ("triton_128x256", 0.15),
        ("triton_64x64", 0.16),
        ("triton_128x64", 0.195),
        ("bulk_gemm_2x64", 0.12),
        ("bulk_stream_2", 0.12),
        ("special_gemm_4x256", 0.11),
    ],
)
def test_predicted_times_are_as_near_as_the_page_of_accuracy_says(kernel, error):
    point = explained(kernel).point
    assert abs(point.predicted / point.measured - 1) < error


def test_a_warp_waits_where_the_machine_code_waits_for_groups():
    """Of a kernel that waits for its copies and for its products in each iteration, at full latency."""
    stalls = {line.text.split(" R")[0]: line.stall for line in explained("async_gemm_1x128").lines}
    assert stalls["DEPBAR.LE SB0, 0x0"] > 0.2
    assert stalls["WARPGROUP.DEPBAR.LE gsb0, 0x0"] > 0.1


def test_warps_that_share_work_by_barriers_wait_for_their_copies():
    """Of a warpgroup that copies and two that multiply."""
    stalls = [line.stall for line in explained("special_gemm_4x256").lines if line.text.startswith("SYNCS.PHASECHK")]
    assert len(stalls) == 2 and max(stalls) > 0.05


def test_the_rate_of_matrix_instructions_is_marked_as_assumed():
    found = explained("triton_128x128")
    assert "HGMMA: 1.5 times the rate of mma_f16; latency: microbenchmarks on an H200" in found.assumptions
    assert found.bounds["tensor"] == pytest.approx(2 * 4096 * 4096 * 2048 / (2 * 2048 * 132 * 1.98), rel=0.01)
