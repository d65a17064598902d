"""Mixes and launches: what they amount to, and which are refused."""

import pytest

from gpudissect.errors import WorkloadError
from gpudissect.vocabulary import INSTRUCTIONS
from gpudissect.workload import Access, Instruction, Launch, LaunchMethod, Mix, Step

MIX = {"body": (Step(Instruction.FADD, 4),), "warps": 8, "block_size": 64, "iterations": 10}
STREAMING = {"access": Access.STREAMING, "footprint": 1024}


def test_the_vocabulary_has_every_instruction():
    assert tuple(item.value for item in Instruction) == INSTRUCTIONS


def test_instructions_and_loads_of_a_warp():
    assert Mix(**{**MIX, "ilp": 3}).instructions == 4 * 10 * 3
    assert Mix(**{**MIX, "body": (Step(Instruction.LDG, 2), Step(Instruction.FADD)), "ilp": 3}).loads == 2 * 10 * 3


@pytest.mark.parametrize(
    "changes",
    [
        {"body": ()},
        *({"warps": warps} for warps in (0, 3)),
        *({"block_size": size} for size in (48, 0, 2048)),
        *({name: 0} for name in ("iterations", "ilp", "sms", "waves")),
        *({"stride": -1}, {"width": 5}, {"stride": 1, "width": 8}, {"footprint": 1024}, {"cold": True}),
        *({"access": Access.STREAMING}, {"access": Access.RANDOM, "footprint": -4}, STREAMING | {"stride": 0}),
        *({"sampled": 8}, {"sampled": -1}, STREAMING | {"sampled": 2000}),
        *(STREAMING | {"sampled": 8, name: 2} for name in ("ilp", "waves")),
        *({"per_sm": True, "waves": 4096}, {"per_sm": True, "silent": True, "waves": 2}),
    ],
)
def test_impossible_mixes_are_refused(changes):
    with pytest.raises(WorkloadError):
        Mix(**{**MIX, **changes})


def test_a_step_runs_at_least_once():
    with pytest.raises(WorkloadError):
        Step(Instruction.FADD, 0)


@pytest.mark.parametrize("changes", [{"kernels": 0}, {"runs": 0}, {"kernels": 1 << 20}])
def test_impossible_launches_are_refused(changes):
    with pytest.raises(WorkloadError):
        Launch(method=LaunchMethod.STREAM, **changes)
