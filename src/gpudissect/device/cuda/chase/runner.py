"""Runs one launch of chases: writes the chains, runs the kernel until all records are kept, checks chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.chase.plan import ChainTable, ChaseLaunch
from gpudissect.device.cuda.compile import Code
from gpudissect.device.cuda.context import CudaContext, LaunchBuffers
from gpudissect.device.cuda.info import clock_rate
from gpudissect.device.cuda.layout import (
    CONSTANT_BANK_BYTES,
    JOB,
    LOADS_OF_PEERS,
    POINTER_BYTES,
    PRIOR,
    PRIOR_PATHS,
    REPORT,
    TRAITS,
    UNCHAINED,
)
from gpudissect.device.cuda.links import Arenas
from gpudissect.device.cuda.memory import Arena, HostBuffer, Slots
from gpudissect.errors import DeviceError, KernelFailed
from gpudissect.trace import Array, Context, Trace
from gpudissect.workload import Chase, Path, Timing
from gpudissect.workload.digest import digest

_WRITER_THREADS = 256
_MAX_WRITER_BLOCKS = 1024  # for one chain
_TIMEOUT_S, _TIMEOUT_S_PER_ACCESS = 20.0, 5e-6
_MAX_ATTEMPTS = 3  # launches until no two blocks share an SM
SHARED_SM = f"chases meant for different SMs ran on one, {_MAX_ATTEMPTS} times over"
_LOW_32 = 0xFFFFFFFF
_EMPTY_BYTES = 1024  # of shared memory, so that the driver applies the preferred carve-out
CHAINS: Code = ("chains.cu",)


def chase_code(chase: Chase) -> Code:
    """Source and macros of the kernel of a chase."""
    macros = [TRAITS[chase.path].macro]
    if chase.before:
        macros.append("PRIOR")
        if Path.CODE in (chase.path, *(prior.path for prior in chase.before)):
            macros += ["PRIOR_CODE", f"TIMING_{chase.timing.upper()}"]
    if chase.sm is not None:
        macros.append("ON_SM")
    return ("chase.cu", *macros)


class BlocksShareSm(KernelFailed):
    """Two blocks of a launch ran on one SM: each had only a part of its caches."""


class _Addresses(NamedTuple):
    """Where the parameters and results of one run stand; `results` are in memory of the host."""

    chains: int
    starts: int  # of prior accesses by many threads: the links at which these begin
    jobs: int
    prior: int
    results: int
    done: int  # where the jobs and the prior accesses come to stand after the run, in memory of the host


@dataclass(frozen=True)
class Window:
    """Records of one window of the traces, and the reports of its blocks."""

    reports: NDArray[Any]  # a `REPORT` for each chase
    slots: NDArray[np.uint64]  # records, shape (chases, slots)
    prior_sms: tuple[int, ...] = ()  # of each of the prior accesses


@dataclass(frozen=True)
class _Run:
    """One kernel run in flight: its parameters and their addresses. Its jobs belong to one or more windows."""

    addresses: _Addresses
    jobs: NDArray[Any]
    prior: NDArray[Any]

    @property
    def parts(self) -> tuple[tuple[int, NDArray[Any]], ...]:
        """Address and content of its parameters."""
        return (self.addresses.jobs, self.jobs), (self.addresses.prior, self.prior)


@dataclass(frozen=True, eq=False)
class _Memory:
    """Memory of a launch in flight: its parameters, here and on the GPU, and the results, which are here."""

    parameters: Arena
    staged: HostBuffer
    results: HostBuffer


@dataclass(frozen=True, eq=False)
class QueuedChases:
    """A launch in flight, which `ChaseRunner.finish` awaits."""

    launch: ChaseLaunch
    base: int  # address of the chains
    runs: tuple[_Run, ...]
    carveout: int  # percent that the driver prefers
    end: Any  # event
    memory: _Memory


class ChaseRunner:
    """Runs launches of chases. `arenas` hold their chains; of textures over one, `texture_limit` bytes may be fetched.

    Up to `at_once` launches may be in flight: the host prepares the next one while the GPU runs the last.
    """

    at_once = 2

    def __init__(self, context: CudaContext, buffers: LaunchBuffers, arenas: Arenas, texture_limit: int) -> None:
        self.context, self.buffers, self.arenas, self.texture_limit = context, buffers, arenas, texture_limit
        total = context.free_memory()[1]
        buffers_of = [(HostBuffer(context), HostBuffer(context)) for _ in range(self.at_once)]
        self.slots = Slots(_Memory(Arena(context, total), *each) for each in buffers_of)
        self._textures: dict[tuple[int, int], int] = {}

    def queue(self, launch: ChaseLaunch) -> QueuedChases:
        """Queue a launch, as often as its longest trace needs."""
        with self.slots.taken() as memory:
            return self.queue_in(memory, launch)

    def queue_in(self, memory: _Memory, launch: ChaseLaunch) -> QueuedChases:
        """The same in the memory of another launch, which has ended."""
        arena = self.arenas.of(launch.first)
        base, arena.user = arena.reserve(launch.arena_bytes), self
        table, sms = ChainTable(launch, base), self.context.properties.multiprocessor_count
        runs = tuple(
            _Run(place, _jobs(launch, number, base, place), _prior(launch, place, sms))
            for number, place in enumerate(_places(launch, table, memory))
        )
        self._upload(table, runs, memory)
        self._write_chains(launch, table, runs[0].addresses)
        source, *macros = chase_code(launch.first)
        kernel = self.context.kernel(source, f"chase_{launch.first.timing}", *macros)
        preferred = kernel.configure(shared=launch.shared, carveout=launch.carveout)
        if launch.cluster > 1:
            kernel.allow_any_cluster()
        if launch.constant_region is not None:
            bank = self.context.symbol("bank", source, *macros)
            self.context.copy(bank, base + launch.constant_region, CONSTANT_BANK_BYTES)
        texture = self._texture(base) if Path.TEXTURE in launch.paths else 0
        for run in runs:
            if launch.first.flush:
                self.buffers.sweep_l2()
            if launch.through_l1:
                self._free_l1(launch.carveout)
            request = (kernel, (launch.blocks, 1), launch.threads, launch.shared, run.addresses.jobs, texture)
            self.context.launch(*request, cluster=launch.cluster)
            self.context.copy_to_host(run.addresses.done, run.addresses.jobs, run.jobs.nbytes + run.prior.nbytes)
        return QueuedChases(launch, base, runs, preferred, self.context.mark(), memory)

    def finish(self, queued: QueuedChases) -> list[Trace]:
        """Wait for a launch; the trace of every chase. Again, up to a limit, while two blocks share an SM.

        Raises `DeviceError`, also for the kernel's errors.
        """
        launch = queued.launch
        for attempt in range(_MAX_ATTEMPTS):
            if attempt:
                queued = self.queue_in(queued.memory, launch)
            accesses = sum(_accesses(run) for run in queued.runs)
            self.context.wait_for(queued.end, _TIMEOUT_S + _TIMEOUT_S_PER_ACCESS * accesses)
            windows = [self._read(launch, run, queued.memory.results) for run in queued.runs]
            if None not in windows:
                complete = [window for of_run in windows for window in of_run or ()]
                notes = {"carveout_preferred": f"{queued.carveout} %"}
                shared = (queued.base, self.context.device.name, notes)
                return [_build_trace(launch, n, complete, *shared) for n in range(len(launch.chases))]
        raise BlocksShareSm(SHARED_SM)

    def release(self) -> None:
        """Free the memory of parameters and results."""
        for memory in self.slots.all:
            for holder in (memory.parameters, memory.staged, memory.results):
                holder.release()

    def _upload(self, table: ChainTable, runs: Sequence[_Run], memory: _Memory) -> None:
        """Queue one copy of all parameters, from memory that the driver need not copy first."""
        start = runs[0].addresses.chains
        size = runs[-1].addresses.prior + runs[-1].prior.nbytes - start
        staged = self.context.host_bytes(memory.staged.reserve(size), size)
        table.write(staged, start)
        for address, part in ((at, part) for run in runs for at, part in run.parts):
            staged[address - start : address - start + part.nbytes] = part.view(np.uint8)
        self.context.upload(start, staged)

    def _write_chains(self, launch: ChaseLaunch, table: ChainTable, addresses: _Addresses) -> None:
        """Queue what writes the chains of a launch."""
        address = addresses.chains
        if launch.first.path not in UNCHAINED:
            blocks = -(-int(table.records["count"].max()) // _WRITER_THREADS)
            grid = (min(blocks, _MAX_WRITER_BLOCKS), len(table.records))
            for name in ("write_chains", "mark_picks") if table.records["pick_count"].any() else ("write_chains",):
                self.context.launch(self.context.kernel(*CHAINS, name), grid, _WRITER_THREADS, 0, address)
        for number, begin in _starts(launch, addresses).items():
            kernel, threads = self.context.kernel(*CHAINS, "write_starts"), launch.first.before[number].threads
            self.context.launch(kernel, (1, 1), _WRITER_THREADS, 0, address, launch.prior[number], begin, threads)

    def _read(self, launch: ChaseLaunch, run: _Run, results: HostBuffer) -> list[Window] | None:
        """The windows of one run; None if two blocks shared an SM."""
        size, sm = launch.result_bytes, launch.first.sm  # numbers of SMs may have gaps
        done = results.content(run.addresses.done, run.jobs.nbytes + run.prior.nbytes)
        jobs, prior = done[: run.jobs.nbytes].view(JOB), done[run.jobs.nbytes :].view(PRIOR)
        if sm is not None and not jobs["taken"][0]:
            raise DeviceError(f"no block came to SM {sm}: this device numbers its SMs otherwise, or shares them")
        rows = results.content(run.addresses.results, len(run.jobs) * size).reshape(len(run.jobs), size)
        reports = np.ascontiguousarray(rows[:, : REPORT.itemsize]).view(REPORT)[:, 0]
        slots = np.ascontiguousarray(rows[:, REPORT.itemsize :]).view(np.uint64)
        if sm is not None and not prior["done"].all():
            missing = int(run.prior["sm"][np.argmin(prior["done"])])
            raise DeviceError(f"no block came to SM {missing}: SM numbers of this device have gaps, or it shares SMs")
        if prior["broken"].any() or not prior["done"].all():
            raise KernelFailed("chain broken: accesses before a chase did not end where they began")
        prior_sms = tuple(prior["actual_sm"].tolist())
        if _blocks_share_sm(launch, reports[run.jobs["laps"] > 0], run.prior, prior_sms):
            return None
        count = len(launch.chases)
        starts = range(0, len(run.jobs), count)
        return [Window(reports[i : i + count], slots[i : i + count], prior_sms) for i in starts]

    def _free_l1(self, carveout: int) -> None:
        """Queue an empty block for each SM with another carve-out: a change of the carve-out frees the data storage.

        Otherwise, lines of texture fetches of earlier kernels keep theirs: on H200s, more than 90 % of the loads of
        footprints that fit then missed on some SMs (docs/l1.md).
        """
        kernel = self.context.kernel(*CHAINS, "empty")
        kernel.configure(shared=_EMPTY_BYTES, carveout=0 if carveout >= 50 else 100)
        self.context.launch(kernel, (self.context.properties.multiprocessor_count, 1), 1, _EMPTY_BYTES)

    def _texture(self, base: int) -> int:
        key = (base, min(self.arenas.near.size, self.texture_limit))
        if key not in self._textures:
            self._textures[key] = self.context.create_texture(*key)
        return self._textures[key]


def _places(launch: ChaseLaunch, table: ChainTable, memory: _Memory) -> list[_Addresses]:
    """Addresses of the parameters and results of every run of a launch."""
    count, runs = len(launch.chases) * launch.at_once, -(-launch.windows // launch.at_once)
    starts = sum(POINTER_BYTES * accesses.threads for accesses in launch.first.before)
    jobs, prior, results = count * JOB.itemsize, len(launch.prior) * PRIOR.itemsize, count * launch.result_bytes
    address = memory.parameters.reserve(table.size + starts + runs * (jobs + prior))
    host = memory.results.reserve(runs * (results + jobs + prior))
    ends = host + runs * results
    first = address + table.size + starts
    begins = [first + number * (jobs + prior) for number in range(runs)]
    return [
        _Addresses(
            address, address + table.size, begin, begin + jobs, host + number * results, ends + number * (jobs + prior)
        )
        for number, begin in enumerate(begins)
    ]


def _accesses(run: _Run) -> int:
    """Accesses of a window, one after the other."""
    own, others = (records["count"].astype(np.int64) * records["laps"] for records in (run.jobs, run.prior))
    return int(own.max() + others.sum())


def _blocks_share_sm(
    launch: ChaseLaunch, reports: NDArray[Any], prior: NDArray[Any], prior_sms: tuple[int, ...]
) -> bool:
    """Whether two blocks that need an SM each ran on one."""
    sms = reports["sm"]
    places = {(launch.first.sm or 0, int(sms[0])), *zip(prior["sm"].tolist(), prior_sms, strict=True)}
    if len(set(sms.tolist())) < sms.size or len({sm for _, sm in places}) < len(places):
        return True
    return launch.cluster > 1 and launch.first.peer != 0 and bool(reports["peer_sm"][0] == sms[0])


def _jobs(launch: ChaseLaunch, run: int, base: int, addresses: _Addresses) -> NDArray[Any]:
    """The jobs of one run, window after window; a block with nothing left to record has no laps."""
    chases = len(launch.chases)
    jobs = np.zeros(chases * launch.at_once, JOB)
    for block in range(jobs.size):
        job, (window, number) = jobs[block], divmod(block, chases)
        chase, done = launch.chases[number], (run * launch.at_once + window) * launch.slots
        if done >= chase.records:
            continue
        per_lap, end = chase.records // chase.laps, min(chase.records, done + launch.slots)
        unmarked = chase.path is Path.NOTHING and chase.timing is Timing.EACH  # every access is a record
        count, laps = per_lap if unmarked else chase.order.count, chase.warmup + -(-end // per_lap)
        if _records_every_access(chase):  # the last record ends the run, even within a lap
            count, laps = chase.warmup * per_lap + end, 1
        job["start"] = ChainTable.start(addresses.chains, number)
        job["results"] = addresses.results + block * launch.result_bytes
        job["slots_offset"], job["slots"] = launch.slots_offset, launch.slots
        job["count"], job["laps"], job["first"] = count, laps, -(chase.warmup * per_lap + done)
        job["one"], job["peer"], job["sm"] = 1, chase.peer, chase.sm or 0
        job["prior"], job["prior_count"] = addresses.prior, len(launch.prior)
        if TRAITS[chase.path].chain_in_shared:
            job["chain"], job["chain_bytes"] = base + launch.chains[number].region, launch.chains[number].size
        if chase.bounds is not None:
            job["hit_max"], job["miss_min"], job["miss_max"] = astuple(chase.bounds)
    return jobs


def _records_every_access(chase: Chase) -> bool:
    return chase.timing is Timing.EACH and chase.picks is None


def _prior(launch: ChaseLaunch, addresses: _Addresses, sms: int) -> NDArray[Any]:
    """The accesses before the chase, none of them done yet."""
    records = np.zeros(len(launch.prior), PRIOR)
    for record, chain, accesses in zip(records, launch.prior, launch.first.before, strict=False):
        record["starts"] = ChainTable.start(addresses.chains, chain)
        record["count"], record["laps"], record["threads"] = accesses.order.count, accesses.laps, accesses.threads
        record["path"] = PRIOR_PATHS.index(LOADS_OF_PEERS.get(accesses.path, accesses.path))
        record["warp"], record["sm"] = accesses.warp, (accesses.sm + (launch.first.sm or 0)) % sms
    for number, begin in _starts(launch, addresses).items():
        records["starts"][number] = begin
    return records


def _starts(launch: ChaseLaunch, addresses: _Addresses) -> dict[int, int]:
    """Where the links come to stand at which the threads begin, by the number of prior accesses of many threads."""
    shared = {n: each.threads for n, each in enumerate(launch.first.before) if each.threads > 1}
    offsets = POINTER_BYTES * np.cumsum([0, *shared.values()])
    return dict(zip(shared, (addresses.starts + offsets).tolist(), strict=False))


def _build_trace(
    launch: ChaseLaunch, number: int, windows: Sequence[Window], base: int, device: str, notes: Mapping[str, str]
) -> Trace:
    """The trace of chase `number`; chains are at `base`. Raises `KernelFailed` if it left its chain or its SM."""
    chase = launch.chases[number]
    windows = windows[: -(-chase.records // launch.slots)]
    records = np.concatenate([window.slots[number] for window in windows])[: chase.records]
    reports = np.array([window.reports[number] for window in windows])
    ends = np.minimum(chase.records, launch.slots * np.arange(1, 1 + len(windows)))
    ends_lap = (ends % (chase.records // chase.laps) == 0) | (not _records_every_access(chase))
    if (reports["start"] != reports["end"])[ends_lap].any():
        raise KernelFailed(f"chain broken: a chase on path {chase.path} did not end where it began")
    sms = sorted(set(reports["sm"].tolist()))
    if chase.sm is not None and sms != [chase.sm]:
        raise KernelFailed(f"a chase meant for SM {chase.sm} ran on SM {' and '.join(map(str, sms))}")
    origin = launch.chains[number].first_link(base) + int(reports["base"][0])
    context = Context(
        device=device,
        clock_hz=clock_rate(reports["cycles"], reports["ns"]),
        sm=sms[0] if len(sms) == 1 else None,
        address=origin if TRAITS[chase.path].absolute and len(launch.chases) == 1 else None,
        notes={**notes, **_notes(launch, windows, reports)},
    )
    return Trace(digest(chase), _arrays(chase, records, origin), context).completed(chase)


def _arrays(chase: Chase, records: NDArray[np.uint64], origin: int) -> dict[str, Array]:
    """The measured arrays of a trace; `origin` is the link to offset 0."""
    low = (records & np.uint64(_LOW_32)).astype(np.int64)
    high = (records >> np.uint64(32)).astype(np.int64)
    match chase.timing:
        case Timing.EACH:
            if chase.path is not Path.NOTHING:
                offsets = chase.order.offsets()
                picks = slice(None) if chase.picks is None else np.array(chase.picks)
                _check_links(chase.path, low, np.roll(offsets, -1)[picks], origin)
            return {"cycles": high}
        case Timing.LAP:
            return {"cycles": records.astype(np.int64)}
        case Timing.COUNT:
            return {"counts": np.stack([low, high, chase.order.count - low - high], axis=1)}


def _check_links(path: Path, loaded: Array, offsets: Array, origin: int) -> None:
    """Compare the links that were loaded (their low 32 bits, lap after lap) with those to `offsets`."""
    traits = TRAITS[path]
    links = (origin + (offsets >> traits.shift) | traits.mark) & _LOW_32
    if not (loaded.reshape(-1, links.size) == links).all():
        raise KernelFailed(f"chain broken: a chase on path {path} left its chain")


def _notes(launch: ChaseLaunch, windows: Sequence[Window], reports: NDArray[Any]) -> dict[str, str]:
    """Conditions under which the trace was taken."""
    sms, peers = (" ".join(map(str, sorted(set(reports[name].tolist())))) for name in ("sm", "peer_sm"))
    notes = {"carveout_requested": f"{launch.carveout} %", "shared_bytes": str(launch.shared)}
    if len(windows) > 1:
        notes["windows"] = str(len(windows))
    if " " in sms:
        notes["sms"] = sms
    if launch.cluster > 1:
        notes |= {"peer_sm": peers, "cluster_size": str(launch.cluster)}
    if prior := {window.prior_sms for window in windows if window.prior_sms}:
        notes["prior_access_sms"] = "; ".join(" ".join(map(str, one)) for one in sorted(prior))
    return notes
