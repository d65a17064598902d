"""`SimulatedGpu`: a device made of a known memory hierarchy, so that what is inferred can be held against truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from gpudissect import __version__
from gpudissect.device.base import Device
from gpudissect.device.simulated.launches import launch_methods, run_launch
from gpudissect.device.simulated.memory import Memory, region, seeds
from gpudissect.device.simulated.noise import Noise
from gpudissect.device.simulated.sm import run_mix
from gpudissect.device.simulated.streams import STREAMED, Streams
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.errors import DeviceError, OutOfMemory, UnsupportedWorkload, UsageError
from gpudissect.simulation.cache.check import check_hierarchy
from gpudissect.simulation.cache.geometry import Hierarchy, Route
from gpudissect.simulation.cache.models import HierarchyModel
from gpudissect.simulation.sm.description import Processor
from gpudissect.trace import Context, Trace
from gpudissect.workload import Chase, Instruction, Launch, Mix, Order, Path, Stream, Workload
from gpudissect.workload.digest import digest

DEFAULT_LIMIT = 1 << 34  # bytes of a path for which the hierarchy names none
MAX_COUNT = 1 << 24  # positions of a ring: 128 MiB of offsets


class SimulatedGpu(Device):
    """A GPU that exists only as a `Hierarchy`, and a `Processor` if it runs more than chases.

    Keeps `device.base.Device`.

    Every chase starts with all caches and TLBs cold. A trace depends on the GPU, the noise and the workload alone, not
    on what ran before it or beside it.

    Args:
        hierarchy: the truth.
        spec: the name it was opened by.
        name: the GPU's name.
        facts: what its driver would say, see `DeviceInfo`.
        unsupported: paths it lacks, each with the reason.
        noise: of its timings; None for the default `Noise()`.
        catalogue: name of the catalogue entry it comes from.
        processor: its SMs, and the bandwidths behind them; None for a GPU that runs chases only.

    Raises:
        DeviceError: for a hierarchy that cannot be.

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
        self._truth = hierarchy
        self._routes = {Path.NOTHING: _empty_window(hierarchy), **hierarchy.routes}
        try:
            check_hierarchy(hierarchy)
        except UsageError as error:
            raise DeviceError(f"{name}: {error}") from error
        self._noise = Noise() if noise is None else noise
        self._info = DeviceInfo(
            spec=spec,
            name=name,
            origin=Origin.SIMULATED,
            sm_count=hierarchy.sm_count,
            span_limits={path: hierarchy.limits.get(path, DEFAULT_LIMIT) for path in self._routes},
            unsupported=dict(unsupported),
            facts={"clock_hz": hierarchy.clock_hz, **_room(processor), **facts},
            environment={"simulator": f"gpudissect {__version__}"},
            catalogue=catalogue,
            streams=tuple(path for path in STREAMED if path in hierarchy.routes) if processor else (),
            instructions=tuple(each for each in Instruction if each in processor.operations) if processor else (),
            launch_methods=launch_methods(processor.launches) if processor else (),
        )
        self._processor = processor
        self._memories: dict[int, Memory] = {}
        self._context = Context(device=name, clock_hz=hierarchy.clock_hz, sm=0)

    @property
    def info(self) -> DeviceInfo:
        """What is known of it before anything is measured."""
        return self._info

    @property
    def hierarchy(self) -> Hierarchy:
        """The truth."""
        return self._truth

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Run a batch, one after the other; gives one trace a workload, in the order of the batch.

        Raises `DeviceError` for a path this GPU lacks or a workload that cannot be simulated, `OutOfMemory` for
        a chase that spans more than its path has.
        """
        return [self._run(workload) for workload in batch]

    def _memory(self, sms: int) -> Memory:
        """Memory with the private caches of so many SMs. Made when it is first needed: it loads the compiler."""
        if sms not in self._memories:
            model = HierarchyModel(replace(self._truth, routes=self._routes), sms=sms)
            self._memories[sms] = Memory(model, self._noise)
        return self._memories[sms]

    def _run(self, workload: Workload) -> Trace:
        if not isinstance(workload, Chase):
            return self._throughput(workload)
        return self._chase(workload)

    def _throughput(self, workload: Stream | Mix | Launch) -> Trace:
        """Run what is about many warps: on the SM, not on the hierarchy alone."""
        name, processor = self._info.name, self._processor
        if processor is None:
            kind = type(workload).__name__
            raise DeviceError(f"{name} runs chases only, no {kind}: its GPU file does not describe its processor")
        key = digest(workload)
        seed, _, _ = seeds(self._noise.seed, key)
        match workload:
            case Mix():
                arrays = run_mix(workload, processor, self._truth, self._noise, seed, name)
            case Launch():
                arrays = run_launch(workload, processor.launches, self._noise, seed, name)
            case Stream():
                if workload.path not in self._info.streams:
                    raise DeviceError(f"{name} is simulated and streams on no path {workload.path.value!r}")
                arrays = self._streams(processor).run(workload, self._noise, seed)
        return Trace(key, arrays, replace(self._context, sm=None))

    def _streams(self, processor: Processor) -> Streams:
        facts, limits = self._info.facts, self._info.span_limits
        of_block = int(facts.get("shared_per_block", limits.get(Path.SHARED, 0)))
        of_sm = max(of_block, int(facts.get("shared_per_sm", of_block)))
        return Streams(processor, self._truth, self._info.name, (of_sm, of_block), limits)

    def _chase(self, workload: Chase) -> Trace:
        farthest = max((turn.sm for turn in workload.before), default=0)
        if farthest >= self._info.sm_count:
            raise UnsupportedWorkload(
                f"{self._info.name} has {self._info.sm_count} SMs: there is no SM {farthest} beside SM 0"
            )
        if workload.sm is not None and workload.sm >= self._info.sm_count:
            raise UnsupportedWorkload(f"{self._info.name} has {self._info.sm_count} SMs: there is no SM {workload.sm}")
        if workload.path is Path.CLUSTER and workload.peer >= self._truth.cluster_size:
            raise UnsupportedWorkload(f"{self._info.name} has clusters of {self._truth.cluster_size} blocks: "
                        f"there is no rank {workload.peer}")  # fmt: skip
        memory = self._memory(1 + farthest)
        for path, order in workload.chains:
            self._check(path, order, memory, region(workload, path))
        key, route = digest(workload), self._routes[workload.path]
        context = self._context if workload.sm is None else replace(self._context, sm=workload.sm)
        if workload.path is not Path.CLUSTER:
            return Trace(key, memory.run(workload, key, route.timer), context)
        rank = workload.peer
        farther = route.latency[min(rank, len(route.latency) - 1)] - route.latency[0]
        notes = {"peer_sm": str(rank), "cluster_size": str(self._truth.cluster_size)}
        arrays = memory.run(workload, key, route.timer, farther)
        return Trace(key, arrays, replace(context, notes=notes))

    def _check(self, path: Path, order: Order, memory: Memory, region: int) -> None:
        name = self._info.name
        if path not in self._routes:
            reason = self._info.unsupported.get(path, "its hierarchy has no such route")
            raise DeviceError(f"{name} has no path {path.value!r}: {reason}")
        if order.span > self._info.limit(path):
            raise OutOfMemory(f"{name}: path {path.value!r} has {self._info.limit(path)} bytes, asked for {order.span}")
        reach = memory.reach(path)
        if region + order.span > reach:
            raise UnsupportedWorkload(
                f"{name}: path {path.value!r} is simulated up to byte {reach}, not {region + order.span}"
            )
        if order.count > MAX_COUNT:
            raise UnsupportedWorkload(
                f"{name}: a simulated lap has at most {MAX_COUNT} accesses, asked for {order.count}"
            )


def _room(processor: Processor | None) -> dict[str, int | float | str]:
    """What `DeviceInfo.facts` says an SM has room for."""
    if processor is None:
        return {}
    return {"blocks_per_sm": processor.blocks, "threads_per_block": processor.block_size}


def _empty_window(hierarchy: Hierarchy) -> Route:
    """The route of `Path.NOTHING`: no load, and the timer of global memory (or of the first path there is)."""
    timed = hierarchy.routes.get(Path.GLOBAL) or next(iter(hierarchy.routes.values()), None)
    return Route(caches=(), latency=(0.0,), memory_latency=None, timer=timed.timer if timed else 0.0)
