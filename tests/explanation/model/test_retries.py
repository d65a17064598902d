"""Loops around atomics that shared memory does not support."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.explanation.model.assess import assess
from gpudissect.explanation.model.card import card_of
from gpudissect.explanation.model.facts import facts_of
from gpudissect.explanation.model.requests import Requests
from gpudissect.explanation.model.retries import (
    Contention,
    contention_of,
    mean_attempts,
    mean_passes,
    retried_atomics,
    with_one_attempt,
)
from gpudissect.explanation.profile import read_profile
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.explanation.user_code import assemble
from gpudissect.machine_code.program import read_program
from gpudissect.results.files import load
from tests.support.ptx import ptx_of

ALL = np.ones((4, 32), dtype=np.bool_)
WARPS = np.arange(4)


def contention(words):
    return contention_of(np.asarray(words, dtype=np.uint64) * np.uint64(8), ALL, 8, WARPS)


def test_lanes_of_one_word_take_turns():
    same = contention(np.arange(32) % 4 + 32 * np.arange(4)[:, None])
    assert (same.lanes, same.same, same.others) == (32, 8, 0)
    assert mean_attempts(same, 16) == 8


def test_warps_with_the_same_words_take_turns():
    shared = contention(np.tile(np.arange(32), (4, 1)))
    assert (shared.same, shared.others) == (1, 1)
    assert 1 < mean_attempts(shared, 2) < mean_attempts(shared, 8) < mean_attempts(shared, 32) < 64
    assert mean_attempts(shared, 1) == 1


@given(st.floats(1, 32), st.floats(1, 32), st.floats(0, 4), st.integers(1, 32))
def test_more_contention_never_takes_fewer_attempts(lanes, same, others, warps):
    found = mean_attempts(Contention(lanes, same, others), warps)
    assert np.isfinite(found) and found >= same
    assert mean_attempts(Contention(lanes, same, others + 0.1), warps) >= found - 1e-9


def test_later_attempts_have_fewer_conflicts():
    assert mean_passes(Requests(32, 6.0, 0), 1.0).passes == 6
    assert 1 < mean_passes(Requests(32, 6.0, 0), 4.0).passes < 6


def test_the_loop_of_a_recorded_kernel_iterates_as_often_as_its_words_say():
    profile = read_profile(Path("tests/recordings/kernels/h200/group_by.json"))
    program, card = read_program(*profile.machine_code()), card_of(load(Path("docs/results/h200.json")))
    found = assess(program, parse_ptx(profile.ptx()), facts_of(profile, card), card)
    atomic = next(i for i, each in enumerate(program.instructions) if "CAST" in each.modifiers)
    others = next(i for i, each in enumerate(program.instructions) if "POPC" in each.modifiers)
    assert found.attempts[atomic] == pytest.approx(3.1, abs=0.2)
    assert found.path.executed[atomic] == pytest.approx(found.attempts[atomic] * found.path.executed[others], rel=0.01)


def test_a_thousand_lanes_on_one_word_take_a_thousand_attempts():
    found = [mean_attempts(Contention(32.0, 32.0, 32.0), warps) for warps in (8, 22, 24, 32)]
    assert found == sorted(found) and found[-1] == pytest.approx(1024, rel=0.1)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("unsigned long long", "64-bit atomics"),
        ("float", "floating-point atomics"),
        ("double", "64-bit floating-point atomics"),
        ("int", None),
    ],
)
def test_the_atomics_that_the_compiler_replaces_have_a_name(kind, name):
    source = f"""extern "C" __global__ void k({kind}* out, const {kind}* in) {{
        __shared__ {kind} sums[64];
        atomicAdd(&sums[(int)in[threadIdx.x] & 63], in[threadIdx.x]);
        __syncthreads();
        out[threadIdx.x] = sums[threadIdx.x];
    }}"""
    cubin = assemble(ptx_of(source, "compute_90"), "sm_90")
    found = retried_atomics(read_program(cubin, cubin.kernels[0]))
    assert list(found.values()) == ([name] if name else [])


def test_one_attempt_executes_the_loop_as_often_as_what_is_around_it():
    profile = read_profile(Path("tests/recordings/kernels/h100/group_by.json"))
    program, card = read_program(*profile.machine_code()), card_of(load(Path("docs/results/h200.json")))
    found = assess(program, parse_ptx(profile.ptx()), facts_of(profile, card), card)
    once = with_one_attempt(program, found.counts, found.attempts)
    of_place = {
        place: number for number, block in enumerate(program.flow.blocks) for place in range(block.start, block.end)
    }
    loop = next(of_place[i] for i, each in enumerate(program.instructions) if "CAST" in each.modifiers)
    around = next(of_place[i] for i, each in enumerate(program.instructions) if "POPC" in each.modifiers)
    assert once.warps[loop].value == pytest.approx(once.warps[around].value, rel=0.01)
    assert once.warps[around] == found.counts.warps[around]
