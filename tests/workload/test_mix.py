"""Mixes, launches and the words for instructions: what can be run, and nothing else."""

import pytest

from gpudissect.errors import WorkloadError
from gpudissect.vocabulary import INSTRUCTIONS
from gpudissect.workload import Access, Instruction, Launch, LaunchMethod, Mix, Step

ADDS = {"body": (Step(Instruction.FADD, 4),), "warps": 8, "block_size": 64, "iterations": 10}


def test_the_vocabulary_has_every_instruction():
    assert tuple(each.value for each in Instruction) == INSTRUCTIONS


def test_how_many_instructions_a_warp_runs():
    assert Mix(**{**ADDS, "ilp": 3}).instructions == 4 * 10 * 3
    assert Mix(**{**ADDS, "body": (Step(Instruction.LDG, 2), Step(Instruction.FADD)), "ilp": 3}).loads == 2 * 10 * 3


@pytest.mark.parametrize("wrong", [
    {"body": ()}, {"warps": 0}, {"warps": 3}, {"block_size": 48}, {"block_size": 0}, {"block_size": 2048},
    {"iterations": 0}, {"ilp": 0}, {"sms": 0}, {"waves": 0}, {"stride": -1}, {"width": 5}, {"stride": 1, "width": 8},
    {"footprint": 1024}, {"cold": True}, {"access": Access.STREAMING}, {"access": Access.RANDOM, "footprint": -4},
    {"access": Access.STREAMING, "footprint": 1024, "stride": 0}, {"sampled": 8}, {"sampled": -1},
    {"access": Access.STREAMING, "footprint": 1024, "sampled": 2000},
    {"access": Access.STREAMING, "footprint": 1024, "sampled": 8, "ilp": 2},
    {"access": Access.STREAMING, "footprint": 1024, "sampled": 8, "waves": 2},
])  # fmt: skip
def test_a_mix_that_no_gpu_can_run(wrong):
    with pytest.raises(WorkloadError):
        Mix(**{**ADDS, **wrong})


def test_a_step_runs_at_least_once():
    with pytest.raises(WorkloadError):
        Step(Instruction.FADD, 0)


@pytest.mark.parametrize("wrong", [{"kernels": 0}, {"runs": 0}, {"kernels": 1 << 20}])
def test_a_launch_that_makes_no_sense(wrong):
    with pytest.raises(WorkloadError):
        Launch(method=LaunchMethod.STREAM, **wrong)
