"""Kernels recorded on a GPU that an interpreter of PTX stands for: profiles, and what is left when a kernel fails."""

import io
import json
from collections import Counter

import pytest

from gpudissect.device.cuda.user_kernel import DEFAULT_CARVEOUT, FULL_CARVEOUT
from gpudissect.errors import MachineCodeError, UsageError
from gpudissect.explanation import jobs, process, record
from gpudissect.explanation.arguments import parse_argument, parse_arguments
from gpudissect.explanation.instrument import with_source_lines
from gpudissect.explanation.jobs import Answer
from gpudissect.explanation.on_gpu import run_of
from gpudissect.explanation.packing import SHARED
from gpudissect.explanation.profile import Launch, Profile
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.explanation.user_code import assemble
from gpudissect.machine_code.kernel import choose_kernel, read_cubin
from tests.explanation.sources import KERNELS
from tests.explanation.test_slow_paths import kernel as division_kernel
from tests.support.fake_kernel_process import NVML, context_of
from tests.support.ptx import ptx_of
from tests.support.ptx_interpreter import ARGUMENT_BYTES, Interpreter

LAUNCH = Launch(grid=(4, 1, 1), block=(64, 1, 1))
ELEMENTS = ARGUMENT_BYTES // 4
ARGUMENTS = (f"out:u32[{ELEMENTS}]", f"in:u32[{ELEMENTS}]=random", "n:u32=50")
PTX = "compute_90"


@pytest.fixture(autouse=True)
def no_warm_up(monkeypatch):
    monkeypatch.setattr(process, "_WARM_UP_S", 0.0)
    monkeypatch.setattr(record, "SHIFT", 0)
    monkeypatch.setattr(record, "LAUNCH_RECORDS", 1 << 14)


def prepared(folder, kernel):
    """A prepared job, and a context that runs its cubins."""
    module = parse_ptx(ptx_of(KERNELS, PTX))
    record.prepare(folder, module, kernel, LAUNCH, parse_arguments(ARGUMENTS), "sm_90")
    return context_of(folder, "fake")


def test_if_one_form_cannot_be_assembled_no_other_is_waited_for(tmp_path, monkeypatch):
    ended = []

    def fail(*_):
        raise MachineCodeError("no ptxas")

    monkeypatch.setattr(record, "assemble", fail)
    monkeypatch.setattr(record, "end_children", lambda: ended.append(True))
    with pytest.raises(MachineCodeError, match="no ptxas"):
        prepared(tmp_path, "divergent")
    assert ended


def test_a_time_limit_of_zero_is_refused():
    with pytest.raises(UsageError, match="a time limit of 0 s: valid: more than 0"):
        run_of(1, 32, limit_s=0.0)


def test_a_profile_has_the_slow_paths_of_divisions(tmp_path):
    module = parse_ptx(division_kernel("div.rn.f64", "sqrt.rn.f32"))  # of zeros by zeros
    launch, arguments = Launch(grid=(4, 1, 1), block=(64, 1, 1)), parse_arguments(("data:u8[1024]", "out:u8[8192]"))
    record.prepare(tmp_path, module, "kernel", launch, arguments, "sm_90")
    assert serve(context_of(tmp_path, "fake"), tmp_path) == [Answer()]
    profile = Profile.model_validate_json(record.finish(tmp_path, {}).to_json())
    assert [row[:2] + row[3:] for row in profile.slow_paths] == [("kernel", 0, 8, 256)] * 2
    opcodes = [module.functions[0].instructions[row[2] - 1].opcode for row in profile.slow_paths]
    assert opcodes == ["div.rn.f64", "sqrt.rn.f32"]
    ((*count, slow),) = profile.block_counts().values()
    assert count == [8, 256, 0]
    assert slow == tuple(row[2:] for row in profile.slow_paths)
    assert profile.warps and not profile.results.different_counted


def serve(context, *folders):
    answers = io.StringIO()
    process.serve(context, NVML, io.StringIO("".join(json.dumps(str(folder)) + "\n" for folder in folders)), answers)
    lines = [json.loads(line) for line in answers.getvalue().splitlines()]
    return [Answer(**line) for line in lines if "stage" not in line]


def reference(kernel):
    data = [parse_argument(argument).data() for argument in ARGUMENTS[:2]]
    return Interpreter(ptx_of(KERNELS, PTX)).launch(kernel, LAUNCH.grid, LAUNCH.block, (*data, 50))


@pytest.mark.parametrize("kernel", ["divergent", "reduction"])
def test_a_profile_has_counts_traces_and_times(tmp_path, kernel):
    context = prepared(tmp_path, kernel)
    assert serve(context, tmp_path) == [Answer()]
    assert (context.allocations, context.driver.modules) == (0, 0)
    profile, expected = record.finish(tmp_path, {"ptxas": "V13"}), reference(kernel)
    function = parse_ptx(profile.ptx()).function(kernel)
    for (_, index), count in profile.block_counts().items():
        first = function.first + function.blocks[index].start
        assert (count.warps, count.threads) == (expected.warps[first], expected.threads[first])
    assert (profile.results.varying, profile.results.different_counted, profile.results.different_traced) == (
        (),
        (),
        (),
    )
    assert profile.results.is_repeatable and not profile.notes
    assert (profile.registers, profile.shared_bytes, profile.gpu.name, profile.blocks_per_sm) == (32, 256, "fake", 32)
    assert profile.machine_code()[1].name == kernel
    assert profile.lines is not None and profile.lines.records > 0 and profile.lines.more == 0
    found = Counter()
    for warp in profile.warps:
        trace = warp.trace()
        for access, lanes, allocations, offsets in zip(
            trace.accessed, trace.access_lanes, trace.allocations, trace.offsets, strict=True
        ):
            for lane in (lane for lane in range(32) if lanes >> lane & 1):
                number, space, *_ = profile.accesses[access]
                assert (allocations[lane] == SHARED) == (space == "shared")
                found[number, int(offsets[lane]), warp.block, warp.warp] += 1
    spaces = {number: space for number, space, *_ in profile.accesses}
    wanted = Counter(
        (number, address if spaces[number] == "shared" else address % ARGUMENT_BYTES, *place)
        for place, events in expected.events.items()
        for number, _, addresses in events
        for address in addresses
        if place in {(warp.block, warp.warp) for warp in profile.warps}
    )
    assert found == wanted and len(found) > 100


def test_times_are_those_of_the_launches_at_each_occupancy(tmp_path):
    context = prepared(tmp_path, "divergent")
    serve(context, tmp_path)
    *points, last = record.finish(tmp_path, {}).sweep
    assert [point.blocks_per_sm for point in points] == [1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 23, 32]
    for point in points:
        assert context.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(None, 64, point.shared_bytes)[1] == (
            point.blocks_per_sm
        )
        assert (point.carveout, point.warps_per_sm) == (FULL_CARVEOUT, 2 * point.blocks_per_sm)
        assert point.ns == pytest.approx(60e6 * (1 + point.shared_bytes / 233472))
        assert (point.sm_clock_hz, point.memory_clock_hz) == (1.98e9, 2.6e9)
    assert (last.blocks_per_sm, last.shared_bytes, last.carveout, last.ns) == (32, 0, DEFAULT_CARVEOUT, 60e6)
    assert {launch[:2] for launch in context.driver.launches if launch[2]} == {(0, DEFAULT_CARVEOUT)}


def test_each_launch_of_the_counts_ends_before_the_next(tmp_path):
    context = prepared(tmp_path, "divergent")
    launched, waits, wait = [0], [], context.wait
    launch = context.driver.cuLaunchKernel

    def counted_launch(*arguments):
        launched[0] += 1
        return launch(*arguments)

    def noted_wait(limit_s):
        measured = jobs.read_measured(tmp_path)
        waits.append((launched[0], measured.stage if measured else "", bool(measured and measured.has_counts)))
        launched[0] = 0
        return wait(limit_s)

    context.driver.cuLaunchKernel, context.wait = counted_launch, noted_wait
    serve(context, tmp_path)
    of_counts = [(count, has_counts) for count, stage, has_counts in waits if stage == "counts" and count]
    assert of_counts == [(1, False), (1, True), (1, True)]  # the counts are kept before they are repeated


def test_what_may_have_slowed_the_launches_is_noted(tmp_path, monkeypatch):
    context = prepared(tmp_path, "divergent")
    monkeypatch.setattr(NVML, "throttling", lambda: "power cap")
    monkeypatch.setattr(NVML, "other_processes", lambda: "2")
    serve(context, tmp_path)
    others, clocks = record.finish(tmp_path, {}).notes
    assert others.startswith("2 other process") and "power cap" in clocks


def test_times_that_exceed_the_limit_are_left_out(tmp_path):
    context = prepared(tmp_path, "divergent")
    job = jobs.read_job(tmp_path)
    jobs.write_job(tmp_path, job.model_copy(update={"sweep_s": 4.0}))  # 60 ms with 32 blocks
    serve(context, tmp_path)
    profile = record.finish(tmp_path, {})
    found = [point.blocks_per_sm for point in profile.sweep[:-1]]
    assert found == [1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 23, 32][-len(found) :] and 2 < len(found) < 12
    assert f"{12 - len(found)} lower occupancies:" in profile.notes[0] and profile.warps


def test_a_kernel_that_crashes_loses_the_process_and_keeps_what_was_measured(tmp_path):
    context = prepared(tmp_path, "divergent")
    context.driver.fail_at = 40
    (answer,) = serve(context, tmp_path, tmp_path)  # the second job is not begun
    assert answer.is_lost and "CUDA_ERROR_ILLEGAL_ADDRESS" in answer.error
    profile = record.finish(tmp_path, {}, [answer.error])
    assert profile.counts and not profile.warps and 0 < len(profile.sweep) < 13
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in profile.notes[0]


def test_results_that_instrumentation_changes_are_named(tmp_path):
    context = prepared(tmp_path, "divergent")

    def tamper(context, function):
        if any(name.endswith("_cursors") for name in function.module.names):
            context.bytes_at(ARGUMENT_BYTES, 4)[:] = 7

    context.driver.tamper = tamper
    serve(context, tmp_path)
    results = record.finish(tmp_path, {}).results
    assert (results.varying, results.different_counted, results.different_traced) == ((), (), ("out",))


def test_arrays_that_vary_between_launches_are_named(tmp_path):
    context = prepared(tmp_path, "divergent")

    def tamper(context, function):
        context.bytes_at(ARGUMENT_BYTES, 4)[:] = len(context.driver.launches)

    context.driver.tamper = tamper
    serve(context, tmp_path)
    results = record.finish(tmp_path, {}).results
    assert (results.varying, results.different_counted, results.different_traced) == (("out",), (), ())


def test_a_launch_that_changes_the_next_one_gets_the_first_data_again(tmp_path):
    context = prepared(tmp_path, "collatz")

    def tamper(context, function):
        context.bytes_at(2 * ARGUMENT_BYTES, ARGUMENT_BYTES)[:] = 255

    context.driver.tamper = tamper
    serve(context, tmp_path)
    profile = record.finish(tmp_path, {})
    assert not profile.results.is_repeatable
    assert {point.launches_per_time for point in profile.sweep} == {1}


def test_only_the_kernel_itself_is_assembled(tmp_path):
    prepared(tmp_path, "divergent")
    (kernel,) = read_cubin((tmp_path / jobs.PLAIN).read_bytes()).kernels
    whole = assemble(with_source_lines(parse_ptx(ptx_of(KERNELS, PTX))), "sm_90")
    assert kernel.code == choose_kernel(whole.kernels, "divergent").code and len(whole.kernels) > 5


def test_arguments_that_the_kernel_does_not_take_are_refused(tmp_path):
    with pytest.raises(UsageError, match="3 parameters"):
        module, arguments = parse_ptx(ptx_of(KERNELS, PTX)), parse_arguments(ARGUMENTS[:2])
        record.prepare(tmp_path, module, "nest", LAUNCH, arguments, "sm_90")


def test_nothing_measured_is_no_profile(tmp_path):
    prepared(tmp_path, "nest")
    with pytest.raises(UsageError, match="did not run"):
        record.finish(tmp_path, {})
