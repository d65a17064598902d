"""Runs one launch of chases: writes the chains, runs the kernel once for every window of the records, checks chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.chase.plan import ChaseLaunch
from gpudissect.device.cuda.context import CudaContext, Kernel, LaunchBuffers
from gpudissect.device.cuda.info import clock_rate
from gpudissect.device.cuda.layout import (
    CHAIN,
    CONSTANT_BANK_BYTES,
    JOB,
    POINTER_BYTES,
    PRIOR,
    PRIOR_PATHS,
    REPORT,
    TRAITS,
    UNCHAINED,
    ChainKind,
    first_link,
)
from gpudissect.device.cuda.memory import Arena
from gpudissect.errors import DeviceError, KernelFailed
from gpudissect.trace import Array, Context, Trace
from gpudissect.workload import Chase, Explicit, Path, Sequential, Shuffled, Timing
from gpudissect.workload.digest import digest
from gpudissect.workload.order import feistel_half_bits

_WRITER_THREADS = 256
_MAX_WRITER_BLOCKS = 1024  # for one chain
_TIMEOUT_S, _TIMEOUT_S_PER_ACCESS = 20.0, 5e-6
_MAX_ATTEMPTS = 3  # launches until no two blocks share an SM
_LOW_32 = 0xFFFFFFFF
_FIRST_OFFSET = CHAIN.fields["first"][1] if CHAIN.fields else 0


class BlocksShareSm(KernelFailed):
    """Two blocks of a launch ran on one SM: each had only a part of its caches."""


class _Addresses(NamedTuple):
    """Addresses in the launch buffers."""

    chains: int
    jobs: int
    prior: int
    starts: int  # of prior accesses by many threads: the links at which these begin
    results: int


@dataclass(frozen=True)
class Window:
    """Results of one run of the kernel."""

    reports: NDArray[Any]  # a `REPORT` for each chase
    slots: NDArray[np.uint64]  # records, shape (chases, slots)
    prior_sms: tuple[int, ...] = ()  # of each of the prior accesses


@dataclass(eq=False)
class ChaseRunner:
    """Runs launches of chases. `arena` holds their chains."""

    context: CudaContext
    buffers: LaunchBuffers
    arena: Arena
    texture_limit: int  # bytes
    _textures: dict[tuple[int, int], int] = field(default_factory=dict)

    def run(self, launch: ChaseLaunch) -> dict[int, Trace]:
        """Run a launch, as often as its longest trace needs; the trace of every chase by its index."""
        base = self.arena.reserve(launch.arena_bytes)
        table = ChainTable(launch, base)  # must outlive its copy
        addresses = self._write_chains(launch, table)
        macros = _macros(launch)
        kernel = self.context.kernel("chase.cu", f"chase_{launch.first.timing}", *macros)
        preferred = kernel.configure(shared=launch.shared, carveout=launch.carveout)
        if launch.cluster > 1:
            kernel.allow_any_cluster()
        if launch.constant_region is not None:
            bank = self.context.symbol("bank", "chase.cu", *macros)
            self.context.copy(bank, base + launch.constant_region, CONSTANT_BANK_BYTES)
        texture = self._texture(base) if Path.TEXTURE in launch.paths else 0
        windows = [self._run_window(launch, n, base, addresses, kernel, texture) for n in range(launch.windows)]
        notes = {"carveout_preferred": f"{preferred} %"}
        name = self.context.device.name
        traces = (_build_trace(launch, n, windows, base, name, notes) for n in range(len(launch.chases)))
        return dict(zip(launch.indices, traces, strict=True))

    def release(self) -> None:
        """Free the memory of the chains."""
        self.arena.release()

    def _write_chains(self, launch: ChaseLaunch, table: ChainTable) -> _Addresses:
        """Queue what writes the chains of a launch, and make room for its jobs and results."""
        count = len(launch.chases)
        starts = sum(POINTER_BYTES * accesses.threads for accesses in launch.first.before)
        prior = len(launch.prior) * PRIOR.itemsize
        sizes = (table.size, count * JOB.itemsize, prior, starts, count * launch.result_bytes)
        address = self.buffers.reserve(sum(sizes))
        addresses = _Addresses(*(address + sum(sizes[:part]) for part in range(len(sizes))))
        if launch.first.path not in UNCHAINED:
            self.context.upload(address, table.content(address))
            blocks = -(-int(table.records["count"].max()) // _WRITER_THREADS)
            grid = (min(blocks, _MAX_WRITER_BLOCKS), len(table.records))
            for name in ("write_chains", "mark_picks") if table.records["pick_count"].any() else ("write_chains",):
                self.context.launch(self.context.kernel("chains.cu", name), grid, _WRITER_THREADS, 0, address)
        for number, begin in _starts(launch, addresses).items():
            kernel, threads = self.context.kernel("chains.cu", "write_starts"), launch.first.before[number].threads
            self.context.launch(kernel, (1, 1), _WRITER_THREADS, 0, address, launch.prior[number], begin, threads)
        return addresses

    def _run_window(
        self, launch: ChaseLaunch, number: int, base: int, addresses: _Addresses, kernel: Kernel, texture: int
    ) -> Window:
        """Run the kernel for one window; again, up to a limit, while two blocks share an SM."""
        jobs, prior = _jobs(launch, number, base, addresses), _prior(launch, addresses)
        own, others = (records["count"].astype(np.int64) * records["laps"] for records in (jobs, prior))
        accesses = own.max() + others.sum()
        request = (kernel, (launch.blocks, 1), launch.threads, launch.shared, addresses.jobs, texture)
        size, sm = launch.result_bytes, launch.first.sm  # numbers of SMs may have gaps
        for _ in range(_MAX_ATTEMPTS):
            self.context.upload(addresses.jobs, jobs)
            if prior.size:
                self.context.upload(addresses.prior, prior)
            if launch.first.flush:
                self.buffers.sweep_l2()
            self.context.launch(*request, cluster=launch.cluster)
            self.context.wait(_TIMEOUT_S + _TIMEOUT_S_PER_ACCESS * int(accesses))
            if sm is not None and not self.context.download(addresses.jobs, JOB.itemsize).view(JOB)["taken"][0]:
                raise DeviceError(f"no block came to SM {sm}: this device numbers its SMs otherwise, or shares them")
            rows = self.context.download(addresses.results, len(jobs) * size).reshape(len(jobs), size)
            reports = np.ascontiguousarray(rows[:, : REPORT.itemsize]).view(REPORT)[:, 0]
            slots = np.ascontiguousarray(rows[:, REPORT.itemsize :]).view(np.uint64)
            prior_sms = self._prior_sms(addresses, prior)
            if not _blocks_share_sm(launch, reports[jobs["laps"] > 0], prior, prior_sms):
                return Window(reports, slots, prior_sms)
        raise BlocksShareSm(f"chases meant for different SMs ran on one, {_MAX_ATTEMPTS} times over")

    def _prior_sms(self, addresses: _Addresses, prior: NDArray[Any]) -> tuple[int, ...]:
        """The SMs that prior accesses ran on. Raises `KernelFailed` if one left its chain."""
        if not prior.size:
            return ()
        done = self.context.download(addresses.prior, prior.nbytes).view(PRIOR)
        if done["broken"].any() or not done["done"].all():
            raise KernelFailed("chain broken: accesses before a chase did not end where they began")
        return tuple(done["actual_sm"].tolist())

    def _texture(self, base: int) -> int:
        key = (base, min(self.arena.size, self.texture_limit))
        if key not in self._textures:
            self._textures[key] = self.context.create_texture(*key)
        return self._textures[key]


def _macros(launch: ChaseLaunch) -> tuple[str, ...]:
    """What ``chase.cu`` is compiled with."""
    first = launch.first
    macros = [TRAITS[first.path].macro]
    if launch.prior:
        macros.append("PRIOR")
        if Path.CODE in launch.paths:
            macros += ["PRIOR_CODE", f"TIMING_{first.timing.upper()}"]
    elif first.sm is not None:
        macros.append("ON_SM")
    return tuple(macros)


def _blocks_share_sm(
    launch: ChaseLaunch, reports: NDArray[Any], prior: NDArray[Any], prior_sms: tuple[int, ...]
) -> bool:
    """Whether two blocks that need an SM each ran on one."""
    sms = reports["sm"]
    places = {(0, int(sms[0])), *zip(prior["sm"].tolist(), prior_sms, strict=True)}
    if len(set(sms.tolist())) < sms.size or len({sm for _, sm in places}) < len(places):
        return True
    return launch.cluster > 1 and launch.first.peer != 0 and bool(reports["peer_sm"][0] == sms[0])


def _jobs(launch: ChaseLaunch, window: int, base: int, addresses: _Addresses) -> NDArray[Any]:
    """The jobs of one window; a block with nothing left to record has no laps."""
    jobs = np.zeros(len(launch.chases), JOB)
    done = window * launch.slots
    for block, (chase, job) in enumerate(zip(launch.chases, jobs, strict=True)):
        if done >= chase.records:
            continue
        per_lap = chase.records // chase.laps
        timed_laps = -(-min(chase.records, done + launch.slots) // per_lap)
        unmarked = chase.path is Path.NOTHING and chase.timing is Timing.EACH  # every access is a record
        job["start"] = ChainTable.start(addresses.chains, block)
        job["results"] = addresses.results + block * launch.result_bytes
        job["slots_offset"], job["slots"] = launch.slots_offset, launch.slots
        job["count"] = per_lap if unmarked else chase.order.count
        job["laps"], job["first"] = chase.warmup + timed_laps, -(chase.warmup * per_lap + done)
        job["one"], job["peer"], job["sm"] = 1, chase.peer, chase.sm or 0
        job["prior"], job["prior_count"] = addresses.prior, len(launch.prior)
        if TRAITS[chase.path].chain_in_shared:
            job["chain"], job["chain_bytes"] = base + launch.chains[block].region, launch.chains[block].size
        if chase.bounds is not None:
            job["hit_max"], job["miss_min"], job["miss_max"] = astuple(chase.bounds)
    return jobs


def _prior(launch: ChaseLaunch, addresses: _Addresses) -> NDArray[Any]:
    """The accesses before the chase, none of them done yet."""
    records = np.zeros(len(launch.prior), PRIOR)
    for record, chain, accesses in zip(records, launch.prior, launch.first.before, strict=False):
        record["starts"] = ChainTable.start(addresses.chains, chain)
        record["count"], record["laps"], record["threads"] = accesses.order.count, accesses.laps, accesses.threads
        record["path"] = PRIOR_PATHS.index(accesses.path)
        record["warp"], record["sm"] = accesses.warp, accesses.sm
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
    if (reports["start"] != reports["end"]).any():
        raise KernelFailed(f"chain broken: a chase on path {chase.path} did not end where it began")
    sms = sorted(set(reports["sm"].tolist()))
    if chase.sm is not None and sms != [chase.sm]:
        raise KernelFailed(f"a chase meant for SM {chase.sm} ran on SM {' and '.join(map(str, sms))}")
    origin = first_link(chase.path, base, launch.chains[number].region) + int(reports["base"][0])
    context = Context(
        device=device,
        clock_hz=clock_rate(reports["cycles"], reports["ns"]),
        sm=sms[0] if len(sms) == 1 else None,
        notes={**notes, **_notes(launch, windows, reports)},
    )
    return Trace(workload=digest(chase), arrays=_arrays(chase, records, origin), context=context)


def _arrays(chase: Chase, records: NDArray[np.uint64], origin: int) -> dict[str, Array]:
    """The arrays of a trace; `origin` is the link to offset 0."""
    low = (records & np.uint64(_LOW_32)).astype(np.int64)
    high = (records >> np.uint64(32)).astype(np.int64)
    match chase.timing:
        case Timing.EACH:
            offsets = chase.order.offsets()
            picks = slice(None) if chase.picks is None else np.array(chase.picks)
            if chase.path is not Path.NOTHING:
                _check_links(chase.path, low, np.roll(offsets, -1)[picks], origin)
            return {"offsets": np.tile(offsets[picks], chase.laps), "cycles": high}
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


class ChainTable:
    """The chains of one launch as one piece of memory: `CHAIN` records, then tables aligned to 8 bytes."""

    def __init__(self, launch: ChaseLaunch, base: int) -> None:
        self.records = np.zeros(len(launch.chains), CHAIN)
        self._tables: list[NDArray[Any]] = []
        self._pointers: list[tuple[int, str, int]] = []  # record, field, offset of the table that it points to
        self.size = self.records.nbytes
        for number, chain in enumerate(launch.chains):
            if chain.path in UNCHAINED:
                continue
            record, traits = self.records[number], TRAITS[chain.path]
            record["region"] = base + chain.region
            record["origin"] = first_link(chain.path, base, chain.region)
            record["link_bytes"], record["shift"] = min(chain.path.word, POINTER_BYTES), traits.shift
            record["mark"] = traits.mark if chain.timed and launch.first.timing is Timing.EACH else 0
            record["count"] = chain.order.count
            match chain.order:
                case Explicit() as order:
                    record["kind"] = ChainKind.EXPLICIT
                    self._append(number, "table", order.offsets())
                case Shuffled() as order:
                    record["kind"], record["stride"], record["start"] = ChainKind.SHUFFLED, order.stride, order.start
                    record["seed"], record["half"] = order.seed, feistel_half_bits(order.count)
                case Sequential() as order:
                    record["kind"], record["stride"], record["start"] = ChainKind.SEQUENTIAL, order.stride, order.start
            if chain.picks is not None:
                record["pick_count"] = len(chain.picks)
                self._append(number, "picks", np.array(chain.picks, np.uint32))

    @staticmethod
    def start(address: int, number: int) -> int:
        """Address at which the link to the first position of a chain stands, given the address of the table."""
        return address + number * CHAIN.itemsize + _FIRST_OFFSET

    def content(self, address: int) -> NDArray[np.uint8]:
        """Bytes to upload to `address`; they stay where they are as long as this table."""
        for number, name, offset in self._pointers:
            self.records[number][name] = address + offset
        padded = [np.pad(table.view(np.uint8), (0, -table.nbytes % 8)) for table in self._tables]
        self._content = np.concatenate([self.records.view(np.uint8), *padded])
        return self._content

    def _append(self, number: int, field: str, table: NDArray[Any]) -> None:
        self._pointers.append((number, field, self.size))
        self._tables.append(table)
        self.size += -(-table.nbytes // 8) * 8
