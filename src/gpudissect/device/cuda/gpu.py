"""`CudaGpu`: a real NVIDIA GPU as a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol, Self

from gpudissect.catalogue.capabilities import FIRST_WITH_CLUSTERS, NEEDS_CLUSTERS
from gpudissect.device.cuda.ahead import compile_ahead
from gpudissect.device.cuda.arena import Arena
from gpudissect.device.cuda.chase.layout import CODE_BODY
from gpudissect.device.cuda.chase.plan import Launch as ChaseLaunch
from gpudissect.device.cuda.chase.plan import Machine, plan
from gpudissect.device.cuda.chase.runner import CONSTANT_BANK, Crowded, Runner
from gpudissect.device.cuda.clocks import Watch
from gpudissect.device.cuda.clusters import clusters
from gpudissect.device.cuda.compile import Compiler, choose_arch, supported_archs
from gpudissect.device.cuda.driver import Board
from gpudissect.device.cuda.launch.cores import CAN_BIND
from gpudissect.device.cuda.launch.launches import Launcher
from gpudissect.device.cuda.mix.bodies import runnable
from gpudissect.device.cuda.mix.mixes import Mixer
from gpudissect.device.cuda.start import start_driver
from gpudissect.device.cuda.stated import cluster_facts, environment, facts, shared_free, without_code
from gpudissect.device.cuda.stream.streams import STREAMED, Streamer
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.errors import DeviceError, KernelFailed
from gpudissect.trace import Trace
from gpudissect.workload import Launch, LaunchMethod, Mix, Path, Stream, Workload

_MEMORY_SHARE = 0.8  # of the free device memory that chases may take
_RECORDS_ROOM = 1024  # bytes of shared memory that a ring in shared memory leaves for records
_TEXEL = 4


def probe() -> list[tuple[int, str, str | None]]:
    """Every CUDA GPU of this machine: index, name, and why it cannot be used, None if it can.

    Nothing is started on a GPU for this. Raises `DeviceError` when there is no driver, no GPU or no package to
    reach one with.
    """
    driver = start_driver()
    from cuda.core import Device

    found: list[tuple[int, str, str | None]] = []
    for index in range(driver.cuDeviceGetCount()[1]):
        device = Device(index)
        properties = device.properties
        reason: str | None = None
        try:
            choose_arch(properties.compute_capability_major, properties.compute_capability_minor, supported_archs())
        except DeviceError as error:
            reason = str(error)
        if properties.compute_mode == driver.CUcomputemode.CU_COMPUTEMODE_PROHIBITED:
            reason = "its compute mode is 'prohibited': ask the administrator"
        found.append((index, device.name, reason))
    return found


class Alone(Protocol):
    """Runs workloads of one kind, each with nothing else on the GPU."""

    def run(self, workload: Any, /) -> Trace:
        """Run one. Raises `DeviceError`."""

    def release(self) -> None:
        """Give the memory of its operands back: a chase may need it."""


class CudaGpu:
    """A CUDA GPU. Close it, or use it as a context manager. Not for several threads at once."""

    def __init__(self, board: Board, compiler: Compiler, watch: Watch) -> None:
        self._board = board
        self._watch = watch
        self._broken: str | None = None
        self._closed = False
        properties = board.properties
        usable = int(board.free_memory()[0] * _MEMORY_SHARE)
        texture_limit = min(usable, properties.maximum_texture1d_linear_width * _TEXEL)
        shared = properties.max_shared_memory_per_block_optin or properties.max_shared_memory_per_block
        limits = {
            Path.NOTHING: 2**62,
            Path.GLOBAL: usable,
            Path.GLOBAL_L2: usable,
            Path.READONLY: usable,
            Path.TEXTURE: texture_limit,
            Path.CONSTANT: min(properties.total_constant_memory, CONSTANT_BANK),
            Path.SHARED: shared - _RECORDS_ROOM,
            Path.CODE: CODE_BODY,
        }
        self._runner = Runner(
            board, compiler, Arena(board, usable),
            name=board.device.name, l2=properties.l2_cache_size, texture_limit=texture_limit,
        )  # fmt: skip
        found, unsupported = _clusters(board, self._runner, shared)
        unsupported |= without_code(properties)
        of_hopper = {Path.CLUSTER: shared - _RECORDS_ROOM, Path.TMA: usable}
        limits |= of_hopper
        for path in unsupported:
            del limits[path]
        self._streamer = Streamer(
            board, self._runner.kernel, Arena(board, usable), name=board.device.name, shared=shared
        )
        capability = (int(properties.compute_capability_major), int(properties.compute_capability_minor))
        self._compile_ahead = partial(compile_ahead, capability=capability, compiler=compiler)
        self._mixer = Mixer(
            board, self._runner.kernel, Arena(board, usable), name=board.device.name,
            sm_count=properties.multiprocessor_count, capability=capability, shared=shared,
            shared_per_sm=properties.max_shared_memory_per_multiprocessor,
            reserved=int(properties.reserved_shared_memory_per_block), l2=int(properties.l2_cache_size),
        )  # fmt: skip
        self._launcher = Launcher(board, self._runner.kernel, name=board.device.name)
        self._machine = Machine(
            sm_count=properties.multiprocessor_count,
            limits=limits,
            shared_largest=shared,
            shared_per_sm=properties.max_shared_memory_per_multiprocessor,
            shared_free=shared_free(properties, shared),
            cluster=max(found, default=1),
            unsupported=MappingProxyType(unsupported),
        )
        self._info = DeviceInfo(
            spec=f"cuda:{board.index}",
            name=board.device.name,
            origin=Origin.MEASURED,
            sm_count=properties.multiprocessor_count,
            span_limits=MappingProxyType(limits),
            unsupported=MappingProxyType(unsupported),
            streams=tuple(path for path in STREAMED if path in limits),
            instructions=runnable(capability),
            launch_methods=tuple(LaunchMethod) if CAN_BIND else (),
            facts=MappingProxyType(facts(board) | cluster_facts(found)),
            environment=MappingProxyType(environment(board, compiler, watch)),
        )

    @classmethod
    def open(cls, index: int) -> Self:
        """Open GPU `index`. Raises `DeviceError`, which says in one line why not and what to do."""
        board = Board(index)
        compiler = Compiler(board.properties.compute_capability_major, board.properties.compute_capability_minor)
        return cls(board, compiler, Watch(board.device.pci_bus_id))

    @property
    def info(self) -> DeviceInfo:
        """What is known of it before anything is measured."""
        return self._info

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Run a batch and give one trace a workload, in the order of the batch.

        Raises `DeviceError` (`OutOfMemory`, `KernelFailed`). After a kernel that hung or crashed the device is not
        usable any more, and every further run says so.
        """
        if self._closed or self._broken:
            raise DeviceError(self._broken or f"{self._info.spec} is closed: open it again")
        self._compile_ahead(batch)
        self._board.activate()
        alone = {index: runner for index, each in enumerate(batch) if (runner := self._alone(each)) is not None}
        places = [index for index in range(len(batch)) if index not in alone]
        chases = [batch[index] for index in places]
        traces: dict[int, Trace] = {}
        done = False
        try:
            for launch in plan(chases, self._machine):
                given = self._watched(self._run(launch, chases))
                traces |= {places[at]: trace for at, trace in given.items()}
            for index, runner in alone.items():
                traces |= self._watched({index: self._guarded(runner, batch[index])})
            done = True
        finally:
            if done or not self._board.lost():  # giving back would wait for a kernel that hangs
                for runner in dict.fromkeys(alone.values()):
                    runner.release()
        return [traces[index] for index in range(len(batch))]

    def _alone(self, workload: Workload) -> Alone | None:
        """Who runs a workload that shares the GPU with no other; None for what a plan puts together, or refuses."""
        match workload:
            case Stream() if workload.path in self._info.streams:
                return self._streamer
            case Mix() if self._info.instructions:
                return self._mixer
            case Launch() if self._info.launch_methods:
                return self._launcher
        return None

    def _guarded(self, runner: Alone | Runner, work: Any) -> Any:
        """What a runner gives; if a kernel fails, is the device still usable?"""
        try:
            return runner.run(work)
        except Crowded:  # nothing failed but to keep chases apart
            raise
        except KernelFailed as error:
            self._look_after(error)
            raise

    def _run(self, launch: ChaseLaunch, batch: Sequence[Workload]) -> dict[int, Trace]:
        """Run a launch; chase by chase if its chases cannot be kept apart."""
        try:
            together: dict[int, Trace] = self._guarded(self._runner, launch)
            return together
        except Crowded:
            if len(launch.members) == 1:
                raise
            alone = {}
            for member in launch.members:
                (own,) = plan([batch[member.index]], self._machine)
                alone[member.index] = self._guarded(self._runner, own)[0]
            return alone

    def _look_after(self, error: KernelFailed) -> None:
        """Is the device still usable after a kernel failed?"""
        if self._board.lost():
            self._broken = f"{self._info.spec} is lost to this process ({error}): start anew"

    def _watched(self, traces: dict[int, Trace]) -> dict[int, Trace]:
        """The traces with what the GPU says of its clock and its other users right after they were taken."""
        seen = {"throttling": self._watch.throttling(), "other_processes": self._watch.others()}
        notes = {name: text for name, text in seen.items() if text is not None}
        if not notes:
            return traces
        return {
            index: replace(trace, context=replace(trace.context, notes={**trace.context.notes, **notes}))
            for index, trace in traces.items()
        }

    def close(self) -> None:
        """Give back memory and context; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._watch.close()
        if not self._broken and not self._board.lost():  # freeing memory would wait for a kernel that hangs
            self._board.activate()
            self._streamer.close()
            self._mixer.close()
            self._launcher.release()
            self._runner.close()
            self._board.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _clusters(board: Board, runner: Runner, shared: int) -> tuple[dict[int, int], dict[Path, str]]:
    """How many clusters run at once, by their blocks; and which of Hopper's own paths this GPU lacks, and why."""
    if board.properties.compute_capability_major < FIRST_WITH_CLUSTERS:
        return {}, dict.fromkeys((Path.CLUSTER, Path.TMA), NEEDS_CLUSTERS)
    try:
        return clusters(board, runner, shared), {}
    except DeviceError as error:
        return {}, {Path.CLUSTER: str(error)}
