"""On a real GPU: mixes run where they should and take plausible times; empty kernels start."""

from dataclasses import replace

import numpy as np
import pytest

from gpudissect.errors import DeviceError
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Access, Clock, Instruction, Launch, LaunchMethod, Path, Sequential, Step
from tests.support.workloads import LAP, chase, mix

pytestmark = pytest.mark.gpu
ONE_WARP = {"warps": 1, "block_size": 32, "iterations": 2048, "sms": 1}
SIMPLE = [Instruction.FADD, Instruction.FFMA, Instruction.IADD, Instruction.LOP]


def cycles(trace):
    return int(trace.end.max() - trace.begin.min())


def latency(gpu, instruction, **fields):
    """Cycles from one instruction of a chain to the next: the difference that twice as many make."""
    short = mix(instruction, **ONE_WARP | fields)
    short, long = gpu.run([short, replace(short, iterations=4096)])
    return (cycles(long) - cycles(short)) / 2048


def test_every_supported_instruction_runs(gpu):
    sms = gpu.info.sm_count
    fields = {"block_size": 64, "iterations": 300, "ilp": 2, "stride": 2}
    batch = [mix(step, width=8 if step is Instruction.LDG else 4, **fields) for step in gpu.info.instructions]
    for wanted, trace in zip(batch, gpu.run(batch), strict=True):
        assert trace.begin.shape == (sms * 4,), wanted
        assert np.unique(trace.sm).size == sms and np.unique(trace.block).size == sms * 2
        latencies = (trace.end - trace.begin) / wanted.instructions
        assert (latencies > 0.2).all() and (latencies < 10_000).all(), wanted
        assert trace.nanoseconds[0] > 0 and 1e8 < (trace.context.clock_hz or 0) < 5e9


@pytest.mark.parametrize("instruction", SIMPLE, ids=str)
def test_simple_arithmetic_takes_a_few_cycles(gpu, instruction):
    found = latency(gpu, instruction)
    assert 3.9 < found < 6.2 and abs(found - round(found)) < 0.1


def test_independent_chains_overlap(gpu):
    assert latency(gpu, Instruction.FFMA, ilp=4) < 1.6 * latency(gpu, Instruction.FFMA)


def test_an_sm_reaches_its_peak_rate(gpu):
    (trace,) = gpu.run([mix(Instruction.FFMA, warps=32, block_size=1024, iterations=4096, ilp=2, sms=1)])
    rate = 32 * 32 * 4096 * 2 / cycles(trace)
    assert 55 < rate < 129, "64 or 128 a cycle"
    assert rate > 0.95 * (128 if rate > 64.5 else 64)


def test_loads_take_as_long_as_in_a_chase(gpu):
    order = Sequential(64, 8)
    traces = gpu.run([chase(path, order, LAP, warmup=2, laps=9) for path in (Path.SHARED, Path.GLOBAL)])
    shared, nearest = (float(np.median(trace.cycles)) / 64 for trace in traces)
    assert abs(latency(gpu, Instruction.LDS, stride=0) - shared) < 2
    assert abs(latency(gpu, Instruction.LDG, stride=0, width=8) - nearest) < 3


def test_bank_conflicts_cost_by_their_passes(gpu):
    found = [latency(gpu, Instruction.LDS, stride=stride) for stride in (1, 2, 4, 8, 16, 32, 33)]
    passes = np.array([1, 2, 4, 8, 16, 32, 1])
    assert np.corrcoef(found, passes)[0, 1] > 0.999 and abs(found[0] - found[-1]) < 0.1


@pytest.mark.parametrize("access", [Access.STREAMING, Access.RANDOM])
def test_streams_and_random_accesses_miss(gpu, access):
    resident = mix(Instruction.LDG, **ONE_WARP | {"iterations": 64}, width=8, stride=2)
    missing = replace(resident, access=access, footprint=4 * gpu.info.facts["l2_size"])
    hit = latency(gpu, Instruction.LDG, width=8, stride=2)
    assert cycles(gpu.run([missing])[0]) / 64 > 4 * hit


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("access", Access)
def test_additions_between_loads_do_not_change_the_address(gpu, access, width):
    """The device itself reports a broken chain."""
    footprint = 0 if access is Access.RESIDENT else 256 << 20
    body = (Step(Instruction.LDG), Step(Instruction.FADD, 3), Step(Instruction.RSQ, 2))
    fields = {"access": access, "footprint": footprint, "width": width, "stride": 2}
    gpu.run([mix(*body, warps=8, iterations=100, ilp=2, waves=2, **fields)])


def test_single_loads_take_as_long_as_all_of_them(gpu):
    fields = {"access": Access.STREAMING, "footprint": 1 << 30, "width": 8, "stride": 2}
    (trace,) = gpu.run([mix(Instruction.LDG, iterations=4096, sampled=8, **fields)])
    assert trace.count.sum() == 512 * gpu.info.sm_count and 0 < trace.overhead[0] < 100
    assert trace.overflow_count == 0
    mean = float(np.average(trace.latency, weights=trace.count)) - int(trace.overhead[0])
    assert mean == pytest.approx(float((trace.end - trace.begin).mean()) / 4096, rel=0.1)


@pytest.mark.parametrize("additions", [(), (Step(Instruction.FADD, 32),)])
@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("sampled", [0, 8])
def test_an_sm_can_be_filled_with_loads(gpu, additions, width, sampled):
    warps = gpu.info.facts["threads_per_sm"] // WARP_SIZE
    fields = {"access": Access.STREAMING, "footprint": 1 << 30, "width": width, "stride": width // 4}
    (trace,) = gpu.run([mix(Instruction.LDG, *additions, warps=warps, sampled=sampled, **fields)])
    assert trace.begin.size == warps * gpu.info.sm_count


def test_waves_of_blocks(gpu):
    (trace,) = gpu.run([mix(Instruction.FFMA, warps=8, iterations=4096, sms=2, waves=4)])
    assert trace.block.size == 2 * 8 * 4 and set(trace.sm.tolist()) == {0, 1}
    for sm in (0, 1):
        on_sm = trace.sm == sm
        events = np.sort(np.concatenate([trace.begin[on_sm] * 2 + 1, trace.end[on_sm] * 2]))
        assert np.cumsum(np.where(events % 2, 1, -1)).max() <= 8, "never more than the mix has"


def test_unsupported_mixes_leave_the_device_usable(gpu):
    with pytest.raises(DeviceError, match="at once"):
        gpu.run([mix(Instruction.FADD, warps=128, block_size=1024, iterations=8)])
    with pytest.raises(DeviceError, match="SMs"):
        gpu.run([mix(Instruction.FADD, **ONE_WARP | {"sms": 10_000})])
    assert latency(gpu, Instruction.FADD) > 0


def test_a_cold_mix_finds_nothing_in_the_l2(gpu):
    """The lines fit into the L2: run again they hit, unless it is swept in between."""
    fields = {"iterations": 1, "access": Access.STREAMING, "footprint": 1 << 20}
    warm = mix(Step(Instruction.LDG, 128), **ONE_WARP | fields)
    mixes = [replace(warm, cold=cold, repetition=repetition) for cold in (False, True) for repetition in range(3)]
    latencies = [cycles(trace) / 128 for trace in gpu.run(mixes)]
    assert min(latencies[4:]) > max(latencies[1:3]) + 100, latencies


def test_atomics_of_several_sms_do_not_conflict(gpu):
    atomics = mix(Instruction.ATOMG, **ONE_WARP | {"sms": 16})
    (trace,) = gpu.run([atomics])
    latencies = (trace.end - trace.begin) / atomics.instructions
    assert np.unique(trace.sm).size == 16 and (latencies > 100).all() and (latencies < 2000).all()


@pytest.mark.parametrize("method", list(LaunchMethod))
def test_empty_kernels(gpu, method):
    assert gpu.info.launch_methods == tuple(LaunchMethod)
    one, many = gpu.run([Launch(method=method, kernels=kernels, runs=50) for kernels in (1, 65)])
    assert one.nanoseconds.shape == (50,) and (one.nanoseconds > 1000).all()
    interval = (np.median(many.nanoseconds) - np.median(one.nanoseconds)) / 64
    assert 100 < interval < 50_000


@pytest.mark.parametrize(("method", "spread"), [(LaunchMethod.STREAM, 1.5), (LaunchMethod.GRAPH, 1.05)])
def test_queued_kernels_follow_each_other_at_a_constant_interval(gpu, method, spread):
    """However long the host takes for a call."""
    few, many = gpu.run([Launch(method=method, kernels=n, runs=16, clock=Clock.GPU) for n in (1, 101)])
    intervals = (many.nanoseconds - few.nanoseconds) / 100
    assert intervals.min() > 100 and intervals.max() < spread * intervals.min()
