"""The mixes of latency hiding, and which of them run again."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gpudissect.device.kinds import open_device
from gpudissect.measure.latency_hiding.infer_loops import Pace
from gpudissect.measure.latency_hiding.mixes import (
    FULL,
    STREAMING,
    block_sizes,
    body,
    mix_of,
    occupancies,
    possible_warps,
    run_at_full_clock,
)
from gpudissect.trace import Trace
from gpudissect.workload import Instruction, Mix


@pytest.mark.parametrize(
    ("alpha", "steps"),
    [
        (0.25, [(Instruction.LDG, 4), (Instruction.FADD, 1)]),
        (11.0, [(Instruction.LDG, 1), (Instruction.FADD, 11)]),
        (0.0, [(Instruction.LDG, 1)]),
        (math.inf, [(Instruction.FADD, 64)]),
    ],
)
def test_bodies(alpha: float, steps: list[tuple[Instruction, int]]) -> None:
    assert [(step.instruction, step.count) for step in body(STREAMING, alpha)] == steps


def test_blocks_and_occupancies_of_maxwell() -> None:
    with open_device("sim:gtx980") as device:
        info = device.info
    assert block_sizes(64, info) == [1024, 512, 256, 128] and block_sizes(37, info) == []
    assert possible_warps(info)[-1] == 64 and 31 in possible_warps(info) and 37 not in possible_warps(info)
    assert occupancies(FULL, info) == [1, *range(4, 65, 4)]
    mix = mix_of(STREAMING, 8.0, 32, info, Pace(), width=8, block=128)
    assert (mix.width, mix.stride, mix.warps, mix.block_size) == (8, 2, 32, 128) and mix.footprint > 2**25


def test_mixes_below_the_full_clock_run_again() -> None:
    with open_device("sim:gtx980") as device:
        mixes = [mix_of(STREAMING, 0.0, warps, device.info, Pace(), block=128) for warps in (4, 8)]
        traces = dict(zip(mixes, device.run(mixes), strict=True))

    def at(mix: Mix, hertz: float) -> Trace:
        trace = traces[replace(mix, repetition=0)]
        return replace(trace, context=replace(trace.context, clock_hz=hertz))

    plan = run_at_full_clock(mixes)
    batch = next(plan)
    repeated = plan.send([at(batch[0], 1e9), at(batch[1], 1.5e9)])
    assert [(mix.repetition, mix.warps) for mix in repeated] == [(1, 4)]
    with pytest.raises(StopIteration) as end:
        plan.send([at(repeated[0], 1.49e9)])
    final, (first, _) = end.value.value
    assert final == [repeated[0], mixes[1]] and first.context.clock_hz == 1.49e9
