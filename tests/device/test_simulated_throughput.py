"""Mixes, streams and launches of simulated GPUs: the content of traces, rates, and unsupported workloads."""

from dataclasses import replace

import numpy as np
import pytest

from gpudissect.catalogue import load, names
from gpudissect.device.kinds import open_device
from gpudissect.device.simulated import Noise, SimulatedGpu
from gpudissect.errors import DeviceError, OutOfMemory
from gpudissect.trace import TOTALS
from gpudissect.views.traces import RunTrace
from gpudissect.workload import MOVES, Access, Instruction, Launch, LaunchMethod, Mix, Path, Step, Stream, Transfer
from gpudissect.workload.stream import MAX_TIMED_BLOCKS, READ_PATHS

ADDS = Mix(body=(Step(Instruction.FADD, 16),), warps=8, block_size=128, iterations=32)
LOAD = Mix(body=(Step(Instruction.LDG),), warps=1, block_size=32, iterations=64, sms=1)
COPY = Stream(path=Path.GLOBAL_L2, transfer=Transfer.COPY, footprint=64 << 20, blocks=64, threads=256, ilp=4, runs=3)
READ = Stream(path=Path.GLOBAL, transfer=Transfer.READ, footprint=16 * 16384, blocks=16, threads=512, ilp=4)
LAUNCH = Launch(method=LaunchMethod.STREAM, runs=5)


def run(workload, gpu="gtx980", options="noise=none"):
    with open_device(f"sim:{gpu}?{options}") as device:
        return device.run([workload])[0]


def bandwidth(stream, gpu="gtx980"):
    trace = run(stream, gpu)
    return float((trace.bytes / trace.nanoseconds).mean())  # GB/s


def lifetimes(mix, gpu="gtx980"):
    """Cycles of each warp per iteration."""
    trace = run(mix, gpu)
    return (trace.end - trace.begin) / mix.iterations


def test_a_mix_has_every_warp_of_every_sm():
    trace = run(ADDS)
    assert trace.begin.shape == trace.end.shape == trace.sm.shape == trace.block.shape == (8 * 16,)
    assert np.bincount(trace.sm).tolist() == [8] * 16
    assert np.bincount(trace.block).tolist() == [4] * 32
    assert set(trace.sm[trace.block == 5].tolist()) == {5}
    cycles = 32 * 16 * 6 + np.array([0] * 4 + [1] * 4)  # the second warp of each scheduler follows the first
    assert ((trace.end - trace.begin).reshape(16, 8) == cycles).all()
    assert trace.nanoseconds.tolist() == [round(cycles.max() / 1.279)]


def test_blocks_of_later_waves_start_when_others_have_ended():
    trace = run(replace(ADDS, waves=3, sms=1))
    assert trace.block.tolist() == np.repeat(np.arange(6), 4).tolist()
    ends = [int(trace.end[trace.block == block].max()) for block in range(6)]
    begins = [int(trace.begin[trace.block == block].min()) for block in range(6)]
    assert begins[2] - min(ends[:2]) == 200


def test_a_mix_per_sm_has_sums_and_is_shown_by_sm():
    """A mean over warps of 3072 and 3073 cycles and 512 instructions, four of each."""
    mix = replace(ADDS, per_sm=True)
    trace = run(mix)
    assert (
        trace.arrays["warps"].tolist() == [8] * 16 and trace.arrays["duration"].tolist() == [4 * 3072 + 4 * 3073] * 16
    )
    with open_device("sim:gtx980?noise=none") as device:
        shown = RunTrace.of(mix, trace, device.info)
        raw = RunTrace.of(ADDS, run(ADDS), device.info)
    assert list(shown.columns()) == list(TOTALS) and shown.to_series().columns["span"] == (3073,) * 16
    assert "6.00 cycles per instruction of a warp" in shown.summary() and shown.summary() == raw.summary()


def test_noise_of_a_mix_is_small_and_reproducible():
    quiet, one, same, other = (run(ADDS, options=text) for text in ("noise=none", "seed=1", "seed=1", "seed=2"))
    assert np.array_equal(one.end, same.end)
    assert not np.array_equal(one.end - one.begin, other.end - other.begin)
    difference = (one.end - one.begin) - (quiet.end - quiet.begin)
    assert 0 < np.abs(difference).max() <= 4


def test_a_mix_may_be_very_long():
    assert lifetimes(replace(ADDS, iterations=1 << 24)).mean() == pytest.approx(16 * 6, rel=1e-3)


@pytest.mark.parametrize(
    ("workload", "error", "message"),
    [
        (replace(ADDS, body=(Step(Instruction.MMA_F16),)), DeviceError, "runs no 'mma_f16'"),
        (replace(ADDS, body=(Step(Instruction.FADD, 1 << 24),), iterations=32), DeviceError, "shorten the body"),
        (replace(ADDS, warps=128), DeviceError, "64 warps in 32 blocks of at most 1024 threads, not 128 in 32 of 128"),
        (replace(ADDS, warps=33, block_size=32), DeviceError, "not 33 in 33 of 32"),
        (replace(ADDS, sms=17), DeviceError, "has 16 SMs: a mix cannot run on 17"),
        (replace(ADDS, iterations=1 << 20, waves=2), DeviceError, "in several waves are simulated up to"),
        (replace(COPY, footprint=3 << 30), OutOfMemory, "path 'global_l2' has 4294967296 bytes, got 6442450944"),
        (replace(COPY, path=Path.SHARED, footprint=32 << 10), DeviceError, "needs 64 KiB of shared memory"),
        (replace(COPY, path=Path.CONSTANT, transfer=Transfer.READ), DeviceError, "streams on no path 'constant'"),
        (replace(LAUNCH, method=LaunchMethod.GRAPH), DeviceError, "launches no graphs"),
    ],
)
def test_unsupported_workloads_are_refused(workload, error, message):
    with pytest.raises(error, match=message):
        run(workload)


def test_conflicts_cost_latency():
    """MC14 s4.1: 50 cycles, 88 with 2 ways (87.4 here), 1210 with 32."""
    load = replace(LOAD, body=(Step(Instruction.LDS),))
    assert [round(lifetimes(replace(load, stride=stride), "gtx560ti")[0]) for stride in (1, 2, 32)] == [50, 88, 1210]


def test_loads_are_served_where_their_footprint_fits():
    streaming = [replace(LOAD, access=Access.STREAMING, footprint=size) for size in (1 << 20, 1 << 28)]
    latencies = [lifetimes(mix)[0] for mix in (LOAD, *streaming)]
    assert latencies == [pytest.approx(82), pytest.approx(236, abs=2), pytest.approx(368, abs=20)]


def test_a_stride_needs_more_transactions():
    """VV16 s6.7, 7.8: twice as many, each at its cost; and half of the bytes are used."""
    load = replace(LOAD, iterations=256, access=Access.STREAMING, footprint=1 << 28)
    assert lifetimes(replace(load, stride=2))[0] - lifetimes(load)[0] == pytest.approx(4 * 5.93, abs=12)
    full = replace(load, sms=None, warps=64, block_size=128, iterations=512)
    assert lifetimes(replace(full, stride=2)).mean() == pytest.approx(2 * lifetimes(full).mean(), rel=0.05)


def test_single_loads_agree_with_the_mean_of_all():
    """VV16 s6.6: medians of single latencies are near the means of warps."""
    body = (Step(Instruction.LDG), Step(Instruction.FADD, 2))
    mix = replace(LOAD, body=body, warps=32, block_size=128, iterations=16000, sms=None)
    trace = run(replace(mix, access=Access.STREAMING, footprint=1 << 28, sampled=4))
    assert trace.count.sum() == pytest.approx(4000, rel=0.1) and (np.diff(trace.latency) > 0).all()
    mean = float(np.average(trace.latency, weights=trace.count))
    assert mean + 2 * 6 == pytest.approx(float((trace.end - trace.begin).mean()) / 16000, rel=0.03)


def test_bandwidth_rises_with_accesses_in_flight_and_saturates():
    """MC16 fig 12: throughput rises with blocks, threads and accesses in flight, up to the value of table 6."""
    small = replace(COPY, blocks=16, threads=64, ilp=1)
    rising = [bandwidth(replace(small, blocks=16 * factor)) for factor in (1, 2, 4, 8)]
    assert rising == sorted(rising)
    assert rising[1] == pytest.approx(2 * rising[0], rel=0.1)
    assert bandwidth(replace(small, ilp=4)) > 2.5 * rising[0]
    assert bandwidth(COPY) == pytest.approx(156.25, rel=0.02)


@pytest.mark.parametrize(("gpu", "published"), [("gtx560ti", 109.38), ("gtx780", 215.92), ("gtx980", 156.25)])
def test_copies_of_mc16_table_6(gpu, published):
    blocks = 2 * open_device(f"sim:{gpu}").info.sm_count
    best = max(bandwidth(replace(COPY, blocks=blocks, threads=threads), gpu) for threads in (256, 512))
    assert best == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize(
    ("gpu", "threads", "blocks", "ilp", "barrier", "published"),
    [("gtx560ti", 512, 1, 4, 78, 34.90), ("gtx780", 1024, 1, 6, 37, 83.81), ("gtx980", 256, 2, 8, 36, 137.41)],
)
def test_short_copies_in_shared_memory(gpu, threads, blocks, ilp, barrier, published):
    """MC16 table 7 times copies of a few words per thread, including a barrier and the clock.

    The structure reproduces them within 5 % if stores take twice as long as loads on Fermi and Kepler. See
    validation/copies_shared.py for all shapes.
    """
    info = open_device(f"sim:{gpu}").info
    shape = {"footprint": threads * ilp * 4, "blocks": blocks * info.sm_count, "threads": threads, "ilp": ilp}
    stream = Stream(path=Path.SHARED, transfer=Transfer.COPY, **shape)
    cycles = run(stream, gpu).cycles.max() + barrier
    clock = float(info.facts["clock_hz"])
    assert stream.moved / info.sm_count / cycles * clock / 1e9 == pytest.approx(published, rel=0.05)


@pytest.mark.parametrize("transfer", MOVES)
def test_many_short_blocks_do_not_exceed_the_bandwidth_of_memory(transfer):
    """A queue is not emptied when a block ends."""
    few = replace(COPY, transfer=transfer, blocks=32, threads=512, width=16, runs=1)
    assert 0.8 * bandwidth(few) < bandwidth(replace(few, blocks=1024)) <= 1.01 * bandwidth(few)


def test_waves_of_short_blocks_equal_passes():
    passes = replace(READ, path=Path.GLOBAL_L2, footprint=1 << 19, blocks=32, passes=64)
    waves = replace(passes, passes=1, waves=64, blocks=64 * 64)
    assert waves.moved == passes.moved
    assert 0.8 * bandwidth(passes) < bandwidth(waves) <= 1.01 * bandwidth(passes), "an SM waits for each block"


def test_traces_of_very_many_blocks_lack_their_cycles():
    small = replace(COPY, ilp=1, threads=128)
    few, many = (run(replace(small, blocks=count)) for count in (MAX_TIMED_BLOCKS, 2 * MAX_TIMED_BLOCKS))
    assert few.cycles.shape == (3, MAX_TIMED_BLOCKS)
    assert "cycles" not in many.arrays and many.bytes.tolist() == few.bytes.tolist()


def test_an_l1_is_empty_when_a_run_starts():
    many = bandwidth(replace(READ, passes=500))
    assert many == pytest.approx(64 * 16 * 1.279, rel=0.02)
    assert bandwidth(READ) < 0.6 * many
    assert bandwidth(replace(READ, path=Path.GLOBAL_L2, passes=500)) == pytest.approx(655, rel=0.02)


def test_an_l1_limits_the_stores_through_it():
    gpu = load("gtx980")
    processor = gpu.processor()
    slow = replace(processor, l1=replace(processor.l1, write=4.0))

    def rate(path, processor):
        stores = Stream(path=path, transfer=Transfer.WRITE, footprint=1 << 20, blocks=32, threads=256, ilp=4, width=16)
        device = SimulatedGpu(gpu.hierarchy(), spec="sim:x", name="x", noise=Noise.none(), processor=processor)
        return stores.moved / 16 / float(device.run([stores])[0].cycles.max())

    assert rate(Path.GLOBAL, slow) == pytest.approx(4.0, rel=0.02)
    bypassing = rate(Path.GLOBAL_L2, processor)
    assert rate(Path.GLOBAL_L2, slow) == bypassing > 10
    assert rate(Path.GLOBAL, processor) == pytest.approx(bypassing, rel=0.05)  # other random numbers


def test_facts_state_the_limits_of_an_sm_but_no_registers():
    facts = open_device("sim:gtx280").info.facts
    assert (facts["threads_per_block"], facts["blocks_per_sm"], facts["threads_per_sm"]) == (512, 8, 1024)
    assert "registers_per_sm" not in facts


def test_blocks_that_do_not_fit_wait():
    """An SM of the GTX 980 holds two blocks of 1024 threads: a third waits for both."""
    two, three = (run(replace(COPY, threads=1024, ilp=1, blocks=blocks)) for blocks in (32, 48))
    assert three.cycles.shape == (3, 48)
    assert np.unique(three.cycles[0]).size == 2
    assert two.bytes.tolist() == [2 * (64 << 20)] * 3


def test_kernels_cost_a_start_and_an_interval():
    assert run(LAUNCH).nanoseconds.tolist() == [6000] * 5
    assert run(replace(LAUNCH, kernels=11)).nanoseconds.tolist() == [36000] * 5
    assert run(replace(LAUNCH, method=LaunchMethod.GRAPH), "h100").nanoseconds.tolist() == [6000] * 5


@pytest.mark.parametrize("name", [name for name in names() if load(name).table.processor is not None])
def test_every_gpu_runs_what_its_info_states(name):
    with open_device(f"sim:{name}") as device:
        info = device.info
        workloads = [replace(LOAD, body=(Step(item),), warps=4, block_size=64) for item in info.instructions]
        small = Stream(path=Path.GLOBAL, transfer=Transfer.READ, footprint=8192, blocks=info.sm_count, threads=64)
        transfers = [
            (path, each) for path in info.streams for each in MOVES if path not in READ_PATHS or each is Transfer.READ
        ]
        workloads += [replace(small, path=path, transfer=transfer) for path, transfer in transfers]
        workloads += [Launch(method=method, runs=2) for method in info.launch_methods]
        traces = device.run(workloads)
    assert len(info.instructions) >= 18
    assert {Path.GLOBAL, Path.SHARED} <= set(info.streams)
    assert all(trace.nanoseconds.min() > 0 for trace in traces)


def test_a_gpu_file_without_a_processor_supports_chases_only():
    info = open_device("sim:p6000").info
    assert (info.streams, info.instructions, info.launch_methods) == ((), (), ())
