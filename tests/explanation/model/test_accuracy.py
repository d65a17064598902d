"""Predicted times of recorded kernels against the times measured on the GPU."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gpudissect.explanation.model.assess import assess
from gpudissect.explanation.model.build import explain_profile
from gpudissect.explanation.model.card import card_of
from gpudissect.explanation.model.facts import facts_of
from gpudissect.explanation.profile import read_profile
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.machine_code.program import read_program
from gpudissect.results.files import load

RECORDINGS = Path("tests/recordings/kernels")
KERNELS = ("transpose_padded", "reduction", "histogram_shared", "transpose_naive", "double_precision", "pointer_chase")
LIMITERS = {
    "transpose_padded": "memory",
    "reduction": "memory",
    "histogram_shared": "latency",
    "transpose_naive": "l2",
    "double_precision": "fp64",
    "pointer_chase": "latency",
}


@cache
def explained(gpu, kernel):
    return explain_profile(read_profile(RECORDINGS / gpu / f"{kernel}.json"), [load(Path(f"docs/results/{gpu}.json"))])


@pytest.mark.parametrize("gpu", ["h200", "h100"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_predicted_time_is_near_the_measured_one(gpu, kernel):
    point = explained(gpu, kernel).point
    assert point.measured is not None
    assert abs(point.predicted / point.measured - 1) < 0.2
    assert point.low <= point.measured <= point.high


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_limits_a_kernel_is_named(kernel):
    assert explained("h200", kernel).point.limiter == LIMITERS[kernel]


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_time_is_below_its_bounds(kernel):
    found = explained("h200", kernel)
    assert max(found.bounds.values()) <= 1.05 * found.point.predicted


def test_every_kernel_that_an_h200_ran_ran_on_an_h100():
    h200, h100 = ({path.name for path in (RECORDINGS / gpu).glob("*.json")} for gpu in ("h200", "h100"))
    assert h200 and h200 <= h100


def test_few_instrumented_kernels_compute_other_results():
    different = set()
    for path in RECORDINGS.glob("*/*.json"):
        results = read_profile(path).results
        if results.different_counted or results.different_traced:
            different.add(path.stem)
    fused_differently = {"black_scholes", "black_scholes_fast", "cholesky", "group_norm", "small_inverse"}
    added_in_another_order = {"dot_product", "top_p", "spgemm_hash"}  # by atomics, or found in another order
    near_a_threshold = {"rotated_nms"}  # overlaps of boxes, one bit each
    assert different == fused_differently | added_in_another_order | near_a_threshold


@pytest.mark.parametrize(("kernel", "loops"), [("softmax", 3), ("wave_equation", 1), ("top_k", 2)])
def test_warps_enter_the_loops_that_they_run_and_leave_the_kernel(kernel, loops):
    profile, card = read_profile(RECORDINGS / "h200" / f"{kernel}.json"), card_of(load(Path("docs/results/h200.json")))
    program = read_program(*profile.machine_code())
    found = assess(program, parse_ptx(profile.ptx()), facts_of(profile, card), card)
    headers = [program.flow.blocks[loop.header].start for loop in program.loops.loops]
    run = [header for header in headers if found.path.executed[header] > 1]
    assert len(run) == loops
    assert set(run) <= set(np.concatenate(found.path.variants).tolist())
    exits = [i for i, each in enumerate(program.instructions) if each.opcode == "EXIT" and not each.predicate]
    assert max(found.path.executed[i] for i in exits) == pytest.approx(1, abs=0.01)


def test_a_prediction_for_another_gpu_has_no_measured_time():
    profile = read_profile(RECORDINGS / "h200" / "reduction.json")
    assert explain_profile(profile, [load(Path("docs/results/h100.json"))]).point.measured is None


@pytest.mark.parametrize("gpu", ["h200", "h100"])
def test_warps_that_are_traced_do_not_come_last(gpu):
    """In `bvh_refit` the warp that comes last at a node goes on: traced ones go on as often as all."""
    profile = read_profile(RECORDINGS / gpu / "bvh_refit.json")
    launched = [count[2] / (profile.launch.blocks * profile.launch.warps_per_block) for count in profile.counts]
    visits = [np.bincount(warp.trace().visited, minlength=len(launched)) for warp in profile.warps]
    assert np.mean(visits, axis=0) == pytest.approx(launched, rel=0.05)
