"""The host side of mixes, on a context that answers as the kernels would."""

from dataclasses import replace

import numpy as np
import pytest

from gpudissect.device.cuda.layout import GRID_BARRIER, MIX_REPORT, SAMPLES
from gpudissect.device.cuda.memory import MAX_ALIGNMENT, Arena
from gpudissect.device.cuda.mix.operands import check_places, reserve_normal
from gpudissect.device.cuda.mix.runner import MixRunner
from gpudissect.errors import DeviceError, KernelFailed, UnsupportedWorkload
from gpudissect.trace import totals_by_sm
from gpudissect.workload import Access, Instruction, Step
from gpudissect.workload.digest import digest
from tests.support.fake_context import SMS, FakeContext, parts, run_tasks
from tests.support.workloads import mix

ADDS = mix(Instruction.FADD, warps=8)
LOADS = mix(Instruction.LDG, warps=8, access=Access.STREAMING, footprint=1 << 20)
ARGUMENTS = ["reports", "barrier", "loops", "zero", "one", "resident", "sms", "awaited", "last", "memory", "stride"]
ARGUMENTS += ["count", "half", "blocks", "samples", "offset"]


class MixContext(FakeContext):
    """SMs take blocks in rotation; those of later waves go to the SMs that count. Warp w begins at 1000 + w."""

    def __init__(self):
        super().__init__()
        self.mixes = []
        self.tamper_reports = lambda reports: None

    def launch(self, kernel, grid, block, shared, *arguments, cluster=1):
        if kernel.name == "measure_clock":
            barrier = self.view(arguments[0], GRID_BARRIER, 1)
            barrier["cycles"], barrier["ns"] = 2 * arguments[1], arguments[1]
        elif kernel.name == "mix":
            mix = dict(zip(ARGUMENTS, arguments, strict=True)) | {"grid": grid[0], "shared": shared}
            self.mixes.append(mix)
            self._run(mix, block // 32)
        else:
            self.launches.append(kernel.name)

    def _run(self, mix, warps):
        numbers = np.arange(mix["grid"] * warps)
        reports = self.view(mix["reports"], MIX_REPORT, numbers.size)
        blocks, sms = numbers // warps, min(mix["sms"], SMS)
        first_wave = blocks < mix["resident"]
        sm = np.where(first_wave, blocks % SMS, blocks % sms)
        ran = sm < sms
        reports["begin"], reports["end"], reports["sm"] = ran * (1000 + numbers), ran * (9000 + 2 * numbers), sm
        reports["begin_ns"] = ran * first_wave * (500 + numbers)
        reports["end_ns"] = ran * (blocks >= mix["last"]) * (4500 + numbers)
        if mix["samples"]:
            samples = self.view(mix["samples"], SAMPLES, 1)[0]
            assert samples["overhead"] == 2**32 - 1, "the least of all SMs is kept"
            samples["overhead"] = 9
            samples["bins"][[700, 710]] = 3, 1
        self.tamper_reports(reports)


def runner(context):
    return MixRunner(*parts(context), Arena(context, 1 << 24))


def run_mixes(mixes, wanted):
    return run_tasks(mixes, [[*part.values()] for part in mixes.split(dict(enumerate(wanted)))])


def run(context, wanted=ADDS):
    return run_mixes(runner(context), [wanted])[0]


def test_all_sms():
    context = MixContext()
    trace = run(context)
    assert trace.workload == digest(ADDS)
    assert trace.begin.tolist() == [1000 + w for w in range(SMS * 8)]
    assert np.bincount(trace.sm).tolist() == [8] * SMS
    assert trace.block.tolist() == [w // 4 for w in range(SMS * 8)]
    assert trace.nanoseconds.tolist() == [4000 + SMS * 8 - 1]
    assert trace.context.clock_hz == pytest.approx(2e9) and trace.context.notes["all_at_once"] == "yes"
    mix = context.mixes[0]
    assert (mix["resident"], mix["blocks"], mix["grid"], mix["awaited"], mix["last"]) == (8, 8, 8, 0, 0)
    assert (mix["loops"], mix["zero"], mix["one"]) == (1, 0, 1)
    assert mix["shared"] == 65536 // 2 - 1024


def test_waves_on_some_sms():
    context = MixContext()
    trace = run(context, replace(ADDS, sms=2, waves=3))
    assert trace.sm.size == 2 * 8 * 3 and set(trace.sm.tolist()) == {0, 1}
    assert np.unique(trace.block).tolist() == list(range(2 * 2 * 3)), "numbered without gaps"
    mix = context.mixes[0]
    assert (mix["resident"], mix["grid"], mix["sms"], mix["blocks"]) == (8, 8 + 2 * 2 * 2, 2, 4)
    assert mix["awaited"] == 2 * 8 * 3, "blocks that do not count keep the other SMs occupied"
    assert mix["last"] == 12
    assert run(context, replace(ADDS, sms=1)).context.sm == 0


def test_wrong_shares_are_refused_after_three_attempts():
    context = MixContext()

    def move(reports):
        reports["sm"][reports["sm"] == 1] = 0

    context.tamper_reports = move
    with pytest.raises(DeviceError, match="8 to 16 warps on each of 3 ran"):
        run(context)
    assert len(context.mixes) == 3
    context.tamper_reports = lambda reports: move(reports) if len(context.mixes) == 4 else None
    assert np.bincount(run(context).sm).tolist() == [8] * SMS


def test_a_warp_of_a_later_wave_on_an_sm_that_does_not_count_is_refused():
    context = MixContext()
    context.tamper_reports = lambda reports: reports["sm"].put(-1, 3)
    with pytest.raises(DeviceError, match="of a mix on 2 SMs, 1 warps ran on others"):
        run(context, replace(ADDS, sms=2, waves=3))


def test_warps_that_end_before_another_begins_do_not_run_at_once():
    context = MixContext()
    context.tamper_reports = lambda reports: reports["begin"].put(-1, 9001)
    assert run(context, replace(ADDS, sms=2)).context.notes["all_at_once"] == "yes", "this warp does not count"
    assert run(context).context.notes["all_at_once"] == "yes", "the first warp of its SM ends later"
    context.tamper_reports = lambda reports: reports["begin"].put(-1, 9100)
    assert run(context).context.notes["all_at_once"] == "no"


def test_the_occupancy_of_a_kernel_is_queried_once():
    context, queries = MixContext(), []
    answer = context.max_active_blocks
    context.max_active_blocks = lambda *question: queries.append(question) or answer(*question)
    run_mixes(runner(context), [ADDS, replace(ADDS, repetition=1), replace(ADDS, warps=4)])
    assert len(queries) == 2


def test_of_several_mixes_only_those_with_wrong_shares_run_again():
    context, wanted = MixContext(), [replace(ADDS, sms=1 + n) for n in range(3)]
    context.tamper_reports = lambda reports: reports["sm"].put(0, 3) if len(context.mixes) == 2 else None
    traces = run_mixes(runner(context), wanted)
    assert [trace.workload for trace in traces] == [digest(each) for each in wanted]
    assert [mix["sms"] for mix in context.mixes] == [1, 2, 3, 2]


def test_counters_replace_no_links_of_a_mix_that_runs_again():
    context = MixContext()
    context.tamper_reports = lambda reports: reports["sm"].put(0, 3) if len(context.mixes) == 1 else None
    run_mixes(runner(context), [LOADS, mix(Instruction.REDG, warps=8, access=Access.RANDOM, footprint=128)])
    assert [each["count"] == 32 for each in context.mixes] == [False, True, False]
    assert context.launches.count("write_tiles") == 2


def test_random_loads_leave_the_l1_as_large_as_they_can():
    context = MixContext()
    mixes, random = runner(context), replace(LOADS, access=Access.RANDOM)
    run_mixes(mixes, [random])
    assert [mix["shared"] for mix in context.mixes] == [512]
    kernel = next(kernel for (source, *_), kernel in context.kernels.items() if source == "mix.cu")
    assert kernel.carveout == 5, "percent: two blocks of 512 B and 1 KiB of 64 KiB"
    context.tamper_reports = lambda reports: reports["sm"].put(0, 3) if context.mixes[-1]["shared"] == 512 else None
    run_mixes(mixes, [random])
    assert [mix["shared"] for mix in context.mixes[1:]] == [512] * 3 + [65536 // 2 - 1024], "limited by shared memory"
    assert kernel.carveout == 100


def test_atomics_share_the_counters_of_a_footprint():
    context = MixContext()
    run(context, mix(Instruction.REDG, warps=8, access=Access.RANDOM, footprint=128))
    run(context, mix(Instruction.REDG, warps=8, access=Access.STREAMING, footprint=1 << 12))
    assert [mix["count"] for mix in context.mixes] == [32, 32]
    assert "write_lines" not in context.launches


def test_a_silent_mix_has_the_warps_of_its_last_wave():
    context, silent = MixContext(), replace(ADDS, waves=3, silent=True)

    def silence(reports):
        reports["end"][: -SMS * 8] = 0

    context.tamper_reports = silence
    trace = run(context, silent)
    assert trace.begin.tolist() == [1000 + SMS * 8 * 2 + w for w in range(SMS * 8)]
    assert trace.nanoseconds.tolist() == [4500 + SMS * 8 * 3 - 1 - 500]
    context.tamper_reports = lambda reports: reports["end"].fill(0)
    with pytest.raises(DeviceError, match="0 warps of the last wave"):
        run(context, silent)


def test_a_mix_per_sm_has_the_sums_of_its_warps():
    arrays = run(MixContext(), replace(ADDS, waves=3, per_sm=True)).arrays
    warps = run(MixContext(), replace(ADDS, waves=3))
    sums = totals_by_sm(warps.begin, warps.end, warps.sm) | {"nanoseconds": warps.nanoseconds}
    assert {name: array.tolist() for name, array in arrays.items()} == {n: a.tolist() for n, a in sums.items()}


def test_a_broken_chain_is_an_error():
    context = MixContext()
    context.tamper_reports = lambda reports: reports["broken"].put(3, 1)
    with pytest.raises(KernelFailed, match="chain broken"):
        run(context)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (replace(ADDS, warps=128), "runs 64 warps of this mix at once"),
        (replace(ADDS, sms=5), "has 4 SMs"),
        (mix(Instruction.LDS, warps=8, stride=512), "of shared memory, each of 2 on an SM"),
        (replace(LOADS, access=Access.RANDOM, footprint=1 << 16), "places for 1024 chains"),
        (replace(LOADS, footprint=1 << 11), "places for 32 chains"),
        (replace(LOADS, footprint=1 << 30), "may be used"),
        (replace(LOADS, footprint=1 << 32), "reach no further"),
    ],
)
def test_unsupported_mixes_are_refused(wanted, message):
    with pytest.raises(UnsupportedWorkload, match=message):
        run(MixContext(), wanted)


@pytest.mark.parametrize(("places", "message"), [(7, "larger"), (1 << 31, "less")])
def test_a_footprint_has_places_for_all_chains(places, message):
    check_places(LOADS, 8, 8)
    with pytest.raises(UnsupportedWorkload, match=message):
        check_places(LOADS, places, 8)


def test_a_cold_mix_starts_after_a_sweep_of_the_l2():
    warm, cold = MixContext(), MixContext()
    run(warm, LOADS)
    run(cold, replace(LOADS, cold=True))
    assert not {"sweep", "read_back"} & set(warm.launches)
    assert cold.launches[-2:] == ["sweep", "read_back"], "after the links were written"


def test_mixes_share_links():
    context = MixContext()
    mixes, scattered = runner(context), replace(LOADS, access=Access.RANDOM)
    run_mixes(mixes, [LOADS, replace(LOADS, body=(Step(Instruction.LDG), Step(Instruction.FADD, 2))), scattered])
    assert context.launches == ["write_tiles", "write_lines"]
    assert context.mixes[1]["count"] == 1 << 13 and context.mixes[2]["half"] == 7
    run_mixes(mixes, [scattered])
    assert len(context.launches) == 2
    mixes.arena.user = "a chase"
    run_mixes(mixes, [scattered])
    assert context.launches[2:] == ["write_lines"]


def test_single_loads_are_counted():
    trace = run(MixContext(), replace(LOADS, sampled=8))
    assert (trace.latency.tolist(), trace.count.tolist(), trace.overhead.tolist()) == ([700, 710], [3, 1], [9])
    assert trace.overflow_count == 0
    assert "latency" not in run(MixContext(), LOADS).arrays
    context = MixContext()
    run_mixes(runner(context), [replace(LOADS, sampled=8, repetition=n) for n in range(2)])
    first, second = (mix["samples"] for mix in context.mixes)
    assert SAMPLES.itemsize <= second - first < 2 * SAMPLES.itemsize, "one histogram, whatever the interval"


def test_a_mix_begins_behind_the_one_before():
    """Otherwise it would hit in the L2 on what that one read."""
    context = MixContext()
    mixes, loads = runner(context), replace(LOADS, body=(Step(Instruction.LDG, 2),), footprint=1 << 22, iterations=16)
    run_mixes(mixes, [replace(loads, repetition=repetition) for repetition in range(3)])
    chains = SMS * 8
    assert [mix["offset"] for mix in context.mixes] == [n * 2 * 2 * 16 * chains % (1 << 15) for n in range(3)]
    assert context.launches == ["write_tiles"]


def test_links_that_arithmetic_works_on_are_normal_numbers():
    """The lower half of an address, as a single, must be one: not within 8 MiB of a multiple of 2 GiB."""

    class Fixed:
        def __init__(self, address):
            self.address = address

        def allocate(self, size):
            return self.address

        def free(self, address): ...

    for address in (0, 1 << 30, (1 << 31) - (1 << 26), (1 << 31) - MAX_ALIGNMENT, (3 << 31) - (1 << 27), 5 << 31):
        for size in (1 << 20, 1 << 26, 1 << 29, 1984 << 20):
            memory = reserve_normal(Arena(Fixed(0x7F0000000000 + address), 1 << 33), size)
            assert 0 <= memory - 0x7F0000000000 - address <= size + (1 << 24)
            halves = np.array([memory, memory + size - 1]).astype(np.uint32).view(np.float32)
            assert np.isfinite(halves).all() and (np.abs(halves) >= np.finfo(np.float32).tiny).all()
            assert memory >> 31 == memory + size - 1 >> 31
    with pytest.raises(UnsupportedWorkload, match="reach no further"):
        reserve_normal(Arena(Fixed(0x7F0000000000), 1 << 34), 1 << 31)
