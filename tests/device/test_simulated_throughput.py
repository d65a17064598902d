"""Mixes, streams and launches of simulated GPUs: what the traces hold, what is refused, what decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpudissect.catalogue import load, names
from gpudissect.device.base import Device
from gpudissect.device.find import open_device
from gpudissect.device.simulated import Noise, SimulatedGpu
from gpudissect.errors import DeviceError, OutOfMemory
from gpudissect.trace import Trace
from gpudissect.workload import Access, Instruction, Launch, LaunchMethod, Mix, Path, Step, Stream, Transfer
from gpudissect.workload.stream import MAX_TIMED_BLOCKS

ADDS = Mix(body=(Step(Instruction.FADD, 16),), warps=8, block_size=128, iterations=32)
COPY = Stream(path=Path.GLOBAL_L2, transfer=Transfer.COPY, footprint=64 << 20, blocks=64, threads=256, ilp=4, runs=3)
DESCRIBED = [name for name in names() if load(name).table.processor is not None]


def run(workload: Mix | Stream | Launch, gpu: str = "gtx980", options: str = "noise=none") -> Trace:
    with open_device(f"sim:{gpu}?{options}") as device:
        return device.run([workload])[0]


def bandwidth(stream: Stream, gpu: str = "gtx980") -> float:
    trace = run(stream, gpu)
    return float((trace.bytes / trace.nanoseconds).mean())  # GB/s


@pytest.fixture
def gtx980() -> Device:
    return open_device("sim:gtx980")


def test_a_mix_has_every_warp_of_every_sm() -> None:
    trace = run(ADDS)
    assert trace.begin.shape == trace.end.shape == trace.sm.shape == trace.block.shape == (8 * 16,)
    assert np.bincount(trace.sm).tolist() == [8] * 16
    assert np.bincount(trace.block).tolist() == [4] * 32
    assert set(trace.sm[trace.block == 5].tolist()) == {5}
    took = 32 * 16 * 6 + np.array([0] * 4 + [1] * 4)  # the second warp of each scheduler comes second
    assert ((trace.end - trace.begin).reshape(16, 8) == took).all()
    assert trace.nanoseconds.tolist() == [round(took.max() / 1.279)]


def test_rounds_bring_blocks_that_start_when_others_ended() -> None:
    trace = run(replace(ADDS, waves=3, sms=1))
    assert trace.block.tolist() == np.repeat(np.arange(6), 4).tolist()
    ends = [int(trace.end[trace.block == block].max()) for block in range(6)]
    begins = [int(trace.begin[trace.block == block].min()) for block in range(6)]
    assert begins[2] - min(ends[:2]) == 200


def test_noise_moves_it_a_little_and_the_seed_decides() -> None:
    quiet, one, same, other = (
        run(ADDS, options=options) for options in ("noise=none", "seed=1", "seed=1", "seed=2")
    )  # fmt: skip
    assert np.array_equal(one.end, same.end)
    assert not np.array_equal(one.end - one.begin, other.end - other.begin)
    difference = (one.end - one.begin) - (quiet.end - quiet.begin)
    assert 0 < np.abs(difference).max() <= 4


def test_a_mix_may_be_very_long(gtx980: Device) -> None:
    (trace,) = gtx980.run([replace(ADDS, iterations=1 << 24)])
    assert (trace.end - trace.begin).mean() == pytest.approx((1 << 24) * 16 * 6, rel=1e-3)


@pytest.mark.parametrize(
    ("mix", "words"),
    [
        (replace(ADDS, body=(Step(Instruction.MMA_F16),)), "runs no 'mma_f16'"),
        (replace(ADDS, body=(Step(Instruction.FADD, 1 << 24),), iterations=32), "shorten the body"),
        (replace(ADDS, warps=128), "holds 64 warps in 32 blocks of at most 1024 threads, not 128 in 32 of 128"),
        (replace(ADDS, warps=33, block_size=32), "not 33 in 33 of 32"),
        (replace(ADDS, sms=17), "has 16 SMs: a mix cannot run on 17"),
        (replace(ADDS, iterations=1 << 20, waves=2), "in several waves are simulated up to"),
    ],
)
def test_what_the_gpu_cannot_run_is_refused(gtx980: Device, mix: Mix, words: str) -> None:
    with pytest.raises(DeviceError, match=words):
        gtx980.run([mix])


def test_conflicts_cost_latency() -> None:
    """MC14 s4.1: 50 cycles, 88 with 2 ways (87.4 here), 1210 with 32."""
    load = Mix(body=(Step(Instruction.LDS),), warps=1, block_size=32, iterations=64, sms=1)
    cycles = [run(replace(load, stride=stride), "gtx560ti") for stride in (1, 2, 32)]
    assert [round((trace.end - trace.begin)[0] / 64) for trace in cycles] == [50, 88, 1210]


def test_loads_come_from_where_they_fit() -> None:
    load = Mix(body=(Step(Instruction.LDG),), warps=1, block_size=32, iterations=64, sms=1)
    far = replace(load, access=Access.STREAMING, footprint=1 << 28)
    near = replace(load, access=Access.STREAMING, footprint=1 << 20)
    latency = [int((run(mix).end - run(mix).begin)[0]) / 64 for mix in (load, near, far)]
    assert latency == [pytest.approx(82), pytest.approx(236, abs=2), pytest.approx(368, abs=20)]


def test_a_stride_asks_for_more_transactions() -> None:
    """VV16 s6.7, 7.8: twice as many of them, each at its price; and half of what is read is wanted."""
    load = Mix(body=(Step(Instruction.LDG),), warps=1, block_size=32, iterations=256, sms=1,
               access=Access.STREAMING, footprint=1 << 28)  # fmt: skip
    one, two = (int((run(mix).end - run(mix).begin)[0]) / 256 for mix in (load, replace(load, stride=2)))
    assert two - one == pytest.approx(4 * 5.93, abs=12)
    full = replace(load, sms=None, warps=64, block_size=128, iterations=512)
    slow = [(run(mix).end - run(mix).begin).mean() for mix in (full, replace(full, stride=2))]
    assert slow[1] == pytest.approx(2 * slow[0], rel=0.05)


def test_single_loads_and_the_mean_of_all_agree() -> None:
    """VV16 s6.6: medians of single latencies are near the means of warps."""
    mix = Mix(body=(Step(Instruction.LDG), Step(Instruction.FADD, 2)), warps=32, block_size=128, iterations=16000,
              access=Access.STREAMING, footprint=1 << 28, sampled=4)  # fmt: skip
    trace = run(mix)
    assert trace.count.sum() == pytest.approx(4000, rel=0.1) and (np.diff(trace.latency) > 0).all()
    mean = float(np.average(trace.latency, weights=trace.count))
    assert mean + 2 * 6 == pytest.approx(float((trace.end - trace.begin).mean()) / 16000, rel=0.03)


def test_more_in_flight_moves_more_until_memory_is_busy() -> None:
    """MC16 fig 12: throughput rises with blocks, threads and accesses in flight, and saturates at table 6's value."""
    small = replace(COPY, blocks=16, threads=64, ilp=1)
    rising = [bandwidth(replace(small, blocks=16 * each)) for each in (1, 2, 4, 8)]
    assert rising == sorted(rising)
    assert rising[1] == pytest.approx(2 * rising[0], rel=0.1)
    assert bandwidth(replace(small, ilp=4)) > 2.5 * rising[0]
    assert bandwidth(COPY) == pytest.approx(156.25, rel=0.02)


@pytest.mark.parametrize(("gpu", "published"), [("gtx560ti", 109.38), ("gtx780", 215.92), ("gtx980", 156.25)])
def test_copies_of_mc16_table_6(gpu: str, published: float) -> None:
    device = open_device(f"sim:{gpu}")
    blocks = 2 * device.info.sm_count
    best = max(bandwidth(replace(COPY, blocks=blocks, threads=threads), gpu) for threads in (256, 512))
    assert best == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize(
    ("gpu", "threads", "blocks", "ilp", "barrier", "published"),
    [("gtx560ti", 512, 1, 4, 78, 34.90), ("gtx780", 1024, 1, 6, 37, 83.81), ("gtx980", 256, 2, 8, 36, 137.41)],
)
def test_short_copies_in_shared_memory(
    gpu: str, threads: int, blocks: int, ilp: int, barrier: int, published: float
) -> None:
    """MC16 table 7 times copies of a few words a thread, with what a barrier and the clock cost.

    The structure gives them within 5 %, if stores take twice as long as loads on Fermi and Kepler. See
    validation/copies_shared.py for all shapes.
    """
    with open_device(f"sim:{gpu}?noise=none") as device:
        sms, clock = device.info.sm_count, float(device.info.facts["clock_hz"])
        stream = Stream(path=Path.SHARED, transfer=Transfer.COPY, footprint=threads * ilp * 4, blocks=blocks * sms,
                        threads=threads, ilp=ilp)  # fmt: skip
        (trace,) = device.run([stream])
    found = stream.moved / sms / (trace.cycles.max() + barrier) * clock / 1e9
    assert found == pytest.approx(published, rel=0.05)


@pytest.mark.parametrize("transfer", list(Transfer))
def test_many_short_blocks_move_no_more_than_memory_can(transfer: Transfer) -> None:
    """A queue is not forgotten when a block ends: the next one finds it as it was."""
    stay = replace(COPY, transfer=transfer, blocks=32, threads=512, width=16, runs=1)
    many = replace(stay, blocks=1024)
    assert 0.8 * bandwidth(stay) < bandwidth(many) <= 1.01 * bandwidth(stay)


def test_laps_of_short_blocks_are_as_many_passes() -> None:
    stay = Stream(path=Path.GLOBAL_L2, transfer=Transfer.READ, footprint=1 << 19, blocks=32, threads=512, ilp=4,
                  width=4, passes=64)  # fmt: skip
    come = replace(stay, passes=1, waves=64, blocks=64 * 64)
    assert come.moved == stay.moved
    assert 0.8 * bandwidth(stay) < bandwidth(come) <= 1.01 * bandwidth(stay), "an SM waits for each block"


def test_of_very_many_blocks_no_trace_tells_each_ones_cycles() -> None:
    few, many = (
        replace(COPY, ilp=1, threads=128, blocks=blocks) for blocks in (MAX_TIMED_BLOCKS, 2 * MAX_TIMED_BLOCKS)
    )
    assert run(few).cycles.shape == (3, MAX_TIMED_BLOCKS)
    assert "cycles" not in run(many).arrays and run(many).bytes.tolist() == run(few).bytes.tolist()


def test_an_l1_is_empty_when_a_run_starts() -> None:
    small = Stream(path=Path.GLOBAL, transfer=Transfer.READ, footprint=16 * 16384, blocks=16, threads=512, ilp=4)
    once, often = bandwidth(small), bandwidth(replace(small, passes=500))
    assert often == pytest.approx(64 * 16 * 1.279, rel=0.02)
    assert once < 0.6 * often
    past = bandwidth(replace(small, path=Path.GLOBAL_L2, passes=500))
    assert past == pytest.approx(655, rel=0.02)


def test_stores_through_an_l1_wait_for_it() -> None:
    """What an L1 takes bounds what goes through it; past it nothing changes."""
    gpu = load("gtx980")
    whole = gpu.processor()
    assert whole is not None and whole.l1 is not None
    slow = replace(whole, l1=replace(whole.l1, write=4.0))
    rates = {}
    for path in (Path.GLOBAL, Path.GLOBAL_L2):
        stores = Stream(path=path, transfer=Transfer.WRITE, footprint=1 << 20, blocks=32, threads=256, ilp=4, width=16)
        for processor in (whole, slow):
            device = SimulatedGpu(gpu.hierarchy(), spec="sim:x", name="x", noise=Noise.none(), processor=processor)
            (trace,) = device.run([stores])
            rates[path, processor is slow] = stores.moved / 16 / float(trace.cycles.max())
    assert rates[Path.GLOBAL, True] == pytest.approx(4.0, rel=0.02)
    assert rates[Path.GLOBAL_L2, True] == rates[Path.GLOBAL_L2, False] > 10
    assert rates[Path.GLOBAL, False] == pytest.approx(rates[Path.GLOBAL_L2, False], rel=0.05)  # other random numbers


def test_what_an_sm_has_room_for_is_said() -> None:
    """Registers are no limit of a simulated SM, so it does not say how many there are."""
    with open_device("sim:gtx280") as device:
        facts = device.info.facts
    assert (facts["threads_per_block"], facts["blocks_per_sm"], facts["threads_per_sm"]) == (512, 8, 1024)
    assert "registers_per_sm" not in facts


def test_blocks_that_do_not_fit_wait() -> None:
    """An SM of the GTX 980 holds two blocks of 1024 threads: a third waits for both."""
    two, three = (run(replace(COPY, threads=1024, ilp=1, blocks=blocks)) for blocks in (32, 48))
    assert three.cycles.shape == (3, 48)
    assert np.unique(three.cycles[0]).size == 2
    assert two.bytes.tolist() == [2 * (64 << 20)] * 3


@pytest.mark.parametrize(
    ("stream", "error", "words"),
    [
        (replace(COPY, footprint=3 << 30), OutOfMemory, "path 'global_l2' has 4294967296 bytes, got 6442450944"),
        (replace(COPY, path=Path.SHARED, footprint=32 << 10), DeviceError, "needs 64 KiB of shared memory"),
        (replace(COPY, path=Path.CONSTANT, transfer=Transfer.READ), DeviceError, "streams on no path 'constant'"),
    ],
)
def test_streams_that_cannot_be(gtx980: Device, stream: Stream, error: type[DeviceError], words: str) -> None:
    with pytest.raises(error, match=words):
        gtx980.run([stream])


def test_kernels_cost_a_start_and_an_interval() -> None:
    launch = Launch(method=LaunchMethod.STREAM, runs=5)
    assert run(launch).nanoseconds.tolist() == [6000] * 5
    assert run(replace(launch, kernels=11)).nanoseconds.tolist() == [36000] * 5
    assert run(replace(launch, method=LaunchMethod.GRAPH), "h100").nanoseconds.tolist() == [6000] * 5
    with pytest.raises(DeviceError, match="launches no graphs"):
        run(replace(launch, method=LaunchMethod.GRAPH))


@pytest.mark.parametrize("name", DESCRIBED)
def test_every_gpu_runs_all_that_it_says_it_runs(name: str) -> None:
    with open_device(f"sim:{name}") as device:
        info = device.info
        mixes = [
            Mix(body=(Step(each),), warps=4, block_size=64, iterations=32, sms=1) for each in info.instructions
        ]  # fmt: skip
        streams = [
            Stream(path=path, transfer=transfer, footprint=8192, blocks=info.sm_count, threads=64, ilp=2)
            for path in info.streams
            for transfer in Transfer
        ]
        launches = [Launch(method=method, runs=2) for method in info.launch_methods]
        traces = device.run([*mixes, *streams, *launches])
    assert len(info.instructions) >= 18
    assert {Path.GLOBAL, Path.SHARED} <= set(info.streams)
    assert all(trace.nanoseconds.min() > 0 for trace in traces)


def test_a_gpu_whose_file_has_no_processor_says_so() -> None:
    info = open_device("sim:p6000").info
    assert (info.streams, info.instructions, info.launch_methods) == ((), (), ())
