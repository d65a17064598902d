"""`CudaGpu`: a real NVIDIA GPU as a device."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, Self

from gpudissect.catalogue.compute_capability import FIRST_WITH_CLUSTERS, NEEDS_CLUSTERS
from gpudissect.device.base import Device
from gpudissect.device.cuda.chase.plan import ChaseLaunch, DeviceLimits, plan_launches
from gpudissect.device.cuda.chase.runner import SHARED_SM, BlocksShareSm, ChaseRunner, QueuedChases
from gpudissect.device.cuda.compile import Code
from gpudissect.device.cuda.context import CudaContext, LaunchBuffers
from gpudissect.device.cuda.engine_copy import EngineCopyRunner
from gpudissect.device.cuda.info import (
    NvmlMonitor,
    active_clusters,
    driver_facts,
    environment,
    provenance,
    shared_bytes_beside_l1,
)
from gpudissect.device.cuda.launch import LAUNCHES, LaunchRunner
from gpudissect.device.cuda.layout import CODE_BYTES, CONSTANT_BANK_BYTES
from gpudissect.device.cuda.links import MAX_PEER_BYTES, Arenas, host_limit
from gpudissect.device.cuda.memory import Arena
from gpudissect.device.cuda.mix.body import supported_instructions
from gpudissect.device.cuda.mix.runner import MixRunner
from gpudissect.device.cuda.pipeline import Pipeline, Runner, Task
from gpudissect.device.cuda.precompile import Precompiler, codes_of, survey_codes
from gpudissect.device.cuda.stream.backends import BACKENDS
from gpudissect.device.cuda.stream.runner import StreamRunner
from gpudissect.device.queue import traces_of
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.errors import DeviceError, KernelFailed
from gpudissect.trace import OTHER_PROCESSES, Trace
from gpudissect.workload import EngineCopy, Launch, LaunchMethod, Mix, Path, Stream, Workload

_MEMORY_SHARE = 0.8  # of the free device memory that workloads may take
_MIN_FIRST_SHARE = 1 / 32  # of that memory, allocated at first use: to grow it waits for the GPU
_RECORD_BYTES = 1024  # of shared memory that a chain in shared memory leaves for records
_TEXEL_BYTES = 4
NO_PEERS = "the driver states no other GPU whose memory this one can access"
_UNLIMITED = 2**62
_DRAIN_S, _QUEUED_S = 20.0, 60.0  # limits of waiting for an interrupted queue, and for tasks before one that failed


class CudaGpu(Device):
    """A CUDA GPU. Close it, or use it as a context manager. Not for several threads at once."""

    def __init__(self, context: CudaContext, nvml: NvmlMonitor) -> None:
        self._context = context
        self._nvml = nvml
        self._broken: str | None = None
        self._closed = False
        properties = context.properties
        usable = int(context.free_memory()[0] * _MEMORY_SHARE)
        shared = context.max_shared_bytes
        texture = min(usable, properties.maximum_texture1d_linear_width * _TEXEL_BYTES)

        self._precompiler = Precompiler(context.compiler)
        self._to_load = self._survey_kernels()
        buffers = self._buffers = LaunchBuffers(context)
        host, peers = host_limit(), context.peers()
        arenas = self._arenas = Arenas(Arena(context, usable, int(usable * _MIN_FIRST_SHARE)), context, host, peers)
        self._chases = ChaseRunner(context, buffers, arenas, texture)
        self._streams = StreamRunner(context, arenas, shared)
        self._mixes = MixRunner(context, buffers, arenas.near)
        self._launches = LaunchRunner(context, buffers)
        self._copies = EngineCopyRunner(context, arenas)
        self._runners: tuple[Runner, ...] = (self._chases, self._streams, self._mixes, self._launches, self._copies)

        clusters = active_clusters(context, shared)
        unsupported = _unsupported_paths(context, clusters)
        if not peers:
            unsupported |= dict.fromkeys((Path.PEER, Path.PEER_L1), NO_PEERS)
        spans = {
            Path.NOTHING: _UNLIMITED,
            Path.GLOBAL: usable,
            Path.GLOBAL_L2: usable,
            Path.READONLY: usable,
            Path.TEXTURE: texture,
            Path.CONSTANT: min(properties.total_constant_memory, CONSTANT_BANK_BYTES),
            Path.SHARED: shared - _RECORD_BYTES,
            Path.CODE: CODE_BYTES,
            Path.CLUSTER: shared - _RECORD_BYTES,
            Path.TMA: usable,
            Path.HOST: host,
            Path.PEER: MAX_PEER_BYTES,
            Path.PEER_L1: MAX_PEER_BYTES,
        }
        spans = {path: span for path, span in spans.items() if path not in unsupported}
        self._limits = DeviceLimits(
            sm_count=properties.multiprocessor_count,
            blocks_per_sm=properties.max_blocks_per_multiprocessor,
            spans=spans,
            shared_per_block=shared,
            shared_per_sm=properties.max_shared_memory_per_multiprocessor,
            shared_beside_l1=shared_bytes_beside_l1(context),
            max_cluster=max(clusters, default=1),
            peers=peers,
            unsupported=MappingProxyType(unsupported),
        )
        self._info = DeviceInfo(
            spec=f"cuda:{context.index}",
            name=context.device.name,
            origin=Origin.MEASURED,
            sm_count=properties.multiprocessor_count,
            span_limits=spans,
            unsupported=unsupported,
            streams=tuple(path for path in BACKENDS if path in spans),
            instructions=supported_instructions(context.capability),
            launch_methods=tuple(LaunchMethod),
            copies=tuple(path for path in (Path.HOST, Path.PEER) if path in spans),
            facts=driver_facts(context, nvml, clusters)
            | _peer_facts(peers, context.atomic_peers(peers))
            | nvml.nvlink_peers(peers, context.address_of),
            environment=environment(context, nvml),
            provenance=provenance(context, nvml),
        )

    @classmethod
    def open(cls, index: int) -> Self:
        """Open GPU `index`. Raises `DeviceError`."""
        context = CudaContext(index)
        return cls(context, NvmlMonitor(context.device.pci_bus_id))

    @property
    def info(self) -> DeviceInfo:
        """What is known of it before anything is measured."""
        return self._info

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Run a batch; one trace a workload, in its order. Raises `DeviceError`, always after a kernel that crashed."""
        queue = self.queue()
        queue.submit(batch)
        return traces_of(queue.collect()[1])

    def queue(self) -> Pipeline:
        """A new batch queue, in which the GPU runs a batch while the host prepares the next; one at a time."""
        return Pipeline(self)

    def activate(self) -> None:
        """Make the context current: the thread may have used another one."""
        if not (self._closed or self._broken):
            self._context.activate()

    def drain(self) -> None:
        """Wait for what an interrupted queue left in flight. Raises `DeviceError`."""
        self._check_usable()
        self._run_checked(self._context.wait, _DRAIN_S)
        for runner in self._runners:
            runner.slots.free_all()

    def plan(self, workloads: Sequence[Workload]) -> list[Task]:
        """Distribute workloads over tasks; begin to compile kernels that are missing. Raises `DeviceError`."""
        self._check_usable()
        codes = [tuple(codes_of([each], self._context.capability)) for each in workloads]
        self._precompiler.start(chain.from_iterable(codes))
        tasks: list[Task] = []
        mixes: dict[int, Mix] = {}
        launches: dict[int, Launch] = {}
        copies: dict[int, EngineCopy] = {}
        chases: list[int] = []
        for index, workload in enumerate(workloads):
            match workload:
                case Stream() if workload.path in self._info.streams:
                    tasks.append(Task(self._streams, workload, (index,), codes[index]))
                case Mix() if self._info.instructions:
                    mixes[index] = workload
                case Launch() if self._info.launch_methods:
                    launches[index] = workload
                case EngineCopy():
                    copies[index] = workload
                case _:  # or what the plan of chases refuses
                    chases.append(index)
        for part in self._mixes.split(mixes):
            needed = tuple(chain.from_iterable(codes[index] for index in part))
            tasks.append(Task(self._mixes, [*part.values()], (*part,), needed))
        if launches:
            tasks.append(Task(self._launches, [*launches.values()], (*launches,), (LAUNCHES,)))
        if copies:
            tasks.append(Task(self._copies, [*copies.values()], (*copies,)))
        for launch in plan_launches([workloads[index] for index in chases], self._limits):
            indices = tuple(chases[number] for number in launch.indices)
            tasks.append(Task(self._chases, launch, indices, codes[indices[0]], launch.first.alone))
        return sorted(tasks, key=lambda task: task.indices[0])

    def is_ready(self, task: Task) -> bool:
        """Whether no kernel of a task is still to be compiled, or being compiled, in advance."""
        return self._precompiler.is_ready(task.codes)

    def moves_memory(self, task: Task) -> bool:
        """Whether starting a task may move memory that others use. Chases that fit in the allocated memory do not."""
        launch = task.content
        return not isinstance(launch, ChaseLaunch) or launch.arena_bytes > self._arenas.of(launch.first).size

    def start(self, task: Task) -> Any:
        """Queue a task, once what it needs is compiled. Raises `DeviceError`."""
        self._check_usable()
        self._precompiler.wait(task.codes)
        return self._run_checked(task.runner.queue, task.content)

    def finish(self, task: Task, queued: Any) -> list[Trace]:
        """Wait for a task; its traces. Raises `DeviceError`."""
        self._check_usable()
        try:
            traces = self._run_checked(task.runner.finish, queued)
        except BlocksShareSm:
            traces = self._run_one_by_one(queued)
        finally:
            task.runner.slots.free(queued.memory)
        return self._with_conditions(traces)

    def _check_usable(self) -> None:
        if self._closed or self._broken:
            raise DeviceError(self._broken or f"{self._info.spec} is closed: open it again")

    def _survey_kernels(self) -> Iterator[Code]:
        """Begin to compile those that are missing, then give those that are not."""
        self._precompiler.start_survey()
        yield from (code for code in survey_codes() if self._context.compiler.has(*code))

    def prepare(self) -> bool:
        """Load the next compiled kernel of a survey, so that the GPU does not wait for it later."""
        code = next(self._to_load, None)
        if code is None or self._closed or self._broken:
            return False
        self._context.activate()
        with suppress(KernelFailed):  # the launch that needs the kernel reports the error
            self._context.load(*code)
        return True

    def _run_checked(self, run: Callable[[Any], Any], work: Any) -> Any:
        """Run something; when a kernel fails, find out whether the device is still usable."""
        try:
            return run(work)
        except BlocksShareSm:
            raise
        except KernelFailed as error:
            if not self._context.has_timed_out:
                with suppress(KernelFailed):
                    self._context.wait(_QUEUED_S)  # others may still run
            if self._context.is_lost():
                self._broken = f"{self._info.spec} is lost to this process ({error}): start a new one"
            raise

    def _run_one_by_one(self, queued: QueuedChases) -> list[Trace]:
        """The traces of a launch two of whose chases kept sharing an SM: chase by chase, window by window."""
        if queued.launch.at_once == len(queued.launch.chases) == 1:
            raise BlocksShareSm(SHARED_SM)
        traces: list[Trace] = []
        for each in queued.launch.chases:
            (launch,) = plan_launches([each], self._limits)
            if launch.at_once > 1:  # its windows run one after the other, too
                launch = replace(launch, blocks=1, at_once=1)
            again = self._run_checked(partial(self._chases.queue_in, queued.memory), launch)
            traces += self._run_checked(self._chases.finish, again)
        return traces

    def _with_conditions(self, traces: Sequence[Trace]) -> list[Trace]:
        """The traces with what NVML reports of the GPU's clock and its other users right after they were taken."""
        conditions = {"throttling": self._nvml.throttling(), OTHER_PROCESSES: self._nvml.other_processes()}
        notes = {name: text for name, text in conditions.items() if text is not None}
        if not notes:
            return [*traces]
        return [replace(each, context=replace(each.context, notes={**each.context.notes, **notes})) for each in traces]

    def close(self) -> None:
        """Free memory and context; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._precompiler.close()
        self._nvml.close()
        self._context.activate()
        if not self._broken and not self._context.has_timed_out:
            with suppress(KernelFailed):
                self._context.wait(_DRAIN_S)  # for what an interrupted batch left in flight
        if not self._broken and not self._context.is_lost():  # freeing memory would wait for a kernel that hangs
            for runner in self._runners:
                runner.release()
            self._buffers.release()
            self._arenas.release()
            self._context.close()


def _peer_facts(peers: tuple[int, ...], atomic_peers: tuple[int, ...]) -> dict[str, int | float | str]:
    facts = {"peers": peers, "atomic_peers": atomic_peers}
    return {name: " ".join(map(str, numbers)) for name, numbers in facts.items() if numbers}


def _unsupported_paths(context: CudaContext, clusters: dict[int, int]) -> dict[Path, str]:
    """Paths that the GPU lacks, with the reason."""
    major, minor = context.capability
    reasons: dict[Path, str] = {}
    if major < 7:  # up to Pascal an instruction has 8 bytes, and every fourth (on Kepler: eighth) word holds none
        reasons[Path.CODE] = f"needs instructions of 16 bytes, compute capability 7.0; this GPU has {major}.{minor}"
    if major < FIRST_WITH_CLUSTERS:
        reasons |= dict.fromkeys((Path.CLUSTER, Path.TMA), NEEDS_CLUSTERS)
    elif not clusters:
        reasons[Path.CLUSTER] = "the driver takes no cluster of blocks with an SM each"
    return reasons
