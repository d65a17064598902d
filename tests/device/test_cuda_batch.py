"""`CudaGpu` on a fake context: what it reports of itself, the order of a batch, errors, closing."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from gpudissect.device.cuda.precompile import survey_codes
from gpudissect.errors import DeviceError, KernelFailed, OutOfMemory, UnsupportedWorkload, UsageError
from gpudissect.workload import Launch, LaunchMethod, Path, Sequential, Transfer
from gpudissect.workload.digest import digest
from tests.device.test_cuda_mix_runner import ADDS, MixContext
from tests.device.test_cuda_stream_runner import BULK, CLUSTER, StreamContext
from tests.support.fake_context import SMS, FakeContext, fake_gpu
from tests.support.fake_driver import CONTEXT_STREAM, FakeDriver
from tests.support.workloads import EACH, LAP, chase, stream

CHASE = chase(Path.GLOBAL, Sequential(4, 64), LAP)


def test_info():
    info = fake_gpu(FakeContext()).info
    assert (info.spec, info.name, info.sm_count) == ("cuda:0", "fake", SMS)
    assert set(info.span_limits) == set(Path) and not info.unsupported
    assert info.facts["clusters_4"] == 1 and info.facts["cluster_size"] == 4
    assert info.launch_methods == tuple(LaunchMethod)


def test_a_batch_waits_for_what_an_interrupted_one_left():
    context, log = FakeContext(), []
    context.wait = lambda *_: log.append(len(context.launches))
    fake_gpu(context).run([CHASE])
    assert log[0] == 0 < len(context.launches)


@pytest.mark.parametrize(("major", "lacking"), [(6, {"cluster", "tma", "code"}), (8, {"cluster", "tma"})])
def test_older_gpus_lack_paths(major, lacking):
    context = FakeContext()
    context.capability = (major, 0)
    gpu = fake_gpu(context)
    assert set(gpu.info.unsupported) == lacking and not lacking & set(gpu.info.span_limits)
    assert bool(gpu.info.instructions) == (major >= 7)
    with pytest.raises(DeviceError, match="no path 'tma': needs compute capability 9"):
        gpu.run([chase(Path.TMA, Sequential(4, 16), LAP)])


def test_traces_of_streams_come_back_in_order():
    gpu = fake_gpu(StreamContext())
    batch = [CLUSTER, BULK, replace(CLUSTER, repetition=1)]
    assert [trace.workload for trace in gpu.run(batch)] == [digest(workload) for workload in batch]
    with pytest.raises(DeviceError, match="cannot run a Stream on path 'constant'"):
        gpu.run([batch[0], stream(Path.CONSTANT, Transfer.READ, 4, 1, 1)])


def test_traces_of_mixes_and_launches_come_back_in_order():
    context = MixContext()
    context.driver, context.stream = FakeDriver(), SimpleNamespace(handle=CONTEXT_STREAM)
    gpu = fake_gpu(context)
    batch = [ADDS, Launch(method=LaunchMethod.GRAPH), replace(ADDS, repetition=1)]
    assert [trace.workload for trace in gpu.run(batch)] == [digest(workload) for workload in batch]


def test_a_gpu_without_mixes_refuses_them():
    context = MixContext()
    context.capability = (6, 0)
    with pytest.raises(DeviceError, match="cannot run a Mix"):
        fake_gpu(context).run([ADDS])


@pytest.mark.parametrize("lost", [False, True])
def test_a_failed_kernel_may_leave_the_device_unusable(lost):
    def fail(context):
        context.lost = lost
        raise KernelFailed("a kernel failed")

    context = FakeContext()
    gpu = fake_gpu(context)
    context.tamper = fail
    with pytest.raises(KernelFailed):
        gpu.run([CHASE])
    context.tamper = None
    if lost:
        with pytest.raises(DeviceError, match="lost to this process"):
            gpu.run([CHASE])
    else:
        assert gpu.run([CHASE])[0].cycles.size == 1


def test_a_task_that_cannot_be_queued_leaves_those_on_their_way_alone():
    gpu = fake_gpu(FakeContext())
    first, bad, last = (chase(Path.GLOBAL, Sequential(count, 64), EACH, alone=True) for count in (8, 5, 8))
    last = replace(last, order=Sequential(8, 128))
    queue_in = gpu._chases.queue_in

    def refuse(memory, launch):
        if launch.first == bad:
            raise OutOfMemory("no room")
        return queue_in(memory, launch)

    gpu._chases.queue_in = refuse
    queue = gpu.queue()
    for each in (first, bad, last):
        queue.submit([each])
    expected = fake_gpu(FakeContext()).run([first])[0].cycles
    answers = dict(queue.collect() for _ in range(3))
    assert answers[0][0].cycles.tolist() == expected.tolist()
    assert isinstance(answers[1], OutOfMemory)
    assert answers[2][0].workload == digest(last)


def test_only_chases_within_the_allocated_memory_move_none():
    gpu = fake_gpu(FakeContext())
    small, large = CHASE, chase(Path.GLOBAL, Sequential(4, 128 << 20), LAP)

    def moves(workload):
        (task,) = gpu.plan([workload])
        return gpu.moves_memory(task)

    assert moves(small), "nothing is allocated yet"
    gpu.run([small])
    assert not moves(small) and moves(large) and moves(stream(Path.GLOBAL, Transfer.READ, 1 << 20, 4, 128))


def test_an_interrupted_queue_leaves_no_task_behind():
    gpu = fake_gpu(FakeContext())
    chases = [chase(Path.GLOBAL, Sequential(count, 64), LAP, alone=True) for count in (4, 5, 6)]
    finish = gpu._chases.finish

    def interrupt(queued):
        raise KeyboardInterrupt

    gpu._chases.finish = interrupt
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            gpu.run(chases)
    gpu._chases.finish = finish
    assert [trace.workload for trace in gpu.run(chases)] == [digest(each) for each in chases]


def test_conditions_stand_in_the_notes():
    gpu = fake_gpu(FakeContext())
    gpu._nvml = SimpleNamespace(throttling=lambda: "power cap", other_processes=lambda: "2")
    notes = gpu.run([CHASE])[0].context.notes
    assert (notes["throttling"], notes["other_processes"]) == ("power cap", "2") and "shared_bytes" in notes


def test_a_closed_device_runs_nothing():
    gpu = fake_gpu(FakeContext())
    gpu.run([CHASE])
    gpu.close()
    gpu.close()
    with pytest.raises(DeviceError, match="closed"):
        gpu.run([])


def test_exit_codes_tell_workloads_from_devices():
    errors = (UsageError, UnsupportedWorkload, OutOfMemory, DeviceError)
    assert [error.exit_code for error in errors] == [2, 2, 2, 3]
    assert issubclass(OutOfMemory, UnsupportedWorkload) and issubclass(UnsupportedWorkload, DeviceError)


def test_a_gpu_loads_the_kernels_of_a_survey_that_are_compiled():
    context = FakeContext()
    gpu = fake_gpu(context)
    while gpu.prepare():
        pass
    assert context.loaded == [code for code in survey_codes() if len(code) == 2] != []
    gpu.close()
    assert not gpu.prepare()
