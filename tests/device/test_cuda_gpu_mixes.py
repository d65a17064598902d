"""On a real GPU: mixes run where and as they should and take times that can be; empty kernels start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gpudissect.device.cuda.gpu import CudaGpu
from gpudissect.errors import DeviceError
from gpudissect.trace import Trace
from gpudissect.units import WARP_SIZE
from gpudissect.workload import (
    Access,
    Chase,
    Clock,
    Instruction,
    Launch,
    LaunchMethod,
    Mix,
    Path,
    Sequential,
    Step,
    Timing,
)

pytestmark = pytest.mark.gpu
ONE_WARP: dict[str, Any] = {"warps": 1, "block_size": 32, "iterations": 2048, "sms": 1}


@pytest.fixture(scope="module")
def gpu() -> Iterator[CudaGpu]:
    with CudaGpu.open(0) as device:
        yield device


def cycles(trace: Trace) -> int:
    return int(trace.end.max() - trace.begin.min())


def latency(gpu: CudaGpu, instruction: Instruction, **fields: Any) -> float:
    """Cycles from one instruction of a chain to the next: the difference that twice as many make."""
    pair = [Mix(**ONE_WARP | {"body": (Step(instruction),), "iterations": times} | fields) for times in (2048, 4096)]
    short, long = gpu.run(pair)
    return (cycles(long) - cycles(short)) / 2048


def test_every_supported_instruction_runs(gpu: CudaGpu) -> None:
    fields: dict[str, Any] = {"warps": 4, "block_size": 64, "iterations": 300, "ilp": 2, "stride": 2}
    wide = {Instruction.LDG: 8}
    batch = [Mix(body=(Step(each),), width=wide.get(each, 4), **fields) for each in gpu.info.instructions]
    for mix, trace in zip(batch, gpu.run(batch), strict=True):
        assert trace.begin.shape == (gpu.info.sm_count * 4,), mix
        assert np.unique(trace.sm).size == gpu.info.sm_count and np.unique(trace.block).size == gpu.info.sm_count * 2
        per = (trace.end - trace.begin) / mix.instructions
        assert (per > 0.2).all() and (per < 10_000).all(), mix
        assert trace.nanoseconds[0] > 0 and 1e8 < (trace.context.clock_hz or 0) < 5e9


@pytest.mark.parametrize(
    "instruction", [Instruction.FADD, Instruction.FFMA, Instruction.IADD, Instruction.LOP], ids=str
)
def test_simple_arithmetic_takes_a_few_cycles(gpu: CudaGpu, instruction: Instruction) -> None:
    found = latency(gpu, instruction)
    assert 3.9 < found < 6.2 and abs(found - round(found)) < 0.1


def test_independent_chains_overlap(gpu: CudaGpu) -> None:
    one, four = latency(gpu, Instruction.FFMA), latency(gpu, Instruction.FFMA, ilp=4)
    assert four < 1.6 * one, "four take hardly longer than one"


def test_an_sm_reaches_its_peak_rate(gpu: CudaGpu) -> None:
    (trace,) = gpu.run([Mix(body=(Step(Instruction.FFMA),), warps=32, block_size=1024, iterations=4096, ilp=2, sms=1)])
    rate = 32 * 32 * 4096 * 2 / cycles(trace)
    assert 55 < rate < 129, "64 or 128 a cycle"
    assert rate > 0.95 * (128 if rate > 64.5 else 64)


def test_loads_take_as_long_as_in_a_chase(gpu: CudaGpu) -> None:
    chases = [
        Chase(path=path, order=Sequential(64, 8), timing=Timing.LAP, warmup=2, laps=9)
        for path in (Path.SHARED, Path.GLOBAL)
    ]
    shared, nearest = (float(np.median(trace.cycles)) / 64 for trace in gpu.run(chases))
    assert abs(latency(gpu, Instruction.LDS, stride=0) - shared) < 2
    assert abs(latency(gpu, Instruction.LDG, stride=0, width=8) - nearest) < 3


def test_bank_conflicts_cost_by_their_passes(gpu: CudaGpu) -> None:
    found = [latency(gpu, Instruction.LDS, stride=stride) for stride in (1, 2, 4, 8, 16, 32, 33)]
    passes = np.array([1, 2, 4, 8, 16, 32, 1])
    assert np.corrcoef(found, passes)[0, 1] > 0.999 and abs(found[0] - found[-1]) < 0.1


def test_streams_and_random_accesses_miss(gpu: CudaGpu) -> None:
    size = 4 * int(gpu.info.facts["l2_size"])
    fields: dict[str, Any] = {"iterations": 64, "width": 8, "stride": 2, "footprint": size}
    resident = latency(gpu, Instruction.LDG, width=8, stride=2)
    for access in (Access.STREAMING, Access.RANDOM):
        (trace,) = gpu.run([Mix(**ONE_WARP | fields | {"body": (Step(Instruction.LDG),), "access": access})])
        assert cycles(trace) / 64 > 4 * resident, access


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("access", Access)
def test_additions_between_loads_do_not_change_the_address(gpu: CudaGpu, access: Access, width: int) -> None:
    """The device itself reports a broken chain."""
    footprint = 0 if access is Access.RESIDENT else 256 << 20
    body = (Step(Instruction.LDG), Step(Instruction.FADD, 3), Step(Instruction.RSQ, 2))
    gpu.run(
        [
            Mix(
                body=body,
                warps=8,
                block_size=128,
                iterations=100,
                ilp=2,
                width=width,
                stride=2,
                access=access,
                footprint=footprint,
                waves=2,
            )
        ]
    )


def test_single_loads_take_as_long_as_all_of_them(gpu: CudaGpu) -> None:
    mix = Mix(
        body=(Step(Instruction.LDG),),
        warps=4,
        block_size=128,
        iterations=4096,
        access=Access.STREAMING,
        footprint=1 << 30,
        width=8,
        stride=2,
        sampled=8,
    )
    (trace,) = gpu.run([mix])
    assert trace.count.sum() == 512 * gpu.info.sm_count and 0 < trace.overhead[0] < 100
    assert trace.overflow_count == 0
    mean = float(np.average(trace.latency, weights=trace.count)) - int(trace.overhead[0])
    assert mean == pytest.approx(float((trace.end - trace.begin).mean()) / 4096, rel=0.1)


def test_an_sm_can_be_filled_with_loads(gpu: CudaGpu) -> None:
    warps = int(gpu.info.facts["threads_per_sm"]) // WARP_SIZE
    mixes = [
        Mix(
            body=(Step(Instruction.LDG), *more),
            warps=warps,
            block_size=128,
            iterations=64,
            width=width,
            stride=width // 4,
            access=Access.STREAMING,
            footprint=1 << 30,
            sampled=sampled,
        )
        for more in ((), (Step(Instruction.FADD, 32),))
        for width in (4, 8)
        for sampled in (0, 8)
    ]
    for trace in gpu.run(mixes):
        assert trace.begin.size == warps * gpu.info.sm_count


def test_waves_of_blocks(gpu: CudaGpu) -> None:
    (trace,) = gpu.run([Mix(body=(Step(Instruction.FFMA),), warps=8, block_size=128, iterations=4096, sms=2, waves=4)])
    assert trace.block.size == 2 * 8 * 4 and set(trace.sm.tolist()) == {0, 1}
    for sm in (0, 1):
        on_sm = trace.sm == sm
        events = np.sort(np.concatenate([trace.begin[on_sm] * 2 + 1, trace.end[on_sm] * 2]))
        assert np.cumsum(np.where(events % 2, 1, -1)).max() <= 8, "never more than the mix has"


def test_unsupported_mixes_leave_the_device_usable(gpu: CudaGpu) -> None:
    with pytest.raises(DeviceError, match="at once"):
        gpu.run([Mix(body=(Step(Instruction.FADD),), warps=128, block_size=1024, iterations=8)])
    with pytest.raises(DeviceError, match="SMs"):
        gpu.run([Mix(**ONE_WARP | {"body": (Step(Instruction.FADD),), "sms": 10_000})])
    assert latency(gpu, Instruction.FADD) > 0


@pytest.mark.parametrize("method", list(LaunchMethod))
def test_empty_kernels(gpu: CudaGpu, method: LaunchMethod) -> None:
    assert gpu.info.launch_methods == tuple(LaunchMethod)
    one, many = gpu.run([Launch(method=method, kernels=kernels, runs=50) for kernels in (1, 65)])
    assert one.nanoseconds.shape == (50,) and (one.nanoseconds > 1000).all()
    interval = (np.median(many.nanoseconds) - np.median(one.nanoseconds)) / 64
    assert 100 < interval < 50_000


@pytest.mark.parametrize("method", list(LaunchMethod))
def test_queued_kernels_follow_each_other_at_a_constant_interval(gpu: CudaGpu, method: LaunchMethod) -> None:
    """However long the host takes for a call."""
    few, many = gpu.run([Launch(method=method, kernels=n, runs=16, clock=Clock.GPU) for n in (1, 101)])
    intervals = (many.nanoseconds - few.nanoseconds) / 100
    spread = {LaunchMethod.STREAM: 1.5, LaunchMethod.GRAPH: 1.05}[method]
    assert intervals.min() > 100 and intervals.max() < spread * intervals.min()


def test_a_cold_mix_finds_nothing_in_the_l2(gpu: CudaGpu) -> None:
    """The lines fit into the L2: run again they hit, unless it is swept in between."""
    fields: dict[str, Any] = {"body": (Step(Instruction.LDG, 128),), "access": Access.STREAMING, "footprint": 1 << 20}
    mixes = [
        Mix(**ONE_WARP | fields | {"iterations": 1, "cold": cold, "repetition": repetition})
        for cold in (False, True)
        for repetition in range(3)
    ]
    latencies = [cycles(trace) / 128 for trace in gpu.run(mixes)]
    assert min(latencies[4:]) > max(latencies[1:3]) + 100, latencies


def test_atomics_of_several_sms_do_not_conflict(gpu: CudaGpu) -> None:
    mix = Mix(**ONE_WARP | {"body": (Step(Instruction.ATOMG),), "sms": 16})
    (trace,) = gpu.run([mix])
    latencies = (trace.end - trace.begin) / mix.instructions
    assert np.unique(trace.sm).size == 16 and (latencies > 100).all() and (latencies < 2000).all()
