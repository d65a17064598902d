"""`SimulatedGpu`: a device with a known memory hierarchy, so that inference can be compared with the truth."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from gpudissect import __version__
from gpudissect.device.base import Device
from gpudissect.device.queue import BatchQueue, Stepwise
from gpudissect.device.simulated import precompile
from gpudissect.device.simulated.memory import Memory, region, seeds
from gpudissect.device.simulated.noise import Noise
from gpudissect.device.simulated.throughput import SimulatedSms, launch_methods, stream_paths
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.errors import DeviceError, OutOfMemory, UnsupportedWorkload, UsageError
from gpudissect.simulation.cache.check import check_hierarchy
from gpudissect.simulation.cache.geometry import Hierarchy, Route
from gpudissect.simulation.cache.models import HierarchyModel
from gpudissect.simulation.sm.description import Processor
from gpudissect.trace import OTHER_PROCESSES, Context, Trace
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Chase, EngineCopy, Instruction, Launch, Mix, Order, Path, Stream, Transfer, Workload
from gpudissect.workload.digest import digest

DEFAULT_LIMIT = 1 << 34  # bytes of a path without a limit
MAX_SIMULATED_ACCESSES = 1 << 26  # of a chase: half a minute
WORKLOADS_AT_ONCE = 4  # a few milliseconds
MAX_LAP_ACCESSES = 1 << 24  # 128 MiB of offsets


class SimulatedGpu(Device):
    """A GPU described by a `Hierarchy`, and by a `Processor` if it runs more than chases.

    Every chase starts with cold caches and TLBs. A trace depends only on the GPU, the noise and the workload, not on
    other workloads.

    `noise` None stands for the default `Noise()`, `processor` None for a GPU that runs chases only; see `DeviceInfo`
    for the other arguments. Raises `DeviceError` for an impossible hierarchy.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        *,
        spec: str,
        name: str,
        facts: Mapping[str, int | float | str] = MappingProxyType({}),
        unsupported: Mapping[Path, str] = MappingProxyType({}),
        noise: Noise | None = None,
        catalogue: str | None = None,
        processor: Processor | None = None,
    ) -> None:
        self._hierarchy = hierarchy
        self._routes = {Path.NOTHING: _empty_route(hierarchy), **hierarchy.routes}
        try:
            check_hierarchy(hierarchy)
        except UsageError as error:
            raise DeviceError(f"{name}: {error}") from error
        self._noise = Noise() if noise is None else noise
        limits = {}
        if processor is not None:
            limits = {"threads_per_sm": WARP_SIZE * processor.warps, "blocks_per_sm": processor.blocks}
            limits["threads_per_block"] = processor.block_size
        spans = {path: hierarchy.limits.get(path, DEFAULT_LIMIT) for path in self._routes}
        self._info = DeviceInfo(
            spec=spec,
            name=name,
            origin=Origin.SIMULATED,
            sm_count=hierarchy.sm_count,
            span_limits={path: min(span, hierarchy.reach(self._routes[path])) for path, span in spans.items()},
            unsupported=dict(unsupported),
            facts={"clock_hz": hierarchy.clock_hz, **limits, **facts},
            environment={"simulator": f"gpudissect {__version__}"},
            catalogue=catalogue,
            streams=stream_paths(hierarchy, processor),
            instructions=tuple(item for item in Instruction if item in processor.operations) if processor else (),
            launch_methods=launch_methods(processor.launches) if processor else (),
        )
        self._sms = self._make_sms(processor) if processor else None
        self._memories: dict[int, Memory] = {}  # by the number of SMs with private caches
        others = {OTHER_PROCESSES: "1"} if self._noise.other_users else {}
        self._context = Context(device=name, clock_hz=hierarchy.clock_hz, sm=0, address=0, notes=others)

    @property
    def info(self) -> DeviceInfo:
        """What is known of it before it is measured."""
        return self._info

    @property
    def hierarchy(self) -> Hierarchy:
        """The truth."""
        return self._hierarchy

    @property
    def noise(self) -> Noise:
        """Deviations of its clock."""
        return self._noise

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Run a batch. Raises `DeviceError` for what cannot be simulated."""
        return [self._chase(each) if isinstance(each, Chase) else self._throughput(each) for each in batch]

    def queue(self) -> BatchQueue:
        """A queue in which small batches go first: they are steps of long searches."""
        return Stepwise(self.run, WORKLOADS_AT_ONCE)

    def prepare(self) -> bool:
        """Begin to compile the loop of SMs, if it has not been compiled."""
        if self._sms is not None:
            precompile.start_sms_if_missing()
        return False

    def _make_sms(self, processor: Processor) -> SimulatedSms:
        facts, limits = self._info.facts, self._info.span_limits
        block_bytes = int(facts.get("shared_per_block", limits.get(Path.SHARED, 0)))
        shared = (max(block_bytes, int(facts.get("shared_per_sm", block_bytes))), block_bytes)
        return SimulatedSms(processor, self._hierarchy, self._noise, self._info.name, shared, limits)

    def _throughput(self, workload: Stream | Mix | Launch | EngineCopy) -> Trace:
        """Run a workload of many warps."""
        name = self._info.name
        if isinstance(workload, EngineCopy):
            raise DeviceError(f"{name} is simulated and has no copy engines")
        if self._sms is None:
            kind = type(workload).__name__
            raise DeviceError(f"{name} runs chases only, no {kind}: its GPU file does not describe its processor")
        if isinstance(workload, Stream) and workload.path not in self._info.streams:
            raise DeviceError(f"{name} is simulated and streams on no path {workload.path.value!r}")
        if isinstance(workload, Stream) and workload.transfer is Transfer.ADD:
            raise DeviceError(f"{name} is simulated and does not support streams of atomic additions")
        key = digest(workload)
        seed, _, _ = seeds(self._noise.seed, key)
        return Trace(key, self._sms.run(workload, seed), replace(self._context, sm=None))

    def _chase(self, chase: Chase) -> Trace:
        name, sm_count, cluster_size = self._info.name, self._info.sm_count, self._hierarchy.cluster_size
        last_sm = max((prior.sm for prior in chase.before), default=0)
        if last_sm >= sm_count:
            raise UnsupportedWorkload(f"{name} has {sm_count} SMs: there is no SM {last_sm} beside SM 0")
        if chase.sm is not None and chase.sm >= sm_count:
            raise UnsupportedWorkload(f"{name} has {sm_count} SMs: there is no SM {chase.sm}")
        if chase.path is Path.CLUSTER and chase.peer >= cluster_size:
            raise UnsupportedWorkload(f"{name} has clusters of {cluster_size} blocks: there is no rank {chase.peer}")
        memory = self._memory(1 + last_sm)
        for path, order in chase.chains:
            self._check(path, order, region(chase, path), chase.accesses)
        key, route = digest(chase), self._routes[chase.path]
        context = self._context if chase.sm is None else replace(self._context, sm=chase.sm)
        if chase.path is not Path.CLUSTER:
            return Trace(key, memory.run(chase, key, route.timer), context).completed(chase)
        extra = route.latency[min(chase.peer, len(route.latency) - 1)] - route.latency[0]
        notes = {"peer_sm": str(chase.peer), "cluster_size": str(cluster_size)}
        arrays = memory.run(chase, key, route.timer, extra)
        return Trace(key, arrays, replace(context, notes=notes)).completed(chase)

    def _memory(self, sms: int) -> Memory:
        """Memory with the private caches of so many SMs, made at its first use: it loads the compiler."""
        if sms not in self._memories:
            model = HierarchyModel(replace(self._hierarchy, routes=self._routes), sms=sms)
            self._memories[sms] = Memory(model, self._noise)
        return self._memories[sms]

    def _check(self, path: Path, order: Order, region: int, accesses: int) -> None:
        name, limit = self._info.name, self._info.limit(path)
        if path not in self._routes:
            reason = self._info.unsupported.get(path, "its hierarchy has no such route")
            raise DeviceError(f"{name} has no path {path.value!r}: {reason}")
        if order.span > limit:
            raise OutOfMemory(f"{name}: path {path.value!r} has {limit} bytes, got {order.span}")
        reach, end = self._hierarchy.reach(self._routes[path]), region + order.span
        if end > reach:
            raise UnsupportedWorkload(f"{name}: path {path.value!r} is simulated up to byte {reach}, not {end}")
        if accesses > MAX_SIMULATED_ACCESSES:
            limits = f"chases are simulated up to {MAX_SIMULATED_ACCESSES} accesses, all laps together"
            raise UnsupportedWorkload(f"{name}: {limits}, got {accesses}: use fewer laps")
        if order.count > MAX_LAP_ACCESSES:
            limits = f"a simulated lap has at most {MAX_LAP_ACCESSES} accesses"
            raise UnsupportedWorkload(f"{name}: {limits}, got {order.count}")


def _empty_route(hierarchy: Hierarchy) -> Route:
    """The route of `Path.NOTHING`: no load, and the timer of global memory (or of the first path)."""
    timed = hierarchy.routes.get(Path.GLOBAL) or next(iter(hierarchy.routes.values()), None)
    return Route(caches=(), latency=(0.0,), memory_latency=None, timer=timed.timer if timed else 0.0)
